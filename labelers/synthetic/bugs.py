"""Bugs that a model puts into correct programs.

In: programs with their problems, a client. Out: `Planted` programs, as the model wrote them, that differ
from theirs in little and say nothing of it. Whether they are wrong is for the suite to say.
Wrong: nothing raises but what ends every call (`ModelFault`, `BudgetSpent`); an answer that is no such
program is counted by its reason.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from decompose.grammars import SourceError, walk
from decompose.mutate import apply, edits
from decompose.source import Source, read
from labelers.llm.calls import Message, Request
from labelers.llm.fencing import fence
from labelers.programs.answers import Asked, find
from labelers.prompts import render, version
from schemas.ids import rng
from schemas.tokens import estimate_tokens

if TYPE_CHECKING:
    from labelers.llm.client import Client

PROMPT = "bug"
LEAST_ALIKE = 0.6
"""Share of the lines that a program has to keep."""
_SEEDS = 1 << 31
_MOST_STATEMENT = 20_000
_MOST_MUTANTS = 40
_MOST_LINES = 4000


@dataclasses.dataclass(frozen=True)
class Planted:
    """A program with a bug, by somebody's word.

    Attributes:
        code: the whole program.
        model: what wrote it.
        sample: number of the sample.
    """

    code: str
    model: str
    sample: int


def requests(
    asked: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]], each: int, seed: int
) -> Iterator[Request]:
    """The requests for bugs in programs (rows of `programs` with their rows of `problems`)."""
    for program, problem in asked:
        language = program["language"]
        text = render(
            PROMPT,
            language=language,
            statement=fence(problem["prompt"][:_MOST_STATEMENT]),
            code=fence(program["code"], language),
        )
        draw = rng(seed, "bug", program["id"])
        for number in range(each):
            yield Request(
                (Message("user", text),),
                seed=draw.randrange(_SEEDS),
                sample=number,
                rule=_mutated(program, seed, number),
                kind=version(PROMPT),
                expected_tokens=estimate_tokens(program["code"]) + 10,
            )


def plant(
    client: Client,
    asked: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    each: int,
    seed: int,
    counts: Counter[str],
) -> dict[str, list[Planted]]:
    """The programs with bugs that a model writes, by the program's id.

    Args:
        each: bugs that are asked for, of each program.
        counts: `bugs_asked` and the reasons of answers that are none are added here.

    Raises:
        ModelFault, BudgetSpent: as for `Client.ask`.
    """
    found: dict[str, list[Planted]] = {program["id"]: [] for program, _ in asked}
    replies = client.ask(requests(asked, each, seed))
    for program, _ in asked:
        for number in range(each):
            reply = next(replies)
            counts["bugs_asked"] += 1
            if reply.error is not None:
                counts["bug_no_answer"] += 1
                continue
            code = find(reply.text, Asked.of(program)).program
            reason = unfit(program["code"], code, program["language"])
            if reason is not None:
                counts[reason] += 1
            else:
                found[program["id"]].append(Planted(code, reply.model, number))
    # The client tells at its end what got no answer.
    next(replies, None)
    return found


def unfit(before: str, after: str, language: str) -> str | None:
    """Why a text is not a program with a bug put into it, before it is run; None when it may be one."""
    try:
        old, new = read(before, language), read(after, language)
    except SourceError:
        return "bug_unreadable"
    if not new.steps:
        return "bug_unreadable"
    if _tokens(old) == _tokens(new):
        return "bug_same"
    if _shape(old) != _shape(new):
        return "bug_interface"
    if _comments(new) - _comments(old):
        return "bug_hint"
    was, now = ([line.strip() for line in code.split("\n") if line.strip()] for code in (before, after))
    if max(len(was), len(now)) > _MOST_LINES:
        return "bug_rewritten"
    alike = difflib.SequenceMatcher(None, was, now, autojunk=False).ratio()
    return "bug_rewritten" if alike < LEAST_ALIKE else None


def _shape(source: Source) -> list[tuple[str, str, str | None]]:
    return [(one.span.name, " ".join(one.span.signature.split()), one.span.docstring) for one in source.steps]


def _comments(source: Source) -> Counter[str]:
    nodes = (node for node, _ in walk(source.tree.root_node) if "comment" in node.type)
    return Counter(" ".join(source.data[one.start_byte : one.end_byte].decode().split()) for one in nodes)


def _tokens(source: Source) -> list[bytes | int]:
    """The texts of the leaves, comments left out, and the column of each that is the first of its line.

    Without the columns a Python statement that was moved out of a loop would be where it was.
    """
    found: list[bytes | int] = []
    row = -1
    for node, _ in walk(source.tree.root_node):
        if not node.child_count and "comment" not in node.type:
            if node.start_point.row != row:
                row = node.start_point.row
                found.append(node.start_point.column)
            found.append(source.data[node.start_byte : node.end_byte])
    return found


def _mutated(program: Mapping[str, Any], seed: int, number: int) -> str | None:
    """A mutant of a program as an answer: what stands for a bug where no model is asked."""
    draw = rng(seed, "bug by rule", program["id"])
    try:
        possible = edits(program["code"], limit=_MOST_MUTANTS, rng=draw, language=program["language"])
    except SourceError:
        return None
    if not possible:
        return None
    drawn = possible[(draw.randrange(len(possible)) - number) % len(possible)]
    return fence(apply(program["code"], [drawn]), program["language"])
