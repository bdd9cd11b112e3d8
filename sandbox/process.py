"""One sandboxed process tree as the supervisor sees it, and the loop that attends to one or two of them.

In: a launch description (`Launch`). Out: `Tree`, whose fields say what came over its pipes and how it
ended; frames are handed to a callback as they arrive. Every wait has a deadline, output is kept up to a
bound and drained beyond it, and `close` leaves no process and no descriptor behind, whatever happened.
Wrong: OSError when nothing can be started at all; all else is told through the fields.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sandbox import codec
from sandbox.frames import FrameError, FrameOverflowError, FrameReader, pack
from sandbox.inside.taken import Taken, of_job, waited_here
from sandbox.job import Limits, Status
from sandbox.server import MEMORY_SLACK_MB, memory_file

SETUP_S = 20.0
# How long a tree may take to vanish after it was told to end, before the whole worker is killed.
GRACE_S = 2.0
# How many times its wall clock limit a program is given when others keep the processors from it.
MOST_EXCUSED = 20.0
_RELEASE_S = 0.2
_SHORT_TURN_S = 0.005
_TICK_S = 0.05
_CHUNK = 1 << 18
_PIPE_FULL, _PIPE_BYTES = 1 << 16, 1 << 20
STARVED = "the kernel killed a process: together they took all the memory they may"
# Limits that an agent beside the program holds it to, where nobody can look from outside.
_SEEN_BY_OTHERS: tuple[Status, ...] = ("timeout", "cpu_limit", "memory_limit", "proc_limit")


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start: `config` goes to the far side as is, `stdin` becomes the program's file 0.

    bundle   modules that stand before `config`, with their length; four zero bytes where there are none
    flags    `sandbox.inside.init.BUILD` and its like
    """

    config: dict[str, Any]
    stdin: bytes
    limits: Limits
    output_stops: bool
    bundle: bytes = bytes(4)
    flags: int = 0


class Worker(Protocol):
    """What can begin a job: a warm server, or another tool that is started for each."""

    @property
    def root_pid(self) -> int:
        """The parent of the job's PID 1, for looking at the tree from outside."""

    def start(self, flags: int, limits: Limits, parts: Mapping[str, int]) -> None:
        """Begin a job with these descriptors (`sandbox.inside.init.PARTS`)."""

    def starved(self) -> bool:
        """Whether the kernel has killed a process of this job because its control group was full."""

    def kill(self) -> None:
        """Have every process of the job killed, from outside its namespaces; do not wait."""

    def settle(self) -> None:
        """The job is over: return when no kill can still be on its way."""

    def abandon(self) -> None:
        """Kill all of it: the job did not end when it was told to."""


@dataclass(slots=True)
class Output:
    """The first bytes of one output stream, and whether there were more."""

    limit: int
    data: bytearray = field(default_factory=bytearray)
    truncated: bool = False

    def take(self, part: bytes) -> None:
        room = self.limit - len(self.data)
        self.data += part[:room]
        self.truncated |= len(part) > room

    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


OnFrame = Callable[["Tree", bytes, bytes], None]


