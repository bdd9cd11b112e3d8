"""How a change got in, as far as its message tells, and what a message says it was copied from.

Pure functions over commit messages. They say what the text says: a message can lie, and review that
leaves no trace in git is not seen. A change has names that later messages call it by: `pr:12`, `mr:12`,
`change:1234` (Gerrit and Rietveld), `change-id:I...`, `revision:D12` (Phabricator), `svn:1234`,
`piper:1234` (Google). `names_of` gives a message's own, `reverts.reverted_requests` those it takes back.

What this module does not tell itself (`reverts`, `authors`, `assistants`) can be had from it, too.
"""

from __future__ import annotations

import re

from miner.assistants import ai_assistant
from miner.authors import is_bot
from miner.reverts import (
    may_revert,
    reapplied_commits,
    reverted_commits,
    reverted_requests,
    reverted_subjects,
    undo_level,
)

__all__ = [
    "MAILING_LIST",
    "MERGE_COMMIT",
    "REVIEW_TRAILER",
    "ai_assistant",
    "cherry_picked_from",
    "first_line",
    "is_bot",
    "may_revert",
    "merged_by_merge",
    "merged_by_message",
    "names_of",
    "numbered_request",
    "reapplied_commits",
    "reverted_commits",
    "reverted_requests",
    "reverted_subjects",
    "undo_level",
]

MERGE_COMMIT = "merge-commit"
REVIEW_TRAILER = "review-trailer"
MAILING_LIST = "mailing-list"

