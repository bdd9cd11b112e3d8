"""Programs with an outcome and labelled functions become token sequences that know where each function is.

In: shards of the `steps` table. Out: `Labelled` (text), `Item`s of one sequence each, and an `Account`.

A program is the conversation user (`prompt`), assistant (`completion`) in the tokenizer's chat template. Its
targets are the tokens of the completion and of the template's end of turn. One that does not fit in
`max_length` keeps its beginning, without the end of turn: a policy is not to learn to stop half-way.

Functions come as byte offsets into the completion as UTF-8. A token that holds a character of a function
belongs to it, one between two functions to both; an offset inside of a character takes the whole character.
A function that is not whole in the window, has no text, or lies outside of the completion is not labelled,
and counted as `functions_cut`, `functions_absent` or `functions_misplaced`.

Reasons of drops: `no_outcome`, `bad_outcome`, `bad_label`, `empty_completion`, `prompt_too_long`,
`template_changes_text`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from schemas.errors import AccountingError
from schemas.ids import content_id
from schemas.records import StepLabeledCandidate
from schemas.shards import iter_rows
from schemas.stage import Drop
from trainers.data import Cutting, Side, encode_sides
from trainers.items import Item
from trainers.objectives.base import Account
from trainers.packing import Ids, Places

COLUMNS = ("id", "problem_id", "prompt", "completion", "outcome", "steps", "language", "license")
NOTES = (
    *("windowed", "prompts_cut", "functions", "functions_labelled", "functions_unlabelled"),
    *("functions_absent", "functions_cut", "functions_misplaced", "functions_masked"),
)
"""What is counted of the programs that are kept. Each of the `functions` is in one of those after it;
`functions_masked` are those whose label contradicts the outcome, where these are not trained on."""
UNKNOWN = -1
"""The label of a function without one."""
_CHUNK = 64

Labels = NDArray[np.int8]


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A function of a program: bytes [start, end) of the completion, and its label (None: not known)."""

    start: int
    end: int
    label: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Labelled:
    """The columns of a program that training and evaluation read."""

    idx: str
    problem_id: str
    prompt: str
    completion: str
    outcome: int | None
    functions: tuple[Function, ...]
    language: str
    license: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What the loss needs to know of a program.

    Attributes:
        right: whether it passes its suite.
        start: where its completion begins in the sequence.
        spans: where its labelled functions stand among its targets, rows (first, one past the last).
        labels: of these functions: 1 right, 0 wrong.
        trained: the labels that are trained on, `UNKNOWN` for those that contradict the outcome and are
            masked.
        own_task: of a mismatched pair only, whether its completion is one of its prompt's own task.
    """

    right: bool
    start: int
    spans: Places
    labels: Labels
    trained: Labels
    own_task: bool = False


def read_programs(paths: Iterable[Path], label: str) -> list[Labelled]:
    """All programs of some shards, ordered by id, so that neither order nor cut of shards matters.

    Args:
        paths: the shards.
        label: the column of a function that is its label.

    Raises:
        ShardError: a shard is missing, damaged or not one of `steps`.
    """
    rows = []
    for path in paths:
        for row in iter_rows(Path(path), StepLabeledCandidate, COLUMNS):
            functions = tuple(
                Function(step["start_byte"], step["end_byte"], step[label]) for step in row["steps"]
            )
            rows.append(
                Labelled(
                    idx=row["id"],
                    functions=functions,
                    **{name: row[name] for name in COLUMNS if name not in ("id", "steps")},
                )
            )
    return sorted(rows, key=lambda row: (row.idx, row.problem_id, row.prompt, row.completion, repr(row)))


def characters(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int] | None]:
    """Byte spans of a text's UTF-8 as spans of its characters; one that cuts a character takes all of it, one
    that is not inside of the text is None, and an empty one stays empty."""
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    # How many characters begin before each byte and at it: continuation bytes are 10xxxxxx.
    begun = np.cumsum((raw & 0xC0) != 0x80)
    found: list[tuple[int, int] | None] = []
    for start, end in spans:
        if not 0 <= start <= end <= len(raw):
            found.append(None)
        elif start == end:
            found.append((0, 0))
        else:
            found.append((int(begun[start]) - 1, int(begun[end - 1])))
    return found


def encode_programs(
    rows: Sequence[Labelled], tokenizer: PreTrainedTokenizerFast, cutting: Cutting, mask: bool
) -> tuple[list[Item], Account]:
    """Tokenise programs, in their order, with a tokenizer that has a chat template.

    Args:
        rows: the programs.
        tokenizer: the tokenizer.
        cutting: how they are made to fit; a completion keeps its beginning whatever it says.
        mask: whether a label that contradicts the outcome is not trained on.

    Raises:
        AssayError: the chat template refuses the conversations.
    """
    account = Account(rows=len(rows), noted=dict.fromkeys(NOTES, 0))
    made: list[Item] = []
    ready = []
    for row in rows:
        if (reason := _unfit(row)) is None:
            ready.append(row)
        else:
            account.drops.append(Drop(row.idx, *reason))
    for at in range(0, len(ready), _CHUNK):
        chunk = ready[at : at + _CHUNK]
        places = [characters(row.completion, [(f.start, f.end) for f in row.functions]) for row in chunk]
        sides = encode_sides(
            tokenizer,
            [("", row.prompt, row.completion) for row in chunk],
            [[span or (0, 0) for span in spans] for spans in places],
        )
        for row, side, spans in zip(chunk, sides, places, strict=True):
            if not side.found:
                account.drops.append(Drop(row.idx, "template_changes_text"))
                continue
            item = _item(row, side, spans, cutting, mask, account)
            if item is None:
                detail = f"{side.start} tokens of prompt, {cutting.max_length} in all"
                account.drops.append(Drop(row.idx, "prompt_too_long", detail))
            else:
                made.append(item)
    account.kept = len(made)
    if account.rows != account.kept + len(account.drops):
        raise AccountingError(
            f"encoding: {account.rows} programs in, {account.kept} kept and {len(account.drops)} dropped"
        )
    return made, account


def _unfit(row: Labelled) -> tuple[str, str | None] | None:
    if row.outcome is None:
        return "no_outcome", None
    if row.outcome not in (0, 1):
        return "bad_outcome", f"{row.outcome} is neither 0 nor 1"
    wrong = [f.label for f in row.functions if f.label not in (None, 0, 1)]
    if wrong:
        return "bad_label", f"{wrong[0]} is neither 0 nor 1 nor null"
    if not row.completion.strip():
        return "empty_completion", None
    return None


def _item(
    row: Labelled,
    side: Side,
    places: Sequence[tuple[int, int] | None],
    cutting: Cutting,
    mask: bool,
    account: Account,
) -> Item | None:
    body = side.ids[side.start :]
    prompt = cutting.fit_prompt(side.ids[: side.start], len(body), 0)
    if prompt is None:
        return None
    noted = account.noted
    kept = body[: cutting.max_length - len(prompt)]
    noted["windowed"] += len(kept) < len(body)
    noted["prompts_cut"] += len(prompt) < side.start
    noted["functions"] += len(row.functions)
    # The first token of a sequence is predicted by nothing.
    start = max(1, len(prompt))
    shift = side.start - len(prompt) + start
    spans: list[tuple[int, int]] = []
    labels: list[int] = []
    for function, place, mark in zip(row.functions, places, side.marks, strict=True):
        if function.label is None:
            noted["functions_unlabelled"] += 1
        elif place is None:
            noted["functions_misplaced"] += 1
        elif mark is None:
            noted["functions_absent"] += 1
        elif mark[1] - side.start > len(kept):
            noted["functions_cut"] += 1
        else:
            spans.append((max(0, mark[0] - shift), mark[1] - shift))
            labels.append(function.label)
            noted["functions_masked"] += mask and function.label != row.outcome
    found = np.array(labels, dtype=np.int8)
    trained = np.where(found == row.outcome, found, UNKNOWN).astype(np.int8) if mask else found
    noted["functions_labelled"] += int(np.sum(trained != UNKNOWN))
    facts = Facts(row.outcome == 1, start, np.array(spans, dtype=np.int64).reshape(-1, 2), found, trained)
    return _sequence(row.idx, row.problem_id, content_id(row.prompt), np.concatenate([prompt, kept]), facts)


def _sequence(idx: str, group: str, share: str, ids: Ids, facts: Facts) -> Item:
    at = np.arange(facts.start, len(ids))
    return Item(idx, group, share, (ids,), (at - 1,), (ids[at].astype(np.int64),), facts)


def mismatched(items: Sequence[Item], order: Sequence[int], max_length: int) -> list[Item]:
    """For each place of an epoch's order: the prompt of the item there with the completion of one of another
    task, for the reference point of KTO.

    The completions are those of the order turned on: where a run of items of one task ends, the first of
    the run takes the completion of the next item, the second that of the one after it, and so on; so the
    candidates of one task get different ones, and each epoch others. Where all items are of one task, each
    gets the completion of the next one, and its facts say `own_task`.

    Args:
        items: as `encode_programs` gives them.
        order: indices of items.
        max_length: tokens that a pair is cut to at its end; functions that are cut lose their label.
    """
    count = len(order)
    groups = [items[index].group for index in order]
    ends = [0] * count
    for place in reversed(range(count)):
        last = place + 1 == count or groups[place + 1] != groups[place]
        ends[place] = place + 1 if last else ends[place + 1]
    begin = 0
    made = []
    for place in range(count):
        if place and groups[place] != groups[place - 1]:
            begin = place
        other = (ends[place] + place - begin) % count
        # What follows a run is of another task, but for the order's last run when it is of the first one's.
        for _ in range(2):
            if groups[other] == groups[place]:
                other = ends[other] % count
        if groups[other] == groups[place]:
            other = (place + 1) % count
        made.append(_mismatched(items[order[place]], items[order[other]], max_length))
    return made


def _mismatched(item: Item, other: Item, max_length: int) -> Item:
    own, theirs = item.facts, other.facts
    ids = np.concatenate([item.sequences[0][: own.start], other.sequences[0][theirs.start :]])[:max_length]
    whole = theirs.spans[:, 1] <= len(ids) - own.start
    facts = Facts(
        right=theirs.right,
        start=own.start,
        spans=theirs.spans[whole],
        labels=theirs.labels[whole],
        trained=theirs.trained[whole],
        own_task=item.group == other.group,
    )
    return _sequence(f"{item.idx}+{other.idx}", item.group, item.share, ids, facts)


def counts(rows: Sequence[Labelled]) -> dict[str, dict[str, int]]:
    """Programs by outcome, language and licence, functions by label, tasks by what outcomes they have, and
    from where the completions of the reference point come: of `another_task` unless there is only one."""
    names = {1: "right", 0: "wrong", None: "none"}
    outcomes: dict[str, set[int]] = {}
    for row in rows:
        known = outcomes.setdefault(row.problem_id, set())
        known |= set() if row.outcome is None else {row.outcome}
    kinds = {(): "no_outcome", (0,): "all_wrong", (1,): "all_right", (0, 1): "mixed"}
    found = {
        "outcomes": Counter(names.get(row.outcome, "bad") for row in rows),
        "functions": Counter(names.get(f.label, "bad") for row in rows for f in row.functions),
        "tasks": Counter(kinds.get(tuple(sorted(known)), "bad") for known in outcomes.values()),
        "languages": Counter(row.language for row in rows),
        "licenses": Counter(row.license or "unknown" for row in rows),
        "mismatched_with": Counter({"another_task" if len(outcomes) > 1 else "own_task": len(rows)}),
    }
    return {name: dict(sorted(counted.items())) for name, counted in found.items()}
