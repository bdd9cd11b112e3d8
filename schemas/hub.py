"""Publishing a run as a dataset on the Hugging Face Hub.

In: a run directory whose published tables have finished rows, and `owner/name` of the dataset.
Out: a commit there that holds the shards byte for byte, the card and the recipe, and nothing of an
earlier run; read back and compared, then tagged when asked. Sidecars stay at home: what they tell is
on the card, and the Hub keeps a digest of each file itself. When the Hub holds the same files already,
nothing is sent.

All of the run goes up or an error tells why not: a shard that is not what its sidecar says, a stage
that was stopped, files on the Hub that are not from assay, a tag that is taken, a token that is
missing or refused, a network that is down. Each is an `AssayError` of one line; a token never
appears in one. An upload of more than 256 files takes several commits, so a reader of the main
branch may see a part of it meanwhile; running the same command again completes it.

huggingface_hub is imported by the functions that talk to it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas import shards
from schemas.card import dataset_card, public_recipe, published
from schemas.errors import AssayError, RunDirError, ShardError
from schemas.records import SPLIT_TABLES
from schemas.rundir import SPLITS, RunDir

if TYPE_CHECKING:
    from huggingface_hub import HfApi

CARD = "README.md"
RECIPE = "recipe.toml"
_STAGING = ".push"
_SHARDS = tuple(f"{table}/{split}/part-*.parquet" for table in SPLIT_TABLES for split in SPLITS)
# What a repository made on the website starts with; anything else is somebody's data.
_HARMLESS = (".gitattributes", ".gitignore", CARD, "LICENSE*")
_REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True)
class PublishedFile:
    """A file to publish: its place in the dataset, where its bytes are, and what they are."""

    path: str
    local: Path
    size: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Contents:
    """All that a run publishes.

    Attributes:
        rows: table -> split -> rows.
        shards: the shards, by path.
        card: text of README.md.
        recipe: text of recipe.toml, without paths of the machine.
    """

    rows: dict[str, dict[str, int]]
    shards: tuple[PublishedFile, ...]
    card: str
    recipe: str

    @property
    def bytes(self) -> int:
        """Size of all files together."""
        texts = len(self.card.encode()) + len(self.recipe.encode())
        return texts + sum(file.size for file in self.shards)


@dataclasses.dataclass(frozen=True)
class PublishResult:
    """What was done.

    Attributes:
        repo_id: the dataset.
        url: its page.
        commit: object id of the commit that holds the run.
        private: whether only its owners see it.
        uploaded: paths that were new or had other bytes.
        deleted: paths of shards that the run no longer has.
        unchanged: number of files that the Hub held already.
        bytes: size of all published files.
        rows: table -> split -> rows.
        tag: the tag that stands at `commit`, when one was asked for.
    """

    repo_id: str
    url: str
    commit: str
    private: bool
    uploaded: tuple[str, ...]
    deleted: tuple[str, ...]
    unchanged: int
    bytes: int
    rows: dict[str, dict[str, int]]
    tag: str | None

    @property
    def changed(self) -> bool:
        """Whether anything was sent; a tag alone is not a change."""
        return bool(self.uploaded or self.deleted)


def check_names(repo_id: str, tag: str | None = None) -> None:
    """Refuse a dataset id or tag that the Hub would not take.

    Raises:
        AssayError: it is not of the form `owner/name`, or not a tag's name.
    """
    if (
        not _REPO_ID.fullmatch(repo_id)
        or re.search(r"--|\.\.|[.-](/|$)|\.git$", repo_id)
        or len(repo_id) > 96
    ):
        raise AssayError(f"{repo_id!r}: not a dataset id; give it as OWNER/NAME, such as my-org/my-pairs")
    if tag is not None and (not _TAG.fullmatch(tag) or re.search(r"\.\.|\.lock$|\.$", tag)):
        raise AssayError(f"{tag!r}: not a tag; give letters, digits, '.', '_' and '-', such as v1.0")


def _check_finished(run: RunDir) -> None:
    """Refuse a run whose published tables are made under two configs, or only in part."""
    tables = published(run)
    stages = {part.sidecar.stage for splits in tables.values() for parts in splits.values() for part in parts}
    for stage in sorted(stages):
        try:
            plan = run.read_plan(stage)
            keys = {unit["name"]: unit["key"] for unit in plan["units"]} if plan else {}
            failed = set(plan["failed"]) if plan else set()
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            raise RunDirError(
                f"{run.root}: the plan of stage {stage} is damaged; run `assay {stage}` again"
            ) from None
        if not keys:
            continue
        made = {
            (part.name, part.sidecar.key)
            for table in tables
            for part in run.parts(table)
            if part.sidecar.stage == stage
        }
        left = [name for name, key in keys.items() if name not in failed and (name, key) not in made]
        old = made - set(keys.items())
        if left or old:
            raise RunDirError(
                f"{run.root}: stage {stage} was stopped before it was done ({len(left)} of {len(keys)} "
                f"units left, {len(old)} of old settings); run `assay {stage}` to the end, then push"
            )


def contents(run: RunDir, repo_id: str, reasons: Mapping[str, Mapping[str, str]] | None = None) -> Contents:
    """What a run publishes, each shard compared with its sidecar. Reads every shard once; changes nothing.

    Raises:
        AssayError: nothing to publish, a stage was stopped, a shard is damaged, or the recipe is
            missing or not TOML.
    """
    recipe_path = run.root / RECIPE
    try:
        recipe = recipe_path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunDirError(f"{recipe_path}: cannot be read ({error}); run a stage to write it again") from None
    card = dataset_card(run, repo_id, recipe, reasons)
    _check_finished(run)
    files, rows = [], dict[str, dict[str, int]]()
    for table, splits in published(run).items():
        for split, parts in splits.items():
            rows.setdefault(table, {})[split] = sum(part.sidecar.rows for part in parts)
            for part in parts:
                if not shards.is_whole(part.path, part.sidecar):
                    raise ShardError(
                        f"{part.path}: not the bytes that its sidecar says; "
                        f"run `assay {part.sidecar.stage}` to make it again"
                    )
                place = part.path.relative_to(run.root).as_posix()
                files.append(PublishedFile(place, part.path, part.sidecar.bytes, part.sidecar.sha256))
    return Contents(rows, tuple(files), card, public_recipe(recipe, str(recipe_path)))


@contextlib.contextmanager
def _staged(run: RunDir, found: Contents) -> Iterator[tuple[Path, list[PublishedFile]]]:
    """A folder inside the run directory with exactly the files to publish; gone afterwards."""
    folder = run.root / _STAGING
    shutil.rmtree(folder, ignore_errors=True)
    try:
        files = []
        for file in found.shards:
            place = folder / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                # A hard link keeps the bytes that were checked, even if a stage replaces the shard.
                os.link(file.local, place)
            except OSError:
                place.symlink_to(file.local.resolve())
            files.append(dataclasses.replace(file, local=place))
        for name, text in ((CARD, found.card), (RECIPE, found.recipe)):
            place, data = folder / name, text.encode()
            place.write_bytes(data)
            files.append(PublishedFile(name, place, len(data), hashlib.sha256(data).hexdigest()))
        yield folder, files
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _git_blob(file: PublishedFile) -> str:
    """Git's object id of a file, by which the Hub knows one that is not in large-file storage."""
    state = hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    with file.local.open("rb") as handle:
        while block := handle.read(1 << 20):
            state.update(block)
    return state.hexdigest()


