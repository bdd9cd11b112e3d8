"""The one way to ask a model: in order, many at once, from the cache where it was asked before.

In: `Request`s, lazily. Out: one `Reply` each, in the same order. Every answer is stored as it comes, so that
a run that was killed asks nothing again; equal requests under way are asked once; attempts that may get
better are made again after a wait; nothing is asked that might pass the budget.
Wrong: a request without an answer is a `Reply` with `error`. `ModelFault` (wrong key, unknown model, no
server) and `BudgetSpent` end the run: all answers before are given first, those under way are waited for and
stored.

With `config.batch` nothing is sent: a request without an answer waits for a batch (`batch`), its reply is an
error whose `finish` is `waiting`, and leaving the context of the client raises `BatchWaiting`, so that what
was made of such replies is not kept.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copy
import dataclasses
import functools
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from labelers.llm import structured
from labelers.llm.backends.base import Answer, Backend, Failure
from labelers.llm.backends.replay import Recording
from labelers.llm.calls import (
    UNAVAILABLE,
    WAITING,
    Account,
    BatchWaiting,
    BudgetSpent,
    Call,
    ModelFault,
    Reply,
    Request,
)
from labelers.llm.config import ModelConfig
from labelers.llm.prices import price_of
from labelers.llm.replies import repaired, reply_of
from labelers.llm.store import Store, Stored
from schemas.errors import AssayError
from schemas.tokens import estimate_tokens

if TYPE_CHECKING:
    from labelers.llm.batch import Queue, Target

T = TypeVar("T")

_MAX_WAIT_S = 600.0
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0
# Seconds in which answers under way may still come when the caller stops asking.
_GRACE_S = 10.0
_ACCOUNT_EVERY_S = 2.0


class Client:
    """Asks one model. Use as a context manager, or `close` it.

    A client belongs to the process that made it; threads may share it.

    Args:
        config: the model; `config.enabled` must hold.
        cache: file of calls, `calls.sqlite` of a run directory; None keeps them in memory.

    Raises:
        ModelFault: no model, settings that do not go together, no key in the named variable, or a budget
            without a known price.
        AssayError: the file is not one of calls.
    """

    def __init__(self, config: ModelConfig, cache: Path | None = None) -> None:
        if not config.enabled:
            raise ModelFault("no model is set; give --model, or model in the recipe")
        if (complaint := config.complaint()) is not None:
            raise ModelFault(f"model {config.model}: {complaint}")
        self.config = config
        self._price = price_of(config)
        if config.budget_usd and self._price is None:
            raise ModelFault(
                f"model {config.model}: its price is not known, so a budget cannot be kept; "
                "set price_in and price_out (US dollars for a million tokens; 0 for a server of one's own)"
            )
        self._recording: Recording | None = None
        self._identity = ""
        self._backend: Backend | None = None
        self._check_backend()
        self._store = Store(cache)
        self._queue: tuple[Queue, Target] | None = None
        if config.batch:
            from labelers.llm.batch import Queue

            queue = Queue(self._store)
            self._queue = queue, queue.target_of(config)
        self._account = Account()
        self._account_kept = time.monotonic()
        self._answered = False
        self._closed = False
        self._waiting: str | None = None
        self._stopped: AssayError | None = None
        self._flying: dict[str, asyncio.Task[Stored]] = {}
        self._not_before = 0.0
        self._writes: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._slots: asyncio.Semaphore | None = None

    def _check_backend(self) -> None:
        """Find out at once what would make every request fail, without loading anything heavy."""
        if self.config.kind == "replay":
            self._recording = Recording(Path(self.config.replay))
        elif self.config.kind == "local":
            from labelers.llm.backends.local import weights_identity

            self._identity = weights_identity(self.config)
        elif self.config.kind != "rules" and not self.config.batch:
            from labelers.llm.backends.openai import api_key

            api_key(self.config)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        # The client that ends last knows what waits for all.
        if self._waiting is not None and (error is None or isinstance(error, BatchWaiting)):
            raise BatchWaiting(self._waiting) from None

    @property
    def account(self) -> Account:
        """What this client has asked and spent so far."""
        return copy.copy(self._account)

    def spent(self) -> float:
        """US dollars that the whole run has spent on this file of calls so far."""
        return self._store.spent()

    def stop(self, fault: AssayError) -> None:
        """Begin nothing more, for a fault elsewhere; what is under way is still waited for and kept."""
        self._stopped = self._stopped or fault

    def ask(self, requests: Iterable[Request]) -> Iterator[Reply]:
        """Answer requests, in order; they are drawn a few ahead of the replies.

        Raises:
            ModelFault: no request would get an answer; or, after all replies, some got none for want of a
                server that answers, and the config says `missing=stop`.
            BudgetSpent: the next call might pass the budget.
        """
        window = max(4 * self.config.concurrency, 64)
        waiting: deque[Reply | concurrent.futures.Future[Reply]] = deque()
        halt = threading.Event()
        missing: list[str] = []
        asked = 0

        def answered() -> Reply:
            reply = _result(waiting.popleft())
            if reply.finish == UNAVAILABLE and reply.error is not None:
                missing.append(reply.error)
            return reply

        try:
            for request in requests:
                asked += 1
                call = Call.of(request, self.config)
                known = self._known(request, call)
                if isinstance(known, Reply):
                    waiting.append(known)
                elif self._queue is not None:
                    waiting.append(self._wait_for_batch(known))
                else:
                    waiting.append(self._submit(self._reply(request, call, halt)))
                while waiting and (len(waiting) >= window or _is_ready(waiting[0])):
                    yield answered()
            while waiting:
                yield answered()
            if missing and self.config.missing == "stop":
                raise ModelFault(
                    f"{len(missing)} of {asked} requests got no answer, the last: {missing[-1]}; answers are "
                    "kept: run the same command again, or set missing=skip to go on without them"
                )
        finally:
            halt.set()
            self._settle([one for one in waiting if isinstance(one, concurrent.futures.Future)])
            self._keep_account()

    def _settle(self, open_: list[concurrent.futures.Future[Reply]]) -> None:
        """Wait for what is under way, since it is paid for; what has not begun ends by itself."""
        patience = (
            self.config.timeout_s if self._stopped is not None else min(_GRACE_S, self.config.timeout_s)
        )
        concurrent.futures.wait(open_, timeout=patience)
        for future in open_:
            future.cancel()

    def close(self) -> None:
        """Let go of connections, threads and the file of calls."""
        if self._loop is not None and self._thread is not None:
            with contextlib.suppress(concurrent.futures.TimeoutError):
                self._submit(self._end()).result(timeout=_GRACE_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None
        if self._recording is not None:
            self._recording.close()
        if self._closed:
            return
        self._closed = True
        try:
            if self._queue is not None and self._account.waiting:
                queue, _ = self._queue
                queue.flush()
                self._waiting = queue.line()
        finally:
            self._store.close()

    async def _end(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._backend is not None:
            await self._backend.close()

    def _submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        with self._starting:
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                # A local model makes batches of like length out of more calls than one batch takes.
                many = 4 if self.config.kind == "local" else 1
                self._slots = asyncio.Semaphore(many * self.config.concurrency)
                self._thread = threading.Thread(target=loop.run_forever, name="model calls", daemon=True)
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    # What is known already.

    def _stored(self, call: Call) -> Stored | None:
        if self._recording is not None:
            return self._recording.get(call)
        return self._store.get(call.key(self._identity), errors=self.config.batch)

    def _known(self, request: Request, call: Call) -> Reply | Call:
        """The reply to a request that needs nothing to be asked, made without the event loop's help; else
        the call that needs to be."""
        stored = self._stored(call)
        if stored is None:
            return call
        reply, complaint = reply_of(call, stored)
        if complaint is not None:
            again = Call.of(structured.repair(request, stored.text, complaint), self.config)
            second = self._stored(again)
            if second is None:
                return again
            reply = repaired(call, stored, second)
        self._account.cached += 1
        return dataclasses.replace(reply, cached=True)

    def _wait_for_batch(self, call: Call) -> Reply:
        """Let a call wait for a batch; the reply says so."""
        assert self._queue is not None  # noqa: S101 (made with the client)
        queue, target = self._queue
        queue.add(target, call)
        self._account.waiting += 1
        return Reply(error="it waits for a batch", finish=WAITING, prompt_hash=call.prompt_hash)

    # What has to be asked; all of this runs in the event loop.

    async def _reply(self, request: Request, call: Call, halt: threading.Event) -> Reply:
        stored, cached = await self._ask_once(call, halt)
        reply, complaint = reply_of(call, stored)
        if complaint is not None:
            again = Call.of(structured.repair(request, stored.text, complaint), self.config)
            second, second_cached = await self._ask_once(again, halt)
            self._account.repairs += not second_cached
            cached = cached and second_cached
            reply = repaired(call, stored, second)
        self._account.cached += cached
        return dataclasses.replace(reply, cached=cached)

    async def _ask_once(self, call: Call, halt: threading.Event) -> tuple[Stored, bool]:
        """What became of a call, and whether somebody else had asked."""
        key = call.key(self._identity)
        while True:
            known = self._stored(call)
            if known is not None:
                return known, True
            task = self._flying.get(key)
            mine = task is None
            if task is None:
                task = self._flying[key] = asyncio.ensure_future(self._ask_model(key, call, halt))
                task.add_done_callback(functools.partial(self._landed, key))
            try:
                return await asyncio.shield(task), not mine
            except asyncio.CancelledError:
                # Whoever asked first may have given up; the call is then this one's.
                if mine or not task.cancelled() or halt.is_set():
                    raise

    def _landed(self, key: str, task: asyncio.Task[Stored]) -> None:
        self._flying.pop(key, None)
        # Nobody may be waiting any more; asyncio would report an error that nobody has seen.
        if not task.cancelled():
            task.exception()

    async def _ask_model(self, key: str, call: Call, halt: threading.Event) -> Stored:
        assert self._slots is not None  # noqa: S101 (made with the loop)
        if self._store.under_way(key):
            self._account.failed += 1
            told = "it is under way in a batch: `assay batch fetch` gets its answer"
            return Stored("", UNAVAILABLE, told, "", 0, 0, None, 0.0)
        async with self._slots:
            for attempt in range(self.config.retries + 1):
                hold = await self._may_spend(call, halt)
                started = time.monotonic()
                try:
                    answer = await self._send(call)
                except Failure as failure:
                    if hold is not None:
                        release = functools.partial(self._store.release, hold, failure.charged)
                        self._account.lost_usd += await self._write(release)
                    wait = self._wait_after(failure, attempt)
                    if wait is None:
                        finish = UNAVAILABLE if failure.retry else failure.finish
                        stored = Stored("", finish, str(failure), "", 0, 0, None, time.monotonic() - started)
                        self._account.failed += 1
                        return await self._write(functools.partial(self._store.put, key, call, stored))
                    self._account.retries += 1
                    await self._nap(wait, halt)
                except BaseException:
                    # Given up while it was under way: it may be charged.
                    if hold is not None:
                        self._account.lost_usd += self._store.release(hold, True)
                    raise
                else:
                    self._answered = True
                    stored = self._priced(call, answer, time.monotonic() - started)
                    return await self._write(functools.partial(self._store.put, key, call, stored, hold))
        raise AssertionError("the last attempt returns")

    def _write(self, write: Callable[[], T]) -> asyncio.Future[T]:
        """Do a write together with all others of this turn of the event loop; done means kept."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if not self._writes:
            loop.call_soon(self._flush)
        self._writes.append((write, future))
        return future

    def _flush(self) -> None:
        writes, self._writes = self._writes, []
        try:
            with self._store.together():
                results = [write() for write, _ in writes]
        except Exception as error:
            # Whoever waits must hear of it, whatever it is.
            self._stopped = error if isinstance(error, AssayError) else self._stopped
            for _, future in writes:
                if not future.cancelled():
                    future.set_exception(error)
            return
        for (_, future), result in zip(writes, results, strict=True):
            if not future.cancelled():
                future.set_result(result)

    async def _send(self, call: Call) -> Answer:
        if self._backend is None:
            self._backend = _backend(self.config)
        return await self._backend.send(call)

    async def _may_spend(self, call: Call, halt: threading.Event) -> int | None:
        """Wait until a call may begin; the hold on what it may cost."""
        hold: int | None = None
        if self.config.budget_usd and self._price is not None:
            most = self._price.most(call)
            while hold is None:
                self._check(halt)
                found = await self._write(functools.partial(self._store.hold, most, self.config.budget_usd))
                if found == "spent":
                    self._stopped = self._budget_spent(most)
                elif isinstance(found, int):
                    hold = found
                else:
                    await asyncio.sleep(0.05)
        try:
            if self.config.requests_per_minute:
                await self._nap(self._store.slot(60 / self.config.requests_per_minute), halt)
            while (wait := self._not_before - time.monotonic()) > 0:
                await self._nap(wait, halt)
            self._check(halt)
        except BaseException:
            if hold is not None:
                self._store.release(hold, False)
            raise
        return hold

    def _budget_spent(self, most: float) -> BudgetSpent:
        spent, budget = self._store.spent(), self.config.budget_usd
        return BudgetSpent(
            f"the budget of ${budget:g} is spent (${spent:.4f}, and the next call may cost ${most:.4f}); "
            "answers are kept: set a larger budget_usd and run the same command again"
        )

    async def _nap(self, seconds: float, halt: threading.Event) -> None:
        """Wait, but no longer than the run goes on."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._check(halt)
            await asyncio.sleep(min(left, 0.25))

    def _check(self, halt: threading.Event) -> None:
        if self._stopped is not None:
            raise self._stopped
        if halt.is_set():
            raise asyncio.CancelledError

    def _wait_after(self, failure: Failure, attempt: int) -> float | None:
        """Seconds to wait before the next attempt; None when there is none."""
        at_first = failure.fatal_at_first and not self._answered
        last = attempt >= self.config.retries or not failure.retry
        if at_first or (failure.fatal and last):
            self._stopped = ModelFault(str(failure))
            raise self._stopped
        if last:
            return None
        wait: float = min(_FIRST_WAIT_S * 2**attempt, _LONGEST_WAIT_S) * random.uniform(0.5, 1)  # noqa: S311
        if failure.after_s is not None:
            wait = min(max(failure.after_s, 0.0), _MAX_WAIT_S)
            # What a server asks of one request holds for all.
            self._not_before = max(self._not_before, time.monotonic() + wait)
        return wait

    def _priced(self, call: Call, answer: Answer, seconds: float) -> Stored:
        counted_in = answer.tokens_in
        if counted_in is None:
            counted_in = sum(estimate_tokens(message.content) for message in call.messages)
        counted_out = estimate_tokens(answer.text) if answer.tokens_out is None else answer.tokens_out
        cost = None if self._price is None else self._price.of(counted_in, counted_out)
        account = self._account
        account.calls += 1
        account.tokens_in += counted_in
        account.tokens_out += counted_out
        account.cost_usd += cost or 0.0
        if time.monotonic() - self._account_kept > _ACCOUNT_EVERY_S:
            self._keep_account()
        return Stored(answer.text, answer.finish, None, answer.served, counted_in, counted_out, cost, seconds)

    def _keep_account(self) -> None:
        if self._closed:
            # Replies that nobody drew are let go of after the client.
            return
        self._account_kept = time.monotonic()
        self._store.keep_account(self._account)


def _backend(config: ModelConfig) -> Backend:
    if config.kind == "openai":
        from labelers.llm.backends.openai import OpenAIServer

        return OpenAIServer(config)
    if config.kind == "litellm":
        from labelers.llm.backends.litellm import LiteLLM

        return LiteLLM(config)
    if config.kind == "rules":
        from labelers.llm.backends.rules import Rules

        return Rules()
    from labelers.llm.backends.local import LocalModel

    return LocalModel(config)


def _is_ready(one: Reply | concurrent.futures.Future[Reply]) -> bool:
    return isinstance(one, Reply) or one.done()


def _result(one: Reply | concurrent.futures.Future[Reply]) -> Reply:
    return one if isinstance(one, Reply) else one.result()
