"""Decided proposals to preference pairs: the plain functions under the `build` step.

In: an edit, its label, excerpts, evidence, votes and instructions. Out: `PreferencePair`s, or why there are
none. What a pair rests on stays with it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labelers import prompts
from labelers.commits.config import BuildConfig, LabelConfig
from labelers.commits.criteria import Criterion
from labelers.commits.decide import Decision, decide
from labelers.commits.instructions import drawn_style, instruction
from labelers.commits.pieces import gap_mark
from labelers.commits.proposals import Proposal, proposals
from labelers.commits.system_prompts import system_prompt
from schemas.ids import content_id
from schemas.records import (
    Bearing,
    CriterionScore,
    Instruction,
    Measure,
    PairEvidence,
    PreferencePair,
    VoteCount,
)
from schemas.stage import Drop, Keep, Outcome
from schemas.tokens import estimate_tokens

Row = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Findings:
    """What earlier stages found about views, each by the view's id; None where the stage was not run.

    `templates`: a pair whose instruction no model wrote gets one from a template.
    """

    evidence: Mapping[str, Row] | None = None
    votes: Mapping[str, Row] | None = None
    instructions: Mapping[str, Row] | None = None
    templates: bool = True


NOTHING = Findings()


def pair(
    edit: Row,
    given: Row,
    criteria: Sequence[Criterion],
    config: BuildConfig,
    seed: int,
    excerpts: Sequence[Row] = (),
    *,
    split: str | None,
    labels: LabelConfig | None = None,
    min_score: float | None = None,
    findings: Findings = NOTHING,
    counts: Counter[str] | None = None,
) -> Outcome:
    """Preference pairs from an edit, its label and its excerpts in order of pieces (rows of `edits`, `labels`
    and `excerpts`), or why there is none.

    An edit gives one pair, or one for each of several pieces.

    Args:
        split: the edit's row of `splits`; None when it has none, and then no pair either.
        labels: how pieces are labelled.
        min_score: least score put before judges, where there are any; see `proposals`.
        counts: pieces that gave no pair although another of their edit did are added here, by reason.
    """
    if split is None:
        return Drop(edit["id"], "no_split")
    found = proposals(edit, given, excerpts, criteria, labels or LabelConfig(), config, min_score)
    if isinstance(found, tuple):
        return Drop(edit["id"], *found)
    made: list[PreferencePair] = []
    refused: list[tuple[str, str]] = []
    for proposal in found:
        decision = decided(proposal, findings, config)
        if isinstance(decision, tuple):
            refused.append(decision)
            continue
        one = _pair(proposal, decision, criteria, config, seed, split, findings)
        if isinstance(one, tuple):
            refused.append(one)
        else:
            made.append(one)
    if not made:
        return Drop(edit["id"], *refused[0])
    count_pieces(refused, counts)
    if counts is not None and (left := len(excerpts) - len(found)) and found[0].view.own is not None:
        counts["pieces_not_proposed"] += left
    return Keep(tuple(made))


def count_pieces(refused: Iterable[tuple[str, str]], counts: Counter[str] | None) -> None:
    """Count pieces that were refused although their edit is kept: its row cannot tell of them."""
    if counts is not None:
        counts.update(f"pieces_{reason}" for reason, _ in refused)


def decided(proposal: Proposal, findings: Findings, config: BuildConfig) -> Decision | tuple[str, str]:
    """The decision about a proposal from what earlier stages found; or a reason and a few words."""
    votes = None if findings.votes is None else findings.votes.get(proposal.id)
    evidence = None if findings.evidence is None else findings.evidence.get(proposal.id)
    return decide(proposal, votes, evidence, config, judged=findings.votes is not None)


def _pair(
    proposal: Proposal,
    decision: Decision,
    criteria: Sequence[Criterion],
    config: BuildConfig,
    seed: int,
    split: str,
    findings: Findings,
) -> PreferencePair | tuple[str, str]:
    view, edit, label = proposal.view, proposal.view.edit, proposal.label
    if edit["new_contents"] == edit["old_contents"]:
        return "same_text", "both versions are the same text"
    if (common := _common_tokens(edit["old_contents"], edit["new_contents"])) >= config.max_tokens:
        return "same_when_cut", f"the first {common} tokens are the same"
    own = next(criterion for criterion in criteria if criterion.code == decision.criterion)
    piece = () if view.piece is None else (str(view.piece),)
    idx = content_id("pair", edit["id"], *piece, own.code)
    asked = _asked(proposal, findings, seed)
    if isinstance(asked, tuple):
        return asked
    kind, system = system_prompt(config, criteria, own, seed, idx)
    votes = (findings.votes or {}).get(proposal.id)
    evidence = (findings.evidence or {}).get(proposal.id)
    return PreferencePair(
        system=system,
        input=asked.text,
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
        evidence=PairEvidence(
            edit_id=edit["id"],
            labeler=decision.labeler,
            method=decision.method,
            confidence=decision.confidence,
            single_intent=label["single_intent"],
            scores=[CriterionScore(**score) for score in label["scores"]],
            terms=list(label["terms"]),
            subject=edit["subject"],
            merged_by=edit["merged_by"],
            instruction_by=asked.by if asked.kind == "template" else f"{asked.by} {asked.prompt_version}",
            instruction_kind=asked.kind,
            instruction_style=asked.style,
            system_kind=kind,
            level=view.level,
            names=view.names,
            measures=[Measure(**one) for one in evidence["measures"]] if evidence else [],
            bearings=[Bearing(**one) for one in evidence["bearings"]] if evidence else [],
            share=votes["share"] if votes else None,
            strength=votes["strength"] if votes else None,
            specificity=votes["specificity"] if votes else None,
            votes=[VoteCount(**one) for one in votes["counts"]] if votes else [],
            trade_offs=list(decision.trade_offs),
            made_by=None,
            detail=None,
        ),
        split=split,
    )


def _common_tokens(old: str, new: str) -> int:
    """Estimated tokens that two texts have in common at their beginning."""
    low, high = 0, min(len(old), len(new))
    # Bisected, since comparing slices is far faster than comparing letters one by one.
    while low < high:
        middle = (low + high + 1) // 2
        if old.startswith(new[:middle]):
            low = middle
        else:
            high = middle - 1
    return estimate_tokens(old[:low])


def _asked(proposal: Proposal, findings: Findings, seed: int) -> Instruction | tuple[str, str]:
    """The instruction of a pair: the model's where there is one, else a template's."""
    view = proposal.view
    row = None if findings.instructions is None else findings.instructions.get(proposal.id)
    if row is not None:
        return Instruction(**row)
    if findings.instructions is not None and not findings.templates:
        return "no_instruction", "no text passed the checks"
    gap = "" if view.level == "file" else gap_mark(view.edit["language"])
    template = prompts.version("excerpt" if gap else "instruction")
    return Instruction(
        id=proposal.id,
        edit_id=view.edit["id"],
        piece=view.piece,
        text=instruction(view.edit, seed, gap),
        kind="template",
        style=drawn_style(view.edit["id"], seed),
        by=template,
        prompt_version=template,
        spoken="en",
        attempts=0,
        refused=[],
    )
