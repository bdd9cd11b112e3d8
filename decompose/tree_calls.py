"""Which functions of a program a function calls, as far as its syntax tree tells.

In: the definitions of a program. Out: names of steps, in order of first call. A name is looked for from
the inside out, as the language does; one that the function binds itself is its own. What an object is, when
it is not the function's own, no syntax tells, so that `other.push(x)` is no call of `Stack.push`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tree_sitter import Node

from decompose.definitions import syntax_of
from decompose.grammars import walk
from decompose.source import Definition
from decompose.tree_naming import targets
from decompose.tree_syntax import READINGS

MAX_PARTS = 12
"""Parts of a name that is looked up; `a.b.c` has three."""
_MOST_PARENTS = 20
_CONSTRUCTS = frozenset(("argument_list", "initializer_list"))
_NAMES = frozenset(
    (
        *("identifier", "shorthand_property_identifier_pattern", "shorthand_property_identifier"),
        *("type_identifier", "constant", "name", "shorthand_field_identifier"),
    )
)


class Calls:
    """The names of a program's functions, to be looked up."""

    def __init__(
        self, definitions: Sequence[Definition], data: bytes, language: str, classes: dict[str, list[Node]]
    ) -> None:
        self.data = data
        self.language = language
        self.reading = READINGS[language]
        self.separator = syntax_of(language).separator
        self.classes = classes
        self.steps: dict[str, list[Definition]] = {}
        for one in definitions:
            if one.step:
                self.steps.setdefault(one.base, []).append(one)
        self._bases: dict[str, list[str]] = {}

    def callees(self, definition: Definition) -> list[str]:
        """Steps that a definition calls, in order of first call."""
        own = bound_by(definition.node, self.language)
        owner = definition.base.rpartition(self.separator)[0]
        receiver = self._receiver(definition.node)
        found: list[tuple[int, str]] = []
        for node, field in _with_fields(definition.node):
            if node.type == "super" and self.language == "Ruby":
                name = definition.base.rpartition(".")[2]
                found += [(node.start_byte, one) for one in self._of_parents(owner, name, None)]
            for at, parts, count, made in self._calls(node, field):
                means = self._means(parts, count, made, owner, receiver, own)
                found += [(at, name) for name in means]
        return list(dict.fromkeys(name for _, name in sorted(found, key=lambda one: one[0])))

    def _receiver(self, node: Node) -> str | None:
        """The name of a Go method's own object."""
        told = node.child_by_field_name("receiver")
        if self.language != "Go" or told is None or not told.named_children:
            return None
        name = told.named_children[0].child_by_field_name("name")
        return None if name is None else self._text(name)

    def _calls(self, node: Node, field: str | None) -> Iterator[tuple[int, list[str], int | None, bool]]:
        """What a node calls or passes on: position, parts of the name, number of arguments, whether `new`."""
        kind, reading = node.type, self.reading
        if kind in reading.calls:
            parts = self._called(node, reading.calls[kind])
            if parts is not None:
                yield node.start_byte, parts, _count(node), False
            if self.language == "Ruby" and parts == ["method"]:
                yield from self._symbols(node)
        elif kind in reading.makes:
            told = reading.makes[kind]
            target = node.child_by_field_name(told) if told else next(iter(node.named_children), None)
            parts = None if target is None else self.chain(target)
            if parts is not None:
                yield node.start_byte, parts, _count(node), True
        elif kind in reading.passes:
            for one in node.named_children:
                value = one.named_children[-1] if one.type == "argument" and one.named_children else one
                parts = self.chain(value)
                if parts is not None:
                    yield value.start_byte, parts, None, False
        elif kind in ("explicit_constructor_invocation", "constructor_initializer", "field_initializer"):
            word = next((one for one in node.children if self._text(one) != ":"), node)
            yield node.start_byte, [self._text(word)], _count(node), True
        elif self.language == "C++" and kind == "declaration":
            yield from self._constructed(node)
        elif self.language == "Rust" and kind == "token_tree":
            yield from self._tokens(node)
        elif self.language == "PHP" and kind == "argument" and node.named_child_count:
            value = node.named_children[-1]
            if value.type in ("string", "encapsed_string") and value.named_child_count == 1:
                yield value.start_byte, [self._text(value.named_children[0])], None, False
        elif self.language == "Ruby" and kind == "identifier" and field not in ("method", "name"):
            yield node.start_byte, [self._text(node), ""], None, False

    def _constructed(self, node: Node) -> Iterator[tuple[int, list[str], int | None, bool]]:
        """The objects that a C++ declaration makes: `Stack s(1), t;`."""
        told = node.child_by_field_name("type")
        parts = None if told is None else self.chain(told)
        for one in node.children_by_field_name("declarator") if parts else ():
            value = one.child_by_field_name("value") if one.type == "init_declarator" else None
            if one.type == "identifier" or (value is not None and value.type in _CONSTRUCTS):
                count = 0 if value is None else value.named_child_count
                yield one.start_byte, parts or [], count, True

    def _called(self, node: Node, fields: tuple[str, ...]) -> list[str] | None:
        if fields == ("",):
            parts = node.named_children[:1]
            last = node.children[-1]
            told = [*(self.chain(one) or ["?"] for one in parts), [self._text(last)]]
            return [name for one in told for name in one]
        found: list[str] = []
        for field in fields:
            part = node.child_by_field_name(field)
            if part is None:
                continue
            parts_ = self.chain(part)
            if parts_ is None:
                return None
            found += parts_
        return found or None

    def _symbols(self, node: Node) -> Iterator[tuple[int, list[str], int | None, bool]]:
        told = node.child_by_field_name("arguments")
        for one in [] if told is None else told.named_children:
            if one.type == "simple_symbol":
                yield one.start_byte, [self._text(one).lstrip(":")], None, False

    def _tokens(self, node: Node) -> Iterator[tuple[int, list[str], int | None, bool]]:
        """Calls among the tokens of a Rust macro, which its grammar leaves as they are."""
        children = node.children
        for number, one in enumerate(children):
            if one.type != "token_tree" or not self.data.startswith(b"(", one.start_byte) or not number:
                continue
            parts: list[str] = []
            at = number - 1
            while at >= 0 and len(parts) < MAX_PARTS and children[at].type in ("identifier", "self"):
                parts.append(self._text(children[at]))
                if at == 0 or children[at - 1].type not in (".", "::"):
                    break
                at -= 2
            if parts:
                yield children[max(at, 0)].start_byte, parts[::-1], None, False

    def chain(self, node: Node) -> list[str] | None:
        """The parts of a name such as `a.b.c`; None for what is no name."""
        parts: list[str] = []
        stack = [node]
        for _ in range(4 * MAX_PARTS):
            if not stack:
                return parts or None
            one = stack.pop()
            kind = one.type
            if kind in self.reading.inner:
                field = self.reading.inner[kind]
                below = one.child_by_field_name(field) if field else next(iter(one.named_children), None)
                if below is None:
                    return None
                stack.append(below)
            elif kind in self.reading.members:
                if kind == "call" and one.child_by_field_name("arguments") is not None:
                    return None
                fields = self.reading.members[kind]
                below_all = (
                    one.named_children
                    if fields == ("",)
                    else [child for field in fields if (child := one.child_by_field_name(field)) is not None]
                )
                if kind == "member_access_expression" and len(below_all) < 2:
                    parts.append(self._text(one.children[0]))  # the grammar leaves `this` without a name
                stack += reversed(below_all)
            elif one.named_child_count == 0 or kind == "variable_name":
                text = self._text(one)
                if not (text[:1].isalpha() or text[:1] in "_$@#~"):
                    return None
                parts.append(text)
            else:
                return None
        return None

    def _means(
        self,
        parts: list[str],
        count: int | None,
        made: bool,
        owner: str,
        receiver: str | None,
        own: frozenset[str],
    ) -> list[str]:
        reading, first = self.reading, parts[0]
        if parts[-1] == "":  # a word of Ruby that is a call or a local variable
            if first in own:
                return []
            parts = parts[:1]
        if self.language == "Ruby" and parts[-1] == "new" and len(parts) > 1:
            parts, made = parts[:-1], True
        if self.language == "Java" and parts[-1] == "new":
            parts, made = parts[:-1], True
        if (
            first in reading.selves
            or first in reading.parents
            or (receiver is not None and first == receiver)
        ):
            return self._of_own(parts, count, made, owner, first in reading.parents)
        if self.language == "Rust" and first in ("crate", "super") and len(parts) > 1:
            around = self._namespace(owner).rpartition(self.separator)[0] if first == "super" else ""
            return self._within(around, parts[1:], count)
        if made:
            return self._within(owner, [*parts, *self._constructor(parts[-1])], count)
        if len(parts) > 1:
            if self.language == "Ruby":
                parts = [*parts[:-1], "self", parts[-1]]
            found = [] if first in own else self._within(owner, parts, count)
            if not found and self.language == "C++" and first not in own:
                found = self._within(owner, [*parts, parts[-1]], count)
            return found
        if first in own and self.language not in ("Java", "Ruby", "PHP"):
            return []
        if reading.implicit:
            found = self._inherited(owner, first, count)
            if found:
                return found
        scopes = owner if reading.implicit else self._namespace(owner)
        found = self._within(scopes, parts, count)
        if not found and self.language == "C++":
            found = self._within(owner, [first, first], count)
        return found

    def _constructor(self, name: str) -> list[str]:
        return [name if self.reading.constructor is None else self.reading.constructor]

    def _namespace(self, owner: str) -> str:
        """What is around a function without the classes."""
        while owner and owner in self.classes:
            owner = owner.rpartition(self.separator)[0]
        return owner

    def _of_own(self, parts: list[str], count: int | None, made: bool, owner: str, parent: bool) -> list[str]:
        if made or (len(parts) == 1 and parts[0] in ("super", "base")):
            wanted = owner.rpartition(self.separator)[2]
            if not parent:
                return self._chosen(self.separator.join([owner, *self._constructor(wanted)]), count)
            for base in self._parents(owner):
                name = base.rpartition(self.separator)[2]
                if found := self._chosen(self.separator.join([base, *self._constructor(name)]), count):
                    return found
            return []
        if len(parts) == 3 and parts[1] == "class" and self.language == "Ruby":
            return self._chosen(f"{owner}.self.{parts[2]}", count)
        if len(parts) != 2:
            return []
        if parent:
            return self._of_parents(owner, parts[1], count)
        return self._inherited(owner, parts[1], count)

    def _of_parents(self, owner: str, name: str, count: int | None) -> list[str]:
        for base in self._parents(owner):
            if found := self._inherited(base, name, count):
                return found
        return []

    def _inherited(self, owner: str, name: str, count: int | None) -> list[str]:
        """A method of a class, or of the nearest class that it derives from."""
        seen: list[str] = [owner]
        for one in seen:
            if found := self._chosen(f"{one}{self.separator}{name}" if one else name, count):
                return found
            if len(seen) < _MOST_PARENTS:
                seen += [base for base in self._parents(one) if base not in seen]
        return []

    def _parents(self, owner: str) -> list[str]:
        """Classes of the program that a class derives from, as its head tells."""
        if owner not in self._bases:
            found: list[str] = []
            around = owner.rpartition(self.separator)[0]
            for node in self.classes.get(owner, []):
                for child in node.named_children:
                    if child.type not in self.reading.heritage:
                        continue
                    for one, _ in walk(child):
                        if one.named_child_count or len(found) > _MOST_PARENTS:
                            continue
                        name = self._text(one)
                        for scope in self._outward(around):
                            told = f"{scope}{self.separator}{name}" if scope else name
                            if told in self.classes and told != owner:
                                found.append(told)
                                break
            self._bases[owner] = found
        return self._bases[owner]

    def _outward(self, scope: str) -> Iterator[str]:
        for _ in range(_MOST_PARENTS):
            yield scope
            if not scope:
                return
            scope = scope.rpartition(self.separator)[0]

    def _within(self, scope: str, parts: list[str], count: int | None) -> list[str]:
        name = self.separator.join(parts)
        for around in self._outward(scope):
            if found := self._chosen(f"{around}{self.separator}{name}" if around else name, count):
                return found
        return []

    def _chosen(self, base: str, count: int | None) -> list[str]:
        """The steps of a name; of several, those that take as many arguments, if there are any."""
        told = self.steps.get(base, [])
        if len(told) > 1 and count is not None:
            fitting = [one for one in told if _arity(one.suffix) == count]
            told = fitting or told
        return [one.span.name for one in told]

    def _text(self, node: Node) -> str:
        return self.data[node.start_byte : min(node.end_byte, node.start_byte + 200)].decode(
            "utf-8", "replace"
        )


