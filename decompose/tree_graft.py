"""One function of one program inside another, in any language but Python: see `decompose.graft`.

Names are looked for from the inside out: among the members of the classes around the function, then in the
namespaces, then in the program. What the reference lacks goes there: members into the same class, the rest
before the statement that holds the function, imports to the others. A class of the reference that lacks a
member which the function uses gets it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from decompose.definitions import syntax_of
from decompose.grammars import walk
from decompose.skeleton import splice
from decompose.source import Definition, Source, read
from decompose.tree_calls import bound_by
from decompose.tree_imports import go_package
from decompose.tree_units import Outline, Unit, outline, words

_MOST_STEPS = 12
"""Nodes that are gone down to the definition in what is around it."""
_NAMESPACES = frozenset(("", "namespace", "module"))


def graft(reference: str, candidate: str, name: str, language: str) -> str:
    """The reference program with one function of the candidate in place of its own.

    Raises:
        SourceError: either text is not a program, or lacks the function.
    """
    host, guest = read(reference, language), read(candidate, language)
    mine = host.step(name)
    step = guest.counterpart(mine)
    text = guest.data[step.span.start_byte : step.span.end_byte].decode()
    made = splice(reference, mine.span.name, text, language)
    plan = _Plan(outline(host, language), outline(guest, language), language)
    plan.need(step)
    # What the reference's own function calls is declared where it needs to be.
    told = words(mine.outer, language)
    plan.called -= told.plain | told.called
    return _with(made, mine.span.name, plan, language)


class _Plan:
    """What a function needs and the host lacks.

    Attributes:
        wanted: pieces of the guest that come along.
        imports: imports of the guest that come along.
        called: names of functions that what comes along refers to.
    """

    def __init__(self, host: Outline, guest: Outline, language: str) -> None:
        self.host = host
        self.guest = guest
        self.language = language
        self.separator = syntax_of(language).separator
        self.wanted: list[Unit] = []
        self.imports: list[Unit] = []
        self.called: set[str] = set()
        self._seen: set[tuple[int, str]] = set()
        self._tops = {path for path, told in guest.scopes.items() if told[0].kind in _NAMESPACES}
        self._bindings: dict[str, dict[str, list[Unit]]] = {}
        for path, units in guest.units.items():
            binding = self._bindings.setdefault(path, {})
            for unit in units:
                for name in unit.names if not unit.owner else ():
                    binding.setdefault(name, []).append(unit)
        self._classes: dict[str, list[str]] = {}
        for path in self._bindings.keys() - self._tops:
            self._classes.setdefault(path.rpartition(self.separator)[2], []).append(path)
        # Methods that stand outside of their types: by the type, and by their own names.
        self._owned: dict[str, list[Unit]] = {}
        self._outside: dict[str, list[Unit]] = {}
        for unit in guest.units[""]:
            if unit.owner:
                self._owned.setdefault(unit.owner, []).append(unit)
                for name in unit.names:
                    self._outside.setdefault(name, []).append(unit)
        self._has = {(one.owner, name) for one in host.units[""] for name in one.names if one.owner}

    def need(self, step: Definition) -> None:
        """Find what a step needs, straight or through other pieces."""
        path = step.base.rpartition(self.separator)[0]
        stack: list[tuple[Node, str]] = [(step.outer, path)]
        unknown = False
        while stack:
            node, scope = stack.pop()
            told = words(node, self.language)
            # What a class binds inside of its methods hides nothing from the other ones.
            own = bound_by(node, self.language) if self._is_function(node) else frozenset()
            plain = (told.plain - own) | told.called
            self.called |= plain
            fresh: list[Unit] = []
            for name in sorted(plain | told.members):
                units = self._lookup(name, scope, name in plain)
                unknown = unknown or (units is None and name in plain)
                fresh += units or []
            fresh += self._members(plain, told.members, scope)
            for unit in fresh:
                stack += self._want(unit)
        self._stars(unknown)

    def _is_function(self, node: Node) -> bool:
        syntax = syntax_of(self.language)
        for _ in range(_MOST_STEPS):
            kind = syntax.definitions.get(node.type, "")
            if kind or node.type not in syntax.wrappers or not node.named_child_count:
                return kind in ("function", "method", "constructor", "property") or "declarator" in node.type
            node = node.named_children[-1]
        return False

    def _want(self, unit: Unit) -> list[tuple[Node, str]]:
        if (unit.start, unit.text) in self._seen:
            return []
        self._seen.add((unit.start, unit.text))
        if unit.kind == "import":
            self.imports.append(unit)
            return []
        self.wanted.append(unit)
        found = [(unit.node, unit.scope)]
        # The methods of a type that stand outside of it come with it.
        for name in sorted(unit.names) if unit.scope == "" and not unit.owner else ():
            for other in self._owned.get(name, []):
                found += self._want(other)
        return found

    def _outward(self, scope: str) -> Iterator[str]:
        while scope:
            yield scope
            scope = scope.rpartition(self.separator)[0]
        yield ""

    def _lookup(self, name: str, scope: str, plain: bool) -> list[Unit] | None:
        """What binds a name in the guest and has to come; None where neither program binds it."""
        for path in self._outward(scope):
            if not plain and path in self._tops:
                continue
            if name in self.host.names.get(path, ()):
                return []
            if units := self._bindings.get(path, {}).get(name):
                # One that binds what the host has a meaning for would change that.
                return [one for one in units if not one.names & self.host.names.get(path, set())]
        return None

    def _members(self, plain: set[str], members: set[str], scope: str) -> Iterator[Unit]:
        """Members that the host's types lack, of types that are named or whose object is at hand."""
        around = set(self._outward(scope))
        for path in sorted(path for last in plain & self._classes.keys() for path in self._classes[last]):
            if path in self.host.names and path not in around:
                binding = self._bindings[path]
                for name in sorted(members & binding.keys() - self.host.names[path]):
                    yield from binding[name]
        if self.language in ("Go", "JavaScript", "TypeScript"):
            for name in sorted(members & self._outside.keys()):
                for unit in self._outside[name]:
                    if unit.owner in self.host.names[""] and (unit.owner, name) not in self._has:
                        yield unit

    def _stars(self, unknown: bool) -> None:
        """Imports that do not tell their names come where a name is of unknown origin."""
        if not unknown:
            return
        has = {"".join(one.text.split()) for one in self.host.units[""] if one.kind == "import"}
        for unit in self.guest.units[""]:
            if unit.kind == "import" and not unit.names and "".join(unit.text.split()) not in has:
                self.imports.append(unit)


