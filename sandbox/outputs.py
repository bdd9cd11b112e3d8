"""Is what a script printed the output that was expected?

In: two texts and a mode. Out: one line on the first difference, or "" where they are alike; both texts are
read to their ends, so that neither a missing nor an extra line is overlooked. Wrong: nothing is raised.

Mode "exact": every character counts. Mode "lines": blanks at the end of a line and empty lines at the end
of all do not count. Mode "tokens": only the parts between blanks and line ends count, and numbers may be
close to each other. Blanks are those of ASCII: a no-break space is output like any other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal, get_args

from sandbox.compare import Rules
from sandbox.show import show

Mode = Literal["exact", "lines", "tokens"]
MODES: tuple[str, ...] = get_args(Mode)

_BLANKS = " \t\r\v\f"
# As ASCII alone: Python's own float() takes underscores and the digits of all scripts.
_NUMBER = re.compile(rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_INTEGER = re.compile(rb"[+-]?\d+")


def difference(got: str, wanted: str, mode: Mode, rules: Rules) -> str:
    """Return the first difference of two outputs; of `rules` only the tolerances matter, to mode "tokens"."""
    if mode == "tokens":
        return _first("token", _tokens(got), _tokens(wanted), rules)
    if mode == "exact":
        return _first("line", got.split("\n"), wanted.split("\n"), None)
    return _first("line", _lines(got), _lines(wanted), None)


def _lines(text: str) -> list[str]:
    lines = [line.rstrip(_BLANKS) for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _tokens(text: str) -> list[bytes]:
    return text.encode("utf-8", "surrogatepass").split()


def _first(what: str, got: Sequence[str | bytes], wanted: Sequence[str | bytes], rules: Rules | None) -> str:
    for number, (one, other) in enumerate(zip_longest(got, wanted), 1):
        if one == other:
            continue
        if one is None:
            return f"{what} {number} is missing: expected {_text(other)}"
        if other is None:
            return f"{what} {number} is one too many: {_text(one)}"
        if rules is None or not _close(one, other, rules):
            return f"{what} {number}: expected {_text(other)}, got {_text(one)}"
    return ""


def _close(got: str | bytes, wanted: str | bytes, rules: Rules) -> bool:
    """Whether two tokens are numbers within the tolerance.

    Two integers are not, however near: they may be long identifiers, or binary digits. Nor are nan and inf,
    and what is too large for a float.
    """
    if isinstance(got, str) or isinstance(wanted, str) or not rules.tolerant:
        return False
    if not _NUMBER.fullmatch(got) or not _NUMBER.fullmatch(wanted):
        return False
    if _INTEGER.fullmatch(got) and _INTEGER.fullmatch(wanted):
        return False
    one, other = float(got), float(wanted)
    return math.isfinite(one) and math.isfinite(other) and rules.equal(one, other)


def _text(piece: str | bytes | None) -> str:
    return show(piece.decode("utf-8", "surrogatepass") if isinstance(piece, bytes) else piece)
