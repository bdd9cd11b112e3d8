"""Estimates of how many tokens a text has."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.tokens import estimate_tokens


def test_an_empty_text_has_none_and_any_other_has_some() -> None:
    assert estimate_tokens("") == 0
    assert [estimate_tokens(text) for text in (" ", "\n", "a", "é", "\0")] == [1, 1, 1, 1, 1]


@given(st.text(max_size=200), st.text(max_size=200))
def test_tokens_of_two_texts_add_up(one: str, other: str) -> None:
    parts = estimate_tokens(one) + estimate_tokens(other)
    # A word or run of marks may join across the seam, an indented line may begin there, long words
    # weigh by what is beyond their start, and each number is rounded.
    assert abs(estimate_tokens(one + other) - parts) <= 16


@given(st.text())
def test_it_never_fails_and_never_exceeds_the_bytes_by_much(text: str) -> None:
    assert 0 <= estimate_tokens(text) <= 2 * len(text.encode()) + 1


def test_a_lone_surrogate_is_counted_like_any_other_letter() -> None:
    assert estimate_tokens("\ud800") == 1


@pytest.mark.parametrize(
    ("code", "counted"),
    [
        ("def total(values):\n    return sum(values)\n", 9),
        ("for (int i = 0; i < n; ++i) {\n    sum += a[i];\n}\n", 23),
        ('fn main() {\n    println!("{}", 1);\n}\n', 11),
    ],
)
def test_short_code_is_near_the_count_of_a_real_tokenizer(code: str, counted: int) -> None:
    assert estimate_tokens(code) == pytest.approx(counted, rel=0.35)


def test_source_files_are_within_a_fifth_of_a_real_tokenizer() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    litellm = importlib.util.find_spec("litellm")
    if litellm is None or litellm.origin is None:
        pytest.skip("no tokenizer is at hand")
    folder = Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers"
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "anthropic_tokenizer.json"))
    for path in sorted(Path(__file__).parents[2].glob("schemas/*.py")):
        text = path.read_text()
        counted = len(tokenizer.encode(text, add_special_tokens=False).ids)
        assert estimate_tokens(text) == pytest.approx(counted, rel=0.2, abs=5), path.name
