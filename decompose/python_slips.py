"""More mutation operators for Python: slips that programmers make and models too.

In: one function of a `Source`. Out: edits, as those of `decompose.python_operators`. A case is forgotten,
an operand changes sides, a result comes too early, one is counted from one, an argument is left out. Where
the type of a value decides whether a slip makes sense, it is made only where syntax tells the type, since
most others would only crash.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tree_sitter import Node

from decompose.grammars import walk
from decompose.mutate import Edit
from decompose.python_proposals import Proposals, number, plain, shown
from decompose.source import Definition, Source

_ONE_WAY = frozenset({"-", "/", "//", "%", "**", "<<", ">>"})
_COUNTS = frozenset({"abs", "int", "len", "ord", "round", "sum"})
_ERRORS = {
    "AssertionError": "ValueError",
    "AttributeError": "KeyError",
    "IndexError": "KeyError",
    "KeyError": "IndexError",
    "LookupError": "ValueError",
    "NotImplementedError": "ValueError",
    "RuntimeError": "ValueError",
    "StopIteration": "ValueError",
    "TypeError": "ValueError",
    "ValueError": "TypeError",
    "ZeroDivisionError": "ValueError",
}
_WRAPPERS = frozenset({"abs", "reversed", "round", "set", "sorted"})
_CLEANERS = frozenset({"casefold", "copy", "lower", "lstrip", "rstrip", "strip", "upper"})
_EMPTY = {
    "list": b"[]",
    "list_comprehension": b"[]",
    "dictionary": b"{}",
    "dictionary_comprehension": b"{}",
    "set_comprehension": b"set()",
    "string": b"''",
}
_LEAVES = frozenset({"break_statement", "continue_statement", "return_statement", "raise_statement"})
_LOOPS = frozenset({"for_statement", "while_statement"})


class Slips(Proposals):
    """The operators, applied to nodes of one function."""

    def __init__(self, source: Source, definition: Definition) -> None:
        super().__init__(source, definition)
        self.counts = self._counted(definition.body)

    def _counted(self, body: Node) -> set[bytes]:
        """Variables that hold whole numbers as far as their bindings tell: all of them make such ones."""
        whole: set[bytes] = set()
        other: set[bytes] = set()
        for node, _ in walk(body):
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is None or node.type not in ("assignment", "for_statement", "for_in_clause"):
                continue
            targets = left.named_children if left.type in ("pattern_list", "tuple_pattern") else [left]
            counts = right is not None and (
                self._is_whole(right) if node.type == "assignment" else self._called(right) == b"range"
            )
            for position, target in enumerate(targets):
                numbered = position == 0 and len(targets) == 2 and node.type != "assignment"
                numbered = numbered and right is not None and self._called(right) == b"enumerate"
                (whole if numbered or (counts and target is left) else other).add(self.text(target))
        return whole - other

    def _called(self, node: Node) -> bytes:
        """The name of the function that a node calls; empty for anything else."""
        called = node.child_by_field_name("function") if node.type == "call" else None
        return self.text(called) if called is not None and called.type == "identifier" else b""

    def _is_whole(self, node: Node) -> bool:
        return node.type == "integer" or self._called(node) in (b"len", b"int", b"ord")

    def _whole(self, node: Node) -> bool:
        """Whether a node is a whole number, or a sum with one."""
        if node.type == "binary_operator":
            sides = [node.child_by_field_name(field) for field in ("left", "right")]
            return any(side is not None and self._whole(side) for side in sides)
        return self._is_whole(node) or (node.type == "identifier" and self.text(node) in self.counts)

    def _grouped(self, node: Node) -> bytes:
        """A node's text, in brackets where it may need them."""
        return self.text(node) if plain(node) else b"(" + self.text(node) + b")"

    def on_boolean_operator(self, node: Node) -> Iterator[Edit]:
        for field in ("left", "right"):
            if (inner := node.child_by_field_name(field)) is not None:
                yield self.swap("operand_drop", node, self._grouped(inner))

    def on_binary_operator(self, node: Node) -> Iterator[Edit]:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        token = node.child_by_field_name("operator")
        if left is None or right is None or token is None or token.type not in _ONE_WAY:
            return
        if left.type in ("string", "concatenated_string") or self.text(left) == self.text(right):
            return
        sides = [self.text(one) if plain(one) else b"(" + self.text(one) + b")" for one in (right, left)]
        yield self.swap(
            "operand_swap", node, sides[0] + self.data[left.end_byte : right.start_byte] + sides[1]
        )

    def on_augmented_assignment(self, node: Node) -> Iterator[Edit]:
        token = node.child_by_field_name("operator")
        if token is not None and token.type in ("+=", "*="):
            yield self.swap("accumulate_drop", token, b"=")

    def on_subscript(self, node: Node) -> Iterator[Edit]:
        given = node.children_by_field_name("subscript")
        if len(given) != 1 or number(given[0]) or not self._whole(given[0]):
            return
        for step in (b" + 1", b" - 1"):
            yield self.swap("index_shift", given[0], self._grouped(given[0]) + step)

    def on_if_statement(self, node: Node) -> Iterator[Edit]:
        if not node.children_by_field_name("alternative"):
            yield from self.on_elif_clause(node)

    def on_elif_clause(self, node: Node) -> Iterator[Edit]:
        if (condition := node.child_by_field_name("condition")) is not None:
            yield self.edit("case_drop", condition.start_byte, condition.end_byte, b"False")

    def on_if_clause(self, node: Node) -> Iterator[Edit]:
        # A case of `match` without its condition may leave the later ones unreachable, which Python refuses.
        before = node.prev_sibling
        if before is not None and node.parent is not None and node.parent.type != "case_clause":
            detail = f"without `{shown(self.text(node))}`"
            yield self.edit("filter_drop", before.end_byte, node.end_byte, b"", detail)

    def on_identifier(self, node: Node) -> Iterator[Edit]:
        around = node.parent
        name = self.text(node).decode()
        if around is None or name not in _ERRORS:
            return
        holder: Node | None = around
        for kind in ("tuple", "as_pattern"):
            holder = holder.parent if holder is not None and holder.type == kind else holder
        caught = holder is not None and holder.type == "except_clause"
        thrown = around.type == "raise_statement" or (
            around.type == "call"
            and around.child_by_field_name("function") == node
            and around.parent is not None
            and around.parent.type == "raise_statement"
        )
        if caught or thrown:
            yield self.swap("exception_swap", node, _ERRORS[name].encode())

    def on_return_statement(self, node: Node) -> Iterator[Edit]:
        values = [child for child in node.named_children if child.type != "comment"]
        if len(values) != 1:
            return
        value = values[0]
        if (empty := _EMPTY.get(value.type)) and self.text(value) not in (empty, b'""'):
            yield self.swap("return_empty", value, empty)
        elif value.type == "boolean_operator":
            yield self.swap("return_negate", value, b"not (" + self.text(value) + b")")
        elif value.type != "integer" and (self._whole(value) or self._called(value).decode() in _COUNTS):
            yield self.swap("return_shift", value, self.text(value) + b" + 1")

    def on_block(self, node: Node) -> Iterator[Edit]:
        """A `return` behind a loop that stands in the loop."""
        inner = [child for child in node.named_children if child.type != "comment"]
        for loop, after in itertools.pairwise(inner):
            if loop.type not in _LOOPS or after.type != "return_statement":
                continue
            body = loop.child_by_field_name("body")
            if body is None or loop.child_by_field_name("alternative") is not None or not body.named_children:
                continue
            last = [child for child in body.named_children if child.type != "comment"][-1]
            lead = self.data[self.data.rfind(b"\n", 0, body.start_byte) + 1 : body.start_byte]
            text = self.text(after)
            if last.type in _LEAVES or lead.strip() or b"\n" in text:
                continue
            end = last.start_byte + len(self.text(last))
            line_end = self.data.find(b"\n", end)
            line_end = len(self.data) if line_end < 0 else line_end
            if self.data[end:line_end].strip():
                continue
            ending = b"\r\n" if self.data[line_end - 1 : line_end] == b"\r" else b"\n"
            detail = f"`{shown(text)}` in the loop before it"
            yield self.edit("early_return", end, end, ending + lead + text, detail)

    def on_call(self, node: Node) -> Iterator[Edit]:
        called, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if called is None or given is None or given.type != "argument_list":
            return
        values = [child for child in given.named_children if child.type != "comment"]
        method = called.child_by_field_name("attribute") if called.type == "attribute" else None
        name = self.text(method if method is not None else called).decode()
        for value in values:
            key = value.child_by_field_name("name") if value.type == "keyword_argument" else None
            if key is not None and self.text(key) in (b"key", b"default") and len(values) > 1:
                yield from self._without(given, values, value)
        if any(one.type in ("keyword_argument", "list_splat", "dictionary_splat") for one in values):
            return
        if method is not None:
            yield from self._of_method(node, called, name, given, values)
        elif called.type == "identifier":
            yield from self._of_function(node, name, given, values)

    def _without(self, given: Node, values: list[Node], value: Node) -> Iterator[Edit]:
        """Leave an argument out, with the comma that parts it from its neighbour."""
        at = values.index(value)
        start = values[at - 1].end_byte if at else value.start_byte
        end = value.end_byte if at else values[1].start_byte
        yield self.edit("argument_drop", start, end, b"", f"without `{shown(self.text(value))}`")

    def _of_method(
        self, node: Node, called: Node, name: str, given: Node, values: list[Node]
    ) -> Iterator[Edit]:
        owner = called.child_by_field_name("object")
        if owner is None:
            return
        if name in _CLEANERS and not values:
            yield self.swap("call_drop", node, self._grouped(owner))
        elif name == "get" and len(values) == 2:
            yield from self._without(given, values, values[1])
        elif name == "sort" and not values:
            yield self.edit(
                "order_reverse", given.start_byte + 1, given.end_byte - 1, b"reverse=True", "in reverse"
            )

    def _of_function(self, node: Node, name: str, given: Node, values: list[Node]) -> Iterator[Edit]:
        if len(values) != 1 or values[0].type == "generator_expression":
            return
        at = given.start_byte + 1
        if name in _WRAPPERS:
            yield self.swap("call_drop", node, self._grouped(values[0]))
        if name == "sorted":
            end = values[0].end_byte
            yield self.edit("order_reverse", end, end, b", reverse=True", "in reverse")
        elif name == "range":
            yield self.edit("loop_start", at, at, b"1, ", "from 1")
        elif name == "enumerate":
            end = values[0].end_byte
            yield self.edit("loop_start", end, end, b", 1", "from 1")
