"""Shard files: Parquet parts that are whole or absent, each with a sidecar that says what it is.

`write_shard` takes rows of one record, checks each, sorts them by the record's order, writes a
temporary file, syncs it, renames it, then does the same for the sidecar. A reader that goes by
sidecars therefore never sees half a shard. Row groups hold about 64 MB, pages are cut by content so
that storage that removes duplicate chunks finds them, and the page index lets a viewer read single pages.

Errors: `RowError` for a row that does not fit, `ShardError` for a damaged shard or sidecar. On any
error the temporary file is removed and an older shard of that name stays as it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import heapq
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.declare import as_row, schema_of, sort_of, table_of, validate
from schemas.errors import ShardError
from schemas.ids import digest_json

SIDECAR_FORMAT = 1
ROW_GROUP_BYTES = 64 << 20
IN_MEMORY = 192 << 20
"""Bytes of rows that a shard under construction holds in memory."""
_ROWS_AT_ONCE = 100
MAX_SIDECAR_BYTES = 16 << 20
"""A sidecar names inputs and reasons of drops, some kilobytes; more is not read."""

_CHUNKING = {"min_chunk_size": 1 << 20, "max_chunk_size": 8 << 20, "norm_level": 0}


@dataclasses.dataclass(frozen=True)
class Accounting:
    """What became of the rows that a task considered: `rows_in == kept + sum(drops.values())`."""

    rows_in: int
    kept: int
    drops: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Sidecar:
    """The facts of one shard, in `part-*.json` beside it.

    `accounting`, `counts` and `seconds` stand in the sidecar of a task's first output only, so that sums
    over a table count a task once. `counts` is what else the stage counted, by name.
    """

    table: str
    split: str | None
    stage: str
    unit: str
    key: str
    rows: int
    bytes: int
    sha256: str
    schema: str
    accounting: Accounting | None = None
    seconds: float | None = None
    inputs: dict[str, str] = dataclasses.field(default_factory=dict)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    format: int = SIDECAR_FORMAT


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path`; on success sync it and rename it to `path`, else remove it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with replacing(path) as handle:
        handle.write(text.encode())


def schema_digest(record: type) -> str:
    """A digest of a record's columns, types and nullability."""
    return digest_json([[f.name, str(f.type), f.nullable] for f in schema_of(record)])


