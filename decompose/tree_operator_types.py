"""What the text of a program tells of types: enough to leave faults out that no compiler would take.

In: a `Source` and the name of its language. Out: `Types`: the declared types of names, what an expression
seems to be, and which value a function may return instead of its own. A guess that is wrong costs one
mutant that does not compile. Time is linear in the program, and nothing recurses.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from decompose.grammars import walk
from decompose.source import Definition, Source

_TEXT = re.compile(
    r"(?:System\.)?String|string|(?:std::)?string|(?:std::)?(?:w?string|string_view)|"
    r"&?(?:mut )?str|char ?\*+|CharSequence|StringBuilder|&?(?:mut )?String"
)
_NUMBER = re.compile(
    r"[iu](?:8|16|32|64|128|size)|usize|isize|u?int(?:8|16|32|64)?(?:_t)?|f32|f64|float(?:32|64)?|double|"
    r"(?:un)?signed(?: int| long| char)?|(?:unsigned |signed )?(?:long|short)(?: long)?(?: int)?|"
    r"size_t|ssize_t|s?byte|short|u?long|ushort|rune|number|decimal|uintptr|uint_fast\d+_t|ll|char|"
    r"Integer|Long|Double|Float|Short"
)
_BOOL = re.compile(r"bool(?:ean)?|Boolean|_Bool")
_NOISE = re.compile(r"\b(?:const|final|volatile|static|readonly|inline|constexpr|extern|register)\b|std::")
_MAKES_TEXT = frozenset(
    (
        *("format", "Format", "join", "Join", "repeat", "Repeat", "replace", "Replace", "Sprintf", "string"),
        *("String", "substr", "substring", "Substring", "toLowerCase", "ToLower", "to_lowercase", "ToString"),
        *("toString", "to_string", "toUpperCase", "ToUpper", "to_uppercase", "trim", "Trim", "TrimSpace"),
        "valueOf",
    )
)
_DEPTH = 60
_TYPED = ("type", "returns")
_NAMES = ("name", "pattern", "declarator")
_DECLARED = frozenset(("variable_declarator", "init_declarator"))


def plain_type(text: str) -> str:
    """A type without words that do not change what it holds, and without references in C++ and C#."""
    return " ".join(_NOISE.sub(" ", text.lstrip(": ")).split()).removesuffix("&").strip()


def kind_of_type(text: str) -> str:
    """`text`, `number`, `bool` or `other` for a type; "" when there is none."""
    told = plain_type(text)
    if not told or told in ("auto", "var"):
        return ""
    for kind, pattern in (("text", _TEXT), ("number", _NUMBER), ("bool", _BOOL)):
        if pattern.fullmatch(told):
            return kind
    return "other"


