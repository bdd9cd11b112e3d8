"""What is known of a repository as a whole: from git, from files and from what forges answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from gitrepos import BASE, Builder

from miner.config import RepositoriesConfig
from miner.facts import (
    bad_rows,
    git_facts,
    plan_repositories,
    read_files,
    repositories_unit,
    same_names,
    unknown,
)
from miner.repository import FETCHED, open_repository
from schemas.errors import AssayError
from schemas.records import RepositoryFacts
from schemas.stage import Drop, Keep

URL = "https://github.com/Ada/Engine.git"


def facts(repo: Builder, metadata: Sequence[Path] = (), store: Path | None = None) -> RepositoryFacts:
    (unit,) = plan_repositories(RepositoriesConfig(), [repo.path], metadata, store)
    (outcome,) = repositories_unit(unit)
    assert isinstance(outcome, Keep)
    (row,) = outcome.records
    assert isinstance(row, RepositoryFacts)
    return row


def test_history_tells_size_times_and_roots(repo: Builder) -> None:
    first, began = repo.head(), repo.clock
    repo.commit({"a.py": "x = 2\n"})
    head = repo.commit({"a.py": "x = 3\n"})
    row = facts(repo)
    assert (row.head, row.roots, row.commits) == (head, [first], 3)
    assert (row.first_commit_time, row.last_commit_time) == (began, began + 2)
    assert row.object_format == "sha1"
    assert (row.stars, row.issues, row.fork_of, row.known_from, row.url) == (None,) * 5


def test_every_root_is_told(repo: Builder) -> None:
    first = repo.head()
    repo.git("checkout", "-q", "--orphan", "other")
    second = repo.commit({"b.py": BASE}, "Begin another history")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--allow-unrelated-histories", "-m", "Join the histories", "other")
    assert facts(repo).roots == sorted([first, second])


def test_commits_of_other_branches_do_not_count(repo: Builder) -> None:
    repo.git("checkout", "-q", "-b", "other")
    repo.commit({"b.py": BASE})
    repo.git("checkout", "-q", "main")
    assert facts(repo).commits == 1


def test_bots_are_no_contributors_and_one_person_counts_once(repo: Builder) -> None:
    for number, author in enumerate(
        [
            "Ada <ada@work.com>",
            "Bob <bob@x.org>",
            "Robert <bob@x.org>",
            "dependabot[bot] <49699333+dependabot[bot]@users.noreply.github.com>",
        ]
    ):
        repo.commit({"a.py": f"x = {number}\n"}, author=author)
    assert facts(repo).contributors == 2


def test_mailmap_of_the_head_joins_people(repo: Builder) -> None:
    repo.commit({"a.py": "x = 1\n"}, author="Countess <countess@x.org>")
    assert facts(repo).contributors == 2
    repo.commit({".mailmap": "Ada <ada@x.org> <countess@x.org>\n"})
    assert facts(repo).contributors == 1


@pytest.mark.parametrize("content", ["", "\0\xff<<>>\n" * 1000, "<" * 100_000, "#" * 2_000_000])
def test_odd_mailmap_changes_nothing_else(repo: Builder, content: str) -> None:
    repo.commit({".mailmap": content})
    assert (facts(repo).contributors, facts(repo).commits) == (1, 2)


def test_mailmap_that_is_a_folder_or_link_is_passed_over(repo: Builder) -> None:
    (repo.path / "names").write_text("Ada <ada@x.org> <countess@x.org>\n")
    (repo.path / ".mailmap").symlink_to("names")
    repo.commit({"a.py": "x = 1\n"}, author="Countess <countess@x.org>")
    assert facts(repo).contributors == 2


def test_authors_of_odd_bytes_and_bad_dates_are_counted(repo: Builder) -> None:
    tree = repo.git("rev-parse", "HEAD^{tree}")
    repo.raw_commit(tree, [repo.head()], b"\nOdd", author=b"\xff\xfe <\xff@x.org>")
    row = facts(repo)
    assert (row.commits, row.contributors) == (2, 2)


def test_licence_files_at_the_top_are_named(repo: Builder) -> None:
    repo.commit({"LICENSE-MIT": "x\n", "COPYING": "y\n", "docs/LICENSE": "z\n", "license_test/a.py": BASE})
    assert facts(repo).license_files == ["COPYING", "LICENSE-MIT"]


def test_repository_with_sha256_ids_is_described(build: Callable[..., Builder]) -> None:
    one = build("wide", "--object-format=sha256")
    one.commit({"a.py": BASE, ".mailmap": "Ada <ada@x.org> <countess@x.org>\n"})
    one.commit({"a.py": "x = 1\n"}, author="Countess <countess@x.org>")
    row = facts(one)
    assert (row.object_format, row.commits, row.contributors, len(row.head)) == ("sha256", 2, 1, 64)


def test_history_with_a_missing_commit_costs_its_own_row(repo: Builder) -> None:
    repo.commit({"a.py": "x = 1\n"})
    lost = repo.commit({"a.py": "x = 2\n"})
    repo.commit({"a.py": "x = 3\n"})
    units = plan_repositories(RepositoriesConfig(), [repo.path])
    (repo.path / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    (outcome,) = repositories_unit(units[0])
    assert isinstance(outcome, Drop)
    assert outcome.reason == "unreadable_history"


def test_of_several_repositories_a_bad_one_is_a_dropped_row(repo: Builder, tmp_path: Path) -> None:
    units = plan_repositories(RepositoriesConfig(), [repo.path, tmp_path / "none", repo.path])
    outcomes = [outcome for unit in units for outcome in repositories_unit(unit)]
    assert [type(one) for one in outcomes] == [Keep, Drop, Drop]
    assert [one.reason for one in outcomes if isinstance(one, Drop)] == ["unusable_repository"] * 2


def test_only_repository_that_is_bad_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="no such folder"):
        plan_repositories(RepositoriesConfig(), [tmp_path / "none"])
    with pytest.raises(AssayError, match="no repository"):
        plan_repositories(RepositoriesConfig(), [])


def test_limit_bounds_the_repositories(repo: Builder, build: Callable[..., Builder]) -> None:
    other = build("other")
    other.commit({"b.py": BASE})
    assert len(plan_repositories(RepositoriesConfig(), [repo.path, other.path], limit=1)) == 1


def test_unit_changes_with_what_is_known_and_with_nothing_else(repo: Builder, tmp_path: Path) -> None:
    repo.git("remote", "add", "origin", URL)
    file = tmp_path / "stars.jsonl"
    file.write_text('{"repo": "ada/engine", "stars": 7}\n')
    (before,) = plan_repositories(RepositoriesConfig(), [repo.path], [file])
    file.write_text('{"repo": "bob/other", "stars": 9}\n{"repo": "ada/engine", "stars": 7}\n')
    (same,) = plan_repositories(RepositoriesConfig(), [repo.path], [file])
    file.write_text('{"repo": "ada/engine", "stars": 8}\n')
    (after,) = plan_repositories(RepositoriesConfig(), [repo.path], [file])
    assert before == same
    assert before.inputs != after.inputs
    assert before.name == after.name


def test_file_tells_before_the_forge_and_both_are_named(repo: Builder, tmp_path: Path) -> None:
    repo.git("remote", "add", "origin", URL)
    file, store = tmp_path / "stars.csv", tmp_path / "forge.jsonl"
    file.write_text("repo,stars\nADA/engine,7\n")
    answer = {"repo": "Ada/Engine", "host": "github.com", "path": "ada/engine", "stars": 8, "issues": 9}
    store.write_text(json.dumps({**answer, "fork_of": None, "asked_at": 1, "complete": True}) + "\n")
    row = facts(repo, [file], store)
    assert (row.stars, row.issues, row.known_from) == (7, 9, "stars.csv + github.com")
    assert facts(repo, [], store).known_from == "github.com"


def test_url_is_that_of_a_fetched_repository_only(repo: Builder) -> None:
    repo.git("remote", "add", "origin", URL)
    assert facts(repo).url is None  # its user chose it, wherever it was cloned from
    (repo.path / ".git" / FETCHED).write_text("{}")
    assert facts(repo).url == URL


def test_damaged_answers_are_refused_with_their_line(repo: Builder, tmp_path: Path) -> None:
    store = tmp_path / "forge.jsonl"
    for line in ("{", "[]", '{"repo": "x"}', "null", "[" * 100_000):
        store.write_text(f"{line}\n")
        with pytest.raises(AssayError, match="line 1 is no answer"):
            facts(repo, [], store)


def test_unknown_is_said_in_one_line() -> None:
    rows = [{"stars": 1, "issues": None}, {"stars": None, "issues": None}, {"stars": 2, "issues": 0}]
    assert unknown(rows) == "stars of 1 repository, issues of 2 repositories unknown"
    assert unknown(rows[1:2]) == "stars and issues of 1 repository unknown"
    assert unknown(rows[2:]) is None
    assert unknown([]) is None


def test_strangers_of_one_name_are_told_and_forks_are_not() -> None:
    rows = [{"repo": "repo", "roots": [root]} for root in ("a", "b", "a")]
    (line,) = same_names([*rows, {"repo": "other", "roots": ["c"]}])
    assert "2 repositories are called 'repo'" in line
    assert same_names([rows[0], rows[2]]) == []
    assert same_names([]) == []


def test_bad_rows_are_counted_and_told(repo: Builder, tmp_path: Path) -> None:
    file = tmp_path / "stars.jsonl"
    file.write_text('{"repo": "ada/engine", "stars": 7}\n{\n[]\n{"stars": 1}\n')
    assert bad_rows(read_files([repo.path], [file])) == ["stars.jsonl: 3 rows could not be used"]


def test_facts_do_not_depend_on_the_order_of_authors(repo: Builder) -> None:
    for author in ("Ada <a@x.org>", "Bob <b@x.org>", "Ada <c@x.org>", "Bob <c@x.org>"):
        repo.commit({"a.py": f"{author!r}\n"}, author=author)
    assert git_facts(open_repository(repo.path)).contributors == 1
