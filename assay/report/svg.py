"""Charts as inline SVG, drawn by hand: no script, no outside resource, colours from the page's style.

Every chart is about 360 units wide, so that on a phone its text keeps its size, and carries a title and
a description for those who do not see it. Series differ by fill pattern as well as by shade.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from assay.report.plain import clip

WIDTH = 360
_LEFT, _RIGHT, _TOP, _FOOT = 46, 8, 12, 30
_CHAR = 6.0  # mean advance of an 11-unit label, for deciding what fits

PATTERNS = Markup(
    '<svg class="defs" width="0" height="0" aria-hidden="true" focusable="false"><defs>'
    '<pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="hatch-ground" width="5" height="5"/><line class="hatch-line" x1="0" y1="0" x2="0" y2="5"/>'
    "</pattern></defs></svg>"
)
"""Fills that charts share; stands once on a page."""


def figure(value: float | None, digits: int = 4) -> str:
    """A number for people: thousands separators, at most `digits` significant decimals, `–` for none."""
    if value is None:
        return "–"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}" if size < 1e15 else f"{value:.3g}"
    return f"{value:.{digits}g}"


def compact(value: float) -> str:
    """A number for an axis: 950, 1.2k, 34k, 5.6M."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.{0 if abs(value) >= 10 * size else 1}f}".removesuffix(".0") + sign
    if value and abs(value) < 0.001:
        digits, _, exponent = f"{value:.1e}".partition("e")
        return f"{digits.removesuffix('.0')}e{int(exponent)}"
    return figure(value, 3)


def _ceiling(value: float) -> float:
    """The smallest of 1, 2, 3, 4, 6, 8, 10 times a power of ten that is not below `value`."""
    if value <= 0:
        return 1
    size = 10.0 ** math.floor(math.log10(value))
    return next((size * step for step in (1, 2, 3, 4, 6, 8, 10) if size * step >= value), size * 10)


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _text(x: float, y: float, text: str, anchor: str = "middle", kind: str = "tick") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        kind, _n(x), _n(y), anchor, text
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        kind, _n(x1), _n(y1), _n(x2), _n(y2)
    )


def _rect(x: float, y: float, width: float, height: float, kind: str, tip: str) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
        kind, _n(x), _n(y), _n(max(width, 0)), _n(max(height, 0)), tip
    )


