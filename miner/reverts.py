"""What a message says it takes back, or brings back.

Pure functions over commit messages. There are three ways to name what is taken back, and a caller
tries them in this order: commits (`reverted_commits`), requests and other names (`reverted_requests`), and
when neither leads to a commit, subjects (`reverted_subjects`, `undo_level`). Whoever takes back a part only
("partially reverts ...") takes back nothing here.

Quoted lines (`> ...`) are part of another message and do not count.
"""

from __future__ import annotations

import re

_MAX_MESSAGE = 100_000
_MAX_SUBJECT = 1_000
_MAX_LEVELS = 100
_MAX_IDS = 1_000

_SPACED = re.compile(rb"back(?:ed|s|ing)?[ -]?out|roll(?:ed|s|ing)?[ -]?(?:back|forward)")

_VERB = r"(?:revert(?:s|ed|ing)?|back(?:s|ed|ing)?[ -]?out|undo(?:es)?|roll(?:s|ed|ing)?[ -]?back(?: of)?)"
_ID = r"[0-9a-f]{7,64}"
_LEAD = (
    # "This reverts", or the verb where a sentence or a line starts.
    rf"(?:\bthis (?:commit |change |patch |pr )?(?:also )?(?:effectively )?{_VERB}"
    rf"|(?:^|(?<=[.;:] )|(?<=, )|(?<=and ))(?:[*-] ?)?(?:automated )?{_VERB})"
)
_WHAT = r"(?:the |following |changes? |from |in |git |svn |hg |previous |upstream |our ){0,4}"
_TO = rf"{_LEAD}:?\s{{1,20}}{_WHAT}"
_COMMITS = re.compile(
    rf"{_TO}(?:(?P<noun>commits?|changesets?|revisions?|shas?):?\s+)?(?:[\w.-]{{1,100}}/[\w.-]{{1,100}}@)?"
    rf"(?P<ids>{_ID})\b",
    re.IGNORECASE | re.MULTILINE,
)
_LISTED = re.compile(
    rf"{_TO}(?:\d{{1,4}} )?(?:commits|changesets|revisions):?[ \t]*\n",
    re.IGNORECASE | re.MULTILINE,
)
_MORE = re.compile(
    rf"(?P<range>\^?\.\.\.?)(?P<end>{_ID})\b|(?:\s*[,&]\s*|\s+)(?:and\s+|&\s*)?(?:commit\s+)?(?P<id>{_ID})\b",
    re.IGNORECASE,
)
_BULLET = re.compile(rf"[ \t]*(?:[*-][ \t]*)?(?:commit )?({_ID})\b[^\n]*(?:\n|$)", re.IGNORECASE)
_BLANK = re.compile(r"[ \t]*\n")
_SHA_OF_TOOL = re.compile(
    rf"^(?:original commit changeset|revert(?:s|ed) commit|revert-of|reverts):[ \t]+(?:commit )?({_ID})\b",
    re.IGNORECASE | re.MULTILINE,
)
_PARTLY = re.compile(r"[\s,(]{0,3}(?:in part\b|partial|except\b|but not\b|but (?:keep|leave))", re.IGNORECASE)

_NUMBER = r"(?:#|!|gh-)\d{1,9}\b"
_REQUESTS = re.compile(
    rf"{_TO}(?:(?P<noun>pull requests?|merge requests?|prs?|mrs?)\s+)?"
    rf"(?:(?P<repo>[\w.-]{{1,100}}(?:/[\w.-]{{1,100}}){{1,6}}))?(?P<first>{_NUMBER})(?P<more>(?:(?:\s*,\s*|\s+)(?:and\s+)?{_NUMBER}){{0,50}})",
    re.IGNORECASE | re.MULTILINE,
)
_REQUEST_URLS = re.compile(
    rf"{_TO}(?:(?:pull requests?|merge requests?|prs?|mrs?)\s+)?https?://[^/\s]{{1,200}}/(?P<repo>\S{{1,200}}?)"
    r"(?:/-)?/(?:pull|pulls|pull-requests|(?P<mr>merge_requests))/(?P<number>\d{1,9})\b",
    re.IGNORECASE | re.MULTILINE,
)
_REVERT_BRANCH = re.compile(r"\s{0,20}Merge pull request #\d{1,9} from [^\s/]{1,100}/revert-(\d{1,9})-")
_OTHER_NAMES = tuple(
    (kind, re.compile(pattern, re.IGNORECASE | re.MULTILINE))
    for kind, pattern in (
        (
            "svn:",
            rf"{_TO}(?:(?:commits?|revisions?) )?rL?(\d{{1,9}})\b"
            r"(?P<more>(?:(?:\s*,\s*|\s+)(?:and\s+)?r\d{1,9}\b){0,50})",
        ),
        ("change-id:", rf"{_TO}(?:change )?(I[0-9a-f]{{8,40}})\b"),
        ("revision:D", rf"(?:{_TO}|^original phabricator diff: )D(\d{{1,9}})\b"),
        ("piper:", rf"{_TO}(?:of )?(?:changelist|cl)[ /](\d{{1,12}})\b"),
    )
)