def _same(file: PublishedFile, remote: Any) -> bool:
    if remote is None or remote.size != file.size:
        return False
    if remote.lfs is not None:
        return bool(remote.lfs.sha256 == file.sha256)
    return bool(remote.blob_id == _git_blob(file))


def _is_shard(path: str) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in _SHARDS)


@dataclasses.dataclass(frozen=True)
class _Difference:
    """What a revision on the Hub lacks, or has other bytes for, and what it has too much."""

    upload: tuple[str, ...]
    delete: tuple[str, ...]
    remote: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.upload or self.delete)


def _difference(api: HfApi, repo_id: str, revision: str, files: list[PublishedFile]) -> _Difference:
    from huggingface_hub.hf_api import RepoFile

    tree = api.list_repo_tree(repo_id, recursive=True, revision=revision, repo_type="dataset")
    remote = {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}
    ours = {file.path for file in files}
    return _Difference(
        upload=tuple(sorted(file.path for file in files if not _same(file, remote.get(file.path)))),
        delete=tuple(sorted(path for path in remote if _is_shard(path) and path not in ours)),
        remote=frozenset(remote),
    )


def _advice(status: int, repo_id: str) -> str | None:
    return {
        400: "the Hub refuses the request as malformed",
        401: "the Hub does not accept the token, or hides the dataset from it; log in again with "
        "`hf auth login`, or set HF_TOKEN to a token with write access",
        402: "the Hub asks for payment or more storage; see the billing page of the owner",
        403: f"the token may not write to {repo_id}; use one with write access to its owner",
        404: "the Hub has no such dataset or owner, or hides it from this token; check the name",
        409: "the Hub reports a conflict; wait for other uploads to end, then push again",
        412: "somebody else committed to it meanwhile; look at what they did, then push again",
        413: "the Hub says that the upload is too large",
        429: "the Hub says that there were too many requests; wait some minutes, then push again",
    }.get(status)


