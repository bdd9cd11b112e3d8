"""C and C++ programs, compiled and linked by GCC in one command.

In: a job. Out: a plan whose build keeps the one file "program". Wrong: ToolchainMissing.

Kind "script": the file `entry` (main.c, main.cpp) and every other source file of the job that no file of the
job includes are compiled together. Source files are *.c for C and *.cpp, *.cc, *.cxx for C++; their names are
of letters, digits and "_.+-/". `#include "..."` looks beside the file and in the job's topmost folder.
C is gnu17, C++ gnu++20 (a superset in practice of what C++17 programs use), both at -O2 and without warnings.

Kind "calls": solution.c or solution.cpp is included by a driver (`harness/`), so that static functions, a
`main` of its own (renamed by a macro, never run) and `using namespace std` are no obstacle; other sources are
compiled beside it, but for those that include the solution. `harness/calls.hpp` says what of C++ can be
called, `harness/values.hpp` with what values, `harness/calls_c.h` the same for C. Keyword arguments do not
exist: they are an ArgumentError.

A program that begins with `#include <bits/stdc++.h>` finds it compiled (made once, on the host, from the
toolchain's own headers): 0.3 s instead of 1.7. Nothing but those headers is ever shared between programs.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sandbox.job import Job
from sandbox.languages import prepared
from sandbox.languages.base import CALLS, HARNESS, WORK, Language, Plan, Step, Toolchain, ask, locate
from sandbox.languages.declarations import CannotCall, c_parameters, cpp_function
from sandbox.languages.scan import c_directives_first
from sandbox.names import script_file, solution_file

_C_PACKAGES = ("gcc", "libc6-dev")
_CPP_PACKAGES = ("g++",)
_SOURCES = {"c": (".c",), "cpp": (".cpp", ".cc", ".cxx")}
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp", ".tpp")
_COMMON = ("-O2", "-w", "-fmax-errors=20", "-pthread")
_FLAGS = {"c": ("-std=gnu17", *_COMMON), "cpp": ("-std=gnu++20", *_COMMON)}
# No calls of the C library where there are none in the text: a solution may have functions of those names.
_OBJECT_FLAGS = (f'-DSANDBOX_CALLS="{CALLS}"', "-fno-builtin", "-fno-tree-loop-distribute-patterns")
_HARNESS_FILES = {
    "c": ("calls.h", "calls.c", "calls_c.h", "calls_c.c"),
    "cpp": ("calls.h", "calls.c", "types.hpp", "values.hpp", "calls.hpp"),
}
# To be changed with what `_prepare` does.
_RECIPE = "2"
_PROGRAM = "program"
# The folder of what we add, below `WORK`.
_OURS = ".sandbox"
_PLAIN_NAME = re.compile(r"[\w.+/-]+", re.ASCII)
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include(?:_next)?[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_WHOLE_LIBRARY = re.compile(r"#[ \t]*include[ \t]*<bits/stdc\+\+\.h>")
_FROM_SYSTEM = re.compile(r"#[ \t]*include[ \t]*<[\w./+-]+>\s*(?://.*)?", re.DOTALL)
# A solution may have made macros of these; the lines of ours that follow it need them as they are.
_KEYWORDS = (
    *("auto", "char", "class", "const", "constexpr", "decltype", "double", "else", "enum", "extern", "for"),
    *("if", "inline", "int", "long", "namespace", "new", "return", "short", "signed", "sizeof", "static"),
    *("struct", "template", "typename", "union", "unsigned", "using", "void"),
)
_PLAIN_WORDS = [f"#undef {word}" for word in _KEYWORDS]
_NATURAL_HEADERS = ("map", "set", "string", "tuple", "vector")


def find_c() -> Toolchain:
    """Return GCC for C. The first call on a machine compiles our harness. Raises ToolchainMissing."""
    return _find("c", "C", _C_PACKAGES, "gcc")


def find_cpp() -> Toolchain:
    """Return GCC for C++. The first call on a machine compiles our harness and the library's headers: 6 s."""
    return _find("cpp", "C++", _CPP_PACKAGES, "g++")


def _find(lang: str, title: str, packages: Sequence[str], command: str) -> Toolchain:
    compiler = locate(title, packages, command)[command]
    version = ask(compiler, "--version")
    folder = _prepare(lang, compiler, version)
    return Toolchain({"compiler": compiler, "prepared": folder}, (folder,), version)


