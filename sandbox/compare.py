"""Is the value that came back the value that was expected? Decided outside the sandbox.

In: two values of the codec's types. Out: a bool. Types must match exactly (True is not 1, a tuple is not
a list), NaN equals NaN, -0.0 equals 0.0, dicts and sets ignore order, and two `ErrorRecord`s are equal
when they name the same type, for messages are prose. Wrong: a value of any other type is equal to
nothing, so that no foreign `__eq__` is ever asked; nesting deeper than the stack raises RecursionError.
"""

from __future__ import annotations

import math
from typing import Any

from sandbox import codec
from sandbox.job import ErrorRecord

# Inexact sets are matched pair by pair; beyond this size only exact equality is tried.
MAX_INEXACT_SET = 1000
_NUMBERS = (int, float, complex)
_PLAIN = (int, str, bool, type(None), bytes, bytearray, range)
_STDLIB = {
    "decimal.Decimal",
    "fractions.Fraction",
    "datetime.date",
    "datetime.datetime",
    "datetime.time",
    "datetime.timedelta",
}


def equal(a: Any, b: Any, *, rel_tol: float = 0.0, abs_tol: float = 0.0, numeric: bool = False) -> bool:
    """Return whether `a` equals `b`.

    rel_tol, abs_tol  two floats (or complex numbers) x, y are close when
                      |x - y| <= max(rel_tol * max(|x|, |y|), abs_tol), as in math.isclose
    numeric           int, float and complex may stand for each other (bool may not)
    Raises ValueError for a negative tolerance or NaN.
    """
    if not rel_tol >= 0 or not abs_tol >= 0:
        raise ValueError(f"tolerances must not be negative: rel_tol={rel_tol!r}, abs_tol={abs_tol!r}")
    return _Comparison(rel_tol, abs_tol, numeric).equal(a, b)


class _Comparison:
    def __init__(self, rel_tol: float, abs_tol: float, numeric: bool) -> None:
        self.rel_tol = rel_tol
        self.abs_tol = abs_tol
        self.numeric = numeric
        self.inexact = rel_tol > 0 or abs_tol > 0

    def equal(self, a: Any, b: Any) -> bool:
        kind = type(a)
        if kind is not type(b):
            return self.numeric and kind in _NUMBERS and type(b) in _NUMBERS and self.number(a, b)
        if kind is float or kind is complex:
            return self.number(a, b)
        if kind is list or kind is tuple or _is(kind, "deque"):
            return len(a) == len(b) and all(map(self.equal, a, b))
        if kind is dict or _is(kind, "OrderedDict", "Counter", "defaultdict"):
            return self.mapping(a, b)
        if kind is set or kind is frozenset:
            return self.unordered(list(a), list(b))
        if kind is ErrorRecord:
            return bool(a.type == b.type and a.raised == b.raised)
        if kind in _PLAIN or f"{kind.__module__}.{kind.__name__}" in _STDLIB:
            return _same(a, b)
        return False

    def number(self, a: Any, b: Any) -> bool:
        if isinstance(a, complex) or isinstance(b, complex):
            try:
                a, b = complex(a), complex(b)
            except OverflowError:
                return False
            return self.number(a.real, b.real) and self.number(a.imag, b.imag)
        if a == b or (a != a and b != b):
            return True
        if not self.inexact or (type(a) is int and type(b) is int):
            return False
        try:
            return math.isclose(a, b, rel_tol=self.rel_tol, abs_tol=self.abs_tol)
        except OverflowError:
            return False

    def mapping(self, a: dict[Any, Any], b: dict[Any, Any]) -> bool:
        if len(a) != len(b):
            return False
        theirs = {_key(key): value for key, value in b.items()}
        if all(_key(key) in theirs for key in a):
            return all(self.equal(value, theirs[_key(key)]) for key, value in a.items())
        return (self.inexact or self.numeric) and self.unordered(list(a.items()), list(b.items()))

    def unordered(self, a: list[Any], b: list[Any]) -> bool:
        if len(a) != len(b):
            return False
        if sorted(map(_key, a)) == sorted(map(_key, b)):
            return True
        if not (self.inexact or self.numeric) or len(a) > MAX_INEXACT_SET:
            return False
        left = list(b)
        for item in a:
            for index, other in enumerate(left):
                if self.equal(item, other):
                    del left[index]
                    break
            else:
                return False
        return True


def _same(a: Any, b: Any) -> bool:
    if type(a) in _PLAIN:
        return bool(a == b)
    try:
        # The codec knows these types by identity: what it refuses only claims the name.
        return bool(codec.encode(a) == codec.encode(b) or a == b)
    except (codec.EncodeError, ArithmeticError):
        return False


def _is(kind: type, *names: str) -> bool:
    return kind.__module__ == "collections" and kind.__name__ in names and type(kind) is type


def _key(value: Any) -> bytes:
    """Bytes that are the same for values that are equal exactly, with -0.0 made 0.0; hostile types differ."""
    try:
        return codec.encode(_plain(value))
    except codec.EncodeError:
        return b"?" + str(id(value)).encode()


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is float:
        return value + 0.0
    if kind is complex:
        return complex(value.real + 0.0, value.imag + 0.0)
    if kind is tuple:
        return tuple(map(_plain, value))
    if kind is frozenset:
        return frozenset(map(_plain, value))
    return value
