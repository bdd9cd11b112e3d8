"""What the model said before training: log-probabilities that KTO and DPO compare with.

In: items and the engine of a model whose training has not begun. Out: the same items with `reference` filled.
It is computed once, on all processes together, and kept in a file, so that a run that goes on after a
stop, whose model has changed, need not load the old one. A file of other items or another model is not used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from schemas.ids import content_id
from trainers.engine import Engine, Progress
from trainers.items import Floats32, Item


def key_of(items: Sequence[Item], model_key: str) -> str:
    """What the file of some items and a model is known by."""
    parts: list[str | bytes] = [model_key]
    for item in items:
        for ids, at, targets in zip(item.sequences, item.at, item.targets, strict=True):
            parts += [ids.tobytes(), at.tobytes(), targets.tobytes()]
    return content_id("reference", *parts)


def with_references(
    engine: Engine, items: Sequence[Item], path: Path, model_key: str, progress: Progress | None = None
) -> list[Item]:
    """Items with `reference`.

    Args:
        engine: runs the model as it is before training.
        items: any.
        path: the file.
        model_key: says which model it is.
        progress: see `Engine.infer`.
    """
    key = key_of(items, model_key)
    flat = _read(path, key)
    # All compute, or none does: a file may be on one machine only.
    if engine.world.most(int(flat is None)):
        found = engine.infer(items, progress)
        arrays = [array for one in found for array in one.logprobs]
        flat = np.concatenate([*arrays, np.empty(0, np.float32)]).astype(np.float32)
        if engine.world.rank == 0:
            _write(path, key, flat)
    if flat is None:
        raise AssertionError
    return _filled(items, flat)


def _filled(items: Sequence[Item], flat: Floats32) -> list[Item]:
    made, at = [], 0
    for item in items:
        parts = []
        for targets in item.targets:
            parts.append(flat[at : at + len(targets)])
            at += len(targets)
        made.append(dataclasses.replace(item, reference=tuple(parts)))
    return made


def _read(path: Path, key: str) -> Floats32 | None:
    try:
        with safe_open(path, framework="numpy") as file:
            if (file.metadata() or {}).get("key") != key:
                return None
            found: Floats32 = file.get_tensor("logprobs")
            return found
    except (OSError, SafetensorError, FileNotFoundError):
        return None


def _write(path: Path, key: str, flat: Floats32) -> None:
    partial = path.with_name(f".{path.name}.partial")
    save_file({"logprobs": flat}, partial, metadata={"key": key})
    partial.replace(path)
