"""The miner's stages as datatrove steps; the work is in the functions that they call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from miner.config import (
    CutConfig,
    DecontaminateConfig,
    DedupConfig,
    ImportConfig,
    MineConfig,
    PreferencesConfig,
    RepositoriesConfig,
    SelectConfig,
    SplitConfig,
)
from miner.cutting import cut_unit, plan_cut
from miner.decontaminate import decontaminate_unit, plan_decontaminate
from miner.dedup import dedup_unit, plan_dedup
from miner.edits import mine_unit, plan_mine
from miner.facts import STORE, plan_repositories, repositories_unit
from miner.filters import plan_select, select_unit
from miner.importers.preferences import import_preferences, plan_preferences
from miner.importers.problems import import_problems, plan_problems
from miner.importers.trajectories import import_trajectories, plan_trajectories
from miner.splits import plan_split, split_unit
from schemas.rundir import outputs_of
from schemas.stage import VERDICTS, Outcome, Output, Unit
from schemas.steps import UnitStep

MINE_OUTPUTS: tuple[Output, ...] = (Output("edits"),)
SELECT_OUTPUTS: tuple[Output, ...] = (VERDICTS,)
PROBLEMS_OUTPUTS: tuple[Output, ...] = (Output("problems"),)
PREFERENCES_OUTPUTS: tuple[Output, ...] = outputs_of("preferences")
TRAJECTORIES_OUTPUTS: tuple[Output, ...] = outputs_of("trajectories")

__all__ = [
    "MINE_OUTPUTS",
    "PREFERENCES_OUTPUTS",
    "PROBLEMS_OUTPUTS",
    "SELECT_OUTPUTS",
    "STORE",
    "TRAJECTORIES_OUTPUTS",
    "CutEdits",
    "DecontaminateEdits",
    "DedupEdits",
    "DescribeRepositories",
    "ImportPreferences",
    "ImportProblems",
    "ImportTrajectories",
    "MineEdits",
    "SelectEdits",
    "SplitEdits",
    "plan_cut",
    "plan_decontaminate",
    "plan_dedup",
    "plan_mine",
    "plan_preferences",
    "plan_problems",
    "plan_repositories",
    "plan_select",
    "plan_split",
    "plan_trajectories",
]


class DescribeRepositories(UnitStep):
    """What is known of each repository as a whole."""

    name = "repositories"

    def __init__(self, config: RepositoriesConfig, run_dir: Path, seed: int) -> None:
        super().__init__()
        self.config = config

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """One outcome for the repository of the unit."""
        return repositories_unit(unit)


class MineEdits(UnitStep):
    """Commits become edits."""

    name = "mine"

    def __init__(self, config: MineConfig, run_dir: Path, seed: int) -> None:
        super().__init__()
        self.config = config

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """One outcome a commit of the unit."""
        return mine_unit(self.config, unit)


class SelectEdits(UnitStep):
    """Edits that can become pairs are kept."""

    name = "select"

    def __init__(self, config: SelectConfig, run_dir: Path, seed: int) -> None:
        super().__init__()
        self.config, self.run_dir = config, run_dir

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """One outcome an edit of the part."""
        return select_unit(self.config, self.run_dir, unit)


class DedupEdits(UnitStep):
    """Of edits that are nearly the same, the earliest is kept."""

    name = "dedup"

    def __init__(self, config: DedupConfig, run_dir: Path, seed: int) -> None:
        super().__init__()
        self.config, self.run_dir = config, run_dir

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """One outcome for each edit that `select` kept."""
        return dedup_unit(self.config, self.run_dir, unit)


class DecontaminateEdits(UnitStep):
    """Edits that hold the text of a benchmark go."""

    name = "decontaminate"

    def __init__(self, config: DecontaminateConfig, run_dir: Path, seed: int) -> None:
        super().__init__()
        self.config, self.run_dir = config, run_dir

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """One outcome for each edit of the part that `dedup` kept."""
        return decontaminate_unit(self.config, self.run_dir, unit)


class SplitEdits(UnitStep):
    """Edits are told apart into train and test."""

    name = "split"

    def __init__(
        self,
        config: SplitConfig,
        overlap: DecontaminateConfig,
        dedup: DedupConfig,
        run_dir: Path,
        seed: int,
    ) -> None:
        super().__init__()
        self.config, self.overlap, self.dedup = config, overlap, dedup
        self.run_dir, self.seed = run_dir, seed

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """One outcome for each edit that `decontaminate` kept."""
        return split_unit(self.config, self.overlap, self.dedup, self.run_dir, unit, self.seed)


class CutEdits(UnitStep):
    """Edits get excerpts: their changed functions with what these need."""

    name = "cut"

    def __init__(self, config: CutConfig, run_dir: Path, seed: int) -> None:
        super().__init__()
        self.config, self.run_dir = config, run_dir

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """One outcome for each edit that is still in."""
        return cut_unit(self.config, self.run_dir, unit)


class ImportProblems(UnitStep):
    """Rows of published problem sets become problems."""

    name = "problems"

    def __init__(self, config: ImportConfig, run_dir: Path, seed: int) -> None:
        super().__init__()
        self.config, self.seed = config, seed

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """One outcome a row of the file."""
        return import_problems(self.config, unit, self.seed)


class ImportPreferences(UnitStep):
    """Rows of published preference sets become pairs, each with its split."""

    name = "preferences"

    def __init__(self, config: PreferencesConfig, run_dir: Path, seed: int) -> None:
        super().__init__()
        self.config, self.seed = config, seed

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """One outcome a row of the file, or a group of rows that make pairs together."""
        return import_preferences(self.config, unit, self.seed)


class ImportTrajectories(UnitStep):
    """Published agent trajectories come in, each with its split."""

    name = "trajectories"

    def __init__(self, config: ImportConfig, run_dir: Path, seed: int) -> None:
        super().__init__()
        self.config, self.seed = config, seed

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """One outcome a row or `.traj` file."""
        return import_trajectories(self.config, unit, self.seed)
