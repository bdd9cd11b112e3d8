"""Run by tests in a fresh process: train and evaluate where only torch's companions can be imported.

python fresh_run.py SHARD FOLDER
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

MISSING = {
    *("accelerate", "datasets", "datatrove", "litellm", "pandas", "polars", "pygit2", "rich", "sklearn"),
    *("tree_sitter", "tree_sitter_python", "trl", "typer", "xxhash"),
}


class WithoutMissing(PathFinder):
    """Finds what is installed, but for `MISSING`: to `import` and to `find_spec` these are not there."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a module, None when it is hidden."""
        return None if fullname.partition(".")[0] in MISSING else super().find_spec(fullname, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutMissing

import importlib  # noqa: E402
import pkgutil  # noqa: E402
from pathlib import Path  # noqa: E402

import trainers  # noqa: E402


def main(shard: Path, folder: Path) -> None:
    """Import every module of the room, then train and evaluate."""
    assert not MISSING & {name.partition(".")[0] for name in sys.modules}
    for module in pkgutil.iter_modules(trainers.__path__):
        importlib.import_module(f"trainers.{module.name}")
    from trainers.config import TrainConfig
    from trainers.evaluate import evaluate
    from trainers.loop import train

    config = TrainConfig(vocab_size=512, max_length=96, max_steps=3, eval_every=2, threads=2)
    train(config, [shard], folder / "rm")
    evaluate(folder / "rm", [shard], folder / "evaluation")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
