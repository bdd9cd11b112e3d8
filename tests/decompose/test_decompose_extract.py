"""Functions are cut out only where that changes nothing, and are worth having."""

from __future__ import annotations

import ast
import random
import textwrap

import pytest
from cuttable_strategy import behaviour, cuttable
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from programs_strategy import programs

from decompose.extract import cuts, extract, extraction
from decompose.extract_text import Helper
from decompose.functions import functions
from decompose.grammars import SourceError


def program(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def body_of(code: str, name: str) -> str:
    """A function's body without its docstring, as Python prints it."""
    made = next(
        one for one in ast.walk(ast.parse(code)) if isinstance(one, ast.FunctionDef) and one.name == name
    )
    body = made.body[1:] if ast.get_docstring(made) else made.body
    return "\n".join(ast.unparse(one) for one in body)


def cut(text: str) -> tuple[str, list[str]]:
    made = extraction(program(text))
    return made.code, [one.name for one in made.helpers]


@settings(max_examples=60)
@given(st.integers(0, 10**9))
def test_no_cut_changes_what_a_program_does(seed: int) -> None:
    code = cuttable(seed)
    assume(_compiles(code))
    made = list(cuts(code, least=2))
    expected = behaviour(code)
    for one in random.Random(seed).sample(made, min(len(made), 12)):
        assert behaviour(one.code) == expected, one.code


@settings(max_examples=20)
@given(st.integers(0, 10**9))
def test_cuts_of_cuts_change_nothing(seed: int) -> None:
    code = cuttable(seed)
    assume(_compiles(code))
    assert behaviour(extraction(code, "f", 6).code) == behaviour(code)


@given(programs())
def test_other_functions_and_signatures_stay(code: str) -> None:
    made = extraction(code)
    new = {one.name for one in made.helpers}
    before = [(span.name, span.signature, span.docstring) for span in functions(code)]
    after = [(span.name, span.signature, span.docstring) for span in functions(made.code)]
    assert [one for one in after if one[0] not in new] == before
    assert len(after) == len(before) + len(new)
    assert extraction(code) == made


def _compiles(code: str) -> bool:
    try:
        compile(code, "program", "exec")
    except SyntaxError:
        return False
    return True


def cut_where(text: str, begins: str) -> tuple[str, Helper]:
    """The program whose new function's body begins like that, and the function."""
    return next(
        (one.code, one.helpers[0])
        for one in cuts(program(text))
        if body_of(one.code, one.helpers[0].name).startswith(begins)
    )


def test_a_loop_becomes_a_function_of_what_it_reads_that_returns_what_it_binds() -> None:
    text = """
        def weighed(numbers, start):
            total, count = start, 0
            for number in numbers:
                if number % 2:
                    total += number
                    count += 1
            return total / count
        """
    code, helper = cut_where(text, "for ")
    assert helper == Helper(
        "update_total_and_count", "weighed", "block", ("numbers", "total", "count"), ("total", "count")
    )
    assert functions(code)[0].signature == "def update_total_and_count(numbers, total, count):"
    assert body_of(code, helper.name).endswith("return (total, count)")
    assert "    total, count = update_total_and_count(numbers, total, count)\n" in code


def test_a_block_that_returns_early_says_so() -> None:
    text = """
        def close(numbers, limit):
            for i, first in enumerate(numbers):
                for j, second in enumerate(numbers):
                    if i != j:
                        distance = abs(first - second)
                        if distance < limit:
                            return True
            return False
        """
    code, helper = cut_where(text, "if i != j")
    assert f"if {helper.name}(limit, i, j, first, second):\n                return True" in code
    assert body_of(code, helper.name).endswith("return False")


def test_an_early_result_that_may_be_none_is_not_taken_for_none_at_all() -> None:
    text = """
        def first(items, wanted):
            for item in items:
                if item.part(wanted) > wanted:
                    return item.part(wanted)
            return wanted
        """
    assert not any("is not None" in one.code for one in cuts(program(text)))
    never = text.replace("return item.part(wanted)", "return [item.part(wanted)]")
    assert any("is not None" in one.code for one in cuts(program(never)))


def test_what_a_block_changes_in_place_is_returned_too() -> None:
    text = """
        def squares(numbers, least):
            found = []
            for number in numbers:
                if number * number > least:
                    found.append(number * number)
            return sorted(found)
        """
    code, helper = cut_where(text, "for ")
    assert f"found = {helper.name}(numbers, least, found)" in code
    assert body_of(code, helper.name).endswith("return found")


def test_a_module_that_the_function_imports_is_imported_again() -> None:
    text = """
        def digest(text, times):
            import hashlib
            data = text.encode("ascii")
            for _ in range(times):
                data = hashlib.md5(data + data[:4]).digest()
            return data.hex().upper().strip()
        """
    _, helper = cut_where(text, "import hashlib\nfor ")
    assert helper.inputs == ("times", "data")


def test_an_inner_function_gets_what_it_reads_as_parameters() -> None:
    code, names = cut("""
        def solve(grid, limit):
            def count(row, column=0):
                if column == len(row):
                    return 0
                return (row[column] > limit) + count(row, column + 1)
            return [count(row) for row in grid if len(row) > 1]
        """)
    assert names == ["count"]
    assert functions(code)[0].signature == "def count(limit, row, column=0):"
    assert body_of(code, "count").endswith("count(limit, row, column + 1)")
    assert body_of(code, "solve") == "return [count(limit, row) for row in grid if len(row) > 1]"


def test_hints_of_parameters_that_keep_their_value_are_kept() -> None:
    code, _ = cut("""
        def f(names: list[str], start: int) -> list[str]:
            start = start + 1
            found = {}
            for name in names:
                if name not in found and len(name) > start:
                    found[name] = len(name)
            return sorted(found, key=lambda name: (found[name], name))[start:]
        """)
    signature = functions(code)[0].signature
    assert "names: list[str]" in signature
    assert "start: int" not in signature


def test_lines_inside_of_strings_keep_their_blanks() -> None:
    text = program('''
        def f(xs, y):
            if y:
                for x in xs:
                    y += x + """a
                b
            c""" + str(len(xs) * 2)
            return y + str(xs) + y.strip() + y
        ''')
    code = extract(text)
    assert code is not None
    assert '"""a\n        b\n    c"""' in code


def test_carriage_returns_and_tabs_are_kept() -> None:
    text = "def f(xs, y):\n\tz = 1\n\tfor x in xs:\n\t\tif x > y:\n\t\t\tz += x * y\n"
    text += "\treturn z + max(xs) - min(xs)\n"
    code = extract(text.replace("\n", "\r\n"))
    assert code is not None
    assert code.replace("\r\n", "").count("\n") == code.replace("\r\n", "").count("\r") == 0
    assert "\r\n\tfor x in xs:" in code


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return x\n",
        "def f(xs):\n    return len(set(xs))\n",
        "def f(a, b):\n    yield a\n    yield b\n    yield a + b\n    yield a - b\n",
        "async def f(a):\n    await a.one()\n    await a.two()\n    return await a.three()\n",
        "def f(a): return sum(x * a.size for x in a.items), eval('a'), a.other.name\n",
        "def f(a, b):\n    for x in a:\n        b += locals()[x] * 2 - 1\n    return b * a + len(a) - b\n",
        "x = 1\n",
        "",
    ],
)
def test_what_is_small_or_bound_to_its_frame_is_left(text: str) -> None:
    assert extract(text) is None


