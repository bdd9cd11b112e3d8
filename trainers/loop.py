"""Train a reward model: a plain torch loop in float32.

In: a `TrainConfig` and shards of pairs. Out: a folder with the model (see `trainers.export`), the
tokenizer, `README.md`, `run.json` (config, counts, metrics), `train.toml` (the resolved config),
`train.jsonl` (one line a step) and `drops.jsonl` (one line a pair that was not trained on).
All is written to a temporary folder beside it and renamed at the end: there is a whole model or none.

Every loss term is divided by a count of the whole optimizer step, so a step does not depend on how
it is cut into forward passes, nor on how pairs lie in them. Equal inputs, seed and threads give
bit-equal weights.

Raises `AssayError` when there is nothing to train on, when the loss is no longer finite, when a model
or tokenizer does not fit, when the folder cannot be written, and when the exported model scores
otherwise than the trained one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
import transformers
from safetensors import SafetensorError
from torch import nn
from transformers import PreTrainedTokenizerFast

from schemas.config import to_toml
from schemas.errors import AssayError
from schemas.ids import rng
from schemas.shards import write_text
from trainers import card, data, losses, metrics
from trainers.config import TINY, TrainConfig
from trainers.data import Account, Batch, PackedBatch, Pair, TokenPair
from trainers.environment import quiet, reproducible
from trainers.export import check_parity, export
from trainers.model import RewardModel, build
from trainers.packing import Sampler, layout, micro_batches
from trainers.schedule import learning_rate
from trainers.tokenizer import first_line, load_tokenizer, train_tokenizer

Progress = Callable[[dict[str, Any]], None]

RUN_FORMAT = 1
_PARITY_PAIRS = 4


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What a training run made.

    Attributes:
        out_dir: the model's folder.
        steps: optimizer steps.
        pairs: pairs trained on.
        dropped: training pairs dropped, by reason.
        dev: statistics of the development pairs (`metrics.summary`), None when there are none.
        seconds: wall time.
        run: the content of `run.json`.
    """

    out_dir: Path
    steps: int
    pairs: int
    dropped: dict[str, int]
    dev: dict[str, Any] | None
    seconds: float
    run: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class StepStats:
    """Means over the pairs (or completion tokens, for `lm`) of one optimizer step; `tokens` of both sides
    of all pairs, and how many positions were `computed` for them."""

    loss: float
    bt: float
    lm: float
    magnitude: float
    accuracy: float
    margin: float
    tokens: int
    computed: int


def train(
    config: TrainConfig,
    train_shards: Sequence[Path],
    out_dir: Path,
    *,
    dev_shards: Sequence[Path] = (),
    key: str = "",
    progress: Progress | None = None,
) -> TrainResult:
    """Train a reward model and write it to `out_dir`, replacing a model that an earlier run left there.

    Args:
        config: settings.
        train_shards: Parquet shards of pairs, in any order.
        out_dir: folder of the model.
        dev_shards: shards of pairs to evaluate on; when none are given, `config.dev_share` of the
            training commits are held out.
        key: kept in `run.json` for the caller, who may compare it to know whether to train again.
        progress: called with each line of `train.jsonl` as it is written.

    Raises:
        AssayError: see the module.
    """
    started = time.monotonic()
    config = config.resolved()
    seed = rng(config.seed, "train", config.model).getrandbits(63)
    with (
        quiet(),
        reproducible(config.threads, seed),
        _replacing_folder(Path(out_dir)) as folder,
        (folder / "train.jsonl").open("w") as lines,
    ):
        log = _Log(lines, started, progress)
        corpus = data.read_pairs(train_shards)
        held_out = data.read_pairs(dev_shards)
        if not dev_shards:
            corpus, held_out = data.hold_out(corpus, config.dev_share, config.seed)
        tokenizer = _tokenizer(config, corpus)
        cutting = data.Cutting.of(config)
        pairs, account = data.encode_pairs(corpus, tokenizer, cutting)
        dev, dev_account = data.encode_pairs(held_out, tokenizer, cutting)
        if not pairs:
            raise AssayError(_nothing(account, len(train_shards)))
        model = build(config, tokenizer)
        pad_id = int(tokenizer.pad_token_id or 0)
        last = _fit(model, pairs, dev, config, pad_id, log)
        sample = [side for pair in pairs[:_PARITY_PAIRS] for side in (pair.chosen, pair.rejected)]
        export(model, tokenizer, folder, config.model)
        parity = check_parity(model, folder, sample)
        steps = _steps(config, len(pairs))
        run: dict[str, Any] = {
            "format": RUN_FORMAT,
            "key": key,
            "config": config.as_dict(),
            "counts": {
                "train": account.as_dict(),
                "dev": dev_account.as_dict(),
                "aspects": data.count_by([pair.pair for pair in pairs], "aspect"),
                "languages": data.count_by([pair.pair for pair in pairs], "language"),
                "licenses": data.count_by([pair.pair for pair in pairs], "license"),
                "parameters": sum(p.numel() for p in model.parameters()),
                "steps": steps,
                "tokens": log.tokens,
                "computed": log.computed,
            },
            "layout": {"used": model.layout, "why_padded": model.why_padded},
            "metrics": {"last_step": last, "dev": log.dev, "export_difference": parity},
            "versions": {
                "python": platform.python_version(),
                "torch": torch.__version__,
                "transformers": transformers.__version__,
            },
            "threads": torch.get_num_threads(),
            "seconds": round(time.monotonic() - started, 3),
        }
        data.write_drops(folder / "drops.jsonl", {"train": account, "dev": dev_account})
        write_text(folder / "train.toml", to_toml(config))
        write_text(folder / "README.md", card.model_card(run))
        write_text(folder / "run.json", json.dumps(run, indent=1) + "\n")
    return TrainResult(Path(out_dir), steps, len(pairs), account.by_reason(), log.dev, run["seconds"], run)


