"""Python programs taken apart: tree-sitter gives the bytes, Python's own parser says what is valid.

In: text. Out: a `Source` whose definitions are the functions and methods of the module.
Wrong: `SourceError` with a line number where Python refuses the text, where the two parsers read it
differently, or where it is too large or too deeply nested to be looked at.

What is a step: a function defined directly in the module, and a method defined directly in a class of
the module (`Class.method`, `Outer.Inner.method`). Where a name is defined more than once, the last
definition is the step, as it is in a running program. What is not: a function inside a function (it
is part of its parent), a lambda, and a definition below `if`, `try`, `with` or a loop, since no
syntax tells which of its branches is taken. A leading byte order mark is accepted.
"""

from __future__ import annotations

import ast
import threading
import unicodedata
import warnings
from collections.abc import Iterator

from tree_sitter import Node

from decompose.grammars import MAX_DEPTH, SourceError, encode_source, parse, tree_depth
from decompose.source import BLANK, PASS, Definition, Source, first_error, refuse_lone_returns
from schemas.records import FunctionSpan

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_BOM = "\ufeff"
# Python's tokenizer takes time quadratic in a run of joined lines: 100,000 of them take two minutes.
_MAX_JOINED_LINES = 2000
_WARNINGS = threading.Lock()
_CONTAINERS = frozenset(
    {
        "block",
        "if_statement",
        "elif_clause",
        "else_clause",
        "for_statement",
        "while_statement",
        "try_statement",
        "except_clause",
        "except_group_clause",
        "finally_clause",
        "with_statement",
        "match_statement",
        "case_clause",
    }
)


