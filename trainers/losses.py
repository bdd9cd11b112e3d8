"""The terms of the objectives as pure functions of float32 tensors.

Each returns one value an example (a pair, a completion, a task), or a sum over tokens, never a mean over
them: the loop divides by counts of the whole optimizer step, so that a step's gradient does not depend on
how it is cut into passes. Nothing goes wrong: finite input gives finite values, and an example that has
nothing to say (no label, no pair) adds exactly 0 and no gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def bradley_terry(
    chosen: Tensor, rejected: Tensor, margin: float | Tensor = 0.0, flipped: float | Tensor = 0.0
) -> Tensor:
    """Negative log-likelihood of the preference, one value a pair.

    With z = r_c - r_r - margin and q = `flipped`: -(1 - q) log sigma(z) - q log sigma(-z).
    The model is Bradley & Terry 1952; the margin is that of Llama 2 (2307.09288, eq. 2); q, the
    probability that the label is the wrong way round, is the smoothing of cDPO (Mitchell 2023).

    Args:
        chosen: rewards of the preferred sides, shape (pairs,).
        rejected: rewards of the other sides, same shape.
        margin: difference that a pair has to exceed, at least 0; one for all, or shape (pairs,).
        flipped: 0 to 1; one for all, or shape (pairs,).
    """
    z = chosen.float() - rejected.float() - margin
    loss = -functional.logsigmoid(z)
    if isinstance(flipped, Tensor) or flipped:
        loss = (1 - flipped) * loss - flipped * functional.logsigmoid(-z)
    return loss


def magnitude(chosen: Tensor, rejected: Tensor, kind: str) -> Tensor:
    """The penalty that keeps rewards from drifting, one value a pair.

    `centered`: (r_c + r_r)^2, which fixes the free constant of Bradley-Terry (Eisenstein et al. 2023,
    2312.09244, eq. 2; Themis, 2605.00754, section 4.2). `abs`: (|r_c| + |r_r|)^2, as Themis's released
    trainer computes it; for rewards of opposite sign that is the squared margin, so it also shrinks
    separation.
    """
    chosen, rejected = chosen.float(), rejected.float()
    if kind == "abs":
        return (chosen.abs() + rejected.abs()).square()
    return (chosen + rejected).square()


def objective(
    bt: Tensor, lm: Tensor, magnitude: Tensor, *, pairs: float, lm_tokens: float, lm_weight: float, mu: float
) -> Tensor:
    """L = bt/pairs + lambda * lm/lm_tokens + mu * magnitude/pairs (Themis, 2605.00754, section 4.2; the
    magnitude term with the sign that makes it a penalty).

    Args:
        bt: sum of `bradley_terry` over a micro-batch.
        lm: sum of -log p over its targets (GRM, Yang et al. 2024, 2406.10216, eq. 5, the SFT term).
        magnitude: sum of `magnitude` over it.
        pairs: pairs of the whole optimizer step.
        lm_tokens: completion tokens of the whole optimizer step.
        lm_weight: lambda.
        mu: weight of the magnitude term.
    """
    loss = (bt + mu * magnitude) / pairs
    if lm_weight:
        loss = loss + lm_weight * lm / max(1, lm_tokens)
    return torch.as_tensor(loss)


def span_sums(values: Tensor, spans: Tensor) -> Tensor:
    """Sums of `values[start:end]`, shape (spans,): the log-ratio of a completion, or of a function in it.

    Spans may overlap, and an empty one sums to 0. Values that no span holds get no gradient. The order of
    addition is fixed, on an accelerator too, so that a run can be repeated to the bit.

    Args:
        values: shape (tokens,).
        spans: int64 rows (start, end) with 0 <= start <= end <= tokens, shape (spans, 2).
    """
    starts, ends = spans[:, :1], spans[:, 1:]
    width = int((ends - starts).max()) if len(spans) else 0
    if not width:
        # A sum of nothing, which is part of the graph all the same.
        return values.new_zeros(len(spans)) + values[:0].sum()
    at = starts + torch.arange(width, device=values.device)
    held = torch.where(at < ends, values[at.clamp(max=len(values) - 1)], 0.0)
    return held.sum(dim=1)


def kto(
    log_ratios: Tensor,
    desirable: Tensor,
    z0: float,
    *,
    beta: float,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
) -> Tensor:
    """Loss of Kahneman-Tversky optimization, one value a completion (or a function).

    With r = log pi(y|x) - log pi_ref(y|x) it is w_y - v(x, y), where the value v is w_D sigma(beta (r - z0))
    of a desirable and w_U sigma(beta (z0 - r)) of an undesirable completion (Ethayarajh et al. 2024,
    2402.01306, eq. 7 and 8).

    Args:
        log_ratios: r, shape (completions,).
        desirable: whether each is desirable, bool, same shape.
        z0: the reference point, see `reference_point`; no gradient goes through it.
        beta: how fast the value saturates.
        desirable_weight: w_D.
        undesirable_weight: w_U.
    """
    gain = beta * (log_ratios.float() - z0)
    # w - w sigma(x) is w sigma(-x), which keeps its digits where sigma(x) is near 1.
    return torch.where(
        desirable, desirable_weight * torch.sigmoid(-gain), undesirable_weight * torch.sigmoid(gain)
    )


def reference_point(total: float, count: float) -> float:
    """z0 of `kto`: the mean log-ratio of mismatched prompts and completions, at least 0.

    It estimates KL(pi || pi_ref), which is never negative (2402.01306, section 4.1). `total` and `count`
    are of the whole optimizer step over all processes, as in the authors' code (HALOs): a mean of means
    would weigh the examples of a small part more. 0 of nothing.
    """
    return max(0.0, total / count) if count else 0.0


def step_kto(
    log_ratios: Tensor,
    labels: Tensor,
    counts: Tensor,
    z0: float,
    *,
    beta: float,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
) -> Tensor:
    """KTO on the functions of completions, one value a completion.

    Of completion i with labelled functions S_i it is (1/|S_i|) sum over j in S_i of w_z - v(r_ij, z_ij), the
    value v of `kto` with the log-ratio r_ij summed over the tokens of function j only and its label z_ij;
    0 without a labelled function. The method is that of STEP-KTODER (2608.23632) and Step-KTO (2501.10799);
    neither says how functions are averaged, so this mean, and the division by the number of completions
    that have labelled functions, are ours.

    Args:
        log_ratios: of the functions, completion by completion, shape (functions,).
        labels: 1 right, 0 wrong, below 0 not known, same shape.
        counts: functions of each completion, labelled or not, int64, shape (completions,).
        z0: the functions' reference point.
        beta: see `kto`.
        desirable_weight: of right functions.
        undesirable_weight: of wrong ones.
    """
    known = labels >= 0
    values = kto(
        log_ratios[known],
        labels[known] > 0,
        z0,
        beta=beta,
        desirable_weight=desirable_weight,
        undesirable_weight=undesirable_weight,
    )
    before = functional.pad(known.long().cumsum(0), (1, 0))
    ends = counts.cumsum(0)
    spans = torch.stack([before[ends - counts], before[ends]], dim=1)
    return span_sums(values, spans) / (spans[:, 1] - spans[:, 0]).clamp(min=1)


def dpo(chosen: Tensor, rejected: Tensor, *, beta: float, flipped: float | Tensor = 0.0) -> Tensor:
    """Loss of direct preference optimization, one value a pair.

    It is `bradley_terry` of the implicit rewards beta r, r = log pi(y|x) - log pi_ref(y|x) (Rafailov et al.
    2023, 2305.18290, eq. 7); with `flipped`, the probability that the label is the wrong way round, it is
    conservative DPO (Mitchell 2023).

    Args:
        chosen: log-ratios of the preferred sides, shape (pairs,).
        rejected: of the other sides, same shape.
        beta: how far the model may go from its reference.
        flipped: 0 to 0.5; one for all, or shape (pairs,).
    """
    return bradley_terry(beta * chosen.float(), beta * rejected.float(), flipped=flipped)


def yes_no(yes: Tensor, no: Tensor, resolved: Tensor, temperature: float = 1.0) -> Tensor:
    """Negative log-likelihood of the token that says whether a task is resolved, one value a trajectory.

    With log-probabilities l_y and l_n over the whole vocabulary and d = l_y - l_n it is
    -log(exp(l_y) + exp(l_n)) - log sigma(d / T) of a resolved trajectory, with -d for d of another. At T = 1
    that is -l_y or -l_n, cross-entropy on one token (SWE-RM, 2512.21919); T divides the difference alone, so
    that the probability of either word is trained as without it.

    Args:
        yes: l_y, shape (trajectories,).
        no: l_n, same shape.
        resolved: bool, same shape.
        temperature: T, above 0.
    """
    yes, no = yes.float(), no.float()
    if temperature == 1.0:
        return -torch.where(resolved, yes, no)
    odds = log_odds(yes, no, temperature)
    return -torch.logaddexp(yes, no) - functional.logsigmoid(torch.where(resolved, odds, -odds))


def log_odds(yes: Tensor, no: Tensor, temperature: float = 1.0) -> Tensor:
    """(l_y - l_n) / T, shape (trajectories,): the score of a trajectory, and the logit of SWE-RM's reward,
    exp(l_y/T) / (exp(l_y/T) + exp(l_n/T)) (2512.21919)."""
    return (yes.float() - no.float()) / temperature


def ranking(scores: Tensor, resolved: Tensor) -> Tensor:
    """How badly the candidates of one task are ordered, a scalar: the mean over all its pairs of a resolved
    and an unresolved candidate of -log sigma(s_resolved - s_unresolved); 0 without such a pair.

    The pairwise logistic loss (RankNet, Burges et al. 2005). A task counts the same however many candidates
    it has: the caller adds tasks up and divides by those of the step that have a pair.

    Args:
        scores: shape (candidates,).
        resolved: bool, same shape.
    """
    scores = scores.float()
    gaps = scores[resolved][:, None] - scores[~resolved][None, :]
    return -functional.logsigmoid(gaps).sum() / max(1, gaps.numel())


def classification(logits: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy, one value an example: -y log sigma(x) - (1 - y) log sigma(-x).

    Args:
        logits: x, such as `log_odds`, shape (examples,).
        labels: y, 0 to 1 or bool, same shape.
    """
    return functional.binary_cross_entropy_with_logits(logits.float(), labels.float(), reduction="none")


def brier(logits: Tensor, labels: Tensor) -> Tensor:
    """(sigma(x) - y)^2, one value an example (Brier 1950). Arguments as for `classification`."""
    return (torch.sigmoid(logits.float()) - labels.float()).square()


def regression(scores: Tensor, targets: Tensor, kind: str) -> Tensor:
    """How far scores are from targets, one value an example.

    `mse`: (s - t)^2. `huber`: (s - t)^2 / 2 up to a distance of 1, |s - t| - 1/2 beyond (Huber 1964).
    `bce`: `classification` of the score as a logit, for targets from 0 to 1.
    """
    scores, targets = scores.float(), targets.float()
    if kind == "bce":
        return classification(scores, targets)
    if kind == "huber":
        return functional.huber_loss(scores, targets, reduction="none")
    return (scores - targets).square()
