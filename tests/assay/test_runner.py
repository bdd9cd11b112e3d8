"""The runner: workers that die, units that fail, and bytes that do not depend on either."""

from __future__ import annotations

import errno
import multiprocessing.forkserver
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.progress import Quiet
from assay.recipe import Recipe
from assay.runner import Runner, StageResult
from assay.stages import Stage
from schemas.errors import AssayError, EnvironmentFault
from schemas.records import Label
from schemas.rundir import RunDir, outputs_of
from schemas.stage import Drop, Keep, Outcome, Unit
from schemas.steps import UnitStep


class Trouble(UnitStep):
    """Keeps every other row; a unit's payload says what goes wrong, and once it has a marker, no more."""

    name = "trouble"

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def process(self, unit: Unit) -> Iterator[Outcome]:
        for n in range(unit.rows):
            row = f"{unit.name}-{n}"
            if n == unit.rows // 2:
                self._go_wrong(unit)
            if n % 2:
                yield Drop(row, "odd")
            else:
                yield Keep(
                    (
                        Label(
                            id=row,
                            labeler="test",
                            method="rule",
                            criterion=None,
                            confidence=0.0,
                            single_intent=1.0,
                            scores=[],
                            terms=[],
                        ),
                    )
                )

    def _go_wrong(self, unit: Unit) -> None:
        wrong = unit.payload.get("wrong")
        if wrong in ("die once", "die always"):
            marker = self.root / f"{unit.name}.died"
            if wrong == "die always" or not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        elif wrong == "bad input":
            raise AssayError(f"{unit.name}: the input is bad")
        elif wrong == "defect":
            raise KeyError("surprise")
        elif wrong == "disk":
            raise OSError(errno.ENOSPC, "No space left on device", "/some/shard")
        elif wrong == "slow":
            time.sleep(60)


def stage(root: Path) -> Stage:
    return Stage(
        name="trouble",
        considers="rows",
        outputs=outputs_of("labels"),
        code=(),
        libraries=(),
        settings=lambda recipe: [],
        plan=lambda run, recipe, limit: [],
        step=lambda recipe, run_dir: Trouble(root),
    )


class Heard(Quiet):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def trouble(self, message: str) -> None:
        self.lines.append(message)


def units(wrong: dict[str, str]) -> list[Unit]:
    return [Unit(name, 7, {"wrong": wrong.get(name)}, {}, "key") for name in "abcdef"]


def work(
    tmp_path: Path, name: str, wrong: dict[str, str] | None = None, workers: int = 2
) -> tuple[RunDir, StageResult, list[str]]:
    run, view = RunDir.open(tmp_path / name, create=True), Heard()
    with Runner(workers) as runner:
        result = runner.run(stage(tmp_path), run, Recipe(), units(wrong or {}), view)
    return run, result, view.lines


def contents(run: RunDir) -> dict[str, bytes]:
    return {str(path.relative_to(run.root)): path.read_bytes() for path in run.root.rglob("*.parquet")}


def test_number_of_workers_does_not_change_a_byte(tmp_path: Path) -> None:
    one, result, _ = work(tmp_path, "one", workers=1)
    four, _, _ = work(tmp_path, "four", workers=4)
    assert contents(one) == contents(four)
    assert (result.rows_in, result.kept, result.drops) == (42, 24, {"odd": 18})


def test_killed_worker_is_told_and_its_unit_tried_once_more(tmp_path: Path) -> None:
    run, result, lines = work(tmp_path, "run", {"c": "die once"})
    undisturbed, _, _ = work(tmp_path, "other")
    assert result.failed == ()
    assert len(lines) == 1
    assert "trouble c: worker" in lines[0]
    assert "once more" in lines[0]
    assert contents(run) == contents(undisturbed)


def test_unit_that_kills_every_worker_fails_alone(tmp_path: Path) -> None:
    run, result, lines = work(tmp_path, "run", {"c": "die always"})
    assert result.failed == ("c",)
    assert len(lines) == 2
    assert [part.name for part in run.parts("labels")] == ["a", "b", "d", "e", "f"]
    assert result.rows_in == 35
    plan = run.read_plan("trouble")
    assert plan is not None
    assert plan["failed"] == ["c"]


def test_bad_input_fails_its_unit_with_its_own_words(tmp_path: Path) -> None:
    run, result, lines = work(tmp_path, "run", {"b": "bad input"})
    assert result.failed == ("b",)
    assert lines == ["b: the input is bad"]
    assert len(run.parts("labels")) == 5


