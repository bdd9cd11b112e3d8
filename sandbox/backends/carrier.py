"""What an agent (`sandbox.inside.agent`) says, brought to the descriptors that the supervisor reads.

In: bytes of an agent, and copies of those descriptors. Out: each message written to the one it is for.
Wrong: nothing is raised. The bytes come from a container that hostile code may have taken over, or from
another machine: what is no message, or no line that PID 1 could say, ends the job, and no more than one
message is held.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from sandbox.inside import agent
from sandbox.job import Limits

# The descriptors that messages are carried to; and, "requests", from.
_CARRIED = ("status", "channel", "out", "err", "requests")
_LINE = re.compile(rb"started|crowded|exit \d{1,9} \d{1,9}\.\d{6} \d{1,12}|(error|stop [a-z_]+) [^\n]*")
_TARGETS = {agent.LINE: "status", agent.RESULT: "channel", agent.OUT: "out", agent.ERR: "err"}


class Carrier:
    """Cuts an agent's bytes into messages, and writes each to the descriptor that it is for."""

    def __init__(self, kept: Mapping[str, int]) -> None:
        self._kept = kept
        self._buffer = bytearray()
        self._closed: set[str] = set()

    def take(self, data: bytes) -> bool:
        """Write what `data` completes; return whether more may follow."""
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= agent.HEAD.size:
            kind, size = agent.HEAD.unpack_from(buffer, at)
            if kind not in _TARGETS or size > agent.MOST_IN_ONE:
                return False
            end = at + agent.HEAD.size + size
            if len(buffer) < end:
                break
            body = bytes(buffer[at + agent.HEAD.size : end])
            if kind == agent.LINE:
                if not _LINE.fullmatch(body):
                    return False
                body += b"\n"
            self._write(_TARGETS[kind], body)
            at = end
        del buffer[:at]
        return True

    def _write(self, name: str, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view and name not in self._closed:
                view = view[os.write(self._kept[name], view) :]
        except OSError:
            self._closed.add(name)  # the supervisor has had enough of it


def copies(parts: Mapping[str, int]) -> dict[str, int]:
    """Copies of a job's descriptors, which live on when the supervisor has closed its own."""
    return {name: os.dup(parts[name]) for name in _CARRIED if name in parts}


def bounds(limits: Limits) -> dict[bytes, int]:
    """What an agent sends of each stream: a byte more than is kept, so that it shows that there was more."""
    output = (limits.output_kb << 10) + 1
    return {agent.OUT: output, agent.ERR: output, agent.RESULT: (limits.result_kb << 10) + (1 << 17)}
