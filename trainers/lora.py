"""LoRA, by `peft`: small trained factors beside the frozen linear layers of a trunk (Hu et al., 2106.09685).

In: a `RewardModel` and a config with `lora_rank`. Out: the same model, changed in place, of which only the
factors and the score head are trained; and back to a plain model (`merge`) or plain weights (`merged`), whose
names are those of a model that never had any. Raises `AssayError` when `peft` is missing or a name in
`lora_targets` fits no linear layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from schemas.errors import AssayError
from schemas.ids import rng
from trainers.config import TrainConfig
from trainers.model import RewardModel

_BASE = ".base_layer."
_FIRST, _SECOND = ".lora_A.default.weight", ".lora_B.default.weight"


def wrap(model: RewardModel, config: TrainConfig) -> None:
    """Freeze a model but for its score head, and give its linear layers factors that are trained.

    The product of the factors is 0 at first, so the model computes what it did. With `bf16` what is frozen is
    kept in bfloat16, in which it is computed anyway.

    Args:
        model: changed in place; its weights may lack data (`meta`).
        config: a resolved config with `lora_rank` above 0; equal seeds give equal factors.

    Raises:
        AssayError: see the module.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise AssayError("train.lora_rank: LoRA needs peft; pip install peft, or set it to 0") from None
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if model.score is not None:
        model.score.requires_grad_(True)
    adapter = LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,  # type: ignore[arg-type]
        lora_dropout=0.0,
        bias="none",
        target_modules=_targets(model.trunk, config.lora_targets),
    )
    without_data = next(model.trunk.parameters()).is_meta
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(rng(config.seed, "weights", "lora").getrandbits(63))
        inject_adapter_in_model(adapter, model.trunk, low_cpu_mem_usage=without_data)
    if config.precision == "bf16":
        for parameter in model.parameters():
            if not parameter.requires_grad:
                parameter.data = parameter.data.to(torch.bfloat16)


def _targets(trunk: nn.Module, wanted: tuple[str, ...]) -> list[str]:
    """Paths of the linear layers that a name in `wanted` is the end of; of all when it is empty."""
    layers = [path for path, module in trunk.named_modules() if isinstance(module, nn.Linear)]
    kinds = ", ".join(sorted({path.rpartition(".")[2] for path in layers}))
    if not layers:
        raise AssayError(f"train.lora_rank: {type(trunk).__name__} has no linear layers; set it to 0")
    for name in wanted:
        if not any(f".{path}".endswith(f".{name}") for path in layers):
            raise AssayError(f"train.lora_targets: {name!r} is no linear layer of this model; it has {kinds}")
    if not wanted:
        return layers
    return [path for path in layers if any(f".{path}".endswith(f".{name}") for name in wanted)]


def merged(state: Mapping[str, Tensor], config: TrainConfig) -> dict[str, Tensor]:
    """The weights of a model after `wrap`, as those of one without factors: `W + alpha / rank * B A`, in
    float32, each under the name that it had before. Weights without factors stay as they are."""
    scale = config.lora_alpha / config.lora_rank
    plain: dict[str, Tensor] = {}
    for name, value in state.items():
        if name.endswith((_FIRST, _SECOND)):
            continue
        layer, base, rest = name.partition(_BASE)
        first = state.get(layer + _FIRST) if base and rest == "weight" else None
        if first is None:
            plain[name.replace(_BASE, ".")] = value
            continue
        second = state[layer + _SECOND]
        plain[f"{layer}.weight"] = value.float() + scale * (second.float() @ first.float())
    return plain


def merge(model: RewardModel) -> RewardModel:
    """Put the factors of a model that is not in shards into its weights (float32), and take them away."""
    for path, module in list(model.named_modules()):
        factors: Any = module
        if not hasattr(module, "lora_A") or not hasattr(module, "base_layer"):
            continue
        layer: nn.Linear = factors.base_layer
        first, second = factors.lora_A["default"].weight, factors.lora_B["default"].weight
        with torch.no_grad():
            delta = factors.scaling["default"] * (second.float() @ first.float())
            layer.weight = nn.Parameter(
                layer.weight.float() + delta, requires_grad=layer.weight.requires_grad
            )
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, layer)
    return model
