"""Criteria as data: shipped examples, several files at once, and what small edits make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labelers.commits import criteria, terms
from schemas.errors import AssayError
from schemas.ids import content_id

ONE = "[[criterion]]\ncode = '{0}'\nname = 'Name {0}'\nquestion = 'q'\npoints = ['p']\n"
CODES = {
    "api-consistency": "AC",
    "error-handling": "EH",
    "licence-compliance": "LC",
    "observability": "OB",
    "test-coverage": "TC",
}
BUILT_IN_CODES = ["FC", "RE", "ME", "SH", "RM"]


def codes(named: str) -> list[str]:
    return [one.code for one in criteria.load(named)]


def test_shipped_examples_are_the_five_that_the_documentation_names() -> None:
    assert list(criteria.examples()) == sorted(CODES)


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_an_example_is_named_by_its_file(name: str, code: str) -> None:
    (found,) = criteria.load(name)
    assert found.code == code
    assert found.question.endswith("?")
    assert len(found.points) >= 3


def test_several_names_are_taken_in_their_order() -> None:
    assert codes("observability, built-in ,error-handling") == ["OB", *BUILT_IN_CODES, "EH"]
    assert codes("built-in,examples") == [*BUILT_IN_CODES, *(CODES[name] for name in sorted(CODES))]


@pytest.mark.parametrize("nothing", ["", "built-in"])
def test_nothing_named_means_the_built_in_five(nothing: str) -> None:
    assert codes(nothing) == BUILT_IN_CODES


def test_a_file_of_ones_own_goes_with_names(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(ONE.format("ZZ"))
    assert codes(f"built-in,{own}") == [*BUILT_IN_CODES, "ZZ"]


def test_a_path_with_a_comma_is_one_path(tmp_path: Path) -> None:
    own = tmp_path / "a,b.toml"
    own.write_text(ONE.format("ZZ"))
    assert codes(str(own)) == ["ZZ"]


@pytest.mark.parametrize(
    ("named", "says"),
    [
        (
            "eror-handling",
            "eror-handling: no such criteria; give a TOML file, or one of built-in, examples, api-",
        ),
        ("built-in,,observability", "a name is missing between two commas"),
        ("observability,observability", "code 'OB' stands twice"),
        ("built-in,nowhere/own.toml", r"nowhere/own\.toml: the criteria file cannot be read"),
        ("a\0b", "no such criteria"),
    ],
)
def test_names_that_cannot_be_meant_are_told(named: str, says: str) -> None:
    with pytest.raises(AssayError, match=says):
        criteria.load(named)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "[" * 5000, "nested too deeply"),
        ("a = " + "9" * 5000, "not valid TOML"),
        ("# " + "x" * (1 << 20), "larger than 1,048,576 bytes"),
        (ONE.format("x" * 33), "32 characters at most"),
        (ONE.format("a b"), "must be a letter"),
        (ONE.format("../etc"), "must be a letter"),
        (ONE.format("1"), "must be a letter"),
        (ONE.replace("'{0}'", '"a\\nb"').format("Y"), "must be a letter"),
        (ONE.replace("'q'", '"\\u001b[2J?"').format("Y"), "'question' holds characters that cannot be shown"),
        (ONE.replace("'p'", '"\\u202e?"').format("Y"), "'points' holds characters that cannot be shown"),
        (ONE.replace("Name {0}", "n" * 201).format("Y"), "one line of 200 characters"),
    ],
)
def test_a_file_that_no_judge_can_be_asked_by_is_refused(text: str, says: str, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(text)
    with pytest.raises(AssayError, match=says):
        criteria.load(str(own))


def test_an_endless_criteria_file_is_refused() -> None:
    with pytest.raises(AssayError, match="larger than"):
        criteria.load("/dev/zero")


def test_criteria_of_two_files_must_differ_in_names_too(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(ONE.format("ZZ").replace("Name ZZ", "Observability"))
    with pytest.raises(AssayError, match="name 'Observability' stands twice"):
        criteria.load(f"observability,{own}")


def test_kind_of_edits_that_no_criterion_can_be_about_is_told(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(ONE.format("ZZ") + "about = ['code']\n")
    with pytest.raises(AssayError, match="'about' holds 'code'; it can hold tests and comments"):
        criteria.load(str(own))


def scores(message: str, old: str, new: str, path: str = "src/client.py", language: str = "Python") -> Any:
    row = {
        "id": content_id(message),
        "path": path,
        "language": language,
        "old_contents": old,
        "new_contents": new,
        "subject": message.partition("\n")[0],
        "message": message,
        "hunks": [
            {"old_start": 1, "old_lines": old.count("\n"), "new_start": 1, "new_lines": new.count("\n")}
        ],
        "lines_added": new.count("\n"),
        "lines_removed": old.count("\n"),
    }
    return terms.classify(row, criteria.load("examples")).scores


CALL = "def load(path):\n    return json.load(open(path))\n"
EDITS = {
    "EH": (
        "Improve error handling when the configuration cannot be read",
        CALL,
        "def load(path):\n    try:\n        return json.load(open(path))\n    except OSError as exc:\n"
        "        raise ConfigError(path) from exc\n",
    ),
    "TC": (
        "Add regression tests for empty configurations",
        "import config\n",
        "import config\n\ndef test_empty():\n    with pytest.raises(ValueError):\n        config.load('')\n",
        "tests/test_config.py",
    ),
    "OB": (
        "Use structured logging for slow queries",
        "print('slow', query)\n",
        "logger.warning('slow query', extra={'query': query})\n",
    ),
    "AC": (
        "Make the public API consistent: fetch() takes timeout like its siblings",
        "def fetch(url, wait):\n    pass\n",
        "def fetch(url, timeout):\n    pass\n",
    ),
    "LC": (
        "Add the SPDX licence header that the vendored parser needs",
        "# parser\n",
        "# SPDX-License-Identifier: BSD-3-Clause\n# Copyright 2019 The Authors\n# parser\n",
    ),
}


@pytest.mark.parametrize("code", EDITS)
def test_a_plain_edit_of_an_examples_subject_gets_it_and_no_other(code: str) -> None:
    found = scores(*EDITS[code])
    assert [one for one, score in found.items() if score >= 0.5] == [code]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("EH", "Correct the terror level of catchy entries"),
        ("TC", "Give the contest its fastest greatest attestation"),
        ("OB", "Let the blog show the login dialog in the catalog"),
        ("AC", "Print the capital of Japan on the map"),
        ("LC", "Sublicensees may lend the bicycle"),
    ],
)
def test_terms_of_examples_match_whole_words(code: str, message: str) -> None:
    found = scores(message, "a = 1\n", "a = 2\n")
    silent = scores("Flip two statements", "a = 1\n", "a = 2\n")
    assert found[code] == silent[code]


def test_edits_of_tests_and_comments_count_only_where_a_criterion_is_about_them() -> None:
    of_tests = scores(*EDITS["TC"])
    assert of_tests["TC"] > 0.5 > max(score for code, score in of_tests.items() if code != "TC")
    of_comments = scores("Reword", "# a\n", "# b\n")
    assert 0.5 > of_comments["LC"] > of_comments["EH"]
