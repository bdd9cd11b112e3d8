"""A run directory: one folder a table, the resolved recipe, and what each stage planned to do.

    run.json            format of the directory; another format is refused
    recipe.toml         the resolved recipe
    stages/<stage>.json the units that the stage last planned, and those that failed
    <table>[/<split>]/part-<unit>.parquet + .json
    models/ report/     what trainers and the report write

A process that writes holds `run.lock`; the kernel lets it go when the process dies, however it dies.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from schemas import shards
from schemas.errors import RunDirError, ShardError
from schemas.records import SPLIT_TABLES, TABLES
from schemas.stage import VERDICTS, Output, Unit, all_outputs, maker_of, part_name

RUN_FORMAT = 1
SPLITS = ("train", "test")


@dataclasses.dataclass(frozen=True)
class Part:
    """A finished shard."""

    path: Path
    sidecar: shards.Sidecar

    @property
    def name(self) -> str:
        """Name of the unit that made it."""
        return self.sidecar.unit


def outputs_of(table: str) -> tuple[Output, ...]:
    """The folders of a table: one, or one a split for a published table."""
    if table in SPLIT_TABLES:
        return tuple(Output(table, split) for split in SPLITS)
    return (Output(table),)


class RunDir:
    """Paths and state of a run directory; makes no decisions about stages."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def open(cls, root: str | Path, create: bool = False) -> RunDir:
        """Open a run directory, or make one when `create`.

        Raises:
            RunDirError: it is missing (and not `create`), is not a run directory, is of another
                format, or cannot be written.
        """
        root = Path(root)
        try:
            return cls._open(root, create)
        except (OSError, ValueError) as error:
            # No permission above it, a name that is too long, or one with a NUL.
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise RunDirError(f"{root}: cannot be used ({why}); give another --run-dir") from None

    @classmethod
    def _open(cls, root: Path, create: bool) -> RunDir:
        marker = root / "run.json"
        if root.exists() and not root.is_dir():
            raise RunDirError(f"{root}: is a file, not a run directory; give another --run-dir")
        if not marker.exists():
            if not create:
                raise RunDirError(
                    f"{root}: not a run directory (no run.json); make one with a stage that starts one"
                )
            if root.exists() and any(entry.name != "run.lock" for entry in root.iterdir()):
                raise RunDirError(
                    f"{root}: holds other files and no run.json; give an empty or new --run-dir"
                )
            try:
                root.mkdir(parents=True, exist_ok=True)
                shards.write_text(marker, json.dumps({"format": RUN_FORMAT}) + "\n")
            except OSError as error:
                raise RunDirError(
                    f"{root}: cannot be written ({error.strerror}); give another --run-dir"
                ) from None
            return cls(root)
        try:
            found = json.loads(marker.read_text()).get("format")
        except (ValueError, AttributeError, RecursionError):
            found = "unreadable"
        except OSError as error:
            raise RunDirError(f"{root}: cannot be read ({error.strerror})") from None
        if found != RUN_FORMAT:
            raise RunDirError(
                f"{root}: made by another version of assay (run format {found}, this one uses {RUN_FORMAT}); "
                "use that version, or start a new --run-dir"
            )
        return cls(root)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the directory for writing, and clear what a killed process left half-written.

        Raises:
            RunDirError: another process holds it, or it cannot be written.
        """
        try:
            handle = os.open(self.root / "run.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise RunDirError(
                f"{self.root}: cannot be written ({error.strerror}); give another --run-dir"
            ) from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunDirError(
                    f"{self.root}: another assay process is writing to it; wait for it or stop it"
                ) from None
            except OSError as error:
                raise RunDirError(
                    f"{self.root}: its file system cannot lock files ({error.strerror}); "
                    "give a --run-dir on another one"
                ) from None
            try:
                for left in self.root.rglob(".*.tmp"):
                    if left.is_file():
                        left.unlink(missing_ok=True)
            except OSError as error:
                raise RunDirError(
                    f"{error.filename or self.root}: cannot be removed ({error.strerror}); "
                    "mend its permissions, or give another --run-dir"
                ) from None
            yield
        finally:
            os.close(handle)

    def folder(self, output: Output) -> Path:
        """The folder of a table, or of one of its splits."""
        return self.root / output.table / (output.split or "")

    def part_path(self, stage: str, output: Output, unit: str) -> Path:
        """The shard that a unit of a stage writes for an output."""
        return self.folder(output) / f"part-{part_name(stage, output, unit)}.parquet"

    def parts(self, table: str, split: str | None = None) -> list[Part]:
        """Finished shards of a table (of one split, when given), by name."""
        found = []
        for output in outputs_of(table):
            if split is not None and output.split != split:
                continue
            for path in sorted(self.folder(output).glob("part-*.parquet")):
                # A shard without a sidecar was never finished; the stage makes it again.
                with contextlib.suppress(ShardError):
                    found.append(Part(path, shards.read_sidecar(path)))
        return found

    def rows(
        self, table: str, split: str | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """All rows of a table, shard by shard."""
        for part in self.parts(table, split):
            yield from shards.iter_rows(part.path, TABLES[table], columns)

    def units_per_part(self, table: str, beside: Sequence[str] = (), limit: int | None = None) -> list[Unit]:
        """Plan one unit a part of `table`.

        `beside` names the folders whose part of the same unit is read too: a table, or
        `verdicts/<stage>` for what a stage decided. The payload maps each of these names to the
        shard's path relative to the run directory. `limit` bounds the rows considered over all
        units, in order; a unit's own bound is in `payload["limit"]`.

        Raises:
            RunDirError: the table has no finished part, or a part lacks one beside it.
        """
        parts = self.parts(table)
        if not parts:
            raise RunDirError(f"{self.root}: no {table} yet; run `assay {maker_of(table)}` first")
        units, left = [], limit
        for part in parts:
            rows = part.sidecar.rows if left is None else min(left, part.sidecar.rows)
            left = None if left is None else left - rows
            found = {table: part}
            for name in beside:
                other, _, stage = name.partition("/")
                path = self.part_path(stage, outputs_of(other)[0], part.name)
                try:
                    found[name] = Part(path, shards.read_sidecar(path))
                except ShardError:
                    raise RunDirError(
                        f"{self.root}: {name} lacks part {part.name}; run `assay {maker_of(name)}` first"
                    ) from None
            payload: dict[str, Any] = {
                name: str(one.path.relative_to(self.root)) for name, one in found.items()
            }
            inputs = {name: one.sidecar.sha256 for name, one in found.items()}
            units.append(Unit(part.name, rows, {**payload, "limit": rows}, inputs))
        return units

    def is_done(self, stage: str, outputs: Iterable[Output], unit: Unit) -> bool:
        """Whether every output of a unit is there, whole, and made under the unit's key."""
        for output in all_outputs(outputs):
            path = self.part_path(stage, output, unit.name)
            try:
                sidecar = shards.read_sidecar(path)
            except ShardError:
                return False
            if sidecar.key != unit.key or not shards.is_whole(path, sidecar):
                return False
        return True

    def retire(self, stage: str, outputs: Iterable[Output], keep: Iterable[str]) -> list[Path]:
        """Remove shards that a stage once made and no longer plans; returns what was removed.

        A shard without a sidecar, left by a process that was killed, goes too: readers that take all
        files of a folder would see it.
        """
        wanted = set(keep)
        removed = []
        for output in all_outputs(outputs):
            planned = {self.part_path(stage, output, unit) for unit in wanted}
            for path in sorted(self.folder(output).glob("part-*.parquet")):
                try:
                    sidecar = shards.read_sidecar(path)
                    ours, stale = sidecar.stage == stage, sidecar.unit not in wanted
                except ShardError:
                    if shards.sidecar_path(path).exists():
                        continue
                    # All but verdicts have a folder of one stage; verdicts carry it in their name.
                    ours = output != VERDICTS or path.name.startswith(f"part-{stage}-")
                    stale = path not in planned
                if ours and stale:
                    shards.sidecar_path(path).unlink(missing_ok=True)
                    path.unlink()
                    removed.append(path)
        return removed

    def write_plan(
        self, stage: str, units: Sequence[Unit], failed: Sequence[str] = (), note: str | None = None
    ) -> None:
        """Keep what a stage planned, so that `status` can say how far it is."""
        path = self.root / "stages" / f"{stage}.json"
        path.parent.mkdir(exist_ok=True)
        plan = {
            "stage": stage,
            "units": [{"name": unit.name, "key": unit.key, "rows": unit.rows} for unit in units],
            "failed": list(failed),
            "note": note,
        }
        shards.write_text(path, json.dumps(plan, indent=1) + "\n")

    def read_plan(self, stage: str) -> dict[str, Any] | None:
        """The plan of a stage, or None when it never ran here."""
        try:
            plan: dict[str, Any] = json.loads((self.root / "stages" / f"{stage}.json").read_text())
        except FileNotFoundError:
            return None
        return plan
