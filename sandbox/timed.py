"""Bytes from a socket with one deadline for all of them.

In: a connected socket. Out: a raw stream for `io.BufferedReader`. Wrong: TimeoutError once `until`, in
monotonic seconds, has passed: a peer that sends a byte now and then cannot hold its reader longer.
"""

from __future__ import annotations

import io
import socket
import time
from typing import Any


class TimedReader(io.RawIOBase):
    def __init__(self, source: socket.socket, until: float) -> None:
        self._source = source
        # The socket stays open as long as this is, even when its owner has closed it.
        self._raw: Any = source.makefile("rb", buffering=0)
        self.until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._source.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
