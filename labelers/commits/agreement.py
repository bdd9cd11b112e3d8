"""How far judges agree, and what else moves them than the code: pure functions over rows of `votes`.

In: rows of `votes`, and the lengths of the two versions that each is about. Out: `agreement`, plain values
for a report; the measures it is made of can be used by themselves. Wrong: nothing; a number that the votes do
not determine is None.

An *item* is a proposal under one criterion. A judge's *word* on an item is what most of its usable votes say:
`new`, `old` or `tie`; `tie` too where two or more choices are said most often.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labelers.rates import Rate

WORDS = ("new", "old", "tie")
_FORMER, _LATTER = "old_first", "new_first"

Counts = Mapping[str, int]


def fleiss_kappa(items: Iterable[Sequence[int]]) -> float | None:
    """Agreement of several raters beyond chance: (P - Pe) / (1 - Pe).

    P is the mean over items of sum_j n_ij (n_ij - 1) / (n_i (n_i - 1)), the share of pairs of votes on item i
    that agree; Pe is sum_j p_j^2 with p_j the share of category j among all votes (Fleiss, 1971,
    Psychological Bulletin 76). Fleiss has the same n votes on each item; where numbers differ, the item's own
    n_i stands in its place, and items with fewer than two votes are left out.

    Args:
        items: for each item, the number of votes for each category.

    Returns:
        1 for full agreement, 0 for as much as by chance; None without an item of two votes, or where all
        votes are for one category, so that chance alone explains all.
    """
    kept = [item for item in items if sum(item) > 1]
    if not kept:
        return None
    agreeing = [sum(n * (n - 1) for n in item) / (sum(item) * (sum(item) - 1)) for item in kept]
    observed = math.fsum(agreeing) / len(kept)
    totals = [sum(column) for column in zip(*kept, strict=True)]
    chance = sum((total / sum(totals)) ** 2 for total in totals)
    return None if max(totals) == sum(totals) else (observed - chance) / (1 - chance)


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Agreement of two raters beyond chance: (P - Pe) / (1 - Pe), with Pe from each rater's own shares of
    the categories (Cohen, 1960, Educational and Psychological Measurement 20).

    Args:
        pairs: the two words on each item.

    Returns:
        None without items, or where both say one and the same category throughout.
    """
    if not pairs:
        return None
    first, second = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    observed = sum(one == other for one, other in pairs) / len(pairs)
    # Whole numbers, so that no rounding hides that chance explains all.
    by_chance = sum(first[word] * second[word] for word in first)
    if by_chance == len(pairs) ** 2:
        return None
    chance = by_chance / len(pairs) ** 2
    return (observed - chance) / (1 - chance)


