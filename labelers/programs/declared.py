"""What a function's text says of its arguments: declared parameters, and literals that it compares with.

In: a program and one of its functions. Out: `Parameter`s and `Literals`. Of languages other than Python the
declared types are read from the text of the signature, without a compiler: numbers, text, lists, sets, maps,
tuples and what may be missing; anything else has no shape. Lengths that C wants after an array are left out,
since the sandbox gives them. Wrong: nothing is raised; what is not understood is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from decompose.grammars import SourceError
from decompose.python import parse_python
from labelers.programs.inputs import Literals
from labelers.programs.shapes import Parameter, Shape, python_parameters, union

_MAX_LITERALS = 60
_MAX_TEXT = 40
_MAX_SIGNATURE = 4000
_MAX_LEVELS = 6
_NAME = r"[^\W\d][\w$]*|\$\w+"
_TOKEN = re.compile(rf"(?:{_NAME})(?:(?:::|\.)(?:{_NAME}))*|\.\.\.|[0-9]+|[<>\[\](){{}},*&?|:;=]")
_TYPE_FIRST = frozenset({"Java", "C", "C++", "C#"})
_NAME_FIRST = frozenset({"TypeScript", "Rust"})

_INT, _FLOAT, _STR, _NONE = Shape("int"), Shape("float"), Shape("str"), Shape("none")
_CHARACTER = Shape("str", low=1, high=1, bounded=True)
# What numbers a type can hold is told where it is little; draws stay far below the bounds of others.
_NAMES: tuple[tuple[Shape, str], ...] = (
    (_INT, "int Integer i32 i64 i128 isize int32 int64 Int32 Int64 long Long BigInteger bigint number"),
    (_INT, "int32_t int64_t ssize_t signed"),
    (Shape("int", high=30_000, bounded=True), "short Short i16 int16 Int16 int16_t"),
    (Shape("int", high=127, bounded=True), "i8 int8 sbyte int8_t Byte"),
    (Shape("int", low=0, high=255, bounded=True), "u8 uint8 uint8_t"),
    (Shape("int", low=0), "u16 u32 u64 u128 usize uint uint16 uint32 uint64 ulong ushort uint16_t uint32_t"),
    (Shape("int", low=0), "uint64_t size_t unsigned UInt32 UInt64"),
    (_FLOAT, "float double f32 f64 Float Double float32 float64 decimal"),
    (Shape("bool"), "bool boolean Boolean _Bool"),
    (_STR, "string String str string_view CharSequence"),
    (_CHARACTER, "char Character"),
    (_NONE, "null undefined None"),
)
_SCALARS = {name: shape for shape, names in _NAMES for name in names.split()}
_HOLDERS = (
    ("list", "vector List ArrayList LinkedList Vec array Array deque Deque Queue VecDeque Collection list"),
    ("list", "Iterable IList IEnumerable ICollection IReadOnlyList ReadonlyArray span"),
    ("set", "set unordered_set HashSet Set TreeSet BTreeSet LinkedHashSet ISet"),
    ("dict", "map unordered_map HashMap Map TreeMap Dictionary BTreeMap IDictionary Record LinkedHashMap"),
    ("pair", "pair tuple Tuple ValueTuple"),
    ("optional", "Option optional Optional Nullable"),
)
_CONTAINERS = {name: kind for kind, names in _HOLDERS for name in names.split()}
_WORDS = frozenset(
    ("final", "const", "volatile", "mut", "readonly", "struct", "in", "register", "restrict", "static")
)
# Parameters that are changed in place for the caller, or take what cannot be drawn.
_REFUSED = frozenset(("out", "ref", "params", "dyn", "impl"))


def parameters_of(signature: str, language: str, name: str) -> list[Parameter] | None:
    """The parameters that a signature declares; None where they cannot be told.

    Args:
        name: qualified name of the function.
    """
    if language == "Python":
        return python_parameters(signature)
    tokens = _TOKEN.findall(re.sub(r"[-=]>", " ", signature[:_MAX_SIGNATURE]))
    own = re.split(r"\.|::", name)[-1]
    starts = [at for at, one in enumerate(tokens) if one == "(" and _last(tokens[at - 1 : at]) == own]
    if not starts:
        starts = [at for at, one in enumerate(tokens) if one == "("]
    if not starts:
        return None
    parts = _parts(tokens, starts[0], ")")
    if language == "Go":
        return _go(parts)
    found = []
    for part in parts:
        given = part[: part.index("=")] if "=" in part else part
        required = len(given) == len(part)
        if not given or given == ["void"] or "self" in given:
            continue
        if "..." in given:
            return None
        if language in _TYPE_FIRST:
            found.append(_type_first(given, required, language))
        elif language in _NAME_FIRST and ":" in given:
            at = given.index(":")
            shape = _shape(given[at + 1 :], language)
            found.append(Parameter(given[0], shape, required and given[at - 1] != "?"))
        elif language == "PHP":
            found.append(Parameter(given[-1], _shape(given[:-1], language) if given[:-1] else None, required))
        elif language == "Ruby":
            if given[0] in ("*", "&"):
                continue
            found.append(Parameter(given[0], None, required, keyword=":" in given))
        else:
            found.append(Parameter(given[0], None, required))
    return _without_lengths(found, parts) if language == "C" else found


def _last(tokens: Sequence[str]) -> str:
    return re.split(r"\.|::", tokens[-1])[-1] if tokens else ""


_OPEN = {"(": ")", "[": "]", "{": "}", "<": ">"}


def _parts(tokens: Sequence[str], start: int, end: str) -> list[list[str]]:
    """What stands between the brackets that open at `start`, cut at the commas outside of others."""
    parts: list[list[str]] = [[]]
    depth = 0
    for one in tokens[start + 1 :]:
        if depth == 0 and one == end:
            break
        depth += (one in _OPEN) - (one in _OPEN.values())
        if depth == 0 and one == ",":
            parts.append([])
        else:
            parts[-1].append(one)
    return [part for part in parts if part]


def _go(parts: Sequence[list[str]]) -> list[Parameter] | None:
    """`a, b int, xs []string`: a type is that of the names before it, too."""
    found: list[Parameter] = []
    shape: Shape | None = None
    for part in reversed(parts):
        if "..." in part:
            return None
        if len(part) > 1:
            shape = _shape(part[1:], "Go")
        elif not found:
            return None
        found.append(Parameter(part[0], shape))
    return found[::-1]


def _type_first(part: list[str], required: bool, language: str) -> Parameter:
    """`final List<Integer> xs` or `int a[]`."""
    names = [at for at, one in enumerate(part) if re.fullmatch(_NAME, one)]
    if len(names) < 2 or "(" in part:
        return Parameter(part[-1], None, required)
    at = names[-1]
    arrays = part[at + 1 :].count("[")
    shape = _shape(part[:at], language)
    for _ in range(min(arrays, _MAX_LEVELS)):
        shape = None if shape is None else _listed(shape, language)
    return Parameter(part[at], shape, required)


def _listed(item: Shape, language: str) -> Shape:
    text = item == _CHARACTER and language in ("C", "C++")
    return _STR if text else Shape("list", (item,))


def _without_lengths(found: list[Parameter], parts: Sequence[list[str]]) -> list[Parameter]:
    """C's lengths of arrays are left out."""
    kept: list[Parameter] = []
    after_array = False
    for one, _ in zip(found, parts, strict=False):
        length = after_array and one.shape is not None and one.shape.kind == "int"
        if not length:
            kept.append(one)
        after_array = one.shape is not None and one.shape.kind == "list"
    return kept


