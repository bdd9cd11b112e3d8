"""Benchmark files that nobody vouches for: a bad row costs itself, a bad file is told in one line."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from miner.benchmarks import benchmark_files, benchmark_rows, check, strings
from miner.common import Files
from miner.config import DecontaminateConfig
from miner.decontaminate import build_index
from schemas.errors import AssayError, EnvironmentFault

MOST = 1000
GOOD = json.dumps({"text": " ".join(f"word{n}" for n in range(30))})
NO_FILES: Files = {}


def read(path: Path, *columns: str) -> list[tuple[int, list[str] | None]]:
    return list(benchmark_rows(path, columns, MOST))


@pytest.mark.parametrize(
    "bad",
    [
        b"not json",
        b"[1, 2]",
        b"null",
        b'{"text": "cut',
        b'{"text": "\xff\xfe"}',
        b'{"text": 3, "other": null, "blank": "  "}',
        b'{"text": "' + b"x" * MOST + b'"}',
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b"9" * 900 + b"}",
    ],
    ids=["text", "list", "null", "cut", "not_utf8", "no_text", "long", "deep", "number"],
)
def test_bad_line_costs_itself_only(bad: bytes, tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    path.write_bytes(GOOD.encode() + b"\n" + bad + b"\n\n" + GOOD.encode())
    found = read(path)
    assert [number for number, _ in found] == [1, 2, 4]
    assert [texts is None for _, texts in found] == [False, True, False]


def test_half_of_a_surrogate_pair_is_text_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text('{"text": "' + " ".join(["\\ud800"] * 20) + '"}\n')
    index = build_index(DecontaminateConfig(), [path], NO_FILES)
    assert index.facts["ngrams"] == 1


def test_bad_rows_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text(f'{GOOD}\nnot json\n{{"text": "short"}}\n{GOOD}\n')
    index = build_index(DecontaminateConfig(), [path], NO_FILES)
    (file,) = index.facts["files"]
    assert file == {"file": "b.jsonl", "rows": 4, "bad_rows": 1, "rows_too_short": 1}
    assert index.facts["ngrams"] == 18


def test_row_of_a_parquet_file_that_is_not_utf8_costs_itself_only(tmp_path: Path) -> None:
    data = pa.array([b"good one", b"\xff\xfe", b"good two"], pa.binary())
    text = pa.StringArray.from_buffers(3, data.buffers()[1], data.buffers()[2])
    pq.write_table(pa.table({"text": text}), tmp_path / "b.parquet")
    assert read(tmp_path / "b.parquet") == [(1, ["good one"]), (2, None), (3, ["good two"])]


def test_dictionary_and_large_strings_of_a_parquet_file_are_text(tmp_path: Path) -> None:
    columns = {
        "a": pa.array(["one"]).dictionary_encode(),
        "b": pa.array(["two"], pa.large_string()),
        "c": pa.array([3]),
        "d": pa.array([None], pa.list_(pa.string())),
        "e": pa.array([[("key", "three")]], pa.map_(pa.string(), pa.string())),
    }
    pq.write_table(pa.table(columns), tmp_path / "b.parquet")
    assert read(tmp_path / "b.parquet") == [(1, ["one", "two", "key", "three"])]


def test_strings_are_found_at_any_depth_in_order() -> None:
    value: object = "deepest"
    for _ in range(5000):
        value = [value]
    assert strings(["a", {"x": ["b", {"y": "c"}], "z": 3}, value, None, " "]) == ["a", "b", "c", "deepest"]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("b.jsonl", b"", "is empty"),
        ("b.jsonl", b"\n\n", "no row of the benchmark has text"),
        ("b.jsonl", b"nothing\n", "no row of the benchmark has text"),
        ("b.jsonl.gz", b"no gzip", "b.jsonl.gz"),
        ("b.jsonl.gz", gzip.compress(b"x" * 100, mtime=0)[:-9], "b.jsonl.gz"),
        ("b.parquet", b"PAR1 no parquet PAR1", "b.parquet: the benchmark cannot be read"),
        ("b.parquet", b"", "b.parquet: the benchmark cannot be read"),
    ],
)
def test_file_that_cannot_be_used_is_told_in_one_line(
    name: str, data: bytes, says: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    (found,) = benchmark_files([str(path)])
    with pytest.raises(AssayError) as told:
        check(found, (), MOST)
    assert says in str(told.value)
    assert "\n" not in str(told.value)


def test_file_that_breaks_while_it_is_read_stops_the_run(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl.gz"
    rows = "".join(json.dumps({"text": os.urandom(200).hex()}) + "\n" for _ in range(500))
    whole = gzip.compress(rows.encode())
    path.write_bytes(whole[: len(whole) // 2])
    check(path, (), MOST)
    with pytest.raises(EnvironmentFault, match="damaged"):
        read(path)


def test_parquet_file_without_text_names_its_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"score": [1.0]}), tmp_path / "b.parquet")
    with pytest.raises(AssayError, match=r"no column of text; its columns: score"):
        read(tmp_path / "b.parquet")
    with pytest.raises(AssayError, match=r"no column prompt of text"):
        read(tmp_path / "b.parquet", "prompt")


def test_paths_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "b.csv").write_text("a,b\n")
    (tmp_path / "b.jsonl").write_text(GOOD)
    for paths, says in (
        (["nowhere.jsonl"], "nowhere.jsonl"),
        (["nul\0.jsonl"], "cannot be read"),
        ([str(tmp_path / "empty")], "no benchmark in it"),
        ([str(tmp_path / "b.csv")], "not a known kind"),
        ([str(tmp_path / "b.jsonl"), str(tmp_path)], "given twice"),
        (["/dev/null"], "a pipe or a device"),
    ):
        with pytest.raises(AssayError, match=says):
            benchmark_files(paths)
