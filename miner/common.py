"""What identifies no text: n-grams of licence notices, and those in many of a run's own files.

`files_of` draws files of a run, one version each. A path counts once whatever the number of repositories
that have it, so that the forks of a project do not make all of it common. Which files are drawn depends on
paths and ids alone, never on how the run was cut into parts. The versions are read again for each
question, so memory holds one part of `edits` at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from miner.ngrams import BATCH_BYTES, Hashes, Lookup, Mask, grams, grouped
from miner.notices import NOTICES
from schemas import shards
from schemas.ids import content_id
from schemas.records import Edit
from schemas.rundir import RunDir

Files = dict[Path, list[str]]
"""Shard of `edits` -> ids of the edits whose new version and message are looked at."""


class Rule(Protocol):
    """The settings that say what is common, and how much in common is too much."""

    @property
    def n(self) -> int:
        """Words of an n-gram."""

    @property
    def common_files(self) -> int:
        """An n-gram in more files is common."""

    @property
    def min_shared(self) -> int:
        """N-grams in common from which texts overlap."""

    @property
    def min_share(self) -> float:
        """Share of a short text's n-grams from which they do."""


def files_of(run: RunDir, most: int) -> Files:
    """Draw files of a run, at most `most`: of each path the edit with the smallest id.

    Raises:
        ShardError: a shard of `edits` cannot be read.
    """
    first: dict[str, tuple[str, Path]] = {}
    for part in run.parts("edits"):
        table = shards.read_shard(part.path, Edit, ["id", "path"])
        for own, path in zip(table["id"].to_pylist(), table["path"].to_pylist(), strict=True):
            known = first.get(path)
            if known is None or own < known[0]:
                first[path] = (own, part.path)
    drawn = sorted(first) if len(first) <= most else sorted(first, key=lambda path: content_id("file", path))
    found: Files = {}
    for path in drawn[:most]:
        own, shard = first[path]
        found.setdefault(shard, []).append(own)
    return found


def _texts(files: Files) -> Iterator[str]:
    for shard in sorted(files):
        table = shards.read_shard(shard, Edit, ["id", "message", "new_contents"])
        drawn = table.filter(pc.is_in(table["id"], value_set=pa.array(files[shard], pa.string())))
        for row in drawn.to_pylist():
            # Words of the two must not run into each other; no word of a real text is this one.
            yield f"{row['message']}\n{_BETWEEN}\n{row['new_contents']}"


_BETWEEN = "message_and_contents_do_not_touch"


def common(rule: Rule, hashes: Hashes, files: Files) -> Mask:
    """Which of sorted distinct hashes are of licence notices or of more than `common_files` files."""
    lookup = Lookup(hashes)
    counts = np.zeros(len(hashes), np.int32)
    for batch in grouped(_texts(files), len, BATCH_BYTES):
        found = grams(batch, rule.n)
        hits, at = lookup.find(found.hashes)
        once = np.unique(found.owner[hits] * len(hashes) + at)
        np.add.at(counts, once % max(1, len(hashes)), 1)
    _, known = lookup.find(grams(NOTICES, rule.n).hashes)
    found_common = counts > rule.common_files
    found_common[known] = True
    return found_common


def needed(rule: Rule, sizes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Distinct n-grams in common from which texts overlap that have `sizes` of them: at least one."""
    share = np.ceil(sizes * rule.min_share - 1e-9)
    return np.maximum(1, np.minimum(rule.min_shared, share)).astype(np.int64)
