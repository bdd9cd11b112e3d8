"""The objectives by name. Each is a module of its own; `base` says what one is."""

from __future__ import annotations

from trainers.config import TrainConfig
from trainers.objectives.base import Objective


def make(config: TrainConfig) -> Objective:
    """The objective of a resolved config."""
    if config.objective == "bt":
        from trainers.objectives.bradley_terry import BradleyTerry

        return BradleyTerry(config)
    if config.objective == "dpo":
        from trainers.objectives.dpo import Dpo

        return Dpo(config)
    if config.objective in ("kto", "step-kto"):
        from trainers.objectives.kto import Kto

        return Kto(config)
    if config.objective in ("yesno", "joint"):
        from trainers.objectives.verifier import Verifier

        return Verifier(config)
    from trainers.objectives.pointwise import Pointwise

    return Pointwise(config)
