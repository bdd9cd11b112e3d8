"""A few rows as a person reads them: pairs as short unified diffs with what they rest on, one program with
its labelled functions.

Drawn by hash of the row's id from the first shard that has rows, so the same run shows the same
rows. Work on a row is bounded: long texts are cut before they are compared, and cuts are marked.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.report.plain import NAME_CHARS, clip, name, number, shown
from assay.report.tables import Reader
from schemas.ids import fraction

PAIRS = 3
OTHERS = 2
DIFF_LINES = 44
PROGRAM_LINES = 120
LINE_CHARS = 160
FAILURE_CHARS = 300
CONFLICTS = 3
MEASURES = 40
BEARINGS = 16
VOTES = 24
STEPS = 12

_COMPARED_LINES = 1000
_FIRST_ROWS = 2000
_CONTEXT = 3


def diff_lines(old: str, new: str) -> tuple[list[dict[str, str]], bool]:
    """(lines of a unified diff with three lines of context, whether something was cut).

    Kinds of lines are `@`, ` `, `-` and `+`. Texts are compared up to 1000 lines around their first
    difference, since the comparison's time is quadratic.
    """
    a, b = shown(old).split("\n"), shown(new).split("\n")
    if not a[-1] and not b[-1]:
        # Both end with a newline; an empty last line would only be noise.
        a.pop()
        b.pop()
    whole = list(b)
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    start = max(0, same - _CONTEXT)
    while len(a) > same and len(b) > same and a[-1] == b[-1]:
        a.pop()
        b.pop()
    # The common tail is put back only as far as it serves as context.
    tail = whole[len(b) : len(b) + _CONTEXT]
    a, b = (a + tail)[start:], (b + tail)[start:]
    cut = max(len(a), len(b)) > _COMPARED_LINES
    a, b = a[:_COMPARED_LINES], b[:_COMPARED_LINES]
    lines: list[dict[str, str]] = []
    for group in difflib.SequenceMatcher(None, a, b).get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        span = f"-{first[1] + start + 1},{last[2] - first[1]} +{first[3] + start + 1},{last[4] - first[3]}"
        lines.append({"kind": "@", "text": f"@@ {span} @@"})
        for tag, a_from, a_to, b_from, b_to in group:
            if tag == "equal":
                lines += ({"kind": " ", "text": text} for text in a[a_from:a_to])
                continue
            lines += ({"kind": "-", "text": text} for text in a[a_from:a_to])
            lines += ({"kind": "+", "text": text} for text in b[b_from:b_to])
    cut = cut or len(lines) > DIFF_LINES
    return [
        {"kind": line["kind"], "text": clip(line["text"], LINE_CHARS)} for line in lines[:DIFF_LINES]
    ], cut


def _pick(reader: Reader, table: str, light: Sequence[str]) -> tuple[Any, list[dict[str, Any]]]:
    """The first shard with rows, and the light columns of its first rows."""
    for part in reader.parts.get(table, []):
        if part.sidecar.rows:
            for batch in reader.batches_of(part, table, light, rows=_FIRST_ROWS):
                return part, batch.to_pylist()
    return None, []


def _rows_at(
    reader: Reader, table: str, part: Any, columns: Sequence[str], at: list[int]
) -> Iterator[dict[str, Any]]:
    """Whole rows at positions of a shard, in the order of `at`; stops reading after the last."""
    found: dict[int, dict[str, Any]] = {}
    start = 0
    for batch in reader.batches_of(part, table, columns, rows=64):
        for position in at:
            if start <= position < start + len(batch):
                found[position] = batch.slice(position - start, 1).to_pylist()[0]
        start += len(batch)
        if start > max(at):
            break
    return (found[position] for position in at if position in found)


def pairs(reader: Reader, table: str = "pairs", many: int = PAIRS) -> list[dict[str, Any]]:
    """Up to `many` pairs of one of the tables, of different criteria when the shard has them."""
    part, rows = _pick(reader, table, ["idx", "aspect"])
    if part is None:
        return []
    ranked = sorted(range(len(rows)), key=lambda at: (fraction(0, "report-pair", rows[at]["idx"]), at))
    first = {rows[at]["aspect"]: at for at in reversed(ranked)}
    leaders = [at for at in ranked if first[rows[at]["aspect"]] == at]
    at = [*leaders, *(at for at in ranked if at not in leaders)][:many]
    columns = ["input", "chosen", "rejected", "language", "aspect", "source", "idx", "repo", "commit", "path"]
    shows = []
    for row in _rows_at(reader, table, part, [*columns, "license", "evidence"], at):
        lines, cut = diff_lines(row["rejected"], row["chosen"])
        commit = row["commit"]
        shows.append(
            {
                "table": table,
                **{key: name(row[key]) for key in ("idx", "aspect", "language", "source")},
                **{key: _named(row[key]) for key in ("repo", "path", "license")},
                "commit": None if commit is None else name(commit[:12]),
                "input": clip(shown(clip(row["input"], 2400)), 600),
                **_rests_on(row["evidence"]),
                "diff": lines,
                "cut": cut,
            }
        )
    return shows


def _named(value: str | None, limit: int = NAME_CHARS) -> str | None:
    return None if value is None else name(value, limit)


def _figure(value: float | None) -> int | float | None:
    return None if (found := number(value)) is None else number(round(found, 4))


def _rests_on(evidence: dict[str, Any]) -> dict[str, Any]:
    """What a pair rests on, short enough for a card; `more` tells how many entries of a list are left out."""
    plain = ("method", "labeler", "level", "system_kind", "instruction_kind", "instruction_by")
    votes = _votes(evidence["votes"])
    return {
        **{key: name(evidence[key]) for key in plain},
        **{key: _named(evidence[key]) for key in ("merged_by", "instruction_style", "made_by")},
        **{key: _named(evidence[key], 200) for key in ("subject", "detail")},
        **{key: _figure(evidence[key]) for key in ("confidence", "share", "strength", "specificity")},
        "terms": [name(term, 40) for term in evidence["terms"][:8]],
        "names": [name(one, 80) for one in evidence["names"][:8]],
        "trade_offs": [name(one, 40) for one in evidence["trade_offs"][:8]],
        "measures": [
            {
                "name": name(one["name"], 40),
                "old": _figure(one["old"]),
                "new": _figure(one["new"]),
                "same": one["old"] == one["new"],
            }
            for one in evidence["measures"][:MEASURES]
        ],
        "bearings": [
            {
                "criterion": name(one["criterion"], 40),
                "verdict": name(one["verdict"], 40),
                "by": [name(measure, 40) for measure in one["by"][:8]],
            }
            for one in evidence["bearings"][:BEARINGS]
        ],
        "votes": votes[:VOTES],
        "more": {
            "measures": max(0, len(evidence["measures"]) - MEASURES),
            "bearings": max(0, len(evidence["bearings"]) - BEARINGS),
            "votes": max(0, len(votes) - VOTES),
        },
    }


def _votes(counts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Votes by judge and criterion, each with its counts by order."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for one in counts:
        judge, criterion = name(one["judge"], 60), name(one["criterion"], 40)
        row = found.setdefault((judge, criterion), {"judge": judge, "criterion": criterion, "by": {}})
        row["by"][name(one["order"], 40)] = [one[key] for key in ("new", "old", "tie", "error")]
    return list(found.values())


def _blocks(code: bytes, steps: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
    """Runs of lines that belong to one step (or to none), by the innermost span that holds a line's start."""
    spans = [(at, s["start_byte"], s["end_byte"]) for at, s in enumerate(steps)]
    spans = [span for span in spans if 0 <= span[1] < span[2] <= len(code)]
    blocks: list[dict[str, Any]] = []
    start = 0
    for count, line in enumerate(code.removesuffix(b"\n").split(b"\n")):
        if count == PROGRAM_LINES:
            return blocks, True
        text = clip(shown(line.decode("utf-8", "replace")), LINE_CHARS)
        # A span begins behind the indentation of its line. A blank line counts by its newline, so those
        # between two functions belong to neither.
        begin = start + len(line) - len(line.lstrip())
        holders = [(to - frm, at) for at, frm, to in spans if frm <= begin < to]
        of = min(holders)[1] if holders else None
        if not blocks or blocks[-1]["step"] != of:
            blocks.append({"step": of, "lines": []})
        blocks[-1]["lines"].append(text)
        start += len(line) + 1
    return blocks, False


