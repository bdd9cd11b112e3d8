"""Edits that change nothing but comments, docstrings, layout, imports or names."""

from __future__ import annotations

import ast

import pytest
from edit_rows import edit
from hypothesis import given, settings
from hypothesis import strategies as st

from miner.changed import regions
from miner.nature import kind_of_change
from miner.syntax import Parsed, Sides


def kind(old: str, new: str, language: str = "Python") -> str | None:
    row = edit(old, new, language=language)
    sides = Parsed().sides(row)
    assert isinstance(sides, Sides)
    places = (
        regions(data, row["hunks"], side) for data, side in ((sides.old_data, "old"), (sides.new_data, "new"))
    )
    return kind_of_change(sides, *places)


COMMENTS = {
    "Python": ("x = 1  # one\n", "x = 1  # two\n"),
    "JavaScript": ("f(1); // one\n", "/* two\n */ f(1);\n"),
    "TypeScript": ("let x: number = 1;\n", "let x: number = 1; // one\n"),
    "Java": ("class A {\n  int x;\n}\n", "/** An A. */\nclass A {\n  int x; // x\n}\n"),
    "Go": ("package a\n\n// One.\nfunc A() {}\n", "package a\n\n// Two.\nfunc A() {}\n"),
    "C": ("int x; /* one */\n", "int x;\n"),
    "C++": ("int x;\n", "// one\nint x;\n"),
    "C#": ("class A { }\n", "/// <summary>An A.</summary>\nclass A { }\n"),
    "Ruby": ("x = 1\n", "# one\nx = 1\n"),
    "Rust": ("fn a() {}\n", "/// A.\nfn a() {}\n"),
    "PHP": ("<?php\n$x = 1;\n", "<?php\n// one\n$x = 1;\n"),
    "Kotlin": ("val x = 1\n", "// one\nval x = 1\n"),
    "Scala": ("val x = 1\n", "/* one */\nval x = 1\n"),
    "Swift": ("let x = 1\n", "let x = 1 // one\n"),
}


@pytest.mark.parametrize("language", sorted(COMMENTS))
def test_change_of_comments_alone_is_told_in_every_language(language: str) -> None:
    old, new = COMMENTS[language]
    assert kind(old, new, language) == kind(new, old, language) == "comment_only"


@pytest.mark.parametrize(
    ("old", "new", "language"),
    [
        ("x = 1\ny = 2\n", "x = 1\n# y = 2\n", "Python"),
        ("f(); g();\n", "f(); /* g(); */\n", "JavaScript"),
        ("x = '# one'\n", "x = '# two'\n", "Python"),
        ("int x;\n/* a */\nint y;\n", "int x;\n/* a\nint y; */\n", "C"),
        ("x = 1\n", "x = 1; y = 2  # two\n", "Python"),
        ("if a:\n    b()\n    c()\n", "if a:\n    b()\n# then\nc()\n", "Python"),
        ("let x = 1 /* a */;\n", "let x = 2 /* a */;\n", "JavaScript"),
    ],
)
def test_code_that_becomes_a_comment_or_changes_beside_one_is_a_change(
    old: str, new: str, language: str
) -> None:
    assert kind(old, new, language) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('def f():\n    """One."""\n    g()\n', 'def f():\n    """Two.\n\n    More.\n    """\n    g()\n'),
        ("def f():\n    g()\n", "def f():\n    'One.'\n    g()\n"),
        ('"""One."""\nx = 1\n', '# Two.\n"""Two."""\nx = 1\n'),
        ('class A:\n    """One \\n."""\n    x = 1\n', 'class A:\n    """Two \\n."""\n    x = 1\n'),
        (
            'class A:\n    # one\n    "One."\n\n    def f(self):\n        pass\n',
            "class A:\n    def f(self):\n        pass\n",
        ),
    ],
)
def test_change_of_docstrings_is_told(old: str, new: str) -> None:
    assert kind(old, new) == kind(new, old) == "docstring_only"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def f():\n    g('one')\n", "def f():\n    g('two')\n"),
        ("def f():\n    g()\n    'one'\n", "def f():\n    g()\n    'two'\n"),
        ("if a:\n    'one'\n    g()\n", "if a:\n    'two'\n    g()\n"),
        ("x = '''one'''\n", "x = '''two'''\n"),
        ('def f():\n    f"{g()}"\n    h()\n', "def f():\n    x = 1\n    h()\n"),
    ],
)
def test_other_strings_are_no_docstrings(old: str, new: str) -> None:
    assert kind(old, new) is None


