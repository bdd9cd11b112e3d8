"""What every backend promises.

In: a `Call`. Out: an `Answer`. Wrong: `Failure`, which says whether another attempt may help, whether any
request could do better, and whether the attempt may have been charged.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

from labelers.llm.calls import Call


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a model answered; token counts are None where the server does not tell."""

    text: str
    finish: str
    served: str
    tokens_in: int | None
    tokens_out: int | None


class Failure(Exception):
    """An attempt without an answer.

    Attributes:
        retry: another attempt may help.
        fatal: no other request would do better either.
        fatal_at_first: the same, if nothing was answered before.
        after_s: seconds that the server asks to wait; None when it does not.
        charged: the provider may charge for it all the same.
        finish: `Reply.finish` of a request that ends with it, where that is told apart.
    """

    def __init__(
        self,
        message: str,
        *,
        retry: bool = False,
        fatal: bool = False,
        fatal_at_first: bool = False,
        after_s: float | None = None,
        charged: bool = False,
        finish: str = "",
    ) -> None:
        super().__init__(message)
        self.retry, self.fatal, self.fatal_at_first = retry, fatal, fatal_at_first
        self.after_s, self.charged, self.finish = after_s, charged, finish


class Backend(Protocol):
    """Answers calls, many at once, in one event loop."""

    async def send(self, call: Call) -> Answer:
        """Answer one call.

        Raises:
            Failure: there is no answer.
        """

    async def close(self) -> None:
        """Let go of connections and threads."""
