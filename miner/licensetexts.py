"""What licences say: the texts of licences, and notices that name one, as words.

Texts are compared by their words alone, so that line breaks, comment marks and punctuation do not
count. A text counts as a licence when the licence's own opening stands in it and its other marks
follow. What is not recognised gives nothing, never a guess. All is linear in the text for each licence.
"""

from __future__ import annotations

import dataclasses
import re

from miner import spdx


@dataclasses.dataclass(frozen=True)
class LicenseText:
    """Marks of a licence's text, as words.

    Attributes:
        head: the licence's opening.
        marks: what follows after it.
        absent: what does not.
        within: words that may stand before the opening, such as a copyright line or a title.
        words: the text has not more words than that, what stands around it included.
    """

    spdx: str
    head: str
    marks: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    within: int = 120
    words: int = 1000


_BSD = "redistribution and use in source and binary forms with or without modification are permitted"
_BINARY = "redistributions in binary form"
_ENDORSE = "endorse or promote products"
_ADVERTISING = "all advertising materials"
_MIT = "permission is hereby granted free of charge to any person obtaining a copy of this software"
_MIT_NOTICE = "permission notice shall be included in all copies or substantial portions"
_ISC = (
    "permission to use copy modify {}distribute this software for any purpose with or without fee "
    "is hereby granted"
)
_AS_IS = "the software is provided as is"
_KEEP_NOTICE = "permission notice appear in all copies"
_NAME_USE = "except as contained in this notice"
_GNU = "general public license version"
_LIMITS = ("may not be used", "hippocratic", "good not evil", "non commercial", "noncommercial")


def _long(spdx: str, head: str, *marks: str, within: int = 40, words: int) -> LicenseText:
    return LicenseText(spdx, head, marks, within=within, words=words)


