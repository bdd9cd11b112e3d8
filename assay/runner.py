"""Our runner for one machine: units of a stage on worker processes, by `concurrent.futures`.

Every slot is an executor with one worker, so that a worker that is killed (out of memory, kill -9,
a crash in C code) takes nothing but its own unit with it and it is certain which. That is told, the unit
is tried once more, the others go on, and nothing hangs. Workers stay for the next stage.

The result never depends on the number of workers: units are planned without knowing it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from assay.progress import Observer
from assay.recipe import Recipe
from assay.stages import Stage
from assay.worker import run_unit, start
from schemas import shards
from schemas.errors import AssayError, Deferred, EnvironmentFault, environment_fault
from schemas.rundir import RunDir
from schemas.stage import Unit

if TYPE_CHECKING:
    from schemas.steps import UnitStep

ATTEMPTS = 2
"""How often a unit is given to a worker before it counts as failed."""

_STARTS, _PAUSE = 4, 0.3
"""How often a worker is started before that counts as impossible, and seconds that each pause is longer."""

PATIENCE = 3.0
"""Seconds for which an interrupt waits for a worker that starts."""


@dataclasses.dataclass(frozen=True)
class StageResult:
    """What a stage did; `rows_in == kept + sum(drops)` over the units that are done."""

    stage: str
    units: int
    skipped: int
    failed: tuple[str, ...]
    rows_in: int
    kept: int
    drops: dict[str, int]
    counts: dict[str, int]
    seconds: float

    def counted(self) -> str | None:
        """What else was counted, most first, as one line for a person; None where nothing was."""
        most = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        told = ", ".join(f"{name} {count:,}" for name, count in most)
        return f"{self.stage}: counted {told}" if told else None

    def summary(self) -> str:
        """One line for a person."""
        text = f"{self.stage}: {self.rows_in:,} in, {self.kept:,} kept"
        if self.drops:
            worst = sorted(self.drops.items(), key=lambda item: (-item[1], item[0]))
            text += f", {sum(self.drops.values()):,} dropped ("
            text += ", ".join(f"{reason} {count:,}" for reason, count in worst[:3])
            text += ", ...)" if len(worst) > 3 else ")"
        text += f"; {self.units} unit{'' if self.units == 1 else 's'}"
        if self.skipped:
            text += f", {self.skipped} already done"
        if self.failed:
            text += f", {len(self.failed)} FAILED"
        return f"{text}; {self.seconds:.1f} s"


@dataclasses.dataclass
class _Slot:
    executor: ProcessPoolExecutor
    pid: int | None = None


class Runner:
    """Worker processes that stay over several stages. Use as a context manager."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.slots: list[_Slot] = []

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for slot in self.slots:
            # After an interrupt nobody waits for a unit that runs: its shard is written whole or not at all.
            if kind is not None and slot.pid is not None:
                _kill(slot.pid)
        for slot in self.slots:
            slot.executor.shutdown(cancel_futures=True)

    def _new_slot(self, came: Sequence[object] = ()) -> _Slot:
        """A worker that is up. `came` fills when the user interrupts: then none is started again.

        Raises:
            EnvironmentFault: none can be started.
        """
        context = multiprocessing.get_context("forkserver")
        # One thread a worker: the number of workers is how the user says how many cores to use.
        limits = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        os.environ.update(dict.fromkeys(limits, "1"))
        try:
            context.set_forkserver_preload(["assay.quiet", "assay.worker"])
            for attempt in range(_STARTS):
                time.sleep(_PAUSE * attempt)
                slot = _Slot(ProcessPoolExecutor(1, mp_context=context, initializer=start))
                try:
                    slot.pid = slot.executor.submit(os.getpid).result()
                except (BrokenProcessPool, ConnectionError, EOFError):
                    if came:
                        raise KeyboardInterrupt from None
                    # It, or the server that forks workers, died meanwhile; another try starts both, once
                    # the system has noticed that the old one is gone.
                    slot.executor.shutdown(wait=False)
                else:
                    return slot
            raise EnvironmentFault(
                "workers die while they start; free some memory or give fewer --workers, "
                "and run the same command again"
            )
        except OSError as error:
            raise environment_fault(error) or EnvironmentFault(
                f"no worker can be started ({error.strerror or error}); give fewer --workers"
            ) from None
        finally:
            for name, value in limits.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def _replaced(self, slot: _Slot) -> _Slot:
        """A fresh worker in place of one that died."""
        slot.executor.shutdown(wait=False)
        self.slots.remove(slot)
        with _uninterrupted() as came:
            self.slots.append(self._new_slot(came))
        return self.slots[-1]

    def run(
        self, stage: Stage, run: RunDir, recipe: Recipe, units: Sequence[Unit], view: Observer
    ) -> StageResult:
        """Do every unit that is not done yet.

        Raises:
            EnvironmentFault: the machine is at fault; what was finished stays.
        """
        began = time.monotonic()
        todo = [unit for unit in units if not run.is_done(stage.name, stage.outputs, unit)]
        skipped = len(units) - len(todo)
        run.write_plan(stage.name, units)
        view.started(stage.name, len(units), skipped, sum(unit.rows for unit in todo))
        failed: list[str] = []
        try:
            if todo:
                self._work(stage, run, stage.step(recipe, run.root), todo, view, failed)
        finally:
            view.closed()
            if failed:
                run.write_plan(stage.name, units, failed=sorted(failed))
        run.retire(stage.name, stage.outputs, (unit.name for unit in units))
        result = self._sum(stage, run, units, skipped, failed, time.monotonic() - began)
        view.finished(result.summary())
        return result

    def _work(
        self,
        stage: Stage,
        run: RunDir,
        step: UnitStep,
        units: Sequence[Unit],
        view: Observer,
        failed: list[str],
    ) -> None:
        """Give units to idle workers until all are done or failed; `failed` grows as they fail."""
        deferred: Deferred | None = None
        todo = deque((unit, 1) for unit in units)
        busy: dict[Future[Any], tuple[_Slot, Unit, int]] = {}
        while len(self.slots) < min(self.workers, len(todo)):
            with _uninterrupted() as came:
                self.slots.append(self._new_slot(came))
        idle = list(self.slots)
        while todo or busy:
            while todo and idle:
                slot = idle.pop()
                unit, attempt = todo.popleft()
                try:
                    future = slot.executor.submit(run_unit, stage.name, stage.outputs, step, run.root, unit)
                except BrokenProcessPool:
                    # Killed while it had nothing to do: no unit's fault.
                    todo.appendleft((unit, attempt))
                    idle.append(self._replaced(slot))
                    continue
                busy[future] = (slot, unit, attempt)
            done, _ = wait(busy, timeout=0.2, return_when=FIRST_COMPLETED)
            view.tick()
            for future in done:
                slot, unit, attempt = busy.pop(future)
                try:
                    kept, drops = future.result()
                    view.unit_done(unit.name, kept, drops)
                except BrokenProcessPool:
                    again = attempt < ATTEMPTS
                    view.trouble(
                        f"{stage.name} {unit.name}: worker {slot.pid} was killed; "
                        + ("trying this unit once more" if again else "giving this unit up")
                    )
                    if again:
                        todo.append((unit, attempt + 1))
                    else:
                        failed.append(unit.name)
                    slot = self._replaced(slot)
                except Deferred as fault:
                    deferred = fault
                except EnvironmentFault:
                    raise
                except AssayError as error:
                    view.trouble(str(error))
                    failed.append(unit.name)
                idle.append(slot)
        if deferred is not None:
            raise deferred

    def _sum(
        self,
        stage: Stage,
        run: RunDir,
        units: Sequence[Unit],
        skipped: int,
        failed: list[str],
        seconds: float,
    ) -> StageResult:
        """Totals from the sidecars, so that a resumed run tells the same as an undisturbed one."""
        rows_in, kept, drops, counts = 0, 0, Counter[str](), Counter[str]()
        for unit in units:
            if unit.name in failed:
                continue
            sidecar = shards.read_sidecar(run.part_path(stage.name, stage.outputs[0], unit.name))
            counts.update(sidecar.counts)
            counted = sidecar.accounting
            if counted is not None:
                rows_in += counted.rows_in
                kept += counted.kept
                drops.update(counted.drops)
        return StageResult(
            stage.name,
            len(units),
            skipped,
            tuple(sorted(failed)),
            rows_in,
            kept,
            dict(sorted(drops.items())),
            dict(sorted(counts.items())),
            seconds,
        )


@contextlib.contextmanager
def _uninterrupted() -> Iterator[list[object]]:
    """Hold Ctrl-C and SIGTERM back for as long as a worker starts; then they do what they do.

    A worker left half started would find its queues gone, and say so in a traceback. Whoever asks again
    some seconds later is heard at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    came: list[object] = []
    began = 0.0

    def note(number: int, _frame: FrameType | None) -> None:
        nonlocal began
        began = began or time.monotonic()
        came.append(number)
        if time.monotonic() - began > PATIENCE:
            restore()
            signal.raise_signal(number)

    def restore() -> None:
        for number, handler in old.items():
            signal.signal(number, handler)

    old = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        restore()
        if came:
            # Whatever else went wrong meanwhile came of it.
            signal.raise_signal(signal.SIGINT)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
