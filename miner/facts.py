"""What is known of a repository as a whole: the stage `repositories`.

In: local repositories, files of metadata, and what forges answered. Out: one row a repository. From git
come head, roots, number and times of commits, contributors and licence, in one pass over the commits that
never looks at contents. Stars, issues and forks are in no history: they come from a file (`miner.metadata`)
or the forge (`miner.forge`), the file first, and are null when neither tells. A history that git cannot read
to its end costs its own row.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from miner import forge as forges
from miner.authors import People, is_bot
from miner.blobs import MissingBlob, TooLarge, open_blobs
from miner.config import FetchConfig, RepositoriesConfig
from miner.gitcmd import GitError, git_tokens
from miner.history import decode
from miner.licenses import license_files, repository_license
from miner.metadata import Known, Metadata, place_of, read_metadata
from miner.repository import Repository, name_from_url, open_repository, scrubbed_url, slug_of
from miner.sources import is_url, local_path
from miner.trees import files_in
from schemas.errors import AssayError
from schemas.ids import content_id, digest_json
from schemas.records import RepositoryFacts
from schemas.stage import Drop, Keep, Outcome, Unit

STORE = "forge.jsonl"
"""File of a run directory with what forges answered."""

NO_FETCH = FetchConfig()
"""Where fetched repositories lie by default."""

_MAX_MAILMAP = 1 << 20
_MAX_IDENTITY = 1_000
_MAX_ROOTS = 1_000


@dataclasses.dataclass(frozen=True)
class GitFacts:
    """What a history tells; fields as in `RepositoryFacts`."""

    roots: list[str]
    commits: int
    first_commit_time: int | None
    last_commit_time: int | None
    license_files: list[str]
    contributors: int


def _is_small(repository: Repository, mailmap: str) -> bool:
    with open_blobs(repository) as blobs:
        try:
            blobs.read(mailmap, _MAX_MAILMAP)
        except (MissingBlob, TooLarge):
            return False
    return True


def _time(raw: bytes) -> int | None:
    return int(raw) if raw.isdigit() and 0 < int(raw[:20]) < 1 << 40 else None


def git_facts(repository: Repository) -> GitFacts:
    """Read a history once, from its head.

    Names and addresses are those that a `.mailmap` at the top of the head's tree gives, unless it is very
    large. Of very many roots the first thousand by id are told.

    Raises:
        GitError: git cannot read all of it.
    """
    files = sorted(license_files(repository, repository.head))
    mailmap = files_in(repository, repository.head, lambda name: name == ".mailmap").get(".mailmap")
    arguments = ["log", "-z", "--format=%H%x00%P%x00%ct%x00%aN%x00%aE", "--end-of-options", repository.head]
    if mailmap is not None and _is_small(repository, mailmap):
        arguments = ["-c", f"mailmap.blob={mailmap}", *arguments]
    tokens = git_tokens(repository.objects, arguments, (), repository.object_format)
    commits, roots, last = 0, [], None
    root_times: list[int] = []
    authors: set[tuple[bytes, bytes]] = set()
    for commit, parents, time, name, email in zip(tokens, tokens, tokens, tokens, tokens, strict=False):
        commits += 1
        if commits == 1:
            last = _time(time)
        if not parents:
            roots.append(commit.decode())
            root_times += [known] if (known := _time(time)) is not None else []
        authors.add((name[:_MAX_IDENTITY], email[:_MAX_IDENTITY]))
    people = People()
    for raw_name, raw_email in authors:
        who = decode(raw_name), decode(raw_email)
        if not is_bot(*who):
            people.add(*who)
    return GitFacts(
        sorted(roots)[:_MAX_ROOTS], commits, min(root_times, default=None), last, files, len(people)
    )


def _oldest(repository: Repository) -> str:
    """The oldest commit of the first-parent line, by which parts of a repository are named."""
    arguments = ["rev-list", "--first-parent", "--max-parents=0", "--end-of-options", repository.head]
    try:
        told = b"".join(git_tokens(repository.objects, arguments, (), repository.object_format))
    except GitError as error:
        raise AssayError(
            f"{repository.path}: git cannot read the whole history ({error}); "
            f"check it with `git -C {repository.path} fsck`"
        ) from None
    return told.decode().split()[0]


def _forges(config: RepositoriesConfig) -> list[forges.Forge]:
    own = [forges.own_forge(config.forge_url)] if config.forge_url else []
    return [*own, *forges.FORGES]


def _told(
    name: str,
    url: str | None,
    metadata: Sequence[Metadata],
    answers: Mapping[tuple[str, str], forges.Answer],
    known_forges: Sequence[forges.Forge],
) -> tuple[Known, str | None]:
    """What files and forge say together about a repository, and where it is from."""
    told = [(one.name, known) for one in metadata if (known := one.find(name, url)) is not None]
    project = forges.project_of(url, known_forges)
    if project is not None and (answer := answers.get((project[0].host, project[1]))) is not None:
        told.append((answer.host, answer.known))
    merged, sources = Known(), []
    for source, known in told:
        missing = {
            field.name: getattr(known, field.name)
            for field in dataclasses.fields(Known)
            if getattr(merged, field.name) is None and getattr(known, field.name) is not None
        }
        if missing:
            merged = dataclasses.replace(merged, **missing)
            sources.append(source)
    return merged, " + ".join(dict.fromkeys(sources)) or None


def _identities(repos: Sequence[Path | str], fetch: FetchConfig) -> list[tuple[str, str | None]]:
    """Name and URL of the repositories that can be read; one that was not fetched yet has its URL."""
    found: list[tuple[str, str | None]] = []
    for given in map(str, repos):
        if is_url(given):
            found.append((name_from_url(given) or "repository", scrubbed_url(given)))
            continue
        # Whoever reads it says what is wrong with it.
        with contextlib.suppress(AssayError):
            repository = open_repository(local_path(given, fetch))
            found.append((repository.name, repository.url))
    return found


def read_files(
    repos: Sequence[Path | str], metadata: Sequence[Path | str], fetch: FetchConfig = NO_FETCH
) -> list[Metadata]:
    """What files of metadata say about repositories. Asked again, it reads no file that did not change.

    Raises:
        AssayError: a file cannot be read.
    """
    if not metadata:
        return []
    who = _identities(repos, fetch)
    names = {name for name, _ in who} | {place_of(url)[1] for _, url in who if url}
    return [read_metadata(Path(path), names - {""}) for path in metadata]


def ask_forges(
    config: RepositoriesConfig,
    repos: Sequence[Path | str],
    metadata: Sequence[Path | str],
    store: Path,
    fetch: FetchConfig = NO_FETCH,
) -> list[str]:
    """Ask the forges of repositories for what no file tells, and keep the answers in `store`.

    Returns:
        lines for a person: what was not answered, and why.

    Raises:
        AssayError: a file cannot be read; `forge_url` is no API.
    """
    known_forges = _forges(config)
    files = read_files(repos, metadata, fetch)
    wanted = [
        (name, url)
        for name, url in _identities(repos, fetch)
        if not _told(name, url, files, {}, known_forges)[0].is_full()
    ]
    return forges.ask(store, wanted, known_forges, config.forge_timeout, config.forge_wait)


def _unit(repository: Repository, known: Known, source: str | None) -> Unit:
    told = {**dataclasses.asdict(known), "known_from": source}
    # A local clone has a URL of its origin too, but it was its user who chose it.
    url = repository.url if repository.fetched else None
    payload: dict[str, Any] = {
        "path": str(repository.path),
        "objects": str(repository.objects),
        "object_format": repository.object_format,
        "repo": repository.name,
        "url": url,
        "head": repository.head,
        "known": told,
    }
    inputs = {"head": repository.head, "facts": digest_json([repository.name, url, told])}
    return Unit(slug_of(repository.name, _oldest(repository)), 1, payload, inputs)


def plan_repositories(
    config: RepositoriesConfig,
    repos: Sequence[Path | str],
    metadata: Sequence[Path | str] = (),
    store: Path | None = None,
    limit: int | None = None,
    fetch: FetchConfig = NO_FETCH,
) -> list[Unit]:
    """One unit a repository; nobody is asked anything.

    Of several repositories, one that cannot be read becomes a row that is dropped, and says why.

    Args:
        repos: paths, and URLs that `miner.remote` has fetched.
        metadata: files with stars, issues and forks; the first that tells counts.
        store: file with what forges answered; there need be none.
        limit: most repositories to look at.
        fetch: where fetched repositories lie.

    Raises:
        AssayError: no repository; the only one cannot be read; a file cannot be read.
    """
    if not repos:
        raise AssayError("repositories: no repository; give the folder or URL of at least one git repository")
    known_forges = _forges(config)
    files = read_files(repos, metadata, fetch)
    answers = forges.read_answers(store) if store is not None else {}
    units: dict[str, Unit] = {}
    for given in map(str, repos[:limit]):
        try:
            one = open_repository(local_path(given, fetch))
            unit = _unit(one, *_told(one.name, one.url, files, answers, known_forges))
            if unit.name in units:
                raise AssayError(
                    f"{given}: the same repository as one given before, {one.name}; give one of them"
                )
        except AssayError as error:
            if len(repos) == 1:
                raise
            why = {"given": given, "refused": str(error)}
            unit = Unit(f"refused-{content_id(given)[:8]}", 1, why, why)
        units[unit.name] = unit
    return list(units.values())


def repositories_unit(unit: Unit) -> Iterator[Outcome]:
    """One outcome for the repository of a unit."""
    payload = unit.payload
    if "refused" in payload:
        yield Drop(payload["given"], "unusable_repository", payload["refused"][:500])
        return
    repository = Repository(
        path=Path(payload["path"]),
        objects=Path(payload["objects"]),
        name=payload["repo"],
        head=payload["head"],
        partial=False,
        object_format=payload["object_format"],
        url=payload["url"],
    )
    try:
        facts = git_facts(repository)
    except GitError as error:
        yield Drop(f"{repository.name}@{repository.head}", "unreadable_history", str(error)[:200])
        return
    yield Keep(
        (
            RepositoryFacts(
                repo=repository.name,
                url=repository.url,
                head=repository.head,
                object_format=repository.object_format,
                license=repository_license(repository, repository.head),
                **dataclasses.asdict(facts),
                **payload["known"],
            ),
        )
    )


def unknown(rows: Sequence[dict[str, Any]]) -> str | None:
    """One line that says of how many repositories stars or issues are not known; None when of none."""
    missing = {field: sum(row[field] is None for row in rows) for field in ("stars", "issues")}
    counts: dict[int, list[str]] = {}
    for field, count in missing.items():
        if count:
            counts.setdefault(count, []).append(field)
    parts = [
        f"{' and '.join(fields)} of {count} repositor{'y' if count == 1 else 'ies'}"
        for count, fields in counts.items()
    ]
    return f"{', '.join(parts)} unknown" if parts else None


def same_names(rows: Sequence[dict[str, Any]]) -> list[str]:
    """One line for each name that repositories without a common root share (rows of `repositories`)."""
    found: dict[str, list[set[str]]] = {}
    for row in rows:
        found.setdefault(row["repo"], []).append(set(row["roots"]))
    lines = []
    for name, roots in sorted(found.items()):
        # A clone and its forks have roots in common, and are meant to count as one.
        others = sum(all(one.isdisjoint(before) for before in roots[:at]) for at, one in enumerate(roots))
        if others > 1:
            lines.append(
                f"{others} repositories are called {name!r}, and count as one in every table and for the "
                "split; give their folders names of their own, or each its remote `origin`"
            )
    return lines


def bad_rows(files: Sequence[Metadata]) -> list[str]:
    """One line for each file of metadata with rows that could not be used."""
    return [
        f"{one.name}: {one.bad:,} row{'' if one.bad == 1 else 's'} could not be used"
        for one in files
        if one.bad
    ]