@pytest.mark.parametrize(
    ("old", "new", "language"),
    [
        ("f(a,b)\n", "f(a, b)\n", "Python"),
        ("f(a, b)\n", "f(\n    a,\n    b\n)\n", "Python"),
        ("if a:\n  b()\n", "if a:\n        b()\n", "Python"),
        ("int f(){return 1;}\n", "int f()\n{\n  return 1;\n}\n", "C"),
        ("func a() {\nb()\n}\n", "func a() {\n\tb()\n}\n", "Go"),
        ("a = b\n\n\nc = d\n", "a = b\nc = d\n", "Ruby"),
        ("/* a\n b */\nint x;\n", "/* a\n  * b */\nint x;\n".replace("* b", "b"), "Java"),
    ],
)
def test_whitespace_that_means_nothing_is_told(old: str, new: str, language: str) -> None:
    assert kind(old, new, language) == "whitespace_only"


@pytest.mark.parametrize(
    ("old", "new", "language"),
    [
        ("x = 'a b'\n", "x = 'a  b'\n", "Python"),
        ("x = 'a\\n b'\n", "x = 'a\\nb'\n", "Python"),
        ("if a:\n    b()\n    c()\n", "if a:\n    b()\nc()\n", "Python"),
        ("x = f'{a=}'\n", "x = f'{a = }'\n", "Python"),
        ("function f() { return x; }\n", "function f() { return\nx; }\n", "JavaScript"),
        ("let x = `a b`;\n", "let x = `a  b`;\n", "JavaScript"),
        ('char *x = "a b";\n', 'char *x = "ab";\n', "C"),
        ("#define A x\ny\n", "#define A\nx y\n", "C"),
        ("x = <<~A\n  a b\nA\n", "x = <<~A\n  a  b\nA\n", "Ruby"),
        ("x = a -b\n", "x = a - b\n", "Ruby"),
        ('$x = "a  b";', '$x = "a b";', "PHP"),
        ("var s = `a b`\n", "var s = `ab`\n", "Go"),
    ],
)
def test_whitespace_that_means_something_is_a_change(old: str, new: str, language: str) -> None:
    prefix = "<?php\n" if language == "PHP" else ""
    assert kind(prefix + old, prefix + new, language) in (None, "comment_only" if old == new else None)


@pytest.mark.parametrize(
    ("old", "new", "language"),
    [
        ("x = [1, 2]\n", "x = [\n    1,\n    2,\n]\n", "Python"),
        ("f(a, b)\n", "f(a, b,)\n", "Python"),
        ("x = (1, 2)\n", "x = (1, 2,)\n", "Python"),
        ("x = 'a'\n", 'x = "a"\n', "Python"),
        ("x = b'a' f(u'c')\n".replace(" f", "; f"), 'x = b"a"; f(u"c")\n', "Python"),
        ("x = '''a'''\n", 'x = """a"""\n', "Python"),
        ("if (a):\n    b()\n", "if a:\n    b()\n", "Python"),
        ("return_ = (a + b)\n", "return_ = a + b\n", "Python"),
        ("let x = 'a'\n", 'let x = "a";\n', "JavaScript"),
        ("import {a} from 'b'\n", 'import { a, } from "b";\n', "TypeScript"),
        ("f({a: 1})\n", "f({\n  a: 1,\n});\n", "JavaScript"),
        ("x = 'a'\n", 'x = "a"\n', "Ruby"),
        ("let x = vec(a, b);\n", "let x = vec(\n    a,\n    b,\n);\n", "Rust"),
        ("int x[] = {1, 2};\n", "int x[] = {1, 2,};\n", "C"),
        ("<?php\n$x = [1, 2];\n", "<?php\n$x = [\n  1,\n  2,\n];\n", "PHP"),
    ],
)
def test_change_of_layout_alone_is_told(old: str, new: str, language: str) -> None:
    if language == "Rust":
        old, new = (f"fn f() {{\n{text}}}\n" for text in (old, new))
    assert kind(old, new, language) == kind(new, old, language) == "format_only"


