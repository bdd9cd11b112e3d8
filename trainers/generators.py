"""States of the random generators of a process (Python's, NumPy's, torch's), as JSON-like values.

In: nothing, or what `states` gave. Out: the states, or generators that go on from them. Damaged states raise
what reading them raises: ValueError, KeyError, TypeError or RuntimeError.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from schemas.ids import rng


def states(device: torch.device) -> dict[str, Any]:
    """The states now, with that of a device when it has its own."""
    kind, keys, *rest = np.random.get_state()
    version, internal, gauss = random.getstate()
    found: dict[str, Any] = {
        "torch": _packed(torch.get_rng_state()),
        "numpy": [str(kind), [int(key) for key in keys], *rest],
        "python": [version, list(internal), gauss],
    }
    if device.type == "cuda":
        found["cuda"] = _packed(torch.cuda.get_rng_state(device))
    return found


def restore(found: Mapping[str, Any], device: torch.device) -> None:
    """Go on from some states."""
    torch.set_rng_state(_unpacked(found["torch"]))
    kind, keys, *rest = found["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    version, internal, gauss = found["python"]
    random.setstate((version, tuple(internal), gauss))
    if "cuda" in found and device.type == "cuda":
        torch.cuda.set_rng_state(_unpacked(found["cuda"]), device)


def reseed(step: int, rank: int) -> None:
    """Begin anew for a process that has no states to go on from."""
    seed = rng(step, "resumed", str(rank)).getrandbits(32)
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def _packed(state: Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode("ascii")


def _unpacked(text: str) -> Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
