"""The program in a model's answer, and where its bytes stand in that answer.

In: the text of an answer and what was asked for. Out: a `Found`: the program, the pieces that it shares
with the answer, and what is wrong with the answer at sight. An answer may be a program, one or several
fenced blocks between prose, a program between lines of prose without any fence, or the rest of a text
that begins with the prompt; thoughts before a closing `</think>` are no part of it. Of several readings the
one that defines most of the functions asked for counts; of several versions of a program the last. Where no
reading is a program, the parts of one that stand by themselves are taken: a program that was cut off, or
with a slip in one function, is broken, but its other functions can be labelled.
Wrong: nothing raises; an answer without a program is a `Found` with its `fault`, and is judged as it is.
Time is bounded: no more than some dozens of readings are parsed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from decompose.functions import functions
from decompose.grammars import SourceError
from decompose.skeleton import skeleton
from schemas.records import Piece

_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})([^`\n]*)\n?")
_THOUGHT = re.compile(r"</(?:think|thinking|reasoning)>")
# An answer has a few blocks; the longest are the programs.
_MAX_BLOCKS = 8
# Parts of a broken program that are looked at one by one, and characters of a text that is searched for one.
_MAX_PARTS, _MAX_SEARCHED = 200, 1 << 17
# Ends of a program between lines of prose that are tried.
_MAX_ENDS = 24
_STARTS = re.compile(
    r"(?:async\s+def|def|class|import|from|@|#\s*include|using|package|func|fn|pub|impl|use|function|export|const|"
    r"let|var|public|private|static|template|struct|module|require|<\?php|int|void|long|double|bool|string|char|"
    r"std::|vector)\b|[@#]"
)
# What a fence may be called -> the language of the table.
_NAMES = {
    "python": "Python",
    "py": "Python",
    "python3": "Python",
    "javascript": "JavaScript",
    "js": "JavaScript",
    "typescript": "TypeScript",
    "ts": "TypeScript",
    "java": "Java",
    "go": "Go",
    "golang": "Go",
    "c": "C",
    "cpp": "C++",
    "c++": "C++",
    "csharp": "C#",
    "cs": "C#",
    "c#": "C#",
    "ruby": "Ruby",
    "rb": "Ruby",
    "rust": "Rust",
    "rs": "Rust",
    "php": "PHP",
}
_TEST = re.compile(r"(?m)^\s*(?:assert\b|def\s+(?:test|check)|class\s+\w*Test|(?:it|describe|test)\()")


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a completion was asked for.

    Attributes:
        language: of the program, as in the `language` column.
        names: functions of the skeleton.
        skeleton: the program with blank bodies.
        prompt: text that the answer may go on from.
    """

    language: str
    names: frozenset[str]
    skeleton: str
    prompt: str

    @classmethod
    def of(cls, program: Mapping[str, Any], prompt: str = "") -> Asked:
        """What a completion of a `Program` row is asked for."""
        names = frozenset(span["name"] for span in program["functions"])
        return cls(program["language"], names, program["skeleton"], prompt)


@dataclasses.dataclass(frozen=True)
class Found:
    """A program in an answer.

    Attributes:
        program: the whole program; the answer itself where it holds none.
        pieces: where parts of it stand in the answer, in order; empty where it is all of the answer.
        fault: see the column of `candidates`.
    """

    program: str
    pieces: tuple[Piece, ...]
    fault: str | None


def place(start: int, end: int, pieces: Sequence[Piece | Mapping[str, Any]]) -> tuple[int, int] | None:
    """Where a range of a program's bytes stands in its completion; None where none of it does.

    A function whose signature stands in the prompt has the span of what follows in the completion.
    """
    if not pieces:
        return start, end
    found = []
    for piece in pieces:
        one = piece if isinstance(piece, Piece) else Piece(**piece)
        first, last = max(start, one.program_byte), min(end, one.program_byte + one.bytes)
        if first < last:
            shift = one.completion_byte - one.program_byte
            found.append((first + shift, last + shift))
    return (found[0][0], found[-1][1]) if found else None


@dataclasses.dataclass(frozen=True)
class _Reading:
    """One way to read an answer: characters of it, in order, behind a text that it goes on from."""

    parts: tuple[tuple[int, int], ...]
    before: str = ""

    def text(self, answer: str) -> str:
        return self.before + "".join(answer[start:end] for start, end in self.parts)


