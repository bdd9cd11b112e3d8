"""Real git repositories, built in a temporary folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from miner.config import MineConfig
from miner.edits import mine_unit, plan_mine
from schemas.records import Edit
from schemas.stage import Drop, Keep, Outcome

BASE = "def value():\n    return 1\n"


class Builder:
    """A repository under construction. Every commit gets its own second."""

    def __init__(self, path: Path, *init: str) -> None:
        self.path = path
        self.clock = 1_500_000_000
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", *init)

    def git(self, *arguments: str, stdin: bytes | None = None, author: str = "Ada <ada@x.org>") -> str:
        name, _, email = author.rstrip(">").partition(" <")
        when = f"{self.clock} +0000"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": name,
            "GIT_AUTHOR_EMAIL": email,
            "GIT_COMMITTER_NAME": name,
            "GIT_COMMITTER_EMAIL": email,
            "GIT_AUTHOR_DATE": when,
            "GIT_COMMITTER_DATE": when,
        }
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env=environment, input=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout.decode(errors="surrogateescape").strip()

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        for name, content in files.items():
            path = self.path / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(
        self,
        files: Mapping[str, str | bytes | None],
        message: str | bytes = "Return another value from the function",
        author: str = "Ada <ada@x.org>",
    ) -> str:
        """Write files (None removes one) and commit everything; returns the commit's id."""
        self.clock += 1
        self.write(files)
        self.git("add", "-A")
        raw = message.encode() if isinstance(message, str) else message
        # Cleanup would take lines and bytes out of messages that a test wants to see arrive.
        self.git("commit", "-q", "--allow-empty", "--cleanup=verbatim", "-F", "-", stdin=raw, author=author)
        return self.head()

    def merge(self, *branches: str, message: str) -> str:
        self.clock += 1
        self.git("merge", "-q", "--no-ff", "-m", message, *branches)
        return self.head()

    def raw_commit(
        self, tree: str, parents: list[str], tail: bytes, author: bytes = b"Ada <ada@x.org>"
    ) -> str:
        """Write a commit object byte by byte and move the branch to it; `tail` follows the committer."""
        self.clock += 1
        data = b"tree " + tree.encode() + b"\n"
        data += b"".join(b"parent " + parent.encode() + b"\n" for parent in parents)
        stamp = b" %d +0000\n" % self.clock
        data += b"author " + author + stamp + b"committer " + author + stamp + tail
        made = self.git("hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=data)
        self.git("update-ref", "HEAD", made)
        return made

    def patch_id(self, commit: str) -> str:
        """What git says about a commit's patch."""
        patch = self.git("diff-tree", "-p", "--no-renames", commit)
        return self.git("patch-id", "--stable", stdin=f"{patch}\n".encode()).split()[0]

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")


def mine(path: Path | Builder, **settings: object) -> list[Outcome]:
    """Plan and mine a repository."""
    config = MineConfig(**settings)  # type: ignore[arg-type]
    where = path.path if isinstance(path, Builder) else path
    return [outcome for unit in plan_mine(config, [where]) for outcome in mine_unit(config, unit)]


def edits(outcomes: list[Outcome]) -> dict[str, Edit]:
    """Commit -> edit."""
    return {one.records[0].commit: one.records[0] for one in outcomes if isinstance(one, Keep)}


def drops(outcomes: list[Outcome]) -> dict[str, tuple[str, str | None]]:
    """Commit -> (reason, detail)."""
    return {one.id.rpartition("@")[2]: (one.reason, one.detail) for one in outcomes if isinstance(one, Drop)}


def reason(outcomes: list[Outcome], commit: str) -> str | None:
    """Why a commit was dropped; None when it was kept."""
    return None if commit in edits(outcomes) else drops(outcomes)[commit][0]
