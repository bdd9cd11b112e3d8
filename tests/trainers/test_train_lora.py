"""Adapters begin as nothing, are all that is trained but for the score head, and vanish when merged."""

from __future__ import annotations

import copy
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks_cases import config, gradient, items, model

from schemas.errors import AssayError
from trainers import lora, parallel
from trainers.items import collate
from trainers.model import RewardModel
from trainers.world import Alone


def scores(whole: RewardModel) -> torch.Tensor:
    whole.eval()
    with torch.no_grad():
        found: torch.Tensor = whole(collate(items(), whole.layout, 0)).scores
    return found


def trained(whole: RewardModel, steps: int = 3) -> RewardModel:
    optimizer = torch.optim.AdamW([p for p in whole.parameters() if p.requires_grad], lr=0.01)
    for _ in range(steps):
        gradient(whole, Alone(), items())
        optimizer.step()
        optimizer.zero_grad()
    return whole


def test_a_fresh_adapter_changes_no_bit() -> None:
    whole = model()
    lora.wrap(whole, config(lora_rank=4))
    assert torch.equal(scores(whole), scores(model()))


@pytest.mark.parametrize("tied", [True, False])
def test_only_factors_and_score_head_are_trained(tied: bool) -> None:
    whole = model(tie_word_embeddings=tied)
    lora.wrap(whole, config(lora_rank=4))
    free = {name for name, parameter in whole.named_parameters() if parameter.requires_grad}
    assert "score.weight" in free
    assert all("lora_" in name for name in free - {"score.weight"})
    before = {name: parameter.clone() for name, parameter in whole.named_parameters()}
    trained(whole)
    changed = {
        name for name, parameter in whole.named_parameters() if not torch.equal(parameter, before[name])
    }
    assert changed == free


def test_all_linear_layers_of_the_blocks_get_adapters_and_the_heads_none() -> None:
    whole = model(tie_word_embeddings=False)
    lora.wrap(whole, config(lora_rank=4))
    wrapped = {name.partition(".lora_A")[0] for name, _ in whole.named_parameters() if ".lora_A" in name}
    plain = model()
    assert wrapped == {
        f"trunk.{name}" for name, module in plain.trunk.named_modules() if isinstance(module, torch.nn.Linear)
    }


@pytest.mark.parametrize(
    ("targets", "count"),
    [(("q_proj",), 2), (("q_proj", "down_proj"), 4), (("layers.1.self_attn.v_proj",), 1)],
)
def test_named_layers_alone_get_adapters(targets: tuple[str, ...], count: int) -> None:
    whole = model()
    lora.wrap(whole, config(lora_rank=4, lora_targets=targets))
    assert sum(".lora_A" in name for name, _ in whole.named_parameters()) == count


@pytest.mark.parametrize("name", ["proj", "lm_head", "self_attn", "embed_tokens"])
def test_a_name_of_no_linear_layer_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(
        AssayError, match=rf"lora_targets: '{name}' is no linear layer.*it has down_proj, .*v_proj"
    ):
        lora.wrap(model(), config(lora_rank=4, lora_targets=(name,)))


def test_without_peft_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(AssayError, match="needs peft; pip install peft"):
        lora.wrap(model(), config(lora_rank=4))


def test_factors_depend_on_the_seed_and_on_nothing_else() -> None:
    made = []
    for seed, noise in ((1, 0), (1, 5), (2, 0)):
        whole = model()
        torch.rand(noise)
        state = torch.get_rng_state()
        lora.wrap(whole, config(lora_rank=4, seed=seed))
        assert torch.equal(torch.get_rng_state(), state)
        made.append(whole.get_parameter("trunk.layers.0.mlp.up_proj.lora_A.default.weight"))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


@settings(max_examples=8, deadline=None)
@given(rank=st.integers(1, 40), alpha=st.floats(0.1, 50))
def test_merging_keeps_the_scores_for_any_rank_and_scale(rank: int, alpha: float) -> None:
    given_config = config(lora_rank=rank, lora_alpha=alpha)
    whole = model()
    lora.wrap(whole, given_config)
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.02)
    wanted = scores(whole)
    state = parallel.full_state(whole)
    assert state is not None
    plain = model()
    plain.load_state_dict(lora.merged(state, given_config))
    near = 1e-4 * max(1.0, float(wanted.abs().max()))
    torch.testing.assert_close(scores(plain), wanted, rtol=0, atol=near)
    torch.testing.assert_close(scores(lora.merge(whole)), wanted, rtol=0, atol=near)


def test_a_merged_model_has_the_names_and_the_classes_of_a_plain_one() -> None:
    whole = model()
    lora.wrap(whole, config(lora_rank=4))
    merged = lora.merge(trained(whole))
    plain = model()
    assert merged.state_dict().keys() == plain.state_dict().keys()
    assert [type(module) for module in merged.modules()] == [type(module) for module in plain.modules()]


def test_merging_leaves_the_adapters_as_they_are() -> None:
    given_config = config(lora_rank=4)
    whole = model()
    lora.wrap(whole, given_config)
    trained(whole)
    state = parallel.full_state(whole)
    assert state is not None
    before = copy.deepcopy(state)
    lora.merged(state, given_config)
    assert all(torch.equal(state[name], before[name]) for name in before)


def test_what_is_frozen_is_kept_in_bf16_where_it_is_computed_so() -> None:
    whole = model()
    lora.wrap(whole, config(lora_rank=4, precision="bf16"))
    kinds = {(parameter.requires_grad, parameter.dtype) for parameter in whole.parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
    state = parallel.full_state(whole)
    assert state is not None
    merged = lora.merged(state, config(lora_rank=4, precision="bf16"))
    assert merged["trunk.layers.0.mlp.up_proj.weight"].dtype == torch.float32


def test_a_mixture_of_experts_gets_adapters_in_its_linear_layers() -> None:
    whole = model(experts=True)
    lora.wrap(whole, config(lora_rank=4))
    before = scores(whole)
    assert not torch.equal(scores(trained(whole)), before)
