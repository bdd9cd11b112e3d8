"""Is the value that came back the value that was expected? Decided outside the sandbox.

In: two values of the codec's types. Out: a bool. Types must match exactly (True is not 1, a tuple is not
a list), NaN equals NaN, -0.0 equals 0.0, dicts and sets ignore order, and two `ErrorRecord`s are equal
when they name the same type, for messages are prose. `Rules` states what may be looser.
Wrong: a value of any other type is equal to nothing, so that no foreign `__eq__` is ever asked; nesting
deeper than the stack raises RecursionError (decoded values are never that deep).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sandbox import codec
from sandbox.job import ErrorRecord
from sandbox.names import canonical

# Sets and dicts whose elements have to be paired off one by one may have no more than this; larger ones
# are compared exactly, but for sets of floats, which need no pairing.
MAX_INEXACT_SET = 1000
_NUMBERS = (int, float, complex)
_SEQUENCES = (list, tuple)
_SETS = (set, frozenset)
_PLAIN = (int, str, bool, type(None), bytes, bytearray, range)
_STDLIB = {
    "decimal.Decimal",
    "fractions.Fraction",
    "datetime.date",
    "datetime.datetime",
    "datetime.time",
    "datetime.timedelta",
}
# Types whose equal values have more than one encoding.
_MANY_FORMS = {"decimal.Decimal", "datetime.datetime", "datetime.time"}
# An integer beyond this is nobody's key of an object or array.
_MAX_KEY_BITS = 64


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as equal, besides what is exactly equal.

    rel_tol, abs_tol  two floats (or complex numbers) x, y are close when
                      |x - y| <= max(rel_tol * max(|x|, |y|), abs_tol), as in math.isclose; never two ints
    numeric           int, float and complex may stand for each other (bool may not)
    sequences         list and tuple may stand for each other
    ordered_dicts     the order of a dict's keys counts
    sets_as_lists     a set may be a list or tuple that has each element once, in any order
    text_keys         an int that is the key of a dict may be its decimal text ({1: 2} and {"1": 2})
    arrays            a dict with the keys 0..n-1 may be the list of its values, an empty one an empty list
    Raises ValueError for a tolerance that is negative, NaN or infinite, or a rel_tol of 1 and more, which
    would make every number close to 0.
    """

    rel_tol: float = 0.0
    abs_tol: float = 0.0
    numeric: bool = False
    sequences: bool = False
    ordered_dicts: bool = False
    sets_as_lists: bool = False
    text_keys: bool = False
    arrays: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.rel_tol < 1 or not 0 <= self.abs_tol < math.inf:
            raise ValueError(
                "tolerances must be finite and not negative, rel_tol below 1: "
                f"rel_tol={self.rel_tol!r}, abs_tol={self.abs_tol!r}"
            )

    @classmethod
    def for_language(cls, lang: str, *, rel_tol: float = 0.0, abs_tol: float = 0.0) -> Rules:
        """Return the rules for values that a program in `lang` sends, where a Python value was expected.

        They forgive what the language cannot express, and nothing else; docs/judging.md has the table.
        Raises ValueError for anything but the name, or an alias, of one language.
        """
        if not isinstance(lang, str):
            raise ValueError(f"one language is needed, such as 'python', not {type(lang).__name__} {lang!r}")
        try:
            name = canonical(lang)
        except KeyError:
            raise ValueError(f"no language {lang!r} here: use one of {', '.join(_BY_LANGUAGE)}") from None
        return dataclasses.replace(_BY_LANGUAGE[name], rel_tol=rel_tol, abs_tol=abs_tol)

    @property
    def tolerant(self) -> bool:
        return self.rel_tol > 0 or self.abs_tol > 0

    def equal(self, a: Any, b: Any) -> bool:
        """Return whether `a` equals `b` by these rules; the order of the two does not matter."""
        return _Comparison(self).equal(a, b)


# A static type, not the value, decides between int and float, so that [1, 2.5] comes back as [1.0, 2.5].
_STATIC = Rules(numeric=True, sequences=True)
_BY_LANGUAGE = {
    "python": Rules(),
    # One type for int and float; an Array for list and tuple; an object's keys are text.
    "javascript": Rules(numeric=True, sequences=True, text_keys=True),
    "typescript": Rules(numeric=True, sequences=True, text_keys=True),
    "go": _STATIC,
    # No set either.
    "c": Rules(numeric=True, sequences=True, sets_as_lists=True),
    "cpp": _STATIC,
    "java": _STATIC,
    # Integer and Float are told apart.
    "ruby": Rules(sequences=True),
    "csharp": _STATIC,
    "rust": _STATIC,
    # One type for list, tuple, set and dict, whose key "1" becomes 1; 6 / 2 is an int.
    "php": Rules(numeric=True, sequences=True, sets_as_lists=True, text_keys=True, arrays=True),
}


def equal(
    a: Any,
    b: Any,
    *,
    rel_tol: float = 0.0,
    abs_tol: float = 0.0,
    numeric: bool = False,
    sequences: bool = False,
    ordered_dicts: bool = False,
    sets_as_lists: bool = False,
    text_keys: bool = False,
    arrays: bool = False,
) -> bool:
    """Return whether `a` equals `b`; the options are those of `Rules`, and ValueError is raised as there."""
    rules = Rules(rel_tol, abs_tol, numeric, sequences, ordered_dicts, sets_as_lists, text_keys, arrays)
    return rules.equal(a, b)


