"""Facts of a change and words of a message: what the criterion classifier sees."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelers.commits.classifying import message
from labelers.commits.classifying.features import features_of
from labelers.commits.classifying.lexing import change
from labelers.commits.classifying.rules import RULES, votes


def edit(old: str, new: str, subject: str = "Change it", **more: Any) -> dict[str, Any]:
    """The columns of `edits` that features are made of, with hunks as a diff gives them."""
    lines = [text.splitlines() for text in (old, new)]
    hunks = [
        {"old_start": a + 1, "old_lines": b - a, "new_start": c + 1, "new_lines": d - c}
        for kind, a, b, c, d in difflib.SequenceMatcher(None, *lines, autojunk=False).get_opcodes()
        if kind != "equal"
    ]
    row = {
        "old_contents": old,
        "new_contents": new,
        "subject": subject,
        "message": subject,
        "path": "src/module.py",
        "language": "Python",
        "hunks": hunks,
        "lines_added": sum(hunk["new_lines"] for hunk in hunks),
        "lines_removed": sum(hunk["old_lines"] for hunk in hunks),
    }
    return {**row, **more}


def facts(old: str, new: str, language: str = "Python", **more: Any) -> dict[str, float]:
    return features_of(edit(old, new, language=language, **more))


@pytest.mark.parametrize(
    ("language", "old", "new"),
    [
        ("Python", "x = 1  # one\n", "x = 1  # the first\n"),
        ("Python", 'def f():\n    """Old."""\n', 'def f():\n    """New."""\n'),
        ("C", "/* a\n   b */\nint x;\n", "/* a\n   c */\nint x;\n"),
        ("JavaScript", "go(); // now\n", "go();\n"),
        ("Ruby", "go # now\n", "go # later\n"),
    ],
)
def test_change_of_comments_is_seen_as_such(language: str, old: str, new: str) -> None:
    assert facts(old, new, language)["only comments changed"] == 1


@pytest.mark.parametrize(
    ("language", "old", "new"),
    [
        ("Python", 'x = """a"""\n', 'x = """b"""\n'),
        ("C", "#include <a.h>\n", "#include <b.h>\n"),
        ("Python", "x = '# a'\n", "x = '# b'\n"),
        ("JavaScript", "get('http://a')\n", "get('http://b')\n"),
        ("PHP", "#[Pure]\n", "#[Impure]\n"),
    ],
)
def test_what_looks_like_a_comment_in_code_is_code(language: str, old: str, new: str) -> None:
    assert "only comments changed" not in facts(old, new, language)


def test_line_inside_a_docstring_that_begins_before_the_hunk_is_a_comment() -> None:
    body = "".join(f"    line {number}\n" for number in range(40))
    old = f'def f():\n    """Head.\n\n{body}    end\n    """\n    return 1\n'
    found = facts(old, old.replace("    end\n", "    the end isn't here\n"))
    assert found["only comments changed"] == 1


def test_code_after_a_long_docstring_is_code() -> None:
    text = "    words and words\n" * 800
    old = f'def f():\n    """Head.\n{text}    """\n    return 1\n'
    assert "only comments changed" not in facts(old, old.replace("return 1", "return 2"))


@pytest.mark.parametrize(
    ("fact", "old", "new"),
    [
        ("only white space changed", "if x:\n  y()\n", "if x:\n    y()\n"),
        ("only strings changed", "log('a')\n", "log('b')\n"),
        ("only names changed", "total = first + first\n", "total = other + other\n"),
        ("only numbers changed", "wait(10)\n", "wait(20)\n"),
        ("only operators changed", "if a < b:\n", "if a <= b:\n"),
        ("only removed code", "a()\nb()\n", "a()\n"),
        ("only added code", "a()\n", "a()\nb()\n"),
        ("only imports changed", "import a\nimport b\nx\n", "import a\nx\n"),
        ("only a version changed", "__version__ = '1.2.3'\n", "__version__ = '1.2.4'\n"),
        ("null check added", "f(x)\n", "if x is None:\n    return\nf(x)\n"),
        ("guard added", "f(x)\n", "if not x:\n    raise ValueError\nf(x)\n"),
        ("try or catch only added", "f(x)\n", "try:\n    f(x)\nexcept OSError:\n    pass\n"),
        ("bounded copy for unbounded", "sprintf(b, s)\n", "snprintf(b, n, s)\n"),
        ("cache added", "def f(): pass\n", "@lru_cache\ndef f(): pass\n"),
        (
            "lines only reordered or reindented",
            "first_call()\nother_call()\n",
            "other_call()\nfirst_call()\n",
        ),
    ],
)
def test_fact_of_a_change_is_found(fact: str, old: str, new: str) -> None:
    assert facts(old, new)[fact] > 0


def test_rename_of_two_names_to_one_is_no_rename() -> None:
    assert "only names changed" in facts("f(a, a)\n", "f(b, b)\n")
    assert "only names changed" not in facts("f(a, a)\n", "f(b, c)\n")


def test_names_of_rules_tell_them_apart() -> None:
    assert len({(rule.code, rule.name) for rule in RULES}) == len(RULES)


def test_words_of_rules_are_words_of_messages() -> None:
    row = edit("a\n", "b\n", "Simplify the unused grammar, and fix a memory leak")
    cast = dict(zip(RULES, votes(features_of(row)), strict=True))
    assert {rule.name for rule, vote in cast.items() if vote} >= {
        "tidying",
        "cosmetic words",
        "words of memory",
    }


def test_several_actions_are_counted_and_lists_of_things_are_not() -> None:
    several = message.message_features(edit("", "", "Fix crash, rename helpers, and speed up the parser"))
    things = message.message_features(edit("", "", "Fix crash with lists, sets, and maps"))
    assert several["several actions in the subject"] > things["several actions in the subject"] == 0


_ROW = st.builds(
    lambda old, new, subject, language: edit(old, new, subject, language=language),
    st.text(alphabet="ab01 \n\t\"'`#/*{}()=<>\\\x01\x02é\ud800", max_size=80),
    st.text(alphabet="ab01 \n\t\"'`#/*{}()=<>\\\x01\x02é\ud800", max_size=80),
    st.text(max_size=40),
    st.sampled_from(["Python", "C", "JavaScript", "Ruby", "PHP", "Go", "Scala", "Klingon"]),
)


@given(_ROW)
@settings(max_examples=200, deadline=None)
def test_features_of_any_text_are_between_0_and_1(row: dict[str, Any]) -> None:
    assert all(0 <= value <= 1 for value in features_of(row).values())


@given(_ROW)
@settings(max_examples=100, deadline=None)
def test_both_sides_of_a_change_swap_with_the_versions(row: dict[str, Any]) -> None:
    back = {**row, "old_contents": row["new_contents"], "new_contents": row["old_contents"]}
    back["hunks"] = [
        {
            f"{to}_{what}": hunk[f"{of}_{what}"]
            for to, of in (("old", "new"), ("new", "old"))
            for what in ("start", "lines")
        }
        for hunk in row["hunks"]
    ]
    there, again = change(row), change(back)
    assert [(new, old) for old, new in there.hunks] == again.hunks


@pytest.mark.parametrize(
    "line",
    [
        "/*" * 60_000,
        '"""' * 40_000,
        "`" * 90_001,
        "'" * 90_000,
        ": " + "a" * 90_000,
        "a." * 50_000,
        "(" * 90_000,
        "_" * 90_000,
    ],
)
@pytest.mark.parametrize("language", ["Python", "C", "JavaScript"])
@pytest.mark.timeout(60)
def test_hostile_text_costs_bounded_work(line: str, language: str) -> None:
    row = edit("x\n", line + "\n", line, language=language, message=f"{line}\n\n{line}\n" + " \n" * 9_000)
    assert features_of(row)["lines added"] > 0
