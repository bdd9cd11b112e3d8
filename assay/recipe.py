"""The recipe: every setting of a run in one TOML file, resolved, saved with the run and re-runnable.

`Recipe` is made of the rooms' own configs. Settings come from a recipe file (or the run directory's
own), then from the command line; what came out is written to `recipe.toml` of the run directory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labelers.commits.config import BuildConfig, EvidenceConfig, InstructConfig, LabelConfig, VoteConfig
from labelers.commits.training.config import CriteriaConfig
from labelers.llm.config import ModelConfig
from labelers.programs.config import DecomposeConfig, SampleConfig, TestsConfig, VerifyConfig
from labelers.synthetic.config import SynthesizeConfig
from miner.config import (
    CutConfig,
    DecontaminateConfig,
    DedupConfig,
    FetchConfig,
    ImportConfig,
    MineConfig,
    PreferencesConfig,
    RepositoriesConfig,
    SelectConfig,
    SplitConfig,
)
from schemas.config import from_mapping, parse_toml, read_toml, to_toml
from schemas.errors import AssayError
from trainers.config import TrainConfig


@dataclasses.dataclass(frozen=True)
class Sources:
    """What goes in: paths, and URLs of repositories, as the user gave them."""

    repos: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    preferences: tuple[str, ...] = ()
    trajectories: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Recipe:
    """All settings of a run.

    `seed` is the root of every random draw. `model` rewrites, writes tests and instructions, and judges; with
    `judges`, these judge commits in its place. `policy` is the one whose completions are labelled. Without
    models everything that needs none still runs.
    """

    seed: int = 0
    sources: Sources = Sources()
    model: ModelConfig = ModelConfig()
    judges: tuple[ModelConfig, ...] = ()
    policy: ModelConfig = ModelConfig()
    fetch: FetchConfig = FetchConfig()
    repositories: RepositoriesConfig = RepositoriesConfig()
    mine: MineConfig = MineConfig()
    select: SelectConfig = SelectConfig()
    dedup: DedupConfig = DedupConfig()
    decontaminate: DecontaminateConfig = DecontaminateConfig()
    criteria: CriteriaConfig = CriteriaConfig()
    label: LabelConfig = LabelConfig()
    split: SplitConfig = SplitConfig()
    cut: CutConfig = CutConfig()
    evidence: EvidenceConfig = EvidenceConfig()
    vote: VoteConfig = VoteConfig()
    instruct: InstructConfig = InstructConfig()
    build: BuildConfig = BuildConfig()
    importing: ImportConfig = ImportConfig()
    preferences: PreferencesConfig = PreferencesConfig()
    decompose: DecomposeConfig = DecomposeConfig()
    tests: TestsConfig = TestsConfig()
    sample: SampleConfig = SampleConfig()
    verify: VerifyConfig = VerifyConfig()
    synthesize: SynthesizeConfig = SynthesizeConfig()
    train: TrainConfig = TrainConfig()

    def __post_init__(self) -> None:
        """Refuse judges that cannot be told apart."""
        names = [one.model for one in self.judges]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise ValueError(
                f"two judges are called {sorted(doubled)[0]!r}: answers are kept by the model's name, so "
                "give them names of their own"
            )
        if "" in names:
            raise ValueError("a table of judges names no model")

    @property
    def voting(self) -> tuple[ModelConfig, ...]:
        """The models that judge commits: `judges`, else the one `model`; none without either."""
        named = tuple(one for one in self.judges if one.enabled)
        return named or ((self.model,) if self.model.enabled else ())

    @classmethod
    def from_toml(cls, text: str, where: str = "recipe") -> Recipe:
        """Read a recipe.

        Raises:
            AssayError: not TOML, an unknown setting or a value of another type.
        """
        return from_mapping(cls, parse_toml(text, where), where)

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """Read a recipe file.

        Raises:
            AssayError: it cannot be read, or as for `from_toml`.
        """
        return cls.from_toml(read_toml(path, "recipe"), str(path))

    def to_toml(self) -> str:
        """Every setting, written out."""
        return to_toml(self)

    def override(self, settings: Sequence[str]) -> Recipe:
        """Change settings given as `table.key=value` (value in TOML, bare text where that fails).

        `judges.key=value` changes each of the judges; `judges={key=value}` too, where there are any.

        Raises:
            AssayError: a setting that is not of that form, unknown, or of another type.
        """
        recipe = self
        for setting in settings:
            name, equals, text = setting.partition("=")
            *tables, key = name.strip().split(".")
            if not equals or not key:
                raise AssayError(f"--set {setting}: give it as table.key=value, such as split.test_share=0.2")
            data: dict[str, Any] = {key: _value(text.strip())}
            for table in reversed(tables):
                data = {table: data}
            if isinstance(each := data.get("judges"), dict):
                if tables and not recipe.judges:
                    raise AssayError(f"--set {setting}: there are no judges; name them in [[judges]] first")
                from_mapping(ModelConfig, each, f"--set {setting}")  # refused without any judge too
                data["judges"] = [{**_plain(judge), **each} for judge in recipe.judges]
            recipe = from_mapping(Recipe, _merged(_plain(recipe), data), f"--set {setting}")
        return recipe


def _value(text: str) -> Any:
    """A setting's value as TOML, or as it stands where it is not one TOML value."""
    try:
        found = parse_toml(f"value = {text}", "")
    except AssayError:
        return text
    return found["value"] if len(found) == 1 else text


def _plain(value: Any) -> Any:
    """A config as mappings without nulls, as TOML would give it; other values as they are."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    items = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return {name: _plain(item) for name, item in items if item is not None}


def _merged(old: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Mappings joined, the second one's values before the first one's."""
    both = {**old, **change}
    for name in old.keys() & change.keys():
        if isinstance(old[name], dict) and isinstance(change[name], dict):
            both[name] = _merged(old[name], change[name])
    return both
