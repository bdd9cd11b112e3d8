"""Evaluate a reward model on pairs: how often, and how surely, it prefers the chosen side.

In: a model folder and shards of pairs. Out, in `out_dir`: `scores.parquet` (a `Score` a pair),
`drops.jsonl` (a line a pair that could not be scored, with its reason) and `results.json`:

    model, model_sha256, seed
    max_length, min_completion, truncation, long_prompt: see `trainers.data`
    rows = pairs + sum of dropped, by reason
    windowed, prompts_cut: pairs of whose completions or prompts only a part was read
    overall, by_aspect, by_language: see `metrics.summary`; overall also `metrics.intervals`
    macro_aspect, macro_language: mean accuracy over the groups, each with its `_ci95`
    baselines: accuracy of `longer_wins` and `shorter_wins`, by characters of the whole sides
    by_length: the model's accuracy where the chosen side is longer, shorter, or as long
    length_correlation: Pearson's r of the score margin and the length difference

The sides are scored independently of each other, though what both begin with is computed once. A file is
replaced whole or not at all, results.json last. No pairs give valid files with nulls. Errors: `AssayError`,
`ShardError`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schemas.errors import AssayError
from schemas.records import Score
from schemas.shards import file_sha256, write_shard, write_text
from trainers import data, metrics
from trainers.score import Scorer


def evaluate(
    model_dir: str | Path,
    shards: Sequence[Path],
    out_dir: Path,
    *,
    batch_size: int = 16,
    max_length: int = 0,
    seed: int = 0,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Score every pair of some shards and write what that says of the model.

    Args:
        model_dir: folder or Hub id of a reward model.
        shards: Parquet shards of pairs, in any order.
        out_dir: where the three files go; made when missing.
        batch_size: sequences in one forward pass; results do not depend on it beyond float rounding.
        max_length: tokens of a side; 0 takes what the model was trained with, else 4096.
        seed: seed of the bootstrap.
        progress: called with `{"event": "score", "done": sequences, "total": sequences, ...}`.

    Returns:
        The content of `results.json`.

    Raises:
        AssayError: the model or a shard cannot be used, or an argument is out of range.
    """
    if batch_size < 1 or max_length < 0:
        raise AssayError(f"evaluation: batch_size {batch_size} and max_length {max_length} must be positive")
    scorer = Scorer(model_dir)
    cutting = scorer.cut_to(max_length)
    pairs, account = data.encode_pairs(data.read_pairs(shards), scorer.tokenizer, cutting)
    sequences = [pair.chosen for pair in pairs] + [pair.rejected for pair in pairs]

    def report(done: int) -> None:
        if progress is not None:
            progress({"event": "score", "done": done, "total": len(sequences)})

    numbers = [*range(len(pairs)), *range(len(pairs))]
    chosen, rejected = np.split(scorer.score_ids(sequences, batch_size, report, numbers), 2)
    texts = [pair.pair for pair in pairs]
    long, other = (
        np.array([len(side) for side in sides], dtype=np.float64)
        for sides in ([text.chosen for text in texts], [text.rejected for text in texts])
    )
    names = {"aspect": [text.aspect for text in texts], "language": [text.language for text in texts]}
    by_aspect = metrics.by_group(chosen, rejected, names["aspect"], seed, "aspect")
    by_language = metrics.by_group(chosen, rejected, names["language"], seed, "language")
    spread = {kind: metrics.macro_ci(chosen, rejected, own, seed, kind) for kind, own in names.items()}
    results = {
        "model": scorer.name,
        "model_sha256": _weights_digest(Path(model_dir)),
        **dataclasses.asdict(cutting),
        "seed": seed,
        "rows": account.rows,
        "pairs": account.kept,
        "dropped": account.by_reason(),
        **account.noted,
        "overall": {
            **metrics.summary(chosen, rejected, seed, "overall"),
            **metrics.intervals(chosen, rejected, seed, "overall"),
        },
        "by_aspect": by_aspect,
        "by_language": by_language,
        "macro_aspect": metrics.macro(by_aspect),
        "macro_language": metrics.macro(by_language),
        "macro_aspect_ci95": spread["aspect"]["ties_half"],
        "macro_language_ci95": spread["language"]["ties_half"],
        **metrics.length_bias(chosen, rejected, long, other, seed),
    }
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    rows = [
        Score(
            id=text.idx,
            aspect=text.aspect,
            language=text.language,
            chosen_score=float(good),
            rejected_score=float(bad),
        )
        for text, good, bad in zip(texts, chosen, rejected, strict=True)
    ]
    write_shard(out_dir / "scores.parquet", Score, rows)
    data.write_drops(out_dir / "drops.jsonl", {"evaluation": account})
    write_text(out_dir / "results.json", json.dumps(results, indent=1, allow_nan=False) + "\n")
    return results


def _weights_digest(folder: Path) -> str | None:
    weights = folder / "model.safetensors"
    return file_sha256(weights) if weights.is_file() else None
