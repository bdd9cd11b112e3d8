"""Names and ids of a few files in the tree of a commit, in repositories of both object formats."""

from __future__ import annotations

from collections.abc import Callable

from miner.gitcmd import git_tokens
from miner.repository import Repository

_FOLDER_MARK = "/"


def files_in(
    repository: Repository, commit: str, wanted: Callable[[str], bool], folder: str = ""
) -> dict[str, str]:
    """Name -> object id of the wanted files at the top of a commit's tree, or in one of its folders.

    Links and submodules are left out, and so are names that are not UTF-8.

    Raises:
        GitError: the tree cannot be read.
    """
    arguments = ["ls-tree", "-z", "--end-of-options", commit, *([folder + _FOLDER_MARK] if folder else [])]
    found = {}
    for entry in git_tokens(repository.objects, arguments, (), repository.object_format):
        about, _, raw = entry.partition(b"\t")
        mode, kind, oid = about.decode("ascii", "replace").split()
        try:
            name = raw.decode().removeprefix(folder + _FOLDER_MARK if folder else "")
        except UnicodeDecodeError:
            continue
        if kind == "blob" and mode != "120000" and wanted(name):
            found[name] = oid
    return found
