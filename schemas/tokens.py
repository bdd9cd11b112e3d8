"""How many tokens a text has, without a tokenizer: an estimate that is fast, the same everywhere and
close enough for bounds.

In: text. Out: a number of tokens, as byte-pair tokenizers of language models count them. Counting with a
real one takes far longer, and would tie a dataset's bounds to one model's vocabulary.
"""

from __future__ import annotations

import numpy as np

_SPACE, _MARK, _BEYOND, _LETTER, _DIGIT, _UNDERSCORE = range(6)


def _kind(byte: int) -> int:
    if byte >= 128:
        return _BEYOND
    text = chr(byte)
    if text.isalpha():
        return _LETTER
    if text.isdigit():
        return _DIGIT
    if text == "_":
        return _UNDERSCORE
    return _SPACE if text in " \t\n\v\f\r" else _MARK


_KINDS = np.array([_kind(byte) for byte in range(256)], np.uint8)

_LONG_WORD = 24
"""Bytes from which a word is hardly one that a vocabulary knows: hashes, keys, encoded data."""


def estimate_tokens(text: str) -> int:
    """Estimated number of tokens of a text; 0 for an empty one.

    A weighted sum of the numbers of words, bytes of words, marks, runs of marks, digits, underscores,
    indented lines and bytes outside of ASCII. The weights were fitted by relative error to the counts of
    `cl100k_base` on 3,121 versions of files from fifteen repositories in fourteen languages, each language
    counted alike. On these the median error is 3 %, and 95 % of the files are within 11 %. By language the
    median error is 1 % to 5 %, JavaScript's 8 %, and the 95th percentile 6 % to 14 %, JavaScript's 20 %.
    Vocabularies differ as much from each other: the median file has 7 % more tokens in DeepSeek's and 11 %
    more in Anthropic's published one. Data in code is told less well: tables of hexadecimal numbers
    count a third too few, prose in other scripts up to a half too many.

    The time is linear in the length of the text.
    """
    data = text.encode("utf-8", "surrogatepass")
    kinds = np.zeros(len(data) + 2, np.uint8)
    kinds[1:-1] = _KINDS[np.frombuffer(data, np.uint8)]
    edges = np.flatnonzero(np.diff((kinds >= _LETTER).view(np.int8)))
    lengths = edges[1::2] - edges[::2]
    marks = kinds == _MARK
    runs = np.count_nonzero(marks[1:] > marks[:-1])
    digits, underscores = np.count_nonzero(kinds == _DIGIT), np.count_nonzero(kinds == _UNDERSCORE)
    total = (
        0.89 * len(lengths)
        + 0.056 * int(lengths.sum())
        + 0.355 * np.count_nonzero(marks)
        + 0.295 * runs
        + 0.475 * digits
        + 0.74 * underscores
        + 1.16 * (data.count(b"\n ") + data.count(b"\n\t"))
        + 0.35 * np.count_nonzero(kinds == _BEYOND)
        + 0.50 * int(np.maximum(lengths - _LONG_WORD, 0).sum())
    )
    return max(round(total), min(1, len(data)))
