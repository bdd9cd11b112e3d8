"""Comparison: exact where it can be, tolerant only where it was asked to be, never asking foreign code."""

import datetime
import decimal
import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import ErrorRecord, equal
from sandbox.compare import MAX_INEXACT_SET, Rules
from sandbox.names import LANGUAGES

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


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_a_senseless_tolerance_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="tolerances"):
        equal(1.0, 1.0, abs_tol=bad)
    with pytest.raises(ValueError, match="tolerances"):
        Rules(rel_tol=bad)


def test_a_relative_tolerance_that_makes_all_numbers_close_to_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="rel_tol below 1"):
        Rules(rel_tol=1.0)


@pytest.mark.parametrize("tolerance", [0.0, 1e-9, 1e6])
@pytest.mark.parametrize("other", [math.nan, math.inf, -math.inf])
def test_no_tolerance_makes_a_number_of_what_is_none(tolerance: float, other: float) -> None:
    assert not equal(1e308, other, abs_tol=tolerance)
    assert not equal([other], [0.0], abs_tol=tolerance, rel_tol=0.5)
    assert equal(other, other, abs_tol=tolerance)


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


rules = st.builds(
    Rules,
    rel_tol=st.sampled_from([0.0, 1e-6, 0.25]),
    abs_tol=st.sampled_from([0.0, 1e-6, 2.0]),
    numeric=st.booleans(),
    sequences=st.booleans(),
    sets_as_lists=st.booleans(),
    text_keys=st.booleans(),
    arrays=st.booleans(),
)
small = st.recursive(
    st.sampled_from([0, 1, 2, True, 0.0, 1.0, 1.5, -0.0, math.nan, 1j, "1", "0", None]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from([0, 1, "0", "1", 1.5, "a", (1,)]), inner, max_size=3)
        | st.sets(st.sampled_from([0, 1, 1.5, 1.75, "1", (1, 2.0), frozenset({1}), math.nan]), max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=300)
@given(small, small, rules)
def test_looser_rules_are_symmetric_and_accept_what_strict_ones_do(a: object, b: object, by: Rules) -> None:
    assert by.equal(a, a)
    assert by.equal(a, b) == by.equal(b, a)
    assert by.equal(a, b) or not equal(a, b)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 2.5]), max_size=5, unique=True),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 2.5]), max_size=5, unique=True),
    st.sampled_from([0.4, 0.5, 1.0]),
)
def test_sets_are_close_exactly_where_some_order_of_them_is(
    a: list[float], b: list[float], tolerance: float
) -> None:
    found = any(equal(list(one), b, abs_tol=tolerance) for one in itertools.permutations(a))
    assert equal(set(a), set(b), abs_tol=tolerance) == found
    # The same within tuples, which are paired off one by one.
    boxed_a, boxed_b = {(one,) for one in a}, {(one,) for one in b}
    assert equal(boxed_a, boxed_b, abs_tol=tolerance) == found
    as_keys = dict.fromkeys(a), dict.fromkeys(b)
    assert equal(*as_keys, abs_tol=tolerance) == found


def test_a_large_set_of_floats_may_still_be_close() -> None:
    count = 20 * MAX_INEXACT_SET
    a = {float(n) for n in range(count)}
    b = {n + 1e-9 for n in range(count)}
    assert equal(a, b, abs_tol=1e-6)
    assert not equal(a, b, abs_tol=1e-12)
    assert not equal(a, {*itertools.islice(b, count - 1), -5.0}, abs_tol=1e-6)


def test_a_large_set_of_other_things_is_compared_exactly() -> None:
    count = MAX_INEXACT_SET + 1
    a = {(float(n),) for n in range(count)}
    assert equal(a, {(float(n),) for n in range(count)}, abs_tol=1e-6)
    assert not equal(a, {(n + 1e-9,) for n in range(count)}, abs_tol=1e-6)


def test_keys_that_are_both_nan_are_told_apart_by_their_values() -> None:
    def keyed(*items: int) -> dict[float, int]:
        return {float("nan"): item for item in items}

    assert equal(keyed(1, 2), keyed(2, 1))
    assert not equal(keyed(1, 2), keyed(2, 2))
    assert not equal(keyed(2, 2), keyed(1, 2))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({decimal.Decimal("1.0")}, {decimal.Decimal("1.00")}),
        ({decimal.Decimal("1.0"): 1}, {decimal.Decimal("1.00"): 1}),
        (
            {datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)},
            {datetime.datetime(2020, 1, 1, 13, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))},
        ),
    ],
    ids=["decimal", "decimal key", "datetime"],
)
def test_values_with_two_forms_are_one_element(a: object, b: object) -> None:
    assert equal(a, b)


@pytest.mark.parametrize(
    ("option", "a", "b"),
    [
        ("numeric", [1, {2: 3.0}, {4, 5.5}], [1.0, {2.0: 3}, {4.0, 5.5}]),
        ("numeric", {(1, 2)}, {(1.0, 2.0)}),
        ("numeric", {1: 1, 2: 2}, {1.0: 1, 2.0: 2}),
        ("numeric", 2 + 0j, 2),
        ("numeric", {2 + 0j}, {2}),
        ("sequences", [(1, [2])], ([1, (2,)],)),
        ("sequences", {"a": (1,)}, {"a": [1]}),
        ("sets_as_lists", {1, 2}, [2, 1]),
        ("sets_as_lists", frozenset({1, 2}), (2, 1)),
        ("sets_as_lists", {frozenset({1, 2})}, [[2, 1]]),
        ("sets_as_lists", set(), []),
        ("text_keys", {1: {-2: 3}}, {"1": {"-2": 3}}),
        ("arrays", {}, []),
        ("arrays", {1: "b", 0: "a"}, ["a", "b"]),
        ("arrays", {0: {}}, [[]]),
    ],
)
def test_an_option_forgives_what_it_names_when_it_is_given(option: str, a: object, b: object) -> None:
    assert not equal(a, b)
    assert equal(a, b, **{option: True})
    assert equal(b, a, **{option: True})


