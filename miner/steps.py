"""The miner's stages as datatrove steps; the work is in the functions they call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from miner.config import MineConfig
from miner.edits import mine_unit, plan_mine
from schemas.stage import Outcome, Output, Unit
from schemas.steps import UnitStep

MINE_OUTPUTS = (Output("edits"),)


class MineEdits(UnitStep):
    """Commits become edits."""

    name = "mine"

    def __init__(self, config: MineConfig, run_dir: Path, seed: int) -> None:
        super().__init__()
        self.config = config

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """One outcome a commit of the unit."""
        return mine_unit(self.config, unit)


__all__ = ["MINE_OUTPUTS", "MineEdits", "plan_mine"]
