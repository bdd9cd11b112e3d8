"""Two processes compute what one does: the same scores, loss, gradient and norm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ranks_cases import CASES, case, config, items, model
from ranks_launch import TORCHRUN, launch

from schemas.errors import AssayError
from trainers import lora, parallel
from trainers.items import collate
from trainers.world import Alone

EXACT = [name for name, (settings, _) in CASES.items() if "precision" not in settings]
ROUNDED = [name for name in CASES if name not in EXACT]


@pytest.fixture(scope="module")
def run_of_two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Where two processes wrote what they found, and what each printed."""
    folder = tmp_path_factory.mktemp("two")
    return folder, launch("ranks_cases.py", [folder])


@pytest.fixture(scope="module")
def of_two(run_of_two: tuple[Path, list[str]]) -> dict[str, dict[str, Any]]:
    """What two processes found in each case."""
    return {name: torch.load(run_of_two[0] / f"{name}.pt") for name in CASES}


@pytest.fixture(scope="module")
def of_one() -> dict[str, dict[str, Any]]:
    """What one process finds, without a group in float32 and in a group of its own in bf16."""
    found = {}
    for name, (settings, _) in CASES.items():
        with parallel.joined(config(**settings)) as world:
            found[name] = case(name, world)
    return found


def difference(left: torch.Tensor, right: torch.Tensor) -> float:
    """Relative to the size of the one on the left."""
    return float((left.double() - right.double()).norm() / left.double().norm().clamp_min(1e-9))


@pytest.mark.parametrize("name", EXACT)
def test_gradients_of_two_processes_sum_to_that_of_one(
    name: str, of_one: dict[str, dict[str, Any]], of_two: dict[str, dict[str, Any]]
) -> None:
    one, two = of_one[name]["gradient"], of_two[name]["gradient"]
    assert one.keys() == two.keys()
    worst = {key: difference(one[key], two[key]) for key in one}
    assert max(worst.values()) < 1e-5, worst


@pytest.mark.parametrize("name", ROUNDED)
def test_gradients_in_bf16_differ_by_its_rounding_only(
    name: str, of_one: dict[str, dict[str, Any]], of_two: dict[str, dict[str, Any]]
) -> None:
    one, two = of_one[name]["gradient"], of_two[name]["gradient"]
    assert all(grad.dtype == torch.float32 for grad in two.values())
    assert max(difference(one[key], two[key]) for key in one) < 0.02


@pytest.mark.parametrize("name", CASES)
def test_loss_and_norm_are_those_of_the_whole_step(
    name: str, of_one: dict[str, dict[str, Any]], of_two: dict[str, dict[str, Any]]
) -> None:
    one, two = of_one[name], of_two[name]
    near = 1e-5 if name in EXACT else 1e-2
    assert two["loss"] == pytest.approx(one["loss"], rel=near)
    assert two["norm"] == pytest.approx(one["norm"], rel=near)
    whole = torch.cat([grad.flatten() for grad in one["gradient"].values()]).norm()
    assert one["norm"] == pytest.approx(float(whole), rel=1e-5)
    assert two["clipped"] == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_a_process_that_loaded_nothing_has_the_same_model(
    name: str, of_one: dict[str, dict[str, Any]], of_two: dict[str, dict[str, Any]]
) -> None:
    one, two = of_one[name], of_two[name]
    # Each weight came over bit by bit; sums over a row are ordered by the processor's whim.
    assert one["state"].keys() == two["state"].keys()
    assert all(torch.equal(one["state"][key], two["state"][key]) for key in one["state"])
    torch.testing.assert_close(two["scores"], one["scores"], rtol=1e-5, atol=1e-5)


def test_recomputing_activations_changes_no_gradient(of_two: dict[str, dict[str, Any]]) -> None:
    for plain, recomputed in (("dense", "recomputed"), ("experts", "experts-recomputed")):
        one, two = of_two[plain]["gradient"], of_two[recomputed]["gradient"]
        assert max(difference(one[key], two[key]) for key in one) < 1e-6