def _with(code: str, name: str, plan: _Plan, language: str) -> str:
    """A program with what a plan brings put where it belongs."""
    source = read(code, language)
    step = source.step(name)
    inside = outline(source, language)
    pieces: list[tuple[int, str]] = []
    if plan.imports:
        pieces.append(_imported(source, inside, plan.imports, language))
    top = _top_unit(inside, step)
    at = min(top.start, step.span.start_byte) if top is not None else step.span.start_byte
    tops: list[tuple[bool, str]] = []
    places: dict[str, int | None] = {}
    for unit in sorted(plan.wanted, key=lambda unit: unit.start):
        if unit.scope not in places:
            places[unit.scope] = _place(inside, unit.scope, step)
        place = places[unit.scope]
        if place is None or unit.holder.type == "impl_item":
            tops.append((unit.node.type == "function_definition", _lifted(unit, language)))
        else:
            pieces.append((place, _indented(source, place, unit.text)))
    first = next((number for number, (defines, _) in enumerate(tops) if defines), len(tops))
    tops[first:first] = [(False, text) for text in _prototypes(source, inside, plan, step, language)]
    if tops:
        pieces.append((at, "".join(f"{text}\n\n" for _, text in tops)))
    made = _replaced(source.data, [(position, position, text.encode()) for position, text in pieces])
    if pieces:
        read(made, language)
    return blank_unused_imports(made) if language == "Go" else made


def _replaced(data: bytes, pieces: list[tuple[int, int, bytes]]) -> str:
    """A text after replacements: first byte, one past the last, and what comes there."""
    parts: list[bytes] = []
    done = 0
    for start, end, text in sorted(pieces, key=lambda one: one[:2]):
        parts += (data[done:start], text)
        done = end
    return b"".join((*parts, data[done:])).decode()


def _top_unit(inside: Outline, step: Definition) -> Unit | None:
    for unit in inside.units[""]:
        if unit.start <= step.outer.start_byte < unit.end:
            return unit
    return None


