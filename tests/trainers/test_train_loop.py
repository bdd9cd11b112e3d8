"""The training loop: what it writes, what stops it, and that a killed run leaves no half model."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from train_helpers import TINY, made_pairs, pair_row, shard

from schemas.errors import AssayError
from trainers.config import TrainConfig
from trainers.folder import replacing
from trainers.loop import TrainResult, train

FAST = TrainConfig.from_mapping({**TINY, "max_steps": 2})


def lines_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]


def test_the_loop_learns_a_rule_that_tells_the_sides_apart(trained: tuple[TrainResult, Path]) -> None:
    result, _ = trained
    steps = [line for line in lines_of(result.out_dir) if line["event"] == "step"]
    assert steps[0]["bt"] == pytest.approx(math.log(2), rel=1e-6)
    assert float(str(steps[-1]["bt"])) < 0.2
    assert float(str(steps[-1]["lm"])) < float(str(steps[0]["lm"])) - 1
    assert result.dev is not None
    assert result.dev["accuracy"] == 1.0


def test_the_run_file_accounts_for_every_row(trained: tuple[TrainResult, Path]) -> None:
    result, _ = trained
    run = json.loads((result.out_dir / "run.json").read_text())
    assert run == result.run
    parts = [run["counts"][part] for part in ("train", "dev")]
    assert all(part["rows"] == part["kept"] + sum(part["dropped"].values()) for part in parts)
    assert sum(part["rows"] for part in parts) == 60
    assert sum(run["counts"]["languages"].values()) == run["counts"]["train"]["kept"] == result.items


def test_the_saved_settings_are_resolved_and_read_back(trained: tuple[TrainResult, Path]) -> None:
    result, _ = trained
    saved = TrainConfig.from_mapping(tomllib.loads((result.out_dir / "train.toml").read_text()))
    assert saved == saved.resolved()
    assert saved.as_dict() == result.run["config"]


def test_progress_is_told_what_the_log_holds(tmp_path: Path) -> None:
    seen: list[dict[str, object]] = []
    train(FAST, [shard(tmp_path / "a.parquet", made_pairs(12))], tmp_path / "rm", progress=seen.append)
    assert seen == lines_of(tmp_path / "rm")
    assert [line["event"] for line in seen] == ["step", "step", "dev"]


def test_the_callers_key_is_kept(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.parquet", made_pairs(12))
    train(FAST, [path], tmp_path / "rm", key="abc")
    assert json.loads((tmp_path / "rm" / "run.json").read_text())["key"] == "abc"


def test_a_dropped_pair_keeps_its_id_and_reason(tmp_path: Path) -> None:
    rows = [*made_pairs(12), pair_row("same", "x = 1\n", "x = 1\n")]
    config = TrainConfig.from_mapping({**TINY, "max_steps": 2, "dev_share": 0.0})
    result = train(config, [shard(tmp_path / "a.parquet", rows)], tmp_path / "rm")
    drops = [json.loads(line) for line in (tmp_path / "rm" / "drops.jsonl").read_text().splitlines()]
    assert [(drop["id"], drop["reason"]) for drop in drops] == [("same", "identical")]
    assert result.dropped == {"identical": 1}


def test_given_development_shards_are_used_and_nothing_is_held_out(tmp_path: Path) -> None:
    train_part = shard(tmp_path / "a.parquet", made_pairs(12))
    dev_part = shard(tmp_path / "b.parquet", made_pairs(5, seed=9))
    result = train(FAST, [train_part], tmp_path / "rm", dev_shards=[dev_part])
    assert result.items == 12
    assert result.dev is not None
    assert result.dev["pairs"] == 5


def test_max_steps_goes_on_into_another_epoch(tmp_path: Path) -> None:
    config = TrainConfig.from_mapping({**TINY, "max_steps": 5, "dev_share": 0.0})
    result = train(config, [shard(tmp_path / "a.parquet", made_pairs(6))], tmp_path / "rm")
    assert result.steps == 5
    assert [line["epoch"] for line in lines_of(tmp_path / "rm")] == [0, 0, 1, 1, 2]


def test_no_rows_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="no training pairs in 1 shard; make some first"):
        train(FAST, [shard(tmp_path / "a.parquet", [])], tmp_path / "rm")


def test_no_usable_rows_is_an_error_that_counts_the_reasons(tmp_path: Path) -> None:
    rows = [pair_row(str(i), "x\n", "x\n") for i in range(3)]
    config = TrainConfig.from_mapping({**TINY, "dev_share": 0.0})
    with pytest.raises(AssayError, match=r"none of 3 training pairs can be used \(3 identical\)"):
        train(config, [shard(tmp_path / "a.parquet", rows)], tmp_path / "rm")


def test_a_loss_that_is_not_finite_stops_the_run_and_leaves_no_model(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.parquet", made_pairs(12))
    config = TrainConfig.from_mapping({**TINY, "max_steps": 30, "lr": 1e30, "clip": 0.0})
    with pytest.raises(AssayError, match=r"step \d+ of 30: the loss is .*; lower train.lr"):
        train(config, [path], tmp_path / "models" / "rm")
    assert [entry.name for entry in (tmp_path / "models").iterdir()] == ["rm.checkpoints"]


def test_a_failed_run_leaves_the_older_model_as_it_was(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.parquet", made_pairs(12))
    train(FAST, [path], tmp_path / "models" / "rm")
    before = (tmp_path / "models" / "rm" / "model.safetensors").read_bytes()
    bad = TrainConfig.from_mapping({**TINY, "max_steps": 30, "lr": 1e30, "clip": 0.0})
    with pytest.raises(AssayError, match=r"lower train\.lr"):
        train(bad, [path], tmp_path / "models" / "rm")
    assert (tmp_path / "models" / "rm" / "model.safetensors").read_bytes() == before
    assert sorted(entry.name for entry in (tmp_path / "models").iterdir()) == ["rm", "rm.checkpoints"]


def test_a_second_run_replaces_the_model(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.parquet", made_pairs(12))
    for key in ("first", "second"):
        train(FAST, [path], tmp_path / "models" / "rm", key=key)
    assert json.loads((tmp_path / "models" / "rm" / "run.json").read_text())["key"] == "second"
    assert [entry.name for entry in (tmp_path / "models").iterdir()] == ["rm"]


def test_a_folder_that_no_training_made_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "rm").mkdir()
    (tmp_path / "rm" / "thesis.txt").write_text("years of work")
    with pytest.raises(AssayError, match="exists and is not a trained model"):
        train(FAST, [shard(tmp_path / "a.parquet", made_pairs(12))], tmp_path / "rm")
    assert (tmp_path / "rm" / "thesis.txt").read_text() == "years of work"


KILLED = """
import os, signal, sys
from pathlib import Path
from trainers.config import TrainConfig
from trainers.loop import train

