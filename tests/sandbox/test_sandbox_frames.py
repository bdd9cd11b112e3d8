"""Frames from a hostile process: cut, glued, damaged or senseless, they never hurt the supervisor."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import DecodeError, Job, encode
from sandbox.frames import FrameError, FrameOverflowError, FrameReader, pack
from sandbox.verdict import Frames, _Relay

NONCE = b"12345678"
kinds = st.sampled_from([b"R", b"O", b"P", b"D", b"X", b"Q", b"A", b"Z"])
frames = st.lists(st.tuples(kinds, st.binary(max_size=40)), max_size=6)

parts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=3)
        | inner.map(encode)
        | inner.map(lambda value: b"v" + encode(value))
        | inner.map(lambda value: b"e" + encode(value))
    ),
    max_leaves=10,
)
JOBS = [
    Job("calls", {"solution.py": ""}, entry="f", record=("f",)),
    Job("split", {"solution.py": "", "test.py": ""}, entry="f", in_place=True),
]


@settings(deadline=None)
@given(frames, st.integers(1, 50))
def test_frames_survive_any_cutting(sent: list[tuple[bytes, bytes]], step: int) -> None:
    stream = b"".join(pack(NONCE, kind, payload) for kind, payload in sent)
    reader = FrameReader(NONCE, 10_000)
    received = []
    for at in range(0, len(stream), step):
        received += reader.feed(stream[at : at + step])
    assert received == sent


@settings(deadline=None)
@given(st.binary(min_size=13, max_size=100))
def test_bytes_without_the_nonce_are_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader(NONCE, 10_000).feed(b"!" + data)


def test_a_frame_or_stream_beyond_the_bound_is_refused_before_it_is_stored() -> None:
    with pytest.raises(FrameOverflowError):
        FrameReader(NONCE, 100).feed(NONCE + b"O" + b"\xff\xff\xff\xff")
    reader = FrameReader(NONCE, 100)
    reader.feed(pack(NONCE, b"O", bytes(50)))
    with pytest.raises(FrameOverflowError):
        reader.feed(pack(NONCE, b"O", bytes(50)))


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(JOBS), kinds, parts, st.booleans())
def test_senseless_frames_raise_decode_error_only(job: Job, kind: bytes, value: object, suite: bool) -> None:
    for payload in (encode(value), b"v" + encode(value), b"u" + encode(value)):
        with contextlib.suppress(DecodeError):
            Frames(job, suite=suite).take(kind, payload)


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(JOBS), parts | st.tuples(parts, parts, parts).map(list))
def test_senseless_answers_raise_decode_error_only(job: Job, value: object) -> None:
    with contextlib.suppress(DecodeError):
        _Relay(job).check(encode(value))


def test_a_candidate_cannot_call_its_suite_broken() -> None:
    blame = encode(["suite-load", "SyntaxError", "broken", ""])
    Frames(JOBS[1], suite=True).take(b"X", blame)
    with pytest.raises(DecodeError, match="unknown category"):
        Frames(JOBS[1], suite=False).take(b"X", blame)


def test_text_of_a_hostile_frame_is_bounded_and_valid() -> None:
    frames = Frames(JOBS[0], suite=False)
    frames.take(b"X", encode(["load", "E\ud800", "x" * 100_000, ""]))
    assert frames.failure is not None
    assert all(len(text.encode()) <= 4000 for text in frames.failure)
