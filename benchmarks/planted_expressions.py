"""Mistakes in one expression of a Python function, for `planted`.

In: an expression, and the names that its function binds. Out: kinds of mistakes with the expression as it
would be written by it. Nodes are shared, never changed. Wrong: nothing is raised.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

Change = tuple[str, ast.expr]

_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}
_LOOSENED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.LtE, ast.GtE),
    ast.NotEq: (ast.Lt, ast.Gt),
}
_DROPPED_CALLS = frozenset({"abs", "int", "float", "str", "sorted", "set", "list", "round", "reversed"})
_DROPPED_METHODS = frozenset(
    {"lower", "upper", "strip", "rstrip", "lstrip", "swapcase", "capitalize", "copy"}
)
_OTHER_CALLS = {"sum": "len", "len": "sum", "round": "int", "sorted": "list", "set": "list", "any": "bool"}
_OTHER_METHODS = {"append": "extend", "isalpha": "isalnum", "isdigit": "isalnum", "split": "partition"}
_NOT_COMMUTATIVE = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


def number(value: float) -> ast.expr:
    """A number as it is written."""
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))


def _plus(node: ast.expr, step: int) -> ast.expr:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return number(node.value + step)
    return ast.BinOp(node, ast.Add() if step > 0 else ast.Sub(), ast.Constant(abs(step)))


def _named(node: ast.expr) -> str:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _wrong_variable(node: ast.expr, names: Sequence[str]) -> Iterator[Change]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        for other in names:
            if other != node.id:
                yield "wrong variable", ast.Name(other, ast.Load())


def _range_bounds(node: ast.expr) -> Iterator[Change]:
    if _named(node) != "range" or not isinstance(node, ast.Call) or not node.args:
        return
    args = node.args
    if len(args) == 1:
        variants = [[_plus(args[0], -1)], [_plus(args[0], 1)], [ast.Constant(1), args[0]]]
    else:
        low, high, *step = args
        variants = [
            [_plus(low, 1), high, *step],
            [_plus(low, -1), high, *step],
            [low, _plus(high, 1), *step],
            [low, _plus(high, -1), *step],
            [ast.Constant(0), high, *step],
        ]
        variants += [[low, high]] if step else []
    for made in variants:
        yield "off by one in a range", ast.Call(node.func, made, [])


def _slice_bounds(node: ast.expr) -> Iterator[Change]:
    if not isinstance(node, ast.Slice):
        return
    if node.upper is not None:
        yield "wrong slice end", ast.Slice(node.lower, _plus(node.upper, -1), node.step)
        yield "wrong slice end", ast.Slice(node.lower, _plus(node.upper, 1), node.step)
        yield "wrong slice end", ast.Slice(node.lower, None, node.step)
    if node.lower is not None:
        yield "wrong slice start", ast.Slice(_plus(node.lower, 1), node.upper, node.step)
        yield "wrong slice start", ast.Slice(None, node.upper, node.step)
    if node.step is not None:
        yield "dropped slice step", ast.Slice(node.lower, node.upper, None)


def _index(node: ast.expr) -> Iterator[Change]:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        at = node.slice
        if not isinstance(at, ast.Slice | ast.Tuple) and not (
            isinstance(at, ast.Constant) and isinstance(at.value, str)
        ):
            for step in (-1, 1):
                yield "wrong index", ast.Subscript(node.value, _plus(at, step), ast.Load())
            if isinstance(at, ast.UnaryOp) and isinstance(at.op, ast.USub):
                yield "wrong index", ast.Subscript(node.value, ast.Constant(0), ast.Load())


def _swapped(node: ast.expr) -> Iterator[Change]:
    if isinstance(node, ast.Call) and len(node.args) > 1 and _named(node) not in ("isinstance", "range"):
        for at in range(len(node.args) - 1):
            args = [*node.args[:at], node.args[at + 1], node.args[at], *node.args[at + 2 :]]
            yield "swapped arguments", ast.Call(node.func, args, node.keywords)
    if isinstance(node, ast.BinOp) and isinstance(node.op, _NOT_COMMUTATIVE):
        yield "swapped operands", ast.BinOp(node.right, node.op, node.left)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield "swapped operands", ast.BinOp(node.right, node.op, node.left)
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        yield "swapped in a tuple", ast.Tuple([node.elts[1], node.elts[0], *node.elts[2:]], ast.Load())
    if isinstance(node, ast.IfExp):
        yield "swapped branches", ast.IfExp(node.test, node.orelse, node.body)


def _comparison(node: ast.expr) -> Iterator[Change]:
    if not isinstance(node, ast.Compare):
        return
    for at, how in enumerate(node.ops):
        for other in (*_LOOSENED.get(type(how), ()), *([_TURNED[type(how)]] if type(how) in _TURNED else [])):
            ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            yield "wrong comparison", ast.Compare(node.left, ops, node.comparators)
    for at, one in enumerate(node.comparators):
        if not isinstance(node.ops[at], ast.Is | ast.IsNot | ast.In | ast.NotIn) and not _textual(one):
            for step in (-1, 1):
                some = [*node.comparators[:at], _plus(one, step), *node.comparators[at + 1 :]]
                yield "off by one in a comparison", ast.Compare(node.left, node.ops, some)
    if len(node.ops) > 1:
        yield "missing case", ast.Compare(node.left, node.ops[:1], node.comparators[:1])


def _textual(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) not in (int, float)


def _condition(node: ast.expr) -> Iterator[Change]:
    if isinstance(node, ast.BoolOp):
        for at in range(len(node.values)):
            rest = [*node.values[:at], *node.values[at + 1 :]]
            yield "missing case", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        for at, one in enumerate(node.values):
            # a and (b or c) read as (a and b) or c.
            if isinstance(one, ast.BoolOp) and at > 0:
                first = ast.BoolOp(node.op, [*node.values[:at], one.values[0]])
                yield "wrong precedence", ast.BoolOp(other, [first, *one.values[1:]])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "forgotten not", node.operand


def _arithmetic(node: ast.expr) -> Iterator[Change]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "forgotten sign", node.operand
    if not isinstance(node, ast.BinOp):
        return
    if isinstance(node.op, ast.Div):
        yield "integer for float division", ast.BinOp(node.left, ast.FloorDiv(), node.right)
    if isinstance(node.op, ast.FloorDiv):
        yield "float for integer division", ast.BinOp(node.left, ast.Div(), node.right)
        negated = ast.UnaryOp(ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), node.left), node.op, node.right))
        yield "rounds the wrong way", negated
    if isinstance(node.op, ast.Mod):
        yield (
            "wrong sign of a remainder",
            ast.BinOp(ast.Call(ast.Name("abs", ast.Load()), [node.left], []), node.op, node.right),
        )
    if isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv | ast.Mod):
        # a * (b + c) read as a * b + c, and (a + b) * c as a + b * c.
        left, right = node.left, node.right
        if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Add | ast.Sub):
            yield "wrong precedence", ast.BinOp(ast.BinOp(left, node.op, right.left), right.op, right.right)
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add | ast.Sub):
            yield "wrong precedence", ast.BinOp(left.left, left.op, ast.BinOp(left.right, node.op, right))
    if isinstance(node.op, ast.Add | ast.Sub) and isinstance(node.right, ast.Constant):
        yield "dropped term", node.left


def _call(node: ast.expr) -> Iterator[Change]:
    if not isinstance(node, ast.Call):
        return
    name = _named(node)
    if name in _DROPPED_CALLS and len(node.args) >= 1:
        yield f"forgotten {name}", node.args[0]
    if name in _OTHER_CALLS:
        yield "wrong function", ast.Call(ast.Name(_OTHER_CALLS[name], ast.Load()), node.args[:1], [])
    if isinstance(node.func, ast.Attribute):
        if node.func.attr in _DROPPED_METHODS:
            yield f"forgotten {node.func.attr}", node.func.value
        if node.func.attr in _OTHER_METHODS:
            other = ast.Attribute(node.func.value, _OTHER_METHODS[node.func.attr], ast.Load())
            yield "wrong method", ast.Call(other, node.args, node.keywords)
    for at, one in enumerate(node.keywords):
        yield (
            "dropped option",
            ast.Call(node.func, node.args, [*node.keywords[:at], *node.keywords[at + 1 :]]),
        )
        if one.arg == "default" or (name == "" and one.arg == "end"):
            yield "wrong default", ast.Call(node.func, node.args, [ast.keyword(one.arg, ast.Constant(None))])
    if name == "enumerate" and len(node.args) == 1:
        yield "counts from one", ast.Call(node.func, [node.args[0], ast.Constant(1)], node.keywords)
    if name == "round" and len(node.args) == 2:
        yield "wrong precision", ast.Call(node.func, [node.args[0], _plus(node.args[1], -1)], [])
    if (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in ("get", "pop", "setdefault")
        and len(node.args) > 1
    ):
        key, given = node.args[:2]
        other = _plus(given, 1) if isinstance(given, ast.Constant) and type(given.value) is int else key
        yield "wrong default", ast.Call(node.func, [key, other], node.keywords)


def _constant(node: ast.expr) -> Iterator[Change]:
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if type(value) is int:
        for other in (value - 1, value * 10, int(str(value)[::-1]), 1 if value == 0 else 0):
            if other != value:
                yield "wrong number", number(other)
    elif type(value) is float:
        yield "wrong number", number(value / 10)
        yield "wrong number", number(float(int(value)))
    elif isinstance(value, str) and value:
        for other in (value[:-1], value[1:], value.swapcase(), value + value[-1]):
            if other != value:
                yield "wrong text", ast.Constant(other)


def _collection(node: ast.expr) -> Iterator[Change]:
    if isinstance(node, ast.List) and isinstance(node.ctx, ast.Load) and node.elts:
        yield "missing entry", ast.List(node.elts[:-1], ast.Load())
        yield "missing entry", ast.List(node.elts[1:], ast.Load())
    if isinstance(node, ast.Dict) and node.keys:
        yield "missing entry", ast.Dict(node.keys[:-1], node.values[:-1])
    if isinstance(node, ast.Set) and len(node.elts) > 1:
        yield "missing entry", ast.Set(node.elts[1:])
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp) and node.generators[0].ifs:
        first = node.generators[0]
        bare = ast.comprehension(first.target, first.iter, first.ifs[1:], first.is_async)
        yield "forgotten filter", type(node)(node.elt, [bare, *node.generators[1:]])


_MAKERS = (
    _range_bounds,
    _slice_bounds,
    _index,
    _swapped,
    _comparison,
    _condition,
    _arithmetic,
    _call,
    _constant,
    _collection,
)


def changes(node: ast.expr, names: Sequence[str]) -> Iterator[Change]:
    """Every mistake that the makers know for an expression."""
    yield from _wrong_variable(node, names)
    for maker in _MAKERS:
        yield from maker(node)
