"""Other machines: each job is sent to a server over HTTP, one of a fleet.

In: a `Job`. Out: a `Result` whose backend and isolation are "remote": what isolates the program is that
server's affair. Wrong: `SandboxUnavailable` where no server of the fleet can be used, `SandboxError` for a
job that none can run; whatever goes wrong between here and there, or is said wrongly, is "infra_error",
never a verdict.

Two kinds of server: our own (`sandbox.service`), which runs jobs of all kinds and languages, and those with
the API of SandboxFusion, which run a script and return what it printed. There a Python job is a program that
brings its own agent (`sandbox.inside.agent.alone`), which watches the limits and tells what happened; kind
"split" cannot be had, since one process there could read the other's memory; and other languages run as
scripts only.
"""

from __future__ import annotations

import base64
import dataclasses
import os
import re
import secrets
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox import codec, fusion, launches, wire
from sandbox.backends import carrier
from sandbox.backends.client import Busy, Failed, Fleet, Refused, Server
from sandbox.farside import agent_program
from sandbox.job import Job, Limits, Result, SandboxError, SandboxUnavailable
from sandbox.languages.base import BUILD_LIMITS
from sandbox.names import script_file
from sandbox.process import Launch
from sandbox.verdict import run_alone

TIMEOUT_S = 60.0
_TRIES = 3
_HEALTH_S = 10.0
_MOST_DETAIL = 500
_JOBS, _FUSION = "jobs", "fusion"
# The file that a long report is left in, where a server gives files.
_REPORT = "sandbox-report.txt"
# What starting an interpreter and an agent may take on a busy server, beyond the program's own time.
_START_S = 15.0
_LONGEST_DAY_S = 86400.0
_LINE = re.compile(r"([0-9a-f]{32}) (\d{1,9}\.\d{6}) ([A-Za-z0-9+/=]+|@)")


class Remote:
    """A fleet. Any number of threads may run jobs.

    urls       addresses of servers; they are asked by turns
    token      sent to each of them as "Authorization: Bearer <token>"
    timeout_s  seconds that an answer may take beyond the job's own wall clock, also while a server is busy
    retries    further tries after a failure
    """

    def __init__(
        self, urls: Sequence[str], token: str | None = None, timeout_s: float = TIMEOUT_S, retries: int = 1
    ) -> None:
        if not 0 < timeout_s <= _LONGEST_DAY_S:
            raise SandboxError(f"timeout_s must lie in (0, {_LONGEST_DAY_S:g}] seconds, not {timeout_s!r}")
        self._fleet = Fleet(urls, token)
        self._timeout_s = timeout_s
        self._tries = max(_TRIES, 1 + retries)
        self._require()

    def close(self) -> None:
        self._fleet.close()

    def run(self, job: Job) -> Result:
        """Run one job somewhere. Raises SandboxError where no server of the fleet could."""
        until = time.monotonic() + 2 * job.limits.wall_s + self._timeout_s
        if job.lang != "python":
            until += BUILD_LIMITS.wall_s
        failed, detail = 0, "no server was asked"
        silenced: list[Result] = []
        while failed < self._tries:
            server, wait_s = self._fleet.next(lambda server: _can(server, job))
            if server is None:
                raise SandboxError(_cannot(job))
            if time.monotonic() + wait_s >= until:
                detail = f"no answer within {self._timeout_s:g} s beyond the job's own time: {detail}"
                break
            time.sleep(wait_s)
            try:
                result = self._ask(server, job, until)
            except Busy as error:
                detail = str(error)
                server.rest(error.after_s)
                continue
            except Refused as error:
                detail = f"the request was refused: {error}"
                break
            except _SilencedError as error:
                detail = f"{server.url}: {error}"
                failed += 1
                silenced.append(error.result)
                continue
            except (Failed, ValueError) as error:
                detail = str(error) if isinstance(error, Failed) else f"{server.url}: {error}"
                failed += 1
                server.put_aside()
                continue
            server.answered()
            if result.status != "infra_error":
                return _signed(result)
            failed += 1
            detail = f"{server.url}: {result.detail}"
        if len(silenced) == failed and failed > 1:
            return _signed(silenced[-1])
        return _signed(Result("infra_error", detail=detail))

    def _require(self) -> None:
        """Raise SandboxUnavailable unless some server runs a program."""
        job = Job("script", {"main.py": "print(40 + 2)"}, limits=Limits(wall_s=20.0, cpu_s=20.0))
        reasons = []
        for server in self._fleet.servers:
            try:
                result = self._ask(server, job, time.monotonic() + 40.0)
            except Busy:
                return
            except (Failed, Refused, ValueError) as error:
                reasons.append(str(error) if server.url in str(error) else f"{server.url}: {error}")
                server.put_aside()
                continue
            if (result.status, result.stdout) == ("ok", "42\n"):
                return
            reasons.append(f"{server.url}: {result.status} {result.detail}")
        raise SandboxUnavailable(f"no server runs programs: {'; '.join(reasons)}")

    def _ask(self, server: Server, job: Job, until: float) -> Result:
        if not server.protocol:
            server.protocol = _protocol(server)
            if not _can(server, job):
                raise Failed(f"{server.url} cannot run this job: {_cannot(job)}")
        if server.protocol == _JOBS:
            return _by_jobs(server, job, until)
        if job.lang == "python":
            return _by_agent(server, job, until)
        return _by_script(server, job, until)


