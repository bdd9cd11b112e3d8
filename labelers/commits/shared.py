"""What both versions of a text say of the definitions that differ: signatures, doc comments, callers.

In: two versions, whole files or excerpts. Out: `Shared`s, only of what stands in both versions word for word,
and the same with the versions exchanged. Time is linear in the texts.
Wrong: nothing. A text that cannot be read, is too large, or is in a language without grammar has none.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter

from decompose.definitions import Item, definitions
from schemas.errors import AssayError

MOST_CODE = 100_000
"""Characters of a version up to which its definitions are looked for."""
MOST_PARTS = 3
MOST_CALLERS = 3
_MOST_ITEMS = 2000
_MOST_DOC = 240

_STRING = re.compile(r"""[rRuU]?(\"\"\"|'''|"|')(.*?)(?<!\\)\1""", re.DOTALL)
_BLOCK = re.compile(r"/\*.*?\*/", re.DOTALL)
_LINE = re.compile(r"[ \t]*(?://|#(?!\[)|--)")
_MARKS = re.compile(r"^[ \t]*(?:/\*+!?|\*+/|\*(?=\s|$)|///?!?|//!|#+!?|--)[ \t]?|\*/[ \t]*$", re.MULTILINE)
_TAG = re.compile(r"^\s*(?:@\w+|:\w+|Args:|Returns:|Raises:|Parameters|</?summary>)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Shared:
    """A definition that both versions have and that they write differently.

    Attributes:
        name: qualified name.
        signature: how it begins, on one line; empty where that differs.
        doc: first paragraph of its doc comment, on one line; empty where there is none or it differs.
        callers: names of other definitions that call it in both versions.
    """

    name: str
    signature: str
    doc: str
    callers: tuple[str, ...]


def shared_parts(old: str, new: str, language: str) -> list[Shared]:
    """The definitions that differ and that both versions have, at most `MOST_PARTS`, innermost ones alone.

    They come in the order of the sum of their places, which no version is ahead in.
    """
    first, second = _Version(old, language), _Version(new, language)
    both = [name for name in first.items if name in second.items]
    differing = [name for name in both if first.text(name) != second.text(name)]
    around = {outer for name in differing for outer in _outer(name, set(differing))}
    wanted = sorted(
        (name for name in differing if name not in around),
        key=lambda name: (first.place[name] + second.place[name], name),
    )
    found = []
    for name in wanted[:MOST_PARTS]:
        doc = first.doc(name)
        callers = first.callers(name) & second.callers(name)
        found.append(
            Shared(
                name,
                first.signature(name) if first.head(name) == second.head(name) else "",
                doc if doc == second.doc(name) else "",
                tuple(sorted(callers)[:MOST_CALLERS]),
            )
        )
    return found


def _outer(name: str, names: set[str]) -> list[str]:
    """Names of the definitions around one, as far as they are among these."""
    ends = [match.start() for match in re.finditer(r"\.|::|#", name)]
    return [name[:end] for end in ends if name[:end] in names]


class _Version:
    def __init__(self, code: str, language: str) -> None:
        self.data = b""
        items: list[Item] = []
        if len(code) <= MOST_CODE:
            try:
                items = definitions(code, language)[:_MOST_ITEMS]
                self.data = code.encode()
            except AssayError:
                items = []
        often = Counter(item.name for item in items)
        # Of overloads nobody can tell which is which in the other version.
        self.items = {item.name: item for item in items if often[item.name] == 1 and "<" not in item.name}
        self.place = {name: at for at, name in enumerate(self.items)}
        self.functions = [item for item in self.items.values() if item.is_function]

    def _between(self, start: int, end: int) -> str:
        return self.data[start:end].decode("utf-8", "replace")

    def text(self, name: str) -> str:
        """A definition with all that belongs to it."""
        item = self.items[name]
        return self._between(item.start_byte, item.end_byte)

    def head(self, name: str) -> str:
        """A definition up to its body, as written; empty where it has none."""
        item = self.items[name]
        return "" if item.body_byte is None else self._between(item.head_byte, item.body_byte)

    def signature(self, name: str) -> str:
        """A definition up to its body, on one line, without comments and what opens the body."""
        lines = self.head(name).split("\n")
        kept = [line for line in lines if not line.lstrip().startswith(("#", "//", "/*", "*"))]
        return " ".join(" ".join(kept).split()).rstrip("{:= ").strip()

    def doc(self, name: str) -> str:
        """First paragraph of a definition's doc comment, on one line."""
        item = self.items[name]
        above = self._between(item.start_byte, min(item.head_byte, item.start_byte + 20 * _MOST_DOC))
        if blocks := _BLOCK.findall(above):
            comment = blocks[-1]
        else:
            comment = "\n".join(line for line in above.split("\n") if _LINE.match(line))
        text = _MARKS.sub("", comment).strip()
        if item.body_byte is not None and item.body_end is not None:
            inside = self._between(item.body_byte, min(item.body_end, item.body_byte + 20 * _MOST_DOC))
            if found := _STRING.match(inside):
                text = found[2].strip()
        if tag := _TAG.search(text):
            text = text[: tag.start()]
        paragraph = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
        doc = " ".join(paragraph.split())
        return doc if len(doc) <= _MOST_DOC else ""

    def callers(self, name: str) -> set[str]:
        """Last names of the functions that call a definition."""
        last = _last(name)
        if not last.isidentifier():
            return set()
        call = re.compile(rb"(?<![\w$])" + last.encode() + rb"\s{0,4}\(")
        found: set[str] = set()
        at = 0
        for item in self.functions:
            # Items come in order of position: what is inside of another one is looked at with that.
            if item.start_byte < at:
                continue
            at = item.end_byte
            caller = _last(item.name)
            if caller != last and call.search(self.data, item.start_byte, item.end_byte):
                found.add(caller)
        return found


def _last(name: str) -> str:
    return re.split(r"\.|::|#", name)[-1]
