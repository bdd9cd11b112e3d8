"""Evaluations on the page: every kind is shown, and what a file makes up is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_runs import new_run

from assay.report import collect, render
from assay.report.evaluations import evaluations

ROW = {"accuracy": 0.5, "accuracy_ties_half": 0.6, "ties": 2, "ci95": [0.4, 0.8], "count": 10}
BINS = [{"low": 0.0, "high": 0.1, "count": 3, "confidence": 0.05, "outcome": 0.2}]
RESULTS: dict[str, dict[str, Any]] = {
    "pairs": {
        "model": "rm",
        "layout": "pairs",
        "rows": 12,
        "dropped": {"identical": 2},
        "overall": {**ROW, "total_examples": 10, "auc": 0.55, "auc_ci95": [0.4, 0.7]},
        "by_aspect": {"Functional Correctness": ROW},
        "by_language": {"Go": ROW},
        "macro_language": 0.61,
    },
    "robustness": {"overall": {**ROW, "total_examples": 10}, "by_subset": {"hacks: praise": ROW}},
    "best-of-k": {
        "rows": 40,
        "best_of": {"2": {"rm": 0.41, "random": 0.31, "oracle": 0.71, "tasks": 5, "ci95": [0.2, 0.6]}},
        "hits": {"2": {"hits": 0.8125}},
    },
    "calibration": {
        "auc": 0.7,
        "ece": 0.125,
        "ci95": {"auc": [0.6, 0.8]},
        "reliability": BINS,
        "temperature": 3.5,
        "scaled": {"auc": 0.7, "ece": 0.0625, "reliability": BINS},
        "drift": {"largest": 0.375},
    },
    "pass-at-k": {
        "policies": {
            "tiny": {"pass_at_k": {"1": {"value": 0.23, "ci95": [0.1, 0.4], "problems": 9, "short": 3}}}
        }
    },
}


def written(root: Path, kind: str, text: str) -> None:
    """Put a result where `assay eval` puts it."""
    folder = root / "evaluations" / kind
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(text)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("pairs", ["60.0%", "40.0% – 80.0%", "Functional Correctness", "identical", "0.55", "0.61"]),
        ("robustness", ["hacks: praise"]),
        ("best-of-k", ["41.0%", "31.0%", "71.0%", "81.2%"]),
        ("calibration", ["0.125", "0.0625", "temperature 3.5", "largest change", "0.375", "0.6 – 0.8"]),
        ("pass-at-k", ["tiny", "23.0%", "10.0% – 40.0%"]),
    ],
)
def test_each_kind_is_shown_with_a_chart_and_a_table(kind: str, told: list[str], tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    written(run.root, kind, json.dumps(RESULTS[kind]))
    facts = collect(run)
    page = render(facts)
    section = page.split('<section id="evaluations">')[1].split("</section>")[0]
    for text in told:
        assert text in section
    assert section.count("<svg") == 1
    assert '<a href="#evaluations">' in page
    json.dumps(facts, allow_nan=False)


def test_a_model_of_another_objective_shows_its_own_measures(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    folder = run.root / "models" / "verifier" / "eval"
    folder.mkdir(parents=True)
    result = {
        "objective": "yesno",
        "kept": 40,
        "answered": 0.4375,
        "auc": 0.71,
        "reliability": BINS,
        "best_of": RESULTS["best-of-k"]["best_of"],
    }
    (folder / "results.json").write_text(json.dumps(result))
    facts = collect(run)
    assert facts["models"][0]["notes"] == []
    section = render(facts).split('<section id="models">')[1].split("</section>")[0]
    for text in ("objective yesno: 40", "answered", "0.4375", "41.0%"):
        assert text in section
    assert section.count("<svg") == 2


def test_a_run_without_evaluations_has_no_section(tmp_path: Path) -> None:
    assert 'id="evaluations"' not in render(collect(new_run(tmp_path / "run")))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"a": 1e999}', "[" * 100_000, "\x00"])
def test_a_file_that_is_no_result_costs_its_own_section(text: str, tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    written(run.root, "pairs", text)
    written(run.root, "pass-at-k", json.dumps(RESULTS["pass-at-k"]))
    facts = collect(run)
    assert "23.0%" in render(facts)
    if text != '{"a": 1e999}':
        assert any("evaluations/pairs/results.json" in note for note in facts["notes"])


leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from([[], [1], {}])
)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, Any]:
    """A result in which some values, at any depth, are something else."""
    kind = draw(st.sampled_from(sorted(RESULTS)))

    def spoil(value: Any, depth: int) -> Any:
        if draw(st.integers(0, 3 + depth)) == 0:
            return draw(leaves)
        if isinstance(value, dict):
            return {key: spoil(one, depth + 1) for key, one in value.items()}
        if isinstance(value, list):
            return [spoil(one, depth + 1) for one in value]
        return value

    return kind, spoil(RESULTS[kind], 0)


@given(damaged())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_of_a_result_breaks_the_page(
    tmp_path_factory: pytest.TempPathFactory, found: tuple[str, Any]
) -> None:
    run = new_run(tmp_path_factory.mktemp("runs") / "run")
    written(run.root, found[0], json.dumps(found[1]))
    told, notes = evaluations(run.root)
    assert len(told) + len(notes) == 1
    facts = collect(run)
    json.dumps(facts, allow_nan=False)
    assert facts["evaluations"] == told
    assert "<script" not in render(facts)


def test_a_strangers_names_stay_text(tmp_path: Path) -> None:
    evil = "</title><script>alert(1)</script>"
    run = new_run(tmp_path / "run")
    result = {**RESULTS["pairs"], "model": evil, "by_aspect": {evil: ROW}, "dropped": {evil: 1}}
    written(run.root, "pairs", json.dumps(result))
    written(run.root, "pass-at-k", json.dumps({"policies": {evil: RESULTS["pass-at-k"]["policies"]["tiny"]}}))
    assert "<script" not in render(collect(run))
