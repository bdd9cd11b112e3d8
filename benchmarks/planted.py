"""Bugs of the kinds that people write, put into one function of a Python program.

In: a program's text and the name of one of its module-level functions. Out: `Bug`s: the program with that
function changed and every other byte as it was, each of another syntax tree. They are made from Python's own
`ast` and share nothing with the mutation operators of `decompose`, so that they can measure labels that rest
on those operators. Whether a bug changes what the function returns is not known here (see `witness`).
Wrong: ValueError where the program does not parse or lacks the function.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planted_expressions import changes, number

Rearranged = tuple[str, list[ast.stmt]]


@dataclass(frozen=True)
class Bug:
    """A program with one bug.

    Attributes:
        function: where it is.
        kind: what sort of mistake it is.
        detail: the changed place, for a person.
        code: the whole program.
    """

    function: str
    kind: str
    detail: str
    code: str


def bugs(code: str, function: str) -> list[Bug]:
    """Every bug that the makers know for a function, in order of place.

    Raises:
        ValueError: the text is no program, or has no such function at module level.
    """
    node = _found(code, function)
    before = ast.unparse(node)
    seen = {before}
    made = []
    for kind, detail in _each(node):
        text = ast.unparse(node)
        if text not in seen and _parses(text):
            seen.add(text)
            made.append(Bug(function, kind, detail, _spliced(code, node, text)))
    return made


def plant(code: str, function: str, draw: random.Random, most: int) -> list[Bug]:
    """At most so many bugs of a function, of as many kinds as there are.

    Raises:
        ValueError: as `bugs`.
    """
    return choose(bugs(code, function), draw, most)


def choose(found: Sequence[Bug], draw: random.Random, most: int) -> list[Bug]:
    """At most so many of some bugs, kinds taking turns in a drawn order."""
    by_kind: dict[str, list[Bug]] = {}
    for bug in found:
        by_kind.setdefault(bug.kind, []).append(bug)
    kinds = sorted(by_kind)
    draw.shuffle(kinds)
    for some in by_kind.values():
        draw.shuffle(some)
    chosen: list[Bug] = []
    while len(chosen) < most and any(by_kind.values()):
        for kind in kinds:
            if by_kind[kind] and len(chosen) < most:
                chosen.append(by_kind[kind].pop())
    return chosen


def _found(code: str, function: str) -> ast.FunctionDef:
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise ValueError(f"no program: {error}") from None
    found = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == function]
    if not found:
        raise ValueError(f"no function {function} at module level")
    return found[-1]


def _parses(text: str) -> bool:
    try:
        compile(text, "bug", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _spliced(code: str, node: ast.FunctionDef, text: str) -> str:
    lines = code.splitlines(keepends=True)
    start = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    tail = "" if node.end_lineno == len(lines) and not lines[-1].endswith("\n") else "\n"
    return "".join([*lines[: start - 1], text + tail, *lines[node.end_lineno or start :]])


def _each(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Kind and place of each bug; while one is told, it stands in the tree."""
    names = _locals(function)
    for owner, field, at, node in _expressions(function):
        for kind, new in changes(node, names):
            _put(owner, field, at, new)
            yield kind, f"line {node.lineno}: {_short(node)} -> {_short(new)}"
            _put(owner, field, at, node)
    for owner, field, block in _blocks(function):
        for arrange in _STATEMENTS:
            for kind, fresh in arrange(block):
                setattr(owner, field, fresh or [ast.Pass()])
                yield kind, f"line {getattr(block[0], 'lineno', 0)}: {field} of {type(owner).__name__}"
                setattr(owner, field, block)


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."


def _put(owner: ast.AST, field: str, at: int | None, new: ast.expr) -> None:
    if at is None:
        setattr(owner, field, new)
    else:
        getattr(owner, field)[at] = new


def _inside(function: ast.FunctionDef) -> list[ast.AST]:
    """What runs when the function is called: its body without the docstring and annotations."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    found: list[ast.AST] = []
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        found.append(node)
        stack += reversed([one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.arguments)])
    return found


def _expressions(function: ast.FunctionDef) -> list[tuple[ast.AST, str, int | None, ast.expr]]:
    found: list[tuple[ast.AST, str, int | None, ast.expr]] = []
    for owner in _inside(function):
        for field, value in ast.iter_fields(owner):
            if field in ("annotation", "returns", "type_comment"):
                continue
            if isinstance(value, ast.expr):
                found.append((owner, field, None, value))
            elif isinstance(value, list):
                found += [
                    (owner, field, at, one) for at, one in enumerate(value) if isinstance(one, ast.expr)
                ]
    return found


def _blocks(function: ast.FunctionDef) -> list[tuple[ast.AST, str, list[ast.stmt]]]:
    found: list[tuple[ast.AST, str, list[ast.stmt]]] = []
    for owner in (function, *_inside(function)):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(owner, field, None)
            if isinstance(block, list) and block:
                found.append((owner, field, block))
    return found


def _locals(function: ast.FunctionDef) -> list[str]:
    """Names that the function binds, in order."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [
        one.id for one in _inside(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    ]
    return list(dict.fromkeys(names))


