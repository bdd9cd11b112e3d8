"""References of a repository, read from its files.

`read_refs` and `resolve` know loose and packed references, as git-pack-refs(1) and gitrepository-layout(5)
describe them. Files are read in bounded parts; names and ids that git would not take are left out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

MAX_PACKED = 256 << 20
_MAX_LINKS = 5
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BAD_NAME = re.compile(r"[\0-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|[/.]\Z")
"""What git-check-ref-format(1) forbids in names that start with `refs/`."""


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


def files_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Everything in a folder and the folders below it but folders; links to folders are not followed.

    What is removed meanwhile, or has a path longer than the system takes, is passed over.
    """
    todo = [str(folder)]
    while todo:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), contextlib.ExitStack() as opened:
            try:
                entries = opened.enter_context(os.scandir(todo.pop()))
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    continue
                raise
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                else:
                    yield entry


def _said(file: Path) -> str:
    with file.open("rb") as handle:
        return handle.read(4096).decode("utf-8", "surrogateescape").strip()


def read_refs(common: Path) -> dict[str, str]:
    """Full name -> object id, or `ref: <name>` for a symbolic one; loose references go before packed ones.

    Raises:
        OSError: a file cannot be read, or the packed ones are larger than `MAX_PACKED`.
    """
    found: dict[str, str] = {}
    # Loose ones first: git packs a reference before it removes the loose one.
    for entry in files_below(common / "refs"):
        name = Path(entry.path).relative_to(common).as_posix()
        if not _BAD_NAME.search(name):
            with contextlib.suppress(FileNotFoundError):
                if entry.is_file():
                    found[name] = _said(Path(entry.path))
    packed = common / "packed-refs"
    if packed.is_file():
        with packed.open("rb") as handle:
            data = handle.read(MAX_PACKED + 1)
        if len(data) > MAX_PACKED:
            raise OSError(f"{packed} is larger than {MAX_PACKED:,} bytes")
        for line in data.decode("utf-8", "surrogateescape").split("\n"):
            oid, _, name = line.rstrip("\r").partition(" ")
            if _ID.fullmatch(oid) and name.startswith("refs/") and not _BAD_NAME.search(name):
                found.setdefault(name, oid)
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
    return said if _ID.fullmatch(said) else None
