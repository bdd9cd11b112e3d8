"""What a dataset card tells of the labels of each published table: who gave them, from what, how sure.

In: finished shards of a table. Out: Markdown. Errors: `ShardError` for a shard that cannot be read.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.card_text import LISTED, batches, code, grouped, markdown_table, ranked
from schemas.records import TABLES
from schemas.rundir import Part


def pairs_counts(parts: list[Part], table: str) -> str:
    """How many pairs of a table there are, by criterion and language."""
    cells = grouped(parts, table, ["aspect", "language"])
    aspects, languages = Counter[str](), Counter[str]()
    for (aspect, language), rows in cells.items():
        aspects[aspect] += rows
        languages[language] += rows
    top = [name for name, _ in sorted(languages.items(), key=lambda item: (-item[1], item[0]))]
    shown, rest = top[:12], top[12:]
    lines = []
    # Criteria come from a criteria file, so there are as many as somebody wrote down.
    for aspect, total in sorted(aspects.items(), key=lambda item: (-item[1], item[0])):
        row = [cells[aspect, language] for language in shown]
        others = [sum(cells[aspect, language] for language in rest)] if rest else []
        lines.append((code(aspect), *row, *others, total))
    head = ("criterion", *(code(name) for name in shown), *(("other languages",) if rest else ()), "all")
    repos = sum(1 for (repo,) in grouped(parts, table, ["repo"]) if repo is not None)
    origin = f", from {repos:,} repositor{'y' if repos == 1 else 'ies'}" if repos else ""
    return f"Pairs by criterion and language{origin}:\n\n{markdown_table(head, lines, right=len(head) - 1)}\n"


def _pairs_evidence(parts: list[Part], table: str = "pairs") -> str:
    columns = ["evidence.labeler", "evidence.method", "evidence.confidence"]
    rows, confidence = Counter[tuple[str, str]](), dict[tuple[str, str], list[float]]()
    for batch in batches(parts, TABLES[table], columns):
        for one in (
            batch.group_by(columns[:2]).aggregate([([], "count_all"), (columns[2], "sum")]).to_pylist()
        ):
            key = (one[columns[0]], one[columns[1]])
            rows[key] += one["count_all"]
            confidence.setdefault(key, []).append(one[f"{columns[2]}_sum"])
    order = sorted(rows.items(), key=lambda item: (-item[1], item[0]))[:LISTED]
    lines = [
        (code(key[0]), code(key[1]), f"{math.fsum(confidence[key]) / count:.2f}", count)
        for key, count in order
    ]
    text = "Who gave the criterion of a pair, and how sure it was by its own estimate:\n\n"
    text += markdown_table(("labeler", "method", "mean confidence", "pairs"), lines, right=2)
    text += "\n\nEach pair keeps its own evidence in the column `evidence`.\n"
    for what, column in (
        ("instruction written by", "evidence.instruction_by"),
        ("kind of instruction", "evidence.instruction_kind"),
        ("system prompt", "evidence.system_kind"),
        ("made by", "evidence.made_by"),
    ):
        by = {key[0]: count for key, count in grouped(parts, table, [column]).items() if key[0] is not None}
        if by:
            text += f"\n{markdown_table((what, 'pairs'), ranked(by), right=1)}\n"
    return text + _bearings(parts, table)


def _bearings(parts: list[Part], table: str) -> str:
    """What measures and judges say of pairs, beside the labeler."""
    said, judges, traded, pairs = Counter[tuple[str, str]](), Counter[str](), 0, 0
    for batch in batches(parts, TABLES[table], ["evidence"]):
        for name in ("evidence.bearings", "evidence.votes", "evidence.trade_offs"):
            column = batch[name].combine_chunks()
            if name == "evidence.bearings":
                flat = column.flatten()
                for one in pa.table({"c": flat.field("criterion"), "v": flat.field("verdict")}).to_pylist():
                    said[one["c"], one["v"]] += 1
            elif name == "evidence.votes":
                said_by = {"row": pc.list_parent_indices(column), "judge": column.flatten().field("judge")}
                of_row = pa.table(said_by).group_by(["row", "judge"]).aggregate([])
                judges.update(of_row["judge"].to_pylist())
            else:
                traded += pc.sum(pc.greater(pc.list_value_length(column), 0)).as_py() or 0
        pairs += batch.num_rows
    text = ""
    if said:
        verdicts = ("agrees", "disagrees", "silent")
        lines = [
            (code(criterion), *(said[criterion, verdict] for verdict in verdicts))
            for criterion in sorted({criterion for criterion, _ in said})
        ]
        head = markdown_table(("criterion", *verdicts), lines, right=3)
        text += f"\nWhat was measured on both versions, without a model, says of each criterion:\n\n{head}\n"
    if judges:
        head = markdown_table(("judge, of both orders", f"pairs, of {pairs:,}"), ranked(judges), right=1)
        text += f"\n{head}\n"
        if _RULES in judges:
            text += f"\n{code(_RULES)} is no model: what the labeler said stands for a judge's votes.\n"
    if traded:
        text += f"\nUnder another criterion the rejected version is better in {traded:,} pairs.\n"
    return text


_RULES = "rules"
"""Name of a judge that is no model."""
_LABELS = ("label", "reference_label", "own_label", "judge_label")
_SIDE = {
    "label": "the one that counts",
    "reference_label": "by execution, beside the reference's other functions",
    "own_label": "by execution, beside the candidate's own other functions",
    "judge_label": "a model's word, without execution",
}


def _step_labels(parts: list[Part]) -> tuple[Counter[tuple[Any, ...]], Counter[str | None], float, int]:
    """(functions by their four labels, by trust, sum of the known mutation scores, how many are known)."""
    labels, trust = Counter[tuple[Any, ...]](), Counter[str | None]()
    scores: list[float] = []
    known = 0
    columns = [f"steps.list.element.{name}" for name in (*_LABELS, "trust", "mutation_score")]
    for batch in batches(parts, TABLES["steps"], columns):
        flat = pc.list_flatten(batch["steps"])
        found = pa.table({name: pc.struct_field(flat, name) for name in (*_LABELS, "trust")})
        for row in found.group_by([*_LABELS, "trust"]).aggregate([([], "count_all")]).to_pylist():
            labels[tuple(row[name] for name in _LABELS)] += row["count_all"]
            trust[row["trust"]] += row["count_all"]
        of = pc.struct_field(flat, "mutation_score").drop_null()
        scores.append(pc.sum(of).as_py() or 0.0)
        known += len(of)
    return labels, trust, math.fsum(scores), known


def _agreement(labels: Counter[tuple[Any, ...]], one: str, other: str) -> str | None:
    """How often two labels of a function agree, of those that have both; None where none has."""
    a, b = _LABELS.index(one), _LABELS.index(other)
    both = {key: rows for key, rows in labels.items() if None not in (key[a], key[b])}
    if not (total := sum(both.values())):
        return None
    same = sum(rows for key, rows in both.items() if key[a] == key[b])
    return f"`{one}` and `{other}` agree on {same / total:.1%} of the {total:,} functions that have both."


def _steps_evidence(parts: list[Part]) -> str:
    outcomes = grouped(parts, "steps", ["outcome"])
    labels, step_trust, scores, known = _step_labels(parts)
    words = ((1, "passed"), (0, "failed"), (None, "no verdict"))
    results = [
        (word, outcomes[(value,)], sum(rows for key, rows in labels.items() if key[0] == value))
        for value, word in words
    ]
    kinds = [
        (
            f"`{name}`",
            _SIDE[name],
            *(sum(rows for key, rows in labels.items() if key[at] == value) for value, _ in words),
        )
        for at, name in enumerate(_LABELS)
        if name != "judge_label" or any(key[at] is not None for key in labels)
    ]
    agreements = [
        _agreement(labels, "reference_label", "own_label"),
        _agreement(labels, "judge_label", "reference_label"),
    ]
    conflicts = {key[0]: rows for key, rows in grouped(parts, "steps", ["conflict"]).items()}
    text = [
        "The outcome of a candidate is that of the problem's suite; the label of a function says whether its "
        "unit tests pass, or what a judge says where the recipe counts that:\n",
        markdown_table(("result", "candidates", "functions"), results, right=2) + "\n",
        "A function may have several labels:\n",
        markdown_table(("label", "how it was given", "passes", "fails", "none"), kinds, right=3) + "\n",
        *(f"{line}\n" for line in agreements if line),
        "Outcome and steps disagree where a candidate passes though a step fails (`o1_z0`), or fails though "
        "every labelled step passes (`o0_allz1`); such rows are kept:\n",
        markdown_table(("conflict", "candidates"), ranked(conflicts), right=1) + "\n",
    ]
    if known:
        text.append(
            f"The tests of a function kill {scores / known:.1%} of the faults that were put into it, "
            "on average over candidates (`mutation_score`).\n"
        )
    trust = {key[0]: rows for key, rows in grouped(parts, "steps", ["trust"]).items()}
    text += [
        "What is `external` or `split` a candidate cannot forge; an `inproc` outcome it could:\n",
        markdown_table(("trust of outcomes", "candidates"), ranked(trust), right=1) + "\n",
        markdown_table(("trust of step labels", "functions"), ranked(step_trust), right=1) + "\n",
    ]
    for column, head in (("generator.model", "made by"), ("isolation", "run in"), ("limits", "within")):
        counts = {key[0]: rows for key, rows in grouped(parts, "steps", [column]).items()}
        text.append(markdown_table((head, "candidates"), ranked(counts), right=1) + "\n")
    return "\n".join(text)


def _trajectories_evidence(parts: list[Part]) -> str:
    resolved = grouped(parts, "trajectories", ["resolved"])
    words = ((True, "resolved"), (False, "not resolved"), (None, "not known"))
    acted = {key[0]: rows for key, rows in grouped(parts, "trajectories", ["policy"]).items()}
    return (
        "Whether a trajectory resolved its task is what its source says:\n\n"
        + markdown_table(
            ("result", "trajectories"), [(word, resolved[(value,)]) for value, word in words], right=1
        )
        + f"\n\n{markdown_table(('model that acted', 'trajectories'), ranked(acted), right=1)}\n"
    )


EVIDENCE: dict[str, Callable[[list[Part]], str]] = {
    "pairs": _pairs_evidence,
    "synthetic": functools.partial(_pairs_evidence, table="synthetic"),
    "preferences": functools.partial(_pairs_evidence, table="preferences"),
    "steps": _steps_evidence,
    "trajectories": _trajectories_evidence,
}
