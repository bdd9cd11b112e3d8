"""The processes that train together, as the loop sees them: one process alone, or the ranks of a group.

`World` is what the loop asks for; `Alone` is one process without a group. The ranks of a group, and a model
in shards over them, are in `trainers.parallel`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

T = TypeVar("T")
Floats = NDArray[np.float64]


class World(Protocol):
    """The processes of a run.

    Attributes:
        rank: number of this process, from 0.
        size: how many there are.
        device: where this one computes.
    """

    rank: int
    size: int
    device: torch.device

    def total(self, values: Floats) -> Floats:
        """Sum of every process's values, the same on all."""
        ...

    def most(self, value: int) -> int:
        """Largest of every process's value."""
        ...

    def gather(self, value: T) -> list[T]:
        """Every process's value, in the order of ranks, on all."""
        ...

    def synchronising(self, model: nn.Module, last: bool) -> contextlib.AbstractContextManager[None]:
        """Around one pass of a step: gradients are summed over the processes in the `last` one only. What is
        summed is each process's own gradient: nothing is divided by their number."""
        ...

    def clip(self, model: nn.Module, most: float) -> float:
        """Scale gradients down to the norm `most` (0: leave them), and say what the norm was."""
        ...


class Alone:
    """One process."""

    rank = 0
    size = 1

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = device or torch.device("cpu")

    def total(self, values: Floats) -> Floats:
        """The values."""
        return values

    def most(self, value: int) -> int:
        """The value."""
        return value

    def gather(self, value: T) -> list[T]:
        """The value."""
        return [value]

    @contextlib.contextmanager
    def synchronising(self, model: nn.Module, last: bool) -> Iterator[None]:
        """Nothing to do."""
        yield

    def clip(self, model: nn.Module, most: float) -> float:
        """See `World`."""
        return float(nn.utils.clip_grad_norm_(model.parameters(), most or math.inf))
