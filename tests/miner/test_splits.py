"""What stays together, and who goes where: groups and times of splits."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from split_runs import DAY

from miner.config import SplitConfig
from miner.splits import Seen, assign, borders, groups
from schemas.errors import AssayError
from schemas.ids import content_id

BY = st.sampled_from(["repo", "file", "commit"])


def seen(repo: str, path: str, patch: str, at: int = 0, lines: int = 9, commit: str = "") -> Seen:
    made = commit or content_id(repo, path, patch, str(at))
    own = content_id(repo, made, path, patch)
    return Seen(own, repo, path, made, at, patch, content_id("old", own), content_id("new", own), lines)


EDITS = st.lists(
    st.builds(
        lambda repo, path, patch, at, lines, commit: seen(
            f"r{repo}", f"p{path}", f"x{patch}", at, lines, f"c{commit}"
        ),
        *(st.integers(0, most) for most in (6, 3, 12, 99, 9, 20)),
    ),
    max_size=40,
    unique_by=lambda edit: edit.id,
)
ROOTS = st.dictionaries(
    st.sampled_from([f"r{n}" for n in range(8)]), st.lists(st.sampled_from(["a", "b", "c"]), max_size=2)
)


@given(EDITS, ROOTS, BY, st.integers(0, 5), st.sampled_from(["", "1970-01-01T00:00:50"]))
def test_no_group_is_in_two_splits(
    edits: list[Seen], roots: dict[str, list[str]], by: Any, seed: int, until: str
) -> None:
    config = SplitConfig(by=by, test_share=0.5, train_until=until)
    group = groups(config, edits, roots)
    assigned = assign(config, seed, edits, group)
    splits: dict[str, set[str]] = {}
    for own, split in assigned.split.items():
        splits.setdefault(group[own], set()).add(split)
    assert all(len(one) == 1 for one in splits.values())
    assert assigned.split.keys() | assigned.dropped.keys() == {edit.id for edit in edits}
    assert not assigned.split.keys() & assigned.dropped.keys()


@given(EDITS, ROOTS, BY)
def test_what_shares_a_patch_or_a_root_is_in_one_group(
    edits: list[Seen], roots: dict[str, list[str]], by: Any
) -> None:
    group = groups(SplitConfig(by=by), edits, roots)
    for one in edits:
        for other in edits:
            linked = one.patch == other.patch and min(one.lines, other.lines) >= 3
            akin = set(roots.get(one.repo, ())) & set(roots.get(other.repo, ())) or linked
            same = {
                "repo": one.repo == other.repo or akin,
                "file": one.path == other.path and (one.repo == other.repo or akin),
                "commit": one.commit == other.commit or linked,
            }[by]
            assert not same or group[one.id] == group[other.id]


@given(EDITS, ROOTS, BY, st.randoms(use_true_random=False))
def test_order_of_edits_and_repositories_does_not_matter(
    edits: list[Seen], roots: dict[str, list[str]], by: Any, draw: random.Random
) -> None:
    config = SplitConfig(by=by, test_share=0.5)
    other = draw.sample(edits, len(edits))
    again = dict(draw.sample(sorted(roots.items()), len(roots)))
    group = groups(config, edits, roots)
    assert groups(config, other, again) == group
    assert assign(config, 1, other, group).split == assign(config, 1, edits, group).split


def test_fork_of_a_fork_stays_with_the_first() -> None:
    edits = [seen("a/x", "f", "1"), seen("b/x", "f", "1"), seen("b/x", "g", "2"), seen("c/x", "g", "2")]
    assert len(set(groups(SplitConfig(), [*edits, seen("d/y", "f", "3")]).values())) == 2


def test_repositories_with_one_root_stay_together_without_a_common_patch() -> None:
    edits = [seen("a/x", "f", "1"), seen("b/x", "f", "2"), seen("c/y", "f", "3")]
    group = groups(SplitConfig(), edits, {"a/x": ["r"], "b/x": ["s", "r"], "c/y": ["t"]})
    assert group[edits[0].id] == group[edits[1].id] != group[edits[2].id]


@pytest.mark.parametrize(("lines", "together"), [(2, False), (3, True)])
def test_trivial_patch_does_not_chain_the_world_together(lines: int, together: bool) -> None:
    edits = [seen(f"owner{n}/x", "version.py", "same", lines=lines) for n in range(9)]
    assert (len(set(groups(SplitConfig(), edits).values())) == 1) is together


def test_file_of_a_fork_is_the_same_file() -> None:
    edits = [seen("a/x", "f", "1"), seen("b/x", "f", "1"), seen("a/x", "g", "2"), seen("b/x", "g", "3")]
    group = [groups(SplitConfig(by="file"), edits)[edit.id] for edit in edits]
    assert group[0] == group[1] != group[2] == group[3]


def test_another_repository_does_not_move_the_others() -> None:
    config = SplitConfig(test_share=0.5)
    edits = [seen(f"owner{n}/x", "f", str(n)) for n in range(40)]
    more = [*edits, seen("new/y", "f", "new")]
    before = assign(config, 0, edits, groups(config, edits)).split
    after = assign(config, 0, more, groups(config, more)).split
    assert {own: after[own] for own in before} == before
    assert set(before.values()) == {"train", "test"}


DATES = SplitConfig(
    by="commit", train_until="1970-01-11", test_from="1970-01-21", test_until="1970-01-31T00:00:00+00:00"
)


@pytest.mark.parametrize(
    ("at", "split"),
    [
        (10 * DAY - 1, "train"),
        (10 * DAY, None),
        (20 * DAY - 1, None),
        (20 * DAY, "test"),
        (30 * DAY - 1, "test"),
        (30 * DAY, None),
        (-5, "train"),
    ],
)
def test_times_include_the_first_second_and_exclude_the_last(at: int, split: str | None) -> None:
    edit = seen("a/x", "f", "1", at)
    found = assign(DATES, 0, [edit], groups(DATES, [edit]))
    assert found.split.get(edit.id) == split
    assert found.dropped == ({} if split else {edit.id: ("between_splits", None)})


@pytest.mark.parametrize("test_share", [0.0, 1.0])
def test_edit_at_the_other_splits_time_is_dropped(test_share: float) -> None:
    config = SplitConfig(by="repo", test_share=test_share, train_until="1970-01-11")
    old, new = seen("a/x", "f", "1", 0), seen("a/x", "f", "2", 20 * DAY)
    found = assign(config, 0, [old, new], groups(config, [old, new]))
    stays, goes = (new, old) if test_share else (old, new)
    assert found.split == {stays.id: "test" if test_share else "train"}
    assert found.dropped[goes.id][0] == "other_split_time"


def test_by_commit_the_first_commit_of_a_patch_decides() -> None:
    first, picked = seen("a/x", "f", "1", 0), seen("a/x", "f", "1", 25 * DAY)
    found = assign(DATES, 0, [picked, first], groups(DATES, [picked, first]))
    assert found.split == {first.id: "train"}
    assert found.dropped[picked.id][0] == "other_split_time"


def test_time_zone_of_a_date_counts() -> None:
    one = borders(SplitConfig(train_until="1970-01-02T02:00:00+02:00"))
    assert one == borders(SplitConfig(test_from="1970-01-02")) == (DAY, DAY, None)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"train_until": "soon"}, "train_until: 'soon' is no date"),
        ({"train_until": "2020-02-31"}, "is no date"),
        ({"test_until": "2020-01-01"}, "give train_until"),
        ({"train_until": "2020-01-01", "test_from": "2019-12-31"}, "before train_until"),
        ({"test_from": "2020-01-01", "test_until": "2020-01-01"}, "not after"),
        ({"test_share": 1.5}, "not a share"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(AssayError, match=says):
        SplitConfig(**settings)