_REAPPLIED = re.compile(
    r"\b(?:this )?(?:(?:is )?a )?(?:re-?land(?:s|ed|ing)?|re-?appl(?:y|ies|ied)|re-?commits?|roll-?forward)"
    rf" (?:of )?(?:commit )?({_ID})\b",
    re.IGNORECASE,
)

_REQUEST_TAIL = re.compile(r"\s*\([#!]\d{1,9}\)\s*$")
_TAG = re.compile(r"\[[^\]\[]{0,60}\]\s*")
_QUOTES = {'"': '"', "“": "”", "'": "'", "‘": "’", "`": "`", "«": "»"}
_OPENER = re.compile(
    r"(?:(?P<back>revert(?:ed|s|ing)?|back(?:ed|ing)?[ -]?out|rollback(?: of)?)"
    r"|(?P<again>re-?appl(?:y|ied)|re-?land(?:ed|ing)?|re-?commit(?:ted)?|un-?revert))"
    r"(?P<power>\^\d{1,2})?(?:\([^()]{1,60}\))?(?P<colon>:)?\s*",
    re.IGNORECASE,
)


def may_revert(raw: bytes) -> bool:
    """Whether a raw message holds any word of this module's; a fast look before the others are asked."""
    low = raw.lower()
    if b"revert" in low or b"undo" in low:
        return True
    # Written out, since every message of a history is asked.
    if b"reappl" in low or b"reland" in low or b"recommit" in low:
        return True
    if b"re-" in low and (b"re-appl" in low or b"re-land" in low or b"re-commit" in low):
        return True
    return (b"back" in low or b"roll" in low) and _SPACED.search(low) is not None


def _unquoted(message: str) -> str:
    message = message[:_MAX_MESSAGE]
    if "\n>" not in message and not message.startswith(">"):
        return message
    return "\n".join("" if line.startswith(">") else line for line in message.split("\n"))


def _ids_after(message: str, at: int) -> tuple[list[str], int]:
    """Ids that follow one, until something else comes; and where that is. Of a range the end counts."""
    found: list[str] = []
    while len(found) < _MAX_IDS and (match := _MORE.match(message, at)):
        found.append(match["id"] or match["end"])
        at = match.end()
    return found, at


def reverted_commits(message: str) -> list[str]:
    """Object ids, possibly abbreviated, of the commits that a message says it reverts.

    Of a range `a..b` only `b` can be told, of `a^..b` both ends.
    """
    message = _unquoted(message)
    found: list[str] = []
    for match in _COMMITS.finditer(message):
        if match["noun"] is None and match["ids"].isdecimal():
            continue  # a year or a number of something else
        more, end = _ids_after(message, match.end())
        named = more if message.startswith("..", match.end()) else [match["ids"], *more]
        if not _PARTLY.match(message, end):
            found += named
    for match in _LISTED.finditer(message):
        at = match.end()
        while blank := _BLANK.match(message, at):
            at = blank.end()
        while len(found) < _MAX_IDS and (one := _BULLET.match(message, at)):
            found.append(one[1])
            at = one.end()
    found += _SHA_OF_TOOL.findall(message)
    return list(dict.fromkeys(one.lower() for one in found))


def _is_other(where: str | None, repo: str | None) -> bool:
    if not where or not repo or "/" not in repo:
        return False
    return where.rpartition("/")[2].casefold() != repo.rpartition("/")[2].casefold()


