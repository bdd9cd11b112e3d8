"""How an agent's messages are given to a chat template, without letters of theirs becoming its tokens.

In: messages of a trajectory. Out: the dicts that `apply_chat_template` takes, in one of `FORMS`; a
conversation to try them on (`PROBE`); and texts in which the letters of a template's own tokens are broken
(`Breaker`). Nothing goes wrong.

With tools as data, messages are what transformers' templates expect. As text, a call is `[call NAME]` and its
arguments after the assistant's own words, a result is a message of the user that begins with `[result of
NAME]`, and neighbours of one role are joined, since some templates take user and assistant in turns only.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from transformers import PreTrainedTokenizerFast

from schemas.records import Message, ToolCall
from trainers.shortening import arguments_of

FORMS = ("objects", "strings", "text", "joined")
"""How a conversation can be given to a template, in the order in which that is tried: calls as data with
arguments as objects, or as JSON text; calls and results as text; and the system message as text too."""


def closing(patch: str | None, question: str) -> str:
    """The last message: the final patch, and the question. The fence is longer than any in the patch."""
    if patch is None:
        return question
    if not patch.strip():
        return f"The final patch is empty.\n\n{question}"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", patch)), default=0))
    end = "" if patch.endswith("\n") else "\n"
    return f"The final patch:\n\n{fence}diff\n{patch}{end}{fence}\n\n{question}"


def native(messages: Sequence[Message], form: str) -> list[dict[str, Any]]:
    """Messages as transformers' templates take them, with tool calls as data.

    Arguments that are no JSON object are one with the key `arguments`, unless `form` is `strings`.
    """
    names = _call_names(messages)
    made: list[dict[str, Any]] = []
    for message in messages:
        one: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.role == "tool":
            one["name"] = message.name or names.get(message.tool_call_id) or "tool"
            if message.tool_call_id is not None:
                one["tool_call_id"] = message.tool_call_id
        # An empty list would be a call to some templates.
        if message.tool_calls:
            one["tool_calls"] = [_native_call(call, form) for call in message.tool_calls]
        made.append(one)
    return made


def _native_call(call: ToolCall, form: str) -> dict[str, Any]:
    arguments: Any = call.arguments
    if form == "objects":
        values = arguments_of(call.arguments)
        arguments = {"arguments": call.arguments} if values is None else values
    made: dict[str, Any] = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    if call.id is not None:
        made["id"] = call.id
    return made


def plain(messages: Sequence[Message], joined: bool) -> list[dict[str, str]]:
    """Messages as text only: neighbours of one role are joined, so that user and assistant alternate.

    Args:
        messages: in order.
        joined: whether the system message becomes text of the user too.
    """
    names = _call_names(messages)
    made: list[tuple[str, list[str]]] = []
    for number, message in enumerate(messages):
        role = "system" if message.role == "system" and not number and not joined else "user"
        texts = [message.content]
        if message.role == "assistant":
            role = "assistant"
            texts += [f"[call {call.name}]\n{call.arguments}" for call in message.tool_calls]
        elif message.role == "tool":
            name = message.name or names.get(message.tool_call_id)
            texts = [f"[result of {name}]\n{message.content}" if name else f"[result]\n{message.content}"]
        if not made or made[-1][0] != role:
            made.append((role, []))
        made[-1][1].extend(text for text in texts if text)
    return [{"role": role, "content": "\n\n".join(texts)} for role, texts in made]


def _call_names(messages: Sequence[Message]) -> dict[str | None, str]:
    return {call.id: call.name for message in messages for call in message.tool_calls if call.id is not None}


def message_of(role: str, content: str, *calls: ToolCall, answers: str | None = None) -> Message:
    return Message(role=role, content=content, name=None, tool_call_id=answers, tool_calls=list(calls))


PROBE = (
    message_of("system", "probesystem"),
    message_of("user", "probetask"),
    message_of(
        "assistant",
        "probethought",
        ToolCall(
            id="call_k3sPq0ZxT5uVn8aLb2Rw7yEd", name="probetool", arguments='{"probekey": "probevalue"}'
        ),
    ),
    message_of("tool", "proberesult", answers="call_k3sPq0ZxT5uVn8aLb2Rw7yEd"),
    message_of("assistant", "probeidea"),
    message_of("user", "probereply"),
    message_of(
        "assistant",
        "probeplan",
        ToolCall(
            id="call_m9dJc4HgY1oWe6iXf0Qt2uBs", name="probeother", arguments='{"probename": "probetext"}'
        ),
    ),
    message_of("tool", "probeend", answers="call_m9dJc4HgY1oWe6iXf0Qt2uBs"),
    message_of("user", "probequestion"),
)
"""A conversation with all that there is in one."""
PROBE_ORDER = (
    *("probetask", "probethought", "proberesult", "probeidea", "probereply", "probeplan", "probeend"),
    "probequestion",
)
"""What a template must show of it in this order."""
PROBE_REST = ("probesystem", "probetool", "probekey", "probevalue", "probeother", "probename", "probetext")
"""What it must show anywhere: some put the system message last, or arguments before names."""


class Breaker:
    """Keeps letters in texts from being a template's own tokens: it puts a mark after the first of them.

    Where a rendered text is cut at the marks, and the parts are encoded apart, these letters are text. These
    tokens are all special ones and those that the template's source names, if they have two letters or more.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        template = str(tokenizer.chat_template)
        found = tokenizer.added_tokens_decoder.values()
        words = {t.content for t in found if len(t.content) > 1 and (t.special or t.content in template)}
        # Grouped by their beginnings, so that the time does not grow with how many there are.
        self._pattern = re.compile(_alternatives(sorted(words))) if words else None

    def broken(
        self, messages: Sequence[Message], patch: str | None
    ) -> tuple[str, Sequence[Message], str | None]:
        """The mark (empty: nothing had to be broken), messages and patch."""
        texts = [text for message in messages for text in _texts_of(message)]
        texts += [patch] if patch is not None else []
        if self._pattern is None or not any(map(self._pattern.search, texts)):
            return "", messages, patch
        used = set().union(*texts)
        private = (*range(0xE000, 0xF900), *range(0xF0000, 0x10FFFE))
        mark = next(chr(code) for code in private if chr(code) not in used)

        def of(text: str) -> str:
            return self._break(text, mark)

        return mark, [_mapped(message, of) for message in messages], None if patch is None else of(patch)

    def _break(self, text: str, mark: str) -> str:
        while self._pattern is not None and self._pattern.search(text):
            # What is left may hold another one that overlapped the one broken.
            text = self._pattern.sub(lambda found: found[0][0] + mark + found[0][1:], text)
        return text


