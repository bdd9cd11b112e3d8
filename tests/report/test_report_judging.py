"""What the report tells of judges, measures, instructions, and pairs that no commit made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from judging_runs import (
    EVIDENCE,
    INSTRUCTIONS,
    PREFERENCES,
    SYNTHETIC,
    VOTES,
    ballots,
    bearing,
    evidence,
    excerpt,
    imported,
    instruction,
    measure,
    review,
    synthetic,
    votes,
)
from report_runs import (
    EDITS,
    LABELS,
    TEST,
    TRAIN,
    edit,
    finish,
    label,
    new_run,
    pair,
)

import assay.report.votes as judging
from assay.report import collect
from assay.report.plain import median
from schemas.stage import Output


def rows_of(cells: list[dict[str, Any]], *keys: str) -> dict[Any, int]:
    return {tuple(cell[key] for key in keys): cell["rows"] for cell in cells}


def test_decisions_are_counted_by_criterion_and_shares_by_decision(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [
        votes(0),
        votes(1, criterion="RE", share=0.75, worse=["RM", "ME"]),
        votes(2, criterion="RE", decision="opposed", share=0.0, worse=["RM"], strength=None),
        votes(3, decision="weak", share=0.625, strength=1.5, better=["RM"]),
    ]
    finish(run, "vote", {VOTES: rows})
    found = collect(run)["votes"]
    assert rows_of(found["cells"], "criterion", "decision") == {
        ("FC", "confirmed"): 1,
        ("FC", "weak"): 1,
        ("RE", "confirmed"): 1,
        ("RE", "opposed"): 1,
    }
    assert found["share"] == {
        "confirmed": [0, 0, 0, 0, 0, 0, 0, 1, 0, 1],
        "others": [1, 0, 0, 0, 0, 0, 1, 0, 0, 0],
    }
    assert found["strength"] == {"bins": [0, 1, 0, 0, 0, 0, 2, 0, 0], "known": 3, "mean": 3.167}
    assert rows_of(found["worse"], "criterion", "other") == {("RE", "ME"): 1, ("RE", "RM"): 2}
    assert rows_of(found["better"], "criterion", "other") == {("FC", "RM"): 1}
    assert found["with_worse"] == {"confirmed": 1, "others": 1}
    assert found["calls"] == 40


def test_a_judges_votes_on_the_own_criterion_stand_apart_from_others(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    counts = [
        *ballots("j", "FC", (1, 1, 0, 0), (0, 0, 1, 1)),
        *ballots("j", "RE", (0, 0, 3, 0), (0, 0, 0, 4)),
        *ballots("k", "FC", (2, 0, 0, 0), (2, 0, 0, 0)),
    ]
    rows = [
        votes(0, counts=counts, reviews=[review(purposes=2), review("k", None, None, None)]),
        votes(1, counts=ballots("j", "FC", (-5, 0, 0, 1), (0, 0, 0, 1)), reviews=[]),
    ]
    finish(run, "vote", {VOTES: rows})
    judges = {one["name"]: one for one in collect(run)["votes"]["judges"]}
    assert judges["j"]["own"] == {"new": 1, "old": 1, "tie": 1, "error": 3}
    assert judges["j"]["others"] == {"new": 0, "old": 0, "tie": 3, "error": 4}
    assert (judges["j"]["reviews"], judges["j"]["several_purposes"]) == (1, 1)
    assert judges["k"]["own"] == {"new": 4, "old": 0, "tie": 0, "error": 0}
    assert (judges["k"]["reviews"], judges["k"]["unanswered_reviews"]) == (1, 1)


def test_agreement_tells_judges_who_differ_and_who_go_by_position_or_length(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    # `a` always says A; `l` prefers the longer version, which is the new one of even edits.
    rows = []
    for n in range(6):
        longer = (2, 0, 0, 0) if n % 2 == 0 else (0, 2, 0, 0)
        counts = [*ballots("l", "FC", longer, longer), *ballots("a", "FC", (0, 2, 0, 0), (2, 0, 0, 0))]
        rows.append(votes(n, piece=n % 3 if n > 3 else None, counts=counts, reviews=[]))
    short, long = "x = 1\n", "x = 1\n" * 9
    sides = [(short, long) if n % 2 == 0 else (long, short) for n in range(6)]
    edits = [edit(n, old_contents=old, new_contents=new) for n, (old, new) in enumerate(sides)]
    # What a piece's lengths are is told by its excerpt, not by its file.
    pieces = [excerpt(n, n % 3, *sides[n]) for n in (4, 5)]
    edits[4:] = [edit(n, old_contents=sides[n][1], new_contents=sides[n][0]) for n in (4, 5)]
    finish(run, "mine", {EDITS: edits})
    finish(run, "cut", {Output("excerpts"): pieces})
    finish(run, "vote", {VOTES: rows})
    found = collect(run)["votes"]["agreement"]
    judges = {one["name"]: one for one in found["judges"]}
    assert (found["rows"], found["of"], found["with_lengths"]) == (6, 6, 6)
    assert (judges["a"]["said_a"]["share"], judges["l"]["said_a"]["share"]) == (1, 0.5)
    assert judges["a"]["said_a"]["low"] > 0.8
    assert (judges["a"]["longer"]["share"], judges["l"]["longer"]["share"]) == (0.5, 1)
    assert judges["a"]["same_in_both_orders"]["share"] == 0
    assert found["own"]["items"] == 6
    assert found["own"]["kappa"] < 0
    assert [(one["one"], one["other"], one["same"]["hits"]) for one in found["pairs"]] == [("a", "l", 0)]


def test_agreement_of_many_rows_is_of_a_sample_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path / "run")
    # Ids that are spread evenly, as hashes are.
    finish(run, "vote", {VOTES: [votes(n, id=f"{n * (1 << 32) // 800:08x}") for n in range(800)]})
    whole = collect(run)["votes"]
    monkeypatch.setattr(judging, "SAMPLE", 100)
    found = collect(run)["votes"]
    assert whole["agreement"]["rows"] == 800
    assert (found["agreement"]["rows"], found["agreement"]["of"]) == (100, 800)
    assert {**found, "agreement": None} == {**whole, "agreement": None}


def test_ids_that_are_no_hashes_do_not_make_the_sample_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "vote", {VOTES: [votes(n) for n in range(300)]})
    monkeypatch.setattr(judging, "SAMPLE", 10)
    assert collect(run)["votes"]["agreement"]["rows"] == 20


def test_many_judges_are_compared_up_to_twelve(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    counts = [one for n in range(60) for one in ballots(f"j{n:02d}", "FC", (n + 1, 0, 0, 0))]
    finish(run, "vote", {VOTES: [votes(0, counts=counts, reviews=[review(f"j{n:02d}") for n in range(60)])]})
    found = collect(run)["votes"]
    assert len(found["judges"]) == 40
    assert [one["name"] for one in found["agreement"]["judges"]] == [f"j{n}" for n in range(59, 47, -1)]


def test_half_a_review_and_rows_without_votes_break_nothing(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    odd = {"share": float("nan"), "strength": float("inf"), "specificity": -3.0}
    rows = [
        votes(0, counts=[], reviews=[], **odd),
        votes(1, reviews=[review(purposes=None), review("k", specificity=None)]),
        votes(2, counts=ballots("j", "FC", (-1, -2, -3, -4), (2**31 - 1, 0, 0, 0))),
    ]
    finish(run, "vote", {VOTES: rows})
    found = collect(run)
    json.dumps(found, allow_nan=False)
    assert sum(found["votes"]["share"]["confirmed"]) == 2


def test_nobody_voted(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "vote", {VOTES: [votes(0, counts=[], reviews=[], decision="no_answer", share=0.0)]})
    assert collect(run)["votes"]["agreement"] is None


def test_measures_are_set_against_the_criterion_put_before_judges_or_labelled(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    both = [bearing("FC", "disagrees", ("tests",)), bearing("RE", "agrees", ("run_time", "lint"))]
    finish(run, "label", {LABELS: [label(0, "FC"), label(1, "FC"), label(2, None), label(4, "FC")]}, unit="a")
    finish(run, "label", {LABELS: [label(3, "FC")]}, unit="b")
    rows = [evidence(n, bearings=both) for n in range(3)]
    finish(run, "evidence", {EVIDENCE: rows}, unit="a")
    # The label of another unit's edit is not asked for.
    finish(run, "evidence", {EVIDENCE: [evidence(4, bearings=both)]}, unit="b")
    finish(run, "vote", {VOTES: [votes(1, criterion="RE", decision="tied")]}, unit="a")
    found = collect(run)["evidence"]
    assert found["without_criterion"] == 2
    assert rows_of(found["bearings"], "criterion", "verdict") == {("FC", "disagrees"): 4, ("RE", "agrees"): 4}
    assert rows_of(found["proposed"], "criterion", "verdict") == {("FC", "disagrees"): 1, ("RE", "agrees"): 1}
    assert rows_of(found["decided"], "decision", "verdict") == {("tied", "agrees"): 1}
    assert found["spoke"] == [
        {"name": "lint", "agrees": 4, "disagrees": 0},
        {"name": "run_time", "agrees": 4, "disagrees": 0},
        {"name": "tests", "agrees": 0, "disagrees": 4},
    ]


def test_measures_that_moved_are_told_by_criterion(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    sides = [
        (4.0, 3.0),
        (8.0, 9.0),
        (6.0, 6.0),
        (None, 2.0),
        (2.0, None),
        (float("nan"), 1.0),
        (1e308, 1e308),
    ]
    rows = [evidence(n, measures=[measure("complexity", *both)]) for n, both in enumerate(sides)]
    rows.append(evidence(9, measures=[measure("lint_F", 0.0, 12345.0)], veto="no_longer_parses"))
    finish(run, "label", {LABELS: [label(n, "RM") for n in range(9)]})
    finish(run, "evidence", {EVIDENCE: rows})
    found = collect(run)["evidence"]
    keys = ("criterion", "measure", "rows", "old", "new", "lower", "higher")
    assert [tuple(one[key] for key in keys) for one in found["moves"]] == [
        ("RM", "complexity", 3, 6.0, 6.0, 1, 1),
        ("not known", "lint_F", 1, 0.0, 12300.0, 0, 1),
    ]
    assert [(one["name"], one["rows"]) for one in found["vetoes"]["top"]] == [("no_longer_parses", 1)]


def test_views_are_files_or_pieces_and_notes_are_counted(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [evidence(0, notes=["lint:timeout", "imports_all"]), evidence(1, piece=0, notes=["lint:timeout"])]
    finish(run, "evidence", {EVIDENCE: rows})
    found = collect(run)["evidence"]
    assert found["levels"] == {"file": 1, "piece": 1}
    assert {one["name"]: one["rows"] for one in found["notes"]["top"]} == {
        "lint:timeout": 2,
        "imports_all": 1,
    }


def test_instructions_tell_how_many_attempts_they_took_and_why(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [
        instruction(0),
        instruction(1, attempts=3, refused=["names_change", "quotes_message"]),
        instruction(2, attempts=2, refused=["names_change"], spoken="de", kind="recovered"),
    ]
    finish(run, "instruct", {INSTRUCTIONS: rows})
    found = collect(run)["instructions"]
    assert [(one["attempts"], one["rows"]) for one in found["attempts"]] == [(1, 1), (2, 1), (3, 1)]
    assert {one["name"]: one["rows"] for one in found["refused"]["top"]} == {
        "names_change": 2,
        "quotes_message": 1,
    }
    assert {one["name"]: one["rows"] for one in found["kinds"]["top"]} == {"inverse": 2, "recovered": 1}


def test_pairs_tell_who_decided_and_what_they_rest_on(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    judged = {"labeler": "j+k", "method": "model", "votes": ballots(), "trade_offs": ["RM", "ME"]}
    rows = [
        pair(0),
        pair(1, evidence={**judged, "measures": [measure()], "instruction_kind": "inverse"}),
        pair(2, evidence={"method": "rule"}),
    ]
    finish(run, "build", {TRAIN: rows, TEST: []})
    found = collect(run)["pairs"]
    assert rows_of(found["deciders"], "labeler", "method") == {
        ("j+k", "model"): 1,
        ("lexicon 1", "classifier"): 1,
        ("lexicon 1", "rule"): 1,
    }
    assert found["with"] == {"measures": 1, "votes": 1, "trade_offs": 1}
    assert rows_of(found["trade_offs"], "aspect", "worse") == {
        ("Functional Correctness", "RM"): 1,
        ("Functional Correctness", "ME"): 1,
    }
    assert {one["name"]: one["rows"] for one in found["instruction_kinds"]["top"]} == {
        "template": 2,
        "inverse": 1,
    }


def test_synthetic_and_imported_pairs_have_no_repository_to_share(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "synthesize", {SYNTHETIC: [synthetic(0), synthetic(1, evidence={"made_by": None})]})
    test = Output("preferences", "test")
    finish(
        run,
        "preferences",
        {PREFERENCES: [imported(0)], test: [imported(1, aspect="Helpfulness", split="test")]},
    )
    facts = collect(run)
    made = facts["synthetic"]["made"]
    assert rows_of(made, "made_by", "source") == {
        ("operator:off_by_one 1", "planted"): 1,
        ("(none)", "planted"): 1,
    }
    given = facts["preferences"]
    assert rows_of(given["sources"], "source", "aspect") == {
        ("set/a", "Functional Correctness"): 1,
        ("set/a", "Helpfulness"): 1,
    }
    assert given["repositories_in_both_splits"] == 0
    assert given["splits"] == {
        "test": {"rows": 1, "repositories": 0},
        "train": {"rows": 1, "repositories": 0},
    }
    assert facts["counts"]["synthetic"] == facts["counts"]["preferences"] == 2


def test_new_stages_stand_where_the_data_passes_them(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    for stage, output in (
        ("preferences", PREFERENCES),
        ("build", TRAIN),
        ("instruct", INSTRUCTIONS),
        ("synthesize", SYNTHETIC),
        ("vote", VOTES),
        ("evidence", EVIDENCE),
        ("label", LABELS),
    ):
        finish(run, stage, {output: []}, {"no_criterion": 1})
    assert [stage["stage"] for stage in collect(run)["stages"]] == [
        *("label", "evidence", "vote", "instruct", "build", "synthesize", "preferences"),
    ]


def test_broken_shards_of_votes_and_labels_cost_their_own_figures(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "label", {LABELS: [label(0)]})
    finish(run, "evidence", {EVIDENCE: [evidence(0)]})
    finish(run, "vote", {VOTES: [votes(0)]})
    for table in ("labels", "votes"):
        (run.root / table / "part-u.parquet").write_bytes(b"PAR1 no longer")
    facts = collect(run)
    assert (facts["evidence"]["rows"], facts["evidence"]["without_criterion"]) == (1, 1)
    assert facts["votes"]["rows"] == 0
    for table in ("labels", "votes"):
        assert sum(note.startswith(f"{table}: shard part-u.parquet") for note in facts["notes"]) == 1


@pytest.mark.parametrize(
    ("counts", "middle"),
    [({}, None), ({3: 1}, 3), ({1: 1, 2: 1}, 1.5), ({1: 2, 9: 1}, 1), ({1.7e308: 2}, 1.7e308)],
)
def test_median_of_counted_values(counts: dict[float, int], middle: float | None) -> None:
    assert median(counts) == middle
