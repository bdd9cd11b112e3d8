"""What is shown of work whose size is known."""

from __future__ import annotations

import pytest

from assay import progress
from assay.progress import Meter, Quiet


class Noted(Quiet):
    """A view that keeps its notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep the note."""
        self.notes.append(text)


@pytest.fixture(autouse=True)
def _each_call_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_NOTE_EVERY", -1.0)


def test_share_speed_and_time_left_are_told() -> None:
    view = Noted()
    meter = Meter(view, "score")
    meter(250, 1000)
    assert view.notes[0].startswith("score: 250 of 1,000 rows (25%), ")
    assert "rows/s, about" in view.notes[0]
    meter(1000, 1000)
    assert view.notes[1].startswith("score: 1,000 of 1,000 rows (100%), ")
    assert "left" not in view.notes[1]


def test_what_had_been_done_before_says_nothing_of_the_speed() -> None:
    view = Noted()
    meter = Meter(view, "score")
    meter(900, 1000, 0)
    assert view.notes == ["score: 900 of 1,000 rows (90%)"]
    meter._begun -= 1e6
    meter(910, 1000, 10)
    assert "about 9,000,0" in view.notes[1]


@pytest.mark.parametrize("total", [None, 0])
def test_a_number_of_rows_that_is_not_known_is_not_made_up(total: int | None) -> None:
    view = Noted()
    Meter(view, "score")(7, total)
    assert "%" not in view.notes[0]
    assert "left" not in view.notes[0]


def test_many_calls_make_few_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_NOTE_EVERY", 3600.0)
    view = Noted()
    meter = Meter(view, "score")
    for done in range(1, 101):
        meter(done, 100)
    assert len(view.notes) == 1
