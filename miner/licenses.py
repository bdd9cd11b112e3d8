"""The licence of a repository, by the text of its licence file.

Texts are compared by their words alone. A file counts as a licence when the licence's own opening
stands near its start and its other marks follow; a file that is longer than the licence by far, or
opens with something else, is not recognised. What is not recognised gives None, never a guess.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import pygit2
from pygit2.enums import RepositoryOpenFlag

from miner.repository import trust_object_store

MAX_LICENSE_BYTES = 200_000
_MAX_FILES = 8
_HEADER_CHARS = 4000
_HEADER = re.compile(r"SPDX-License-Identifier:[ \t]*([A-Za-z0-9.+() -]{1,200})")
_NAME = re.compile(
    r"^(?:(?:un)?licen[cs]e|copying|mit-licen[cs]e|apache-licen[cs]e)(?:[.-](?:txt|md|rst|markdown|lesser|mit|apache"
    r"|apache2|apache-2\.0|bsd|mpl|mpl-2\.0|gpl|lgpl|agpl|isc|0bsd|zlib|unlicense|cc0))*$",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class _License:
    """Marks of a licence's text, as words. `head` stands in the first `within` words; the text has
    not more than `words` words."""

    spdx: str
    head: str
    marks: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    within: int = 120
    words: int = 1000


_BSD = "redistribution and use in source and binary forms with or without modification are permitted"
_MIT = "permission is hereby granted free of charge to any person obtaining a copy of this software"
_ISC = (
    "permission to use copy modify {}distribute this software for any purpose with or without fee "
    "is hereby granted"
)
_AS_IS = "the software is provided as is"
_KEEP_NOTICE = "permission notice appear in all copies"
_GNU = "general public license version"
_LICENSES = (
    _License("AGPL-3.0", f"gnu affero {_GNU} 3", ("remote network interaction",), within=30, words=7000),
    _License("LGPL-3.0", f"gnu lesser {_GNU} 3", ("combined works",), within=30, words=7500),
    _License("LGPL-2.1", f"gnu lesser {_GNU} 2 1", ("work that uses the library",), within=30, words=6000),
    _License("GPL-3.0", f"gnu {_GNU} 3", ("conveying verbatim copies",), within=30, words=7000),
    _License("GPL-2.0", f"gnu {_GNU} 2", ("copy and distribute verbatim copies",), within=30, words=4000),
    _License(
        "MPL-2.0",
        "mozilla public license version 2 0",
        ("covered software", "secondary license"),
        within=40,
        words=3500,
    ),
    _License("EPL-2.0", "eclipse public license v 2 0", ("secondary license",), within=40, words=3500),
    _License("EPL-1.0", "eclipse public license v 1 0", ("contributor",), within=40, words=2500),
    _License("Apache-2.0", "apache license version 2 0", ("grant of patent license",), within=40, words=2400),
    _License(
        "Apache-2.0",
        "licensed under the apache license version 2 0",
        ("you may not use this file except in compliance",),
        words=300,
    ),
    _License("Artistic-2.0", "the artistic license 2 0", ("standard version",), within=40, words=2500),
    _License("CC0-1.0", "cc0 1 0 universal", ("waiver",), within=120, words=1800),
    _License(
        "Unlicense",
        "this is free and unencumbered software released into the public domain",
        within=40,
        words=500,
    ),
    _License("BSL-1.0", "boost software license version 1 0", ("machine executable object code",), words=500),
    _License(
        "Zlib",
        "this software is provided as is without any express or implied warranty",
        ("must not be misrepresented", "altered source versions"),
        words=400,
    ),
    _License("BSD-4-Clause", _BSD, ("all advertising materials",), words=700),
    _License(
        "BSD-3-Clause", _BSD, ("endorse or promote products",), ("all advertising materials",), words=600
    ),
    _License(
        "BSD-2-Clause",
        _BSD,
        ("redistributions in binary form",),
        ("endorse or promote", "advertising"),
        words=500,
    ),
    _License("ISC", _ISC.format("and or "), (_KEEP_NOTICE,), words=350),
    _License("ISC", _ISC.format("and "), (_KEEP_NOTICE,), words=350),
    _License("0BSD", _ISC.format("and or "), (_AS_IS,), (_KEEP_NOTICE,), words=350),
    _License("MIT-0", _MIT, (_AS_IS,), ("permission notice shall be included",), words=350),
    _License(
        "MIT",
        _MIT,
        ("permission notice shall be included in all copies or substantial portions", _AS_IS),
        words=450,
    ),
    _License("WTFPL", "do what the fuck you want to public license", within=40, words=250),
)


def _words(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.lower().replace("(c)", " ")))


def license_of_text(text: str) -> str | None:
    """SPDX id of the licence that a text is, or None."""
    words = _words(text)
    count = words.count(" ") + 1
    for one in _LICENSES:
        start = words.find(one.head)
        if start < 0 or count > one.words or words.count(" ", 0, start) > one.within:
            continue
        if all(mark in words for mark in one.marks) and not any(mark in words for mark in one.absent):
            return one.spdx
    return None


def license_of_files(files: Sequence[tuple[str, str]]) -> str | None:
    """The licence of a repository with these licence files (name, text).

    Several files count as a choice when they are named for it (`LICENSE-MIT`, `LICENSE-APACHE`), the
    GNU lesser licence takes the place of the full one that it builds on, and several different
    licences without such names give None, as one unrecognised file does.
    """
    found = {name: license_of_text(text) for name, text in sorted(files)}
    ids = set(found.values())
    if any(one is not None and one.startswith("LGPL-3") for one in ids):
        ids.discard("GPL-3.0")
    if not ids or None in ids:
        return None
    if len(ids) == 1:
        return ids.pop()
    chosen = all(re.search(r"licen[cs]e-\w", name, re.IGNORECASE) for name in found)
    return " OR ".join(sorted(one for one in ids if one is not None)) if chosen else None


def license_of_header(content: str) -> str | None:
    """The SPDX expression of a file's own `SPDX-License-Identifier`, or None."""
    match = _HEADER.search(content[:_HEADER_CHARS])
    return match[1].strip() if match else None


def repository_license(path: Path, commit: str) -> str | None:
    """The licence that the licence files at the top of a commit's tree tell, or None."""
    trust_object_store()
    try:
        repo = pygit2.Repository(str(path), RepositoryOpenFlag.NO_SEARCH)
        files = []
        for entry in repo[commit].peel(pygit2.Tree):
            name = entry.name or ""
            if entry.type_str != "blob" or not _NAME.match(name) or entry.filemode == 0o120000:
                continue
            if repo.odb.read_header(entry.id)[1] > MAX_LICENSE_BYTES:
                return None
            files.append((name, bytes(repo.odb.read(entry.id)[1]).decode("utf-8", "replace")))
    except (pygit2.GitError, KeyError, ValueError, UnicodeError):
        return None
    return license_of_files(files) if len(files) <= _MAX_FILES else None
