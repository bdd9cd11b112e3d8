"""What is a step, where it lies, what it calls, and what hostile text does."""

from __future__ import annotations

import ast
import contextlib
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs_strategy import programs

from decompose.functions import functions, source_of
from decompose.grammars import MAX_SOURCE_BYTES, SourceError, depth
from schemas.errors import AssayError


def code_of(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def names(text: str) -> list[str]:
    return [span.name for span in functions(code_of(text))]


def only(text: str):
    (span,) = functions(code_of(text))
    return span


def test_functions_and_methods_are_steps_in_order_of_position() -> None:
    assert names(
        """
        def a(): pass
        class B:
            def c(self): pass
            class D:
                async def e(self): yield
        def f(): return 1
        """
    ) == ["a", "B.c", "B.D.e", "f"]


def test_function_inside_a_function_is_part_of_it() -> None:
    span = only(
        """
        def outer():
            def inner():
                return 1
            class Local:
                def m(self): pass
            return inner
        """
    )
    assert span.name == "outer"


def test_lambda_is_not_a_step() -> None:
    assert names("f = lambda x: x\n") == []


def test_definition_under_a_condition_is_not_a_step() -> None:
    assert (
        names(
            """
            if True:
                def a(): pass
            else:
                def a(): pass
            try:
                def b(): pass
            except E:
                def b(): pass
            for i in x:
                def c(): pass
            with y:
                class K:
                    def d(self): pass
            match z:
                case 1:
                    def e(): pass
            """
        )
        == []
    )


def test_last_of_several_definitions_is_the_step() -> None:
    code = code_of(
        """
        def f(): return 1
        def g(): return f()
        def f(x): return 2
        """
    )
    assert [(span.name, span.signature) for span in functions(code)] == [
        ("g", "def g():"),
        ("f", "def f(x):"),
    ]


def test_property_setter_hides_its_getter() -> None:
    code = code_of(
        """
        class A:
            @property
            def x(self): return 1
            @x.setter
            def x(self, value): pass
        """
    )
    (span,) = functions(code)
    assert source_of(code, span).startswith("@x.setter")


def test_span_includes_decorators_and_comments_of_the_body_and_nothing_after() -> None:
    code = "x = 1\n@a\n@b(2)\ndef f():\n    return 1  # why\n    # trailing\n\n# of g\ndef g(): pass\n"
    assert source_of(code, functions(code)[0]) == "@a\n@b(2)\ndef f():\n    return 1  # why\n    # trailing"


def test_spans_index_bytes_of_utf8() -> None:
    code = "s = 'äöü€😀'\ndef f():\n    return 'ß'\n"
    (span,) = functions(code)
    assert code.encode()[span.start_byte : span.end_byte].decode() == "def f():\n    return 'ß'"


def test_signature_is_as_written_without_decorators() -> None:
    assert only(
        "@d\nasync def f(\n    x: int,  # first\n    *, y='a:b',\n) -> dict[str, int]: ...\n"
    ).signature == ("async def f(\n    x: int,  # first\n    *, y='a:b',\n) -> dict[str, int]:")


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ('"""A\\tb."""', "A\tb."),
        ("r'\\d'", "\\d"),
        ("'a' 'b'", "ab"),
        ("('c')", "c"),
        ("b'bytes'", None),
        ("f'{x}'", None),
        ("'a' + 'b'", None),
        ("'\\ud800'", "\\ud800"),
    ],
)
def test_docstring_is_the_value_of_the_literal(literal: str, value: str | None) -> None:
    assert only(f"def f():\n    {literal}\n    return 1\n").docstring == value


def test_calls_are_in_order_of_first_call_without_repeats() -> None:
    code = code_of(
        """
        def a(): pass
        def b(): pass
        def c(): return len([b(), a(), b()])
        """
    )
    assert functions(code)[2].calls == ["b", "a"]


def test_a_local_of_the_same_name_is_not_a_call() -> None:
    code = code_of(
        """
        def a(): pass
        def b(a): return a()
        def c():
            for a in x: a()
        def d():
            import a
            a()
        def e(): return a()
        """
    )
    assert [span.calls for span in functions(code)] == [[], [], [], [], ["a"]]


def test_a_function_passed_on_counts_as_called() -> None:
    code = "def a(x): pass\ndef b(xs): return sorted(map(a, xs), key=a)\n"
    assert functions(code)[1].calls == ["a"]