def _sort_key(order: Sequence[str], row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((row[name] is not None, row[name]) for name in order)


def _size(value: Any) -> int:
    """Bytes that a value takes in a row group, about."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    if isinstance(value, list):
        return sum(map(_size, value))
    return 8


def _groups(rows: Iterable[dict[str, Any]], most: int) -> Iterator[list[dict[str, Any]]]:
    """Rows in groups of about `most` bytes, in order; where one ends depends on the rows alone."""
    group: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        own = _size(row)
        if group and size + own > most:
            yield group
            group, size = [], 0
        group.append(row)
        size += own
    if group:
        yield group


class ShardBuilder:
    """A shard under construction: rows in any order and number, in bounded memory. Use as a context manager.

    Rows that take more than `IN_MEMORY` bytes together are sorted and put aside in temporary files beside
    the shard, which are merged at the end. The bytes of the shard do not depend on it.
    """

    def __init__(self, path: Path, record: type) -> None:
        self.path, self.record, self.rows = path, record, 0
        self._held: list[dict[str, Any]] = []
        self._bytes = 0
        self._aside: list[Path] = []

    def __enter__(self) -> ShardBuilder:
        return self

    def __exit__(self, *_: object) -> None:
        for path in self._aside:
            path.unlink(missing_ok=True)
        self._held, self._aside = [], []

    def add(self, row: Any) -> None:
        """Take a row (record or mapping).

        Raises:
            RowError: it does not fit the record.
        """
        validate(self.record, row, f"row {self.rows}")
        plain = as_row(row)
        self._held.append(plain)
        self._bytes += _size(plain)
        self.rows += 1
        if self._bytes > IN_MEMORY:
            self._put_aside()

    def _sort(self) -> None:
        if order := sort_of(self.record):
            self._held.sort(key=lambda row: _sort_key(order, row))

    def _put_aside(self) -> None:
        self._sort()
        path = self.path.with_name(f".{self.path.name}.{os.getpid()}.{len(self._aside)}.tmp")
        self._aside.append(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = schema_of(self.record)
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema, options=options) as writer:
            for group in _groups(self._held, IN_MEMORY // 16):
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
        self._held, self._bytes = [], 0

    def _in_order(self) -> Iterator[dict[str, Any]]:
        order = sort_of(self.record)
        self._sort()
        if not self._aside:
            return iter(self._held)
        sources = [*map(_read_aside, self._aside), iter(self._held)]
        if not order:
            return itertools.chain.from_iterable(sources)
        return heapq.merge(*sources, key=lambda row: _sort_key(order, row))

    def finish(self) -> tuple[int, int, str]:
        """Write the shard.

        Returns:
            (rows, bytes, sha256 of the file).
        """
        schema = schema_of(self.record)
        short = [field.name for field in schema if field.type == pa.string()]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with (
            replacing(self.path) as handle,
            pq.ParquetWriter(
                handle,
                schema,
                compression="zstd",
                compression_level=3,
                use_dictionary=short,
                data_page_size=8 << 20,
                write_page_index=True,
                use_content_defined_chunking=_CHUNKING,
            ) as writer,
        ):
            for group in _groups(self._in_order(), ROW_GROUP_BYTES):
                writer.write_table(pa.Table.from_pylist(group, schema=schema), row_group_size=len(group))
        return self.rows, self.path.stat().st_size, file_sha256(self.path)


def _read_aside(path: Path) -> Iterator[dict[str, Any]]:
    with pa.OSFile(str(path), "rb") as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield from reader.get_batch(number).to_pylist()


def write_shard(path: Path, record: type, rows: Iterable[Any]) -> tuple[int, int, str]:
    """Write rows (records or mappings) as one shard.

    Returns:
        (rows, bytes, sha256 of the file).

    Raises:
        RowError: a row does not fit `record`; nothing is written.
    """
    with ShardBuilder(path, record) as builder:
        for row in rows:
            builder.add(row)
        return builder.finish()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, as hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def sidecar_path(shard: Path) -> Path:
    """The sidecar's place for a shard's."""
    return shard.with_suffix(".json")


def write_sidecar(shard: Path, sidecar: Sidecar) -> None:
    """Write a shard's sidecar; from then on the shard counts as done."""
    write_text(sidecar_path(shard), json.dumps(dataclasses.asdict(sidecar), indent=1, sort_keys=True) + "\n")


def read_sidecar(shard: Path) -> Sidecar:
    """The sidecar of a shard.

    Raises:
        ShardError: it is missing, unreadable, malformed or of another format.
    """
    path = sidecar_path(shard)
    try:
        with path.open("rb") as handle:
            text = handle.read(MAX_SIDECAR_BYTES + 1)
        if len(text) > MAX_SIDECAR_BYTES:
            raise ValueError(f"more than {MAX_SIDECAR_BYTES} bytes")
        data = json.loads(text)
        if data.get("format") != SIDECAR_FORMAT:
            raise ShardError(
                f"{path}: sidecar format {data.get('format')}, this version reads {SIDECAR_FORMAT}"
            )
        if data.get("accounting") is not None:
            data["accounting"] = Accounting(**data["accounting"])
        sidecar = Sidecar(**data)
        _check_types(sidecar)
        return sidecar
    except (FileNotFoundError, NotADirectoryError):
        raise ShardError(f"{path}: no sidecar, so {shard.name} was never finished") from None
    except OSError as error:
        raise ShardError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ShardError(f"{path}: not a sidecar ({error}); remove it and run the stage again") from None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _check_types(sidecar: Sidecar) -> None:
    """Refuse values of types that nobody wrote; sums and paths are made of them.

    Raises:
        ValueError: names the first field that is wrong.
    """
    texts = ("table", "stage", "unit", "key", "sha256", "schema")
    good = {name: type(getattr(sidecar, name)) is str for name in texts}
    good["split"] = sidecar.split is None or type(sidecar.split) is str
    good |= {name: _is_count(getattr(sidecar, name)) for name in ("rows", "bytes")}
    good["seconds"] = sidecar.seconds is None or (
        type(sidecar.seconds) in (int, float) and 0 <= sidecar.seconds < math.inf
    )
    good["inputs"] = type(sidecar.inputs) is dict and all(type(one) is str for one in sidecar.inputs.values())
    good["counts"] = type(sidecar.counts) is dict and all(map(_is_count, sidecar.counts.values()))
    if (told := sidecar.accounting) is not None:
        drops = type(told.drops) is dict and all(map(_is_count, told.drops.values()))
        good["accounting"] = drops and _is_count(told.rows_in) and _is_count(told.kept)
    for name, right in good.items():
        if not right:
            raise ValueError(f"{name} is not what it should be")


def is_whole(shard: Path, sidecar: Sidecar) -> bool:
    """Whether the shard is there and readable, with the bytes that its sidecar says."""
    try:
        return shard.stat().st_size == sidecar.bytes and file_sha256(shard) == sidecar.sha256
    except OSError:
        return False


def _wanted(record: type, columns: Sequence[str] | None) -> pa.Schema:
    schema = schema_of(record)
    return pa.schema([schema.field(name) for name in columns]) if columns else schema


def _check_schema(shard: Path, record: type, found: pa.Schema, wanted: pa.Schema) -> None:
    if not found.equals(wanted):
        raise ShardError(
            f"{shard}: its columns are not those of a {table_of(record)} shard of this version "
            f"({_difference(found, wanted)}); run the stage that made it again"
        )


def _difference(found: pa.Schema, wanted: pa.Schema) -> str:
    """The first column that is not as it is wanted."""
    for field in wanted:
        if field.name not in found.names:
            return f"it has no {field.name}"
        own = found.field(field.name)
        if not own.equals(field):
            if own.type.equals(field.type):
                return f"{field.name} may be null" if own.nullable else f"{field.name} may not be null"
            # A struct's type is pages long.
            return (
                f"{field.name} is not {field.type}" if len(str(field.type)) < 40 else f"{field.name} differs"
            )
    return "they are others, or in another order"


def read_shard(shard: Path, record: type, columns: Sequence[str] | None = None) -> pa.Table:
    """A shard as an Arrow table with the record's schema.

    Raises:
        ShardError: the file cannot be read or holds other columns.
    """
    try:
        table = pq.read_table(shard, columns=list(columns) if columns else None, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise ShardError(f"{shard}: cannot be read as Parquet ({error})") from None
    _check_schema(shard, record, table.schema, _wanted(record, columns))
    return table


def iter_rows(shard: Path, record: type, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a shard as dicts; one row group is in memory at a time.

    Raises:
        ShardError: as for `read_shard`, where the reading has come to it.
    """
    try:
        with pq.ParquetFile(shard) as file:
            wanted = _wanted(record, columns)
            found = file.schema_arrow
            if columns and set(columns) <= set(found.names):
                found = pa.schema([found.field(name) for name in columns])
            _check_schema(shard, record, found, wanted)
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=list(columns) if columns else None)
                for batch in table.select(wanted.names).to_batches(max_chunksize=_ROWS_AT_ONCE):
                    yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise ShardError(f"{shard}: cannot be read as Parquet ({error})") from None
