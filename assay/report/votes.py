"""How models judged changes and what they wrote, as counts: the tables `votes` and `instructions`.

Counts are over all rows. How far judges agree is a matter of whole rows, which `labelers.commits.agreement`
keeps: it is shown up to 10,000 rows, drawn by their ids (which are hashes), and up to twelve judges. Ten
thousand rows tell a share to within one percent, and need some 200 MB for three judges and five criteria.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from assay.report.plain import name, share_bins, top
from assay.report.tables import NAMES, Reader, cells, counted, grouped, named

SAMPLE = 10_000
JUDGES = 12

_WORDS = ("new", "old", "tie", "error")
_RATINGS = 9
_COUNTS = ("judge", "criterion", "order", *_WORDS)
_REVIEWS = ("judge", "strength", "specificity", "purposes")


class Ratings:
    """Means of ratings of 1 to 5, in steps of one half."""

    def __init__(self) -> None:
        self.bins = [0] * _RATINGS
        self.sum = 0.0

    def add(self, column: pa.ChunkedArray) -> None:
        """Count a column; null and what is no rating is left out."""
        for value, rows in counted(column).items():
            if value is not None and 1 <= value <= 5:
                self.bins[int(2 * (value - 1))] += rows
                self.sum += value * rows

    def facts(self) -> dict[str, Any]:
        """Rows in each bin (1, 1.5, ... 5), how many there are, and their mean."""
        known = sum(self.bins)
        return {"bins": self.bins, "known": known, "mean": round(self.sum / known, 3) if known else None}


class _Ballots:
    """What each judge said: votes on the criterion put forward, on the others, and reviews."""

    def __init__(self) -> None:
        self.own: dict[str, Counter[str]] = {}
        self.others: dict[str, Counter[str]] = {}
        self.reviews: dict[str, Counter[str]] = {}

    def add(self, batch: pa.Table) -> None:
        counts = batch["counts"].combine_chunks()
        flat = pc.list_flatten(counts)
        put = batch["criterion"].combine_chunks().take(pc.list_parent_indices(counts))
        table = pa.table(
            {
                "judge": pc.struct_field(flat, "judge"),
                "own": pc.equal(pc.struct_field(flat, "criterion"), put),
                # Negative numbers are no counts.
                **{one: pc.max_element_wise(pc.struct_field(flat, one).cast("int64"), 0) for one in _WORDS},
            }
        )
        sums = table.group_by(["judge", "own"]).aggregate([(one, "sum") for one in _WORDS])
        for row in sums.to_pylist():
            found = (self.own if row["own"] else self.others).setdefault(row["judge"], Counter())
            found.update({one: row[f"{one}_sum"] for one in _WORDS})
        reviews = pc.list_flatten(batch["reviews"].combine_chunks())
        table = pa.table({one: pc.struct_field(reviews, one) for one in ("judge", "purposes")})
        for (judge, purposes), rows in grouped(table, ["judge", "purposes"]):
            said = "none" if purposes is None else "several" if purposes > 1 else "one"
            self.reviews.setdefault(judge, Counter())[said] += rows

    def judges(self) -> list[str]:
        """All judges, those with most votes first."""
        total: Counter[str] = Counter()
        for found in (self.own, self.others, self.reviews):
            for judge, said in found.items():
                total[judge] += said.total()
        return sorted(total, key=lambda one: (-total[one], one))

    def facts(self) -> list[dict[str, Any]]:
        found = []
        for judge in self.judges()[:NAMES]:
            own, others, reviews = (of.get(judge, Counter()) for of in (self.own, self.others, self.reviews))
            found.append(
                {
                    "name": name(judge),
                    "own": {one: own[one] for one in _WORDS},
                    "others": {one: others[one] for one in _WORDS},
                    "reviews": reviews.total(),
                    "unanswered_reviews": reviews["none"],
                    "several_purposes": reviews["several"],
                }
            )
        return found


def votes(reader: Reader) -> dict[str, Any]:
    """Decisions of judges, how clear they are, what gets worse beside, and how far the judges agree."""
    decisions: Counter[tuple[Any, ...]] = Counter()
    crossed: dict[str, Counter[tuple[Any, ...]]] = {"better": Counter(), "worse": Counter()}
    shares = {"confirmed": [0] * 10, "others": [0] * 10}
    strength, specificity, ballots = Ratings(), Ratings(), _Ballots()
    prompts: Counter[str] = Counter()
    at_a_cost, calls = Counter[bool](), 0
    columns = ["criterion", "decision", "share", "strength", "specificity", "calls"]
    columns += [f"counts.list.element.{one}" for one in ("judge", "criterion", *_WORDS)]
    columns += [f"reviews.list.element.{one}" for one in ("judge", "purposes")]
    columns += [f"{one}.list.element" for one in ("better", "worse", "prompts")]
    for batch in reader.batches("votes", columns):
        for key, rows in grouped(batch, ["criterion", "decision"]):
            decisions[key] += rows
        confirmed = pc.equal(batch["decision"], "confirmed")
        share_bins(batch["share"].filter(confirmed).to_pylist(), shares["confirmed"])
        share_bins(batch["share"].filter(pc.invert(confirmed)).to_pylist(), shares["others"])
        strength.add(batch["strength"])
        specificity.add(batch["specificity"])
        ballots.add(batch)
        prompts.update(named(counted(pc.list_flatten(batch["prompts"]))))
        for one, found in crossed.items():
            column = batch[one].combine_chunks()
            put = batch["criterion"].combine_chunks().take(pc.list_parent_indices(column))
            table = pa.table({"criterion": put, "other": pc.list_flatten(column)})
            for key, rows in grouped(table, ["criterion", "other"]):
                found[key] += rows
        worse = pc.greater(pc.list_value_length(batch["worse"]), 0)
        at_a_cost.update(counted(confirmed.filter(worse)))
        calls += sum(max(one, 0) for one in batch["calls"].to_pylist())
    rows = decisions.total()
    by_decision: Counter[str] = Counter()
    for (_, decision), many in decisions.items():
        by_decision[decision] += many
    return {
        "rows": rows,
        "decisions": top(by_decision, NAMES),
        "cells": cells(decisions, "criterion", "decision"),
        "share": shares,
        "strength": strength.facts(),
        "specificity": specificity.facts(),
        **{one: cells(found, "criterion", "other") for one, found in crossed.items()},
        "with_worse": {"confirmed": at_a_cost[True], "others": at_a_cost[False]},
        "judges": ballots.facts(),
        "prompts": top(prompts, NAMES),
        "calls": calls,
        "agreement": _agreement(reader, rows, ballots.judges()[:JUDGES]),
    }


def _sample(reader: Reader, rows: int, judges: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows of `votes` as `agreement` takes them: about `SAMPLE` drawn by id, at most twice as many."""
    columns = ["id", "edit_id", "piece", "criterion", "decision"]
    columns += [f"counts.list.element.{one}" for one in _COUNTS]
    columns += [f"reviews.list.element.{one}" for one in _REVIEWS]
    columns += [f"{one}.list.element" for one in ("better", "worse")]
    taken = set(judges)

    def found() -> Iterator[dict[str, Any]]:
        for batch in reader.batches("votes", columns, rows=1024):
            if rows > SAMPLE:
                batch = batch.filter(pc.less(batch["id"], f"{int(SAMPLE / rows * (1 << 32)):08x}"))
            for row in batch.to_pylist():
                row["counts"] = [
                    {key: max(value, 0) if key in _WORDS else value for key, value in one.items()}
                    for one in row["counts"]
                    if one["judge"] in taken
                ]
                row["reviews"] = [
                    one if None not in one.values() else {**dict.fromkeys(_REVIEWS), "judge": one["judge"]}
                    for one in row["reviews"]
                    if one["judge"] in taken
                ]
                yield row

    return itertools.islice(found(), 2 * SAMPLE)


