"""Answers in JSON: found in what a model wrote, checked against a schema, and asked for again once.

In: an answer and a JSON schema. Out: the value that fits, or what is wrong with it, in a line that the
model can act on. Wrong: nothing; hostile depth, size and numbers are complaints too.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from typing import Any

from labelers.llm.calls import Message, Request
from labelers.llm.fencing import fence

MAX_JSON = 1 << 20
"""Characters of an answer that are looked at."""
REPAIR = "/repair"
"""What the kind of a request that asks once more ends with."""
_MAX_STARTS = 50
_MAX_SHOWN = 20_000
_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_OPENING = re.compile(r"[{\[]")


def without_thought(text: str) -> str:
    """An answer without the thinking that some models write before it."""
    return _THOUGHT.sub("", text, count=1)


def read(text: str, schema: Mapping[str, Any]) -> tuple[Any, str | None]:
    """The value in an answer that fits a schema.

    The whole answer is tried, then what begins at each opening brace: prose and fences around it do not
    matter.

    Returns:
        (value, None), or (None, what is wrong).
    """
    text = without_thought(text[:MAX_JSON]).strip()
    if not text:
        return None, "the answer is empty"
    complaint = "the answer holds no JSON value"
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    at, starts = 0, 0
    while starts < _MAX_STARTS and (match := _OPENING.search(text, at)):
        starts += 1
        try:
            value, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError) as error:
            if starts == 1:
                complaint = f"not valid JSON: {error or 'nested too deeply'}"
            at = match.end()
            continue
        wrong = _complaint(value, schema)
        if wrong is None:
            return value, None
        complaint = wrong
        at = end
    return None, complaint


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _complaint(value: Any, schema: Mapping[str, Any]) -> str | None:
    try:
        # The first of them: a hostile answer may have as many as it has values.
        error = next(_validator(json.dumps(schema, sort_keys=True)).iter_errors(value), None)
    except RecursionError:
        return "nested too deeply"
    if error is None:
        return None
    where = "".join(f"[{part!r}]" for part in error.absolute_path)
    return f"{where}: {error.message}"[:500].removeprefix(": ")


@functools.lru_cache(maxsize=64)
def _validator(schema: str) -> Any:
    import jsonschema  # type: ignore[import-untyped]

    return jsonschema.Draft202012Validator(json.loads(schema))


def repair(request: Request, text: str, complaint: str) -> Request:
    """The request that asks once more, with the answer and what is wrong with it."""
    shown = text[:_MAX_SHOWN].strip() or "(nothing)"
    asked = (
        f"That answer does not fit: {complaint}\n\nAnswer again with one JSON value and nothing else. "
        f"It must fit this JSON schema:\n{fence(json.dumps(request.schema, sort_keys=True), 'json')}"
    )
    more = (Message("assistant", shown), Message("user", asked))
    return dataclasses.replace(
        request, messages=(*request.messages, *more), kind=request.kind + REPAIR, expected_tokens=None
    )
