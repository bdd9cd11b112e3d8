"""The body of a function in a syntax tree, and what it looks like when it is empty.

In: a function's node. Out: a `Body`: where it is, and the replacements that take it away so that the
program still parses. None for a function without one, such as a prototype.
"""

from __future__ import annotations

import dataclasses

from tree_sitter import Node

from decompose.tree_syntax import READINGS

Blank = tuple[int, int, bytes]
"""One replacement: first byte, one past the last, and what comes there."""


@dataclasses.dataclass(frozen=True)
class Body:
    """A function's body; numbers are byte offsets.

    Attributes:
        node: its node; the token that ends the function where a body of Ruby has no statement.
        head_end: one past the last byte of the signature.
        start, end: its first and one past its last statement, or the expression that it is.
        indent: what stands before its first statement on its line; None when it is on one line.
        newline: the line ending after its first line.
        blank: the replacements that empty it, in order of position.
    """

    node: Node
    head_end: int
    start: int
    end: int
    indent: bytes | None
    newline: bytes
    blank: tuple[Blank, ...]


def body_of(node: Node, data: bytes, language: str, constructor: bool) -> Body | None:
    """The body of a function; None for one without.

    Args:
        constructor: whether it is one: its call of another constructor stays where it must come first.
    """
    if language == "Ruby":
        return _ruby(node, data)
    reading = READINGS[language]
    body = node.child_by_field_name("body")
    if language == "C#":
        body = body or node.child_by_field_name("accessors") or _arrow(node.child_by_field_name("value"))
        body = body or next(
            (one for one in node.named_children if one.type == "arrow_expression_clause"), None
        )
    if body is None:
        return None
    filler = reading.filler.encode()
    head_end = node.start_byte + len(data[node.start_byte : body.start_byte].rstrip())
    if body.type in reading.blocks:
        open_end, close = body.children[0].end_byte, body.children[-1].start_byte
        blank = (_emptied(body, data, filler, reading.first if constructor else frozenset()),)
        start, end = _extent(body)
        return Body(body, head_end, start, end, *_layout(data, open_end, close), blank)
    if body.type == "accessor_list":
        found = []
        for one in body.named_children:
            inner = one.child_by_field_name("body")
            if inner is None:
                continue
            if inner.type == "arrow_expression_clause":
                found.append(_expression(inner.named_children[-1], (reading.expression or "").encode()))
            else:
                found.append(_emptied(inner, data, filler, frozenset()))
        if not found:
            return None
        start, end = _extent(body)
        layout = _layout(data, body.start_byte, body.end_byte)
        return Body(body, head_end, start, end, *layout, tuple(found))
    if body.type == "arrow_expression_clause":
        value = body.named_children[-1]
        blank = (_expression(value, (reading.expression or "").encode()),)
        return Body(value, head_end, value.start_byte, value.end_byte, None, b"\n", blank)
    # A function that is one `try`, or an arrow function that is an expression.
    inside = reading.expression.encode() if reading.expression is not None else b"{ " + filler + b" }"
    return Body(body, head_end, body.start_byte, body.end_byte, None, b"\n", (_expression(body, inside),))


def _arrow(node: Node | None) -> Node | None:
    return node if node is not None and node.type == "arrow_expression_clause" else None


def _expression(node: Node, filler: bytes) -> Blank:
    return node.start_byte, node.end_byte, filler


def _extent(block: Node) -> tuple[int, int]:
    """What lies between the braces of a block, without the space around it."""
    inside = block.children[1:-1]
    if not inside:
        return (block.children[0].end_byte,) * 2
    return inside[0].start_byte, inside[-1].end_byte


def _emptied(block: Node, data: bytes, filler: bytes, first: frozenset[str]) -> Blank:
    """The replacement that leaves one statement in a block, and the one that must come first."""
    open_end, close = block.children[0].end_byte, block.children[-1].start_byte
    start = open_end
    if (
        first
        and (opening := next((c for c in block.named_children if "comment" not in c.type), None)) is not None
    ):
        called = opening
        if opening.type == "expression_statement" and opening.named_children[0].type == "call_expression":
            called = opening.named_children[0].child_by_field_name("function") or opening
        if called.type in first:
            start = opening.end_byte
    indent, newline = _layout(data, open_end, close)
    if indent is None:
        return start, close, b" " + filler + b" "
    return start, close, newline + indent + filler + newline + _closing(data, open_end, close)


def _layout(data: bytes, start: int, end: int) -> tuple[bytes | None, bytes]:
    """Indentation of the first line of a body of several lines, and its line ending."""
    inside = data[start:end]
    at = inside.find(b"\n")
    if at < 0:
        return None, b"\n"
    newline = b"\r\n" if inside[at - 1 : at] == b"\r" else b"\n"
    for line in inside[at + 1 :].split(b"\n"):
        told = line.lstrip(b" \t\f")
        if told.strip() and not told.startswith(b"#"):
            return line[: len(line) - len(told)], newline
    return _closing(data, start, end) + b"    ", newline


def _closing(data: bytes, start: int, end: int) -> bytes:
    """What stands before the end of a body of several lines on its own line."""
    last = data[data.rfind(b"\n", start, end) + 1 : end]
    if not last.strip():
        return last
    line = data[data.rfind(b"\n", 0, start) + 1 : start]
    return line[: len(line) - len(line.lstrip(b" \t\f"))]


def _ruby(node: Node, data: bytes) -> Body | None:
    reading = READINGS["Ruby"]
    head = node.child_by_field_name("parameters") or node.child_by_field_name("name")
    last = node.children[-1]
    if head is None:
        return None
    inner = node.child_by_field_name("body")
    if last.type != "end":
        if inner is None:
            return None
        told = (reading.expression or "").encode()
        return Body(
            inner, head.end_byte, inner.start_byte, inner.end_byte, None, b"\n", (_expression(inner, told),)
        )
    filler = reading.filler.encode()
    start, end = head.end_byte, last.start_byte
    indent, newline = _layout(data, start, end)
    if indent is None:
        blank = (start, end, b"; " + filler + b"; ")
    else:
        # A comment on the signature's line stays.
        rest = data[start : data.find(b"\n", start)].rstrip(b"\r")
        if not rest.strip() or rest.lstrip().startswith(b"#"):
            start += len(rest)
        blank = (start, end, newline + indent + filler + newline + _closing(data, head.end_byte, end))
    body = last if inner is None else inner
    return Body(
        body,
        head.end_byte,
        body.start_byte,
        body.start_byte if inner is None else body.end_byte,
        indent,
        newline,
        (blank,),
    )
