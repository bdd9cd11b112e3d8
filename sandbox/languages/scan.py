"""Tokens of C, C++ and Rust source, as far as a planner must read it: names, brackets, nothing of meaning.

In: source text, which may be hostile or no program at all. Out: tokens in order, without comments, spaces
and preprocessor lines; literals are told from names. Wrong: nothing is raised; whatever is no token of the
language comes out as single characters. Time is linear in the text, some 2 s a MiB.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

# Characters of a source that are read; what is declared beyond them is not found.
MAX_SOURCE = 1 << 20
NAME, LITERAL, MARK = "name", "literal", "mark"
OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")

# Each unfinished comment or literal goes on to the end of the text or the line: nothing is read twice.
_C = re.compile(
    r"""(?P<skip> \s+ | //(?:[^\n\\]|\\.)* | /\*.*?(?:\*/|\Z)
        | \#(?:[^\n\\/]|\\.|/\*.*?(?:\*/|\Z)|/)* )
      | (?P<literal> (?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)
        | (?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"? | (?:u8|[uUL])?'(?:[^'\\\n]|\\.)*'?
        | \.?[0-9](?:[eEpP][+-]|'?[\w.])* )
      | (?P<name> [^\W\d]\w* )
      | (?P<mark_> :: | -> | \.\.\. | . )""",
    re.DOTALL | re.VERBOSE,
)
_RUST = re.compile(
    r"""(?P<skip> \s+ | //[^\n]* )
      | (?P<open> /\* )
      | (?P<literal> [bc]?r(?P<mark>\#{0,16})".*?(?:"(?P=mark)|\Z) | [bc]?"(?:[^"\\]|\\.)*"?
        | b?'(?:[^'\\\n]|\\[^\n]+?)' | '[^\W\d]\w* | [0-9](?:[eE][+-]|\.(?=[0-9])|\w)* )
      | (?P<name> (?:r\#)?[^\W\d]\w* )
      | (?P<mark_> :: | -> | => | . )""",
    re.DOTALL | re.VERBOSE,
)
_COMMENT = re.compile(r"/\*|\*/")


class Token(NamedTuple):
    """One token: what it is, its text, and where it starts and ends in the source."""

    kind: str
    text: str
    start: int
    end: int


def c_tokens(source: str) -> list[Token]:
    """Return the tokens of C or C++ source. Lines inside `#if 0` count like any other."""
    return [Token(*_token(match)) for match in _C.finditer(source[:MAX_SOURCE]) if match["skip"] is None]


def c_directives_first(source: str) -> list[str]:
    """Return the preprocessor lines that come before the first token of C or C++ source."""
    lines = []
    for match in _C.finditer(source):
        if match["skip"] is None:
            break
        if match[0].startswith("#"):
            lines.append(match[0])
    return lines


def rust_tokens(source: str) -> list[Token]:
    """Return the tokens of Rust source; a lifetime counts as a literal."""
    source = source[:MAX_SOURCE]
    tokens = []
    at = 0
    while (match := _RUST.match(source, at)) is not None:
        at = match.end()
        if match["open"]:
            at = _past_comment(source, at)
        elif not match["skip"]:
            tokens.append(Token(*_token(match)))
    return tokens


def _token(match: re.Match[str]) -> tuple[str, str, int, int]:
    kind = NAME if match["name"] else LITERAL if match["literal"] else MARK
    return kind, match[0], match.start(), match.end()


def _past_comment(source: str, at: int) -> int:
    """The end of a block comment, which Rust lets nest, whose first two characters end at `at`."""
    depth = 1
    for match in _COMMENT.finditer(source, at):
        depth += 1 if match[0] == "/*" else -1
        if not depth:
            return match.end()
    return len(source)


def brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """Return, for each opening bracket that has one, the index of the token that closes it."""
    pairs: dict[int, int] = {}
    waiting: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind == MARK and token.text in OPENING:
            waiting.append(index)
        elif token.kind == MARK and token.text in CLOSING and waiting:
            pairs[waiting.pop()] = index
    return pairs
