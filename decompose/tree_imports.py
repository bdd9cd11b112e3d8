"""Imports of a program taken apart, one piece a name, so that each can go elsewhere alone.

In: a node that brings in names. Out: `Import`s: the text of a statement and the names that it binds. One
that binds names without telling which (`import java.util.*`, `#include`, `require`) has none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tree_sitter import Node

_RUBY_LOADS = frozenset(("require", "require_relative", "load", "include", "using"))
_TYPES = frozenset(
    (
        *("import_statement", "import_declaration", "using_directive", "using_declaration"),
        *("namespace_alias_definition", "use_declaration", "extern_crate_declaration"),
        *("namespace_use_declaration", "preproc_include", "import_alias"),
    )
)


@dataclasses.dataclass(frozen=True)
class Import:
    """A statement that brings in names.

    Attributes:
        text: the statement.
        names: names that it binds; empty when it does not tell.
    """

    text: str
    names: frozenset[str]


def is_import(node: Node, language: str) -> bool:
    """Whether a top-level node does nothing but bring in names."""
    if node.type in _TYPES:
        return not (language == "TypeScript" and node.type == "import_alias")
    if language == "Ruby" and node.type == "call" and node.child_by_field_name("receiver") is None:
        method = node.child_by_field_name("method")
        return method is not None and _text(method) in _RUBY_LOADS
    return False


def imports_of(node: Node, language: str) -> list[Import]:
    """The imports that a node makes, each as a statement of its own."""
    split = _SPLIT.get(language)
    if split is None:
        return [Import(_text(node), frozenset())]
    return [Import(text, frozenset(name for name in names if name)) for text, *names in split(node)]


def _text(node: Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode("utf-8", "replace")


def _field(node: Node, name: str) -> str:
    return _text(node.child_by_field_name(name))


def _javascript(node: Node) -> Iterator[tuple[str, ...]]:
    clause = next((one for one in node.named_children if one.type == "import_clause"), None)
    source = _field(node, "source")
    if clause is None:
        required = next((one for one in node.named_children if one.type == "import_require_clause"), None)
        yield (_text(node), _text(required.named_children[0]) if required is not None else "")
        return
    word = "import type" if any(one.type == "type" for one in node.children) else "import"
    for part in clause.named_children:
        if part.type == "identifier":
            yield f"{word} {_text(part)} from {source};", _text(part)
        elif part.type == "namespace_import":
            yield f"{word} {_text(part)} from {source};", _text(part.named_children[-1])
        else:
            for one in part.named_children:
                name = _field(one, "alias") or _field(one, "name")
                yield f"{word} {{ {_text(one)} }} from {source};", name


def _java(node: Node) -> Iterator[tuple[str, ...]]:
    star = any(one.type == "asterisk" for one in node.named_children)
    yield _text(node), "" if star else _text(node).rstrip("; \t\r\n").rpartition(".")[2].strip()


def _go(node: Node) -> Iterator[tuple[str, ...]]:
    stack = [node]
    while stack:
        one = stack.pop()
        if one.type == "import_spec":
            yield f"import {_text(one)}", go_package(one)
        else:
            stack += reversed(one.named_children)


def go_package(spec: Node) -> str:
    """The name that an import of Go binds; "" for one that binds none or all."""
    alias = spec.child_by_field_name("name")
    if alias is not None:
        return "" if alias.type in ("dot", "blank_identifier") else _text(alias)
    parts = _field(spec, "path").strip('"`').split("/")
    last = parts[-1]
    # A path may end in a version: `math/rand/v2`, `gopkg.in/yaml.v3`.
    if len(parts) > 1 and last[:1] == "v" and last[1:].isdigit():
        last = parts[-2]
    return last.partition(".")[0].removeprefix("go-")


def _c_sharp(node: Node) -> Iterator[tuple[str, ...]]:
    yield _text(node), _field(node, "name")


def _cpp(node: Node) -> Iterator[tuple[str, ...]]:
    if node.type == "namespace_alias_definition":
        yield _text(node), _field(node, "name")
    elif node.type == "using_declaration" and not any(one.type == "namespace" for one in node.children):
        yield _text(node), _text(node).rstrip("; \t\r\n").rpartition("::")[2].strip()
    else:
        yield (_text(node).strip(),)


def _rust(node: Node) -> Iterator[tuple[str, ...]]:
    if node.type == "extern_crate_declaration":
        yield _text(node), _field(node, "alias") or _field(node, "name")
        return
    stack = [(one, "") for one in node.children_by_field_name("argument")]
    while stack:
        one, before = stack.pop()
        if one.type == "scoped_use_list":
            path = _field(one, "path")
            inner = one.child_by_field_name("list")
            told = f"{before}{path}::" if path else before
            stack += [(part, told) for part in reversed(inner.named_children if inner is not None else [])]
        elif one.type == "use_list":
            stack += [(part, before) for part in reversed(one.named_children)]
        elif one.type == "use_wildcard":
            yield (f"use {before}{_text(one)};",)
        elif one.type == "use_as_clause":
            path, alias = _field(one, "path"), _field(one, "alias")
            yield f"{_used(before, path)} as {alias};", alias
        else:
            path = _text(one)
            name = before.rstrip(":").rpartition("::")[2] if path == "self" else path.rpartition("::")[2]
            yield f"{_used(before, path)};", name


def _used(before: str, path: str) -> str:
    return f"use {before.removesuffix('::')}" if path == "self" and before else f"use {before}{path}"


def _php(node: Node) -> Iterator[tuple[str, ...]]:
    # In a list without braces the first clause tells for all: `use function f, g`.
    clauses = node.children if node.child_by_field_name("body") is None else []
    words = [*node.children, *(part for one in clauses[1:2] for part in one.children)]
    kind = next((f"{one.type} " for one in words if one.type in ("function", "const")), "")
    prefix = next((_text(one) for one in node.named_children if one.type == "namespace_name"), "")
    group = node.child_by_field_name("body")
    for one in (node if group is None else group).named_children:
        if one.type != "namespace_use_clause":
            continue
        own = next((child for child in one.children if child.type in ("function", "const")), None)
        word = kind or ("" if own is None else f"{own.type} ")
        path = _text(one) if own is None else _text(one)[len(own.type) :].strip()
        name = _field(one, "alias") or path.rpartition("\\")[2]
        yield f"use {word}{prefix}\\{path};" if prefix else f"use {word}{path};", name


_SPLIT = {
    "JavaScript": _javascript,
    "TypeScript": _javascript,
    "Java": _java,
    "Go": _go,
    "C#": _c_sharp,
    "C++": _cpp,
    "Rust": _rust,
    "PHP": _php,
}
