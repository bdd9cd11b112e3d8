"""What dataset cards are made of: a stranger's text made safe, Markdown tables, and counts of shards.

Errors: `ShardError` for a shard that cannot be read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.declare import schema_of
from schemas.errors import ShardError
from schemas.records import TABLES
from schemas.rundir import Part

NAME_CHARS = 100
"""Longest name that the card prints, in characters."""

LISTED = 30
"""How many names of an open set (languages, licences, labelers) are listed; the rest is summed."""

# Controls, and formatting characters that reorder or hide what a person reads (CVE-2021-42574).
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]")


def code(value: Any) -> str:
    """A stranger's text as one code span that is safe in running text and in a table's cell.

    Nothing is interpreted within a code span but a backtick, and within a cell but a bar; both are
    replaced by characters that look like them, since no escape of theirs holds for every renderer.
    """
    text = " ".join(str(value)[: 4 * NAME_CHARS].split())
    text = UNSEEN.sub(lambda match: f"‹U+{ord(match[0]):04X}›", text)
    text = text.encode("utf-8", "replace").decode().replace("`", "ˋ").replace("|", "¦")
    text = text if len(text) <= NAME_CHARS else text[: NAME_CHARS - 1] + "…"
    return f"`{text}`" if text else "(empty)"


def plain(value: str) -> str:
    """A stranger's text for the front matter, where a code span would be read as it stands."""
    return code(value).strip("`")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]], right: int = 0) -> str:
    """A Markdown table whose last `right` columns are numbers; cells must be safe already."""
    rule = ["---"] * (len(head) - right) + ["---:"] * right
    lines = [head, rule, *([f"{c:,}" if isinstance(c, int) else str(c) for c in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def batches(parts: Iterable[Part], record: type, columns: list[str]) -> Iterator[pa.Table]:
    """Some columns of shards, a batch at a time. A column is a Parquet path to a leaf."""
    for part in parts:
        try:
            with pq.ParquetFile(part.path, pre_buffer=False) as file:
                if not file.schema_arrow.equals(schema_of(record)):
                    raise pa.ArrowInvalid("its columns are those of another version")
                for batch in file.iter_batches(batch_size=8192, columns=columns):
                    # `evidence.labeler` becomes a column of that name.
                    yield pa.Table.from_batches([batch]).flatten()
        except (OSError, pa.ArrowException) as error:
            raise ShardError(
                f"{part.path}: cannot be read ({error}); run the stage that made it again"
            ) from None


def grouped(parts: Iterable[Part], table: str, columns: list[str]) -> Counter[tuple[Any, ...]]:
    """Rows by the values of some columns."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for batch in batches(parts, TABLES[table], columns):
        for row in batch.group_by(columns).aggregate([([], "count_all")]).to_pylist():
            counts[tuple(row[name] for name in columns)] += row["count_all"]
    return counts


def ranked(counts: Mapping[Any, int], missing: str = "not known") -> list[tuple[str, int]]:
    """(safe name, rows), most rows first; names beyond `LISTED` become one line."""
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0] is None, str(item[0])))
    rows = [(missing if name is None else code(name), count) for name, count in order[:LISTED]]
    if rest := order[LISTED:]:
        rows.append((f"{len(rest):,} others", sum(count for _, count in rest)))
    return rows
