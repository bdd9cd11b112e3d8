"""Repositories given as URLs: cloned without contents into a cache, then only the wanted contents fetched.

`update` clones a repository with `--filter=blob:none`, so that commits and trees come and files stay
where they are, finds out which files the miner will look at, and asks for these in one batch. A second
run fetches what is new since. The cache holds one bare repository a URL; what is in it is mined like any
local repository. A server that knows no filter sends everything, which works too.

What can go wrong is told in one line and leaves the cache as it was: a URL that is none or names a program
(`ext::...`, `--upload-pack=...`), a server that refuses, hangs or dies, a disk that is full.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from miner import edits
from miner.blobs import open_blobs
from miner.config import FetchConfig, MineConfig
from miner.gitcmd import GitError, git_tokens
from miner.history import read_history, wanted_branches
from miner.licenses import license_files
from miner.network import NetworkError, run_git
from miner.repository import FETCHED, Repository, open_repository
from miner.sources import cached_path
from miner.trees import files_in
from schemas.errors import AssayError, environment_fault
from schemas.ids import digest_json

_BATCH = 20_000
"""Contents asked for in one request."""

_MAX_REFUSALS = 60
"""Requests for contents that a server may refuse before it is given up."""

_LACKS = re.compile(r"not our ref|missing|bad object|unable to read|corrupt|did not send all", re.IGNORECASE)


@contextlib.contextmanager
def _locked(path: Path, url: str) -> Iterator[None]:
    """Hold a cached repository; two runs may want the same one."""
    with contextlib.ExitStack() as opened:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = opened.enter_context(path.with_suffix(".lock").open("a"))
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            raise AssayError(
                f"{url}: the cache {path.parent} cannot be written ({error.strerror}); "
                "set ASSAY_CACHE to another folder"
            ) from None
        yield


@contextlib.contextmanager
def _written(path: Path, url: str) -> Iterator[None]:
    """Tell in one line that the cache is full, or was taken away while it was written to."""
    try:
        yield
    except OSError as error:
        raise environment_fault(error) or AssayError(
            f"{url}: the cache {path.parent} cannot be written ({error.strerror}); run the same command again"
        ) from None


def _state(path: Path) -> dict[str, Any]:
    try:
        found = json.loads((path / FETCHED).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _save_state(path: Path, state: dict[str, Any]) -> None:
    left = path / f"{FETCHED}.tmp"
    left.write_text(json.dumps(state, indent=1) + "\n", "utf-8")
    left.replace(path / FETCHED)


class _Fetch:
    """Fetching one URL: git with the limits of a `FetchConfig`, tried again when the server failed."""

    def __init__(self, url: str, path: Path, config: FetchConfig, tell: Callable[[str], None]) -> None:
        self.url, self.path, self.config, self.tell = url, path, config, tell

    def _git(self, *arguments: str, stdin: Path | None = None) -> None:
        run_git(
            arguments,
            stall_s=self.config.stall_s,
            timeout_s=self.config.timeout_s,
            max_bytes=self.config.max_pack_gb << 30,
            stdin=stdin,
            progress=lambda line: self.tell(f"{self.url}: {line}"),
        )

    def _again(self, work: Callable[[], None]) -> None:
        for attempt in range(1, self.config.attempts + 1):
            try:
                work()
                return
            except NetworkError as error:
                if attempt == self.config.attempts:
                    raise NetworkError(f"{self.url}: cannot be fetched ({error})") from None
                self.tell(f"{self.url}: {error}; trying again")
                time.sleep(attempt)

    def clone(self) -> None:
        """Commits and trees of a repository that is not in the cache."""
        with tempfile.TemporaryDirectory(prefix=".clone-", dir=self.path.parent) as name:
            made = Path(name) / "repository.git"

            def work() -> None:
                shutil.rmtree(made, ignore_errors=True)
                self._git(
                    *("clone", "--bare", "--filter=blob:none", "--no-tags", "--template=", "--progress"),
                    *("--", self.url, str(made)),
                )

            self._again(work)
            _save_state(made, {"url": self.url})
            made.rename(self.path)

    def update(self) -> None:
        """Commits and trees that are new at the server."""
        into = ("-C", str(self.path))
        refs = ("+HEAD:refs/assay/head", "+refs/heads/*:refs/heads/*")
        options = ("--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--prune", "--progress")
        self._again(lambda: self._git(*into, "fetch", "--update-head-ok", *options, "--", "origin", *refs))
        self._again(lambda: self._git(*into, "update-ref", "--no-deref", "HEAD", "refs/assay/head"))

    def contents(self, wanted: Sequence[str]) -> None:
        """The contents of files, in batches. What the server lacks stays away, and costs nothing else."""
        batches = [wanted[start : start + _BATCH] for start in range(0, len(wanted), _BATCH)]
        refusals = 0
        while batches:
            batch = batches.pop(0)
            self.tell(f"{self.url}: fetching {len(batch):,} files")
            try:
                self._again(functools.partial(self._ask, batch))
            except NetworkError as error:
                # One file that the server cannot read spoils a whole batch.
                if refusals >= _MAX_REFUSALS or not _LACKS.search(str(error)):
                    raise
                refusals += 1
                if len(batch) > 1:
                    batches += [batch[: len(batch) // 2], batch[len(batch) // 2 :]]

    def _ask(self, wanted: Sequence[str]) -> None:
        # Nothing is negotiated: the server is told what is wanted, not what is there.
        with tempfile.NamedTemporaryFile("w", prefix="assay-wanted-") as file:
            file.write("".join(f"{oid}\n" for oid in wanted))
            file.flush()
            self._git(
                *("-C", str(self.path), "-c", "fetch.negotiationAlgorithm=noop", "-c", "fetch.unpackLimit=1"),
                *("fetch", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--progress"),
                *("--stdin", "origin"),
                stdin=Path(file.name),
            )


def _files_at_head(repository: Repository) -> Iterator[str]:
    """Ids of the files of HEAD's tree that say whose the repository is and who wrote it."""
    yield from license_files(repository, repository.head).values()
    yield from files_in(repository, repository.head, lambda name: name == ".mailmap").values()


