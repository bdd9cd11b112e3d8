"""What the service of a sandbox answers to one HTTP request: the checks, the reading, the writing.

In: connections, and the `Service` that they are for. Out: JSON. Wrong: a request that cannot be answered is
`Refused` with a status and one line; a client that stops reading or writing is let go after a while.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import hmac
import io
import json
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from sandbox import fusion, wire
from sandbox.codec import EncodeError
from sandbox.job import Job, Limits, Result, SandboxError
from sandbox.timed import TimedReader

if TYPE_CHECKING:
    from sandbox.service import Service

# How long a client may take to send its request, or to receive the answer; and to send the next one.
READ_S = 30.0
IDLE_S = 60.0
_CONNECTIONS = 256
_RETRY_AFTER_S = 1
_MOST_LINE = 300
_MOST_VALUES = 1_000_000
_LINGER_S = 1.0


class Refused(Exception):
    """A request that is answered with an error: status, one line, whether the connection can go on."""

    def __init__(self, status: int, text: str, go_on: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.text = " ".join(text.split())[:_MOST_LINE]
        self.go_on = go_on


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], service: Service) -> None:
        self.service = service
        self._open: set[Any] = set()
        self._lock = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler)

    def server_bind(self) -> None:
        # Without looking up the machine's full name, which can take long and is not used.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            room = len(self._open) < _CONNECTIONS
            if room:
                self._open.add(request)
        if room:
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.settimeout(1.0)
            request.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        super().shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's concern; what else goes wrong is told in one line."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            print(f"sandbox service: {type(error).__name__}: {error}", file=sys.stderr)

    def close_all(self) -> None:
        with self._lock:
            for request in self._open:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "sandbox"
    sys_version = ""
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._timed = TimedReader(self.connection, time.monotonic() + IDLE_S)
        self.rfile = io.BufferedReader(self._timed, 1 << 16)

    def handle_one_request(self) -> None:
        self._timed.until = time.monotonic() + IDLE_S
        super().handle_one_request()

    def log_message(self, *_: Any) -> None:
        """Nothing is logged: a client could fill the disk."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        # A version that is not known counts as one that has no status line.
        self.request_version = self.protocol_version
        self._refuse(Refused(code, message or "a request that makes no sense"))

    def do_GET(self) -> None:
        self._answer(
            {
                "/health": self._health,
                "/v1/ping": lambda: "pong",
                "/metrics": self.server.service.metrics,
            },
            open_to_all=("/health", "/v1/ping"),
        )

    def do_POST(self) -> None:
        self._answer({"/run_code": self._run_code, "/jobs": self._jobs})

    def _answer(self, routes: dict[str, Callable[[], Any]], open_to_all: Sequence[str] = ()) -> None:
        try:
            if "Origin" in self.headers:
                # A page of somebody's could use its reader's browser to get here.
                raise Refused(403, "browsers are not served")
            path = self.path.partition("?")[0]
            if path not in routes:
                raise Refused(404, f"no {self.command} {path[:80]} here")
            if path not in open_to_all:
                self._check_token()
            if self.command == "GET":
                self._send(200, routes[path]())
                return
            service = self.server.service
            with service.admit() as room:
                if service.stopping:
                    raise Refused(503, "the service is stopping")
                if not room:
                    raise Refused(429, "all workers are busy and the queue is full")
                self._send(200, routes[path]())
        except Refused as error:
            self._refuse(error)
        except TimeoutError:
            self._refuse(Refused(408, "the request took too long"))

    def _check_token(self) -> None:
        token = self.server.service.token
        if token is None:
            return
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            raise Refused(401, "no token, or a wrong one")

    def _health(self) -> dict[str, Any]:
        service = self.server.service
        if service.stopping:
            raise Refused(503, "the service is stopping")
        return {"service": "sandbox", "jobs": 1, "ok": True, "workers": service.workers}

    def _body(self) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise Refused(415, "Content-Type must be application/json")
        sizes = {text.strip() for text in self.headers.get_all("Content-Length", [])}
        if "Transfer-Encoding" in self.headers or not sizes:
            raise Refused(411, "Content-Length is needed")
        text = sizes.pop()
        if sizes or not text.isascii() or not text.isdigit() or len(text) > 18:
            raise Refused(400, "Content-Length makes no sense")
        size = int(text)
        if size > self.server.service.max_body:
            raise Refused(413, f"a body of {size} bytes; at most {self.server.service.max_body} are taken")
        self._timed.until = time.monotonic() + READ_S
        body = self.rfile.read(size)
        if len(body) < size:
            raise Refused(400, "the body ended early")
        return _record(body)

    def _jobs(self) -> dict[str, Any]:
        body = self._body()
        if set(body) != {"job"} or type(body["job"]) is not str:
            raise Refused(400, 'the body must be {"job": "<base64>"}', go_on=True)
        try:
            sent = base64.b64decode(body["job"], validate=True)
            job = wire.decode_job(sent)
        except (ValueError, binascii.Error) as error:
            raise Refused(400, f"the job: {error}", go_on=True) from None
        self._check_limits(job.limits)
        result = self._run(job)
        try:
            data = wire.encode_result(result)
        except EncodeError as error:
            data = wire.encode_result(Result("infra_error", detail=f"the result cannot be sent: {error}"))
        return {"of": wire.key(sent), "result": base64.b64encode(data).decode("ascii")}

    def _run_code(self) -> dict[str, Any]:
        try:
            job = fusion.job_of(self._body(), self.server.service.most)
        except ValueError as error:
            raise Refused(400, str(error), go_on=True) from None
        return fusion.answer_of(job.lang, self._run(job))

    def _check_limits(self, limits: Limits) -> None:
        for field in dataclasses.fields(Limits):
            asked, most = getattr(limits, field.name), getattr(self.server.service.most, field.name)
            if asked > most:
                raise Refused(
                    400, f"limits.{field.name} {asked:g} is more than {most:g}, the most here", True
                )

    def _run(self, job: Job) -> Result:
        try:
            return self.server.service.run(job)
        except (SandboxError, EncodeError, ValueError) as error:
            raise Refused(400, f"the job cannot be run here: {error}", go_on=True) from None

    def _refuse(self, error: Refused) -> None:
        if not error.go_on:
            self.close_connection = True
        self._send(error.status, {"error": error.text})
        if not error.go_on:
            self._linger()

    def _send(self, status: int, content: Any) -> None:
        kind = "application/json"
        if isinstance(content, str) and content.startswith("#"):
            kind, body = "text/plain; version=0.0.4", content.encode()
        else:
            body = json.dumps(content).encode("ascii")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status == 429:
            self.send_header("Retry-After", str(_RETRY_AFTER_S))
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.connection.settimeout(READ_S)
        self.wfile.write(body)

    def _linger(self) -> None:
        """Read on for a moment: a socket closed with bytes unread takes the answer back."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self._timed.until = time.monotonic() + _LINGER_S
            left = self.server.service.max_body
            while left > 0 and (part := self.rfile.read1(1 << 16)):
                left -= len(part)


def _record(body: bytes) -> dict[str, Any]:
    """The JSON object that `body` is; one that would take much more memory than it has bytes is refused."""
    if sum(body.count(mark) for mark in (b"[", b"{", b",")) > _MOST_VALUES:
        raise Refused(413, "the body holds too many values", go_on=True)
    try:
        value = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is no JSON: {error}", go_on=True) from None
    if type(value) is not dict:
        raise Refused(400, "the body must be a JSON object", go_on=True)
    return value
