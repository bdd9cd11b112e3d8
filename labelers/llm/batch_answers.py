"""Answers of batches: output and error files of OpenAI's format, line by line, into the file of calls.

In: a file of lines (`custom_id`, `response`, `error`), from a provider or from `vllm run_batch`. Out: answers
and errors are kept; the requests of other lines wait for the next batch.
Wrong: `AssayError` where the file cannot be read. A line that is no such line, or answers no request that
waits, is counted; the others are read.

    answered     kept, at the price of a batch
    failed       refused for good: kept as an error
    again        expired, cancelled, cut off by the server's trouble: to be sent once more
    repeated     answered before
    unknown      no request of this run
    unreadable   not a line of such a file
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labelers.llm.backends.base import Failure
from labelers.llm.backends.openai import FATAL_CODES, MAX_ANSWER, answer_of, error_of, refused_parameter
from labelers.llm.batch import Queue, Target, target, unpacked
from labelers.llm.store import Stored
from schemas.errors import AssayError
from schemas.tokens import estimate_tokens

TRIES = 3
"""Batches in which a request may fail by the server's trouble before its error is kept."""
_TOGETHER = 200
_MAX_REASONS = 3


@dataclasses.dataclass(frozen=True)
class _Outcome:
    """What a line says: an answer or error to keep, or (neither) that the request is to be sent again."""

    stored: Stored | None = None
    why: str = ""
    # Sending again may not help for ever.
    counts: bool = False
    charged: bool = False
    unknown: str | None = None


