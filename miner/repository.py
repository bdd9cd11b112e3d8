"""A local repository: a work tree, a bare repository, a `.git` directory or a linked work tree.

`open_repository` finds its object store, its name and its newest commit, and refuses what cannot be
mined with one line that says why. Nothing of the repository is executed, so one that belongs to
another user is read too, and no file is opened that its config names. No absolute path and no credential
of a remote's URL gets into a name.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pygit2

from miner.gitcmd import GitError, git_blocks, git_tokens
from miner.refs import files_below, git_folders, read_refs, resolve
from schemas.errors import AssayError, environment_fault
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
        branches: short name -> what each branch names, a commit or a tag of one unless it is broken; its own
            branches and those that it knows of origin.
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
    if not text.isprintable():
        text = "".join(c for c in text if c.isprintable())
    return text[:MAX_NAME].strip()


def _folder_name(common: Path) -> str:
    folder = common.parent if common.name == ".git" else common
    return _clean(folder.name.removesuffix(".git")) or "repository"


def slug_of(name: str, root: str) -> str:
    """A file name for a repository: readable, and different for different (name, oldest commit)."""
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:60] or "repository"
    return f"{readable}-{content_id(name, root)[:8]}"


_DEEPEST = 5
"""How far git follows alternates from one object store to the next."""

_FORMATS = ("sha1", "sha256")
_EXTENSIONS = {
    *("noop", "noop-v1", "preciousobjects", "partialclone", "worktreeconfig", "relativeworktrees"),
    *("objectformat", "compatobjectformat", "refstorage"),
}
"""Extensions that do not change how objects and references are read, or change it in a way known here."""


def _is_special(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a pipe or device, perhaps behind a link: reading one can last for ever.

    A socket cannot be opened as a file, so it holds nobody up; git's own file watcher leaves one.
    """
    with contextlib.suppress(FileNotFoundError):
        return not (entry.is_file() or entry.is_dir() or stat.S_ISSOCK(entry.stat().st_mode))
    return False


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _store_folders(objects: Path) -> Iterator[Path]:
    """The folders of an object store in which git looks for files; links are followed, as git does."""
    yield from (objects / "info", objects / "info" / "commit-graphs", objects / "pack")
    for entry in _entries(objects):
        if re.fullmatch(r"[0-9a-f]{2}", entry.name) and entry.is_dir():
            yield objects / entry.name


def _borrowed(objects: Path) -> Iterator[Path]:
    """Object stores that one names as its alternates, as gitrepository-layout(5) describes them."""
    file = objects / "info" / "alternates"
    if not file.is_file():
        return
    with file.open("rb") as handle:
        lines = handle.read(_MAX_ALTERNATES).split(b"\n")
    for line in lines:
        name = line
        if line.startswith(b'"') and line.endswith(b'"'):
            name, _ = codecs.escape_decode(line[1:-1]) if re.fullmatch(_QUOTED, line) else (line, 0)
        if name and b"\0" not in name and not name.startswith(b"#"):
            yield objects / os.fsdecode(name)


def _stores(objects: Path) -> Iterator[Path]:
    """An object store and those that it borrows from, near and far."""
    seen: set[str] = set()
    near = [objects]
    for _ in range(_DEEPEST + 1):
        far: list[Path] = []
        for store in near:
            # git does not complain of one that is not there or not for it to read.
            with contextlib.suppress(OSError):
                if (real := os.path.realpath(store)) not in seen and Path(real).is_dir():
                    seen.add(real)
                    yield store
                    far += _borrowed(store)
        near = far


def _refuse_special_files(git: Path, common: Path) -> None:
    """Refuse a repository with a pipe or device in place of a file that is read.

    Raises:
        AssayError: names the first one.
        OSError: a folder cannot be read.
    """
    advice = "a pipe or device in place of a file of git's; remove it"

    def check(entries: Iterable[os.DirEntry[str]]) -> None:
        if found := next(filter(_is_special, entries), None):
            raise AssayError(f"{found.path}: {advice}")

    for folder in (git, common, common / "info"):
        check(_entries(folder))
    for folder in (git / "refs", common / "refs"):
        check(files_below(folder))
    own = common / "objects"
    # An alternates file is itself read to find the next store.
    check(_entries(own / "info"))
    for store in _stores(own):
        for folder in _store_folders(store):
            try:
                check(_entries(folder))
            except PermissionError:
                if store == own:
                    raise