@pytest.mark.parametrize(
    ("begins", "text"),
    [
        pytest.param("if a:", """
            def f(a, b):
                if a:
                    c = a * b + len(b)
                    d = c * c - a
                print(c + d)
                return [c + d * a, d - c * b, a + b]
            """, id="bound on one path"),
        pytest.param("c = c //", """
            def f(a, b):
                c = 0
                try:
                    c = a + 1
                    c = c // b + a // (b - 1)
                except ZeroDivisionError:
                    return c
                return a
            """, id="read by a handler"),
        pytest.param("c = a * b", """
            def f(a, b):
                c = 1
                g = lambda: c + a
                c = a * b + a * a - 1
                c = c + b * 2
                return g()
            """, id="a closure sees the change"),
        pytest.param("c = a * b", """
            def f(a, b):
                c = 1
                g = (c + x for x in [a, b, a + b])
                c = a * b + 2
                return sum(g)
            """, id="a lazy generator sees the change"),
        pytest.param("c = a * b", """
            def f(a, b):
                a = c
                b = a + b * 2 + a * 3
                c = a * b + len(a)
            """, id="a variable by this binding alone"),
        pytest.param("c = a * b", """
            def f(a, b):
                c = a * b + len(b)
                d = c * a + b
                del c
                return d * d + a
            """, id="deleted later"),
        pytest.param("with a:", """
            def f(a, b):
                with a:
                    b = b.first.second.third
                    return b.one + b.two + b.three
                return a.other(b)
            """, id="a swallowed error goes on behind"),
    ],
)  # fmt: skip
def test_what_would_change_the_meaning_is_not_cut_out(begins: str, text: str) -> None:
    assert f"\n{begins}" in textwrap.dedent(program(text)).replace("    ", "")
    found = [body_of(one.code, one.helpers[0].name) for one in cuts(program(text))]
    assert found
    assert not any(one.startswith(begins) for one in found)


