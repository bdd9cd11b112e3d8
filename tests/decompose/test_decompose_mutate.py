"""Mutants differ in meaning, parse, and leave every other byte alone."""

from __future__ import annotations

import ast
import random

import pytest
from hypothesis import given
from programs_strategy import programs

from decompose.functions import functions, source_of
from decompose.grammars import SourceError
from decompose.mutate import Edit, apply, describe, edits, higher_order, mutants
from schemas.errors import AssayError


def made_by(operator: str, body: str) -> set[str]:
    """What an operator makes of a function's body."""
    head = "def f(a, b, xs):\n    "
    found = [one.code for one in mutants(head + body + "\n") if one.operator == operator]
    return {code.removeprefix(head).rstrip("\n") for code in found}


@pytest.mark.parametrize(
    ("operator", "body", "expected"),
    [
        ("compare_boundary", "return a < b", {"return a <= b"}),
        ("compare_negate", "return a < b", {"return a >= b"}),
        ("compare_negate", "return a not  in b is a", {"return a in b is a", "return a not  in b is not a"}),
        ("boolean_swap", "return a and b", {"return a or b"}),
        ("arithmetic_swap", "return a // b", {"return a / b"}),
        ("arithmetic_swap", "a -= b", {"a += b"}),
        ("arithmetic_swap", "return '%s' % a", set()),
        ("constant_plus", "return 0x_f", {"return 16"}),
        ("constant_minus", "return 0", {"return -1"}),
        ("constant_plus", "return 1.5", {"return 2.5"}),
        ("constant_plus", "return 2j", set()),
        ("constant_flip", "return True", {"return False"}),
        ("condition_negate", "while a: pass", {"while not (a): pass"}),
        ("condition_negate", "if a: pass", {"if not (a): pass"}),
        ("condition_negate", "if not a: pass", set()),
        ("condition_negate", "return [a for a in xs if a]", {"return [a for a in xs if not (a)]"}),
        ("not_drop", "return not(a)", {"return (a)"}),
        ("unary_drop", "return-a", {"return a"}),
        ("return_none", "return(a)", {"return None"}),
        ("return_none", "return a, b", {"return None"}),
        ("return_none", "return None", set()),
        ("statement_remove", "a = b; raise a", {"raise a", "a = b"}),
        ("statement_remove", "if a:\n        b = a\n    return b", {"if a:\n        pass\n    return b"}),
        ("statement_remove", "if a:\n        # why\n        b = a\n\n        a = b  # so\n    return b",
         {"if a:\n        # why\n        a = b  # so\n    return b",
          "if a:\n        # why\n        b = a\n\n        # so\n    return b"}),
        ("statement_remove", "b = a\n    if b:\n        a = b\n        b = a", {
            "if b:\n        a = b\n        b = a", "b = a\n    if b:\n        b = a",
            "b = a\n    if b:\n        a = b"}),
        ("statement_remove", "'text'", set()),
        ("statement_remove", "a: int", set()),
        ("loop_bound", "for i in range(a, len(xs)): pass",
         {"for i in range(a, len(xs) + 1): pass", "for i in range(a, len(xs) - 1): pass"}),
        ("loop_bound", "for i in range(a or b): pass",
         {"for i in range((a or b) + 1): pass", "for i in range((a or b) - 1): pass"}),
        ("loop_bound", "for i in range(10): pass", set()),
        ("branch_swap", "if a: return 1\n    else: return 2", {"if a: return 2\n    else: return 1"}),
        ("branch_swap", "if a:\n        b = 1  # one\n    # two\n    else:\n        b = 2",
         {"if a:\n        b = 2\n    # two\n    else:\n        b = 1  # one"}),
        ("branch_swap", "return a if b else xs", {"return xs if b else a"}),
        ("slice_shift", "return xs[a:b]",
         {"return xs[a + 1:b]", "return xs[a:b + 1]", "return xs[a:b - 1]"}),
        ("slice_shift", "return xs[:]", {"return xs[1:]", "return xs[:-1]"}),
        ("slice_shift", "return xs[::-1]", set()),
        ("break_continue", "while a: break", {"while a: continue"}),
        ("string_change", "return 'a'", {"return 'aX'"}),
        ("string_change", "return rb'''a\\n'''", {"return rb'''a\\nX'''"}),
        ("call_swap", "return min(a, b)", {"return max(a, b)"}),
        ("call_swap", "return a.startswith(b)", {"return a.endswith(b)"}),
        ("argument_swap", "return f(a, b)", {"return f(b, a)"}),
        ("argument_swap", "return f(a, b=b)", set()),
        ("argument_swap", "return max(a, b)", set()),
        ("operand_drop", "return a and b or c",
         {"return (a and b)", "return c", "return a or c", "return b or c"}),
        ("operand_swap", "return a - b - 1", {"return 1 - (a - b)", "return b - a - 1"}),
        ("operand_swap", "return a + b", set()),
        ("operand_swap", "return '%s' % a", set()),
        ("accumulate_drop", "a += b", {"a = b"}),
        ("index_shift", "for i in range(a): b = xs[i]",
         {"for i in range(a): b = xs[i + 1]", "for i in range(a): b = xs[i - 1]"}),
        ("index_shift", "return xs[a], xs[1]", set()),
        ("index_shift", "return xs[len(a) - 1]",
         {"return xs[(len(a) - 1) + 1]", "return xs[(len(a) - 1) - 1]"}),
        ("index_shift", "a = 1\n    a = b()\n    return xs[a]", set()),
        ("case_drop", "if a: return 1\n    return 2", {"if False: return 1\n    return 2"}),
        ("case_drop", "if a: return 1\n    elif b: return 2", {"if a: return 1\n    elif False: return 2"}),
        ("filter_drop", "return [x for x in xs if x if a]",
         {"return [x for x in xs if a]", "return [x for x in xs if x]"}),
        ("filter_drop", "match a:\n        case _ if b: return 1\n        case 2: return 3", set()),
        ("exception_swap", "raise ValueError(KeyError)", {"raise TypeError(KeyError)"}),
        ("exception_swap", "try: a()\n    except (KeyError, b) as c: pass",
         {"try: a()\n    except (IndexError, b) as c: pass"}),
        ("return_empty", "return [a]", {"return []"}),
        ("return_empty", "return []", set()),
        ("return_negate", "return a or b", {"return not (a or b)"}),
        ("return_shift", "return len(xs)", {"return len(xs) + 1"}),
        ("return_shift", "return a", set()),
        ("early_return", "for x in xs:\n        a += x\n    return a",
         {"for x in xs:\n        a += x\n        return a\n    return a"}),
        ("early_return", "for x in xs:\n        break\n    return a", set()),
        ("argument_drop", "return max(xs, key=a, default=b)",
         {"return max(xs, default=b)", "return max(xs, key=a)"}),
        ("argument_drop", "return a.get(b, 0)", {"return a.get(b)"}),
        ("call_drop", "return sorted(a or b)", {"return (a or b)"}),
        ("call_drop", "return a.strip().split()", {"return a.split()"}),
        ("order_reverse", "return sorted(xs)", {"return sorted(xs, reverse=True)"}),
        ("order_reverse", "xs.sort()", {"xs.sort(reverse=True)"}),
        ("loop_start", "for i in range(a): pass", {"for i in range(1, a): pass"}),
        ("loop_start", "for i, x in enumerate(xs): pass", {"for i, x in enumerate(xs, 1): pass"}),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)  # fmt: skip
def test_operator(operator: str, body: str, expected: set[str]) -> None:
    assert made_by(operator, body) == expected


def test_signature_decorator_annotation_and_docstring_are_left_alone() -> None:
    code = "@wrap(1)\ndef f(a: 'x' = 2):\n    'doc 3'\n    b: 'y' = a\n    return b\n"
    assert {one.operator for one in mutants(code)} == {"statement_remove", "return_none"}


def test_code_outside_of_functions_is_left_alone() -> None:
    assert mutants("x = 1\nclass A:\n    y = 2\nif x:\n    def f(): return 3\n") == []


def test_every_fault_of_every_operator_compiles() -> None:
    code = """def f(a, b, xs):
    match a:
        case _ if b and a < 1: return [x for x in xs if x not in a]
        case [c, *_]: pass
    for i, x in enumerate(sorted(xs)):
        if i > 2 and x != xs[i]:
            a += (yield x - i)
        elif not b:
            break
    return len(xs) // 2 if a else {**a}
"""
    found = mutants(code)
    assert len({one.operator for one in found}) > 15
    for one in found:
        compile(one.code, "mutant", "exec")


def test_a_binding_that_an_inner_function_shares_is_not_removed() -> None:
    code = "def f():\n    n = a()\n    def g():\n        nonlocal n\n        n += b()\n    return g\n"
    for one in mutants(code):
        compile(one.code, "mutant", "exec")


def test_a_method_is_mutated_under_its_qualified_name() -> None:
    code = "class A:\n\tdef m(self):\n\t\treturn 1\n"
    assert {one.function for one in mutants(code)} == {"A.m"}
    assert mutants(code, "A.m") == mutants(code)


def test_mutants_of_a_function_that_is_not_there_are_an_error() -> None:
    with pytest.raises(SourceError, match="'g'"):
        mutants("def f(): return 1\n", "g")


def test_mutants_of_another_language_are_an_error() -> None:
    with pytest.raises(AssayError, match="Kotlin"):
        mutants("fun f() {}", language="Kotlin")


def test_carriage_returns_stay_in_pairs() -> None:
    code = "def f(a):\r\n    if a:\r\n        b = 1  # one\r\n    else:\r\n        b = 2\r\n    return b\r\n"
    for one in mutants(code):
        assert one.code.replace("\r\n", "").count("\r") == 0


@given(programs())
def test_every_mutant_is_another_program_with_the_same_functions(code: str) -> None:
    original = ast.dump(ast.parse(code))
    shape = [(span.name, span.signature, span.docstring) for span in functions(code)]
    seen = {original}
    for one in mutants(code):
        tree = ast.dump(ast.parse(one.code))
        assert tree not in seen
        seen.add(tree)
        assert [(span.name, span.signature, span.docstring) for span in functions(one.code)] == shape


@given(programs())
def test_a_mutant_changes_one_range_inside_its_function(code: str) -> None:
    spans = {span.name: span for span in functions(code)}
    data = code.encode()
    for one in mutants(code):
        made, span = one.code.encode(), spans[one.function]
        assert span.start_byte <= one.start_byte <= one.end_byte <= span.end_byte
        assert made.startswith(data[: one.start_byte])
        assert made.endswith(data[one.end_byte :])


@given(programs())
def test_mutants_come_in_order_of_position_and_always_the_same(code: str) -> None:
    found = mutants(code)
    assert [one.start_byte for one in found] == sorted(one.start_byte for one in found)
    assert found == mutants(code)


@given(programs())
def test_a_drawn_limit_gives_some_of_all(code: str) -> None:
    every = edits(code)
    some = edits(code, limit=3, rng=random.Random(1))
    assert len(some) == min(3, len(every))
    assert some == sorted(some)
    assert some == edits(code, limit=3, rng=random.Random(1))


@given(programs())
def test_higher_order_puts_one_fault_in_each_of_several_functions(code: str) -> None:
    possible = edits(code)
    names = {edit.function for edit in possible}
    chosen = higher_order(possible, 2, random.Random(0))
    assert len(chosen) == len({edit.function for edit in chosen}) == min(2, len(names))
    if chosen:
        made = apply(code, chosen)
        changed = {
            span.name
            for span, new in zip(functions(code), functions(made), strict=True)
            if source_of(code, span) != source_of(made, new)
        }
        assert changed == {edit.function for edit in chosen}


def test_overlapping_edits_are_refused() -> None:
    first = Edit(0, 3, "a", "x", "f", 1, "")
    second = Edit(2, 4, "b", "y", "f", 1, "")
    with pytest.raises(SourceError, match="overlap"):
        apply("abcdef", [first, second])


def test_description_names_function_line_operator_and_change() -> None:
    code = "\n\ndef f(a):\n    return a < 1\n"
    (edit,) = (edit for edit in edits(code) if edit.operator == "compare_boundary")
    assert describe([edit]) == "f:4 compare_boundary `<` to `<=`"


def test_a_long_function_is_bounded_by_the_limit() -> None:
    code = "def f(a):\n" + "    a = a + 1\n" * 3000 + "    return a\n"
    assert len(mutants(code, limit=5, rng=random.Random(0))) == 5
