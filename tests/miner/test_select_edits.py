"""Which edits go on to be labelled."""

from __future__ import annotations

import itertools
import secrets
from pathlib import Path
from typing import Any

import pytest
from edit_rows import NEW, OLD, edit
from hypothesis import given, settings
from hypothesis import strategies as st

from miner.checks import is_test_file, is_whitespace_only
from miner.config import LANGUAGES, SelectConfig
from miner.filters import consider, plan_select, select_edits, select_unit
from miner.reasons import MARKS, SELECT
from schemas import shards
from schemas.errors import AssayError
from schemas.records import Edit, Verdict
from schemas.rundir import RunDir
from schemas.stage import Drop, Keep, Output

ANY = {"reputation": "none"}


def why(row: dict[str, Any], **settings: Any) -> str | None:
    found = consider(SelectConfig(**{**ANY, **settings}), row)
    assert found.reason is None or found.reason in SELECT
    assert set(found.marks) <= set(MARKS)
    return found.reason


def marks(row: dict[str, Any], **settings: Any) -> list[str]:
    return list(consider(SelectConfig(**{**ANY, **settings}), row).marks)


def test_plain_edit_is_kept_with_a_verdict() -> None:
    row = edit()
    (outcome,) = select_edits(SelectConfig(reputation="none"), iter([row]))
    assert outcome == Keep(
        (Verdict(id=row["id"], stage="select", keep=True, reason=None, detail=None, marks=[]),)
    )


def test_dropped_edit_keeps_what_was_noted_about_it() -> None:
    row = edit(path="tests/a.py", bot=True)
    assert list(select_edits(SelectConfig(reputation="none"), iter([row]))) == [
        Drop(row["id"], "bot", None, ("test_file",))
    ]


@pytest.mark.parametrize(
    ("change", "settings", "reason"),
    [
        ({"bot": True}, {}, "bot"),
        ({"bot": True}, {"drop_bots": False}, None),
        ({"reverted_by": "f" * 40}, {}, "reverted"),
        ({"reverted_by": "f" * 40}, {"drop_reverted": False}, None),
        ({"ai_assisted": "claude"}, {}, None),
        ({"ai_assisted": "claude"}, {"drop_ai_assisted": True}, "ai_assisted"),
        ({}, {"require_merged": True}, "not_merged"),
        ({"merged_by": "pr:1"}, {"require_merged": True}, None),
        ({}, {"licenses": ("MIT", "ISC")}, None),
        ({}, {"licenses": ("ISC",)}, "license_not_allowed"),
        ({"license": None}, {"licenses": ("ISC",)}, "license_not_allowed"),
        ({"license": None}, {}, None),
        ({"license": "GPL-2.0-only OR MIT"}, {"licenses": ("MIT",)}, None),
        ({"license": "GPL-2.0-only AND MIT"}, {"licenses": ("MIT",)}, "license_not_allowed"),
        ({"license": "Apache-2.0 OR GPL-3.0-only"}, {"licenses": ("permissive",)}, None),
        ({"license": "GPL-3.0-only"}, {"licenses": ("permissive",)}, "license_not_allowed"),
        ({"license": "GPL-3.0-only AND MIT"}, {"licenses": ("permissive", "GPL-3.0-only")}, None),
        ({"file_license": "GPL-3.0-only"}, {"licenses": ("MIT",)}, "license_not_allowed"),
        ({"license": None, "file_license": "MIT"}, {"licenses": ("MIT",)}, None),
        ({"lines_added": 200, "lines_removed": 201}, {}, "too_many_changed_lines"),
        ({"lines_added": 200, "lines_removed": 200}, {}, None),
        ({"hunks": [{}] * 41}, {}, "too_many_hunks"),
        ({}, {"min_file_chars": len(OLD) + 1}, "too_small"),
        ({}, {"min_file_chars": len(OLD)}, None),
        ({}, {"max_file_chars": len(OLD) - 1}, "too_large"),
        ({}, {"max_file_chars": len(OLD)}, None),
        ({}, {"min_tokens": 30}, "too_few_tokens"),
        ({}, {"min_tokens": 8, "max_tokens": 30}, None),
        ({}, {"max_tokens": 5, "min_tokens": 0}, "too_many_tokens"),
        ({"message": "Исправлена ошибка при разборе строки"}, {}, "message_not_english"),
        ({"message": "Исправлена ошибка при разборе строки"}, {"message_languages": ()}, None),
        ({"message": "Исправлена ошибка при разборе строки"}, {"message_languages": ("en", "ru")}, None),
        (
            {"message": "Исправлена ошибка при разборе строки"},
            {"message_languages": ("en", "fr")},
            "message_not_english",
        ),
    ],
)
def test_limits_and_provenance(change: dict[str, Any], settings: dict[str, Any], reason: str | None) -> None:
    assert why(edit(**change), **settings) == reason


