"""A program taken apart once: its bytes, its tree and its function definitions, for any language.

In: source text and the name of its language. Out: a `Source`. Python has a reader of its own, the others
share one that is driven by data (`decompose.trees`). Wrong: `SourceError` for a text that is not a program,
`AssayError` for a language that cannot be taken apart.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

from tree_sitter import Node, Tree

from decompose.grammars import SourceError
from decompose.tree_syntax import READINGS
from schemas.errors import AssayError
from schemas.records import FunctionSpan

BLANK = b" \t\f\r\n"
"""What does not belong to a node at its end: a grammar's comments may reach to the line feed."""


PASS = b"pass"
LANGUAGES = ("Python", *READINGS)
"""Languages whose programs can be taken apart, in the spelling of the `language` column."""


@dataclasses.dataclass(frozen=True)
class Definition:
    """One outermost function definition of a program; every number is a byte offset.

    Attributes:
        span: what the `functions` column holds of it; `calls` is empty (see `Source.callees`), `depth` 0.
        node: its syntax node, without decorators and export or template clauses around it: the function
            itself where it is the value of a name.
        step: whether it is a step: it is what its name means when the program has been loaded.
        head_end: one past the token that ends the signature.
        line_end: one past the last byte of the signature's last line, its line ending excluded.
        body_start: first byte of the first statement of the body, or of the expression that it is.
        body_end: one past the last byte of the last statement; `body_start` where there is none.
        doc_end: one past the docstring statement; None without a docstring.
        indent: what stands before the body's first statement on its line; None when the body
            follows the signature on one line.
        newline: the line ending after the signature.
        body: the syntax node of the body.
        meaning: what the language's own parser made of it (Python: a node of `ast`; None elsewhere).
        blank: the replacements that empty the body, in order of position: first byte, one past the last,
            and what comes there.
        base: qualified name without what tells overloads apart.
        suffix: what tells it from others of the same `base`, such as `(int,String)`; "" when nothing does.
        outer: its syntax node with all that belongs to it, comments above it excepted.
    """

    span: FunctionSpan
    node: Node
    step: bool
    head_end: int
    line_end: int
    body_start: int
    body_end: int
    doc_end: int | None
    indent: bytes | None
    newline: bytes
    body: Node
    meaning: Any
    blank: tuple[tuple[int, int, bytes], ...]
    base: str
    suffix: str
    outer: Node


@dataclasses.dataclass(frozen=True)
class Source:
    """A program that its language accepts.

    Attributes:
        code: the text.
        data: the text as UTF-8.
        tree: its syntax tree; offsets index `data`.
        definitions: outermost function definitions in order of position, steps and others.
        module: what the language's own parser made of it (Python: `ast.Module`; None elsewhere).
        filler: a body that does nothing.
        callees: the steps that a definition calls, in order of first call. It is asked for, since
            most who take a program apart have no use for it.
    """

    code: str
    data: bytes
    tree: Tree
    definitions: tuple[Definition, ...]
    module: Any
    filler: bytes
    callees: Callable[[Definition], list[str]]

    @property
    def steps(self) -> list[Definition]:
        """The definitions that are steps, in order of position."""
        return [definition for definition in self.definitions if definition.step]

    def step(self, name: str) -> Definition:
        """The step of that qualified name.

        A name that tells the types of parameters is that of a function without overloads too, and the
        other way round: `add(int)` means the only `add` if that takes an `int`.

        Raises:
            SourceError: the program has no such function.
        """
        steps = self.steps
        for definition in steps:
            if definition.span.name == name:
                return definition
        told = [one for one in steps if one.suffix and one.base + one.suffix == name]
        if len(told) == 1:
            return told[0]
        raise SourceError(f"the program has no function {name!r}")

    def counterpart(self, other: Definition) -> Definition:
        """The step that is the same function as one of another program.

        It has the same name; where only one of the programs has overloads, the same parameter types.

        Raises:
            SourceError: the program has no such function.
        """
        try:
            return self.step(other.span.name)
        except SourceError:
            told = [one for one in self.steps if one.base == other.base and one.suffix == other.suffix]
            if len(told) == 1:
                return told[0]
            raise

    def indent_before(self, at: int) -> bytes:
        """What stands before byte `at` on its line."""
        return self.data[self.data.rfind(b"\n", 0, at) + 1 : at]


def read(code: str, language: str = "Python") -> Source:
    """Take a program apart.

    Raises:
        SourceError: the text is not a program of that language, is too large or nested too deeply.
        AssayError: programs of that language cannot be taken apart.
    """
    # The readers make what is declared here.
    if language == "Python":
        return importlib.import_module("decompose.python").read(code)  # type: ignore[no-any-return]
    _known(language)
    return importlib.import_module("decompose.trees").read(code, language)  # type: ignore[no-any-return]


def filler(language: str = "Python") -> str:
    """The statement that stands for an emptied body in the skeletons of a language.

    Raises:
        AssayError: programs of that language cannot be taken apart.
    """
    if language == "Python":
        return PASS.decode()
    _known(language)
    return READINGS[language].filler


def _known(language: str) -> None:
    if language not in READINGS:
        known = ", ".join(LANGUAGES)
        raise AssayError(f"{language}: programs of this language cannot be taken apart; known are {known}")


def refuse_lone_returns(data: bytes) -> None:
    """Refuse carriage returns without a line feed: grammars and languages count lines differently there.

    Raises:
        SourceError: the text has one.
    """
    if data.replace(b"\r\n", b"").count(b"\r"):
        line = data.replace(b"\r\n", b"\n").split(b"\r")[0].count(b"\n") + 1
        raise SourceError(f"line {line}: a carriage return without a line feed")


def first_error(tree: Tree) -> int:
    """Line of the first syntax error of a tree."""
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            return node.start_point.row + 1
        stack += [child for child in reversed(node.children) if child.has_error or child.is_missing]
    return 1
