"""Criteria as data: read, check and match them.

`load` reads a TOML file of criteria (the built-in one when no path is given). A malformed file is an
`AssayError` that names the file, the criterion and the key.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from schemas.config import from_mapping
from schemas.errors import AssayError


@dataclasses.dataclass(frozen=True)
class Criterion:
    """One criterion.

    Attributes:
        code: short code, unique in the file.
        name: spelled out; the `aspect` of a pair.
        question: what a judge is asked.
        points: what to compare, best first.
        strong, weak: message terms that speak for it.
        added, removed: terms in lines that only the new or only the old file has.
        against: message terms that speak against it.
    """

    code: str
    name: str
    question: str
    points: tuple[str, ...]
    strong: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    against: tuple[str, ...] = ()


def _read(text: str, where: str) -> tuple[Criterion, ...]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AssayError(f"{where}: not valid TOML ({error})") from None
    tables: Any = data.pop("criterion", None)
    if data or not isinstance(tables, list) or not tables:
        raise AssayError(f"{where}: expected one or more [[criterion]] tables and nothing else")
    found = []
    for number, table in enumerate(tables, 1):
        place = f"{where}: criterion {number}"
        missing = {"code", "name", "question", "points"} - set(table)
        if missing:
            raise AssayError(f"{place}: lacks {sorted(missing)[0]!r}")
        found.append(_checked(from_mapping(Criterion, table, place), place))
    codes = [criterion.code for criterion in found]
    if doubled := {code for code in codes if codes.count(code) > 1}:
        raise AssayError(f"{where}: code {sorted(doubled)[0]!r} stands twice")
    names = [criterion.name for criterion in found]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise AssayError(f"{where}: name {sorted(doubled)[0]!r} stands twice; it tells pairs apart")
    return tuple(found)


def _checked(criterion: Criterion, place: str) -> Criterion:
    for key in ("code", "name", "question", "points"):
        value = getattr(criterion, key)
        if not value or not all(part.strip() for part in ([value] if isinstance(value, str) else value)):
            raise AssayError(f"{place}: {key!r} is empty")
    for key in ("strong", "weak", "added", "removed", "against"):
        for term in getattr(criterion, key):
            if not term.removesuffix("*").strip():
                raise AssayError(f"{place}: {term!r} in {key!r} would match any text")
    return criterion


@functools.lru_cache(maxsize=8)
def load(path: str = "") -> tuple[Criterion, ...]:
    """The criteria of a file; of the built-in file when `path` is empty.

    Raises:
        AssayError: the file cannot be read or does not hold criteria.
    """
    if not path:
        return _read(
            resources.files(__package__).joinpath("criteria.toml").read_text("utf-8"), "built-in criteria"
        )
    try:
        return _read(Path(path).read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise AssayError(f"{path}: the criteria file cannot be read ({error})") from None


@functools.lru_cache(maxsize=256)
def pattern(terms: Sequence[str]) -> re.Pattern[str] | None:
    """A pattern that finds any of the terms at word boundaries, ignoring case; None without terms.

    A trailing `*` lets the word go on. White space in a term matches any white space.
    """
    if not terms:
        return None
    parts = []
    for term in sorted(terms, key=len, reverse=True):
        stem = term.endswith("*")
        body = r"\s+".join(re.escape(word) for word in term.removesuffix("*").split())
        parts.append(body + (r"\w*" if stem else r"(?!\w)"))
    return re.compile(r"(?<!\w)(?:" + "|".join(parts) + ")", re.IGNORECASE)
