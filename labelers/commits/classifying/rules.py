"""Rules of thumb about what an edit improves, each wrong at times.

In: features of an edit. Out: votes for and against criteria. A rule says something about one criterion
where it holds. `training.weak` finds out how far each can be trusted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from labelers.commits.classifying.message import stem

Features = Mapping[str, float]
CODES = ("FC", "RE", "ME", "SH", "RM")


@dataclasses.dataclass(frozen=True)
class Rule:
    """Votes for (or, when `against`, against) a criterion where `holds`; right about `trust` of the time."""

    name: str
    code: str
    holds: Callable[[Features], bool]
    trust: float
    against: bool = False


def _any(*names: str) -> Callable[[Features], bool]:
    return lambda features: any(name in features for name in names)


def _words(place: str, words: str) -> Callable[[Features], bool]:
    names = tuple({f"{place}: {stem(word)}": None for word in words.split()})
    return lambda features: any(name in features for name in names)


def _both(*parts: Callable[[Features], bool]) -> Callable[[Features], bool]:
    return lambda features: all(part(features) for part in parts)


def _not(part: Callable[[Features], bool]) -> Callable[[Features], bool]:
    return lambda features: not part(features)


_COSMETIC = _words(
    "subject",
    "typo typos spelling grammar whitespace indent indentation warning warnings lint linter style "
    "styling format formatting docstring docstrings docs doc comment comments mypy pylint flake8 pep "
    "eslint rubocop jshint checkstyle javadoc wording nit",
)
_FIX = _words("first", "fix fixes fixed fixup repair correct bugfix hotfix")
_BROKEN = _words(
    "subject",
    "crash segfault regression incorrect wrong broken deadlock race hang npe corruption corrupt bug "
    "misbehaving mishandling fail failure assertion",
)
_TIDY = _words(
    "first",
    "refactor refactoring rename simplify simplified simplifying clean cleanup cleanups tidy "
    "reorganise reorganize restructure extract reformat reindent polish document documented clarify "
    "modernize deduplicate consolidate unify inline",
)
_DROP = _both(
    _words("first", "remove drop delete strip get"),
    _words(
        "subject",
        "unused dead unnecessary redundant duplicate duplicated unneeded superfluous useless leftover "
        "obsolete stale stray",
    ),
)
_FEATURE = _both(
    _words("first", "add implement introduce support allow new create expose provide enable let make"),
    _any("mostly added"),
)
_TESTS = _any("in a test file", "in an example", "in a benchmark")
_RELEASE = _any("only a version changed")
_BUMP = _words("first", "bump release update prepare version upgrade revert back")
_FAST = _words(
    "subject",
    "perf performance optimize optimise optimized optimization optimisation fast faster speed slow "
    "latency throughput quadratic vectorize memoize efficient efficiency",
)
_LEAN = _words("subject", "leak leaks footprint oom heap garbage rss")
_VULNERABLE = _any("names a vulnerability")
_SAFE = _words(
    "subject",
    "security secure vulnerability vulnerable cve xss csrf injection traversal sanitize sanitise "
    "exploit attack spoof hijack redos harden malicious untrusted privilege",
)

RULES: tuple[Rule, ...] = (
    Rule("prefix of a fix", "FC", _any("prefix: fix", "prefix: bugfix", "prefix: bug", "prefix: fixed"), 0.8),
    Rule("begins with fix", "FC", _both(_FIX, _not(_COSMETIC), _not(_TESTS)), 0.85),
    Rule("closes an issue with a guard", "FC", _both(_any("closes an issue"), _any("guard added")), 0.8),
    Rule("words of breakage", "FC", _both(_BROKEN, _not(_COSMETIC)), 0.8),
    Rule(
        "begins with handle or ensure",
        "FC",
        _words("first", "handle ensure don't avoid prevent properly check"),
        0.7,
    ),
    Rule(
        "a small change of a condition",
        "FC",
        _both(_any("condition extended"), _any("only added code", "one line changed")),
        0.6,
    ),
    Rule("strong terms", "FC", _both(_any("FC terms, strong"), _not(_any("FC terms, against"))), 0.75),
    Rule("cosmetic words", "FC", _COSMETIC, 0.9, True),
    Rule("only comments", "FC", _any("only comments changed", "only white space changed"), 0.99, True),
    Rule("only names", "FC", _any("only names changed", "only punctuation or braces changed"), 0.8, True),
    Rule("a feature", "FC", _FEATURE, 0.85, True),
    Rule("tidying", "FC", _TIDY, 0.93, True),
    Rule(
        "no fixing word",
        "FC",
        _not(_any("FC terms, strong", "FC terms, weak", "closes an issue")),
        0.75,
        True,
    ),
    Rule("prefix of performance", "RE", _any("prefix: perf", "prefix: optimize", "prefix: opt"), 0.95),
    Rule("words of speed", "RE", _both(_FAST, _not(_any("names memory use"))), 0.85),
    Rule("strong terms", "RE", _both(_any("RE terms, strong"), _not(_any("RE terms, against"))), 0.8),
    Rule(
        "a cache or a reserve comes",
        "RE",
        _both(_any("cache added", "reserve added", "branch hint added"), _any("RE terms, weak")),
        0.65,
    ),
    Rule("memory use is named", "RE", _any("names memory use"), 0.8, True),
    Rule("only comments", "RE", _any("only comments changed", "only white space changed"), 0.98, True),
    Rule(
        "no word of speed",
        "RE",
        _not(_any("RE terms, strong", "RE terms, weak", "RE terms, strong in the body")),
        0.97,
        True,
    ),
    Rule("words of memory", "ME", _LEAN, 0.85),
    Rule("memory is made better", "ME", _both(_FAST, _any("names memory use")), 0.8),
    Rule("strong terms", "ME", _both(_any("ME terms, strong"), _not(_any("ME terms, against"))), 0.7),
    Rule(
        "a release comes",
        "ME",
        _both(_any("release only added"), _any("ME terms, weak", "ME terms, strong")),
        0.7,
    ),
    Rule("only comments", "ME", _any("only comments changed", "only white space changed"), 0.98, True),
    Rule(
        "no word of memory",
        "ME",
        _not(_any("ME terms, strong", "ME terms, weak", "ME terms, strong in the body")),
        0.98,
        True,
    ),
    Rule("words of security", "SH", _SAFE, 0.85),
    Rule("strong terms", "SH", _both(_any("SH terms, strong"), _not(_any("SH terms, against"))), 0.75),
    Rule("a vulnerability", "SH", _both(_VULNERABLE, _not(_TESTS)), 0.85),
    Rule("an attacker", "SH", _any("names an attacker", "names an attacker, in the body"), 0.7),
    Rule("a protection", "SH", _any("names a protection"), 0.65),
    Rule("a vulnerability in the body", "SH", _any("names a vulnerability, in the body"), 0.7),
    Rule("a vulnerability", "FC", _VULNERABLE, 0.7, True),
    Rule("prefix of security", "SH", _any("prefix: security", "prefix: sec"), 0.9),
    Rule(
        "a safe copy for an unsafe one",
        "SH",
        _any("bounded copy for unbounded", "constant-time compare added"),
        0.75,
    ),
    Rule("only comments", "SH", _any("only comments changed", "only white space changed"), 0.98, True),
    Rule(
        "no word of security",
        "SH",
        _not(_any("SH terms, strong", "SH terms, weak", "SH terms, strong in the body")),
        0.97,
        True,
    ),
    Rule(
        "prefix of tidying",
        "RM",
        _any(
            "prefix: refactor",
            "prefix: style",
            "prefix: docs",
            "prefix: doc",
            "prefix: cleanup",
            "prefix: typo",
            "prefix: lint",
        ),
        0.88,
    ),
    Rule("only comments", "RM", _any("only comments changed"), 0.9),
    Rule(
        "only white space", "RM", _any("only white space changed", "only punctuation or braces changed"), 0.9
    ),
    Rule("only names", "RM", _any("only names changed"), 0.75),
    Rule("tidying", "RM", _TIDY, 0.9),
    Rule("dropping what is unused", "RM", _DROP, 0.9),
    Rule("cosmetic words", "RM", _COSMETIC, 0.85),
    Rule("strong terms", "RM", _both(_any("RM terms, strong"), _not(_any("RM terms, against"))), 0.75),
    Rule(
        "begins with move or split",
        "RM",
        _both(_words("first", "move split sort reorder"), _any("moved lines")),
        0.8,
    ),
    Rule("words of breakage", "RM", _both(_BROKEN, _not(_COSMETIC)), 0.85, True),
    Rule("words of speed", "RM", _FAST, 0.85, True),
    Rule("words of security", "RM", _SAFE, 0.85, True),
    Rule("begins with fix", "RM", _both(_FIX, _not(_COSMETIC)), 0.8, True),
    Rule("a feature", "RM", _FEATURE, 0.85, True),
    *(
        Rule(name, code, holds, trust, True)
        for code in CODES
        for name, holds, trust in (
            ("a test or an example", _TESTS, 0.8),
            ("a release", _RELEASE, 0.95),
            ("begins with bump or revert", _BUMP, 0.75),
            (
                "a new feature by its prefix",
                _any(
                    "prefix: feat",
                    "prefix: feature",
                    "prefix: test",
                    "prefix: chore",
                    "prefix: ci",
                    "prefix: build",
                ),
                0.8,
            ),
            ("licence text", _both(_any("licence text added"), _any("only comments changed")), 0.9),
        )
    ),
)


def votes(features: Features) -> list[int]:
    """The vote of each of `RULES`: 1 for, -1 against, 0 says nothing."""
    return [(-1 if rule.against else 1) if rule.holds(features) else 0 for rule in RULES]


def rule_features(features: Features) -> dict[str, float]:
    """The rules that say something, as features, so that a model can trust each as far as it deserves."""
    return {f"{rule.code} rule: {rule.name}": 1.0 for rule in RULES if rule.holds(features)}
