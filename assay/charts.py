"""Charts as PNG files, drawn by matplotlib: for papers, model cards and chats, where the report's SVG is not.

In: plain numbers, as the results of evaluations hold them, and a path. Out: that path, a PNG that is whole or
not there. Equal input gives equal bytes: no clock, no settings of the user's and no version gets in. Series
differ by line, marker or hatching, so that they can be told apart in black and white, and axes carry units.
What is missing is left out; a chart of nothing says so. matplotlib is loaded by the first chart; a name that
its font lacks letters for shows boxes.

Wrong: `AssayError` where matplotlib is not installed or the file cannot be written.
"""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.report.plain import name as plain_name
from schemas.errors import AssayError
from schemas.shards import replacing

DPI = 150
ROWS = 40
"""Most rows of a chart of accuracies, and most rows and columns of a table."""
_LINES = ("-", "--", ":", "-.")
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_GREYS = ("black", "0.35", "0.6")
_LABEL = 32

Points = Sequence[Sequence[float]]
Interval = Sequence[float] | None


@contextlib.contextmanager
def _figure(path: Path, width: float, height: float, rows: int = 1, columns: int = 1) -> Iterator[Any]:
    """Axes to draw on (an array of `rows` by `columns`); what was drawn is written on leaving."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise AssayError(f"charts need {error.name}: pip install matplotlib") from None
    with matplotlib.rc_context(), warnings.catch_warnings():
        # Neither a user's style nor a formula in a stranger's name may change what is drawn.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"text.parse_math": False, "font.size": 9, "axes.titlesize": 10})
        warnings.simplefilter("ignore")
        figure = Figure(figsize=(width, height), layout="constrained")
        canvas = FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
        for one in axes.flat:
            one.spines[["top", "right"]].set_visible(False)
            one.grid(visible=True, color="0.88", linewidth=0.6)
            one.set_axisbelow(True)
        yield axes
        held = io.BytesIO()
        canvas.print_figure(held, format="png", dpi=DPI, metadata={"Software": None})
    try:
        with replacing(path) as handle:
            handle.write(held.getvalue())
    except OSError as error:
        raise AssayError(f"{path}: the chart cannot be written ({error.strerror})") from None


def _label(text: str, limit: int = _LABEL) -> str:
    return plain_name(text, limit)


def _percent(axis: Any) -> None:
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))


def _nothing(axes: Any, why: str = "nothing to draw") -> None:
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color="0.35")


def _spread(value: float, interval: Interval) -> list[list[float]] | None:
    """What an error bar needs; a statistic may lie outside of its bootstrap interval."""
    if interval is None:
        return None
    return [[max(0.0, value - interval[0])], [max(0.0, interval[1] - value)]]


def lines(
    path: Path,
    title: str,
    x: tuple[str, Sequence[str] | None],
    y: str,
    series: Sequence[tuple[str, Sequence[tuple[float, float | None, Interval]]]],
) -> Path:
    """Shares over a number of draws: x by its logarithm to base 2, y in percent, intervals as bars.

    Args:
        x: what the numbers are, and their ticks' names (None for the numbers).
        y: what the shares are of.
        series: (name, (number, share, interval) ...).
    """
    with _figure(path, 6.4, 4.2) as axes:
        at = axes[0, 0]
        ticks = sorted({number for _, points in series for number, _, _ in points})
        drawn = False
        for index, (name, points) in enumerate(series):
            known = [(number, value, ci) for number, value, ci in points if value is not None]
            if not known:
                continue
            drawn = True
            style = {
                "linestyle": _LINES[index % len(_LINES)],
                "marker": _MARKS[index % len(_MARKS)],
                "color": _GREYS[index % len(_GREYS)],
                "markerfacecolor": "white" if index else _GREYS[0],
            }
            at.plot([n for n, _, _ in known], [v for _, v, _ in known], label=_label(name), **style)
            for number, value, ci in known:
                if ci is not None:
                    bar = _spread(value, ci)
                    at.errorbar([number], [value], yerr=bar, color=style["color"], capsize=3, linewidth=0.9)
        at.set_title(_label(title, 2 * _LABEL))
        at.set_xlabel(_label(x[0]))
        at.set_ylabel(_label(y, 2 * _LABEL))
        _percent(at.yaxis)
        if not drawn:
            _nothing(at)
        else:
            at.set_xscale("log", base=2)
            at.set_xticks(ticks, labels=list(x[1]) if x[1] is not None else [f"{tick:g}" for tick in ticks])
            at.minorticks_off()
            at.set_ylim(bottom=0)
            at.legend(frameon=False)
    return path


def best_of(path: Path, found: Mapping[str, Any]) -> Path:
    """RM@k beside the oracle and a random pick, from the result of `best-of-k`."""
    rows = {int(k): row for k, row in found["best_of"].items()}
    series = [
        (name, [(float(k), row[key], row.get(ci)) for k, row in rows.items()])
        for name, key, ci in (
            ("picked by the model (RM@k)", "rm", "ci95"),
            ("oracle (pass@k)", "oracle", "oracle_ci95"),
            ("random", "random", "random_ci95"),
        )
    ]
    return lines(path, "Best of k", ("candidates k", None), "tasks whose pick is right (%)", series)


def pass_at_k(path: Path, found: Mapping[str, Any]) -> Path:
    """pass@k of each policy, from the result of `pass-at-k`."""
    series = [
        (policy, [(float(k), row["value"], row["ci95"]) for k, row in own["pass_at_k"].items()])
        for policy, own in list(found["policies"].items())[: len(_MARKS)]
    ]
    return lines(path, "pass@k", ("samples k", None), "problems solved (%)", series)


def reliability(path: Path, found: Mapping[str, Any]) -> Path:
    """Share that came true over what was said, before and after scaling, above the rows in each bin."""
    series = [("as scored", found)]
    if "scaled" in found:
        series.append((f"temperature {found['temperature']:.3g}", found["scaled"]))
    with _figure(path, 5.2, 5.6, rows=2) as axes:
        top, low = axes[0, 0], axes[1, 0]
        top.get_gridspec().set_height_ratios([3, 1])
        top.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle=":", label="calibrated")
        for index, (name, part) in enumerate(series):
            rows = part["reliability"]
            style = {
                "marker": _MARKS[index],
                "linestyle": _LINES[index],
                "color": _GREYS[index],
                "markerfacecolor": "white" if index else _GREYS[0],
            }
            ece = f", ECE {part['ece']:.3f}" if part["ece"] is not None else ""
            points = [(row["confidence"], row["outcome"]) for row in rows]
            top.plot([p for p, _ in points], [o for _, o in points], label=f"{name}{ece}", **style)
            for row in rows:
                if row.get("ci95") is not None:
                    bar = _spread(row["outcome"], row["ci95"])
                    place = [row["confidence"]]
                    top.errorbar(
                        place, [row["outcome"]], yerr=bar, color=style["color"], capsize=2, linewidth=0.8
                    )
            low.bar(
                [row["low"] for row in rows],
                [row["count"] for row in rows],
                width=[row["high"] - row["low"] for row in rows],
                align="edge",
                fill=False,
                edgecolor=style["color"],
                hatch=("", "////")[index],
                label=name,
            )
        top.set_title("Reliability")
        top.set_ylabel("share that is right (%)")
        low.set_xlabel("probability that the score says (%)")
        low.set_ylabel("rows")
        for one in (top, low):
            one.set_xlim(0, 1)
            _percent(one.xaxis)
        top.set_ylim(0, 1)
        _percent(top.yaxis)
        top.legend(frameon=False, loc="upper left")
    return path


def accuracies(
    path: Path, title: str, groups: Sequence[tuple[str, Mapping[str, Any]]], key: str = "accuracy_ties_half"
) -> Path:
    """Accuracies with their intervals, one row each, and the number of pairs behind the name.

    Args:
        groups: (name, row with `key`, `ci95` and, where known, `count` or `pairs`), the first on top.
        key: of the accuracy in a row.
    """
    rows = [(name, row) for name, row in groups if row.get(key) is not None][:ROWS]
    with _figure(path, 6.4, 1.3 + 0.28 * max(len(rows), 2)) as axes:
        at = axes[0, 0]
        for place, (_, row) in enumerate(rows):
            value = row[key]
            bar = _spread(value, row.get("ci95"))
            hollow = "white" if row.get("hollow") else "black"
            at.errorbar([value], [place], xerr=bar, fmt="o", color="black", mfc=hollow, capsize=3, lw=1)
        names = []
        for name, row in rows:
            count = row.get("count", row.get("pairs", row.get("prompts")))
            names.append(_label(name) + (f" ({count:,})" if count is not None else ""))
        at.set_yticks(range(len(rows)), labels=names)
        at.invert_yaxis()
        at.axvline(0.5, color="0.4", linestyle=":", linewidth=1)
        ends = [end for _, row in rows for end in (row[key], *(row.get("ci95") or ()))]
        at.set_xlim(min([0.4, *ends]) - 0.02, 1.02)
        _percent(at.xaxis)
        at.set_title(_label(title, 2 * _LABEL))
        at.set_xlabel("share of pairs in the right order, ties half (%), with 95 % intervals")
        if not rows:
            _nothing(at)
    return path


def table(path: Path, title: str, cells: Mapping[str, Mapping[str, Mapping[str, Any]]], rows: str) -> Path:
    """Accuracies of pairs by two names, as numbers on grey: darker is higher.

    Args:
        cells: column -> row -> `accuracy_ties_half` and `count`.
        rows: what the rows are.
    """
    columns = list(cells)[:ROWS]
    counts: dict[str, int] = {}
    for column in columns:
        for row, cell in cells[column].items():
            counts[row] = counts.get(row, 0) + cell["count"]
    names = sorted(counts, key=lambda row: (-counts[row], row))[:ROWS]
    with _figure(path, 2.2 + 1.15 * max(len(columns), 2), 1.6 + 0.42 * max(len(names), 2)) as axes:
        at = axes[0, 0]
        at.grid(visible=False)
        for across, column in enumerate(columns):
            for down, name in enumerate(names):
                cell = cells[column].get(name, {})
                value = cell.get("accuracy_ties_half")
                if value is None:
                    continue
                # From white at one half and below to a grey on which black can be read no longer.
                shade = 1 - 0.75 * max(0.0, (value - 0.5) * 2)
                at.fill(
                    [across - 0.5, across + 0.5, across + 0.5, across - 0.5],
                    [down - 0.5] * 2 + [down + 0.5] * 2,
                    color=(shade,) * 3,
                )
                ink = "white" if shade < 0.55 else "black"
                at.text(across, down - 0.1, f"{value:.0%}", ha="center", va="center", color=ink)
                at.text(
                    across,
                    down + 0.25,
                    f"{cell['count']:,}",
                    ha="center",
                    va="center",
                    color=ink,
                    fontsize=6.5,
                )
        at.set_xticks(
            range(len(columns)), labels=[_label(one, 24) for one in columns], rotation=25, ha="right"
        )
        at.set_yticks(range(len(names)), labels=[_label(one, 24) for one in names])
        at.set_xlim(-0.5, max(len(columns), 1) - 0.5)
        at.set_ylim(max(len(names), 1) - 0.5, -0.5)
        at.set_title(_label(title, 2 * _LABEL))
        at.set_xlabel("share of pairs in the right order, ties half (%); number of pairs below")
        at.set_ylabel(_label(rows))
        if not names:
            _nothing(at)
    return path


def differences(path: Path, values: Sequence[float], bins: int = 40) -> Path:
    """How far the right side of a pair is ahead of the wrong one, as a histogram around 0."""
    known = [value for value in values if math.isfinite(value)]
    with _figure(path, 6.4, 3.6) as axes:
        at = axes[0, 0]
        if known:
            most = max(abs(value) for value in known) or 1.0
            # 0 is an edge, so that no bar holds right and wrong pairs.
            edges = [most * (2 * number / bins - 1) for number in range(bins + 1)]
            sides = (
                ("wrong order", [value for value in known if value < 0], "////"),
                ("right order", [value for value in known if value > 0], ""),
            )
            for name, part, hatch in sides:
                at.hist(
                    part,
                    bins=edges,
                    label=f"{name}: {len(part):,}",
                    facecolor="white" if hatch else "0.5",
                    edgecolor="black",
                    linewidth=0.6,
                    hatch=hatch,
                )
            ties = len(known) - sum(len(part) for _, part, _ in sides)
            at.axvline(0, color="black", linewidth=1, label=f"ties: {ties:,}")
            at.legend(frameon=False)
        else:
            _nothing(at)
        at.set_title("Score differences")
        at.set_xlabel("score of the right side minus score of the wrong one")
        at.set_ylabel("pairs")
    return path


_PANELS = (
    ("loss", "loss", ("loss", "dev loss")),
    ("accuracy", "share in the right order (%)", ("accuracy", "dev accuracy")),
    ("margin", "difference of rewards", ("margin", "dev margin", "dev margin_mean")),
    ("gradient", "norm before clipping", ("grad_norm",)),
    ("learning rate", "learning rate", ("lr",)),
)
_NOT_DRAWN = frozenset({"tokens", "computed", "total", "done", "steps", "epoch", "seconds"})
_MORE = 3
"""Panels for what an objective logs of its own."""


def training(path: Path, metrics: Sequence[Mapping[str, Any]]) -> Path:
    """Curves of a training run, one panel a quantity.

    Args:
        metrics: `name` and `points` ((step, value) ...), as `assay.report.models.curves` gives them.
    """
    by_name: dict[str, Points] = {one["name"]: one["points"] for one in metrics if one["points"]}
    panels = [
        (title, unit, [(name, by_name[name]) for name in names if name in by_name])
        for title, unit, names in _PANELS
    ]
    known = {name for _, _, names in _PANELS for name in names}
    own = [
        name
        for name in by_name
        if name not in known and not name.startswith("dev ") and name not in _NOT_DRAWN
    ]
    panels += [(name, name, [(name, by_name[name])]) for name in own[:_MORE]]
    panels = [panel for panel in panels if panel[2]]
    rows = max(1, math.ceil(len(panels) / 2))
    with _figure(path, 8.0, 0.4 + 2.2 * rows, rows=rows, columns=2) as axes:
        places = list(axes.flat)
        for at, (title, unit, curves) in zip(places, panels, strict=False):
            for index, (name, points) in enumerate(curves):
                alone = len(points) == 1
                at.plot(
                    [point[0] for point in points],
                    [point[1] for point in points],
                    linestyle="" if alone else _LINES[index],
                    marker=_MARKS[index] if alone or index else "",
                    markersize=4,
                    color=_GREYS[index],
                    linewidth=1.2,
                    label="held out" if name.startswith("dev ") else "training",
                )
            at.set_title(_label(title))
            at.set_ylabel(_label(unit))
            at.set_xlabel("optimizer step")
            if unit.endswith("(%)"):
                _percent(at.yaxis)
            if len(curves) > 1:
                at.legend(frameon=False)
        for at in places[len(panels) :]:
            at.set_visible(False)
        if not panels:
            places[0].set_visible(True)
            _nothing(places[0], "no steps were logged")
    return path