def test_passes_in_bf16_leave_weights_and_score_head_in_float32() -> None:
    with parallel.joined(config(precision="bf16")) as world:
        whole = parallel.materialise(model, world, config(precision="bf16"))
        assert {parameter.dtype for parameter in whole.parameters()} == {torch.float32}
        seen: list[torch.dtype] = []
        assert whole.score is not None
        whole.score.register_forward_hook(lambda module, given, output: seen.append(output.dtype))
        whole.trunk.layers[0].register_forward_hook(lambda module, given, output: seen.append(output.dtype))
        output = whole(collate(items(), whole.layout, 0))
        assert seen == [torch.bfloat16, torch.float32]
        assert output.scores.dtype == output.logprobs.dtype == torch.float32


def test_parameters_are_at_rest_after_inference() -> None:
    given = config(precision="bf16")
    with parallel.joined(given) as world:
        whole = parallel.materialise(model, world, given)
        before = {name: id(parameter) for name, parameter in whole.named_parameters()}
        with torch.no_grad():
            whole(collate(items(), whole.layout, 0))
        assert {name: id(parameter) for name, parameter in whole.named_parameters()} == before


def test_names_of_weights_do_not_depend_on_how_they_are_computed() -> None:
    names = set(dict(model().named_parameters()))
    given = config(precision="bf16", activation_checkpointing=True)
    with parallel.joined(given) as world:
        whole = parallel.materialise(model, world, given)
        assert set(dict(whole.named_parameters())) == names
        state = parallel.full_state(whole)
        assert state is not None
        assert set(state) == set(model().state_dict())


def test_a_process_without_a_group_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    with parallel.joined(config()) as world:
        assert isinstance(world, Alone)
        assert not torch.distributed.is_initialized()
    with parallel.joined(config(precision="bf16")) as world:
        assert isinstance(world, parallel.Ranks)
        assert (world.rank, world.size) == (0, 1)
        assert world.total(np.array([1.5, 2.0])).tolist() == [1.5, 2.0]
        assert world.most(3) == 3
        assert world.gather("x") == ["x"]
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"RANK": "0"},
            r"has RANK but not WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; start with torchr",
        ),
        ({"RANK": "0", "WORLD_SIZE": "x"}, "RANK=0, WORLD_SIZE=x, LOCAL_RANK=0: these must be whole numbers"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2, WORLD_SIZE=2, LOCAL_RANK=0: a rank must be from 0"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "a rank must be from 0 to below the number of processes"),
    ],
)
def test_half_of_torchruns_environment_is_refused(
    given: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {"LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"} if len(given) > 1 else {}
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    for name, value in {**whole, **given}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(AssayError, match=message), parallel.joined(config()):
        pass


def test_an_address_that_cannot_be_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    values = ("0", "2", "0", "256.0.0.1", "99999")
    for name, value in zip(TORCHRUN, values, strict=True):
        monkeypatch.setenv(name, value)
    message = "process 0 of 2 cannot join the others at 256.0.0.1:99999"
    with pytest.raises(AssayError, match=message) as caught, parallel.joined(config()):
        pass
    assert "\n" not in str(caught.value)


def test_a_model_without_known_blocks_is_refused_where_blocks_are_needed() -> None:
    whole = model()
    whole.trunk._no_split_modules = ["Unheard"]
    assert parallel.blocks(whole.trunk) == list(whole.trunk.layers)
    whole.trunk.config.num_hidden_layers = 5
    with pytest.raises(AssayError, match="Qwen3Model: has no known class of blocks"):
        parallel.distribute(whole, Alone(), config(activation_checkpointing=True))
    parallel.distribute(whole, Alone(), config())


def test_what_stops_the_first_process_stops_all(run_of_two: tuple[Path, list[str]]) -> None:
    assert run_of_two[1] == ["no such model\n"] * 2


def test_merged_weights_of_adapters_compute_what_the_adapters_do() -> None:
    given = config(lora_rank=3)
    whole = parallel.materialise(model, Alone(), given)
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    state = parallel.full_state(whole)
    assert state is not None
    plain = model()
    plain.load_state_dict(lora.merged(state, given))
    batch = collate(items(), plain.layout, 0)
    torch.testing.assert_close(plain(batch).scores, whole(batch).scores, rtol=1e-4, atol=1e-4)
