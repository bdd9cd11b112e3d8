"""The classifier that gives edits their criteria."""

from labelers.commits.terms import VERSION, Scored, classify

__all__ = ["VERSION", "Scored", "classify"]
