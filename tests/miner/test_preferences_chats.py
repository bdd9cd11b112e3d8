"""Chats and transcripts as one text, fenced code, and the names of languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from preference_rows import GOOD, messages, plain, read, transcript

from miner.importers.chats import Turn, answer_of, asked, is_messages, prompt_turns, turns
from miner.importers.chats import transcript as parsed
from miner.importers.fields import BadRow
from miner.importers.preferences_names import fenced_language


def test_text_of_a_single_message_stays_as_it_is() -> None:
    assert asked([Turn("user", "  Hi\n")]) == ("", "  Hi\n")


def test_every_role_is_rendered_and_the_systems_messages_stand_apart() -> None:
    chat = [
        Turn("system", "One."),
        Turn("user", "Q"),
        Turn("assistant", "A"),
        Turn("system", "Two."),
        Turn("tool", "42"),
    ]
    assert asked(chat) == ("One.\n\nTwo.", "User: Q\n\nAssistant: A\n\nTool: 42")


def test_answer_alone_asks_nothing() -> None:
    assert asked([]) == ("", "")
    assert asked([Turn("assistant", "Hello")]) == ("", "Assistant: Hello")


def test_messages_have_one_of_two_layouts() -> None:
    shared = [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]
    assert turns(shared, "x") == turns(messages("Q", "A"), "x") == [Turn("user", "Q"), Turn("assistant", "A")]
    assert is_messages(shared)
    assert not any(is_messages(value) for value in ([], ["a"], [None], [{}], {"role": "user"}, "x", None))


def test_content_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": "x"}]
    assert turns([{"role": "user", "content": parts}], "x") == [Turn("user", "a\n[image_url]")]
    with pytest.raises(BadRow, match=r"x\[0\]"):
        turns([{"role": "user", "content": [[None]]}], "x")


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1).map(str.strip),
        min_size=1,
        max_size=6,
    )
)
def test_transcript_gives_back_the_turns_that_it_was_made_of(texts: list[str]) -> None:
    roles = ("user", "assistant")
    assert parsed(transcript(*texts)) == [Turn(roles[at % 2], text) for at, text in enumerate(texts)]


@pytest.mark.parametrize("text", ["", "Hello", "Hello\n\nHuman: x", "Humans: x", " Human: x", "Assistant"])
def test_text_that_does_not_begin_with_a_speaker_is_no_transcript(text: str) -> None:
    assert parsed(text) is None


def test_speaker_within_a_paragraph_begins_no_turn() -> None:
    assert parsed("Human: a\nAssistant: b") == [Turn("user", "a\nAssistant: b")]


def test_last_turn_must_be_the_assistants() -> None:
    assert answer_of([Turn("user", "q"), Turn("assistant", "a")], "x") == ([Turn("user", "q")], "a")
    for wrong in ([], [Turn("user", "q")]):
        with pytest.raises(BadRow, match="x: its last message"):
            answer_of(wrong, "x")


def test_marks_of_nemo_part_a_prompt() -> None:
    text = "Hello\n<extra_id_1>Assistant\nHello!\n<extra_id_1>User\nAdd."
    assert asked(prompt_turns(text)) == ("", "User: Hello\n\nAssistant: Hello!\n\nUser: Add.")
    assert prompt_turns("<extra_id_1>User\nAdd.") == [Turn("user", "Add.")]
    assert prompt_turns("") == [Turn("user", "")]
    assert prompt_turns("a <extra_id_1>User\nb") == [Turn("user", "a <extra_id_1>User\nb")]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("```python\nx = 1\n```", "Python"),
        ("Here:\n\n```JS\nlet x\n```\nDone.", "JavaScript"),
        ("~~~ cpp\nint x;\n~~~", "C++"),
        ("```rs\nfn main() {}", "Rust"),
        ("```go\na\n```\n```python\na\nb\n```", "Python"),
        ("````python\n```go\nx\n```\n````", "Python"),
        ("```\nx = 1\n```", None),
        ("```text\nx\n```", None),
        ("```bash\nls\n```", None),
        ("    ```python\n    x\n", None),
        ("```python\n```", None),
        ("python", None),
        ("", None),
    ],
)
def test_language_is_that_of_most_lines_of_fenced_code(text: str, language: str | None) -> None:
    assert fenced_language(text) == language


def test_fence_tells_the_language_unless_the_row_or_the_setting_does() -> None:
    chosen = f"Here it is:\n\n```python\n{GOOD}```\n"
    assert [one.language for one in read("plain", plain(chosen=chosen))] == ["Python"]
    assert [one.language for one in read("plain", plain(chosen=chosen, language="NL"))] == ["NL"]
    assert [one.language for one in read("plain", plain(chosen=chosen), fences=False)] == ["NL"]
    assert [one.language for one in read("plain", plain(rejected=chosen))] == ["NL"]
