"""docs/sandbox.md says what is: its examples run, and its tables are those of the code."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from sandbox import KINDS, STATUSES, Limits, Trust, doctor, languages
from sandbox.names import FILES
from sandbox.sandbox import Backend

PAGE = Path(__file__).parents[2] / "docs" / "sandbox.md"
TEXT = PAGE.read_text()
# What an example needs beside Python, and the Debian package that brings it.
NEEDS = {'lang="cpp"': ("g++", "g++"), ".js": ("node", "nodejs")}


def blocks(kind: str) -> list[tuple[str, str]]:
    """Each fenced block of a kind, with the indented lines that follow it."""
    found = re.findall(rf"^```{kind}\n(.*?)^```\n\n((?:    [^\n]*\n|\n(?=    ))*)", TEXT, re.S | re.M)
    return [(code, "".join(line[4:] + "\n" for line in shown.splitlines())) for code, shown in found]


def need(text: str) -> None:
    for word, (program, package) in NEEDS.items():
        if word in text and shutil.which(program) is None:
            pytest.skip(f"needs {package}")


def table(title: str, number: int = 0) -> list[list[str]]:
    """The rows of a table below a title, without marks of code."""
    part = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    tables = re.findall(r"(?:^\|.*\n)+", part, re.M)
    rows = [line.strip("|").split("|") for line in tables[number].splitlines()[2:]]
    return [[cell.replace("`", "").strip() for cell in row] for row in rows]


def test_python_examples_print_what_the_page_shows() -> None:
    examples = blocks("python")
    need("".join(code for code, _ in examples))
    scope: dict[str, Any] = {}
    for code, shown in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), scope)
        assert printed.getvalue() == shown, code
    scope["box"].close()


def without_numbers(text: str) -> str:
    return re.sub(r"\d+(\.\d+)?", "N", text)


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    for code, _ in blocks("console"):
        need(code)
        for part in code.split("$ ")[1:]:
            line, _, shown = part.partition("\n")
            name, *words = shlex.split(line, comments=True)
            if name == "cat":
                (tmp_path / words[0]).write_text(shown)
            elif shown:
                done = subprocess.run(
                    [sys.executable, "-m", name, *words],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    cwd=tmp_path,
                )
                assert without_numbers(done.stdout) == without_numbers(shown), line


def test_every_layer_is_listed() -> None:
    assert table("Layers") == [
        [fence.name, fence.stops, fence.tried, "required" if fence.required else "optional"]
        for fence in doctor.FENCES
    ]


def test_every_status_is_listed() -> None:
    assert tuple(row[0] for row in table("Statuses")) == STATUSES


def test_every_kind_and_its_trust_is_listed() -> None:
    rows = table("Kinds")
    assert tuple(row[0] for row in rows) == KINDS
    assert {row[3] for row in rows} == set(get_args(Trust))


def test_every_limit_is_listed_with_its_default() -> None:
    assert [(row[0], row[1]) for row in table("Limits and time")] == [
        (field.name, f"{field.default:g}") for field in dataclasses.fields(Limits)
    ]


def test_every_language_is_listed_with_its_packages_and_files() -> None:
    rows = {row[1]: row for row in table("Languages")}
    assert list(rows) == list(FILES)
    for name, (_, script, solution) in FILES.items():
        assert rows[name][3:5] == [script, solution]
        if name != "python":
            language = languages.get(name)
            assert rows[name][0] == language.title
            assert rows[name][2] == ", ".join(language.packages)


def test_values_of_every_language_are_told() -> None:
    told = ", ".join(row[0] for row in table("Values")).split(", ")
    assert sorted(told) == sorted(languages.get(name).title for name in FILES if name != "python")


def test_every_backend_is_listed() -> None:
    assert [row[0] for row in table("Backends")] == list(get_args(Backend))
