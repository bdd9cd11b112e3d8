"""Damaged, senseless and hostile objects cost the commits that need them, and no other."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from gitrepos import edits, mine, reason
from rawobjects import CODE, SAID, RawRepository

from miner.reasons import MINE
from schemas.errors import AssayError
from schemas.stage import Keep, Outcome

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(params=["sha1", "sha256"])
def raw(request: pytest.FixtureRequest, tmp_path: Path) -> RawRepository:
    return RawRepository(tmp_path / "raw.git", request.param)


@pytest.fixture
def plain(tmp_path: Path) -> RawRepository:
    return RawRepository(tmp_path / "raw.git")


def mined(repo: RawRepository) -> list[Outcome]:
    """Outcomes, of which there is one a commit with a known reason."""
    outcomes = mine(repo.path)
    commits = repo.git("rev-list", "HEAD").split()
    told = [one.records[0].commit if isinstance(one, Keep) else one.id.rpartition("@")[2] for one in outcomes]
    assert sorted(told) == sorted(commit.decode() for commit in commits)
    return outcomes


def counted(outcomes: list[Outcome]) -> dict[str, int]:
    found = Counter("kept" if isinstance(one, Keep) else one.reason for one in outcomes)
    assert found.keys() <= {"kept", *MINE}
    return dict(found)


LIES = {
    "no zlib": b"\x78\x01garbage",
    "nothing": b"",
    "longer than its size": zlib.compress(b"blob 5\0" + CODE % 2),
    "shorter than its size": zlib.compress(b"blob 500\0" + CODE % 2),
    "no number": zlib.compress(b"blob x\0" + CODE % 2),
    "negative": zlib.compress(b"blob -5\0" + CODE % 2),
    "past all numbers": zlib.compress(b"blob 99999999999999999999999\0" + CODE % 2),
    "unknown type": zlib.compress(b"bolb 27\0" + CODE % 2),
    "other content": zlib.compress(b"blob 27\0" + CODE % 3),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_damaged_content_costs_the_two_commits_that_have_it(raw: RawRepository, lie: bytes) -> None:
    raw.chain(6)
    raw.loose(raw.code(2)).write_bytes(lie)
    assert counted(mined(raw)) == {"root_commit": 1, "kept": 3, "missing_object": 2}


def test_folder_in_place_of_an_object_costs_two_commits(raw: RawRepository) -> None:
    raw.chain(6)
    file = raw.loose(raw.code(2))
    file.unlink()
    file.mkdir()
    assert counted(mined(raw)) == {"root_commit": 1, "kept": 3, "missing_object": 2}


TREES: dict[str, Callable[[RawRepository], str]] = {
    "cut": lambda repo: repo.put("tree", b"100644 a.py\0short"),
    "no entries": lambda repo: repo.put("tree", b"no mode at all"),
    "name of nothing": lambda repo: repo.tree(("100644", b"", repo.code(7))),
    "mode of letters": lambda repo: repo.tree(("10x644", b"a.py", repo.code(7))),
    "blob for a tree": lambda repo: repo.code(1),
    "missing": lambda repo: repo.nobody(),
    "null": lambda repo: "0" * len(repo.nobody()),
    "blob for a folder": lambda repo: repo.tree(("40000", b"a.py", repo.code(3))),
}


@pytest.mark.parametrize("make", TREES.values(), ids=TREES.keys())
def test_unreadable_tree_costs_its_commit_and_the_next(
    raw: RawRepository, make: Callable[[RawRepository], str]
) -> None:
    before = raw.chain(3)
    odd = raw.commit(make(raw), before[-1])
    after = raw.around(odd)
    found = mined(raw)
    assert {reason(found, odd), reason(found, after[0])} == {"unreadable_commit"}
    assert edits(found).keys() == {*before[1:], *after[1:]}


def test_tree_in_place_of_a_file_is_missing_content(raw: RawRepository) -> None:
    before = raw.chain(3)
    odd = raw.commit(raw.tree(("100644", b"a.py", raw.tree())), before[-1])
    after = raw.around(odd)
    assert edits(mined(raw)).keys() == {*before[1:], *after[1:]}


def test_tree_too_deep_for_git_costs_its_commit_and_the_next(plain: RawRepository) -> None:
    before = plain.chain(3)
    path = "d/" * 60_000 + "a.py"
    stream = (
        f"commit refs/heads/deep\ncommitter A <a@x> 1 +0000\ndata 1\nx\nM 100644 {plain.code(1)} {path}\n"
    )
    try:
        plain.git("fast-import", "--quiet", stdin=stream.encode())
    except AssertionError:
        pytest.skip("git cannot write such a tree here")
    deep = plain.git("cat-file", "commit", "deep").split()[1].decode()
    odd = plain.commit(deep, before[-1])
    after = plain.around(odd)
    found = mined(plain)
    assert {reason(found, odd), reason(found, after[0])} <= {"unreadable_commit", "several_files"}
    assert {*before[1:], *after[1:]} <= edits(found).keys()


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_flipped_bits_of_a_pack_cost_rows_or_the_repository(plain: RawRepository, part: float) -> None:
    plain.chain(40)
    good = edits(mine(plain.path))
    file = plain.pack()
    data = bytearray(file.read_bytes())
    data[int(len(data) * part)] ^= 0xFF
    file.write_bytes(data)
    try:
        found = mine(plain.path)
    except AssayError:
        with pytest.raises(AssayError, match="fsck"):
            mine(plain.path)
        return
    assert len(found) == 40
    assert edits(found).items() <= good.items()


def test_index_that_points_to_other_objects_gives_no_wrong_content(plain: RawRepository) -> None:
    commits = plain.chain(6)
    file = plain.pack().with_suffix(".idx")
    data = bytearray(file.read_bytes())
    count = int.from_bytes(data[8 + 255 * 4 : 8 + 256 * 4], "big")
    names = [data[1032 + 20 * i : 1052 + 20 * i].hex() for i in range(count)]
    one, other = (names.index(plain.id_of("blob", CODE % number)) for number in (2, 3))
    start = 1032 + 24 * count
    first, second = (slice(start + 4 * i, start + 4 * i + 4) for i in (one, other))
    data[first], data[second] = data[second], data[first]
    file.write_bytes(data)
    found = mine(plain.path)
    assert len(found) == 6
    assert {commits[1], commits[5]} == edits(found).keys()


@pytest.mark.parametrize("what", ["pack", "index", "no index"])
def test_cut_pack_is_told_with_the_check_to_run(plain: RawRepository, what: str) -> None:
    plain.chain(10)
    file = plain.pack()
    if what == "no index":
        file.with_suffix(".idx").unlink()
    else:
        file = file if what == "pack" else file.with_suffix(".idx")
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(AssayError, match=r"damaged.*fsck"):
        mine(plain.path)


@pytest.mark.parametrize("kind", ["blob", "tag", "missing"])
def test_parent_that_is_no_commit_is_refused(raw: RawRepository, kind: str) -> None:
    parent = {"blob": raw.code(1), "tag": raw.tag(raw.file_commit(1)), "missing": raw.nobody()}[kind]
    raw.around(raw.file_commit(2, parent))
    with pytest.raises(AssayError, match="fsck"):
        mine(raw.path)


MESSAGES = {
    "utf-16": (b"encoding UTF-16\n", "Repair the counter\n".encode("utf-16")),
    "utf-7": (b"encoding UTF-7\n", b"Repair +AAA- the counter\n"),
    "wide": (b"encoding WCHAR_T\n", b"R\0\0\0e\0\0\0"),
    "long encoding": (b"encoding " + b"x" * 100_000 + b"\n", b"Repair the counter\n"),
    "nuls": (b"", b"\0" * 1000),
    "looks like a record": (b"", b"Repair it\n\n\0" + b"a" * 40 + b"\0" + b"b" * 40 + b"\0"),
    "looks like ids": (b"", b"a" * 40 + b" " + b"b" * 40 + b"\n"),
    "looks like a file": (b"", b":100644 100644 " + b"a" * 40 + b" " + b"b" * 40 + b" M\0a.py\0"),
    "line ends": (b"", b"\n" * 50_000 + b"Repair\n"),
    "controls": (b"", bytes(range(1, 256)) * 5),
    "surrogate": (b"", b"Repair \xed\xa0\x80 in the message\n"),
    "bomb": (b"", b"word " * (6 << 20)),
}


@pytest.mark.parametrize(("header", "message"), MESSAGES.values(), ids=MESSAGES.keys())
def test_odd_message_costs_no_other_commit(plain: RawRepository, header: bytes, message: bytes) -> None:
    before = plain.chain(3)
    odd = plain.file_commit(50, before[-1], tail=header + b"\n" + message)
    after = plain.around(odd)
    assert edits(mined(plain)).keys() >= {*before[1:], *after}


AUTHORS = {
    "before 1970": (b"A <a@x> -5 +0000", "bad_date"),
    "after 2100": (b"A <a@x> 5000000000 +0000", None),
    "past 2^63": (b"A <a@x> 9223372036854775808 +0000", "bad_date"),
    "past all numbers": (b"A <a@x> 99999999999999999999999999 +0000", "bad_date"),
    "other digits": ("A <a@x> \u0661\u0665 +0000".encode(), "bad_date"),
    "words": (b"A <a@x> now or then", "bad_date"),
    "no email": (b"A 1500000000 +0000", "bad_date"),
    "half an email": (b"A < 1500000000 +0000", "bad_date"),
    "nothing": (b"", "bad_date"),
    "brackets": (b"A <b> <c> >d <<a@x>> 1500000000 +0000", None),
    "nul": (b"A\0B <a@x> 1500000000 +0000", "bad_date"),
    "line feed": (b"A\nB <a@x> 1500000000 +0000", "bad_date"),
    "zone": (b"A <a@x> 1500000000 +9999999999", None),
    "bytes": (b"\xff\xfe <\xe9@x> 1500000000 +0000", None),
    "long": (b"A" * (5 << 20) + b" <a@x> 1500000000 +0000", None),
    "controls": (b"A\x1b[31m\r <a\t@x> 1500000000 +0000", None),
}


@pytest.mark.parametrize(("author", "why"), AUTHORS.values(), ids=AUTHORS.keys())
def test_odd_author_costs_no_other_commit(plain: RawRepository, author: bytes, why: str | None) -> None:
    before = plain.chain(3)
    odd = plain.commit(plain.tree(("100644", b"a.py", plain.code(50))), before[-1], author=author)
    after = plain.around(odd)
    found = mined(plain)
    assert reason(found, odd) == why
    assert edits(found).keys() >= {*before[1:], *after}


def test_commit_without_author_and_committer_has_no_date(plain: RawRepository) -> None:
    before = plain.chain(3)
    tree = plain.tree(("100644", b"a.py", plain.code(50)))
    odd = plain.put("commit", f"tree {tree}\nparent {before[-1]}\n".encode() + SAID)
    after = plain.around(odd)
    found = mined(plain)
    assert reason(found, odd) == "bad_date"
    assert edits(found).keys() == {*before[1:], *after}


PATHS = {
    b"a\nb.py": None,
    b'a"b.py': None,
    b"a\\b.py": None,
    b"-rf.py": None,
    b":100644 100644 x M.py": None,
    b":(glob)*.py": None,
    b"\n:x.py": None,
    b"$(touch x);`id`|&.py": None,
    b"\x01\x1b[2J.py": None,
    "e\u0301.py".encode(): None,
    b"/etc/x.py": "not_a_source_file",
    b"../x.py": "not_a_source_file",
    b"a/../../x.py": "not_a_source_file",
    b".GIT/x.py": "not_a_source_file",
    b"a//x.py": "not_a_source_file",
    b"x" * 5000 + b".py": "path_too_long",
    b"\xff.py": "path_not_utf8",
    b"\xed\xa0\x80.py": "path_not_utf8",
}


@pytest.mark.parametrize(("name", "why"), PATHS.items(), ids=[repr(name[:20]) for name in PATHS])
def test_odd_path_and_its_revert_by_content(plain: RawRepository, name: bytes, why: str | None) -> None:
    made: list[str] = []
    for number in (1, 2, 1):
        made.append(plain.file_commit(number, *made[-1:], name=name))
    plain.branch(made[-1])
    found = mined(plain)
    assert [reason(found, commit) for commit in made[1:]] == [why, why]
    if why is None:
        assert edits(found)[made[1]].reverted_by == made[2]
        assert edits(found)[made[1]].path.encode() == name


def flip(
    repo: RawRepository, old: list[tuple[str, bytes, str]], new: list[tuple[str, bytes, str]]
) -> str | None:
    one = repo.commit(repo.tree(*old))
    odd = repo.commit(repo.tree(*new), one)
    after = repo.around(odd)
    found = mined(repo)
    assert edits(found).keys() >= set(after[1:])
    return reason(found, odd)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("100644", "120000", "symlink"),
        ("120000", "120000", "symlink"),
        ("100644", "160000", "gitlink"),
        ("100644", "40000", "several_files"),
        ("100664", "100664", None),
        ("100000", "100755", None),
        ("0", "0", "gitlink"),
        ("177777777777777777", "177777777777777777", "gitlink"),
    ],
)
def test_what_a_mode_says_goes_before_the_name(
    raw: RawRepository, old: str, new: str, why: str | None
) -> None:
    target = raw.tree(("100644", b"b.py", raw.code(3))) if new == "40000" else raw.code(2)
    assert flip(raw, [(old, b"a.py", raw.code(1))], [(new, b"a.py", target)]) == why


def test_names_that_differ_in_case_or_accents_are_files_of_their_own(plain: RawRepository) -> None:
    rest = [("100644", name, plain.code(9)) for name in (b"A.py", "e\u0301.py".encode())]
    for number, name in enumerate((b"a.py", "\u00e9.py".encode())):
        sides = [[*rest, ("100644", name, plain.code(number + side))] for side in (1, 5)]
        assert flip(plain, *sides) is None


def test_unsorted_tree_and_doubled_names_still_give_one_outcome(raw: RawRepository) -> None:
    unsorted = [[("100644", b"b.py", raw.code(1)), ("100644", b"a.py", raw.code(n))] for n in (2, 3)]
    doubled = [[("100644", b"a.py", raw.code(1)), ("100644", b"a.py", raw.code(n))] for n in (2, 3)]
    assert flip(raw, *unsorted) is None
    assert flip(raw, *doubled) is None
    assert flip(raw, doubled[0] * 5, doubled[0] * 4) in MINE
