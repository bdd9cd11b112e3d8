"""From a job to what is started for it: the configuration of each process tree, and the server it needs.

In: a `Job`, and for other languages than Python its `Plan` and what the build left. Out: `Launch`es and
`Settings`. Wrong: EncodeError for a call that has no encoding.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import secrets
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox import codec, farside
from sandbox.inside import init as far
from sandbox.inside import root
from sandbox.job import Job, Limits
from sandbox.languages.base import CALLS, Language, Plan, Step, Toolchain
from sandbox.process import Launch
from sandbox.server import Settings

_SYSTEM_PREFIXES = ("/usr", "/usr/local")
# What every command sees besides its own variables.
_ENVIRONMENT = {"HOME": "/tmp", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}  # noqa: S108 - inside the sandbox
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")


def python_settings(
    packages: Sequence[str], preload: Sequence[str], hash_seed: int, namespaces: bool
) -> Settings:
    """The server that Python programs are forked from."""
    return Settings(namespaces, (*_python_paths(), *packages), tuple(packages), tuple(preload), hash_seed)


def system_settings(toolchain: Toolchain) -> Settings:
    """The server whose root holds the system's programs and what else a toolchain needs."""
    return Settings(True, _system_paths(tuple(toolchain.binds)))


def python_launch(
    job: Job,
    role: str,
    own: Sequence[str],
    packages: Sequence[str],
    *,
    namespaces: bool,
    work: str = root.WORK,
    fresh: bool = False,
    own_processes: int = 0,
) -> Launch:
    """Describe one Python process tree; `own` are the program files it gets of a split job.

    fresh   a new interpreter, rather than a fork of the server
    """
    others = {"solution.py", "test.py"} - set(own) if job.kind == "split" else set()
    config = {
        **_config(job.limits, namespaces, work, own_processes),
        "role": role,
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
        "packages": list(packages),
        "requests": job.kind == "split",
    }
    if fresh:
        seed = "random" if job.hash_seed is None else str(job.hash_seed)
        config["command"] = {
            "argv": farside.program_command(),
            # Each further arena of malloc would take 64 MiB of a program's address space.
            "env": {"PYTHONHASHSEED": seed, "MALLOC_ARENA_MAX": "1"},
            "extra": {},
            "channel": True,
            "payload": True,
        }
    return Launch(
        config=config,
        stdin=job.stdin.encode("utf-8", "surrogatepass") if role == "script" else b"",
        limits=job.limits,
        output_stops=job.kind == "script",
        bundle=farside.bundle(whole=False) if fresh else bytes(4),
    )


def build_launch(plan: Plan, step: Step, limits: Limits, own_processes: int) -> Launch:
    """Describe the compiler's run of a plan."""
    config = {
        **_config(limits, True, root.WORK, own_processes),
        "role": "build",
        "files": dict(plan.files),
        "command": _command(step, {}, channel=False),
        "keep": list(plan.keep),
        "address_space": False,
    }
    return Launch(
        config=config,
        stdin=b"",
        limits=limits,
        output_stops=False,
        flags=far.BUILD | far.EXECUTABLE,
    )


def command_launch(
    job: Job, language: Language, plan: Plan, built: Mapping[str, bytes] | None, own_processes: int
) -> Launch:
    """Describe the run of a program in another language; `built` is what its build left, if it had one."""
    limits = dataclasses.replace(
        job.limits,
        memory_mb=job.limits.memory_mb + language.overhead_mb,
        processes=job.limits.processes + language.tasks,
    )
    config = _config(limits, True, root.WORK, own_processes)
    extra = {CALLS: encoded_calls(job, config["nonce"])} if job.kind == "calls" else {}
    config |= {
        "role": job.kind,
        # Nothing of the job's own stands in for what its compiler made.
        "files": {**plan.data, **(plan.files if built is None else built)},
        "command": _command(plan.run, extra, channel=job.kind == "calls"),
        "address_space": language.address_space,
        "stack_mb": min(language.stack_mb, limits.memory_mb),
    }
    return Launch(
        config=config,
        stdin=job.stdin.encode("utf-8", "surrogatepass") if job.kind == "script" else b"",
        limits=limits,
        output_stops=job.kind == "script",
        flags=far.EXECUTABLE,
    )


def encoded_calls(job: Job, nonce: bytes) -> bytes:
    """The file of calls that a program of another language reads (`sandbox.languages.base`)."""
    parts = [nonce, len(job.calls).to_bytes(4, "little")]
    for call in job.calls:
        data = codec.encode((list(call.args), dict(call.kwargs)))
        parts += [len(data).to_bytes(4, "little"), data]
    return b"".join(parts)


def _config(limits: Limits, namespaces: bool, work: str, own_processes: int) -> dict[str, Any]:
    return {
        "nonce": secrets.token_bytes(8),
        "namespaces": namespaces,
        "work": work,
        "limits": dataclasses.asdict(limits),
        "own_processes": own_processes,
        "address_space": True,
        "stack_mb": 0,
        "requests": False,
        "command": None,
        "keep": [],
    }


def _command(step: Step, extra: Mapping[str, bytes], channel: bool) -> dict[str, Any]:
    return {
        "argv": list(step.argv),
        "env": {**_ENVIRONMENT, **step.env},
        "extra": dict(extra),
        "channel": channel,
        "payload": False,
    }


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
    wanted = [farside.executable(), *_stdlib()]
    for prefix in {sys.base_prefix, sys.base_exec_prefix}:
        if prefix not in _SYSTEM_PREFIXES:
            wanted += [f"{prefix}/lib", f"{prefix}/lib64"]
    library = sysconfig.get_config_var("INSTSONAME")
    folder = sysconfig.get_config_var("LIBDIR")
    if library and folder:
        wanted.append(f"{folder}/{library}")
    wanted += ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo"]
    return _outermost(wanted)


@functools.cache
def _system_paths(binds: tuple[str, ...]) -> tuple[str, ...]:
    return _outermost([*_SYSTEM, *_python_paths(), *binds])


def _outermost(wanted: Sequence[str]) -> tuple[str, ...]:
    """The real paths of those that exist, none inside another."""
    paths: list[str] = []
    for path in sorted({os.path.realpath(path) for path in wanted if Path(path).exists()}):
        if not any(path.startswith(f"{one}/") for one in paths):
            paths.append(path)
    return tuple(paths)