def parse_python(text: str) -> ast.Module:
    """`ast.parse` for text from anywhere: silent, and with one kind of error.

    Raises:
        SourceError: Python refuses the text.
    """
    try:
        # Python warns of odd escapes in what it parses. The filters are the whole process's.
        with _WARNINGS, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.removeprefix(_BOM))
    except SyntaxError as error:
        raise SourceError(f"line {error.lineno}: {error.msg}") from None
    except (ValueError, MemoryError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise SourceError(f"Python cannot parse it: {reason}") from None


def read(code: str) -> Source:
    """Take a Python program apart; see the module for what is a step.

    Raises:
        SourceError: the text is not a Python program of a size and depth that is looked at.
    """
    data = encode_source(code)
    refuse_lone_returns(data)
    if (joined := data.count(b"\\\n") + data.count(b"\\\r\n")) > _MAX_JOINED_LINES:
        raise SourceError(f"{joined} lines joined by backslashes are more than {_MAX_JOINED_LINES}")
    tree = parse(data, "Python")
    # Before Python's parser sees it: that one is recursive.
    if (levels := tree_depth(tree)) > MAX_DEPTH:
        raise SourceError(f"nested {levels} levels deep, more than {MAX_DEPTH}")
    module = parse_python(code)
    if tree.root_node.has_error:
        raise SourceError(f"line {first_error(tree)}: the grammar does not know this syntax")
    found = list(_outermost(tree.root_node))
    meant = list(_outermost_ast(module))
    if [(".".join((*path, _name(_undecorated(node)))), live) for node, path, live in found] != [
        (".".join((*path, one.name)), live) for one, path, live in meant
    ]:
        raise SourceError("the grammar and Python read its definitions differently")
    last = {".".join((*path, one.name)): one for one, path, live in meant if live}
    definitions = tuple(
        _definition(data, node, one, path, live and last[".".join((*path, one.name))] is one)
        for (node, _, _), (one, path, live) in zip(found, meant, strict=True)
    )
    names = Names(last)
    return Source(code, data, tree, definitions, module, PASS, names.callees)


def _outermost(root: Node) -> Iterator[tuple[Node, tuple[str, ...], bool]]:
    """Outermost definitions (decorators included), the classes around each, whether unconditional."""
    stack: list[tuple[Node, tuple[str, ...], bool]] = [(root, (), True)]
    while stack:
        node, path, live = stack.pop()
        if node.type in ("class_definition", "function_definition", "decorated_definition"):
            inner = _undecorated(node)
            if inner.type == "function_definition":
                yield node, path, live
                continue
            if (body := inner.child_by_field_name("body")) is not None:
                path = (*path, _name(inner))
                stack += [(child, path, live) for child in reversed(body.named_children)]
        elif node.type == "module":
            stack += [(child, path, live) for child in reversed(node.named_children)]
        elif node.type in _CONTAINERS:
            stack += [(child, path, False) for child in reversed(node.named_children)]


def _outermost_ast(module: ast.Module) -> Iterator[tuple[FunctionNode, tuple[str, ...], bool]]:
    stack: list[tuple[ast.AST, tuple[str, ...], bool]] = [(one, (), True) for one in reversed(module.body)]
    while stack:
        node, path, live = stack.pop()
        if isinstance(node, FunctionNode):
            yield node, path, live
        elif isinstance(node, ast.ClassDef):
            stack += [(one, (*path, node.name), live) for one in reversed(node.body)]
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            inner: list[ast.AST] = []
            for field in ("body", "handlers", "orelse", "finalbody", "cases"):
                inner += getattr(node, field, [])
            stack += [(one, path, False) for one in reversed(inner)]


def _undecorated(node: Node) -> Node:
    if node.type != "decorated_definition":
        return node
    inner = node.child_by_field_name("definition")
    return node if inner is None else inner


def _name(node: Node) -> str:
    name = node.child_by_field_name("name")
    text = b"" if name is None or name.text is None else name.text
    # Python compares identifiers in this normal form.
    return unicodedata.normalize("NFKC", text.decode())


def _definition(
    data: bytes, node: Node, meant: FunctionNode, path: tuple[str, ...], step: bool
) -> Definition:
    inner = _undecorated(node)
    body = inner.child_by_field_name("body")
    colon = next((c for c in reversed(inner.children) if c.type == ":"), None)
    if body is None or colon is None or not body.named_children:
        raise SourceError(f"line {node.start_point[0] + 1}: the grammar finds no body")
    head_end, body_start = colon.end_byte, body.start_byte
    line_end = data.find(b"\n", head_end)
    line_end = len(data) if line_end < 0 else line_end - (data[line_end - 1 : line_end] == b"\r")
    between = data[head_end:body_start]
    joined = between.replace(b"\\\r\n", b"").replace(b"\\\n", b"")
    same_line = b"#" not in joined and b"\n" not in joined
    doc = ast.get_docstring(meant, clean=False)
    end = node.start_byte + len(data[node.start_byte : node.end_byte].rstrip(BLANK))
    first = next(child for child in body.named_children if child.type != "comment")
    span = FunctionSpan(
        name=".".join((*path, meant.name)),
        kind=_kind(meant, path),
        start_byte=node.start_byte,
        end_byte=end,
        signature=data[inner.start_byte : head_end].decode(),
        docstring=None if doc is None else doc.encode("utf-8", "backslashreplace").decode(),
        calls=[],
        depth=0,
    )
    indent = None if same_line else data[data.rfind(b"\n", 0, body_start) + 1 : body_start]
    newline = b"\r\n" if data[line_end : line_end + 2] == b"\r\n" else b"\n"
    doc_end = None if doc is None else first.end_byte
    if indent is not None:
        blank = (line_end if doc_end is None else doc_end, end, newline + indent + PASS)
    else:
        blank = (body_start, end, PASS) if doc_end is None else (doc_end, end, b"; " + PASS)
    return Definition(
        span=span,
        node=inner,
        step=step,
        head_end=head_end,
        line_end=line_end,
        body_start=body_start,
        body_end=end,
        doc_end=doc_end,
        indent=indent,
        newline=newline,
        body=body,
        meaning=meant,
        blank=(blank,),
        base=span.name,
        suffix="",
        outer=node,
    )


def _kind(meant: FunctionNode, path: tuple[str, ...]) -> str:
    if not path:
        return "function"
    if meant.name in ("__init__", "__new__"):
        return "constructor"
    for one in meant.decorator_list:
        told = one.attr if isinstance(one, ast.Attribute) else one.id if isinstance(one, ast.Name) else ""
        if told in ("property", "cached_property", "setter", "getter", "deleter"):
            return "property"
    return "method"


class Names:
    """Which step a call inside a function means, as far as syntax tells."""

    def __init__(self, steps: dict[str, FunctionNode]) -> None:
        self.steps = steps
        self.classes = {name.rpartition(".")[0] for name in steps} - {""}

    def callees(self, definition: Definition) -> list[str]:
        """Steps that a definition calls, in order of first call.

        A call is `step(...)`, `self.method(...)` or `cls.method(...)` inside a method, `Class(...)`
        (its `__init__`), `Class.method(...)`, and a step passed on as an argument, as in
        `map(step, xs)`. A name that the function binds itself is its own.
        """
        function: FunctionNode = definition.meaning
        path = tuple(definition.span.name.split(".")[:-1])
        own = bound_names(function)
        first = function.args.posonlyargs + function.args.args
        receiver = first[0].arg if path and first else None
        found: list[tuple[int, int, str]] = []
        for node in ast.walk(function):
            if not isinstance(node, ast.Call):
                continue
            told = [node.func, *node.args, *(keyword.value for keyword in node.keywords)]
            for position, value in enumerate(told):
                name = self._step(value, own, receiver, path, called=position == 0)
                if name is not None:
                    found.append((value.lineno, value.col_offset, name))
        return list(dict.fromkeys(name for _, _, name in sorted(found)))

    def _step(
        self, value: ast.expr, own: set[str], receiver: str | None, path: tuple[str, ...], called: bool
    ) -> str | None:
        parts: list[str] = []
        while isinstance(value, ast.Attribute):
            parts.append(value.attr)
            value = value.value
        if not isinstance(value, ast.Name):
            return None
        if value.id == receiver and len(parts) == 1:
            name = ".".join((*path, parts[0]))
        elif value.id in own:
            return None
        else:
            name = ".".join((value.id, *reversed(parts)))
        if name in self.steps:
            return name
        made = f"{name}.__init__"
        return made if called and name in self.classes and made in self.steps else None


def bound_names(function: FunctionNode) -> set[str]:
    """Names that a function, or anything inside it, binds: parameters, targets, imports, definitions."""
    bound: set[str] = set()
    shared: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, FunctionNode | ast.ClassDef) and node is not function:
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
        elif isinstance(node, ast.Global):
            shared.update(node.names)
    return bound - shared
