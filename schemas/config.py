"""Configurations: frozen dataclasses from and to TOML, with strict checks.

A stage's config is a flat frozen dataclass of `str`, `int`, `float`, `bool`, `tuple[str, ...]`,
`tuple[float, ...]` and `X | None`; a recipe holds configs, and lists of them (TOML's arrays of tables).
A key that does not exist or a value of another type is an `AssayError` that names the place and, for a
key, the nearest one that exists.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from schemas.errors import AssayError

T = TypeVar("T")

MAX_TOML_BYTES = 1 << 20
"""A file of settings that is larger is something else."""


def read_toml(path: Path, what: str) -> str:
    """The text of a file of settings; `what` says in errors what it should be.

    Raises:
        AssayError: it cannot be read, is not UTF-8, or is too large.
    """
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_TOML_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        raise AssayError(f"{path}: the {what} cannot be read ({error})") from None
    if len(data) > MAX_TOML_BYTES:
        raise AssayError(f"{path}: larger than {MAX_TOML_BYTES:,} bytes, so not a {what}")
    return text


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """TOML as mappings.

    Raises:
        AssayError: it is none, or holds what Python's reader gives up on.
    """
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also a number of thousands of digits
        raise AssayError(f"{where}: not valid TOML ({error})") from None
    except RecursionError:
        raise AssayError(f"{where}: not valid TOML (nested too deeply)") from None


def _fits(hint: Any, value: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(arg, value) for arg in typing.get_args(hint))
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if origin is tuple:
        args = typing.get_args(hint)
        return (
            isinstance(value, (list, tuple))
            and (args[-1] is Ellipsis or len(value) == len(args))
            and all(_fits(args[0], item) for item in value)
        )
    if hint is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is hint


def _named(hint: Any) -> str:
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, typing.get_args(hint)))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_named(arg) for arg in typing.get_args(hint) if arg is not type(None))
    if origin is tuple:
        args = typing.get_args(hint)
        many = "" if args[-1] is Ellipsis else f"{len(args)}: "
        return f"a list of {many}{_named(args[0])}"
    return {str: "text", int: "a whole number", float: "a number", bool: "true or false"}.get(hint, str(hint))


def from_mapping(cls: type[T], data: Any, where: str) -> T:
    """Make a config (nested configs from nested tables) from what a TOML file or a command line gave.

    Raises:
        AssayError: unknown key, value of another type, or a value that the config itself refuses.
    """
    if not isinstance(data, Mapping):
        raise AssayError(f"{where}: expected a table of settings, got {data!r}")
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, 1)
            raise AssayError(
                f"{where}: no setting {key!r}"
                + (f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(hints)}")
            )
        hint = hints[key]
        item = _item_of(hint)
        if item is not None:
            if not isinstance(value, (list, tuple)):
                raise AssayError(f"{where}: {key} must be a list of tables, [[{key}]], got {value!r}")
            numbered = enumerate(value, 1)
            values[key] = tuple(from_mapping(item, one, f"{where} [[{key}]] {n}") for n, one in numbered)
        elif dataclasses.is_dataclass(hint):
            values[key] = from_mapping(typing.cast("type[Any]", hint), value, f"{where} [{key}]")
        elif not _fits(hint, value):
            raise AssayError(f"{where}: {key} must be {_named(hint)}, got {value!r}")
        elif isinstance(value, (list, tuple)):
            values[key] = tuple(map(float, value)) if float in typing.get_args(hint) else tuple(value)
        else:
            values[key] = float(value) if hint is float else value
    try:
        return cls(**values)
    except ValueError as error:
        raise AssayError(f"{where}: {error}") from None


def _item_of(hint: Any) -> Any:
    """The config that a list is made of; None for any other hint."""
    args = typing.get_args(hint)
    return args[0] if typing.get_origin(hint) is tuple and dataclasses.is_dataclass(args[0]) else None


def toml_value(value: Any) -> str:
    """A text, number, boolean or list of them in TOML."""
    # A JSON string, number, boolean or array is the same in TOML once DEL is escaped too.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def to_toml(config: Any) -> str:
    """A config as TOML, every setting written out, but for `None`, since TOML has no null, and empty lists of
    tables.

    Raises:
        AssayError: a text, such as a path, is not UTF-8, which is all that TOML can hold.
    """
    lines, tables = [], []
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            tables.append(f"\n[{field.name}]\n{to_toml(value)}")
        elif _item_of(hints[field.name]) is not None:
            # No `name = []` where there are none: nobody could add a table to such a file.
            tables += [f"\n[[{field.name}]]\n{to_toml(one)}" for one in value]
        elif value is not None:
            line = f"{field.name} = {toml_value(value)}"
            try:
                line.encode()
            except UnicodeEncodeError:
                shown = line.encode(errors="backslashreplace").decode()
                raise AssayError(f"{shown}: is not UTF-8, so no recipe can hold it; rename it") from None
            lines.append(line)
    return "".join(f"{line}\n" for line in lines) + "".join(tables)
