"""pass@k of policies: how often one of k samples passes, from samples with outcomes.

In: files of samples, each with its task (`problem_id`, `task_id`, `instance_id`), an outcome of 0 or 1
(`outcome`, `passed`, `resolved`) and perhaps who wrote it (`generator`, `policy`, `model`), a language and a
source; or the same as `Sample`s. Out: plain JSON-like results, one entry a policy. Estimates are unbiased for
any number of samples of at least k; a problem with fewer has no estimate, is left out of that k and counted.
A bad row is counted by its reason; files without a row of use are an `AssayError`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import AssayError
from schemas.shards import replacing
from trainers import rowfiles
from trainers.bootstrap import mean_ci
from trainers.conversations import COLUMNS, id_of, instance_of, outcome_of
from trainers.ranking import pass_at_k
from trainers.rowfiles import BadRow, name_text

MADE = ("reference", "variant-1", "mutation-1")
"""Generators of the `steps` table that are no policies: their candidates are made to be right or wrong."""
UNNAMED = "samples"
"""The policy of rows that do not name theirs."""

_WRITER = ("policy", "model")
_SOURCE = ("source", "subset")


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One answer of a policy to a problem.

    Attributes:
        problem: what the samples of one problem have in common.
        policy: who wrote it.
        passed: whether it passes the problem's tests.
        language: of the answer; `unknown` where that is not told.
        source: data set of the problem, likewise.
        row_id: the row's own id, else its number.
    """

    problem: str
    policy: str
    passed: bool
    language: str = "unknown"
    source: str = "unknown"
    row_id: str = ""


@dataclasses.dataclass(frozen=True)
class Samples:
    """Samples in no order that matters, and what became of the other rows."""

    samples: list[Sample]
    rows: int
    dropped: dict[str, int]


def read(paths: Sequence[Path], policies: Sequence[str] = ()) -> Samples:
    """Read samples.

    Args:
        paths: files of rows.
        policies: those whose samples count; empty for all but what was `MADE` without a model.

    Raises:
        AssayError: a file cannot be read, or no row of any is of use.
    """
    dropped: Counter[str] = Counter()
    found: list[Sample] = []
    first, total = "", 0
    others: set[str] = set()
    for path in paths:
        for row in rowfiles.read(path, ("generator", *_WRITER, *_SOURCE, *COLUMNS)):
            total += 1
            try:
                if row.values is None:
                    raise BadRow(row.reason, row.detail)
                sample = _sample(row.values, row.number)
                if policies and sample.policy not in policies:
                    others.add(sample.policy)
                    raise BadRow("other_policy", f"by {sample.policy}")
                if not policies and sample.policy in MADE:
                    others.add(sample.policy)
                    raise BadRow("no_policy", f"made as {sample.policy}")
                found.append(sample)
            except BadRow as bad:
                dropped[bad.reason] += 1
                first = first or f"row {row.number} of {path}: {bad.reason}, {bad.detail}"
    if not found:
        raise AssayError(_nothing(total, first, sorted(others)))
    return Samples(found, total, dict(sorted(dropped.items())))


def _nothing(total: int, first: str, others: Sequence[str]) -> str:
    if not total:
        return "there are no rows"
    if others:
        return (
            f"none of {total:,} rows is a sample of a policy that is asked for, but of "
            f"{', '.join(others[:5])}; name one of these with --policy"
        )
    return f"none of {total:,} rows can be used; the first: {first}"


