"""Bringing a dataset that `assay push` published back into a run directory.

In: `owner/name`, and a tag, branch or commit. `listing` asks the Hub what is there and what the digests are;
`bring` downloads into a run directory whose lock the caller holds. Out: the shards under
`<table>/<split>/part-*.parquet`, each with a sidecar made anew, `recipe.toml`, and in `pulled/` the card and
`pull.json`, which says where all this is from.

Every file's size and digest is compared with the Hub's before it takes its place; a shard's columns and
splits are looked at too. A file that is in place and has the digest is not sent again, so the same command
after an interruption goes on with the file that it stopped in. Nothing is overwritten.

What was not published cannot be known: sidecars say stage `pull`, since neither the task keys nor the
accounting of the stages that made the rows are there; edits, verdicts and labels stay where they were made.

Errors: `AssayError` of one line, without the token: no such dataset, not one of ours, of another version, a
file that is not what the Hub says it is, a run that holds other rows, a network that is down.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas import shards
from schemas.card_text import UNSEEN
from schemas.declare import schema_of
from schemas.errors import AssayError, RunDirError, ShardError
from schemas.hub import CARD, check_names, fits, token_of
from schemas.hub_datasets import DATASET, RECIPE
from schemas.ids import digest_json
from schemas.records import TABLES
from schemas.rundir import RunDir

STAGE = "pull"
FACTS = Path("pulled", "pull.json")
_STAGING = ".pull"
_PLACE = re.compile(r"[a-z]+/[a-z]+/part-([A-Za-z0-9._-]{1,200})\.parquet")
# A card and a recipe are some kilobytes.
_MAX_TEXT = 16 << 20

UNKNOWN = (
    "tables that are not published (edits, verdicts, labels and so on)",
    "what the stages dropped, but for the counts on the card",
    "the code and task keys that the rows were made under",
)
"""What a dataset does not tell of the run that it was pushed from."""


@dataclasses.dataclass(frozen=True)
class RemoteFile:
    """A file on the Hub: its size, and its SHA-256, or git's object id when it is no large file."""

    path: str
    size: int
    sha256: str | None
    blob: str


@dataclasses.dataclass(frozen=True)
class Listing:
    """What a dataset holds at one commit: the files of ours, `others` left out."""

    repo_id: str
    revision: str | None
    commit: str
    url: str
    endpoint: str
    token: str | None = dataclasses.field(repr=False)
    files: tuple[RemoteFile, ...]
    others: int

    @property
    def shards(self) -> tuple[RemoteFile, ...]:
        """The files with rows."""
        return tuple(file for file in self.files if file.path not in (CARD, RECIPE))


@dataclasses.dataclass(frozen=True)
class PullResult:
    """What was done.

    Attributes:
        repo_id: the dataset.
        url: its page.
        commit: object id of the commit that the files are of.
        revision: what was asked for; None for the newest.
        downloaded: paths that were brought.
        unchanged: files that were in place already.
        others: files on the Hub that are not assay's, left there.
        bytes: size of all files.
        rows: table -> split -> rows.
    """

    repo_id: str
    url: str
    commit: str
    revision: str | None
    downloaded: tuple[str, ...]
    unchanged: int
    others: int
    bytes: int
    rows: dict[str, dict[str, int]]


