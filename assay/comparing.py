"""Comparing one table of two runs: rows in both, in one only, changed, and where the missing ones went.

In: the finished shards of a table in either run, and the verdicts of both. Out: a `TableDiff`. Reads only.

Rows are matched by id. Shards of equal digests are not opened. Of any other row only numbers stay in memory,
32 bytes (40 for pairs): a 128-bit hash of its id, a 64-bit hash of its values, its place. Where the runs are
joined copies of them are held at once, about 200 bytes a row of either run at the worst. Changed rows are
then read again, `SLICE` at a time, for the columns that they differ in. Of two rows with different values one
in 2^64 is taken for equal.

A pair's id is made of its criterion too, so a pair of another criterion is another row. Pairs that are in one
run only are therefore matched a second time, by the text that they are about, and count as relabelled.

Errors: `ShardError` for a shard that cannot be read.
"""

from __future__ import annotations

import dataclasses
import typing
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import ShardError
from schemas.records import PAIR_TABLES
from schemas.rundir import Part, RunDir
from schemas.stage import rank

BATCH = 4096
"""Rows of a shard that are taken up at once."""
SLICE = 100_000
"""Changed rows whose columns are compared at once."""
CUT = 120
"""Characters of a value that are shown."""

_IDENTITY = {"verdicts": ("stage", "id"), "repositories": ("repo",), **dict.fromkeys(PAIR_TABLES, ("idx",))}
_LABELS: dict[str, tuple[str, ...]] = {
    "verdicts": ("keep", "reason"),
    "labels": ("criterion",),
    "splits": ("split",),
    "evidence": ("veto",),
    "votes": ("criterion", "decision"),
    "candidates": ("fault",),
    "steps": ("outcome", "conflict", "split"),
    "trajectories": ("resolved", "split"),
    **dict.fromkeys(PAIR_TABLES, ("aspect", "split")),
}
"""Columns that say what was decided of a row."""

_PARENTS = ("edit_id", "evidence.edit_id", "candidate_id", "program_id", "problem_id")
_SUBJECT = ("evidence.edit_id", "evidence.level", "evidence.names")
_TEXTS = ("source", "input", "chosen", "rejected")
_HOME = {"edits": ("edit_id", "evidence.edit_id"), "problems": ("problem_id",)}
_OF_EDITS = ("labels", "splits")
_ROW, _KEY = 5, 7  # seeds of the hashes


