"""Java programs: one javac for all files, then one JVM that is set to start fast and stay small.

In: a job; all its .java files are compiled together. Kind "script": the class to run is the one that the
file `entry` (Main.java) is named for, if it has a main; else the file's public class; else its first with a
main. Where its public class has another name than the file, the file is given that name, since many
published programs are stored so. Kind "calls": a method of class Solution; the head of harness/Calls.java
says which, and how values travel.
Out: a plan whose build keeps the folder "classes".
Wrong: ToolchainMissing. Whatever is wrong with the program is for the compiler to say.

The class that calls is compiled once, on the host, and the JVM keeps its own and the compiler's classes
ready to map in two archives, made there too; it ignores an archive that does not fit.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass, field
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
from sandbox.names import script_file

_TITLE = "Java"
_PACKAGES = ("default-jdk-headless",)
_OLDEST = 17
_HARNESS_FILES = ("Calls.java", "Encoder.java", "Node.java", "Values.java")
_MAIN = "sandbox.calls.Calls"
# To be changed with what `_prepare` does.
_RECIPE = "1"
_COMPILER_MB = 1536

# The collector with one thread, and as many helpers as on a small machine, whatever this one is. The JVM's
# own messages must not mix with what the program prints.
_COMMON = (
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:ActiveProcessorCount=2",
    "-XX:+DisplayVMOutputToStderr",
    "-Xlog:disable",
    "-Xshare:auto",
)
# A run of calls is short: compiling hot methods later and more simply saves a quarter of its time.
_SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=4")
_ENCODING = ("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dstderr.encoding=UTF-8")

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|""\"(?:[^\\]|\\.)*?""\"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'|[^\W\d]\w*|[^\s\w]',
    re.DOTALL,
)
_TYPES = {"class", "interface", "enum", "record"}


def find() -> Toolchain:
    """Return the toolchain. The first call on a machine compiles our harness, in about 4 s."""
    compiler = locate(_TITLE, _PACKAGES, "javac")["javac"]
    home = str(Path(compiler).parent.parent)
    java = f"{home}/bin/java"
    version = ask(java, "-version")
    number = re.search(r'"(\d+)', version)
    if number is None or int(number[1]) < _OLDEST:
        install = f"apt-get install {' '.join(_PACKAGES)}"
        raise ToolchainMissing(
            f"{_TITLE}: {java} is {version or 'broken'}, and {_OLDEST} is the oldest that will do; {install}"
        )
    return _prepare(home, compiler, java, version)


@functools.cache
def _prepare(home: str, compiler: str, java: str, version: str) -> Toolchain:
    sources = {name: (HARNESS / name).read_bytes() for name in _HARNESS_FILES}
    stamps = [str(Path(f"{home}/lib/{name}").stat().st_mtime_ns) for name in ("modules", "jvm.cfg")]
    parts = [_RECIPE, home, version, *stamps, *(part for pair in sources.items() for part in pair)]

    def fill_classes(draft: Path, _: Path) -> None:
        for name, data in sources.items():
            (draft / name).write_bytes(data)
        # Strings put together by a method handle would cost 15 ms at the first one.
        prepared.run_tool([compiler, "-nowarn", "-XDstringConcat=inline", "-d", "out", *sources], draft)
        manifest = draft / "manifest"
        manifest.write_text(f"Main-Class: {_MAIN}\nAdd-Opens: java.base/java.io java.base/java.util\n")
        prepared.run_tool(
            [f"{home}/bin/jar", "-c", "-f", "calls.jar", "-m", "manifest", "-C", "out", "."], draft
        )

    classes = prepared.folder("java", ["classes", *parts], fill_classes)

    def fill_archives(draft: Path, _: Path) -> None:
        flags = [*_COMMON, *_SHORT_RUN, f"-XX:ArchiveClassesAtExit={draft}/calls.jsa"]
        # Where the jar lies is written into the archive, so it must be in its place by now.
        prepared.run_tool([java, *flags, "-jar", f"{classes}/calls.jar"], draft)
        options = [f"-J{flag}" for flag in (*_COMMON, f"-XX:ArchiveClassesAtExit={draft}/javac.jsa")]
        files = [f"{classes}/{name}" for name in sources]
        prepared.run_tool([compiler, *options, "-nowarn", "-proc:none", "-d", "out", *files], draft)

    archives = prepared.folder("java-archives", ["archives", classes, *parts], fill_archives)
    return Toolchain(
        tools={"javac": compiler, "java": java, "classes": classes, "archives": archives},
        binds=(*_outside(home), classes, archives),
        version=f"{version} {classes}",
    )


def _outside(home: str) -> list[str]:
    """What the toolchain needs beyond /usr: itself, or the settings that a distribution keeps in /etc."""
    found = set() if home.startswith("/usr/") else {home}
    for part in ("conf", "lib"):
        for place, folders, names in os.walk(f"{home}/{part}"):
            for name in (*folders, *names):
                path = Path(place, name)
                if path.is_symlink() and (real := path.resolve()).is_relative_to("/etc"):
                    found.add(f"/etc/{real.parts[2]}")
    # Certificates and such are for programs that go out.
    return sorted(path for path in found if path == home or path.startswith("/etc/java"))


def plan(job: Job, toolchain: Toolchain) -> Plan:
    """Return how `job` is built and run; see the head of this module."""
    tools = toolchain.tools
    sources = {name: text for name, text in job.files.items() if name.endswith(".java")}
    limits = job.limits
    memory = (f"-Xmx{limits.memory_mb}m", f"-Xss{min(64, max(limits.memory_mb // 8, 2))}m")
    if job.kind == "calls":
        flags: tuple[str, ...] = (
            *_COMMON,
            *_SHORT_RUN,
            f"-XX:SharedArchiveFile={tools['archives']}/calls.jsa",
        )
        program: tuple[str, ...] = ("-jar", f"{tools['classes']}/calls.jar", job.entry)
        program += (f"{WORK}/classes", str(limits.result_kb << 10))
    else:
        flags = _COMMON
        entry = job.entry or script_file("java")
        file = _read(entry.rpartition("/")[2].removesuffix(".java"), sources[entry])
        if file.public not in (None, file.stem):
            name = f"{entry.rpartition('/')[0]}/{file.public}.java".lstrip("/")
            if name not in sources:
                sources[name] = sources.pop(entry)
        program = ("-cp", f"{WORK}/classes", file.main, *job.argv)
    # What lies in the working folder must not be taken for a compiled class or a source that nobody named.
    options = [
        "-proc:none",
        "-nowarn",
        "-implicit:none",
        "-encoding",
        "UTF-8",
        "-cp",
        "classes",
        "-d",
        "classes",
    ]
    compiler_flags = (
        *_COMMON,
        f"-Xmx{_COMPILER_MB}m",
        f"-XX:SharedArchiveFile={tools['archives']}/javac.jsa",
    )
    build = [tools["javac"], *(f"-J{flag}" for flag in (*compiler_flags, "-XX:TieredStopAtLevel=1"))]
    return Plan(
        files={name: _bytes(text) for name, text in sources.items()},
        build=Step((*build, *options, *(f"./{name}" for name in sorted(sources)))),
        keep=("classes",),
        run=Step((tools["java"], *flags, *memory, *_ENCODING, *program)),
        data={name: _bytes(text) for name, text in job.files.items() if not name.endswith(".java")},
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@dataclass(slots=True)
class _File:
    """What a source file declares at its top level: its package, and its types with or without a main."""

    stem: str
    package: str = ""
    public: str | None = None
    types: dict[str, bool] = field(default_factory=dict)

    @property
    def main(self) -> str:
        """The class to run."""
        wanted = [self.stem, *([self.public] if self.public else []), *self.types]
        found = next((name for name in wanted if self.types.get(name)), None)
        name = found or next((name for name in wanted if name in self.types), self.stem)
        return f"{self.package}.{name}" if self.package else name


def _read(stem: str, text: str) -> _File:
    """Look through a file's tokens; what is no Java is left to the compiler."""
    file = _File(stem)
    words = [word for word in _TOKEN.findall(text) if not word.startswith(("//", "/*"))]
    depth = 0
    public = False
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if word == "{":
            depth += 1
        elif word == "}":
            depth -= 1
            public = False
        elif depth == 0 and word == ";":
            public = False
        elif depth == 0 and word == "public":
            public = True
        elif depth == 0 and word == "package" and not file.types and not file.package:
            end = words.index(";", at) if ";" in words[at:] else at + 1
            file.package = "".join(words[at + 1 : end])
        elif depth == 0 and word in _TYPES and following.isidentifier():
            file.types[following] = False
            if public:
                file.public = following
        elif depth == 1 and word == "main" and words[at - 1] == "void" and following == "(" and file.types:
            file.types[list(file.types)[-1]] = True
    return file


JAVA = Language(
    name="java",
    title=_TITLE,
    packages=_PACKAGES,
    find=find,
    plan=plan,
    # Measured: an empty program has 14 threads, 36 MiB resident and 3.3 GiB of address space; one that fills
    # its heap of 512 MiB has 560 MiB resident, and code and classes come on top.
    tasks=16,
    address_space=False,
    overhead_mb=96,
)
