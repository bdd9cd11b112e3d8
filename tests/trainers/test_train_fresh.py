"""Two runs in processes of their own: what they need, and that they give the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from train_helpers import made_pairs, shard

SCRIPT = Path(__file__).parent / "fresh_run.py"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders of two runs whose processes differ in all that should not matter."""
    folder = tmp_path_factory.mktemp("fresh")
    part = shard(folder / "part-a.parquet", made_pairs(30))
    settings = ({"RAYON_NUM_THREADS": "1", "PYTHONHASHSEED": "1"}, {"TOKENIZERS_PARALLELISM": "true"})
    started = []
    for number, extra in enumerate(settings):
        # Threads that wait by spinning would slow a busy machine down for everyone.
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE", **extra}
        out = folder / str(number)
        process = subprocess.Popen(
            [sys.executable, SCRIPT, part, out],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append((process, out))
    outputs = [(process.communicate(timeout=240)[0], process.returncode, out) for process, out in started]
    for output, code, _ in outputs:
        assert code == 0, output
        assert output == ""
    return [out for _, _, out in outputs]


def test_training_and_evaluation_need_only_torch_and_its_companions(runs: list[Path]) -> None:
    for out in runs:
        assert json.loads((out / "evaluation" / "results.json").read_text())["pairs"] == 30


@pytest.mark.parametrize(
    "name", ["model.safetensors", "tokenizer.json", "tokenizer_config.json", "config.json", "README.md"]
)
def test_two_runs_of_the_same_seed_and_threads_give_the_same_bytes(runs: list[Path], name: str) -> None:
    first, second = ((out / "rm" / name).read_bytes() for out in runs)
    assert first == second


@pytest.mark.parametrize("name", ["results.json", "scores.parquet", "drops.jsonl"])
def test_two_evaluations_give_the_same_bytes(runs: list[Path], name: str) -> None:
    first, second = ((out / "evaluation" / name).read_bytes() for out in runs)
    assert first == second
