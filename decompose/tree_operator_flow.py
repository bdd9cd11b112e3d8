"""Mutation operators for conditions, loops and ways out of them.

In: nodes of a function's body. Out: edits. A node of a shape that is not known gives none.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from decompose.mutate import Edit
from decompose.tree_operator_base import MOST_MOVED, SIMPLE, Base, token_of

_ENDLESS = frozenset((b"", b"true", b"1", b"TRUE"))


class Flow(Base):
    """The operators for the flow of a function."""

    def _negate(self, node: Node) -> Iterator[Edit]:
        condition = self.condition(node)
        if condition is None or condition.type in self.does.booleans or self.turns(condition):
            return
        if condition.end_byte - condition.start_byte > MOST_MOVED:
            return
        yield self.swap("condition_negate", condition, b"!(" + self.text(condition) + b")")

    def on_if(self, node: Node) -> Iterator[Edit]:
        condition = self.condition(node)
        if condition is None or self.turns(condition):
            return
        first = node.child_by_field_name("consequence") or node.child_by_field_name("body")
        other = node.child_by_field_name("alternative")
        second = other
        if other is not None and other.type == "else_clause":
            second = other.child_by_field_name("body") or other.named_children[-1]
        if (
            first is not None
            and second is not None
            and first.type == second.type
            and first.type in self.does.blocks
        ):
            yield from self.exchange("branch_swap", first, second, "the two branches")
        elif node.type != "elsif":
            yield from self._negate(node)

    def on_ternary(self, node: Node) -> Iterator[Edit]:
        condition = self.condition(node)
        first = node.child_by_field_name("consequence") or node.child_by_field_name("body")
        second = node.child_by_field_name("alternative")
        if first is None or second is None or (condition is not None and self.turns(condition)):
            return
        if second.type in self.does.ternaries or first.type in self.does.ternaries:
            yield from self._negate(node)
        else:
            yield from self.exchange("branch_swap", first, second)

    def on_loop(self, node: Node) -> Iterator[Edit]:
        condition = self.condition(node)
        if condition is None:
            return
        counts = node.type == "for_statement" and any(
            node.child_by_field_name(one) is not None or node.named_children[0].type == "for_clause"
            for one in ("update", "increment")
        )
        if not counts:
            if not self.turns(condition):
                yield from self._negate(node)
            return
        token = token_of(condition)
        bound = condition.child_by_field_name("right")
        if token is None or bound is None or bound.end_byte - bound.start_byte > MOST_MOVED:
            return
        if bound.type in self.does.integers | {"unary_expression"}:
            return
        # One more than `<` lets through is what `<=` does.
        step = {"<": b" - 1", "<=": b" + 1", ">": b" + 1", ">=": b" - 1"}.get(token.type)
        if step is not None and bound.type not in self.does.floats:
            yield self.swap("loop_bound", bound, self._bracketed(bound) + step)

    def _bracketed(self, node: Node) -> bytes:
        return self.text(node) if node.type in SIMPLE else b"(" + self.text(node) + b")"

    def on_range(self, node: Node) -> Iterator[Edit]:
        token = next((one for one in node.children if one.type in ("..", "...", "..=")), None)
        if token is None or len(node.named_children) < 2:
            return
        if self.language == "Ruby":
            yield self.swap("range_swap", token, b".." if token.type == "..." else b"...")
        elif self.language == "Rust":
            yield self.swap("range_swap", token, b".." if token.type == "..=" else b"..=")

    def _target(self, node: Node) -> Node | None:
        """The loop that a `break` or `continue` means; None when it is no loop or nothing tells."""
        for one in self.up():
            if one.type in self.does.loops:
                return one
            if one.type in self.does.switches or one.type in self.does.lambdas:
                return None
        return None

    def _leaves(self, node: Node, new: bytes) -> Iterator[Edit]:
        loop = self._target(node)
        if loop is None or node.named_children:
            return
        if self.does.compiled and loop.type in (
            "loop_expression",
            "while_statement",
            "for_statement",
            "do_statement",
        ):
            condition = self.condition(loop)
            ranged = any(one.type == "range_clause" for one in loop.named_children)
            if not ranged and self.text(condition) in _ENDLESS if condition is not None else not ranged:
                return
        token = node.children[0] if node.children else node
        yield self.swap("break_continue", token, new)

    def on_break(self, node: Node) -> Iterator[Edit]:
        yield from self._leaves(node, b"next" if self.language == "Ruby" else b"continue")

    def on_continue(self, node: Node) -> Iterator[Edit]:
        yield from self._leaves(node, b"break")

    def _own(self, node: Node) -> bool:
        """Whether a `return` is that of the function, and not of a function inside it."""
        return not self.within(self.does.lambdas - {"block", "do_block"})

    def on_return(self, node: Node) -> Iterator[Edit]:
        values = [one for one in node.named_children if "comment" not in one.type]
        if not values or (self.does.compiled and not self._own(node)):
            return
        value = values[0]
        if len(value.named_children) > 1 and value.type == "expression_list":
            return
        yield from self._neutral(value.start_byte, values[-1].end_byte, value)

    def _neutral(self, start: int, end: int, node: Node) -> Iterator[Edit]:
        old = self.data[start:end].strip()
        literal = (
            node.type in self.does.booleans | self.does.integers | self.does.characters | self.does.strings
        )
        same = old in (b"null", b"nil", b"undefined", b"None", b"nullptr", b"NULL", b"{}", b"default")
        if self.neutral is None or same or old == self.neutral.encode() or (self.does.compiled and literal):
            return
        yield self.edit("return_neutral", start, end, self.neutral.encode(), node.start_point.row + 1)

    def whole_value(self) -> list[Edit]:
        """Edits of the value that a function returns without a word for it."""
        body, data = self.definition.body, self.data
        value: Node | None = None
        if self.language == "Ruby":
            value = body.named_children[-1] if body.type == "body_statement" and body.named_children else None
            if value is not None and value.type not in SIMPLE | {
                "binary",
                "unary",
                "string",
                "array",
                "hash",
                "conditional",
            }:
                return []
        elif self.language == "Rust":
            last = body.named_children[-1] if body.named_children else None
            told = last is not None and last.type not in (
                "expression_statement",
                "let_declaration",
                "macro_invocation",
            )
            value = last if told and not last.type.endswith("_item") else None  # type: ignore[union-attr]
        elif body.type not in self.does.blocks and body.type not in ("accessor_list", "try_statement"):
            value = body
        if value is None or "comment" in value.type or data[value.start_byte : value.start_byte + 1] == b"{":
            return []
        return list(self._neutral(value.start_byte, value.end_byte, value))
