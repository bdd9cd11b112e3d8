"""The code that runs on the far side, compiled once a supervisor.

In: nothing. Out: the command line that boots a bare interpreter, and the bytes it reads first. They hold
our own modules as code objects: marshal is safe here, since both ends are this interpreter and the file
between them is sealed. Without this each job would compile the modules anew wherever no byte code can be
cached, and search the path for them wherever it can.
"""

from __future__ import annotations

import functools
import marshal
import os
import sys
from pathlib import Path

# Each module before those that import it; an empty path marks a package.
_MODULES = (
    ("sandbox", ""),
    ("sandbox.codec", "codec.py"),
    ("sandbox.frames", "frames.py"),
    ("sandbox.inside", ""),
    ("sandbox.inside.suite", "inside/suite.py"),
    ("sandbox.inside.recorder", "inside/recorder.py"),
    ("sandbox.inside.harness", "inside/harness.py"),
    ("sandbox.inside.kernel", "inside/kernel.py"),
    ("sandbox.inside.root", "inside/root.py"),
    ("sandbox.inside.launch", "inside/launch.py"),
)
_BOOT = """
import marshal, sys
with open(int(sys.argv[1]), "rb", closefd=False) as file:
    size = int.from_bytes(file.read(4), "little")
    for name, code in marshal.loads(file.read(size)):
        module = sys.modules[name] = type(sys)(name)
        above, _, last = name.rpartition(".")
        if above:
            setattr(sys.modules[above], last, module)
        module.__path__ = []
        if code:
            exec(code, module.__dict__)
    config = file.read()
sys.modules["sandbox.inside.launch"].main(config, sys.argv[1:])
"""


@functools.cache
def bundle() -> bytes:
    """Return the far side's modules, preceded by their length in four bytes."""
    here = Path(__file__).parent
    parts = []
    for name, path in _MODULES:
        code = None
        if path:
            code = compile((here / path).read_bytes(), str(here / path), "exec", dont_inherit=True)
        parts.append((name, code))
    data = marshal.dumps(parts)
    return len(data).to_bytes(4, "little") + data


def command(descriptors: list[int]) -> list[str]:
    """Return the command line of a launcher; the first descriptor is the file that holds `bundle` and job."""
    options = ("-P", "-s", "-S", "-B", "-X", "utf8", "-c", _BOOT)
    return [executable(), *options, *map(str, descriptors)]


@functools.cache
def executable() -> str:
    """The interpreter itself, not a virtual environment's link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