def _shape(tokens: Sequence[str], language: str, level: int = 0) -> Shape | None:
    """The shape of a type."""
    words = [one for one in tokens if one not in _WORDS]
    if not words or level > _MAX_LEVELS or any(one in _REFUSED for one in words):
        return None
    if language == "TypeScript" and words[-2:] == ["[", "]"]:
        item = _shape(words[:-2], language, level + 1)
        return None if item is None else Shape("list", (item,))
    if words[0] == "?":
        return union((_shape(words[1:], language, level + 1), _NONE))
    if words[0] == "&":
        return _shape(words[1:], language, level + 1)
    if words[0] == "(" or (words[0] == "[" and language == "TypeScript"):
        places = [_shape(part, language, level + 1) for part in _parts(words, 0, _OPEN[words[0]])]
        known = tuple(place for place in places if place is not None)
        return Shape("pair", known) if known and len(known) == len(places) else None
    if words[0] == "[":
        # Go's []T and [3]T, Rust's [T] and [T; 3].
        inside = _parts(words, 0, "]")
        rest = words[2 + sum(map(len, inside)) + max(0, len(inside) - 1) :]
        if rest:
            item = _shape(rest, language, level + 1)
        else:
            one = inside[0] if inside else []
            item = _shape(one[: one.index(";")] if ";" in one else one, language, level + 1)
        return None if item is None else Shape("list", (item,))
    if "|" in words and "<" not in words[: words.index("|")]:
        at = words.index("|")
        return union((_shape(words[:at], language, level + 1), _shape(words[at + 1 :], language, level + 1)))
    last = words[-1]
    if last == "&":
        return _shape(words[:-1], language, level + 1)
    if last == "?":
        return union((_shape(words[:-1], language, level + 1), _NONE))
    if last == "*" or words[-2:] == ["[", "]"]:
        item = _shape(words[: -1 if last == "*" else -2], language, level + 1)
        if item is None or (last == "*" and language != "C" and item != _CHARACTER):
            return None
        return _listed(item, language)
    return _named(words, language, level)


