"""What is made once a toolchain: kept for the same input, made apart, and never taken from a stranger."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import SandboxError
from sandbox.languages import prepared


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))


def fill_with(text: str, made: list[str]) -> Callable[[Path, Path], None]:
    def fill(draft: Path, final: Path) -> None:
        made.append(text)
        (draft / "deep").mkdir(mode=0o700)
        (draft / "deep" / "file").write_text(text)
        (draft / "final").write_text(str(final))

    return fill


def test_a_folder_is_filled_once_for_the_same_parts() -> None:
    made: list[str] = []
    first = prepared.folder("x", ["a", b"b"], fill_with("1", made))
    assert prepared.folder("x", ["a", b"b"], fill_with("2", made)) == first
    assert made == ["1"]
    assert Path(first, "deep", "file").read_text() == "1"
    assert Path(first, "final").read_text() == first


@pytest.mark.parametrize("parts", [["ab"], ["b", "a"], ["a", "b", ""], ["a"]], ids=str)
def test_other_parts_are_another_folder(parts: list[str]) -> None:
    made: list[str] = []
    first = prepared.folder("x", ["a", "b"], fill_with("1", made))
    assert prepared.folder("x", parts, fill_with("2", made)) != first


def test_whoever_runs_the_programs_may_read_what_is_in_it() -> None:
    path = Path(prepared.folder("x", [], fill_with("1", [])))
    assert [one.stat().st_mode & 0o777 for one in (path, path / "deep", path / "deep" / "file")] == [
        0o755,
        0o755,
        0o644,
    ]


def test_a_fill_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fill(draft: Path, _: Path) -> None:
        (draft / "half").write_text("x")
        raise SandboxError("no compiler")

    with pytest.raises(SandboxError, match="no compiler"):
        prepared.folder("x", [], fill)
    assert list((tmp_path / "toolchains").iterdir()) == []


def test_a_draft_that_somebody_left_is_cleared_after_a_day(tmp_path: Path) -> None:
    for name, age_s in (("draft-old", 100_000), ("draft-new", 1000)):
        (tmp_path / "toolchains" / name / "in").mkdir(parents=True)
        then = time.time() - age_s
        os.utime(tmp_path / "toolchains" / name, (then, then))
    path = prepared.folder("x", [], fill_with("1", []))
    assert sorted(one.name for one in Path(path).parent.iterdir()) == ["draft-new", Path(path).name]


def test_of_two_that_fill_at_once_the_first_wins() -> None:
    def slow(draft: Path, final: Path) -> None:
        fill_with("other", [])(final.parent / draft.name, final)
        assert prepared.folder("x", [], fill_with("first", [])) == str(final)

    assert Path(prepared.folder("x", [], slow), "deep", "file").read_text() == "first"


@pytest.mark.parametrize("place", ["toolchains", "toolchains/{}"], ids=["cache", "folder"])
def test_what_others_can_write_to_is_not_used(tmp_path: Path, place: str) -> None:
    path = Path(prepared.folder("x", [], fill_with("1", [])))
    (tmp_path / place.format(path.name)).chmod(0o777)
    with pytest.raises(SandboxError, match="can be changed by other users"):
        prepared.folder("x", [], fill_with("2", []))


def test_a_cache_that_is_no_folder_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(SandboxError, match="ASSAY_CACHE"):
        prepared.folder("x", [], fill_with("1", []))


def test_a_tool_that_fails_is_told_with_what_it_said(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import sys; sys.exit('out of luck')"]
    with pytest.raises(SandboxError, match=r"failed with 1 .*out of luck"):
        prepared.run_tool(argv, tmp_path)


def test_a_tool_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="cannot be run"):
        prepared.run_tool([str(tmp_path / "none")], tmp_path)


def test_a_tool_sees_nothing_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "x")
    text = "import os; print(sorted(os.environ))"
    assert "SECRET_OF_MINE" not in prepared.run_tool([sys.executable, "-I", "-c", text], tmp_path)
