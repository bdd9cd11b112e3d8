"""The exported folder: what others load, what it says, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from train_helpers import TINY, made_pairs, shard
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from schemas.errors import AssayError
from trainers import card
from trainers.config import TrainConfig
from trainers.data import encode_sides
from trainers.export import check_parity, export
from trainers.loop import TrainResult, train
from trainers.model import build
from trainers.score import score
from trainers.tokenizer import train_tokenizer


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


def test_a_card_names_a_local_model_by_its_last_part_only(trained: tuple[TrainResult, Path]) -> None:
    run = json.loads(json.dumps(trained[0].run))
    run["config"]["model"] = "/home/someone/secret/qwen"
    text = card.model_card(run)
    assert "`qwen`" in text
    assert "secret" not in text
    assert "base_model" not in text
    run["config"]["model"] = "Qwen/Qwen3-0.6B"
    assert "base_model: Qwen/Qwen3-0.6B" in card.model_card(run)


def test_a_hostile_language_name_cannot_break_the_cards_tables(trained: tuple[TrainResult, Path]) -> None:
    run = json.loads(json.dumps(trained[0].run))
    run["counts"]["languages"] = {"C|\n# Pwned": 3}
    assert "| C\\| # Pwned | 3 |" in card.model_card(run)


def test_a_folder_with_other_weights_fails_the_parity_check(
    trained: tuple[TrainResult, Path], tmp_path: Path
) -> None:
    tokenizer = train_tokenizer(["x = 1\n"], 512)
    config = TrainConfig(vocab_size=512).resolved()
    model = build(config, tokenizer)
    export(model, tokenizer, tmp_path, "tiny")
    with torch.no_grad():
        model.score.weight.fill_(0.01)
    sides = encode_sides(tokenizer, [("", "Go.", "x = 1\n"), ("", "Go.", "y\n" * 9)])
    with pytest.raises(AssayError, match="gives other scores than the trained one"):
        check_parity(model, tmp_path, [side.ids for side in sides])


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


def test_an_untied_reward_model_has_no_vocabulary_head_and_says_what_to_do(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["x = 1\n"], 512)
    model = build(TrainConfig(vocab_size=512).resolved(), tokenizer)
    model.trunk.config.tie_word_embeddings = False
    export(model, tokenizer, tmp_path, "tiny")
    with pytest.raises(AssayError, match=r"no vocabulary head; set train\.lm_weight to 0"):
        build(TrainConfig(model=str(tmp_path)).resolved(), tokenizer)
    settings = TrainConfig(model=str(tmp_path), lm_weight=0.0, max_length=2048)
    assert build(settings.resolved(), tokenizer).head is None
