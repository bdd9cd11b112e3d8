"""Cut functions out of a Python program whose work sits in one or few large ones, by syntax alone.

In: a program. Out: a program of several module-level functions with the same interface and behaviour, or
None where nothing of a fair size can be cut out safely. Nothing is run and no model is asked; the same text
gives the same bytes. Wrong: `SourceError` for a text that is not a program.

What is cut: statements in a row, an expression such as a comprehension or a condition, and an inner
function, which gets the variables that it reads as parameters. Each cut is the one that leaves the two sides
most alike in size, few inputs and outputs preferred (`decompose.extract_parts` says what is safe). The new
function stands before the one that it was cut out of.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from decompose.extract_parts import Finder, Part
from decompose.extract_text import Helper, Writer
from decompose.python import read
from decompose.python_flow import Flow, FlowError
from decompose.python_scopes import CONSUMERS, bindings, own_nodes
from decompose.source import Definition, Source

MAX_BYTES = 100_000
"""Larger programs are left as they are."""

_LEAST = 7
_LEAST_MORE = 16
# A program that names one of these can see that it was cut.
_SEES_FRAMES = frozenset(
    {"locals", "globals", "vars", "dir", "eval", "exec", "compile", "inspect", "traceback", "__import__"}
)
_SEES_FRAMES_BY_ATTRIBUTE = frozenset(
    {"_getframe", "currentframe", "settrace", "setprofile", "__code__", "__globals__", "f_locals", "tb_frame"}
)
# Modules all of whose names may be imported at once without hiding a builtin that matters.
_KNOWN = frozenset(
    {"__future__", "bisect", "collections", "functools", "heapq", "itertools", "math", "string", "typing"}
)


@dataclasses.dataclass(frozen=True)
class Extraction:
    """A program after cuts.

    Attributes:
        code: the program.
        helpers: the functions that were cut out, in the order of the cuts.
    """

    code: str
    helpers: tuple[Helper, ...]


def extract(code: str, entry: str | None = None, functions: int = 4) -> str | None:
    """The program that `extraction` makes; None where it makes none.

    Raises:
        SourceError: the text is not a program.
    """
    made = extraction(code, entry, functions)
    return made.code if made.helpers else None


def extraction(code: str, entry: str | None = None, functions: int = 4) -> Extraction:
    """Cut functions out of a program until it has as many as wanted, or nothing of a fair size is left.

    The first cut may leave a small side, further ones only large ones.

    Args:
        entry: name of the function that is called from outside; only it and what it calls is cut. All
            functions are when it is None, or no function of the program.
        functions: functions of the module, methods not counted, at which it is enough.

    Raises:
        SourceError: the text is not a program.
    """
    source = read(code)
    helpers: list[Helper] = []
    if len(source.data) > MAX_BYTES or _cannot_be_cut(source):
        return Extraction(code, ())
    known: dict[str, float] = {}
    while len(_outside(source)) < functions:
        made = _best(source, entry, _LEAST_MORE if helpers else _LEAST, known)
        if made is None:
            break
        if not helpers:
            known = {}
        helpers.append(made[1])
        source = read(made[0])
    return Extraction(source.code, tuple(helpers))


def cuts(code: str, least: int = 1) -> Iterator[Extraction]:
    """Every program that one cut makes of a program, those of even halves first in each function.

    Args:
        least: syntax nodes that either side of a cut must have.

    Raises:
        SourceError: the text is not a program.
    """
    source = read(code)
    if len(source.data) > MAX_BYTES or _cannot_be_cut(source):
        return
    for definition in source.steps:
        writer = Writer(source, definition)
        finder = _finder(definition, _bound(source))
        for part in finder.parts(least) if finder is not None else ():
            if (made := writer.cut(part)) is not None:
                yield Extraction(made[0], (made[1],))


def _outside(source: Source) -> list[Definition]:
    return [one for one in source.steps if "." not in one.span.name]


def _bound(source: Source) -> frozenset[str]:
    """Names that the module binds outside of functions, or by `global`."""
    found = {one.span.name for one in source.definitions}
    for node in own_nodes(source.module.body):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
    shared = (node.names for node in ast.walk(source.module) if isinstance(node, ast.Global))
    return frozenset(found.union(*shared))


def _cannot_be_cut(source: Source) -> bool:
    """Whether a program may see that it was cut, or builtins in it may not be the usual ones."""
    if _bound(source) & CONSUMERS:
        return True
    # A function's own variable may have any name.
    own = [one.meaning for one in source.definitions]
    hidden = {
        id(node)
        for function in own
        if (names := bindings(function) & _SEES_FRAMES)
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id in names
    }
    for node in ast.walk(source.module):
        if isinstance(node, ast.Name) and node.id in _SEES_FRAMES and id(node) not in hidden:
            return True
        if isinstance(node, ast.Attribute) and node.attr in _SEES_FRAMES_BY_ATTRIBUTE:
            return True
        if isinstance(node, ast.alias) and node.name.partition(".")[0] in _SEES_FRAMES:
            return True
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").partition(".")[0]
            if module in _SEES_FRAMES or (node.names[0].name == "*" and module not in _KNOWN):
                return True
    return False


def _reached(source: Source, entry: str | None) -> list[Definition]:
    """The functions that an entry leads to, itself included."""
    steps = {one.span.name: one for one in source.steps}
    if entry is None or entry not in steps:
        return source.steps
    found: set[str] = set()
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += source.callees(steps[name])
    return [one for one in source.steps if one.span.name in found]


def _best(
    source: Source, entry: str | None, least: int, known: dict[str, float]
) -> tuple[str, Helper] | None:
    """The program after the cut that is worth most, and the new function.

    Args:
        known: text of a function -> what its best part is worth, as found before.
    """
    names = _bound(source)
    found: list[tuple[float, int, Definition]] = []
    for index, definition in enumerate(_reached(source, entry)):
        text = source.data[definition.span.start_byte : definition.span.end_byte].decode()
        if text not in known:
            part = _part(source, definition, names, least)
            known[text] = 0.0 if part is None else part.worth
        found.append((-known[text], index, definition))
    for worth, _, definition in sorted(found, key=lambda one: one[:2]):
        part = _part(source, definition, names, least) if worth else None
        made = None if part is None else Writer(source, definition).cut(part)
        if made is not None:
            return made
    return None


def _part(source: Source, definition: Definition, names: frozenset[str], least: int) -> Part | None:
    finder = _finder(definition, names)
    return None if finder is None else finder.best(least, Writer(source, definition).movable)


def _finder(definition: Definition, names: frozenset[str]) -> Finder | None:
    try:
        flow = Flow(definition.meaning)
    except FlowError:
        return None
    return Finder(definition.meaning, flow, names, "." in definition.span.name)
