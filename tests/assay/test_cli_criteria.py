"""`assay train criteria` and `assay eval criteria`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runs import assay, make_repo

from schemas.rundir import RunDir


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the edits of a small history."""
    folder = tmp_path_factory.mktemp("criteria")
    repo = make_repo(folder / "project.git", 180)
    run = folder / "run"
    done = assay("mine", repo, "--run-dir", run)
    assert done.code == 0, done.err
    return run


@pytest.fixture(scope="module")
def annotated(mined: Path) -> Path:
    """Every second edit of the run with what its message says."""
    words = {"Fix crash": "FC", "Speed up": "RE", "Refactor": "RM", "Fix memory": "ME", "Escape": "SH"}
    path = mined.parent / "annotated.jsonl"
    rows = RunDir.open(mined).rows("edits", columns=["commit", "path", "subject"])
    with path.open("w") as lines:
        for row in list(rows)[::2]:
            found = [code for word, code in words.items() if row["subject"].startswith(word)]
            told = {"commit": row["commit"], "path": row["path"], "criterion": (found or ["NONE"])[0]}
            lines.write(json.dumps(told) + "\n")
    return path


def test_a_trained_classifier_labels_and_is_measured(mined: Path, annotated: Path, tmp_path: Path) -> None:
    folder = tmp_path / "criteria"
    small = ("--set", "criteria.min_edits=1", "--set", "criteria.min_repositories=1")
    done = assay(
        "train", "criteria", "--run-dir", mined, "--annotated", annotated, "--out", folder, *small, "--json"
    )
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["folder"] == str(folder)
    assert sorted(path.name for path in folder.iterdir())[0] == "criteria_model.json"
    use = ("--set", f"label.classifier={folder}")
    measured = assay(
        "eval",
        "criteria",
        "--run-dir",
        mined,
        "--annotated",
        annotated,
        "--out",
        folder / "eval",
        *use,
        "--json",
    )
    assert measured.code == 0, measured.err
    found = json.loads(measured.out)
    assert found["classifier"] == told["classifier"]
    assert found["figures"]["rows"] == len(annotated.read_text().splitlines())
    labelled = assay("label", "--run-dir", mined, *use)
    assert labelled.code == 0, labelled.err
    assert {row["labeler"] for row in RunDir.open(mined).rows("labels")} == {told["classifier"]}


def test_a_classifier_of_weak_labels_alone_is_called_unmeasured(mined: Path, tmp_path: Path) -> None:
    small = ("--set", "criteria.min_edits=1", "--set", "criteria.min_repositories=1")
    done = assay("train", "criteria", "--run-dir", mined, "--out", tmp_path / "criteria", *small)
    assert done.code == 0, done.err
    assert "not measured" in done.out
    assert "F1" not in done.out


def test_a_history_with_too_few_edits_is_told(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assay("mine", make_repo(tmp_path / "project.git", 12), "--run-dir", run)
    done = assay("train", "criteria", "--run-dir", run)
    assert done.code == 2
    assert "mine more history" in done.err


def test_a_dry_run_trains_nothing(mined: Path, annotated: Path, tmp_path: Path) -> None:
    folder = tmp_path / "criteria"
    done = assay(
        "train", "criteria", "--run-dir", mined, "--annotated", annotated, "--out", folder, "--dry-run"
    )
    assert done.code == 0
    assert "would go into" in done.out
    assert not folder.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("eval", "criteria"), "--annotated FILE"),
        (("eval", "criteria", "--annotated", "missing.jsonl"), "missing.jsonl: cannot be read"),
        (("train", "criteria", "--annotated", "missing.jsonl"), "missing.jsonl: cannot be read"),
        (("train", "criteria", "--backend", "encoder"), "encoder"),
        (("train", "--backend", "linear"), "assay train criteria"),
        (("eval", "--annotated", "some.jsonl"), "assay train criteria"),
        (("train", "criteria", "--set", "criteria.folds=1"), "folds must be at least 2"),
    ],
)
def test_what_cannot_be_trained_or_measured_is_told(mined: Path, words: tuple[str, ...], said: str) -> None:
    done = assay(*words, "--run-dir", mined)
    assert done.code == 2, done.err
    assert said in " ".join(done.err.split())
    assert "Traceback" not in done.err


def test_a_run_without_edits_is_told(tmp_path: Path, annotated: Path) -> None:
    problems = tmp_path / "problems.jsonl"
    problems.write_text("")
    assay("problems", problems, "--run-dir", tmp_path / "run")
    done = assay("train", "criteria", "--run-dir", tmp_path / "run", "--annotated", annotated)
    assert done.code == 2
    assert "assay mine" in done.err
