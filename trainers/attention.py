"""Attention over a packed row (see `trainers.packing`), for any model that asks transformers' registry.

In: queries, keys and values of a row, and its `Segments`. Out: what each token gets from its ancestors'
segments and its own up to itself, by torch's `scaled_dot_product_attention` a segment: no mask over the
row is ever made. It runs on any device; CUDA gets the same computation, not a kernel of its own.

`attach` switches a model to it, or says why that model cannot be packed: it compares the two ways. The
switched model still takes padded batches, with their attention mask, and computes them as `sdpa` does.
What it refuses with `AssayError` is a call with neither mask nor segments (a packed row whose segments
the model lost would be read as one sequence), a call with both, a sliding window that a sequence
exceeds, and additions to attention that it does not have.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from schemas.errors import AssayError
from trainers.packing import ROOT, Layout, layout

NAME = "assay_segments"

_PROBE_TOLERANCE = 1e-3

# What some models add to attention that is not in it here: limits of products, sinks, terms by distance.
_UNSUPPORTED = ("softcap", "s_aux", "position_bias")


@dataclasses.dataclass(frozen=True, slots=True)
class Segments:
    """How a row is cut, as attention needs it.

    Attributes:
        lengths: tokens of each segment.
        ancestors: indices of the segments that each one sees whole, the first one first.
        before: tokens of those ancestors together.
        longest: tokens of the longest sequence.
        bias: 0 where a key is seen and -inf where not, for queries at the end of their keys: row i of the
            columns from `bias.shape[1] - bias.shape[0] - b` on is that of the i-th token after b others.
            None when no segment has ancestors.
    """

    lengths: tuple[int, ...]
    ancestors: tuple[tuple[int, ...], ...]
    before: tuple[int, ...]
    longest: int
    bias: Tensor | None

    @classmethod
    def of(cls, row: Layout, device: torch.device, dtype: torch.dtype) -> Segments:
        """The segments of a layout, for queries of a type on a device."""
        ancestors: list[tuple[int, ...]] = []
        for parent in row.parents:
            ancestors.append(() if parent == ROOT else (*ancestors[parent], parent))
        before = tuple(sum(row.lengths[one] for one in chain) for chain in ancestors)
        queries = max((n for n, chain in zip(row.lengths, ancestors, strict=True) if chain), default=0)
        bias = None
        if queries:
            shape = (queries, max(before) + queries)
            bias = torch.full(shape, float("-inf"), dtype=dtype, device=device).triu(max(before) + 1)
        return cls(row.lengths, tuple(ancestors), before, row.longest, bias)


def segment_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    segments: Segments | None = None,
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
    groups = query.shape[1] // key.shape[1]
    lengths = list(segments.lengths)
    queries = torch.split(query, lengths, dim=2)
    keys = torch.split(_repeat(key, groups), lengths, dim=2)
    values = torch.split(_repeat(value, groups), lengths, dim=2)
    outputs = []
    for index, chain in enumerate(segments.ancestors):
        own_keys, own_values, bias = keys[index], values[index], None
        if chain:
            own_keys = torch.cat([*(keys[one] for one in chain), own_keys], dim=2)
            own_values = torch.cat([*(values[one] for one in chain), own_values], dim=2)
            bias = _bias(segments, index)
        outputs.append(
            functional.scaled_dot_product_attention(
                queries[index],
                own_keys,
                own_values,
                attn_mask=bias,
                dropout_p=dropout,
                is_causal=bias is None,
                scale=scaling,
            )
        )
    return torch.cat(outputs, dim=2).transpose(1, 2), None


def _repeat(heads: Tensor, times: int) -> Tensor:
    return heads if times == 1 else heads.repeat_interleave(times, dim=1)


def _bias(segments: Segments, index: int) -> Tensor | None:
    bias, length, before = segments.bias, segments.lengths[index], segments.before[index]
    if bias is None:
        return None
    # Whether a key is seen depends on how far it is from the query only: one table does for all.
    most = bias.shape[1] - bias.shape[0]
    return bias[:length, most - before : most + length]


def _mask(attention_mask: Tensor | None = None, **how: Any) -> Tensor | None:
    """The mask of a padded batch, always made; none for a packed row."""
    if attention_mask is None:
        return None
    how["allow_is_causal_skip"] = False
    return sdpa_mask(attention_mask=attention_mask, **how)


AttentionInterface.register(NAME, segment_attention)
AttentionMaskInterface.register(NAME, _mask)


def attach(trunk: PreTrainedModel, longest: int) -> str:
    """Let a model compute attention over segments, and over padded batches that have a mask.

    Args:
        trunk: the model.
        longest: tokens of the longest sequence that it will get.

    Returns:
        Empty, or why the model cannot be packed; then it is as it was.
    """
    before = trunk.config._attn_implementation
    why = _narrow(trunk, longest)
    if not why:
        try:
            trunk.set_attn_implementation(NAME)
            why = _probe(trunk)
        except (AssayError, ImportError, TypeError, ValueError) as error:
            # A model of its own making may not ask the registry, or not take the segments.
            why = (str(error) or type(error).__name__).splitlines()[0]
        if why and trunk.config._attn_implementation != before:
            trunk.set_attn_implementation(before)
    return why


def hidden_states(trunk: PreTrainedModel, row: Layout) -> Tensor:
    """Hidden states of a packed row after the trunk's last norm, shape (tokens, hidden).

    Raises:
        AssayError: see the module.
    """
    if trunk.config._attn_implementation != NAME:
        raise AssayError("attention over segments: the model is not attached to it")
    parameter = next(trunk.parameters())
    output: Any = trunk(
        input_ids=torch.from_numpy(row.ids)[None].to(parameter.device),
        position_ids=torch.from_numpy(row.positions)[None].to(parameter.device),
        segments=Segments.of(row, parameter.device, parameter.dtype),
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
            for sequence, place in zip((ids, ids[:9], other), row.places, strict=True):
                given = torch.from_numpy(sequence.astype(np.int64))[None].to(packed.device)
                alone: Any = trunk(input_ids=given, attention_mask=torch.ones_like(given), use_cache=False)
                there = packed[torch.from_numpy(place).to(packed.device)].float()
                far = float((there - alone.last_hidden_state[0].float()).abs().max())
                if not far <= _PROBE_TOLERANCE * max(1.0, float(there.abs().max())):
                    return f"a packed row gives it other hidden states (difference {far:.2g})"
    finally:
        trunk.train(before)
    return ""
