"""A server of batches of our own on 127.0.0.1: OpenAI's /v1/files and /v1/batches, answered by a script.

    with LoopbackBatches(lambda asked: says("42")) as server:
        config = server.config()

The script gets the body of each line and gives what becomes of it: `says`, `fails`, EXPIRES, or NOTHING. A
batch is answered when it is first looked at; `hold` keeps batches under way. `before` and `after` get the
method and path of each request, and may put an `Action` (a failure, a closed connection) in place of the
answer: before anything is done, or after all is.
"""

from __future__ import annotations

import contextlib
import email.parser
import http.server
import json
import socket
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

from loopback_llm import MODEL, Action, fails

from labelers.llm.config import ModelConfig

EXPIRES = Action(status=-1)
NOTHING = Action(status=-2)

Hook = Callable[[str, str], Action | None]


class LoopbackBatches:
    """Use as a context manager; `url` is the base URL."""

    def __init__(self, script: Callable[[dict[str, Any]], Action], key: str | None = None) -> None:
        self.script, self.key = script, key
        self.files: dict[str, tuple[str, bytes]] = {}
        self.batches: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str]] = []
        self.hold = False
        self.invalid = ""
        self.lists = True
        self.before: Hook = lambda method, path: None
        self.after: Hook = lambda method, path: None
        self.lock = threading.RLock()

    def __enter__(self) -> LoopbackBatches:
        state = self

        class Bound(_Handler):
            server_state = state

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def config(self, **settings: Any) -> ModelConfig:
        """A config that collects for this server."""
        base: dict[str, Any] = {"model": MODEL, "base_url": self.url, "batch": True}
        return ModelConfig(**{**base, **settings})

    def created(self, path: str) -> int:
        """How many POST requests came for a path."""
        return sum(one == ("POST", path) for one in self.requests)

    def add_file(self, name: str, data: bytes) -> dict[str, Any]:
        """Keep a file."""
        made = f"file-{len(self.files)}"
        self.files[made] = (name, data)
        return {"id": made, "object": "file", "bytes": len(data), "filename": name, "purpose": "batch"}

    def add_batch(self, asked: dict[str, Any]) -> Action:
        """Begin a batch."""
        if asked.get("input_file_id") not in self.files or asked.get("endpoint") != "/v1/chat/completions":
            return fails(400, "no such input file")
        row = {
            "id": f"batch_{len(self.batches)}",
            "object": "batch",
            "status": "validating",
            "input_file_id": asked["input_file_id"],
            "metadata": asked.get("metadata"),
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
        }
        self.batches.append(row)
        return _json(row)

    def look(self, row: dict[str, Any]) -> dict[str, Any]:
        """What has become of a batch; it is answered at the first look."""
        if self.hold:
            row["status"] = "in_progress"
        elif self.invalid:
            row["status"] = "failed"
            row["errors"] = {"data": [{"code": "x", "message": self.invalid, "line": 1}]}
        elif row["status"] in ("validating", "in_progress"):
            self._answer(row)
        return row

    def _answer(self, row: dict[str, Any]) -> None:
        good, bad = [], []
        expired = False
        lines = [json.loads(line) for line in self.files[row["input_file_id"]][1].splitlines()]
        for number, line in enumerate(lines):
            self.asked.append(line["body"])
            action = self.script(line["body"])
            told: dict[str, Any] = {"id": f"r{number}", "custom_id": line["custom_id"], "error": None}
            if action is NOTHING:
                continue
            if action is EXPIRES:
                expired = True
                bad.append({**told, "response": None, "error": {"code": "batch_expired", "message": "late"}})
                continue
            response = {"status_code": action.status, "request_id": "q", "body": json.loads(action.body)}
            (good if action.status == 200 else bad).append({**told, "response": response})
        # Answers come in any order.
        for name, rows in (("output_file_id", good[::-1]), ("error_file_id", bad)):
            if rows:
                data = b"".join(json.dumps(one).encode() + b"\n" for one in rows)
                row[name] = self.add_file(name, data)["id"]
        row["status"] = "expired" if expired else "completed"
        row["request_counts"] = {"total": len(lines), "completed": len(good), "failed": len(bad)}


def _json(value: Any) -> Action:
    return Action(body=json.dumps(value).encode())


class _Handler(http.server.BaseHTTPRequestHandler):
    server_state: LoopbackBatches
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._do("GET")

    def do_POST(self) -> None:
        self._do("POST")

    def _do(self, method: str) -> None:
        state = self.server_state
        parts = urllib.parse.urlsplit(self.path)
        data = self.rfile.read(int(self.headers["Content-Length"])) if method == "POST" else b""
        if method == "POST" and self.headers.get("Transfer-Encoding"):
            raise AssertionError("the length of an upload is known")
        with state.lock:
            state.requests.append((method, parts.path))
            action = state.before(method, parts.path)
            if action is None:
                if state.key is not None and self.headers.get("Authorization") != f"Bearer {state.key}":
                    action = fails(401, "Incorrect API key provided")
                else:
                    action = self._answer(method, parts, data)
                    action = state.after(method, parts.path) or action
        if action.drop:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(action.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(action.body)))
        self.end_headers()
        self.wfile.write(action.body)

    def _answer(self, method: str, parts: urllib.parse.SplitResult, data: bytes) -> Action:
        state = self.server_state
        query = dict(urllib.parse.parse_qsl(parts.query))
        match [method, *parts.path.strip("/").split("/")]:
            case ["POST", "v1", "files"]:
                return _json(state.add_file(*_uploaded(self.headers["Content-Type"], data)))
            case ["POST", "v1", "batches"]:
                return state.add_batch(json.loads(data))
            case ["GET", "v1", "files", name, "content"] if name in state.files:
                return Action(body=state.files[name][1])
            case ["GET", "v1", "files"] if state.lists:
                rows = [{"id": one, "filename": name} for one, (name, _) in state.files.items()]
                return _json(_page(rows, query))
            case ["GET", "v1", "batches"] if state.lists:
                return _json(_page(state.batches, query))
            case ["GET", "v1", "batches", name]:
                found = [row for row in state.batches if row["id"] == name]
                return _json(state.look(found[0])) if found else fails(404, "no such batch")
        return fails(404, "no such page")


def _page(rows: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
    """One page, newest first; small ones, so that there are several."""
    newest = rows[::-1]
    names = [row["id"] for row in newest]
    begin = names.index(query["after"]) + 1 if "after" in query else 0
    return {"object": "list", "data": newest[begin : begin + 2], "has_more": begin + 2 < len(newest)}


def _uploaded(kind: str, data: bytes) -> tuple[str, bytes]:
    head = f"Content-Type: {kind}\r\n\r\n".encode()
    message = email.parser.BytesParser().parsebytes(head + data)
    named = {part.get_param("name", header="content-disposition"): part for part in message.get_payload()}
    assert named["purpose"].get_payload(decode=True).strip() == b"batch"
    return str(named["file"].get_filename()), named["file"].get_payload(decode=True)
