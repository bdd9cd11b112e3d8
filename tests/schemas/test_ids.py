"""Ids, keys and draws depend on their arguments and on nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.ids import content_id, digest_files, digest_json, fraction, rng, split_of, task_key


@given(st.lists(st.text(), min_size=1, max_size=4), st.lists(st.text(), min_size=1, max_size=4))
def test_different_parts_give_different_ids(one: list[str], other: list[str]) -> None:
    assert (content_id(*one) == content_id(*other)) == (one == other)


def test_ids_are_the_same_on_every_machine() -> None:
    assert content_id("flask", "c0ffee", "app.py") == "52de83229f6e40e7385cefb9a4ba741b"
    assert rng(0, "split", "x").random() == fraction(0, "split", "x")


def test_order_of_keys_does_not_matter() -> None:
    assert digest_json({"a": 1, "b": [2]}) == digest_json({"b": [2], "a": 1})


@pytest.mark.parametrize("change", ["stage", "config", "code", "inputs"])
def test_task_key_changes_with_each_of_its_parts(change: str) -> None:
    parts = {"stage": "mine", "config": {"n": 1}, "code": "c", "inputs": {"x": "1"}}
    other = {**parts, change: {"n": 2} if change in ("config", "inputs") else "other"}
    assert task_key(**parts) != task_key(**other)  # type: ignore[arg-type]


def test_digest_of_files_sees_a_renamed_and_a_changed_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    before = digest_files([tmp_path / "a.py"])
    (tmp_path / "b.py").write_text("x")
    assert digest_files([tmp_path / "b.py"]) != before
    (tmp_path / "a.py").write_text("y")
    assert digest_files([tmp_path / "a.py"]) != before


@given(st.integers(0, 5), st.text(max_size=20))
def test_split_keeps_a_group_together_and_follows_the_share(seed: int, group: str) -> None:
    assert split_of(seed, group, 0.3) == split_of(seed, group, 0.3)
    assert split_of(seed, group, 0.0) == "train"
    assert split_of(seed, group, 1.0) == "test"


def test_share_of_groups_in_the_test_split_is_as_asked() -> None:
    share = sum(split_of(0, f"repo{n}", 0.2) == "test" for n in range(5000)) / 5000
    assert abs(share - 0.2) < 0.03
