"""Comments and attributes that belong to the definition below them, and what a doc comment says.

To a definition belong the attributes above it and one comment: the nearest one, or the run of line
comments that is nearest, with nothing between but the end of a line. A comment that speaks to the
interpreter, such as `#!` or `# frozen_string_literal: true`, belongs to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tree_sitter import Node

_WIDEST = 200
"""Bytes of a line that are looked at to see whether a comment has it to itself."""
_MAGIC = re.compile(rb"#!|#.{0,40}(?:frozen_string_literal|coding) ?[:=]|#\s*typed:")
_LINE_MARKS = re.compile(r"[ \t]*(?:///|//!|//|#) ?")
_STAR = re.compile(r"[ \t]*\*(?: |$)")


class Above:
    """The comments and attributes that were last met, in order of position."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.run: list[Node] = []

    def note(self, node: Node) -> None:
        """Keep a comment or attribute: it may belong to what comes next."""
        if self.run and self._touch(self.run[-1], node):
            self.run.append(node)
            return
        column = node.start_point.column
        before = self.data[node.start_byte - min(column, _WIDEST) : node.start_byte]
        alone = column <= _WIDEST and not before.strip()
        self.run = [node] if alone or "comment" not in node.type else []

    def forget(self) -> None:
        """Let go of what was kept: it belonged to something."""
        self.run = []

    def of(self, node: Node) -> list[Node]:
        """What belongs to a node, in order of position."""
        if not self.run or not self._touch(self.run[-1], node):
            return []
        found: list[Node] = []
        comment = ""
        closed = False
        for one in reversed(self.run):
            if "comment" in one.type:
                line = "line" if self.data[one.start_byte : one.start_byte + 2] != b"/*" else "block"
                if line == "line" and self.data.startswith(b"=begin", one.start_byte):
                    line = "block"
                end = min(one.end_byte, one.start_byte + 80)
                magic = line == "line" and _MAGIC.match(self.data, one.start_byte, end)
                if magic or closed or (comment and (comment != line or line == "block")):
                    break
                comment = line
            else:
                closed = bool(comment)
            found.append(one)
        return found[::-1]

    def _touch(self, first: Node, second: Node) -> bool:
        """Whether nothing stands between two nodes but the end of a line."""
        end = first.end_byte - (self.data[first.end_byte - 1 : first.end_byte] == b"\n")
        between = self.data[end : second.start_byte]
        return not between.strip() and between.count(b"\n") <= 1


def docstring(nodes: Sequence[Node], data: bytes) -> str | None:
    """The text of the comments among nodes without their marks; None without a comment."""
    lines: list[str] = []
    comments = [one for one in nodes if "comment" in one.type]
    for one in comments:
        text = data[one.start_byte : one.end_byte].decode().rstrip()
        if text.startswith("/*"):
            inner = text.removeprefix("/*").lstrip("*!").removesuffix("/").rstrip("*")
            lines += [_STAR.sub("", line, count=1) for line in inner.splitlines()]
        elif text.startswith("=begin"):
            lines += text.splitlines()[1:-1]
        elif not text.startswith("//go:"):
            lines.append(_LINE_MARKS.sub("", text, count=1))
    return "\n".join(line.rstrip() for line in lines).strip() if comments else None
