"""What extraction asks of Python syntax without regard to the flow of control.

In: nodes of a function as Python's parser made them. Out: the places where its expressions run, what its
statements hold, which values they change, and which inner functions are the same wherever they stand.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence

from decompose.python_flow import Flow
from decompose.python_scopes import Comprehension, FunctionNode, own_nodes, parameters

_EXPRESSIONS = (
    ast.ListComp
    | ast.SetComp
    | ast.DictComp
    | ast.Call
    | ast.BinOp
    | ast.BoolOp
    | ast.Compare
    | ast.IfExp
    | ast.Subscript
    | ast.List
    | ast.Tuple
    | ast.Set
    | ast.Dict
    | ast.UnaryOp
    | ast.JoinedStr
)
_CHANGES = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft", "remove"}
    | {"reverse", "setdefault", "sort", "update"}
)


def changed(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Variables whose values a piece of syntax seems to change in place."""
    found: set[str] = set()
    for top in nodes:
        for node in ast.walk(top):
            if not isinstance(node, ast.Subscript | ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            called = isinstance(node, ast.Attribute) and node.attr in _CHANGES
            if called or not isinstance(node.ctx, ast.Load):
                found.add(node.value.id)
    return frozenset(found)


def bound_by(alias: ast.alias) -> list[str]:
    return [(alias.asname or alias.name).partition(".")[0]]


def imports_of(function: FunctionNode, flow: Flow) -> dict[str, str]:
    """Names that one import binds and nothing else, with a line that binds such a name again.

    A module is loaded once, so that the line gives the same object. What other modules hold may change, but
    not what those of Python itself do.
    """
    given = {one.arg for one in parameters(function.args)}
    found: dict[str, str] = {}
    for node in own_nodes(function.body):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for one in node.names:
            (name,) = bound_by(one)
            if name in given or sum(name in told.binds | told.perhaps for told in flow.uses) != 1:
                continue
            line = ast.unparse(ast.alias(one.name, one.asname))
            if isinstance(node, ast.Import):
                found[name] = f"import {line}"
            elif not node.level and (node.module or "").partition(".")[0] in sys.stdlib_module_names:
                found[name] = f"from {node.module} import {line}"
    return found


def without_docstring(function: FunctionNode) -> list[ast.stmt]:
    documented = ast.get_docstring(function, clean=False) is not None
    return function.body[1:] if documented else function.body


def suites(node: ast.stmt) -> list[list[ast.stmt]]:
    """The statements that a statement holds, branch by branch."""
    if isinstance(node, FunctionNode | ast.ClassDef):
        return []
    found = [getattr(node, "body", []), getattr(node, "orelse", [])]
    found += [one.body for one in (*getattr(node, "handlers", []), *getattr(node, "cases", []))]
    return [one for one in found if one]


def is_elif(node: ast.stmt, suite: Sequence[ast.stmt]) -> bool:
    """Whether what a statement holds is an `elif` of it."""
    if not isinstance(node, ast.If) or suite is not node.orelse:
        return False
    return isinstance(suite[0], ast.If) and suite[0].col_offset == node.col_offset


def expressions(statement: ast.stmt) -> Iterator[tuple[ast.expr, frozenset[str]]]:
    """Expressions that run where a statement begins, and the names that scopes around them bind."""
    tops: list[ast.AST] = []
    if isinstance(statement, ast.If | ast.While):
        tops = [statement.test]
    elif isinstance(statement, ast.For | ast.AsyncFor):
        tops = [statement.iter]
    elif isinstance(statement, ast.With | ast.AsyncWith):
        tops = [one.context_expr for one in statement.items]
    elif isinstance(statement, ast.Match):
        tops = [statement.subject]
    elif isinstance(statement, ast.AnnAssign):
        tops = [one for one in (statement.target, statement.value) if one is not None]
    elif not isinstance(statement, FunctionNode | ast.ClassDef | ast.Try | getattr(ast, "TryStar", ast.Try)):
        tops = [statement]
    nothing: frozenset[str] = frozenset()
    stack: list[tuple[ast.AST, frozenset[str]]] = [(one, nothing) for one in tops]
    while stack:
        node, scope = stack.pop()
        if isinstance(node, _EXPRESSIONS) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            yield node, scope
        if isinstance(node, ast.JoinedStr):
            # Python 3.11 does not tell where the expressions in it are.
            continue
        if isinstance(node, ast.Lambda):
            inner = scope | {one.arg for one in parameters(node.args)}
            stack += [(one, scope) for one in node.args.defaults]
            stack.append((node.body, inner))
        elif isinstance(node, Comprehension):
            inner = scope
            for part in node.generators:
                stack.append((part.iter, inner))
                inner |= {one.id for one in ast.walk(part.target) if isinstance(one, ast.Name)}
                stack += [(one, inner) for one in part.ifs]
            results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            stack += [(one, inner) for one in results]
        else:
            stack += [(one, scope) for one in ast.iter_child_nodes(node)]


def identifiers(node: ast.AST) -> Iterator[str]:
    for field in ("id", "attr", "arg", "name", "asname", "module"):
        if isinstance(found := getattr(node, field, None), str):
            yield found


def plain_definition(inner: ast.FunctionDef, variables: frozenset[str]) -> bool:
    """Whether it makes no difference how often a definition runs, and where."""
    hints = [one.annotation for one in parameters(inner.args)]
    for one in (*hints, inner.returns):
        for node in ast.walk(one) if one is not None else ():
            if isinstance(node, ast.Call) or (isinstance(node, ast.Name) and node.id in variables):
                return False
    given = (*inner.args.defaults, *inner.args.kw_defaults)
    return not inner.decorator_list and all(one is None or isinstance(one, ast.Constant) for one in given)


def only_called(function: FunctionNode, name: str, with_more: bool) -> bool:
    """Whether a function is only called (or passed on, if its calls stay as they are)."""
    called: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            generator = node.args and isinstance(node.args[0], ast.GeneratorExp)
            if not (with_more and generator):
                called.add(id(node.func))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            return False
    return all(
        id(node) in called or not with_more
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == name
    )
