"""Containers: each job is a container of its own, by docker, podman or another tool with the same options.

In: an image with Python 3.10 or later. Out: `Containers.worker`, one job's `Worker`, to be used once and as a
context manager. Wrong: `SandboxUnavailable`, which says of each engine that was tried why it cannot be used.

No descriptor reaches into a container: an agent there (`sandbox.inside.agent`) starts the program, and a
thread here carries its messages to the descriptors that the supervisor reads. The engine removes a container
when its agent ends, and an agent ends when its standard input does: also when the supervisor is killed.
"""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import select
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from sandbox import codec, farside
from sandbox.backends import carrier
from sandbox.inside import agent
from sandbox.inside.program import Status
from sandbox.inside.root import INNER_ID
from sandbox.job import Limits, SandboxUnavailable

IMAGE = "python:3.11-slim"
ENGINES = ("docker", "podman")
_CHUNK = 1 << 18
# What the agent and the engine's own init may add to the program's processes and memory.
_AGENT_TASKS = 1
_AGENT_MB = 64
# The threads of gVisor's kernel count as the container's; the agent counts the program's own.
_GVISOR_TASKS = 512
# Of all containers at once, whose programs have one uid; each is held to its own number as well.
_MOST_PROCESSES = 16384
# How long an agent that was told to end may take before its container is killed, and that may take.
_AGENT_GRACE_S = 0.5
_ENGINE_S = 20.0
_MOST_SAID = 4096
_NO_IMAGE = ("no such image", "image not known", "not found", "no such object")


