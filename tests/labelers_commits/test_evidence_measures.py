"""What is measured on both versions of a change, whatever the versions hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from evidence_views import CRITERIA, STILL, by, evidence, proposal, row, values, verdicts

from labelers.commits import criteria
from labelers.commits.config import BuildConfig, EvidenceConfig
from labelers.commits.decide import Decision, decide
from labelers.commits.evidence import Measurer
from schemas.declare import validate
from schemas.records import Evidence

OLD = '''import os


def total(values):
    """Add them up."""
    result = 0
    for value in values:  # each
        if value > 0:
            result += value
    return result
'''
NEW = OLD.replace("    return result\n", "    while result > 9:\n        result -= 1\n    return result\n")


@pytest.fixture(scope="module")
def measurer() -> Iterator[Measurer]:
    with Measurer(STILL, CRITERIA, 0) as made:
        yield made


def test_measures_of_python_name_their_tools_and_values(measurer: Measurer) -> None:
    found = measurer.measure(proposal(OLD, NEW))
    validate(Evidence, found)
    got = values(found)
    assert got["size_lines"] == (7, 9)
    assert got["complexity"] == (3, 4)
    assert got["complexity_max"] == (3, 4)
    assert got["nesting"] == (2, 2)
    assert got["parse_errors"] == (0, 0)
    assert got["lint_F"] == (1, 1)
    assert got["type_errors"] == (0, 0)
    assert got["security"] == (0, 0)
    tools = {one.tool.split()[0] for one in found.measures}
    assert tools == {"tree-sitter", "lizard", "bandit", "ruff", "ty", "rules-1", "git"}


def test_every_criterion_has_a_bearing_in_order(measurer: Measurer) -> None:
    found = measurer.measure(proposal(OLD, NEW))
    assert [one.criterion for one in found.bearings] == [one.code for one in CRITERIA]


def test_without_lint_neither_ruff_nor_ty_is_asked() -> None:
    found = evidence(OLD, NEW, config=EvidenceConfig(lint=False, run=False))
    assert {one.tool.split()[0] for one in found.measures}.isdisjoint({"ruff", "ty"})


def test_complexity_of_changed_functions_leaves_the_others_out(measurer: Measurer) -> None:
    other = "\n\ndef other(a):\n" + "".join(
        f"    if a == {one}:\n        return {one}\n" for one in range(20)
    )
    got = values(measurer.measure(proposal(OLD + other, NEW + other)))
    assert got["complexity"] == (24, 25)
    assert got["complexity_max"] == (3, 4)


@pytest.mark.parametrize(
    ("language", "old", "new"),
    [
        ("Python", "x = 1  # one\n", "x = 1\n"),
        (
            "Python",
            'def f():\n    """Old."""\n    return 1\n',
            'def f():\n    """New text."""\n    return 1\n',
        ),
        ("Python", "f(1,\n  2)\n", "f(1, 2)\n"),
        ("C", "int f(void) { return 1; }\n", "/* One. */\nint f(void)\n{\n  return 1;\n}\n"),
        ("Go", "package a\n\n// F is old.\nfunc F() {}\n", "package a\n\n// F is new.\nfunc F() {}\n"),
        ("Ruby", "def f\n  1 # one\nend\n", "def f\n  1\nend\n"),
        ("JavaScript", "f(); // a\n", "f();\n"),
        ("PHP", "<?php\n# a\nf();\n", "<?php\n// b\nf();\n"),
    ],
)
def test_comments_docstrings_and_layout_are_the_same_program(
    measurer: Measurer, language: str, old: str, new: str
) -> None:
    found = measurer.measure(proposal(old, new, language))
    assert "same_program" in found.notes
    assert verdicts(found) == {"FC": "disagrees", "RE": "disagrees", "ME": "disagrees", "SH": "disagrees"} | {
        "RM": "agrees"
    }
    assert found.veto is None


@pytest.mark.parametrize(
    ("language", "old", "new"),
    [
        ("Python", "if a:\n    b()\n    c()\n", "if a:\n    b()\nc()\n"),
        ("Python", "x = ' a'\n", "x = 'a'\n"),
        ("Python", "x = 'a b'\n", "x = 'a  b'\n"),
        ("Python", '"""Usage: old"""\nprint(__doc__)\n', '"""Usage: new"""\nprint(__doc__)\n'),
        ("Go", "//go:build linux\n\npackage a\n", "//go:build darwin\n\npackage a\n"),
        ("Go", 'package a\n\n// int f;\nimport "C"\n', 'package a\n\n// int g;\nimport "C"\n'),
        ("JavaScript", "function f() { return 1 }\n", "function f() { return\n1 }\n"),
        ("C", '#define A "x"\n', '#define A "y"\n'),
        ("Ruby", "# frozen_string_literal: true\nf\n", "# frozen_string_literal: false\nf\n"),
        ("C", "int f(void) { return a - -b; }\n", "int f(void) { return a - b; }\n"),
    ],
)
def test_what_a_program_means_is_not_taken_for_comment_or_layout(
    measurer: Measurer, language: str, old: str, new: str
) -> None:
    assert "same_program" not in measurer.measure(proposal(old, new, language)).notes


def test_a_version_that_no_longer_parses_is_vetoed(measurer: Measurer) -> None:
    found = measurer.measure(proposal(OLD, OLD.replace("result = 0", "result = (0")))
    assert found.veto == "no_longer_parses"
    assert verdicts(found)["FC"] == "disagrees"


def test_a_grammar_that_does_not_know_all_real_code_vetoes_nothing(measurer: Measurer) -> None:
    found = measurer.measure(proposal("int f(void) { return 1; }\n", "int f(void) { return FOO(1 }\n", "C"))
    assert found.veto is None
    assert "parse_errors:new" in found.notes


def test_a_file_that_did_not_parse_before_is_not_vetoed(measurer: Measurer) -> None:
    assert measurer.measure(proposal("x = (1\n", "x = (2\n")).veto is None


def test_python_2_is_read_as_far_as_tools_can(measurer: Measurer) -> None:
    found = measurer.measure(proposal("print 'a'\n", "print 'b', 1\n"))
    assert {"ruff:syntax", "ty:syntax", "bandit:syntax"} <= set(found.notes)
    assert found.veto is None
    assert "lint_F" not in values(found)


@pytest.mark.parametrize(
    ("line", "measure"),
    [
        ("import subprocess\nsubprocess.call(cmd, shell=True)  # nosec\n", "security"),
        ("import subprocess\nsubprocess.call(cmd, shell=True)  # nosec B602\n", "security"),
        ("import os  # noqa\n", "lint_F"),
        ("# ruff: noqa\nimport os\n", "lint_F"),
        ("# flake8: noqa\nimport os\n", "lint_F"),
        ("# ruff: disable[F401]\nimport os\n", "lint_F"),
        ("x: int = 'a'  # type: ignore\n", "type_errors"),
        ("# type: ignore\nx: int = 'a'\n", "type_errors"),
        ("x: int = 'a'  # ty: ignore\n", "type_errors"),
        ("# ty: ignore\nx: int = 'a'\n", "type_errors"),
        (
            "# /// script\n# dependencies = []\n# [tool.ty.rules]\n# invalid-assignment = 'ignore'\n# ///\n"
            "x: int = 'a'\n",
            "type_errors",
        ),
    ],
)
def test_no_comment_switches_a_finding_off(measurer: Measurer, line: str, measure: str) -> None:
    old, new = values(measurer.measure(proposal("cmd = 1\n", "cmd = 1\n" + line)))[measure]
    assert (old, bool(new)) == (0, True)


def test_settings_of_user_and_project_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import os\nx: int = 'a'\n"
    plain = row(evidence("x = 1\n", text))
    (tmp_path / "ruff.toml").write_text('lint.ignore = ["F401"]\n')
    (tmp_path / "ty.toml").write_text('[rules]\ninvalid-assignment = "ignore"\n')
    (tmp_path / "pyproject.toml").write_text('[tool.ty.rules]\ninvalid-assignment = "ignore"\n')
    (tmp_path / ".bandit").write_text("[bandit]\nskips = B602\n")
    for folder in ("ty", "ruff"):
        (tmp_path / ".config" / folder).mkdir(parents=True)
        (tmp_path / ".config" / folder / f"{folder}.toml").write_bytes(
            (tmp_path / f"{folder}.toml").read_bytes()
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("TY_CONFIG_FILE", str(tmp_path / "ty.toml"))
    monkeypatch.setenv("RUFF_OUTPUT_FORMAT", "concise")
    assert row(evidence("x = 1\n", text)) == plain


HOSTILE = [
    "x = 1\0\n",
    "x = '\ud800'\n",
    "(" * 30_000,
    "[" * 3_000 + "]" * 3_000 + "\n",
    "x = " + "-" * 20_000 + "1\n",
    "x = " + "1+" * 20_000 + "1\n",
    "a." * 400 + "b\n",
    "if x:\n" + "".join(" " * one + "if x:\n" for one in range(1, 150)),
    "\\\n" * 5_000,
    "x = 1\r\ny = 2\r",
    "\ufeffx = 1\n",
    "# coding: utf-7\nx = 1\n",
    "# coding: nonsense\nx = 1\n",
    "",
    "f'{" * 500,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_has_evidence_and_costs_its_neighbours_nothing(measurer: Measurer, text: str) -> None:
    validate(Evidence, measurer.measure(proposal("x = 1\n", text)))
    validate(Evidence, measurer.measure(proposal(text, "x = 1\n", "JavaScript")))
    assert values(measurer.measure(proposal(OLD, NEW)))["complexity"] == (3, 4)


def test_a_text_that_a_parser_takes_for_ever_is_given_up_and_the_next_one_read() -> None:
    slow = "x = a match { case " * 9_000
    with Measurer(EvidenceConfig(run=False, time_limit_s=2), CRITERIA, 0) as measurer:
        found = measurer.measure(proposal("class A\n", slow, "Scala"))
        assert "tree-sitter:timeout" in found.notes
        assert values(measurer.measure(proposal(OLD, NEW)))["complexity"] == (3, 4)
        assert measurer.counts["tool_timeout"] == 1


def test_a_text_larger_than_a_parser_takes_is_noted(measurer: Measurer) -> None:
    assert "tree-sitter:no_text" in measurer.measure(proposal("x = 1\n", "x = 1\n" * 200_000)).notes


def test_no_text_is_run_or_leaves_a_file(measurer: Measurer, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    text = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n"
    measurer.measure(proposal("x = 1\n", text, path="../../etc/evil\n--fix.py"))
    assert list(tmp_path.iterdir()) == []
    assert not mark.exists()


def test_a_version_is_read_once() -> None:
    third = NEW.replace("9", "8")
    with Measurer(STILL, CRITERIA, 0) as measurer:
        measurer.measure(proposal(OLD, NEW))
        found = measurer.measure(proposal(NEW, third))
        assert (measurer.counts["versions_read"], measurer.counts["versions_known"]) == (3, 1)
    assert row(found) == row(evidence(NEW, third))


def test_the_same_text_in_another_dialect_is_another_version() -> None:
    text = "const a = <b>c</b>;\n"
    with Measurer(STILL, CRITERIA, 0) as measurer:
        markup = values(measurer.measure(proposal(text, text + "\n", "TypeScript", path="a.tsx")))
        cast = values(measurer.measure(proposal(text, text + "\n", "TypeScript", path="a.ts")))
    assert markup["parse_errors"] == (0, 0)
    assert cast["parse_errors"] != (0, 0)


def test_tests_that_came_with_a_change_speak_for_correctness(measurer: Measurer) -> None:
    found = measurer.measure(proposal(OLD, NEW, companions=["tests/test_total.py", "CHANGES"]))
    assert values(found)["companion_tests"] == (0, 1)
    assert by(found, "FC") == ["companion_tests"]


def test_documents_that_came_with_a_change_say_nothing(measurer: Measurer) -> None:
    found = measurer.measure(proposal(OLD, NEW, companions=["README.md"]))
    assert verdicts(found)["FC"] == "silent"


def test_a_criterion_of_a_user_is_silent(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[[criterion]]\ncode = "API"\nname = "API"\nquestion = "Which?"\npoints = ["a"]\n')
    with Measurer(STILL, criteria.load(str(file)), 0) as measurer:
        found = measurer.measure(proposal("x = 1  # a\n", "x = 1\n"))
    assert [(one.criterion, one.verdict, one.by) for one in found.bearings] == [("API", "silent", [])]


def test_memory_that_a_change_releases_is_counted(measurer: Measurer) -> None:
    old = "void f(void) {\n  char *p = malloc(3);\n  use(p);\n}\n"
    found = measurer.measure(proposal(old, old.replace("}\n", "  free(p);\n}\n"), "C"))
    assert (values(found)["allocations"], values(found)["releases"]) == ((1, 1), (0, 1))
    assert verdicts(found)["ME"] == "agrees"


def test_copied_lines_are_counted() -> None:
    block = "".join(f"    step_{one}(value)\n" for one in range(8))
    old = f"def a(value):\n{block}\n\ndef b(value):\n{block}"
    new = f"def a(value):\n{block}\n\ndef b(value):\n    a(value)\n"
    found = evidence(old, new)
    assert values(found)["duplicate_lines"] == (8, 0)
    assert "duplicate_lines" in by(found, "RM")


def test_a_label_for_readability_stands_where_the_program_is_the_same(measurer: Measurer) -> None:
    found = row(measurer.measure(proposal("x = 1\n", "x = 1  # one\n")))
    given = {"labeler": "l", "method": "classifier"}
    for criterion, made in (("RM", True), ("FC", False), ("SH", False)):
        one = dataclasses.replace(proposal("x = 1\n", "x = 1  # one\n"), label=given, criterion=criterion)
        decision = decide(one, None, found, BuildConfig(), judged=False)
        assert isinstance(decision, Decision) is made
        if isinstance(decision, Decision):
            assert decision.trade_offs == ()


def test_another_criterion_that_gets_worse_is_a_trade_off(measurer: Measurer) -> None:
    old = "void f(void) {\n  fgets(line, 9, in);\n}\n"
    found = row(measurer.measure(proposal(old, old.replace("fgets(line, 9, in)", "gets(line)"), "C")))
    one = dataclasses.replace(
        proposal(old, old), label={"labeler": "l", "method": "classifier"}, criterion="RM"
    )
    assert decide(one, None, found, BuildConfig(), judged=False) == ("trade_off", "RM at the cost of SH")
