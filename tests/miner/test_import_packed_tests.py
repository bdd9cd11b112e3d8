"""Packed private tests: one string comes out, and nothing in a payload ever runs."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from problem_rows import dropped, kept, livecodebench, pack, run, write

from miner.importers.fields import BadRow
from miner.importers.packed import pickled_text, unpacked


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@given(st.text(), st.integers(2, pickle.HIGHEST_PROTOCOL))
def test_any_text_comes_out_as_it_was_pickled(text: str, protocol: int) -> None:
    assert unpacked(pack(text, protocol), 1 << 20, "x") == text


@pytest.mark.parametrize("length", [0, 255, 256, 65_535, 65_536, 200_000])
def test_texts_of_all_length_classes_come_out(length: int) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickled_text(pickle.dumps("x" * length, protocol), "x") == "x" * length


def test_long_length_field_is_read() -> None:
    assert pickled_text(b"\x80\x04\x8d\x03" + b"\0" * 7 + b"abc.", "x") == "abc"


class Creates:
    """Unpickled, it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_payload_with_code_runs_nothing_and_costs_its_row_only(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        evil = packed(pickle.dumps(Creates(trap), protocol))
        nested = packed(pickle.dumps(["[]", Creates(trap)], protocol))
        rows = [
            livecodebench(0),
            livecodebench(1, private_test_cases=evil),
            livecodebench(2, private_test_cases=nested),
            livecodebench(3),
        ]
        outcomes = run(write(tmp_path / "set.jsonl", *rows))
        assert not trap.exists()
        assert [one.name for one in kept(outcomes)] == ["0_A", "3_A"]
        assert {one.reason for one in dropped(outcomes)} == {"bad_payload"}
    pickle.loads(pickle.dumps(Creates(trap)))
    assert trap.exists()  # the payload does what it is feared for, where it is unpickled


@pytest.mark.parametrize(
    "value",
    [1, None, b"[]", ["[]"], ("a", "b"), {"a": 1}, str, os.system, 1.5],
    ids=lambda value: repr(value)[:9],
)
def test_payload_of_anything_but_a_string_is_refused(value: Any) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(BadRow, match="bad_payload"):
            pickled_text(pickle.dumps(value, protocol), "x")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"\x80\x04.",
        b"\x8c\x03abc",
        b"\x8c\x03ab",
        b"\x8c",
        b"X\xff\xff\xff\xffabc.",
        b"\x8d" + b"\xff" * 8 + b"abc.",
        b"\x8c\x01a\x8c\x01b.",
        b"\x8c\x01a.\x8c\x01b.",
        b"\x8c\x01\xff.",
        b"Pid\n.",
        b"\x8c\x01aQ.",
        b"Vabc\n.",
    ],
)
def test_broken_and_cunning_pickles_are_refused(data: bytes) -> None:
    with pytest.raises(BadRow, match="bad_payload"):
        pickled_text(data, "x")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_string_or_refused(data: bytes) -> None:
    try:
        assert isinstance(pickled_text(data, "x"), str)
    except BadRow:
        return


def test_decompression_bomb_costs_its_row_only(tmp_path: Path) -> None:
    bomb = packed(b"[" * (64 << 20))
    assert len(bomb) < 200_000
    rows = [livecodebench(0), livecodebench(1, private_test_cases=bomb), livecodebench(2)]
    outcomes = run(write(tmp_path / "set.jsonl", *rows), max_row_bytes=1 << 20)
    assert [one.name for one in kept(outcomes)] == ["0_A", "2_A"]
    assert [one.reason for one in dropped(outcomes)] == ["unpacks_too_large"]


@pytest.mark.parametrize(
    "text",
    ["not base64!", "QUJD", packed(b"x")[:-8], base64.b64encode(zlib.compress(b"x" * 999)[:-4]).decode()],
)
def test_what_is_not_packed_as_published_is_refused(text: str) -> None:
    with pytest.raises(BadRow, match="bad_payload"):
        unpacked(text, 1 << 20, "x")


def test_packed_text_that_is_no_json_is_a_bad_field(tmp_path: Path) -> None:
    rows = [livecodebench(0), livecodebench(1, private_test_cases=pack("[")), livecodebench(2)]
    (bad,) = dropped(run(write(tmp_path / "set.jsonl", *rows)))
    assert bad.reason == "bad_field"
    deep = livecodebench(1, private_test_cases=pack("[" * 100_000))
    (bad,) = dropped(run(write(tmp_path / "set.jsonl", livecodebench(0), deep)))
    assert bad.reason == "bad_field"


def test_largest_text_that_is_allowed_is_read() -> None:
    text = json.dumps(["x" * 1000])
    size = len(pickle.dumps(text, 4))
    assert unpacked(pack(text), size, "x") == text
    with pytest.raises(BadRow, match="unpacks_too_large"):
        unpacked(pack(text), size - 1, "x")
