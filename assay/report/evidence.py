"""What was measured of changes, as counts: what measures say of each criterion, and how they moved.

A row of `evidence` does not name the criterion that was put forward. It is that of the view's row of `votes`
where judges were asked, else that of the edit's label; both stand in the part of the same unit, so that
memory holds the ids of one part.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from assay.report.plain import median, name, top
from assay.report.tables import NAMES, Reader, cells, counted, grouped, named
from schemas.rundir import Part

_DIGITS = 3
"""Significant digits that a value keeps for a median: half a percent, so that few values are distinct."""
_LARGEST = 1e300

Key = tuple[str, str]


class _Moves:
    """How measures moved, by (criterion put forward, measure)."""

    def __init__(self) -> None:
        self.old: defaultdict[Key, Counter[float]] = defaultdict(Counter)
        self.new: defaultdict[Key, Counter[float]] = defaultdict(Counter)
        self.ways: defaultdict[Key, Counter[str]] = defaultdict(Counter)

    def add(self, measures: pa.Array, criteria: pa.Array) -> None:
        """Count the measures of a batch (a list column), of which `criteria` are those put forward."""
        flat = pc.list_flatten(measures)
        table = pa.table(
            {
                "criterion": criteria.fill_null("not known").take(pc.list_parent_indices(measures)),
                **{one: pc.struct_field(flat, one) for one in ("name", "old", "new")},
            }
        )
        # Of a measure that one side lacks nothing can be said; NaN, infinities and the like are no measures.
        for side in ("old", "new"):
            table = table.filter(pc.less(pc.abs(table[side]), _LARGEST))
        for side, found in (("old", self.old), ("new", self.new)):
            for (criterion, measure, value), rows in grouped(table, ["criterion", "name", side]):
                found[criterion, measure][float(f"{value:.{_DIGITS}g}")] += rows
        for way, less, more in (("lower", "new", "old"), ("higher", "old", "new")):
            moved = table.filter(pc.less(table[less], table[more]))
            for key, rows in grouped(moved, ["criterion", "name"]):
                self.ways[key[0], key[1]][way] += rows

    def facts(self) -> list[dict[str, Any]]:
        """Measures by criterion, the ones known of most views when there are very many."""
        known = {key: found.total() for key, found in self.old.items()}
        ranked = sorted(known, key=lambda key: (-known[key], key))[: NAMES * NAMES]
        return [
            {
                "criterion": name(key[0]),
                "measure": name(key[1]),
                "rows": known[key],
                "old": median(self.old[key]),
                "new": median(self.new[key]),
                **{way: self.ways[key][way] for way in ("lower", "higher")},
            }
            for key in sorted(ranked)
        ]


class _Verdicts:
    """What measures say: of every criterion, of the one put forward, beside a decision, and which say so."""

    def __init__(self) -> None:
        self.every: Counter[tuple[Any, ...]] = Counter()
        self.proposed: Counter[tuple[Any, ...]] = Counter()
        self.decided: Counter[tuple[Any, ...]] = Counter()
        self.spoke: Counter[tuple[str, str]] = Counter()

    def add(self, bearings: pa.Array, criteria: pa.Array, decisions: pa.Array) -> None:
        """Count the bearings of a batch (a list column) with the criteria put forward and the decisions."""
        flat, at = pc.list_flatten(bearings), pc.list_parent_indices(bearings)
        table = pa.table(
            {
                "criterion": pc.struct_field(flat, "criterion"),
                "verdict": pc.struct_field(flat, "verdict"),
                "own": criteria.take(at),
                "decision": decisions.take(at),
            }
        )
        own = table.filter(pc.equal(table["criterion"], table["own"]))
        judged = own.filter(pc.is_valid(own["decision"]))
        for found, of, keys in (
            (self.every, table, ["criterion", "verdict"]),
            (self.proposed, own, ["criterion", "verdict"]),
            (self.decided, judged, ["decision", "verdict"]),
        ):
            for key, rows in grouped(of, keys):
                found[key] += rows
        by = pc.struct_field(flat, "by")
        said = pa.table(
            {"measure": pc.list_flatten(by), "verdict": table["verdict"].take(pc.list_parent_indices(by))}
        )
        for (measure, verdict), rows in grouped(said, ["measure", "verdict"]):
            self.spoke[str(measure), str(verdict)] += rows

    def facts(self) -> dict[str, Any]:
        """The counts; of measures those that spoke most often, the most frequent first."""
        total: Counter[str] = Counter()
        for (measure, _), rows in self.spoke.items():
            total[measure] += rows
        ranked = sorted(total, key=lambda one: (-total[one], one))[:NAMES]
        spoke = [
            {"name": name(one), **{said: self.spoke[one, said] for said in ("agrees", "disagrees")}}
            for one in ranked
        ]
        return {
            "bearings": cells(self.every, "criterion", "verdict"),
            "proposed": cells(self.proposed, "criterion", "verdict"),
            "decided": cells(self.decided, "decision", "verdict"),
            "spoke": spoke,
        }


def _beside(reader: Reader, table: str, part: Part, columns: list[str]) -> Iterator[dict[str, Any]]:
    """Rows of another table's part of the same unit."""
    for other in reader.parts.get(table, []):
        if other.name == part.name:
            for batch in reader.batches_of(other, table, columns):
                yield from batch.to_pylist()


def evidence(reader: Reader) -> dict[str, Any]:
    """What measures say of criteria, of those put forward, and beside what judges decided; how they moved."""
    levels: Counter[str] = Counter({"file": 0, "piece": 0})
    vetoes, notes = Counter[str](), Counter[str]()
    verdicts, moves = _Verdicts(), _Moves()
    unknown = 0
    columns = ["id", "edit_id", "piece", "veto", "notes"]
    columns += [f"measures.list.element.{one}" for one in ("name", "old", "new")]
    columns += [f"bearings.list.element.{one}" for one in ("criterion", "verdict", "by.list.element")]
    for part in reader.parts.get("evidence", []):
        labelled = {
            row["id"]: row["criterion"] for row in _beside(reader, "labels", part, ["id", "criterion"])
        }
        judged = {
            row["id"]: (row["criterion"], row["decision"])
            for row in _beside(reader, "votes", part, ["id", "criterion", "decision"])
        }
        for batch in reader.batches_of(part, "evidence", columns):
            views = zip(batch["id"].to_pylist(), batch["edit_id"].to_pylist(), strict=True)
            own = [judged.get(view) or (labelled.get(edit), None) for view, edit in views]
            criteria = pa.array([criterion for criterion, _ in own], pa.string())
            decisions = pa.array([decision for _, decision in own], pa.string())
            unknown += criteria.null_count
            levels["file"] += batch["piece"].null_count
            levels["piece"] += len(batch) - batch["piece"].null_count
            vetoes.update(named(counted(batch["veto"].drop_null())))
            notes.update(named(counted(pc.list_flatten(batch["notes"]))))
            verdicts.add(batch["bearings"].combine_chunks(), criteria, decisions)
            moves.add(batch["measures"].combine_chunks(), criteria)
    return {
        "rows": levels.total(),
        "levels": dict(levels),
        "without_criterion": unknown,
        **verdicts.facts(),
        "vetoes": top(vetoes, NAMES),
        "notes": top(notes, NAMES),
        "moves": moves.facts(),
    }
