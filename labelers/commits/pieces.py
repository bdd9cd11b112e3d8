"""Which versions of an edit become pairs: the whole files, an excerpt, or one excerpt a purpose.

In: an edit (a row of `edits`), its excerpts (rows of `excerpts`) and the settings of `build`. Out: the
views to make pairs of, or why there is none.

The label of an edit is about all of it. Where an edit was cut into several pieces, each needs a label of
its own: the built-in classifier is asked again, with the changed lines of the piece and with those parts
of the message that have a word of the piece which is of no other piece. A message says most of what the
classifier knows, so a piece that no part of the message tells of has no label.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from labelers.commits.config import BuildConfig
from schemas.changes import changed_lines
from schemas.tokens import estimate_tokens

_CLAUSE = re.compile(
    r"[,;](?=\s)|(?<=\s)[&+](?=\s)|\b(?:and|also|plus)\b|\n[^\S\n]*(?:[-*•]|\d{1,3}[.)])(?=\s)|\n\n", re.I
)
_SUBWORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_STEM = 5
"""Letters by which words are compared, so that `flashes` is `flashed`."""


@dataclasses.dataclass(frozen=True)
class View:
    """Two versions to make a pair of.

    Attributes:
        edit: the edit with these versions as its contents.
        level: `file` or `function`.
        names: changed definitions of an excerpt.
        piece: number of the excerpt; None for whole files.
        own: the piece as an edit to label by itself; None where the edit's label holds.
    """

    edit: Mapping[str, Any]
    level: str
    names: list[str]
    piece: int | None = None
    own: Mapping[str, Any] | None = None


def views(
    edit: Mapping[str, Any], excerpts: Sequence[Mapping[str, Any]], config: BuildConfig
) -> list[View] | tuple[str, str]:
    """What to make pairs of; or a reason of `build` and a few words, when nothing is short enough."""
    if config.level == "file":
        return [View(edit, "file", [])]
    if len(excerpts) <= 1 and config.level == "auto":
        # Counting again costs less than reading what `cut` counted where it made no excerpt.
        longest = max(estimate_tokens(edit[side]) for side in ("old_contents", "new_contents"))
        if longest <= config.max_tokens:
            return [View(edit, "file", [])]
    if not excerpts:
        return "too_long", "the file is too long and could not be cut"
    fit = [one for one in excerpts if one["tokens"] <= config.max_tokens]
    if not fit:
        return "too_long", f"{min(one['tokens'] for one in excerpts)} tokens at least"
    if not (good := [one for one in fit if one["parses"]]):
        return "broken_excerpt", "no excerpt parses as the files do"
    words = [_words(edit, one) for one in excerpts]
    return [_view(edit, one, words, len(excerpts)) for one in good]


def _view(
    edit: Mapping[str, Any], excerpt: Mapping[str, Any], words: Sequence[set[str]], pieces: int
) -> View:
    shown = {side: excerpt[side] for side in ("old_contents", "new_contents")}
    own = None
    if pieces > 1:
        mine = words[excerpt["piece"]]
        others = set().union(*(found for number, found in enumerate(words) if number != excerpt["piece"]))
        told = [
            clause.strip() for clause in _CLAUSE.split(edit["message"]) if _stems(clause) & (mine - others)
        ]
        hunks = excerpt["hunks"]
        own = {
            **edit,
            "hunks": hunks,
            "lines_removed": sum(hunk["old_lines"] for hunk in hunks),
            "lines_added": sum(hunk["new_lines"] for hunk in hunks),
            "subject": told[0].partition("\n")[0] if told else "",
            "message": "\n\n".join(told),
        }
    return View({**edit, **shown}, "function", list(excerpt["names"]), excerpt["piece"], own)


def _words(edit: Mapping[str, Any], excerpt: Mapping[str, Any]) -> set[str]:
    """Stems of the words in a piece's changed lines and names."""
    removed, added = changed_lines({**edit, "hunks": excerpt["hunks"]})
    return _stems("\n".join((*removed, *added, *excerpt["names"])))


def gap_mark(language: str) -> str:
    """What stands for left-out lines in an excerpt."""
    return f"{'#' if language in ('Python', 'Ruby') else '//'} ..."


def _stems(text: str) -> set[str]:
    return {word.lower()[:_STEM] for word in _SUBWORD.findall(text) if len(word) > 2}
