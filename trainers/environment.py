"""Switches of torch and transformers that are global to the process, put back afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import transformers


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' progress bars off the terminal: whoever calls has a view of their own."""
    bars: Any = transformers.utils.logging
    before = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if before:
            bars.enable_progress_bar()


@contextlib.contextmanager
def reproducible(threads: int, seed: int, *, strict: bool = True) -> Iterator[None]:
    """Deterministic algorithms, a number of threads (0 leaves torch's own) and a seeded generator.

    Sums are split among threads, so bits depend on their number. The generator matters where a
    pretrained model has dropout. `strict` is off where an operation may lack a deterministic form, on a GPU.
    """
    before, was = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    if threads:
        torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(strict)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(was)
