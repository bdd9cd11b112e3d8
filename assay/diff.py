"""`assay diff`: what two runs have in common and what not, and why. Reads only.

In: two run directories. Out: on standard output, a summary for a person or one JSON object: settings that
differ, whether each stage was run by the same code, the accounting of each stage, and for every table the
rows gained, lost, changed and relabelled (`assay.comparing`).

Errors: `AssayError` for what is not a run directory, a table that neither has, a damaged shard or plan.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.recipe import Recipe
from assay.stages import STAGES, Stage, code_digest
from assay.status import amount, stage_status
from schemas.card import without_paths
from schemas.card_text import UNSEEN
from schemas.errors import AssayError, ShardError
from schemas.ids import task_key
from schemas.records import TABLES
from schemas.rundir import Part, RunDir

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from assay.comparing import TableDiff

_MOST = 8
"""Lines of one kind that a person is shown."""


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    found: dict[str, Any] = {}
    for key, one in value.items():
        found.update(_flat(one, f"{name}.{key}" if name else key))
    return found


def _settings(run: RunDir) -> dict[str, Any]:
    """The run's recipe by setting; nothing without one.

    Raises:
        AssayError: it is not TOML.
    """
    path = run.root / "recipe.toml"
    try:
        return _flat(tomllib.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise AssayError(
            f"{path}: cannot be read as TOML ({error}); mend it, or run a stage with --recipe"
        ) from None


def _public(value: Any) -> Any:
    """A setting to be shown: without what a URL says of its user."""
    if isinstance(value, list):
        return [_public(one) for one in value]
    if isinstance(value, str) and "://" in value:
        return without_paths(value)
    return value


def _differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = [name for name in dict.fromkeys((*a, *b)) if name not in a or name not in b or a[name] != b[name]]
    return [
        {
            "setting": name,
            **{side: _public(found[name]) for side, found in (("a", a), ("b", b)) if name in found},
        }
        for name in names
    ]


def _recipe(run: RunDir) -> Recipe | None:
    """The run's recipe, None where this version cannot read it."""
    try:
        return Recipe.load(run.root / "recipe.toml")
    except AssayError:
        return None


def _config(stage: Stage, recipe: Recipe | None) -> list[Any] | None:
    if recipe is None:
        return None
    return [one if isinstance(one, dict) else dataclasses.asdict(one) for one in stage.settings(recipe)]


def _parts(run: RunDir, stage: Stage) -> dict[str, Part]:
    """The parts that carry a stage's accounting, by unit."""
    first = stage.outputs[0]
    return {
        part.name: part
        for part in run.parts(first.table, first.split)
        if part.sidecar.stage == stage.name and part.sidecar.accounting is not None
    }


def _this_version(stage: Stage, parts: Mapping[str, Part], recipe: Recipe | None) -> bool | None:
    """Whether the code and libraries that are installed here give the keys under which a stage ran.

    Its recipe may have been changed since, which cannot be told from other code; None where it never ran.
    """
    config = _config(stage, recipe)
    if not parts or config is None or recipe is None:
        return None
    try:
        code = code_digest(stage.code, stage.libraries)
    except (ImportError, OSError):
        return None
    for name, part in parts.items():
        told = part.sidecar.accounting
        if told is None:
            continue
        asked = {"config": config, "seed": recipe.seed, "unit": name, "rows": told.rows_in}
        if task_key(stage.name, asked, code, part.sidecar.inputs) != part.sidecar.key:
            return False
    return True


def _same_code(
    stage: Stage, sides: Sequence[Mapping[str, Part]], recipes: Sequence[Recipe | None]
) -> bool | None:
    """Whether both ran under one code: their keys tell where everything else that goes into them is equal."""
    a, b = sides
    ours, theirs = (_config(stage, recipe) for recipe in recipes)
    seeds = {recipe.seed for recipe in recipes if recipe}
    answer = None
    for name in a.keys() & b.keys():
        left, right = a[name].sidecar, b[name].sidecar
        if left.key == right.key:
            return True
        rows = {one.accounting.rows_in for one in (left, right) if one.accounting}
        if left.inputs == right.inputs and len(rows) == 1 and ours == theirs is not None and len(seeds) == 1:
            answer = False
    return answer


