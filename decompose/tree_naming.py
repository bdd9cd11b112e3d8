"""What the functions and classes of a syntax tree are called, and what tells overloads apart.

In: nodes of a tree. Out: names as the language writes them, without space that means nothing. A name that
the syntax does not tell is "".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from tree_sitter import Node

from decompose.definitions import syntax_of
from decompose.tree_syntax import READINGS

MAX_NAME = 500
"""Characters of a qualified name; more is no name, and would cost memory for each function below it."""

_MOST_STEPS = 12
"""Nodes that are gone down from a declarator to the name in it."""
_SPACE = re.compile(r"\s+")
_LOOSE_SPACE = re.compile(r"(?<=\W) | (?=\W)")


_NOT_BOUND = frozenset(
    (
        *("right", "value", "type", "default_value", "key", "parameters", "size", "arguments", "body"),
        "scope",
    )
)
"""Fields of a pattern or declarator that hold other things than the names it binds."""
_PARAMETERS = frozenset(
    (
        *("formal_parameter", "spread_parameter", "parameter", "parameter_declaration"),
        *("optional_parameter_declaration", "variadic_parameter_declaration", "variadic_parameter"),
    )
)


class Naming:
    """The names of one text."""

    def __init__(self, data: bytes, language: str) -> None:
        self.data = data
        self.language = language
        self.syntax = syntax_of(language)
        self.reading = READINGS[language]

    def text(self, node: Node) -> str:
        """The text of a node, as far as a name may reach."""
        end = min(node.end_byte, node.start_byte + MAX_NAME + 1)
        return _tight(self.data[node.start_byte : end].decode("utf-8", "replace"))

    def suffix(self, node: Node, holder: Node | None) -> str:
        """What tells a function from others of its name, in the class or the like that holds it."""
        if self.language in ("JavaScript", "TypeScript"):
            words = [child.type for child in node.children[:6] if child.type in ("static", "get", "set")]
            return f"({' '.join(words)})" if words else ""
        if self.language == "Rust":
            trait = None if holder is None else holder.child_by_field_name("trait")
            return "" if trait is None else f"({self.text(trait)})"
        if not self.reading.typed:
            return ""
        part = node
        for _ in range(_MOST_STEPS):
            told = part.child_by_field_name("parameters")
            below = part.child_by_field_name("declarator")
            if told is not None or below is None:
                break
            part = below
        if told is None:
            return "()"
        after = [self.text(one) for one in part.children if one.type in ("type_qualifier", "ref_qualifier")]
        return "(" + ",".join(self._types(told)) + ")" + "".join(f" {one}" for one in after)

    def _types(self, parameters: Node) -> Iterator[str]:
        """The types of parameters as written, without names and default values."""
        for one in parameters.named_children:
            if one.type in _PARAMETERS:
                yield self._type(one)
        # The grammar of C# leaves `params int[] xs` without a node of its own.
        yield from (f"{self.text(one)}..." for one in parameters.children_by_field_name("type"))

    def _type(self, parameter: Node) -> str:
        end = parameter.end_byte
        if (value := parameter.child_by_field_name("default_value")) is not None:
            end = value.start_byte
        name = (
            parameter.child_by_field_name("name")
            or parameter.child_by_field_name("declarator")
            or next((one for one in parameter.named_children if one.type == "variable_declarator"), None)
        )
        for _ in range(_MOST_STEPS):
            if name is None or not name.type.endswith("declarator"):
                break
            name = (
                name.child_by_field_name("declarator")
                or name.child_by_field_name("name")
                or next(iter(name.named_children), None)
            )
        start = parameter.start_byte
        text = self.data[start:end]
        if name is not None and "identifier" in name.type:
            text = text[: name.start_byte - start] + b" " + text[name.end_byte - start :]
        told = _tight(text.decode("utf-8", "replace").rstrip("= \t\r\n"))
        return told.removeprefix("final ")

    def name(self, node: Node) -> str:
        """A function's own name."""
        if self.language in ("C", "C++"):
            return self._declared(node)
        if self.language == "C#" and "operator" in node.type:
            word = next((child for child in node.children if child.type == "operator"), node)
            told = node.child_by_field_name("parameters") or node
            return _tight(self.data[word.start_byte : told.start_byte].decode("utf-8", "replace"))
        if node.type in self.syntax.unnamed:
            return self.syntax.unnamed[node.type]
        name = node.child_by_field_name("name")
        text = "" if name is None else self.text(name)
        if (
            name is None
            and "function_declaration" in node.type
            and self.language in ("JavaScript", "TypeScript")
        ):
            return "default"
        if node.type == "destructor_declaration":
            return f"~{text}"
        for child in node.children if self.language == "C#" else ():
            if child.type == "explicit_interface_specifier":
                return self.text(child).rstrip(".") + "." + text
        if node.type == "singleton_method" and (thing := node.child_by_field_name("object")) is not None:
            return f"{self.text(thing)}.{text}"
        if (receiver := node.child_by_field_name("receiver")) is not None:
            of = receiver_type(receiver)
            return f"{self.text(of)}.{text}" if of is not None else text
        return text

    def _declared(self, node: Node) -> str:
        part = node.child_by_field_name("declarator")
        for _ in range(_MOST_STEPS):
            if part is None or not part.type.endswith("declarator"):
                break
            part = part.child_by_field_name("declarator") or next(iter(part.named_children), None)
        if part is None:
            return ""
        end = part.end_byte
        names: list[str] = []
        for _ in range(_MOST_STEPS):
            if part.type != "qualified_identifier":
                break
            scope = part.child_by_field_name("scope")
            last = part.child_by_field_name("name")
            if scope is not None:
                names.append(self.text(scope.child_by_field_name("name") or scope))
            if last is None:
                return self.syntax.separator.join(names)
            part = last
        if part.type == "operator_cast" and (rest := part.child_by_field_name("declarator")) is not None:
            end = rest.start_byte
        told = self.data[part.start_byte : min(end, part.start_byte + MAX_NAME + 1)]
        names.append(_tight(told.decode("utf-8", "replace")))
        return self.syntax.separator.join(names)

    def scope(self, node: Node) -> str:
        """The name of a class or the like; "" where it has none."""
        if node.type in self.syntax.unnamed:
            return self.syntax.unnamed[node.type]
        name = node.child_by_field_name("name") or node.child_by_field_name("type")
        for _ in range(_MOST_STEPS):
            if name is None or name.type not in ("generic_type", "template_type"):
                break
            name = name.child_by_field_name("type") or name.child_by_field_name("name")
        return "" if name is None else self.text(name)


def _tight(text: str) -> str:
    """A text with one space between words and none elsewhere."""
    return _LOOSE_SPACE.sub("", _SPACE.sub(" ", text.strip()))


def receiver_type(receiver: Node) -> Node | None:
    """The type of a Go method's receiver, without pointer and type parameters."""
    declared = next((one for one in receiver.named_children if one.type == "parameter_declaration"), None)
    told = None if declared is None else declared.child_by_field_name("type")
    for _ in range(_MOST_STEPS):
        if told is None or told.type == "type_identifier":
            return told
        told = told.child_by_field_name("type") or next(iter(told.named_children), None)
    return None


def targets(pattern: Node, kinds: Collection[str]) -> Iterator[Node]:
    """The nodes of some kinds in a pattern or declarator that stand for names it binds."""
    stack = [pattern]
    while stack:
        node = stack.pop()
        if node.type in kinds:
            yield node
            continue
        cursor = node.walk()
        inner: list[Node] = []
        more = cursor.goto_first_child()
        while more:
            value = node.type == "pair_pattern" and cursor.field_name == "value"
            if cursor.node is not None and (value or cursor.field_name not in _NOT_BOUND):
                inner.append(cursor.node)
            more = cursor.goto_next_sibling()
        stack += reversed(inner)
