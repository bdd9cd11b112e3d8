"""The formats of preference sets: Themis and its benchmark, chats, rated answers, plain texts.

Each function here reads one row of one format into its pairs; what is wrong with a row is a `BadRow`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any

from miner.importers.chats import Turn, answer_of, asked, is_messages, prompt_turns, transcript, turns
from miner.importers.fields import BadRow, Row, optional_text, text_field, text_value
from miner.importers.preferences_making import (
    Answer,
    Margin,
    PairReading,
    Told,
    all_good,
    answers_of,
    drawn,
    label,
    number,
    of_turns,
    pair,
    ranked,
    told_by,
)
from miner.importers.preferences_names import spelled_language
from miner.spdx import normalize
from schemas.declare import validate
from schemas.errors import RowError
from schemas.ids import content_id
from schemas.records import Bearing, CriterionScore, ImportedPair, Measure, PairEvidence, VoteCount

Pairs = list[ImportedPair]

_LIKERT = 4.0
"""Largest difference on a scale of five steps: HelpSteer's 0 to 4, UltraFeedback's ratings of 1 to 5."""
_OVERALL = 9.0
"""Largest difference of UltraFeedback's overall score of 1 to 10."""
_STRENGTH = 3
"""Strongest preference of HelpSteer: much better."""
SCORES = (
    ("score_chosen", "score_rejected", _OVERALL),
    ("chosen-rating", "rejected-rating", _LIKERT),
    ("chosen_rating", "rejected_rating", _LIKERT),
)
"""Fields of the scores of chosen and rejected, and their scale."""
_HUMANEVAL_PACK = re.compile(r"hep-([a-z]+)")
_SAFETY = re.compile(r"refusals-.*|xstest-should-refuse|donotanswer|safety", re.IGNORECASE)


def own(row: Row, by: PairReading) -> Pairs:
    """Shards of `pairs`, of a run or as pushed: with the evidence, the origin and the id that they have.

    Raises:
        BadRow: see the module.
    """
    made = themis(row, by)[0]
    license_id = by.config.license or label(row, "license")
    evidence = made.evidence if row.get("evidence") is None else _evidence(row["evidence"])
    return [
        dataclasses.replace(
            made,
            idx=label(row, "idx") or made.idx,
            repo=optional_text(row, "repo"),
            commit=optional_text(row, "commit"),
            path=optional_text(row, "path"),
            license=license_id,
            evidence=evidence,
        )
    ]


def _evidence(value: Any) -> PairEvidence:
    try:
        validate(PairEvidence, value, "evidence")
    except RowError as error:
        raise BadRow("bad_field", str(error)[:200]) from None
    number(value["confidence"], "evidence.confidence")
    nested = {"scores": CriterionScore, "measures": Measure, "bearings": Bearing, "votes": VoteCount}
    return PairEvidence(
        **value | {name: [kind(**one) for one in value[name]] for name, kind in nested.items()}
    )


def themis(row: Row, by: PairReading) -> Pairs:
    """Themis-CodePreference and Themis-GeneralPreference.

    Raises:
        BadRow: see the module.
    """
    return [
        pair(
            by,
            told_by(row, by, ("idx",), code=True),
            system=optional_text(row, "system") or "",
            prompt=text_field(row, "input", empty=True),
            chosen=text_field(row, "chosen", empty=True),
            rejected=text_field(row, "rejected", empty=True),
            margin=_margin(row),
        )
    ]


def coderewardbench(row: Row, by: PairReading) -> Pairs:
    """Themis-CodeRewardBench, whose subset is the source.

    Raises:
        BadRow: see the module.
    """
    told = told_by(row, by, ("id",), benchmark=True, code=True)
    return [_of_texts(row, by, dataclasses.replace(told, source=label(row, "subset") or told.source))]


def _of_texts(row: Row, by: PairReading, told: Told) -> ImportedPair:
    return of_turns(
        by,
        told,
        _prompt(row),
        text_field(row, "chosen", empty=True),
        text_field(row, "rejected", empty=True),
        system=optional_text(row, "system") or "",
        margin=_margin(row),
    )


def _prompt(row: Row) -> list[Turn]:
    """What was asked: a field `prompt`, `instruction`, `question` or `input`, of text or messages."""
    for field in ("prompt", "instruction", "question", "input"):
        if row.get(field) is not None:
            if is_messages(row[field]):
                return turns(row[field], field)
            return prompt_turns(text_value(row[field], field, empty=True))
    raise BadRow("bad_field", "prompt: missing")


