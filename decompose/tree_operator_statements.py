"""Mutation operators for whole statements and for calls.

In: nodes of a function's body. Out: edits. A node of a shape that is not known gives none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from decompose import tree_operator_syntax as syntax
from decompose.mutate import Edit
from decompose.removal import without
from decompose.tree_operator_base import Base, main_child, shown


class Statements(Base):
    """The operators for statements and calls."""

    def on_statement(self, node: Node) -> Iterator[Edit]:
        if node.type in self.does.throws | self.does.returns:
            # In Rust these are expressions in a statement.
            if self.guards(node) and self.language != "Rust":
                yield self._without(node)
            return
        inner = node if self.language in ("Go", "Ruby") else main_child(node)
        if inner is None or not self._stands_alone(node):
            return
        if self.language == "Go" and node.type == "expression_statement":
            inner = main_child(node) or node
        kind = inner.type
        if kind in self.does.plain | self.does.compound:
            if self._keeps_value(inner):
                yield self._without(node)
        elif kind in self.does.update or (self.language == "Rust" and kind == "macro_invocation"):
            if not self._ends(inner):
                yield self._without(node)
        elif (kind in self.does.calls and not self._ends(inner)) or (
            kind in self.does.calls.keys() | self.does.returns | self.does.throws and self.guards(node)
        ):
            yield self._without(node)

    def _without(self, node: Node) -> Edit:
        text, parent = self.text(node), self.parent(node)
        detail = f"`{shown(text)}` left out"
        if parent is None or parent.type not in self.does.blocks:
            return self.swap("statement_remove", node, self.does.empty.encode(), detail)
        start, end = without(self.data, node.start_byte, node.start_byte + len(text))
        return self.edit("statement_remove", start, end, b"", node.start_point.row + 1, detail)

    def _stands_alone(self, node: Node) -> bool:
        """Whether a statement may be missing where it is."""
        parent = self.parent(node)
        if parent is None:
            return False
        if parent.type in self.does.blocks:
            # The last value of a Ruby body is what it returns, and of a Rust block what it is.
            last = self.is_last(node, parent)
            if self.language == "Ruby" and last and not self._is_step_of_loop(parent):
                return False
            return not (self.language == "Java" and self._only_one_tried(node, parent))
        holds = ("if_statement", "else_clause", "while_statement", "for_statement", "enhanced_for_statement",
                 "for_in_statement", "for_range_loop", "foreach_statement", "switch_block_statement_group",
                 "case_statement", "switch_section", "expression_case", "default_case", "switch_case",
                 "if_modifier", "unless_modifier", "default_statement", "switch_default")  # fmt: skip
        value = parent.child_by_field_name("condition")
        return parent.type in holds and (value is None or value.id != node.id)

    def _is_step_of_loop(self, block: Node) -> bool:
        parent = self.parent(block)
        return parent is not None and parent.type in ("while", "until", "for")

    def _only_one_tried(self, node: Node, block: Node) -> bool:
        """A checked error that nothing throws may not be caught."""
        around = self.parent(block)
        tried = around is not None and around.type.startswith("try")
        return tried and block.named_child_count < 3 and node.type == "expression_statement"

    def _ends(self, node: Node) -> bool:
        """Whether a call never comes back, or must stay for another reason."""
        head = self.data[node.start_byte : node.start_byte + 60].decode("utf-8", "replace").partition("(")[0]
        words = [one for one in re.split(r"\W+", head) if one]
        return (
            not words
            or words[-1] in syntax.FATAL
            or (len(words) < 2 and words[0] in ("super", "this", "raise", "require"))
        )

    def guards(self, node: Node) -> bool:
        """Whether a way out is all that an `if` without another branch leads to."""
        parent = self.parent(node)
        for _ in range(3):
            if parent is None:
                return False
            if parent.type in self.does.ifs:
                if parent.type in ("if_modifier", "unless_modifier"):
                    return True
                return parent.child_by_field_name("alternative") is None and not self._chained(parent)
            if (
                parent.type not in self.does.blocks | {"expression_statement"}
                or parent.named_child_count != 1
            ):
                return False
            parent = self.parent(parent)
        return False

    def _chained(self, node: Node) -> bool:
        """Whether an `if` is the other branch of one: leaving by all may end the function."""
        parent = self.parent(node)
        return node.type in ("elsif", "else_if_clause") or (
            parent is not None and parent.type in ("else_clause", *self.does.ifs)
        )

    def _keeps_value(self, node: Node) -> bool:
        """Whether the program still builds without an assignment."""
        if not self.does.compiled:
            return True
        left = node.child_by_field_name("left")
        if left is None:
            return False
        name = self.text(left).decode()
        if name in self.types.uninitialized and self.language in ("Java", "C#", "Rust"):
            return False
        if self.definition.span.kind == "constructor" and self.language in ("Java", "C#", "Rust"):
            return False
        return not (
            self.language == "C#"
            and re.search(rf"\bout\s+[\w<>\[\],?. ]+\b{re.escape(name)}\b", self._head())
        )

    def _head(self) -> str:
        span = self.definition.span
        return self.data[span.start_byte : self.definition.head_end].decode()

    def on_call(self, node: Node) -> Iterator[Edit]:
        called = node.child_by_field_name(self.does.calls[node.type])
        given = node.child_by_field_name("arguments")
        name = called
        for _ in range(8):
            if name is None:
                break
            inner = next(
                (
                    one
                    for field in ("property", "field", "name")
                    if (one := name.child_by_field_name(field)) is not None
                ),
                None,
            )
            if inner is None:
                break
            name = inner
        written = self.text(name).decode() if name is not None else ""
        count = (
            len([one for one in given.named_children if "comment" not in one.type])
            if given is not None
            else 0
        )
        free = called is not None and name is not None and called.id == name.id and not self._has_object(node)
        table = self.does.free if free else self.does.siblings
        own = {written, table.get(written)} & self.known
        if name is not None and written in table and not own and (count or written not in ("Any", "All")):
            yield self.swap("call_swap", name, table[written].encode())
        if given is not None and count == 2 and written not in syntax.SAME_EITHER_WAY:
            first, second = (one for one in given.named_children if "comment" not in one.type)
            if self._alike(first, second):
                yield from self.exchange("argument_swap", first, second)

    def _has_object(self, node: Node) -> bool:
        return any(node.child_by_field_name(one) is not None for one in ("object", "receiver", "scope"))

    def _alike(self, first: Node, second: Node) -> bool:
        """Whether two arguments look as if either could stand for the other."""
        first, second = (main_child(one) or one if one.type == "argument" else one for one in (first, second))
        special = (
            "spread_element",
            "pair",
            "splat_argument",
            "block_argument",
            "variadic_unpacking",
            "hash_splat_argument",
        )
        if first.type in special or second.type in special or "lambda" in first.type + second.type:
            return False
        if not self.does.compiled:
            functions = ("arrow_function", "function_expression", "anonymous_function")
            return first.type not in functions and second.type not in functions
        if first.type in self.does.integers and second.type in self.does.integers:
            return True
        plain = ("identifier",)
        if first.type not in plain or second.type not in plain:
            return False
        told = self.types.type_of(self.text(first).decode())
        return bool(told) and told == self.types.type_of(self.text(second).decode())
