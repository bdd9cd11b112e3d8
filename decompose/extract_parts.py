"""Parts of a Python function that can become functions of their own without a change of behaviour.

In: a function's syntax tree and its flow. Out: `Part`s, each with the names that go in and come out and
the way in which control comes back. What cannot be proven safe by syntax is no part: see `Finder`.
Assumed: that reading a variable does nothing, and that the builtins which the flow knows are themselves.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence

from decompose.extract_syntax import (
    bound_by,
    changed,
    expressions,
    identifiers,
    imports_of,
    is_elif,
    only_called,
    plain_definition,
    suites,
    without_docstring,
)
from decompose.python_flow import EXIT, Flow, Range
from decompose.python_scopes import (
    FunctionNode,
    Uses,
    bindings,
    own_nodes,
    parameters,
    size,
    uses,
)

MOST_INPUTS = 6
MOST_OUTPUTS = 4
_MOST_STATEMENTS = 40
_MOST_CHECKS = 400

_LEAST_GAIN = 2

# How control comes back from a part.
VALUES = "values"
"""It runs to its end, and its outputs are bound."""
RETURNS = "returns"
"""What it returns, the function returns."""
IF_TRUE = "if true"
"""It returns True where the function returns True, else False, and the function goes on."""
IF_FALSE = "if false"
"""It returns False where the function returns False, else True, and the function goes on."""
IF_ANY = "if any"
"""It returns what the function returns, which is never None, else None, and the function goes on."""

# An expression with one of these means something else in another function.
_BOUND_TO_FRAME = (
    ast.Yield
    | ast.YieldFrom
    | ast.Await
    | ast.AsyncFor
    | ast.AsyncWith
    | ast.AsyncFunctionDef
    | ast.Global
    | ast.Nonlocal
    | ast.ClassDef
)
_NEVER_NONE = (
    ast.ListComp
    | ast.SetComp
    | ast.DictComp
    | ast.GeneratorExp
    | ast.List
    | ast.Tuple
    | ast.Set
    | ast.Dict
    | ast.JoinedStr
    | ast.Lambda
)
_MAKES_VALUES = frozenset(
    {"bool", "dict", "float", "frozenset", "int", "len", "list", "set", "sorted", "str", "tuple"}
)


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a function that can be cut out.

    Attributes:
        nodes: the statements, or the one expression, or the one inner function.
        kind: `block`, `expression` or `inner`.
        inputs: names that it is given, in order.
        outputs: names that it binds or changes for what follows, in order.
        imports: lines that bring in what it reads of modules.
        ending: how control comes back.
        worth: syntax nodes on the smaller side of the cut, less what inputs and outputs cost.
    """

    nodes: tuple[ast.stmt, ...] | tuple[ast.expr]
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ending: str
    imports: tuple[str, ...]
    worth: float


