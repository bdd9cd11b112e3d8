"""Rust programs, compiled by rustc alone: edition 2021, optimised.

In: a job. Out: a plan whose build keeps the one file "program". Wrong: ToolchainMissing.

Kind "script": the file `entry` (main.rs) is the root, and `mod name;` finds the job's other files.
Kind "calls": solution.rs is the root of a program without a main of its own (`#![no_main]`, so that a
`fn main` in it is never run); lines after its last one hand the function to our harness. The function is
`fn entry` outside of all modules, `pub` or not, or one in `impl Solution`; where nothing declares `Solution`
it is declared, and a method gets a new one each time: `Solution::new()` where there is one without
parameters, else `Solution {}`. A generic function is called with i64, f64, bool or String, as the arguments
are. `harness/take.rs` says with what values a function can be called, `harness/give.rs` what comes back.
Keyword arguments do not exist: they are an ArgumentError.

Integer overflow panics in calls, as where solutions are called by name; it wraps in scripts, as where judges
build with -O. `debug_assert!` is off.
A program whose memory is refused says so, unless it brings its own global allocator.

The compiler may lie in a user's private folder (rustup): a sandbox started by root can read it there, and so
can that user's own; for other users there is no rustc on the search path in the first place.
"""

from __future__ import annotations

import functools
import itertools
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.job import Job
from sandbox.languages import prepared
from sandbox.languages.base import (
    CALLS,
    HARNESS,
    WORK,
    Language,
    Plan,
    Step,
    Toolchain,
    ToolchainMissing,
    ask,
    locate,
)
from sandbox.languages.declarations import CannotCall
from sandbox.languages.scan import LITERAL, MARK, NAME, Token, brackets, rust_tokens
from sandbox.names import script_file, solution_file

_PACKAGES = ("rustc",)
_OPTIONS = ("--edition=2021", "--cap-lints=allow", "--color=never", "-Copt-level=2", "-Coverflow-checks=on")
_HARNESS_FILES = ("calls.rs", "take.rs", "give.rs")
_PROGRAM = "program"
# To be changed with what `_prepare` does.
_RECIPE = "2"


def find() -> Toolchain:
    """Return rustc. The first call on a machine compiles our harness in 2 s. Raises ToolchainMissing."""
    command = shutil.which("rustc")
    install = f"install it with: apt-get install {' '.join(_PACKAGES)}"
    if command is None:
        raise ToolchainMissing(f"Rust: no 'rustc' on this machine; {install}")
    # rustc links by cc.
    locate("Rust", ("gcc", "libc6-dev"), "cc")
    # The command may be rustup's, which looks up the compiler by its own name and in its user's folder.
    root = ask(command, "--print", "sysroot")
    compiler = f"{root}/bin/rustc"
    if not root or not Path(compiler).is_file():
        raise ToolchainMissing(f"Rust: {command} does not run; {install}")
    version = ask(compiler, "--version")
    folder = _prepare(compiler, version)
    binds = (folder,) if root.startswith("/usr") else (folder, root)
    return Toolchain({"rustc": compiler, "prepared": folder}, binds, version)


@functools.cache
def _prepare(compiler: str, version: str) -> str:
    """The folder of our harness, compiled."""
    sources = {name: (HARNESS / name).read_bytes() for name in _HARNESS_FILES}

    def fill(draft: Path, _: Path) -> None:
        for name, data in sources.items():
            (draft / name).write_bytes(data)
        kind = ("--crate-type=rlib", "--crate-name=sandbox_calls")
        options = (*_OPTIONS, *kind, "-o", "libsandbox_calls.rlib", "calls.rs")
        prepared.run_tool([compiler, *options], draft, {"SANDBOX_CALLS": CALLS})
        # A linker that does not work must not look like a fault of every program.
        (draft / "empty.rs").write_text("fn main() {}\n", encoding="utf-8")
        prepared.run_tool([compiler, *_OPTIONS, "-o", "empty", "empty.rs"], draft)

    stamp = str(Path(compiler).stat().st_mtime_ns)
    parts = [_RECIPE, version, compiler, stamp, *_OPTIONS, CALLS]
    return prepared.folder("rust", [*parts, *(part for pair in sources.items() for part in pair)], fill)


