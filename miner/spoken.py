"""The natural language of a commit message.

In: a message. Out: `Spoken`, what it seems to be written in, or None where nothing speaks for any language
(too short, or code alone). A message in another script is told by its letters. One in Latin letters is
English when one word in five is plainly English; else the py3langid model decides, and only when it
is sure of a message of some words, since it takes short technical English for all kinds of languages.
Trailers, links, names, quoted code and everything that is not a plain word are left out first.

The model is loaded when the first message needs it, 0.6 s and 90 MB once a process; then a message takes
some 0.1 ms. It is part of the installed wheel, and nothing is downloaded.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Callable, Collection

from miner.wordlist import words

MIN_WORDS = 4
"""A message of fewer plain words in Latin letters is not judged unless it is plainly English."""

SURE = 0.8
"""Probability, by the model, of all unwanted languages together from which a message counts as not wanted."""

_ENGLISH_SHARE = 0.2
_MAX_CHARS = 4000

_ENGLISH = words(
    """
    the and or for to of with without when while where which that this these those from into by be are were
    been being its it not then than only if up we you they can could should would may might must does doesn't
    don't didn't isn't won't has have had is add adds added adding fix fixes fixed fixing remove removes
    removed removing update updates updated updating use uses used using make makes made making change
    changes changed allow allows support supports supported handle handles improve improved improves move
    moved rename renamed merge testing check checks clean cleanup docs code file files bug issue instead
    more some all new now missing after before because between should typo typos warning warnings build
    release get set return returns returned call calls called method methods function functions value
    values default simplify refactor implemented introduce avoid ensure prevent
    """
)
"""Words that show English: its small words and those of its commit messages, without such as `a`, `no`, `do`,
`in`, `as`, `on`, `test`, `type` and `error`, which other languages in Latin letters have too."""

_LATIN = tuple(
    words(
        """
        en pt gl es ca it fr ro de nl sv no da nn pl cs sk sl hr bs hu fi et lv lt tr vi id ms sq az eu is
        """
    )
)
"""Languages in Latin letters that the model is asked for. Its others are so rarely those of a
commit that the model errs more often than not when it names one."""

_SCRIPTS = {
    "Cyrillic": ("\u0400-\u052f", "ru uk bg sr mk be kk mn"),
    "Greek": ("\u0370-\u03ff\u1f00-\u1fff", "el"),
    "Arabic": ("\u0600-\u06ff\u0750-\u077f", "ar fa ur"),
    "Hebrew": ("\u0590-\u05ff", "he"),
    "Devanagari": ("\u0900-\u097f", "hi mr ne"),
    "Bengali": ("\u0980-\u09ff", "bn"),
    "Tamil": ("\u0b80-\u0bff", "ta"),
    "Telugu": ("\u0c00-\u0c7f", "te"),
    "Thai": ("\u0e00-\u0e7f", "th"),
    "Georgian": ("\u10a0-\u10ff", "ka"),
    "Armenian": ("\u0530-\u058f", "hy"),
    "Han": ("\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff", "zh"),
    "Kana": ("\u3040-\u30ff\u31f0-\u31ff", "ja"),
    "Hangul": ("\u1100-\u11ff\u3130-\u318f\uac00-\ud7af", "ko"),
}
_LETTERS = {script: re.compile(f"[{ranges}]") for script, (ranges, _) in _SCRIPTS.items()}
_DENSE = frozenset({"Han", "Kana", "Hangul"})
_DENSITY = 2.5
"""Letters of another script that a character of a dense one says as much as."""

LANGUAGES = frozenset(_LATIN) | {code for _, codes in _SCRIPTS.values() for code in codes.split()}
"""ISO 639 codes of the languages that can be told."""

_TRAILER = re.compile(
    r"\s*(?:[A-Za-z][A-Za-z-]{2,40}-(?:by|to|on|id|cc|url):|git-svn-id:|refs?:|closes:?|fixes:|cc:"
    r"|\(cherry picked from|this reverts commit|updated-dependencies:)",
    re.IGNORECASE,
)
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"`[^`\n]*`")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_AROUND = ".,;:!?\"'()[]{}<>*«»“”‘’…—–-~#`。、，：；！？「」（）"


@dataclasses.dataclass(frozen=True)
class Spoken:
    """What a message seems to be written in.

    Attributes:
        likely: ISO 639 code -> probability, 0 to 1; together at most 1.
        name: the likeliest one's code, or the script when several languages share it.
    """

    likely: dict[str, float]
    name: str


def plain_words(message: str) -> list[str]:
    """The words of a message's first 4,000 characters, without all that is no prose."""
    text = _QUOTED.sub(" ", _FENCED.sub(" ", message[:_MAX_CHARS]))
    found = []
    for line in text.split("\n"):
        if _TRAILER.match(line):
            continue
        for token in line.split():
            if "/" in token or "@" in token:
                continue
            word = token.strip(_AROUND)
            # Names in CamelCase or capitals are those of code, whatever the language around them.
            if _WORD.fullmatch(word) and (word[1:].islower() or len(word) == 1 or not word.isascii()):
                found.append(word)
    return found


