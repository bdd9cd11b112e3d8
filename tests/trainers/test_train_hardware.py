"""What a run is said to need, against what transformers and torch make of the same numbers."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    LlamaConfig,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from schemas.errors import AssayError
from trainers import attention, model
from trainers.attention import hidden_states
from trainers.config import TrainConfig
from trainers.hardware import (
    DEVICES,
    GIB,
    LOGITS_AT_ONCE,
    SHAPES,
    USABLE,
    Shape,
    fewest,
    forecast,
    held,
    kept,
    memory,
    operations,
    positions,
    table,
)
from trainers.kernels import Kernel
from trainers.packing import layout

PUBLISHED = {
    "0.6b": 596_049_920,
    "1.7b": 1_720_574_976,
    "4b": 4_022_468_096,
    "8b": 8_190_735_360,
    "14b": 14_768_307_200,
    "32b": 32_762_123_264,
    "30b-a3b": 30_532_122_624,
    "coder-1.5b": 1_543_714_304,
    "coder-3b": 3_085_938_688,
    "deepseek-coder-6.7b": 6_740_512_768,
}


def config_of(shape: Shape, **other: Any) -> PretrainedConfig:
    values: dict[str, Any] = {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_heads,
        "tie_word_embeddings": shape.tied,
        "max_position_embeddings": shape.positions,
        **other,
    }
    if shape.experts:
        more = {"num_experts": shape.experts, "num_experts_per_tok": shape.active}
        return Qwen3MoeConfig(
            **values, **more, moe_intermediate_size=shape.intermediate, head_dim=shape.head_size
        )
    if shape.normed_heads:
        return Qwen3Config(**values, head_dim=shape.head_size)
    return Qwen2Config(**values) if shape.biased else LlamaConfig(**values)


SMALL = {
    "qwen3": Shape("a", 64, 2, 4, 2, 48, 100, 300, True, 4096, normed_heads=True),
    "qwen2": Shape("b", 64, 2, 4, 2, 16, 100, 300, True, 4096, biased=True),
    "llama": Shape("c", 64, 3, 4, 4, 16, 88, 300, False, 4096),
    "mixture": Shape("d", 64, 2, 4, 2, 48, 40, 300, False, 4096, normed_heads=True, experts=8, active=2),
}


@pytest.mark.parametrize("name", SHAPES)
def test_parameters_are_those_of_the_model_that_transformers_builds(name: str) -> None:
    shape = SHAPES[name]
    with torch.device("meta"):
        made: Any = AutoModelForCausalLM.from_config(config_of(shape))
    assert shape.parameters == made.num_parameters() == PUBLISHED[name]
    assert shape.trunk == sum(p.numel() for p in made.base_model.parameters())
    assert shape.block == sum(p.numel() for p in made.base_model.layers[0].parameters())
    linear = [m for m in made.base_model.layers[0].modules() if isinstance(m, torch.nn.Linear)]
    assert sorted(shape.linear.values()) == sorted((one.in_features, one.out_features) for one in linear)


@given(
    *(st.integers(1, 6) for _ in range(3)),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 50),
    st.booleans(),
    st.sampled_from(["normed_heads", "biased", "experts", ""]),
)
@settings(max_examples=40, deadline=None)
def test_parameters_of_any_numbers_are_exact(
    hidden: int, layers: int, intermediate: int, groups: int, vocabulary: int, tied: bool, kind: str
) -> None:
    other: dict[str, Any] = {kind: True} if kind else {}
    if kind == "experts":
        other = {"experts": 3, "active": 2, "normed_heads": True}
    # Only Qwen3 has a head size of its own.
    size = 16 * hidden // 4 if kind in ("biased", "") else 8
    shape = Shape("x", 16 * hidden, layers, 4, 4 // groups, size, intermediate, vocabulary, tied, 64, **other)
    with torch.device("meta"):
        made: Any = AutoModelForCausalLM.from_config(config_of(shape, pad_token_id=None))
    assert shape.parameters == made.num_parameters()


def config(**values: Any) -> TrainConfig:
    base = {"model": "x", "precision": "bf16", "max_length": 4096, "activation_checkpointing": True}
    return TrainConfig.from_mapping({**base, **values}).resolved()


class _Kept(torch.autograd.Function):
    """Keeps what FlashAttention keeps."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, *where: Any) -> Tensor:
        result = query.clone()
        sums = torch.zeros(query.shape[1], query.shape[0])
        ctx.save_for_backward(query, key, value, result, sums)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise AssertionError("what a forward pass keeps is counted, and nothing else")


