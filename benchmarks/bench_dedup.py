"""Near-duplicate files a CPU-second, against datasketch on the same texts, and both against the truth.

    python benchmarks/bench_dedup.py --repo PATH [--repo PATH ...]

The texts are the new files of a history's edits, `MOST` at most, in the order of an edits table (path, time).
Everybody starts with the texts, makes the same shingles (runs of two lines without white space), signatures
of 128 minima, calls alike what has a Jaccard similarity of 0.75 and keeps the first of each cluster.

* assay: `miner.alike`, which compares exactly where the estimate leaves doubt.
* datasketch: MinHash.update_batch and MinHashLSH(threshold=0.75, num_perm=128), with the bands that it picks
  itself; pairs that it finds count when their estimate is 0.75.
* datasketch, same bands: the same with params=(32, 4), as assay has them. The default misses pairs.
* datasketch, same bands, exact: the same, but pairs count when the sets' exact similarity is 0.75.
* truth: the exact similarity of all pairs.

Printed: the ratios of CPU seconds to assay's (least of three, taking turns), in brackets without the peer's
shingling; the Jaccard similarity of the sets kept; of each side the precision and recall of what it drops. At
the end all histories together, measured once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from common import best, cores, cpu_seconds, repositories
from datasketch import MinHash, MinHashLSH
from scipy.sparse import csr_array  # type: ignore[import-untyped]

from miner.alike import alike_texts
from miner.config import MineConfig
from miner.edits import mine_unit, plan_mine
from miner.minhash import PERMUTATIONS, Clusters
from schemas.stage import Keep

MOST = 2000
THRESHOLD = 0.75
SAME_BANDS = (32, 4)

Shingles = set[bytes]


def shingles(text: str) -> Shingles:
    """The same shingles as assay's, as a peer makes them in Python."""
    data = text.encode("utf-8", "surrogatepass").translate(None, b" \t\r\f\v")
    lines = [line for line in data.split(b"\n") if line]
    return {a + b"\n" + b for a, b in itertools.pairwise(lines)} if len(lines) > 1 else set(lines)


def first_ones(clusters: Clusters) -> set[int]:
    """Positions that stay."""
    everybody = np.arange(len(clusters.parent))
    return set(np.flatnonzero(clusters.roots(everybody) == everybody).tolist())


def assay(texts: list[str]) -> set[int]:
    """Positions that stay."""
    return first_ones(alike_texts(texts, THRESHOLD))


def datasketch(
    documents: list[Shingles], bands: tuple[int, int] | None = None, exact: bool = False
) -> set[int]:
    """Positions that stay, by datasketch's MinHash and LSH and our union-find."""
    made = []
    for document in documents:
        signature = MinHash(num_perm=PERMUTATIONS)
        signature.update_batch(document)
        made.append(signature)
    index = MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, params=bands)
    clusters = Clusters(len(documents))

    def alike(one: int, other: int) -> bool:
        if not exact:
            return bool(made[one].jaccard(made[other]) >= THRESHOLD)
        if clusters.root(one) == clusters.root(other):
            return False
        common = len(documents[one] & documents[other])
        return common >= THRESHOLD * (len(documents[one]) + len(documents[other]) - common)

    for position, signature in enumerate(made):
        for other in index.query(signature):
            if alike(other, position):
                clusters.join(other, position)
        index.insert(position, signature)
    return first_ones(clusters)


def similar(documents: list[Shingles]) -> Iterator[tuple[int, int]]:
    """All pairs that are alike, exactly."""
    numbers: dict[bytes, int] = {}
    columns = [numbers.setdefault(one, len(numbers)) for document in documents for one in document]
    sizes = np.array([len(document) for document in documents])
    offsets = np.append(0, np.cumsum(sizes))
    shape = (len(documents), len(numbers))
    matrix = csr_array((np.ones(len(columns), np.int32), np.array(columns), offsets), shape=shape)
    for begin in range(0, len(documents), 200):
        common = (matrix[begin : begin + 200] @ matrix.T).tocoo()
        first, second = common.coords[0] + begin, common.coords[1]
        either = sizes[first] + sizes[second] - common.data
        found = (common.data >= THRESHOLD * either) & (first < second)
        yield from zip(first[found].tolist(), second[found].tolist(), strict=True)


def truth(documents: list[Shingles]) -> set[int]:
    """Positions that stay, by the exact similarity of all pairs."""
    clusters = Clusters(len(documents))
    for one, other in similar(documents):
        clusters.join(one, other)
    return first_ones(clusters)


def texts_of(repo: Path) -> list[str]:
    """New files of the first edits of a history, in the order of an edits table."""
    config = MineConfig()
    edits = (
        outcome.records[0]
        for unit in plan_mine(config, [repo], None)
        for outcome in mine_unit(config, unit)
        if isinstance(outcome, Keep)
    )
    some = sorted(itertools.islice(edits, MOST), key=lambda edit: (edit.path, edit.commit_time, edit.id))
    return [edit.new_contents for edit in some]


def same(one: set[int], other: set[int]) -> float:
    """Jaccard similarity of two sets of positions."""
    return len(one & other) / max(1, len(one | other))


def against(kept: set[int], true: set[int], count: int) -> str:
    """Similarity of what is kept to the truth; precision and recall of what is dropped."""
    dropped, wrong = count - len(kept), len(true - kept)
    hit = dropped - wrong
    found = (same(kept, true), hit / max(1, dropped), hit / max(1, count - len(true)))
    return "{:.3f} (drops: precision {:.3f}, recall {:.3f})".format(*found)


def compare(name: str, texts: list[str], rounds: int) -> None:
    """Measure and print one set of texts."""
    documents = [shingles(text) for text in texts]
    ways: dict[str, Callable[[], object]] = {
        "assay": lambda: assay(texts),
        "shingling": lambda: [shingles(text) for text in texts],
        "default": lambda: datasketch(documents),
        "same bands": lambda: datasketch(documents, SAME_BANDS),
    }
    spent = best(ways, rounds, cpu_seconds)
    kept = {
        "assay": assay(texts),
        "datasketch": datasketch(documents),
        "datasketch, same bands": datasketch(documents, SAME_BANDS),
        "datasketch, same bands, exact": datasketch(documents, SAME_BANDS, exact=True),
    }
    true = truth(documents)
    own = spent["assay"]
    told = ", ".join(
        f"{(spent[way] + spent['shingling']) / own:.1f} x datasketch, {way} ({spent[way] / own:.1f})"
        for way in ("default", "same bands")
    )
    print(f"{name}: {len(texts):,} files, {cores()}; {len(texts) / own:,.0f} files/CPU-s, {told}")
    print(f"  truth keeps {len(true):,}")
    for way, found in kept.items():
        print(
            f"  {way}: keeps {len(found):,}; to the truth {against(found, true, len(texts))};",
            f"to assay {same(found, kept['assay']):.3f}",
            flush=True,
        )


def main() -> None:
    """Print ratios for each repository and for all together."""
    everything: list[str] = []
    repos = repositories("near-duplicates a CPU-second")
    for repo in repos:
        texts = texts_of(repo)
        name = repo.parent.name if repo.name in ("repo", ".git") else repo.name
        if not texts:
            print(f"{name}: no edits")
            continue
        compare(name, texts, rounds=3)
        everything += texts
    if len(repos) > 1:
        compare("all together", everything, rounds=1)


if __name__ == "__main__":
    main()
