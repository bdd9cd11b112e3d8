"""A container engine for tests: whichever works here, with an image made of the system's own Python.

In: nothing. Out: the options of a `Sandbox` of backend "container", or a skipped test that says what lacks.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox import Sandbox, SandboxUnavailable

IMAGE = f"localhost/sandbox-test-{os.getpid()}:1"
PYTHONS = [f"/usr/bin/python3.{minor}" for minor in (14, 13, 12, 11, 10)]
_UNNEEDED = re.compile(
    r"/(test|tests|idlelib|lib2to3|ensurepip|tkinter|pydoc_data|__pycache__|config-.*)(/|$)"
)
# An engine that refuses a host whose cgroup v2 has controllers beside those of v1 is content without it.
_WITHOUT_UNIFIED = """#!/bin/sh
exec unshare -m --propagation private sh -c 'umount /sys/fs/cgroup/unified; exec {engine} "$@"' {engine} "$@"
"""
Options = dict[str, Any]


@contextlib.contextmanager
def options(folder: Path) -> Iterator[Options]:
    """The options of the first engine that works; its image is removed at the end."""
    python = next((path for path in PYTHONS if Path(path).exists()), None)
    engines = [name for name in ("podman", "docker") if shutil.which(name)]
    if python is None or not engines:
        pytest.skip("needs a system Python 3.10 or later and podman: apt-get install python3 podman crun")
    archive = folder / "image.tar"
    _write_image(python, archive)
    problems = []
    for name in engines:
        made = subprocess.run(
            [name, "import", str(archive), IMAGE], capture_output=True, text=True, timeout=120
        )
        if made.returncode:
            problems.append(f"{name}: {made.stderr.strip()[-200:]}")
            continue
        try:
            for found in _variants(name, folder):
                try:
                    Sandbox("container", **found).close()
                except SandboxUnavailable as error:
                    problems.append(f"{name}: {str(error)[-200:]}")
                    continue
                yield found
                return
        finally:
            subprocess.run([name, "rmi", "--force", IMAGE], capture_output=True, timeout=120)
    pytest.skip(f"no container engine works here: {'; '.join(problems)}")


def _variants(name: str, folder: Path) -> Iterator[Options]:
    yield {"image": IMAGE, "engine": name}
    if name != "podman":
        return
    wrapper = folder / "podman-without-unified"
    wrapper.write_text(_WITHOUT_UNIFIED.format(engine=shutil.which(name)))
    wrapper.chmod(0o755)
    # Where no systemd runs, podman has to write to the control groups itself.
    more = ("--cgroup-manager=cgroupfs",)
    yield {"image": IMAGE, "engine": name, "engine_options": more}
    yield {"image": IMAGE, "engine": str(wrapper), "runtime": "crun", "engine_options": more}


def _write_image(python: str, archive: Path) -> None:
    version = re.search(r"3\.\d+$", python)
    assert version is not None
    library = Path(f"/usr/lib/python{version[0]}")
    objects = [python, *map(str, (library / "lib-dynload").glob("*.so"))]
    files = {os.path.realpath(path): path for one in objects for path in _libraries(one)}
    with tarfile.open(archive, "w") as tar:
        for name in ("tmp", "proc", "sys", "dev", "etc", "run", "root"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.add("/usr", arcname=name, recursive=False, filter=lambda _, entry=entry: entry)
        tar.add(os.path.realpath(python), arcname="usr/bin/python3")
        tar.add(library, arcname=f"usr/lib/{library.name}", filter=_needed)
        for real, path in files.items():
            tar.add(real, arcname=path.lstrip("/"))


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if _UNNEEDED.search(f"/{entry.name}") else entry


@functools.cache
def _libraries(path: str) -> tuple[str, ...]:
    said = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=60).stdout
    return tuple(re.findall(r"(/\S+\.so\S*)", said))
