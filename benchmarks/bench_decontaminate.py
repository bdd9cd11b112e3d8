"""Edits compared with a benchmark a CPU-second, against words by a regular expression and a Python set.

    python benchmarks/bench_decontaminate.py --repo PATH [--repo PATH ...]

The benchmark is made of every 50th edit of the repository (message and both versions), at most `ROWS`, and
of the example problems. Both count the distinct 13-grams that an edit shares with each row, and drop it by
the same rule with nothing left out as common; that they drop the same edits is checked. The time of
building the index or set is told apart. Memory is that of the index, arrays and bitmap.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from common import ROOT, best, cores, cpu_seconds, repositories

from miner.benchmarks import benchmark_rows
from miner.config import DecontaminateConfig, MineConfig
from miner.decontaminate import Index, build_index, contaminated
from miner.edits import mine_unit, plan_mine
from miner.ngrams import BATCH_BYTES, grouped
from schemas.stage import Keep

MOST = 600
ROWS = 20
CONFIG = DecontaminateConfig()
_WORD = re.compile("[0-9a-z_\x80-\U0010ffff]+")

Edit = dict[str, Any]


def texts(edit: Edit) -> tuple[str, str, str]:
    """What of an edit is compared."""
    return edit["message"], edit["old_contents"], edit["new_contents"]


def ours(index: Index, edits: list[Edit]) -> set[str]:
    """Ids of the edits that go."""
    gone = set()
    for batch in grouped(edits, lambda edit: sum(map(len, texts(edit))), BATCH_BYTES):
        for edit, why in zip(batch, contaminated(CONFIG, index, batch), strict=True):
            if why is not None:
                gone.add(edit["id"])
    return gone


def plain_grams(text: str) -> list[str]:
    """The n-grams of a text in plain Python."""
    words = _WORD.findall(text.lower())
    return [" ".join(words[at : at + CONFIG.n]) for at in range(len(words) - CONFIG.n + 1)]


def plain_index(files: list[Path]) -> tuple[dict[str, int], list[int]]:
    """(n-gram -> first row that has it, shared n-grams that each row allows plus one)."""
    first: dict[str, int] = {}
    row = 0
    for path in files:
        for _, found in benchmark_rows(path, (), CONFIG.max_row_bytes):
            own = {one for text in found or () for one in plain_grams(text)}
            for one in own:
                first.setdefault(one, row)
            row += bool(own)
    sizes = Counter(first.values())
    return first, [
        max(1, min(CONFIG.min_shared, math.ceil(sizes[at] * CONFIG.min_share))) for at in range(row)
    ]


def plain(index: tuple[dict[str, int], list[int]], edits: list[Edit]) -> set[str]:
    """Ids of the edits that go, by plain Python."""
    first, needed = index
    gone = set()
    for edit in edits:
        shared = {one for text in texts(edit) for one in plain_grams(text) if one in first}
        counts = Counter(first[one] for one in shared)
        if any(count >= needed[row] for row, count in counts.items()):
            gone.add(edit["id"])
    return gone


def main() -> None:
    """Print rates and the ratio for each repository."""
    config = MineConfig()
    for repo in repositories("edits compared with a benchmark a CPU-second"):
        edits: list[Edit] = []
        for unit in plan_mine(config, [repo], None):
            for outcome in mine_unit(config, unit):
                if isinstance(outcome, Keep) and len(edits) < MOST:
                    one = outcome.records[0]
                    edits.append({name: getattr(one, name) for name in ("id", "message")})
                    edits[-1] |= {name: getattr(one, name) for name in ("old_contents", "new_contents")}
        if not edits:
            print(f"{repo.name}: no edits")
            continue
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "made.jsonl"
            rows = [{"text": texts(edit)} for edit in edits[::50][:ROWS]]
            made.write_text("".join(json.dumps(row) + "\n" for row in rows))
            files = [made, ROOT / "examples" / "problems.jsonl"]
            builds = {
                "assay": lambda f=files: build_index(CONFIG, f, None),
                "set": lambda f=files: plain_index(f),
            }
            built = best(builds, rounds=2, clock=cpu_seconds)
            index, other = build_index(CONFIG, files, None), plain_index(files)
        ways = {"assay": lambda i=index, e=edits: ours(i, e), "set": lambda i=other, e=edits: plain(i, e)}
        gone = {name: way() for name, way in ways.items()}
        if gone["assay"] != gone["set"]:
            raise SystemExit(f"{repo.name}: the two drop different edits")
        times = best(ways, rounds=3, clock=cpu_seconds)
        size = sum(len(text) for edit in edits for text in texts(edit))
        per_million = index.nbytes / max(1, len(index.rows))
        print(
            f"{repo.name}: {len(edits):,} edits, {len(gone['set']):,} dropped by both, {cores()};",
            f"{size / times['assay'] / 1e6:,.0f} MB/CPU-s,",
            f"{times['set'] / times['assay']:.1f} x Python set; index of {len(index.rows):,} n-grams,",
            f"{built['set'] / built['assay']:.1f} x as fast to build, {per_million:.1f} MB a million",
        )


if __name__ == "__main__":
    main()
