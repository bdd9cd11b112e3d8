"""LiveCodeBench's private tests: JSON, or JSON pickled as one string, compressed and written in base64.

Nothing is unpickled. The few bytes around a pickled string are read here, so nothing in a payload can
run, and only as much is decompressed as a row may have.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib

from miner.importers.fields import BadRow

_SKIPPED = {0x80: 1, 0x95: 8, 0x94: 0, ord("q"): 1, ord("r"): 4}
"""Protocol, frame, and the three ways to remember a value: opcode -> bytes of its argument."""
_STRINGS = {ord("X"): "<I", 0x8C: "<B", 0x8D: "<Q"}
"""The three lengths of a string: opcode -> how its length is written."""
_STOP = ord(".")


def unpacked(text: str, max_bytes: int, field: str) -> str:
    """The text that was packed.

    Raises:
        BadRow: it is not base64, not compressed, holds anything but one string, or more than `max_bytes`.
    """
    try:
        data = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise BadRow("bad_payload", f"{field}: neither JSON nor base64") from None
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data, max_bytes + 1)
    except zlib.error:
        raise BadRow("bad_payload", f"{field}: not compressed as published") from None
    if len(plain) > max_bytes:
        raise BadRow("unpacks_too_large", f"{field}: more than {max_bytes} bytes")
    if not stream.eof:
        raise BadRow("bad_payload", f"{field}: ends too early")
    return pickled_text(plain, field)


def pickled_text(data: bytes, field: str) -> str:
    """The string of which a pickle of protocol 2 or later consists.

    Raises:
        BadRow: it holds anything else.
    """
    found: bytes | None = None
    at = 0
    while at < len(data):
        code, at = data[at], at + 1
        if code == _STOP:
            break
        if code in _SKIPPED:
            at += _SKIPPED[code]
        elif code in _STRINGS and found is None:
            start = at + struct.calcsize(_STRINGS[code])
            if start > len(data):
                raise BadRow("bad_payload", f"{field}: ends inside of a string")
            (length,) = struct.unpack(_STRINGS[code], data[at:start])
            found, at = data[start : start + length], start + length
        else:
            raise BadRow("bad_payload", f"{field}: holds more than a string (opcode {code:#04x})")
    else:
        raise BadRow("bad_payload", f"{field}: does not end as published")
    if found is None or at != len(data):
        raise BadRow("bad_payload", f"{field}: holds no string, or more than one")
    try:
        return found.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise BadRow("bad_payload", f"{field}: its string is not UTF-8") from None
