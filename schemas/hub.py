"""Making a repository on the Hugging Face Hub hold some files and nothing of an earlier push.

In: `Contents`, which are files as they are and texts made for publication, and `owner/name`.
`schemas.hub_datasets` makes them of a run, `schemas.hub_models` of a trained model. Out: a commit there, read
back and compared, then tagged when asked. When the Hub holds the same files already, nothing is sent.

All goes up or an error tells why not: files on the Hub that are not from assay, a tag that is taken, a
token that is missing or refused, a network that is down. Each is an `AssayError` of one line; a token never
appears in one. An upload is one commit. Only one of more than 256 files of a dataset may take several, so a
reader of the main branch may see a part of it meanwhile; running the same command again completes it.

huggingface_hub is imported by the functions that talk to it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import glob
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.errors import AssayError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

CARD = "README.md"
# What the client and the Hub take in one commit without trouble.
_COMMIT_FILES = 256
# What a repository made on the website starts with; anything else is somebody's data.
_HARMLESS = (".gitattributes", ".gitignore", CARD, "LICENSE*")
_REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is published.

    Attributes:
        type: the Hub's name for such a repository.
        source: what it is made from, as errors call it.
        owned: patterns of paths that a push deletes when it does not make them; `*` stays in a folder.
        marks: files that tell, when all are there, that assay pushed the others.
        several: whether an upload may take several commits, so that one that was cut short left owned files
            without marks.
    """

    type: str
    source: str
    owned: tuple[str, ...]
    marks: tuple[str, ...]
    several: bool


@dataclasses.dataclass(frozen=True)
class PublishedFile:
    """A file to publish: its place in the repository, where its bytes are, and what they are."""

    path: str
    local: Path
    size: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Contents:
    """All that is published.

    Attributes:
        kind: dataset or model.
        files: those that go up as they are.
        texts: path -> text of those that are made for it, without paths of the machine.
        title: of the commit.
        rows: of a dataset, table -> split -> rows.
        model: of a model, facts about it.
    """

    kind: Kind
    files: tuple[PublishedFile, ...]
    texts: dict[str, str]
    title: str
    rows: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    model: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def card(self) -> str:
        """Text of README.md."""
        return self.texts[CARD]

    @property
    def sizes(self) -> dict[str, int]:
        """Path -> bytes of every file, those made for it first."""
        made = {path: len(text.encode()) for path, text in self.texts.items()}
        return {**made, **{file.path: file.size for file in self.files}}

    @property
    def bytes(self) -> int:
        """Size of all files together."""
        return sum(self.sizes.values())


@dataclasses.dataclass(frozen=True)
class PublishResult:
    """What was done.

    Attributes:
        repo_id: the repository.
        url: its page.
        commit: object id of the commit that holds what was published.
        private: whether only its owners see it.
        uploaded: paths that were new or had other bytes.
        deleted: paths of earlier files that are no longer published.
        unchanged: number of files that the Hub held already.
        bytes: size of all published files.
        tag: the tag that stands at `commit`, when one was asked for.
        rows: see `Contents`.
        model: see `Contents`.
    """

    repo_id: str
    url: str
    commit: str
    private: bool
    uploaded: tuple[str, ...]
    deleted: tuple[str, ...]
    unchanged: int
    bytes: int
    tag: str | None
    rows: dict[str, dict[str, int]]
    model: dict[str, Any]

    @property
    def changed(self) -> bool:
        """Whether anything was sent; a tag alone is not a change."""
        return bool(self.uploaded or self.deleted)


def check_names(repo_id: str, kind: Kind, tag: str | None = None) -> None:
    """Refuse a repository's id or a tag that the Hub would not take.

    Raises:
        AssayError: it is not of the form `owner/name`, or not a tag's name.
    """
    if (
        not _REPO_ID.fullmatch(repo_id)
        or re.search(r"--|\.\.|[.-](/|$)|\.git$", repo_id)
        or len(repo_id) > 96
    ):
        raise AssayError(
            f"{repo_id!r}: not a {kind.type} id; give it as OWNER/NAME, such as my-org/my-{kind.type}"
        )
    if tag is not None and (not _TAG.fullmatch(tag) or re.search(r"\.\.|\.lock$|\.$", tag)):
        raise AssayError(f"{tag!r}: not a tag; give letters, digits, '.', '_' and '-', such as v1.0")


