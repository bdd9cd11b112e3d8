"""SPDX licence expressions: read, written in one way, and asked what they allow.

In: text such as `mit or (GPL-2.0+ AND ISC)`. Out: the same expression with the current spelling of
every id, sides in order and no needless parentheses: `(GPL-2.0-or-later AND ISC) OR MIT`.
Ids are those of the SPDX license list that `spdx.txt` holds; deprecated ones become current ones, so
that `GPL-2.0` is written `GPL-2.0-only`. Nothing here raises: text that is no expression, or names an
unknown id, gives None.
Grammar: SPDX specification 2.3, annex D; `/` counts as OR, as old Cargo manifests have it.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib import resources
from typing import Literal

from miner.wordlist import words

MAX_CHARS = 1000
"""A longer expression is not read."""

_MAX_DEPTH = 20
_TOKEN = re.compile(r"\s*([()/]|[A-Za-z0-9.:-]+\+?)")
_CUSTOM = re.compile(r"(?:DocumentRef-[A-Za-z0-9.-]+:)?LicenseRef-[A-Za-z0-9.-]+")

PERMISSIVE = words(
    """
    0BSD AFL-3.0 Apache-1.1 Apache-2.0 Artistic-2.0 BlueOak-1.0.0 BSD-1-Clause BSD-2-Clause
    BSD-2-Clause-Patent BSD-2-Clause-Views BSD-3-Clause BSD-3-Clause-Clear BSD-4-Clause BSD-4-Clause-UC
    BSD-Source-Code BSL-1.0 bzip2-1.0.6 CC0-1.0 CC-BY-3.0 CC-BY-4.0 curl ECL-2.0 FTL HPND ICU ISC JSON
    Libpng libpng-2.0 libtiff MIT MIT-0 MIT-CMU MIT-Modern-Variant MulanPSL-1.0 MulanPSL-2.0 NCSA NTP
    OpenSSL PHP-3.0 PHP-3.01 PostgreSQL PSF-2.0 Python-2.0 Python-2.0.1 Ruby SMLNJ TCL Unicode-3.0
    Unicode-DFS-2016 Unlicense UPL-1.0 W3C WTFPL X11 Xnet Zlib zlib-acknowledgement ZPL-2.0 ZPL-2.1
    """
)
"""Licences under which code may go into a work of any licence, when notices are kept. Copyleft of any
strength (MPL, EPL, LGPL, GPL, CDDL, EUPL, MS-PL, Vim), limits on use or trade (BUSL, SSPL, Elastic, CC-BY-NC)
and licences that are not for code (OFL) are not among them."""


@dataclasses.dataclass(frozen=True)
class _Group:
    operator: Literal["AND", "OR"]
    parts: tuple[_Node, ...]


_Node = str | _Group


class _BrokenError(Exception):
    """The text is no expression."""


@functools.cache
def _tables() -> tuple[dict[str, str], dict[str, str]]:
    """Current spelling by lower-case spelling: of licences, of exceptions."""
    licenses: dict[str, str] = {}
    exceptions: dict[str, str] = {}
    for line in (resources.files("miner") / "spdx.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("WITH "):
            exceptions[line[5:].lower()] = line[5:]
        elif line and not line.startswith("#"):
            name, _, current = line.partition(" = ")
            licenses[name.lower()] = current or name
    return licenses, exceptions


def _license(token: str) -> str:
    """Current spelling of one id, with its `+` when that says something."""
    licenses, _ = _tables()
    plain = token.removesuffix("+")
    name = licenses.get(plain.lower())
    if name is None:
        if _CUSTOM.fullmatch(token):
            return token
        raise _BrokenError
    if plain == token:
        return name
    if name.endswith("-or-later"):
        return name
    if name.endswith("-only"):
        return f"{name.removesuffix('-only')}-or-later"
    if " WITH " in name:
        raise _BrokenError
    return f"{name}+"


class _Parser:
    """Recursive descent over at most `MAX_CHARS` characters and `_MAX_DEPTH` parentheses."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _BrokenError
            self.tokens.append(match[1])
            at = match.end()
        self.at = self.depth = 0

    def next_is(self, *tokens: str) -> bool:
        """Take the next token when it is one of these."""
        if self.at < len(self.tokens) and self.tokens[self.at].upper() in tokens:
            self.at += 1
            return True
        return False

    def take(self) -> str:
        if self.at >= len(self.tokens):
            raise _BrokenError
        self.at += 1
        return self.tokens[self.at - 1]

    def either(self) -> _Node:
        parts = [self.both()]
        while self.next_is("OR", "/"):
            parts.append(self.both())
        return _group("OR", parts)

    def both(self) -> _Node:
        parts = [self.one()]
        while self.next_is("AND"):
            parts.append(self.one())
        return _group("AND", parts)

    def one(self) -> _Node:
        if self.next_is("("):
            self.depth += 1
            if self.depth > _MAX_DEPTH:
                raise _BrokenError
            inner = self.either()
            if not self.next_is(")"):
                raise _BrokenError
            self.depth -= 1
            return inner
        name = _license(self.take())
        if not self.next_is("WITH"):
            return name
        exception = _tables()[1].get(self.take().lower())
        if exception is None or " WITH " in name:
            raise _BrokenError
        return f"{name} WITH {exception}"


