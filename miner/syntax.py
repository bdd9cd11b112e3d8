"""The syntax trees of an edit's two sides.

In: a row of `edits`. Out: `Sides`, both trees with their bytes, or None with the reason where a side is no
text that a parser can take (too large, a NUL) or its language has no grammar. A version that the last edit
ended with is not parsed again, and the tree of the new side is made from the old one and the change, in a
third to a half of the time. A tree with errors is always made anew, since how a parser recovers may depend
on the tree that it began with, and a row's verdict must not depend on its neighbours.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tree_sitter import Parser, Point, Tree

from decompose.grammars import LANGUAGES, MAX_OPEN_ANGLES, SourceError, dialect, encode_source, grammar, parse


@dataclasses.dataclass(frozen=True, slots=True)
class Sides:
    """Both versions of a file with their trees.

    Attributes:
        language: language, in the spelling of the `language` column.
    """

    language: str
    old: Tree
    new: Tree
    old_data: bytes
    new_data: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    """A version that was parsed: its grammar, its bytes and its tree."""

    kind: str
    data: bytes
    tree: Tree


class Parsed:
    """Trees of edits that come in order, those of one file together; the last tree is kept for the next."""

    def __init__(self) -> None:
        self._last: _Known | None = None

    def sides(self, edit: dict[str, Any]) -> Sides | str:
        """Both trees of an edit, or why there are none, in a few words."""
        language, path = edit["language"], edit["path"]
        if language not in LANGUAGES:
            return f"no grammar of {language}"
        try:
            kind = dialect(language, path)
            old_data, new_data = encode_source(edit["old_contents"]), encode_source(edit["new_contents"])
            old = self._last
            if old is None or old.kind != kind or old.data != old_data:
                old = _Known(kind, old_data, parse(old_data, language, path))
            self._last = _Known(kind, new_data, _changed_tree(old, new_data, language, path))
        except SourceError as error:
            return str(error)
        return Sides(language, old.tree, self._last.tree, old_data, new_data)


def _changed_tree(old: _Known, data: bytes, language: str, path: str) -> Tree:
    # Only `parse` looks closer at a text with so many open angles.
    if not old.tree.root_node.has_error and data.count(b"<") <= MAX_OPEN_ANGLES:
        tree = Parser(grammar(language, path)).parse(data, _shifted(old.tree, old.data, data))
        if not tree.root_node.has_error:
            return tree
    return parse(data, language, path)


def _common(one: bytes, other: bytes) -> int:
    """Number of equal leading bytes, by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _point(data: bytes, at: int) -> Point:
    start = data.rfind(b"\n", 0, at) + 1
    return Point(data.count(b"\n", 0, start), at - start)


def _shifted(tree: Tree, old: bytes, new: bytes) -> Tree:
    """A copy of the old tree that knows where the new text differs."""
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    made = tree.copy()
    made.edit(
        start_byte=start,
        old_end_byte=len(old) - end,
        new_end_byte=len(new) - end,
        start_point=_point(old, start),
        old_end_point=_point(old, len(old) - end),
        new_end_point=_point(new, len(new) - end),
    )
    return made
