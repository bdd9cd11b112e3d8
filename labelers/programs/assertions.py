"""A model writes assertions for functions; their arguments become calls, and nothing that it wrote is run.

In: a program, its functions and a client; or the text of an answer. Out: `Proposal`s: a call with literal
arguments, and what the model thinks it comes to. What it really comes to is observed on the reference by
whoever runs the calls; whether the model was right is a measure, never a label.
Wrong: nothing raises. What becomes no call is counted by reason:
    model_failed    the request had no answer
    not_parsed      lines that are not Python
    not_a_call      an assertion without a call
    other_function  calls, but of other functions
    not_literal     an argument that is not spelled out, or is too large
    no_encoding     an argument that cannot travel into a sandbox
    duplicate       a call that is there already
    too_many        more calls than were asked for
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from decompose.grammars import SourceError, encode_source, parse, tree_depth
from decompose.python import parse_python
from labelers.llm.calls import Message, Request
from labelers.llm.fencing import fence
from labelers.llm.structured import without_thought
from labelers.programs import runs
from labelers.programs.answers import fenced
from labelers.programs.literals import MAX_VALUES, NotLiteral, Reader
from labelers.prompts import render, version
from sandbox import Call, EncodeError
from sandbox.compare import equal
from schemas.ids import rng
from schemas.records import FunctionTest
from schemas.stage import Keep, Outcome

if TYPE_CHECKING:
    from labelers.llm.client import Client

PROMPT = "assertions"
_SEEDS = 1 << 31
_MAX_ANSWER = 200_000
_MAX_LINES = 2000
_MAX_DEPTH = 120
_MAX_STATEMENTS = 5000
_MAX_CALL_BYTES = 16384
# Values of all expressions of an answer together.
_MAX_VALUES = 10 * MAX_VALUES

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_EQUAL = frozenset({"assertEqual", "assertEquals", "assertAlmostEqual", "assertIs", "assertListEqual"}) | {
    "assertDictEqual",
    "assertSetEqual",
    "assertTupleEqual",
    "assertSequenceEqual",
    "assertMultiLineEqual",
}
_TRUTH = {"assertTrue": True, "assertFalse": False}
_RAISES = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
# What a suite calls the function that it is given.
_ALIASES = frozenset({"candidate"})


@dataclasses.dataclass(frozen=True)
class Believed:
    """What a model thinks that a call comes to.

    Attributes:
        outcome: as in `runs.Outcome`: ("value", it) or ("error", its type's name).
        tolerance: difference that the assertion lets numbers have.
        truth: only whether the value is true or false is told.
    """

    outcome: runs.Outcome
    tolerance: float = 0.0
    truth: bool = False


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A call that a model proposes, and what it thinks of it; None where it does not tell plainly."""

    function: str
    call: Call
    believed: Believed | None = None


@dataclasses.dataclass
class Parsed:
    """What an answer holds: its proposals, and what was refused, by reason."""

    proposals: list[Proposal]
    refused: Counter[str]


def agrees(believed: Believed | None, observed: runs.Outcome | None) -> bool | None:
    """Whether a model was right about a call; None where it, or the run, did not say.

    Numbers of other types are equal here (1 and 1.0, True and 1), as they are to `==` of the assertion.
    """
    if believed is None or observed is None:
        return None
    if believed.outcome[0] != observed[0]:
        return False
    if observed[0] == "error":
        # A test may name any base of the error; without running it, only that of all is known.
        return believed.outcome[1] in (observed[1], "Exception", "BaseException")
    if believed.truth:
        return bool(observed[1]) is believed.outcome[1]
    try:
        return equal(believed.outcome[1], observed[1], abs_tol=believed.tolerance, numeric=True)
    except RecursionError:
        return False


def propose(
    client: Client,
    programs: Sequence[Mapping[str, Any]],
    attempts: int,
    seed: int,
    wanted: int = 10,
    examples: Mapping[tuple[str, str], Sequence[str]] | None = None,
    counts: Counter[str] | None = None,
) -> dict[str, dict[str, list[tuple[str, Proposal]]]]:
    """Ask for calls of every module-level function of Python programs.

    Args:
        programs: `Program` rows; functions of other languages are left out.
        attempts: answers asked for a function.
        wanted: assertions asked for in an answer.
        examples: calls that are known already, as a person would write them, by program id and function.
        counts: what became of answers and assertions is added here.

    Returns:
        program id -> function -> (model, proposal), each distinct call once.

    Raises:
        ModelFault, BudgetSpent: as for `Client.ask`.
    """
    found: dict[str, dict[str, list[tuple[str, Proposal]]]] = {one["id"]: {} for one in programs}
    origins = [
        (program, span)
        for program in programs
        if program["language"] == "Python"
        for span in program["functions"]
        if span["kind"] == "function"
    ]
    requests = (
        request
        for program, span in origins
        for request in _requests(program, span, attempts, seed, wanted, (examples or {}))
    )
    replies = client.ask(requests)
    tally: Counter[str] = Counter() if counts is None else counts
    for program, span in origins:
        taken = found[program["id"]].setdefault(span["name"], [])
        seen: set[str] = set()
        for _ in range(attempts):
            reply = next(replies)
            if reply.error is not None:
                tally["model_failed"] += 1
                continue
            parsed = read_answer(reply.text, span["name"], 4 * wanted)
            tally.update(parsed.refused)
            for one in parsed.proposals:
                key = runs.call_text(one.call)
                if key in seen:
                    tally["duplicate"] += 1
                    continue
                seen.add(key)
                tally["proposed"] += 1
                taken.append((reply.model, one))
    # The client tells at its end what got no answer.
    next(replies, None)
    return found


def believed(outcome: Outcome, proposed: Mapping[str, Sequence[tuple[str, Proposal]]]) -> Counter[str]:
    """How often a model was right about the calls of kept tests: `right`, `wrong` or `untold`.

    Args:
        outcome: the tests of one program.
        proposed: what the model proposed for it, by function.
    """
    thought = {
        (name, runs.call_text(one.call)): one.believed for name, found in proposed.items() for _, one in found
    }
    counts: Counter[str] = Counter()
    for test in outcome.records if isinstance(outcome, Keep) else ():
        if isinstance(test, FunctionTest) and (key := (test.function, test.call)) in thought:
            said = agrees(thought[key], runs.returned(runs.read_outcome(test.expected)))
            counts["untold" if said is None else "right" if said else "wrong"] += 1
    return counts


def _requests(
    program: Mapping[str, Any],
    span: Mapping[str, Any],
    attempts: int,
    seed: int,
    wanted: int,
    examples: Mapping[tuple[str, str], Sequence[str]],
) -> Iterator[Request]:
    name = span["name"]
    draw = rng(seed, "assertions", f"{program['id']} {name}")
    known = "\n".join(examples.get((program["id"], name), ())[:8])
    text = render(
        PROMPT,
        language=program["language"],
        code=fence(program["code"], program["language"]),
        function=name,
        signature=fence(span["signature"], program["language"]),
        examples=fence(known) if known else "",
        most=wanted,
    )
    for number in range(attempts):
        yield Request((Message("user", text),), seed=draw.randrange(_SEEDS), sample=number)


def prompt_version() -> str:
    """The template that assertions are asked by."""
    return version(PROMPT)


def read_answer(text: str, function: str, most: int = 100) -> Parsed:
    """The calls of a function in a model's answer: in its fenced blocks, or in all of it without any.

    Args:
        function: name of a module-level function, or of a method of a class that takes no arguments
            (`Solution.method`).
        most: calls that are kept.
    """
    text = without_thought(text[:_MAX_ANSWER])
    blocks = [text[start:end] for start, end, _ in fenced(text)] or [text]
    taker = _Taker(function, most)
    for block in blocks:
        for statement in _statements(block, taker.refused):
            taker.take(statement)
    return Parsed(taker.proposals, taker.refused)


def _statements(block: str, refused: Counter[str]) -> Iterator[ast.stmt]:
    """Statements of a block; where it is not Python as a whole, those of its lines that are."""
    whole = _parsed(block)
    if whole is not None:
        yield from whole
        return
    for line in block.splitlines()[:_MAX_LINES]:
        line = line.strip().removeprefix(">>> ").removeprefix("- ").strip("`")
        if not line or line.startswith("#"):
            continue
        found = _parsed(line)
        if found is None:
            refused["not_parsed"] += 1
        else:
            yield from found


def _parsed(text: str) -> list[ast.stmt] | None:
    try:
        # The grammar first: Python's own parser is recursive.
        if tree_depth(parse(encode_source(text), "Python")) > _MAX_DEPTH:
            return None
        return parse_python(text).body
    except SourceError:
        return None


class _Taker:
    """Takes calls of one function out of statements, in order."""

    def __init__(self, function: str, most: int) -> None:
        self.owner, _, self.name = function.rpartition(".")
        self.function, self.most = function, most
        self.refused: Counter[str] = Counter()
        self.proposals: list[Proposal] = []
        self.seen: dict[str, int] = {}
        self.left = _MAX_STATEMENTS
        self.room = _MAX_VALUES
        # What the text has given a name: a literal, or the place of a call among the proposals.
        self.values: dict[str, tuple[Any, int]] = {}
        self.results: dict[str, int] = {}

    def take(self, statement: ast.stmt, raises: str | None = None) -> None:
        """Take the calls of one statement and those inside of it."""
        stack: list[tuple[ast.stmt, str | None]] = [(statement, raises)]
        while stack and self.left > 0:
            self.left -= 1
            node, expected = stack.pop()
            if isinstance(node, _Function | ast.ClassDef):
                stack += [(one, None) for one in reversed(node.body)]
            elif isinstance(node, ast.With | ast.AsyncWith):
                named = next((one for item in node.items if (one := _raised(item.context_expr))), expected)
                stack += [(one, named) for one in reversed(node.body)]
            elif isinstance(node, ast.Try | ast.For | ast.While | ast.If):
                stack += [(one, expected) for one in reversed(node.body)]
            elif isinstance(node, ast.Assert):
                self._test(node.test, expected)
            elif isinstance(node, ast.Expr):
                self._expression(node.value, expected)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                self._assign(node, expected)

    def _assign(self, node: ast.Assign | ast.AnnAssign, raises: str | None) -> None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        name = target.id if isinstance(target, ast.Name) else None
        assert node.value is not None  # noqa: S101 (the caller looked)
        calls = list(self._calls(node.value))
        if name is not None:
            self.values.pop(name, None)
            self.results.pop(name, None)
        for call in calls:
            place = self._add(call, _error(raises))
            if name is not None and place is not None and call is node.value:
                self.results[name] = place
        if not calls and name is not None:
            with contextlib.suppress(NotLiteral):
                self.values[name] = self._read(node.value)

    def _expression(self, node: ast.expr, raises: str | None) -> None:
        """An expression of its own: a call of a unittest method, or of the function."""
        method = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if (
            isinstance(node, ast.Call)
            and method in _RAISES
            and len(node.args) >= 2
            and self._is_it(node.args[1])
        ):
            handed = ast.Call(node.args[1], node.args[2:], node.keywords)
            self._add(handed, _error(_name(node.args[0])))
        elif isinstance(node, ast.Call) and method in _EQUAL and len(node.args) >= 2:
            self._equal(node.args[0], node.args[1], self._tolerance(node))
        elif isinstance(node, ast.Call) and method in _TRUTH and node.args:
            self._truth(node.args[0], _TRUTH[method])
        elif isinstance(node, ast.Call) and method == "assertIsNone" and node.args:
            self._equal(node.args[0], ast.Constant(None), 0.0)
        elif not self._any(node, raises) and method.startswith("assert"):
            self._without_call(node)

    def _test(self, test: ast.expr, raises: str | None) -> None:
        """What is asserted."""
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.Is):
            self._equal(test.left, test.comparators[0], 0.0)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._truth(test.operand, False)
        elif (isinstance(test, ast.Call) and self._is_it(test.func)) or (
            isinstance(test, ast.Name) and test.id in self.results
        ):
            self._truth(test, True)
        elif not self._any(test, raises):
            self._without_call(test)

    def _equal(self, left: ast.expr, right: ast.expr, tolerance: float) -> None:
        for call, value in ((left, right), (right, left)):
            if isinstance(value, ast.Call) and _name(value.func) == "approx" and value.args:
                value, tolerance = value.args[0], 1e-6
            if isinstance(call, ast.Call) and self._is_it(call.func):
                self._add(call, self._believed(value, tolerance))
                return
            if isinstance(call, ast.Name) and call.id in self.results:
                self._believe(self.results[call.id], self._believed(value, tolerance))
                return
        if not (self._any(left, None) + self._any(right, None)):
            self._without_call(ast.Tuple([left, right], ast.Load()))

    def _truth(self, node: ast.expr, truth: bool) -> None:
        believed = Believed(("value", truth), truth=True)
        if isinstance(node, ast.Call) and self._is_it(node.func):
            self._add(node, believed)
        elif isinstance(node, ast.Name) and node.id in self.results:
            self._believe(self.results[node.id], believed)
        elif truth:
            self._test(node, None)
        elif not self._any(node, None):
            self._without_call(node)

    def _any(self, node: ast.expr, raises: str | None) -> int:
        """Take every call of the function in an expression; how many there are."""
        calls = list(self._calls(node))
        for call in calls:
            self._add(call, _error(raises))
        return len(calls)

    def _calls(self, node: ast.expr) -> Iterator[ast.Call]:
        return (one for one in ast.walk(node) if isinstance(one, ast.Call) and self._is_it(one.func))

    def _is_it(self, node: ast.expr) -> bool:
        """Whether an expression names the function: bare, or as an attribute."""
        if isinstance(node, ast.Attribute) and node.attr == self.name:
            if not self.owner:
                return isinstance(node.value, ast.Name)
            made = node.value
            return isinstance(made, ast.Call) and _name(made.func) == self.owner and not made.args
        return not self.owner and isinstance(node, ast.Name) and (node.id == self.name or node.id in _ALIASES)

    def _without_call(self, node: ast.expr) -> None:
        calls = any(isinstance(one, ast.Call) for one in ast.walk(node))
        self.refused["other_function" if calls else "not_a_call"] += 1

    def _tolerance(self, node: ast.Call) -> float:
        if _name(node.func) != "assertAlmostEqual":
            return 0.0
        given = {one.arg: one.value for one in node.keywords}
        try:
            if "delta" in given:
                return abs(float(Reader().read(given["delta"])))
            places = Reader().read(given["places"]) if "places" in given else 7
            return 0.5 * 10.0 ** -int(places)
        except (NotLiteral, ValueError, TypeError, ArithmeticError):
            return 1e-7

    def _read(self, node: ast.expr) -> tuple[Any, int]:
        """The value that an expression spells out, and its size.

        Raises:
            NotLiteral: it has none.
        """
        reader = Reader(self.values, min(MAX_VALUES, self.room))
        before = reader.left
        try:
            value = reader.read(node)
            return value, before - reader.left
        finally:
            self.room -= before - max(0, reader.left)

    def _believed(self, node: ast.expr, tolerance: float) -> Believed | None:
        try:
            return Believed(("value", self._read(node)[0]), tolerance)
        except NotLiteral:
            return None

    def _believe(self, place: int, believed: Believed | None) -> None:
        if believed is not None and self.proposals[place].believed is None:
            self.proposals[place] = dataclasses.replace(self.proposals[place], believed=believed)

    def _add(self, node: ast.Call, believed: Believed | None) -> int | None:
        """Take one call; its place among the proposals, or None where it is refused."""
        try:
            if any(isinstance(one, ast.Starred) for one in node.args):
                raise NotLiteral("unpacks arguments")
            args = tuple(self._read(one)[0] for one in node.args)
            named = {one.arg: self._read(one.value)[0] for one in node.keywords if one.arg is not None}
            if len(named) < len(node.keywords):
                raise NotLiteral("unpacks or repeats arguments")
            call = Call(args, named)
            key = runs.call_text(call)
        except NotLiteral:
            self.refused["not_literal"] += 1
            return None
        except EncodeError:
            self.refused["no_encoding"] += 1
            return None
        if len(key) > _MAX_CALL_BYTES:
            self.refused["not_literal"] += 1
            return None
        if key in self.seen:
            self.refused["duplicate"] += 1
            return self.seen[key]
        if len(self.proposals) >= self.most:
            self.refused["too_many"] += 1
            return None
        self.seen[key] = len(self.proposals)
        self.proposals.append(Proposal(self.function, call, believed))
        return self.seen[key]


def _name(node: ast.expr) -> str:
    """The last part of a dotted name; empty for what is none."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _raised(node: ast.expr) -> str | None:
    """The error that a context manager waits for; None for any other."""
    if isinstance(node, ast.Call) and _name(node.func) in _RAISES and node.args:
        first = node.args[0]
        return _name(first) or "Exception"
    return None


def _error(raises: str | None) -> Believed | None:
    return None if not raises else Believed(("error", raises))
