"""Neighbouring functions whose order cannot matter, in every language but Python.

In: a `Source`. Out: pairs of edits that exchange two functions with nothing but blank lines between. Only
functions that are there before anything runs are exchanged, or that are defined one right after the other
with nothing in between that could call them. A program that can tell where a line stands is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from decompose.mutate import Edit
from decompose.source import Definition, Source

_MOVABLE = {
    "JavaScript": ("function_declaration", "generator_function_declaration"),
    "TypeScript": ("function_declaration", "generator_function_declaration"),
    "Java": ("method_declaration",),
    "Go": ("function_declaration", "method_declaration"),
    "C": ("function_definition",),
    "C++": ("function_definition",),
    "C#": ("method_declaration",),
    "Ruby": ("method", "singleton_method"),
    "Rust": ("function_item",),
    "PHP": ("function_definition", "method_declaration"),
}
_SPECIAL = re.compile(rb"template\s*<\s*>")
_SPECIAL = re.compile(rb"\boperator\b|template\s*<\s*>")
# Languages in which a name must be declared above where it is used.
_ABOVE = ("C", "C++")
_SEES_LINES = re.compile(
    rb"__LINE__|__COUNTER__|\bline!|\bcolumn!|CallerLineNumber|\bcaller\b|\bcaller_locations\b|\bCaller\b|"
    rb"[sS]tackTrace|\.stack\b|method_added|debug_backtrace|source_location|#line\b|getLine\b|"
    rb"[gG]etMethods|[gG]etDeclaredMethods|instance_methods|get_class_methods|get_defined_functions"
)


def exchanges(source: Source, language: str) -> Iterator[tuple[str, list[Edit]]]:
    """Every exchange of two neighbours, with what it does in a few words, in order of position."""
    if _SEES_LINES.search(source.data):
        return
    for first, second in zip(source.definitions, source.definitions[1:], strict=False):
        between = source.data[first.span.end_byte : second.span.start_byte]
        if between.strip() or b"\n" not in between or not _alike(source, first, second, language):
            continue
        if not (_movable(source, first, language) and _movable(source, second, language)):
            continue
        detail = f"exchange `{first.span.name}` and `{second.span.name}`"
        yield detail, [_put(source, first, second), _put(source, second, first)]


def _put(source: Source, at: Definition, given: Definition) -> Edit:
    """The edit that puts one function where another is."""
    span, other = at.span, given.span
    text = source.data[other.start_byte : other.end_byte].decode()
    return Edit(span.start_byte, span.end_byte, "variant", text, span.name, 0, "")


def _movable(source: Source, definition: Definition, language: str) -> bool:
    head = source.data[definition.span.start_byte : definition.head_end]
    if not definition.step or definition.node.type not in _MOVABLE[language]:
        return False
    if language == "Go":
        # These run in the order in which they stand.
        return definition.base != "init"
    if language in _ABOVE:
        # A type or a macro that is made in passing is seen by what follows; an operator is used without
        # being named.
        text = source.data[definition.span.start_byte : definition.span.end_byte]
        named = re.search(r"(?:^|[:.])\w+$", definition.base) and "operator" not in definition.base
        return bool(named) and b"{" not in head and b"\n#" not in text and not _SPECIAL.search(head)
    if language == "TypeScript":
        # The signatures of overloads stand right above the function.
        at = definition.span.start_byte
        above = source.data[max(at - 2000, 0) : at].rstrip()
        last = above.rpartition(b"\n")[2]
        return not re.search(rb"\bfunction\b", last) or last.endswith(b"}")
    return True


def _alike(source: Source, first: Definition, second: Definition, language: str) -> bool:
    """Whether two functions lie in the same place and neither must stand above the other."""
    if first.base == second.base:
        return False
    if language not in _ABOVE:
        return True
    texts = [source.data[one.span.start_byte : one.span.end_byte] for one in (first, second)]
    names = [re.split(r"[.:]+", one.base)[-1].encode() for one in (first, second)]
    return not any(
        re.search(rb"(?<!\w)" + re.escape(name) + rb"(?!\w)", text)
        for name, text in zip(names, reversed(texts), strict=True)
    )
