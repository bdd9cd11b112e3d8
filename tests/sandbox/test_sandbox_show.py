"""What people are shown of values and foreign text: bounded, printable, the same for the same value."""

import collections
import datetime
import decimal
import fractions

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.show import MAX_CHARACTERS, line, show


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (True, "True"),
        (0.1 + 0.2, "0.30000000000000004"),
        ("a  b\n", r"'a  b\n'"),
        (b"\xff", r"b'\xff'"),
        ((), "()"),
        ((1,), "(1,)"),
        ([1, [2, (3, 4)]], "[1, [2, (3, 4)]]"),
        ({"a": {1}}, "{'a': {1}}"),
        (set(), "set()"),
        ({}, "{}"),
        (frozenset(), "frozenset()"),
        (frozenset({1}), "frozenset({1})"),
        (range(1, 9, 2), "range(1, 9, 2)"),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, 6, 7, and 92 more]"),
        ([[[[[1]]]]], "[[[[...]]]]"),
        (collections.deque([1]), "deque([1])"),
        (collections.Counter("a"), "Counter({'a': 1})"),
        (fractions.Fraction(1, 3), "Fraction(1, 3)"),
        (decimal.Decimal("1.50"), "Decimal(1.50)"),
        (datetime.date(2020, 1, 2), "date(2020-01-02)"),
        (object(), "a object"),
    ],
)
def test_a_value_is_shown_about_as_python_writes_it(value: object, text: str) -> None:
    assert show(value) == text


def test_an_integer_that_python_refuses_to_write_is_shown_by_its_size() -> None:
    assert show(10**5000) == "an int of 16610 bits"
    assert show(range(10**5000)) == "range(0, an int of 16610 bits, 1)"


def test_a_set_is_shown_in_one_order() -> None:
    assert show({"c", "a", "b"}) == "{'a', 'b', 'c'}"


def test_long_text_says_how_much_is_left() -> None:
    assert show("x" * 1000).endswith("and 940 more")


values = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.binary() | st.just("\x1b[2J\u202e\ud800" * 99),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.sets(st.text()),
)


@settings(deadline=None, max_examples=100)
@given(values)
def test_what_is_shown_is_bounded_and_printable(value: object) -> None:
    text = show(value)
    assert len(text) <= MAX_CHARACTERS
    assert text.isprintable()
    text.encode()


@settings(deadline=None, max_examples=100)
@given(st.text() | st.just("a\x1b[31m\u202eb\ud800\n" * 1000))
def test_foreign_text_becomes_one_printable_line(text: str) -> None:
    shown = line(text)
    assert len(shown) <= MAX_CHARACTERS
    assert shown.isprintable()
    assert shown == line(shown)


def test_foreign_text_that_is_cut_says_so() -> None:
    assert line("short text") == "short text"
    assert line("word " * 1000).endswith("...")
