"""What a repository is called, and which ones are refused with what words."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from gitrepos import BASE, Builder, edits, mine
from hypothesis import given
from hypothesis import strategies as st

from miner.config import MineConfig
from miner.edits import mine_unit, plan_mine
from miner.repository import name_from_url, open_repository, slug_of
from schemas.errors import AssayError

CHANGED = BASE.replace("1", "2")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://github.com/pallets/flask", "pallets/flask"),
        ("https://github.com/pallets/flask.git", "pallets/flask"),
        ("https://github.com/pallets/flask.git/", "pallets/flask"),
        ("https://user:t0ken@github.com/pallets/flask.git", "pallets/flask"),
        ("https://t0ken@host/flask.git", "flask"),
        ("https://github.com:8443/pallets/flask?token=t0ken#t0ken", "pallets/flask"),
        ("https://gitlab.com/group/sub/project.git", "sub/project"),
        ("ssh://git@github.com:22/pallets/flask.git", "pallets/flask"),
        ("git@github.com:pallets/flask.git", "pallets/flask"),
        ("github.com:pallets/flask", "pallets/flask"),
        ("user:t0ken@host:pallets/flask.git", "pallets/flask"),
        ("git@[::1]:pallets/flask.git", "pallets/flask"),
        ("git://kernel.org/pub/scm/git/git.git", "git/git"),
        ("file:///home/ada/secret-client/work.git", "work"),
        ("/home/ada/secret-client/work.git", "work"),
        ("/home/ada/secret-client/work/.git", "work"),
        ("../work", "work"),
        ("HTTPS://GitHub.com/Pallets/Flask", "Pallets/Flask"),
        ("https://github.com/", None),
        ("", None),
        ("https://", None),
    ],
)
def test_name_from_url(url: str, name: str | None) -> None:
    assert name_from_url(url) == name


@given(
    secret=st.from_regex(r"[A-Za-z0-9]{12}", fullmatch=True),
    url=st.sampled_from(
        [
            "https://{}@h.org/a/b.git",
            "https://u:{}@h.org/a/b",
            "https://u:{}@h.org:80/b",
            "ssh://u:{}@h.org/a/b",
            "u:{}@h.org:a/b",
            "{}@h.org:a/b",
            "https://h.org/a/b?k={}",
            "https://h.org/a/b#{}",
            "https://{}:@h.org/b",
            "https://u:p@{}@h.org/b",
        ]
    ),
)
def test_credentials_never_get_into_names(secret: str, url: str) -> None:
    assert secret not in (name_from_url(url.format(secret)) or "")


@given(st.text(max_size=80))
def test_any_url_gives_a_storable_name_or_none(url: str) -> None:
    name = name_from_url(url)
    assert name is None or (name.isprintable() and name.encode() and ".." not in name.split("/"))


def test_origin_names_the_repository(repo: Builder) -> None:
    repo.git("remote", "add", "origin", "https://ada:t0ken@github.com/ada/engine.git")
    commit = repo.commit({"a.py": CHANGED})
    assert edits(mine(repo))[commit].repo == "ada/engine"


def test_folder_names_a_repository_without_origin(repo: Builder) -> None:
    assert open_repository(repo.path).name == "project"


def test_work_tree_git_dir_bare_clone_and_linked_tree_give_the_same_edits(
    repo: Builder, tmp_path: Path
) -> None:
    repo.git("remote", "add", "origin", "https://github.com/ada/engine.git")
    repo.commit({"a.py": CHANGED})
    repo.git("clone", "-q", "--bare", str(repo.path), str(tmp_path / "bare.git"))
    subprocess.run(
        ["git", "config", "remote.origin.url", "https://github.com/ada/engine.git"],
        cwd=tmp_path / "bare.git",
        check=True,
    )
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    ways = [repo.path, repo.path / ".git", tmp_path / "bare.git", tmp_path / "linked"]
    results = [mine(way) for way in ways]
    assert len(edits(results[0])) == 1
    assert all(result == results[0] for result in results[1:])


def test_linked_work_tree_has_its_own_head(repo: Builder, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    commit = repo.commit({"a.py": CHANGED})
    assert commit in edits(mine(repo))
    assert commit not in edits(mine(tmp_path / "linked"))


def test_detached_head_is_mined(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED})
    repo.git("checkout", "-q", "--detach", "HEAD")
    assert commit in edits(mine(repo))


def test_packed_repository_is_mined(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED})
    repo.git("gc", "-q", "--prune=now")
    repo.git("pack-refs", "--all")
    assert commit in edits(mine(repo))


def test_clone_that_borrows_objects_is_mined(repo: Builder, tmp_path: Path) -> None:
    commit = repo.commit({"a.py": CHANGED})
    repo.git("clone", "-q", "--shared", str(repo.path), str(tmp_path / "shared"))
    assert commit in edits(mine(tmp_path / "shared"))


def refusal(path: Path) -> str:
    with pytest.raises(AssayError) as caught:
        plan_mine(MineConfig(), [path])
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    assert "no such folder" in refusal(tmp_path / "nowhere")


def test_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "is a file" in refusal(tmp_path / "file")


def test_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    assert "not a git repository" in refusal(tmp_path)


def test_folder_inside_a_repository_is_refused_rather_than_guessed(repo: Builder) -> None:
    (repo.path / "src").mkdir()
    assert "top folder" in refusal(repo.path / "src")


def test_repository_without_commits_is_refused(build: Callable[..., Builder]) -> None:
    assert "has no commits" in refusal(build().path)


def test_head_on_a_branch_without_commits_says_which_branches_there_are(repo: Builder) -> None:
    repo.git("symbolic-ref", "HEAD", "refs/heads/gone")
    assert "refs/heads/gone" in refusal(repo.path)
    assert "symbolic-ref HEAD refs/heads/main" in refusal(repo.path)


def test_shallow_clone_is_refused_with_the_command_that_completes_it(repo: Builder, tmp_path: Path) -> None:
    repo.commit({"a.py": CHANGED})
    clone = tmp_path / "shallow"
    repo.git("clone", "-q", "--depth", "1", f"file://{repo.path}", str(clone))
    assert "fetch --unshallow" in refusal(clone)
    subprocess.run(["git", "-C", str(clone), "fetch", "-q", "--unshallow"], check=True)
    assert len(edits(mine(clone))) == 1


def test_partial_clone_is_refused_with_the_command_that_completes_it(repo: Builder, tmp_path: Path) -> None:
    repo.commit({"a.py": CHANGED})
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "partial"
    repo.git("clone", "-q", "--bare", "--filter=blob:none", f"file://{repo.path}", str(clone))
    assert "fetch --refetch --no-filter origin" in refusal(clone)
    command = ["git", "-C", str(clone), "fetch", "-q", "--refetch", "--no-filter", "origin"]
    subprocess.run(command, check=True)
    assert len(edits(mine(clone))) == 1


def test_sha256_repository_is_mined(build: Callable[..., Builder]) -> None:
    repo = build("modern", "--object-format=sha256")
    repo.commit({"a.py": BASE})
    commit = repo.commit({"a.py": CHANGED})
    edit = edits(mine(repo))[commit]
    assert (len(commit), edit.old_contents, edit.new_contents) == (64, BASE, CHANGED)


def test_history_with_a_missing_commit_is_refused_with_the_check_to_run(repo: Builder) -> None:
    lost = repo.commit({"a.py": CHANGED})
    repo.commit({"a.py": BASE})
    (repo.path / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    assert "fsck" in refusal(repo.path)


def test_repository_given_twice_is_refused_and_mined_once(repo: Builder) -> None:
    config = MineConfig()
    once, again = plan_mine(config, [repo.path, repo.path / ".git"])
    assert len(list(mine_unit(config, once))) == once.rows == 1
    with pytest.raises(AssayError, match="the same repository"):
        list(mine_unit(config, again))


def test_repository_that_cannot_be_read_costs_the_others_nothing(repo: Builder, tmp_path: Path) -> None:
    config = MineConfig()
    refused, good = plan_mine(config, [tmp_path / "nowhere", repo.path])
    assert len(list(mine_unit(config, good))) == good.rows == 1
    with pytest.raises(AssayError, match="no such folder"):
        list(mine_unit(config, refused))


def test_no_repository_is_refused() -> None:
    with pytest.raises(AssayError, match="no repository"):
        plan_mine(MineConfig(), [])


def test_two_repositories_of_one_name_have_different_units(
    build: Callable[..., Builder], tmp_path: Path
) -> None:
    one, two = build("x/project"), build("y/project")
    one.commit({"a.py": BASE})
    two.commit({"b.py": BASE})
    units = plan_mine(MineConfig(), [one.path, two.path])
    assert len({unit.name for unit in units}) == 2


@given(st.text(max_size=300), st.text(max_size=10))
def test_slug_is_a_plain_file_name(name: str, root: str) -> None:
    slug = slug_of(name, root)
    assert 0 < len(slug) < 80
    assert slug.replace("-", "").replace("_", "").replace(".", "").isalnum()
    assert slug.isascii()
    assert not slug.startswith((".", "-"))


def test_missing_git_is_said_plainly(repo: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssayError, match="git: not found on PATH"):
        plan_mine(MineConfig(), [repo.path])


def test_repository_that_git_refuses_throughout_is_given_up(repo: Builder) -> None:
    for number in range(60):
        repo.commit({"a.py": f"x = {number}\n"})
    for commit in repo.git("rev-list", "HEAD").split():
        tree = repo.git("rev-parse", f"{commit}^{{tree}}")
        (repo.path / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(AssayError, match="fsck"):
        mine(repo)


@pytest.mark.parametrize("name", ["config", "HEAD", "shallow", "objects/info/alternates", "refs/heads/pipe"])
def test_pipe_in_place_of_a_file_is_refused_and_does_not_hang(repo: Builder, name: str) -> None:
    pipe = repo.path / ".git" / name
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    with pytest.raises(AssayError, match="pipe or device"):
        open_repository(repo.path)


def test_device_behind_a_link_and_pipe_behind_a_linked_work_tree_are_refused(
    repo: Builder, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    (repo.path / ".git" / "objects" / "info" / "alternates").symlink_to("/dev/zero")
    for path in (repo.path, tmp_path / "linked"):
        with pytest.raises(AssayError, match="alternates: a pipe or device"):
            open_repository(path)


def test_socket_of_a_file_watcher_is_passed_over(repo: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    # A socket's path may have 108 bytes at most.
    monkeypatch.chdir(repo.path / ".git")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("fsmonitor--daemon.ipc")
        assert open_repository(repo.path).head == repo.head()


def test_broken_config_is_named_as_the_cause(repo: Builder) -> None:
    with (repo.path / ".git" / "config").open("a") as config:
        config.write("[core\n")
    with pytest.raises(AssayError, match=r"cannot be read \(.*config"):
        open_repository(repo.path)


def test_repository_given_twice_is_told_with_what_it_is_the_same_as(repo: Builder) -> None:
    config = MineConfig()
    _, again = plan_mine(config, [repo.path, repo.path / ".git"])
    with pytest.raises(AssayError, match=f"the same repository as {re.escape(str(repo.path))}; give one"):
        list(mine_unit(config, again))


def test_clone_of_a_local_folder_is_named_by_its_own(repo: Builder, tmp_path: Path) -> None:
    for origin in (str(repo.path), f"file://{repo.path}"):
        repo.git("clone", "-q", "--bare", origin, str(tmp_path / "engine.git"))
        assert open_repository(tmp_path / "engine.git").name == "engine"
        shutil.rmtree(tmp_path / "engine.git")