@dataclasses.dataclass
class TableDiff:
    """What two runs have in common in one table.

    Attributes:
        table: its name.
        rows_a, rows_b: rows of each run.
        same: rows of equal values in both.
        lost, gained: rows that only the first, or only the second run has.
        changed: rows of one id and different values.
        relabelled: pairs of one text under different criteria; neither lost nor gained.
        unread: of `same`, rows in shards of equal digests.
        only_a, only_b: columns that only one run's shards have.
        columns: column -> changed or relabelled rows that differ in it.
        labels: from -> to of the columns that decide, with the columns that changed along.
        why_lost, why_gained: what the other run says of such rows: (stage, reason) -> rows.
        samples: kind -> some rows.
    """

    table: str
    rows_a: int = 0
    rows_b: int = 0
    same: int = 0
    lost: int = 0
    gained: int = 0
    changed: int = 0
    relabelled: int = 0
    unread: int = 0
    only_a: list[str] = dataclasses.field(default_factory=list)
    only_b: list[str] = dataclasses.field(default_factory=list)
    columns: dict[str, int] = dataclasses.field(default_factory=dict)
    labels: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    why_lost: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    why_gained: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    samples: dict[str, list[dict[str, Any]]] = dataclasses.field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Whether both hold the same rows, in the columns that both have."""
        return not (self.lost or self.gained or self.changed or self.relabelled or self.only_a or self.only_b)


def _unnested(frame: pl.DataFrame) -> pl.DataFrame:
    """The fields of a record in a column as columns of their own, `evidence.share`."""
    nested = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Struct)]
    return frame.unnest(nested, separator=".") if nested else frame


def _names(parts: Sequence[Part]) -> list[str]:
    """The columns that all shards have, in the order of the first."""
    names: list[str] | None = None
    for part in parts:
        try:
            schema = pq.read_schema(part.path)
        except (OSError, pa.ArrowException) as error:
            raise ShardError(f"{part.path}: cannot be read as Parquet ({error})") from None
        own = _unnested(typing.cast("pl.DataFrame", pl.from_arrow(schema.empty_table()))).columns
        names = own if names is None else [name for name in names if name in own]
    return names or []


def _batches(
    parts: Sequence[Part], columns: Sequence[str], wanted: pl.Series | None = None
) -> Iterator[pl.DataFrame]:
    """Rows of shards with their place `at`, counted over all shards; of `wanted` places only, when given.

    A row group without a wanted place is not read.
    """
    tops = list(dict.fromkeys(name.partition(".")[0] for name in columns))
    first = 0
    for part in parts:
        try:
            with pq.ParquetFile(part.path, pre_buffer=False) as file:
                for group in range(file.num_row_groups):
                    many = file.metadata.row_group(group).num_rows
                    here = wanted is None or bool(
                        wanted.search_sorted(first) < wanted.search_sorted(first + many)
                    )
                    at = first
                    for batch in file.iter_batches(BATCH, [group], tops) if here else ():
                        frame = _unnested(typing.cast("pl.DataFrame", pl.from_arrow(batch)))
                        frame = frame.select(columns).with_row_index("at", at)
                        at += len(frame)
                        if wanted is not None:
                            lo, hi = wanted.search_sorted(at - len(frame)), wanted.search_sorted(at)
                            frame = frame.filter(pl.col("at").is_in(wanted[lo:hi].implode()))
                        if len(frame):
                            yield frame
                    first += many
        except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
            raise ShardError(f"{part.path}: cannot be read as Parquet ({error})") from None


def _gather(frames: Iterator[pl.DataFrame], schema: Mapping[str, Any]) -> pl.DataFrame:
    found = list(frames)
    return pl.concat(found, rechunk=True) if found else pl.DataFrame(schema=dict(schema))


def _hashed(frame: pl.DataFrame, name: str, columns: Sequence[str], seed: int) -> pl.Series:
    if not columns:
        return pl.Series(name, [0] * len(frame), dtype=pl.UInt64)
    return frame.select(columns).hash_rows(seed=seed).alias(name)


def _prints(table: str, parts: Sequence[Part], columns: Sequence[str]) -> pl.DataFrame:
    """A row a row of the table: two hashes of its id, one of its values, its place, a pair's subject."""
    key = [name for name in _IDENTITY.get(table, ("id",)) if name in columns]
    rest = [name for name in columns if name not in key]
    subject = table in PAIR_TABLES and {*_SUBJECT, *_TEXTS} <= set(columns)
    schema = {"at": pl.UInt32, "k1": pl.UInt64, "k2": pl.UInt64, "h": pl.UInt64}

    def each() -> Iterator[pl.DataFrame]:
        for frame in _batches(parts, columns):
            made = [
                frame["at"],
                _hashed(frame, "k1", key, _KEY),
                _hashed(frame, "k2", key, _KEY + 1),
                _hashed(frame, "h", rest, _ROW),
            ]
            if subject:
                edit, text = _hashed(frame, "s", _SUBJECT, _KEY), _hashed(frame, "s", _TEXTS, _KEY)
                made.append(edit.zip_with(frame["evidence.edit_id"].is_not_null(), text))
            yield pl.DataFrame(made)

    found = _gather(each(), schema | ({"s": pl.UInt64} if subject else {}))
    return _numbered(found, ["k1", "k2"])


