"""Candidates without a model, and the four stages over a run directory."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from pathlib import Path
from typing import Any

import pytest
from golden import (
    DECOMPOSE,
    SAMPLE,
    SOLUTION,
    TESTS,
    VERIFY,
    problem_of,
    program_of,
    run_stage,
    write_problems,
)

from decompose.functions import functions
from labelers.programs import config
from labelers.programs.candidates import MUTATION, REFERENCE, VARIANT, sample
from labelers.programs.steps import (
    DecomposeProblems,
    HarvestTests,
    SampleCandidates,
    VerifyCandidates,
    plan_decompose,
    plan_sample,
    plan_tests,
    plan_verify,
)
from schemas.ids import content_id
from schemas.rundir import RunDir, outputs_of
from schemas.stage import Keep


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    return program_of(problem_of())


def drawn(program: dict[str, Any], settings: config.SampleConfig, seed: int = 0) -> list[Any]:
    outcome = sample(program, settings, seed)
    assert isinstance(outcome, Keep)
    return list(outcome.records)


def test_candidates_are_distinct_programs_with_the_reference_first(program: dict[str, Any]) -> None:
    found = drawn(program, config.SampleConfig(candidates=20))
    assert len({one.completion for one in found}) == len({one.id for one in found}) == 20
    assert [one.generator.model for one in found].count(REFERENCE) == 1
    assert (found[0].completion, found[0].generator.model) == (SOLUTION, REFERENCE)
    names = {one["name"] for one in program["functions"]}
    for one in found:
        assert {span.name for span in functions(one.completion)} == names


def test_shares_of_kinds_are_kept(program: dict[str, Any]) -> None:
    settings = config.SampleConfig(candidates=11, variant_share=0.2, higher_order_share=0.3)
    found = drawn(program, settings)
    models = [one.generator.model for one in found]
    assert models.count(VARIANT) == 2
    several = [one for one in found if one.generator.model == MUTATION and "; " in one.generator.detail]
    assert len(several) == 3
    assert models.count(MUTATION) == 8


def test_faults_take_turns_among_the_functions(program: dict[str, Any]) -> None:
    settings = config.SampleConfig(candidates=4, variant_share=0.0, higher_order_share=0.0)
    details = [one.generator.detail for one in drawn(program, settings)[1:]]
    assert len({detail.partition(":")[0] for detail in details}) == 3


def test_a_small_program_has_as_many_candidates_as_it_can(program: dict[str, Any]) -> None:
    tiny = {**program, "code": "def total(x):\n    return x\n"}
    assert [one.completion for one in drawn(tiny, config.SampleConfig(candidates=50))] == [
        "def total(x):\n    return x\n",
        "def total(x):\n    return None\n",
    ]


def test_the_draw_depends_on_seed_and_program_only(program: dict[str, Any]) -> None:
    assert drawn(program, SAMPLE) == drawn(program, SAMPLE)
    assert drawn(program, SAMPLE) != drawn(program, SAMPLE, seed=1)
    other = drawn({**program, "id": content_id("other")}, SAMPLE)
    assert [one.completion for one in other] != [one.completion for one in drawn(program, SAMPLE)]


def run_all(root: Path, problems: list[dict[str, Any]], workers: int) -> RunDir:
    run = write_problems(root, problems)
    settings = [dataclasses.replace(one, workers=workers) for one in (DECOMPOSE, TESTS, VERIFY)]
    stages: list[tuple[str, tuple[str, ...], Any, Any]] = [
        ("decompose", ("programs",), plan_decompose, DecomposeProblems(settings[0], root, 0)),
        ("tests", ("tests", "suites"), plan_tests, HarvestTests(settings[1], root, 0)),
        ("sample", ("candidates",), plan_sample, SampleCandidates(SAMPLE, root, 0)),
        ("verify", ("steps",), plan_verify, VerifyCandidates(settings[2], root, 0)),
    ]
    for name, tables, plan, step in stages:
        outputs = tuple(output for table in tables for output in outputs_of(table))
        run_stage(run, name, outputs, pickle.loads(pickle.dumps(step)), plan(run, None))
    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    other = SOLUTION.replace("// 10", "// 10 + 0")
    problems = [problem_of(), problem_of(SOLUTION + ")"), problem_of(other, name="golden/1")]
    return run_all(tmp_path_factory.mktemp("run") / "one", problems, 1)


def digests(run: RunDir) -> dict[str, str]:
    return {
        str(path.relative_to(run.root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run.root.rglob("*.parquet"))
    }


def test_the_stages_account_for_every_row(finished: RunDir) -> None:
    (programs,) = finished.parts("programs")
    assert programs.sidecar.accounting is not None
    assert programs.sidecar.accounting.drops == {"syntax_error": 1}
    assert programs.sidecar.rows == 2
    (candidates,) = finished.parts("candidates")
    assert candidates.sidecar.rows == 2 * SAMPLE.candidates
    assert sum(part.sidecar.rows for part in finished.parts("steps")) == 2 * SAMPLE.candidates


def test_references_and_variants_pass_and_some_faults_do_not(finished: RunDir) -> None:
    outcomes: dict[str, set[int]] = {}
    for row in finished.rows("steps"):
        outcomes.setdefault(row["generator"]["model"], set()).add(row["outcome"])
        if row["generator"]["model"] != MUTATION:
            assert {step["label"] for step in row["steps"]} == {1, None}
    assert outcomes[REFERENCE] == {1}
    assert outcomes[VARIANT] == {1}
    assert 0 in outcomes[MUTATION]


def test_a_second_run_with_other_workers_gives_the_same_bytes(finished: RunDir, tmp_path: Path) -> None:
    other = SOLUTION.replace("// 10", "// 10 + 0")
    problems = [problem_of(), problem_of(SOLUTION + ")"), problem_of(other, name="golden/1")]
    assert digests(run_all(tmp_path / "two", problems, 3)) == digests(finished)


def test_a_limit_bounds_the_rows_considered(finished: RunDir, tmp_path: Path) -> None:
    (unit,) = plan_verify(finished, 3)
    assert unit.rows == 3
    step = VerifyCandidates(VERIFY, finished.root, 0)
    assert len(list(step.process(unit))) == 3


def test_a_changed_problem_changes_what_verify_is_keyed_by(finished: RunDir) -> None:
    (unit,) = plan_verify(finished, None)
    assert set(unit.inputs) == {"candidates", "programs", "tests", "suites", "problems"}
