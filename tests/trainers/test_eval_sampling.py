"""Answers of a small policy: drawn from its distribution, each by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from eval_models import policy, reward_model
from transformers import TemperatureLogitsWarper, TopPLogitsWarper

from schemas.errors import AssayError
from trainers import sampling
from trainers.sampling import Answer, Policy, Sampling

HOW = Sampling(max_new_tokens=12, batch_size=4)
TEXTS = ["Improve this function.", "Go.", "def load(value):\n    return value\n"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is sure of little."""
    return policy(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def model(folder: Path) -> Policy:
    """The model."""
    return Policy(folder)


def test_an_answer_depends_on_its_seed_and_prompt_alone(model: Policy) -> None:
    prompts = [model.prompt_ids(text) for text in TEXTS * 3]
    seeds = list(range(9))
    together = model.answer(prompts, seeds, HOW)
    alone = [model.answer([prompt], [seed], HOW)[0] for prompt, seed in zip(prompts, seeds, strict=True)]
    assert together == alone
    turned = model.answer(prompts[::-1], seeds[::-1], Sampling(max_new_tokens=12, batch_size=2))
    assert turned[::-1] == together
    assert len({one.text for one in together}) == 9


def test_other_seeds_give_other_answers(model: Policy) -> None:
    prompt = model.prompt_ids("Go.")
    assert model.answer([prompt] * 2, [0, 1], HOW)[0] != model.answer([prompt] * 2, [2, 3], HOW)[0]


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.3, 1.0), (1.0, 0.5)])
def test_a_token_is_drawn_as_often_as_it_is_likely(temperature: float, top_p: float) -> None:
    """Random numbers that lie evenly must fall on each token in proportion, to one in their number."""
    logits = torch.from_numpy(np.random.default_rng(0).normal(0, 2, 50)).float()
    count = 4000
    even = (np.arange(count) + 0.5) / count
    scores = logits.expand(count, -1)
    ids = torch.zeros((count, 3), dtype=torch.long)
    scores = TemperatureLogitsWarper(temperature)(ids, scores)
    if top_p < 1:
        scores = TopPLogitsWarper(top_p)(ids, scores)
    wanted = torch.softmax(scores[0].double(), -1).numpy()
    left = sampling._Draws(even[:, None], 3)(ids, scores)
    assert torch.isfinite(left).sum(dim=1).tolist() == [1] * count
    found = np.bincount(left.argmax(dim=1).numpy(), minlength=50) / count
    assert np.abs(found - wanted).max() <= 1 / count + 1e-9
    assert np.all(wanted[found > 0] > 0)


@pytest.mark.parametrize("draw", [0.0, 1 - 2**-53])
def test_the_ends_of_the_range_of_random_numbers_give_a_token_that_can_be(draw: float) -> None:
    scores = torch.tensor([[float("-inf"), 1.0, 0.5, float("-inf")]])
    left = sampling._Draws(np.array([[draw]]), 0)(torch.zeros((1, 0), dtype=torch.long), scores)
    assert left.argmax().item() in (1, 2)


def test_temperature_0_takes_the_likeliest_token(model: Policy) -> None:
    prompts = [model.prompt_ids(text) for text in TEXTS]
    how = Sampling(temperature=0, max_new_tokens=8)
    first = model.answer(prompts, [0] * 3, how)
    assert first == model.answer(prompts, [7] * 3, how)


def test_an_end_token_ends_an_answer_and_is_not_in_it(model: Policy) -> None:
    end = min(model._ends)
    inside = model._tokenizer("a", add_special_tokens=False)["input_ids"]
    assert model._read([*inside, end, *inside]) == Answer("a", "stop", len(inside) + 1)
    assert model._read(inside) == Answer("a", "length", len(inside))


def test_without_a_chat_template_the_model_goes_on_from_the_text(folder: Path, tmp_path: Path) -> None:
    plain = policy(tmp_path / "plain")
    (plain / "chat_template.jinja").unlink()
    loaded = Policy(plain)
    assert (Policy(folder).chat, loaded.chat) == (True, False)
    ids = loaded.prompt_ids("def f(")
    assert loaded._tokenizer.decode(ids) == "def f("


def test_settings_of_the_models_maker_do_not_change_what_is_drawn(model: Policy, tmp_path: Path) -> None:
    other = policy(tmp_path / "tiny")
    (other / "generation_config.json").write_text(
        '{"do_sample": true, "top_k": 1, "repetition_penalty": 9.0, "temperature": 0.01, "max_length": 3}'
    )
    prompt = model.prompt_ids("Go.")
    assert Policy(other).answer([prompt], [5], HOW) == model.answer([prompt], [5], HOW)


def test_what_writes_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="is a reward model, which writes nothing"):
        Policy(reward_model(tmp_path / "rm"))
    with pytest.raises(AssayError, match="no such model folder"):
        Policy(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(AssayError, match="cannot be loaded as a language model"):
        Policy(tmp_path / "empty")


@pytest.mark.parametrize(
    "values", [{"temperature": -1.0}, {"temperature": float("nan")}, {"top_p": 0.0}, {"max_new_tokens": 0}]
)
def test_settings_out_of_range_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(AssayError, match="must be"):
        Sampling(**values)
