"""The `split` stage over the parts of a run: what test may not know from train."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from split_runs import decided, edit, finish, lines, mined, repositories, verdicts, work

from miner.config import DecontaminateConfig, DedupConfig, SplitConfig
from miner.leakage import broken, read_facts
from miner.steps import SplitEdits, plan_split
from schemas.errors import RunDirError
from schemas.ids import split_of
from schemas.records import Edit
from schemas.rundir import RunDir
from schemas.stage import VERDICTS, Output

OUTPUTS = (Output("splits"),)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.open(tmp_path / "run", create=True)


def split(run: RunDir, limit: int | None = None, **settings: Any) -> dict[str, str]:
    config = SplitConfig(**{"test_share": 0.5, **settings})
    step = SplitEdits(config, DecontaminateConfig(), DedupConfig(), run.root, 0)
    work(run, step, OUTPUTS, plan_split(run, limit))
    return {row["id"]: row["split"] for row in run.rows("splits")}


def sides(*names: str) -> tuple[str, str]:
    """Names of two repositories that nothing links: one in train, one in test."""
    from schemas.ids import content_id

    found = {split_of(0, content_id("repo", name), 0.5): name for name in (f"owner/r{n}" for n in range(30))}
    return found["train"], found["test"]


TRAIN, TEST = sides()


def test_repositories_are_told_apart(run: RunDir) -> None:
    one, other = edit(TRAIN, add=lines("one", 8)), edit(TEST, add=lines("other", 8))
    mined(run, {"p": [one], "q": [other]}, "decontaminate")
    assert split(run) == {one.id: "train", other.id: "test"}


def test_function_copied_into_another_repository_leaves_test(run: RunDir) -> None:
    source = edit(TRAIN, "lib.py", add=lines("copied", 8))
    copy = edit(TEST, "vendored/thing.py", add=["# taken\n", *lines("copied", 8)])
    own = edit(TEST, "own.py", add=lines("own", 8))
    mined(run, {"p": [source, copy, own]}, "decontaminate")
    assert split(run) == {source.id: "train", own.id: "test"}
    reason, detail, _ = decided(run, "split")[copy.id]
    assert reason == "leaks"
    assert detail is not None
    assert "copied_0a call_copied_0b" in detail


def test_message_that_train_has_too_leaves_test(run: RunDir) -> None:
    said = " ".join(f"word{n}" for n in range(40))
    one, other = edit(TRAIN, "a.py", message=said, add=["x\n"]), edit(TEST, "b.py", message=said, add=["y\n"])
    mined(run, {"p": [one, other]}, "decontaminate")
    assert split(run) == {one.id: "train"}


def test_same_file_in_another_repository_leaves_test(run: RunDir) -> None:
    shared = lines("shared", 20)
    one = edit(TRAIN, "a.py", old=shared, add=lines("one", 6))
    other = edit(TEST, "b.py", old=shared, add=lines("other", 6))
    mined(run, {"p": [one, other]}, "decontaminate")
    assert split(run) == {one.id: "train"}
    assert (decided(run, "split")[other.id][1] or "").startswith("file_version")


def test_short_change_to_nearly_the_same_file_leaves_test(run: RunDir) -> None:
    shared = lines("shared", 60)
    one = edit(TRAIN, "a.py", old=shared, add=["x = 1\n"])
    other = edit(TEST, "b.py", old=[*shared[:-1], "the end\n"], add=["x = 1\n"])
    mined(run, {"p": [one, other]}, "decontaminate")
    assert split(run) == {one.id: "train"}
    assert (decided(run, "split")[other.id][1] or "").startswith("duplicate")


def test_trivial_patch_of_both_leaves_test(run: RunDir) -> None:
    one, other = (edit(repo, old=["a\n", "b\n", "c\n"], add=["x\n"]) for repo in (TRAIN, TEST))
    mined(run, {"p": [one, other]}, "decontaminate")
    assert split(run) == {one.id: "train"}
    assert (decided(run, "split")[other.id][1] or "").startswith("patch")


def test_fork_is_known_by_an_edit_that_was_dropped_since(run: RunDir) -> None:
    copies = [edit(repo, old=lines("f", 9), add=lines("patch", 4)) for repo in (TRAIN, TEST)]
    own = [edit(repo, "own.py", add=lines(repo[-2:], 8)) for repo in (TRAIN, TEST)]
    mined(run, {"p": [*copies, *own]}, "decontaminate", copies)
    found = split(run)
    assert found.keys() == {one.id for one in own}
    assert len(set(found.values())) == 1


def test_fork_is_known_by_its_root(run: RunDir) -> None:
    own = [edit(repo, "own.py", add=lines(repo[-2:], 8)) for repo in (TRAIN, TEST)]
    mined(run, {"p": own}, "decontaminate")
    repositories(run, {TRAIN: ["r" * 40], TEST: ["s" * 40, "r" * 40], "not/mined": ["s" * 40]})
    assert len(set(split(run).values())) == 1


def some_edits(count: int) -> list[Edit]:
    draw = random.Random(3)
    found = []
    for n in range(count):
        repo, copied = f"owner/r{draw.randrange(9)}", draw.random() < 0.2
        body = lines("copied" if copied else f"e{n}", 6)
        found.append(edit(repo, f"f{n % 7}.py", add=[*body, f"# {n}\n"], at=n * 1000))
    return found


@pytest.mark.parametrize("by", ["repo", "file", "commit"])
def test_cut_into_parts_and_their_order_do_not_change_a_split(by: str, tmp_path: Path) -> None:
    edits, found = some_edits(60), []
    for name, size in (("one", 60), ("many", 7)):
        run = RunDir.open(tmp_path / name, create=True)
        order = edits if name == "one" else edits[::-1]
        mined(run, {f"p{at:02}": order[at : at + size] for at in range(0, 60, size)}, "decontaminate")
        found.append((split(run, by=by), decided(run, "split"), read_facts(run, "splits")))
    assert found[0] == found[1]
    assert set(found[0][0].values()) == {"train", "test"}
    assert {reason for reason, _, _ in found[0][1].values()} == {"leaks"}


@pytest.mark.parametrize("by", ["repo", "file", "commit"])
def test_report_says_that_nothing_is_shared(by: str, run: RunDir) -> None:
    mined(run, {"p": some_edits(60)}, "decontaminate")
    found = split(run, by=by)
    facts = read_facts(run, "splits")
    assert broken(facts) == ""
    counts = [list(found.values()).count(name) for name in ("train", "test")]
    assert [facts["train"], facts["test"]] == counts
    assert sum(facts["taken_out_of_test"].values()) == 60 - len(found)


def test_edits_that_decontaminate_dropped_are_not_considered(run: RunDir) -> None:
    one, other = edit(TRAIN, add=lines("one", 8)), edit(TEST, add=lines("other", 8))
    mined(run, {"p": [one, other]}, "decontaminate", [other])
    assert split(run) == {one.id: "train"}
    assert decided(run, "split") == {}


def test_limit_bounds_the_edits_considered(run: RunDir) -> None:
    mined(run, {"p": some_edits(20), "q": []}, "decontaminate")
    assert len(split(run, limit=5)) + len(decided(run, "split")) == 5


def test_run_without_edits_gives_an_empty_table(run: RunDir) -> None:
    mined(run, {"p": []}, "decontaminate")
    assert split(run) == {}
    assert broken(read_facts(run, "splits")) == ""


def test_what_is_known_of_repositories_goes_into_the_key(run: RunDir) -> None:
    mined(run, {"p": [edit(TRAIN, add=["x\n"])]}, "decontaminate")
    before = plan_split(run)[0].inputs
    repositories(run, {TRAIN: ["r"]})
    assert plan_split(run)[0].inputs != before


def test_before_decontaminate_it_says_what_is_missing(run: RunDir) -> None:
    one = edit(TRAIN, add=["x\n"])
    finish(run, "mine", Output("edits"), "p", [one], 1)
    finish(run, "dedup", VERDICTS, "all", verdicts("dedup", [one]), 1)
    with pytest.raises(RunDirError, match="verdicts/decontaminate lacks part p"):
        plan_split(run)
