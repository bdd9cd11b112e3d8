"""What `assay sandbox doctor` tells: layers, backends and languages of this machine, as facts and as tables.

In: nothing but the machine. Out: `examine` gives plain values, `show` prints them. Wrong: nothing is raised
for a machine that lacks something; that is what is told.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox import Sandbox

# A program a language, to be run as a script; each prints 42.
_PROGRAMS = {
    "python": "print(40 + 2)",
    "javascript": "console.log(40 + 2)",
    "typescript": "const sum: number = 40 + 2; console.log(sum)",
    "go": 'package main\nimport "fmt"\nfunc main() { fmt.Println(40 + 2) }',
    "c": '#include <stdio.h>\nint main(void) { printf("%d\\n", 40 + 2); return 0; }',
    "cpp": "#include <iostream>\nint main() { std::cout << 40 + 2 << std::endl; }",
    "java": "class Main { public static void main(String[] args) { System.out.println(40 + 2); } }",
    "ruby": "puts 40 + 2",
    "csharp": "class Program { static void Main() { System.Console.WriteLine(40 + 2); } }",
    "rust": 'fn main() { println!("{}", 40 + 2); }',
    "php": "<?php echo 40 + 2, PHP_EOL;",
}


def examine(run_languages: bool, backends: Mapping[str, Any]) -> dict[str, Any]:
    """Try every layer and backend and look for every language; run a program of each where asked to.

    `backends` are arguments of `Sandbox` for those backends that need some.
    """
    from sandbox import Sandbox, doctor

    layers = Sandbox.doctor()
    fences = {fence.name: fence for fence in doctor.FENCES}
    missing = doctor.lacking(layers)
    return {
        "isolated": not missing,
        "problems": [f"{layer.name}: {layer.detail}; {doctor.advice(layer)}" for layer in missing],
        "advice": [
            f"{layer.name}: {doctor.advice(layer)}"
            for layer in layers
            if not layer.holds and not fences[layer.name].required
        ],
        "layers": [
            {
                **dataclasses.asdict(layer),
                "required": fences[layer.name].required,
                "stops": fences[layer.name].stops,
                "tried": fences[layer.name].tried,
            }
            for layer in layers
        ],
        "backends": [
            {"backend": one.name, "usable": one.holds, "detail": one.detail}
            for one in Sandbox.available(**backends)
        ],
        "languages": _languages(run_languages and not missing),
    }


def _languages(run: bool) -> list[dict[str, Any]]:
    """What each language has; with `run` also "ran_s": seconds of a run with its build, and of a second."""
    from sandbox import Sandbox, doctor

    found = [dataclasses.asdict(one) for one in doctor.toolchains()]
    if run:
        with Sandbox(cache=None) as box:
            for one in found:
                if not one["problem"]:
                    _run_program(box, one)
    return found


def _run_program(box: Sandbox, language: dict[str, Any]) -> None:
    from sandbox import Job, Limits, SandboxError
    from sandbox.names import script_file

    lang = language["lang"]
    job = Job("script", {script_file(lang): _PROGRAMS[lang]}, lang=lang, limits=Limits(wall_s=20, cpu_s=20))
    seconds = []
    for _ in range(2):
        begun = time.monotonic()
        try:
            result = box.run(job)
        except SandboxError as error:
            language["problem"] = str(error)
            return
        seconds.append(round(time.monotonic() - begun, 3))
        if (result.status, result.stdout) != ("ok", "42\n"):
            language["problem"] = f"a program that prints 42: {result.status}: {result.detail}"
            return
    language["ran_s"] = seconds


def show(facts: dict[str, Any]) -> None:
    """Print the facts as tables, in colour on a terminal."""
    from rich.console import Console
    from rich.text import Text

    layers = _table("isolation", "layer", "holds", "what came of trying")
    for one in facts["layers"]:
        word, style = ("yes", "green") if one["holds"] else ("NO", "bold red")
        if not one["required"]:
            word, style = (word, style) if one["holds"] else ("no (optional)", "yellow")
        layers.add_row(one["name"], Text(word, style), Text(one["detail"]))
    backends = _table("backends", "backend", "usable", "what it gives, or what lacks")
    for one in facts["backends"]:
        word, style = ("yes", "green") if one["usable"] else ("no", "yellow")
        backends.add_row(one["backend"], Text(word, style), Text(one["detail"]))
    ran = any("ran_s" in one for one in facts["languages"])
    columns = ("language", "toolchain, or what lacks", *(["a program ran in"] if ran else []))
    languages = _table("languages", *columns)
    for one in facts["languages"]:
        told = Text(one["problem"] or one["version"], "yellow" if one["problem"] else "")
        took = "{:.3f} s, then {:.3f} s".format(*one["ran_s"]) if "ran_s" in one else "-"
        languages.add_row(one["title"], told, *([took] if ran else []))
    console = Console()
    # Written at once, so that a reader that stops early, such as `head -1`, is no error.
    with console.capture() as page:
        for table in (layers, backends, languages):
            console.print(table)
        for line in facts["advice"]:
            console.print(Text(line))
        for line in facts["problems"]:
            console.print(Text(line, "bold red"))
        if facts["isolated"]:
            console.print(Text("isolation holds: untrusted programs can be run here", "green"))
        else:
            console.print(Text("isolation does not hold: nothing untrusted is run here", "bold red"))
    print(page.get(), end="")


def _table(title: str, *columns: str) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
