"""A model judges each function of a candidate without running it: the paper's comparison, and how good it is.

In: a program, its problem and candidates. Out: for each candidate a label a function: 1 the model holds it
for correct, 0 for wrong, null where it was not asked or did not say. `report` compares such labels with those
by execution.
Wrong: nothing raises but what ends every call (`ModelFault`, `BudgetSpent`). A candidate that is no program,
and a function that it lacks, are not asked about.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from decompose.functions import functions
from decompose.grammars import SourceError
from labelers.llm.calls import Message, Request
from labelers.llm.fencing import fence
from labelers.prompts import render, version
from labelers.rates import Rate
from schemas.ids import rng

if TYPE_CHECKING:
    from labelers.llm.client import Client

PROMPT = "judge"
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"correct": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["correct", "reason"],
    "additionalProperties": False,
}
_SEEDS = 1 << 31
_MAX_STATEMENT = 20_000
_MAX_REASON = 500


@dataclasses.dataclass(frozen=True)
class Judged:
    """What a model said of one function.

    Attributes:
        label: 1 correct, 0 wrong, None without an answer.
        reason: its sentence, or why there is no answer.
        model: who said so.
    """

    label: int | None
    reason: str
    model: str


def judge(
    client: Client,
    program: Mapping[str, Any],
    problem: Mapping[str, Any],
    seed: int,
    candidates: Sequence[Mapping[str, Any]],
    counts: Counter[str] | None = None,
) -> list[dict[str, int | None]]:
    """The labels that a model gives to the functions of candidates.

    Args:
        candidates: `Candidate` rows of the program.
        counts: `judged_correct`, `judged_wrong` and `judge_failed` are added here.

    Returns:
        for each candidate, name of a function -> label; functions that were not asked about are left out.

    Raises:
        ModelFault, BudgetSpent: as for `Client.ask`.
    """
    found: list[dict[str, int | None]] = []
    for one in judgements(client, program, problem, seed, candidates):
        found.append({name: judged.label for name, judged in one.items()})
        if counts is not None:
            words = {1: "judged_correct", 0: "judged_wrong", None: "judge_failed"}
            counts.update(words[judged.label] for judged in one.values())
    return found


def judgements(
    client: Client,
    program: Mapping[str, Any],
    problem: Mapping[str, Any],
    seed: int,
    candidates: Sequence[Mapping[str, Any]],
) -> Iterator[dict[str, Judged]]:
    """What a model says of each function of each candidate, with its reasons; see `judge`."""
    names = [span["name"] for span in program["functions"]]
    codes = [one["completion"] if one["program"] is None else one["program"] for one in candidates]
    asked = [[name for name in names if name in _defined(code, program["language"])] for code in codes]
    replies = client.ask(
        _request(program["language"], problem["prompt"], code, name, seed)
        for code, wanted in zip(codes, asked, strict=True)
        for name in wanted
    )
    for wanted in asked:
        found = {}
        for name in wanted:
            reply = next(replies)
            if reply.error is None:
                label, reason = int(reply.parsed["correct"]), reply.parsed["reason"]
            else:
                label, reason = None, reply.error
            found[name] = Judged(label, " ".join(reason.split())[:_MAX_REASON], reply.model)
        yield found
    # The client tells at its end what got no answer.
    next(replies, None)


def _defined(code: str, language: str) -> set[str]:
    try:
        return {span.name for span in functions(code, language)}
    except SourceError:
        return set()


def _request(language: str, statement: str, code: str, function: str, seed: int) -> Request:
    text = render(
        PROMPT,
        language=language,
        statement=fence(statement[:_MAX_STATEMENT]),
        code=fence(code, language),
        function=function,
    )
    # The same candidate and function get the same word, from whichever run.
    draw = rng(seed, "judge", f"{function}\n{code}").randrange(_SEEDS)
    return Request((Message("user", text),), temperature=0.0, seed=draw, schema=SCHEMA)


def prompt_version() -> str:
    """The template that a model judges by."""
    return version(PROMPT)


@dataclasses.dataclass(frozen=True)
class JudgeReport:
    """How a model's labels compare with those by execution.

    Attributes:
        agreement: functions with the same label, of those that have both.
        recall_passing: of the functions that pass, those that it holds for correct.
        recall_failing: of the functions that fail, those that it holds for wrong.
        silent: functions with a label by execution and none by the model.
        unexecuted: functions that only the model has labelled.
        kappa: agreement beyond chance (Cohen, 1960); None where chance alone explains all.
    """

    agreement: Rate
    recall_passing: Rate
    recall_failing: Rate
    silent: int
    unexecuted: int
    kappa: float | None

    def row(self) -> dict[str, Any]:
        """The report as plain values."""
        found: dict[str, Any] = {}
        for name in ("agreement", "recall_passing", "recall_failing"):
            rate: Rate = getattr(self, name)
            found[name] = rate.row()
        return {**found, "silent": self.silent, "unexecuted": self.unexecuted, "kappa": self.kappa}


def judge_report(rows: Iterable[tuple[str, int | None, int | None]]) -> dict[str, JudgeReport]:
    """How models' labels compare with execution, by model.

    Args:
        rows: (model, label by execution, label by the model) of each function; labels are 1, 0 or None.
    """
    cells: dict[str, Counter[tuple[int | None, int | None]]] = {}
    for model, executed, said in rows:
        cells.setdefault(model, Counter())[executed, said] += 1
    return {model: _report(found) for model, found in sorted(cells.items())}


def _report(cells: Counter[tuple[int | None, int | None]]) -> JudgeReport:
    right, wrong = cells[1, 1], cells[0, 0]
    passing, failing = right + cells[1, 0], wrong + cells[0, 1]
    both = passing + failing
    kappa = None
    if both:
        said = right + cells[0, 1]
        chance = (passing * said + failing * (both - said)) / both**2
        kappa = None if chance == 1 else ((right + wrong) / both - chance) / (1 - chance)
    return JudgeReport(
        agreement=Rate(right + wrong, both),
        recall_passing=Rate(right, passing),
        recall_failing=Rate(wrong, failing),
        silent=cells[1, None] + cells[0, None],
        unexecuted=cells[None, 1] + cells[None, 0],
        kappa=kappa,
    )
