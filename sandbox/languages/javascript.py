"""JavaScript on Node.js, and TypeScript by way of esbuild, which takes the types off without checking them.

In: a `Job` whose `lang` is "javascript" or "typescript". Out: its `Plan`. Wrong: `ToolchainMissing`.

A script runs as `node main.js` does: CommonJS or, by its syntax or by package.json, an ES module; other
files are reached by `require("./lib")` or `import`. TypeScript is bundled with the local files that it
imports; a text that cannot be parsed is a build that fails, and a type error is none. Node.js before 20.10
takes a file for a module by its lines that begin with import or export.

For kind "calls" the function `entry` is one that the file exports, else one that it declares at the top
level, else its only or default export. Keyword arguments do not exist. Values cross over like this:

    from Python                   in JavaScript                 to Python
    None                          null, undefined, hole         None
    bool                          boolean                       bool
    int within 2**53 - 1          number, integral              int: 2.0 and 2 are one value there
    other int                     bigint                        int
    float                         other number, and -0          float
    str                           string                        str
    bytes, bytearray              Uint8Array, Buffer            bytes
    list, tuple, range, deque     Array                         list; in a key or set element, tuple
    set, frozenset                Set                           set; in a set element, frozenset
    dict with str keys only       plain object                  dict
    other dict                    Map                           dict

Nothing else crosses: an argument becomes an error "ArgumentError" of its call, a result is unencodable.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from sandbox.job import Job
from sandbox.languages.base import (
    CALLS,
    HARNESS,
    RESULTS,
    WORK,
    Language,
    Plan,
    Step,
    Toolchain,
    ToolchainMissing,
    ask,
    locate,
)
from sandbox.names import script_file, solution_file

_OLDEST = (18, 0)
# From here on node tells CommonJS from modules unasked; before, by a flag; before that, not at all.
_DETECTS = (20, 19)
_DETECTS_BY_FLAG = (20, 10)
_VISIBLE = ("/usr/", "/lib/", "/bin/")

# Threads beside the program's own: 6 from the start, 4 once libuv's pool is used (Threads in
# /proc/self/status before and after eight calls of crypto.pbkdf2, node 20).
_TASKS = 10
# An empty program has 7 MiB of its own (RssAnon there); V8's young generation may grow to 48 more.
_OVERHEAD_MB = 64
# V8's limit lies above the sandbox's, which then always acts first: V8 collects in vain for seconds, then
# aborts, and that looks like a crash.
_HEADROOM_MB = 64

# Names that no function of a file can have, or that mean something else at its top level.
_NOT_LOOKED_FOR = re.compile(
    "arguments|await|break|case|catch|class|const|continue|debugger|default|delete|do|else|enum|export|exports|"
    "extends|false|finally|for|function|if|implements|import|in|instanceof|interface|let|module|new|null|package|"
    "private|protected|public|require|return|static|super|switch|this|throw|true|try|typeof|undefined|var|void|"
    "while|with|yield"
)
_MODULE_LINE = re.compile(
    r"^\s*(?:import\b\s*[\w{*'\"]|export\b\s*(?:default|const|let|var|function|class|async|[{*]))", re.M
)
_CODE = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json")

# CommonJS where that will do, since only there do `require.main` and `__filename` exist; top-level await and
# import.meta need a module. Where both fail, the second says why.
_BUILD = """\
"$@" --format=cjs --log-override:empty-import-meta=error 2>/dev/null &&
  echo '{"type":"commonjs"}' >package.json && exit