def find(answer: str, asked: Asked) -> Found:
    """The program in an answer."""
    if not answer.strip():
        return Found(answer, (), "empty")
    best: tuple[int, _Reading] | None = None
    parses = False
    for reading in _readings(answer, asked):
        defined = _defined(reading.text(answer), asked.language)
        if defined is None:
            continue
        parses = parses or bool(defined)
        score = len(asked.names & defined)
        if score and (best is None or score > best[0]):
            best = score, reading
            if score == len(asked.names):
                break
    if best is None:
        return _broken(answer, asked) or Found(answer, (), _fault(answer, asked, parses))
    program = best[1].text(answer)
    fault = "unfilled" if _unfilled(program, asked) else None
    return Found(program, () if program == answer else tuple(_pieces(answer, best[1])), fault)


def script(answer: str, language: str) -> Found:
    """The program in an answer that need define nothing by name: the longest fenced block in its language,
    else the longest that does not say its language, else the text behind any thoughts."""
    if not answer.strip():
        return Found(answer, (), "empty")
    begin = _after_thoughts(answer)
    blocks = _blocks(answer, begin)
    tagged = [block for block in blocks if _NAMES.get(block[2].lower()) == language]
    chosen = tagged or [block for block in blocks if block[2].lower() not in _NAMES]
    if not chosen:
        if blocks:
            return Found(answer, (), "other_language")
        parts: tuple[tuple[int, int], ...] = ((begin, len(answer)),)
    else:
        # Of two versions of one length the last counts.
        parts = _unindented(answer, max(chosen, key=lambda one: (one[1] - one[0], one[0])))
    reading = _Reading(parts)
    program = reading.text(answer)
    return Found(program, () if program == answer else tuple(_pieces(answer, reading)), None)


def _readings(answer: str, asked: Asked) -> Iterator[_Reading]:
    whole = (0, len(answer))
    yield _Reading((whole,))
    begin = _after_thoughts(answer)
    blocks = _blocks(answer, begin)
    right = [block for block in blocks if _NAMES.get(block[2].lower(), asked.language) == asked.language]
    longest = sorted(right, key=lambda block: block[0] - block[1])[:_MAX_BLOCKS]
    # Of two versions of one program the last counts.
    for block in sorted(longest, reverse=True):
        yield _Reading(_unindented(answer, block))
    if len(right) > 1:
        # A block a function.
        yield _Reading(tuple(part for block in right[:64] for part in _unindented(answer, block)))
    if begin:
        yield _Reading(((begin, len(answer)),))
    if asked.prompt:
        yield _Reading((whole,), asked.prompt)
        for block in sorted(longest, reverse=True):
            yield _Reading((block[:2],), asked.prompt)
    if not blocks and len(answer) - begin <= _MAX_SEARCHED:
        yield _Reading(_unindented(answer, (begin, len(answer), "")))
        yield from _between_prose(answer, begin)


def _unindented(answer: str, block: tuple[int, int, str]) -> tuple[tuple[int, int], ...]:
    """A block without the indentation that all of its lines have, as in a list of points."""
    start, end, _ = block
    lines: list[tuple[int, int]] = []
    at = start
    for line in answer[start:end].splitlines(keepends=True):
        lines.append((at, at + len(line)))
        at += len(line)
    full = [answer[a:b] for a, b in lines if answer[a:b].strip()]
    depths = [len(line) - len(line.lstrip(" \t")) for line in full]
    depth = min(depths, default=0)
    if not depth or len({line[:depth] for line in full}) > 1:
        return ((start, end),)
    return tuple((min(a + depth, b - 1), b) if answer[a:b].strip() else (b - 1, b) for a, b in lines)


def _broken(answer: str, asked: Asked) -> Found | None:
    """What stands by itself of the longest reading that is no program, where that is a function asked for."""
    begin = _after_thoughts(answer)
    right = [b for b in _blocks(answer, begin) if _NAMES.get(b[2].lower(), asked.language) == asked.language]
    block = max(right, key=lambda one: one[1] - one[0], default=(begin, len(answer), ""))
    parts = _unindented(answer, block)
    text = "".join(answer[start:end] for start, end in parts)
    if len(text) > _MAX_SEARCHED:
        return None
    places = [place for start, end in parts for place in range(start, end)] if len(parts) > 1 else None
    kept = [one for one in _chunks(text) if _defined(text[slice(*one)], asked.language) is not None]
    program = "".join(text[slice(*one)] for one in kept)
    if not asked.names & (_defined(program, asked.language) or set()):
        return None
    if places is None:
        ranges = tuple((block[0] + start, block[0] + end) for start, end in kept)
    else:
        ranges = tuple(run for start, end in kept for run in _runs(places[start:end]))
    return Found(program, tuple(_pieces(answer, _Reading(ranges))), "broken")


