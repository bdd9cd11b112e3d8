"""Values as bytes, for exact builtin types only: no pickle, no eval, no object of anyone's own class.

In: a value built of None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set,
frozenset, range, and of the standard library's Decimal, Fraction, date, time, datetime (naive or UTC
offset), timedelta, deque, OrderedDict, Counter and defaultdict (without its factory).
Out: bytes; `decode(encode(v))` has the same types and contents. Equal values have equal bytes where
their order is equal: sets are sorted by their elements' bytes, every NaN is one NaN.
Wrong: `EncodeError` for any other type (a subclass too: it could lie about itself), for a cycle, and
past the depth, node or byte bound; `DecodeError` for bytes that `encode` cannot have made. Decoding
takes memory in proportion to its input, whatever that input claims, and never runs code from it.

Layout: one tag byte a value. Lengths and counts are unsigned LEB128. Integers are a length and
little-endian two's complement. Floats are IEEE 754 big-endian. Text is UTF-8 with surrogates let through.
"""

from __future__ import annotations

import struct
import sys

TYPE_CHECKING = False  # importing typing would cost more than the rest of the launcher
if TYPE_CHECKING:
    from typing import Any

MAX_DEPTH = 100
MAX_NODES = 1_000_000
MAX_BYTES = 64 << 20
# Set elements and dict keys that share one hash make building the container quadratic.
MAX_SAME_HASH = 64
# A Fraction is reduced when it is made, which is quadratic in its length.
MAX_FRACTION_BYTES = 1024

# What a container weighs in values, since an empty one takes few bytes here and many in memory.
_WEIGHT = {b"S": 4, b"Z": 4, b"m": 4, b"o": 6, b"k": 6, b"f": 6, b"q": 14}

_NODES = {tag: 1 + weight for tag, weight in _WEIGHT.items()}
_CONSTANTS = {b"N": None, b"T": True, b"F": False}
# The lengths that nearly all values have, as the one byte that each takes.
_SHORT = [bytes([number]) for number in range(128)]

_DOUBLE = struct.Struct(">d")
_COMPLEX = struct.Struct(">dd")
_NAN = bytes.fromhex("7ff8000000000000")


class EncodeError(ValueError):
    """The value is not one of the codec's types, or is past a bound."""


class DecodeError(ValueError):
    """The bytes are not the encoding of a value, or are past a bound."""


