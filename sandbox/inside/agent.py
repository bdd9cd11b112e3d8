"""Runs one program where no descriptor of the supervisor's reaches: in a container, or on another machine.

    supervisor <- messages -> agent (starts, watches and ends the program) -> the program

In: the job, as `main` gets it. Out: messages (`HEAD` and that many bytes): what the program says on each of
its descriptors, and the lines that PID 1 tells elsewhere: "started", "exit <wait status> <processor s> <max
rss KiB>", "error <text>", "crowded" when as many processes are alive as may be, and "stop <status> <detail>"
where a limit was passed that only the agent can see.
Wrong: whatever fails before the program began is told as "error".
The program has the agent's uid, so the agent makes itself unreadable, and lets nothing but pipes through.
This module and all that it imports of ours are sent as text and run by Python 3.10 or later.
"""

# pathlib and contextlib would cost more to import than the rest of this module.
# ruff: noqa: PTH103, PTH123, SIM105

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import struct
import time

from sandbox import codec
from sandbox.inside import kernel, landlock, program
from sandbox.inside.program import CHANNEL, FIRST_FREE, PAYLOAD, REQUESTS
from sandbox.inside.taken import Taken, below, out_of_memory

TYPE_CHECKING = False  # importing typing would cost more than the rest of this module
if TYPE_CHECKING:
    from typing import Any, NoReturn

# A message: its kind and its length.
HEAD = struct.Struct("<cI")
# To the agent: the job; bytes for the program's request channel, whose end is an empty one.
JOB, ASKED = b"J", b"A"
# From the agent: a line; bytes of the result channel, of standard output and of standard error.
LINE, RESULT, OUT, ERR = b"S", b"C", b"1", b"2"

_CHUNK = MOST_IN_ONE = 1 << 16
_TICK_S = 0.05
MOST_PRINTED = 32 << 10
# Messages that wait to be sent; beyond that the program's pipes are left to fill.
_MOST_WAITING = 1 << 20
# How long pipes are read after the program's end: processes that it left are killed before.
_LINGER_S = 1.0
_SLACK_KB = 48 << 10
_MOST_EXCUSED = 1.0
_STATUS = 6
_M_ARENA_MAX = -8


