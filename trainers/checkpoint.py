"""Checkpoints: all that a run needs to go on as if it had not been stopped.

In: model, optimizer and the loop's own numbers. Out: a folder `step-00000123` with torch's distributed
checkpoint (trained weights and the optimizer's state, each by name and whole shape, so that any number of
processes reads what any other number wrote), `generators-*.json` (states of random generators, a file a
process) and, written last, `state.json`: the loop's numbers, which run it is of, and the other files' sizes.

A folder is written under another name, synced and renamed, so one that a killed process left is never taken
for a checkpoint. `latest` and `best` are files with the name of one; they are replaced, never written to. All
processes need the same folder.

Raises `AssayError` when a checkpoint is damaged, of another run or of another model, or cannot be written.
What is read is data: names of classes in it that no checkpoint has are refused.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load as read_tensors
from torch.distributed.checkpoint.state_dict_saver import save as write_tensors

from schemas.errors import AssayError
from trainers import generators
from trainers.parallel import at_rest
from trainers.tokenizer import first_line
from trainers.world import Alone, World

FORMAT = 1
LATEST, BEST = "latest", "best"
_STATE, _METADATA = "state.json", ".metadata"
_LOWER_IS_BETTER = {"loss", "ece", "brier", "nll", "mse", "mae", "rmse", "kl", "error"}

Tell = Callable[[str], None]


def better(metric: str, new: float, old: float) -> bool:
    """Whether a value of a metric is better than another: lower for losses and errors, else higher. Any is
    better than one that is not a number."""
    if math.isnan(new) or math.isnan(old):
        return math.isnan(old) and not math.isnan(new)
    lower = _LOWER_IS_BETTER & set(re.split(r"[^a-z0-9]+", metric.lower()))
    return new < old if lower else new > old


def metric_of(result: Mapping[str, Any], name: str) -> float:
    """A number of an evaluation.

    Raises:
        AssayError: it has none of that name, or the rows have none.
    """
    if name in result and result[name] is None:
        raise AssayError(
            f"train.keep_best: the development rows have no {name}, since it needs several of them that "
            "differ; raise train.dev_share, or choose another number"
        )
    numbers = {
        key: float(value)
        for key, value in result.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    if name not in numbers:
        raise AssayError(
            f"train.keep_best: the evaluation has no number {name!r}; it has {', '.join(sorted(numbers))}"
        )
    return numbers[name]


def save(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Any],
    *,
    identity: Mapping[str, Any],
    world: World,
    keep_last: int,
    best: bool = False,
) -> Path:
    """Write a checkpoint, in place of one of the same step; every process calls this.

    Args:
        folder: where checkpoints lie.
        model: the model.
        optimizer: its optimizer.
        state: the loop's numbers, JSON-like, with `step`.
        identity: which run it is of, JSON-like.
        world: the processes.
        keep_last: newest checkpoints that stay.
        best: whether it is the best so far by the run's metric; then it stays until a better one comes.

    Returns:
        Its folder.

    Raises:
        AssayError: it cannot be written; those before it stay.
    """
    name = f"step-{int(state['step']):08d}"
    partial = folder / f".{name}.partial"
    weights = _weights(model)
    moments = _moments(model, optimizer)

    def write() -> None:
        with _distributed():
            write_tensors(
                {**weights, **moments},
                storage_writer=FileSystemWriter(partial),
                no_dist=isinstance(world, Alone),
            )
        (partial / _generators_file(world.rank)).write_text(json.dumps(generators.states(world.device)))

    def finish() -> None:
        missing = [rank for rank in range(world.size) if not (partial / _generators_file(rank)).is_file()]
        if missing:
            raise AssayError(
                f"what process {missing[0]} wrote is not there: all processes need the same folder"
            )
        told = {
            "format": FORMAT,
            "state": dict(state),
            "identity": dict(identity),
            "processes": world.size,
            "optimizer": sorted({key.rpartition(".")[0] for key in moments}),
            "files": {path.name: path.stat().st_size for path in sorted(partial.iterdir())},
        }
        (partial / _STATE).write_text(json.dumps(told))
        _sync(partial)
        _replace(partial, folder / name)
        for pointer in (LATEST, BEST) if best else (LATEST,):
            _point(folder, pointer, name)
        _sweep(folder, keep_last)

    try:
        _together(world, folder, lambda: _clear(partial), alone=True)
        _together(world, folder, write)
        _together(world, folder, finish, alone=True)
    except AssayError:
        if world.rank == 0:
            shutil.rmtree(partial, ignore_errors=True)
        raise
    return folder / name


def _together(world: World, folder: Path, work: Callable[[], None], *, alone: bool = False) -> None:
    """Do a part of the work on every process, or in the first one alone, and fail on all where one fails."""
    why = ""
    if world.rank == 0 or not alone:
        try:
            work()
        except (OSError, RuntimeError, AssayError, CheckpointException) as error:
            why = _why(error)
    if whys := [one for one in world.gather(why) if one]:
        raise AssayError(f"{folder}: the checkpoint cannot be written ({whys[0]}); those before it are kept")


def _why(error: BaseException) -> str:
    """What happened, in one line."""
    if isinstance(error, CheckpointException):
        # Its own text is a traceback for each process.
        error = next(iter(error.failures.values()))[0]
    return getattr(error, "strerror", None) or first_line(error) or type(error).__name__


def _clear(partial: Path) -> None:
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)


def _sync(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _replace(partial: Path, final: Path) -> None:
    # A folder cannot be renamed onto one with files in it, and removing one takes long: it steps aside first.
    old = partial.with_name(f"{partial.name.removesuffix('.partial')}.old.partial")
    if final.exists():
        shutil.rmtree(old, ignore_errors=True)
        final.rename(old)
    partial.rename(final)
    shutil.rmtree(old, ignore_errors=True)
    handle = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _point(folder: Path, pointer: str, name: str) -> None:
    partial = folder / f".{pointer}.partial"
    with partial.open("w") as file:
        file.write(name + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / pointer)


def _sweep(folder: Path, keep_last: int) -> None:
    """Remove checkpoints beyond the newest ones and the best, and what killed processes left."""
    kept = {path.name for path in _steps(folder)[:keep_last]} | {
        _pointed(folder, LATEST),
        _pointed(folder, BEST),
    }
    for path in (*_steps(folder), *folder.glob(".step-*.partial")):
        if path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)


def _steps(folder: Path) -> list[Path]:
    """Folders of checkpoints, the newest first."""
    return sorted((path for path in folder.glob("step-*") if path.is_dir()), reverse=True)


def _pointed(folder: Path, pointer: str) -> str:
    """The name in a pointer, empty when there is none that a checkpoint could have."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        name = (folder / pointer).read_text().strip()
        if re.fullmatch(r"step-\d+", name):
            return name
    return ""


