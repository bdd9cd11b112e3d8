"""The files that come with a change of one source file: its tests, documents, changelogs and examples.

In: a commit's changed files. Out: the one source file that was changed and the paths of the others, or None
where more than one file is no companion, or none is. Files are told by their paths alone. A companion may be
added, changed or deleted; a link or a submodule is none. Nothing is raised.
"""

from __future__ import annotations

import re

from miner.checks import is_test_file
from miner.history import Change, FileChange
from miner.languages import languages_of_path

MOST = 30
"""Files of a commit that are looked at; one with more is no change of one file."""
_MAX_PATH = 4096

_FOLDERS = re.compile(
    r"(?:^|/)(?:docs?|documentation|manual|man|examples?|samples?|demos?|test[-_]\w+|\w+[-_.]tests?"
    r"|changes|changelogs?|changelog\.d|newsfragments|news\.d|release[-_]?notes|releasenotes)/",
    re.IGNORECASE,
)
_DOCUMENTS = re.compile(
    r"\.(?:md|markdown|rst|adoc|asciidoc|textile|rdoc|pod|mdx|[1-8]|[1-8]\.in|[1-8]\.xml)$", re.IGNORECASE
)
_NAMES = re.compile(
    r"(?:^|/)(?:readme|changes?|changelog|history|news|authors|contributors|thanks|todo|release[-_]?notes"
    r"|upgrading|what'?s[-_ ]?new)(?:[-_.][^/]*)?$",
    re.IGNORECASE,
)
"""Names of documents, unless their ending is that of a source file."""


def is_companion(path: str) -> bool:
    """Whether a path is that of a test, a document, a changelog or an example."""
    if _DOCUMENTS.search(path) or _FOLDERS.search(path) or is_test_file(path):
        return True
    return _NAMES.search(path) is not None and not languages_of_path(path)


def source_and_companions(change: Change) -> tuple[FileChange, list[str]] | None:
    """The one changed file that is no companion, and the paths of those that are, in order."""
    source, companions = None, []
    for file in change.all_files:
        try:
            path = file.path.decode()
        except UnicodeDecodeError:
            return None
        plain = not {file.old_mode, file.new_mode} & {"120000", "160000"}
        if plain and len(path) < _MAX_PATH and is_companion(path):
            companions.append(path)
        elif source is not None:
            return None
        else:
            source = file
    return None if source is None else (source, companions)