def _lengths(reader: Reader, views: dict[tuple[str, int | None], str]) -> dict[str, tuple[int, int]]:
    """Characters of the two versions by the id of a view, from the edits and their excerpts.

    Args:
        views: id of a view by its edit and piece.
    """
    found: dict[str, tuple[int, int]] = {}
    for table, key, edits in (
        ("edits", "id", {edit for edit, piece in views if piece is None}),
        ("excerpts", "edit_id", {edit for edit, piece in views if piece is not None}),
    ):
        wanted = pa.array(sorted(edits), pa.string())
        columns = [key, "old_contents", "new_contents", *(["piece"] if table == "excerpts" else [])]
        for part in reader.parts.get(table, []) if edits else ():
            light = reader.batches_of(part, table, [key])
            if not any(pc.any(pc.is_in(batch[key], value_set=wanted)).as_py() for batch in light):
                continue
            for batch in reader.batches_of(part, table, columns, rows=256):
                batch = batch.filter(pc.is_in(batch[key], value_set=wanted))
                sides = [pc.utf8_length(batch[one]).to_pylist() for one in ("old_contents", "new_contents")]
                pieces = batch["piece"].to_pylist() if table == "excerpts" else [None] * len(batch)
                for edit, piece, *both in zip(batch[key].to_pylist(), pieces, *sides, strict=True):
                    if (edit, piece) in views:
                        found[views[edit, piece]] = (both[0], both[1])
    return found


