"""Which rows a stage kept, read from its shard of verdicts.

Compared as Arrow columns: a shard of verdicts may cover a whole run, and a stage asks for one part.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from schemas import shards
from schemas.records import TABLES, Verdict


def kept_of(verdicts: Path, table: str, shard: Path) -> set[str]:
    """Ids of the rows of a table's shard that a shard of verdicts kept."""
    decided = shards.read_shard(verdicts, Verdict, ["id", "keep"])
    kept = decided["id"].filter(decided["keep"])
    own = shards.read_shard(shard, TABLES[table], ["id"])["id"]
    return set(own.filter(pc.is_in(own, value_set=kept)).to_pylist())
