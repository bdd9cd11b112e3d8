"""Runs of n words of texts as 64-bit hashes, and sorted sets of hashes to look them up in.

A word is a longest run of letters, digits and `_`, in lower case; every character outside of ASCII
counts as a letter. So identifiers and numbers are words, punctuation and white space only separate
them, and the same code has the same words however it is indented, wrapped or quoted. An n-gram is n words
that follow each other in one text; a text of fewer than n words has none.

In: texts. Out: hashes, each with its text and the bytes that it stands for. They depend on the texts and n
alone. Two different n-grams have the same hash with a probability of about 2^-64.

Words are hashed eight bytes at a time, for all texts of a batch at once, and n-grams by doubling: 13 words
are 8, 4 and 1. Memory: some 100 bytes a word of a batch.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
T = TypeVar("T")

BATCH_BYTES = 1 << 18
"""Characters that are hashed at once: enough to outweigh the calls, little enough for a processor's cache."""

_WORD_BYTES = 64
"""A longer word, which is data and no name, is hashed on its own, so that it does not hold up a batch."""

_WORDS = bytes(
    byte if byte >= 0x80 or chr(byte).isalnum() or byte == ord("_") else ord(" ") for byte in range(256)
)
_SPACE = np.uint8(ord(" "))
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_ALL = (1 << 64) - 1
_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(9)], np.uint64)


def _folded(text: str) -> bytes:
    return text.lower().encode("utf-8", "surrogatepass").translate(_WORDS)


def words_of(text: str) -> list[str]:
    """The words of a text."""
    return _decoded(_folded(text))


def _decoded(data: bytes) -> list[str]:
    # Split as bytes: a space outside of ASCII is a letter here.
    return [word.decode("utf-8", "replace") for word in data.split()]


@dataclasses.dataclass(frozen=True)
class Grams:
    """The n-grams of a batch of texts, text by text, each in the order of the text.

    Attributes:
        hashes: one an n-gram; equal n-grams have equal ones.
        owner: position of its text in the batch.
        begin, end: the bytes of `data` that it spans.
        data: the words of all texts.
    """

    hashes: Hashes
    owner: Positions
    begin: Positions
    end: Positions
    data: bytes

    def words(self, position: int) -> str:
        """The words of one n-gram."""
        return " ".join(_decoded(self.data[self.begin[position] : self.end[position]]))


def _mixed(values: Hashes) -> Hashes:
    """Spread every bit of a value over all of it (a round of Pelle Evensen's `rrmxmx` kind of mixer)."""
    values = (values ^ (values >> _HALF)) * _MIX
    return values ^ (values >> _HALF)


def _word_hashes(data: bytes, starts: Positions, ends: Positions) -> Hashes:
    """One hash a word; `data` goes on for eight bytes after the last one."""
    # A view of all runs of eight bytes, at every offset: nothing is copied.
    eights: Hashes = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    sizes = ends - starts
    found = _mixed((eights[starts] & _MASKS[np.minimum(sizes, 8)]) + _ODD)
    active = np.flatnonzero(sizes > 8)
    at = 8
    while len(active):
        left = sizes[active] - at
        piece = eights[starts[active] + at] & _MASKS[np.minimum(left, 8)]
        found[active] = _mixed((found[active] ^ piece) + np.uint64((int(_ODD) * (at + 1)) & _ALL))
        at += 8
        active = active[left > 8]
        if at >= _WORD_BYTES:
            for one in active.tolist():
                rest = data[starts[one] + at : ends[one]]
                digest = int.from_bytes(hashlib.blake2b(rest, digest_size=8).digest(), "little")
                found[one] = _mixed(found[one : one + 1] ^ np.uint64(digest))[0]
            break
    return found


def _combined(words: Hashes, n: int) -> Hashes:
    """Hashes of all runs of `n` words; shorter than `words` by n - 1, or empty."""
    if len(words) < n:
        return words[:0]
    whole, size = words, 1
    found: Hashes | None = None
    covered = 0
    while True:
        if n & size:
            if found is None:
                found, covered = whole, size
            else:
                # The shorter run comes first, so the order of words counts.
                keep = min(len(found), len(whole) - covered)
                found = _mixed(found[:keep] * _ODD + whole[covered : covered + keep])
                covered += size
        if size * 2 > n:
            break
        whole = _mixed(whole[:-size] * _ODD + whole[size:])
        size *= 2
    return found if found is not None else words[:0]


def grams(texts: Sequence[str], n: int) -> Grams:
    """The n-grams of texts."""
    pieces = [_folded(text) for text in texts]
    data = b" " + b" ".join(pieces) + b" " * 9
    is_word = np.frombuffer(data, np.uint8) != _SPACE
    edges = np.flatnonzero(is_word[1:] != is_word[:-1]) + 1
    starts, ends = edges[0::2], edges[1::2]
    hashes = _combined(_word_hashes(data, starts, ends), n)
    last = len(hashes)
    begin, end = starts[:last], ends[n - 1 : n - 1 + last]
    if len(texts) == 1:
        return Grams(hashes, np.zeros(last, np.int64), begin, end, data)
    borders = np.cumsum([1, *(len(piece) + 1 for piece in pieces)])
    owner = np.searchsorted(borders, begin, "right") - 1
    # A text starts behind the space that ends the one before it.
    inside = end < borders[owner + 1] if last else np.zeros(0, bool)
    if inside.all():
        return Grams(hashes, owner, begin, end, data)
    return Grams(hashes[inside], owner[inside], begin[inside], end[inside], data)


def grouped(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Items in lists of about `most` in size together, in order; a larger one stands alone."""
    found: list[T] = []
    total = 0
    for item in items:
        if found and total + size(item) > most:
            yield found
            found, total = [], 0
        found.append(item)
        total += size(item)
    if found:
        yield found


class Lookup:
    """Whether and where hashes stand in a sorted array of distinct ones.

    A bitmap of at least 16 bits a hash stands in front: most n-grams of a text are in no benchmark, and
    a bit says so without a binary search. Memory: 8 bytes a hash, and 2 to 4 of the bitmap.
    """

    def __init__(self, hashes: Hashes) -> None:
        self.hashes = hashes
        bits = max(16, (16 * max(1, len(hashes)) - 1).bit_length())
        self._shift = np.uint64(64 - bits)
        self._bitmap = np.zeros(1 << (bits - 3), np.uint8)
        slots = hashes >> self._shift
        np.bitwise_or.at(self._bitmap, (slots >> np.uint64(3)).astype(np.int64), _bit(slots))

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.hashes.nbytes + self._bitmap.nbytes

    def find(self, hashes: Hashes) -> tuple[Positions, Positions]:
        """(positions in `hashes` that are found, in order; their positions in the array)."""
        slots = hashes >> self._shift
        maybe = np.flatnonzero(self._bitmap[slots >> np.uint64(3)] & _bit(slots))
        if not len(maybe) or not len(self.hashes):
            return maybe[:0], maybe[:0]
        wanted = hashes[maybe]
        at = np.searchsorted(self.hashes, wanted)
        np.minimum(at, len(self.hashes) - 1, out=at)
        same = self.hashes[at] == wanted
        return maybe[same], at[same]


def _bit(slots: Hashes) -> npt.NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (slots & np.uint64(7)).astype(np.uint8))