def _script(message: str) -> str | None:
    """The script other than Latin that most of a message's prose is in, or None."""
    if message.isascii():
        return None
    text = _QUOTED.sub(" ", _FENCED.sub(" ", message[:_MAX_CHARS]))
    lines = [line for line in text.split("\n") if not _TRAILER.match(line)]
    tokens = (token for line in lines for token in line.split() if "@" not in token and "://" not in token)
    latin, counts = 0.0, Counter[str]()
    for token in tokens:
        if token.isascii():
            latin += sum(map(str.isalpha, token))
            continue
        letters = sum(map(str.isalpha, token))
        for script, pattern in _LETTERS.items():
            if number := len(pattern.findall(token)):
                counts[script] += number
                letters -= number
        latin += max(letters, 0)
    weights = {script: number * (_DENSITY if script in _DENSE else 1) for script, number in counts.items()}
    if not weights or sum(weights.values()) < latin:
        return None
    # Japanese mixes its own letters with Chinese ones; Chinese has none of the former.
    if counts["Kana"] * 10 >= counts["Han"] and counts["Kana"]:
        weights["Kana"] += weights.pop("Han", 0)
    return max(sorted(weights), key=lambda script: weights[script])


@functools.cache
def _model() -> Callable[[str], list[tuple[str, float]]]:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    rank: Callable[[str], list[tuple[str, float]]]
    rank = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True).rank
    return rank


def spoken(message: str) -> Spoken | None:
    """What a message seems to be written in, or None when that cannot be told."""
    if (script := _script(message)) is not None:
        codes = _SCRIPTS[script][1].split()
        return Spoken(dict.fromkeys(codes, 1 / len(codes)), codes[0] if len(codes) == 1 else script)
    found = plain_words(message)
    english = sum(word.lower() in _ENGLISH for word in found)
    if english and english >= _ENGLISH_SHARE * len(found):
        return Spoken({"en": 1.0}, "en")
    if len(found) < MIN_WORDS:
        return None
    probabilities = dict(_model()(" ".join(found).lower()))
    likely = {code: float(probabilities.get(code, 0)) for code in _LATIN}
    return Spoken(likely, max(likely, key=lambda code: likely[code]))


def unwanted_language(message: str, wanted: Collection[str]) -> str | None:
    """What a message seems to be written in when that is surely none of the wanted languages, else None.

    Args:
        wanted: ISO 639 codes; empty for any language.
    """
    if not wanted:
        return None
    found = spoken(message)
    if found is None:
        return None
    shared_script = any(found.likely.get(code, 0) for code in wanted) and found.name in _SCRIPTS
    others = sum(share for code, share in found.likely.items() if code not in wanted)
    return found.name if others >= SURE and not shared_script else None