_NUMBER = r"(\d{1,9})\b"
_OWN_PR = re.compile(r"\(#(\d{1,9})\)\s*$")
_OWN_MR = re.compile(r"\(!(\d{1,9})\)\s*$")
_SUBJECTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # GitHub, Bitbucket server, Azure DevOps, mergify, bors and homu, in this order.
        rf"Merged? (?:pull[ -]request|PR) #{_NUMBER}",
        r"Merged in .{1,200} \(pull request #(\d{1,9})\)",
        rf"Pull request #{_NUMBER}:",
        rf"Merged PR {_NUMBER}:",
        rf"Merge of #{_NUMBER}$",
        rf"(?:Auto merge|Rollup merge) of #{_NUMBER}(?: - |$)",
        rf"Merge #{_NUMBER}(?: ?[:-] |$)",
        # Gitea and Forgejo put the title between.
        r"Merge pull request '.{0,400}' \(#(\d{1,9})\) from ",
        # GitHub's merge queue and bors work on branches of their own.
        rf"Merge .{{0,100}}\bgh-readonly-queue/\S{{1,200}}/pr-{_NUMBER}-[0-9a-f]{{7}}",
    )
)
_LINES = re.compile(
    # GitLab's own line, and Apache's merge scripts.
    r"^See merge request (?:\S{0,200}?(?:!|/merge_requests/))(?P<mr>\d{1,9})\s*$"
    r"|^Closes #(?P<pr>\d{1,9}) from \S+/\S+",
    re.MULTILINE,
)
_TRAILER = re.compile(r"([A-Za-z][A-Za-z ()-]{1,40}?) ?[:=]\s*(\S.*)")
_REQUEST_URL = re.compile(
    r"<?https?://[^/\s]{1,200}/(?P<repo>\S{1,200}?)(?:/-)?/(?:pull|pulls|pull-requests|(?P<mr>merge_requests))"
    r"/(?P<number>\d{1,9})\b"
)
_REVIEW_URL = re.compile(r"<?https?://\S{1,300}?/(?:\+/)?(\d{1,12})(?:/\d{1,3})?/?(?:\s|>|$)")
_REVISION = re.compile(r"(?:https?://\S{1,300}/)?D(\d{1,9})\b")
_LIST_URL = re.compile(
    r"<?https?://(?:lore\.kernel\.org|lkml\.kernel\.org|patch\.msgid\.link|lkml\.org|msgid\.link|postgr\.es/m"
    r"|(?:www\.)?postgresql\.org/message-id|patchwork\.\S{3,60}|\S{1,60}/patchwork)/[^\s\]]+>?\s*$"
)
_PATCH_URL = re.compile(r"<?https?://\S{3,200}/(?:patch|patches|series)/\S")
_CHANGE_ID = re.compile(r"I[0-9a-f]{8,40}$")
_PERSON = re.compile(r"\s*([^<>]{0,200}?)\s*<([^<>\s]{1,200})>")
_NAMES = tuple(
    (hint, re.compile(pattern, re.MULTILINE), prefix)
    for hint, pattern, prefix in (
        ("git-svn-id: ", r"^git-svn-id: \S{1,300}@([1-9]\d{0,8})\b", "svn:"),
        ("llvm-svn: ", r"^llvm-svn: ([1-9]\d{0,8})\b", "svn:"),
        ("Change-Id: ", r"^Change-Id: (I[0-9a-f]{8,40})[ \t]*$", "change-id:"),
        (
            "Differential Revision: ",
            r"^Differential Revision: (?:https?://\S{1,300}/)?(D[1-9]\d{0,8})\b",
            "revision:",
        ),
        ("PiperOrigin-RevId: ", r"^PiperOrigin-RevId: ([1-9]\d{0,11})\b", "piper:"),
    )
)
_MOZILLA = re.compile(r"Bug \d{1,9}\b.* r=[a-z][\w,.#*\[\]-]*", re.IGNORECASE)
_WEBKIT = re.compile(
    r"^ {0,8}Reviewed by (?!NOBODY)[A-Z][^.\n]{2,80}(?:\. ?[A-Z][^.\n]{0,60})?\.?\s*$", re.MULTILINE
)
_SYNC_MERGE = re.compile(
    r"Merge (?:remote[- ]tracking |remote )?branch '?(?:(?:origin|upstream)/)?"
    r"(?:HEAD|master|main|trunk|develop|dev)'?(?:\s|$)|Merge branch '[^']+' of \S+(?: into \S+)?\s*$"
    r"|Merge(?:d|s)? (?:(?:branch |from |in |with |latest |the )*)?'?(?:(?:origin|upstream)/)?"
    r"(?:HEAD|master|main|trunk|develop|default)'?(?: branch)?(?: (?:in)?to \S+)?\s*$",
    re.IGNORECASE,
)

_REQUEST_KEYS = frozenset(
    ("pr-url", "pull request resolved", "pull-request-resolved", "pull-request", "merges")
)
_REQUEST_KEYS |= {"pull request", "closes", "part-of", "merge-request", "reviewed-on", "pull request url"}
_CHANGE_KEYS = frozenset(("reviewed-on", "review-url", "review url"))
_REVIEW_KEYS = frozenset(
    ("reviewed-by", "reviewed by", "acked-by", "approved-by", "approved by", "accepted-by")
)
_SIGN_KEYS = frozenset(("signed-off-by",))
_WITH_KEYS = frozenset(("co-authored-by", "co-developed-by"))
_OTHER_REVIEW_KEYS = frozenset(("cr-commit-position", "piperorigin-revid", "commit-queue"))
_LIST_KEYS = frozenset(("link", "message-id", "discussion", "patchwork", "patchwork-id", "patchwork-link"))

_TRAILER_HINTS = (
    *(
        "/pull",
        "/merge_requests/",
        "erge-request",
        "art-of",
        "eviewed-on",
        "eviewed-On",
        "eview URL",
        "eview-Url",
    ),
    *("eview-URL", "ifferential Revision", "ifferential revision"),
)
"""Every trailer that names a request holds one of these. Most messages hold none, which is found out fast."""

_MAX_MESSAGE = 100_000


def first_line(message: str) -> str:
    """The first line of a message that is not blank."""
    return message.strip().partition("\n")[0].strip()


