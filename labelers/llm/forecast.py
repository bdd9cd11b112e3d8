"""What requests are going to cost: counted before any is sent, corrected by what others of their kind did.

In: requests, lazily, the model that would be asked, and the calls of the run so far. Out: a `Forecast`.
Nothing is asked and nothing is written. Memory stays bounded.
Wrong: `AssayError` where the file of calls cannot be read.

A prompt's tokens are estimated (`schemas.tokens`) and corrected by the ratio of what this model's server has
counted to the same estimate. An answer has as many tokens as answers of its kind had on average: of this
model, else of any; else as many as the asker expects; else half of the most, within reason. A share of the
answers is asked for once more, as seen.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from labelers.llm import structured
from labelers.llm.calls import Call, Message, Request
from labelers.llm.config import RULES, ModelConfig
from labelers.llm.prices import Price, price_of
from labelers.llm.store import READABLE, condition
from schemas.errors import AssayError
from schemas.tokens import estimate_tokens

ENOUGH = 20
"""Calls of a kind from which their mean is believed more than the asker."""
_SAMPLE = 300
_MESSAGE_TOKENS, _PROMPT_TOKENS = 4, 3
_REPAIR_TOKENS = 150
_DEFAULT_OUT = 512
_REMEMBERED = 1 << 20
_MAX_PROMPT = 64 << 20


@dataclasses.dataclass(frozen=True)
class Forecast:
    """What is going to be asked.

    Attributes:
        calls: requests to ask, equal ones once.
        cached: requests that are answered already, or equal to one that is asked.
        repairs: answers that are expected to be asked for once more, beyond `calls`.
        tokens_in: expected tokens of prompts, those of repairs included.
        tokens_out: expected tokens of answers, those of repairs included.
        cost_usd: expected cost; None where the price is not known.
    """

    calls: int
    cached: int
    repairs: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None


def forecast(requests: Iterable[Request], config: ModelConfig, store_path: Path | None) -> Forecast:
    """Count what asking these requests is going to cost.

    Args:
        requests: drawn one by one.
        config: the model; `config.enabled` must hold.
        store_path: `calls.sqlite` of the run; None, or a file that is not there, for none.

    Raises:
        AssayError: the file is not one of calls, or cannot be read.
    """
    price = price_of(config)
    if price is not None and config.batch:
        price = price.times(config.batch_price)
    with contextlib.closing(_Seen(store_path, config)) as seen, seen.told():
        return _count(requests, config, seen, price)


def _count(requests: Iterable[Request], config: ModelConfig, seen: _Seen, price: Price | None) -> Forecast:
    calls, cached = 0, 0
    repairs, tokens_in, tokens_out = 0.0, 0.0, 0.0
    met: set[int] = set()
    for request in requests:
        asked = request if config.kind != "replay" else None
        if asked is not None:
            asked = seen.missing(asked)
        if asked is None or (mark := hash(Call.of(asked, config).hash)) in met:
            cached += 1
            continue
        if len(met) < _REMEMBERED:
            met.add(mark)
        calls += 1
        if config.ruled:
            continue
        own_in, own_out = seen.tokens(asked)
        tokens_in, tokens_out = tokens_in + own_in, tokens_out + own_out
        if request.schema is None or asked is not request:
            continue
        share = seen.repaired(request.kind)
        again_in, again_out = seen.repair_tokens(request, own_in, own_out)
        repairs += share
        tokens_in, tokens_out = tokens_in + share * again_in, tokens_out + share * again_out
    total_in, total_out = round(tokens_in), round(tokens_out)
    cost = None if price is None else price.of(total_in, total_out)
    return Forecast(calls, cached, round(repairs), total_in, total_out, cost)


def prompt_tokens(messages: Iterable[Message]) -> int:
    """Estimated tokens of a prompt, with what a chat template puts around its messages."""
    return _PROMPT_TOKENS + sum(estimate_tokens(one.content) + _MESSAGE_TOKENS for one in messages)


class _Seen:
    """What a file of calls tells of a model and of kinds of requests."""

    def __init__(self, path: Path | None, config: ModelConfig) -> None:
        self._path, self._config = path, config
        self._identity = ""
        self._db: sqlite3.Connection | None = None
        self._kind = "kind"
        if config.kind == "local":
            from labelers.llm.backends.local import weights_identity

            self._identity = weights_identity(config)
        if path is None or not path.exists():
            return
        with self.told():
            self._db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=60)
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            if found not in READABLE:
                raise AssayError(f"{path}: not calls of this version of assay (format {found})")
            if found == 1:
                self._kind = "''"

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """What SQLite complains of in words of ours."""
        try:
            yield
        except sqlite3.Error as error:
            raise AssayError(f"{self._path}: the calls of the model cannot be read ({error})") from None

    def missing(self, request: Request) -> Request | None:
        """What has to be asked for a request: itself, its repair, or nothing."""
        first = self._answer(request)
        if first is None:
            return request
        text, error = first
        if error is not None or request.schema is None:
            return None
        _, complaint = structured.read(text, request.schema)
        if complaint is None:
            return None
        again = structured.repair(request, text, complaint)
        return again if self._answer(again) is None else None

    def _answer(self, request: Request) -> tuple[str, str | None] | None:
        if self._db is None:
            return None
        key = Call.of(request, self._config).key(self._identity)
        found: tuple[str, str | None] | None = self._db.execute(
            f"SELECT text, error FROM calls WHERE key = ? AND {condition(self._config.batch)}",  # noqa: S608 (a constant)
            (key,),
        ).fetchone()
        return found

    def tokens(self, request: Request) -> tuple[float, float]:
        """Expected tokens of a request's prompt and answer."""
        own_in = prompt_tokens(request.messages) * self._ratio(request.kind)
        most = request.max_tokens or self._config.max_tokens
        return own_in, min(self._out(request, most), most)

    def _out(self, request: Request, most: int) -> float:
        of_model, of_kind = self._means(request.kind, True), self._means(request.kind, False)
        for count, _, mean_out in (of_model, of_kind):
            if count >= ENOUGH:
                return mean_out
        if request.expected_tokens is not None:
            return request.expected_tokens
        for count, _, mean_out in (of_model, of_kind):
            if count:
                return mean_out
        return min(most / 2, _DEFAULT_OUT)

    def repaired(self, kind: str) -> float:
        """Share of answers of a kind that were asked for once more: of this model, else of any, else none."""
        for of_model in (True, False):
            count, _, _ = self._means(kind, of_model)
            if count >= ENOUGH:
                return min(1.0, self._means(kind + structured.REPAIR, of_model)[0] / count)
        return 0.0

    def repair_tokens(self, request: Request, first_in: float, first_out: float) -> tuple[float, float]:
        """Expected tokens of asking once more."""
        count, mean_in, mean_out = self._means(request.kind + structured.REPAIR, True)
        if count:
            return mean_in, mean_out
        return first_in + first_out + _REPAIR_TOKENS, first_out

    @functools.cache  # noqa: B019 (lives as long as one forecast)
    def _means(self, kind: str, of_model: bool) -> tuple[int, float, float]:
        """Number, mean tokens in and mean tokens out of the answers of a kind."""
        if self._db is None:
            return 0, 0.0, 0.0
        # Rules answer without tokens, and tell nothing of how long a model's answers are.
        of = "=" if of_model else "!="
        name = self._config.model if of_model else RULES
        count, mean_in, mean_out = self._db.execute(
            "SELECT count(*), avg(tokens_in), avg(tokens_out) FROM calls "  # noqa: S608 (constants)
            f"WHERE error IS NULL AND {self._kind} = ? AND model {of} ?",
            (kind, name),
        ).fetchone()
        return count, mean_in or 0.0, mean_out or 0.0

    @functools.cache  # noqa: B019 (as above)
    def _ratio(self, kind: str) -> float:
        """Tokens of prompts as counted by the server, over those estimated here."""
        for where, values in ((f" AND {self._kind} = ?", (kind,)), ("", ())):
            counted, estimated, number = 0, 0, 0
            for prompt, tokens_in in self._sample(where, values):
                if (messages := _messages(prompt)) is not None:
                    number, counted = number + 1, counted + tokens_in
                    estimated += prompt_tokens(messages)
            if number >= ENOUGH:
                return counted / estimated
        return 1.0

    def _sample(self, where: str, values: tuple[str, ...]) -> Iterator[tuple[bytes, int]]:
        """Some calls of the model; keys are hashes, so that the first of them are drawn evenly."""
        if self._db is None:
            return iter(())
        return self._db.execute(
            "SELECT prompt, tokens_in FROM calls WHERE key IN (SELECT key FROM calls "  # noqa: S608 (constants)
            f"WHERE error IS NULL AND model = ?{where} ORDER BY key LIMIT {_SAMPLE})",
            (self._config.model, *values),
        )


def _messages(prompt: bytes) -> list[Message] | None:
    """Messages of a stored prompt; None where it is damaged."""
    try:
        rows = json.loads(zlib.decompressobj().decompress(prompt, _MAX_PROMPT))
        return [Message(row["role"], row["content"]) for row in rows]
    except (zlib.error, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
