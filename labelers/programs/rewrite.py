"""A model rewrites correct solutions as several functions; what it wrote is looked at before it is run.

In: `Problem` rows in Python and a client. Out: for each problem its `Rewrite`s, one an attempt: a program, or
why there is none. The suite is run by the caller.
Wrong: an answer is refused with one of these reasons, and a line that says more:
    model_failed       the request had no answer
    no_program         the answer holds none: prose, another language, nothing
    syntax_error       what it holds is not Python
    holds_tests        it brings assertions or test functions along
    reads_tests        it imports modules by which tests or callers could be looked at
    interface_changed  the entry point, or another name that the suite uses, is gone or takes other arguments
    unchanged          it is the solution as it was
    nested             its helpers are defined inside of functions
    too_few_functions  fewer functions at module level than wanted that anything uses
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from decompose.grammars import SourceError
from decompose.python import parse_python
from decompose.source import read
from labelers.llm.calls import Message, Reply, Request
from labelers.llm.fencing import fence
from labelers.programs.answers import Asked, fenced, find
from labelers.programs.suites import suites
from labelers.prompts import render, version
from schemas.ids import rng

if TYPE_CHECKING:
    from labelers.llm.client import Client

PROMPT = "rewrite"
_SEEDS = 1 << 31
_MAX_STATEMENT = 20_000
_MAX_NAMES = 20

_TEST_NAME = re.compile(r"test_|check$|Test[A-Z]")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
# With these a program can look at who calls it, or at the tests themselves.
_LOOKING = frozenset(
    {"__main__", "_pytest", "candidate", "gc", "inspect", "pytest", "solution", "test", "tests", "unittest"}
)


@dataclasses.dataclass(frozen=True)
class Rewrite:
    """What became of one attempt.

    Attributes:
        program: the whole rewritten program; None where there is none.
        reason: why it is refused; None where it may be run.
        detail: more about that, in a line.
        model: who wrote it.
        prompt_version: template that it was asked by.
    """

    program: str | None
    reason: str | None
    detail: str
    model: str
    prompt_version: str


def rewrite(
    problems: Sequence[Mapping[str, Any]], client: Client, attempts: int, seed: int, min_functions: int = 2
) -> list[list[Rewrite]]:
    """Ask for `attempts` rewrites of each problem's solution.

    Returns:
        for each problem its attempts, in order; equal programs are there once.

    Raises:
        ModelFault, BudgetSpent: as for `Client.ask`.
    """
    requests = (
        request for problem in problems for request in _requests(problem, attempts, seed, min_functions)
    )
    replies = client.ask(requests)
    found = []
    for problem in problems:
        made: dict[str | int, Rewrite] = {}
        for number in range(attempts):
            one = read_answer(problem, next(replies), min_functions)
            made.setdefault(one.program if one.program is not None else number, one)
        found.append(list(made.values()))
    # The client tells at its end what got no answer.
    next(replies, None)
    return found


def _requests(problem: Mapping[str, Any], attempts: int, seed: int, min_functions: int) -> Iterator[Request]:
    """The samples to ask for."""
    draw = rng(seed, "rewrite", problem["id"])
    entry, others = problem["entry_point"], []
    signature = ""
    try:
        interface = _Interface.of(problem)
        others = [name for name in sorted(interface.names) if name != entry][:_MAX_NAMES]
        signature = interface.shown
    except SourceError:
        # The solution will be refused when it is run; the model may still know what was meant.
        pass
    text = render(
        PROMPT,
        language=problem["language"],
        statement=fence(problem["prompt"][:_MAX_STATEMENT]),
        code=fence(problem["solution"], problem["language"]),
        most=max(2, min_functions),
        entry=entry,
        signature=fence(signature, problem["language"]) if signature else "as it is",
        others=others,
    )
    for number in range(attempts):
        yield Request((Message("user", text),), seed=draw.randrange(_SEEDS), sample=number)


def read_answer(problem: Mapping[str, Any], reply: Reply, min_functions: int = 2) -> Rewrite:
    """The program in a model's answer, or why it is refused."""

    def made(program: str | None, reason: str | None, detail: str = "") -> Rewrite:
        line = " ".join(detail.split())[:300]
        return Rewrite(program, reason, line, reply.model, version(PROMPT))

    if reply.error is not None:
        return made(None, "model_failed", reply.error)
    program, fault = _program(problem, reply.text)
    if program is None:
        return made(None, "no_program", fault)
    try:
        refused = _refused(problem, program, min_functions)
    except SourceError as error:
        return made(None, "syntax_error", str(error))
    return made(program, None) if refused is None else made(program, *refused)


def _program(problem: Mapping[str, Any], text: str) -> tuple[str | None, str]:
    """The program in an answer, or what the answer is instead."""
    blocks = sorted((text[start:end] for start, end, _ in fenced(text)), key=len, reverse=True)
    entry = problem["entry_point"]
    if entry is not None:
        found = find(text, Asked(problem["language"], frozenset({entry}), "", ""))
        if found.fault is None or found.fault == "unfilled":
            return found.program, ""
        # What cannot be read, or lacks the entry point, is told as that.
        if blocks and found.fault in ("prose", "tests_only", "broken"):
            return blocks[0], ""
        return None, found.fault
    for one in (*blocks[:8], text):
        try:
            if read(one).definitions:
                return one, ""
        except SourceError:
            continue
    return (blocks[0], "") if blocks else (None, "prose" if text.strip() else "empty")


