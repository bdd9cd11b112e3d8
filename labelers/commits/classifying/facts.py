"""Structural facts of a change: what kind of edit it is, whatever its message says.

In: the `Change` of an edit, and its row. Out: facts by name, each between 0 and 1; a name is written so
that it can be shown to a person as the reason of a label. A fact that does not hold is left out.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from labelers.commits.classifying import vocabulary
from labelers.commits.classifying.lexing import Change, Side

_SETS = vocabulary.sets()
_KEYWORDS = _SETS["keywords"]
_OPERATORS = _SETS["operators"]
_COMPARISONS = _SETS["comparisons"]
_LOGIC = _SETS["logic"]
_EXITS = _SETS["exits"]
_NULLS = _SETS["nulls"]
_TYPES = _SETS["types"]
_DEFINES = _SETS["defines"]
MOST_LINE = 240
MOST_COMMENT = 8000
_STYLE = frozenset(";,(){}")
_WORDS = vocabulary.patterns("words", re.compile, r"(?:{})\Z")
_PATHS = vocabulary.patterns("paths", re.compile)

_HINT = re.compile(r"(?:[:]\s*[A-Z\[]?\w+[\w\[\], .|]*\s*(?=[,)=]|$))|->\s*[\w\[\], .|\"']+:")
_GUARD = re.compile(r"\b(?:if|unless|when|guard|elif|assert)\b")
_VERSION = re.compile(r"(?i)version\w*[^\n]{0,20}\d+\.\d|\d+\.\d+\.\d+|\b(?:MAJOR|MINOR|PATCH)\b")
_LICENCE = re.compile(r"(?i)copyright|licen[cs]e|spdx|all rights reserved")
_IMPORT = re.compile(
    r"\s*(?:import\b|from\s+\S+\s+import\b|#\s*include\b|using\s+[\w.:]+;|use\s+[\w:\\{]|require(?:_relative)?\b|"
    r"(?:const|var|let)\s+[\w{}, ]+\s*=\s*require\(|extern crate|package\b|@import|\"[\w./-]+\"$)"
)
_CODE_LIKE = re.compile(
    r"[;{}]\s*(?:\*/)?\s*$|\w\(.*\)\s*;?\s*$|^\W*(?:if|for|return|print|def|var)\b.*[:(;]", re.MULTILINE
)
_DOC_TAG = re.compile(
    r"[@\\](?:param|returns?|throws?|since|deprecated|brief|see|link|code|author|type|static|memberOf|"
    r"category|example|inheritDoc|version)|:(?:param|return|rtype|type|class|meth|func|ref|attr)\b|"
    r"<(?:summary|p|code|see|param|returns)\b|\.\. (?:version|code|note|warning|deprecated)|```|^\s*>>>",
    re.MULTILINE,
)
_WORD_IN_COMMENT = re.compile(r"[A-Za-z]{2,}")


@functools.lru_cache(maxsize=1 << 15)
def _senses(word: str) -> tuple[str, ...]:
    """Names of the sets of words that a name, or a part of it, belongs to."""
    parts = {word, *word.split("_")}
    return tuple(name for name, found in _WORDS.items() if any(found.match(part) for part in parts))


def _net(old: Iterable[str], new: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    before, after = Counter(old), Counter(new)
    return before - after, after - before


def _kind(token: str) -> str:
    if token[0] == '"':
        return "string"
    if token[0].isdigit():
        return "number"
    if token[0].isalpha() or token[0] in "_$":
        return "keyword" if token in _KEYWORDS else "name"
    return "operator" if token in _OPERATORS else "mark"


def _substitution(old: list[str], new: list[str]) -> set[str] | None:
    """Kinds of the tokens that differ at equal places; None unless both have as many tokens."""
    if len(old) != len(new):
        return None
    return {f"{_kind(a)}>{_kind(b)}" for a, b in zip(old, new, strict=True) if a != b}


def _renames(old: list[str], new: list[str]) -> bool:
    """Whether the sides differ by names only, each always by the same other name."""
    if len(old) != len(new) or old == new:
        return False
    to: dict[str, str] = {}
    for a, b in zip(old, new, strict=True):
        if a != b and (_kind(a) != "name" or _kind(b) != "name" or to.setdefault(a, b) != b):
            return False
    return all(a == b or a in to for a, b in zip(old, new, strict=True))


def _share(part: float, whole: float) -> float:
    return round(min(1.0, part / whole), 3) if whole else 0.0


def _size(count: int) -> float:
    return round(min(1.0, math.log2(1 + count) / 10), 3)


def _significant(line: str) -> str:
    line = "".join(line.split())
    return line if len(line) > 5 else ""


def _texture(hunks: list[tuple[Side, Side]]) -> dict[str, float]:
    """Facts of the whole change that compare the two sides as texts and as tokens."""
    facts: dict[str, float] = {}
    olds = [token for old, _ in hunks for token in old.tokens]
    news = [token for _, new in hunks for token in new.tokens]
    old_comments = ["".join(text.split()) for old, _ in hunks for text in old.comments]
    new_comments = ["".join(text.split()) for _, new in hunks for text in new.comments]
    comments = old_comments != new_comments
    if olds == news:
        if comments:
            facts["only comments changed"] = 1
            if not old_comments:
                facts["only comments added"] = 1
            elif not new_comments:
                facts["only comments removed"] = 1
        else:
            facts["only white space changed"] = 1
    elif not comments:
        facts["no comments changed"] = 1
    else:
        facts["code and comments changed"] = 1
        if not old_comments:
            facts["comment added with code"] = 1
    if olds != news:
        facts.update(_code_texture(olds, news))
    removed = Counter(filter(None, (_significant(line) for old, _ in hunks for line in old.lines)))
    added = Counter(filter(None, (_significant(line) for _, new in hunks for line in new.lines)))
    same = sum((removed & added).values())
    if same:
        facts["moved lines"] = _share(same, min(sum(removed.values()), sum(added.values())))
        facts["lines in both sides"] = _share(same, max(sum(removed.values()), sum(added.values())))
        if removed == added:
            facts["lines only reordered or reindented"] = 1
    if (doubled := sum(count - 1 for count in removed.values())) > 2 and sum(added.values()) < sum(
        removed.values()
    ):
        facts["repeated lines replaced by fewer"] = _size(doubled)
    return facts


def _code_texture(olds: list[str], news: list[str]) -> dict[str, float]:
    facts: dict[str, float] = {}
    if not olds:
        facts["only added code"] = 1
    if not news:
        facts["only removed code"] = 1
    plain = [[t for t in side if t not in _STYLE] for side in (olds, news)]
    if plain[0] == plain[1]:
        facts["only punctuation or braces changed"] = 1
    quiet = [[t for t in side if t[0] != '"'] for side in plain]
    if quiet[0] == quiet[1]:
        facts["only strings changed"] = 1
    if sorted(olds) == sorted(news):
        facts["same tokens in another order"] = 1
    if _renames(olds, news):
        facts["only names changed"] = 1
    kinds = _substitution(olds, news)
    if kinds is not None:
        for kind in kinds:
            facts[f"tokens replaced one by one: {kind}"] = 1
        if kinds == {"number>number"}:
            facts["only numbers changed"] = 1
        if kinds <= {"operator>operator"}:
            facts["only operators changed"] = 1
    types = [
        [t for t in side if t not in _TYPES and t not in ("(", ")", "*", "const")] for side in (olds, news)
    ]
    if types[0] == types[1]:
        facts["only types or casts changed"] = 1
    return facts


def _tokens(hunks: list[tuple[Side, Side]]) -> dict[str, float]:
    """Facts of tokens that only one side has."""
    facts: dict[str, float] = {}
    gone, come = _net(
        (token for old, _ in hunks for token in old.tokens),
        (token for _, new in hunks for token in new.tokens),
    )
    for sign, net, other in (("added", come, gone), ("removed", gone, come)):
        words = Counter[str]()
        for token, count in net.items():
            if token[0].isalpha() or token[0] in "_$":
                words[token.lower().lstrip("$")] += count
            elif token[0] == '"':
                facts[f"string {sign}"] = 1
            elif token[0].isdigit():
                facts[f"number {sign}"] = 1
        for name in {name for word in words if len(word) < 60 for name in _senses(word)}:
            facts[f"{name} {sign}"] = 1
        if any(token in net for token in _COMPARISONS):
            facts[f"comparison {sign}"] = 1
        if any(token in net for token in _LOGIC):
            facts[f"logic {sign}"] = 1
        if any(token in net for token in _NULLS):
            facts[f"null {sign}"] = 1
        if any(token in net for token in _EXITS):
            facts[f"exit {sign}"] = 1
        if any(token in net for token in _TYPES):
            facts[f"type {sign}"] = 1
        if any(token in net for token in ("if", "unless", "elif")):
            facts[f"condition {sign}"] = 1
        if any(
            token in net for token in ("try", "catch", "except", "rescue", "recover", "finally", "ensure")
        ):
            facts[f"try or catch {sign}"] = 1
        if any(token in net for token in _DEFINES):
            facts[f"definition {sign}"] = 1
        if "else" in net:
            facts[f"else {sign}"] = 1
        if "@" in net:
            facts[f"decorator {sign}"] = 1
        if "?" in net or "?:" in net or "??" in net or "?." in net:
            facts[f"conditional expression {sign}"] = 1
        if any(token in net for token in ("=>", "lambda", "->", "::")):
            facts[f"arrow {sign}"] = 1
        if any(token in net for token in ("&", "*", "&&")) and not any(t in other for t in ("&", "*", "&&")):
            facts[f"reference {sign}"] = 1
        if any(token in net for token in ("+", "-")) and any(token[0].isdigit() for token in net):
            facts[f"arithmetic {sign}"] = 1
        facts[f"tokens {sign}"] = _size(sum(net.values()))
    return _combined(facts)


def _combined(facts: dict[str, float]) -> dict[str, float]:
    """Facts that two facts make together."""
    has = facts.__contains__
    if has("condition added") and has("exit added"):
        facts["guard added"] = 1
        if has("null added"):
            facts["null check added"] = 1
        if has("length added"):
            facts["length check added"] = 1
    if (has("condition added") or has("logic added")) and has("comparison added") and has("size limit added"):
        facts["bounds check added"] = 1
    if has("unbounded copy removed") and has("bounded copy added"):
        facts["bounded copy for unbounded"] = 1
    if has("logic added") and not has("condition added"):
        facts["condition extended"] = 1
    for name in (
        "condition",
        "try or catch",
        "allocation",
        "copying",
        "lock",
        "loop",
        "release",
        "definition",
    ):
        if has(f"{name} added") and not has(f"{name} removed"):
            facts[f"{name} only added"] = 1
        if has(f"{name} removed") and not has(f"{name} added"):
            facts[f"{name} only removed"] = 1
    return facts


def _per_hunk(hunks: list[tuple[Side, Side]]) -> dict[str, float]:
    counted = Counter[str]()
    for old, new in hunks:
        if old.tokens == new.tokens:
            counted["hunks of comments or white space"] += 1
            continue
        if not old.tokens:
            counted["hunks that only add"] += 1
            if new.code and _GUARD.search(new.code[0][:MOST_LINE]):
                counted["hunks that add a condition in front"] += 1
            if new.tokens[0] in _DEFINES or (len(new.tokens) > 1 and new.tokens[1] in _DEFINES):
                counted["hunks that add a definition"] += 1
        elif not new.tokens:
            counted["hunks that only remove"] += 1
        else:
            if _renames(old.tokens, new.tokens):
                counted["hunks of renamed names"] += 1
            if (
                len(old.tokens) == len(new.tokens)
                and sum(a != b for a, b in zip(old.tokens, new.tokens, strict=True)) == 1
            ):
                counted["hunks with one token replaced"] += 1
            if abs(len(new.tokens) - len(old.tokens)) <= 4 and len(old.tokens) > 4:
                counted["hunks changed by a few tokens"] += 1
            if (
                old.code
                and new.code
                and _GUARD.search(old.code[0][:MOST_LINE])
                and _GUARD.search(new.code[0][:MOST_LINE])
            ):
                counted["hunks with a changed condition"] += 1
            if len(new.tokens) * 3 < len(old.tokens) * 2:
                counted["hunks that shrink"] += 1
            if len(new.tokens) * 2 > len(old.tokens) * 3:
                counted["hunks that grow"] += 1
        if all(_IMPORT.match(line[:MOST_LINE]) for line in (*old.code, *new.code)):
            counted["hunks of imports"] += 1
    return {name: _share(count, len(hunks)) for name, count in counted.items()}


def _lines(hunks: list[tuple[Side, Side]]) -> dict[str, float]:
    facts: dict[str, float] = {}
    # Cut, since a line may be a whole minified program.
    code = [[line[:MOST_LINE] for hunk in hunks for line in hunk[side].code] for side in (0, 1)]
    both = [*code[0], *code[1]]
    if both and all(_IMPORT.match(line) for line in both):
        facts["only imports changed"] = 1
    if both and len(both) <= 8 and all(_VERSION.search(line) for line in both):
        facts["only a version changed"] = 1
    for number, sign in ((0, "removed"), (1, "added")):
        told = "\n".join(text for hunk in hunks for text in hunk[number].comments)[:MOST_COMMENT]
        comments = "\n".join(line[:MOST_LINE] for line in told.split("\n"))
        if not comments:
            continue
        if _LICENCE.search(comments):
            facts[f"licence text {sign}"] = 1
        if _DOC_TAG.search(comments):
            facts[f"documentation {sign}"] = 1
        if _CODE_LIKE.search(comments):
            facts[f"commented-out code {sign}"] = 1
        facts[f"comment words {sign}"] = _size(len(_WORD_IN_COMMENT.findall(comments)))
    if any(_HINT.search(line) for line in code[1]) and not any(_HINT.search(line) for line in code[0]):
        facts["type hints added"] = 1
    for number, sign in ((0, "removed"), (1, "added")):
        if any(len(line) > 100 for line in code[number]):
            facts[f"long line {sign}"] = 1
    return facts


def facts_of(edit: Mapping[str, Any], change: Change) -> dict[str, float]:
    """Every fact that holds for an edit (a row of `edits`), by name, between 0 and 1."""
    hunks = [hunk for hunk in change.hunks if hunk[0].lines or hunk[1].lines]
    facts = {**_texture(hunks), **_tokens(hunks), **_lines(hunks)} if hunks else {}
    if hunks:
        facts.update(_per_hunk(hunks))
    added, removed = edit["lines_added"], edit["lines_removed"]
    facts["lines added"], facts["lines removed"] = _size(added), _size(removed)
    facts["hunks"] = _size(len(edit["hunks"]))
    if added + removed <= 2:
        facts["one line changed"] = 1
    if added > 2 * removed + 5:
        facts["mostly added"] = 1
    if removed > 2 * added + 5:
        facts["mostly removed"] = 1
    if added + removed > 100:
        facts["a large change"] = 1
    if added and not removed:
        facts["only added lines"] = 1
    if removed and not added:
        facts["only removed lines"] = 1
    for name, found in _PATHS.items():
        if found.search(edit["path"]):
            facts[f"in {name}"] = 1
    if not any(
        name in facts
        for name in ("in a test file", "in a documentation file", "in an example", "in a benchmark")
    ):
        facts["in the code itself"] = 1
    facts[f"language {edit['language']}"] = 1
    return facts
