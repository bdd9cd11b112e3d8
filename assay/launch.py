"""Training on several processes of this machine: torchrun around `python -m trainers`.

In: a config, shards and a number of processes. Out: the model's folder, and every line of the log as it is
written. An error of the training is raised here as the `AssayError` that it was; Ctrl-C and SIGTERM reach
the processes, which save their state first.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from schemas.config import to_toml
from schemas.errors import AssayError
from trainers.config import TrainConfig

_GRACE_S = 600
"""How long processes may take to save their state when they are asked to stop."""


def launch(
    config: TrainConfig,
    shards: Sequence[Path],
    dev: Sequence[Path],
    out: Path,
    *,
    key: str,
    resume: str,
    processes: int,
    told: Callable[[dict[str, Any]], None],
) -> None:
    """Train on several processes.

    Args:
        config: settings.
        shards: what is trained on.
        dev: what is evaluated on.
        out: folder of the model.
        key: kept in `run.json`.
        resume: see `trainers.loop.train`.
        processes: how many.
        told: called with each line of the log.

    Raises:
        AssayError: what the training said, or that a process died.
    """
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="assay-train-") as folder:
        settings, errors = Path(folder) / "train.toml", Path(folder) / "errors.txt"
        settings.write_text(to_toml(config))
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"),
            *("-m", "trainers", str(settings), "--json", "--out", str(out), "--key", key, "--resume", resume),
            *("--data", *(str(path.resolve()) for path in shards)),
            *(["--dev", *(str(path.resolve()) for path in dev)] if dev else []),
        ]
        with errors.open("w") as sink:
            # A session of its own: Ctrl-C is passed on by us, once, and not by the terminal as well.
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                start_new_session=True,
                env=_environment(),
            )
        try:
            status = _follow(process, told)
        except BaseException:
            _stop(process)
            raise
        if status:
            raise AssayError(_reason(errors.read_text(errors="replace"), status))


def _environment() -> dict[str, str]:
    # torchrun says so on stderr otherwise, and one thread is what it would set.
    return {"OMP_NUM_THREADS": "1", **os.environ}


def _follow(process: subprocess.Popen[str], told: Callable[[dict[str, Any]], None]) -> int:
    if process.stdout is None:
        raise AssertionError
    for text in process.stdout:
        with contextlib.suppress(ValueError):
            line = json.loads(text)
            if isinstance(line, dict):
                told(line)
    return process.wait()


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _reason(text: str, status: int) -> str:
    said = [line.removeprefix("trainers: ") for line in text.splitlines() if line.startswith("trainers: ")]
    if said:
        return said[-1]
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")
    return f"training on several processes ended with status {status} ({last})"
