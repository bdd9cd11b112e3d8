"""Running git on a repository that nobody vouches for.

git never sees the repository's own folder. Each run gets a throw-away git directory with a config
that we wrote, and only the object store of the real one (`GIT_OBJECT_DIRECTORY`). So the
repository's config, hooks, attributes, replace refs and grafts have no effect: nothing in it can
name a program to run, a server to ask or a commit to show instead of another. The environment is
built from nothing as well, so the user's own git settings cannot change a result.

Output is cut at NUL bytes and streamed; no token grows past `MAX_TOKEN` bytes, and git's own memory
past `MAX_MEMORY`: a few small trees that name each other can stand for billions of files.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from schemas.errors import AssayError

MAX_TOKEN = 4 << 20
"""Bytes kept of one NUL-ended token; a commit message that is longer is cut here."""

MAX_MEMORY = 2 << 30
"""Bytes that one git process may allocate; mapped packs are not counted."""

_BLOCK = 1 << 18

_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
"""Signals by which git ends on data that it cannot take, such as a tree ten thousand folders deep."""


class GitError(Exception):
    """git ended with an error or crashed; the message is the first line that it said."""


@contextlib.contextmanager
def shadow(objects: Path, object_format: str = "sha1") -> Iterator[tuple[Path, dict[str, str]]]:
    """A git directory of our own over `objects`, and the environment that goes with it."""
    with tempfile.TemporaryDirectory(prefix="assay-git-") as name:
        folder = Path(name)
        (folder / "refs").mkdir()
        (folder / "objects").mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        (folder / "config").write_text(
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n\tcommitGraph = false\n"
            f"[extensions]\n\tobjectFormat = {object_format}\n"
        )
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "HOME": name,
            "GIT_DIR": name,
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
        }
        yield folder, environment


def _bounded(stdout: IO[bytes]) -> Iterator[bytes]:
    """Blocks of a stream, with what stands past `MAX_TOKEN` bytes of one token left out."""
    length = 0
    while block := stdout.read(_BLOCK):
        if length > MAX_TOKEN:
            end = block.find(b"\0")
            if end < 0:
                continue
            block = block[end:]
        last = block.rfind(b"\0")
        length = length + len(block) if last < 0 else len(block) - last - 1
        yield block


def git_tokens(
    objects: Path, arguments: Sequence[str], lines: Sequence[str] = (), object_format: str = "sha1"
) -> Iterator[bytes]:
    """The NUL-separated tokens of git's output, as `git_blocks` gives it."""
    rest: list[bytes] = []
    for block in git_blocks(objects, arguments, lines, object_format):
        first, *others = block.split(b"\0")
        rest.append(first)
        if others:
            yield b"".join(rest)
            rest = [others.pop()]
            yield from others
    if last := b"".join(rest):
        yield last


def git_blocks(
    objects: Path, arguments: Sequence[str], lines: Sequence[str] = (), object_format: str = "sha1"
) -> Iterator[bytes]:
    """Run git over an object store and yield its output in blocks.

    A block ends anywhere. Of a NUL-ended token that is longer than `MAX_TOKEN` only the start comes.

    Args:
        objects: the object store, such as `.git/objects`.
        arguments: what follows `git`.
        lines: standard input, one line an item.
        object_format: of the store, `sha1` or `sha256`.

    Raises:
        AssayError: git is not installed, or was killed.
        GitError: git ended with an error or crashed; raised after the last block.
    """
    with shadow(objects, object_format) as (folder, environment):
        (folder / "stdin").write_text("".join(f"{line}\n" for line in lines))
        with (folder / "stdin").open("rb") as stdin, (folder / "stderr").open("w+b") as stderr:
            try:
                process = subprocess.Popen(
                    ["git", "--no-pager", *arguments],
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env=environment,
                    cwd=folder,
                )
            except FileNotFoundError:
                raise AssayError("git: not found on PATH; install git 2.30 or newer") from None
            assert process.stdout is not None  # noqa: S101 (PIPE was asked for)
            # It may be gone already, and only Linux can limit a process that runs.
            with contextlib.suppress(AttributeError, ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
            try:
                with process.stdout:
                    yield from _bounded(process.stdout)
                status = process.wait()
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            if -status in _CRASHES:
                raise GitError(f"git crashed with signal {-status}")
            if status < 0:
                raise AssayError(f"git {arguments[0]}: killed by signal {-status}; run the stage again")
            if status:
                stderr.seek(0)
                said = stderr.read(2000).decode(errors="replace").strip().splitlines()
                raise GitError(said[0] if said else f"exit status {status}")