@pytest.mark.parametrize(
    ("old", "new"),
    [(OLD, OLD.replace("\n", "\r\n")), (OLD.replace("\n", "\r"), OLD), (OLD.replace("\n", "\r\n"), OLD)],
)
def test_line_ends_alone_are_no_change(old: str, new: str) -> None:
    assert why(edit(old, new)) == "line_ends_only"
    assert marks(edit(old, new)) == ["line_ends_only"]


@pytest.mark.parametrize(
    ("old", "new", "language", "only"),
    [
        ("if (a) {\nb();\n}\n", "if (a) {\n    b();\n}\n", "Java", True),
        ("if a:\n    b()\n    c()\n", "if a:\n    b()\nc()\n", "Python", False),
        ("if a:\n    b()\n", "if a:\n    b()\n\n\n", "Python", True),
        ("x = f(a,b)\n", "x = f(a, b)   \n", "Python", True),
        ("if a:\n\tb()\n", "if a:\n        b()\n", "Python", True),
        ("x = 1\n", "x = 2\n", "Java", False),
        ("x=1;y=2;", "x=1;\ny=2;", "C", True),
        ("a b", "ab", "Go", True),
    ],
)
def test_whitespace_that_means_nothing(old: str, new: str, language: str, only: bool) -> None:
    assert is_whitespace_only(old, new, language) is only


@given(st.text("ab \t\n", max_size=40), st.text("ab \t\n", max_size=40), st.sampled_from(["Python", "C"]))
def test_whitespace_only_is_symmetric_and_implies_equal_words(old: str, new: str, language: str) -> None:
    only = is_whitespace_only(old, new, language)
    assert only == is_whitespace_only(new, old, language)
    assert not only or "".join(old.split()) == "".join(new.split())


@pytest.mark.parametrize(
    ("new", "reason", "marked"),
    [
        (OLD.replace("sum(values)", "sum( values )"), "whitespace_only", "whitespace_only"),
        (OLD.replace("(values) +", "(values,) +"), "format_only", "format_only"),
        ("# Sums.\n" + OLD, None, "comment_only"),
        (OLD.replace(":\n", ':\n    """Sum."""\n'), None, "docstring_only"),
        ("import os\n" + OLD, None, "import_only"),
        (OLD.replace("values", "numbers"), None, "rename_only"),
    ],
)
def test_change_of_one_kind_is_marked_and_dropped_where_it_teaches_nothing(
    new: str, reason: str | None, marked: str
) -> None:
    assert (why(edit(OLD, new)), marks(edit(OLD, new))) == (reason, [marked])


def test_comments_and_format_are_dropped_or_kept_as_told() -> None:
    assert why(edit(OLD, "# Sums.\n" + OLD), drop_comment_only=True) == "comment_only"
    assert why(edit(OLD, OLD.replace(":\n", ":\n    'Sum.'\n")), drop_comment_only=True) == "docstring_only"
    assert why(edit(OLD, OLD.replace("(values) +", "(values,) +")), drop_format_only=False) is None


def test_lines_that_moved_are_marked() -> None:
    one, two = "def a():\n    return 1\n\n\n", "def b():\n    return 2\n\n\n"
    assert marks(edit(one + two + OLD, two + one + OLD)) == ["moved_lines"]


