"""Pairs shards become token sequences, and every row that does not is counted with its reason.

In: Parquet shards of `PreferencePair`. Out: `Pair` (text), `TokenPair` (token ids of both sides and
where the completion begins) and an `Account` with `rows == kept + sum(drops)`.

A side is the conversation system, user (`input`), assistant (`chosen` or `rejected`) in the tokenizer's
chat template, tokenised as a whole: what `apply_chat_template` gives for it. What is longer than
`max_length` is cut by a `Cutting`:

* The template's end of turn always stays: it is the token that the reward is read from.
* A prompt that leaves too little room loses tokens in its middle (`long_prompt` = `cut`): the system
  prompt's beginning and the instruction's end stay. Or the pair is dropped (`drop`).
* Of a completion one window stays. It begins at the same token on both sides and holds the first token
  in which they differ (`window_start`), so cutting never makes the sides equal. With `truncation` =
  `head` it holds the beginning, as for a single completion; pairs that become equal are then dropped.

Reasons of drops: `empty_completion`, `identical`, `prompt_too_long`, `identical_after_truncation`,
`template_changes_text` (the template rewrites the completion, so its tokens cannot be found).
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from transformers import PreTrainedTokenizerFast

from schemas.errors import AccountingError, AssayError
from schemas.ids import fraction
from schemas.records import PreferencePair
from schemas.shards import iter_rows, write_text
from schemas.stage import Drop
from trainers.config import TrainConfig
from trainers.objectives.base import Account
from trainers.packing import Ids, common_prefix
from trainers.tokenizer import first_line

COLUMNS = ("idx", "system", "input", "chosen", "rejected", "language", "aspect", "commit", "license")
_CHUNK = 64

Row = TypeVar("Row")


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """The columns of a pair that training and evaluation read; of its evidence only where asked for."""

    idx: str
    system: str
    input: str
    chosen: str
    rejected: str
    language: str
    aspect: str
    commit: str | None
    license: str | None
    confidence: float | None = None
    strength: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class TokenPair:
    """Both sides of a pair as token ids.

    Attributes:
        pair: the text it was made from.
        chosen: ids of prompt, completion window and end of turn.
        rejected: likewise; its first `prompt_length` ids equal those of `chosen`.
        prompt_length: tokens before the completion.
        windowed: whether a part of a completion was cut away.
        prompt_cut: whether a part of the prompt was cut away.
    """

    pair: Pair
    chosen: Ids
    rejected: Ids
    prompt_length: int
    windowed: bool
    prompt_cut: bool = False

    @property
    def length(self) -> int:
        """Tokens of the longer side."""
        return max(len(self.chosen), len(self.rejected))

    @property
    def tokens(self) -> int:
        """Tokens of both sides."""
        return len(self.chosen) + len(self.rejected)

    @property
    def unique_tokens(self) -> int:
        """Tokens of both sides, their longest common beginning counted once."""
        return self.tokens - common_prefix(self.chosen, self.rejected)


@dataclasses.dataclass(frozen=True, slots=True)
class Cutting:
    """How conversations are made to fit.

    Attributes:
        max_length: most tokens of a side.
        min_completion: tokens that a completion gets when it needs them.
        truncation: `difference` or `head`, see the module.
        long_prompt: `cut` or `drop`, see the module.
    """

    max_length: int
    min_completion: int
    truncation: str = "difference"
    long_prompt: str = "cut"

    @classmethod
    def of(cls, config: TrainConfig) -> Cutting:
        """The rule of a resolved config."""
        return cls(config.max_length, config.min_completion, config.truncation, config.long_prompt)

    def fit_prompt(self, prompt: Ids, needed: int, tail: int) -> Ids | None:
        """The prompt, short enough for a completion that needs `needed` tokens and for `tail` tokens
        after it; None when it cannot be, or must not."""
        room = self.max_length - tail - min(self.min_completion, needed)
        if len(prompt) <= room:
            return prompt
        if self.long_prompt == "drop" or room < 1:
            return None
        back = (room + 1) // 2
        return np.concatenate([prompt[: room - back], prompt[len(prompt) - back :]])


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One conversation as token ids: `ids[start:end]` is the completion, when it was `found`.

    `marks` are the parts of the completion that were asked for, as (first token, one past the last) in
    `ids`; None for one without text.
    """

    ids: Ids
    start: int
    end: int
    found: bool
    marks: tuple[tuple[int, int] | None, ...] = ()