def correlation(points: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's correlation; None for fewer than two points, or where one side does not vary."""
    if len(points) < 2:
        return None
    means = [math.fsum(side) / len(points) for side in zip(*points, strict=True)]
    apart = [(x - means[0], y - means[1]) for x, y in points]
    spread = math.sqrt(math.fsum(x * x for x, _ in apart) * math.fsum(y * y for _, y in apart))
    # Rounding errors of the means must not pass for variation.
    if len({x for x, _ in points}) == 1 or len({y for _, y in points}) == 1 or spread == 0:
        return None
    return min(max(math.fsum(x * y for x, y in apart) / spread, -1.0), 1.0)


def word(counts: Iterable[Counts]) -> str | None:
    """A judge's word from its counts of votes; None without a usable vote."""
    totals = dict.fromkeys(WORDS, 0)
    for one in counts:
        for name in WORDS:
            totals[name] += one[name]
    most = max(totals.values())
    if not most:
        return None
    said = [name for name in WORDS if totals[name] == most]
    return said[0] if len(said) == 1 else "tie"


@dataclasses.dataclass(frozen=True)
class _Item:
    """A proposal under one criterion, with each judge's counts by order."""

    id: str
    criterion: str
    judges: dict[str, dict[str, Counts]]

    def words(self) -> dict[str, str]:
        """The judges' words, of those that have one."""
        said = {judge: word(orders.values()) for judge, orders in self.judges.items()}
        return {judge: one for judge, one in said.items() if one is not None}


def agreement(rows: Iterable[Mapping[str, Any]], lengths: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """How far judges agree and what else moves them, as plain values.

    Args:
        rows: rows of `votes`.
        lengths: (length of the old version, of the new one) by the id of a row; rows without are left out of
            what is said about lengths.

    Returns:
        `proposals`, `decisions` (by criterion and decision);
        `own`, about the criteria that were put forward, and `others`, about the other ones: `items`, `kappa`
        (Fleiss', of the judges' words), `by_criterion` with the same for each;
        `judges`: see `_judge`; `pairs`: Cohen's kappa of each two judges, and how often their words are the
        same;
        `trade_offs`: rows in which another criterion gets `worse` or `better`, by criterion, and how many of
        the confirmed ones have one that gets worse.
    """
    own: list[_Item] = []
    others: list[_Item] = []
    decisions: dict[str, Counter[str]] = defaultdict(Counter)
    worse, better = Counter[str](), Counter[str]()
    at_a_cost = 0
    reviews: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        decisions[row["criterion"]][row["decision"]] += 1
        worse.update(row["worse"])
        better.update(row["better"])
        at_a_cost += row["decision"] == "confirmed" and bool(row["worse"])
        for review in row["reviews"]:
            reviews[review["judge"]].append(
                {name: review[name] for name in ("strength", "specificity", "purposes")}
            )
        for criterion, item in _items(row).items():
            (own if criterion == row["criterion"] else others).append(item)
    judges = list(dict.fromkeys(judge for item in own for judge in item.judges))
    return {
        "proposals": len(own),
        "decisions": {code: dict(sorted(found.items())) for code, found in sorted(decisions.items())},
        "own": _agreeing(own),
        "others": _agreeing(others),
        "judges": {judge: _judge(judge, own, others, lengths, reviews[judge]) for judge in judges},
        "pairs": [_pair(own, one, other) for one, other in itertools.combinations(judges, 2)],
        "trade_offs": {
            "worse": dict(sorted(worse.items())),
            "better": dict(sorted(better.items())),
            "confirmed_with_worse": at_a_cost,
        },
    }


def _items(row: Mapping[str, Any]) -> dict[str, _Item]:
    found: dict[str, _Item] = {}
    for count in row["counts"]:
        item = found.setdefault(count["criterion"], _Item(row["id"], count["criterion"], {}))
        kept = {name: count[name] for name in (*WORDS, "error")}
        item.judges.setdefault(count["judge"], {})[count["order"]] = kept
    return found


def _agreeing(items: Sequence[_Item]) -> dict[str, Any]:
    by_criterion: dict[str, list[list[int]]] = defaultdict(list)
    for item in items:
        said = Counter(item.words().values())
        by_criterion[item.criterion].append([said[name] for name in WORDS])
    tables = [table for found in by_criterion.values() for table in found]
    return {
        **_kappa(tables),
        "by_criterion": {code: _kappa(found) for code, found in sorted(by_criterion.items())},
    }


def _kappa(tables: Sequence[Sequence[int]]) -> dict[str, Any]:
    """`items` are those with the words of two judges or more."""
    return {"items": sum(sum(table) > 1 for table in tables), "kappa": fleiss_kappa(tables)}


def _pair(items: Sequence[_Item], one: str, other: str) -> dict[str, Any]:
    said = [item.words() for item in items]
    both = [(words[one], words[other]) for words in said if one in words and other in words]
    same = Rate(sum(first == second for first, second in both), len(both))
    return {"judges": [one, other], "kappa": cohen_kappa(both), "same": same.row()}


def _judge(
    judge: str,
    own: Sequence[_Item],
    others: Sequence[_Item],
    lengths: Mapping[str, tuple[int, int]],
    reviews: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """What one judge did.

    Returns:
        `own`, `others`: its votes, ties and errors; all below is about the criteria that were put forward;
        `with_majority`: its words that are the word of more than half of the *other* judges, of the items in
        which these have such a word;
        `said_a`: votes for the version shown as A among the decided ones: one half without position bias,
        since each version is shown as A equally often;
        `same_in_both_orders`: items in which its words in the two orders are the same;
        `longer`: votes for the longer version among the decided ones where lengths differ;
        `longer_when_others_tie`: the same in items in which more than half of the other judges say `tie`;
        `length_correlation`: Pearson's, between its mean vote on an item (1 new, -1 old, 0 tie) and the
        difference in length (new less old, as a share of the longer);
        `reviews`: how many, how many of them without an answer, and their means.
    """
    mine = [(item, item.judges[judge]) for item in own if judge in item.judges]
    said_a = [0, 0]
    longer = [0, 0]
    longer_alone = [0, 0]
    alike = [0, 0]
    majority = [0, 0]
    points: list[tuple[float, float]] = []
    for item, orders in mine:
        new, old, tie = (sum(one[name] for one in orders.values()) for name in WORDS)
        former, latter = orders.get(_FORMER), orders.get(_LATTER)
        said_a[0] += (former["old"] if former else 0) + (latter["new"] if latter else 0)
        said_a[1] += new + old
        if former and latter and (first := word([former])) and (second := word([latter])):
            alike[0] += first == second
            alike[1] += 1
        rest = _majority([one for name, one in item.words().items() if name != judge])
        if rest is not None and (own_word := word(orders.values())) is not None:
            majority[0] += own_word == rest
            majority[1] += 1
        if item.id not in lengths or not new + old + tie:
            continue
        before, after = lengths[item.id]
        points.append(((new - old) / (new + old + tie), (after - before) / max(before, after, 1)))
        if before != after:
            for found in (longer, longer_alone) if rest == "tie" else (longer,):
                found[0] += new if after > before else old
                found[1] += new + old
    return {
        "own": _ballots(orders for _, orders in mine),
        "others": _ballots(item.judges[judge] for item in others if judge in item.judges),
        "with_majority": Rate(*majority).row(),
        "said_a": Rate(*said_a).row(),
        "same_in_both_orders": Rate(*alike).row(),
        "longer": Rate(*longer).row(),
        "longer_when_others_tie": Rate(*longer_alone).row(),
        "length_correlation": correlation(points),
        "reviews": _reviews(reviews),
    }


def _majority(words: Sequence[str]) -> str | None:
    """The word of more than half; None without one."""
    return next((one for one, times in Counter(words).items() if 2 * times > len(words)), None)


def _ballots(judged: Iterable[Mapping[str, Counts]]) -> dict[str, Any]:
    total = Counter[str]()
    for orders in judged:
        for counts in orders.values():
            total.update(counts)
    usable = sum(total[name] for name in WORDS)
    return {
        **{name: total[name] for name in (*WORDS, "error")},
        "ties": Rate(total["tie"], usable).row(),
        "errors": Rate(total["error"], usable + total["error"]).row(),
    }


def _reviews(reviews: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    given = [one for one in reviews if one["strength"] is not None]
    return {
        "asked": len(reviews),
        "without_answer": len(reviews) - len(given),
        "strength": _mean([one["strength"] for one in given]),
        "specificity": _mean([one["specificity"] for one in given]),
        "several_purposes": Rate(sum(one["purposes"] > 1 for one in given), len(given)).row(),
    }


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None
