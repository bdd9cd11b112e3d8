"""The text of a function that is cut out of another: its name, its docstring, and the call in its place.

In: a program, one of its functions, and a `Part` of it. Out: the program with one function more; lines that
do not belong to the part stay byte for byte. The new text is parsed and compared with the syntax tree that
the cut stands for (`decompose.extract_tree`), so that a slip of layout cannot change a program.
Wrong: None for a part whose text cannot be moved, as where it shares a line with something else.
"""

from __future__ import annotations

import ast
import dataclasses
import keyword
import re
from collections.abc import Sequence

from decompose.extract_parts import IF_ANY, IF_FALSE, IF_TRUE, RETURNS, Part
from decompose.extract_tree import Cut, is_the_cut
from decompose.python_scopes import Comprehension, FunctionNode, own_nodes, parameters
from decompose.source import Definition, Source

Change = tuple[int, int, bytes]

_MOST_NAME = 40
_WORD = re.compile(r"\w+")
_DEFINED = re.compile(rb"def[ \t]+([^\s(]+)[ \t]*\(")
_HINT_PARTS = (
    ast.Name
    | ast.Attribute
    | ast.Subscript
    | ast.Constant
    | ast.Tuple
    | ast.List
    | ast.BinOp
    | ast.BitOr
    | ast.Load
)


