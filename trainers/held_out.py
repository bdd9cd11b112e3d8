"""Evaluate a trained model of any objective on shards that it did not see, by the objective's own measures.

In: a model folder that `trainers.loop` wrote, and shards of the table that its objective reads. Out, in
`out_dir`: `results.json` (`model`, `objective`, rows and drops by reason, and what `Objective.evaluate` says)
and `drops.jsonl`; of a verifier also `scores.parquet` (a `TrajectoryScore` a trajectory) and, where its
training fitted a temperature, `temperature` and the errors `calibrated` by it. An objective that compares
with the model before training gets that model again: from where it was loaded, or made from its seed. Errors
are `AssayError`. Reward models of pairs have an evaluation of their own, `trainers.evaluate`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schemas.errors import AssayError
from schemas.records import TrajectoryScore
from schemas.shards import write_shard, write_text
from trainers import calibration, data, objectives
from trainers.config import TrainConfig
from trainers.engine import Engine
from trainers.environment import quiet, reproducible
from trainers.folder import fingerprint
from trainers.items import Item
from trainers.model import build
from trainers.objectives.base import Objective
from trainers.objectives.verifier import Verifier
from trainers.tokenizer import load_tokenizer
from trainers.verify import temperature_of
from trainers.world import Alone


def evaluate(
    model_dir: str | Path,
    shards: Sequence[Path],
    out_dir: Path,
    *,
    seed: int = 0,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Evaluate a model and write what that says.

    Args:
        model_dir: folder of the model.
        shards: Parquet shards of its objective's table, in any order.
        out_dir: where the files go; made when missing.
        seed: seed of the bootstrap.
        progress: called with `{"event": "score", "done": passes, "total": passes}`.

    Returns:
        The content of `results.json`.

    Raises:
        AssayError: the model or a shard cannot be used.
    """
    folder = Path(model_dir)
    told_run = _run(folder)
    config = TrainConfig.from_mapping(told_run["config"]).resolved()
    objective = objectives.make(config)
    if objective.referenced and told_run.get("base", "") not in ("", fingerprint(config.model)):
        raise AssayError(
            f"{folder}: was trained from {config.model}, whose weights are others now or gone, so that "
            "nothing is there to compare with; put them back, or train again"
        )
    tokenizer = load_tokenizer(str(folder))
    rows = objective.read([Path(path) for path in shards])
    items, account = objective.encode(rows, tokenizer, "dev")

    def told(done: int, total: int) -> None:
        if progress is not None:
            progress({"event": "score", "done": done, "total": total})

    def engine_of(source: TrainConfig) -> Engine:
        model = build(
            source, tokenizer, scored=objective.head == "score", vocabulary=objective.needs_vocabulary
        )
        return Engine(
            model,
            Alone(),
            objective,
            layout=model.layout,
            pass_tokens=config.pass_tokens,
            pad_id=int(tokenizer.pad_token_id or 0),
        )

    with quiet(), reproducible(config.threads, seed):
        if objective.referenced:
            items = _referenced(engine_of(config), items)
        trained = engine_of(dataclasses.replace(config, model=str(folder)))
        found = trained.infer(items, told)
        told_of = _told_of(objective, items, found, seed)
    results = {"model": folder.resolve().name, "objective": objective.name, **account.as_dict(), **told_of}
    out_dir.mkdir(parents=True, exist_ok=True)
    if isinstance(objective, Verifier):
        rows_said = objective.scores(items, found)
        write_shard(out_dir / "scores.parquet", TrajectoryScore, rows_said)
        results |= _calibrated(folder, rows_said)
    data.write_drops(out_dir / "drops.jsonl", {"evaluation": account})
    write_text(out_dir / "results.json", json.dumps(results, indent=1, allow_nan=False) + "\n")
    return results


def _told_of(objective: Objective, items: Sequence[Item], found: Any, seed: int) -> dict[str, Any]:
    return objective.evaluate(items, found, seed) if items else {}


def _calibrated(folder: Path, rows: Sequence[TrajectoryScore]) -> dict[str, Any]:
    """Errors of the probabilities that the verifier's own temperature makes."""
    temperature = temperature_of(folder)
    if temperature is None or not rows:
        return {}
    logits = np.array([row.score for row in rows]) / temperature
    outcomes = np.array([float(row.resolved) for row in rows])
    chances = calibration.sigmoid(logits)
    return {
        "temperature": temperature,
        "calibrated": {
            "ece": calibration.ece(chances, outcomes),
            "brier": calibration.brier(chances, outcomes),
            "nll": calibration.nll(logits, outcomes),
        },
    }


def _referenced(engine: Engine, items: Sequence[Item]) -> list[Item]:
    found = engine.infer(items)
    return [dataclasses.replace(item, reference=one.logprobs) for item, one in zip(items, found, strict=True)]


def _run(folder: Path) -> dict[str, Any]:
    try:
        told = json.loads((folder / "run.json").read_text())
        return {**told, "config": dict(told["config"])}
    except (OSError, ValueError, KeyError, TypeError):
        raise AssayError(f"{folder}: has no run.json of a training run; train a model first") from None
