"""How a record is declared once: Python type, Arrow schema, documentation and checks.

A record is a frozen dataclass made by `@record`; every field is declared with `column(doc)`. From
that one place come the Arrow schema (`schema_of`), the check of a row (`validate`), and the text of
dataset cards and reference pages (`describe`). Field types are builtin scalars, other records
(an Arrow struct), `list[...]` of either, and `X | None` for a nullable column.

`validate` raises `RowError` for an unknown, missing or mistyped field and names the row and field.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, TypeVar, dataclass_transform

import pyarrow as pa

from schemas.errors import RowError

T = TypeVar("T")

Text = Annotated[str, pa.large_string()]
"""A string that may be a whole file: 64-bit offsets, so that no column can overflow 2 GiB."""

Int8 = Annotated[int, pa.int8()]
Int32 = Annotated[int, pa.int32()]

_SCALARS: dict[type, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.large_binary(),
}


def column(doc: str) -> Any:
    """Declare a field of a record; `doc` is the sentence that cards and reference pages print."""
    return dataclasses.field(metadata={"doc": doc})


@dataclass_transform(field_specifiers=(column,), frozen_default=True, kw_only_default=True)
def record(table: str | None = None, sort: tuple[str, ...] = ("id",)) -> Callable[[type[T]], type[T]]:
    """Make a class a record. `table` names its folder in a run directory, `sort` its order in a shard."""

    def wrap(cls: type[T]) -> type[T]:
        made = dataclasses.dataclass(frozen=True, kw_only=True, slots=True)(cls)
        made.__table__ = table  # type: ignore[attr-defined]
        made.__sort__ = sort  # type: ignore[attr-defined]
        return made

    return wrap


@dataclasses.dataclass(frozen=True)
class _Column:
    name: str
    arrow: pa.DataType
    nullable: bool
    doc: str
    check: Callable[[Any], str | None]


def _optional(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        if len(rest) != 1:
            raise TypeError(f"a column has one type, not {hint}")
        return rest[0], True
    return hint, False


def _scalar_check(expected: type, arrow: pa.DataType) -> Callable[[Any], str | None]:
    if expected is str:

        def check_str(value: Any) -> str | None:
            if type(value) is not str:
                return f"expected str, got {type(value).__name__}"
            try:
                value.encode()
            except UnicodeEncodeError:
                return "text with a lone surrogate cannot be stored as UTF-8"
            return None

        return check_str
    if expected is int:
        bound = 1 << (arrow.bit_width - 1)

        def check_int(value: Any) -> str | None:
            if type(value) is not int:
                return f"expected int, got {type(value).__name__}"
            return None if -bound <= value < bound else f"{value} does not fit {arrow}"

        return check_int

    def check(value: Any) -> str | None:
        if type(value) is expected or (expected is float and type(value) is int):
            return None
        return f"expected {expected.__name__}, got {type(value).__name__}"

    return check


def _compile(hint: Any) -> tuple[pa.DataType, Callable[[Any], str | None]]:
    """The Arrow type of a type hint and a check that returns what is wrong, or None."""
    if typing.get_origin(hint) is Annotated:
        base, arrow = typing.get_args(hint)
        return arrow, _scalar_check(base, arrow)
    if hint in _SCALARS:
        return _SCALARS[hint], _scalar_check(hint, _SCALARS[hint])
    if typing.get_origin(hint) is list:
        inner, nullable = _optional(typing.get_args(hint)[0])
        arrow, item_check = _compile(inner)

        def check_list(value: Any) -> str | None:
            if not isinstance(value, (list, tuple)):
                return f"expected a list, got {type(value).__name__}"
            for index, item in enumerate(value):
                problem = None if item is None and nullable else item_check(item)
                if problem:
                    return f"[{index}]{_joint(problem)}"
            return None

        return pa.list_(pa.field("element", arrow, nullable)), check_list
    if dataclasses.is_dataclass(hint):
        columns = _columns(typing.cast("type", hint))
        struct = pa.struct([pa.field(c.name, c.arrow, c.nullable) for c in columns.values()])
        return struct, functools.partial(_row_problem, columns)
    raise TypeError(f"no Arrow type for {hint}")


def _joint(problem: str) -> str:
    """A problem of a nested value begins with its own path or colon; a plain one is set off by a colon."""
    return problem if problem[0] in ".[:" else f": {problem}"


def _row_problem(columns: Mapping[str, _Column], value: Any) -> str | None:
    if isinstance(value, Mapping):
        if value.keys() != columns.keys():
            if unknown := sorted(map(str, value.keys() - columns.keys())):
                return f".{unknown[0]}: unknown field"
            return f".{sorted(columns.keys() - value.keys())[0]}: missing"
        get: Callable[[str], Any] = value.__getitem__
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = {f.name for f in dataclasses.fields(value)}
        if names != columns.keys():
            return f": {type(value).__name__} is another record"
        get = functools.partial(getattr, value)
    else:
        return f": expected a record, got {type(value).__name__}"
    for name, col in columns.items():
        item = get(name)
        if item is None:
            if not col.nullable:
                return f".{name}: null, but the field is not nullable"
        elif problem := col.check(item):
            return f".{name}{_joint(problem)}"
    return None


@functools.cache
def _columns(cls: type) -> dict[str, _Column]:
    hints = typing.get_type_hints(cls, include_extras=True)
    columns = {}
    for field in dataclasses.fields(cls):
        hint, nullable = _optional(hints[field.name])
        arrow, check = _compile(hint)
        columns[field.name] = _Column(field.name, arrow, nullable, field.metadata["doc"], check)
    return columns


@functools.cache
def schema_of(cls: type) -> pa.Schema:
    """The Arrow schema of a record; the same object for every shard of its table."""
    return pa.schema([pa.field(c.name, c.arrow, c.nullable) for c in _columns(cls).values()])


def validate(cls: type, row: Any, where: str = "row") -> None:
    """Check one row (record or mapping) against a record.

    Raises:
        RowError: names the table, `where` and the field when one is unknown, missing or mistyped.
    """
    if problem := _row_problem(_columns(cls), row):
        raise RowError(f"{cls.__name__} {where}{_joint(problem)}")


def as_row(value: Any) -> Any:
    """A record as plain dicts and lists, as pyarrow takes it. (Several times faster than asdict.)"""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: as_row(getattr(value, name)) for name in _columns(type(value))}
    if isinstance(value, (list, tuple)):
        return [as_row(item) for item in value]
    if isinstance(value, Mapping):
        return {key: as_row(item) for key, item in value.items()}
    return value


def table_of(cls: type) -> str:
    """The folder of a record's table in a run directory; an error for a record that is only nested."""
    table: str | None = cls.__table__  # type: ignore[attr-defined]
    if table is None:
        raise TypeError(f"{cls.__name__} is a part of other records and has no table")
    return table