class _Comparison:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def equal(self, a: Any, b: Any) -> bool:
        kind = type(a)
        if kind is not type(b):
            return self.across(a, b)
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
        if kind in _PLAIN or _full_name(kind) in _STDLIB:
            return _same(a, b)
        return False

    def across(self, a: Any, b: Any) -> bool:
        """Whether values of two types are equal, which only a rule can make them."""
        kinds = (type(a), type(b))
        rules = self.rules
        if rules.numeric and all(kind in _NUMBERS for kind in kinds):
            return self.number(a, b)
        if rules.sequences and all(kind in _SEQUENCES for kind in kinds):
            return len(a) == len(b) and all(map(self.equal, a, b))
        for one, other in ((a, b), (b, a)):
            if rules.sets_as_lists and type(one) in _SETS and type(other) in _SEQUENCES:
                return self.unordered(list(one), list(other))
            if rules.arrays and type(one) is dict and type(other) in _SEQUENCES:
                values = self.values_of(one)
                return (
                    values is not None and len(values) == len(other) and all(map(self.equal, values, other))
                )
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
        if not self.rules.tolerant or (type(a) is int and type(b) is int):
            return False
        try:
            return math.isclose(a, b, rel_tol=self.rules.rel_tol, abs_tol=self.rules.abs_tol)
        except OverflowError:
            return False

    def mapping(self, a: dict[Any, Any], b: dict[Any, Any]) -> bool:
        if len(a) != len(b):
            return False
        if self.rules.ordered_dicts:
            return all(self.item(*pair) for pair in zip(a.items(), b.items(), strict=True))
        mine = {self.name(key): value for key, value in a.items()}
        theirs = {self.name(key): value for key, value in b.items()}
        # Two NaN are two keys of one name.
        if len(mine) == len(theirs) == len(a) and mine.keys() == theirs.keys():
            return all(self.equal(value, theirs[name]) for name, value in mine.items())
        if len(mine) == len(theirs) == len(a) and not self.rules.tolerant and not any(map(self.loose, a)):
            return False
        return self.paired(list(a.items()), list(b.items()), self.item)

    def item(self, one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
        same = self.name(one[0]) == self.name(other[0]) or self.equal(one[0], other[0])
        return same and self.equal(one[1], other[1])

    def values_of(self, mapping: dict[Any, Any]) -> list[Any] | None:
        """The values of a dict with the keys 0..n-1, in their order; None for another."""
        named = {self.name(key): value for key, value in mapping.items()}
        values = [named.get(self.name(index), mapping) for index in range(len(mapping))]
        # Nothing holds itself: the dict in place of a value marks a key that is not there.
        return None if any(value is mapping for value in values) else values

    def unordered(self, a: list[Any], b: list[Any]) -> bool:
        if len(a) != len(b):
            return False
        if sorted(map(self.key, a)) == sorted(map(self.key, b)):
            return True
        if not self.rules.tolerant:
            return any(map(self.loose, a)) and self.paired(a, b, self.equal)
        if all(type(one) is float for one in itertools.chain(a, b)):
            # Closeness is monotone in each number, so the sorted order pairs off as many as any other.
            return all(map(self.number, _sorted(a), _sorted(b)))
        return self.paired(a, b, self.equal)

    def paired(self, a: list[Any], b: list[Any], alike: Callable[[Any, Any], bool]) -> bool:
        """Whether each of `a` can be given one of `b` that is alike, none twice (augmenting paths)."""
        if len(a) > MAX_INEXACT_SET:
            return False
        owner: list[int | None] = [None] * len(b)
        choices: list[list[int] | None] = [None] * len(a)
        for start in range(len(a)):
            came_from: dict[int, int] = {}
            queue = [start]
            free = None
            for left in queue:
                found = choices[left]
                if found is None:
                    found = choices[left] = [i for i, other in enumerate(b) if alike(a[left], other)]
                for right in found:
                    if right in came_from:
                        continue
                    came_from[right] = left
                    holder = owner[right]
                    if holder is None:
                        free = right
                        break
                    queue.append(holder)
                if free is not None:
                    break
            if free is None:
                return False
            while True:
                left = came_from[free]
                previous = owner.index(left) if left in owner else None
                owner[free] = left
                if previous is None:
                    break
                free = previous
        return True

    def loose(self, value: Any) -> bool:
        """Whether values equal to this one may have another key (see `key`)."""
        kind = type(value)
        if kind in _SEQUENCES or kind is frozenset:
            return (kind is frozenset and self.rules.sets_as_lists) or any(map(self.loose, value))
        return _full_name(kind) in _MANY_FORMS

    def name(self, key: Any) -> bytes:
        """`key` of a dict's key."""
        if self.rules.text_keys and type(key) is int and key.bit_length() <= _MAX_KEY_BITS:
            key = str(key)
        return self.key(key)

    def key(self, value: Any) -> bytes:
        """Bytes that are the same for values that are equal without tolerance; hostile types all differ."""
        try:
            return codec.encode(self.plain(value))
        except codec.EncodeError:
            return b"?" + str(id(value)).encode()

    def plain(self, value: Any) -> Any:
        """One value for all those that the rules, without tolerance, make equal; -0.0 becomes 0.0."""
        kind = type(value)
        if kind is float:
            return int(value) if self.rules.numeric and value.is_integer() else value + 0.0
        if kind is complex:
            if self.rules.numeric and value.imag == 0:
                return self.plain(value.real)
            return complex(value.real + 0.0, value.imag + 0.0)
        if kind is tuple or (kind is list and self.rules.sequences):
            return tuple(map(self.plain, value))
        if kind is frozenset:
            return frozenset(map(self.plain, value))
        return value


def _sorted(numbers: list[float]) -> list[float]:
    """In order, NaN last."""
    return sorted(numbers, key=lambda number: (number != number, number if number == number else 0.0))


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


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"
