"""Files of preferences: what is planned, kept and dropped, and what stands in which split."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from preference_rows import (
    BAD,
    GOOD,
    LAYOUTS,
    Row,
    asked,
    dropped,
    helpsteer,
    kept,
    messages,
    pairs,
    plain,
    read,
    rewardbench,
    run,
    skywork,
    themis,
    tulu,
)
from problem_rows import write

from miner.config import PreferencesConfig
from miner.importers.fields import BadRow
from miner.importers.grouping import grouped_rows
from miner.importers.preferences import import_preferences, plan_preferences
from miner.importers.preferences_formats import FORMATS
from miner.reasons import PREFERENCES
from schemas.declare import as_row
from schemas.errors import AssayError
from schemas.stage import Drop, Keep

ENDINGS = ("jsonl", "jsonl.gz", "json", "parquet")


def refusal(*files: Path, **settings: Any) -> str:
    with pytest.raises(AssayError) as caught:
        plan_preferences(PreferencesConfig(**settings), files)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_rows_of_every_format_are_kept_in_every_kind_of_file(tmp_path: Path, name: str, ending: str) -> None:
    path = write(tmp_path / f"set.{ending}", *(LAYOUTS[name](number) for number in range(6)))
    told, forced = run(path, rows_per_part=2), run(path, rows_per_part=2, format=name)
    assert told == forced
    assert dropped(told) == []
    count = 3 if name == "helpsteer" else 6
    assert len({one.idx for one in kept(told)}) == len(kept(told)) == count


@pytest.mark.parametrize(
    ("bad", "reason", "named"),
    [
        (b"{", "bad_json", "not JSON"),
        (b"[1]", "bad_json", "not an object but a list"),
        (b"\xff\xfe", "bad_json", "not UTF-8"),
        (b"[" * 100_000, "bad_json", "nested too deep"),
        (b'{"prompt": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "bad_json", "nested too deep"),
        ({}, "bad_field", "prompt: missing"),
        (plain(chosen=[[None]]), "bad_field", "chosen: expected a string"),
        (plain(chosen={"a": {"b": None}}), "bad_field", "chosen: expected a string"),
        (plain(score_chosen=float("nan"), score_rejected=1), "bad_field", "score_chosen"),
        (plain(prompt=[{"role": None}]), "bad_field", "prompt[0].role"),
        (plain(chosen="x" * 2000), "too_long", "chosen"),
        (plain(rejected=GOOD), "same_answers", "the same text"),
    ],
)
def test_bad_row_is_dropped_with_line_and_field_and_costs_no_other(
    tmp_path: Path, bad: Any, reason: str, named: str
) -> None:
    path = write(tmp_path / "set.jsonl", plain(0), bad, plain(2))
    first, bad_one, last = run(path, max_text_bytes=1000)
    assert isinstance(first, Keep)
    assert isinstance(last, Keep)
    assert isinstance(bad_one, Drop)
    assert (bad_one.id, bad_one.reason) == ("set.jsonl:2", reason)
    assert bad_one.detail is not None
    assert bad_one.detail.startswith("line 2: ")
    assert named in bad_one.detail


def test_too_long_row_is_never_parsed(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", plain(0), plain(1, chosen="x" * 3_000_000), plain(2))
    (drop,) = dropped(run(path, max_row_bytes=1000))
    assert drop == Drop("set.jsonl:2", "line_too_long", "line 2: more than 1000 bytes")


def test_file_has_the_format_of_its_first_good_row(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", skywork(chosen=[]), plain(1), skywork(2), plain(3))
    outcomes = run(path)
    assert [one.input for one in kept(outcomes)] == [asked(1), asked(3)]
    assert [one.id for one in dropped(outcomes)] == ["set.jsonl:1", "set.jsonl:3"]


def test_file_of_no_known_format_is_refused_with_all_that_are(tmp_path: Path) -> None:
    told = refusal(write(tmp_path / "set.jsonl", {"odd": 1}))
    assert all(f"{name} (" in told for name in FORMATS)
    assert "set.jsonl: no row can be imported (line 1: its fields are those of no known format: odd" in told
    assert "input: missing" in refusal(write(tmp_path / "set.jsonl", plain()), format="themis")
    assert "rated the same" in refusal(write(tmp_path / "set.jsonl", plain(score_chosen=1, score_rejected=1)))


def test_same_pair_is_a_duplicate_in_a_file_and_across_files(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", themis(0), themis(1, input=asked(0)), themis(2))
    two = write(tmp_path / "two.jsonl", skywork(0), skywork(2), tulu(0, id="other"))
    lone = run(two)
    assert [one.detail for one in dropped(lone)] == ["line 3: the same as line 1"]
    both = run(one, two, aspect="Readability and Maintainability")
    assert [drop.detail for drop in dropped(both)] == [
        "line 2: the same as line 1",
        "line 1: the same as row 1 of one.jsonl",
        "line 2: the same as row 3 of one.jsonl",
        "line 3: the same as row 1 of one.jsonl",
    ]
    assert {drop.reason for drop in dropped(both)} == {"duplicate"}


def test_files_of_one_name_have_duplicates_too(tmp_path: Path) -> None:
    files = []
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        files.append(write(tmp_path / folder / "set.jsonl", plain(0)))
    assert [drop.detail for drop in dropped(run(*files))] == ["line 1: the same as row 1 of set.jsonl"]


def test_pairs_of_another_aspect_are_no_duplicates(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", themis(0), themis(1, input=asked(0), aspect="Helpfulness"))
    assert len(kept(run(path))) == 2


def test_prompt_is_in_one_split_only_whatever_the_set(tmp_path: Path) -> None:
    rows = [plain(number % 20, chosen=f"{GOOD}# {number}") for number in range(100)]
    one, two = write(tmp_path / "one.jsonl", *rows[:50]), write(tmp_path / "two.jsonl", *rows[50:])
    found = kept(run(one, two, test_share=0.5))
    splits = {
        prompt: {pair.split for pair in found if pair.input == prompt} for prompt in map(asked, range(20))
    }
    assert {len(split) for split in splits.values()} == {1}
    assert set.union(*splits.values()) == {"train", "test"}


def test_draw_of_splits_hangs_on_the_seed(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", *(plain(number) for number in range(40)))
    splits = [[one.split for one in kept(run(path, test_share=0.5, seed=seed))] for seed in (0, 0, 1)]
    assert splits[0] == splits[1] != splits[2]


@pytest.mark.parametrize(
    ("row", "split", "settings", "expected"),
    [
        (plain(split="validation"), "", {}, "test"),
        (plain(split="train_prefs"), "", {"test_share": 1.0}, "train"),
        (plain(split="filtered"), "", {"test_share": 0.0}, "train"),
        (plain(), "test_prefs", {"test_share": 0.0}, "test"),
        (plain(), "train", {"test_share": 1.0}, "train"),
        (plain(split="test"), "train", {}, "test"),
        (plain(split="test"), "", {"split": "train"}, "train"),
        (plain(split="test"), "", {"split": "seeded", "test_share": 0.0}, "train"),
    ],
)
def test_split_is_the_setting_then_the_rows_then_the_datasets(
    row: Row, split: str, settings: Any, expected: str
) -> None:
    assert [one.split for one in read("plain", row, hub_split=split, **settings)] == [expected]


def test_benchmark_is_test_unless_something_says_otherwise() -> None:
    (found,) = read("rewardbench", rewardbench(), hub_split="filtered", test_share=0.0)
    assert found.split == "test"
    (found,) = read("rewardbench", rewardbench(), hub_split="train")
    assert found.split == "train"


@pytest.mark.parametrize("ending", ENDINGS)
def test_rows_of_one_prompt_are_one_row_wherever_a_unit_begins(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"set.{ending}", *(helpsteer(number) for number in range(14)))
    outcomes = run(path, rows_per_part=2)
    assert [one.input for one in kept(outcomes)] == [asked(number) for number in range(7)]


def test_row_between_the_rows_of_a_prompt_parts_them(tmp_path: Path) -> None:
    rows = [
        helpsteer(0),
        b"{",
        helpsteer(1),
        helpsteer(2),
        helpsteer(3),
        helpsteer(4, prompt=None),
        helpsteer(6),
    ]
    outcomes = run(write(tmp_path / "set.jsonl", *rows))
    assert [one.input for one in kept(outcomes)] == [asked(1)]
    assert [(one.id, one.reason) for one in dropped(outcomes)] == [
        ("set.jsonl:1", "no_counterpart"),
        ("set.jsonl:2", "bad_json"),
        ("set.jsonl:3", "no_counterpart"),
        ("set.jsonl:6", "bad_field"),
        ("set.jsonl:7", "no_counterpart"),
    ]


def test_endless_rows_of_one_prompt_are_cut_into_groups(tmp_path: Path) -> None:
    rows = [helpsteer(0, response=f"r{at}", helpfulness=at % 5) for at in range(9)]
    path = write(tmp_path / "set.jsonl", *rows)
    found = list(grouped_rows(path, 1 << 20))
    assert [number for number, _, _ in found] == [1, 5, 9]
    small = list(grouped_rows(path, 300))
    assert all(isinstance(row, bytes) for _, _, row in small)
    assert len(small) > 3


@given(
    st.lists(
        st.sampled_from(["a", "a", "b", None]).map(lambda prompt: {"prompt": prompt})
        | st.just("{bad")
        | st.just("[1]"),
        min_size=1,
        max_size=30,
    )
)
def test_groups_hold_every_row_once_and_are_the_same_from_any_of_them(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("groups") / "x.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    found = list(grouped_rows(path, 1 << 20))
    sizes = []
    for _, _, row in found:
        assert isinstance(row, bytes)
        group = json.loads(row).get("group") if row.startswith(b'{"group"') else None
        sizes.append(len(group) if group else 1)
        assert group is None or len({one["prompt"] for one in group}) == 1
    assert sum(sizes) == len(rows)
    for at, (number, place, _) in enumerate(found):
        assert list(grouped_rows(path, 1 << 20, number, place)) == found[at:]


def test_limit_bounds_rows_over_all_files(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", *(plain(number) for number in range(3)))
    two = write(tmp_path / "two.jsonl", *(helpsteer(number) for number in range(10, 20)))
    units = plan_preferences(PreferencesConfig(rows_per_part=2), [one, two], limit=4)
    assert [(unit.name, unit.rows) for unit in units] == [
        ("one-00000", 2),
        ("one-00001", 1),
        ("two-00000", 1),
    ]
    assert len(kept(run(one, two, limit=4))) == 4


def test_format_and_split_are_part_of_a_units_inputs(tmp_path: Path) -> None:
    (unit,) = plan_preferences(PreferencesConfig(), [write(tmp_path / "set.jsonl", tulu())])
    assert (unit.inputs["format"], unit.inputs["split"]) == ("tulu", "")


def test_grown_file_keeps_its_full_units(tmp_path: Path) -> None:
    config = PreferencesConfig(rows_per_part=2)
    path = write(tmp_path / "set.jsonl", *(plain(number) for number in range(3)))
    before = plan_preferences(config, [path])
    write(path, *(plain(number) for number in range(4)))
    after = plan_preferences(config, [path])
    assert [old.inputs == new.inputs for old, new in zip(before, after, strict=True)] == [True, False]


def test_name_of_the_set_is_its_labeler_and_source(tmp_path: Path) -> None:
    path = write(tmp_path / "train-00000-of-00001.jsonl", plain())
    (found,) = kept(run(path))
    assert (found.source, found.evidence.labeler) == (path.name, path.name)
    (named,) = kept(run(path, name="My set"))
    assert (named.source, named.evidence.labeler) == ("My set", "My set")


def test_no_absolute_path_gets_into_rows(tmp_path: Path) -> None:
    assert str(tmp_path) not in repr(run(write(tmp_path / "set.jsonl", plain(), b"{")))


def test_pairs_that_a_run_wrote_can_be_imported(tmp_path: Path) -> None:
    path = write(tmp_path / "part.parquet", *(as_row(one) for one in read("pairs", pairs(1))))
    (found,) = kept(run(path))
    assert [as_row(found)] == [as_row(one) for one in read("pairs", pairs(1))]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"min_margin": -1.0}, "preferences.min_margin"),
        ({"min_margin": float("nan")}, "preferences.min_margin"),
        ({"test_share": 2.0}, "preferences.test_share"),
        ({"max_pairs": 0}, "preferences.max_pairs"),
        ({"aspect": " "}, "preferences.aspect"),
        ({"license": "mine alone"}, "preferences.license"),
    ],
)
def test_setting_that_makes_no_sense_is_refused(settings: Any, named: str) -> None:
    with pytest.raises(AssayError, match=named):
        PreferencesConfig(**settings)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def replaced(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, dict) and value:
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: replaced(value[key], data)}
    if isinstance(value, list) and value:
        at = data.draw(st.integers(0, len(value) - 1))
        return [*value[:at], replaced(value[at], data), *value[at + 1 :]]
    return data.draw(JSON | st.just("\ud800") | st.just(10**400) | st.just(messages("a", "b")))


def reason_of(name: str, row: Row, **settings: Any) -> str | None:
    """Why a row is dropped, or None; what is said of it can be stored."""
    try:
        read(name, row, **settings)
    except BadRow as bad:
        bad.detail.encode()
        return bad.reason
    return None


LAYOUT_FIELDS = [(name, field) for name, make in LAYOUTS.items() for field in make()]


@given(st.sampled_from(LAYOUT_FIELDS), JSON)
def test_any_value_in_any_field_of_any_format_is_kept_or_a_bad_row(
    where: tuple[str, str], value: Any
) -> None:
    name, field = where
    row = LAYOUTS[name](**{field: value})
    if name == "helpsteer":
        row = {"group": [row, helpsteer(1)]}
    assert reason_of(name, row) in (None, *PREFERENCES)


@given(st.sampled_from(sorted(LAYOUTS)), st.data())
def test_any_nested_value_is_kept_or_a_bad_row(name: str, data: st.DataObject) -> None:
    row = LAYOUTS[name]()
    row = replaced({"group": [row, helpsteer(1)]} if name == "helpsteer" else row, data)
    assert reason_of(name, row, answers="all") in (None, *PREFERENCES)


@given(st.dictionaries(st.sampled_from([field for _, field in LAYOUT_FIELDS]), JSON, max_size=8))
def test_any_row_is_recognised_or_a_bad_row(
    tmp_path_factory: pytest.TempPathFactory, row: dict[str, Any]
) -> None:
    path = write(tmp_path_factory.mktemp("any") / "x.jsonl", row, plain(1, chosen=GOOD, rejected=BAD))
    try:
        reasons = {one.reason for one in dropped(run(path))}
    except AssayError:
        with pytest.raises(AssayError, match="no row can be imported"):
            run(path)
        reasons = set()
    assert reasons <= set(PREFERENCES)


def test_file_that_shrank_since_planning_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", plain(0), plain(1))
    (unit,) = plan_preferences(PreferencesConfig(), [path])
    write(path, plain(0))
    with pytest.raises(AssayError, match="shorter than when it was planned"):
        list(import_preferences(PreferencesConfig(), unit))
