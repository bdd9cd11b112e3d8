"""Configs from mappings: strict, and back to TOML without loss."""

from __future__ import annotations

import dataclasses
import tomllib
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.config import from_mapping, to_toml
from schemas.errors import AssayError


@dataclasses.dataclass(frozen=True)
class Inner:
    names: tuple[str, ...] = ("a",)
    share: float = 0.5


@dataclasses.dataclass(frozen=True)
class Config:
    text: str = "x"
    number: int = 1
    flag: bool = False
    maybe: int | None = None
    kind: Literal["one", "two"] = "one"
    inner: Inner = Inner()

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("number must not be negative")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"nubmer": 1}, "r.toml: no setting 'nubmer'; did you mean 'number'"),
        ({"number": "1"}, "number must be a whole number, got '1'"),
        ({"number": True}, "number must be a whole number"),
        ({"flag": 1}, "flag must be true or false"),
        ({"kind": "three"}, "kind must be one of one, two"),
        ({"inner": {"names": "a"}}, r"\[inner\]: names must be a list of text"),
        ({"inner": 3}, r"\[inner\]: expected a table"),
        ({"number": -1}, "number must not be negative"),
    ],
)
def test_bad_setting_is_named(data: dict[str, object], says: str) -> None:
    with pytest.raises(AssayError, match=says):
        from_mapping(Config, data, "r.toml")


@given(
    st.builds(
        Config,
        text=st.text(),
        number=st.integers(0, 2**62),
        flag=st.booleans(),
        maybe=st.none() | st.integers(0, 9),
        kind=st.sampled_from(["one", "two"]),
        inner=st.builds(
            Inner,
            names=st.lists(st.text()).map(tuple),
            share=st.floats(allow_nan=False, allow_infinity=False),
        ),
    )
)
def test_toml_and_back_is_the_same_config(config: Config) -> None:
    assert from_mapping(Config, tomllib.loads(to_toml(config)), "r.toml") == config


def test_text_that_is_not_utf8_is_named() -> None:
    with pytest.raises(AssayError, match=r"text = .*udcff.*not UTF-8"):
        to_toml(Config(text="repo\udcff"))