def stop(line):
    os.kill(os.getpid(), signal.SIGKILL)

config = TrainConfig(vocab_size=512, max_length=64, max_steps=3, threads=1)
train(config, [Path(sys.argv[1])], Path(sys.argv[2]), progress=stop)
"""


def test_a_folder_that_cannot_be_made_gives_one_line(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(AssayError, match="models/rm: the model cannot be written"):
        train(TrainConfig.from_mapping(TINY), [], tmp_path / "models" / "rm")


def _fill(path: Path, error: Exception) -> None:
    path.write_text("half")
    raise error


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), SafetensorError("I/O error: full")]
)
def test_a_full_disk_gives_one_line_and_leaves_nothing(tmp_path: Path, error: Exception) -> None:
    with (
        pytest.raises(AssayError, match="rm: the model cannot be written"),
        replacing(tmp_path / "rm") as folder,
    ):
        _fill(folder / "model.safetensors", error)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_run_leaves_no_model_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.parquet", made_pairs(12))
    models = tmp_path / "models"
    killed = subprocess.run([sys.executable, "-c", KILLED, path, models / "rm"], timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert [entry.name for entry in models.iterdir()] == ["rm.checkpoints"]
    train(FAST, [path], models / "rm")
    assert [entry.name for entry in models.iterdir()] == ["rm"]


def test_an_older_model_set_aside_by_a_killed_run_comes_back(tmp_path: Path) -> None:
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True
    )
    aside = tmp_path / f".rm.old.{gone.stdout.strip()}.partial"
    aside.mkdir()
    (aside / "run.json").write_text("{}")
    with pytest.raises(AssayError):
        train(FAST, [shard(tmp_path / "a.parquet", [])], tmp_path / "rm")
    assert (tmp_path / "rm" / "run.json").read_text() == "{}"
    assert not aside.exists()


def test_a_running_neighbours_folder_is_left_alone(tmp_path: Path) -> None:
    neighbour = tmp_path / f".rm.{os.getppid()}.partial"
    neighbour.mkdir()
    train(FAST, [shard(tmp_path / "a.parquet", made_pairs(12))], tmp_path / "rm")
    assert neighbour.is_dir()


def test_torchs_global_switches_are_put_back(tmp_path: Path) -> None:
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    config = TrainConfig.from_mapping({**TINY, "max_steps": 1, "threads": threads + 1})
    train(config, [shard(tmp_path / "a.parquet", made_pairs(8))], tmp_path / "rm")
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_model_that_is_not_there_gives_one_line(tmp_path: Path) -> None:
    config = TrainConfig.from_mapping({**TINY, "model": str(tmp_path / "missing")})
    with pytest.raises(AssayError, match="missing: no such model folder") as caught:
        train(config, [shard(tmp_path / "a.parquet", made_pairs(8))], tmp_path / "rm")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_kernels_that_need_a_gpu_are_refused_without_one(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.parquet", made_pairs(8))
    for changes, said in (
        ({"liger": True}, r"train\.liger: Liger's kernels need a GPU"),
        ({"attention": "varlen"}, r"train\.attention: varlen cannot be used"),
    ):
        with pytest.raises(AssayError, match=said):
            train(TrainConfig.from_mapping({**TINY, **changes}), [path], tmp_path / "rm")


def test_steps_are_logged_to_tensorboard_too(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    path = shard(tmp_path / "a.parquet", made_pairs(12))
    config = TrainConfig.from_mapping({**TINY, "max_steps": 3, "trackers": ["tensorboard"]})
    train(config, [path], tmp_path / "rm")
    found = EventAccumulator(str(tmp_path / "rm.logs" / "tensorboard"))
    found.Reload()
    losses = [event.value for event in found.Scalars("step/loss")]
    assert losses == pytest.approx(
        [line["loss"] for line in lines_of(tmp_path / "rm") if line["event"] == "step"]
    )