def _tokenizer(config: TrainConfig, corpus: Sequence[Pair]) -> PreTrainedTokenizerFast:
    if config.model != TINY:
        return load_tokenizer(config.model, config.pad_token)
    # Both sides: a tokenizer that has seen only chosen code would need fewer tokens for it, and length
    # would tell the sides apart.
    texts = (text for p in corpus for text in (p.system, p.input, p.chosen, p.rejected))
    return train_tokenizer(texts, config.vocab_size)


def _nothing(account: Account, shards: int) -> str:
    if not account.rows:
        return f"no training pairs in {shards} shards; build pairs first"
    reasons = ", ".join(f"{count} {reason}" for reason, count in account.by_reason().items())
    return f"none of {account.rows} training pairs can be used ({reasons}); see their sides"


def _steps(config: TrainConfig, pairs: int) -> int:
    """Optimizer steps of a run; the last step of an epoch may hold fewer pairs."""
    per_epoch = math.ceil(pairs / (config.batch_pairs * config.accumulation))
    return config.max_steps or config.epochs * per_epoch


def passes(
    model: RewardModel, pairs: Sequence[TokenPair], config: TrainConfig, pad_id: int
) -> Iterator[Batch | PackedBatch]:
    """The micro-batches of one optimizer step, in the model's layout."""
    if model.layout == "padded":
        # Pairs of like length share a pass, which saves padding and changes no sum.
        ordered = sorted(pairs, key=lambda pair: pair.length)
        for part in data.batches(ordered, config.batch_pairs):
            yield data.collate(part, pad_id)
        return
    share = model.layout == "prefix"
    costs = [pair.unique_tokens if share else pair.tokens for pair in pairs]
    for indices in micro_batches(costs, config.pass_tokens):
        yield data.collate_packed([pairs[index] for index in indices], share)


def accumulate(model: RewardModel, pairs: Sequence[TokenPair], config: TrainConfig, pad_id: int) -> StepStats:
    """Add the gradient of one optimizer step over `pairs`; `config` is a resolved one."""
    lm_tokens = sum(pair.lm_tokens for pair in pairs)
    sums = np.zeros(6)
    computed = 0
    for batch in passes(model, pairs, config, pad_id):
        output = model(batch, with_lm=config.lm_weight > 0)
        bt = losses.bradley_terry(output.chosen, output.rejected, config.margin, config.label_smoothing).sum()
        magnitude = losses.magnitude(output.chosen, output.rejected, config.magnitude).sum()
        loss = losses.objective(
            bt,
            output.lm,
            magnitude,
            pairs=len(pairs),
            lm_tokens=lm_tokens,
            lm_weight=config.lm_weight,
            mu=config.magnitude_weight,
        )
        torch.autograd.backward(loss)
        margins = (output.chosen - output.rejected).detach().double().numpy()
        right = metrics.credits_of(margins).sum()
        sums += [float(x) for x in (loss.detach(), bt.detach(), output.lm.detach(), magnitude.detach())] + [
            right,
            margins.sum(),
        ]
        computed += batch.computed
    loss_sum, bt_sum, lm_sum, magnitude_sum, right_sum, margin_sum = sums.tolist()
    count = len(pairs)
    return StepStats(
        loss=loss_sum,
        bt=bt_sum / count,
        lm=lm_sum / max(1, lm_tokens),
        magnitude=magnitude_sum / count,
        accuracy=right_sum / count,
        margin=margin_sum / count,
        tokens=sum(pair.tokens for pair in pairs),
        computed=computed,
    )


def optimizer_groups(model: RewardModel, weight_decay: float) -> list[dict[str, Any]]:
    """Parameters with and without decay: none for norms and biases (vectors) and the score head."""
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        plain = parameter.ndim < 2 or name.startswith("score.")
        (free if plain else decayed).append(parameter)
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]


