"""How messages of forges, review tools and mailing lists say that a change got in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner import provenance


@pytest.mark.parametrize(
    ("message", "how"),
    [
        # GitHub: merge commit, squash, merge queue, Prow and tide squash with the number in the subject.
        ("Merge pull request #5 from ada/topic\n\nSpeed up", "pr:5"),
        ("Speed up the parser (#123)\n\n* first\n\n* second", "pr:123"),
        ("Speed up the parser (#12) (#34)", "pr:34"),
        ("Merge branch 'main' into gh-readonly-queue/main/pr-77-0123456789abcdef", "pr:77"),
        ("Apply patches (#9)\n\nSigned-off-by: k8s-ci-robot <x@y.org>", "pr:9"),
        # GitLab.
        (
            "Merge branch 'x' into 'y'\n\nTitle\n\nCloses #4\n\nSee merge request group/sub/project!12",
            "mr:12",
        ),
        ("Merge branch 'x' into 'y'\n\nSee merge request !12", "mr:12"),
        ("Merge branch 'x'\n\nSee merge request https://gitlab.com/g/p/-/merge_requests/12", "mr:12"),
        ("Title\n\nPart-of: <https://gitlab.freedesktop.org/mesa/mesa/-/merge_requests/31>", "mr:31"),
        ("Title (!77)", "mr:77"),
        # Gerrit, Chromium, Rietveld.
        (
            "Title\n\nChange-Id: I0123456789\nReviewed-on: https://go-review.googlesource.com/c/go/+/4567\n"
            "Reviewed-by: Bob <bob@x.org>",
            "change:4567",
        ),
        ("Title\n\nReviewed-on: http://gerrit.example.org/4567", "change:4567"),
        ("Title\n\nReviewed-on: https://gerrit.example.org/c/proj/+/4567/2", "change:4567"),
        ("Title\n\nReview-Url: https://codereview.chromium.org/2345678", "change:2345678"),
        ("Title\n\nReview URL: https://codereview.chromium.org/2345678 .", "change:2345678"),
        ("Title\n\nReviewed-by: Bob <b@x.org>\nCr-Commit-Position: refs/heads/main@{#7}", "review-trailer"),
        ("Title\n\nCr-Commit-Position: refs/heads/main@{#7}", "review-trailer"),
        # Bitbucket cloud and server.
        ("Merged in ada/topic (pull request #8)\n\nTitle", "pr:8"),
        ("Pull request #9: Speed up the parser", "pr:9"),
        ("Merge pull request #10 in PROJ/repo from topic to master", "pr:10"),
        # Azure DevOps, Gitea, Forgejo.
        ("Merged PR 123: Speed up the parser\n\nRelated work items: #456", "pr:123"),
        ("Merge pull request 'Speed up (again)' (#12) from ada/topic into main", "pr:12"),
        (
            "Title\n\nReviewed-on: https://codeberg.org/ada/engine/pulls/31\nReviewed-by: Bob <b@x.org>",
            "pr:31",
        ),
        # Phabricator.
        (
            "Title\n\nReviewers: bob\n\nDifferential Revision: https://reviews.llvm.org/D123456",
            "revision:D123456",
        ),
        ("Title\n\nDifferential Revision: D99", "revision:D99"),
        (
            "Title\n\nPull Request resolved: https://github.com/pytorch/pytorch/pull/7\n\n"
            "Differential Revision: D99",
            "pr:7",
        ),
        # Mailing lists.
        (
            "Title\n\nLink: https://lore.kernel.org/r/20240101.1-2-ada@x.org\nSigned-off-by: Ada <a@x.org>",
            "mailing-list",
        ),
        ("Title\n\nMessage-Id: <20240101.1-2-ada@x.org>", "mailing-list"),
        ("Title\n\nDiscussion: https://postgr.es/m/CA+abc@mail.example.com", "mailing-list"),
        ("Title\n\nPatchwork: https://patchwork.kernel.org/patch/123/", "mailing-list"),
        (
            "Title\n\nReviewed-by: Bob <b@x.org>\nLink: https://lore.kernel.org/r/1-2-ada@x.org",
            "review-trailer",
        ),
        # bors, homu, mergify.
        ("Auto merge of #12345 - ada:topic, r=bob\n\nTitle", "pr:12345"),
        ("Rollup merge of #12345 - ada:topic, r=bob", "pr:12345"),
        ("Merge #12", "pr:12"),
        ("Merge #12: Speed up the parser", "pr:12"),
        ("Merge of #12", "pr:12"),
        # Others.
        ("Title\n\nPiperOrigin-RevId: 123456789", "review-trailer"),
        ("[SPARK-1] Title\n\nCloses #123 from ada/topic.", "pr:123"),
        ("Bug 1234567 - Speed up the parser. r=bob,carol", "review-trailer"),
        ("Speed up the parser\n\nReviewed by Darin Adler.\n\n* Source/x.cpp:", "review-trailer"),
        ("8123456: Speed up\n\nReviewed-by: alanb, rriggs", "review-trailer"),
        ("sys: speed up\n\nReviewed by:\tkib", "review-trailer"),
    ],
)
def test_form_of_every_tool_is_known(message: str, how: str) -> None:
    assert provenance.merged_by_message(message) == how


@pytest.mark.parametrize(
    "message",
    [
        "Fix owner/other#12",
        "Speed up the parser (owner/other#12)",
        "Fixes #12",
        "Title\n\nCloses #12",
        "Title\n\nRelated work items: #12",
        "Title\n\nLink: https://github.com/owner/other/pull/12",
        "Title\n\nLink: https://lore.kernel.org/r/1-2-ada@x.org [1]",
        "Title\n\nCloses: https://lore.kernel.org/all/1-2-ada@x.org",
        "Merge #12 into the list of sorted runs",
        "Title\n\nSee merge requests !12 and !13",
        "Title\n\n    Reviewed-by: Bob <b@x.org>",
        "Bug 1234567 - Speed up the parser. r?bob",
        "Title\n\nReviewed by NOBODY (OOPS!).",
        "Title\n\nChange-Id: of the server",
    ],
)
def test_what_is_no_sign_of_acceptance(message: str) -> None:
    assert provenance.merged_by_message(message) is None


def test_batch_of_bors_names_no_single_request() -> None:
    assert provenance.merged_by_merge("Merge #12 #13") == "merge-commit"
    assert provenance.names_of("Merge #12 #13") == []


@pytest.mark.parametrize(
    ("url", "repo", "how"),
    [
        ("https://github.com/nodejs/node/pull/9", "nodejs/node", "pr:9"),
        ("https://github.com/NodeJS/Node/pull/9", "nodejs/node", "pr:9"),
        ("https://github.com/nodejs/node/pull/9", "ada/node", "pr:9"),
        ("https://github.com/nodejs/node/pull/9", "node", "pr:9"),
        ("https://github.com/nodejs/node/pull/9", "nodejs/undici", "review-trailer"),
    ],
)
def test_url_names_a_request_of_its_own_repository_only(url: str, repo: str, how: str) -> None:
    assert provenance.merged_by_message(f"Title\n\nPR-URL: {url}\n", repo) == how


def test_merge_with_the_url_of_another_repository_is_a_plain_merge() -> None:
    message = "Merge the fixes\n\nPR-URL: https://github.com/owner/other/pull/12"
    assert provenance.merged_by_merge(message, "ada/engine") == "merge-commit"


def test_request_of_a_backport_is_its_own_and_not_that_of_the_original() -> None:
    message = (
        "Title\n\nReviewed-on: https://go-review.googlesource.com/c/go/+/1\n(cherry picked from commit "
        "0123456789abcdef)\nReviewed-on: https://go-review.googlesource.com/c/go/+/2"
    )
    assert provenance.merged_by_message(message) == "change:2"


ADA = ("Ada Lovelace", "ada@x.org")


@pytest.mark.parametrize(
    ("trailers", "how"),
    [
        ("Signed-off-by: Ada Lovelace <ada@x.org>", None),
        ("Signed-off-by: Ada Lovelace <ada@work.com>", None),
        ("Signed-off-by: A. L. <ADA@x.org>", None),
        ("Reviewed-by: Ada Lovelace <ada@x.org>", None),
        ("Acked-by: Bob <bob@x.org>", "review-trailer"),
        ("Signed-off-by: Ada Lovelace <ada@x.org>\nSigned-off-by: Bob <bob@x.org>", "review-trailer"),
        ("Signed-off-by: Bob <bob@x.org>", "review-trailer"),
        ("Co-developed-by: Bob <bob@x.org>\nSigned-off-by: Bob <bob@x.org>", None),
        ("Tested-by: Bob <bob@x.org>", None),
        ("Suggested-by: Bob <bob@x.org>", None),
        ("Reviewed-by:", None),
    ],
)
def test_only_somebody_else_reviews(trailers: str, how: str | None) -> None:
    assert provenance.merged_by_message(f"Title\n\n{trailers}\n", None, *ADA) == how


def test_sign_off_of_a_second_person_shows_without_knowing_the_author() -> None:
    first, second = "Signed-off-by: Ada <ada@x.org>", "Signed-off-by: Bob <bob@x.org>"
    assert provenance.merged_by_message(f"Title\n\n{first}\n{second}") == "review-trailer"
    assert provenance.merged_by_message(f"Title\n\n{first}\n{first}") is None


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("Title (#12)\n\nChange-Id: I0123456789abcdef", ["pr:12", "change-id:I0123456789abcdef"]),
        ("Title\n\nDifferential Revision: https://reviews.llvm.org/D12", ["revision:D12"]),
        (
            "Title\n\nPull Request resolved: https://github.com/a/b/pull/7\n\nDifferential Revision: D12",
            ["pr:7", "revision:D12"],
        ),
        ("Title\n\ngit-svn-id: https://svn.example.org/repo/trunk@1234 0123-4567", ["svn:1234"]),
        ("Title\n\nllvm-svn: 1234", ["svn:1234"]),
        ("Title\n\nPiperOrigin-RevId: 1234", ["piper:1234"]),
        ("Title", []),
    ],
)
def test_names_that_later_messages_may_use(message: str, names: list[str]) -> None:
    assert provenance.names_of(message) == names


@pytest.mark.parametrize(
    "message",
    [
        "Merged master into topic",
        "Merge master",
        "Merge branch 'main'",
        "Merge remote branch 'origin/master'",
        "Merge remote branch 'upstream/master' into topic",
        "Merge latest main into topic",
        "Merge upstream/main",
    ],
)
def test_bringing_a_branch_up_to_date_is_no_acceptance(message: str) -> None:
    assert provenance.merged_by_merge(message) is None


@pytest.mark.parametrize(
    "message", ["Merge tag 'fixes-6.1' of git://x.org/ada/linux", "Merge mainline fixes", "Merge maintenance"]
)
def test_other_merges_are_merges(message: str) -> None:
    assert provenance.merged_by_merge(message) == "merge-commit"


ID = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "line",
    [
        f"(cherry picked from commit {ID})",
        f"(cherry picked from {ID})",
        f"cherry picked from commit {ID}",
        f"(backported from commit {ID})",
        f"[ Upstream commit {ID} ]",
        f"commit {ID} upstream.",
        f"Commit {ID} upstream.",
        f"Backport of {ID}",
        f"backport of commit {ID}",
        f"This is a backport of redis/hiredis@{ID}.",
        f"Backport-of: {ID}",
        f"Cherry-picked-from: {ID}",
        f"Cherry-picked-from: https://github.com/ada/engine/commit/{ID}",
        f"Upstream-commit: {ID}",
    ],
)
def test_source_of_a_picked_commit(line: str) -> None:
    assert provenance.cherry_picked_from(f"Title\n\nText.\n\n{line}\n") == ID


@pytest.mark.parametrize(
    "line",
    [
        "This can be cherry picked to 6.0 only with f866023.",
        f"Fixes: {ID}",
        f"When {ID} was cherry-picked it introduced the bug",
        "backport of #2709",
        f"Introduced in upstream commit {ID}",
    ],
)
def test_what_only_speaks_of_picking(line: str) -> None:
    assert provenance.cherry_picked_from(f"Title\n\n{line}\n") is None


def test_last_source_counts_when_a_pick_was_picked_again() -> None:
    message = "Title\n\n(cherry picked from commit 1111111)\n(cherry picked from commit 2222222)\n"
    assert provenance.cherry_picked_from(message) == "2222222"


@given(st.text(max_size=600), st.sampled_from(["", "ada/engine", "engine"]))
def test_any_message_gets_an_answer(message: str, repo: str) -> None:
    how = provenance.merged_by_message(message, repo)
    assert how is None or how.partition(":")[0] in {
        *("pr", "mr", "change", "revision", "review-trailer", "mailing-list")
    }
    assert provenance.merged_by_merge(message, repo) != ""
    provenance.names_of(message, repo)
    provenance.cherry_picked_from(message)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "Reviewed-by: ",
            "Reviewed-on: https://a/",
            "a: b\n",
            "https://",
            "(#1",
            "Merge ",
            "merge the ",
            " ",
        ),
        *(
            "Reviewed by A.",
            "See merge request ",
            "backport of ",
            "[ [ ",
            "Link: https://patchwork.",
            "/pull/",
        ),
        *(
            "PR-URL: https://a/b/pull/",
            "<a",
            "Signed-off-by: <a@b>\n",
            "git-svn-id: ",
            "Bug 1 r=",
            "((((",
            "\t",
        ),
    ],
)
def test_repetitive_messages_are_read_without_blowing_up(unit: str) -> None:
    for message in (unit * 50_000, "Title\n\n" + unit * 50_000, f"{unit}\n" * 20_000):
        provenance.merged_by_message(message, "ada/engine")
        provenance.merged_by_merge(message)
        provenance.names_of(message)
        provenance.cherry_picked_from(message)
