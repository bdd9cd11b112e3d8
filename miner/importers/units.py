"""Files of rows, cut into units of work.

A file is planned in one pass that looks at every row (digests for task keys, copies of earlier rows)
and is cut into units of a fixed number of rows. What concerns a whole file is an `AssayError`: it
cannot be read, or no row of it is good. What concerns one row is a `Drop` that names the row and the
field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from miner.importers.fields import BadRow, Row, parse_object
from miner.importers.lines import shown
from miner.importers.rows import Rows, row_word, source_rows
from schemas.errors import AssayError
from schemas.ids import content_id, digest_json
from schemas.stage import Drop, Keep, Outcome, Unit


class Bounds(Protocol):
    """The settings that cut a file into units."""

    @property
    def rows_per_part(self) -> int:
        """Rows of a unit."""

    @property
    def max_row_bytes(self) -> int:
        """Bytes of the longest row that is read."""


Seen = dict[str, tuple[str, str, int]]
"""What rows are known by -> slug and name of the file, and number, of the first one."""


def file_slug(name: str) -> str:
    """A file's or dataset's name without extensions, as a part's name."""
    stem = re.sub(r"\.(?:jsonl|json|ndjson|traj|parquet)(?:\.json)?(?:\.gz)?$", "", name)
    return re.sub(r"[^A-Za-z0-9._]+", "-", stem).strip("-.")[:60] or "file"


def unique_slugs(names: Sequence[str]) -> list[str]:
    """A slug a name; a name that is there already gets a number, in the order given."""
    slugs: list[str] = []
    for name in names:
        slug, number = file_slug(name), 2
        while slug in slugs:
            slug, number = f"{file_slug(name)}-{number}", number + 1
        slugs.append(slug)
    return slugs


def refuse_twice(files: Sequence[Path]) -> None:
    """Refuse a file that is given twice, by whatever names.

    Raises:
        AssayError: one is.
    """
    seen: set[Path] = set()
    for path in files:
        if path.resolve() in seen:
            raise AssayError(f"{path}: given twice; give each file once")
        seen.add(path.resolve())


class _Cutter:
    """Collects the rows of a file and cuts them into units."""

    def __init__(self, config: Bounds, path: Path, slug: str, source: str, seen: Seen) -> None:
        self.config, self.path, self.slug, self.source, self.seen = config, path, slug, source, seen
        self.word = row_word(path)
        self.units: list[Unit] = []
        self.rows = 0
        self._lines: list[tuple[int, str]] = []
        self._offset = 0
        self._duplicates: dict[str, str] = {}

    def add(self, number: int, offset: int, digest: str, key: str | None) -> None:
        """Count a row that stands somewhere. `key` is what makes it a copy of an earlier one; None for a
        row that is bad."""
        if key is not None:
            slug, source, first = self.seen.setdefault(key, (self.slug, self.source, number))
            if slug != self.slug:
                self._duplicates[str(number)] = f"row {first} of {source}"
            elif first != number:
                self._duplicates[str(number)] = f"{self.word} {first}"
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
            "source": self.source,
            "first_line": first,
            "offset": self._offset,
            "duplicates": self._duplicates,
        }
        facts = {"lines": self._lines, "duplicates": self._duplicates, "source": self.source}
        name = f"{self.slug}-{len(self.units):05d}"
        self.units.append(Unit(name, len(self._lines), payload, {"rows": digest_json(facts)}))
        self._lines, self._duplicates = [], {}


def plan_file(
    config: Bounds,
    path: Path,
    slug: str,
    examine: Callable[[Row], str | None],
    limit: int | None = None,
    source: str | None = None,
    *,
    rows: Rows = source_rows,
    seen: Seen | None = None,
) -> list[Unit]:
    """Cut a file into units of `rows_per_part` rows; `limit` bounds them. Rows are told to come from
    `source`, which is the file's name where it is not given.

    `examine` raises `BadRow` for a bad row and otherwise tells what the row is known by, so that later
    rows known by the same are duplicates. When it tells None, rows are known by their bytes, and only
    as many are examined as it takes to find a good one. `seen` is what earlier files hold, and is added to;
    `rows` reads a file's rows where these are not simply one after the other.

    A unit's inputs are its rows' bytes, where they stand and which are duplicates, so a file that
    grows leaves its full units as they are.

    Raises:
        AssayError: see `source_rows`; or no row is good.
    """
    name = shown(path.name) if source is None else source
    cutter = _Cutter(config, path, slug, name, {} if seen is None else seen)
    word = cutter.word
    problem: str | None = None
    good, by_bytes = False, False
    for number, offset, line in rows(path, config.max_row_bytes, 1, 0):
        full = limit is not None and cutter.rows >= limit
        if full and good:
            break
        digest = line.reason if isinstance(line, BadRow) else content_id(line)
        key: str | None = None if isinstance(line, BadRow) else digest
        if not (good and by_bytes):
            try:
                if isinstance(line, BadRow):
                    raise line
                known_by = examine(parse_object(line))
                good, by_bytes = True, known_by is None
                key = digest if known_by is None else known_by
            except BadRow as bad:
                key, problem = None, problem or f"{word} {number}: {bad.detail}"
        if not full:
            cutter.add(number, offset, digest, key)
    cutter.close()
    if not good:
        why = problem or ("it has only blank lines" if word == "line" else "it has no rows")
        place = path if source is None else name
        raise AssayError(f"{place}: no row can be imported ({why}); give a file of the expected format")
    return cutter.units


def import_unit(
    config: Bounds, unit: Unit, parse: Callable[[Row, str], Sequence[Any]], rows: Rows = source_rows
) -> Iterator[Outcome]:
    """One outcome for every row of a unit that `plan_file` made with the same `rows`; `parse` takes a row and
    its source, and gives the records that are made of it.

    Raises:
        AssayError: the file cannot be read, or is shorter than when it was planned.
    """
    path, first = Path(unit.payload["file"]), unit.payload["first_line"]
    source: str = unit.payload["source"]
    word = row_word(path)
    duplicates: dict[str, str] = unit.payload["duplicates"]
    left = unit.rows
    # Units are many and files are large: none reads what stands before it.
    for number, _, line in rows(path, config.max_row_bytes, first, unit.payload["offset"]):
        if left == 0:
            return
        left -= 1
        try:
            if isinstance(line, BadRow):
                raise line
            records = parse(parse_object(line), source)
            if str(number) in duplicates:
                raise BadRow("duplicate", f"the same as {duplicates[str(number)]}")
            yield Keep(tuple(records))
        except BadRow as bad:
            yield Drop(f"{source}:{number}", bad.reason, f"{word} {number}: {bad.detail}")
    if left:
        raise AssayError(f"{path}: shorter than when it was planned; run the stage again")
