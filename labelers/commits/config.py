"""Settings of the stages from `label` to `build`. Plain values only: they go to TOML and into task keys."""

from __future__ import annotations

import dataclasses
from typing import Literal

from labelers.commits.spoken import word_set

_LANGUAGES = word_set(
    """
    aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz
    ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii
    ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi
    mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw
    sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk
    ur uz ve vi vo wa wo xh yi yo za zh zu
    """
)
"""ISO 639-1."""


@dataclasses.dataclass(frozen=True)
class LabelConfig:
    """How edits get a criterion.

    Attributes:
        criteria_file: TOML file of criteria, `built-in` (as empty), the name of a shipped example such as
            `error-handling`, `examples` for all of these, or several with commas between.
        classifier: who scores; empty for the built-in one, `terms` for weighted terms, or a folder that
            `train criteria` made.
        min_score: an edit gets its best criterion when that score reaches this, else none; 0 for the
            threshold that was measured for the classifier and is stored with it.
    """

    criteria_file: str = ""
    classifier: str = ""
    min_score: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a score that is no probability."""
        if not 0 <= self.min_score <= 1:
            raise ValueError("min_score must be between 0 and 1")


@dataclasses.dataclass(frozen=True)
class EvidenceConfig:
    """What is measured about a change, without a model.

    Attributes:
        lint: count what linters and type checkers say of Python, before and after.
        run: run changed functions that can stand alone in the sandbox and compare results, time and memory.
        time_limit_s: seconds that one tool may take for one version.
    """

    lint: bool = True
    run: bool = True
    time_limit_s: float = 20.0

    def __post_init__(self) -> None:
        """Refuse bounds that are none."""
        if self.time_limit_s <= 0:
            raise ValueError("time_limit_s must be above 0")


@dataclasses.dataclass(frozen=True)
class VoteConfig:
    """How models judge changes.

    Attributes:
        min_score: the best criterion of an edit is put before the judges when its score reaches this; lower
            than `label.min_score`, since judges find out what the classifier cannot tell.
        samples: votes of one judge in each of the two orders.
        temperature: of the votes.
        rule: `majority`: more votes for the new version than for the old one and ties together; `threshold`:
            a share of at least `threshold`.
        threshold: least share of votes for the new version, ties counted half, under `threshold`.
        every_judge: each judge by itself has to be for the new version too.
        review: ask each judge for a review, 1 to 5 for strength and specificity.
        min_strength, min_specificity: least mean of the reviews.
        several: what becomes of a change in which most reviews see several purposes: `drop` or `keep`.
        others: ask about all other criteria too, in one call an order.
        max_tokens_shown: estimated tokens of a version up to which all of it is shown; of longer ones the
            changed regions with what stands around them.
    """

    min_score: float = 0.15
    samples: int = 2
    temperature: float = 0.8
    rule: Literal["majority", "threshold"] = "majority"
    threshold: float = 0.75
    every_judge: bool = False
    review: bool = True
    min_strength: float = 3.0
    min_specificity: float = 3.0
    several: Literal["drop", "keep"] = "drop"
    others: bool = True
    max_tokens_shown: int = 6000

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be meant."""
        for name in ("min_score", "threshold"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1")
        for name in ("min_strength", "min_specificity"):
            if not 1 <= getattr(self, name) <= 5:
                raise ValueError(f"{name} must be between 1 and 5")
        if self.samples < 1:
            raise ValueError("samples must be at least 1")
        if self.max_tokens_shown < 100:
            raise ValueError("max_tokens_shown must be at least 100")
        if not 0 <= self.temperature <= 2:
            raise ValueError("temperature must be between 0 and 2")


@dataclasses.dataclass(frozen=True)
class InstructConfig:
    """How a model writes the instructions of pairs.

    Attributes:
        kind: `inverse`: a request that leads to either version; `recovered`: a problem statement that both
            versions solve; `mixed`: one of the two, drawn for each pair.
        attempts: texts asked for until one passes the checks.
        temperature: of the texts.
        spoken: natural language that the text must be in, ISO 639-1; empty takes any.
        otherwise: what a pair gets when no text passes: `template`, or `drop` it.
    """

    kind: Literal["inverse", "recovered", "mixed"] = "inverse"
    attempts: int = 3
    temperature: float = 0.7
    spoken: str = "en"
    otherwise: Literal["template", "drop"] = "template"

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.spoken and self.spoken not in _LANGUAGES:
            raise ValueError(f"spoken must be an ISO 639-1 code, such as en, or empty, not {self.spoken!r}")
        if self.attempts < 1:
            raise ValueError("attempts must be at least 1")
        if not 0 <= self.temperature <= 2:
            raise ValueError("temperature must be between 0 and 2")


@dataclasses.dataclass(frozen=True)
class BuildConfig:
    """How labelled edits become pairs.

    Attributes:
        min_confidence: least estimated probability of the criterion.
        min_single_intent: least estimated probability that the edit has one purpose.
        system_none, system_all, system_several: probability of no system prompt, of all criteria in shuffled
            order, and of the pair's own among two to five drawn ones; the rest names the pair's own
            criterion alone (shares of the Themis paper, section 4.2).
        level: `file` makes pairs of whole files, of any length; `function` of excerpts; `auto` of whole files
            where both fit `max_tokens`, else of excerpts. What does not fit is dropped.
        max_tokens: estimated tokens that either version may have, for `function` and `auto`.
        evidence: what becomes of a change whose measures disagree with its criterion: `veto` drops it, `keep`
            says so in the pair.
        trade_offs: what becomes of a change under which another criterion gets worse: `drop` it or `mark` it.
        source: value of the `source` column.
    """

    min_confidence: float = 0.5
    min_single_intent: float = 0.5
    system_none: float = 0.15
    system_all: float = 0.20
    system_several: float = 0.0
    level: Literal["auto", "file", "function"] = "auto"
    max_tokens: int = 4096
    evidence: Literal["veto", "keep"] = "veto"
    trade_offs: Literal["drop", "mark"] = "drop"
    source: str = "Commit-Preference"

    def __post_init__(self) -> None:
        """Refuse shares that are no shares."""
        shares = ("system_none", "system_all", "system_several")
        for name in ("min_confidence", "min_single_intent", *shares):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1")
        if self.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1")
        if sum(getattr(self, name) for name in shares) > 1:
            raise ValueError("system_none + system_all + system_several must not exceed 1")
