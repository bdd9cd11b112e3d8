"""Near-duplicate files a CPU-second, against datasketch on the same shingles.

    python benchmarks/bench_dedup.py --repo PATH [--repo PATH ...]

Both make signatures of 128 minima of the same shingles of the new file of each edit, find the pairs above an
estimated similarity of 0.75 and keep the first of each cluster. Also printed: the Jaccard similarity of
the two kept sets.
"""

from __future__ import annotations

from common import best, cores, cpu_seconds, repositories
from datasketch import MinHash, MinHashLSH

from miner.config import MineConfig
from miner.edits import mine_unit, plan_mine
from miner.nearduplicates import PERMUTATIONS, Clusters, alike, shingles, signatures
from schemas.stage import Keep

MOST = 2000
THRESHOLD = 0.75


def ours(documents: list[list[str]]) -> set[int]:
    """Positions that stay."""
    matrix = signatures(documents)
    clusters = Clusters(len(documents))
    for one, other in alike(matrix, THRESHOLD):
        clusters.join(one, other)
    return {position for position in range(len(documents)) if clusters.root(position) == position}


def datasketch(documents: list[list[str]]) -> set[int]:
    """The same with datasketch: its MinHash, its LSH, and our union-find."""
    made = []
    for document in documents:
        signature = MinHash(num_perm=PERMUTATIONS)
        signature.update_batch([token.encode("utf-8", "surrogatepass") for token in document])
        made.append(signature)
    index = MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS)
    clusters = Clusters(len(documents))
    for position, signature in enumerate(made):
        for other in index.query(signature):
            if made[other].jaccard(signature) >= THRESHOLD:
                clusters.join(other, position)
        index.insert(position, signature)
    return {position for position in range(len(documents)) if clusters.root(position) == position}


def main() -> None:
    """Print rates and the ratio for each repository."""
    config = MineConfig()
    for repo in repositories("near-duplicates a CPU-second"):
        documents: list[list[str]] = []
        for unit in plan_mine(config, [repo], None):
            for outcome in mine_unit(config, unit):
                if isinstance(outcome, Keep) and len(documents) < MOST:
                    text = outcome.records[0].new_contents
                    documents.append(shingles([line for raw in text.split("\n") if (line := raw.strip())]))
        if not documents:
            print(f"{repo.name}: no edits")
            continue
        kept = {"assay": ours(documents), "datasketch": datasketch(documents)}
        ways = {"assay": lambda d=documents: ours(d), "datasketch": lambda d=documents: datasketch(d)}
        times = best(ways, rounds=3, clock=cpu_seconds)
        same = len(kept["assay"] & kept["datasketch"]) / len(kept["assay"] | kept["datasketch"])
        print(
            f"{repo.name}: {len(documents):,} files, {cores()};",
            f"{len(documents) / times['assay']:,.0f} files/CPU-s,",
            f"{times['datasketch'] / times['assay']:.1f} x datasketch;",
            f"kept {len(kept['assay']):,} and {len(kept['datasketch']):,}, Jaccard {same:.3f}",
        )


if __name__ == "__main__":
    main()
