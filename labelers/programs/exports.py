"""Step-labelled candidates as examples for trainers of preferences: KTO (unpaired) and DPO (paired).

In: rows of the `steps` table, those of one program together, with its `programs` and `problems` rows.
Out: `KtoExample`s or `DpoExample`s, and what became of every row: at the level of programs a row is a
candidate, at that of functions it is one function of a candidate.
Wrong: nothing raises; a row that gives no example has a reason (`EXPORT_REASONS`).

* program: the prompt and completion of the row; the label is its outcome.
* function: the prompt is the statement and a program in which one function's body is missing, the
  completion that function's text. A label given beside the reference's functions goes with the reference's
  program; any other goes with the candidate's own, since that is where it was given.
* Texts that differ in blank lines and in space at the ends of lines count as one, the first that comes. A
  text with both labels under one prompt gives no example.
* A pair has one prompt. Pairs whose sides have the same generator come first, and candidates take turns.
  Which ones are drawn depends on (seed, program, function) alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from decompose.skeleton import emptied
from decompose.source import Source, read
from schemas.errors import AssayError
from schemas.ids import content_id, rng
from schemas.records import DpoExample, KtoExample

LEVELS = ("program", "function")
LABELS = ("reference", "own", "judge", "counted", "outcome")
"""Labels of functions: each of a step's own, the one that counts, and the outcome of the whole candidate."""

MAX_ROWS = 4096
"""Candidates of one program that are looked at: they are in memory together."""

REFERENCE = "reference"

EXPORT_REASONS: dict[str, str] = {
    "contradictory": "the same text under the same prompt has both labels",
    "duplicate": "the same text, but for blank space, is there already",
    "empty": "the candidate is no text, or does not have the function",
    "forgeable": "tests and program shared one process, so the program could forge its outcome",
    "no_counterpart": "no text of the other label stands under the same prompt",
    "no_label": "there is no such label: no verdict, no valid test, or nobody was asked",
    "no_program": "the row's program or problem is not in the part beside it",
    "not_blanked": "the program with this function's body missing cannot be made",
    "not_drawn": "there are more pairs than were asked for, and it is in none of those drawn",
    "too_many": "the program has more candidates than are looked at",
}
"""Reason why a row gives no example -> what it says."""


@dataclasses.dataclass(frozen=True)
class Export:
    """What is asked for.

    Attributes:
        to: `kto` or `dpo`.
        level: one of `LEVELS`.
        labels: one of `LABELS`; `outcome` for programs.
        inproc: take outcomes that a program could have forged.
        max_pairs: most pairs of one program, or of one function.
        counts: which label of a function counts by the recipe (`verify.steps`): what `counted` stands for.
    """

    to: str
    level: str
    labels: str
    inproc: bool = False
    max_pairs: int = 8
    counts: str = "reference"

    def __post_init__(self) -> None:
        if self.level == "program" and self.labels != "outcome":
            raise AssayError(
                f"--labels {self.labels}: whole programs have one label, their outcome; "
                "leave --labels out, or give --level function"
            )

    @property
    def beside_reference(self) -> bool:
        """Whether the label of a function was given beside the reference's other functions."""
        return (self.counts if self.labels == "counted" else self.labels) == "reference"


@dataclasses.dataclass(frozen=True, slots=True)
class Graded:
    """A text that could stand in an example.

    Attributes:
        prompt: what it answers.
        text: the answer.
        label: whether it is right.
        candidate: id of its candidate; empty for the reference's own text.
        function: qualified name of the function; None for a program.
        generator: what made it.
        evidence: the columns of `KtoExample` that say what the label rests on.
    """

    prompt: str
    text: str
    label: bool
    candidate: str
    function: str | None
    generator: str
    evidence: Mapping[str, Any]


Example = KtoExample | DpoExample


def examples(
    rows: Iterable[Mapping[str, Any]],
    program: Mapping[str, Any] | None,
    problem: Mapping[str, Any] | None,
    asked: Export,
    seed: int,
) -> tuple[list[Example], int, Counter[str]]:
    """Examples of the candidates of one program.

    Args:
        rows: its rows of `steps`, in order; at the level of programs `steps` and `program` may be missing.
        program: its row of `programs`, which only functions need; None where it is missing.
        problem: its row of `problems`, likewise.
        seed: root of the draw of pairs.

    Returns:
        (examples, rows that are in one, the other rows by reason). Rows are counted at the level that is
        asked for.
    """
    reasons: Counter[str] = Counter()
    prompts = Prompts(program, problem)
    graded: list[Graded] = []
    for number, row in enumerate(rows):
        for one in _graded(row, prompts, asked) if number < MAX_ROWS else _beyond(row, asked):
            if isinstance(one, str):
                reasons[one] += 1
            else:
                graded.append(one)
    good = _distinct(graded, reasons)
    if asked.to == "kto":
        return [_kto(one, asked) for one in good], len(good), reasons
    made: list[Example] = []
    used = 0
    groups: dict[tuple[str | None, str], list[Graded]] = {}
    for one in good:
        groups.setdefault((one.function, one.prompt), []).append(one)
    for (function, prompt), group in groups.items():
        own = prompts.own(function) if function is not None and asked.beside_reference else None
        drawn = _pairs(group, own, asked.max_pairs, _draw(seed, group[0], prompt), reasons)
        made += (_dpo(one, other, asked) for one, other in drawn)
        used += len({id(one) for pair in drawn for one in pair if one.candidate})
    return made, used, reasons


