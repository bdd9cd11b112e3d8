"""Settings of the four stages that turn problems into step-labelled candidates."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class DecomposeConfig:
    """Settings of `decompose`, which keeps problems whose reference is made of functions and passes.

    Attributes:
        min_functions: fewest module-level functions of a program; methods are not counted.
        max_functions: most functions of a program, methods included.
        wall_s: seconds of wall time that the reference may take on its suite.
        memory_mb: MiB of memory that it may take.
        workers: sandboxes at work at once in one process.
    """

    min_functions: int = 2
    max_functions: int = 200
    wall_s: float = 10.0
    memory_mb: int = 512
    workers: int = 1


@dataclasses.dataclass(frozen=True)
class TestsConfig:
    """Settings of `tests`, which records unit tests of each function while the suite runs.

    Attributes:
        max_calls: most distinct calls recorded of each function.
        max_call_bytes: bytes that a recorded call, or what it returns, may take in encoded form.
        max_mutants: most first-order mutants of each function that tests are measured on.
        wall_s: seconds of wall time of one run; a mutant that takes longer counts as killed.
        suite_wall_s: seconds of wall time of the suite while calls are recorded.
        memory_mb: MiB of memory of one run.
        workers: sandboxes at work at once in one process.
    """

    max_calls: int = 60
    max_call_bytes: int = 16384
    max_mutants: int = 24
    wall_s: float = 2.0
    suite_wall_s: float = 20.0
    memory_mb: int = 512
    workers: int = 1


@dataclasses.dataclass(frozen=True)
class SampleConfig:
    """Settings of `sample`, which makes candidates of a program without a model.

    Attributes:
        candidates: candidates of each program, the reference included; fewer where a short program
            has no more distinct ones.
        variant_share: share of the others that behave like the reference and look different.
        higher_order_share: share of the others that have faults in several functions.
        max_order: most functions with a fault in one candidate.
    """

    candidates: int = 8
    variant_share: float = 0.15
    higher_order_share: float = 0.3
    max_order: int = 3


@dataclasses.dataclass(frozen=True)
class VerifyConfig:
    """Settings of `verify`, which runs candidates and labels them and their functions.

    Attributes:
        all_tests: label a function by all of its tests instead of the selected ones.
        test_share: share of problems whose candidates go to the test split.
        wall_s: seconds of wall time of one function's tests.
        suite_wall_s: seconds of wall time of the suite.
        memory_mb: MiB of memory of one run.
        retries: further tries of a run that ended in a failure of the sandbox itself.
        workers: sandboxes at work at once in one process.
    """

    all_tests: bool = False
    test_share: float = 0.1
    wall_s: float = 3.0
    suite_wall_s: float = 10.0
    memory_mb: int = 512
    retries: int = 1
    workers: int = 1