def encode(value: Any, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> bytes:
    """Return `value` as bytes. Raises EncodeError; never calls code of the value's own."""
    out = bytearray()
    try:
        _Encoder(out, max_bytes, max_depth).put(value, 0)
    except RecursionError:
        raise EncodeError("nested too deeply for the stack that is left") from None
    return bytes(out)


def decode(data: bytes | bytearray | memoryview, *, max_depth: int = MAX_DEPTH) -> Any:
    """Return the value that `data` encodes, all of it. Raises DecodeError and nothing else."""
    return decode_counted(data, max_depth=max_depth)[0]


def decode_counted(
    data: bytes | bytearray | memoryview, *, max_depth: int = MAX_DEPTH, max_nodes: int = MAX_NODES
) -> tuple[Any, int]:
    """Like `decode`, and say how many values it took, containers by weight: about 60 bytes of memory each."""
    if len(data) > MAX_BYTES:
        raise DecodeError(f"{len(data)} bytes are more than {MAX_BYTES}")
    reader = _Decoder(bytes(data), max_depth, max_nodes)
    try:
        value = reader.take(0)
    except DecodeError:
        raise
    except RecursionError:
        raise DecodeError("nested too deeply for the stack that is left") from None
    except (ValueError, TypeError, OverflowError, ArithmeticError) as error:
        raise DecodeError(f"bytes that encode no value: {error}") from None
    if reader.at != len(reader.data):
        raise DecodeError(f"{len(reader.data) - reader.at} bytes follow the value")
    return value, reader.nodes


def _varint(number: int) -> bytes:
    if number < 128:
        return _SHORT[number]
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _stdlib(module: str, name: str) -> Any:
    """The class, if its module has been imported: a value of it cannot exist otherwise."""
    loaded = sys.modules.get(module)
    return None if loaded is None else getattr(loaded, name, None)


class _Encoder:
    def __init__(self, out: bytearray, max_bytes: int, max_depth: int) -> None:
        self.out = out
        self.max_bytes = max_bytes
        self.max_depth = max_depth
        self.nodes = 0

    def put(self, value: Any, depth: int) -> None:
        out = self.out
        kind = type(value)
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise EncodeError(f"more than {MAX_NODES} values")
        if kind is int:
            self.integer(value)
        elif kind is str:
            self.blob(b"s", value.encode("utf-8", "surrogatepass"))
        elif value is None:
            out += b"N"
        elif kind is bool:
            out += b"T" if value else b"F"
        elif kind is float:
            out += b"d"
            self.double(value)
        elif kind is list or kind is tuple:
            self.deeper(depth)
            self.room(len(value))
            self.head(b"l" if kind is list else b"t", len(value))
            for item in value:
                self.put(item, depth + 1)
        elif kind is dict:
            self.mapping(b"m", value, depth)
        elif kind is set or kind is frozenset:
            self.deeper(depth)
            self.room(len(value))
            self.unordered(b"S" if kind is set else b"Z", value, depth)
        elif kind is bytes or kind is bytearray:
            self.blob(b"b" if kind is bytes else b"a", value)
        elif kind is complex:
            out += b"c"
            self.double(value.real)
            self.double(value.imag)
        elif kind is range:
            out += b"r"
            for number in (value.start, value.stop, value.step):
                self.integer(number)
        else:
            self.other(kind, value, depth)
        if len(out) > self.max_bytes:
            raise EncodeError(f"larger than {self.max_bytes} bytes")

    def deeper(self, depth: int) -> None:
        # A cycle has no end, so this bound finds it too.
        if depth >= self.max_depth:
            raise EncodeError(f"nested deeper than {self.max_depth}, or a cycle")

    def room(self, count: int) -> None:
        # Told before the first item: a program that made millions has spent its time on them already.
        if self.nodes + count > MAX_NODES:
            raise EncodeError(f"more than {MAX_NODES} values")

    def head(self, tag: bytes, count: int) -> None:
        self.nodes += _WEIGHT.get(tag, 0)
        self.out += tag + _varint(count)

    def blob(self, tag: bytes, data: bytes | bytearray) -> None:
        if len(data) > self.max_bytes:
            raise EncodeError(f"larger than {self.max_bytes} bytes")
        self.out += tag + _varint(len(data))
        self.out += data

    def integer(self, value: int) -> None:
        size = value.bit_length() // 8 + 1
        if size > self.max_bytes:
            raise EncodeError(f"larger than {self.max_bytes} bytes")
        self.out += b"i" + _varint(size) + value.to_bytes(size, "little", signed=True)

    def double(self, value: float) -> None:
        self.out += _DOUBLE.pack(value) if value == value else _NAN

    def mapping(self, tag: bytes, value: dict[Any, Any], depth: int) -> None:
        self.deeper(depth)
        self.room(2 * len(value))
        self.head(tag, len(value))
        for key, item in value.items():
            self.put(key, depth + 1)
            self.put(item, depth + 1)

    def unordered(self, tag: bytes, items: Any, depth: int) -> None:
        outer = self.out
        parts = []
        size = len(outer)
        for item in items:
            self.out = bytearray()
            self.put(item, depth + 1)
            parts.append(bytes(self.out))
            size += len(self.out)
            if size > self.max_bytes:
                raise EncodeError(f"larger than {self.max_bytes} bytes")
        self.out = outer
        self.head(tag, len(parts))
        for part in sorted(parts):
            outer += part

    def other(self, kind: type, value: Any, depth: int) -> None:
        if kind is _stdlib("decimal", "Decimal"):
            self.blob(b"D", str(value).encode())
        elif kind is _stdlib("fractions", "Fraction"):
            self.out += b"Q"
            for number in (value.numerator, value.denominator):
                if type(number) is not int:
                    raise EncodeError("a Fraction of something other than int")
                if number.bit_length() >= 8 * MAX_FRACTION_BYTES:
                    raise EncodeError(f"a Fraction part larger than {MAX_FRACTION_BYTES} bytes")
                self.integer(number)
        elif kind is _stdlib("datetime", "timedelta"):
            self.out += b"e"
            for number in (value.days, value.seconds, value.microseconds):
                self.integer(number)
        elif kind is _stdlib("datetime", "date"):
            self.blob(b"y", value.isoformat().encode())
        elif kind is _stdlib("datetime", "datetime") or kind is _stdlib("datetime", "time"):
            zone = value.tzinfo
            if zone is not None and type(zone) is not _stdlib("datetime", "timezone"):
                raise EncodeError("a time zone other than datetime.timezone")
            text = value.isoformat() + ("@" if value.fold else "")
            self.blob(b"w" if kind is _stdlib("datetime", "datetime") else b"u", text.encode())
        elif kind is _stdlib("collections", "deque"):
            self.deeper(depth)
            if value.maxlen is not None:
                raise EncodeError("a deque with maxlen")
            self.room(len(value))
            self.head(b"q", len(value))
            for item in value:
                self.put(item, depth + 1)
        elif kind is _stdlib("collections", "OrderedDict"):
            self.mapping(b"o", value, depth)
        elif kind is _stdlib("collections", "Counter"):
            self.mapping(b"k", value, depth)
        elif kind is _stdlib("collections", "defaultdict"):
            self.mapping(b"f", value, depth)
        else:
            raise EncodeError(f"a value of type {_name(kind)}, which has no encoding")


def _name(kind: type) -> str:
    """The type's name without its own metaclass having a say, safe to print."""
    name = type.__getattribute__(kind, "__name__")
    return name[:100].encode("ascii", "backslashreplace").decode() if type(name) is str else "?"


class _Decoder:
    def __init__(self, data: bytes, max_depth: int, max_nodes: int) -> None:
        self.data = data
        self.size = len(data)
        self.at = 0
        self.max_depth = max_depth
        self.max_nodes = max_nodes
        self.nodes = 0

    def take(self, depth: int) -> Any:
        tag = self.raw(1)
        self.nodes += _NODES.get(tag, 1)
        if self.nodes > self.max_nodes:
            raise DecodeError(f"more than {self.max_nodes} values")
        if tag == b"i":
            return self.integer_body()
        if tag == b"s":
            return self.blob().decode("utf-8", "surrogatepass")
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag == b"d":
            return self.double()
        if tag in b"ltSZq":
            return self.sequence(tag, depth)
        if tag in b"mokf":
            return self.mapping(tag, depth)
        if tag in b"ba":
            data = self.blob()
            return data if tag == b"b" else bytearray(data)
        if tag == b"c":
            return complex(self.double(), self.double())
        if tag == b"r":
            return range(self.integer(), self.integer(), self.integer())
        return self.other(tag)

    def raw(self, size: int) -> bytes:
        at = self.at
        self.at = end = at + size
        if end > self.size:
            raise DecodeError("cut off")
        return self.data[at:end]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.raw(1)[0]
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > 35:
                raise DecodeError("a length of more than five bytes")

    def count(self, each: int) -> int:
        """A count of items of at least `each` bytes: a claim larger than the input is refused unread."""
        at = self.at
        if at < self.size and (number := self.data[at]) < 128:
            self.at = at + 1
        else:
            number = self.varint()
        if number * each > self.size - self.at:
            raise DecodeError("cut off")
        return number

    def room(self, count: int, each: int) -> int:
        if self.nodes + count * each > self.max_nodes:
            raise DecodeError(f"more than {self.max_nodes} values")
        return count

    def blob(self) -> bytes:
        size = self.count(1)
        at = self.at
        self.at = at + size
        return self.data[at : at + size]

    def integer(self) -> int:
        if self.raw(1) != b"i":
            raise DecodeError("an integer was due")
        return self.integer_body()

    def integer_body(self) -> int:
        return int.from_bytes(self.blob(), "little", signed=True)

    def double(self) -> float:
        value: float = _DOUBLE.unpack(self.raw(8))[0]
        return value

    def deeper(self, depth: int) -> None:
        if depth >= self.max_depth:
            raise DecodeError(f"nested deeper than {self.max_depth}")

    def sequence(self, tag: bytes, depth: int) -> Any:
        self.deeper(depth)
        items = [self.take(depth + 1) for _ in range(self.room(self.count(1), 1))]
        if tag == b"l":
            return items
        if tag == b"t":
            return tuple(items)
        if tag == b"q":
            from collections import deque

            return deque(items)
        _refuse_collisions(items)
        made = set(items) if tag == b"S" else frozenset(items)
        if len(made) != len(items):
            raise DecodeError("a set with an element twice")
        return made

    def mapping(self, tag: bytes, depth: int) -> Any:
        self.deeper(depth)
        pairs = [(self.take(depth + 1), self.take(depth + 1)) for _ in range(self.room(self.count(2), 2))]
        _refuse_collisions([key for key, _ in pairs])
        made = dict(pairs)
        if len(made) != len(pairs):
            raise DecodeError("a dict with a key twice")
        if tag == b"m":
            return made
        import collections

        if tag == b"o":
            return collections.OrderedDict(made)
        if tag == b"f":
            return collections.defaultdict(None, made)
        counter: collections.Counter[Any] = collections.Counter()
        dict.update(counter, made)
        return counter

    def other(self, tag: bytes) -> Any:
        if tag == b"D":
            import decimal

            text = self.blob().decode("ascii")
            try:
                return decimal.Decimal(text)
            except decimal.InvalidOperation:
                raise DecodeError("no decimal number") from None
        if tag == b"Q":
            import fractions

            numerator, denominator = self.integer(), self.integer()
            if max(numerator.bit_length(), denominator.bit_length()) >= 8 * MAX_FRACTION_BYTES:
                raise DecodeError(f"a Fraction part larger than {MAX_FRACTION_BYTES} bytes")
            return fractions.Fraction(numerator, denominator)
        if tag in b"eywu":
            import datetime

            if tag == b"e":
                return datetime.timedelta(self.integer(), self.integer(), self.integer())
            text = self.blob().decode("ascii")
            if tag == b"y":
                return datetime.date.fromisoformat(text)
            kind = datetime.datetime if tag == b"w" else datetime.time
            return kind.fromisoformat(text.removesuffix("@")).replace(fold=int(text.endswith("@")))
        raise DecodeError(f"unknown tag {tag!r}")


def _refuse_collisions(keys: list[Any]) -> None:
    if len(keys) <= MAX_SAME_HASH:
        return
    hashes = sorted(map(hash, keys))
    for low, high in zip(hashes, hashes[MAX_SAME_HASH:], strict=False):
        if low == high:
            raise DecodeError(f"more than {MAX_SAME_HASH} keys share one hash")