def find_latest(folder: Path, tell: Tell | None = None) -> Path | None:
    """The checkpoint to go on from, None when there is none: the one that `latest` names, and where that is
    damaged or missing the newest whole one.

    Args:
        folder: where checkpoints lie.
        tell: called with a line about each one that is passed over.
    """
    named = folder / (_pointed(folder, LATEST) or ".")
    first = [named] if named != folder else []
    for path in (*first, *(path for path in _steps(folder) if path != named)):
        why = _damage(path)
        if not why:
            return path
        if tell is not None:
            tell(f"{path}: the checkpoint is damaged ({why}); it is passed over for the one before it")
    return None


def find_best(folder: Path) -> Path | None:
    """The best checkpoint by the run's metric, None when there is none that is whole."""
    name = _pointed(folder, BEST)
    return folder / name if name and not _damage(folder / name) else None


def _damage(path: Path) -> str:
    """What is wrong with the files of a checkpoint, empty when they are all there and of their sizes."""
    try:
        for name, size in _told(path)["files"].items():
            found = (path / name).stat().st_size
            if found != size:
                return f"{name} has {found} of {size} bytes"
    except OSError as error:
        return f"{Path(error.filename or _STATE).name}: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{_STATE}: {first_line(error)}"
    return ""


def _told(path: Path) -> dict[str, Any]:
    told = json.loads((path / _STATE).read_text())
    if told["format"] != FORMAT:
        raise ValueError(f"its format is {told['format']}, not {FORMAT}")
    if not isinstance(told["identity"], dict) or type(told["state"]["step"]) is not int:
        raise TypeError("it is not of a training run")
    return dict(told)


def load(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    *,
    identity: Mapping[str, Any],
    world: World,
    changed: bool = False,
) -> dict[str, Any]:
    """Put model, optimizer and generators into the state of a checkpoint; every process calls this.

    Args:
        path: the checkpoint.
        model: as it was built.
        optimizer: of the model, without steps taken; None reads weights only, and leaves the generators.
        identity: which run this is.
        world: the processes. Where they are as many as wrote it, their generators go on exactly; else they
            get other seeds.
        changed: whether it may be of another run.

    Returns:
        The loop's numbers.

    Raises:
        AssayError: see the module.
    """
    if why := _damage(path):
        raise AssayError(_damaged(path, why))
    told = _told(path)
    if not changed:
        _same(path, json.loads(json.dumps(dict(identity))), told["identity"])
    try:
        known = _Reader(path).read_metadata().state_dict_metadata
        wanted = _weights(model)
        states: dict[nn.Parameter, dict[str, Tensor]] = {}
        if optimizer is not None:
            for prefix, parameter, group in _by_name(model, optimizer):
                if prefix in told["optimizer"]:
                    states[parameter] = _empty(prefix, parameter, group, known)
                    wanted |= {f"{prefix}.{name}": value for name, value in states[parameter].items()}
        _fits(path, wanted, known)
        with _distributed():
            read_tensors(wanted, storage_reader=_Reader(path), no_dist=isinstance(world, Alone))
        if optimizer is not None:
            optimizer.state.clear()
            optimizer.state.update(states)  # type: ignore[arg-type]
            if told["processes"] == world.size:
                generators.restore(
                    json.loads((path / _generators_file(world.rank)).read_text()), world.device
                )
            else:
                generators.reseed(int(told["state"]["step"]), world.rank)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, EOFError) as error:
        raise AssayError(_damaged(path, _why(error))) from None
    except (pickle.UnpicklingError, CheckpointException) as error:
        raise AssayError(_damaged(path, _why(error))) from None
    return dict(told["state"])