def _alternatives(words: Sequence[str]) -> str:
    branches: dict[str, list[str]] = {}
    for word in words:
        if not word:
            # A word that begins a longer one: to break it breaks that too.
            return ""
        branches.setdefault(word[0], []).append(word[1:])
    found = [re.escape(letter) + _alternatives(rest) for letter, rest in branches.items()]
    return found[0] if len(found) == 1 else f"(?:{'|'.join(found)})"


def _mapped(message: Message, of: Callable[[str], str]) -> Message:
    """A message with all of its texts replaced."""
    calls = [
        ToolCall(id=call.id and of(call.id), name=of(call.name), arguments=of(call.arguments))
        for call in message.tool_calls
    ]
    return Message(
        role=message.role,
        content=of(message.content),
        name=message.name and of(message.name),
        tool_call_id=message.tool_call_id and of(message.tool_call_id),
        tool_calls=calls,
    )


def _texts_of(message: Message) -> list[str]:
    calls = [text for call in message.tool_calls for text in (call.id or "", call.name, call.arguments)]
    return [message.content, message.name or "", message.tool_call_id or "", *calls]


def decoded(message: Message) -> Message:
    """The message with JSON's escapes of letters in arguments undone, as templates that take objects do."""
    if not any("\\u" in call.arguments for call in message.tool_calls):
        return message
    calls = []
    for call in message.tool_calls:
        values = arguments_of(call.arguments)
        text = call.arguments if values is None else json.dumps(values, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:
            # Half of a surrogate pair is no text.
            text = call.arguments
        calls.append(dataclasses.replace(call, arguments=text))
    return dataclasses.replace(message, tool_calls=calls)
