"""Answers that were recorded: the `calls.sqlite` of another run, and nothing else.

In: a `Call`. Out: what was answered to the same call then, errors too. Wrong: `ModelFault` for a call that
the recording does not hold, named by its prompt, and for a file that is no recording: no row can do better.
"""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

from labelers.llm.calls import Call, ModelFault
from labelers.llm.store import READABLE, Stored


class Recording:
    """A file of calls, open for reading.

    Raises:
        ModelFault: it cannot be read, or is no recording.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            if not path.is_file():
                raise sqlite3.OperationalError("no such file")
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False, timeout=60
            )
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
        except (sqlite3.Error, OSError) as error:
            raise ModelFault(f"{path}: the recorded calls cannot be read ({error})") from None
        if found not in READABLE:
            raise ModelFault(f"{path}: not recorded calls of this version of assay (format {found})")

    def get(self, call: Call) -> Stored:
        """What was answered to a call.

        Raises:
            ModelFault: the recording does not hold it, or is damaged.
        """
        try:
            with self._lock:
                row = self._db.execute(
                    "SELECT text, finish, error, served, tokens_in, tokens_out, cost_usd, seconds FROM calls "
                    "WHERE call = ? ORDER BY error IS NOT NULL, time DESC LIMIT 1",
                    (call.hash,),
                ).fetchone()
        except sqlite3.Error as error:
            raise ModelFault(f"{self.path}: the recorded calls cannot be read ({error})") from None
        if row is None:
            last = " ".join(call.messages[-1].content.split())
            raise ModelFault(
                f"{self.path}: holds no answer of {call.model} to prompt {call.prompt_hash} (sample "
                f"{call.sample}, {last[:60]!r}); replay needs the settings and inputs of the recorded run"
            )
        kinds: tuple[tuple[type, ...], ...] = (
            (str,),
            (str,),
            (str, type(None)),
            (str,),
            (int,),
            (int,),
            (float, int, type(None)),
            (float, int),
        )
        if not all(isinstance(value, kind) for value, kind in zip(row, kinds, strict=True)):
            raise ModelFault(f"{self.path}: the answer to prompt {call.prompt_hash} is damaged")
        return Stored(*row)

    def close(self) -> None:
        """Close the file."""
        self._db.close()
