"""Where a source in C or C++ declares a function, and how; no compiler is asked.

In: source text, hostile or not, and a function's name. Out for C: its parameters as text, which a driver
declares anew; for C++: how to name the function, and whether its types must be chosen by the values.
Wrong: `CannotCall` says why there is nothing to call. Whatever else is wrong is for the compiler to say.

The grammar of C that is read: `name ( parameters )` with a name, `*`, `)` or `}` before it and `{` after
it, or, where no definition is there, `;` outside all braces; attributes may stand between. A parameter is
what comes before its name, its name, and at most one pair of brackets, which makes it a pointer. Everything
before the name goes to the compiler as it is, so that macros and typedefs mean what they mean.

In C++ the function is looked for where it is declared: outside of all braces but those of namespaces, or in
the class `Solution` (also as `Solution::name`). The first place counts, a free function before a method.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sandbox.languages.scan import MARK, NAME, Token, brackets, c_tokens

_NO_TYPES = frozenset(
    ("return", "else", "goto", "case", "do", "sizeof", "typeof", "__typeof__", "_Alignof", "defined")
)
_ARITHMETIC = ("char", "short", "int", "long", "float", "double", "signed", "unsigned", "_Bool", "bool")
_TYPES = frozenset(
    (*_ARITHMETIC, "void", "_Complex", "__int128", "const", "volatile", "restrict", "__restrict")
)
# A source with braces deeper than this shows no declaration inside of them.
_MAX_SCOPES = 64
_ATTRIBUTES = ("__attribute__", "__attribute", "__asm__", "asm", "__asm")


class CannotCall(Exception):
    """There is no function of that name, or none whose parameters can be given; the message says which."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a C function: `before` and `after` go around the name of a declaration of its type."""

    text: str
    before: str
    after: str

    def declare(self, name: str) -> str:
        """Return a declaration of `name` with the type that the parameter has inside the function."""
        return f"{self.before} {name}{self.after}"


@dataclass(frozen=True, slots=True)
class Function:
    """A C++ function: `path` is how the global namespace names it, or its class `owner` the method.

    by_values   it is a template or declared more than once, so the values may have to say which is meant
    """

    path: str
    owner: str = ""
    by_values: bool = False


def c_parameters(source: str, name: str) -> list[Parameter]:
    """Return the parameters of function `name` of C source. Raises CannotCall."""
    tokens = c_tokens(source)
    pairs = brackets(tokens)
    declared: list[int] = []
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.text == "{") - (token.text == "}") if token.kind == MARK else 0
        if token.text != name or token.kind != NAME or not _declares(tokens, index, pairs):
            continue
        after = _past_attributes(tokens, pairs[index + 1] + 1, pairs)
        if _is(tokens, after, "{"):
            return _parameters(tokens, index + 1, pairs, name)
        if _is(tokens, after, ";") and depth == 0:
            declared.append(index)
    if not declared:
        raise CannotCall(f"no function {name} is defined in the form `type {name}(parameters) {{`")
    return _parameters(tokens, declared[0] + 1, pairs, name)


def _is(tokens: Sequence[Token], index: int, text: str) -> bool:
    return 0 <= index < len(tokens) and tokens[index].text == text and tokens[index].kind == MARK


def _declares(tokens: Sequence[Token], index: int, pairs: dict[int, int]) -> bool:
    """Whether the name at `index` stands where a function that is declared has its name."""
    if index == 0 or not _is(tokens, index + 1, "(") or index + 1 not in pairs:
        return False
    before = tokens[index - 1]
    return (before.kind == NAME and before.text not in _NO_TYPES) or before.text in ("*", ")", "}")


def _past_attributes(tokens: Sequence[Token], index: int, pairs: dict[int, int]) -> int:
    while (
        index < len(tokens)
        and tokens[index].text in _ATTRIBUTES
        and _is(tokens, index + 1, "(")
        and index + 1 in pairs
    ):
        index = pairs[index + 1] + 1
    return index


def _parameters(tokens: list[Token], opening: int, pairs: dict[int, int], name: str) -> list[Parameter]:
    inner = tokens[opening + 1 : pairs[opening]]
    if not inner or [token.text for token in inner] == ["void"]:
        return []
    return [_parameter(part, name) for part in _split(inner)]


