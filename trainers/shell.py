"""What a model is, but for the data of its weights: processes that hold no model build the same from it.

In: a model that one process has loaded. Out: a `Shell`, which travels to the others and builds a model whose
weights have no data (`meta`); and for a model whose weights have got memory, the values of its buffers.
Raises `AssayError` for a model that its class and configuration do not describe.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers import PreTrainedModel

from schemas.errors import AssayError
from trainers.model import RewardModel

Weights = dict[str, tuple[torch.Size, torch.dtype, bool]]


@dataclasses.dataclass(frozen=True)
class Shell:
    """See the module.

    Attributes:
        trunk: class of the trunk.
        config: its configuration.
        head: arguments of the vocabulary head; None without one.
        scored: whether there is a score head.
        attributes: plain attributes of the model, such as its layout.
        training: the trunk's mode.
        shared: names of weights that are one, see `shared`.
        weights: shape, type and whether it is trained, of each weight and buffer.
    """

    trunk: type[PreTrainedModel]
    config: Any
    head: dict[str, Any] | None
    scored: bool
    attributes: dict[str, Any]
    training: bool
    shared: list[list[str]]
    weights: Weights

    @classmethod
    def of(cls, model: RewardModel) -> Shell:
        """That of a model."""
        head = model.head
        arguments: dict[str, Any] | None = None
        if isinstance(head, nn.Linear):
            arguments = {"in_features": head.in_features, "out_features": head.out_features}
            arguments["bias"] = head.bias is not None
        elif head is not None:
            raise AssayError(
                f"{type(model.trunk).__name__}: its vocabulary head ({type(head).__name__}) is not a linear "
                "layer, so the model cannot be trained by many processes"
            )
        plain = {
            name: value
            for name, value in vars(model).items()
            if not name.startswith("_") and name != "training"
        }
        return cls(
            type(model.trunk),
            model.trunk.config,
            arguments,
            model.score is not None,
            plain,
            model.trunk.training,
            shared(model),
            _weights(model),
        )

    def build(self) -> RewardModel:
        """The model, without data.

        Raises:
            AssayError: see the module.
        """
        with torch.device("meta"):
            head = None if self.head is None else nn.Linear(**self.head)
            model = RewardModel(self.trunk(self.config), head, scored=self.scored)
        vars(model).update(self.attributes)
        model.trunk.train(self.training)
        share(model, self.shared)
        for name, tensor in _named(model):
            if name in self.weights:
                _, dtype, trained = self.weights[name]
                tensor.data = tensor.data.to(dtype)
                tensor.requires_grad_(trained)
        made = _weights(model)
        odd = sorted(name for name in {*made, *self.weights} if made.get(name) != self.weights.get(name))
        if odd:
            raise AssayError(
                f"{self.trunk.__name__}: its configuration does not describe its weights ({odd[0]}), so the "
                "model cannot be trained by many processes"
            )
        return model


def _named(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _weights(model: nn.Module) -> Weights:
    return {name: (tensor.shape, tensor.dtype, tensor.requires_grad) for name, tensor in _named(model)}


def shared(model: nn.Module) -> list[list[str]]:
    """The names of each weight that has several, such as an embedding that is the vocabulary head too."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [group for group in names.values() if len(group) > 1]


def share(model: nn.Module, names: list[list[str]]) -> None:
    """Let the names of each group be those of one weight, the first."""
    for first, *others in names:
        parameter = model.get_parameter(first)
        for name in others:
            module, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(module), attribute, parameter)


@torch.no_grad()
def broadcast_the_rest(model: nn.Module, source: nn.Module | None, device: torch.device) -> None:
    """Give buffers, and tensors that modules keep as plain attributes, the first process's values.

    Args:
        model: built of the shell of `source`; changed in place.
        source: the model that was loaded, in the first process; else None.
        device: where the tensors go.
    """
    for path, module in model.named_modules():
        theirs = source.get_submodule(path) if source is not None else None
        places = dict(module.named_buffers(recurse=False))
        places |= {name: value for name, value in vars(module).items() if isinstance(value, Tensor)}
        for name in sorted(places):
            value = torch.empty_like(places[name], device=device)
            if theirs is not None:
                value.copy_(getattr(theirs, name))
            # As bytes: gloo sends no booleans.
            dist.broadcast(value.reshape(-1).view(torch.uint8), src=0)
            setattr(module, name, value)
