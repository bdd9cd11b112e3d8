"""Asking forges, on a loopback server that behaves and misbehaves as forges do."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from miner import forge
from miner.metadata import Known
from schemas.errors import AssayError

Reply = tuple[int, dict[str, str], bytes]


def body(value: Any, status: int = 200, **headers: str) -> Reply:
    return (
        status,
        {name.replace("_", "-"): text for name, text in headers.items()},
        json.dumps(value).encode(),
    )


class Server:
    """Answers a path with the replies given for it, one after the other, the last one again and again."""

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.seen.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
                path, _, _ = self.path.partition("?")
                waiting = outer.replies.get(path, [body({"message": "Not Found"}, 404)])
                status, headers, data = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(data)

            def log_message(self, *arguments: object) -> None:
                return

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.seen]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("FORGE_TOKEN", "GITHUB_TOKEN", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    one = Server()
    yield one
    one.http.shutdown()
    one.http.server_close()


REPO = "/api/v3/repos/ada/engine"
SEARCH = "/api/v3/search/issues"


@pytest.fixture
def good(server: Server) -> Server:
    """A GitHub with one project."""
    server.replies[REPO] = [body({"stargazers_count": 7, "open_issues_count": 3, "full_name": "Ada/Engine"})]
    server.replies[SEARCH] = [body({"total_count": 12, "incomplete_results": False, "items": []})]
    return server


class Asked:
    """One round of questions; sleeping only takes note."""

    def __init__(self, tmp_path: Path, server: Server, api: str = "/api/v3", wait: float = 60) -> None:
        self.store = tmp_path / "forge.jsonl"
        self.forges = [forge.own_forge(server.url + api)]
        self.remote = f"{server.url}/ada/engine.git"
        self.wait = wait
        self.slept: list[float] = []

    def __call__(self, *urls: str) -> list[str]:
        wanted = [(f"repo {number}", url) for number, url in enumerate(urls or [self.remote])]
        return forge.ask(self.store, wanted, self.forges, 5, self.wait, self.slept.append, lambda: 1000.0)

    @property
    def known(self) -> Known:
        (answer,) = forge.read_answers(self.store).values()
        return answer.known


@pytest.fixture
def asked(tmp_path: Path, server: Server) -> Asked:
    return Asked(tmp_path, server)


def test_github_tells_stars_and_issues_without_requests(good: Server, asked: Asked) -> None:
    assert asked() == []
    assert asked.known == Known(7, 12, None)
    assert "q=repo%3AAda%2FEngine+is%3Aissue&per_page=1" in good.paths[1]


def test_github_tells_forks(good: Server, asked: Asked) -> None:
    good.replies[REPO] = [body({"stargazers_count": 7, "fork": True, "parent": {"full_name": "bob/engine"}})]
    asked()
    assert asked.known.fork_of == "bob/engine"


def test_gitlab_tells_of_a_project_in_groups(server: Server, tmp_path: Path) -> None:
    path = "/api/v4/projects/ada%2Ftools%2Fengine"
    fork = {"path_with_namespace": "bob/engine"}
    server.replies[path] = [body({"star_count": 7, "forked_from_project": fork, "open_issues_count": 1})]
    server.replies[f"{path}/issues_statistics"] = [
        body({"statistics": {"counts": {"all": 12, "closed": 11, "opened": 1}}})
    ]
    asked = Asked(tmp_path, server, "/api/v4")
    assert asked(f"{server.url}/ada/tools/engine.git") == []
    assert asked.known == Known(7, 12, "bob/engine")


def test_gitea_tells_issues_in_a_header(server: Server, tmp_path: Path) -> None:
    path = "/api/v1/repos/ada/engine"
    server.replies[path] = [
        body({"stars_count": 7, "full_name": "ada/engine", "parent": {"full_name": "bob/engine"}})
    ]
    server.replies[f"{path}/issues"] = [body([], X_Total_Count="12")]
    asked = Asked(tmp_path, server, "/api/v1")
    assert asked() == []
    assert asked.known == Known(7, 12, "bob/engine")


def test_another_run_asks_nobody_and_leaves_the_same_bytes(good: Server, asked: Asked) -> None:
    asked()
    before, questions = asked.store.read_bytes(), len(good.seen)
    good.replies[REPO] = [body({"stargazers_count": 8})]
    assert asked() == []
    assert (asked.store.read_bytes(), len(good.seen)) == (before, questions)


def test_project_that_is_not_there_is_asked_for_once(server: Server, asked: Asked) -> None:
    assert asked() == []
    assert asked.known == Known()
    asked()
    assert len(server.seen) == 1


@pytest.mark.parametrize("status", [500, 502, 503])
def test_server_that_fails_is_asked_again_after_longer_and_longer_waits(
    status: int, good: Server, asked: Asked
) -> None:
    good.replies[REPO][:0] = [body({}, status), body({}, status)]
    assert asked() == []
    assert asked.known.stars == 7
    assert len(asked.slept) == 2
    assert asked.slept[0] < asked.slept[1]


@pytest.mark.parametrize(
    ("status", "headers", "waits"),
    [
        (429, {"Retry_After": "7"}, 7),
        (403, {"Retry_After": "7"}, 7),
        (403, {"x_ratelimit_remaining": "0", "x_ratelimit_reset": "1030"}, 30),
        (429, {"RateLimit_Remaining": "0", "RateLimit_Reset": "1030"}, 30),
        (429, {"Retry_After": "Thu, 01 Jan 1970 00:16:50 GMT"}, 10),
        (429, {"Retry_After": "soon"}, 60),
        (429, {}, 60),
    ],
)
def test_forge_that_asks_to_wait_is_given_that_time(
    status: int, headers: dict[str, str], waits: float, good: Server, asked: Asked
) -> None:
    good.replies[REPO][:0] = [body({}, status, **headers)]
    assert asked() == []
    assert asked.slept == [waits]
    assert asked.known == Known(7, 12)


def test_forge_that_wants_a_long_wait_is_left_alone_and_asked_next_time(good: Server, asked: Asked) -> None:
    good.replies[REPO][:0] = [body({}, 403, x_ratelimit_remaining="0", x_ratelimit_reset="4600")]
    (line,) = asked(asked.remote, asked.remote.replace("engine", "other"))
    assert "2 repositories" in line
    assert "3600 s" in line
    assert (asked.slept, len(good.seen)) == ([], 1)
    assert asked() == []
    assert asked.known == Known(7, 12)


def test_what_came_before_a_long_wait_is_kept_and_the_rest_asked_next_time(
    good: Server, asked: Asked
) -> None:
    good.replies[SEARCH][:0] = [body({}, 403, Retry_After="3600")]
    assert len(asked()) == 1
    assert asked.known == Known(7, None)
    assert asked() == []
    assert asked.known == Known(7, 12)


def test_refusal_that_is_no_rate_limit_is_final(good: Server, asked: Asked) -> None:
    good.replies[REPO] = [body({"message": "blocked"}, 403)]
    assert asked() == []
    assert asked.known == Known()
    assert asked.slept == []


def test_renamed_project_is_followed_on_its_forge(good: Server, asked: Asked) -> None:
    good.replies["/api/v3/repositories/5"] = good.replies[REPO]
    good.replies[REPO] = [body({}, 301, Location=f"{good.url}/api/v3/repositories/5")]
    assert asked() == []
    assert asked.known == Known(7, 12)


@pytest.mark.parametrize("where", ["{host}", "file:///etc/passwd", "https://127.0.0.1:{port}/x", "ftp://x/y"])
def test_redirect_to_another_place_is_not_followed(
    where: str, good: Server, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", "secret-token")
    other = Server()
    target = where.format(host=f"{other.url}{REPO}", port=good.http.server_port)
    good.replies[REPO] = [body({}, 302, Location=target)]
    asked()
    assert asked.known == Known()
    assert other.seen == []
    other.http.shutdown()
    other.http.server_close()


def test_redirects_without_end_are_given_up(good: Server, asked: Asked) -> None:
    good.replies[REPO] = [body({}, 302, Location=f"{good.url}{REPO}")]
    asked()
    assert asked.known == Known()
    assert len(good.seen) < 10


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"",
        b"7",
        b"[]",
        b'"text"',
        b"\xff",
        b"[" * 200_000,
        b'{"stargazers_count": "many"}',
        b'{"a": NaN}',
    ],
)
def test_answer_that_is_none_is_one_line_or_unknown(data: bytes, good: Server, asked: Asked) -> None:
    good.replies[REPO] = [(200, {}, data)]
    lines = asked()
    assert len(lines) <= 1
    assert all("\n" not in line for line in lines)
    assert asked.known.stars is None


@pytest.mark.parametrize(
    "found", [{"total_count": 5, "incomplete_results": True}, {"total_count": -1}, {}, []]
)
def test_search_that_did_not_end_is_no_number(found: Any, good: Server, asked: Asked) -> None:
    good.replies[SEARCH] = [body(found)]
    assert len(asked()) == 1
    assert asked.known == Known(7, None)


def test_answer_without_end_is_not_read_to_it(
    good: Server, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forge, "MAX_ANSWER", 1000)
    good.replies[REPO] = [(200, {}, b" " * 5_000_000)]
    (line,) = asked()
    assert "more than 1000 bytes" in line


def test_connection_that_breaks_off_is_tried_again(good: Server, asked: Asked) -> None:
    good.replies[REPO][:0] = [(200, {"Content-Length": "1000"}, b'{"starg')]
    assert asked() == []
    assert asked.known.stars == 7


def test_forge_that_cannot_be_reached_is_told_once(tmp_path: Path, server: Server) -> None:
    asked = Asked(tmp_path, server)
    server.http.shutdown()
    server.http.server_close()
    (line,) = asked(asked.remote, asked.remote.replace("engine", "other"))
    assert "2 repositories not answered" in line
    assert not asked.store.exists()


@pytest.mark.parametrize(
    ("api", "header", "value"),
    [
        ("/api/v3", "authorization", "Bearer secret-token"),
        ("/api/v4", "private-token", "secret-token"),
        ("/api/v1", "authorization", "token secret-token"),
    ],
)
def test_token_goes_to_its_forge_and_nowhere_else(
    api: str, header: str, value: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", "secret-token")
    asked = Asked(tmp_path, server, api)
    lines = asked()
    assert server.seen[0][1][header] == value
    assert "secret" not in asked.store.read_text() + "".join(lines)
    assert "secret" not in "".join(server.paths)


def test_tokens_of_public_forges_do_not_go_to_an_own_one(
    good: Server, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "CODEBERG_TOKEN"):
        monkeypatch.setenv(name, "secret-token")
    asked()
    assert not any("secret" in text for _, headers in good.seen for text in headers.values())


def test_token_that_is_refused_is_told_without_it(
    good: Server, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", "secret-token")
    good.replies[REPO] = [body({"message": "Bad credentials"}, 401)]
    (line,) = asked()
    assert "does not accept the token" in line
    assert "secret" not in line


@pytest.mark.parametrize("token", ["a\r\nX-Evil: 1", "\N{SNOWMAN}", " "])
def test_odd_token_is_not_sent(
    token: str, good: Server, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", token)
    assert asked() == []
    assert not any("authorization" in headers or "x-evil" in headers for _, headers in good.seen)


@pytest.mark.parametrize(
    "remote",
    [
        *("https://evil.example/ada/engine", "/srv/git/engine", "https://github.com.evil.example/a/b"),
        *(
            "{url}/engine",
            "{url}/../../etc/passwd",
            "{url}/ada/engine?x=1",
            "{url}/ada/en gine",
            "{url}/a/%2e%2e",
        ),
    ],
)
def test_remote_that_is_no_project_of_the_forge_is_not_asked_about(
    remote: str, good: Server, asked: Asked
) -> None:
    assert asked(remote.format(url=good.url)) == []
    assert good.seen == []


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("https://github.com/Ada/Engine.git", "github.com", "ada/engine"),
        ("ssh://git@github.com:22/ada/engine", "github.com", "ada/engine"),
        ("git@gitlab.com:ada/tools/engine.git", "gitlab.com", "ada/tools/engine"),
        ("https://codeberg.org/ada/engine/", "codeberg.org", "ada/engine"),
    ],
)
def test_remote_of_a_public_forge_is_known(url: str, host: str, path: str) -> None:
    found = forge.project_of(url, forge.FORGES)
    assert found is not None
    assert (found[0].host, found[1]) == (host, path)


@pytest.mark.parametrize(
    "url",
    [
        *("https://x.org", "ftp://x.org/api/v3", "file:///api/v3", "x.org/api/v3", "https:///api/v3", ""),
        *("https://user:secret@x.org/api/v3", "https://x.org/api/v3?a=b", "https://x.org:port/api/v3"),
    ],
)
def test_url_that_is_no_api_is_refused(url: str) -> None:
    with pytest.raises(AssayError):
        forge.own_forge(url)


def test_token_in_the_clear_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_TOKEN", "secret-token")
    with pytest.raises(AssayError, match="in the clear") as caught:
        forge.own_forge("http://x.org/api/v3")
    assert "secret" not in str(caught.value)
    assert forge.own_forge("https://x.org/api/v3").kind == "github"


def test_answers_of_other_repositories_stay(good: Server, asked: Asked) -> None:
    asked()
    asked(asked.remote.replace("engine", "other"))
    assert {path for _, path in forge.read_answers(asked.store)} == {"ada/engine", "ada/other"}


def test_what_was_answered_is_kept_when_the_questions_are_interrupted(good: Server, asked: Asked) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    good.replies["/api/v3/repos/ada/other"] = [body({}, 500)]
    wanted: list[tuple[str, str | None]] = [
        ("one", asked.remote),
        ("two", asked.remote.replace("engine", "other")),
    ]
    with pytest.raises(KeyboardInterrupt):
        forge.ask(asked.store, wanted, asked.forges, 5, 60, stop)
    assert asked.known == Known(7, 12)
