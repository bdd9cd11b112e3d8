"""How often names are used in a Go program: a variable or package that nothing uses is an error there.

In: a `Source`. Out: whether a replacement takes the last use of a name away. Time is linear in the program.
"""

from __future__ import annotations

import bisect
import re

from tree_sitter import Node

from decompose.grammars import walk
from decompose.source import Source

_LONGEST = 20_000
_BINDERS = frozenset(("short_var_declaration", "assignment_statement", "range_clause"))


class Uses:
    """The places where the names of a Go program are used and bound.

    Attributes:
        used, bound: name -> places in order.
        packages: names of what is imported.
    """

    def __init__(self, source: Source) -> None:
        self.data = source.data
        self.used: dict[str, list[int]] = {}
        self.bound: dict[str, list[int]] = {}
        self.packages: set[str] = set()
        binds: set[int] = set()
        for node, _ in walk(source.tree.root_node):
            if node.type == "import_spec":
                name, path = node.child_by_field_name("name"), node.child_by_field_name("path")
                told = self._text(name) if name is not None else self._text(path).rpartition("/")[2]
                self.packages.add(told)
            elif node.type == "identifier":
                place = self.bound if node.id in binds else self.used
                place.setdefault(self._text(node), []).append(node.start_byte)
            else:
                binds.update(_bound(node))

    def _text(self, node: Node | None) -> str:
        return "" if node is None else self.data[node.start_byte : node.end_byte].decode().strip('"`')

    def missing(self, start: int, end: int, new: str, within: tuple[int, int]) -> bool:
        """Whether a name would be left without any use by a replacement.

        Args:
            within: bytes of the function that the replacement is in.
        """
        if end - start > _LONGEST:
            return True
        kept = set(re.findall(r"\w+", new))
        for name in set(re.findall(r"\w+", self.data[start:end].decode())) - kept:
            used = self.used.get(name, [])
            here = _count(used, start, end)
            if not here:
                continue
            if name in self.packages and here == len(used):
                return True
            bound = self.bound.get(name, [])
            if _count(bound, *within) > _count(bound, start, end) and _count(used, *within) == here:
                return True
        return False


def _count(places: list[int], start: int, end: int) -> int:
    return bisect.bisect_left(places, end) - bisect.bisect_left(places, start)


def _bound(node: Node) -> list[int]:
    """The identifiers that a node binds or assigns, which is no use of them."""
    if node.type == "var_spec":
        return [one.id for one in node.children_by_field_name("name")]
    if node.type not in _BINDERS:
        return []
    left, operator = node.child_by_field_name("left"), node.child_by_field_name("operator")
    if left is None or (operator is not None and operator.type != "="):
        return []
    return [one.id for one in left.named_children]
