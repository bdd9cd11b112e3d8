"""What becomes of a run's batch files: sent within the budget, looked after, answered.

In: `calls.sqlite` of a run. Out: `send`, `status`, `fetch` and `read` say what they did. Each may be killed
at any point and run again: before something is asked of a server it is written down, and what a killed
process may have begun is looked for at the server before it is begun again.
Wrong: `EnvironmentFault`s of the server and of the disk; `BudgetSpent` where no request fits into the budget.

One command works on the batches of a run at a time (`batches/lock`); stages may go on collecting meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from labelers.llm.batch import FOLDER, Queue, Target, target, writable
from labelers.llm.batch_answers import Read, again, read_answers
from labelers.llm.batch_server import Absent, Batch, BatchServer, Refused, Unclear
from labelers.llm.calls import BudgetSpent
from labelers.llm.store import Store
from schemas.errors import AssayError, EnvironmentFault


@dataclasses.dataclass(frozen=True)
class Place:
    """Where batches are sent, if not where their run said: empty for that."""

    base_url: str = ""
    api_key_env: str = ""

    def server(self, whose: Target) -> BatchServer:
        """The server of a target."""
        return BatchServer(
            self.base_url or whose.base_url, self.api_key_env or whose.api_key_env, whose.model
        )


@dataclasses.dataclass(frozen=True)
class Row:
    """One batch file.

    Attributes:
        file: its path.
        model: the model that it asks.
        state: `open`, `sending`, `sent` or `done`.
        requests: lines that were written.
        waiting: requests without an answer.
        batch: its name at the server; empty where it has none.
        held_usd: US dollars that are set aside for it.
        told: what the server said last.
    """

    file: Path
    model: str
    state: str
    requests: int
    waiting: int
    batch: str
    held_usd: float
    told: str


@contextlib.contextmanager
def opened(run_dir: Path, alone: bool = True) -> Iterator[Queue]:
    """The queue of a run; `alone`, for one command at a time.

    Raises:
        AssayError: the run has no calls, or another command is at its batches.
    """
    path = run_dir / "calls.sqlite"
    if not path.is_file():
        raise AssayError(f"{run_dir}: no model was asked in this run; give --run-dir")
    store = Store(path)
    try:
        queue = Queue(store)
        with _locked(queue.folder) if alone else contextlib.nullcontext():
            yield queue
    finally:
        store.close()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        with writable(folder):
            lock = stack.enter_context((folder / "lock").open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AssayError(f"{folder}: another command is at these batches; wait for it") from None
        yield


def rows(run_dir: Path) -> list[Row]:
    """All batch files of a run, oldest first."""
    with opened(run_dir, alone=False) as queue, queue.store.together() as db:
        found = db.execute(
            "SELECT f.id, f.target, f.state, f.lines, f.batch, f.held, f.told, "
            "(SELECT count(*) FROM batch_calls c WHERE c.file = f.id) FROM batch_files f ORDER BY f.id"
        ).fetchall()
        targets = {number: target(db, number) for _, number, *_ in found}
        return [
            Row(queue.path(targets[who], number), targets[who].model, state, lines, left, batch, held, told)
            for number, who, state, lines, batch, held, told, left in found
        ]


def send(
    run_dir: Path,
    tell: Callable[[str], None],
    place: Place | None = None,
    budget_usd: float | None = None,
    resend: bool = False,
) -> int:
    """Send what waits, as far as the budget allows.

    Args:
        run_dir: the run.
        tell: gets a line for each file.
        place: where to, if not where the run said.
        budget_usd: most that all answers of the run may cost, if not as the run said; 0 for no bound.
        resend: begin again what was cut off at a server that cannot tell whether it was begun.

    Returns:
        how many requests were sent.

    Raises:
        BudgetSpent: the budget leaves none.
        EnvironmentFault: the server turned a file down, or it is not known whether it took it.
    """
    with opened(run_dir) as queue:
        queue.flush()
        return asyncio.run(_Sender(queue, tell, place or Place(), budget_usd, resend).all())


class _Sender:
    """Sends the files of a run, one after the other."""

    def __init__(
        self, queue: Queue, tell: Callable[[str], None], place: Place, budget: float | None, resend: bool
    ) -> None:
        self.queue, self.tell, self.place = queue, tell, place
        self.budget, self.resend = budget, resend

    async def all(self) -> int:
        sent = 0
        with self.queue.store.together() as db:
            files = db.execute(
                "SELECT id, target, state FROM batch_files WHERE state IN ('open', 'sending') "
                "ORDER BY state = 'open', id"
            ).fetchall()
        for number, who, state in files:
            with self.queue.store.together() as db:
                whose = target(db, who)
            # A file that turned out too dear leaves a new one with its rest; that is for the next time.
            count = self._prepare(whose, number) if state == "open" else self._prepared(whose, number)
            if count:
                async with self.place.server(whose) as server:
                    await self._send(server, whose, number, fresh=state == "open")
                sent += count
        self.queue.flush()
        return sent

    def _prepare(self, whose: Target, number: int) -> int:
        """Choose what of an open file is sent, set its money aside, and write it; how many requests."""
        budget = whose.budget if self.budget is None else self.budget
        if budget and whose.token_in is None:
            raise EnvironmentFault(
                f"model {whose.model}: its price is not known, so a budget cannot be kept; set price_in and "
                "price_out, and run the stage again, or give --budget 0"
            )
        with self.queue.store.together() as db, writable(self.queue.folder):
            # Somebody may have asked without a batch meanwhile.
            db.execute(
                "DELETE FROM batch_calls WHERE file = ? AND EXISTS "
                "(SELECT 1 FROM calls WHERE calls.key = batch_calls.key AND calls.error IS NULL)",
                (number,),
            )
            left = self.queue.store.free(budget) if budget else float("inf")
            held, taken = 0.0, 0
            waiting = db.execute(
                "SELECT key, most_in, most_out FROM batch_calls WHERE file = ? ORDER BY key", (number,)
            ).fetchall()
            for _, most_in, most_out in waiting:
                most = whose.cost(most_in, most_out) or 0.0
                if held + most > left:
                    if not taken and left < most:
                        spent = self.queue.store.committed()
                        raise BudgetSpent(
                            f"the budget of ${budget:g} leaves no request to send (${spent:.4f} are spent "
                            f"or set aside, and the next may cost ${most:.4f}); fetch what is under way, or "
                            "give a larger --budget"
                        )
                    break
                held, taken = held + most, taken + 1
            for key, *_ in waiting[taken:]:
                db.execute("UPDATE batch_calls SET file = NULL WHERE key = ?", (key,))
            lines, size = self.queue.write(db, whose, number)
            db.execute(
                "UPDATE batch_files SET state = ?, lines = ?, bytes = ?, held = ?, mark = ?, told = '' "
                "WHERE id = ?",
                ("sending" if taken else "done", lines, size, held, secrets.token_hex(16), number),
            )
        return taken

    def _prepared(self, whose: Target, number: int) -> int:
        """The requests of a file whose sending was cut off; it is written anew if need be."""
        with self.queue.store.together() as db, writable(self.queue.folder):
            lines, size = db.execute(
                "SELECT lines, bytes FROM batch_files WHERE id = ?", (number,)
            ).fetchone()
            path = self.queue.path(whose, number)
            if not path.exists() or path.stat().st_size != size:
                self.queue.write(db, whose, number)
        return int(lines)

    async def _send(self, server: BatchServer, whose: Target, number: int, fresh: bool) -> None:
        path = self.queue.path(whose, number)
        try:
            batch = await self._begun(server, path, number, fresh)
        except Refused as error:
            self._note(number, state="open", held=0.0, mark="", uploaded="", told=str(error))
            raise Refused(f"{path}: not sent ({error})") from None
        except Unclear as error:
            raise Unclear(
                f"{path}: {error}; run `assay batch send --run-dir {self.queue.folder.parent}` again: it "
                "looks for what was begun"
            ) from None
        self._note(number, state="sent", batch=batch.id, told=batch.status)
        self.tell(f"{path}: sent as {batch.id}")

    async def _begun(self, server: BatchServer, path: Path, number: int, fresh: bool) -> Batch:
        """The batch of a file, begun if it is not.

        Raises:
            Refused: it was not begun.
            Unclear: it may have been.
        """
        with self.queue.store.together() as db:
            mark, uploaded = db.execute(
                "SELECT mark, uploaded FROM batch_files WHERE id = ?", (number,)
            ).fetchone()
        name = f"{mark}.jsonl"
        found_file = None
        if not fresh:
            try:
                found = await server.find_batch(uploaded) if uploaded else None
                # Another copy of a file would do no harm, only take room.
                found_file = None if uploaded else await server.find_file(name)
            except Absent as error:
                if uploaded and not self.resend:
                    raise Unclear(
                        f"sending was cut off, and the server does not list its batches ({error}); look "
                        "there for one of this file, and give --resend if there is none"
                    ) from None
                found = None
            except Refused as error:
                raise Unclear(str(error)) from None
            if found is not None:
                return found
        if not uploaded:
            uploaded = found_file or await server.upload(path, name)
            # From here on a killed process leaves a name by which its batch is found.
            self._note(number, uploaded=uploaded)
        return await server.create(uploaded, mark)

    def _note(self, number: int, **values: str | float) -> None:
        with self.queue.store.together() as db:
            names = ", ".join(f"{name} = ?" for name in values)
            db.execute(f"UPDATE batch_files SET {names} WHERE id = ?", (*values.values(), number))  # noqa: S608 (own names)


def fetch(
    run_dir: Path,
    tell: Callable[[str], None],
    place: Place | None = None,
    wait_s: float | None = None,
    give_up: bool = False,
) -> tuple[Read, int]:
    """Get the answers of batches that have ended.

    Args:
        run_dir: the run.
        tell: gets a line for each file.
        place: where from, if not from where the run said.
        wait_s: look again every so many seconds until all have ended; None to look once.
        give_up: let the requests of batches that the server no longer knows wait for the next one.

    Returns:
        what was read, and how many batches are still under way.

    Raises:
        EnvironmentFault: the server or the disk is at fault; batches that are not concerned were fetched.
    """
    read = Read()
    while True:
        with opened(run_dir) as queue:
            left, fault = asyncio.run(_fetch(queue, tell, place or Place(), give_up, read))
            queue.flush()
        if fault is not None:
            raise fault
        if not left or wait_s is None:
            return read, left
        time.sleep(wait_s)


async def _fetch(
    queue: Queue, tell: Callable[[str], None], place: Place, give_up: bool, read: Read
) -> tuple[int, EnvironmentFault | None]:
    """Look at every batch once: how many are under way, and the last fault of a server."""
    with queue.store.together() as db:
        files = db.execute(
            "SELECT id, target, batch FROM batch_files WHERE state = 'sent' ORDER BY id"
        ).fetchall()
    left, fault = 0, None
    for number, who, name in files:
        with queue.store.together() as db:
            whose = target(db, who)
        path = queue.path(whose, number)
        try:
            async with place.server(whose) as server:
                ended = await _fetch_one(queue, server, path, number, name, give_up, read, tell)
                left += not ended
        except (Refused, Unclear) as error:
            fault = type(error)(f"{path}: {error}")
    return left, fault


async def _fetch_one(
    queue: Queue,
    server: BatchServer,
    path: Path,
    number: int,
    name: str,
    give_up: bool,
    read: Read,
    tell: Callable[[str], None],
) -> bool:
    """Read the answers of one batch; whether it has ended."""
    own = Read()
    try:
        batch = await server.batch(name)
    except Absent as error:
        if not give_up:
            raise Refused(f"{error}; to send its requests once more, give --give-up") from None
        told = "given up"
    else:
        told = _told(batch)
        if not batch.ended:
            with queue.store.together() as db:
                db.execute("UPDATE batch_files SET told = ? WHERE id = ?", (told, number))
            tell(f"{path}: {told}")
            return False
        for at, output in enumerate(batch.outputs):
            came = path.with_suffix(f".answers-{at}.jsonl")
            with writable(queue.folder):
                await server.download(output, came)
            read_answers(queue, came, own)
    with queue.store.together() as db:
        again(db, number, told, own)
        db.execute("UPDATE batch_files SET state = 'done', held = 0, told = ? WHERE id = ?", (told, number))
    tell(f"{path}: {told}: {own.line()}")
    read.counts += own.counts
    read.reasons += own.reasons
    read.cost_usd += own.cost_usd
    return True


def _told(batch: Batch) -> str:
    done, failed, all_ = batch.counts
    counted = f" ({done:,} of {all_:,} done" + (f", {failed:,} failed)" if failed else ")") if all_ else ""
    return batch.status + counted + (f": {batch.told}" if batch.told else "")


def read(run_dir: Path, paths: list[Path]) -> Read:
    """Keep the answers of files that were made elsewhere, such as by `vllm run_batch`.

    Raises:
        AssayError: a file cannot be read, or answers nothing that this run asked.
    """
    found = Read()
    with opened(run_dir) as queue:
        queue.flush()
        for path in paths:
            read_answers(queue, path, found)
        with queue.store.together() as db, writable(queue.folder):
            # What is left in a file that nobody sends is what its lines are about.
            files = db.execute(
                "SELECT f.id, f.target, count(c.key) FROM batch_files f LEFT JOIN batch_calls c "
                "ON c.file = f.id WHERE f.state = 'open' GROUP BY f.id HAVING count(c.key) != f.lines"
            ).fetchall()
            for number, who, left in files:
                lines, size = queue.write(db, target(db, who), number)
                db.execute(
                    "UPDATE batch_files SET lines = ?, bytes = ?, state = ? WHERE id = ?",
                    (lines, size, "open" if left else "done", number),
                )
        queue.flush()
    if set(found.counts) <= {"unknown", "unreadable"}:
        raise AssayError(
            f"{', '.join(map(str, paths))}: answers no request of {run_dir} ({found.line()}); give the "
            f"output of a file of {run_dir / FOLDER}"
        )
    return found
