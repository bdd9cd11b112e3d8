"""Mutation operators for operators and literals.

In: nodes of a function's body. Out: edits. A node of a shape that is not known gives none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from decompose import tree_operator_syntax as syntax
from decompose.mutate import Edit
from decompose.tree_operator_base import MOST_MOVED, Base, binds_names, shown, token_of

_MAX_NUMBER = 40
_INTEGER = re.compile(
    r"(0[xX][0-9a-fA-F_']+|0[bB][01_']+|0[oO][0-7_']+|[0-9][0-9_']*)"
    r"([uUlLzZ]{0,3}|n|_?[iu](?:8|16|32|64|128|size)|_?f(?:32|64))"
)
_FLOAT = re.compile(r"([0-9][0-9_']*\.?[0-9_]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+)([fFdDmMlL]?|_?f(?:32|64))")
_EDGES = frozenset((127, 255, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1))
_QUOTES = ('"', "'", "`", '"""', "string_end", "raw_string_end")
_STREAM = re.compile(
    rb"\b(?:cout|cerr|clog|cin|endl|ostr?e?a?m?|out|in|iss|oss|ss|stream\w*|\w*stream)\b|[\"']"
)


class Values(Base):
    """The operators for expressions and literals."""

    def on_binary(self, node: Node) -> Iterator[Edit]:
        token = token_of(node)
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if token is None or left is None or right is None:
            return
        written = token.type
        for name, table in (
            ("compare_boundary", syntax.COMPARISONS_BOUNDARY),
            ("compare_negate", syntax.COMPARISONS_NEGATED),
        ):
            if written in table:
                yield self.swap(name, token, table[written].encode())
        if written in syntax.BOOLEAN and not (self.does.compiled and binds_names(left)):
            yield self.swap("boolean_swap", token, syntax.BOOLEAN[written].encode())
        if written in syntax.ARITHMETIC and self._counts(node, written, left, right):
            yield self.swap("arithmetic_swap", token, syntax.ARITHMETIC[written].encode())

    def _counts(self, node: Node, operator: str, left: Node, right: Node) -> bool:
        """Whether an operator with another in its place is still one of numbers, as far as the text tells."""
        kinds = {self.types.kind(left), self.types.kind(right)}
        if operator in ("<<", ">>"):
            if self.language == "Ruby":
                return left.type == "integer"
            if self.language == "C++":
                around = node
                for one in self.up():
                    if one.type != node.type:
                        break
                    around = one
                text = self.data[around.start_byte : min(around.end_byte, around.start_byte + 2000)]
                return "number" in kinds and not _STREAM.search(text)
        if operator == "/" and self.language == "C#":
            return "text" not in kinds
        if operator in "+-":
            if self.does.compiled and _pointer(self.text(left), self.text(right)):
                return False
            unknown = {"text", "other", "pointer"} if self.does.compiled else {"text", "other"}
            return not kinds & unknown
        if operator == "%" and self.language == "Ruby":
            return "text" not in kinds
        return "text" not in kinds

    def on_compound(self, node: Node) -> Iterator[Edit]:
        token = token_of(node)
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if token is None or left is None or right is None or not token.type.endswith("="):
            return
        written = token.type[:-1]
        if written in syntax.ARITHMETIC and self._counts(node, written, left, right):
            yield self.swap("arithmetic_swap", token, syntax.ARITHMETIC[written].encode() + b"=")
        elif written in syntax.BOOLEAN:
            yield self.swap("boolean_swap", token, syntax.BOOLEAN[written].encode() + b"=")

    def on_unary(self, node: Node) -> Iterator[Edit]:
        token = token_of(node)
        inner = node.named_children[-1] if node.named_children else None
        if token is None or inner is None or token.type not in ("!", "not", "-", "~"):
            return
        if token.type == "-" and inner.type in self.does.integers and len(self.text(inner)) > 9:
            return
        name = "not_drop" if token.type in ("!", "not") else "unary_drop"
        if node.end_byte - node.start_byte <= MOST_MOVED:
            yield self.swap(name, node, self.text(inner))

    def on_update(self, node: Node) -> Iterator[Edit]:
        token = next((one for one in node.children if one.type in ("++", "--")), None)
        around = self.parent(node)
        head = around is not None and around.type in ("for_statement", "for_clause")
        # The loop would hardly ever end.
        if token is not None and not head:
            yield self.swap("update_swap", token, b"--" if token.type == "++" else b"++")

    def on_integer(self, node: Node) -> Iterator[Edit]:
        written = self.text(node).decode()
        if len(written) > _MAX_NUMBER:
            return
        told = _INTEGER.fullmatch(written)
        if told is None:
            yield from self.on_float(node)
            return
        digits, suffix = told[1].replace("_", "").replace("'", ""), told[2]
        if "f" in suffix or (self.does.compiled and self.case(node)):
            return
        value = _value(digits)
        if value is None:
            return
        strict = self.does.compiled and not (suffix and value < 2**31)
        if not (strict and value in _EDGES) and value < 2**53:
            yield self.swap("constant_plus", node, f"{value + 1}{suffix}".encode())
        if not self._needs(node, value - 1) and value <= 2**53:
            yield self.swap("constant_minus", node, f"{value - 1}{suffix}".encode())

    def _needs(self, node: Node, value: int) -> bool:
        """Whether a place does not take a smaller constant: a compiler looks at it there."""
        parent = self.parent(node)
        if parent is None or not self.does.compiled:
            return False
        if value == 0:
            token = token_of(parent)
            return token is not None and token.type in ("/", "%", "/=", "%=")
        if value > 0:
            return False
        if self.language == "Rust":
            return True
        call = self.parent(parent)
        made = call is not None and self.data.startswith(b"make(", call.start_byte)
        listed = parent.type == "argument_list" and made
        places = ("array_creation_expression", "dimensions_expr", "array_declarator", "new_declarator")
        return parent.type in self.does.indexes or listed or parent.type in places or self._unsigned(parent)

    def _unsigned(self, node: Node) -> bool:
        told = node.child_by_field_name("type") or (
            around.child_by_field_name("type") if (around := self.parent(node)) is not None else None
        )
        return told is not None and self.text(told).startswith((b"u", b"byte", b"size"))

    def on_float(self, node: Node) -> Iterator[Edit]:
        told = _FLOAT.fullmatch(self.text(node).decode()) if len(self.text(node)) <= _MAX_NUMBER else None
        if told is not None:
            value = float(told[1].replace("_", "").replace("'", ""))
            if value + 1 != value:
                yield self.swap("constant_plus", node, (repr(value + 1) + told[2]).encode())

    def on_character(self, node: Node) -> Iterator[Edit]:
        text = self.text(node)
        if re.fullmatch(rb"'[ -~]'", text) and not self.case(node):
            inner = text[1:2]
            # A neighbour that needs no backslash.
            step = -1 if inner in b"z9Z~&[" else 1
            yield self.swap("constant_plus", node, b"'" + bytes((inner[0] + step,)) + b"'")

    def case(self, node: Node) -> bool:
        here: Node | None = node
        for _ in range(4):
            parent = self.parent(here) if here is not None else None
            if here is None or parent is None:
                return False
            if parent.type in self.does.cases:
                value = parent.child_by_field_name("value")
                return value is None or value.id == here.id
            here = parent
        return False

    def on_boolean(self, node: Node) -> Iterator[Edit]:
        written = self.text(node).lower()
        around = next((one for one in self.up() if one.type != "parenthesized_expression"), None)
        if (
            self.does.compiled
            and around is not None
            and around.type in self.does.loops | {"condition_clause"}
        ):
            return
        if written in (b"true", b"false"):
            yield self.swap("constant_flip", node, b"false" if written == b"true" else b"true")

    def on_string(self, node: Node) -> Iterator[Edit]:
        close = node.children[-1] if node.children else None
        start = self.text(node)[:1]
        if close is not None and close.type in _QUOTES:
            at = close.start_byte
        elif (
            self.language in ("C#", "Go", "Rust", "Java")
            and start in b'@"`'
            and self.text(node)[-1:] in b'"`'
        ):
            at = node.end_byte - 1
        else:
            return
        around = self.parent(node)
        if around is not None and around.type in ("expression_statement", "string", "chained_string"):
            return
        if at <= node.start_byte or self._told_to_nobody(node) or (self.does.compiled and self.case(node)):
            return
        detail = f"`{shown(self.text(node))}` with an X at its end"
        yield self.edit("string_change", at, at, b"X", close.start_point.row + 1 if close else 1, detail)

    def _told_to_nobody(self, node: Node) -> bool:
        """Whether a text is that of an error, or one that input is read by."""
        for depth, one in enumerate(self.up()):
            if one.type in self.does.throws:
                return True
            if one.type in self.does.calls or one.type == "macro_invocation":
                head = (
                    self.data[one.start_byte : one.start_byte + 80]
                    .decode("utf-8", "replace")
                    .partition("(")[0]
                )
                last = re.split(r"\W+", head.rstrip("! "))[-1]
                if (
                    last in syntax.FATAL
                    or "scanf" in last
                    or (self.language == "Ruby" and head.split()[:1] == ["raise"])
                ):
                    return True
            if depth > 6:
                return False
        return False


def _pointer(left: bytes, right: bytes) -> bool:
    """Whether a difference seems to be one of pointers or iterators."""
    told = re.compile(
        rb"\b(?:begin|end|cbegin|cend|rbegin|rend|find|lower_bound|upper_bound)\(|^(?:it|ptr|p|iter)$"
    )
    return bool(told.search(left[:400]) or told.search(right[:400]))


def _value(digits: str) -> int | None:
    try:
        if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
            return int(digits, 8)
        return int(digits, 0)
    except ValueError:
        return None
