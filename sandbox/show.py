"""Values and foreign text for people: one line, bounded in length and in time, whatever the value is.

In: a value of the codec's types, or text that hostile code may have made. Out: printable text without line
ends; equal values give equal text (sets are put in order). Wrong: nothing is raised; of a value of any
other type only the type's name is shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sandbox import codec

MAX_CHARACTERS = 120
_MAX_ITEMS = 8
_MAX_LEVELS = 4
_MAX_BITS = 256
# type -> left bracket, right bracket, and what an empty one looks like
_BRACKETS: dict[type, tuple[str, str, str]] = {
    list: ("[", "]", "[]"),
    tuple: ("(", ")", "()"),
    dict: ("{", "}", "{}"),
    set: ("{", "}", "set()"),
    frozenset: ("frozenset({", "})", "frozenset()"),
}


def line(text: str) -> str:
    """Return foreign text as one printable line, cut."""
    words = "".join(one if one.isprintable() else " " for one in text[: 4 * MAX_CHARACTERS]).split()
    shown = " ".join(words)
    return _cut(shown, shorter=len(text) <= 4 * MAX_CHARACTERS)


def show(value: Any) -> str:
    """Return a value about as Python writes it, cut."""
    return _cut(_show(value, 0))


def _cut(text: str, shorter: bool = True) -> str:
    return text if shorter and len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 3] + "..."


def _show(value: Any, level: int) -> str:
    kind = type(value)
    if kind is int:
        # Python refuses to write out very large ones.
        return str(value) if value.bit_length() <= _MAX_BITS else f"an int of {value.bit_length()} bits"
    if kind in (float, complex, bool, type(None)):
        return repr(value)
    if kind in (str, bytes, bytearray):
        rest = len(value) - MAX_CHARACTERS
        return repr(value[:MAX_CHARACTERS]) if rest <= 0 else f"{_cut(repr(value[:60]))} and {rest + 60} more"
    if kind is range:
        return f"range({', '.join(_show(part, level) for part in (value.start, value.stop, value.step))})"
    if kind in (list, tuple, dict, set, frozenset):
        return _container(kind, value, level)
    name = f"{kind.__module__}.{kind.__name__}"
    if name == "collections.deque":
        return f"deque({_container(list, list(value), level)})"
    if name in ("collections.OrderedDict", "collections.Counter", "collections.defaultdict"):
        return f"{kind.__name__}({_container(dict, dict(value), level)})"
    if name == "fractions.Fraction":
        return f"Fraction({_show(value.numerator, level)}, {_show(value.denominator, level)})"
    if name == "decimal.Decimal" or kind.__module__ == "datetime":
        return f"{kind.__name__}({_cut(str(value))})"
    return f"a {kind.__name__}"


def _container(kind: type, value: Any, level: int) -> str:
    left, right, empty = _BRACKETS[kind]
    if not value:
        return empty
    if level == _MAX_LEVELS:
        return "..."
    items: Iterable[Any] = sorted(value, key=_order) if kind in (set, frozenset) else value
    some = [one for one, _ in zip(items, range(_MAX_ITEMS), strict=False)]
    shown = [_show(one, level + 1) for one in some]
    if kind is dict:
        shown = [f"{text}: {_show(value[key], level + 1)}" for text, key in zip(shown, some, strict=True)]
    if len(value) > len(some):
        shown.append(f"and {len(value) - len(some)} more")
    return f"{left}{', '.join(shown)}{',' if kind is tuple and len(value) == 1 else ''}{right}"


def _order(value: Any) -> bytes:
    try:
        return codec.encode(value)
    except codec.EncodeError:
        return b""
