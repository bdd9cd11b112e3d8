"""Synthetic pairs: each side's outcome is what execution says, whatever the text claims."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from loopback_llm import Action, LoopbackModel, fails, last, says
from synthetic_problems import (
    SOLUTION,
    candidate_of,
    judged,
    new_run,
    problem_of,
    program_of,
    run_stage,
    steps_of,
    write_table,
)

from labelers.commits import criteria
from labelers.commits.config import BuildConfig, LabelConfig
from labelers.llm import Client, ModelConfig
from labelers.programs import runs
from labelers.programs.outcomes import Suite
from labelers.synthetic.bugs import Planted, plant, requests, unfit
from labelers.synthetic.config import SynthesizeConfig
from labelers.synthetic.pairs import Synthesizer
from labelers.synthetic.reasons import COUNTS
from labelers.synthetic.steps import SynthesizePairs, plan_synthesize
from schemas.declare import as_row, validate
from schemas.errors import RunDirError
from schemas.records import Problem, Program, StepLabeledCandidate, SyntheticPair
from schemas.rundir import RunDir, outputs_of
from schemas.stage import Drop, Keep, Output

CONFIG = SynthesizeConfig(cpu_s=1, workers=1)
REWRITTEN = (
    SOLUTION[: SOLUTION.index("    result")]
    + "    return sum(\n"
    + "        1 +\n" * 40
    + "        len(prices))\n"
    "\n\n" + SOLUTION[SOLUTION.index("def add_tax") :]
)
BUG = SOLUTION.replace("amount + amount // 10", "amount + amount // 9")


@functools.cache
def small() -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    problem = problem_of()
    program = program_of(problem)
    return problem, program, steps_of(problem, program)


def maker(config: SynthesizeConfig = CONFIG, seed: int = 0, named: str = "") -> Synthesizer:
    return Synthesizer(config, criteria.load(named), BuildConfig(), seed)


def made(
    config: SynthesizeConfig = CONFIG, planted: tuple[Planted, ...] = (), seed: int = 0
) -> tuple[list[SyntheticPair], Counter[str]]:
    problem, program, rows = small()
    one = maker(config, seed)
    outcome = one.pairs(program, problem, rows, planted)
    assert isinstance(outcome, Keep), outcome
    return list(outcome.records), one.counts


def passes(*codes: str) -> list[bool | None]:
    problem, program, _ = small()
    suite = Suite(problem, [], runs.limits(1, 10, 512), program["suite_kind"])
    return [verdict.passed for verdict in suite.judge(codes)]


def test_every_chosen_version_passes_and_every_rejected_one_fails() -> None:
    pairs, _ = made(SynthesizeConfig(cpu_s=1, hacks=8), (Planted(BUG, "m", 0),))
    assert {one.evidence.made_by.partition(":")[0] for one in pairs if one.evidence.made_by} == {
        *("steps", "bugs", "hacks")
    }
    assert passes(*(one.chosen for one in pairs)) == [True] * len(pairs)
    assert passes(*(one.rejected for one in pairs)) == [False] * len(pairs)
    assert all(one.chosen.split() != one.rejected.split() for one in pairs)
    assert len({one.idx for one in pairs}) == len(pairs)


def test_pairs_fit_their_record_and_say_what_they_rest_on() -> None:
    pairs, _ = made()
    for one in pairs:
        validate(SyntheticPair, one)
        assert (one.aspect, one.license, one.split) == (
            "Functional Correctness",
            "MIT",
            small()[2][0]["split"],
        )
        assert (one.evidence.method, one.evidence.level) == ("execution", "answer")
        assert one.evidence.labeler.startswith("suite of small.jsonl (")
        assert one.evidence.made_by
        assert one.input.startswith("Write `total`.")


def test_completion_of_a_model_meets_one_of_the_same_model() -> None:
    pairs, _ = made(SynthesizeConfig(cpu_s=1, hacks=0))
    by = {one.evidence.made_by: one.chosen for one in pairs}
    assert set(by) == {"steps: mutation-1", "steps: model-a"}
    assert "result = int()" in by["steps: model-a"]
    assert by["steps: mutation-1"] == small()[1]["code"]


def test_no_side_has_words_of_another_hand() -> None:
    problem, program, rows = small()
    renamed = candidate_of(program, SOLUTION.replace("result", "local_result"), "variant-1")
    (labelled,) = (as_row(one) for keep in judged(program, problem, [renamed]) for one in keep.records)
    assert labelled["outcome"] == 1
    made = maker(SynthesizeConfig(cpu_s=1, hacks=30, steps=9, plainer_share=0.0))
    outcome = made.pairs(program, problem, [*rows, labelled], (Planted(BUG, "m", 0),))
    assert isinstance(outcome, Keep)
    for one in outcome.records:
        assert "local_" not in one.chosen
        # The only failing completion of a model has the model's own passing one beside it, dressed up or not.
        by_model = "amount // 11" in one.rejected
        assert by_model == ("result = int()" in one.chosen)
    assert sum("amount // 11" in one.rejected for one in outcome.records) > 5
    assert sum("amount // 9" in one.rejected for one in outcome.records) > 5


@pytest.mark.parametrize(("steps", "hacks", "expected"), [(0, 3, 3), (1, 0, 1), (2, 2, 4), (9, 7, 9)])
def test_numbers_of_pairs_are_bounded_by_the_settings(steps: int, hacks: int, expected: int) -> None:
    pairs, counts = made(SynthesizeConfig(cpu_s=1, steps=steps, hacks=hacks))
    assert len(pairs) == expected
    assert counts["pairs_steps"] == min(steps, 2)
    assert counts["pairs_hacks"] == hacks


def test_operators_take_turns() -> None:
    pairs, _ = made(SynthesizeConfig(cpu_s=1, steps=0, hacks=7, plainer_share=0.0))
    assert len({one.evidence.made_by for one in pairs}) == 7


def test_passing_version_loses_its_comments_in_the_share_that_is_asked_for() -> None:
    pairs, _ = made(SynthesizeConfig(cpu_s=1, steps=0, hacks=6, plainer_share=1.0))
    assert all("#" not in one.chosen and (one.evidence.made_by or "").endswith(", plainer") for one in pairs)
    assert all('"""Sum of prices."""' in one.chosen for one in pairs)
    pairs, _ = made(SynthesizeConfig(cpu_s=1, steps=0, hacks=6, plainer_share=0.0))
    assert all("#" in one.chosen for one in pairs)


def test_bug_that_the_suite_does_not_see_is_counted_and_gives_no_pair() -> None:
    unseen = SOLUTION.replace("result = 0", "result = -0")
    pairs, counts = made(
        SynthesizeConfig(cpu_s=1, steps=0, hacks=0), (Planted(BUG, "m", 0), Planted(unseen, "m", 1))
    )
    assert [one.rejected for one in pairs] == [BUG]
    assert pairs[0].chosen == SOLUTION
    assert pairs[0].evidence.made_by == "bugs: bug-1 m"
    assert counts["bug_passes"] == 1


def test_bug_that_was_planted_before_is_counted() -> None:
    pairs, counts = made(
        SynthesizeConfig(cpu_s=1, steps=0, hacks=0), (Planted(BUG, "m", 0), Planted(BUG + "\n", "m", 1))
    )
    assert (len(pairs), counts["pairs_bugs"], counts["repeated"]) == (1, 1, 1)


def test_places_in_memory_are_no_part_of_what_is_told() -> None:
    raising = SOLUTION.replace("return result", "raise ValueError(object())")
    (one,) = made(SynthesizeConfig(cpu_s=1, steps=0, hacks=0), (Planted(raising, "m", 0),))[0]
    again = made(SynthesizeConfig(cpu_s=1, steps=0, hacks=0), (Planted(raising, "m", 0),))[0]
    assert [one] == again
    assert one.evidence.detail is not None
    assert "object at 0x>" in one.evidence.detail


def test_same_pairs_for_the_same_seed_and_others_for_another() -> None:
    assert made() == made(dataclasses.replace(CONFIG, workers=2))
    assert made()[0] != made(seed=1)[0]


def test_forgeable_outcomes_are_taken_only_where_asked_for() -> None:
    problem, program, rows = small()
    forged = [{**row, "trust": "inproc"} for row in rows]
    one = maker()
    assert one.pairs(program, problem, forged) == Drop(program["id"], "no_passing")
    assert one.counts["forgeable"] == len(rows)
    config = SynthesizeConfig(cpu_s=1, hacks=0, inproc=True)
    assert isinstance(maker(config).pairs(program, problem, forged), Keep)


def test_programs_without_what_a_pair_needs_are_dropped_by_reason() -> None:
    problem, program, rows = small()
    one = maker(SynthesizeConfig(cpu_s=1, hacks=0))
    failing = [row for row in rows if row["outcome"] == 0]
    passing = [row for row in rows if row["outcome"] == 1]
    assert one.pairs(program, None, rows).reason == "problem_missing"  # type: ignore[union-attr]
    assert one.pairs(program, problem, []).reason == "no_candidates"  # type: ignore[union-attr]
    assert one.pairs(program, problem, failing).reason == "no_passing"  # type: ignore[union-attr]
    assert one.pairs(program, problem, passing).reason == "no_pair"  # type: ignore[union-attr]


def test_candidates_that_are_no_programs_and_passing_mutants_are_left_out() -> None:
    problem, program, rows = small()
    prose = [{**row, "completion": "def total(:", "program": None} for row in rows if row["outcome"] == 0]
    mutants = [
        {**row, "generator": {**row["generator"], "model": "mutation-1"}}
        for row in rows
        if row["outcome"] == 1
    ]
    one = maker(SynthesizeConfig(cpu_s=1, hacks=0))
    good = [row for row in rows if row["outcome"] == 1]
    assert one.pairs(program, problem, [*good, *prose]).reason == "no_pair"  # type: ignore[union-attr]
    assert one.counts["no_program"] == 2
    bad = [row for row in rows if row["outcome"] == 0]
    assert one.pairs(program, problem, [*mutants, *bad]).reason == "no_passing"  # type: ignore[union-attr]


@pytest.mark.parametrize("fault", ["unfilled", "tests_only"])
def test_answers_that_are_no_attempt_at_the_program_are_left_out(fault: str) -> None:
    problem, program, rows = small()
    one = maker(SynthesizeConfig(cpu_s=1, hacks=0))
    told = [row if row["outcome"] == 1 else {**row, "outcome_reason": fault} for row in rows]
    assert one.pairs(program, problem, told).reason == "no_pair"  # type: ignore[union-attr]
    assert one.counts["no_program"] == 2


def test_criteria_without_functional_correctness_get_the_built_in_one() -> None:
    problem, program, rows = small()
    outcome = maker(named="observability").pairs(program, problem, rows)
    assert isinstance(outcome, Keep)
    assert {one.aspect for one in outcome.records} == {"Functional Correctness"}


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (BUG, None),
        (SOLUTION.replace("    return result\n", "        return result\n"), None),
        (SOLUTION, "bug_same"),
        (SOLUTION.replace("# one after the other", "") + "\n\n", "bug_same"),
        ("def total(:", "bug_unreadable"),
        (BUG.replace("def add_tax(amount)", "def add_tax(amount, rate=9)"), "bug_interface"),
        (BUG.replace('"""Sum of prices."""', '"""Wrong sum of prices."""'), "bug_interface"),
        (BUG.replace("result = 0", "result = 0  # BUG: off by one"), "bug_hint"),
        (REWRITTEN, "bug_rewritten"),
    ],
)  # fmt: skip
def test_answers_that_are_not_the_program_with_a_bug_are_told(after: str, reason: str | None) -> None:
    assert unfit(SOLUTION, after, "Python") == reason


def fenced(code: str) -> Action:
    return says(f"Here it is:\n```python\n{code}```\n")


def planted(
    script: Any, each: int = 3, **model: Any
) -> tuple[list[Planted], Counter[str], list[dict[str, Any]]]:
    problem, program, _ = small()
    counts: Counter[str] = Counter()
    with LoopbackModel(script) as server, Client(server.config(**model)) as client:
        found = plant(client, [(program, problem)], each, 0, counts)
        return found[program["id"]], counts, server.asked


def test_bugs_of_a_model_are_read_from_its_answers() -> None:
    found, counts, asked = planted(lambda _: fenced(BUG))
    assert [one.code for one in found] == [BUG] * 3
    assert [one.sample for one in found] == [0, 1, 2]
    assert len(asked) == 3
    assert SOLUTION in last(asked[0])
    assert counts == {"bugs_asked": 3}


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (says("I cannot do this."), "bug_unreadable"),
        (says("```python\n```"), "bug_unreadable"),
        (says(""), "bug_no_answer"),
        (says(None, finish="content_filter"), "bug_no_answer"),
        (fails(400), "bug_no_answer"),
        (fenced(SOLUTION), "bug_same"),
    ],
)
def test_bad_answers_are_counted_and_cost_nothing_else(action: Action, reason: str) -> None:
    found, counts, _ = planted(lambda _: action, 1)
    assert found == []
    assert counts[reason] == 1


def test_rules_answer_with_a_mutant_that_the_suite_may_refuse() -> None:
    problem, program, _ = small()
    counts: Counter[str] = Counter()
    with Client(ModelConfig(model="rules")) as client:
        found = plant(client, [(program, problem)], 4, 0, counts)[program["id"]]
    assert found
    assert all(unfit(program["code"], one.code, "Python") is None for one in found)
    assert all(
        one.rule and one.kind == "bug-1" and one.expected_tokens
        for one in requests([(program, problem)], 4, 0)
    )


def test_more_bugs_can_be_asked_for_than_there_are_mutants() -> None:
    problem, program, _ = small()
    asked = list(requests([(program, problem)], 200, 0))
    assert len(asked) == 200
    assert len({one.rule for one in asked[:5]}) == 5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return write_run(tmp_path_factory.mktemp("synthetic") / "run")


def write_run(root: Path) -> RunDir:
    problem, program, rows = small()
    lone = {**program, "id": "f" * 32}
    written = new_run(root)
    write_table(written, "problems", Problem, [problem], Output("problems"), "problems")
    write_table(written, "programs", Program, [program, lone], Output("programs"), "decompose")
    for output in outputs_of("steps"):
        mine = [row for row in rows if row["split"] == output.split]
        write_table(written, "steps", StepLabeledCandidate, mine, output, "verify")
    return written


def synthesize(run: RunDir, config: SynthesizeConfig = CONFIG, model: ModelConfig | None = None) -> None:
    step = SynthesizePairs(config, run.root, 0, LabelConfig(), BuildConfig(), model or ModelConfig())
    run_stage(
        run,
        "synthesize",
        outputs_of("synthetic"),
        pickle.loads(pickle.dumps(step)),
        plan_synthesize(run, None),
    )


def digests(run: RunDir) -> dict[str, str]:
    folder = run.root / "synthetic"
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.parquet"))
    }


def test_the_stage_accounts_for_every_program(run: RunDir) -> None:
    synthesize(run)
    accounting = [part.sidecar.accounting for part in run.parts("synthetic") if part.sidecar.accounting]
    assert [(one.rows_in, one.kept, one.drops) for one in accounting] == [(2, 1, {"no_candidates": 1})]
    rows = list(run.rows("synthetic"))
    assert len(rows) == 6
    assert {row["split"] for row in rows} == {small()[2][0]["split"]}


def test_pairs_are_the_same_bytes_at_any_number_of_workers(run: RunDir, tmp_path: Path) -> None:
    synthesize(run)
    other = write_run(tmp_path / "run")
    synthesize(other, dataclasses.replace(CONFIG, workers=3))
    assert digests(other) == digests(run)


def test_a_model_adds_pairs_and_its_recorded_answers_give_them_again(tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "one"), write_run(tmp_path / "two")
    with LoopbackModel(lambda _: fenced(BUG)) as server:
        synthesize(first, model=server.config())
        asked = len(server.asked)
    # The program without candidates is not asked about.
    assert asked == 1
    calls = str(first.root / "calls.sqlite")
    synthesize(
        second, model=dataclasses.replace(server.config(), backend="replay", replay=calls, base_url="")
    )
    assert digests(first) == digests(second)
    assert any(row["rejected"] == BUG for row in first.rows("synthetic"))


def test_dry_run_asks_what_the_run_asks(run: RunDir) -> None:
    step = SynthesizePairs(CONFIG, run.root, 0, model=ModelConfig(model="rules"))
    ((model, asked),) = step.requests(plan_synthesize(run, None))
    assert model.model == "rules"
    problem, program, _ = small()
    assert list(asked) == list(requests([(program, problem)], 1, 0))
    assert SynthesizePairs(CONFIG, run.root, 0).requests(plan_synthesize(run, None)) == []


def test_without_labelled_candidates_the_plan_says_what_to_run(tmp_path: Path) -> None:
    problem, program, _ = small()
    empty = new_run(tmp_path / "run")
    write_table(empty, "problems", Problem, [problem], Output("problems"), "problems")
    write_table(empty, "programs", Program, [program], Output("programs"), "decompose")
    with pytest.raises(RunDirError, match="run verify first"):
        plan_synthesize(empty, None)


def test_changed_criteria_and_candidates_give_other_keys(run: RunDir) -> None:
    (unit,) = plan_synthesize(run, None)
    assert set(unit.inputs) == {"programs", "problems", "steps/train", "steps/test", "criteria"}
    (other,) = plan_synthesize(run, None, LabelConfig(criteria_file="built-in,examples"))
    assert other.inputs["criteria"] != unit.inputs["criteria"]


def test_every_count_says_what_it_means() -> None:
    unseen = SOLUTION.replace("result = 0", "result = -0")
    _, counts = made(SynthesizeConfig(cpu_s=1, hacks=9), (Planted(BUG, "m", 0), Planted(unseen, "m", 1)))
    assert set(counts) <= set(COUNTS)
    answers = (SOLUTION, "def", REWRITTEN, BUG.replace("# one", "# two"))
    assert {unfit(SOLUTION, text, "Python") for text in answers} <= set(COUNTS)


@pytest.mark.parametrize(
    "setting", [{"steps": -1}, {"plainer_share": 2}, {"cpu_s": 0}, {"workers": 0}, {"memory_mb": 1}]
)
def test_settings_that_cannot_be_meant_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        SynthesizeConfig(**setting)
