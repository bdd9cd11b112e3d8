"""A repository can name programs, servers and replacements. None of them has an effect."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from gitrepos import BASE, Builder, edits, mine, reason

import miner.edits
import miner.gitcmd

CHANGED = BASE.replace("1", "2")


def attack(repo: Builder, marker: Path) -> None:
    """Make everything in the repository's config that can name a program name one."""
    program = repo.path / ".git" / "attack.sh"
    program.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
    program.chmod(0o755)
    for key, value in {
        "core.fsmonitor": str(program),
        "core.pager": str(program),
        "pager.log": str(program),
        "pager.diff-tree": str(program),
        "core.editor": str(program),
        "core.sshCommand": str(program),
        "core.gitProxy": str(program),
        "core.askPass": str(program),
        "core.alternateRefsCommand": str(program),
        "core.hooksPath": str(program.parent),
        "credential.helper": f"!{program}",
        "diff.external": str(program),
        "diff.evil.textconv": str(program),
        "diff.evil.command": str(program),
        "gpg.program": str(program),
        "log.showSignature": "true",
        "alias.log": f"!{program}",
        "alias.diff-tree": f"!{program}",
        "trace2.eventTarget": f"{marker}.trace",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program} %S",
        "protocol.allow": "always",
        "protocol.ext.allow": "always",
        "uploadpack.packObjectsHook": str(program),
    }.items():
        repo.git("config", key, value)
    (repo.path / ".git" / "info").mkdir(exist_ok=True)
    (repo.path / ".git" / "info" / "attributes").write_text("*.py diff=evil\n")
    hooks = repo.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-checkout", "fsmonitor-watchman", "reference-transaction", "post-index-change"):
        (hooks / hook).write_text(program.read_text())
        (hooks / hook).chmod(0o755)


def signed_commit(repo: Builder) -> str:
    """A commit with a signature, so that showing it would run the configured gpg."""
    repo.write({"a.py": CHANGED})
    repo.git("add", "-A")
    tail = b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----\n\nRepair the counter\n"
    return repo.raw_commit(repo.git("write-tree"), [repo.head()], tail)


def test_config_of_the_repository_runs_nothing(repo: Builder, tmp_path: Path) -> None:
    commit = signed_commit(repo)
    marker = tmp_path / "ran"
    attack(repo, marker)
    assert commit in edits(mine(repo))
    assert not list(tmp_path.glob("ran*"))


