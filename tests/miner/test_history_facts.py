"""Order of commits, and what a whole history says about each: merges, requests, reverts."""

from __future__ import annotations

from collections.abc import Container, Iterator

import pytest
from gitrepos import BASE, Builder, edits, mine
from hypothesis import given
from hypothesis import strategies as st

from miner.config import MineConfig
from miner.edits import plan_mine
from miner.history import mainline_order, read_history
from miner.repository import open_repository
from miner.undone import Claim, Named, Undone


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, list[str]], str]:
    """A random commit graph in which every commit comes from earlier ones, and a head."""
    size = draw(st.integers(1, 25))
    parents: dict[str, list[str]] = {}
    for number in range(size):
        earlier = [f"c{i}" for i in range(number)]
        many = draw(st.integers(0 if number == 0 else 1, min(3, number)))
        parents[f"c{number}"] = draw(st.permutations(earlier))[:many] if many else []
    return parents, f"c{size - 1}"


def reachable(parents: dict[str, list[str]], head: str) -> set[str]:
    todo, seen = [head], set()
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += parents[one]
    return seen


@given(graphs())
def test_order_has_every_commit_once_after_its_parents(graph: tuple[dict[str, list[str]], str]) -> None:
    parents, head = graph
    order, _ = mainline_order(parents, head)
    assert sorted(order) == sorted(reachable(parents, head))
    position = {commit: index for index, commit in enumerate(order)}
    assert all(position[parent] < position[commit] for commit in order for parent in parents[commit])


@given(graphs(), st.lists(st.booleans(), max_size=6), st.randoms(use_true_random=False))
def test_growing_mainline_only_adds_at_the_end(
    graph: tuple[dict[str, list[str]], str], more: list[bool], random: object
) -> None:
    parents, head = graph
    before, owner = mainline_order(parents, head)
    for number, merge in enumerate(more):
        new = f"n{number}"
        parents[new] = [head]
        if merge:
            # A branch that starts anywhere in the old history.
            parents[f"b{number}"] = [random.choice(before)]  # type: ignore[attr-defined]
            parents[new].append(f"b{number}")
        head = new
    after, owner_after = mainline_order(parents, head)
    assert after[: len(before)] == before
    assert {commit: owner_after[commit] for commit in owner} == owner


def test_deep_history_does_not_exhaust_the_stack() -> None:
    parents: dict[str, list[str]] = {"0": []}
    for number in range(1, 50_000):
        parents[str(number)] = [str(number - 1)]
    parents["merge"] = ["0", "49999"]
    order, owner = mainline_order(parents, "merge")
    assert order == [str(number) for number in range(50_000)] + ["merge"]
    assert owner["25000"] == "merge"


def test_full_units_stay_when_the_branch_grows_by_an_old_branch(repo: Builder) -> None:
    config = MineConfig(commits_per_unit=2, revert_window=0)
    repo.git("branch", "old")
    for number in range(6):
        repo.commit({"a.py": f"x = {number}\n"}, f"Set the value to number {number}")
    before = plan_mine(config, [repo.path])
    repo.git("checkout", "-q", "old")
    repo.clock -= 1000
    repo.commit({"b.py": BASE}, "Add what was made long ago")
    repo.git("checkout", "-q", "main")
    repo.merge("old", message="Merge branch 'old'")
    after = plan_mine(config, [repo.path])
    full = [unit for unit in before if unit.rows == 2]
    assert [(one.name, one.inputs) for one in after[: len(full)]] == [(one.name, one.inputs) for one in full]


def test_revert_changes_the_unit_of_what_it_reverts_and_no_other(repo: Builder) -> None:
    config = MineConfig(commits_per_unit=2, revert_window=0)
    bad = repo.commit({"a.py": "x = 2\n"}, "Set the value to number two")
    for number in range(6):
        repo.commit({"a.py": f"y = {number}\n"}, f"Set the other value to {number}")
    before = plan_mine(config, [repo.path])
    repo.commit({"a.py": BASE}, f"Take the value back again\n\nThis reverts commit {bad}.")
    after = plan_mine(config, [repo.path])
    changed = [i for i, (one, two) in enumerate(zip(before, after, strict=False)) if one.inputs != two.inputs]
    assert changed == [0]


def test_limit_bounds_the_commits_of_all_repositories(repo: Builder) -> None:
    for number in range(6):
        repo.commit({"a.py": f"x = {number}\n"})
    units = plan_mine(MineConfig(commits_per_unit=2), [repo.path], limit=5)
    assert [unit.rows for unit in units] == [2, 2, 1]
    assert plan_mine(MineConfig(commits_per_unit=2), [repo.path], limit=4) == units[:2]


