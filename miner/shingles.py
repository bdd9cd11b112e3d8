"""Lines of texts as 64-bit hashes, runs of two lines as shingles, and the Jaccard similarity of sets of them.

A line's white space does not count: not around it, not inside of it. A blank line's hash is 0. Of any
other the low byte is the number of its other bytes, 255 for more, and the rest is a hash of them. Two
different lines of one length have the same hash with a probability of about 2^-56.

In: texts, best with similar ones behind each other, as a table of edits has them: what a text has in common
with the one before it, at its beginning and at its end, is not hashed again, so that versions of a file cost
little more than comparing their bytes. Out: arrays that depend on the texts alone, on any machine.
Memory: 16 bytes a line of a batch, and about 2 MB.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

_NO_POSITIONS: Positions = np.empty(0, np.int64)
_NO_HASHES: Hashes = np.empty(0, np.uint64)
_BLANK = b" \t\r\f\v"
_LINE_FEED = ord("\n")
_WINDOW = 1 << 16
"""Bytes that are hashed at once: few enough for a processor's cache. A longer line is hashed on its own."""
_LENGTH = np.uint64(0xFF)
_HALF = np.uint64(32)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_REMOVED = np.uint64(0xC2B2AE3D27D4EB4F)


@functools.cache
def _powers() -> tuple[Hashes, Hashes]:
    """Powers of an odd number modulo 2^64 and those of its inverse, as many as a window has bytes."""
    base = int.from_bytes(hashlib.blake2b(b"line hashes", digest_size=8).digest(), "little") | 1
    both = (base, pow(base, -1, 1 << 64))
    found = [np.cumprod(np.array([1, *[one] * (_WINDOW - 1)], np.uint64), dtype=np.uint64) for one in both]
    return found[0], found[1]


def mixed(values: Hashes) -> Hashes:
    """Spread every bit of each value over all of it; 0 stays 0."""
    values = (values ^ (values >> _HALF)) * _MIX
    return values ^ (values >> _HALF)


def _hashed(data: bytes) -> Hashes:
    """One hash a line of `data`, whose last line ends with a line feed too.

    It is a polynomial modulo 2^64 in the bytes of the line (Karp and Rabin 1987). All lines of a window are
    multiplied with the powers of one run, and each is shifted back to where its own would begin.
    """
    powers, inverses = _powers()
    codes = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(codes == _LINE_FEED) + 1
    starts = np.append(0, ends[:-1])
    sums: Hashes = np.empty(len(ends), np.uint64)
    first = 0
    while first < len(ends):
        begin = int(starts[first])
        last = int(np.searchsorted(ends, begin + _WINDOW, "right"))
        if last == first:
            digest = hashlib.blake2b(data[begin : ends[first]], digest_size=8).digest()
            sums[first] = int.from_bytes(digest, "little")
            first += 1
            continue
        at = starts[first:last] - begin
        part = codes[begin : ends[last - 1]]
        sums[first:last] = np.add.reduceat(part * powers[: len(part)], at) * inverses[at]
        first = last
    lengths = np.minimum(ends - starts - 1, 255).astype(np.uint64)
    found: Hashes = ((mixed(sums) & ~_LENGTH) | lengths) * (lengths != 0)
    return found