def _group(operator: Literal["AND", "OR"], parts: Iterable[_Node]) -> _Node:
    """The parts joined: nested groups of the same kind flat, without repeats, in order."""
    flat: set[_Node] = set()
    for part in parts:
        flat.update(part.parts if isinstance(part, _Group) and part.operator == operator else (part,))
    if len(flat) == 1:
        return flat.pop()
    return _Group(operator, tuple(sorted(flat, key=_written)))


def _written(node: _Node) -> str:
    if isinstance(node, str):
        return node
    parts = (f"({_written(part)})" if isinstance(part, _Group) else part for part in node.parts)
    return f" {node.operator} ".join(parts)


def _parse(text: str) -> _Node | None:
    if len(text) > MAX_CHARS:
        return None
    try:
        parser = _Parser(text)
        node = parser.either()
    except _BrokenError:
        return None
    return node if parser.at == len(parser.tokens) else None


def normalize(text: str) -> str | None:
    """An expression as it is written here, or None for text that is none or names an unknown id."""
    node = _parse(text)
    return None if node is None else _written(node)


def join(operator: Literal["AND", "OR"], expressions: Iterable[str]) -> str | None:
    """Expressions joined into one; None when there is none, or one of them is not an expression."""
    nodes = [_parse(one) for one in expressions]
    known = [node for node in nodes if node is not None]
    return _written(_group(operator, known)) if known and len(known) == len(nodes) else None


def _leaves(node: _Node) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    else:
        for part in node.parts:
            yield from _leaves(part)


def license_terms(expression: str) -> set[str]:
    """The licence ids of an expression, without `+` and exceptions; empty for text that is none."""
    node = _parse(expression)
    return set() if node is None else {_bare(leaf) for leaf in _leaves(node)}


def _bare(leaf: str) -> str:
    return leaf.partition(" WITH ")[0].removesuffix("+")


def _holds(node: _Node, test: Callable[[str], bool]) -> bool:
    if isinstance(node, str):
        return test(node)
    found = (_holds(part, test) for part in node.parts)
    return any(found) if node.operator == "OR" else all(found)


def allowed_by(expression: str | None, wanted: Collection[str]) -> bool:
    """Whether the terms can be met with the wanted licences alone: one side of an OR, all sides of an AND.

    Args:
        expression: what a file or repository is under; None, unknown, is never allowed.
        wanted: ids in any spelling. An id stands for itself with exceptions too, which only add
            permissions, and `X-or-later` allows what is under `X-only` as well as the reverse.
    """
    node = None if expression is None else _parse(expression)
    known = {_family(_bare(one)) for text in wanted if (one := normalize(text)) is not None}
    return node is not None and _holds(node, lambda leaf: _family(_bare(leaf)) in known)


def _family(name: str) -> str:
    return name.removesuffix("-only").removesuffix("-or-later")
