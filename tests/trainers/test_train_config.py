"""`TrainConfig`: strict about keys, types and ranges, and the same after a round trip through TOML."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.config import to_toml
from schemas.errors import AssayError
from trainers.config import TrainConfig


def test_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(AssayError, match="train: no setting 'warmup'; did you mean 'warmup_ratio'"):
        TrainConfig.from_mapping({"warmup": 0.1})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lr": "1e-5"}, "train: lr must be a number, got '1e-5'"),
        ({"lr": float("nan")}, "train: lr must be a number, got nan"),
        ({"epochs": 1.0}, "train: epochs must be a whole number, got 1.0"),
        ({"epochs": True}, "train: epochs must be a whole number"),
        ({"betas": [0.9]}, "train: betas must be a list of 2: a number"),
        ({"betas": [0.9, 1.0]}, "train.betas"),
        ({"batch_size": 0}, "train.batch_size: 0 must be at least 1"),
        ({"lr": -1.0}, "train.lr"),
        ({"dev_share": 1.0}, "train.dev_share"),
        ({"objective": "ppo"}, "train.objective: 'ppo' is not known; use bt or"),
        ({"magnitude": "centred"}, "use centered or abs"),
        ({"model": ""}, "train.model"),
        ({"vocab_size": 100}, "train.vocab_size"),
        ({"eps": 0}, "train.eps"),
    ],
)
def test_a_bad_value_is_refused_by_name(values: dict[str, object], message: str) -> None:
    with pytest.raises(AssayError, match=message):
        TrainConfig.from_mapping(values)


@given(
    st.fixed_dictionaries(
        {
            "model": st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
            "lr": st.floats(0, 1),
            "betas": st.lists(st.floats(0, 0.999), min_size=2, max_size=2),
            "seed": st.integers(-(2**62), 2**62),
            "truncation": st.sampled_from(["difference", "head"]),
        }
    )
)
def test_the_saved_config_trains_the_same_again(values: dict[str, object]) -> None:
    config = TrainConfig.from_mapping(values).resolved()
    assert TrainConfig.from_mapping(tomllib.loads(to_toml(config))) == config


def test_resolving_keeps_what_was_given() -> None:
    given_values = TrainConfig(lr=0.5, max_length=77, epochs=9).resolved()
    assert (given_values.lr, given_values.max_length, given_values.epochs) == (0.5, 77, 9)


def test_a_tiny_model_trains_with_as_many_threads_on_any_machine() -> None:
    assert TrainConfig().resolved().threads == 1
    assert TrainConfig(threads=2).resolved().threads == 2
    assert TrainConfig(model="some/model").resolved().threads == 0


def test_a_pretrained_model_is_never_given_the_rate_of_a_model_from_scratch() -> None:
    assert TrainConfig(model="some/model").resolved().lr <= 1e-5 < TrainConfig().resolved().lr


def test_the_config_needs_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = sys.modules['transformers'] = None; import trainers.config"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