class _SilencedError(Exception):
    """A program began, and its agent did not live to tell more.

    A server may have killed it for its own reasons, so this is no verdict; but a program must not get out of
    one by killing its agent, so where it happens each time it is tried it is the program's doing.
    """

    def __init__(self, job: Job, ran: Mapping[str, Any]) -> None:
        late = ran["status"] == "TimeLimitExceeded"
        text = "the server's time limit" if late else f"status {ran['return_code']} of its agent"
        super().__init__(f"the program began, and no report came back: {text}")
        self.result = Result("timeout" if late else "signal", detail=f"it silenced its agent: {text}")
        self.result.trust = "inproc" if job.kind == "unittest" else "external"


def _signed(result: Result) -> Result:
    result.backend = result.isolation = "remote"
    result.detail = " ".join(result.detail.split())[:_MOST_DETAIL]
    return result


def _can(server: Server, job: Job) -> bool:
    if server.protocol != _FUSION:
        return True
    return job.kind != "split" if job.lang == "python" else job.kind == "script" and job.lang in fusion.NAMES


def _cannot(job: Job) -> str:
    return (
        f"kind {job.kind!r} of {job.lang} needs a server of `sandbox.service`: a server with the API of "
        "SandboxFusion runs Python of kinds calls, script and unittest, and scripts of "
        + ", ".join(name for name in fusion.NAMES if name != "python")
    )


def _protocol(server: Server) -> str:
    try:
        said = server.ask("GET", "/health", None, time.monotonic() + _HEALTH_S, 1 << 16)
    except Refused:
        return _FUSION  # it knows of no /health
    return _JOBS if isinstance(said, dict) and said.get("service") == "sandbox" else _FUSION


def _most(limits: Limits) -> int:
    """Bytes that an honest answer may take: as JSON or base64, and with some room."""
    return (1 << 20) + 2 * (limits.result_kb << 10) + 16 * (limits.output_kb << 10)


def _by_jobs(server: Server, job: Job, until: float) -> Result:
    sent = wire.encode_job(job)
    request = {"job": base64.b64encode(sent).decode("ascii")}
    answer = server.ask("POST", "/jobs", request, until, _most(job.limits))
    if type(answer) is not dict or type(answer.get("result")) is not str:
        raise ValueError("an answer that holds no result")
    if answer.get("of") != wire.key(sent):
        raise ValueError("the answer to another request")
    result = wire.decode_result(base64.b64decode(answer["result"], validate=True))
    if len(result.outputs) > len(job.calls) or (result.status == "ok" and not _complete(job, result)):
        raise ValueError("a result that does not fit the job")
    return result


def _complete(job: Job, result: Result) -> bool:
    """Whether a result that says "ok" holds what that takes."""
    if job.kind == "calls":
        return len(result.outputs) == len(job.calls)
    return job.kind != "split" or result.candidate_calls > 0