attention.register("kept", Kernel(lambda: _Kept.apply, "cpu", (torch.bfloat16, torch.float32), 256, 1))


def saved_bytes(shape: Shape, layers: int, tokens: int, dtype: torch.dtype) -> int:
    """Bytes that autograd keeps of a forward pass, beside the weights."""
    made: Any = AutoModel.from_config(config_of(dataclasses.replace(shape, layers=layers)), dtype=dtype)
    made.train().set_attn_implementation(f"{attention.NAME}_kept")
    weights = {p.untyped_storage().data_ptr() for p in made.parameters()}
    found: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    row = layout([[np.arange(tokens, dtype=np.int32) % 50]], share=False)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        # What is kept must live until it is counted.
        states = hidden_states(made, row)
    assert states.requires_grad
    return sum(found.values())


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize("family", SMALL)
def test_a_block_keeps_the_bytes_that_autograd_keeps(family: str, precision: str) -> None:
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[precision]
    for shape in (SMALL[family], dataclasses.replace(SMALL[family], intermediate=160)):
        one, two = (saved_bytes(shape, layers, 512, dtype) for layers in (1, 2))
        got, _ = kept(config(layout="packed", precision=precision), shape)
        assert got == pytest.approx((two - one) / 512, rel=0.01)


TRACKED = """
import copy, json, sys
import torch, torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig, AutoModel

SIZE = 4
dist.init_process_group("fake", rank=0, world_size=SIZE, store=FakeStore())
mesh = init_device_mesh("cpu", (SIZE,))

class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value):
        result, sums = torch.empty_like(query), torch.empty(query.shape[:2])
        ctx.save_for_backward(query, key, value, result, sums)
        return result

    @staticmethod
    def backward(ctx, gradient):
        query, key, value, _, _ = ctx.saved_tensors
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)

def attend(module, query, key, value, mask, **other):
    return Attention.apply(*(x[0].transpose(0, 1) for x in (query, key, value)))[None], None

AttentionInterface.register("tracked", attend)
AttentionMaskInterface.register("tracked", lambda *given, **other: None)

def recomputed(forward):
    return lambda *given, **more: checkpoint(forward, *given, use_reentrant=False, **more)

def peak(values, again, tokens):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    with FakeTensorMode():
        config = AutoConfig.for_model(**values)
        trunk = AutoModel.from_config(config, dtype=torch.float32, attn_implementation="tracked").train()
        for block in trunk.layers:
            if again:
                block.forward = recomputed(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=policy)
        fully_shard(trunk, mesh=mesh, mp_policy=policy)
        tracker = FSDPMemTracker(trunk, torch.optim.SGD(trunk.parameters()))
        ids = torch.zeros((1, tokens), dtype=torch.long)
        tracker.track_inputs((ids,))
        with tracker:
            for step in range(2):
                trunk(input_ids=ids, use_cache=False).last_hidden_state.sum().backward()
                trunk.zero_grad()
                if not step:
                    tracker.reset_mod_stats()
    found = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
    return max(value for name, value in found.items() if "Total" in str(name))

for line in sys.stdin:
    print(peak(*json.loads(line)), flush=True)
"""


