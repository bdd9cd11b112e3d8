"""A model in shards over the processes of a run: FSDP2, the same code on CPUs (gloo) and GPUs (nccl).

In: torchrun's environment and a config. Out: a `World` (`joined`), a model of which every process holds a
part (`materialise`), and the whole weights again for export (`full_state`). Gradients are summed over the
processes, never averaged: an objective has already divided its terms by counts of the whole step.

Weights, optimizer and sums of gradients are float32; with `bf16` the passes compute in bfloat16, but for the
score head. What goes wrong raises `AssayError`: half of torchrun's environment, a process without a GPU of
its own, processes that cannot reach each other, a model whose blocks are not known.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from schemas.errors import AssayError
from trainers import lora
from trainers.config import TrainConfig
from trainers.items import Output
from trainers.model import RewardModel
from trainers.shell import Shell, broadcast_the_rest, share, shared
from trainers.tokenizer import first_line
from trainers.world import Alone, Floats, World

T = TypeVar("T")

_LONGEST_WAIT = datetime.timedelta(hours=1)
"""One process may read data or weights for long while the others wait."""

_HELD_SHARE = 8
"""Gradients of a step's earlier passes stay whole on each process if they take less than one part in this
many of its memory."""

_LAST_WAIT = 0.2

_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class Ranks:
    """The processes of torch's default group. See `trainers.world.World`.

    Attributes:
        mesh: all of them, over which weights are cut.
        offload: whether weights and optimizer stay in the machine's memory.
        holds: whether gradients are summed over the processes in a step's last pass only, as `synchronising`
            promises; else in each pass, which needs less memory and gives the same sum.
    """

    def __init__(self, device: torch.device, *, offload: bool = False, owned: bool = False) -> None:
        """
        Args:
            device: where this process computes.
            offload: see above.
            owned: whether `leave` ends the group.
        """
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device = device
        self.mesh = init_device_mesh(device.type, (self.size,))
        self.offload = offload and device.type == "cuda"
        self.holds = True
        self.owned = owned

    def total(self, values: Floats) -> Floats:
        """See `World`. Summed in the order of ranks, so that all get the same bits."""
        own = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))
        parts = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(parts, own)
        return functools.reduce(torch.add, parts).numpy()

    def most(self, value: int) -> int:
        """See `World`."""
        found = torch.tensor([value], dtype=torch.int64)
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return int(found)

    def gather(self, value: T) -> list[T]:
        """See `World`."""
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    @contextlib.contextmanager
    def synchronising(self, model: nn.Module, last: bool) -> Iterator[None]:
        """See `World`."""
        if isinstance(model, FSDPModule):
            model.set_requires_gradient_sync(last or not self.holds)
        yield

    def clip(self, model: nn.Module, most: float) -> float:
        """See `World`. The norm is that of the whole gradient, not of this process's part."""
        norm: Any = nn.utils.clip_grad_norm_(model.parameters(), most or math.inf)
        return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)


def join(config: TrainConfig) -> World:
    """The processes of this run, and this one's device.

    Under torchrun they are its group. Without it this process is alone: in a group of one where `bf16` or
    `offload` needs the machinery of a group, which opens no port.

    Raises:
        AssayError: see the module.
    """
    rank, size, local = _places()
    device = _device(local)
    if config.precision == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise AssayError("train.precision: this GPU does not compute in bf16; set it to fp32")
    offload = config.offload and device.type == "cuda"
    if size == 1 and config.precision == "fp32" and not offload:
        return Alone(device)
    if dist.is_initialized():
        return Ranks(device, offload=offload)
    # Control values are CPU tensors and go by gloo; weights and gradients by the device's own way.
    backend = "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"
    try:
        if size == 1:
            store = dist.HashStore()  # type: ignore[attr-defined]
            dist.init_process_group(backend, store=store, rank=0, world_size=1)
        else:
            dist.init_process_group(backend, rank=rank, world_size=size, timeout=_LONGEST_WAIT)
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
        raise AssayError(
            f"process {rank} of {size} cannot join the others at {where} ({first_line(error)}); "
            "check the address, the port and that all were started"
        ) from None
    return Ranks(device, offload=offload, owned=True)


def leave(world: World) -> None:
    """End the group that `join` made, if it made one."""
    if isinstance(world, Ranks) and world.owned and dist.is_initialized():
        dist.destroy_process_group()
        # Gloo's threads let go of their last tensors when they get the interpreter's lock, and abort the
        # process when they ask for it while it ends.
        time.sleep(_LAST_WAIT)