def _step(step: dict[str, Any]) -> dict[str, Any]:
    """What the page says of one function."""
    failure = step["first_failure"]
    return {
        "name": name(step["name"]),
        **{key: step[key] for key in ("label", "reference_label", "own_label", "judge_label")},
        "tests_run": step["tests_run"],
        "tests_passed": step["tests_passed"],
        "reason": name(step["reason"]),
        "failure": None if failure is None else name(failure, FAILURE_CHARS),
    }


def program(reader: Reader) -> dict[str, Any] | None:
    """One step-labelled candidate: with passing and failing steps and a failing call if the shard has one."""
    light = ["id", "conflict", "outcome", "steps"]
    part, rows = _pick(reader, "steps", light)
    if part is None:
        return None

    def rank(at: int) -> tuple[int, bool, float, int]:
        labels = {step["label"] for step in rows[at]["steps"]}
        silent = all(step["first_failure"] is None for step in rows[at]["steps"])
        return (-len(labels & {0, 1}), silent, fraction(0, "report-step", rows[at]["id"]), at)

    at = [min(range(len(rows)), key=rank)]
    columns = [*light, "completion", "outcome_reason", "outcome_detail", "language", "generator"]
    for row in _rows_at(reader, "steps", part, columns, at):
        blocks, cut = _blocks(row["completion"].encode(), row["steps"])
        return {
            **_candidate(row),
            "language": name(row["language"]),
            "steps": [_step(step) for step in row["steps"][:PROGRAM_LINES]],
            "blocks": blocks,
            "cut": cut,
        }
    return None


