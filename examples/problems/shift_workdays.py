"""assay/8: Count working days on the calendar (date arithmetic by hand)."""

# --- prompt ---


def shift_workdays(date: str, days: int, holidays: list[str]) -> str:
    """Return the date that lies a number of working days after a date.

    Dates are written "YYYY-MM-DD" in ASCII digits, in the Gregorian calendar, with years from
    1600 to 9999. A working day is a day from Monday to Friday that is not in `holidays`. The
    date itself is not counted. Negative `days` count backwards, and 0 gives the date itself,
    whatever day it is.

    Raise ValueError if a date, also one of the holidays, is malformed or does not exist, or if
    the result would leave the range of years.

    >>> shift_workdays("2024-02-28", 3, ["2024-03-01"])
    '2024-03-05'
    """
    # --- solution ---
    closed = {parse_date(holiday) for holiday in holidays}
    current = parse_date(date)
    direction = 1 if days > 0 else -1
    remaining = abs(days)
    while remaining:
        current = step_day(current, direction)
        if weekday(current) < 5 and current not in closed:
            remaining -= 1
    year, month, day = current
    return f"{year:04d}-{month:02d}-{day:02d}"


def days_in_month(year: int, month: int) -> int:
    """Return the length of a month."""
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return 29 if leap else 28
    return 30 if month in (4, 6, 9, 11) else 31


def parse_date(text: str) -> tuple[int, int, int]:
    """Return the year, the month and the day of a date."""
    parts = text.split("-")
    digits = "".join(parts)
    if [len(part) for part in parts] != [4, 2, 2] or not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"not a date: {text!r}")
    year, month, day = map(int, parts)
    if year < 1600 or not 1 <= month <= 12 or not 1 <= day <= days_in_month(year, month):
        raise ValueError(f"no such date: {text!r}")
    return year, month, day


def weekday(date: tuple[int, int, int]) -> int:
    """Return the day of the week, from 0 for Monday to 6 for Sunday."""
    year, month, day = date
    if month < 3:
        year -= 1
    shift = (0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4)[month - 1]
    return (year + year // 4 - year // 100 + year // 400 + shift + day - 1) % 7


def step_day(date: tuple[int, int, int], direction: int) -> tuple[int, int, int]:
    """Return the day after a date, or the day before it if the direction is -1."""
    year, month, day = date
    day += direction
    if 1 <= day <= days_in_month(year, month):
        return year, month, day
    month += direction
    if not 1 <= month <= 12:
        year += direction
        month = 1 if direction == 1 else 12
    if not 1600 <= year <= 9999:
        raise ValueError("the calendar ends here")
    return year, month, 1 if direction == 1 else days_in_month(year, month)


# --- test ---
def check(candidate):
    def rejects(*args):
        try:
            candidate(*args)
        except ValueError:
            return True
        return False

    assert candidate("2024-02-28", 3, ["2024-03-01"]) == "2024-03-05"
    assert candidate("2024-06-08", 0, []) == "2024-06-08"
    assert candidate("2024-06-03", 1, []) == "2024-06-04"
    assert candidate("2024-06-03", 4, []) == "2024-06-07"
    assert candidate("2024-06-03", 5, []) == "2024-06-10"
    assert candidate("2024-06-08", 1, []) == "2024-06-10"
    assert candidate("2024-06-10", -1, []) == "2024-06-07"
    assert candidate("2024-06-10", -1, ["2024-06-07", "2024-06-06"]) == "2024-06-05"
    assert candidate("2024-06-10", 1, ["2024-06-10"]) == "2024-06-11"
    assert candidate("2023-02-27", 2, []) == "2023-03-01"
    assert candidate("2024-02-27", 2, []) == "2024-02-29"
    assert candidate("2000-02-28", 1, []) == "2000-02-29"
    assert candidate("2100-02-26", 1, []) == "2100-03-01"
    assert candidate("2021-12-31", 1, []) == "2022-01-03"
    assert candidate("2022-01-03", -1, []) == "2021-12-31"
    assert candidate("2024-03-01", -1, []) == "2024-02-29"
    ends = [f"2019-{month:02d}-28" for month in range(1, 13)]
    assert [candidate(end, 3, [])[5:] for end in ends] == [
        *("01-31", "03-05", "04-02", "05-01", "05-31", "07-03"),
        *("07-31", "09-02", "10-02", "10-31", "12-03", "01-01"),
    ]
    fridays = (6, 3, 3, 7, 5, 2, 7, 4, 1, 6, 3, 1)
    for month, day in enumerate(fridays, start=1):
        assert candidate(f"2023-{month:02d}-{day:02d}", 1, []) == f"2023-{month:02d}-{day + 3:02d}"
    assert candidate("1601-01-01", -1, []) == "1600-12-29"
    assert candidate("9998-12-31", 1, []) == "9999-01-01"
    assert candidate("2023-01-02", 2610, []) == "2033-01-03"
    assert candidate("2033-01-03", -2610, []) == "2023-01-02"
    assert candidate("1600-01-03", 1, []) == "1600-01-04"
    assert candidate("9999-12-30", 1, []) == "9999-12-31"
    assert rejects("9999-12-31", 1, [])
    assert rejects("1600-01-01", -1, [])
    assert rejects("1599-12-31", 1, [])
    assert rejects("2023-02-29", 1, [])
    assert rejects("2024-04-31", 1, [])
    assert rejects("2024-13-01", 1, [])
    assert rejects("2024-00-10", 1, [])
    assert rejects("2024-01-00", 1, [])
    assert rejects("2024-1-01", 1, [])
    assert rejects("2024-01-0x", 0, [])
    assert rejects("2024-01-0\u0661", 0, [])
    assert rejects("2024-01-01", 0, ["2024-02-30"])
