"""Values that an expression spells out, found without running it.

In: a node of `ast`. Out: the value. Wrong: `NotLiteral` for what is not spelled out, or is too large.

Taken: constants, containers, signs, sums and products of such (`10**9`, `"ab" * 50`, `[0] * 8 + [1]`), names
that were given such a value before, and these constructors: set, frozenset, list, tuple, dict, str, int,
float, bool, complex, bytes, bytearray, range, Decimal, Fraction, deque, Counter, OrderedDict.
"""

from __future__ import annotations

import ast
import collections
import decimal
import fractions
from collections.abc import Callable, Mapping
from typing import Any

MAX_VALUES = 20_000
"""Values, characters by the hundred included, that one expression may make."""
_MAX_DEPTH = 40
_MAX_BITS = 4096
_MAX_TEXT = 100_000


class NotLiteral(Exception):
    """An expression whose value is not spelled out, or is too large to be an argument of a test."""


class Reader:
    """Reads expressions of one text.

    Args:
        names: values that names have, each with its size: the values in it, those that it shares counted
            again, since hashing and sending a value counts them so.
        most: values that may be made in all.
    """

    def __init__(self, names: Mapping[str, tuple[Any, int]] | None = None, most: int = MAX_VALUES) -> None:
        self.names = {} if names is None else names
        self.left = most

    def read(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises:
            NotLiteral: it has none that is spelled out.
        """
        try:
            return self._read(node, 0)
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            # Unhashable keys, `1 / "a"`, Decimal("x"): no value in the program either.
            raise NotLiteral("has no value") from None

    def _spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise NotLiteral("too large")

    def _read(self, node: ast.expr, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise NotLiteral("nested too deeply")
        self._spend(1)
        if isinstance(node, ast.Constant):
            return self._constant(node.value)
        if isinstance(node, ast.Name):
            return self._named(node.id)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            items = self._items(node.elts, depth)
            return (
                items
                if isinstance(node, ast.List)
                else tuple(items)
                if isinstance(node, ast.Tuple)
                else set(items)
            )
        if isinstance(node, ast.Dict):
            keys = [key for key in node.keys if key is not None]
            if len(keys) < len(node.keys):
                raise NotLiteral("unpacks a dict")
            return dict(zip(self._items(keys, depth), self._items(node.values, depth), strict=True))
        if isinstance(node, ast.UnaryOp):
            return self._unary(node, depth)
        if isinstance(node, ast.BinOp):
            return self._binary(node, depth)
        if isinstance(node, ast.Call):
            return self._constructed(node, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        raise NotLiteral(f"is a {type(node).__name__}")

    def _constant(self, value: Any) -> Any:
        if isinstance(value, str | bytes):
            self._spend(len(value) // 100)
        elif type(value) is int and value.bit_length() > _MAX_BITS:
            raise NotLiteral("too large")
        elif value is Ellipsis:
            raise NotLiteral("is an ellipsis")
        return value

    def _named(self, name: str) -> Any:
        if name not in self.names:
            raise NotLiteral(f"uses the name {name[:40]}")
        value, size = self.names[name]
        self._spend(size)
        return value

    def _items(self, nodes: list[ast.expr], depth: int) -> list[Any]:
        return [self._read(node, depth + 1) for node in nodes]

    def _unary(self, node: ast.UnaryOp, depth: int) -> Any:
        value = self._read(node.operand, depth + 1)
        if isinstance(node.op, ast.Not) and isinstance(value, bool):
            return not value
        if isinstance(value, int | float | complex | decimal.Decimal | fractions.Fraction):
            if isinstance(node.op, ast.USub):
                return -value
            if isinstance(node.op, ast.UAdd):
                return +value
            if isinstance(node.op, ast.Invert) and isinstance(value, int) and not isinstance(value, bool):
                return ~value
        raise NotLiteral("has a sign that does not fit")

    def _binary(self, node: ast.BinOp, depth: int) -> Any:
        before = self.left
        left, right = self._read(node.left, depth + 1), self._read(node.right, depth + 1)
        size = before - self.left
        if all(isinstance(one, int | float | complex) for one in (left, right)):
            return self._number(node.op, left, right)
        if (
            isinstance(node.op, ast.Add)
            and type(left) is type(right)
            and isinstance(left, str | bytes | list | tuple)
        ):
            self._room(len(left) + len(right), left)
            return left + right
        if isinstance(node.op, ast.Mult):
            many, what = (left, right) if isinstance(left, int) else (right, left)
            if isinstance(many, int) and isinstance(what, str | bytes | list | tuple):
                self._room(len(what) * max(0, many), what)
                # What is repeated is as large as often, wherever it is shared.
                self._spend(0 if isinstance(what, str | bytes) else size * max(0, many))
                return what * many
        raise NotLiteral("is not a sum or product of literals")

    def _room(self, size: int, like: Any) -> None:
        if isinstance(like, str | bytes):
            if size > _MAX_TEXT:
                raise NotLiteral("too large")
            size //= 100
        self._spend(size)

    def _number(self, how: ast.operator, left: Any, right: Any) -> Any:
        whole = isinstance(left, int) and isinstance(right, int)
        if isinstance(how, ast.Pow):
            if not whole or right < 0 or max(1, left.bit_length()) * right > _MAX_BITS:
                raise NotLiteral("too large a power")
            return left**right
        if isinstance(how, ast.LShift) and whole and 0 <= right <= _MAX_BITS:
            return left << right
        if isinstance(how, ast.Add):
            return left + right
        if isinstance(how, ast.Sub):
            return left - right
        if isinstance(how, ast.Mult):
            return left * right
        if isinstance(how, ast.Div):
            return left / right
        if isinstance(how, ast.FloorDiv) and not isinstance(left, complex):
            return left // right
        raise NotLiteral("is arithmetic that is not worked out")

    def _constructed(self, node: ast.Call, depth: int) -> Any:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        maker = _MAKERS.get(name)
        if maker is None:
            raise NotLiteral(f"calls {name[:40] or 'something'}")
        args = self._items(node.args, depth)
        named = {}
        for keyword in node.keywords:
            if keyword.arg is None or name not in ("dict", "OrderedDict"):
                raise NotLiteral(f"gives {name} keywords")
            named[keyword.arg] = self._read(keyword.value, depth + 1)
        for one in args:
            # What is copied is made again; a range is as long as it says.
            self._spend(len(one) if hasattr(one, "__len__") else 0)
        return maker(*args, **named)

    def _attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id in ("math", "np", "numpy"):
            found = {
                "inf": float("inf"),
                "nan": float("nan"),
                "pi": 3.141592653589793,
                "e": 2.718281828459045,
            }
            if node.attr in found:
                return found[node.attr]
        raise NotLiteral("uses an attribute")


def _int(value: Any = 0) -> int:
    # A Decimal of a few characters may be a number of a billion digits.
    if not isinstance(value, int | float | str):
        raise NotLiteral("makes a whole number of something else")
    return int(value)


def _str(value: Any = "") -> str:
    if not isinstance(value, str):
        raise NotLiteral("turns something into text")
    return value


def _fraction(numerator: Any = 0, denominator: Any = 1) -> fractions.Fraction:
    # Of text such as "1e999999999" it would be a number of a billion digits.
    if not (isinstance(numerator, int) and isinstance(denominator, int)):
        raise NotLiteral("makes a fraction of text")
    return fractions.Fraction(numerator, denominator)


def _bytes(value: Any = b"") -> bytes:
    if not isinstance(value, bytes | list | tuple):
        raise NotLiteral("makes bytes of a number or text")
    return bytes(value)


_MAKERS: dict[str, Callable[..., Any]] = {
    "set": set,
    "frozenset": frozenset,
    "list": list,
    "tuple": tuple,
    "dict": dict,
    "str": _str,
    "int": _int,
    "float": float,
    "bool": bool,
    "complex": complex,
    "bytes": _bytes,
    "bytearray": lambda value=b"": bytearray(_bytes(value)),
    "range": range,
    "Decimal": decimal.Decimal,
    "Fraction": _fraction,
    "deque": lambda items=(): collections.deque(items),
    "Counter": lambda items=(): collections.Counter(items),
    "OrderedDict": lambda items=(), **named: collections.OrderedDict(items, **named),
}
