"""What the page shows of judges, measures, and what a pair rests on."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_runs import (
    EVIDENCE,
    PREFERENCES,
    SYNTHETIC,
    VOTES,
    ballots,
    bearing,
    evidence,
    imported,
    measure,
    review,
    synthetic,
    votes,
)
from report_runs import (
    LABELS,
    TEST,
    TRAIN,
    check,
    finish,
    label,
    new_run,
    pair,
)

import assay.report.votes as judging
from assay.report import collect, render
from assay.report.page import moved


def test_a_pairs_card_shows_what_it_rests_on(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    counts = [
        *ballots("j", "FC", (2, 0, 0, 0), (1, 0, 1, 0)),
        *ballots("j", "RM", (0, 2, 0, 0), (0, 1, 0, 1)),
    ]
    rests = {
        "merged_by": "pr:7",
        "measures": [measure("complexity", 4.0, 2.5), measure("lint", None, 1.0), measure("nesting", 2, 2)],
        "bearings": [bearing("FC", "agrees", ["tests", "lint"]), bearing("RM", "silent", ())],
        "votes": counts,
        "share": 0.875,
        "trade_offs": ["RM"],
        "instruction_kind": "inverse",
        "instruction_style": "terse",
        "instruction_by": "m inverse 3",
    }
    finish(run, "build", {TRAIN: [pair(0, evidence=rests)], TEST: []})
    text = check(render(collect(run))).text
    card = text.partition("Drawn by hash")[2]
    assert "o/r · a.py · cccccccccccc · Python · MIT · assay · got in by pr:7" in card
    assert "Instruction: inverse, style terse, by m inverse 3" in card
    assert "At the cost of RM." in card
    assert "FCagreestests, lint RMsilent" in card
    assert "complexity42.5 lint–1 The same in both: nesting 2." in card
    assert "Votes: 87.5% for the chosen version" in card
    assert "jFC20001010 jRM02000101" in card


def test_pairs_of_no_repository_show_what_made_them(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "synthesize", {SYNTHETIC: [synthetic(0)]})
    finish(run, "preferences", {PREFERENCES: [imported(0)]})
    text = check(render(collect(run))).text
    assert "None" not in text
    assert "Nothing was found" not in text
    card = text.partition("Drawn by hash")[2]
    assert "Made by operator:off_by_one 1; line 3: < to <=; criterion by execution" in card
    assert "Functional Correctness imported Python · set/a row 7; criterion by published" in card


def test_votes_tell_decisions_in_words_and_judges_by_their_figures(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    differing = [*ballots("j"), *ballots("k", "FC", (0, 2, 0, 1), (1, 0, 1, 0))]
    rows = [votes(0), votes(1, decision="tied", share=0.5, counts=differing)]
    finish(run, "vote", {VOTES: rows})
    reasons = {"build": {"judged_tied": "the judges see no difference"}}
    text = check(render(collect(run, reasons))).text
    assert "tied the judges see no difference150.0%" in text
    # New, old, ties of the usable votes, errors of all.
    assert "k52112.5%111.1%" in text
    assert "Fleiss' kappa" in text
    assert "j, k250.0%" in text


def test_a_sample_of_the_votes_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "vote", {VOTES: [votes(n, id=f"{n:08x}") for n in range(30)]})
    assert "drawn by id" not in check(render(collect(run))).text
    monkeypatch.setattr(judging, "SAMPLE", 10)
    assert "Of 20 of the 30 views, drawn by id." in check(render(collect(run))).text


def test_measures_are_shown_before_and_after(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "label", {LABELS: [label(n) for n in range(3)]})
    sides = [(1.0, 2.0), (4.0, 3.0), (9.0, 9.0)]
    finish(
        run,
        "evidence",
        {EVIDENCE: [evidence(n, measures=[measure("nesting", *s)]) for n, s in enumerate(sides)]},
    )
    text = check(render(collect(run))).text
    assert "nesting4 → 3 ↓ 33.3% ↑ 33.3%" in text.replace("3↓", "3 ↓")


@given(st.dictionaries(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), st.integers(0, 3)))
def test_measures_that_moved_have_one_cell_a_criterion(ways: dict[tuple[str, str], int]) -> None:
    moves = [
        {"measure": measure, "criterion": criterion, "rows": 9, "lower": way % 2, "higher": way // 2}
        for (measure, criterion), way in ways.items()
    ]
    table = moved(moves)
    shown = [cell for row in table["rows"] for cell in row["cells"] if cell]
    kept = {measure for (measure, _), way in ways.items() if way}
    assert sorted(shown, key=repr) == sorted((one for one in moves if one["measure"] in kept), key=repr)
    assert table["left_out"] == len({measure for measure, _ in ways}) - len(kept)


def test_one_judge_has_no_kappa(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "vote", {VOTES: [votes(0, counts=ballots(), reviews=[review()])]})
    text = check(render(collect(run))).text
    assert "Each judge" in text
    assert "Fleiss" not in text
