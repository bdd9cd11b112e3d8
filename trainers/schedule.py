"""Learning-rate schedules: a linear rise to the peak, then a fall to the floor. Pure arithmetic.

In: the number of a step and how many there are. Out: its rate. Every run reaches its peak, if of one step
only, and no step has a rate of 0, but for the last one of a schedule with a floor of 0. What goes wrong is a
fall of more steps than the rise leaves: an `AssayError`.
"""

from __future__ import annotations

import math

from schemas.errors import AssayError


def learning_rate(
    step: int,
    steps: int,
    peak: float,
    warmup_ratio: float,
    min_lr_ratio: float,
    schedule: str = "cosine",
    decay_ratio: float = 0.0,
) -> float:
    """Rate of optimizer step `step` (0-based) of `steps`.

    It rises linearly over the first `warmup_ratio * steps` steps, never starts at 0, and is at the peak after
    them. The last step is at `min_lr_ratio * peak`, unless it is the one at the peak. Between them:

    * `cosine` follows half a cosine (Loshchilov & Hutter 2017, 1608.03983, eq. 5, without restarts).
    * `wsd` (warmup, stable, decay: Hu et al. 2024, MiniCPM, 2404.06395) stays at the peak and falls over the
      last `decay_ratio * steps` steps as 1 - sqrt(share of the fall that is done), which Hägele et al. 2024
      (2405.18392) found better than a line. Without a decay it stays at the peak to the end.

    Raises:
        AssayError: rise and fall of `wsd` take more than all steps.
    """
    warmup = min(round(warmup_ratio * steps), steps - 1)
    if schedule == "wsd" and warmup_ratio + decay_ratio > 1 + 1e-9:
        raise AssayError(
            f"train.decay_ratio: {decay_ratio} and train.warmup_ratio {warmup_ratio} are more than all "
            "steps; lower one so that they add up to at most 1"
        )
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    if schedule == "wsd":
        decay = min(round(decay_ratio * steps), steps - 1 - warmup)
        done = max(0.0, (step - (steps - 1 - decay)) / decay) if decay else 0.0
        share = 1 - math.sqrt(min(1.0, done))
    else:
        done = (step - warmup) / max(1, steps - 1 - warmup)
        share = 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    return peak * (min_lr_ratio + (1 - min_lr_ratio) * share)
