"""Which changed regions of an edit belong together: one group a purpose.

In: two versions of a file. Out: groups of the numbers of its changed regions, which hang together when

* they are in the same innermost definition, or a few lines apart;
* one adds or removes a name that the other's lines have too: a rename is one purpose wherever it reaches, and
  a definition or import is one with its uses;
* they are of one kind that has no names to tell: only comments, only blank lines, only literals;
* they make the same change, token for token, or nearly so.

A group of which nothing is code, or only imports, is joined to the nearest one. Every doubt joins: an edit
whose purposes are left together is only longer, while half of a change is no improvement.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from decompose.definitions import imports, last_row, text_of
from miner.uses import bound_names
from miner.versions import Side, Versions, mark

NEAR = 3
"""Lines between regions that are read as one."""

ALIKE = 0.5
"""Share of the tokens removed and added that two regions have in common when they make the same change."""
SMALL_CLASS = 150
"""Lines up to which a class is one thing: changes of two of its methods are one purpose."""
MOST_REGIONS = 200
"""Regions up to which an edit is looked at: each is compared with each."""
STEM = 5
"""Letters by which words are compared, so that `flashes` is `flashed`."""
_LONG = 200
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_COMMENTS = frozenset(("comment", "line_comment", "block_comment", "multiline_comment"))
_SUBWORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LISTED = re.compile(r"[,;](?=\s)|(?<=\s)[&+](?=\s)|\b(?:and|also|plus)\b", re.IGNORECASE)
_ASIDE = re.compile(r"\([^()]*\)|<[^<>]*>|`[^`]*`")
_BULLET = re.compile(r"^[^\S\n]*(?:[-*•]|\d{1,3}[.)])[^\S\n]+\S", re.MULTILINE)
_SAY_NOTHING = frozenset(
    (
        "add",
        "and",
        "the",
        "for",
        "from",
        "with",
        "use",
        "get",
        "set",
        "new",
        "not",
        "fix",
        "test",
        "tests",
        "this",
        "self",
    )
)
_NAME = re.compile(r"[A-Za-z_$][\w$]*\Z")


@dataclasses.dataclass(frozen=True)
class _Region:
    """What a changed region says.

    Attributes:
        removed, added: code tokens that only the old, or only the new lines have, by number.
        names: names in its lines, comments left out.
        changed: names among what was removed or added.
        places: innermost definitions that it touches, of both sides, and the small classes that these are in.
        defined: names that what it touches gives to the rest of the file.
        around: names in all of the definitions that it touches.
        told: texts whose words a message would use for it: tokens removed or added, and `places`.
        is_import: all its code is imports.
    """

    removed: Counter[str]
    added: Counter[str]
    names: frozenset[str]
    changed: frozenset[str]
    places: frozenset[str]
    defined: frozenset[str]
    around: frozenset[str]
    told: frozenset[str]
    is_import: bool

    @property
    def has_code(self) -> bool:
        """Whether its code differs: it is more than comments and white space."""
        return bool(self.removed or self.added)


@dataclasses.dataclass
class _Tokens:
    """Code tokens of one side of a region."""

    all: list[str] = dataclasses.field(default_factory=list)
    names: set[str] = dataclasses.field(default_factory=set)
    code_rows: set[int] = dataclasses.field(default_factory=set)


def _tokens(pair: Versions, side: int) -> list[_Tokens]:
    """The tokens of each region of a side, comments and docstrings left out."""
    version = (pair.old, pair.new)[side]
    regions = pair.regions(side)
    found = [_Tokens() for _ in regions]
    rows = bytearray(len(version.lines) + 1)
    owner = {}
    for number, (first, end) in enumerate(regions):
        mark(rows, first, end)
        owner.update(dict.fromkeys(range(first, end), number))
    total = list(itertools.accumulate(rows, initial=0))
    stack = [version.tree.root_node]
    while stack:
        node = stack.pop()
        first, final = node.start_point.row, min(last_row(node), len(rows) - 1)
        if first >= len(rows) or total[final + 1] == total[first] or node.type in _COMMENTS:
            continue
        if node.child_count and not node.type.endswith(("string_literal", "string")):
            if node.type == "expression_statement" and node.named_child_count == 1:
                only = node.named_children[0]
                if only.type == "string":
                    continue
            stack.extend(node.children)
            continue
        text = text_of(node, version.data, 4000)
        name = node.is_named and _NAME.match(text) is not None
        for row in range(first, final + 1) if final - first < _LONG else (first, final):
            if (region := owner.get(row)) is None:
                continue
            found[region].all.append(text if final == first else f"{row - first}:{text[:200]}")
            found[region].code_rows.add(row)
            if name:
                found[region].names.add(text)
    return found


def _regions(pair: Versions) -> list[_Region]:
    sides = [_tokens(pair, side) for side in (0, 1)]
    versions = (pair.old, pair.new)
    importing: tuple[set[int], set[int]] = (set(), set())
    for side, version in enumerate(versions):
        for node in imports(version.tree, pair.language):
            importing[side].update(range(node.start_point.row, last_row(node) + 1))
    found = []
    for number, (old, new) in enumerate(zip(*sides, strict=True)):
        before, after = Counter(old.all), Counter(new.all)
        removed, added = before - after, after - before
        names = old.names | new.names
        places: set[str] = set()
        defined: set[str] = set()
        around: set[str] = set()
        for side, version in enumerate(versions):
            first, end = pair.regions(side)[number]
            leaves = pair.touched[side][number]
            for leaf in leaves:
                holder = version.items[leaf.parent] if leaf.parent is not None else None
                places.add(leaf.name)
                if holder is not None and holder.end_line - holder.start_line < SMALL_CLASS:
                    places.add(holder.name)
                defined.update(_WORD.findall(leaf.name)[-1:])
                around.update(_words(version.lines[leaf.start_line - 1 : leaf.end_line]))
            if not leaves:
                around.update(_words(version.lines[max(0, first - NEAR) : end + NEAR]))
                bound = _defined_at(version, first, end)
                defined |= bound
                places |= bound
        found.append(
            _Region(
                removed=removed,
                added=added,
                names=frozenset(names),
                changed=frozenset(name for name in names if name in removed or name in added),
                places=frozenset(places),
                defined=frozenset(defined),
                around=frozenset(around),
                told=frozenset((*removed, *added, *places)),
                is_import=old.code_rows <= importing[0] and new.code_rows <= importing[1],
            )
        )
    return found


def _words(lines: Sequence[str]) -> list[str]:
    return _WORD.findall("".join(lines))


def _defined_at(version: Side, first: int, end: int) -> set[str]:
    """Names of the constants and the like that a region outside of definitions is in."""
    found: set[str] = set()
    node = version.tree.root_node
    while True:
        inside = [
            child
            for child in node.named_children
            if child.start_point.row < max(end, first + 1) and last_row(child) >= first
        ]
        for child in inside:
            found |= bound_names(child, version.data)
        if len(inside) != 1 or inside[0].start_point.row == last_row(inside[0]):
            return found
        node = inside[0]


def _same_change(one: _Region, other: _Region) -> bool:
    """Whether two regions remove and add about the same tokens."""
    mine = [*(("-", token) for token in one.removed), *(("+", token) for token in one.added)]
    theirs = [*(("-", token) for token in other.removed), *(("+", token) for token in other.added)]
    shared = len(set(mine) & set(theirs))
    return shared >= ALIKE * max(len(mine), len(theirs), 1)


def groups(pair: Versions) -> list[list[int]]:
    """Numbers of the changed regions that hang together, each list in order, by their first region."""
    return [group for group, _ in _grouped(pair)]


def told_groups(pair: Versions, message: str) -> list[list[int]]:
    """`groups`, where the message lists several things and has a word for each of the groups that is of no
    other; else all regions in one."""
    found = _grouped(pair)
    if len(found) < 2 or not lists_several(message):
        return [list(range(len(pair.changes)))]
    said = set(_parts([message]))
    for number, (_, words) in enumerate(found):
        others = set().union(*(other for place, (_, other) in enumerate(found) if place != number))
        if not said & (words - others):
            return [list(range(len(pair.changes)))]
    return [group for group, _ in found]


def lists_several(message: str) -> bool:
    """Whether a message seems to tell of several things: a list in its subject, or bullets below it."""
    subject, _, body = message.partition("\n")
    return bool(_LISTED.search(_ASIDE.sub("", subject))) or len(_BULLET.findall(body)) > 1


def _parts(texts: Iterable[str]) -> Iterator[str]:
    """Stems of the words of names and prose, `parse_HTTPHeaders` as parse, http and heade."""
    for text in texts:
        for word in _SUBWORD.findall(text):
            if len(word) > 2 and (lower := word.lower()) not in _SAY_NOTHING:
                yield lower[:STEM]


def _grouped(pair: Versions) -> list[tuple[list[int], set[str]]]:
    """Regions that hang together, with the words of their names."""
    count = len(pair.changes)
    if not 1 < count <= MOST_REGIONS:
        return [(list(range(count)), set())]
    regions = _regions(pair)
    parent = list(range(count))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    def join(one: int, other: int) -> None:
        low, high = sorted((root(one), root(other)))
        parent[high] = low

    for other in range(count):
        for one in range(other):
            if root(one) != root(other) and _together(pair, regions, one, other):
                join(one, other)
    # What says nothing by itself goes with what is next to it.
    for number in range(count):
        own = [one for one in range(count) if root(one) == root(number)]
        rest = [one for one in range(count) if root(one) != root(number)]
        if rest and not any(regions[one].has_code and not regions[one].is_import for one in own):
            join(number, min(rest, key=lambda one: min(_distance(pair, one, mine) for mine in own)))
    found: dict[int, list[int]] = {}
    for number in range(count):
        found.setdefault(root(number), []).append(number)
    return [
        (group, {word for one in group for word in _parts(regions[one].told)}) for group in found.values()
    ]


def _distance(pair: Versions, one: int, other: int) -> int:
    """Old lines between two regions."""
    first, last = sorted((pair.changes[one], pair.changes[other]), key=lambda change: change.old_first)
    return last.old_first - first.old_end


def _together(pair: Versions, regions: Sequence[_Region], one: int, other: int) -> bool:
    a, b = regions[one], regions[other]
    if a.places & b.places or _distance(pair, one, other) <= NEAR:
        return True
    if a.changed & b.names or b.changed & a.names or a.defined & b.around or b.defined & a.around:
        return True
    return _same_change(a, b) or _kindred(a.changed, b.changed)


def _kindred(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether names of two regions share two words, as `EXPORT_BEGIN_API` and `EXPORT_END_API`."""
    mine, theirs = ([set(_parts([name])) for name in names] for names in (one, other))
    return any(len(a & b) > 1 for a in mine for b in theirs)
