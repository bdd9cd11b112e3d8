"""A mount namespace in which an ordinary user can reach folders below a private home of root.

In: on a descriptor, the encoded pairs of a private folder and the paths below it that are needed. Out:
"ready" on standard output, and this process waits in that namespace until its standard input ends, so that
the supervisor can hold on to it. There each private folder is empty but for these paths, read-only.
Wrong: "error <text>" on standard output, and nothing is left.
"""

# pathlib would cost more to import than the rest of this module.
# ruff: noqa: PTH103, PTH112, PTH120

from __future__ import annotations

import os

from sandbox import codec
from sandbox.inside import kernel

TYPE_CHECKING = False  # importing typing would cost more than the rest of the far side
if TYPE_CHECKING:
    from typing import NoReturn

_READ_ONLY = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV


def main(argv: list[str]) -> NoReturn:
    try:
        with open(int(argv[0]), "rb") as file:  # noqa: PTH123 - a descriptor
            covered: dict[str, list[str]] = codec.decode(file.read())
        kernel.unshare(kernel.CLONE_NEWNS, "mount")
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
        for folder, paths in covered.items():
            _uncover(folder, paths)
        word = b"ready"
    except (OSError, ValueError) as error:
        word = f"error {error}".encode()
    os.write(1, word)
    os.close(1)
    if word == b"ready":
        os.read(0, 1)
    os._exit(0)


def _uncover(folder: str, paths: list[str]) -> None:
    """Put an open folder over a private one, with nothing in it but `paths`."""
    held = [(path, os.open(path, os.O_PATH)) for path in paths]
    kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,mode=755")
    for path, number in held:
        if os.path.isdir(f"/proc/self/fd/{number}"):
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        kernel.mount(f"/proc/self/fd/{number}", path, flags=kernel.MS_BIND | kernel.MS_REC)
        kernel.mount("none", path, flags=kernel.MS_BIND | kernel.MS_REMOUNT | _READ_ONLY)
        os.close(number)
