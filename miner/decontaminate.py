"""The `decontaminate` stage: edits that hold the text of a benchmark go, so that a benchmark measures
what a model learned and not what it has seen.

In: a part of `edits`, what `dedup` kept of it, and the benchmarks' files (see `miner.benchmarks`). Out:
one verdict an edit that `dedup` kept.

An edit is contaminated when its message, old and new contents have `min_shared` distinct n-grams in common
with one row of a benchmark, or `min_share` of the row's when that is fewer (a short row). Not counted is
what identifies no row: n-grams of licence notices, and those in more than `common_files` of the run's own
files (GPT-3, Brown et al. 2020, appendix C, leaves out n-grams of more than 10 training documents). An
n-gram of several rows counts for the first of them.

The index is built once a worker: 12 bytes an n-gram and 2 to 4 of a bitmap. See `miner.ngrams`.
Without benchmarks every edit stays, with the mark `not_checked`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from miner.benchmarks import benchmark_files, benchmark_rows, check
from miner.common import Files, common, files_of, needed
from miner.config import DecontaminateConfig
from miner.importers.lines import shown
from miner.ngrams import BATCH_BYTES, Hashes, Lookup, grams, grouped
from schemas import shards
from schemas.errors import RunDirError, ShardError
from schemas.ids import digest_json
from schemas.records import Edit, Verdict
from schemas.rundir import RunDir
from schemas.stage import VERDICTS, WHOLE, Drop, Keep, Outcome, Unit
from schemas.verdicts import kept_of

STAGE = "decontaminate"
FACTS = "stages/benchmarks.json"
"""Where a run keeps what its benchmarks held."""

_COLUMNS = ("id", "message", "old_contents", "new_contents")
_PENDING = 1 << 21
_SHOWN = 120
"""Characters of shared words that a verdict shows."""


def plan_decontaminate(config: DecontaminateConfig, run: RunDir, limit: int | None = None) -> list[Unit]:
    """One unit a part of `edits`; it considers the edits that `dedup` kept.

    Raises:
        AssayError: a benchmark cannot be used.
        RunDirError: `mine` or `dedup` has not finished.
    """
    files = benchmark_files(config.benchmarks)
    for path in files:
        check(path, config.columns, config.max_row_bytes)
    parts = run.units_per_part("edits")
    verdicts = run.part_path("dedup", VERDICTS, WHOLE)
    try:
        decided = shards.read_sidecar(verdicts)
    except ShardError:
        raise RunDirError(f"{run.root}: no verdicts of dedup yet; run select and dedup first") from None
    shared = {"verdicts": decided.sha256}
    if files:
        told = [(shown(path.name), shards.file_sha256(path)) for path in files]
        shared["benchmarks"] = digest_json(told)
        # What is common is decided over all of the run's files.
        shared["files"] = digest_json([part.inputs["edits"] for part in parts])
    units, left = [], limit
    for part in parts:
        kept = len(kept_of(verdicts, "edits", run.root / part.payload["edits"]))
        rows = kept if left is None else min(left, kept)
        left = None if left is None else left - rows
        payload = {**part.payload, "verdicts": str(verdicts.relative_to(run.root)), "limit": rows}
        payload |= {"benchmarks": [str(path.absolute()) for path in files], "digest": digest_json(shared)}
        units.append(dataclasses.replace(part, rows=rows, payload=payload, inputs={**part.inputs, **shared}))
    return units


@dataclasses.dataclass(frozen=True)
class Index:
    """The n-grams of benchmarks.

    Attributes:
        lookup: the distinct ones that count.
        rows: for each, position of the first row that has it.
        needed: for each row, shared n-grams from which an edit is contaminated.
        sizes: for each row, its n-grams that count.
        places: for each row, (position of its file, number in it).
        files: the names of the files.
        facts: what the files held, for a person.
    """

    lookup: Lookup
    rows: npt.NDArray[np.int32]
    needed: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int32]
    places: npt.NDArray[np.int64]
    files: tuple[str, ...]
    facts: dict[str, Any]

    @property
    def nbytes(self) -> int:
        """Bytes of memory of what grows with the number of n-grams."""
        return self.lookup.nbytes + self.rows.nbytes


class _Growing:
    """Sorted distinct hashes, each with the first row that has it; memory for a bounded number of others."""

    def __init__(self) -> None:
        self.hashes: Hashes = np.empty(0, np.uint64)
        self.rows: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._pending: list[tuple[Hashes, npt.NDArray[np.int32]]] = []
        self._count = 0

    def add(self, hashes: Hashes, row: int) -> None:
        self._pending.append((hashes, np.full(len(hashes), row, np.int32)))
        self._count += len(hashes)
        if self._count > max(_PENDING, len(self.hashes) // 2):
            self.settle()

    def settle(self) -> None:
        hashes = np.concatenate([self.hashes, *(one for one, _ in self._pending)])
        rows = np.concatenate([self.rows, *(one for _, one in self._pending)])
        order = np.argsort(hashes, kind="stable")
        hashes, rows = hashes[order], rows[order]
        first = np.ones(len(hashes), bool)
        first[1:] = hashes[1:] != hashes[:-1]
        self.hashes, self.rows = hashes[first], rows[first]
        self._pending, self._count = [], 0


def build_index(config: DecontaminateConfig, files: Sequence[Path], own: Files | None) -> Index:
    """Read benchmarks into an index; `own` are the run's files, which tell what is common. With None nothing
    is left out as common, a licence notice neither.

    Raises:
        EnvironmentFault: a file cannot be read.
    """
    growing = _Growing()
    places: list[tuple[int, int]] = []
    told = []
    for at, path in enumerate(files):
        counts = {"rows": 0, "bad_rows": 0, "rows_too_short": 0}
        for number, texts in benchmark_rows(path, config.columns, config.max_row_bytes):
            counts["rows"] += 1
            if texts is None:
                counts["bad_rows"] += 1
                continue
            found = np.unique(grams(texts, config.n).hashes)
            if len(found):
                growing.add(found, len(places))
                places.append((at, number))
            else:
                counts["rows_too_short"] += 1
        told.append({"file": shown(path.name), **counts})
    growing.settle()
    rare = np.ones(len(growing.hashes), bool) if own is None else ~common(config, growing.hashes, own)
    rows = growing.rows[rare]
    sizes = np.bincount(rows, minlength=len(places)).astype(np.int32)
    facts = {
        "n": config.n,
        "ngrams": len(growing.hashes),
        "ngrams_left_out_as_common": len(growing.hashes) - len(rows),
        "files": told,
    }
    return Index(
        Lookup(growing.hashes[rare]),
        rows,
        needed(config, sizes),
        sizes,
        np.array(places, np.int64).reshape(-1, 2),
        tuple(shown(path.name) for path in files),
        facts,
    )


@dataclasses.dataclass(frozen=True)
class Contaminated:
    """Why an edit goes: the row it has most in common with, how much, and the first words of it."""

    file: str
    row: int
    shared: int
    of: int
    words: str

    def told(self) -> str:
        """In a few words."""
        return f"{self.file} row {self.row}: {self.shared} of its {self.of} n-grams, such as {self.words!r}"


def _texts(edit: Mapping[str, Any]) -> tuple[str, str, str]:
    return edit["message"], edit["old_contents"], edit["new_contents"]


def contaminated(
    config: DecontaminateConfig, index: Index, edits: Sequence[Mapping[str, Any]]
) -> list[Contaminated | None]:
    """For each edit (rows of `edits`, few enough to be hashed at once) why it goes, or None."""
    found = grams([text for edit in edits for text in _texts(edit)], config.n)
    hits, at = index.lookup.find(found.hashes)
    result: list[Contaminated | None] = [None] * len(edits)
    if not len(hits):
        return result
    edit_of, rows = found.owner[hits] // 3, index.rows[at].astype(np.int64)
    # Old and new contents share most n-grams: each counts once.
    distinct = np.unique(edit_of * len(index.rows) + at)
    of_edit, of_row = distinct // len(index.rows), index.rows[distinct % len(index.rows)]
    pairs, counts = np.unique(of_edit * len(index.places) + of_row, return_counts=True)
    enough = counts >= index.needed[pairs % len(index.places)]
    for pair, shared in zip(pairs[enough].tolist(), counts[enough].tolist(), strict=True):
        edit, row = divmod(pair, len(index.places))
        known = result[edit]
        if known is None or shared > known.shared:
            first = hits[np.argmax((edit_of == edit) & (rows == row))]
            file, number = index.places[row].tolist()
            words = found.words(int(first))[:_SHOWN]
            result[edit] = Contaminated(index.files[file], number, shared, int(index.sizes[row]), words)
    return result


_BUILT: dict[str, Index] = {}
"""The index that this process last built, by the digest of all that it depends on."""


def _index(config: DecontaminateConfig, run: RunDir, unit: Unit) -> Index:
    key = digest_json([dataclasses.asdict(config), str(run.root.absolute()), unit.payload["digest"]])
    if key not in _BUILT:
        _BUILT.clear()
        files = files_of(run, config.sampled_files)
        _BUILT[key] = build_index(config, [Path(one) for one in unit.payload["benchmarks"]], files)
        path = run.root / FACTS
        path.parent.mkdir(exist_ok=True)
        shards.write_text(path, json.dumps(_BUILT[key].facts, indent=1, sort_keys=True) + "\n")
    return _BUILT[key]


def _verdict(own: str, checked: bool) -> Verdict:
    marks = [] if checked else ["not_checked"]
    return Verdict(id=own, stage=STAGE, keep=True, reason=None, detail=None, marks=marks)


def _considered(run_dir: Path, unit: Unit, columns: Sequence[str]) -> Iterable[dict[str, Any]]:
    """The edits that `dedup` kept, as many as the unit takes."""
    kept = kept_of(run_dir / unit.payload["verdicts"], "edits", run_dir / unit.payload["edits"])
    left = unit.payload["limit"]
    for row in shards.iter_rows(run_dir / unit.payload["edits"], Edit, columns):
        if left and row["id"] in kept:
            left -= 1
            yield row


def decontaminate_unit(config: DecontaminateConfig, run_dir: Path, unit: Unit) -> Iterator[Outcome]:
    """One outcome for each edit that `dedup` kept.

    Raises:
        EnvironmentFault: a benchmark can no longer be read.
    """
    if not unit.payload["benchmarks"]:
        for row in _considered(run_dir, unit, ("id",)):
            yield Keep((_verdict(row["id"], checked=False),))
        return
    if not unit.rows:
        return
    index = _index(config, RunDir(run_dir), unit)
    rows = _considered(run_dir, unit, _COLUMNS)
    for batch in grouped(rows, lambda row: sum(map(len, _texts(row))), BATCH_BYTES):
        for row, why in zip(batch, contaminated(config, index, batch), strict=True):
            if why is None:
                yield Keep((_verdict(row["id"], checked=True),))
            else:
                yield Drop(row["id"], "contaminated", why.told())


def facts_of(config: DecontaminateConfig, run: RunDir) -> dict[str, Any]:
    """What the benchmarks held, with a line for a person under `line`."""
    if not config.benchmarks:
        line = "no benchmark given, so no edit was compared with any; give some with --benchmark FILE"
        return {"line": f"{STAGE}: {line}", "files": []}
    try:
        found: dict[str, Any] = json.loads((run.root / FACTS).read_text())
        files = found["files"]
        rows, bad, short = (
            sum(one[name] for one in files) for name in ("rows", "bad_rows", "rows_too_short")
        )
        line = (
            f"{STAGE}: {len(files):,} benchmark file{'' if len(files) == 1 else 's'}, {rows:,} rows "
            f"({bad:,} bad, {short:,} shorter than {found['n']} words), {found['ngrams']:,} n-grams, "
            f"{found['ngrams_left_out_as_common']:,} of them common and left out"
        )
    except (OSError, ValueError, TypeError, KeyError):
        return {"line": f"{STAGE}: nothing to compare", "files": []}
    return {"line": line, **found}
