"""Where a run writes: the model's folder, which is there whole or not at all, and what a stopped run left.

`replacing` gives a new folder beside a path that takes its place on success and vanishes on an error; a
licence that somebody put into the old one stays.
`work_folder` is beside it too: the log as it grows, checkpoints, and what was computed once; it stays until
the run is finished. Errors are `AssayError`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from schemas.errors import AssayError
from schemas.ids import content_id
from trainers.tokenizer import first_line

LOCK = "lock"
"""Of the work folder: held by the training that is under way."""

_SAMPLES, _SAMPLE_BYTES = 64, 1 << 16


def work_folder(out_dir: Path) -> Path:
    """What belongs to an unfinished run of a model's folder."""
    return out_dir.with_name(f"{out_dir.name}.checkpoints")


_KEPT = ("LICENSE*", "NOTICE*")
"""What a person may put beside a model, so that it stays when the model is made anew."""


def fingerprint(model: str) -> str:
    """What tells the weights in a folder from others: names, sizes and samples of its files, since they may
    be too many bytes to read. Training changes all of a file. Empty for what is no folder."""
    folder = Path(model)
    parts: list[str | bytes] = []
    for path in sorted(folder.glob("*.safetensors")) if folder.is_dir() else ():
        size = path.stat().st_size
        parts += [path.name, str(size)]
        with path.open("rb") as file:
            for place in range(_SAMPLES):
                file.seek(max(0, size - _SAMPLE_BYTES) * place // (_SAMPLES - 1))
                parts.append(file.read(_SAMPLE_BYTES))
    return content_id("weights", *parts) if parts else ""


def check_place(path: Path) -> None:
    """Refuse a path where something is that no training run made: it would be lost.

    Raises:
        AssayError: there is.
    """
    if path.exists() and not (_is_empty(path) or _is_trained(path)):
        raise AssayError(
            f"{path}: exists and is not a trained model; remove it, or give another output folder"
        )


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _is_trained(path: Path) -> bool:
    # Run directories and evaluations have a run.json too, of other content.
    try:
        facts = json.loads((path / "run.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and {"objective", "config"} <= facts.keys()


@contextlib.contextmanager
def held(out_dir: Path) -> Iterator[None]:
    """Make the work folder of a model, and hold it against other trainings into the same place.

    Raises:
        AssayError: another one has it, or it cannot be made.
    """
    work = work_folder(out_dir)
    with writable(out_dir):
        work.mkdir(parents=True, exist_ok=True)
        handle = os.open(work / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AssayError(
                f"{out_dir}: another training writes there; wait for it or stop it, or give another folder"
            ) from None
        except OSError as error:
            # A file system that has no locks, as some of many machines have, is no reason not to train.
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
                raise
        yield
    finally:
        os.close(handle)


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
            for pattern in _KEPT:
                for kept in path.glob(pattern):
                    if kept.is_file() and not (fresh / kept.name).exists():
                        shutil.copy2(kept, fresh / kept.name)
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
