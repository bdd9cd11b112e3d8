"""pass@k of files of samples: against drawing, by policy, with what is left out told."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import AssayError
from trainers import passes
from trainers.passes import Sample

outcomes = st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=4)


def samples(rows: list[list[bool]], policy: str = "p", **other: Any) -> list[Sample]:
    """Samples of problems in order."""
    return [
        Sample(f"t{number}", policy, passed, row_id=f"{number}-{at}", **other)
        for number, problem in enumerate(rows)
        for at, passed in enumerate(problem)
    ]


def jsonl(path: Path, rows: list[Any]) -> Path:
    """Write JSON lines; text goes in as it is."""
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


@given(outcomes)
@settings(max_examples=25, deadline=None)
def test_each_problem_counts_the_same_and_every_draw_once(rows: list[list[bool]]) -> None:
    most = max(map(len, rows))
    found = passes.summary(samples(rows), range(1, most + 1), 0)["p"]["pass_at_k"]
    for k in range(1, most + 1):
        means = [
            np.mean([any(draw) for draw in itertools.combinations(problem, k)])
            for problem in rows
            if len(problem) >= k
        ]
        assert found[str(k)]["value"] == pytest.approx(np.mean(means))
        assert (found[str(k)]["problems"], found[str(k)]["short"]) == (len(means), len(rows) - len(means))


def test_more_picks_than_any_problem_has_give_null_and_say_so() -> None:
    found = passes.summary(samples([[True], [False, True]]), [3], 0)["p"]["pass_at_k"]["3"]
    assert found == {"value": None, "ci95": None, "problems": 0, "short": 2}


@given(outcomes, st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_the_order_of_rows_changes_nothing(rows: list[list[bool]], seed: int) -> None:
    found = samples(rows)
    mixed = random.Random(seed).sample(found, len(found))
    assert passes.summary(mixed, [1, 2], 0) == passes.summary(found, [1, 2], 0)


def test_policies_are_apart_and_a_language_has_the_interval_of_its_own() -> None:
    good, bad = samples([[True], [True]], "good"), samples([[False], [False]], "bad", language="Go")
    found = passes.summary([*good, *bad], [1], 0)
    assert [found[name]["pass_at_k"]["1"]["value"] for name in ("good", "bad")] == [1.0, 0.0]
    assert found["bad"]["by_language"]["Go"]["pass_at_k"]["1"]["value"] == 0.0
    assert found["good"]["by_language"] == {}
    more = passes.summary([*good, *bad, *samples([[True]], "third")], [1], 0)
    assert more["bad"] == found["bad"]


def test_published_names_are_read(tmp_path: Path) -> None:
    rows = [
        {"task_id": "HumanEval/0", "completion": "x", "result": "passed", "passed": True},
        {"instance_id": "a__b-1", "resolved": False, "policy": "agent"},
        {"problem_id": 7, "outcome": 1, "generator": {"model": "m", "seed": 1}, "language": "Go"},
        {"problem_id": "q", "outcome": 1.0, "model": "n", "source": "set"},
    ]
    found = passes.read([jsonl(tmp_path / "a.jsonl", rows)]).samples
    assert [(one.problem, one.policy, one.passed) for one in found] == [
        ("HumanEval/0", passes.UNNAMED, True),
        ("a__b-1", "agent", False),
        ("7", "m", True),
        ("q", "n", True),
    ]
    assert (found[2].language, found[3].source) == ("Go", "set")


def test_bad_rows_cost_themselves(tmp_path: Path) -> None:
    rows: list[Any] = [
        {"task_id": "a", "passed": True},
        "{",
        {"passed": True},
        {"task_id": "a"},
        {"task_id": "a", "passed": None},
        {"task_id": "a", "outcome": 0.5},
        {"task_id": "a", "outcome": 2},
        {"task_id": "a", "outcome": "yes"},
        {"task_id": "a", "passed": False, "generator": {"model": "mutation-1"}},
    ]
    found = passes.read([jsonl(tmp_path / "a.jsonl", rows)])
    assert (found.rows, len(found.samples)) == (9, 1)
    assert found.dropped == {
        "bad_json": 1,
        "bad_outcome": 1,
        "missing_field": 1,
        "no_outcome": 2,
        "no_policy": 1,
        "not_pass_or_fail": 1,
        "wrong_type": 1,
    }


def test_candidates_that_no_model_wrote_count_only_by_name(tmp_path: Path) -> None:
    rows = [
        {"problem_id": "a", "outcome": n % 2, "generator": {"model": passes.MADE[n % 3]}} for n in range(6)
    ]
    path = tmp_path / "steps.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    with pytest.raises(AssayError, match=r"mutation-1.*--policy"):
        passes.read([path])
    with pytest.raises(AssayError, match="name one of these"):
        passes.read([path], ["gpt"])
    assert len(passes.read([path], ["mutation-1"]).samples) == 2


@pytest.mark.parametrize("rows", [[], ["{"], [{"task_id": "a"}]])
def test_a_file_of_nothing_is_an_error(tmp_path: Path, rows: list[Any]) -> None:
    path = jsonl(tmp_path / "a.jsonl", rows)
    with pytest.raises(AssayError, match=r"is empty|none of 1 rows"):
        passes.read([path])


def test_written_samples_are_read_back_and_give_the_same(tmp_path: Path) -> None:
    found = [*samples([[True, False], [False, False, True]], "a"), *samples([[True]], "b", language="Go")]
    for name in ("x", "y"):
        passes.write_samples(tmp_path / f"{name}.parquet", random.Random(name).sample(found, len(found)))
    assert (tmp_path / "x.parquet").read_bytes() == (tmp_path / "y.parquet").read_bytes()
    again = passes.read([tmp_path / "x.parquet"]).samples
    assert passes.summary(again, [1, 2], 0) == passes.summary(found, [1, 2], 0)


def test_ks_go_up_to_the_problem_with_the_most_samples() -> None:
    assert passes.default_ks(samples([[True] * 6, [False] * 2])) == [1, 2, 4, 6]
    assert passes.default_ks(samples([[True]])) == [1]
