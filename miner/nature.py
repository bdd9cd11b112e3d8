"""What kind of change an edit is: of comments, docstrings, format, imports or names alone.

In: the trees of both sides (`miner.syntax.Sides`) and the changed lines. Out: marks of
`miner.reasons.MARKS`. A cheap look at the changed lines says what an edit may be; a mark is given only when
the trees of the whole files agree, so that none rests on a guess:

* `whitespace_only`: the same tokens in the same structure.
* `comment_only`: the same without comments.
* `docstring_only` (Python): the same without comments and docstrings.
* `format_only`: the same but for whitespace, trailing commas, quotes around text that holds none, semicolons
  that end statements of JavaScript and TypeScript, and Python's parentheses around expressions.
* `import_only`: every changed token is inside of an import.
* `rename_only`: identifiers were replaced, each by one other, everywhere in the file, and nothing else.

The structure is compared as well as the tokens, since in Python indentation, in JavaScript line ends mean
something that no token shows. Whitespace in a literal is part of a token.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node, Tree

from miner.changed import Region, changed_text
from miner.syntax import Sides

_IMPORTS = frozenset(
    {
        *("import_statement", "import_from_statement", "future_import_statement", "import_declaration"),
        *("use_declaration", "preproc_include", "using_directive", "namespace_use_declaration"),
        *("import_header", "import_list", "import"),
    }
)
"""Kinds of nodes that import something, of all grammars."""

_TRAILING = frozenset(
    {
        # Python
        *("argument_list", "parameters", "list", "dictionary", "set", "tuple", "import_from_statement"),
        # JavaScript, TypeScript
        *(
            "arguments",
            "formal_parameters",
            "object",
            "array",
            "object_pattern",
            "named_imports",
            "export_clause",
        ),
        # Go, Rust
        *("literal_value", "parameter_list", "field_initializer_list", "field_declaration_list"),
        *("enum_variant_list", "array_expression", "use_list"),
        # C, C++, Java, C#, PHP, Kotlin, Swift, Ruby
        *("initializer_list", "enumerator_list", "array_initializer", "initializer_expression"),
        *("array_creation_expression", "value_arguments", "array_literal", "dictionary_literal", "hash"),
    }
)
"""Kinds of nodes whose last comma, right before the closing bracket, means nothing."""

_LITERAL = re.compile(
    r"(?<!concatenated_)string|template_(?:string|literal)|heredoc|char_|character|regex|text|content|symbol|interpolation"
)
"""Kinds of nodes in which all between their children is part of the text."""

_QUOTES = {"Python": b"'\"", "JavaScript": b"'\"", "TypeScript": b"'\"", "Ruby": b"'\""}
_FREE_SEMICOLONS = frozenset({"JavaScript", "TypeScript"})
_FREE_FORM = frozenset({"C", "C++", "C#", "Java", "PHP", "Rust"})
_ENDED_BY_SEMICOLON = re.compile(r"(?!for_)\w+_(?:statement|declaration)")
_WHOLE = re.compile(r"content|fragment|text")
"""Kinds of nodes that are one text, whatever escape sequences are nodes in them."""

_NAME = re.compile(r"(?:\w+_)?identifier|constant|name")
_DOCSTRING_HOLDERS = frozenset({"function_definition", "class_definition"})
_MAX_COMMENTS_BEFORE = 50
_MAX_RENAMED = 20
_BEFORE_HOLE = frozenset({"", ",", "(", "[", "{"})
_LONGEST_QUOTES = 6
_MAX_SPACE = 400

_SPACE = b" \t\r\n\f\v"
_FORMAT = _SPACE + b",;()'\""


def is_comment(kind: str) -> bool:
    """Whether a kind of node is a comment, in any grammar."""
    return kind.endswith("comment")


def _docstring_of(node: Node, holder: str) -> int:
    """Id of the statement that is the docstring of a Python module or body; 0 when there is none."""
    if node.type != "module" and not (node.type == "block" and holder in _DOCSTRING_HOLDERS):
        return 0
    for number in range(min(node.named_child_count, _MAX_COMMENTS_BEFORE)):
        child = node.named_child(number)
        if child is None or is_comment(child.type):
            continue
        if child.type != "expression_statement" or child.child_count != 1:
            return 0
        return child.id if child.children[0].type in ("string", "concatenated_string") else 0
    return 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Ignore:
    """What does not count when two trees are compared."""

    comments: bool = False
    docstrings: bool = False
    format: bool = False


Event = tuple[int, str, bytes, int]
"""Level, kind of node, text of a leaf or of an untouched node, nodes below that."""

_END: Event = (-1, "end", b"", 0)


@dataclasses.dataclass(slots=True)
class _Open:
    """A node whose children are being walked."""

    kind: str
    start: int
    end: int
    level: int
    literal: bool
    docstring: int
    at: int
    last: str = ""
    named: int = 0


class _Reader:
    """Walks one tree; what it yields is equal for two trees that differ only in what is ignored.

    Nodes outside of `places` are taken whole: the same text, kind and number of nodes below is the same tree.
    None looks into everything.
    """

    def __init__(
        self, tree: Tree, data: bytes, places: Sequence[Region] | None, language: str, ignore: _Ignore
    ) -> None:
        self.tree, self.data, self.language, self.ignore = tree, data, language, ignore
        self.places, self.place = places, 0
        self.python = language == "Python"
        self.opened: list[_Open] = []

    def events(self) -> Iterator[Event]:
        """Nodes with their levels, and what stands between them where that means something."""
        opened, cursor = self.opened, self.tree.walk()
        while True:
            node = cursor.node
            if node is None:
                return
            kind, end = node.type, node.end_byte
            around = opened[-1] if opened else None
            level = 0 if around is None else around.level + 1
            if around is not None:
                yield from self._between(around, node.start_byte)
            entered = False
            if not self._skipped(node, kind, around):
                if node.child_count and self._is_untouched(node.start_byte, end):
                    yield level, kind, self.data[node.start_byte : end], node.descendant_count
                elif node.child_count and not is_comment(kind):
                    transparent = self.ignore.format and self.python and kind == "parenthesized_expression"
                    if not transparent:
                        yield level, kind, b"", 0
                    holder = "" if around is None else around.kind
                    docstring = _docstring_of(node, holder) if self.ignore.docstrings and self.python else 0
                    literal = _LITERAL.search(kind) is not None
                    start = node.start_byte
                    level -= transparent
                    opened.append(_Open(kind, start, end, level, literal, docstring, start))
                    entered = cursor.goto_first_child()
                else:
                    # The kind of a mark is the mark itself, as written.
                    named = kind if node.is_named or node.is_missing else ""
                    yield level, named, self._text(node, kind, around), 0
                if around is not None and not is_comment(kind):
                    around.named += node.is_named
                    around.last = kind
            if entered:
                continue
            if around is None:
                return
            around.at = max(end, around.at)
            while not cursor.goto_next_sibling():
                done = opened.pop()
                yield from self._between(done, done.end)
                if not opened:
                    return
                opened[-1].at = max(done.end, opened[-1].at)
                cursor.goto_parent()

    def _is_untouched(self, start: int, end: int) -> bool:
        if self.places is None:
            return False
        # Nodes come in order of their start, so that places left behind are done with.
        while self.place < len(self.places) and self.places[self.place].end <= start:
            self.place += 1
        return self.place == len(self.places) or self.places[self.place].start >= end

    def _between(self, around: _Open, start: int) -> Iterator[Event]:
        gap = self.data[around.at : start]
        if gap and (around.literal or not gap.isspace()):
            yield around.level + 1, "", gap, 0

    def _skipped(self, node: Node, kind: str, around: _Open | None) -> bool:
        if around is None:
            return False
        if self.ignore.comments and is_comment(kind):
            return True
        if around.docstring and node.id == around.docstring:
            return True
        implied = not node.child_count and not node.is_named and not node.is_missing and not around.literal
        # Grammars have tokens for line ends and for what is only implied.
        if implied and not self.data[node.start_byte : node.end_byte].strip():
            return True
        if not self.ignore.format:
            return False
        if kind == ",":
            return self._is_free_comma(node, around)
        if kind == ";" and self.language in _FREE_SEMICOLONS:
            return _ENDED_BY_SEMICOLON.fullmatch(around.kind) is not None
        return self.python and kind in ("(", ")") and around.kind == "parenthesized_expression"

    def _is_free_comma(self, node: Node, around: _Open) -> bool:
        """Whether it stands right before the bracket that closes a list whose last comma means nothing."""
        after = self.data[node.end_byte : node.end_byte + _MAX_SPACE].lstrip()[:1]
        # `[a,,]` has a hole, and `(a,)` is a tuple for its comma.
        if after not in (b")", b"]", b"}") or around.kind not in _TRAILING or around.last in _BEFORE_HOLE:
            return False
        # PHP before 7.3 refused one after arguments, so that taking it away mended something.
        if self.language == "PHP" and around.kind == "arguments":
            return False
        return around.kind != "tuple" or around.named > 1

    def _text(self, node: Node, kind: str, around: _Open | None) -> bytes:
        text = self.data[node.start_byte : node.end_byte]
        if is_comment(kind):
            return b" ".join(text.split())
        quotes = _QUOTES.get(self.language)
        if not self.ignore.format or quotes is None or around is None or "string" not in around.kind:
            return text
        if len(text) > _LONGEST_QUOTES or text[-1:] not in (b"'", b'"'):
            return text
        inside = self.data[around.start : around.end].lstrip(b"rRbBuUfFtT").strip(text[-1:])
        plain = not any(mark in inside for mark in (b"'", b'"', b"\\"))
        # In Ruby the double quotes alone let `#{...}` and such mean something.
        if plain and not (self.language == "Ruby" and b"#" in inside):
            return text.replace(b"'", b'"')
        return text


@dataclasses.dataclass(frozen=True, slots=True)
class _Change:
    """An edit's trees with the changed lines of either side."""

    sides: Sides
    old: Sequence[Region]
    new: Sequence[Region]

    def same(self, ignore: _Ignore) -> bool:
        """Whether both trees are the same but for what is ignored."""
        # A node that ends within removed lines is untouched on one side alone: then everything is looked at.
        return self._same(ignore, self.old, self.new) or self._same(ignore, None, None)

    def _same(self, ignore: _Ignore, old: Sequence[Region] | None, new: Sequence[Region] | None) -> bool:
        sides = self.sides
        one = _Reader(sides.old, sides.old_data, old, sides.language, ignore).events()
        other = _Reader(sides.new, sides.new_data, new, sides.language, ignore).events()
        while (event := next(one, _END)) == next(other, _END):
            if event == _END:
                return True
        return False