def _draw(seed: int, one: Graded, prompt: str) -> random.Random:
    name = content_id(one.evidence["program_id"], one.function or "", prompt)
    return rng(seed, "export", name)


def _beyond(row: Mapping[str, Any], asked: Export) -> Iterator[str]:
    return itertools.repeat("too_many", 1 if asked.level == "program" else len(row["steps"]))


def _graded(row: Mapping[str, Any], prompts: Prompts, asked: Export) -> Iterator[Graded | str]:
    """One text a row (or one a function of it) with its label, or why there is none."""
    evidence = {name: row[name] for name in ("problem_id", "program_id", "language", "source", "license")}
    evidence |= {"split": row["split"], "tests_run": None, "mutation_score": None}
    maker = row["generator"]["model"]
    if asked.level == "program":
        evidence |= {"reason": row["outcome_reason"], "trust": row["trust"]}
        if why := _refused(row["outcome"], row["trust"], row["completion"], asked):
            yield why
        else:
            yield Graded(
                row["prompt"], row["completion"], row["outcome"] == 1, row["id"], None, maker, evidence
            )
        return
    data = row["completion"].encode()
    code = row["completion"] if row["program"] is None else row["program"]
    for step in row["steps"]:
        label, reason, trust = _label(row, step, asked)
        text = _whole_lines(data, step["start_byte"], step["end_byte"])
        if why := _refused(label, trust, text, asked):
            yield why
            continue
        prompt = prompts.of(step["name"], None if asked.beside_reference else code)
        if prompt is None:
            yield "not_blanked" if prompts.known else "no_program"
            continue
        more = {"reason": reason, "trust": trust}
        if asked.beside_reference:
            more |= {"tests_run": step["tests_run"], "mutation_score": step["mutation_score"]}
        yield Graded(prompt, text, label == 1, row["id"], step["name"], maker, {**evidence, **more})


def _label(row: Mapping[str, Any], step: Mapping[str, Any], asked: Export) -> tuple[int | None, str, str]:
    """(label, reason, trust) of one function."""
    kind = asked.counts if asked.labels == "counted" else asked.labels
    if kind == "outcome":
        return row["outcome"], row["outcome_reason"], row["trust"]
    label = step["label" if asked.labels == "counted" else f"{kind}_label"]
    if kind == "judge":
        return label, "judged", "judge"
    return label, step["own_reason" if kind == "own" else "reason"], step["trust"]


def _refused(label: int | None, trust: str, text: str, asked: Export) -> str | None:
    if label is None:
        return "no_label"
    if trust == "inproc" and not asked.inproc:
        return "forgeable"
    return None if text.strip() else "empty"


def _whole_lines(data: bytes, start: int, end: int) -> str:
    """The text of a span, with what indents its first line; empty for a span that is not in the text."""
    if not 0 <= start < end <= len(data):
        return ""
    first = data.rfind(b"\n", 0, start) + 1
    begin = start if data[first:start].strip(b" \t") else first
    return data[begin:end].decode("utf-8", "replace")


class Prompts:
    """Prompts for functions of one program, each made once."""

    def __init__(self, program: Mapping[str, Any] | None, problem: Mapping[str, Any] | None) -> None:
        self.program, self.problem = program, problem
        self._made: dict[tuple[str, bytes], str | None] = {}
        self._last: tuple[str, Source | None] | None = None

    @property
    def known(self) -> bool:
        """Whether there are a program and a problem to make prompts of."""
        return self.program is not None and self.problem is not None

    def of(self, function: str, code: str | None = None) -> str | None:
        """Statement and program with one function's body missing; None where it cannot be made.

        Args:
            code: a candidate's program; the reference's when None.
        """
        if self.program is None or self.problem is None:
            return None
        code = self.program["code"] if code is None else code
        key = (function, hashlib.blake2b(code.encode(), digest_size=16).digest())
        if key not in self._made:
            blank = self._blanked(code, function, self.program["language"])
            self._made[key] = (
                None if blank is None else _prompt(self.problem["prompt"], self.program, function, blank)
            )
        return self._made[key]

    def _blanked(self, code: str, function: str, language: str) -> str | None:
        """A program in which one function's body does nothing; None where that cannot be made."""
        try:
            if self._last is None or self._last[0] != code:
                # The functions of a candidate follow each other, and taking it apart is most of the work.
                self._last = (code, None)
                self._last = (code, read(code, language))
            if (source := self._last[1]) is None:
                return None
            source.step(function)
            names = {definition.span.name for definition in source.definitions}
            return emptied(source, names - {function}, language)
        except AssayError:  # no program, no such function, or a language that cannot be taken apart
            return None

    def own(self, function: str) -> str | None:
        """The reference's own text of a function; None where the program has none."""
        if self.program is None:
            return None
        data = self.program["code"].encode()
        for span in self.program["functions"]:
            if span["name"] == function:
                return _whole_lines(data, span["start_byte"], span["end_byte"]) or None
        return None


