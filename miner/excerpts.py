"""Excerpts of edits: the changed functions and classes with the lines that they need, on both sides.

In: an edit (a row of `edits`). Out: one `Excerpt`, or one for each of its separate purposes
(`miner.purposes`), whose new side is then the old file with this purpose's changes alone.

An excerpt is made of the edit's changed lines and of unchanged lines, the same on both sides: what
encloses a change, the innermost changed functions, and of the rest of the file what they use: imports,
constants, fields and small types, and the signatures of functions that they call. What is left out between
is one comment line such as `# ...`. So the two sides differ in the edit's own lines and in nothing else.
More is left out, step by step, until both sides have at most `max_tokens`; in the last steps of a long
function too. A step whose result does not parse as well as the whole files is skipped.
Wrong: `SourceError` for a file that cannot be parsed at all, in one line for a dropped row.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from decompose.definition_types import Syntax
from decompose.definitions import Item
from decompose.elision import Kept, keep
from decompose.grammars import dialect, parse
from miner.config import CutConfig
from miner.purposes import groups, told_groups
from miner.uses import uses
from miner.versions import (
    Change,
    Side,
    Versions,
    enclosing,
    errors_of,
    mark,
    with_changes,
)
from schemas.ids import content_id
from schemas.records import Excerpt, Hunk
from schemas.tokens import estimate_tokens

AROUND = 3
"""Unchanged lines shown around a change outside of any function, as in a patch."""
WINDOW = 12
"""Unchanged lines shown around a change in a function that is too long to be shown whole."""
SMALL = 60
"""Lines up to which a function is shown whole around an inner one, and a class around a changed field."""
_SHORT = 160
"""Characters of a single line that is not worth leaving out."""


def _lines_of(item: Item) -> int:
    return item.end_line - item.start_line + 1


def _whole(item: Item, around: Sequence[Item]) -> tuple[int, int]:
    """The lines to show whole for a changed definition: its own, or those of a small function around it.

    Empty for a large class, of which the changed lines tell enough.
    """
    whole = item if item.is_function or _lines_of(item) <= SMALL else None
    for one in around:
        if one.is_function and _lines_of(one) <= SMALL:
            whole = one
    return (whole.start_line - 1, whole.end_line) if whole is not None else (0, 0)


def _wanted(pair: Versions, number: int, window: int | None) -> bytearray:
    """Lines of a side that show its changes; with a window, no function is shown whole for its own sake."""
    side = (pair.old, pair.new)[number]
    rows = bytearray(len(side.lines))
    regions = pair.regions(number)
    inside = bytearray(len(side.lines))
    for item in side.items:
        if item.is_function and (item.parent is None or not side.items[item.parent].is_function):
            mark(inside, item.start_line - 1, item.end_line)
    for item in pair.leaves[number]:
        around = enclosing(side.items, item)
        for one in (item, *around):
            mark(rows, one.head_line - 1, one.head_line)
        start, stop = _whole(item, around)
        if window is None or stop - start <= 2 * window:
            mark(rows, start, stop)
    if window is not None:
        for (first, end), touched in zip(regions, pair.touched[number], strict=True):
            for item in touched:
                start, stop = _whole(item, enclosing(side.items, item))
                if start < stop:
                    mark(rows, item.head_line - 1, item.signature_line)
                mark(rows, max(first - window, start), min(end + window, stop))
    for first, end in regions:
        mark(rows, first, end)
        # What is around a change outside of functions is shown, up to the next function.
        for near in (range(first - 1, first - 1 - AROUND, -1), range(end, end + AROUND)):
            for row in near:
                if not 0 <= row < len(rows) or (inside[row] and not rows[row]):
                    break
                rows[row] = 1
    return rows


@dataclasses.dataclass
class _Text:
    """A side of an excerpt while it is written: its lines, and which line of the file each of them is."""

    lines: list[str] = dataclasses.field(default_factory=list)
    rows: list[int] = dataclasses.field(default_factory=list)

    def add(self, lines: Sequence[str], first: int) -> None:
        """Add lines that stand at `first` and below in the file."""
        self.lines += lines
        self.rows += range(first, first + len(lines))

    def add_gap(self, lines: Sequence[str], first: int) -> None:
        """Add what stands for lines that are left out from `first` on."""
        self.lines += lines
        self.rows += [first] * len(lines)


def _rendered(pair: Versions, kept: Sequence[Kept]) -> tuple[_Text, _Text]:
    """Both sides: changed lines, unchanged ones that either side keeps, and one line for each gap."""
    sides = _Text(), _Text()
    lines = pair.old.lines
    ending = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    emptied = kept[0].emptied, kept[1].emptied
    for number, (old, new, count) in enumerate(pair.runs()):
        end = 0
        for stays, run in itertools.groupby(kept[0].rows[old : old + count]):
            first, end = end, end + len(list(run))
            shown = lines[old + first : old + end]
            if stays:
                sides[0].add(shown, old + first)
                sides[1].add(shown, new + first)
                continue
            filler = any(old + step in emptied[0] or new + step in emptied[1] for step in range(first, end))
            gap = _gap(shown, filler, pair.syntax, ending)
            sides[0].add_gap(gap, old + first)
            sides[1].add_gap(gap, new + first)
        if number < len(pair.changes):
            change = pair.changes[number]
            sides[0].add(lines[change.old_first : change.old_end], change.old_first)
            sides[1].add(pair.new.lines[change.new_first : change.new_end], change.new_first)
    return sides


def _gap(lines: list[str], filler: bool, syntax: Syntax, ending: str) -> list[str]:
    """What stands for lines that are left out: themselves where that is no longer."""
    told = [line for line in lines if line.strip()]
    if len(told) <= 1 and sum(map(len, lines)) <= _SHORT:
        return lines
    first = told[0]
    indent = first[: len(first) - len(first.lstrip())]
    mark = syntax.filler if filler and syntax.filler else f"{syntax.comment} ..."
    above = [line for line in lines[:1] if not line.strip()]
    below = [line for line in lines[-1:] if not line.strip()]
    return [*above, f"{indent}{mark}{ending}", *below]


@dataclasses.dataclass(frozen=True)
class Cut:
    """Both sides of an excerpt.

    Attributes:
        tokens: estimated tokens of the longer side.
        parses: neither side has a syntax error that the whole file does not have in the same lines.
    """

    old: str
    new: str
    tokens: int
    parses: bool


def _try(pair: Versions, wanted: Sequence[bytearray], lists: bool) -> Cut:
    kept = [
        keep(side.tree, pair.language, rows, lists)
        for side, rows in zip((pair.old, pair.new), wanted, strict=True)
    ]
    joined = pair.joined([one.rows for one in kept])
    kept = [Kept(rows, one.emptied) for rows, one in zip(joined, kept, strict=True)]
    sides = _rendered(pair, kept)
    texts = ["".join(side.lines) for side in sides]
    parses = all(
        _parses(text, side.rows, broken, pair.language)
        for text, side, broken in zip(texts, sides, pair.broken, strict=True)
    )
    return Cut(texts[0], texts[1], max(map(estimate_tokens, texts)), parses)


def _parses(text: str, rows: Sequence[int], broken: bytearray, language: str) -> bool:
    """Whether a text has no syntax errors but where the file that its rows are of has some."""
    return all(
        any(broken[row] for row in rows[max(0, first - 1) : first + 1])
        for first, _ in errors_of(parse(text.encode(), language))
    )


def cut(pair: Versions, max_tokens: int) -> Cut:
    """The excerpt of two versions that says most and has at most `max_tokens`.

    When none fits and parses, the shortest that parses; when none parses, the first one.
    """
    tried: list[Cut] = []
    for window, with_ in ((None, 3), (None, 2), (None, 1), (WINDOW, 2), (WINDOW, 1), (AROUND, 0)):
        wanted = pair.joined([_wanted(pair, side, window) for side in (0, 1)])
        for spans in uses(pair, wanted[0])[:with_]:
            for first, end in spans:
                mark(wanted[0], first, end)
        wanted = pair.joined(wanted)
        for lists in (True, False):
            made = _try(pair, wanted, lists)
            tried.append(made)
            if made.parses:
                break
        if made.parses and made.tokens <= max_tokens:
            return made
    whole = "".join(pair.old.lines), "".join(pair.new.lines)
    tokens = max(map(estimate_tokens, whole))
    if tokens <= max_tokens:
        return Cut(*whole, tokens, True)
    good = [one for one in tried if one.parses]
    return min(good, key=lambda one: one.tokens) if good else tried[0]


def excerpts(edit: Mapping[str, Any], config: CutConfig) -> list[Excerpt]:
    """The excerpts of an edit (a row of `edits`): one, or one a purpose.

    Raises:
        SourceError: a version is too large to parse, or is no text.
        AssayError: the language is not known.
    """
    language = dialect(edit["language"], edit["path"])
    old, new = (Side.read(edit[side], language) for side in ("old_contents", "new_contents"))
    hunks = edit["hunks"]
    whole = Versions(old, new, [Change.of(hunk) for hunk in hunks], language)
    pieces = _pieces(whole, edit["message"], config)
    file_tokens = max(estimate_tokens(edit[side]) for side in ("old_contents", "new_contents"))
    found = []
    for number, (group, pair) in enumerate(pieces):
        made = cut(pair, config.max_tokens)
        found.append(
            Excerpt(
                id=content_id("excerpt", edit["id"], str(number), made.old, made.new),
                edit_id=edit["id"],
                piece=number,
                pieces=len(pieces),
                names=pair.names(),
                old_contents=made.old,
                new_contents=made.new,
                hunks=[Hunk(**hunks[one]) for one in group],
                tokens=made.tokens,
                file_tokens=file_tokens,
                parses=made.parses,
            )
        )
    return found


def _pieces(whole: Versions, message: str, config: CutConfig) -> list[tuple[list[int], Versions]]:
    """The numbers of each purpose's regions, with the old file and what these regions alone make of it.

    All regions stay together when one purpose by itself would have syntax errors that the edit has not.
    """
    together = [(list(range(len(whole.changes))), whole)]
    if config.split_purposes == "never":
        return together
    grouped = told_groups(whole, message) if config.split_purposes == "told" else groups(whole)
    if len(grouped) < 2:
        return together
    most = max(len(errors_of(side.tree)) for side in (whole.old, whole.new))
    found = []
    for group in grouped:
        text, placed = with_changes(whole.old.lines, whole.new.lines, [whole.changes[one] for one in group])
        side = Side.read(text, whole.language)
        if len(errors_of(side.tree)) > most:
            return together
        found.append((group, Versions(whole.old, side, placed, whole.language)))
    return found
