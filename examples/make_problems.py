"""Write examples/problems.jsonl, in the format of HumanEval, from the files in examples/problems/."""

from __future__ import annotations

import argparse
import ast
import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "problems"
OUTPUT = HERE / "problems.jsonl"
SECTIONS = ("prompt", "solution", "test")


def split_sections(text: str) -> tuple[str, dict[str, str]]:
    """Return what precedes the first marker of a problem file, and the text below each marker.

    A marker is a line such as "# --- prompt ---", indented or not. All three must occur, in order.
    """
    head: list[str] = []
    sections: dict[str, list[str]] = {}
    current = head
    for line in text.splitlines(keepends=True):
        words = line.split()
        if len(words) == 4 and (words[0], words[1], words[3]) == ("#", "---", "---"):
            current = sections.setdefault(words[2], [])
        else:
            current.append(line)
    if tuple(sections) != SECTIONS:
        raise ValueError(f"expected the sections {', '.join(SECTIONS)}, found {', '.join(sections)}")
    return "".join(head), {name: "".join(lines) for name, lines in sections.items()}


def read_problem(path: Path) -> dict[str, str]:
    """Return the row of one problem file."""
    head, sections = split_sections(path.read_text(encoding="utf-8"))
    task_id, colon, _ = (ast.get_docstring(ast.parse(head)) or "").partition(":")
    if not colon or not task_id.removeprefix("assay/").isdecimal():
        raise ValueError(f'{path.name}: the file must begin with a docstring such as "assay/7: ..."')
    prompt = sections["prompt"].strip("\n") + "\n"
    functions = [node for node in ast.parse(prompt).body if isinstance(node, ast.FunctionDef)]
    if len(functions) != 1:
        raise ValueError(f"{path.name}: the prompt must hold exactly one function")
    return {
        "task_id": task_id,
        "prompt": prompt,
        "entry_point": functions[0].name,
        "canonical_solution": sections["solution"].strip("\n") + "\n",
        "test": sections["test"].strip("\n") + "\n",
    }


def render(folder: Path = SOURCES) -> str:
    """Return the rows of all problem files as JSON Lines, sorted by task number."""
    rows = [read_problem(path) for path in sorted(folder.glob("*.py"))]
    rows.sort(key=lambda row: int(row["task_id"].removeprefix("assay/")))
    ids = [row["task_id"] for row in rows]
    if len(set(ids)) != len(ids):
        raise ValueError("two problems have the same task_id")
    return "".join(json.dumps(row) + "\n" for row in rows)


def main() -> int:
    """Write the file, or with --check only say whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")
    args = parser.parse_args()
    text = render()
    if args.check:
        current = OUTPUT.exists() and OUTPUT.read_bytes() == text.encode()
        print(f"{OUTPUT.name} is {'up to date' if current else 'out of date'}")
        return 0 if current else 1
    OUTPUT.write_bytes(text.encode())
    print(f"wrote {len(text.splitlines())} problems to {OUTPUT.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
