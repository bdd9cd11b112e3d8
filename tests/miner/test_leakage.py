"""The leakage report counts what two splits share, whoever made them: a leak that is planted is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from split_runs import DAY, edit, lines, mined, repositories

from miner import splits
from miner.config import DecontaminateConfig, DedupConfig, SplitConfig
from miner.leakage import LeakError, broken, line_of, measure, pairs_facts, read_facts, write_facts
from miner.steps import SplitEdits, plan_split
from schemas.records import Edit
from schemas.rundir import RunDir

OVERLAP = DecontaminateConfig()


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.open(tmp_path / "run", create=True)


def planted(run: RunDir, train: list[Edit], test: list[Edit], **settings: Any) -> dict[str, Any]:
    """What is measured when somebody splits like this."""
    mined(run, {"p": train, "q": test}, "decontaminate")
    split = {**{one.id: "train" for one in train}, **{one.id: "test" for one in test}}
    group = {own: own for own in split}
    return measure(SplitConfig(**settings), OVERLAP, DedupConfig(), run, split, group)


def both(make: Callable[[str], Edit]) -> tuple[list[Edit], list[Edit]]:
    return [make("a/one")], [make("b/two")]


SHARED = lines("shared", 60)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("patches", lambda repo: edit(repo, old=[*lines("f", 9), f"# {repo}\n"], add=["x\n"])),
        ("commits", lambda repo: edit(repo, add=[f"{repo}\n"], commit="c" * 40)),
        ("ngram_overlaps", lambda repo: edit(repo, repo, add=[f"# {repo}\n", *lines("copied", 8)])),
        ("test_edits_with_file_version_in_train", lambda repo: edit(repo, repo, old=SHARED, add=[repo])),
        ("duplicates", lambda repo: edit(repo, repo, old=[*SHARED, f"{repo}\n"], add=["x\n"])),
        ("linked_repositories", lambda repo: edit(repo, old=[*SHARED, f"{repo}\n"], add=lines("p", 4))),
        ("files", lambda repo: edit(repo, old=[*SHARED, f"{repo}\n"], add=lines("p", 4))),
    ],
)
def test_planted_leak_is_counted(name: str, make: Callable[[str], Edit], run: RunDir) -> None:
    facts = planted(run, *both(make))
    assert facts["must_be_zero"][name] == 1
    assert name in broken(facts)
    assert name in line_of(facts, "splits")


@pytest.mark.parametrize(("by", "names"), [("repo", {"repositories", "files"}), ("file", {"files"})])
def test_what_is_split_by_must_not_be_shared(by: str, names: set[str], run: RunDir) -> None:
    one, other = (edit("a/one", add=lines(seed, 8), at=n) for n, seed in enumerate(("x", "y")))
    facts = planted(run, [one], [other], by=by)
    assert names <= {name for name, count in facts["must_be_zero"].items() if count}
    assert facts["for_information"].get("repositories", 1) == 1


def test_repositories_that_share_a_root_are_linked(run: RunDir) -> None:
    repositories(run, {"a/one": ["r"], "b/two": ["r"]})
    facts = planted(run, *both(lambda repo: edit(repo, repo, add=lines(repo[0], 8))))
    assert facts["must_be_zero"]["linked_repositories"] == 1


def test_edits_at_the_wrong_time_are_counted(run: RunDir) -> None:
    dates = {"train_until": "1970-01-11", "test_from": "1970-01-21", "test_until": "1970-01-31"}
    train = [edit("a/one", f"{at}.py", add=lines(f"t{at}", 8), at=at * DAY) for at in (9, 10, 25)]
    test = [edit("b/two", f"{at}.py", add=lines(f"e{at}", 8), at=at * DAY) for at in (9, 20, 29, 30)]
    assert planted(run, train, test, **dates)["must_be_zero"]["wrong_times"] == 4


def test_splits_that_share_nothing_are_told_so(run: RunDir) -> None:
    facts = planted(run, *both(lambda repo: edit(repo, repo, add=lines(repo[0], 8))))
    assert set(facts["must_be_zero"].values()) == {0}
    assert facts["for_information"] == {"test_edits_with_any_ngram_in_train": 0, "most_ngrams_in_train": 0}
    assert "shared: none of" in line_of(facts, "splits")


def test_stage_fails_when_its_guard_lets_a_leak_through(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    edits = [edit(f"o{n}/r", f"{n}.py", add=[f"# {n}\n", *lines("copied", 8)]) for n in range(8)]
    mined(run, {"p": edits}, "decontaminate")
    monkeypatch.setattr(splits, "leaks", lambda *_: {})
    step = SplitEdits(SplitConfig(test_share=0.5), OVERLAP, DedupConfig(), run.root, 0)
    (unit,) = plan_split(run)
    with pytest.raises(LeakError, match="ngram_overlaps"):
        list(step.process(unit))


def test_damaged_report_counts_as_none(run: RunDir) -> None:
    facts = planted(run, *both(lambda repo: edit(repo, repo, add=lines(repo[0], 8))))
    write_facts(run, "splits", facts)
    assert read_facts(run, "splits") == json.loads(json.dumps(facts))
    path = run.root / "leakage" / "splits.json"
    for text in (
        "",
        "[]",
        "{}",
        '{"must_be_zero": {}}',
        path.read_text().replace('"train": 1', '"train": "x"'),
    ):
        path.write_text(text)
        assert read_facts(run, "splits") == {}


def test_run_without_pairs_shares_nothing(run: RunDir) -> None:
    planted(run, *both(lambda repo: edit(repo, repo, add=lines(repo[0], 8))))
    facts = pairs_facts(SplitConfig(), OVERLAP, DedupConfig(), run)
    assert (facts["train"], facts["test"], broken(facts)) == (0, 0, "")
