"""A verifier that is too sure of itself: the temperature that its training fits makes its chances honest."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from trajectory_helpers import planted, trajectory_shard

from trainers import held_out
from trainers.config import TrainConfig
from trainers.loop import FEWEST_TO_CALIBRATE, train
from trainers.verify import CALIBRATION_FILE, TrajectoryVerifier, temperature_of

SETTINGS = {"objective": "yesno", "vocab_size": 512, "max_length": 512, "threads": 1, "lm_weight": 0.0}


def doubtful(count: int, seed: int) -> list[dict[str, object]]:
    """Of trajectories whose tests pass, a third is not resolved all the same, and the other way round."""
    draw = random.Random(seed)
    return [{**row, "resolved": row["resolved"] != (draw.random() < 0.33)} for row in planted(count, seed)]


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A verifier trained on them for long, and trajectories that it did not see."""
    folder = tmp_path_factory.mktemp("doubtful")
    seen = trajectory_shard(folder / "part-a.parquet", doubtful(120, 1))
    other = trajectory_shard(folder / "part-b.parquet", doubtful(150, 2))
    config = TrainConfig.from_mapping({**SETTINGS, "epochs": 40, "batch_size": 8, "dev_share": 0.4})
    train(config, [seen], folder / "verifier")
    return folder / "verifier", other


def test_the_error_of_its_chances_falls_on_trajectories_it_did_not_see(verifier: tuple[Path, Path]) -> None:
    folder, other = verifier
    told = held_out.evaluate(folder, [other], folder / "eval")
    assert told["temperature"] > 1.2
    assert told["calibrated"]["ece"] < told["ece"] - 0.03
    assert told["calibrated"]["nll"] < told["nll"]
    assert json.loads((folder / "run.json").read_text())["metrics"]["temperature"] == told["temperature"]


def test_a_loaded_verifier_gives_the_calibrated_chance(verifier: tuple[Path, Path]) -> None:
    from trainers.trajectories import read_attempts

    folder, other = verifier
    held_out.evaluate(folder, [other], folder / "eval")
    scores = pq.read_table(folder / "eval" / "scores.parquet").to_pylist()
    attempts = {attempt.idx: attempt for attempt in read_attempts([other])}
    few = scores[:5]
    chances = TrajectoryVerifier(folder).probabilities([attempts[row["id"]] for row in few])
    temperature = temperature_of(folder)
    assert temperature is not None
    wanted = [1 / (1 + np.exp(-row["score"] / temperature)) for row in few]
    assert chances == pytest.approx(wanted, abs=1e-4)


def test_too_few_development_rows_fit_nothing(tmp_path: Path) -> None:
    path = trajectory_shard(tmp_path / "part-a.parquet", planted(30, 3))
    config = TrainConfig.from_mapping({**SETTINGS, "max_steps": 1, "dev_share": 0.2})
    result = train(config, [path], tmp_path / "verifier")
    assert result.run["counts"]["dev"]["kept"] < FEWEST_TO_CALIBRATE
    assert not (tmp_path / "verifier" / CALIBRATION_FILE).exists()
