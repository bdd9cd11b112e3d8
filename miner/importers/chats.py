"""Chats of published sets: lists of messages, and transcripts in one text, as turns.

A conversation comes apart into a system prompt, what was asked, and the answer. What was asked is one text
in one rendering, whatever a set publishes:

* of a single message of the user, its text as it is;
* of several turns, each as `User: ...`, `Assistant: ...` or `Tool: ...` with an empty line between them.

Messages of the system go into the system prompt, wherever they stand.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from miner.importers.fields import BadRow, text_value

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "gpt": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""A role as sets name it -> our name."""

_SPEAKER = re.compile(r"(?:\A|\n\n)(Human|Assistant):[ \t]?")
_NEMO = re.compile(r"(?:\A|\n)<extra_id_1>(User|Assistant)\n")


@dataclasses.dataclass(frozen=True)
class Turn:
    """What one side said: `role` is `system`, `user`, `assistant` or `tool`."""

    role: str
    text: str


def content_text(value: Any, where: str) -> str:
    """Text of a message's content: a string, null, or a list of parts of which the text ones count.

    Raises:
        BadRow: it is none of these.
    """
    if value is None:
        return ""
    if isinstance(value, list):
        parts = []
        for number, part in enumerate(value):
            if isinstance(part, dict) and part.get("type") != "text":
                text: Any = f"[{str(part.get('type'))[:40]}]"
            else:
                text = part.get("text") if isinstance(part, dict) else part
            parts.append(text_value(text, f"{where}.content[{number}]", empty=True))
        return "\n".join(parts)
    return text_value(value, f"{where}.content", empty=True)


def is_messages(value: Any) -> bool:
    """Whether a value looks like a list of messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and isinstance(value[0], dict)
        and not {"role", "from"}.isdisjoint(value[0])
    )


def turns(value: Any, where: str) -> list[Turn]:
    """The turns of a list of messages: objects with `role` and `content`, or `from` and `value`.

    Raises:
        BadRow: it is no such list, a role is not known, or a content is no text.
    """
    if not isinstance(value, list):
        raise BadRow("bad_field", f"{where}: expected a list of messages")
    found = []
    for number, message in enumerate(value):
        place = f"{where}[{number}]"
        if not isinstance(message, dict):
            raise BadRow("bad_field", f"{place}: expected an object")
        told = text_value(message.get("role", message.get("from")), f"{place}.role")
        role = ROLES.get(told.lower())
        if role is None:
            raise BadRow("bad_field", f"{place}.role: {told[:40]!r} is none of {', '.join(ROLES)}")
        found.append(Turn(role, content_text(message.get("content", message.get("value")), place)))
    return found


def transcript(text: str) -> list[Turn] | None:
    """The turns of a transcript of lines that begin with `Human:` and `Assistant:`, each after an empty line;
    None for a text that does not begin with such a line."""
    text = text.lstrip("\n")
    marks = list(_SPEAKER.finditer(text))
    if not marks or marks[0].start() > 0:
        return None
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return [
        Turn("user" if mark[1] == "Human" else "assistant", text[mark.end() : end].strip())
        for mark, end in zip(marks, ends, strict=True)
    ]


def prompt_turns(text: str) -> list[Turn]:
    """The turns of a prompt that is one text: a transcript that ends before the answer, a chat with the marks
    of NeMo, or the user's only message."""
    found = transcript(text)
    if found is not None:
        return found[:-1] if found[-1] == Turn("assistant", "") else found
    marks = list(_NEMO.finditer(text))
    ends = [mark.start() for mark in marks] + [len(text)]
    said = [Turn("user", text[: ends[0]])] if ends[0] or not marks else []
    for mark, end in zip(marks, ends[1:], strict=True):
        said.append(Turn(mark[1].lower(), text[mark.end() : end]))
    return said


def answer_of(found: Sequence[Turn], where: str) -> tuple[list[Turn], str]:
    """A conversation as what stands before its last turn, and that turn, which is the assistant's.

    Raises:
        BadRow: there is none.
    """
    if not found or found[-1].role != "assistant":
        raise BadRow("bad_field", f"{where}: its last message is not the assistant's")
    return list(found[:-1]), found[-1].text


def asked(found: Sequence[Turn]) -> tuple[str, str]:
    """(system prompt, what was asked) of the turns before an answer."""
    system = "\n\n".join(turn.text for turn in found if turn.role == "system" and turn.text)
    said = [turn for turn in found if turn.role != "system"]
    if len(said) == 1 and said[0].role == "user":
        return system, said[0].text
    return system, "\n\n".join(f"{turn.role.capitalize()}: {turn.text}" for turn in said)
