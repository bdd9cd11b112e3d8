"""`assay train` on several processes, on shards from elsewhere, stopped and gone on with."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cli_runs import assay, command
from export_runs import candidate, make_run
from training_rows import pairs_shard

SETTINGS = {"vocab_size": 512, "max_length": 192, "batch_size": 6, "epochs": 2, "threads": 1}
SETS = [word for name, value in SETTINGS.items() for word in ("--set", f"train.{name}={value}")]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    pairs_shard(folder / "part-a.parquet", 40)
    return folder


@pytest.fixture(scope="module")
def alone(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on one process, on shards that belong to no run."""
    folder = tmp_path_factory.mktemp("alone")
    done = assay("train", "--run-dir", folder / "run", "--data", shards, *SETS)
    assert done.code == 0, done.err
    return folder / "run" / "models" / "rm"


def curve(model: Path) -> list[float]:
    lines: list[dict[str, Any]] = [
        json.loads(text) for text in (model / "train.jsonl").read_text().splitlines()
    ]
    return [line["loss"] for line in lines if line["event"] == "step"]


def test_two_processes_train_along_the_curve_of_one(shards: Path, alone: Path, tmp_path: Path) -> None:
    out = tmp_path / "two"
    done = assay(
        "train", "--run-dir", tmp_path / "run", "--data", shards, "--processes", 2, "--out", out, *SETS
    )
    assert done.code == 0, done.err
    assert json.loads((out / "run.json").read_text())["processes"] == 2
    assert curve(out) == pytest.approx(curve(alone), abs=1e-5)


def test_the_same_command_does_nothing_again(shards: Path, alone: Path) -> None:
    before = (alone / "run.json").stat().st_mtime_ns
    done = assay("train", "--run-dir", alone.parents[1], "--data", shards, *SETS)
    assert "already done" in done.err
    assert (alone / "run.json").stat().st_mtime_ns == before


def test_processes_that_are_stopped_save_and_the_same_command_goes_on(shards: Path, tmp_path: Path) -> None:
    out = tmp_path / "rm"
    words = ("train", "--run-dir", tmp_path / "run", "--data", shards, "--processes", 2, "--out", out)
    sets = (*SETS, "--set", "train.max_steps=60")
    running = subprocess.Popen(command(*words, *sets), stderr=subprocess.PIPE, text=True)
    log = tmp_path / "rm.checkpoints" / "train.jsonl"
    until = time.monotonic() + 120
    while not (log.exists() and log.read_text().count("\n") > 3) and time.monotonic() < until:
        time.sleep(0.1)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130, said
    assert "the same command goes on from there" in said
    steps = log.read_text().count('"step"')
    assert steps < 60
    assert list(log.parent.glob("step-*"))
    done = assay(*words, *sets)
    assert done.code == 0, done.err
    assert len(curve(out)) == 60
    assert not log.parent.exists()


@pytest.mark.parametrize(
    ("processes", "changes", "said"),
    [
        (1, {"model": "/no/such/model"}, "/no/such/model: no such model folder"),
        (2, {"model": "/no/such/model"}, "/no/such/model: no such model folder"),
        (1, {"keep_best": "f1", "eval_every": 2}, r"train\.keep_best: the evaluation has no number 'f1'"),
        (1, {"max_length": 12, "long_prompt": "drop"}, r"none of \d+ training pairs can be used"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    processes: int, changes: dict[str, Any], said: str, shards: Path, tmp_path: Path
) -> None:
    sets = [word for name, value in changes.items() for word in ("--set", f"train.{name}={value}")]
    words = ("--data", shards, "--processes", processes, "--out", tmp_path / "rm")
    done = assay("train", "--run-dir", tmp_path / "run", *words, *SETS, *sets)
    assert done.code == 2
    assert re.fullmatch(f"assay: .*{said}.*\n", done.err.splitlines(keepends=True)[-1])
    assert "Traceback" not in done.err
    assert not (tmp_path / "rm").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "nowhere"), "nowhere: no such file or folder"),
        (("--set", "train.objective=pointwise"), "give --data FILE"),
        (("--set", "train.objective=yesno"), "no trajectories yet; run `assay trajectories` first"),
    ],
)
def test_what_is_not_there_is_told(words: tuple[str, ...], said: str, alone: Path) -> None:
    done = assay("train", "--run-dir", alone.parents[1], *words)
    assert done.code == 2
    assert said in done.err


