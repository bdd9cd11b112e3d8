"""The report of a criterion classifier: figures as JSON, tables as Markdown, curves as SVG.

In: what `train_criteria` or `evaluate_criteria` found. Out: `report.json`, `report.md` and `report.svg` in
a folder. The picture has the precision against the recall over all thresholds, and how often a predicted
probability came true.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas import shards

_SIZE, _MARGIN = 240, 44


def _cell(value: Any) -> str:
    return (
        f"{value:.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return [*lines, *("| " + " | ".join(_cell(value) for value in row) + " |" for row in rows), ""]


def text(about: Mapping[str, Any]) -> str:
    """The report as Markdown."""
    figures = about["figures"]
    lines = [f"# Criterion classifier {about['classifier']}", ""]
    lines += [f"{figures['rows']:,} annotated edits; scores are {about['scores']}.", ""]
    if about.get("missing"):
        lines += [
            f"{about['missing']:,} of them are not in the run and count as edits without an answer.",
            "",
        ]
    keys = ("threshold", "precision", "recall", "f1", "answered")
    lines += _table(
        ("", "threshold", "precision", "recall", "F1", "answered"),
        [
            (name, *(figures[part][key] for key in keys))
            for name, part in (("best F1", "best"), ("shipped", "shipped"))
        ],
    )
    rates = ("precision", "recall", "f1", "answered", "rows")
    lines += ["## At the shipped threshold, by criterion", ""]
    reliable = figures["reliability"]
    lines += _table(
        ("criterion", "precision", "recall", "F1", "answered", "rows", "ECE", "Brier"),
        [
            (code, *(found[key] for key in rates), reliable[code]["ece"], reliable[code]["brier"])
            for code, found in figures["by_criterion"].items()
        ],
    )
    lines += ["## By language", ""]
    lines += _table(
        ("language", "precision", "recall", "F1", "answered", "rows"),
        [
            (language or "not known", *(found[key] for key in rates))
            for language, found in figures["by_language"].items()
        ],
    )
    lines += ["## How often a probability came true", ""]
    for name in ("answer", "single_intent"):
        told = reliable[name]
        lines += [f"{name.replace('_', ' ')} (ECE {told['ece']:.3f}, Brier {told['brier']:.3f}):", ""]
        lines += _table(
            ("predicted", "observed", "rows"),
            [(one["predicted"], one["observed"], one["rows"]) for one in reliable[name]["bins"]],
        )
    return "\n".join(lines)


def _panel(
    left: int, title: str, across: str, up: str, points: Sequence[tuple[float, float]], diagonal: bool
) -> list[str]:
    def at(x: float, y: float) -> str:
        return f"{left + _MARGIN + x * _SIZE:.1f},{_MARGIN + (1 - y) * _SIZE:.1f}"

    x0, y0 = left + _MARGIN, _MARGIN
    parts = [
        f'<rect x="{x0}" y="{y0}" width="{_SIZE}" height="{_SIZE}" fill="none" stroke="#888"/>',
        f'<text x="{x0 + _SIZE / 2}" y="{y0 - 14}" text-anchor="middle" font-weight="bold">{title}</text>',
        f'<text x="{x0 + _SIZE / 2}" y="{y0 + _SIZE + 34}" text-anchor="middle">{across}</text>',
        f'<text x="{x0 - 32}" y="{y0 + _SIZE / 2}" text-anchor="middle" '
        f'transform="rotate(-90 {x0 - 32} {y0 + _SIZE / 2})">{up}</text>',
    ]
    for step in range(0, 11, 2):
        x, y = at(step / 10, 0).split(","), at(0, step / 10).split(",")
        parts.append(f'<text x="{x[0]}" y="{y0 + _SIZE + 16}" text-anchor="middle">{step / 10:g}</text>')
        parts.append(f'<text x="{x0 - 6}" y="{float(y[1]) + 4:.1f}" text-anchor="end">{step / 10:g}</text>')
    if diagonal:
        (x1, y1), (x2, y2) = at(0, 0).split(","), at(1, 1).split(",")
        parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#bbb" stroke-dasharray="4"/>')
    if points:
        line = " ".join(at(*point) for point in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="#1f5fa8" stroke-width="2"/>')
    for point in points if diagonal else ():
        cx, cy = at(*point).split(",")
        parts.append(f'<circle cx="{cx}" cy="{cy}" r="3" fill="#1f5fa8"/>')
    return parts


def picture(figures: Mapping[str, Any]) -> str:
    """The report's curves as an SVG picture."""
    width, height = 2 * (_SIZE + 2 * _MARGIN), _SIZE + 2 * _MARGIN + 6
    curve = [(one["recall"], one["precision"]) for one in figures["curve"] if one["answered"]]
    bins = [(one["predicted"], one["observed"]) for one in figures["reliability"]["answer"]["bins"]]
    shipped = figures["shipped"]
    title = f"Precision over recall; {shipped['precision']:.2f} at {shipped['recall']:.2f} as shipped"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="sans-serif" font-size="11" role="img">',
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *_panel(0, title, "recall", "precision", curve, False),
            *_panel(width // 2, "Reliability of the answer", "predicted", "observed", bins, True),
            "</svg>",
            "",
        ]
    )


def write(about: Mapping[str, Any], folder: Path) -> None:
    """Write the three files.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shards.write_text(folder / "report.json", json.dumps(about, indent=1, sort_keys=True) + "\n")
    shards.write_text(folder / "report.md", text(about))
    shards.write_text(folder / "report.svg", picture(about["figures"]))
