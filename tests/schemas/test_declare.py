"""The declaration of records: what `validate` refuses, and that Arrow and cards follow from it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.declare import Int8, as_row, column, describe, record, schema_of, table_of, validate
from schemas.errors import RowError
from schemas.records import SPLIT_TABLES, TABLES, Hunk, PreferencePair


@record()
class Inner:
    n: Int8 = column("a small number")
    note: str | None = column("a note")


@record(table="outers", sort=("name",))
class Outer:
    name: str = column("a name")
    weight: float = column("a weight")
    flag: bool = column("a flag")
    inners: list[Inner] = column("nested records")
    maybe: list[str | None] = column("strings with holes")
    one: Inner | None = column("one nested record")


def good() -> dict[str, Any]:
    return {
        "name": "a",
        "weight": 1.5,
        "flag": True,
        "inners": [{"n": 3, "note": None}],
        "maybe": ["x", None],
        "one": None,
    }


def test_good_row_passes_as_mapping_and_as_record() -> None:
    validate(Outer, good())
    validate(Outer, Outer(**{**good(), "inners": [Inner(n=3, note="x")]}))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"extra": 1}, r"Outer row 7\.extra: unknown field"),
        ({"name": None}, r"\.name: null"),
        ({"name": 3}, r"\.name: expected str, got int"),
        ({"weight": "1"}, r"\.weight: expected float, got str"),
        ({"weight": True}, r"\.weight: expected float, got bool"),
        ({"flag": 1}, r"\.flag: expected bool, got int"),
        ({"name": "\ud800"}, r"\.name: .*surrogate"),
        ({"inners": {"n": 3}}, r"\.inners: expected a list, got dict"),
        ({"inners": [{"n": 3}]}, r"\.inners\[0\]\.note: missing"),
        ({"inners": [{"n": 300, "note": None}]}, r"\.inners\[0\]\.n: 300 does not fit int8"),
        ({"inners": [{"n": True, "note": None}]}, r"\.inners\[0\]\.n: expected int, got bool"),
        ({"inners": [None]}, r"\.inners\[0\]: expected a record, got NoneType"),
        ({"maybe": [3]}, r"\.maybe\[0\]: expected str, got int"),
        ({"one": Hunk(old_start=1, old_lines=1, new_start=1, new_lines=1)}, r"\.one: Hunk is another record"),
    ],
)
def test_bad_row_is_refused_with_row_and_field_named(change: dict[str, Any], says: str) -> None:
    with pytest.raises(RowError, match=says):
        validate(Outer, {**good(), **change}, "row 7")


def test_missing_field_is_named() -> None:
    row = good()
    del row["flag"]
    with pytest.raises(RowError, match=r"Outer row\.flag: missing"):
        validate(Outer, row)


@given(st.integers())
def test_an_integer_passes_exactly_when_arrow_can_hold_it(n: int) -> None:
    row = {"n": n, "note": None}
    if -128 <= n < 128:
        validate(Inner, row)
        assert pa.Table.from_pylist([row], schema=schema_of(Inner)).to_pylist() == [row]
    else:
        with pytest.raises(RowError):
            validate(Inner, row)


def test_what_passes_survives_arrow_unchanged() -> None:
    table = pa.Table.from_pylist([good()], schema=schema_of(Outer))
    assert table.to_pylist() == [good()]


def test_as_row_unwraps_nested_records() -> None:
    made = Outer(**{**good(), "inners": [Inner(n=3, note=None)], "one": Inner(n=1, note="y")})
    assert as_row(made) == dataclasses.asdict(made)


def test_every_column_of_every_table_is_documented() -> None:
    for cls in TABLES.values():
        for name, kind, doc in describe(cls):
            assert doc
            assert kind
            assert not doc.endswith("."), name


def test_no_table_holds_an_arrow_map_which_datasets_cannot_load() -> None:
    def types(kind: pa.DataType) -> list[pa.DataType]:
        inner = [kind.field(i).type for i in range(kind.num_fields)]
        return [kind, *(deep for one in inner for deep in types(one))]

    for cls in TABLES.values():
        assert not any(pa.types.is_map(kind) for field in schema_of(cls) for kind in types(field.type))


def test_pairs_begin_with_the_columns_of_themis_code_preference() -> None:
    names = schema_of(PreferencePair).names
    assert names[:8] == ["system", "input", "chosen", "rejected", "language", "aspect", "source", "idx"]


def test_published_tables_know_their_split() -> None:
    for table in SPLIT_TABLES:
        assert "split" in schema_of(TABLES[table]).names


def test_nested_record_has_no_table() -> None:
    with pytest.raises(TypeError, match="has no table"):
        table_of(Hunk)
