"""Runs a test suite against a candidate that is either a function here or a proxy of one elsewhere.

In: the suite's text, the names it may use, the candidate. Out: None where it ended normally, else a
`SuiteError` naming the stage: "suite" (a test failed), "candidate" (the candidate's own exception came
out of it), "suite-load" (the suite itself is broken) or "argument" (it calls with a value that cannot
travel). Wrong: nothing else is raised.
"""

# Running a suite is what this module is for.
# ruff: noqa: S102

from __future__ import annotations

import sys
import types

from sandbox import codec

TYPE_CHECKING = False  # importing typing would cost more than the rest of the launcher
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class CandidateError(Exception):
    """An exception of the candidate whose class is not a builtin one; the message names it."""


class ArgumentError(Exception):
    """The suite called the candidate with a value that cannot be sent to it."""


class SuiteError:
    def __init__(self, stage: str, cause: BaseException) -> None:
        self.stage = stage
        self.cause = cause


# The last exception that a proxy raised on the candidate's behalf.
_raised: list[BaseException] = []


def compiled(source: str, path: str) -> types.CodeType:
    """The code of a file's text; as in a file, a byte order mark may stand before it."""
    return compile(source.removeprefix("\ufeff"), path, "exec", dont_inherit=True)


def run(source: str, path: str, names: dict[str, Any], candidate: Callable[..., Any]) -> SuiteError | None:
    try:
        code = compiled(source, path)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        return SuiteError("suite-load", error)
    if "solution" not in sys.modules:
        solution = types.ModuleType("solution")
        solution.__dict__.update(names)
        sys.modules["solution"] = solution
    module = types.ModuleType("test_suite")
    module.__file__ = path
    sys.modules["test_suite"] = module
    module.__dict__.update(names)
    module.__dict__["candidate"] = candidate
    try:
        exec(code, module.__dict__)
        _run_defined(module.__dict__, names, candidate)
    except BaseException as error:
        if isinstance(error, ArgumentError):
            return SuiteError("argument", error)
        return SuiteError("candidate" if any(error is one for one in _raised) else "suite", error)
    return None


def _run_defined(scope: dict[str, Any], names: dict[str, Any], candidate: Callable[..., Any]) -> None:
    check = scope.get("check")
    if callable(check) and check is not names.get("check"):
        check(candidate)
        return
    unittest = sys.modules.get("unittest")
    if unittest is not None:
        for value in list(scope.values()):
            if isinstance(value, type) and issubclass(value, unittest.TestCase):
                _run_case(unittest, value)
    for name, value in list(scope.items()):
        if name.startswith("test_") and isinstance(value, types.FunctionType) and name not in names:
            value()


def _run_case(unittest: Any, case: type) -> None:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    for test, report in [*result.failures, *result.errors]:
        last = report.strip().rsplit("\n", 1)[-1]
        raise AssertionError(f"{test.id()}: {last}")
    if result.unexpectedSuccesses:
        raise AssertionError(f"{result.unexpectedSuccesses[0].id()}: unexpected success")


def proxies(channel: Any, names: list[str]) -> dict[str, Any]:
    """Return a function a name: it sends its arguments away by value and returns, or raises, the answer."""

    def make(name: str) -> Callable[..., Any]:
        def proxy(*args: Any, **kwargs: Any) -> Any:
            try:
                query = codec.encode([name, list(args), kwargs])
            except codec.EncodeError as error:
                raise ArgumentError(f"{name}: {error}") from None
            return _answer(channel.ask(query), args)

        proxy.__name__ = proxy.__qualname__ = name
        return proxy

    return {name: make(name) for name in names}


def _answer(payload: bytes, args: tuple[Any, ...]) -> Any:
    outcome, shape, changes = codec.decode(payload)
    for index, value in changes.items():
        target = args[index]
        if type(target) is not type(value):
            continue
        if isinstance(target, dict | set):
            target.clear()
            target.update(value)
        elif isinstance(target, list | bytearray):
            target[:] = value
    body = codec.decode(outcome[1:])
    if outcome[:1] == b"v":
        return body
    error = _rebuild(body[0], body[1], shape)
    _raised[:] = [error]
    raise error


def _rebuild(name: str, message: str, shape: list[Any] | None) -> BaseException:
    """An exception of the nearest builtin class; CandidateError where that says no more than Exception.

    Nor is StopIteration made again: raised below `map` or a `for` it would end the suite's own loop, and
    the checks that were still to come with it.
    """
    if shape is not None:
        import builtins

        base_name, exact, args = shape
        base = getattr(builtins, base_name, None)
        barred = (base is Exception and not exact) or base in (StopIteration, StopAsyncIteration)
        if isinstance(base, type) and issubclass(base, Exception) and not barred:
            for given in (args, [message]):
                try:
                    return base(*given)
                except Exception:  # noqa: S112 - some classes take neither, such as ExceptionGroup
                    continue
    return CandidateError(f"{name}: {message}")
