"""A server of its own process that stands in for a model which judges commits and writes instructions.

    python benchmarks/judging_server.py [--storm] [--seconds S]

It prints its port. Answers to a request hang on the request alone: which version is better is drawn from
the versions' texts, whatever their order. With `--storm`, the first attempt at two in five requests goes
wrong, in ten ways in turn: malformed, cut off, wrong schema, a refusal, nothing, 429, 500, a hang, slow, a
lost connection. `GET /counts` tells how often each request was answered well.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import re
from collections import Counter
from typing import Any

from aiohttp import web

WAYS = ("malformed", "cut_off", "wrong_schema", "refusal", "empty", "429", "500", "hang", "slow", "lost")
HANG_S = 8.0
"""Longer than the benchmark's clients wait."""
_FENCED = re.compile(r"^(`{3,})\w*[^\n]*\n(.*?)^\1$", re.DOTALL | re.MULTILINE)


def _number(*texts: str) -> int:
    return int(hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12], 16)


def _tokens(text: str) -> int:
    """Tokens as another vocabulary would count them: not the estimate that forecasts are made with."""
    return len(re.findall(r"\w{1,6}|[^\w\s]|\n\s*", text))


def answer(asked: dict[str, Any]) -> str:
    """What the model says to a request, as JSON that fits its schema."""
    first: str = asked["messages"][0]["content"]
    schema = asked["response_format"]["json_schema"]["schema"]
    wanted = schema["properties"]
    drawn = random.Random(_number(first, str(asked.get("seed"))))
    sides = [match[2] for match in _FENCED.finditer(first)]
    if "choice" in wanted:
        better = "A" if _number(sides[0]) > _number(sides[1]) else "B"
        choice = better if drawn.random() < 0.85 else drawn.choice(["A", "B", "TIE"])
        return json.dumps(
            {"reason": "It does what the criterion asks." * drawn.randint(1, 3), "choice": choice}
        )
    if "strength" in wanted:
        review = {"summary": "Changes how a value is made.", "purposes": 1}
        return json.dumps({**review, "strength": drawn.randint(3, 5), "specificity": drawn.randint(3, 5)})
    if "instruction" in wanted:
        text = (
            "Please write code that takes what the callers of this module give it and returns what they need."
        )
        return json.dumps({"explanation": "Both do the same work.", "instruction": text})
    return json.dumps(dict.fromkeys(wanted, "TIE"))


class Model:
    """What was asked and answered."""

    def __init__(self, storm: bool, seconds: float) -> None:
        self.storm, self.seconds = storm, seconds
        self.met: set[str] = set()
        self.answered: Counter[str] = Counter()
        self.spoilt: Counter[str] = Counter()

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """One chat completion, or what goes wrong with it."""
        asked = await request.json()
        key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        text = answer(asked)
        await asyncio.sleep(self.seconds)
        if self.storm and key not in self.met and len(asked["messages"]) == 1 and int(key, 16) % 5 < 2:
            self.met.add(key)
            return await self._spoil(request, asked, text, key, int(key[:8], 16) % 10)
        self.answered[key] += 1
        return _said(asked, text)

    async def _spoil(
        self, request: web.Request, asked: dict[str, Any], text: str, key: str, way: int
    ) -> web.StreamResponse:
        self.spoilt[WAYS[way]] += 1
        if WAYS[way] in ("malformed", "cut_off", "wrong_schema", "refusal", "empty"):
            spoilt = {
                "malformed": text.replace('"', "'"),
                "cut_off": text[: len(text) // 2],
                "wrong_schema": '{"winner": 1}',
                "refusal": "I cannot help with that.",
                "empty": "",
            }
            return _said(asked, spoilt[WAYS[way]])
        if WAYS[way] == "hang":
            await asyncio.sleep(HANG_S)
        if WAYS[way] in ("hang", "lost"):
            if request.transport is not None:  # the client may have given up
                request.transport.close()
            return web.Response()
        if WAYS[way] == "slow":
            await asyncio.sleep(1.0)
            self.answered[key] += 1
            return _said(asked, text)
        headers = {"Retry-After": "0"} if WAYS[way] == "429" else {}
        return web.json_response({"error": {"message": "no"}}, status=int(WAYS[way]), headers=headers)

    async def counts(self, _: web.Request) -> web.StreamResponse:
        """How many answers there were, how many of requests that had one before, and what went wrong."""
        total = self.answered.total()
        twice = total - len(self.answered)
        return web.json_response({"answered": total, "twice": twice, "spoilt": self.spoilt})


def _said(asked: dict[str, Any], text: str) -> web.StreamResponse:
    tokens_in = 8 + sum(_tokens(message["content"]) for message in asked["messages"])
    return web.json_response(
        {
            "model": asked["model"],
            "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": tokens_in, "completion_tokens": _tokens(text)},
        }
    )


async def serve(model: Model) -> None:
    """Serve until killed."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/chat/completions", model.chat)
    app.router.add_get("/counts", model.counts)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--storm", action="store_true", help="let first attempts go wrong")
    parser.add_argument("--seconds", type=float, default=0.0, help="time an answer takes")
    given = parser.parse_args()
    asyncio.run(serve(Model(given.storm, given.seconds)))
