"""Charts of evaluations as SVG files that stand alone: the report's charts with their style inside.

In: results as `trainers` give them. Out: SVG text. Numbers that are missing leave their mark out; a chart
without any is empty but valid.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from assay.report.svg import WIDTH, Charts, figure

_STYLE = (
    "svg{background:#fbfbf9;font-family:system-ui,sans-serif}text{font-size:11px;fill:#55616a}"
    "text.label{font-size:12px;fill:#1a2126}text.strong{font-weight:600}.axis{stroke:#55616a}"
    ".grid{stroke:#d8dcdb}.chance{stroke:#55616a;stroke-dasharray:3 3}"
    ".whisker,.dot,.line{stroke:#0a6583;stroke-width:1.6}.dot{fill:#0a6583}.dot.hollow{fill:#fbfbf9}"
    ".line{fill:none}.line.l1{stroke-dasharray:6 3}.line.l2{stroke:#55616a;stroke-dasharray:2 3}"
)
_LEFT, _RIGHT, _TOP, _HEIGHT, _FOOT = 46.0, 70.0, 14.0, 220.0, 34.0
_ROWS = 40
"""Most rows of a chart of accuracies."""


def alone(chart: Markup) -> str:
    """A chart as a document of its own."""
    return (
        re.sub(
            r"^<svg ",
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" ',
            str(chart),
            count=1,
        ).replace("<title", f"<style>{_STYLE}</style><title", 1)
        + "\n"
    )


class Plots(Charts):
    """Draws what the report has not."""

    def lines(
        self,
        title: str,
        axes: tuple[str, str],
        series: Sequence[tuple[str, Sequence[tuple[float, float | None]]]],
        *,
        logarithmic: bool = False,
        diagonal: bool = False,
    ) -> Markup:
        """Up to three lines with their points, y from 0 to 1, x from 0 to 1 or by its logarithm to base 2."""
        floor, right = _HEIGHT - _FOOT, WIDTH - _RIGHT
        xs = [x for _, points in series for x, _ in points]
        last = max(math.log2(max(xs)), 1.0) if logarithmic and xs else 1.0

        def place(x: float, y: float) -> tuple[float, float]:
            share = math.log2(x) / last if logarithmic else x
            return _LEFT + share * (right - _LEFT), floor - y * (floor - _TOP)

        body = [Markup("")]
        for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
            _, y = place(1, tick)
            kind = "grid" if tick else "axis"
            body.append(_line(_LEFT, y, right, y, kind))
            body.append(_text(_LEFT - 6, y + 4, f"{tick:.0%}", "end"))
        for x in sorted(set(xs)) if logarithmic else (0.0, 0.25, 0.5, 0.75, 1.0):
            at, _ = place(x, 0)
            body.append(_text(at, floor + 14, f"{x:g}", "middle"))
        if diagonal:
            body.append(_line(*place(0, 0), *place(1, 1), "chance"))
        said = []
        names: list[tuple[float, str]] = []
        for number, (name, points) in enumerate(series):
            known = [(x, y) for x, y in points if y is not None]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in known))
            body.append(Markup('<polyline class="line l{}" points="{}"/>').format(number, path))
            for x, y in known:
                at, up = place(x, y)
                body.append(
                    Markup('<circle class="dot{}" cx="{}" cy="{}" r="2.5"><title>{}</title></circle>').format(
                        "" if number == 0 else " hollow", f"{at:.1f}", f"{up:.1f}", f"{name}: {x:g}, {y:.3f}"
                    )
                )
            if known:
                names.append((place(*known[-1])[1], name))
                said.append(f"{name} ends at {figure(known[-1][1])}")
        above = -math.inf
        for up, name in sorted(names):
            # Names beside the ends of their lines, one below the other where these meet.
            above = max(up + 4, above + 13)
            body.append(_text(right + 6, above, name, "start"))
        body.append(_text(_LEFT, _HEIGHT - 6, axes[1] + " over " + axes[0], "start"))
        return self._svg(title, "; ".join(said) or "nothing to draw", _HEIGHT, body)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
        f"{x:.1f}", f"{y:.1f}", anchor, text
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        kind, *(f"{value:.1f}" for value in (x1, y1, x2, y2))
    )


def accuracies(title: str, groups: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Accuracies with their intervals, the first row in bold; rows without an accuracy are left out."""
    rows = [
        {"name": name, "accuracy": row["accuracy_ties_half"], "ci95": row["ci95"], "strong": at == 0}
        for at, (name, row) in enumerate(groups)
        if row["accuracy_ties_half"] is not None
    ]
    return alone(Plots().whiskers(title, rows[:_ROWS]))


def reliability(found: Mapping[str, Any]) -> str:
    """Share that came true over what was said, before and after scaling."""
    series = [
        (name, [(row["confidence"], row["outcome"]) for row in part["reliability"]])
        for name, part in (("as scored", found), ("scaled", found.get("scaled")))
        if part is not None
    ]
    return alone(Plots().lines("Reliability", ("probability", "share right"), series, diagonal=True))


def best_of(found: Mapping[str, Any]) -> str:
    """What the picked one of k is worth, beside the best and a random one."""
    rows = {int(k): row for k, row in found["best_of"].items()}
    series = [
        (name, [(float(k), row[key]) for k, row in rows.items()])
        for name, key in (("model", "rm"), ("oracle", "oracle"), ("random", "random"))
    ]
    return alone(Plots().lines("Best of k", ("candidates (k)", "share right"), series, logarithmic=True))
