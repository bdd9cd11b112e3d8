"""Datasets on the Hub: their rows come into the cache once, and are read there like any file.

    hub:OWNER/NAME[:CONFIG[:SPLIT]][@REVISION]    rows through `datasets`, streamed
    hub:OWNER/NAME/FILE[@REVISION]                one file as it is, such as a .jsonl of a set with a script
    hub:./FOLDER[:CONFIG[:SPLIT]]                 a folder that `datasets` can load; a path with a / first

A revision is a branch, a tag or a commit; it is resolved to its commit first, so what was fetched stays
what it was. Code of a dataset is never run. No more rows than wanted are read, and no more bytes than
the setting `hub_max_gb`. Whatever goes wrong (no network, no such dataset, split or file, a full disk) is an
`AssayError` of one line, and leaves no half of a file. `datasets` and `huggingface_hub` are imported when
they are needed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from miner.config import FetchConfig
from miner.importers.fields import BadRow
from miner.importers.lines import shown
from miner.importers.rows import class_names, name_classes, object_line
from miner.sources import cache_folder
from schemas.errors import AssayError, environment_fault
from schemas.ids import content_id, digest_json

PREFIX = "hub:"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FILES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")
_HOW = "give it as hub:OWNER/NAME[/FILE][:CONFIG[:SPLIT]][@REVISION], such as hub:evalplus/mbppplus::test"


class HubBounds(Protocol):
    """The setting that bounds what is fetched."""

    @property
    def hub_max_gb(self) -> int:
        """GiB of one dataset."""


@dataclasses.dataclass(frozen=True)
class HubSource:
    """A dataset, or one file of it.

    Attributes:
        dataset: `owner/name`, or the path of a folder.
        file: path of a file in it; empty for the rows that `datasets` makes of it.
        config: name of a configuration; empty for the only or default one.
        split: name of a split; empty for the only one.
        revision: as given.
        local: it is a folder of this machine.
    """

    dataset: str
    file: str
    config: str
    split: str
    revision: str
    local: bool

    @property
    def name(self) -> str:
        """What rows are told to come from: without the revision, since a row's id hangs on it."""
        dataset = shown(Path(self.dataset).resolve().name) if self.local else self.dataset
        parts = [f"{dataset}/{self.file}" if self.file else dataset, self.config, self.split]
        return ":".join(parts).rstrip(":")


def is_hub(given: str | Path) -> bool:
    """Whether a source names a dataset."""
    return str(given).startswith(PREFIX)


def parse_hub(given: str) -> HubSource:
    """What a source that begins with `hub:` names.

    Raises:
        AssayError: it is not of a known form.
    """
    text = given.removeprefix(PREFIX)
    local = text.startswith(("/", "./", "../", "~"))
    revision = ""
    if not local:
        text, at, revision = text.partition("@")
        if at and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", revision):
            raise AssayError(f"{given}: {revision!r} is no revision; {_HOW}")
    dataset, config, split, *more = [*text.split(":"), "", ""]
    if any(more):
        raise AssayError(f"{given}: has too many parts; {_HOW}")
    owner_name, file = dataset, ""
    if not local:
        owner_name = "/".join(dataset.split("/")[:2])
        file = dataset[len(owner_name) + 1 :]
        if not _ID.fullmatch(owner_name) or ".." in dataset:
            raise AssayError(f"{given}: not a dataset; {_HOW}")
        if file and (config or split or not file.lower().endswith(_FILES)):
            raise AssayError(f"{given}: a file is one of {', '.join(_FILES)}, and has no config or split")
    return HubSource(owner_name, file, config, split, revision, local)


def fetched(
    source: HubSource, config: HubBounds, limit: int | None, classes: Sequence[str] = ()
) -> tuple[Path, str]:
    """(file, revision): a dataset's rows, at most `limit` of them, as a file of the cache. In the columns
    `classes` names of classes stand in place of their numbers.

    Raises:
        AssayError: they cannot be had.
    """
    with _told(source):
        revision = _revision(source)
        if source.file:
            return _downloaded(source, revision, config.hub_max_gb << 30), revision
        facts = [source.dataset, source.config, source.split, revision, limit, *classes]
        folder = cache_folder(FetchConfig()).parent / "datasets"
        stem = re.sub(r"[^A-Za-z0-9._]+", "-", source.name).strip("-.")[:60]
        path = folder / f"{stem}-{digest_json(facts)[:16]}.jsonl"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _write(path, _rows(source, revision, classes), limit, config.hub_max_gb << 30, source)
        return path, revision