class Charts:
    """Draws charts; one object a page, since it numbers the ids that titles need."""

    def __init__(self) -> None:
        self._made = 0

    def _svg(self, title: str, desc: str, height: float, body: Sequence[Markup]) -> Markup:
        self._made += 1
        at = f"c{self._made}"
        return Markup(
            '<svg class="chart" role="img" viewBox="0 0 {} {}" aria-labelledby="{}t {}d">'
            '<title id="{}t">{}</title><desc id="{}d">{}</desc>{}</svg>'
        ).format(WIDTH, _n(height), at, at, at, title, at, desc, Markup("").join(body))

    def bars(
        self, title: str, unit: str, labels: Sequence[str], series: Sequence[tuple[str, Sequence[int]]]
    ) -> Markup:
        """Vertical bars over ordered bins, one or two series side by side."""
        height, floor = 180.0, 180.0 - _FOOT
        most = max((max(values, default=0) for _, values in series), default=0)
        ceiling = _ceiling(most)
        width = WIDTH - _LEFT - _RIGHT
        slot = width / max(1, len(labels))
        gap = 0.0 if slot < 3 else min(2.0, slot * 0.18)
        body: list[Markup] = []
        for share in (0.0, 0.5, 1.0):
            y = floor - share * (floor - _TOP)
            body.append(_line(_LEFT, y, WIDTH - _RIGHT, y, "axis" if share == 0 else "grid"))
            if ceiling * share == int(ceiling * share):
                body.append(_text(_LEFT - 5, y + 4, compact(ceiling * share), "end"))
        every = max(1, math.ceil(max((len(label) for label in labels), default=1) * (_CHAR + 1.5) / slot))
        for at, label in enumerate(labels):
            for index, (called, values) in enumerate(series):
                wide = (slot - gap) / len(series)
                tall = values[at] / ceiling * (floor - _TOP)
                # A bin that has rows is never invisible.
                tall = max(tall, 1.0) if values[at] else 0.0
                tip = f"{label}: {values[at]:,} {called or unit}"
                if tall:
                    x = _LEFT + at * slot + gap / 2 + index * wide
                    body.append(_rect(x, floor - tall, wide, tall, f"s{index}", tip))
            if at % every == 0:
                body.append(_text(_LEFT + (at + 0.5) * slot, floor + 14, label))
        body.append(_text(WIDTH - _RIGHT, floor + 27, unit, "end", "axis-name"))
        said = []
        for called, values in series:
            if values and max(values):
                peak = max(range(len(values)), key=lambda at: values[at])
                said.append(
                    f"{called + ': ' if called else ''}{sum(values):,} in all, "
                    f"most at {labels[peak]} ({values[peak]:,})"
                )
        return self._svg(title, "; ".join(said) or "no rows", height, body)

    def curve(self, title: str, points: Sequence[Sequence[float]]) -> Markup:
        """One metric over training steps. Needs at least one point."""
        height, floor = 140.0, 140.0 - _FOOT
        steps, values = [p[0] for p in points], [p[1] for p in points]
        low, high = min(values), max(values)
        first, last = min(steps), max(steps)
        spread, width = high - low, WIDTH - _LEFT - _RIGHT
        if not math.isfinite(spread) or not math.isfinite(last - first):
            return self._svg(
                title, "values too large to draw", 24, [_text(8, 16, "too large to draw", "start")]
            )

        def place(step: float, value: float) -> tuple[float, float]:
            x = _LEFT + ((step - first) / (last - first) if last > first else 0.5) * width
            y = floor - ((value - low) / spread if spread else 0.5) * (floor - _TOP)
            return x, y

        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in (place(*point[:2]) for point in points))
        body = [
            _line(_LEFT, floor, WIDTH - _RIGHT, floor, "axis"),
            _line(_LEFT, _TOP, WIDTH - _RIGHT, _TOP, "grid"),
            _text(_LEFT - 5, _TOP + 4, compact(high), "end"),
            Markup('<polyline class="curve" points="{}"/>').format(path),
        ]
        if spread:
            body.append(_text(_LEFT - 5, floor + 4, compact(low), "end"))
        x, y = place(steps[-1], values[-1])
        body.append(Markup('<circle class="dot" cx="{}" cy="{}" r="3"/>').format(_n(x), _n(y)))
        body.append(_text(_LEFT, floor + 14, f"step {figure(first)}", "start"))
        if last > first:
            body.append(_text(WIDTH - _RIGHT, floor + 14, figure(last), "end"))
        desc = f"from {figure(values[0])} to {figure(values[-1])}, between {figure(low)} and {figure(high)}"
        return self._svg(title, desc, height - 12, body)

    def whiskers(self, title: str, rows: Sequence[dict[str, Any]]) -> Markup:
        """Accuracies as dots with their 95 % intervals; `hollow` rows (baselines) are drawn open."""
        step, left, right = 22.0, 142.0, 54.0
        ends = [value for row in rows for value in (row["accuracy"], *(row["ci95"] or ()))]
        low = min(0.5, math.floor(min(ends, default=0.5) * 10) / 10)
        floor = _TOP + step * len(rows) + 4

        def place(value: float) -> float:
            return left + (value - low) / (1 - low) * (WIDTH - left - right)

        body: list[Markup] = []
        ticks = [low + (1 - low) * share for share in (0, 0.5, 1)]
        for tick in ticks:
            body.append(_line(place(tick), _TOP - 4, place(tick), floor, "grid"))
            body.append(_text(place(tick), floor + 14, f"{tick:.0%}"))
        body.append(_line(place(0.5), _TOP - 4, place(0.5), floor, "chance"))
        said = []
        for at, row in enumerate(rows):
            y = _TOP + step * at + step / 2
            label = clip(row["name"], 20)
            body.append(
                _text(left - 10, y + 4, label, "end", "label strong" if row.get("strong") else "label")
            )
            if row["ci95"]:
                a, b = (place(end) for end in row["ci95"])
                body += [_line(a, y, b, y, "whisker"), _line(a, y - 4, a, y + 4, "whisker")]
                body.append(_line(b, y - 4, b, y + 4, "whisker"))
            kind = "dot hollow" if row.get("hollow") else "dot"
            body.append(
                Markup('<circle class="{}" cx="{}" cy="{}" r="4"/>').format(
                    kind, _n(place(row["accuracy"])), _n(y)
                )
            )
            body.append(_text(WIDTH - 2, y + 4, f"{row['accuracy']:.1%}", "end", "label"))
            said.append(f"{row['name']} {row['accuracy']:.1%}")
        return self._svg(title, "; ".join(said), floor + 20, body)

    def lines(
        self,
        title: str,
        axes: tuple[str, str],
        series: Sequence[tuple[str, Sequence[Sequence[float]]]],
        *,
        logarithmic: bool = False,
        diagonal: bool = False,
    ) -> Markup:
        """Up to three lines of points (x, y) named at their ends: y from 0 to 1, x from 0 to 1 or by its
        logarithm to base 2, from 1."""
        height, right = 220.0, WIDTH - 70.0
        floor = height - 38
        xs = [point[0] for _, points in series for point in points]
        last = max(math.log2(max(xs)), 1.0) if logarithmic and xs else 1.0

        def place(x: float, y: float) -> tuple[float, float]:
            share = math.log2(x) / last if logarithmic else x
            return _LEFT + share * (right - _LEFT), floor - y * (floor - _TOP)

        body: list[Markup] = []
        for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
            _, y = place(1, tick)
            body.append(_line(_LEFT, y, right, y, "grid" if tick else "axis"))
            body.append(_text(_LEFT - 6, y + 4, f"{tick:.0%}", "end"))
        taken = -math.inf
        for x in sorted(set(xs)) if logarithmic else (0.0, 0.25, 0.5, 0.75, 1.0):
            at, label = place(x, 0)[0], figure(x) if logarithmic else f"{x:.0%}"
            half = len(label) * _CHAR / 2 + 2
            if at - half >= taken:
                body.append(_text(at, floor + 14, label))
                taken = at + half
        if diagonal:
            body.append(_line(*place(0, 0), *place(1, 1), "chance"))
        said, names = [], []
        for number, (called, points) in enumerate(series):
            if not points:
                continue
            places = [place(point[0], point[1]) for point in points]
            path = " ".join(f"{_n(x)},{_n(y)}" for x, y in places)
            body.append(Markup('<polyline class="line l{}" points="{}"/>').format(number, path))
            for (x, y), point in zip(places, points, strict=True):
                tip = f"{called}: {point[0]:g}, {point[1]:.3f}"
                body.append(
                    Markup('<circle class="dot{}" cx="{}" cy="{}" r="2.5"><title>{}</title></circle>').format(
                        "" if number == 0 else " hollow", _n(x), _n(y), tip
                    )
                )
            names.append((places[-1][1], called))
            said.append(f"{called} ends at {figure(points[-1][1])}")
        above = -math.inf
        for up, called in sorted(names):
            # Names beside the ends of their lines, one below the other where these meet.
            above = max(up + 4, above + 13)
            body.append(_text(right + 6, above, clip(called, 11), "start"))
        body.append(_text(right, floor + 28, axes[0], "end", "axis-name"))
        return self._svg(title, "; ".join(said) or "nothing to draw", height, body)

    def stacks(self, title: str, names: Sequence[str], rows: Sequence[tuple[str, Sequence[int]]]) -> Markup:
        """Horizontal bars cut into up to three named kinds, each row scaled to the largest row."""
        step, left, right = 34.0, 92.0, 56.0
        most = max((sum(values) for _, values in rows), default=0) or 1
        body: list[Markup] = []
        said = []
        for at, (label, values) in enumerate(rows):
            y, x = _TOP + step * at, left
            body.append(_text(left - 8, y + 15, label, "end", "label"))
            for index, value in enumerate(values):
                wide = value / most * (WIDTH - left - right)
                if value:
                    body.append(
                        _rect(x, y, max(wide, 1), 22, f"s{index}", f"{label}, {names[index]}: {value:,}")
                    )
                x += wide
            body.append(_text(x + 6, y + 15, compact(sum(values)), "start", "label"))
            said.append(f"{label}: " + ", ".join(f"{v:,} {names[i]}" for i, v in enumerate(values)))
        return self._svg(title, "; ".join(said), _TOP + step * len(rows), body)


def share_bar(parts: Sequence[tuple[int, str, str]], whole: int) -> Markup:
    """A bar for a table cell whose numbers stand beside it: (rows, class, tip) from left to right."""
    body: list[Markup] = []
    x = 0.0
    for rows, kind, tip in parts:
        wide = rows / whole * 100 if whole else 0.0
        if rows:
            body.append(_rect(x, 0, max(wide, 0.4), 10, kind, tip))
        x += wide
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="ground" width="100" height="10"/>{}</svg>'
    ).format(Markup("").join(body))


def legend(names: Sequence[str]) -> Markup:
    """What the fills of a chart mean, in words."""
    items = Markup("").join(
        Markup(
            '<li><svg class="key" viewBox="0 0 12 12" aria-hidden="true"><rect class="s{}" x="0.5" y="0.5" '
            'width="11" height="11"/></svg>{}</li>'
        ).format(at, escape(text))
        for at, text in enumerate(names)
    )
    return Markup('<ul class="legend">{}</ul>').format(items)
