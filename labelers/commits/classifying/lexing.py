"""The changed lines of an edit as code, comments and tokens, without a parser.

In: a row of `edits`. Out: a `Change`: for each hunk and side its lines, its comments and the tokens of its
code. A file is read from a little before a hunk to its end, so the work is bounded by the change and not by
the file; a comment or string that begins before that is taken for code. Every pattern is linear in its
text: an unclosed comment or string ends with the text or the line.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

BEFORE = 4_000
"""Characters before a hunk that are read to know whether it begins inside a comment."""
FAR_BEFORE = 40_000
"""The same for Python, whose long strings begin and end alike."""
MOST_CHANGED = 24_000
"""Characters of one side's changed lines that are looked at."""
MOST_HUNKS = 40

_STRING = r"\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?"
_CHAR = r"\"(?:[^\"\\\n]|\\.)*\"?|'(?:\\.[^'\n]{0,8}|[^'\\\n])'"
_C_COMMENT = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
_TRIPLE = r"\"\"\".*?(?:\"\"\"|\Z)|'''.*?(?:'''|\Z)"
_SPANS = {
    "c": rf"{_C_COMMENT}|{_CHAR}",
    "script": rf"{_C_COMMENT}|{_STRING}|`(?:[^`\\]|\\.)*`?",
    "text": rf"{_C_COMMENT}|\"\"\".*?(?:\"\"\"|\Z)|{_CHAR}",
    "go": rf"{_C_COMMENT}|{_CHAR}|`[^`]*`?",
    "php": rf"{_C_COMMENT}|#(?!\[)[^\n]*|{_STRING}",
    "python": rf"#[^\n]*|{_TRIPLE}|{_STRING}",
    "ruby": rf"#(?!\{{)[^\n]*|^=begin.*?(?:^=end|\Z)|{_STRING}",
    "hash": rf"#[^\n]*|{_STRING}",
}
_FAMILY = {
    "Python": "python",
    "Ruby": "ruby",
    "PHP": "php",
    "JavaScript": "script",
    "TypeScript": "script",
    "Go": "go",
    "Kotlin": "text",
    "Scala": "text",
    "Swift": "text",
    "Java": "text",
    "Shell": "hash",
    "Perl": "hash",
    "R": "hash",
    "Julia": "hash",
    "Elixir": "hash",
    "PowerShell": "hash",
}
_TOKEN = re.compile(
    r"[A-Za-z_$][\w$]*|\d[\w.]*|\x01\d+\x02|=>|->|::|\+\+|--|&&|\|\||\?\?|\?\.|<<=?|>>=?|[-+*/%&|^!=<>:]=+|\S"
)


@dataclasses.dataclass(frozen=True)
class Side:
    """One side of one hunk.

    Attributes:
        lines: its lines as they stand.
        code: its lines without comments, blank ones left out.
        comments: text of its comments.
        tokens: tokens of its code; a string is one token in double quotes, whatever its quotes were.
    """

    lines: list[str]
    code: list[str]
    comments: list[str]
    tokens: list[str]


@dataclasses.dataclass(frozen=True)
class Change:
    """The hunks of an edit as (old, new), and whether some of it was too much to look at."""

    hunks: list[tuple[Side, Side]]
    cut: bool


@functools.lru_cache(maxsize=16)
def _spans(language: str) -> re.Pattern[str]:
    return re.compile(_SPANS[_FAMILY.get(language, "c")], re.DOTALL | re.MULTILINE)


_NEWLINE = re.compile(r"\n")


def _starts(text: str) -> list[int]:
    return [0, *(match.end() for match in _NEWLINE.finditer(text))]


def _is_comment(found: str, text: str, at: int, family: str) -> bool:
    if found[:2] in ("//", "/*") or found[0] in "#=":
        return True
    if family == "python" and found[:3] in ('"""', "'''"):
        # A string that stands alone on its line documents; one that is assigned or passed is data.
        before = text[max(0, at - 200) : at].rpartition("\n")[2]
        return not before.strip(" \tru")
    return False


def _floor(text: str, begin: int, family: str) -> int:
    """Where to begin reading, so that a comment which is open at `begin` is seen to open."""
    floor = max(0, begin - BEFORE)
    if family == "python":
        # From inside a docstring its closing quotes would look like opening ones; a `def` is outside.
        far = max(0, begin - FAR_BEFORE)
        head = max(text.rfind(head, far, begin) for head in ("\ndef ", "\nclass ", "\n    def "))
        floor = head + 1 if head >= 0 else floor * (far > 0)
    return text.find("\n", floor - 1, begin) + 1 or begin if floor else 0


def _side(text: str, begin: int, end: int, language: str) -> Side:
    """The side whose changed lines are `text[begin:end]`."""
    family = _FAMILY.get(language, "c")
    floor = _floor(text, begin, family)
    code: list[str] = []
    comments: list[str] = []
    strings: list[str] = []
    at = begin
    for match in _spans(language).finditer(text, floor, end):
        first, last = match.span()
        if last <= begin or first == last:
            continue
        first_in = max(first, begin)
        code.append(text[at:first_in])
        at = last
        found = match.group()
        if _is_comment(found, text, first, family):
            comments.append(text[first_in:last])
            code.append("\n" if "\n" in text[first_in:last] else " ")
        else:
            code.append(f"\x01{len(strings)}\x02")
            strings.append(text[first_in:last])
    code.append(text[at:end])
    joined = "".join(code)
    tokens = []
    for token in _TOKEN.findall(joined):
        if token[0] == "\x01" and len(token) > 2:
            tokens.append('"' + strings[int(token[1:-1])].strip("\"'`"))
        else:
            tokens.append(token)
    plain = [
        re.sub(r"\x01(\d+)\x02", lambda match: strings[int(match.group(1))], line)
        for line in joined.split("\n")
        if line.strip()
    ]
    lines = text[begin:end].split("\n") if end > begin else []
    if lines and not lines[-1]:
        lines.pop()
    return Side(lines, plain, comments, tokens)


def _bounds(starts: list[int], length: int, first: int, count: int) -> tuple[int, int]:
    if not count:
        return 0, 0
    begin = starts[first - 1] if first - 1 < len(starts) else length
    last = first - 1 + count
    return begin, starts[last] if last < len(starts) else length


def change(edit: Mapping[str, Any]) -> Change:
    """Read the changed lines of a row of `edits`."""
    # The marks of strings must not stand in the text.
    texts = [
        edit[side].replace("\x01", " ").replace("\x02", " ") for side in ("old_contents", "new_contents")
    ]
    starts = [_starts(text) for text in texts]
    left = [MOST_CHANGED, MOST_CHANGED]
    hunks = []
    cut = len(edit["hunks"]) > MOST_HUNKS
    for hunk in edit["hunks"][:MOST_HUNKS]:
        sides = []
        for number, name in enumerate(("old", "new")):
            begin, end = _bounds(
                starts[number], len(texts[number]), hunk[f"{name}_start"], hunk[f"{name}_lines"]
            )
            kept = min(end, begin + left[number])
            cut |= kept < end
            left[number] -= kept - begin
            sides.append(_side(texts[number], begin, kept, edit["language"]))
        hunks.append((sides[0], sides[1]))
    return Change(hunks, cut)
