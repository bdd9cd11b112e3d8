"""The program in an answer: every form that models give it, and where its functions stand in the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decompose.functions import functions
from labelers.programs.answers import Asked, fenced, find, place
from schemas.records import Piece

PROGRAM = '''\
def area(width, height):
    """Ünïcode."""
    return multiply(width, height)


def multiply(a, b):
    return a * b
'''
FIRST, SECOND = PROGRAM.split("\n\n\n")
SKELETON = PROGRAM.replace("return multiply(width, height)", "pass").replace("return a * b", "pass")
ASKED = Asked("Python", frozenset({"area", "multiply"}), SKELETON, "")
CONTINUED = Asked("Python", frozenset({"area"}), "", "def area(a, b):\n    'doc'\n")


def spans_in(answer: str, asked: Asked = ASKED) -> dict[str, str]:
    """Text of the answer at the place of each function that was found."""
    found = find(answer, asked)
    data = answer.encode()
    texts = {}
    for span in functions(found.program):
        at = place(span.start_byte, span.end_byte, found.pieces)
        texts[span.name] = "" if at is None else data[at[0] : at[1]].decode()
    return texts


WHOLE = {"area": FIRST, "multiply": SECOND.rstrip("\n")}


@pytest.mark.parametrize(
    "answer",
    [
        PROGRAM,
        f"Sure – here it is:\n\n```python\n{PROGRAM}```\nHope it helps, ünïcode!\n",
        f"```\n{PROGRAM}```",
        f"```python\n{PROGRAM}",
        f"~~~py\n{PROGRAM}~~~\n",
        f"First:\n```python\n{FIRST}\n```\nand then\n```python\n{SECOND}```\n",
        f"```text\nnot this\n```\n```python\n{PROGRAM}```\n",
        f"<think>\n```python\ndef area(): return 0\n```\nHm.</think>\n{PROGRAM}",
        f"<think>def area(width</think>```python\n{PROGRAM}```",
        f"Here is the program.\n\n{PROGRAM}\nIt multiplies both.\n",
        f"class of problem: easy\n{PROGRAM}That's all (really).",
        f"```python\n# a test\nassert area(1, 2) == 2\n```\n```python\n{PROGRAM}```",
        f"1. Plan\n   ```python\n   pass\n   ```\n\n```python\n{PROGRAM}```",
        f"```python\n{PROGRAM.replace('a * b', 'a + b')}```\nWait, better:\n```python\n{PROGRAM}```",
    ],
    ids=range(14),
)
def test_functions_are_found_again_in(answer: str) -> None:
    assert spans_in(answer) == WHOLE
    assert find(answer, ASKED).fault is None


INDENTED = "".join(f"   {line}" for line in PROGRAM.splitlines(keepends=True))


@pytest.mark.parametrize("answer", [f"1. So:\n   ```python\n{INDENTED}   ```\nDone.", INDENTED], ids=range(2))
def test_a_program_in_a_list_of_points_is_read_without_its_indentation(answer: str) -> None:
    found = find(answer, ASKED)
    assert (found.program.rstrip("\n"), found.fault) == (PROGRAM.rstrip("\n"), None)
    assert {name: text.replace("\n   ", "\n") for name, text in spans_in(answer).items()} == WHOLE


THIRD = "def shout(x):\n    return (x\n"


@pytest.mark.parametrize(
    "program", [f"{FIRST}\n{THIRD}\n{SECOND}", f"{THIRD}\n{PROGRAM}", f"{PROGRAM}\n{THIRD}"]
)
def test_functions_beside_a_broken_one_are_found(program: str) -> None:
    found = find(f"```python\n{program}```", ASKED)
    assert {name: text.rstrip("\n") for name, text in spans_in(f"```python\n{program}```").items()} == WHOLE
    assert found.fault == "broken"


def test_a_decorator_stays_with_its_function_in_a_broken_program() -> None:
    program = f"import functools\n\n@functools.cache\n{SECOND}\n\ndef area(w, h:\n    pass\n"
    answer = f"```python\n{program}```"
    assert spans_in(answer)["multiply"].startswith("@functools.cache\ndef multiply")


def test_reordered_renamed_and_helped_functions_keep_their_own_spans() -> None:
    other = (
        "def multiply(x, y):\n    return times(x, y)\n\ndef times(p, q):\n    return p * q\n\n"
        "def area(w, h):\n    return multiply(w, h)\n"
    )
    answer = f"Done:\n```python\n{other}```"
    found = spans_in(answer)
    assert list(found) == ["multiply", "times", "area"]
    assert all(text.startswith(f"def {name}(") for name, text in found.items())


def test_of_two_versions_the_one_with_more_of_what_was_asked_counts() -> None:
    answer = f"```python\ndef area(a, b):\n    pass\n```\nBetter:\n```python\n{PROGRAM}```"
    assert spans_in(answer) == WHOLE


def test_a_continuation_of_the_prompt_has_the_span_of_what_was_written() -> None:
    answer = "    return a * b\n\nprint(area(1, 2))\n"
    found = find(answer, CONTINUED)
    assert found.program == CONTINUED.prompt + answer
    assert spans_in(answer, CONTINUED) == {"area": "    return a * b"}


def test_a_fenced_continuation_is_one_too() -> None:
    assert spans_in("```\n    return a * b\n```", CONTINUED) == {"area": "    return a * b"}


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("", "empty"),
        (" \n\t\n", "empty"),
        ("I am sorry, I cannot help with that.", "prose"),
        ("```python\ndef area(width, height:\n```", "prose"),
        ("def other():\n    return 1\n", "prose"),
        ("```js\nfunction area(a, b) { return a * b }\n```", "other_language"),
        ("assert area(1, 2) == 2\n\ndef test_area():\n    assert area(2, 2) == 4\n", "tests_only"),
        ("```python\nassert area(1, 2) == 2\nassert multiply(1, 2) == 2\n```", "tests_only"),
        (SKELETON, "unfilled"),
        (f"```python\n{SKELETON}```", "unfilled"),
        ("\ud800", "prose"),
        ("\0", "prose"),
    ],
    ids=range(12),
)
def test_an_answer_without_the_program_says_why(answer: str, fault: str) -> None:
    found = find(answer, ASKED)
    assert found.fault == fault
    if fault != "unfilled":
        assert (found.program, found.pieces) == (answer, ())


def test_other_languages_are_read_by_their_own_grammar() -> None:
    program = "int twice(int x) {\n  return 2 * x;\n}\n"
    asked = Asked("C++", frozenset({"twice"}), "int twice(int x) {}\n", "")
    found = find(f"Here:\n```cpp\n{program}```\n", asked)
    assert (found.program, found.fault) == (program, None)


def test_fences_close_with_at_least_as_many_marks() -> None:
    text = "````\n```\na\n`````\nb\n```\nc"
    assert [text[start:end] for start, end, _ in fenced(text)] == ["```\na\n", "c"]


def test_many_open_fences_are_read_in_one_pass() -> None:
    assert len(fenced("````a\n" * 200_000)) == 1


@given(st.text(max_size=200))
def test_no_text_raises_and_pieces_are_true(answer: str) -> None:
    found = find(answer, ASKED)
    data, program = answer.encode("utf-8", "surrogatepass"), found.program.encode("utf-8", "surrogatepass")
    for piece in found.pieces:
        mine = program[piece.program_byte : piece.program_byte + piece.bytes]
        assert mine == data[piece.completion_byte : piece.completion_byte + piece.bytes]


@given(
    st.lists(
        st.sampled_from(["```python\n", "```\n", "prose ä\n", FIRST + "\n", SECOND, "assert area(1, 1)\n"])
    )
)
def test_pieces_are_true_whatever_the_order_of_blocks(parts: list[str]) -> None:
    answer = "".join(parts)
    found = find(answer, ASKED)
    data, program = answer.encode(), found.program.encode()
    for piece in found.pieces:
        mine = program[piece.program_byte : piece.program_byte + piece.bytes]
        assert mine == data[piece.completion_byte : piece.completion_byte + piece.bytes]
    for name, text in spans_in(answer).items() if found.fault is None else ():
        assert f"def {name}(" in text


def test_a_range_outside_of_every_piece_has_no_place() -> None:
    pieces = [Piece(program_byte=10, completion_byte=0, bytes=5)]
    assert place(0, 9, pieces) is None
    assert place(8, 12, pieces) == (0, 2)
    assert place(3, 4, []) == (3, 4)


@pytest.mark.parametrize("line", ["def f(\n", "@x\n", "import (\n", "```\n", "# \n", "   \n", "x\\\n"])
def test_huge_answers_without_a_program_are_given_up(line: str) -> None:
    assert find(line * 100_000, ASKED).fault in ("prose", "empty", "tests_only")
