"""The tokenizer that is trained on the shards, and what is refused of others."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from schemas.errors import AssayError
from trainers.tokenizer import check_tokenizer, load_tokenizer, train_tokenizer

TEXTS = ["def add(a, b):\n    return a + b\n", "for x in range(10):\n\tprint(x)\n"] * 3
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Add."},
    {"role": "assistant", "content": "\n\ndef f():\n    pass\n"},
]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(TEXTS, 512)


@given(st.text(st.characters(exclude_categories=["Cs"])))
@settings(max_examples=80)
def test_any_text_survives_a_round_trip(text: str) -> None:
    made = _round_trip_tokenizer()
    assert made.decode(made.encode(text, add_special_tokens=False)) == text


def _round_trip_tokenizer(cache: list[PreTrainedTokenizerFast] = []) -> PreTrainedTokenizerFast:  # noqa: B006
    if not cache:
        cache.append(train_tokenizer(TEXTS, 512))
    return cache[0]


def test_the_order_of_the_texts_does_not_matter(tmp_path: Path) -> None:
    texts = [f"value_{i} = {i} + other_{i % 7}\n" for i in range(300)]
    train_tokenizer(texts, 600).save_pretrained(tmp_path / "a")
    train_tokenizer(reversed(texts), 600).save_pretrained(tmp_path / "b")
    for file in sorted((tmp_path / "a").iterdir()):
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_the_chat_template_is_there_after_loading(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.apply_chat_template(MESSAGES, tokenize=False) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nAdd.<|im_end|>\n"
        "<|im_start|>assistant\n\n\ndef f():\n    pass\n<|im_end|>\n"
    )


def test_the_generation_prompt_is_the_beginning_of_the_whole(tokenizer: PreTrainedTokenizerFast) -> None:
    whole = tokenizer.apply_chat_template(MESSAGES, tokenize=False)
    prompt = tokenizer.apply_chat_template(MESSAGES[:2], tokenize=False, add_generation_prompt=True)
    assert whole.startswith(prompt)


def test_padding_is_neither_the_end_token_nor_missing_after_loading(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    tokenizer.save_pretrained(tmp_path)
    loaded = load_tokenizer(str(tmp_path))
    assert loaded.pad_token_id is not None
    assert loaded.pad_token_id != loaded.eos_token_id


def test_a_tokenizer_that_pads_with_its_end_token_is_refused_with_advice() -> None:
    made = train_tokenizer(TEXTS, 512)
    made.pad_token = made.eos_token
    with pytest.raises(AssayError, match=r"my/model: the pad token equals the end token.*set pad_token"):
        check_tokenizer(made, "my/model")


def test_a_named_pad_token_makes_such_a_tokenizer_fit(tmp_path: Path) -> None:
    made = train_tokenizer(TEXTS, 512)
    made.pad_token = made.eos_token
    made.save_pretrained(tmp_path)
    assert load_tokenizer(str(tmp_path), pad_token="<|endoftext|>").pad_token_id == 0
    with pytest.raises(AssayError, match="'<pad>' is not a token"):
        load_tokenizer(str(tmp_path), pad_token="<pad>")


def test_a_tokenizer_without_a_chat_template_is_refused() -> None:
    made = train_tokenizer(TEXTS, 512)
    made.chat_template = None
    with pytest.raises(AssayError, match="no chat template"):
        check_tokenizer(made, "my/model")


def test_a_folder_without_a_tokenizer_gives_one_line(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="no tokenizer can be loaded") as caught:
        load_tokenizer(str(tmp_path))
    assert "\n" not in str(caught.value)
