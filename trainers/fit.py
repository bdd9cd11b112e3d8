"""The optimizer steps of a run, from its first one or from where it was stopped.

In: a model, items and settings. Out: trained weights in the model, the lines of the log, and evaluations.
What KTO and DPO compare with is computed before the first step. Checkpoints are written as settings ask,
when a signal asks to stop (`Stopped`), and before a step whose loss is not finite (`AssayError`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from schemas.errors import AssayError
from trainers import checkpoint, signals
from trainers.config import TrainConfig
from trainers.engine import Engine
from trainers.folder import fingerprint, work_folder, writable
from trainers.items import Found, Item
from trainers.log import Log, Progress, trackers
from trainers.model import RewardModel
from trainers.packing import Sampler
from trainers.reference import with_references
from trainers.schedule import learning_rate

INDIFFERENT = (
    *("layout", "pass_tokens", "activation_checkpointing", "attention", "offload", "compile", "liger"),
    *("save_every", "keep_last", "trackers", "threads"),
)
"""Settings that change no result beyond float rounding, so that a run may go on with others."""


class Stopped(KeyboardInterrupt):
    """A signal asked the run to stop; its state was saved."""


class Fit:
    """The optimizer steps of a run."""

    def __init__(
        self,
        config: TrainConfig,
        model: RewardModel,
        engine: Engine,
        items: Sequence[Item],
        dev: Sequence[Item],
        *,
        data: str,
        out_dir: Path,
        progress: Progress | None,
        resume: str,
    ) -> None:
        """
        Args:
            config: resolved settings.
            model: what is trained.
            engine: runs it.
            items: what is trained on.
            dev: what is evaluated on.
            data: says which shards the items are of.
            out_dir: folder of the model; checkpoints and the growing log lie beside it.
            progress: called with each line of the log.
            resume: see `trainers.loop.train`.

        Raises:
            AssayError: a checkpoint is of another run, a tracker is missing, or settings cannot be.
        """
        self.config, self.model, self.engine = config, model, engine
        self.world, self.objective = engine.world, engine.objective
        self.items, self.dev = list(items), list(dev)
        self.out_dir, self.work, self.progress = out_dir, work_folder(out_dir), progress
        self.steps = steps_of(config, len(items))
        # Of the development rows, by the weights that are exported once all steps are taken.
        self.said: list[Found] = []
        self.references: dict[int, list[Item]] = {}
        self.best: float | None = None
        self.sampler = Sampler(
            len(self.items),
            self.config.batch_size,
            self.config.seed,
            [item.share for item in self.items],
            self.config.together,
        )
        config_of_run = {
            name: value for name, value in self.config.as_dict().items() if name not in INDIFFERENT
        }
        # A run that goes on with other weights than it began with would compare with what they never said,
        # and put adapters onto others.
        self.base = fingerprint(config.model)
        self.identity = {**config_of_run, "data": data, **({"base": self.base} if self.base else {})}
        self.optimizer = torch.optim.AdamW(
            optimizer_groups(model, self.config.weight_decay),
            lr=self.config.lr,
            betas=self.config.betas,
            eps=self.config.eps,
            fused=self.world.device.type == "cuda" or None,
        )
        # A schedule or a metric that cannot be is told before hours of preparation.
        self._rate(1)
        self._check_metric()
        self.log = Log(None)
        self._refer()
        self.done = self._load(resume)
        if self.done > self.steps:
            self._note(f"the checkpoint is of step {self.done}, and these settings end at {self.steps}")
            self.steps = self.done
        first = self.world.rank == 0
        tracked = (
            trackers(config.trackers, out_dir.with_name(f"{out_dir.name}.logs"), config_of_run)
            if first
            else []
        )
        with writable(out_dir):
            self.log = Log(self.work / "train.jsonl" if first else None, progress, self.done, tracked)
        self.log.tokens = self._tokens

    def _refer(self) -> None:
        """What the model says before training, of all that any step will compare with it."""
        if not self.objective.referenced:
            return
        key = f"{self.config.model} {self.base} {self.config.seed} {self.config.precision}"
        tell = self.progress

        def told(done: int, rounds: int) -> None:
            if tell is not None:
                tell({"event": "reference", "done": done, "passes": rounds})

        work = self.work
        count = len(self.items)
        everything = with_references(
            self.engine, [*self.items, *self.dev], work / "reference.safetensors", key, told
        )
        self.items, self.dev = everything[:count], everything[count:]
        probe = Sampler(
            len(self.items),
            self.config.batch_size,
            self.config.seed,
            self.sampler.groups,
            self.config.together,
        )
        left = self.steps
        while left > 0:
            epoch, order = probe.epoch, probe.order
            per_epoch = math.ceil(len(self.items) / self.config.batch_size)
            companions = self.objective.companions(self.items, order)
            if companions is None:
                return
            companions = companions[: min(left, per_epoch) * self.config.batch_size]
            path = work / f"reference-{epoch}.safetensors"
            self.references[epoch] = with_references(self.engine, companions, path, key, told)
            left -= per_epoch
            probe.go_to(epoch + 1, 0)

    def _load(self, resume: str) -> int:
        """Go on from the newest checkpoint; the steps that are behind it."""
        self._tokens = 0
        latest = None if resume == "never" else checkpoint.find_latest(self.work, self._note)
        if latest is None:
            return 0
        state = checkpoint.load(
            latest,
            self.model,
            self.optimizer,
            identity=self.identity,
            world=self.world,
            changed=resume == "changed",
        )
        counts = [state.get(name) for name in ("step", "epoch", "at", "tokens", "computed")]
        if not all(type(count) is int and count >= 0 for count in counts) or "best" not in state:
            raise AssayError(f"{latest}: its numbers are not those of a training run; start anew (--clean)")
        self.sampler.go_to(state["epoch"], state["at"])
        self._tokens, self.engine.computed = state["tokens"], state["computed"]
        self.best = state["best"]
        return int(state["step"])

    def _note(self, text: str) -> None:
        if self.progress is not None:
            self.progress({"event": "note", "text": text})

    def _save(self, step: int, metric: float | None = None) -> None:
        with writable(self.out_dir):
            checkpoint.save(
                self.work,
                self.model,
                self.optimizer,
                {
                    "step": step,
                    "epoch": self.sampler.epoch,
                    "at": self.sampler.at,
                    "tokens": self.log.tokens,
                    "computed": self.engine.computed,
                    "best": self.best,
                },
                identity=self.identity,
                world=self.world,
                keep_last=self.config.keep_last,
                best=metric is not None,
            )

    def run(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Take the steps that are left; the last step's line and the last evaluation."""
        line: dict[str, Any] = {}
        dev: dict[str, Any] | None = None
        try:
            with signals.stopping() as stop:
                for step in range(self.done + 1, self.steps + 1):
                    line = self._step(step)
                    final = step == self.steps
                    every = self.config.eval_every
                    if self.dev and (final or (every and step % every == 0)):
                        dev = self._evaluate(step)
                    saves = self.config.save_every
                    if saves and step % saves == 0 and not final:
                        self._save(step)
                    if self.world.most(int(stop.asked)) and not final:
                        if not (saves and step % saves == 0):
                            self._save(step)
                        raise Stopped(f"stopped after step {step} of {self.steps}; the same command goes on")
                if self.done == self.steps:
                    line = self.log.last.get("step", {})
                    dev = self._evaluate(self.steps) if self.dev else None
            if self.config.keep_best:
                dev = self._take_best(dev)
        finally:
            self.log.close()
        return {name: value for name, value in line.items() if name not in ("event", "seconds")}, dev

    def _check_metric(self) -> None:
        """Whether the development rows have the metric that chooses, whatever the model will say of them: it
        would be told after the training otherwise. One of two classes has none where all rows are of one."""
        name = self.config.keep_best
        if not name:
            return
        if not self.dev:
            raise AssayError("train.keep_best: there are no development rows; raise train.dev_share")
        draw = np.random.default_rng(0)
        items, found = [], []
        for item in self.dev:
            said = [-draw.random(len(targets), dtype=np.float32) for targets in item.targets]
            items.append(dataclasses.replace(item, reference=tuple(np.zeros_like(part) for part in said)))
            found.append(Found(draw.random(len(item.sequences), dtype=np.float32), tuple(said)))
        checkpoint.metric_of(self.objective.evaluate(items, found, self.config.seed), name)

    def _step(self, step: int) -> dict[str, Any]:
        config, objective = self.config, self.objective
        epoch, places, indices = next(self.sampler)
        items = [self.items[index] for index in indices]
        totals = objective.totals(items)
        companions = self.references.get(epoch)
        context: dict[str, float] = {}
        if companions is not None:
            beside = companions[places]
            context = objective.context(beside, self.engine.infer(beside))
        rate = self._rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss, sums = self.engine.accumulate(items, totals, context)
        norm = self.world.clip(self.model, config.clip)
        if not math.isfinite(loss) or not math.isfinite(norm):
            self._fail(step, loss, norm, items)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return self.log.step(
            {
                "step": step,
                "steps": self.steps,
                "epoch": epoch,
                "loss": loss,
                **objective.statistics(sums, totals, context),
                "grad_norm": norm,
                "lr": rate,
                "tokens": sum(item.tokens for item in items),
                "computed": self.engine.computed,
            }
        )

    def _rate(self, step: int) -> float:
        config = self.config
        return learning_rate(
            step - 1,
            self.steps,
            config.lr,
            config.warmup_ratio,
            config.min_lr_ratio,
            config.schedule,
            config.decay_ratio,
        )

    def _fail(self, step: int, loss: float, norm: float, items: Sequence[Item]) -> None:
        """Save the state before the step that failed, and say which rows were in it."""
        self.optimizer.zero_grad(set_to_none=True)
        names = self.engine.broken or tuple(item.idx for item in items)
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        saved = ""
        if step > 1:
            self._save(step - 1)
            saved = f"; the state before it is in {self.work.name}"
        raise AssayError(
            f"step {step} of {self.steps}: the loss is {loss} and the gradient norm {norm}, with the "
            f"{self.objective.unit} {shown}{saved}; lower train.lr or raise train.warmup_ratio"
        )

    def _judge(self) -> dict[str, Any]:
        self.said = self.engine.infer(self.dev)
        return self.objective.evaluate(self.dev, self.said, self.config.seed)

    def _evaluate(self, step: int) -> dict[str, Any]:
        result = self._judge()
        self.log.evaluation(step, result)
        if self.config.keep_best:
            # Scores that are all the same may have none, such as no correlation. Any other is better.
            said = result[self.config.keep_best]
            value = math.nan if said is None else float(said)
            if self.best is None or checkpoint.better(self.config.keep_best, value, self.best):
                self.best = value
                self._save(step, value)
        return result

    def _take_best(self, dev: dict[str, Any] | None) -> dict[str, Any] | None:
        best = checkpoint.find_best(self.work)
        if best is None:
            self._note(
                f"{self.work}: the best checkpoint is missing or damaged; the last weights are exported"
            )
            return dev
        checkpoint.load(best, self.model, None, identity=self.identity, world=self.world, changed=True)
        return self._judge()


def steps_of(config: TrainConfig, items: int) -> int:
    """Optimizer steps of a run; the last step of an epoch may hold fewer items."""
    return config.max_steps or config.epochs * math.ceil(items / config.batch_size)


def optimizer_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameters with and without decay: none for norms and biases (vectors) and the score head."""
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        plain = parameter.ndim < 2 or name.startswith("score.")
        (free if plain else decayed).append(parameter)
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
