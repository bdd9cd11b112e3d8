"""What somebody knows of repositories: stars, issues and forks, from a file that is not ours.

In: a JSONL, CSV, TSV or Parquet file with one row a repository, under the field names of common dumps and
of the forges' own answers. Out: what it says about the repositories that are asked for, so that a list of
millions costs no memory. A row that cannot be used is counted and costs no other; what a row does not
tell stays unknown. `AssayError` when there is no such file or it is of another kind.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from schemas.errors import AssayError

MAX_LINE = 1 << 20
"""Bytes of a JSONL line or characters of a CSV field; a longer one is a bad row."""

_MAX_COUNT = 1 << 40
_MAX_NAME = 300

_REPO = (
    "repo",
    "full_name",
    "repo_name",
    "repository",
    "path_with_namespace",
    "nameWithOwner",
    "name_with_owner",
)
_URL = ("url", "html_url", "clone_url", "web_url", "repo_url", "repository_url", "http_url_to_repo")
_STARS = (
    "stars",
    "stargazers_count",
    "stars_count",
    "star_count",
    "stargazers",
    "stargazer_count",
)
_ISSUES = ("issues", "total_issues", "issues_count", "issue_count", "num_issues")
_OPEN, _CLOSED = ("open_issues", "issues_open"), ("closed_issues", "issues_closed")
_FORK = ("fork_of", "forked_from", "parent", "parent_full_name", "forked_from_project")
_FIELDS = (*_REPO, *_URL, *_STARS, *_ISSUES, *_OPEN, *_CLOSED, *_FORK)

_NAME = re.compile(r"[^\s/:@?#]{1,100}(?:/[^\s/:@?#]{1,100}){1,8}")
_PLACE = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,20}://)?(?:[^\s/@]{0,200}@)?(?P<host>[^\s/:@]{1,200})(?::\d{1,5})?[:/]+"
    r"(?P<path>[^\s?#]{1,300})",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class Known:
    """What is known of a repository; None where it is not."""

    stars: int | None = None
    issues: int | None = None
    fork_of: str | None = None

    def is_full(self) -> bool:
        """Whether stars and issues are both known."""
        return self.stars is not None and self.issues is not None


@dataclasses.dataclass(frozen=True)
class Metadata:
    """What a file says.

    Attributes:
        name: the file's own name.
        rows: (host or empty, `owner/name`), both in lower case -> what it says.
        bad: rows that could not be used.
    """

    name: str
    rows: dict[tuple[str, str], Known]
    bad: int

    def find(self, name: str, url: str | None) -> Known | None:
        """What it says about a repository. A row that names another host speaks of another one."""
        host, path = place_of(url) if url else ("", "")
        for wanted in dict.fromkeys((path, name.casefold())):
            found = self.rows.get((host, wanted)) or self.rows.get(("", wanted))
            if found is None and not host:
                told = [known for (_, path), known in self.rows.items() if path == wanted]
                found = told[0] if len(told) == 1 else None
            if wanted and found is not None:
                return found
        return None


def place_of(url: str) -> tuple[str, str]:
    """Host and `owner/name` that a URL or the short form of ssh names, in lower case; empty when none."""
    if not (match := _PLACE.fullmatch(url.strip())):
        return "", ""
    path = match["path"].strip("/").removesuffix(".git").casefold()
    return match["host"].casefold().removeprefix("www."), path


def place_of_name(text: str) -> tuple[str, str]:
    """As `place_of`, for a text that may also be a bare `owner/name`."""
    text = text.strip()
    first = text.partition("/")[0]
    if "://" in text or ":" in first or ("." in first and text.count("/") >= 2):
        return place_of(text)
    return ("", text.casefold()) if _NAME.fullmatch(text) else ("", "")


class _BadRow(Exception):
    """A row cannot be used."""


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _count(value: Any) -> int | None:
    """A number of stars or issues."""
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,15}(?:\.0)?\s*", value):
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or not 0 <= value < _MAX_COUNT:
        raise _BadRow(str(value)[:50])
    return value


def _project(value: Any) -> str | None:
    """`owner/name` of the repository that one was forked from."""
    if isinstance(value, Mapping):
        value = _first(value, _REPO)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > _MAX_NAME:
        raise _BadRow
    text = value.strip()
    if place_of_name(text)[0]:
        text = "/".join(text.rstrip("/").removesuffix(".git").split("/")[-2:]).rpartition(":")[2]
    if not _NAME.fullmatch(text):
        raise _BadRow
    return text


def _known(row: Mapping[str, Any]) -> tuple[tuple[str, str], Known]:
    """Which repository a row is about, and what it says.

    Raises:
        _BadRow: it names none, or a field holds something else.
    """
    place = ("", "")
    for name in (*_URL, *_REPO):
        value = row.get(name)
        if isinstance(value, str) and 0 < len(value) <= _MAX_NAME and not place[1]:
            place = place_of_name(value)
    if not place[1]:
        raise _BadRow
    issues = _count(_first(row, _ISSUES))
    told_open, told_closed = _count(_first(row, _OPEN)), _count(_first(row, _CLOSED))
    if issues is None and told_open is not None and told_closed is not None:
        issues = told_open + told_closed
    return place, Known(_count(_first(row, _STARS)), issues, _project(_first(row, _FORK)))


def _jsonl(path: Path) -> Iterator[Any]:
    with path.open("rb") as handle:
        while line := handle.readline(MAX_LINE + 1):
            if len(line) > MAX_LINE:
                while line and not line.endswith(b"\n"):
                    line = handle.readline(MAX_LINE)
                yield None
            elif line.strip():
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError):
                    yield None


def _csv(path: Path, delimiter: str) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as handle:
        reader = csv.reader(handle, delimiter=delimiter)
        names: list[str] | None = None
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error:
                yield None
                continue
            if names is None:
                names = [name.strip() for name in row]
            elif row:
                yield dict(zip(names, row, strict=False)) if len(row) == len(names) else None


def _parquet(path: Path) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            columns = [name for name in file.schema_arrow.names if name in _FIELDS]
            for batch in file.iter_batches(batch_size=2_000, columns=columns):
                yield from batch.to_pylist()
    except pa.ArrowException as error:
        raise AssayError(f"{path}: cannot be read as Parquet ({error})") from None


_READERS: dict[str, Callable[[Path], Iterator[Any]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".csv": functools.partial(_csv, delimiter=","),
    ".tsv": functools.partial(_csv, delimiter="\t"),
    ".parquet": _parquet,
}


@functools.lru_cache(maxsize=8)
def _read(path: Path, _stamp: tuple[int, int], names: frozenset[str]) -> Metadata:
    rows: dict[tuple[str, str], Known] = {}
    bad = 0
    for row in _READERS[path.suffix.lower()](path):
        try:
            if not isinstance(row, Mapping):
                raise _BadRow
            place, known = _known(row)
            if place[1] in names and rows.setdefault(place, known) != known:
                raise _BadRow
        except (_BadRow, OverflowError):
            bad += 1
    return Metadata(path.name, rows, bad)


def read_metadata(path: Path, names: Collection[str]) -> Metadata:
    """What a file says about the repositories of some names (`owner/name`, in any case).

    Of two rows about one repository that disagree the first counts and the second is bad. GitHub's
    `open_issues_count` is no number of issues: it leaves out closed ones and counts pull requests.

    Raises:
        AssayError: there is no such file, it cannot be read, or its name ends in nothing known.
    """
    if path.suffix.lower() not in _READERS:
        raise AssayError(f"{path}: not a kind of file that is read here; give {', '.join(sorted(_READERS))}")
    try:
        told = path.stat()
        if not path.is_file():
            raise AssayError(f"{path}: not a file; give the file with metadata of repositories")
        return _read(path, (told.st_mtime_ns, told.st_size), frozenset(name.casefold() for name in names))
    except OSError as error:
        raise AssayError(f"{path}: cannot be read ({error.strerror or error})") from None