@pytest.mark.parametrize(
    ("option", "a", "b"),
    [
        ("numeric", True, 1),
        ("numeric", {True}, {1}),
        ("numeric", {True: 0}, {1: 0}),
        ("numeric", "1", 1),
        ("numeric", 2**53, float(2**53) + 2),
        ("numeric", 2 + 1j, 2),
        ("sequences", [1, 2], (2, 1)),
        ("sequences", [1], {1}),
        ("sequences", "ab", ["a", "b"]),
        ("sets_as_lists", {1, 2}, [1, 2, 2]),
        ("sets_as_lists", {1, 2}, [1, 1]),
        ("sets_as_lists", {1}, [True]),
        ("sets_as_lists", [1, 2], [2, 1]),
        ("sets_as_lists", {1}, {1: 1}),
        ("text_keys", {1: 2}, {"01": 2}),
        ("text_keys", {1: 2}, {"1": "2"}),
        ("text_keys", {1: 2}, {True: 2}),
        ("text_keys", 1, "1"),
        ("arrays", {1: "a", 2: "b"}, ["a", "b"]),
        ("arrays", {0: "a", 2: "b"}, ["a", "b"]),
        ("arrays", {"0": "a"}, ["a"]),
        ("arrays", {0: "a"}, ["a", "b"]),
        ("arrays", {0: "a", 1: "b"}, ["b", "a"]),
    ],
)
def test_an_option_forgives_nothing_else(option: str, a: object, b: object) -> None:
    assert not equal(a, b, **{option: True})
    assert not equal(b, a, **{option: True})


def test_the_order_of_keys_counts_where_that_is_asked() -> None:
    a, b = {1: {"x": 1, "y": 2}}, {1: {"y": 2, "x": 1}}
    assert equal(a, b)
    assert not equal(a, b, ordered_dicts=True)
    assert equal(a, a, ordered_dicts=True)
    assert equal({1: 2}, {1.0: 2}, ordered_dicts=True, numeric=True)


def test_keys_that_differ_by_form_only_are_not_merged() -> None:
    assert not equal({1: "a", "1": "b"}, {1: "a", "1": "c"}, text_keys=True)
    assert equal({1: "a", "1": "b"}, {"1": "b", 1: "a"}, text_keys=True)
    assert equal({10**5000: 1}, {10**5000: 1}, text_keys=True)


def test_a_program_of_python_is_held_to_exact_types() -> None:
    assert Rules.for_language("python") == Rules()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_language_has_rules_and_none_forgives_a_wrong_answer(lang: str) -> None:
    by = Rules.for_language(lang)
    assert by.equal([1, {"a": (2, 3)}], [1, {"a": (2, 3)}])
    for wrong in (True, "1", None, [1], 2):
        assert not by.equal(wrong, 1)
    assert not by.equal([1, 2], [2, 1])
    assert not by.equal([1, 2], [1])
    assert not by.equal("a", ["a"])
    assert not by.equal(0.1 + 0.2, 0.3)


@pytest.mark.parametrize(
    ("lang", "expected", "sent"),
    [
        ("javascript", (1, 2.0), [1, 2]),
        ("typescript", {1: 2}, {"1": 2}),
        ("go", [1, 2.5], [1.0, 2.5]),
        ("c", {1, 2}, [2, 1]),
        ("cpp", [1, 2], (1, 2)),
        ("java", (1, 2), [1, 2]),
        ("ruby", ("a", 1), ["a", 1]),
        ("csharp", [1, 2.5], [1.0, 2.5]),
        ("rust", (1, 2), [1, 2]),
        ("php", {"1": {}, "2": {"x"}}, {1: [], 2: ["x"]}),
        ("php", 3.0, 3),
    ],
)
def test_a_language_is_forgiven_what_it_cannot_express(lang: str, expected: object, sent: object) -> None:
    assert not equal(sent, expected)
    assert Rules.for_language(lang).equal(sent, expected)


def test_a_language_that_tells_numbers_apart_is_held_to_it() -> None:
    assert not Rules.for_language("ruby").equal(1, 1.0)


def test_tolerances_come_on_top_of_a_language() -> None:
    by = Rules.for_language("JS", abs_tol=1e-6)
    assert by.equal((1, 0.1 + 0.2), [1.0000001, 0.3])
    assert not by.equal(1, 2)


@pytest.mark.parametrize("bad", [["python"], ("python", "cpp"), None, 3, b"python"])
def test_anything_but_the_name_of_one_language_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="one language is needed"):
        Rules.for_language(bad)


@pytest.mark.parametrize("bad", ["", "cobol", "python,cpp"])
def test_an_unknown_language_is_refused_by_name(bad: str) -> None:
    with pytest.raises(ValueError, match="no language"):
        Rules.for_language(bad)