def _chunks(text: str) -> list[tuple[int, int]]:
    """Runs of lines of a broken program, each from a line that begins a definition to the next such line."""
    starts, at, before = [0], 0, ""
    for line in text.splitlines(keepends=True):
        if at and _STARTS.match(line) and not before.endswith("\\\n"):
            starts.append(at)
        at, before = at + len(line), line
    joined = [starts[0]]
    for start in starts[1:]:
        # A decorator, attribute or comment belongs to what follows it.
        if not text[joined[-1] : start].lstrip().startswith(("@", "#[", "#", "template")) or (
            "\n" in text[joined[-1] : start].strip()
        ):
            joined.append(start)
    return list(zip(joined, [*joined[1:], len(text)], strict=True))[:_MAX_PARTS]


def _runs(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of neighbouring places."""
    first = 0
    for index in range(1, len(places) + 1):
        if index == len(places) or places[index] != places[index - 1] + 1:
            yield places[first], places[index - 1] + 1
            first = index


def _after_thoughts(answer: str) -> int:
    ends = [match.end() for match in _THOUGHT.finditer(answer)]
    return ends[-1] if ends else 0


def _blocks(answer: str, begin: int) -> list[tuple[int, int, str]]:
    return [(begin + start, begin + end, tag) for start, end, tag in fenced(answer[begin:])]


def _between_prose(answer: str, begin: int) -> Iterator[_Reading]:
    """A program from the first line that looks like one to each line that may be its last, longest first."""
    lines: list[tuple[int, int]] = []
    at = begin
    for line in answer[begin:].splitlines(keepends=True):
        lines.append((at, at + len(line)))
        at += len(line)
    starts = [number for number, (a, b) in enumerate(lines) if _STARTS.match(answer[a:b])]
    if not starts:
        return
    # The word that opens a sentence may look like code; the next such line is tried as well.
    for first in starts[:3]:
        ends = [
            number for number in range(len(lines) - 1, first - 1, -1) if answer[slice(*lines[number])].strip()
        ]
        for last in ends[: _MAX_ENDS // 3]:
            yield _Reading(((lines[first][0], lines[last][1]),))


def _pieces(answer: str, reading: _Reading) -> Iterator[Piece]:
    at = len(reading.before.encode())
    for start, end in reading.parts:
        size = len(answer[start:end].encode())
        yield Piece(program_byte=at, completion_byte=len(answer[:start].encode()), bytes=size)
        at += size


def _defined(code: str, language: str) -> set[str] | None:
    """Names of a program's functions; None where it is no program."""
    try:
        return {span.name for span in functions(code, language)}
    except SourceError:
        return None


def _unfilled(program: str, asked: Asked) -> bool:
    """Whether no body was written: the program is its own skeleton."""
    try:
        blank = skeleton(program, language=asked.language)
    except SourceError:
        return False
    return blank.split() == program.split()


def _fault(answer: str, asked: Asked, parses: bool) -> str:
    """What an answer is that defines nothing of what was asked for."""
    blocks = _blocks(answer, _after_thoughts(answer))
    tags = {_NAMES[tag.lower()] for _, _, tag in blocks if tag.lower() in _NAMES}
    if tags and asked.language not in tags:
        return "other_language"
    texts = [answer[start:end] for start, end, _ in blocks] or [answer]
    if any(_TEST.search(text) for text in texts) and (parses or blocks):
        return "tests_only"
    return "prose"


def fenced(text: str) -> list[tuple[int, int, str]]:
    """What stands between fences of three or more backticks or tildes: start, end, and what it is called.

    A block left open goes to the end.
    """
    blocks: list[tuple[int, int, str]] = []
    fence, tag, start, at = "", "", 0, 0
    for line in text.splitlines(keepends=True):
        match = _FENCE.fullmatch(line)
        if not fence and match:
            fence, tag, start = match[1], (match[2].split() or [""])[0], at + len(line)
        elif match and match[1].startswith(fence) and fence and not match[2].strip():
            blocks.append((start, at, tag))
            fence = ""
        at += len(line)
    if fence:
        blocks.append((start, len(text), tag))
    return blocks
