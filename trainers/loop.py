"""Train a model: a plain torch loop, on one process or on many.

In: a `TrainConfig` and shards of the table that its objective reads. Out: a folder with the model (see
`trainers.export`), the tokenizer, `README.md`, `run.json` (config, counts, metrics), `train.toml` (the
resolved config), `train.jsonl` (one line a step) and `drops.jsonl` (one line a row that was not trained
on). All is written to a temporary folder beside it and renamed at the end: there is a whole model or none.

Every loss term is divided by a count of the whole optimizer step, so a step does not depend on how it is cut
into forward passes, nor on how many processes share them. Equal inputs, seed, threads and processes give
bit-equal weights, also when a run is stopped, or killed after a checkpoint, and goes on.

Raises `AssayError` when there is nothing to train on, when the loss is no longer finite, when a model
or tokenizer does not fit, when a checkpoint is of another run, when the folder cannot be written, and when
the exported model gives other results than the trained one; `Stopped` when a signal asked for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import platform
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import PreTrainedTokenizerFast

from schemas.config import to_toml
from schemas.errors import AssayError
from schemas.ids import rng
from schemas.shards import file_sha256, write_text
from trainers import calibration, card, checkpoint, data, export, lora, objectives, parallel
from trainers.config import TINY, TrainConfig
from trainers.engine import Engine
from trainers.environment import quiet, reproducible
from trainers.fit import Fit
from trainers.folder import LOCK, check_place, held, replacing, tidy, work_folder, writable
from trainers.items import Found, Item
from trainers.log import Progress
from trainers.model import RewardModel, build, use_liger
from trainers.objectives.base import Account, Objective
from trainers.objectives.verifier import Verifier
from trainers.tokenizer import load_tokenizer, train_tokenizer
from trainers.verify import write_calibration
from trainers.world import World

RUN_FORMAT = 2
_PARITY_ITEMS = 4
FEWEST_TO_CALIBRATE = 20
"""Development rows from which a verifier's temperature is fitted, at least."""


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What a training run made.

    Attributes:
        out_dir: the model's folder.
        steps: optimizer steps.
        items: pairs, completions or tasks trained on.
        dropped: training rows dropped, by reason.
        dev: statistics of the development rows (`Objective.evaluate`), None when there are none.
        seconds: wall time.
        run: the content of `run.json`.
    """

    out_dir: Path
    steps: int
    items: int
    dropped: dict[str, int]
    dev: dict[str, Any] | None
    seconds: float
    run: dict[str, Any]


def train(
    config: TrainConfig,
    train_shards: Sequence[Path],
    out_dir: Path,
    *,
    dev_shards: Sequence[Path] = (),
    key: str = "",
    progress: Progress | None = None,
    resume: str = "auto",
) -> TrainResult:
    """Train a model and write it to `out_dir`, replacing a model that an earlier run left there.

    Every process of a run calls this with the same arguments (see `trainers.parallel`).

    Args:
        config: settings.
        train_shards: Parquet shards of the objective's table, in any order.
        out_dir: folder of the model.
        dev_shards: shards to evaluate on; when none are given, `config.dev_share` of the training groups are
            held out.
        key: kept in `run.json` for the caller, who may compare it to know whether to train again.
        progress: called with each line of `train.jsonl` as it is written.
        resume: `auto` goes on from the newest checkpoint of the same run, where there is one; `changed` also
            when settings differ from its; `never` starts anew.

    Raises:
        AssayError: see the module.
        Stopped: see the module.
    """
    config = config.resolved()
    # Not where settings are read: they come one by one, in any order.
    if config.keep_best and not config.eval_every:
        raise AssayError("train.keep_best: chooses among evaluations; set train.eval_every above 0 too")
    with parallel.joined(config) as world:
        return _Run(config, world, Path(out_dir), key, progress).go(
            [Path(path) for path in train_shards], [Path(path) for path in dev_shards], resume
        )


@dataclasses.dataclass
class _Data:
    items: list[Item]
    dev: list[Item]
    account: Account
    dev_account: Account
    counts: dict[str, dict[str, int]]
    digest: str


class _Run:
    """One run: what it knows, and its stages in order."""

    def __init__(
        self, config: TrainConfig, world: World, out_dir: Path, key: str, progress: Progress | None
    ) -> None:
        self.config, self.world, self.out_dir, self.key = config, world, out_dir, key
        self.first = world.rank == 0
        self.progress = progress if self.first else None
        self.objective: Objective = objectives.make(config)
        self.work = work_folder(out_dir)
        self.started = time.monotonic()

    def go(self, shards: Sequence[Path], dev_shards: Sequence[Path], resume: str) -> TrainResult:
        """Train and export."""
        config = self.config
        check_place(self.out_dir)
        if self.first:
            with writable(self.out_dir):
                tidy(self.out_dir)
        seed = rng(config.seed, "train", config.model).getrandbits(63)
        with quiet(), reproducible(config.threads, seed, strict=self.world.device.type == "cpu"):
            tokenizer, rows, dev_rows = self._rows(shards, dev_shards)
            found = self._encode(rows, dev_rows, tokenizer, [*shards, *dev_shards], len(shards))
            prepare = use_liger if config.liger else None
            model = parallel.materialise(lambda: self._model(tokenizer), self.world, config, prepare)
            layout, why_padded = model.layout, model.why_padded
            self.engine = Engine(
                model,
                self.world,
                self.objective,
                layout=layout,
                pass_tokens=config.pass_tokens,
                pad_id=int(tokenizer.pad_token_id or 0),
            )
            parameters = sum(parameter.numel() for parameter in model.parameters())
            with self._working(resume):
                fit = Fit(
                    config,
                    model,
                    self.engine,
                    found.items,
                    found.dev,
                    data=found.digest,
                    out_dir=self.out_dir,
                    progress=self.progress,
                    resume=resume,
                )
                last, dev = fit.run()
                run: dict[str, Any] = {
                    "format": RUN_FORMAT,
                    "key": self.key,
                    "objective": self.objective.name,
                    "unit": self.objective.unit,
                    "head": self.objective.head,
                    "config": config.as_dict(),
                    "base": fit.base,
                    "counts": {
                        "train": found.account.as_dict(),
                        "dev": found.dev_account.as_dict(),
                        **found.counts,
                        "items": len(found.items),
                        "dev_items": len(found.dev),
                        "parameters": parameters,
                        "steps": fit.steps,
                        "tokens": fit.log.tokens,
                        "computed": self.engine.computed,
                    },
                    "layout": {"used": layout, "why_padded": why_padded, "attention": model.kernel},
                    "metrics": {"last_step": last, "dev": dev},
                    "processes": self.world.size,
                    "device": self._device(),
                    "versions": {
                        "python": platform.python_version(),
                        "torch": torch.__version__,
                        "transformers": transformers.__version__,
                    },
                    "threads": torch.get_num_threads(),
                }
                self._write(model, tokenizer, found, fit.said, run)
        return TrainResult(
            self.out_dir,
            fit.steps,
            len(found.items),
            found.account.by_reason(),
            dev,
            run["seconds"],
            run,
        )

    def _rows(
        self, shards: Sequence[Path], dev_shards: Sequence[Path]
    ) -> tuple[PreTrainedTokenizerFast, list[Any], list[Any]]:
        config, objective = self.config, self.objective
        rows = objective.read(shards)
        dev_rows = objective.read(dev_shards) if dev_shards else []
        if not dev_shards:
            rows, dev_rows = data.hold_out(rows, objective.group, config.dev_share, config.seed)
        if config.model == TINY:
            tokenizer = train_tokenizer(objective.texts(rows), config.vocab_size)
        else:
            tokenizer = load_tokenizer(config.model, config.pad_token)
        return tokenizer, rows, dev_rows

    def _encode(
        self,
        rows: list[Any],
        dev_rows: list[Any],
        tokenizer: PreTrainedTokenizerFast,
        files: Sequence[Path],
        shards: int,
    ) -> _Data:
        items, account = self.objective.encode(rows, tokenizer, "train")
        dev, dev_account = self.objective.encode(dev_rows, tokenizer, "dev")
        if not items:
            raise AssayError(_nothing("training", self.objective, account, shards))
        if len(files) > shards and not dev:
            raise AssayError(_nothing("development", self.objective, dev_account, len(files) - shards))
        digest = " ".join(sorted(file_sha256(path) for path in files))
        return _Data(items, dev, account, dev_account, self.objective.counts(rows), digest)

    def _model(self, tokenizer: PreTrainedTokenizerFast) -> RewardModel:
        return build(
            self.config,
            tokenizer,
            scored=self.objective.head == "score",
            vocabulary=self.objective.needs_vocabulary,
        )

    @contextlib.contextmanager
    def _working(self, resume: str) -> Iterator[None]:
        """The work folder; it stays when the run is to go on from it."""
        with held(self.out_dir) if self.first else contextlib.nullcontext():
            if self.first and resume == "never":
                for left in self.work.iterdir():
                    if left.is_dir():
                        shutil.rmtree(left, ignore_errors=True)
                    elif left.name != LOCK:
                        left.unlink(missing_ok=True)
            self.world.gather(0)
            with self._kept_when_stopped():
                yield

    @contextlib.contextmanager
    def _kept_when_stopped(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self.first and checkpoint.find_latest(self.work) is None:
                shutil.rmtree(self.work, ignore_errors=True)
            raise
        if self.first:
            shutil.rmtree(self.work, ignore_errors=True)

    def _device(self) -> dict[str, Any]:
        if self.world.device.type != "cuda":
            return {"type": self.world.device.type}
        return {
            "type": "cuda",
            "name": torch.cuda.get_device_name(self.world.device),
            "peak_bytes": torch.cuda.max_memory_allocated(self.world.device),
        }

    def _calibrate(self, folder: Path, dev: Sequence[Item], said: Sequence[Found]) -> float | None:
        """Fit a temperature on development rows, and keep it beside the model; None where they are too few,
        or all of one outcome."""
        rows = self.objective.scores(dev, said) if isinstance(self.objective, Verifier) else []
        if len(rows) < FEWEST_TO_CALIBRATE:
            return None
        logits = np.array([row.score for row in rows])
        outcomes = np.array([float(row.resolved) for row in rows])
        if len(set(outcomes.tolist())) < 2:
            return None
        temperature = calibration.fit_temperature(logits, calibration.soft_targets(outcomes))
        if temperature is not None:
            write_calibration(folder, temperature, {"fitted_on": "development rows", "rows": len(rows)})
        return temperature

    def _write(
        self,
        model: RewardModel,
        tokenizer: PreTrainedTokenizerFast,
        found: _Data,
        dev_said: Sequence[Found],
        run: dict[str, Any],
    ) -> None:
        """Write the model's folder; the first process does, with what the others hold."""
        sample = found.items[:_PARITY_ITEMS]
        said = self.engine.infer(sample)
        state = parallel.full_state(model)
        if state is not None and self.config.lora_rank:
            state = lora.merged(state, self.config)
        run["seconds"] = round(time.monotonic() - self.started, 3)
        if not self.first:
            return
        with replacing(self.out_dir) as folder:
            export.export(model, tokenizer, folder, self.config.model, state=state, config=self.config)
            run["metrics"]["export_difference"] = export.check_parity(
                folder, sample, said, precision=self.config.precision
            )
            if isinstance(self.objective, Verifier) and found.dev:
                # One number of a model that is done: it changes no order, only how sure the model says it is.
                run["metrics"]["temperature"] = self._calibrate(folder, found.dev, dev_said)
            run["seconds"] = round(time.monotonic() - self.started, 3)
            data.write_drops(folder / "drops.jsonl", {"train": found.account, "dev": found.dev_account})
            shutil.copyfile(self.work / "train.jsonl", folder / "train.jsonl")
            write_text(folder / "train.toml", to_toml(self.config))
            write_text(folder / "README.md", card.model_card(run))
            write_text(folder / "run.json", json.dumps(run, indent=1) + "\n")


def _nothing(part: str, objective: Objective, account: Account, shards: int) -> str:
    if not account.rows:
        return f"no {part} {objective.unit} in {shards} shard{'s' if shards > 1 else ''}; make some first"
    reasons = ", ".join(f"{count} {reason}" for reason, count in account.by_reason().items())
    first = account.drops[0]
    shown = ": ".join(part for part in (first.id, first.reason, first.detail) if part)
    return f"none of {account.rows} {part} {objective.unit} can be used ({reasons}); the first: {shown}"
