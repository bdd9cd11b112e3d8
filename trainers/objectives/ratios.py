"""Log-ratios of a model and what it was before training, token by token.

In: items whose `reference` is filled (`trainers.reference`), and what the model says of them. Out: log pi -
log pi_ref of their targets. An item without a reference is a `TypeError`, since nothing may pass for one.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trainers.items import Batch, Floats32, Found, Item
from trainers.metrics import Floats
from trainers.packing import Places


def of_batch(logprobs: Tensor, batch: Batch) -> tuple[Tensor, Places]:
    """Log-ratios of every target of a pass, shape (targets,), and where those of each sequence are among
    them: rows (first, one past the last), shape (sequences, 2)."""
    before = [part for item in batch.items for part in _reference(item)]
    ends = np.cumsum([len(part) for part in before], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    flat = torch.from_numpy(np.concatenate([*before, np.empty(0, np.float32)]))
    return logprobs.float() - flat.to(logprobs.device), np.stack([starts, ends], axis=1)


def of_found(item: Item, found: Found) -> tuple[Floats, ...]:
    """Log-ratios of the targets of each sequence of an item, from inference."""
    return tuple(
        said.astype(np.float64) - before
        for said, before in zip(found.logprobs, _reference(item), strict=True)
    )


def _reference(item: Item) -> tuple[Floats32, ...]:
    if item.reference is None:
        raise TypeError(f"{item.idx}: what the model said of it before training is not there")
    return item.reference
