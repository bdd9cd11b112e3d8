"""What every mutation operator for Python is made of: the text of nodes, and edits of it.

In: one function of a `Source`. Out: `Edit`s, told in words. Wrong: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from decompose.grammars import walk
from decompose.mutate import Edit
from decompose.source import BLANK, Definition, Source

_ATOMS = frozenset(
    {
        "identifier",
        "call",
        "attribute",
        "subscript",
        "parenthesized_expression",
        "integer",
        "float",
        "list",
        "tuple",
    }
)
_SHOWN = 40


def plain(node: Node) -> bool:
    """An operand that needs no brackets before it is added to."""
    return node.type in _ATOMS


def number(node: Node) -> bool:
    """A number literal, with or without a sign: the constant operators see to it."""
    if node.type == "unary_operator":
        inner = node.child_by_field_name("argument")
        return inner is not None and inner.type in ("integer", "float")
    return node.type in ("integer", "float")


class Proposals:
    """Operators of one function: a method `on_` and the type of a node proposes what can be done there."""

    def __init__(self, source: Source, definition: Definition) -> None:
        self.data = source.data
        self.function = definition.span.name
        self.start, self.line = definition.node.start_byte, definition.node.start_point[0] + 1
        self.doc_end = definition.doc_end or 0
        # Without its binding, a `nonlocal` of an inner function does not compile.
        self.nonlocals = {
            self.text(name)
            for node, _ in walk(definition.body)
            if node.type == "nonlocal_statement"
            for name in node.named_children
        }

    def text(self, node: Node) -> bytes:
        return self.data[node.start_byte : node.end_byte].rstrip(BLANK)

    def edit(self, operator: str, start: int, end: int, new: bytes, detail: str | None = None) -> Edit:
        if new and end > start:
            # `return-x` without its sign is not `returnx`.
            if _is_word(self.data[start - 1 : start]) and _is_word(new[:1]):
                new = b" " + new
            if _is_word(new[-1:]) and _is_word(self.data[end : end + 1]):
                new = new + b" "
        if detail is None:
            detail = f"`{shown(self.data[start:end])}` to `{shown(new.strip())}`"
        line = self.line + self.data.count(b"\n", self.start, start)
        return Edit(start, end, operator, new.decode(), self.function, line, detail)

    def swap(self, operator: str, node: Node, new: bytes) -> Edit:
        return self.edit(operator, node.start_byte, node.end_byte, new)

    def of(self, node: Node) -> Iterator[Edit]:
        """Edits that are proposed for one node."""
        operator = getattr(self, f"on_{node.type}", None)
        if node.is_named and operator is not None:
            yield from operator(node)


def _is_word(byte: bytes) -> bool:
    return byte.isalnum() or byte == b"_" or byte > b"\x7f"


def shown(text: bytes) -> str:
    """A text in one short line, for a person."""
    line = " ".join(text.decode("utf-8", "replace").split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
