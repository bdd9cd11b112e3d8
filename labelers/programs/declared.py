"""What a function's text says of its arguments: declared parameters, and literals that it compares with.

In: a program and one of its functions. Out: `Parameter`s and `Literals`. Wrong: nothing is raised; what is
not understood is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from decompose.grammars import SourceError
from decompose.python import parse_python
from labelers.programs.inputs import Literals
from labelers.programs.shapes import Parameter, python_parameters

_MAX_LITERALS = 60
_MAX_TEXT = 40


def parameters_of(signature: str, language: str) -> list[Parameter]:
    """The parameters that a signature declares."""
    return python_parameters(signature) if language == "Python" else []


def literals_of(program: Mapping[str, Any], span: Mapping[str, Any]) -> Literals:
    """Numbers and texts in a function and in the constants of its module."""
    if program["language"] != "Python":
        return Literals()
    try:
        tree = parse_python(program["code"].removeprefix("\ufeff"))
    except SourceError:
        return Literals()
    name = span["name"].rpartition(".")[2]
    numbers: dict[float, None] = {}
    texts: dict[str, None] = {}
    for top in tree.body:
        for node in ast.walk(top) if isinstance(top, ast.Assign | ast.AnnAssign) else ():
            _take(node, numbers, texts)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            documented = ast.get_docstring(node, clean=False)
            for inner in ast.walk(node):
                if not (isinstance(inner, ast.Constant) and inner.value == documented):
                    _take(inner, numbers, texts)
    return Literals(tuple(numbers)[:_MAX_LITERALS], tuple(texts)[:_MAX_LITERALS])


def _take(node: ast.AST, numbers: dict[float, None], texts: dict[str, None]) -> None:
    if not isinstance(node, ast.Constant):
        return
    if type(node.value) in (int, float) and abs(node.value) < 1e9:  # type: ignore[arg-type]
        numbers[node.value] = None  # type: ignore[index]
    elif isinstance(node.value, str) and len(node.value) <= _MAX_TEXT:
        texts[node.value] = None
