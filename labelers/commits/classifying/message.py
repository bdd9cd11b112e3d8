"""What a commit message says, as words that a linear model can weigh.

In: a row of `edits` and the criteria. Out: features by name; `subject: crash` is a word of the subject,
`body: crash` one of the rest, `first: fix` the leading verb, `prefix: perf` a conventional prefix.
Trailers, addresses and object ids are no words.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from typing import Any

from labelers.commits import criteria, terms
from labelers.commits.classifying import vocabulary

MOST_WORDS = 160
MOST_BODY = 8000
_SETS = vocabulary.sets()
_SENTENCE = re.compile(r"\n|\. ")
_BLANK = re.compile(r"\n{3,}")
_TRAILER = re.compile(
    r"^[A-Z][\w-]+(?:-by|-on|-id|-Id|-URL|-url|-from): .*$|^[^\S\n]*(?:https?://\S+|git-svn-id:.*)$",
    re.MULTILINE,
)
_NOISE = re.compile(r"https?://\S+|\S{1,64}@\S{1,80}|\b[0-9a-f]{7,40}\b")
_CODE = re.compile(r"`[^`\n]*`|\b\w+(?:\.\w+)+\(?\)?|\b\w+\(\)|\b\w*_\w+\b|\b[a-z]+[A-Z]\w*|\b\w+::\w+")
_WORD = re.compile(r"[A-Za-z][A-Za-z'+-]*[A-Za-z+]|O\(\w+\)|-Werror|C\+\+|\bC#")
_SUBWORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PREFIX = re.compile(r"^\[?([A-Za-z]{2,12})\]?(\([^)]{0,60}\))?!?:\s+|^\[([A-Za-z ]{2,20})\]\s+")
_SCOPE = re.compile(r"^[\w./*{},+ -]{1,40}:\s+")
_KINDS = _SETS["prefixes"]
_ISSUE = re.compile(
    r"(?i)\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?)\b:?\s+(?:issue\s+)?(?:\w+/\w+)?#?(?:gh-)?\d+|fixes https?://"
)
_NUMBER = re.compile(r"(?:#|gh-|bug |ticket |issue |pull |pr )\d+", re.IGNORECASE)
_NOT = re.compile(
    r"\b(?:not?|don'?t|doesn'?t|didn'?t|can'?t|cannot|isn'?t|never|without|shouldn'?t|won'?t)\b",
    re.IGNORECASE,
)
_MEASURE = re.compile(
    r"\b\d+(?:\.\d+)?\s?(?:%|x\b|ms\b|ns\b|µs\b|us\b|times\b|seconds?\b|bytes\b|[KMG]i?B\b|req/s)|ns/op|\bqps\b|allocs?/op|B/op"
)
_PHRASES = vocabulary.patterns("phrases", lambda text: re.compile(text, re.IGNORECASE))
_STOP = _SETS["stop"]
_ENDINGS = (
    *(
        "izations",
        "isations",
        "ization",
        "isation",
        "ations",
        "ation",
        "izing",
        "ising",
        "ized",
        "ised",
        "izes",
    ),
    *(
        "ises",
        "ize",
        "ise",
        "ments",
        "ment",
        "ings",
        "ing",
        "ies",
        "ied",
        "ers",
        "er",
        "ed",
        "es",
        "s",
        "ly",
        "e",
        "y",
    ),
)
CAP = 3
MOST_CLAUSES = 40


@functools.lru_cache(maxsize=1 << 15)
def stem(word: str) -> str:
    """A word without its inflection, in lower case; crude on purpose, and the same for every language."""
    word = word.lower().strip("'-")
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    return word


_ACTIONS = frozenset(form for word in _SETS["actions"] for form in (word, f"{word}d", f"{word}ed"))


def split(edit: Mapping[str, Any]) -> tuple[str, str]:
    """(subject, rest without trailers) of a message."""
    subject = edit["subject"][:400]
    rest = _BLANK.sub("\n\n", edit["message"][len(edit["subject"]) :])
    return subject, _TRAILER.sub("", rest[:MOST_BODY]).strip()


def _words(text: str) -> list[str]:
    plain = _CODE.sub(" ", _NOISE.sub(" ", text))
    return [found for word in _WORD.findall(plain)[:MOST_WORDS] if (found := stem(word)) not in _STOP]


def spelled(text: str) -> dict[str, str]:
    """The first word of a text with each stem, as it stands there."""
    words: dict[str, str] = {}
    for word in _WORD.findall(text)[:MOST_WORDS]:
        words.setdefault(stem(word), word.lower())
    return words


def _actions(clauses: list[str]) -> int:
    """How many clauses begin with a verb of work: what each of them tells of is done by itself."""
    first = (_WORD.search(clause[:200]) for clause in clauses[:MOST_CLAUSES])
    # As it stands, not its stem: `sets` and `tests` in a list are things.
    return sum(found is not None and found.group().lower() in _ACTIONS for found in first)


def message_features(edit: Mapping[str, Any]) -> dict[str, float]:
    """Features of a message, by name."""
    subject, body = split(edit)
    features: dict[str, float] = {}
    rest = subject
    if (found := _PREFIX.match(subject)) and (kind := (found[1] or found[3]).lower()) in _KINDS:
        features[f"prefix: {kind}"] = 1
        rest = subject[found.end() :]
    elif found := _SCOPE.match(subject):
        features["a scope before the subject"] = 1
        rest = subject[found.end() :]
        for word in _words(found.group()):
            features[f"scope: {word}"] = 1
    words = _words(rest)
    if words:
        features[f"first: {words[0]}"] = 1
    for first, second in itertools.pairwise(words):
        features[f"subject: {first} {second}"] = 1
    for word in words:
        features[f"subject: {word}"] = 1
    for code in _CODE.findall(rest)[:10]:
        features["code in the subject"] = 1
        for part in _SUBWORD.findall(code):
            if len(part) > 2:
                features[f"named: {stem(part)}"] = 1
    for word in _words(body):
        features[f"body: {word}"] = 1
    for name, pattern, text in (
        ("closes an issue", _ISSUE, f"{subject}\n{body}"),
        ("names an issue", _NUMBER, subject),
        ("negation in the subject", _NOT, rest),
        ("negation in the body", _NOT, body),
        ("a measurement in the message", _MEASURE, f"{subject}\n{body}"),
    ):
        if pattern.search(text):
            features[name] = 1
    for name, phrase in _PHRASES.items():
        if phrase.search(rest):
            features[name] = 1
        elif phrase.search(body[:2000]):
            features[f"{name}, in the body"] = 1
    clauses = terms.LISTED.split(terms.ASIDE.sub("", rest))
    actions = _actions(clauses)
    features["purposes listed in the subject"] = min(2, len(clauses) - 1) / 2
    if actions and len(clauses) > 1:
        features["an action in a list in the subject"] = 1
    features["several actions in the subject"] = min(3, max(0, actions - 1)) / 3
    features["actions in the body"] = min(4, _actions(_SENTENCE.split(body))) / 4
    features["items in the body"] = min(4, len(terms.BULLET.findall(body))) / 4
    features["length of the subject"] = min(1.0, len(subject) / 80)
    features["length of the body"] = min(1.0, len(body) / 800)
    if len(words) <= 2:
        features["a short subject"] = 1
    for criterion in criteria.load():
        for kind, names, text in (
            ("strong", criterion.strong, subject),
            ("weak", criterion.weak, subject),
            ("strong in the body", criterion.strong, body),
            ("weak in the body", criterion.weak, body),
            ("against", criterion.against, subject),
        ):
            if hits := terms.hits(names, text):
                features[f"{criterion.code} terms, {kind}"] = min(CAP, len(hits)) / CAP
    return features
