"""The `train` and `eval` stages: shards become a model, a model becomes a table of what it gets right.

Both are done when their record under the run directory carries the key of their config, code and
inputs; a changed pair, setting or trainer gives another key. torch is imported only when there is
work to do.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay import plots
from assay.progress import Meter, Observer
from assay.recipe import Recipe
from assay.stages import code_digest
from schemas import shards
from schemas.errors import AssayError
from schemas.ids import task_key
from schemas.rundir import RunDir

_DESCRIBED = ("run.json", "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_LIBRARIES = ("torch", "transformers", "tokenizers")

_MODELS = {
    "bt": ("pairs", "build", "rm"),
    "dpo": ("pairs", "build", "policy"),
    "kto": ("steps", "verify", "policy"),
    "step-kto": ("steps", "verify", "policy"),
    "yesno": ("trajectories", "trajectories", "verifier"),
    "joint": ("trajectories", "trajectories", "verifier"),
    "pointwise": ("", "", "rm"),
}
"""Objective -> the table that it reads, the stage that makes that table, and the model's name."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a `train` command asks for beside its recipe.

    Attributes:
        data: shards or folders of them to train on; empty for the run's own table.
        dev: likewise, to evaluate on while training; empty holds a share of the training data out.
        out: folder of the model; None for its place in the run directory.
        processes: how many train together on this machine.
        changed: whether to go on from a checkpoint although settings differ.
        anew: whether to train again what is done, and from the first step.
    """

    data: tuple[Path, ...] = ()
    dev: tuple[Path, ...] = ()
    out: Path | None = None
    processes: int = 1
    changed: bool = False
    anew: bool = False


NAMES = tuple(dict.fromkeys(name for _, _, name in _MODELS.values()))
"""Names of the models that a run may have."""


def model_dir(run: RunDir, objective: str = "bt") -> Path:
    """Where a run's model of an objective lives; its reward model when none is named."""
    return run.root / "models" / _MODELS[objective][2]


def _shards(run: RunDir, recipe: Recipe, split: str) -> dict[Path, str]:
    """Shards of a split with their digests; an error when their stage never ran."""
    table, stage, _ = _MODELS[recipe.train.objective]
    if not table:
        raise AssayError(_no_table(split))
    if not run.parts(table):
        raise AssayError(f"{run.root}: no {table} yet; run `assay {stage}` first")
    return {part.path: part.sidecar.sha256 for part in run.parts(table, split)}


def _no_table(split: str) -> str:
    """What to do for an objective whose rows are in no table of a run."""
    if split == "train":
        return "train.objective = pointwise reads files that you name: give --data FILE"
    return (
        "a run has no test rows for train.objective = pointwise: give scores of files (assay score FILE...) "
        "to `assay eval best-of-k` or `calibration`, or measure the model on pairs (assay eval pairs FILE...)"
    )


def _given(paths: Sequence[Path]) -> dict[Path, str]:
    """Shards that the command names, with their digests."""
    from trainers.__main__ import shards_of

    return {path: shards.file_sha256(path) for path in shards_of(paths)}


def _named(inputs: dict[Path, str]) -> dict[str, str]:
    """Digests by shard name, as they go into a key; shards of a name, from several folders, are numbered."""
    found: dict[str, str] = {}
    alike: Counter[str] = Counter()
    for name, digest in sorted((path.name, digest) for path, digest in inputs.items()):
        found[f"{name}/{alike[name]}" if alike[name] else name] = digest
        alike[name] += 1
    return found


def _base(model: str) -> dict[str, str]:
    """What tells a folder that is trained from its earlier content, as it goes into a key: how it was made
    and described, and the sizes of its weights, which may be too many bytes to read for it."""
    found = {}
    for path in sorted(Path(model).glob("*")) if Path(model).is_dir() else ():
        if path.name in _DESCRIBED:
            found[f"base {path.name}"] = shards.file_sha256(path)
        elif path.suffix == ".safetensors":
            found[f"base {path.name}"] = str(path.stat().st_size)
    return found


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
            return f"{self.stage}: no rows to train on, nothing to do"
        if self.done == "already":
            return f"{self.stage}: already done; {self.seconds:.1f} s"
        if self.stage == "eval" and "overall" not in self.facts:
            numbers = (
                f"{name} {value:.3f}" for name, value in self.facts.items() if isinstance(value, float)
            )
            return f"eval: {', '.join(numbers) or 'no test rows'}; {self.seconds:.1f} s"
        if self.stage == "eval":
            overall = self.facts["overall"]
            if not self.facts["pairs"]:
                return "eval: no test pairs"
            low, high = overall["ci95"]
            text = (
                f"accuracy {overall['accuracy']:.3f} [{low:.3f}, {high:.3f}], strict "
                f"{overall['accuracy_strict']:.3f}, on {self.facts['pairs']:,} pairs"
            )
            return f"eval: {text}; {self.seconds:.1f} s"
        return f"train: done; {self.seconds:.1f} s"