def _stages(runs: Sequence[RunDir]) -> list[dict[str, Any]]:
    """Each stage that either ran: its accounting in both, and what can be told of the code."""
    recipes = [_recipe(run) for run in runs]
    found = []
    for stage in STAGES.values():
        told = [stage_status(run, stage) for run in runs]
        if not any(told):
            continue
        parts = [_parts(run, stage) for run in runs]
        entry: dict[str, Any] = {"stage": stage.name, "considers": stage.considers}
        for side, state, own, recipe in zip("ab", told, parts, recipes, strict=True):
            facts = None
            if state:
                facts = {key: state[key] for key in ("units", "done", "failed", "rows_in", "kept", "drops")}
                facts["this_version"] = _this_version(stage, own, recipe)
            entry[side] = facts
        entry["same_code"] = _same_code(stage, parts, recipes)
        found.append(entry)
    return found


def _tables(runs: Sequence[RunDir], table: str | None) -> list[str]:
    if table is not None and table not in TABLES:
        raise AssayError(f"{table!r}: not a table; give one of {', '.join(TABLES)}")
    found = [one for one in TABLES if any(run.parts(one) for run in runs)]
    if table is None:
        return found
    if table not in found:
        names = " nor ".join(str(run.root) for run in runs)
        raise AssayError(
            f"neither {names} has finished {table}; give another --table, or run its stage first"
        )
    return [table]


def compare(run_a: Path, run_b: Path, table: str | None = None, limit: int = 5) -> dict[str, Any]:
    """What two runs have in common and what not, as plain values.

    Args:
        run_a: the first run, from which rows are lost.
        run_b: the second, which gains.
        table: only this one; all that either has when None.
        limit: rows of each kind that are told one by one.

    Raises:
        AssayError: see the head of this module.
    """
    from assay.comparing import Drops, compare_table

    runs = [RunDir.open(path) for path in (run_a, run_b)]
    for run in runs:
        _check_whole(run)
    tables = _tables(runs, table)
    recipes = [_settings(run) for run in runs]
    a, b = (Drops(run) for run in runs)
    diffs = [compare_table(name, a, b, limit) for name in tables]
    return {
        "run_a": str(run_a),
        "run_b": str(run_b),
        "equal": all(diff.equal for diff in diffs),
        "settings": _differing(*recipes),
        "stages": _stages(runs),
        "tables": [{**dataclasses.asdict(diff), "equal": diff.equal} for diff in diffs],
    }


def _check_whole(run: RunDir) -> None:
    """Refuse a shard that has not the size that its sidecar says, since equal ones are not opened."""
    for table in TABLES:
        for part in run.parts(table):
            if part.path.stat().st_size != part.sidecar.bytes:
                raise ShardError(
                    f"{part.path}: not the bytes that its sidecar says; "
                    f"run `assay {part.sidecar.stage}` again"
                )


def _visible(text: str) -> str:
    """A line of a stranger's text with what a terminal would obey, or a person not see, written out."""
    return UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, list)) else str(value)


