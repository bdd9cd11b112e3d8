"""Where a run writes: the model's folder, which is there whole or not at all, and what a stopped run left.

`replacing` gives a new folder beside a path that takes its place on success and vanishes on an error.
`work_folder` is beside it too: the log as it grows, checkpoints, and what was computed once; it stays until
the run is finished. Errors are `AssayError`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from schemas.errors import AssayError
from trainers.tokenizer import first_line


def work_folder(out_dir: Path) -> Path:
    """What belongs to an unfinished run of a model's folder."""
    return out_dir.with_name(f"{out_dir.name}.checkpoints")


def check_place(path: Path) -> None:
    """Refuse a path where something is that no training run made.

    Raises:
        AssayError: there is.
    """
    if path.exists() and not (path / "run.json").is_file():
        raise AssayError(f"{path}: exists and is not a trained model; give another output folder")


@contextlib.contextmanager
def writable(path: Path) -> Iterator[None]:
    """Tell what stands in the way of writing a model.

    Raises:
        AssayError: it cannot be written.
    """
    try:
        yield
    except BrokenPipeError:
        # It is of whoever watches the progress.
        raise
    except (OSError, SafetensorError) as error:
        # safetensors has an error of its own for a full disk.
        why = getattr(error, "strerror", None) or first_line(error)
        raise AssayError(
            f"{path}: the model cannot be written ({why}); free the place or its rights"
        ) from None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new folder beside `path` that takes its place on success and vanishes on an error.

    Raises:
        AssayError: `path` is something that no training run made, or it cannot be written.
    """
    with writable(path), _fresh_folder(path) as fresh:
        yield fresh


def tidy(path: Path) -> None:
    """Make the folder that `path` is in, and clear what killed processes left there of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.name}.*.partial"):
        # What a killed process left; a live one's stays.
        if _alive(left.name.split(".")[-2]):
            continue
        if ".old." in left.name and not path.exists():
            # Killed between the two renames: the older model is whole and takes its place again.
            left.rename(path)
        else:
            shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def _fresh_folder(path: Path) -> Iterator[Path]:
    check_place(path)
    tidy(path)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.partial")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        yield fresh
        # A folder cannot be renamed onto one with files in it, so the old model steps aside first.
        old = path.with_name(f".{path.name}.old.{os.getpid()}.partial")
        if path.exists():
            path.rename(old)
        try:
            fresh.rename(path)
        except BaseException:
            if old.exists():
                old.rename(path)
            raise
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
