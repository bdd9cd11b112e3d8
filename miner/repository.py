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
from collections.abc import Iterable, Mapping
from pathlib import Path

import pygit2
from pygit2.enums import RepositoryOpenFlag

from miner.gitcmd import GitError, git_tokens
from miner.refs import git_folders, read_refs, resolve
from schemas.errors import AssayError
from schemas.ids import content_id

MAX_NAME = 200
FETCHED = "assay.json"
"""File in the git directory of a repository that was fetched from a URL."""


@dataclasses.dataclass(frozen=True)
class Repository:
    """What is needed to read a repository.

    Attributes:
        path: where it was given, for messages only.
        objects: its object store.
        name: `owner/name` from the origin remote, else the folder's name.
        head: object id of the commit that HEAD points to.
        partial: it was cloned with a filter, so objects may be missing.
        object_format: `sha1` or `sha256`.
        url: of its origin remote, without user, password and query; None when it has none that is a URL.
        branches: short name -> object id of each branch, its own and those that it knows of origin.
        fetched: it lies in the cache of repositories that were given as URLs (see `miner.remote`).
    """

    path: Path
    objects: Path
    name: str
    head: str
    partial: bool
    object_format: str = "sha1"
    url: str | None = None
    branches: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fetched: bool = False


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


def scrubbed_url(url: str) -> str | None:
    """A remote's URL without user, password, query and fragment; None for a local path.

    The short form of ssh, `user@host:path`, is written out as a URL.
    """
    url = url.strip()
    if match := re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*)://([^/?#]*)([^?#]*)", url):
        scheme, place, path = match[1].lower(), match[2].rpartition("@")[2], match[3]
        if scheme == "file" or not place:
            return None
    elif match := re.match(r"(?:[^/@]+@)?(\[[^\]/]*\]|[^/:@]+):(?!//)(.+)", url):
        scheme, place, path = "ssh", match[1], "/" + match[2].lstrip("/")
    else:
        return None
    return _clean(f"{scheme}://{place}{path}")


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
    git, common = git_folders(path)
    for folder, deep in (
        *((git, False), (common, False), (common / "info", False)),
        *((git / "refs", True), (common / "refs", True), (common / "objects", True)),
    ):
        if found := _special(folder, deep):
            raise AssayError(f"{found}: a pipe or device in place of a file of git's; remove it")


def _open(path: Path) -> pygit2.Repository | None:
    """The repository for libgit2, or None when it has SHA-256 object ids, which libgit2 does not know."""
    trust_object_store()
    try:
        _refuse_special_files(path)
        return pygit2.Repository(str(path), RepositoryOpenFlag.NO_SEARCH)
    except (pygit2.GitError, KeyError, ValueError, OSError) as error:
        said = str(error)
        if "objectformat" in said.lower() or "sha256" in said.lower():
            return None
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
    git, common = git_folders(path)
    common = common.resolve()
    shallow = common / "shallow"
    if shallow.is_file() and shallow.stat().st_size:
        raise AssayError(
            f"{path}: a shallow clone, whose history is cut off; complete it with "
            f"`git -C {path} fetch --unshallow`"
        )
    objects = (common / "objects").absolute()
    if repo is None:
        return _sha256(path, git, common, objects)
    try:
        head = str(repo.head.peel(pygit2.Commit).id)
    except (pygit2.GitError, KeyError, ValueError) as error:
        raise AssayError(_no_head(path, sorted(_branch_names(repo)), git, error)) from None
    url = _origin(repo)
    return Repository(
        path,
        objects,
        name_from_url(url) or _folder_name(common),
        head,
        _is_partial(_config_names(repo)),
        url=scrubbed_url(url),
        branches=_by_short_name(_branches(repo)),
        fetched=(common / FETCHED).is_file(),
    )


def _sha256(path: Path, git: Path, common: Path, objects: Path) -> Repository:
    """What `open_repository` tells of a repository with SHA-256 object ids."""
    refs = read_refs(common)
    head = resolve("HEAD", git, refs)
    branches = {name: resolve(name, git, refs) for name in refs if name.startswith(_BRANCHES)}
    known = {name: oid for name, oid in branches.items() if oid is not None}
    if head is None or len(head) != 64:
        local = [name.removeprefix(_BRANCHES[0]) for name in known if name.startswith(_BRANCHES[0])]
        raise AssayError(_no_head(path, sorted(local), git, ValueError("unreadable")))
    try:
        entries = [entry.decode("utf-8", "replace") for entry in _config_of(common, objects)]
    except GitError as error:
        raise AssayError(f"{path}: cannot be read ({error})") from None
    settings = dict(entry.partition("\n")[::2] for entry in entries)
    url = settings.get("remote.origin.url", "")
    return Repository(
        path,
        objects,
        name_from_url(url) or _folder_name(common),
        head,
        _is_partial(settings),
        object_format="sha256",
        url=scrubbed_url(url),
        branches=_by_short_name(known),
        fetched=(common / FETCHED).is_file(),
    )


def _config_of(common: Path, objects: Path) -> Iterable[bytes]:
    # Given by its name, a file's includes are not followed.
    return git_tokens(objects, ["config", "--file", str(common / "config"), "-z", "--list"])


_BRANCHES = ("refs/heads/", "refs/remotes/origin/")
_MAX_BRANCHES = 10_000


def _branch_names(repo: pygit2.Repository) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in repo.raw_listall_branches()]


def _branches(repo: pygit2.Repository) -> dict[str, str]:
    """Full name -> commit of the branches; one that points to no commit is left out."""
    found = {}
    for raw in repo.raw_listall_references():
        name = raw.decode("utf-8", "surrogateescape")
        if name.startswith(_BRANCHES) and name != "refs/remotes/origin/HEAD":
            with contextlib.suppress(pygit2.GitError, KeyError, ValueError):
                found[name] = str(repo.lookup_reference(name).peel(pygit2.Commit).id)
        if len(found) >= _MAX_BRANCHES:
            break
    return found


def _by_short_name(branches: Mapping[str, str]) -> dict[str, str]:
    """Short name -> commit, by name; a local branch goes before origin's of the same name."""
    found: dict[str, str] = {}
    for prefix in _BRANCHES:
        for name, oid in branches.items():
            if name.startswith(prefix) and name != "refs/remotes/origin/HEAD":
                found.setdefault(_clean(name.removeprefix(prefix)), oid)
    return dict(sorted(found.items()))


def _no_head(path: Path, branches: list[str], git_dir: Path, error: Exception) -> str:
    if not branches:
        return f"{path}: has no commits; commit something or give another repository"
    try:
        with (git_dir / "HEAD").open("rb") as handle:
            target = _clean(os.fsdecode(handle.read(1000)))
    except OSError:
        target = str(error)
    return (
        f"{path}: HEAD ({target.removeprefix('ref: ')}) has no commits, though there are branches; choose "
        f"one with `git -C {path} symbolic-ref HEAD refs/heads/{_clean(branches[0])}`"
    )


def _origin(repo: pygit2.Repository) -> str:
    try:
        return str(repo.config["remote.origin.url"] or "")
    except (KeyError, pygit2.GitError, ValueError):
        return ""


def _config_names(repo: pygit2.Repository) -> list[str]:
    try:
        return [entry.name for entry in repo.config]
    except (pygit2.GitError, ValueError):
        return []


def _is_partial(names: Iterable[str]) -> bool:
    return any(name == "extensions.partialclone" or name.endswith(".promisor") for name in names)