def read_pairs(paths: Iterable[Path], *, evidence: bool = False) -> list[Pair]:
    """All pairs of some shards, ordered by id, so that neither order nor cut of shards matters.

    Args:
        paths: the shards.
        evidence: whether to read `confidence` and `strength` of `evidence` too.

    Raises:
        ShardError: a shard is missing, damaged or not one of pairs.
    """
    columns = (*COLUMNS, "evidence") if evidence else COLUMNS
    rows = []
    for path in paths:
        for row in iter_rows(Path(path), PreferencePair, columns):
            told = row.pop("evidence", None) or {}
            rows.append(Pair(**row, confidence=told.get("confidence"), strength=told.get("strength")))
    # A licence may be null, which does not compare.
    return sorted(rows, key=lambda pair: tuple(value or "" for value in dataclasses.astuple(pair)[:-2]))


def hold_out(
    rows: Sequence[Row], group: Callable[[Row], str], share: float, seed: int
) -> tuple[list[Row], list[Row]]:
    """(training, development) rows; all rows of a group go to the same side. When that would leave
    none to train on, as it may with a handful of groups, none are held out."""
    sides: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        sides[fraction(seed, "dev", group(row)) < share].append(row)
    return sides if sides[0] else (list(rows), [])


def conversation(system: str, user: str, completion: str) -> list[dict[str, str]]:
    """A side as chat messages; an empty system prompt makes no message."""
    head = [{"role": "system", "content": system}] if system else []
    return [*head, {"role": "user", "content": user}, {"role": "assistant", "content": completion}]


def encode_sides(
    tokenizer: PreTrainedTokenizerFast,
    sides: Sequence[tuple[str, str, str]],
    marks: Sequence[Sequence[tuple[int, int]]] = (),
) -> list[Side]:
    """(system, user, completion) triples as token ids; a completion that is empty, or that the template
    rewrites, is not found in them.

    Args:
        tokenizer: has a chat template.
        sides: the triples.
        marks: for each, parts of its completion to be found, as (first character, one past the last). A
            token that holds a character of a part belongs to it, so two parts may share the token between
            them.

    Raises:
        AssayError: the template refuses the conversation.
    """
    texts, spans = [], []
    for system, user, completion in sides:
        try:
            text = tokenizer.apply_chat_template(conversation(system, user, completion), tokenize=False)
        except Exception as error:  # a template may raise whatever its author chose
            raise AssayError(
                f"the tokenizer's chat template refuses a conversation of "
                f"{'system, ' if system else ''}user and assistant ({first_line(error)})"
            ) from None
        texts.append(str(text))
        spans.append(_find(texts[-1], completion))
    encodings = tokenizer(texts, add_special_tokens=False, verbose=False).encodings or []
    made = []
    for number, (encoding, span) in enumerate(zip(encodings, spans, strict=True)):
        tokens = None if span is None else _token_span(encoding, *span)
        ids = np.array(encoding.ids, dtype=np.int32)
        start, end = tokens or (len(ids), len(ids))
        marked: list[tuple[int, int] | None] = []
        if marks and span is not None and tokens is not None:
            # What a template stripped off the completion's front, if it did.
            completion = sides[number][2]
            bare = texts[number].startswith(completion.rstrip(), span[0])
            origin = span[0] - (0 if bare else len(completion) - len(completion.lstrip()))
            parts = [(max(span[0], origin + a), min(span[1], origin + b)) for a, b in marks[number]]
            marked = _marked(encoding, parts, tokens)
        made.append(Side(ids, start, end, tokens is not None, tuple(marked)))
    return made


def _find(text: str, completion: str) -> tuple[int, int] | None:
    """Where the completion stands in the rendered text; a template may strip the blanks around it."""
    for wanted in (completion, completion.rstrip(), completion.strip()):
        if wanted and (at := text.rfind(wanted)) >= 0:
            return at, at + len(wanted)
    return None


def _token_span(encoding: Any, start: int, end: int) -> tuple[int, int] | None:
    """First token of the characters [start, end) and one past their last. Some tokenizers leave blanks
    out of their offsets, so the ends are looked for inwards."""
    first = next((t for c in range(start, end) if (t := encoding.char_to_token(c)) is not None), None)
    last = next((t for c in range(end - 1, start - 1, -1) if (t := encoding.char_to_token(c)) is not None), 0)
    return None if first is None else (first, last + 1)


def _marked(
    encoding: Any, parts: Sequence[tuple[int, int]], within: tuple[int, int]
) -> list[tuple[int, int] | None]:
    """Tokens, of those `within`, from the first one that holds a character of each part to the last."""
    begin, end = within
    offsets = np.array(encoding.offsets[begin:end], dtype=np.int64).reshape(-1, 2)
    found: list[tuple[int, int] | None] = []
    for first, last in parts:
        inside = (offsets[:, 0] < last) & (offsets[:, 1] > first) & (first < last)
        held = np.flatnonzero(inside)
        found.append((begin + int(held[0]), begin + int(held[-1]) + 1) if len(held) else None)
    return found


