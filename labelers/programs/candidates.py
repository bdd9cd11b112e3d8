"""Candidates of a program: the reference, faults put into it, harmless rewrites, and what models wrote.

In: a `Program` row, and completions of its skeleton. Out: distinct `Candidate`s, the reference first,
completions last. `generator.model` says what made each: `reference`, `variant-1` (behaves like the
reference), `mutation-1` (one fault, or one in each of several functions), or the model. Which ones is drawn
by (seed, program), so it does not depend on other programs. A completion is kept as it was written; the
program in it is found by `labelers.programs.answers`.
Wrong: nothing of a completion's doing; a program that cannot be taken apart, which a `Program` row is
not, is a `Drop`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from decompose.functions import functions
from decompose.grammars import SourceError
from decompose.mutate import Edit, apply, describe, edits, higher_order
from decompose.variants import variants
from labelers.programs.answers import Asked, Found, find
from labelers.programs.completions import Completion
from labelers.programs.config import SampleConfig
from schemas.ids import content_id, rng
from schemas.records import Candidate, Generator
from schemas.stage import Drop, Keep, Outcome

REFERENCE = "reference"
VARIANT = "variant-1"
MUTATION = "mutation-1"

# A long program has more places for a fault than candidates could be drawn from.
_MAX_EDITS = 400
# Draws for each higher-order candidate: a small program has few combinations, some drawn again.
_TRIES = 20


def sample(
    program: Mapping[str, Any],
    config: SampleConfig,
    seed: int,
    prompt: str = "",
    completions: Sequence[Completion] = (),
) -> Outcome:
    """The candidates of one program.

    Args:
        prompt: the problem's prompt, for completions that go on from it.
        completions: what models wrote for the problem; what one model wrote more than once is there once.
    """
    try:
        made = list(_candidates(program, config, seed))
    except SourceError as error:
        return Drop(program["id"], "syntax_error", str(error)[:500])
    asked = Asked.of(program, prompt)
    seen: set[tuple[str, str]] = set()
    for one in completions:
        if (one.model, one.text) not in seen:
            seen.add((one.model, one.text))
            generator = Generator(
                model=one.model,
                temperature=one.temperature,
                seed=one.seed,
                detail=one.detail,
                prompt_version=one.prompt_version,
            )
            made.append(_candidate(program, one.text, generator, find(one.text, asked)))
    return Keep(tuple(made))


def faults(outcome: Outcome) -> Counter[str]:
    """How many of a program's candidates are no answer, by `fault_` and their fault."""
    records = outcome.records if isinstance(outcome, Keep) else ()
    return Counter(f"fault_{one.fault}" for one in records if one.fault is not None)


def _candidates(program: Mapping[str, Any], config: SampleConfig, seed: int) -> Iterator[Candidate]:
    code, draw = program["code"], rng(seed, "sample", program["id"])

    def candidate(text: str, model: str, detail: str | None) -> Candidate:
        generator = Generator(model=model, temperature=None, seed=seed, detail=detail, prompt_version=None)
        return _candidate(program, text, generator)

    yield candidate(code, REFERENCE, None)
    wanted = config.candidates - 1
    seen = {code}
    possible = edits(code, limit=_MAX_EDITS, rng=draw, language=program["language"])
    harmless = variants(code, program["language"])
    draw.shuffle(harmless)
    streams = {
        VARIANT: ((one.code, one.detail) for one in harmless),
        "higher": _higher(code, possible, config, draw),
        MUTATION: _first(code, possible, draw),
    }
    some = round(wanted * config.variant_share)
    several = round(wanted * config.higher_order_share)
    quotas = [(VARIANT, some), ("higher", several), (MUTATION, wanted - some - several)]
    made = 0
    # What one kind cannot give, single faults and then combined ones make up for.
    for kind, quota in (*quotas, (MUTATION, wanted), ("higher", wanted)):
        given = 0
        while given < quota and made < wanted and (drawn := next(streams[kind], None)) is not None:
            text, detail = drawn
            if text not in seen and _is_program(text, program["language"]):
                seen.add(text)
                yield candidate(text, VARIANT if kind == VARIANT else MUTATION, detail)
                given, made = given + 1, made + 1


def _first(code: str, possible: Sequence[Edit], draw: random.Random) -> Iterator[tuple[str, str]]:
    """Single faults, each once, functions taking turns: every function goes wrong in some candidate."""
    by_function: dict[str, list[Edit]] = {}
    for edit in possible:
        by_function.setdefault(edit.function, []).append(edit)
    names = sorted(by_function)
    draw.shuffle(names)
    for name in names:
        draw.shuffle(by_function[name])
    while any(by_function.values()):
        for name in names:
            if by_function[name]:
                edit = by_function[name].pop()
                yield apply(code, [edit]), describe([edit])


def _higher(
    code: str, possible: Sequence[Edit], config: SampleConfig, draw: random.Random
) -> Iterator[tuple[str, str]]:
    """Programs with a fault in each of two or more functions."""
    most = min(config.max_order, len({edit.function for edit in possible}))
    for _ in range(_TRIES * config.candidates if most >= 2 else 0):
        chosen = higher_order(possible, draw.randint(2, most), draw)
        yield apply(code, chosen), describe(chosen)


def _is_program(code: str, language: str) -> bool:
    try:
        functions(code, language)
    except SourceError:
        return False
    return True


def _candidate(
    program: Mapping[str, Any], completion: str, generator: Generator, found: Found | None = None
) -> Candidate:
    part = found is not None and found.program != completion
    return Candidate(
        id=content_id(program["id"], completion, *([generator.model] if found else [])),
        problem_id=program["problem_id"],
        program_id=program["id"],
        completion=completion,
        program=found.program if found is not None and part else None,
        pieces=list(found.pieces) if found is not None and part else [],
        fault=None if found is None else found.fault,
        generator=generator,
    )
