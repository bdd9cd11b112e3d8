"""The system prompt of a pair: none, the pair's own criterion, or all criteria in shuffled order.

Shares after the Themis paper, section 4.2 (15 / 65 / 20 by default), drawn by (seed, pair id).
"""

from __future__ import annotations

from collections.abc import Sequence

from labelers import prompts
from labelers.commits.config import BuildConfig
from labelers.commits.criteria import Criterion
from schemas.ids import rng


def system_prompt(
    config: BuildConfig, criteria: Sequence[Criterion], own: Criterion, seed: int, pair_id: str
) -> tuple[str, str]:
    """(kind, text): kind is `none`, `all` or `single`; text is empty for `none`."""
    draw = rng(seed, "system prompt", pair_id)
    u = draw.random()
    if u < config.system_none:
        return "none", ""
    if u < config.system_none + config.system_all:
        shuffled = list(criteria)
        draw.shuffle(shuffled)
        return "all", prompts.render("system", criteria=shuffled)
    return "single", prompts.render("system", criteria=[own])
