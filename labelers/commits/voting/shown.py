"""What a judge sees of two versions: both whole, or of long ones the changed regions with lines around them.

In: the texts of two versions. Out: `Shown`, whose size is bounded for any text. Wrong: nothing; of versions
that cannot be cut at lines, such as one line of a megabyte, a part around the first difference is shown.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import Any

from labelers.commits.pieces import gap_mark
from schemas.tokens import estimate_tokens

_KEYWORD = re.compile(
    r"\$(Id|Header|Revision|Rev|Date|Author|Log|Source|RCSfile|LastChanged\w+|\w+BSD):[^$\n]{0,300}\$"
)
"""What version control wrote into files when they were checked out: number, day and author of a version."""
_AROUND = (40, 20, 10, 5, 3)
"""Lines around changed regions that are tried, most first."""
_BEFORE = 200
"""Characters shown before the first difference where a region has to be cut inside."""
_CHARACTERS = 6
"""Characters of a token that are tried at first."""
_MARK_TOKENS = 24
"""Room for a mark of what is left out."""


@dataclasses.dataclass(frozen=True)
class Shown:
    """Two versions as judges see them.

    Attributes:
        old, new: the texts.
        diff: a unified diff of them, without file names; empty when they are the same.
        cut: they are not whole.
    """

    old: str
    new: str
    diff: str
    cut: bool


@dataclasses.dataclass(frozen=True)
class _Block:
    """Spans of lines, half-open and counted from 0, that hold some changed regions in either version."""

    old: tuple[int, int]
    new: tuple[int, int]


# Every judge is shown the same, a few proposals apart.
@functools.lru_cache(maxsize=16)
def shown(old: str, new: str, language: str, most: int) -> Shown:
    """Two versions for a judge, each of at most about `most` estimated tokens.

    What version control writes into files, such as `$Id: a.c,v 1.42 2008-09-23 ... $`, would tell which of
    them is newer, so its values are left out.

    Longer versions are cut alike: what is left out between changed regions is the same in both, and of
    regions that are too many or too long the same are left out of both.
    """
    old, new = (_KEYWORD.sub(r"$\1$", text) for text in (old, new))
    if max(estimate_tokens(old), estimate_tokens(new)) <= most:
        return Shown(old, new, unified(old, new), cut=False)
    old_cut, new_cut = _cut(old, new, gap_mark(language), most)
    return Shown(old_cut, new_cut, unified(old_cut, new_cut), cut=True)


def unified(old: str, new: str) -> str:
    """The unified diff of two texts with three lines around, from its first `@@` on."""
    old_bytes, new_bytes = _encoded(old), _encoded(new)
    data: bytes = _patch(old_bytes, new_bytes, 3).data
    # Two lines of file names come before it.
    return data[data.find(b"\n@@ ") + 1 :].decode("utf-8", "replace") if b"\n@@ " in data else ""


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _patch(old: bytes, new: bytes, around: int) -> Any:
    """libgit2's diff of texts; they must outlive it, since it reads them again and does not hold them."""
    import pygit2
    from pygit2.enums import DiffOption

    flag = DiffOption.INDENT_HEURISTIC | DiffOption.FORCE_TEXT
    return pygit2.Patch.create_from(old, new, flag=flag, context_lines=around, interhunk_lines=0)


def _regions(old: str, new: str) -> list[_Block]:
    old_bytes, new_bytes = _encoded(old), _encoded(new)
    found = []
    for hunk in _patch(old_bytes, new_bytes, 0).hunks:
        # An empty side's start is the line before it.
        begin_old = hunk.old_start - (1 if hunk.old_lines else 0)
        begin_new = hunk.new_start - (1 if hunk.new_lines else 0)
        found.append(_Block((begin_old, begin_old + hunk.old_lines), (begin_new, begin_new + hunk.new_lines)))
    return found


def _cut(old: str, new: str, gap: str, most: int) -> tuple[str, str]:
    regions = _regions(old, new)
    lines = tuple(text.removesuffix("\n").split("\n") for text in (old, new))
    blocks: list[_Block] = []
    for around in _AROUND:
        blocks = _widened(regions, around, len(lines[0]))
        made = _joined(lines, blocks, gap, whole=True)
        if blocks and max(map(estimate_tokens, made)) <= most:
            return made
    kept, left = [], most - _MARK_TOKENS
    for block in blocks:
        left -= _MARK_TOKENS + max(map(estimate_tokens, _texts(lines, block)))
        if left < 0:
            break
        kept.append(block)
    if kept:
        return _joined(lines, kept, gap, whole=False)
    first = _texts(lines, blocks[0]) if blocks else (old, new)
    return _inside(*first, gap, most)


def _widened(regions: Sequence[_Block], around: int, end: int) -> list[_Block]:
    """Blocks of the regions with equal lines around them; those that touch are one."""
    found: list[_Block] = []
    for number, region in enumerate(regions):
        last = regions[number - 1].old[1] if number else 0
        following = regions[number + 1].old[0] if number + 1 < len(regions) else end
        before = min(around, region.old[0] - last)
        after = max(min(around, following - region.old[1]), 0)
        block = _Block(
            (region.old[0] - before, region.old[1] + after), (region.new[0] - before, region.new[1] + after)
        )
        if found and block.old[0] <= found[-1].old[1]:
            found[-1] = _Block((found[-1].old[0], block.old[1]), (found[-1].new[0], block.new[1]))
        else:
            found.append(block)
    return found


def _texts(lines: Sequence[Sequence[str]], block: _Block) -> tuple[str, str]:
    return "\n".join(lines[0][slice(*block.old)]), "\n".join(lines[1][slice(*block.new)])


def _joined(
    lines: Sequence[Sequence[str]], blocks: Sequence[_Block], gap: str, *, whole: bool
) -> tuple[str, str]:
    """Both versions with marks in place of what stands between blocks.

    Args:
        whole: these are all blocks.
    """
    parts: tuple[list[str], list[str]] = ([], [])
    at = 0
    for block in blocks:
        # Between blocks both versions are the same, so one number holds for both.
        if block.old[0] > at:
            _mark(parts, f"{gap} ({block.old[0] - at} lines, the same in both versions)")
        for side, text in zip(parts, _texts(lines, block), strict=True):
            side.append(text)
        at = block.old[1]
    if not whole:
        _mark(parts, f"{gap} (more lines, among them changed ones)")
    elif len(lines[0]) > at:
        _mark(parts, f"{gap} ({len(lines[0]) - at} lines, the same in both versions)")
    return "\n".join(parts[0]), "\n".join(parts[1])


def _mark(parts: Sequence[list[str]], text: str) -> None:
    for side in parts:
        side.append(text)


def _common(old: str, new: str) -> int:
    """Number of equal characters at the beginning."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))


def _inside(old: str, new: str, gap: str, most: int) -> tuple[str, str]:
    """The same stretch of characters of both texts, from shortly before their first difference."""
    begin = max(_common(old, new) - _BEFORE, 0)
    room, left = most * _CHARACTERS, max(most - 2 * _MARK_TOKENS, 1)
    while max(estimate_tokens(text[begin : begin + room]) for text in (old, new)) > left:
        room = room * 3 // 4
    before = f"{gap} (the same in both versions)\n" if begin else ""
    after = f"\n{gap} (more, among it changes)"
    old_cut, new_cut = (f"{before}{text[begin : begin + room]}{after}" for text in (old, new))
    return old_cut, new_cut
