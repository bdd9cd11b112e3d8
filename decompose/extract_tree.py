"""What cutting a part out of a function means for the syntax tree of its program.

In: a program, the cut, and the text that is said to be the program after it. Out: whether it is, apart from
the new function's signature and docstring, which the text is free to choose.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence

from decompose.extract_parts import Part
from decompose.grammars import SourceError
from decompose.python import parse_python
from decompose.python_operators import tree_digest
from decompose.python_scopes import FunctionNode, parameters
from decompose.source import Source


@dataclasses.dataclass(frozen=True)
class Cut:
    """One part that becomes a function.

    Attributes:
        part: the part.
        name: the function's name.
        tail: lines that the function ends with after the part.
        in_place: lines that stand where the part was; for an expression, the one that stands for it.
    """

    part: Part
    name: str
    tail: tuple[str, ...]
    in_place: tuple[str, ...]


def is_the_cut(source: Source, function: FunctionNode, cut: Cut, code: str) -> bool:
    """Whether a text is the program after a cut."""
    try:
        found = parse_python(code)
    except SourceError:
        return False
    module = parse_python(source.code)
    twins = dict(zip(map(id, ast.walk(source.module)), ast.walk(module), strict=True))
    place = next(
        index
        for index, top in enumerate(source.module.body)
        if any(node is function for node in ast.walk(top))
    )
    if place >= len(found.body) or not isinstance(made := found.body[place], ast.FunctionDef):
        return False
    # Names are compared below; what is left of the signature are hints, which the text chooses.
    given = [one.arg for one in parameters(made.args)]
    outer = twins[id(function)]
    nodes = [twins[id(node)] for node in cut.part.nodes]
    if cut.part.kind == "inner":
        inner = nodes[0]
        if not isinstance(inner, ast.FunctionDef):
            return False
        _lift(outer, inner, cut)
        module.body.insert(place, inner)
    else:
        body = [node for node in nodes if isinstance(node, ast.stmt)]
        if isinstance(nodes[0], ast.expr):
            body = [ast.Return(nodes[0])]
        lines = _statements(cut.in_place)
        for one in nodes[1:]:
            _replace(outer, one, [])
        put = lines[0].value if isinstance(nodes[0], ast.expr) and isinstance(lines[0], ast.Expr) else None
        _replace(outer, nodes[0], lines if put is None else put)
        body = [*made.body[:1], *_statements(cut.part.imports), *body, *_statements(cut.tail)]
        plain = given == list(cut.part.inputs) and not made.args.defaults and not made.args.kw_defaults
        if not plain or ast.get_docstring(made) is None:
            return False
        module.body.insert(
            place, ast.FunctionDef(cut.name, made.args, body, [], made.returns, made.type_comment)
        )
        # Later versions of Python know parameters of types, which such a function does not have.
        if hasattr(made, "type_params"):
            module.body[place].type_params = []  # type: ignore[attr-defined]
    return tree_digest(module) == tree_digest(found)


def _statements(lines: Sequence[str]) -> list[ast.stmt]:
    """Lines as statements of a function."""
    if not lines:
        return []
    holder = parse_python("def f():\n" + "".join(f" {line}\n" for line in lines)).body[0]
    return holder.body if isinstance(holder, ast.FunctionDef) else []


def _replace(root: ast.AST, old: ast.AST, new: Sequence[ast.stmt] | ast.expr) -> None:
    """Put nodes where a node was below another."""
    for node in ast.walk(root):
        for field, value in ast.iter_fields(node):
            if value is old:
                setattr(node, field, new)
                return
            if isinstance(value, list):
                for index, one in enumerate(value):
                    if one is old:
                        value[index : index + 1] = [new] if isinstance(new, ast.expr) else new
                        return


def _lift(outer: ast.AST, inner: ast.FunctionDef, cut: Cut) -> None:
    """Take an inner function out, and give it and its calls the variables that it used to read."""
    for node in ast.walk(outer):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == inner.name:
            node.args[:0] = [ast.Name(name, ast.Load()) for name in cut.part.inputs]
    for node in ast.walk(outer):
        if isinstance(node, ast.Name) and node.id == inner.name:
            node.id = cut.name
    _replace(outer, inner, [])
    first = inner.args.posonlyargs or inner.args.args
    first[:0] = [ast.arg(name, None, None) for name in cut.part.inputs]
    inner.name = cut.name
