"""A local repository: a work tree, a bare repository, a `.git` directory or a linked work tree.

`open_repository` finds its object store, its name and its newest commit, and refuses what cannot be
mined with one line that says why. Nothing of the repository is executed, so one that belongs to
another user is read too. No absolute path and no credential of a remote's URL gets into a name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import stat
from pathlib import Path

import pygit2
from pygit2.enums import RepositoryOpenFlag

from schemas.errors import AssayError
from schemas.ids import content_id

MAX_NAME = 200


@dataclasses.dataclass(frozen=True)
class Repository:
    """What is needed to read a repository.

    Attributes:
        path: where it was given, for messages only.
        objects: its object store.
        name: `owner/name` from the origin remote, else the folder's name.
        head: object id of the commit that HEAD points to.
        partial: it was cloned with a filter, so objects may be missing.
    """

    path: Path
    objects: Path
    name: str
    head: str
    partial: bool


def trust_object_store() -> None:
    """Let libgit2 read objects without hashing each again, and from repositories of other users.

    zlib's checksum still finds damaged bytes. The owner check protects from programs that a
    repository's config names; none is ever run here.
    """
    pygit2.settings.enable_strict_hash_verification(False)
    pygit2.settings.owner_validation = False


def name_from_url(url: str) -> str | None:
    """`owner/name` of a remote URL (https, ssh, scp-like, file), or None when it has no such part.

    The host, user, password, port, query and fragment never get into the name; a local path gives
    the last folder only.
    """
    url = url.strip()
    if match := re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", url):
        local = match[0].lower() == "file://"
        _, _, path = url[match.end() :].partition("/")
        path = re.split(r"[?#]", path, maxsplit=1)[0]
    elif match := re.match(r"(?:[^/@]+@)?(?:\[[^\]/]*\]|[^/:]+):(?!//)", url):
        local, path = False, url[match.end() :]
    else:
        local, path = True, url
    parts = [part for part in path.split("/") if part not in ("", ".", "..") and "@" not in part]
    if not parts:
        return None
    parts[-1] = parts[-1].removesuffix(".git") or parts[-1]
    if parts[-1] == ".git" and len(parts) > 1:
        parts.pop()
    name = parts[-1] if local else "/".join(parts[-2:])
    return _clean(name) or None


def _clean(name: str) -> str:
    """A name without control characters and bytes that are not UTF-8, bounded in length."""
    text = os.fsencode(name).decode("utf-8", "replace")
    return "".join(c for c in text if c.isprintable())[:MAX_NAME].strip()


def _folder_name(common: Path) -> str:
    folder = common.parent if common.name == ".git" else common
    return _clean(folder.name.removesuffix(".git")) or "repository"


def slug_of(name: str, root: str) -> str:
    """A file name for a repository: readable, and different for different (name, oldest commit)."""
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:60] or "repository"
    return f"{readable}-{content_id(name, root)[:8]}"


def _pointed(file: Path, prefix: bytes = b"") -> Path | None:
    """The folder that a file such as `commondir` names, or None when it names none."""
    if not file.is_file():
        return None
    with file.open("rb") as handle:
        said = handle.read(4096)
    if not said.startswith(prefix):
        return None
    return file.parent / os.fsdecode(said.removeprefix(prefix).strip(b" \r\n"))


def _special(folder: Path, deep: bool) -> Path | None:
    """A pipe or device among a folder's files, or below it when `deep`; None when there is none.

    A socket cannot be opened as a file, so it holds nobody up; git's own file watcher leaves one.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            found = None
            if entry.is_dir():
                found = _special(Path(entry.path), deep) if deep and not entry.is_symlink() else None
            elif not entry.is_file():
                with contextlib.suppress(FileNotFoundError):
                    found = None if stat.S_ISSOCK(entry.stat().st_mode) else Path(entry.path)
            if found is not None:
                return found
    return None


