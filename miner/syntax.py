"""The syntax trees of an edit's two sides.

In: a row of `edits`. Out: `Sides`, both trees with their bytes, or None with the reason where a side is no
text that a parser can take (too large, a NUL) or its language has no grammar. Each side is parsed at most
once: where an edit begins with the version that the last one ended with, its tree is taken over, and the
tree of the new side is made from the old one and the change, in a third to a half of the time. A tree with
errors is always made anew, since how a parser recovers may depend on the tree that it began with, and a
row's verdict must not depend on its neighbours.
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


class Parsed:
    """Trees of edits that come in order; the last one is kept for the next."""

    def __init__(self) -> None:
        self._last: tuple[str, bytes, Tree] | None = None

    def sides(self, edit: dict[str, Any]) -> Sides | str:
        """Both trees of an edit, or why there are none, in a few words."""
        language, path = edit["language"], edit["path"]
        if language not in LANGUAGES:
            return f"no grammar of {language}"
        try:
            old_data, new_data = encode_source(edit["old_contents"]), encode_source(edit["new_contents"])
            kind = dialect(language, path)
            last, self._last = self._last, None
            if last is not None and last[0] == kind and last[1] == old_data:
                old = last[2]
            else:
                old = parse(old_data, language, path)
            new = None
            # Only `parse` looks closer at a text with so many of them.
            if not old.root_node.has_error and new_data.count(b"<") <= MAX_OPEN_ANGLES:
                parser = Parser(grammar(language, path))
                new = parser.parse(new_data, _shifted(old, old_data, new_data))
            if new is None or new.root_node.has_error:
                new = parse(new_data, language, path)
        except SourceError as error:
            return str(error)
        self._last = (kind, new_data, new)
        return Sides(language, old, new, old_data, new_data)


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


def depth_below(tree: Tree, levels: int) -> int:
    """Depth of the tree when it is less than `levels`, else 0; looks no further than it must."""
    cursor = tree.walk()
    level = deepest = 1
    while level < levels:
        if cursor.goto_first_child():
            level += 1
            deepest = max(deepest, level)
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return deepest
            level -= 1
    return 0
