"""The natural language that a request is written in, as far as it can be told.

In: a text. Out: its ISO 639-1 code, or None where nothing speaks for any language. Only words of prose count:
short technical English is taken for all kinds of languages by the model, so a text with plainly English words
is English, and another language is named only when the model is sure of a text of some length. Letters of
another script speak for themselves.
Wrong: nothing. The model is part of py3langid's wheel and is loaded when a text needs it.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable

LEAST_WORDS = 8
"""Words of prose below which a text in Latin letters is not called foreign."""
SURE = 0.9
"""Probability, by the model, from which its language is believed."""
_ENGLISH_SHARE = 0.12
_MOST = 4000


def word_set(text: str) -> frozenset[str]:
    """The words of a text that stand between blanks."""
    return frozenset(text.split())


_ENGLISH = word_set(
    """
    the and or for to of with without when where which that this these from into by be are is it its not then
    than if up you they can should would must does has have how what why given write return function using use
    each all between your
    """
)
_LATIN = word_set(
    "en pt gl es ca it fr ro de nl sv no da nb nn pl cs sk sl hr bs hu fi et lv lt tr vi id ms az"
)
_SCRIPTS = {
    "CYRILLIC": "ru",
    "GREEK": "el",
    "ARABIC": "ar",
    "HEBREW": "he",
    "DEVANAGARI": "hi",
    "THAI": "th",
    "HANGUL": "ko",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "CJK": "zh",
}
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`|https?://\S+", re.DOTALL)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def prose(text: str) -> str:
    """A text's first 4,000 characters without code and links."""
    return _CODE.sub(" ", text[:_MOST])


def plain_words(text: str) -> list[str]:
    """Words of the prose that are neither names of code nor abbreviations."""
    found = []
    for token in prose(text).split():
        word = token.strip(".,;:!?\"'()[]{}<>*«»“”‘’…—–-#。、，！？「」（）")
        if _WORD.fullmatch(word) and (word[1:].islower() or len(word) == 1 or not word.isascii()):
            found.append(word)
    return found


def spoken(text: str) -> str | None:
    """ISO 639-1 code of a text's language; None where it cannot be told.

    A script that several languages share gives the one with most writers (`ru` for all in Cyrillic).
    """
    shares = _shares(text)
    code = max(shares, key=lambda one: (shares[one], one), default=None)
    return code if code is not None and shares[code] >= SURE else None


def is_foreign(text: str, wanted: str) -> bool:
    """Whether a text is surely written in another language than the wanted one; any will do when empty."""
    if not wanted:
        return False
    shares = _shares(text)
    # Ukrainian is told as `ru`: what shares the script is not known to be another language.
    if "ru" in shares and wanted not in _LATIN | (set(_SCRIPTS.values()) - {"ru"}):
        return False
    return sum(share for code, share in shares.items() if code != wanted) >= SURE


def _shares(text: str) -> dict[str, float]:
    """Code of a language -> probability; nothing where the text tells too little."""
    if (other := _other_script(text)) is not None:
        return {other: 1.0}
    words = [word.lower() for word in plain_words(text)]
    if sum(word in _ENGLISH for word in words) > _ENGLISH_SHARE * len(words):
        return {"en": 1.0}
    if len(words) < LEAST_WORDS:
        return {}
    likely = {code: float(share) for code, share in _model()(" ".join(words)) if code in _LATIN}
    # The others that the model knows are rarely those of a request, but take shares of their neighbours.
    total = sum(likely.values())
    return {code: share / total for code, share in likely.items()} if total else {}


def _other_script(text: str) -> str | None:
    if text.isascii():
        return None
    counts: Counter[str] = Counter()
    for char in prose(text):
        if char.isalpha():
            name = "LATIN" if char.isascii() else unicodedata.name(char, "").partition(" ")[0]
            counts[name if name in _SCRIPTS else "LATIN"] += 1
    # A character of Chinese says about as much as two and a half letters.
    weights = Counter({_SCRIPTS[name]: 0 for name in counts if name != "LATIN"})
    for name, count in counts.items():
        if name != "LATIN":
            weights[_SCRIPTS[name]] += round(count * (2.5 if _SCRIPTS[name] in ("zh", "ja", "ko") else 1))
    if not weights or weights.total() <= counts["LATIN"]:
        return None
    # Japanese mixes its own letters with Chinese ones; Chinese has none of the former.
    return (
        "ja" if weights["ja"] * 10 >= weights.total() else max(sorted(weights), key=lambda one: weights[one])
    )


@functools.cache
def _model() -> Callable[[str], list[tuple[str, float]]]:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    rank: Callable[[str], list[tuple[str, float]]]
    rank = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True).rank
    return rank
