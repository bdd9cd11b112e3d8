"""What a row asks a reward model to score, read from the columns that data sets use.

In: a row as a mapping. Out: a `Request`: a prompt with one response, or with right and wrong ones. The
prompt is text (`prompt`, `input`, `question`) or messages (`messages`, or the same columns holding them):
at most one system message, then one user message, and perhaps the answer. A bad row raises `BadRow`.

Reasons: `missing_field`, `wrong_type`, `bad_text`, `empty`, `several_turns`, `bad_messages`, `bad_styles`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from trainers.published import STYLES
from trainers.rowfiles import BadRow, checked_text, name_text, number_of, text_of

REASONS: dict[str, str] = {
    "bad_json": "the line is not valid JSON",
    "not_an_object": "the row is no JSON object",
    "row_too_long": "the line is longer than 64 MB",
    "damaged": "the row cannot be decoded",
    "missing_field": "a column that is needed is missing or null",
    "wrong_type": "a value is of another type",
    "bad_text": "text is not valid Unicode",
    "empty": "a prompt or a response has no text",
    "several_turns": "the conversation has more than one user message",
    "bad_messages": "messages are not a list of roles and contents that ends as it should",
    "bad_styles": "RM-Bench: not three right and three wrong answers",
    "unknown_criterion": "the row's aspect is no criterion, so there is no system prompt for it",
    "not_scorable": "the model refuses it: no room beside the prompt, or the chat template raises",
    "empty_completion": "a side of a pair has no text",
    "identical": "both sides of a pair are the same tokens",
    "identical_after_truncation": "both sides are the same where they are cut",
    "prompt_too_long": "the prompt leaves no room for a response",
    "template_changes_text": "the model's chat template rewrites a response",
    "no_score": "a row of a score file without a score",
    "no_outcome": "a row of a score file without an outcome",
    "bad_outcome": "an outcome that is not between 0 and 1",
    "not_pass_or_fail": "an outcome that is neither 0 nor 1, where pass@k is counted",
    "no_policy": "a candidate of the table `steps` that no model wrote",
    "other_policy": "a sample of another policy than the named ones",
    "bad_probability": "a score that is to be a probability, but is not between 0 and 1",
}
"""Why a row was not used -> a sentence."""

_PROMPT = ("prompt", "input", "question", "instruction")
_RESPONSE = ("response", "completion", "output", "answer")
_ID = ("id", "idx", "uid", "row_id")
_INSTANCE = ("instance", "instance_id", "problem_id", "task_id", "question_id")
_OUTCOME = ("outcome", "resolved", "passed", "correct", "label")
COLUMNS = (
    *(*_ID, *_INSTANCE, *_OUTCOME, "pass_rate", "system", "messages", *_PROMPT, *_RESPONSE),
    *("chosen", "rejected", "aspect", "language", "subset", "domain", "evidence", "split"),
)
"""Every column that is read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A prompt and its responses.

    Attributes:
        row_id: the row's own id, else its number.
        system: system prompt that the row brings; None where it has no such column.
        prompt: the user's message.
        right: responses of which each should score above every one of `wrong`; a lone response is here.
        wrong: the others; empty for a lone response.
        listed: whether the responses stand in lists, as where there are more than two.
        names: `aspect`, `language`, `subset`, `domain`, `instance`, `made_by`, `split`: what is known.
        outcome: 0 to 1, where the row says how good the lone response is.
        rate: share of tests that it passes, likewise.
    """

    row_id: str
    system: str | None
    prompt: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    listed: bool
    names: Mapping[str, str]
    outcome: float | None = None
    rate: float | None = None


def request_of(values: dict[str, Any], number: int) -> Request:
    """Read a row.

    Raises:
        BadRow: it cannot be used.
    """
    system, prompt, last = _prompt(values)
    paired = values.get("chosen") is not None or values.get("rejected") is not None
    listed = False
    if paired:
        right, left = _side(values, "chosen")
        wrong, other = _side(values, "rejected")
        if left != other:
            raise BadRow("wrong_type", "one of chosen and rejected is a list of answers, the other is not")
        listed = left
        if listed and values.get("domain") is not None and (len(right), len(wrong)) != (STYLES, STYLES):
            raise BadRow("bad_styles", f"{len(right)} right and {len(wrong)} wrong answers")
    else:
        response = text_of(values, _RESPONSE) or last
        if response is None:
            raise BadRow("missing_field", "no chosen and rejected, and none of " + ", ".join(_RESPONSE))
        right, wrong = (response,), ()
    return Request(
        row_id=name_text(values, _ID) or str(number),
        system=text_of(values, ("system",), empty=True) if system is None else system,
        prompt=prompt,
        right=right,
        wrong=wrong,
        listed=listed,
        names=_names(values),
        outcome=None if paired else outcome_of(values),
        rate=None if paired else _share(number_of(values, ("pass_rate",)), "pass_rate"),
    )


def outcome_of(values: dict[str, Any]) -> float | None:
    """The outcome that a row tells, None where it tells none.

    Raises:
        BadRow: it is not between 0 and 1.
    """
    return _share(number_of(values, _OUTCOME), "outcome")


def _share(value: float | None, name: str) -> float | None:
    if value is not None and not 0 <= value <= 1:
        raise BadRow("bad_outcome", f"{name} is {value:g}")
    return value


def instance_of(values: dict[str, Any]) -> str | None:
    """The task that a row belongs to."""
    return name_text(values, _INSTANCE)


def id_of(values: dict[str, Any], number: int) -> str:
    """The row's own id, else its number."""
    return name_text(values, _ID) or str(number)