def _candidate(row: dict[str, Any]) -> dict[str, Any]:
    detail = row["outcome_detail"]
    return {
        **{key: name(row[key]) for key in ("id", "conflict", "outcome_reason")},
        "outcome": row["outcome"],
        "outcome_detail": None if detail is None else name(detail, FAILURE_CHARS),
        "generator": name(row["generator"]["model"]),
        "detail": name(row["generator"]["detail"] or ""),
    }


def conflicts(reader: Reader, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """The first candidates of each kind of conflict; `counts` tells how many there are, so when to stop."""
    wanted = {kind: min(CONFLICTS, counts.get(kind, 0)) for kind in ("o1_z0", "o0_allz1")}
    columns = ["id", "conflict", "outcome", "outcome_reason", "outcome_detail", "generator", "steps"]
    found: list[dict[str, Any]] = []
    if not any(wanted.values()):
        return found
    for batch in reader.batches("steps", columns, rows=1024):
        kinds = batch["conflict"].to_pylist()
        for at in (at for at, kind in enumerate(kinds) if wanted.get(kind)):
            wanted[kinds[at]] -= 1
            row = batch.slice(at, 1).to_pylist()[0]
            # Where a step fails though the whole passes, those are the steps to look at; else all passed.
            steps = [step for step in row["steps"] if row["conflict"] == "o0_allz1" or step["label"] == 0]
            found.append({**_candidate(row), "steps": [_step(step) for step in steps[:STEPS]]})
        if not any(wanted.values()):
            break
    return sorted(found, key=lambda one: one["conflict"] != "o1_z0")
