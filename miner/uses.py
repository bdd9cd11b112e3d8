"""What changed lines use of the rest of their file: imports, constants, fields, types, and functions called.

In: two versions of a file and the lines of the old one that are shown. Out: spans of further lines of the old
version. Names are compared as words, without regard to scope: a line too many is a matter of length, never of
truth, since it stands on both sides. Nothing can go wrong.
"""

from __future__ import annotations

import itertools
import re

from tree_sitter import Node

from decompose.definitions import imports, last_row, text_of
from miner.versions import Versions, enclosing, mark

SMALL_BINDING = 15
"""Lines up to which a constant, field or type that a change uses is shown."""
MOST_BINDINGS, MOST_SIGNATURES, MOST_OPAQUE = 40, 10, 40
"""Lines of bindings, functions called, and lines of imports that do not tell what they bring in."""

_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_CALLED = re.compile(r"([A-Za-z_$][\w$]*)[!?]?[ \t]*\(")
_IMPORTED = re.compile(r"[A-Za-z_$][\w$]*(?!\w|\$|\.|::|\\|/)")
_WILD = re.compile(r"(?:\*|\._)\s*;?\s*$")
_BINDING_FIELDS = ("name", "declarator", "left", "pattern", "property", "key")
_BINDERS = (
    *("declarator", "declaration", "_spec", "assignment", "assignment_expression", "_specifier", "_element"),
    *("identifier", "constant", "type_definition", "variable_name"),
)
_BINDING_STEPS = 8
_REQUIRES = ("require", "load ")


def bound_names(node: Node, data: bytes) -> set[str]:
    """Names that a statement or member defines; empty where the syntax does not tell."""
    for _ in range(_BINDING_STEPS):
        part = next((one for field in _BINDING_FIELDS if (one := node.child_by_field_name(field))), None)
        if part is None:
            inner = node.named_children[:6]
            part = next((child for child in inner if child.type.endswith(_BINDERS)), None)
        if part is None:
            return set()
        if part.child_count == 0 or part.type.endswith(("pattern", "pattern_list", "variable_name")):
            return {name.lstrip("$") for name in _WORD.findall(text_of(part, data))}
        node = part
    return set()


Spans = list[tuple[int, int]]


def uses(pair: Versions, wanted: bytearray) -> tuple[Spans, Spans, Spans]:
    """What the wanted lines of the old side use of the rest of it: imports, bindings, and signatures."""
    side, syntax = pair.old, pair.syntax
    text = "".join(line for line, want in zip(side.lines, wanted, strict=True) if want)
    text += "".join("".join(pair.new.lines[first:end]) for first, end in pair.regions(1))
    words, called = {word.lstrip("$") for word in _WORD.findall(text)}, set(_CALLED.findall(text))
    total = list(itertools.accumulate(wanted, initial=0))

    # What another function imports for itself is of no use here.
    own = {item.start_byte for leaf in pair.leaves[0] for item in (leaf, *enclosing(side.items, leaf))}
    elsewhere = bytearray(len(wanted))
    for item in side.items:
        if item.is_function and item.start_byte not in own:
            mark(elsewhere, item.start_line - 1, item.end_line)

    brought: Spans = []
    opaque: Spans = []
    known = set()
    for node in imports(side.tree, pair.language):
        known.add(node.id)
        span = (node.start_point.row, last_row(node) + 1)
        if elsewhere[span[0]]:
            continue
        head = text_of(node, side.data, 4000)
        if head.startswith(syntax.opaque) or _WILD.search(head):
            opaque.append(span)
        elif words.intersection(_IMPORTED.findall(head)):
            brought.append(span)

    bindings: Spans = []
    functions = {item.start_byte for item in side.items if item.is_function}
    functions |= {item.head_byte for item in side.items if item.is_function}
    stack = [side.tree.root_node]
    while stack:
        node = stack.pop()
        for child in node.named_children:
            first, end = child.start_point.row, last_row(child) + 1
            count = total[min(end, len(wanted))] - total[min(first, len(wanted))]
            if 0 < count < end - first:
                stack.append(child)
                continue
            small = node.type in syntax.containers and end - first <= SMALL_BINDING
            if count or not small or child.id in known or child.start_byte in functions:
                continue
            if child.type.startswith("call") and text_of(child, side.data).startswith(_REQUIRES):
                opaque.append((first, end))
            elif words & bound_names(child, side.data):
                bindings.append((first, end))

    chain = {item.start_byte for leaf in pair.leaves[0] for item in enclosing(side.items, leaf)}
    signatures = [
        (item.head_line - 1, item.signature_line)
        for item in side.items
        if item.is_function
        and item.body_byte is not None
        and (item.parent is None or side.items[item.parent].start_byte in chain)
        and _last_name(item.name) in called
        and not wanted[item.head_line - 1]
    ]
    if sum(end - first for first, end in opaque) <= MOST_OPAQUE:
        brought += opaque
    few: Spans = []
    for first, end in sorted(bindings):
        if sum(b - a for a, b in few) + end - first <= MOST_BINDINGS:
            few.append((first, end))
    return brought, few, signatures[:MOST_SIGNATURES]


def _last_name(name: str) -> str:
    return _WORD.findall(name)[-1] if _WORD.search(name) else name
