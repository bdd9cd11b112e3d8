"""Commits become edits.

In: one chunk of a history, as `plan_units` cuts it. Out: exactly one outcome a commit, in order: a
`Keep` with its `Edit`, or a `Drop` with a reason of `miner.reasons.MINE`. What is cheap to check is
checked first; a file's content is read only when nothing else speaks against the commit.

A commit, path, blob or message that is damaged or hostile costs its own row and no other.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from miner import origins, provenance
from miner.assistants import ai_assistant
from miner.authors import is_bot
from miner.blobs import Blobs, MissingBlob, TooLarge, open_blobs
from miner.companions import MOST, source_and_companions
from miner.config import FetchConfig, MineConfig
from miner.diff import compare
from miner.history import Change, FileChange, decode, read_changes, read_history
from miner.languages import language_of, languages_of_path
from miner.licenses import license_of_header, repository_license
from miner.messages import is_low_signal
from miner.putback import PutBack
from miner.repository import Repository, open_repository, refuse_removed, slug_of
from miner.sources import local_path
from schemas.errors import AssayError
from schemas.ids import content_id, digest_json
from schemas.records import Edit
from schemas.stage import Drop, Keep, Outcome, Unit

_TYPES = {"A": "added", "D": "deleted", "T": "type changed"}
_GITLINK, _SYMLINK = "160000", "120000"
_MAX_PATH = 4096
_SAMPLE = 200
"""Newest commits of a partial clone whose contents are looked for."""


class _Dropped(Exception):
    """A commit is no edit: (reason, detail)."""


@dataclasses.dataclass(frozen=True)
class _Source:
    """What is the same for all commits of a unit."""

    config: MineConfig
    repo: str
    license: str | None
    blobs: Blobs
    merged: dict[str, str]
    reverted: dict[str, tuple[str, str]]


def _kept_files(config: MineConfig) -> int:
    """Files of a commit that the reader of the history has to keep beside the first."""
    return MOST if config.companions == "tests" else 0


def _changed_file(change: Change) -> tuple[FileChange, list[str]]:
    """The one source file that a commit changed in place, and the files that came with it."""
    if len(change.parents) > 1:
        raise _Dropped("merge", f"{len(change.parents)} parents")
    if not change.parents:
        raise _Dropped("root_commit", None)
    if change.first is None:
        raise _Dropped("no_files", None)
    found = (change.first, list[str]()) if change.files == 1 else source_and_companions(change)
    if found is None:
        raise _Dropped("several_files", f"{change.files} files")
    first, companions = found
    modes = (first.old_mode, first.new_mode)
    if _GITLINK in modes:
        raise _Dropped("gitlink", None)
    if _SYMLINK in modes:
        raise _Dropped("symlink", None)
    if first.status != "M":
        raise _Dropped("not_in_place", _TYPES.get(first.status, first.status))
    if first.old_id == first.new_id:
        raise _Dropped("not_in_place", f"mode {first.old_mode} to {first.new_mode}")
    return first, companions


def _source_path(config: MineConfig, raw: bytes) -> str:
    """The path of a hand-written source file of a wanted language, as far as the path tells."""
    if len(raw) > _MAX_PATH:
        raise _Dropped("path_too_long", f"{len(raw)} bytes or more")
    try:
        path = raw.decode()
    except UnicodeDecodeError:
        raise _Dropped("path_not_utf8", None) from None
    if any(part in ("", ".", "..") or part.lower() == ".git" for part in path.split("/")):
        # Whoever writes files by the paths of a data set would write outside of its folder.
        raise _Dropped("not_a_source_file", "a path that git refuses to check out")
    if why := origins.lock_file(path):
        raise _Dropped("lock_file", why)
    told = languages_of_path(path)
    if not any(one in config.languages for one in told):
        raise _Dropped("not_a_source_file", " or ".join(told) or None)
    if config.drop_vendored and (why := origins.vendored(path)):
        raise _Dropped("vendored", why)
    if config.drop_generated:
        if why := origins.minified_path(path):
            raise _Dropped("minified", why)
        if why := origins.generated_path(path):
            raise _Dropped("generated", why)
    return path


def _message(config: MineConfig, raw: bytes) -> str:
    """The message of a commit, when it can say something about the change."""
    message = decode(raw).strip()
    if len(message) <= config.min_message_chars:
        raise _Dropped("message_too_short", f"{len(message)} characters")
    if len(message) >= config.max_message_chars:
        raise _Dropped("message_too_long", f"{len(message)} characters")
    if config.drop_low_signal and is_low_signal(message):
        raise _Dropped("low_signal_message", provenance.first_line(message)[:80])
    return message


def _read(source: _Source, oid: str) -> bytes:
    try:
        return source.blobs.read(oid, source.config.max_file_bytes)
    except TooLarge as error:
        raise _Dropped("too_large", f"{error} bytes") from None
    except MissingBlob:
        raise _Dropped("missing_object", oid) from None


def _text(data: bytes) -> str:
    if not data or data.isspace():
        raise _Dropped("empty_side", None)
    if b"\0" in data:
        raise _Dropped("binary", None)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _Dropped("not_utf8", None) from None


def _time(raw: bytes) -> int:
    try:
        value = int(raw)
    except ValueError:
        raise _Dropped("bad_date", None) from None
    if not 0 <= value < 1 << 40:
        raise _Dropped("bad_date", str(value)[:40])
    return value


def _edit(source: _Source, change: Change) -> Edit:
    """The edit that a commit is.

    Raises:
        _Dropped: it is none.
    """
    config = source.config
    file, companions = _changed_file(change)
    path = _source_path(config, file.path)
    message = _message(config, change.message)
    author_time, commit_time = _time(change.author_time), _time(change.commit_time)
    old, new = _read(source, file.old_id), _read(source, file.new_id)
    if old == new:
        raise _Dropped("unchanged", None)
    old_contents, new_contents = _text(old), _text(new)
    language = language_of(path, new_contents)
    if language not in config.languages:
        raise _Dropped("not_a_source_file", "by its content")
    if config.drop_generated:
        if why := origins.generated_content(new_contents):
            raise _Dropped("generated", why)
        if why := origins.minified_content(new_contents, language):
            raise _Dropped("minified", why)
    hunks, patch_id = compare(file.path, old, new)
    commit = change.commit
    author, email = decode(change.author), decode(change.email)
    reverted_by, reverted_how = source.reverted.get(commit, (None, None))
    return Edit(
        id=content_id(source.repo, commit, path),
        repo=source.repo,
        commit=commit,
        parent=change.parents[0],
        path=path,
        language=language,
        old_contents=old_contents,
        new_contents=new_contents,
        old_id=file.old_id,
        new_id=file.new_id,
        patch_id=patch_id,
        subject=provenance.first_line(message),
        message=message,
        author_time=author_time,
        commit_time=commit_time,
        license=source.license,
        file_license=license_of_header(new_contents),
        merged_by=_merged_by(
            provenance.merged_by_message(message, source.repo, author, email), source.merged.get(commit)
        ),
        reverted_by=reverted_by,
        reverted_how=reverted_how,
        cherry_picked_from=provenance.cherry_picked_from(message),
        bot=is_bot(author, email),
        ai_assisted=ai_assistant(
            message, author, email, decode(change.committer), decode(change.committer_email)
        ),
        companions=companions,
        hunks=hunks,
        lines_added=sum(hunk.new_lines for hunk in hunks),
        lines_removed=sum(hunk.old_lines for hunk in hunks),
    )


def wanted_contents(config: MineConfig, repository: Repository, commits: Sequence[str]) -> Iterator[str]:
    """Object ids of the files that mining will read, before and after each commit that may be an edit."""
    for _, change in read_changes(repository, commits, keep=_kept_files(config)):
        if change is not None:
            with contextlib.suppress(_Dropped):
                file, _ = _changed_file(change)
                _source_path(config, file.path)
                _message(config, change.message)
                yield from (file.old_id, file.new_id)


def _merged_by(by_message: str | None, by_merge: str | None) -> str | None:
    """A request number tells most, wherever it stands; a review trailer tells more than a bare merge."""
    numbered = [code for code in (by_message, by_merge) if code and ":" in code]
    return numbered[0] if numbered else by_message or by_merge


def _read_ahead(
    config: MineConfig, repository: Repository, commits: Sequence[str], after: Sequence[str]
) -> tuple[list[tuple[str, Change | None]], dict[str, str]]:
    """The changes of commits, and those of them that put-back content reverts, looking at `after` too."""
    back = PutBack(config.revert_window)
    changes: list[tuple[str, Change | None]] = []
    for commit, change in read_changes(repository, [*commits, *after], back, _kept_files(config)):
        edit = None
        if len(changes) < len(commits):
            changes.append((commit, change))
            if change is not None and (change.files == 1 or change.all_files) and len(change.parents) == 1:
                found = (change.first, []) if change.files == 1 else source_and_companions(change)
                first = None if found is None else found[0]
                if first is not None and first.status == "M" and first.old_id != first.new_id:
                    edit = (commit, first.path, first.old_id, first.new_id)
        back.end(edit)
    return changes, back.found


def mine_commits(
    config: MineConfig,
    repository: Repository,
    commits: Sequence[str],
    merged: dict[str, str],
    reverted: dict[str, str],
    license_id: str | None = None,
    after: Sequence[str] = (),
) -> Iterator[Outcome]:
    """One outcome for every commit, in order.

    Args:
        merged: commit -> how the merge that brought it says it got in, for those that a merge brought.
        reverted: commit -> the commit that says it reverts it.
        license_id: SPDX expression of the repository's licence.
        after: commits that follow, looked at for content that goes back.

    Raises:
        AssayError: git is not there; the repository cannot be read at all, or was removed meanwhile.
    """
    changes, put_back = _read_ahead(config, repository, commits, after)
    how = {commit: (by, "content") for commit, by in put_back.items()}
    how |= {commit: (by, "message") for commit, by in reverted.items()}
    lost = False
    with open_blobs(repository) as blobs:
        source = _Source(config, repository.name, license_id, blobs, merged, how)
        for commit, change in changes:
            try:
                if change is None:
                    raise _Dropped("unreadable_commit", None)
                yield Keep((_edit(source, change),))
            except _Dropped as dropped:
                reason, detail = dropped.args
                lost = lost or reason in ("missing_object", "unreadable_commit")
                yield Drop(f"{repository.name}@{commit}", reason, detail)
    if lost:
        refuse_removed(repository)


def mine_unit(config: MineConfig, unit: Unit) -> Iterator[Outcome]:
    """`mine_commits` for a unit that `plan_units` made; commits of an earlier repository are dropped."""
    payload = unit.payload
    if "refused" in payload:
        raise AssayError(payload["refused"])
    repository = Repository(
        path=Path(payload["path"]),
        objects=Path(payload["objects"]),
        name=payload["repo"],
        head=payload["head"],
        partial=False,
        object_format=payload["object_format"],
    )
    commits, shared = payload["commits"].split(), payload["shared"]
    own = mine_commits(
        config,
        repository,
        [commit for commit in commits if commit not in shared],
        payload["merged"],
        payload["reverted"],
        payload["license"],
        payload["after"].split(),
    )
    for commit in commits:
        if (other := shared.get(commit)) is not None:
            yield Drop(f"{repository.name}@{commit}", "shared_commit", f"mined from {other}")
        else:
            yield next(own)
    # Run to its end, where it tells when the repository was removed meanwhile.
    yield from own


def _refuse_missing_contents(repository: Repository, commits: Sequence[str]) -> None:
    """Refuse a clone whose contents were left on the server: git would fetch them, this never does."""
    with open_blobs(repository) as blobs:
        for _, change in read_changes(repository, commits):
            if change is not None:
                first = change.first
                if first is None or first.new_mode in (_GITLINK, "000000") or blobs.exists(first.new_id):
                    continue
            raise AssayError(
                f"{repository.path}: a partial clone without the contents of its files; fetch them with "
                f"`git -C {repository.path} fetch --refetch --no-filter origin`, "
                "or give the URL that it was cloned from"
            )


def _part_names(slug: str, branches: Sequence[str]) -> list[str]:
    """What the units of HEAD and of each branch are named by."""
    return [slug, *(f"{slug}-{slug_of(branch, '')}" for branch in branches)]


def plan_units(
    config: MineConfig, path: Path, limit: int | None = None, seen: Mapping[str, str] | None = None
) -> list[Unit]:
    """Cut a repository's history into units of `commits_per_unit` commits, oldest first.

    `limit` bounds the commits. A unit's inputs name its commits and what the rest of the history
    says about them, so a repository that grows adds units and leaves the full ones as they are,
    except those near its old end and those with a commit that was reverted since.

    Args:
        seen: commit -> name of the repository that it is mined from already.

    Raises:
        AssayError: the repository cannot be mined (see `open_repository` and `read_history`).
    """
    repository = open_repository(path)
    history = read_history(repository, config.branches)
    if repository.partial and not repository.fetched:
        _refuse_missing_contents(repository, history.order[-_SAMPLE:])
    license_id = repository_license(repository, repository.head)
    slug = slug_of(repository.name, history.order[0])
    seen = {} if seen is None else seen
    units: list[Unit] = []
    left = limit
    orders = [history.order, *history.branches.values()]
    for name, whole in zip(_part_names(slug, list(history.branches)), orders, strict=True):
        order = whole if left is None else whole[:left]
        left = None if left is None else left - len(order)
        for start in range(0, len(order), config.commits_per_unit):
            end = start + config.commits_per_unit
            commits = order[start:end]
            facts = {
                "merged": {one: history.merged[one] for one in commits if one in history.merged},
                "reverted": {one: history.reverted[one] for one in commits if one in history.reverted},
                "shared": {one: seen[one] for one in commits if one in seen},
                "license": license_id,
                "repo": repository.name,
            }
            after = whole[start + len(commits) :][: config.revert_window]
            payload: dict[str, Any] = {
                **facts,
                "path": str(repository.path),
                "objects": str(repository.objects),
                "object_format": repository.object_format,
                "head": repository.head,
                "commits": " ".join(commits),
                "after": " ".join(after),
            }
            inputs = {
                "commits": content_id(*commits),
                "after": content_id(*after),
                "facts": digest_json(facts),
            }
            number = start // config.commits_per_unit
            units.append(Unit(f"{name}-{number:05d}", len(commits), payload, inputs))
    return units


def plan_mine(
    config: MineConfig,
    repos: Sequence[Path | str],
    limit: int | None = None,
    fetch: FetchConfig = FetchConfig(),  # noqa: B008 (frozen)
) -> list[Unit]:
    """Plan the mining of repositories, in the order given; `limit` bounds all commits together.

    Commits that several of them have, as forks do, are mined from the first. Of several repositories, one
    that cannot be mined gets a unit that fails and says why, so that it costs the others nothing.

    Args:
        repos: paths, and URLs that `miner.remote` has fetched.
        fetch: where fetched repositories lie.

    Raises:
        AssayError: no repository; the only one cannot be mined.
    """
    if not repos:
        raise AssayError("mine: no repository; give the folder or URL of at least one git repository")
    units: list[Unit] = []
    names: dict[str, str] = {}
    seen: dict[str, str] = {}
    left = limit
    for given in map(str, repos):
        try:
            planned = plan_units(config, local_path(given, fetch), left, seen)
            if again := next((unit for unit in planned if unit.name in names), None):
                raise AssayError(f"{given}: the same repository as {names[again.name]}; give one of them")
        except AssayError as error:
            if len(repos) == 1:
                raise
            planned = [refused_unit(given, error)]
        for unit in planned:
            names[unit.name] = given
            for commit in unit.payload.get("commits", "").split():
                seen.setdefault(commit, unit.payload["repo"])
        units += planned
        if left is not None:
            left -= sum(unit.rows for unit in planned)
            if left <= 0:
                break
    return units


def refused_unit(given: str, error: AssayError) -> Unit:
    """A unit of no rows that stands for a source that cannot be read; working on it raises the error."""
    return Unit(f"refused-{content_id(given)[:8]}", 0, {"refused": str(error)}, {"refused": str(error)})
