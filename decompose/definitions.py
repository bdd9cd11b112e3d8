"""The definitions of a source text in any mined language: functions, methods, classes and their like.

In: source text, or its syntax tree. Out: one `Item` a definition, outermost first, in order of
position. The text need not be a whole program: where it has syntax errors, what the parser recovered is
given. Which nodes are definitions is data (`decompose.definition_types`). Time is linear in the text, and
nothing recurses.
Wrong: `SourceError` for a text that is too large or no text; `AssayError` for an unknown language.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter

from tree_sitter import Node, Query, QueryCursor, QueryError, Tree

from decompose.definition_types import CLASS_LIKE, SYNTAX, Syntax
from decompose.grammars import SourceError, encode_source, grammar, parse
from schemas.errors import AssayError

MAX_NAME = 120
"""Characters of one part of a qualified name; hostile text may call a page of operators a name."""

MAX_BROKEN = 20_000
"""Parts of one syntax error that are looked at; a broken file of real source has some thousands."""

_NAME_FIELDS = ("name", "declarator", "left", "key", "property", "type")
_MOST_STEPS = 12
"""Nodes that are gone down from a declarator to the name in it."""
_WIDEST = 200
"""Bytes of indentation that are looked at; more would make a file of one line slow."""
_RECEIVER = re.compile(r"([A-Za-z_]\w{0,99})\s{0,9}(?:\[[^\]]{0,200}\])?\s{0,9}\)$")
"""The type in a Go method's receiver."""


@dataclasses.dataclass(frozen=True)
class Item:
    """One definition. Bytes index the text as UTF-8, ends exclusive; lines count from 1, ends inclusive.

    Attributes:
        name: qualified name, such as `Stack.push`; `<anonymous>` where the syntax has none.
        kind: `function`, `method`, `constructor`, `class`, `struct`, `interface`, `trait`, `enum`, ...
        start_byte, end_byte: the definition with the comments, decorators and attributes directly above it.
        start_line, end_line: its lines.
        head_byte, head_line: where the definition itself begins, below what stands above it.
        body_byte: first byte of the body, so that the signature is `head_byte:body_byte`; None without one.
        body_end: one past the last byte of the body; None without one.
        signature_line: last line of the signature.
        parent: position in the list of the definition around it; None at the top.
        depth: number of definitions around it.
    """

    name: str
    kind: str
    start_byte: int
    end_byte: int
    start_line: int
    end_line: int
    head_byte: int
    head_line: int
    body_byte: int | None
    body_end: int | None
    signature_line: int
    parent: int | None
    depth: int

    @property
    def is_function(self) -> bool:
        """Whether it is run as one, as functions, methods, constructors and properties are."""
        return self.kind in ("function", "method", "constructor", "initializer", "property")


def syntax_of(language: str) -> Syntax:
    """The node types of a language.

    Raises:
        AssayError: the language is not known.
    """
    if language not in SYNTAX:
        raise AssayError(
            f"{language}: definitions of this language are not known; known are {', '.join(SYNTAX)}"
        )
    return SYNTAX[language]


@functools.cache
def _query(language: str) -> Query:
    syntax = syntax_of(language)

    def one_of(types: list[str]) -> str:
        return "[" + " ".join(f"({one})" for one in types) + "]"

    parts = [f"{one_of(sorted(syntax.definitions))} @definition"]
    parts += [
        f"({node} {field}: {one_of(list(syntax.values))}) @definition" for node, field in syntax.named_values
    ]
    if syntax.wrappers:
        parts.append(f"{one_of(sorted(syntax.wrappers))} @wrapper")
    parts.append(f"{one_of(sorted(syntax.attached))} @attached")
    try:
        return Query(grammar(language), "\n".join(parts))
    except QueryError as error:
        raise AssayError(
            f"{language}: its grammar is of another version ({error}); install the pinned one"
        ) from None


def definitions(code: str, language: str) -> list[Item]:
    """The definitions of a source text, in order of position.

    Raises:
        SourceError: the text is too large, or holds a NUL or a lone surrogate.
        AssayError: the language is not known or its grammar is not installed.
    """
    data = encode_source(code)
    return items(parse(data, language), data, language)