def _numbered(frame: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """With `n`, which of several rows of one key this is; equal rows first meet equal ones."""
    if frame.select(key).is_duplicated().any():
        nth = pl.int_range(pl.len(), dtype=pl.UInt32).over(key)
        return frame.sort([*key, "h"]).with_columns(n=nth)
    return frame.with_columns(n=pl.lit(0, pl.UInt32))


class Drops:
    """What a run dropped, by id: hashes, and where the verdict stands. 20 bytes a dropped row."""

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self.parts = run.parts("verdicts")
        self.reasons: list[tuple[str, str]] = []
        self._homes: dict[str, pl.Series] = {}
        codes: dict[tuple[str, str], int] = {}

        def each() -> Iterator[pl.DataFrame]:
            for frame in _batches(self.parts, ("id", "stage", "keep", "reason")):
                dropped = frame.filter(~pl.col("keep"))
                found = [(stage, reason or "") for stage, reason in dropped.select("stage", "reason").rows()]
                yield pl.DataFrame(
                    {
                        "r": dropped["id"].hash(_KEY),
                        "place": dropped["at"],
                        "code": pl.Series(
                            [codes.setdefault(one, len(codes)) for one in found], dtype=pl.Int32
                        ),
                        "rank": pl.Series([rank(stage)[0] for stage, _ in found], dtype=pl.Int32),
                    }
                )

        schema = {"r": pl.UInt64, "place": pl.UInt32, "code": pl.Int32, "rank": pl.Int32}
        # A row that several stages dropped went no further than the first of them.
        self.frame = _gather(each(), schema).sort("rank", "place").unique("r", keep="first")
        self.reasons = list(codes)

    def has(self, table: str, ids: pl.Series) -> pl.Series:
        """Whether a source table has rows of these hashed ids. 8 bytes a row of it stay in memory."""
        if table not in self._homes:
            each = _batches(self.run.parts(table), ("id",))
            frames = (frame.select(r=pl.col("id").hash(_KEY)) for frame in each)
            self._homes[table] = _gather(frames, {"r": pl.UInt64})["r"].sort()
        home = self._homes[table]
        if not len(home):
            return pl.Series([False] * len(ids), dtype=pl.Boolean)
        places = home.search_sorted(ids).clip(0, len(home) - 1)
        return home.gather(places) == ids


def _refs(table: str, frame: pl.DataFrame) -> dict[str, pl.Series]:
    """Ids by which verdicts may name a row: its own, and those of what it was made from."""
    names = [name for name in ("id", "idx", *_PARENTS) if name in frame.columns]
    found = {name: frame[name] for name in names}
    if table in ("edits", *PAIR_TABLES) and {"repo", "commit"} <= set(frame.columns):
        found["commit"] = frame.select(pl.col("repo") + "@" + pl.col("commit")).to_series()
    return {name: values.cast(pl.String) for name, values in found.items()}


def _explained(
    table: str, parts: Sequence[Part], names: Sequence[str], places: pl.Series, other: Drops
) -> pl.DataFrame:
    """For places of a table, what the other run says: `at`, `code` of a drop (or below 0), `place`.

    -1: no verdict names it; -2: the other run has not the edit, -3: not the problem that it was made from.
    """
    wanted = [name for name in ("id", "idx", *_PARENTS, "repo", "commit") if name in names]

    def each() -> Iterator[pl.DataFrame]:
        for frame in _batches(parts, wanted, places):
            found = frame.select("at").with_columns(code=pl.lit(-1, pl.Int32), place=pl.lit(0, pl.UInt32))
            refs = _refs(table, frame)
            for code, home in ((-2, "edits"), (-3, "problems")):
                column = next((name for name in _HOME[home] if name in refs), None)
                column = "id" if table in _OF_EDITS and home == "edits" else column
                if column is not None:
                    own = refs[column]
                    gone = own.is_not_null() & ~other.has(home, own.hash(_KEY))
                    found = found.with_columns(
                        code=pl.when(gone).then(pl.lit(code, pl.Int32)).otherwise(pl.col("code"))
                    )
            long = [
                pl.DataFrame({"at": frame["at"], "r": one.hash(_KEY)}).filter(one.is_not_null())
                for one in refs.values()
            ]
            drops = pl.concat(long).join(other.frame, on="r", how="inner").sort("rank", "place")
            drops = drops.unique("at", keep="first").select("at", pl.col("code").alias("drop"), "place")
            found = found.drop("place").join(drops, on="at", how="left")
            yield found.select("at", pl.coalesce("drop", "code").alias("code"), pl.col("place"))

    return _gather(each(), {"at": pl.UInt32, "code": pl.Int32, "place": pl.UInt32})


_UNKNOWN = {
    -1: "no verdict names it",
    -2: "its edit is not there",
    -3: "its problem is not there",
}


def _why(found: pl.DataFrame, other: Drops) -> list[dict[str, Any]]:
    counts = Counter(dict(found.group_by("code").len().rows()))
    return [
        {
            "stage": other.reasons[code][0] if code >= 0 else None,
            "reason": other.reasons[code][1] if code >= 0 else _UNKNOWN[code],
            "rows": rows,
        }
        for code, rows in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def shown(value: Any) -> Any:
    """A value as an answer shows it: numbers as they are, anything else as text that is cut."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, pl.Series):
        value = value.to_list()
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= CUT else text[: CUT - 1] + "…"


def _ordered(parts: Sequence[Part], columns: Sequence[str], places: pl.Series) -> dict[int, dict[str, Any]]:
    rows: dict[int, dict[str, Any]] = {}
    for frame in _batches(parts, columns, places.sort()):
        rows.update({row["at"]: row for row in frame.to_dicts()})
    return rows


def _one_sided(
    table: str, parts: Sequence[Part], names: Sequence[str], found: pl.DataFrame, other: Drops, limit: int
) -> list[dict[str, Any]]:
    """The first rows that only one run has, with what the other says of them."""
    some = found.sort("at").head(limit)
    columns = [
        name
        for name in dict.fromkeys(
            (*_IDENTITY.get(table, ("id",)), *_LABELS.get(table, ()), "repo", "commit", "path")
        )
        if name in names
    ]
    rows = _ordered(parts, columns, some["at"])
    details = _ordered(other.parts, ("id", "detail"), some["place"].drop_nulls().unique())
    answer = []
    for at, code, place in some.select("at", "code", "place").rows():
        why: dict[str, Any] = {"reason": _UNKNOWN.get(code)}
        if code >= 0:
            stage, reason = other.reasons[code]
            verdict = details[place]
            why = {
                "stage": stage,
                "reason": reason,
                "detail": shown(verdict["detail"]),
                "id": shown(verdict["id"]),
            }
        row = {name: shown(value) for name, value in rows[at].items() if name != "at"}
        answer.append({"row": row, "why": why})
    return answer


class _Changes:
    """Gathers in which columns matched rows differ."""

    def __init__(self, table: str, a: Sequence[Part], b: Sequence[Part], columns: Sequence[str]) -> None:
        self.a, self.b, self.columns = a, b, list(columns)
        self.own = [name for name in _LABELS.get(table, ()) if name in columns]
        self.key = [name for name in _IDENTITY.get(table, ("id",)) if name in columns]
        self.counts: Counter[str] = Counter()
        self.moves: dict[tuple[str, Any, Any], Counter[str]] = {}

    def _side(self, parts: Sequence[Part], places: pl.Series) -> pl.DataFrame:
        def each() -> Iterator[pl.DataFrame]:
            for frame in _batches(parts, self.columns, places.sort()):
                hashes = [_hashed(frame, f"h{i}", [name], _ROW) for i, name in enumerate(self.columns)]
                values = [frame[name].cast(pl.String).alias(f"v{i}") for i, name in enumerate(self.own)]
                yield pl.DataFrame([frame["at"], *hashes, *values])

        return pl.concat(list(each()))

    def add(self, matched: pl.DataFrame) -> None:
        """Take rows that were matched: `at` in the first run, `at_b` in the second."""
        for first in range(0, len(matched), SLICE):
            some = matched.slice(first, SLICE)
            left = some.join(self._side(self.a, some["at"]), on="at")
            both = left.join(self._side(self.b, some["at_b"]), left_on="at_b", right_on="at", suffix="_b")
            flags = both.select(
                *((pl.col(f"h{i}") != pl.col(f"h{i}_b")).alias(name) for i, name in enumerate(self.columns)),
                *(pl.col(f"v{i}{end}") for i in range(len(self.own)) for end in ("", "_b")),
            )
            self.counts.update(flags.select(pl.col(self.columns).sum()).row(0, named=True))
            for i, name in enumerate(self.own):
                others = [one for one in self.columns if one != name and one not in self.key]
                moved = flags.filter(pl.col(name)).group_by(f"v{i}", f"v{i}_b")
                for row in moved.agg(pl.len().alias(""), pl.col(others).sum()).to_dicts():
                    counter = self.moves.setdefault((name, row.pop(f"v{i}"), row.pop(f"v{i}_b")), Counter())
                    counter.update(row)

    def labels(self) -> list[dict[str, Any]]:
        """From -> to of the columns that decide, most rows first."""
        found = [
            {
                "column": name,
                "from": old,
                "to": new,
                "rows": counts[""],
                "with": {one: n for one, n in counts.most_common() if n and one},
            }
            for (name, old, new), counts in self.moves.items()
        ]
        return sorted(found, key=lambda one: (-one["rows"], one["column"], str(one["from"]), str(one["to"])))

    def samples(self, matched: pl.DataFrame, limit: int) -> list[dict[str, Any]]:
        """The first matched rows with the values that differ."""
        some = matched.head(limit)
        left, right = _ordered(self.a, self.columns, some["at"]), _ordered(self.b, self.columns, some["at_b"])
        answer = []
        for at, at_b in some.select("at", "at_b").rows():
            old, new = left[at], right[at_b]
            differs = {
                name: {"from": shown(old[name]), "to": shown(new[name])}
                for name in self.columns
                if old[name] != new[name]
            }
            answer.append({"row": {name: shown(old[name]) for name in self.key}, "columns": differs})
        return answer


def _apart(a: list[Part], b: list[Part]) -> tuple[list[Part], list[Part], int]:
    """The shards that differ, and the rows of those that do not."""
    ours, theirs = (Counter(part.sidecar.sha256 for part in parts) for parts in (a, b))
    shared = ours & theirs
    kept: list[list[Part]] = []
    rows = 0
    for parts in (a, b):
        left, out = Counter(shared), list[Part]()
        for part in parts:
            if left[part.sidecar.sha256] > 0:
                left[part.sidecar.sha256] -= 1
                rows += part.sidecar.rows if parts is a else 0
            else:
                out.append(part)
        kept.append(out)
    return kept[0], kept[1], rows


def compare_table(table: str, a: Drops, b: Drops, limit: int) -> TableDiff:
    """Compare a table of two runs.

    Args:
        table: its name.
        a: the first run, and what it dropped.
        b: the second.
        limit: rows of each kind that are shown.

    Raises:
        ShardError: a shard cannot be read.
    """
    all_a, all_b = a.run.parts(table), b.run.parts(table)
    diff = TableDiff(table)
    diff.rows_a, diff.rows_b = (sum(part.sidecar.rows for part in parts) for parts in (all_a, all_b))
    parts_a, parts_b, diff.unread = _apart(all_a, all_b)
    names_a, names_b = _names(parts_a), _names(parts_b)
    if parts_a and parts_b:
        diff.only_a = [name for name in names_a if name not in names_b]
        diff.only_b = [name for name in names_b if name not in names_a]
    columns = [name for name in names_a or names_b if not names_b or name in names_b]
    ours, theirs = _prints(table, parts_a, columns), _prints(table, parts_b, columns)
    diff.same = diff.unread
    key = ["k1", "k2", "n"]
    matched = ours.join(theirs.select(*key, "h", at_b="at"), on=key, how="inner", suffix="_b")
    diff.same += matched.filter(pl.col("h") == pl.col("h_b")).height
    changed = matched.filter(pl.col("h") != pl.col("h_b")).select("at", "at_b").sort("at")
    del matched
    lost, gained = ours.join(theirs, on=key, how="anti"), theirs.join(ours, on=key, how="anti")
    relabelled = changed.clear()
    if "s" in ours.columns and "s" in theirs.columns:
        left, right = _numbered(lost, ["s"]), _numbered(gained, ["s"])
        twins = left.join(right.select("s", "n", at_b="at"), on=["s", "n"], how="inner")
        relabelled = twins.select("at", "at_b").sort("at")
        lost = lost.filter(~pl.col("at").is_in(relabelled["at"].implode()))
        gained = gained.filter(~pl.col("at").is_in(relabelled["at_b"].implode()))
    diff.lost, diff.gained = lost.height, gained.height
    diff.changed, diff.relabelled = changed.height, relabelled.height
    changes = _Changes(table, parts_a, parts_b, columns)
    for kind, rows in (("changed", changed), ("relabelled", relabelled)):
        if len(rows):
            changes.add(rows)
            diff.samples[kind] = changes.samples(rows, limit)
    diff.columns = {name: many for name, many in changes.counts.most_common() if many}
    diff.labels = changes.labels()
    # A verdict is the answer itself; nothing explains it.
    for kind, rows, parts, other in (("lost", lost, parts_a, b), ("gained", gained, parts_b, a)):
        if len(rows):
            found = _explained(table, parts, columns, rows["at"].sort(), other)
            setattr(diff, f"why_{kind}", [] if table == "verdicts" else _why(found, other))
            diff.samples[kind] = _one_sided(table, parts, columns, found, other, limit)
    return diff
