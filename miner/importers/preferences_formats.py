"""The formats in which preference sets are published, and how a file's format is told by its fields.

A file has one format. `FORMATS` are tried in their order.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from miner.importers import preferences_sets as sets
from miner.importers.chats import is_messages, transcript
from miner.importers.fields import Row
from miner.importers.grouping import grouped_rows
from miner.importers.layouts import Layout
from miner.importers.preferences_making import PairReading
from miner.importers.rows import Rows, source_rows
from schemas.records import ImportedPair

CLASSES = ("language", "aspect")
"""Columns that sets publish as numbers of classes."""


@dataclasses.dataclass(frozen=True)
class Format(Layout[ImportedPair, PairReading]):
    """One format of preference sets.

    Attributes:
        grouped: several rows make a pair together.
    """

    grouped: bool = False

    @property
    def rows(self) -> Rows:
        """What reads the rows of a file."""
        return grouped_rows if self.grouped else functools.partial(source_rows, classes=CLASSES)


def _both(row: Row, such: Callable[[Any], bool]) -> bool:
    return such(row["chosen"]) and such(row["rejected"])


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], str)


def _is_transcript(value: Any) -> bool:
    return isinstance(value, str) and transcript(value) is not None


def _scored(row: Row) -> bool:
    return _both(row, is_messages) and any(
        chosen in row and rejected in row for chosen, rejected, _ in sets.SCORES
    )


FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format("pairs", ("input", "chosen", "rejected", "aspect", "evidence", "idx"), sets.own),
        Format("themis", ("input", "chosen", "rejected", "language", "aspect"), sets.themis),
        Format(
            "coderewardbench",
            ("prompt", "chosen", "rejected", "language", "aspect", "subset"),
            sets.coderewardbench,
        ),
        Format(
            "helpsteer-preference",
            (
                "prompt|context",
                "response1|response_1",
                "response2|response_2",
                "overall_preference|preference_strength",
            ),
            sets.helpsteer_preference,
        ),
        Format(
            "helpsteer", ("prompt", "response", "helpfulness", "correctness"), sets.helpsteer, grouped=True
        ),
        Format("ultrafeedback", ("instruction", "completions"), sets.ultrafeedback),
        Format(
            "ultrafeedback-binarized",
            ("chosen", "rejected", "score_chosen|chosen-rating|chosen_rating"),
            sets.chats,
            more=_scored,
        ),
        Format(
            "rewardbench2",
            ("prompt", "chosen", "rejected"),
            sets.rewardbench2,
            more=lambda row: _both(row, _are_texts),
        ),
        Format(
            "rewardbench",
            ("prompt", "chosen", "rejected", "subset", "chosen_model|rejected_model|id"),
            sets.rewardbench,
        ),
        Format(
            "tulu", ("prompt", "chosen", "rejected"), sets.chats, more=lambda row: _both(row, is_messages)
        ),
        Format("skywork", ("chosen", "rejected"), sets.chats, more=lambda row: _both(row, is_messages)),
        Format("hh", ("chosen", "rejected"), sets.transcripts, more=lambda row: _both(row, _is_transcript)),
        Format("plain", ("prompt|instruction|question|input", "chosen", "rejected"), sets.plain),
    )
}
"""Format by name, in the order in which they are tried."""
