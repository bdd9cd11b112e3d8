"""Grammars: one cached tree-sitter language a programming language, and walks that cannot overflow.

In: a language's name as the `language` column spells it, or source text. Out: syntax trees.
Wrong: `SourceError` for text that is not a program of the language, is too large or is nested too
deeply, in one line that a caller may put into a dropped row; `AssayError` for a language without an
installed grammar. Nothing here recurses, so no input can exhaust Python's stack.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator

from tree_sitter import Language, Node, Parser, Tree

from schemas.errors import AssayError

MAX_SOURCE_BYTES = 1 << 20
"""Bytes of source that are looked at; real programs of one file are far smaller."""

MAX_DEPTH = 500
"""Levels of the syntax tree that are accepted; Python's own parser gives up at a similar depth."""

_WHEELS = {
    "C": ("tree_sitter_c", "language"),
    "C#": ("tree_sitter_c_sharp", "language"),
    "C++": ("tree_sitter_cpp", "language"),
    "Go": ("tree_sitter_go", "language"),
    "Java": ("tree_sitter_java", "language"),
    "JavaScript": ("tree_sitter_javascript", "language"),
    "Python": ("tree_sitter_python", "language"),
    "Ruby": ("tree_sitter_ruby", "language"),
}


class SourceError(AssayError):
    """The text is not a program that can be taken apart; the message says where and why, in one line."""


@functools.cache
def grammar(language: str) -> Language:
    """The tree-sitter language of a programming language.

    Raises:
        AssayError: the language is not known, or the wheel with its grammar is not installed.
    """
    if language not in _WHEELS:
        raise AssayError(f"{language}: no grammar for this language; known are {', '.join(_WHEELS)}")
    module, function = _WHEELS[language]
    try:
        made = getattr(importlib.import_module(module), function)()
    except ImportError:
        wheel = module.replace("_", "-")
        raise AssayError(f"{language}: its grammar is not installed; run: pip install {wheel}") from None
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


def parse(data: bytes, language: str) -> Tree:
    """The syntax tree of source bytes; a parser recovers from errors, so any bytes have a tree.

    Raises:
        AssayError: the language has no installed grammar.
    """
    # A parser holds state and is cheap to make, so that each call has its own and threads are safe.
    return Parser(grammar(language)).parse(data)


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


def tree_depth(tree: Tree) -> int:
    """Nodes on the longest path from the root to a leaf, both included."""
    cursor = tree.walk()
    level = deepest = 1
    while True:
        if cursor.goto_first_child():
            level += 1
            deepest = max(deepest, level)
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return deepest
            level -= 1


def depth(code: str, language: str = "Python") -> int:
    """Depth of a program's syntax tree: nodes on the longest path from the root to a leaf.

    Tokens such as operators and brackets count as nodes. A text that is no program has a depth too,
    that of the tree which the parser recovered.

    Raises:
        SourceError: the text is too large, or holds a NUL or a lone surrogate.
        AssayError: the language has no installed grammar.
    """
    return tree_depth(parse(encode_source(code), language))
