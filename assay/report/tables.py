"""What the tables of a run hold, as counts: languages, criteria, lengths, labels. Others have modules of
their own: `pairs`, `evidence`, `votes`, `steps`.

Each function reads the columns that it needs, a batch at a time, so that contents are never all in
memory. A shard that cannot be read leaves a note in the reader and is otherwise skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from assay.report.plain import Doubling, name, share_bins, tally, top
from schemas.declare import schema_of
from schemas.records import TABLES
from schemas.rundir import Part

NAMES = 40
"""How many names of an open set (repositories, licences, models) are listed; the rest is summed."""

_LAST_SECOND = 4_102_444_800  # 2100-01-01 UTC; a commit dated later has a broken clock


class Reader:
    """Columns of a run's finished shards, batch by batch; collects notes on what cannot be read."""

    def __init__(self, parts: dict[str, list[Part]]) -> None:
        self.parts = parts
        self.notes: list[str] = []

    def batches(self, table: str, columns: Sequence[str], rows: int = 8192) -> Iterator[pa.Table]:
        """Batches of a table. A column is a top-level name, or a Parquet path to one leaf below it."""
        for part in self.parts.get(table, []):
            yield from self.batches_of(part, table, columns, rows)

    def batches_of(
        self, part: Part, table: str, columns: Sequence[str], rows: int = 8192
    ) -> Iterator[pa.Table]:
        """Batches of one shard."""
        record: type = TABLES[table]
        wanted = schema_of(record)
        try:
            # Without it a whole row group's pages would be held beside the batches made of them.
            with pq.ParquetFile(part.path, pre_buffer=False) as file:
                if not file.schema_arrow.equals(wanted):
                    raise pa.ArrowInvalid("its columns are those of another version")
                for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
                    yield pa.Table.from_batches([batch])
        except (OSError, pa.ArrowException) as error:
            reason = name(error, 160)
            self.notes.append(
                f"{table}: shard {name(part.path.name)} cannot be read ({reason}); its rows are missing"
            )


def counted(column: pa.ChunkedArray) -> Counter[Any]:
    """How often each value of a column occurs, null as None."""
    found: Counter[Any] = Counter()
    for pair in pc.value_counts(column).to_pylist():
        found[pair["values"]] += pair["counts"]
    return found


def named(counts: Counter[Any], missing: str = "(none)") -> Counter[str]:
    """Counts by values as text, null under a name of its own."""
    found: Counter[str] = Counter()
    for key, rows in counts.items():
        found[missing if key is None else str(key)] += rows
    return found


