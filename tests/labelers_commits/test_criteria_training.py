"""Training and measuring the criterion classifier: samples, weak labels, heads, thresholds, reports."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_criteria_features import edit

from labelers.commits import classifier, criteria, labelling
from labelers.commits.classifying import features, linear_scorer, model
from labelers.commits.classifying.rules import CODES, RULES
from labelers.commits.config import LabelConfig
from labelers.commits.training import linear, metrics, weak
from labelers.commits.training.config import CriteriaConfig
from labelers.commits.training.data import Annotation, Key, read_annotations
from labelers.commits.training.metrics import NONE, Judged
from labelers.commits.training.train import evaluate_criteria, sample, train_criteria
from schemas.errors import AssayError

BUILT_IN = criteria.load()
SMALL = CriteriaConfig(per_repository=60, min_edits=3, min_repositories=2, folds=3, precision=0.8)

KINDS = {
    "FC": ("Fix crash when {} is empty", "use({})\n", "if {} is None:\n    return\nuse({})\n"),
    "RE": ("Speed up {} by a cache", "def {}(): pass\n", "@lru_cache\ndef {}(): pass\n"),
    "ME": ("Fix memory leak in {}", "{} = open()\n", "{} = open()\n{}.free()\n"),
    "SH": ("Fix security vulnerability in {}", "run({})\n", "run(escape({}))\n"),
    "RM": ("Fix typo in comment of {}", "{} = 1  # teh\n", "{} = 1  # the\n"),
    NONE: ("Add option {}", "a\n", "a\ndef {}(): pass\ndef g{}(): pass\nx = 1\ny = 2\nz = 3\nw = 4\nv = 5\n"),
}


def history(repositories: int = 6, each: int = 30) -> list[tuple[str, dict[str, Any]]]:
    """Edits of several repositories, a fifth of them to annotate: of each kind, with names of their own."""
    found = []
    for group in range(repositories):
        for number in range(each):
            code = list(KINDS)[number % len(KINDS)]
            message, old, new = (part.replace("{}", f"n{group}x{number}") for part in KINDS[code])
            row = edit(old, new, message, id=f"{group}-{number}", commit=f"c{group}-{number}", repo="r")
            found.append((f"g{group}", row))
    return found


def annotations(edits: list[tuple[str, dict[str, Any]]], every: int = 2) -> dict[Key, Annotation]:
    found = {}
    for number, (_, row) in enumerate(edits):
        if (number // len(KINDS)) % every == 0:
            code = list(KINDS)[int(row["id"].split("-")[1]) % len(KINDS)]
            one = Annotation(row["commit"], row["path"], Judged(code, (), "", True, 3))
            found[(row["commit"], row["path"])] = one
    return found


def quiet(line: str) -> None:
    assert line


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("criteria")
    edits = history()
    return folder, train_criteria(edits, annotations(edits), SMALL, folder, quiet)


def test_trained_classifier_knows_edits_of_repositories_that_it_has_not_seen(
    trained: tuple[Path, dict[str, Any]],
) -> None:
    folder, _ = trained
    for code, (message, old, new) in KINDS.items():
        row = edit(old.replace("{}", "q"), new.replace("{}", "q"), message.replace("{}", "q"), id="i")
        label = labelling.label(row, BUILT_IN, LabelConfig(classifier=str(folder)))
        assert label.criterion == (None if code == NONE else code)
        assert label.method == "classifier"
        assert label.labeler == linear_scorer.load(folder).version


def test_training_gives_the_same_bytes_whatever_the_order_of_edits(
    trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, _ = trained
    edits = history()
    train_criteria(reversed(edits), annotations(edits), SMALL, tmp_path, quiet)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["criteria_model.json", "report.json", "report.md", "report.svg"]
    for name in names:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


def test_report_of_training_is_of_edits_out_of_fold(trained: tuple[Path, dict[str, Any]]) -> None:
    folder, about = trained
    assert about == json.loads((folder / "report.json").read_text())
    assert about["scores"] == "out of fold"
    assert about["figures"]["rows"] == len(annotations(history()))
    assert about["figures"]["best"]["f1"] > 0.9


def test_folds_keep_repositories_whole() -> None:
    groups = ["a"] * 7 + ["b"] * 5 + ["c"] * 5 + ["d"]
    fold = linear.folds_of(groups, 3)
    assert all(
        len({int(one) for one, group in zip(fold, groups, strict=True) if group == name}) == 1
        for name in "abcd"
    )
    assert sorted(np.bincount(fold)) == [5, 6, 7]


def test_sample_takes_all_annotated_edits_and_at_most_so_many_others_of_a_repository() -> None:
    edits = history(3, 40)
    known = annotations(edits, 4)
    config = dataclasses.replace(SMALL, per_repository=5)
    found = sample(edits, known, config, lambda row: row["id"], quiet)
    assert sum(judged is not None for *_, judged in found) == len(known)
    for group in ("g0", "g1", "g2"):
        assert sum(name == group and judged is None for name, _, judged in found) == 5
    assert found == sample(list(reversed(edits)), known, config, lambda row: row["id"], quiet)


def test_too_little_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="too few"):
        train_criteria(history(1, 6), {}, SMALL, tmp_path, quiet)


def test_weak_labels_alone_give_a_classifier(tmp_path: Path) -> None:
    about = train_criteria(history(), {}, SMALL, tmp_path, quiet)
    assert about["scores"] == "of the training itself"
    row = edit("x = 1  # teh\n", "x = 1  # the\n", "Fix typo in comment of x", id="i")
    scored = classifier.classify(row, BUILT_IN, str(tmp_path))
    assert max(scored.scores, key=lambda code: scored.scores[code]) == "RM"


def test_known_rows_are_what_they_are_said_to_be_and_teach_how_far_rules_can_be_trusted() -> None:
    number = next(n for n, rule in enumerate(RULES) if (rule.code, rule.name) == ("RM", "tidying"))
    cast = np.zeros((200, len(RULES)), dtype=np.int8)
    cast[:60, number] = 1
    column = CODES.index("RM")
    trust = {}
    for right in (True, False):
        known = {row: {code: code == "RM" and (row < 60) == right for code in CODES} for row in range(120)}
        told, accuracy = weak.combine(cast, known)
        assert [told[row, column] for row in (0, 59, 60, 119)] == [right, right, not right, not right]
        trust[right] = accuracy["RM"]["tidying"]
    assert trust[True] > 0.8
    assert trust[False] < 0.4


def test_criterion_that_no_known_row_has_is_possible() -> None:
    known = {row: dict.fromkeys(CODES, False) for row in range(100)}
    told, _ = weak.combine(np.zeros((200, len(RULES)), dtype=np.int8), known)
    assert told[150].min() > 0


def test_silent_rules_leave_the_share() -> None:
    told, _ = weak.combine(np.zeros((3, len(RULES)), dtype=np.int8))
    assert np.allclose(told[0], told[2])
    assert 0 < told[0].sum() < 1


_CHANCES = st.lists(
    st.tuples(st.lists(st.floats(0, 1), min_size=5, max_size=5), st.sampled_from([*CODES, NONE])),
    min_size=1,
    max_size=40,
)


def _rows(given: list[tuple[list[float], str]]) -> tuple[Any, list[Judged]]:
    return np.array([row for row, _ in given]), [Judged(code, (), "C", True, 3) for _, code in given]


@given(_CHANCES, st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_figures_count_every_row_once(rows: list[tuple[list[float], str]], threshold: float) -> None:
    chances, judged = _rows(rows)
    figures = metrics.measure(chances, np.ones(len(judged)), CODES, judged, threshold)
    shipped = figures["shipped"]
    assert sum(one["answered"] for one in figures["by_criterion"].values()) == shipped["answered"]
    assert sum(one["rows"] for one in figures["by_language"].values()) == shipped["rows"]
    assert sum(figures["criteria"].values()) == len(judged)
    for found in figures["reliability"].values():
        assert sum(one["rows"] for one in found["bins"]) == len(judged)
    assert figures["best"]["f1"] >= metrics.at(chances, CODES, judged, 0.5)["f1"]


def test_any_answer_on_a_row_of_no_criterion_is_wrong() -> None:
    chances = np.array([[0.9, 0, 0, 0, 0]])
    judged = [Judged(NONE, ("FC",), "C", True, 3)]
    assert metrics.at(chances, CODES, judged, 0.5)["precision"] == 0


def test_answer_that_is_one_of_also_is_right() -> None:
    chances = np.array([[0.9, 0, 0, 0, 0]])
    assert metrics.at(chances, CODES, [Judged("RM", ("FC",), "C", True, 3)], 0.5)["precision"] == 1


def test_threshold_reaches_the_precision_or_is_1() -> None:
    chances = np.zeros((100, 5))
    chances[:, 0] = np.linspace(0.01, 1, 100)
    judged = [Judged("FC" if number >= 40 else NONE, (), "C", True, 3) for number in range(100)]
    threshold = metrics.threshold_for(chances, CODES, judged, 0.9)
    assert metrics.at(chances, CODES, judged, threshold)["precision"] >= 0.9
    assert metrics.at(chances, CODES, judged, threshold - 0.02)["precision"] < 0.9
    assert metrics.threshold_for(chances, CODES, [Judged(NONE, (), "C", True, 3)] * 100, 0.9) == 1


def test_evaluation_counts_annotated_edits_that_the_run_lacks(
    trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, _ = trained
    edits = history()
    known = annotations(edits)
    gone = Annotation("nowhere", "x.py", Judged("FC", (), "Python", True, 3))
    about = evaluate_criteria(edits, {**known, ("nowhere", "x.py"): gone}, str(folder), tmp_path, quiet)
    assert about["missing"] == 1
    assert (
        about["figures"]["shipped"]["rows"] == sum(one.judged.criterion != NONE for one in known.values()) + 1
    )
    assert "1 of them are not in the run" in (tmp_path / "report.md").read_text()
    with pytest.raises(AssayError, match="no edit of the run is annotated"):
        evaluate_criteria(edits, {("nowhere", "x.py"): gone}, str(folder), tmp_path, quiet)


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "{",
        '{"commit": "a", "path": "b", "criterion": "XX"}',
        '{"commit": "a", "path": 1, "criterion": "FC"}',
        '{"commit": "a", "path": "b", "criterion": "FC", "also": "RM"}',
        '{"commit": "a", "path": "b", "criterion": "FC", "confidence": 4}',
        '{"commit": "a", "path": "b", "criterion": "FC", "confidence": true}',
        "[" * 60_000,
    ],
)
def test_line_that_is_no_annotation_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"commit": "a", "path": "b", "criterion": "FC"}\n\n' + line + "\n")
    with pytest.raises(AssayError, match=r"a\.jsonl:3: no annotation"):
        read_annotations([path], CODES)


def test_surer_annotation_of_an_edit_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [
        {"commit": "a", "path": "b", "criterion": code, "confidence": sure}
        for code, sure in (("FC", 3), ("RM", 1))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_annotations([path], CODES)[("a", "b")].judged.criterion == "FC"


def test_model_reads_back_as_it_was_written(trained: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, _ = trained
    first = model.load(folder)
    assert model.save(first, tmp_path) == first.digest
    assert model.dump(model.load(tmp_path)) == model.dump(first)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"format": 9}, "format"),
        ({"features": -1}, "train it again"),
        ({"heads": ["FC", "FC"]}, "heads"),
        ({"names": {}}, "names"),
        ({"weights": {"a": [1]}}, "weights"),
        ({"weights": {"a": ["1", 1, 1, 1, 1, 1]}}, "no number"),
        ({"bias": [0.0] * 5}, "bias"),
        ({"slope": [float("nan")] * 6}, "no number"),
        ({"threshold": 2}, "threshold"),
        ({"threshold": None}, "float"),
    ],
)
def test_damaged_model_is_refused(
    trained: tuple[Path, dict[str, Any]], tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    data = json.loads((trained[0] / model.FILE).read_text())
    (tmp_path / model.FILE).write_text(json.dumps({**data, **change}))
    with pytest.raises(AssayError, match=why):
        model.load(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", "[" * 90_000, '{"format": 1, "kind": "linear"}', "\x00"]
)
def test_what_is_no_model_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / model.FILE).write_text(text)
    with pytest.raises(AssayError, match="cannot be used"):
        model.load(tmp_path)


def test_folder_without_a_classifier_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="cannot be read"):
        classifier.scorer(str(tmp_path / "none"))


def test_shipped_model_fits_these_features_and_is_small() -> None:
    shipped = model.built_in()
    assert shipped.names == {one.code: one.name for one in BUILT_IN}
    assert 0.5 < shipped.threshold < 0.9
    assert len(model.dump(shipped)) < 400_000
    row = edit("a\n", "b\n", "Fix it")
    assert set(features.features_of(row)) & set(shipped.weights)


def test_shipped_annotations_can_be_read() -> None:
    path = Path(linear.__file__).with_name("annotated.jsonl")
    found = read_annotations([path], CODES)
    assert {one.judged.criterion for one in found.values()} == {*CODES, NONE}
    assert len(found) == len(path.read_text().splitlines())


def test_criterion_without_a_head_is_scored_by_its_terms() -> None:
    own = criteria.Criterion("XX", "Logging", "?", ("a",), strong=("log message*",))
    scored = classifier.classify(edit("a\n", "b\n", "Write a log message"), [*BUILT_IN, own])
    assert scored.scores["XX"] > 0.5
    assert scored.terms["XX"] == ["log message"]
    assert scored.thresholds["XX"] == classifier.TERMS_THRESHOLD != scored.thresholds["FC"]


def test_criterion_that_only_shares_a_code_is_not_scored_by_the_head() -> None:
    row = edit("a\n", "b\n", "Fix crash on empty input")
    own = criteria.Criterion("FC", "Fewer Commas", "?", ("a",), strong=("comma*",))
    assert (
        classifier.classify(row, [own]).scores["FC"] < 0.5 < classifier.classify(row, BUILT_IN).scores["FC"]
    )


def test_terms_can_be_asked_for() -> None:
    scored = classifier.classify(edit("a\n", "b\n", "Fix it"), BUILT_IN, "terms")
    assert (scored.method, scored.labeler) == ("rule", classifier.version("terms"))


def test_reasons_are_words_of_the_message_and_names_of_facts() -> None:
    scored = classifier.classify(
        edit("x = 1  # teh\n", "x = 1  # the\n", "Fixed typos in the comment"), BUILT_IN
    )
    assert "only comments changed" in scored.terms["RM"]
    assert "typos" in scored.terms["RM"]


def test_min_score_overrides_the_threshold() -> None:
    row = edit("f(x)\n", "f(y)\n", "Fix crash on empty input", id="i")
    sure = labelling.label(row, BUILT_IN, LabelConfig(min_score=0.999))
    some = labelling.label(row, BUILT_IN, LabelConfig(min_score=0.001))
    assert (sure.criterion, some.criterion) == (None, "FC")
    with pytest.raises(ValueError, match="min_score"):
        LabelConfig(min_score=1.5)
