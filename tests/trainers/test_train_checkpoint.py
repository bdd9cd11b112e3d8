"""What is read from a checkpoint is what was saved, on any number of processes, or nothing at all."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ranks_cases import config, items, model
from ranks_launch import launch
from ranks_resume import IDENTITY, SAVED, STEPS, Run, fixed

from schemas.errors import AssayError
from trainers import checkpoint, parallel
from trainers.items import collate
from trainers.world import Alone

DROPOUT = {"attention_dropout": 0.3}
NAME = f"step-{SAVED:08d}"


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def saved(folder: Path, steps: int = 1, **how: Any) -> Run:
    """A run of a few steps that was saved after each."""
    run = Run(Alone())
    for number in range(1, steps + 1):
        run.step()
        run.save(folder, number, **how)
    return run


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], Run]:
    """The folder of two processes, what they found, and the run of one that saved before them."""
    folder = tmp_path_factory.mktemp("resume")
    one = Run(Alone()).whole(folder / "one")
    launch("ranks_resume.py", [folder])
    return folder, torch.load(folder / "found.pt"), one


@pytest.mark.parametrize("shape", [{}, DROPOUT, {"experts": True}, {"tie_word_embeddings": False}])
def test_one_process_goes_on_to_the_same_bits(shape: dict[str, Any], tmp_path: Path) -> None:
    whole = Run(Alone(), **shape).whole(tmp_path)
    rest = Run(Alone(), **shape)
    torch.manual_seed(7)
    rest.rest(tmp_path / NAME)
    assert whole.losses[SAVED:] == rest.losses
    assert equal(whole.weights(), rest.weights())
    assert len(set(whole.losses)) == STEPS


def test_two_processes_go_on_to_the_same_bits(of_two: tuple[Path, dict[str, Any], Run]) -> None:
    _, found, _ = of_two
    assert found["losses"][0][SAVED:] == found["losses"][1]
    assert equal(found["whole"], found["rest"])


def test_two_processes_go_on_from_the_checkpoint_of_one(of_two: tuple[Path, dict[str, Any], Run]) -> None:
    folder, found, _ = of_two
    alone = Run(Alone())
    assert alone.load(folder / "one" / NAME) == found["state"] == {"step": SAVED, "x": [0.1]}
    assert equal(alone.weights(), found["read"])
    for name, value in fixed(alone, 2).weights().items():
        torch.testing.assert_close(found["other"][name], value, rtol=1e-4, atol=1e-5)


def test_one_process_goes_on_from_the_checkpoint_of_two(of_two: tuple[Path, dict[str, Any], Run]) -> None:
    folder, _, _ = of_two
    runs = [Run(Alone()) for _ in range(2)]
    for run in runs:
        run.load(folder / "two" / NAME)
    moments = runs[0].optimizer.state[runs[0].model.trunk.embed_tokens.weight]
    assert float(moments["step"]) == SAVED
    assert moments["exp_avg"].shape == runs[0].model.trunk.embed_tokens.weight.shape
    assert equal(fixed(runs[0], 2).weights(), fixed(runs[1], 2).weights())
    fresh = Run(Alone())
    fresh.model.load_state_dict({name: value.clone() for name, value in runs[1].weights().items()})
    # Only with the optimizer's moments do weights move as they would have.
    assert not equal(fixed(fresh, 1).weights(), fixed(runs[0], 1).weights())


def test_all_generators_go_on(tmp_path: Path) -> None:
    run = saved(tmp_path)
    random.gauss(0, 1)
    np.random.standard_normal()
    run.save(tmp_path, 2)

    def draws() -> list[float]:
        return [random.gauss(0, 1), random.random(), np.random.standard_normal(), float(torch.randn(()))]

    wanted = draws()
    draws()
    run.load(tmp_path / "step-00000002")
    assert draws() == wanted


def test_other_generators_when_there_were_more_processes(of_two: tuple[Path, dict[str, Any], Run]) -> None:
    run = Run(Alone())
    draws = []
    for _ in range(2):
        torch.rand(5)
        run.load(of_two[0] / "two" / NAME)
        draws.append(torch.rand(3))
    assert torch.equal(draws[0], draws[1])


def test_a_group_of_one_reads_what_a_process_without_a_group_wrote(tmp_path: Path) -> None:
    given = {"precision": "bf16"}
    run = saved(tmp_path)
    with parallel.joined(config(**given)) as world:
        sharded = Run(world, given)
        sharded.load(tmp_path / "step-00000001")
        assert equal(sharded.weights(), run.weights())
        sharded.step()
        path = sharded.save(tmp_path, 2)
        weights = sharded.weights()
    back = Run(Alone())
    back.load(path)
    assert equal(back.weights(), weights)


def test_weights_can_be_read_after_inference_left_them_whole(tmp_path: Path) -> None:
    given = {"precision": "bf16"}
    with parallel.joined(config(**given)) as world:
        run = Run(world, given)
        run.step()
        before = run.weights()
        run.model(collate(items(), run.model.layout, 0))
        run.save(tmp_path, 1)
        run.step()
        run.load(tmp_path / "step-00000001")
        assert equal(run.weights(), before)


def test_a_checkpoint_of_adapters_leaves_out_what_is_frozen(tmp_path: Path) -> None:
    given = {"lora_rank": 2}
    run = Run(Alone(), given)
    run.step()
    path = run.save(tmp_path, 1)
    full = saved(tmp_path / "full").save(tmp_path / "full", 2)
    size, whole = (sum(file.stat().st_size for file in one.iterdir()) for one in (path, full))
    assert size < whole
    other = Run(Alone(), given)
    other.load(path)
    assert equal(other.weights(), run.weights())


def test_saving_before_the_first_step_keeps_the_optimizer_fresh(tmp_path: Path) -> None:
    run = Run(Alone())
    run.save(tmp_path, 0)
    other = Run(Alone())
    other.load(tmp_path / "step-00000000")
    assert not other.optimizer.state
    assert equal(fixed(other, 2).weights(), fixed(run, 2).weights())


def test_a_weight_without_gradients_gets_no_moments(tmp_path: Path) -> None:
    run = Run(Alone(), tie_word_embeddings=False)
    head = run.model.head
    assert isinstance(head, torch.nn.Linear)
    run.step()
    del run.optimizer.state[head.weight]
    path = run.save(tmp_path, 1)
    other = Run(Alone(), tie_word_embeddings=False)
    other.load(path)
    assert isinstance(other.model.head, torch.nn.Linear)
    assert other.model.head.weight not in other.optimizer.state
    assert len(other.optimizer.state) == len(run.optimizer.state)


def test_moments_of_a_fused_optimizer_go_on_to_the_same_bits(tmp_path: Path) -> None:
    def made() -> Run:
        run = Run(Alone())
        run.optimizer = torch.optim.AdamW(run.model.parameters(), lr=0.01, fused=True)
        return run

    run, other = made(), made()
    fixed(run, 2)
    other.load(run.save(tmp_path, 2))
    assert equal(fixed(run, 2).weights(), fixed(other, 2).weights())


def test_weights_alone_can_be_read_and_leave_the_generators(tmp_path: Path) -> None:
    run = saved(tmp_path)
    other = Run(Alone())
    state = torch.get_rng_state()
    told = checkpoint.load(tmp_path / "step-00000001", other.model, None, identity=IDENTITY, world=Alone())
    assert told["step"] == 1
    assert equal(other.weights(), run.weights())
    assert torch.equal(torch.get_rng_state(), state)
    assert not other.optimizer.state


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_stay_and_the_best(tmp_path: Path) -> None:
    run = Run(Alone())
    for step in range(1, 7):
        run.step()
        run.save(tmp_path, step, keep_last=2, best=step in (1, 2))
    assert names(tmp_path) == ["best", "latest", "step-00000002", "step-00000005", "step-00000006"]
    assert checkpoint.find_latest(tmp_path) == tmp_path / "step-00000006"
    assert checkpoint.find_best(tmp_path) == tmp_path / "step-00000002"


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    run = saved(tmp_path, 2, best=True)
    run.step()
    run.save(tmp_path, 2)
    assert names(tmp_path) == ["best", "latest", "step-00000001", "step-00000002"]
    other = Run(Alone())
    other.load(tmp_path / "step-00000002")
    assert equal(other.weights(), run.weights())
    assert checkpoint.find_best(tmp_path) == tmp_path / "step-00000002"


def test_nothing_is_found_where_nothing_was_saved(tmp_path: Path) -> None:
    assert checkpoint.find_latest(tmp_path) is None
    assert checkpoint.find_latest(tmp_path / "none") is None
    assert checkpoint.find_best(tmp_path) is None


def test_what_a_killed_process_left_is_passed_over_and_swept(tmp_path: Path) -> None:
    run = saved(tmp_path, 2)
    shutil.copytree(tmp_path / "step-00000002", tmp_path / ".step-00000009.partial")
    (tmp_path / "latest").write_text("step-00000002\n")
    assert checkpoint.find_latest(tmp_path) == tmp_path / "step-00000002"
    run.save(tmp_path, 3)
    assert not (tmp_path / ".step-00000009.partial").exists()


@pytest.mark.parametrize(
    "pointer", [None, "step-00000009", "../step-00000001", "\udc80", "", "step-1\nstep-2"]
)
def test_a_pointer_to_nowhere_gives_the_newest_whole_one(pointer: str | None, tmp_path: Path) -> None:
    saved(tmp_path, 2)
    (tmp_path / "latest").unlink()
    if pointer is not None:
        (tmp_path / "latest").write_bytes(pointer.encode("utf-8", "surrogateescape"))
    assert checkpoint.find_latest(tmp_path) == tmp_path / "step-00000002"


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("file", ["__0_0.distcp", ".metadata", "generators-00000.json", "state.json"])
@pytest.mark.parametrize("damage", [_truncate, Path.unlink])
def test_a_damaged_newest_one_is_told_and_the_one_before_it_taken(
    file: str, damage: Any, tmp_path: Path
) -> None:
    run = saved(tmp_path, 2)
    damage(tmp_path / "step-00000002" / file)
    told: list[str] = []
    assert checkpoint.find_latest(tmp_path, told.append) == tmp_path / "step-00000001"
    assert len(told) == 1
    assert str(tmp_path / "step-00000002") in told[0]
    assert file in told[0]
    assert "\n" not in told[0]
    with pytest.raises(AssayError, match="the checkpoint is damaged"):
        run.load(tmp_path / "step-00000002")
    assert run.load(tmp_path / "step-00000001")["step"] == 1


@pytest.mark.parametrize("file", ["__0_0.distcp", ".metadata", "generators-00000.json"])
def test_bytes_that_are_not_those_written_are_one_line(file: str, tmp_path: Path) -> None:
    run = saved(tmp_path)
    path = tmp_path / "step-00000001" / file
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(AssayError, match="the checkpoint is damaged") as caught:
        run.load(tmp_path / "step-00000001")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"format": 99}', '{"format": 1, "files": []}'])
def test_a_state_that_is_none_is_one_line(text: str, tmp_path: Path) -> None:
    run = saved(tmp_path)
    (tmp_path / "step-00000001" / "state.json").write_text(text)
    assert checkpoint.find_latest(tmp_path) is None
    with pytest.raises(AssayError, match=r"the checkpoint is damaged \(state\.json"):
        run.load(tmp_path / "step-00000001")


class _Runs:
    """Pickled data that would run a program when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.path}",)