def _is_own(where: str, repo: str | None) -> bool:
    """Whether a path such as `owner/name` in a URL is this repository, or one that it is a fork of.

    Without a name that has an owner nothing speaks against it.
    """
    if not repo or "/" not in repo:
        return True
    return where.rpartition("/")[2].casefold() == repo.rpartition("/")[2].casefold()


def _trailers(message: str) -> list[tuple[str, str]]:
    """(key in lower case, value) of all lines that look like a trailer, top to bottom.

    Trailers of what was squashed or merged stand in the middle, so every line at the margin counts.
    """
    matches = map(_TRAILER.match, message[:_MAX_MESSAGE].splitlines())
    return [(match[1].lower(), match[2].strip()) for match in matches if match is not None]


def _in_subject(subject: str) -> str | None:
    for pattern in _SUBJECTS:
        if match := pattern.match(subject):
            return f"pr:{int(match[1])}"
    if match := _OWN_PR.search(subject):
        return f"pr:{int(match[1])}"
    if match := _OWN_MR.search(subject):
        return f"mr:{int(match[1])}"
    return None


def _in_lines(message: str) -> str | None:
    if "See merge request" in message or "Closes #" in message:
        # Of several the last is this commit's own; the others came with what it holds.
        for match in reversed(list(_LINES.finditer(message[:_MAX_MESSAGE]))):
            kind = match.lastgroup
            return f"{kind}:{int(match[kind or 0])}"
    return None


def _in_trailers(trailers: list[tuple[str, str]], repo: str | None) -> str | None:
    """The request or review that trailers name; the last one, since a backport keeps the first one's."""
    for key, value in reversed(trailers):
        if key in _REQUEST_KEYS:
            if match := _REQUEST_URL.match(value):
                if _is_own(match["repo"], repo):
                    return f"{'mr' if match['mr'] else 'pr'}:{int(match['number'])}"
                continue
            if key in ("merge-request", "part-of") and (short := re.match(r"!(\d{1,9})\b", value)):
                return f"mr:{int(short[1])}"
    for key, value in reversed(trailers):
        if key in _CHANGE_KEYS and not _REQUEST_URL.match(value) and (match := _REVIEW_URL.match(value)):
            return f"change:{int(match[1])}"
    for key, value in reversed(trailers):
        if key == "differential revision" and (match := _REVISION.match(value)):
            return f"revision:D{int(match[1])}"
    return None


def numbered_request(message: str, repo: str | None = None) -> str | None:
    """The request that a message says its commit came in by, else None.

    Args:
        repo: `owner/name` of the repository; a URL of another one names no request of this one.

    Returns:
        `pr:<n>`, `mr:<n>`, `change:<n>` or `revision:D<n>`.
    """
    if found := _in_subject(first_line(message)[:1000]) or _in_lines(message):
        return found
    if not any(hint in message for hint in _TRAILER_HINTS):
        return None
    return _in_trailers(_trailers(message), repo)


def names_of(message: str, repo: str | None = None) -> list[str]:
    """Everything that a later message may call this commit by, other than its id and subject.

    Args:
        repo: as for `numbered_request`.
    """
    found = [request] if (request := numbered_request(message, repo)) else []
    for hint, pattern, prefix in _NAMES:
        if hint in message:
            # What was squashed or picked keeps its own; the last one is this commit's.
            found += (prefix + number for number in pattern.findall(message[:_MAX_MESSAGE])[-1:])
    return list(dict.fromkeys(found))


