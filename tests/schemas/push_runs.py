"""Small run directories to publish, written as the stages write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas import shards
from schemas.records import (
    TABLES,
    Generator,
    Message,
    PairEvidence,
    PreferencePair,
    Step,
    StepLabeledCandidate,
    Trajectory,
)
from schemas.rundir import RunDir, outputs_of
from schemas.stage import VERDICTS, Unit

RECIPE = (
    'seed = 7\n\n[sources]\nrepos = ["/home/somebody/secret-client/flask"]\n\n[build]\ntest_share = 0.1\n'
)
STAGE = {
    "pairs": "build",
    "synthetic": "synthesize",
    "preferences": "preferences",
    "steps": "verify",
    "trajectories": "trajectories",
}


def new_run(root: Path, recipe: str = RECIPE) -> RunDir:
    run = RunDir.open(root, create=True)
    (root / "recipe.toml").write_text(recipe)
    return run


def put(
    run: RunDir,
    table: str,
    unit: str,
    rows: Sequence[Any],
    drops: Mapping[str, int] | None = None,
    key: str = "key",
) -> None:
    """What a finished unit leaves: a shard a split, verdicts, and the accounting in the first sidecar."""
    drops, stage = dict(drops or {}), STAGE[table]
    accounting = shards.Accounting(len(rows) + sum(drops.values()), len(rows), drops)
    for number, output in enumerate((*outputs_of(table), VERDICTS)):
        mine = [] if output == VERDICTS else [row for row in rows if row.split == output.split]
        path, record = run.part_path(stage, output, unit), TABLES[output.table]
        many, size, digest = shards.write_shard(path, record, mine)
        sidecar = shards.Sidecar(
            table=output.table,
            split=output.split,
            stage=stage,
            unit=unit,
            key=key,
            rows=many,
            bytes=size,
            sha256=digest,
            schema=shards.schema_digest(record),
            accounting=accounting if number == 0 else None,
            seconds=1.0 if number == 0 else None,
        )
        shards.write_sidecar(path, sidecar)


def plan(run: RunDir, stage: str, keys: Mapping[str, str], failed: Sequence[str] = ()) -> None:
    run.write_plan(stage, [Unit(name, 1, {}, {}, key) for name, key in keys.items()], failed)


def pair(number: int = 0, **changed: Any) -> PreferencePair:
    evidence: dict[str, Any] = {
        "edit_id": f"e{number}",
        "labeler": "terms-1",
        "method": "rule",
        "confidence": 0.75,
        "single_intent": 0.5,
        "scores": [],
        "terms": ["fix"],
        "subject": "Fix x",
        "instruction_by": "template-1",
        "system_kind": "none",
        "level": "file",
        "names": [],
        "merged_by": None,
        "instruction_kind": "template",
        "instruction_style": None,
        "measures": [],
        "bearings": [],
        "share": None,
        "strength": None,
        "specificity": None,
        "votes": [],
        "trade_offs": [],
        "made_by": None,
        "detail": None,
    }
    evidence.update(changed.pop("evidence", {}))
    values: dict[str, Any] = {
        "system": "",
        "input": "Make x two.",
        "chosen": f"x = {number}\n",
        "rejected": "x = 1\n",
        "language": "Python",
        "aspect": "Functional Correctness",
        "source": "assay",
        "idx": f"i{number:05d}",
        "repo": "o/r",
        "commit": "c" * 40,
        "path": "a.py",
        "license": "BSD-3-Clause",
        "evidence": PairEvidence(**evidence),
        "split": "train",
    }
    return PreferencePair(**{**values, **changed})


def candidate(number: int = 0, **changed: Any) -> StepLabeledCandidate:
    step = {
        "start_byte": 0,
        "end_byte": 4,
        "suite_label": None,
        "own_label": None,
        "judge_label": None,
        "tests_run": 2,
        "tests_passed": 1,
        "own_reason": "no_tests",
        "first_failure": None,
        "mutation_score": None,
        "trust": "external",
    }
    values: dict[str, Any] = {
        "id": f"c{number}",
        "problem_id": "p",
        "program_id": "q",
        "prompt": "Add.",
        "completion": "def f(): pass\n",
        "program": None,
        "outcome": 0,
        "outcome_reason": "failed",
        "outcome_detail": None,
        "trust": "split",
        "steps": [
            Step(name="f", label=0, reference_label=0, reason="failed", **step),
            Step(name="g", label=None, reference_label=None, reason="no_tests", **step),
        ],
        "conflict": "none",
        "language": "Python",
        "source": "problems.jsonl",
        "license": "MIT",
        "generator": Generator(
            model="mutation-1", temperature=None, seed=0, detail=None, prompt_version=None
        ),
        "isolation": "bwrap",
        "limits": "cpu 2 s",
        "split": "train",
    }
    return StepLabeledCandidate(**{**values, **changed})


def trajectory(number: int = 0, **changed: Any) -> Trajectory:
    said = Message(role="user", content="Fix it.", name=None, tool_call_id=None, tool_calls=[])
    values: dict[str, Any] = {
        "id": f"t{number}",
        "instance_id": "i",
        "messages": [said],
        "patch": None,
        "resolved": True,
        "policy": "some/model",
        "source": "chat.jsonl",
        "split": "train",
    }
    return Trajectory(**{**values, **changed})
