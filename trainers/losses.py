"""The terms of the reward objective as pure functions of float32 tensors.

Each returns one value a pair (or a sum over tokens), never a mean: the loop divides by counts of the
whole optimizer step, so that a step's gradient does not depend on how it is cut into micro-batches.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def bradley_terry(chosen: Tensor, rejected: Tensor, margin: float = 0.0, flipped: float = 0.0) -> Tensor:
    """Negative log-likelihood of the preference, one value a pair.

    With z = r_c - r_r - margin and q = `flipped`: -(1 - q) log sigma(z) - q log sigma(-z).
    The model is Bradley & Terry 1952; the margin is that of Llama 2 (2307.09288, eq. 2); q, the
    probability that the label is the wrong way round, is the smoothing of cDPO (Mitchell 2023).

    Args:
        chosen: rewards of the preferred sides, shape (pairs,).
        rejected: rewards of the other sides, same shape.
        margin: difference that a pair has to exceed, at least 0.
        flipped: 0 to 0.5.
    """
    z = chosen.float() - rejected.float() - margin
    loss = -functional.logsigmoid(z)
    if flipped:
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


def token_nll(logits: Tensor, targets: Tensor) -> Tensor:
    """Sum over tokens of -log p(target), a scalar; the language-model term before its division by the
    step's count of completion tokens (GRM, Yang et al. 2024, 2406.10216, eq. 5, the SFT term).

    Args:
        logits: shape (tokens, vocabulary).
        targets: token ids, shape (tokens,).
    """
    return functional.cross_entropy(logits.float(), targets, reduction="sum")


def objective(
    bt: Tensor, lm: Tensor, magnitude: Tensor, *, pairs: int, lm_tokens: int, lm_weight: float, mu: float
) -> Tensor:
    """L = bt/pairs + lambda * lm/lm_tokens + mu * magnitude/pairs (Themis, 2605.00754, section 4.2; the
    magnitude term with the sign that makes it a penalty).

    Args:
        bt: sum of `bradley_terry` over a micro-batch.
        lm: sum of `token_nll` over it.
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