def _explained(error: Exception, repo_id: str, endpoint: str, token: str | None) -> AssayError:
    """Whatever a call to the Hub raised, as one line for a person, without the token."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    def told(text: object, most: int) -> str:
        line = UNSEEN.sub("?", " ".join(str(text).split()))
        return (line.replace(token, "<token>") if token else line)[:most]

    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    for one in chain:
        if isinstance(one, OfflineModeIsEnabled):
            return AssayError("HF_HUB_OFFLINE is set, so nothing can be pulled; unset it and pull again")
        if isinstance(one, HfHubHTTPError):
            status = one.response.status_code
            code = one.response.headers.get("X-Error-Code", "")
            advice = {
                401: "the Hub does not accept the token, or has no such dataset; check the name, log in with "
                "`hf auth login`, or set HF_TOKEN",
                403: "the Hub lets nobody in without leave; ask for access on its page",
                404: "the Hub has no such revision of it; give another --revision"
                if code == "RevisionNotFound"
                else "the Hub has no such dataset, or hides it from this token; check the name",
                429: "the Hub says that there were too many requests; wait some minutes, then pull again",
            }.get(status, "the Hub is out of order; pull again later" if status >= 500 else "the Hub refuses")
            return AssayError(f"{repo_id}: {advice} (HTTP {status}: {told(one.server_message or code, 200)})")
    names = {base.__name__ for one in chain for base in type(one).__mro__}
    if names & {"TransportError", "ConnectionError", "TimeoutException"}:
        return AssayError(
            f"{endpoint}: cannot be reached; check the network and HF_ENDPOINT, then pull again, which goes "
            "on where this stopped"
        )
    why = told(f"{type(chain[-1]).__name__}: {chain[-1]}", 300)
    return AssayError(f"{repo_id}: the download failed ({why}); what arrived is kept, pull again")


def _token(given: str | None) -> str | None:
    """The token, or None where there is none: public datasets want none."""
    from huggingface_hub import get_token

    return token_of(given) if given or get_token() else None


def listing(
    repo_id: str, revision: str | None = None, *, token: str | None = None, endpoint: str | None = None
) -> Listing:
    """Ask the Hub what a dataset holds.

    Args:
        repo_id: `owner/name`.
        revision: tag, branch or commit; the newest of the main branch when None.
        token: access token; the saved or HF_TOKEN's one, if any, when None.
        endpoint: address of the Hub; huggingface_hub's own (HF_ENDPOINT) when None.

    Raises:
        AssayError: see the head of this module.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    check_names(repo_id, DATASET, revision)
    secret = _token(token)
    api = HfApi(endpoint=endpoint, token=secret or False)
    try:
        info = api.repo_info(repo_id, repo_type=DATASET.type, revision=revision)
        commit = str(info.sha)
        tree = api.list_repo_tree(repo_id, recursive=True, revision=commit, repo_type=DATASET.type)
        entries = [entry for entry in tree if isinstance(entry, RepoFile)]
    except Exception as error:
        raise _explained(error, repo_id, api.endpoint, secret) from None
    known = (*DATASET.owned, *DATASET.marks, CARD)
    files = [
        RemoteFile(one.path, one.size, one.lfs.sha256 if one.lfs else None, one.blob_id)
        for one in entries
        if fits(one.path, known)
    ]
    found = Listing(
        repo_id=repo_id,
        revision=revision,
        commit=commit,
        url=f"{api.endpoint}/datasets/{repo_id}",
        endpoint=api.endpoint,
        token=secret,
        files=tuple(sorted(files, key=lambda one: one.path)),
        others=sum(not fits(one.path, (*known, ".git*")) for one in entries),
    )
    _check_ours(found)
    return found


def _check_ours(found: Listing) -> None:
    paths = {file.path for file in found.files}
    if not paths >= set(DATASET.marks) or not found.shards:
        raise AssayError(
            f"{found.repo_id}: not a dataset that assay pushed (no {RECIPE}, or no "
            "<table>/<split>/part-*.parquet); `assay preferences` and `assay trajectories` import others"
        )
    for file in found.files:
        if file in found.shards and not _PLACE.fullmatch(file.path):
            raise AssayError(f"{found.repo_id}: {file.path!r} is not the name of a shard; nothing was pulled")
        if file not in found.shards and file.size > _MAX_TEXT:
            raise AssayError(f"{found.repo_id}: {file.path} holds {file.size:,} bytes; nothing was pulled")


