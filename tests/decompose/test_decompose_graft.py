"""A candidate's function in the reference's program, and programs that only look different."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from programs_strategy import programs

from decompose.functions import functions
from decompose.graft import graft
from decompose.grammars import SourceError
from decompose.variants import variants

REFERENCE = '''"""Sums."""
from __future__ import annotations
import math

UNIT = 10

def total(xs):
    return sum(scale(x) for x in xs)

def scale(x):
    return x * UNIT
'''


def run(code: str, function: str, *args: Any) -> Any:
    scope: dict[str, Any] = {}
    exec(compile(code, "program", "exec"), scope)
    return scope[function](*args)


def test_only_the_named_function_is_the_candidates() -> None:
    candidate = "UNIT = 7\ndef total(xs): return -1\ndef scale(x): return x + UNIT\n"
    made = graft(REFERENCE, candidate, "scale")
    assert run(made, "scale", 1) == 11
    assert run(made, "total", [1, 2]) == 23
    assert run(graft(REFERENCE, candidate, "total"), "total", [1]) == -1


def test_imports_and_helpers_of_the_candidate_come_along_as_far_as_needed() -> None:
    candidate = (
        "from functools import lru_cache, reduce\nimport json as js, re\nK = 3\nboom = 1 / 0\n"
        "def deeper(x): return js.loads(str(x)) * K\n"
        "def helper(x): return deeper(x)\n"
        "@lru_cache(None)\ndef scale(x): return helper(x)\n"
        "def total(xs): return boom\n"
    )
    made = graft(REFERENCE, candidate, "scale")
    assert run(made, "total", [1, 2]) == 9
    for absent in ("reduce", "import re", "boom"):
        assert absent not in made


def test_a_name_of_the_reference_keeps_its_meaning() -> None:
    candidate = "from cmath import sqrt as math\nUNIT = 0\ndef scale(x): return math.floor(x) * UNIT\n"
    assert run(graft(REFERENCE, candidate, "scale"), "scale", 1.5) == 10


def test_a_star_import_comes_along_and_yields_to_the_reference() -> None:
    candidate = "from math import *\ndef scale(x): return floor(x)\ndef total(xs): return 0\n"
    reference = REFERENCE.replace("UNIT = 10", "e = 5\nUNIT = 10")
    made = graft(reference, candidate, "scale")
    assert run(made, "scale", 2.5) == 2
    assert run(made + "def probe(): return e\n", "probe") == 5


def test_a_star_import_that_the_reference_has_is_not_brought_again() -> None:
    code = "from math import *\ndef f(x): return floor(x)\n"
    assert graft(code, code, "f") == code


def test_a_method_is_grafted_with_what_it_needs() -> None:
    reference = "class A:\n    def m(self):\n        return 1\n    def n(self):\n        return 2\n"
    candidate = (
        "import math\nclass A:\n  def m(self):\n      return math.floor(7.5)\n  def n(self): return 0\n"
    )
    made = graft(reference, candidate, "A.m")
    assert run(made + "def probe(): return A().m(), A().n()\n", "probe") == (7, 2)


def test_a_function_that_either_lacks_is_an_error() -> None:
    with pytest.raises(SourceError, match="'other'"):
        graft(REFERENCE, "def other(): pass\n", "other")
    with pytest.raises(SourceError, match="'scale'"):
        graft(REFERENCE, "def other(): pass\n", "scale")


@given(programs())
def test_grafting_a_program_into_itself_changes_nothing(code: str) -> None:
    for span in functions(code):
        assert graft(code, code, span.name) == code


BUSY = """
def first(xs, n=2):
    total = 0
    for item in xs:
        if item.real > n:
            total += item
    return dict(total=total, text=f"{total}")

# between
def second(xs):
    best = max(xs, key=lambda one: one - shift)
    shift = best
    return [best for best in xs], shift

def third(xs):
    name = "value name"
    return locals()

def fourth(xs):
    xs = list(xs)
    try:
        import math as lib
    except ImportError as error:
        raise error
    def inner(k):
        return k + size
    size = len(xs)
    return inner(1), lib.pi
"""


def test_variants_rename_what_is_local_and_exchange_neighbours() -> None:
    assert [one.detail for one in variants(BUSY)] == [
        "first rename `item` to `local_item`",
        "first rename `total` to `local_total`",
        "second rename `shift` to `local_shift`",
        "fourth rename `size` to `local_size`",
        "exchange `first` and `second`",
        "exchange `second` and `third`",
        "exchange `third` and `fourth`",
    ]


def test_variants_behave_like_the_original() -> None:
    for one in variants(BUSY):
        assert one.code != BUSY
        for name in ("first", "third", "fourth"):
            assert run(one.code, name, [1, 2, 3]) == run(BUSY, name, [1, 2, 3])


def test_a_name_that_the_text_shows_is_not_renamed() -> None:
    assert variants("def f(x):\n    y = x\n    return f'{y=}'\n") == []


def test_a_taken_name_is_not_used_again() -> None:
    assert variants("def f(x):\n    y = x\n    return local_y\n") == []


def test_definitions_whose_place_matters_stay() -> None:
    code = "def f(): pass\n@f\ndef g(): pass\ndef h(x=f()): pass\nclass A: pass\ndef i(x: f()): pass\n"
    assert variants(code) == []


@given(programs())
def test_variants_have_the_same_functions(code: str) -> None:
    before = sorted(span.name for span in functions(code))
    for one in variants(code):
        assert sorted(span.name for span in functions(one.code)) == before
