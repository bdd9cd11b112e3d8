"""A model server of our own on 127.0.0.1: OpenAI's chat completions, answered by a script.

    with LoopbackModel(lambda asked: says("42")) as server:
        config = server.config()

The script gets the body of each request and gives what becomes of it: `says`, `fails`, `garbage`, `drops`,
each after `seconds`. `server.asked` holds every body in order of arrival, `server.most_at_once` how many were
open.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from labelers.llm.config import ModelConfig

MODEL = "loopback-model"
KEY = "loopback-key"


@dataclasses.dataclass(frozen=True)
class Action:
    """What becomes of a request."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0
    drop: bool = False


def says(
    text: str | None,
    *,
    tokens_in: int = 10,
    tokens_out: int = 5,
    finish: str = "stop",
    seconds: float = 0.0,
    usage: bool = True,
) -> Action:
    """A chat completion."""
    found: dict[str, Any] = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL + "-served",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
    }
    if usage:
        found["usage"] = {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        }
    return Action(body=json.dumps(found).encode(), seconds=seconds)


def fails(status: int, message: str = "no", code: str = "", seconds: float = 0.0, **headers: str) -> Action:
    """An error; headers are given with underscores: `retry_after="1"`."""
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Action(status=status, body=body, headers=named, seconds=seconds)


def garbage(body: bytes, seconds: float = 0.0) -> Action:
    """Status 200 with these bytes."""
    return Action(body=body, seconds=seconds)


def drops(seconds: float = 0.0) -> Action:
    """The connection is closed without an answer."""
    return Action(drop=True, seconds=seconds)


def last(asked: dict[str, Any]) -> str:
    """The last message of a request."""
    text: str = asked["messages"][-1]["content"]
    return text


class LoopbackModel:
    """Use as a context manager; `url` is the base URL."""

    def __init__(self, script: Callable[[dict[str, Any]], Action], key: str | None = None) -> None:
        self.script = script
        self.key = key
        self.asked: list[dict[str, Any]] = []
        self.most_at_once = 0
        self.open = 0
        self.connections: set[socket.socket] = set()
        self.lock = threading.Lock()

    def __enter__(self) -> LoopbackModel:
        state = self

        class Bound(_Handler):
            server_state = state

        self.server = _Server(("127.0.0.1", 0), Bound)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        with self.lock:
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server.server_close()
        self.thread.join()

    def config(self, **settings: Any) -> ModelConfig:
        """A config that asks this server."""
        base: dict[str, Any] = {"backend": "openai", "model": MODEL, "base_url": self.url, "timeout_s": 30.0}
        return ModelConfig(**{**base, **settings})

    def prompts(self) -> list[str]:
        """The last message of every request so far."""
        with self.lock:
            return [last(asked) for asked in self.asked]


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        # A client that was killed is what some tests are about.
        pass


class _Handler(http.server.BaseHTTPRequestHandler):
    server_state: LoopbackModel
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        with self.server_state.lock:
            self.server_state.connections.add(self.connection)

    def finish(self) -> None:
        with self.server_state.lock:
            self.server_state.connections.discard(self.connection)
        super().finish()

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        state = self.server_state
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        with state.lock:
            state.asked.append(body)
            state.open += 1
            state.most_at_once = max(state.most_at_once, state.open)
        try:
            if state.key is not None and self.headers.get("Authorization") != f"Bearer {state.key}":
                action = fails(401, "Incorrect API key provided")
            elif not self.path.endswith("/v1/chat/completions"):
                action = fails(404, "no such page")
            else:
                action = state.script(body)
            time.sleep(action.seconds)
        finally:
            with state.lock:
                state.open -= 1
        if action.drop:
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(action.status)
        for name, value in action.headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(action.body)))
        self.end_headers()
        self.wfile.write(action.body)
