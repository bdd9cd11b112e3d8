"""Watches functions of a trusted module: what went in, before the call, and what came out, after it.

In: a function and its name. Out: a wrapper to put in its place, so that nested calls pass through it too;
each distinct call becomes one encoded record, handed on when the call ends.
Wrong: nothing is raised into the program; a call that has no encoding, or is too large, is counted.
"""

from __future__ import annotations

from sandbox import codec

TYPE_CHECKING = False  # importing typing would cost more than the rest of the launcher
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Outcome = Callable[[Callable[[], Any], int], tuple[bytes, BaseException | None]]

# A hot function repeats itself: after this many calls looked at for each record kept, look no further.
_LOOKS_EACH = 50


class Recorder:
    def __init__(self, emit: Callable[[bytes], None], outcome_of: Outcome, most: int, max_bytes: int) -> None:
        self.emit = emit
        self.outcome_of = outcome_of
        self.most = most
        self.max_bytes = max_bytes
        self.skipped = 0
        self.depth = 0

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        seen: set[bytes] = set()
        looks = 0

        def recorded(*args: Any, **kwargs: Any) -> Any:
            nonlocal looks
            looks += 1
            if len(seen) >= self.most or looks > _LOOKS_EACH * self.most:
                return function(*args, **kwargs)
            before = self.encode((args, kwargs))
            if before is None or before in seen:
                self.skipped += before is None
                return function(*args, **kwargs)
            # The place is taken when the call begins, so that inner calls cannot crowd out outer ones.
            seen.add(before)
            result: list[Any] = []

            def call() -> Any:
                result.append(function(*args, **kwargs))
                return result[0]

            self.depth += 1
            try:
                outcome, error = self.outcome_of(call, self.max_bytes)
            finally:
                self.depth -= 1
            after = self.encode((args, kwargs))
            if outcome[:1] == b"u":
                self.skipped += 1
            else:
                self.emit(codec.encode([name, before, outcome, after != before, self.depth]))
            if error is not None:
                raise error
            return result[0]

        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(recorded, attribute, getattr(function, attribute, None))
        recorded.__dict__.update(getattr(function, "__dict__", {}))
        recorded.__wrapped__ = function  # type: ignore[attr-defined]
        return recorded

    def encode(self, value: Any) -> bytes | None:
        try:
            return codec.encode(value, max_bytes=self.max_bytes)
        except codec.EncodeError:
            return None
