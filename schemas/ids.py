"""Content-derived ids, task keys and seeded draws: same input, same bytes, on any machine.

Everything here is a pure function of its arguments. Parts are length-prefixed before hashing, so
`("ab", "c")` and `("a", "bc")` never collide.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def _digest(parts: Iterable[str | bytes], size: int) -> str:
    state = hashlib.blake2b(digest_size=size)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


def content_id(*parts: str | bytes) -> str:
    """A record's id: 128 bits of BLAKE2b over its parts, as 32 hex digits."""
    return _digest(parts, 16)


def digest_json(value: Any) -> str:
    """A digest of a JSON-like value that does not depend on the order of keys."""
    return _digest([json.dumps(value, sort_keys=True, separators=(",", ":"))], 16)


def digest_files(paths: Iterable[Path]) -> str:
    """A digest of files' names and bytes, in the order of their paths."""
    return _digest((part for path in sorted(paths) for part in (path.name, path.read_bytes())), 16)


def task_key(stage: str, config: Mapping[str, Any], code: str, inputs: Mapping[str, str]) -> str:
    """The key under which a task's result is kept: any change in stage, config, code or inputs changes it."""
    return digest_json({"stage": stage, "config": dict(config), "code": code, "inputs": dict(inputs)})


def rng(seed: int, purpose: str, record_id: str) -> random.Random:
    """A generator that depends only on (recipe seed, purpose, record id), never on order or workers."""
    return random.Random(int(_digest([str(seed), purpose, record_id], 16), 16))  # noqa: S311 (not for secrets)


def fraction(seed: int, purpose: str, record_id: str) -> float:
    """One uniform draw in [0, 1) for a record."""
    return rng(seed, purpose, record_id).random()


def split_of(seed: int, group: str, test_share: float) -> str:
    """`train` or `test` for everything of one group (a repository, a problem, a task instance)."""
    return "test" if fraction(seed, "split", group) < test_share else "train"