def _refuse_special_files(path: Path) -> None:
    """Refuse a repository with a pipe or device in place of a file: reading one can last for ever.

    Raises:
        AssayError: names the first one.
    """
    git = path / ".git" if (path / ".git").exists() else path
    git = _pointed(git, b"gitdir:") or git
    common = _pointed(git / "commondir") or git
    for folder, deep in (
        *((git, False), (common, False), (common / "info", False)),
        *((git / "refs", True), (common / "refs", True), (common / "objects", True)),
    ):
        if found := _special(folder, deep):
            raise AssayError(f"{found}: a pipe or device in place of a file of git's; remove it")


def _open(path: Path) -> pygit2.Repository:
    trust_object_store()
    try:
        _refuse_special_files(path)
        return pygit2.Repository(str(path), RepositoryOpenFlag.NO_SEARCH)
    except (pygit2.GitError, KeyError, ValueError, OSError) as error:
        said = str(error)
        if "objectformat" in said.lower() or "sha256" in said.lower():
            raise AssayError(
                f"{path}: uses SHA-256 object ids, which libgit2 cannot read; mine a SHA-1 repository"
            ) from None
        if "extension" in said.lower():
            raise AssayError(f"{path}: cannot be read by libgit2 ({said})") from None
        if isinstance(error, PermissionError) or "config" in said:
            raise AssayError(f"{path}: cannot be read ({said.removeprefix(f'{path}: ')})") from None
        raise AssayError(
            f"{path}: not a git repository; give the top folder of a work tree, a bare repository or "
            "a .git directory"
        ) from None


def open_repository(path: str | Path) -> Repository:
    """Open a local repository for mining.

    Raises:
        AssayError: the path is missing or no repository; it has no commits; it is a shallow clone;
            it uses an object format that cannot be read.
    """
    path = Path(path)
    try:
        present, file = path.is_dir(), path.is_file()
    except (OSError, ValueError) as error:
        raise AssayError(f"{path}: cannot be read ({error})") from None
    if not present:
        what = "is a file" if file else "no such folder"
        raise AssayError(f"{path}: {what}; give the folder of a local git repository")
    repo = _open(path)
    git_dir = Path(repo.path)
    common = git_dir
    if (git_dir / "commondir").is_file():
        pointer = (git_dir / "commondir").read_bytes()[:4096].strip()
        common = (git_dir / os.fsdecode(pointer)).resolve()
    objects = common / "objects"
    shallow = common / "shallow"
    if shallow.is_file() and shallow.stat().st_size:
        raise AssayError(
            f"{path}: a shallow clone, whose history is cut off; complete it with "
            f"`git -C {path} fetch --unshallow`"
        )
    try:
        head = str(repo.head.peel(pygit2.Commit).id)
    except (pygit2.GitError, KeyError, ValueError) as error:
        raise AssayError(_no_head(path, repo, git_dir, error)) from None
    return Repository(path, objects.absolute(), _name(repo, common), head, _is_partial(repo))


def _no_head(path: Path, repo: pygit2.Repository, git_dir: Path, error: Exception) -> str:
    branches = sorted(repo.raw_listall_branches())
    if not branches:
        return f"{path}: has no commits; commit something or give another repository"
    try:
        with (git_dir / "HEAD").open("rb") as handle:
            target = _clean(os.fsdecode(handle.read(1000)))
    except OSError:
        target = str(error)
    first = branches[0].decode(errors="replace")
    return (
        f"{path}: HEAD ({target.removeprefix('ref: ')}) has no commits, though there are branches; choose "
        f"one with `git -C {path} symbolic-ref HEAD refs/heads/{first}`"
    )


def _name(repo: pygit2.Repository, common: Path) -> str:
    try:
        url = repo.config["remote.origin.url"] or ""
    except (KeyError, pygit2.GitError, ValueError):
        url = ""
    return name_from_url(url) or _folder_name(common)


def _is_partial(repo: pygit2.Repository) -> bool:
    try:
        names = [entry.name for entry in repo.config]
    except (pygit2.GitError, ValueError):
        return False
    return any(name == "extensions.partialclone" or name.endswith(".promisor") for name in names)
