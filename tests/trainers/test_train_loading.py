"""A base model that is damaged in any way gives one line, and no weights are made up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from train_helpers import TINY, made_pairs, shard
from transformers import Qwen3Config, Qwen3ForCausalLM

from schemas.errors import AssayError
from trainers.config import TrainConfig
from trainers.loop import train
from trainers.score import Scorer
from trainers.tokenizer import load_tokenizer, train_tokenizer


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "qwen3"
    tokenizer = train_tokenizer(["def f(a):\n    return a\n"], 512)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            max_position_embeddings=512,
            tie_word_embeddings=False,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shard(tmp_path_factory.mktemp("pairs") / "a.parquet", made_pairs(12))


def without(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "model.safetensors"
        weights = load_file(file)
        del weights[name]
        save_file(weights, file, metadata={"format": "pt"})

    return change


def described(**other: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **other}))

    return change


def written(name: str, text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_text(text)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("model.layers.1.mlp.up_proj.weight"), r"lacks the weights model\.layers\.1\.mlp\.up_proj"),
        (without("lm_head.weight"), r"lacks the weights lm_head\.weight"),
        (described(intermediate_size=24), "has in another shape the weights .* and 5 more"),
        (described(num_hidden_layers=-1), r"no tokenizer can be loaded|cannot be loaded as a model"),
        (described(num_attention_heads=0), "cannot be loaded as a model"),
        (described(hidden_size=None), r"no tokenizer can be loaded|cannot be loaded as a model"),
        (described(hidden_size="big"), r"no tokenizer can be loaded|cannot be loaded as a model"),
        (written("config.json", "[]"), "no tokenizer can be loaded"),
        (written("tokenizer.json", '{"a": 1}'), "no tokenizer can be loaded"),
        (written("tokenizer_config.json", "[]"), "no tokenizer can be loaded"),
        (written("model.safetensors", ""), "cannot be loaded as a model"),
    ],
)
def test_a_damaged_base_gives_one_line(
    change: Callable[[Path], None], said: str, base: Path, pairs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "base"
    shutil.copytree(base, folder)
    change(folder)
    config = TrainConfig.from_mapping({**TINY, "model": str(folder), "max_steps": 1})
    with pytest.raises(AssayError, match=said) as caught:
        train(config, [pairs], tmp_path / "rm")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("rm*"))


def test_a_trunk_without_a_vocabulary_head_does_where_none_is_needed(
    base: Path, pairs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "base"
    shutil.copytree(base, folder)
    without("lm_head.weight")(folder)
    settings = {**TINY, "model": str(folder), "max_steps": 1, "lm_weight": 0.0}
    train(TrainConfig.from_mapping(settings), [pairs], tmp_path / "rm")
    assert torch.isfinite(load_file(tmp_path / "rm" / "model.safetensors")["score.weight"]).all()


def test_a_score_head_is_not_made_up(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "base"
    shutil.copytree(base, folder)
    described(num_labels=1, id2label={"0": "score"}, label2id={"score": 0})(folder)
    with pytest.raises(AssayError, match=r"cannot be loaded as a reward model: it lacks the weights score"):
        Scorer(folder)


@pytest.mark.parametrize("name", ["models/themis-pt-0.6b", "runs/rm"])
def test_a_model_that_an_earlier_stage_has_yet_to_make_is_not_looked_for_on_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssayError, match=f"{name}: no such model folder"):
        load_tokenizer(name)
