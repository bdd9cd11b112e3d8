"""Skeletons and splicing: bodies out, bodies in, every other byte as it was.

In: a program. Out: a program with the same functions, signatures and docstrings.
Wrong: `SourceError` for a text that is not a program, a name that it does not define, or a new
function that would not be that one function in its place.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from decompose.grammars import SourceError, encode_source, parse, walk
from decompose.source import BLANK, Source, read
from schemas.records import FunctionSpan

_COMMENT = re.compile(rb"/[/*]|#(?!\[)")
_DEF_LINE = re.compile(rb"[ \t\f]*(?:async[ \t]+)?def\b")


def skeleton(code: str, keep: Collection[str] = (), language: str = "Python") -> str:
    """A program with every function's body replaced by one that does nothing.

    Decorators, signatures, docstrings and a comment on the signature's line stay, and so does all
    that is outside of functions. Comments of a body go with it. Definitions that are not steps
    (below an `if`, or defined again further down) lose their bodies too: they tell how it is done.

    Args:
        keep: qualified names of functions that keep their bodies.

    Raises:
        SourceError: the text is not a program.
    """
    return emptied(read(code, language), keep, language)


def emptied(source: Source, keep: Collection[str], language: str = "Python") -> str:
    """The skeleton of a program that was taken apart before; see `skeleton`.

    Raises:
        SourceError: the skeleton would not keep the program's functions.
    """
    parts: list[bytes] = []
    done = 0
    for definition in source.definitions:
        for start, end, filler in definition.blank if definition.span.name not in keep else ():
            parts += (source.data[done:start], filler)
            done = end
    made = b"".join((*parts, source.data[done:])).decode()
    _same_shape(source, read(made, language), "its skeleton would not keep its functions")
    return made


def _same_shape(old: Source, new: Source, complaint: str) -> None:
    def shape(source: Source) -> list[tuple[str, bool, str, str | None]]:
        return [(d.span.name, d.step, d.span.signature, d.span.docstring) for d in source.definitions]

    if shape(old) != shape(new):
        raise SourceError(complaint)


def splice(code: str, function_name: str, new_function_source: str, language: str = "Python") -> str:
    """A program with one function's text replaced by another's of the same name.

    The new text may come from any depth: it is moved to the old one's indentation where it has to be,
    lines inside of strings excepted. Splicing a function's own text back changes nothing.

    Args:
        function_name: qualified name of the function that is replaced.
        new_function_source: text of one definition, decorators included: the bytes of its span, or
            whole lines.

    Raises:
        SourceError: either text is not a program, the function is not there, or the new text is not
            one definition of that name.
    """
    source = read(code, language)
    old = source.step(function_name).span
    target = source.indent_before(old.start_byte)
    new = encode_source(new_function_source)
    # Elsewhere indentation has no meaning, and lines of strings are nobody's to move.
    new = _moved(new, target, language) if language == "Python" else new.strip()
    start = old.start_byte
    if language != "Python" and target.strip() and _COMMENT.match(new):
        # Behind other code a comment is not the function's.
        line = b"\n" + target[: len(target) - len(target.lstrip(b" \t\f"))]
        new, start = line + new, start + len(line)
    data = source.data[: old.start_byte] + new + source.data[old.end_byte :]
    made = data.decode()
    complaint = f"the new text is not one definition of {function_name!r}"
    try:
        after = read(made, language)
    except SourceError as error:
        raise SourceError(f"{complaint} ({error})") from None
    before = [(d.span.name, d.step) for d in source.definitions]
    if [(d.span.name, d.step) for d in after.definitions] != before:
        raise SourceError(complaint)
    placed = after.step(function_name).span
    if not _fills(placed, start, old.start_byte + len(new), language):
        raise SourceError(complaint)
    return made


def _fills(placed: FunctionSpan, start: int, end: int, language: str) -> bool:
    """Whether a function is all that lies between two bytes.

    Where comments above a function belong to it, one that was there before may now be the nearest.
    """
    begins = placed.start_byte == start if language == "Python" else placed.start_byte <= start
    return begins and placed.end_byte == end


def _moved(text: bytes, target: bytes, language: str) -> bytes:
    """A definition's text as it stands behind `target`, the indentation of its first line."""
    text = text.rstrip(BLANK)
    lines = text.splitlines(keepends=True)
    while lines and not lines[0].strip():
        lines.pop(0)
    text = b"".join(lines)
    if not lines:
        return text
    lead = lines[0][: len(lines[0]) - len(lines[0].lstrip(b" \t\f"))]
    inside = _string_lines(text, language)
    if lead:
        own = lead
    elif lines[0].startswith(b"@"):
        headed = (line for number, line in enumerate(lines) if number not in inside and _DEF_LINE.match(line))
        header = next(headed, b"")
        own = header[: len(header) - len(header.lstrip(b" \t\f"))]
    else:
        body = _body_indent(text, language)
        # A body that is deeper than its new place stands there as well as anywhere.
        if body is None or (body.startswith(target) and len(body) > len(target)):
            return text
        own = b""
    if own == target:
        return text[len(lead) :]
    for number, line in enumerate(lines):
        if number and number not in inside and line.strip() and line.startswith(own):
            lines[number] = target + line[len(own) :]
    return b"".join(lines)[len(lead) :]


def _string_lines(text: bytes, language: str) -> set[int]:
    """Numbers of the lines that begin inside of a string: their leading space belongs to its value."""
    inside: set[int] = set()
    for node, _ in walk(parse(text, language).root_node):
        if node.type == "string":
            inside.update(range(node.start_point[0] + 1, node.end_point[0] + 1))
    return inside


def _body_indent(text: bytes, language: str) -> bytes | None:
    """What stands before the body's first statement of an undecorated definition; None on one line."""
    for node in parse(text, language).root_node.named_children:
        body = node.child_by_field_name("body")
        if body is None:
            continue
        before = text[text.rfind(b"\n", 0, body.start_byte) + 1 : body.start_byte]
        return None if before.strip() else before
    return None
