"""Which commits become edits, and what happens to all others."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from gitrepos import BASE, Builder, drops, edits, mine, reason

from miner.config import MineConfig
from miner.reasons import MINE
from schemas.declare import validate
from schemas.errors import AssayError
from schemas.ids import content_id
from schemas.records import Edit, Hunk

CHANGED = "def value():\n    return 2\n"


def test_one_changed_source_file_is_an_edit_with_all_columns(repo: Builder) -> None:
    parent = repo.head()
    commit = repo.commit({"a.py": CHANGED}, "Return two instead of one\n\nOne was wrong.\n")
    edit = edits(mine(repo))[commit]
    validate(Edit, edit)
    assert edit == Edit(
        id=content_id("project", commit, "a.py"),
        repo="project",
        commit=commit,
        parent=parent,
        path="a.py",
        language="Python",
        old_contents=BASE,
        new_contents=CHANGED,
        old_id=repo.git("rev-parse", f"{parent}:a.py"),
        new_id=repo.git("rev-parse", f"{commit}:a.py"),
        patch_id=repo.patch_id(commit),
        subject="Return two instead of one",
        message="Return two instead of one\n\nOne was wrong.",
        author_time=repo.clock,
        commit_time=repo.clock,
        license=None,
        file_license=None,
        merged_by=None,
        reverted_by=None,
        reverted_how=None,
        cherry_picked_from=None,
        bot=False,
        ai_assisted=None,
        companions=[],
        hunks=[Hunk(old_start=2, old_lines=1, new_start=2, new_lines=1)],
        lines_added=1,
        lines_removed=1,
    )


def test_root_commit_has_no_version_before(repo: Builder) -> None:
    assert reason(mine(repo), repo.head()) == "root_commit"


def test_several_files_in_one_commit_are_no_edit(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED, "notes.txt": "x"})
    assert drops(mine(repo))[commit] == ("several_files", "2 files")


def test_empty_commit_changes_no_file(repo: Builder) -> None:
    commit = repo.commit({}, "Trigger the build once more please")
    assert reason(mine(repo), commit) == "no_files"


@pytest.mark.parametrize(
    ("files", "detail"), [({"b.py": BASE}, "added"), ({"a.py": None}, "deleted")], ids=["added", "deleted"]
)
def test_added_and_deleted_files_are_not_in_place(
    repo: Builder, files: dict[str, str | None], detail: str
) -> None:
    commit = repo.commit(files)
    assert drops(mine(repo))[commit] == ("not_in_place", detail)


def test_rename_is_not_in_place(repo: Builder) -> None:
    repo.git("mv", "a.py", "b.py")
    commit = repo.commit({}, "Give the module a name that fits")
    # Without rename detection, a rename is a deletion and an addition.
    assert reason(mine(repo), commit) == "several_files"


def test_mode_change_alone_is_not_in_place(repo: Builder) -> None:
    (repo.path / "a.py").chmod(0o755)
    commit = repo.commit({}, "Make the module executable for all")
    assert drops(mine(repo))[commit] == ("not_in_place", "mode 100644 to 100755")


def test_mode_change_with_a_content_change_is_an_edit(repo: Builder) -> None:
    (repo.path / "a.py").chmod(0o755)
    assert repo.commit({"a.py": CHANGED}) in edits(mine(repo))


def test_gitlink_bump_is_not_an_edit(repo: Builder) -> None:
    def point(oid: str) -> str:
        repo.git("update-index", "--add", "--cacheinfo", f"160000,{oid},lib.py")
        repo.clock += 1
        repo.git("commit", "-q", "-m", "Move the library to a newer commit")
        return repo.head()

    point("1" * 40)
    commit = point("2" * 40)
    assert reason(mine(repo), commit) == "gitlink"


def test_symlink_change_is_not_an_edit(repo: Builder) -> None:
    (repo.path / "link.py").symlink_to("a.py")
    repo.commit({}, "Add a second name for the module")
    (repo.path / "link.py").unlink()
    (repo.path / "link.py").symlink_to("b.py")
    commit = repo.commit({}, "Point the second name elsewhere")
    assert reason(mine(repo), commit) == "symlink"


def test_file_that_becomes_a_symlink_is_not_an_edit(repo: Builder) -> None:
    (repo.path / "a.py").unlink()
    (repo.path / "a.py").symlink_to("elsewhere.py")
    commit = repo.commit({}, "Share the module with the other project")
    assert reason(mine(repo), commit) == "symlink"


def test_octopus_merge_is_a_merge(repo: Builder) -> None:
    for name in ("one", "two"):
        repo.git("checkout", "-q", "-b", name, "main")
        repo.commit({f"{name}.py": BASE}, f"Add the module called {name}")
    repo.git("checkout", "-q", "main")
    repo.commit({"c.py": BASE}, "Add a module so that a merge is needed")
    commit = repo.merge("one", "two", message="Merge both of the branches")
    assert drops(mine(repo))[commit] == ("merge", "3 parents")


@pytest.mark.parametrize("name", ["notes.txt", "Makefile", "data.json", "page.html", ".py", "py"])
def test_other_files_are_no_source_files(repo: Builder, name: str) -> None:
    repo.commit({name: "one\n"})
    commit = repo.commit({name: "two\n"})
    assert reason(mine(repo), commit) == "not_a_source_file"


def test_unwanted_language_is_dropped_with_its_name(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED})
    assert drops(mine(repo, languages=("Go", "C")))[commit] == ("not_a_source_file", "Python")


@pytest.mark.parametrize(
    "name",
    [
        "with space.py",
        "new\nline.py",
        "quo\"te'.py",
        "tab\t.py",
        "ünï/cödé 文.py",
        "-rf.py",
        "--output=x.py",
        ":(glob)*.py",
        "back\\slash.py",
        "$(touch x).py",
        "a;b|c&d.py",
    ],
)
def test_any_file_name_arrives_as_it_is(repo: Builder, name: str) -> None:
    repo.commit({name: BASE})
    commit = repo.commit({name: CHANGED})
    edit = edits(mine(repo))[commit]
    assert (edit.path, edit.new_contents) == (name, CHANGED)


def test_path_that_is_not_utf8_is_dropped(repo: Builder) -> None:
    name = b"caf\xe9.py".decode(errors="surrogateescape")
    repo.commit({name: BASE})
    commit = repo.commit({name: CHANGED})
    assert reason(mine(repo), commit) == "path_not_utf8"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("x" * 10, "message_too_short"),
        ("  " + "x" * 10 + "\n\n", "message_too_short"),
        ("", "message_too_short"),
        ("word " * 3000, None),
        ("word " * 3001, "message_too_long"),
    ],
    ids=["ten", "padded", "none", "longest", "longer"],
)
def test_message_length_bounds_are_strict(repo: Builder, message: str, why: str | None) -> None:
    # 3000 words of five characters, stripped, are 14,999 characters.
    repo.write({"a.py": CHANGED})
    repo.git("add", "-A")
    commit = repo.raw_commit(repo.git("write-tree"), [repo.head()], b"\n" + message.encode())
    assert reason(mine(repo), commit) == why


def test_eleven_characters_are_enough(repo: Builder) -> None:
    assert repo.commit({"a.py": CHANGED}, "Fix leak ab") in edits(mine(repo))


def test_message_in_latin1_without_a_header_is_read(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED}, "R\xe9pare la fuite de m\xe9moire".encode("latin-1"))
    assert edits(mine(repo))[commit].subject == "Répare la fuite de mémoire"


def test_message_with_an_encoding_header_is_converted(repo: Builder) -> None:
    repo.write({"a.py": CHANGED})
    repo.git("add", "-A")
    tail = b"encoding ISO-8859-2\n\nNaprawia b\xb3\xb1d w parserze\n"
    commit = repo.raw_commit(repo.git("write-tree"), [repo.head()], tail)
    assert edits(mine(repo))[commit].subject == "Naprawia błąd w parserze"


def test_message_with_an_unknown_encoding_is_still_read(repo: Builder) -> None:
    repo.write({"a.py": CHANGED})
    repo.git("add", "-A")
    tail = b"encoding no-such-thing\n\nRepair the caf\xc3\xa9 counter\n"
    commit = repo.raw_commit(repo.git("write-tree"), [repo.head()], tail)
    assert edits(mine(repo))[commit].subject == "Repair the café counter"


def test_message_with_a_nul_ends_there_and_costs_no_other_commit(repo: Builder) -> None:
    repo.write({"a.py": CHANGED})
    repo.git("add", "-A")
    tail = b"\nRepair the counter\0:100644 100644 " + b"1" * 40 + b" " + b"2" * 40 + b" M\0evil.py\0"
    commit = repo.raw_commit(repo.git("write-tree"), [repo.head()], tail)
    later = repo.commit({"a.py": BASE}, "Go back to the former value")
    found = edits(mine(repo))
    assert found[commit].message == "Repair the counter"
    assert found[later].path == "a.py"


def test_message_that_looks_like_a_raw_diff_stays_a_message(repo: Builder) -> None:
    message = f":100644 100644 {'1' * 40} {'2' * 40} M\tevil.py\n\n:100644 and so on"
    commit = repo.commit({"a.py": CHANGED}, message)
    edit = edits(mine(repo))[commit]
    assert (edit.path, edit.message) == ("a.py", message)


def test_author_of_odd_bytes_is_harmless(repo: Builder) -> None:
    repo.write({"a.py": CHANGED})
    repo.git("add", "-A")
    author = b":\xff\xfe \x01 <:100644@\xff>"
    commit = repo.raw_commit(repo.git("write-tree"), [repo.head()], b"\nRepair the counter\n", author)
    assert commit in edits(mine(repo))


@pytest.mark.parametrize(
    "author_line",
    [b"Ada <ada@x.org> 99999999999999999999 +0000", b"Ada <ada@x.org>", b"Ada <ada@x.org> soon +0000"],
    ids=["overflow", "no date", "no number"],
)
def test_unusable_date_is_its_own_drop_or_a_plain_zero(repo: Builder, author_line: bytes) -> None:
    repo.write({"a.py": CHANGED})
    repo.git("add", "-A")
    data = f"tree {repo.git('write-tree')}\nparent {repo.head()}\n".encode()
    data += b"author " + author_line + b"\ncommitter " + author_line + b"\n\nRepair the counter\n"
    commit = repo.git("hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=data)
    repo.git("update-ref", "HEAD", commit)
    later = repo.commit({"a.py": BASE})
    found = mine(repo)
    assert reason(found, commit) in (None, "bad_date")
    assert later in edits(found)


def test_binary_content_is_dropped(repo: Builder) -> None:
    commit = repo.commit({"a.py": b"x = 1\n\0\0"})
    assert reason(mine(repo), commit) == "binary"


def test_content_that_is_not_utf8_is_dropped_not_repaired(repo: Builder) -> None:
    commit = repo.commit({"a.py": "x = 'caf\xe9'\n".encode("latin-1")})
    assert reason(mine(repo), commit) == "not_utf8"


@pytest.mark.parametrize("content", ["", " \n\t\n"], ids=["empty", "blank"])
def test_side_without_content_is_dropped(repo: Builder, content: str) -> None:
    commit = repo.commit({"a.py": content})
    back = repo.commit({"a.py": BASE})
    found = mine(repo)
    assert reason(found, commit) == reason(found, back) == "empty_side"


def test_crlf_and_byte_order_mark_are_kept(repo: Builder) -> None:
    content = "\ufeffx = 1\r\ny = 2\r"
    commit = repo.commit({"a.py": content})
    assert edits(mine(repo))[commit].new_contents == content


def test_size_limit_counts_bytes_of_either_side(repo: Builder) -> None:
    big = repo.commit({"a.py": "x = 1\n" * 20})
    small = repo.commit({"a.py": BASE})
    found = mine(repo, max_file_bytes=119)
    assert drops(found)[big] == drops(found)[small] == ("too_large", "120 bytes")
    assert big in edits(mine(repo, max_file_bytes=120))


def test_missing_blob_costs_only_its_row(repo: Builder) -> None:
    lost = repo.commit({"a.py": CHANGED})
    oid = repo.git("rev-parse", f"{lost}:a.py")
    kept = repo.commit({"b.py": BASE}) and repo.commit({"b.py": CHANGED.replace("2", "3")})
    (repo.path / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    found = mine(repo)
    assert drops(found)[lost] == ("missing_object", oid)
    assert kept in edits(found)


def test_damaged_blob_costs_only_its_row(repo: Builder) -> None:
    lost = repo.commit({"a.py": CHANGED})
    oid = repo.git("rev-parse", f"{lost}:a.py")
    kept = repo.commit({"b.py": BASE}) and repo.commit({"b.py": CHANGED.replace("2", "3")})
    path = repo.path / ".git" / "objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    path.write_bytes(b"damaged")
    found = mine(repo)
    assert reason(found, lost) == "missing_object"
    assert kept in edits(found)


def test_good_commit_just_before_an_unreadable_one_is_kept(repo: Builder) -> None:
    good = repo.commit({"a.py": CHANGED})
    lost = repo.commit({"a.py": CHANGED.replace("2", "3")})
    oid = repo.git("rev-parse", f"{lost}^{{tree}}")
    (repo.path / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    found = mine(repo)
    assert reason(found, lost) == "unreadable_commit"
    assert good in edits(found)


def test_missing_tree_costs_only_the_commits_that_need_it(repo: Builder) -> None:
    repo.commit({"b.py": BASE})
    lost = repo.commit({"b.py": CHANGED})
    after = repo.commit({"b.py": BASE})
    kept = repo.commit({"b.py": CHANGED})
    oid = repo.git("rev-parse", f"{lost}^{{tree}}")
    repo.commit({"c.py": BASE})
    # The tree is that of `kept` too, unless another file tells them apart.
    assert oid == repo.git("rev-parse", f"{kept}^{{tree}}")
    (repo.path / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    good = repo.commit({"c.py": CHANGED})
    found = mine(repo)
    assert {reason(found, commit) for commit in (lost, after, kept)} == {"unreadable_commit"}
    assert good in edits(found)


def test_every_commit_has_exactly_one_outcome(repo: Builder) -> None:
    for number in range(12):
        repo.commit({"a.py": f"x = {number}\n"} if number % 3 else {f"{number}.md": "x"})
    repo.git("checkout", "-q", "-b", "side", "HEAD~4")
    repo.commit({"b.py": BASE})
    repo.git("checkout", "-q", "main")
    repo.merge("side", message="Merge the branch called side")
    outcomes = mine(repo)
    commits = set(repo.git("rev-list", "HEAD").split())
    assert len(outcomes) == len(commits)
    assert edits(outcomes).keys() | drops(outcomes).keys() == commits


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_unit_size_changes_no_edit(repo: Builder, size: int) -> None:
    for number in range(8):
        repo.commit({"a.py": f"x = {number}\n"}, f"Set the value to {number} (#{number})")
    assert mine(repo, commits_per_unit=size) == mine(repo)


def test_every_reason_given_is_explained(repo: Builder) -> None:
    from miner import edits as module

    source = Path(module.__file__).read_text()
    named = set(re.findall(r'(?:_Dropped\(|Drop\(f"[^"]*", )"(\w+)"', source))
    assert named == MINE.keys()


def test_unknown_language_in_the_settings_is_refused_by_name() -> None:
    with pytest.raises(AssayError, match="Cobol"):
        MineConfig(languages=("Cobol",))


def test_generated_and_vendored_files_can_be_kept(build: Callable[..., Builder]) -> None:
    repo = build()
    repo.commit({"vendor/a.py": BASE}, "Add the first function of the project")
    commit = repo.commit({"vendor/a.py": CHANGED})
    assert drops(mine(repo))[commit] == ("vendored", "below vendor/")
    assert commit in edits(mine(repo, drop_vendored=False))


def test_low_signal_message_is_dropped_unless_wanted(repo: Builder) -> None:
    commit = repo.commit({"a.py": CHANGED}, "Update README.md")
    assert drops(mine(repo))[commit] == ("low_signal_message", "Update README.md")
    assert commit in edits(mine(repo, drop_low_signal=False))


def test_lock_file_of_a_source_language_is_dropped(repo: Builder) -> None:
    repo.commit({"deno.lock": "{}\n", "gems.rb": "x = 1\n", "package-lock.json": "{}\n"})
    commit = repo.commit({"package-lock.json": '{"a": 1}\n'})
    assert reason(mine(repo), commit) == "lock_file"


def test_script_without_extension_is_told_by_its_first_line(repo: Builder) -> None:
    repo.commit({"bin/tool": "#!/usr/bin/env python3\nx = 1\n"})
    commit = repo.commit({"bin/tool": "#!/usr/bin/env python3\nx = 2\n"})
    assert edits(mine(repo))[commit].language == "Python"
