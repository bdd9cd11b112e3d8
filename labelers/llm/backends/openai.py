"""Any server that speaks OpenAI's chat completions: vLLM, SGLang, llama.cpp, transformers serve, OpenAI.

In: a `Call`. Out: an `Answer`. Wrong: `Failure`. A server that refuses a JSON schema, a seed or the name of
the bound of an answer is asked without it from then on: answers are checked against their schema anyway.
Answers are bounded in bytes and in time; redirects are not followed, since they would take the key elsewhere.
"""

from __future__ import annotations

import email.utils
import json
import os
import time
import urllib.parse
import urllib.request
from collections.abc import Collection, Mapping
from typing import Any

import aiohttp

from labelers.llm.backends.base import Answer, Failure
from labelers.llm.calls import Call, ModelFault
from labelers.llm.config import ModelConfig

MAX_ANSWER = 8 << 20
"""Bytes of an answer; a longer one is refused."""
_OPENAI = "https://api.openai.com/v1"
FATAL_CODES = ("insufficient_quota", "invalid_api_key", "billing_hard_limit_reached", "account_deactivated")


def api_key(config: ModelConfig) -> str | None:
    """The key that the config names; None when it names none.

    Raises:
        ModelFault: the variable is not set.
    """
    name = config.api_key_env
    if not name and config.kind == "openai" and not config.base_url:
        name = "OPENAI_API_KEY"
    if not name:
        return None
    key = os.environ.get(name, "").strip()
    if not key:
        raise ModelFault(f"model {config.model}: the environment variable {name} holds no key; set it")
    return key


class OpenAIServer:
    """One server and the connections to it."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._shown, root, self._proxy = place_of(config.base_url)
        self._url = f"{root}/chat/completions"
        self._headers = headers_of(config)
        self._session: aiohttp.ClientSession | None = None
        # What the server has shown not to know.
        self._unknown: set[str] = set()

    async def send(self, call: Call) -> Answer:
        """Ask the server once; more often only while it names parameters that it does not know."""
        while True:
            without = frozenset(self._unknown)
            body = without_unknown(body_of(call), without)
            status, headers, data = await self._post(json.dumps(body).encode())
            if status == 200:
                return answer_of(_json(data))
            refused = refused_parameter(status, data, call.schema is not None, without)
            if refused is None:
                raise self._failure(status, headers, data)
            self._unknown.add(refused)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _post(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=self._config.timeout_s),
                headers={"Content-Type": "application/json", **self._headers},
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        try:
            async with self._session.post(
                self._url, data=body, proxy=self._proxy, allow_redirects=False
            ) as response:
                data = bytearray()
                async for chunk in response.content.iter_any():
                    data += chunk
                    if len(data) > MAX_ANSWER:
                        raise Failure(f"the answer is longer than {MAX_ANSWER >> 20} MiB", charged=True)
                return response.status, response.headers, bytes(data)
        except aiohttp.ClientConnectorError as error:
            what = os.strerror(error.os_error.errno) if error.os_error.errno else str(error.os_error)
            raise Failure(
                f"no server at {self._shown} ({what}); start it, or set base_url",
                retry=True,
                fatal=True,
                fatal_at_first=True,
            ) from None
        except TimeoutError:
            raise Failure(
                f"no answer within {self._config.timeout_s:g} s", retry=True, charged=True
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Failure(
                f"the connection was lost ({type(error).__name__})", retry=True, charged=True
            ) from None

    def _failure(self, status: int, headers: Mapping[str, str], data: bytes) -> Failure:
        code, message = error_of(_json(data))
        told = f"HTTP {status}" + (f": {message}" if message else "")
        if status in (401, 402, 403) or code in FATAL_CODES:
            named = self._config.api_key_env or "api_key_env"
            return Failure(f"{self._shown} refuses the key or account ({told}); check {named}", fatal=True)
        if status == 404 or code == "model_not_found":
            return Failure(
                f"{self._shown} does not serve {self._config.model!r} ({told}); check model and base_url",
                fatal_at_first=True,
            )
        if 300 <= status < 400:
            return Failure(
                f"{self._shown} sends elsewhere ({told}); set base_url to that", fatal_at_first=True
            )
        if status in (408, 409, 425, 429) or status >= 500:
            return Failure(told, retry=True, after_s=retry_after(headers))
        return Failure(told)


def place_of(base_url: str) -> tuple[str, str, str | None]:
    """A server's address as shown to people, as its endpoints begin, and the proxy on the way to it."""
    base = base_url.rstrip("/") or _OPENAI
    parts = urllib.parse.urlsplit(base)
    proxy = None if urllib.request.proxy_bypass(parts.netloc) else _proxy(parts.scheme)
    return base, base if parts.path else f"{base}/v1", proxy