def branch(repo: Builder, name: str, value: str, message: str = "Set the value on a branch") -> str:
    repo.git("checkout", "-q", "-b", name)
    commit = repo.commit({f"{name}.py": BASE}, f"Add the module {name}") and repo.commit(
        {f"{name}.py": f"x = {value}\n"}, message
    )
    repo.git("checkout", "-q", "main")
    return commit


def test_commits_of_a_pull_request_merge_carry_its_number(repo: Builder) -> None:
    commit = branch(repo, "topic", "7")
    repo.merge("topic", message="Merge pull request #42 from ada/topic\n\nSet the value")
    assert edits(mine(repo))[commit].merged_by == "pr:42"


def test_commits_of_a_merge_request_carry_its_number(repo: Builder) -> None:
    commit = branch(repo, "topic", "7")
    repo.merge("topic", message="Merge branch 'topic' into 'main'\n\nSee merge request ada/engine!9")
    assert edits(mine(repo))[commit].merged_by == "mr:9"


def test_commits_of_a_plain_merge_came_by_a_merge(repo: Builder) -> None:
    commit = branch(repo, "topic", "7")
    repo.merge("topic", message="Merge branch 'topic'")
    assert edits(mine(repo))[commit].merged_by == "merge-commit"


def test_pull_from_the_remote_is_no_sign_of_acceptance(repo: Builder) -> None:
    commit = branch(repo, "topic", "7")
    repo.merge("topic", message="Merge branch 'main' of github.com:ada/engine")
    assert edits(mine(repo))[commit].merged_by is None


def test_commit_on_the_mainline_has_no_merge(repo: Builder) -> None:
    commit = repo.commit({"a.py": "x = 2\n"})
    assert edits(mine(repo))[commit].merged_by is None


def test_number_of_an_inner_merge_counts_before_an_outer_merge_without_one(repo: Builder) -> None:
    repo.git("checkout", "-q", "-b", "develop")
    repo.commit({"d.py": BASE}, "Begin the branch for development")
    repo.git("checkout", "-q", "-b", "topic")
    repo.commit({"t.py": BASE}, "Add the module of the topic")
    commit = repo.commit({"t.py": "x = 7\n"})
    repo.git("checkout", "-q", "develop")
    repo.merge("topic", message="Merge pull request #5 from ada/topic")
    repo.git("checkout", "-q", "main")
    repo.merge("develop", message="Merge branch 'release'")
    assert edits(mine(repo))[commit].merged_by == "pr:5"


def test_revert_in_another_unit_is_found(repo: Builder) -> None:
    bad = repo.commit({"a.py": "x = 2\n"})
    repo.commit({"a.py": "x = 3\n"})
    undo = repo.commit({"a.py": BASE}, f"Take it back again\n\nThis reverts commit {bad[:10]}.")
    found = edits(mine(repo, commits_per_unit=1))
    assert found[bad].reverted_by == undo
    assert found[undo].reverted_by is None


def test_reverted_revert_counts_for_nothing(repo: Builder) -> None:
    good = repo.commit({"a.py": "x = 2\n"})
    undo = repo.commit({"a.py": BASE}, f"Take the value back\n\nThis reverts commit {good}.")
    redo = repo.commit({"a.py": "x = 2\n"}, f"Set the value again\n\nThis reverts commit {undo}.")
    found = edits(mine(repo))
    assert found[good].reverted_by is None
    assert found[undo].reverted_by == redo


def test_revert_of_a_merge_reverts_all_that_it_brought(repo: Builder) -> None:
    commit = branch(repo, "topic", "7")
    merge = repo.merge("topic", message="Merge branch 'topic'")
    undo = repo.commit({"topic.py": None}, f"Take it out\n\nThis reverts commit {merge}, reversing\nall.")
    assert edits(mine(repo))[commit].reverted_by == undo


def test_revert_of_a_pull_request_by_its_number(repo: Builder) -> None:
    bad = repo.commit({"a.py": "x = 2\n"}, "Set the value to two (#31)")
    undo = repo.commit({"a.py": BASE}, 'Revert "Set the value to two" (#32)\n\nReverts ada/engine#31')
    found = edits(mine(repo, drop_low_signal=False))
    assert found[bad].reverted_by == undo
    assert found[bad].merged_by == "pr:31"


