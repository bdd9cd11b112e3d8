"""Shards: whole or absent, the same bytes for the same rows, readable by everybody."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import datasets
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas import shards
from schemas.declare import schema_of
from schemas.errors import RowError, ShardError
from schemas.records import TABLES, Verdict


def verdict(n: int, **change: Any) -> dict[str, Any]:
    return {
        "id": f"{n:03}",
        "stage": "mine",
        "keep": False,
        "reason": "merge",
        "detail": None,
        "marks": [],
        **change,
    }


def sidecar(path: Path, **change: Any) -> shards.Sidecar:
    rows, size, digest = shards.write_shard(path, Verdict, [verdict(1)])
    facts: dict[str, Any] = {
        "table": "verdicts",
        "split": None,
        "stage": "mine",
        "unit": "u",
        "key": "k",
        "rows": rows,
        "bytes": size,
        "sha256": digest,
        "schema": shards.schema_digest(Verdict),
        "accounting": shards.Accounting(1, 0, {"merge": 1}),
        "seconds": 0.1,
    }
    return shards.Sidecar(**{**facts, **change})


def test_order_of_rows_does_not_change_the_bytes(tmp_path: Path) -> None:
    rows = [verdict(n) for n in range(50)]
    shards.write_shard(tmp_path / "a.parquet", Verdict, rows)
    shards.write_shard(tmp_path / "b.parquet", Verdict, reversed(rows))
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_bad_row_leaves_the_old_shard_and_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    shards.write_shard(path, Verdict, [verdict(1)])
    before = path.read_bytes()
    with pytest.raises(RowError, match=r"Verdict row 1\.keep: expected bool"):
        shards.write_shard(path, Verdict, [verdict(1), verdict(2, keep="no")])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.parquet"]


def test_none_first_and_values_later_keep_the_declared_type(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    shards.write_shard(path, Verdict, [verdict(1, detail=None), verdict(2, detail="late")])
    assert [row["detail"] for row in shards.iter_rows(path, Verdict)] == [None, "late"]


@pytest.mark.parametrize("table", sorted(TABLES))
def test_empty_shard_is_valid_for_pyarrow_polars_and_datasets(table: str, tmp_path: Path) -> None:
    path = tmp_path / "part-x.parquet"
    shards.write_shard(path, TABLES[table], [])
    assert pq.read_schema(path).equals(schema_of(TABLES[table]))
    assert pl.read_parquet(path).shape == (0, len(schema_of(TABLES[table])))
    # Without streaming, datasets refuses any split of no rows at all, whatever wrote it.
    loaded = datasets.load_dataset("parquet", data_files=str(path), split="train", streaming=True)
    assert list(loaded) == []
    assert list(loaded.features) == schema_of(TABLES[table]).names


def test_empty_shard_beside_a_full_one_loads_with_datasets(tmp_path: Path) -> None:
    shards.write_shard(tmp_path / "part-a.parquet", Verdict, [])
    shards.write_shard(tmp_path / "part-b.parquet", Verdict, [verdict(1), verdict(2)])
    files = [str(tmp_path / f"part-{name}.parquet") for name in "ab"]
    loaded = datasets.load_dataset(
        "parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache")
    )
    assert loaded["id"][:] == ["001", "002"]


def test_large_rows_are_cut_into_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "ROW_GROUP_BYTES", 100_000)
    path = tmp_path / "a.parquet"
    shards.write_shard(path, Verdict, [verdict(n, detail="x" * 10_000) for n in range(40)])
    groups = pq.ParquetFile(path).metadata
    assert groups.num_row_groups >= 4
    assert groups.num_rows == 40


def test_sidecar_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "part-u.parquet"
    written = sidecar(path)
    shards.write_sidecar(path, written)
    assert shards.read_sidecar(path) == written
    assert shards.is_whole(path, written)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}', '{"format": 99}'])
def test_damaged_sidecar_is_an_error_that_names_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "part-u.parquet"
    shards.sidecar_path(path).write_text(text)
    with pytest.raises(ShardError, match=r"part-u\.json"):
        shards.read_sidecar(path)


def test_changed_byte_in_a_shard_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "part-u.parquet"
    facts = sidecar(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    assert not shards.is_whole(path, facts)


def test_shard_of_other_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    shards.write_shard(path, Verdict, [verdict(1)])
    with pytest.raises(ShardError, match="columns are not those of a edits shard"):
        shards.read_shard(path, TABLES["edits"])


def test_the_column_that_is_not_as_it_should_be_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    shards.write_shard(path, Verdict, [verdict(1)])
    table = pq.read_table(path)
    name = table.column_names[0]
    others = {
        f"it has no {name}": table.drop_columns([name]),
        f"{name} is not {table.schema.field(name).type}": table.set_column(0, name, pa.array([1])),
        f"{name} may be null": table.set_column(0, pa.field(name, table[name].type), table[name]),
    }
    for said, other in others.items():
        pq.write_table(other, path)
        for read in (shards.read_shard, lambda *of: list(shards.iter_rows(*of))):
            with pytest.raises(ShardError, match=re.escape(f"({said})")):
                read(path, Verdict)


def test_truncated_shard_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    shards.write_shard(path, Verdict, [verdict(1)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ShardError, match="cannot be read as Parquet"):
        shards.read_shard(path, Verdict)


def test_sidecar_is_json_a_person_can_read(tmp_path: Path) -> None:
    path = tmp_path / "part-u.parquet"
    shards.write_sidecar(path, sidecar(path))
    assert json.loads((tmp_path / "part-u.json").read_text())["accounting"]["drops"] == {"merge": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"rows": "many"},
        {"rows": -1},
        {"bytes": 1.5},
        {"bytes": 10**30},
        {"unit": None},
        {"split": 3},
        {"seconds": float("nan")},
        {"inputs": []},
        {"inputs": {"edits": 1}},
        {"accounting": {"rows_in": 1, "kept": 0, "drops": [1]}},
        {"accounting": {"rows_in": 1, "kept": 0, "drops": {"merge": "one"}}},
    ],
)
def test_sidecar_with_a_value_of_another_type_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "part-u.parquet"
    shards.write_sidecar(path, sidecar(path))
    facts = json.loads(shards.sidecar_path(path).read_text())
    shards.sidecar_path(path).write_text(json.dumps({**facts, **change}))
    with pytest.raises(ShardError, match=f"{next(iter(change))} is not what it should be"):
        shards.read_sidecar(path)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{" + " " * shards.MAX_SIDECAR_BYTES + "}", "[]", "\ufeff{}"]
)
def test_hostile_sidecar_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "part-u.parquet"
    shards.sidecar_path(path).write_text(text)
    with pytest.raises(ShardError, match=r"not a sidecar|sidecar format"):
        shards.read_sidecar(path)


def test_folder_in_place_of_a_shard_or_sidecar_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "part-u.parquet"
    facts = sidecar(path)
    path.unlink()
    path.mkdir()
    shards.sidecar_path(path).mkdir()
    assert not shards.is_whole(path, dataclasses.replace(facts, bytes=path.stat().st_size))
    with pytest.raises(ShardError, match="cannot be read"):
        shards.read_sidecar(path)


@pytest.mark.parametrize("most", [0, 300, 3000])
def test_rows_put_aside_change_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    rows = [verdict(n % 50, detail=f"{n}" * (n % 7)) for n in range(200)]
    shards.write_shard(tmp_path / "whole.parquet", Verdict, rows)
    monkeypatch.setattr(shards, "IN_MEMORY", most)
    shards.write_shard(tmp_path / "aside.parquet", Verdict, rows)
    assert (tmp_path / "whole.parquet").read_bytes() == (tmp_path / "aside.parquet").read_bytes()


def test_what_was_put_aside_is_removed_also_after_a_bad_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "IN_MEMORY", 100)
    rows = [verdict(n) for n in range(20)]
    with pytest.raises(RowError):
        shards.write_shard(tmp_path / "a.parquet", Verdict, [*rows, verdict(21, keep="no")])
    assert list(tmp_path.iterdir()) == []
    shards.write_shard(tmp_path / "a.parquet", Verdict, rows)
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_row_groups_are_bounded_in_bytes_and_read_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "ROW_GROUP_BYTES", 1000)
    rows = [verdict(n, detail="x" * 400) for n in range(10)]
    shards.write_shard(tmp_path / "a.parquet", Verdict, rows)
    groups = pq.ParquetFile(tmp_path / "a.parquet").metadata
    assert [groups.row_group(n).num_rows for n in range(groups.num_row_groups)] == [2] * 5
    assert list(shards.iter_rows(tmp_path / "a.parquet", Verdict)) == rows


def test_columns_come_in_the_order_asked_for(tmp_path: Path) -> None:
    shards.write_shard(tmp_path / "a.parquet", Verdict, [verdict(1)])
    (row,) = shards.iter_rows(tmp_path / "a.parquet", Verdict, ["keep", "id"])
    assert list(row) == ["keep", "id"]
