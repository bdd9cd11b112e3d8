"""Stopping in order: a signal sets a flag, and the loop looks at it between steps.

`stopping` catches SIGTERM (a scheduler's) and SIGINT (Ctrl-C). The first one of each is only noted; a second
one does what it did before. Outside of the main thread nothing can be caught, and nothing is. Processes that
train together get signals at different steps: the loop has to agree on one (`World.most`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


@dataclasses.dataclass
class Stop:
    """Whether a signal asked to stop."""

    asked: bool = False


@contextlib.contextmanager
def stopping() -> Iterator[Stop]:
    """A flag that signals set until the block is left."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before: dict[int, Any] = {}

    def note(number: int, _frame: FrameType | None) -> None:
        stop.asked = True
        # Whoever asks again wants out now.
        signal.signal(number, before[number])

    for caught in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(caught)
        # One that was not set from Python could not be put back; one that is ignored is meant to be.
        if handler is not None and handler is not signal.SIG_IGN:
            before[caught] = handler
            signal.signal(caught, note)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
