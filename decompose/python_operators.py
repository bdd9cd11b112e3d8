"""Mutation operators for Python, as edits of byte ranges proposed from the syntax tree.

In: one function of a `Source`. Out: edits, in no promised order, not all of which parse or change
anything: `decompose.mutate` keeps those that do. Two faults that would behave alike are proposed
once: an `if` with an `else` has its branches swapped, one without has its condition negated.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator

from tree_sitter import Node

from decompose.grammars import walk
from decompose.mutate import Edit
from decompose.python import parse_python
from decompose.python_proposals import Proposals, number, plain, shown
from decompose.python_slips import Slips
from decompose.removal import without
from decompose.source import Definition, Source

_BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_NEGATED = {
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
    "==": "!=",
    "!=": "==",
    "in": "not in",
    "not in": "in",
    "is": "is not",
    "is not": "is",
}
_ARITHMETIC = {
    "+": "-",
    "-": "+",
    "*": "+",
    "/": "*",
    "//": "/",
    "%": "//",
    "**": "*",
    "<<": ">>",
    ">>": "<<",
    "&": "|",
    "|": "&",
    "^": "&",
}
_SIBLINGS = {
    "all": "any",
    "any": "all",
    "max": "min",
    "min": "max",
    "ceil": "floor",
    "endswith": "startswith",
    "find": "rfind",
    "floor": "ceil",
    "isalpha": "isalnum",
    "isupper": "islower",
    "islower": "isupper",
    "lower": "upper",
    "lstrip": "rstrip",
    "rfind": "find",
    "rstrip": "lstrip",
    "startswith": "endswith",
    "upper": "lower",
}
_SYMMETRIC = frozenset({"gcd", "hypot", "isclose", "lcm", "max", "min"})
_MAX_NUMBER = 40


def propose(source: Source, definition: Definition) -> Iterator[Edit]:
    """Every edit that the operators propose in a function's body."""
    made = (_Operators(source, definition), Slips(source, definition))
    stack = [definition.body]
    while stack:
        node = stack.pop()
        if node.type in ("type", "comment"):
            continue
        for one in made:
            yield from one.of(node)
        stack += node.children


def fingerprint(source: Source, definition: Definition, edit: Edit | None) -> bytes:
    """A digest of the function's syntax tree after an edit, positions left out.

    Raises:
        SourceError: the edited function does not parse.
    """
    start, end = definition.span.start_byte, definition.span.end_byte
    text = source.data[start:end]
    if edit is not None:
        at, to = edit.start_byte - start, edit.end_byte - start
        text = text[:at] + edit.replacement.encode() + text[to:]
    indent = source.indent_before(start)
    if indent.removeprefix("\ufeff".encode()):
        text = b"if 1:\n" + indent + text
    return tree_digest(parse_python(text.decode()))


def tree_digest(root: ast.AST) -> bytes:
    """A digest of a syntax tree without positions; iterative, so that depth does not matter."""
    state = hashlib.blake2b(digest_size=16)
    stack: list[object] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.AST):
            values = [getattr(node, field, None) for field in node._fields]
            state.update(f"({type(node).__name__} {len(values)}".encode())
            stack += reversed(values)
        elif isinstance(node, list):
            state.update(f"[{len(node)}".encode())
            stack += reversed(node)
        else:
            # Python writes no integer of more than 4,300 digits in decimals.
            text = hex(node) if type(node) is int else repr(node)
            state.update(f"{type(node).__name__} {len(text)} {text}".encode("utf-8", "surrogatepass"))
    return state.digest()


