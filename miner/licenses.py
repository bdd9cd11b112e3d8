"""The licence of a repository by its licence files, and of a source file by what stands at its top.

Both are SPDX expressions as `miner.spdx` writes them, or None: what is not recognised is never guessed.
Manifests (`package.json`, `Cargo.toml`) are not read: they speak for a package, not for a repository, and
the licence file beside them is what binds.

The text of a GNU licence does not tell whether later versions may be chosen: it counts as `-only`, the
smaller grant, when nothing before the text says otherwise. Exceptions that only add permissions to a text
are not told.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from miner import spdx
from miner.blobs import MissingBlob, TooLarge, open_blobs
from miner.gitcmd import GitError
from miner.licensetexts import (
    Found,
    notices_in,
    offers_choice,
    text_is_license,
    texts_in,
    words_of,
)
from miner.repository import Repository
from miner.trees import files_in

MAX_LICENSE_BYTES = 200_000
_MAX_FILES = 8
_MAX_REUSE_FILES = 40
_POINTER_WORDS = 300
"""A licence file with fewer words may name a licence in place of its text."""
_NAME = re.compile(
    r"(?:(?:un)?licen[cs]e|copying|(?:mit|apache|bsd|gpl|lgpl|agpl|mpl)[-_.]licen[cs]e)[0-9]?"
    r"(?:[-_.](?:txt|md|rst|markdown|adoc|html|lesser|lib|mit|x11|apache|apache2|apachev2|bsd|bsd2|bsd3|mpl|mpl2"
    r"|gpl|gpl2|gpl3|gplv2|gplv3|lgpl|lgpl2|lgpl3|lgplv3|agpl|agpl3|agplv3|isc|0bsd|zlib|boost|bsl|unlicense|cc0"
    r"|epl|[0-9]|[0-9]-clause))*",
    re.IGNORECASE,
)
_REUSE_FOLDER = "LICENSES"
_NOT_FOR_CODE = re.compile(r"CC|OFL|GFDL|FSFAP|Bitstream|Ubuntu-font")

_TAG = re.compile(r"^(.*?)SPDX-License-Identifier:[ \t]*([A-Za-z0-9.+()/: \t-]*)", re.MULTILINE)
_TAG_CHARS, _COMMENT_CHARS = 4000, 5000
_MAX_LINE = 400
_TRAILING = re.compile(r"[^A-Za-z0-9)+]+\Z")
_QUOTES = re.compile(r"\"{3}|'{3}")
_COMMENT = re.compile(r"//|#|\*|--|;|%|@?rem\b|dnl\b|<!--|\{-|\(\*", re.IGNORECASE)
_OPENS = re.compile(r"/\*|\"{3}|'{3}|<!--|=begin|\{-|\(\*")
_CLOSES = {"/*": "*/", '"""': '"""', "'''": "'''", "<!--": "-->", "=begin": "=end", "{-": "-}", "(*": "*)"}
_HINTS = ("licen", "permission", "redistribution")
_AFTER_HINT = 1500


def _text_ids(text: str) -> tuple[tuple[str, ...], bool]:
    """Licences that one licence file gives, and whether one of them may be chosen."""
    tagged = _tags(text)
    words = words_of(text)
    found = text_is_license(words)
    if found.ids:
        ids = _with_later(found)
        if any(one.startswith("LGPL-3.0") for one in ids):
            # The lesser licence is the full one with permissions added.
            ids = tuple(one for one in ids if not one.startswith("GPL-3.0"))
        return ids, offers_choice(found.before)
    if tagged is not None:
        return ((tagged,) if tagged else ()), False
    if words.count(" ") < _POINTER_WORDS and not texts_in(words).ids:
        return tuple(sorted(notices_in(words))), offers_choice(words)
    return (), False


def _with_later(found: Found) -> tuple[str, ...]:
    """Ids of texts, `-or-later` where the words before the first say so."""
    said = notices_in(found.before)
    return tuple(
        later if (later := one.replace("-only", "-or-later")) != one and later in said else one
        for one in found.ids
    )


def license_of_text(text: str) -> str | None:
    """SPDX expression of the licence or licences that a text is, or None.

    Several, one after the other, are a choice when the words before the first offer one; else all of
    them hold.
    """
    ids, choice = _text_ids(text)
    return spdx.join("OR" if choice else "AND", ids)


def license_of_files(files: Sequence[tuple[str, str]]) -> str | None:
    """The licence of a repository with these licence files (path, text).

    * Files named for their licence (`LICENSE-MIT`, `LICENSE-APACHE`) are a choice, and so is what a file that
      says so points to. Of a GNU lesser licence and the full one that it builds on, the lesser counts.
    * Without a file at the top, `LICENSES/<id>.txt` tell by their names (REUSE specification). All of them
      hold, those for texts and pictures left out; a choice among them stands in each file's header.
    * Different licences without such names, and any file that is not recognised, give None.
    """
    top = sorted(file for file in files if "/" not in file[0])
    if not top:
        return _reuse(path.rpartition("/")[2] for path, _ in files)
    found: dict[str, str | None] = {}
    pointed = False
    for name, text in top:
        words = words_of(text)
        if len(top) > 1 and offers_choice(words) and not texts_in(words).ids:
            pointed = True
            continue
        found[name] = license_of_text(text)
    known = {one for one in found.values() if one is not None}
    if not known or None in found.values():
        return None
    lesser = next((one for one in known if one.startswith("LGPL-3.0")), None)
    if lesser:
        known -= {"GPL-3.0-only", "GPL-3.0-or-later"}
    if len(known) == 1:
        return known.pop()
    # A file that names all of the others is the one that says how they go together.
    for one in known:
        if " " in one and all(spdx.license_terms(other) <= spdx.license_terms(one) for other in known):
            return one
    named = all(
        re.search(r"licen[cs]e[-_.]\w|unlicense|\w[-_.]licen[cs]e", name, re.IGNORECASE) for name in found
    )
    return spdx.join("OR", known) if named or pointed else None


def _reuse(names: Iterator[str]) -> str | None:
    ids = [spdx.normalize(name.rpartition(".")[0]) for name in names]
    known = {one for one in ids if one is not None}
    code = {one for one in known if not _NOT_FOR_CODE.match(one)}
    return spdx.join("AND", code or known) if known and None not in ids else None


def _tags(content: str) -> str | None:
    """The expression of a file's SPDX tags; None without a tag, empty when one says nothing known."""
    start = content[:_TAG_CHARS]
    if "SPDX-License-Identifier:" not in start:
        return None
    # A tag in a string belongs to what a program writes, not to the program.
    found = [
        _TRAILING.sub("", match[2])
        for match in _TAG.finditer(start)
        if len(match[1]) <= _MAX_LINE and not re.search(r"[\"'`]", _QUOTES.sub("", match[1]))
    ]
    if not found:
        return None
    return spdx.join("AND", found) or ""


