"""Rows that anyone may have written: read what is good, say what is not."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import AssayError
from trainers import rowfiles
from trainers.conversations import COLUMNS, REASONS, request_of
from trainers.rowfiles import BadRow


def lines(path: Path, *rows: Any) -> Path:
    """Write JSON lines; text goes in as it is."""
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def reasons(path: Path) -> list[str]:
    """The reason of every row, empty for a good one."""
    return [row.reason for row in rowfiles.read(path, COLUMNS)]


def test_a_bad_line_costs_itself_only(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"prompt": "p"}, "{", "[]", "3", '{"a": NaN}', "", {"prompt": "q"})
    assert reasons(path) == ["", "bad_json", "not_an_object", "not_an_object", "bad_json", ""]


def test_rows_keep_their_line_numbers(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"prompt": "p"}, "", {"prompt": "q"})
    assert [row.number for row in rowfiles.read(path, COLUMNS)] == [1, 3]


def test_deep_nesting_is_a_bad_line(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", "[" * 200_000, {"prompt": "p"})
    # The first line begins with a bracket, as a JSON list does; a second file begins with an object.
    with pytest.raises(AssayError, match="not valid JSON"):
        reasons(path)
    deep = lines(tmp_path / "b.jsonl", {"prompt": "p"}, '{"prompt": ' + "[" * 200_000)
    assert reasons(deep) == ["", "bad_json"]


def test_a_json_list_is_read_as_rows(tmp_path: Path) -> None:
    path = tmp_path / "total.json"
    path.write_text("\n " + json.dumps([{"prompt": "p"}, 3, {"prompt": "q"}]))
    assert reasons(path) == ["", "not_an_object", ""]


def test_gzipped_lines_are_read_and_cut_ones_told(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps({"prompt": "p"}).encode() * 1)
    (tmp_path / "a.jsonl.gz").write_bytes(whole)
    assert reasons(tmp_path / "a.jsonl.gz") == [""]
    (tmp_path / "b.jsonl.gz").write_bytes(whole[:-9])
    with pytest.raises(AssayError, match="cannot be read"):
        reasons(tmp_path / "b.jsonl.gz")


def test_only_wanted_columns_of_parquet_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"prompt": ["p"], "other": ["x"], "language": ["Go"]}), path)
    (row,) = rowfiles.read(path, COLUMNS)
    assert row.values == {"prompt": "p", "language": "Go"}


def test_text_that_is_not_utf8_costs_its_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    good, bad = b"p", b"\xff\xfe"
    text = pa.Array.from_buffers(pa.string(), 3, pa.array([good, bad, good], pa.binary()).buffers())
    pq.write_table(pa.table({"prompt": text}), path)
    assert reasons(path) == ["", "damaged", ""]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", b"x", "ends in none of"),
        ("a.parquet.gz", b"x", "ends in none of"),
        ("a.jsonl", b"", "is empty"),
        ("a.parquet", b"PAR1 is no Parquet", "cannot be read as Parquet"),
    ],
)
def test_files_of_no_use_are_told_in_one_line(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AssayError, match=told):
        reasons(tmp_path / name)


def test_missing_files_folders_and_pipes_are_told(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="no such file"):
        reasons(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").mkdir()
    with pytest.raises(AssayError, match="is a folder"):
        reasons(tmp_path / "b.jsonl")
    os.mkfifo(tmp_path / "c.jsonl")
    with pytest.raises(AssayError, match="pipe"):
        reasons(tmp_path / "c.jsonl")


def test_parquet_without_any_wanted_column_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"other": ["x"]}), path)
    with pytest.raises(AssayError, match="none of the columns"):
        reasons(path)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "missing_field"),
        ({"prompt": "p"}, "missing_field"),
        ({"prompt": 3, "response": "r"}, "wrong_type"),
        ({"prompt": "p", "response": " \n"}, "empty"),
        ({"prompt": "p", "response": "\ud800"}, "bad_text"),
        ({"prompt": "p", "chosen": "c"}, "missing_field"),
        ({"prompt": "p", "chosen": ["c"], "rejected": "r"}, "wrong_type"),
        ({"prompt": "p", "chosen": ["c"], "rejected": []}, "empty"),
        ({"prompt": "p", "chosen": ["c"], "rejected": ["r"], "domain": "code"}, "bad_styles"),
        ({"prompt": "p", "response": "r", "resolved": 2}, "bad_outcome"),
        ({"prompt": "p", "response": "r", "resolved": "yes"}, "wrong_type"),
        ({"messages": [], "response": "r"}, "bad_messages"),
        ({"messages": ["hi"], "response": "r"}, "bad_messages"),
        ({"messages": [{"role": "assistant", "content": "a"}], "response": "r"}, "bad_messages"),
        (
            {"messages": [{"role": role, "content": "x"} for role in ("user", "assistant", "user")]},
            "several_turns",
        ),
    ],
)
def test_rows_of_no_use_have_a_reason_that_is_explained(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRow) as told:
        request_of(row, 1)
    assert told.value.reason == reason
    assert reason in REASONS


def test_the_layouts_of_data_sets_mean_the_same() -> None:
    talk = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "p"},
        {"role": "assistant", "content": "r"},
    ]
    rows = [
        {"system": "s", "prompt": "p", "response": "r"},
        {"system": "s", "input": "p", "completion": "r"},
        {"messages": talk},
        {"messages": talk[:2], "response": "r"},
        {"prompt": talk[:2], "completion": "r"},
    ]
    found = {(one.system, one.prompt, one.right) for one in (request_of(row, 1) for row in rows)}
    assert found == {("s", "p", ("r",))}


def test_a_conversation_as_a_side_is_its_last_message() -> None:
    side = [{"role": "user", "content": "p"}, {"role": "assistant", "content": "good"}]
    found = request_of({"prompt": "p", "chosen": side, "rejected": "bad"}, 1)
    assert (found.right, found.wrong, found.listed) == (("good",), ("bad",), False)


def test_lists_of_answers_stay_lists() -> None:
    found = request_of({"id": "tied:3", "prompt": "p", "chosen": ["a", "b"], "rejected": ["c"]}, 1)
    assert (found.row_id, found.right, found.wrong, found.listed) == ("tied:3", ("a", "b"), ("c",), True)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "made_by"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(COLUMNS), json_values, max_size=8))
def test_no_row_raises_anything_but_a_reason(row: dict[str, Any]) -> None:
    reason, texts = "", ("no text",)
    try:
        found = request_of(row, 1)
        texts = (found.prompt, *found.right, *found.wrong)
    except BadRow as bad:
        reason = bad.reason
    assert not reason or reason in REASONS
    assert all(text.strip() for text in texts)