class Tree:
    """PID 1 of a job, the program and whatever the program starts.

    started       monotonic seconds when the program began, None before
    wait_status   the program's own, as PID 1 saw it; None where PID 1 was killed first
    setup_error   why nothing was run
    stopped       (status, detail) of the first reason the supervisor had to end it
    crowded       as many processes were seen alive as the limit allows
    """

    def __init__(self, launch: Launch, worker: Worker) -> None:
        self.launch = launch
        self.worker = worker
        limits = launch.limits
        self.out = Output(limits.output_kb << 10)
        self.err = Output(limits.output_kb << 10)
        self.nonce: bytes = launch.config["nonce"]
        self.started: float | None = None
        self.wall_s = 0.0
        self.wait_status: int | None = None
        self.cpu_s = 0.0
        self.max_rss = 0
        self.setup_error = ""
        self.stopped: tuple[Status, str] | None = None
        self.stopped_at = 0.0
        self.ended_at = 0.0
        self.released_at = 0.0
        self.exited_at = 0.0
        self.crowded = False
        # Of the wall clock: time excused, time in which it did not run, and since when it does not.
        self._excused = 0.0
        self._paused_s = 0.0
        self._paused_at: float | None = None
        self._resumed_at = 0.0
        self._looked_at = 0.0
        self._uncounted_s = 0.0
        # What PID 1 had taken before this job, and this thread had waited, as far as known.
        self._of_earlier: float | None = None
        self._waited_before = 0.0
        self._status_text = b""
        self._reader = FrameReader(self.nonce, (limits.result_kb << 10) + (1 << 16))
        self._pending = bytearray()
        self._open: dict[int, str] = {}
        self._start()

    def _start(self) -> None:
        launch = self.launch
        ours: dict[str, int] = {}
        theirs: dict[str, int] = {}
        try:
            theirs["payload"] = memory_file(launch.bundle, codec.encode(launch.config))
            theirs["stdin"] = memory_file(launch.stdin)
            for name in ("status", "channel", "requests", "out", "err"):
                if name == "requests" and not launch.config["requests"]:
                    continue
                reader, writer = os.pipe()
                incoming = name != "requests"
                ours[name] = reader if incoming else writer
                theirs[name] = writer if incoming else reader
                os.set_blocking(ours[name], False)
                if name in ("out", "err"):
                    _suit(writer, large=launch.config["command"] is not None)
            self.spawned = time.monotonic()
            self.worker.start(launch.flags, launch.limits, theirs)
        except BaseException:
            for number in ours.values():
                os.close(number)
            raise
        finally:
            for number in theirs.values():
                os.close(number)
        self._open = {number: name for name, number in ours.items()}

    # -- what the loop needs

    @property
    def over(self) -> bool:
        """Whether it has ended or was told to."""
        return bool(self.stopped_at) or self.finished

    @property
    def finished(self) -> bool:
        return not any(name in ("status", "out", "err", "channel") for name in self._open.values())

    def wanted(self) -> list[tuple[int, int]]:
        """The descriptors to poll, each with its event mask."""
        masks = {"requests": select.POLLOUT if self._pending else 0}
        return [
            (number, masks.get(name, select.POLLIN))
            for number, name in self._open.items()
            if masks.get(name, select.POLLIN)
        ]

    def attend(self, number: int, on_frame: OnFrame) -> None:
        """Move bytes over one ready descriptor."""
        name = self._open.get(number)
        if name is None:
            return
        if name == "requests":
            self._write()
            return
        try:
            part = os.read(number, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            self._close(name)
        elif name == "status":
            self._read_status(part)
        elif name == "channel":
            self._read_frames(part, on_frame)
        else:
            if len(part) >= _PIPE_FULL:
                # A program that floods its output is switched to and fro less often with a larger pipe.
                with contextlib.suppress(OSError):
                    fcntl.fcntl(number, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            stream = self.out if name == "out" else self.err
            stream.take(part)
            if stream.truncated and self.launch.output_stops:
                self.stop("output_limit", f"more than {stream.limit >> 10} KiB of output")

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        """Queue a frame for the program."""
        self._pending += pack(self.nonce, kind, payload)
        self._write()

    def stop(self, status: Status, detail: str) -> None:
        """End the tree, and remember why; the first reason counts."""
        if self.stopped is None:
            self.stopped = (status, detail)
        self.end()

    def end(self) -> None:
        """Have PID 1 killed, without a reason against the program."""
        if not self.stopped_at:
            self.stopped_at = time.monotonic()
            taken = of_job(self.worker.root_pid)
            self.cpu_s, self.max_rss = self._own_cpu_s(taken), taken.peak_kb
            self.worker.kill()
            self._close("requests")

    def pause(self) -> None:
        """Stop the job's wall clock: it waits for others to let it go on."""
        if self._paused_at is None:
            self._paused_at = time.monotonic()
            # A turn this short is the way there and back, which takes longer on a busy machine.
            turn = self._paused_at - self._resumed_at
            if turn < _SHORT_TURN_S and self._uncounted_s < MOST_EXCUSED * self.launch.limits.wall_s:
                self._uncounted_s += turn
                self._paused_s += turn

    def resume(self) -> None:
        """Let the wall clock go on."""
        if self._paused_at is not None:
            since = self._paused_at if self.started is None else max(self._paused_at, self.started)
            self._paused_s += max(0.0, time.monotonic() - since)
            self._paused_at = None
        self._resumed_at = time.monotonic()

    def release(self) -> None:
        """Tell the program that no request will follow; one that does not end by itself is ended."""
        if not self.released_at:
            self.released_at = time.monotonic()
            self._close("requests")

    def tick(self, now: float) -> float:
        """Enforce deadlines and the tree's memory; return seconds until the next look is due."""
        if "status" not in self._open.values():
            # PID 1 is gone; without a pid namespace something may still hold a pipe.
            self.ended_at = self.ended_at or now
            if now - self.ended_at > GRACE_S:
                for name in ("channel", "out", "err"):
                    self._close(name)
            return _TICK_S
        if self.stopped_at:
            if now - self.stopped_at > GRACE_S:
                self.worker.abandon()
                for name in ("status", "channel", "out", "err"):
                    self._close(name)
            return _TICK_S
        if self.released_at and now - self.released_at > _RELEASE_S:
            self.end()
            return _TICK_S
        if self.started is None:
            left = self.spawned + SETUP_S - now
            if left <= 0:
                self.setup_error = f"the program had not begun within {SETUP_S:g} s"
                self.stop("infra_error", self.setup_error)
            return max(left, 0)
        if self.wait_status is not None:
            if now - self.exited_at > GRACE_S:
                self.end()
            return _TICK_S
        return self._watch(now)

    def _watch(self, now: float) -> float:
        """Hold a running program to its limits; return seconds until the next look is due."""
        assert self.started is not None  # noqa: S101 - for the type checker
        limits = self.launch.limits
        ran = now - self.started - self._paused_s
        if self._paused_at is not None:
            ran -= max(0.0, now - max(self._paused_at, self.started))
        left = limits.wall_s + self._excused - ran
        if left <= 0:
            self._excused = self._not_its_own(ran)
            left = limits.wall_s + self._excused - ran
        if left <= 0:
            self.stop("timeout", f"wall clock limit of {limits.wall_s:g} s")
        elif now - max(self.started, self._looked_at) > _TICK_S:
            self._looked_at = now
            self._look(limits)
        return max(min(left, _TICK_S), 0)

    def _not_its_own(self, ran: float) -> float:
        """Seconds in which it was ready to run while programs of others had the processors."""
        taken = of_job(self.worker.root_pid)
        others = ran - self._own_cpu_s(taken) / len(os.sched_getaffinity(0))
        most = MOST_EXCUSED * self.launch.limits.wall_s
        # This thread's own waiting counts too: it may have read late what the program wrote in time.
        late = waited_here() - self._waited_before
        return max(0.0, min(taken.waited_s() + late, others, most))

    def _own_cpu_s(self, taken: Taken) -> float:
        """Processor seconds of this job so far, without what PID 1 had of earlier ones."""
        if self._of_earlier is None:
            self._of_earlier = taken.init_s
        return max(0.0, taken.cpu_s - self._of_earlier)

    def _look(self, limits: Limits) -> None:
        taken = of_job(self.worker.root_pid)
        cpu_s = self._own_cpu_s(taken)
        most_kb = (limits.memory_mb + MEMORY_SLACK_MB) << 10
        self.crowded |= taken.tasks >= limits.processes
        if taken.tasks > limits.processes:
            # Only where no namespace lets the kernel count the job's own processes.
            self.stop("proc_limit", f"{taken.tasks} processes and threads, {limits.processes} allowed")
        if self.worker.starved():
            self.stop("memory_limit", STARVED)
        elif taken.kb > most_kb and (used_kb := taken.exact_kb()) > most_kb:
            self.stop("memory_limit", f"its processes together took {used_kb >> 10} MiB")
        if cpu_s > limits.cpu_s:
            self.stop("cpu_limit", f"its processes together took {cpu_s:.2f} s of processor time")

    def close(self) -> None:
        """Make sure that nothing is left: no process, no zombie, no descriptor."""
        self._end_clock()
        if not self.finished:
            self.worker.kill()
        elif self.stopped is None and self.worker.starved():
            self.stopped = ("memory_limit", STARVED)
        if self.stopped is not None and self.stopped[1] == STARVED:
            # Of what the kernel killed nobody can tell any more how large it was.
            self.max_rss = max(self.max_rss, self.launch.limits.memory_mb << 10)
        for name in list(self._open.values()):
            self._close(name)
        self.worker.settle()

    # -- inner workings

    def _close(self, name: str) -> None:
        for number, known in list(self._open.items()):
            if known == name:
                del self._open[number]
                os.close(number)

    def _write(self) -> None:
        for number, name in list(self._open.items()):
            if name != "requests":
                continue
            try:
                while self._pending:
                    del self._pending[: os.write(number, self._pending[:_CHUNK])]
            except BlockingIOError:
                return
            except OSError:
                self._close(name)

    def _read_status(self, part: bytes) -> None:
        *lines, self._status_text = (self._status_text + part).split(b"\n")
        for line in lines:
            word, _, rest = line.decode("utf-8", "replace").partition(" ")
            if word == "started":
                self.started = time.monotonic()
                self._waited_before = waited_here()
            elif word == "exit":
                code, cpu, rss = rest.split()
                self.wait_status = int(code)
                self.cpu_s = max(self.cpu_s, float(cpu))
                self.max_rss = max(self.max_rss, int(rss))
                self.exited_at = time.monotonic()
                self._end_clock()
            elif word == "crowded":
                self.crowded = True
            elif word == "stop":
                # What only those can see who are on the same machine as the program.
                said, _, detail = rest.partition(" ")
                for status in _SEEN_BY_OTHERS:
                    if status == said:
                        self.stop(status, detail)
            elif word == "error":
                self.setup_error = self.setup_error or rest

    def _end_clock(self) -> None:
        if self.started is not None and not self.wall_s:
            self.wall_s = time.monotonic() - self.started

    def _read_frames(self, part: bytes, on_frame: OnFrame) -> None:
        try:
            frames = self._reader.feed(part)
            for kind, payload in frames:
                on_frame(self, kind, payload)
        except FrameOverflowError as error:
            self._refuse("output_limit", str(error))
        except (FrameError, codec.DecodeError) as error:
            self._refuse("unserializable", str(error))

    def _refuse(self, status: Status, detail: str) -> None:
        self.stop(status, detail)
        self._close("channel")


def _suit(pipe: int, large: bool) -> None:
    """Let a program open its output by name too; where `large`, let it hold all that is kept of the output.

    Some runtimes write what a pipe takes and forget the rest when they leave.
    """
    if os.geteuid() == 0:
        # The program is another user, to whom the pipe would be root's.
        os.fchmod(pipe, 0o666)
    if large:
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def attend(trees: list[Tree], on_frame: OnFrame, on_turn: Callable[[], None]) -> None:
    """Serve `trees` until each has ended. `on_turn` runs after every round and may stop them."""
    wait = 0.0
    while not all(tree.finished for tree in trees):
        poll = select.poll()
        owner: dict[int, Tree] = {}
        for tree in trees:
            for number, mask in tree.wanted():
                poll.register(number, mask)
                owner[number] = tree
        for number, _ in poll.poll(wait * 1000 + 1):
            owner[number].attend(number, on_frame)
        on_turn()
        # After what has come in: a supervisor that was held up must not call a program late that was not.
        now = time.monotonic()
        wait = min([1.0, *(tree.tick(now) for tree in trees if not tree.finished)])
