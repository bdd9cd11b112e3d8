"""What values a parameter takes: learned from values that were seen, or read from what is declared.

In: values of the sandbox's types, or the text of a signature. Out: `Shape`s, which `inputs` draws values
from. Values that were seen tell more than a type: that numbers are never negative, lists never empty or
always sorted, and which characters a text is made of. A few values prove little, so that each of these
needs a number of them. Wrong: nothing is raised; what is not understood has no shape (None).
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from sandbox import encode

# Values that must have been seen before what none of them is counts as never meant.
_SOME = 3
_ENOUGH = 4
# A class of characters of which so many were seen may be drawn from as a whole.
_LETTERS, _DIGITS = 6, 5
_MAX_LEVELS = 6
_MAX_VALUES = 400
_LOWER, _UPPER, _DECIMAL = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"

KINDS = ("none", "bool", "int", "float", "str", "bytes", "list", "tuple", "pair", "set", "frozenset", "dict")
"""Kinds of values that can be drawn; `pair` is a tuple with a shape for each of its places."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """Values of one kind.

    Attributes:
        kind: one of `KINDS`, or `union` of `parts`.
        parts: shapes of the items; of a dict, of keys and values.
        low: least number, or least length.
        high: largest number (or length) that was seen or that the type can hold; None when not known.
        letters: the characters of a text, in order; empty for any.
        bounded: `high` may not be passed.
        ordered: items are in ascending order.
        distinct: no item comes twice.
    """

    kind: str
    parts: tuple[Shape, ...] = ()
    low: int | None = None
    high: int | None = None
    letters: str = ""
    bounded: bool = False
    ordered: bool = False
    distinct: bool = False


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of a function; `keyword` if it cannot be given by position."""

    name: str
    shape: Shape | None
    required: bool = True
    keyword: bool = False


def kind_of(value: Any) -> str:
    """The kind of a value, or the empty text where such values are not drawn."""
    name = "none" if value is None else type(value).__name__
    return name if name in KINDS and name != "pair" else ""


def of_values(values: Sequence[Any], level: int = 0) -> Shape | None:
    """The shape of values that were seen; None where one of them cannot be drawn."""
    groups: dict[str, list[Any]] = {}
    for value in values[:_MAX_VALUES]:
        groups.setdefault(kind_of(value), []).append(value)
    if not groups or "" in groups or level > _MAX_LEVELS:
        return None
    found = [_of_kind(kind, groups[kind], level) for kind in KINDS if kind in groups]
    known = [one for one in found if one is not None]
    if not known:
        return None
    return known[0] if len(known) == 1 else Shape("union", tuple(known))


def _of_kind(kind: str, values: list[Any], level: int) -> Shape | None:
    if kind in ("none", "bool"):
        return Shape(kind)
    if kind in ("int", "float"):
        # What is no number is above nothing; large ones are no use as bounds.
        finite = [value for value in values if abs(value) < 1e15]
        if not finite:
            return Shape(kind)
        return Shape(kind, low=_least(min(finite), len(set(finite))), high=int(max(finite)))
    sizes = [len(value) for value in values]
    low, high = int(len(values) >= _ENOUGH and min(sizes) > 0), max(sizes)
    if kind == "bytes":
        return Shape(kind, low=low, high=high)
    if kind == "str":
        return Shape(kind, low=low, high=high, letters=_letters("".join(values)))
    if kind == "dict":
        keys = of_values([key for value in values for key in value], level + 1)
        items = of_values([item for value in values for item in value.values()], level + 1)
        parts = (keys, items) if keys is not None and items is not None else ()
        return Shape(kind, parts, low, high) if parts or not high else None
    if kind == "tuple" and len(set(sizes)) == 1 and high:
        places = [of_values([value[index] for value in values], level + 1) for index in range(high)]
        if all(place is not None for place in places):
            return Shape("pair", tuple(place for place in places if place is not None))
        return None
    item = of_values([item for value in values for item in _listed(value)], level + 1)
    if item is None and high:
        return None
    longer = [list(value) for value in values if len(value) > 1] if kind in ("list", "tuple") else []
    several = len(longer) >= _SOME
    return Shape(
        kind,
        () if item is None else (item,),
        low,
        high,
        ordered=several and all(_is_ordered(value) for value in longer),
        distinct=several and all(len({encode(one) for one in value}) == len(value) for value in longer),
    )


def _listed(value: Any) -> list[Any]:
    """Items in an order that does not depend on hashes."""
    return sorted(value, key=encode) if isinstance(value, set | frozenset) else list(value)


