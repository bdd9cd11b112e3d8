"""What a criterion classifier is trained on and measured with: edits of a run, and annotated rows.

In: a run directory with `edits`, JSONL files of annotations. Out: edits with the repository that each is
of, and annotations by commit and path. A line that is no annotation is an error that names file and line:
these files are written by people who want to know.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from labelers.commits.training.metrics import NONE, Judged
from schemas import shards
from schemas.errors import AssayError
from schemas.records import Edit
from schemas.rundir import RunDir

MOST_LINE = 1 << 16
SHIPPED = Path(__file__).with_name("annotated.jsonl")
"""The annotations that the built-in classifier was trained on, of 37 public repositories."""
Key = tuple[str, str]
"""Commit and path: what an annotation and an edit have in common, wherever the repository lies."""


@dataclasses.dataclass(frozen=True)
class Annotation:
    """What a person said of an edit."""

    commit: str
    path: str
    judged: Judged


def _annotation(row: Any, codes: Sequence[str]) -> Annotation:
    if not isinstance(row, dict):
        raise ValueError("not an object")
    commit, path, criterion, also = (row.get(key) for key in ("commit", "path", "criterion", "also"))
    if not (isinstance(commit, str) and commit and isinstance(path, str) and path):
        raise ValueError("'commit' and 'path' must be texts")
    known = (*codes, NONE)
    if criterion not in known:
        raise ValueError(f"'criterion' must be one of {', '.join(known)}")
    also = [] if also is None else also
    if not isinstance(also, list) or any(one not in known for one in also):
        raise ValueError(f"'also' must be a list of {', '.join(known)}")
    single, confidence = row.get("single_intent", True), row.get("confidence", 3)
    if not isinstance(single, bool) or type(confidence) is not int or not 1 <= confidence <= 3:
        raise ValueError("'single_intent' must be true or false and 'confidence' 1, 2 or 3")
    others = tuple(sorted({one for one in also if one not in (NONE, criterion)}))
    language = row.get("language") if isinstance(row.get("language"), str) else ""
    return Annotation(commit, path, Judged(criterion, others, language or "", single, confidence))


def read_annotations(paths: Sequence[Path], codes: Sequence[str]) -> dict[Key, Annotation]:
    """Annotations of JSONL files by commit and path; of two of one edit the surer counts, else the later.

    Raises:
        AssayError: a file cannot be read, or a line is no annotation.
    """
    found: dict[Key, Annotation] = {}
    for path in paths:
        try:
            with path.open(encoding="utf-8") as lines:
                for number, line in enumerate(iter(lambda: lines.readline(MOST_LINE), ""), 1):
                    if not line.strip():
                        continue
                    try:
                        one = _annotation(json.loads(line), codes)
                    except (ValueError, RecursionError) as error:
                        raise AssayError(f"{path}:{number}: no annotation ({error})") from None
                    key = (one.commit, one.path)
                    if key not in found or found[key].judged.confidence <= one.judged.confidence:
                        found[key] = one
        except (OSError, UnicodeDecodeError) as error:
            raise AssayError(f"{path}: cannot be read ({error})") from None
    return found


def edits_of(run: RunDir) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(repository, row of `edits`) for each edit of a run.

    The repository is the unit that it was mined in: `repo` is a folder's name where a history has no remote.

    Raises:
        AssayError: nothing was mined.
    """
    parts = run.parts("edits")
    if not parts:
        raise AssayError(f"{run.root}: no edits yet; run `assay mine` first")
    for part in parts:
        group = part.name.rpartition("-")[0] or part.name
        for row in shards.iter_rows(part.path, Edit):
            yield group, row