TEXTS = (
    _long("AGPL-3.0-only", f"gnu affero {_GNU} 3", "remote network interaction", within=30, words=7000),
    _long("LGPL-3.0-only", f"gnu lesser {_GNU} 3", "combined works", within=30, words=7500),
    _long("LGPL-2.1-only", f"gnu lesser {_GNU} 2 1", "work that uses the library", within=30, words=6000),
    _long("LGPL-2.0-only", f"gnu library {_GNU} 2", "work that uses the library", within=30, words=6000),
    _long("GPL-3.0-only", f"gnu {_GNU} 3", "conveying verbatim copies", within=30, words=7000),
    _long("GPL-2.0-only", f"gnu {_GNU} 2", "copy and distribute verbatim copies", within=30, words=4000),
    _long("GPL-1.0-only", f"gnu {_GNU} 1", "copy and distribute verbatim copies", within=30, words=2600),
    _long(
        "MPL-2.0", "mozilla public license version 2 0", "covered software", "secondary license", words=3500
    ),
    _long("MPL-1.1", "mozilla public license version 1 1", "initial developer", words=4500),
    _long("EPL-2.0", "eclipse public license v 2 0", "secondary license", words=3500),
    _long("EPL-1.0", "eclipse public license v 1 0", "contributor", words=2500),
    _long("CPL-1.0", "common public license version 1 0", "contributor", words=2500),
    _long("EUPL-1.2", "european union public licence v 1 2", "the work", within=60, words=3500),
    _long("EUPL-1.1", "european union public licence v 1 1", "the work", within=60, words=3500),
    _long(
        "CDDL-1.1",
        "common development and distribution license cddl version 1 1",
        "covered software",
        words=4500,
    ),
    _long(
        "CDDL-1.0",
        "common development and distribution license cddl version 1 0",
        "covered software",
        words=4500,
    ),
    _long("SSPL-1.0", "server side public license version 1", "conveying verbatim copies", words=7000),
    _long("BUSL-1.1", "business source license 1 1", "change date", within=300, words=1500),
    _long("Elastic-2.0", "elastic license 2 0", "hosted or managed service", words=1200),
    _long("ECL-2.0", "educational community license version 2 0", "grant of patent license", words=2600),
    _long("Apache-2.0", "apache license version 2 0", "grant of patent license", words=2600),
    _long("Artistic-2.0", "the artistic license 2 0", "standard version", words=2500),
    _long("AFL-3.0", "academic free license v 3 0", "original work", words=2500),
    _long("OSL-3.0", "open software license v 3 0", "original work", words=2500),
    _long("MS-PL", "microsoft public license", "conditions and limitations", words=700),
    _long("OFL-1.1", "sil open font license version 1 1", "font software", within=200, words=1200),
    _long("BlueOak-1.0.0", "blue oak model license", "patent", words=500),
    _long("UPL-1.0", "the universal permissive license upl version 1 0", "larger works", words=600),
    _long(
        "MulanPSL-2.0", "mulan permissive software license version 2", "contributor", within=300, words=2500
    ),
    _long("Python-2.0", "psf license agreement for python", "beopen", within=700, words=4500),
    _long("Python-2.0", "python software foundation license version 2", "beopen", within=700, words=4500),
    _long("PSF-2.0", "python software foundation license version 2", "python alone or in", words=700),
    _long("PHP-3.01", "the php license version 3 01", _BINARY, words=800),
    _long("Ruby", "ruby is copyrighted free software by yukihiro matsumoto", "verbatim copies", words=600),
    _long(
        "Vim",
        "there are no restrictions on distributing unmodified copies of",
        "vim license",
        within=100,
        words=1500,
    ),
    _long("CC0-1.0", "cc0 1 0 universal", "waiver", within=120, words=1800),
    _long("CC-BY-4.0", "attribution 4 0 international", "licensed material", within=60, words=4000),
    _long(
        "CC-BY-SA-4.0", "attribution sharealike 4 0 international", "licensed material", within=60, words=4200
    ),
    _long(
        "CC-BY-NC-4.0",
        "attribution noncommercial 4 0 international",
        "licensed material",
        within=60,
        words=4200,
    ),
    _long(
        "CC-BY-NC-SA-4.0",
        "attribution noncommercial sharealike 4 0 international",
        "licensed material",
        within=60,
        words=4400,
    ),
    _long("Unlicense", "this is free and unencumbered software released into the public domain", words=500),
    _long("BSL-1.0", "boost software license version 1 0", "machine executable object code", words=500),
    _long("WTFPL", "do what the fuck you want to public license", words=250),
    LicenseText(
        "Zlib",
        "this software is provided as is without any express or implied warranty",
        ("must not be misrepresented", "altered source versions"),
        words=400,
    ),
    LicenseText(
        "PostgreSQL",
        "permission to use copy modify and distribute this software and its documentation for any purpose "
        "without fee and without a written agreement is hereby granted",
        words=400,
    ),
    LicenseText(
        "BSD-3-Clause-Clear",
        _BSD,
        ("no express or implied licenses to any party s patent rights", _ENDORSE),
        words=600,
    ),
    LicenseText("BSD-4-Clause", _BSD, (_BINARY, _ADVERTISING), words=700),
    LicenseText("BSD-3-Clause", _BSD, (_ENDORSE,), (_ADVERTISING, "php"), words=600),
    LicenseText(
        "BSD-2-Clause", _BSD, (_BINARY,), ("endorse or promote", "advertising", "patent rights"), words=500
    ),
    LicenseText("curl", _ISC.format("and "), (_KEEP_NOTICE, _NAME_USE), words=350),
    LicenseText("ISC", _ISC.format("and or "), (_KEEP_NOTICE,), (_NAME_USE,), words=350),
    LicenseText("ISC", _ISC.format("and "), (_KEEP_NOTICE,), (_NAME_USE,), words=350),
    LicenseText("0BSD", _ISC.format("and or "), (_AS_IS,), ("appear in all copies",), words=350),
    LicenseText("NCSA", _MIT, ("redistributions of source code must retain", _BINARY), words=500),
    LicenseText("JSON", _MIT, (_MIT_NOTICE, "good not evil"), words=450),
    LicenseText("X11", _MIT, (_MIT_NOTICE, _NAME_USE, "prior written authorization"), _LIMITS, words=450),
    LicenseText("MIT-0", _MIT, (_AS_IS,), ("permission notice", "redistributions", *_LIMITS), words=350),
    LicenseText("MIT", _MIT, (_MIT_NOTICE, _AS_IS), (*_LIMITS, _NAME_USE), words=450),
)
"""Licences that are known by their text; of two that open alike, the one that asks for more comes first."""

