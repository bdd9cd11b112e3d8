"""Trees of both sides, and the changed lines."""

from __future__ import annotations

import itertools

from edit_rows import NEW, OLD, edit
from hypothesis import given, settings
from hypothesis import strategies as st

from decompose.grammars import parse, tree_depth
from miner.changed import changed_text, regions
from miner.syntax import Parsed, Sides

PIECES = (
    "x = 1\n",
    "def f():\n    return 1\n",
    "    y\n",
    "(",
    ")",
    "'",
    '"""',
    "# c\n",
    "é",
    "\n",
    "if a:\n",
    "{[",
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


def sides(parsed: Parsed, old: str, new: str, language: str = "Python") -> Sides:
    found = parsed.sides(edit(old, new, language=language))
    assert isinstance(found, Sides)
    return found


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=2, max_size=5), st.sampled_from(["Python", "JavaScript", "Ruby", "C++"]))
def test_trees_are_those_of_each_side_parsed_alone(versions: list[str], language: str) -> None:
    parsed = Parsed()
    for old, new in itertools.pairwise(versions):
        found = sides(parsed, old, new, language)
        assert str(found.old.root_node) == str(parse(old.encode(), language).root_node)
        assert str(found.new.root_node) == str(parse(new.encode(), language).root_node)


def test_one_path_with_markup_does_not_lend_its_tree_to_another() -> None:
    parsed, text = Parsed(), "let x = <a>b;\n"
    with_markup = parsed.sides(edit(text, text + "\n", language="TypeScript", path="a.tsx"))
    plain = parsed.sides(edit(text + "\n", text, language="TypeScript", path="a.ts"))
    assert isinstance(with_markup, Sides)
    assert isinstance(plain, Sides)
    assert with_markup.old.root_node.has_error
    assert not plain.new.root_node.has_error


def test_text_that_no_parser_takes_is_told_and_the_next_one_is_parsed() -> None:
    parsed = Parsed()
    for bad in ("a\0b", "x" * 1_100_000, "<" * 5_000):
        assert isinstance(parsed.sides(edit(OLD, bad, language="C++")), str)
        assert isinstance(parsed.sides(edit(OLD, NEW)), Sides)


@given(TEXTS, st.integers(0, 9))
def test_depth_up_to_a_bound_is_that_of_the_tree(text: str, bound: int) -> None:
    tree = parse(text.encode(), "Python")
    depth = tree_depth(tree)
    assert tree_depth(tree, bound) == min(depth, bound)


@given(st.text("ab\n\r\x0cé\u2028", max_size=30), st.text("ab\n\r\x0cé\u2028", max_size=30))
def test_changed_lines_are_all_that_differs(old: str, new: str) -> None:
    row = edit(old, new)
    one, other = old.encode(), new.encode()
    removed, added = regions(one, row["hunks"], "old"), regions(other, row["hunks"], "new")
    made, at = b"", 0
    for gone, came in zip(removed, added, strict=True):
        made += one[at : gone.start] + other[came.start : came.end]
        at = gone.end
    assert made + one[at:] == other
    assert len(changed_text(one, removed)) == sum(place.end - place.start for place in removed)


def test_place_between_lines_is_a_region_without_a_line() -> None:
    row = edit("a\nb\n", "a\nx\nb\n")
    (place,) = regions(b"a\nb\n", row["hunks"], "old")
    assert (place.first, place.start, place.end) == (2, 2, 2)