@pytest.mark.parametrize(
    ("old", "new", "language"),
    [
        ("x = (1)\n", "x = (1,)\n", "Python"),
        ("x = (a + b) * c\n", "x = a + b * c\n", "Python"),
        ("x = 'a\"'\n", 'x = "a\'"\n', "Python"),
        ("x = r'a'\n", "x = 'a'\n", "Python"),
        ("x = b'a'\n", "x = 'a'\n", "Python"),
        ("x[1]\n", "x[1,]\n", "Python"),
        ("f(a)\n", "f((a,))\n", "Python"),
        ("assert (a, b)\n", "assert a, b\n", "Python"),
        ("print (a, b)\n", "print((a, b))\n", "Python"),
        ("x = (yield)\n", "x = (yield,)\n", "Python"),
        ("let x = [1];\n", "let x = [1,,];\n", "JavaScript"),
        ("let x = [,];\n", "let x = [];\n", "JavaScript"),
        ("for (;;) {}\n", "for (;) {}\n", "JavaScript"),
        ("while (a);\nb();\n", "while (a)\nb();\n", "JavaScript"),
        ("a\n(b)\n", "a;\n(b)\n", "JavaScript"),
        ("(a?.b).c;\n", "a?.b.c;\n", "JavaScript"),
        ('let x = "a";\n', "let x = `a`;\n", "JavaScript"),
        ("x = '#{a}'\n", 'x = "#{a}"\n', "Ruby"),
        ("x = '\\n'\n", 'x = "\\n"\n', "Ruby"),
        ("let x = (1,);\n", "let x = (1);\n", "Rust"),
        ("decltype((x)) y = x;\n", "decltype(x) y = x;\n", "C++"),
        ("char x = 'a';\n", 'char x = "a";\n', "C"),
        ("f(1, 2);\n", "f(12);\n", "C"),
        ("<?php\nf(\n  1,\n);\n", "<?php\nf(\n  1\n);\n", "PHP"),
    ],
)
def test_marks_that_mean_something_are_a_change(old: str, new: str, language: str) -> None:
    if language == "Rust":
        old, new = (f"fn f() {{\n{text}}}\n" for text in (old, new))
    assert kind(old, new, language) is None


@pytest.mark.parametrize(
    ("old", "new", "language"),
    [
        ("import os\nx = 1\n", "import os\nimport sys\nx = 1\n", "Python"),
        ("from a import (\n    b,\n)\nx = 1\n", "from a import (\n    b,\n    c,\n)\nx = 1\n", "Python"),
        ("import a.B;\nclass A {}\n", "import a.C;\nclass A {}\n", "Java"),
        ('import "a"\nf()\n', 'import "b"\nf()\n', "TypeScript"),
        ("#include <a.h>\nint x;\n", "#include <a.h>\n#include <b.h>\nint x;\n", "C"),
        ("use a::b;\nfn f() {}\n", "use a::{b, c};\nfn f() {}\n", "Rust"),
        ("using A;\nclass B {}\n", "using A;\nusing C;\nclass B {}\n", "C#"),
        ('package a\n\nimport "b"\n', 'package a\n\nimport (\n\t"b"\n\t"c"\n)\n', "Go"),
        ("<?php\nuse A\\B;\nf();\n", "<?php\nuse A\\C;\nf();\n", "PHP"),
        ("import a.b\nval x = 1\n", "import a.c\nval x = 1\n", "Kotlin"),
        ("import a.b\nval x = 1\n", "import a.c\nval x = 1\n", "Scala"),
        ("import A\nlet x = 1\n", "import A\nimport B\nlet x = 1\n", "Swift"),
    ],
)
def test_change_of_imports_alone_is_told(old: str, new: str, language: str) -> None:
    assert kind(old, new, language) == kind(new, old, language) == "import_only"


