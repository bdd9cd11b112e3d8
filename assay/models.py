"""The `train` and `eval` stages: shards become a model, a model becomes a table of accuracies.

Both are done when their record under the run directory carries the key of their config, code and
inputs; a changed pair, setting or trainer gives another key. torch is imported only when there is
work to do.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from pathlib import Path
from typing import Any

from assay.progress import Observer
from assay.recipe import Recipe
from assay.stages import code_digest
from schemas import shards
from schemas.errors import AssayError
from schemas.ids import task_key
from schemas.rundir import RunDir

MODEL = "rm"
_LIBRARIES = ("torch", "transformers", "tokenizers")


def model_dir(run: RunDir) -> Path:
    """Where a run's reward model lives."""
    return run.root / "models" / MODEL


def _pairs(run: RunDir, split: str) -> dict[Path, str]:
    """Shards of a split with their digests; an error when `build` never ran."""
    if not run.parts("pairs"):
        raise AssayError(f"{run.root}: no pairs yet; run `assay build` first")
    return {part.path: part.sidecar.sha256 for part in run.parts("pairs", split)}


def _named(inputs: dict[Path, str]) -> dict[str, str]:
    """Digests by shard name, as they go into a key; all are of one split, so names are unique."""
    return {path.name: digest for path, digest in inputs.items()}


def _key(stage: str, config: dict[str, Any], inputs: dict[str, str]) -> str:
    try:
        code = code_digest(("trainers", "schemas"), _LIBRARIES)
    except ModuleNotFoundError as error:
        raise AssayError(
            f"{stage} needs {error.name}: install assay with its extra, `pip install 'assay[train]'`"
        ) from None
    return task_key(stage, config, code, inputs)


def recorded(path: Path) -> dict[str, Any]:
    """A stage's record, empty when there is none or it is damaged."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


@dataclasses.dataclass(frozen=True)
class ModelResult:
    """What `train` or `eval` did: `done` is `made`, `already` (done before) or `nothing` (no pairs)."""

    stage: str
    done: str
    facts: dict[str, Any]
    seconds: float

    def summary(self) -> str:
        """One line for a person."""
        if self.done == "nothing":
            return f"{self.stage}: no pairs, nothing to do"
        if self.done == "already":
            return f"{self.stage}: already done; {self.seconds:.1f} s"
        if self.stage == "eval":
            overall = self.facts["overall"]
            if not self.facts["pairs"]:
                return "eval: no test pairs"
            low, high = overall["ci95"]
            text = (
                f"accuracy {overall['accuracy']:.3f} [{low:.3f}, {high:.3f}] on {self.facts['pairs']:,} pairs"
            )
            return f"eval: {text}; {self.seconds:.1f} s"
        return f"train: done; {self.seconds:.1f} s"


def train(run: RunDir, recipe: Recipe, view: Observer) -> ModelResult:
    """Train the run's reward model on its training pairs.

    Raises:
        AssayError: no pairs table, torch missing, or a setting that cannot work.
    """
    began = time.monotonic()
    inputs = _pairs(run, "train")
    out = model_dir(run)
    key = _key("train", dataclasses.asdict(recipe.train), _named(inputs))
    marker = out / "run.json"
    if recorded(marker).get("key") == key and any(out.glob("*.safetensors")):
        return ModelResult("train", "already", recorded(marker), time.monotonic() - began)
    if not any(part.sidecar.rows for part in run.parts("pairs", "train")):
        return ModelResult("train", "nothing", {}, time.monotonic() - began)
    if out.exists() and not marker.exists():
        raise AssayError(f"{out}: has no run.json, so perhaps not made by assay; remove it, or give --clean")
    from trainers.loop import train as run_training

    run_training(recipe.train, list(inputs), out, key=key, progress=lambda facts: _told(view, "train", facts))
    return ModelResult("train", "made", recorded(marker), time.monotonic() - began)


def _told(view: Observer, stage: str, facts: dict[str, Any]) -> None:
    """Show a trainer's progress: its numbers as they come."""
    shown = (
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in facts.items()
    )
    view.note(f"{stage}: " + ", ".join(shown))


def evaluate(run: RunDir, recipe: Recipe, view: Observer) -> ModelResult:
    """Score the test pairs with the run's model.

    Raises:
        AssayError: no pairs table or no model.
    """
    began = time.monotonic()
    shards_in = _pairs(run, "test")
    model = model_dir(run)
    trained = recorded(model / "run.json")
    if not trained:
        raise AssayError(f"{model}: no trained model yet; run `assay train` first")
    out = model / "eval"
    inputs = {**_named(shards_in), "model": str(trained.get("key"))}
    key = _key("eval", dataclasses.asdict(recipe.train), inputs)
    if recorded(out / "run.json").get("key") == key:
        return ModelResult("eval", "already", recorded(out / "results.json"), time.monotonic() - began)
    from trainers.evaluate import evaluate as run_evaluation

    shutil.rmtree(out, ignore_errors=True)
    results = run_evaluation(model, list(shards_in), out, progress=lambda facts: _told(view, "eval", facts))
    shards.write_text(out / "run.json", json.dumps({"key": key}) + "\n")
    return ModelResult("eval", "made", results, time.monotonic() - began)
