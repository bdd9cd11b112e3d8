"""Criteria as data: read, check and match them.

`load` reads what a setting names: files of one's own, the built-in criteria, shipped examples, or several of
these. A malformed file is an `AssayError` that names the file, the criterion and the key.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from schemas.config import from_mapping, parse_toml, read_toml
from schemas.errors import AssayError

BUILT_IN = "built-in"
"""Name of the five criteria that are used where none are named."""

ABOUT = ("tests", "comments")
"""Kinds of edits that a criterion can be about."""

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_MAX_NAME = 200

_EXAMPLES = resources.files(__package__).joinpath("examples")


@dataclasses.dataclass(frozen=True)
class Criterion:
    """One criterion.

    Attributes:
        code: short code, unique in the file: a letter, then letters, digits, `_` and `-`, 32 at most. Models
            are asked for answers that have it as a key.
        name: spelled out; the `aspect` of a pair.
        question: what a judge is asked.
        points: what to compare, best first.
        strong, weak: message terms that speak for it.
        added, removed: terms in lines that only the new or only the old file has.
        against: message terms that speak against it.
        about: kinds of edits that are its subject, `tests` or `comments`; for other criteria they are beside
            the code, and speak against it.
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
    about: tuple[str, ...] = ()


def _read(text: str, where: str) -> tuple[Criterion, ...]:
    data = parse_toml(text, where)
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
    _no_doubles(found, where)
    return tuple(found)


def _no_doubles(found: Sequence[Criterion], where: str) -> None:
    codes = Counter(criterion.code for criterion in found)
    if doubled := sorted(code for code in codes if codes[code] > 1):
        raise AssayError(f"{where}: code {doubled[0]!r} stands twice")
    names = Counter(criterion.name for criterion in found)
    if doubled := sorted(name for name in names if names[name] > 1):
        raise AssayError(f"{where}: name {doubled[0]!r} stands twice; it tells pairs apart")


def _checked(criterion: Criterion, place: str) -> Criterion:
    for key in ("code", "name", "question", "points"):
        value = getattr(criterion, key)
        if not value or not all(part.strip() for part in ([value] if isinstance(value, str) else value)):
            raise AssayError(f"{place}: {key!r} is empty")
        parts = [value] if isinstance(value, str) else value
        if not all(letter.isprintable() or letter.isspace() for part in parts for letter in part):
            raise AssayError(f"{place}: {key!r} holds characters that cannot be shown")
    if not _CODE.fullmatch(criterion.code):
        raise AssayError(
            f"{place}: the code {criterion.code[:40]!r} must be a letter and then letters, digits, _ or -, "
            "32 characters at most"
        )
    if len(criterion.name) > _MAX_NAME or not criterion.name.isprintable():
        raise AssayError(f"{place}: 'name' must be one line of {_MAX_NAME} characters at most")
    for key in ("strong", "weak", "added", "removed", "against"):
        for term in getattr(criterion, key):
            if not term.removesuffix("*").strip():
                raise AssayError(f"{place}: {term!r} in {key!r} would match any text")
    for kind in criterion.about:
        if kind not in ABOUT:
            raise AssayError(f"{place}: 'about' holds {kind!r}; it can hold {' and '.join(ABOUT)}")
    return criterion


def examples() -> tuple[str, ...]:
    """Names of the shipped examples of criteria."""
    found = (one.name for one in _EXAMPLES.iterdir() if one.name.endswith(".toml"))
    return tuple(sorted(name.removesuffix(".toml") for name in found))


@functools.lru_cache(maxsize=8)
def load(named: str = "") -> tuple[Criterion, ...]:
    """The criteria that a setting names: one of the following, or several with commas between, in order.

    A path of a TOML file; `built-in`, which an empty setting means too; the name of an example, such as
    `error-handling`; `examples` for all of these. A path that has a comma itself is taken as one where such
    a file is there.

    Raises:
        AssayError: a file cannot be read or does not hold criteria, or two have a code or name in common.
    """
    parts = [part.strip() for part in named.split(",")]
    if not named.strip() or _is_file(named):
        parts = [named]
    elif not all(parts):
        raise AssayError(f"criteria {named!r}: a name is missing between two commas")
    found = [criterion for part in parts for criterion in _named(part)]
    _no_doubles(found, f"criteria {named!r}" if len(parts) > 1 else parts[0])
    return tuple(found)


def _is_file(named: str) -> bool:
    try:
        return Path(named).is_file()
    except (OSError, ValueError):
        return False


def _named(name: str) -> tuple[Criterion, ...]:
    if name in ("", BUILT_IN):
        return _read(
            resources.files(__package__).joinpath("criteria.toml").read_text("utf-8"), "built-in criteria"
        )
    known = examples()
    if name == "examples":
        return tuple(criterion for one in known for criterion in _named(one))
    if name in known:
        return _read(_EXAMPLES.joinpath(f"{name}.toml").read_text("utf-8"), f"example {name}")
    # A path has a folder or an ending; what has neither was meant for a name.
    if not any(mark in name for mark in "/\\.") and not _is_file(name):
        names = ", ".join((BUILT_IN, "examples", *known))
        raise AssayError(f"{name}: no such criteria; give a TOML file, or one of {names}")
    return _read(read_toml(Path(name), "criteria file"), name)


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
