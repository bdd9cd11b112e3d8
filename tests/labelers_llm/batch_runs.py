"""What tests of batches share: a stage that asks, and the commands without their words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from loopback_llm import Action, last, says

from labelers.llm import (
    BatchWaiting,
    Client,
    Message,
    ModelConfig,
    Reply,
    Request,
    batch_run,
)
from labelers.llm.batch_answers import Read

PRICES: dict[str, Any] = {"price_in": 1000.0, "price_out": 1000.0, "max_tokens": 50}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def req(text: str, **more: Any) -> Request:
    return Request((Message("user", text),), **more)


def upper(asked: dict[str, Any]) -> Action:
    return says(last(asked).upper(), tokens_in=10, tokens_out=50)


def ask(config: ModelConfig, run: Path, requests: list[Request]) -> tuple[list[Reply], str]:
    """What a stage gets, and the line that its run ends with; empty where it goes through."""
    replies: list[Reply] = []
    try:
        with Client(config, run / "calls.sqlite") as client:
            replies.extend(client.ask(requests))
    except BatchWaiting as waits:
        return replies, str(waits)
    return replies, ""


def send(run: Path, **more: Any) -> int:
    return batch_run.send(run, lambda line: None, **more)


def fetch(run: Path) -> tuple[Read, int]:
    return batch_run.fetch(run, lambda line: None)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def requests(count: int, **more: Any) -> list[Request]:
    return [req(f"q{n}", **more) for n in range(count)]
