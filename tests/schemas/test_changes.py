"""Lines of a change are those that splitting the whole file gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schemas.changes import changed_lines, lines_at


@given(st.text(alphabet="ab\n\ré\ud800", max_size=60), st.data())
def test_lines_are_those_of_the_split_file(text: str, data: st.DataObject) -> None:
    lines = text.split("\n")
    first = data.draw(st.integers(1, len(lines)))
    count = data.draw(st.integers(0, len(lines) - first + 1))
    assert lines_at(text, [(first, count)]) == lines[first - 1 : first - 1 + count]


def test_spans_past_the_end_give_what_there_is() -> None:
    assert lines_at("a\nb", [(2, 5)]) == ["b"]
    assert lines_at("a\nb", [(9, 1)]) == []
    assert lines_at("", []) == []


def test_both_sides_of_a_change() -> None:
    edit = {
        "old_contents": "a\nb\nc\n",
        "new_contents": "a\nx\ny\nc\nz\n",
        "hunks": [
            {"old_start": 2, "old_lines": 1, "new_start": 2, "new_lines": 2},
            {"old_start": 3, "old_lines": 0, "new_start": 5, "new_lines": 1},
        ],
    }
    assert changed_lines(edit) == (["b"], ["x", "y", "z"])