def test_missing_object_of_a_promising_remote_runs_nothing(
    repo: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Older objects than those that planning looks at, so that mining meets the missing one.
    monkeypatch.setattr(miner.edits, "_SAMPLE", 3)
    lost = signed_commit(repo)
    repo.commit({f"{number}.py": BASE for number in range(2)})
    for number in range(4):
        repo.commit({"0.py": f"x = {number}\n"})
    oid = repo.git("rev-parse", f"{lost}:a.py")
    (repo.path / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    marker = tmp_path / "ran"
    attack(repo, marker)
    assert len(edits(mine(repo))) == 4
    assert not list(tmp_path.glob("ran*"))


def test_environment_of_the_caller_has_no_effect(
    repo: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repo.commit({"a.py": CHANGED})
    before = mine(repo)
    marker = tmp_path / "ran"
    (tmp_path / "evil.sh").write_text(f"#!/bin/sh\ntouch '{marker}'\n")
    (tmp_path / "evil.sh").chmod(0o755)
    (tmp_path / "gitconfig").write_text("[log]\n\tshowRoot = false\n[diff]\n\trenames = copies\n")
    for name, value in {
        "GIT_EXTERNAL_DIFF": str(tmp_path / "evil.sh"),
        "GIT_PAGER": str(tmp_path / "evil.sh"),
        "GIT_DIR": "/nowhere",
        "GIT_WORK_TREE": "/nowhere",
        "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.pager",
        "GIT_CONFIG_VALUE_0": str(tmp_path / "evil.sh"),
        "GIT_TRACE": str(tmp_path / "ran.trace"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/nowhere",
        "GIT_INDEX_FILE": "/nowhere",
        "HOME": "/nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    assert mine(repo) == before
    assert commit in edits(before)
    assert not list(tmp_path.glob("ran*"))


def test_replace_refs_and_grafts_do_not_change_history(repo: Builder) -> None:
    root = repo.head()
    commit = repo.commit({"a.py": CHANGED}, "Return two instead of one")
    before = mine(repo)
    tree = repo.git("rev-parse", f"{commit}^{{tree}}")
    fake = repo.git("commit-tree", tree, "-m", "Something else entirely")
    repo.git("replace", commit, fake)
    (repo.path / ".git" / "info").mkdir(exist_ok=True)
    (repo.path / ".git" / "info" / "grafts").write_text(f"{commit}\n")
    assert mine(repo) == before
    assert edits(before)[commit].parent == root


def test_mining_writes_nothing_into_the_repository(repo: Builder) -> None:
    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in sorted(repo.path.rglob("*"))}

    repo.commit({"a.py": CHANGED})
    before = state()
    mine(repo)
    assert state() == before


def test_repository_of_another_user_is_read(repo: Builder) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    commit = repo.commit({"a.py": CHANGED})
    subprocess.run(["chown", "-R", "12345:12345", str(repo.path)], check=True)
    assert commit in edits(mine(repo))


def test_no_absolute_path_gets_into_rows(repo: Builder, tmp_path: Path) -> None:
    repo.git("remote", "add", "origin", str(tmp_path / "elsewhere" / "engine"))
    repo.commit({"a.py": CHANGED})
    repo.commit({"b.py": CHANGED})
    assert str(tmp_path) not in repr(mine(repo))


def test_branch_named_like_an_option_is_harmless(repo: Builder, tmp_path: Path) -> None:
    commit = repo.commit({"a.py": CHANGED})
    name = f"--output={tmp_path}/ran".replace("/", "-")
    (repo.path / ".git" / "refs" / "heads" / name).write_text(commit + "\n")
    (repo.path / ".git" / "HEAD").write_text(f"ref: refs/heads/{name}\n")
    assert commit in edits(mine(repo))


def test_huge_message_is_bounded_and_dropped(repo: Builder) -> None:
    repo.write({"a.py": CHANGED})
    repo.git("add", "-A")
    tail = b"\n" + b"word " * (5 << 20)
    commit = repo.raw_commit(repo.git("write-tree"), [repo.head()], tail)
    later = repo.commit({"a.py": BASE})
    found = mine(repo)
    dropped = {one.id.rpartition("@")[2]: one.reason for one in found if hasattr(one, "reason")}
    assert dropped[commit] == "message_too_long"
    assert later in edits(found)


def test_commit_of_very_many_files_is_only_counted(repo: Builder) -> None:
    commit = repo.commit({f"d/{number}.py": "x = 1\n" for number in range(3000)})
    dropped = {one.id.rpartition("@")[2]: one.detail for one in mine(repo) if hasattr(one, "reason")}
    assert dropped[commit] == "3000 files"


def test_trees_that_stand_for_billions_of_files_cost_only_their_commits(
    repo: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(miner.gitcmd, "MAX_MEMORY", 48 << 20)
    before = repo.commit({"a.py": CHANGED})
    tree = repo.git("rev-parse", "HEAD^{tree}")
    for _ in range(9):
        entries = "".join(f"040000 tree {tree}\td{number}\n" for number in range(10))
        tree = repo.git("mktree", stdin=entries.encode())
    bomb = repo.raw_commit(tree, [repo.head()], b"\nFix the crash of the parser\n")
    after = repo.raw_commit(
        repo.git("rev-parse", f"{before}^{{tree}}"), [bomb], b"\nFix the crash of the parser\n"
    )
    later = repo.raw_commit(
        repo.git("rev-parse", f"{before}~1^{{tree}}"), [after], b"\nFix the crash of the parser\n"
    )
    found = mine(repo)
    assert {reason(found, commit) for commit in (bomb, after)} == {"unreadable_commit"}
    assert {before, later} <= edits(found).keys()
