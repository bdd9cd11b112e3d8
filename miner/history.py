"""A repository's commits in a stable order, and what the whole history says about each.

`read_history` makes one pass over all messages. The order is that of the mainline: for each commit
on the first-parent line of HEAD, oldest first, come the commits that it brought in, then itself.
While a mainline grows at its end, so does this order, whatever the dates say; cutting it in chunks
gives units that keep their content.

`read_changes` is the fast reader below the miner: one `git diff-tree` process for a list of commits.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from miner import provenance
from miner.gitcmd import GitError, git_blocks
from miner.putback import PutBack
from miner.repository import Repository, commits_at, refuse_removed
from miner.reverts import may_revert, undo_level
from miner.undone import Claim, Named, Undone, claim_of
from schemas.errors import AssayError

_MAX_FAILURES = 50
"""Commits in a row that git may refuse before the repository is given up."""

_MAX_MESSAGE = 100_000
"""Bytes of a message that are searched for merges and reverts."""

_KEPT_MESSAGES = 64 << 20
"""Bytes of messages that are kept for a second look; a longer history is read again for it."""

_TAIL = re.compile(rb"(?: ?\([^()]*\))+$")
_NUMBER = re.compile(rb"\d+")

_KEPT_MESSAGE, _KEPT_PATH, _KEPT_NAME = 300_000, 5_000, 1_000
"""Bytes of a message, a path and a name that a `Change` keeps; what is longer is of no use."""


@dataclasses.dataclass(frozen=True)
class History:
    """All commits that HEAD and the wanted branches reach.

    Attributes:
        order: object ids of what HEAD reaches, oldest first, in mainline order.
        branches: branch -> what it reaches beside HEAD and the branches before it, in its own order.
        merged: commit -> how the merge that brought it says it got in (see `provenance`).
        reverted: commit -> the later commit that reverts it and was not itself reverted.
    """

    order: list[str]
    branches: dict[str, list[str]]
    merged: dict[str, str]
    reverted: dict[str, str]


def mainline_order(
    parents: Mapping[str, Sequence[str]], head: str, seen: set[str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """Order commits along the first-parent line, but for those already seen, which it adds to.

    Returns:
        the commits, each after all of its parents; and commit -> the innermost merge that brought it,
        for those that are not on the first-parent line.
    """
    seen = set() if seen is None else seen
    mainline = []
    at: str | None = head
    while at is not None and at not in seen:
        mainline.append(at)
        at = next(iter(parents[at]), None)
    order: list[str] = []
    owner: dict[str, str] = {}

    def bring(merge: str, roots: Sequence[str]) -> None:
        # Depth first, parents before children, first parents first; a stack since histories are deep.
        # What a merge inside the branch brings through its other parents belongs to that merge.
        stack = [(root, merge, False) for root in reversed(roots)]
        while stack:
            commit, by, finished = stack.pop()
            if finished:
                order.append(commit)
            elif commit not in seen:
                seen.add(commit)
                owner[commit] = by
                stack.append((commit, by, True))
                above = parents[commit]
                stack.extend((other, commit, False) for other in reversed(above[1:]))
                if above:
                    stack.append((above[0], by, False))

    for commit in reversed(mainline):
        seen.add(commit)
        if len(parents[commit]) > 1:
            bring(commit, parents[commit][1:])
        order.append(commit)
    return order, owner


def _merge_codes(
    order: Sequence[str], owner: Mapping[str, str], merges: Mapping[str, str | None]
) -> dict[str, str]:
    """Merge -> how the commits that it brought got in: its own request number, else that of the merge
    that brought the merge itself, else that it was a merge."""
    codes: dict[str, str] = {}
    for commit in reversed(order):
        if commit not in merges:
            continue
        own = merges[commit]
        outer = codes.get(owner.get(commit, ""))
        if own is None or (own == provenance.MERGE_COMMIT and outer is not None):
            own = outer
        if own is not None:
            codes[commit] = own
    return codes


def decode(raw: bytes) -> str:
    """Text of a message or name: UTF-8, else Latin-1, which git's own viewers fall back to."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def wanted_branches(repository: Repository, patterns: Sequence[str]) -> dict[str, str]:
    """Name -> newest commit of the branches that a shell pattern names, by name; one without is left out.

    Raises:
        AssayError: a pattern without wildcards names no branch.
    """
    for pattern in patterns:
        if not any(char in pattern for char in "*?[") and pattern not in repository.branches:
            raise AssayError(f"{repository.path}: has no branch {pattern!r}; mine.branches names it")
    wanted = {
        name: oid
        for name, oid in sorted(repository.branches.items())
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }
    commits = (
        commits_at(repository.objects, repository.object_format, list(wanted.values())) if wanted else []
    )
    return {name: oid for name, oid in zip(wanted, commits, strict=True) if oid is not None}