def _first_difference(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> int:
    found = (one != other).tobytes().find(1)
    return len(one) if found < 0 else found


def line_hashes(texts: Iterable[str]) -> list[Hashes]:
    """The hashes of the lines of each text. Lines end at line feeds; the last one may be blank."""
    pieces: list[bytes] = []
    # Of each text: lines of the head that it shares with the one before, own lines, lines of the tail.
    parts: list[tuple[int, int, int]] = []
    before = np.frombuffer(b"", np.uint8)
    before_ends = _NO_POSITIONS
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        codes = np.frombuffer(data, np.uint8)
        most = min(len(codes), len(before))
        head = int(before_ends.searchsorted(_first_difference(codes[:most], before[:most])))
        start = int(before_ends[head - 1]) + 1 if head else 0
        most -= start
        apart = (codes[len(codes) - most :] != before[len(before) - most :]).tobytes()
        # The tail begins behind a line feed that both have.
        tail_at = int(before_ends.searchsorted(len(before) - most + 1 + apart.rfind(1)))
        if tail_at < len(before_ends):
            moved = len(codes) - len(before)
            stop = int(before_ends[tail_at]) + moved
            own_ends = (codes[start : stop + 1] == _LINE_FEED).nonzero()[0] + start
            tail_ends = before_ends[tail_at + 1 :]
            tail, own = len(tail_ends) + 1, len(own_ends)
            ends = np.concatenate((before_ends[:head], own_ends, tail_ends + moved if moved else tail_ends))
        else:
            stop = len(codes)
            own_ends = (codes[start:] == _LINE_FEED).nonzero()[0] + start
            tail, own = 0, len(own_ends) + 1
            ends = np.concatenate((before_ends[:head], own_ends)) if head else own_ends
        pieces.append(data[start:stop])
        parts.append((head, own, tail))
        before, before_ends = codes, ends
    if not parts:
        return []
    pieces.append(b"")
    fresh = _hashed(b"\n".join(pieces).translate(None, _BLANK))
    found: list[Hashes] = []
    at, last = 0, _NO_HASHES
    for head, own, tail in parts:
        last = np.concatenate((last[:head], fresh[at : at + own], last[len(last) - tail :]))
        at += own
        found.append(last)
    return found


def length(lines: Hashes) -> int:
    """Bytes of lines without their white space, of each line 255 at most."""
    return int((lines & _LENGTH).sum())


def changed(old: Hashes, new: Hashes, hunks: Sequence[Mapping[str, Any]]) -> tuple[Hashes, Hashes]:
    """(lines removed, lines added), blank ones left out, of the lines of two versions and a row's hunks."""
    removed = [_NO_HASHES]
    added = [_NO_HASHES]
    for hunk in hunks:
        at, count = hunk["old_start"] - 1, hunk["old_lines"]
        removed.append(old[max(0, at) : max(0, at + count)])
        at, count = hunk["new_start"] - 1, hunk["new_lines"]
        added.append(new[max(0, at) : max(0, at + count)])
    gone, come = np.concatenate(removed), np.concatenate(added)
    return gone[gone != 0], come[come != 0]


def change_shingles(removed: Hashes, added: Hashes) -> Hashes:
    """Shingles of a change: of its removed lines, told apart from added ones, and then its added lines."""
    return _runs(np.concatenate((mixed(removed * _REMOVED), added)))


def shingles(lines: Sequence[Hashes]) -> list[Hashes]:
    """For each text's lines the runs of two that are not blank, in order, repeated ones too.

    A lone line stands for itself.
    """
    if not lines:
        return []
    flat = np.concatenate(lines)
    shown = flat != 0
    counts = np.append(0, np.cumsum(shown))
    bounds = counts[np.cumsum([0, *map(len, lines)])].tolist()
    flat = flat[shown]
    runs = _runs(flat)
    return [
        runs[begin : end - 1] if end - begin > 1 else flat[begin:end]
        for begin, end in itertools.pairwise(bounds)
    ]


def _runs(lines: Hashes) -> Hashes:
    return mixed(lines[:-1] * _ODD + lines[1:]) if len(lines) > 1 else lines


def distinct(values: Hashes) -> Hashes:
    """Sorted, each once."""
    values = np.sort(values)
    if len(values) < 2:
        return values
    first = np.empty(len(values), bool)
    first[0] = True
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values[first]


def jaccard(one: Hashes, other: Hashes) -> float:
    """Jaccard similarity of two sorted arrays of distinct hashes; of two empty ones it is 1."""
    small, large = (one, other) if len(one) <= len(other) else (other, one)
    if not len(small):
        return 0.0 if len(large) else 1.0
    at = large.searchsorted(small)
    common = int(np.count_nonzero(large.take(at, mode="clip") == small))
    return common / (len(small) + len(large) - common)


def alike(one: Hashes, other: Hashes, threshold: float) -> bool:
    """Whether the Jaccard similarity of two sorted arrays of distinct hashes is at least a threshold."""
    small, large = sorted((len(one), len(other)))
    return small >= threshold * large and jaccard(one, other) >= threshold
