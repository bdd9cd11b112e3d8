"""Files of one JSON object a line, plain or gzipped, read without trust.

A file is planned in one pass that looks at every line (digests for task keys, copies of earlier rows)
and is cut into units of a fixed number of rows. Blank lines are no rows. No more of a line is held
than the limit; a longer one is a row that is dropped.

Errors that concern a whole file are `AssayError`: missing, unreadable, damaged gzip, empty, or without
any row that is good. What concerns one row is a `Drop` that names the line and the field.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from miner.config import ImportConfig
from miner.importers.fields import BadRow, Row, parse_object
from schemas.errors import AssayError
from schemas.ids import content_id, digest_json
from schemas.stage import Drop, Keep, Outcome, Unit

_BLOCK = 1 << 20


def shown(name: str) -> str:
    """A file's name as text that can be stored: bytes that are not UTF-8 are replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def require_file(path: Path) -> None:
    """Refuse what is no regular file: a pipe can hang, is gone after one reading, and a device never ends.

    Raises:
        AssayError: it is a pipe, a socket or a device.
        OSError: it is missing or cannot be looked at.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise AssayError(f"{path}: is a pipe or a device, which cannot be read twice; give a regular file")


def open_source(path: Path) -> IO[bytes]:
    """Open a source file for reading, gunzipped when its name ends in .gz.

    Raises:
        AssayError: it is missing, a folder, a pipe, not readable or empty.
    """
    try:
        require_file(path)
        if path.is_dir():
            raise AssayError(f"{path}: is a folder; give a file")
        if path.stat().st_size == 0:
            raise AssayError(f"{path}: is empty; give a file with one JSON object a line")
        if path.name.endswith(".gz"):
            return cast("IO[bytes]", gzip.open(path, "rb"))
        return path.open("rb")
    except FileNotFoundError:
        raise AssayError(f"{path}: no such file; give a file with one JSON object a line") from None
    except (OSError, ValueError) as error:
        raise AssayError(f"{path}: cannot be read ({error})") from None


def numbered_lines(
    path: Path, max_bytes: int, first: int = 1, offset: int = 0
) -> Iterator[tuple[int, int, bytes | None]]:
    """Every line that is not blank: its number from 1, the byte it starts at, and it without its end, or
    None when it is too long. Reading starts at line `first`, which starts at byte `offset`.

    Raises:
        AssayError: see `open_source`; or the file is damaged.
    """
    with open_source(path) as handle:
        number, at = first - 1, offset
        try:
            handle.seek(offset)
            while line := handle.readline(max_bytes + 2):
                number, start, at = number + 1, at, at + len(line)
                if len(line.rstrip(b"\r\n")) > max_bytes:
                    while line and not line.endswith(b"\n"):
                        line = handle.readline(_BLOCK)
                        at += len(line)
                    yield number, start, None
                elif bare := line.strip():
                    yield number, start, bare
        except (OSError, EOFError, zlib.error) as error:
            raise AssayError(f"{path}: damaged after line {number} ({error}); get the file again") from None


def file_slug(path: Path) -> str:
    """A file's name without its extensions, as a part's name."""
    stem = re.sub(r"\.(?:jsonl|json|ndjson|traj)(?:\.json)?(?:\.gz)?$", "", path.name)
    return re.sub(r"[^A-Za-z0-9._]+", "-", stem).strip("-.")[:60] or "file"


def unique_slugs(files: Sequence[Path]) -> list[str]:
    """A slug a file; files of the same name in different folders get a number in the order given.

    Raises:
        AssayError: a file is given twice.
    """
    seen: set[Path] = set()
    slugs: list[str] = []
    for path in files:
        if path.resolve() in seen:
            raise AssayError(f"{path}: given twice; give each file once")
        seen.add(path.resolve())
        slug, number = file_slug(path), 2
        while slug in slugs:
            slug, number = f"{file_slug(path)}-{number}", number + 1
        slugs.append(slug)
    return slugs


def too_long(config: ImportConfig) -> BadRow:
    """What is wrong with a row of more than `max_row_bytes`."""
    return BadRow("line_too_long", f"more than {config.max_row_bytes} bytes")


class _Cutter:
    """Collects the rows of a file and cuts them into units."""

    def __init__(self, config: ImportConfig, path: Path, slug: str) -> None:
        self.config, self.path, self.slug = config, path, slug
        self.units: list[Unit] = []
        self.rows = 0
        self._lines: list[tuple[int, str]] = []
        self._offset = 0
        self._duplicates: dict[str, int] = {}
        self._seen: dict[str, int] = {}

    def add(self, number: int, offset: int, digest: str, key: str | None) -> None:
        """Count a row that starts at a byte. `key` is what makes it a copy of an earlier one; None for a
        row that is bad."""
        if key is not None and self._seen.setdefault(key, number) != number:
            self._duplicates[str(number)] = self._seen[key]
        if not self._lines:
            self._offset = offset
        self._lines.append((number, digest))
        self.rows += 1
        if len(self._lines) == self.config.rows_per_part:
            self.close()

    def close(self) -> None:
        """Make a unit of the rows since the last one."""
        if not self._lines:
            return
        first = self._lines[0][0]
        payload: dict[str, Any] = {
            "file": str(self.path.absolute()),
            "first_line": first,
            "offset": self._offset,
            "duplicates": self._duplicates,
        }
        facts = {"lines": self._lines, "duplicates": self._duplicates, "source": self.path.name}
        name = f"{self.slug}-{len(self.units):05d}"
        self.units.append(Unit(name, len(self._lines), payload, {"rows": digest_json(facts)}))
        self._lines, self._duplicates = [], {}


def plan_file(
    config: ImportConfig,
    path: Path,
    slug: str,
    examine: Callable[[Row], str | None],
    limit: int | None = None,
) -> list[Unit]:
    """Cut a file into units of `rows_per_part` rows; `limit` bounds them.

    `examine` raises `BadRow` for a bad row and otherwise tells what the row is known by, so that later
    rows known by the same are duplicates. When it tells None, rows are known by their bytes, and only
    as many are examined as it takes to find a good one.

    A unit's inputs are its rows' bytes, where they stand and which are duplicates, so a file that
    grows leaves its full units as they are.

    Raises:
        AssayError: see `numbered_lines`; or no row is good.
    """
    cutter = _Cutter(config, path, slug)
    problem: str | None = None
    good, by_bytes = False, False
    for number, offset, line in numbered_lines(path, config.max_row_bytes):
        full = limit is not None and cutter.rows >= limit
        if full and good:
            break
        digest = "too long" if line is None else content_id(line)
        key: str | None = digest
        if not (good and by_bytes):
            try:
                if line is None:
                    raise too_long(config)
                known_by = examine(parse_object(line))
                good, by_bytes = True, known_by is None
                key = digest if known_by is None else known_by
            except BadRow as bad:
                key, problem = None, problem or f"line {number}: {bad.detail}"
        if not full:
            cutter.add(number, offset, digest, key)
    cutter.close()
    if not good:
        why = problem or "it has only blank lines"
        raise AssayError(f"{path}: no row can be imported ({why}); give a file of the expected format")
    return cutter.units


def import_unit(config: ImportConfig, unit: Unit, parse: Callable[[Row, str], Any]) -> Iterator[Outcome]:
    """One outcome for every row of a unit that `plan_file` made; `parse` takes a row and the file's name.

    Raises:
        AssayError: the file cannot be read, or is shorter than when it was planned.
    """
    path, first = Path(unit.payload["file"]), unit.payload["first_line"]
    duplicates: dict[str, int] = unit.payload["duplicates"]
    left = unit.rows
    # Units are many and files are large: none reads what stands before it.
    for number, _, line in numbered_lines(path, config.max_row_bytes, first, unit.payload["offset"]):
        if left == 0:
            return
        left -= 1
        try:
            if line is None:
                raise too_long(config)
            record = parse(parse_object(line), shown(path.name))
            if str(number) in duplicates:
                raise BadRow("duplicate", f"the same as line {duplicates[str(number)]}")
            yield Keep((record,))
        except BadRow as bad:
            yield Drop(f"{shown(path.name)}:{number}", bad.reason, f"line {number}: {bad.detail}")
    if left:
        raise AssayError(f"{path}: shorter than when it was planned; run the stage again")
