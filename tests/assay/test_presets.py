"""Presets by name, and what a dry run says that training will need."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from cli_runs import assay
from training_rows import pairs_shard
from transformers import Qwen3Config

from assay import presets
from trainers.config import TrainConfig


def test_every_preset_is_listed_with_what_it_needs() -> None:
    done = assay("presets", "--json")
    rows = json.loads(done.out)
    assert {"themis-pt-0.6b", "themis-pm-32b", "step-ktoder-3b", "swe-rm-30b-a3b"} <= {
        row["name"] for row in rows
    }
    assert all(row["bytes_each"] > 1e9 and row["devices"] >= 1 for row in rows)
    shown = assay("presets").out
    assert all(row["name"] in shown for row in rows)


def test_a_preset_is_where_settings_begin_and_set_goes_over_it(tmp_path: Path) -> None:
    data = pairs_shard(tmp_path / "a.parquet", 12)
    words = ("--data", data, "--preset", "themis-pm-0.6b", "--out", tmp_path / "rm")
    small = {"model": '"tiny"', "max_steps": 1, "precision": '"fp32"', "keep_best": '""', "max_length": 192}
    sets = [word for name, value in small.items() for word in ("--set", f"train.{name}={value}")]
    done = assay("train", "--run-dir", tmp_path / "run", *words, *sets)
    assert done.code == 0, done.err
    used = TrainConfig.from_mapping(tomllib.loads((tmp_path / "rm" / "train.toml").read_text()))
    assert (used.model, used.max_steps, used.max_length) == ("tiny", 1, 192)
    assert (used.batch_size, used.lr, used.clip, used.magnitude_weight) == (512, 1e-5, 1.5, 0.001)


def test_an_unknown_preset_names_the_nearest(tmp_path: Path) -> None:
    data = pairs_shard(tmp_path / "a.parquet", 4)
    done = assay("train", "--run-dir", tmp_path / "run", "--data", data, "--preset", "themis-pm-4")
    assert done.code == 2
    assert "did you mean themis-pm-4b?" in done.err


def test_a_dry_run_says_how_many_gpus_a_model_needs_and_trains_nothing(tmp_path: Path) -> None:
    data = pairs_shard(tmp_path / "a.parquet", 12)
    words = ("--data", data, "--preset", "themis-pm-4b", "--set", "train.model=Qwen/Qwen3-4B", "--dry-run")
    done = assay("train", "--run-dir", tmp_path / "run", *words, "--json")
    assert done.code == 0, done.err
    (facts,) = json.loads(done.out)["stages"]
    assert facts["rows"] == 12
    assert facts["needs"]["parameters"] == pytest.approx(4.02e9, rel=0.01)
    assert facts["needs"]["H100"]["devices"] >= 1
    assert not (tmp_path / "run").exists()


def test_the_shape_of_a_folder_is_read_and_that_of_another_kind_is_not_guessed(tmp_path: Path) -> None:
    Qwen3Config(hidden_size=64, num_hidden_layers=3, num_attention_heads=4).save_pretrained(tmp_path)
    shape = presets.shape_of(str(tmp_path))
    assert shape is not None
    assert (shape.hidden, shape.layers, shape.heads) == (64, 3, 4)
    config = TrainConfig(model="somebody/some-model")
    assert "is not known here" in presets.in_words(presets.planned(config, 1000))
