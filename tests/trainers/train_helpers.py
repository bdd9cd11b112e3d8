"""Small preference shards made from nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from schemas.records import PreferencePair
from schemas.shards import write_shard

TINY = {"vocab_size": 512, "max_length": 192, "batch_size": 4, "threads": 1}
"""Settings with which a run takes a second or two."""


def pair_row(idx: str, chosen: str, rejected: str, **other: Any) -> dict[str, Any]:
    """A row of a pairs shard with everything but the text filled in."""
    row: dict[str, Any] = {
        "system": "",
        "input": "Improve this function.",
        "chosen": chosen,
        "rejected": rejected,
        "language": "Python",
        "aspect": "Functional Correctness",
        "source": "made",
        "idx": idx,
        "repo": "made/up",
        "commit": f"c{idx}",
        "path": "a.py",
        "license": "MIT",
        "evidence": {
            "edit_id": idx,
            "labeler": "test",
            "method": "rule",
            "confidence": 1.0,
            "single_intent": 1.0,
            "scores": [],
            "terms": [],
            "subject": "s",
            "instruction_by": "test",
            "system_kind": "none",
            "level": "file",
            "names": [],
            "measures": [],
            "bearings": [],
            "share": None,
            "strength": None,
            "specificity": None,
            "votes": [],
            "trade_offs": [],
            "made_by": None,
            "detail": None,
            "merged_by": None,
            "instruction_kind": "given",
            "instruction_style": None,
        },
        "split": "train",
    }
    return {**row, **other}


def made_pairs(count: int, seed: int = 0, **other: Any) -> list[dict[str, Any]]:
    """Pairs whose chosen side checks its argument, of many lengths, in two languages and aspects."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        name = rng.choice(["load", "read", "parse", "merge", "split"])
        noise = "".join(f"    x{i} = {rng.randrange(1000)}\n" for i in range(rng.randrange(0, 30)))
        chosen = f"def {name}(value):\n{noise}    if value is None:\n        return []\n    return value\n"
        rejected = f"def {name}(value):\n{noise}    return eval(value)\n"
        extra = {
            "language": rng.choice(["Python", "Go"]),
            "aspect": rng.choice(["Functional Correctness", "Security Hardness"]),
            **other,
        }
        rows.append(pair_row(f"{seed}-{number:04d}", chosen, rejected, **extra))
    return rows


def shard(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as a shard of pairs."""
    write_shard(path, PreferencePair, rows)
    return path