def train(run: RunDir, recipe: Recipe, view: Observer, asked: Asked = Asked()) -> ModelResult:
    """Train the model of the recipe's objective.

    Raises:
        AssayError: no table, torch missing, a setting that cannot work, or the training itself says so.
    """
    began = time.monotonic()
    inputs = _given(asked.data) if asked.data else _shards(run, recipe, "train")
    dev = _given(asked.dev)
    if dev:
        from trainers.__main__ import apart

        apart(list(inputs), list(dev))
    out = asked.out or model_dir(run, recipe.train.objective)
    digests = {**_named(inputs), **{f"dev {name}": digest for name, digest in _named(dev).items()}}
    digests |= _base(recipe.train.model)
    key = _key("train", dataclasses.asdict(recipe.train), digests)
    marker = out / "run.json"
    if not asked.anew and recorded(marker).get("key") == key and any(out.glob("*.safetensors")):
        return ModelResult("train", "already", recorded(marker), time.monotonic() - began)
    if not asked.data and not any(
        part.sidecar.rows for part in run.parts(_MODELS[recipe.train.objective][0], "train")
    ):
        return ModelResult("train", "nothing", {}, time.monotonic() - began)

    def told(facts: dict[str, Any]) -> None:
        _told(view, "train", facts)

    # A model that is there stays until the new one is done, and what is no model stays altogether.
    resume = "never" if asked.anew else "changed" if asked.changed else "auto"
    if asked.processes > 1:
        from assay.launch import launch

        launch(
            recipe.train,
            list(inputs),
            list(dev),
            out,
            key=key,
            resume=resume,
            processes=asked.processes,
            told=told,
        )
    else:
        from trainers.loop import train as run_training

        run_training(
            recipe.train, list(inputs), out, dev_shards=list(dev), key=key, progress=told, resume=resume
        )
    plots.training(out)
    return ModelResult("train", "made", recorded(marker), time.monotonic() - began)


def planned(run: RunDir, recipe: Recipe, stage: str, asked: Asked) -> tuple[dict[str, Any], str]:
    """What `train` or `eval` would do: facts, and a line for a person.

    Raises:
        AssayError: there is nothing that it could read.
    """
    table = _MODELS[recipe.train.objective][0]
    split = "train" if stage == "train" else "test"
    if stage == "train" and asked.data:
        paths = list(_given(asked.data))
    elif not table:
        raise AssayError(_no_table(split))
    else:
        paths = [part.path for part in run.parts(table, split)]
    rows, size = _sizes(paths)
    # 400 steps would be steps of an optimizer.
    told = f"{rows:,} {'programs' if table == 'steps' else table or 'rows'}"
    if stage != "train":
        return {"rows": rows}, told
    from assay import presets

    needs = presets.planned(recipe.train, size)
    return {"rows": rows, "needs": needs}, f"{told}; {presets.in_words(needs)}"


def _sizes(paths: Sequence[Path]) -> tuple[int, int]:
    """Rows of shards, and bytes of their columns before compression; of other files about as many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from trainers import rowfiles

    rows = size = 0
    for path in paths:
        if path.suffix != ".parquet":
            rows += sum(1 for _ in rowfiles.read(path, ()))
            size += path.stat().st_size
            continue
        try:
            facts = pq.read_metadata(path)
        except (OSError, pa.ArrowException) as error:
            raise AssayError(f"{path}: cannot be read as Parquet ({error})") from None
        rows += facts.num_rows
        size += sum(facts.row_group(number).total_byte_size for number in range(facts.num_row_groups))
    return rows, size


def _told(view: Observer, stage: str, facts: dict[str, Any]) -> None:
    """Show a trainer's progress: its numbers as they come, and what somebody should know."""
    if facts.get("event") == "note":
        view.trouble(f"{stage}: {facts['text']}")
        return
    shown = (
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in facts.items()
    )
    view.note(f"{stage}: " + ", ".join(shown))


def evaluate(run: RunDir, recipe: Recipe, view: Observer, *, anew: bool = False) -> ModelResult:
    """Score the test pairs with the run's model, `anew` also what is done.

    Raises:
        AssayError: no pairs table or no model.
    """
    began = time.monotonic()
    shards_in = _shards(run, recipe, "test")
    model = model_dir(run, recipe.train.objective)
    trained = recorded(model / "run.json")
    if not trained:
        raise AssayError(f"{model}: no trained model yet; run `assay train` first")
    objective = str(trained.get("objective", recipe.train.objective))
    if (
        recipe.train.objective != "bt"
        and _MODELS.get(objective, ("",))[0] != _MODELS[recipe.train.objective][0]
    ):
        raise AssayError(
            f"{model}: was trained with train.objective {objective}, and is not measured as one of "
            f"{recipe.train.objective}; set train.objective to that, or train it again"
        )
    out = model / "eval"
    inputs = {**_named(shards_in), "model": str(trained.get("key"))}
    key = _key("eval", dataclasses.asdict(recipe.train), inputs)
    if not anew and recorded(out / "run.json").get("key") == key:
        return ModelResult("eval", "already", recorded(out / "results.json"), time.monotonic() - began)
    shutil.rmtree(out, ignore_errors=True)

    meter = Meter(view, "eval", "items")

    def told(facts: dict[str, Any]) -> None:
        meter(facts["done"], facts["total"])

    if recipe.train.objective == "bt":
        from trainers.evaluate import evaluate as evaluate_pairs

        results = evaluate_pairs(model, list(shards_in), out, progress=told)
    else:
        from trainers.held_out import evaluate as evaluate_rows

        results = evaluate_rows(model, list(shards_in), out, progress=told)
    plots.model(out, results)
    shards.write_text(out / "run.json", json.dumps({"key": key}) + "\n")
    return ModelResult("eval", "made", results, time.monotonic() - began)
