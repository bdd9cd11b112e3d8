"""The words and phrases of `vocabulary.toml`, as sets and patterns.

The file is part of the package; nobody's input is read here.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable
from importlib import resources
from typing import Any


@functools.lru_cache(maxsize=1)
def _file() -> dict[str, Any]:
    text = resources.files("labelers.commits.classifying").joinpath("vocabulary.toml").read_text("utf-8")
    return tomllib.loads(text)


def sets() -> dict[str, frozenset[str]]:
    """The sets of words, by name."""
    return {name: frozenset(words) for name, words in _file()["sets"].items()}


def patterns(
    table: str, make: Callable[[str], re.Pattern[str]], around: str = "{}"
) -> dict[str, re.Pattern[str]]:
    """A pattern for each name of a table: any of its alternatives, put into `around`."""
    return {
        name: make(around.format(found if isinstance(found, str) else "|".join(found)))
        for name, found in _file()[table].items()
    }
