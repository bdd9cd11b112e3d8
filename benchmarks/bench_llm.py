"""Cost of the model layer, against others. Processor time of a call that is known: against a call of litellm
that a provider in the same process answers. Wall time of many calls at once: against a bare aiohttp client.
The server is a process of its own.

python benchmarks/bench_llm.py [--calls 2000] [--seconds 0.2] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import best, cores

from labelers.llm import Client, Message, ModelConfig, Request

CONCURRENCY = 64
ANSWER = json.dumps({"better": "A", "reason": "It checks the length before it reads."})
SCHEMA = {
    "type": "object",
    "properties": {"better": {"enum": ["A", "B", "TIE"]}, "reason": {"type": "string"}},
    "required": ["better", "reason"],
    "additionalProperties": False,
}


def prompt(number: int) -> str:
    """About 2,000 characters, no two alike."""
    return f"Request {number}. " + "if value is None: return default  # keep what was there\n" * 36


def requests(count: int, schema: bool = False) -> Iterator[Request]:
    """As many as asked for, drawn lazily."""
    for number in range(count):
        yield Request((Message("user", prompt(number)),), schema=SCHEMA if schema else None)


def serve(seconds: float) -> None:
    """Answer every request after so many seconds, until killed; the port is the first line of output."""
    from aiohttp import web

    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}
    usage = {"prompt_tokens": 500, "completion_tokens": 20, "total_tokens": 520}
    body = json.dumps({"id": "x", "model": "m", "choices": [choice], "usage": usage}).encode()

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        await asyncio.sleep(seconds)
        return web.Response(body=body, content_type="application/json")

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


@contextlib.contextmanager
def server(seconds: float) -> Iterator[str]:
    """Address of a server in a process of its own."""
    command = [sys.executable, __file__, "--serve", "--seconds", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.kill()


def ours(config: ModelConfig, cache: Path | None, count: int, schema: bool = False) -> None:
    """Ask through the layer; every request must get its answer."""
    with Client(config, cache) as client:
        got = sum(reply.text == ANSWER for reply in client.ask(requests(count, schema)))
    if got != count:
        raise AssertionError(f"{got} of {count} answers")


async def bare(url: str, count: int) -> None:
    """Ask with aiohttp alone."""
    import aiohttp

    slots = asyncio.Semaphore(CONCURRENCY)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def one(number: int) -> bool:
            async with slots:
                body = {
                    "model": "m",
                    "messages": [{"role": "user", "content": prompt(number)}],
                    "temperature": 0.7,
                    "top_p": 1.0,
                    "max_tokens": 4096,
                    "seed": 0,
                }
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    found = await response.json()
                    return bool(found["choices"][0]["message"]["content"] == ANSWER)

        got = sum(await asyncio.gather(*(one(number) for number in range(count))))
    if got != count:
        raise AssertionError(f"{got} of {count} answers")


def litellm_calls(count: int) -> Any:
    """A function that makes so many calls of litellm, answered by a provider in this process."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    class Provider(litellm.CustomLLM):  # type: ignore[misc]
        def completion(self, *args: Any, **kwargs: Any) -> Any:
            choice = litellm.Choices(message=litellm.Message(role="assistant", content=ANSWER))
            return litellm.ModelResponse(choices=[choice])

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.custom_provider_map = [{"provider": "here", "custom_handler": Provider()}]

    def ask() -> None:
        for number in range(count):
            messages = [{"role": "user", "content": prompt(number)}]
            found = litellm.completion(model="here/m", messages=messages, temperature=0.7, max_tokens=4096)
            if found.choices[0].message.content != ANSWER:
                raise AssertionError("another answer")

    return ask


def known(folder: Path, url: str, count: int, rounds: int) -> None:
    """Processor time of calls that are answered already."""
    cache = folder / "known.sqlite"
    config = ModelConfig(model="m", base_url=url, concurrency=CONCURRENCY)
    replay = ModelConfig(model="m", replay=str(cache))
    for schema in (False, True):
        ours(config, cache, count, schema)
    ways = {
        "litellm": litellm_calls(count),
        "cached": lambda: ours(config, cache, count),
        "cached, with schema": lambda: ours(config, cache, count, True),
        "replayed": lambda: ours(replay, folder / "again.sqlite", count),
    }
    found = best(ways, rounds, time.process_time)
    peer = found.pop("litellm")
    print(
        f"{cores()}; litellm with a provider in the process: {1e3 * peer / count:.3f} ms of processor a call"
    )
    for name, seconds in found.items():
        print(f"{name}: {1e3 * seconds / count:.3f} ms, {seconds / peer:.2f} x litellm", flush=True)


def under_way(folder: Path, url: str, count: int, rounds: int, seconds: float) -> None:
    """Wall time of calls that a slow server answers."""
    numbers = iter(range(1000))
    config = ModelConfig(
        model="m", base_url=url, concurrency=CONCURRENCY, budget_usd=1000.0, price_in=0.2, price_out=0.6
    )
    ways = {
        "bare": lambda: asyncio.run(bare(url, count)),
        "ours": lambda: ours(config, folder / f"fresh{next(numbers)}.sqlite", count),
    }
    found = best(ways, rounds)
    print(
        f"{cores()}; {count:,} calls, {CONCURRENCY} at once, {seconds:g} s each: bare aiohttp "
        f"{found['bare']:.2f} s, ours {found['ours']:.2f} s: {found['ours'] / found['bare']:.3f} x",
        flush=True,
    )


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description="cost of the model layer")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.seconds)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with server(0.0) as url:
            known(folder, url, given.calls, given.rounds)
        with server(given.seconds) as url:
            under_way(folder, url, given.calls, given.rounds, given.seconds)


if __name__ == "__main__":
    main()
