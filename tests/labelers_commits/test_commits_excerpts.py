"""Pairs of excerpts and of the pieces of an edit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from labelers.commits import criteria, pairs
from labelers.commits.config import BuildConfig, LabelConfig
from labelers.commits.labelling import label
from labelers.commits.pieces import gap_mark, with_hunks
from labelers.commits.reasons import REASONS
from schemas.declare import as_row, validate
from schemas.ids import content_id
from schemas.records import PreferencePair
from schemas.stage import Drop, Keep, Outcome

BUILT_IN = criteria.load()
OLD = "def parse(x):\n    return x\n\n\ndef show(y):\n    print(y)\n"
NEW = "def parse(x):\n    return int(x)\n\n\ndef show(y):\n    log(y)\n"
HUNKS = [
    {"old_start": 2, "old_lines": 1, "new_start": 2, "new_lines": 1},
    {"old_start": 6, "old_lines": 1, "new_start": 6, "new_lines": 1},
]


def edit(message: str = "Fix crash in parse") -> dict[str, Any]:
    return {
        "id": content_id(message),
        "repo": "owner/project",
        "commit": "c" * 40,
        "path": "src/module.py",
        "language": "Python",
        "old_contents": OLD,
        "new_contents": NEW,
        "subject": message.partition("\n")[0],
        "message": message,
        "license": "MIT",
        "file_license": None,
        "merged_by": None,
        "hunks": HUNKS,
        "lines_added": 2,
        "lines_removed": 2,
    }


def excerpt(piece: int = 0, pieces: int = 1, **change: Any) -> dict[str, Any]:
    name = ("parse", "show")[piece]
    return {
        "id": str(piece),
        "piece": piece,
        "pieces": pieces,
        "names": [name],
        "old_contents": f"def {name}(z):\n    return z\n# ...\n",
        "new_contents": f"def {name}(z):\n    return int(z)\n# ...\n",
        "hunks": HUNKS if pieces == 1 else [HUNKS[piece]],
        "tokens": 5,
        "file_tokens": 40,
        "parses": True,
        **change,
    }


def built(row: dict[str, Any], *excerpts: dict[str, Any], **settings: Any) -> Outcome:
    given = as_row(label(row, BUILT_IN, LabelConfig()))
    return pairs.pair(row, given, BUILT_IN, BuildConfig(**settings), 0, excerpts, split="train")


def records(outcome: Outcome) -> list[PreferencePair]:
    assert isinstance(outcome, Keep), outcome
    for one in outcome.records:
        validate(PreferencePair, one)
    return list(outcome.records)


def reason(outcome: Outcome) -> str:
    assert isinstance(outcome, Drop)
    assert outcome.reason in REASONS["build"]
    return outcome.reason


def test_files_that_fit_are_taken_whole() -> None:
    (made,) = records(built(edit(), excerpt()))
    assert (made.chosen, made.evidence.level, made.evidence.names) == (NEW, "file", [])
    assert made.idx == content_id("pair", edit()["id"], "FC")


def test_excerpt_is_taken_where_the_files_do_not_fit() -> None:
    (made,) = records(built(edit(), excerpt(), max_tokens=10))
    assert (made.chosen, made.rejected) == (excerpt()["new_contents"], excerpt()["old_contents"])
    assert (made.evidence.level, made.evidence.names) == ("function", ["parse"])
    assert made.idx == content_id("pair", edit()["id"], "0", "FC")
    assert made.evidence.instruction_by.startswith("excerpt-")


def test_function_level_takes_the_excerpt_of_files_that_fit_too() -> None:
    (made,) = records(built(edit(), excerpt(), level="function"))
    assert made.evidence.level == "function"


def test_file_level_has_no_bound_and_no_pieces() -> None:
    (made,) = records(built(edit(), excerpt(0, 2), excerpt(1, 2), level="file", max_tokens=10))
    assert made.chosen == NEW


def test_versions_that_are_the_same_where_a_reader_cuts_them_make_no_pair() -> None:
    assert reason(built(edit(), level="file", max_tokens=1)) == "same_when_cut"


def test_hunks_of_one_piece_are_made_alone() -> None:
    assert with_hunks(edit(), HUNKS[:1]) == OLD.replace("return x", "return int(x)")
    assert with_hunks(edit(), HUNKS[1:]) == OLD.replace("print", "log")
    assert with_hunks(edit(), HUNKS) == NEW
    assert with_hunks(edit(), []) == OLD


def test_insertions_and_deletions_of_one_piece_are_made_alone() -> None:
    row = {**edit(), "old_contents": "a\nb\nc\nd", "new_contents": "x\na\nb\nd\ny"}
    insert = {"old_start": 0, "old_lines": 0, "new_start": 1, "new_lines": 1}
    delete = {"old_start": 3, "old_lines": 1, "new_start": 3, "new_lines": 0}
    append = {"old_start": 4, "old_lines": 0, "new_start": 5, "new_lines": 1}
    assert with_hunks(row, [insert]) == "x\na\nb\nc\nd"
    assert with_hunks(row, [delete]) == "a\nb\nd"
    assert with_hunks(row, [append]) == "a\nb\nc\nd\ny"
    assert with_hunks(row, [append, delete, insert]) == row["new_contents"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tokens": 11}, "too_long"),
        ({"parses": False}, "broken_excerpt"),
        ({"tokens": 11, "parses": False}, "too_long"),
    ],
)
def test_excerpt_that_does_not_do_drops_the_edit(change: dict[str, Any], why: str) -> None:
    assert reason(built(edit(), excerpt(**change), max_tokens=10)) == why


def test_edit_that_could_not_be_cut_is_taken_whole_or_not_at_all() -> None:
    assert len(records(built(edit()))) == 1
    assert reason(built(edit(), max_tokens=5)) == "too_long"


def test_request_for_an_excerpt_asks_for_no_whole_file() -> None:
    for number in range(20):
        row = edit(f"Fix crash in parse {number}")
        (made,) = records(built(row, excerpt(), level="function"))
        assert "whole" not in made.input
        assert "complete" not in made.input


MESSAGE = "Fix crash in parse, and show by log"


def test_piece_whose_part_of_the_message_has_the_label_becomes_the_pair() -> None:
    (made,) = records(built(edit(MESSAGE), excerpt(0, 2), excerpt(1, 2)))
    assert made.evidence.names == ["parse"]
    assert made.aspect == "Functional Correctness"


def test_both_pieces_become_pairs_when_both_have_the_label() -> None:
    message = "Fix crash in parse, and fix wrong show"
    made = records(built(edit(message), excerpt(0, 2), excerpt(1, 2)))
    assert [one.evidence.names for one in made] == [["parse"], ["show"]]
    assert len({one.idx for one in made}) == 2


@pytest.mark.parametrize(
    ("message", "vetoed", "counted"),
    [
        (MESSAGE, (), {"pieces_not_proposed": 1}),
        ("Fix crash in parse, and fix wrong show", (), {}),
        ("Fix crash in parse, and fix wrong show", (1,), {"pieces_vetoed": 1}),
        ("Fix crash in parse, and fix wrong show", (0, 1), {}),
    ],
)
def test_pieces_left_out_of_an_edit_that_is_kept_are_counted(
    message: str, vetoed: tuple[int, ...], counted: dict[str, int]
) -> None:
    row, cut = edit(message), (excerpt(0, 2), excerpt(1, 2))
    given = as_row(label(row, BUILT_IN, LabelConfig()))
    forbidden = {"veto": "no_longer_parses", "bearings": [], "measures": []}
    evidence = {content_id("view", row["id"], str(piece)): forbidden for piece in vetoed}
    counts = Counter[str]()
    outcome = pairs.pair(
        row,
        given,
        BUILT_IN,
        BuildConfig(),
        0,
        cut,
        split="train",
        findings=pairs.Findings(evidence=evidence),
        counts=counts,
    )
    assert isinstance(outcome, Drop) == (vetoed == (0, 1))
    assert dict(counts) == counted


def test_pieces_without_the_label_drop_the_edit() -> None:
    row = edit("Fix crash")
    assert reason(built(row, excerpt(0, 2), excerpt(1, 2))) == "several_pieces"


def test_purpose_of_a_piece_is_not_doubted_for_the_other_pieces() -> None:
    message = "Fix crash in parse, rename a, move b, and show by log"
    row = edit(message)
    assert reason(built(row, excerpt())) == "several_purposes"
    (made,) = records(built(row, excerpt(0, 2), excerpt(1, 2)))
    assert made.evidence.single_intent > 0.5


def test_evidence_of_a_piece_is_the_built_in_classifiers() -> None:
    row = edit(MESSAGE)
    given = {**as_row(label(row, BUILT_IN, LabelConfig())), "labeler": "somebody", "method": "model"}
    outcome = pairs.pair(
        row, given, BUILT_IN, BuildConfig(), 0, [excerpt(0, 2), excerpt(1, 2)], split="train"
    )
    assert {one.evidence.method for one in records(outcome)} == {"classifier"}


def test_gaps_are_comments() -> None:
    assert (gap_mark("Python"), gap_mark("C++")) == ("# ...", "// ...")


def test_bound_below_one_token_is_refused() -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        BuildConfig(max_tokens=0)
