"""The flow of control in a Python function, and what each point of it knows of the variables.

In: one function as Python's parser made it. Out: a `Flow`: a graph with one or a few nodes a statement,
which variables surely have a value before each node, and which are still wanted. Exceptions count: any
statement of a `try` may go on at its handlers, any statement of a `with` behind it.
Wrong: `FlowError` for a function that is not followed: one with `finally`, or of a size or depth that no
written function has.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterable, Sequence

from decompose.python_scopes import FunctionNode, Uses, bindings, parameters, uses

MAX_LEVELS = 60
"""Statements inside of statements that are followed; an `elif` is one inside the `if` before it."""
MAX_NODES = 600
"""Nodes of the graph."""

EXIT = 0
"""The node that a function reaches when it returns."""


class FlowError(Exception):
    """The function is not followed."""


@dataclasses.dataclass(frozen=True)
class Range:
    """The nodes of a statement, or of statements in a row.

    Attributes:
        first: lowest node.
        last: one past the highest.
        entry: the node that runs first.
    """

    first: int
    last: int
    entry: int


@dataclasses.dataclass(frozen=True)
class _Around:
    """Where control goes from inside a statement: by `break`, by `continue`, and when it raises."""

    on_break: int
    on_continue: int
    loop: int
    on_error: tuple[int, ...]


class Flow:
    """The graph of one function. Node `EXIT` is its end; `entry` is where it begins.

    Attributes:
        variables: names that belong to the function.
        masks: name -> bit; sets of names are integers.
        next: for each node, the nodes that follow when it does not raise.
        errors: for each node, those that follow when it does.
        uses: for each node, what it does with variables.
        jumps: node of a `break` or `continue` -> header of its loop.
        returns: nodes of `return`.
        ranges: statement (by `id`) -> its nodes.
        sure: for each node, the variables that have a value before it.
        wanted: for each node, the variables whose value before it may still be read.
        reached: nodes that control can come to.
    """

    def __init__(self, function: FunctionNode) -> None:
        self._check(function)
        self.variables = bindings(function)
        self.masks = {name: 1 << index for index, name in enumerate(sorted(self.variables))}
        self.next: list[list[int]] = []
        self.errors: list[tuple[int, ...]] = []
        self.uses: list[Uses] = []
        self.jumps: dict[int, int] = {}
        self.returns: set[int] = set()
        self.ranges: dict[int, Range] = {}
        around = _Around(EXIT, EXIT, -1, ())
        self._node([], [], around)
        self.entry = self._block(function.body, EXIT, around)
        # What `except ... as` and `del` take away again is never sure.
        self.fragile = frozenset().union(*(one.deletes for one in self.uses)) | {
            node.name for node in ast.walk(function) if isinstance(node, ast.ExceptHandler) and node.name
        }
        self._reads = [self.mask(one.reads) for one in self.uses]
        self._binds = [self.mask(one.binds - self.fragile) for one in self.uses]
        given = {one.arg for one in parameters(function.args)} - self.fragile
        self.reached, self.sure = self._forward(self.mask(given))
        self.wanted = self.live(0, len(self.next), lambda _: 0)

    def mask(self, names: Iterable[str]) -> int:
        """Names as bits of an integer."""
        made = 0
        for name in names:
            made |= self.masks[name]
        return made

    def names(self, mask: int) -> frozenset[str]:
        """The names of the bits of an integer."""
        return frozenset(name for name, bit in self.masks.items() if mask & bit)

    def after(self, node: int) -> int:
        """Variables that have a value when a node has run without an error."""
        return self.sure[node] | self._binds[node]

    def live(self, first: int, last: int, outside: Callable[[int], int]) -> dict[int, int]:
        """For each node of a range, the variables whose value before it may be read.

        Args:
            outside: what is wanted at a node that follows the range.
        """
        found = dict.fromkeys(range(first, last), 0)
        # Nodes are made from the last statement to the first, so that one pass is nearly enough.
        changed = True
        while changed:
            changed = False
            for node in range(first, last):
                wanted = raised = 0
                for other in self.next[node]:
                    wanted |= found[other] if first <= other < last else outside(other)
                for other in self.errors[node]:
                    raised |= found[other] if first <= other < last else outside(other)
                made = self._reads[node] | (wanted & ~self._binds[node]) | raised
                if made != found[node]:
                    found[node] = made
                    changed = True
        return found

    def run(self, statements: Sequence[ast.stmt]) -> Range:
        """The nodes of statements that stand in a row."""
        first, last = self.ranges[id(statements[-1])], self.ranges[id(statements[0])]
        return Range(first.first, last.last, last.entry)

    def reachable(self, starts: Iterable[int]) -> set[int]:
        """Nodes that control can come to from some nodes, these included."""
        found: set[int] = set()
        stack = list(starts)
        while stack:
            node = stack.pop()
            if node not in found:
                found.add(node)
                stack += [*self.next[node], *self.errors[node]]
        return found

    def _forward(self, given: int) -> tuple[set[int], list[int]]:
        reached = self.reachable([self.entry])
        every = (1 << len(self.masks)) - 1
        sure = [every] * len(self.next)
        sure[self.entry] = given
        before: list[list[tuple[int, bool]]] = [[] for _ in self.next]
        for node in reached:
            for other in self.next[node]:
                before[other].append((node, True))
            for other in self.errors[node]:
                before[other].append((node, False))
        changed = True
        while changed:
            changed = False
            for node in sorted(reached, reverse=True):
                made = given if node == self.entry else every
                for other, whole in before[node]:
                    made &= sure[other] | (self._binds[other] if whole else 0)
                if made != sure[node]:
                    sure[node] = made
                    changed = True
        return reached, sure

    def _check(self, function: FunctionNode) -> None:
        stack: list[tuple[ast.stmt, int]] = [(one, 1) for one in function.body]
        while stack:
            node, level = stack.pop()
            if level > MAX_LEVELS:
                raise FlowError("too many statements inside of statements")
            if isinstance(node, FunctionNode | ast.ClassDef):
                continue
            if getattr(node, "finalbody", []):
                raise FlowError("it has a finally clause")
            inner: list[ast.stmt] = [*getattr(node, "body", []), *getattr(node, "orelse", [])]
            for part in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
                inner += part.body
            stack += [(one, level + 1) for one in inner]

    def _node(self, pieces: Iterable[ast.AST], following: list[int], around: _Around) -> int:
        if len(self.next) >= MAX_NODES:
            raise FlowError("too many statements")
        self.next.append(following)
        self.errors.append(around.on_error)
        self.uses.append(uses(pieces, self.variables))
        return len(self.next) - 1

    def _block(self, statements: Sequence[ast.stmt], after: int, around: _Around) -> int:
        for one in reversed(statements):
            first = len(self.next)
            after = self._statement(one, after, around)
            self.ranges[id(one)] = Range(first, len(self.next), after)
        return after

    def _statement(self, node: ast.stmt, after: int, around: _Around) -> int:
        """Make the nodes of a statement and give the one that it begins with."""
        if isinstance(node, ast.If):
            branches = [self._block(node.body, after, around), self._block(node.orelse, after, around)]
            return self._node([node.test], branches, around)
        if isinstance(node, ast.While):
            header = self._node([node.test], [], around)
            inside = dataclasses.replace(around, on_break=after, on_continue=header, loop=header)
            self.next[header].append(self._block(node.body, header, inside))
            others = self._block(node.orelse, after, around)
            if not (isinstance(node.test, ast.Constant) and node.test.value):
                self.next[header].append(others)
            return header
        if isinstance(node, ast.For | ast.AsyncFor):
            header = self._node([], [], around)
            inside = dataclasses.replace(around, on_break=after, on_continue=header, loop=header)
            body = self._block(node.body, header, inside)
            self.next[header] += [
                self._node([node.target], [body], around),
                self._block(node.orelse, after, around),
            ]
            return self._node([node.iter], [header], around)
        if isinstance(node, ast.With | ast.AsyncWith):
            inside = dataclasses.replace(around, on_error=(after, *around.on_error))
            body = self._block(node.body, after, inside)
            return self._node(node.items, [body], around)
        if isinstance(node, ast.Try | getattr(ast, "TryStar", ast.Try)):
            return self._try(node, after, around)
        if isinstance(node, ast.Match):
            return self._match(node, after, around)
        if isinstance(node, ast.Return | ast.Raise):
            made = self._node([node], [EXIT] if isinstance(node, ast.Return) else [], around)
            if isinstance(node, ast.Return):
                self.returns.add(made)
            return made
        if isinstance(node, ast.Break | ast.Continue):
            target = around.on_break if isinstance(node, ast.Break) else around.on_continue
            made = self._node([], [target], around)
            self.jumps[made] = around.loop
            return made
        return self._node([node], [after], around)

    def _try(self, node: ast.Try, after: int, around: _Around) -> int:
        entries: list[int] = []
        for one in reversed(node.handlers):
            body = self._block(one.body, after, around)
            caught = self._node([one.type] if one.type is not None else [], [body], around)
            if one.name:
                told = self.uses[caught]
                self.uses[caught] = dataclasses.replace(told, perhaps=told.perhaps | {one.name})
            entries.append(caught)
        dispatch = self._node([], entries, around)
        others = self._block(node.orelse, after, around)
        inside = dataclasses.replace(around, on_error=(dispatch,))
        return self._block(node.body, others, inside)

    def _match(self, node: ast.Match, after: int, around: _Around) -> int:
        for one in reversed(node.cases):
            follow = [self._block(one.body, after, around), after]
            if one.guard is not None:
                follow = [self._node([one.guard], follow, around), after]
            bound = self._node([], follow[:1], around)
            tried = self._node([one.pattern], [bound, after], around)
            told = self.uses[tried]
            self.uses[bound] = dataclasses.replace(self.uses[bound], binds=told.perhaps)
            after = tried
        return self._node([node.subject], [after], around)
