"""The calls of a run on disk: every answer, what it cost, and what may still be spent. SQLite.

In: keys and answers. Out: answers, permission to spend, an account. Several processes of one machine may use
one file at once; what one has stored the others see. A process that is killed loses no stored answer, and the
most that its open calls may have cost counts as lost.
Wrong: `EnvironmentFault` when the file cannot be written, `AssayError` when it is not such a file.

    calls      one row an answer: key, model, kind, prompt (compressed), text, tokens, cost, seconds, time
    sessions   one row a client: who it is, and its account
    holds      money set aside for calls under way
    spent      US dollars for answers, and for attempts whose answer never came
    pace       when the next request may begin
    batch_*    requests that wait for a batch or are under way in one (see `batch`)
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from labelers.llm.calls import UNAVAILABLE, Account, Call
from schemas.errors import AssayError, EnvironmentFault

FORMAT = 2
READABLE = (1, FORMAT)
"""Formats that can be read; the older one is brought to the newer before anything is written."""

_TABLES = """
CREATE TABLE calls (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, call TEXT NOT NULL, prompt_hash TEXT NOT NULL,
    prompt BLOB NOT NULL, text TEXT NOT NULL, finish TEXT NOT NULL, error TEXT, served TEXT NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, cost_usd REAL, seconds REAL NOT NULL,
    time REAL NOT NULL, kind TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX calls_by_call ON calls (call);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, boot TEXT NOT NULL, pid INTEGER NOT NULL, born TEXT NOT NULL,
    started REAL NOT NULL, account TEXT NOT NULL
);
CREATE TABLE holds (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, usd REAL NOT NULL);
CREATE TABLE spent (answers REAL NOT NULL, lost REAL NOT NULL);
INSERT INTO spent VALUES (0, 0);
CREATE TABLE pace (next REAL NOT NULL);
INSERT INTO pace VALUES (0);
"""
# What the second format has beyond the first. The index holds all that a forecast adds up, so that no prompt
# is read for it.
_SECOND = """
CREATE INDEX calls_by_kind ON calls (model, kind, tokens_in, tokens_out) WHERE error IS NULL;
CREATE TABLE batch_targets (
    id INTEGER PRIMARY KEY, model TEXT NOT NULL, name TEXT NOT NULL, base_url TEXT NOT NULL,
    api_key_env TEXT NOT NULL, token_in REAL, token_out REAL, budget REAL NOT NULL,
    unknown TEXT NOT NULL DEFAULT '', UNIQUE (model, name, base_url)
);
CREATE TABLE batch_files (
    id INTEGER PRIMARY KEY, target INTEGER NOT NULL, state TEXT NOT NULL, lines INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0, held REAL NOT NULL DEFAULT 0, mark TEXT NOT NULL DEFAULT '',
    uploaded TEXT NOT NULL DEFAULT '', batch TEXT NOT NULL DEFAULT '', told TEXT NOT NULL DEFAULT ''
);
CREATE TABLE batch_calls (
    key TEXT PRIMARY KEY, target INTEGER NOT NULL, file INTEGER, call TEXT NOT NULL,
    prompt_hash TEXT NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL, most_in INTEGER NOT NULL,
    most_out INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX batch_calls_by_file ON batch_calls (file, target);
"""

_CALL = "text, finish, error, served, tokens_in, tokens_out, cost_usd, seconds"
_COLUMNS = f"key, model, call, prompt_hash, prompt, {_CALL}, time, kind"
_INSERT = (
    f"INSERT INTO calls ({_COLUMNS}) VALUES ({', '.join('?' * 15)}) "  # noqa: S608 (constants)
    f"ON CONFLICT (key) DO UPDATE SET ({_COLUMNS}) = "
    f"({', '.join('excluded.' + name.strip() for name in _COLUMNS.split(','))}) WHERE calls.error IS NOT NULL"
)
_HOLD = (
    "INSERT INTO holds (session, usd) SELECT ?, ? WHERE (SELECT answers + lost FROM spent) "
    "+ (SELECT total(held) FROM batch_files) + (SELECT total(usd) FROM holds) + ? <= ?"
)


def condition(errors: bool) -> str:
    """SQL that tells what counts as answered: answers; with `errors`, also what no attempt would mend."""
    return f"(error IS NULL OR finish != '{UNAVAILABLE}')" if errors else "error IS NULL"


@dataclasses.dataclass(frozen=True)
class Stored:
    """One answer, or the error that a request ended with."""

    text: str
    finish: str
    error: str | None
    served: str
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    seconds: float


class Store:
    """One file of calls. Methods may be called from any thread.

    Args:
        path: the file, made when missing; None keeps the calls in memory.

    Raises:
        EnvironmentFault: the file is something else, of another format, or cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._told = _Told(path)
        self._session: int | None = None
        self._looked, self._batches = float("-inf"), False
        with self._told:
            self._db = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=60,
                check_same_thread=False,
                isolation_level=None,
            )
            self._write = _Write(self._db)
            self._db.execute("PRAGMA journal_mode = WAL")
            # A kill loses nothing; after a power cut the last answers may have to be asked for again.
            self._db.execute("PRAGMA synchronous = NORMAL")
            with self._write:
                (found,) = self._db.execute("PRAGMA user_version").fetchone()
                if found == 0:
                    self._run(_TABLES + _SECOND)
                elif found == 1:
                    self._run("ALTER TABLE calls ADD COLUMN kind TEXT NOT NULL DEFAULT '';" + _SECOND)
                elif found != FORMAT:
                    raise EnvironmentFault(
                        f"{path}: calls of another version of assay (format {found}, not {FORMAT}); "
                        "use that version, or move the file away"
                    )

    def _run(self, statements: str) -> None:
        for statement in statements.split(";"):
            self._db.execute(statement)
        self._db.execute(f"PRAGMA user_version = {FORMAT}")

    def get(self, key: str, errors: bool = False) -> Stored | None:
        """The answer to a call. Errors are none; with `errors`, those are that no attempt would mend."""
        with self._told:
            row = self._db.execute(
                f"SELECT {_CALL} FROM calls WHERE key = ? AND {condition(errors)}",  # noqa: S608 (constants)
                (key,),
            ).fetchone()
        return None if row is None else Stored(*row)

    def put(self, key: str, call: Call, stored: Stored, hold: int | None = None) -> Stored:
        """Keep what became of a call, and give back what was set aside for it.

        The first answer stays: where two clients asked the same at once, both go on with it, and the cost of
        the second is added.

        Returns:
            what is kept.
        """
        prompt = json.dumps(call.message_rows(), ensure_ascii=False)
        with self._told, self._write:
            if hold is not None:
                self._db.execute("DELETE FROM holds WHERE id = ?", (hold,))
            return self.keep((key, call.model, call.hash, call.prompt_hash), prompt, call.kind, stored)

    def keep(self, known: tuple[str, str, str, str], prompt: str, kind: str, stored: Stored) -> Stored:
        """Keep what became of a call that is known by key, model, hash and prompt's hash; see `put`."""
        with self._told, self._write:
            if stored.cost_usd:
                self._db.execute("UPDATE spent SET answers = answers + ?", (stored.cost_usd,))
            # The fastest level: it is the event loop that waits for it.
            packed = zlib.compress(prompt.encode(), 1)
            values = (*known, packed, *_values(stored), time.time(), kind)
            kept = self._db.execute(_INSERT, values).rowcount
            return stored if kept else self.get(known[0]) or stored

    def hold(self, usd: float, budget: float) -> int | Literal["wait", "spent"]:
        """Set money aside for a call.

        Returns:
            the hold's id; `wait` where calls under way may yet leave enough; `spent` where they cannot.
        """
        with self._told, self._write:
            values = (self._own_session(), usd, usd, budget)
            made = self._db.execute(_HOLD, values)
            if not made.rowcount:
                # Only now does it matter whether somebody died with money set aside.
                self._bury()
                if self.committed() + usd > budget:
                    return "spent"
                made = self._db.execute(_HOLD, values)
            return int(made.lastrowid or 0) if made.rowcount else "wait"

    def release(self, hold: int, lost: bool) -> float:
        """Give a hold back, or count it as spent where the attempt may have been charged.

        Returns:
            what counts as spent, in US dollars.
        """
        with self._told, self._write:
            row = self._db.execute("DELETE FROM holds WHERE id = ? RETURNING usd", (hold,)).fetchone()
            if row is None or not lost:
                return 0.0
            self._db.execute("UPDATE spent SET lost = lost + ?", row)
            return float(row[0])

    def spent(self) -> float:
        """US dollars that all clients of this file have spent so far, lost ones included."""
        with self._told:
            (found,) = self._db.execute("SELECT answers + lost FROM spent").fetchone()
        return float(found)

    def committed(self) -> float:
        """US dollars that are spent, or set aside for batches under way: no call waits for those."""
        with self._told:
            (held,) = self._db.execute("SELECT total(held) FROM batch_files").fetchone()
            return self.spent() + float(held)

    def free(self, budget: float) -> float:
        """US dollars that a batch may take of a budget, beside all that is spent and under way."""
        with self._told, self._write:
            self._bury()
            return budget - self.committed() - self._held()

    def under_way(self, key: str) -> bool:
        """Whether a call is in a batch that was sent; a batch of the last second may be overlooked."""
        with self._told:
            now = time.monotonic()
            if now - self._looked > 1:
                found = self._db.execute("SELECT 1 FROM batch_files WHERE state IN ('sending', 'sent')")
                self._looked, self._batches = now, found.fetchone() is not None
            if not self._batches:
                return False
            row = self._db.execute(
                "SELECT 1 FROM batch_calls c JOIN batch_files f ON f.id = c.file "
                "WHERE c.key = ? AND f.state IN ('sending', 'sent')",
                (key,),
            ).fetchone()
        return row is not None

    def slot(self, interval: float) -> float:
        """Take the next place in the line of all clients.

        Returns:
            seconds to wait before the request begins.
        """
        with self._told, self._write:
            now = time.time()
            (planned,) = self._db.execute("SELECT next FROM pace").fetchone()
            # A clock that was set back must not stop a run.
            at = now if planned > now + 86400 else max(now, planned)
            self._db.execute("UPDATE pace SET next = ?", (at + interval,))
            return at - now

    def keep_account(self, account: Account) -> None:
        """Write down what this client has asked so far."""
        with self._told, self._write:
            text = json.dumps(dataclasses.asdict(account))
            self._db.execute("UPDATE sessions SET account = ? WHERE id = ?", (text, self._own_session()))

    def close(self) -> None:
        """Close the file; holds of calls that never ended count as lost."""
        with self._told:
            if self._session is not None:
                with self._write:
                    self._bury(self._session)
            self._db.close()

    def _own_session(self) -> int:
        if self._session is None:
            made = self._db.execute(
                "INSERT INTO sessions (boot, pid, born, started, account) VALUES (?, ?, ?, ?, '{}')",
                (*_identity(os.getpid()), time.time()),
            )
            self._session = int(made.lastrowid or 0)
        return self._session

    def _bury(self, session: int | None = None) -> None:
        """Count what a session, or every dead one, had set aside as lost."""
        rows = self._db.execute(
            "SELECT DISTINCT s.id, s.boot, s.pid, s.born FROM holds h JOIN sessions s ON s.id = h.session"
        ).fetchall()
        for number, boot, pid, born in rows:
            if number == session or (session is None and _identity(pid) != (boot, pid, born)):
                self._db.execute(
                    "UPDATE spent SET lost = lost + (SELECT sum(usd) FROM holds WHERE session = ?)", (number,)
                )
                self._db.execute("DELETE FROM holds WHERE session = ?", (number,))

    def _held(self) -> float:
        (found,) = self._db.execute("SELECT total(usd) FROM holds").fetchone()
        return float(found)

    @contextlib.contextmanager
    def together(self) -> Iterator[sqlite3.Connection]:
        """Make what is written in its block one transaction, which costs little more than one write.

        Yields:
            the connection, for modules that keep tables of their own in the file.

        Raises:
            EnvironmentFault: it cannot be written; then nothing of it is.
        """
        with self._told, self._write:
            yield self._db


