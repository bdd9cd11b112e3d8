"""Runs of two processes under torchrun: the curve of one process, also when they are stopped on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ranks_launch import environment
from train_helpers import TINY, made_pairs, shard

from schemas.config import to_toml
from trainers.config import TrainConfig
from trainers.folder import work_folder
from trainers.loop import train

CONFIG = TrainConfig.from_mapping(
    # Passes so small that a process often has fewer than the other.
    {**TINY, "epochs": 2, "batch_size": 3, "pass_tokens": 300, "clip": 0.7, "eval_every": 6}
)
STOPPED = 8


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shard(tmp_path_factory.mktemp("pairs") / "a.parquet", made_pairs(40))


@pytest.fixture(scope="module")
def of_one(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one process."""
    out = tmp_path_factory.mktemp("one") / "rm"
    train(CONFIG, [pairs], out)
    return out


@pytest.fixture(scope="module")
def stopped(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Where two processes were told to stop after some steps, and what they said."""
    out = tmp_path_factory.mktemp("two") / "rm"
    running = start(pairs, out)
    log = work_folder(out) / "train.jsonl"
    end = time.monotonic() + 200
    while time.monotonic() < end and running.poll() is None:
        if log.exists() and f'"step": {STOPPED},' in log.read_text():
            break
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    return out, running.communicate(timeout=100)[0]


def start(pairs: Path, out: Path) -> subprocess.Popen[str]:
    """Two processes under torchrun."""
    settings = out.parent / "train.toml"
    settings.write_text(to_toml(CONFIG))
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    command = ("-m", "trainers", settings, "--data", pairs, "--out", out)
    return subprocess.Popen(
        [sys.executable, *torchrun, *command],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]


def same_curve(one: Path, other: Path) -> None:
    found, wanted = lines(other), lines(one)
    assert [line["step"] for line in found] == [line["step"] for line in wanted]
    for line, expected in zip(found, wanted, strict=True):
        assert line.keys() == expected.keys()
        numbers = {name: value for name, value in expected.items() if isinstance(value, int | float)}
        del numbers["seconds"]
        assert {name: line[name] for name in numbers} == pytest.approx(numbers, rel=1e-3, abs=1e-4)


def copy(stopped: Path, folder: Path) -> Path:
    """The same stopped run elsewhere."""
    shutil.copytree(work_folder(stopped), work_folder(folder / "rm"))
    return folder / "rm"


def test_a_signal_to_torchrun_saves_one_state_of_all_processes(stopped: tuple[Path, str]) -> None:
    out, said = stopped
    assert "the same command goes on" in said
    assert not out.exists()
    (folder,) = work_folder(out).glob("step-*")
    told = json.loads((folder / "state.json").read_text())
    assert STOPPED <= told["state"]["step"] < 26
    assert told["processes"] == 2
    assert {f"generators-{rank:05d}.json" for rank in range(2)} <= set(os.listdir(folder))


def test_one_process_finishes_what_two_began(
    pairs: Path, of_one: Path, stopped: tuple[Path, str], tmp_path: Path
) -> None:
    out = copy(stopped[0], tmp_path)
    seen: list[int] = []
    train(CONFIG, [pairs], out, progress=lambda line: seen.append(line["step"]))
    assert min(seen) > STOPPED
    same_curve(of_one, out)


def test_two_processes_finish_what_they_began(
    pairs: Path, of_one: Path, stopped: tuple[Path, str], tmp_path: Path
) -> None:
    out = copy(stopped[0], tmp_path)
    running = start(pairs, out)
    said = running.communicate(timeout=200)[0]
    assert running.returncode == 0, said
    same_curve(of_one, out)
    run = json.loads((out / "run.json").read_text())
    assert run["processes"] == 2
    assert run["metrics"]["export_difference"] < 1e-4
    assert not work_folder(out).exists()
