"""The system prompt of a pair: none, the pair's own criterion, it among some others, or all shuffled.

In: the criteria and the pair's own. Out: a kind and a text. Shares after the Themis paper, section 4.2
(15 / 65 / 20 by default), drawn by (seed, pair id). `render_system` makes the text wherever one is made, so
that who scores code by some criteria asks a model with the very bytes that it was trained on.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from labelers import prompts
from labelers.commits.config import BuildConfig
from labelers.commits.criteria import Criterion
from schemas.errors import AssayError
from schemas.ids import rng

LEAST_SEVERAL, MOST_SEVERAL = 2, 5
"""How many criteria a prompt of several names."""


def render_system(codes: Sequence[str], criteria: Sequence[Criterion]) -> str:
    """The system prompt that asks for judgement by these criteria, in this order.

    The same codes and criteria give the same bytes: no line ends with blanks, and the text not with a line
    feed. No codes give the empty text, which stands for no system prompt.

    Raises:
        AssayError: a code that no criterion has, or that stands twice.
    """
    return _rendered(tuple(codes), tuple(criteria))


@functools.lru_cache(maxsize=1024)
def _rendered(codes: tuple[str, ...], criteria: tuple[Criterion, ...]) -> str:
    known = {criterion.code: criterion for criterion in criteria}
    for code in codes:
        if code not in known:
            raise AssayError(f"criterion {code!r} is not known; there are {', '.join(known)}")
        if codes.count(code) > 1:
            raise AssayError(f"criterion {code!r} is named twice")
    if not codes:
        return ""
    # Criteria are a user's text: its own line breaks and blanks would be other bytes for the same words.
    shown = [
        {
            "name": " ".join(one.name.split()),
            "question": " ".join(one.question.split()),
            "points": [" ".join(point.split()) for point in one.points],
        }
        for one in (known[code] for code in codes)
    ]
    return prompts.render("system", criteria=shown)


def system_prompt(
    config: BuildConfig, criteria: Sequence[Criterion], own: Criterion, seed: int, pair_id: str
) -> tuple[str, str]:
    """(kind, text): kind is `none`, `all`, `several` or `single`; text is empty for `none`.

    `several` names the pair's own criterion among drawn ones, two to five in all; where there is no other
    criterion it is `single`.
    """
    draw = rng(seed, "system prompt", pair_id)
    u = draw.random()
    if u < config.system_none:
        return "none", ""
    codes = [criterion.code for criterion in criteria]
    if u < config.system_none + config.system_all:
        draw.shuffle(codes)
        return "all", render_system(codes, criteria)
    others = [code for code in codes if code != own.code]
    if u < config.system_none + config.system_all + config.system_several and others:
        many = draw.randint(LEAST_SEVERAL, min(MOST_SEVERAL, len(codes)))
        drawn = [own.code, *draw.sample(others, many - 1)]
        draw.shuffle(drawn)
        return "several", render_system(drawn, criteria)
    return "single", render_system([own.code], criteria)
