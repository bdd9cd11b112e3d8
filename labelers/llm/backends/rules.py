"""Answers by rules of whoever asks: no model, no network, no cost.

In: a `Call` with the answer that a rule gives to it. Out: that answer. Wrong: `Failure` for a call that no
rule answers; the others go on.
"""

from __future__ import annotations

from labelers.llm.backends.base import Answer, Failure
from labelers.llm.calls import Call
from labelers.llm.config import RULES


class Rules:
    """Gives each call the answer that it brought."""

    async def send(self, call: Call) -> Answer:
        """The rule's answer."""
        if call.rule is None:
            raise Failure("no rule answers this request; name a model", finish="no_rule")
        return Answer(call.rule, "stop", RULES, 0, 0)

    async def close(self) -> None:
        """Nothing is open."""