def read_history(repository: Repository, branches: Sequence[str] = ()) -> History:
    """Read the shape and the messages of a history.

    Args:
        branches: patterns of branches to read beside HEAD.

    Raises:
        AssayError: git cannot read it to the end, since objects are missing or damaged; there is no such
            branch.
    """
    wanted = wanted_branches(repository, branches)
    heads = [repository.head, *wanted.values()]
    parents: dict[str, list[str]] = {}
    merges: dict[str, str | None] = {}
    claims: dict[str, Claim] = {}
    kept: list[tuple[str, bytes]] | None = []
    size = 0
    for commit, above, raw in _messages(repository, heads):
        parents[commit] = above
        size += len(raw)
        if kept is not None:
            kept.append((commit, raw))
            kept = kept if size <= _KEPT_MESSAGES else None
        if len(above) > 1:
            merges[commit] = provenance.merged_by_merge(decode(raw), repository.name)
        if may_revert(raw) and (claim := claim_of(decode(raw), repository.name)) is not None:
            claims[commit] = claim
    seen: set[str] = set()
    order, owner = mainline_order(parents, repository.head, seen)
    beside: dict[str, list[str]] = {}
    for name, oid in wanted.items():
        beside[name], brought = mainline_order(parents, oid, seen)
        owner |= brought
    whole = [*order, *(commit for commits in beside.values() for commit in commits)]
    codes = _merge_codes(whole, owner, merges)
    merged = {commit: codes[merge] for commit, merge in owner.items() if merge in codes}
    again = kept if kept is not None else ((one, raw) for one, _, raw in _messages(repository, heads))
    undone = Undone(whole, owner, _named(again, repository.name, claims.values()))
    return History(order, beside, merged, undone.settle(claims))


def _messages(repository: Repository, heads: Sequence[str]) -> Iterator[tuple[str, list[str], bytes]]:
    """(commit, parents, start of its message) of all that heads reach, newest first.

    Raises:
        AssayError: git cannot read it to the end.
    """
    arguments = ["log", "-z", "--format=%H %P%x00%B", "--stdin"]
    blocks = git_blocks(repository.objects, arguments, heads, repository.object_format)
    try:
        for record in _records(blocks, _MESSAGE):
            commit, *above = record[1].decode().split()
            if above and len(above[-1]) != len(commit):
                raise AssayError(f"{repository.path}: {commit} has more than {len(above):,} parents")
            yield commit, above, record[2][:_MAX_MESSAGE]
    except GitError as error:
        raise AssayError(
            f"{repository.path}: git cannot read the whole history ({error}); "
            f"check it with `git -C {repository.path} fsck`"
        ) from None


