"""Commits mined a CPU-second, against the usual walk with pygit2 and against git's own C programs.

    python benchmarks/bench_mine.py --repo PATH [--repo PATH ...]

Peers:
* `pygit2 walk`: for every commit with one parent, diff the trees, and where one file changed in place read
  both blobs, with pygit2's defaults. What a script would do.
* `git in C`: `git log --raw` and `git cat-file --batch` to /dev/null. It reads the same objects and makes
  nothing of them: a floor.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pygit2
from common import best, cores, cpu_seconds, repositories

from miner.config import MineConfig
from miner.edits import mine_unit, plan_mine


def ours(repo: Path) -> int:
    """Edits and drops of the whole history."""
    config = MineConfig()
    return sum(1 for unit in plan_mine(config, [repo], None) for _ in mine_unit(config, unit))


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


def in_c(repo: Path) -> None:
    """git's own programs over the same objects."""
    log = ["git", "-C", str(repo), "log", "--raw", "--no-renames", "--no-abbrev", "-z", "--format=%H%x00%B"]
    subprocess.run(log, check=True, stdout=subprocess.DEVNULL)
    raw = [
        "git",
        "-C",
        str(repo),
        "log",
        "--raw",
        "--no-renames",
        "--no-abbrev",
        "--no-merges",
        "--format=%x01",
    ]
    commits = (
        subprocess.run(raw, check=True, capture_output=True).stdout.decode("utf-8", "replace").split("\x01")
    )
    wanted = []
    for text in commits:
        lines = [line.split() for line in text.splitlines() if line.startswith(":")]
        if len(lines) == 1 and lines[0][4] == "M":
            wanted += lines[0][2:4]
    subprocess.run(
        ["git", "-C", str(repo), "cat-file", "--batch", "--buffer"],
        check=True,
        input="\n".join(wanted).encode(),
        stdout=subprocess.DEVNULL,
    )


def main() -> None:
    """Print commits a CPU-second and ratios for each repository."""
    for repo in repositories("commits mined a CPU-second"):
        count = subprocess.run(
            ["git", "-C", str(repo), "rev-list", "--count", "HEAD"], check=True, capture_output=True
        )
        commits = int(count.stdout)
        times = best(
            {
                "assay": lambda r=repo: ours(r),
                "pygit2 walk": lambda r=repo: walk(r),
                "git in C": lambda r=repo: in_c(r),
            },
            rounds=3,
            clock=cpu_seconds,
        )
        rate = {name: commits / max(seconds, 1e-6) for name, seconds in times.items()}
        ratios = [f"{rate['assay'] / rate[peer]:.2f} x {peer}" for peer in ("pygit2 walk", "git in C")]
        print(
            f"{repo.name}: {commits:,} commits, {cores()}; assay {rate['assay']:,.0f} commits/CPU-s,", *ratios
        )


if __name__ == "__main__":
    main()
