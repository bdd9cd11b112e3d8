"""Start a script of these tests as several processes of one group."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent


def environment(**more: str) -> dict[str, str]:
    """What each process gets: one thread, no network, and none of torchrun's variables."""
    kept = {name: value for name, value in os.environ.items() if name not in TORCHRUN}
    root = str(HERE.parent.parent)
    return {**kept, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": root, **more}


TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def launch(script: str, arguments: Sequence[str | Path], size: int = 2) -> list[str]:
    """What each process printed. When a signal ends one, all get a second try: gloo may abort a process."""
    for left in (1, 0):
        codes, outputs = _launch(script, arguments, size)
        if not any(codes):
            return outputs
        if not left or not any(code < 0 for code in codes):
            raise AssertionError("\n".join([f"exit statuses {codes}", *outputs]))
    raise AssertionError


def _launch(script: str, arguments: Sequence[str | Path], size: int) -> tuple[list[int], list[str]]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    started = [
        subprocess.Popen(
            [sys.executable, HERE / script, *arguments],
            env=environment(
                RANK=str(rank),
                WORLD_SIZE=str(size),
                LOCAL_RANK=str(rank),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port),
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        outputs = [process.communicate(timeout=200)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    return [process.returncode for process in started], outputs