_RESTRICTED = re.compile(
    r"\bcommons clause\b|\bnon ?commercial (?:use|purposes?) only\b|\bfor non ?commercial\b"
)
"""What takes away from a licence's text that follows."""
_CHOICE = re.compile(
    r"\b(?:dual|tri|multi|double|triple) ?licen[cs]\w+|\bat your (?:own )?option\b(?! any)|\balternatively\b"
    r"|\beither (?:of|one|licen[cs]e|the)\b|\b(?:one|any) of the following\b|\bchoice of\b"
    r"|\b(?:your|user s) choice\b|\bmay choose\b"
)
_LATER = re.compile(r"\b(?:any|a) later version|\bor (?:later|newer|above)\b|\bany (?:newer|higher) version")
_LATER_CHARS = 110
_GNU_BETWEEN = "as|published|by|the|free|software|foundation|inc|fsf|either|under|terms|of|and|conditions"
_GNU_NOTICES = (
    re.compile(
        r"\bgnu (?P<kind>lesser |library |affero )?general public licen[cs]e"
        rf"(?: (?:{_GNU_BETWEEN})\b){{0,16}}"
        r" v(?:ersion )?(?P<major>[123])(?P<plus>\+?)(?: (?P<minor>[01])(?P<more>\+?))?(?![0-9a-z])"
    ),
    re.compile(
        r"\bversion (?P<major>[123])(?P<plus>\+?)(?: (?P<minor>[01])(?P<more>\+?))? of the gnu "
        r"(?P<kind>lesser |library |affero )?general public licen[cs]e"
    ),
)
_GNU_KINDS = {None: "GPL", "lesser ": "LGPL", "library ": "LGPL", "affero ": "AGPL"}
_NOTICES = {
    "Apache-2.0": r"apache (?:software )?(?:licen[cs]e )?(?:version |v ?)?2(?: 0)?\b",
    "MPL-2.0": r"mozilla public licen[cs]e (?:version |v ?)?2 0\b",
    "MPL-1.1": r"mozilla public licen[cs]e (?:version |v ?)?1 1\b",
    "EPL-2.0": r"eclipse public licen[cs]e (?:version |v ?)?2 0\b",
    "EPL-1.0": r"eclipse public licen[cs]e (?:version |v ?)?1 0\b",
    "BSL-1.0": r"boost software licen[cs]e (?:version |v ?)?1 0\b",
    "MIT": r"mit (?:software )?licen[cs]e",
    "BSD-3-Clause": r"(?:3|three) clause bsd\b",
    "BSD-2-Clause": r"(?:2|two) clause bsd\b",
    "Unlicense": r"unlicense\b",
    "ISC": r"isc licen[cs]e\b",
}
_NOTICE_IDS = tuple(_NOTICES)
_NOTICE = re.compile(
    r"\b(?:under|by|to|or|and) (?:the )?(?:terms of )?(?:the )?"
    rf"(?:{'|'.join(f'({one})' for one in _NOTICES.values())})"
)
_SHORT = 1000
_MAX_HEADS = 64


def words_of(text: str) -> str:
    """The words of a text in lower case, one blank apart; a `+` at a word's end belongs to it."""
    return " ".join(re.findall(r"[a-z0-9]+\+?", text.lower().replace("(c)", " ")))


def _heads(words: str) -> list[tuple[int, LicenseText]]:
    """Places where a licence's text may begin, in order; of one place, as `TEXTS` has them."""
    found: list[tuple[int, LicenseText]] = []
    for one in TEXTS:
        at = words.find(one.head)
        while at >= 0 and len(found) <= _MAX_HEADS:
            found.append((at, one))
            at = words.find(one.head, at + len(one.head))
    return sorted(found, key=lambda pair: pair[0])


@dataclasses.dataclass(frozen=True)
class Found:
    """Licence texts among words.

    Attributes:
        ids: of the licences, in order.
        before: the words that stand before the first one.
        words: how many words the texts may have, together.
    """

    ids: tuple[str, ...] = ()
    before: str = ""
    words: int = 0


def texts_in(words: str) -> Found:
    """The licences whose whole texts stand in these words, one after the other."""
    heads = _heads(words)
    if not heads or len(heads) > _MAX_HEADS:
        return Found()
    starts = sorted({at for at, one in heads if one.words <= _SHORT})
    found: list[LicenseText] = []
    first, done = len(words), -1
    for at, one in heads:
        if at <= done:
            continue
        # Twelve letters a word are more than any licence has on average.
        end = at + 12 * one.words
        if one.words <= _SHORT:
            end = min((end, *(start for start in starts if start >= at + len(one.head))))
        body = words[at:end]
        if all(mark in body for mark in one.marks) and not any(mark in body for mark in one.absent):
            first = min(first, at)
            found.append(one)
            done = at
    ids = tuple(dict.fromkeys(one.spdx for one in found))
    return Found(ids, words[:first], sum(one.words for one in found))


def text_is_license(words: str) -> Found:
    """`texts_in` for a text that is nothing but licences: empty when too much stands around them."""
    found = texts_in(words)
    heads = {one.spdx: one for one in reversed(TEXTS)}
    if (
        not found.ids
        or found.before.count(" ") > heads[found.ids[0]].within
        or words.count(" ") + 1 > found.words
        or _RESTRICTED.search(found.before)
    ):
        return Found()
    return found


def notices_in(words: str) -> set[str]:
    """Ids of the licences that these words say something is under, without giving their text."""
    found = {_NOTICE_IDS[(match.lastindex or 1) - 1] for match in _NOTICE.finditer(words)}
    if "mit licensed" in words:
        found.add("MIT")
    for pattern in _GNU_NOTICES:
        for match in pattern.finditer(words):
            version = f"{match['major']}.{match['minor'] or 0}"
            later = (
                match["plus"]
                or match["more"]
                or _LATER.search(words, match.end(), match.end() + _LATER_CHARS)
            )
            found.add(f"{_GNU_KINDS[match['kind']]}-{version}-{'or-later' if later else 'only'}")
    # GPL-2.1 and the like do not exist.
    return {one for one in found if spdx.normalize(one) is not None}


def offers_choice(words: str) -> bool:
    """Whether these words say that one of several licences may be chosen."""
    return _CHOICE.search(words) is not None
