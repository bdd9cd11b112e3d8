"""Languages and aspects as published sets spell them, in our spelling.

Aspects are those of Themis; any other name stays as it is. A language that is none of
`miner.config.LANGUAGES` stays as it is where a set is about code, and is `NL` where it may be a natural one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from miner.config import LANGUAGES
from miner.importers.fields import BadRow, text_value
from miner.languages import language_of_path

ASPECTS = (
    "Functional Correctness",
    "Runtime Efficiency",
    "Memory Efficiency",
    "Security Hardness",
    "Readability and Maintainability",
    "Helpfulness",
    "Harmlessness",
)
"""Aspects of the Themis sets, as `aspect` spells them."""

PROSE = "NL"
"""The language of what is no code."""

_LONGEST_NAME = 100
_SPELLINGS = {
    **{name.lower(): name for name in LANGUAGES},
    "cpp": "C++",
    "csharp": "C#",
    "c_sharp": "C#",
    "golang": "Go",
    "js": "JavaScript",
    "node": "JavaScript",
    "nodejs": "JavaScript",
    "py": "Python",
    "python3": "Python",
    "ts": "TypeScript",
}
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})[ \t]*([^\s`{]{0,40})")


def _folded(name: str) -> str:
    return re.sub(r"[^a-z]+", " ", name.lower().replace("&", " ").replace("_", " ")).strip()


_ASPECTS = {_folded(name): name for name in ASPECTS} | {"readability maintainability": ASPECTS[4]}


def name_of(value: Any, names: Sequence[str], field: str) -> str | None:
    """The name of a language or an aspect: text as it is, a number by `names`; None for null or nothing.

    Raises:
        BadRow: it is neither, a number without a name, or longer than a name or of several lines.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < len(names):
            why = f"no name is known for {value}" if abs(value) < 1 << 63 else "no name is known for it"
            raise BadRow("unnamed_class", f"{field}: {why}; name them in order by preferences.{field}_names")
        return names[value]
    if value is None:
        return None
    text = text_value(value, field, empty=True).strip()
    if len(text) > _LONGEST_NAME or not text.isprintable():
        raise BadRow("bad_field", f"{field}: {text[:40]!r} is no name")
    return text or None


def spelled_language(told: str) -> str | None:
    """A programming language in our spelling, `NL` for that, or None for another word."""
    if told.upper() == PROSE:
        return PROSE
    return _SPELLINGS.get(told.lower())


def spelled_aspect(told: str) -> str:
    """An aspect in the spelling of Themis, or as it is where it is none of those."""
    return _ASPECTS.get(_folded(told), told)


def fenced_language(text: str) -> str | None:
    """The programming language in which most lines of fenced code are, or None where no fence names one."""
    lines: Counter[str] = Counter()
    fence, language = "", None
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if not fence:
            if mark is not None:
                fence, language = mark[1], _tagged(mark[2])
        elif mark is not None and mark[1].startswith(fence) and not line[mark.end(1) :].strip():
            fence = ""
        elif language is not None:
            lines[language] += 1
    return lines.most_common(1)[0][0] if lines else None


def _tagged(tag: str) -> str | None:
    """The language that a fence's first word names: a language or the ending of its files."""
    found = _SPELLINGS.get(tag.lower())
    if found is None and tag.isalnum():
        found = language_of_path(f"code.{tag.lower()}")
    return found if found in LANGUAGES else None
