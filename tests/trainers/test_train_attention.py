"""Attention over segments by one call of a kernel of any torch, and through wrapped blocks."""

from __future__ import annotations

import functools
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoModel, LlamaConfig, Qwen3Config, Qwen3MoeConfig

from schemas.errors import AssayError
from trainers import attention
from trainers.attention import attach, check, hidden_states, kernel_of, segment_attention
from trainers.kernels import KERNELS, Kernel, adapt_flash, adapt_varlen
from trainers.packing import Ids, Layout, layout
from trainers.segments import Segments, gathered

VOCABULARY = 300
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
}
CONFIGS: dict[str, Callable[[], Any]] = {
    "qwen3": lambda: Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=16),
    "llama": lambda: LlamaConfig(**SIZES, num_key_value_heads=4),
    "mixture": lambda: Qwen3MoeConfig(
        **SIZES,
        num_key_value_heads=1,
        head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
    ),
}


def slow(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries_at: Tensor,
    keys_at: Tensor,
    most_queries: int,
    most_keys: int,
    scale: float,
) -> Tensor:
    """What a kernel should do, a query and a head at a time."""
    assert queries_at.dtype == keys_at.dtype == torch.int32
    assert (queries_at[-1], keys_at[-1]) == (len(query), len(key))
    groups = query.shape[1] // key.shape[1]
    lengths = (queries_at.diff().tolist(), keys_at.diff().tolist())
    assert (most_queries, most_keys) == (max(lengths[0]), max(lengths[1]))
    rows = []
    for part, (queries, keys) in enumerate(zip(*lengths, strict=True)):
        for place in range(queries):
            at = int(keys_at[part])
            seen = slice(at, at + keys - queries + place + 1)
            heads = []
            for head in range(query.shape[1]):
                row = query[int(queries_at[part]) + place, head]
                weights = (key[seen, head // groups] @ row * scale).softmax(dim=0)
                heads.append(weights @ value[seen, head // groups])
            rows.append(torch.stack(heads))
    return torch.stack(rows)


SLOW = Kernel(lambda: slow, "cpu", (torch.float32, torch.float64), 256, 1)
attention.register("slow", SLOW)


@st.composite
def forests(draw: st.DrawFn) -> list[list[Ids]]:
    """Groups of sequences that begin alike in all ways: nested, equal, one the beginning of another."""
    few = st.lists(st.integers(1, 3), min_size=1, max_size=9)
    groups = draw(st.lists(st.lists(few, min_size=1, max_size=5), min_size=1, max_size=3))
    return [[np.array(one, dtype=np.int32) for one in group] for group in groups]


def heads_of(row: Layout, heads: int, key_heads: int, size: int = 4) -> list[Tensor]:
    draws = torch.Generator().manual_seed(1)
    return [
        torch.randn(1, n, len(row.ids), size, generator=draws, dtype=torch.float64).requires_grad_()
        for n in (heads, key_heads, key_heads)
    ]


def by_sequence(row: Layout, query: Tensor, key: Tensor, value: Tensor, scale: float) -> list[Tensor]:
    """Attention of each sequence alone, shape (its tokens, heads, size)."""
    groups = query.shape[1] // key.shape[1]
    found = []
    for place in row.places:
        own_query, own_key, own_value = (x[0][:, torch.from_numpy(place)] for x in (query, key, value))
        own_key, own_value = (x.repeat_interleave(groups, dim=0) for x in (own_key, own_value))
        products = own_query @ own_key.transpose(1, 2) * scale
        later = torch.ones_like(products[0]).triu(1).bool()
        found.append((products.masked_fill(later, -math.inf).softmax(-1) @ own_value).transpose(0, 1))
    return found


@pytest.mark.parametrize("kernel", [None, SLOW], ids=["segments", "kernel"])
@pytest.mark.parametrize(("heads", "key_heads"), [(2, 2), (4, 2), (3, 1)])
@given(groups=forests(), share=st.booleans())
@settings(max_examples=25, deadline=None)
def test_each_token_of_a_forest_gets_what_it_gets_where_its_sequence_stands_alone(
    kernel: Kernel | None, heads: int, key_heads: int, groups: list[list[Ids]], share: bool
) -> None:
    row = layout(groups, share)
    inputs = heads_of(row, heads, key_heads)
    got, _ = segment_attention(
        torch.nn.Identity(), *inputs, None, scaling=0.7, segments=Segments(row), kernel=kernel
    )
    # Tokens that several sequences share count in the loss of each.
    parts = [got[0, torch.from_numpy(place)] for place in row.places]
    alone = by_sequence(row, *inputs, 0.7)
    weights = [torch.linspace(-1, 1, one.numel(), dtype=torch.float64).view_as(one) for one in alone]
    for one, other in zip(parts, alone, strict=True):
        torch.testing.assert_close(one, other)
    gradients = [
        torch.autograd.grad(sum((o * w).sum() for o, w in zip(ones, weights, strict=True)), inputs)
        for ones in (parts, alone)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@given(groups=forests())
@settings(max_examples=100, deadline=None)
def test_keys_are_the_sequence_up_to_the_segments_end(groups: list[list[Ids]]) -> None:
    row = layout(groups)
    segments = Segments(row)
    assert sum(segments.lengths) == len(row.ids)
    plan = segments.plan(torch.device("cpu"))
    source = range(len(row.ids)) if plan.source is None else plan.source.tolist()
    sequences = {tuple(place.tolist()) for place in row.places}
    for start, end in itertools.pairwise(plan.keys_at.tolist()):
        keys = tuple(source[at] for at in range(start, end))
        assert any(keys == place[: len(keys)] for place in sequences)


def test_a_branch_that_stands_behind_its_prefix_is_one_segment_with_it() -> None:
    stem = np.arange(10, dtype=np.int32)
    sides = [np.concatenate([stem, np.full(n, 20 + n, np.int32)]) for n in (3, 4, 5)]
    segments = Segments(layout([sides, [stem]]))
    assert segments.lengths == (13, 4, 5, 10)
    assert segments.ancestors == ((), ((0, 10),), ((0, 10),), ())
    assert segments.keys == (13, 14, 15, 10)


def test_what_shares_nothing_is_not_copied() -> None:
    row = layout([[np.array([1, 2], np.int32)], [np.array([1, 2, 3], np.int32)]])
    keys: list[Tensor] = []

    def looks(query: Tensor, key: Tensor, value: Tensor, *where: Any) -> Tensor:
        keys.append(key)
        return query

    _, key, value = heads_of(row, 2, 2)
    kernel = Kernel(lambda: looks, "cpu", (torch.float64,), 256, 1)
    segment_attention(torch.nn.Identity(), key, key, value, None, segments=Segments(row), kernel=kernel)
    assert keys[0].data_ptr() == key.data_ptr()


def test_gradients_of_many_copies_in_half_precision_are_summed_in_full() -> None:
    stem = np.arange(4, dtype=np.int32)
    sides = [np.concatenate([stem, [100 + n]]).astype(np.int32) for n in range(300)]
    row = layout([sides])
    plan = Segments(row).plan(torch.device("cpu"))
    heads = torch.zeros(1, 1, len(row.ids), 1, dtype=torch.bfloat16, requires_grad=True)
    gathered(heads, plan).sum().backward()
    assert heads.grad is not None
    # 300 ones added one by one in bfloat16 stay at 256.
    assert heads.grad[0, 0, :4, 0].tolist() == [300.0] * 4
    assert heads.grad[0, 0, 4:, 0].tolist() == [1.0] * 300


@pytest.mark.parametrize(
    ("dtype", "dropout"), [(torch.float16, 0.0), (torch.bfloat16, 0.0), (torch.float64, 0.5)]
)
def test_what_a_kernel_does_not_compute_is_left_to_segments(dtype: torch.dtype, dropout: float) -> None:
    row = layout([[np.array([1, 2, 3], np.int32), np.array([1, 2, 4], np.int32)]])
    inputs = [x.detach().to(dtype) for x in heads_of(row, 4, 2)]

    def never(*inputs: Any) -> Tensor:
        raise AssertionError

    for kernel in (Kernel(lambda: never, "cpu", (torch.float32,)), Kernel(lambda: never, "cuda", (dtype,))):
        got, _ = segment_attention(
            torch.nn.Identity(), *inputs, None, dropout, segments=Segments(row), kernel=kernel
        )
        assert got.dtype == dtype
    one = Kernel(lambda: never, "cpu", (dtype,), 256, 1)
    if dropout:
        segment_attention(torch.nn.Identity(), *inputs, None, dropout, segments=Segments(row), kernel=one)


def test_a_bias_has_the_type_of_the_queries_whatever_it_was_made_for_before() -> None:
    row = layout([[np.array([1, 2, 3], np.int32), np.array([1, 2, 4], np.int32)]])
    segments = Segments(row)
    inputs = [x.detach() for x in heads_of(row, 4, 2)]
    wanted, _ = segment_attention(torch.nn.Identity(), *inputs, None, segments=segments)
    for dtype in (torch.float32, torch.bfloat16):
        got, _ = segment_attention(
            torch.nn.Identity(), *(x.to(dtype) for x in inputs), None, segments=segments
        )
        torch.testing.assert_close(got.double(), wanted, rtol=0.02, atol=0.02)


# The signatures that torch has had, each on top of the slow kernel.


def of_2_10(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    is_causal: bool = False,
    return_aux: object = None,
) -> Tensor:
    assert is_causal
    assert query.shape[1] == key.shape[1]
    own = 1 / math.sqrt(query.shape[-1])
    return slow(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, own)


def of_2_11(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    return_aux: object = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
) -> Tensor:
    assert window_size == (-1, 0)
    assert query.shape[1] == key.shape[1]
    assert scale is not None
    return slow(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, scale)


def of_2_12(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: object = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor:
    assert window_size == (-1, 0)
    assert enable_gqa or query.shape[1] == key.shape[1]
    assert cu_seq_k is not None
    assert scale is not None
    return slow(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, scale)


def of_flash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    deterministic: bool = False,
) -> Tensor:
    assert causal
    assert not dropout_p
    assert softmax_scale is not None
    return slow(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale)


def of_flash_3(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float | None = None,
    causal: bool = False,
) -> tuple[Tensor, None]:
    return of_flash(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, 0.0, softmax_scale, causal
    ), None


ADAPTED = [
    *(functools.partial(adapt_varlen, one) for one in (of_2_10, of_2_11, of_2_12)),
    *(functools.partial(adapt_flash, one) for one in (of_flash, of_flash_3)),
]


@pytest.mark.parametrize("load", ADAPTED)
@pytest.mark.parametrize("scaling", [None, 0.3])
def test_every_signature_is_told_of_causality_scale_and_fewer_key_heads(
    load: Callable[[], Any], scaling: float | None
) -> None:
    row = layout(
        [[np.array([1, 2, 3, 4], np.int32), np.array([1, 2, 5], np.int32)], [np.array([7], np.int32)]]
    )
    inputs = heads_of(row, 4, 2)
    kernel = Kernel(load, "cpu", (torch.float64,), 256, 1)
    results = [
        segment_attention(
            torch.nn.Identity(), *inputs, None, scaling=scaling, segments=Segments(row), kernel=one
        )[0]
        for one in (kernel, None)
    ]
    torch.testing.assert_close(*results)


def test_a_signature_that_is_not_known_is_refused_with_advice() -> None:
    with pytest.raises(AssayError, match=r"is not known; set train\.attention to segments"):
        adapt_varlen(lambda query, key, value: query)


def test_flash_attention_is_told_to_be_reproducible_where_torch_is() -> None:
    told = []

    def flash(*inputs: Any, softmax_scale: float, causal: bool, deterministic: bool = False) -> Tensor:
        told.append(deterministic)
        return inputs[0]

    query = torch.ones(1, 1, 1)
    for wanted in (True, False):
        torch.use_deterministic_algorithms(wanted)
        adapt_flash(flash)(query, query, query, query, query, 1, 1, 1.0)
    assert told == [True, False]


def half(kernel: Callable[..., Tensor]) -> Kernel:
    """As kernels are on CUDA: half precision in, half precision out."""

    def call(query: Tensor, key: Tensor, value: Tensor, *where: Any) -> Tensor:
        exact = (x.float() for x in (query, key, value))
        return kernel(*exact, *where).to(query.dtype)

    return Kernel(lambda: call, "cpu", (torch.bfloat16,))


def quick(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries_at: Tensor,
    keys_at: Tensor,
    a: int,
    b: int,
    scale: float,
) -> Tensor:
    """As `slow`, a part at a time."""
    outputs = []
    for part in range(len(queries_at) - 1):
        own, seen = (slice(*at[part : part + 2].tolist()) for at in (queries_at, keys_at))
        mask = torch.ones(own.stop - own.start, seen.stop - seen.start).tril(
            seen.stop - seen.start - own.stop + own.start
        )
        outputs.append(
            torch.nn.functional.scaled_dot_product_attention(
                *(x.transpose(0, 1) for x in (query[own], key[seen], value[seen])),
                attn_mask=mask.bool(),
                scale=scale,
                enable_gqa=query.shape[1] != key.shape[1],
            ).transpose(0, 1)
        )
    return torch.cat(outputs)


@pytest.mark.parametrize(("heads", "key_heads", "size"), [(16, 8, 128), (4, 4, 64), (8, 1, 16)])
def test_rounding_to_half_precision_is_no_reason_against_a_kernel(
    heads: int, key_heads: int, size: int
) -> None:
    assert check(half(quick), heads, key_heads, size) == ""


def top_left(query: Tensor, key: Tensor, value: Tensor, *where: Any) -> Tensor:
    """The other alignment: the first query sees the first key only."""
    queries_at, keys_at, _, _, scale = where
    outputs = []
    for part in range(len(queries_at) - 1):
        own, seen = (slice(*at[part : part + 2].tolist()) for at in (queries_at, keys_at))
        mask = torch.ones(own.stop - own.start, seen.stop - seen.start).tril().bool()
        products = torch.einsum("qhd,khd->hqk", query[own], key[seen]) * scale
        weights = products.masked_fill(~mask, -math.inf).softmax(-1)
        outputs.append(torch.einsum("hqk,khd->qhd", weights, value[seen]))
    return torch.cat(outputs)


def unmasked(query: Tensor, key: Tensor, value: Tensor, *where: Any) -> Tensor:

    return quick(
        query, key, value, torch.tensor([0, len(query)]), torch.tensor([0, len(key)]), 0, 0, where[4]
    )


def unscaled(query: Tensor, key: Tensor, value: Tensor, *where: Any) -> Tensor:
    return quick(query, key, value, *where[:4], where[4] * 1.1)


def stops_gradients(query: Tensor, key: Tensor, value: Tensor, *where: Any) -> Tensor:
    return quick(query, key.detach(), value, *where) + key.sum() * 0


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (top_left, "results"),
        (unmasked, "results"),
        (unscaled, "results"),
        (stops_gradients, "gradients of keys"),
    ],
)
def test_a_kernel_that_computes_something_else_is_found_out(wrong: Any, what: str) -> None:
    assert check(half(wrong), 4, 4, 32).startswith(f"its {what} are off by")


def test_a_kernel_that_does_not_compute_a_models_heads_is_found_out() -> None:
    assert check(KERNELS["varlen"], 4, 2, 20) == "it does not compute heads of size 20"
    assert check(KERNELS["varlen"], 4, 2, 512) == "it does not compute heads of size 512"


def made(family: str) -> Any:
    torch.manual_seed(0)
    return AutoModel.from_config(CONFIGS[family](), dtype=torch.float32)


def rows() -> Layout:
    draws = np.random.default_rng(0)
    stem = draws.integers(0, VOCABULARY, 9)
    ends = [draws.integers(0, VOCABULARY, size) for size in (5, 7, 1)]
    tree = [np.concatenate([stem, end]).astype(np.int32) for end in ends]
    return layout([tree, [draws.integers(0, VOCABULARY, 6).astype(np.int32)]])


def gradients_of(trunk: Any, row: Layout) -> tuple[Tensor, list[Tensor]]:
    trunk.zero_grad()
    states = hidden_states(trunk, row)
    weights = torch.linspace(-1, 1, states.numel()).view_as(states)
    (states * weights).sum().backward()
    return states.detach(), [p.grad.clone() for p in trunk.parameters() if p.grad is not None]


@pytest.mark.parametrize("family", CONFIGS)
def test_a_model_with_a_kernel_has_the_states_and_gradients_of_one_without(family: str) -> None:
    trunk = made(family)
    found = []
    for kernel in ("segments", "slow"):
        assert attach(trunk, 64, kernel) == ""
        assert kernel_of(trunk) == kernel
        found.append(gradients_of(trunk, rows()))
    (states, gradients), (other_states, other_gradients) = found
    torch.testing.assert_close(other_states, states)
    for one, other in zip(gradients, other_gradients, strict=True):
        assert (one - other).abs().max() < 1e-5 * max(1.0, float(one.abs().max()))


@pytest.mark.parametrize("kernel", ["segments", "slow"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_segments_reach_blocks_whose_activations_are_computed_again(kernel: str, reentrant: bool) -> None:
    trunk = made("qwen3").train()
    assert attach(trunk, 64, kernel) == ""
    states, gradients = gradients_of(trunk, rows())
    trunk.activation_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        trunk.enable_input_require_grads()
    assert trunk.is_activation_checkpointing
    again, other_gradients = gradients_of(trunk, rows())
    torch.testing.assert_close(again, states)
    for one, other in zip(gradients, other_gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_segments_reach_blocks_in_torchs_own_checkpoint_wrapper() -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    trunk = made("qwen3").train()
    assert attach(trunk, 64) == ""
    states, gradients = gradients_of(trunk, rows())
    for index, block in enumerate(trunk.layers):
        trunk.layers[index] = checkpoint_wrapper(block)
    again, other_gradients = gradients_of(trunk, rows())
    torch.testing.assert_close(again, states)
    for one, other in zip(gradients, other_gradients, strict=True):
        torch.testing.assert_close(one, other)


SHARDED = """
import sys
import numpy as np, torch, torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from transformers import AutoModel, Qwen3Config
from trainers.attention import attach, hidden_states
from trainers.packing import layout

dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
config = Qwen3Config(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, head_dim=16)
trunk = AutoModel.from_config(config, dtype=torch.float32).train()
assert attach(trunk, 64) == ""
ids = [np.array(one, np.int32) for one in ([1, 2, 3, 4], [1, 2, 5], [9, 8])]
row = layout([ids[:2], ids[2:]])
wanted = hidden_states(trunk, row).detach()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for index, block in enumerate(trunk.layers):
    trunk.layers[index] = checkpoint_wrapper(block)
    fully_shard(trunk.layers[index], mp_policy=policy)
fully_shard(trunk, mp_policy=policy)
assert {p.dtype for p in trunk.parameters()} == {torch.float32}
states = hidden_states(trunk, row)
assert states.dtype == torch.bfloat16, states.dtype
far = ((states.float() - wanted).norm() / wanted.norm()).item()
assert far < 0.05, far
states.float().square().sum().backward()
assert all(p.grad is not None for p in trunk.parameters())
dist.destroy_process_group()
print("whole")
"""


def test_segments_reach_sharded_blocks_that_compute_in_half_precision(tmp_path: Path) -> None:
    script = tmp_path / "sharded.py"
    script.write_text(SHARDED)
    root = Path(__file__).resolve().parents[2]
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(script),
    ]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    for attempt in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
        # torch's gloo aborts once in a long while when the machine is busy.
        if done.returncode == 0 or "SIGABRT" not in done.stderr or attempt:
            break
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("whole") == 2


def test_without_cuda_auto_takes_segments_and_a_kernel_by_name_is_refused() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is CUDA")
    trunk = made("qwen3")
    assert kernel_of(trunk) == ""
    for name in ("varlen", "flash"):
        with pytest.raises(AssayError, match=rf"train\.attention: {name} cannot be used \(it needs a CUDA"):
            attach(trunk, 64, name)
    assert attach(trunk, 64, "auto") == ""
    assert kernel_of(trunk) == "segments"


@pytest.fixture
def _wrong_kernel() -> Iterator[None]:
    attention.register("wrong", Kernel(lambda: unscaled, "cpu", (torch.float32,), 256, 1))
    yield
    attention.register("wrong", None)


@pytest.mark.usefixtures("_wrong_kernel")
def test_a_kernel_by_name_that_is_wrong_on_this_machine_is_refused_before_training() -> None:
    trunk = made("qwen3")
    before = trunk.config._attn_implementation
    with pytest.raises(
        AssayError, match=r"wrong cannot be used \(its results are off by .*; use auto or seg"
    ):
        attach(trunk, 64, "wrong")
    assert trunk.config._attn_implementation == before


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_deep_model_in_half_precision_passes_the_probe(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    config = Qwen3Config(**{**SIZES, "num_hidden_layers": 24}, num_key_value_heads=2, head_dim=16)
    assert attach(AutoModel.from_config(config, dtype=dtype), 64) == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_that_sees_one_key_too_few_fails_the_probe_in_any_precision(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    config = Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=16)
    trunk = AutoModel.from_config(config, dtype=dtype)
    whole = attention._packed

    def short(query: Tensor, key: Tensor, value: Tensor, segments: Segments, *more: Any) -> Tensor:
        return whole(query, key.roll(1, dims=2), value.roll(1, dims=2), segments, *more)

    monkeypatch.setattr(attention, "_packed", short)
    assert attach(trunk, 64).startswith("a packed row gives it other hidden states")


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_compiled_blocks_attend_as_others_do_whatever_the_lengths_of_a_row() -> None:
    trunk = made("qwen3")
    assert attach(trunk, 64) == ""
    other = layout([[np.arange(5, dtype=np.int32)], [np.arange(3, dtype=np.int32)]])
    wanted = [gradients_of(trunk, row) for row in (rows(), other)]
    compiled: list[object] = []

    def backend(graph: Any, inputs: Any) -> Any:
        # The compiler's own would take a minute; what it is given is the same.
        compiled.append(graph)
        return graph

    for block in trunk.layers:
        block.forward = torch.compile(block.forward, backend=backend)
    for row, (states, gradients) in zip((rows(), other), wanted, strict=True):
        again, others = gradients_of(trunk, row)
        torch.testing.assert_close(again, states)
        for one, two in zip(gradients, others, strict=True):
            torch.testing.assert_close(one, two)
    count = len(compiled)
    for size in range(10, 20):
        gradients_of(trunk, layout([[np.arange(size, dtype=np.int32)]] * (size - 9)))
    assert len(compiled) == count, "rows of other lengths are compiled anew"
