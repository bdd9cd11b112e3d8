"""Bytes of the edits table, against the same rows written with pyarrow's defaults (snappy) in history order.

python benchmarks/bench_shards.py --repo PATH [--repo PATH ...]
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from common import best, cores, repositories

from miner.config import MineConfig
from miner.edits import mine_unit, plan_mine
from schemas.declare import as_row, schema_of
from schemas.records import Edit
from schemas.shards import write_shard
from schemas.stage import Keep


def main() -> None:
    """Print sizes, times and ratios for each repository."""
    config = MineConfig()
    for repo in repositories("bytes of the edits table"):
        name = repo.parent.name if repo.name in ("repo", ".git") else repo.name
        edits = [
            outcome.records[0]
            for unit in plan_mine(config, [repo], None)
            for outcome in mine_unit(config, unit)
            if isinstance(outcome, Keep)
        ]
        if not edits:
            print(f"{name}: no edits")
            continue
        edits.sort(key=lambda edit: edit.commit_time)
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = Path(folder, "ours.parquet"), Path(folder, "theirs.parquet")

            def plain(path: Path = theirs, rows: list[Edit] = edits) -> None:
                pq.write_table(
                    pa.Table.from_pylist([as_row(row) for row in rows], schema=schema_of(Edit)), path
                )

            times = best(
                {"ours": lambda p=ours, rows=edits: write_shard(p, Edit, rows), "theirs": plain}, rounds=3
            )
            size = {"ours": ours.stat().st_size, "theirs": theirs.stat().st_size}
        smaller, faster = size["ours"] / size["theirs"], times["ours"] / times["theirs"]
        print(
            f"{name}: {len(edits):,} edits, {cores()}; {size['ours']:,} bytes, "
            f"{smaller:.2f} x pyarrow's defaults; time to write {faster:.2f} x",
            flush=True,
        )


if __name__ == "__main__":
    main()