def _named(words: Sequence[str], language: str, level: int) -> Shape | None:
    """The shape of a type that begins with its name."""
    name = _last(words[:1])
    if name == "map" and language == "Go" and words[1:2] == ["["]:
        key = _parts(words, 1, "]")
        value = _shape(words[3 + sum(map(len, key)) :], language, level + 1)
        known = _shape(key[0], language, level + 1) if key else None
        return Shape("dict", (known, value)) if known is not None and value is not None else None
    if name == "byte":
        return Shape("int", low=0 if language != "Java" else None, high=127, bounded=True)
    if words[1:2] == ["<"]:
        given = [_shape(part, language, level + 1) for part in _parts(words, 1, ">")]
        shapes = [one for one in given if one is not None]
        if name in ("Box", "Rc", "Arc"):
            return given[0] if given else None
        kind = _CONTAINERS.get(name)
        # C++'s array<int, 3> has a number among its types.
        if kind is None or not shapes or (len(shapes) < len(given) and name != "array"):
            return None
        if kind == "optional":
            return union((shapes[0], _NONE))
        if kind == "dict":
            return Shape("dict", (shapes[0], shapes[1])) if len(shapes) == 2 else None
        return Shape(kind, tuple(shapes) if kind == "pair" else (shapes[0],))
    if "unsigned" in words:
        return _SCALARS["unsigned"]
    if len(words) > 1 and all(one in ("long", "int", "short", "signed", "double", "char") for one in words):
        return _SCALARS[words[-1]] if words[-1] == "double" else _INT
    return _SCALARS.get(name) if len(words) == 1 else None


def literals_of(program: Mapping[str, Any], span: Mapping[str, Any]) -> Literals:
    """Numbers and texts in a function and, in Python, in the constants of its module."""
    if program["language"] != "Python":
        data = program["code"].encode()[span["start_byte"] : span["end_byte"]]
        return _written(data.decode("utf-8", "replace"))
    try:
        tree = parse_python(program["code"].removeprefix("\ufeff"))
    except SourceError:
        return Literals()
    name = span["name"].rpartition(".")[2]
    numbers: dict[float, None] = {}
    texts: dict[str, None] = {}
    for top in tree.body:
        for node in ast.walk(top) if isinstance(top, ast.Assign | ast.AnnAssign) else ():
            _take(node, numbers, texts)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            documented = ast.get_docstring(node, clean=False)
            for inner in ast.walk(node):
                if not (isinstance(inner, ast.Constant) and inner.value == documented):
                    _take(inner, numbers, texts)
    return Literals(tuple(numbers)[:_MAX_LITERALS], tuple(texts)[:_MAX_LITERALS])


def _take(node: ast.AST, numbers: dict[float, None], texts: dict[str, None]) -> None:
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if type(value) in (int, float) and isinstance(value, int | float) and abs(value) < 1e9:
        numbers[value] = None
    elif isinstance(value, str) and len(value) <= _MAX_TEXT:
        texts[value] = None


_NUMBER = re.compile(r"(?<![\w.])[0-9]{1,9}(?:\.[0-9]{1,9})?(?![\w.])")
_QUOTED = re.compile(r"\"([^\"\\\n]{0,40})\"|'([^'\\\n]{0,40})'")


def _written(text: str) -> Literals:
    numbers = {float(one) if "." in one else int(one): None for one in _NUMBER.findall(text)}
    texts = {first or second: None for first, second in _QUOTED.findall(text)}
    return Literals(tuple(numbers)[:_MAX_LITERALS], tuple(texts)[:_MAX_LITERALS])
