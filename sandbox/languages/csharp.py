"""C# programs, by Mono: one mcs for all files (C# 7), then one runtime.

In: a job; all its .cs files are compiled together, with the libraries that mcs takes by itself and those for
big integers and for `dynamic`. Kind "script": the program's one Main runs. Kind "calls": a method of class
Solution; the head of harness/Calls.cs says which, and how values travel.
Out: a plan whose build keeps the one file "program.exe" or "Solution.dll".
Wrong: ToolchainMissing. Whatever is wrong with the program is for the compiler to say.

The program that calls is compiled once, on the host.
"""

from __future__ import annotations

import functools
import shutil
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

_TITLE = "C#"
_PACKAGES = ("mono-mcs", "libmono-system-numerics4.0-cil")
_HARNESS_FILES = ("Calls.cs", "Decode.cs", "Encode.cs")
# To be changed with what `_prepare` does.
_RECIPE = "1"
_REFERENCES = ("-r:System.Numerics", "-r:Microsoft.CSharp")
# No file in /dev/shm that tells other processes of this one, and none of the runtime's messages among what
# the program prints: it has some of a refused pthread_setschedparam, on standard output.
_ENVIRONMENT = {"MONO_DISABLE_SHARED_AREA": "1", "MONO_LOG_DEST": "/dev/null"}


def find() -> Toolchain:
    """Return the toolchain. The first call on a machine compiles our harness, in about 1 s."""
    tools = locate(_TITLE, _PACKAGES, "mcs", "mono")
    version = ask(tools["mono"], "--version")
    if not version:
        install = f"apt-get install {' '.join(_PACKAGES)}"
        raise ToolchainMissing(f"{_TITLE}: {tools['mono']} does not run; install it with: {install}")
    return _prepare(tools["mcs"], tools["mono"], version)


@functools.cache
def _prepare(compiler: str, mono: str, version: str) -> Toolchain:
    sources = {name: (HARNESS / name).read_bytes() for name in _HARNESS_FILES}

    def fill(draft: Path, _: Path) -> None:
        for name, data in sources.items():
            (draft / name).write_bytes(data)
        argv = [compiler, "-optimize+", "-nologo", "-r:System.Numerics", "-out:calls.exe", *sources]
        prepared.run_tool(argv, draft, _ENVIRONMENT)
        # Machine code ahead of time saves a third of a short run. It takes an assembler; the runtime does
        # without where there is none.
        if shutil.which("as") and shutil.which("ld"):
            prepared.run_tool([mono, "--aot", "calls.exe"], draft, _ENVIRONMENT)

    parts = [_RECIPE, version, mono, *(part for pair in sources.items() for part in pair)]
    folder = prepared.folder("csharp", parts, fill)
    settings = ["/etc/mono"] if Path("/etc/mono").is_dir() else []
    prefix = str(Path(mono).parent.parent)
    outside = [] if prefix == "/usr" or prefix.startswith("/usr/") else [prefix]
    return Toolchain(
        tools={"mcs": compiler, "mono": mono, "calls": f"{folder}/calls.exe"},
        binds=(*settings, *outside, folder),
        version=f"{version} {folder}",
    )


def plan(job: Job, toolchain: Toolchain) -> Plan:
    """Return how `job` is built and run; see the head of this module."""
    tools = toolchain.tools
    calls = job.kind == "calls"
    sources = {name: text for name, text in job.files.items() if name.endswith(".cs")}
    made = "Solution.dll" if calls else "program.exe"
    target = "library" if calls else "exe"
    options = ("-optimize+", "-nologo", "-unsafe+", *_REFERENCES, f"-target:{target}", f"-out:{made}")
    program: tuple[str, ...] = (f"{WORK}/{made}", *job.argv)
    if calls:
        program = (tools["calls"], job.entry, f"{WORK}/{made}", str(job.limits.result_kb << 10))
    # A program that fills this gets an OutOfMemoryException.
    heap = {"MONO_GC_PARAMS": f"max-heap-size={job.limits.memory_mb}m"}
    return Plan(
        files={name: _bytes(text) for name, text in sources.items()},
        build=Step((tools["mcs"], *options, *(f"./{name}" for name in sorted(sources))), _ENVIRONMENT),
        keep=(made,),
        run=Step((tools["mono"], *program), {**_ENVIRONMENT, **heap}),
        data={name: _bytes(text) for name, text in job.files.items() if not name.endswith(".cs")},
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


CSHARP = Language(
    name="csharp",
    title=_TITLE,
    packages=_PACKAGES,
    find=find,
    plan=plan,
    # Measured: an empty program has 4 threads and 20 MiB resident, one with 490 MiB of arrays 523 MiB. It has
    # 200 MiB of address space, and Mono ends at once where the kernel refuses it more.
    tasks=8,
    address_space=False,
    overhead_mb=48,
)
