"""Grammars: one cached tree-sitter language a programming language, and walks that cannot overflow.

In: a language's name as the `language` column spells it, and source text. Out: syntax trees.
Wrong: `SourceError` for text that is not a program of the language, is too large or is nested too
deeply, in one line that a caller may put into a dropped row; `AssayError` for a language without an
installed grammar. Nothing here recurses, so no input can exhaust Python's stack.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Iterator

from tree_sitter import Language, Node, Parser, Tree

from schemas.errors import AssayError

MAX_SOURCE_BYTES = 1 << 20
"""Bytes of source that are looked at; real programs of one file are far smaller."""

MAX_DEPTH = 500
"""Levels of the syntax tree that are accepted; Python's own parser gives up at a similar depth."""

MAX_OPEN_ANGLES = 2000
"""Signs `<` that may follow one another without `>`, `;` or a brace between. Where `a < b` may begin a
comparison or a type, a parser keeps both readings, and its memory grows with the square of their number."""

_CLOSES_ANGLES = re.compile(rb"[>;{}]")

_WHEELS = {
    "C": ("tree_sitter_c", "language"),
    "C#": ("tree_sitter_c_sharp", "language"),
    "C++": ("tree_sitter_cpp", "language"),
    "Go": ("tree_sitter_go", "language"),
    "Java": ("tree_sitter_java", "language"),
    "JavaScript": ("tree_sitter_javascript", "language"),
    "Kotlin": ("tree_sitter_kotlin", "language"),
    "PHP": ("tree_sitter_php", "language_php"),
    "Python": ("tree_sitter_python", "language"),
    "Ruby": ("tree_sitter_ruby", "language"),
    "Rust": ("tree_sitter_rust", "language"),
    "Scala": ("tree_sitter_scala", "language"),
    "Swift": ("tree_sitter_swift", "language"),
    "TSX": ("tree_sitter_typescript", "language_tsx"),
    "TypeScript": ("tree_sitter_typescript", "language_typescript"),
}
_DIALECTS = {"TSX": "TypeScript"}
"""Grammars of languages that have more than one -> the language."""

LANGUAGES = tuple(name for name in _WHEELS if name not in _DIALECTS)
"""Languages with a grammar, in the spelling of the `language` column."""


class SourceError(AssayError):
    """The text is not a program that can be taken apart; the message says where and why, in one line."""


def dialect(language: str, path: str = "") -> str:
    """The name of the grammar for a file: `language`, or `TSX` for TypeScript with markup in it.

    The file's name decides, never its content: `<T>x` is a cast in one dialect and markup in the other,
    and a query only fits trees of the grammar that it was made for.
    """
    return "TSX" if language == "TypeScript" and path.lower().endswith(".tsx") else language


def grammar(language: str, path: str = "") -> Language:
    """The tree-sitter language of a programming language, in the dialect that a path tells.

    Raises:
        AssayError: the language is not known, or the wheel with its grammar is not installed.
    """
    return _loaded(dialect(language, path))


@functools.cache
def _loaded(name: str) -> Language:
    if name not in _WHEELS:
        raise AssayError(f"{name}: no grammar for this language; known are {', '.join(LANGUAGES)}")
    module, function = _WHEELS[name]
    try:
        made = getattr(importlib.import_module(module), function)()
    except ImportError:
        wheel = module.replace("_", "-")
        raise AssayError(f"{name}: its grammar is not installed; run: pip install {wheel}") from None
    return Language(made)


def encode_source(code: str) -> bytes:
    """Source text as UTF-8.

    Raises:
        SourceError: it is larger than `MAX_SOURCE_BYTES`, or holds a NUL or a lone surrogate.
    """
    if len(code) > MAX_SOURCE_BYTES:
        raise SourceError(f"{len(code)} characters of source are more than {MAX_SOURCE_BYTES} bytes")
    try:
        data = code.encode()
    except UnicodeEncodeError as error:
        raise SourceError(f"character {error.start}: a lone surrogate is not text") from None
    if len(data) > MAX_SOURCE_BYTES:
        raise SourceError(f"{len(data)} bytes of source are more than {MAX_SOURCE_BYTES}")
    if (at := data.find(b"\0")) >= 0:
        raise SourceError(f"byte {at}: a NUL is not source text")
    return data


