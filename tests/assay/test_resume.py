"""Crash anywhere, lose nothing: the same command finishes what a killed run left, to the same bytes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_runs import assay, command, git, make_repo

Contents = Callable[[Path], dict[str, bytes]]
# Tools that read Python alone are not what is tried here, and take their time to start for each unit.
SMALL_UNITS = (
    *("--set", "mine.commits_per_unit=10"),
    *("--set", "evidence.lint=false", "--set", "evidence.run=false"),
)


def mine_label_build(run_dir: Path, repo: Path, *flags: str) -> None:
    assert assay("mine", repo, "--run-dir", run_dir, *SMALL_UNITS, *flags).code == 0
    assert assay("label", "--run-dir", run_dir, *flags).code == 0
    assert assay("build", "--run-dir", run_dir, *flags).code == 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, repo: Path, contents: Contents) -> dict[str, bytes]:
    run_dir = tmp_path_factory.mktemp("undisturbed") / "run"
    mine_label_build(run_dir, repo)
    found = contents(run_dir)
    # 20 units: edits, labels, excerpts, evidence, pairs of two splits, and verdicts of seven stages. One
    # unit: verdicts of dedup, and both tables of split and of repositories.
    assert len(found) == 20 * 13 + 5
    return found


def _children(pid: int) -> list[int]:
    """Processes below `pid` that are assay's own workers (not the forkserver's trackers)."""
    below: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid:
            child = int(path.name)
            below += [child, *_children(child)]
    return below


@pytest.mark.parametrize("seed", range(4))
def test_main_process_killed_at_any_moment(
    seed: int, tmp_path: Path, repo: Path, undisturbed: dict[str, bytes], contents: Contents
) -> None:
    draw = random.Random(seed)
    run_dir = tmp_path / "run"
    stages = [("mine", repo, *SMALL_UNITS), ("label",), ("build",)]
    for stage in stages:
        with subprocess.Popen(
            command(*stage, "--run-dir", run_dir), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as running:
            time.sleep(draw.uniform(0.2, 2.5))
            running.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 30
        while (ran := assay(*stage, "--run-dir", run_dir)).code == 2 and time.monotonic() < deadline:
            assert "no " not in ran.err, ran.err
        assert ran.code == 0, ran.err
    assert contents(run_dir) == undisturbed
    assert not list(run_dir.rglob("*.tmp"))


@pytest.mark.parametrize("seed", range(2))
def test_worker_killed_at_any_moment(
    seed: int, tmp_path: Path, repo: Path, undisturbed: dict[str, bytes], contents: Contents
) -> None:
    draw = random.Random(seed)
    run_dir = tmp_path / "run"
    with subprocess.Popen(
        command("mine", repo, "--run-dir", run_dir, *SMALL_UNITS), stderr=subprocess.PIPE, text=True
    ) as running:
        deadline = time.monotonic() + 60
        workers: list[int] = []
        while running.poll() is None and time.monotonic() < deadline and not workers:
            # The forkserver's children come last: the tracker, the server, then one process a worker.
            workers = _children(running.pid)[2:]
        time.sleep(draw.uniform(0, 0.3))
        for pid in workers[-1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    assert assay("label", "--run-dir", run_dir).code == 0
    assert assay("build", "--run-dir", run_dir).code == 0
    assert contents(run_dir) == undisturbed


def test_number_of_workers_and_size_of_limits_do_not_leak_into_bytes(
    tmp_path: Path, repo: Path, undisturbed: dict[str, bytes], contents: Contents
) -> None:
    mine_label_build(tmp_path / "run", repo, "--workers", "4")
    assert contents(tmp_path / "run") == undisturbed
    mine_label_build(tmp_path / "one", repo, "--workers", "1")
    assert contents(tmp_path / "one") == undisturbed


def test_rerun_does_nothing_and_a_changed_setting_only_what_depends_on_it(tmp_path: Path, repo: Path) -> None:
    run_dir = tmp_path / "run"
    mine_label_build(run_dir, repo)

    def skipped(*args: object) -> list[tuple[str, int, int]]:
        ran = assay(*args, "--run-dir", run_dir, "--json")
        assert ran.code == 0, ran.err
        return [(one["stage"], one["units"], one["skipped"]) for one in json.loads(ran.out)["stages"]]

    assert skipped("mine") == [("repositories", 1, 1), ("mine", 20, 20)]
    assert skipped("label") == [
        ("select", 20, 20),
        ("dedup", 1, 1),
        ("decontaminate", 20, 20),
        ("label", 20, 20),
    ]
    assert skipped("build") == [("split", 1, 1), ("cut", 20, 20), ("evidence", 20, 20), ("build", 20, 20)]
    changed = skipped("build", "--set", "split.test_share=1")
    assert changed == [("split", 1, 0), ("cut", 20, 20), ("evidence", 20, 20), ("build", 20, 0)]
    assert skipped("label") == [
        ("select", 20, 20),
        ("dedup", 1, 1),
        ("decontaminate", 20, 20),
        ("label", 20, 20),
    ]
    saved = skipped("build")
    assert saved == [("split", 1, 1), ("cut", 20, 20), ("evidence", 20, 20), ("build", 20, 20)]
    again = skipped("build", "--clean")
    assert again == [("split", 1, 0), ("cut", 20, 0), ("evidence", 20, 0), ("build", 20, 0)]


def test_new_commits_make_only_the_last_unit_again(tmp_path: Path, contents: Contents) -> None:
    repository = make_repo(tmp_path / "project.git", 25)
    run_dir = tmp_path / "run"
    alone = ("--set", "mine.revert_window=0")  # no unit looks at what comes after it
    assert assay("mine", repository, "--run-dir", run_dir, *SMALL_UNITS, *alone).code == 0
    git("clone", "--quiet", repository, tmp_path / "work")
    (tmp_path / "work" / "src" / "module0.py").write_text("def changed():\n    return 1\n" * 20)
    git(
        "-C",
        tmp_path / "work",
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@x",
        "commit",
        "-qam",
        "Fix the crash at last",
    )
    git("-C", tmp_path / "work", "push", "--quiet", "origin", "main")
    ran = assay("mine", "--run-dir", run_dir, "--json")
    described, stage = json.loads(ran.out)["stages"]
    assert (described["units"], described["skipped"]) == (1, 0)
    assert (stage["units"], stage["skipped"], stage["rows_in"]) == (3, 2, 26)


def test_dry_run_says_what_would_be_done_and_leaves_no_trace(tmp_path: Path, repo: Path) -> None:
    ran = assay("demo", "--repo", repo, "--run-dir", tmp_path / "run", "--dry-run", "--json")
    assert ran.code == 0, ran.err
    first, second = json.loads(ran.out)["stages"][:2]
    assert (first["stage"], first["planned"], first["done"], first["rows"]) == ("repositories", 1, 0, 1)
    assert (second["stage"], second["planned"], second["done"], second["rows"]) == ("mine", 1, 0, 200)
    assert first["model_cost_usd"] == 0
    assert not (tmp_path / "run").exists()


def test_two_commands_on_one_run_directory_do_not_mix(tmp_path: Path, repo: Path) -> None:
    from schemas.rundir import RunDir

    with RunDir.open(tmp_path / "run", create=True).lock():
        ran = assay("mine", repo, "--run-dir", tmp_path / "run")
    assert ran.code == 2
    assert "another assay process" in ran.err
