"""The reference pages say what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_reference_pages_are_those_of_the_code() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "make_reference.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_every_setting_has_its_meaning() -> None:
    empty = [
        f"{path.name}: {line}"
        for path in (ROOT / "docs" / "reference").glob("*.md")
        for line in path.read_text().splitlines()
        if line.startswith("| `") and re.search(r"\|\s*\|$", line)
    ]
    assert empty == []


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + list((ROOT / "docs").rglob("*.md"))
    broken = []
    for page in pages:
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []
