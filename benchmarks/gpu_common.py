"""What the scripts for a GPU share: where they run, the time that is left, drawn pairs, shapes of models.

It lets them run where nothing of ours is installed.
"""
# The path and CUDA's setting come before what needs them.

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# Products whose bits do not depend on what ran before.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from bench_train import CENTERING, batch_of
from transformers import Qwen3Config

from trainers.data import TokenPair
from trainers.hardware import DEVICES, GIB, Shape

__all__ = ["CENTERING", "Bench", "Plan", "config_of", "out_of_memory", "pairs_of", "say", "timed"]


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a size is measured.

    Attributes:
        shape: the model.
        pairs: pairs of a step.
        steps: steps that are timed, after one that is not.
        pass_tokens: most positions of a pass of ours.
        again: whether ours computes activations again.
        micro: pairs of a micro-batch that the peer tries.
        seconds: time that it takes.
    """

    shape: Shape
    pairs: int
    steps: int
    pass_tokens: int
    again: bool
    micro: tuple[int, ...]
    seconds: float


class Bench:
    """Where it runs, and the time that is left."""

    def __init__(self, device: torch.device, minutes: float, tiny: bool, trl: bool) -> None:
        self.device, self.tiny, self.trl = device, tiny, trl
        self.ends = time.monotonic() + 60 * minutes
        self.kind = next((d for d in DEVICES.values() if d.name.split()[0] in self.name), None)
        self.peak = self.kind.peak if self.kind else 0.0

    @property
    def name(self) -> str:
        """The device, in words."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return f"CPU, {torch.get_num_threads()} threads"

    @property
    def left(self) -> float:
        """Seconds."""
        return self.ends - time.monotonic()

    def affords(self, what: str, seconds: float) -> bool:
        """Whether there is time; else a line says that there was none."""
        if self.left < seconds:
            say(f"{what}: left out, it takes about {seconds:.0f} s and {max(0, self.left):.0f} s are left")
        return self.left >= seconds

    def now(self) -> float:
        """The time when all that was asked of the device is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def start_peak(self) -> None:
        """Count memory from here."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)

    def peak_memory(self) -> str:
        """The most memory since `start_peak`."""
        if self.device.type != "cuda":
            return "not counted"
        return f"{torch.cuda.max_memory_allocated(self.device) / GIB:.1f} GiB"

    def room(self) -> float:
        """Bytes of the device."""
        if self.device.type != "cuda":
            return float("inf")
        return float(torch.cuda.get_device_properties(self.device).total_memory)


def say(text: str) -> None:
    """A line, at once: who stops the run early has what was found so far."""
    print(text, flush=True)


def config_of(shape: Shape, layers: int = 0) -> Qwen3Config:
    """A shape as transformers builds it."""
    return Qwen3Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=layers or shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        head_dim=shape.head_size,
        max_position_embeddings=shape.positions,
        tie_word_embeddings=shape.tied,
        pad_token_id=0,
        num_labels=1,
    )


def pairs_of(count: int) -> list[TokenPair]:
    """So many pairs of the lengths that `bench_train` draws."""
    made = [pair for seed in range(-(-count // 8)) for pair in batch_of(seed, 0.75)]
    return made[:count]


@contextlib.contextmanager
def out_of_memory(what: str) -> Iterator[None]:
    """Say that something does not fit, and go on."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        say(f"  {what}: does not fit into the memory")


def timed(bench: Bench, step: Callable[[], None], steps: int) -> float:
    """Mean seconds of a step, after one that warms up."""
    step()
    began = bench.now()
    for _ in range(steps):
        step()
    return (bench.now() - began) / steps