@contextlib.contextmanager
def _told(source: HubSource) -> Iterator[None]:
    """Tell in one line what the libraries raise, which is of every kind."""
    try:
        yield
    except AssayError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and (fault := environment_fault(error)) is not None:
            raise fault from None
        why = " ".join(str(error).split())[:300] or type(error).__name__
        raise AssayError(f"{PREFIX}{source.name}: cannot be had ({why})") from None


def _revision(source: HubSource) -> str:
    """The commit that is read; of a folder, a digest of its files' names, sizes and times."""
    if source.local:
        root = Path(source.dataset).expanduser()
        if not root.is_dir():
            raise AssayError(f"{PREFIX}{source.dataset}: no such folder")
        files = [
            (shown(str(one.relative_to(root))), one.stat())
            for one in sorted(root.rglob("*"))
            if one.is_file()
        ]
        facts = [(name, found.st_size, found.st_mtime_ns) for name, found in files]
        return content_id(str(root.resolve()).encode("utf-8", "surrogateescape"), digest_json(facts))
    if _COMMIT.fullmatch(source.revision):
        return source.revision
    from huggingface_hub import HfApi

    found = HfApi().dataset_info(source.dataset, revision=source.revision or None, timeout=60).sha
    if found is None:
        raise AssayError(f"{PREFIX}{source.name}: the Hub does not say which commit it is; give one with @")
    return found


def _downloaded(source: HubSource, revision: str, max_bytes: int) -> Path:
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    found = HfApi().get_paths_info(source.dataset, [source.file], repo_type="dataset", revision=revision)
    sizes = [size for one in found if (size := getattr(one, "size", None)) is not None]
    if not sizes:
        raise AssayError(f"{PREFIX}{source.name}: no such file in the dataset at {revision[:12]}")
    if sizes[0] > max_bytes:
        raise AssayError(f"{PREFIX}{source.name}: larger than the setting hub_max_gb allows")
    disable_progress_bars()
    return Path(hf_hub_download(source.dataset, source.file, repo_type="dataset", revision=revision))


def _rows(source: HubSource, revision: str, classes: Sequence[str]) -> Iterator[dict[str, Any]]:
    import datasets

    place = str(Path(source.dataset).expanduser()) if source.local else source.dataset
    pinned = {} if source.local else {"revision": revision}
    config, split = source.config or None, source.split
    if not split:
        names = datasets.get_dataset_split_names(place, config, **pinned)
        if len(names) != 1:
            raise AssayError(
                f"{PREFIX}{source.name}: has the splits {', '.join(map(str, names))}; name one as in "
                f"{PREFIX}{source.dataset}:{source.config}:{names[0] if names else 'test'}"
            )
        split = names[0]
    # Values of images and the like would be decoded by libraries that trust them.
    found = datasets.load_dataset(place, config, split=split, streaming=True, **pinned).decode(False)
    features = found.features.to_dict() if found.features is not None else {}
    known = {column: names for column in classes if (names := class_names(features.get(column)))}
    for row in found:
        name_classes(row, known)
        yield row


def _write(
    path: Path, rows: Iterator[dict[str, Any]], limit: int | None, max_bytes: int, source: HubSource
) -> None:
    """Write rows as JSON lines under another name, then give the file its own."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    written = count = 0
    try:
        with unfinished.open("wb") as file:
            while limit is None or count < limit:
                row = next(rows, None)
                if row is None:
                    break
                try:
                    line = object_line(row)
                except BadRow:
                    line = b"null"  # counted as a row that is none
                count, written = count + 1, written + len(line) + 1
                if written > max_bytes:
                    raise AssayError(
                        f"{PREFIX}{source.name}: more than the setting hub_max_gb allows; take fewer rows "
                        "with --limit, or allow more"
                    )
                file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
