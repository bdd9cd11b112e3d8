"""What the readers of preference sets share: a row's fields become pairs, or a `BadRow` says why not.

A pair of which the answers are the same, empty, too long or rated the same is refused. Its texts are kept as
they are. What a row says of itself (source, id, language, aspect, split) goes before the settings.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from miner.config import PreferencesConfig
from miner.importers.chats import Turn, asked
from miner.importers.fields import BadRow, Row
from miner.importers.making import short_text
from miner.importers.preferences_names import (
    PROSE,
    fenced_language,
    name_of,
    spelled_aspect,
    spelled_language,
)
from schemas.answers import evidence_of_answers
from schemas.ids import content_id, rng, split_of
from schemas.records import ImportedPair, Measure

T = TypeVar("T")

_TRAIN = re.compile(r"train", re.IGNORECASE)
_TEST = re.compile(r"test|valid|dev(?![a-z])|eval|held.?out", re.IGNORECASE)
_LONGEST_LABEL = 1000

MOST_ANSWERS = 64
"""Answers of one prompt that are compared; a row with more is none of a published set."""


@dataclasses.dataclass(frozen=True)
class PairReading:
    """What a row is read with.

    Attributes:
        source: file or dataset that it comes from.
        config: settings.
        seed: root of the draws of pairs and splits.
        split: name of the dataset's split; empty where none is given.
    """

    source: str
    config: PreferencesConfig
    seed: int = 0
    split: str = ""

    @property
    def name(self) -> str:
        """What the set is called."""
        return self.config.name or self.source


@dataclasses.dataclass(frozen=True)
class Told:
    """What a row says of its pairs.

    Attributes:
        source: where they come from.
        published_id: the row's id; None when it has none.
        language: programming language in our spelling, or None.
        aspect: aspect in our spelling, or None.
        split: the name of its split, or None.
        benchmark: the set is one that models are measured by.
    """

    source: str
    published_id: str | None
    language: str | None
    aspect: str | None
    split: str | None
    benchmark: bool = False


@dataclasses.dataclass(frozen=True)
class Margin:
    """How much better one answer is rated.

    Attributes:
        value: rating of the better one less that of the other.
        scale: the largest difference that the set's scale has.
        measures: the ratings themselves.
    """

    value: float
    scale: float
    measures: tuple[tuple[str, float, float], ...] = ()

    def confidence(self) -> float:
        """0.5 for no difference to 1 for the largest; no estimate from data."""
        return 0.5 + 0.5 * min(1.0, self.value / self.scale)


def told_by(
    row: Row,
    by: PairReading,
    ids: Sequence[str] = ("id", "idx"),
    *,
    benchmark: bool = False,
    code: bool = False,
) -> Told:
    """What a row says of its pairs; `code` when any language that it names is one of programs.

    Raises:
        BadRow: one of these fields is no text, or a number that nothing explains.
    """
    told = name_of(row.get("language"), by.config.language_names, "language")
    language = None if told is None else spelled_language(told) or (told if code else None)
    aspect = name_of(row.get("aspect"), by.config.aspect_names, "aspect")
    return Told(
        source=label(row, "source") or by.name,
        published_id=next((found for name in ids if (found := label(row, name)) is not None), None),
        language=language,
        aspect=None if aspect is None else spelled_aspect(aspect),
        split=label(row, "split"),
        benchmark=benchmark,
    )


def label(row: Row, field: str) -> str | None:
    """A field that names something: text or a whole number; None when it is missing, null or empty.

    Raises:
        BadRow: it is neither, or much too long for a name.
    """
    found = short_text(row, field)
    if found is not None and len(found) > _LONGEST_LABEL:
        raise BadRow("bad_field", f"{field}: longer than {_LONGEST_LABEL} characters")
    return found


def number(value: Any, field: str) -> float | None:
    """A score; None for null.

    Raises:
        BadRow: it is no number, or not a finite one.
    """
    if value is None:
        return None
    # A whole number may be larger than any float, so that it is compared before it becomes one.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e300 <= value <= 1e300:
        raise BadRow("bad_field", f"{field}: expected a finite number")
    return float(value)


def pair(
    by: PairReading,
    told: Told,
    *,
    system: str,
    prompt: str,
    chosen: str,
    rejected: str,
    margin: Margin | None = None,
    detail: str | None = None,
) -> ImportedPair:
    """The record.

    Raises:
        BadRow: it says no preference, or is too long.
    """
    _check(by.config, system, prompt, chosen, rejected)
    if margin is not None:
        check_margin(by.config, margin)
    aspect = told.aspect or by.config.aspect
    parts = [part for part in (told.published_id, detail) if part]
    return ImportedPair(
        system=system,
        input=prompt,
        chosen=chosen,
        rejected=rejected,
        language=told.language or (fenced_language(chosen) if by.config.fences else None) or PROSE,
        aspect=aspect,
        source=told.source,
        idx=content_id("preference", told.source, system, prompt, chosen, rejected, aspect),
        repo=None,
        commit=None,
        path=None,
        license=by.config.license or None,
        evidence=evidence_of_answers(
            labeler=by.name,
            method="published",
            confidence=1.0 if margin is None else margin.confidence(),
            instruction_by=by.name,
            system_kind="given" if system else "none",
            measures=[
                Measure(name=name, old=worse, new=better, tool=by.name)
                for name, better, worse in (() if margin is None else margin.measures)
            ],
            detail=": ".join(parts) or None,
        ),
        split=split_for(by, told, prompt),
    )


def _check(config: PreferencesConfig, system: str, prompt: str, chosen: str, rejected: str) -> None:
    for name, text in (("system", system), ("prompt", prompt), ("chosen", chosen), ("rejected", rejected)):
        # No text has fewer bytes than characters.
        if len(text) > config.max_text_bytes or len(text.encode()) > config.max_text_bytes:
            raise BadRow("too_long", f"{name}: more than {config.max_text_bytes} bytes")
    if not prompt.strip():
        raise BadRow("empty_prompt", "nothing was asked")
    for name, text in (("chosen", chosen), ("rejected", rejected)):
        if not text.strip():
            raise BadRow("empty_answer", f"{name}: empty")
    if chosen.strip() == rejected.strip():
        raise BadRow("same_answers", "chosen and rejected are the same text")


def check_margin(config: PreferencesConfig, margin: Margin) -> None:
    """Refuse a margin that tells no preference, or too little of one.

    Raises:
        BadRow: `tie`, `contradiction` or `small_margin`.
    """
    if margin.value == 0:
        raise BadRow("tie", "both answers are rated the same")
    if margin.value < 0:
        raise BadRow("contradiction", f"the rejected answer is rated higher by {-margin.value:g}")
    if margin.value < config.min_margin:
        raise BadRow("small_margin", f"rated higher by {margin.value:g}, less than {config.min_margin:g}")


def split_for(by: PairReading, told: Told, prompt: str) -> str:
    """`train` or `test`. What is drawn is drawn by the prompt, so that no prompt is in both."""
    setting = by.config.split
    if setting in ("train", "test"):
        return setting
    if setting == "auto":
        for name in (told.split, by.split):
            if name and _TEST.search(name):
                return "test"
            if name and _TRAIN.search(name):
                return "train"
        if told.benchmark:
            return "test"
    return split_of(by.seed, content_id("prompt", prompt), by.config.test_share)


def of_turns(
    by: PairReading,
    told: Told,
    before: Sequence[Turn],
    chosen: str,
    rejected: str,
    *,
    system: str = "",
    margin: Margin | None = None,
    detail: str | None = None,
) -> ImportedPair:
    """The record of a conversation and its two answers; see `pair`."""
    said, prompt = asked(before)
    return pair(
        by,
        told,
        system="\n\n".join(part for part in (system, said) if part),
        prompt=prompt,
        chosen=chosen,
        rejected=rejected,
        margin=margin,
        detail=detail,
    )


@dataclasses.dataclass(frozen=True)
class Answer:
    """One of several answers to a prompt.

    Attributes:
        text: it.
        place: which it is, for a person.
        score: how it is rated; None when it is not.
    """

    text: str
    place: str
    score: float | None


def ranked(
    by: PairReading, answers: Sequence[Answer], name: str, scale: float
) -> list[tuple[Answer, Answer, Margin]]:
    """(better, worse, margin) of rated answers: the best with the worst, or all that differ by enough.

    Raises:
        BadRow: fewer than two are rated, or no two differ by enough.
    """
    rated = [(one.score, one) for one in answers if one.score is not None]
    if len(rated) < 2:
        raise BadRow("no_counterpart", f"{len(rated)} of {len(answers)} answers have a score {name}")

    def compared(better: tuple[float, Answer], worse: tuple[float, Answer]) -> tuple[Answer, Answer, Margin]:
        return (
            better[1],
            worse[1],
            Margin(better[0] - worse[0], scale, ((name, better[0], worse[0]),)),
        )

    best = compared(max(rated, key=lambda one: one[0]), min(rated, key=lambda one: one[0]))
    check_margin(by.config, best[2])
    if by.config.answers == "one":
        return [best]
    found = [
        compared(one, other)
        for one, other in itertools.permutations(rated, 2)
        if one[0] > other[0] and one[0] - other[0] >= by.config.min_margin
    ]
    return drawn(by, found, content_id(*(one.text for one in answers)))


def drawn(by: PairReading, found: Sequence[T], of: str) -> list[T]:
    """At most `max_pairs` of the pairs of something, in their order: a draw where there are more."""
    if len(found) <= by.config.max_pairs:
        return list(found)
    draw = rng(by.seed, "preference pairs", of)
    return [found[at] for at in sorted(draw.sample(range(len(found)), by.config.max_pairs))]


def all_good(makers: Sequence[Callable[[], ImportedPair]]) -> list[ImportedPair]:
    """The pairs of a row that can be made, each once.

    Raises:
        BadRow: there is none; tells what is wrong with the first.
    """
    found: dict[str, ImportedPair] = {}
    wrong: BadRow | None = None
    for make in makers:
        try:
            made = make()
        except BadRow as bad:
            wrong = wrong or bad
            continue
        found.setdefault(made.idx, made)
    if not found:
        raise wrong or BadRow("no_counterpart", "there are no two answers")
    return list(found.values())


def answers_of(value: Any, field: str) -> list[Any]:
    """A list of answers.

    Raises:
        BadRow: it is no list, or one of more than `MOST_ANSWERS`.
    """
    if not isinstance(value, list):
        raise BadRow("bad_field", f"{field}: expected a list")
    if len(value) > MOST_ANSWERS:
        raise BadRow("bad_field", f"{field}: more than {MOST_ANSWERS} answers")
    return value
