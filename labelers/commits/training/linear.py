"""The linear criterion classifier: trained, calibrated and given a threshold.

In: features of sampled edits with weak labels, and of annotated edits. Out: a `LinearModel`, and the
out-of-fold probabilities that its calibration and threshold come from.

Two steps. First, for each criterion one regression on all features and one on the diff alone learn the
weak labels of tens of thousands of edits. Then a regression a head on the annotated edits sees their
scores beside the features themselves. Both steps are linear in the features, so the result is one weight
a feature and head. Every fold leaves out whole repositories, from both steps, where there are several.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelers.commits import criteria
from labelers.commits.classifying.model import SINGLE, LinearModel, dump
from labelers.commits.classifying.rules import CODES, votes
from labelers.commits.training import metrics, weak
from labelers.commits.training.config import CriteriaConfig
from labelers.commits.training.metrics import Judged
from schemas.errors import AssayError

FEW = 50
"""With fewer annotated rows a model learns from weak labels alone, and its threshold is a guess."""
WEAK_C, FINAL_C = 0.3, 0.5
WORDS, FACTS, LISTS, SCORES = 0.5, 0.5, 2.0, 0.5
"""How far words, facts, lists of purposes and scores of the first step are trusted: scales under one
penalty. Edits of several purposes are few, so what tells of them needs a large scale to weigh anything."""
SURE = {3: 1.0, 2: 0.7, 1: 0.3}
"""Weight of an annotated row by its confidence."""
BESIDE = 0.6
"""Weight of a row for a criterion that it improves too, as a part of its weight."""
GUESS = 0.6
"""Threshold of a model that no annotated rows could give one."""

_WORD = ("subject: ", "body: ", "first: ", "scope: ", "named: ", "+ ", "- ")
_LISTS = (
    *("purposes listed", "an action in a list", "several actions in the subject", "actions in the body"),
    "items in the body",
)
_SAID = (
    *(
        "subject: ",
        "body: ",
        "first: ",
        "prefix: ",
        "scope: ",
        "named: ",
        "closes an issue",
        "names an issue",
    ),
    *("negation in", "a measurement in", "length of the", "a short subject", "code in the subject"),
    *("a scope before", "names ", *_LISTS),
)


@dataclasses.dataclass(frozen=True)
class Example:
    """An edit to learn from: its repository, its features, and what a person said of it, if one did."""

    group: str
    features: Mapping[str, float]
    judged: Judged | None


@dataclasses.dataclass(frozen=True)
class Trained:
    """A model with out-of-fold probabilities of the annotated rows, and how often each weak rule is right."""

    model: LinearModel
    chances: NDArray[np.float64]
    single: NDArray[np.float64]
    rules: dict[str, dict[str, float]]


def folds_of(groups: Sequence[str], folds: int) -> NDArray[np.int64]:
    """The fold of each row: whole groups, the largest first, each to the fold with the fewest rows.

    Rows of one group alone are dealt out one by one, since nothing would be left to learn from.
    """
    sizes = Counter(groups)
    if len(sizes) == 1:
        return np.arange(len(groups), dtype=np.int64) % folds
    load = [0] * folds
    given = {}
    for group in sorted(sizes, key=lambda name: (-sizes[name], name)):
        fold = load.index(min(load))
        given[group] = fold
        load[fold] += sizes[group]
    return np.array([given[group] for group in groups], dtype=np.int64)


def vocabulary(examples: Sequence[Example], config: CriteriaConfig) -> list[str]:
    """Names of the features that enough edits of enough repositories have, sorted."""
    counts: Counter[str] = Counter()
    groups: dict[str, set[str]] = {}
    for example in examples:
        for name in example.features:
            counts[name] += 1
            groups.setdefault(name, set()).add(example.group)
    # A run of few repositories must still be able to give a model.
    enough = min(config.min_repositories, max(1, len({example.group for example in examples}) // 2))
    return sorted(
        name for name, count in counts.items() if count >= config.min_edits and len(groups[name]) >= enough
    )


def _matrix(examples: Sequence[Example], names: Sequence[str]) -> Any:
    from scipy import sparse  # type: ignore[import-untyped]

    place = {name: number for number, name in enumerate(names)}
    ends, columns, values = [0], [], []
    for example in examples:
        # In order of columns: sums of floats depend on order, and the model's bytes on the sums.
        known = sorted((place[name], value) for name, value in example.features.items() if name in place)
        columns += [column for column, _ in known]
        values += [value for _, value in known]
        ends.append(len(columns))
    return sparse.csr_matrix((values, columns, ends), shape=(len(examples), len(names)), dtype=np.float64)


def _fit(
    rows: Any, truth: NDArray[np.bool_], weight: NDArray[np.float64], penalty: float
) -> tuple[NDArray[np.float64], float]:
    """Weights and bias of a logistic regression; the log odds alone when there is one class."""
    from sklearn.linear_model import LogisticRegression

    if truth.all() or not truth.any():
        share = min(max(float(weight @ truth) / max(float(weight.sum()), 1e-9), 0.01), 0.99)
        return np.zeros(rows.shape[1]), float(np.log(share / (1 - share)))
    # Whether the limit of steps is reached depends on the data; what is had by then serves.
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = LogisticRegression(C=penalty, solver="lbfgs", max_iter=150, tol=1e-3).fit(
            rows, truth, sample_weight=weight
        )
    return made.coef_[0].astype(np.float64), float(made.intercept_[0])


@dataclasses.dataclass(frozen=True)
class _Data:
    """Weakly labelled rows and annotated rows as matrices."""

    weak: Any
    known: Any
    judged: list[Judged]
    words: NDArray[np.bool_]
    said: NDArray[np.bool_]
    ruled: NDArray[np.bool_]
    lists: NDArray[np.bool_]

    def targets(self, code: str) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """What annotators said of a head, and the weight of each row."""
        weight = np.array([SURE[row.confidence] for row in self.judged])
        truth = _truth(self.judged, code)
        beside = truth & np.array([code in row.also for row in self.judged], dtype=bool)
        return truth, np.where(beside, BESIDE * weight, weight)


def _first(
    data: _Data, rows: NDArray[np.int64], chances: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights (features x 2 criteria) and biases of the regressions on weak labels."""
    from scipy import sparse

    # Weak labels are sums of rules: a regression that saw the rules would learn nothing else.
    columns = [np.flatnonzero(~data.ruled), np.flatnonzero(~data.ruled & ~data.said)]
    weights = np.zeros((data.weak.shape[1], 2 * len(CODES)))
    bias = np.zeros(weights.shape[1])
    for part, chosen in enumerate(columns):
        seen = data.weak[rows][:, chosen]
        twice = sparse.vstack([seen, seen]).tocsr()
        for number in range(len(CODES)):
            chance = chances[rows, number]
            # A row that is a criterion with probability p is p of a row that is and 1 - p of one that is not.
            weight = np.concatenate([chance, 1 - chance])
            truth = np.repeat([True, False], len(rows))
            used = weight > 0.02
            at = part * len(CODES) + number
            weights[chosen, at], bias[at] = _fit(twice[used], truth[used], weight[used], WEAK_C)
    return weights, bias


