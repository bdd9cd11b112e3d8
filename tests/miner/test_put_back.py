"""Edits whose old file a later commit puts back."""

from __future__ import annotations

from gitrepos import BASE, Builder, edits, mine

from miner.config import MineConfig
from miner.edits import plan_mine

CHANGED = "def value():\n    return 2\n"


def test_old_content_put_back_by_a_commit_of_many_files_reverts(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED})
    by = repo.commit({"a.py": BASE, "b.py": BASE}, "Change a few things about the values")
    edit = edits(mine(repo))[commit]
    assert (edit.reverted_by, edit.reverted_how) == (by, "content")


def test_content_that_goes_back_over_several_steps_reverts_the_first_only(repo: Builder) -> None:
    first = repo.commit({"a.py": CHANGED})
    second = repo.commit({"a.py": CHANGED + "\nx = 1\n"})
    by = repo.commit({"a.py": BASE})
    found = edits(mine(repo))
    assert found[first].reverted_by == by
    assert found[second].reverted_by is None


def test_message_goes_before_content(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED})
    by = repo.commit({"a.py": BASE}, f"Take the value back again\n\nThis reverts commit {commit}.")
    edit = edits(mine(repo))[commit]
    assert (edit.reverted_by, edit.reverted_how) == (by, "message")


def test_content_put_back_after_the_window_reverts_nothing(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED})
    repo.commit({"b.py": BASE})
    repo.commit({"a.py": BASE})
    assert edits(mine(repo, revert_window=1))[commit].reverted_by is None
    assert edits(mine(repo, revert_window=2))[commit].reverted_by is not None


def test_window_reaches_into_the_next_units(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED})
    for number in range(5):
        repo.commit({"b.py": f"x = {number}\n"})
    by = repo.commit({"a.py": BASE})
    assert edits(mine(repo, commits_per_unit=2))[commit].reverted_by == by
    assert edits(mine(repo, commits_per_unit=2, revert_window=3))[commit].reverted_by is None


def test_same_change_on_another_branch_is_no_revert(repo: Builder) -> None:
    repo.git("checkout", "-q", "-b", "side")
    picked = repo.commit({"a.py": "def value():\n    return 3\n"}, "Return three on the side branch")
    repo.git("checkout", "-q", "main")
    first = repo.commit({"a.py": "def value():\n    return 3\n"}, "Return three from the function")
    second = repo.commit({"a.py": CHANGED}, "Return two from the function again")
    repo.git("merge", "-q", "-s", "ours", "-m", "Merge branch 'side'", "side")
    found = edits(mine(repo))
    assert {found[one].reverted_by for one in (picked, first, second)} == {None}


def test_file_deleted_and_added_again_as_it_was_reverts(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED})
    repo.commit({"a.py": None})
    by = repo.commit({"a.py": BASE})
    assert edits(mine(repo))[commit].reverted_by == by


def test_window_of_nothing_goes_by_messages_alone(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED})
    repo.commit({"a.py": BASE})
    assert edits(mine(repo, revert_window=0))[commit].reverted_by is None


def test_revert_by_content_that_was_itself_undone_counts_for_nothing(repo: Builder) -> None:
    good = repo.commit({"a.py": CHANGED})
    repo.commit({"a.py": BASE, "b.py": BASE}, "Change a few things about the values")
    repo.commit({"a.py": CHANGED, "b.py": CHANGED}, "Change these things about the values again")
    assert edits(mine(repo))[good].reverted_by is None


def test_growing_history_changes_only_units_within_the_window(repo: Builder) -> None:
    for number in range(9):
        repo.commit({"a.py": f"x = {number}\n"}, f"Set the value of x to {number}")
    config = MineConfig(commits_per_unit=2, revert_window=3)
    before = plan_mine(config, [repo.path])
    repo.commit({"a.py": "x = 99\n"}, "Set the value of x to ninety-nine")
    after = plan_mine(config, [repo.path])
    changed = [i for i, (one, two) in enumerate(zip(before, after, strict=False)) if one.inputs != two.inputs]
    assert changed == [3, 4]
