"""References of a repository that libgit2 cannot open, read from its files.

`read_refs` and `resolve` know loose and packed references, as git-pack-refs(1) and gitrepository-layout(5)
describe them. Files are read in bounded parts; names and ids that are not what they should be are left out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MAX_PACKED = 64 << 20
_MAX_LINKS = 5
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def pointed(file: Path, prefix: bytes = b"") -> Path | None:
    """The folder that a file such as `commondir` names, or None when it names none."""
    if not file.is_file():
        return None
    with file.open("rb") as handle:
        said = handle.read(4096)
    if not said.startswith(prefix):
        return None
    return file.parent / os.fsdecode(said.removeprefix(prefix).strip(b" \r\n"))


def git_folders(path: Path) -> tuple[Path, Path]:
    """(git directory, the one that linked work trees share) of a work tree, `.git` or bare repository."""
    git = path / ".git" if (path / ".git").exists() else path
    git = pointed(git, b"gitdir:") or git
    common = pointed(git / "commondir") or git
    return git, common


def _said(file: Path) -> str:
    with file.open("rb") as handle:
        return handle.read(4096).decode("utf-8", "surrogateescape").strip()


def read_refs(common: Path) -> dict[str, str]:
    """Full name -> object id, or `ref: <name>` for a symbolic one; loose references go before packed ones."""
    found: dict[str, str] = {}
    packed = common / "packed-refs"
    if packed.is_file():
        with packed.open("rb") as handle:
            text = handle.read(MAX_PACKED).decode("utf-8", "surrogateescape")
        for line in text.splitlines():
            oid, _, name = line.partition(" ")
            if _ID.fullmatch(oid) and name.startswith("refs/"):
                found[name] = oid
    for folder, _, names in os.walk(common / "refs"):
        for name in names:
            file = Path(folder, name)
            if file.is_file():
                found[file.relative_to(common).as_posix()] = _said(file)
    return found


def resolve(name: str, git: Path, refs: dict[str, str]) -> str | None:
    """The object id that a reference stands for, or None; `HEAD` is read from the git directory."""
    said = _said(git / name) if name == "HEAD" else refs.get(name, "")
    for _ in range(_MAX_LINKS):
        if _ID.fullmatch(said):
            return said
        if not said.startswith("ref:"):
            return None
        said = refs.get(said.removeprefix("ref:").strip(), "")
    return None
