"""Labels, instructions, system prompts and pairs of commits."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelers.commits import classifier, criteria, pairs, terms
from labelers.commits.config import BuildConfig, LabelConfig
from labelers.commits.instructions import STYLES, defined_names, imported_modules, instruction
from labelers.commits.labelling import label
from labelers.commits.system_prompts import system_prompt
from schemas.declare import as_row, validate
from schemas.errors import AssayError
from schemas.ids import content_id
from schemas.records import Label, PreferencePair
from schemas.stage import Drop, Keep

BUILT_IN = criteria.load()
BY_CODE = {criterion.code: criterion for criterion in BUILT_IN}


def edit(
    old: str = "x = 1\n", new: str = "x = 2\n", message: str = "Fix the value of x", **change: Any
) -> dict[str, Any]:
    """A row of `edits` whose hunks say that every line changed."""
    row = {
        "id": content_id(old, new, message),
        "repo": "owner/project",
        "commit": "c" * 40,
        "parent": "p" * 40,
        "path": "src/module.py",
        "language": "Python",
        "old_contents": old,
        "new_contents": new,
        "subject": message.partition("\n")[0],
        "message": message,
        "author_time": 0,
        "commit_time": 0,
        "license": "MIT",
        "merged_by": None,
        "file_license": None,
        "reverted_by": None,
        "bot": False,
        "ai_assisted": None,
        "companions": [],
        "hunks": [
            {
                "old_start": 1,
                "old_lines": old.count("\n"),
                "new_start": 1,
                "new_lines": new.count("\n"),
            }
        ],
        "lines_added": new.count("\n"),
        "lines_removed": old.count("\n"),
    }
    return {**row, **change}


def best(message: str, **change: Any) -> str | None:
    given = label(edit(message=message, **change), BUILT_IN, LabelConfig())
    return given.criterion


@pytest.mark.parametrize(
    ("message", "criterion"),
    [
        ("Fix crash when the list is empty", "FC"),
        ("Speed up parsing by skipping the second pass", "RE"),
        ("Fix memory leak in the connection pool", "ME"),
        ("Prevent path traversal in the static file handler (CVE-2020-1234)", "SH"),
        ("Refactor the session code and rename helpers", "RM"),
        ("Flip the order of two unrelated statements", None),
    ],
)
def test_plain_messages_get_the_criterion_that_they_name(message: str, criterion: str | None) -> None:
    assert best(message) == criterion


@pytest.mark.parametrize("message", ["Load the resource from source by force", "Rename resource to source"])
def test_terms_match_on_word_boundaries(message: str) -> None:
    scored = classifier.classify(edit(message=message), BUILT_IN)
    assert "rce" not in scored.terms["SH"]
    assert scored.scores["SH"] < 0.5


def test_change_of_comments_alone_is_about_readability() -> None:
    assert best("Say what this does in the loop", old="# a\n", new="# better\n") == "RM"


def test_change_of_preprocessor_lines_is_a_change_of_code() -> None:
    lines = {"old": "#include <a.h>\n", "new": "#include <b.h>\n"}
    assert best("Fix compilation without a.h", **lines, language="C", path="os.c") == "FC"


def test_blank_lines_do_not_make_a_message_slow() -> None:
    message = "Fix it\n" + "\n" * 60_000 + "x"
    scored = classifier.classify(edit(message=message), BUILT_IN)
    assert scored.scores == classifier.classify(edit(message="Fix it\n\nx"), BUILT_IN).scores


def test_inflections_of_a_term_are_one_piece_of_evidence() -> None:
    once = terms.classify(edit(message="Move stream entries"), BUILT_IN)
    twice = terms.classify(edit(message="Move streams: stream entries"), BUILT_IN)
    assert once.scores["ME"] == twice.scores["ME"]


@pytest.mark.parametrize("code", ["libc++17", "Map<Enum, Obj>", "render(view, cache, id)", "`a & b`"])
def test_code_in_a_subject_lists_no_purposes(code: str) -> None:
    plain = terms.classify(edit(message="Fix crash with it"), BUILT_IN)
    coded = terms.classify(edit(message=f"Fix crash with {code}"), BUILT_IN)
    assert coded.single_intent == plain.single_intent


def test_edit_of_a_test_suite_improves_no_criterion() -> None:
    assert best("Fix the setup", path="flask/testsuite/__init__.py") is None


@pytest.mark.parametrize(
    ("message", "criterion"),
    [
        ("Handle edge cases of empty lists", "FC"),
        ("Correctly check the shutdown state", "FC"),
        ("Fix memory leak when sending a command", "ME"),
        ("Optimize memory usage of the reply list", "ME"),
        ("Print the benchmark's name", None),
        ("Store the hash limit in the hash table", None),
    ],
)
def test_terms_of_one_criterion_do_not_give_another(message: str, criterion: str | None) -> None:
    assert best(message) == criterion


def test_several_listed_purposes_lower_single_intent() -> None:
    one = classifier.classify(edit(message="Fix crash in the parser"), BUILT_IN)
    many = classifier.classify(edit(message="Fix crash, rename helpers, and speed up the parser"), BUILT_IN)
    assert one.single_intent > 0.5 > many.single_intent


def test_trailers_of_a_message_are_no_evidence() -> None:
    plain = classifier.classify(edit(message="Flip two statements"), BUILT_IN)
    signed = classifier.classify(
        edit(message="Flip two statements\n\nReviewed-by: Security Fix Bot <x@y>"), BUILT_IN
    )
    assert plain.scores == signed.scores


@given(st.text(max_size=300), st.text(max_size=200), st.text(max_size=200))
def test_any_edit_gets_valid_scores(message: str, old: str, new: str) -> None:
    made = label(edit(old=old, new=new, message=message), BUILT_IN, LabelConfig())
    assert all(0 <= score.score <= 1 for score in made.scores)
    assert [score.criterion for score in made.scores] == [criterion.code for criterion in BUILT_IN]
    assert (made.criterion is None) == (made.confidence == 0)


def test_criterion_of_a_users_own_works_like_a_built_in_one(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        '[[criterion]]\ncode = "EH"\nname = "Error Handling"\nquestion = "Are errors handled?"\n'
        'points = ["every error is told"]\nstrong = ["error handling"]\n'
    )
    found = criteria.load(str(path))
    made = label(edit(message="Improve error handling of the client"), found, LabelConfig())
    assert made.criterion == "EH"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected one or more"),
        ("[[criterion]]\ncode = 'A'\n", "criterion 1: lacks 'name'"),
        ("x = ", "not valid TOML"),
        (
            "[[criterion]]\ncode='A'\nname='a'\nquestion='q'\npoints=['p']\nstrng=['x']\n",
            "did you mean 'strong'",
        ),
        ("[[criterion]]\ncode='A'\nname='a'\nquestion='q'\npoints=['p']\n" * 2, "stands twice"),
        (
            "".join(f"[[criterion]]\ncode='{c}'\nname='a'\nquestion='q'\npoints=['p']\n" for c in "AB"),
            "name 'a'",
        ),
        ("[[criterion]]\ncode='A'\nname=' '\nquestion='q'\npoints=['p']\n", "'name' is empty"),
        ("[[criterion]]\ncode='A'\nname='a'\nquestion='q'\npoints=[]\n", "'points' is empty"),
        ("[[criterion]]\ncode='A'\nname='a'\nquestion='q'\npoints=['p']\nweak=['*']\n", "match any text"),
    ],
)
def test_malformed_criteria_file_names_the_place(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(AssayError, match=says):
        criteria.load(str(path))


def test_missing_criteria_file_is_told() -> None:
    with pytest.raises(AssayError, match=r"nowhere\.toml: the criteria file cannot be read"):
        criteria.load("nowhere.toml")


OLD = '"""Parse dates."""\nimport re\nimport os\n\ndef parse(x):\n    return x\n\ndef gone():\n    pass\n'
NEW = OLD.replace("import os", "import json").replace("return x", "return int(x)").replace("gone", "added")


def test_instruction_holds_only_what_both_versions_share() -> None:
    for seed in range(20):
        text = instruction(edit(OLD, NEW, "Convert to int in parse"), seed)
        assert "parse" in text
        for telltale in ("gone", "added", "json", "int", "os", "Convert"):
            assert f"`{telltale}`" not in text
            assert telltale not in text.split()


def test_instruction_is_the_same_for_both_directions_of_the_edit() -> None:
    forth = edit(OLD, NEW)
    back = {**forth, "old_contents": NEW, "new_contents": OLD}
    for seed in range(20):
        assert instruction(forth, seed) == instruction(back, seed)


def test_instruction_of_a_reordering_favours_neither_order() -> None:
    old = "import sys\nimport os\nimport abc\ndef b():\n    pass\ndef a():\n    pass\n"
    new = "import abc\nimport os\nimport sys\ndef a():\n    pass\ndef b():\n    pass\n"
    forth = edit(old, new)
    back = {**forth, "old_contents": new, "new_contents": old}
    for seed in range(40):
        assert instruction(forth, seed) == instruction(back, seed)


@pytest.mark.parametrize(
    ("code", "quoted"),
    [
        ('"""Parse dates.\n\nMore."""\n', True),
        ("#!/usr/bin/env python\n# licence\n\n'''Parse dates.'''\n", True),
        ('import re\n"""Parse dates."""\n', False),
        ('"""Parse dates.\n', False),
    ],
)
def test_docstring_of_a_module_is_quoted_only_when_it_is_one(code: str, quoted: bool) -> None:
    row = edit(code + "x = 1\n", code + "x = 2\n")
    texts = {instruction(row, seed) for seed in range(30)}
    assert any("Parse dates." in text for text in texts) == quoted


