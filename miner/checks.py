"""The rules of the select stage, one function a kind: each says why an edit is dropped, or None.

In: settings and a row of `edits`. Out: `(reason, detail)` with a reason of `miner.reasons.SELECT`, or None;
by content, marks of `miner.reasons.MARKS` too. None of them raises, whatever the row holds.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from decompose.grammars import error_bytes, tree_depth
from miner.changed import Region, changed_text, regions
from miner.config import SelectConfig
from miner.credentials import REACH, find_credential
from miner.nature import is_moved_lines, kind_of_change
from miner.personal import find_personal
from miner.spdx import PERMISSIVE, allowed_by
from miner.spoken import unwanted_language
from miner.syntax import Parsed, Sides
from schemas.tokens import estimate_tokens

Refusal = tuple[str, str | None]

TRUSTED = frozenset({"Python", "JavaScript", "Java", "Go", "PHP"})
"""Languages whose grammar accepts nearly all real code, so that an error which was not there before is one of
the edit. Of 14,176 edits of fifteen projects 38 break a file that parsed. In these languages 13 of 14 were
mistakes in the code (the other used the name `async` when it was free); in others half of them were macros,
attributes and directives that the grammar does not know."""

_SPACE = re.compile(r"\s+")
_TEST_FOLDERS = re.compile(r"(?:^|/)(?:tests?|testing|__tests__|specs?|testdata|fixtures)/", re.IGNORECASE)
_TEST_NAMES = re.compile(
    r"(?:^|/)(?:test_[^/]*|tests?|conftest|[^/]*[._-](?:test|spec)s?|[^/]*(?:Test|Tests|TestCase|Spec))\.\w+$"
)
_CONFLICT = tuple(
    (mark, re.compile(rb"^" + mark + (rb"\r?$" if mark[-1:] == b"=" else rb".*$"), re.MULTILINE))
    for mark in (b"<<<<<<< ", b"=======", b">>>>>>> ")
)
_START_CHARS = 2000


def is_test_file(path: str) -> bool:
    """Whether a path is that of tests or of what they read."""
    return bool(_TEST_FOLDERS.search(path) or _TEST_NAMES.search(path))


def _meaningful_lines(text: str) -> Iterator[tuple[int, str]]:
    """Indentation and text without inner whitespace of each line that is not blank."""
    for line in text.split("\n"):
        if bare := _SPACE.sub("", line):
            expanded = line.expandtabs(8)
            yield len(expanded) - len(expanded.lstrip()), bare


def is_whitespace_only(old: str, new: str, language: str) -> bool:
    """Whether two versions that cannot be parsed differ only in whitespace that means nothing.

    All whitespace counts as nothing, inside literals too, except that Python's indentation is meaning.
    A tab indents to the next multiple of eight columns, as Python reads it.
    """
    if _SPACE.sub("", old) != _SPACE.sub("", new):
        return False
    return language != "Python" or list(_meaningful_lines(old)) == list(_meaningful_lines(new))


@functools.cache
def _wanted_licenses(names: tuple[str, ...]) -> frozenset[str]:
    wanted = frozenset(names) - {"permissive"}
    return wanted | PERMISSIVE if "permissive" in names else wanted


def by_provenance(config: SelectConfig, edit: dict[str, Any]) -> Refusal | None:
    """By who made the edit, how it got in, what became of it, and its licence."""
    if config.drop_bots and edit["bot"]:
        return "bot", None
    if config.drop_reverted and edit["reverted_by"] is not None:
        return "reverted", f"by {edit['reverted_by']}"
    if config.drop_ai_assisted and edit["ai_assisted"] is not None:
        return "ai_assisted", edit["ai_assisted"]
    if config.require_merged and edit["merged_by"] is None:
        return "not_merged", None
    if config.licenses:
        terms = edit["file_license"] or edit["license"]
        if not allowed_by(terms, _wanted_licenses(config.licenses)):
            return "license_not_allowed", terms or "not recognised"
    return None


def by_size(config: SelectConfig, edit: dict[str, Any]) -> Refusal | None:
    """By how large the file is and how much of it changed."""
    larger = max(len(edit["old_contents"]), len(edit["new_contents"]))
    if larger < config.min_file_chars:
        return "too_small", f"{larger} characters"
    if larger > config.max_file_chars:
        return "too_large", f"{larger} characters"
    changed = edit["lines_added"] + edit["lines_removed"]
    if changed > config.max_changed_lines:
        return "too_many_changed_lines", f"{changed} lines"
    if len(edit["hunks"]) > config.max_hunks:
        return "too_many_hunks", f"{len(edit['hunks'])} hunks"
    return None


def by_message(config: SelectConfig, edit: dict[str, Any]) -> Refusal | None:
    """By the language of the message."""
    found = unwanted_language(edit["message"], config.message_languages)
    return None if found is None else ("message_not_english", f"seems to be {found}")


def by_tokens(config: SelectConfig, edit: dict[str, Any]) -> Refusal | None:
    """By the estimated tokens of the longer side."""
    sides = edit["old_contents"], edit["new_contents"]
    # Most files have enough in their first lines, and then nothing more is counted.
    enough = any(estimate_tokens(text[:_START_CHARS]) > config.min_tokens for text in sides)
    if enough and not config.max_tokens:
        return None
    tokens = max(map(estimate_tokens, sides))
    if tokens < config.min_tokens:
        return "too_few_tokens", f"{tokens} tokens"
    if config.max_tokens and tokens > config.max_tokens:
        return "too_many_tokens", f"{tokens} tokens"
    return None


def by_content(
    config: SelectConfig, edit: dict[str, Any], parsed: Parsed
) -> tuple[Refusal | None, list[str]]:
    """By what changed, and what stands in both versions; and marks."""
    old, new = edit["old_contents"], edit["new_contents"]
    if _unix_lines(old) == _unix_lines(new):
        return ("line_ends_only", None), ["line_ends_only"]
    old_data, new_data = old.encode("utf-8", "surrogatepass"), new.encode("utf-8", "surrogatepass")
    places = regions(old_data, edit["hunks"], "old"), regions(new_data, edit["hunks"], "new")
    marks = []
    if is_moved_lines(changed_text(old_data, places[0]), changed_text(new_data, places[1])):
        marks.append("moved_lines")
    if found := _secret(new, old_data, places[0]):
        return ("secret", found), marks
    if found := _personal(old_data, places[0], "old") or _personal(new_data, places[1], "new"):
        marks.append("personal_data")
        if config.drop_personal_data:
            return ("personal_data", found), marks
    if _has_conflict(new_data) and not _has_conflict(old_data):
        return ("conflict_markers", None), marks
    sides = parsed.sides(edit)
    if isinstance(sides, str):
        marks.append("not_parsed")
        if is_whitespace_only(old, new, edit["language"]):
            return ("whitespace_only", None), [*marks, "whitespace_only"]
        return None, marks
    refused, found_marks = _by_syntax(config, sides, *places)
    return refused, marks + found_marks


def _by_syntax(
    config: SelectConfig, sides: Sides, old: Sequence[Region], new: Sequence[Region]
) -> tuple[Refusal | None, list[str]]:
    broken = sides.new.root_node.has_error
    marks = ["syntax_errors"] if broken else []
    for name, tree in (("old", sides.old), ("new", sides.new)):
        if (depth := tree_depth(tree, config.min_syntax_depth)) < config.min_syntax_depth:
            return ("shallow_syntax", f"{depth} levels in the {name} version"), marks
    strict = config.syntax_errors == "all" or (
        config.syntax_errors == "trusted" and sides.language in TRUSTED
    )
    if strict and broken and not sides.old.root_node.has_error:
        return ("does_not_parse", f"{error_bytes(sides.new)} bytes that fit no grammar"), marks
    kind = kind_of_change(sides, old, new)
    if kind is None:
        return None, marks
    dropped = {
        "whitespace_only": True,
        "format_only": config.drop_format_only,
        "comment_only": config.drop_comment_only,
        "docstring_only": config.drop_comment_only,
    }
    return ((kind, None) if dropped.get(kind) else None), [*marks, kind]


def _unix_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _has_conflict(data: bytes) -> bool:
    """Whether whole lines are the three markers that a failed merge leaves, in their order."""
    at = 0
    for mark, pattern in _CONFLICT:
        # Hardly a file holds the first one, and finding it is many times faster than matching.
        if mark not in data:
            return False
        match = pattern.search(data, at)
        if match is None:
            return False
        at = match.end()
    return True


def _secret(new: str, old_data: bytes, removed: Sequence[Region]) -> str | None:
    if found := find_credential(new):
        return f"{found} of the new version"
    # What both versions have was looked at in the new one; of the old one only what is gone is left.
    for first, start, end in _widened(old_data, removed):
        if found := find_credential(old_data[start:end].decode("utf-8", "surrogatepass"), first):
            return f"{found} of the old version"
    return None


def _widened(data: bytes, places: Sequence[Region]) -> Iterator[tuple[int, int, int]]:
    """First line, start and end of regions with the lines around that a credential may reach over."""
    waiting: tuple[int, int, int] | None = None
    for place in places:
        start = data.rfind(b"\n", 0, max(0, place.start - REACH)) + 1
        first = place.first - data.count(b"\n", start, place.start)
        end = data.find(b"\n", min(len(data), place.end + REACH)) + 1 or len(data)
        if waiting is not None and start <= waiting[2]:
            waiting = (waiting[0], waiting[1], end)
            continue
        if waiting is not None:
            yield waiting
        waiting = (first, start, end)
    if waiting is not None:
        yield waiting


def _personal(data: bytes, places: Sequence[Region], side: str) -> str | None:
    for place in places:
        text = data[place.start : place.end]
        if b"@" in text and (found := find_personal(text.decode("utf-8", "surrogatepass"), place.first)):
            return f"{found} of the {side} version"
    return None
