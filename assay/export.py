"""`assay export`: a run's step-labelled candidates as a data set that preference trainers read as it is.

In: a run directory with finished `steps` shards (for functions also the `programs` and `problems` beside
them). Out: a folder that `datasets.load_dataset` opens, one subfolder a split with one file a shard, and
`export.json` with what was asked for and what became of every row.
Wrong: `AssayError` for a run without steps, a damaged shard, a folder that holds something else, and where
no row gives an example. The folder is written beside its place and then moved there, so it is whole or as
it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from assay.recipe import Recipe
from labelers.programs.exports import Export, examples
from schemas import shards
from schemas.declare import as_row, derived, schema_of, validate
from schemas.errors import AccountingError, AssayError, RunDirError
from schemas.records import EXPORTS, TABLES, Turn
from schemas.rundir import Part, RunDir

FACTS = "export.json"
FORMAT = 1
READ = {"kto": ("prompt", "completion", "label"), "dpo": ("prompt", "chosen", "rejected")}
"""The columns that trainers read, in the order of TRL's documentation."""

_SPOKEN = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}
# What the level of programs needs of a row; steps and their failures are most of a table.
_LIGHT = (
    *("id", "problem_id", "program_id", "prompt", "completion", "outcome", "outcome_reason", "trust"),
    *("language", "source", "license", "generator", "split"),
)


@dataclasses.dataclass(frozen=True)
class Shape:
    """How examples are written.

    Attributes:
        format: `parquet` or `jsonl`.
        conversational: prompts and answers as lists of messages.
        plain: only the columns that trainers read.
    """

    format: str = "parquet"
    conversational: bool = False
    plain: bool = False

    def record(self, to: str) -> type:
        """The record that is written: the declared one, or one with fewer columns or with messages."""
        types = dict.fromkeys(_SPOKEN, list[Turn]) if self.conversational else {}
        record = EXPORTS[to]
        return derived(record, record.__name__, READ[to] if self.plain else None, types)

    def row(self, example: Any, record: type) -> dict[str, Any]:
        """An example as a row of that record."""
        whole: dict[str, Any] = as_row(example)
        row = {name: whole[name] for name in schema_of(record).names}
        if self.conversational:
            for name in row.keys() & _SPOKEN.keys():
                row[name] = [{"role": _SPOKEN[name], "content": row[name]}]
        return row


@dataclasses.dataclass
class Exported:
    """What an export did; rows are candidates, or functions of candidates."""

    rows_in: int = 0
    kept: int = 0
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)
    examples: Counter[str] = dataclasses.field(default_factory=Counter)
    wanted: int = 0
    files: list[dict[str, Any]] = dataclasses.field(default_factory=list)