@dataclasses.dataclass(frozen=True, slots=True)
class _Leaf:
    kind: str
    text: bytes
    role: str


def _leaves(tree: Tree, data: bytes, places: Sequence[Region], python: bool) -> list[_Leaf]:
    """The tokens in regions of one side, with their role: code, comment, docstring or import."""
    found: list[_Leaf] = []
    reached = 0
    for place in places:
        reached = _add_leaves(tree, data, place, reached, python, found)
    return found


def _add_leaves(
    tree: Tree, data: bytes, place: Region, reached: int, python: bool, found: list[_Leaf]
) -> int:
    """Add the tokens of a region that begin at byte `reached` or later; returns where the last one ends."""
    cursor = tree.walk()
    opened: list[tuple[str, str, int]] = [("", "code", 0)]
    while True:
        node = cursor.node
        if node is None or node.start_byte >= place.end:
            return reached
        entered = False
        if node.end_byte > place.start:
            kind = node.type
            holder, role, docstring = opened[-1]
            if is_comment(kind):
                role = "comment"
            elif node.id == docstring:
                role = "docstring"
            elif kind in _IMPORTS and node.is_named and role == "code":
                role = "import"
            if node.child_count and role != "comment" and not _WHOLE.search(kind):
                # What ends before the region is passed over at once.
                entered = cursor.goto_first_child_for_byte(place.start) is not None
                if entered:
                    opened.append((kind, role, _docstring_of(node, holder) if python else 0))
            elif node.start_byte >= reached:
                text = data[node.start_byte : node.end_byte]
                if text.strip():
                    found.append(_Leaf(kind, text, role))
                    reached = node.end_byte
        if entered:
            continue
        while not cursor.goto_next_sibling():
            if len(opened) == 1:
                return reached
            cursor.goto_parent()
            opened.pop()