def _settings(path: Path, common: Path) -> dict[str, str]:
    """What the config file says of remotes, format and extensions, the last one of a name.

    Raises:
        AssayError: it cannot be read, or asks for something that is not known here.
    """
    file = common / "config"
    found: dict[str, str] = {}
    if file.is_file():
        # Given by its name, a file's includes are not followed.
        wanted = r"^(remote\..*\.(url|promisor)|core\.repositoryformatversion|extensions\..*)$"
        arguments = ["config", "--file", str(file.absolute()), "-z", "--get-regexp", wanted]
        try:
            for entry in git_tokens(common, arguments):
                name, _, value = entry.decode("utf-8", "surrogateescape").partition("\n")
                if name.startswith(("core.", "extensions.", "remote.origin.")) or "promisor" not in found:
                    found["promisor" if name.endswith(".promisor") else name] = value
        except GitError as error:
            # Without a match git ends with 1 and says nothing.
            if not str(error).startswith("exit status 1"):
                raise AssayError(f"{path}: cannot be read ({error})") from None
    version = found.get("core.repositoryformatversion", "0").strip()
    if version not in ("0", "1", ""):
        raise AssayError(f"{path}: cannot be read (its repository format version is {_clean(version)})")
    names = {name.removeprefix("extensions.") for name in found if name.startswith("extensions.")}
    if version == "1":
        if unknown := sorted(names - _EXTENSIONS):
            raise AssayError(f"{path}: cannot be read (unknown extension {_clean(unknown[0])})")
        if (storage := found.get("extensions.refstorage", "files")) != "files":
            raise AssayError(
                f"{path}: its references are kept as {_clean(storage)}, which is not read; convert it with "
                f"`git -C {path} refs migrate --ref-format=files`"
            )
        if (kind := found.get("extensions.objectformat", "sha1")) not in _FORMATS:
            raise AssayError(f"{path}: cannot be read (unknown object format {_clean(kind)})")
    else:
        found.pop("extensions.objectformat", None)
    return found


def _not_one(path: Path) -> AssayError:
    return AssayError(
        f"{path}: not a git repository; give the top folder of a work tree, a bare repository or "
        "a .git directory"
    )


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
    try:
        git, common = git_folders(path)
        return _open(path, git, common.resolve())
    except PermissionError as error:
        raise AssayError(f"{path}: cannot be read ({error.filename}: {error.strerror})") from None
    except (OSError, ValueError, RuntimeError) as error:
        fault = environment_fault(error) if isinstance(error, OSError) else None
        raise fault or AssayError(f"{path}: cannot be read ({_clean(str(error))})") from None


def _open(path: Path, git: Path, common: Path) -> Repository:
    _refuse_special_files(git, common)
    if not (git / "HEAD").is_file() or not (common / "objects").is_dir() or not (common / "refs").is_dir():
        raise _not_one(path)
    settings = _settings(path, common)
    shallow = common / "shallow"
    if shallow.is_file() and shallow.stat().st_size:
        raise AssayError(
            f"{path}: a shallow clone, whose history is cut off; complete it with "
            f"`git -C {path} fetch --unshallow`"
        )
    objects, object_format = common / "objects", settings.get("extensions.objectformat", "sha1")
    refs = read_refs(common)
    branches = {
        name: oid
        for name in refs
        if name.startswith(_BRANCHES) and (oid := resolve(name, git, refs)) is not None
    }
    head = _commit_at_head(path, git, refs, branches, objects, object_format)
    url, fetched = settings.get("remote.origin.url", ""), (common / FETCHED).is_file()
    # A clone of a local folder is named by its own: where it was copied from says nothing.
    named = name_from_url(url) if fetched or scrubbed_url(url) else None
    return Repository(
        path,
        objects,
        named or _folder_name(common),
        head,
        "promisor" in settings or "extensions.partialclone" in settings,
        object_format,
        url=scrubbed_url(url),
        branches=_by_short_name(branches),
        fetched=fetched,
    )


