"""How a change got in and who made it, as far as a history tells.

Pure functions over commit messages, author names and the shape of the commit graph. They say what
the text says: a message can lie, and review that leaves no trace in git is not seen.
"""

from __future__ import annotations

import re

MERGE_COMMIT = "merge-commit"

_OWN_PR = re.compile(r"\(#(\d{1,9})\)\s*$")
_OWN_MR = re.compile(r"\(!(\d{1,9})\)\s*$")
_MERGE_PR = re.compile(r"Merge(?:d)? (?:pull request|PR) #(\d{1,9})\b", re.IGNORECASE)
_BITBUCKET_PR = re.compile(r"Merged in .{1,200} \(pull request #(\d{1,9})\)")
_SEE_MR = re.compile(r"^See merge request (?:\S{1,200})?!(\d{1,9})\s*$", re.MULTILINE)
_PR_URL = re.compile(
    r"^(?:PR-URL|Pull[- ]Request(?:[- ]resolved)?|Closes|Merges): ?https?://\S{1,200}/pull/(\d{1,9})\b",
    re.MULTILINE | re.IGNORECASE,
)
_REVIEW_TRAILER = re.compile(
    r"^(?:Reviewed-on: *\S+|Reviewed-by: *\S+|Change-Id: *I[0-9a-f]{8,40}|Differential Revision: *\S+)",
    re.MULTILINE | re.IGNORECASE,
)
_SYNC_MERGE = re.compile(
    r"Merge (?:remote[- ]tracking )?branch '?(?:(?:origin|upstream)/)?"
    r"(?:HEAD|master|main|trunk|develop|dev)'?(?:\s|$)|Merge branch '[^']+' of \S+(?: into \S+)?\s*$"
)

_REVERTS_COMMITS = re.compile(
    r"\bthis reverts commits?:?\s+([0-9a-f]{7,64}(?:(?:,|\s|and|&)+[0-9a-f]{7,64})*)\b", re.IGNORECASE
)
_REVERTS_PR = re.compile(r"^Reverts (?:[\w.-]{1,100}/[\w.-]{1,100})?#(\d{1,9})\s*$", re.MULTILINE)
_CHERRY_PICK = re.compile(r"^\(cherry picked from commit ([0-9a-f]{7,64})\)\s*$", re.MULTILINE)

_BOT = re.compile(
    r"\[bot\]|(?:^|[\s_-])(?:bot|robot)$|^bot[\s_-]"
    r"|^(?:dependabot|dependabot-preview|renovate|renovatebot|greenkeeper(?:io)?|greenkeeperio-bot|pyup|snyk"
    r"|github[- ]actions?|travis[- ]ci|semantic-release|allcontributors|imgbot|codecov|mergify|bors|homu"
    r"|pre-commit-ci|weblate|transifex|deepsource-autofix|restyled-io|whitesource|lgtm-com|jenkins)\b"
)
_BOT_EMAIL = re.compile(
    r"\[bot\]@|^(?:bot|robot|noreply-bot|support@dependabot|bot@renovate|support@greenkeeper)\b"
    r"|[._-]bot@|@(?:dependabot|renovateapp|greenkeeper|pyup|snyk)\."
)

_TRAILER = re.compile(
    r"^(?:co-authored-by|co-developed-by|assisted-by|generated-by|ai-assisted-by"
    r"|\W{0,4}generated (?:with|by))[: ]\s*(.{1,300})$",
    re.MULTILINE | re.IGNORECASE,
)
_ASSISTANTS = (
    ("claude", re.compile(r"\bclaude\b|@anthropic\.com", re.IGNORECASE)),
    ("copilot", re.compile(r"\bcopilot\b", re.IGNORECASE)),
    ("cursor", re.compile(r"\bcursor ?agent\b|\bcursoragent\b|^cursor\b|@cursor\.com", re.IGNORECASE)),
    ("aider", re.compile(r"\baider\b", re.IGNORECASE)),
    ("codex", re.compile(r"\bcodex\b|\bchatgpt\b|\bgpt-\d|@openai\.com", re.IGNORECASE)),
    ("gemini", re.compile(r"\bgemini\b|\bgoogle-labs-jules\b|\bjules\b.*\bbot\b", re.IGNORECASE)),
    ("devin", re.compile(r"\bdevin ai\b|\bdevin-ai-integration\b", re.IGNORECASE)),
    ("amp", re.compile(r"\bamp@ampcode\.com|@sourcegraph\.com", re.IGNORECASE)),
    ("windsurf", re.compile(r"\bwindsurf\b|\bcodeium\b", re.IGNORECASE)),
    ("openhands", re.compile(r"\bopenhands\b|@all-hands\.dev", re.IGNORECASE)),
    ("amazon-q", re.compile(r"\bamazon q\b", re.IGNORECASE)),
)


def first_line(message: str) -> str:
    """The first line of a message that is not blank."""
    return message.strip().partition("\n")[0].strip()


def numbered_request(message: str) -> str | None:
    """`pr:<n>` or `mr:<n>` when the message names the request that it came in by, else None."""
    subject = first_line(message)
    for pattern in (_MERGE_PR, _BITBUCKET_PR):
        if match := pattern.match(subject):
            return f"pr:{int(match[1])}"
    if match := _OWN_PR.search(subject):
        return f"pr:{int(match[1])}"
    if match := _OWN_MR.search(subject) or _SEE_MR.search(message):
        return f"mr:{int(match[1])}"
    if match := _PR_URL.search(message):
        return f"pr:{int(match[1])}"
    return None


def merged_by_message(message: str) -> str | None:
    """How a commit got in by its own message: `pr:<n>`, `mr:<n>`, `review-trailer` or None."""
    if request := numbered_request(message):
        return request
    return "review-trailer" if _REVIEW_TRAILER.search(message) else None


def merged_by_merge(message: str) -> str | None:
    """How the commits that a merge brought got in, by the merge's message.

    A merge that only brings a branch up to date with its remote (`Merge branch 'main' of ...`) is no
    sign that anybody accepted a change, and gives None.
    """
    if request := numbered_request(message):
        return request
    return None if _SYNC_MERGE.match(first_line(message)) else MERGE_COMMIT


def reverted_commits(message: str) -> list[str]:
    """Object ids, possibly abbreviated, of the commits that a message says it reverts."""
    found: list[str] = []
    for match in _REVERTS_COMMITS.finditer(message):
        found += (word.lower() for word in re.findall(r"\b[0-9a-f]{7,64}\b", match[1], re.IGNORECASE))
    return found


def reverted_requests(message: str) -> list[str]:
    """`pr:<n>` of the pull requests that a message says it reverts (GitHub's `Reverts owner/name#n`)."""
    return [f"pr:{int(number)}" for number in _REVERTS_PR.findall(message)]


def cherry_picked_from(message: str) -> str | None:
    """The commit that `git cherry-pick -x` says a commit was picked from, as written; the last one named."""
    found: list[str] = _CHERRY_PICK.findall(message)
    return found[-1] if found else None


def is_bot(name: str, email: str) -> bool:
    """Whether an author's name or address is that of a known bot, or calls itself one."""
    return bool(_BOT.search(name.strip().lower()) or _BOT_EMAIL.search(email.strip().lower()))


def ai_assistant(message: str) -> str | None:
    """The assistant that a trailer of the message names, or None."""
    for match in _TRAILER.finditer(message):
        for name, pattern in _ASSISTANTS:
            if pattern.search(match[1]):
                return name
    return None
