"""Commits mined a CPU-second, against PyDriller, the usual walk with pygit2, and git's own C programs.

    python benchmarks/bench_mine.py --repo PATH [--repo PATH ...]

Peers:
* `PyDriller`: for every commit with one parent, where one file changed in place, the source before and
  after. Timed over `SAMPLE` commits spread over the history, since it is slow.
* `pygit2 walk`: for every commit with one parent, diff the trees, and where one file changed in place read
  both blobs, with pygit2's defaults. What a script would do.
* `git in C`: `git log --raw` and `git cat-file --batch` of what the edits hold, both to /dev/null. It reads
  the same objects and makes nothing of them: a floor.
* `reading alone` is our own reader doing what the peers do: the same commits and contents, without what makes
  an edit of them (merges and reverts of the whole history, languages, messages, hunks, patch ids, licences).

Also checked: the commits with one file changed in place, as an independent reading of `git log --raw`
counts them, are those that mining looks into; and what the datatrove steps and the shards add to the bare
function.
"""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pygit2
from common import best, cores, cpu_seconds, repositories
from pydriller import Git as Driller
from pydriller import ModificationType

from assay.worker import run_unit
from miner.blobs import open_blobs
from miner.config import MineConfig
from miner.edits import mine_unit, plan_mine
from miner.gitcmd import git_tokens
from miner.history import read_changes, read_history
from miner.repository import open_repository
from miner.steps import MINE_OUTPUTS, MineEdits
from schemas import shards
from schemas.records import Edit
from schemas.rundir import RunDir
from schemas.stage import Keep

SAMPLE = 150
_COMMITS = ["log", "-z", "--format=%H", "--stdin"]
ELSEWHERE = {
    *("merge", "root_commit", "no_files", "several_files", "gitlink", "symlink", "not_in_place"),
    *("unreadable_commit", "shared_commit"),
}
"""Reasons given before a commit counts as a file changed in place."""


def ours(repo: Path) -> Counter[str]:
    """Edits and drops of the whole history, by reason."""
    config = MineConfig()
    return Counter(
        "kept" if isinstance(outcome, Keep) else outcome.reason
        for unit in plan_mine(config, [repo], None)
        for outcome in mine_unit(config, unit)
    )


def reading(repo: Path) -> int:
    """Contents read, nothing made of them."""
    repository = open_repository(repo)
    found = 0
    commits = [token.decode() for token in git_tokens(repository.objects, _COMMITS, [repository.head])]
    with open_blobs(repository) as blobs:
        for _, change in read_changes(repository, commits):
            if change and len(change.parents) == 1 and change.files == 1 and change.first:
                first = change.first
                if (
                    first.status == "M"
                    and first.new_mode.startswith("10")
                    and first.old_mode.startswith("10")
                ):
                    found += len(blobs.read(first.old_id, 1 << 30)) + len(blobs.read(first.new_id, 1 << 30))
    return found


def walk(repo: Path) -> int:
    """The usual walk: edits in place of one file, both versions read."""
    pygit2.settings.enable_strict_hash_verification(True)  # the default, which mining switches off
    repository = pygit2.Repository(str(repo))
    found = 0
    for commit in repository.walk(repository.head.target):
        if len(commit.parents) != 1:
            continue
        deltas = list(commit.parents[0].tree.diff_to_tree(commit.tree).deltas)
        if len(deltas) == 1 and deltas[0].status_char() == "M" and deltas[0].new_file.mode & 0o100000:
            old, new = repository.get(deltas[0].old_file.id), repository.get(deltas[0].new_file.id)
            found += old is not None and new is not None and len(old.data) >= 0 and len(new.data) >= 0
    return found


def drill(repo: Path, commits: list[str]) -> int:
    """The same with PyDriller, for some commits."""
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        # It takes work trees only.
        (Path(folder) / ".git").symlink_to(open_repository(repo).objects.parent)
        driller = Driller(folder)
        for name in commits:
            commit = driller.get_commit(name)
            files = [] if commit.merge else commit.modified_files
            if len(files) == 1 and files[0].change_type == ModificationType.MODIFY:
                with contextlib.suppress(ValueError):  # it reads submodules as if they were files
                    found += files[0].source_code_before is not None and files[0].source_code is not None
        driller.clear()
    return found