def test_every_style_of_instruction_is_drawn() -> None:
    texts = {instruction(edit(OLD, NEW), seed) for seed in range(60)}
    assert len(texts) == len(STYLES)


@given(st.text(max_size=400), st.text(min_size=1, max_size=60))
def test_hostile_contents_and_paths_make_a_storable_instruction(code: str, path: str) -> None:
    text = instruction(edit(old=code, new=code + "\n", path=path), 1)
    text.encode()
    assert "\n" not in text
    assert text


@pytest.mark.parametrize(
    ("language", "code", "names"),
    [
        ("C", "static int add(int a, int b)\n{\n  if (a) { return b; }\n}\n", ["add"]),
        ("C", "struct box {\n  int n;\n};\n    struct stat sb;\nstruct box *make;\n", ["box"]),
        (
            "C++",
            "enum class color : int {};\nclass node;\ntemplate<>\nstruct hash<int> {};\n",
            ["color", "hash"],
        ),
        ("Java", "public final class Box {\n  private int n;\n}\n", ["Box"]),
        ("Go", "func Add(a int) int {\n}\ntype Box struct {}\n", ["Add", "Box"]),
        ("Ruby", "module A\n  class B\n    def self.c\n", ["A", "B", "c"]),
        ("JavaScript", "export default function go() {}\n", ["go"]),
        ("Rust", "pub fn run() {}\nstruct S;\n", ["run", "S"]),
    ],
)
def test_defined_names_of_other_languages(language: str, code: str, names: list[str]) -> None:
    assert defined_names(code, language) == names