def window_start(difference: int, longest: int, budget: int) -> int:
    """Where the window of `budget` tokens begins, the same on both sides of a pair.

    It is 0 when the longer completion fits. Else the first difference stands in the window's middle,
    unless it lies in the first half of a window from the start, or the completions end before such a
    window does: then it is moved to end with the longer one. For `0 <= difference < longest` and
    `budget >= 1`, `start <= difference < start + budget`.
    """
    if longest <= budget:
        return 0
    return max(0, min(difference - budget // 2, longest - budget))


def cut_pair(pair: Pair, chosen: Side, rejected: Side, cutting: Cutting) -> TokenPair | Drop:
    """Cut both sides of a pair by the module's rule, or say why that cannot be."""
    begin = min(chosen.start, rejected.start, common_prefix(chosen.ids, rejected.ids))
    bodies = [side.ids[begin : side.end] for side in (chosen, rejected)]
    tails = [side.ids[side.end :] for side in (chosen, rejected)]
    longest = max(map(len, bodies))
    difference = common_prefix(*bodies)
    if difference == longest:
        return Drop(pair.idx, "identical", "both sides have the same tokens")
    tail = max(map(len, tails))
    prompt = cutting.fit_prompt(chosen.ids[:begin], longest, tail)
    if prompt is None:
        return Drop(pair.idx, "prompt_too_long", f"{begin} tokens of prompt, {cutting.max_length} in all")
    budget = cutting.max_length - len(prompt) - tail
    start = window_start(difference, longest, budget) if cutting.truncation == "difference" else 0
    sides = [
        np.concatenate([prompt, body[start : start + budget], end])
        for body, end in zip(bodies, tails, strict=True)
    ]
    if np.array_equal(sides[0], sides[1]):
        return Drop(pair.idx, "identical_after_truncation", f"first difference at token {difference}")
    return TokenPair(pair, sides[0], sides[1], len(prompt), longest > budget, len(prompt) < begin)


def cut_side(side: Side, cutting: Cutting) -> Ids | None:
    """A single conversation, cut by the module's rule with the beginning of its completion kept; None
    when its prompt is too long."""
    body, tail = side.ids[side.start : side.end], side.ids[side.end :]
    prompt = cutting.fit_prompt(side.ids[: side.start], len(body), len(tail))
    if prompt is None:
        return None
    return np.concatenate([prompt, body[: cutting.max_length - len(prompt) - len(tail)], tail])


def encode_pairs(
    pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerFast, cutting: Cutting
) -> tuple[list[TokenPair], Account]:
    """Tokenise pairs, in their order, with a tokenizer that has a chat template.

    Raises:
        AssayError: the chat template refuses the conversations.
    """
    account = Account(rows=len(pairs), noted={"windowed": 0, "prompts_cut": 0})
    kept: list[TokenPair] = []
    ready: list[Pair] = []
    for pair in pairs:
        if not pair.chosen.strip() or not pair.rejected.strip():
            account.drops.append(Drop(pair.idx, "empty_completion"))
        else:
            ready.append(pair)
    for at in range(0, len(ready), _CHUNK):
        chunk = ready[at : at + _CHUNK]
        texts = [(p.system, p.input, side) for p in chunk for side in (p.chosen, p.rejected)]
        sides = encode_sides(tokenizer, texts)
        for pair, chosen, rejected in zip(chunk, sides[::2], sides[1::2], strict=True):
            if not (chosen.found and rejected.found):
                account.drops.append(Drop(pair.idx, "template_changes_text"))
                continue
            made = cut_pair(pair, chosen, rejected, cutting)
            if isinstance(made, Drop):
                account.drops.append(made)
            else:
                kept.append(made)
                account.noted["windowed"] += made.windowed
                account.noted["prompts_cut"] += made.prompt_cut
    account.kept = len(kept)
    if account.rows != account.kept + len(account.drops):
        raise AccountingError(
            f"encoding: {account.rows} pairs in, but {account.kept} kept and {len(account.drops)} dropped"
        )
    return kept, account


def write_drops(path: Path, accounts: Mapping[str, Account]) -> None:
    """Write one JSON line a dropped pair: which part of the data, id, reason and detail."""
    lines = [
        json.dumps({"part": part, **dataclasses.asdict(drop)})
        for part, account in accounts.items()
        for drop in account.drops
    ]
    write_text(path, "".join(line + "\n" for line in lines))


def count_by(pairs: Iterable[Pair], column: str) -> Mapping[str, int]:
    """Number of pairs of each value of a column; a missing licence counts as `unknown`."""
    counts = Counter(getattr(pair, column) or "unknown" for pair in pairs)
    return dict(sorted(counts.items()))


def batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Consecutive slices of at most `size` items."""
    for at in range(0, len(items), size):
        yield items[at : at + size]
