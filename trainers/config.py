"""What a training run is told: one frozen `TrainConfig` of plain values that TOML can hold.

In: a mapping from a recipe. Out: a checked config, or an `AssayError` that names the key. Light on
purpose: no torch here, so that a command line can build and check a config in no time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from schemas.config import from_mapping
from schemas.errors import AssayError

OBJECTIVES = ("bt",)
TRUNCATIONS = ("difference", "head")
LONG_PROMPTS = ("cut", "drop")
MAGNITUDES = ("centered", "abs")
LAYOUTS = ("auto", "prefix", "packed", "padded")
TINY = "tiny"


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Settings of one training run. Defaults are those of Themis's code stage (2605.00754, table 5)
    where a model is fine-tuned, and of a run of seconds on two cores where `model` is `tiny`.

    Attributes:
        objective: `bt`: Bradley-Terry with a language-model and a magnitude term.
        model: `tiny` (a two-layer Qwen3 made from scratch, tokenizer trained on the shards), or a
            local folder or Hub id of a causal language model or of a reward model made by this package.
        pad_token: token to pad with, for a tokenizer whose pad token is missing or equals its end
            token; empty keeps the tokenizer's own.
        vocab_size: entries of the tokenizer that `tiny` trains, at most.
        max_length: tokens of prompt and completion together; 0 picks 384 for `tiny`, else 4096.
        truncation: what stays of completions that do not fit: `difference` keeps a window around the
            first token in which the two differ, `head` keeps the beginning.
        min_completion: tokens of `max_length` that a completion gets when it needs them, however long
            the prompt is; 0 picks half of `max_length`.
        long_prompt: what becomes of a prompt that leaves fewer: `cut` takes tokens out of its middle,
            `drop` drops the pair.
        batch_pairs: an optimizer step has `batch_pairs * accumulation` pairs; of the padded layout, pairs
            in one forward pass.
        accumulation: see `batch_pairs`; the result does not depend on how a step is cut into passes.
        layout: how pairs lie in a pass. `prefix`: in one row without padding, where the longest common
            beginning of both sides stands once; `packed`: without padding; `padded`; `auto`: `prefix`
            where the model allows it, else `padded`, and `run.json` says why. All give the same result.
        pass_tokens: most tokens in one forward pass, unless one pair has more; what both sides share counts
            once. 0 picks `2 * max_length * batch_pairs`, as many as a padded pass may have.
        epochs: passes over the training pairs, when `max_steps` is 0; 0 picks 2 for `tiny`, else 1.
        max_steps: optimizer steps; 0 means whole epochs.
        lr: peak learning rate; 0 picks 2e-3 for `tiny`, else 1e-5.
        min_lr_ratio: the schedule ends at this share of `lr`.
        warmup_ratio: share of the steps in which the rate rises to `lr`.
        weight_decay: AdamW's decay; never on norms, biases or the score head.
        betas: AdamW's two decay rates.
        eps: AdamW's epsilon.
        clip: largest gradient norm; 0 clips nothing.
        lm_weight: lambda, weight of the language-model term.
        magnitude_weight: mu, weight of the magnitude term.
        magnitude: `centered` pulls the sum of a pair's rewards to zero, `abs` pulls both to zero.
        margin: reward difference below which a pair still counts as wrong in the loss.
        label_smoothing: probability that a pair's label is taken to be the wrong way round.
        dev_share: share of the commits held out for development when no development shards are given.
        eval_every: steps between evaluations on development pairs; 0 evaluates at the end only.
        eval_batch: sequences in one forward pass of an evaluation.
        seed: seed of every draw.
        threads: CPU threads; weights are bit-equal for equal numbers. 0 picks 1 for `tiny`, which gains
            little from more and so trains to the same bits on any number of cores, else torch's own.
    """

    objective: str = "bt"
    model: str = TINY
    pad_token: str = ""
    vocab_size: int = 2048
    max_length: int = 0
    truncation: str = "difference"
    min_completion: int = 0
    long_prompt: str = "cut"
    batch_pairs: int = 4
    accumulation: int = 1
    layout: str = "auto"
    pass_tokens: int = 0
    epochs: int = 0
    max_steps: int = 0
    lr: float = 0.0
    min_lr_ratio: float = 0.05
    warmup_ratio: float = 0.05
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    clip: float = 1.5
    lm_weight: float = 0.25
    magnitude_weight: float = 0.001
    magnitude: str = "centered"
    margin: float = 0.0
    label_smoothing: float = 0.0
    dev_share: float = 0.1
    eval_every: int = 0
    eval_batch: int = 16
    seed: int = 0
    threads: int = 0

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            AssayError: names the key, the value and what is allowed.
        """
        _one_of("objective", self.objective, OBJECTIVES)
        _one_of("truncation", self.truncation, TRUNCATIONS)
        _one_of("long_prompt", self.long_prompt, LONG_PROMPTS)
        _one_of("magnitude", self.magnitude, MAGNITUDES)
        _one_of("layout", self.layout, LAYOUTS)
        if not self.model:
            raise AssayError("train.model: is empty; give `tiny`, a model folder or a Hub id")
        for name in ("batch_pairs", "accumulation", "eval_batch"):
            _within(name, getattr(self, name), 1, None)
        for name in ("max_length", "min_completion", "max_steps", "lr", "weight_decay", "clip", "lm_weight"):
            _within(name, getattr(self, name), 0, None)
        for name in ("magnitude_weight", "epochs", "eval_every", "threads", "margin", "pass_tokens"):
            _within(name, getattr(self, name), 0, None)
        for name in ("min_lr_ratio", "warmup_ratio"):
            _within(name, getattr(self, name), 0, 1)
        _within("label_smoothing", self.label_smoothing, 0, 0.5)
        _within("dev_share", self.dev_share, 0, 0.9)
        # 256 bytes and the three special tokens are in any byte-level vocabulary.
        _within("vocab_size", self.vocab_size, 512, 1 << 20)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise AssayError(f"train.betas: {list(self.betas)} must be two numbers from 0 to below 1")
        if not self.eps > 0:
            raise AssayError(f"train.eps: {self.eps} must be above 0")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> TrainConfig:
        """A config from a recipe's table.

        Raises:
            AssayError: an unknown key (with the nearest known one), a wrong type or a bad value.
        """
        return from_mapping(cls, values, "train")

    def resolved(self) -> TrainConfig:
        """The same config with every 0 that stands for a choice replaced by that choice."""
        tiny = self.model == TINY
        max_length = self.max_length or (384 if tiny else 4096)
        return dataclasses.replace(
            self,
            epochs=self.epochs or (2 if tiny else 1),
            lr=self.lr or (2e-3 if tiny else 1e-5),
            max_length=max_length,
            min_completion=self.min_completion or max_length // 2,
            pass_tokens=self.pass_tokens or 2 * max_length * self.batch_pairs,
            threads=self.threads or (1 if tiny else 0),
        )

    def as_dict(self) -> dict[str, Any]:
        """The config as plain JSON-like values."""
        return {**dataclasses.asdict(self), "betas": list(self.betas)}


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise AssayError(f"train.{name}: {value!r} is not known; use {' or '.join(allowed)}")


def _within(name: str, value: float, low: float, high: float | None) -> None:
    if value < low or (high is not None and value > high):
        wanted = f"at least {low}" if high is None else f"from {low} to {high}"
        raise AssayError(f"train.{name}: {value} must be {wanted}")