class Containers:
    """One engine, image and runtime. Any number of threads may ask for workers.

    image     the image's name; it must be there already, nothing is pulled
    engine    a command, or "" for the first of `ENGINES` that can be used
    runtime   the engine's OCI runtime ("runsc" for gVisor), or "" for its default
    options   further options of the engine's `run`
    packages  folders of the host that programs import from, read-only
    """

    def __init__(
        self,
        image: str = IMAGE,
        engine: str = "",
        runtime: str = "",
        options: Sequence[str] = (),
        packages: Sequence[str] = (),
    ) -> None:
        self.image = image
        self.runtime = runtime
        self.options = tuple(options)
        self.packages = tuple(packages)
        self.engine = self._usable([engine] if engine else list(ENGINES))

    def worker(self, hash_seed: int | None = 0) -> ContainerWorker:
        """Return what can begin one job; None draws a hash seed."""
        return ContainerWorker(self, "random" if hash_seed is None else str(hash_seed))

    def _usable(self, engines: Sequence[str]) -> str:
        reasons = []
        for engine in engines:
            path = shutil.which(engine)
            reason = "not on this machine" if path is None else self._problem(path)
            if path is not None and not reason:
                return path
            reasons.append(f"{engine}: {reason}")
        raise SandboxUnavailable(f"no container engine can be used here ({'; '.join(reasons)})")

    def _problem(self, engine: str) -> str:
        """Return "" where the engine answers and has the image, else one line."""
        try:
            done = subprocess.run(
                [engine, "image", "inspect", "--format", "{{.Id}}", self.image],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ENGINE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"no answer: {error}"
        if done.returncode == 0:
            return ""
        said = _one_line(done.stderr) or f"exit status {done.returncode}"
        if any(
            word in said.lower() for word in ("no such image", "not known", "not found", "no such object")
        ):
            return f"it has no image {self.image}: {engine} pull {self.image}"
        return said

    def arguments(self, name: str, limits: Limits, seed: str) -> list[str]:
        """The command line that runs an agent in a new container."""
        gvisor = "runsc" in self.runtime
        tasks = limits.processes + (_GVISOR_TASKS if gvisor else _AGENT_TASKS)
        memory = f"{limits.memory_mb + limits.tmpfs_mb + _AGENT_MB}m"
        made = [self.engine, "run", "--rm", "--interactive", "--name", name, "--pull", "never"]
        made += ["--network", "none", "--read-only", "--cap-drop", "ALL"]
        made += ["--security-opt", "no-new-privileges", "--user", f"{INNER_ID}:{INNER_ID}"]
        made += ["--pids-limit", str(tasks), "--memory", memory, "--memory-swap", memory]
        tmpfs = f"rw,nosuid,nodev,exec,mode=1777,size={limits.tmpfs_mb}m"
        made += ["--tmpfs", f"/tmp:{tmpfs}", "--shm-size", f"{limits.tmpfs_mb}m"]  # noqa: S108
        made += ["--log-driver", "none", "--no-healthcheck", "--hostname", "sandbox", "--workdir", "/"]
        made += ["--env", f"PYTHONHASHSEED={seed}", "--entrypoint", "python3"]
        # An engine's own defaults may be more than its user is allowed.
        for what, wanted in (("nofile", max(1024, limits.open_files)), ("nproc", _MOST_PROCESSES)):
            most = resource.getrlimit(getattr(resource, f"RLIMIT_{what.upper()}"))[1]
            given = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
            made += ["--ulimit", f"{what}={given}:{given}"]
        for path in self.packages:
            made += ["--volume", f"{path}:{path}:ro"]
        if self.runtime:
            made += ["--runtime", self.runtime]
        return [*made, *self.options, self.image, *farside.agent_command()]


class ContainerWorker:
    """One job. A context manager; at its end its container is gone."""

    # What the program takes is measured inside; of the engine's own processes nothing follows.
    root_pid = 0

    def __init__(self, engine: Containers, seed: str) -> None:
        self._engine = engine
        self._seed = seed
        self._name = f"sandbox-{os.getpid()}-{secrets.token_hex(8)}"
        self._process: subprocess.Popen[bytes] | None = None
        self._bridge: threading.Thread | None = None
        self._control = -1

    def __enter__(self) -> ContainerWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if self._bridge is not None:
            self._bridge.join()

    def start(self, flags: int, limits: Limits, parts: Mapping[str, int]) -> None:
        """Begin the job whose descriptors are `parts`. Raises OSError where the engine cannot be started."""
        first = farside.agent_bundle() + _message(limits, parts)
        kept = carrier.copies(parts)
        ends, self._control = os.pipe()
        try:
            self._process = subprocess.Popen(
                self._engine.arguments(self._name, limits, self._seed),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            bridge = threading.Thread(target=self._carry, args=(first, kept, ends), daemon=True)
            self._bridge = bridge
            bridge.start()
        except BaseException as error:
            self._bridge = None
            for number in (*kept.values(), ends):
                os.close(number)
            if self._process is not None:
                self._end(self._process)
            if isinstance(error, RuntimeError):
                raise OSError(f"no thread could be started: {error}") from None
            raise

    def kill(self) -> None:
        """Have the agent's standard input end, and with it the agent and its container."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1

    def settle(self) -> None:
        """Nothing to wait for: another job is another container."""

    def starved(self) -> bool:
        """The agent looks after that, and tells."""
        return False

    def abandon(self) -> None:
        """Have the container killed."""
        self.kill()
        self._ask("kill")

    def _carry(self, first: bytes, kept: dict[str, int], ends: int) -> None:
        """Carry messages to and fro until the agent is gone, then see that nothing is left of it."""
        process = self._process
        assert process is not None  # noqa: S101 - for the type checker
        bridge = _Bridge(process, first, kept)
        try:
            bridge.run(ends)
        finally:
            os.close(ends)
            if not bridge.heard and not bridge.killed:
                said = _one_line(bytes(bridge.said)) or "its engine said nothing"
                Status(kept["status"]).say(f"error the container did not begin: {said}")
            for number in kept.values():
                os.close(number)
            self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the engine's command, killing the container where that takes long."""
        for stream in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        try:
            process.wait(_AGENT_GRACE_S)
        except subprocess.TimeoutExpired:
            self._ask("kill")
            try:
                process.wait(_ENGINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self._ask("rm", "--force")

    def _ask(self, *words: str) -> None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [self._engine.engine, *words, self._name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_ENGINE_S,
                check=False,
            )


def _message(limits: Limits, parts: Mapping[str, int]) -> bytes:
    """The job as an agent takes it."""
    payload = _contents(parts["payload"])
    job = {
        "config": codec.decode(payload[4 + int.from_bytes(payload[:4], "little") :]),
        "stdin": _contents(parts["stdin"]),
        "fence": True,
        "deadline": 0,
        "output_stops": False,
        "most": carrier.bounds(limits),
    }
    body = codec.encode(job)
    return agent.HEAD.pack(agent.JOB, len(body)) + body


class _Bridge:
    """The loop of one container's thread."""

    def __init__(self, process: subprocess.Popen[bytes], first: bytes, kept: dict[str, int]) -> None:
        assert process.stdin is not None  # noqa: S101 - for the type checker
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        self._process = process
        self._to, self._from, self._words = (
            process.stdin.fileno(),
            process.stdout.fileno(),
            process.stderr.fileno(),
        )
        self._waiting = bytearray(first)
        self._kept = kept
        self._carrier = carrier.Carrier(kept)
        self.heard = self.killed = False
        self.said = bytearray()
        for number in (self._to, self._from, self._words):
            os.set_blocking(number, False)

    def run(self, ends: int) -> None:
        sources: dict[int, Any] = {self._from: self._hear, self._words: self._listen}
        if "requests" in self._kept:
            sources[self._kept["requests"]] = self._ask
        talking = True
        while self._from in sources:
            poll = select.poll()
            for number in (ends, *sources):
                poll.register(number, select.POLLIN)
            if talking and self._waiting:
                poll.register(self._to, select.POLLOUT)
            for number, _ in poll.poll():
                if number == ends:
                    self.killed = True
                    return
                if number == self._to and number not in sources:
                    talking = self._talk()
                elif number in sources and not sources[number]():
                    del sources[number]

    def _talk(self) -> bool:
        try:
            while self._waiting:
                del self._waiting[: os.write(self._to, self._waiting[:_CHUNK])]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def _hear(self) -> bool:
        part = _some(self._from)
        self.heard |= bool(part)
        return part is None or (part != b"" and self._carrier.take(part))

    def _listen(self) -> bool:
        part = _some(self._words)
        self.said = (self.said + (part or b""))[-_MOST_SAID:]
        return part != b""

    def _ask(self) -> bool:
        part = _some(self._kept["requests"])
        if part is not None:
            self._waiting += agent.HEAD.pack(agent.ASKED, len(part)) + part
        return part != b""


def _some(number: int) -> bytes | None:
    """What can be read now: None for nothing yet, empty at the end."""
    try:
        return os.read(number, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _contents(number: int) -> bytes:
    parts = bytearray()
    while part := os.pread(number, 1 << 20, len(parts)):
        parts += part
    return bytes(parts)


def _one_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return " ".join(lines[-1].split())[:300] if lines else ""
