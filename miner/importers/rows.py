"""The rows of a file: lines, the items of a JSON list, or a Parquet table, as JSON of one object each.

A row comes with its number from 1 and the place from which reading can go on at it: a byte of the file,
or a row group of a table. Only one row, or one small batch of a table, is held at a time. What a row's
own fault is, is a `BadRow` in its place; a file that is missing or damaged is an `AssayError`.
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from miner.importers.fields import BadRow
from miner.importers.lines import numbered_lines, open_source, require_file
from schemas.errors import AssayError

Numbered = tuple[int, int, bytes | BadRow]
"""Number of a row, where it stands, and it."""

Rows = Callable[[Path, int, int, int], Iterator[Numbered]]
"""The rows of a file: its path, the bytes of the longest row, the first row's number and its place."""

UNREAD = ("incorrect_solutions", "untranslated_description", "trials")
"""Columns of published tables that no importer reads and that take most of the table."""

_BLOCK = 1 << 20
_BATCH_ROWS = 16
_MARK = re.compile(rb'["{}\[\],]')
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


def too_long(max_bytes: int) -> BadRow:
    """What is wrong with a row that takes more than that."""
    return BadRow("line_too_long", f"more than {max_bytes} bytes")


def source_rows(
    path: Path, max_bytes: int, first: int = 1, place: int = 0, classes: Sequence[str] = ()
) -> Iterator[Numbered]:
    """The rows of a file, by the ending of its name, from row `first` on, which stands at `place`.

    In a table that names the classes of a column of `classes`, their names stand in place of their numbers.

    Raises:
        AssayError: it is missing, not readable, empty or damaged.
    """
    name = path.name.lower()
    if name.endswith(".parquet"):
        return _table_rows(path, max_bytes, first, place, classes)
    if name.endswith((".json", ".json.gz")) and _opens_list(path):
        return _listed_rows(path, max_bytes, first, place)
    return _line_rows(path, max_bytes, first, place)


def row_word(path: Path) -> str:
    """What a row of the file is called."""
    return "line" if path.name.lower().endswith((".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")) else "row"


def _line_rows(path: Path, max_bytes: int, first: int, place: int) -> Iterator[Numbered]:
    for number, at, line in numbered_lines(path, max_bytes, first, place):
        yield number, at, too_long(max_bytes) if line is None else line


def _opens_list(path: Path) -> bool:
    with open_source(path) as handle:
        try:
            start = handle.read(4096)
        except (OSError, EOFError, zlib.error) as error:
            raise AssayError(f"{path}: damaged ({error}); get the file again") from None
    return start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def _listed_rows(path: Path, max_bytes: int, first: int, place: int) -> Iterator[Numbered]:
    """Items of the list that a file holds. Only brackets, commas and quotes are looked at here."""
    number = first
    with open_source(path) as handle:
        try:
            handle.seek(place)
            for at, item in _items(handle, place, max_bytes):
                yield number, at, too_long(max_bytes) if item is None else item
                number += 1
        except (OSError, EOFError, zlib.error) as error:
            raise AssayError(
                f"{path}: damaged after row {number - 1} ({error}); get the file again"
            ) from None


def _items(handle: Any, place: int, max_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    """(place, item) of a list; None for an item that is too long. `place` 0 is before the list opens.

    Raises:
        EOFError: the list does not end.
    """
    held, length = bytearray(), 0
    depth = -1 if place == 0 else 0
    quoted = escaped = False
    base = begin = place
    while chunk := handle.read(_BLOCK):
        at = taken = 0
        while at < len(chunk):
            if escaped:
                escaped, at = False, at + 1
                continue
            if quoted:
                inside = _IN_STRING.match(chunk, at)
                at = inside.end() if inside else at
                if at < len(chunk):  # at the quote that ends it, or at a backslash that ends the block
                    quoted = escaped = chunk[at] != ord('"')
                    at += 1
                continue
            found = _MARK.search(chunk, at)
            if found is None:
                break
            mark, at = found[0], found.end()
            if mark == b'"':
                quoted = True
            elif mark in b"{[":
                depth += 1
                if depth == 0:
                    taken, begin = at, base + at
            elif mark in b"}]" and depth > 0:
                depth -= 1
            elif depth == 0:
                length += found.start() - taken
                held += chunk[taken : found.start()][: max(0, max_bytes + 1 - len(held))]
                item = bytes(held).strip()
                if length > max_bytes:
                    yield begin, None
                elif item:
                    yield begin, item
                if mark != b",":
                    return
                held, length, taken, begin = bytearray(), 0, at, base + at
        if depth >= 0:
            length += len(chunk) - taken
            held += chunk[taken:][: max(0, max_bytes + 1 - len(held))]
        base += len(chunk)
    raise EOFError("the list does not end")


def _table_rows(
    path: Path, max_bytes: int, first: int, place: int, classes: Sequence[str]
) -> Iterator[Numbered]:
    """Rows of a Parquet file; a place is a row group, the smallest thing that can be read by itself."""
    number = 0
    try:
        require_file(path)
        if path.is_dir():
            raise AssayError(f"{path}: is a folder; give a file")
        with pq.ParquetFile(path) as file:
            names = [name for name in file.schema_arrow.names if name not in UNREAD]
            groups = [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]
            known = _told_classes(file.schema_arrow.metadata, classes) if classes else {}
            number = sum(groups[:place])
            for group in range(place, len(groups)):
                batches = file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=names, use_threads=False)
                for batch in batches:
                    for at in range(batch.num_rows):
                        number += 1
                        if number >= first:
                            yield number, group, _table_row(batch.slice(at, 1), max_bytes, known)
    except FileNotFoundError:
        raise AssayError(f"{path}: no such file; give a .parquet file") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        why = " ".join(str(error).split())[:200]
        raise AssayError(f"{path}: damaged after row {number} ({why}); get the file again") from None


def _told_classes(metadata: Mapping[bytes, bytes] | None, columns: Sequence[str]) -> dict[str, list[str]]:
    """Column -> names of its classes, from what `datasets` writes into a table's schema."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}
    if not isinstance(features, dict):
        return {}
    return {column: names for column in columns if (names := class_names(features.get(column)))}


def class_names(feature: Any) -> list[str]:
    """Names of the classes of a column, from how `datasets` describes it; none where it has none."""
    names = feature.get("names") if isinstance(feature, dict) else None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def name_classes(row: dict[str, Any], known: Mapping[str, Sequence[str]]) -> None:
    """Put names of classes in place of their numbers. What is no number of one stays, and -1 means none."""
    for column, names in known.items():
        value = row.get(column)
        if type(value) is int and -1 <= value < len(names):
            row[column] = None if value == -1 else names[value]


def _table_row(row: Any, max_bytes: int, known: Mapping[str, Sequence[str]]) -> bytes | BadRow:
    if row.nbytes > max_bytes:
        return too_long(max_bytes)
    try:
        values = row.to_pylist()[0]
        name_classes(values, known)
        text = object_line(values)
    except BadRow as bad:
        return bad
    except (ValueError, RecursionError, pa.ArrowException) as error:
        return BadRow("bad_json", f"not a row that can be read: {type(error).__name__}")
    return too_long(max_bytes) if len(text) > max_bytes else text


def object_line(row: dict[str, Any]) -> bytes:
    """A row of a table or of a dataset as JSON. What is neither text, number nor date becomes null.

    Raises:
        BadRow: it cannot be written as JSON.
    """
    try:
        return json.dumps(row, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRow("bad_json", f"not a row that can be read: {type(error).__name__}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.date):
        return value.isoformat()
    return float(value) if isinstance(value, decimal.Decimal) else None
