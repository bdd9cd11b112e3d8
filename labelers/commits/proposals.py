"""What is put forward to become pairs: the views of an edit, each with a criterion.

In: an edit, its label and its excerpts. Out: `Proposal`s, or a reason of `build` why there is none. The
stages `evidence`, `vote`, `instruct` and `build` all go through here, so that they speak of the same views.

Without judges a proposal is what the labeler is sure of. Judges can be asked about more: with them the
criterion with the best score is put forward from `vote.min_score` on, and whether an edit has one purpose is
theirs to say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from labelers.commits.config import BuildConfig, LabelConfig
from labelers.commits.criteria import Criterion
from labelers.commits.labelling import label
from labelers.commits.pieces import View, views
from schemas.declare import as_row


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A view with what the labeler says of it.

    Attributes:
        view: the two versions.
        label: the row of `labels` that holds for the view; a piece has its own.
        criterion: code of the criterion that is put forward.
        score: its score.
    """

    view: View
    label: Mapping[str, Any]
    criterion: str
    score: float

    @property
    def id(self) -> str:
        """Id of the view."""
        return self.view.id


def proposals(
    edit: Mapping[str, Any],
    given: Mapping[str, Any],
    excerpts: Sequence[Mapping[str, Any]],
    criteria: Sequence[Criterion],
    labels: LabelConfig,
    build: BuildConfig,
    min_score: float | None = None,
) -> list[Proposal] | tuple[str, str]:
    """The proposals of an edit (rows of `edits`, `labels` and `excerpts`, these in order of pieces).

    Args:
        min_score: least score of a criterion that is put before judges; None where nobody judges.

    Returns:
        at least one proposal, or a reason of `build` and a few words.
    """
    pieces = 1 if build.level == "file" else len(excerpts)
    found = _proposed(given, build, pieces, min_score)
    if not isinstance(found[1], float):
        return found[0], found[1]
    own = found[0]
    seen = views(edit, excerpts, build)
    if isinstance(seen, tuple):
        return seen
    made = []
    for view in seen:
        if view.own is None:
            made.append(Proposal(view, given, *found))
            continue
        mine: Mapping[str, Any] = as_row(label(view.own, criteria, labels))
        code, score = _proposed(mine, build, 1, min_score)
        # Judges look at each piece by itself; without them a piece has to be what its edit is.
        if isinstance(score, float) and (min_score is not None or code == own):
            made.append(Proposal(view, mine, code, score))
    return made or ("several_pieces", f"{pieces} pieces, none is {own} by itself")


def _proposed(
    given: Mapping[str, Any], build: BuildConfig, pieces: int, min_score: float | None
) -> tuple[str, float] | tuple[str, str]:
    """The criterion that a label puts forward with its score; or a reason of `build` and a few words."""
    if min_score is not None:
        best = max(given["scores"], key=lambda one: one["score"])
        if best["score"] < min_score:
            return "no_criterion", f"best is {best['criterion']} at {best['score']:.2f}"
        return best["criterion"], float(best["score"])
    if given["criterion"] is None:
        return "no_criterion", "no criterion is supported"
    if given["confidence"] < build.min_confidence:
        return "low_confidence", f"{given['criterion']} at {given['confidence']:.2f}"
    if pieces < 2 and given["single_intent"] < build.min_single_intent:
        return "several_purposes", f"single intent at {given['single_intent']:.2f}"
    return given["criterion"], float(given["confidence"])