def _named(messages: Iterable[tuple[str, bytes]], repo: str, claims: Collection[Claim]) -> Named:
    """The commits that claims name otherwise than by id; messages are looked at only where there is one."""
    names = {name for claim in claims for name in claim.names}
    bases = {claim.base for claim in claims if claim.level}
    found = Named(defaultdict(list), defaultdict(list))
    if not names and not bases:
        return found
    # Few commits are named. Numbers and subjects are compared before a message is read with care.
    words = {name.rpartition(":")[2].lstrip("D").encode() for name in names}
    subjects = {base.encode("utf-8", "surrogateescape") for base in bases}
    for commit, raw in messages:
        if bases:
            subject = b" ".join(raw.lstrip().partition(b"\n")[0].split())
            plain = _TAIL.sub(b"", subject) if subject.endswith(b")") else subject
            if subject in subjects or plain in subjects or may_revert(subject):
                base, level = undo_level(decode(subject))
                if base in bases:
                    found.subjects[base].append((commit, level))
        if names and (not words.isdisjoint(_NUMBER.findall(raw)) or b"Change-Id: " in raw):
            for name in provenance.names_of(decode(raw), repo):
                if name in names:
                    found.names[name].append(commit)
    return found


class FileChange(NamedTuple):
    """One entry of a commit's raw diff: modes and object ids before and after, status letter, path."""

    old_mode: str
    new_mode: str
    old_id: str
    new_id: str
    status: str
    path: bytes


class Change(NamedTuple):
    """A commit as the raw diff against its parent shows it; merges and first commits come without files.

    `first` is the first changed file and `files` their number; the other files are counted only, so
    that a commit of a million files costs no memory. `all_files` are all of them where the reader of the
    history was asked for so many, else none.
    """

    commit: str
    parents: tuple[str, ...]
    author: bytes
    email: bytes
    committer: bytes
    committer_email: bytes
    author_time: bytes
    commit_time: bytes
    message: bytes
    first: FileChange | None
    files: int
    all_files: tuple[FileChange, ...] = ()


_DIFF = [
    *("diff-tree", "--stdin", "-r", "--always", "--raw", "--no-renames", "--no-abbrev", "-z"),
    "--format=%H%x00%P%x00%an%x00%ae%x00%cn%x00%ce%x00%at%x00%ct%x00%B%x00",
]
_MESSAGE = re.compile(rb"([0-9a-f ]+)\0([^\0]*)(?:\0|\Z)")
_HEADER = re.compile(rb"([0-9a-f]+)\0([0-9a-f ]*)\0" + rb"([^\0]*)\0" * 7 + rb"(?:\0|\Z)")
"""A commit in the output of `_DIFF`: nine fields, then an empty one."""
_ENTRIES = re.compile(rb"(?:\n?:[^\0]*\0[^\0]*\0)+")
"""Its files, of two fields each, the first of them after a line feed; no commit's first field has a colon."""