@functools.cache
def _prepare(lang: str, compiler: str, version: str) -> str:
    """The folder of our harness: headers, objects, and for C++ headers that are compiled.

    GCC takes a compiled header where it comes first and all options agree, and else the text beside it.
    """
    sources = {name: (HARNESS / name).read_bytes() for name in _HARNESS_FILES[lang]}

    def fill(draft: Path, _: Path) -> None:
        def compile_one(name: str, made: str, *options: str) -> None:
            given = (*_FLAGS[lang], *options, name, "-o", made)
            prepared.run_tool([compiler, *given], draft)

        (draft / "sandbox").mkdir()
        for name, data in sources.items():
            (draft / "sandbox" / name).write_bytes(data)
        for name in _objects(lang):
            compile_one(f"{name[:-2]}.c", name, *_OBJECT_FLAGS, "-c")
        if lang == "cpp":
            compile_one("sandbox/calls.hpp", "sandbox/calls.hpp.gch", "-x", "c++-header")
            (draft / "bits").mkdir()
            (draft / "all.hpp").write_text("#include <bits/stdc++.h>\n", encoding="utf-8")
            compile_one("all.hpp", "bits/stdc++.h.gch", "-x", "c++-header")
            text = "#include_next <bits/stdc++.h>\n"
            (draft / "bits" / "stdc++.h").write_text(text, encoding="utf-8")

    # A distribution may mend a compiler or a header without a new version.
    stamp = str(Path(compiler).stat().st_mtime_ns)
    parts = [_RECIPE, version, compiler, stamp, *_FLAGS[lang], *_OBJECT_FLAGS]
    return prepared.folder(lang, [*parts, *(part for pair in sources.items() for part in pair)], fill)


def _objects(lang: str) -> list[str]:
    return [f"sandbox/{name[:-2]}.o" for name in _HARNESS_FILES[lang] if name.endswith(".c")]


def plan_c(job: Job, toolchain: Toolchain) -> Plan:
    """Return how a C job is built and run; see the head of this module."""
    return _plan(job, toolchain, _c_driver)


def plan_cpp(job: Job, toolchain: Toolchain) -> Plan:
    """Return how a C++ job is built and run; see the head of this module."""
    return _plan(job, toolchain, _cpp_driver)


def _plan(job: Job, toolchain: Toolchain, driver: Callable[[Job], str]) -> Plan:
    files = {name: text.encode("utf-8", "surrogatepass") for name, text in job.files.items()}
    suffix = _SOURCES[job.lang][0]
    data = {name: text for name, text in files.items() if not name.endswith((*_SOURCES[job.lang], *_HEADERS))}
    data.pop(_PROGRAM, None)
    ours = toolchain.tools["prepared"]
    if job.kind == "calls":
        main = solution_file(job.lang)
        units = [f"./{_OURS}/driver{suffix}"]
        files[units[0][2:]] = driver(job).encode("utf-8", "surrogatepass")
        for number, name in enumerate(_others(job, main)):
            units.append(f"./{_OURS}/part{number}{suffix}")
            files[units[-1][2:]] = f'#define main sandbox_main_{number}\n#include "{name}"\n'.encode()
        units += [f"{ours}/{name}" for name in _objects(job.lang)]
        arguments: Sequence[str] = ()
    else:
        main = job.entry or script_file(job.lang)
        units = [f"./{name}" for name in (main, *_others(job, main))]
        arguments = job.argv
    argv = (toolchain.tools["compiler"], *_FLAGS[job.lang], "-iquote", ".", "-I", ours)
    return Plan(
        files=files,
        build=Step((*argv, "-o", _PROGRAM, *units, "-lm")),
        keep=(_PROGRAM,),
        run=Step((f"{WORK}/{_PROGRAM}", *arguments)),
        data=data,
    )


def _others(job: Job, main: str) -> list[str]:
    """The source files to compile beside `main`: not those that others include, nor those that include it."""
    included: dict[str, set[str]] = {}
    for name, text in job.files.items():
        for path in _INCLUDED.findall(text):
            beside = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            included.setdefault(name, set()).update((beside, posixpath.normpath(path)))
    taken = set().union(*included.values())
    return [
        name
        for name in sorted(job.files)
        if name.endswith(_SOURCES[job.lang])
        and name != main
        and name not in taken
        and main not in included.get(name, ())
        and _PLAIN_NAME.fullmatch(name)
    ]


def _opening(job: Job, header: str) -> list[str]:
    """The lines of a driver up to and with the solution."""
    solution = solution_file(job.lang)
    return [
        f"#include <sandbox/{header}>",
        "#define main sandbox_main",
        f'#include "{solution}"',
        "#undef main",
    ]


def _missing(message: str) -> list[str]:
    return [
        f"const char *sandbox_missing(void) {{ return {_literal(message)}; }}",
        "void sandbox_call(sandbox_in *in, sandbox_out *out) { (void)in; (void)out; }",
    ]


def _literal(text: str) -> str:
    """`text` as a string literal of C."""
    shown = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode("utf-8", "backslashreplace")[:1000]
    )
    return f'"{shown}"'


# -- C


