"""On-policy candidates: a model is asked to fill in skeletons.

In: programs with their problems. Out: `Completion`s, as the model wrote them, by program; the number of a
sample is part of what is asked, so that each is answered, cached and resumed by itself. The prompt is the
`prompt` column of the `steps` table, word for word: what is trained on is what was asked. An answer that is
empty or a refusal is a completion too: what the policy does is what is sampled.
Wrong: a request that no attempt could answer is left out and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from labelers.llm import Client, Message, Request
from labelers.programs.completions import Completion
from labelers.programs.suites import PROMPT, prompt_of
from labelers.prompts import version
from schemas.ids import rng

_SEEDS = 1 << 31


def complete(
    client: Client,
    asked: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    each: int,
    seed: int,
    counts: Counter[str] | None = None,
) -> dict[str, list[Completion]]:
    """Ask for `each` completions of every program.

    Args:
        asked: programs with their problems.
        counts: what became of the requests is added here.
    """
    requests, origins = [], []
    for program, problem in asked:
        message = Message("user", prompt_of(problem, program))
        draw = rng(seed, "policy", program["id"])
        for number in range(each):
            requests.append(Request((message,), seed=draw.randrange(_SEEDS), sample=number))
            origins.append((program, number))
    found: dict[str, list[Completion]] = {program["id"]: [] for program, _ in asked}
    for (program, number), request, reply in zip(origins, requests, client.ask(requests), strict=True):
        if counts is not None:
            counts["completions" if reply.answered else "completions_failed"] += 1
        if reply.answered:
            found[program["id"]].append(
                Completion(
                    problem=program["problem"],
                    text=reply.text,
                    model=reply.model,
                    temperature=client.config.temperature,
                    seed=request.seed,
                    detail=f"sample {number}, {reply.finish}",
                    prompt_version=version(PROMPT),
                )
            )
    return found