@pytest.mark.parametrize(
    ("old", "new", "settings", "reason"),
    [
        (OLD, OLD + "def broken(:\n", {}, "does_not_parse"),
        (OLD, OLD + "def broken(:\n", {"syntax_errors": "none"}, None),
        (OLD + "def broken(:\n", NEW, {}, None),
        (OLD + "def broken(:\n", NEW + "def broken(:\n", {}, None),
        (OLD, "# def total(values):\n#     return sum(values) + 1\n", {}, "shallow_syntax"),
        ("# def total(values):\n#     return sum(values) + 1\n", OLD, {}, "shallow_syntax"),
        (OLD, "# def total(values):\n#     return sum(values) + 1\n", {"min_syntax_depth": 1}, None),
        (OLD, "<<<<<<< HEAD\n" + OLD + "=======\n" + NEW + ">>>>>>> topic\n", {}, "conflict_markers"),
        ("<<<<<<< HEAD\n" + OLD + "=======\n" + NEW + ">>>>>>> topic\n", NEW, {}, None),
        (OLD, OLD + "\n\ntext = '''\n=======\nTitle\n=======\n>>>>>>> x'''\n", {}, None),
    ],
)
def test_code_must_be_whole(old: str, new: str, settings: dict[str, Any], reason: str | None) -> None:
    assert why(edit(old, new), **settings) == reason


def test_a_grammar_that_lags_behind_its_language_drops_nothing_unless_told() -> None:
    old = "int f(void) {\n    return 1;\n}\n\nint g(void) {\n    return 2;\n}\n"
    new = old.replace("int g", "API_FUNC(int, x) MACRO g")
    row = edit(old, new, language="C", path="a.c")
    assert (why(row), marks(row)) == (None, ["syntax_errors"])
    assert why(row, syntax_errors="all") == "does_not_parse"


def test_language_without_a_grammar_is_kept_and_marked() -> None:
    assert marks(edit(language="Cobol", path="a.cob")) == ["not_parsed"]
    spaced = OLD.replace(" + ", "+")
    assert why(edit(OLD, spaced, language="Cobol", path="a.cob")) == "whitespace_only"


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("tests/unit/a.py", True),
        ("pkg/test_a.py", True),
        ("a_test.go", True),
        ("src/test/java/ATest.java", True),
        ("lib/a.spec.ts", True),
        ("src/__tests__/a.js", True),
        ("spec/models/a_spec.rb", True),
        ("conftest.py", True),
        ("FooTests.cs", True),
        ("src/testify.py", False),
        ("latest.py", False),
        ("contest/a.py", False),
        ("src/inspector.go", False),
        ("a/attest.rs", False),
    ],
)
def test_files_of_tests_are_told_by_their_path(path: str, test: bool) -> None:
    assert is_test_file(path) is test


@pytest.mark.parametrize("side", ["old", "new"])
def test_credential_of_either_side_drops_and_is_never_shown(side: str) -> None:
    secret = "ghp" + "_" + "".join(secrets.choice("BCDFGHJKLMNPQRSTVWZ") for _ in range(36))
    text = "import os\n" * 100 + OLD + f"key = '{secret}'\n"
    row = edit(text, NEW) if side == "old" else edit(OLD, text)
    found = consider(SelectConfig(reputation="none"), row)
    assert (found.reason, found.detail) == ("secret", f"GitHub token in line 103 of the {side} version")


def test_credential_that_both_sides_have_is_found_far_from_the_change() -> None:
    secret = "glpat" + "-" + "".join(secrets.choice("BCDFGHJKLMNPQRSTVWZ") for _ in range(20))
    head = f"key = '{secret}'\n" + "import os\n" * 300
    assert why(edit(head + OLD, head + NEW)) == "secret"


def test_key_whose_text_alone_was_removed_is_found() -> None:
    letters = "".join(secrets.choice("BCDFGHJKLMNPQRSTVWZ") for _ in range(64))
    mark = "-----%s RSA PRIVATE" + " KEY-----"
    old = f"KEY = '''{mark % 'BEGIN'}\n{letters}\n{mark % 'END'}'''\n"
    assert why(edit(old + OLD, old.replace(letters, "...") + OLD)) == "secret"


