"""What all mutation operators share: one function, edits of it, and how to look around in it.

In: nodes of a function's body. Out: edits and neighbours. Every walk is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from decompose import tree_operator_syntax as syntax
from decompose.mutate import Edit
from decompose.source import BLANK, Definition, Source
from decompose.tree_operator_types import Types

_SHOWN = 40
DEPTH = 60
MOST_MOVED = 20_000
"""Bytes of code that one edit may move: what holds others would be copied for each level."""
SIMPLE = syntax.names(
    "identifier call attribute parenthesized_expression number integer variable_name member_expression "
    "call_expression subscript_expression array_access field_access method_invocation index_expression "
    "selector_expression field_expression invocation_expression member_access_expression "
    "element_access_expression element_reference function_call_expression member_call_expression this "
    "parenthesized_statements scoped_call_expression integer_literal int_literal number_literal "
    "decimal_integer_literal instance_variable"
)


class Base:
    """The operators for one function."""

    def __init__(self, source: Source, definition: Definition, language: str, types: Types) -> None:
        self.source = source
        self.data = source.data
        self.definition = definition
        self.language = language
        self.types = types
        self.does = syntax.OPERATIONS[language]
        told = types.result(definition)
        checked = self.does.compiled or (language == "PHP" and told and not told.startswith("?"))
        self.neutral = types.neutral(definition) if checked else self.does.neutral
        self.known = {one.base for one in source.definitions} if self.does.free else set()
        self.table = self._table()
        # A tree finds a node's parent by going down from its root, so the way to a node is kept.
        self.above: list[Node] = []
        self.lasts: dict[int, int] = {}

    def _table(self) -> dict[str, list[str]]:
        does = self.does
        told = {
            "binary": does.binary,
            "unary": does.unary,
            "update": does.update,
            "compound": does.compound,
            "integer": does.integers,
            "float": does.floats,
            "character": does.characters,
            "boolean": does.booleans,
            "string": does.strings,
            "if": does.ifs,
            "ternary": does.ternaries,
            "loop": does.loops,
            "return": does.returns,
            "break": does.breaks,
            "continue": does.continues,
            "statement": does.statements | does.throws | does.returns,
            "call": does.calls.keys(),
            "range": {"range", "range_expression"},
        }
        table: dict[str, list[str]] = {}
        for name, nodes in told.items():
            for node in nodes:
                table.setdefault(node, []).append(name)
        return table

    def of(self, node: Node) -> Iterator[Edit]:
        """Edits that are proposed for one node."""
        for name in self.table.get(node.type, ()):
            yield from getattr(self, f"on_{name}")(node)

    def text(self, node: Node) -> bytes:
        return self.data[node.start_byte : node.end_byte].rstrip(BLANK)

    def edit(
        self, operator: str, start: int, end: int, new: bytes, line: int, detail: str | None = None
    ) -> Edit:
        if new and end > start:
            if _is_word(self.data[start - 1 : start]) and _is_word(new[:1]):
                new = b" " + new
            if _is_word(new[-1:]) and _is_word(self.data[end : end + 1]):
                new = new + b" "
            if new[:1] in b"-+" and self.data[start - 1 : start] == new[:1]:
                new = b"(" + new + b")"
        if detail is None:
            detail = f"`{shown(self.data[start : min(end, start + 400)])}` to `{shown(new.strip())}`"
        return Edit(start, end, operator, new.decode(), self.definition.span.name, line, detail)

    def swap(self, operator: str, node: Node, new: bytes, detail: str | None = None) -> Edit:
        start = node.start_byte
        return self.edit(operator, start, start + len(self.text(node)), new, node.start_point.row + 1, detail)

    def up(self) -> Iterator[Node]:
        """The nodes around the node that is looked at, inside the function's body, nearest first."""
        yield from reversed(self.above)

    def parent(self, node: Node) -> Node | None:
        """The node around one that is looked at or around it; None for the body."""
        for number in range(len(self.above) - 1, -1, -1):
            if self.above[number].id == node.id:
                return self.above[number - 1] if number else None
        return self.above[-1] if self.above else None

    def is_last(self, node: Node, parent: Node) -> bool:
        """Whether a node is the last named child of another."""
        if parent.id not in self.lasts:
            last = parent.named_child(parent.named_child_count - 1)
            self.lasts[parent.id] = last.id if last is not None else 0
        return self.lasts[parent.id] == node.id

    def within(self, kinds: frozenset[str]) -> bool:
        return any(one.type in kinds for one in self.up())

    def condition(self, node: Node) -> Node | None:
        """The condition of a statement without its brackets; None when it declares something."""
        told = node.child_by_field_name("condition")
        if told is None and self.language == "Go" and node.type == "for_statement":
            told = next(
                (one for one in node.named_children if one.type not in ("block", "range_clause")), None
            )
            told = (
                told.child_by_field_name("condition")
                if told is not None and told.type == "for_clause"
                else told
            )
        for _ in range(DEPTH):
            if told is None:
                return None
            if told.type == "condition_clause":
                told = told.child_by_field_name("value")
            elif (
                told.type in ("parenthesized_expression", "parenthesized_statements")
                and len(told.named_children) == 1
            ):
                told = told.named_children[0]
            else:
                break
        if told is None or told.type in ("let_condition", "let_chain", "declaration") or not told.is_named:
            return None
        return None if self.does.compiled and binds_names(told) else told

    def turns(self, condition: Node) -> bool:
        """Whether another operator makes the opposite of a condition."""
        token = token_of(condition)
        return token is not None and (
            (condition.type in self.does.binary and token.type in syntax.COMPARISONS_NEGATED)
            or (condition.type in self.does.unary and token.type in ("!", "not"))
        )

    def exchange(self, operator: str, first: Node, second: Node, detail: str | None = None) -> Iterator[Edit]:
        old, other = self.text(first), self.text(second)
        between = self.data[first.start_byte + len(old) : second.start_byte]
        end = second.start_byte + len(other)
        if old != other and end - first.start_byte <= MOST_MOVED:
            yield self.edit(
                operator, first.start_byte, end, other + between + old, first.start_point.row + 1, detail
            )


def token_of(node: Node) -> Node | None:
    """The operator of an expression."""
    told = node.child_by_field_name("operator")
    if told is not None and not told.is_named:
        return told
    return next((one for one in node.children if not one.is_named and one.type not in ("(", ")")), None)


def main_child(node: Node) -> Node | None:
    inner = [one for one in node.named_children if "comment" not in one.type]
    return inner[-1] if inner else None


def binds_names(node: Node) -> bool:
    """Whether an expression gives names to parts of a value, which what follows may use."""
    stack = [node]
    for _ in range(400):
        if not stack:
            return False
        here = stack.pop()
        named = here.type == "instanceof_expression" and here.child_by_field_name("name") is not None
        if named or here.type in (
            "declaration_pattern",
            "record_pattern",
            "type_pattern",
            "let_condition",
            "let_chain",
        ):
            return True
        stack += here.named_children
    return True


def _is_word(byte: bytes) -> bool:
    return byte.isalnum() or byte == b"_" or byte > b"\x7f"


def shown(text: bytes) -> str:
    line = " ".join(text.decode("utf-8", "replace").split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