def test_an_elif_is_cut_with_its_if_or_not_at_all() -> None:
    text = """
        def grades(points):
            found = []
            for point in points:
                if point > 9:
                    found.append(["A", point, point * 2])
                elif point > 7 and point < 9 and point != 8:
                    found.append(["B", point])
                else:
                    found.append(["C", point, point + 2])
            return found
        """
    assert cut_where(text, "if point > 9:")
    with pytest.raises(StopIteration):
        cut_where(text, "if point > 7")
    assert any("elif check_point(point):" in one.code for one in cuts(program(text)))


def test_an_inner_function_is_left_where_it_is_all_that_a_branch_holds() -> None:
    text = """
        def f(a, b):
            if a:
                def g(x):
                    return x * x + b - x
            return g(a)
        """
    assert not any(one.helpers[0].kind == "inner" for one in cuts(program(text)))


def test_a_name_of_a_class_is_not_taken_out_of_it() -> None:
    text = """
        class A:
            def f(self, a):
                b = self.__x + a * 2
                c = self.__x - b * 3
                return self.__x * b * c
        """
    assert "self.__x" not in cut(text)[0].partition("class A")[0]


def test_a_function_that_nothing_reaches_is_left() -> None:
    text = program("""
        def main(xs):
            return len(xs)


        def other(xs, y):
            total = 0
            for x in xs:
                if x > y:
                    total += x * y
            return total + max(xs) - min(xs)
        """)
    assert extract(text, "main") is None
    assert extract(text) is not None


def test_new_names_are_new() -> None:
    text = """
        update_total = 1
        def f(xs, y):
            total = 0
            for x in xs:
                if x > y:
                    total += x * y
            return total + max(xs) - min(xs) * update_total
        """
    code, names = cut(text)
    assert names
    assert "update_total" not in names
    assert code.count(f"def {names[0]}(") == 1


def test_a_text_that_is_no_program_is_an_error() -> None:
    with pytest.raises(SourceError):
        extract("def f(:\n")


def test_hostile_depth_and_size_are_left() -> None:
    elifs = "def f(a):\n    if a == 0:\n        b = 1\n"
    elifs += "".join(f"    elif a == {n}:\n        b = {n}\n" for n in range(1, 300)) + "    return b\n"
    assert extract(elifs) is None
    assert extract("def f(a):\n" + "    a = a + 1\n" * 9000 + "    return a\n") is None