def _new_commits(repository: Repository, known: Sequence[str], branches: Sequence[str]) -> list[str]:
    """Commits of the history that none of the heads looked at before reaches."""
    if known:
        heads = [repository.head, *wanted_branches(repository, branches).values()]
        lines = [*heads, *(f"^{oid}" for oid in known)]
        arguments = ["log", "-z", "--format=%H", "--stdin"]
        with contextlib.suppress(GitError):
            tokens = git_tokens(repository.objects, arguments, lines, repository.object_format)
            return [token.decode() for token in tokens]
    history = read_history(repository, branches)
    return [*history.order, *(commit for order in history.branches.values() for commit in order)]


def update(
    url: str, config: FetchConfig, mine: MineConfig, tell: Callable[[str], None] = lambda _: None
) -> Path:
    """Bring a URL's repository and all contents that `mine` needs into the cache.

    Args:
        tell: told what is being done, a line at a time.

    Returns:
        The cached repository.

    Raises:
        AssayError: the URL is bad, the server does not give it, or the cache cannot be written.
    """
    path = cached_path(url, config)
    with _locked(path, url), _written(path, url):
        fetch = _Fetch(url, path, config, tell)
        if not path.is_dir():
            tell(f"{url}: cloning without contents")
            fetch.clone()
        elif config.update:
            fetch.update()
        repository = open_repository(path)
        state = _state(path)
        heads = [repository.head, *wanted_branches(repository, mine.branches).values()]
        looked = digest_json(dataclasses.asdict(mine))
        if state.get("looked") == looked and state.get("heads") == heads:
            return path
        known = state.get("heads", []) if state.get("looked") == looked else []
        commits = _new_commits(repository, known, mine.branches)
        with open_blobs(repository) as blobs:
            wanted = dict.fromkeys(_files_at_head(repository))
            wanted.update(dict.fromkeys(edits.wanted_contents(mine, repository, commits)))
            missing = [oid for oid in wanted if not blobs.exists(oid)]
        fetch.contents(missing)
        _save_state(path, {**state, "looked": looked, "heads": heads})
    return path
