"""Settings of the `label` and `build` stages. Plain values only: they go to TOML and into task keys."""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class LabelConfig:
    """How edits get a criterion.

    Attributes:
        criteria_file: TOML file of criteria; empty means the five built in.
        min_score: an edit gets its best criterion when that score reaches this, else none.
    """

    criteria_file: str = ""
    min_score: float = 0.5


@dataclasses.dataclass(frozen=True)
class BuildConfig:
    """How labelled edits become pairs.

    Attributes:
        min_confidence: least estimated probability of the criterion.
        min_single_intent: least estimated probability that the edit has one purpose.
        system_none, system_all: probability of no system prompt and of all criteria in shuffled order;
            the rest names the pair's own criterion (shares of the Themis paper, section 4.2).
        level: `file` makes pairs of whole files, of any length; `function` of excerpts; `auto` of whole files
            where both fit `max_tokens`, else of excerpts. What does not fit is dropped.
        max_tokens: estimated tokens that either version may have, for `function` and `auto`.
        source: value of the `source` column.
    """

    min_confidence: float = 0.5
    min_single_intent: float = 0.5
    system_none: float = 0.15
    system_all: float = 0.20
    level: Literal["auto", "file", "function"] = "auto"
    max_tokens: int = 4096
    source: str = "Commit-Preference"

    def __post_init__(self) -> None:
        """Refuse shares that are no shares."""
        for name in ("min_confidence", "min_single_intent", "system_none", "system_all"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1")
        if self.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1")
        if self.system_none + self.system_all > 1:
            raise ValueError("system_none + system_all must not exceed 1")
