"""The calls of a run on disk: every answer, what it cost, and what may still be spent. SQLite.

In: keys and answers. Out: answers, permission to spend, an account. Several processes of one machine may use
one file at once; what one has stored the others see. A process that is killed loses no stored answer, and the
most that its open calls may have cost counts as lost.
Wrong: `EnvironmentFault` when the file cannot be written, `AssayError` when it is not such a file.

    calls      one row an answer: key, model, prompt (compressed), text, tokens, cost, seconds, time
    sessions   one row a client: who it is, and its account
    holds      money set aside for calls under way
    spent      US dollars for answers, and for attempts whose answer never came
    pace       when the next request may begin
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

from labelers.llm.calls import Account, Call
from schemas.errors import AssayError, EnvironmentFault

FORMAT = 1

_TABLES = """
CREATE TABLE calls (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, call TEXT NOT NULL, prompt_hash TEXT NOT NULL,
    prompt BLOB NOT NULL, text TEXT NOT NULL, finish TEXT NOT NULL, error TEXT, served TEXT NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, cost_usd REAL, seconds REAL NOT NULL,
    time REAL NOT NULL
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

_CALL = "text, finish, error, served, tokens_in, tokens_out, cost_usd, seconds"
_INSERT = "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


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
        AssayError: the file is something else, or of another format.
        EnvironmentFault: it cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._session: int | None = None
        with self._told():
            self._db = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=60,
                check_same_thread=False,
                isolation_level=None,
            )
            self._db.execute("PRAGMA journal_mode = WAL")
            # A kill loses nothing; after a power cut the last answers may have to be asked for again.
            self._db.execute("PRAGMA synchronous = NORMAL")
            with self._write():
                (found,) = self._db.execute("PRAGMA user_version").fetchone()
                if found == 0:
                    for statement in _TABLES.split(";"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version = {FORMAT}")
                elif found != FORMAT:
                    raise AssayError(
                        f"{path}: calls of another version of assay (format {found}, not {FORMAT}); "
                        "use that version, or move the file away"
                    )

    def get(self, key: str) -> Stored | None:
        """The answer to a call; errors are not answers."""
        with self._told():
            row = self._db.execute(
                f"SELECT {_CALL} FROM calls WHERE key = ? AND error IS NULL",  # noqa: S608 (a constant)
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
        prompt = zlib.compress(json.dumps(call.message_rows(), ensure_ascii=False).encode())
        with self._told(), self._write():
            if hold is not None:
                self._db.execute("DELETE FROM holds WHERE id = ?", (hold,))
            if stored.cost_usd:
                self._db.execute("UPDATE spent SET answers = answers + ?", (stored.cost_usd,))
            if (first := self.get(key)) is not None:
                return first
            values = (key, call.model, call.hash, call.prompt_hash, prompt, *_values(stored), time.time())
            self._db.execute(_INSERT, values)
            return stored

    def hold(self, usd: float, budget: float) -> int | Literal["wait", "spent"]:
        """Set money aside for a call.

        Returns:
            the hold's id; `wait` where calls under way may yet leave enough; `spent` where they cannot.
        """
        with self._told(), self._write():
            if self.spent() + self._held() + usd > budget:
                # Only now does it matter whether somebody died with money set aside.
                self._bury()
                if self.spent() + usd > budget:
                    return "spent"
                if self.spent() + self._held() + usd > budget:
                    return "wait"
            made = self._db.execute(
                "INSERT INTO holds (session, usd) VALUES (?, ?)", (self._own_session(), usd)
            )
            return int(made.lastrowid or 0)

    def release(self, hold: int, lost: bool) -> float:
        """Give a hold back, or count it as spent where the attempt may have been charged.

        Returns:
            what counts as spent, in US dollars.
        """
        with self._told(), self._write():
            row = self._db.execute("DELETE FROM holds WHERE id = ? RETURNING usd", (hold,)).fetchone()
            if row is None or not lost:
                return 0.0
            self._db.execute("UPDATE spent SET lost = lost + ?", row)
            return float(row[0])

    def spent(self) -> float:
        """US dollars that all clients of this file have spent so far, lost ones included."""
        with self._told():
            (found,) = self._db.execute("SELECT answers + lost FROM spent").fetchone()
        return float(found)

    def slot(self, interval: float) -> float:
        """Take the next place in the line of all clients.

        Returns:
            seconds to wait before the request begins.
        """
        with self._told(), self._write():
            now = time.time()
            (planned,) = self._db.execute("SELECT next FROM pace").fetchone()
            # A clock that was set back must not stop a run.
            at = now if planned > now + 86400 else max(now, planned)
            self._db.execute("UPDATE pace SET next = ?", (at + interval,))
            return at - now

    def keep_account(self, account: Account) -> None:
        """Write down what this client has asked so far."""
        with self._told(), self._write():
            text = json.dumps(dataclasses.asdict(account))
            self._db.execute("UPDATE sessions SET account = ? WHERE id = ?", (text, self._own_session()))

    def close(self) -> None:
        """Close the file; holds of calls that never ended count as lost."""
        with self._told():
            if self._session is not None:
                with self._write():
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
    def together(self) -> Iterator[None]:
        """Make what is written in its block one transaction, which costs little more than one write.

        Raises:
            EnvironmentFault: it cannot be written; then nothing of it is.
        """
        with self._told(), self._write():
            yield

    @contextlib.contextmanager
    def _write(self) -> Iterator[None]:
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """One thread at a time; what SQLite complains of in words of ours."""
        with self._lock:
            try:
                yield
            except sqlite3.OperationalError as error:
                raise EnvironmentFault(
                    f"{self.path}: the calls of the model cannot be stored ({error}); "
                    "mend that and run the same command again"
                ) from None
            except sqlite3.DatabaseError as error:
                raise AssayError(f"{self.path}: not a file of calls ({error}); move it away") from None


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