@dataclasses.dataclass
class Read:
    """What the lines of files were: how many of each, why requests are sent again, and what was paid."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    reasons: Counter[str] = dataclasses.field(default_factory=Counter)
    cost_usd: float = 0.0

    def line(self) -> str:
        """All of it on one line."""
        told = ", ".join(f"{count:,} {name}" for name, count in sorted(self.counts.items()) if count)
        why = "; ".join(f"{count:,} x {reason}" for reason, count in self.reasons.most_common(_MAX_REASONS))
        return f"{told or 'nothing'}, ${self.cost_usd:.4f}" + (f" ({why})" if why else "")


def read_answers(queue: Queue, path: Path, read: Read) -> None:
    """Keep what a file answers; requests that it does not answer stay as they are.

    Raises:
        AssayError: the file cannot be read.
    """
    lines = _lines(path)
    # As they were when the file was sent: what one line teaches holds for the next batch.
    targets: dict[int, Target] = {}
    going = True
    while going:
        with queue.store.together() as db:
            going = False
            for number, line in enumerate(lines, 1):
                _read_line(queue, db, line, targets, read)
                if number == _TOGETHER:
                    going = True
                    break


def again(db: sqlite3.Connection, file: int, why: str, read: Read) -> None:
    """Let the requests of a file that nothing answered wait for the next batch."""
    count = db.execute("UPDATE batch_calls SET file = NULL WHERE file = ?", (file,)).rowcount
    if count:
        read.counts["again"] += count
        read.reasons[why] += count


def _lines(path: Path) -> Iterator[bytes | None]:
    """Lines of a file; None for one that is too long."""
    try:
        with path.open("rb") as file:
            while line := file.readline(MAX_ANSWER + 1):
                if len(line) <= MAX_ANSWER or line.endswith(b"\n"):
                    if line.strip():
                        yield line
                    continue
                while (rest := file.readline(MAX_ANSWER)) and not rest.endswith(b"\n"):
                    pass
                yield None
    except OSError as error:
        raise AssayError(f"{path}: cannot be read ({error.strerror or error})") from None


def _read_line(
    queue: Queue, db: sqlite3.Connection, line: bytes | None, targets: dict[int, Target], read: Read
) -> None:
    try:
        found = None if line is None else json.loads(line)
    except (ValueError, RecursionError):
        found = None
    key = found.get("custom_id") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(key, str):
        read.counts["unreadable"] += 1
        return
    # A lone surrogate cannot be looked up.
    key = key[:200].encode("utf-8", "replace").decode()
    row = db.execute(
        "SELECT target, file, call, prompt_hash, kind, body, most_in, most_out, tries FROM batch_calls "
        "WHERE key = ?",
        (key,),
    ).fetchone()
    if row is None:
        known = db.execute("SELECT 1 FROM calls WHERE key = ?", (key,)).fetchone()
        read.counts["repeated" if known else "unknown"] += 1
        return
    number, file, call, prompt_hash, kind, body, most_in, most_out, tries = row
    whose = targets.get(number) or targets.setdefault(number, target(db, number))
    asked = json.loads(unpacked(body))
    outcome = _outcome(found, asked, whose)
    most = whose.cost(most_in, most_out) or 0.0
    if outcome.charged:
        db.execute("UPDATE spent SET lost = lost + ?", (most,))
        read.cost_usd += most
    db.execute("UPDATE batch_files SET held = max(0, held - ?) WHERE id = ?", (most, file))
    stored = outcome.stored
    if stored is None and outcome.counts and tries + 1 >= TRIES:
        stored = _error(f"{outcome.why}, in each of {TRIES} batches")
    if stored is None:
        if outcome.unknown is not None:
            unknown = " ".join(sorted({*target(db, number).unknown, outcome.unknown}))
            db.execute("UPDATE batch_targets SET unknown = ? WHERE id = ?", (unknown, number))
        db.execute(
            "UPDATE batch_calls SET file = NULL, tries = tries + ? WHERE key = ?", (outcome.counts, key)
        )
        read.counts["again"] += 1
        read.reasons[outcome.why] += 1
        return
    prompt = json.dumps(asked["messages"], ensure_ascii=False)
    queue.store.keep((key, whose.model, call, prompt_hash), prompt, kind, stored)
    db.execute("DELETE FROM batch_calls WHERE key = ?", (key,))
    read.counts["answered" if stored.error is None else "failed"] += 1
    read.cost_usd += stored.cost_usd or 0.0


def _outcome(found: dict[str, Any], asked: dict[str, Any], whose: Target) -> _Outcome:
    """What a line says of the request that it answers."""
    response = found.get("response")
    told = response if isinstance(response, dict) else {}
    status, body = told.get("status_code"), told.get("body")
    if status == 200:
        try:
            answer = answer_of(body)
        except Failure as failure:
            return _Outcome(why=str(failure), counts=True, charged=failure.charged)
        tokens_in, tokens_out = answer.tokens_in, answer.tokens_out
        if tokens_in is None:
            tokens_in = sum(estimate_tokens(one["content"]) for one in asked["messages"])
        if tokens_out is None:
            tokens_out = estimate_tokens(answer.text)
        cost = whose.cost(tokens_in, tokens_out)
        return _Outcome(
            Stored(answer.text, answer.finish, None, answer.served, tokens_in, tokens_out, cost, 0.0)
        )
    code, message = error_of(body)
    if not message and not code:
        code, message = error_of(found.get("error"))
    if type(status) is not int or status < 100:
        # Without a response: expired, cancelled, or trouble of the server.
        expired = code in ("batch_expired", "batch_cancelled")
        return _Outcome(why=code or message or "no response", counts=not expired)
    shown = f"HTTP {status}" + (f": {message}" if message else "")
    if status in (401, 402, 403, 404) or code in (*FATAL_CODES, "model_not_found"):
        # Not the request's fault: whoever sends it again mends that first.
        return _Outcome(why=shown)
    text = f"{code} {message}".encode()
    refused = refused_parameter(status, text, "response_format" in asked, whose.unknown)
    if refused is not None:
        return _Outcome(why=f"the server knows no {refused}", unknown=refused)
    if status in (408, 409, 425, 429) or status >= 500:
        return _Outcome(why=shown, counts=True)
    return _Outcome(_error(shown))


def _error(told: str) -> Stored:
    return Stored("", "", told, "", 0, 0, None, 0.0)