@dataclasses.dataclass(frozen=True)
class _Interface:
    """What a solution offers to its suite: names at module level with how they are called."""

    names: dict[str, object]
    shown: str

    @classmethod
    def of(cls, problem: Mapping[str, Any]) -> _Interface:
        """The interface that a problem's suite relies on.

        Raises:
            SourceError: the solution is not a program.
        """
        source = read(problem["solution"])
        offered = _offered(source.module)
        entry = problem["entry_point"]
        used = _used(problem) | ({entry, entry.partition(".")[0]} if entry else set())
        shown = next((one.span.signature for one in source.steps if one.span.name == entry), "")
        return cls({name: how for name, how in offered.items() if _is_used(name, used)}, shown)


def _is_used(name: str, used: set[str]) -> bool:
    owner, _, method = name.rpartition(".")
    return name in used or (owner in used and (method == "__init__" or method in used))


def _offered(module: ast.Module) -> dict[str, object]:
    """Names that a module defines at its top, and the methods of its classes, with how they are called."""
    found: dict[str, object] = {}
    for node in module.body:
        if isinstance(node, _Function):
            found[node.name] = _called(node)
        elif isinstance(node, ast.ClassDef):
            found[node.name] = "class"
            for inner in node.body:
                if isinstance(inner, _Function):
                    found[f"{node.name}.{inner.name}"] = _called(inner)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
            found |= dict.fromkeys(names, "value")
    return found


def _called(node: _Function) -> object:
    """How a function is called: names, kinds and defaults of its parameters; and its own kind."""
    arguments = node.args
    own = _own_nodes(node)
    return (
        type(node).__name__,
        any(isinstance(one, ast.Yield | ast.YieldFrom) for one in own),
        [
            [one.arg for one in group]
            for group in (arguments.posonlyargs, arguments.args, arguments.kwonlyargs)
        ],
        [one.arg if one else None for one in (arguments.vararg, arguments.kwarg)],
        [_shape(one) for one in arguments.defaults],
        [None if one is None else _shape(one) for one in arguments.kw_defaults],
    )


def _own_nodes(function: _Function) -> Iterator[ast.AST]:
    """Nodes of a function's body, those of functions inside of it left out."""
    stack: list[ast.AST] = [*function.body]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _Function | ast.Lambda | ast.ClassDef):
            stack += ast.iter_child_nodes(node)


def _shape(root: ast.AST) -> list[tuple[object, ...]]:
    """A tree as a flat list that tells it from every other one, positions left out. Not recursive."""
    found: list[tuple[object, ...]] = []
    for node in ast.walk(root):
        fields: list[object] = [type(node).__name__]
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                fields.append((name, len(value), *(one for one in value if not isinstance(one, ast.AST))))
            elif isinstance(value, ast.AST):
                fields.append(name)
            elif value is not None:
                fields.append((name, type(value).__name__, repr(value)))
        found.append(tuple(fields))
    return found


def _used(problem: Mapping[str, Any]) -> set[str]:
    """Every name that the suite's source mentions."""
    found: set[str] = set()
    for text in suites(problem):
        try:
            tree = parse_python(text)
        except SourceError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.alias):
                found.add(node.name)
    return found


def _refused(problem: Mapping[str, Any], program: str, min_functions: int) -> tuple[str, str] | None:
    """Why a program is not run at all, with a detail; None where it may be.

    Raises:
        SourceError: it is not a program.
    """
    source = read(program)
    module = source.module
    solution = read(problem["solution"]).module
    looking = sorted((_imports(module) & _LOOKING) - _imports(solution))
    if looking:
        return "reads_tests", f"imports {', '.join(looking)}"
    brought = sorted(_tests(module) - _tests(solution))
    if brought:
        return "holds_tests", ", ".join(brought)[:200]
    wanted, offered = _Interface.of(problem).names, _offered(module)
    for name, how in wanted.items():
        if name not in offered:
            return "interface_changed", f"{name} is gone"
        if offered[name] != how:
            return "interface_changed", f"{name} takes other arguments"
    if _shape(module) == _shape(solution):
        return "unchanged", ""
    alive = _alive(source.module, problem["entry_point"], set(wanted))
    if len(alive) < min_functions:
        inside = _nested(module) - _nested(solution)
        unused = sorted({node.name for node in module.body if isinstance(node, _Function)} - alive)
        detail = f"{len(alive)} functions" + (f", and nothing uses {', '.join(unused)}" if unused else "")
        return ("nested", ", ".join(sorted(inside))) if inside else ("too_few_functions", detail)
    return None


def _imports(module: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def _tests(module: ast.Module) -> set[str]:
    """What a module holds of tests: assertions at its top, and functions and classes that are named so."""
    found: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.Assert):
            found.add("assertions")
        elif isinstance(node, _Function | ast.ClassDef) and _TEST_NAME.match(node.name):
            found.add(node.name)
    return found


def _nested(module: ast.Module) -> set[str]:
    """Names of functions inside of functions."""
    functions = [node for node in ast.walk(module) if isinstance(node, _Function)]
    inside = (inner for node in functions for inner in _own_nodes(node))
    return {inner.name for inner in inside if isinstance(inner, _Function)}


def _alive(module: ast.Module, entry: str | None, kept: set[str]) -> set[str]:
    """Functions at module level that the entry point, kept names or the module's statements reach."""
    uses: dict[str, set[str]] = {}
    roots: set[str] = set(kept) | ({entry.partition(".")[0]} if entry else set())
    for node in module.body:
        named = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        if isinstance(node, _Function | ast.ClassDef):
            uses.setdefault(node.name, set()).update(named)
        else:
            roots |= named
    seen: set[str] = set()
    stack = list(roots)
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack += uses.get(name, ())
    return {node.name for node in module.body if isinstance(node, _Function) and node.name in seen}
