"""What mining tells of random histories is what git tells of them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gitrepos import drops, edits, mine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rawobjects import RawRepository

NAMES = ["a.py", "b.py", "dir/a.py", "dir/\u00e9 b.py", "a", "-n.py", ":x.py"]
LINES = st.lists(st.sampled_from(["x = 1", "y = 2", "", "\tz", "def f():", "end"]), min_size=1, max_size=8)
TEXT = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n", "\r\n"]))
CHANGE = st.one_of(
    st.tuples(st.just("M"), st.sampled_from(["100644", "100755", "120000"]), st.sampled_from(NAMES), TEXT),
    st.tuples(st.just("M"), st.just("100644"), st.sampled_from(NAMES[:2]), TEXT),
    st.tuples(st.just("D"), st.sampled_from(NAMES)),
    st.tuples(st.just("R"), st.sampled_from(NAMES[:3]), st.sampled_from(NAMES)),
    st.tuples(st.just("S"), st.just("160000"), st.sampled_from(NAMES)),
)
COMMITS = st.lists(
    st.tuples(
        st.lists(CHANGE, min_size=1, max_size=2),
        st.lists(st.integers(1, 6), max_size=2),
    ),
    min_size=2,
    max_size=12,
)


def quoted(name: str) -> str:
    return '"' + "".join(f"\\{byte:03o}" for byte in name.encode()) + '"'


def stream(commits: Sequence[tuple[list[tuple[str, ...]], list[int]]], nobody: str) -> bytes:
    """What `git fast-import` makes the commits of: each after one of those before, and merges of others."""
    parts: list[bytes] = []
    there: set[str] = set()
    for mark, (changes, back) in enumerate(commits, 1):
        parts.append(b"commit refs/heads/main\nmark :%d\ncommitter A <a@x> %d +0000\n" % (mark, 10**9 + mark))
        message = f"Change number {mark} of the file".encode()
        parts.append(b"data %d\n%s\n" % (len(message), message))
        parents = list(dict.fromkeys(mark - step for step in [1, *back] if mark - step > 0))
        parts += [b"%s :%d\n" % (b"merge" if at else b"from", one) for at, one in enumerate(parents)]
        for kind, *rest in changes:
            if kind == "M":
                mode, name, text = rest
                there.add(name)
                data = text.encode()
                parts.append(f"M {mode} inline {quoted(name)}\ndata {len(data)}\n".encode() + data + b"\n")
            elif kind == "S":
                there.add(rest[1])
                parts.append(f"M {rest[0]} {nobody} {quoted(rest[1])}\n".encode())
            elif kind == "D":
                there.discard(rest[0])
                parts.append(f"D {quoted(rest[0])}\n".encode())
            elif rest[0] in there and rest[0] != rest[1]:
                there = {*there, rest[1]} - {rest[0]}
                parts.append(f"R {quoted(rest[0])} {quoted(rest[1])}\n".encode())
    return b"".join(parts)


def applied(old: str, new: str, hunks: Sequence[object]) -> str:
    """The old text with its hunks replaced by the new text's."""
    before, after = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (old, new))
    made: list[str] = []
    at = 0
    for hunk in hunks:
        start = hunk.old_start - (1 if hunk.old_lines else 0)  # type: ignore[attr-defined]
        made += before[at:start]
        first = hunk.new_start - 1  # type: ignore[attr-defined]
        made += after[first : first + hunk.new_lines]  # type: ignore[attr-defined]
        at = start + hunk.old_lines  # type: ignore[attr-defined]
    return "".join([*made, *before[at:]])


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(COMMITS)
def test_mined_history_is_what_git_tells(commits: list[tuple[list[tuple[str, ...]], list[int]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = RawRepository(Path(folder) / "random.git")
        repo.git("fast-import", "--quiet", stdin=stream(commits, repo.nobody()))
        outcomes = mine(repo.path, min_message_chars=0, languages=("Python",))
        kept, dropped = edits(outcomes), drops(outcomes)
        told = repo.git("log", "--raw", "--no-renames", "--no-abbrev", "-z", "--format=%x01%H %P%x00", "main")
        looked: dict[str, tuple[int, list[bytes]]] = {}
        for record in told.split(b"\x01")[1:]:
            head, *rest = record.split(b"\0")
            commit, *parents = head.decode().split()
            fields = [field.lstrip(b"\n") for field in rest if field.strip()]
            looked[commit] = (len(parents), fields)
        assert kept.keys() | dropped.keys() == looked.keys()
        assert len(outcomes) == len(looked)
        for commit, (parents, fields) in looked.items():
            one_file = parents == 1 and len(fields) == 2
            assert one_file or commit in dropped
            if not one_file or commit in kept:
                continue
            old, new, _, _, status = fields[0].lstrip(b":").decode().split()
            plain = {old, new} <= {"100644", "100755"} and status == "M" and fields[1].endswith(b".py")
            why = dropped[commit][0]
            assert not plain or why in ("empty_side", "not_in_place", "generated", "minified"), why
        for commit, edit in kept.items():
            for side, text in ((f"{commit}^", edit.old_contents), (commit, edit.new_contents)):
                assert repo.git("show", f"{side}:{edit.path}") == text.encode()
            assert applied(edit.old_contents, edit.new_contents, edit.hunks) == edit.new_contents
            patch = repo.git("diff-tree", "-p", "--no-renames", commit)
            numbers = repo.git("diff-tree", "-p", "-U0", "--no-renames", commit).count(b"\n@@ ")
            if numbers == len(edit.hunks) and b"\nold mode" not in patch:
                theirs = repo.git("patch-id", "--stable", stdin=patch).split()[0].decode()
                assert theirs == edit.patch_id