def _damaged(path: Path, why: str) -> str:
    return (
        f"{path}: the checkpoint is damaged ({why}); remove it to go on from the one before it, or start anew"
    )


def _same(path: Path, wanted: Mapping[str, Any], of: Mapping[str, Any]) -> None:
    other = sorted(name for name in {*wanted, *of} if wanted.get(name) != of.get(name))
    if not other:
        return
    said = ", ".join(
        {"data": "the data", "base": "the weights in train.model"}.get(name)
        or f"train.{name} is {wanted.get(name)} and was {of.get(name)}"
        for name in other[:4]
    )
    more = f" and {len(other) - 4} more" if len(other) > 4 else ""
    raise AssayError(
        f"{path}: the checkpoint is of another run ({said}{more}); put that back, give another output "
        "folder, or start anew (--clean)"
    )


def _weights(model: nn.Module) -> dict[str, Tensor]:
    """Weights that are trained, and buffers that a model keeps, by name. Others are read where they were."""
    at_rest(model)
    found: dict[str, Tensor] = {
        name: parameter.detach() for name, parameter in model.named_parameters() if parameter.requires_grad
    }
    saved = model.state_dict(keep_vars=True)
    found |= {name: buffer.detach() for name, buffer in model.named_buffers() if name in saved}
    return {f"model.{name}": value for name, value in found.items()}


def _by_name(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> Iterator[tuple[str, nn.Parameter, dict[str, Any]]]:
    """(prefix of its state's names, parameter, group) of each parameter of an optimizer."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            yield f"optimizer.{names[id(parameter)]}", parameter, group


def _moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state by name; none of a parameter that never had a gradient."""
    return {
        f"{prefix}.{name}": value
        for prefix, parameter, _ in _by_name(model, optimizer)
        for name, value in optimizer.state.get(parameter, {}).items()
    }


def _empty(
    prefix: str, parameter: nn.Parameter, group: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Tensors to read a parameter's state into: of its own shape and cut, or numbers."""
    made: dict[str, Tensor] = {}
    for key, found in known.items():
        start, _, name = key.rpartition(".")
        if start == prefix and isinstance(found, TensorStorageMetadata):
            if found.size == parameter.shape:
                made[name] = torch.zeros_like(parameter.detach(), dtype=found.properties.dtype)
            else:
                # Where torch's optimizers keep their count of steps.
                fast = group.get("fused") or group.get("capturable")
                device = parameter.device if fast else torch.device("cpu")
                made[name] = torch.zeros(found.size, dtype=found.properties.dtype, device=device)
    return made


def _fits(path: Path, wanted: Mapping[str, Tensor], known: Mapping[str, Any]) -> None:
    for key, value in wanted.items():
        found = known.get(key)
        if not isinstance(found, TensorStorageMetadata) or found.size != value.shape:
            has = "another shape" if isinstance(found, TensorStorageMetadata) else "none"
            raise AssayError(
                f"{path}: the checkpoint is of another model ({key.partition('.')[2]}: it has {has}); "
                "give another output folder, or start anew (--clean)"
            )


class _Unpickler(pickle.Unpickler):
    """Reads torch's description of a checkpoint: names, shapes and places in files, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if module in _DESCRIBES else None
        if isinstance(found, (type, torch.dtype, torch.layout)) or name in _DESCRIBES.get(module, ()):
            return found
        raise pickle.UnpicklingError(f"{_METADATA} names {module}.{name}, which no checkpoint has")


_DESCRIBES: dict[str, tuple[str, ...]] = {
    "torch": (),
    "torch.serialization": ("_get_layout",),
    "torch.distributed.checkpoint.metadata": (),
    "torch.distributed.checkpoint.filesystem": (),
    "collections": (),
    "pathlib": (),
}


class _Reader(FileSystemReader):
    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        with (Path(self.path) / _METADATA).open("rb") as file:
            found = _Unpickler(file).load()
        if not isinstance(found, Metadata) or found.storage_meta is None:
            raise pickle.UnpicklingError(f"{_METADATA} describes no checkpoint")
        found.storage_meta.load_id = self.load_id
        return found


@contextlib.contextmanager
def _distributed() -> Iterator[None]:
    with warnings.catch_warnings():
        # One process without a group is what it is meant to be.
        warnings.filterwarnings("ignore", message=".*torch.distributed is (disabled|unavailable).*")
        yield


def _generators_file(rank: int) -> str:
    return f"generators-{rank:05d}.json"
