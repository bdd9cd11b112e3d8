"""What gives a pair away in the text of its request: which version is newer, what changed, what is judged.

In: a text, the two versions, the commit's message and the criteria. Out: `Leak`s, each a reason code with
the words that it is about. All checks are functions of their arguments alone, and treat both versions alike:
with the versions exchanged the same text has the same leaks. What both versions share, and what the path
says, gives nothing away.
Wrong: nothing; every text can be looked at, in time that is linear in its length and the versions'.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Sequence

from labelers.commits import leak_words
from labelers.commits.criteria import Criterion, load, pattern
from labelers.commits.spoken import is_foreign, prose

REASONS = {
    "empty": "there is no text",
    "too_short": "the text is shorter than its style allows",
    "too_long": "the text is longer than its style allows",
    "placeholder": "something was left to be filled in",
    "refusal": "the model refused",
    "preamble": "the text talks to whoever asked instead of being the request",
    "answer": "the text holds code that answers the request",
    "foreign": "the text is in another natural language than the recipe asks for",
    "names_criterion": "a criterion is named, or a term that tells which one it is",
    "words_of_change": "the text speaks of a change or of two versions",
    "one_sided_name": "a name that only one version has",
    "one_sided_literal": "a number or quoted text that only one version has",
    "one_sided_code": "a piece of code or comment that only one version has",
    "copied": "a long piece of a version's own words",
    "quotes_message": "words in a row that stand in the commit message",
    "tells_message": "a word that the commit's subject has and neither version",
    "pulls": "the text has more words of one version than of the other",
    "no_answer": "the model gave no usable answer",
}
"""Why a text is refused."""

MESSAGE_WORDS = 6
"""Words in a row that count as quoted from a message; of a shorter subject all of it, from three on."""
CODE_TOKENS = 5
COPIED_WORDS = 10
ANSWER_LINES = 10
"""Lines of fenced code that are still a signature or an example."""
MOST_PULL = 0.06
"""Share of a text's distinctive words by which one version may be ahead; one word may be chance in a text of
at least `PLAIN_WORDS`."""
PLAIN_WORDS = 8
_MOST_TEXT = 20_000
_MOST_CODE = 1 << 21
_MOST_MESSAGE = 20_000
_SHOWN = 5

_NAME = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"(?<![\w.])\d[\w.]*\b")
_TOKEN = re.compile(r"[^\W\d]\w*|\d[\w.]*|[^\w\s]")
_SUBWORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_FENCE = re.compile(r"[ \t]{0,8}(```|~~~)")
_INLINE = re.compile(r"`([^`\n]+)`")
_QUOTED = re.compile(r"\"([^\"\n]{3,200})\"|(?<![\w])'([^'\n]{3,200})'(?!\w)|“([^”\n]{3,200})”")
# Words that only code has: a name with a joint, an inner capital or a digit, in capitals, or that is called.
_CODE_LIKE = re.compile(
    r"(?<![\w/])(?:[^\W\d]\w*_\w*|_\w+|[^\W\d_]*[a-z\d][A-Z]\w*|[^\W\d_]+\d\w*|[A-Z]{2,}\b|[^\W\d]\w*(?=\(\)?)|\w+(?=\.\w))"
)
_CODE_LINE = re.compile(
    r"[^\n]*[;{}]\s*$|\s*(?:def|class|import|return|func|fn|public|private|const|let|var|#include)\b"
)
_WORD = re.compile(r"\w+")
_SUFFIX = re.compile(r"(?<=\w\w\w)(?:ations?|ings?|ied|ies|ers?|ors?|ed|es|s|e|y)$")
_SMALL = frozenset(("0", "1", "2"))


@dataclasses.dataclass(frozen=True)
class Leak:
    """Something that gives a pair away.

    Attributes:
        code: one of `REASONS`.
        told: the words that do, for whoever is to write another text; empty where the reason says all.
    """

    code: str
    told: str = ""


def stem(word: str) -> str:
    """A word without its ending, so that `parses`, `parser` and `parsing` are one."""
    short = _SUFFIX.sub("", word.lower())
    return short[:-1] if len(short) > 3 and short[-1] == short[-2] else short


def stems(text: str) -> set[str]:
    """Stems of the words of a text, and of the words that its names are made of."""
    return {stem(word) for word in _SUBWORD.findall(text) if len(word) > 2}


def _run(words: Sequence[str]) -> str:
    """Words in a row as a text in which shorter runs are found whole."""
    return "\0" + "\0".join(words) + "\0"


class _Side:
    """One version, looked up in many ways."""

    def __init__(self, code: str) -> None:
        self.text = code[:_MOST_CODE]
        tokens = _TOKEN.findall(self.text)
        self.tokens = _run(tokens)
        self.names = {token for token in tokens if token[0].isalpha() or token[0] == "_"}
        self.lowered = {name.lower() for name in self.names}
        self.numbers = {token for token in tokens if token[0].isdigit()}
        self.stems = {stem(word) for name in self.names for word in _SUBWORD.findall(name) if len(word) > 2}
        self.words = _run(_WORD.findall(self.text.lower()))


@dataclasses.dataclass(frozen=True)
class Pull:
    """How many of a text's distinctive words only one version has.

    Attributes:
        words: distinctive words in all.
        old, new: those that only the old, or only the new version has.
    """

    words: int
    old: int
    new: int

    @property
    def lean(self) -> float:
        """-1 to 1: share of the words by which the new version is ahead; 0 for a text without any."""
        return (self.new - self.old) / self.words if self.words else 0.0

    @property
    def balanced(self) -> bool:
        """Whether the versions have about as many of the words each."""
        allowed = max(MOST_PULL * self.words, float(self.words >= PLAIN_WORDS))
        return abs(self.new - self.old) <= allowed


class Sides:
    """Two versions and all that a text about them must not tell. Versions are read once."""

    def __init__(
        self,
        old: str,
        new: str,
        *,
        message: str = "",
        subject: str = "",
        places: Iterable[str] = (),
        criteria: Sequence[Criterion] = (),
    ) -> None:
        """Read both versions.

        Args:
            places: path, project and language: what they say is known to whoever asks.
            criteria: those of the run; the built-in ones are looked for too.
        """
        self.old, self.new = _Side(old), _Side(new)
        where = " ".join(places)
        self.place_words = {word.lower() for word in _NAME.findall(where)} | {
            word.lower() for word in _SUBWORD.findall(where)
        }
        self.place_stems = stems(where)
        self.place_run = _run(_WORD.findall(where.lower()))
        self.message = [word.lower() for word in _WORD.findall(message[:_MOST_MESSAGE])]
        self.subject = [word.lower() for word in _WORD.findall(subject[:_MOST_MESSAGE])]
        known = self.old.stems | self.new.stems | self.place_stems | _stop_stems()
        self.distinctive = {stem(word) for word in self.subject if len(word) > 3 and word.isalpha()} - known
        codes = {criterion.code for criterion in criteria}
        self.criteria = (*criteria, *(one for one in load() if one.code not in codes))

    def shared(self, word: str) -> bool:
        """Whether both versions have a word, or a path says it."""
        lowered = word.lower()
        if lowered in self.place_words or (lowered in self.old.lowered and lowered in self.new.lowered):
            return True
        known = self.place_stems | (self.old.stems & self.new.stems)
        return stem(word) in known

    def pull(self, text: str) -> Pull:
        """How many of a text's distinctive words only one version has."""
        found = self._distinctive(text)
        return Pull(
            len(found),
            len(found & self.old.stems - self.new.stems),
            len(found & self.new.stems - self.old.stems),
        )

    def _distinctive(self, text: str) -> set[str]:
        return stems(prose(text)) - _stop_stems() - self.place_stems

    def leaks(self, text: str, bounds: tuple[int, int] = (1, 1000), spoken: str = "") -> list[Leak]:
        """What is wrong with a text, in a fixed order; nothing when it may be used.

        Args:
            bounds: least and most words.
            spoken: natural language that it must be in, ISO 639-1; empty takes any.
        """
        if not text.strip():
            return [Leak("empty")]
        found = list(_form(text, bounds, spoken, self))
        if len(text) > _MOST_TEXT:
            return found
        checks = (
            ("names_criterion", self._criterion_terms(text)),
            ("words_of_change", self._change_words(text)),
            ("one_sided_name", self._names(text)),
            ("one_sided_literal", self._literals(text)),
            ("one_sided_code", self._code(text)),
            ("copied", self._copied(text)),
            ("quotes_message", self._quoted(text)),
            ("tells_message", self._told(text)),
        )
        for code, words in checks:
            if told := list(dict.fromkeys(words)):
                found.append(Leak(code, ", ".join(told[:_SHOWN])))
        if not self.pull(text).balanced:
            one_sided = self._distinctive(text) & (self.old.stems ^ self.new.stems)
            leaning = [word for word in _SUBWORD.findall(prose(text)) if stem(word) in one_sided]
            found.append(Leak("pulls", ", ".join(list(dict.fromkeys(leaning))[:_SHOWN])))
        return found

    def _criterion_terms(self, text: str) -> Iterator[str]:
        for criterion in self.criteria:
            for match in _criterion_pattern(criterion).finditer(text):
                yield from self._unless_shared(match.group())
            code = criterion.code
            if len(code) > 1 and code not in self.old.names & self.new.names and re.search(
                rf"(?<!\w){re.escape(code)}(?!\w)", text
            ):  # fmt: skip
                yield code

    def _unless_shared(self, told: str) -> Iterator[str]:
        words = _WORD.findall(told)
        plain = told.lower() in leak_words.EVERYDAY_PHRASES or (
            len(words) == 1 and words[0].lower() in leak_words.EVERYDAY_TERMS
        )
        if not plain and not (words and all(self.shared(word) for word in words)):
            yield told

    def _change_words(self, text: str) -> Iterator[str]:
        for match in leak_words.CHANGE.finditer(text):
            words = _WORD.findall(match.group())
            if len(words) > 1 or not self.shared(words[0]):
                yield match.group()
        for match in leak_words.A_AND_B.finditer(text):
            if (match.group(1) or "").lower() not in leak_words.THINGS:
                yield match.group()

    def _names(self, text: str) -> Iterator[str]:
        for piece in _coded(text):
            for name in _NAME.findall(piece):
                if (name in self.old.names) != (
                    name in self.new.names
                ) and name.lower() not in self.place_words:
                    yield name
        for match in _CODE_LIKE.finditer(_uncoded(text)):
            name = match.group().lower()
            if (name in self.old.lowered) != (name in self.new.lowered) and name not in self.place_words:
                yield match.group()

    def _literals(self, text: str) -> Iterator[str]:
        for number in _NUMBER.findall(text):
            number = number.rstrip(".")
            if number not in _SMALL and (number in self.old.numbers) != (number in self.new.numbers):
                yield number
        for match in _QUOTED.finditer(text):
            told = next(group for group in match.groups() if group)
            if (told in self.old.text) != (told in self.new.text):
                yield told

    def _code(self, text: str) -> Iterator[str]:
        tokens = _TOKEN.findall(text)
        for at in range(len(tokens) - CODE_TOKENS + 1):
            run = tokens[at : at + CODE_TOKENS]
            wanted = _run(run)
            if (wanted in self.old.tokens) != (wanted in self.new.tokens):
                yield " ".join(run)

    def _copied(self, text: str) -> Iterator[str]:
        words = [word.lower() for word in _WORD.findall(_uncoded(text))]
        for at in range(len(words) - COPIED_WORDS + 1):
            wanted = _run(words[at : at + COPIED_WORDS])
            if wanted in self.old.words or wanted in self.new.words:
                yield " ".join(words[at : at + COPIED_WORDS])
                return

    def _quoted(self, text: str) -> Iterator[str]:
        said = _run(_WORD.findall(text.lower()))
        runs = [self.message[at : at + MESSAGE_WORDS] for at in range(len(self.message) - MESSAGE_WORDS + 1)]
        if 3 <= len(self.subject) < MESSAGE_WORDS:
            runs.append(self.subject)
        for run in runs:
            wanted = _run(run)
            # What stands in both versions or in the path was not learnt from the message.
            known = wanted in self.place_run or (wanted in self.old.words and wanted in self.new.words)
            if wanted in said and not known:
                yield " ".join(run)

    def _told(self, text: str) -> Iterator[str]:
        if self.distinctive:
            for word in _SUBWORD.findall(text):
                if stem(word) in self.distinctive:
                    yield word


