"""Fixtures of the command line's tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_runs import PROBLEM, make_repo


@pytest.fixture(scope="session")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of 200 commits."""
    return make_repo(tmp_path_factory.mktemp("repos") / "project.git", 200)


@pytest.fixture(scope="session")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A problem file of two small problems."""
    other = {
        **PROBLEM,
        "task_id": "tiny/1",
        "test": str(PROBLEM["test"]).replace("[2, 3]) == 11", "[6]) == 12"),
    }
    path = tmp_path_factory.mktemp("problems") / "tiny.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (PROBLEM, other)))
    return path


@pytest.fixture(scope="session")
def contents() -> Callable[[Path], dict[str, bytes]]:
    """Every shard of a run directory, by its path there."""

    def read(run_dir: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(run_dir)): path.read_bytes()
            for path in sorted(run_dir.rglob("part-*.parquet"))
        }

    return read
