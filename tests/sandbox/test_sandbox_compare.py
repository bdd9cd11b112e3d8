"""Comparison: exact where it can be, tolerant only where it was asked to be, never asking foreign code."""

import decimal
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import ErrorRecord, equal

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(scalars, inner, max_size=4)
        | st.sets(scalars, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=60)
@given(values)
def test_every_value_equals_itself(value: object) -> None:
    assert equal(value, value)


@settings(deadline=None, max_examples=60)
@given(values, values)
def test_equality_is_symmetric(a: object, b: object) -> None:
    assert equal(a, b) == equal(b, a)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers() | st.booleans() | st.text()))
def test_one_more_element_is_never_equal(items: list[object]) -> None:
    assert not equal(items, [*items, None])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (True, 1),
        (1, 1.0),
        (0, False),
        ((1,), [1]),
        ({1}, frozenset({1})),
        ({}, []),
        ("a", b"a"),
        ([1, 2], [1]),
        ([1, 2, 3], [1, 2]),
        ([1], [True]),
        ({True}, {1}),
        ({1: 2}, {1.0: 2}),
        (None, 0),
        ("", None),
        (range(3), [0, 1, 2]),
        (0.1 + 0.2, 0.3),
    ],
)
def test_unlike_things_are_not_equal(a: object, b: object) -> None:
    assert not equal(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (math.nan, float("nan")),
        (-0.0, 0.0),
        ([math.nan], [math.nan]),
        ({-0.0}, {0.0}),
        ({-0.0: 1}, {0.0: 1}),
        ({1: "a", 2: "b"}, {2: "b", 1: "a"}),
        (range(0), range(5, 5)),
        (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
        (complex(math.nan, 0.0), complex(math.nan, -0.0)),
        ({float("nan")}, {float("nan")}),
    ],
)
def test_like_things_are_equal(a: object, b: object) -> None:
    assert equal(a, b)


def test_tolerance_reaches_into_containers() -> None:
    a = {"x": [1.0, (2.0,)], "y": {3.0, 4.0}}
    b = {"x": [1.0 + 1e-9, (2.0,)], "y": {4.0 + 1e-9, 3.0}}
    assert not equal(a, b)
    assert equal(a, b, abs_tol=1e-6)
    assert equal({0.1 + 0.2: 1}, {0.3: 1}, rel_tol=1e-9)


def test_tolerance_does_not_touch_integers_or_types() -> None:
    assert not equal(1000, 1001, rel_tol=0.1)
    assert not equal(1, 1.0, abs_tol=1.0)
    assert not equal(True, 1.0, abs_tol=1.0, numeric=True)


def test_numeric_lets_int_stand_for_float() -> None:
    assert equal([1, 2.0], [1.0, 2], numeric=True)
    assert not equal(True, 1, numeric=True)
    assert equal(10**400, 10**400, numeric=True)
    assert not equal(10**400, 1.0, numeric=True, abs_tol=1.0)


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_a_senseless_tolerance_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="tolerances"):
        equal(1.0, 1.0, abs_tol=bad)


def test_errors_are_equal_by_type_not_by_message() -> None:
    assert equal(ErrorRecord("ValueError", "a"), ErrorRecord("ValueError", "b"))
    assert not equal(ErrorRecord("ValueError", "a"), ErrorRecord("TypeError", "a"))
    assert not equal(ErrorRecord("int", "a", raised=False), ErrorRecord("int", "a"))


class AlwaysEqual:
    def __eq__(self, other: object) -> bool:
        raise AssertionError("foreign code was asked")

    __hash__ = None  # type: ignore[assignment]


def test_foreign_objects_equal_nothing_and_are_not_asked() -> None:
    assert not equal(AlwaysEqual(), 1)
    assert not equal(AlwaysEqual(), AlwaysEqual())
    assert not equal([1, AlwaysEqual()], [1, 2])
