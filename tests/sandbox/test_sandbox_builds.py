"""The cache of builds: one build a key, what is kept and what is not, and files that somebody has altered."""

import threading
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sandbox.builds import Build, Builds

KEY = "ab" + "0" * 62


def counted(build: Build) -> tuple[list[int], object]:
    made: list[int] = []

    def make() -> Build:
        made.append(1)
        return build

    return made, make


def test_a_build_is_made_once_and_found_again_by_another_process(tmp_path: Path) -> None:
    made, make = counted(Build("ok", {"main": b"\x7fELF"}, stderr="warning"))
    first = Builds(tmp_path)
    assert first.get(KEY, make) == first.get(KEY, make)
    assert Builds(tmp_path).get(KEY, make) == Build("ok", {"main": b"\x7fELF"}, stderr="warning")
    assert len(made) == 1


def test_what_a_compiler_refuses_is_kept_too(tmp_path: Path) -> None:
    made, make = counted(Build("compile_error", detail="line 1"))
    Builds(tmp_path).get(KEY, make)
    assert Builds(tmp_path).get(KEY, make).detail == "line 1"
    assert len(made) == 1


def test_a_build_that_a_limit_or_the_sandbox_stopped_is_made_anew(tmp_path: Path) -> None:
    cache = Builds(tmp_path)
    for build in (Build("infra_error", lasting=False), Build("compile_error", lasting=False)):
        made, make = counted(build)
        cache.get(KEY, make)
        cache.get(KEY, make)
        assert len(made) == 2
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@given(at=st.integers(0, 200), byte=st.integers(1, 255), cut=st.booleans())
def test_a_file_that_was_altered_or_cut_is_built_anew(
    tmp_path_factory: object, at: int, byte: int, cut: bool
) -> None:
    folder = tmp_path_factory.mktemp("builds")  # type: ignore[attr-defined]
    good = Build("ok", {"main": b"good" * 20})
    Builds(folder).get(KEY, lambda: good)
    (path,) = (one for one in folder.rglob("*") if one.is_file())
    data = bytearray(path.read_bytes())
    at %= len(data)
    if cut:
        del data[at:]
    else:
        data[at] ^= byte
    path.write_bytes(data)
    other = Build("ok", {"main": b"new"})
    assert Builds(folder).get(KEY, lambda: other) == other


def test_a_file_under_another_key_is_not_taken(tmp_path: Path) -> None:
    Builds(tmp_path).get(KEY, lambda: Build("ok", {"main": b"one"}))
    other = "ab" + "1" * 62
    (tmp_path / "ab" / KEY).rename(tmp_path / "ab" / other)
    assert Builds(tmp_path).get(other, lambda: Build("ok", {"main": b"two"})).files == {"main": b"two"}


def test_a_folder_that_cannot_be_written_costs_the_cache_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert Builds(tmp_path / "file").get(KEY, lambda: Build("ok", {"main": b"x"})).status == "ok"


def test_threads_that_ask_for_one_build_wait_for_it(tmp_path: Path) -> None:
    cache = Builds(tmp_path)
    begun = threading.Event()
    go = threading.Event()
    made = []

    def slow() -> Build:
        begun.set()
        go.wait(20)
        made.append(1)
        return Build("ok", {"main": b"x"})

    threads = [threading.Thread(target=cache.get, args=(KEY, slow)) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(20)
    go.set()
    for thread in threads:
        thread.join(20)
    assert len(made) == 1
