"""Folders of git's that are damaged, endless or hostile, and histories of odd shapes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from gitrepos import Builder, edits, mine
from rawobjects import CODE, RawRepository

from miner.config import FetchConfig, MineConfig
from miner.edits import mine_unit, plan_mine
from miner.remote import update
from schemas.errors import AssayError
from schemas.stage import Keep

pytestmark = pytest.mark.timeout(60)

OWN = Path(__file__).resolve().parents[2]
LOOK = (
    "import resource, sys; from pathlib import Path; from gitrepos import mine\n"
    "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
    "print(sum(hasattr(one, 'records') for one in mine(Path(sys.argv[1]))))\n"
    "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
    "print(after - before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
)


@pytest.fixture
def raw(tmp_path: Path) -> RawRepository:
    made = RawRepository(tmp_path / "raw.git")
    made.chain(4)
    return made


def apart(path: Path) -> subprocess.CompletedProcess[str]:
    """Mine in a process of its own, which a hang cannot outlive; it prints edits kept and memory in KiB."""
    environment = {**os.environ, "PYTHONPATH": f"{OWN}:{Path(__file__).parent}"}
    return subprocess.run(
        [sys.executable, "-c", LOOK, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def _alternate(repo: RawRepository, store: Path) -> None:
    (repo.path / "objects" / "info" / "alternates").write_text(f"{store}\n")


def _pipe_as_object(repo: RawRepository) -> None:
    store = repo.path.parent / "store"
    lost = repo.loose(repo.code(2))
    lost.unlink()
    (store / lost.parent.name).mkdir(parents=True)
    os.mkfifo(store / lost.parent.name / lost.name)
    _alternate(repo, store)


def _pipe_as_alternates(repo: RawRepository) -> None:
    store = repo.path.parent / "store"
    (store / "info").mkdir(parents=True)
    os.mkfifo(store / "info" / "alternates")
    _alternate(repo, store)


def _pipe_behind_two_alternates(repo: RawRepository) -> None:
    far = repo.path.parent / "far"
    (far / "pack").mkdir(parents=True)
    os.mkfifo(far / "pack" / "pack-a.idx")
    near = repo.path.parent / "near"
    (near / "info").mkdir(parents=True)
    (near / "info" / "alternates").write_text('"../far"\n')
    _alternate(repo, near)


def _linked_pack_folder(repo: RawRepository) -> None:
    other = repo.path.parent / "other"
    other.mkdir()
    os.mkfifo(other / "pack-a.idx")
    (repo.path / "objects" / "pack").rmdir()
    (repo.path / "objects" / "pack").symlink_to(other)


def _linked_object_folder(repo: RawRepository) -> None:
    lost = repo.loose(repo.code(2))
    other = repo.path.parent / "other"
    shutil.move(lost.parent, other)
    (other / lost.name).unlink()
    os.mkfifo(other / lost.name)
    lost.parent.symlink_to(other)


@pytest.mark.parametrize(
    "make",
    [
        _pipe_as_object,
        _pipe_as_alternates,
        _pipe_behind_two_alternates,
        _linked_pack_folder,
        _linked_object_folder,
    ],
)
def test_pipe_behind_links_and_borrowed_stores_is_refused(
    raw: RawRepository, make: Callable[[RawRepository], None]
) -> None:
    make(raw)
    with pytest.raises(AssayError, match="a pipe or device"):
        mine(raw.path)


def test_config_cannot_have_other_files_opened(raw: RawRepository) -> None:
    pipe = raw.path.parent / "pipe"
    os.mkfifo(pipe)
    private = raw.path.parent / "private"
    private.write_text('[remote "origin"]\n\turl = https://host/secret/name\n')
    raw.configure(
        f"[include]\n\tpath = {private}\n\tpath = {pipe}\n\tpath = /dev/zero\n\tpath = config\n"
        f"[core]\n\tworktree = {pipe}\n\texcludesFile = {pipe}\n\tattributesFile = {pipe}\n"
    )
    done = apart(raw.path)
    assert done.stdout.splitlines()[0] == "3", done.stderr
    assert {edit.repo for edit in edits(mine(raw.path)).values()} == {"raw"}


ALTERNATES = {
    "itself": b"../objects\n.\n../objects/../objects\n",
    "system": b"/etc\n/etc/passwd\n/nowhere\n",
    "garbage": b'\0\xff\n"\\x\n"\n\x1b#\n"a\\777"\n' * 50,
    "many": b"".join(b"/nowhere/%d\n" % number for number in range(3000)),
}


@pytest.mark.parametrize("said", ALTERNATES.values(), ids=ALTERNATES.keys())
def test_senseless_alternates_change_nothing(raw: RawRepository, said: bytes) -> None:
    before = mine(raw.path)
    (raw.path / "objects" / "info" / "alternates").write_bytes(said)
    assert mine(raw.path) == before


def test_files_that_only_speed_git_up_are_not_believed(raw: RawRepository) -> None:
    before = mine(raw.path)
    pack = raw.pack()
    garbage = b"\1\1" + b"\xff" * 500
    (raw.path / "objects" / "info" / "commit-graph").write_bytes(b"CGPH" + garbage)
    (raw.path / "objects" / "pack" / "multi-pack-index").write_bytes(b"MIDX" + garbage)
    for suffix in (".bitmap", ".rev", ".mtimes"):
        pack.with_suffix(suffix).write_bytes(garbage)
    assert mine(raw.path) == before


def test_replacement_in_a_circle_and_grafts_change_nothing(raw: RawRepository) -> None:
    before = mine(raw.path)
    one, other = (raw.git("rev-parse", name).decode().strip() for name in ("main", "main~1"))
    (raw.path / "refs" / "replace").mkdir()
    for old, new in ((one, other), (other, one)):
        (raw.path / "refs" / "replace" / old).write_text(f"{new}\n")
    (raw.path / "info").mkdir()
    (raw.path / "info" / "grafts").write_text(f"{other} {one}\n")
    assert mine(raw.path) == before


@pytest.mark.parametrize("below", ["objects", "refs/heads"])
def test_folders_deeper_than_any_path_are_passed_over(raw: RawRepository, below: str) -> None:
    script = "import os, sys\nos.chdir(sys.argv[1])\nfor _ in range(1200):\n os.mkdir('d')\n os.chdir('d')\n"
    subprocess.run([sys.executable, "-c", script, str(raw.path / below)], check=True)
    try:
        assert len(edits(mine(raw.path))) == 3
    finally:
        subprocess.run(["rm", "-rf", str(raw.path / below / "d")], check=True)


def test_object_store_that_is_a_link_is_followed_once(raw: RawRepository) -> None:
    shutil.move(raw.path / "objects", raw.path.parent / "store")
    (raw.path / "objects").symlink_to(raw.path.parent / "store")
    (raw.path.parent / "store" / "loop").symlink_to(".")
    (raw.path / "refs" / "heads" / "loop").symlink_to("../..")
    assert len(edits(mine(raw.path))) == 3


@pytest.mark.parametrize("target", ["/", "/proc"])
def test_object_store_that_is_the_whole_system_is_refused(raw: RawRepository, target: str) -> None:
    shutil.rmtree(raw.path / "objects")
    (raw.path / "objects").symlink_to(target)
    with pytest.raises(AssayError):
        mine(raw.path)


def test_bad_lines_of_packed_references_are_passed_over(raw: RawRepository) -> None:
    before = mine(raw.path)
    (raw.path / "packed-refs").write_bytes(b"\xff\0garbage\n^^^\nzz refs/heads/x\n" * 50)
    assert mine(raw.path) == before


HEADS = {
    "ref: refs/heads/a\n": "has no commits",
    "ref: HEAD\n": "has no commits",
    "ref: refs/heads/../../../../etc/passwd\n": "has no commits",
    "12" * 20 + "\n": "missing, damaged or no commit",
    "": "has no commits",
    "\x1b[31m\n\n\n": "has no commits",
}


@pytest.mark.parametrize(("said", "told"), HEADS.items())
def test_head_that_leads_nowhere_is_told_in_one_line(raw: RawRepository, said: str, told: str) -> None:
    for one, other in ("ab", "ba"):
        (raw.path / "refs" / "heads" / one).write_text(f"ref: refs/heads/{other}\n")
    (raw.path / "HEAD").write_text(said)
    with pytest.raises(AssayError, match=told) as caught:
        mine(raw.path)
    assert str(caught.value).isprintable()
    if "symbolic-ref" in str(caught.value):
        assert str(caught.value).endswith("refs/heads/main`")


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_tags_of_commits_are_heads_and_branches(tmp_path: Path, kind: str) -> None:
    repo = RawRepository(tmp_path / "tags.git", kind)
    commits = repo.chain(3)
    tag = commits[-1]
    for depth in range(50):
        tag = repo.tag(tag, "tag" if depth else "commit")
    side = repo.file_commit(50, commits[0])
    repo.branch(repo.tag(side), "side")
    for name, oid in {"blob": repo.code(1), "tree": repo.tree(), "none": repo.nobody(), "word": "zz"}.items():
        repo.branch(oid, name)
        repo.branch(repo.tag(oid, "commit"), f"tagged-{name}")
    (repo.path / "HEAD").write_text(f"{tag}\n")
    assert edits(mine(repo.path, branches=("*",))).keys() == {*commits[1:], side}


def test_branches_of_odd_names_are_all_mined(raw: RawRepository) -> None:
    root = raw.git("rev-list", "--max-parents=0", "main").decode().strip()
    odd = ["--output=x", "-n", "x'y", "$(id)", "\u202e", "refs", "HEAD", "a/b", "x" * 150 + "/" + "y" * 150]
    odd += ["x" * 150 + "/" + "y" * 149 + "z", "f\udcff", "f\udcfe"]
    made = []
    for number, name in enumerate(odd):
        made.append(raw.file_commit(50 + number, root))
        raw.branch(made[-1], name)
    kept = edits(mine(raw.path, branches=("*",)))
    assert kept.keys() >= set(made)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("[core]\n\trepositoryformatversion = 99\n", "version is 99"),
        ("[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefStorage = reftable\n", "reftable"),
        ("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = md5\n", "md5"),
        ("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tbrandNew = x\n", "brandnew"),
        ("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n", "damaged"),
    ],
)
def test_format_that_is_not_read_is_named(raw: RawRepository, more: str, told: str) -> None:
    raw.configure(more)
    with pytest.raises(AssayError, match=told):
        mine(raw.path)


def test_extensions_without_effect_on_reading_are_taken(raw: RawRepository) -> None:
    raw.configure(
        "[core]\n\trepositoryformatversion = 1\n"
        "[extensions]\n\tworktreeConfig = true\n\tpreciousObjects = true\n\tnoop = x\n"
    )
    (raw.path / "config.worktree").write_text("[core\n")
    assert len(edits(mine(raw.path))) == 3


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gitdir", b"gitdir: .git\n"),
        ("gitdir", b"gitdir: /dev/zero\n"),
        ("gitdir", b"gitdir: " + b"x/" * 50_000),
        ("gitdir", b"gitdir: a\0b\n"),
        ("commondir", b"/nowhere\n"),
        ("commondir", b"a\0b\n"),
        ("commondir", b"a" * 5000),
    ],
)
def test_pointers_to_nowhere_are_refused_in_one_line(raw: RawRepository, name: str, said: bytes) -> None:
    path = raw.path
    if name == "gitdir":
        path = raw.path.parent / "tree"
        path.mkdir()
        (path / ".git").write_bytes(said)
    else:
        (path / "commondir").write_bytes(said)
    with pytest.raises(AssayError) as caught:
        mine(path)
    assert "\n" not in str(caught.value)


def test_repository_of_a_submodule_is_mined(build: Callable[..., Builder]) -> None:
    inner, outer = build("inner"), build("outer")
    inner.commit({"a.py": CODE % 1})
    commit = inner.commit({"a.py": CODE % 2})
    outer.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.path), "sub")
    assert edits(mine(outer.path / "sub")).keys() == {commit}


def test_roots_octopus_and_criss_cross_have_one_outcome_a_commit(tmp_path: Path) -> None:
    repo = RawRepository(tmp_path / "shapes.git")
    ours, theirs = repo.file_commit(0), repo.file_commit(1)
    for number in range(20):
        ours, theirs = (
            repo.file_commit(100 + number, ours, theirs),
            repo.file_commit(200 + number, theirs, ours),
        )
    roots = [repo.file_commit(1000 + number) for number in range(300)]
    repo.branch(repo.file_commit(5, ours, theirs, *roots))
    found = mine(repo.path)
    assert len(found) == 343
    assert Counter(getattr(one, "reason", "kept") for one in found) == {"root_commit": 302, "merge": 41}


def test_same_parent_ten_thousand_times_is_one_merge(raw: RawRepository) -> None:
    head = raw.git("rev-parse", "main").decode().strip()
    raw.around(raw.file_commit(9, *[head] * 10_000))
    assert len(edits(mine(raw.path))) == 6


def test_long_history_and_wide_commit_are_mined(tmp_path: Path) -> None:
    repo = RawRepository(tmp_path / "long.git")
    parts = []
    for number in range(20_000):
        data = CODE % (number % 50)
        parts.append(
            b"commit refs/heads/main\ncommitter A <a@x> %d +0000\ndata 12\nRepair it %d\n"
            b"M 100644 inline a.py\ndata %d\n%s\n" % (number, number % 10, len(data), data)
        )
    parts.append(b"commit refs/heads/main\ncommitter A <a@x> 1 +0000\ndata 12\nAdd it all 1\n")
    content = repo.code(1).encode()
    parts += [b"M 100644 %s d/%d.py\n" % (content, number) for number in range(50_000)]
    repo.git("fast-import", "--quiet", stdin=b"".join(parts))
    assert len(plan_mine(MineConfig(), [repo.path])) == 21
    units = plan_mine(MineConfig(), [repo.path])[-2:]
    found = [one for unit in units for one in mine_unit(MineConfig(), unit)]
    assert [one.detail for one in found if not isinstance(one, Keep)] == ["50000 files"]
    assert len(found) == 1001


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_content_of_200_mb_is_not_read_into_memory(tmp_path: Path, kind: str) -> None:
    repo = RawRepository(tmp_path / "large.git", kind)
    first = repo.file_commit(1)
    large = repo.commit(repo.tree(("100644", b"a.py", repo.blob(b"x = 1\n" * (35 << 20)))), first)
    last = repo.commit(repo.tree(("100644", b"a.py", repo.code(2))), large)
    repo.branch(repo.file_commit(3, last))
    done = apart(repo.path)
    kept, memory = done.stdout.splitlines()
    assert kept == "1", done.stderr
    assert max(map(int, memory.split())) < (300 << 10)


def test_file_that_cannot_be_read_is_missing(raw: RawRepository) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    raw.loose(raw.code(2)).chmod(0)
    assert Counter(getattr(one, "reason", "kept") for one in mine(raw.path))["missing_object"] == 2


def test_repository_removed_while_mined_is_no_list_of_damaged_commits(raw: RawRepository) -> None:
    outcomes = mine_unit(MineConfig(), plan_mine(MineConfig(), [raw.path])[0])
    next(outcomes)
    shutil.rmtree(raw.path)
    with pytest.raises(AssayError, match="was removed"):
        list(outcomes)


def test_repository_removed_before_it_is_mined_is_told(raw: RawRepository) -> None:
    raw.chain(80, 200)
    unit = plan_mine(MineConfig(), [raw.path])[0]
    shutil.rmtree(raw.path)
    with pytest.raises(AssayError, match="was removed"):
        list(mine_unit(MineConfig(), unit))


def test_full_disk_of_the_cache_is_told_as_such(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        repo = RawRepository(tmp_path / "server.git")
        noise = [("100644", b"%d" % number, repo.blob(os.urandom(9000))) for number in range(90)]
        repo.branch(repo.commit(repo.tree(*noise)))
        with pytest.raises(AssayError, match="No space left"):
            update(f"file://{repo.path}", FetchConfig(cache=str(small / "c"), attempts=1), MineConfig())
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_repository_that_is_repacked_and_grows_while_mined_loses_nothing(raw: RawRepository) -> None:
    commits = raw.chain(40, 100)
    config = MineConfig(commits_per_unit=10)
    units = plan_mine(config, [raw.path])
    found = []
    for number, unit in enumerate(units):
        found += list(mine_unit(config, unit))
        raw.chain(2, 1000 + 10 * number, commits[-1:])
        raw.pack()
    assert [one.records[0].commit for one in found if isinstance(one, Keep)] == commits[1:]
