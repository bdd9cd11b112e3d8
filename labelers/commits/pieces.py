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
from schemas.ids import content_id
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
        whole: the whole file before the change, and after this change alone.
    """

    edit: Mapping[str, Any]
    level: str
    names: list[str]
    whole: tuple[str, str]
    piece: int | None = None
    own: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        """Hash of the edit and the piece, or of the edit and `file`."""
        return content_id("view", self.edit["id"], "file" if self.piece is None else str(self.piece))


def views(
    edit: Mapping[str, Any], excerpts: Sequence[Mapping[str, Any]], config: BuildConfig
) -> list[View] | tuple[str, str]:
    """What to make pairs of; or a reason of `build` and a few words, when nothing is short enough."""
    if config.level == "file":
        return [_file(edit)]
    if len(excerpts) <= 1 and config.level == "auto":
        # Counting again costs less than reading what `cut` counted where it made no excerpt.
        longest = max(estimate_tokens(edit[side]) for side in ("old_contents", "new_contents"))
        if longest <= config.max_tokens:
            return [_file(edit)]
    if not excerpts:
        return "too_long", "the file is too long and could not be cut"
    fit = [one for one in excerpts if one["tokens"] <= config.max_tokens]
    if not fit:
        return "too_long", f"{min(one['tokens'] for one in excerpts)} tokens at least"
    if not (good := [one for one in fit if one["parses"]]):
        return "broken_excerpt", "no excerpt parses as the files do"
    words = [_words(edit, one) for one in excerpts]
    return [_view(edit, one, words, len(excerpts)) for one in good]


def _file(edit: Mapping[str, Any]) -> View:
    return View(edit, "file", [], (edit["old_contents"], edit["new_contents"]))


def with_hunks(edit: Mapping[str, Any], hunks: Sequence[Mapping[str, int]]) -> str:
    """The old file with only these of the edit's changed regions made."""
    old, new = (edit[f"{side}_contents"].split("\n") for side in ("old", "new"))
    made: list[str] = []
    at = 0
    for hunk in sorted(hunks, key=lambda one: (one["old_start"], one["new_start"])):
        # A pure insertion is told by the line before it, a pure deletion in the new file likewise.
        begin = hunk["old_start"] - (1 if hunk["old_lines"] else 0)
        first = hunk["new_start"] - (1 if hunk["new_lines"] else 0)
        made += old[at:begin]
        made += new[first : first + hunk["new_lines"]]
        at = begin + hunk["old_lines"]
    return "\n".join([*made, *old[at:]])


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
    new = edit["new_contents"] if pieces == 1 else with_hunks(edit, excerpt["hunks"])
    whole = (edit["old_contents"], new)
    return View({**edit, **shown}, "function", list(excerpt["names"]), whole, excerpt["piece"], own)


def _words(edit: Mapping[str, Any], excerpt: Mapping[str, Any]) -> set[str]:
    """Stems of the words in a piece's changed lines and names."""
    removed, added = changed_lines({**edit, "hunks": excerpt["hunks"]})
    return _stems("\n".join((*removed, *added, *excerpt["names"])))


def gap_mark(language: str) -> str:
    """What stands for left-out lines in an excerpt."""
    return f"{'#' if language in ('Python', 'Ruby') else '//'} ..."


def _stems(text: str) -> set[str]:
    return {word.lower()[:_STEM] for word in _SUBWORD.findall(text) if len(word) > 2}
