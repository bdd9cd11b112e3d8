"""Train on a machine that has torch and its companions only, on one process or under torchrun:

    python -m trainers train.toml --data runs/mine/pairs/train --out models/rm
    torchrun --nproc-per-node 8 -m trainers train.toml --data runs/mine/pairs/train --out models/rm

In: a TOML file of settings (a `[train]` table, or its settings at the top, as `train.toml` beside a model has
them) and Parquet shards or folders of them. Out: see `trainers.loop`. Exit status: 0 done, 2 bad input, 130
stopped with its state saved.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.config import parse_toml, read_toml
from schemas.errors import AssayError
from trainers.config import TrainConfig


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m trainers", description="Train a model from shards.")
    parser.add_argument("settings", type=Path, help="TOML file with the settings of `[train]`")
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="shards, or folders of them")
    parser.add_argument("--dev", type=Path, nargs="*", default=[], help="shards to evaluate on")
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting")
    parser.add_argument("--key", default="", help="kept in run.json")
    parser.add_argument(
        "--resume",
        choices=("auto", "changed", "never"),
        default="auto",
        help="go on from the newest checkpoint (auto), also with other settings (changed), or start anew",
    )
    parser.add_argument("--json", action="store_true", help="print every line of the log as JSON")
    given = parser.parse_args(arguments)
    try:
        config = settings_of(given.settings, given.set)
        data, dev = shards_of(given.data), shards_of(given.dev)
        apart(data, dev)
        from trainers.loop import train

        result = train(
            config,
            data,
            given.out,
            dev_shards=dev,
            key=given.key,
            progress=_as_json if given.json else _as_text,
            resume=given.resume,
        )
    except AssayError as error:
        _tell(f"trainers: {' '.join(str(error).splitlines())}")
        return 2
    except KeyboardInterrupt as stop:
        _tell(f"trainers: {stop or 'stopped'}")
        return 130
    if _first():
        print(f"{result.out_dir}: {result.steps} steps in {result.seconds:.1f} s", flush=True)
    return 0


def settings_of(path: Path, changes: Sequence[str] = ()) -> TrainConfig:
    """The settings of a file, some of them changed.

    Args:
        path: TOML with a table `[train]`, or with its settings at the top.
        changes: `name=value`, the value in TOML or plain text.

    Raises:
        AssayError: it cannot be read, or a setting is not known or has another type.
    """
    values: dict[str, Any] = parse_toml(read_toml(path, "file of settings"), str(path))
    table = values.get("train", values)
    if not isinstance(table, dict):
        raise AssayError(f"{path}: train must be a table of settings")
    for change in changes:
        name, equals, text = change.removeprefix("train.").partition("=")
        if not equals:
            raise AssayError(f"--set {change}: give NAME=VALUE")
        table[name.strip()] = _value(text.strip())
    return TrainConfig.from_mapping(table)


def _value(text: str) -> Any:
    with contextlib.suppress(AssayError):
        return parse_toml(f"value = {text}", "--set")["value"]
    return text


def shards_of(paths: Sequence[Path]) -> list[Path]:
    """Shards, and those in folders, by name.

    Raises:
        AssayError: a path is not there, a folder has none, or one is named twice: its rows would count twice.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.glob("*.parquet"))
            if not inside:
                raise AssayError(f"{path}: has no .parquet files")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise AssayError(f"{path}: no such file or folder")
    once: set[Path] = set()
    for path in found:
        if path.resolve() in once:
            raise AssayError(f"{path}: is named twice; name it once")
        once.add(path.resolve())
    return found


def apart(data: Sequence[Path], dev: Sequence[Path]) -> None:
    """Refuse shards that are trained on and evaluated on: such an evaluation says nothing.

    Raises:
        AssayError: there is one.
    """
    trained = {path.resolve() for path in data}
    for path in dev:
        if path.resolve() in trained:
            raise AssayError(f"{path}: is named by both --data and --dev; name it by one")


def _first() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _tell(text: str) -> None:
    if _first():
        print(text, file=sys.stderr, flush=True)


def _as_json(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def _as_text(line: dict[str, Any]) -> None:
    shown = (
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in line.items()
    )
    print(", ".join(shown), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
