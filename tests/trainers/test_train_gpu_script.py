"""The script that a GPU is measured with runs on a CPU, all of it, and leaves out what it has no time for."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]

LINES = [
    r"CPU, 1 threads, torch \S+, 8 minutes",
    r"products of 256 x 256 in bfloat16: [\d.]+ TFLOP/s",
    r"== exactness of attention ==",
    r"kernel varlen, 4 heads, 2 key heads of 128: left out, it needs cuda",
    r"kernel flash, 4 heads, 2 key heads of 128: left out, it needs cuda",
    r"a step of 2 pairs, 2 layers; reference: padded, float32, loss [\d.]+",
    r"  packed float32  by segments: loss off by (\S+), gradient by (\S+) of its length",
    r"  prefix float32  by segments: loss off by (\S+), gradient by (\S+) of its length",
    r"  padded bfloat16 by sdpa    : loss off by (\S+), gradient by (\S+) of its length",
    r"  packed bfloat16 by segments: loss off by (\S+), gradient by (\S+) of its length",
    r"  prefix bfloat16 by segments: loss off by (\S+), gradient by (\S+) of its length",
    r"== tiny: 0.00 B parameters, steps of 4 pairs, [\d,]+ tokens of sides, [\d,]+ without what .* share ==",
    r"  ours, TRL's loss: [\d,]+ tokens/s, [\d,]+ unique, .* MFU not known here, .* GiB as computed",
    r"  ours, Themis's loss: [\d,]+ tokens/s, [\d,]+ unique, .* MFU not known here, .* GiB as computed",
    r"  padded as TRL, best of 4 ways .*: [\d,]+ tokens/s, .*; ours takes [\d.]+x as many tokens a second",
    r"== save, resume, export: 0.00 B parameters ==",
    r"save: [\d.]+ s for [\d.]+ GiB",
    r"resume: [\d.]+ s to build the model and load step 2 of 4 into it",
    r"the resumed run's weights are bit-equal to those of the run that went through",
    r"export: [\d.]+ s",
    r"the exported model, loaded by transformers, gives scores that are off by (\S+)",
    r"\d+ s in all",
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "benchmarks/gpu_train.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_every_line_is_printed_and_what_is_exact_on_a_cpu_is_exact() -> None:
    done = run("--cpu", "--tiny", "--without-trl")
    assert done.returncode == 0, done.stderr[-3000:]
    printed = [line for line in done.stdout.splitlines() if line]
    assert len(printed) == len(LINES), done.stdout
    off: list[list[float]] = []
    for pattern, line in zip(LINES, printed, strict=True):
        found = re.fullmatch(pattern, line)
        assert found, f"{line!r} is not {pattern!r}"
        off.append([float(value) for value in found.groups()])
    for loss, gradient in off[6:8]:
        assert loss < 1e-5
        assert gradient < 1e-5
    # Half precision is as far off whichever way tokens lie.
    (_, padded), *others = off[8:11]
    for _, gradient in others:
        assert gradient < 1.5 * padded


def test_what_there_is_no_time_for_is_named_and_not_run() -> None:
    done = run("--cpu", "--tiny", "--without-trl", "--minutes", "0.0001")
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"^tiny: left out, it takes about 1 s and 0 s are left$", done.stdout, re.MULTILINE)
    assert re.search(r"^save, resume, export: left out, it takes", done.stdout, re.MULTILINE)
    assert "tokens/s" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is no CUDA device; --cpu --tiny shows that the script runs"),
        (("--cpu", "--tiny", "--sizes", "7b"), "--sizes: 7b is none of tiny"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if torch.cuda.is_available() and not arguments:
        pytest.skip("there is CUDA")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(sys, "argv", ["gpu_train.py", *arguments])
    with pytest.raises(SystemExit) as stop:
        importlib.import_module("gpu_train").main()
    assert stop.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