def _form(text: str, bounds: tuple[int, int], spoken: str, sides: Sides) -> Iterator[Leak]:
    """What is wrong with a text's form, whatever it says."""
    words = len(text.split())
    if words < bounds[0]:
        yield Leak("too_short", f"{words} words, at least {bounds[0]}")
    if words > bounds[1] or len(text) > _MOST_TEXT:
        yield Leak("too_long", f"{words} words, at most {bounds[1]}")
    text = text[:_MOST_TEXT]
    for code, words_of in (("refusal", leak_words.REFUSAL), ("preamble", leak_words.PREAMBLE)):
        if words_of.match(text):
            yield Leak(code)
    holes = [match.group() for match in leak_words.PLACEHOLDER.finditer(text)]
    # Templates of some languages look like holes; what both versions have is none.
    holes = [hole for hole in holes if not (hole in sides.old.text and hole in sides.new.text)]
    if holes:
        yield Leak("placeholder", ", ".join(holes[:_SHOWN]))
    outside, blocks = _fenced(text)
    fenced = sum(block.count("\n") + 1 for block in blocks)
    plain = sum(bool(_CODE_LINE.match(line)) for line in outside.split("\n"))
    if fenced > ANSWER_LINES or plain > ANSWER_LINES // 2:
        yield Leak("answer")
    if is_foreign(text, spoken):
        yield Leak("foreign", f"write in {spoken}")


def _fenced(text: str) -> tuple[str, list[str]]:
    """A text without its fenced blocks, and what stands in them."""
    outside: list[str] = []
    blocks: list[list[str]] = []
    mark = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if not mark and found:
            mark = found[1]
            blocks.append([])
        elif mark and found and found[1] == mark:
            mark = ""
        else:
            (blocks[-1] if mark else outside).append(line)
    return "\n".join(outside), ["\n".join(block) for block in blocks]


def _coded(text: str) -> Iterator[str]:
    """What a text marks as code."""
    outside, blocks = _fenced(text)
    yield from blocks
    for match in _INLINE.finditer(outside):
        yield match.group(1)


def _uncoded(text: str) -> str:
    return _INLINE.sub(" ", _fenced(text)[0])


@functools.lru_cache(maxsize=128)
def _criterion_pattern(criterion: Criterion) -> re.Pattern[str]:
    found = pattern((criterion.name, *criterion.strong))
    assert found is not None  # noqa: S101 (it has a name at least)
    return found


@functools.cache
def _stop_stems() -> frozenset[str]:
    return frozenset(stem(word) for word in leak_words.STOP | leak_words.EVERYDAY_TERMS)