def items(tree: Tree, data: bytes, language: str) -> list[Item]:
    """`definitions` of a text that has been parsed: its tree and its bytes.

    Raises:
        SourceError: the text was made to be slow.
    """
    syntax = syntax_of(language)
    captures = _captures(_query(language), tree)
    above = _whole_lines(captures.get("attached", []), data)
    nodes = [(node, True) for node in captures.get("definition", [])]
    nodes += [(node, False) for node in captures.get("wrapper", [])]
    # Of two nodes with the same span the wrapper is the outer one.
    nodes.sort(key=lambda one: (one[0].start_byte, -one[0].end_byte, one[1]))
    found: list[Item] = []
    around: list[Node] = []
    holds: dict[int, _Children] = {}
    open_items: list[int] = []
    for node, is_definition in nodes:
        while around and around[-1].end_byte <= node.start_byte:
            around.pop()
        if is_definition:
            outer = _outermost(around, node, holds, syntax)
            while open_items and found[open_items[-1]].end_byte <= node.start_byte:
                open_items.pop()
            parent = open_items[-1] if open_items else None
            made = _item(node, outer, parent, found, above, data, syntax)
            if made is not None:
                open_items.append(len(found))
                found.append(made)
        around.append(node)
    return found


def starts(tree: Tree, language: str) -> list[int]:
    """Where the definitions of a tree begin, and other nodes that may be one, in order.

    Raises:
        SourceError: the text was made to be slow.
    """
    found = _captures(_query(language), tree).get("definition", [])
    return sorted(node.start_byte for node in found)


@functools.cache
def _import_query(language: str) -> Query | None:
    wanted = sorted(syntax_of(language).imports)
    types = " ".join(f"({one})" for one in wanted)
    return Query(grammar(language), f"[{types}] @import") if wanted else None


def imports(tree: Tree, language: str) -> list[Node]:
    """The nodes of a tree that bring in names from elsewhere, in order of position.

    Raises:
        SourceError: the text was made to be slow.
    """
    query = _import_query(language)
    found = _captures(query, tree).get("import", []) if query else []
    return sorted(found, key=lambda node: node.start_byte)


def _captures(query: Query, tree: Tree) -> dict[str, list[Node]]:
    """What a query finds in a tree.

    Raises:
        SourceError: a syntax error has more than `MAX_BROKEN` parts. tree-sitter looks at all siblings
            after a token to know whether one is named, so that 100,000 opening braces would take a minute.
    """
    if tree.root_node.has_error:
        stack = [tree.root_node]
        while stack:
            node = stack.pop()
            if node.is_error and node.child_count > MAX_BROKEN:
                raise SourceError(
                    f"line {node.start_point.row + 1}: a syntax error of {node.child_count} parts"
                )
            if node.has_error:
                stack += node.children
    return QueryCursor(query).captures(tree.root_node)


class _Children:
    """What a node holds directly; listed once a node, so that all of it is linear."""

    def __init__(self, node: Node) -> None:
        named = node.named_children
        self.ids = {child.id for child in named}
        self.types = Counter(child.type for child in named)


def _outermost(around: list[Node], node: Node, holds: dict[int, _Children], syntax: Syntax) -> Node:
    """The outermost of the wrappers around a definition that hold nothing else of its type."""
    outer = node
    for wrapper in reversed(around):
        if wrapper.type not in syntax.wrappers:
            break
        if wrapper.id not in holds:
            holds[wrapper.id] = _Children(wrapper)
        inside = holds[wrapper.id]
        if outer.id not in inside.ids or inside.types[outer.type] > 1:
            break
        outer = wrapper
    return outer


def last_row(node: Node) -> int:
    """Row of a node's last byte, counted from 0; some nodes reach over the line feed."""
    end = node.end_point
    return end.row - 1 if end.column == 0 and end.row > node.start_point.row else end.row