def _with_fields(node: Node) -> Iterator[tuple[Node, str | None]]:
    """Every node below and including `node`, parents first, with the field that it is of its parent."""
    cursor = node.walk()
    level = 0
    while True:
        here = cursor.node
        if here is not None:
            yield here, cursor.field_name if level else None
        if cursor.goto_first_child():
            level += 1
            continue
        while not cursor.goto_next_sibling():
            if level == 0 or not cursor.goto_parent():
                return
            level -= 1


def bound_by(function: Node, language: str) -> frozenset[str]:
    """Names that a function, or anything inside of it, binds: parameters, variables, functions."""
    binds = READINGS[language].binds
    found: set[str] = set()
    done = -1
    for node, level in walk(function):
        fields = binds.get(node.type)
        if fields is None or (level == 0 and "name" in fields):
            continue
        for field in fields:
            for target in node.children_by_field_name(field) if field else node.named_children:
                if target.type == "function_declarator" and language in ("C", "C++"):
                    continue  # a function that is declared here is defined elsewhere
                # A pattern within a pattern has been looked at with it.
                if target.end_byte > done or field:
                    names = (one.text or b"" for one in targets(target, _NAMES))
                    found.update(name[:200].decode("utf-8", "replace") for name in names)
                    done = max(done, target.end_byte)
    return frozenset(found)


def _count(node: Node) -> int | None:
    told = node.child_by_field_name("arguments") or next(
        (one for one in node.named_children if one.type in ("arguments", "argument_list")), None
    )
    return None if told is None else sum("comment" not in one.type for one in told.named_children)


def _arity(suffix: str) -> int:
    """Number of parameters in a suffix such as `(int,Map<K,V>)`."""
    inside = suffix[1 : suffix.rfind(")")]
    level, commas = 0, 0
    for sign in inside:
        level += (sign in "<([{") - (sign in ">)]}")
        commas += sign == "," and level == 0
    return commas + 1 if inside else 0