def test_address_in_a_changed_line_drops_and_one_elsewhere_does_not() -> None:
    address = "# Written by ada.lovelace@" + "engines.co.uk\n"
    found = consider(SelectConfig(reputation="none"), edit(OLD, OLD + address))
    assert (found.reason, found.detail) == ("personal_data", "e-mail address in line 3 of the new version")
    assert marks(edit(OLD, NEW + address), drop_personal_data=False) == ["personal_data"]
    assert why(edit(address + OLD, address + NEW)) is None


def test_copies_are_left_for_dedup_to_compare() -> None:
    rows = [edit(), edit(path="b.py")]
    assert all(isinstance(one, Keep) for one in select_edits(SelectConfig(), iter(rows)))


@settings(max_examples=60, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    st.sampled_from(LANGUAGES),
)
def test_any_two_texts_get_one_verdict(old: str, new: str, language: str) -> None:
    row = edit(old + "\n", new, language=language)
    why(row, min_file_chars=0, min_tokens=0, min_syntax_depth=0)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("(" * 100_000, "Python"),
        ("[" * 50_000 + "]" * 50_000, "JavaScript"),
        ("x = '" + "a" * 1_000_000 + "'\n", "Python"),
        ("@" * 200_000, "Java"),
        ("a@" * 100_000, "Ruby"),
        ("://a:" * 40_000, "C"),
        ("api_key = '" * 15_000, "Go"),
        ("-----BEGIN PRIVATE KEY-----" * 6_000, "PHP"),
        ("[1,]," * 40_000, "JavaScript"),
        ("x = 1\0\n" * 100, "Python"),
        ("<<<<<<< a\n" * 20_000, "Python"),
        ("'a'\n" * 40_000, "Python"),
        ("# a\n" * 40_000 + "'a'\n", "Python"),
    ],
)
def test_hostile_text_costs_its_own_row_and_no_other(text: str, language: str) -> None:
    rows = [edit(text, text + "\n", language=language), edit(text, OLD, language=language), edit()]
    config = SelectConfig(reputation="none", max_file_chars=2_000_000)
    *_, last = select_edits(config, iter(rows))
    assert isinstance(last, Keep)


def test_verdict_of_an_edit_does_not_depend_on_those_beside_it() -> None:
    versions = [
        OLD,
        NEW,
        NEW + "# end\n",
        "def broken(:\n" + NEW,
        NEW + "x = [1,\n  2]\n",
        NEW + "x = [1, 2,]\n",
    ]
    rows = [edit(one, other) for one, other in itertools.pairwise(versions)]
    config = SelectConfig(reputation="none")
    alone = [next(select_edits(config, iter([row]))) for row in rows]
    assert list(select_edits(config, iter(rows))) == alone


def write_edits(run: RunDir, name: str, rows: list[dict[str, Any]]) -> None:
    path = run.part_path("mine", Output("edits"), name)
    count, size, digest = shards.write_shard(path, Edit, rows)
    sidecar = shards.Sidecar(
        table="edits", split=None, stage="mine", unit=name, key="k", rows=count, bytes=size,
        sha256=digest, schema=shards.schema_digest(Edit),
    )  # fmt: skip
    shards.write_sidecar(path, sidecar)


def test_plan_reads_one_part_a_unit_and_obeys_the_limit(tmp_path: Path) -> None:
    run = RunDir.open(tmp_path / "run", create=True)
    for name in ("a", "b"):
        write_edits(run, name, [edit(NEW, OLD + f"# {name}{number}\n") for number in range(3)])
    units = plan_select(run, limit=4)
    assert [unit.rows for unit in units] == [3, 1]
    found = [list(select_unit(SelectConfig(), run.root, unit)) for unit in units]
    assert [len(outcomes) for outcomes in found] == [3, 1]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"max_hunks": 0}, "max_hunks"),
        ({"min_stars": -1}, "min_stars"),
        ({"licenses": ("GLP",)}, "GLP"),
        ({"message_languages": ("english",)}, "english"),
    ],
)
def test_setting_that_makes_no_sense_is_refused_by_name(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(AssayError, match=named):
        SelectConfig(**settings)