def commits_at(objects: Path, object_format: str, oids: Sequence[str]) -> list[str | None]:
    """The commit that each object is, or that it is a tag of; None for what is damaged or no commit.

    Raises:
        AssayError: very many objects are damaged.
    """
    found: list[str | None] = []
    failures = 0
    while len(found) < len(oids):
        lines = [f"{oid}^{{commit}}" for oid in oids[len(found) :]]
        told = b""
        # git may stop at an object that is damaged; the ones after it are still good.
        with contextlib.suppress(GitError):
            for block in git_blocks(objects, ["cat-file", "--batch-check", "--buffer"], lines, object_format):
                told += block
        for line in told.splitlines():
            oid, _, kind = line.partition(b" ")
            found.append(oid.decode() if kind.startswith(b"commit ") else None)
        if len(found) < len(oids):
            found.append(None)
            failures += 1
            if failures > _MAX_FAILURES:
                raise AssayError(
                    f"{objects.parent}: many references name damaged objects; run `git fsck` there"
                )
    return found


def refuse_removed(repository: Repository) -> None:
    """Tell damage from a repository that is no longer there: what is missing then is no fault of its rows.

    Raises:
        AssayError: its newest commit cannot be read any more.
    """
    if commits_at(repository.objects, repository.object_format, [repository.head])[0] is None:
        raise AssayError(
            f"{repository.path}: was removed or rewritten while it was read; run the same command again"
        )


_BRANCHES = ("refs/heads/", "refs/remotes/origin/")
_MAX_ALTERNATES = 16 << 20
_MAX_FAILURES = 50
_QUOTED = rb'"(?:[^"\\]|\\(?:[abfnrtv"\\]|[0-3][0-7]{2}))*"'


def _by_short_name(branches: Mapping[str, str]) -> dict[str, str]:
    """Short name -> object, by name; a local branch goes before origin's of the same name."""
    found: dict[str, str] = {}
    taken: dict[str, str] = {}
    for prefix in _BRANCHES:
        for name in sorted(branches):
            if name.startswith(prefix) and name != "refs/remotes/origin/HEAD":
                short = name.removeprefix(prefix)
                label = _clean(short)
                if taken.setdefault(label, short) != short:
                    # Bytes that are not UTF-8 look alike, and long names are cut.
                    label = f"{label[: MAX_NAME - 10]}-{content_id(os.fsencode(short).hex())[:8]}"
                found.setdefault(label, branches[name])
    return dict(sorted(found.items()))


def _commit_at_head(
    path: Path,
    git: Path,
    refs: dict[str, str],
    branches: Mapping[str, str],
    objects: Path,
    object_format: str,
) -> str:
    """The commit that HEAD stands for.

    Raises:
        AssayError: there is none.
    """
    oid = resolve("HEAD", git, refs)
    if oid is not None:
        head = commits_at(objects, object_format, [oid])[0]
        if head is not None:
            return head
        raise AssayError(
            f"{path}: HEAD names {oid}, which is missing, damaged or no commit; check it with "
            f"`git -C {path} fsck`"
        )
    local = sorted(name.removeprefix(_BRANCHES[0]) for name in branches if name.startswith(_BRANCHES[0]))
    if not local:
        raise AssayError(f"{path}: has no commits; commit something or give another repository")
    with (git / "HEAD").open("rb") as handle:
        target = _clean(os.fsdecode(handle.read(1000)))
    raise AssayError(
        f"{path}: HEAD ({target.removeprefix('ref: ')}) has no commits, though there are branches; choose "
        f"one with `git -C {path} symbolic-ref HEAD refs/heads/{_clean(local[0])}`"
    )
