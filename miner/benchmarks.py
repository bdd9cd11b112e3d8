"""Files of benchmarks, read for the texts that training data must not hold.

Parquet, JSON Lines (`.jsonl`, `.ndjson`, also gzipped) and folders of them. A row's texts are its
strings: those of all columns or of named ones, in lists and structs too. Files are streamed: Parquet in
batches, JSON Lines line by line, no more of a line than a limit.

A file that is missing, unreadable, of another format or without any text is an `AssayError` that
names it. A bad row (not JSON, too long, not UTF-8, without text) is told as one, and costs no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from miner.importers.fields import BadRow, parse_object
from miner.importers.lines import numbered_lines, require_file, shown
from schemas.errors import AssayError, EnvironmentFault

_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_PARQUET = ".parquet"
_BATCH_ROWS = 64


def benchmark_files(paths: Sequence[str]) -> list[Path]:
    """The files that paths name; those of a folder, and of folders in it, by name.

    Raises:
        AssayError: a path is missing, of another format, or a folder without such files; or a file is
            given twice.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        try:
            require_file(path)
            if path.is_dir():
                inside = sorted(one for one in path.rglob("*") if one.is_file() and _known(one))
                if not inside:
                    raise AssayError(f"{path}: no benchmark in it; give .parquet, .jsonl or .jsonl.gz files")
                found += inside
                continue
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise AssayError(f"{path}: the benchmark cannot be read ({why}); name an existing file") from None
        if not _known(path):
            raise AssayError(f"{path}: not a known kind of benchmark; give .parquet, .jsonl or .jsonl.gz")
        found.append(path)
    seen: set[Path] = set()
    for path in found:
        if path.resolve() in seen:
            raise AssayError(f"{path}: benchmark given twice; give each file once")
        seen.add(path.resolve())
    return found


def _known(path: Path) -> bool:
    return path.name.lower().endswith((*_LINES, _PARQUET))


def check(path: Path, columns: Sequence[str], max_row_bytes: int) -> None:
    """Look whether a benchmark can be used: its format, its columns, and its first row with text.

    Raises:
        AssayError: it cannot.
    """
    if not any(texts for _, texts in benchmark_rows(path, columns, max_row_bytes)):
        named = f"in {', '.join(columns)} " if columns else ""
        raise AssayError(f"{path}: no row of the benchmark has text {named}to compare with")


def benchmark_rows(
    path: Path, columns: Sequence[str], max_row_bytes: int
) -> Iterator[tuple[int, list[str] | None]]:
    """(number, texts) of each row, None for a bad one; lines and rows are counted from 1.

    Raises:
        AssayError: the file cannot be read (an `EnvironmentFault`: no unit of work could do without it).
    """
    try:
        if path.name.lower().endswith(_PARQUET):
            yield from _parquet_rows(path, columns, max_row_bytes)
        else:
            yield from _line_rows(path, columns, max_row_bytes)
    except EnvironmentFault:
        raise
    except AssayError as error:
        raise EnvironmentFault(str(error)) from None
    except (OSError, pa.ArrowException, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        raise EnvironmentFault(f"{path}: the benchmark cannot be read ({why}); get the file again") from None


def _line_rows(
    path: Path, columns: Sequence[str], max_row_bytes: int
) -> Iterator[tuple[int, list[str] | None]]:
    for number, _, line in numbered_lines(path, max_row_bytes):
        if line is None:
            yield number, None
            continue
        try:
            row = parse_object(line)
        except BadRow:
            yield number, None
            continue
        wanted = [row[name] for name in columns if name in row] if columns else list(row.values())
        yield number, strings(wanted) or None


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _holds_text(kind.value_type)
    if pa.types.is_nested(kind):
        return any(_holds_text(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _parquet_rows(
    path: Path, columns: Sequence[str], max_row_bytes: int
) -> Iterator[tuple[int, list[str] | None]]:
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        names = [
            field.name
            for field in schema
            if _holds_text(field.type) and (not columns or field.name in columns)
        ]
        if not names:
            has = ", ".join(map(shown, schema.names[:20])) or "none"
            wanted = f" {', '.join(columns)}" if columns else ""
            raise AssayError(f"{path}: the benchmark has no column{wanted} of text; its columns: {has}")
        number = 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=names):
            for at in range(batch.num_rows):
                number += 1
                try:
                    texts = strings(list(batch.slice(at, 1).to_pylist()[0].values()))
                except (UnicodeDecodeError, pa.ArrowException):
                    yield number, None
                    continue
                long = sum(map(len, texts)) > max_row_bytes
                yield number, None if long or not texts else texts


def strings(values: Sequence[Any]) -> list[str]:
    """All strings that are not blank in values, lists, structs and mappings, in order."""
    found: list[str] = []
    stack = list(reversed(values))
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            if value.strip():
                found.append(value)
        elif isinstance(value, dict):
            stack.extend(reversed(value.values()))
        elif isinstance(value, list | tuple):
            stack.extend(reversed(value))
    return found
