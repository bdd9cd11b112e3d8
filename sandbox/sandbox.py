"""The front door: a `Sandbox` takes jobs and gives results.

In: `Job`s. Out: `Result`s, from `run` one at a time (any number of threads may call it), from `map` in
order and with `workers` at once. Wrong: `SandboxUnavailable` when the isolation asked for cannot be had,
`SandboxError` for a job that cannot be run here; a program's misdeeds are results, never exceptions.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import secrets
import shutil
import sys
import sysconfig
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from sandbox import codec, doctor, farside
from sandbox.job import Job, Layer, Result, SandboxError, SandboxUnavailable
from sandbox.process import Launch
from sandbox.verdict import run_alone, run_split

Backend = Literal["auto", "namespaces", "plain"]

# Jobs that `map` may have taken from its input ahead of the result it yields next, for each worker.
_AHEAD = 2
_SYSTEM_PREFIXES = ("/usr", "/usr/local")


class Sandbox:
    """Runs jobs on one backend.

    backend   "auto" and "namespaces" isolate fully or raise SandboxUnavailable; "plain" only limits
              resources, must be asked for, and marks each result with isolation "none"
    workers   jobs that `map` runs at once
    packages  folders of importable packages that programs may use, read-only
    """

    def __init__(
        self, backend: Backend = "auto", workers: int = 1, packages: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        if backend not in ("auto", "namespaces", "plain"):
            raise SandboxError(f"no backend {backend!r}: use 'auto', 'namespaces' or 'plain'")
        if workers < 1:
            raise SandboxError(f"workers must be at least 1, not {workers}")
        self.backend = "plain" if backend == "plain" else "namespaces"
        self.workers = workers
        self.packages = [os.path.realpath(path) for path in packages]
        for path in self.packages:
            if not Path(path).is_dir():
                raise SandboxError(f"packages: {path} is not a folder")
        if self.backend == "namespaces":
            _require_namespaces()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing outlives a job, so there is nothing to close."""

    @staticmethod
    def doctor() -> list[Layer]:
        """Measure, with a job that tries to get out, which layers of isolation hold on this machine."""
        return doctor.layers(lambda job: _run(job, "namespaces", []))

    def run(self, job: Job) -> Result:
        """Run one job to its end. Raises SandboxError, or EncodeError for a call that has no encoding."""
        return _run(job, self.backend, self.packages)

    def map(self, jobs: Iterable[Job]) -> Iterator[Result]:
        """Run `jobs` with `workers` at once; yield results in order, reading only a little ahead."""
        waiting: deque[Future[Result]] = deque()
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="sandbox")
        try:
            for job in jobs:
                waiting.append(pool.submit(self.run, job))
                if len(waiting) >= self.workers * _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            pool.shutdown(wait=True, cancel_futures=True)


@functools.cache
def _require_namespaces() -> None:
    problem = doctor.problem(lambda job: _run(job, "namespaces", []))
    if problem:
        raise SandboxUnavailable(problem)


def _run(job: Job, backend: str, packages: list[str]) -> Result:
    if job.lang != "python":
        raise SandboxError(f"no toolchain for the language {job.lang!r}: this sandbox runs 'python'")
    work = tempfile.mkdtemp(prefix="sandbox-") if backend == "plain" else ""
    try:
        if job.kind == "split":
            test, candidate = (
                _launch(job, backend, packages, role, [name], work and f"{work}/{role}")
                for role, name in (("test", "test.py"), ("candidate", "solution.py"))
            )
            result = run_split(job, test, candidate)
        else:
            launch = _launch(job, backend, packages, job.kind, list(job.files), work)
            result = run_alone(job, launch)
    except OSError as error:
        result = Result("infra_error", detail=f"nothing could be started: {error}")
    finally:
        if work:
            shutil.rmtree(work, ignore_errors=True)
    result.backend = backend
    result.isolation = "none" if backend == "plain" else "namespaces"
    return result


def _launch(job: Job, backend: str, packages: list[str], role: str, own: list[str], work: str) -> Launch:
    """Describe one process tree. Of the two program files of a split job each side gets its own only."""
    if work:
        Path(work).mkdir(exist_ok=True)
    others = {"solution.py", "test.py"} - set(own) if job.kind == "split" else set()
    config: dict[str, Any] = {
        "isolation": "none" if backend == "plain" else "namespaces",
        "role": role,
        "nonce": secrets.token_bytes(8),
        "files": {name: text for name, text in job.files.items() if name not in others},
        "entry": job.entry,
        "exports": list(job.exports),
        "in_place": job.in_place,
        "calls": [codec.encode((list(call.args), dict(call.kwargs))) for call in job.calls],
        "record": list(job.record),
        "record_max": job.record_max,
        "record_bytes": job.record_bytes,
        "result_bytes": job.limits.result_kb << 10,
        "argv": list(job.argv),
        "limits": dataclasses.asdict(job.limits),
        "binds": [*_python_paths(), *packages],
        "packages": packages,
        "work": work,
        "requests": job.kind == "split",
    }
    return Launch(
        config=config,
        stdin=job.stdin.encode("utf-8", "surrogatepass") if role == "script" else b"",
        limits=job.limits,
        hash_seed=job.hash_seed,
        requests=job.kind == "split",
        output_stops=job.kind == "script",
    )


@functools.cache
def _stdlib() -> list[str]:
    """The standard library's entries of sys.path."""
    names = {sysconfig.get_path(name, vars=_base_vars()) for name in ("stdlib", "platstdlib")}
    return sorted({path for name in names for path in (name, f"{name}/lib-dynload")})


def _base_vars() -> dict[str, str]:
    return {"base": sys.base_prefix, "platbase": sys.base_exec_prefix, "installed_base": sys.base_prefix}


@functools.cache
def _python_paths() -> tuple[str, ...]:
    """The files and folders of the host that an interpreter needs, none inside another."""
    executable = farside.executable()
    wanted = [executable, *_stdlib()]
    for prefix in {sys.base_prefix, sys.base_exec_prefix}:
        if prefix not in _SYSTEM_PREFIXES:
            wanted += [f"{prefix}/lib", f"{prefix}/lib64"]
    library = sysconfig.get_config_var("INSTSONAME")
    folder = sysconfig.get_config_var("LIBDIR")
    if library and folder:
        wanted.append(f"{folder}/{library}")
    wanted += ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo"]
    paths: list[str] = []
    for path in sorted({os.path.realpath(path) for path in wanted if Path(path).exists()}):
        if not any(path.startswith(f"{one}/") for one in paths):
            paths.append(path)
    return tuple(paths)
