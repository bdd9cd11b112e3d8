"""Mutants of a program: small faults put into its functions, without a model.

In: a program. Out: edits of byte ranges, and the programs that they make; all that an edit does not
touch stays byte for byte, comments and layout included. Only bodies of steps are mutated, never a
signature, a decorator, an annotation or a docstring. Every mutant parses, its syntax tree differs
from the original's and from that of every other mutant of the function, and the order is that of
position. Wrong: `SourceError` for a text that is not a program or a function that it lacks.
"""

from __future__ import annotations

import dataclasses
import importlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from decompose.grammars import SourceError
from decompose.source import Definition, Source, read
from decompose.tree_operator_syntax import OPERATIONS
from schemas.errors import AssayError


@dataclasses.dataclass(frozen=True, order=True)
class Edit:
    """One replacement of bytes: the fault, and where it is.

    Attributes:
        start_byte: first byte replaced.
        end_byte: one past the last; equal to `start_byte` for an insertion.
        operator: name of the mutation operator.
        replacement: the new text.
        function: qualified name of the function.
        line: line of `start_byte`, from 1.
        detail: what was done, for a person.
    """

    start_byte: int
    end_byte: int
    operator: str
    replacement: str
    function: str
    line: int
    detail: str


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A program with one fault; byte offsets index the original.

    Attributes:
        code: the whole mutated program.
        operator: name of the mutation operator.
        function: qualified name of the mutated function.
        start_byte: first byte replaced.
        end_byte: one past the last byte replaced.
        detail: line and change, for a person.
    """

    code: str
    operator: str
    function: str
    start_byte: int
    end_byte: int
    detail: str


Operators = Callable[[Source, Definition], Iterator[Edit]]
Fingerprint = Callable[[Source, Definition, Edit | None], bytes]


def _tools(language: str) -> tuple[Operators, Fingerprint]:
    """The edits that a language's operators propose inside one definition, and a digest of the definition's
    syntax tree after an edit (an error where that does not parse).
    """
    # The operators make what is declared here.
    if language == "Python":
        loaded = importlib.import_module("decompose.python_operators")
        return loaded.propose, loaded.fingerprint
    if language in OPERATIONS:
        return importlib.import_module("decompose.tree_operators").tools(language)  # type: ignore[no-any-return]
    known = ", ".join(("Python", *OPERATIONS))
    raise AssayError(f"{language}: no mutation operators for this language; known are {known}")


def edits(
    code: str,
    function: str | None = None,
    *,
    limit: int | None = None,
    rng: random.Random | None = None,
    language: str = "Python",
) -> list[Edit]:
    """The faults that can be put into a program, in order of position.

    Args:
        function: qualified name; every function when None.
        limit: largest number wanted: the first ones, or ones drawn by `rng` when it is given.

    Raises:
        SourceError: the text is not a program, or lacks the function.
        AssayError: there are no operators for the language.
    """
    source = read(code, language)
    propose, fingerprint = _tools(language)
    wanted = source.steps if function is None else [source.step(function)]
    proposed = [(edit, definition) for definition in wanted for edit in sorted(propose(source, definition))]
    if rng is not None:
        rng.shuffle(proposed)
    seen: dict[str, set[bytes]] = {}
    found: list[Edit] = []
    for edit, definition in proposed:
        if limit is not None and len(found) >= limit:
            break
        name = definition.span.name
        if name not in seen:
            seen[name] = {fingerprint(source, definition, None)}
        try:
            print_ = fingerprint(source, definition, edit)
        except SourceError:
            continue
        if print_ not in seen[name]:
            seen[name].add(print_)
            found.append(edit)
    return sorted(found)


def apply(code: str, chosen: Iterable[Edit]) -> str:
    """A program after several edits of it.

    Raises:
        SourceError: two edits overlap.
    """
    data = code.encode()
    before = len(data)
    for edit in sorted(chosen, reverse=True):
        if edit.end_byte > before:
            raise SourceError(f"two edits overlap at byte {edit.start_byte}")
        data = data[: edit.start_byte] + edit.replacement.encode() + data[edit.end_byte :]
        before = edit.start_byte
    return data.decode()


def mutants(
    code: str,
    function: str | None = None,
    *,
    limit: int | None = None,
    rng: random.Random | None = None,
    language: str = "Python",
) -> list[Mutant]:
    """First-order mutants of a program: one fault each, in order of position (see `edits`).

    Each holds the whole program, so that a large program wants a `limit`.

    Raises:
        SourceError: the text is not a program, or lacks the function.
        AssayError: there are no operators for the language.
    """
    return [
        Mutant(
            apply(code, [edit]),
            edit.operator,
            edit.function,
            edit.start_byte,
            edit.end_byte,
            describe([edit]),
        )
        for edit in edits(code, function, limit=limit, rng=rng, language=language)
    ]


def higher_order(possible: Sequence[Edit], order: int, rng: random.Random) -> list[Edit]:
    """Draw `order` edits in different functions; fewer where fewer functions can be edited.

    Functions are drawn first, so that a long function is not hit more often than a short one.
    """
    names = sorted({edit.function for edit in possible})
    chosen = rng.sample(names, min(order, len(names)))
    return sorted(rng.choice([edit for edit in possible if edit.function == name]) for name in chosen)


def describe(chosen: Iterable[Edit]) -> str:
    """Edits in a few words: function, line, operator and change."""
    return "; ".join(f"{edit.function}:{edit.line} {edit.operator} {edit.detail}" for edit in chosen)