@dataclasses.dataclass(frozen=True)
class Helper:
    """A function that was cut out.

    Attributes:
        name: its name.
        origin: qualified name of the function that it was cut out of.
        kind: `block`, `expression` or `inner`.
        inputs: its parameters.
        outputs: names that its caller binds to what it returns.
    """

    name: str
    origin: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Writer:
    """Cuts parts out of one function of a program."""

    def __init__(self, source: Source, definition: Definition) -> None:
        self.source, self.data = source, source.data
        self.function: FunctionNode = definition.meaning
        self.origin = definition.span.name
        self.span = (definition.span.start_byte, definition.span.end_byte)
        self.starts = [0]
        for line in self.data.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.starts[-1] = len(self.data)
        self.words = set(_WORD.findall(source.code))
        self.newline = definition.newline
        outer = source.indent_before(definition.node.start_byte)
        inner = definition.indent or b""
        self.unit = inner.removeprefix(outer) if inner.startswith(outer) and inner != outer else b"    "
        self.hints = {} if "." in self.origin else _hints(self.function)

    def movable(self, part: Part) -> bool:
        """Whether a part shares no line with what stays where it is."""
        statements = [one for one in part.nodes if isinstance(one, ast.stmt)]
        return not statements or self._own_lines(statements) is not None

    def cut(self, part: Part) -> tuple[str, Helper] | None:
        """The program with the part as a function of its own, before the one that it came from."""
        if not self.movable(part):
            return None
        meant = Cut(part, self._name(part), _tail(part), tuple(self._in_place(part, self._name(part))))
        written = self._inner(part, meant.name) if part.kind == "inner" else self._part(part, meant)
        if written is None:
            return None
        lines, changes = written
        code = self.data
        for start, end, new in sorted(changes, reverse=True):
            code = code[:start] + new + code[end:]
        at = self._place()
        text = self.newline.join(lines) + self.newline * 3
        made = (code[:at] + text + code[at:]).decode()
        if not is_the_cut(self.source, self.function, meant, made):
            return None
        inputs = part.inputs
        if isinstance(part.nodes[0], ast.FunctionDef) and part.kind == "inner":
            inputs += tuple(one.arg for one in parameters(part.nodes[0].args))
        return made, Helper(meant.name, self.origin, part.kind, inputs, part.outputs)

    def _name(self, part: Part) -> str:
        wanted = _title(self.function, part)
        if part.kind == "inner":
            start, end = self.span
            around = self.data[:start] + b" " + self.data[end:]
            if wanted not in _WORD.findall(around.decode()):
                return wanted
            wanted = f"{self.function.name}_{wanted}"
        return self._fresh(wanted[:_MOST_NAME])

    def _fresh(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self.words or keyword.iskeyword(name):
            name, number = f"{wanted}_{number}", number + 1
        return name

    def _place(self) -> int:
        """The line before which the function goes: above the outermost definition and its comment."""
        for top in self.source.module.body:
            line = _first_line(top)
            if line <= self.function.lineno <= (top.end_lineno or line):
                while line > 2 and self._line(line - 1).startswith(b"#"):
                    line -= 1
                return self.starts[line - 1]
        raise AssertionError("a definition of the module is in the module")

    def _line(self, number: int) -> bytes:
        return self.data[self.starts[number - 1] : self.starts[number]].rstrip(b"\r\n")

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        # Python does not count a byte order mark.
        mark = 3 if self.data.startswith("\ufeff".encode()) else 0
        line, column = node.end_lineno or node.lineno, node.end_col_offset or 0
        start = self.starts[node.lineno - 1] + node.col_offset + (mark if node.lineno == 1 else 0)
        return start, self.starts[line - 1] + column + (mark if line == 1 else 0)

    def _own_lines(self, statements: Sequence[ast.stmt]) -> tuple[int, int] | None:
        """The bytes of the lines of statements, if nothing else but a comment stands on them."""
        first, last = _first_line(statements[0]), statements[-1].end_lineno or statements[-1].lineno
        start, end = self.starts[first - 1], self.starts[last]
        lead = self.data[self.starts[statements[0].lineno - 1] : self._span(statements[0])[0]]
        rest = self.data[self._span(statements[-1])[1] : end].strip()
        if lead.strip(b" \t") or (rest and not rest.startswith(b"#")):
            return None
        return start, end

    def _moved(self, text: bytes, statements: Sequence[ast.stmt], indent: bytes) -> list[bytes]:
        """Lines of statements with another indentation; lines that begin inside of a string stay."""
        inside: set[int] = set()
        for top in statements:
            for node in ast.walk(top):
                if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None:
                    inside.update(range(node.lineno + 1, node.end_lineno + 1))
        old = self._line(statements[0].lineno)[: statements[0].col_offset]
        moved: list[bytes] = []
        for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), _first_line(statements[0])):
            if number not in inside and line.startswith(old):
                line = indent + line[len(old) :]
            moved.append(line.removesuffix(b"\r"))
        return moved

    def _head(self, part: Part, name: str) -> list[bytes]:
        given = [f"{one}: {self.hints[one]}" if one in self.hints else one for one in part.inputs]
        ending = ""
        if self.hints and part.ending in (IF_TRUE, IF_FALSE):
            ending = " -> bool"
        elif part.kind == "block" and part.ending == RETURNS and "return" in self.hints:
            ending = f" -> {self.hints['return']}"
        doc = self.unit.decode() + f'"""{_doc(self.function, part)}"""'
        return [f"def {name}({', '.join(given)}){ending}:".encode(), doc.encode()]

    def _part(self, part: Part, meant: Cut) -> tuple[list[bytes], list[Change]] | None:
        """Lines of the new function, and what changes in the old one."""
        helper = self._head(part, meant.name) + [self.unit + one.encode() for one in part.imports]
        statements = [one for one in part.nodes if isinstance(one, ast.stmt)]
        if statements:
            if (span := self._own_lines(statements)) is None:
                return None
            helper += self._moved(self.data[slice(*span)], statements, self.unit)
            helper += [self.unit + one.encode() for one in meant.tail]
            indent = self._line(statements[0].lineno)[: statements[0].col_offset]
            new = self.newline.join(indent + line.encode() for line in meant.in_place)
            ends = self.data[: span[1]].endswith(b"\n")
            return helper, [(*span, new + self.newline * ends)]
        start, end = self._span(part.nodes[0])
        text = self.data[start:end]
        if b"\n" in text or isinstance(part.nodes[0], ast.Tuple):
            text = b"(" + text + b")"
        call = meant.in_place[0].encode()
        # `return[x]` is not `returnf(x)`.
        if self.data[start - 1 : start].isalnum():
            call = b" " + call
        return [*helper, self.unit + b"return " + text], [(start, end, call)]

    def _in_place(self, part: Part, name: str) -> list[str]:
        """Lines that stand where the part was."""
        call, unit = f"{name}({', '.join(part.inputs)})", self.unit.decode()
        if part.outputs:
            return [f"{', '.join(part.outputs)} = {call}"]
        if part.kind == "block" and part.ending == RETURNS:
            return [f"return {call}"]
        if part.ending == IF_TRUE:
            return [f"if {call}:", f"{unit}return True"]
        if part.ending == IF_FALSE:
            return [f"if not {call}:", f"{unit}return False"]
        if part.ending == IF_ANY:
            found = self._fresh("found")
            return [f"{found} = {call}", f"if {found} is not None:", f"{unit}return {found}"]
        return [call]

    def _inner(self, part: Part, name: str) -> tuple[list[bytes], list[Change]] | None:
        inner = part.nodes[0]
        if not isinstance(inner, ast.FunctionDef) or (span := self._own_lines([inner])) is None:
            return None
        start, end = self._span(inner)
        head = _DEFINED.match(self.data, start, end)
        if head is None:
            return None
        given = ", ".join(part.inputs)
        changes: list[Change] = []
        if given:
            changes.append((head.end(), head.end(), _more(given, bool(parameters(inner.args)))))
        if name != inner.name:
            changes.append((*head.span(1), name.encode()))
        for node in ast.walk(self.function):
            if isinstance(node, ast.Name) and node.id == inner.name and name != inner.name:
                changes.append((*self._span(node), name.encode()))
            if given and isinstance(node, ast.Call) and _names(node.func, inner.name):
                at = self._span(node.func)[1]
                if self.data[at : at + 1] != b"(":
                    return None
                changes.append((at + 1, at + 1, _more(given, bool(node.args or node.keywords))))
        text = self.data[slice(*span)]
        for at, to, new in sorted((one for one in changes if start <= one[0] < end), reverse=True):
            text = text[: at - span[0]] + new + text[to - span[0] :]
        outside = [one for one in changes if not start <= one[0] < end]
        return self._moved(text, [inner], b""), [(*span, b""), *outside]


