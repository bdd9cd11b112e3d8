"""Settings of `train criteria` and `eval criteria`. Plain values only."""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class CriteriaConfig:
    """How a criterion classifier is trained.

    Attributes:
        backend: `linear` (weights of features) or `encoder` (a fine-tuned encoder).
        model: folder of the encoder to fine-tune; unused by `linear`.
        per_repository: edits of one repository that get weak labels, at most, so that none rules.
        folds: parts, each of whole repositories, for out-of-fold scores.
        min_edits, min_repositories: a feature is kept when so many edits of so many repositories have it.
        precision: expected precision that the shipped threshold is set for; above the precision that
            is promised, since a threshold that was chosen on some rows is worse on others.
        epochs, batch, rate, max_tokens: of the encoder.
        seed: root of every random draw.
    """

    backend: Literal["linear", "encoder"] = "linear"
    model: str = ""
    per_repository: int = 700
    folds: int = 5
    min_edits: int = 15
    min_repositories: int = 5
    precision: float = 0.87
    epochs: int = 3
    batch: int = 16
    rate: float = 5e-5
    max_tokens: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained with."""
        for name in ("per_repository", "min_edits", "min_repositories", "epochs", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.folds < 2:
            raise ValueError("folds must be at least 2")
        if not 0 < self.precision <= 1:
            raise ValueError("precision must be above 0 and at most 1")
        if self.max_tokens < 16:
            raise ValueError("max_tokens must be at least 16")
        if not self.rate > 0:
            raise ValueError("rate must be above 0")
