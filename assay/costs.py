"""What a stage is going to ask of models, for dry runs: how many calls, and what they cost.

In: a stage with the units that are not done. Out: facts and words for them. Nothing is asked.

Stages of commits make the very requests that they would send, so their forecast knows prompts and what is
answered already; for stages of programs, whose requests hang on what is run, a guess by rows has to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.recipe import Recipe
from assay.stages import Stage
from schemas.rundir import RunDir
from schemas.stage import Unit

# Tokens of a call, where a dry run has to guess: a statement with its program, and a program.
_TOKENS_IN, _TOKENS_OUT = 1000, 600


def expected(stage: Stage, run: RunDir, recipe: Recipe, units: Sequence[Unit]) -> dict[str, Any]:
    """What units of a stage may ask of models.

    Returns:
        `model` (name, or names joined by commas; null for none), `model_calls`, `model_cost_usd` (null where
        a price is not known), `model_cached` (answers that are there already) and `model_bound` (whether the
        number of calls is an upper bound only).
    """
    none = {"model": None, "model_calls": 0, "model_cached": 0, "model_cost_usd": 0.0, "model_bound": False}
    if stage.requests is not None:
        return {**none, **_forecast(stage, run, recipe, units)}
    model, each = (None, 0) if stage.asks is None else stage.asks(recipe)
    if model is None or not model.enabled or not each:
        return none
    from labelers.llm.prices import price_of

    calls = each * sum(unit.rows for unit in units)
    price = price_of(model)
    one = None if price is None else price.of(_TOKENS_IN, min(_TOKENS_OUT, model.max_tokens))
    cost = None if one is None else calls * one
    return {
        **none,
        "model": model.model,
        "model_calls": calls,
        "model_cost_usd": cost,
        "model_bound": True,
    }


def _forecast(stage: Stage, run: RunDir, recipe: Recipe, units: Sequence[Unit]) -> dict[str, Any]:
    from labelers.llm.forecast import forecast

    assert stage.requests is not None  # noqa: S101 (asked for by the caller)
    calls = cached = 0
    cost: float | None = 0.0
    names = []
    for model, requests in stage.requests(recipe, run.root, units):
        told = forecast(requests, model, run.root / "calls.sqlite")
        calls, cached = calls + told.calls, cached + told.cached
        cost = None if cost is None or told.cost_usd is None else cost + told.cost_usd
        names.append(model.model)
    return {
        "model": ", ".join(names) or None,
        "model_calls": calls,
        "model_cached": cached,
        "model_cost_usd": cost,
    }


def in_words(asked: dict[str, Any]) -> str:
    """The same for a person."""
    if not asked["model_calls"]:
        known = f", {asked['model_cached']:,} answers are there already" if asked["model_cached"] else ""
        return f"no model is called (cost 0){known}"
    cost = asked["model_cost_usd"]
    price = "its price is not known" if cost is None else f"about ${cost:,.4f}"
    bound = "at most " if asked["model_bound"] else ""
    known = f"; {asked['model_cached']:,} more are answered already" if asked["model_cached"] else ""
    return f"{bound}{asked['model_calls']:,} calls of {asked['model']} ({price}){known}"
