"""What an answer is to whoever asked: a reply, or what is wrong with it.

In: a call and what is kept of it. Out: a `Reply`; for an answer that does not fit its schema also what to
tell the model. Wrong: an empty answer and a refusal are replies with `error`.
"""

from __future__ import annotations

import dataclasses

from labelers.llm import structured
from labelers.llm.calls import Call, Reply
from labelers.llm.store import Stored

_HELD_BACK = "content_filter"
_REFUSALS = ("refusal", _HELD_BACK)
_MAX_TOLD = 200


def reply_of(call: Call, stored: Stored) -> tuple[Reply, str | None]:
    """The reply that an answer makes, and what is wrong with it where asking once more may help."""
    reply = Reply(
        text=stored.text,
        finish=stored.finish,
        error=stored.error,
        answered=stored.error is None and stored.finish != _HELD_BACK,
        tokens_in=stored.tokens_in,
        tokens_out=stored.tokens_out,
        cost_usd=stored.cost_usd,
        seconds=stored.seconds,
        model=stored.served or call.model,
        prompt_hash=call.prompt_hash,
    )
    if stored.error is not None:
        return reply, None
    value, complaint = None, None
    if call.schema is not None:
        value, complaint = structured.read(stored.text, call.schema)
        if complaint is None:
            return dataclasses.replace(reply, parsed=value), None
    if stored.finish in _REFUSALS:
        # Asked again it refuses again, and is paid again.
        said = " ".join(stored.text.split())[:_MAX_TOLD]
        return dataclasses.replace(reply, error=f"the model refuses ({said or stored.finish})"), None
    if complaint is None and not stored.text.strip():
        told = f"the answer is empty (finish {stored.finish or 'not told'})"
        return dataclasses.replace(reply, error=told), None
    return reply, complaint


def repaired(call: Call, first: Stored, second: Stored) -> Reply:
    """The reply to a call whose answer did not fit at first."""
    reply, complaint = reply_of(call, second)
    costs = [one.cost_usd for one in (first, second) if one.cost_usd is not None]
    return dataclasses.replace(
        reply,
        error=reply.error or (None if complaint is None else f"no answer that fits the schema: {complaint}"),
        tokens_in=first.tokens_in + second.tokens_in,
        tokens_out=first.tokens_out + second.tokens_out,
        cost_usd=sum(costs) if costs else None,
        seconds=first.seconds + second.seconds,
    )
