"""Go programs, compiled and linked by the toolchain's own two programs, without the `go` command.

In: a job. Kind "script": the file `entry` (main.go) and the other .go files of its folder are package main.
Kind "calls": the .go files beside solution.go are one package, whatever its clause says; where solution.go
has none, "package main;" is put before its first line. It is imported by the program that calls, so that
its function may have any name (also a small first letter) and a `func main` of its own never runs.
Further packages are folders below, imported under the module's name as go.mod (or "solution") tells it.
Files are taken whatever their build constraints say, except *_test.go. No cgo, no //go:embed, no assembler,
no package that is neither in the standard library nor in the job.
Out: a plan whose build keeps the one file "program".
Wrong: ToolchainMissing. Whatever is wrong with the program is for the compiler to say.

The `go` command would keep a build cache, which one hostile build could fill for the next; without one it
takes twice as long. Toolchains before 1.20 ship the compiled standard library; later ones have it compiled
once, on the host, with our harness.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from sandbox.job import Job
from sandbox.languages import prepared
from sandbox.languages.base import (
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
from sandbox.names import script_file, solution_file

_TITLE = "Go"
_PACKAGES = ("golang-go",)
_HARNESS_FILES = ("calls.go", "decode.go", "encode.go")
_MACHINES = {"x86_64": "linux_amd64", "aarch64": "linux_arm64"}
# The import paths of the solution, where no go.mod tells another, and of our harness.
_MODULE = "solution"
_CALLS = "sandbox/calls"
# To be changed with what `_prepare` does.
_RECIPE = "1"
# The folder of what we add, below `WORK`.
_OURS = ".sandbox"
_ENTRY = "SandboxEntry"
# Parts of an import path that only the standard library itself may use.
_PRIVATE = {"internal", "vendor", "cmd"}

# What may stand before and between the parts of a file's head, and those parts.
_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<word>[^\W\d]\w*)|(?P<text>"(?:[^"\\\n]|\\.)*"|`[^`]*`)|(?P<sign>[().;])""",
    re.DOTALL,
)
_OTHER_DECLARATIONS = {"func", "var", "const", "type"}
_GO_MOD = re.compile(r"^\s*module\s+\"?([\w.~-]+(?:/[\w.~-]+)*)\"?\s*(?://.*)?$", re.MULTILINE)
_GO_VERSION = re.compile(r"^\s*go\s+(1\.\d+)", re.MULTILINE)


def find() -> Toolchain:
    """Return the toolchain. The first call on a machine compiles our harness, and the library if need be."""
    command = locate(_TITLE, _PACKAGES, "go")["go"]
    root = Path(command).parent.parent
    machine = _MACHINES.get(platform.machine(), "linux_" + platform.machine())
    if not (root / "pkg" / "tool" / machine).is_dir():
        # A wrapper, such as pip's.
        root = Path(os.path.realpath(ask(command, "env", "GOROOT") or "/nonexistent"))
    tools = {name: str(root / "pkg" / "tool" / machine / name) for name in ("compile", "link")}
    for path in tools.values():
        if not Path(path).is_file():
            install = f"apt-get install {' '.join(_PACKAGES)}"
            raise ToolchainMissing(f"{_TITLE}: {command} has no {path}; install it with: {install}")
    return _prepare(root, machine, tools["compile"], tools["link"])


@functools.cache
def _prepare(root: Path, machine: str, compiler: str, linker: str) -> Toolchain:
    version = (root / "VERSION").read_text(encoding="utf-8").split("\n", 1)[0]
    sources = {name: (HARNESS / name).read_bytes() for name in _HARNESS_FILES}
    shipped = root / "pkg" / machine
    own = not (shipped / "runtime.a").is_file()

    def fill(draft: Path, final: Path) -> None:
        library = draft / "std" if own else shipped
        seen = final / "std" if own else shipped
        if own:
            _compile_library(root, library)
        names = sorted(str(path.relative_to(library))[:-2] for path in library.rglob("*.a"))
        public = [name for name in names if not _PRIVATE & set(name.split("/"))]
        lines = [f"packagefile {name}={seen}/{name}.a\n" for name in public]
        (draft / "importcfg").write_text("".join(lines), encoding="utf-8")
        with tempfile.TemporaryDirectory() as work:
            for name, data in sources.items():
                Path(work, name).write_bytes(data)
            (draft / "sandbox").mkdir()
            archive = str(draft / "sandbox" / "calls.a")
            options = [
                "-p",
                _CALLS,
                "-complete",
                "-pack",
                "-trimpath",
                work,
                "-I",
                str(library),
                "-o",
                archive,
            ]
            prepared.run_tool([compiler, *options, *sources], Path(work))

    # A distribution may mend a toolchain without a new version.
    stamps = [str(Path(tool).stat().st_mtime_ns) for tool in (compiler, linker)]
    parts = [_RECIPE, version, str(root), *stamps, *(part for pair in sources.items() for part in pair)]
    folder = prepared.folder("go", parts, fill)
    binds = [folder] if _visible(str(root)) else [folder, str(root)]
    tools = {"compile": compiler, "link": linker, "sh": os.path.realpath("/bin/sh")}
    tools |= {"prepared": folder, "library": f"{folder}/std" if own else str(shipped)}
    return Toolchain(tools=tools, binds=binds, version=f"{version} {folder}")


