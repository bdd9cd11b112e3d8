"""What stays of a conversation that is too long: the newest whole, of the older only beginnings and ends.

In: the messages between a task and the question about it, and room in tokens. Out: the same messages, the old
ones shortened or gone, and how many are gone. Pure functions; nothing goes wrong. The rule:

* Messages are taken by turns, each from an assistant's message to before its next one.
* The newest turns stay whole. Of older ones every text (a message's content, a call's arguments) that is long
  keeps some tokens of its beginning and of its end, and between them stands how many characters are missing;
  the turn at the border is shortened no more than it must be.
* When all turns shortened are still too many, the oldest go, and it is said how many messages these were.

Costs are estimates, since tokens of a whole are not the sum of those of its parts: the caller measures what
comes out, and asks again with less room.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.records import Message, ToolCall

Places = NDArray[np.int64]

_LEAST = 8
"""Tokens of a text that is shortened, unless its turn goes."""
_MOST_KEYS = 16
_LONGEST_KEY = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """A text, and where its tokens lie.

    Attributes:
        text: the text.
        size: its tokens; more than any room there is when only its two ends were measured.
        starts: where each token begins, in characters; of a text of which only the ends were measured, of the
            tokens of its end.
        ends: where each token ends; likewise, of the tokens of its beginning.
    """

    text: str
    size: int
    starts: Places
    ends: Places

    def cut(self, room: int, mark: int) -> str:
        """The text with about `room` tokens of it left, half of them from its end, and `mark` tokens between
        that say what is missing; the whole text when that saves nothing."""
        if self.size <= room + mark:
            return self.text
        tail = min(room // 2, len(self.starts))
        head = min(room - room // 2, len(self.ends))
        end = int(self.ends[head - 1]) if head else 0
        start = max(end, int(self.starts[len(self.starts) - tail])) if tail else len(self.text)
        if start <= end:
            return self.text
        return f"{self.text[:end]}{missing(start - end)}{self.text[start:]}"


def missing(characters: int) -> str:
    """What stands for characters that are left out."""
    return f"\n[... {characters:,} characters left out ...]\n"


def gone(messages: int) -> str:
    """What stands for messages that are left out."""
    return f"\n\n[... {messages:,} {'message' if messages == 1 else 'messages'} left out ...]"


Measure = Callable[[Sequence[str]], list[Piece]]
"""Pieces of texts."""


class Middle:
    """The messages between a task and the question, measured once, to be shortened to several rooms.

    Attributes:
        cost: tokens of all of them, about, at least 1.
    """

    def __init__(self, messages: Sequence[Message], measure: Measure, most: int, overhead: int) -> None:
        """
        Args:
            messages: in order.
            measure: gives pieces of texts.
            most: no room will be larger than this many tokens.
            overhead: tokens that a template puts around a message, about.
        """
        self._measure, self._overhead = measure, overhead
        self._mark = measure([missing(99_999)])[0].size
        # Each message takes a token at least, so those before the newest `most` cannot stay.
        self._before = max(0, len(messages) - most)
        while 0 < self._before < len(messages) and messages[self._before].role != "assistant":
            self._before += 1
        self._turns = _turns(messages[self._before :])
        texts = [text for turn in self._turns for message in turn for text in _texts(message)]
        pieces = iter(measure(texts))
        self._pieces = [[[next(pieces) for _ in _texts(m)] for m in turn] for turn in self._turns]
        self._sizes = [
            np.array([piece.size for own in turn for piece in own], dtype=np.int64) for turn in self._pieces
        ]
        self._short = min(512, max(16, most // 64))
        self._short_costs = [self._cost(number, self._short) for number in range(len(self._turns))]
        self._costs = [self._cost(number, most + 1) for number in range(len(self._turns))]
        self.cost = max(1, sum(self._cost(number, 1 << 40) for number in range(len(self._turns))))

    def _cost(self, number: int, room: int) -> int:
        """Tokens of a turn whose texts keep `room` tokens each."""
        turn = self._turns[number]
        texts = int(np.minimum(self._sizes[number], room + self._mark).sum())
        return texts + self._overhead * sum(1 + len(message.tool_calls) for message in turn)

    def fit(self, room: int) -> tuple[list[Message], int, int]:
        """Messages for `room` tokens (0 or more), how many others are left out before them, and their tokens,
        about."""
        count = len(self._turns)
        # of[j]: tokens with the turns before j short and those from j on whole.
        short = np.concatenate([[0], np.cumsum(self._short_costs)])
        whole = np.concatenate([[0], np.cumsum(self._costs)])
        of = short + whole[-1] - whole
        if len(fitting := np.flatnonzero(of <= room)):
            old, first = int(fitting[0]), 0
            border = old - 1
            left = room - int(of[old]) + self._short_costs[border] if old else 0
        else:
            first = int(np.flatnonzero(short[-1] - short <= room)[0])
            old, border = count, count - 1
            if first == count:
                # Not even the newest turn fits as short as the others: it may be shorter than these.
                first = border
            left = room - int(short[-2] - short[first])
        rooms = [self._short if number < old else -1 for number in range(count)]
        if border >= 0:
            rooms[border] = self._widest(border, left)
            if rooms[border] < _LEAST:
                first = count
        lost = self._before + sum(map(len, self._turns[:first]))
        found: list[Message] = []
        cost = 0
        for number in range(first, count):
            turn = zip(self._turns[number], self._pieces[number], strict=True)
            if rooms[number] < 0:
                found += [message for message, _ in turn]
                cost += self._costs[number]
            else:
                found += [self._shortened(message, own, rooms[number]) for message, own in turn]
                cost += self._cost(number, rooms[number])
        return found, lost, cost

    def _widest(self, number: int, left: int) -> int:
        """Most tokens that each text of a turn may keep for the turn to cost at most `left`; 0 for none."""
        low, high = 0, int(self._sizes[number].max(initial=0)) + 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._cost(number, middle) <= left:
                low = middle
            else:
                high = middle - 1
        return max(low, _LEAST) if self._cost(number, _LEAST) <= left else 0

    def _shortened(self, message: Message, pieces: Sequence[Piece], room: int) -> Message:
        calls = [
            call
            if piece.size <= room + self._mark
            else dataclasses.replace(call, arguments=self._arguments(call, piece, room))
            for call, piece in zip(message.tool_calls, pieces[1:], strict=True)
        ]
        return dataclasses.replace(message, content=pieces[0].cut(room, self._mark), tool_calls=calls)

    def _arguments(self, call: ToolCall, piece: Piece, room: int) -> str:
        """Arguments with about `room` tokens left, as JSON: each value shortened, or all as one text."""
        values = arguments_of(call.arguments)
        if not values or len(values) > _MOST_KEYS or max(map(len, values)) > _LONGEST_KEY:
            return json.dumps({"arguments": piece.cut(room, self._mark)}, ensure_ascii=False)
        texts = [
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for value in values.values()
        ]
        pieces = self._measure(texts)
        # What short values leave is for the long ones.
        long = [one.size for one in pieces if one.size > room // len(pieces)]
        left = room - sum(one.size for one in pieces) + sum(long)
        share = max(_LEAST, left // max(1, len(long)))
        shown = {
            name: value if (short := one.cut(share, self._mark)) == one.text else short
            for (name, value), one in zip(values.items(), pieces, strict=True)
        }
        return json.dumps(shown, ensure_ascii=False)


def arguments_of(text: str) -> dict[str, Any] | None:
    """A call's arguments as an object; None when the text is not one, or would lose something as one."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key stands twice")
        return found

    try:
        found = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _texts(message: Message) -> list[str]:
    return [message.content, *(call.arguments for call in message.tool_calls)]


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "assistant" or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns
