"""One function of one program inside another: to judge it apart from its neighbours.

In: a reference program and a candidate with the same functions. Out: the reference with one function
of the candidate in place of its own. Every other function stays the reference's. What the candidate's
function needs and the reference does not define comes along: imports, helper functions, classes and
constants of the candidate's module, as far as it refers to them, straight or through each other. A
name that the reference defines always means the reference's.
Wrong: `SourceError` for a text that is not a program or a function that either lacks.
"""

from __future__ import annotations

import ast
import builtins

from decompose import tree_graft, tree_units
from decompose.grammars import SourceError
from decompose.python import FunctionNode, read
from decompose.skeleton import splice
from decompose.source import Source
from decompose.source import read as read_any

_BUILTINS = frozenset(dir(builtins))


def graft(reference: str, candidate: str, name: str, language: str = "Python") -> str:
    """The reference program with one function of the candidate in place of its own.

    Args:
        name: qualified name of the function, a step of both programs.

    Raises:
        SourceError: either text is not a program, or lacks the function.
        AssayError: programs of that language cannot be taken apart.
    """
    if language != "Python":
        return tree_graft.graft(reference, candidate, name, language)
    host, guest = read(reference), read(candidate)
    step = guest.step(name)
    text = guest.data[step.span.start_byte : step.span.end_byte].decode()
    helpers, stars = _needed(host, guest, step.meaning)
    made = splice(reference, name, text)
    if not helpers and not stars:
        return made
    try:
        return _with(made, name, helpers, stars)
    except RecursionError:
        raise SourceError("the candidate's helpers are nested too deeply") from None


def without_unused_imports(code: str, language: str) -> str:
    """A program that its compiler takes although a body that used its imports has been replaced.

    Go refuses an import that nothing uses: it is made blank, which keeps what it does. Other languages do
    not mind, and their programs are given back as they are. `graft` has done it.

    Raises:
        SourceError: the text is not a program.
    """
    return tree_graft.blank_unused_imports(code) if language == "Go" else code


def bound_names(code: str, language: str = "Python") -> set[str]:
    """Names that a program's module binds in any way: definitions, assignments and imports, below `if` too.

    In other languages than Python members of classes are among them by their qualified names.

    Raises:
        SourceError: the text is not a program.
        AssayError: programs of that language cannot be taken apart.
    """
    if language != "Python":
        return tree_units.all_names(read_any(code, language), language)
    return _module_names(read(code).module)


def _with(code: str, name: str, helpers: list[ast.stmt], stars: list[ast.stmt]) -> str:
    """A program with statements put before the top-level statement that holds a step."""
    source = read(code)
    at = source.step(name).span.start_byte
    tops = [node.start_byte for node in source.tree.root_node.named_children if node.start_byte <= at]
    before = "".join(f"{ast.unparse(one)}\n" for one in helpers).encode()
    data = source.data[: tops[-1]] + before + source.data[tops[-1] :]
    if stars:
        # Ahead of the reference's own names, so that these win over what a star brings.
        start = _first_statement(source)
        data = data[:start] + "".join(f"{ast.unparse(one)}\n" for one in stars).encode() + data[start:]
    made = data.decode()
    read(made)
    return made


def _first_statement(source: Source) -> int:
    """Where the first statement begins that may follow others: past docstring and `__future__`."""
    children = [n for n in source.tree.root_node.named_children if n.type != "comment"]
    for number, node in enumerate(children):
        string = node.type == "expression_statement" and node.named_children[0].type == "string"
        if not (node.type == "future_import_statement" or (number == 0 and string)):
            return node.start_byte
    return len(source.data)


def _needed(host: Source, guest: Source, function: FunctionNode) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Statements of the guest's module that a function needs and the host lacks; star imports apart."""
    theirs = _module_names(host.module)
    has = {ast.dump(one) for one in host.module.body if isinstance(one, ast.ImportFrom)}
    bindings: dict[str, ast.stmt] = {}
    order: list[ast.stmt] = []
    stars: list[ast.stmt] = []
    for statement in guest.module.body:
        if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            if ast.dump(statement) not in has:
                stars.append(statement)
            continue
        for part in _parts(statement):
            names = _bound_by(part)
            if names and not names & theirs:
                order.append(part)
                bindings.update(dict.fromkeys(names, part))
    wanted: set[int] = set()
    unknown = False
    stack: list[ast.AST] = [function]
    while stack:
        for name in _loaded(stack.pop()):
            if name not in bindings:
                unknown = unknown or name not in theirs | _BUILTINS
            elif id(bindings[name]) not in wanted:
                wanted.add(id(bindings[name]))
                stack.append(bindings[name])
    return [part for part in order if id(part) in wanted], stars if unknown else []


def _parts(statement: ast.stmt) -> list[ast.stmt]:
    """An import of several names as one import a name, so that each can come alone."""
    if isinstance(statement, ast.Import):
        return [ast.copy_location(ast.Import([alias]), statement) for alias in statement.names]
    if isinstance(statement, ast.ImportFrom) and statement.module != "__future__":
        return [
            ast.copy_location(ast.ImportFrom(statement.module, [alias], statement.level), statement)
            for alias in statement.names
        ]
    return [statement]


def _bound_by(statement: ast.stmt) -> set[str]:
    """Names that one top-level statement binds; none where it does more than bind."""
    if isinstance(statement, FunctionNode | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import) or (
        isinstance(statement, ast.ImportFrom) and statement.module != "__future__"
    ):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return {statement.target.id} if isinstance(statement.target, ast.Name) else set()
    if isinstance(statement, ast.Assign):
        bound: set[str] = set()
        for target in statement.targets:
            for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                if not isinstance(one, ast.Name):
                    return set()
                bound.add(one.id)
        return bound
    return set()


def _module_names(module: ast.Module) -> set[str]:
    """Names that a module binds anywhere outside of its functions."""
    bound: set[str] = set()
    stack: list[ast.AST] = [module]
    while stack:
        node = stack.pop()
        if isinstance(node, FunctionNode | ast.ClassDef):
            bound.add(node.name)
            continue
        if isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        stack += ast.iter_child_nodes(node)
    return bound


def _loaded(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
