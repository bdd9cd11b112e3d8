"""Calls of a program's functions, recorded while its suite runs on it.

In: a program in Python with its problem. Out: distinct calls of each function, `max_calls` at most, in
the order in which they ended, of those that two runs make, with other hash seeds and one seed of `random`.
Source suites run beside the program with its functions watched; `call` tests are calls of the entry point;
for a `stdin` test the program's own statements become a function that is run with that input, and its
output is compared, so that a program which behaves otherwise when it is run so gives no calls.
Wrong: a failure of the sandbox is `InfraError`; a program that does not pass its suite while it is watched
gives a `Drop`; a suite that takes too long, or a program that cannot be run as a function, is counted.
"""

from __future__ import annotations

import ast
import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from decompose.grammars import SourceError
from decompose.python import parse_python
from labelers.programs import runs
from labelers.programs.config import TestsConfig
from labelers.programs.suites import suites
from labelers.programs.watch import MAIN, watched
from sandbox import Call, EncodeError, Job, RecordedCall, Result
from schemas.stage import Drop

Runner = Callable[[Sequence[Job]], Iterable[Result]]

HARVESTED = "harvested"
"""Source of the calls that the suite makes."""

_HASH_SEEDS = (0, 1)
# Inputs of a program that are tried, and calls of an entry point.
_MAX_INPUTS, _MAX_CALL_TESTS = 24, 200
_MAIN = "watched_main"

# So many times the calls that are wanted of a function are recorded of each file of the suite.
_SPREAD = 5


class InfraError(Exception):
    """The sandbox failed, more than once."""