def test_commit_cannot_be_reverted_by_an_earlier_one(repo: Builder) -> None:
    later_tree = {"a.py": "x = 3\n"}
    first = repo.commit({"a.py": "x = 2\n"}, "Set the value to number two")
    second = repo.commit(later_tree, f"Set it to three\n\nThis reverts commit {'f' * 40} and {first[:6]}.")
    history = read_history(open_repository(repo.path))
    assert history.reverted == {}
    assert second in history.order


def test_ambiguous_and_unknown_ids_revert_nothing(repo: Builder) -> None:
    repo.commit({"a.py": "x = 2\n"})
    repo.commit({"a.py": "x = 3\n"}, "Set the value to three\n\nThis reverts commit deadbeefdeadbeef.")
    assert read_history(open_repository(repo.path)).reverted == {}


def test_request_reverted_by_many_messages_is_looked_through_once() -> None:
    class Counting(Undone):
        found = 0

        def targets(self, reverter: str, claim: Claim, known: Container[str]) -> Iterator[str]:
            for one in super().targets(reverter, claim, known):
                self.found += 1
                yield one

    order = [f"{number:040x}" for number in range(200)]
    finder = Counting(order, {}, Named({"pr:1": list(order)}, {}))
    result = finder.settle(dict.fromkeys(order[1::2], Claim((), ("pr:1",), (), "", 0)))
    assert result == dict.fromkeys(order[:-1], order[-1])
    assert finder.found < len(order)


def reverted(repo: Builder) -> dict[str, str]:
    return read_history(open_repository(repo.path)).reverted


def test_revert_that_names_a_subject_only_takes_back_the_newest_commit_of_it(repo: Builder) -> None:
    repo.commit({"a.py": "x = 2\n"}, "Set the value (#1)")
    repo.commit({"a.py": "x = 3\n"}, "Set another value")
    newest = repo.commit({"a.py": "x = 4\n"}, "Set the value (#2)")
    by = repo.commit({"a.py": "x = 3\n"}, 'Revert "Set the value" (#3)')
    repo.commit({"a.py": "x = 5\n"}, "Set the value")
    assert reverted(repo) == {newest: by}


def test_reapplied_change_is_not_reverted_and_its_revert_is(repo: Builder) -> None:
    repo.commit({"a.py": "x = 2\n"}, "Set the value")
    undo = repo.commit({"a.py": BASE}, 'Revert "Set the value"')
    redo = repo.commit({"a.py": "x = 2\n"}, 'Reapply "Set the value"')
    assert reverted(repo) == {undo: redo}


def test_change_reverted_again_after_it_was_reapplied_is_reverted(repo: Builder) -> None:
    first = repo.commit({"a.py": "x = 2\n"}, "Set the value")
    repo.commit({"a.py": BASE}, 'Revert "Set the value"')
    redo = repo.commit({"a.py": "x = 2\n"}, 'Revert "Revert "Set the value""')
    last = repo.commit({"a.py": BASE}, 'Revert^3 "Set the value"')
    found = reverted(repo)
    assert found[redo] == last
    assert first not in found or found[first] != last


def test_reland_by_id_makes_older_reverts_count_for_nothing(repo: Builder) -> None:
    good = repo.commit({"a.py": "x = 2\n"}, "Set the value to two")
    repo.commit({"a.py": BASE}, f"Take it back\n\nThis reverts commit {good}.")
    repo.commit({"a.py": "x = 2\n"}, f"Set the value again\n\nThis is a reland of commit {good}.")
    assert good not in reverted(repo)


def test_subject_used_over_and_over_costs_no_more_than_linear_time() -> None:
    order = [f"{number:040x}" for number in range(30_000)]
    about = {"x": [(commit, number % 2) for number, commit in enumerate(order)]}
    claims = dict.fromkeys(order[1::2], Claim((), (), (), "x", 1))
    result = Undone(order, {}, Named({}, about)).settle(claims)
    assert result == dict(zip(order[::2], order[1::2], strict=True))


def test_history_too_long_to_keep_its_messages_tells_the_same(
    repo: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit({"a.py": "x = 2\n"}, "Set the value (#1)")
    repo.commit({"a.py": BASE}, 'Revert "Set the value"')
    repo.commit({"a.py": "x = 3\n"}, "Reverts #1")
    before = reverted(repo)
    monkeypatch.setattr("miner.history._KEPT_MESSAGES", 0)
    assert reverted(repo) == before != {}