def _visible(path: str) -> bool:
    return path.startswith("/usr/")


def _compile_library(root: Path, target: Path) -> None:
    """Compile the standard library into `target`: one archive a package, as old toolchains shipped it."""
    with tempfile.TemporaryDirectory() as work:
        env = {
            "GOROOT": str(root),
            "GOCACHE": f"{work}/cache",
            "GOPATH": f"{work}/path",
            "GOENV": "off",
            "GOFLAGS": "",
            "GOTOOLCHAIN": "local",
            "GO111MODULE": "off",
            "CGO_ENABLED": "0",
        }
        shown = "{{if .Export}}{{.ImportPath}}\t{{.Export}}{{end}}"
        argv = [str(root / "bin" / "go"), "list", "-export", "-gcflags=all=-dwarf=false", "-f", shown, "std"]
        for line in prepared.run_tool(argv, Path(work), env).splitlines():
            if line:
                name, _, path = line.partition("\t")
                archive = target / f"{name}.a"
                archive.parent.mkdir(parents=True, exist_ok=True)
                archive.write_bytes(Path(path).read_bytes())


def plan(job: Job, toolchain: Toolchain) -> Plan:
    """Return how `job` is built and run; see the head of this module."""
    tools = toolchain.tools
    calls = job.kind == "calls"
    main = solution_file("go") if calls else job.entry or script_file("go")
    sources = {name: text.removeprefix("\ufeff") for name, text in job.files.items() if name.endswith(".go")}
    if calls and _head(sources[main])[0] is None:
        sources[main] = "package main;" + sources[main]
    files = {name: _bytes(text) for name, text in sources.items()}
    folders = _folders(sources)
    own = [main, *(name for name in folders.get(_parent(main), []) if name != main)]
    compiler, lines, archives = _local_packages(job, tools["compile"], sources, folders, _parent(main), files)
    link = f"{shlex.quote(tools['link'])} -s -w -L {shlex.quote(tools['library'])} -L {_OURS}/lib"
    if calls:
        archives[_CALLS] = f"{tools['prepared']}/{_CALLS}.a"
        files |= _shims(_head(sources[main])[0] or "main", job.entry)
        lines += _calls_script(compiler, own, tools)
        link += f' -L {shlex.quote(tools["prepared"])} -X {_CALLS}.why="$why"'
    else:
        lines.append(_command(compiler, "main", f"{_OURS}/main.a", own))
    lines.append(f"{link} -o program {_OURS}/main.a")
    config = [
        _library(tools["prepared"]),
        *(f"packagefile {path}={name}\n" for path, name in archives.items()),
    ]
    files[f"{_OURS}/importcfg"] = "".join(config).encode()
    return Plan(
        files=files,
        build=Step((tools["sh"], "-c", "\n".join(["exec 1>&2", "set -e", *lines]))),
        keep=("program",),
        run=_run(job, calls),
        data={name: _bytes(text) for name, text in job.files.items() if name not in sources},
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _local_packages(
    job: Job,
    tool: str,
    sources: Mapping[str, str],
    folders: Mapping[str, list[str]],
    root: str,
    files: dict[str, bytes],
) -> tuple[str, list[str], dict[str, str]]:
    """Return the compiler's command, the commands for the packages in folders, and path -> archive of those.

    For kind "calls" a file is added to `files` for each package.
    """
    module = _GO_MOD.search(job.files.get("go.mod", ""))
    version = _GO_VERSION.search(job.files.get("go.mod", ""))
    compiler = f"{shlex.quote(tool)} -complete -pack -trimpath {WORK} -importcfg {_OURS}/importcfg"
    if version:
        compiler += f" -lang=go{version[1]}"
    lines, archives = [], {}
    for number, (folder, path) in enumerate(
        _local(root, folders, module[1] if module else _MODULE, sources).items()
    ):
        names = folders[folder]
        if job.kind == "calls":
            names = [*names, f"{_OURS}/guard{number}.go"]
            files[names[-1]] = _guard(_head(sources[names[0]])[0] or "main")
        archives[path] = f"{_OURS}/lib/{path}.a"
        lines.append(f"mkdir -p {shlex.quote(_parent(archives[path]))}")
        lines.append(_command(compiler, path, archives[path], names))
    return compiler, lines, archives


def _run(job: Job, calls: bool) -> Step:
    memory_mb = job.limits.memory_mb
    # The collector works harder near this, rather than let garbage take the program over its limit.
    env = {"GOMAXPROCS": "1", "GOMEMLIMIT": f"{memory_mb * 9 // 10}MiB"}
    # A stack is moved to one of twice the size when it is full, and both are there for a moment.
    ours = (str(job.limits.result_kb << 10), str((memory_mb << 20) // 3))
    return Step((f"{WORK}/program", *(ours if calls else job.argv)), env)


@functools.cache
def _library(folder: str) -> str:
    return Path(folder, "importcfg").read_text(encoding="utf-8")


def _command(compiler: str, path: str, archive: str, names: list[str]) -> str:
    quoted = " ".join(shlex.quote(f"./{name}") for name in names)
    return f"{compiler} -p {shlex.quote(path)} -o {shlex.quote(archive)} {quoted}"


def _calls_script(compiler: str, names: list[str], tools: Mapping[str, str]) -> list[str]:
    """Compile the solution with a file that names its function; where that fails but it compiles alone, the
    function is what lacks, and the program is one that says so."""
    archive = f"{_OURS}/lib/{_MODULE}.a"
    with_entry, alone = (
        _command(compiler, _MODULE, archive, [*names, f"{_OURS}/{name}.go"]) for name in ("entry", "guard")
    )
    include = f"-I {shlex.quote(tools['library'])} -I {shlex.quote(tools['prepared'])} -I {_OURS}/lib"
    return [
        f"mkdir -p {_OURS}/lib",
        "why= main=run",
        f"if ! {with_entry} >{_OURS}/why 2>&1; then",
        f"  {alone}",
        "  main=missing",
        f"  read -r why <{_OURS}/why || :",
        "  why=${why#*: }",
        "fi",
        f"{shlex.quote(tools['compile'])} -p main -complete {include} -o {_OURS}/main.a {_OURS}/$main.go",
    ]


def _guard(package: str) -> bytes:
    """A file that has our harness initialised before the package it is in."""
    return f'package {package}\n\nimport _ "{_CALLS}"\n'.encode()


def _shims(package: str, entry: str) -> dict[str, bytes]:
    function = f"\nfunc {_ENTRY}() interface{{}} {{ return {entry} }}\n"
    main = f'package main\n\nimport (\n\t"{_CALLS}"\n\tsolution "{_MODULE}"\n)\n\nfunc main() {{ %s }}\n'
    missing = main.replace("solution ", "_ ")
    return {
        f"{_OURS}/guard.go": _guard(package),
        f"{_OURS}/entry.go": _guard(package) + function.encode(),
        f"{_OURS}/run.go": (main % f'calls.Run("{entry}", solution.{_ENTRY}())').encode(),
        f"{_OURS}/missing.go": (missing % f'calls.Missing("{entry}")').encode(),
    }


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


def _folders(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """The files of each folder, tests left out."""
    folders: dict[str, list[str]] = {}
    for name in sorted(sources):
        if not name.endswith("_test.go"):
            folders.setdefault(_parent(name), []).append(name)
    return folders


def _local(
    root: str, folders: Mapping[str, list[str]], module: str, sources: Mapping[str, str]
) -> dict[str, str]:
    """The folders that the package in `root` needs, each before those that import it, and their paths.

    A cycle is left in: the compiler will lack one of its packages.
    """
    paths = {f"{module}/{folder}": folder for folder in folders if folder not in ("", root)}
    paths = {path: folder for path, folder in paths.items() if not path.startswith(_CALLS)}
    order: dict[str, str] = {}
    seen = {root}
    # (folder, whether what it imports has been visited): a stack, since a chain may be as long as it likes.
    stack = [(root, False)]
    while stack:
        folder, ready = stack.pop()
        if ready:
            order[folder] = f"{module}/{folder}"
            continue
        if folder != root:
            stack.append((folder, True))
        for name in folders[folder]:
            for path in _head(sources[name])[1]:
                wanted = paths.get(path)
                if wanted is not None and wanted not in seen:
                    seen.add(wanted)
                    stack.append((wanted, False))
    return order


def _head(text: str) -> tuple[str | None, list[str]]:
    """Return the name in the package clause, None where there is none, and the paths of the imports."""
    tokens = _tokens(text)
    if next(tokens, "") != "package":
        return None, []
    package = next(tokens, "")
    imports: list[str] = []
    for part in tokens:
        if part in _OTHER_DECLARATIONS:
            break
        if part[0] in '"`':
            imports.append(part[1:-1])
    return package, imports


def _tokens(text: str) -> Iterator[str]:
    """The tokens of a file's head; the first thing that cannot stand there ends them."""
    at = 0
    while (match := _TOKEN.match(text, at)) is not None:
        at = match.end()
        if match.lastgroup != "skip":
            yield match[0]


GO = Language(
    name="go",
    title=_TITLE,
    packages=_PACKAGES,
    find=find,
    plan=plan,
    # Measured with GOMAXPROCS=1: an empty program has 3 threads, 711 MiB of address space and 2 MiB resident;
    # a blocking system call (reading its input) holds a thread of its own.
    tasks=6,
    address_space=False,
    overhead_mb=4,
)