class Agent:
    """One job from its message to its end.

    source   where messages come from, or -1; its end kills the program
    target   where messages go
    job      config     as for PID 1
             stdin      bytes of the program's file 0
             fence      keep the program to its uid, to /tmp and to harmless system calls
             deadline   seconds of wall clock, or 0 where the supervisor looks at the clock
             most       bytes that are sent of each of standard output and error, and of results
             output_stops  end the program when it has printed more
    """

    def __init__(self, source: int, target: int, job: dict[str, Any]) -> None:
        self.source = source
        self.target = target
        self.job = job
        self.limits: dict[str, Any] = job["config"]["limits"]
        self.waiting = bytearray()
        self.left = dict(job["most"])
        self.started = 0.0
        self.excused = 0.0
        self.stopped = False
        self.crowded = False
        self.ended: str | None = None
        self.ended_at = 0.0
        self.child = 0
        self.cpu_s = 0.0
        self.heard = bytearray()
        self.asked = bytearray()
        self.told = b""
        # descriptor -> kind of the message that carries what comes from it
        self.streams: dict[int, bytes] = {}
        self.requests = -1
        self.woken = -1

    def run(self) -> None:
        """Start the program, attend to it, and return when all has been sent."""
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        os.set_blocking(self.target, False)
        self.woken, wake = os.pipe()
        for number in (self.woken, wake):
            os.set_blocking(number, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.start()
        while True:
            self.serve()
            now = time.monotonic()
            if self.ended is None and not self.stopped:
                self.watch(now)
            if self.ended is not None and (not self.streams or now - self.ended_at > _LINGER_S):
                break
        self.line(self.ended)
        os.set_blocking(self.target, True)
        while self.waiting:
            self.flush()

    def start(self) -> None:
        theirs: dict[int, int] = {}
        for place, kind in ((1, OUT), (2, ERR), (CHANNEL, RESULT), (_STATUS, LINE)):
            reader, theirs[place] = os.pipe()
            os.set_blocking(reader, False)
            self.streams[reader] = kind
        theirs[REQUESTS], self.requests = os.pipe()
        os.set_blocking(self.requests, False)
        theirs[0] = _unnamed_file()
        with open(theirs[0], "wb", closefd=False) as file:
            file.write(self.job["stdin"])
        os.lseek(theirs[0], 0, os.SEEK_SET)
        theirs[PAYLOAD] = os.open("/dev/null", os.O_RDWR)
        os.makedirs(self.job["config"]["work"], exist_ok=True)
        self.child = os.fork()
        if self.child == 0:
            self.become(theirs)
        for number in theirs.values():
            os.close(number)

    def become(self, theirs: dict[int, int]) -> NoReturn:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        above = max(*theirs.values(), FIRST_FREE) + 1
        lifted = {place: fcntl.fcntl(number, fcntl.F_DUPFD, above) for place, number in theirs.items()}
        for place, number in lifted.items():
            os.dup2(number, place, inheritable=place < 3)
        os.closerange(FIRST_FREE, max(lifted.values()) + 1)
        status = program.Status(_STATUS)
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            # Each further arena of glibc's malloc would take 64 MiB of the program's address space.
            mallopt(_M_ARENA_MAX, 1)
        try:
            if self.job["fence"]:
                kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
                landlock.fence(["/tmp"])  # noqa: S108 - the container's own
                kernel.install_seccomp()
        except BaseException as error:
            status.fail("the program's fences", error)
        program.become(self.job["config"], status)

    def line(self, text: str) -> None:
        self.send(LINE, text.replace("\n", " ").encode("utf-8", "backslashreplace")[:2000])

    def send(self, kind: bytes, data: bytes) -> None:
        self.waiting += HEAD.pack(kind, len(data)) + data

    def flush(self) -> None:
        try:
            while self.waiting:
                del self.waiting[: os.write(self.target, self.waiting[:_CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            self.leave()

    def leave(self) -> NoReturn:
        """Nobody listens any more."""
        self.sweep()
        os._exit(1)

    def serve(self) -> None:
        """Move what there is to move, waiting for a moment at most."""
        poll = select.poll()
        poll.register(self.woken, select.POLLIN)
        if self.source >= 0:
            poll.register(self.source, select.POLLIN)
        if self.waiting:
            poll.register(self.target, select.POLLOUT)
        if self.asked and self.requests >= 0:
            poll.register(self.requests, select.POLLOUT)
        if len(self.waiting) < _MOST_WAITING:
            for number in self.streams:
                poll.register(number, select.POLLIN)
        for number, _ in poll.poll(_TICK_S * 1000):
            if number == self.woken:
                self.reap()
            elif number == self.source:
                self.hear()
            elif number == self.target:
                self.flush()
            elif number == self.requests:
                self.pass_on()
            elif number in self.streams:
                self.read(number)
        if self.ended is None:
            self.reap()

    def read(self, number: int) -> None:
        kind = self.streams[number]
        try:
            part = os.read(number, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            del self.streams[number]
            os.close(number)
        elif kind == LINE:
            *lines, self.told = (self.told + part).split(b"\n")
            for line in lines:
                if line == b"started":
                    self.started = time.monotonic()
                self.send(LINE, line[:2000])
        else:
            # What is beyond the bound is read and dropped, so that the program is not held up.
            over = len(part) > self.left[kind]
            part = part[: self.left[kind]]
            self.left[kind] -= len(part)
            if part:
                self.send(kind, part)
            if over and not self.stopped and (kind == RESULT or self.job["output_stops"]):
                # The supervisor will see that there was too much, and which.
                self.stopped = True
                self.kill_below()

    def hear(self) -> None:
        try:
            part = os.read(self.source, _CHUNK)
        except OSError:
            part = b""
        if not part:
            self.leave()
        self.heard += part
        while len(self.heard) >= HEAD.size:
            kind, size = HEAD.unpack_from(self.heard)
            if len(self.heard) < HEAD.size + size:
                return
            body = bytes(self.heard[HEAD.size : HEAD.size + size])
            del self.heard[: HEAD.size + size]
            if kind == ASKED and body:
                self.asked += body
                self.pass_on()
            elif kind == ASKED:
                self.hang_up()

    def pass_on(self) -> None:
        if self.requests < 0:
            self.asked.clear()
            return
        try:
            while self.asked:
                del self.asked[: os.write(self.requests, self.asked[:_CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            self.hang_up()

    def hang_up(self) -> None:
        if self.requests >= 0:
            os.close(self.requests)
            self.requests = -1

    def reap(self) -> None:
        try:
            while os.read(self.woken, 512):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, wait_status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self.cpu_s += usage.ru_utime + usage.ru_stime
            if pid == self.child and self.ended is None:
                self.end(wait_status, usage.ru_maxrss)

    def end(self, wait_status: int, max_rss: int) -> None:
        if wait_status == signal.SIGKILL and not self.stopped and out_of_memory():
            self.line(f"stop memory_limit the memory of {self.limits['memory_mb']} MiB ran out")
        self.ended = f"exit {wait_status} {self.cpu_s:.6f} {max_rss}"
        self.ended_at = time.monotonic()
        self.sweep()

    def sweep(self) -> None:
        """Kill what the program has left; nobody else of this uid may be hit."""
        for _ in range(1000):
            if os.getpid() == 1:
                killed = True
                try:
                    os.kill(-1, signal.SIGKILL)
                except OSError:
                    pass
            else:
                killed = self.kill_below()
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            if not killed:
                return
            time.sleep(0.001)

    def kill_below(self) -> bool:
        found = below(os.getpid())
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if self.child and self.ended is None:
            try:
                os.killpg(self.child, signal.SIGKILL)
            except OSError:
                pass
        return bool(found)

    def watch(self, now: float) -> None:
        """Hold the program to what the kernel does not hold it to here."""
        if not self.started:
            return
        ran = now - self.started
        limits = self.limits
        taken = Taken(below(os.getpid()))
        cpu_s = self.cpu_s + taken.cpu_s
        if self.job["deadline"] and ran > self.job["deadline"] + self.excused:
            # Time in which it was ready to run and others had the processors is not its own.
            others = min(taken.waited_s(), ran - cpu_s / (os.cpu_count() or 1))
            self.excused = max(0.0, min(others, _MOST_EXCUSED * self.job["deadline"]))
            if ran > self.job["deadline"] + self.excused:
                self.stop("timeout", f"wall clock limit of {limits['wall_s']:g} s")
                return
        if taken.tasks >= limits["processes"] and not self.crowded:
            self.crowded = True
            self.line("crowded")
        most_kb = (limits["memory_mb"] << 10) + _SLACK_KB
        if taken.kb > most_kb and (exact_kb := taken.exact_kb()) > most_kb:
            self.stop("memory_limit", f"its processes together took {exact_kb >> 10} MiB")
        elif taken.tasks > limits["processes"]:
            self.stop("proc_limit", f"{taken.tasks} processes and threads, {limits['processes']} allowed")
        elif cpu_s > limits["cpu_s"]:
            self.stop("cpu_limit", f"its processes together took {cpu_s:.2f} s of processor time")

    def stop(self, status: str, detail: str) -> None:
        self.stopped = True
        self.line(f"stop {status} {detail}")
        self.kill_below()


def _unnamed_file() -> int:
    """In memory where that may be had: on disk it counts as the program's."""
    try:
        return os.memfd_create("stdin")
    except OSError:
        import tempfile

        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())


def main() -> NoReturn:
    """Be the agent of a container: messages come on file 0 and go to file 1."""
    _, size = HEAD.unpack(_exactly(HEAD.size))
    job = codec.decode(_exactly(size))
    try:
        Agent(0, 1, job).run()
    except BaseException as error:
        text = f"error the agent: {type(error).__name__}: {error}".encode("utf-8", "backslashreplace")[:2000]
        os.set_blocking(1, True)
        os.write(1, HEAD.pack(LINE, len(text)) + text)
    os._exit(0)


def alone(encoded: bytes, mark: str, name: str) -> NoReturn:
    """Be the agent of a program on a server that gives what is printed and, maybe, files.

    Prints a line before the program begins, `mark` and "began", and then its report: `mark`, the seconds that
    the program ran, and all messages, compressed, in base64. A long report is left in the file `name`, if
    there is a name, and "@" printed: such servers cut what is printed, or wait forever for it to be read.
    """
    import base64
    import shutil
    import tempfile
    import zlib

    job = codec.decode(encoded)
    job["config"]["work"] = work = tempfile.mkdtemp(prefix="run-")
    with tempfile.TemporaryFile(buffering=0) as file:
        agent = Agent(-1, file.fileno(), job)
        # Before there is a program, which could silence its agent.
        _print(b"\n%s began\n" % mark.encode())
        try:
            agent.run()
        except BaseException as error:
            agent.line(f"error the agent: {type(error).__name__}: {error}")
            agent.flush()
        shutil.rmtree(work, ignore_errors=True)
        file.seek(0)
        said = base64.b64encode(zlib.compress(file.read(), 6))
    if name and len(said) > MOST_PRINTED:
        with open(name, "xb") as file:
            file.write(said)
        said = b"@"
    # A short program may have ended before the word that it began was read.
    ran = max(0.0, agent.ended_at - agent.started) if agent.started else 0.0
    _print(b"\n%s %.6f %s\n" % (mark.encode(), ran, said))
    os._exit(0)


def _print(line: bytes) -> None:
    while line:
        line = line[os.write(1, line) :]


def _exactly(size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(0, min(size - len(parts), 1 << 20))
        if not part:
            os._exit(1)
        parts += part
    return bytes(parts)