def reverted_requests(message: str, repo: str | None = None) -> list[str]:
    """Names of the changes that a message says it reverts, as `provenance.names_of` gives them.

    Args:
        repo: `owner/name` of the repository; `Reverts other/name#12` speaks of another one's.
    """
    message = _unquoted(message)
    found: list[str] = []
    for match in _REQUESTS.finditer(message):
        if _is_other(match["repo"], repo):
            continue
        for mark, number in re.findall(r"(#|!|gh-)(\d{1,9})", match["first"] + match["more"], re.IGNORECASE):
            found.append(f"{'mr' if mark == '!' else 'pr'}:{int(number)}")
    found += (
        f"{'mr' if match['mr'] else 'pr'}:{int(match['number'])}"
        for match in _REQUEST_URLS.finditer(message)
        if not _is_other(match["repo"], repo)
    )
    if button := _REVERT_BRANCH.match(message):
        # GitHub's button makes a branch of this name.
        found.append(f"pr:{int(button[1])}")
    for kind, pattern in _OTHER_NAMES:
        for match in pattern.finditer(message):
            found.append(f"{kind}{match[1] if kind == 'change-id:' else int(match[1])}")
            if kind == "svn:":
                found += (f"svn:{int(number)}" for number in re.findall(r"\d+", match["more"]))
    return list(dict.fromkeys(found))


def reapplied_commits(message: str) -> list[str]:
    """Ids of commits that a message brings back: older reverts of them count for nothing.

    Chromium's `This is a reland of commit ...`. `Reapply "..."` of git names the revert instead, in
    words that `reverted_commits` understands.
    """
    found = _REAPPLIED.findall(_unquoted(message))
    return list(dict.fromkeys(one.lower() for one in found if not one.isdecimal()))


def _opened(subject: str) -> tuple[int, str] | None:
    """What a subject says about another one: how many steps it is away from it, and that subject."""
    tagged = _TAG.match(subject)
    rest = subject[tagged.end() :] if tagged else subject
    if not (match := _OPENER.match(rest)):
        # A tag may be the word itself: `[reland] Speed up the parser`.
        word = _OPENER.fullmatch(subject[1 : tagged.end()].rstrip().rstrip("]")) if tagged else None
        if word is None:
            return None
        return (1 if word["back"] else 2), rest.strip()
    steps = int(match["power"][1:]) if match["power"] else 1
    steps = steps if match["back"] else 2 * steps
    inner = rest[match.end() :].replace("&quot;", '"')
    if inner[:1] in _QUOTES:
        end = inner.rfind(_QUOTES[inner[0]])
        if end <= 0 or re.match(r"\s*\(?part", inner[end + 1 :], re.IGNORECASE):
            return None
        return steps, inner[1:end].strip()
    # Without quotes only a colon or a power of its own tells that a subject follows.
    if not (match["colon"] or match["power"]):
        return None
    return steps, _REQUEST_TAIL.sub("", inner).strip()


def undo_level(subject: str) -> tuple[str, int]:
    """The change that a subject is about at bottom, and how often it was taken back and brought back.

    Level 0 is a change itself, 1 `Revert "change"`, 2 the revert of that, or `Reapply "change"` and
    `Reland "change"`, and so on: odd levels take the change back, even ones bring it back. A commit of a
    level above 0 undoes the newest earlier commit of the same change whose level is even when its own is
    odd, and odd when its own is even. A request's number at the end (`change (#12)`) is left out.
    """
    subject, level = " ".join(subject[:_MAX_SUBJECT].split()), 0
    for _ in range(_MAX_LEVELS):
        plain = _REQUEST_TAIL.sub("", subject)
        opened = _opened(plain)
        if opened is None or not opened[1]:
            return plain, level
        level += opened[0]
        subject = opened[1]
    return subject, level


def reverted_subjects(message: str) -> list[str]:
    """The subject of the commit that a message's own subject takes back, as written there; at most one.

    `Revert "X"` takes back `X`; `Reapply "X"` and `Reland "X"` take back `Revert "X"`. The newest
    earlier commit with exactly that subject is meant.
    """
    subject = " ".join(message.strip().partition("\n")[0][:_MAX_SUBJECT].split())
    opened = _opened(_REQUEST_TAIL.sub("", subject))
    if opened is None or not opened[1]:
        return []
    steps, inner = opened
    if steps == 1:
        return [inner]
    return [f'Revert "{inner}"' if steps == 2 else f'Revert^{steps - 1} "{inner}"']
