"""The codec: what goes in comes out, nothing that lies goes in, and no bytes can hurt the reader."""

import collections
import contextlib
import datetime
import decimal
import fractions
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import DecodeError, EncodeError, decode, encode, equal
from sandbox.codec import MAX_DEPTH, MAX_NODES, decode_counted

settings.register_profile("sandbox", deadline=None, max_examples=60)
settings.load_profile("sandbox")

texts = st.text(st.characters())  # surrogates too
hashables = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | texts
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.dates()
    | st.datetimes()
    | st.timedeltas(),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.frozensets(inner, max_size=4),
    max_leaves=8,
)
values = st.recursive(
    hashables | st.builds(bytearray, st.binary()) | st.sets(hashables, max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(hashables, inner, max_size=4),
    max_leaves=12,
)


def same_types(a: object, b: object) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return all(same_types(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return all(same_types(x, y) for x, y in zip(a.values(), b.values(), strict=True))
    return True


@given(values)
def test_a_value_survives_the_round_trip_with_its_types(value: object) -> None:
    back = decode(encode(value))
    assert equal(back, value)
    assert same_types(back, value)


@given(values)
def test_encoding_what_was_decoded_gives_the_same_bytes(value: object) -> None:
    data = encode(value)
    assert encode(decode(data)) == data


@given(st.sets(st.integers() | st.text()))
def test_a_set_has_one_encoding_whatever_its_history(items: set[object]) -> None:
    backwards = set()
    for item in sorted(items, key=repr, reverse=True):
        backwards.add(item)
    assert encode(items) == encode(backwards)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_decode_or_raise_decode_error(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        decode(data)


@given(values, st.data())
def test_a_damaged_encoding_decodes_or_raises_decode_error(value: object, data: st.DataObject) -> None:
    encoded = bytearray(encode(value))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(DecodeError):
        decode(encoded)


@given(values)
def test_a_cut_off_encoding_is_refused(value: object) -> None:
    data = encode(value)
    with pytest.raises(DecodeError):
        decode(data[:-1])


def test_special_floats_keep_their_sign_and_nature() -> None:
    back = decode(encode([-0.0, math.inf, -math.inf, math.nan]))
    assert math.copysign(1, back[0]) == -1
    assert back[1:3] == [math.inf, -math.inf]
    assert math.isnan(back[3])


@pytest.mark.parametrize("number", [0, -1, 127, 128, -128, -129, 1 << 64, -(1 << 64), 1 << 14_000])
def test_integers_of_any_size_survive(number: int) -> None:
    assert decode(encode(number)) == number


@pytest.mark.parametrize(
    "value",
    [
        range(0, 10, 3),
        collections.deque([1, 2]),
        collections.Counter("hello"),
        collections.OrderedDict([("b", 1), ("a", 2)]),
        datetime.datetime(2020, 2, 29, 1, 2, 3, 4, tzinfo=datetime.timezone(datetime.timedelta(hours=5))),
        datetime.time(1, 2, fold=1),
        decimal.Decimal("-0.10"),
        decimal.Decimal("Infinity"),
        fractions.Fraction(-3, 7),
        "\ud800 lone",
    ],
)
def test_standard_library_values_survive(value: object) -> None:
    back = decode(encode(value))
    assert type(back) is type(value)
    assert back == value


def test_a_defaultdict_survives_without_its_factory() -> None:
    back = decode(encode(collections.defaultdict(int, {1: 2})))
    assert back == {1: 2}
    assert back.default_factory is None


class LyingInt(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Named(str):
    __slots__ = ()


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [
        LyingInt(3),
        Named("x"),
        Point(1, 2),
        object(),
        len,
        int,
        [LyingInt(3)],
        {LyingInt(1): 2},
        iter(()),
        ...,
    ],
)
def test_subclasses_and_foreign_objects_are_refused(value: object) -> None:
    with pytest.raises(EncodeError):
        encode(value)


def test_a_class_that_only_bears_a_known_name_is_refused() -> None:
    impostor = type("Decimal", (), {"__module__": "decimal", "__str__": lambda self: "1"})
    with pytest.raises(EncodeError):
        encode(impostor())


def test_cycles_are_refused() -> None:
    loop: list[object] = []
    loop.append({"again": loop})
    with pytest.raises(EncodeError, match="cycle"):
        encode(loop)


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_depth_is_bounded_on_both_sides() -> None:
    assert decode(encode(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    with pytest.raises(EncodeError):
        encode(nested(MAX_DEPTH + 1))
    with pytest.raises(DecodeError):
        decode(b"l\x01" * (MAX_DEPTH + 1) + b"N")


def test_bytes_are_bounded() -> None:
    with pytest.raises(EncodeError, match="larger"):
        encode("x" * 1001, max_bytes=1000)
    with pytest.raises(EncodeError, match="larger"):
        encode(1 << 80_000, max_bytes=1000)
    with pytest.raises(EncodeError, match="larger"):
        encode({"x" * 400 + str(n) for n in range(5)}, max_bytes=1000)


@pytest.mark.parametrize("tag", [b"l", b"t", b"S", b"Z", b"m", b"s", b"b", b"i", b"q"])
def test_a_claimed_length_beyond_the_input_is_refused_unread(tag: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(tag + b"\xff\xff\xff\xff\x07")


def test_the_number_of_values_is_bounded() -> None:
    data = b"l\xe8\x07" + b"N" * 1000
    assert decode_counted(data)[1] == 1001
    with pytest.raises(DecodeError, match="more than 1000 values"):
        decode_counted(data, max_nodes=1000)


def test_keys_with_one_hash_cannot_make_decoding_quadratic() -> None:
    modulus = (1 << 61) - 1
    colliding = {n * modulus + 1 for n in range(200)}
    with pytest.raises(DecodeError, match="share one hash"):
        decode(encode(colliding))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"?",
        b"NN",
        b"S\x02NN",
        b"m\x02NNNN",
        b"S\x01l\x00",
        b"m\x01l\x00N",
        b"ri\x01\x00i\x01\x05i\x01\x00",
        b"D\x03abc",
        b"Qi\x01\x01i\x01\x00",
        b"y\x0a2020-99-99",
        b"s\x01\xff",
        b"ei\x09" + b"\xff" * 8 + b"\x7fi\x01\x00i\x01\x00",
    ],
)
def test_bytes_that_encode_nothing_raise_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, dict.fromkeys])
def test_too_many_values_are_refused_before_the_first_is_looked_at(kind: Callable[[Any], Any]) -> None:
    many = kind([object(), *range(MAX_NODES)])
    with pytest.raises(EncodeError, match="more than"):
        encode(many)


def test_a_claim_of_too_many_values_is_refused_before_the_first_is_looked_at() -> None:
    claim = bytes([MAX_NODES & 127 | 128, MAX_NODES >> 7 & 127 | 128, MAX_NODES >> 14])
    with pytest.raises(DecodeError, match="more than"):
        decode(b"l" + claim + b"?" * MAX_NODES)