def _prompt(statement: str, program: Mapping[str, Any], function: str, blank: str) -> str:
    longest = max((len(run) for run in re.findall("`{3,}", statement + blank)), default=2)
    fence = "`" * (longest + 1)
    return (
        f"{statement.rstrip()}\n\nIn this program the body of `{function}` is missing. Write that function "
        "in full, with its signature; all else stays as it is.\n\n"
        f"{fence}{program['language'].lower()}\n{blank.rstrip()}\n{fence}\n"
    )


def _alike(text: str) -> str:
    """What texts that differ in blank lines and in space at the ends of lines have in common."""
    return "\n".join(kept for line in text.splitlines() if (kept := line.rstrip()))


def _distinct(graded: Sequence[Graded], reasons: Counter[str]) -> list[Graded]:
    """The first of each text under its prompt, without those that have both labels."""
    labels: dict[tuple[str, str], set[bool]] = {}
    for one in graded:
        labels.setdefault((one.prompt, one.text), set()).add(one.label)
    seen: set[tuple[str, str, bool]] = set()
    kept = []
    for one in graded:
        key = (one.prompt, _alike(one.text), one.label)
        if len(labels[one.prompt, one.text]) > 1:
            reasons["contradictory"] += 1
        elif key in seen:
            reasons["duplicate"] += 1
        else:
            seen.add(key)
            kept.append(one)
    return kept


def _pairs(
    group: Sequence[Graded], own: str | None, most: int, draw: random.Random, reasons: Counter[str]
) -> list[tuple[Graded, Graded]]:
    """Pairs of a right and a wrong text under one prompt; texts that are in none are counted."""
    right, wrong = [one for one in group if one.label], [one for one in group if not one.label]
    if own is not None and wrong and _alike(own) not in {_alike(one.text) for one in group}:
        # Its tests are what the reference does, so it passes them.
        right.append(dataclasses.replace(wrong[0], text=own, label=True, candidate="", generator=REFERENCE))
    if not right or not wrong:
        reasons["no_counterpart"] += len(group)
        return []
    drawn = list(itertools.islice(_in_turn(right, wrong, draw), most))
    used = {id(one) for pair in drawn for one in pair}
    if left := sum(id(one) not in used for one in group):
        reasons["not_drawn"] += left
    return drawn


def _in_turn(
    right: Sequence[Graded], wrong: Sequence[Graded], draw: random.Random
) -> Iterator[tuple[Graded, Graded]]:
    """All pairs, those of one generator first, generators taking turns."""
    right, wrong = draw.sample(right, len(right)), draw.sample(wrong, len(wrong))
    makers = sorted({one.generator for one in right} & {one.generator for one in wrong})
    streams = [
        _crossed(
            [one for one in right if one.generator == made], [one for one in wrong if one.generator == made]
        )
        for made in draw.sample(makers, len(makers))
    ]
    for turn in itertools.zip_longest(*streams):
        yield from (pair for pair in turn if pair is not None)
    yield from (pair for pair in _crossed(right, wrong) if pair[0].generator != pair[1].generator)


def _crossed(right: Sequence[Graded], wrong: Sequence[Graded]) -> Iterator[tuple[Graded, Graded]]:
    """All pairs of two lists; at every point of it each list's members have been used alike often."""
    # One walk along both at once meets as many pairs as their least common multiple; a shift begins another.
    for shift in range(math.gcd(len(right), len(wrong))):
        for step in range(math.lcm(len(right), len(wrong))):
            yield right[step % len(right)], wrong[(step + shift) % len(wrong)]


def _kto(one: Graded, asked: Export) -> KtoExample:
    return KtoExample(
        prompt=one.prompt,
        completion=one.text,
        label=one.label,
        id=content_id(asked.level, asked.labels, one.prompt, one.text),
        candidate_id=one.candidate,
        function=one.function,
        labels=asked.labels,
        generator=one.generator,
        **one.evidence,
    )


def _dpo(right: Graded, wrong: Graded, asked: Export) -> DpoExample:
    names = ("problem_id", "program_id", "reason", "trust", "language", "source", "license", "split")
    return DpoExample(
        prompt=wrong.prompt,
        chosen=right.text,
        rejected=wrong.text,
        id=content_id(asked.level, asked.labels, wrong.prompt, right.text, wrong.text),
        chosen_id=right.candidate or None,
        rejected_id=wrong.candidate,
        function=wrong.function,
        labels=asked.labels,
        chosen_generator=right.generator,
        rejected_generator=wrong.generator,
        **{name: wrong.evidence[name] for name in names},
    )
