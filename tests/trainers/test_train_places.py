"""What lies where a training writes, or beside what it reads, is not lost and not taken for another thing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from train_helpers import TINY, made_pairs, shard

from schemas.errors import AssayError
from trainers.__main__ import main, shards_of
from trainers.config import TrainConfig
from trainers.fit import Stopped
from trainers.folder import held, work_folder
from trainers.loop import train

FAST = TrainConfig.from_mapping({**TINY, "max_steps": 2})


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shard(tmp_path_factory.mktemp("pairs") / "a.parquet", made_pairs(24))


@pytest.mark.parametrize("facts", ["{}", '{"format": 1}', '{"key": "of an evaluation"}', "[]", "cut sho", ""])
@pytest.mark.parametrize("resume", ["auto", "never"])
def test_a_folder_with_a_run_json_of_something_else_is_never_replaced(
    facts: str, resume: str, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(facts)
    with pytest.raises(AssayError, match="exists and is not a trained model"):
        train(FAST, [], tmp_path / "run", resume=resume)
    assert (tmp_path / "run" / "run.json").read_text() == facts


def test_an_empty_folder_is_a_place_for_a_model(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "rm").mkdir()
    train(FAST, [pairs], tmp_path / "rm")
    assert (tmp_path / "rm" / "model.safetensors").is_file()


def test_a_licence_put_beside_a_model_stays_when_it_is_trained_again(pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "rm"
    train(FAST, [pairs], out)
    (out / "LICENSE").write_text("mine")
    (out / "model-00007.safetensors").write_text("of an older model")
    train(FAST, [pairs], out)
    assert (out / "LICENSE").read_text() == "mine"
    assert not (out / "model-00007.safetensors").exists()


@pytest.mark.parametrize("resume", ["auto", "never"])
def test_two_trainings_into_one_folder_do_not_disturb_each_other(
    resume: str, pairs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rm"
    with held(out):
        (work_folder(out) / "train.jsonl").write_text("of the first\n")
        with pytest.raises(AssayError, match="rm: another training writes there"):
            train(FAST, [pairs], out, resume=resume)
        assert (work_folder(out) / "train.jsonl").read_text() == "of the first\n"
    train(FAST, [pairs], out)


def test_development_shards_without_rows_are_told(pairs: Path, tmp_path: Path) -> None:
    empty = shard(tmp_path / "dev.parquet", [])
    with pytest.raises(AssayError, match="no development pairs in 1 shard; make some first"):
        train(FAST, [pairs], tmp_path / "rm", dev_shards=[empty])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", "d", "d/a.parquet"], "d/a.parquet: is named twice"),
        (["--data", "d", "--dev", "d/../d/a.parquet"], "is named by both --data and --dev"),
    ],
)
def test_rows_that_would_count_twice_are_told(
    words: list[str],
    said: str,
    pairs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d").mkdir()
    shutil.copy(pairs, "d/a.parquet")
    Path("train.toml").write_text("max_steps = 1\n")
    assert main(["train.toml", *words, "--out", "rm"]) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in shards_of([Path("d")])] == ["a.parquet"]


def test_weights_that_are_not_the_best_are_told(pairs: Path, tmp_path: Path) -> None:
    out, told = tmp_path / "rm", []
    config = TrainConfig.from_mapping({**TINY, "max_steps": 3, "eval_every": 1, "keep_best": "accuracy"})

    def watch(line: dict[str, Any]) -> None:
        told.append(line)
        if line["event"] == "step" and line["step"] == 3:
            (work_folder(out) / "best").unlink()

    # The measure stays as it is from step to step, so that no later checkpoint is the best.
    config = TrainConfig.from_mapping({**config.as_dict(), "lr": 1e-12})
    train(config, [pairs], out, progress=watch)
    assert [line["text"] for line in told if line["event"] == "note"] == [
        f"{work_folder(out)}: the best checkpoint is missing or damaged; the last weights are exported"
    ]


def test_starting_anew_keeps_the_model_until_the_new_one_is_done(pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "rm"
    train(FAST, [pairs], out)
    before = json.loads((out / "run.json").read_text())

    def stop(line: dict[str, Any]) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        train(TrainConfig.from_mapping({**TINY, "seed": 5}), [pairs], out, progress=stop, resume="never")
    assert json.loads((out / "run.json").read_text()) == before


def test_whole_numbers_stand_for_others_in_lists_too(pairs: Path, tmp_path: Path) -> None:
    config = TrainConfig.from_mapping({**TINY, "max_steps": 1, "betas": [0, 0]})
    assert config.betas == (0.0, 0.0)
    train(config, [pairs], tmp_path / "rm")


def test_more_threads_than_any_machine_has_are_refused() -> None:
    with pytest.raises(AssayError, match=r"train\.threads: 100000 must be from 0 to 1024"):
        TrainConfig.from_mapping({"threads": 100000})
