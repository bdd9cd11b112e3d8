"""Models on this machine: a tiny random one, whose samples do not depend on the batch that they are in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from labelers.llm import Client, Message, ModelConfig, ModelFault, Request

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def save_tiny(folder: Path, seed: int = 0, template: str | None = None, safe: bool = True) -> Path:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {one: number for number, one in enumerate(["<pad>", "<eos>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")
    fast.chat_template = template
    fast.save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=128,
        pad_token_id=0,
        eos_token_id=1,
        initializer_range=0.5,
    )
    model = LlamaForCausalLM(config)
    if safe:
        model.save_pretrained(folder)
    else:
        config.save_pretrained(folder)
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"))


def config(folder: Path, **more: Any) -> ModelConfig:
    base: dict[str, Any] = {"backend": "local", "model": str(folder), "max_tokens": 12, "dtype": "float32"}
    return ModelConfig(**{**base, **more})


def req(text: str, **more: Any) -> Request:
    return Request((Message("user", text),), **more)


MANY = [req(text, seed=seed, sample=seed) for text in ("a", "some words", "x" * 40) for seed in range(4)]


def test_a_sample_does_not_depend_on_its_batch(tiny: Path) -> None:
    found = []
    for batch in (1, 3, 12):
        with Client(config(tiny, concurrency=batch, temperature=1.0)) as client:
            found.append([reply.text for reply in client.ask(MANY)])
    assert found[0] == found[1] == found[2]
    # And the seeds do differ in what they draw.
    assert len(set(found[0])) > 8


def test_a_sample_is_the_same_in_another_run_and_another_for_another_seed(tiny: Path) -> None:
    with Client(config(tiny)) as client:
        one, same, other = client.ask([req("a", seed=1), req("a", seed=1, sample=0), req("a", seed=2)])
        assert same.cached
    with Client(config(tiny)) as client:
        (again,) = client.ask([req("a", seed=1)])
    assert again.text == one.text
    assert other.text != one.text


def test_temperature_zero_takes_the_likeliest_tokens(tiny: Path) -> None:
    model = LlamaForCausalLM.from_pretrained(tiny).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tiny)
    ids = tokenizer("Hello\n\n", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        made = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12
        )
    with Client(config(tiny)) as client:
        replies = list(client.ask(req("Hello", temperature=0.0, seed=seed) for seed in range(3)))
    expected = tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True)
    assert {reply.text for reply in replies} == {expected}


def test_draws_follow_the_model_s_probabilities(tiny: Path) -> None:
    model = LlamaForCausalLM.from_pretrained(tiny).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tiny)
    ids = tokenizer("q\n\n", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        probabilities = torch.softmax(model(input_ids=ids).logits[0, -1] / 0.2, -1)
    likeliest = int(probabilities.argmax())
    with Client(config(tiny, temperature=0.2, max_tokens=1, concurrency=64)) as client:
        texts = [reply.text for reply in client.ask(req("q", seed=seed) for seed in range(400))]
    share = texts.count(tokenizer.decode([likeliest], skip_special_tokens=True)) / len(texts)
    assert abs(share - float(probabilities[likeliest])) < 0.1
    with Client(config(tiny, temperature=0.2, top_p=0.01, max_tokens=1, concurrency=64)) as client:
        assert len({reply.text for reply in client.ask(req("q", seed=seed) for seed in range(50))}) == 1


def test_tokens_are_counted_and_bounds_kept(tiny: Path) -> None:
    with Client(config(tiny)) as client:
        (reply,) = client.ask([req("abc", max_tokens=5, temperature=2.0)])
        assert reply.tokens_in == 5
        assert reply.tokens_out == 5 if reply.finish == "length" else reply.tokens_out <= 5
        (long, short) = client.ask([req("x" * 200), req("y")])
    assert "pass the model's 128" in (long.error or "")
    assert short.error is None


def test_an_answer_ends_before_a_stop_text(tiny: Path) -> None:
    with Client(config(tiny)) as client:
        (whole,) = client.ask([req("abc", seed=3)])
        stop = whole.text[4:6]
        (cut,) = client.ask([req("abc", seed=3, stop=(stop,))])
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.finish == "stop"


def test_the_chat_template_of_a_model_is_used(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "chat", template=TEMPLATE)
    with Client(config(folder)) as client:
        (reply,) = client.ask([req("abc")])
    assert reply.tokens_in == len("<user>abc<a>")


def test_other_weights_in_the_same_folder_are_asked_anew(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "m")
    with Client(config(folder), tmp_path / "c") as client:
        (first,) = client.ask([req("a")])
    with Client(config(folder), tmp_path / "c") as client:
        assert next(client.ask([req("a")])).cached
    save_tiny(folder, seed=1)
    with Client(config(folder), tmp_path / "c") as client:
        (second,) = client.ask([req("a")])
    assert not second.cached
    assert second.text != first.text


def test_a_model_that_cannot_be_loaded_ends_the_run_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with (
        Client(config(tmp_path / "empty")) as client,
        pytest.raises(ModelFault, match="cannot be loaded") as caught,
    ):
        list(client.ask([req("a"), req("b")]))
    assert "\n" not in str(caught.value)


def test_weights_that_are_no_safetensors_are_refused(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "pickled", safe=False)
    with Client(config(folder)) as client, pytest.raises(ModelFault, match="cannot be loaded"):
        list(client.ask([req("a")]))
