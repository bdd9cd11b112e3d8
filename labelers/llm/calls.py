"""What is asked of a model and what comes back: plain records, and the hashes that they are known by.

In: messages and parameters. Out: `Request`, `Reply`, and what a run has spent (`Account`).
Wrong: a failed request is a `Reply` with `error`; what no other request would escape is a `ModelFault`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Literal

from labelers.llm.config import ModelConfig
from schemas.errors import Deferred, EnvironmentFault
from schemas.ids import content_id, digest_json

Role = Literal["system", "user", "assistant"]

UNAVAILABLE = "unavailable"
"""`Reply.finish` of a request that another attempt may still get an answer to."""
WAITING = "waiting"
"""`Reply.finish` of a request that waits for a batch to be sent and answered."""


class ModelFault(EnvironmentFault):
    """No request would do better: wrong key, unknown model, no server. Answers so far are kept."""


class BudgetSpent(EnvironmentFault):
    """The next call might pass the budget. Answers are kept; a run with more budget goes on from them."""


class BatchWaiting(Deferred):
    """Requests wait for a batch: the same command goes on when it is answered."""


@dataclasses.dataclass(frozen=True)
class Message:
    """One message. Lone surrogates, which no server takes, become question marks."""

    role: Role
    content: str

    def __post_init__(self) -> None:
        if self.role not in ("system", "user", "assistant"):
            raise ValueError(f"a message's role must be system, user or assistant, not {self.role!r}")
        clean = self.content.encode("utf-8", "replace").decode()
        object.__setattr__(self, "content", clean)


@dataclasses.dataclass(frozen=True)
class Request:
    """One sample to ask for.

    Attributes:
        messages: the conversation, oldest first.
        temperature: None for the config's.
        max_tokens: most tokens of the answer; None for the config's.
        seed: given to the model's sampler where it has one.
        sample: number of the sample: requests that differ in nothing else are answered separately.
        schema: JSON schema that the answer must fit; None for text.
        stop: texts before which the answer ends.
        rule: what a rule answers, where its asker has one: JSON for requests with a schema. Only backend
            `rules` looks at it.
        kind: what sort of request it is, such as its prompt's name and version. It changes no answer: what
            one of its kind costs is learnt by it.
        expected_tokens: tokens of an answer of this kind, as far as the asker can tell; None where it cannot.
    """

    messages: tuple[Message, ...]
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int = 0
    sample: int = 0
    schema: Mapping[str, Any] | None = None
    stop: tuple[str, ...] = ()
    rule: str | None = None
    kind: str = ""
    expected_tokens: int | None = None

    def __post_init__(self) -> None:
        if not self.messages:
            raise ValueError("a request needs a message")
        if self.temperature is not None and not 0 <= self.temperature <= 10:
            raise ValueError(f"temperature must lie between 0 and 10, not {self.temperature}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens must be 1 or more, not {self.max_tokens}")
        if not 0 <= self.seed < 1 << 63 or self.sample < 0:
            raise ValueError("seed and sample must be whole numbers from 0 on")
        if self.expected_tokens is not None and self.expected_tokens < 0:
            raise ValueError(f"expected_tokens must be 0 or more, not {self.expected_tokens}")
        if self.rule is not None:
            object.__setattr__(self, "rule", self.rule.encode("utf-8", "replace").decode())


@dataclasses.dataclass(frozen=True)
class Call:
    """A request with every parameter settled, as a backend gets it."""

    model: str
    messages: tuple[Message, ...]
    temperature: float
    top_p: float
    max_tokens: int
    seed: int
    sample: int
    schema: Mapping[str, Any] | None
    stop: tuple[str, ...]
    rule: str | None = None
    kind: str = ""

    @classmethod
    def of(cls, request: Request, config: ModelConfig) -> Call:
        """A request with the config's values where it gives none."""
        return cls(
            config.model,
            request.messages,
            config.temperature if request.temperature is None else request.temperature,
            config.top_p,
            request.max_tokens or config.max_tokens,
            request.seed,
            request.sample,
            request.schema,
            request.stop,
            request.rule if config.ruled else None,
            request.kind,
        )

    def message_rows(self) -> list[dict[str, str]]:
        """The messages as JSON."""
        return [{"role": message.role, "content": message.content} for message in self.messages]

    @functools.cached_property
    def prompt_hash(self) -> str:
        """Hash of what is asked: messages and schema."""
        return digest_json([self.message_rows(), self.schema])

    @functools.cached_property
    def hash(self) -> str:
        """Hash of all that may change the answer, as far as the model's name tells its weights."""
        parts = {
            "model": self.model,
            "prompt": self.prompt_hash,
            "parameters": [float(self.temperature), float(self.top_p), self.max_tokens, list(self.stop)],
            "draw": [self.seed, self.sample],
        }
        return digest_json(parts if self.rule is None else {**parts, "rule": self.rule})

    def key(self, identity: str = "") -> str:
        """What an answer is kept by.

        Args:
            identity: of the weights, where the name alone does not tell them.
        """
        return content_id(self.hash, identity) if identity else self.hash


@dataclasses.dataclass(frozen=True)
class Reply:
    """What became of one request.

    Attributes:
        text: the answer; empty when there is none.
        finish: why it ended: `stop`, `length`, `refusal`, or as the server says; without an answer
            `unavailable` where another attempt may get one, `no_rule` where no rule answers, `waiting` where
            it waits for a batch, else empty.
        parsed: for a request with a schema, the value that fits it.
        error: why there is no answer, or none that is of use: it is empty, a refusal, or does not fit the
            schema; None when all is well.
        answered: the model's own answer came, of use or not; an answer that its server held back is none.
        tokens_in: tokens of the prompt, a repair included.
        tokens_out: tokens of the answer.
        cost_usd: what it cost when it was asked; None when the price is not known.
        seconds: how long it took when it was asked.
        cached: nothing had to be asked for it now.
        model: the model as its server names it.
        prompt_hash: hash of messages and schema.
    """

    text: str = ""
    finish: str = ""
    parsed: Any = None
    error: str | None = None
    answered: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    cached: bool = False
    model: str = ""
    prompt_hash: str = ""


@dataclasses.dataclass
class Account:
    """What was asked and spent.

    Attributes:
        calls: answers that were asked for.
        cached: answers that were there already, or being asked for.
        failed: requests without an answer.
        waiting: requests that wait for a batch.
        retries: attempts after the first.
        repairs: answers that did not fit their schema and were asked for again.
        tokens_in: tokens of prompts.
        tokens_out: tokens of answers.
        cost_usd: cost of the answers, as far as prices are known.
        lost_usd: at most this was spent on attempts whose answer never came.
    """

    calls: int = 0
    cached: int = 0
    failed: int = 0
    waiting: int = 0
    retries: int = 0
    repairs: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    lost_usd: float = 0.0

    def line(self) -> str:
        """The account in one line, for progress."""
        parts = [f"{self.calls:,} calls", f"{self.cached:,} cached"]
        parts += [f"{self.failed:,} failed"] if self.failed else []
        parts += [f"{self.waiting:,} waiting"] if self.waiting else []
        parts += [f"{self.tokens_in + self.tokens_out:,} tokens", f"${self.cost_usd + self.lost_usd:.4f}"]
        return ", ".join(parts)