def _more(given: str, others: bool) -> bytes:
    return f"{given}, ".encode() if others else given.encode()


def _names(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _first_line(node: ast.stmt) -> int:
    above = node.decorator_list if isinstance(node, FunctionNode | ast.ClassDef) else []
    return min([node.lineno, *(one.lineno for one in above)])


def _hints(function: FunctionNode) -> dict[str, str]:
    """Annotations that say of a name what it is throughout the function, and of `return`; as written."""
    bound = {
        node.id
        for node in own_nodes(function.body)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    told = [(one.arg, one.annotation) for one in given if one.arg not in bound]
    found: dict[str, str] = {}
    for name, hint in (*told, ("return", function.returns)):
        if hint is None or hint.lineno != hint.end_lineno:
            continue
        if all(isinstance(one, _HINT_PARTS) for one in ast.walk(hint)):
            found[name] = ast.unparse(hint)
    return found


def _listed(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _doc(function: FunctionNode, part: Part) -> str:
    given = _listed(part.inputs)
    if part.outputs:
        return f"Return {_listed(part.outputs)} as worked out from {given}."
    if part.ending == IF_TRUE:
        return f"Tell from {given} whether `{function.name}` is True."
    if part.ending == IF_FALSE:
        return f"Tell from {given} whether `{function.name}` may still be True."
    if part.ending == IF_ANY:
        return f"Return the result of `{function.name}` if {given} decide it, else None."
    if part.ending == RETURNS:
        return f"Return a result worked out from {given}."
    return f"Carry out a part of `{function.name}` with {given}."


def _tail(part: Part) -> tuple[str, ...]:
    """What the new function ends with."""
    if part.outputs:
        return (f"return {', '.join(part.outputs)}",)
    return {IF_TRUE: ("return False",), IF_FALSE: ("return True",), IF_ANY: ("return None",)}.get(
        part.ending, ()
    )


def _title(function: FunctionNode, part: Part) -> str:
    """A name that says what a part is for, as far as syntax tells."""
    base = function.name.strip("_") or "function"
    node = part.nodes[0]
    if part.kind == "inner" and isinstance(node, ast.FunctionDef):
        return node.name
    if part.outputs:
        verb = "update" if set(part.outputs) <= set(part.inputs) else "compute"
        return f"{verb}_{'_and_'.join(part.outputs[:2])}"
    if part.kind == "block":
        if part.ending == RETURNS:
            return f"finish_{base}"
        return f"check_{base}" if part.ending in (IF_TRUE, IF_FALSE, IF_ANY) else f"{base}_step"
    subject = part.inputs[0].strip("_") or base
    if isinstance(node, Comprehension):
        return f"{'select' if node.generators[0].ifs else 'collect'}_from_{subject}"
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", base)
        return f"{called.strip('_') or base}_of_{subject}"
    boolean = isinstance(node, ast.Compare | ast.BoolOp) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )
    return f"check_{subject}" if boolean else f"value_of_{subject}"