@contextlib.contextmanager
def joined(config: TrainConfig) -> Iterator[World]:
    """The processes of this run (`join`) until the block is left.

    Raises:
        AssayError: see `join`; or another process of the run has stopped.
    """
    world = join(config)
    try:
        yield world
    except RuntimeError as error:
        lost = isinstance(error, dist.DistError) or "gloo" in str(error)
        if world.size == 1 or not lost:
            raise
        raise AssayError(
            f"process {world.rank} of {world.size} lost the others; the one that stopped first says why"
        ) from error
    finally:
        leave(world)


def on_first(world: World, work: Callable[[], T]) -> T:
    """The result of `work` in the first process, on all.

    Raises:
        AssayError: that of `work`, on all of them, so that none waits for one that has stopped.
    """
    value: T | None = None
    failed: AssayError | None = None
    if world.rank == 0:
        try:
            value = work()
        except AssayError as error:
            failed = error
    if isinstance(world, Ranks):
        sent: list[Any] = [(value, failed)]
        dist.broadcast_object_list(sent, src=0)
        value, failed = sent[0]
    if failed is not None:
        raise failed
    return value  # type: ignore[return-value]


def materialise(
    make_model: Callable[[], RewardModel],
    world: World,
    config: TrainConfig,
    prepare: Callable[[RewardModel], None] | None = None,
) -> RewardModel:
    """The model over all processes, on their devices, ready to be trained.

    The first process alone makes and holds it whole, in the machine's memory; the others get their parts.

    Args:
        make_model: makes the model on the CPU; called in the first process.
        world: the processes.
        config: a resolved config.
        prepare: called on every process before the model is cut: it changes how modules compute, and adds,
            removes and renames no weights. Elsewhere than in the first process these have no data yet.

    Raises:
        AssayError: of `make_model`, of LoRA, or a model whose blocks are not known.
    """
    if not isinstance(world, Ranks) or world.size == 1:
        model = make_model()
        _change(model, config, prepare)
        return distribute(model, world, config)
    source: list[RewardModel] = []

    def make() -> Shell:
        source.append(make_model())
        return Shell.of(source[0])

    shell = on_first(world, make)
    model = shell.build()
    _change(model, config, prepare)
    whole: dict[str, Tensor] = {}
    if source:
        _change(source[0], config, None)
        whole = source[0].state_dict()
    # What is shared must stay so: `to_empty` makes a tensor of its own for each name.
    names = shared(model)
    distribute(model, world, config)
    model.to_empty(device="cpu" if world.offload else world.device)
    share(model, names)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, cpu_offload=world.offload)
    set_model_state_dict(model, whole, options=options)  # type: ignore[arg-type]
    broadcast_the_rest(model, source[0] if source else None, world.device)
    return model


def _change(model: RewardModel, config: TrainConfig, prepare: Callable[[RewardModel], None] | None) -> None:
    if config.lora_rank:
        lora.wrap(model, config)
    if prepare is not None:
        prepare(model)


