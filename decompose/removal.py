"""Taking a statement out from between others without leaving a mark where it was.

In: a program's bytes and where a statement stands in them. Out: the range to leave out: the statement with
blank space at one of its sides, and with a semicolon that only parts it from others. What is left looks as if
the statement had never been written. Nothing goes wrong: only blanks and such a semicolon are added to it.
"""

from __future__ import annotations

_BLANK = b" \t\f\v"
_SPACE = _BLANK + b"\r\n"


def without(data: bytes, start: int, end: int) -> tuple[int, int]:
    """The range to leave out for a statement at `start` to `end` that is not all that its block holds.

    Where the next line has the same indentation, or the same line goes on, the rest moves to where the
    statement began; else it ended its block, and goes with the blank space above it.
    """
    after = _skip(data, end, _BLANK)
    parted = data[after : after + 1] == b";" and data[end - 1 : end] != b";"
    if parted:
        end = after + 1
        after = _skip(data, end, _BLANK)
    if data[after : after + 1] not in (b"", b"\r", b"\n"):
        return start, after
    line = data.rfind(b"\n", 0, start) + 1
    following = _skip(data, after, _SPACE)
    indent = data[data.rfind(b"\n", 0, following) + 1 : following]
    if following < len(data) and data[line:start] == indent:
        return start, following
    before = len(data[:start].rstrip(_SPACE))
    if not parted and data[before - 1 : before] == b";" and data[end - 1 : end] != b";" and before > line:
        # It parted the statement from the one before it.
        before = len(data[: before - 1].rstrip(_SPACE))
    return before, end


def _skip(data: bytes, at: int, what: bytes) -> int:
    while at < len(data) and data[at] in what:
        at += 1
    return at
