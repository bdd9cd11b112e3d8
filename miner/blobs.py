"""Contents of files by object id, bounded in size.

`open_blobs` gives libgit2's reader, or for repositories with SHA-256 object ids, which libgit2 does not
know, a `git cat-file` process. A blob's size is looked at before it is unpacked into memory, and its bytes
are those that its id was made of. The blobs read last are kept: the file before a commit is often the file
after the one before.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pygit2

from miner.gitcmd import shadow
from miner.repository import Repository, trust_object_store

MAX_KEPT = 16 << 20
"""Bytes of blobs that are kept."""

_CHUNK = 1 << 20


class MissingBlob(Exception):
    """The object is not in the repository, is damaged, or is no blob."""


class TooLarge(Exception):
    """The blob has more bytes than wanted; the message is their number."""


class _Source(Protocol):
    def read(self, oid: str, most: int) -> bytes: ...

    def exists(self, oid: str) -> bool: ...


class _Libgit2:
    def __init__(self, repository: Repository) -> None:
        trust_object_store()
        self.odb = pygit2.Odb(str(repository.objects))

    def read(self, oid: str, most: int) -> bytes:
        try:
            kind, size = self.odb.read_header(oid)
            if size > most:
                raise TooLarge(str(size))
            kind, data = self.odb.read(oid)
        except (KeyError, ValueError, pygit2.GitError):
            raise MissingBlob(oid) from None
        if kind != pygit2.enums.ObjectType.BLOB:
            raise MissingBlob(oid)
        return bytes(data)

    def exists(self, oid: str) -> bool:
        return bool(self.odb.exists(oid))


class _CatFile:
    """One `git cat-file` process, started anew when git stops at an object that is damaged.

    An object may be shorter or longer than its header says, and git gives what there is. So each question is
    followed by one that has a known answer, which nobody can foresee: what comes before it is the object.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.environment = folder, environment
        mark = f"assay.{secrets.token_hex(16)}".encode()
        self.question, self.answer = mark + b"\n", mark + b" missing\n"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["git", "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(self.environment),
            cwd=self.folder,
        )

    def close(self) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self.process.wait()

    def _ask(self, oid: str, most: int) -> tuple[bytes, int, bytes] | None:
        """(kind, size, content) of an object; no content when it is too large or less than its size.

        None when it is not there or git stops at it.
        """
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None  # noqa: S101 (pipes were asked for)
        assert isinstance(stdout, io.BufferedReader)  # noqa: S101
        header = b""
        with contextlib.suppress(BrokenPipeError):
            stdin.write(oid.encode() + b"\n" + self.question)
            stdin.flush()
            header = stdout.readline()
        fields = header.split()
        size = int(fields[2]) if len(fields) == 3 else -1
        wanted = size + 1 + len(self.answer)
        data, total = bytearray(), 0
        while not data.endswith(self.answer):
            if not (more := stdout.read1(_CHUNK)):
                self.close()
                self.process = self._start()
                return None
            data += more
            total += len(more)
            if size > most or total > wanted:
                del data[: -len(self.answer)]
        if len(fields) != 3:
            return None
        return fields[1], size, bytes(data[:size]) if size <= most and total == wanted else b""

    def read(self, oid: str, most: int) -> bytes:
        found = self._ask(oid, most)
        if found is None or found[0] != b"blob":
            raise MissingBlob(oid)
        _, size, data = found
        if size > most:
            raise TooLarge(str(size))
        return data

    def exists(self, oid: str) -> bool:
        return self._ask(oid, 0) is not None


def _id_of(data: bytes, like: str) -> str:
    """The object id of a blob, by the hash that another id was made with.

    Damage that zlib's checksum does not see, or an index that points elsewhere, would give other contents.
    """
    known = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    digest = known(b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


class Blobs:
    """Reads blobs of one repository."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._kept: dict[str, bytes] = {}
        self._bytes = 0

    def read(self, oid: str, most: int) -> bytes:
        """A blob's bytes.

        Raises:
            MissingBlob: it is not there or cannot be read.
            TooLarge: it has more than `most` bytes.
        """
        if (known := self._kept.get(oid)) is not None and len(known) <= most:
            return known
        data = self._source.read(oid, most)
        if _id_of(data, oid) != oid:
            raise MissingBlob(oid)
        if len(data) <= MAX_KEPT // 4 and oid not in self._kept:
            self._kept[oid] = data
            self._bytes += len(data)
            while self._bytes > MAX_KEPT:
                oldest = next(iter(self._kept))
                self._bytes -= len(self._kept.pop(oldest))
        return data

    def exists(self, oid: str) -> bool:
        """Whether an object is in the repository; its content is not looked at."""
        return self._source.exists(oid)


@contextlib.contextmanager
def open_blobs(repository: Repository) -> Iterator[Blobs]:
    """The blobs of a repository."""
    if repository.object_format == "sha1":
        yield Blobs(_Libgit2(repository))
        return
    with shadow(repository.objects, repository.object_format) as (folder, environment):
        source = _CatFile(folder, environment)
        try:
            yield Blobs(source)
        finally:
            source.close()