class _Told:
    """One thread at a time; what SQLite complains of in words of ours. May be entered again."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._lock = path, threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._lock.release()
        if isinstance(error, sqlite3.OperationalError):
            raise EnvironmentFault(
                f"{self._path}: the calls of the model cannot be stored ({error}); "
                "mend that and run the same command again"
            ) from None
        if isinstance(error, sqlite3.DatabaseError):
            raise EnvironmentFault(f"{self._path}: not a file of calls ({error}); move it away") from None


class _Write:
    """A transaction, or part of the one that is open; held with the lock of `_Told`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db, self._depth = db, 0

    def __enter__(self) -> None:
        if not self._depth:
            self._db.execute("BEGIN IMMEDIATE")
        self._depth += 1

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._depth -= 1
        if self._depth:
            return
        try:
            self._db.execute("COMMIT" if error is None else "ROLLBACK")
        except sqlite3.Error:
            # The disk is full: what cannot be kept must not stay open either.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


def _values(stored: Stored) -> tuple[str | int | float | None, ...]:
    """An answer in the order of its columns."""
    return (
        *(stored.text, stored.finish, stored.error, stored.served),
        *(stored.tokens_in, stored.tokens_out, stored.cost_usd, stored.seconds),
    )


def _identity(pid: int) -> tuple[str, int, str]:
    """What tells a process from a later one of the same number."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        born = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "", pid, ""
    return boot, pid, born


def totals(path: Path) -> dict[str, float | int]:
    """What all runs on a file have asked and spent: calls, failed, tokens_in, tokens_out, cost_usd, lost_usd.

    Raises:
        AssayError: the file cannot be read, or is something else.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            calls, failed, tokens_in, tokens_out = db.execute(
                "SELECT count(*), count(error), sum(tokens_in), sum(tokens_out) FROM calls"
            ).fetchone()
            cost, lost = db.execute("SELECT answers, lost FROM spent").fetchone()
    except sqlite3.Error as error:
        raise AssayError(f"{path}: the calls of the model cannot be read ({error})") from None
    return {
        "calls": calls - failed,
        "failed": failed,
        "tokens_in": tokens_in or 0,
        "tokens_out": tokens_out or 0,
        "cost_usd": cost,
        "lost_usd": lost,
    }