def _explained(error: Exception, repo_id: str, endpoint: str, token: str) -> AssayError:
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    for one in chain:
        if isinstance(one, OfflineModeIsEnabled):
            return AssayError("HF_HUB_OFFLINE is set, so nothing can be pushed; unset it and push again")
        if isinstance(one, HfHubHTTPError):
            status = one.response.status_code
            told = " ".join(str(one.server_message or "").split()).replace(token, "<token>")[:200]
            said = f" (HTTP {status}: {told})" if told else f" (HTTP {status})"
            advice = _advice(status, repo_id) or (
                "the Hub is out of order; push again later"
                if status >= 500
                else "the Hub refuses the request"
            )
            return AssayError(f"{repo_id}: {advice}{said}")
    names = {base.__name__ for one in chain for base in type(one).__mro__}
    # The client's own exceptions for a name that does not resolve, a refused or a lost connection.
    if names & {"TransportError", "ConnectionError", "TimeoutException"}:
        return AssayError(
            f"{endpoint}: cannot be reached; check the network and HF_ENDPOINT, then push again"
        )
    told = " ".join(f"{type(chain[-1]).__name__}: {chain[-1]}".split()).replace(token, "<token>")[:300]
    return AssayError(f"{repo_id}: the upload failed ({told}); what arrived is kept, push again")


@contextlib.contextmanager
def _explaining(repo_id: str, endpoint: str, token: str) -> Iterator[None]:
    """Turn whatever a call to the Hub raises into one line for a person, without its token."""
    try:
        yield
    except AssayError:
        raise
    except Exception as error:
        raise _explained(error, repo_id, endpoint, token) from None


def _token(given: str | None) -> str:
    from huggingface_hub import get_token

    try:
        token = (given if given is not None else get_token()) or ""
    except Exception as error:
        raise AssayError(f"the Hugging Face token cannot be read ({type(error).__name__})") from None
    token = token.strip()
    if not token:
        raise AssayError(
            "no Hugging Face token; log in with `hf auth login`, or set HF_TOKEN to a token with write access"
        )
    if not re.fullmatch(r"[!-~]+", token):
        raise AssayError("the Hugging Face token holds a character that no token has; set HF_TOKEN again")
    return token


