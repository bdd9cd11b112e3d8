"""Shards of pairs for tests of the command line."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_SOURCE = Path(__file__).parents[1] / "trainers" / "train_helpers.py"


def pairs_shard(path: Path, count: int) -> Path:
    """A shard of pairs, as the trainers' own tests make them."""
    spec = importlib.util.spec_from_file_location("training_rows_of_trainers", _SOURCE)
    if spec is None or spec.loader is None:
        raise ImportError(_SOURCE)
    helpers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(helpers)
    made: Path = helpers.shard(path, helpers.made_pairs(count))
    return made