def _records(blocks: Iterator[bytes], pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """Matches of a pattern, each where the one before ends, in what comes in blocks.

    A match that reaches the end of what has come is tried again with more. It is never searched for further
    on: from every place of a long list of parents that would take quadratic time.
    """
    buffer = b""
    for block in blocks:
        buffer += block
        if b"\0" not in block:
            continue
        at = 0
        while (match := pattern.match(buffer, at)) is not None and match.end() < len(buffer):
            at = match.end()
            yield match
        buffer = buffer[at:]
    at = 0
    while at < len(buffer) and (match := pattern.match(buffer, at)) is not None:
        at = match.end()
        yield match


def _until_nul(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The next blocks, up to one with a NUL."""
    for block in blocks:
        yield block
        if b"\0" in block:
            return


def _changes(blocks: Iterator[bytes], back: PutBack | None, keep: int) -> Iterator[Change]:
    """Changes from the output of `_DIFF`.

    git writes a commit once it has read all of it, so when it stops at one, the commits before are whole.
    """
    problems: list[GitError] = []

    def until_refused() -> Iterator[bytes]:
        try:
            yield from blocks
        except GitError as error:
            problems.append(error)

    source = until_refused()
    buffer, at = b"", 0
    more = True
    while True:
        header = _HEADER.match(buffer, at)
        while more and (header is None or header.end() == len(buffer)):
            # Looked at again when a field has ended: a long one comes in many blocks.
            fresh = b"".join(_until_nul(source))
            more = bool(fresh)
            buffer, at = buffer[at:] + fresh, 0
            header = _HEADER.match(buffer)
        if header is None:
            break
        commit, at = header[1].decode(), header.end()
        first, files = None, 0
        kept: list[FileChange] = []
        while True:
            entries = _ENTRIES.match(buffer, at)
            if entries is not None:
                if first is None:
                    first = _first_file(entries[0])
                files += _see(commit, entries[0], back)
                if files <= keep:
                    kept += _all_files(entries[0])
                at = entries.end()
            # What follows is the next commit, unless it is a part of one more file.
            rest = buffer[at : at + 2]
            if not more or (rest and rest[:1] != b":" and rest not in (b"\n", b"\n:")):
                break
            block = next(source, None)
            more = block is not None
            buffer, at = buffer[at:] + (block or b""), 0
        yield Change(
            commit,
            tuple(header[2].decode().split()),
            header[3][:_KEPT_NAME],
            header[4][:_KEPT_NAME],
            header[5][:_KEPT_NAME],
            header[6][:_KEPT_NAME],
            header[7],
            header[8],
            header[9][:_KEPT_MESSAGE],
            first,
            files,
            tuple(kept) if files <= keep else (),
        )
    if problems:
        raise problems[0]


def _first_file(entries: bytes) -> FileChange:
    meta, path, _ = entries.split(b"\0", 2)
    return _file(meta, path)


def _file(meta: bytes, path: bytes) -> FileChange:
    old_mode, new_mode, old_id, new_id, status = meta.lstrip(b"\n:").decode().split(" ")
    return FileChange(old_mode, new_mode, old_id, new_id, status, path[:_KEPT_PATH])


def _all_files(entries: bytes) -> Iterator[FileChange]:
    fields = entries.split(b"\0")
    return (_file(meta, path) for meta, path in zip(fields[:-1:2], fields[1::2], strict=True))


def _see(commit: str, entries: bytes, back: PutBack | None) -> int:
    """Show the files of a commit that are watched; returns how many files there are."""
    if back is None or not back.watched:
        return entries.count(b"\0") // 2
    fields = entries.split(b"\0")
    paths = fields[1::2]
    if not back.watched.isdisjoint(paths):
        for path in back.watched & set(paths):
            _, _, old_id, new_id, _ = fields[2 * paths.index(path)].lstrip(b"\n:").decode().split(" ")
            back.see(commit, path, old_id, new_id)
    return len(paths)


def read_changes(
    repository: Repository, commits: Sequence[str], back: PutBack | None = None, keep: int = 0
) -> Iterator[tuple[str, Change | None]]:
    """Every commit of a list, in order, with its change; None for one that git cannot read.

    Args:
        back: sees every file that it watches; whoever reads the changes ends the commits.
        keep: most files of a commit that are kept; of one with more only the first is.

    Raises:
        AssayError: git refuses many commits in a row.
    """
    start, failures = 0, 0
    while start < len(commits):
        problem = None
        blocks = git_blocks(repository.objects, _DIFF, commits[start:], repository.object_format)
        changes = _changes(blocks, back, keep)
        try:
            for change in changes:
                while commits[start] != change.commit:
                    yield commits[start], None
                    start += 1
                yield change.commit, change
                start, failures = start + 1, 0
        except GitError as error:
            problem = error
        if problem is None:
            yield from ((commit, None) for commit in islice(commits, start, None))
            return
        if start < len(commits):
            # git stops at a commit that it cannot read; the ones after it are still good.
            failures += 1
            if failures > _MAX_FAILURES:
                refuse_removed(repository)
                raise AssayError(
                    f"{repository.path}: git refuses {failures} commits in a row ({problem}); "
                    f"check it with `git -C {repository.path} fsck`"
                )
            yield commits[start], None
            start += 1
