"""Git repositories written object by object, with whatever bytes a test wants in them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path

CODE = b"def value():\n    return %d\n"
SAID = b"\nReturn another value from the function\n"


class RawRepository:
    """A bare repository whose objects are written as they are given: nothing is checked."""

    def __init__(self, path: Path, object_format: str = "sha1") -> None:
        self.path, self.object_format, self.clock = path, object_format, 1_500_000_000
        for folder in ("objects/pack", "objects/info", "refs/heads", "refs/tags"):
            (path / folder).mkdir(parents=True)
        (path / "HEAD").write_text("ref: refs/heads/main\n")
        self.configure("")

    def configure(self, more: str) -> None:
        version = (
            "0" if self.object_format == "sha1" else f"1\n[extensions]\n\tobjectFormat = {self.object_format}"
        )
        (self.path / "config").write_text(
            f"[core]\n\tbare = true\n\trepositoryformatversion = {version}\n{more}"
        )

    def id_of(self, kind: str, data: bytes) -> str:
        return hashlib.new(self.object_format, b"%s %d\0%s" % (kind.encode(), len(data), data)).hexdigest()

    def loose(self, oid: str) -> Path:
        return self.path / "objects" / oid[:2] / oid[2:]

    def put(self, kind: str, data: bytes) -> str:
        """Write an object; returns its id."""
        oid = self.id_of(kind, data)
        self.loose(oid).parent.mkdir(exist_ok=True)
        self.loose(oid).write_bytes(zlib.compress(b"%s %d\0%s" % (kind.encode(), len(data), data), 1))
        return oid

    def nobody(self) -> str:
        """An object id that stands for nothing."""
        return "12" * (20 if self.object_format == "sha1" else 32)

    def blob(self, data: bytes) -> str:
        return self.put("blob", data)

    def code(self, number: int) -> str:
        return self.blob(CODE % number)

    def tree(self, *entries: tuple[str, bytes, str]) -> str:
        """A tree of entries (mode, name, object id), in the order given."""
        parts = [mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries]
        return self.put("tree", b"".join(parts))

    def commit(self, tree: str, *parents: str, tail: bytes = SAID, author: bytes | None = None) -> str:
        """A commit; `tail` follows its committer line, `author` stands in place of who and when."""
        self.clock += 1
        stamp = b"Ada <ada@x.org> %d +0000" % self.clock if author is None else author
        lines = [b"tree " + tree.encode(), *(b"parent " + one.encode() for one in parents)]
        return self.put("commit", b"\n".join([*lines, b"author " + stamp, b"committer " + stamp, tail]))

    def file_commit(self, number: int, *parents: str, name: bytes = b"a.py", tail: bytes = SAID) -> str:
        return self.commit(self.tree(("100644", name, self.code(number))), *parents, tail=tail)

    def chain(self, count: int, start: int = 0, parents: Sequence[str] = ()) -> list[str]:
        """Commits that follow one another, the last of them at the main branch."""
        made = list(parents)
        for number in range(start, start + count):
            made.append(self.file_commit(number, *made[-1:]))
        self.branch(made[-1])
        return made[len(parents) :]

    def around(self, odd: str) -> list[str]:
        """Good commits after an odd one."""
        return self.chain(3, 100, (odd,))

    def tag(self, target: str, kind: str = "commit") -> str:
        head = f"object {target}\ntype {kind}\ntag x\ntagger A <a@x> 1 +0000\n\nm\n"
        return self.put("tag", head.encode())

    def branch(self, oid: str, name: str = "main") -> None:
        file = self.path / "refs" / "heads" / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(oid + "\n")

    def pack(self) -> Path:
        """Move all objects into one pack; returns its file, which may be written."""
        self.git("repack", "-adq")
        self.git("prune-packed")
        made = next((self.path / "objects" / "pack").glob("*.pack"))
        for file in (made, made.with_suffix(".idx")):
            file.chmod(0o644)
        return made

    def git(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            "GIT_DIR": str(self.path),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        done = subprocess.run(
            ["git", *arguments], env=environment, input=stdin, capture_output=True, check=False, timeout=60
        )
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout
