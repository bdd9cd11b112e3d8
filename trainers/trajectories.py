"""Agents' attempts at tasks become token sequences that end where a model says whether the task is resolved.

In: shards of the `trajectories` table. Out: `Attempt`s (text), and from a `Renderer` their tokens: the whole
conversation in the tokenizer's chat template, then a user's message with the final patch and a question, then
the template's start of an answer. The answer is one token, `YES` or `NO` (SWE-RM, 2512.21919); whether the
task was resolved stands nowhere in the text, and neither do ids, policy or source.

Calls and results of tools are given to the template as transformers' templates expect them. A template that
refuses them, or loses any part of them, gets text instead: calls after the assistant's own words, results as
messages of the user, neighbours of one role joined; and one that takes no system message finds it before the
first user's. What a template can take is tried once; a conversation that it refuses all the same is text too.

What is longer than `max_length` is shortened as `trainers.shortening` says, between the first user's message
and the end. The beginning (system and task), the patch and the question are never cut: when they alone are
too long, the row is dropped.

Tokens by which a template tells turns apart are text where a message, a call or a patch holds their letters:
such a text is encoded in two parts, cut inside of these letters. (A tokenizer that puts a blank before every
text puts one there too.) That goes for all special tokens and those that the template's source names.

Reasons of drops: `no_task` (no user's message), `too_long`, `template_refuses`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from schemas.errors import AssayError
from schemas.records import Message, ToolCall, Trajectory
from schemas.shards import iter_rows
from schemas.stage import Drop
from trainers.packing import Ids
from trainers.rendering import (
    FORMS,
    PROBE,
    PROBE_ORDER,
    PROBE_REST,
    Breaker,
    closing,
    decoded,
    message_of,
    native,
    plain,
)
from trainers.shortening import Middle, Piece, gone
from trainers.tokenizer import first_line

COLUMNS = ("id", "instance_id", "messages", "patch", "resolved", "policy", "source")
QUESTION = "Is the task resolved? Answer with {yes} or {no}."

TEMPLATE = {"enable_thinking": False, "date_string": "01 Jan 2025"}
"""What templates are told: to leave no room for thoughts before the answer, and no day of their own choice,
which would make a sequence depend on when it was made."""

ANSWERS = (
    ("YES", "NO"),
    ("Yes", "No"),
    ("yes", "no"),
    (" YES", " NO"),
    (" yes", " no"),
    ("1", "0"),
    ("+", "-"),
)
"""Pairs of words that a tokenizer may have as one token each."""

_CHUNK = 16
_CHARS_AT_ONCE = 4 << 20
_ROUNDS = 8
# A text of which only the ends can stay is looked at this many characters for each token of `max_length`.
_CHARS_A_TOKEN = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """The columns of a trajectory that training and evaluation read."""

    idx: str
    instance: str
    messages: tuple[Message, ...]
    patch: str | None
    resolved: bool | None
    policy: str | None
    source: str


@dataclasses.dataclass(frozen=True, slots=True)
class Encoded:
    """An attempt as tokens: what the answer follows, and whether any of the conversation is left out."""

    ids: Ids
    windowed: bool


def read_attempts(paths: Iterable[Path]) -> list[Attempt]:
    """All trajectories of some shards, ordered by instance and id, so that neither order nor cut of shards
    matters.

    Raises:
        ShardError: a shard is missing, damaged or not one of `trajectories`.
    """
    rows = [attempt_of(row) for path in paths for row in iter_rows(Path(path), Trajectory, COLUMNS)]
    return sorted(rows, key=lambda row: (row.instance, row.idx, row.source))


def attempt_of(row: Mapping[str, Any]) -> Attempt:
    """An attempt from a row of the table, as plain values."""
    messages = tuple(
        Message(**{**one, "tool_calls": [ToolCall(**call) for call in one["tool_calls"]]})
        for one in row["messages"]
    )
    return Attempt(
        idx=row["id"],
        instance=row["instance_id"],
        messages=messages,
        **{name: row[name] for name in ("patch", "resolved", "policy", "source")},
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Talk:
    """An attempt, its beginning up to the task and the message with the question apart.

    The letters of a template's own tokens are broken by `mark`, if that is not empty; `needed` are texts that
    must be found in what is rendered.
    """

    idx: str
    mark: str
    opening: tuple[Message, ...]
    middle: tuple[Message, ...]
    last: Message
    needed: tuple[str, ...]
    characters: int

    @classmethod
    def of(cls, attempt: Attempt, question: str, breaker: Breaker) -> _Talk:
        mark, messages, patch = breaker.broken([decoded(one) for one in attempt.messages], attempt.patch)
        users = (number for number, message in enumerate(messages) if message.role == "user")
        first = next(users, -1) + 1
        needed = [question]
        if patch is not None:
            needed.append(patch.strip())
        needed += [message.content.strip() for message in messages[:first]]
        sizes = [len(m.content) + sum(len(call.arguments) for call in m.tool_calls) for m in messages]
        return cls(
            idx=attempt.idx,
            mark=mark,
            opening=tuple(messages[:first]),
            middle=tuple(messages[first:]),
            last=message_of("user", closing(patch, question)),
            needed=tuple(needed),
            characters=sum(sizes),
        )

    def around(self, messages: Sequence[Message], lost: int) -> list[Message]:
        """A whole conversation with these messages in its middle, `lost` others left out before them."""
        *start, task = self.opening
        if lost:
            task = dataclasses.replace(task, content=task.content + gone(lost))
        return [*start, task, *messages, self.last]


@dataclasses.dataclass(slots=True)
class _Trial:
    """An attempt that is being shortened: its tokens without a middle, and the room that is tried next."""

    talk: _Talk
    middle: Middle
    least: Ids
    room: int


class Renderer:
    """Makes token sequences of attempts.

    Attributes:
        yes: token id of a resolved trajectory.
        no: token id of another.
        question: what is asked.
        form: one of `FORMS`, how conversations are given to the template.
        max_length: most tokens of a sequence.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        max_length: int,
        yes_token: str = "YES",  # noqa: S107
        no_token: str = "NO",  # noqa: S107
        question: str = "",
    ) -> None:
        """
        Args:
            tokenizer: with a chat template.
            max_length: most tokens of a sequence.
            yes_token: the answer for a resolved trajectory.
            no_token: the answer for another.
            question: what is asked; empty for `QUESTION`.

        Raises:
            AssayError: an answer is not one token after the question, or the template refuses conversations.
        """
        self.max_length = max_length
        self.question = question or QUESTION.format(yes=yes_token, no=no_token)
        self._tokenizer = tokenizer
        self._breaker = Breaker(tokenizer)
        self.form = self._try_forms()
        self._overhead = self._around_a_message()
        self.yes, self.no = self._answer("yes_token", yes_token), self._answer("no_token", no_token)
        if self.yes == self.no:
            raise AssayError(
                f"train.no_token: {no_token!r} is the same token of this tokenizer as {yes_token!r}"
                + self._advice()
            )

    def encode(self, attempts: Sequence[Attempt]) -> list[Encoded | Drop]:
        """The tokens of each attempt, or why there are none."""
        found: list[Encoded | Drop] = []
        for at in range(0, len(attempts), _CHUNK):
            found += self._chunk(attempts[at : at + _CHUNK])
        return found

    def _chunk(self, attempts: Sequence[Attempt]) -> list[Encoded | Drop]:
        found: dict[int, Encoded | Drop] = {}
        # What is too long, and its tokens where these are known.
        long: dict[int, int] = {}
        talks = {n: _Talk.of(one, self.question, self._breaker) for n, one in enumerate(attempts)}
        for number, talk in talks.items():
            if not talk.opening:
                found[number] = Drop(talk.idx, "no_task", "no message is the user's")
            elif self._surely_long(talk):
                long[number] = 0
        left = {n: (talk, talk.middle, 0) for n, talk in talks.items() if n not in found and n not in long}
        for number, ids in self._measured(left).items():
            if isinstance(ids, Drop):
                found[number] = ids
            elif len(ids) <= self.max_length:
                found[number] = Encoded(ids, False)
            else:
                long[number] = len(ids)
        found |= self._shortened({number: (talks[number], whole) for number, whole in long.items()})
        return [found[number] for number in sorted(found)]

    def _surely_long(self, talk: _Talk) -> bool:
        """Whether most of a conversation would be tokenised for nothing."""
        most = 2 * _CHARS_A_TOKEN * self.max_length
        return talk.characters > most or len(talk.middle) > self.max_length

    def _shortened(self, talks: Mapping[int, tuple[_Talk, int]]) -> dict[int, Encoded | Drop]:
        """Attempts that are too long, without some of their middles; with each its tokens, 0 if not known.

        All are tried together, since a tokenizer takes many texts at once faster than one by one.
        """
        found: dict[int, Encoded | Drop] = {}
        trials: dict[int, _Trial] = {}
        empty = {number: (talk, (), len(talk.middle)) for number, (talk, _) in talks.items()}
        for number, least in self._measured(empty).items():
            talk, whole = talks[number]
            if isinstance(least, Drop):
                found[number] = least
            elif len(least) > self.max_length:
                why = f"system, task, patch and question have {len(least)} tokens of {self.max_length}"
                found[number] = Drop(talk.idx, "too_long", f"{why}; raise train.max_length")
            else:
                middle = Middle(talk.middle, self._pieces, self.max_length, self._overhead)
                most = self.max_length - len(least)
                # By how much estimates of its costs are too low, and a little more, which may save a round.
                room = most * 199 * middle.cost // (200 * max(middle.cost, whole - len(least)))
                trials[number] = _Trial(talk, middle, least, room)
        for _ in range(_ROUNDS):
            tries = {number: trial.middle.fit(trial.room) for number, trial in trials.items()}
            wanted = {n: (trials[n].talk, kept, lost) for n, (kept, lost, _) in tries.items()}
            for number, ids in self._measured(wanted).items():
                kept, lost, cost = tries[number]
                trial = trials[number]
                if isinstance(ids, Drop):
                    found[number] = ids
                elif len(ids) <= self.max_length:
                    found[number] = Encoded(ids, lost > 0 or tuple(kept) != trial.talk.middle)
                else:
                    # The estimate was too low by about this factor.
                    fixed = len(trial.least)
                    room = min(trial.room, cost) * (self.max_length - fixed) // max(1, len(ids) - fixed)
                    trial.room = max(0, room - 2)
                    continue
                del trials[number]
        left = {n: Encoded(trial.least, bool(trial.talk.middle)) for n, trial in trials.items()}
        return {**found, **left}

    def _measured(self, talks: Mapping[int, tuple[_Talk, Sequence[Message], int]]) -> dict[int, Ids | Drop]:
        """Tokens of attempts with these messages between task and question, and so many left out."""
        texts = {number: self._render(*one) for number, one in talks.items()}
        whole = {number: text for number, text in texts.items() if not isinstance(text, Drop)}
        tokens = iter(self._tokens([(text, talks[number][0].mark) for number, text in whole.items()]))
        return {n: text if isinstance(text, Drop) else next(tokens) for n, text in texts.items()}

    def _render(self, talk: _Talk, messages: Sequence[Message], lost: int) -> str | Drop:
        """The text of an attempt with these messages between its task and the question."""
        everything = talk.around(messages, lost)
        why = ""
        for form in FORMS[FORMS.index(self.form) :]:
            if form == "strings" and self.form == "objects":
                # Of two forms that differ in arguments only, one was chosen for all.
                continue
            try:
                text = self._apply(everything, form)
            except Exception as error:  # a template may raise whatever its author chose
                why = why or first_line(error)
                continue
            if all(part in text for part in talk.needed):
                return text
            why = why or "it changes the task, the patch or the question"
        return Drop(talk.idx, "template_refuses", why)

    def _apply(self, messages: Sequence[Message], form: str) -> str:
        """The rendered text. Raises whatever the template raises."""
        given = (
            native(messages, form) if form in ("objects", "strings") else plain(messages, form == "joined")
        )
        told: dict[str, Any] = {"tokenize": False, "add_generation_prompt": True, **TEMPLATE}
        text = str(self._tokenizer.apply_chat_template(given, **told))
        # JSON may hold half of a surrogate pair, which no tokenizer takes.
        text.encode()
        return text

    def _encodings(self, texts: Sequence[str]) -> Iterator[Any]:
        """The tokenizer's encodings of texts, of so many at once that memory stays bounded."""
        begin = size = 0
        for number, text in enumerate(texts, 1):
            size += len(text)
            if size >= _CHARS_AT_ONCE or number == len(texts):
                part = list(texts[begin:number])
                yield from self._tokenizer(part, add_special_tokens=False, verbose=False).encodings or []
                begin, size = number, 0

    def _tokens(self, texts: Sequence[tuple[str, str]]) -> list[Ids]:
        """Token ids of texts, each with the mark at which it is cut, or none."""
        parts = [text.split(mark) if mark else [text] for text, mark in texts]
        encodings = self._encodings([part for own in parts for part in own])
        return [np.array([i for _ in own for i in next(encodings).ids], dtype=np.int32) for own in parts]

    def _pieces(self, texts: Sequence[str]) -> list[Piece]:
        """See `shortening.Measure`."""
        span = _CHARS_A_TOKEN * self.max_length
        ends = [[text] if len(text) <= 2 * span else [text[:span], text[-span:]] for text in texts]
        encodings = self._encodings([part for own in ends for part in own])
        made = []
        for text, own in zip(texts, ends, strict=True):
            spans = [np.array(next(encodings).offsets, dtype=np.int64).reshape(-1, 2) for _ in own]
            size, before = len(spans[0]), 0
            if len(own) > 1:
                # Never small enough to stay whole.
                size, before = size + len(spans[1]) + 4 * self.max_length, len(text) - span
            made.append(Piece(text, size, spans[-1][:, 0] + before, spans[0][:, 1]))
        return made

    def _try_forms(self) -> str:
        """The first form in which the template shows all of a conversation."""
        why = ""
        for form in FORMS:
            try:
                text = self._apply(PROBE, form)
            except Exception as error:  # as above
                why = first_line(error)
                continue
            places = [text.find(word) for word in PROBE_ORDER]
            if -1 not in places and places == sorted(places) and all(word in text for word in PROBE_REST):
                return form
            why = "it leaves out parts of them"
        raise AssayError(f"the tokenizer's chat template refuses an agent's conversations ({why})")

    def _around_a_message(self) -> int:
        """Tokens that the template puts around a message, about."""
        whole = len(self._tokens([(self._apply(PROBE, self.form), "")])[0])
        texts = self._pieces(
            [text for one in PROBE for text in (one.content, *(c.arguments for c in one.tool_calls))]
        )
        return max(1, (whole - sum(piece.size for piece in texts)) // len(texts))

    def _answer(self, setting: str, token: str) -> int:
        before, after = self._after_question(token)
        if not _one_more(before, after):
            raise AssayError(
                f"train.{setting}: {token!r} is not one token of this tokenizer after the question"
                + self._advice()
            )
        if after[-1] == self._tokenizer.unk_token_id:
            raise AssayError(f"train.{setting}: this tokenizer does not know {token!r}{self._advice()}")
        return int(after[-1])

    def _after_question(self, token: str) -> tuple[Ids, Ids]:
        """Tokens of a conversation without and with an answer."""
        text = self._apply(PROBE, self.form)
        before, after = self._tokens([(text, ""), (text + token, "")])
        return before, after

    def _advice(self) -> str:
        for pair in ANSWERS:
            found = [self._after_question(token) for token in pair]
            if all(_one_more(*one) for one in found) and found[0][1][-1] != found[1][1][-1]:
                return f"; {pair[0]!r} and {pair[1]!r} are two that fit"
        return "; give two words that are"


def _one_more(before: Ids, after: Ids) -> bool:
    return len(after) == len(before) + 1 and bool(np.array_equal(after[:-1], before))
