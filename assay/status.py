"""`assay status`: how far each stage of a run is, from its plans and sidecars. Reads only."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from assay.models import NAMES
from assay.stages import STAGES, Stage
from schemas import shards
from schemas.errors import AssayError, ShardError
from schemas.hub_pull import read_facts
from schemas.rundir import RunDir


def stage_status(run: RunDir, stage: Stage) -> dict[str, Any] | None:
    """Units planned, done and failed, and the accounting of the done ones; None when it never ran.

    Raises:
        AssayError: the plan is damaged.
    """
    try:
        plan = run.read_plan(stage.name)
        if plan is None:
            return None
        units = [(str(unit["name"]), unit["key"]) for unit in plan["units"]]
        failed = [str(name) for name in plan["failed"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        where = f"{run.root}/stages/{stage.name}.json"
        raise AssayError(f"{where}: damaged; run `assay {stage.name}` again, which writes it anew") from None
    done, rows_in, kept, seconds = 0, 0, 0, 0.0
    drops: Counter[str] = Counter()
    for name, key in units:
        path = run.part_path(stage.name, stage.outputs[0], name)
        try:
            sidecar = shards.read_sidecar(path)
        except ShardError:
            continue
        if sidecar.key != key or sidecar.accounting is None or not _there(path, sidecar.bytes):
            continue
        done += 1
        rows_in += sidecar.accounting.rows_in
        kept += sidecar.accounting.kept
        drops.update(sidecar.accounting.drops)
        seconds += sidecar.seconds or 0.0
    return {
        "stage": stage.name,
        "considers": stage.considers,
        "units": len(units),
        "done": done,
        "failed": failed,
        "rows_in": rows_in,
        "kept": kept,
        "drops": dict(sorted(drops.items())),
        "seconds": round(seconds, 3),
    }


def amount(rows: int, plural: str) -> str:
    """A number of rows in words: `1 repository`, `2 commits`."""
    singular = plural.removesuffix("ies") + "y" if plural.endswith("ies") else plural.removesuffix("s")
    return f"{rows:,} {singular if rows == 1 else plural}"


def _leakage_line(facts: dict[str, Any], what: str) -> str:
    from miner.leakage import line_of

    return line_of(facts, what)


def _there(path: Path, size: int) -> bool:
    """Whether a shard has its size; its digest is what a stage checks before it counts on it."""
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def collect(run: RunDir) -> dict[str, Any]:
    """The state of a run as plain values."""
    stages = [found for stage in STAGES.values() if (found := stage_status(run, stage))]
    models = {name: run.root / "models" / name for name in NAMES}
    return {
        "run_dir": str(run.root),
        "stages": stages,
        "leakage": _leakage(run),
        "pulled": read_facts(run),
        "models": {
            name: {
                "trained": (model / "run.json").exists(),
                "unfinished": model.with_name(f"{name}.checkpoints").exists(),
                "evaluated": (model / "eval" / "run.json").exists(),
            }
            for name, model in models.items()
            if model.exists() or model.with_name(f"{name}.checkpoints").exists()
        },
        "report": (run.root / "report" / "index.html").exists(),
    }


def _leakage(run: RunDir) -> dict[str, Any]:
    """What was measured between train and test: of `splits`, and of `pairs` once they are built."""
    from miner.leakage import read_facts

    return {what: facts for what in ("splits", "pairs") if (facts := read_facts(run, what))}


def show(run_dir: Path, as_json: bool) -> None:
    """Print the state of a run."""
    facts = collect(RunDir.open(run_dir))
    if as_json:
        print(json.dumps(facts, sort_keys=True))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(f"run {facts['run_dir']}"), title_justify="left")
    for name, justify in (("stage", "left"), ("units", "right"), ("in", "right"), ("kept", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("dropped", overflow="fold")
    table.add_column("work s", justify="right")
    for stage in facts["stages"]:
        worst = sorted(stage["drops"].items(), key=lambda item: (-item[1], item[0]))
        state = f"{stage['done']}/{stage['units']}" + (
            f" ({len(stage['failed'])} failed)" if stage["failed"] else ""
        )
        table.add_row(
            stage["stage"],
            state,
            amount(stage["rows_in"], stage["considers"]),
            f"{stage['kept']:,}",
            Text(", ".join(f"{reason} {count:,}" for reason, count in worst[:5])),
            f"{stage['seconds']:.1f}",
        )
    console = Console()
    # Written at once, so that a reader that stops early, such as `head -1`, is no error.
    with console.capture() as page:
        console.print(table)
        if (pulled := facts["pulled"]) is not None:
            console.print(Text(f"pulled from {pulled['repo_id']} at {str(pulled['commit'])[:12]}"))
        for what, measured in facts["leakage"].items():
            console.print(_leakage_line(measured, what))
        for name, state in facts["models"].items():
            done = ", ".join(what for what, is_so in state.items() if is_so)
            console.print(f"model {name}: {done}")
        if not facts["models"]:
            console.print("model: no")
        console.print(f"report: {'yes' if facts['report'] else 'no'}")
    print(page.get(), end="")
