"""Messages on a byte stream that hostile code may write to as well.

A frame is an 8-byte nonce drawn for this job, one byte of kind, a 4-byte little-endian length, and that
many bytes. In: chunks as they arrive. Out: whole frames in order. Wrong: `FrameError` at the first byte
that cannot belong to a frame, for a frame or a stream beyond its bound; nothing after it is read.
"""

from __future__ import annotations

import struct

_HEAD = struct.Struct("<8scI")
HEAD_BYTES = _HEAD.size


class FrameError(ValueError):
    """The stream holds something other than frames."""


class FrameOverflowError(FrameError):
    """The stream is longer than was allowed."""


def pack(nonce: bytes, kind: bytes, payload: bytes) -> bytes:
    return _HEAD.pack(nonce, kind, len(payload)) + payload


def head(data: bytes) -> tuple[bytes, int]:
    """Return the kind and the length of the payload that a frame's first `HEAD_BYTES` announce."""
    _, kind, size = _HEAD.unpack(data)
    return kind, size


class FrameReader:
    """Cuts a stream into frames and holds at most one unfinished frame."""

    def __init__(self, nonce: bytes, max_bytes: int) -> None:
        self._nonce = nonce
        self._left = max_bytes
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the frames that `data` completes, as (kind, payload)."""
        self._left -= len(data)
        if self._left < 0:
            raise FrameOverflowError(f"more than {self._max_bytes} bytes of results")
        buffer = self._buffer
        buffer += data
        frames = []
        at = 0
        while len(buffer) - at >= HEAD_BYTES:
            nonce, kind, size = _HEAD.unpack_from(buffer, at)
            if nonce != self._nonce:
                raise FrameError("bytes on the result channel that are no frame")
            if size > self._max_bytes:
                raise FrameOverflowError(f"a frame of {size} bytes")
            if len(buffer) - at - HEAD_BYTES < size:
                break
            at += HEAD_BYTES
            frames.append((kind, bytes(buffer[at : at + size])))
            at += size
        del buffer[:at]
        return frames
