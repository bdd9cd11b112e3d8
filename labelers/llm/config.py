"""Settings of a language model: who is asked, how it samples, and how much may be spent.

In: a table of a recipe. Out: a `ModelConfig`. Wrong: ValueError with what to set instead; what only several
settings together get wrong is told by `complaint`, since a command line gives them one after the other.
"""

from __future__ import annotations

import dataclasses
import math
import re
import urllib.parse
from typing import Any, Final, Literal

Backend = Literal["", "litellm", "openai", "local", "replay", "rules"]

RULES: Final = "rules"
"""Name of the backend and of the model that answer by the rules of whoever asks."""

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """A language model and how it is asked. Without `model` there is none, and nothing is asked.

    Attributes:
        backend: `openai` (any server that speaks OpenAI's chat completions), `litellm` (any provider that
            litellm knows), `local` (transformers on this machine), `replay` (recorded answers only), `rules`
            (no model: what a rule answers where a stage has one). Empty: `replay` where that is given,
            `openai` where `base_url` is, `rules` for the model of this name, else `litellm`.
        model: its name as the backend calls it; for `local` a folder or a Hub id. Answers are cached by it.
        base_url: address of the server, such as http://localhost:8000/v1; empty: the provider's own.
        api_key_env: environment variable that holds the key; never the key itself.
        temperature: sampling temperature of requests that give none; 0 takes the likeliest token.
        top_p: share of probability that tokens are drawn from.
        max_tokens: most tokens of an answer of requests that give no number.
        concurrency: requests under way at once in one process; for `local` the largest batch.
        requests_per_minute: requests begun in a minute by all processes of a run; 0 for no bound.
        missing: what becomes of requests that no attempt got an answer to, such as in an outage: `stop` when
            the others are answered, so that the same command asks them again, or `skip` them.
        timeout_s: seconds that one attempt may take.
        retries: further attempts after an answer that may get better (429, 5xx, timeout, lost connection).
        budget_usd: most that all answers of a run directory may cost, in US dollars; 0 for no bound.
        price_in: US dollars for a million tokens of prompts; not set: litellm's price list.
        price_out: the same for tokens of answers.
        batch: collect requests in batch files of OpenAI's format instead of sending them.
        batch_price: share of the price that an answer from a batch costs.
        replay: file of recorded calls, the `calls.sqlite` of another run.
        dtype: type of the weights of a local model.
        device: where a local model runs, such as `cpu` or `cuda`; empty: an accelerator if there is one.
    """

    backend: Backend = ""
    model: str = ""
    base_url: str = ""
    api_key_env: str = ""
    temperature: float = 0.7
    top_p: float = 1.0
    max_tokens: int = 4096
    concurrency: int = 16
    requests_per_minute: int = 0
    missing: Literal["stop", "skip"] = "stop"
    timeout_s: float = 120.0
    retries: int = 6
    budget_usd: float = 0.0
    price_in: float | None = None
    price_out: float | None = None
    batch: bool = False
    batch_price: float = 0.5
    replay: str = ""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = ""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("temperature", 0, 10),
            ("top_p", 0.001, 1),
            ("max_tokens", 1, 1 << 20),
            ("concurrency", 1, 1024),
            ("requests_per_minute", 0, 10_000_000),
            ("timeout_s", 0.1, 86400),
            ("retries", 0, 100),
            ("budget_usd", 0, 1e9),
            ("price_in", 0, 1e6),
            ("price_out", 0, 1e6),
            ("batch_price", 0, 1),
        ):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and low <= value <= high):
                raise ValueError(f"{name} must lie between {low:g} and {high:g}, not {value}")
        if self.backend not in ("", "litellm", "openai", "local", "replay", RULES):
            raise ValueError(f"backend must be litellm, openai, local, replay or rules, not {self.backend!r}")
        if self.base_url:
            _check_url(self.base_url)
        if self.api_key_env and not _VARIABLE.fullmatch(self.api_key_env):
            # Not repeated here: it may be the key.
            raise ValueError(
                "api_key_env must name an environment variable in capitals, such as OPENAI_API_KEY, "
                "not be the key itself"
            )

    def complaint(self) -> str | None:
        """What is wrong with the settings together; None when nothing is."""
        if self.enabled and not self.model:
            return "there is a backend, a server or a recording, but no model; set model to its name there"
        if (self.kind == "replay") != bool(self.replay):
            return "backend 'replay' and a replay file go together; set both or neither"
        if self.base_url and self.kind not in ("openai", "litellm", "replay"):
            return f"base_url is for servers, not for backend {self.kind!r}"
        if (self.price_in is None) != (self.price_out is None):
            return "price_in and price_out go together; set both or neither"
        if self.kind == RULES and self.model != RULES:
            return "backend 'rules' has no other model than rules; set model to it"
        if self.model == RULES and self.kind not in (RULES, "replay"):
            return "this name is that of the backend of rules; serve the model by another"
        if self.batch and self.kind not in ("openai", "litellm"):
            return f"batches are for servers and providers, not for backend {self.kind!r}"
        return None

    @property
    def kind(self) -> Backend:
        """The backend in use; empty when there is no model."""
        if self.backend:
            return self.backend
        if self.replay:
            return "replay"
        if self.base_url:
            return "openai"
        return RULES if self.model == RULES else "litellm" if self.model else ""

    @property
    def enabled(self) -> bool:
        """Whether there is a model to ask."""
        return self.kind != ""

    @property
    def ruled(self) -> bool:
        """Whether rules answer, or did in the recorded run."""
        return self.model == RULES and self.kind in (RULES, "replay")

    def key_settings(self) -> dict[str, Any]:
        """What may change an answer: it belongs into the keys of tasks that ask this model.

        Where the model is served, how fast and for how much does not: answers of a run are the same when its
        server moved, and a replayed run has the keys of the recorded one.
        """
        if not self.enabled:
            return {}
        if self.ruled:
            return {"model": self.model}
        return {
            "model": self.model,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
        }


def _check_url(url: str) -> None:
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or parts.query or parts.fragment:
        raise ValueError("base_url must be an address such as http://localhost:8000/v1")
    if parts.username or parts.password:
        raise ValueError("base_url must not hold a name or password; give the key with api_key_env")
