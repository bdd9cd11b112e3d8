"""The log of a run: one dict a line, in `train.jsonl`, for the progress callback and for trackers.

Lines are `{"event": "step", ...}`, `{"event": "dev", ...}` and, for the callback only, what long preparations
say. A run that goes on after a stop keeps the lines of the steps that it does not repeat. A tracker whose
package is missing raises `AssayError`.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from schemas.errors import AssayError

Progress = Callable[[dict[str, Any]], None]


class Tracker(Protocol):
    """A place where numbers of a step go."""

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Log some numbers."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


class TensorBoard:
    """Event files in a folder."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise AssayError(
                "train.trackers: tensorboard is not installed; pip install tensorboard"
            ) from None
        make: Any = SummaryWriter
        self._writer = make(str(folder))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """See `Tracker`."""
        self._writer.close()


class WeightsAndBiases:
    """A run of Weights & Biases; its own environment variables say where and as what."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        try:
            import wandb  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise AssayError("train.trackers: wandb is not installed; pip install wandb") from None
        folder.mkdir(parents=True, exist_ok=True)
        self._run: Any = wandb.init(dir=str(folder), config=dict(config))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """See `Tracker`."""
        self._run.finish()


def trackers(names: Sequence[str], folder: Path, config: Mapping[str, Any]) -> list[Tracker]:
    """The trackers of a run; they write below `folder`.

    Raises:
        AssayError: a package is missing.
    """
    return [
        TensorBoard(folder / name) if name == "tensorboard" else WeightsAndBiases(folder / name, config)
        for name in names
    ]


class Log:
    """See the module.

    Attributes:
        dev: the newest evaluation.
        last: the newest line of each event that an earlier process left, without its time.
        tokens: of all steps.
    """

    def __init__(
        self,
        path: Path | None,
        progress: Progress | None = None,
        kept: int = 0,
        tracked: Sequence[Tracker] = (),
    ) -> None:
        """
        Args:
            path: the file of lines; None writes none, as processes that are not the first do.
            progress: called with each line as it is written.
            kept: steps whose lines stay in the file.
            tracked: where numbers go too.
        """
        self._started = time.monotonic()
        self._progress, self._tracked = progress, tracked
        self.dev: dict[str, Any] | None = None
        self.last: dict[str, dict[str, Any]] = {}
        self.tokens = 0
        self._file = None
        if path is not None:
            lines = _kept(path, kept)
            for text in lines:
                line = json.loads(text)
                self.last[line.get("event", "")] = {k: v for k, v in line.items() if k != "seconds"}
            path.write_text("".join(lines))
            self._file = path.open("a")

    def tell(self, line: dict[str, Any]) -> None:
        """Say something that is not kept."""
        if self._progress is not None:
            self._progress(line)

    def _emit(self, line: dict[str, Any]) -> dict[str, Any]:
        line["seconds"] = round(time.monotonic() - self._started, 3)
        if self._file is not None:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        self.tell(line)
        numbers = {
            f"{line['event']}/{name}": float(value)
            for name, value in line.items()
            if type(value) in (int, float) and name not in ("step", "steps")
        }
        for tracker in self._tracked:
            tracker.add(line["step"], numbers)
        return line

    def step(self, line: dict[str, Any]) -> dict[str, Any]:
        """Log a step; its `tokens` become those since the start."""
        self.tokens += int(line["tokens"])
        return self._emit({"event": "step", **line, "tokens": self.tokens})

    def evaluation(self, step: int, result: dict[str, Any]) -> None:
        """Log an evaluation and remember it as the newest; one that is there already is not written again."""
        self.dev = result
        if self.last.get("dev", {}).get("step") == step:
            return
        self._emit({"event": "dev", "step": step, **result})

    def close(self) -> None:
        """Close files and trackers."""
        if self._file is not None:
            self._file.close()
        for tracker in self._tracked:
            tracker.close()


def _kept(path: Path, steps: int) -> list[str]:
    """The whole lines of a file that speak of at most so many steps."""
    kept = []
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        for line in path.read_text().splitlines(keepends=True):
            if not line.endswith("\n") or json.loads(line)["step"] > steps:
                break
            kept.append(line)
    return kept
