"""Ruby, the interpreter in C.

In: a `Job` whose `lang` is "ruby". Out: its `Plan`; nothing is built. Wrong: `ToolchainMissing`.

A script runs as `ruby main.rb` does. Gems are off, which saves most of the time that Ruby takes to start; the
standard library and the gems that come with Ruby (`prime`, `matrix`) can be required all the same. Other
files of the job are reached by `require_relative "lib"`.

For kind "calls" the function `entry` is the method that `entry(...)` would call at the end of the file,
unless it is one of Ruby's own. Keyword arguments are keyword arguments. Values cross over like this:

    from Python                   in Ruby                       to Python
    None, bool                    nil, true, false              None, bool
    int                           Integer                       int
    float                         Float                         float
    complex                       Complex                       complex
    Fraction                      Rational                      Fraction
    str                           String in UTF-8               str
    bytes, bytearray              String in ASCII-8BIT          bytes
    list, tuple, range, deque     Array                         list; in a key or set element, tuple
    set, frozenset                Set                           set; in a set element, frozenset
    dict                          Hash                          dict
                                  Symbol                        str

Nothing else crosses: an argument becomes an error "ArgumentError" of its call, a result is unencodable.
"""

from __future__ import annotations

import functools
import re

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

_PACKAGES = ("ruby",)
_OLDEST = (3, 0)
_VISIBLE = ("/usr/", "/lib/")
# Where each gem that came with the interpreter keeps what can be required; default gems need no path.
_ASK = (
    "base = File.join(RbConfig::CONFIG['rubylibprefix'], 'gems', RbConfig::CONFIG['ruby_version']);"
    "own = Gem::Specification.select { |gem| gem.base_dir == base && !gem.default_gem? };"
    "puts [RUBY_VERSION, RbConfig.ruby, RbConfig::CONFIG['prefix'],"
    ' *own.flat_map(&:full_require_paths).sort].join("\\t")'
)
# The harness: parts of one file, one module.
_PARTS = ("intrinsics.rb", "encode.rb", "decode.rb", "calls.rb")


def _find() -> Toolchain:
    ruby = locate("Ruby", _PACKAGES, "ruby")["ruby"]
    version, *rest = ask(ruby, "-e", _ASK).split("\t")
    if len(rest) < 2:
        raise ToolchainMissing(f"Ruby: {ruby} does not run; install it with: apt-get install ruby")
    path, prefix, *folders = rest
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ToolchainMissing(f"Ruby: {path} is Ruby {version}, and {oldest} is the oldest that will do")
    tools = {"ruby": path, **{f"path {index}": folder for index, folder in enumerate(folders)}}
    binds = [] if f"{prefix}/".startswith(_VISIBLE) else [prefix]
    return Toolchain(tools, binds, version)


@functools.cache
def _harness() -> bytes:
    return b"".join((HARNESS / part).read_bytes() for part in _PARTS)


def _plan(job: Job, toolchain: Toolchain) -> Plan:
    files = {name: text.encode("utf-8", "surrogatepass") for name, text in job.files.items()}
    paths = [f"-I{path}" for name, path in toolchain.tools.items() if name.startswith("path ")]
    ruby = (toolchain.tools["ruby"], "--disable-gems", "-EUTF-8", *paths)
    # Each further arena of malloc would take 64 MiB of a program's address space.
    env = {"MALLOC_ARENA_MAX": "1"}
    if job.kind == "script":
        return Plan(files, Step((*ruby, f"{WORK}/{job.entry or script_file('ruby')}", *job.argv), env))
    name = ".calls.rb"
    while name in files:
        name = f".{name}"
    argv = (*ruby, f"{WORK}/{name}", CALLS, str(RESULTS), f"{WORK}/{solution_file('ruby')}", job.entry)
    return Plan({**files, name: _harness()}, Step(argv, env))


RUBY = Language(
    name="ruby",
    title="Ruby",
    packages=_PACKAGES,
    find=_find,
    plan=_plan,
    # Later versions than 3.1 have a thread that keeps time.
    tasks=1,
    # Without a bound on its address space a program is stopped by the memory that it uses, whatever its kind;
    # with one a script would just leave with 1.
    address_space=False,
    # 6 MiB of its own (RssAnon in /proc/self/status) in an empty program, 8 with the harness.
    overhead_mb=16,
)