def raw_edits(repo: Path) -> dict[str, tuple[str, str]]:
    """Commit -> blobs before and after, of the commits that changed one file in place, by `git log --raw`."""
    arguments = ["log", "--raw", "--no-renames", "--no-abbrev", "--format=%x01%H %P"]
    log = subprocess.run(["git", "-C", str(repo), *arguments], check=True, capture_output=True)
    found = {}
    for text in log.stdout.decode("utf-8", "replace").split("\x01")[1:]:
        head, *lines = text.split("\n")
        commit, *parents = head.split()
        files = [line.split("\t")[0].split() for line in lines if line.startswith(":")]
        if len(parents) == 1 and len(files) == 1:
            old_mode, new_mode, old, new, status = files[0]
            regular = old_mode.startswith(":10") and new_mode.startswith("10")
            if status == "M" and regular and old != new:
                found[commit] = (old, new)
    return found


def in_c(repo: Path, wanted: bytes) -> None:
    """git's own programs over the same objects."""
    git = ["git", "-C", str(repo)]
    log = [*git, "log", "--raw", "--no-renames", "--no-abbrev", "-z", "--format=%H%x00%B"]
    subprocess.run(log, check=True, stdout=subprocess.DEVNULL)
    batch = [*git, "cat-file", "--batch", "--buffer"]
    subprocess.run(batch, check=True, input=wanted, stdout=subprocess.DEVNULL)


def bare(repo: Path) -> None:
    """Mining and writing shards without datatrove."""
    config = MineConfig()
    with tempfile.TemporaryDirectory() as folder:
        for unit in plan_mine(config, [repo], None):
            rows = [o.records[0] for o in mine_unit(config, unit) if isinstance(o, Keep)]
            shards.write_shard(Path(folder) / f"{unit.name}.parquet", Edit, rows)


def wrapped(repo: Path) -> None:
    """The same as a worker does it: datatrove steps, verdicts of drops, sidecars."""
    config = MineConfig()
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir.open(Path(folder) / "run", create=True)
        for output in ("edits", "verdicts"):
            (run.root / output).mkdir()
        for unit in plan_mine(config, [repo], None):
            run_unit("mine", MINE_OUTPUTS, MineEdits(config, run.root, 0), run.root, unit)


def main() -> None:
    """Print commits a CPU-second and ratios for each repository."""
    ratios: dict[str, list[float]] = {}
    wrong = 0
    for repo in repositories("commits mined a CPU-second"):
        order = read_history(open_repository(repo)).order
        commits = len(order)
        expected = raw_edits(repo)
        told = ours(repo)
        seen = sum(count for reason, count in told.items() if reason not in ELSEWHERE)
        wrong += seen != len(expected)
        sample = order[:: max(1, len(order) // SAMPLE)][:SAMPLE]
        wanted = "".join(f"{oid}\n" for pair in expected.values() for oid in pair).encode()
        times = best(
            {
                "assay": lambda r=repo: ours(r),
                "pygit2 walk": lambda r=repo: walk(r),
                "git in C": lambda r=repo, w=wanted: in_c(r, w),
                "reading": lambda r=repo: reading(r),
                "bare": lambda r=repo: bare(r),
                "wrapped": lambda r=repo: wrapped(r),
            },
            rounds=3,
            clock=cpu_seconds,
        )
        rate = {name: commits / max(seconds, 1e-6) for name, seconds in times.items()}
        drilled = best({"PyDriller": lambda r=repo, s=sample: drill(r, s)}, rounds=1, clock=cpu_seconds)
        rate["PyDriller"] = len(sample) / max(drilled["PyDriller"], 1e-6)
        of = {
            "PyDriller": rate["assay"] / rate["PyDriller"],
            "pygit2 walk": rate["assay"] / rate["pygit2 walk"],
            "git in C": rate["assay"] / rate["git in C"],
            "git in C, reading alone": rate["reading"] / rate["git in C"],
            "pygit2 walk, reading alone": rate["reading"] / rate["pygit2 walk"],
            "PyDriller, reading alone": rate["reading"] / rate["PyDriller"],
            "bare function, with datatrove": rate["wrapped"] / rate["bare"],
        }
        for name, ratio in of.items():
            ratios.setdefault(name, []).append(ratio)
        print(f"{repo.parent.name if repo.name == 'repo' else repo.name}: {commits:,} commits, {cores()};")
        print(f"  files changed in place: {seen:,} looked into, {len(expected):,} by git log --raw")
        print(f"  assay {rate['assay']:,.0f} commits/CPU-s:", *(f"{r:.2f} x {n};" for n, r in of.items()))
    means = {name: math.prod(found) ** (1 / len(found)) for name, found in ratios.items()}
    print("geometric means:", *(f"{ratio:.2f} x {name};" for name, ratio in means.items()))
    if wrong:
        sys.exit(f"{wrong} histories differ from git log --raw")


if __name__ == "__main__":
    main()
