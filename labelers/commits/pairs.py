"""Edits to labels, and labelled edits to preference pairs: the plain functions under the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labelers import prompts
from labelers.commits import classifier
from labelers.commits.config import BuildConfig, LabelConfig
from labelers.commits.criteria import Criterion
from labelers.commits.instructions import instruction
from labelers.commits.pieces import View, gap_mark, views
from labelers.commits.system_prompts import system_prompt
from schemas.declare import as_row
from schemas.ids import content_id
from schemas.records import CriterionScore, Label, PairEvidence, PreferencePair
from schemas.stage import Drop, Keep, Outcome


def label(edit: Mapping[str, Any], criteria: Sequence[Criterion], config: LabelConfig) -> Label:
    """The built-in classifier's label of an edit."""
    scored = classifier.classify(edit, criteria)
    best = max(criteria, key=lambda criterion: scored.scores[criterion.code]).code
    supported = scored.scores[best] >= config.min_score
    return Label(
        id=edit["id"],
        labeler=classifier.VERSION,
        method="rule",
        criterion=best if supported else None,
        confidence=scored.scores[best] if supported else 0.0,
        single_intent=scored.single_intent,
        scores=[CriterionScore(criterion=code, score=score) for code, score in scored.scores.items()],
        terms=scored.terms[best] if supported else [],
    )


def _refusal(given: Mapping[str, Any], config: BuildConfig, pieces: int) -> tuple[str, str] | None:
    if given["criterion"] is None:
        return "no_criterion", "no criterion is supported"
    if given["confidence"] < config.min_confidence:
        return "low_confidence", f"{given['criterion']} at {given['confidence']:.2f}"
    if pieces < 2 and given["single_intent"] < config.min_single_intent:
        return "several_purposes", f"single intent at {given['single_intent']:.2f}"
    return None


def pair(
    edit: Mapping[str, Any],
    given: Mapping[str, Any],
    criteria: Sequence[Criterion],
    config: BuildConfig,
    seed: int,
    excerpts: Sequence[Mapping[str, Any]] = (),
    *,
    split: str | None,
) -> Outcome:
    """Preference pairs from an edit, its label and its excerpts in order of pieces (rows of `edits`, `labels`
    and `excerpts`), or why there is none.

    An edit gives one pair, or one for each of several pieces whose own label agrees with the edit's. `split`
    is the edit's row of `splits`; None when it has none, and then no pair either.
    """
    if split is None:
        return Drop(edit["id"], "no_split")
    pieces = 1 if config.level == "file" else len(excerpts)
    if refused := _refusal(given, config, pieces):
        return Drop(edit["id"], *refused)
    found = views(edit, excerpts, config)
    if isinstance(found, tuple):
        return Drop(edit["id"], *found)
    own = next(criterion for criterion in criteria if criterion.code == given["criterion"])
    labelled = [(view, given if view.own is None else _own_label(view.own, criteria)) for view in found]
    agree = [
        (view, label)
        for view, label in labelled
        if view.own is None or (label["criterion"] == own.code and _refusal(label, config, 1) is None)
    ]
    if not agree:
        return Drop(edit["id"], "several_pieces", f"{pieces} pieces, none is {own.code} by itself")
    return Keep(tuple(_pair(view, label, criteria, own, config, seed, split) for view, label in agree))


def _own_label(edit: Mapping[str, Any], criteria: Sequence[Criterion]) -> Mapping[str, Any]:
    """The built-in classifier's label of a piece, whatever labelled the edit."""
    made: Mapping[str, Any] = as_row(label(edit, criteria, LabelConfig()))
    return made


def _pair(
    view: View,
    given: Mapping[str, Any],
    criteria: Sequence[Criterion],
    own: Criterion,
    config: BuildConfig,
    seed: int,
    split: str,
) -> PreferencePair:
    edit = view.edit
    piece = () if view.piece is None else (str(view.piece),)
    idx = content_id("pair", edit["id"], *piece, own.code)
    kind, system = system_prompt(config, criteria, own, seed, idx)
    gap = "" if view.level == "file" else gap_mark(edit["language"])
    evidence = PairEvidence(
        edit_id=edit["id"],
        labeler=given["labeler"],
        method=given["method"],
        confidence=given["confidence"],
        single_intent=given["single_intent"],
        scores=[CriterionScore(**score) for score in given["scores"]],
        terms=given["terms"],
        subject=edit["subject"],
        instruction_by=prompts.version("excerpt" if gap else "instruction"),
        system_kind=kind,
        level=view.level,
        names=view.names,
    )
    return PreferencePair(
        system=system,
        input=instruction(edit, seed, gap),
        chosen=edit["new_contents"],
        rejected=edit["old_contents"],
        language=edit["language"],
        aspect=own.name,
        source=config.source,
        idx=idx,
        repo=edit["repo"],
        commit=edit["commit"],
        path=edit["path"],
        license=edit["file_license"] or edit["license"],
        evidence=evidence,
        split=split,
    )