def test_methods_are_called_through_self_class_and_constructor() -> None:
    code = code_of(
        """
        class A:
            def __init__(self): self.setup()
            def setup(self): pass
            @classmethod
            def make(cls): return cls.other()
            @staticmethod
            def other(): return A()
        def use(self): return A.make(), self.setup()
        """
    )
    assert {span.name: span.calls for span in functions(code)} == {
        "A.__init__": ["A.setup"],
        "A.setup": [],
        "A.make": ["A.other"],
        "A.other": ["A.__init__"],
        "use": ["A.make"],
    }


def test_recursion_is_a_call() -> None:
    assert only("def f(n): return f(n - 1) if n else 0\n").calls == ["f"]


def test_identifiers_are_in_the_normal_form_that_python_compares() -> None:
    # The ligature is the two letters to Python.
    code = "def ﬁne(): pass\ndef g(): return fine()\n"
    assert [(span.name, span.calls) for span in functions(code)] == [("fine", []), ("g", ["fine"])]


@pytest.mark.parametrize(
    "code",
    [
        "def f(:\n",
        "def f():\nreturn 1\n",
        "print 'python 2'\n",
        "def f():\n\tif 1:\n        pass\n",
        "def f():\0 pass\n",
        "x = '\ud800'\n",
        "def f():\n    pass\rx = 1\n",
        "def f(): pass\n" + "(" * 100_000 + ")" * 100_000,
        "[" * 100_000,
        "x = " + "-" * 100_000 + "1",
        "x = " + "+".join(["1"] * 20_000),
        "if 1: pass\n" + "elif 1: pass\n" * 20_000,
        "lambda: " * 5000 + "1",
        "x = 1" + "\\\n" * 5000 + "+ 1\n",
        "x" * (MAX_SOURCE_BYTES + 1),
        "ä" * (MAX_SOURCE_BYTES // 2 + 1),
        "x = 1" * 5 + "0" * 5000,
        "def f():\n    return 1\n  x = 2\n",
        "".join(" " * level + "if 1:\n" for level in range(120)) + " " * 120 + "pass\n",
    ],
    ids=range(19),
)
def test_what_is_no_program_is_one_line_of_error(code: str) -> None:
    with pytest.raises(SourceError) as caught:
        functions(code)
    assert "\n" not in str(caught.value)
    assert str(caught.value)


@pytest.mark.parametrize(
    "code",
    [
        "\ufeffdef f():\n    return 1\n",
        "def f():\r\n    '''d\r\n    e'''\r\n    return 1\r\n",
        "\f\ndef f():\n\treturn 1\f\n",
        "def f():\n    return \\\n        1",
        "def f(): \\\n    return 1\n",
        "# -*- coding: latin-1 -*-\ndef f(): return 'ä'\n",
        "def f():\n    return '\\d'\n",
    ],
    ids=range(7),
)
def test_odd_but_valid_layout_is_read(code: str) -> None:
    assert [span.name for span in functions(code)] == ["f"]


@given(programs())
def test_spans_lie_in_order_and_hold_the_named_definition(code: str) -> None:
    data, end = code.encode(), 0
    for span in functions(code):
        assert end <= span.start_byte < span.end_byte <= len(data)
        end = span.end_byte
        before = data[data.rfind(b"\n", 0, span.start_byte) + 1 : span.start_byte]
        node = ast.parse(
            b"if 1:\n" + (before or b" ") + data[span.start_byte : end]
            if before
            else data[span.start_byte : end]
        ).body[0]
        node = node.body[0] if before else node
        assert node.name == span.name.rpartition(".")[2]


@given(st.text(alphabet=st.characters(), max_size=200))
def test_any_text_is_read_or_refused(code: str) -> None:
    with contextlib.suppress(SourceError):
        functions(code)


@given(
    st.lists(st.sampled_from(list("def f(x):\n \t'\"#\\{}[]@=;,\rlambda classif")), max_size=60).map("".join)
)
def test_any_soup_of_python_is_read_or_refused(code: str) -> None:
    with contextlib.suppress(SourceError):
        functions(code)


def test_another_language_is_refused_by_name() -> None:
    with pytest.raises(AssayError, match="COBOL"):
        functions("x", "COBOL")
    with pytest.raises(AssayError, match="known are"):
        depth("x", "COBOL")


def test_depth_counts_nodes_from_root_to_leaf() -> None:
    # module, expression statement, identifier
    assert depth("x\n") == 3
    assert depth("") == 1
    assert depth("(x)\n") == 4


def test_depth_of_a_tower_does_not_exhaust_the_stack() -> None:
    assert depth("(" * 50_000 + ")" * 50_000) > 50_000
