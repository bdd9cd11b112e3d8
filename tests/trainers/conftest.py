"""One thread for every test, and a model that is trained once a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from train_helpers import TINY, made_pairs, shard

from trainers.config import TrainConfig
from trainers.loop import TrainResult, train


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainResult, Path]:
    """A trained model and the shard that it was trained on."""
    folder = tmp_path_factory.mktemp("trained")
    path = shard(folder / "part-a.parquet", made_pairs(60))
    before = torch.get_num_threads()
    result = train(TrainConfig.from_mapping({**TINY, "epochs": 2}), [path], folder / "models" / "rm")
    torch.set_num_threads(before)
    return result, path
