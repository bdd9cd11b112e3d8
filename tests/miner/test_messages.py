"""Which messages say nothing, and what messages and authors tell about how a change got in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner import provenance
from miner.messages import is_low_signal, normalise_subject


@pytest.mark.parametrize(
    "message",
    [
        "update readme",
        "Update README.md",
        "wip",
        "WIP: work in progress",
        "Initial commit",
        "first commit",
        "fix typo",
        "Fixed some typos in the docs.",
        "fix: typo",
        "docs(readme): fix typo",
        "Fix a warning.",
        "Fix the build!",
        "minor changes",
        "cleanup #2326",
        "Fix #1911 (#1913)",
        "Address review comments",
        "Apply suggestions from code review",
        "run black",
        "Make flake8 happy",
        "some more tests",
        "remove debug output",
        ":bug: fix bug",
        "🐛 fix bug",
        "oops, forgot a file",
        "...... ---",
        "Bump version number to 0.12.3",
        "Bump version to 2.0.0rc1",
        "release version 2.1.1",
        "Release 1.2.3",
        "v1.2.3",
        "1.2.3-beta.1",
        "This is 0.12-dev",
        "[maven-release-plugin] prepare release gson-2.8.5",
        "Bump lodash from 4.17.15 to 4.17.21",
        "build(deps): bump lodash from 4.17.15 to 4.17.21 in /docs",
        "Update dependencies to their newest versions",
        "Merge branch 'main' into topic",
        "Merge pull request #4 from ada/topic",
        "*** empty log message ***",
        "Update copyright year to 2024",
        'Revert "Speed up the parser"',
        'Revert "Speed up the parser"\n\nThis reverts commit 0123456789abcdef.',
        "fix tests\n\nSigned-off-by: Ada <ada@x.org>\nChange-Id: I0123456789",
    ],
)
def test_message_says_nothing(message: str) -> None:
    assert is_low_signal(message)


@pytest.mark.parametrize(
    "message",
    [
        "fix overflow in parser",
        "Fix memory leak",
        "Fix crash when the file is empty",
        "Optimize code",
        "Simplify the loop",
        "Use a set for lookups",
        "Remove unused imports",
        "Escape user input in the template",
        "Bump the buffer to 4096 bytes",
        "Version the cache keys",
        "Release the lock before calling back",
        "Merge sort instead of bubble sort",
        "Fix #12: division by zero",
        "Revert to the old hash, since the new one collides",
        'Revert "Speed up the parser"\n\nIt returned wrong positions for tabs.',
        "Fix tests\n\nThe clock ran backwards on virtual machines.",
        "perf: avoid copying the buffer",
        "Handle errors from close",
    ],
)
def test_message_says_something(message: str) -> None:
    assert not is_low_signal(message)


@given(st.text(max_size=400))
def test_any_message_is_judged(message: str) -> None:
    assert is_low_signal(message) in (True, False)
    assert "\n" not in normalise_subject(message)


@pytest.mark.parametrize("unit", ["a: ", "[x] ", ":a: ", "fix ", "1.", "bump to ", "((", "from x to "])
def test_long_repetitive_subjects_are_judged_without_blowing_up(unit: str) -> None:
    is_low_signal(unit * 100_000)


@pytest.mark.parametrize(
    ("message", "how"),
    [
        ("Speed up the parser (#123)", "pr:123"),
        ("Speed up the parser (#123)\n\nDetails", "pr:123"),
        ("Speed up the parser (!77)", "mr:77"),
        ("Merge pull request #5 from ada/topic", "pr:5"),
        ("Merged PR #5: title", "pr:5"),
        ("Merged in ada/topic (pull request #8)", "pr:8"),
        ("Merge branch 'x' into 'y'\n\nSee merge request group/project!12", "mr:12"),
        ("Title\n\nPR-URL: https://github.com/nodejs/node/pull/99\n", "pr:99"),
        ("Title\n\nPull Request resolved: https://github.com/pytorch/pytorch/pull/7", "pr:7"),
        ("Title\n\nReviewed-by: Bob <bob@x.org>", "review-trailer"),
        ("Title\n\nChange-Id: I0123456789abcdef", "review-trailer"),
        ("Title\n\nReviewed-on: https://review.example/1", "change:1"),
        ("Fix #12", None),
        ("Speed up (#12) the parser", None),
        ('Revert "Speed up the parser (#12)"', None),
        ("Title\n\nSigned-off-by: Ada <ada@x.org>", None),
        ("I say Reviewed-by: nobody", None),
        ("", None),
    ],
)
def test_how_a_message_says_that_a_change_got_in(message: str, how: str | None) -> None:
    assert provenance.merged_by_message(message) == how


@pytest.mark.parametrize(
    ("message", "how"),
    [
        ("Merge branch 'topic'", "merge-commit"),
        ("Merge branch 'topic' into main", "merge-commit"),
        ("Merge pull request #5 from ada/main", "pr:5"),
        ("Merge branch 'main' of github.com:ada/engine", None),
        ("Merge branch 'master' into topic", None),
        ("Merge remote-tracking branch 'origin/master'", None),
        ("Merge branch 'topic' of https://x.org/ada/engine into topic", None),
        ("Merge branch 'maintenance'", "merge-commit"),
        ("Bring the new parser in", "merge-commit"),
    ],
)
def test_what_a_merge_says_about_what_it_brought(message: str, how: str | None) -> None:
    assert provenance.merged_by_merge(message) == how


@pytest.mark.parametrize(
    ("message", "ids"),
    [
        (f"This reverts commit {'0a' * 20}.", ["0a" * 20]),
        ("this reverts commit 0123456", ["0123456"]),
        ("This reverts commits 0123456, 89abcde and fedcba9.", ["0123456", "89abcde", "fedcba9"]),
        ("This reverts commit\n0123456789.", ["0123456789"]),
        ("This reverts commit 012345.", []),
        ("This reverts commit of yesterday", []),
        ("A. This reverts commit 0123456.\nB. This reverts commit 89abcde.", ["0123456", "89abcde"]),
    ],
)
def test_ids_that_a_message_reverts(message: str, ids: list[str]) -> None:
    assert provenance.reverted_commits(message) == ids


@pytest.mark.parametrize(
    ("name", "email"),
    [
        ("dependabot[bot]", "49699333+dependabot[bot]@users.noreply.github.com"),
        ("renovate-bot", "bot@renovateapp.com"),
        ("Renovate Bot", "bot@renovateapp.com"),
        ("Travis CI", "builds@travis-ci.org"),
        ("github-actions", "action@github.com"),
        ("k8s-merge-robot", "x@y.org"),
        ("greenkeeper", "x@y.org"),
        ("pre-commit-ci", "x@y.org"),
    ],
)
def test_bots_are_known(name: str, email: str) -> None:
    assert provenance.is_bot(name, email)


@pytest.mark.parametrize(
    ("name", "email"),
    [
        ("Greg Abbot", "abbot@x.org"),
        ("Robot Smith", "robert@x.org"),
        ("Ada", "ada@robotics.org"),
        ("Jens Talbot", "talbot@x.org"),
        ("", ""),
        ("Jenkinson", "j@x.org"),
    ],
)
def test_people_are_no_bots(name: str, email: str) -> None:
    assert not provenance.is_bot(name, email)


@pytest.mark.parametrize(
    ("trailer", "who"),
    [
        ("Co-Authored-By: Claude <noreply@anthropic.com>", "claude"),
        ("Co-authored-by: Copilot <175728472+Copilot@users.noreply.github.com>", "copilot"),
        ("Co-authored-by: Cursor <cursoragent@cursor.com>", "cursor"),
        ("Co-authored-by: aider (gpt-4o) <noreply@aider.chat>", "aider"),
        ("🤖 Generated with [Claude Code](https://claude.ai/code)", "claude"),
        ("Assisted-by: ChatGPT", "codex"),
        ("Co-authored-by: Claudette Colvin <cc@x.org>", None),
        ("Co-authored-by: Ada <ada@x.org>", None),
        ("This was generated with care", None),
    ],
)
def test_assistants_named_by_trailers(trailer: str, who: str | None) -> None:
    assert provenance.ai_assistant(f"Speed up the parser\n\n{trailer}\n") == who


def test_assistant_named_in_prose_is_no_trailer() -> None:
    assert provenance.ai_assistant("Fix the Claude client\n\nCopilot sent wrong headers.") is None
