"""Word sets written as running text."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text, separated by whitespace."""
    return frozenset(text.split())
