"""What `assay sandbox doctor` tells: layers, backends and languages of this machine, as facts and as tables.

In: nothing but the machine. Out: `examine` gives plain values, `show` prints them. Wrong: nothing is raised
for a machine that lacks something; that is what is told.
"""

from __future__ import annotations

import dataclasses
from typing import Any, get_args


def examine() -> dict[str, Any]:
    """Try every layer, every backend and every language."""
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
        "backends": [_backend(name) for name in _backends()],
        "languages": [dataclasses.asdict(one) for one in doctor.toolchains()],
    }


def _backends() -> list[str]:
    from sandbox.sandbox import Backend

    return [name for name in get_args(Backend) if name != "auto"]


def _backend(name: str) -> dict[str, Any]:
    """Whether a backend can be used, by running a job on it."""
    from sandbox import Job, Limits, Sandbox, SandboxError

    job = Job("script", {"main.py": "print(40 + 2)"}, limits=Limits(wall_s=20, cpu_s=20))
    try:
        with Sandbox(name) as box:  # type: ignore[arg-type]
            result = box.run(job)
    except SandboxError as error:
        return {"backend": name, "usable": False, "detail": str(error)}
    usable = (result.status, result.stdout) == ("ok", "42\n")
    detail = f"isolation {result.isolation}" if usable else result.detail or result.status
    return {"backend": name, "usable": usable, "detail": detail}


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
    languages = _table("languages", "language", "toolchain, or what lacks")
    for one in facts["languages"]:
        languages.add_row(
            one["title"], Text(one["version"] or one["problem"], "" if one["version"] else "yellow")
        )
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
