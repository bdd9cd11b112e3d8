"""A criteria classifier that needs no training: weighted terms of the message and of the changed lines.

For each criterion it adds up evidence in log-odds and turns the sum into a probability; the weights
are constants chosen by hand, the same for every criterion, so a criterion that a user adds in TOML works
at once. It sees the message, the changed lines and whether only comments changed. It is a floor to
measure other labelers against, not a judge: `VERSION` changes whenever its answers may.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from labelers.commits.criteria import Criterion, pattern
from schemas.changes import changed_lines

VERSION = "terms-2"

PRIOR = -2.0
SUBJECT_STRONG, SUBJECT_WEAK = 2.6, 1.0
BODY_STRONG, BODY_WEAK = 0.9, 0.3
LINES = 0.5
AGAINST = -2.5
COMMENTS_ONLY = 3.5
FEATURE = -1.6
TESTS = -3.0
MOST = 3
"""At most this many terms of one kind are counted, so that a long message cannot outvote its subject."""

_COMMENT = re.compile(r"\s*(//|/\*|\*/|\*(\s|$)|<!--)")
_HASH_COMMENT = re.compile(r"\s*(#|\"\"\"|''')")
_HASHED = frozenset(("Python", "Ruby", "Shell", "Perl", "R", "Julia", "PowerShell", "Elixir", "PHP"))
"""Languages in which `#` begins a comment; in C it begins a directive, which is code."""
_FEATURE = re.compile(
    r"^(\[?\w+\]?:\s*)?(add(s|ed)?|implement(s|ed)?|introduce[sd]?|new|support|create[sd]?|feature|feat|initial|first|experiment(al)?)\b",
    re.IGNORECASE,
)
_TESTS = re.compile(
    r"(^|/)(tests?|testing|test_?suite|specs?|examples?|benchmarks?|docs?)(/|$)|(^|[/_])test_|[_.-](test|spec)s?\.\w+$|Tests?\.\w+$"
)
LISTED = re.compile(r"[,;](?=\s)|(?<=\s)[&+](?=\s)|\b(?:and|also|plus)\b", re.IGNORECASE)
ASIDE = re.compile(r"\([^()]*\)|<[^<>]*>|`[^`]*`")
"""Arguments, types and quoted code: a comma in them lists no purposes."""
BULLET = re.compile(r"^[^\S\n]*(?:[-*•]|\d{1,3}[.)])[^\S\n]+\S", re.MULTILINE)
TRAILER = re.compile(r"^[A-Z][\w-]+(-by|-on|-id|-Id)?: .*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Scored:
    """Probabilities of each criterion, in the criteria's order, and of a single purpose."""

    scores: dict[str, float]
    terms: dict[str, list[str]]
    single_intent: float


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def hits(terms: Sequence[str], text: str) -> list[str]:
    """The terms that a text has, in its own words; of inflections of one word the shortest."""
    found = pattern(terms)
    if found is None:
        return []
    words = dict.fromkeys(match.group().lower() for match in found.finditer(text))
    stems: list[str] = []
    for word in sorted(words):
        # What a word begins with sorts just before it: "caches" says no more than "cache" beside it.
        if not (stems and word.startswith(stems[-1])):
            stems.append(word)
    kept = set(stems)
    return [word for word in words if word in kept]


def _single_intent(subject: str, body: str, hunks: int, ranked: Sequence[float]) -> float:
    """One purpose is doubted when the message lists several things or two criteria are about as likely."""
    doubt = 2.2
    doubt -= 1.2 * min(2, len(LISTED.findall(ASIDE.sub("", subject))))
    doubt -= 0.5 * min(4, max(0, len(BULLET.findall(body)) - 1))
    doubt -= 0.25 * max(0.0, math.log2(max(1, hunks)) - 2)
    if len(ranked) > 1 and ranked[1] > 0.5:
        doubt -= 2.0 * ranked[1]
    return _sigmoid(doubt)


def classify(edit: Mapping[str, Any], criteria: Sequence[Criterion]) -> Scored:
    """Score an edit (a row of `edits`) under each criterion.

    The score of a criterion is `sigmoid(PRIOR + sum of weights of its evidence)`.
    """
    subject = edit["subject"]
    body = TRAILER.sub("", edit["message"][len(subject) :])
    removed, added = changed_lines(edit)
    told = [line for line in (*removed, *added) if line.strip()]
    hashed = edit["language"] in _HASHED
    comments_only = bool(told) and all(
        _COMMENT.match(line) or (hashed and _HASH_COMMENT.match(line)) for line in told
    )
    feature = bool(_FEATURE.match(subject)) and edit["lines_added"] > 2 * edit["lines_removed"]
    # Tests, examples and docs are about the code, so their edits do not improve it under a criterion.
    beside = bool(_TESTS.search(edit["path"]))
    old_text, new_text = "\n".join(removed[:400]), "\n".join(added[:400])
    scores, terms = {}, {}
    for criterion in criteria:
        evidence = PRIOR
        spoke: list[str] = []
        for names, text, weight in (
            (criterion.strong, subject, SUBJECT_STRONG),
            (criterion.weak, subject, SUBJECT_WEAK),
            (criterion.strong, body, BODY_STRONG),
            (criterion.weak, body, BODY_WEAK),
            (criterion.added, new_text, LINES),
            (criterion.removed, old_text, LINES),
            (criterion.against, subject, AGAINST),
        ):
            found = hits(names, text)
            evidence += weight * min(MOST, len(found))
            if weight > 0:
                spoke += found
        if comments_only and "comments" not in criterion.about:
            evidence += COMMENTS_ONLY if criterion.code == "RM" else -COMMENTS_ONLY
        if feature and not (beside and "tests" in criterion.about):
            evidence += FEATURE
        if beside and "tests" not in criterion.about:
            evidence += TESTS
        scores[criterion.code] = round(_sigmoid(evidence), 4)
        terms[criterion.code] = list(dict.fromkeys(spoke))
    ranked = sorted(scores.values(), reverse=True)
    single = round(_single_intent(subject, body, len(edit["hunks"]), ranked), 4)
    return Scored(scores, terms, single)
