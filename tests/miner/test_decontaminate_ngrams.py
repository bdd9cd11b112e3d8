"""N-grams as hashes, against words and sets in plain Python."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner import ngrams
from miner.ngrams import Lookup, grams, grouped, words_of

_PLAIN = re.compile("[0-9a-z_\x80-\U0010ffff]+")

TEXTS = st.lists(
    st.text(alphabet=st.sampled_from("abcXYZ019_ .,(){}\n\t-é\u2028\x00\ud800"), max_size=120)
    | st.text(max_size=60)
    | st.integers(1, 200).map(lambda count: "w" * count),
    max_size=6,
)


def plain(text: str, n: int) -> list[str]:
    words = _PLAIN.findall(text.lower())
    shown = [word.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for word in words]
    return [" ".join(shown[at : at + n]) for at in range(len(shown) - n + 1)]


@given(TEXTS, st.integers(1, 14))
def test_same_n_grams_as_a_regular_expression_finds(texts: list[str], n: int) -> None:
    found = grams(texts, n)
    told = [(int(found.owner[at]), found.words(at)) for at in range(len(found.hashes))]
    assert told == [(owner, one) for owner, text in enumerate(texts) for one in plain(text, n)]


@given(TEXTS, st.integers(1, 14))
def test_hash_is_that_of_the_words_alone(texts: list[str], n: int) -> None:
    together = grams(texts, n)
    alone = [grams([text], n).hashes for text in texts]
    assert together.hashes.tolist() == [one for hashes in alone for one in hashes.tolist()]


@given(st.lists(st.sampled_from(["a", "b", "ab", "long_word_of_many_bytes"]), min_size=2, max_size=12))
def test_hashes_are_equal_just_where_the_words_are(words: list[str]) -> None:
    found = grams([" ".join(words)], 2)
    by_hash: dict[int, str] = {}
    for at, value in enumerate(found.hashes.tolist()):
        assert by_hash.setdefault(value, found.words(at)) == found.words(at)
    assert len(set(by_hash.values())) == len(by_hash)


def test_punctuation_case_and_layout_do_not_count() -> None:
    one = "if (Value == 3) {\n\treturn fooBar_2[i];\n}"
    other = "IF value, 3: return `foobar_2` i"
    assert words_of(one) == ["if", "value", "3", "return", "foobar_2", "i"]
    assert grams([one], 4).hashes.tolist() == grams([other], 4).hashes.tolist()


def test_word_that_is_data_is_told_from_another_that_differs_in_its_last_letter() -> None:
    one, other = "x" * 100_000 + "a", "x" * 100_000 + "b"
    assert grams([one], 1).hashes[0] != grams([other], 1).hashes[0]


def test_no_n_gram_reaches_over_the_end_of_a_text() -> None:
    assert len(grams(["a b c", "d e f"], 4).hashes) == 0


@given(
    st.sets(st.integers(0, (1 << 64) - 1), max_size=50), st.lists(st.integers(0, (1 << 64) - 1), max_size=50)
)
def test_lookup_finds_what_a_set_finds(known: set[int], asked: list[int]) -> None:
    everything = sorted(known)
    wanted = [*asked, *everything[::2]]
    lookup = Lookup(np.array(everything, np.uint64))
    hits, at = lookup.find(np.array(wanted, np.uint64))
    assert hits.tolist() == [position for position, one in enumerate(wanted) if one in known]
    assert [everything[one] for one in at] == [wanted[one] for one in hits]


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_groups_hold_everything_once_in_order(most: int) -> None:
    items = list(range(40))
    found = list(grouped(items, lambda item: item % 5, most))
    assert [one for group in found for one in group] == items
    assert all(sum(one % 5 for one in group) <= most or len(group) == 1 for group in found)


def test_size_of_a_batch_does_not_change_a_hash() -> None:
    text = " ".join(f"word_{n}" for n in range(5000))
    assert len(text) < ngrams.BATCH_BYTES
    assert grams([text, text], 13).hashes.tolist() == grams([text], 13).hashes.tolist() * 2