class _Operators(Proposals):
    """The operators, applied to nodes of one function."""

    def on_comparison_operator(self, node: Node) -> Iterator[Edit]:
        for token in node.children_by_field_name("operators"):
            written = " ".join(self.text(token).decode().split())
            for name, table in (("compare_boundary", _BOUNDARY), ("compare_negate", _NEGATED)):
                if written in table:
                    yield self.swap(name, token, table[written].encode())

    def on_boolean_operator(self, node: Node) -> Iterator[Edit]:
        if token := node.child_by_field_name("operator"):
            yield self.swap("boolean_swap", token, b"or" if self.text(token) == b"and" else b"and")

    def on_binary_operator(self, node: Node) -> Iterator[Edit]:
        token, left = node.child_by_field_name("operator"), node.child_by_field_name("left")
        if token is None or left is None:
            return
        written = self.text(token).decode()
        formats = written == "%" and left.type in ("string", "concatenated_string")
        if written in _ARITHMETIC and not formats:
            yield self.swap("arithmetic_swap", token, _ARITHMETIC[written].encode())

    def on_augmented_assignment(self, node: Node) -> Iterator[Edit]:
        token = node.child_by_field_name("operator")
        if token is not None and (written := self.text(token).decode()[:-1]) in _ARITHMETIC:
            yield self.swap("arithmetic_swap", token, _ARITHMETIC[written].encode() + b"=")

    def on_unary_operator(self, node: Node) -> Iterator[Edit]:
        token, inner = node.child_by_field_name("operator"), node.child_by_field_name("argument")
        if token is not None and inner is not None and token.type in ("-", "~"):
            yield self.swap("unary_drop", node, self.text(inner))

    def on_not_operator(self, node: Node) -> Iterator[Edit]:
        if inner := node.child_by_field_name("argument"):
            yield self.swap("not_drop", node, self.text(inner))

    def on_integer(self, node: Node) -> Iterator[Edit]:
        written = self.text(node)
        if len(written) > _MAX_NUMBER or written[-1:] in b"jJlL":
            return
        try:
            value = int(written.replace(b"_", b""), 0)
        except ValueError:
            return
        yield self.swap("constant_plus", node, str(value + 1).encode())
        yield self.swap("constant_minus", node, str(value - 1).encode())

    def on_float(self, node: Node) -> Iterator[Edit]:
        written = self.text(node)
        if len(written) <= _MAX_NUMBER and written[-1:] not in b"jJ":
            yield self.swap("constant_plus", node, repr(float(written) + 1).encode())

    def on_true(self, node: Node) -> Iterator[Edit]:
        yield self.swap("constant_flip", node, b"False")

    def on_false(self, node: Node) -> Iterator[Edit]:
        yield self.swap("constant_flip", node, b"True")

    def on_string(self, node: Node) -> Iterator[Edit]:
        around = node.parent
        while around is not None and around.type in ("concatenated_string", "parenthesized_expression"):
            around = around.parent
        if around is None or around.type == "expression_statement" or node.end_byte <= self.doc_end:
            return
        close = node.children[-1] if node.children else None
        if close is not None and close.type == "string_end":
            detail = f"`{shown(self.text(node))}` with an X at its end"
            yield self.edit("string_change", close.start_byte, close.start_byte, b"X", detail)

    def _negate(self, condition: Node | None) -> Iterator[Edit]:
        if condition is not None and condition.type != "not_operator":
            yield self.swap("condition_negate", condition, b"not (" + self.text(condition) + b")")

    def on_while_statement(self, node: Node) -> Iterator[Edit]:
        yield from self._negate(node.child_by_field_name("condition"))

    def on_elif_clause(self, node: Node) -> Iterator[Edit]:
        yield from self._negate(node.child_by_field_name("condition"))

    def on_if_clause(self, node: Node) -> Iterator[Edit]:
        if node.named_children:
            yield from self._negate(node.named_children[0])

    def on_if_statement(self, node: Node) -> Iterator[Edit]:
        others = node.children_by_field_name("alternative")
        first = node.child_by_field_name("consequence")
        if len(others) == 1 and others[0].type == "else_clause" and first is not None:
            second = others[0].child_by_field_name("body")
            if second is not None and self._lead(first) == self._lead(second):
                old, other = self.text(first), self.text(second)
                between = self.data[first.start_byte + len(old) : second.start_byte]
                end = second.start_byte + len(other)
                new = other + between + old
                yield self.edit("branch_swap", first.start_byte, end, new, "the two branches")
                return
        yield from self._negate(node.child_by_field_name("condition"))

    def _lead(self, block: Node) -> bytes | None:
        lead = self.data[self.data.rfind(b"\n", 0, block.start_byte) + 1 : block.start_byte]
        return None if lead.strip() else lead

    def on_conditional_expression(self, node: Node) -> Iterator[Edit]:
        parts = [child for child in node.named_children if child.type != "comment"]
        if len(parts) != 3:
            return
        first, _, second = parts
        tail = self.text(second)
        if second.type in ("conditional_expression", "lambda"):
            tail = b"(" + tail + b")"
        new = tail + self.data[first.end_byte : second.start_byte] + self.text(first)
        yield self.swap("branch_swap", node, new)

    def on_return_statement(self, node: Node) -> Iterator[Edit]:
        values = [child for child in node.named_children if child.type != "comment"]
        if values and values[0].type != "none":
            yield self.edit("return_none", values[0].start_byte, values[-1].end_byte, b"None")

    def _remove(self, node: Node) -> Iterator[Edit]:
        if node.parent is None or node.parent.type != "block":
            return
        if _is_alone(node):
            yield self.edit("statement_remove", node.start_byte, node.end_byte, b"pass")
            return
        start, end = without(self.data, node.start_byte, node.end_byte)
        yield self.edit("statement_remove", start, end, b"", f"`{shown(self.text(node))}` left out")

    def on_expression_statement(self, node: Node) -> Iterator[Edit]:
        inner = node.named_children[0] if node.named_children else node
        bare = inner.type in ("string", "concatenated_string", "ellipsis", "integer")
        declares = inner.type == "assignment" and inner.child_by_field_name("right") is None
        shared = self.nonlocals and any(
            one.type == "identifier" and self.text(one) in self.nonlocals for one, _ in walk(inner)
        )
        if not (bare or declares or shared):
            yield from self._remove(node)

    def on_assert_statement(self, node: Node) -> Iterator[Edit]:
        yield from self._remove(node)

    def on_raise_statement(self, node: Node) -> Iterator[Edit]:
        yield from self._remove(node)

    def on_delete_statement(self, node: Node) -> Iterator[Edit]:
        yield from self._remove(node)

    def on_break_statement(self, node: Node) -> Iterator[Edit]:
        yield self.swap("break_continue", node, b"continue")

    def on_continue_statement(self, node: Node) -> Iterator[Edit]:
        yield self.swap("break_continue", node, b"break")

    def _shift(self, operator: str, node: Node, steps: tuple[bytes, ...]) -> Iterator[Edit]:
        """One more or one less than an expression that is no number."""
        if not number(node):
            text = self.text(node) if plain(node) else b"(" + self.text(node) + b")"
            for step in steps:
                yield self.swap(operator, node, text + step)

    def on_call(self, node: Node) -> Iterator[Edit]:
        called, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if called is None or given is None:
            return
        name = called.child_by_field_name("attribute") if called.type == "attribute" else called
        written = self.text(name).decode() if name is not None else ""
        if name is not None and name.type == "identifier" and written in _SIBLINGS:
            yield self.swap("call_swap", name, _SIBLINGS[written].encode())
        if given.type != "argument_list":
            return
        values = [child for child in given.named_children if child.type != "comment"]
        special = ("keyword_argument", "list_splat", "dictionary_splat")
        if any(value.type in special for value in values):
            return
        if called.type == "identifier" and written == "range" and values:
            yield from self._shift("loop_bound", values[min(1, len(values) - 1)], (b" + 1", b" - 1"))
        elif len(values) == 2 and written not in _SYMMETRIC:
            first, second = values
            new = self.text(second) + self.data[first.end_byte : second.start_byte] + self.text(first)
            yield self.edit("argument_swap", first.start_byte, second.end_byte, new)

    def on_slice(self, node: Node) -> Iterator[Edit]:
        colons = [child for child in node.children if child.type == ":"]
        if not colons:
            return
        start: Node | None = None
        stop: Node | None = None
        for child in node.named_children:
            if child.type == "comment":
                continue
            if child.end_byte <= colons[0].start_byte:
                start = child
            elif len(colons) < 2 or child.end_byte <= colons[1].start_byte:
                stop = child
        # With a negative step the missing ends mean something else.
        plain = len(colons) == 1
        if start is not None:
            yield from self._shift("slice_shift", start, (b" + 1",))
        elif plain:
            yield self.edit("slice_shift", node.start_byte, node.start_byte, b"1", "start at 1")
        if stop is not None:
            yield from self._shift("slice_shift", stop, (b" + 1", b" - 1"))
        elif plain:
            at = colons[0].end_byte
            yield self.edit("slice_shift", at, at, b"-1", "stop before the last")


def _is_alone(node: Node) -> bool:
    """Whether a block holds no other statement."""
    for step in ("prev_named_sibling", "next_named_sibling"):
        other = getattr(node, step)
        while other is not None and other.type == "comment":
            other = getattr(other, step)
        if other is not None:
            return False
    return True
