"""A program as pieces that can go elsewhere alone: declarations, imports and members, with their names.

In: a `Source` of any language but Python. Out: an `Outline`: for each scope (the program, a namespace, a
class) its pieces in order, with the names that each binds; and the names that a piece refers to. A statement
that does more than bind names binds none here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from tree_sitter import Node

from decompose.definitions import syntax_of
from decompose.source import Source
from decompose.tree_comments import Above
from decompose.tree_imports import imports_of, is_import
from decompose.tree_naming import receiver_type, targets
from decompose.tree_syntax import READINGS
from decompose.trees import Finder, Scope, is_guard


def _fields(**nodes: str) -> dict[str, tuple[str, ...]]:
    return {node: tuple(told.split()) for node, told in nodes.items()}


_NAME_TYPES = (
    "function_declaration generator_function_declaration class_declaration abstract_class_declaration "
    "interface_declaration type_alias_declaration enum_declaration record_declaration internal_module "
    "annotation_type_declaration function_signature method_declaration method_definition type_spec "
    "type_alias const_spec var_spec struct_specifier union_specifier enum_specifier class_specifier "
    "enumerator preproc_def preproc_function_def alias_declaration concept_definition "
    "struct_declaration delegate_declaration property_declaration event_declaration method "
    "singleton_method class module function_item struct_item enum_item union_item trait_item mod_item "
    "macro_definition const_item static_item type_item property_element trait_declaration "
    "variable_declarator public_field_definition local_function_statement"
)
_BINDS: dict[str, tuple[str, ...]] = {
    **_fields(**dict.fromkeys(_NAME_TYPES.split(), "name")),
    **_fields(
        field_definition="property",
        function_definition="declarator name",
        declaration="declarator",
        type_definition="declarator",
        field_declaration="declarator",
        assignment="left",
        const_element="",
    ),
}
"""Node types that bind names outside of functions -> fields that hold them; none: the first child."""
_THROUGH = frozenset(
    (
        *("export_statement", "lexical_declaration", "variable_declaration", "template_declaration"),
        *("linkage_specification", "declaration_list", "global_statement", "const_declaration"),
        *("var_declaration", "type_declaration", "field_declaration", "event_field_declaration"),
        *("property_declaration", "enumerator_list", "ambient_declaration", "var_spec_list"),
        *("local_declaration_statement", "expression_statement"),
    )
)
_TYPED = frozenset(("declaration", "type_definition", "field_declaration"))
"""Node types whose `type` may define one: `struct A { } a;`."""
_LEAVES = frozenset(
    (
        *("identifier", "type_identifier", "constant", "name", "field_identifier", "property_identifier"),
        *("private_property_identifier", "shorthand_property_identifier_pattern", "package_identifier"),
        *("namespace_identifier", "shorthand_property_identifier", "simple_symbol", "global_variable"),
    )
)
_TARGETS = _LEAVES | {"variable_name", "operator_name", "setter", "operator"}
_MEMBERS = frozenset(("field_identifier", "property_identifier", "private_property_identifier"))
_RECEIVES = frozenset(
    (
        *("method_invocation", "call", "member_call_expression", "scoped_call_expression", "field_access"),
        *("member_access_expression", "scoped_identifier", "scoped_type_identifier", "qualified_identifier"),
        *(
            "qualified_name",
            "nullsafe_member_call_expression",
            "scope_resolution",
            "function_call_expression",
        ),
        *("class_constant_access_expression", "member_access_expression", "nested_identifier"),
    )
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_PREAMBLE = frozenset(
    (
        *("hash_bang_line", "package_clause", "php_tag", "declare_statement", "inner_attribute_item"),
        *("file_scoped_namespace_declaration", "extern_alias_directive"),
    )
)


@dataclasses.dataclass(frozen=True)
class Unit:
    """A piece of a program.

    Attributes:
        scope: qualified name of what holds it.
        start, end: its bytes, with the comments and attributes that belong to it.
        text: its text, or that of the part of it that can go alone.
        names: names that it binds.
        owner: the type whose method it is, when it stands outside of that type.
        node: its syntax node.
        kind: `import`; `preamble`, what nothing may come before; `plain`.
        holder: the node of its scope.
    """

    scope: str
    start: int
    end: int
    text: str
    names: frozenset[str]
    owner: str
    node: Node
    kind: str
    holder: Node


_Part = tuple[str, frozenset[str], str, Node]
"""A declaration that can go alone: its text, the names that it binds, its owner, its node."""


@dataclasses.dataclass(frozen=True)
class Outline:
    """The pieces of a program.

    Attributes:
        units: scope -> its pieces in order.
        names: scope -> names that are bound in it.
        scopes: scope -> its nodes, in order.
    """

    units: dict[str, list[Unit]]
    names: dict[str, set[str]]
    scopes: dict[str, list[Scope]]


def outline(source: Source, language: str) -> Outline:
    """The pieces of a program; what stands under a condition is none."""
    finder = Finder(source.tree, source.data, language)
    finder.walk()
    made = Outline({}, {}, {})
    for scope in finder.scopes:
        if scope.live:
            made.scopes.setdefault(scope.path, []).append(scope)
            units = made.units.setdefault(scope.path, [])
            units += _units(source, scope, language)
    for path, told in made.units.items():
        names = made.names.setdefault(path, set())
        for unit in told:
            names |= unit.names if not unit.owner else set()
    return made


def all_names(source: Source, language: str) -> set[str]:
    """Names that a program binds outside of functions, under conditions too: those of members qualified."""
    finder = Finder(source.tree, source.data, language)
    finder.walk()
    separator = syntax_of(language).separator
    found = {one.base for one in source.definitions} | {one.span.name for one in source.definitions}
    for scope in finder.scopes:
        for unit in _units(source, scope, language):
            names = unit.names
            if unit.owner:
                names = frozenset(f"{unit.owner}{separator}{name}" for name in names)
            found |= {f"{scope.path}{separator}{name}" if scope.path else name for name in names}
            if scope.path:
                found.add(scope.path)
    stack = [source.tree.root_node]
    while stack:  # a name that is bound under a condition is bound
        node = stack.pop()
        if node.type in READINGS[language].closed or node.type in ("compound_statement", "statement_block"):
            continue
        if syntax_of(language).definitions.get(node.type) in ("function", "method", "class"):
            continue
        if "preproc_if" in node.type or node.type == "preproc_else" or node == source.tree.root_node:
            for child in node.named_children:
                found |= _bound(child, language) if not _owner(child, language) else set()
                stack.append(child)
    return found


def _units(source: Source, scope: Scope, language: str) -> Iterator[Unit]:
    data = source.data
    above = Above(data)
    attached = syntax_of(language).attached
    stack = list(reversed(scope.body.named_children))
    while stack:
        node = stack.pop()
        if node.type in attached:
            above.note(node)
            continue
        inner = node.named_children if node.type in _FLAT or node.type == "preproc_ifdef" else []
        if node.type in _FLAT or (inner and is_guard(node, inner)):
            stack += reversed(inner)
            continue
        belonging = above.of(node)
        above.forget()
        start = belonging[0].start_byte if belonging else node.start_byte
        rest = data[node.end_byte : node.end_byte + 40]
        ended = rest.lstrip(b" \t").startswith(b";") and not data[node.start_byte : node.end_byte].endswith(
            b";"
        )
        end = node.end_byte + (rest.index(b";") + 1 if ended else 0)
        text = data[start:end].decode().strip()
        if is_import(node, language):
            for one in imports_of(node, language):
                yield Unit(scope.path, start, end, one.text, one.names, "", node, "import", scope.node)
            continue
        kind = "preamble" if _is_preamble(node) else "plain"
        yield from (
            Unit(scope.path, start, end, part, names, owner, one, kind, scope.node)
            for part, names, owner, one in _parts(node, text, language)
        )


_FLAT = frozenset(("enum_body_declarations",))


def _is_preamble(node: Node) -> bool:
    if node.type in _PREAMBLE or (
        node.type == "namespace_definition" and node.child_by_field_name("body") is None
    ):
        return True
    first = node.named_children[0].type if node.named_child_count else ""
    return node.type == "expression_statement" and first == "string"


def _parts(node: Node, text: str, language: str) -> Iterator[_Part]:
    """The declarations in a node that can go alone."""
    if language in ("JavaScript", "TypeScript") and node.type in (
        "lexical_declaration",
        "variable_declaration",
    ):
        declared = [one for one in node.named_children if one.type == "variable_declarator"]
        word = _text(node.children[0])
        required = declared[0].child_by_field_name("value") if len(declared) == 1 else None
        pattern = declared[0].child_by_field_name("name") if len(declared) == 1 else None
        if len(declared) > 1:
            yield from (
                (f"{word} {_text(one)};", frozenset(_names(one, ("name",))), "", one) for one in declared
            )
            return
        if (
            required is not None
            and pattern is not None
            and pattern.type == "object_pattern"
            and _text(required).startswith("require(")
        ):
            for one in pattern.named_children:
                names = frozenset(_leaves(one))
                yield f"{word} {{ {_text(one)} }} = {_text(required)};", names, "", one
            return
    if language in ("Java", "C#", "C", "C++") and (split := _declared_apart(node)):
        yield from split
        return
    if language == "Go" and node.type in ("var_declaration", "type_declaration", "const_declaration"):
        listed = node.named_children[0] if node.named_child_count else node
        held = listed if listed.type == "var_spec_list" else node
        specs = [one for one in held.named_children if one.type.endswith(("_spec", "type_alias"))]
        counted = any(
            "iota" in _text(one).split() or one.child_by_field_name("value") is None for one in specs
        )
        if len(specs) > 1 and not (node.type == "const_declaration" and counted):
            word = _text(node.children[0])
            yield from ((f"{word} {_text(one)}", frozenset(_names(one, ("name",))), "", one) for one in specs)
            return
    owner = _owner(node, language)
    yield text, _bound(node, language), owner, node


def _declared_apart(node: Node) -> list[_Part]:
    """The variables of one declaration as a declaration each: `int a = 1, b;`; none for other nodes."""
    inner = next((one for one in node.named_children if one.type == "variable_declaration"), node)
    if node.type not in ("declaration", "field_declaration"):
        return []
    declared = inner.children_by_field_name("declarator") or [
        one for one in inner.named_children if one.type == "variable_declarator"
    ]
    kind = inner.child_by_field_name("type")
    if len(declared) < 2 or (kind is not None and kind.child_by_field_name("body") is not None):
        return []
    word = (node.text or b"")[: declared[0].start_byte - node.start_byte].decode()
    return [(f"{word}{_text(one)};", frozenset(_leaves(one)), "", one) for one in declared]


def _owner(node: Node, language: str) -> str:
    """The type whose method stands outside of it."""
    if language == "Go" and node.type == "method_declaration":
        receiver = node.child_by_field_name("receiver")
        told = None if receiver is None else receiver_type(receiver)
        return "" if told is None else _text(told)
    if language == "Rust" and node.type == "impl_item":
        told = node.child_by_field_name("type")
        return (
            _WORD.findall(_text(told))[-1]
            if told is not None and told.type == "type_identifier"
            else (next(iter(_WORD.findall(_text(told))), "") if told is not None else "")
        )
    if language == "C++":
        part: Node | None = node
        for _ in range(12):
            if part is None:
                return ""
            if part.type == "qualified_identifier":
                scope = part.child_by_field_name("scope")
                return "" if scope is None else _text(scope.child_by_field_name("name") or scope)
            below = part.child_by_field_name("declarator")
            if part.type == "template_declaration":
                below = next((one for one in part.named_children if one.type == "function_definition"), None)
            part = below
    if language in ("JavaScript", "TypeScript") and node.type == "expression_statement":
        one = node.named_children[0] if node.named_child_count else node
        left = one.child_by_field_name("left") if one.type == "assignment_expression" else None
        if left is not None and left.type == "member_expression":
            name = _text(left).partition(".")[0]
            return name if name.isidentifier() and name not in ("module", "exports", "window") else ""
    return ""


def _bound(node: Node, language: str) -> frozenset[str]:
    """Names that a declaration binds."""
    found: set[str] = set()
    stack = [node]
    while stack:
        one = stack.pop()
        fields = _BINDS.get(one.type)
        if fields is not None and not (language != "Ruby" and one.type in ("assignment", "method")):
            if one.type == "assignment":  # a local variable of Ruby is not seen by methods
                left = one.child_by_field_name("left")
                if left is not None and left.type in ("constant", "global_variable"):
                    found.add(_text(left))
                continue
            found.update(_names(one, fields))
            if one.type in _TYPED:
                stack += one.children_by_field_name("type")
            if one.type == "enum_specifier":
                stack += one.children_by_field_name("body")
        if one.type == "expression_statement":
            inner = one.named_children[0] if one.named_child_count else one
            if inner.type == "internal_module":
                stack.append(inner)
            elif language == "PHP" and inner.type == "function_call_expression":
                found.update(_defined(inner))
            elif _owner(one, language):
                found.add(_text(inner.child_by_field_name("left")).rpartition(".")[2])
        elif one.type in _THROUGH:
            stack += one.named_children
        elif language == "Ruby" and one.type == "call" and _text(one).startswith("attr_"):
            found.update(_text(leaf).lstrip(":") for leaf in _symbols(one))
    return frozenset(found)


def _defined(call: Node) -> Iterator[str]:
    """The constant of PHP's `define('NAME', ...)`."""
    if _text(call.child_by_field_name("function")) == "define":
        told = call.child_by_field_name("arguments")
        if told is not None and told.named_child_count:
            yield _text(told.named_children[0]).strip("'\"")


