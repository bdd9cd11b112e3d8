"""Switches of torch and transformers that are global to the process, put back afterwards."""

from __future__ import annotations

import contextlib
import os
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
    pretrained model has dropout. Without `strict`, an operation that has no deterministic form, as some have
    not on a GPU, is only warned of.
    """
    before, was = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    switches: Any = torch.utils.deterministic
    filled = switches.fill_uninitialized_memory
    if threads:
        torch.set_num_threads(threads)
    # cuBLAS reads it when it is first used.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=not strict)
    # It costs time, and nothing here reads memory that was not written.
    switches.fill_uninitialized_memory = False
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(was, warn_only=only_warned)
        switches.fill_uninitialized_memory = filled