def _place(inside: Outline, path: str, step: Definition) -> int | None:
    """Where a member goes: before the step in its class, at the end of another; None for the top."""
    if path == "" or path not in inside.scopes:
        return None
    scopes = inside.scopes[path]
    for scope in scopes:
        if scope.body.start_byte <= step.outer.start_byte < scope.body.end_byte:
            for one in inside.units[path]:
                if one.start <= step.outer.start_byte < one.end:
                    return min(one.start, step.span.start_byte)
            return step.span.start_byte
    holder = scopes[0].node if scopes[0].body.type == "body_statement" else scopes[0].body
    return holder.children[-1].start_byte


def _indented(source: Source, at: int, text: str) -> str:
    before = source.indent_before(at)
    indent = "" if before.strip() else before.decode()
    return f"{text}\n{indent}"


def _lifted(unit: Unit, language: str) -> str:
    """A member of a Rust `impl` in one of its own; anything else as it is."""
    if language != "Rust" or unit.holder.type != "impl_item":
        return unit.text
    body = unit.holder.child_by_field_name("body")
    head = unit.holder.text or b""
    if body is None:
        return unit.text
    return f"{head[: body.start_byte - unit.holder.start_byte].decode()}{{\n    {unit.text}\n}}"


def _imported(source: Source, inside: Outline, units: list[Unit], language: str) -> tuple[int, str]:
    """Where imports go, and their text."""
    at = -1
    first: Unit | None = None
    for unit in inside.units[""]:
        if unit.kind == "plain":
            first = first or unit
        elif unit.kind == "import" or first is None:
            at = max(at, unit.end)
    told = "\n".join(dict.fromkeys(one.text.strip() for one in sorted(units, key=lambda one: one.start)))
    if at < 0:
        return (first.start if first is not None else 0), f"{told}\n"
    data = source.data
    if language in ("C", "C++") and data[at - 1 : at] == b"\n":
        return at, f"{told}\n"
    return at, f"\n{told}" if data[at : at + 1] in (b"\n", b"\r", b"") else f"\n{told}\n"


def _prototypes(source: Source, inside: Outline, plan: _Plan, step: Definition, language: str) -> list[str]:
    """Declarations of functions of a C program that are used before they are defined."""
    if language not in ("C", "C++"):
        return []
    at = step.outer.start_byte
    known = {name for unit in inside.units[""] if unit.end <= at for name in unit.names}
    found = []
    for one in source.steps:
        late = (
            one.outer.start_byte > at
            and one.node.type == "function_definition"
            and one.span.kind == "function"
        )
        if late and one.base in plan.called - known and one.base != step.base:
            found.append(_prototype(source, one))
    return found


def _prototype(source: Source, definition: Definition) -> str:
    """A function's signature without default values, which only one declaration may tell."""
    text = definition.span.signature.encode()
    shift = definition.head_end - len(text)
    for node, _ in reversed(list(walk(definition.node))):
        value = node.child_by_field_name("default_value")
        if node.type == "optional_parameter_declaration" and value is not None:
            head = source.data[shift : value.start_byte].rstrip(b" \t\r\n=")
            text = text[: len(head)] + text[value.end_byte - shift :]
    return f"{text.decode()};"


def blank_unused_imports(code: str) -> str:
    """A Go program in which every import that nothing uses is blank, since Go refuses one that is not.

    Raises:
        SourceError: the text is not a program.
    """
    source = read(code, "Go")
    specs: list[Node] = []
    used: set[str] = set()
    for node, _ in walk(source.tree.root_node):
        if node.type == "import_spec":
            specs.append(node)
        elif (
            node.type == "selector_expression"
            and (operand := node.child_by_field_name("operand")) is not None
        ):
            used.add(
                source.data[operand.start_byte : min(operand.end_byte, operand.start_byte + 100)].decode(
                    "utf-8", "replace"
                )
            )
        elif node.type == "qualified_type" and (package := node.child_by_field_name("package")) is not None:
            used.add((package.text or b"").decode())
    blank = []
    for spec in specs:
        name = go_package(spec)
        path = spec.child_by_field_name("path")
        if name and name not in used and path is not None:
            blank.append((spec.start_byte, path.start_byte, b"_ "))
    return _replaced(source.data, blank)