def _is(path: Path, file: RemoteFile) -> bool:
    """Whether a local file has the bytes that the Hub tells of."""
    try:
        if path.is_symlink() or path.stat().st_size != file.size:
            return False
        if file.sha256 is not None:
            return shards.file_sha256(path) == file.sha256
        with path.open("rb") as handle:
            state = hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
            while block := handle.read(1 << 20):
                state.update(block)
    except OSError:
        return False
    return state.hexdigest() == file.blob


def _holds(run: RunDir) -> Iterator[Path]:
    """Every shard of a run that has rows, or of which that is not known."""
    for path in sorted(run.root.rglob("part-*.parquet")):
        if path.relative_to(run.root).parts[0] not in TABLES:
            continue
        try:
            rows = shards.read_sidecar(path).rows
        except ShardError:
            rows = 1
        if rows:
            yield path


def _refuse_others(run: RunDir, found: Listing, missing: list[RemoteFile]) -> None:
    """Refuse a run whose rows or settings are not the dataset's."""
    ours = {run.root / file.path for file in found.shards}
    wrong = [run.root / file.path for file in missing if (run.root / file.path).exists()]
    held = [path for path in _holds(run) if path not in ours]
    # Rows that are not published, such as edits, are no hindrance to the run that the dataset is from.
    own = [path for path in held if fits(path.relative_to(run.root).as_posix(), DATASET.owned)]
    others = wrong or (held if missing else own)
    if others:
        raise RunDirError(
            f"{run.root}: holds other rows than {found.repo_id} at {found.commit[:12]} "
            f"({others[0].relative_to(run.root)}); give another --run-dir"
        )


def _fetched(found: Listing, file: RemoteFile, staging: Path) -> Path:
    """Download a file beside the run and compare it with what the Hub says of it."""
    from huggingface_hub import hf_hub_download

    place = staging / file.path
    if _is(place, file):
        return place
    try:
        hf_hub_download(
            found.repo_id,
            file.path,
            repo_type=DATASET.type,
            revision=found.commit,
            local_dir=staging,
            token=found.token or False,
            endpoint=found.endpoint,
            force_download=True,
        )
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
            raise
        raise _explained(error, found.repo_id, found.endpoint, found.token) from None
    if not _is(place, file):
        place.unlink(missing_ok=True)
        raise AssayError(
            f"{found.repo_id}: {file.path} arrived with other bytes than the Hub's listing says; pull again"
        )
    return place


def _rows_of(found: Listing, path: Path, place: str) -> int:
    """Number of rows of a shard that has the columns of this version and one split.

    Raises:
        AssayError: it has not.
    """
    table, split, _ = place.split("/")
    record: type = TABLES[table]
    where = f"{found.repo_id}: {place}"
    rows = 0
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(schema_of(record)):
                raise AssayError(
                    f"{where} has not the columns of {table} of this version; pull with the version of assay "
                    "that pushed it"
                )
            for batch in file.iter_batches(columns=["split"]):
                rows += len(batch)
                if pc.unique(batch["split"]).to_pylist() != [split]:
                    raise AssayError(f"{where} holds rows of another split; assay did not push it so")
    except (OSError, pa.ArrowException) as error:
        raise AssayError(
            f"{where} cannot be read as Parquet ({' '.join(str(error).split())[:200]})"
        ) from None
    return rows


def _write_sidecar(found: Listing, path: Path, file: RemoteFile, rows: int) -> None:
    table, split, _ = file.path.split("/")
    named = _PLACE.fullmatch(file.path)
    digest = shards.file_sha256(path)
    sidecar = shards.Sidecar(
        table=table,
        split=split,
        stage=STAGE,
        unit=named[1] if named else "",
        key=digest_json([STAGE, file.path, digest]),
        rows=rows,
        bytes=file.size,
        sha256=digest,
        schema=shards.schema_digest(TABLES[table]),
        # What this stage did: it considered these rows and kept them.
        accounting=shards.Accounting(rows, rows, {}),
        inputs={f"{found.repo_id}@{found.commit}": digest},
    )
    shards.write_sidecar(path, sidecar)