class Finder:
    """Looks for the best part of one function.

    A block's inputs have a value on every path to it. Its outputs have one when it ends, and nothing else
    that it binds is read later, not even by an exception handler. No `break` or `continue` leaves it. A
    name that an inner function, lambda or lazy generator reads is not bound anew on the other side.
    """

    def __init__(self, function: FunctionNode, flow: Flow, names: frozenset[str], method: bool) -> None:
        """`names`: what the module binds. `method`: whether the function stands in a class."""
        self.function, self.flow, self.module, self.method = function, flow, names, method
        self.sizes: dict[int, int] = {}
        self.marks: dict[int, tuple[bool, bool]] = {}
        self.total = self._size(without_docstring(function))
        self.shared = frozenset(
            name
            for node in ast.walk(function)
            if isinstance(node, ast.Nonlocal | ast.Global)
            for name in node.names
        )
        self.imports = imports_of(function, flow)
        self.odd = {
            node.name for node in own_nodes(function.body) if isinstance(node, FunctionNode | ast.ClassDef)
        } | {
            name
            for node in own_nodes(function.body)
            if isinstance(node, ast.alias)
            for name in bound_by(node)
        }
        if method:
            self.odd |= {one.arg for one in parameters(function.args)[:1]}
        self.order = [one.arg for one in parameters(function.args)]
        self.generator = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own_nodes(function.body))

    def best(self, least: int, movable: Callable[[Part], bool]) -> Part | None:
        """The part worth most that can be moved, whose smaller side has at least `least` syntax nodes."""
        best: Part | None = None
        for score, part in self._tried(least, _MOST_CHECKS):
            # What is left is worth no more than its score, and a little for its form.
            if best is not None and score * _FORMS["inner"] <= best.worth:
                break
            if part is not None and (best is None or part.worth > best.worth) and movable(part):
                best = part
        return best

    def parts(self, least: int) -> Iterator[Part]:
        """Every part whose smaller side has at least `least` syntax nodes, the most even halves first."""
        return (part for _, part in self._tried(least, sys.maxsize) if part is not None)

    def _tried(self, least: int, most: int) -> Iterator[tuple[int, Part | None]]:
        """Candidates of a fair size, each with the nodes of its smaller side; None for an unsafe one."""
        found: list[tuple[int, int, tuple[tuple[ast.AST, ...], Range | None, frozenset[str]]]] = []
        for index, candidate in enumerate(self._candidates()):
            cut = self._size(candidate[0])
            smaller = min(cut, self.total - cut)
            if smaller >= least:
                found.append((-smaller, index, candidate))
        for smaller, _, candidate in sorted(found, key=lambda one: one[:2])[:most]:
            yield -smaller, self._part(*candidate, -smaller)

    def _size(self, nodes: Sequence[ast.AST]) -> int:
        for one in nodes:
            if id(one) not in self.sizes:
                self.sizes[id(one)] = size(one)
        return sum(self.sizes[id(one)] for one in nodes)

    def _candidates(self) -> Iterator[tuple[tuple[ast.AST, ...], Range | None, frozenset[str]]]:
        """Statements in a row; expressions, with where they run and what scopes around them bind."""
        stack: list[tuple[list[ast.stmt], bool]] = [(without_docstring(self.function), False)]
        nothing: frozenset[str] = frozenset()
        while stack:
            suite, further = stack.pop()
            # The text of an `elif` is none of a statement, and a suite may not become empty.
            further = further or (len(suite) == 1 and isinstance(suite[0], ast.FunctionDef))
            for start in range(len(suite) if further else 0, len(suite)):
                for end in range(start + 1, min(len(suite), start + _MOST_STATEMENTS) + 1):
                    yield tuple(suite[start:end]), None, nothing
            for statement in suite:
                for expression, scope in expressions(statement):
                    yield (expression,), self.flow.ranges[id(statement)], scope
                stack += [(one, is_elif(statement, one)) for one in suites(statement)]

    def _part(
        self, nodes: tuple[ast.AST, ...], at: Range | None, scope: frozenset[str], score: int
    ) -> Part | None:
        statements = [one for one in nodes if isinstance(one, ast.stmt)]
        marks = [self._marks(one) for one in nodes]
        if any(stays for stays, _ in marks):
            return None
        if len(statements) == 1 and isinstance(statements[0], ast.FunctionDef):
            return self._inner(statements[0], score)
        # A function that calls itself through another one comes to Python's limit in half as many calls.
        if any(recurs for _, recurs in marks):
            return None
        if at is not None:
            return self._expression(nodes[0], at, scope, score)
        return self._block(statements, score)

    def _made(
        self,
        nodes: tuple[ast.stmt, ...] | tuple[ast.expr],
        kind: str,
        names: tuple[frozenset[str], frozenset[str]],
        ending: str,
        score: int,
    ) -> Part | None:
        """A part with its inputs and outputs, unless they are too many or none."""
        needed, outputs = names
        imported = sorted(needed & self.imports.keys()) if kind != "inner" else []
        inputs = self._ordered(needed - set(imported), nodes)
        own = parameters(nodes[0].args) if kind == "inner" and isinstance(nodes[0], ast.FunctionDef) else []
        given = len(inputs) + len(own)
        if not 1 <= given <= MOST_INPUTS or len(outputs) > MOST_OUTPUTS:
            return None
        # The call in its place must be smaller than what it stands for, or there would be no end of cuts.
        call = 3 + len(inputs) + len(outputs)
        if kind != "inner" and self._size(nodes) < call + _LEAST_GAIN:
            return None
        worth = score * _FORMS[kind] / (1 + 0.08 * max(0, given + len(outputs) - 2))
        # What is no plain value cannot be written down in a test.
        if any(name in self.odd for name in (*inputs, *outputs)):
            worth *= _ODD
        imports = tuple(self.imports[name] for name in imported)
        return Part(nodes, kind, tuple(inputs), tuple(self._ordered(outputs, nodes)), ending, imports, worth)

    def _marks(self, top: ast.AST) -> tuple[bool, bool]:
        """Whether a piece of syntax has another meaning elsewhere, and whether it names this function."""
        if id(top) not in self.marks:
            stays = recurs = False
            for node in ast.walk(top):
                stays = stays or isinstance(node, _BOUND_TO_FRAME)
                stays = stays or (isinstance(node, ast.Raise) and node.exc is None)
                stays = stays or (isinstance(node, ast.comprehension) and bool(node.is_async))
                called = getattr(node, "attr" if self.method else "id", None)
                recurs = recurs or called == self.function.name
                for name in identifiers(node):
                    stays = stays or name in ("super", "__class__") or name in self.shared
                    # Inside of a class such a name has the class's name put before it.
                    stays = stays or (self.method and name.startswith("__") and not name.endswith("__"))
            self.marks[id(top)] = stays, recurs
        return self.marks[id(top)]

    def _ordered(self, names: frozenset[str], nodes: Sequence[ast.AST]) -> list[str]:
        """Names in the order of the parameters, and then in that of their first appearance."""
        first: dict[str, tuple[int, int]] = {}
        for top in nodes:
            for node in ast.walk(top):
                if isinstance(node, ast.Name) and node.id in names:
                    at = (node.lineno, node.col_offset)
                    first[node.id] = min(first.get(node.id, at), at)
        given = [name for name in self.order if name in names]
        return given + sorted(names - set(given), key=lambda name: (first.get(name, (0, 0)), name))

    def _rebound(self, captured: frozenset[str], starts: Sequence[int]) -> bool:
        """Whether one of the names is bound or unbound at a node that control can come to."""
        for node in self.flow.reachable(starts) if captured else ():
            told = self.flow.uses[node]
            if captured & (told.binds | told.perhaps | told.deletes):
                return True
        return False

    def _block(self, statements: list[ast.stmt], score: int) -> Part | None:
        flow, run = self.flow, self.flow.run(statements)
        inside = range(run.first, run.last)
        if run.entry not in flow.reached:
            return None
        told = [flow.uses[node] for node in inside]
        bound: frozenset[str] = frozenset().union(*(one.binds | one.perhaps for one in told))
        if any(one.deletes for one in told):
            return None
        ends: set[int] = set()
        errors: set[int] = set()
        returns = False
        for node in inside:
            if node in flow.jumps and flow.jumps[node] not in inside:
                return None
            if node in flow.returns:
                returns = True
            elif node in flow.reached:
                ends.update(other for other in flow.next[node] if other not in inside)
            errors.update(other for other in flow.errors[node] if other not in inside)
        # What a `with` in it swallows goes on behind it, and so the block must end there.
        if any(isinstance(one, ast.With | ast.AsyncWith) for one in own_nodes(statements)):
            ends |= errors
        if len(ends) > 1:
            return None
        if any(flow.wanted[node] & flow.mask(bound) for node in errors):
            return None
        ending, outputs = VALUES, frozenset[str]()
        if returns and ends <= {EXIT}:
            ending = RETURNS
        else:
            wanted = 0
            for node in ends:
                wanted |= flow.wanted[node]
            outputs = flow.names(wanted) & bound
            if returns:
                early = self._early(statements)
                if early is None or outputs:
                    return None
                ending = early
        if returns and self.generator:
            return None
        if not self._closures_stay(told, bound, inside, [*ends, *errors]):
            return None
        if not self._stay_variables(bound - outputs, inside):
            return None
        leaving = flow.mask(outputs)
        needed = flow.live(run.first, run.last, lambda node: leaving if node in ends else 0)[run.entry]
        if needed & ~flow.sure[run.entry]:
            return None
        for node in inside:
            ending_here = node in flow.reached and any(other not in inside for other in flow.next[node])
            if ending_here and node not in flow.returns and leaving & ~flow.after(node):
                return None
        names = flow.names(needed)
        if ending == VALUES:
            # A function that gives back what it changes can be tested by what it returns.
            outputs |= changed(statements) & names - bound - self.odd
        return self._made(tuple(statements), "block", (names, outputs), ending, score)

    def _closures_stay(
        self, told: Sequence[Uses], bound: frozenset[str], inside: range, following: list[int]
    ) -> bool:
        captured: frozenset[str] = frozenset().union(*(one.captured for one in told))
        outside: frozenset[str] = frozenset().union(
            *(one.captured for node, one in enumerate(self.flow.uses) if node not in inside)
        )
        return not (bound & outside) and not self._rebound(captured, following)

    def _stay_variables(self, names: frozenset[str], inside: range) -> bool:
        """Whether names that are read elsewhere are bound elsewhere too, and so are variables still."""
        others = [one for node, one in enumerate(self.flow.uses) if node not in inside]
        bound: frozenset[str] = frozenset().union(*(one.binds | one.perhaps | one.deletes for one in others))
        read: frozenset[str] = frozenset().union(*(one.reads for one in others))
        return names & read <= bound | set(self.order)

    def _early(self, statements: Sequence[ast.stmt]) -> str | None:
        """How a block that returns on some paths can say that it did."""
        values = [node.value for node in own_nodes(statements) if isinstance(node, ast.Return)]
        constants = [one.value for one in values if isinstance(one, ast.Constant)]
        for constant, ending in ((True, IF_TRUE), (False, IF_FALSE)):
            if len(constants) == len(values) and all(one is constant for one in constants):
                return ending
        return IF_ANY if all(one is not None and self._never_none(one) for one in values) else None

    def _never_none(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Constant):
            return value.value is not None
        if isinstance(value, ast.UnaryOp):
            return isinstance(value.op, ast.Not) or (
                isinstance(value.operand, ast.Constant) and type(value.operand.value) in (int, float)
            )
        if isinstance(value, ast.IfExp):
            return all(
                isinstance(one, ast.Constant) and one.value is not None for one in (value.body, value.orelse)
            )
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            name = value.func.id
            return name in _MAKES_VALUES and name not in self.flow.variables and name not in self.module
        return isinstance(value, _NEVER_NONE)

    def _expression(self, node: ast.AST, at: Range, scope: frozenset[str], score: int) -> Part | None:
        if not isinstance(node, ast.expr) or any(isinstance(one, ast.NamedExpr) for one in ast.walk(node)):
            return None
        sliced = isinstance(node, ast.Tuple) and any(isinstance(one, ast.Slice) for one in node.elts)
        if sliced or at.entry not in self.flow.reached:
            return None
        told = uses([node], self.flow.variables | scope)
        if told.captured & scope or self._rebound(
            told.captured, [*self.flow.next[at.entry], *self.flow.errors[at.entry]]
        ):
            return None
        if self.flow.mask(told.reads - scope) & ~self.flow.sure[at.entry]:
            return None
        return self._made((node,), "expression", (told.reads, frozenset()), RETURNS, score)

    def _inner(self, inner: ast.FunctionDef, score: int) -> Part | None:
        """An inner function, with the variables that it reads as more parameters."""
        flow, name = self.flow, inner.name
        run = flow.ranges[id(inner)]
        if run.entry not in flow.reached or not plain_definition(inner, flow.variables):
            return None
        told = flow.uses[run.entry]
        taken = told.reads - {name}
        if self._rebound(taken | {name}, flow.next[run.entry]) or flow.mask(taken) & ~flow.sure[run.entry]:
            return None
        if sum(name in one.binds | one.perhaps for one in flow.uses) != 1:
            return None
        # Wherever such a name stands in the function, it must be the same variable.
        for node in ast.walk(self.function):
            if node is self.function:
                continue
            theirs: frozenset[str] = frozenset()
            if isinstance(node, FunctionNode | ast.Lambda):
                theirs = bindings(node)
            elif isinstance(node, ast.comprehension):
                theirs = frozenset(one.id for one in ast.walk(node.target) if isinstance(one, ast.Name))
            elif isinstance(node, ast.ClassDef):
                return None
            if theirs & (taken | {name}):
                return None
        for at, one in enumerate(flow.uses):
            if name in one.reads and at != run.entry and flow.mask({name}) & ~flow.sure[at]:
                return None
        if not only_called(self.function, name, with_more=bool(taken)):
            return None
        return self._made((inner,), "inner", (taken, frozenset()), RETURNS, score)


_ODD = 0.5
_FORMS = {"expression": 1.0, "block": 1.15, "inner": 1.4}
