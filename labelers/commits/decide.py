"""What becomes of a proposal, once judges and measures have spoken.

In: a proposal, its row of `votes` where there are judges, its row of `evidence`. Out: a `Decision`, or a
reason of `build` why no pair is made. `instruct` asks here first, so that no model writes for nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from labelers.commits.config import BuildConfig
from labelers.commits.evidence.bearings import SAME_PROGRAM
from labelers.commits.proposals import Proposal
from labelers.llm.config import RULES


@dataclasses.dataclass(frozen=True)
class Decision:
    """The label of a pair.

    Attributes:
        criterion: code of the criterion.
        confidence: estimated probability, 0 to 1: of the classifier, or the judges' share of votes.
        labeler: who says so: name and version, or the judges' models.
        method: `rule`, `classifier` or `model`.
        trade_offs: other criteria under which the old version is better.
    """

    criterion: str
    confidence: float
    labeler: str
    method: str
    trade_offs: tuple[str, ...] = ()


def decide(
    proposal: Proposal,
    votes: Mapping[str, Any] | None,
    evidence: Mapping[str, Any] | None,
    build: BuildConfig,
    *,
    judged: bool,
) -> Decision | tuple[str, str]:
    """The decision about a proposal, or a reason of `build` and a few words.

    Args:
        votes: its row of `votes`; None where there is none.
        evidence: its row of `evidence`; None where nothing was measured.
        judged: judges were to be asked, so that a proposal without votes has no label.
    """
    label, own = proposal.label, proposal.criterion
    made = Decision(own, proposal.score, label["labeler"], label["method"])
    worse: list[str] = []
    if judged:
        if votes is None:
            return "not_judged", "no judge was asked about it"
        if votes["decision"] != "confirmed":
            return f"judged_{votes['decision']}", f"{own} at {votes['share']:.2f} of the votes"
        judges = "+".join(dict.fromkeys(one["judge"] for one in votes["counts"]))
        # Rules in a judge's place repeat what the labeler says: no model has spoken.
        method = "rule" if judges == RULES else "model"
        made = Decision(votes["criterion"], votes["share"], judges, method)
        worse += votes["worse"]
    if evidence is not None:
        if evidence["veto"] is not None:
            return "vetoed", evidence["veto"]
        against = {
            one["criterion"]: one["by"] for one in evidence["bearings"] if one["verdict"] == "disagrees"
        }
        if made.criterion in against and build.evidence == "veto":
            return "evidence_disagrees", f"{made.criterion}: {', '.join(against[made.criterion])}"
        # The same program is no worse under anything; it is better under no more than how it reads.
        worse += [code for code, by in against.items() if code != made.criterion and by != [SAME_PROGRAM]]
    if worse and build.trade_offs == "drop":
        return "trade_off", f"{made.criterion} at the cost of {', '.join(dict.fromkeys(worse))}"
    return dataclasses.replace(made, trade_offs=tuple(dict.fromkeys(worse)))