def test_import_with_other_code_is_more_than_imports() -> None:
    assert kind("import os\nx = 1\n", "import sys\nx = 2\n") is None


@pytest.mark.parametrize(
    ("old", "new", "language"),
    [
        ("def f(a):\n    return a + a\n", "def f(b):\n    return b + b\n", "Python"),
        ("int size; int f() { return size; }\n", "int length; int f() { return length; }\n", "C"),
        ("class A { void f() { g(); } }\n", "class B { void h() { g(); } }\n", "Java"),
    ],
)
def test_names_replaced_everywhere_are_a_rename(old: str, new: str, language: str) -> None:
    assert kind(old, new, language) == "rename_only"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f(a)\ng(a)\n", "f(b)\ng(a)\n"),
        ("f(a, b)\n", "f(b, a)\n"),
        ("f(a, b)\n", "f(c, c)\n"),
        ("f(a, a)\n", "f(b, c)\n"),
        ("f(a)\n", "f(1)\n"),
        ("f(a)\ng()\n", "f(g)\ng()\n"),
        ("f('a')\n", "f('b')\n"),
    ],
)
def test_names_replaced_in_part_or_by_others_in_use_are_a_change(old: str, new: str) -> None:
    assert kind(old, new) is None


STATEMENTS = (
    "x = 1\n",
    "x = (1)\n",
    "x = [1, 2]\n",
    "x = [1, 2,]\n",
    "x = 'a'\n",
    'x = "a"\n',
    "x = 'a '\n",
    "# one\n",
    "'one'\n",
    '"""two"""\n',
    "\n",
    "def f():\n    'doc'\n    g()\n",
    "def f():\n  g()\n",
    "def f():\n    # c\n    g()\n",
    "if x:\n    f()\n    g()\n",
    "if x:\n    f()\ng()\n",
    "f(x,\n  y)\n",
    "f(x, y)\n",
    "f((x), y,)\n",
    "x = (1,)\n",
    "x = 1,\n",
    "x = 'a' 'b'\n",
    "x = ('a' 'b')\n",
    "x = f'{x!r}'\n",
    "x = -x ** 2\n",
    "x = (-x) ** 2\n",
    "x = not (x)\n",
    "import os\n",
    "class A:\n    x = 1\n    'not doc'\n",
    "class A:\n    'doc'\n    x = 1\n",
    "x = 1; y = 2\n",
)


def without_docstrings(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
    return tree


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from(STATEMENTS), max_size=5),
    st.lists(st.sampled_from(STATEMENTS), max_size=5),
    st.lists(st.sampled_from(STATEMENTS), max_size=2),
)
def test_what_is_said_to_change_nothing_is_the_same_to_python_itself(
    old: list[str], new: list[str], around: list[str]
) -> None:
    before, after = ("".join([*around, *side, *around]) or "\n" for side in (old, new))
    found = kind(before, after)
    one, other = ast.parse(before), ast.parse(after)
    if found in ("whitespace_only", "comment_only", "format_only"):
        assert ast.dump(one) == ast.dump(other)
    elif found == "docstring_only":
        assert ast.dump(without_docstrings(one)) == ast.dump(without_docstrings(other))


@given(st.lists(st.sampled_from(STATEMENTS), max_size=6), st.sampled_from(["Python", "Ruby", "JavaScript"]))
@settings(deadline=None)
def test_nothing_changed_is_no_more_than_whitespace(parts: list[str], language: str) -> None:
    text = "".join(parts)
    assert kind(text, text, language) in ("whitespace_only", "comment_only")