@dataclasses.dataclass
class Harvest:
    """What was recorded.

    Attributes:
        calls: of each function that was called, by the text of the call.
        skipped: calls without an encoding, or with a large one, of all functions.
        failed: files and inputs of the suite that gave nothing, by reason.
    """

    calls: dict[str, dict[str, RecordedCall]] = dataclasses.field(default_factory=dict)
    skipped: int = 0
    failed: Counter[str] = dataclasses.field(default_factory=Counter)

    def add(self, result: Result, again: Result) -> None:
        """Take the distinct calls that two runs made."""
        self.skipped += result.record_skipped
        twice = {(call.function, _text(call)) for call in again.recorded}
        for call in result.recorded:
            kept = self.calls.setdefault(call.function, {})
            if (call.function, _text(call)) in twice:
                kept.setdefault(_text(call), call)

    def thin(self, most: int) -> None:
        """Leave `most` calls of each function, from all over the suite: its first input may make them all."""
        for name, calls in self.calls.items():
            texts = list(calls)
            if len(texts) > most:
                chosen = (texts[number * len(texts) // most] for number in range(most))
                self.calls[name] = {text: calls[text] for text in chosen}


def record(
    program: Mapping[str, Any],
    problem: Mapping[str, Any],
    names: Sequence[str],
    config: TestsConfig,
    run: Runner,
) -> Harvest | Drop:
    """Distinct calls of each function while the suite runs on the reference.

    Args:
        names: functions outside of classes, which are the ones that can be watched.
        run: runs jobs; it raises `InfraError` where the sandbox fails.
    """
    bounds = runs.limits(config.suite_cpu_s, config.suite_wall_s, config.memory_mb)
    watch: dict[str, Any] = {
        "limits": bounds,
        "record": names,
        "record_max": config.max_calls * _SPREAD,
        "record_bytes": config.max_call_bytes,
    }
    entry = program["entry_point"] or (names[0] if names else "")
    jobs = [
        Job("unittest", {"solution.py": program["code"], "test.py": text}, entry, **watch)
        for text in (suites(problem) if entry else [])
    ]
    found = Harvest()
    for result, again in _twice(jobs, run):
        if result.status in runs.TIMEOUTS:
            # How far it came depends on the machine, so none of it counts.
            found.failed["suite_too_slow"] += 1
        elif result.status != "ok":
            return Drop(program["id"], "reference_unrecordable", f"{result.status}: {result.detail}"[:500])
        else:
            found.add(result, again)
    if calls := call_tests(problem):
        job = Job("calls", {"solution.py": program["code"]}, runs.entry_of(entry), calls, **watch)
        for result, again in _twice([job], run):
            if result.status == "ok":
                found.add(result, again)
            else:
                found.failed["call_tests_stopped"] += 1
    inputs = [test for test in problem["tests"] if test["kind"] == "stdin" and test["stdin"] is not None]
    if inputs:
        _record_inputs(program["code"], inputs[:_MAX_INPUTS], watch, run, found)
    found.thin(config.max_calls)
    return found


def _twice(jobs: Sequence[Job], run: Runner) -> Iterator[tuple[Result, Result]]:
    """Results of runs under two hash seeds; the first of a pair is the one that ended worse."""
    seeded = [
        dataclasses.replace(job, files=_seeded(job.files), hash_seed=hash_seed)
        for job in jobs
        for hash_seed in _HASH_SEEDS
    ]
    results, at = iter(run(seeded)), 0
    for first in results:
        second = next(results)
        if "output_limit" in (first.status, second.status):
            # Large calls: fewer of them fit.
            fewer = [
                dataclasses.replace(job, record_max=job.record_max // _SPREAD) for job in seeded[at : at + 2]
            ]
            first, second = run(fewer)
        at += 2
        yield (first, second) if first.status != "ok" or second.status == "ok" else (second, first)


def _seeded(files: Mapping[str, str]) -> dict[str, str]:
    """A suite that draws its inputs draws the same in each run."""
    if not any("random" in text for text in files.values()):
        return dict(files)
    seeding = '\n__import__("random").seed(0)\n'
    if any("numpy" in text for text in files.values()):
        seeding += '__import__("numpy").random.seed(0)\n'
    return {**files, "solution.py": files["solution.py"] + seeding}


def _text(call: RecordedCall) -> str:
    return runs.call_text(Call(call.args, call.kwargs))


def call_tests(problem: Mapping[str, Any]) -> list[Call]:
    """The calls of a problem's `call` tests, those left out that are no list of arguments."""
    found: list[Call] = []
    for test in problem["tests"]:
        if test["kind"] != "call" or len(found) >= _MAX_CALL_TESTS:
            continue
        try:
            args = json.loads(test["args"] or "")
            call = Call(tuple(args)) if isinstance(args, list) else None
            if call is not None:
                runs.call_text(call)
                found.append(call)
        except (ValueError, RecursionError, EncodeError):
            continue
    return found


def watch(
    program: Mapping[str, Any], problem: Mapping[str, Any], config: TestsConfig, run: Runner
) -> dict[str, list[Call]]:
    """Calls of the functions of a program in a language that can be watched, while its `call` tests run."""
    entry, language = program["entry_point"], program["language"]
    text = watched(program["code"], program["functions"], entry or "", language)
    calls = call_tests(problem)
    if text is None or not calls:
        return {}
    bounds = runs.limits(config.suite_cpu_s, config.suite_wall_s, config.memory_mb)
    found: dict[str, dict[str, Call]] = {}
    for result in run([runs.calls_job(text, MAIN, calls, bounds, lang=language)]):
        told = [one for output in result.outputs if type(output) is list for one in output]
        for name, args in (one for one in told if _is_call(one)):
            kept = found.setdefault(name, {})
            if len(kept) < config.max_calls:
                call = Call(tuple(args))
                kept.setdefault(runs.call_text(call), call)
    return {name: list(some.values()) for name, some in found.items()}


def _is_call(told: Any) -> bool:
    return type(told) is list and len(told) == 2 and type(told[0]) is str and type(told[1]) is list


def _record_inputs(
    code: str,
    tests: Sequence[Mapping[str, Any]],
    watch: Mapping[str, Any],
    run: Runner,
    found: Harvest,
) -> None:
    text = as_function(code)
    if text is None:
        found.failed["program_not_a_function"] += len(tests)
        return
    jobs = [
        Job("unittest", {"solution.py": text, "test.py": _feeding(test)}, _MAIN, **watch) for test in tests
    ]
    for result, again in _twice(jobs, run):
        if result.status == "ok":
            found.add(result, again)
        elif result.status in runs.TIMEOUTS:
            found.failed["suite_too_slow"] += 1
        else:
            found.failed["program_behaves_otherwise"] += 1


_FEEDING = """
import io, sys

class _Text(io.TextIOWrapper):
    def close(self):
        self.flush()

def check(candidate):
    old = sys.stdin, sys.stdout
    written = io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(GIVEN.encode()), "utf-8")
    sys.stdout = _Text(written, "utf-8")
    try:
        candidate()
    except SystemExit:
        pass
    finally:
        sys.stdout.flush()
        sys.stdin, sys.stdout = old
    if EXPECTED is not None:
        assert written.getvalue().decode("utf-8", "replace").split() == EXPECTED.split()
"""


def _feeding(test: Mapping[str, Any]) -> str:
    """A suite that runs the program's statements on one input and looks at what they write."""
    given, expected = test["stdin"], test["stdout"]
    return f"GIVEN = {given!r}\nEXPECTED = {expected!r}\n{_FEEDING}"


def as_function(code: str) -> str | None:
    """A program whose own statements are a function `watched_main`; definitions and imports stay outside.

    None where that cannot be done: it does not parse, or has the name already.
    """
    if _MAIN in code:
        return None
    try:
        tree = parse_python(code.removeprefix("\ufeff"))
        outside: list[ast.stmt] = []
        own: list[ast.stmt] = []
        for node in tree.body:
            (outside if _stays(node) else own).append(node)
        names = sorted({name for node in own for name in _bound(node)})
        for node in own:
            _as_main(node)
        body: list[ast.stmt] = [ast.Global(names)] if names else []
        body += own or [ast.Pass()]
        main = ast.FunctionDef(
            name=_MAIN,
            args=ast.arguments([], [], None, [], [], None, []),
            body=body,
            decorator_list=[],
        )
        tree.body = [*outside, main]
        return ast.unparse(ast.fix_missing_locations(tree))
    except (SourceError, ValueError, RecursionError, MemoryError):
        return None


def loadable(program: Mapping[str, Any], code: str) -> str:
    """A version of a program, as it can be loaded to call its functions.

    A Python program without an entry point reads its input when it is loaded, and there is none: its own
    statements are put away. Where that cannot be done the text stays as it is, and loading it fails.
    """
    if program["entry_point"] is None and program["language"] == "Python":
        return as_function(code) or code
    return code


def _stays(node: ast.stmt) -> bool:
    """Whether a statement may run when the program is loaded, before there is any input."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        # Constants that default values of parameters may need.
        return node.value is not None and all(
            isinstance(one, ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop)
            for one in ast.walk(node.value)
        )
    kept = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return text or isinstance(node, kept)


# What has a scope of its own: what is bound in it is bound nowhere else.
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_NAMED = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar),
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _bound(root: ast.AST) -> Iterator[str]:
    """Names that a statement of the module binds."""
    stack: list[tuple[ast.AST, bool]] = [(root, False)]
    while stack:
        node, inner = stack.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del) and not inner:
            yield node.id
        elif isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, _NAMED) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((one.asname or one.name).partition(".")[0] for one in node.names if one.name != "*")
        if not isinstance(node, _SCOPES):
            inner = inner or isinstance(node, _COMPREHENSIONS)
            stack += [(child, inner) for child in ast.iter_child_nodes(node)]


def _as_main(root: ast.AST) -> None:
    """Have a module's own statements see `__name__` as a program that is run sees it."""
    stack: list[ast.AST] = [root]
    while stack:
        node = stack.pop()
        for field, value in ast.iter_fields(node):
            values = value if isinstance(value, list) else [value]
            for index, child in enumerate(values):
                if isinstance(child, ast.Name) and child.id == "__name__" and isinstance(child.ctx, ast.Load):
                    values[index] = ast.Constant("__main__")
                elif isinstance(child, ast.AST) and not isinstance(child, _SCOPES):
                    stack.append(child)
            if not isinstance(value, list):
                setattr(node, field, values[0])
