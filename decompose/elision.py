"""Which lines of a source text can be left out so that it still parses, given those that must stay.

In: a syntax tree and the lines that are wanted. Out: the lines that have to stay with them: the
header, the closing line and every other token of whatever encloses a wanted line. What is left out are
whole statements, members and long literals' elements. Time is linear in the text, and nothing
recurses. Nothing can go wrong; whether the result parses is for the caller to try, since a grammar may
want something where nothing is left.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from tree_sitter import Node, Tree

from decompose.definitions import last_row, syntax_of

_ITEM_FIELDS = frozenset((None, "body", "member", "statement"))
"""Fields under which grammars put a container's statements and members; another field is its header."""
_SEPARATORS = frozenset((";", ",", ""))
_STATEMENTS = (
    "definition",
    "declaration",
    "statement",
    "_item",
    "_specifier",
    "comment",
    "_method",
    "_def",
    "_include",
)
"""What the parser's recovery takes for a whole statement or member between the pieces of a broken one."""
_LONG = 12
"""Lines from which a literal is shortened; a shorter one reads better whole."""


@dataclasses.dataclass(frozen=True)
class Kept:
    """What stays.

    Attributes:
        rows: one byte a line, counted from 0: whether it stays.
        emptied: first lines of bodies of which nothing stays, where the language wants a statement.
    """

    rows: bytearray
    emptied: frozenset[int]


def _children(node: Node) -> Iterator[tuple[Node, str | None]]:
    """Children with their fields, by a cursor: asking a node for a child's field counts from its first."""
    cursor = node.walk()
    more = cursor.goto_first_child()
    while more:
        if (child := cursor.node) is not None:
            yield child, cursor.field_name
        more = cursor.goto_next_sibling()


class _Rows:
    """The lines that stay, while they are found."""

    def __init__(self, wanted: bytearray) -> None:
        self.kept = bytearray(wanted)
        self.last = len(wanted) - 1
        self.total = list(itertools.accumulate(wanted, initial=0))

    def wanted(self, first: int, final: int) -> int:
        return self.total[min(final, self.last) + 1] - self.total[min(first, self.last + 1)]

    def mark(self, first: int, final: int) -> None:
        final = min(final, self.last)
        if first <= final:
            self.kept[first : final + 1] = b"\x01" * (final + 1 - first)

    def at(self, row: int) -> bool:
        return row <= self.last and bool(self.kept[row])


def keep(tree: Tree, language: str, wanted: bytearray, lists: bool = True) -> Kept:
    """The lines that have to stay so that the wanted ones stand in their places.

    Args:
        wanted: one byte a line of the text, counted from 0: whether it is wanted.
        lists: whether long literals may be shortened too.
    """
    syntax = syntax_of(language)
    containers = syntax.containers | syntax.lists if lists else syntax.containers
    rows = _Rows(wanted)
    emptied: set[int] = set()
    left_out: list[tuple[int, int]] = []
    # Some line of a node on the stack stays, so all of it does, containers' items excepted.
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        start, end = node.start_point.row, last_row(node)
        if start == end or rows.wanted(start, end) == end + 1 - start:
            rows.mark(start, end)
        elif node.is_error or (
            node.type in containers and (node.type not in syntax.lists or end - start >= _LONG)
        ):
            before = len(left_out)
            stays = False
            for child, field in _children(node):
                first, final = child.start_point.row, last_row(child)
                if not child.is_named:
                    if child.type.strip() not in _SEPARATORS:
                        rows.mark(first, final)
                elif field not in _ITEM_FIELDS or (node.is_error and not child.type.endswith(_STATEMENTS)):
                    stack.append(child)
                elif rows.wanted(first, final):
                    stays = True
                    stack.append(child)
                else:
                    left_out.append((first, final))
            needs = syntax.filler and node.type in syntax.containers and node.id != tree.root_node.id
            if needs and not stays and len(left_out) > before:
                emptied.add(left_out[before][0])
        else:
            at = start
            for child, _ in _children(node):
                # Not everything inside of a string is a node.
                rows.mark(at, child.start_point.row - 1)
                at = last_row(child) + 1
                stack.append(child)
            rows.mark(at, end)
    left_out = sorted(span for span in left_out if span[1] > span[0])
    # What takes several lines and shares its first or last one with something that stays cannot be cut.
    for first, final in (*left_out, *reversed(left_out)):
        if rows.at(first) or rows.at(final):
            rows.mark(first, final)
    return Kept(rows.kept, frozenset(emptied))
