"""assay/0: Gaps in a clinic's day (intervals, clock times)."""

# --- prompt ---


def free_slots(opening: str, bookings: list[str], minutes: int) -> list[str]:
    """Find the gaps in a clinic's day that are long enough for an appointment.

    A span is written "HH:MM-HH:MM" on a 24-hour clock, in ASCII digits. It starts before it
    ends, and the latest possible end is "24:00". `opening` is the span in which the clinic is
    open. `bookings` are the spans already taken, in any order; they may overlap each other,
    touch, or reach outside the opening hours.

    Return every gap inside the opening hours that lasts at least `minutes` minutes, as spans,
    earliest first. Raise ValueError for a malformed span and for `minutes` below 1.

    >>> free_slots("09:00-12:00", ["11:00-11:45", "09:30-10:00"], 30)
    ['09:00-09:30', '10:00-11:00']
    """
    # --- solution ---
    if minutes < 1:
        raise ValueError("an appointment lasts at least a minute")
    first, last = parse_span(opening)
    taken = [(last, last)]
    for start, end in map(parse_span, bookings):
        taken.append((min(max(start, first), last), min(max(end, first), last)))
    slots = []
    cursor = first
    for start, end in merge_spans(taken):
        if start - cursor >= minutes:
            slots.append(format_span(cursor, start))
        cursor = end
    return slots


def parse_clock(text: str) -> int:
    """Return the minutes since midnight of a time such as "09:30"."""
    digits = text[:2] + text[3:]
    if len(text) != 5 or text[2] != ":" or not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"not a clock time: {text!r}")
    hours, minutes = int(text[:2]), int(text[3:])
    if minutes > 59 or hours * 60 + minutes > 24 * 60:
        raise ValueError(f"no such time of day: {text!r}")
    return hours * 60 + minutes


def parse_span(text: str) -> tuple[int, int]:
    """Return the two ends of a span in minutes since midnight."""
    start, _, end = text.partition("-")
    span = (parse_clock(start), parse_clock(end))
    if span[0] >= span[1]:
        raise ValueError(f"a span must start before it ends: {text!r}")
    return span


def merge_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join the spans that overlap or touch, and sort the result."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def format_span(start: int, end: int) -> str:
    """Write two times in minutes since midnight as a span."""
    return f"{start // 60:02d}:{start % 60:02d}-{end // 60:02d}:{end % 60:02d}"


# --- test ---
def check(candidate):
    def rejects(*args):
        try:
            candidate(*args)
        except ValueError:
            return True
        return False

    assert candidate("09:00-12:00", ["11:00-11:45", "09:30-10:00"], 30) == ["09:00-09:30", "10:00-11:00"]
    assert candidate("09:00-12:00", ["11:00-11:45", "09:30-10:00"], 15) == [
        "09:00-09:30",
        "10:00-11:00",
        "11:45-12:00",
    ]
    assert candidate("08:05-16:20", [], 60) == ["08:05-16:20"]
    assert candidate("08:00-09:00", [], 61) == []
    assert candidate("08:00-09:00", [], 60) == ["08:00-09:00"]
    assert candidate("09:00-17:00", ["08:00-09:30", "16:30-18:00"], 10) == ["09:30-16:30"]
    assert candidate("09:00-17:00", ["07:00-09:00", "17:00-19:00"], 10) == ["09:00-17:00"]
    assert candidate("09:00-17:00", ["07:00-09:01", "16:59-19:00"], 10) == ["09:01-16:59"]
    assert candidate("09:00-17:00", ["06:00-20:00"], 1) == []
    assert candidate("10:00-14:00", ["10:30-13:00", "11:00-11:30"], 30) == ["10:00-10:30", "13:00-14:00"]
    assert candidate("10:00-14:00", ["11:00-12:00", "12:00-13:00", "10:59-11:01"], 1) == [
        "10:00-10:59",
        "13:00-14:00",
    ]
    assert candidate("10:00-14:00", ["11:00-12:00", "12:01-13:00"], 1) == [
        "10:00-11:00",
        "12:00-12:01",
        "13:00-14:00",
    ]
    assert candidate("10:00-14:00", ["10:00-10:30", "11:00-12:00", "11:30-13:00", "11:40-11:50"], 15) == [
        "10:30-11:00",
        "13:00-14:00",
    ]
    assert candidate("00:00-24:00", ["00:00-23:59"], 1) == ["23:59-24:00"]
    assert rejects("09:00-12:00", [], 0)
    assert rejects("09:00-09:00", [], 5)
    assert rejects("09:00-12:00", ["10:00-09:00"], 5)
    assert rejects("9:00-12:00", [], 5)
    assert rejects("9 :00-12:00", [], 5)
    assert rejects("09: 0-12:00", [], 5)
    assert rejects("09:60-12:00", [], 5)
    assert rejects("09:00-24:01", [], 5)
    assert rejects("09.00-12.00", [], 5)
    assert rejects("\u0660\u0669:00-12:00", [], 5)
    busy = [
        f"{hour:02d}:{minute:02d}-{hour:02d}:{minute + 5:02d}" for hour in range(24) for minute in (0, 20)
    ]
    slots = candidate("06:00-20:00", busy[::-1], 20)
    assert slots == [f"{hour:02d}:25-{hour + 1:02d}:00" for hour in range(6, 20)]