def test_shards_and_a_folder_need_no_run_and_take_no_settings_of_one(shards: Path, tmp_path: Path) -> None:
    (tmp_path / "runs" / "default").mkdir(parents=True)
    (tmp_path / "runs" / "default" / "run.json").write_text('{"format": 1}')
    recipe = tmp_path / "runs" / "default" / "recipe.toml"
    recipe.write_text("[train]\nlr = 1e30\nseed = 7\n")
    words = ("train", "--data", shards, "--out", "rm", *SETS, "--set", "train.max_steps=2")
    done = assay(*words, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert json.loads(done.out)["run_dir"] is None
    assert json.loads((tmp_path / "rm" / "run.json").read_text())["config"]["seed"] == 0
    assert recipe.read_text() == "[train]\nlr = 1e30\nseed = 7\n"
    assert sorted(path.name for path in recipe.parent.iterdir()) == ["recipe.toml", "run.json"]


@pytest.mark.parametrize("processes", [1, 2])
def test_cleaning_loses_nothing_that_no_training_made(processes: int, shards: Path, tmp_path: Path) -> None:
    for name, file, text in (("notes", "thesis.txt", "years of work"), ("run", "run.json", '{"format": 1}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text(text)
        words = ("--data", shards, "--out", tmp_path / name, "--processes", processes, *SETS)
        done = assay("train", "--clean", *words, cwd=tmp_path)
        assert done.code == 2
        assert "exists and is not a trained model" in done.err
        assert (tmp_path / name / file).read_text() == text


def test_cleaning_with_data_that_is_not_there_keeps_the_model(alone: Path) -> None:
    words = ("--run-dir", alone.parents[1], "--data", "nowhere", "--clean", *SETS)
    assert assay("train", *words).code == 2
    assert (alone / "model.safetensors").is_file()


def test_a_change_in_one_of_two_shards_of_a_name_is_seen(tmp_path: Path) -> None:
    for name in "ab":
        pairs_shard(tmp_path / name / "part.parquet", 20)
    # One file would be found to be the other by its rows alone.
    pairs_shard(tmp_path / "b" / "part.parquet", 30)
    words = ("--data", tmp_path / "a", "--data", tmp_path / "b", "--out", tmp_path / "rm", *SETS)
    sets = ("--set", "train.max_steps=1")
    assert assay("train", *words, *sets, cwd=tmp_path).code == 0
    for name in "ab":
        assert "already done" in assay("train", *words, *sets, cwd=tmp_path).err
        pairs_shard(tmp_path / name / "part.parquet", 24)
        done = assay("train", *words, *sets, cwd=tmp_path)
        assert "train: done" in done.err


def test_a_dry_run_counts_the_rows_of_files_that_are_not_parquet(tmp_path: Path) -> None:
    rows = [{"prompt": "Add.", "response": "a + b", "score": number / 3} for number in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sets = ("--set", "train.objective=pointwise")
    done = assay(
        "train", "--data", tmp_path / "rows.jsonl", "--run-dir", tmp_path / "run", *sets, "--dry-run"
    )
    assert done.code == 0, done.err
    assert done.err.startswith("train: 3 rows")


def test_a_model_is_not_measured_as_one_of_another_kind_and_keeps_its_evaluation(tmp_path: Path) -> None:
    run = tmp_path / "run"
    make_run(run, {"unit": [candidate(0, split="test")]})
    model = run / "models" / "policy"
    (model / "eval").mkdir(parents=True)
    (model / "run.json").write_text(json.dumps({"objective": "dpo", "key": "k"}))
    (model / "eval" / "results.json").write_text("{}")
    done = assay("eval", "--run-dir", run, "--set", "train.objective=kto")
    assert done.code == 2
    assert "was trained with train.objective dpo, and is not measured as one of kto" in done.err
    assert (model / "eval" / "results.json").exists()
    done = assay("eval", "--run-dir", run, "--set", "train.objective=pointwise")
    assert done.code == 2
    assert "assay eval pairs FILE" in done.err


def test_a_base_that_was_trained_again_is_trained_from_again(shards: Path, tmp_path: Path) -> None:
    sets = (*SETS, "--set", "train.max_steps=1")
    first = ("train", "--data", shards, "--out", "first", *sets)
    second = ("train", "--data", shards, "--out", "second", *sets, "--set", "train.model=./first")
    for words in (first, second):
        assert assay(*words, cwd=tmp_path).code == 0
    assert "already done" in assay(*second, cwd=tmp_path).err
    assert assay(*first, "--clean", "--set", "train.lr=0.01", cwd=tmp_path).code == 0
    assert "train: done" in assay(*second, cwd=tmp_path).err