def _message(found: Contents) -> str:
    counts = []
    for table, splits in found.rows.items():
        each = ", ".join(f"{rows:,} {split}" for split, rows in splits.items())
        counts.append(f"{sum(splits.values()):,} {table} ({each})")
    return "Publish " + ", ".join(counts)


def publish(
    run: RunDir,
    repo_id: str,
    *,
    private: bool,
    tag: str | None,
    token: str | None = None,
    endpoint: str | None = None,
    reasons: Mapping[str, Mapping[str, str]] | None = None,
) -> PublishResult:
    """Make a dataset on the Hub hold what a run published, verify it, and tag it.

    The caller holds the run directory's lock.

    Args:
        run: the run directory.
        repo_id: `owner/name`; the dataset is made when there is none.
        private: make it private. An existing public one is refused, an existing private one stays so.
        tag: name to give the commit; a tag of that name at another commit is an error.
        token: access token; the saved or HF_TOKEN's one when None.
        endpoint: address of the Hub; huggingface_hub's own (HF_ENDPOINT) when None.
        reasons: see `dataset_card`.

    Raises:
        AssayError: see the head of this module.
    """
    check_names(repo_id, tag)
    secret = _token(token)
    found = contents(run, repo_id, reasons)
    from huggingface_hub import HfApi

    api = HfApi(endpoint=endpoint, token=secret)
    with _staged(run, found) as (folder, files), _explaining(repo_id, api.endpoint, secret):
        return _publish(api, repo_id, private, tag, found, folder, files)


def _publish(
    api: HfApi,
    repo_id: str,
    private: bool,
    tag: str | None,
    found: Contents,
    folder: Path,
    files: list[PublishedFile],
) -> PublishResult:
    # Without --private an organisation's own default holds, which may be private.
    api.create_repo(repo_id, repo_type="dataset", private=private or None, exist_ok=True)
    info = api.repo_info(repo_id, repo_type="dataset")
    head = str(info.sha)
    if private and not info.private:
        raise AssayError(
            f"{repo_id}: is there already and public; make it private in its settings, "
            "or push without --private"
        )
    todo = _difference(api, repo_id, head, files)
    foreign = sorted(
        path
        for path in todo.remote
        if not _is_shard(path) and not any(fnmatch.fnmatchcase(path, name) for name in _HARMLESS)
    )
    if RECIPE not in todo.remote and foreign:
        raise AssayError(
            f"{repo_id}: holds files that assay did not push ({len(foreign)}, first {foreign[0]!r}); "
            "give another REPO_ID"
        )
    refs = api.list_repo_refs(repo_id, repo_type="dataset") if tag else None
    tagged = {ref.name: ref.target_commit for ref in refs.tags}.get(str(tag)) if refs else None
    if tagged is not None and (todo or tagged != head):
        raise AssayError(
            f"{repo_id}: tag {tag} stands at another commit already ({tagged[:12]}); nothing was pushed, "
            "give another --tag"
        )
    if todo:
        done = api.upload_folder(
            repo_id=repo_id,
            repo_type="dataset",
            folder_path=folder,
            commit_message=_message(found),
            delete_patterns=list(_SHARDS),
            parent_commit=head,
        )
        head = str(done.oid)
        if left := _difference(api, repo_id, head, files):
            first = (*left.upload, *left.delete)[0]
            raise AssayError(
                f"{repo_id}: after the upload the Hub holds other bytes than the run "
                f"({len(left.upload) + len(left.delete)} files, first {first}); push again"
            )
    if tag and tagged is None:
        api.create_tag(repo_id, tag=tag, revision=head, repo_type="dataset")
    return PublishResult(
        repo_id=repo_id,
        url=f"{api.endpoint}/datasets/{repo_id}",
        commit=head,
        private=bool(info.private),
        uploaded=todo.upload,
        deleted=todo.delete,
        unchanged=len(files) - len(todo.upload),
        bytes=found.bytes,
        rows=found.rows,
        tag=tag,
    )
