"""The functions of a program: its steps.

In: source text. Out: one `FunctionSpan` a step, in order of position; byte spans index the text as
UTF-8 and include decorators and comments of the body. Which definitions are steps is told in the
module of the language (`decompose.python`). Wrong: `SourceError`, one line for a dropped row.
"""

from __future__ import annotations

import dataclasses

from decompose.grammars import tree_depth
from decompose.source import read
from schemas.records import FunctionSpan


def functions(code: str, language: str = "Python") -> list[FunctionSpan]:
    """The steps of a program, in order of position.

    Raises:
        SourceError: the text is not a program of that language, is too large or nested too deeply.
        AssayError: programs of that language cannot be taken apart.
    """
    source = read(code, language)
    return [
        dataclasses.replace(step.span, calls=source.callees(step), depth=tree_depth(step.node))
        for step in source.steps
    ]


def source_of(code: str, span: FunctionSpan) -> str:
    """The text of a function: the bytes of its span."""
    return code.encode()[span.start_byte : span.end_byte].decode()