def _heads(
    data: _Data, first: tuple[NDArray[np.float64], NDArray[np.float64]], rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights (features x heads) and biases, both steps in one."""
    from scipy import sparse

    weights, bias = first
    scale = np.where(data.words, WORDS, np.where(data.lists, LISTS, FACTS))
    seen = data.known[rows]
    scores = seen @ weights + bias
    middle = scores.mean(axis=0)
    both = sparse.hstack([seen @ sparse.diags(scale), sparse.csr_matrix((scores - middle) * SCORES)]).tocsr()
    heads = (*CODES, SINGLE)
    made, offsets = np.zeros((seen.shape[1], len(heads))), np.zeros(len(heads))
    for number, code in enumerate(heads):
        truth, weight = data.targets(code)
        found, offset = _fit(both, truth[rows], weight[rows], FINAL_C)
        direct, mixed = found[: seen.shape[1]], found[seen.shape[1] :] * SCORES
        made[:, number] = scale * direct + weights @ mixed
        offsets[number] = offset + (bias - middle) @ mixed
    return made, offsets


def _platt(score: NDArray[np.float64], truth: NDArray[np.bool_]) -> tuple[float, float]:
    slope, offset = _fit(score.reshape(-1, 1), truth, np.ones(len(score)), 1e3)
    return float(slope[0]), offset


def calibrated(
    scores: NDArray[np.float64], judged: Sequence[Judged]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """(slope a head, offset a head, probabilities) from out-of-fold scores, rows x heads (Platt, 1999)."""
    fitted = [_platt(scores[:, number], _truth(judged, code)) for number, code in enumerate((*CODES, SINGLE))]
    slope, offset = (np.array(column) for column in zip(*fitted, strict=True))
    return slope, offset, _sigmoid(slope * scores + offset)


def _truth(judged: Sequence[Judged], code: str) -> NDArray[np.bool_]:
    """What annotators said of a head."""
    if code == SINGLE:
        return np.array([row.single_intent for row in judged], dtype=bool)
    return np.array(
        [row.criterion != metrics.NONE and code in (row.criterion, *row.also) for row in judged], dtype=bool
    )


def _sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    made: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(x, -30, 30)))
    return made


def train(examples: Sequence[Example], config: CriteriaConfig, progress: Callable[[str], None]) -> Trained:
    """Train heads, calibrate them out of fold, and choose the threshold.

    Raises:
        AssayError: too few edits or features to learn anything from.
    """
    loose = [example for example in examples if example.judged is None]
    known = [example for example in examples if example.judged is not None]
    names = vocabulary(examples, config)
    if len(loose) < FEW or not names:
        raise AssayError(
            f"{len(loose)} edits that nobody annotated, with {len(names)} common features, are too few to "
            f"train on: {FEW} are needed at least; mine more history"
        )
    progress(f"{len(loose):,} edits with weak labels, {len(known):,} annotated, {len(names):,} features")
    judged = [example.judged for example in known if example.judged is not None]
    cast = np.array([votes(example.features) for example in (*loose, *known)], dtype=np.int8)
    fold = folds_of([example.group for example in known], config.folds)

    def weighed(left_out: int) -> tuple[NDArray[np.float64], dict[str, dict[str, float]]]:
        """Weak labels by rules that annotations of the other folds weigh."""
        told = {
            len(loose) + n: {code: bool(truths[code][n]) for code in CODES}
            for n in np.flatnonzero(fold != left_out).tolist()
        }
        chances, rules = weak.combine(cast, told)
        return chances[: len(loose)], rules

    truths = {code: _truth(judged, code) for code in CODES}
    chances, rules = weighed(-1)
    data = _Data(
        weak=_matrix(loose, names),
        known=_matrix(known, names),
        judged=judged,
        words=np.array([name.startswith(_WORD) for name in names]),
        said=np.array([name.startswith(_SAID) or " terms, " in name for name in names]),
        lists=np.array([name.startswith(_LISTS) for name in names]),
        ruled=np.array([" rule: " in name for name in names]),
    )
    everything = np.arange(len(loose))
    first = _first(data, everything, chances)
    if len(known) < FEW:
        return _weak_only(data, first, names, rules, [e.group for e in loose], config, progress)
    whole = len({example.group for example in known}) > 1
    of_group = {example.group: int(number) for example, number in zip(known, fold, strict=True) if whole}
    loose_fold = np.array([of_group.get(example.group, -1) for example in loose])
    heads = (*CODES, SINGLE)
    scores = np.zeros((len(known), len(heads)))
    for number in sorted(set(fold.tolist())):
        progress(f"fold {number + 1} of {config.folds}")
        rest = np.flatnonzero(loose_fold != number)
        part = _first(data, rest if len(rest) else everything, weighed(number)[0])
        weights, bias = _heads(data, part, np.flatnonzero(fold != number))
        left = np.flatnonzero(fold == number)
        scores[left] = data.known[left] @ weights + bias
    weights, bias = _heads(data, first, np.arange(len(known)))
    slope, offset, chances = calibrated(scores, judged)
    threshold = metrics.threshold_for(chances[:, :-1], CODES, judged, config.precision)
    model = _model(names, weights, bias, slope, offset, threshold, config, len(loose), len(known))
    return Trained(model, chances[:, :-1], chances[:, -1], rules)


def _weak_only(
    data: _Data,
    first: tuple[NDArray[np.float64], NDArray[np.float64]],
    names: list[str],
    rules: dict[str, dict[str, float]],
    groups: list[str],
    config: CriteriaConfig,
    progress: Callable[[str], None],
) -> Trained:
    progress(f"fewer than {FEW} annotated rows: weak labels alone, and a threshold that nobody measured")
    count = len(CODES)
    weights = np.hstack([first[0][:, :count], np.zeros((len(names), 1))])
    # One purpose is likelier than not; without annotations only what a message lists speaks against it.
    for name, against in (("several actions in the subject", -4.0), ("items in the body", -2.0)):
        if name in names:
            weights[names.index(name), -1] = against
    bias = np.append(first[1][:count], 2.2)
    ones, zeros = np.ones(count + 1), np.zeros(count + 1)
    model = _model(names, weights, bias, ones, zeros, GUESS, config, len(groups), len(data.judged))
    found = _sigmoid(data.known @ weights + bias)
    return Trained(model, found[:, :-1], found[:, -1], rules)


def _model(
    names: Sequence[str],
    weights: NDArray[np.float64],
    bias: NDArray[np.float64],
    slope: NDArray[np.float64],
    offset: NDArray[np.float64],
    threshold: float,
    config: CriteriaConfig,
    loose: int,
    known: int,
) -> LinearModel:
    spelled = {criterion.code: criterion.name for criterion in criteria.load() if criterion.code in CODES}
    model = LinearModel(
        heads=(*CODES, SINGLE),
        names=spelled,
        weights={name: row for name, row in zip(names, weights, strict=True) if np.abs(row).max() >= 0.02},
        bias=bias,
        slope=slope,
        offset=offset,
        threshold=threshold,
        digest="",
        about={
            "edits with weak labels": loose,
            "annotated edits": known,
            "precision aimed at": config.precision,
            "seed": config.seed,
        },
    )
    return dataclasses.replace(model, digest=hashlib.sha256(dump(model).encode()).hexdigest())