def sort_of(cls: type) -> tuple[str, ...]:
    """The fields that a shard is sorted by; empty keeps the order of the source."""
    order: tuple[str, ...] = cls.__sort__  # type: ignore[attr-defined]
    return order


def derived(
    cls: type, name: str, columns: Collection[str] | None = None, types: Mapping[str, Any] | None = None
) -> type:
    """A record with some of another's columns, in its order, and some of these of another type.

    Args:
        columns: names of the columns that it has; all of them when None.
        types: column -> type hint in place of the other record's.
    """
    hints = {**typing.get_type_hints(cls, include_extras=True), **(types or {})}
    fields = [
        (field.name, hints[field.name], dataclasses.field(metadata=field.metadata))
        for field in dataclasses.fields(cls)
        if columns is None or field.name in columns
    ]
    made = dataclasses.make_dataclass(name, fields, frozen=True, kw_only=True, slots=True)
    made.__table__ = None  # type: ignore[attr-defined]
    made.__sort__ = tuple(one for one in sort_of(cls) if columns is None or one in columns)  # type: ignore[attr-defined]
    return made


def describe(cls: type, prefix: str = "") -> list[tuple[str, str, str]]:
    """(column, type, documentation) of a record, nested records below their column as `a.b`."""
    rows = []
    hints = typing.get_type_hints(cls, include_extras=True)
    for name, col in _columns(cls).items():
        inner, _ = _optional(hints[name])
        many = typing.get_origin(inner) is list
        if many:
            inner, _ = _optional(typing.get_args(inner)[0])
        nested = dataclasses.is_dataclass(inner)
        kind = (
            ("struct" if nested else str(_compile(inner)[0]))
            if not many
            else ("list of struct" if nested else f"list of {_compile(inner)[0]}")
        )
        rows.append((prefix + name, kind + (", nullable" if col.nullable else ""), col.doc))
        if nested:
            rows += describe(typing.cast("type", inner), f"{prefix}{name}.")
    return rows
