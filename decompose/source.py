"""A program taken apart once: its bytes, its tree and its function definitions, for any language.

In: source text and the name of its language. Out: a `Source`. A language is one entry of `_READERS`:
a function from text to `Source`. Wrong: `SourceError` for a text that is not a program,
`AssayError` for a language that cannot be taken apart.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

from tree_sitter import Node, Tree

from decompose.grammars import SourceError
from schemas.errors import AssayError
from schemas.records import FunctionSpan

BLANK = b" \t\f\r\n"
"""What does not belong to a node at its end: a grammar's comments may reach to the line feed."""


@dataclasses.dataclass(frozen=True)
class Definition:
    """One outermost function definition of a program; every number is a byte offset.

    Attributes:
        span: what the `functions` column holds of it; `calls` is empty (see `Source.callees`), `depth` 0.
        node: its syntax node, without decorators and export or template clauses around it.
        step: whether it is a step: it is what its name means when the program has been loaded.
        head_end: one past the token that ends the signature.
        line_end: one past the last byte of the signature's last line, its line ending excluded.
        body_start: first byte of the first statement of the body.
        body_end: one past the last byte of the body.
        doc_end: one past the docstring statement; None without a docstring.
        indent: what stands before the body's first statement on its line; None when the body
            follows the signature on one line.
        newline: the line ending after the signature.
        body: the syntax node of the body.
        meaning: what the language's own parser made of it (Python: a node of `ast`).
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


@dataclasses.dataclass(frozen=True)
class Source:
    """A program that its language accepts.

    Attributes:
        code: the text.
        data: the text as UTF-8.
        tree: its syntax tree; offsets index `data`.
        definitions: outermost function definitions in order of position, steps and others.
        module: what the language's own parser made of it (Python: `ast.Module`).
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

        Raises:
            SourceError: the program has no such function.
        """
        for definition in self.steps:
            if definition.span.name == name:
                return definition
        raise SourceError(f"the program has no function {name!r}")

    def indent_before(self, at: int) -> bytes:
        """What stands before byte `at` on its line."""
        return self.data[self.data.rfind(b"\n", 0, at) + 1 : at]


_READERS = {"Python": ("decompose.python", "read")}


def read(code: str, language: str = "Python") -> Source:
    """Take a program apart.

    Raises:
        SourceError: the text is not a program of that language, is too large or nested too deeply.
        AssayError: programs of that language cannot be taken apart.
    """
    if language not in _READERS:
        known = ", ".join(_READERS)
        raise AssayError(f"{language}: programs of this language cannot be taken apart; known are {known}")
    module, function = _READERS[language]
    made: Source = getattr(importlib.import_module(module), function)(code)
    return made
