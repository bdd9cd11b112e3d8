"""A layout in which sets are published, and how a row's layout is told by its fields.

Layouts are tried in the order of their table, most particular first, since newer sets took over the
fields of older ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from miner.importers.fields import BadRow, Row

Record = TypeVar("Record")
By = TypeVar("By")
Form = TypeVar("Form", bound="Layout[Any, Any]")


@dataclasses.dataclass(frozen=True)
class Layout(Generic[Record, By]):
    """One layout.

    Attributes:
        name: its name in the settings.
        fields: fields that a row must have, for a person; `a|b` is either.
        read: makes records of a row, or raises `BadRow`.
        more: what else makes a row one of this layout.
    """

    name: str
    fields: tuple[str, ...]
    read: Callable[[Row, By], list[Record]]
    more: Callable[[Row], bool] = lambda _: True

    def fits(self, row: Row) -> bool:
        """Whether a row has the fields of this layout."""
        return all(any(one in row for one in field.split("|")) for field in self.fields) and self.more(row)


def choose(row: Row, layouts: Mapping[str, Form]) -> Form:
    """The layout of a row.

    Raises:
        BadRow: it has the fields of none; names the known ones and what was seen.
    """
    for one in layouts.values():
        if one.fits(row):
            return one
    seen = ", ".join(sorted(str(name)[:40] for name in list(row)[:20])) or "none"
    known = "; ".join(f"{one.name} ({', '.join(one.fields)})" for one in layouts.values())
    raise BadRow("bad_field", f"its fields are those of no known format: {seen}. Known are {known}")
