"""What a shell does to a command: signals, closed streams and readers that stop early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cli_runs import assay, command


def stopped(run_dir: Path, repo: Path, *numbers: signal.Signals) -> tuple[int, str]:
    """Start mining in a process group of its own and send it signals once it works."""
    args = command("mine", repo, "--run-dir", run_dir, "--set", "mine.commits_per_unit=1")
    with subprocess.Popen(args, stderr=subprocess.PIPE, text=True, start_new_session=True) as running:
        deadline = time.monotonic() + 60
        while not (run_dir / "stages" / "mine.json").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        for number in numbers:
            os.killpg(running.pid, number)
            time.sleep(0.02)
        _, err = running.communicate(timeout=60)
    return running.returncode, err


@pytest.mark.parametrize(
    "numbers",
    [
        (signal.SIGINT,),
        (signal.SIGTERM,),
        (signal.SIGINT, signal.SIGINT),
        (signal.SIGINT, signal.SIGTERM, signal.SIGINT),
    ],
    ids=lambda numbers: "+".join(number.name for number in numbers),
)
def test_signals_end_a_run_with_one_line(
    numbers: tuple[signal.Signals, ...], tmp_path: Path, repo: Path
) -> None:
    status, err = stopped(tmp_path / "run", repo, *numbers)
    assert status == 130
    *before, last = err.splitlines()
    assert last == "assay: stopped; finished parts are kept, the same command goes on from there"
    assert all(line.startswith("repositories: ") for line in before)
    assert assay("mine", repo, "--run-dir", tmp_path / "run").code == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_shard(closed: str, tmp_path: Path, repo: Path) -> None:
    script = f'"$@" {closed}'
    for name, shell in (("run", script), ("other", '"$@"')):
        args = ["sh", "-c", shell, "sh", *command("mine", repo, "--run-dir", tmp_path / name, "--json")]
        assert subprocess.run(args, capture_output=True, timeout=120).returncode == 0
    shards = [
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.parquet")}
        for name in ("run", "other")
    ]
    assert shards[0] == shards[1]
    assert shards[0]


def test_standard_output_stays_one_json_object_when_standard_error_is_closed(
    tmp_path: Path, repo: Path
) -> None:
    args = ["sh", "-c", '"$@" 2>&-', "sh", *command("mine", repo, "--run-dir", tmp_path / "run", "--json")]
    done = subprocess.run(args, capture_output=True, timeout=120)
    assert [one["stage"] for one in json.loads(done.stdout)["stages"]] == ["repositories", "mine"]


def test_reader_that_stops_after_a_line_is_no_error(tmp_path: Path, repo: Path) -> None:
    assert assay("mine", repo, "--run-dir", tmp_path / "run").code == 0
    with subprocess.Popen(
        command("status", "--run-dir", tmp_path / "run"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_full_device_as_standard_output_is_told(tmp_path: Path, repo: Path) -> None:
    assert assay("mine", repo, "--run-dir", tmp_path / "run").code == 0
    args = ["sh", "-c", '"$@" >/dev/full', "sh", *command("status", "--run-dir", tmp_path / "run")]
    done = subprocess.run(args, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("assay: ")
    assert done.stderr.count("\n") == 1
