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

OBJECTIVES = ("bt", "dpo", "kto", "step-kto", "yesno", "joint", "pointwise")
TRUNCATIONS = ("difference", "head")
LONG_PROMPTS = ("cut", "drop")
MAGNITUDES = ("centered", "abs")
LAYOUTS = ("auto", "prefix", "packed", "padded")
PRECISIONS = ("fp32", "bf16")
SCHEDULES = ("cosine", "wsd")
KERNELS = ("auto", "segments", "varlen", "flash")
STEP_LABELS = ("label", "reference_label", "suite_label", "own_label", "judge_label")
STEP_REFERENCES = ("per_step", "zero", "shared")
REGRESSIONS = ("mse", "huber", "bce")
TRACKERS = ("tensorboard", "wandb")
TINY = "tiny"

REFERENCED = ("dpo", "kto", "step-kto")
"""Objectives that compare the model with what it was before training."""

_CHOICES = {
    "objective": OBJECTIVES,
    "truncation": TRUNCATIONS,
    "long_prompt": LONG_PROMPTS,
    "magnitude": MAGNITUDES,
    "layout": LAYOUTS,
    "precision": PRECISIONS,
    "schedule": SCHEDULES,
    "attention": KERNELS,
    "step_label": STEP_LABELS,
    "step_reference": STEP_REFERENCES,
    "conflicts": ("keep", "mask"),
    "margin_by": ("constant", "strength"),
    "regression": REGRESSIONS,
}
_NOT_NEGATIVE = (
    *(
        "max_length",
        "min_completion",
        "max_steps",
        "lr",
        "weight_decay",
        "clip",
        "lm_weight",
        "magnitude_weight",
    ),
    *("epochs", "eval_every", "save_every", "threads", "margin", "pass_tokens", "desirable_weight"),
    *("undesirable_weight", "step_weight", "positives", "rank_weight", "class_weight", "brier_weight"),
    *("lora_rank", "lora_alpha"),
)


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Settings of one training run. Defaults are those of Themis's code stage (2605.00754, table 5)
    where a model is fine-tuned, and of a run of seconds on two cores where `model` is `tiny`.

    Attributes:
        objective: what is minimised. Of pairs: `bt` (Bradley-Terry with a language-model and a magnitude
            term) or `dpo`. Of programs with step labels: `step-kto` (KTO on outcomes and functions) or `kto`.
            Of trajectories: `yesno` (the token that says whether the task is resolved) or `joint` (that, with
            ranking inside a task and a Brier term). Of any rows with a number: `pointwise`.
        model: `tiny` (a two-layer Qwen3 made from scratch, tokenizer trained on the shards), or a
            local folder or Hub id of a causal language model or of a model made by this package.
        pad_token: token to pad with, for a tokenizer whose pad token is missing or equals its end
            token; empty keeps the tokenizer's own.
        vocab_size: entries of the tokenizer that `tiny` trains, at most.
        max_length: tokens of prompt and completion together; 0 picks 384 for `tiny`, else 4096.
        truncation: what stays of completions that do not fit: `difference` keeps a window around the
            first token in which the two of a pair differ, `head` keeps the beginning.
        min_completion: tokens of `max_length` that a completion gets when it needs them, however long
            the prompt is; 0 picks half of `max_length`.
        long_prompt: what becomes of a prompt that leaves fewer: `cut` takes tokens out of its middle,
            `drop` drops the row.
        batch_size: pairs, completions or tasks of an optimizer step, over all processes.
        layout: how sequences lie in a pass. `prefix`: in one row without padding, where a common beginning
            stands once; `packed`: without padding; `padded`; `auto`: `prefix` where the model allows it, else
            `padded`, and `run.json` says why. All give the same result.
        pass_tokens: most positions in one forward pass, unless one example has more; what sequences share
            counts once. 0 picks `8 * max_length`. It bounds memory and never changes a result.
        epochs: passes over the training rows, when `max_steps` is 0; 0 picks 2 for `tiny`, else 1.
        max_steps: optimizer steps; 0 means whole epochs.
        lr: peak learning rate; 0 picks 2e-3 for `tiny`, else 1e-6 for `dpo`, `kto` and `step-kto` and 1e-5
            for the others.
        schedule: `cosine` falls from the peak to the floor; `wsd` stays at the peak and falls at the end.
        min_lr_ratio: the schedule ends at this share of `lr`.
        warmup_ratio: share of the steps in which the rate rises to `lr`.
        decay_ratio: share of the steps in which a `wsd` schedule falls.
        weight_decay: AdamW's decay; never on norms, biases or the score head.
        betas: AdamW's two decay rates.
        eps: AdamW's epsilon.
        clip: largest gradient norm; 0 clips nothing.
        lm_weight: lambda of `bt`, weight of the language-model term.
        magnitude_weight: mu of `bt`, weight of the magnitude term.
        magnitude: `centered` pulls the sum of a pair's rewards to zero, `abs` pulls both to zero.
        margin: of `bt`, reward difference below which a pair still counts as wrong in the loss.
        margin_by: `constant`, or `strength`: the margin times a fifth of `evidence.strength` (the judges' 1
            to 5), whole where a pair has none.
        label_smoothing: of `bt` and `dpo`, probability that a pair's label is the wrong way round.
        soft_labels: of `bt`, whether `evidence.confidence` of a pair is the probability that its label is
            right.
        beta: of `dpo`, `kto` and `step-kto`, factor of the log-ratio of model and reference.
        desirable_weight: of KTO, weight of right programs and functions.
        undesirable_weight: of KTO, weight of wrong ones.
        step_weight: lambda of `step-kto`, weight of the term over functions.
        step_label: column of a function's label.
        step_reference: reference point of functions: `per_step` (the mean log-ratio of mismatched functions),
            `shared` (the programs' own) or `zero`.
        conflicts: functions whose label contradicts the program's outcome: `keep` or `mask` them.
        together: candidates of one task that are drawn into the same step, and share its prompt; of `joint`,
            most candidates of a task that are ranked together.
        yes_token: token of a resolved trajectory.
        no_token: token of one that is not.
        temperature: divides the difference of their logits, in the loss and in the exported probability.
        positives: resolved trajectories to each unresolved one in training; the surplus is left out by a
            seeded draw. 0 keeps all.
        policies: share of the training trajectories that each policy gets, as `name=share`; others are left
            out. Empty keeps all.
        rank_weight: of `joint`, weight of the ranking term.
        class_weight: of `joint`, weight of the classification term.
        brier_weight: of `joint`, weight of the Brier term.
        target: of `pointwise`, column of the number that the score should be.
        regression: of `pointwise`, `mse`, `huber` or `bce` (targets from 0 to 1, score is a logit).
        precision: `fp32`, or `bf16` for the passes with weights, gradients' sums and optimizer in float32.
        activation_checkpointing: compute activations again in the backward pass instead of keeping them.
        attention: what computes a packed row: `segments` (torch's kernel a segment), `varlen` (torch's kernel
            for rows of variable length, CUDA), `flash` (flash-attn's, CUDA), or `auto`, the first of
            `varlen` and `segments` that gives this model the right result on this machine.
        offload: keep weights and optimizer in the machine's memory and not the accelerator's.
        compile: compile each block; the first step takes minutes.
        liger: use Liger's kernels for norms, rotations and MLPs (CUDA, needs `liger-kernel`).
        lora_rank: rank of LoRA adapters (needs `peft`), merged when exported; 0 trains all weights.
        lora_alpha: scale of the adapters; 0 picks twice the rank.
        lora_targets: names of the linear layers that get them; empty means all of the blocks.
        dev_share: share of the groups (commits, problems, instances) held out for development when no
            development shards are given.
        eval_every: steps between evaluations on development rows; 0 evaluates at the end only.
        save_every: steps between checkpoints; 0 saves only when the run is stopped.
        keep_last: newest checkpoints that stay.
        keep_best: metric of the development rows by which the exported weights are chosen, such as
            `accuracy`; empty exports the last ones.
        trackers: where steps are logged too: `tensorboard`, `wandb`.
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
    batch_size: int = 4
    layout: str = "auto"
    pass_tokens: int = 0
    epochs: int = 0
    max_steps: int = 0
    lr: float = 0.0
    schedule: str = "cosine"
    min_lr_ratio: float = 0.05
    warmup_ratio: float = 0.05
    decay_ratio: float = 0.2
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    clip: float = 1.5
    lm_weight: float = 0.25
    magnitude_weight: float = 0.001
    magnitude: str = "centered"
    margin: float = 0.0
    margin_by: str = "constant"
    label_smoothing: float = 0.0
    soft_labels: bool = False
    beta: float = 0.1
    desirable_weight: float = 1.0
    undesirable_weight: float = 1.0
    step_weight: float = 1.0
    step_label: str = "label"
    step_reference: str = "per_step"
    conflicts: str = "keep"
    together: int = 4
    yes_token: str = "YES"  # noqa: S105
    no_token: str = "NO"  # noqa: S105
    temperature: float = 1.0
    positives: float = 0.0
    policies: tuple[str, ...] = ()
    rank_weight: float = 1.0
    class_weight: float = 1.0
    brier_weight: float = 1.0
    target: str = "score"
    regression: str = "mse"
    precision: str = "fp32"
    activation_checkpointing: bool = False
    attention: str = "auto"
    offload: bool = False
    compile: bool = False
    liger: bool = False
    lora_rank: int = 0
    lora_alpha: float = 0.0
    lora_targets: tuple[str, ...] = ()
    dev_share: float = 0.1
    eval_every: int = 0
    save_every: int = 0
    keep_last: int = 1
    keep_best: str = ""
    trackers: tuple[str, ...] = ()
    seed: int = 0
    threads: int = 0

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            AssayError: names the key, the value and what is allowed.
        """
        for name, allowed in _CHOICES.items():
            _one_of(name, getattr(self, name), allowed)
        if not self.model:
            raise AssayError("train.model: is empty; give `tiny`, a model folder or a Hub id")
        for name in ("batch_size", "together", "keep_last"):
            _within(name, getattr(self, name), 1, None)
        for name in _NOT_NEGATIVE:
            _within(name, getattr(self, name), 0, None)
        for name in ("min_lr_ratio", "warmup_ratio", "decay_ratio"):
            _within(name, getattr(self, name), 0, 1)
        _within("label_smoothing", self.label_smoothing, 0, 0.5)
        _within("dev_share", self.dev_share, 0, 0.9)
        # Each is started, and a machine that has no more fails in places that have nothing to do with it.
        _within("threads", self.threads, 0, 1024)
        for name in ("beta", "temperature"):
            if not getattr(self, name) > 0:
                raise AssayError(f"train.{name}: {getattr(self, name)} must be above 0")
        for tracker in self.trackers:
            _one_of("trackers", tracker, TRACKERS)
        if self.yes_token == self.no_token:
            raise AssayError(f"train.no_token: {self.no_token!r} is also train.yes_token; name two tokens")
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
            lr=self.lr or (2e-3 if tiny else 1e-6 if self.objective in REFERENCED else 1e-5),
            max_length=max_length,
            min_completion=self.min_completion or max_length // 2,
            pass_tokens=self.pass_tokens or 8 * max_length,
            lora_alpha=self.lora_alpha or 2.0 * self.lora_rank,
            threads=self.threads or (1 if tiny else 0),
        )

    def as_dict(self) -> dict[str, Any]:
        """The config as plain JSON-like values."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise AssayError(f"train.{name}: {value!r} is not known; use {' or '.join(allowed)}")


def _within(name: str, value: float, low: float, high: float | None) -> None:
    if value < low or (high is not None and value > high):
        wanted = f"at least {low}" if high is None else f"from {low} to {high}"
        raise AssayError(f"train.{name}: {value} must be {wanted}")
