"""Settings of the four stages that turn problems into step-labelled candidates."""

from __future__ import annotations

import dataclasses


def _check(config: object, low: float, high: float, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not low <= value <= high:
            raise ValueError(f"{name} must lie between {low:g} and {high:g}, not {value}")


def _one_of(config: object, name: str, *values: str) -> None:
    if getattr(config, name) not in values:
        raise ValueError(f"{name} must be one of {', '.join(values)}, not {getattr(config, name)!r}")


@dataclasses.dataclass(frozen=True)
class DecomposeConfig:
    """Settings of `decompose`, which keeps problems whose reference is made of functions and passes.

    Attributes:
        min_functions: fewest module-level functions of a program, methods of a class Solution among them;
            all methods count in other languages than Python.
        max_functions: most functions of a program, methods included.
        max_references: published solutions of a problem that are tried, the first one included.
        rewrites: times that the model of `[model]`, where there is one, is asked to rewrite a solution
            that has too few functions.
        extract: cut helper functions out of such a solution by syntax alone, where no rewrite was kept.
        cpu_s: seconds of processor time that the reference may take on its suite; a load on the
            machine does not use it up, so it decides and `wall_s` is only for what sleeps.
        wall_s: seconds of wall time that it may take.
        memory_mb: MiB of memory that it may take.
        workers: sandboxes at work at once in one process.
    """

    min_functions: int = 2
    max_functions: int = 200
    max_references: int = 3
    rewrites: int = 2
    extract: bool = True
    cpu_s: float = 2.0
    wall_s: float = 10.0
    memory_mb: int = 512
    workers: int = 2

    def __post_init__(self) -> None:
        _check(self, 1, 10_000, "min_functions", "max_functions", "max_references")
        _check(self, 0, 100, "rewrites")
        _check(self, 0.1, 3600, "cpu_s", "wall_s")
        _check(self, 16, 1 << 20, "memory_mb")
        _check(self, 1, 1024, "workers")


@dataclasses.dataclass(frozen=True)
class TestsConfig:
    """Settings of `tests`, which makes unit tests of each function.

    Attributes:
        max_calls: most distinct calls recorded of each function.
        max_call_bytes: bytes that a call, or what it returns, may take in encoded form.
        max_mutants: most first-order mutants of each function that tests are measured on.
        max_compiled_mutants: the same for languages whose programs are compiled, a second or so each.
        assertions: times that the model of `[model]`, where there is one, is asked for assertions about each
            function; only their arguments count, what they come to is observed on the reference.
        generated: inputs made in the first round, on top of the recorded ones, and half of those made
            in each further round, for the mutants that are left; 0 makes none.
        rounds: rounds of making inputs.
        max_tests: most tests kept of each function: those that kill what no other kills, then those that run
            other statements, or more or fewer of them.
        max_steps: statements that a made call may run in the reference, and a fiftieth of what all
            calls of a function's tests may run together; slower calls are no tests.
        cpu_s: seconds of processor time of one run; a mutant that takes longer counts as killed.
        wall_s: seconds of wall time of one run.
        suite_cpu_s: seconds of processor time of the suite while calls are recorded.
        suite_wall_s: seconds of wall time of the suite while calls are recorded.
        memory_mb: MiB of memory of one run.
        workers: sandboxes at work at once in one process.
    """

    max_calls: int = 400
    max_call_bytes: int = 16384
    max_mutants: int = 24
    max_compiled_mutants: int = 8
    assertions: int = 1
    generated: int = 40
    rounds: int = 4
    max_tests: int = 100
    max_steps: int = 20_000
    cpu_s: float = 1.0
    wall_s: float = 8.0
    suite_cpu_s: float = 10.0
    suite_wall_s: float = 40.0
    memory_mb: int = 512
    workers: int = 2

    def __post_init__(self) -> None:
        _check(self, 1, 10_000, "max_calls", "max_mutants", "max_compiled_mutants", "max_tests")
        _check(self, 0, 10_000, "generated", "rounds")
        _check(self, 0, 100, "assertions")
        _check(self, 100, 10_000_000, "max_steps")
        _check(self, 1, 1 << 24, "max_call_bytes")
        # All calls of a function travel in one job, which takes 64 MiB at most.
        if (self.max_calls + 2 * self.generated) * self.max_call_bytes > 32 << 20:
            raise ValueError("max_calls and generated, times max_call_bytes, must not exceed 32 MiB")
        _check(self, 0.1, 3600, "cpu_s", "wall_s", "suite_cpu_s", "suite_wall_s")
        _check(self, 16, 1 << 20, "memory_mb")
        _check(self, 1, 1024, "workers")


@dataclasses.dataclass(frozen=True)
class SampleConfig:
    """Settings of `sample`, which makes candidates of a program without a model and takes in others.

    Attributes:
        candidates: candidates made of each program without a model, the reference included; fewer where a
            short program has no more distinct ones.
        completions_each: completions of each program's skeleton that the model of `[policy]` is asked for, on
            top of `candidates`; 0 asks for none.
        variant_share: share of the others that behave like the reference and look different.
        higher_order_share: share of the others that have faults in several functions.
        max_order: most functions with a fault in one candidate.
        completions: files of completions that a model wrote for these problems, one JSON object a
            line (problem, completion, model, temperature, seed); they come on top of `candidates`.
    """

    candidates: int = 8
    completions_each: int = 4
    variant_share: float = 0.15
    higher_order_share: float = 0.3
    max_order: int = 3
    completions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(self, 1, 10_000, "candidates")
        _check(self, 0, 10_000, "completions_each")
        _check(self, 0, 1, "variant_share", "higher_order_share")
        if self.variant_share + self.higher_order_share > 1:
            raise ValueError("variant_share and higher_order_share are more than 1 together")
        _check(self, 2, 100, "max_order")


@dataclasses.dataclass(frozen=True)
class VerifyConfig:
    """Settings of `verify`, which runs candidates and labels them and their functions.

    Attributes:
        steps: the step label that counts: `reference` (a function beside the reference's others), `suite`
            (the same, by the tests alone whose calls the suite makes), `own` (beside the candidate's own),
            `judge` (a model's word) or `none` (the outcome alone).
        conflicts: `keep` the step labels where outcome and steps disagree, or `mask` them (null).
        doubtful: what becomes of a 0 for which only inputs that were made speak, while the program passes its
            suite: `null`, since such an input may lie outside of what the function is meant for, or `keep`.
        own: run each function beside the candidate's own others as well.
        judge: ask the model of `[model]` for its word on each function, whatever label counts.
        all_tests: label a function by all of its tests; else by the selected ones, which kill the
            same mutants but need not notice every other fault. All calls are made in one run.
        test_share: share of problems whose candidates go to the test split.
        cpu_s: seconds of processor time of one function's tests.
        wall_s: seconds of wall time of one function's tests.
        suite_cpu_s: seconds of processor time of the suite.
        suite_wall_s: seconds of wall time of the suite.
        memory_mb: MiB of memory of one run.
        retries: further tries of a run that ended in a failure of the sandbox itself.
        workers: sandboxes at work at once in one process.
    """

    steps: str = "reference"
    conflicts: str = "keep"
    doubtful: str = "null"
    own: bool = True
    judge: bool = False
    all_tests: bool = True
    test_share: float = 0.1
    cpu_s: float = 1.0
    wall_s: float = 8.0
    suite_cpu_s: float = 2.0
    suite_wall_s: float = 10.0
    memory_mb: int = 512
    retries: int = 1
    workers: int = 2

    def __post_init__(self) -> None:
        _one_of(self, "steps", "reference", "suite", "own", "judge", "none")
        _one_of(self, "conflicts", "keep", "mask")
        _one_of(self, "doubtful", "null", "keep")
        if self.steps == "own" and not self.own:
            raise ValueError("steps = own needs own = true")
        if self.steps == "judge" and not self.judge:
            raise ValueError("steps = judge needs judge = true")
        _check(self, 0, 1, "test_share")
        _check(self, 0.1, 3600, "cpu_s", "wall_s", "suite_cpu_s", "suite_wall_s")
        _check(self, 16, 1 << 20, "memory_mb")
        _check(self, 0, 10, "retries")
        _check(self, 1, 1024, "workers")