def plan(job: Job, toolchain: Toolchain) -> Plan:
    """Return how `job` is built and run; see the head of this module."""
    files = {name: text.encode("utf-8", "surrogatepass") for name, text in job.files.items()}
    data = {name: text for name, text in files.items() if not name.endswith(".rs")}
    data.pop(_PROGRAM, None)
    options = [*_OPTIONS, "-Cstrip=symbols", "-Ccodegen-units=1", "--crate-type=bin"]
    arguments: Sequence[str] = ()
    if job.kind == "calls":
        main = solution_file("rust")
        files[main] = _with_entry(job).encode("utf-8", "surrogatepass")
        options += ["--extern", f"sandbox_calls={toolchain.tools['prepared']}/libsandbox_calls.rlib"]
    else:
        options.append("-Coverflow-checks=off")
        main = job.entry or script_file("rust")
        arguments = job.argv
    return Plan(
        files=files,
        build=Step((toolchain.tools["rustc"], *options, "-o", _PROGRAM, f"./{main}")),
        keep=(_PROGRAM,),
        run=Step((f"{WORK}/{_PROGRAM}", *arguments)),
        data=data,
    )


def _with_entry(job: Job) -> str:
    """The solution with `#![no_main]` before its first line and our lines after its last."""
    text = job.files[solution_file("rust")].removeprefix("\ufeff")
    # A first line for the shell may only be the very first.
    if text.startswith("#!") and not text[2:].lstrip().startswith("["):
        text = f"//{text}"
    found = _look(text, job.entry)
    lines = []
    if "global_allocator" not in found.words:
        lines.append("#[global_allocator] static SANDBOX: ::sandbox_calls::Memory = ::sandbox_calls::Memory;")
    if found.solution_lacks:
        lines.append("struct Solution;")
    try:
        function, own = _function(found, job)
        if own:
            lines += _RECEIVER
            lines.append(_MAKE % ("Solution::new()" if found.has_new else "Solution {}"))
        run = f'(&::sandbox_calls::Probe({function})).run("{job.entry}", {own})'
    except CannotCall as error:
        run = f"::sandbox_calls::missing({_literal(str(error))})"
    lines += [
        "mod sandbox_entry {",
        "    use ::sandbox_calls::{Callable as _, Otherwise as _};",
        f'    #[no_mangle] pub extern "C" fn main() -> i32 {{ {run} }}',
        "}",
    ]
    return "\n".join([f"#![no_main] {text}", *lines, ""])


_MAKE = "fn sandbox_solution() -> Solution { %s }"
# What a method is called on is made without reading an argument.
_RECEIVER = [
    f"impl ::sandbox_calls::Take for {name} {{ fn take(_: &mut ::sandbox_calls::Input) -> "
    f"::core::result::Result<{name}, ::sandbox_calls::Mismatch> {{ ::core::result::Result::Ok({made}) }} }}"
    for name, made in (
        ("Solution", "sandbox_solution()"),
        ("&'static mut Solution", "::std::boxed::Box::leak(::std::boxed::Box::new(sandbox_solution()))"),
    )
]


def _literal(text: str) -> str:
    shown = "".join(
        char if " " <= char <= "~" and char not in '"\\' else f"\\u{{{ord(char):x}}}" for char in text
    )
    return f'"{shown}"'


@dataclass(slots=True)
class _Found:
    """What the text of a solution shows: `at` is where the function's name stands, -1 nowhere."""

    tokens: list[Token]
    pairs: dict[int, int]
    words: set[str] = field(default_factory=set)
    at: int = -1
    head: set[str] = field(default_factory=set)
    method: bool = False
    solution_lacks: bool = False
    has_new: bool = False


def _look(text: str, entry: str) -> _Found:
    tokens = rust_tokens(text)
    found = _Found(tokens, brackets(tokens))
    found.words = {token.text for token in tokens if token.kind == NAME}
    found.solution_lacks = _follows(tokens, "impl", "Solution") and not any(
        _follows(tokens, word, "Solution") for word in ("struct", "enum", "union", "type", "as")
    )
    for index, method in _functions(found):
        name = tokens[index].text
        if method and name == "new" and found.pairs.get(index + 1) == index + 2:
            found.has_new = True
        # A free function goes before a method.
        if name.removeprefix("r#") == entry and (found.at < 0 or (found.method and not method)):
            found.at, found.method = index, method
            found.head = _words_before(tokens, index)
    return found


def _follows(tokens: Sequence[Token], first: str, second: str) -> bool:
    return any(a.text == first and b.text == second for a, b in itertools.pairwise(tokens))


def _words_before(tokens: Sequence[Token], index: int) -> set[str]:
    """The words of the declaration before its name."""
    words = set()
    for token in reversed(tokens[max(0, index - 12) : index]):
        if token.kind == MARK and token.text in ("}", ";", "{", "]"):
            break
        words.add(token.text)
    return words