def _split(tokens: Iterable[Token]) -> list[list[Token]]:
    """Cut at the commas that are outside of all brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if token.kind == MARK:
            depth += (token.text in "([{") - (token.text in ")]}")
        if token.text == "," and token.kind == MARK and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _join(tokens: Sequence[Token]) -> str:
    """The text of some tokens, with one space where there was any gap."""
    parts = [token.text for token in tokens]
    for index in range(1, len(parts)):
        if tokens[index].start > tokens[index - 1].end:
            parts[index] = f" {parts[index]}"
    return "".join(parts)


def _parameter(tokens: list[Token], name: str) -> Parameter:
    text = _join(tokens)
    problem = CannotCall(f"{name} has the parameter `{text}`, which no value fits")
    pairs = brackets(tokens)
    last = {end: start for start, end in pairs.items()}
    # Attributes after the name.
    while tokens and (start := last.get(len(tokens) - 1)) is not None and start > 0:
        if tokens[start].text != "(" or tokens[start - 1].text not in _ATTRIBUTES:
            break
        tokens = tokens[: start - 1]
    after = ""
    if tokens and _is(tokens, len(tokens) - 1, "]"):
        tokens = tokens[: last.get(len(tokens) - 1, 0)]
        after = ")"
    unnamed = bool(tokens) and (tokens[-1].text == "*" or tokens[-1].text in _TYPES)
    if not tokens or (tokens[-1].kind != NAME and not unnamed):
        raise problem
    before = tokens if unnamed else tokens[:-1]
    before = [token for token in before if token.text != "register"]
    if not before:
        raise problem
    return Parameter(text, _join(before) + (" (*" if after else ""), after)


@dataclass(slots=True)
class _Scope:
    """What a brace opened: "namespace" and its name, "class" and its name, or "other"."""

    kind: str
    name: str = ""


@dataclass(slots=True)
class _Search:
    free: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    template: bool = False


def cpp_function(source: str, name: str) -> Function:
    """Return how function `name` of C++ source is named. Raises CannotCall where nothing declares it."""
    tokens = c_tokens(source)
    pairs = brackets(tokens)
    found = _Search()
    scopes: list[_Scope] = []
    words: set[str] = set()  # of the declaration that is being read, which begins at `head`
    head = index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.kind == NAME and token.text == name and len(scopes) <= _MAX_SCOPES:
            _note(tokens, index, words, pairs, scopes, found)
        words.add(token.text)
        if token.kind == MARK:
            if token.text in ("(", "[") and index in pairs:
                index = pairs[index]  # no declaration that is looked for lies within
            elif token.text in ("{", "}", ";"):
                if token.text == "{":
                    scopes.append(_scope(tokens[head:index]))
                elif token.text == "}" and scopes:
                    scopes.pop()
                head = index + 1
                words = set()
        index += 1
    by_values = found.template or len(found.free or found.methods) > 1
    if found.free:
        return Function(found.free[0], "", by_values)
    if found.methods:
        return Function(name, found.methods[0], by_values)
    raise CannotCall(f"nothing declares {name}, neither outside of all classes nor in the class Solution")


def _scope(head: Sequence[Token]) -> _Scope:
    words = [token.text for token in head]
    if "namespace" in words:
        after = words[words.index("namespace") + 1 :]
        return _Scope("namespace", "::".join(word for word in after if word not in ("::", "inline")))
    if words[:1] == ["extern"] and len(words) == 2:
        return _Scope("namespace")
    for key in ("class", "struct"):
        if key in words and "(" not in words and "=" not in words and "enum" not in words:
            after = [token.text for token in head[words.index(key) + 1 :] if token.kind == NAME]
            return _Scope("class", after[0] if after else "")
    return _Scope("other")


def _note(
    tokens: Sequence[Token],
    index: int,
    words: set[str],
    pairs: dict[int, int],
    scopes: Sequence[_Scope],
    found: _Search,
) -> None:
    """Record the name at `index` where it is being declared; `words` come before it."""
    path = "".join(f"::{scope.name}" for scope in scopes if scope.kind == "namespace" and scope.name)
    spaces = [scope.kind == "namespace" for scope in scopes]
    # A variable may follow the very class that it is of.
    if (not words and not _is(tokens, index - 1, "}")) or words & {"using", "typedef", "friend"}:
        return
    called = _is(tokens, index + 1, "(")
    if all(spaces):
        if _is(tokens, index - 1, "::"):
            if tokens[index - 2].text != "Solution" or not called:
                return
            found.methods.append(f"{path}::Solution")
        elif called or (index + 1 < len(tokens) and tokens[index + 1].text in ("=", "{", ";")):
            found.free.append(f"{path}::{tokens[index].text}")
        else:
            return
    elif called and all(spaces[:-1]) and scopes[-1].kind == "class" and scopes[-1].name == "Solution":
        found.methods.append(f"{path}::Solution")
    else:
        return
    parameters = tokens[index + 2 : pairs.get(index + 1, index + 2)]
    if "template" in words or any(token.text == "auto" for token in parameters):
        found.template = True
