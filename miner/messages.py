"""Commit messages that say nothing about their change.

A label is drawn from what a message says, so a commit whose message could stand on any change is
of no use. Subjects are compared as a whole, never by what they contain: "fix" says nothing, "fix
overflow in parser" does. Three kinds say nothing: subjects all of whose words are empty ones ("fix
some typos in the docs"), routine ones (version bumps, merges, dependency updates), and a bare
`Revert "..."`. All checks are linear in the subject, of which 300 characters are looked at.
"""

from __future__ import annotations

import re

from miner.provenance import first_line
from miner.wordlist import words

_EMPTY_WORDS = words(
    """
    a an the this that these those it its and or in on of for to from with at by as is be not no i my we
    our some more few several various minor small tiny little big quick simple trivial general misc
    miscellaneous other another same new old last latest final first second initial next missing extra
    additional stupid silly dumb broken failing wrong again now finally still also just really
    only bit lot better nicer fix fixes fixed fixing fixup hotfix bugfix bugfixes update updates updated
    updating upd change changes changed changing modify modifies modified modification modifications
    edit edits edited editing tweak tweaks tweaked adjust adjusts adjusted adjustment adjustments
    correct corrects corrected correction corrections improve improves improved improvement improvements
    enhance enhanced enhancement enhancements polish polishing clean cleans cleaned cleaning cleanup
    cleanups up refactor refactors refactored refactoring rework reworked rewrite tidy add adds added
    adding remove removes removed removing delete deletes deleted drop rename renamed move moved moving
    create created make makes made use touch try trying tried attempt revert reverted undo redo put set
    get go run ran apply applied address addressed addresses addressing implement implemented
    incorporate respond resolve resolved resolves satisfy appease please do does done work works
    working worked bug bugs issue issues problem problems error errors warning warnings mistake mistakes
    typo typos spelling misspelling misspellings grammar wording nit nits nitpick nitpicks style styling
    format formats formatted formatting reformat reformatted lint linting linter lints indent indents
    indented indentation indenting whitespace whitespaces white space spaces spacing newline newlines
    line lines blank empty trailing tab tabs semicolon semicolons comma commas comment comments
    commented docstring docstrings doc docs documentation document readme changelog changes history news
    todo todos authors contributors license licence copyright header headers year file files code stuff
    thing things test tests testing testcase testcases example examples sample samples demo config
    configuration settings build builds ci travis jenkins circleci appveyor workflow workflows makefile
    script scripts gitignore submodule submodules log logs logging debug debugging print prints output
    statement statements import imports conflict conflicts merge merges merged merging rebase sync
    syncing synced commit commits committing checkin check checkpoint push pushing pull save saving
    saved backup snapshot wip progress tmp temp temporary init start dummy import draft review reviews
    reviewer reviewed feedback suggestion suggestions remark remarks pr cr oops whoops argh ugh meh hmm
    hm lol yay ok okay ready finished forgot foo bar baz blah asdf message none nothing untitled pep8
    pep flake8 pylint black isort ruff rubocop eslint jshint jslint prettier gofmt golint rustfmt clippy
    checkstyle phpcs pyflakes mypy happy py js ts rb rs php java go cs cpp cc hpp txt md rst html yml
    yaml json toml
    """
)
"""A subject made of these words only could stand on any change. Words of a criterion, such as
`optimize`, `leak`, `crash`, `secure` or `simplify`, are not among them."""

_VERSION = re.compile(
    r"v?\d+(?:[._]\w+)*(?:[-+~]?(?:alpha|beta|rc|pre|dev|snapshot|final|ga|post|a|b|m)[.\d-]*)?"
)
_VERSION_WORDS = words(
    """
    bump bumps bumped bumping version versions versioning ver release releases released releasing
    prepare prepares prepared preparing preparation update updates updated set change changed increment
    incremented increase increased upgrade upgraded cut tag tagged start begin back open next new the
    for to from of at is in a this package project library lib patch minor major dev development cycle
    iteration number string build snapshot post pre after changelog readme and into first final rc alpha
    beta stable maintenance copyright year years license licence notice date dates header headers happy
    """
)
_VERSION_KEYS = words(
    "bump bumps bumped bumping version versions versioning release releases released releasing copyright"
)

