"""Runs that are killed, stopped or that fail, and go on: the same weights, bit for bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from program_helpers import made_programs, steps_shard
from train_helpers import TINY, made_pairs, shard

from schemas.config import to_toml
from schemas.errors import AssayError
from trainers.config import TrainConfig
from trainers.fit import Stopped
from trainers.folder import work_folder
from trainers.loop import train

SETTINGS = {**TINY, "epochs": 2, "batch_size": 3, "save_every": 4, "eval_every": 5}


def config(**changes: Any) -> TrainConfig:
    return TrainConfig.from_mapping({**SETTINGS, **changes})


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shard(tmp_path_factory.mktemp("pairs") / "a.parquet", made_pairs(40))


@pytest.fixture(scope="module")
def undisturbed(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "rm"
    train(config(), [pairs], out)
    return out


def lines(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in found]


def same(one: Path, other: Path) -> None:
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    assert lines(one) == lines(other)


def process(pairs: Path, out: Path, folder: Path, given: TrainConfig) -> subprocess.Popen[str]:
    (folder / "train.toml").write_text(to_toml(given))
    command = [
        sys.executable,
        "-m",
        "trainers",
        folder / "train.toml",
        "--data",
        pairs,
        "--out",
        out,
        "--json",
    ]
    return subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(running: subprocess.Popen[str], step: int) -> None:
    assert running.stdout is not None
    for text in running.stdout:
        if json.loads(text).get("step") == step:
            return
    raise AssertionError(running.communicate()[1])


def test_a_run_killed_after_a_checkpoint_goes_on_to_the_same_bits(
    pairs: Path, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rm"
    running = process(pairs, out, tmp_path, config())
    wait_for(running, 10)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert not out.exists()
    assert work_folder(out).exists()
    seen: list[int] = []
    train(config(), [pairs], out, progress=lambda line: seen.append(line["step"]))
    assert min(seen) > 4
    same(out, undisturbed)
    assert not work_folder(out).exists()


def test_a_run_that_is_asked_to_stop_saves_and_goes_on_to_the_same_bits(
    pairs: Path, undisturbed: Path, tmp_path: Path
) -> None:
    out, never = tmp_path / "rm", config(save_every=0)
    running = process(pairs, out, tmp_path, never)
    wait_for(running, 3)
    os.kill(running.pid, signal.SIGTERM)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130, said
    assert "the same command goes on" in said.splitlines()[-1]
    assert len(list(work_folder(out).glob("step-*"))) == 1
    train(never, [pairs], out)
    same(out, undisturbed)


def test_a_checkpoint_of_another_run_is_refused_by_what_differs_and_may_be_forced(
    pairs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rm"

    def stop(line: dict[str, Any]) -> None:
        if (line["event"], line["step"]) == ("step", 5):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped, match="stopped after step 5 of 26"):
        train(config(), [pairs], out, progress=stop)
    with pytest.raises(AssayError, match=r"of another run \(train\.lr is 0\.005 and was 0\.002\)"):
        train(config(lr=0.005), [pairs], out)
    other = shard(tmp_path / "b.parquet", made_pairs(40, seed=1))
    with pytest.raises(AssayError, match=r"of another run \(the data\)"):
        train(config(), [other], out)
    seen: list[int] = []
    train(config(lr=0.005), [pairs], out, resume="changed", progress=lambda line: seen.append(line["step"]))
    assert min(seen) == 6


def test_settings_that_change_no_result_may_change_on_the_way(
    pairs: Path, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rm"

    def stop(line: dict[str, Any]) -> None:
        if (line["event"], line["step"]) == ("step", 7):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped):
        train(config(), [pairs], out, progress=stop)
    train(config(pass_tokens=300, layout="packed", keep_last=3), [pairs], out)
    curves = [[line["loss"] for line in lines(folder)] for folder in (out, undisturbed)]
    assert curves[0] == pytest.approx(curves[1], abs=1e-4)


def test_a_damaged_newest_checkpoint_is_passed_over_for_the_one_before_it(
    pairs: Path, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rm"

    def stop(line: dict[str, Any]) -> None:
        if (line["event"], line["step"]) == ("step", 9):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped):
        train(config(keep_last=2), [pairs], out, progress=stop)
    newest = max(work_folder(out).glob("step-*"))
    for part in newest.glob("*.distcp"):
        part.write_bytes(part.read_bytes()[:100])
    told: list[dict[str, Any]] = []
    train(config(keep_last=2), [pairs], out, progress=told.append)
    assert told[0]["event"] == "note"
    assert newest.name in told[0]["text"]
    assert min(line["step"] for line in told[1:]) == 9
    same(out, undisturbed)


def test_starting_anew_forgets_what_was_saved(pairs: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "rm"

    def stop(line: dict[str, Any]) -> None:
        if (line["event"], line["step"]) == ("step", 6):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped):
        train(config(lr=0.005), [pairs], out, progress=stop)
    train(config(), [pairs], out, resume="never")
    same(out, undisturbed)


def test_the_best_weights_by_a_metric_are_exported(pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "rm"
    given = config(keep_best="loss", eval_every=2, lr=0.02, epochs=3, dev_share=0.3)
    result = train(given, [pairs], out)
    losses = [line["loss"] for line in lines(out) if line["event"] == "dev"]
    assert result.dev is not None
    assert result.dev["loss"] == pytest.approx(min(losses), rel=1e-6)


def test_a_metric_that_is_not_there_is_named_with_those_that_are(pairs: Path, tmp_path: Path) -> None:
    with pytest.raises(
        AssayError, match=r"train\.keep_best: the evaluation has no number 'f1'; it has .*accuracy"
    ):
        train(config(keep_best="f1"), [pairs], tmp_path / "rm")


def test_a_metric_that_the_development_rows_cannot_have_is_told_before_the_first_step(tmp_path: Path) -> None:
    rows = [row for row in made_programs(12, 4) if row["outcome"] == 1]
    steps = steps_shard(tmp_path / "steps.parquet", rows)
    seen: list[str] = []
    for name, why in (("auc", "have no auc"), ("failing", "no number 'failing'")):
        with pytest.raises(AssayError, match=f"train.keep_best: .*{why}"):
            train(
                config(objective="kto", keep_best=name),
                [steps],
                tmp_path / "policy",
                progress=lambda line: seen.append(line["event"]),
            )
    assert not seen


def test_settings_that_end_before_the_checkpoint_export_it_with_the_steps_it_took(
    pairs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rm"
    running = process(pairs, out, tmp_path, config())
    wait_for(running, 10)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    notes: list[str] = []
    result = train(
        config(max_steps=3),
        [pairs],
        out,
        resume="changed",
        progress=lambda line: notes.append(line.get("text", "")),
    )
    assert result.steps in (8, 10)
    assert any("these settings end at 3" in note for note in notes)
    assert result.run["metrics"]["last_step"]["step"] == result.steps
    assert result.dev is not None


def test_a_run_killed_while_it_is_exported_ends_as_if_it_had_not_been(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = config(keep_best="loss", epochs=1)
    train(given, [pairs], tmp_path / "whole")

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("trainers.export.export", killed)
        with pytest.raises(KeyboardInterrupt):
            train(given, [pairs], tmp_path / "rm")
    train(given, [pairs], tmp_path / "rm")
    same(tmp_path / "whole", tmp_path / "rm")
    whole, other = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("whole", "rm"))
    assert other["metrics"] == whole["metrics"]


def test_a_loss_that_is_not_finite_saves_the_state_before_it_and_names_the_rows(
    pairs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rm"
    with pytest.raises(
        AssayError, match=r"step \d+ of 26: the loss is .* with the pairs 0-\d+.*; the state before"
    ):
        train(config(lr=1e30, clip=0.0, save_every=0), [pairs], out)
    assert not out.exists()
    assert len(list(work_folder(out).glob("step-*"))) == 1


def stopped_with(changes: dict[str, Any], pairs: Path, out: Path) -> None:
    def stop(line: dict[str, Any]) -> None:
        if (line["event"], line["step"]) == ("step", 5):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped):
        train(config(keep_last=1), [pairs], out, progress=stop)
    (path,) = work_folder(out).glob("step-*/state.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("changes", [{"state": {"step": "x"}}, {"identity": 3}, {"state": None}])
def test_a_checkpoint_that_is_not_of_a_run_is_passed_over(
    changes: dict[str, Any], pairs: Path, undisturbed: Path, tmp_path: Path
) -> None:
    stopped_with(changes, pairs, tmp_path / "rm")
    train(config(keep_last=1), [pairs], tmp_path / "rm")
    same(tmp_path / "rm", undisturbed)


def test_numbers_that_are_missing_in_a_checkpoint_are_told(pairs: Path, tmp_path: Path) -> None:
    stopped_with({"state": {"step": 4}}, pairs, tmp_path / "rm")
    with pytest.raises(AssayError, match="its numbers are not those of a training run"):
        train(config(keep_last=1), [pairs], tmp_path / "rm")


def test_choosing_the_best_of_one_evaluation_is_refused(pairs: Path, tmp_path: Path) -> None:
    with pytest.raises(AssayError, match=r"chooses among evaluations; set train\.eval_every"):
        train(config(keep_best="accuracy", eval_every=0), [pairs], tmp_path / "rm")
