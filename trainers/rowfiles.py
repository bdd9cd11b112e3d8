"""Rows of Parquet and JSON files that anyone may have written, read without trust.

In: a path that ends in `.parquet`, `.jsonl` or `.json`, the last also as one JSON list (each JSON also
gzipped). Out: every row as `Row`, a bad one with its reason, so that it costs nothing but itself. Columns
are not looked at here. What concerns a whole file is an `AssayError` of one line.

Reasons of `read`: `bad_json`, `not_an_object`, `row_too_long`, `damaged`.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import stat
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import AssayError

MAX_ROW_BYTES = 64 << 20
MAX_LIST_BYTES = 512 << 20
"""A JSON list is read as a whole, so it may not be larger."""
_BATCH = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A row: its number from 1, and what it holds, or why it holds nothing."""

    number: int
    values: dict[str, Any] | None
    reason: str = ""
    detail: str = ""


class BadRow(Exception):
    """A row that cannot be used: a reason code and what exactly is wrong."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


def read(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a file, of Parquet those of `columns` that are there.

    Raises:
        AssayError: the file is missing, no regular file, empty, not readable, of another kind, or a
            Parquet file without any of the columns.
    """
    name = path.name.removesuffix(".gz")
    kinds = (".parquet", ".jsonl", ".json", ".ndjson")
    if not name.endswith(kinds) or path.name.endswith(".parquet.gz"):
        raise AssayError(f"{path}: ends in none of {', '.join(kinds)}, so it is not known how to read it")
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise AssayError(f"{path}: is a folder; give files, such as {path}/*.parquet")
        if not stat.S_ISREG(found.st_mode):
            raise AssayError(f"{path}: is a pipe or a device; give a regular file")
        if not found.st_size:
            raise AssayError(f"{path}: is empty")
        yield from _parquet(path, columns) if name.endswith(".parquet") else _json(path)
    except FileNotFoundError:
        raise AssayError(f"{path}: no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise AssayError(f"{path}: cannot be read ({error})") from None


def count(paths: Sequence[Path], limit: int | None = None) -> int | None:
    """About how many rows files hold, of each at most `limit`, for telling how far one is; None where that
    cannot be told without reading a list as a whole, or a file cannot be read (which `read` explains)."""
    total = 0
    for path in paths:
        try:
            if path.name.endswith(".parquet"):
                rows = pq.read_metadata(path).num_rows
            else:
                with _opened(path) as handle:
                    if handle.read(1 << 12).lstrip().startswith(b"["):
                        return None
                    handle.seek(0)
                    rows = sum(block.count(b"\n") for block in iter(lambda: handle.read(1 << 20), b""))
        except (OSError, EOFError, zlib.error, pa.ArrowException):
            return None
        total += rows if limit is None else min(rows, limit)
    return total


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise AssayError(f"{path}: cannot be read as Parquet ({_short(error)})") from None
    with file:
        there = file.schema_arrow.names
        wanted = [name for name in dict.fromkeys(columns) if there.count(name) == 1]
        if not wanted:
            raise AssayError(f"{path}: has none of the columns {', '.join(columns)}")
        number = 0
        try:
            for batch in file.iter_batches(batch_size=_BATCH, columns=wanted):
                for values in _rows(batch):
                    number += 1
                    if values is None:
                        yield Row(number, None, "damaged", "its text is not UTF-8")
                    else:
                        yield Row(number, values)
        except (OSError, pa.ArrowException) as error:
            raise AssayError(f"{path}: damaged after row {number} ({_short(error)})") from None


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | None]:
    try:
        yield from batch.to_pylist()
    except (UnicodeDecodeError, ValueError, OverflowError):
        # One value that Python has no object for; the others are taken one by one.
        for at in range(batch.num_rows):
            try:
                yield batch.slice(at, 1).to_pylist()[0]
            except (UnicodeDecodeError, ValueError, OverflowError):
                yield None


def _json(path: Path) -> Iterator[Row]:
    with _opened(path) as handle:
        head = handle.read(1 << 12).lstrip()
        handle.seek(0)
        if head.startswith(b"["):
            yield from _list(path, handle)
            return
        number = 0
        while line := handle.readline(MAX_ROW_BYTES + 1):
            number += 1
            if len(line) > MAX_ROW_BYTES:
                while line and not line.endswith(b"\n"):
                    line = handle.readline(1 << 20)
                yield Row(number, None, "row_too_long", f"more than {MAX_ROW_BYTES} bytes")
            elif line.strip():
                yield _parsed(number, line)


def _list(path: Path, handle: IO[bytes]) -> Iterator[Row]:
    text = handle.read(MAX_LIST_BYTES + 1)
    if len(text) > MAX_LIST_BYTES:
        raise AssayError(f"{path}: a JSON list of more than {MAX_LIST_BYTES >> 20} MB; give JSON lines")
    try:
        rows = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise AssayError(f"{path}: not valid JSON ({_short(error)})") from None
    del text
    for number, values in enumerate(rows, 1):
        yield _checked(number, values)


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")  # type: ignore[return-value]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _parsed(number: int, line: bytes) -> Row:
    try:
        values = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return Row(number, None, "bad_json", _short(error))
    return _checked(number, values)


def _checked(number: int, values: Any) -> Row:
    if isinstance(values, dict):
        return Row(number, values)
    return Row(number, None, "not_an_object", f"a {type(values).__name__}")


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def text_of(values: dict[str, Any], names: Sequence[str], *, empty: bool = False) -> str | None:
    """The first of some fields that is there and not null, as text; None when there is none.

    Raises:
        BadRow: `wrong_type` for what is no text, `bad_text` for text that is not valid Unicode, `empty`.
    """
    for name in names:
        value = values.get(name)
        if value is None:
            continue
        return checked_text(value, name, empty=empty)
    return None


def checked_text(value: Any, name: str, *, empty: bool = False) -> str:
    """Text that can be stored and tokenised.

    Raises:
        BadRow: see `text_of`.
    """
    if not isinstance(value, str):
        raise BadRow("wrong_type", f"{name} is a {type(value).__name__}, not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRow("bad_text", f"{name} holds half of a surrogate pair") from None
    if not empty and not value.strip():
        raise BadRow("empty", f"{name} has no text")
    return value


def name_text(values: dict[str, Any], names: Sequence[str]) -> str | None:
    """Like `text_of`, for ids and names: whole numbers are taken too, and empty text is none."""
    for name in names:
        value = values.get(name)
        if value is None or value == "":
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return checked_text(value, name, empty=True)[:200]
    return None


def number_of(values: dict[str, Any], names: Sequence[str]) -> float | None:
    """The first of some fields that is there, as a finite number; None when there is none.

    Raises:
        BadRow: `wrong_type` for what is no finite number.
    """
    for name in names:
        value = values.get(name)
        if value is None:
            continue
        # Half of the largest double, so that differences stay finite.
        if not isinstance(value, int | float) or not abs(value) < 1e307:
            raise BadRow("wrong_type", f"{name} is {str(value)[:40]!r}, not a finite number")
        return float(value)
    return None
