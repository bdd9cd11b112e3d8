"""Fields of rows that nobody vouches for: each is there, of the right type and storable, or the row
is a `BadRow` that names the field and says what is wrong with it."""

from __future__ import annotations

import json
from typing import Any


class BadRow(Exception):
    """A row cannot be imported: reason code of `miner.reasons.IMPORT`, and what is wrong with it."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


Row = dict[str, Any]


def parse_object(line: bytes) -> Row:
    """A line as a JSON object.

    Raises:
        BadRow: it is not UTF-8, not JSON, or not an object.
    """
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadRow("bad_json", f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise BadRow("bad_json", f"not JSON: {error.msg} at character {error.pos}") from None
    except (ValueError, RecursionError):
        raise BadRow("bad_json", "not JSON that can be read: nested too deep or a number too long") from None
    if not isinstance(value, dict):
        raise BadRow("bad_json", f"not an object but {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def text_field(row: Row, field: str, *, empty: bool = False) -> str:
    """A string field.

    Raises:
        BadRow: it is missing, no string, not storable as UTF-8, or empty (unless `empty`).
    """
    if field not in row:
        raise BadRow("bad_field", f"{field}: missing")
    return text_value(row[field], field, empty=empty)


def text_value(value: Any, field: str, *, empty: bool = False) -> str:
    """A value that must be a string; see `text_field`."""
    if not isinstance(value, str):
        raise BadRow("bad_field", f"{field}: expected a string, got {_kind(value)}")
    if not empty and not value.strip():
        raise BadRow("bad_field", f"{field}: empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRow("bad_field", f"{field}: holds half of a surrogate pair") from None
    return value


def optional_text(row: Row, *fields: str) -> str | None:
    """The first of several string fields that is there and not null, or None.

    Raises:
        BadRow: it is no string.
    """
    for field in fields:
        if row.get(field) is not None:
            return text_value(row[field], field, empty=True)
    return None