class Types:
    """Declared types of the names of one program; see the module."""

    def __init__(self, source: Source, language: str) -> None:
        self.language = language
        self.data = source.data
        self.declared: dict[str, set[str]] = {}
        self.uninitialized: set[str] = set()
        self.guessed: dict[str, set[str]] = {}
        self.results: dict[str, str] = {}
        for node, _ in walk(source.tree.root_node):
            self._note(node)
        for definition in source.definitions:
            last = re.split(r"[.:]+", definition.base)[-1]
            self.results[last] = self.result(definition)

    def text(self, node: Node | None) -> str:
        """The source of a node."""
        return "" if node is None else self.data[node.start_byte : node.end_byte].decode()

    def _note(self, node: Node) -> None:
        """Keep what a declaration says."""
        if not node.is_named or not node.child_count:
            return
        told = node.child_by_field_name("type")
        if told is None and node.type in ("short_var_declaration", "let_declaration", "variable_declarator"):
            self._guess(node)
            return
        if told is None or node.type in ("array_type", "generic_type", "pointer_type", "slice_type"):
            return
        kind = self.text(told)
        if len(kind) > 200:
            return
        names = [one for field in _NAMES for one in node.children_by_field_name(field)]
        seen = {one.id for one in names}
        names += [one for one in node.named_children if one.type in _DECLARED and one.id not in seen]
        for one in names:
            self._declare(one, kind, node)

    def _declare(self, node: Node, kind: str, around: Node) -> None:
        suffix = ""
        inner: Node | None = node
        filled = around.child_by_field_name("value") is not None
        for _ in range(_DEPTH):
            if inner is None or inner.type in (
                "identifier",
                "variable_name",
                "field_identifier",
                "function_declarator",
            ):
                break
            if inner.type in _DECLARED:
                filled = filled or any(one.type == "=" for one in inner.children)
                filled = filled or inner.child_by_field_name("value") is not None
            suffix += {"pointer_declarator": "*", "array_declarator": "[]"}.get(inner.type, "")
            if inner.child_by_field_name("dimensions") is not None:
                suffix += "[]"
            step = inner.child_by_field_name("declarator") or inner.child_by_field_name("name")
            inner = step or (inner.named_children[-1] if inner.type == "reference_declarator" else None)
        name = self.text(inner)
        if not name or inner is None or inner.type == "function_declarator":
            return
        self.declared.setdefault(name, set()).add(kind + suffix)
        locals_ = ("local_variable_declaration", "variable_declaration", "declaration", "let_declaration")
        if around.type in locals_ and not filled:
            self.uninitialized.add(name)
        if self.language in ("Java", "C#") and kind in ("var",):
            self._guess(node)

    def _guess(self, node: Node) -> None:
        """A type from the literal that a variable begins with."""
        left = node.child_by_field_name("left") or node.child_by_field_name("pattern")
        left = left or node.child_by_field_name("name")
        right = node.child_by_field_name("right") or node.child_by_field_name("value")
        if right is None and node.type == "variable_declarator" and node.named_child_count > 1:
            right = node.named_children[-1]
        if left is None:
            return
        if right is None:
            if node.type == "let_declaration":
                self.uninitialized.add(self.text(left))
            return
        names = left.named_children if left.type == "expression_list" else [left]
        values = right.named_children if right.type == "expression_list" else [right]
        if len(names) == len(values) and len(names) <= 20:
            for name, value in zip(names, values, strict=True):
                kind = self._literal(value)
                self.guessed.setdefault(self.text(name), set()).add(kind)

    def _literal(self, node: Node) -> str:
        kind = node.type
        if "string" in kind or self.text(node).startswith(("String::", "string(")):
            return "text"
        if kind in ("true", "false", "boolean_literal", "boolean"):
            return "bool"
        numbers = ("integer", "number", "int_literal", "float")
        if any(word in kind for word in numbers) and kind.endswith(("literal", "number", "integer", "float")):
            return "number"
        return ""

    def type_of(self, name: str) -> str:
        """The declared type of a name; "" when there is none or more than one."""
        found = self.declared.get(name, set())
        return plain_type(next(iter(found))) if len(found) == 1 else ""

    def kind(self, node: Node | None) -> str:
        """What an expression seems to be: `text`, `number`, `bool`, `other`, or "" when nothing tells.

        Only the first operands of nested sums and the like are gone down to.
        """
        for _ in range(_DEPTH):
            if node is None:
                return ""
            if told := self._literal(node):
                return told
            if node.type == "reference_expression":
                return "text" if self.language == "Rust" else "other"
            if node.type in ("identifier", "variable_name"):
                return self._kind_of_name(self.text(node))
            if node.type in (
                "parenthesized_expression",
                "argument",
                "expression_list",
                "parenthesized_statements",
            ):
                node = node.named_children[0] if node.named_children else None
            elif node.type in ("binary_expression", "binary"):
                right = node.child_by_field_name("right")
                if right is not None and self._literal(right) == "text":
                    return "text"
                node = node.child_by_field_name("left")
            else:
                return self._kind_of_other(node)
        return ""

    def _kind_of_name(self, name: str) -> str:
        kinds = {kind_of_type(one) for one in self.declared.get(name, ())} | self.guessed.get(name, set())
        for kind in ("text", "other", "number", "bool"):
            if kind in kinds:
                return kind
        return ""

    def _kind_of_other(self, node: Node) -> str:
        if node.type in ("array", "array_literal", "composite_literal", "hash", "array_expression", "tuple"):
            return "other"
        called = self.text(node.child_by_field_name("function") or node.child_by_field_name("name"))
        last = re.split(r"[.:>]+", called[-80:])[-1]
        if last in _MAKES_TEXT:
            return "text"
        if last in ("begin", "end", "cbegin", "cend", "rbegin", "rend", "find", "lower_bound", "upper_bound"):
            return "pointer"
        if node.type in ("call_expression", "method_invocation", "invocation_expression"):
            return kind_of_type(self.results.get(last, ""))
        return self._kind_of_place(node)

    def _kind_of_place(self, node: Node) -> str:
        """What `a[i]` or `a.b` is."""
        name = node.child_by_field_name("field") or node.child_by_field_name("name")
        if name is not None:
            return self._kind_of_name(self.text(name))
        if node.type in (
            "index_expression",
            "subscript_expression",
            "array_access",
            "element_access_expression",
        ):
            held = self.type_of(self.text(node.named_children[0]) if node.named_children else "")
            inner = re.fullmatch(
                r"(?:\[\d*\](.+)|(.+)\[\d*\]|[\w:]*<(.+)>|&(?:mut )?(?:Vec<(.+)>|\[(.+)\]))", held
            )
            return kind_of_type(next((one for one in inner.groups() if one), "")) if inner else ""
        return ""

    def result(self, definition: Definition) -> str:
        """The declared type of what a function returns; "" when there is none."""
        node = definition.node
        for field in ("return_type", "returns", "result", "type"):
            told = node.child_by_field_name(field)
            if told is not None:
                break
        else:
            return ""
        made = plain_type(self.text(told)) if told.end_byte - told.start_byte < 200 else ""
        declarator = node.child_by_field_name("declarator")
        for _ in range(_DEPTH):
            if declarator is None or declarator.type == "function_declarator":
                break
            if declarator.type == "reference_declarator":
                return ""
            made += "*" if declarator.type == "pointer_declarator" else ""
            declarator = declarator.child_by_field_name("declarator")
        if declarator is not None and declarator.type == "function_declarator" and self.language == "C++":
            trailing = next((one for one in declarator.children if one.type == "trailing_return_type"), None)
            if trailing is not None:
                made = plain_type(self.text(trailing).removeprefix("->"))
        return made

    def neutral(self, definition: Definition) -> str | None:
        """A value of the type that a compiled function returns; None when its type tells of none."""
        told = self.result(definition)
        kind = kind_of_type(told)
        language = self.language
        if not told or told in ("void", "()", "auto", "!", "never"):
            return None
        if kind == "bool":
            return "false"
        if kind == "number":
            boxed = {"Long": "0L", "Double": "0.0", "Float": "0f", "Short": "(short) 0"}
            floats = told in ("f32", "f64")
            return boxed.get(told, "0") if language == "Java" else "0.0" if floats else "0"
        if kind == "text":
            return self._empty_text(told)
        return _nothing(told, language)

    def _empty_text(self, told: str) -> str | None:
        if self.language == "Java":
            return "null" if told == "StringBuilder" else '""'
        if self.language == "C":
            return "0"
        if self.language == "Rust":
            return "String::new()" if told == "String" else '""' if told == "&str" else None
        if self.language == "C++":
            return "nullptr" if told.endswith("*") else '""'
        return '""' if told in ("string", "String", "System.String") else None


def _nothing(told: str, language: str) -> str | None:
    """The value of a type that is no number, text or truth value."""
    if language == "Java":
        return "null"
    if language == "C#":
        plain = not told.startswith(("ref ", "IEnumerable", "IEnumerator", "Task", "async"))
        return f"default({told})" if plain else None
    if language == "Go":
        return (
            "nil"
            if told.startswith(("[]", "map[", "*", "func(", "chan ")) or told in ("error", "any")
            else None
        )
    if language == "C":
        return "0" if told.endswith("*") else None
    if language == "C++":
        holds = re.match(
            r"(?:vector|map|unordered_map|set|unordered_set|deque|list|pair|queue|stack|tuple|optional)<",
            told,
        )
        return "nullptr" if told.endswith("*") else "{}" if holds else None
    if language == "Rust":
        for start, value in (("Vec<", "Vec::new()"), ("Option<", "None"), ("HashMap<", "HashMap::new()")):
            if told.startswith(start):
                return value
    return None