def _others(trailers: list[tuple[str, str]], author: str, email: str) -> bool:
    """Whether somebody other than the author reviewed, acknowledged or signed off."""
    myself = {author.strip().casefold(), email.strip().casefold()} - {""}
    made = set(myself)
    signed: list[set[str]] = []
    for key, value in trailers:
        wanted = key in _REVIEW_KEYS
        if not wanted and key not in _SIGN_KEYS and key not in _WITH_KEYS:
            continue
        match = _PERSON.match(value)
        who = {part.casefold() for part in (match.groups() if match else (value,))} - {""}
        if wanted and who and not who & myself:
            return True
        if key in _WITH_KEYS:
            made |= who
        elif key in _SIGN_KEYS:
            signed.append(who)
    if not myself and signed:
        # Without an author to compare with, the first to sign off is taken for him.
        made |= signed.pop(0)
    return any(who and not who & made for who in signed)


def merged_by_message(message: str, repo: str | None = None, author: str = "", email: str = "") -> str | None:
    """How a commit got in by its own message.

    Args:
        repo: as for `numbered_request`.
        author, email: who made the commit; what he says of his own work is no review.

    Returns:
        a request as `numbered_request` gives it; `review-trailer` when somebody else reviewed it or signed
        it off; `mailing-list` when it only names the mail that it came by; else None.
    """
    if request := numbered_request(message, repo):
        return request
    trailers = _trailers(message)
    if _others(trailers, author, email):
        return REVIEW_TRAILER
    for key, value in trailers:
        if (
            key in _OTHER_REVIEW_KEYS
            or (key == "change-id" and _CHANGE_ID.match(value))
            or key in _CHANGE_KEYS
            or (key in _REQUEST_KEYS and key != "closes" and _REQUEST_URL.match(value))
        ):
            return REVIEW_TRAILER
    if _MOZILLA.match(first_line(message)[:1000]) or (
        "Reviewed by " in message and _WEBKIT.search(message[:_MAX_MESSAGE])
    ):
        return REVIEW_TRAILER
    for key, value in trailers:
        if key in _LIST_KEYS and (
            _LIST_URL.match(value)
            or _PATCH_URL.match(value)
            or (key == "message-id" and "@" in value)
            or (key == "patchwork-id" and value.isdecimal())
        ):
            return MAILING_LIST
    return None


def merged_by_merge(message: str, repo: str | None = None) -> str | None:
    """How the commits that a merge brought got in, by the merge's message.

    A merge that only brings a branch up to date with its remote (`Merge branch 'main' of ...`) is no
    sign that anybody accepted a change, and gives None.
    """
    if request := numbered_request(message, repo):
        return request
    return None if _SYNC_MERGE.match(first_line(message)[:1000]) else MERGE_COMMIT


_ID = r"([0-9a-f]{7,64})\b"
_COPIED = re.compile(
    r"^[\s\[(*>-]{0,8}(?:"
    rf"(?:partial(?:ly)? )?(?:cherry[- ]?|back-?)?(?:picked|ported) from (?:upstream )?(?:commit )?{_ID}"
    rf"|(?:this is a |clean )?back-?port of (?:upstream )?(?:commit )?(?:\S{{3,100}}@)?{_ID}"
    rf"|backport(?:ed)? (?:upstream )?commit {_ID}"
    rf"|upstream commit:? {_ID}"
    rf"|commit {_ID} upstream\b"
    rf"|(?:cherry-?picked?-from|backport(?:ed)?-(?:of|from)|upstream-commit|original-commit): *(?:commit )?"
    rf"(?:https?://\S{{1,300}}/commit/)?{_ID}"
    rf"|cherry-?pick(?:ed|s)?:? (?:commit )?{_ID}"
    r")",
    re.MULTILINE | re.IGNORECASE,
)


def cherry_picked_from(message: str) -> str | None:
    """The commit that a message says its own was picked or ported from, as written; the last one named.

    Forms: `git cherry-pick -x` and GitLab, `(backported from commit ...)`, the stable kernel's
    `commit ... upstream.` and `[ Upstream commit ... ]`, `Backport of ...`, `Cherry-picked-from:`.
    """
    last = None
    for match in _COPIED.finditer(message[:_MAX_MESSAGE]):
        last = match[match.lastindex or 0].lower()
    return last