def _c_driver(job: Job) -> str:
    lines = _opening(job, "calls_c.h")
    try:
        if job.entry == "main":
            raise CannotCall("main is where a program starts; it cannot be called")
        parameters = c_parameters(_visible(job), job.entry)
    except CannotCall as error:
        return "\n".join([*lines, *_PLAIN_WORDS, *_missing(str(error)), ""])
    count = len(parameters)
    names = [f"sandbox_p{number}" for number in range(count)]
    lines += [f"extern {one.declare(name)};" for one, name in zip(parameters, names, strict=True)]
    lines += _PLAIN_WORDS
    described = [
        f"{{SANDBOX_CODE({name}), {_literal(one.text)}}}" for one, name in zip(parameters, names, strict=True)
    ]
    given = ", ".join(f"*(__typeof__({name}) *)slots[{number}].memory" for number, name in enumerate(names))
    lines += [
        f"static const sandbox_parameter sandbox_parameters[] = {{{', '.join([*described, '{0, 0}'])}}};",
        f"SANDBOX_C_DRIVER({_literal(job.entry)}, {count}, {job.entry}({given}))",
    ]
    return "\n".join([*lines, ""])


def _visible(job: Job) -> str:
    """The solution, and the headers of the job, where a function may be declared instead."""
    solution = solution_file(job.lang)
    headers = [text for name, text in sorted(job.files.items()) if name.endswith(_HEADERS)]
    return "\n".join([job.files[solution], *headers])


# -- C++


def _cpp_driver(job: Job) -> str:
    source = job.files[solution_file("cpp")]
    lines = ["#include <bits/stdc++.h>"] if _begins_with_whole_library(source) else []
    lines += [*_opening(job, "calls.hpp"), *_PLAIN_WORDS]
    natural = ""
    try:
        if job.entry == "main":
            raise CannotCall("main is where a program starts; it cannot be called")
        function = cpp_function(_visible(job), job.entry)
    except CannotCall as error:
        ending = _missing(str(error))
    else:
        if function.by_values and (types := _natural_types(job)):
            lines += [f"#include <{name}>" for name in _NATURAL_HEADERS]
            natural = ", ".join(types)
        how = f"SANDBOX_METHOD({_literal(job.entry)}, {function.owner}, {function.path}, {natural})"
        if not function.owner:
            how = f"SANDBOX_FREE({_literal(job.entry)}, {function.path}, {natural})"
        ending = [how]
    flush = [
        "#ifdef _GLIBCXX_IOSTREAM",
        "void sandbox_flush(void) { ::std::cout.flush(); ::std::clog.flush(); }",
        "#else",
        "void sandbox_flush(void) {}",
        "#endif",
    ]
    return "\n".join([*lines, *flush, *ending, ""])


def _begins_with_whole_library(source: str) -> bool:
    """Whether <bits/stdc++.h> comes first, but for headers that it includes as well."""
    for line in c_directives_first(source):
        if _WHOLE_LIBRARY.match(line):
            return True
        if not _FROM_SYSTEM.fullmatch(line):
            return False
    return False


def _natural_types(job: Job) -> list[str]:
    """The C++ types that the arguments of all calls have in common; none where they have not."""
    count = len(job.calls[0].args) if job.calls else 0
    columns = [[call.args[index] for call in job.calls if len(call.args) == count] for index in range(count)]
    types = []
    for column in columns:
        made = _common(column, 0)
        if made is None:
            return []
        # Containers can be changed in place.
        types.append(f"{made} &" if made.startswith("::std::") and made != "::std::string" else made)
    return types


_MAX_TYPE_DEPTH = 8


def _common(values: Sequence[Any], depth: int) -> str | None:
    """The C++ type that holds each of `values`, or None."""
    kinds = {type(value) for value in values}
    if depth > _MAX_TYPE_DEPTH:
        return None
    if kinds <= {int}:
        small = all(-(1 << 31) <= value < 1 << 31 for value in values)
        return "int" if small else "long long"
    if kinds == {bool}:
        return "bool"
    if kinds <= {int, float}:
        return "double"
    if kinds == {str}:
        return "::std::string"
    inner = depth + 1
    if kinds == {list}:
        return _template("vector", _common([item for value in values for item in value], inner))
    if kinds == {tuple} and len({len(value) for value in values}) == 1:
        return _template("tuple", *(_common(column, inner) for column in zip(*values, strict=True)))
    if kinds <= {set, frozenset}:
        return _template("set", _common([item for value in values for item in value], inner))
    if kinds == {dict}:
        keys = _common([key for value in values for key in value], inner)
        return _template("map", keys, _common([item for value in values for item in value.values()], inner))
    return None


def _template(name: str, *arguments: str | None) -> str | None:
    known = [one for one in arguments if one is not None]
    return f"::std::{name}<{', '.join(known)}>" if len(known) == len(arguments) else None


# Measured by /proc/self/status of programs that do nothing else: one thread; in C 1.4 MiB resident and 2.5 of
# address space, in C++ with <iostream> 3.1 and 5.7. Neither reserves space ahead.
C = Language(
    name="c",
    title="C",
    packages=_C_PACKAGES,
    find=find_c,
    plan=plan_c,
    overhead_mb=2,
    stack_mb=128,
)
CPP = Language(
    name="cpp",
    title="C++",
    packages=_CPP_PACKAGES,
    find=find_cpp,
    plan=plan_cpp,
    overhead_mb=4,
    stack_mb=128,
)
