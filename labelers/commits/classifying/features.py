"""Features of an edit for the criterion classifier: its message, its facts, its words.

In: a row of `edits`. Out: features by name, each between 0 and 1. The work is bounded: see `lexing` for
the change and `message` for the message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from labelers.commits.classifying.facts import facts_of
from labelers.commits.classifying.lexing import Change, change
from labelers.commits.classifying.message import message_features, stem
from labelers.commits.classifying.rules import rule_features

VERSION = 1
"""Raised whenever the features of an edit may change: a model fits one version of them."""
MOST_TOKENS = 3000
_SUBWORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _parts(token: str) -> list[str]:
    return [stem(part) for part in _SUBWORD.findall(token[:80]) if 2 < len(part) < 24]


def word_features(found: Change) -> dict[str, float]:
    """Words that one side only has: `+ free` in new code, `- free` in old, `+ comment free` in comments."""
    features: dict[str, float] = {}
    olds = Counter(token for old, _ in found.hunks for token in old.tokens[:MOST_TOKENS])
    news = Counter(token for _, new in found.hunks for token in new.tokens[:MOST_TOKENS])
    for sign, net in (("+", news - olds), ("-", olds - news)):
        for token in net:
            if token[0].isalpha() or token[0] == "_":
                features[f"{sign} {token[:40]}"] = 1
                for part in _parts(token):
                    features[f"{sign} {part}"] = 1
            elif token[0] == '"':
                for part in _parts(token[:200]):
                    features[f"{sign} string {part}"] = 1
            elif not token[0].isdigit():
                features[f"{sign} {token[:8]}"] = 1
    for side, sign in ((0, "-"), (1, "+")):
        text = " ".join(text for hunk in found.hunks for text in hunk[side].comments)[:4000]
        for part in _SUBWORD.findall(text):
            if 2 < len(part) < 24:
                features[f"{sign} comment {stem(part)}"] = 1
    return features


def features_of(edit: Mapping[str, Any]) -> dict[str, float]:
    """Every feature of an edit, by name."""
    found = change(edit)
    features = {**message_features(edit), **facts_of(edit, found), **word_features(found)}
    return {**features, **rule_features(features)}
