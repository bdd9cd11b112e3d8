"""docs/problems.md says what is: its example runs, and it lists every format, licence and reason."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from miner.importers.formats import FORMATS
from miner.reasons import IMPORT, PROBLEMS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "problems.md").read_text()
SOURCE = "".join(path.read_text() for path in (ROOT / "miner" / "importers").glob("*_sets.py"))


def block(kind: str) -> str:
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```\n", TEXT, re.S | re.M)
    return str(found)


def section(title: str) -> list[list[str]]:
    """The rows of the first table below a title, without marks of code."""
    part = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"(?:^\|.*\n)+", part, re.M)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def without_numbers(text: str) -> str:
    return re.sub(r"\d+\.\d+ s", "N s", text)


def test_own_problems_are_imported_as_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(block("json"))
    line, _, shown = block("console").removeprefix("$ ").partition("\n")
    _, *words = shlex.split(line)
    done = subprocess.run(
        [sys.executable, "-m", "assay", *words], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0
    assert without_numbers(done.stdout + done.stderr) == without_numbers(shown)
    (part,) = (tmp_path / "run" / "problems").glob("*.parquet")
    rows = pq.read_table(part).to_pylist()
    assert [row["name"] for row in rows] == ["add", "add-suite", "sum"]
    assert [row["language"] for row in rows] == ["Python", "Python", "C++"]


def test_every_format_is_listed() -> None:
    assert {row[0].strip("`") for row in section("Formats")} == set(FORMATS)
    told = [name.strip("` ") for row in section("What becomes of the fields") for name in row[0].split(",")]
    assert {*told, "plain"} == set(FORMATS)


def test_licenses_are_those_of_the_code() -> None:
    listed = {row[3] for row in section("Formats")} - {"not told", "what each row says"}
    assert listed == set(re.findall(r'"((?:MIT|Apache-2\.0|CC-BY[-A-Z0-9.]*))"', SOURCE))


def test_reasons_of_this_stage_are_listed() -> None:
    listed = {name.strip("` ") for row in section("Bad rows") for name in row[0].split(",")}
    assert listed >= set(PROBLEMS) - set(IMPORT)
    assert listed <= set(PROBLEMS)
