"""Which variables of a Python function a piece of it reads, binds and hands to inner functions.

In: syntax nodes of one function's own scope, as Python's parser made them. Out: a `Uses`. Names that
comprehensions, lambdas and inner functions bind are theirs and not counted. Nothing recurses.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

CONSUMERS = frozenset(
    {"all", "any", "dict", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple"}
)
"""Builtins that have used up their argument when they return, so that a generator in it is no closure."""

_COUNTED = (
    ast.stmt
    | ast.expr
    | ast.comprehension
    | ast.ExceptHandler
    | ast.match_case
    | ast.pattern
    | ast.arg
    | ast.keyword
    | ast.alias
)


@dataclasses.dataclass(frozen=True)
class Uses:
    """Names of a function's variables in a piece of it.

    Attributes:
        reads: read, at any depth.
        binds: bound whenever the piece has run to its end.
        perhaps: bound by `:=` or a pattern, so perhaps not.
        deletes: unbound.
        captured: read by something that may run later: an inner function, a lambda, a generator, a class.
    """

    reads: frozenset[str]
    binds: frozenset[str]
    perhaps: frozenset[str]
    deletes: frozenset[str]
    captured: frozenset[str]


def size(node: ast.AST) -> int:
    """Statements, expressions and the like in a piece of syntax."""
    return sum(isinstance(one, _COUNTED) for one in ast.walk(node))


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """All parameters of a function, in order."""
    given = [*arguments.posonlyargs, *arguments.args]
    given += [one for one in (arguments.vararg,) if one is not None]
    given += arguments.kwonlyargs
    return given + [one for one in (arguments.kwarg,) if one is not None]


def own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Nodes that run in a function's own scope; of inner functions and classes only what is bound here.

    Comprehensions belong to it, apart from their targets.
    """
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, FunctionNode):
            stack += [*node.decorator_list, *_defaults(node.args)]
        elif isinstance(node, ast.Lambda):
            stack += _defaults(node.args)
        elif isinstance(node, ast.ClassDef):
            stack += [*node.decorator_list, *node.bases, *(one.value for one in node.keywords)]
        elif isinstance(node, Comprehension):
            for one in node.generators:
                stack += [one.iter, *one.ifs]
            stack += _results(node)
        else:
            stack += ast.iter_child_nodes(node)


def bindings(scope: FunctionNode | ast.Lambda) -> frozenset[str]:
    """Names of the variables that belong to a function: parameters, and what its own scope binds."""
    body: list[ast.AST] = [scope.body] if isinstance(scope, ast.Lambda) else list(scope.body)
    bound = {one.arg for one in parameters(scope.args)}
    shared: set[str] = set()
    for node in own_nodes(body):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, FunctionNode | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            shared.update(node.names)
    return frozenset(bound - shared)


def uses(pieces: Iterable[ast.AST], variables: frozenset[str]) -> Uses:
    """What pieces of a function, run one after the other, do with its variables.

    Args:
        variables: the names that belong to the function (see `bindings`).
    """
    reads: set[str] = set()
    binds: set[str] = set()
    perhaps: set[str] = set()
    deletes: set[str] = set()
    captured: set[str] = set()
    consumed: set[int] = set()
    nothing: frozenset[str] = frozenset()
    # Each node with the names that scopes around it bind, whether it may run later, and whether what it
    # binds is the function's.
    stack: list[tuple[ast.AST, frozenset[str], bool, bool]] = [(one, nothing, False, True) for one in pieces]
    while stack:
        node, hidden, later, own = stack.pop()

        def read(name: str, hidden: frozenset[str] = hidden, later: bool = later) -> None:
            if name in variables and name not in hidden:
                reads.add(name)
                if later:
                    captured.add(name)

        def push(
            nodes: Iterable[ast.AST],
            more: frozenset[str] = nothing,
            runs_later: bool = False,
            binds_here: bool | None = None,
            at: tuple[frozenset[str], bool, bool] = (hidden, later, own),
        ) -> None:
            where = at[2] if binds_here is None else binds_here
            stack.extend((one, at[0] | more, at[1] or runs_later, where) for one in nodes)

        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                read(node.id)
            elif own and node.id in variables and node.id not in hidden:
                (deletes if isinstance(node.ctx, ast.Del) else binds).add(node.id)
                # What has no value cannot lose it.
                if isinstance(node.ctx, ast.Del):
                    reads.add(node.id)
        elif isinstance(node, ast.NamedExpr):
            push([node.value])
            if own and node.target.id in variables:
                perhaps.add(node.target.id)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                read(node.target.id)
            push([node.target, node.value])
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None or not isinstance(node.target, ast.Name):
                push([one for one in (node.target, node.value, node.annotation) if one is not None])
        elif isinstance(node, FunctionNode | ast.ClassDef):
            if own:
                binds.add(node.name)
            push(node.decorator_list)
            if isinstance(node, ast.ClassDef):
                push([*node.bases, *node.keywords])
                push(node.body, runs_later=True, binds_here=False)
            else:
                push(_around(node))
                push(node.body, bindings(node), True, False)
        elif isinstance(node, ast.Lambda):
            push(_defaults(node.args))
            push([node.body], bindings(node), True, False)
        elif isinstance(node, Comprehension):
            first, *others = node.generators
            targets = frozenset(
                one.id
                for part in node.generators
                for one in own_nodes([part.target])
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
            )
            lazy = isinstance(node, ast.GeneratorExp) and id(node) not in consumed
            push([first.iter])
            inner = [*first.ifs, first.target, *_results(node)]
            for part in others:
                inner += [part.iter, part.target, *part.ifs]
            push(inner, targets, lazy)
        elif isinstance(node, ast.alias):
            binds.add((node.asname or node.name).partition(".")[0])
        else:
            if isinstance(node, ast.Call) and _consumes(node, variables):
                consumed.add(id(node.args[0]))
            if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
                perhaps.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                perhaps.add(node.rest)
            push(ast.iter_child_nodes(node))
    bound = frozenset(binds & variables)
    return Uses(
        frozenset(reads),
        bound,
        frozenset(perhaps & variables),
        frozenset(deletes),
        frozenset(captured),
    )


def _consumes(call: ast.Call, variables: frozenset[str]) -> bool:
    if not call.args or not isinstance(call.args[0], ast.GeneratorExp):
        return False
    if isinstance(call.func, ast.Name):
        return call.func.id in CONSUMERS and call.func.id not in variables
    joins = isinstance(call.func, ast.Attribute) and call.func.attr == "join"
    return joins and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Constant)


def _results(node: Comprehension) -> list[ast.expr]:
    return [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [*arguments.defaults, *(one for one in arguments.kw_defaults if one is not None)]


def _around(function: FunctionNode) -> list[ast.expr]:
    """Expressions of a definition that run where it stands."""
    hints = [one.annotation for one in parameters(function.args)]
    return _defaults(function.args) + [one for one in (*hints, function.returns) if one is not None]
