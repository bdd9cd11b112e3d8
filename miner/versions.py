"""Two versions of a file taken apart, and the regions in which they differ.

In: the texts, their language and the edit's hunks. Out: lines, syntax trees, definitions, and where the
two sides are the same. Lines are counted from 0 here, ends exclusive.
Wrong: `SourceError` for a text that cannot be parsed at all.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping, Sequence

from tree_sitter import Tree

from decompose.definitions import Item, items, last_row, syntax_of
from decompose.grammars import encode_source, parse


@dataclasses.dataclass(frozen=True)
class Change:
    """A changed region: lines `old_first:old_end` become `new_first:new_end`."""

    old_first: int
    old_end: int
    new_first: int
    new_end: int

    @classmethod
    def of(cls, hunk: Mapping[str, int]) -> Change:
        """The region of a hunk, whose start is the line before where a side is empty."""
        old = hunk["old_start"] - (1 if hunk["old_lines"] else 0)
        new = hunk["new_start"] - (1 if hunk["new_lines"] else 0)
        return cls(old, old + hunk["old_lines"], new, new + hunk["new_lines"])


def split_lines(text: str) -> list[str]:
    """Lines with their line feeds; only a line feed ends a line, as in git."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    return lines


@dataclasses.dataclass(frozen=True)
class Side:
    """One version of a file."""

    lines: list[str]
    data: bytes
    tree: Tree
    items: list[Item]
    starts: list[int]

    @classmethod
    def read(cls, text: str, language: str) -> Side:
        """Parse a version.

        Raises:
            SourceError: it is too large, or holds a NUL or a lone surrogate.
        """
        data = encode_source(text)
        tree = parse(data, language)
        found = items(tree, data, language)
        return cls(split_lines(text), data, tree, found, [item.start_line for item in found])

    def innermost(self, first: int, end: int) -> list[Item]:
        """Definitions that a region touches and that hold no other which it touches.

        An empty region is the place between two lines; one at a definition's edge is not in it.
        """
        low = bisect.bisect_right(self.starts, first)
        high = bisect.bisect_right(self.starts, end) if end > first else low
        own = list(range(low, high))
        # What began above and is still open there is the last that began, or around it.
        number: int | None = low - 1 if low else None
        while number is not None:
            if self.items[number].end_line > first:
                own.append(number)
            number = self.items[number].parent
        outer = {self.items[one].parent for one in own}
        return [self.items[one] for one in sorted(own) if one not in outer]


def errors_of(tree: Tree) -> list[tuple[int, int]]:
    """First and last row of each syntax error. Only branches with an error in them are looked at."""
    if not tree.root_node.has_error:
        return []
    found: list[tuple[int, int]] = []
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            found.append((node.start_point.row, last_row(node)))
        elif node.has_error:
            stack += node.children
    return found


def mark(rows: bytearray, first: int, end: int) -> None:
    """Set the bytes of lines `first:end`."""
    first, end = max(0, first), min(end, len(rows))
    if first < end:
        rows[first:end] = b"\x01" * (end - first)


def enclosing(found: Sequence[Item], item: Item) -> list[Item]:
    """Definitions around one, innermost first."""
    around = []
    while item.parent is not None:
        item = found[item.parent]
        around.append(item)
    return around


class Versions:
    """Two versions and the regions in which they differ.

    Attributes:
        touched: of each side and region, the innermost definitions that it touches.
        leaves: of each side, all of these.
        broken: of each side, one byte a line (and one more): whether a syntax error stands there.
    """

    def __init__(self, old: Side, new: Side, changes: Sequence[Change], language: str) -> None:
        self.old, self.new, self.changes, self.language = old, new, changes, language
        self.syntax = syntax_of(language)
        self.broken = []
        for side in (old, new):
            rows = bytearray(len(side.lines) + 1)
            for first, final in errors_of(side.tree):
                mark(rows, first, final + 1)
            self.broken.append(rows)
        self.touched = [
            [side.innermost(first, end) for first, end in self.regions(number)]
            for number, side in enumerate((old, new))
        ]
        self.leaves = [
            list({item.start_byte: item for items in found for item in items}.values())
            for found in self.touched
        ]

    def regions(self, side: int) -> list[tuple[int, int]]:
        """The changed regions of a side, 0 for the old one."""
        if side == 0:
            return [(one.old_first, one.old_end) for one in self.changes]
        return [(one.new_first, one.new_end) for one in self.changes]

    def runs(self) -> list[tuple[int, int, int]]:
        """Unchanged runs before, between and after the changes: (first old line, first new line, lines)."""
        found, old, new = [], 0, 0
        for one in self.changes:
            found.append((old, new, one.old_first - old))
            old, new = one.old_end, one.new_end
        return [*found, (old, new, len(self.old.lines) - old)]

    def names(self) -> list[str]:
        """Qualified names of the innermost changed definitions of both sides, in order of position."""
        found = [
            (item.start_line, side, item.name) for side, leaves in enumerate(self.leaves) for item in leaves
        ]
        return list(dict.fromkeys(name for _, _, name in sorted(found)))

    def joined(self, wanted: Sequence[bytearray]) -> list[bytearray]:
        """Wanted lines of both sides, where an unchanged one that either side wants is wanted by both."""
        both = [bytearray(one) for one in wanted]
        for old, new, count in self.runs():
            one, other = wanted[0][old : old + count], wanted[1][new : new + count]
            either = int.from_bytes(one, "big") | int.from_bytes(other, "big")
            both[0][old : old + count] = both[1][new : new + count] = either.to_bytes(count, "big")
        return both


def with_changes(
    old: Sequence[str], new: Sequence[str], changes: Sequence[Change]
) -> tuple[str, list[Change]]:
    """The old file with some of an edit's changes made, and where these then are."""
    text: list[str] = []
    placed, at = [], 0
    for one in changes:
        text += old[at : one.old_first]
        start = len(text)
        text += new[one.new_first : one.new_end]
        placed.append(Change(one.old_first, one.old_end, start, len(text)))
        at = one.old_end
    return "".join([*text, *old[at:]]), placed