def _dropped(block: list[ast.stmt]) -> Iterator[Rearranged]:
    for at, one in enumerate(block):
        rest = [*block[:at], *block[at + 1 :]]
        if isinstance(one, ast.If):
            yield "missing case", [*block[:at], *one.orelse, *block[at + 1 :]]
            yield "dropped condition", [*block[:at], *one.body, *block[at + 1 :]]
            if one.orelse:
                yield "missing else", [*block[:at], ast.If(one.test, one.body, []), *block[at + 1 :]]
                separate = ast.If(one.test, one.body, [])
                yield "if for elif", [*block[:at], separate, *one.orelse, *block[at + 1 :]]
        elif isinstance(one, ast.Break | ast.Continue):
            yield "forgotten break", rest
        elif isinstance(one, ast.Assign | ast.AugAssign) or (
            isinstance(one, ast.Expr) and not isinstance(one.value, ast.Constant)
        ):
            yield "dropped statement", rest


def _assigned(block: list[ast.stmt]) -> Iterator[Rearranged]:
    for at, one in enumerate(block):
        before, after = block[:at], block[at + 1 :]
        if isinstance(one, ast.AugAssign):
            target = one.target
            yield "overwritten accumulator", [*before, ast.Assign([target], one.value, lineno=0), *after]
            if isinstance(one.op, ast.Add | ast.Sub):
                other = ast.Sub() if isinstance(one.op, ast.Add) else ast.Add()
                yield "wrong direction", [*before, ast.AugAssign(target, other, one.value), *after]
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant | ast.List | ast.Dict):
            for wrong in _starts(one.value):
                yield "wrong initial value", [*before, ast.Assign(one.targets, wrong, lineno=0), *after]
        following = after[0] if after else None
        if isinstance(one, ast.Assign) and isinstance(following, ast.For | ast.While):
            loop = _with_body(following, [one, *following.body])
            yield "started again in the loop", [*before, one, loop, *after[1:]]


def _starts(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.Constant) and type(value.value) in (int, float):
        yield number(value.value + 1)
        yield number(value.value - 1)
    elif isinstance(value, ast.Constant) and type(value.value) is bool:
        yield ast.Constant(not value.value)
    elif isinstance(value, ast.Constant) and value.value == "":
        yield ast.Constant(" ")
    elif isinstance(value, ast.List) and not value.elts:
        yield ast.List([ast.Constant(0)], ast.Load())


def _with_body(loop: ast.For | ast.While, body: list[ast.stmt]) -> ast.stmt:
    if isinstance(loop, ast.For):
        return ast.For(loop.target, loop.iter, body, loop.orelse, lineno=0)
    return ast.While(loop.test, body, loop.orelse)


def _loops(block: list[ast.stmt]) -> Iterator[Rearranged]:
    for at, one in enumerate(block):
        if not isinstance(one, ast.For | ast.While):
            continue
        before, after = block[:at], block[at + 1 :]
        if after and isinstance(after[0], ast.Return):
            yield "returns inside the loop", [*before, _with_body(one, [*one.body, after[0]]), *after]
        yield "stops after one round", [*before, _with_body(one, [*one.body, ast.Break()]), *after]
        if len(one.body) > 1:
            yield "left out of the loop", [*before, _with_body(one, one.body[:-1]), one.body[-1], *after]
        if isinstance(one, ast.While):
            yield "if for while", [*before, ast.If(one.test, one.body, []), *after]
        if isinstance(one, ast.For):
            shorter = ast.For(one.target, _tail(one.iter), one.body, one.orelse, lineno=0)
            yield "skips the first", [*before, shorter, *after]


def _tail(node: ast.expr) -> ast.expr:
    copied = ast.Call(ast.Name("list", ast.Load()), [node], [])
    return ast.Subscript(copied, ast.Slice(ast.Constant(1), None, None), ast.Load())


def _moved(block: list[ast.stmt]) -> Iterator[Rearranged]:
    for at in range(len(block) - 1):
        one, two = block[at], block[at + 1]
        if not any(
            isinstance(each, ast.Return | ast.Raise | ast.Import | ast.ImportFrom) for each in (one, two)
        ):
            yield "statements in the wrong order", [*block[:at], two, one, *block[at + 2 :]]
        if isinstance(one, ast.If) and not one.orelse and not isinstance(two, ast.Return):
            inside = ast.If(one.test, [*one.body, two], [])
            yield "indented too far", [*block[:at], inside, *block[at + 2 :]]
    last = block[-1]
    if isinstance(last, ast.If) and len(last.body) > 1:
        yield (
            "indented too little",
            [*block[:-1], ast.If(last.test, last.body[:-1], last.orelse), last.body[-1]],
        )


def _edges(block: list[ast.stmt]) -> Iterator[Rearranged]:
    for at, one in enumerate(block):
        if isinstance(one, ast.Return) and isinstance(one.value, ast.Name):
            none = ast.BoolOp(ast.Or(), [one.value, ast.Constant(None)])
            yield "nothing for empty", [*block[:at], ast.Return(none), *block[at + 1 :]]


_STATEMENTS = (_dropped, _assigned, _loops, _moved, _edges)
