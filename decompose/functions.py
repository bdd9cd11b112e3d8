"""The functions of a program: its steps.

In: source text. Out: one `FunctionSpan` a step, in order of position; byte spans index the text as
UTF-8 and include decorators and comments of the body. Which definitions are steps is told in the
module of the language (`decompose.python`). Wrong: `SourceError`, one line for a dropped row.
"""

from __future__ import annotations

import contextlib
import dataclasses

from decompose.grammars import SourceError, tree_depth
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


def counterparts(reference: str, candidate: str, language: str = "Python") -> dict[str, FunctionSpan]:
    """The steps of a candidate by the names that the reference has for them; those it lacks are left out.

    Names differ only where one of the programs has overloads that the other lacks.

    Raises:
        SourceError: either text is not a program of that language, is too large or nested too deeply.
        AssayError: programs of that language cannot be taken apart.
    """
    host, guest = read(reference, language), read(candidate, language)
    spans = {span.start_byte: span for span in functions(candidate, language)}
    found: dict[str, FunctionSpan] = {}
    for step in host.steps:
        with contextlib.suppress(SourceError):
            found[step.span.name] = spans[guest.counterpart(step).span.start_byte]
    return found


def source_of(code: str, span: FunctionSpan) -> str:
    """The text of a function: the bytes of its span."""
    return code.encode()[span.start_byte : span.end_byte].decode()