def test_a_description_that_would_run_a_program_is_refused(tmp_path: Path) -> None:
    run = saved(tmp_path)
    folder = tmp_path / "step-00000001"
    (folder / ".metadata").write_bytes(pickle.dumps(_Runs(tmp_path / "ran")))
    told = json.loads((folder / "state.json").read_text())
    told["files"][".metadata"] = (folder / ".metadata").stat().st_size
    (folder / "state.json").write_text(json.dumps(told))
    with pytest.raises(AssayError, match=r"\.metadata names posix\.system, which no checkpoint has"):
        run.load(folder)
    assert not (tmp_path / "ran").exists()


def test_another_run_is_refused_by_what_differs(tmp_path: Path) -> None:
    run = saved(tmp_path)
    path = tmp_path / "step-00000001"
    with pytest.raises(
        AssayError, match=r"another run \(train\.lr is 0\.02 and was 0\.01\).*--clean"
    ) as caught:
        run.load(path, identity={**IDENTITY, "lr": 0.02})
    assert "\n" not in str(caught.value)
    with pytest.raises(AssayError, match=r"another run \(the data\)"):
        run.load(path, identity={**IDENTITY, "data": "def"})
    with pytest.raises(AssayError, match=r"train\.a is 1 and was None, .* and 3 more\)"):
        run.load(path, identity={**IDENTITY, **dict.fromkeys("abcdefg", 1)})
    assert run.load(path, identity={"lr": 0.02}, changed=True)["step"] == 1


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ({"hidden_size": 64}, "trunk.embed_tokens.weight: it has another shape"),
        ({"num_hidden_layers": 3}, r"trunk.layers.2.[a-z_.0-9]+: it has none"),
    ],
)
def test_another_model_is_refused_by_a_weight_that_differs(
    shape: dict[str, Any], name: str, tmp_path: Path
) -> None:
    saved(tmp_path)
    other = Run(Alone(), **shape)
    before = other.weights()
    with pytest.raises(AssayError, match=rf"of another model \({name}\)"):
        other.load(tmp_path / "step-00000001", changed=True)
    assert equal(other.weights(), before)