"$@" --format=esm "--banner:js=$BANNER" && echo '{"type":"module"}' >package.json"""
# The harness: parts of one file, so that they share a scope that a program cannot reach.
_PARTS = ("intrinsics.js", "encode.js", "decode.js", "calls.js")
_BANNER = (
    'import { createRequire as __sandbox_require__ } from "module"; '
    "globalThis.require ??= __sandbox_require__(import.meta.url);"
)


def _find_node(title: str, packages: Sequence[str], *more: str) -> Toolchain:
    tools = locate(title, packages, "node", *more)
    # `node` may be a version manager's script; the program itself knows where it lies.
    said = ask(tools["node"], "-p", "process.version.slice(1) + ' ' + process.execPath")
    version, _, path = said.partition(" ")
    if not path:
        raise ToolchainMissing(f"{title}: {tools['node']} does not run; install it with: {_apt(packages)}")
    if _numbers(version) < _OLDEST:
        raise ToolchainMissing(
            f"{title}: {path} is Node.js {version}, and {_OLDEST[0]} is the oldest that will do"
        )
    tools["node"] = path
    binds = [tool for tool in tools.values() if not tool.startswith(_VISIBLE)]
    return Toolchain(tools, binds, version)


def _apt(packages: Sequence[str]) -> str:
    return f"apt-get install {' '.join(packages)}"


def _numbers(version: str) -> tuple[int, int]:
    major, minor, *_ = (*(int(part) for part in re.findall(r"\d+", version)), 0, 0)
    return major, minor


def _find_javascript() -> Toolchain:
    return _find_node("JavaScript", ("nodejs",))


def _find_typescript() -> Toolchain:
    found = _find_node("TypeScript", ("nodejs", "esbuild"), "esbuild")
    version = f"{found.version} {ask(found.tools['esbuild'], '--version')}"
    return Toolchain(found.tools, found.binds, version)


def _bytes(job: Job) -> dict[str, bytes]:
    return {name: text.encode("utf-8", "surrogatepass") for name, text in job.files.items()}


def _node(job: Job, toolchain: Toolchain) -> list[str]:
    flags = ["--no-warnings", f"--max-old-space-size={job.limits.memory_mb + _OVERHEAD_MB + _HEADROOM_MB}"]
    if _DETECTS_BY_FLAG <= _numbers(toolchain.version) < _DETECTS:
        flags.append("--experimental-detect-module")
    return [toolchain.tools["node"], *flags]


def _with_look(text: str, entry: str) -> str:
    """`text` with a last line that lets the harness see the file's own scope.

    A declaration, so that it cannot become the body of an unfinished `if` or arrow function.
    """
    if _NOT_LOOKED_FOR.fullmatch(entry):
        return text
    look = f'() => typeof {entry} === "undefined" ? undefined : {entry}'
    return f"{text}\nconst __sandbox_seen__ = __sandbox_take__({look});"


def _main(job: Job) -> str:
    return (job.entry or script_file(job.lang)) if job.kind == "script" else solution_file(job.lang)


def _sources(job: Job) -> dict[str, bytes]:
    main = _main(job)
    text = job.files[main].removeprefix("\ufeff")
    if job.kind == "calls":
        text = _with_look(text, job.entry)
    return {**_bytes(job), main: text.encode("utf-8", "surrogatepass")}


def _run(job: Job, toolchain: Toolchain, program: str, taken: Sequence[str]) -> tuple[dict[str, bytes], Step]:
    """The command that runs `program`, and the files that it needs beside the job's own, named `taken`."""
    node = _node(job, toolchain)
    if job.kind == "script":
        return {}, Step((*node, f"{WORK}/{program}", *job.argv))
    # The suffix keeps it CommonJS whatever package.json says.
    name = ".calls.cjs"
    while name in taken:
        name = f".{name}"
    argv = (*node, f"{WORK}/{name}", CALLS, str(RESULTS), f"{WORK}/{program}", job.entry)
    return {name: _harness()}, Step(argv)


@functools.cache
def _harness() -> bytes:
    return b"".join((HARNESS / part).read_bytes() for part in _PARTS)


def _plan_javascript(job: Job, toolchain: Toolchain) -> Plan:
    files = _sources(job)
    extra, run = _run(job, toolchain, _main(job), list(files))
    files.update(extra)
    if _numbers(toolchain.version) < _DETECTS_BY_FLAG and _MODULE_LINE.search(job.files[_main(job)]):
        files.setdefault("package.json", b'{"type":"module"}')
    return Plan(files=files, run=run)


def _plan_typescript(job: Job, toolchain: Toolchain) -> Plan:
    files = _sources(job)
    main = _main(job)
    program = f"{main.rsplit('.', 1)[0]}.js"
    while program in files:
        program = f"{program[:-3]}_.js"
    esbuild = (
        toolchain.tools["esbuild"],
        f"./{main}",
        "--bundle",
        "--platform=node",
        "--packages=external",
        f"--target=node{_numbers(toolchain.version)[0]}",
        "--charset=utf8",
        "--color=false",
        "--log-level=error",
        f"--outfile={program}",
    )
    data = {name: text for name, text in files.items() if name.endswith(".json") or not name.endswith(_CODE)}
    data.pop("package.json", None)
    extra, run = _run(job, toolchain, program, list(files))
    return Plan(
        files={name: text for name, text in files.items() if name.endswith(_CODE) or name == main},
        build=Step(("/bin/sh", "-c", _BUILD, "sh", *esbuild), {"BANNER": _BANNER}),
        keep=(program, "package.json"),
        run=run,
        data={**data, **extra},
    )


JAVASCRIPT = Language(
    name="javascript",
    title="JavaScript",
    packages=("nodejs",),
    find=_find_javascript,
    plan=_plan_javascript,
    tasks=_TASKS,
    address_space=False,
    overhead_mb=_OVERHEAD_MB,
)

TYPESCRIPT = Language(
    name="typescript",
    title="TypeScript",
    packages=("nodejs", "esbuild"),
    find=_find_typescript,
    plan=_plan_typescript,
    tasks=_TASKS,
    address_space=False,
    overhead_mb=_OVERHEAD_MB,
)
