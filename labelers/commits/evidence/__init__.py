"""Evidence about a change, without a model: `Measurer` makes a row of `evidence` of each view."""

from labelers.commits.evidence.measurer import Measurer

__all__ = ["Measurer"]