def distribute(model: RewardModel, world: World, config: TrainConfig) -> RewardModel:
    """Put a model on its device, in shards where there is a group, with what the config says of activations
    and compilation.

    Args:
        model: changed in place; on the CPU or without data (`meta`).
        world: the processes.
        config: a resolved config.

    Raises:
        AssayError: its blocks are not known, and are needed.
    """
    sharded = isinstance(world, Ranks)
    known = blocks(model.trunk) if sharded or config.activation_checkpointing or config.compile else []
    for block in known:
        _adapt(block, config)
    if not isinstance(world, Ranks):
        return model.to(world.device)
    # What passes from block to block has the type of the weights already, and batches have nothing to cast.
    policy = MixedPrecisionPolicy(cast_forward_inputs=False)
    if config.precision == "bf16":
        policy = dataclasses.replace(policy, param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    offload = CPUOffloadPolicy() if world.offload else OffloadPolicy()
    how: dict[str, Any] = {"mesh": world.mesh, "offload_policy": offload}
    # Before FSDP's own hooks, which mark the tensors that a pass returns.
    model.register_forward_hook(_no_views)
    for block in known:
        fully_shard(block, mp_policy=policy, **how)
    if model.score is not None:
        fully_shard(model.score, mp_policy=MixedPrecisionPolicy(), **how)
    # What is left: embedding, last norm and vocabulary head, which may share a weight.
    fully_shard(model, mp_policy=policy, **how)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            # Without this, a factor needs an operation that gloo does not have.
            module.set_force_sum_reduction_for_comms(True)
    # A process whose passes do not use a weight still takes part in the sum of its gradient.
    take_part: Callable[[bool], None] | None = getattr(model, "set_reduce_scatter_unused_params", None)
    if take_part is not None:
        take_part(True)
    model.register_forward_hook(_rest_after_inference)
    world.holds = _can_hold(model, world)
    return model


def _adapt(block: nn.Module, config: TrainConfig) -> None:
    if not (config.compile or config.activation_checkpointing):
        return
    forward: Callable[..., Any] = block.forward
    if config.compile:
        forward = torch.compile(forward)
    if config.activation_checkpointing:
        forward = _recomputed(forward)
    # An attribute of the instance, and not a wrapper: names of weights stay as they are, and what FSDP does
    # before and after a block stays outside of what is computed again.
    block.forward = forward


def _recomputed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return run


def _no_views(_: nn.Module, __: Any, output: Output) -> Output:
    # A view would lose its mark where it is changed in place, so FSDP warns of any.
    return Output(None if output.scores is None else output.scores.clone(), output.logprobs.clone())


def _rest_after_inference(model: nn.Module, _: Any, __: Any) -> None:
    # The root keeps its weights whole after a forward pass, for the backward pass that frees them. Without
    # one, whoever asks for its parameters next would get the whole ones.
    if isinstance(model, FSDPModule) and not torch.is_grad_enabled():
        model.reshard()


def _can_hold(model: nn.Module, world: Ranks) -> bool:
    if world.device.type != "cuda" or world.size == 1:
        return world.device.type != "cuda"
    size = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    _, memory = torch.cuda.mem_get_info(world.device)
    return 4 * size * _HELD_SHARE < memory


def blocks(trunk: PreTrainedModel) -> list[nn.Module]:
    """The layers of a model, each of which is gathered, computed and freed as a whole.

    They are those that the model's class says must not be split, else the modules of its list of layers.

    Raises:
        AssayError: there are none.
    """
    wanted = set(trunk._no_split_modules or ())
    found: list[nn.Module] = []
    inside: set[nn.Module] = set()
    for module in trunk.modules():
        if type(module).__name__ in wanted and module not in inside:
            found.append(module)
            inside.update(module.modules())
    layers = getattr(trunk.config.get_text_config(), "num_hidden_layers", None)
    for module in trunk.modules():
        if not found and isinstance(module, nn.ModuleList) and len(module) == layers:
            found = list(module)
    if not found:
        raise AssayError(
            f"{type(trunk).__name__}: has no known class of blocks, so it cannot be trained in shards, "
            "compiled or with activation checkpointing; give another model, or use one process and fp32"
        )
    return found


def full_state(model: nn.Module) -> dict[str, Tensor] | None:
    """All weights, whole and on the CPU, in the first process; None in the others. Every process calls it."""
    if not isinstance(model, FSDPModule):
        return {name: value.detach().cpu() for name, value in model.state_dict().items()}
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    found: Any = get_model_state_dict(model, options=options)
    return dict(found) if dist.get_rank() == 0 else None


def at_rest(model: nn.Module) -> None:
    """Let a model's parameters be this process's parts, also after a pass that left some of them whole."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def _places() -> tuple[int, int, int]:
    """(rank, number of processes, rank on this machine) from torchrun's environment."""
    given = [name for name in _TORCHRUN if os.environ.get(name)]
    if not {"RANK", "WORLD_SIZE"} & set(given):
        return 0, 1, 0
    missing = [name for name in _TORCHRUN if name not in given]
    if missing:
        raise AssayError(
            f"the environment has {', '.join(given)} but not {', '.join(missing)}; start with torchrun, or "
            "unset them"
        )
    told = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    said = ", ".join(f"{name}={value}" for name, value in told.items())
    try:
        rank, size, local = map(int, told.values())
    except ValueError:
        raise AssayError(f"{said}: these must be whole numbers; start with torchrun") from None
    if not (0 <= rank < size and 0 <= local < size):
        raise AssayError(
            f"{said}: a rank must be from 0 to below the number of processes; start with torchrun"
        )
    return rank, size, local


def _device(local: int) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if local >= torch.cuda.device_count():
        raise AssayError(
            f"LOCAL_RANK={local}: this machine has {torch.cuda.device_count()} GPUs; start at most as many "
            "processes a machine (--nproc-per-node)"
        )
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    return device
