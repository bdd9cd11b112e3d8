"""Comparing two runs: what is counted as lost, gained, changed and relabelled, and what is told of why."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_runs import assay
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay import comparing
from assay.diff import compare, show
from schemas import shards
from schemas.errors import AssayError
from schemas.records import TABLES, Label, Verdict
from schemas.rundir import RunDir

sys.path.append(str(Path(__file__).parents[1] / "schemas"))
from push_runs import candidate, new_run, pair, plan, put


def write(run: RunDir, table: str, unit: str, rows: Sequence[Any], **facts: Any) -> Path:
    """A finished shard of a table that has no splits."""
    path, record = run.root / table / f"part-{unit}.parquet", TABLES[table]
    many, size, digest = shards.write_shard(path, record, rows)
    stage = facts.pop("stage", table)
    told = {"key": "key", "rows": many, "bytes": size, "sha256": digest, **facts}
    sidecar = shards.Sidecar(
        table=table, split=None, stage=stage, unit=unit, schema=shards.schema_digest(record), **told
    )
    shards.write_sidecar(path, sidecar)
    return path


def label(number: int, criterion: str | None = "FC", **changed: Any) -> Label:
    values: dict[str, Any] = {
        "id": f"e{number}",
        "labeler": "terms-1",
        "method": "rule",
        "criterion": criterion,
        "confidence": 0.75,
        "single_intent": 0.5,
        "scores": [{"criterion": "FC", "score": 0.75}],
        "terms": ["fix"],
    }
    return Label(**{**values, **changed})


def drop(id_: str, stage: str, reason: str, detail: str | None = None) -> Verdict:
    return Verdict(id=id_, stage=stage, keep=False, reason=reason, detail=detail, marks=[])


@pytest.fixture
def runs(tmp_path: Path) -> tuple[RunDir, RunDir]:
    return new_run(tmp_path / "a"), new_run(tmp_path / "b")


def told(runs: tuple[RunDir, RunDir], table: str, limit: int = 3) -> dict[str, Any]:
    (found,) = compare(runs[0].root, runs[1].root, table, limit)["tables"]
    return dict(found)


def counts(found: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(found[name] for name in ("same", "lost", "gained", "changed", "relabelled"))


def test_equal_shards_are_counted_without_being_opened(runs: tuple[RunDir, RunDir]) -> None:
    for run in runs:
        path = write(run, "labels", "x", [label(1), label(2)])
        path.write_bytes(b"\0" * path.stat().st_size)
    found = told(runs, "labels")
    assert counts(found) == (2, 0, 0, 0, 0)
    assert found["unread"] == 2
    assert found["equal"]


def test_how_rows_are_cut_into_shards_makes_no_difference(runs: tuple[RunDir, RunDir]) -> None:
    write(runs[0], "labels", "x", [label(n) for n in range(10)])
    write(runs[1], "labels", "y", [label(n) for n in range(7, 10)])
    write(runs[1], "labels", "z", [label(n) for n in range(7)])
    found = told(runs, "labels")
    assert counts(found) == (10, 0, 0, 0, 0)
    assert found["equal"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    a=st.dictionaries(st.integers(0, 12), st.sampled_from(["FC", "RM", None])),
    b=st.dictionaries(st.integers(0, 12), st.sampled_from(["FC", "RM", None])),
    cut=st.integers(0, 12),
)
def test_counts_are_those_of_sets(
    tmp_path_factory: pytest.TempPathFactory, a: dict[int, str | None], b: dict[int, str | None], cut: int
) -> None:
    root = tmp_path_factory.mktemp("runs")
    made = new_run(root / "a"), new_run(root / "b")
    for run, rows in zip(made, (a, b), strict=True):
        for unit, mine in (("low", [n for n in rows if n < cut]), ("high", [n for n in rows if n >= cut])):
            write(run, "labels", unit, [label(n, rows[n]) for n in mine])
    found = told(made, "labels")
    both = a.keys() & b.keys()
    changed = {n for n in both if a[n] != b[n]}
    assert counts(found) == (len(both - changed), len(a.keys() - both), len(b.keys() - both), len(changed), 0)
    moves = Counter((a[n], b[n]) for n in changed)
    assert {(one["from"], one["to"]): one["rows"] for one in found["labels"]} == moves
    assert sum(one["rows"] for one in found["why_lost"]) == found["lost"]


def test_rows_that_stand_several_times_are_matched_one_to_one(runs: tuple[RunDir, RunDir]) -> None:
    write(runs[0], "labels", "x", [label(1), label(1), label(1, "RM")])
    write(runs[1], "labels", "x", [label(1), label(1, "RM")])
    assert counts(told(runs, "labels"))[:3] in {(2, 1, 0), (1, 1, 0)}
    assert told(runs, "labels")["lost"] == 1


def test_many_changed_rows_are_compared_in_slices(
    runs: tuple[RunDir, RunDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "SLICE", 7)
    monkeypatch.setattr(comparing, "BATCH", 5)
    write(runs[0], "labels", "x", [label(n) for n in range(40)])
    write(runs[1], "labels", "x", [label(n, "RM" if n % 2 else "FC", terms=["fix", "x"]) for n in range(40)])
    found = told(runs, "labels")
    assert found["columns"] == {"terms": 40, "criterion": 20}
    assert found["labels"] == [
        {"column": "criterion", "from": "FC", "to": "RM", "rows": 20, "with": {"terms": 20}}
    ]


def test_a_lost_pair_is_explained_by_the_drop_of_its_edit(runs: tuple[RunDir, RunDir]) -> None:
    for number, run in enumerate(runs):
        put(run, "pairs", "x", [pair(1), *([] if number else [pair(2), pair(3)])])
    clean = [drop("e2", "decontaminate", "contaminated", "12 words")]
    write(runs[1], "verdicts", "decontaminate-x", clean)
    write(runs[1], "verdicts", "select-x", [drop("e2", "select", "too_short", "by a later name")])
    found = told(runs, "pairs")
    assert counts(found) == (1, 2, 0, 0, 0)
    assert found["why_lost"] == [
        {"stage": None, "reason": "its edit is not there", "rows": 1},
        {"stage": "select", "reason": "too_short", "rows": 1},
    ]
    first = found["samples"]["lost"][0]
    assert first["row"]["idx"] == "i00002"
    assert first["why"]["detail"] == "by a later name"


def test_a_commit_that_never_became_an_edit_explains_its_pair(runs: tuple[RunDir, RunDir]) -> None:
    put(runs[0], "pairs", "x", [pair(1)])
    write(runs[1], "verdicts", "mine-x", [drop("o/r@" + "c" * 40, "mine", "merge_commit")])
    assert told(runs, "pairs")["why_lost"] == [{"stage": "mine", "reason": "merge_commit", "rows": 1}]


def test_a_gained_candidate_is_explained_by_the_other_runs_drop(runs: tuple[RunDir, RunDir]) -> None:
    put(runs[1], "steps", "x", [candidate(1)])
    write(runs[0], "verdicts", "tests-x", [drop("q", "tests", "reference_unrecordable")])
    assert told(runs, "steps")["why_gained"] == [
        {"stage": "tests", "reason": "reference_unrecordable", "rows": 1}
    ]


def test_a_pair_of_another_criterion_is_relabelled_with_its_evidence(runs: tuple[RunDir, RunDir]) -> None:
    put(runs[0], "pairs", "x", [pair(1), pair(2)])
    other = {"confidence": 0.9, "terms": ["cache"]}
    put(runs[1], "pairs", "x", [pair(1, idx="another", aspect="Runtime Efficiency", evidence=other), pair(2)])
    found = told(runs, "pairs")
    assert counts(found) == (1, 0, 0, 0, 1)
    (move,) = found["labels"]
    assert (move["column"], move["from"], move["to"]) == (
        "aspect",
        "Functional Correctness",
        "Runtime Efficiency",
    )
    assert move["with"] == {"evidence.confidence": 1, "evidence.terms": 1}
    (sample,) = found["samples"]["relabelled"]
    assert sample["columns"]["evidence.confidence"] == {"from": 0.75, "to": 0.9}


def test_a_pair_that_goes_to_the_other_split_is_one_changed_row(runs: tuple[RunDir, RunDir]) -> None:
    put(runs[0], "pairs", "x", [pair(1), pair(2)])
    put(runs[1], "pairs", "x", [pair(1, split="test"), pair(2)])
    found = told(runs, "pairs")
    assert counts(found) == (1, 0, 0, 1, 0)
    assert found["columns"] == {"split": 1}


def test_long_texts_are_cut_and_hostile_ones_are_printed_as_they_are(
    runs: tuple[RunDir, RunDir], capsys: pytest.CaptureFixture[str]
) -> None:
    put(runs[0], "pairs", "x", [pair(1, input="[bold]x[/nothing] " + "y" * 5000)])
    put(runs[1], "pairs", "x", [pair(1, input="[red]\x1b[2J")])
    write(runs[0], "labels", "x", [label(1)])
    write(runs[1], "verdicts", "select-x", [drop("e1", "select", "bad\x1b[2J", "[bold]\x1b[2J\n")])
    show(runs[0].root, runs[1].root, None, 3, False)
    out = capsys.readouterr().out
    assert "[bold]x[/nothing]" in out
    assert "\x1b" not in out
    assert "select: bad\\u001b[2J" in out
    assert "y" * 200 not in out


def test_the_accounting_of_a_stage_is_told_where_it_differs(
    runs: tuple[RunDir, RunDir], capsys: pytest.CaptureFixture[str]
) -> None:
    for number, run in enumerate(runs):
        put(run, "pairs", "x", [pair(1)], {"same_text": 1 + number, "[bold]\x1b": 2 * number})
        plan(run, "build", {"x": "key"})
    facts = compare(runs[0].root, runs[1].root)
    (stage,) = facts["stages"]
    assert stage["a"]["drops"] == {"[bold]\x1b": 0, "same_text": 1}
    assert stage["b"]["rows_in"] == 5
    show(runs[0].root, runs[1].root, None, 3, False)
    out = capsys.readouterr().out
    assert "same_text 1, 2" in out
    assert "[bold]\\u001b 0, 2" in out


def test_settings_that_differ_are_told_without_a_password(runs: tuple[RunDir, RunDir]) -> None:
    (runs[0].root / "recipe.toml").write_text('seed = 1\n[model]\nbase_url = "https://me:secret@h/v1"\n')
    (runs[1].root / "recipe.toml").write_text("seed = 2\n[model]\n")
    facts = compare(runs[0].root, runs[1].root)
    assert facts["settings"][0] == {"setting": "seed", "a": 1, "b": 2}
    assert facts["settings"][1]["setting"] == "model.base_url"
    assert "secret" not in json.dumps(facts)


def test_keys_tell_of_other_code_only_where_all_else_is_equal(runs: tuple[RunDir, RunDir]) -> None:
    from assay.diff import _parts, _same_code
    from assay.recipe import Recipe
    from assay.stages import STAGES

    stage, recipe = STAGES["label"], Recipe()
    facts: dict[str, Any] = {
        "stage": "label",
        "accounting": shards.Accounting(1, 1, {}),
        "inputs": {"x": "1"},
    }

    def asked(**changed: Any) -> bool | None:
        write(runs[0], "labels", "x", [label(1)], **facts)
        write(runs[1], "labels", "x", [label(1)], **{**facts, **changed})
        return _same_code(stage, [_parts(run, stage) for run in runs], [recipe, recipe])

    assert asked() is True
    assert asked(key="other") is False
    assert asked(key="other", inputs={"x": "2"}) is None
    assert asked(key="other", accounting=shards.Accounting(2, 1, {"x": 1})) is None


def test_a_shard_that_is_cut_short_is_refused(runs: tuple[RunDir, RunDir]) -> None:
    for run in runs:
        path = write(run, "labels", "x", [label(1)])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(AssayError, match="not the bytes that its sidecar says"):
        compare(runs[0].root, runs[1].root)


def test_a_shard_that_is_no_parquet_is_one_line(runs: tuple[RunDir, RunDir]) -> None:
    for number, run in enumerate(runs):
        path = write(run, "labels", "x", [label(number)])
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(AssayError, match="cannot be read as Parquet"):
        compare(runs[0].root, runs[1].root)


def test_a_table_that_neither_has_is_refused(runs: tuple[RunDir, RunDir]) -> None:
    with pytest.raises(AssayError, match=r"neither .* has finished pairs"):
        compare(runs[0].root, runs[1].root, "pairs")
    with pytest.raises(AssayError, match="not a table; give one of edits"):
        compare(runs[0].root, runs[1].root, "nothing")


def test_the_command_exits_0_whether_runs_differ_or_not(runs: tuple[RunDir, RunDir]) -> None:
    put(runs[0], "pairs", "x", [pair(1), pair(2)])
    put(runs[1], "pairs", "x", [pair(1)])
    before = sorted(path for run in runs for path in run.root.rglob("*"))
    done = assay("diff", runs[0].root, runs[1].root, "--json")
    assert done.code == 0
    facts = json.loads(done.out)
    assert facts["tables"][-1]["lost"] == 1
    assert not facts["equal"]
    assert sorted(path for run in runs for path in run.root.rglob("*")) == before
    missing = assay("diff", runs[0].root, runs[1].root.parent / "c")
    assert missing.code == 2
    assert missing.err.startswith("assay: ")
    assert missing.err.count("\n") == 1
