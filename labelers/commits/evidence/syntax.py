"""What a syntax tree says of one version of a file: its size, nesting, comments, and whether it parses.

In: a file's text, its language and its path, which tells dialects apart. Out: an `Outline`. Two versions
with one `program` have the same tokens in the same structure: they differ in comments, docstrings of Python
and layout alone. Comments that compilers and interpreters read, such as `//go:build`, belong to the program.
Wrong: `SourceError` for a text that no parser may take (too large, a NUL); a text with syntax errors has an
outline too. Time is linear in the tree and nothing recurses; the parser's own time is the caller's to bound.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re

from tree_sitter import Node

from decompose.grammars import encode_source, error_bytes, parse


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NESTING = _words(
    """
    if_statement if_expression if unless unless_modifier for_statement for_in_statement for_range_loop
    for_expression for for_each_statement foreach_statement enhanced_for_statement while_statement
    while_expression while until loop_expression repeat_while_statement do_statement do_while_statement
    switch_statement switch_expression expression_switch_statement type_switch_statement select_statement
    match_statement match_expression when_expression case try_statement try_expression
    try_with_resources_statement with_statement guard_statement
    """
)
"""Nodes of all grammars that put what is in them one level deeper."""
LOOPS = _words(
    """
    for_statement for_in_statement for_range_loop for_expression for for_each_statement foreach_statement
    enhanced_for_statement while_statement while_expression while until loop_expression
    repeat_while_statement do_statement do_while_statement
    """
)
_CHAINED = frozenset({"else_clause", "elif_clause", "else", "elsif", "elseif_clause", "else_if_clause"})
_WHOLE = re.compile(
    r"(?:\w+_)?(?:string|string_literal|template_string|heredoc|heredoc_body|char_literal|character|"
    r"character_literal|regex|regex_literal|raw_string_literal|verbatim_string_literal|"
    r"line_string_literal|multi_line_string_literal|encapsed_string|nowdoc|text|subshell|"
    r"rune_literal|system_lib_string|delimited_symbol|rune)"
)
"""Nodes that are one token: how much of a literal is a node of its own differs between grammars."""
_READ_BY_TOOLS = re.compile(
    rb"#!|//go:|//\s*\+build|#.{0,40}(?:frozen_string_literal|coding) ?[:=]|//export |\s*/\*\s*@(?:flow|jsx)"
)


@functools.cache
def _is_whole(kind: str) -> bool:
    return _WHOLE.fullmatch(kind) is not None


_WORD = re.compile(rb"\w")
_NOT_LINE_END = re.compile(rb"[^\n]")
_WINDOW = 6
"""Lines in a row from which the same text is a copy."""


@dataclasses.dataclass(frozen=True)
class Outline:
    """What is known of one version.

    Attributes:
        errors: bytes that the parser could make nothing of.
        tokens: tokens of code; a literal is one.
        code_lines: lines with code on them.
        comment_lines: lines with a comment or a docstring on them, and no code.
        nesting: most control structures around one token; a chain of `else if` counts once.
        duplicates: lines that belong to six or more in a row that stood before in the same file.
        program: digest of the tokens and their structure.
        code: the text with comments blanked, one character a byte.
        inside: for each byte whether it is inside of a literal's marks.
        loops: first byte and one past the last of each loop.
    """

    errors: int
    tokens: int
    code_lines: int
    comment_lines: int
    nesting: int
    duplicates: int
    program: str
    code: str
    inside: bytes
    loops: list[tuple[int, int]]


@dataclasses.dataclass(slots=True)
class _Reader:
    data: bytes
    language: str
    documented: bool
    digest: hashlib.blake2b
    code: bytearray
    inside: bytearray
    tokens: int = 0
    nesting: int = 0
    last: int = 0
    docstring: int = 0

    def leaf(self, node: Node, kind: str, rows: bytearray) -> None:
        """Take a token."""
        start, end = node.start_byte, node.end_byte
        if end <= start and not node.is_missing:
            return
        text = self.data[start:end]
        if not text.strip() and not _is_whole(kind):
            # Some grammars have tokens for the ends of lines.
            return
        self.tokens += 1
        self._gap(start)
        self.digest.update(b"\x01" + kind.encode() + b"\x02" + text.rstrip(b"\r\n"))
        self.last = end
        for row in range(node.start_point.row, node.end_point.row + (node.end_point.column > 0)):
            rows[row] |= 1
        if end - start > 1 and _is_whole(kind):
            self.inside[start + 1 : end - 1] = b"\1" * (end - start - 2)

    def comment(self, node: Node, rows: bytearray, *, counts: bool) -> None:
        """Take a comment or docstring."""
        start, end = node.start_byte, node.end_byte
        if counts:
            self.digest.update(b"\x03" + self.data[start:end])
        self._gap(start)
        self.last = max(self.last, end)
        for row in range(node.start_point.row, node.end_point.row + (node.end_point.column > 0)):
            rows[row] |= 2
        self.code[start:end] = _NOT_LINE_END.sub(b" ", self.data[start:end])

    def _gap(self, start: int) -> None:
        """What no token covers counts too."""
        if self.last < start and (gap := self.data[self.last : start].strip()):
            self.digest.update(b"\x04" + gap)


def _docstring_of(node: Node, above: str) -> int:
    """Id of the statement that is the docstring of a Python module or body; 0 when there is none."""
    if node.type != "module" and not (
        node.type == "block" and above in ("function_definition", "class_definition")
    ):
        return 0
    for child in node.named_children[:20]:
        if child.type == "comment":
            continue
        plain = child.type == "expression_statement" and child.child_count == 1
        return child.id if plain and child.children[0].type in ("string", "concatenated_string") else 0
    return 0


def outline(text: str, language: str, path: str = "") -> Outline:
    """What the tree of one version says.

    Raises:
        SourceError: the text is too large for a parser, or holds a NUL or a lone surrogate.
        AssayError: the language has no grammar.
    """
    data = encode_source(text)
    tree = parse(data, language, path)
    rows = bytearray(data.count(b"\n") + 2)
    python = language == "Python"
    # A program that looks at its docstrings means them; a comment above Go's `import "C"` is C.
    reader = _Reader(
        data,
        language,
        not python or b"__doc__" in data or b"docopt" in data,
        hashlib.blake2b(digest_size=16),
        bytearray(data),
        bytearray(len(data)),
    )
    counted = language == "Go" and b'import "C"' in data
    loops: list[tuple[int, int]] = []
    cursor = tree.walk()
    # Kind, depth of nesting and docstring of the nodes above.
    opened: list[tuple[str, int, int]] = [("", 0, 0)]
    while True:
        node = cursor.node
        if node is None:
            break
        kind, (above, level, docstring) = node.type, opened[-1]
        entered = False
        if kind.endswith("comment"):
            own = counted or _READ_BY_TOOLS.match(data, node.start_byte, node.end_byte) is not None
            reader.comment(node, rows, counts=own)
        elif docstring and node.id == docstring:
            reader.comment(node, rows, counts=False)
        elif node.child_count == 0 or (node.is_named and _is_whole(kind)):
            reader.leaf(node, kind if node.is_named else "", rows)
            reader.nesting = max(reader.nesting, level)
        else:
            if node.is_named and kind in NESTING:
                level += not (above in _CHAINED or (above == kind == "if_statement" and _is_else(node)))
            if kind in LOOPS:
                loops.append((node.start_byte, node.end_byte))
            reader.digest.update(b"\x05" + kind.encode())
            found = 0 if reader.documented else _docstring_of(node, above)
            if cursor.goto_first_child():
                opened.append((kind, level, found))
                entered = True
        if entered:
            continue
        while not cursor.goto_next_sibling():
            if len(opened) == 1 or not cursor.goto_parent():
                break
            opened.pop()
            reader.digest.update(b"\x06")
        else:
            continue
        break
    reader._gap(len(data))
    lines = data.split(b"\n")
    return Outline(
        errors=error_bytes(tree),
        tokens=reader.tokens,
        code_lines=sum(row & 1 for row in rows),
        comment_lines=sum(row == 2 for row in rows),
        nesting=reader.nesting,
        duplicates=_duplicates([line for line, row in zip(lines, rows, strict=False) if row & 1]),
        program=reader.digest.hexdigest(),
        code=reader.code.decode("latin-1"),
        inside=bytes(reader.inside),
        loops=loops,
    )


def _is_else(node: Node) -> bool:
    """Whether an `if` is what stands behind the `else` of the one around it."""
    before = node.prev_sibling
    return before is not None and before.type == "else"


def _duplicates(lines: list[bytes]) -> int:
    """Lines of code that belong to several in a row which stood before; lines without a word are left out."""
    told = [b"".join(line.split()) for line in lines if _WORD.search(line)]
    seen: dict[tuple[bytes, ...], int] = {}
    marked = bytearray(len(told))
    for at in range(len(told) - _WINDOW + 1):
        # Copies do not overlap what they copy.
        if seen.setdefault(tuple(told[at : at + _WINDOW]), at) + _WINDOW <= at:
            marked[at : at + _WINDOW] = b"\1" * _WINDOW
    return sum(marked)