def test_defect_is_one_line_and_its_traceback_a_file(tmp_path: Path) -> None:
    run, result, lines = work(tmp_path, "run", {"b": "defect"})
    assert result.failed == ("b",)
    assert "internal error, KeyError: 'surprise'" in lines[0]
    assert "Traceback" in (run.root / "errors" / "trouble-b.txt").read_text()


def test_full_disk_stops_the_stage(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="/some/shard: no space left"):
        work(tmp_path, "run", {"a": "disk"})


def test_worker_killed_while_idle_costs_nothing(tmp_path: Path) -> None:
    run = RunDir.open(tmp_path / "run", create=True)
    view = Heard()
    with Runner(1) as runner:
        runner.run(stage(tmp_path), run, Recipe(), units({})[:2], view)
        pid = runner.slots[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        while not runner.slots[0].executor._broken:  # it notices on a thread of its own
            time.sleep(0.05)
        result = runner.run(stage(tmp_path), run, Recipe(), units({}), view)
    assert result.failed == ()
    assert view.lines == []
    assert len(run.parts("labels")) == 6


def test_worker_killed_while_idle_and_not_noticed_yet_costs_nothing(tmp_path: Path) -> None:
    run, view = RunDir.open(tmp_path / "run", create=True), Heard()
    with Runner(1) as runner:
        runner.run(stage(tmp_path), run, Recipe(), units({})[:2], view)
        pid = runner.slots[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        result = runner.run(stage(tmp_path), run, Recipe(), units({}), view)
    assert result.failed == ()
    assert len(run.parts("labels")) == 6


def test_killed_fork_server_is_started_again(tmp_path: Path) -> None:
    run, view = RunDir.open(tmp_path / "run", create=True), Heard()
    with Runner(2) as runner:
        runner.run(stage(tmp_path), run, Recipe(), units({})[:2], view)
        server = multiprocessing.forkserver._forkserver._forkserver_pid
        assert server is not None
        os.kill(server, signal.SIGKILL)
        result = runner.run(stage(tmp_path), run, Recipe(), units({}), view)
    assert result.failed == ()
    assert len(run.parts("labels")) == 6


def test_workers_that_die_while_they_start_stop_the_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.runner.start", os.abort)
    with pytest.raises(EnvironmentFault, match="workers die while they start"):
        work(tmp_path, "run")


def test_machine_without_room_for_a_process_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", full)
    with pytest.raises(EnvironmentFault, match=r"no worker can be started .*fewer --workers"):
        work(tmp_path, "run")


def test_descriptors_do_not_grow_with_stages_and_deaths(tmp_path: Path) -> None:
    open_files = Path("/proc/self/fd")
    with Runner(2) as runner:
        seen = []
        for n in range(4):
            run = RunDir.open(tmp_path / f"run{n}", create=True)
            (tmp_path / "c.died").unlink(missing_ok=True)
            runner.run(stage(tmp_path), run, Recipe(), units({"c": "die once"}), Heard())
            seen.append(len(list(open_files.iterdir())))
    assert seen[-1] <= seen[1] + 2


@pytest.mark.parametrize(("count", "says"), [(1, "; 1 unit;"), (2, "; 2 units;")])
def test_summary_counts_units_in_english(count: int, says: str) -> None:
    assert says in StageResult("mine", count, 0, (), 0, 0, {}, {}, 0.0).summary()


def test_failed_unit_is_done_by_running_again_and_the_others_are_kept(tmp_path: Path) -> None:
    work(tmp_path, "run", {"b": "bad input"})
    run, result, _ = work(tmp_path, "run")
    assert (result.skipped, result.failed) == (5, ())
    other, _, _ = work(tmp_path, "other")
    assert contents(run) == contents(other)


def test_workers_die_with_a_killed_parent(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_runner import Heard, Recipe, RunDir, Runner, stage, units

        if __name__ == "__main__":
            root = Path({str(tmp_path)!r})
            with Runner(2) as runner:
                for slot in (runner._new_slot(), runner._new_slot()):
                    runner.slots.append(slot)
                print(*(slot.pid for slot in runner.slots), flush=True)
                runner.run(stage(root), RunDir.open(root / "run", create=True), Recipe(),
                           units({{"a": "slow", "b": "slow"}}), Heard())
        """
    )
    path = tmp_path / "main.py"
    path.write_text(script)
    with subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True) as main:
        assert main.stdout is not None
        pids = [int(pid) for pid in main.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.5)
        main.kill()
    deadline = time.monotonic() + 20
    while any(_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
