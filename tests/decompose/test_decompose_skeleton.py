"""Skeletons keep all but bodies; splicing puts one function in another's place and nothing else."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from programs_strategy import programs

from decompose.functions import functions, source_of
from decompose.grammars import SourceError
from decompose.skeleton import skeleton, splice


def shape(code: str) -> list[tuple[str, str, str | None]]:
    return [(span.name, span.signature, span.docstring) for span in functions(code)]


@pytest.mark.parametrize(
    ("code", "blank"),
    [
        ("def f(): return 1\n", "def f(): pass\n"),
        ("def f(): 'doc'; return 1\n", "def f(): 'doc'; pass\n"),
        ("def f(): 'doc'\n", "def f(): 'doc'; pass\n"),
        ("def f():\n    '''doc'''\n    return 1\n", "def f():\n    '''doc'''\n    pass\n"),
        ("def f():\n    '''doc'''; x = 1\n    return x\n", "def f():\n    '''doc'''\n    pass\n"),
        ("def f(x):  # type: (int) -> int\n    # how\n    return 1  # why\n    # end\n\n# after\n",
         "def f(x):  # type: (int) -> int\n    pass\n\n# after\n"),
        ("@a\nasync def f(\n  x\n):\n\tawait x\nx = f\n", "@a\nasync def f(\n  x\n):\n\tpass\nx = f\n"),
        ("def f():\r\n  if 1:\r\n    pass\r\n  return 2\r\nx=1\r\n", "def f():\r\n  pass\r\nx=1\r\n"),
        ("class A:\n    '''doc'''\n    k = 1\n    def m(self):\n        return 1\n    j = 2\n",
         "class A:\n    '''doc'''\n    k = 1\n    def m(self):\n        pass\n    j = 2\n"),
        ("def f():\n    def g():\n        return 1\n    return g", "def f():\n    pass"),
        ("if x:\n    def f(): return 1\nelse:\n    f = lambda: 2\n",
         "if x:\n    def f(): pass\nelse:\n    f = lambda: 2\n"),
        ("def f(): return 1\ndef f(): return 2\n", "def f(): pass\ndef f(): pass\n"),
        ("def f(): \\\n    return 1\n", "def f(): \\\n    pass\n"),
        ("def f(): return [\n1]\n", "def f(): pass\n"),
    ],
    ids=range(14),
)  # fmt: skip
def test_skeleton_of(code: str, blank: str) -> None:
    assert skeleton(code) == blank


def test_kept_functions_keep_their_bodies() -> None:
    code = "def f(): return 1\nclass A:\n    def m(self): return 2\n"
    assert skeleton(code, keep=["A.m"]) == "def f(): pass\nclass A:\n    def m(self): return 2\n"


@given(programs())
def test_skeleton_has_the_same_functions_signatures_and_docstrings(code: str) -> None:
    blank = skeleton(code)
    ast.parse(blank)
    assert shape(blank) == shape(code)


@given(programs())
def test_skeleton_of_a_skeleton_is_itself(code: str) -> None:
    blank = skeleton(code)
    assert skeleton(blank) == blank


@given(programs())
def test_splicing_a_functions_own_text_changes_nothing(code: str) -> None:
    for span in functions(code):
        assert splice(code, span.name, source_of(code, span)) == code


@given(programs())
def test_splicing_blank_functions_one_by_one_gives_the_skeleton(code: str) -> None:
    if len(shape(code)) == code.count("def ") - code.count("def inner"):
        blank = skeleton(code)
        made = code
        for span in functions(blank):
            made = splice(made, span.name, source_of(blank, span))
        assert made == blank


@given(programs(), programs())
def test_a_spliced_function_means_what_it_meant(code: str, other: str) -> None:
    theirs = {span.name: span for span in functions(other)}
    for span in functions(code):
        if span.name in theirs:
            made = splice(code, span.name, source_of(other, theirs[span.name]))
            (placed,) = (one for one in functions(made) if one.name == span.name)
            assert dump(made, placed.name) == dump(other, placed.name)
            assert made.encode()[: span.start_byte] == code.encode()[: span.start_byte]
            assert made.encode()[placed.end_byte :] == code.encode()[span.end_byte :]


def dump(code: str, name: str) -> str:
    found: dict[str, str] = {}

    def visit(body: list[ast.stmt], path: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{path}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[path + node.name] = ast.dump(node)

    visit(ast.parse(code).body, "")
    return found[name]


def test_whole_lines_go_into_a_class_at_its_depth() -> None:
    code = "class A:\n    class B:\n        def m(self): pass\n"
    new = "def m(self):\n    if 1:\n        return '''\n  text\n'''\n"
    assert splice(code, "A.B.m", new) == (
        "class A:\n    class B:\n        def m(self):\n            if 1:\n"
        "                return '''\n  text\n'''\n"
    )


def test_decorated_method_text_goes_to_module_level() -> None:
    code = "def m(x): return 1\n"
    assert splice(code, "m", "@d\n    # note\n    def m(x):\n        return 2") == (
        "@d\n# note\ndef m(x):\n    return 2\n"
    )


def test_indented_lines_are_taken_as_a_block() -> None:
    code = "class A:\n  def m(self): pass\n"
    assert splice(code, "A.m", "        def m(self):\n            return 1\n") == (
        "class A:\n  def m(self):\n      return 1\n"
    )


@pytest.mark.parametrize(
    "new",
    ["", "x = 1", "def g(): pass", "def f(): pass\ndef g(): pass", "def f(): pass\nx = 1", "def f(:",
     "f = lambda: 1", "class f: pass", "def f(): pass\ndef f(): pass", "if 1:\n    def f(): pass",
     "def f():\n    '''", "def f(): pass\\",
     "def f():\n    pass\n)", "'''", "x = 1; \ndef f(): pass", "def f(): pass\0"],
)  # fmt: skip
def test_text_that_is_not_that_one_function_is_refused(new: str) -> None:
    with pytest.raises(SourceError):
        splice("def f(): return 1\n\ndef h(): return f()\n", "f", new)


def test_a_function_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(SourceError, match="'g'"):
        splice("def f(): pass\n", "g", "def g(): pass\n")


def test_the_last_definition_is_the_one_replaced() -> None:
    assert splice("def f(): 1\ndef f(): 2\n", "f", "def f(): 3") == "def f(): 1\ndef f(): 3\n"