class Exporter:
    """Exports the shards of a run, one after the other."""

    def __init__(self, run: RunDir, asked: Export, shape: Shape, seed: int) -> None:
        self.run, self.asked, self.shape, self.seed = run, asked, shape, seed
        self.record = shape.record(asked.to)
        self.done = Exported()

    def export(self, folder: Path) -> Exported:
        """Write all shards below a folder.

        Raises:
            AssayError: there are no steps, a shard is damaged, or no row gives an example.
        """
        parts = self.run.parts("steps")
        if not parts:
            raise RunDirError(
                f"{self.run.root}: no steps yet, so nothing to export; run `assay verify` first"
            )
        for part in parts:
            self._part(folder, part)
        done = self.done
        if done.rows_in != done.kept + done.left_out.total():
            raise AccountingError(
                f"export: {done.rows_in} rows in, but {done.kept} kept and {done.left_out.total()} left out"
            )
        if not done.examples:
            raise AssayError(
                f"{self.run.root}: none of {done.rows_in:,} rows gives an example "
                f"({_said(done.left_out) or 'there are none'})"
            )
        return done

    def _part(self, folder: Path, part: Part) -> None:
        split = str(part.sidecar.split)
        path = folder / split / f"part-{part.name}.{self.shape.format}"
        write = _parquet if self.shape.format == "parquet" else _lines
        if (rows := write(path, self.record, self._rows(part))) == 0:
            return
        self.done.examples[split] += rows
        self.done.files.append(
            {
                "path": str(path.relative_to(folder)),
                "rows": rows,
                "bytes": path.stat().st_size,
                "sha256": shards.file_sha256(path),
            }
        )

    def _rows(self, part: Part) -> Iterator[dict[str, Any]]:
        """The rows to write of one shard."""
        whole = self.asked.level == "program"
        programs = {} if whole else self._beside("programs", part)
        problems = {} if whole else self._beside("problems", part)
        rows = self._counted(shards.iter_rows(part.path, TABLES["steps"], _LIGHT if whole else None))
        # `verify` writes the candidates of one program together.
        for program_id, group in itertools.groupby(rows, lambda row: row["program_id"]):
            program = programs.get(program_id)
            problem = None if program is None else problems.get(program["problem_id"])
            made, kept, reasons = examples(group, program, problem, self.asked, self.seed)
            self.done.kept += kept
            self.done.left_out.update(reasons)
            for one in made:
                self.done.wanted += getattr(one, "label", False)
                yield self.shape.row(one, self.record)

    def _counted(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            self.done.rows_in += 1 if self.asked.level == "program" else len(row["steps"])
            yield row

    def _beside(self, table: str, part: Part) -> dict[str, dict[str, Any]]:
        """The rows of the part of the same unit by id; none where there is no such part."""
        found = (one for one in self.run.parts(table) if one.name == part.name)
        return {row["id"]: row for one in found for row in shards.iter_rows(one.path, TABLES[table])}


def _parquet(path: Path, record: type, rows: Iterable[dict[str, Any]]) -> int:
    with shards.ShardBuilder(path, record) as builder:
        for row in rows:
            builder.add(row)
        if builder.rows:
            builder.finish()
        return builder.rows


def _lines(path: Path, record: type, rows: Iterable[dict[str, Any]]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    number = 0
    with shards.replacing(path) as handle:
        for row in rows:
            validate(record, row, f"row {number}")
            handle.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            number += 1
    if not number:
        path.unlink()
        with contextlib.suppress(OSError):
            path.parent.rmdir()
    return number


def _is_ours(folder: Path) -> bool:
    """Whether a folder is an export, or nothing yet."""
    try:
        if not any(folder.iterdir()):
            return True
        with (folder / FACTS).open("rb") as handle:
            found = json.loads(handle.read(shards.MAX_SIDECAR_BYTES))
        return isinstance(found, dict) and found.get("export") == FORMAT
    except FileNotFoundError:
        return not folder.exists()
    except (OSError, ValueError, RecursionError):
        return False


def _facts(exporter: Exporter, finished: bool) -> dict[str, Any]:
    done, asked = exporter.done, exporter.asked
    facts = {
        "export": FORMAT,
        "finished": finished,
        **dataclasses.asdict(asked),
        **dataclasses.asdict(exporter.shape),
        "seed": exporter.seed,
        "run": exporter.run.root.resolve().name.encode("utf-8", "replace").decode(),
        "columns": schema_of(exporter.record).names,
        "rows_in": done.rows_in,
        "kept": done.kept,
        "left_out": dict(sorted(done.left_out.items())),
        "examples": dict(sorted(done.examples.items())),
        "files": done.files,
    }
    if asked.to == "kto":
        facts["desirable"] = done.wanted
        facts["undesirable"] = done.examples.total() - done.wanted
    return facts


def _said(counts: Counter[str]) -> str:
    return ", ".join(
        f"{rows:,} {reason}" for reason, rows in sorted(counts.items(), key=lambda i: (-i[1], i[0]))
    )


def _told(facts: dict[str, Any]) -> str:
    rows = "functions" if facts["level"] == "function" else "candidates"
    splits = " + ".join(
        f"{many:,} {split}" for split, many in sorted(facts["examples"].items(), reverse=True)
    )
    parts = (
        f", {facts['desirable']:,} desirable and {facts['undesirable']:,} not" if "desirable" in facts else ""
    )
    left = Counter(facts["left_out"])
    out = f"; left out {left.total():,}: {_said(left)}" if left else ""
    return f"{splits} examples{parts}; {facts['rows_in']:,} {rows} in, {facts['kept']:,} used{out}"


def export_run(
    run_dir: Path, out: Path, asked: Export, shape: Shape, *, seed: int | None, as_json: bool
) -> None:
    """Export a run and print what was done.

    Raises:
        AssayError: see the head of this module.
    """
    run = RunDir.open(run_dir)
    if out.is_file() or not _is_ours(out):
        raise AssayError(f"{out}: holds something other than an export; give another --out")
    # Not `.tmp`: what sweeps a run directory takes files of that name.
    beside = out.with_name(f".{out.name}.new")
    if not _is_ours(beside):
        raise AssayError(f"{beside}: is in the way; remove it, or give another --out")
    recipe = run.root / "recipe.toml"
    with run.lock():
        settings = Recipe.load(recipe) if recipe.exists() else Recipe()
        asked = dataclasses.replace(asked, counts=settings.verify.steps)
        exporter = Exporter(run, asked, shape, settings.seed if seed is None else seed)
        try:
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir(parents=True)
            shards.write_text(beside / FACTS, json.dumps(_facts(exporter, finished=False)) + "\n")
            exporter.export(beside)
            facts = _facts(exporter, finished=True)
            shards.write_text(beside / FACTS, json.dumps(facts, indent=1) + "\n")
            if out.exists():
                shutil.rmtree(out)
            beside.rename(out)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    if as_json:
        print(json.dumps({"out": str(out), **facts}, sort_keys=True))
    else:
        print(f"{out}: {_told(facts)}")
