"""docs/preferences.md says what is: its example runs, and it lists every format and reason."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from miner.importers.chats import Turn, asked
from miner.importers.preferences_formats import FORMATS
from miner.reasons import IMPORT, PREFERENCES
from schemas.rundir import RunDir

TEXT = (Path(__file__).parents[2] / "docs" / "preferences.md").read_text()


def block(kind: str) -> str:
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```\n", TEXT, re.S | re.M)
    return str(found)


def section(title: str) -> list[list[str]]:
    """The rows of the table below a title."""
    part = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"(?:^\|.*\n)+", part, re.M)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def without_numbers(text: str) -> str:
    return re.sub(r"\d+\.\d+ s", "N s", text)


def test_own_preferences_are_imported_as_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(block("json"))
    line, _, shown = block("console").removeprefix("$ ").partition("\n")
    _, *words = shlex.split(line)
    done = subprocess.run(
        [sys.executable, "-m", "assay", *words], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0
    assert without_numbers(done.stdout + done.stderr) == without_numbers(shown)
    rows = {row["input"]: row for row in RunDir.open(tmp_path / "run").rows("preferences")}
    assert rows["Say hello."]["aspect"] == "Harmlessness"
    assert rows["Add two numbers in Python."]["language"] == "Python"


def test_formats_are_listed_in_their_order_with_their_fields() -> None:
    listed = {row[0].strip("`"): set(re.findall(r"`([^`]+)`", row[2])) for row in section("Formats")}
    assert list(listed) == list(FORMATS)
    for name, fields in listed.items():
        told = {part for field in FORMATS[name].fields for part in field.split("|")}
        assert fields >= told - {"chosen_rating"}, name


def test_turns_are_rendered_as_the_page_shows() -> None:
    turns = [
        Turn("user", "Add two numbers."),
        Turn("assistant", "In which language?"),
        Turn("user", "In Python."),
    ]
    shown = asked(turns)[1].replace("\n", "\n  ").replace("  \n", "\n")
    assert f"  ```\n  {shown}\n  ```\n" in TEXT


def test_reasons_of_this_stage_are_listed() -> None:
    listed = {name.strip("` ") for row in section("Bad rows") for name in row[0].split(",")}
    assert listed == set(PREFERENCES) - set(IMPORT)
