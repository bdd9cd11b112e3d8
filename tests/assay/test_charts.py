"""Charts as files: equal bytes for equal input, whatever the input and the user's own settings are."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from assay import charts, plots
from schemas.errors import AssayError

CELL = {"accuracy_ties_half": 0.75, "count": 12, "ci95": [0.5, 0.9]}
BINS = [
    {"low": 0.1, "high": 0.2, "count": 9, "confidence": 0.15, "outcome": 0.3, "ci95": [0.1, 0.5]},
    {"low": 0.8, "high": 0.9, "count": 4, "confidence": 0.85, "outcome": 0.7, "ci95": None},
]
PICKS = {
    str(k): {"rm": 0.3 + k / 20, "random": 0.3, "oracle": 0.3 + k / 10, "ci95": [0.2, 0.9]} for k in (1, 2, 4)
}
PASSES = {
    policy: {"pass_at_k": {str(k): {"value": 1 - 0.8**k, "ci95": [0.1, 0.9]} for k in (1, 2, 4)}}
    for policy in ("model", "other")
}
CURVES = [
    {"name": "loss", "points": [(step, 1 / step) for step in range(1, 9)]},
    {"name": "dev loss", "points": [(8.0, 0.4)]},
    {"name": "accuracy", "points": [(1.0, 0.5), (2.0, 0.75)]},
    {"name": "lr", "points": [(1.0, 1e-5), (2.0, 1e-6)]},
    {"name": "grad_norm", "points": [(1.0, 2.0)]},
]

KINDS: dict[str, Callable[[Path], Path]] = {
    "best_of": lambda path: charts.best_of(path, {"best_of": PICKS}),
    "pass_at_k": lambda path: charts.pass_at_k(path, {"policies": PASSES}),
    "reliability": lambda path: charts.reliability(
        path,
        {"reliability": BINS, "ece": 0.1, "temperature": 2.0, "scaled": {"reliability": BINS, "ece": 0.05}},
    ),
    "accuracies": lambda path: charts.accuracies(path, "By language", [("all", CELL), ("Go", CELL)]),
    "table": lambda path: charts.table(path, "Both", {"FC": {"Go": CELL}, "RE": {"C": CELL}}, "language"),
    "differences": lambda path: charts.differences(path, [-1.0, 0.0, 0.5, 2.0]),
    "training": lambda path: charts.training(path, CURVES),
}
EMPTY: dict[str, Callable[[Path], Path]] = {
    "best_of": lambda path: charts.best_of(path, {"best_of": {}}),
    "pass_at_k": lambda path: charts.pass_at_k(path, {"policies": {}}),
    "reliability": lambda path: charts.reliability(path, {"reliability": [], "ece": None}),
    "accuracies": lambda path: charts.accuracies(path, "", []),
    "table": lambda path: charts.table(path, "", {}, ""),
    "differences": lambda path: charts.differences(path, []),
    "training": lambda path: charts.training(path, []),
}


def pixels(path: Path) -> np.ndarray:
    """The image, which must be whole, as grey from 0 to 255."""
    with Image.open(path) as image:
        assert image.format == "PNG"
        # Nothing of when or by what it was made.
        assert set(image.info) <= {"dpi"}
        return np.asarray(image.convert("L"))


@pytest.mark.parametrize("kind", KINDS)
def test_equal_input_gives_equal_bytes_in_another_process_with_other_settings(
    kind: str, tmp_path: Path
) -> None:
    here = KINDS[kind](tmp_path / "here.png")
    ours = hashlib.sha256(here.read_bytes()).hexdigest()
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: red\nfont.size: 30\nsavefig.dpi: 10\n")
    script = (
        f"import sys, hashlib, pathlib; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"import test_charts as here; path = pathlib.Path({str(tmp_path / 'there.png')!r})\n"
        f"here.KINDS[{kind!r}](path)\n"
        "print(hashlib.sha256(path.read_bytes()).hexdigest())"
    )
    there = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={
            "MATPLOTLIBRC": str(tmp_path / "matplotlibrc"),
            "PYTHONHASHSEED": "7",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "HOME": str(tmp_path),
        },
    )
    assert there.returncode == 0, there.stderr
    assert there.stdout.strip() == ours


@pytest.mark.parametrize("kind", KINDS)
def test_a_chart_shows_more_than_the_same_chart_of_nothing(kind: str, tmp_path: Path) -> None:
    full, empty = pixels(KINDS[kind](tmp_path / "f.png")), pixels(EMPTY[kind](tmp_path / "e.png"))
    assert (empty < 128).sum() > 50, "a chart of nothing has its axes or says so"
    assert (full < 128).sum() > (empty < 128).sum()


def test_nothing_but_grey_is_used(tmp_path: Path) -> None:
    """What is told apart by colour alone is lost on paper."""
    for kind, draw in KINDS.items():
        with Image.open(draw(tmp_path / f"{kind}.png")) as image:
            channels = np.asarray(image.convert("RGB")).astype(int)
        assert np.ptp(channels, axis=2).max() == 0, kind


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "name", ["$x_1^{", "a\nb", "\x00\x07", "漢字", "\ud800", "", "x" * 5000, "\u202eabc"]
)
def test_a_strangers_name_is_only_text(name: str, tmp_path: Path) -> None:
    pixels(charts.accuracies(tmp_path / "a.png", name, [(name, CELL)]))
    pixels(charts.table(tmp_path / "t.png", "both", {name: {name: CELL}}, "x"))
    pixels(charts.pass_at_k(tmp_path / "p.png", {"policies": {name: PASSES["model"]}}))
    pixels(charts.training(tmp_path / "c.png", [{"name": name, "points": [(1.0, 2.0)]}]))


@pytest.mark.parametrize(
    "values",
    [[0.0, 0.0], [1e300, -1e300], [float("nan"), 1.0], [float("inf")], [5e-324], [1.0] * 1000],
)
def test_odd_differences_are_drawn(values: list[float], tmp_path: Path) -> None:
    pixels(charts.differences(tmp_path / "d.png", values))


def test_missing_figures_leave_their_mark_out(tmp_path: Path) -> None:
    row: dict[str, Any] = {"accuracy_ties_half": None, "count": 0, "ci95": None}
    pixels(charts.accuracies(tmp_path / "a.png", "t", [("none", row), ("some", CELL)]))
    pixels(charts.table(tmp_path / "t.png", "both", {"FC": {"Go": row}}, "x"))
    none = {"pass_at_k": {"1": {"value": None, "ci95": None}}}
    pixels(charts.pass_at_k(tmp_path / "p.png", {"policies": {"m": none}}))


def test_an_estimate_outside_of_its_interval_is_drawn(tmp_path: Path) -> None:
    """A calibration error may be below its own bootstrap interval."""
    row = {**CELL, "accuracy_ties_half": 0.4, "ci95": [0.5, 0.6]}
    pixels(charts.accuracies(tmp_path / "a.png", "t", [("odd", row)]))


def test_a_chart_that_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="the chart cannot be written"):
        charts.differences(tmp_path / "missing" / "d.png", [1.0])
    assert list(tmp_path.iterdir()) == []


def test_each_layout_of_pairs_has_its_charts(tmp_path: Path) -> None:
    two = {
        "layout": "rewardbench2",
        "score": 0.5,
        "ci95": {"Math": [0.2, 0.8], "score": None},
        "by_subset": {"Math": {"prompts": 3, "score": 0.5}},
    }
    levels = dict.fromkeys(("easy", "normal", "hard", "mean"), 0.5)
    part = {**levels, "prompts": 2, "ci95": {level: [0.1, 0.9] for level in levels}}
    styles = {"layout": "rm-bench", "by_domain": {"code": part}, **part}
    for name, found in (("two", two), ("styles", styles)):
        (tmp_path / name).mkdir()
        plots.pairs(tmp_path / name, found)
    assert [path.name for path in sorted(tmp_path.rglob("*.png"))] == ["by_domain.png", "by_subset.png"]


def test_a_verifier_has_its_reliability_and_best_of_k(tmp_path: Path) -> None:
    plots.model(tmp_path, {"reliability": BINS, "ece": 0.1, "best_of": PICKS})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best_of.png", "reliability.png"]
    plots.model(tmp_path / "none", {"objective": "kto", "auc": 0.5})


def test_a_training_log_becomes_its_curves(tmp_path: Path) -> None:
    lines = [
        {"event": "step", "step": n, "loss": 1 / n, "lr": 1e-3, "accuracy": 0.5, "grad_norm": 1.0}
        for n in range(1, 6)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "train.jsonl").write_text(text + '{"event": "dev", "step": 5, "accuracy": 0.6}\n{"cut')
    path = plots.training(tmp_path)
    assert path == tmp_path / "training.png"
    pixels(path)
    assert plots.training(tmp_path / "nowhere") is None
