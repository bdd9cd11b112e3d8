"""Programs of any language but Python taken apart by their syntax tree, driven by data.

In: text and the name of its language. Out: a `Source` whose definitions are the outermost functions,
methods, constructors and properties that have a body. Which nodes these are is data
(`decompose.definition_types`, `decompose.tree_syntax`); `docs/decompose.md` tells what is a step.
Wrong: `SourceError` with a line for a text with syntax errors, one that is too large or nested too deeply.
Time is linear in the text, and nothing recurses.
"""

from __future__ import annotations

import bisect
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node, Tree

from decompose.definition_types import CLASS_LIKE
from decompose.definitions import starts, syntax_of
from decompose.grammars import MAX_DEPTH, SourceError, encode_source, parse, tree_depth
from decompose.source import BLANK, Definition, Source, first_error, refuse_lone_returns
from decompose.tree_bodies import body_of
from decompose.tree_calls import Calls
from decompose.tree_comments import Above, docstring
from decompose.tree_naming import MAX_NAME, Naming
from decompose.tree_syntax import READINGS
from schemas.records import FunctionSpan

_KINDS = frozenset(("function", "method", "constructor", "property"))
_LAST_WINS = frozenset(("JavaScript", "TypeScript", "Ruby", "PHP"))
"""Languages in which a definition replaces an earlier one of its name."""
_MOST_STEPS = 12
"""Nodes that are gone down to the token that a definition begins with."""
_PLAIN_NAME = re.compile(r"[\w$#]+(?:\.[\w$#]+){0,20}")


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where the walk is.

    Attributes:
        node: what is looked at.
        path: qualified name of what is around it.
        kind: kind of the innermost scope; "" at the top.
        live: whether it is there whenever the program is loaded.
        outer: the outermost of the nodes that belong to the single definition in them.
        holder: the innermost class or the like around it.
    """

    node: Node
    path: str
    kind: str
    live: bool
    outer: Node | None
    holder: Node | None = None


@dataclasses.dataclass(frozen=True)
class Scope:
    """What holds statements or members.

    Attributes:
        path: its qualified name; "" for the program and what gives no name.
        kind: `class`, `namespace`, ...; "" for the program.
        node: its syntax node.
        body: the node whose children it holds.
        live: whether it is there whenever the program is loaded.
    """

    path: str
    kind: str
    node: Node
    body: Node
    live: bool


@dataclasses.dataclass(frozen=True)
class _Found:
    definition: Definition
    live: bool


def read(code: str, language: str) -> Source:
    """Take a program apart; see `docs/decompose.md` for what is a step.

    Raises:
        SourceError: the text is not a program of that language of a size and depth that is looked at.
    """
    data = encode_source(code)
    refuse_lone_returns(data)
    tree = parse(data, language)
    if (levels := tree_depth(tree, MAX_DEPTH + 1)) > MAX_DEPTH:
        raise SourceError(f"nested {levels} levels deep, more than {MAX_DEPTH}")
    if tree.root_node.has_error:
        raise SourceError(f"line {first_error(tree)}: not the syntax of {language}")
    finder = Finder(tree, data, language)
    found = finder.walk()
    definitions = tuple(_named_apart(found, language))
    reading = READINGS[language]
    calls = Calls(definitions, data, language, finder.classes)
    return Source(code, data, tree, definitions, None, reading.filler.encode(), calls.callees)


def _named_apart(found: list[_Found], language: str) -> Iterator[Definition]:
    """The definitions, those that are steps under names of their own."""
    last: dict[tuple[str, str], int] = {}
    several: dict[str, set[str]] = {}
    for number, one in enumerate(found):
        if one.live:
            told = one.definition
            last[told.base, told.suffix] = number
            several.setdefault(told.base, set()).add(told.suffix)
    seen: Counter[str] = Counter()
    for number, one in enumerate(found):
        told, step = one.definition, one.live
        if step and language in _LAST_WINS:
            step = last[told.base, told.suffix] == number
        name = told.base
        if step:
            if len(several[name]) > 1:
                name += told.suffix
            seen[name] += 1
            if seen[name] > 1:
                name += f"#{seen[name]}"
        yield dataclasses.replace(told, span=dataclasses.replace(told.span, name=name), step=step)


class Finder:
    """One walk over what lies outside of functions.

    Attributes:
        classes: qualified names of classes -> their syntax nodes.
        scopes: what holds statements or members outside of functions, the whole program first.
    """

    def __init__(self, tree: Tree, data: bytes, language: str) -> None:
        self.root = tree.root_node
        # What holds no definition is not gone through: a table of numbers may be most of a program.
        self.starts = starts(tree, language)
        self.data = data
        self.language = language
        self.syntax = syntax_of(language)
        self.naming = Naming(data, language)
        self.reading = READINGS[language]
        self.wrappers = self.syntax.wrappers | self.reading.holders
        self.values = dict(self.syntax.named_values) if language in ("JavaScript", "TypeScript") else {}
        self.classes: dict[str, list[Node]] = {}
        self.found: list[_Found] = []
        self.above = Above(data)
        self.scopes: list[Scope] = []
        self.line_end = -1

    def walk(self) -> list[_Found]:
        """The definitions of the tree, in order of position."""
        stack = [_Place(self.root, "", "", True, None)]
        self.scopes.append(Scope("", "", self.root, self.root, True))
        while stack:
            here = stack.pop()
            kind = self.syntax.definitions.get(here.node.type)
            if here.node.type in self.syntax.attached:
                self.above.note(here.node)
            elif kind in _KINDS:
                self._define(here, here.node, self.naming.name(here.node), kind)
            elif not self._holds(here.node) and here.node.type not in ("program", "export_statement"):
                continue
            elif (inner := self._valued(here)) is not None or (inner := self._scoped(here, kind)) is not None:
                stack += inner
            elif here.node.type not in self.reading.closed:
                stack += self._plain(here)
        return self.found

    def _holds(self, node: Node) -> bool:
        at = bisect.bisect_left(self.starts, node.start_byte)
        return at < len(self.starts) and self.starts[at] < node.end_byte

    def _plain(self, here: _Place) -> list[_Place]:
        """What lies in a node that is neither a definition nor names what is in it."""
        node = here.node
        children = node.named_children
        live = here.live and (
            node.type in self.reading.through or node.type in self.wrappers or is_guard(node, children)
        )
        outer = None
        if node.type in self.wrappers:
            main = [child for child in children if child.type not in self.syntax.attached]
            holds = [
                child for child in main if child.type not in ("template_parameter_list", "string_literal")
            ]
            outer = (here.outer or node) if len(holds) == 1 else None
        elif node.type == "call" and self._is_marked(node):
            live, outer = here.live, here.outer or node
            children = node.named_children[-1].named_children
        if node.type == "export_statement" and (value := node.child_by_field_name("value")) is not None:
            inner = self._value(here, value, "default", outer)
            if inner is not None:
                return inner
        return [_Place(one, here.path, here.kind, live, outer, here.holder) for one in reversed(children)]

    def _is_marked(self, node: Node) -> bool:
        """Whether a Ruby call marks the method that is its argument, as in `private def m`."""
        told = node.child_by_field_name("arguments")
        return (
            told is not None
            and told.named_child_count == 1
            and node.child_by_field_name("receiver") is None
            and told.named_children[0].type in ("method", "singleton_method")
        )

    def _valued(self, here: _Place) -> list[_Place] | None:
        """What lies in a value that has a name; None when it is no function, class or object."""
        node = here.node
        if node.type not in self.values:
            return None
        value = node.child_by_field_name(self.values[node.type])
        target = next(
            (one for f in ("name", "left", "key", "property") if (one := node.child_by_field_name(f))), None
        )
        if value is None or target is None:
            return None
        name = self.naming.text(target)
        if node.type == "assignment_expression":
            if value.type == "assignment_expression":
                return [dataclasses.replace(here, node=value, outer=here.outer or node)]
            if not _PLAIN_NAME.fullmatch(name):
                return None
        return self._value(here, value, name, here.outer)

    def _value(self, here: _Place, value: Node, name: str, outer: Node | None) -> list[_Place] | None:
        if value.type in self.syntax.values and value.type != "class":
            kind = "method" if here.kind in CLASS_LIKE else "function"
            self._define(dataclasses.replace(here, outer=outer), value, name, kind)
            return []
        if value.type in self.reading.classes:
            path = self._join(here.path, name)
            if value.type == "class":
                self.classes.setdefault(path, []).append(value)
            body = value.child_by_field_name("body") or value
            self.scopes.append(Scope(path, value.type, here.node, body, here.live))
            return [_Place(one, path, value.type, here.live, None) for one in reversed(body.named_children)]
        return None

    def _scoped(self, here: _Place, kind: str | None) -> list[_Place] | None:
        """What lies in a class or the like; None for anything else."""
        node = here.node
        if kind not in CLASS_LIKE and node.type not in self.reading.scopes:
            return self._made_class(here) if node.type == "assignment" else None
        body = node.child_by_field_name("body")
        if body is None:
            return []
        name = self.naming.scope(node)
        path = self._join(here.path, name) if name else here.path
        live = here.live and not self._conditional(node)
        if kind not in ("namespace", "module"):
            live = live and bool(name)
            if name:
                self.classes.setdefault(path, []).append(node)
        self.scopes.append(Scope(path, kind or "class", node, body, live))
        inner: list[_Place] = []
        for child in reversed(node.named_children):
            if child == body:
                inner += [
                    _Place(one, path, kind or "class", live, None, node)
                    for one in reversed(body.named_children)
                ]
            elif child.type in self.syntax.attached:
                inner.append(_Place(child, path, "", False, None))
        self.above.forget()
        return inner

    def _made_class(self, here: _Place) -> list[_Place] | None:
        """What lies in the block of Ruby's `Point = Struct.new(:x) do`."""
        left, right = (here.node.child_by_field_name(field) for field in ("left", "right"))
        block = None if right is None else right.child_by_field_name("block")
        maker = None if right is None else right.child_by_field_name("receiver")
        if left is None or block is None or maker is None or left.type != "constant":
            return None
        body = block.child_by_field_name("body")
        if body is None or self.naming.text(maker) not in ("Struct", "Class", "Module", "Data"):
            return None
        path = self._join(here.path, self.naming.text(left))
        self.classes.setdefault(path, []).append(here.node)
        self.scopes.append(Scope(path, "class", here.node, body, here.live))
        return [_Place(one, path, "class", here.live, None) for one in reversed(body.named_children)]

    def _conditional(self, node: Node) -> bool:
        """Whether Rust's `#[cfg(...)]` stands above a node."""
        return any(
            one.type == "attribute_item" and self.data.startswith(b"#[cfg(", one.start_byte)
            for one in self.above.of(node)
        )

    def _define(self, here: _Place, node: Node, name: str, kind: str) -> None:
        body = body_of(
            node, self.data, self.language, kind == "constructor" or name in self.syntax.constructors
        )
        outer = here.outer or (node if node == here.node else here.node)
        above = self.above.of(outer)
        live = here.live and not self._conditional(outer)
        self.above.forget()
        if body is None or not name:
            return
        base = self._join(here.path, name)
        start = above[0].start_byte if above else outer.start_byte
        end = outer.start_byte + len(self.data[outer.start_byte : outer.end_byte].rstrip(BLANK + b"\n"))
        signature = self.data[self._head(outer, node) : body.head_end]
        span = FunctionSpan(
            name=base,
            kind=self._kind(node, name, kind, here),
            start_byte=start,
            end_byte=end,
            signature=signature.decode(),
            docstring=docstring(above, self.data),
            calls=[],
            depth=0,
        )
        made = Definition(
            span=span,
            node=node,
            step=False,
            head_end=body.head_end,
            line_end=self._line_end(body.head_end),
            body_start=body.start,
            body_end=body.end,
            doc_end=None,
            indent=body.indent,
            newline=body.newline,
            body=body.node,
            meaning=None,
            blank=body.blank,
            base=base,
            suffix=self.naming.suffix(node, here.holder),
            outer=outer,
        )
        self.found.append(_Found(made, live))

    def _line_end(self, at: int) -> int:
        """End of the line of a byte; asked for in order, so that one long line is read once."""
        if self.line_end < at:
            found = self.data.find(b"\n", at)
            self.line_end = len(self.data) if found < 0 else found
        return self.line_end - (self.data[self.line_end - 1 : self.line_end] == b"\r")

    def _kind(self, node: Node, name: str, kind: str, here: _Place) -> str:
        last = name.rpartition(self.syntax.separator)[2]
        if kind == "property" or any(child.type in ("get", "set") for child in node.children[:6]):
            return "property"
        inside = here.kind and here.kind not in ("namespace", "module")
        if self.language == "Ruby":
            kind = "method" if here.kind else "function"
        if inside or kind == "method" or self.syntax.separator in name:
            owner = self._join(here.path, name).split(self.syntax.separator)[-2:-1]
            if last in self.syntax.constructors or (self.language == "C++" and [last] == owner):
                return "constructor"
            return kind if kind == "constructor" else "method"
        return kind

    def _join(self, path: str, name: str) -> str:
        made = f"{path}{self.syntax.separator}{name}" if path else name
        if len(made) > MAX_NAME:
            raise SourceError(f"the name of {len(made)} characters is longer than {MAX_NAME}")
        return made

    def _head(self, outer: Node, node: Node) -> int:
        """First byte of the signature: past the attributes that a definition begins with."""
        part = outer
        for _ in range(_MOST_STEPS):
            for child in part.children:
                if child.type not in self.reading.attributes and child.type not in self.syntax.attached:
                    break
            else:
                return node.start_byte
            holds = child.type in self.reading.modifiers or (child.type in self.wrappers or child == node)
            if not holds:
                return child.start_byte
            if child.type in self.reading.modifiers and all(
                one.type in self.reading.attributes for one in child.children
            ):
                following = part.children[part.children.index(child) + 1 :]
                return following[0].start_byte if following else child.start_byte
            part = child
        return part.start_byte


def is_guard(node: Node, children: list[Node]) -> bool:
    """Whether a node is what keeps a C header from being read twice: `#ifndef X`, `#define X`."""
    if node.type != "preproc_ifdef" or node.children[0].type != "#ifndef" or len(children) < 2:
        return False
    name = children[0]
    defined = next((one for one in children[1:] if one.type != "comment"), None)
    if defined is None or defined.type != "preproc_def":
        return False
    told = defined.child_by_field_name("name")
    return told is not None and told.text == name.text