def test_the_memory_of_a_device_covers_what_torch_counts_and_little_more(tmp_path: Path) -> None:
    wide = dataclasses.replace
    base = Shape("x", 1024, 4, 16, 8, 128, 3072, 1000, True, 40960, normed_heads=True)
    asked = [
        (base, True, 16384),
        (base, False, 8192),
        (wide(base, intermediate=16384, layers=2), True, 16384),
        (wide(base, heads=64, layers=2), True, 16384),
        (wide(base, hidden=2560, heads=32, intermediate=9728, layers=2), False, 8192),
        (wide(base, intermediate=512, experts=16, active=8, layers=2), False, 8192),
    ]
    given = []
    for shape, again, tokens in asked:
        made = config_of(shape)
        given.append(json.dumps([{**made.to_diff_dict(), "model_type": made.model_type}, again, tokens]))
    script = tmp_path / "tracked.py"
    script.write_text(TRACKED)
    done = subprocess.run(
        [sys.executable, str(script)],
        input="\n".join(given),
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for (shape, again, tokens), line in zip(asked, done.stdout.split(), strict=True):
        settings_of = config(
            objective="pointwise",
            layout="packed",
            activation_checkpointing=again,
            pass_tokens=tokens,
        )
        # The peak is where activations are: before gradients are in parts, and without an optimizer.
        found = memory(settings_of, shape, 4, dataclasses.replace(DEVICES["H100"], memory=0))
        said = found.total - found.optimizer - found.gradients
        assert 1.0 <= said / float(line) < 1.3, (shape, again, said / float(line))


@pytest.mark.parametrize("family", SMALL)
def test_operations_are_those_that_torch_counts(family: str) -> None:
    shape = SMALL[family]
    torch.manual_seed(0)
    made: Any = AutoModelForCausalLM.from_config(
        config_of(shape), dtype=torch.float32, attn_implementation="eager", experts_implementation="eager"
    ).train()
    tokens = 64
    ids = torch.arange(tokens)[None] % shape.vocabulary
    with FlopCounterMode(display=False) as counter:
        made(input_ids=ids, use_cache=False).logits.sum().backward()
    # Eager attention computes what is masked too, which is every key: as of a sequence of twice the length.
    plain = config(objective="bt", lm_weight=1.0, activation_checkpointing=False, precision="fp32")
    said = operations(plain, shape, 2 * tokens, 1.0)
    assert said.model * tokens == pytest.approx(counter.get_total_flops(), rel=0.03)


def test_low_rank_training_saves_what_weights_gradients_cost() -> None:
    shape = SHAPES["4b"]
    full, low = (operations(config(lora_rank=rank), shape, 2000, 0.4) for rank in (0, 16))
    attend = 3 * 4 * shape.layers * shape.queries * 1000
    assert (full.model - attend) * 2 / 3 < low.model - attend < (full.model - attend) * 0.69
    assert low.again == full.again


@pytest.mark.parametrize("family", ["qwen3", "llama", "mixture"])
@pytest.mark.parametrize("targets", [(), ("q_proj", "o_proj")])
def test_low_rank_factors_are_those_that_peft_makes(family: str, targets: tuple[str, ...]) -> None:
    pytest.importorskip("peft")
    from trainers import lora

    shape = SMALL[family]
    with torch.device("meta"):
        causal: Any = AutoModelForCausalLM.from_config(config_of(shape), dtype=torch.float32)
    made = model.RewardModel(causal.base_model, causal.get_output_embeddings())
    settings_of = config(lora_rank=4, lora_targets=targets)
    lora.wrap(made, settings_of)
    assert held(settings_of, shape) == (
        sum(p.numel() for p in made.parameters()),
        sum(p.numel() for p in made.parameters() if p.requires_grad),
    )


def test_a_target_that_is_no_linear_layer_is_refused() -> None:
    with pytest.raises(AssayError, match=r"train\.lora_targets: 'gate' is no linear layer .* it has q_proj"):
        held(config(lora_rank=4, lora_targets=["gate"]), SHAPES["4b"])


def test_logits_at_once_are_those_of_the_model() -> None:
    assert model.LOGITS_AT_ONCE["cuda"] == LOGITS_AT_ONCE


shapes = st.sampled_from(sorted(SHAPES))


@given(shapes, st.integers(1, 512), st.sampled_from(sorted(DEVICES)), st.booleans())
@settings(max_examples=60, deadline=None)
def test_more_devices_never_need_more_memory_each(name: str, devices: int, kind: str, offload: bool) -> None:
    device = DEVICES[kind]
    # One device does not sum over devices, so it keeps no whole gradients beside its parts.
    few, many = (
        memory(config(offload=offload), SHAPES[name], count, device).total
        for count in (devices + 1, 2 * devices + 2)
    )
    assert many <= few


@given(shapes, st.sampled_from([512, 1024, 2048]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_fewest_devices_fit_and_fewer_do_not(name: str, tokens: int, again: bool) -> None:
    settings_of = config(
        objective="yesno", pass_tokens=tokens, max_length=512, activation_checkpointing=again
    )
    for device in DEVICES.values():
        count = fewest(settings_of, SHAPES[name], device)
        assert memory(settings_of, SHAPES[name], count, device).total <= USABLE * device.memory
        fewer = [n for n in (1, 2, 4, *range(8, count, 8)) if n < count]
        assert all(memory(settings_of, SHAPES[name], n, device).total > USABLE * device.memory for n in fewer)


def test_weights_gradients_and_optimizer_take_sixteen_bytes_a_parameter() -> None:
    found = memory(config(), SHAPES["8b"], 64, DEVICES["H100"])
    states = found.weights + found.gradients + found.optimizer
    assert states * 64 == 16 * (PUBLISHED["8b"] + SHAPES["8b"].hidden)


def test_small_gradients_stay_whole_where_there_are_several_devices() -> None:
    shape = SHAPES["0.6b"]
    one, two = (memory(config(), shape, count, DEVICES["H100"]).gradients for count in (1, 2))
    assert two - one / 2 == 4 * (PUBLISHED["0.6b"] + shape.hidden)


def test_offloaded_states_take_nothing_of_the_device() -> None:
    found = memory(config(offload=True), SHAPES["14b"], 8, DEVICES["H100"])
    assert found.weights + found.optimizer + found.gradients == 0
    assert found.gathered > 0


def test_an_example_that_is_longer_than_a_pass_counts_whole() -> None:
    assert positions(config(pass_tokens=100, max_length=4096)) == 8192
    assert positions(config(pass_tokens=100, max_length=4096, objective="yesno")) == 4096
    assert positions(config(pass_tokens=100, max_length=4096, objective="joint", together=5)) == 5 * 4096
    assert positions(config(max_length=1000)) == 8000


def test_hours_are_operations_over_the_peak_and_grow_with_epochs() -> None:
    made = forecast(config(epochs=2), SHAPES["4b"], 1e9, devices=16, length=2000, predicted=0.4, mfu=0.5)
    assert made.tokens == 2e9
    cost = operations(config(), SHAPES["4b"], 2000, 0.4).model
    assert made.hours == pytest.approx(2e9 * cost / (16 * 989e12 * 0.5) / 3600)
    assert made.operations.model / 1e9 == pytest.approx(24.5, abs=0.5)


def test_kto_pays_for_its_reference_and_its_mismatched_pairs() -> None:
    plain, kto = (operations(config(objective=name), SHAPES["coder-3b"], 600, 0.5) for name in ("bt", "kto"))
    assert plain.without_gradient == 0
    assert kto.without_gradient == pytest.approx(kto.model)


def test_sequences_longer_than_the_model_reads_are_refused() -> None:
    with pytest.raises(AssayError, match=r"train\.max_length: Qwen/Qwen3-4B reads at most 40960 tokens"):
        forecast(config(max_length=65536), SHAPES["4b"], 1e6)


def test_a_pass_that_fits_on_no_number_of_devices_is_refused_with_advice() -> None:
    with pytest.raises(AssayError, match="a pass of 8388608 tokens does not fit on any number of H100"):
        forecast(config(pass_tokens=1 << 23), SHAPES["32b"], 1e6)


def test_the_table_has_a_line_for_each_run_under_its_name() -> None:
    made = forecast(config(), SHAPES["0.6b"], 1e9, devices=8)
    lines = table([("first", made), ("second", copy.copy(made))]).splitlines()
    assert lines[0].startswith("| run | parameters | devices |")
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| first", "| second"]
    assert f"{made.memory.total / GIB:.1f} GiB" in lines[2]
    assert len({line.count("|") for line in lines}) == 1
