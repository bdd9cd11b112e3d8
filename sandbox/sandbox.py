"""The front door: a `Sandbox` takes jobs and gives results.

In: `Job`s. Out: `Result`s, from `run` one at a time (any number of threads may call it), from `map` in
order and with `workers` at once. Wrong: `SandboxUnavailable` when the isolation asked for cannot be had,
`SandboxError` for a job that cannot be run here; a program's misdeeds are results, never exceptions.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, get_args

from sandbox import doctor, languages, launches
from sandbox.backends.bwrap import Bwrap
from sandbox.backends.container import IMAGE, Containers
from sandbox.builds import Build, Builds, cache_folder
from sandbox.cgroups import sweep
from sandbox.inside import root
from sandbox.job import Job, Layer, Limits, Result, SandboxError, SandboxUnavailable
from sandbox.languages.base import BUILD_LIMITS, WORK, Language, Plan, Toolchain, build_key
from sandbox.pool import Pool
from sandbox.process import Launch, Worker
from sandbox.server import Server, Settings
from sandbox.verdict import run_alone, run_build, run_split

if TYPE_CHECKING:
    from sandbox.backends.remote import Remote

Backend = Literal["auto", "zygote", "nsrun", "plain", "bwrap", "container", "remote"]

# Each backend but "auto", and what it does.
BACKENDS: dict[Backend, str] = {
    "zygote": "Python: forks of a warm interpreter in namespaces",
    "nsrun": "all languages: new processes in namespaces",
    "bwrap": "all languages: processes that bubblewrap isolates",
    "container": "Python: a container for each job",
    "remote": "what the server does",
    "plain": "Python: limits, and no isolation",
}

# MiB of a compiled program and the files beside it: what can be sent to the far side, less room for calls.
_MOST_PROGRAM_MB = 60

# Jobs that `map` may have taken from its input ahead of the result it yields next, for each worker.
_AHEAD = 2


class _Running:
    """The workers that one `map` has at the moment, so that it can stop them."""

    def __init__(self) -> None:
        self.stopped = False
        self._workers: set[Server] = set()
        self._lock = threading.Lock()

    def add(self, worker: Server) -> None:
        with self._lock:
            if self.stopped:
                raise OSError("nobody waits for the result")
            self._workers.add(worker)

    def remove(self, worker: Server) -> None:
        with self._lock:
            self._workers.discard(worker)

    def stop(self) -> None:
        """Kill what they run; a job that begins later ends at once as well."""
        with self._lock:
            self.stopped = True
            for worker in self._workers:
                worker.kill()


_mine = threading.local()


def _is_stopped() -> bool:
    running: _Running | None = getattr(_mine, "running", None)
    return running is not None and running.stopped


@contextlib.contextmanager
def _noted(borrowed: AbstractContextManager[Server]) -> Iterator[Worker]:
    """Lend a worker, and let the `map` of this thread know of it."""
    running: _Running | None = getattr(_mine, "running", None)
    with borrowed as worker:
        if running is None:
            yield worker
            return
        running.add(worker)
        try:
            yield worker
        finally:
            running.remove(worker)


class Sandbox:
    """Runs jobs on one backend; a context manager that closes its warm workers at the end.

    backend   "auto"    "zygote" for Python and "nsrun" for all else, or SandboxUnavailable
              "zygote"  Python: each job is forked from a warm interpreter inside fresh namespaces
              "nsrun"   each job is a new process in the same namespaces, all languages
              "bwrap"   each job is a new process that bubblewrap (`bwrap`) isolates, all languages
              "container"  Python: each job is a container of its own
              "remote"  jobs are sent to servers, which isolate them in their own ways
              "plain"   Python, limits of resources alone: must be asked for, and each result says
                        isolation "none"
    workers   jobs that `map` runs at once
    preload   modules that Python programs find loaded already (backends that fork)
    packages  folders of importable packages that Python programs may use, read-only
    retries   further tries of a run that ended in a failure of the sandbox itself
    cache     folder of what compilers made; None keeps it in memory; by default in the user's cache folder

    Backend "container":
    image           an image that the engine has already, with Python 3.10 or later
    engine          "docker", "podman" or another command that takes their options; by default whichever of
                    these two can be used
    runtime         OCI runtime of the engine, such as "runsc" for gVisor
    engine_options  further options of the engine's `run`

    Backend "remote":
    url             address of a server, or of several: `sandbox.service`, or one with SandboxFusion's API
    token           sent to each of them as "Authorization: Bearer <token>"
    timeout_s       seconds that an answer may take beyond the job's own wall clock
    """

    def __init__(
        self,
        backend: Backend = "auto",
        workers: int = 1,
        preload: Sequence[str] = (),
        packages: Sequence[str | os.PathLike[str]] = (),
        retries: int = 1,
        cache: str | os.PathLike[str] | None = "",
        *,
        image: str = IMAGE,
        engine: str = "",
        runtime: str = "",
        engine_options: Sequence[str] = (),
        url: str | Sequence[str] = (),
        token: str | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        if backend not in get_args(Backend):
            raise SandboxError(f"no backend {backend!r}: use {', '.join(get_args(Backend))}")
        if type(workers) is not int or workers < 1:
            raise SandboxError(f"workers must be an int of at least 1, not {workers!r}")
        if isinstance(preload, str) or isinstance(packages, str | os.PathLike):
            raise SandboxError("preload and packages are lists: give ['numpy'], not 'numpy'")
        self.backend = backend
        self.workers = workers
        self.preload = tuple(preload)
        self.packages = [os.path.realpath(path) for path in packages]
        self.retries = retries
        for path in self.packages:
            if not Path(path).is_dir():
                raise SandboxError(f"packages: {path} is not a folder")
        self._builds = Builds(None if cache is None else Path(cache) if cache else cache_folder("builds"))
        self._pool = Pool(most=2 * workers + 2)
        self._bwrap = Bwrap() if backend == "bwrap" else None
        self._containers = (
            Containers(image, engine, runtime, engine_options, self.packages)
            if backend == "container"
            else None
        )
        self._remote = None
        if backend == "remote":
            self._remote = _remote(url, token, timeout_s, retries, self.packages)
        elif backend in ("bwrap", "container"):
            self._require_tool()
        elif backend != "plain":
            _require_namespaces()
        if self.preload and backend in ("auto", "zygote", "plain"):
            # A module that cannot be loaded is the caller's to know now, not a verdict later.
            settings = launches.python_settings(self.packages, self.preload, 0, backend != "plain")
            with self._pool.borrow(settings):
                pass

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the warm workers. Nothing of a job outlives its result anyway."""
        self._pool.close()
        for tool in (self._bwrap, self._remote):
            if tool is not None:
                tool.close()

    @staticmethod
    def available(**options: Any) -> list[Layer]:
        """Say of each backend whether it can be used here, or why not; `options` are the constructor's.

        Each is tried with a small job, so this takes a moment.
        """
        found = []
        for name, what in BACKENDS.items():
            try:
                Sandbox(name, **options).close()
            except SandboxError as error:
                found.append(Layer(name, False, str(error)))
            else:
                found.append(Layer(name, True, what))
        return found

    @staticmethod
    def doctor() -> list[Layer]:
        """Measure, with a job that tries to get out, which layers of isolation hold on this machine."""
        pool = Pool(most=1)
        try:
            return doctor.layers(lambda job: _run_probe(job, pool))
        finally:
            pool.close()

    def run(self, job: Job) -> Result:
        """Run one job to its end. Raises SandboxError, or EncodeError for a call that has no encoding."""
        if self._remote is not None:
            return self._remote.run(job)
        for _ in range(self.retries):
            result = self._run(job)
            if result.status != "infra_error" or _is_stopped():
                return result
        return self._run(job)

    def map(self, jobs: Iterable[Job]) -> Iterator[Result]:
        """Run `jobs` with `workers` at once; yield results in order, reading only a little ahead."""
        waiting: deque[Future[Result]] = deque()
        mine = _Running()
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="sandbox")
        source = iter(jobs)
        try:
            while True:
                try:
                    job = next(source)
                except StopIteration:
                    break
                except BaseException:
                    # What is done already is not lost with what will not come.
                    while waiting:
                        yield waiting.popleft().result()
                    raise
                waiting.append(pool.submit(self._run_for, mine, job))
                if len(waiting) >= self.workers * _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            # Nobody will look at the results of those that are under way.
            mine.stop()
            pool.shutdown(wait=True, cancel_futures=True)

    def _run_for(self, running: _Running, job: Job) -> Result:
        _mine.running = running
        try:
            return self.run(job)
        finally:
            _mine.running = None

    def _run(self, job: Job) -> Result:
        backend: str = self.backend
        if job.lang != "python":
            if self.backend not in ("auto", "nsrun", "bwrap"):
                raise SandboxError(f"backend {self.backend!r} runs Python only: use 'nsrun' for {job.lang}")
            backend = "nsrun" if self.backend == "auto" else self.backend
        elif self.backend == "auto":
            backend = "nsrun" if job.hash_seed is None else "zygote"
        try:
            if job.lang != "python":
                result = self._run_command(job)
            else:
                # Under another tool each job has an interpreter of its own anyway.
                own = self._bwrap is None and self._containers is None
                fresh = own and (backend == "nsrun" or job.hash_seed is None)
                result = self._run_python(job, fresh)
        except (OSError, SandboxUnavailable) as error:
            result = Result("infra_error", detail=f"nothing could be started: {error}")
        result.backend = backend
        result.isolation = {"plain": "none", "container": "container"}.get(backend, "namespaces")
        return result

    def _run_python(self, job: Job, fresh: bool) -> Result:
        namespaces = self.backend not in ("plain", "container")
        work = tempfile.mkdtemp(prefix="sandbox-") if self.backend == "plain" else ""
        preload = () if fresh else self.preload
        seed = 0 if fresh else job.hash_seed or 0
        settings = launches.python_settings(self.packages, preload, seed, namespaces)

        def launch(role: str, own: list[str]) -> Launch:
            folder = f"{work}/{role}" if work else WORK
            if work:
                Path(folder).mkdir()
            return launches.python_launch(
                job,
                role,
                own,
                self.packages,
                namespaces=namespaces,
                work=folder,
                fresh=fresh,
                own_processes=self._own_processes(),
            )

        try:
            if job.kind != "split":
                with self._worker(settings, job) as worker:
                    return run_alone(job, launch(job.kind, list(job.files)), worker)
            with self._worker(settings, job) as one, self._worker(settings, job) as other:
                test = launch("test", ["test.py"])
                return run_split(job, (test, one), (launch("candidate", ["solution.py"]), other))
        finally:
            if work:
                shutil.rmtree(work, ignore_errors=True)

    def _run_command(self, job: Job) -> Result:
        language = languages.get(job.lang)
        if job.kind not in language.kinds:
            raise SandboxError(f"{language.title} runs jobs of kind {', '.join(language.kinds)} only")
        try:
            toolchain = language.find()
        except SandboxError as error:
            return Result("infra_error", detail=str(error))
        plan = language.plan(job, toolchain)
        settings = launches.system_settings(toolchain)
        built = None
        if plan.build is not None:
            build = self._built(job, language, toolchain, plan, settings)
            if build.status != "ok":
                return Result(build.status, stdout=build.stdout, stderr=build.stderr, detail=build.detail)
            built = build.files
            needed, most = _pages(built) + _pages(plan.data), min(job.limits.tmpfs_mb, _MOST_PROGRAM_MB)
            if needed > most << 20:
                detail = f"the program takes {needed >> 20} MiB of files, and {most} MiB are allowed"
                return Result("compile_error", detail=detail)
        with self._worker(settings, job) as worker:
            launch = launches.command_launch(job, language, plan, built, self._own_processes())
            return run_alone(job, launch, worker)

    def _own_processes(self) -> int:
        # Under bwrap nobody but PID 1 is in the program's user namespace.
        return 1 if self._bwrap is not None else _own_processes()

    def _worker(self, settings: Settings, job: Job) -> AbstractContextManager[Worker]:
        """What can begin this job, for as long as the context lasts."""
        if self._bwrap is not None:
            return self._bwrap.worker(settings.binds, job.hash_seed)
        if self._containers is not None:
            return self._containers.worker(job.hash_seed)
        return _noted(self._pool.borrow(settings))

    def _require_tool(self) -> None:
        job = Job("script", {"main.py": "print(40 + 2)"}, limits=Limits(wall_s=20, cpu_s=20))
        result = self._run(job)
        if (result.status, result.stdout) != ("ok", "42\n"):
            reason = result.detail or f"{result.status}: {result.stderr.strip()[-200:]}"
            raise SandboxUnavailable(f"backend {self.backend!r} cannot be used here: {reason}")

    def _built(
        self, job: Job, language: Language, toolchain: Toolchain, plan: Plan, settings: Settings
    ) -> Build:
        step = plan.build
        assert step is not None  # noqa: S101 - for the type checker

        def build() -> Build:
            with self._worker(settings, job) as worker:
                return run_build(
                    launches.build_launch(plan, step, BUILD_LIMITS, self._own_processes()), worker
                )

        return self._builds.get(build_key(language.name, toolchain, plan), build)


