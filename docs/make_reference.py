"""Write the reference pages from the code, so that they say what is.

    python docs/make_reference.py           write docs/reference/*.md
    python docs/make_reference.py --check   exit 1 if a page differs from the code

One page a command (flags, what it reads and writes, settings, reasons for drops), one for the
records, one for exit statuses.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import sys
import typing
from pathlib import Path
from typing import Any

import typer

from assay.cli import app
from assay.recipe import Recipe
from assay.session import reasons
from assay.stages import STAGES
from labelers.programs.exports import EXPORT_REASONS
from schemas.declare import describe
from schemas.records import EXPORTS, TABLES
from schemas.stage import all_outputs

OUT = Path(__file__).parent / "reference"

# Which tables of the recipe a command reads, and which stages it runs.
SETTINGS = {
    "repositories": ("repositories", "fetch"),
    "mine": ("repositories", "mine", "fetch"),
    "select": ("select",),
    "dedup": ("dedup",),
    "decontaminate": ("decontaminate",),
    "label": ("select", "dedup", "decontaminate", "label"),
    "split": ("split", "decontaminate", "dedup"),
    "cut": ("cut",),
    "evidence": ("evidence", "build"),
    "vote": ("vote", "build", "model", "judges"),
    "instruct": ("instruct", "build", "model"),
    "build": ("split", "cut", "label", "evidence", "vote", "instruct", "build", "model", "judges"),
    "problems": ("importing",),
    "preferences": ("preferences",),
    "trajectories": ("importing",),
    "decompose": ("decompose", "model"),
    "tests": ("tests", "model"),
    "sample": ("sample", "policy"),
    "verify": ("tests", "sample", "verify", "model", "policy"),
    "steps": ("importing", "decompose", "tests", "sample", "verify", "model", "policy"),
    "synthesize": ("synthesize", "model"),
    "train": ("train", "criteria"),
    "eval": ("train", "label"),
    "score": ("label",),
}
RUNS = {
    "mine": ("repositories", "mine"),
    "label": ("select", "dedup", "decontaminate", "label"),
    "build": ("split", "cut", "evidence", "vote", "instruct", "build"),
    "verify": ("tests", "sample", "verify"),
    "steps": ("problems", "decompose", "tests", "sample", "verify"),
}


def cell(text: Any) -> str:
    """Text fit for a cell of a Markdown table."""
    return str(text).replace("\n", " ").replace("|", "\\|")


def table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    lines += ["| " + " | ".join(cell(item) for item in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def attributes(cls: type) -> dict[str, str]:
    """The `Attributes:` section of a class's docstring: name -> text."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    _, _, section = doc.partition("Attributes:\n")
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if match := re.match(r"    (\w+(?:, \w+)*): (.*)", line):
            names = match.group(1).split(", ")
            found.update(dict.fromkeys(names, match.group(2)))
        elif line.startswith("        "):
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
    return found


def settings_of(name: str) -> str:
    """The settings of one table of the recipe."""
    config = getattr(Recipe(), name)
    if name == "judges":
        return (
            "### `[[judges]]`\n\nAny number of tables, a model each, with the settings of `[model]`; "
            "without any the one `model` judges.\n"
        )
    told = attributes(type(config))
    rows = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        shown = list(value) if isinstance(value, tuple) else value
        rows.append((f"`{field.name}`", f"`{shown}`", told.get(field.name, "")))
    return f"### `[{name}]`\n\n" + table(("setting", "default", "meaning"), rows)


def command_page(name: str, command: Any) -> str:
    """The page of one command."""
    options, arguments = [], []
    for parameter in command.params:
        told = getattr(parameter, "help", None) or ""
        if parameter.param_type_name == "argument":
            arguments.append((f"`{parameter.name}`", told))
            continue
        names = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
        default = parameter.default
        shown = "" if default in (None, False) or parameter.multiple else f"`{default}`"
        options.append((names, shown, told))
    page = f"# `assay {name}`\n\n{command.help}\n"
    if arguments:
        page += "\n## Arguments\n\n" + table(("argument", "meaning"), arguments)
    page += "\n## Flags\n\n" + table(("flag", "default", "meaning"), options)
    runs = RUNS.get(name, (name,) if name in STAGES else ())
    if runs:
        rows = []
        for stage in (STAGES[one] for one in runs):
            written = ", ".join(dict.fromkeys(f"`{output.table}/`" for output in all_outputs(stage.outputs)))
            rows.append((stage.name, stage.considers, written))
        page += "\n## Stages\n\n" + table(("stage", "a row in is one of the", "writes"), rows)
    if name in SETTINGS:
        page += "\n## Settings\n\nIn the recipe, or with `--set table.setting=value`.\n\n"
        page += "\n".join(settings_of(one) for one in SETTINGS[name])
    if name == "export":
        page += "\n## Reasons for leaving a row out\n\n" + table(
            ("reason", "meaning"), [(f"`{code}`", text) for code, text in EXPORT_REASONS.items()]
        )
    known = reasons()
    dropped = [(stage, known[stage]) for stage in runs if known.get(stage)]
    if dropped:
        page += "\n## Reasons for dropping a row\n"
        for stage, sentences in dropped:
            page += f"\n### {stage}\n\n" + table(
                ("reason", "meaning"), [(f"`{code}`", text) for code, text in sentences.items()]
            )
    return page


def records_page() -> str:
    """The page of all records."""
    page = "# Records\n\nThe tables of a run directory, a Parquet shard a unit of work.\n"
    for name, cls in TABLES.items():
        rows = [(f"`{column}`", kind, doc) for column, kind, doc in describe(cls)]
        page += f"\n## `{name}/`: {cls.__name__}\n\n{inspect.cleandoc(cls.__doc__ or '')}\n\n"
        page += table(("column", "type", "meaning"), rows)
    page += "\n# Exports\n\nWhat `assay export` writes, by what `--to` says.\n"
    for name, cls in EXPORTS.items():
        rows = [(f"`{column}`", kind, doc) for column, kind, doc in describe(cls)]
        page += f"\n## `{name}`: {cls.__name__}\n\n{inspect.cleandoc(cls.__doc__ or '')}\n\n"
        page += table(("column", "type", "meaning"), rows)
    return page


def commands(group: Any, before: str = "") -> dict[str, Any]:
    """Every command by the words that call it; a group of commands has none of its own."""
    found = {}
    for name, command in group.commands.items():
        words = f"{before}{name}"
        found.update(commands(command, f"{words} ") if hasattr(command, "commands") else {words: command})
    return found


def pages() -> dict[str, str]:
    """Every page by file name."""
    group = typing.cast("Any", typer.main.get_command(app))
    made = {f"{name.replace(' ', '-')}.md": command_page(name, one) for name, one in commands(group).items()}
    return {**made, "records.md": records_page()}


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description="Write the reference pages from the code.")
    parser.add_argument("--check", action="store_true", help="only say which pages differ from the code")
    check = parser.parse_args().check
    made = pages()
    if check:
        wrong = [
            name
            for name, text in made.items()
            if not (OUT / name).exists() or (OUT / name).read_text() != text
        ]
        wrong += [path.name for path in OUT.glob("*.md") if path.name not in made]
        if wrong:
            print(
                f"differ from the code: {', '.join(sorted(wrong))}; run python docs/make_reference.py",
                file=sys.stderr,
            )
        return bool(wrong)
    OUT.mkdir(exist_ok=True)
    for name, text in made.items():
        (OUT / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
