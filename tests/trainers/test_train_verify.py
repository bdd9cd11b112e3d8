"""Verifiers after training: what they have learned, and what an exported one says."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from train_helpers import TINY
from trajectory_helpers import attempt, message, planted, tokenizer_of, trajectory_shard

from schemas.errors import AssayError
from schemas.stage import Drop
from trainers import data
from trainers.config import TrainConfig
from trainers.loop import train
from trainers.model import build
from trainers.objectives.verifier import Verifier
from trainers.rowfiles import BadRow
from trainers.trajectories import read_attempts
from trainers.verify import CALIBRATION_FILE, TrajectoryVerifier, Verdict, attempt_from, write_calibration

SETTINGS = {**TINY, "max_length": 320, "dev_share": 0.25, "epochs": 2}


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run of each objective on planted trajectories, by its name."""
    folder = tmp_path_factory.mktemp("verifiers")
    path = trajectory_shard(folder / "a.parquet", planted(240))
    made: dict[str, Any] = {"path": path}
    for name in ("yesno", "joint"):
        config = TrainConfig.from_mapping({**SETTINGS, "objective": name})
        made[name] = train(config, [path], folder / name)
        # What was trained is looked at here, and not what was fitted to it.
        (folder / name / CALIBRATION_FILE).unlink()
    return made


@pytest.mark.parametrize("objective", ["yesno", "joint"])
def test_a_tiny_model_tells_resolved_from_unresolved_on_tasks_that_it_never_saw(
    learned: dict[str, Any], objective: str
) -> None:
    run = learned[objective].run
    dev = run["metrics"]["dev"]
    assert dev["rows"] > 40
    assert dev["auc"] > 0.9
    assert dev["auc_instance"] > 0.9
    assert dev["rm_at_all"] > dev["random"] + 0.2
    assert run["metrics"]["export_difference"] <= 1e-5
    assert run["counts"]["train"]["kept"] == 240 - dev["rows"]


@pytest.mark.parametrize("objective", ["yesno", "joint"])
def test_an_exported_verifier_gives_what_training_gave(learned: dict[str, Any], objective: str) -> None:
    result = learned[objective]
    config = TrainConfig.from_mapping(result.run["config"])
    made = Verifier(config)
    _, held = data.hold_out(read_attempts([learned["path"]]), made.group, config.dev_share, config.seed)
    loaded = TrajectoryVerifier(result.out_dir)
    verdicts = loaded.verify(held)
    said = loaded.probabilities(held)
    assert said == [one.probability for one in verdicts if isinstance(one, Verdict)]
    squares = [(one - bool(row.resolved)) ** 2 for one, row in zip(said, held, strict=True)]
    assert np.mean(squares) == pytest.approx(result.dev["brier"], abs=1e-6)


def test_a_probability_does_not_depend_on_its_batch(learned: dict[str, Any]) -> None:
    rows = read_attempts([learned["path"]])[:12]
    small = TrajectoryVerifier(learned["joint"].out_dir, pass_tokens=1)
    large = TrajectoryVerifier(learned["joint"].out_dir, pass_tokens=100_000)
    alone = [small.probabilities([row])[0] for row in rows]
    assert alone == pytest.approx(small.probabilities(rows), abs=1e-6)
    assert alone == pytest.approx(large.probabilities(rows[::-1])[::-1], abs=1e-6)


def test_in_bfloat16_probabilities_stay_near(learned: dict[str, Any]) -> None:
    rows = read_attempts([learned["path"]])[:12]
    folder = learned["yesno"].out_dir
    half = TrajectoryVerifier(folder, dtype=torch.bfloat16).probabilities(rows)
    assert half != TrajectoryVerifier(folder).probabilities(rows)
    assert half == pytest.approx(TrajectoryVerifier(folder).probabilities(rows), abs=0.02)


def copy_of(learned: dict[str, Any], tmp_path: Path) -> Path:
    return Path(shutil.copytree(learned["joint"].out_dir, tmp_path / "verifier"))


def test_a_fitted_temperature_divides_the_log_odds(learned: dict[str, Any], tmp_path: Path) -> None:
    folder = copy_of(learned, tmp_path)
    rows = read_attempts([learned["path"]])[:4]
    before = [one for one in TrajectoryVerifier(folder).verify(rows) if isinstance(one, Verdict)]
    write_calibration(folder, 2.5, {"rows": 100})
    after = [one for one in TrajectoryVerifier(folder).verify(rows) if isinstance(one, Verdict)]
    for old, new in zip(before, after, strict=True):
        assert new.log_odds == pytest.approx(old.log_odds / 2.5, rel=1e-4)
        assert new.probability == pytest.approx(1 / (1 + math.exp(-old.log_odds / 2.5)), abs=1e-6)
    with pytest.raises(AssayError, match="a temperature of nan is not above 0"):
        write_calibration(folder, math.nan, {})


