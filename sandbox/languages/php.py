"""PHP on the command line.

In: a `Job` whose `lang` is "php". Out: its `Plan`; nothing is built. Wrong: `ToolchainMissing`.

A script runs as `php main.php` does, without the machine's php.ini: errors go to standard error, output is
not buffered, and the extensions of everyday use are loaded where they are installed. A file without `<?php`
is taken to be code from its first line. Other files of the job are reached by `require "./lib.php"`.

For kind "calls" the function `entry` is the one that the file declares, in any namespace. Keyword arguments
are named arguments. Values cross over like this:

    from Python                         in PHP                    to Python
    None, bool                          null, bool                None, bool
    int of 64 bits                      int                       int
    float                               float                     float
    str                                 string, valid UTF-8       str
    bytes, bytearray                    other string              bytes
    list, tuple, range, deque           array that is a list      list
    set, frozenset                      array that is a list      list
    dict with int, str or bytes keys    other array               dict
                                        object of class stdClass  dict

PHP itself makes the key "1" the key 1, an empty dict an empty list, and of bytes that are valid UTF-8 a str.
Nothing else crosses: an argument becomes an error "ArgumentError" of its call, a result is unencodable.
"""

from __future__ import annotations

import re
from pathlib import Path

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

_PACKAGES = ("php-cli",)
_OLDEST = (8, 1)
_VISIBLE = ("/usr/", "/lib/", "/bin/")
_ASK = (
    r'echo PHP_VERSION, "\t", PHP_BINARY, "\t", PHP_EXTENSION_DIR, "\t", '
    r'implode(",", array_map("strtolower", get_loaded_extensions()));'
)
# Without php.ini an extension is loaded only when it is named.
_EXTENSIONS = (
    *(
        "bcmath",
        "calendar",
        "ctype",
        "exif",
        "fileinfo",
        "gettext",
        "gmp",
        "iconv",
        "intl",
        "mbstring",
        "posix",
    ),
    *("readline", "shmop", "sockets", "sysvmsg", "sysvsem", "sysvshm", "tokenizer"),
)
_TAG = re.compile(r"^\s*<\?(?:php|=)", re.IGNORECASE | re.MULTILINE)


def _find() -> Toolchain:
    php = locate("PHP", _PACKAGES, "php")["php"]
    version, *rest = ask(php, "-n", "-r", _ASK).split("\t")
    if len(rest) != 3:
        raise ToolchainMissing(f"PHP: {php} does not run; install it with: apt-get install {_PACKAGES[0]}")
    path, folder, loaded = rest
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ToolchainMissing(f"PHP: {path} is PHP {version}, and {oldest} is the oldest that will do")
    missing = [name for name in _EXTENSIONS if name not in loaded.split(",")]
    extensions = {
        f"extension {name}": f"{folder}/{name}.so" for name in missing if Path(folder, f"{name}.so").exists()
    }
    binds = [place for place in (path, folder) if not place.startswith(_VISIBLE) and Path(place).exists()]
    return Toolchain({"php": path, **extensions}, binds, version)


def _with_tag(text: str) -> bytes:
    """The text as a file that PHP runs; on one line with its beginning, so that lines keep their numbers."""
    text = text.removeprefix("\ufeff")
    if not _TAG.search(text):
        text = f"<?php {text}"
    return text.encode("utf-8", "surrogatepass")


def _plan(job: Job, toolchain: Toolchain) -> Plan:
    main = (job.entry or script_file("php")) if job.kind == "script" else solution_file("php")
    files = {name: text.encode("utf-8", "surrogatepass") for name, text in job.files.items()}
    files[main] = _with_tag(job.files[main])
    settings = [
        # The sandbox stops a program that takes too much; at PHP's own limit a script would leave with 255.
        "memory_limit=-1",
        "display_errors=stderr",
        "log_errors=0",
        "output_buffering=0",
        *(f"extension={path}" for name, path in toolchain.tools.items() if name.startswith("extension ")),
    ]
    php = (toolchain.tools["php"], "-n", *(part for setting in settings for part in ("-d", setting)))
    if job.kind == "script":
        return Plan(files, Step((*php, f"{WORK}/{main}", *job.argv)))
    name = ".calls.php"
    while name in files:
        name = f".{name}"
    argv = (*php, f"{WORK}/{name}", CALLS, str(RESULTS), f"{WORK}/{main}", job.entry)
    return Plan({**files, name: (HARNESS / "calls.php").read_bytes()}, Step(argv))


PHP = Language(
    name="php",
    title="PHP",
    packages=_PACKAGES,
    find=_find,
    plan=_plan,
    # For the same reason its address space is not bound.
    address_space=False,
    # 3 MiB of its own (RssAnon in /proc/self/status) in an empty program, 5 with the harness.
    overhead_mb=16,
)