def headers_of(config: ModelConfig) -> dict[str, str]:
    """Headers of every request.

    Raises:
        ModelFault: the variable that should hold the key holds none.
    """
    key = api_key(config)
    return {"Accept-Encoding": "identity", **({} if key is None else {"Authorization": f"Bearer {key}"})}


def body_of(call: Call) -> dict[str, Any]:
    """The JSON that asks for a call, with every parameter."""
    body: dict[str, Any] = {
        "model": call.model,
        "messages": call.message_rows(),
        "temperature": call.temperature,
        "top_p": call.top_p,
        "max_tokens": call.max_tokens,
        "seed": call.seed,
    }
    if call.stop:
        body["stop"] = list(call.stop)
    if call.schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": dict(call.schema), "strict": True},
        }
    return body


def without_unknown(body: dict[str, Any], unknown: Collection[str]) -> dict[str, Any]:
    """A body without what a server has shown not to know: `max_tokens` (its older name), `seed`,
    `json_schema`, `response_format`."""
    made = dict(body)
    if "max_tokens" in unknown:
        made["max_completion_tokens"] = made.pop("max_tokens")
    if "seed" in unknown:
        del made["seed"]
    if "response_format" in unknown:
        made.pop("response_format", None)
    elif "json_schema" in unknown and "response_format" in made:
        made["response_format"] = {"type": "json_object"}
    return made


def _proxy(scheme: str) -> str | None:
    return urllib.request.getproxies().get(scheme)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def error_of(found: Any) -> tuple[str, str]:
    """Code and message of an error that a server sent as JSON, each on one bounded line."""
    inner = found.get("error", found) if isinstance(found, dict) else None
    if isinstance(inner, str):
        return "", one_line(inner)
    if not isinstance(inner, dict):
        return "", ""
    message = inner.get("message") or inner.get("detail") or ""
    return one_line(str(inner.get("code") or inner.get("type") or ""))[:100], one_line(str(message))


def one_line(text: str) -> str:
    """Text of a server on one line, bounded and printable."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[:2000]).split())[:300]


def refused_parameter(status: int, data: bytes, schema: bool, without: Collection[str]) -> str | None:
    """The parameter that an error complains of, if a call (with a schema, or without) can do without it."""
    if status not in (400, 422, 500, 501):
        return None
    text = data[:20_000].decode("utf-8", "replace").lower()
    if schema and any(
        word in text for word in ("response_format", "json_schema", "guided", "structured output", "grammar")
    ):
        return next((one for one in ("json_schema", "response_format") if one not in without), None)
    if status >= 500:
        return None
    if "max_completion_tokens" in text and "max_tokens" not in without:
        return "max_tokens"
    # "seed" alone is in many a sentence.
    if '"seed"' in text or "'seed'" in text or "parameter: seed" in text:
        return None if "seed" in without else "seed"
    return None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait, by any of three headers."""
    try:
        if (text := headers.get("retry-after-ms")) is not None:
            return max(0.0, float(text) / 1000)
        if (text := headers.get("Retry-After")) is None:
            return None
        if text.strip().replace(".", "", 1).isdigit():
            return float(text)
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def answer_of(found: Any) -> Answer:
    """The answer in the JSON that a server sent.

    Raises:
        Failure: there is none in it.
    """
    bad = Failure("the server's answer is not a chat completion", retry=True, charged=True)
    if not isinstance(found, dict):
        raise bad
    choices = found.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise bad
    text, finish = _content(message.get("content")), str(choice.get("finish_reason") or "")[:40]
    refusal = message.get("refusal")
    if not text and isinstance(refusal, str) and refusal:
        text, finish = refusal, "refusal"
    usage = found.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    return Answer(
        text.encode("utf-8", "replace").decode(),
        finish,
        one_line(str(found.get("model") or "")),
        count(counts.get("prompt_tokens")),
        count(counts.get("completion_tokens")),
    )


def _content(content: Any) -> str:
    """Text of a message: itself, or the texts of its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def count(value: Any) -> int | None:
    """A number of tokens as a server tells it; None for what is none."""
    return value if type(value) is int and 0 <= value < 1 << 40 else None
