"""What every benchmark shares: repositories from the command line, CPU time of children, best of several."""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def repositories(description: str) -> list[Path]:
    """Repositories given with --repo, else this one."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repo", type=Path, action="append", help="git repository; may be given again")
    return parser.parse_args().repo or [ROOT]


def cpu_seconds() -> float:
    """CPU time of this process and of its children that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def best(
    ways: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Least time of each way over several rounds, the ways taking turns."""
    found = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            began = clock()
            way()
            found[name] = min(found[name], clock() - began)
    return found


def cores() -> str:
    """How many cores there are, for the head of a result."""
    return f"{len(os.sched_getaffinity(0))} cores"
