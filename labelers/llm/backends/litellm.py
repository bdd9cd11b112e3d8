"""Any provider that litellm knows, by litellm's names. It is imported at the first call: that takes seconds.

In: a `Call`. Out: an `Answer`. Wrong: `Failure`. litellm's own retries, cache, callbacks and price list from
the network are off; what a provider does not know of seed and schema is left out.
"""

from __future__ import annotations

import os
import re
from typing import Any

from labelers.llm.backends.base import Answer, Failure
from labelers.llm.backends.openai import FATAL_CODES, api_key, count, one_line, retry_after
from labelers.llm.calls import Call
from labelers.llm.config import ModelConfig

# Some providers' libraries find no key before they ask anybody, and litellm makes an HTTP 500 of that.
_NO_KEY = re.compile(
    r"missing credentials|api[_ -]?key\b.{0,60}\b(?:missing|must be set|not (?:set|found))", re.IGNORECASE
)


class LiteLLM:
    """One model of one provider."""

    def __init__(self, config: ModelConfig) -> None:
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        import litellm

        litellm.suppress_debug_info = True
        litellm.telemetry = False
        litellm.cache = None
        litellm.num_retries = 0
        self._litellm: Any = litellm
        self._config = config
        self._key = api_key(config)
        try:
            self._known = set(litellm.get_supported_openai_params(model=config.model) or ())
        except Exception:
            # An unknown provider: the first call tells what is wrong.
            self._known = set()

    async def send(self, call: Call) -> Answer:
        """Ask the provider once."""
        extra: dict[str, Any] = {}
        if "seed" in self._known:
            extra["seed"] = call.seed
        if call.schema is not None and "response_format" in self._known:
            extra["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": dict(call.schema), "strict": True},
            }
        if call.stop:
            extra["stop"] = list(call.stop)
        if self._config.base_url:
            extra["base_url"] = self._config.base_url
        if self._key:
            extra["api_key"] = self._key
        try:
            found = await self._litellm.acompletion(
                model=call.model,
                messages=call.message_rows(),
                temperature=call.temperature,
                top_p=call.top_p,
                max_tokens=call.max_tokens,
                timeout=self._config.timeout_s,
                num_retries=0,
                max_retries=0,
                caching=False,
                **extra,
            )
        except Exception as error:
            # litellm raises its own, the client's and the provider's types of errors.
            raise _failure(error, self._config) from None
        return _answer(found)

    async def close(self) -> None:
        """Close the connections that litellm keeps."""
        await self._litellm.close_litellm_async_clients()


def _failure(error: Exception, config: ModelConfig) -> Failure:
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) else 0
    name = type(error).__name__
    told = f"{name}: {one_line(str(error))}"
    code = str(getattr(error, "code", "") or "")
    if status in (401, 402, 403) or code in FATAL_CODES:
        return Failure(f"{config.model}: the provider refuses the key or account ({told})", fatal=True)
    if _NO_KEY.search(told):
        return Failure(f"{config.model}: there is no key for it ({told})", fatal=True)
    if name in ("APIConnectionError", "Timeout"):
        return Failure(told, retry=True, charged=True, fatal_at_first=name == "APIConnectionError")
    if status == 404 or (name == "BadRequestError" and "provider" in told.lower()):
        return Failure(f"{config.model}: no such model ({told}); check model", fatal_at_first=True)
    if status in (408, 409, 425, 429) or status >= 500:
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        return Failure(told, retry=True, after_s=retry_after(headers))
    return Failure(told)


def _answer(found: Any) -> Answer:
    try:
        choice, usage = found.choices[0], getattr(found, "usage", None)
        text = choice.message.content
    except (AttributeError, IndexError, TypeError):
        raise Failure("the provider's answer is not a chat completion", retry=True, charged=True) from None
    return Answer(
        (text if isinstance(text, str) else "").encode("utf-8", "replace").decode(),
        str(choice.finish_reason or "")[:40],
        one_line(str(found.model or "")),
        count(getattr(usage, "prompt_tokens", None)),
        count(getattr(usage, "completion_tokens", None)),
    )
