"""A packed row as attention computes it: in segments, each of which sees spans of the row and itself.

In: a `Layout`. Out: `Segments`, and keys or values in the order in which the segments see them (`gathered`),
with a gradient that is the same whatever the order of the threads. Nothing goes wrong.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trainers.packing import ROOT, Layout, Places


@dataclasses.dataclass(frozen=True)
class Plan:
    """Where the keys of each segment stand once they are gathered, on a device.

    Attributes:
        queries_at: where each segment's queries begin, and their end; int32, shape (segments + 1,).
        keys_at: likewise of the gathered keys.
        source: tokens of the row in the order in which they are gathered, shape (keys,); None when that is
            the row itself.
        own: where each token of the row stands as one of its own segment, shape (tokens,).
        copies: of the tokens that other segments see, ordered by how many do: where the first copies stand,
            where the second ones, and so on.
        spread: 1 + the place of each token of the row in that order, or 0; shape (tokens,).
    """

    queries_at: Tensor
    keys_at: Tensor
    source: Tensor | None
    own: Tensor
    copies: tuple[Tensor, ...]
    spread: Tensor


class Segments:
    """How a row is cut, as attention needs it: a layout's segments, of which one that stands right behind its
    parent is one with it, since it sees what the parent's next tokens would.

    Tensors are made when they are first wanted, for the queries' device and type, and kept, since one row
    passes many layers.

    Attributes:
        lengths: tokens of each segment.
        ancestors: for each one the spans (start, end) of the row that it sees whole, in order.
        before: tokens of those spans together.
        longest: tokens of the longest sequence.
    """

    def __init__(self, row: Layout) -> None:
        starts = np.cumsum((0, *row.lengths)).tolist()
        seen: list[tuple[tuple[int, int], ...]] = []
        lengths: list[int] = []
        ancestors: list[tuple[tuple[int, int], ...]] = []
        for index, (parent, length) in enumerate(zip(row.parents, row.lengths, strict=True)):
            spans = () if parent == ROOT else seen[parent]
            if parent != ROOT:
                start, end = starts[parent], starts[parent + 1]
                joins = bool(spans) and spans[-1][1] == start
                spans = (*spans[:-1], (spans[-1][0], end)) if joins else (*spans, (start, end))
            seen.append(spans)
            if index and parent == index - 1:
                lengths[-1] += length
            else:
                lengths.append(length)
                ancestors.append(spans)
        self.lengths = tuple(lengths)
        self.ancestors = tuple(ancestors)
        self.before = tuple(sum(end - start for start, end in spans) for spans in ancestors)
        self.longest = row.longest
        self._biases: dict[tuple[torch.device, torch.dtype], Tensor] = {}
        self._plans: dict[torch.device, Plan] = {}

    @property
    def keys(self) -> tuple[int, ...]:
        """Keys that each segment sees, its own among them."""
        return tuple(length + before for length, before in zip(self.lengths, self.before, strict=True))

    def bias(self, index: int, like: Tensor) -> Tensor | None:
        """What is added to a segment's products: 0 where a key is seen and -inf where not, shape (queries,
        keys), of the device and type of `like`. None for a segment without ancestors: it is causal."""
        length, before = self.lengths[index], self.before[index]
        if not before:
            return None
        kind = (like.device, like.dtype)
        most = max(self.before)
        if kind not in self._biases:
            queries = max(n for n, other in zip(self.lengths, self.before, strict=True) if other)
            full = torch.full((queries, most + queries), -math.inf, dtype=like.dtype, device=like.device)
            self._biases[kind] = full.triu(most + 1)
        # Whether a key is seen depends on how far it is from the query only: one table does for all.
        part = self._biases[kind][:length, most - before : most + length]
        # Kernels on CUDA want it to begin at a multiple of 16 bytes, as new memory does.
        return part.clone(memory_format=torch.contiguous_format) if part.is_cuda else part

    def plan(self, device: torch.device) -> Plan:
        """See `Plan`."""
        if device not in self._plans:
            self._plans[device] = self._planned(device)
        return self._plans[device]

    def _planned(self, device: torch.device) -> Plan:
        tokens = sum(self.lengths)
        source: list[Places] = []
        own = np.empty(tokens, dtype=np.int64)
        count = np.zeros(tokens, dtype=np.int64)
        placed: list[Places] = []
        at = end = 0
        for length, spans in zip(self.lengths, self.ancestors, strict=True):
            for first, last in spans:
                turns = count[first:last].copy()
                for turn in np.unique(turns).tolist():
                    if turn == len(placed):
                        placed.append(np.empty(tokens, dtype=np.int64))
                    here = np.nonzero(turns == turn)[0]
                    placed[turn][first + here] = at + here
                count[first:last] += 1
                source.append(np.arange(first, last))
                at += last - first
            source.append(np.arange(end, end + length))
            own[end : end + length] = np.arange(at, at + length)
            at, end = at + length, end + length
        order = np.argsort(-count, kind="stable")[: int((count > 0).sum())]
        spread = np.zeros(tokens, dtype=np.int64)
        spread[order] = np.arange(1, len(order) + 1)
        copies = [where[order[: int((count > turn).sum())]] for turn, where in enumerate(placed)]

        def tensor(values: Any, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.from_numpy(np.asarray(values, dtype=np.int64)).to(device, dtype)

        return Plan(
            tensor(np.cumsum((0, *self.lengths)), torch.int32),
            tensor(np.cumsum((0, *self.keys)), torch.int32),
            tensor(np.concatenate(source)) if placed else None,
            tensor(own),
            tuple(tensor(one) for one in copies),
            tensor(spread),
        )


class _Gather(torch.autograd.Function):
    """Heads of a row's tokens, shape (tokens, heads, size), in the order of a plan's `source`.

    torch's own gradient of a gather adds with atomics where it runs on CUDA: in whichever order, and in half
    precision. This one only ever gathers, and adds in float32.
    """

    @staticmethod
    def forward(ctx: Any, heads: Tensor, plan: Plan, source: Tensor) -> Tensor:
        ctx.plan = plan
        return heads.index_select(0, source)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        plan: Plan = ctx.plan
        exact = torch.promote_types(gradient.dtype, torch.float32)
        rest = gradient.new_zeros((1 + len(plan.copies[0]), *gradient.shape[1:]), dtype=exact)
        for places in plan.copies:
            rest[1 : 1 + len(places)] += gradient.index_select(0, places)
        total = gradient.index_select(0, plan.own).to(exact)
        return total.add_(rest.index_select(0, plan.spread)).to(gradient.dtype), None, None


_gather: Any = _Gather.apply


def gathered(heads: Tensor, plan: Plan) -> Tensor:
    """A row's keys or values, (1, heads, tokens, size), in a plan's order, (keys, heads, size)."""
    flat = heads[0].transpose(0, 1)
    if plan.source is None:
        return flat
    found: Tensor = _gather(flat, plan, plan.source)
    return found