def _is_ordered(value: list[Any]) -> bool:
    try:
        return all(not second < first for first, second in itertools.pairwise(value))
    except TypeError:
        return False


def _least(least: float, distinct: int) -> int | None:
    """The least number that is drawn, given the least that was seen among so many."""
    if distinct < _SOME or least < 0:
        return None if least < 0 or distinct < 2 else 0
    return 1 if least >= 1 and distinct >= _ENOUGH else 0


def _letters(seen: str) -> str:
    """Characters to draw from: those seen, and their whole class where many of it were."""
    letters = set(seen)
    for whole, enough in ((_LOWER, _LETTERS), (_UPPER, _LETTERS), (_DECIMAL, _DIGITS)):
        if len(letters & set(whole)) >= enough:
            letters |= set(whole)
    return "".join(sorted(letters))


def union(shapes: Iterable[Shape | None]) -> Shape | None:
    """Values of any of these shapes; those that are not known are left out."""
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return None
    return known[0] if len(known) == 1 else Shape("union", tuple(known))


_PLAIN = {
    "int": Shape("int"),
    "float": Shape("float"),
    "str": Shape("str"),
    "bool": Shape("bool"),
    "bytes": Shape("bytes"),
    "None": Shape("none"),
}
_SEQUENCES = {
    **dict.fromkeys(("list", "List", "Sequence", "Iterable", "Collection", "MutableSequence"), "list"),
    **dict.fromkeys(("set", "Set", "AbstractSet", "MutableSet"), "set"),
    **dict.fromkeys(("frozenset", "FrozenSet"), "frozenset"),
    **dict.fromkeys(("dict", "Dict", "Mapping", "MutableMapping"), "dict"),
    **dict.fromkeys(("tuple", "Tuple"), "tuple"),
}
_INT = Shape("int")


def of_annotation(node: ast.expr | None, level: int = 0) -> Shape | None:
    """The shape of a Python annotation."""
    if node is None or level > _MAX_LEVELS:
        return None
    if isinstance(node, ast.Constant):
        if node.value is None:
            return _PLAIN["None"]
        if not isinstance(node.value, str):
            return None
        try:
            return of_annotation(ast.parse(node.value[:500], mode="eval").body, level + 1)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return union((of_annotation(node.left, level + 1), of_annotation(node.right, level + 1)))
    if isinstance(node, ast.Subscript):
        return _of_subscript(_last_name(node.value), node.slice, level)
    name = _last_name(node)
    if name in _PLAIN:
        return _PLAIN[name]
    if name in _SEQUENCES:
        # A bare `list` is one of numbers as likely as of anything.
        kind = _SEQUENCES[name]
        return Shape(kind, (Shape("str"), _INT) if kind == "dict" else (_INT,))
    return None


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _of_subscript(name: str, inside: ast.expr, level: int) -> Shape | None:
    given = list(inside.elts) if isinstance(inside, ast.Tuple) else [inside]
    if name == "Literal":
        return union(
            of_values([one.value]) for one in given if isinstance(one, ast.Constant) and kind_of(one.value)
        )
    if name in ("Optional", "Union", "Annotated"):
        shapes = [of_annotation(one, level + 1) for one in (given[:1] if name == "Annotated" else given)]
        return union([*shapes, _PLAIN["None"]] if name == "Optional" else shapes)
    kind = _SEQUENCES.get(name)
    if kind is None:
        return None
    ended = kind == "tuple" and isinstance(given[-1], ast.Constant) and given[-1].value is ...
    parts = [of_annotation(one, level + 1) for one in (given[:-1] if ended else given)]
    known = tuple(part for part in parts if part is not None)
    if len(known) != len(parts) or (kind == "dict" and len(known) != 2):
        return None
    if kind == "tuple":
        return Shape("tuple" if ended else "pair", known)
    return Shape(kind, known)


def python_parameters(signature: str) -> list[Parameter]:
    """The parameters of a Python function, `self` and the starred ones left out."""
    try:
        tree = ast.parse(f"{signature.strip().rstrip(':')}: pass\n")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    head = tree.body[0] if tree.body else None
    if not isinstance(head, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    given = [*head.args.posonlyargs, *head.args.args]
    optional = len(head.args.defaults)
    found = [
        Parameter(one.arg, of_annotation(one.annotation), index < len(given) - optional)
        for index, one in enumerate(given)
    ]
    for one, default in zip(head.args.kwonlyargs, head.args.kw_defaults, strict=True):
        found.append(Parameter(one.arg, of_annotation(one.annotation), default is None, keyword=True))
    return found[1:] if found and found[0].name in ("self", "cls") else found