def parse(data: bytes, language: str, path: str = "") -> Tree:
    """The syntax tree of source bytes; a parser recovers from errors, so any other bytes have a tree.

    200 kB of Python take 0.023 s and their depth 0.007 s; a text made for it takes time that grows with the
    square of its length, up to minutes for that size, most of all in Scala and Kotlin.

    Args:
        path: name of the file, which tells dialects of a language apart.

    Raises:
        SourceError: the text holds more than `MAX_OPEN_ANGLES`.
        AssayError: the language has no installed grammar.
    """
    angles = data.count(b"<")
    if angles > MAX_OPEN_ANGLES:
        angles = max(part.count(b"<") for part in _CLOSES_ANGLES.split(data))
        if angles > MAX_OPEN_ANGLES:
            raise SourceError(
                f"{angles} signs `<` in a row are never closed; a parser may take {MAX_OPEN_ANGLES}"
            )
    # A parser holds state and is cheap to make, so that each call has its own and threads are safe.
    return Parser(grammar(language, path)).parse(data)


def walk(node: Node) -> Iterator[tuple[Node, int]]:
    """Every node below and including `node`, parents first, left to right, with its level (0 is `node`)."""
    cursor = node.walk()
    level = 0
    while True:
        here = cursor.node
        if here is not None:
            yield here, level
        if cursor.goto_first_child():
            level += 1
            continue
        while not cursor.goto_next_sibling():
            if level == 0 or not cursor.goto_parent():
                return
            level -= 1


def tree_depth(tree: Tree | Node, most: int = sys.maxsize) -> int:
    """Nodes on the longest path from the root to a leaf, both included; looks no deeper than `most`."""
    cursor = tree.walk()
    level = deepest = 1
    while deepest < most:
        if cursor.goto_first_child():
            level += 1
            deepest = max(deepest, level)
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return deepest
            level -= 1
    return most


def error_bytes(tree: Tree) -> int:
    """Bytes that the parser could make nothing of: 0 for a text that fits the grammar, else at least 1.

    These are the bytes of error nodes without the well-formed pieces in them, such as the statements
    around a broken one. A token that the parser had to make up counts as one byte. Only the broken parts
    of a tree are looked at.
    """
    if not tree.root_node.has_error:
        return 0
    cursor = tree.walk()
    # For each level above: whether it lies in an error node. Bytes of an error node are added when it is
    # met, those of well-formed pieces in it are taken away again.
    inside: list[bool] = []
    total = errors = 0
    while True:
        node = cursor.node
        entered = False
        if node is not None:
            within = bool(inside) and inside[-1]
            if node.is_error or node.is_missing:
                errors += 1
                total += 0 if within else node.end_byte - node.start_byte
                within = True
            elif within and node.child_count:
                total -= node.end_byte - node.start_byte
                within = False
            if node.has_error and cursor.goto_first_child():
                inside.append(within)
                entered = True
        if entered:
            continue
        while not cursor.goto_next_sibling():
            if not inside or not cursor.goto_parent():
                return max(total, errors, 1)
            inside.pop()


def depth(code: str, language: str = "Python") -> int:
    """Depth of a program's syntax tree: nodes on the longest path from the root to a leaf.

    Tokens such as operators and brackets count as nodes. A text that is no program has a depth too,
    that of the tree which the parser recovered.

    Raises:
        SourceError: the text is too large, or holds a NUL or a lone surrogate.
        AssayError: the language has no installed grammar.
    """
    return tree_depth(parse(encode_source(code), language))