_ROUTINE = re.compile(
    "|".join(
        (
            r"merged? (?:branch|pull request|pr|remote|tag|commits?|from|in|with|master|main|trunk)\b.*",
            r"merged? \S+ (?:into|to|from|with) \S+",
            r"(?:bump|upgrade|update) \S+(?: requirement)? from \S+ to \S+(?: in \S+)?",
            r"(?:bump|upgrade|update) (?:dependenc(?:y|ies)|deps|requirements|submodules?|lock ?files?)\b.*",
            r"(?:automatic|automated|auto)[- ]?(?:commit|update|merge|backup|generated|format\w*)\b.*",
            r"re-?generated? (?:files?|code|bindings|parsers?|docs|configure|protos?|lock ?files?)?",
            r"\[(?:maven-release-plugin|gradle release plugin|ci skip|skip ci|auto)\].*",
            r"(?:svn|cvs|git-svn)\b.{0,20}\b(?:merge|sync|import)\b.*|git-svn-id.*",
            r"(?:no|empty|without) (?:log |commit )?(?:message|comment)|\*\*\* empty log message \*\*\*",
            r"(?:sync|synced|pull|import|imported) (?:with|from) (?:upstream|master|main|trunk|svn)\b.{0,30}",
        )
    )
)

_PREFIX = re.compile(r"(?:\[[^\]]{1,40}\]|\w{1,20}(?:\([^)]{0,60}\))?!?:|:\w{1,30}:)\s*(?=\S)")
_NUMBER = re.compile(r"\(?(?<![\w/])(?:gh-|#|!)\d{1,9}\)?")
_TRAILER_LINE = re.compile(
    r"\s*(?:[A-Za-z][A-Za-z-]{2,40}-(?:by|to|on|id|cc):|git-svn-id:|pr-url:|refs?:|closes:?|fixes:?|cc:|signed-off|"
    r"\(cherry picked from|this reverts commit|reverts \S*#\d)",
    re.IGNORECASE,
)
_BARE_REVERT = re.compile(
    r"revert(?:ed|s|ing)?:? (?:[\"“'].*[\"”']\W*|(?:commits? )?[0-9a-f]{7,40}\W*)", re.IGNORECASE
)
_MAX_SUBJECT = 300
_MIN_BODY = 20


def normalise_subject(subject: str) -> str:
    """A subject in lower case, without `fix(scope):` prefixes, emoji and issue numbers."""
    text = subject[:_MAX_SUBJECT].lower()
    if not text.isascii():
        text = "".join(c if ord(c) < 0x2190 else " " for c in text)
    text = _NUMBER.sub(" ", text).strip()
    while match := _PREFIX.match(text):
        text = text[match.end() :]
    return re.sub(r"\s+", " ", text).strip(" \t.,;:!?*-_=~'\"`")


def _is_empty(subject: str) -> bool:
    """Every word is an empty one, a number, or a file name such as `README.md` made of them."""
    return all(word in _EMPTY_WORDS or word.isdigit() for word in re.findall(r"\w+", subject))


def _is_version_bump(subject: str) -> bool:
    """It speaks of a version or a release and of nothing else, or is a version number."""
    parts = [word.strip(".,:;()'\"`=>-") for word in subject.split()]
    parts = [part for part in parts if part]
    numbers = sum(bool(_VERSION.fullmatch(word)) for word in parts)
    named = any(word in _VERSION_KEYS for word in parts)
    rest = all(word in _VERSION_WORDS or _VERSION.fullmatch(word) for word in parts)
    return rest and (named or (numbers > 0 and len(parts) <= 4))


def body_chars(message: str) -> int:
    """Characters of a message after its first line, trailers and references not counted."""
    body = message.strip().partition("\n")[2]
    return sum(len(line.strip()) for line in body.split("\n") if not _TRAILER_LINE.match(line))


def is_low_signal(message: str) -> bool:
    """Whether a message says nothing about its change.

    Routine subjects count whatever follows them; empty words and a bare `Revert "..."` only when no
    body explains them.
    """
    line = first_line(message)
    subject = normalise_subject(line)
    plain = line.lower()[:_MAX_SUBJECT]
    if _is_version_bump(subject) or _ROUTINE.fullmatch(subject) or _ROUTINE.fullmatch(plain):
        return True
    if body_chars(message) >= _MIN_BODY:
        return False
    return _is_empty(subject) or _BARE_REVERT.fullmatch(plain) is not None
