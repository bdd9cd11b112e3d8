"""Files of one JSON object a line, plain or gzipped, read without trust.

Blank lines are no rows. No more of a line is held than the limit; a longer one is told as such.

Errors that concern a whole file are `AssayError`: missing, unreadable, damaged gzip or empty.
"""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from schemas.errors import AssayError

_BLOCK = 1 << 20


def shown(name: str) -> str:
    """A file's name as text that can be stored: bytes that are not UTF-8 are replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def require_file(path: Path) -> None:
    """Refuse what is no regular file: a pipe can hang, is gone after one reading, and a device never ends.

    Raises:
        AssayError: it is a pipe, a socket or a device.
        OSError: it is missing or cannot be looked at.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise AssayError(f"{path}: is a pipe or a device, which cannot be read twice; give a regular file")


def open_source(path: Path) -> IO[bytes]:
    """Open a source file for reading, gunzipped when its name ends in .gz.

    Raises:
        AssayError: it is missing, a folder, a pipe, not readable or empty.
    """
    try:
        require_file(path)
        if path.is_dir():
            raise AssayError(f"{path}: is a folder; give a file")
        if path.stat().st_size == 0:
            raise AssayError(f"{path}: is empty; give a file with one JSON object a line")
        if path.name.endswith(".gz"):
            return cast("IO[bytes]", gzip.open(path, "rb"))
        return path.open("rb")
    except FileNotFoundError:
        raise AssayError(f"{path}: no such file; give a file with one JSON object a line") from None
    except (OSError, ValueError) as error:
        raise AssayError(f"{path}: cannot be read ({error})") from None


def numbered_lines(
    path: Path, max_bytes: int, first: int = 1, offset: int = 0
) -> Iterator[tuple[int, int, bytes | None]]:
    """Every line that is not blank: its number from 1, the byte it starts at, and it without its end, or
    None when it is too long. Reading starts at line `first`, which starts at byte `offset`.

    Raises:
        AssayError: see `open_source`; or the file is damaged.
    """
    with open_source(path) as handle:
        number, at = first - 1, offset
        try:
            handle.seek(offset)
            while line := handle.readline(max_bytes + 2):
                number, start, at = number + 1, at, at + len(line)
                if len(line.rstrip(b"\r\n")) > max_bytes:
                    while line and not line.endswith(b"\n"):
                        line = handle.readline(_BLOCK)
                        at += len(line)
                    yield number, start, None
                elif bare := line.strip():
                    yield number, start, bare
        except (OSError, EOFError, zlib.error) as error:
            raise AssayError(f"{path}: damaged after line {number} ({error}); get the file again") from None