def test_imported_modules_of_other_languages() -> None:
    code = (
        "#include <stdio.h>\nimport java.util.List;\nusing System.Text;\n"
        'const x = require("fs");\nimport a from "./b";\n'
    )
    assert imported_modules(code) == ["stdio.h", "java.util.List", "System.Text", "fs", "a", "./b"]


def test_the_package_itself_is_no_module_to_name() -> None:
    assert imported_modules("from . import api\nfrom .models import X\n") == [".models"]


def test_names_are_found_in_time_in_a_file_made_to_be_slow() -> None:
    hostile = "a " * 50_000 + "(" * 50_000
    assert defined_names(hostile, "C") == []


def test_shares_of_system_prompts_are_as_asked() -> None:
    kinds = Counter(
        system_prompt(BuildConfig(), BUILT_IN, BY_CODE["FC"], 0, content_id(str(n)))[0] for n in range(4000)
    )
    for kind, share in (("none", 0.15), ("all", 0.20), ("single", 0.65)):
        assert abs(kinds[kind] / 4000 - share) < 0.03


def test_single_prompt_names_its_criterion_and_no_other() -> None:
    config = BuildConfig(system_none=0.0, system_all=0.0)
    kind, text = system_prompt(config, BUILT_IN, BY_CODE["ME"], 0, "x")
    assert kind == "single"
    assert [one.code for one in BUILT_IN if one.name in text] == ["ME"]


