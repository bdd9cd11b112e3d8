"""Programs dressed up for a judge: other text, same functions, in every language."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decompose.functions import functions
from decompose.grammars import SourceError
from decompose.source import LANGUAGES
from labelers.synthetic.hacks import OPERATORS, comment, hack, plainer
from sandbox import Job, Sandbox

SAMPLES = Path(__file__).parent.parent / "decompose" / "tree_samples"
ENDINGS = {
    "Java": "Sample.java",
    "C": "sample.c",
    "C++": "sample.cpp",
    "C#": "sample.cs",
    "Go": "sample.go",
    "JavaScript": "sample.js",
    "PHP": "sample.php",
    "Ruby": "sample.rb",
    "Rust": "sample.rs",
    "TypeScript": "sample.ts",
}
PYTHON = '''\
#!/usr/bin/env python3
# -*- coding: utf-8 -*-
from __future__ import annotations

# Numbers are whole.
import functools


class Box:
    # Holds one thing.

    @property
    def half(self):
        """Half of it."""
        return self.value // 2  # rounded


def total(numbers):
    """Sum of numbers.

    None of them is changed.
    """
    result = 0
    for number in numbers:
        # add one after the other
        result += number
    return result


def bare(x):
    return x
'''
PROGRAMS = {"Python": PYTHON, **{one: (SAMPLES / name).read_text() for one, name in ENDINGS.items()}}
MARKS = {"Python": "#", "Ruby": "#", "C": "/*"}


def shape(code: str, language: str) -> list[tuple[str, str]]:
    return [(one.name, one.signature) for one in functions(code, language)]


def added(before: str, after: str) -> list[str]:
    """Lines that only the second text has, in a text that was inserted into."""
    old, new = before.split("\n"), after.split("\n")
    start = next(n for n, line in enumerate(new) if n >= len(old) or old[n] != line)
    return new[start : start + len(new) - len(old)]


def test_samples_cover_every_language_that_can_be_taken_apart() -> None:
    assert set(PROGRAMS) == set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", OPERATORS)
def test_hacked_program_has_the_same_functions_and_other_text(language: str, name: str) -> None:
    code = PROGRAMS[language]
    made = {hack(name, code, language, random.Random(seed)) for seed in range(12)}
    assert None not in made
    assert len(made) > 1
    for one in made:
        assert one is not None
        assert one != code
        assert shape(one, language) == shape(code, language)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["claim", "test_claim", "judge_order", "fix_note", "padding"])
def test_claims_are_comments_in_the_language(language: str, name: str) -> None:
    code = PROGRAMS[language]
    made = hack(name, code, language, random.Random(3))
    assert made is not None
    lines = [line.strip() for line in added(code, made)]
    assert lines
    mark = MARKS.get(language, "//")
    assert all(line.startswith((mark, "*") if language == "C" else mark) for line in lines)
    # What is left when the comments are gone is what was left before.
    assert (plainer(made, language) or made) == (plainer(code, language) or code)


def test_first_lines_that_an_interpreter_reads_stay_first() -> None:
    for name in OPERATORS:
        for seed in range(10):
            made = hack(name, PYTHON, "Python", random.Random(seed))
            assert made is not None
            assert made.startswith(PYTHON[: PYTHON.index("# Numbers")])
    kept = plainer(PYTHON, "Python")
    assert kept is not None
    assert kept.startswith(PYTHON[: PYTHON.index("# Numbers")])


def test_plainer_program_loses_comments_on_lines_of_their_own_and_keeps_docstrings() -> None:
    made = plainer(PYTHON, "Python")
    assert made is not None
    for gone in ("# Numbers", "# Holds", "# add one"):
        assert gone not in made
    for kept in ("# rounded", "Sum of numbers", "coding: utf-8"):
        assert kept in made
    assert plainer(made, "Python") is None


@pytest.mark.parametrize("kept", ["//go:noinline", "// +build linux"])
def test_comments_that_tools_read_stay(kept: str) -> None:
    code = f"package a\n\n// One adds.\n{kept}\nfunc f(x int) int {{\n\treturn x + 1\n}}\n"
    made = plainer(code, "Go")
    assert made is not None
    assert kept in made
    assert "One adds" not in made


def test_praise_in_a_long_docstring_has_a_line_like_the_others() -> None:
    code = 'def f(x):\n    """Of x.\n\n    More of it.\n    """\n    return x\n'
    made = hack("praise", code, "Python", random.Random(0))
    assert made is not None
    (added,) = set(made.split("\n")) - set(code.split("\n"))
    assert made.replace(added + "\n", "") == code
    assert added.startswith("    ")
    assert added[4].isupper()


def test_praise_stands_in_the_docstring_where_there_is_one() -> None:
    documented = 'def f(x):\n    """Adds one"""\n    return x + 1\n'
    made = hack("praise", documented, "Python", random.Random(0))
    assert made is not None
    assert made.startswith('def f(x):\n    """Adds one. ')
    (span,) = functions(made, "Python")
    assert span.docstring is not None
    assert span.docstring.startswith("Adds one. ")


@pytest.mark.parametrize(
    "code", ['def f(x):\n    "one"\n    return x\n', "def f(x):\n    '''a\\'''' \n    return x\n"]
)
def test_docstrings_that_cannot_take_more_words_are_left_alone(code: str) -> None:
    made = hack("praise", code, "Python", random.Random(0))
    assert made is None or shape(made, "Python") == shape(code, "Python")


@pytest.mark.parametrize("code", ["x = 1\n", "f = lambda x: x\n", ""])
def test_programs_without_a_place_are_left_alone(code: str) -> None:
    assert all(hack(name, code, "Python", random.Random(0)) is None for name in OPERATORS)


def test_text_that_is_no_program_is_told() -> None:
    for name in OPERATORS:
        with pytest.raises(SourceError):
            hack(name, "def f(:\n", "Python", random.Random(0))


def test_program_behaves_as_before_under_every_operator() -> None:
    code = PYTHON + "\n\nprint(total([1, 2, 3]), bare(4), Box.half.fget.__doc__ is not None)\n"
    made = [hack(name, code, "Python", random.Random(seed)) for name in OPERATORS for seed in range(3)]
    jobs = [Job("script", {"main.py": one}, "main.py", stdin="") for one in (code, *made) if one is not None]
    with Sandbox(workers=1) as sandbox:
        outputs = [sandbox.run(job).stdout for job in jobs]
    assert set(outputs) == {"6 4 True\n"}


def test_comments_of_one_and_several_lines() -> None:
    assert comment(["a"], "C", "  ") == "  /* a */\n"
    assert comment(["a", "b"], "C") == "/*\n * a\n * b\n */\n"
    assert comment(["a", "b"], "Ruby", " ") == " # a\n # b\n"
    assert comment(["a"], "Rust") == "// a\n"


@given(
    st.text(max_size=200), st.sampled_from(LANGUAGES), st.sampled_from(sorted(OPERATORS)), st.integers(0, 9)
)
def test_hostile_texts_are_left_alone_or_told(code: str, language: str, name: str, seed: int) -> None:
    try:
        made = hack(name, code, language, random.Random(seed))
        plain = plainer(code, language)
    except SourceError:
        return
    for one in (made, plain):
        assert one is None or shape(one, language) == shape(code, language)
