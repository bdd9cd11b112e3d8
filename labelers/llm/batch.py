"""Requests that wait for a batch: kept in the file of calls, and written as batch files of OpenAI's format.

In: calls that have no answer yet. Out: files `<run>/batches/<model>-<number>.jsonl`, one request a line
(`custom_id`, the key of the call; `method`, `url`, `body`), within the provider's bounds; the tables say
which request is in which file. Several processes may collect at once; what was collected when one was killed
is written by the next.
Wrong: `EnvironmentFault` where a file cannot be written, `ModelFault` for a model that batches cannot ask.

A file is `open` (requests may be added), `sending`, `sent`, or `done`. What is on disk beyond the bytes that
the table tells was left by a process that died, and is cut off.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import sqlite3
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labelers.llm.backends.openai import body_of, without_unknown
from labelers.llm.calls import Call, ModelFault
from labelers.llm.config import ModelConfig
from labelers.llm.prices import listing, most_tokens, price_of
from labelers.llm.store import Store
from schemas.errors import EnvironmentFault

FOLDER = "batches"
URL = "/v1/chat/completions"
MAX_LINES = 50_000
MAX_BYTES = 200_000_000
"""Bounds of one file, as OpenAI has them."""
_PENDING = 256
_FLUSHED = 2000
_MAX_BODY = 256 << 20


@dataclasses.dataclass(frozen=True)
class Target:
    """Who is asked by a batch.

    Attributes:
        id: its number in the table.
        model: the name that answers are kept by.
        name: its name at the server.
        base_url: address of the server; empty for OpenAI's.
        api_key_env: variable that holds the key.
        token_in: US dollars a token of a prompt in a batch; None where the price is not known.
        token_out: the same for answers.
        budget: most that all answers of the run may cost; 0 for no bound.
        unknown: parameters that the server has shown not to know.
    """

    id: int
    model: str
    name: str
    base_url: str
    api_key_env: str
    token_in: float | None
    token_out: float | None
    budget: float
    unknown: tuple[str, ...]

    def cost(self, tokens_in: int, tokens_out: int) -> float | None:
        """US dollars of an answer; None where the price is not known."""
        if self.token_in is None or self.token_out is None:
            return None
        return tokens_in * self.token_in + tokens_out * self.token_out


def name_at_server(config: ModelConfig) -> str:
    """The model's name as its server knows it.

    Raises:
        ModelFault: a provider whose batches are not in OpenAI's format.
    """
    if config.kind == "openai":
        return config.model
    provider, slash, name = config.model.partition("/")
    if slash and (provider == "openai" or config.base_url):
        return name if provider == "openai" else config.model
    listed = listing(config.model)
    if not slash and isinstance(listed, dict) and listed.get("litellm_provider") == "openai":
        return config.model
    raise ModelFault(
        f"model {config.model}: batches need OpenAI or a server that takes its batch files; "
        "set base_url, or batch=false"
    )


class Queue:
    """The requests of a run that wait. Methods may be called from any thread.

    Args:
        store: the run's calls; its path says where the files go.

    Raises:
        ModelFault: the calls are in memory only.
    """

    def __init__(self, store: Store) -> None:
        if store.path is None:
            raise ModelFault("batches need a run directory: answers come when this process has ended")
        self.store = store
        self.folder = store.path.parent / FOLDER
        self._pending: list[tuple[Any, ...]] = []
        self._lock = threading.Lock()

    def target_of(self, config: ModelConfig) -> Target:
        """The target that a config describes; what it says of prices and key holds from now on."""
        price = price_of(config)
        share = None if price is None else price.times(config.batch_price)
        found = (
            *(config.model, name_at_server(config), config.base_url, config.api_key_env),
            *((None, None) if share is None else (share.token_in, share.token_out)),
            config.budget_usd,
            # OpenAI's newer models know the bound of an answer by its newer name only.
            "" if config.base_url else "max_tokens",
        )
        with self.store.together() as db:
            db.execute(
                "INSERT INTO batch_targets (model, name, base_url, api_key_env, token_in, token_out, budget, "
                "unknown) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (model, name, base_url) DO UPDATE SET "
                "api_key_env = excluded.api_key_env, token_in = excluded.token_in, "
                "token_out = excluded.token_out, budget = excluded.budget",
                found,
            )
            (number,) = db.execute(
                "SELECT id FROM batch_targets WHERE model = ? AND name = ? AND base_url = ?", found[:3]
            ).fetchone()
            return target(db, number)

    def add(self, target: Target, call: Call) -> None:
        """Let a call wait; one that waits already, or is in a batch, stays where it is."""
        body = zlib.compress(json.dumps({**body_of(call), "model": target.name}).encode())
        most_in, most_out = most_tokens(call), call.max_tokens
        known = (call.hash, call.prompt_hash, call.kind)
        with self._lock:
            self._pending.append((call.key(), target.id, *known, body, most_in, most_out))
            if len(self._pending) >= _PENDING:
                self._keep()

    def _keep(self) -> None:
        rows, self._pending = self._pending, []
        with self.store.together() as db:
            db.executemany(
                "INSERT OR IGNORE INTO batch_calls (key, target, call, prompt_hash, kind, body, most_in, "
                "most_out) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )

    def flush(self) -> None:
        """Write what waits and is in no file yet.

        Raises:
            EnvironmentFault: a file cannot be written.
        """
        with self._lock:
            if self._pending:
                self._keep()
        while True:
            # In pieces, so that other processes get their turn.
            with self.store.together() as db, writable(self.folder):
                rows = db.execute(
                    "SELECT key, target, body FROM batch_calls WHERE file IS NULL "
                    "ORDER BY target, key LIMIT ?",
                    (_FLUSHED,),
                ).fetchall()
                if not rows:
                    return
                self._append(db, rows)

    def _append(self, db: sqlite3.Connection, rows: list[tuple[str, int, bytes]]) -> None:
        """Add requests to files: as many to each as fit."""
        at = 0
        while at < len(rows):
            whose = target(db, rows[at][1])
            line = line_of(rows[at][0], rows[at][2], whose)
            number, count, size = _open_file(db, whose, len(line))
            added: list[bytes] = []
            known = size
            while not added or (count + len(added) < MAX_LINES and size + len(line) <= MAX_BYTES):
                added.append(line)
                size += len(line)
                db.execute("UPDATE batch_calls SET file = ? WHERE key = ?", (number, rows[at][0]))
                at += 1
                if at == len(rows) or rows[at][1] != whose.id:
                    break
                line = line_of(rows[at][0], rows[at][2], whose)
            if not _extend(self.path(whose, number), known, added):
                # Lost, or cut by somebody.
                count, size = self.write(db, whose, number)
                added = []
            db.execute(
                "UPDATE batch_files SET lines = ?, bytes = ? WHERE id = ?",
                (count + len(added), size, number),
            )

    def write(self, db: sqlite3.Connection, whose: Target, number: int) -> tuple[int, int]:
        """Write a file anew from the table.

        Returns:
            its lines and bytes.
        """
        path = self.path(whose, number)
        part = path.with_suffix(".part")
        lines, size = 0, 0
        with part.open("wb") as file:
            rows = db.execute("SELECT key, body FROM batch_calls WHERE file = ? ORDER BY key", (number,))
            for key, body in rows:
                line = line_of(key, body, whose)
                file.write(line)
                lines, size = lines + 1, size + len(line)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
        return lines, size

    def path(self, whose: Target, number: int) -> Path:
        """Where a file lies."""
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", whose.name).strip("-.")[:60] or "model"
        return self.folder / f"{slug}-{number:04d}.jsonl"

    def line(self) -> str | None:
        """What waits and what to do about it, on one line; None where nothing waits."""
        with self.store.together() as db:
            files = db.execute(
                "SELECT f.id, f.target, f.state = 'open', count(*) FROM batch_calls c "
                "JOIN batch_files f ON f.id = c.file GROUP BY f.id ORDER BY f.id"
            ).fetchall()
            unsent = [(self.path(target(db, whose), number), n) for number, whose, new, n in files if new]
        sent = sum(n for _, _, new, n in files if not new)
        run = self.folder.parent
        parts = []
        if unsent:
            more = f" and {len(unsent) - 1} more files" if len(unsent) > 1 else ""
            parts.append(
                f"{_requests(sum(n for _, n in unsent))} in {unsent[0][0]}{more}: send them by "
                f"`assay batch send --run-dir {run}`, or answer the files elsewhere and read what came by "
                f"`assay batch read FILE --run-dir {run}`"
            )
        if sent:
            parts.append(f"{sent:,} are under way: get their answers by `assay batch fetch --run-dir {run}`")
        return "; ".join([*parts, "then run the same command again"]) if parts else None


def _requests(count: int) -> str:
    return f"{count:,} requests wait" if count != 1 else "1 request waits"


def target(db: sqlite3.Connection, number: int) -> Target:
    """A target of the table."""
    row = db.execute(
        "SELECT id, model, name, base_url, api_key_env, token_in, token_out, budget, unknown "
        "FROM batch_targets WHERE id = ?",
        (number,),
    ).fetchone()
    found: list[Any] = list(row)
    found[-1] = tuple(found[-1].split())
    return Target(*found)


def line_of(key: str, body: bytes, whose: Target) -> bytes:
    """A request as a line of a batch file."""
    asked = without_unknown(json.loads(unpacked(body)), whose.unknown)
    return json.dumps({"custom_id": key, "method": "POST", "url": URL, "body": asked}).encode() + b"\n"


def unpacked(body: bytes) -> bytes:
    """JSON of a stored body."""
    return zlib.decompressobj().decompress(body, _MAX_BODY)


def _open_file(db: sqlite3.Connection, whose: Target, more: int) -> tuple[int, int, int]:
    """The file that a target's next line is added to: number, lines, bytes."""
    row = db.execute(
        "SELECT id, lines, bytes FROM batch_files WHERE target = ? AND state = 'open' AND lines < ? "
        "AND (lines = 0 OR bytes + ? <= ?) ORDER BY id DESC LIMIT 1",
        (whose.id, MAX_LINES, more, MAX_BYTES),
    ).fetchone()
    if row is not None:
        found: tuple[int, int, int] = row
        return found
    made = db.execute("INSERT INTO batch_files (target, state) VALUES (?, 'open')", (whose.id,))
    return int(made.lastrowid or 0), 0, 0


def _extend(path: Path, size: int, lines: list[bytes]) -> bool:
    """Write lines behind the first `size` bytes of a file; False where it has not so many."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        if os.fstat(file.fileno()).st_size < size:
            return False
        file.truncate(size)
        file.seek(size)
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    return True


@contextlib.contextmanager
def writable(folder: Path) -> Iterator[None]:
    """A folder that is there, and faults of writing in it as faults of the machine.

    Raises:
        EnvironmentFault: it cannot be written.
    """
    try:
        folder.mkdir(exist_ok=True)
        yield
    except OSError as error:
        raise EnvironmentFault(
            f"{folder}: the batch files cannot be written ({error.strerror or error}); "
            "mend that and run the same command again"
        ) from None