def _names(values: dict[str, Any]) -> dict[str, str]:
    found = {
        name: text
        for name in ("aspect", "language", "subset", "domain", "split")
        if (text := _name(values, name))
    }
    if (instance := instance_of(values)) is not None:
        found["instance"] = instance
    evidence = values.get("evidence")
    if isinstance(evidence, dict) and isinstance(made_by := evidence.get("made_by"), str):
        found["made_by"] = made_by[:200]
    return found


def _name(values: dict[str, Any], name: str) -> str | None:
    # Some sets keep unrelated things in columns of these names; only text is a name.
    return name_text(values, (name,)) if isinstance(values.get(name), str | int) else None


def _prompt(values: dict[str, Any]) -> tuple[str | None, str, str | None]:
    """(system, user, answer) of a row's prompt."""
    for name in ("messages", *_PROMPT):
        value = values.get(name)
        if isinstance(value, list):
            return _messages(value, name)
        if value is not None:
            return None, checked_text(value, name), None
    raise BadRow("missing_field", "none of messages, " + ", ".join(_PROMPT))


def _messages(value: Sequence[Any], name: str) -> tuple[str | None, str, str | None]:
    turns = []
    for message in value:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRow("bad_messages", f"{name} holds what is no message")
        turns.append((message["role"], checked_text(message.get("content"), name, empty=True)))
    system = turns.pop(0)[1] if turns and turns[0][0] == "system" else None
    roles = [role for role, _ in turns]
    if roles.count("user") > 1:
        raise BadRow("several_turns", f"{len(turns)} messages")
    if roles not in (["user"], ["user", "assistant"]):
        raise BadRow("bad_messages", f"roles {', '.join(roles)[:100] or 'none'}")
    user = checked_text(turns[0][1], name)
    return system, user, checked_text(turns[1][1], name) if len(turns) == 2 else None


def _side(values: dict[str, Any], name: str) -> tuple[tuple[str, ...], bool]:
    """The answers of a side, and whether these are a list: text, a conversation's last message, or texts."""
    value = values.get(name)
    if value is None:
        raise BadRow("missing_field", f"no {name}")
    if not isinstance(value, list):
        return (checked_text(value, name),), False
    if value and isinstance(value[-1], dict):
        return (checked_text(value[-1].get("content"), name),), False
    if not value:
        raise BadRow("empty", f"{name} has no answers")
    return tuple(checked_text(answer, name) for answer in value), True
