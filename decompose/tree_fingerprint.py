"""A digest of a function's syntax tree after an edit, positions and comments left out.

In: a `Source`, one of its definitions and an edit of it. Out: a digest of the tokens, with their types, that
the function would have: the same for two texts that differ in nothing but layout and comments, another for
any two whose trees have other leaves. Wrong: `SourceError` for an edit after which the program does not
parse, or the function does not end where it should. Only what an edit touches is parsed and read again.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Sequence

from tree_sitter import Node, Parser, Point, Tree

from decompose.grammars import SourceError, grammar
from decompose.mutate import Edit
from decompose.source import Definition, Source

# Sequences are told apart by a polynomial of their tokens' hashes, which can be put together from the
# parts before and after an edit.
_PRIME = (1 << 127) - 1
_BASE = 0x5DEECE66D1234567890ABCDEF1357


@dataclasses.dataclass(frozen=True)
class Tokens:
    """The tokens of a node in order of position.

    Attributes:
        starts, ends: where they are.
        sums: digest of the first n tokens, for every n.
        powers: `_BASE` to the nth, for every n.
    """

    starts: Sequence[int]
    ends: Sequence[int]
    sums: Sequence[int]
    powers: Sequence[int]


def tokens_of(node: Node, data: bytes) -> Tokens:
    """The tokens of a tree, comments left out."""
    starts, ends, sums, powers = [], [], [0], [1]
    for start, end, value in _leaves(node, data, node.start_byte, node.end_byte):
        starts.append(start)
        ends.append(end)
        sums.append((sums[-1] * _BASE + value) % _PRIME)
        powers.append(powers[-1] * _BASE % _PRIME)
    return Tokens(starts, ends, sums, powers)


def tree_digest(node: Node, data: bytes) -> bytes:
    """A digest of the tokens of a tree, comments and layout left out."""
    known = tokens_of(node, data)
    return _written(known.sums[-1], len(known.starts))


def digest_of(
    source: Source, definition: Definition, known: Tokens, edit: Edit | None, language: str
) -> bytes:
    """The digest of a definition after an edit; of the definition as it is when there is none.

    Args:
        known: the tokens of the definition.

    Raises:
        SourceError: the edited program does not parse, or its function ends elsewhere.
    """
    if edit is None:
        return _written(known.sums[-1], len(known.starts))
    node = definition.node
    new = edit.replacement.encode()
    data = source.data[: edit.start_byte] + new + source.data[edit.end_byte :]
    grown = len(data) - len(source.data)
    found = _found(_parsed_again(source, data, edit, language), node, node.end_byte + grown)
    if found is None:
        raise SourceError(f"line {edit.line}: not the syntax of {language} after {edit.operator}")
    # What comes before the token in front of the edit and after the one behind it is as it was.
    first = max(bisect.bisect_right(known.starts, edit.start_byte) - 2, 0)
    after = min(bisect.bisect_left(known.ends, edit.end_byte) + 2, len(known.ends))
    low, high = known.starts[first], known.ends[after - 1]
    middle = list(_leaves(found, data, low, high + grown))
    if not middle or middle[0][0] != low or middle[-1][1] != high + grown:
        return tree_digest(found, data)
    total, count = known.sums[first], len(known.starts) - after
    for _, _, value in middle:
        total = (total * _BASE + value) % _PRIME
    tail = (known.sums[-1] - known.sums[after] * known.powers[count]) % _PRIME
    return _written((total * known.powers[count] + tail) % _PRIME, first + len(middle) + count)


def _written(total: int, count: int) -> bytes:
    return total.to_bytes(16, "big") + count.to_bytes(4, "big")


def _found(tree: Tree, node: Node, end: int) -> Node | None:
    """The function in a tree of the edited program; None when it is not there or something is broken."""
    if tree.root_node.has_error:
        return None
    found = tree.root_node.descendant_for_byte_range(node.start_byte, end)
    while found is not None and found.type != node.type:
        found = found.parent
    if found is None or (found.start_byte, found.end_byte) != (node.start_byte, end):
        return None
    return found


def _parsed_again(source: Source, data: bytes, edit: Edit, language: str) -> Tree:
    old = source.tree.copy()
    new_end = edit.start_byte + len(edit.replacement.encode())
    old.edit(
        edit.start_byte,
        edit.end_byte,
        new_end,
        _point(source.data, edit.start_byte),
        _point(source.data, edit.end_byte),
        _point(data, new_end),
    )
    return Parser(grammar(language)).parse(data, old)


def _point(data: bytes, at: int) -> Point:
    return Point(data.count(b"\n", 0, at), at - data.rfind(b"\n", 0, at) - 1)


def _leaves(node: Node, data: bytes, low: int, high: int) -> Iterator[tuple[int, int, int]]:
    """First byte, one past the last, and hash of each token in a range, and of text that has none.

    Some grammars have no token for the inside of a literal: what stands between two tokens counts too.
    """
    cursor = node.walk()
    last, level = low, 0
    while True:
        here = cursor.node
        if here is None or (here.start_byte >= high and level):
            return
        start, end = here.start_byte, here.end_byte
        comment = "comment" in here.type
        if end > low:
            if comment:
                last = max(last, end)
            elif here.child_count == 0 and end > start:
                if gap := data[last:start].strip():
                    yield last, start, _hash("", gap)
                yield start, end, _hash(here.type, data[start:end].strip())
                last = max(last, end)
            # What ends before the range is jumped over, however much it is.
            elif cursor.goto_first_child_for_byte(low) is not None:
                level += 1
                continue
        while not cursor.goto_next_sibling():
            if level == 0 or not cursor.goto_parent():
                return
            level -= 1


@functools.lru_cache(maxsize=4096)
def _hash(kind: str, text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(f"{kind} ".encode() + text, digest_size=15).digest(), "big") + 1
