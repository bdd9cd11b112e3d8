"""Repositories to test with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gitrepos import BASE, Builder


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Builder]:
    """Make an empty repository: `build("name")`."""

    def make(name: str = "project", *init: str) -> Builder:
        return Builder(tmp_path / name, *init)

    return make


@pytest.fixture
def repo(build: Callable[..., Builder]) -> Builder:
    """A repository with one commit that adds `a.py`."""
    one = build()
    one.commit({"a.py": BASE}, "Add the first function of the project")
    return one
