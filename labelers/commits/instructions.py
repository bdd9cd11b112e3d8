"""An instruction that either version of a file could answer, from a template.

Only what both versions share goes in: path, language, names that both define, modules that both import,
docstrings that both have; of the definitions that differ, signatures, doc comments and callers where they are
the same in both. It can therefore not tell which version is the newer one, nor favour a side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from labelers import prompts
from labelers.commits.shared import MOST_CALLERS, Shared, shared_parts
from labelers.commits.spoken import word_set
from schemas.ids import rng

STYLES = ("ticket", "question", "search", "assignment", "plain")
MOST_NAMES = 6
MOST_MODULES = 4
MOST_SIGNATURE = 300
"""Characters of a signature that are shown."""

_DEFINED = re.compile(
    r"^[^\S\n]{0,4}(?:(?:export|default|pub|public|private|protected|internal|static|final|abstract|sealed|async|partial)\s+){0,5}"
    r"(?:def|enum[^\S\n]+(?:class|struct)|class|function|func|fn|struct|interface|enum|trait|module|namespace|type)\s+(?:self\.)?"
    r"([A-Za-z_$][\w$]*)",
    re.MULTILINE,
)
_C_FUNCTION = re.compile(
    r"^[A-Za-z_][\w \t*&:<>,]{0,80}?[ \t*&]([A-Za-z_]\w*)\([^;{}]{0,400}\)\s*\{", re.MULTILINE
)
_BODY = re.compile(r"\s{0,80}(?:final\b|[{:<])")
_IMPORTED = re.compile(
    r"""^[^\S\n]*(?:from[^\S\n]+([\w.]+)[^\S\n]+import\b|import[^\S\n]+(?:static[^\S\n]+)?([\w.]+)|using[^\S\n]+([\w.]+);"""
    r"""|\#[^\S\n]*include[^\S\n]*[<"]([\w./+-]+)[>"]|use[^\S\n]+([\w:\\]+)|require(?:_relative)?[^\S\n]+["']([\w./-]+)["'])"""
    r"""|(?:\brequire\(|\bfrom[^\S\n]+)["']([@\w./-]+)["']""",
    re.MULTILINE,
)
_DOCSTRING = re.compile(r"(?:\ufeff)?(?:[^\S\n]*(?:#[^\n]*)?\n)*[rRuU]?(\"\"\"|''')(.*?)\1", re.DOTALL)
_NO_NAMES = word_set(
    """
    if for while switch return else catch sizeof var let func def static
    as is in to of the a an and or that which with from it this
    """
)
"""Keywords, and what follows the words `class` and `type` in comments."""
_SCANNED = 200_000
"""Characters of a file that are searched for names; a whole request needs no more."""
_TOP = 20_000
"""Characters of a file's beginning, where imports and docstrings stand."""


def defined_names(code: str, language: str) -> list[str]:
    """Names that a file defines, in order of first appearance."""
    text = code[:_SCANNED]
    # In C `struct stat sb;` declares a variable of a type that is defined elsewhere.
    found = [
        (match.start(), match.group(1))
        for match in _DEFINED.finditer(text)
        if language not in ("C", "C++") or _BODY.match(text, match.end())
    ]
    if language in ("C", "C++", "Java", "C#"):
        found += [(match.start(), match.group(1)) for match in _C_FUNCTION.finditer(text)]
    return list(dict.fromkeys(name for _, name in sorted(found) if name not in _NO_NAMES))


def imported_modules(code: str) -> list[str]:
    """Modules or headers that a file imports, in order of first appearance."""
    found = (next(group for group in match.groups() if group) for match in _IMPORTED.finditer(code[:_TOP]))
    # `from . import x` names no module that a reader could look up.
    return [one for one in dict.fromkeys(found) if one.strip("./")]


def _docstring(code: str) -> str:
    """First line of a Python module's docstring; empty when it has none.

    Read from the text, not the syntax tree: parsing whole files took most of a build.
    """
    match = _DOCSTRING.match(code[:_TOP])
    return match.group(2).strip().partition("\n")[0].strip() if match else ""


def _shared(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """What both lists hold, ordered by the sum of its places: in either version's own order an edit that
    only moves or sorts things would show which version the request was made from."""
    at_old, at_new = ({one: at for at, one in enumerate(names)} for names in (old, new))
    return sorted(at_old.keys() & at_new.keys(), key=lambda one: (at_old[one] + at_new[one], one))


def drawn_style(edit_id: str, seed: int) -> str:
    """The style that an edit's template is rendered in."""
    return rng(seed, "instruction style", edit_id).choice(STYLES)


def instruction(
    edit: Mapping[str, Any], seed: int, gap: str = "", *, style: str | None = None, docs: bool = True
) -> str:
    """The instruction of an edit (a row of `edits`), in a style drawn by (seed, edit).

    Args:
        gap: what stands for left-out lines when the contents are excerpts; empty for whole files.
        style: one of `STYLES` instead of a drawn one.
        docs: quote docstrings that both versions have.
    """
    old, new, language = edit["old_contents"], edit["new_contents"], edit["language"]
    names = _shared(defined_names(old, language), defined_names(new, language))[:MOST_NAMES]
    modules = _shared(imported_modules(old), imported_modules(new))[:MOST_MODULES]
    summary = ""
    if docs and language == "Python" and (summary := _docstring(old)) != _docstring(new):
        summary = ""
    parts = shared_parts(old, new, language)
    if gap and parts:
        # Other names stand in an excerpt only to hold its place.
        names = [prompts.one_line(part.name) for part in parts]
    return prompts.render(
        "excerpt" if gap else "instruction",
        gap=gap,
        style=style or drawn_style(edit["id"], seed),
        path=prompts.one_line(edit["path"]),
        project=prompts.one_line(edit["repo"].rpartition("/")[2]),
        language=language,
        names=names,
        modules=modules,
        summary=_quoted(summary),
        parts=[_shown(part, docs) for part in parts if part.signature],
        callers=list(dict.fromkeys(name for part in parts for name in part.callers))[:MOST_CALLERS],
    )


def _shown(part: Shared, docs: bool) -> dict[str, str]:
    return {
        "signature": prompts.one_line(part.signature, MOST_SIGNATURE),
        "doc": _quoted(part.doc.rstrip(".")) if docs else "",
    }


def _quoted(text: str) -> str:
    return prompts.one_line(text).replace('"', "'")
