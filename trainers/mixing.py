"""Which rows are trained on, when the recipe asks for shares of them: of resolved ones, of policies.

In: rows with an id and the cell that each is in, and the share that each cell should have. Out: which rows
are too many. Shares are met exactly but for rounding, with as many rows as that allows; which of a cell stay
is drawn by their ids alone. What is no share is an `AssayError`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from schemas.errors import AssayError
from schemas.ids import fraction

Cell = TypeVar("Cell")


def parse_shares(values: Sequence[str]) -> dict[str, float]:
    """Shares that add up to 1, from `name=share` each; only their ratios matter.

    Raises:
        AssayError: one is not of this form, not above 0, or named twice.
    """
    shares: dict[str, float] = {}
    for value in values:
        name, _, number = value.rpartition("=")
        try:
            share = float(number)
        except ValueError:
            share = math.nan
        if not name or not 0 < share < math.inf:
            raise AssayError(f"train.policies: {value!r} is not `name=share` with a share above 0")
        if name in shares:
            raise AssayError(f"train.policies: {name!r} is named twice")
        shares[name] = share
    return {name: share / sum(shares.values()) for name, share in shares.items()}


def left_out(rows: Mapping[int, tuple[str, Cell]], shares: Mapping[Cell, float], seed: int) -> list[int]:
    """Numbers of rows that are too many of their cell, in order.

    With n_c rows in cell c and its share w_c, N = min n_c / w_c rows can be had, and w_c N of each stay.

    Args:
        rows: by number, the id and the cell, which is in `shares`.
        shares: above 0.
        seed: seed of the draw.
    """
    members: dict[Cell, list[int]] = {cell: [] for cell in shares}
    for number, (_, cell) in rows.items():
        members[cell].append(number)
    most = min(len(members[cell]) / share for cell, share in shares.items())
    out: list[int] = []
    for cell, share in shares.items():
        drawn = sorted(members[cell], key=lambda number: (fraction(seed, "mix", rows[number][0]), number))
        # A share times a quotient by it may miss a whole number by a little.
        out += drawn[math.floor(share * most + 1e-6) :]
    return sorted(out)
