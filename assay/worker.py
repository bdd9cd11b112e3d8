"""What runs in a worker process: one unit of one stage, start to shard.

`run_unit` takes plain values, so that it pickles, and returns plain values. Errors that a person can
act on come back as `AssayError`; anything else is a defect, whose traceback is kept in the run
directory and told in one line.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections import deque
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import Any

from schemas import shards
from schemas.errors import AssayError, EnvironmentFault, environment_fault
from schemas.rundir import RunDir
from schemas.stage import Output, Unit
from schemas.steps import ShardWriter, UnitReader, UnitStep


def start() -> None:
    """Prepare a worker: it dies with its parent, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:

        def watch() -> None:
            connection.wait([parent.sentinel])
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()


def run_unit(
    stage: str, outputs: tuple[Output, ...], step: UnitStep, run_dir: Path, unit: Unit
) -> tuple[int, dict[str, int]]:
    """Do one unit and write its shards.

    Returns:
        (rows kept, drops by reason).

    Raises:
        EnvironmentFault: nothing else would work either.
        AssayError: this unit cannot be done.
    """
    try:
        data: Any = None
        for part in (UnitReader(run_dir, stage, outputs, [unit]), step, ShardWriter(run_dir, stage, outputs)):
            data = part.run(data, 0, 1)
        deque(data, maxlen=0)
        first = RunDir(run_dir).part_path(stage, outputs[0], unit.name)
        accounting = shards.read_sidecar(first).accounting
    except AssayError:
        raise
    except OSError as error:
        raise environment_fault(error) or _defect(stage, run_dir, unit, error) from None
    except Exception as error:
        # The sandbox is a package of its own that knows nothing of our error types.
        unavailable = getattr(sys.modules.get("sandbox"), "SandboxUnavailable", None)
        if unavailable and isinstance(error, unavailable):
            raise EnvironmentFault(str(error)) from None
        raise _defect(stage, run_dir, unit, error) from None
    if accounting is None:
        raise AssayError(f"{first}: its sidecar has no accounting; run the stage again with --clean")
    return accounting.kept, accounting.drops


def _defect(stage: str, run_dir: Path, unit: Unit, error: Exception) -> AssayError:
    path = run_dir / "errors" / f"{stage}-{unit.name}.txt"
    path.parent.mkdir(exist_ok=True)
    shards.write_text(path, traceback.format_exc())
    return AssayError(
        f"{stage} {unit.name}: internal error, {type(error).__name__}: {error}; traceback in {path}"
    )
