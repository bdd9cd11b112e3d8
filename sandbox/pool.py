"""Keeps warm servers for jobs, each for the settings it was made with.

In: settings. Out: a server for the time of one job. Wrong: what `Server` raises when it cannot be made.
Any number of threads may borrow at once; a server has one job at a time. Idle servers beyond `most` are
closed, those not used for the longest time first. In a fork of its process a pool begins empty.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator

from sandbox.server import Server, Settings


class Pool:
    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._idle: list[Server] = []
        self._busy: set[Server] = set()
        self._owner = os.getpid()
        self._closed = False
        # At the interpreter's end too: a keeper would notice by itself, but nobody would wait for it.
        self._at_end = weakref.finalize(self, _close_all, self._idle)

    @contextlib.contextmanager
    def borrow(self, settings: Settings) -> Iterator[Server]:
        """Lend a server; one that broke meanwhile is closed instead of kept."""
        server = self._take(settings)
        try:
            yield server
        finally:
            self._give_back(server)

    def close(self) -> None:
        """Close all servers that nobody has at the moment, and the others when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle[:] = list(self._idle), []
        _close_all(idle)

    def _take(self, settings: Settings) -> Server:
        dead: list[Server] = []
        try:
            with self._lock:
                if self._owner != os.getpid():
                    self._forget()
                for index in range(len(self._idle) - 1, -1, -1):
                    if self._idle[index].settings == settings:
                        server = self._idle.pop(index)
                        if server.alive():
                            self._busy.add(server)
                            return server
                        dead.append(server)
        finally:
            _close_all(dead)
        server = Server(settings)
        with self._lock:
            self._busy.add(server)
        return server

    def _give_back(self, server: Server) -> None:
        spare: list[Server] = []
        with self._lock:
            self._busy.discard(server)
            if server.broken or self._closed:
                spare.append(server)
            else:
                self._idle.append(server)
                while len(self._idle) > self.most:
                    spare.append(self._idle.pop(0))
        _close_all(spare)

    def _forget(self) -> None:
        for server in (*self._idle, *self._busy):
            server.forget()
        self._idle.clear()
        self._busy.clear()
        self._owner = os.getpid()


def _close_all(servers: list[Server]) -> None:
    for server in list(servers):
        server.close()
    servers.clear()