def _margin(row: Row) -> Margin | None:
    """How much higher the chosen answer is rated; None where one of both has no score."""
    for chosen, rejected, scale in SCORES:
        better, worse = number(row.get(chosen), chosen), number(row.get(rejected), rejected)
        if better is not None and worse is not None:
            return Margin(better - worse, scale, ((chosen.replace("chosen", "").strip("-_"), better, worse),))
    return None


def plain(row: Row, by: PairReading) -> Pairs:
    """Texts of prompt, chosen and rejected, with the columns of a pair beside them where they are there.

    Raises:
        BadRow: see the module.
    """
    made = _of_texts(row, by, told_by(row, by, ("id", "idx", "prompt_id"), code=True))
    told = label(row, "license")
    if told is None or by.config.license:
        return [made]
    if (found := normalize(told)) is None:
        raise BadRow("bad_field", f"license: {told[:40]!r} is no SPDX id")
    return [dataclasses.replace(made, license=found)]


def rewardbench(row: Row, by: PairReading) -> Pairs:
    """RewardBench. Its subsets tell the language of HumanEvalPack's answers, and the aspect of some.

    Raises:
        BadRow: see the module.
    """
    return [_of_texts(row, by, _told_by_subset(row, by))]


def _told_by_subset(row: Row, by: PairReading) -> Told:
    told = told_by(row, by, benchmark=True)
    subset = label(row, "subset") or label(row, "domain")
    if subset is None:
        return told
    changed = dataclasses.replace(told, source=subset)
    if (code := _HUMANEVAL_PACK.fullmatch(subset)) is not None:
        language = told.language or spelled_language(code[1])
        return dataclasses.replace(changed, language=language, aspect=told.aspect or "Functional Correctness")
    if _SAFETY.fullmatch(subset) is not None:
        return dataclasses.replace(changed, aspect=told.aspect or "Harmlessness")
    return changed


def rewardbench2(row: Row, by: PairReading) -> Pairs:
    """RewardBench 2 and RM-Bench, which have lists of chosen and of rejected answers.

    Raises:
        BadRow: see the module.
    """
    told, before = _told_by_subset(row, by), _prompt(row)
    chosen, rejected = (answers_of(row.get(field), field) for field in ("chosen", "rejected"))
    couples = list(itertools.product(enumerate(chosen), enumerate(rejected)))
    if by.config.answers == "one":
        couples = couples[:1]

    def make(one: tuple[int, Any], other: tuple[int, Any]) -> ImportedPair:
        places = f"chosen[{one[0]}]", f"rejected[{other[0]}]"
        better, worse = (
            text_value(answer[1], place, empty=True)
            for answer, place in zip((one, other), places, strict=True)
        )
        return of_turns(by, told, before, better, worse, detail=" and ".join(places))

    kept = drawn(by, couples, content_id(*asked(before)))
    return all_good([functools.partial(make, one, other) for one, other in kept])


def chats(row: Row, by: PairReading) -> Pairs:
    """Skywork-Reward-Preference, the preference mixes of Tulu 3 and UltraFeedback binarized: both sides are
    lists of messages, whole conversations or answers to `prompt`.

    Raises:
        BadRow: see the module.
    """
    told = told_by(row, by, ("id", "prompt_id", "idx"))
    sides = []
    for field in ("chosen", "rejected"):
        before, answer = answer_of(turns(row.get(field), field), field)
        if not any(turn.role == "user" for turn in before):
            before = [*_prompt(row), *before]
        sides.append((before, answer))
    (before, chosen), (other, rejected) = sides
    _same(before, other)
    system = optional_text(row, "system") or ""
    return [of_turns(by, told, before, chosen, rejected, system=system, margin=_margin(row))]


def _same(before: Sequence[Turn], other: Sequence[Turn]) -> None:
    if before != other:
        raise BadRow("different_prompts", "the conversations differ before their last messages")


def transcripts(row: Row, by: PairReading) -> Pairs:
    """HH-RLHF: both sides are transcripts in one text, of lines that begin with `Human:` and `Assistant:`.

    Raises:
        BadRow: see the module.
    """
    sides = []
    for field in ("chosen", "rejected"):
        found = transcript(text_field(row, field, empty=True))
        if found is None:
            raise BadRow("bad_field", f"{field}: does not begin with Human: or Assistant:")
        sides.append(answer_of(found, field))
    (before, chosen), (other, rejected) = sides
    _same(before, other)
    return [of_turns(by, told_by(row, by), before, chosen, rejected, margin=_margin(row))]


