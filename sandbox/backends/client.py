"""Servers that are asked over HTTP, one or many, each of which may be slow, broken or hostile.

In: a path and a JSON value. Out: the JSON value of a 200 answer. Wrong: `Busy` where a server asks to come
back later; `Refused` where it says that the request is wrong; `Failed` for everything else: no connection, a
redirect, an answer that is cut, too long, too late, or no JSON. No redirect is followed, so that neither a
program nor the token ever goes to another host than the one that was named.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from sandbox.job import SandboxError
from sandbox.timed import TimedReader

_CHUNK = 1 << 16
_MOST_IDLE = 64
# Values of an answer, counted by the marks between them: each takes some 60 bytes of memory.
_MOST_VALUES = 1_000_000
_MOST_LINE = 300
_FIRST_ASIDE_S, _LONGEST_ASIDE_S = 0.05, 60.0
# What a job waits at most for a server that failed, where there is no other.
_MOST_WAIT_S = 2.0
_MOST_RETRY_AFTER_S = 10.0


class Failed(Exception):
    """The server gave no answer that can be used; another try, or another server, may."""


class Busy(Failed):
    """The server asks to be left alone for `after_s` seconds."""

    def __init__(self, text: str, after_s: float) -> None:
        super().__init__(text)
        self.after_s = after_s


class Refused(Exception):
    """The server says that the request is wrong, so it would be wrong again."""


class Server:
    """One server. Any number of threads may ask it."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise SandboxError(f"url {url!r} must be like http://host:port or https://host")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise SandboxError("url must hold no password, query or fragment: give a token")
        if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token):
            raise SandboxError("token must be printable ASCII without spaces at its ends")
        self.url = url
        # What those who ask have found out: how it is asked, and whether it gives files.
        self.protocol = ""
        self.gives_files = True
        self._host, self._port = parts.hostname, port
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Accept-Encoding": "identity", "User-Agent": "sandbox"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []
        self._owner = os.getpid()
        self._context = ssl.create_default_context() if parts.scheme == "https" else None
        self.failures = 0
        self.aside_until = 0.0
        self.busy = False

    def ask(self, method: str, path: str, value: Any, until: float, most: int) -> Any:
        """Return the answer's JSON value; `until` is in monotonic seconds, `most` in bytes."""
        body = None if value is None else json.dumps(value).encode("ascii")
        with self._lock:
            if self._owner != os.getpid():
                # In a fork of the process that made them the connections are the parent's.
                self._owner, self._idle = os.getpid(), []
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            try:
                return self._ask(connection, method, path, body, until, most)
            except _StaleError:
                pass  # it was closed while nobody looked
        try:
            return self._ask(self._connection(), method, path, body, until, most)
        except _StaleError as error:
            raise Failed(f"{self.url}: {error}") from None

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def put_aside(self) -> None:
        """Leave it alone for a while, longer each time."""
        with self._lock:
            self.failures += 1
            self.busy = False
            pause = min(_LONGEST_ASIDE_S, _FIRST_ASIDE_S * 2 ** min(self.failures, 20))
            self.aside_until = time.monotonic() + pause * random.uniform(0.5, 1.0)  # noqa: S311

    def rest(self, seconds: float) -> None:
        """Do as it asks, but not all at the same moment."""
        with self._lock:
            self.busy = True
            self.aside_until = time.monotonic() + seconds * random.uniform(1.0, 1.5)  # noqa: S311

    def answered(self) -> None:
        with self._lock:
            self.failures = 0
            self.aside_until = 0.0

    def _connection(self) -> _Connection:
        if self._context is not None:
            return _SecureConnection(self._host, self._port, context=self._context)
        return _Connection(self._host, self._port)

    def _ask(
        self, connection: _Connection, method: str, path: str, body: bytes | None, until: float, most: int
    ) -> Any:
        kept = False
        fresh = connection.sock is None
        try:
            connection.until = until
            connection.timeout = max(0.001, until - time.monotonic())
            headers = dict(self._headers)
            if body is not None:
                headers["Content-Type"] = "application/json"
            try:
                if connection.sock is not None:
                    connection.sock.settimeout(connection.timeout)
                connection.request(method, self._prefix + path, body, headers)
                response = connection.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
                if fresh:
                    raise
                raise _StaleError(str(error)) from None
            data = _body(response, most)
            kept = not response.will_close and response.isclosed()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Failed(f"{self.url}: {_line(f'{type(error).__name__}: {error}')}") from None
        finally:
            with self._lock:
                kept = kept and len(self._idle) < _MOST_IDLE
                if kept:
                    self._idle.append(connection)
            if not kept:
                connection.close()
        return self._value(response, data)

    def _value(self, response: http.client.HTTPResponse, data: bytes) -> Any:
        status = response.status
        if status == 200:
            try:
                return _json(data)
            except (ValueError, RecursionError) as error:
                raise Failed(f"{self.url}: an answer that is no JSON: {_line(str(error))}") from None
        said = f"{self.url}: HTTP {status} {_line(data[:4096].decode('utf-8', 'replace'))}".rstrip()
        if status in (429, 503):
            raise Busy(said, _seconds(response.getheader("Retry-After")))
        if status in (301, 302, 303, 307, 308):
            raise Failed(f"{self.url}: it redirects, and no redirect is followed: give the final url")
        if 400 <= status < 500 and status != 408:
            raise Refused(said)
        raise Failed(said)