def _code(leaves: list[_Leaf], *without: str) -> list[bytes]:
    return [leaf.text for leaf in leaves if leaf.role not in without]


def _renamed(sides: Sides, old: list[_Leaf], new: list[_Leaf]) -> bool:
    """Whether the changed tokens differ in names alone, each replaced by one other in the whole file."""
    old, new = ([leaf for leaf in side if leaf.role != "comment"] for side in (old, new))
    if len(old) != len(new):
        return False
    to: dict[bytes, bytes] = {}
    back: dict[bytes, bytes] = {}
    for one, other in zip(old, new, strict=True):
        if one.text != other.text and not (_NAME.fullmatch(one.kind) and _NAME.fullmatch(other.kind)):
            return False
        if to.setdefault(one.text, other.text) != other.text:
            return False
        if back.setdefault(other.text, one.text) != one.text:
            return False
    names = {one: other for one, other in to.items() if one != other}
    if not names or len(names) > _MAX_RENAMED:
        return False
    return not any(
        _has_word(sides.new_data, one) or _has_word(sides.old_data, other) for one, other in names.items()
    )


def _has_word(data: bytes, word: bytes) -> bool:
    return re.search(rb"(?<!\w)" + re.escape(word) + rb"(?!\w)", data) is not None


def kind_of_change(sides: Sides, old: Sequence[Region], new: Sequence[Region]) -> str | None:
    """The mark of an edit that changes nothing but one kind of thing, or None.

    Args:
        old: the changed lines of the old side; so `new`.
    """
    change = _Change(sides, old, new)
    broken = sides.old.root_node.has_error or sides.new.root_node.has_error
    before, after = changed_text(sides.old_data, old), changed_text(sides.new_data, new)
    squeezed = before.translate(None, _SPACE) == after.translate(None, _SPACE)
    # Within what the parser could make nothing of, indentation and line ends may mean something.
    if squeezed and (not broken or sides.language in _FREE_FORM) and change.same(_Ignore()):
        return "whitespace_only"
    python = sides.language == "Python"
    removed = _leaves(sides.old, sides.old_data, old, python)
    added = _leaves(sides.new, sides.new_data, new, python)
    code, new_code = _code(removed, "comment"), _code(added, "comment")
    if code == new_code and change.same(_Ignore(comments=True)):
        return "comment_only"
    if python:
        code, new_code = (_code(leaves, "comment", "docstring") for leaves in (removed, added))
        if code == new_code and change.same(_Ignore(comments=True, docstrings=True)):
            return "docstring_only"
    if broken:
        return None
    if before.translate(None, _FORMAT) == after.translate(None, _FORMAT) and change.same(
        _Ignore(format=True)
    ):
        return "format_only"
    both = [leaf for leaf in (*removed, *added) if leaf.role != "comment"]
    if both and all(leaf.role == "import" for leaf in both):
        return "import_only"
    return "rename_only" if _renamed(sides, removed, added) else None


def is_moved_lines(before: bytes, after: bytes) -> bool:
    """Whether the same lines were removed and added, their indentation and blank lines not counted."""
    removed, added = (sorted(filter(None, map(bytes.strip, side.split(b"\n")))) for side in (before, after))
    return bool(removed) and removed == added
