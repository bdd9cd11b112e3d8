"""Learning-rate schedule: a linear rise, then a cosine to a floor. Pure arithmetic."""

from __future__ import annotations

import math


def learning_rate(step: int, steps: int, peak: float, warmup_ratio: float, min_lr_ratio: float) -> float:
    """Rate of optimizer step `step` (0-based) of `steps`.

    It rises linearly over the first `warmup_ratio * steps` steps, never starts at 0, and follows half
    a cosine (Loshchilov & Hutter 2017, 1608.03983, eq. 5, without restarts) from `peak` to
    `min_lr_ratio * peak`, which the last step reaches.
    """
    warmup = round(warmup_ratio * steps)
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    done = (step - warmup) / max(1, steps - 1 - warmup)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    return peak * (min_lr_ratio + (1 - min_lr_ratio) * cosine)
