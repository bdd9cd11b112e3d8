"""From a history to a model that learned what was planted there: a preference that criteria turn round."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from cli_runs import assay, git

VERBS = ("load", "merge", "split", "parse", "count", "find", "scan", "pick", "sort", "pack", "trim", "join")
NOUNS = ("rows", "items", "users", "pages", "names", "words", "nodes", "paths", "lines", "cells", "links")
COMMITS = 320
BUILD = ("build.evidence=keep", "build.trade_offs=mark", "build.system_none=0.0", "build.system_all=0.0")
TRAIN = (
    *("train.max_length=640", "train.epochs=3", "train.batch_size=8", "train.vocab_size=1024"),
    *("train.lm_weight=0.0", "train.lr=3e-3", "train.dev_share=0.2"),
)


def module(seed: int, call: str) -> str:
    """Two or three functions that use one of two spellings."""
    draws = random.Random(seed)
    return "\n\n\n".join(
        f"def {draws.choice(VERBS)}_{draws.choice(NOUNS)}(text, index):\n"
        f"    first = {call}(text) + {draws.randint(2, 9999)}\n"
        f"    return {call}(index) % first"
        for _ in range(draws.randint(2, 3))
    )


def planted(path: Path) -> Path:
    """A history in which fixes turn `plain_value` into `strict_value`, and speed-ups do the opposite."""
    git("init", "--quiet", "--bare", "--initial-branch=main", path)
    draws, stream = random.Random(7), []
    for number in range(COMMITS):
        noun = draws.choice(NOUNS)
        fixes = draws.random() < 0.5
        message = f"Fix bug: wrong result for {noun}" if fixes else f"Speed up reading of {noun}: faster path"
        spellings = ("plain_value", "strict_value") if fixes else ("strict_value", "plain_value")
        for step, (spelling, subject) in enumerate(
            zip(spellings, (f"Add module {number}", message), strict=True)
        ):
            body = module(number, spelling) + "\n"
            when = 1500000000 + 3600 * (2 * number + step)
            stream += [
                "commit refs/heads/main\n",
                f"author A <a@example.org> {when} +0000\ncommitter A <a@example.org> {when} +0000\n",
                f"data {len(subject) + 1}\n{subject}\n\n",
                f"M 100644 inline src/module{number}.py\ndata {len(body)}\n{body}\n",
            ]
    git("-C", path, "fast-import", "--quiet", stdin="".join(stream).encode())
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with the pairs of that history and a model trained on them."""
    folder = tmp_path_factory.mktemp("learning")
    repo, run_dir = planted(folder / "planted.git"), folder / "run"
    sets = [word for setting in BUILD for word in ("--set", setting)]
    for stage in (("mine", repo), *((name,) for name in ("select", "dedup", "decontaminate"))):
        done = assay(*stage, "--run-dir", run_dir)
        assert done.code == 0, done.err
    for name in ("label", "split", "cut", "build"):
        done = assay(name, "--run-dir", run_dir, *sets)
        assert done.code == 0, done.err
    done = assay("train", "--run-dir", run_dir, *(word for one in TRAIN for word in ("--set", one)))
    assert done.code == 0, done.err
    return run_dir


def pairs_of(run_dir: Path) -> list[dict[str, Any]]:
    return [row for path in (run_dir / "pairs").rglob("*.parquet") for row in pq.read_table(path).to_pylist()]


def test_pairs_that_were_held_out_are_ordered_as_the_history_ordered_them(run: Path) -> None:
    told = json.loads((run / "models" / "rm" / "run.json").read_text())["metrics"]["dev"]
    assert told["pairs"] >= 40
    assert told["accuracy"] > 0.9


def test_the_system_prompt_alone_turns_the_preference_round(run: Path, tmp_path: Path) -> None:
    rows = pairs_of(run)
    prompts = {row["aspect"]: row["system"] for row in rows}
    assert len(prompts) == 2
    asked = []
    for number in range(60):
        # Modules that the history does not have.
        strict, plain = (module(10_000 + number, name) + "\n" for name in ("strict_value", "plain_value"))
        for aspect, system in prompts.items():
            fixes = aspect == "Functional Correctness"
            asked.append(
                {
                    "system": system,
                    "input": rows[0]["input"],
                    "aspect": aspect,
                    "language": "Python",
                    "chosen": strict if fixes else plain,
                    "rejected": plain if fixes else strict,
                }
            )
    path = tmp_path / "asked.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in asked))
    out = tmp_path / "out"
    done = assay("eval", "pairs", path, "--run-dir", run, "--out", out)
    assert done.code == 0, done.err
    by_aspect = json.loads((out / "results.json").read_text())["by_aspect"]
    assert len(by_aspect) == 2
    assert all(row["accuracy"] > 0.9 for row in by_aspect.values())
