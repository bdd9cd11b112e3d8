"""Python programs that count their own steps: what a call runs, what it takes, and when it is too much.

In: a program and the name of one of its functions. Out: the program with a counter before each statement,
and names of two functions in it that make a call: `probe` returns what the call left of its arguments,
the statements of the function that it ran and the steps that it took; `call` comes to what the call comes
to, and raises where that takes too many steps. A step is a statement run in any function of the program,
so the count is the same on every machine, busy or not. What runs below Python's statements is not counted.
Wrong: None for a program that cannot be written anew, such as one nested too deeply.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from decompose.grammars import SourceError
from decompose.python import parse_python
from labelers.programs.runs import entry_of

# After so many calls that took too many steps the others of the run are not made.
_PATIENCE = 3

_HEAD = """
class NAME_Slow(BaseException): pass
class NAME_Unmade(BaseException): pass
NAME_steps, NAME_spent, NAME_hits = 0, 0, set()
def NAME_tick(number):
    global NAME_steps
    NAME_steps += 1
    if number:
        NAME_hits.add(number)
    if NAME_steps > MOST:
        raise NAME_Slow
"""

_TAIL = """
def NAME_probe(*args, **kwargs):
    global NAME_steps, NAME_spent
    if IN_ALL is not None and NAME_spent > IN_ALL:
        raise NAME_Unmade
    NAME_steps = 0
    NAME_hits.clear()
    try:
        TARGET(*args, **kwargs)
    except BaseException:
        pass
    NAME_spent += NAME_steps
    return [args, kwargs, sorted(NAME_hits), NAME_steps]
def NAME_call(*args, **kwargs):
    global NAME_steps, NAME_spent
    NAME_steps = 0
    if NAME_spent >= PATIENCE:
        raise NAME_Unmade
    try:
        return RESULT
    finally:
        if NAME_steps > MOST:
            NAME_spent += 1
            raise NAME_Slow
"""


@dataclasses.dataclass(frozen=True)
class Counted:
    """A program that counts its steps.

    Attributes:
        code: the program.
        probe: function that returns [args, kwargs, numbers of statements run, steps].
        call: function that makes the call and comes to the same.
        slow: type of the error that `call` raises when the call takes more steps than it may.
        unmade: type of the error that `call` raises when it does not make the call any more.
        statements: statements of the function, numbered from 1.
    """

    code: str
    probe: str
    call: str
    slow: str
    unmade: str
    statements: int


def counted(
    code: str, function: str, most: int, in_all: int | None = None, left: bool = False
) -> Counted | None:
    """A program that counts its steps, or None where it cannot be made.

    Args:
        function: qualified name of the function that is called and whose statements are numbered.
        most: steps that one call may take.
        left: `call` comes to [value, args, kwargs], the arguments as the call left them.
        in_all: steps after which no further call is made; not bounded when None.
    """
    name = "steps_of"
    while name in code:
        name += "_"
    try:
        tree = parse_python(code.removeprefix("\ufeff"))
        target = _definition(tree, function)
        if target is None:
            return None
        statements = _instrument(tree, target, f"{name}_tick")
        at = _first_own(tree)
        called = entry_of(function)
        made = called if called == function else f"Solution().{called}"
        result = f"{made}(*args, **kwargs)"
        values = {
            "NAME": name,
            "MOST": str(most),
            "PATIENCE": str(_PATIENCE),
            "IN_ALL": str(in_all),
            "TARGET": made,
            "RESULT": f"[{result}, list(args), kwargs]" if left else result,
        }
        tree.body[at:at] = ast.parse(_filled(_HEAD, values)).body
        tree.body += ast.parse(_filled(_TAIL, values)).body
        text = ast.unparse(tree)
        parse_python(text)
    except (SourceError, ValueError, RecursionError, MemoryError):
        return None
    return Counted(text, f"{name}_probe", f"{name}_call", f"{name}_Slow", f"{name}_Unmade", statements)


def _filled(text: str, values: dict[str, str]) -> str:
    for word, value in values.items():
        text = text.replace(word, value)
    return text


def _definition(tree: ast.Module, function: str) -> ast.AST | None:
    """The last definition of a qualified name, which is what the name means."""
    body = tree.body
    found: ast.AST | None = None
    for part in function.split("."):
        found = None
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == part:
                found = node
        if found is None:
            return None
        body = found.body
    return found


def _instrument(tree: ast.Module, target: ast.AST, tick: str) -> int:
    """Put a counter before each statement of each function; how many of them are the target's."""
    statements = 0
    # (node, whether it is in a function, whether it is in the target)
    stack: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while stack:
        node, inside, hit = stack.pop()
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        hit = hit or node is target
        for body, is_elif in _bodies(node):
            old = list(body)
            stack += [(one, inside, hit) for one in old]
            if isinstance(node, ast.ClassDef) or not inside or is_elif:
                continue
            new: list[ast.stmt] = []
            for number, one in enumerate(old):
                names_only = isinstance(one, ast.Global | ast.Nonlocal)
                if not names_only and not (number == 0 and _is_text(one)):
                    statements += hit
                    number_of = statements if hit else 0
                    call = ast.Call(ast.Name(tick, ast.Load()), [ast.Constant(number_of)], [])
                    new.append(ast.Expr(call))
                new.append(one)
            body[:] = new
    ast.fix_missing_locations(tree)
    return statements


def _bodies(node: ast.AST) -> Iterator[tuple[list[ast.stmt], bool]]:
    """Lists of statements of a node, and whether one is an `elif`, which must stay alone in its list."""
    for field in ("body", "orelse", "finalbody"):
        body = getattr(node, field, None)
        if isinstance(body, list):
            chained = isinstance(node, ast.If) and field == "orelse"
            yield body, chained and len(body) == 1 and isinstance(body[0], ast.If)
    for field in ("handlers", "cases"):
        for part in getattr(node, field, ()):
            yield part.body, False


def _is_text(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _first_own(tree: ast.Module) -> int:
    """Where a statement may be put into a module: after its docstring and its imports of the future."""
    at = 0
    for at, node in enumerate(tree.body):
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not future and not (at == 0 and _is_text(node)):
            return at
    return at + 1 if tree.body else 0
