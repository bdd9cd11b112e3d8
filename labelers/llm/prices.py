"""What calls cost: prices of the config, else of litellm's own list, read without importing litellm.

In: a `ModelConfig`. Out: a `Price`, or None where it is not known. Wrong: nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

from labelers.llm.calls import Call
from labelers.llm.config import ModelConfig

_MESSAGE_TOKENS = 16
"""Most tokens that a chat template adds to a message."""


@dataclasses.dataclass(frozen=True)
class Price:
    """US dollars a token."""

    token_in: float
    token_out: float

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """What a call with so many tokens costs."""
        return tokens_in * self.token_in + tokens_out * self.token_out

    def times(self, share: float) -> Price:
        """So much of this price."""
        return Price(self.token_in * share, self.token_out * share)

    def most(self, call: Call) -> float:
        """What a call costs at most: a token has a byte or more, and an answer ends at its bound."""
        return self.of(most_tokens(call), call.max_tokens)


def most_tokens(call: Call) -> int:
    """Most tokens that a call's prompt can have."""
    schema = len(json.dumps(call.schema)) if call.schema else 0
    sizes = (len(message.content.encode()) + _MESSAGE_TOKENS for message in call.messages)
    return sum(sizes) + schema + _MESSAGE_TOKENS


def price_of(config: ModelConfig) -> Price | None:
    """The price of a model; None when nobody knows it. Local, replayed and rules' answers cost nothing."""
    if config.kind == "rules":
        return Price(0.0, 0.0)
    if config.price_in is not None and config.price_out is not None:
        return Price(config.price_in / 1e6, config.price_out / 1e6)
    if config.kind in ("local", "replay", ""):
        return Price(0.0, 0.0)
    if config.base_url:
        # A server of one's own may serve any model under a known name.
        return None
    listed = listing(config.model)
    if not isinstance(listed, dict):
        return None
    found = listed.get("input_cost_per_token"), listed.get("output_cost_per_token")
    if all(isinstance(value, int | float) for value in found):
        return Price(float(found[0] or 0), float(found[1] or 0))
    return None


def listing(model: str) -> Any:
    """What litellm's list says of a model; None where it is not on it.

    The list has many models of a provider without its name in front, though they are called by it.
    """
    found = _listed().get(model)
    provider, slash, name = model.partition("/")
    if found is None and slash:
        bare = _listed().get(name)
        found = bare if isinstance(bare, dict) and bare.get("litellm_provider") == provider else None
    return found


@functools.cache
def _listed() -> dict[str, Any]:
    package = importlib.util.find_spec("litellm")
    if package is None or package.origin is None:
        return {}
    try:
        text = (Path(package.origin).parent / "model_prices_and_context_window_backup.json").read_text()
        found = json.loads(text)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