def _comments(content: str) -> str:
    """The text of the comments that begin a line near the start of a file of any language."""
    parts: list[str] = []
    end: str | None = None
    for line in content[:_COMMENT_CHARS].split("\n"):
        text = line.strip("\ufeff \t\r").removeprefix("<?php").lstrip()
        if end is None:
            opener = _OPENS.match(text)
            if opener is None:
                if _COMMENT.match(text):
                    parts.append(text)
                continue
            end, text = _CLOSES[opener[0]], text[opener.end() :]
        inside, closed, _ = text.partition(end)
        parts.append(inside)
        if closed:
            end = None
    return "\n".join(parts)


def license_of_header(content: str) -> str | None:
    """The SPDX expression of what a source file says of itself at its top, or None.

    `SPDX-License-Identifier` tags go first; several hold together, and one that names an unknown id gives
    None. Without a tag, whole licence texts and the usual notices in comments count (Apache-2.0, GPL,
    LGPL, AGPL, MPL, EPL, BSL-1.0, MIT, BSD, ISC, ...). A reference to a licence file gives None.
    """
    # The versions of a file nearly always begin alike.
    return _of_start(content[:_COMMENT_CHARS])


@functools.lru_cache(256)
def _of_start(start: str) -> str | None:
    tagged = _tags(start)
    if tagged is not None:
        return tagged or None
    lowered = start.lower()
    last = max(map(lowered.rfind, _HINTS))
    # What a licence or notice says after its last such word is a few lines.
    return None if last < 0 else _of_notice(start[: last + _AFTER_HINT])


@functools.lru_cache(256)
def _of_notice(start: str) -> str | None:
    words = words_of(_comments(start))
    texts = texts_in(words)
    ids = {*texts.ids, *notices_in(words)}
    return spdx.join("OR" if len(ids) > 1 and offers_choice(words) else "AND", sorted(ids))


def is_license_file(name: str) -> bool:
    """Whether a file at the top of a tree is named like one that holds a licence."""
    return _NAME.fullmatch(name) is not None


def license_files(repository: Repository, commit: str) -> dict[str, str]:
    """Name -> object id of the files of a commit's tree that tell the licence.

    These are files at the top named for it; where there are none, those of REUSE's `LICENSES/` folder.

    Raises:
        GitError: the tree cannot be read.
    """
    top = files_in(repository, commit, is_license_file)
    if top:
        return top
    reuse = files_in(repository, commit, lambda _: True, _REUSE_FOLDER)
    return {f"{_REUSE_FOLDER}/{name}": oid for name, oid in reuse.items()}


def repository_license(repository: Repository, commit: str) -> str | None:
    """The licence that the licence files of a commit's tree tell, or None."""
    files: list[tuple[str, str]] = []
    try:
        found = license_files(repository, commit)
        if any(name.startswith(f"{_REUSE_FOLDER}/") for name in found):
            # Their names are the licences' ids; the texts say no more.
            return (
                license_of_files([(name, "") for name in found]) if len(found) <= _MAX_REUSE_FILES else None
            )
        if len(found) > _MAX_FILES:
            return None
        with open_blobs(repository) as blobs:
            for name, oid in found.items():
                files.append((name, blobs.read(oid, MAX_LICENSE_BYTES).decode("utf-8", "replace")))
    except (GitError, MissingBlob, TooLarge):
        return None
    return license_of_files(files) if files else None
