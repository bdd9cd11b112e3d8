"""What measures say about criteria: one table.

In: measures of both versions and notes. Out: for each criterion `agrees`, `disagrees` or `silent`, with the
measures that say so; and why no pair may be made of a change at all. A rule holds when each of its conditions
does. Of a criterion that measures speak both for and against nothing is said. `disagrees` vetoes a label by
default, so its rules are those that are nearly always right (`docs/evidence.md` says how often). A user's own
criterion is silent unless it has the code of one in the table. Nothing goes wrong: what was not measured
holds no rule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from schemas.records import Bearing, Measure

SAME_PROGRAM = "same_program"
"""Note and measure: both versions are the same program, so that only how it reads can be better."""
DOCUMENTED = "comments_changed"
BROKEN = "no_longer_parses"
EQUAL, DIFFERS = "behaviour:equal", "behaviour:differs"
MENDED = "behaviour:mended"
FASTER, SLOWER = "run_time:faster", "run_time:slower"
LESS_MEMORY, MORE_MEMORY = "memory:less", "memory:more"

Direction = Literal["grew", "fell", "kept"]


@dataclasses.dataclass(frozen=True)
class Change:
    """A condition: a measure moved by at least so much, and by at least that share of its old value.

    Attributes:
        measure: its name; a name that ends in `*` is the sum of all that begin so.
        how: `grew`, `fell`, or `kept`, which holds when it did not get larger.
        least: least difference.
        share: least difference as a share of the old value.
    """

    measure: str
    how: Direction
    least: float = 1
    share: float = 0.0


@dataclasses.dataclass(frozen=True)
class Rule:
    """When measures speak for or against a criterion.

    Attributes:
        criterion: its code.
        verdict: `agrees` or `disagrees`.
        by: the measures that are said to say so.
        changes: conditions on measures, all of which hold.
        notes: notes that must be there.
        without: notes that must not.
    """

    criterion: str
    verdict: Literal["agrees", "disagrees"]
    by: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


RULES = (
    # The same program can read better, and do nothing better.
    *(Rule(code, "disagrees", (SAME_PROGRAM,), notes=(SAME_PROGRAM,)) for code in ("FC", "RE", "ME", "SH")),
    Rule("RM", "agrees", (SAME_PROGRAM,), notes=(SAME_PROGRAM, DOCUMENTED)),
    # Functional correctness
    Rule("FC", "disagrees", ("parse_errors",), notes=(BROKEN,)),
    Rule(
        "FC",
        "disagrees",
        ("undefined_names",),
        (Change("undefined_names", "grew"),),
        without=("imports_all",),
    ),
    Rule("FC", "agrees", ("parse_errors",), (Change("parse_errors", "fell"),)),
    Rule("FC", "agrees", ("undefined_names",), (Change("undefined_names", "fell"),)),
    Rule("FC", "agrees", ("lint_PLE",), (Change("lint_PLE", "fell"),)),
    Rule("FC", "agrees", ("behaviour",), notes=(MENDED,)),
    Rule("FC", "agrees", ("companion_tests",), (Change("companion_tests", "grew"),)),
    # Runtime efficiency
    Rule("RE", "disagrees", ("run_time",), notes=(SLOWER,)),
    Rule("RE", "agrees", ("run_time",), notes=(FASTER,)),
    Rule("RE", "agrees", ("performance",), (Change("performance", "fell"),)),
    Rule("RE", "agrees", ("lint_PERF",), (Change("lint_PERF", "fell"), Change("lint_F", "kept"))),
    # Memory efficiency
    Rule("ME", "disagrees", ("memory",), notes=(MORE_MEMORY,)),
    Rule("ME", "agrees", ("memory",), notes=(LESS_MEMORY,)),
    Rule("ME", "agrees", ("releases",), (Change("releases", "grew"), Change("allocations", "kept"))),
    Rule(
        "ME",
        "agrees",
        ("allocations",),
        (Change("allocations", "fell"), Change("releases", "fell"), Change("size_lines", "fell")),
    ),
    # Security hardness
    Rule(
        "SH",
        "disagrees",
        ("security_sure",),
        (Change("security_sure", "grew"), Change("security_gone", "kept")),
    ),
    Rule("SH", "agrees", ("security",), (Change("security", "fell"), Change("security_new", "kept"))),
    # Readability and maintainability
    Rule(
        "RM",
        "disagrees",
        ("complexity", "size_lines", "lint"),
        (
            Change("complexity", "grew", 5, 0.05),
            Change("size_lines", "grew", 15, 0.05),
            Change("complexity_max", "grew", 2, 0.1),
            Change("lint_*", "grew"),
        ),
        without=(DOCUMENTED,),
    ),
    Rule(
        "RM",
        "disagrees",
        ("complexity", "size_lines"),
        (
            Change("complexity", "grew", 8, 0.05),
            Change("size_lines", "grew", 20, 0.05),
            Change("complexity_max", "grew", 4, 0.2),
        ),
        without=(DOCUMENTED,),
    ),
    Rule(
        "RM",
        "agrees",
        ("duplicate_lines",),
        (Change("duplicate_lines", "fell", 6), Change("size_lines", "fell")),
    ),
    Rule("RM", "agrees", ("lint",), (Change("lint_*", "fell"), Change("size_lines", "kept", 3))),
    Rule("RM", "agrees", ("size_lines",), (Change("size_lines", "fell", 3), Change("complexity", "kept"))),
    Rule("RM", "agrees", ("complexity",), (Change("complexity", "fell", 2), Change("size_lines", "kept"))),
    Rule(
        "RM",
        "agrees",
        ("complexity_max",),
        (Change("complexity_max", "fell", 3, 0.2), Change("complexity", "kept", 3)),
    ),
)


def bearings(
    criteria: Sequence[str], measures: Sequence[Measure], notes: Sequence[str]
) -> tuple[list[Bearing], str | None]:
    """What is said about each criterion (codes, in order), and why no pair may be made; None when it may."""
    values = {one.name: (one.old, one.new) for one in measures if one.old is not None and one.new is not None}
    known = set(notes)
    found: dict[str, dict[str, dict[str, None]]] = {}
    for rule in RULES:
        noted = known.issuperset(rule.notes) and known.isdisjoint(rule.without)
        if noted and all(_holds(one, values) for one in rule.changes):
            said = found.setdefault(rule.criterion, {}).setdefault(rule.verdict, {})
            said.update(dict.fromkeys(rule.by))
    return [_bearing(code, found.get(code, {})) for code in criteria], BROKEN if BROKEN in known else None


def _bearing(code: str, said: Mapping[str, Mapping[str, None]]) -> Bearing:
    against = said.get("disagrees", {})
    # That a program is the same, or none any more, leaves nothing to weigh.
    if len(said) == 2 and not {SAME_PROGRAM, "parse_errors"} & set(against):
        return Bearing(criterion=code, verdict="silent", by=[])
    for verdict in ("disagrees", "agrees"):
        if verdict in said:
            return Bearing(criterion=code, verdict=verdict, by=list(said[verdict]))
    return Bearing(criterion=code, verdict="silent", by=[])


def _holds(change: Change, values: Mapping[str, tuple[float | None, float | None]]) -> bool:
    """Whether a condition holds; what was not measured holds none."""
    stem = change.measure.removesuffix("*")
    names = [name for name in values if name == stem or (stem != change.measure and name.startswith(stem))]
    if not names:
        return False
    old = sum(values[name][0] or 0 for name in names)
    moved = sum(values[name][1] or 0 for name in names) - old
    if change.how == "kept":
        return moved < change.least
    moved = moved if change.how == "grew" else -moved
    return moved >= change.least and moved >= change.share * old