def _symbols(call: Node) -> list[Node]:
    told = call.child_by_field_name("arguments")
    return [] if told is None else [one for one in told.named_children if one.type == "simple_symbol"]


def _names(node: Node, fields: tuple[str, ...]) -> Iterator[str]:
    for field in fields:
        for target in node.children_by_field_name(field):
            yield from _leaves(target)
    if not fields:
        yield from _leaves(node.named_children[0])


def _leaves(target: Node) -> Iterator[str]:
    """Names in a pattern or declarator; of a qualified one the last."""
    return (_text(one).lstrip("$") for one in targets(target, _TARGETS))


@dataclasses.dataclass(frozen=True)
class Words:
    """Names that a piece of a program refers to.

    Attributes:
        plain: by themselves.
        called: by themselves, as functions only.
        members: behind another name.
    """

    plain: set[str]
    called: set[str]
    members: set[str]


def words(node: Node, language: str) -> Words:
    """Names that a piece refers to."""
    made = Words(set(), set(), set())
    parents: list[Node] = []
    cursor = node.walk()
    while True:
        here = cursor.node
        if here is not None:
            _note(made, here, cursor.field_name if parents else None, parents, language)
            if cursor.goto_first_child():
                parents.append(here)
                continue
        while not cursor.goto_next_sibling():
            if not parents or not cursor.goto_parent():
                return made
            parents.pop()


def _note(made: Words, here: Node, field: str | None, parents: list[Node], language: str) -> None:
    kind = here.type
    if kind == "preproc_arg":  # the text of a macro is not parsed
        made.plain.update(_WORD.findall(_text(here)))
    elif language == "PHP" and kind == "string_content":
        made.called.add(_text(here).rpartition("\\")[2])
    elif kind in _LEAVES:
        text = _text(here).lstrip(":")
        around = parents[-1] if parents else None
        if kind in _MEMBERS:
            made.members.add(text)
        elif around is not None and around.type == "variable_name":
            return
        elif (
            around is not None
            and around.type in _RECEIVES
            and field in ("name", "method", "field", "function")
        ):
            alone = here.start_byte == around.start_byte
            (made.called if alone else made.members).add(text)
        elif kind == "simple_symbol":
            made.called.add(text)
        else:
            made.plain.add(text)


def _text(node: Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode("utf-8", "replace")