def _agreement(reader: Reader, rows: int, judges: Sequence[str]) -> dict[str, Any] | None:
    """How far judges agree, and what moves them besides the code; None where nobody voted."""
    from labelers.commits.agreement import agreement

    sample = list(_sample(reader, rows, judges))
    if not judges or not sample:
        return None
    views = {(row["edit_id"], row["piece"]): row["id"] for row in sample}
    lengths = _lengths(reader, views)
    found = agreement(sample, lengths)

    def kappas(of: dict[str, Any]) -> dict[str, Any]:
        ranked = sorted(of["by_criterion"].items(), key=lambda item: (-item[1]["items"], item[0]))[:NAMES]
        return {
            "items": of["items"],
            "kappa": _rounded(of["kappa"]),
            "by_criterion": [
                {"name": name(code), "items": one["items"], "kappa": _rounded(one["kappa"])}
                for code, one in sorted(ranked)
            ],
        }

    rates = (
        *("with_majority", "said_a", "same_in_both_orders", "longer", "longer_when_others_tie"),
        "length_correlation",
    )
    return {
        "rows": len(sample),
        "of": rows,
        "with_lengths": sum(row["id"] in lengths for row in sample),
        "own": kappas(found["own"]),
        "others": kappas(found["others"]),
        "judges": [
            {"name": name(judge), **{rate: _rounded(found["judges"][judge][rate]) for rate in rates}}
            for judge in judges
            if judge in found["judges"]
        ],
        "pairs": sorted(map(_pair, found["pairs"]), key=lambda pair: (pair["one"], pair["other"])),
    }


def _pair(found: dict[str, Any]) -> dict[str, Any]:
    one, other = sorted(name(judge) for judge in found["judges"])
    return {
        "one": one,
        "other": other,
        "kappa": _rounded(found["kappa"]),
        "same": _rounded(found["same"]),
    }


def _rounded(value: Any) -> Any:
    """A number, or a rate's numbers, to six digits."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def instructions(reader: Reader) -> dict[str, Any]:
    """What models wrote as instructions: kinds, styles, languages, how many attempts, and why some failed."""
    tally: dict[str, Counter[str]] = {
        one: Counter() for one in ("kind", "style", "spoken", "by", "prompt_version")
    }
    attempts, refused = Counter[int](), Counter[str]()
    for batch in reader.batches("instructions", [*tally, "attempts", "refused.list.element"]):
        for one, counts in tally.items():
            counts.update(named(counted(batch[one])))
        attempts.update(counted(batch["attempts"]))
        refused.update(named(counted(pc.list_flatten(batch["refused"]))))
    most = sorted(attempts)[:NAMES]
    return {
        "rows": attempts.total(),
        "kinds": top(tally["kind"], NAMES),
        "styles": top(tally["style"], NAMES),
        "spoken": top(tally["spoken"], NAMES),
        "by": top(tally["by"], NAMES),
        "prompts": top(tally["prompt_version"], NAMES),
        "attempts": [{"attempts": many, "rows": attempts[many]} for many in most],
        "refused": top(refused, NAMES),
    }
