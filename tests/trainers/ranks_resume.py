"""A few optimizer steps that are saved on the way and go on from there, on one process or on many.

Run by tests as one of several processes (see `ranks_launch`): it trains from the start and saves in
`FOLDER/two`, goes on from its own checkpoint and from the one in `FOLDER/one`, of one process, and the
first process writes what came of it to `FOLDER/found.pt`.

python ranks_resume.py FOLDER
"""

from __future__ import annotations

import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ranks_cases import config, gradient, items, model
from torch import Tensor

from trainers import checkpoint, parallel
from trainers.world import World

STEPS, SAVED = 6, 3
IDENTITY = {"lr": 0.01, "data": "abc"}


class Run:
    """A model, its optimizer, and steps that draw from every generator."""

    def __init__(self, world: World, settings: dict[str, Any] | None = None, **shape: Any) -> None:
        self.world = world
        # Of another seed in each process, so that nothing agrees by chance.
        torch.manual_seed(world.rank)
        np.random.seed(world.rank)
        random.seed(world.rank)
        self.model = parallel.materialise(lambda: model(**shape), world, config(**(settings or {})))
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)
        self.losses: list[float] = []

    def step(self) -> None:
        """One step, on data that the last one's draws chose."""
        draw = int(torch.randint(1000, ())) + np.random.randint(1000) + random.randrange(1000)
        seed = sum(self.world.gather(draw))
        self.losses.append(gradient(self.model, self.world, items(seed=seed))["loss"])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def save(self, folder: Path, step: int, **how: Any) -> Path:
        """Save after a step."""
        how = {"identity": IDENTITY, "world": self.world, "keep_last": 3, **how}
        return checkpoint.save(folder, self.model, self.optimizer, {"step": step, "x": [0.1]}, **how)

    def load(self, path: Path, **how: Any) -> dict[str, Any]:
        """Go on from a checkpoint."""
        how = {"identity": IDENTITY, "world": self.world, **how}
        return checkpoint.load(path, self.model, self.optimizer, **how)

    def whole(self, folder: Path) -> Run:
        """All steps, saved on the way."""
        for number in range(1, STEPS + 1):
            self.step()
            if number == SAVED:
                self.save(folder, number)
        return self

    def rest(self, path: Path) -> Run:
        """The steps after a checkpoint."""
        for _ in range(int(self.load(path)["step"]), STEPS):
            self.step()
        return self

    def weights(self) -> dict[str, Tensor]:
        """All weights in the first process, nothing in the others."""
        return {name: value.clone() for name, value in (parallel.full_state(self.model) or {}).items()}


def fixed(run: Run, steps: int) -> Run:
    """Steps on data that does not depend on how many processes draw it."""
    for number in range(steps):
        run.losses.append(gradient(run.model, run.world, items(seed=number))["loss"])
        run.optimizer.step()
        run.optimizer.zero_grad(set_to_none=True)
    return run


def main(folder: Path) -> None:
    """See the module."""
    warnings.simplefilter("error")
    with parallel.joined(config()) as world:
        whole = Run(world).whole(folder / "two")
        torch.manual_seed(99)
        rest = Run(world).rest(folder / "two" / f"step-{SAVED:08d}")
        other = Run(world)
        state = other.load(folder / "one" / f"step-{SAVED:08d}")
        found = {
            "whole": whole.weights(),
            "rest": rest.weights(),
            "losses": [whole.losses, rest.losses],
            "read": other.weights(),
            "state": state,
            "other": fixed(other, 2).weights(),
        }
        if world.rank == 0:
            torch.save(found, folder / "found.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