def grouped(table: pa.Table, keys: list[str]) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Each combination of values of some columns, with its rows."""
    for row in table.group_by(keys).aggregate([([], "count_all")]).to_pylist():
        yield tuple(row[key] for key in keys), row["count_all"]


def cells(counts: Counter[tuple[Any, ...]], *keys: str) -> list[dict[str, Any]]:
    """Counts by several values as facts, with a key for each; null is `(none)`. Of more than 1,600 the
    largest are kept."""
    found: Counter[tuple[str, ...]] = Counter()
    for values, rows in counts.items():
        found[tuple("(none)" if one is None else str(one) for one in values)] += rows
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))[: NAMES * NAMES]
    return [
        {**{key: name(one) for key, one in zip(keys, values, strict=True)}, "rows": rows}
        for values, rows in sorted(ranked)
    ]


def add_lengths(bins: Doubling, lengths: pa.ChunkedArray) -> None:
    """Count lengths into bins; null is none."""
    for length, rows in counted(lengths).items():
        if length is not None and length >= 0:
            bins.add(length, rows)


def _months(times: pa.ChunkedArray) -> tuple[Counter[int], int]:
    """(rows by year * 100 + month, rows whose time is outside 1970 to 2099)."""
    good = times.filter(pc.and_(pc.greater_equal(times, 0), pc.less(times, _LAST_SECOND)))
    stamps = good.cast(pa.timestamp("s"))
    months = pc.add(pc.multiply(pc.year(stamps), 100), pc.month(stamps))
    return counted(months), len(times) - len(good)


def repositories(reader: Reader) -> dict[str, Any]:
    """What is known of the repositories with the most commits; null is not known."""
    columns = ["repo", "commits", "contributors", "stars", "issues", "license", "first_commit_time"]
    known: list[dict[str, Any]] = []
    rows = commits = 0
    unknown: Counter[str] = Counter({"stars": 0, "issues": 0, "license": 0})
    for batch in reader.batches("repositories", columns):
        rows += len(batch)
        commits += pc.sum(batch["commits"]).as_py() or 0
        for column in unknown:
            unknown[column] += batch[column].null_count
        known += batch.to_pylist()
        known.sort(key=lambda row: (-row["commits"], row["repo"]))
        del known[NAMES:]
    return {
        "rows": rows,
        "commits": commits,
        "unknown": dict(unknown),
        "top": [{**row, "repo": name(row["repo"]), "license": _optional(row["license"])} for row in known],
    }


def _optional(value: str | None) -> str | None:
    return None if value is None else name(value)


def edits(reader: Reader) -> dict[str, Any]:
    """Edits by repository, language, month and size, and how they got in."""
    repos: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    licences: Counter[str] = Counter()
    merged: Counter[str] = Counter()
    months: Counter[int] = Counter()
    lines, undated, flags = Doubling(), 0, Counter({"bot": 0, "ai_assisted": 0, "reverted": 0})
    columns = ["repo", "language", "license", "merged_by", "reverted_by", "bot", "ai_assisted", "commit_time"]
    for batch in reader.batches("edits", [*columns, "lines_added", "lines_removed"]):
        repos.update(named(counted(batch["repo"])))
        languages.update(named(counted(batch["language"])))
        licences.update(named(counted(batch["license"]), "not recognised"))
        for how, rows in counted(batch["merged_by"]).items():
            merged["not known" if how is None else str(how).partition(":")[0]] += rows
        flags["bot"] += pc.sum(batch["bot"]).as_py() or 0
        flags["ai_assisted"] += len(batch) - batch["ai_assisted"].null_count
        flags["reverted"] += len(batch) - batch["reverted_by"].null_count
        found, outside = _months(batch["commit_time"])
        months.update(found)
        undated += outside
        both = pc.add(batch["lines_added"].cast(pa.int64()), batch["lines_removed"].cast(pa.int64()))
        add_lengths(lines, both)
    return {
        "rows": repos.total(),
        "repositories": top(repos, NAMES),
        "languages": top(languages, NAMES),
        "licences": top(licences, NAMES),
        "merged_by": top(merged, NAMES),
        "flags": dict(flags),
        "lines_changed": lines.facts(),
        "months": [
            {"month": f"{month // 100:04d}-{month % 100:02d}", "rows": rows}
            for month, rows in sorted(months.items())
        ],
        "undated": undated,
    }


def labels(reader: Reader) -> dict[str, Any]:
    """Labels by criterion and method, and how sure the labelers were."""
    criteria: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    labelers: Counter[str] = Counter()
    confidence, intent = [0] * 10, [0] * 10
    for batch in reader.batches("labels", ["labeler", "method", "criterion", "confidence", "single_intent"]):
        criteria.update(named(counted(batch["criterion"]), "none supported"))
        methods.update(named(counted(batch["method"])))
        labelers.update(named(counted(batch["labeler"])))
        supported = batch.filter(pc.is_valid(batch["criterion"]))
        share_bins(supported["confidence"].to_pylist(), confidence)
        share_bins(supported["single_intent"].to_pylist(), intent)
    return {
        "rows": criteria.total(),
        "criteria": top(criteria, NAMES),
        "methods": top(methods, NAMES),
        "labelers": top(labelers, NAMES),
        "confidence": confidence,
        "single_intent": intent,
    }


def programs(reader: Reader) -> dict[str, Any]:
    """Decomposed programs: how many functions they have and who cut them."""
    sizes, made = Doubling(), Counter[str]()
    for batch in reader.batches("programs", ["decomposed_by", "functions.list.element.name"]):
        add_lengths(sizes, pc.list_value_length(batch["functions"]))
        made.update(named(counted(batch["decomposed_by"])))
    return {
        "rows": sum(sizes.bins.values()),
        "functions": sizes.total,
        "functions_per_program": sizes.facts(),
        "decomposed_by": top(made, NAMES),
    }


def trajectories(reader: Reader) -> dict[str, Any]:
    """Trajectories by whether they resolved their task, by policy and by length."""
    resolved: Counter[str] = Counter({"true": 0, "false": 0, "null": 0})
    policies: Counter[str] = Counter()
    splits: Counter[str] = Counter()
    instances: set[str] = set()
    lengths = Doubling()
    columns = ["resolved", "policy", "split", "instance_id", "messages.list.element.role"]
    for batch in reader.batches("trajectories", columns):
        for value, rows in counted(batch["resolved"]).items():
            resolved["null" if value is None else str(value).lower()] += rows
        policies.update(named(counted(batch["policy"]), "not known"))
        splits.update(named(counted(batch["split"])))
        instances.update(batch["instance_id"].to_pylist())
        add_lengths(lengths, pc.list_value_length(batch["messages"]))
    return {
        "rows": resolved.total(),
        "instances": len(instances),
        "resolved": dict(resolved),
        "policies": top(policies, NAMES),
        "splits": {name(split): rows for split, rows in sorted(splits.items())},
        "messages": lengths.facts(),
    }


def problems(reader: Reader) -> dict[str, Any]:
    """Problems by where they were imported from."""
    sources: Counter[str] = Counter()
    for batch in reader.batches("problems", ["source"]):
        sources.update(tally(batch["source"].to_pylist()))
    return {"rows": sources.total(), "sources": top(sources, NAMES)}
