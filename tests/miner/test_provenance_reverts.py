"""What messages say they take back and bring back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner import reverts

A, B, C = "0123456789abcdef0123456789abcdef01234567", "89abcdef01", "fedcba9"


@pytest.mark.parametrize(
    ("message", "ids"),
    [
        (f"This reverts commit {A}.", [A]),
        (f"This reverts commit {A.upper()}.", [A]),
        (f"This reverts commit {A}, reversing\nchanges made to {B}.", [A]),
        (f"This reverts commits {A}, {B} and {C}.", [A, B, C]),
        (f"This reverts commits {B} & {C}", [B, C]),
        (f"This reverts commits\n{A}\n{B}\n", [A, B]),
        (f"This reverts the following commits:\n\n- {B} Speed up\n- {C} Slow down\n\nThey broke.", [B, C]),
        (f"Reverting commits:\n  {B} (Speed up)\n  {C} (Slow down)", [B, C]),
        (f"This reverts commits {B}^..{C}.", [B, C]),
        (f"This reverts commits {B}..{C}.", [C]),
        (f"This effectively reverts commit {B}", [B]),
        (f"This also reverts {B}", [B]),
        (f"This reverts changeset {B}", [B]),
        (f"Revert commit {A}", [A]),
        (f"Reverts commit {A}. Now that it works", [A]),
        (f"Reverted the commit {A}", [A]),
        (f"revert {B} and {C}", [B, C]),
        (f"Fix the docs, and revert {B}.", [B]),
        (f"Reverts ada/engine@{A}", [A]),
        (f"Back out changeset {B}", [B]),
        (f"Backed out changeset {B} (bug 12) for crashes", [B]),
        (
            f"Backed out 2 changesets (bug 1)\n\nBacked out changeset {B} (bug 1)\nBacked out changeset {C}",
            [B, C],
        ),
        (f'Back out "Speed up"\n\nSummary:\nOriginal commit changeset: {B}', [B]),
        (f"Automated rollback of commit {A}.", [A]),
        (f"Rolls back {A}", [A]),
        (f'Reapply "Speed up"\n\nThis reverts commit {A}.', [A]),
        (f'Revert^2 "Speed up"\n\nThis reverts commit {A}.\n\n> This reverts commit {B}.', [A]),
        (f'Revert "Speed up"\n\nThis reverts commit {B} in part.', []),
        (f"Partially revert {B}", []),
        (f"Reverts a part of {B}", []),
        (f"This commit reverts most of {B}, in one file", []),
        (f"This partially reverts commit {B}", []),
        (f"When {B} reverted the removal, the test stayed", []),
        (f"We can't revert {B} yet", []),
        (f"Do not revert commit {B}", []),
        ("Revert 20240101", []),
        ("Revert back to the old hash", []),
        ("This reverts a previous commit", []),
        (f"> This reverts commit {B}.", []),
        (f"This is a reland of commit {B}", []),
    ],
)
def test_commits_that_a_message_reverts(message: str, ids: list[str]) -> None:
    assert reverts.reverted_commits(message) == ids


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("Reverts #12", ["pr:12"]),
        ("Reverts ada/engine#12", ["pr:12"]),
        ("Reverts ada/engine#12.", ["pr:12"]),
        ("Reverts gh-12", ["pr:12"]),
        ("This reverts #12 (introduced in 7.0)", ["pr:12"]),
        ("This reverts PR #12, will be back later", ["pr:12"]),
        ("This reverts pull request #12", ["pr:12"]),
        ("Revert #12 and #13", ["pr:12", "pr:13"]),
        ("Revert #12, #13 and #14", ["pr:12", "pr:13", "pr:14"]),
        ("revert #2050 - see #2049 for more (#2070)", ["pr:2050"]),
        ("Reverting #9695.", ["pr:9695"]),
        ("This reverts merge request !12", ["mr:12"]),
        ("Reverts group/sub/project!12", ["mr:12"]),
        ("Reverts https://github.com/ada/engine/pull/12", ["pr:12"]),
        ("This reverts https://gitlab.com/ada/engine/-/merge_requests/12", ["mr:12"]),
        ("Revert r1234", ["svn:1234"]),
        ("Reverting r499.", ["svn:499"]),
        ("Revert r12, r13 and r14: they broke the build", ["svn:12", "svn:13", "svn:14"]),
        ("This reverts SVN r1234.", ["svn:1234"]),
        ("This reverts change I0123456789abcdef.", ["change-id:I0123456789abcdef"]),
        ("Revert D123: Speed up the parser", ["revision:D123"]),
        ('Back out "Speed up"\n\nOriginal Phabricator Diff: D123', ["revision:D123"]),
        ("Automated rollback of changelist 1234.", ["piper:1234"]),
        ("Merge pull request #13 from ada/revert-12-topic\n\nSome text", ["pr:12"]),
        ("Merge pull request #13 from ada/reverted-gson-2.6.2", []),
        ("Reverts most of the changes of #12 (#13)", []),
        ("The PR reverts the changes made on #12", []),
        ("Revert most of r677: Required strings", []),
        ("Revert the fix (#12)", []),
        ("> Reverts #12", []),
        ('Revert "Speed up" (#12)', []),
    ],
)
def test_requests_that_a_message_reverts(message: str, names: list[str]) -> None:
    assert reverts.reverted_requests(message) == names


@pytest.mark.parametrize(
    ("repo", "names"),
    [("ada/engine", []), ("bob/other", ["pr:12"]), ("x/OTHER", ["pr:12"]), ("engine", ["pr:12"])],
)
def test_request_of_another_repository_is_not_reverted_here(repo: str, names: list[str]) -> None:
    assert reverts.reverted_requests("Reverts bob/other#12", repo) == names
    assert reverts.reverted_requests("Reverts https://github.com/bob/other/pull/12", repo) == names


@pytest.mark.parametrize(
    ("message", "subjects"),
    [
        ('Revert "Speed up"', ["Speed up"]),
        ('Revert "Speed up" (#12)', ["Speed up"]),
        ('Revert "Speed up (#11)" (#12)', ["Speed up (#11)"]),
        ('Revert "fix test "test_url""', ['fix test "test_url"']),
        ('Revert "lazy load idna" and import idna on demand', ["lazy load idna"]),
        ('Revert "Revert "Speed up""', ['Revert "Speed up"']),
        ('Reapply "Speed up"', ['Revert "Speed up"']),
        ('Reland "Speed up"', ['Revert "Speed up"']),
        ("[reland] Speed up", ['Revert "Speed up"']),
        ('Revert^2 "Speed up"', ['Revert "Speed up"']),
        ('Revert^3 "Speed up"', ['Revert^2 "Speed up"']),
        ('Backout "Speed up"', ["Speed up"]),
        ('Backed out "Speed up" for crashes', ["Speed up"]),
        ("revert: feat: speed up", ["feat: speed up"]),
        ("revert(parser): speed up", ["speed up"]),
        ("Revert “Speed up”", ["Speed up"]),
        ("Revert &quot;Speed up&quot;", ["Speed up"]),
        ('[parser] Revert "Speed up"', ["Speed up"]),
        ('Revert "Speed up" partially', []),
        ('Partially revert "Speed up"', []),
        ("Revert the old method of choosing", []),
        ("revert", []),
        ('Revert ""', []),
        ('Revert "', []),
        ("Speed up", []),
        ('Do not revert "Speed up"', []),
        ("Reverted: ", []),
        ("", []),
    ],
)
def test_subjects_that_a_message_reverts(message: str, subjects: list[str]) -> None:
    assert reverts.reverted_subjects(message + "\n\nSome text") == subjects


@pytest.mark.parametrize(
    ("subject", "level"),
    [
        ("Speed up", 0),
        ("Speed up (#12)", 0),
        ('Revert "Speed up"', 1),
        ('Revert "Speed up (#12)" (#13)', 1),
        ('Revert "Revert "Speed up""', 2),
        ('Revert "Revert "Speed up (#12)" (#13)" (#14)', 2),
        ('Reapply "Speed up"', 2),
        ('Reland "Speed up" (!14)', 2),
        ('Revert^2 "Speed up"', 2),
        ('Revert "Reland "Speed up""', 3),
        ('Revert^3 "Speed up"', 3),
        ('Reapply "Revert "Speed up""', 3),
    ],
)
def test_level_of_a_subject(subject: str, level: int) -> None:
    assert reverts.undo_level(subject) == ("Speed up", level)


@given(
    st.text(
        st.characters(exclude_characters='"“”', exclude_categories=("Cs", "Cc")), min_size=1, max_size=40
    ),
    st.lists(st.sampled_from(["Revert", "Reapply"]), max_size=12),
)
def test_every_revert_adds_one_level_and_every_reapply_two(base: str, steps: list[str]) -> None:
    bottom, level = reverts.undo_level(base)
    if not bottom or bottom != " ".join(base.split()):
        return
    subject = base
    for step in steps:
        subject = f'{step} "{subject}"'
    assert reverts.undo_level(subject) == (
        bottom,
        level + sum(1 if step == "Revert" else 2 for step in steps),
    )


@pytest.mark.parametrize(
    ("message", "ids"),
    [
        (f'Reland "Speed up"\n\nThis is a reland of commit {A}', [A]),
        (f'Reland "Speed up"\n\nThis is a reland of {A}', [A]),
        (f"This relands commit {B}.", [B]),
        (f"This re-applies {B} which was reverted in {C}.", [B]),
        (f"Rollforward of commit {A}.", [A]),
        (f"> This is a reland of commit {A}", []),
        (f"This reverts commit {A}", []),
        ("Reapply the patch", []),
    ],
)
def test_commits_that_a_message_brings_back(message: str, ids: list[str]) -> None:
    assert reverts.reapplied_commits(message) == ids


@pytest.mark.parametrize(
    "message",
    [
        "This reverts commit 0123456",
        'Revert "X"',
        "BACKED OUT changeset 0123456",
        'Backout "X"',
        'Reland "X"',
        're-apply "X"',
        "Rollback of changelist 1",
        'Recommit "X"',
        "undo 0123456",
    ],
)
def test_fast_look_misses_nothing(message: str) -> None:
    assert reverts.may_revert(message.encode())


@given(st.text(max_size=400) | st.from_regex(r"(This reverts|Revert|Reland) [ 0-9a-f#!,\"rD.^]{0,80}"))
def test_any_message_gets_an_answer_and_the_fast_look_agrees(message: str) -> None:
    found = [
        *reverts.reverted_commits(message),
        *reverts.reverted_requests(message),
        *reverts.reverted_subjects(message),
        *reverts.reapplied_commits(message),
    ]
    level = reverts.undo_level(message.strip().partition("\n")[0])[1]
    assert reverts.may_revert(message.encode()) or not (found or level)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "This reverts commit ",
            "revert ",
            "Revert #1, ",
            "0123456 ",
            "revert the ",
            "reverts a/",
            'Revert "',
        ),
        *(
            "Revert^2 ",
            "revert https://a/",
            "[a] ",
            "relands ",
            "reverts commits:\n",
            "> revert",
            "\n",
            " and ",
        ),
        *("revert 0123456, ", "revert r1 ", "back out ", '"', "..", "revert a.b/c.d/"),
    ],
)
def test_repetitive_messages_are_read_without_blowing_up(unit: str) -> None:
    for message in (
        unit * 50_000,
        "This reverts commit 0123456" + unit * 50_000,
        "Reverts #1" + unit * 50_000,
    ):
        reverts.reverted_commits(message)
        reverts.reverted_requests(message)
        reverts.reverted_subjects(message)
        reverts.reapplied_commits(message)
        reverts.undo_level(message)
        reverts.may_revert(message.encode())