class Fleet:
    """Servers by turns; one that failed is put aside for a while, longer each time."""

    def __init__(self, urls: Sequence[str], token: str | None) -> None:
        if not urls:
            raise SandboxError("backend 'remote' needs a url, such as http://127.0.0.1:8080")
        self.servers = [Server(url, token) for url in dict.fromkeys(urls)]
        self._lock = threading.Lock()
        self._turn = 0

    def next(self, can: Callable[[Server], bool]) -> tuple[Server | None, float]:
        """Return the server whose turn it is among those that can, and the seconds to wait before."""
        with self._lock:
            self._turn += 1
            order = [self.servers[(self._turn + at) % len(self.servers)] for at in range(len(self.servers))]
        able = [server for server in order if can(server)]
        if not able:
            return None, 0.0
        now = time.monotonic()
        ready = [server for server in able if server.aside_until <= now]
        chosen = ready[0] if ready else min(able, key=lambda server: server.aside_until)
        wait_s = max(0.0, chosen.aside_until - now)
        return chosen, wait_s if chosen.busy else min(wait_s, _MOST_WAIT_S)

    def close(self) -> None:
        for server in self.servers:
            server.close()


class _StaleError(Exception):
    """A kept connection turned out to be closed before anything was answered."""


class _Connection(http.client.HTTPConnection):
    until = 0.0

    def response_class(self, sock: Any, *args: Any, **options: Any) -> http.client.HTTPResponse:  # type: ignore[override]
        return http.client.HTTPResponse(_Timed(sock, self.until), *args, **options)  # type: ignore[arg-type]


class _SecureConnection(_Connection, http.client.HTTPSConnection):
    pass


class _Timed:
    """A socket whose files keep one deadline for all that is read."""

    def __init__(self, source: socket.socket, until: float) -> None:
        self._source, self._until = source, until

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(TimedReader(self._source, self._until), _CHUNK)


def _body(response: http.client.HTTPResponse, most: int) -> bytes:
    if response.length is not None and response.length > most:
        raise ValueError(f"an answer of {response.length} bytes; at most {most} are taken")
    parts = bytearray()
    while part := response.read1(_CHUNK):
        parts += part
        if len(parts) > most:
            raise ValueError(f"an answer of more than {most} bytes")
    if response.length:
        raise ValueError("an answer that ended early")
    with contextlib.suppress(OSError):
        response.close()
    return bytes(parts)


def _json(data: bytes) -> Any:
    if sum(data.count(mark) for mark in (b"[", b"{", b",")) > _MOST_VALUES:
        raise ValueError("too many values")
    return json.loads(data.decode("utf-8"))


def _seconds(text: str | None) -> float:
    try:
        return min(max(float(text or 1.0), 0.0), _MOST_RETRY_AFTER_S)
    except ValueError:
        return 1.0


def _line(text: str) -> str:
    return " ".join(text.split())[:_MOST_LINE]