def test_a_full_disk_is_one_line_and_keeps_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = saved(tmp_path)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AssayError, match=r"cannot be written \(No space left on device\)") as caught:
        run.save(tmp_path, 2)
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == ["latest", "step-00000001"]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        AssayError, match=r"file/inside: the checkpoint cannot be written \(Not a directory\)"
    ):
        Run(Alone()).save(tmp_path / "file" / "inside", 1)


@pytest.mark.parametrize(
    ("metric", "lower"),
    [
        *((name, True) for name in ("loss", "ece", "brier", "nll", "mse", "mae", "ece_adaptive", "dev.Loss")),
        *((name, False) for name in ("accuracy", "auc", "margin", "spearman", "piece", "glossary")),
    ],
)
def test_lower_losses_and_errors_are_better_and_higher_others(metric: str, lower: bool) -> None:
    assert checkpoint.better(metric, 0.1, 0.2) is lower
    assert checkpoint.better(metric, 0.2, 0.1) is not lower
    assert not checkpoint.better(metric, 0.1, 0.1)
    assert not checkpoint.better(metric, float("nan"), 0.1)
    assert checkpoint.better(metric, 0.1, float("nan"))


def test_a_metric_is_a_number_of_the_evaluation() -> None:
    result = {"accuracy": 0.5, "pairs": 3, "ok": True, "by_language": {"Go": 1.0}}
    assert checkpoint.metric_of(result, "accuracy") == 0.5
    assert checkpoint.metric_of(result, "pairs") == 3.0
    for name in ("ok", "by_language", "f1"):
        with pytest.raises(AssayError, match=rf"no number '{name}'; it has accuracy, pairs"):
            checkpoint.metric_of(result, name)


def test_a_model_that_is_built_anew_shares_what_the_saved_one_shared(tmp_path: Path) -> None:
    run = saved(tmp_path)
    other = Run(Alone())
    other.load(tmp_path / "step-00000001")
    assert isinstance(other.model.head, torch.nn.Linear)
    assert other.model.head.weight is other.model.trunk.embed_tokens.weight
    assert equal(other.weights(), run.weights())
    assert set(model().state_dict()) == set(other.weights())