def _functions(found: _Found) -> Iterator[tuple[int, bool]]:
    """Where the names of functions are that stand outside of all braces, or in an `impl Solution`."""
    tokens = found.tokens
    head = index = 0
    inside = -1  # where the open `impl Solution` ends
    while index < len(tokens):
        token = tokens[index]
        if token.kind == MARK and token.text in ("(", "[", "{"):
            if token.text == "{" and inside < 0 and _of_solution(tokens[head:index]):
                inside = found.pairs.get(index, -1)
                head = index + 1
            else:
                index = found.pairs.get(index, index)
                head = index + 1 if token.text == "{" else head
        elif token.kind == MARK and token.text == ";":
            head = index + 1
        elif index == inside:
            inside = -1
            head = index + 1
        elif token.text == "fn" and index + 1 < len(tokens) and tokens[index + 1].kind == NAME:
            yield index + 1, inside >= 0
        index += 1


def _of_solution(head: Sequence[Token]) -> bool:
    words = {token.text for token in head}
    return "impl" in words and "Solution" in words and "for" not in words and "fn" not in words


def _function(found: _Found, job: Job) -> tuple[str, int]:
    """Return the expression that names the function, and how many of its parameters are no arguments."""
    name = job.entry
    if found.at < 0:
        raise CannotCall(f"nothing declares fn {name}, neither outside of all modules nor in impl Solution")
    for word in ("unsafe", "async"):
        if word in found.head:
            raise CannotCall(f"{name} is an {word} fn, which cannot be called here")
    tokens = found.tokens
    generics, opening = _generics(tokens, found.at + 1)
    if opening not in found.pairs:
        raise CannotCall(f"fn {name} has no parameters in parentheses")
    parameters = _split(tokens[opening + 1 : found.pairs[opening]])
    own = int(bool(parameters) and any(token.text == "self" for token in parameters[0]))
    for parameter in parameters:
        if any(token.text == "impl" for token in parameter):
            shown = " ".join(token.text for token in parameter)
            raise CannotCall(f"{name} has the parameter `{shown}`, whose type is the caller's to choose")
    chosen = [_chosen(generic, parameters[own:], job) for generic in generics]
    path = f"super::{'Solution::' if found.method else ''}{tokens[found.at].text}"
    return (f"{path}::<{', '.join(chosen)}>" if chosen else path), own


def _generics(tokens: Sequence[Token], index: int) -> tuple[list[str], int]:
    """The names of the type parameters after a function's name, and where what follows them is."""
    if index >= len(tokens) or tokens[index].text != "<":
        return [], index
    depth = 0
    for end in range(index, len(tokens)):
        if tokens[end].kind == MARK:
            depth += (tokens[end].text == "<") - (tokens[end].text == ">")
        if depth == 0:
            break
    else:
        return [], len(tokens)
    items = [item for item in _split(tokens[index + 1 : end]) if item and item[0].kind != LITERAL]
    return [" ".join(token.text for token in item[:2] if token.kind == NAME) for item in items], end + 1


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    """Cut at the commas that are outside of all brackets; a last empty part does not count."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if token.kind == MARK and token.text in "([{<":
            depth += 1
        elif token.kind == MARK and token.text in ")]}>":
            depth -= 1
        if token.text == "," and token.kind == MARK and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts if parts[-1] else parts[:-1]


def _chosen(generic: str, parameters: Sequence[Sequence[Token]], job: Job) -> str:
    """The type to put for a type parameter: that of the innermost values of the arguments it is part of."""
    if generic.startswith("const "):
        raise CannotCall(f"{job.entry} is generic over a constant, which is the caller's to choose")
    name = generic.split(" ", 1)[0]
    kinds: set[type] = set()
    for index, parameter in enumerate(parameters):
        if any(token.text == name for token in parameter):
            for call in job.calls:
                kinds |= _leaves(call.args[index], 0) if index < len(call.args) else set()
    for kind, rust in ((float, "f64"), (int, "i64"), (str, "::std::string::String"), (bool, "bool")):
        if kind in kinds:
            return rust
    return "i64"


_MAX_TYPE_DEPTH = 8


def _leaves(value: Any, depth: int) -> set[type]:
    """The types of the innermost values."""
    if depth < _MAX_TYPE_DEPTH and type(value) in (list, tuple, set, frozenset):
        return set().union(*(_leaves(item, depth + 1) for item in value))
    return {type(value)}


RUST = Language(
    name="rust",
    title="Rust",
    packages=_PACKAGES,
    find=find,
    plan=plan,
    # Measured by /proc/self/status of a program that does nothing else: one thread, 2 MiB resident, 3 of
    # address space, none of it reserved ahead.
    overhead_mb=3,
    stack_mb=128,
)