def test_an_attempt_without_a_verdict_costs_no_other(learned: dict[str, Any]) -> None:
    rows = read_attempts([learned["path"]])[:2]
    none = attempt([message("assistant", "x")], idx="none")
    loaded = TrajectoryVerifier(learned["joint"].out_dir)
    first, second, third = loaded.verify([rows[0], none, rows[1]])
    assert isinstance(second, Drop)
    assert second.reason == "no_task"
    assert [one.probability for one in (first, third) if isinstance(one, Verdict)] == pytest.approx(
        loaded.probabilities(rows), abs=1e-6
    )
    with pytest.raises(AssayError, match="trajectory none: no_task"):
        loaded.probabilities([none])
    assert loaded.verify([]) == []


def changed(folder: Path, name: str, **values: Any) -> Path:
    told = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**told, **values}))
    return folder


def test_a_folder_that_is_no_verifier_is_one_clear_error(
    learned: dict[str, Any], tmp_path: Path, trained: Any
) -> None:
    with pytest.raises(AssayError, match="no such model folder"):
        TrajectoryVerifier(tmp_path / "nothing")
    with pytest.raises(AssayError, match=r"is no verifier, since it has no verifier\.json; train one"):
        TrajectoryVerifier(trained[0].out_dir)
    folder = copy_of(learned, tmp_path)
    with pytest.raises(AssayError, match="names other tokens than its tokenizer"):
        TrajectoryVerifier(changed(folder, "verifier.json", yes_id=7))
    with pytest.raises(AssayError, match=r"is damaged; export it again"):
        TrajectoryVerifier(changed(folder, "verifier.json", temperature="hot"))
    (folder / "verifier.json").write_text("[]")
    with pytest.raises(AssayError, match=r"verifier\.json holds no JSON object"):
        TrajectoryVerifier(folder)
    (folder / "verifier.json").write_text("{}")
    with pytest.raises(AssayError, match="has no 'max_length'"):
        TrajectoryVerifier(folder)
    (folder / "verifier.json").write_text("{")
    with pytest.raises(AssayError, match=r"verifier\.json cannot be read"):
        TrajectoryVerifier(folder)


def test_damaged_weights_are_one_clear_error(learned: dict[str, Any], tmp_path: Path) -> None:
    folder = copy_of(learned, tmp_path)
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"].fill_(math.nan)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    loaded = TrajectoryVerifier(folder)
    with pytest.raises(AssayError, match="log-odds that are not finite; its weights are damaged"):
        loaded.probabilities(read_attempts([learned["path"]])[:1])


def test_rows_of_any_file_are_read_in_either_form_of_calls() -> None:
    told = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": {"cmd": "ls"}}}
    flat = {"id": "c1", "name": "run", "arguments": '{"cmd": "ls"}'}
    made = [
        attempt_from(
            {
                "messages": [
                    {"role": "user", "content": "Fix it."},
                    {"role": "assistant", "content": None, "tool_calls": [one]},
                    {"role": "tool", "content": "a.py", "tool_call_id": "c1"},
                ],
                "instance_id": 7,
                "resolved": 1,
            },
            3,
        )
        for one in (told, flat)
    ]
    assert made[0] == made[1]
    assert (made[0].idx, made[0].instance, made[0].resolved, made[0].patch) == ("3", "7", True, None)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"messages": []},
        {"messages": "Fix it."},
        {"messages": [{"role": "robot", "content": ""}]},
        {"messages": [{"role": ["user"], "content": ""}]},
        {"messages": [{"role": "user", "content": 3}]},
        {"messages": [{"role": "user", "content": "\ud800"}]},
        {"messages": [{"role": "assistant", "content": "", "tool_calls": {"a": 1}}]},
        {"messages": [{"role": "assistant", "content": "", "tool_calls": ["x"]}]},
        {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"name": ""}]}]},
        {"messages": [{"role": "user", "content": "x"}], "resolved": "yes"},
        {"messages": [{"role": "user", "content": "x"}], "resolved": []},
        {"messages": [{"role": "user", "content": "x"}], "patch": 3},
    ],
)
def test_a_row_that_is_no_trajectory_is_bad(values: dict[str, Any]) -> None:
    with pytest.raises(BadRow):
        attempt_from(values, 1)


def test_an_answer_that_the_tokenizer_lacks_stops_training_with_advice(tmp_path: Path) -> None:
    path = trajectory_shard(tmp_path / "a.parquet", planted(8))
    base = tmp_path / "base"
    tokenizer = tokenizer_of()
    build(TrainConfig(vocab_size=512).resolved(), tokenizer, scored=False).trunk.save_pretrained(base)
    tokenizer.save_pretrained(base)
    config = TrainConfig.from_mapping(
        {**SETTINGS, "objective": "yesno", "model": str(base), "yes_token": "FIXED"}
    )
    with pytest.raises(
        AssayError, match=r"train\.yes_token: 'FIXED' is not one token .*; 'YES' and 'NO' are two"
    ):
        train(config, [path], tmp_path / "out")
