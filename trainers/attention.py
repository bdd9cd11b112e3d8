"""Attention over a packed row (see `trainers.packing`), for any model that asks transformers' registry.

In: queries, keys and values of a row, and its `Segments`. Out: what each token gets from its ancestors'
segments and its own up to itself. No mask over the row is ever made. Two ways give the same: torch's
`scaled_dot_product_attention` a segment, on any device and in any type, and one call of a kernel for
sequences of different lengths (`trainers.kernels`), where it computes the tensors' device, type and size.

`attach` switches a model to it, or says why that model cannot be packed: it compares the two ways. The
switched model still takes padded batches, with their attention mask, and computes them as `sdpa` does.
What it refuses with `AssayError` is a call with neither mask nor segments (a packed row whose segments
the model lost would be read as one sequence), a call with both, a sliding window that a sequence
exceeds, and additions to attention that it does not have.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from schemas.errors import AssayError
from trainers.kernels import KERNELS, Kernel
from trainers.packing import Layout, layout
from trainers.segments import Segments, gathered

NAME = "assay_segments"

# transformers takes every name with "flash" in it for one of its own.
_SPELLINGS = {"segments": NAME, "flash": f"{NAME}_fa"}
_KNOWN: dict[str, Kernel | None] = {}

# Largest relative difference of a token's hidden states, packed and alone, by what the model computes in.
_PROBE_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}

# The same of what a kernel makes of random numbers in half precision, against float32.
_KERNEL_TOLERANCE = 2e-2

# What some models add to attention that is not in it here: limits of products, sinks, terms by distance.
_UNSUPPORTED = ("softcap", "s_aux", "position_bias")


def segment_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    segments: Segments | None = None,
    kernel: Kernel | None = None,
    **other: Any,
) -> tuple[Tensor, None]:
    """Attention in the form of transformers' `AttentionInterface`.

    Args:
        module: the attention layer.
        query: shape (batch, heads, tokens, size); the batch is 1 for a packed row.
        key: shape (batch, key heads, tokens, size).
        value: likewise.
        attention_mask: of a padded batch; None for a packed row.
        dropout: probability that a weight is dropped.
        scaling: factor of the products; None is 1 / sqrt(size).
        segments: of a packed row.
        kernel: computes a packed row where it can; None leaves it to torch's kernel a segment.
        other: what a model adds; what would change the result and is not computed here is refused.

    Returns:
        The result, shape (batch, tokens, heads, size), and None for the weights, which are never made.

    Raises:
        AssayError: see the module.
    """
    if segments is None:
        if attention_mask is None:
            raise AssayError("attention over segments: got neither segments nor an attention mask")
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **other
        )
    result: Tensor = _apart(query, key, value, attention_mask, segments, kernel, dropout, scaling, other)
    return result, None


def _checked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    segments: Segments,
    kernel: Kernel | None,
    dropout: float,
    scaling: float | None,
    other: dict[str, Any],
) -> Tensor:
    if attention_mask is not None or query.shape[:1] != (1,) or query.shape[2] != sum(segments.lengths):
        raise AssayError("attention over segments: the segments are not those of this batch")
    window = other.get("sliding_window")
    if window is not None and window < segments.longest:
        raise AssayError(
            f"attention over segments: a sliding window of {window} is not supported for sequences of "
            f"{segments.longest} tokens; use the padded layout"
        )
    for name in _UNSUPPORTED:
        if other.get(name) is not None:
            raise AssayError(f"attention over segments: {name} is not supported; use the padded layout")
    return _packed(query, key, value, segments, kernel, dropout, scaling)


def _packed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    segments: Segments,
    kernel: Kernel | None,
    dropout: float,
    scaling: float | None,
) -> Tensor:
    plan = segments.plan(query.device)
    keys, values = gathered(key, plan), gathered(value, plan)
    if kernel is not None and not dropout and kernel.fits(query, value):
        scale = 1 / math.sqrt(query.shape[-1]) if scaling is None else scaling
        most = (max(segments.lengths), max(segments.keys))
        rows = query[0].transpose(0, 1)
        return kernel.call()(rows, keys, values, plan.queries_at, plan.keys_at, *most, scale)[None]
    groups = query.shape[1] // key.shape[1]
    parts = zip(
        torch.split(query, list(segments.lengths), dim=2),
        torch.split(_repeat(keys, groups), list(segments.keys), dim=2),
        torch.split(_repeat(values, groups), list(segments.keys), dim=2),
        strict=True,
    )
    outputs = []
    for index, (own_query, own_keys, own_values) in enumerate(parts):
        bias = segments.bias(index, query)
        outputs.append(
            functional.scaled_dot_product_attention(
                own_query,
                own_keys,
                own_values,
                attn_mask=bias,
                dropout_p=dropout,
                is_causal=bias is None,
                scale=scaling,
            )
        )
    return torch.cat(outputs, dim=2).transpose(1, 2)


# A compiled block calls it as it is: every row has other segments, and each would be compiled anew.
_compiler: Any = torch.compiler
_apart: Any = _compiler.disable(_checked)


def _repeat(heads: Tensor, times: int) -> Tensor:
    """(keys, heads, size) as (1, heads * times, keys, size)."""
    turned = heads.transpose(0, 1)[None]
    return turned if times == 1 else turned.repeat_interleave(times, dim=1)


def _mask(attention_mask: Tensor | None = None, **how: Any) -> Tensor | None:
    """The mask of a padded batch, always made; none for a packed row."""
    if attention_mask is None:
        return None
    how["allow_is_causal_skip"] = False
    return sdpa_mask(attention_mask=attention_mask, **how)


def register(name: str, kernel: Kernel | None) -> None:
    """Make a kernel known to transformers, and to `attach` under `name`."""

    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **more: Any,
    ) -> tuple[Tensor, None]:
        return segment_attention(module, query, key, value, attention_mask, kernel=kernel, **more)

    _KNOWN[name] = kernel
    _SPELLINGS.setdefault(name, f"{NAME}_{name}")
    AttentionInterface.register(_SPELLINGS[name], attention)
    AttentionMaskInterface.register(_SPELLINGS[name], _mask)


register("segments", None)
for _name, _kernel in KERNELS.items():
    register(_name, _kernel)


def attach(trunk: PreTrainedModel, longest: int, kernel: str = "auto") -> str:
    """Let a model compute attention over segments, and over padded batches that have a mask. Afterwards
    `kernel_of` tells what computes packed rows.

    Args:
        trunk: the model.
        longest: tokens of the longest sequence that it will get.
        kernel: one of `trainers.config.KERNELS`.

    Returns:
        Empty, or why the model cannot be packed; then it is as it was.

    Raises:
        AssayError: a kernel was asked for by name, and this machine has not got it, or it is wrong here.
    """
    if why := _narrow(trunk, longest):
        return why
    before = trunk.config._attn_implementation
    names = [kernel]
    if kernel == "auto":
        names = ["segments"] if why_not("varlen", trunk) else ["varlen", "segments"]
    elif unfit := why_not(kernel, trunk):
        raise AssayError(f"train.attention: {kernel} cannot be used ({unfit}); use auto or segments")
    for name in names:
        try:
            trunk.set_attn_implementation(_SPELLINGS[name])
            why = _probe(trunk)
        except (AssayError, ImportError, TypeError, ValueError) as error:
            # A model of its own making may not ask the registry, or not take the segments.
            why = (str(error) or type(error).__name__).splitlines()[0]
        if not why:
            break
        if trunk.config._attn_implementation != before:
            trunk.set_attn_implementation(before)
    return why


def kernel_of(trunk: PreTrainedModel) -> str:
    """Name of what computes a model's packed rows; empty for a model that is not attached. What a kernel does
    not compute (float32, other devices, dropout) is left to `segments` all the same."""
    used = trunk.config._attn_implementation
    return next((name for name, spelled in _SPELLINGS.items() if spelled == used), "")


def why_not(name: str, trunk: PreTrainedModel) -> str:
    """Why a kernel cannot compute a model's attention on this machine, empty when it can: it is tried with as
    many heads of that size, forward and backward, against `segments` in float32."""
    kernel = _KNOWN[name]
    if kernel is None:
        return ""
    if kernel.device == "cuda" and not torch.cuda.is_available():
        return "it needs a CUDA device"
    config: Any = trunk.config.get_text_config()
    heads = int(config.num_attention_heads)
    key_heads = int(getattr(config, "num_key_value_heads", None) or heads)
    size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            return check(kernel, heads, key_heads, size)
    except (AssayError, RuntimeError, TypeError, ValueError) as error:
        return (str(error) or type(error).__name__).splitlines()[0]


def check(kernel: Kernel, heads: int, key_heads: int, size: int) -> str:
    """How a kernel's results and gradients differ from those of `segments` in float32, empty when they do
    not beyond rounding: for a row with two branches of a prefix, one of which branches again, and two
    sequences that share nothing.

    Raises:
        AssayError: it is missing.
        RuntimeError: torch's, from the kernel.
    """
    if not kernel.sized(size):
        return f"it does not compute heads of size {size}"
    numbers = np.random.default_rng(0)
    words = numbers.integers(0, 1 << 20, 400).astype(np.int32)
    fork = words[:110]
    ends = [words[200:290], *(np.concatenate([fork[70:], [n], words[:40]]) for n in (1, 2))]
    tree = [np.concatenate([fork[:70], end]).astype(np.int32) for end in ends]
    row = layout([tree, [words[300:301]], [words[301:]]])
    segments, tokens = Segments(row), len(row.ids)
    made = [numbers.standard_normal((1, n, tokens, size)) for n in (heads, key_heads, key_heads)]
    weights = torch.from_numpy(numbers.standard_normal((1, tokens, heads, size)))
    dtype = kernel.dtypes[0]

    def results(used: Kernel | None, kind: torch.dtype) -> list[Tensor]:
        # Both begin with numbers that half precision holds.
        inputs = [torch.from_numpy(one).to(dtype).to(kernel.device, kind).requires_grad_() for one in made]
        output = _packed(inputs[0], inputs[1], inputs[2], segments, used, 0.0, None)
        gradients = torch.autograd.grad(output, inputs, weights.to(dtype).to(kernel.device, kind))
        return [output.detach(), *gradients]

    names = ("results", "gradients of queries", "gradients of keys", "gradients of values")
    exact = torch.promote_types(dtype, torch.float32)
    for name, got, wanted in zip(names, results(kernel, dtype), results(None, exact), strict=True):
        far = float((got.to(exact) - wanted).abs().max() / wanted.abs().max())
        if not far <= _KERNEL_TOLERANCE:
            return f"its {name} are off by {far:.2g} of the largest"
    return ""


def hidden_states(trunk: PreTrainedModel, row: Layout) -> Tensor:
    """Hidden states of a packed row after the trunk's last norm, shape (tokens, hidden).

    Raises:
        AssayError: see the module.
    """
    if not kernel_of(trunk):
        raise AssayError("attention over segments: the model is not attached to it")
    device = next(trunk.parameters()).device
    output: Any = trunk(
        input_ids=torch.from_numpy(row.ids)[None].to(device),
        position_ids=torch.from_numpy(row.positions)[None].to(device),
        segments=Segments(row),
        use_cache=False,
    )
    states: Tensor = output.last_hidden_state[0]
    return states


def _narrow(trunk: PreTrainedModel, longest: int) -> str:
    """Why layers do not see a whole sequence, empty when they do."""
    config: Any = trunk.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if odd := kinds - {"full_attention", "sliding_attention"}:
        return f"it has layers of {', '.join(sorted(odd))}"
    window = getattr(config, "sliding_window", None)
    windowed = "sliding_attention" in kinds or not hasattr(config, "layer_types")
    if windowed and isinstance(window, int) and window < longest:
        return f"its sliding window of {window} tokens is shorter than {longest}"
    return ""


def _probe(trunk: PreTrainedModel) -> str:
    """Compare the hidden states of a few tokens, packed and alone. That finds models that lose the
    segments, or order tokens by where they stand in the row."""
    config: Any = trunk.config.get_text_config()
    step = max(1, config.vocab_size // 16)
    ids = (np.arange(12) * step % config.vocab_size).astype(np.int32)
    other = np.concatenate([ids[:5], ids[7:4:-1]])
    row = layout([[ids], [ids[:9], other]])
    before = trunk.training
    trunk.train(False)
    try:
        with torch.inference_mode():
            packed = hidden_states(trunk, row)
            most = _PROBE_TOLERANCE.get(packed.dtype, _PROBE_TOLERANCE[torch.float32])
            for sequence, place in zip((ids, ids[:9], other), row.places, strict=True):
                given = torch.from_numpy(sequence.astype(np.int64))[None].to(packed.device)
                alone: Any = trunk(input_ids=given, attention_mask=torch.ones_like(given), use_cache=False)
                there = packed[torch.from_numpy(place).to(packed.device)].float()
                here = alone.last_hidden_state[0].float()
                far = float(((there - here).norm(dim=-1) / here.norm(dim=-1).clamp_min(1e-6)).max())
                if not far <= most:
                    return f"a packed row gives it other hidden states (difference {far:.2g})"
    finally:
        trunk.train(before)
    return ""
