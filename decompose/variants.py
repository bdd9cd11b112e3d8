"""Programs that behave like a given one and look different: same steps, other bytes.

In: a program. Out: `Variant`s, in order of position, each made by one rewrite that is known
not to change behaviour: two neighbouring functions exchanged, or, in Python, a local variable renamed
throughout its function. Functions that can look at their own names (`locals`, `eval`, ...), hold a class, or
share names by `global` and `nonlocal` are left alone.
Wrong: `SourceError` for a text that is not a program.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from decompose.grammars import SourceError, walk
from decompose.mutate import Edit, apply
from decompose.python import FunctionNode, read
from decompose.source import Definition, Source
from decompose.source import read as read_any
from decompose.tree_variants import exchanges

_SEES_NAMES = frozenset({"locals", "globals", "vars", "dir", "eval", "exec", "compile", "inspect", "sys"})
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_MOST = 60
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclasses.dataclass(frozen=True)
class Variant:
    """A program that behaves like the original.

    Attributes:
        code: the whole program.
        detail: what was rewritten, for a person.
    """

    code: str
    detail: str


def variants(code: str, language: str = "Python") -> list[Variant]:
    """Every single rewrite of a program that keeps its behaviour, renames first; those are for Python only.

    Of exchanges in other languages there are at most 60, spread evenly over the program.

    Raises:
        SourceError: the text is not a program.
        AssayError: programs of that language cannot be taken apart.
    """
    if language != "Python":
        return _exchanged(code, language)
    source = read(code)
    return [
        Variant(made, detail)
        for detail, chosen in (*_renames(source), *_exchanges(source))
        if (made := apply(code, chosen)) != code and _parses(made)
    ]


def _exchanged(code: str, language: str) -> list[Variant]:
    source = read_any(code, language)
    functions = Counter((one.span.name, one.span.signature) for one in source.steps)
    found = []
    possible = list(exchanges(source, language))
    # Each is a whole program that is read again.
    for detail, chosen in possible[:: -(-len(possible) // _MOST) or 1]:
        made = apply(code, chosen)
        try:
            steps = read_any(made, language).steps
        except SourceError:
            continue
        if made != code and Counter((one.span.name, one.span.signature) for one in steps) == functions:
            found.append(Variant(made, detail))
    return found


def _parses(code: str) -> bool:
    try:
        read(code)
    except SourceError:
        return False
    return True


def _renames(source: Source) -> Iterator[tuple[str, list[Edit]]]:
    taken = {node.text for node, _ in walk(source.tree.root_node) if node.type == "identifier"}
    for definition in source.steps:
        places = _variables(definition)
        for name in _renamable(definition.meaning):
            new = f"local_{name}"
            found = places.get(name.encode(), [])
            meant = sum(isinstance(n, ast.Name) and n.id == name for n in ast.walk(definition.meaning))
            # The grammar and Python must agree on every place where the variable stands.
            if new.encode() in taken or len(found) != meant:
                continue
            detail = f"{definition.span.name} rename `{name}` to `{new}`"
            yield detail, [_edit(node.start_byte, node.end_byte, new, definition) for node in found]


def _edit(start: int, end: int, new: str, definition: Definition) -> Edit:
    return Edit(start, end, "variant", new, definition.span.name, 0, "")


def _variables(definition: Definition) -> dict[bytes, list[Node]]:
    """Identifiers of the body that stand for variables, by name."""
    found: dict[bytes, list[Node]] = {}
    for node, _ in walk(definition.body):
        if node.type != "identifier" or node.text is None or node.parent is None:
            continue
        field = {"attribute": "attribute", "keyword_argument": "name"}.get(node.parent.type)
        if field is None or node.parent.child_by_field_name(field) != node:
            found.setdefault(node.text, []).append(node)
    return found


def _renamable(function: FunctionNode) -> list[str]:
    """Names of variables that belong to a function and to nothing else, in order."""
    own: set[str] = set()
    barred: set[str] = set()
    words: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.ClassDef | ast.Global | ast.Nonlocal):
            return []
        if isinstance(node, ast.Name) and node.id in _SEES_NAMES:
            return []
        if isinstance(node, ast.arg):
            barred.add(node.arg)
        elif isinstance(node, ast.alias):
            barred.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, FunctionNode | ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            barred.add(node.name or "")
        elif isinstance(node, ast.MatchMapping) and node.rest:
            barred.add(node.rest)
        elif isinstance(node, ast.comprehension):
            barred.update(one.id for one in ast.walk(node.target) if isinstance(one, ast.Name))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.update(re.findall(r"\w+", node.value))
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        # What an inner scope binds is its own.
        if not isinstance(node, _SCOPES + _COMPREHENSIONS):
            stack += ast.iter_child_nodes(node)
    return sorted(own - barred - words)


def _exchanges(source: Source) -> Iterator[tuple[str, list[Edit]]]:
    steps = {definition.span.start_byte: definition for definition in source.steps}
    previous: Definition | None = None
    for node in source.tree.root_node.named_children:
        if node.type == "comment":
            continue
        this = steps.get(node.start_byte)
        if this is not None and not _movable(this.meaning):
            this = None
        if previous is not None and this is not None:
            first, second = previous.span, this.span
            detail = f"exchange `{first.name}` and `{second.name}`"
            texts = [source.data[one.start_byte : one.end_byte].decode() for one in (second, first)]
            yield (
                detail,
                [
                    _edit(first.start_byte, first.end_byte, texts[0], previous),
                    _edit(second.start_byte, second.end_byte, texts[1], this),
                ],
            )
        previous = this


def _movable(function: FunctionNode) -> bool:
    """Whether nothing but its body depends on when the definition runs."""
    if function.decorator_list:
        return False
    given = function.args
    hints = [one.annotation for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    hints += [one.annotation for one in (given.vararg, given.kwarg) if one is not None]
    if any(isinstance(n, ast.Call) for hint in (*hints, function.returns) if hint for n in ast.walk(hint)):
        return False
    return all(one is None or isinstance(one, ast.Constant) for one in (*given.defaults, *given.kw_defaults))
