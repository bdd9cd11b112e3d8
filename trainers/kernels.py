"""Attention kernels that take many sequences of different lengths in one call, under one signature.

In: a kernel's name. Out: a `Kernel`, whose `call()` is a function of queries of shape (tokens, heads, size),
keys and values of shape (key tokens, key heads, size), where the queries and where the keys of each part
begin (int32, with the end after the last one), the most queries and the most keys of a part, and the
factor of the products. Of a part with q queries and k keys, query i sees the first k - q + i + 1 keys: the
last query sees all, as FlashAttention aligns them since 2.1 ("bottom right"). The result has the queries'
shape.

`call()` raises `AssayError` where the kernel is not installed or has a signature that is not known.
Nothing is imported before that. Whether a kernel computes the right thing on a machine is for
`trainers.attention` to try.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from schemas.errors import AssayError

Call = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, int, int, float], Tensor]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel and what it computes; other inputs are left to torch's kernel a segment.

    Attributes:
        load: gives the function.
        device: the type of device that it runs on.
        dtypes: what it computes in.
        most: largest head size.
        multiple: head sizes are multiples of it.
    """

    load: Callable[[], Call]
    device: str = "cuda"
    dtypes: tuple[torch.dtype, ...] = (torch.bfloat16, torch.float16)
    most: int = 256
    multiple: int = 8

    def call(self) -> Call:
        """The function; see the module."""
        return _loaded(self.load)

    def sized(self, size: int) -> bool:
        """Whether it computes heads of a size."""
        return size <= self.most and size % self.multiple == 0

    def fits(self, query: Tensor, value: Tensor) -> bool:
        """Whether it computes tensors of this device, type and size, which is their last dimension."""
        return (
            query.device.type == self.device
            and query.dtype in self.dtypes
            and query.shape[-1] == value.shape[-1]
            and self.sized(query.shape[-1])
        )


@functools.cache
def _loaded(load: Callable[[], Call]) -> Call:
    return load()


def _imported(module: str, name: str, advice: str) -> Callable[..., Any]:
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, OSError, AttributeError) as error:
        # OSError: a build for another torch, whose libraries do not load.
        why = (str(error) or type(error).__name__).splitlines()[0]
        raise AssayError(f"{module}.{name} is missing ({why}); {advice}") from None
    return found


def adapt_varlen(function: Callable[..., Any]) -> Call:
    """`torch.nn.attention.varlen.varlen_attn` of any torch, under the signature of the module.

    It is told of causality by `is_causal` in torch 2.10 and by `window_size` from 2.11 on, takes a factor
    from 2.11 on, and fewer key heads than query heads (`enable_gqa`) from 2.12 on.

    Raises:
        AssayError: it can be told of causality in neither way.
    """
    known = inspect.signature(function).parameters
    how: dict[str, Any]
    if "window_size" in known:
        how = {"window_size": (-1, 0)}
    elif "is_causal" in known:
        how = {"is_causal": True}
    else:
        raise AssayError(
            "torch's varlen_attn has a signature that is not known; set train.attention to segments"
        )

    def call(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        queries_at: Tensor,
        keys_at: Tensor,
        most_queries: int,
        most_keys: int,
        scale: float,
    ) -> Tensor:
        more = dict(how)
        groups = query.shape[1] // key.shape[1]
        if groups > 1 and "enable_gqa" in known:
            more["enable_gqa"] = True
        elif groups > 1:
            key, value = (heads.repeat_interleave(groups, dim=1) for heads in (key, value))
        if "scale" in known:
            more["scale"] = scale
        else:
            own = 1 / math.sqrt(query.shape[-1])
            query = query if math.isclose(scale, own) else query * (scale / own)
        found: Tensor = function(query, key, value, queries_at, keys_at, most_queries, most_keys, **more)
        return found

    return call


def adapt_flash(function: Callable[..., Any]) -> Call:
    """`flash_attn.flash_attn_varlen_func` under the signature of the module. Its backward pass is
    reproducible where torch is told to be."""
    known = inspect.signature(function).parameters

    def call(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        queries_at: Tensor,
        keys_at: Tensor,
        most_queries: int,
        most_keys: int,
        scale: float,
    ) -> Tensor:
        more: dict[str, Any] = {}
        if "deterministic" in known:
            more["deterministic"] = torch.are_deterministic_algorithms_enabled()
        found: Any = function(
            query,
            key,
            value,
            queries_at,
            keys_at,
            most_queries,
            most_keys,
            softmax_scale=scale,
            causal=True,
            **more,
        )
        # FlashAttention 3 gives the logarithms of the sums too.
        result: Tensor = found[0] if isinstance(found, tuple) else found
        return result

    return call


def _varlen() -> Call:
    module = "torch.nn.attention.varlen"
    return adapt_varlen(_imported(module, "varlen_attn", "install torch 2.10 or later"))


def _flash() -> Call:
    return adapt_flash(_imported("flash_attn", "flash_attn_varlen_func", "install flash-attn"))


KERNELS: dict[str, Kernel] = {"varlen": Kernel(_varlen), "flash": Kernel(_flash)}
"""The kernels by name, beside `segments`, which is torch's kernel a segment."""