def _by_script(server: Server, job: Job, until: float) -> Result:
    code = job.files[job.entry or script_file(job.lang)]
    request = fusion.request_of(job, code, BUILD_LIMITS.wall_s)
    answer = server.ask("POST", "/run_code", request, until, _most(job.limits))
    return fusion.result_of(job, answer)


def _by_agent(server: Server, job: Job, until: float) -> Result:
    own = launches.python_launch(job, job.kind, list(job.files), (), namespaces=False, work="")
    mark = secrets.token_hex(16)
    sent = {
        "config": own.config,
        "stdin": own.stdin,
        "fence": False,
        "deadline": float(job.limits.wall_s),
        "output_stops": own.output_stops,
        "most": carrier.bounds(job.limits),
    }
    answer = _run_agent(server, codec.encode(sent), mark, job.limits, until)
    status, _, ran = fusion.parts_of(answer)
    if status == "SandboxError" or ran is None:
        raise ValueError(f"the server failed: {str(answer.get('message'))[:200]}")
    line = next((line for line in reversed(ran["stdout"].split("\n")) if line.startswith(mark)), "")
    found = _LINE.fullmatch(line)
    if found is None and line == f"{mark} began":
        raise _SilencedError(job, ran)
    if found is None:
        said = (ran["stderr"].strip() or "nothing").rsplit("\n", 1)[-1][:200]
        raise ValueError(f"no report came back ({ran['status']}, status {ran['return_code']}): {said}")
    report = found[3]
    if report == "@":
        files = answer.get("files")
        report = files.get(_REPORT, "") if type(files) is dict else ""
        if type(report) is not str:
            raise ValueError("a file that is no text")
        # The server has encoded the file, which was base64 already.
        report = base64.b64decode(report, validate=True).decode("ascii")
    messages = _unpacked(base64.b64decode(report, validate=True), _most(job.limits))
    result = run_alone(job, _replayed(own), Replay(messages))
    result.wall_s = float(found[2])
    return result


def _run_agent(server: Server, sent: bytes, mark: str, limits: Limits, until: float) -> Any:
    request = {
        "language": "python",
        "stdin": "",
        "run_timeout": 2 * limits.wall_s + _START_S,
        "memory_limit_MB": -1,
    }
    if server.gives_files:
        request |= {"code": agent_program(sent, mark, _REPORT), "fetch_files": [_REPORT]}
        try:
            return server.ask("POST", "/run_code", request, until, _most(limits))
        except Refused:
            server.gives_files = False
    request |= {"code": agent_program(sent, mark, ""), "fetch_files": []}
    return server.ask("POST", "/run_code", request, until, _most(limits))


def _unpacked(data: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        messages = unpacker.decompress(data, most)
    except zlib.error as error:
        raise ValueError(f"a report that cannot be read: {error}") from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError(f"a report of more than {most} bytes, or one that was cut")
    return messages


def _replayed(launch: Launch) -> Launch:
    """The same, but for the clock: the program has run, and reading of it takes the time that it takes."""
    return dataclasses.replace(launch, limits=dataclasses.replace(launch.limits, wall_s=_LONGEST_DAY_S))


class Replay:
    """A worker whose job has run elsewhere: all that is left is to tell what its agent said."""

    root_pid = 0

    def __init__(self, messages: bytes) -> None:
        self._messages = messages

    def start(self, flags: int, limits: Limits, parts: Mapping[str, int]) -> None:
        kept = carrier.copies(parts)
        try:
            threading.Thread(target=self._carry, args=(kept,), daemon=True).start()
        except RuntimeError as error:
            for number in kept.values():
                os.close(number)
            raise OSError(f"no thread could be started: {error}") from None

    def _carry(self, kept: dict[str, int]) -> None:
        try:
            carrier.Carrier(kept).take(self._messages)
        finally:
            for number in kept.values():
                os.close(number)

    def kill(self) -> None:
        """There is nothing to kill any more."""

    settle = abandon = kill

    def starved(self) -> bool:
        return False
