"""Changed functions of Python files that can be run alone: each with what it needs of its file, and no more.

In: two versions of a file. Out: `Alone`s: functions outside of classes that both versions have, that differ
in more than layout, comments and docstrings, and whose free names are builtins, modules of the standard
library that the file imports, or other definitions of the file of which the same holds. Wrong: `SourceError`
for a version that Python refuses. Nothing is run; the caller bounds the time.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import symtable
import sys

from decompose.grammars import SourceError
from decompose.python import parse_python
from labelers.programs.declared import literals_of
from labelers.programs.shapes import python_parameters

_MOST = 3
"""Functions of one change that are run."""
_MAX_PROGRAM = 60_000
_MAX_PIECES = 40
_BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}
# What these do is no matter of the function's input.
_OUTSIDE = frozenset({"asyncio", "ctypes", "multiprocessing", "socket", "subprocess", "threading", "tkinter"})
_Function = ast.FunctionDef


@dataclasses.dataclass(frozen=True)
class Alone:
    """A function that can be run alone.

    Attributes:
        name: its name.
        old, new: programs that define it, of the two versions.
        parameters: names of the parameters that a call has to give by position, with their annotations.
        numbers, texts: literals of both versions.
    """

    name: str
    old: str
    new: str
    signature: str
    numbers: list[float]
    texts: list[str]


class _Module:
    """The top level of a file by the names that it binds."""

    def __init__(self, text: str) -> None:
        self.text = text.removeprefix("\ufeff")
        self.tree = parse_python(self.text)
        self.lines = self.text.splitlines(keepends=True)
        self.bound: dict[str, list[ast.stmt]] = {}
        self.stars = False
        for node in self.tree.body:
            for name in self._names(node):
                self.bound.setdefault(name, []).append(node)

    def _names(self, node: ast.stmt) -> set[str]:
        if isinstance(node, _Function | ast.AsyncFunctionDef | ast.ClassDef):
            return {node.name}
        found = set()
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                found.add(one.id)
            elif isinstance(one, ast.alias):
                found.add((one.asname or one.name).partition(".")[0])
            elif isinstance(one, _Function | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(one.name)
        return found

    def functions(self) -> dict[str, _Function]:
        """Functions that their name means when the file has been loaded."""
        return {
            name: nodes[0]
            for name, nodes in self.bound.items()
            if len(nodes) == 1 and isinstance(nodes[0], _Function)
        }

    def source(self, node: ast.stmt) -> str:
        """The lines of a statement, decorators included."""
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        return "".join(self.lines[first - 1 : node.end_lineno]).rstrip("\n") + "\n"

    def program(self, name: str) -> str | None:
        """The statements that a function needs, in order; None where it cannot be run alone."""
        wanted, taken = [name], dict[int, ast.stmt]()
        done: set[str] = set()
        while wanted:
            one = wanted.pop()
            if one in done:
                continue
            done.add(one)
            nodes = self.bound.get(one)
            if nodes is None:
                if one in _BUILTINS:
                    continue
                return None
            if len(taken) + len(nodes) > _MAX_PIECES:
                return None
            for node in nodes:
                if isinstance(node, ast.Import | ast.ImportFrom) and not _is_standard(node):
                    return None
                if not isinstance(
                    node, _Function | ast.ClassDef | ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom
                ):
                    return None
                if id(node) not in taken:
                    taken[id(node)] = node
                    wanted += _free(self.source(node))
        future = [
            node
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom) and node.module == "__future__"
        ]
        chosen = sorted(
            {id(node): node for node in [*future, *taken.values()]}.values(), key=lambda node: node.lineno
        )
        text = "".join(self.source(node) for node in chosen)
        return text if len(text) <= _MAX_PROGRAM else None


def _is_standard(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether an import is of modules of the standard library that do nothing outside of the program."""
    if isinstance(node, ast.ImportFrom):
        names = [] if node.level or node.module is None or node.names[0].name == "*" else [node.module]
    else:
        names = [one.name for one in node.names]
    tops = {name.partition(".")[0] for name in names}
    return bool(tops) and tops <= sys.stdlib_module_names and tops.isdisjoint(_OUTSIDE)


def _free(segment: str) -> list[str]:
    """Names that a statement takes from its module, in order."""
    stack = [symtable.symtable(segment, "version.py", "exec")]
    found = set()
    while stack:
        table = stack.pop()
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if (symbol.is_referenced() and top) or (symbol.is_global() and not top):
                found.add(symbol.get_name())
        stack += table.get_children()
    return sorted(found)


def _meaning(node: _Function) -> str:
    """A function without layout, comments and docstring."""
    body = node.body
    told = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    kept = body[1:] if told and isinstance(body[0].value.value, str) else body  # type: ignore[attr-defined]
    return ast.dump(node.args) + "".join(ast.dump(one) for one in [*node.decorator_list, *kept])


def alone(old: str, new: str) -> list[Alone]:
    """The changed functions of two versions that can be run alone.

    Raises:
        SourceError: Python refuses one of the versions.
    """
    before, after = _Module(old), _Module(new)
    found: list[Alone] = []
    there = after.functions()
    for name, node in before.functions().items():
        other = there.get(name)
        if other is None or _meaning(node) == _meaning(other) or not _is_plain(node):
            continue
        if [one.arg for one in node.args.args] != [one.arg for one in other.args.args][: len(node.args.args)]:
            continue
        try:
            programs = before.program(name), after.program(name)
        except (SyntaxError, ValueError, RecursionError):
            # A statement that means something else out of its place, such as one that shares its line.
            continue
        if programs[0] is None or programs[1] is None:
            continue
        told = [literals_of({"code": one, "language": "Python"}, {"name": name}) for one in programs]
        signature = f"def {name}({ast.unparse(node.args)})"
        if python_parameters(signature):
            numbers = list(dict.fromkeys([*told[0].numbers, *told[1].numbers]))
            texts = list(dict.fromkeys([*told[0].texts, *told[1].texts]))
            found.append(Alone(name, programs[0], programs[1], signature, numbers, texts))
        if len(found) == _MOST:
            break
    return found


def _is_plain(node: _Function) -> bool:
    """Whether calls by position are all there is to give: no decorators that could change what it takes."""
    return not node.args.kwonlyargs and not node.decorator_list


__all__ = ["Alone", "SourceError", "alone"]