def _whole_lines(nodes: list[Node], data: bytes) -> dict[int, Node]:
    """Nodes that have their lines to themselves, by their last row."""
    found = {}
    for node in nodes:
        start, column = node.start_byte, node.start_point.column
        if column > _WIDEST or data[start - column : start].strip():
            continue
        rest = data[node.end_byte : node.end_byte + _WIDEST].partition(b"\n")
        if node.end_point.column == 0 or not rest[0].strip():
            found[last_row(node)] = node
    return found


def _body(node: Node, syntax: Syntax) -> Node | None:
    value = node
    for holder, field in syntax.named_values:
        if node.type == holder:
            value = node.child_by_field_name(field) or node
    if (body := value.child_by_field_name("body")) is not None:
        return body
    if syntax.bodies:
        for child in reversed(value.named_children):
            if child.type in syntax.bodies:
                return child
    return None


def _named(node: Node, data: bytes, syntax: Syntax) -> str:
    """The definition's own name, without those around it."""
    if node.type in syntax.unnamed:
        return syntax.unnamed[node.type]
    part = next((one for field in _NAME_FIELDS if (one := node.child_by_field_name(field))), None)
    for _ in range(_MOST_STEPS):
        if part is not None and part.type == "generic_type":  # the `S` of Rust's `impl<T> S<T>`
            part = part.child_by_field_name("type")
        if part is None or not part.type.endswith("declarator"):
            break
        part = part.child_by_field_name("declarator") or next(iter(part.named_children), None)
    name = _name_in(part, data) if part is not None else ""
    if (receiver := node.child_by_field_name("receiver")) is not None and (
        of := _RECEIVER.search(text_of(receiver, data))
    ):
        name = f"{of[1]}{syntax.separator}{name}"
    return name or "<anonymous>"


def text_of(node: Node, data: bytes, most: int = 400) -> str:
    """The text of a node, at most its first `most` bytes."""
    return data[node.start_byte : min(node.end_byte, node.start_byte + most)].decode("utf-8", "replace")


def _name_in(node: Node, data: bytes) -> str:
    return "".join(text_of(node, data).split())[:MAX_NAME]


def _item(
    node: Node,
    outer: Node,
    parent: int | None,
    found: list[Item],
    above: dict[int, Node],
    data: bytes,
    syntax: Syntax,
) -> Item | None:
    body = _body(node, syntax)
    if body is None and node.type.endswith("_specifier"):
        return None  # `struct stat sb;` names a type and defines none
    first, start_row = outer, outer.start_point.row
    # Only what has its line to itself and ends on the line above belongs to the definition.
    if not data[outer.start_byte - min(outer.start_point.column, _WIDEST) : outer.start_byte].strip():
        while (comment := above.get(start_row - 1)) is not None:
            first, start_row = comment, comment.start_point.row
    name, kind = _named(node, data, syntax), syntax.definitions.get(node.type, "function")
    within = found[parent] if parent is not None else None
    if kind == "function" and within is not None and within.kind in CLASS_LIKE - {"namespace", "module"}:
        kind = "method"
    if kind == "function" and node.type == "method":
        kind = "method"
    if kind == "method":
        last = name.rpartition(syntax.separator)[2]
        owner = within.name.rpartition(syntax.separator)[2] if within is not None else ""
        if last in syntax.constructors or (syntax.separator == "::" and last == owner):
            kind = "constructor"
    signature_row = node.start_point.row
    if body is not None:
        signature_row = body.start_point.row
        if data[body.start_byte : body.start_byte + 1] != b"{":
            ahead = data[node.start_byte : body.start_byte].rstrip()
            signature_row = node.start_point.row + ahead.count(b"\n")
    qualified = name if within is None else f"{within.name}{syntax.separator}{name}"
    return Item(
        name=qualified[-4 * MAX_NAME :],
        kind=kind,
        start_byte=first.start_byte,
        end_byte=max(outer.end_byte, first.end_byte),
        start_line=start_row + 1,
        end_line=last_row(outer) + 1,
        head_byte=node.start_byte,
        head_line=node.start_point.row + 1,
        body_byte=body.start_byte if body is not None else None,
        body_end=body.end_byte if body is not None else None,
        signature_line=signature_row + 1,
        parent=parent,
        depth=0 if within is None else within.depth + 1,
    )