def _sample(values: dict[str, Any], number: int) -> Sample:
    problem = instance_of(values)
    if problem is None:
        raise BadRow("missing_field", "no problem_id, task_id or instance_id")
    outcome = outcome_of(values)
    if outcome is None:
        raise BadRow("no_outcome", "no outcome, resolved, passed, correct or label")
    if outcome not in (0.0, 1.0):
        raise BadRow("not_pass_or_fail", f"outcome is {outcome:g}")
    writer = values.get("generator")
    named = name_text(writer, ("model",)) if isinstance(writer, dict) else None
    if named is None:
        named = name_text({name: values.get(name) for name in _WRITER if _is_name(values.get(name))}, _WRITER)
    told = {name: values.get(name) for name in ("language", *_SOURCE) if _is_name(values.get(name))}
    return Sample(
        problem=problem,
        policy=named or UNNAMED,
        passed=outcome == 1.0,
        language=name_text(told, ("language",)) or "unknown",
        source=name_text(told, _SOURCE) or "unknown",
        row_id=id_of(values, number),
    )


def _is_name(value: Any) -> bool:
    # Some sets keep unrelated things in columns of these names.
    return isinstance(value, str)


def default_ks(samples: Iterable[Sample]) -> list[int]:
    """1, 2, 4 and so on, up to the samples of the problem that has the most."""
    most = max(Counter((one.policy, one.problem) for one in samples).values())
    return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]


def summary(samples: Sequence[Sample], ks: Sequence[int], seed: int) -> dict[str, dict[str, Any]]:
    """pass@k by policy, each problem counting the same.

    Keys of a policy: `problems`, `samples`, `solved` (problems of which a sample passes), `least` and `most`
    samples of a problem, `pass_at_k`: for each k `value`, its `ci95` over problems, the `problems` that
    have k samples and the `short` ones that have fewer and are left out; `by_language` and `by_source`: the
    same of parts, empty where nothing is told.
    """
    policies: dict[str, list[Sample]] = {}
    for one in samples:
        policies.setdefault(one.policy, []).append(one)
    found = {}
    for policy in sorted(policies):
        own = policies[policy]
        found[policy] = {
            **_part(own, ks, seed, policy),
            "by_language": _by(own, "language", ks, seed, policy),
            "by_source": _by(own, "source", ks, seed, policy),
        }
    return found


def _by(samples: Sequence[Sample], name: str, ks: Sequence[int], seed: int, policy: str) -> dict[str, Any]:
    parts: dict[str, list[Sample]] = {}
    for one in samples:
        parts.setdefault(getattr(one, name), []).append(one)
    if set(parts) == {"unknown"}:
        return {}
    return {key: _part(parts[key], ks, seed, f"{policy} {name}:{key}") for key in sorted(parts)}


def _part(samples: Sequence[Sample], ks: Sequence[int], seed: int, name: str) -> dict[str, Any]:
    total: Counter[str] = Counter(one.problem for one in samples)
    right: Counter[str] = Counter(one.problem for one in samples if one.passed)
    # Intervals must not depend on the order of rows.
    counts = [(total[problem], right[problem]) for problem in sorted(total)]
    return {
        "problems": len(counts),
        "samples": len(samples),
        "solved": len(right),
        "least": min(total.values()),
        "most": max(total.values()),
        "pass_at_k": {str(k): _at(counts, k, seed, f"pass at {k} {name}") for k in ks},
    }


def _at(counts: Sequence[tuple[int, int]], k: int, seed: int, name: str) -> dict[str, Any]:
    values = [pass_at_k(n, right, k) for n, right in counts if n >= k]
    return {
        "value": float(np.mean(values)) if values else None,
        "ci95": mean_ci(values, seed, name),
        "problems": len(values),
        "short": len(counts) - len(values),
    }


def write_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Write samples as Parquet, ordered by policy, problem and id."""
    rows = sorted(samples, key=lambda one: (one.policy, one.problem, one.row_id, one.passed))
    columns = {
        "id": [one.row_id for one in rows],
        "problem_id": [one.problem for one in rows],
        "policy": [one.policy for one in rows],
        "passed": [one.passed for one in rows],
        "language": [one.language for one in rows],
        "source": [one.source for one in rows],
    }
    with replacing(path) as handle:
        pq.write_table(pa.table(columns), handle, compression="zstd")
