"""Lines, JSON lists and Parquet tables give the same rows, and damage is told in one line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problem_rows import LAYOUTS, apps, codecontests, dropped, humaneval, kept, run, write

from miner.config import ImportConfig
from miner.importers.problems import import_problems, plan_problems
from miner.importers.rows import source_rows
from schemas.errors import AssayError
from schemas.stage import Keep

ENDINGS = ("jsonl", "jsonl.gz", "json", "json.gz", "parquet")


def contents(problems: list[Any]) -> list[Any]:
    return [(one.name, one.language, one.solution, one.references, one.tests, one.url) for one in problems]


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "mbpp+"])
def test_every_ending_gives_the_same_problems(tmp_path: Path, name: str) -> None:
    rows = [LAYOUTS[name](number) for number in range(8)]
    found = [
        contents(kept(run(write(tmp_path / f"set.{ending}", *rows), rows_per_part=3))) for ending in ENDINGS
    ]
    assert len(found[0]) >= 8
    assert all(one == found[0] for one in found)


def test_units_begin_inside_and_at_the_end_of_row_groups(tmp_path: Path) -> None:
    path = write(tmp_path / "set.parquet", *(humaneval(number) for number in range(10)))
    for size in (1, 2, 3, 4, 5, 7, 32):
        names = [one.name for one in kept(run(path, rows_per_part=size))]
        assert names == [f"HumanEval/{number}" for number in range(10)]


def test_number_of_rows_a_unit_changes_no_problem(tmp_path: Path) -> None:
    for ending in ENDINGS:
        path = write(tmp_path / f"set.{ending}", *(humaneval(number) for number in range(7)))
        assert run(path, rows_per_part=2) == run(path, rows_per_part=5)


def test_bad_item_of_a_list_costs_no_other_and_rows_are_named(tmp_path: Path) -> None:
    bad = [b"{", b"[1, [2]]", b"3", b'{"task_id": 1}', b'{"a": "\\"}]"}', b'"x, y"', b"nul"]
    path = write(tmp_path / "set.json", humaneval(0), *bad[1:], humaneval(1))
    outcomes = run(path)
    assert [one.name for one in kept(outcomes)] == ["HumanEval/0", "HumanEval/1"]
    assert [one.id for one in dropped(outcomes)] == [f"set.json:{number}" for number in range(2, 8)]
    assert str(dropped(outcomes)[0].detail).startswith("row 2: ")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(
    items=st.lists(JSON, max_size=6),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
    block=st.sampled_from([1, 2, 3, 7, 1 << 20]),
    data=st.data(),
)
def test_items_of_any_list_are_told_apart_and_reading_goes_on_at_any(
    tmp_path_factory: pytest.TempPathFactory,
    items: list[Any],
    indent: int | None,
    ascii_only: bool,
    block: int,
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("list") / "x.json"
    text = json.dumps(items, indent=indent, ensure_ascii=ascii_only)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("miner.importers.rows._BLOCK", block)
        found = list(source_rows(path, 1 << 20))
        assert [json.loads(item) for _, _, item in found if isinstance(item, bytes)] == items
        assert [number for number, _, _ in found] == list(range(1, len(items) + 1))
        if found:
            number, place, _ = data.draw(st.sampled_from(found))
            assert list(source_rows(path, 1 << 20, number, place)) == found[number - 1 :]


def test_item_that_is_too_long_is_dropped_and_the_next_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "set.json", humaneval(0), humaneval(1, prompt='["{' * 900_000), humaneval(2))
    outcomes = run(path, max_row_bytes=1000)
    assert [one.name for one in kept(outcomes)] == ["HumanEval/0", "HumanEval/2"]
    assert [(one.id, one.reason) for one in dropped(outcomes)] == [("set.json:2", "line_too_long")]


def test_row_of_a_table_that_is_too_long_is_dropped(tmp_path: Path) -> None:
    rows = [humaneval(0), humaneval(1, prompt="x" * 3000), humaneval(2)]
    outcomes = run(write(tmp_path / "set.parquet", *rows), max_row_bytes=1000)
    assert [one.reason for one in dropped(outcomes)] == ["line_too_long"]
    assert len(kept(outcomes)) == 2


def test_json_file_may_hold_lines(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_bytes(json.dumps(humaneval()).encode() + b"\n" + json.dumps(humaneval(1)).encode() + b"\n")
    assert len(kept(run(path))) == 2


def test_text_in_a_table_that_is_no_utf8_costs_its_row(tmp_path: Path) -> None:
    rows = [humaneval(0), humaneval(1), humaneval(2)]
    table = pa.Table.from_pylist(rows)
    raw = pa.array([b"def add", b"\xff\xfe", PROMPT_BYTES], pa.binary())
    wrong = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    at = table.schema.get_field_index("prompt")
    pq.write_table(table.set_column(at, "prompt", wrong), tmp_path / "set.parquet")
    outcomes = run(tmp_path / "set.parquet")
    assert [isinstance(one, Keep) for one in outcomes] == [False, False, True]
    assert dropped(outcomes)[1].reason == "bad_json"


PROMPT_BYTES = humaneval()["prompt"].encode()


def test_columns_that_nobody_reads_are_not_read(tmp_path: Path) -> None:
    one = write(tmp_path / "set.parquet", codecontests())
    (before,) = plan_problems(ImportConfig(), [one])
    write(one, codecontests(incorrect_solutions={"language": [2], "solution": ["x"]}))
    (after,) = plan_problems(ImportConfig(), [one])
    assert before == after


def test_dates_and_decimals_of_a_table_are_read(tmp_path: Path) -> None:
    import datetime

    rows = [LAYOUTS["livecodebench"](contest_date=datetime.datetime(2023, 8, 21))]
    assert kept(run(write(tmp_path / "set.parquet", *rows)))[0].released == "2023-08-21"


def refusal(path: Path) -> str:
    with pytest.raises(AssayError) as caught:
        plan_problems(ImportConfig(), [path])
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("ending", ENDINGS)
def test_missing_empty_folder_and_truncated_are_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"set.{ending}"
    assert "no such file" in refusal(path)
    path.touch()
    assert refusal(path)
    path.unlink()
    path.mkdir()
    assert "is a folder" in refusal(path)
    path.rmdir()
    write(path, *(humaneval(number) for number in range(50)))
    if ending != "jsonl":
        path.write_bytes(path.read_bytes()[:-20])
        assert "damaged" in refusal(path)
        path.write_bytes(b"[{" + b"x" * 100)
        assert "damaged" in refusal(path)


def test_damage_inside_of_a_table_is_told_with_the_last_row_that_was_read(tmp_path: Path) -> None:
    rows = [apps(number, question=f"{number} {number * 7919 % 10007}" * 99) for number in range(30)]
    path = write(tmp_path / "set.parquet", *rows)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = bytes(2000)
    path.write_bytes(data)
    assert "damaged after row" in refusal(path)


def test_list_that_is_empty_or_of_blanks_has_no_rows(tmp_path: Path) -> None:
    for text in (b"[]", b" [ ] ", b"[ , ]"):
        (tmp_path / "set.json").write_bytes(text)
        assert "it has no rows" in refusal(tmp_path / "set.json")
    pq.write_table(pa.table({"prompt": pa.array([], pa.string())}), tmp_path / "set.parquet")
    assert "it has no rows" in refusal(tmp_path / "set.parquet")


@given(data=st.binary(max_size=300), ending=st.sampled_from(ENDINGS), packed=st.booleans())
def test_any_bytes_are_planned_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, ending: str, packed: bool
) -> None:
    path = tmp_path_factory.mktemp("bytes") / f"x.{ending}"
    path.write_bytes(gzip.compress(data) if packed else b"PAR1" + data + b"PAR1" if "p" in ending else data)
    with pytest.raises(AssayError):
        plan_problems(ImportConfig(), [path])


def test_table_that_shrank_since_planning_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "set.parquet", humaneval(0), humaneval(1))
    (unit,) = plan_problems(ImportConfig(), [path])
    write(path, humaneval(0))
    with pytest.raises(AssayError, match="shorter than when it was planned"):
        list(import_problems(ImportConfig(), unit))


def test_gigantic_fields_and_repeated_keys_cost_no_other_row(tmp_path: Path) -> None:
    twice = json.dumps(humaneval(1)).encode()[:-1] + b', "prompt": 1}'
    deep = json.dumps(humaneval(2)).encode()[:-1] + b', "test": ' + b"[" * 500 + b"]" * 500 + b"}"
    huge = humaneval(3, canonical_solution="    return " + "a+" * 2_000_000 + "b")
    outcomes = run(write(tmp_path / "set.jsonl", humaneval(0), twice, deep, huge, humaneval(4)))
    assert [one.name for one in kept(outcomes)] == ["HumanEval/0", "HumanEval/4"]
    assert [one.reason for one in dropped(outcomes)] == ["bad_field", "bad_field", "bad_program"]
