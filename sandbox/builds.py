"""What compilers made, kept by the hash of all that went in: in memory for a moment, on disk for later.

In: a key and a function that builds. Out: a `Build`. Wrong: a file on disk that is cut off or altered is
built anew; a disk that cannot be written costs the cache, never the result. A build that the sandbox or a
limit stopped is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sandbox import codec
from sandbox.job import Status

# Bytes kept on disk and in memory; those not used for the longest time go first.
MOST_ON_DISK = 1 << 30
MOST_IN_MEMORY = 64 << 20
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class Build:
    """What a build came to.

    status   "ok", "compile_error", or "infra_error" where nothing is known
    files    path -> contents of what is kept
    detail   one line for people
    stdout, stderr   what the compiler said
    lasting  another build of the same would come to the same: not where a limit stopped the compiler
    """

    status: Status
    files: dict[str, bytes] = field(default_factory=dict)
    detail: str = ""
    stdout: str = ""
    stderr: str = ""
    lasting: bool = True

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values())) + len(self.stdout) + len(self.stderr)


def cache_folder(name: str) -> Path | None:
    """`$ASSAY_CACHE/<name>`, or `assay/<name>` in the user's cache folder; None for a user without a home."""
    if own := os.environ.get("ASSAY_CACHE"):
        return Path(own) / name
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay" / name
    except RuntimeError:
        return None


class Builds:
    """A cache of builds. `folder` None keeps them in memory alone."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._memory: OrderedDict[str, Build] = OrderedDict()
        self._lock = threading.Lock()
        self._at_work: dict[str, threading.Lock] = {}
        self._added = 0

    def get(self, key: str, build: Callable[[], Build]) -> Build:
        """Return what is kept under `key`, or what `build` makes; one thread at a time builds a key."""
        with self._lock:
            found = self._recall(key)
            turn = self._at_work.setdefault(key, threading.Lock())
        if found is not None:
            return found
        with turn:
            with self._lock:
                found = self._recall(key)
            if found is None:
                found = self._read(key)
                if found is None:
                    found = build()
                    if found.lasting:
                        self._write(key, found)
                if found.lasting:
                    self._remember(key, found)
        with self._lock:
            self._at_work.pop(key, None)
        return found

    def _recall(self, key: str) -> Build | None:
        found = self._memory.get(key)
        if found is not None:
            self._memory.move_to_end(key)
        return found

    def _remember(self, key: str, build: Build) -> None:
        with self._lock:
            self._memory[key] = build
            while len(self._memory) > 1 and sum(one.size for one in self._memory.values()) > MOST_IN_MEMORY:
                self._memory.popitem(last=False)

    def _path(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / key[:2] / key

    def _read(self, key: str) -> Build | None:
        path = self._path(key)
        if path is None:
            return None
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        if hashlib.sha256(key.encode() + data[_DIGEST_BYTES:]).digest() != data[:_DIGEST_BYTES]:
            return None
        try:
            status, files, detail, stdout, stderr = codec.decode(data[_DIGEST_BYTES:])
        except (codec.DecodeError, ValueError):
            return None
        return Build(status, files, detail, stdout, stderr)

    def _write(self, key: str, build: Build) -> None:
        path = self._path(key)
        if path is None:
            return
        try:
            data = codec.encode([build.status, build.files, build.detail, build.stdout, build.stderr])
        except codec.EncodeError:
            return  # larger than a value may be
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(hashlib.sha256(key.encode() + data).digest() + data)
                Path(name).replace(path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            self._added += len(data)
            if self._added > MOST_ON_DISK // 16:
                self._added = 0
                self._prune()

    def _prune(self) -> None:
        if self.folder is None:
            return
        found = []
        for path in self.folder.glob("*/*"):
            with contextlib.suppress(OSError):
                info = path.stat()
                found.append((info.st_mtime, info.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found, key=lambda one: one[0]):
            if total <= MOST_ON_DISK:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