def _pages(files: Mapping[str, bytes]) -> int:
    """Bytes that files take of a tmpfs, which gives them whole pages."""
    return sum(-(-len(data) // resource.getpagesize()) * resource.getpagesize() for data in files.values())


def _remote(
    url: str | Sequence[str], token: str | None, timeout_s: float, retries: int, packages: Sequence[str]
) -> Remote:
    # Imported here since HTTP and TLS take longer to load than all else, and few need them.
    from sandbox.backends.remote import Remote

    if packages:
        raise SandboxError("packages: folders of this machine cannot be had on another: install them there")
    return Remote([url] if isinstance(url, str) else list(url), token, timeout_s, retries)


@functools.cache
def _own_processes() -> int:
    """Processes of ours that the kernel counts against the program's limit: they share its uid."""
    return 3 if root.host_id() is None else 2


def _run_probe(job: Job, pool: Pool) -> Result:
    settings = launches.python_settings((), (), 0, True)
    launch = launches.python_launch(
        job, job.kind, list(job.files), (), namespaces=True, own_processes=_own_processes()
    )
    try:
        with pool.borrow(settings) as server:
            return run_alone(job, launch, server)
    except (OSError, SandboxError) as error:
        return Result("infra_error", detail=str(error))


@functools.cache
def _require_namespaces() -> None:
    # What a supervisor and its workers left that were killed together.
    sweep()
    pool = Pool(most=1)
    try:
        problem = doctor.problem(lambda job: _run_probe(job, pool))
    finally:
        pool.close()
    if problem:
        raise SandboxUnavailable(problem)
