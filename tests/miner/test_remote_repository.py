"""Repositories given as URLs, fetched into a cache from loopback servers and local files."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gitrepos import BASE, Builder, drops, edits, mine
from hypothesis import given
from hypothesis import strategies as st

from miner.config import FetchConfig, MineConfig
from miner.edits import plan_mine
from miner.network import NetworkError
from miner.remote import update
from miner.repository import open_repository
from miner.sources import cached_path, check_url, is_url, local_path, read_list
from schemas.errors import AssayError

CHANGED = "def value():\n    return 2\n"


@pytest.fixture
def remote(build: Callable[..., Builder]) -> Builder:
    """A repository that a server offers, with one edit and files that mining does not look at."""
    made = build("server")
    made.commit({"a.py": BASE, "LICENSE": "nothing known", "big.bin": bytes(range(256)) * 400})
    made.commit({"a.py": CHANGED})
    made.commit({"big.bin": bytes(range(255, -1, -1)) * 400})
    made.git("config", "uploadpack.allowFilter", "true")
    return made


def url_of(repo: Builder) -> str:
    return f"file://{repo.path}"


def settings(tmp_path: Path, **changed: object) -> FetchConfig:
    values: dict[str, object] = {"cache": str(tmp_path / "cache"), "attempts": 1, **changed}
    return FetchConfig(**values)  # type: ignore[arg-type]


def objects(path: Path, kind: str) -> set[str]:
    """Ids of the objects of a kind that a repository holds."""
    bare = Builder.__new__(Builder)
    bare.path, bare.clock = path, 0
    told = bare.git("cat-file", "--batch-check", "--batch-all-objects")
    return {line.split()[0] for line in told.splitlines() if line.split()[1] == kind}


def test_remote_gives_the_same_edits_as_the_local_repository(remote: Builder, tmp_path: Path) -> None:
    fetched = mine(update(url_of(remote), settings(tmp_path), MineConfig()))
    assert edits(fetched) == edits(mine(remote))
    assert edits(fetched)


def test_only_contents_that_mining_reads_are_fetched(remote: Builder, tmp_path: Path) -> None:
    path = update(url_of(remote), settings(tmp_path), MineConfig())
    wanted = {remote.git("rev-parse", name) for name in ("HEAD~1:a.py", "HEAD~2:a.py", "HEAD:LICENSE")}
    assert objects(path, "blob") == wanted


def test_second_run_fetches_only_what_is_new(remote: Builder, tmp_path: Path) -> None:
    config, url = settings(tmp_path), url_of(remote)
    before = objects(update(url, config, MineConfig()), "blob")
    commit = remote.commit({"a.py": BASE})
    told: list[str] = []
    path = update(url, config, MineConfig(), told.append)
    assert f"{url}: fetching 1 files" not in told  # the old content came back; it is there already
    assert objects(path, "blob") == before
    assert open_repository(path).head == commit


def test_rewritten_history_and_another_default_branch_are_followed(remote: Builder, tmp_path: Path) -> None:
    config, url = settings(tmp_path), url_of(remote)
    update(url, config, MineConfig())
    remote.git("checkout", "-q", "-b", "trunk", "HEAD~2")
    commit = remote.commit({"a.py": CHANGED + "\nx = 1\n"})
    remote.git("branch", "-D", "main")
    path = update(url, config, MineConfig())
    assert set(edits(mine(path))) == {commit}


def test_wanted_contents_follow_the_settings(remote: Builder, tmp_path: Path) -> None:
    remote.commit({"b.go": "package b\n\nvar x = 1\n"})
    commit = remote.commit({"b.go": "package b\n\nvar x = 2\n"})
    config, url = settings(tmp_path), url_of(remote)
    update(url, config, MineConfig(languages=("Python",)))
    path = update(url, config, MineConfig(languages=("Go",)))
    assert set(edits(mine(path, languages=("Go",)))) == {commit}


def test_cache_is_mined_as_it_is_when_no_update_is_wanted(remote: Builder, tmp_path: Path) -> None:
    url = url_of(remote)
    update(url, settings(tmp_path), MineConfig())
    old = remote.head()
    remote.commit({"a.py": BASE})
    remote.path.rename(tmp_path / "moved")
    path = update(url, settings(tmp_path, update=False), MineConfig())
    assert open_repository(path).head == old


def test_branches_of_the_server_can_be_mined(remote: Builder, tmp_path: Path) -> None:
    remote.git("checkout", "-q", "-b", "side")
    commit = remote.commit({"a.py": BASE})
    remote.git("checkout", "-q", "main")
    config = MineConfig(branches=("side",))
    path = update(url_of(remote), settings(tmp_path), config)
    assert commit in edits(mine(path, branches=("side",)))


def test_server_without_filters_works_too(remote: Builder, tmp_path: Path) -> None:
    remote.git("config", "uploadpack.allowFilter", "false")
    path = update(url_of(remote), settings(tmp_path), MineConfig())
    assert edits(mine(path)) == edits(mine(remote))


def test_sha256_server_works_too(build: Callable[..., Builder], tmp_path: Path) -> None:
    made = build("modern", "--object-format=sha256")
    made.commit({"a.py": BASE})
    commit = made.commit({"a.py": CHANGED})
    made.git("config", "uploadpack.allowFilter", "true")
    assert set(edits(mine(update(url_of(made), settings(tmp_path), MineConfig())))) == {commit}


def test_content_that_the_server_lost_costs_its_own_commits_only(remote: Builder, tmp_path: Path) -> None:
    lost = remote.git("rev-parse", "HEAD:a.py")
    bad = remote.commit({"a.py": CHANGED + "\nx = 1\n"})
    good = [remote.commit({"b.py": f"x = {number}\n"}) for number in range(4)][1:]
    (remote.path / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    outcomes = mine(update(url_of(remote), settings(tmp_path), MineConfig()))
    assert set(edits(outcomes)) == set(good)
    assert drops(outcomes)[bad][0] == "missing_object"


def test_server_that_dies_in_the_middle_is_told_and_leaves_no_repository(
    remote: Builder, tmp_path: Path
) -> None:
    tree = remote.git("rev-parse", "HEAD~1^{tree}")
    (remote.path / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    config = settings(tmp_path)
    with pytest.raises(NetworkError, match="cannot be fetched"):
        update(url_of(remote), config, MineConfig())
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_failed_update_leaves_what_was_fetched(remote: Builder, tmp_path: Path) -> None:
    config, url = settings(tmp_path), url_of(remote)
    before = mine(update(url, config, MineConfig()))
    remote.path.rename(tmp_path / "gone")
    with pytest.raises(NetworkError, match="cannot be fetched"):
        update(url, config, MineConfig())
    assert mine(local_path(url, config)) == before


@contextlib.contextmanager
def listener(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A TCP server on the loopback that does with each connection what it is told to; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    kept.append(connection)
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            for connection in kept:
                connection.close()


def test_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with listener(lambda _: None) as port, pytest.raises(NetworkError, match="no answer for 1 s"):
        update(f"http://127.0.0.1:{port}/o/r", settings(tmp_path, stall_s=1), MineConfig())


def test_server_that_goes_away_after_the_greeting_is_told(tmp_path: Path) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n"
            b"Content-Length: 5000\r\n\r\n001e# service=git-upload-pack\n0000"
        )
        connection.close()

    with listener(answer) as port, pytest.raises(NetworkError, match="cannot be fetched"):
        update(f"http://127.0.0.1:{port}/o/r", settings(tmp_path, stall_s=20), MineConfig())


def test_redirect_to_another_transport_is_not_followed(tmp_path: Path) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: ext::sh -c false\r\nContent-Length: 0\r\n\r\n")
        connection.close()

    with listener(answer) as port, pytest.raises(NetworkError, match="cannot be fetched"):
        update(f"http://127.0.0.1:{port}/o/r", settings(tmp_path, stall_s=20), MineConfig())


def test_children_of_a_hanging_git_are_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "ssh"
    script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    script.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(script))
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
    with pytest.raises(NetworkError, match="no answer"):
        update("ssh://git@127.0.0.1/o/r", settings(tmp_path, stall_s=1), MineConfig())
    child = int((tmp_path / "pid").read_text())
    # One that was killed needs a processor to go.
    for _ in range(200):
        if not _runs(child):
            return
        time.sleep(0.1)
    pytest.fail("it still runs")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_server_is_never_asked_with_the_callers_git_variables(
    remote: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    update(url_of(remote), settings(tmp_path), MineConfig())
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch /tmp/x",
        "ext::sh",
        "fd::7",
        "git://host/owner/name",
        "ftp://host/owner/name",
        "https://-oProxyCommand=x/owner/name",
        "ssh://-oProxyCommand=x/owner",
        "ssh://-oProxyCommand=x@host/owner",
        "https:///owner/name",
        "https://host",
        "https://host/",
        "https://host/a b",
        "https://host/a\nb",
        "https://host/a?token=x",
        "file://elsewhere/path",
        "--upload-pack=touch /tmp/x://host/a",
    ],
)
def test_hostile_url_is_refused_before_git_sees_it(url: str, tmp_path: Path) -> None:
    with pytest.raises(AssayError):
        update(url, settings(tmp_path), MineConfig())
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "url", ["https://ada:secret@host/o/r", "https://ghp_secret@host/o/r", "http://u:secret@h/r"]
)
def test_secret_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(AssayError) as caught:
        check_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://host/o/r",
        "http://host:80/r.git",
        "ssh://git@host:22/o/r",
        "git@host:o/r.git",
        "file:///a/b c".replace(" ", ""),
    ],
)
def test_usual_url_is_taken(url: str) -> None:
    assert is_url(url)
    assert check_url(url) == url


@pytest.mark.parametrize("given_path", [".", "/a/b", "a/b:c", "C:/x", "name", "./git@host:x"])
def test_path_is_no_url(given_path: str) -> None:
    assert not is_url(given_path)


@given(st.text(max_size=60))
def test_any_text_is_a_path_a_url_or_refused_in_one_line(text: str) -> None:
    if not is_url(text):
        return
    told = ""
    try:
        assert check_url(text) == text
    except AssayError as error:
        told = str(error)
    assert "\n" not in told


def test_spellings_of_one_url_share_a_cache(tmp_path: Path) -> None:
    config = settings(tmp_path)
    paths = {cached_path(f"https://host/o/r{tail}", config) for tail in ("", "/", ".git")}
    assert len(paths) == 1
    assert cached_path("https://other/o/r", config) not in paths


def test_url_that_was_not_fetched_is_said(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="nothing of it is fetched yet"):
        plan_mine(MineConfig(), ["https://host/o/r"], None, settings(tmp_path))


def test_cache_that_cannot_be_written_is_said(remote: Builder, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(AssayError, match="cannot be written"):
        update(url_of(remote), settings(tmp_path), MineConfig())


def test_list_names_paths_beside_it_and_urls(tmp_path: Path) -> None:
    file = tmp_path / "repos.txt"
    file.write_text("# ours\n\nengine\n/abs/tool\n  https://host/o/r  \ngit@host:o/r\n")
    found = read_list(file)
    assert found == [str(tmp_path / "engine"), "/abs/tool", "https://host/o/r", "git@host:o/r"]


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"\xff\xfe\x00"])
def test_list_that_names_nothing_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "repos.txt").write_bytes(content)
    with pytest.raises(AssayError, match=r"repos\.txt"):
        read_list(tmp_path / "repos.txt")


def test_disk_limit_of_a_fetch_is_kept(remote: Builder, tmp_path: Path) -> None:
    from miner.network import run_git

    noise = os.urandom(200_000)
    remote.commit({"noise.bin": noise})
    with pytest.raises(NetworkError):
        run_git(
            ["clone", "--bare", "--", url_of(remote), str(tmp_path / "copy")],
            stall_s=60,
            timeout_s=60,
            max_bytes=100_000,
        )
