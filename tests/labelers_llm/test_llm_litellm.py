"""litellm against a server on this machine. It takes seconds to import, so one process serves all tests."""

from __future__ import annotations

import subprocess
import sys

import pytest
from loopback_llm import KEY, LoopbackModel, fails, last, says

_SCRIPT = """
import sys
from labelers.llm import Client, Message, ModelConfig, Request
from schemas.errors import AssayError
config = ModelConfig(backend="litellm", model="openai/loopback-model", base_url=sys.argv[1], retries=2,
                     api_key_env="LOOPBACK_KEY")
with Client(config) as client:
    assert "litellm" not in sys.modules
    try:
        for text in sys.argv[2:]:
            (reply,) = client.ask([Request((Message("user", text),), seed=3, temperature=0.25, max_tokens=9)])
            print(reply.text or reply.error, reply.tokens_in, reply.finish)
    except AssayError as error:
        print(type(error).__name__, error)
"""


def run(server: LoopbackModel, *prompts: str, key: str = KEY) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _SCRIPT, server.url, *prompts],
        env={"LOOPBACK_KEY": key, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_litellm_answers_retries_and_fails_as_other_backends_do() -> None:
    seen: list[str] = []

    def script(asked):  # type: ignore[no-untyped-def]
        seen.append(last(asked))
        if last(asked) == "busy" and seen.count("busy") < 3:
            return fails(429, retry_after="0.05")
        return fails(400, "too odd") if last(asked) == "odd" else says(last(asked).upper())

    with LoopbackModel(script, key=KEY) as server:
        well, busy, odd = run(server, "a", "busy", "odd")
        asked = server.asked[0]
    assert well == "A 10 stop"
    assert busy == "BUSY 10 stop"
    assert "too odd" in odd
    # Its own retries are off.
    assert seen == ["a", "busy", "busy", "busy", "odd"]
    assert (asked["model"], asked["seed"], asked["temperature"], asked["max_tokens"]) == (
        "loopback-model",
        3,
        0.25,
        9,
    )


@pytest.mark.parametrize("key", ["wrong"])
def test_litellm_tells_a_wrong_key_once(key: str) -> None:
    with LoopbackModel(lambda asked: says("x"), key=KEY) as server:
        (line,) = run(server, "a", "b", key=key)
        assert len(server.asked) == 1
    assert line.startswith("ModelFault openai/loopback-model: the provider refuses the key")


def test_litellm_tells_a_missing_key_without_trying_again() -> None:
    script = _SCRIPT.replace("base_url=sys.argv[1], retries=2,", "retries=50)").replace(
        '                     api_key_env="LOOPBACK_KEY")\n', ""
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "nowhere", "a"],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.stdout.startswith("ModelFault openai/loopback-model: there is no key for it"), done
