"""The linear criterion model: a weight for each feature and head, in one JSON file that a person can read.

In: features of an edit. Out: for each head a calibrated probability, and what spoke for it. A head is a
criterion (by code) or `single_intent`. The file is data, never code: it is refused whole, with its name
and what is wrong, when it is too large, not of this format, or made for other features.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelers.commits.classifying import features
from schemas import shards
from schemas.errors import AssayError

FORMAT = 1
FILE = "criteria_model.json"
SINGLE = "single_intent"
MOST_BYTES = 32 << 20
SCALE = 1000
"""Weights are stored as whole thousandths."""


@dataclasses.dataclass(frozen=True)
class LinearModel:
    """Weights of features and how scores become probabilities.

    Attributes:
        heads: codes of the criteria, then `SINGLE`.
        names: the criteria's names by code: a head answers for a criterion of this code and name only.
        weights: features by name, a weight a head.
        bias: a number a head.
        slope, offset: the probability of a head is `sigmoid(slope * score + offset)` (Platt, 1999).
        threshold: probability from which the best criterion of an edit is given.
        digest: hash of the file, or of what would be written.
        about: how it was trained, for people.
    """

    heads: tuple[str, ...]
    names: Mapping[str, str]
    weights: Mapping[str, NDArray[np.float64]]
    bias: NDArray[np.float64]
    slope: NDArray[np.float64]
    offset: NDArray[np.float64]
    threshold: float
    digest: str
    about: Mapping[str, Any]

    @property
    def version(self) -> str:
        """Kind and digest: what a label says of who gave it."""
        return f"linear-{self.digest[:12]}"

    def scores(self, found: Mapping[str, float]) -> dict[str, float]:
        """Probability of each head, for features of one edit."""
        total = self.bias.copy()
        for name, value in found.items():
            weights = self.weights.get(name)
            if weights is not None:
                total += value * weights
        chances = 1 / (1 + np.exp(-np.clip(self.slope * total + self.offset, -30, 30)))
        return {head: round(float(chance), 4) for head, chance in zip(self.heads, chances, strict=True)}

    def reasons(self, found: Mapping[str, float], head: str, most: int = 6) -> list[str]:
        """Names of the features that raised a head's score most, the strongest first."""
        column = self.heads.index(head)
        gains = {
            name: value * self.weights[name][column] for name, value in found.items() if name in self.weights
        }
        ranked = sorted(gains, key=lambda name: (-gains[name], name))
        return [name for name in ranked[:most] if gains[name] >= 0.15]


def dump(model: LinearModel) -> str:
    """The model as the text of its file; `digest` is not part of it."""
    table = {
        name: [round(SCALE * float(weight)) for weight in row] for name, row in sorted(model.weights.items())
    }
    head = {
        "format": FORMAT,
        "kind": "linear",
        "features": features.VERSION,
        "heads": list(model.heads),
        "names": dict(model.names),
        "bias": [round(float(value), 4) for value in model.bias],
        "slope": [round(float(value), 4) for value in model.slope],
        "offset": [round(float(value), 4) for value in model.offset],
        "threshold": model.threshold,
        "about": model.about,
    }
    lines = [json.dumps(head, ensure_ascii=False)[:-1] + ', "weights": {']
    rows = [
        f"{json.dumps(name, ensure_ascii=False)}:{json.dumps(row, separators=(',', ':'))}"
        for name, row in table.items()
        if any(row)
    ]
    return lines[0] + "\n" + ",\n".join(rows) + "\n}}\n"


def save(model: LinearModel, folder: Path) -> str:
    """Write the model into a folder; returns its digest."""
    text = dump(model)
    shards.write_text(folder / FILE, text)
    return hashlib.sha256(text.encode()).hexdigest()


def _numbers(data: Mapping[str, Any], key: str, count: int) -> NDArray[np.float64]:
    values = data[key]
    if not isinstance(values, list) or len(values) != count:
        raise ValueError(f"{key!r} must be {count} numbers")
    return _row(values)


def _row(values: Sequence[Any]) -> NDArray[np.float64]:
    if not all(type(value) in (int, float) and math.isfinite(value) and abs(value) < 1e9 for value in values):
        raise ValueError("a weight is no number")
    return np.array(values, dtype=np.float64)


def parse(text: str, where: str) -> LinearModel:
    """Read a model from the text of its file.

    Raises:
        AssayError: it is not a model of this format for these features.
    """
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("kind") != "linear":
            raise ValueError(f"not a criterion model of format {FORMAT}")
        if data["features"] != features.VERSION:
            raise ValueError(
                f"made for features {data['features']}, these are {features.VERSION}; train it again"
            )
        heads, names = data["heads"], data["names"]
        if not (isinstance(heads, list) and heads and all(isinstance(head, str) for head in heads)):
            raise ValueError("'heads' must be a list of codes")
        if len(set(heads)) < len(heads) or heads[-1] != SINGLE:
            raise ValueError(f"'heads' must be different codes and end with {SINGLE!r}")
        if not isinstance(names, dict) or set(names) != set(heads[:-1]):
            raise ValueError("'names' must name each criterion of 'heads'")
        table = data["weights"]
        if not isinstance(table, dict) or any(
            not isinstance(row, list) or len(row) != len(heads) for row in table.values()
        ):
            raise ValueError("'weights' must hold a number a head for each feature")
        threshold = float(data["threshold"])
        if not 0 <= threshold <= 1:
            raise ValueError("'threshold' must be between 0 and 1")
        if not isinstance(data["about"], dict):
            raise ValueError("'about' must be a table")
        return LinearModel(
            heads=tuple(heads),
            names={code: str(name) for code, name in names.items()},
            weights={name: _row(row) / SCALE for name, row in table.items()},
            bias=_numbers(data, "bias", len(heads)),
            slope=_numbers(data, "slope", len(heads)),
            offset=_numbers(data, "offset", len(heads)),
            threshold=threshold,
            digest=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
            about=data["about"],
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        why = f"lacks {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise AssayError(f"{where}: cannot be used as a criterion model ({why})") from None


def load(folder: Path) -> LinearModel:
    """Read the model of a folder that `train criteria --backend linear` made.

    Raises:
        AssayError: there is none, or it cannot be used.
    """
    path = folder / FILE
    try:
        if path.stat().st_size > MOST_BYTES:
            raise AssayError(f"{path}: larger than {MOST_BYTES >> 20} MiB, so no criterion model")
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise AssayError(
            f"{path}: cannot be read ({why}); give a folder that `assay train criteria` made"
        ) from None
    return parse(text, str(path))


@functools.lru_cache(maxsize=1)
def built_in() -> LinearModel:
    """The model that ships with assay."""
    return parse(resources.files("labelers.commits").joinpath(FILE).read_text("utf-8"), "built-in classifier")
