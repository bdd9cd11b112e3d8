"""Commits of one source file together with its tests and documents."""

from __future__ import annotations

import os

import pytest
from gitrepos import BASE, Builder, drops, edits, mine, reason
from hypothesis import given
from hypothesis import strategies as st

from miner.companions import is_companion
from miner.config import MineConfig
from miner.edits import plan_units, wanted_contents
from miner.repository import open_repository

CHANGED = "def value():\n    return 2\n"
TEST = "def test_value():\n    assert value() == 2\n"


def test_a_fix_with_its_tests_and_changelog_is_an_edit_that_names_them(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED, "tests/test_a.py": TEST, "CHANGES.rst": "Two.\n"})
    edit = edits(mine(repo, companions="tests"))[commit]
    assert (edit.path, edit.new_contents) == ("a.py", CHANGED)
    assert edit.companions == ["CHANGES.rst", "tests/test_a.py"]


def test_by_default_a_fix_with_its_tests_is_several_files(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED, "tests/test_a.py": TEST})
    assert drops(mine(repo))[commit] == ("several_files", "2 files")


def test_edits_of_one_file_are_the_same_with_and_without_companions(repo: Builder) -> None:
    repo.commit({"a.py": CHANGED})
    repo.commit({"test_b.py": TEST})
    repo.commit({"test_b.py": TEST + "\n\nassert True\n"}, "Check that true is what it was before")
    assert mine(repo) == mine(repo, companions="tests")


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": CHANGED, "b.py": BASE},
        {"tests/test_a.py": TEST, "docs/a.md": "x"},
        {"a.py": CHANGED, "setup.cfg": "x"},
    ],
    ids=["two sources", "companions alone", "settings"],
)
def test_what_is_no_change_of_one_source_file_stays_dropped(
    repo: Builder, files: dict[str, str | bytes | None]
) -> None:
    commit = repo.commit(files)
    assert reason(mine(repo, companions="tests"), commit) == "several_files"


def test_the_source_has_to_be_changed_in_place(repo: Builder) -> None:
    commit = repo.commit({"b.py": BASE, "tests/test_b.py": TEST})
    assert reason(mine(repo, companions="tests"), commit) == "not_in_place"


def test_a_link_among_tests_is_no_test(repo: Builder) -> None:
    (repo.path / "tests").mkdir()
    os.symlink("../a.py", repo.path / "tests" / "a.py")
    commit = repo.commit({"a.py": CHANGED})
    assert reason(mine(repo, companions="tests"), commit) == "several_files"


def test_a_test_whose_name_is_no_text_costs_its_own_commit_alone(repo: Builder) -> None:
    (repo.path / "tests").mkdir()
    with open(os.fsencode(repo.path / "tests") + b"/test_\xff.py", "wb") as file:
        file.write(b"x")
    odd = repo.commit({"a.py": CHANGED})
    after = repo.commit({"a.py": BASE, "tests/test_a.py": TEST})
    found = mine(repo, companions="tests")
    assert reason(found, odd) == "several_files"
    assert edits(found)[after].companions == ["tests/test_a.py"]


def test_a_commit_of_very_many_tests_is_no_edit(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED, **{f"tests/test_{one}.py": TEST for one in range(60)}})
    assert drops(mine(repo, companions="tests"))[commit] == ("several_files", "61 files")


def test_an_edit_with_tests_that_is_put_back_is_reverted(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED, "tests/test_a.py": TEST})
    back = repo.commit({"a.py": BASE, "tests/test_a.py": TEST + "\n"}, "Return what it returned before that")
    assert edits(mine(repo, companions="tests"))[commit].reverted_by == back


def test_contents_of_tests_are_not_asked_for(repo: Builder) -> None:
    repo.commit({"a.py": CHANGED, "tests/test_a.py": TEST})
    config = MineConfig(companions="tests")
    (unit,) = plan_units(config, repo.path)
    wanted = set(wanted_contents(config, open_repository(repo.path), unit.payload["commits"].split()))
    assert wanted == {repo.git("rev-parse", f"{side}:a.py") for side in ("HEAD", "HEAD^")}


@pytest.mark.parametrize(
    "path",
    [
        "tests/a.py",
        "pkg/test/A.java",
        "src/FooTest.java",
        "foo_test.go",
        "lib/a.spec.js",
        "README",
        "docs/x.png",
        "ChangeLog",
        "CHANGES.txt",
        "NEWS.md",
        "doc/curl.1",
        "examples/run.c",
        "changes/123.bugfix",
        "man/git.txt",
    ],
)
def test_tests_documents_changelogs_and_examples_are_companions(path: str) -> None:
    assert is_companion(path)


@pytest.mark.parametrize(
    "path",
    [
        "a.py",
        "contest/a.py",
        "latest.js",
        "src/attest/x.go",
        "history/store.py",
        "lib/history.c",
        "src/changes.rs",
        "newsletter.rb",
        "lib/doc.c",
    ],
)
def test_sources_with_like_names_are_none(path: str) -> None:
    assert not is_companion(path)


@given(st.text(max_size=300))
def test_any_path_is_told(path: str) -> None:
    assert is_companion(path) in (True, False)