def test_prompt_of_all_criteria_is_shuffled_by_pair() -> None:
    config = BuildConfig(system_none=0.0, system_all=1.0)
    texts = {system_prompt(config, BUILT_IN, BY_CODE["ME"], 0, str(n))[1] for n in range(20)}
    assert len(texts) > 5
    assert all(one.name in text for one in BUILT_IN for text in texts)


def labelled(row: dict[str, Any], **change: Any) -> dict[str, Any]:
    made: dict[str, Any] = as_row(label(row, BUILT_IN, LabelConfig()))
    return {**made, **change}


def test_pair_prefers_the_new_version_and_carries_its_evidence() -> None:
    row = edit(OLD, NEW, "Fix crash in parse")
    outcome = pairs.pair(row, labelled(row), BUILT_IN, BuildConfig(), 0, split="train")
    assert isinstance(outcome, Keep)
    (made,) = outcome.records
    validate(PreferencePair, made)
    assert (made.chosen, made.rejected) == (NEW, OLD)
    assert made.aspect == "Functional Correctness"
    assert made.evidence.edit_id == row["id"]
    assert made.evidence.terms
    assert made.license == "MIT"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"criterion": None, "confidence": 0.0}, "no_criterion"),
        ({"confidence": 0.2}, "low_confidence"),
        ({"single_intent": 0.1}, "several_purposes"),
    ],
)
def test_unfit_label_drops_the_edit_with_its_reason(change: dict[str, Any], reason: str) -> None:
    row = edit(OLD, NEW, "Fix crash in parse")
    outcome = pairs.pair(row, labelled(row, **change), BUILT_IN, BuildConfig(), 0, split="train")
    assert isinstance(outcome, Drop)
    assert outcome.reason == reason


def test_reverted_edit_that_select_let_through_becomes_a_pair() -> None:
    row = edit(OLD, NEW, "Fix crash in parse", reverted_by="d" * 40)
    assert isinstance(pairs.pair(row, labelled(row), BUILT_IN, BuildConfig(), 0, split="train"), Keep)


@pytest.mark.parametrize("split", ["train", "test"])
def test_pair_has_the_split_of_its_edit(split: str) -> None:
    row = edit(OLD, NEW, "Fix crash in parse")
    outcome = pairs.pair(row, labelled(row), BUILT_IN, BuildConfig(), 0, split=split)
    assert isinstance(outcome, Keep)
    assert [made.split for made in outcome.records] == [split]


def test_edit_without_a_split_gives_no_pair() -> None:
    row = edit(OLD, NEW, "Fix crash in parse")
    outcome = pairs.pair(row, labelled(row), BUILT_IN, BuildConfig(), 0, split=None)
    assert isinstance(outcome, Drop)
    assert outcome.reason == "no_split"


def test_same_pair_whatever_stands_around_it() -> None:
    row = edit(OLD, NEW, "Fix crash in parse")
    first = pairs.pair(row, labelled(row), BUILT_IN, BuildConfig(), 7, split="train")
    for n in range(5):
        other = edit(OLD, NEW + f"# {n}\n", "Fix crash in parse")
        pairs.pair(other, labelled(other), BUILT_IN, BuildConfig(), 7, split="train")
    assert pairs.pair(row, labelled(row), BUILT_IN, BuildConfig(), 7, split="train") == first


def test_shares_that_are_no_shares_are_refused() -> None:
    with pytest.raises(ValueError, match="system_none \\+ system_all"):
        dataclasses.replace(BuildConfig(), system_none=0.9, system_all=0.2)


def test_label_fits_its_record() -> None:
    validate(Label, label(edit(), BUILT_IN, LabelConfig()))