@contextlib.contextmanager
def staged(folder: Path, found: Contents) -> Iterator[list[PublishedFile]]:
    """Make a folder with exactly the files to publish, and remove it afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        files = []
        for file in found.files:
            place, source = folder / file.path, file.local.resolve()
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                # A hard link keeps the bytes that were checked, even if the file is replaced.
                os.link(source, place)
            except OSError:
                place.symlink_to(source)
            files.append(dataclasses.replace(file, local=place))
        for name, text in found.texts.items():
            place, data = folder / name, text.encode()
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            files.append(PublishedFile(name, place, len(data), hashlib.sha256(data).hexdigest()))
        yield files
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


def fits(path: str, patterns: Iterable[str]) -> bool:
    """Whether a path is one of some patterns, whose `*` stays within a folder."""
    return any(
        path.count("/") == pattern.count("/") and fnmatch.fnmatchcase(path, pattern) for pattern in patterns
    )


@dataclasses.dataclass(frozen=True)
class _Difference:
    """What a revision on the Hub lacks, or has other bytes for, and what it has too much."""

    upload: tuple[str, ...]
    delete: tuple[str, ...]
    remote: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.upload or self.delete)


def _difference(
    api: HfApi, repo_id: str, revision: str, kind: Kind, files: list[PublishedFile]
) -> _Difference:
    from huggingface_hub.hf_api import RepoFile

    tree = api.list_repo_tree(repo_id, recursive=True, revision=revision, repo_type=kind.type)
    remote = {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}
    ours = {file.path for file in files}
    return _Difference(
        upload=tuple(sorted(file.path for file in files if not _same(file, remote.get(file.path)))),
        delete=tuple(sorted(path for path in remote if fits(path, kind.owned) and path not in ours)),
        remote=frozenset(remote),
    )


def _advice(status: int, repo_id: str, kind: Kind) -> str | None:
    return {
        400: "the Hub refuses the request as malformed",
        401: f"the Hub does not accept the token, or hides the {kind.type} from it; log in again with "
        "`hf auth login`, or set HF_TOKEN to a token with write access",
        402: "the Hub asks for payment or more storage; see the billing page of the owner",
        403: f"the token may not write to {repo_id}; use one with write access to its owner",
        404: f"the Hub has no such {kind.type} or owner, or hides it from this token; check the name",
        409: "the Hub reports a conflict; wait for other uploads to end, then push again",
        412: "somebody else committed to it meanwhile; look at what they did, then push again",
        413: "the Hub says that the upload is too large",
        429: "the Hub says that there were too many requests; wait some minutes, then push again",
    }.get(status)


def _explained(error: Exception, repo_id: str, kind: Kind, endpoint: str, token: str) -> AssayError:
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
            advice = _advice(status, repo_id, kind) or (
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
def _explaining(repo_id: str, kind: Kind, endpoint: str, token: str) -> Iterator[None]:
    """Turn whatever a call to the Hub raises into one line for a person, without its token."""
    try:
        yield
    except AssayError:
        raise
    except Exception as error:
        raise _explained(error, repo_id, kind, endpoint, token) from None


def token_of(given: str | None) -> str:
    """The token given, else the saved or HF_TOKEN's one.

    Raises:
        AssayError: there is none, or it cannot be one.
    """
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


def send(
    found: Contents,
    folder: Path,
    files: list[PublishedFile],
    repo_id: str,
    *,
    private: bool,
    tag: str | None,
    token: str,
    endpoint: str | None,
) -> PublishResult:
    """Make a repository hold the `files` of a `staged` folder, verify it, and tag it.

    Args:
        found: what is published.
        folder: the staged folder.
        files: what is in it.
        repo_id: `owner/name`; the repository is made when there is none.
        private: make it private. An existing public one is refused, an existing private one stays so.
        tag: name to give the commit; a tag of that name at another commit is an error.
        token: access token, see `token_of`.
        endpoint: address of the Hub; huggingface_hub's own (HF_ENDPOINT) when None.

    Raises:
        AssayError: see the head of this module.
    """
    from huggingface_hub import HfApi

    api = HfApi(endpoint=endpoint, token=token)
    with _explaining(repo_id, found.kind, api.endpoint, token):
        return _send(api, found, folder, files, repo_id, private, tag)


def _send(
    api: HfApi,
    found: Contents,
    folder: Path,
    files: list[PublishedFile],
    repo_id: str,
    private: bool,
    tag: str | None,
) -> PublishResult:
    kind = found.kind
    # Without --private an organisation's own default holds, which may be private.
    api.create_repo(repo_id, repo_type=kind.type, private=private or None, exist_ok=True)
    info = api.repo_info(repo_id, repo_type=kind.type)
    head = str(info.sha)
    if private and not info.private:
        raise AssayError(
            f"{repo_id}: is there already and public; make it private in its settings, "
            "or push without --private"
        )
    todo = _difference(api, repo_id, head, kind, files)
    _check_ours(todo.remote, repo_id, kind)
    refs = api.list_repo_refs(repo_id, repo_type=kind.type) if tag else None
    tagged = {ref.name: ref.target_commit for ref in refs.tags}.get(str(tag)) if refs else None
    if tagged is not None and (todo or tagged != head):
        raise AssayError(
            f"{repo_id}: tag {tag} stands at another commit already ({tagged[:12]}); nothing was pushed, "
            "give another --tag"
        )
    if todo:
        head = _commit(api, found, folder, files, repo_id, head, todo)
        if left := _difference(api, repo_id, head, kind, files):
            first = (*left.upload, *left.delete)[0]
            raise AssayError(
                f"{repo_id}: after the upload the Hub holds other bytes than the {kind.source} "
                f"({len(left.upload) + len(left.delete)} files, first {first}); push again"
            )
    if tag and tagged is None:
        api.create_tag(repo_id, tag=tag, revision=head, repo_type=kind.type)
    return PublishResult(
        repo_id=repo_id,
        url=f"{api.endpoint}/{'' if kind.type == 'model' else f'{kind.type}s/'}{repo_id}",
        commit=head,
        private=bool(info.private),
        uploaded=todo.upload,
        deleted=todo.delete,
        unchanged=len(files) - len(todo.upload),
        bytes=found.bytes,
        tag=tag,
        rows=found.rows,
        model=found.model,
    )


def _check_ours(remote: frozenset[str], repo_id: str, kind: Kind) -> None:
    """Refuse a repository that holds somebody else's files."""
    if remote.issuperset(kind.marks):
        return
    known = (*_HARMLESS, *(kind.owned if kind.several else ()))
    if foreign := sorted(path for path in remote if not fits(path, known)):
        raise AssayError(
            f"{repo_id}: holds files that assay did not push ({len(foreign)}, first {foreign[0]!r}); "
            "give another REPO_ID"
        )


def _commit(
    api: HfApi,
    found: Contents,
    folder: Path,
    files: list[PublishedFile],
    repo_id: str,
    head: str,
    todo: _Difference,
) -> str:
    """Upload on top of the commit `head`; returns the object id of the last commit that this made."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    where: dict[str, Any] = {"repo_id": repo_id, "repo_type": found.kind.type, "parent_commit": head}
    if found.kind.several and len(todo.upload) + len(todo.delete) > _COMMIT_FILES:
        gone = [glob.escape(path) for path in todo.delete]
        done = api.upload_folder(
            folder_path=folder, commit_message=found.title, delete_patterns=gone, **where
        )
        return str(done.oid)
    local = {file.path: file.local for file in files}
    changes: list[CommitOperationAdd | CommitOperationDelete] = [
        CommitOperationDelete(path) for path in todo.delete
    ]
    changes += [CommitOperationAdd(path, str(local[path])) for path in todo.upload]
    return str(api.create_commit(operations=changes, commit_message=found.title, **where).oid)
