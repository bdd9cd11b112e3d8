"""Wall time of mining one history, cut into ranges, with two workers against one.

    python benchmarks/bench_workers.py --repo PATH [--repo PATH ...]

Workers are started before the clock, as in a run of several stages; planning, mining and writing count.
Also printed: the most memory that a worker took, in its first and in its last unit.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

from common import best, cores, repositories

from assay.progress import Quiet
from assay.recipe import Recipe
from assay.runner import Runner
from assay.stages import STAGES, units
from schemas.rundir import RunDir

_PEAK = """
import resource, sys
from pathlib import Path
from assay.worker import run_unit
from miner.config import MineConfig
from miner.edits import plan_mine
from miner.steps import MINE_OUTPUTS, MineEdits
from schemas.rundir import RunDir
run = RunDir.open(Path(sys.argv[2]), create=True)
config = MineConfig()
for folder in ("edits", "verdicts"):
    (run.root / folder).mkdir()
for unit in plan_mine(config, [sys.argv[1]]):
    run_unit("mine", MINE_OUTPUTS, MineEdits(config, run.root, 0), run.root, unit)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def mine(repo: Path, runner: Runner) -> None:
    """Mine into a new run directory."""
    recipe = Recipe().override([f"sources.repos=['{repo}']"])
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir.open(Path(folder) / "run", create=True)
        runner.run(STAGES["mine"], run, recipe, units(STAGES["mine"], run, recipe, None), Quiet())


def peaks(repo: Path) -> list[int]:
    """MiB that one process has taken at most, after each unit."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _PEAK, str(repo), f"{folder}/run"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [int(line) >> 10 for line in told.split()]


def main() -> None:
    """Print the ratio for each repository."""
    for repo in repositories("two workers against one"):
        with Runner(1) as one, Runner(2) as two:
            ways = {
                "one": functools.partial(mine, repo, one),
                "two": functools.partial(mine, repo, two),
            }
            for way in ways.values():
                way()
            times = best(ways, rounds=3)
        found = peaks(repo)
        name = repo.parent.name if repo.name == "repo" else repo.name
        print(
            f"{name}: {cores()}; one worker {times['one']:.2f} s, two {times['two']:.2f} s,",
            f"{times['one'] / times['two']:.2f} x; memory of a worker {found[0]:,} MiB after the first of",
            f"{len(found)} units, {found[-1]:,} MiB after the last",
        )


if __name__ == "__main__":
    main()
