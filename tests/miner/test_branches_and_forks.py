"""Branches beside HEAD, and repositories that share commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from gitrepos import BASE, Builder, drops, edits, mine

from miner.config import MineConfig
from miner.edits import mine_unit, plan_mine
from schemas.errors import AssayError

CHANGED = "def value():\n    return 2\n"


def fork(repo: Builder, build: Callable[..., Builder], name: str = "fork") -> Builder:
    other = build(name)
    other.git("pull", "-q", str(repo.path), "main")
    other.clock = repo.clock + 1000
    return other


def test_branch_is_mined_beside_head_when_wanted(repo: Builder) -> None:
    repo.git("checkout", "-q", "-b", "release/1")
    commit = repo.commit({"a.py": CHANGED})
    repo.git("checkout", "-q", "main")
    assert commit not in edits(mine(repo))
    assert commit in edits(mine(repo, branches=("release/*",)))


def test_commit_of_several_branches_is_mined_once(repo: Builder) -> None:
    repo.git("branch", "one")
    repo.git("checkout", "-q", "-b", "two")
    commit = repo.commit({"a.py": CHANGED})
    repo.git("branch", "three")
    repo.git("checkout", "-q", "main")
    outcomes = mine(repo, branches=("*",))
    assert len(outcomes) == 2
    assert commit in edits(outcomes)


def test_growing_main_branch_leaves_units_of_other_branches(repo: Builder) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.commit({"a.py": CHANGED})
    repo.git("checkout", "-q", "main")
    config = MineConfig(branches=("side",))
    before = plan_mine(config, [repo.path])[-1]
    repo.commit({"a.py": "x = 1\n"})
    after = plan_mine(config, [repo.path])[-1]
    assert (before.name, before.inputs) == (after.name, after.inputs)


def test_branch_that_is_not_there_is_refused(repo: Builder) -> None:
    with pytest.raises(AssayError, match="has no branch 'nowhere'"):
        mine(repo, branches=("nowhere",))


def test_branch_of_origin_is_known(repo: Builder, tmp_path: Path) -> None:
    repo.git("checkout", "-q", "-b", "side")
    commit = repo.commit({"a.py": CHANGED})
    repo.git("checkout", "-q", "main")
    repo.git("clone", "-q", ".", str(tmp_path / "clone"))
    assert commit in edits(mine(tmp_path / "clone", branches=("side",)))


def test_commits_that_forks_share_are_mined_once(repo: Builder, build: Callable[..., Builder]) -> None:
    shared = repo.commit({"a.py": CHANGED})
    other = fork(repo, build)
    own = other.commit({"a.py": BASE})
    config = MineConfig()
    units = plan_mine(config, [repo.path, other.path])
    outcomes = [outcome for unit in units for outcome in mine_unit(config, unit)]
    assert Counter(unit.rows for unit in units) == Counter([2, 3])
    assert set(edits(outcomes)) == {shared, own}
    assert edits(outcomes)[shared].repo == "project"
    assert drops(outcomes)[shared] == ("shared_commit", "mined from project")
    assert sum(unit.rows for unit in units) == len(outcomes)


def test_same_patch_on_a_fork_has_the_same_patch_id(repo: Builder, build: Callable[..., Builder]) -> None:
    other = fork(repo, build)
    other.commit({"b.py": BASE})
    picked = other.commit({"a.py": CHANGED}, "Return two from the function")
    original = repo.commit({"a.py": CHANGED}, "Return two from the function")
    assert picked != original
    assert edits(mine(repo))[original].patch_id == edits(mine(other))[picked].patch_id
