"""What a language needs once a toolchain: compiled harnesses, and archives of its standard library.

In: a name, all that the result depends on, and a function that fills a folder. Out: the absolute path of
that folder, in the user's cache. It is made on the host from our own and the toolchain's files, never from
a job's, and jobs see it read-only, so that no job can leave anything there for a later one.
Wrong: `SandboxError` when the cache is somebody else's, cannot be written, or a tool fails on our files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from sandbox.builds import cache_folder
from sandbox.job import SandboxError

# Go's standard library takes 25 s of two cores to compile.
_TOOL_S = 1200.0
_MAX_SHOWN = 500
_DAY_S = 86400.0


def folder(name: str, parts: Iterable[str | bytes], fill: Callable[[Path, Path], None]) -> str:
    """Return the folder that `fill` filled for `parts`, from the cache where it has been filled before.

    `fill` gets the folder to write to, and the path under which programs will see it once it is ready.
    The cache is `$ASSAY_CACHE`, else `$XDG_CACHE_HOME/assay`, else `~/.cache/assay`. Two processes may fill
    at once: each works apart, and the first that is ready wins. Raises SandboxError.
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else os.fsencode(part)
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    root = _root()
    try:
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
        root = root.resolve()
        _check_owner(root)
        path = root / f"{name}-{digest.hexdigest()[:24]}"
        if not path.is_dir():
            _fill(path, fill)
        _check_owner(path)
    except OSError as error:
        raise SandboxError(
            f"{name}: cannot prepare the toolchain in {root}: {error}; point ASSAY_CACHE to a folder of yours"
        ) from None
    return str(path)


def _root() -> Path:
    found = cache_folder("toolchains")
    if found is None:
        raise SandboxError("no home folder to keep toolchains in: set ASSAY_CACHE to a folder of yours")
    return found


def _check_owner(path: Path) -> None:
    # Programs will run what lies there.
    status = path.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SandboxError(f"{path} can be changed by other users; point ASSAY_CACHE to a folder of yours")


def _fill(path: Path, fill: Callable[[Path, Path], None]) -> None:
    for old in path.parent.glob("draft-*"):
        # Of a process that was killed: nothing takes a day.
        if time.time() - old.stat().st_mtime > _DAY_S:
            shutil.rmtree(old, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(dir=path.parent, prefix="draft-"))
    try:
        fill(draft, path)
        # Jobs run under another user, whatever the umask here.
        for place, _, names in os.walk(draft):
            Path(place).chmod(0o755)
            for one in names:
                Path(place, one).chmod(0o644)
        try:
            draft.rename(path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def run_tool(argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a trusted tool on trusted files and return its standard output. Raises SandboxError."""
    given = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "LANG": "C.UTF-8", **(env or {})}
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=given,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TOOL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"{argv[0]} cannot be run: {error}") from None
    if done.returncode != 0:
        said = (done.stderr + done.stdout).decode("utf-8", "replace").strip()[-_MAX_SHOWN:]
        raise SandboxError(f"{argv[0]} failed with {done.returncode} on the sandbox's own files: {said}")
    return done.stdout.decode("utf-8", "replace")