def _check_recipe(found: Listing, path: Path) -> None:
    try:
        tomllib.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise AssayError(
            f"{found.repo_id}: its {RECIPE} is not TOML ({error}), so no command could run on it"
        ) from None


def bring(run: RunDir, found: Listing) -> PullResult:
    """Make a run hold what a dataset holds. The caller holds the run directory's lock.

    Raises:
        AssayError: see the head of this module. What has been compared by then stays.
    """
    staging = run.root / _STAGING
    missing = [file for file in found.shards if not _is(run.root / file.path, file)]
    _refuse_others(run, found, missing)
    recipe = next(file for file in found.files if file.path == RECIPE)
    home = run.root / RECIPE
    if missing and home.exists() and not _is(home, recipe):
        raise RunDirError(f"{run.root}: holds another {RECIPE}; give another --run-dir")
    size = sum(file.size for file in missing)
    if size > (free := shutil.disk_usage(run.root).free):
        raise AssayError(
            f"{run.root}: {size:,} bytes are to come and {free:,} are free; give another --run-dir"
        )
    brought, rows = [], dict[str, dict[str, int]]()
    shutil.rmtree(staging / ".cache", ignore_errors=True)
    for file in found.shards:
        place = run.root / file.path
        if file in missing:
            arrived = _fetched(found, file, staging)
            _rows_of(found, arrived, file.path)
            place.parent.mkdir(parents=True, exist_ok=True)
            arrived.replace(place)
            brought.append(file.path)
        digest = file.sha256 or shards.file_sha256(place)
        try:
            sidecar = shards.read_sidecar(place)
        except ShardError:
            sidecar = None
        if sidecar is None or sidecar.sha256 != digest:
            many = _rows_of(found, place, file.path)
            _write_sidecar(found, place, file, many)
        else:
            many = sidecar.rows
        table, split, _ = file.path.split("/")
        splits = rows.setdefault(table, {})
        splits[split] = splits.get(split, 0) + many
    brought += _texts(run, found, recipe, staging, rows)
    shutil.rmtree(staging, ignore_errors=True)
    return PullResult(
        repo_id=found.repo_id,
        url=found.url,
        commit=found.commit,
        revision=found.revision,
        downloaded=tuple(brought),
        unchanged=len(found.files) - len(brought),
        others=found.others,
        bytes=sum(file.size for file in found.files),
        rows=rows,
    )


def _texts(
    run: RunDir, found: Listing, recipe: RemoteFile, staging: Path, rows: dict[str, dict[str, int]]
) -> list[str]:
    """Bring the recipe and the card, and write down where the run is from, unless it is the one pushed."""
    brought = []
    mine = any(shards.read_sidecar(run.root / file.path).stage != STAGE for file in found.shards)
    if not (run.root / RECIPE).exists():
        arrived = _fetched(found, recipe, staging)
        _check_recipe(found, arrived)
        arrived.replace(run.root / RECIPE)
        brought.append(RECIPE)
    if mine:
        return brought
    facts: dict[str, Any] = {
        "repo_id": found.repo_id,
        "url": found.url,
        "commit": found.commit,
        "revision": found.revision,
        "rows": rows,
        "unknown": list(UNKNOWN),
    }
    folder = (run.root / FACTS).parent
    folder.mkdir(exist_ok=True)
    for file in found.files:
        if file.path == CARD and not _is(folder / CARD, file):
            _fetched(found, file, staging).replace(folder / CARD)
            brought.append(CARD)
    shards.write_text(run.root / FACTS, json.dumps(facts, indent=1, sort_keys=True) + "\n")
    return brought


def read_facts(run: RunDir) -> dict[str, Any] | None:
    """Where a run was pulled from; None when it was not, or the file that says so is damaged."""
    try:
        found = json.loads((run.root / FACTS).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and {"repo_id", "commit"} <= found.keys() else None