def _fit(
    model: RewardModel,
    pairs: Sequence[TokenPair],
    dev: Sequence[TokenPair],
    config: TrainConfig,
    pad_id: int,
    log: _Log,
) -> dict[str, Any]:
    steps = _steps(config, len(pairs))
    optimizer = torch.optim.AdamW(
        optimizer_groups(model, config.weight_decay), lr=config.lr, betas=config.betas, eps=config.eps
    )
    line: dict[str, Any] = {}
    sampler = Sampler(len(pairs), config.batch_pairs * config.accumulation, config.seed)
    for step in range(steps):
        epoch, indices = next(sampler)
        chunk = [pairs[index] for index in indices]
        rate = learning_rate(step, steps, config.lr, config.warmup_ratio, config.min_lr_ratio)
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.train()
        stats = accumulate(model, chunk, config, pad_id)
        norm = float(nn.utils.clip_grad_norm_(model.parameters(), config.clip or math.inf))
        if not math.isfinite(stats.loss) or not math.isfinite(norm):
            raise AssayError(
                f"step {step + 1} of {steps}: the loss is {stats.loss} and the gradient norm {norm}; "
                "lower train.lr or raise train.warmup_ratio"
            )
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        line = {
            "event": "step",
            "step": step + 1,
            "steps": steps,
            "epoch": epoch,
            **dataclasses.asdict(stats),
            "grad_norm": norm,
            "lr": rate,
        }
        line = log.step(line)
        final = step + 1 == steps
        if dev and (final or (config.eval_every and (step + 1) % config.eval_every == 0)):
            log.evaluation(step + 1, evaluate_pairs(model, dev, config, pad_id))
    return {key: value for key, value in line.items() if key not in ("event", "seconds")}


def evaluate_pairs(
    model: RewardModel, pairs: Sequence[TokenPair], config: TrainConfig, pad_id: int
) -> dict[str, Any]:
    """`metrics.summary` of pairs that were held out."""
    model.eval()
    order = sorted(range(len(pairs)), key=lambda index: pairs[index].length)
    scores = np.zeros((len(pairs), 2))
    with torch.inference_mode():
        for part in data.batches(order, max(1, config.eval_batch // 2)):
            sides = [(pairs[index].chosen, pairs[index].rejected) for index in part]
            if model.layout == "padded":
                ids, mask = data.pad([side for pair in sides for side in pair], pad_id)
                rewards = model.rewards(ids, mask)
            else:
                rewards = model.packed_rewards(layout(sides, model.layout == "prefix"))
            scores[list(part)] = rewards.double().numpy().reshape(-1, 2)
    return metrics.summary(scores[:, 0], scores[:, 1], config.seed, "dev")


class _Log:
    """`train.jsonl` and the progress callback: one dict a line, the same for both."""

    def __init__(self, lines: TextIO, started: float, progress: Progress | None) -> None:
        self._file, self._started, self._progress = lines, started, progress
        self.tokens = self.computed = 0
        self.dev: dict[str, Any] | None = None

    def _emit(self, line: dict[str, Any]) -> dict[str, Any]:
        line["seconds"] = round(time.monotonic() - self._started, 3)
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        if self._progress is not None:
            self._progress(line)
        return line

    def step(self, line: dict[str, Any]) -> dict[str, Any]:
        """Log a step; its `tokens` and `computed` become those since the start."""
        self.tokens += int(line["tokens"])
        self.computed += int(line["computed"])
        return self._emit({**line, "tokens": self.tokens, "computed": self.computed})

    def evaluation(self, step: int, result: dict[str, Any]) -> None:
        """Log an evaluation and remember it as the newest."""
        self.dev = result
        self._emit({"event": "dev", "step": step, **result})


@contextlib.contextmanager
def _replacing_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path` that takes its place on success and vanishes on an error.

    Raises:
        AssayError: `path` is something that no training run made, or it cannot be written.
    """
    try:
        with _fresh_folder(path) as fresh:
            yield fresh
    except BrokenPipeError:
        # It is of whoever watches the progress.
        raise
    except (OSError, SafetensorError) as error:
        # safetensors has an error of its own for a full disk.
        why = getattr(error, "strerror", None) or first_line(error)
        raise AssayError(
            f"{path}: the model cannot be written ({why}); free the place or its rights"
        ) from None


@contextlib.contextmanager
def _fresh_folder(path: Path) -> Iterator[Path]:
    if path.exists() and not (path / "run.json").is_file():
        raise AssayError(f"{path}: exists and is not a trained model; give another output folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.name}.*.partial"):
        # What a killed process left; a live one's stays.
        if _alive(left.name.split(".")[-2]):
            continue
        if ".old." in left.name and not path.exists():
            # Killed between the two renames: the older model is whole and takes its place again.
            left.rename(path)
        else:
            shutil.rmtree(left, ignore_errors=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.partial")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        yield fresh
        # A folder cannot be renamed onto one with files in it, so the old model steps aside first.
        old = path.with_name(f".{path.name}.old.{os.getpid()}.partial")
        if path.exists():
            path.rename(old)
        try:
            fresh.rename(path)
        except BaseException:
            if old.exists():
                old.rename(path)
            raise
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
