"""What the three tables of preference pairs hold, as counts: real ones, synthetic ones, imported ones.

As in `tables`, columns are read a batch at a time, and leaves alone of what a pair rests on: votes and
measures of a pair are most of that.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from assay.report.plain import Doubling, name, top
from assay.report.tables import NAMES, Reader, add_lengths, cells, counted, grouped, named

_LEAVES = (
    *("labeler", "method", "system_kind", "instruction_kind", "instruction_style", "instruction_by"),
    *("level", "made_by"),
)
_LISTS = {
    "measures": "measures.list.element.name",
    "votes": "votes.list.element.judge",
    "trade_offs": "trade_offs.list.element",
}
_TALLIED = ("system_kind", "instruction_kind", "instruction_style", "instruction_by", "level")


def pairs(reader: Reader, table: str) -> dict[str, Any]:
    """Pairs of a table by language, criterion and split; their sources and sizes, and what they rest on."""
    by: Counter[tuple[Any, ...]] = Counter()
    made: Counter[tuple[Any, ...]] = Counter()
    aspects: Counter[tuple[Any, ...]] = Counter()
    deciders: Counter[tuple[Any, ...]] = Counter()
    repos: dict[str, Counter[str]] = {}
    rows_of: Counter[str] = Counter()
    licences: Counter[str] = Counter()
    tally: dict[str, Counter[str]] = {one: Counter() for one in ("method", *_TALLIED)}
    rests: Counter[str] = Counter(dict.fromkeys(_LISTS, 0))
    trade_offs: Counter[tuple[Any, ...]] = Counter()
    columns = ["language", "aspect", "source", "split", "repo", "license"]
    leaves = [f"evidence.{one}" for one in (*_LEAVES, *_LISTS.values())]
    for batch in reader.batches(table, [*columns, *leaves]):
        evidence = batch["evidence"].combine_chunks()
        of = {one: pc.struct_field(evidence, one) for one in (*_LEAVES, *_LISTS)}
        flat = pa.table({**{one: batch[one] for one in columns}, **{one: of[one] for one in _LEAVES}})
        for found, keys in (
            (by, ["language", "aspect", "split"]),
            (made, ["made_by", "source"]),
            (aspects, ["source", "aspect"]),
            (deciders, ["labeler", "method"]),
        ):
            for key, rows in grouped(flat, keys):
                found[key] += rows
        for (repo, split), rows in grouped(flat, ["repo", "split"]):
            rows_of[split] += rows
            if repo is not None:
                repos.setdefault(split, Counter())[repo] += rows
        licences.update(named(counted(flat["license"]), "not recognised"))
        for one, counts in tally.items():
            counts.update(named(counted(flat[one])))
        for one in _LISTS:
            rests[one] += pc.sum(pc.greater(pc.list_value_length(of[one]), 0)).as_py() or 0
        worse = of["trade_offs"]
        crossed = pa.table(
            {
                "aspect": batch["aspect"].combine_chunks().take(pc.list_parent_indices(worse)),
                "worse": pc.list_flatten(worse),
            }
        )
        for key, rows in grouped(crossed, ["aspect", "worse"]):
            trade_offs[key] += rows
    chosen, rejected = Doubling(), Doubling()
    for batch in reader.batches(table, ["chosen", "rejected"], rows=256):
        add_lengths(chosen, pc.utf8_length(batch["chosen"]))
        add_lengths(rejected, pc.utf8_length(batch["rejected"]))
    shared = set(repos.get("train", ())) & set(repos.get("test", ()))
    return {
        "rows": by.total(),
        "cells": cells(by, "language", "aspect", "split"),
        "splits": {
            name(split): {"rows": rows, "repositories": len(repos.get(split, ()))}
            for split, rows in sorted(rows_of.items())
        },
        "repositories_in_both_splits": len(shared),
        "repositories": top(sum(repos.values(), Counter()), NAMES),
        "licences": top(licences, NAMES),
        "methods": top(tally["method"], NAMES),
        "deciders": cells(deciders, "labeler", "method"),
        "made": cells(made, "made_by", "source"),
        "sources": cells(aspects, "source", "aspect"),
        "system_prompts": top(tally["system_kind"], NAMES),
        "instruction_kinds": top(tally["instruction_kind"], NAMES),
        "instruction_styles": top(tally["instruction_style"], NAMES),
        "instruction_by": top(tally["instruction_by"], NAMES),
        "levels": top(tally["level"], NAMES),
        "with": dict(rests),
        "trade_offs": cells(trade_offs, "aspect", "worse"),
        "characters": {"chosen": chosen.facts(), "rejected": rejected.facts()},
    }
