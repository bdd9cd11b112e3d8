"""The exported folder: what others load, what it says, what is refused."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from train_helpers import TINY, made_pairs, shard
from trajectory_helpers import attempt, tokenizer_of
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from schemas.errors import AssayError
from trainers.config import TrainConfig
from trainers.data import encode_sides
from trainers.engine import Engine
from trainers.export import check_parity, export
from trainers.items import Found, Item
from trainers.loop import TrainResult, train
from trainers.model import RewardModel, build
from trainers.objectives.bradley_terry import BradleyTerry
from trainers.objectives.verifier import Verifier, item_of
from trainers.score import score
from trainers.tokenizer import train_tokenizer
from trainers.world import Alone


def test_transformers_loads_it_without_our_code_and_misses_nothing(
    trained: tuple[TrainResult, Path],
) -> None:
    result, _ = trained
    model, info = AutoModelForSequenceClassification.from_pretrained(result.out_dir, output_loading_info=True)
    assert type(model).__name__ == "Qwen3ForSequenceClassification"
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert (model.config.num_labels, model.config.problem_type) == (1, "regression")
    tokenizer = AutoTokenizer.from_pretrained(result.out_dir)
    assert model.config.pad_token_id == tokenizer.pad_token_id != tokenizer.eos_token_id


def test_the_vocabulary_head_is_not_in_the_weights(trained: tuple[TrainResult, Path]) -> None:
    with safe_open(trained[0].out_dir / "model.safetensors", "pt") as weights:
        assert "score.weight" in weights.keys()  # noqa: SIM118 (not a mapping)
        assert not [name for name in weights.keys() if "lm_head" in name]  # noqa: SIM118


def test_the_snippet_of_the_model_card_gives_our_score(trained: tuple[TrainResult, Path]) -> None:
    result, _ = trained
    tokenizer = AutoTokenizer.from_pretrained(result.out_dir)
    model = AutoModelForSequenceClassification.from_pretrained(result.out_dir, dtype=torch.float32).eval()
    answer = "\n\ndef add(a, b):\n    return a + b\n"
    messages = [{"role": "user", "content": "Add."}, {"role": "assistant", "content": answer}]
    inputs = tokenizer.apply_chat_template(messages, return_tensors="pt", return_dict=True)
    with torch.inference_mode():
        theirs = model(**inputs).logits.item()
    assert score(result.out_dir, ["Add."], [answer]) == pytest.approx([theirs], abs=1e-6)


def test_no_file_of_the_folder_tells_a_path_of_this_machine(trained: tuple[TrainResult, Path]) -> None:
    result, _ = trained
    for file in result.out_dir.iterdir():
        assert str(result.out_dir.parent.parent).encode() not in file.read_bytes(), file.name


def items_of(tokenizer: Any, texts: Sequence[str], *, answers: bool) -> list[Item]:
    """Conversations as items: with two targets each at the end, or with a score only."""
    sides = encode_sides(tokenizer, [("", "Go.", text) for text in texts])
    yes, no = tokenizer.convert_tokens_to_ids(["x", "y"])
    made = [
        item_of(str(number), [attempt([], idx=str(number))], [side.ids], yes, no)
        for number, side in enumerate(sides)
    ]
    if answers:
        return made
    nothing = (np.empty(0, dtype=np.int64),)
    return [dataclasses.replace(item, at=nothing, targets=nothing) for item in made]


def found_of(model: RewardModel, items: Sequence[Item]) -> list[Found]:
    """What the model says of them, as the loop asks."""
    config = TrainConfig(objective="bt" if model.score is not None else "yesno", lm_weight=0.0)
    objective: Any = BradleyTerry(config) if model.score is not None else Verifier(config)
    engine = Engine(model, Alone(), objective, layout=model.layout, pass_tokens=4096, pad_id=0)
    return engine.infer(items)


TEXTS = ("x = 1\n", "y\n" * 9, "def add(a, b):\n    return a + b\n")


@pytest.mark.parametrize("scored", [True, False])
def test_a_folder_with_other_weights_fails_the_parity_check(scored: bool, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["x = 1\n"], 512)
    model = build(TrainConfig(vocab_size=512).resolved(), tokenizer, scored=scored)
    export(model, tokenizer, tmp_path, "tiny")
    items = items_of(tokenizer, TEXTS, answers=not scored)
    assert check_parity(tmp_path, items, found_of(model, items)) <= 1e-5
    with torch.no_grad():
        if model.score is not None:
            model.score.weight.fill_(0.01)
        else:
            model.trunk.get_input_embeddings().weight.mul_(1.5)
    with pytest.raises(AssayError, match=r"gives other (scores|probabilities) than the trained one"):
        check_parity(tmp_path, items, found_of(model, items))


def test_a_folder_that_lacks_a_weight_fails_the_parity_check(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["x = 1\n"], 512)
    model = build(TrainConfig(vocab_size=512).resolved(), tokenizer, scored=False)
    export(model, tokenizer, tmp_path, "tiny")
    items = items_of(tokenizer, TEXTS, answers=True)
    found = found_of(model, items)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(AssayError, match="lacks weights or has others, such as"):
        check_parity(tmp_path, items, found)


SMALL = {"vocab_size": 600, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
DECODER = {**SMALL, "intermediate_size": 48, "num_key_value_heads": 1}
EXPERTS = {**DECODER, "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


def based_on(kind: str, tied: bool) -> PreTrainedModel:
    if kind == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**DECODER, head_dim=16, tie_word_embeddings=tied))
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**DECODER, tie_word_embeddings=tied))
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(vocab_size=600, n_embd=32, n_layer=2, n_head=2))
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**EXPERTS, tie_word_embeddings=tied))


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize(
    ("kind", "tied"), [("qwen3", True), ("qwen3", False), ("llama", False), ("gpt2", True), ("moe", False)]
)
def test_weights_gathered_elsewhere_make_a_folder_that_loads(
    kind: str, tied: bool, scored: bool, tmp_path: Path
) -> None:
    tokenizer = train_tokenizer(["x = 1\n"], 512)
    base = based_on(kind, tied)
    with torch.no_grad():
        for parameter in base.parameters():
            parameter.normal_(0.0, 0.1)
    model = RewardModel(
        base.base_model, base.get_output_embeddings(), torch.randn(1, 32), scored=scored
    ).eval()
    items = items_of(tokenizer, TEXTS, answers=not scored)
    found = found_of(model, items)
    state = {name: value.detach().clone() for name, value in model.state_dict().items()}
    shell = RewardModel(base.base_model, base.get_output_embeddings(), scored=scored).to("meta")
    export(shell, tokenizer, tmp_path, kind, state=state)
    assert check_parity(tmp_path, items, found) <= 1e-5
    auto = AutoModelForSequenceClassification if scored else AutoModelForCausalLM
    loaded, info = auto.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert (
        type(loaded).__name__.endswith("ForSequenceClassification" if scored else "ForCausalLM")
        or kind == "gpt2"
    )
    if not scored:
        assert loaded.config.tie_word_embeddings == tied
        assert (loaded.generation_config.eos_token_id, loaded.generation_config.pad_token_id) == (2, 0)


def test_weights_that_are_not_the_architectures_are_refused(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["x = 1\n"], 512)
    model = build(TrainConfig(vocab_size=512).resolved(), tokenizer, scored=False)
    state = dict(model.state_dict())
    del state["trunk.norm.weight"]
    with pytest.raises(AssayError, match=r"1 weights are not those of Qwen3ForCausalLM, such as model\.norm"):
        export(model, tokenizer, tmp_path, "tiny", state=state)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scored", [True, False])
def test_a_run_in_bfloat16_is_exported_in_it_with_the_score_head_in_float32(
    scored: bool, tmp_path: Path
) -> None:
    tokenizer = train_tokenizer(["x = 1\n"], 512)
    config = TrainConfig(objective="bt" if scored else "dpo", vocab_size=512, precision="bf16").resolved()
    model = build(config, tokenizer, scored=scored)
    if model.score is not None:
        torch.nn.init.normal_(model.score.weight)
    export(model, tokenizer, tmp_path, "tiny", config=config)
    weights = load_file(tmp_path / "model.safetensors")
    assert {value.dtype for name, value in weights.items() if name != "score.weight"} == {torch.bfloat16}
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"
    if model.score is not None:
        assert torch.equal(weights["score.weight"], model.score.weight)
    items = items_of(tokenizer, TEXTS, answers=not scored)
    found = found_of(model, items)
    assert 0 < check_parity(tmp_path, items, found, "bf16") <= 0.05 * 10
    with pytest.raises(AssayError, match="difference"):
        check_parity(tmp_path, items, found, "fp32")


def test_the_files_are_those_that_vllm_reads_of_a_pooling_model(trained: tuple[TrainResult, Path]) -> None:
    folder = trained[0].out_dir
    told = json.loads((folder / "config.json").read_text())
    # It makes a pooling model of any decoder whose name ends so, with a layer `score` without bias, and gives
    # its value as it is for a regression.
    assert told["architectures"] == ["Qwen3ForSequenceClassification"]
    assert (told["problem_type"], list(told["id2label"])) == ("regression", ["0"])
    with safe_open(folder / "model.safetensors", "pt") as weights:
        names = set(weights.keys())
        assert weights.get_slice("score.weight").get_shape() == [1, told["hidden_size"]]
    assert all(name == "score.weight" or name.startswith("model.") for name in names)


def test_a_verifier_says_what_makes_its_probability(tmp_path: Path) -> None:
    tokenizer = tokenizer_of()
    config = TrainConfig(objective="joint", vocab_size=512, temperature=2.0).resolved()
    model = build(config, tokenizer, scored=False)
    export(model, tokenizer, tmp_path, "tiny", config=config)
    told = json.loads((tmp_path / "verifier.json").read_text())
    assert tokenizer.convert_ids_to_tokens([told["yes_id"], told["no_id"]]) == ["YES", "NO"]
    assert (told["yes_token"], told["no_token"], told["temperature"]) == ("YES", "NO", 2.0)
    assert told["question"] == "Is the task resolved? Answer with YES or NO."
    assert told["max_length"] == config.max_length
    export(model, tokenizer, tmp_path / "policy", "tiny", config=dataclasses.replace(config, objective="dpo"))
    assert not (tmp_path / "policy" / "verifier.json").exists()


def test_a_tokenizer_that_pads_with_its_end_token_is_not_exported(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["x = 1\n"], 512)
    model = build(TrainConfig(vocab_size=512).resolved(), tokenizer)
    tokenizer.pad_token = tokenizer.eos_token
    with pytest.raises(AssayError, match="the pad token equals the end token"):
        export(model, tokenizer, tmp_path, "tiny")
    assert list(tmp_path.iterdir()) == []


def test_training_goes_on_from_an_exported_model(trained: tuple[TrainResult, Path], tmp_path: Path) -> None:
    result, path = trained
    source = tmp_path / "base"
    shutil.copytree(result.out_dir, source)
    config = TrainConfig.from_mapping({**TINY, "model": str(source), "max_steps": 1, "lr": 1e-6})
    train(config, [path], tmp_path / "rm")
    first = json.loads((tmp_path / "rm" / "train.jsonl").read_text().splitlines()[0])
    # A score head that began at zero again would show log 2 here, a new vocabulary head more than 5.
    assert first["bt"] < 0.2
    assert first["lm"] < 5


@pytest.mark.parametrize("tied", [True, False])
def test_a_pretrained_causal_model_becomes_a_reward_model(tied: bool, tmp_path: Path) -> None:
    tokenizer = train_tokenizer((row["chosen"] for row in made_pairs(10)), 512)
    config = Qwen3Config(
        vocab_size=len(tokenizer) + 5,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        tie_word_embeddings=tied,
    )
    base = tmp_path / "base"
    Qwen3ForCausalLM(config).save_pretrained(base)
    tokenizer.save_pretrained(base)
    path = shard(tmp_path / "a.parquet", made_pairs(8))
    settings = TrainConfig.from_mapping({**TINY, "model": str(base), "max_steps": 1, "dev_share": 0.0})
    result = train(settings, [path], tmp_path / "rm")
    assert result.run["metrics"]["export_difference"] <= 1e-5
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "rm")
    assert loaded.config.vocab_size == len(tokenizer) + 5


def test_a_reward_model_without_a_vocabulary_head_is_refused_where_one_is_needed(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["x = 1\n"], 512)
    model = build(TrainConfig(vocab_size=512).resolved(), tokenizer)
    model.trunk.config.tie_word_embeddings = False
    export(model, tokenizer, tmp_path, "tiny")
    # As that of another maker.
    shutil.rmtree(tmp_path / "vocabulary_head")
    with pytest.raises(AssayError, match=r"no vocabulary head; set train\.lm_weight to 0"):
        build(TrainConfig(model=str(tmp_path)).resolved(), tokenizer)
    settings = TrainConfig(model=str(tmp_path), lm_weight=0.0, max_length=2048)
    assert build(settings.resolved(), tokenizer, vocabulary=False).head is None


@pytest.mark.parametrize("tied", [True, False])
def test_a_second_stage_goes_on_with_the_first_ones_scores_and_vocabulary_head(
    tied: bool, tmp_path: Path
) -> None:
    path = shard(tmp_path / "a.parquet", made_pairs(24))
    tokenizer = train_tokenizer((row["chosen"] for row in made_pairs(24)), 512)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    torch.manual_seed(0)
    base = Qwen3ForCausalLM(
        Qwen3Config(**sizes, num_key_value_heads=2, head_dim=8, vocab_size=512, tie_word_embeddings=tied)
    )
    base.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    stage = {**TINY, "lm_weight": 0.4, "max_steps": 3, "dev_share": 0.0, "lr": 1e-3}
    train(TrainConfig.from_mapping({**stage, "model": str(tmp_path / "base")}), [path], tmp_path / "pt")
    train(
        TrainConfig.from_mapping({**stage, "model": str(tmp_path / "pt"), "lr": 1e-9}),
        [path],
        tmp_path / "pm",
    )
    assert (tmp_path / "pt" / "vocabulary_head").is_dir() is not tied
    first, second = (
        [json.loads(line) for line in (tmp_path / name / "train.jsonl").read_text().splitlines()]
        for name in ("pt", "pm")
    )
    # The second stage begins where the first one ended: its losses are below those that the first began with.
    assert second[0]["lm"] < first[0]["lm"]
    assert second[0]["bt"] < first[0]["bt"]
    reloaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "pt", output_loading_info=True)
    assert not any(reloaded[1][kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