def helpsteer_preference(row: Row, by: PairReading) -> Pairs:
    """HelpSteer2-Preference and HelpSteer3-Preference: two responses, and which is how much better.

    Raises:
        BadRow: see the module.
    """
    field = "overall_preference" if "overall_preference" in row else "preference_strength"
    strength = number(row.get(field), field)
    if strength is None or abs(strength) > _STRENGTH:
        raise BadRow("bad_field", f"{field}: expected a number from -{_STRENGTH} to {_STRENGTH}")
    before = turns(row["context"], "context") if row.get("context") is not None else _prompt(row)
    first, second = (
        text_field(row, f"response{n}" if f"response{n}" in row else f"response_{n}", empty=True)
        for n in (1, 2)
    )
    chosen, rejected = (first, second) if strength < 0 else (second, first)
    told = told_by(row, by, code=row.get("domain") == "code")
    return [of_turns(by, told, before, chosen, rejected, margin=Margin(abs(strength), _STRENGTH))]


def helpsteer(row: Row, by: PairReading) -> Pairs:
    """HelpSteer and HelpSteer2: a response a row, with ratings; here the rows of one prompt as a group.

    Raises:
        BadRow: see the module.
    """
    group = answers_of(row.get("group", [row]), "group")
    if not all(isinstance(one, dict) for one in group):
        raise BadRow("bad_field", "group: expected rows")
    name = "helpfulness" if by.config.score == "auto" else by.config.score
    answers = [
        Answer(text_field(one, "response", empty=True), f"response {at}", _rating_of(one, name))
        for at, one in enumerate(group, 1)
    ]
    first = group[0]
    return _of_rated(by, told_by(first, by), _prompt(first), ranked(by, answers, name, _LIKERT))


_RATED = ("helpfulness", "correctness", "coherence")


def _rating_of(row: Row, name: str) -> float | None:
    if name != "mean":
        return number(row.get(name), name)
    found = [score for one in _RATED if (score := number(row.get(one), one)) is not None]
    return sum(found) / len(found) if found else None


def _of_rated(
    by: PairReading, told: Told, before: Sequence[Turn], found: Sequence[tuple[Answer, Answer, Margin]]
) -> Pairs:
    def make(better: Answer, worse: Answer, margin: Margin) -> ImportedPair:
        detail = f"{better.place} and {worse.place}"
        return of_turns(by, told, before, better.text, worse.text, margin=margin, detail=detail)

    return all_good([functools.partial(make, *one) for one in found])


def ultrafeedback(row: Row, by: PairReading) -> Pairs:
    """UltraFeedback as it was rated: an instruction and completions with ratings by aspect and overall.

    Raises:
        BadRow: see the module.
    """
    completions = answers_of(row.get("completions"), "completions")
    for at, one in enumerate(completions):
        if not isinstance(one, dict):
            raise BadRow("bad_field", f"completions[{at}]: expected an object")
    name = "mean" if by.config.score == "auto" else by.config.score
    answers = [
        Answer(
            text_field(one, "response", empty=True),
            f"completion {at}" + (f" ({model})" if (model := label(one, "model")) else ""),
            _completion_score(one, name),
        )
        for at, one in enumerate(completions)
    ]
    found = ranked(by, answers, name, _OVERALL if name == "overall" else _LIKERT)
    return _of_rated(by, told_by(row, by), _prompt(row), found)


def _completion_score(completion: Row, name: str) -> float | None:
    if name == "overall":
        return number(completion.get("overall_score"), "overall_score")
    annotations = completion.get("annotations")
    if not isinstance(annotations, dict):
        return None
    if name != "mean":
        return _rating(annotations.get(name), name)
    found = [score for one in annotations if (score := _rating(annotations[one], str(one)[:40])) is not None]
    return sum(found) / len(found) if found else None


def _rating(annotation: Any, name: str) -> float | None:
    """A rating, which is published as text such as `4`; None for `N/A` and where there is none."""
    told = annotation.get("Rating") if isinstance(annotation, dict) else None
    if isinstance(told, str):
        return float(told) if re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,3})?", told.strip(), re.ASCII) else None
    return number(told, f"{name}.Rating")