def _grid(*heads: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in heads:
        right = head.lstrip("-")
        table.add_column(right, justify="right" if head != right else "left", overflow="fold")
    return table


def _code_line(stages: Sequence[Mapping[str, Any]]) -> list[str]:
    """What can be told of the code that ran, in lines."""
    other = [one["stage"] for one in stages if one["same_code"] is False]
    lines = [f"ran under other code or libraries: {', '.join(other)}"] if other else []
    for side in "ab":
        old = [one["stage"] for one in stages if one[side] and one[side]["this_version"] is False]
        if old:
            lines.append(
                f"{side.upper()}: not of this version, or of settings changed since: {', '.join(old)}"
            )
    return lines


def _lines(diff: TableDiff) -> list[str]:
    """The details of a table that is not equal, indented."""
    lines = []
    for kind, why, other in (("lost", diff.why_lost, "B"), ("gained", diff.why_gained, "A")):
        for one in why[:_MOST]:
            told = f"dropped by {one['stage']}: {one['reason']}" if one["stage"] else one["reason"]
            lines.append(f"  {kind} {one['rows']:,}: in {other} {told}")
        if len(why) > _MOST:
            lines.append(f"  {kind}: {len(why) - _MOST} more reasons")
    for one in diff.labels[:_MOST]:
        along = list(one["with"])[:6]
        lines.append(
            f"  {one['column']} {_text(one['from'])} -> {_text(one['to'])}: {one['rows']:,}"
            + (f" (with {', '.join(along)})" if along else "")
        )
    if diff.columns:
        worst = ", ".join(f"{name} {many:,}" for name, many in list(diff.columns.items())[:_MOST])
        lines.append(f"  columns: {worst}" + (", ..." if len(diff.columns) > _MOST else ""))
    for side, names in (("A", diff.only_a), ("B", diff.only_b)):
        if names:
            lines.append(f"  columns only in {side}: {', '.join(names)}")
    return lines


def _sample_lines(diff: TableDiff) -> list[str]:
    lines = []
    for kind, rows in diff.samples.items():
        for one in rows:
            row = ", ".join(f"{name} {_text(value)}" for name, value in one["row"].items())
            lines.append(f"  {kind}: {row}")
            if (why := one.get("why")) and diff.table != "verdicts":
                about = [str(why[name]) for name in ("stage", "reason", "detail") if why.get(name)]
                lines.append("    " + ": ".join(about))
            lines += [
                f"    {name}: {_text(change['from'])} -> {_text(change['to'])}"
                for name, change in list(one.get("columns", {}).items())[:_MOST]
            ]
    return lines


def _accounting(stages: Sequence[Mapping[str, Any]]) -> Table | None:

    from rich.text import Text

    table = _grid("stage", "-in A", "-in B", "-kept A", "-kept B", "dropped otherwise (A, B)")
    for one in stages:
        states = [one[side] or {"rows_in": None, "kept": None, "drops": {}} for side in "ab"]
        if states[0] == states[1] or all(
            states[0][key] == states[1][key] for key in ("rows_in", "kept", "drops")
        ):
            continue
        drops = [state["drops"] for state in states]
        reasons = [
            f"{reason} {drops[0].get(reason, 0):,}, {drops[1].get(reason, 0):,}"
            for reason in sorted({*drops[0], *drops[1]})
            if drops[0].get(reason, 0) != drops[1].get(reason, 0)
        ]
        counts = [
            "-" if state[key] is None else f"{state[key]:,}"
            for key in ("rows_in", "kept")
            for state in states
        ]
        told = "; ".join(reasons[:_MOST]) + ("; ..." if len(reasons) > _MOST else "")
        table.add_row(one["stage"], *counts, Text(_visible(told)))
    return table if table.row_count else None


def _print(facts: Mapping[str, Any], diffs: Sequence[TableDiff], console: Console) -> None:
    def say(line: str, style: str | None = None) -> None:
        console.print(_visible(line), markup=False, highlight=False, style=style, soft_wrap=True)

    def head(line: str) -> None:
        console.print()
        say(line, "bold")

    say(f"A {facts['run_a']}")
    say(f"B {facts['run_b']}")
    if facts["settings"]:
        head("settings")
        for one in facts["settings"]:
            told = [_text(one[side]) if side in one else "(not there)" for side in "ab"]
            say(f"  {one['setting']}: {told[0]} -> {told[1]}")
    if lines := _code_line(facts["stages"]):
        head("code")
        for line in lines:
            say(f"  {line}")
    if table := _accounting(facts["stages"]):
        console.print()
        console.print(table)
    console.print()
    grid = _grid("table", "-A", "-B", "-same", "-lost", "-gained", "-changed", "-relabelled")
    for diff in diffs:
        counts = (diff.rows_a, diff.rows_b, diff.same, diff.lost, diff.gained, diff.changed, diff.relabelled)
        grid.add_row(diff.table, *(f"{many:,}" for many in counts))
    console.print(grid)
    for diff in diffs:
        if lines := [*_lines(diff), *_sample_lines(diff)]:
            head(diff.table)
            for line in lines:
                say(line)
    if facts["equal"]:
        console.print()
        say(f"equal: {amount(sum(diff.same for diff in diffs), 'rows')} in both, none in one only")


def show(run_a: Path, run_b: Path, table: str | None, limit: int, as_json: bool) -> None:
    """Print how two runs differ.

    Raises:
        AssayError: see `compare`.
    """
    facts = compare(run_a, run_b, table, limit)
    if as_json:
        print(json.dumps(facts, sort_keys=True))
        return
    from rich.console import Console

    from assay.comparing import TableDiff

    diffs = [
        TableDiff(**{key: value for key, value in one.items() if key != "equal"}) for one in facts["tables"]
    ]
    console = Console()
    # Written at once, so that a reader that stops early, such as `head -1`, is no error.
    with console.capture() as page:
        _print(facts, diffs, console)
    print(page.get(), end="")
