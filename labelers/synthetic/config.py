"""Settings of `synthesize`. Plain values only: they go to TOML and into task keys."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class SynthesizeConfig:
    """How many pairs are made of a program, and of what.

    Attributes:
        steps: most pairs of one program from labelled candidates: one that passes the suite, one that fails.
        bugs: bugs that the model of `[model]`, where there is one, is asked to put into a program; each gives
            a pair where the suite fails.
        hacks: most pairs of one program in which the failing version is dressed up to mislead a judge.
        plainer_share: share of these whose passing version has lost its comments, so that the failing one
            alone speaks for itself.
        inproc: take outcomes that a program could have forged, since suite and program shared a process.
        cpu_s: seconds of processor time of a run of the suite.
        wall_s: seconds of wall time of it.
        memory_mb: MiB of memory of it.
        workers: sandboxes at work at once in one process.
        source: value of the `source` column.
    """

    steps: int = 4
    bugs: int = 1
    hacks: int = 4
    plainer_share: float = 0.5
    inproc: bool = False
    cpu_s: float = 2.0
    wall_s: float = 10.0
    memory_mb: int = 512
    workers: int = 2
    source: str = "Synthetic"

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be meant."""
        for name in ("steps", "bugs", "hacks"):
            if not 0 <= getattr(self, name) <= 1000:
                raise ValueError(f"{name} must lie between 0 and 1000")
        if not 0 <= self.plainer_share <= 1:
            raise ValueError("plainer_share must be between 0 and 1")
        for name in ("cpu_s", "wall_s"):
            if not 0.1 <= getattr(self, name) <= 3600:
                raise ValueError(f"{name} must lie between 0.1 and 3600")
        if not 16 <= self.memory_mb <= 1 << 20:
            raise ValueError("memory_mb must lie between 16 and 1048576")
        if not 1 <= self.workers <= 1024:
            raise ValueError("workers must lie between 1 and 1024")
