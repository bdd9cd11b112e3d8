"""A Hugging Face Hub of our own on 127.0.0.1: enough of its API to publish datasets and models
and load them back.

Repositories live in memory as lists of commits. `LoopbackHub.requests` records every call; `fail`
makes matching calls answer with an error; `seen` is told of each call before it is answered. Large files
arrive by git-lfs, or by xet into a local folder (then the bytes stay there and cannot be downloaded here).
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import http.server
import json
import re
import threading
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOKEN = "hf_loopback_token"


@dataclasses.dataclass(frozen=True)
class File:
    data: bytes | None
    size: int
    sha256: str
    lfs: bool

    @classmethod
    def of(cls, data: bytes, lfs: bool) -> File:
        return cls(data, len(data), hashlib.sha256(data).hexdigest(), lfs)

    @property
    def oid(self) -> str:
        text = self.data or b""
        if self.lfs:
            text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\n".encode()
        return hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()

    def entry(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "file", "path": path, "size": self.size, "oid": self.oid}
        if self.lfs:
            found["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": 130}
        return found


@dataclasses.dataclass
class Commit:
    sha: str
    title: str
    files: dict[str, File]


@dataclasses.dataclass
class Repo:
    private: bool = False
    commits: list[Commit] = dataclasses.field(default_factory=list)
    tags: dict[str, str] = dataclasses.field(default_factory=dict)

    def commit(self, title: str, files: dict[str, File]) -> Commit:
        text = json.dumps([len(self.commits), title, sorted((p, f.sha256) for p, f in files.items())])
        made = Commit(hashlib.sha1(text.encode()).hexdigest(), title, files)
        self.commits.append(made)
        return made

    @property
    def head(self) -> Commit:
        return self.commits[-1]

    def at(self, revision: str) -> Commit:
        if revision == "main":
            return self.head
        sha = self.tags.get(revision, revision)
        for commit in self.commits:
            if commit.sha == sha:
                return commit
        raise Refusal(404, "RevisionNotFound")


class Refusal(Exception):
    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        super().__init__(status)
        self.status, self.code, self.message = status, code, message


class LoopbackHub:
    """Use as a context manager; `url` is the endpoint."""

    def __init__(self, cas: Path | None = None) -> None:
        self.repos: dict[str, Repo] = {}
        self.models: dict[str, Repo] = {}
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.failures: list[tuple[str, str, Refusal]] = []
        self.corrupt: Callable[[bytes], bytes] | None = None
        self.seen: Callable[[str, str], None] = lambda method, path: None
        self.cas = cas
        self.lock = threading.RLock()

    def fail(self, method: str, pattern: str, status: int, message: str = "", code: str = "") -> None:
        self.failures.append((method, pattern, Refusal(status, code, message)))

    def __enter__(self) -> LoopbackHub:
        hub = self

        class Bound(Handler):
            state = hub

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def written(self) -> list[tuple[str, str]]:
        """The calls that changed something."""
        return [
            (m, p)
            for m, p in self.requests
            if m == "PUT" or (m == "POST" and re.search(r"/(commit|tag|create|branch)\b", p))
        ]


_API = r"/api/(?P<kind>datasets|models)/(?P<repo>[^/]+/[^/]+)"
_PAGE = r"/(?:(?P<kind>datasets)/)?(?P<repo>[^/]+/[^/]+)"
ROUTES: list[tuple[str, re.Pattern[str], str]] = [
    (method, re.compile(pattern), name)
    for method, pattern, name in (
        ("POST", r"/api/validate-yaml", "validate"),
        ("POST", r"/api/repos/create", "create"),
        ("POST", rf"{_API}/preupload/(?P<rev>[^/]+)", "preupload"),
        ("POST", rf"{_API}/commit/(?P<rev>[^/]+)", "commit"),
        ("GET", _API, "info"),
        ("GET", rf"{_API}/revision/(?P<rev>[^/]+)", "info"),
        ("GET", rf"{_API}/tree/(?P<rev>[^/]+)(?:/(?P<path>.*))?", "tree"),
        ("POST", rf"{_API}/paths-info/(?P<rev>[^/]+)", "paths_info"),
        ("GET", rf"{_API}/refs", "refs"),
        ("POST", rf"{_API}/tag/(?P<rev>[^/]+)", "tag"),
        ("GET", rf"{_API}/xet-write-token/(?P<rev>[^/]+)", "xet"),
        ("POST", rf"{_PAGE}\.git/info/lfs/objects/batch", "lfs_batch"),
        ("PUT", r"/lfs/(?P<oid>[0-9a-f]{64})", "lfs_put"),
        ("POST", r"/lfs/verify", "lfs_verify"),
        ("HEAD", rf"{_PAGE}/resolve/(?P<rev>[^/]+)/(?P<path>.+)", "resolve"),
        ("GET", rf"{_PAGE}/resolve/(?P<rev>[^/]+)/(?P<path>.+)", "resolve"),
    )
]
_LARGE = (".parquet", ".safetensors", ".png")


class Handler(http.server.BaseHTTPRequestHandler):
    state: LoopbackHub
    protocol_version = "HTTP/1.1"
    # One packet an answer: a head and a body sent apart wait for each other's acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def answer(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urllib.parse.urlsplit(self.path).path
        self.state.seen(self.command, path)
        try:
            with self.state.lock:
                self.state.requests.append((self.command, path))
                for method, pattern, refusal in self.state.failures:
                    if method == self.command and re.search(pattern, path):
                        raise refusal
                # As on the real Hub, a large file's upload address carries its own permission.
                if not path.startswith("/lfs/") and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    raise Refusal(401, "", "Invalid credentials in Authorization header")
                for method, pattern_, name in ROUTES:
                    if method == self.command and (match := pattern_.fullmatch(path)):
                        values = {k: urllib.parse.unquote(v) for k, v in match.groupdict().items() if v}
                        self.kind = values.pop("kind", "models")
                        getattr(self, f"on_{name}")(**values)
                        return
                raise Refusal(404, "EntryNotFound")
        except Refusal as refusal:
            headers = {"X-Error-Code": refusal.code, "X-Error-Message": refusal.message.replace("\n", " ")}
            self.reply(
                json.dumps({"error": refusal.message}).encode(),
                refusal.status,
                **{name: value for name, value in headers.items() if value},
            )

    def reply(self, data: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def json(self, value: Any, **headers: str) -> None:
        self.reply(json.dumps(value).encode(), **{"Content-Type": "application/json", **headers})

    def repo(self, repo: str) -> Repo:
        repos = self.repos()
        if repo not in repos:
            raise Refusal(404, "RepoNotFound", "Repository not found")
        return repos[repo]

    def repos(self) -> dict[str, Repo]:
        """Datasets or models, whichever the call is about."""
        return self.state.models if self.kind == "models" else self.state.repos

    def page(self, repo: str) -> str:
        return f"{self.state.url}/{repo}" if self.kind == "models" else f"{self.state.url}/datasets/{repo}"

    def on_validate(self) -> None:
        self.json({"errors": [], "warnings": []})

    def on_create(self) -> None:
        wanted = json.loads(self.body)
        name = f"{wanted['organization']}/{wanted['name']}"
        self.kind = f"{wanted.get('type', 'model')}s"
        url = self.page(name)
        if name in self.repos():
            self.reply(json.dumps({"error": "You already created this repo", "url": url}).encode(), 409)
            return
        made = self.repos()[name] = Repo(private=wanted.get("visibility") == "private")
        made.commit("initial commit", {".gitattributes": File.of(b"*.parquet filter=lfs\n", False)})
        self.json({"url": url})

    def on_preupload(self, repo: str, rev: str) -> None:
        files = self.repo(repo).at(rev).files
        answers = []
        for asked in json.loads(self.body)["files"]:
            large = asked["path"].endswith(_LARGE)
            here = files.get(asked["path"])
            oid = None if here is None else here.sha256 if here.lfs else here.oid
            answers.append(
                {
                    "path": asked["path"],
                    "uploadMode": "lfs" if large else "regular",
                    "shouldIgnore": False,
                    "oid": oid,
                }
            )
        self.json({"files": answers})

    def on_commit(self, repo: str, rev: str) -> None:
        at = self.repo(repo)
        files, title = dict(at.head.files), ""
        for line in self.body.splitlines():
            one = json.loads(line)
            key, value = one["key"], one["value"]
            if key == "header":
                title = value["summary"]
                if value.get("parentCommit", at.head.sha) != at.head.sha:
                    raise Refusal(412, "", "A commit has happened since")
            elif key == "file":
                files[value["path"]] = File.of(base64.b64decode(value["content"]), False)
            elif key == "lfsFile":
                files[value["path"]] = self.large(value["oid"], value.get("size", 0))
            elif key == "deletedFile":
                del files[value["path"]]
            else:
                raise Refusal(400, "", f"unknown operation {key}")
        made = at.commit(title, files)
        url = f"{self.page(repo)}/commit/{made.sha}"
        self.json({"success": True, "commitOid": made.sha, "commitUrl": url})

    def large(self, oid: str, size: int) -> File:
        data = self.state.objects.get(oid)
        if data is None:
            if self.state.cas is None:
                raise Refusal(400, "", f"large file {oid} was never uploaded")
            return File(None, size, oid, True)
        if self.state.corrupt:
            return File.of(self.state.corrupt(data), True)
        return File(data, len(data), oid, True)

    def on_info(self, repo: str, rev: str = "main") -> None:
        at, commit = self.repo(repo), self.repo(repo).at(rev)
        self.json(
            {
                "id": repo,
                "_id": "1",
                "author": repo.split("/")[0],
                "sha": commit.sha,
                "private": at.private,
                "disabled": False,
                "gated": False,
                "downloads": 0,
                "likes": 0,
                "tags": [],
                "siblings": [{"rfilename": path} for path in sorted(commit.files)],
            }
        )

    def on_tree(self, repo: str, rev: str, path: str = "") -> None:
        commit = self.repo(repo).at(rev)
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        recursive = query.get("recursive", ["false"])[0].lower() == "true"
        prefix = f"{path}/" if path else ""
        entries: dict[str, dict[str, Any]] = {}
        for name, file in sorted(commit.files.items()):
            if not name.startswith(prefix):
                continue
            folders = name[len(prefix) :].split("/")[:-1]
            for depth in range(1, len(folders) + 1):
                folder = prefix + "/".join(folders[:depth])
                if recursive or depth == 1:
                    entries[folder] = {"type": "directory", "path": folder, "size": 0, "oid": "0" * 40}
            if recursive or not folders:
                entries[name] = file.entry(name)
        if path and not entries:
            raise Refusal(404, "EntryNotFound")
        self.json(list(entries.values()))

    def on_paths_info(self, repo: str, rev: str) -> None:
        commit = self.repo(repo).at(rev)
        if self.headers.get("Content-Type", "").startswith("application/json"):
            paths = json.loads(self.body)["paths"]
        else:
            paths = urllib.parse.parse_qs(self.body.decode())["paths"]
        found = []
        for path in paths if isinstance(paths, list) else [paths]:
            if path in commit.files:
                found.append(commit.files[path].entry(path))
            elif any(name.startswith(f"{path}/") for name in commit.files):
                found.append({"type": "directory", "path": path, "size": 0, "oid": "0" * 40})
        self.json(found)

    def on_refs(self, repo: str) -> None:
        at = self.repo(repo)
        tags = [{"name": n, "ref": f"refs/tags/{n}", "targetCommit": s} for n, s in at.tags.items()]
        main = {"name": "main", "ref": "refs/heads/main", "targetCommit": at.head.sha}
        self.json({"branches": [main], "tags": tags, "converts": []})

    def on_tag(self, repo: str, rev: str) -> None:
        at, name = self.repo(repo), json.loads(self.body)["tag"]
        if name in at.tags:
            raise Refusal(409, "", "Tag reference exists already")
        at.tags[name] = at.at(rev).sha
        self.json({})

    def on_xet(self, repo: str, rev: str) -> None:
        self.repo(repo)
        cas = f"local://{self.state.cas}"
        self.json(
            {"accessToken": "xet", "exp": 4_000_000_000, "casUrl": cas},
            **{"X-Xet-Cas-Url": cas, "X-Xet-Access-Token": "xet", "X-Xet-Token-Expiration": "4000000000"},
        )

    def on_lfs_batch(self, repo: str) -> None:
        self.repo(repo)
        answers = []
        for one in json.loads(self.body)["objects"]:
            answer: dict[str, Any] = {"oid": one["oid"], "size": one["size"]}
            if one["oid"] not in self.state.objects:
                answer["actions"] = {
                    "upload": {"href": f"{self.state.url}/lfs/{one['oid']}"},
                    "verify": {"href": f"{self.state.url}/lfs/verify"},
                }
            answers.append(answer)
        self.json({"transfer": "basic", "objects": answers})

    def on_lfs_put(self, oid: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise Refusal(400, "", "wrong digest")
        self.state.objects[oid] = self.body
        self.reply(b"")

    def on_lfs_verify(self) -> None:
        one = json.loads(self.body)
        if len(self.state.objects.get(one["oid"], b"")) != one["size"]:
            raise Refusal(404)
        self.reply(b"")

    def on_resolve(self, repo: str, rev: str, path: str) -> None:
        commit = self.repo(repo).at(rev)
        file = commit.files.get(path)
        if file is None or file.data is None:
            raise Refusal(404, "EntryNotFound")
        headers = {
            "X-Repo-Commit": commit.sha,
            "ETag": f'"{file.sha256 if file.lfs else file.oid}"',
            "Accept-Ranges": "bytes",
        }
        data, status = file.data, 200
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, end = int(asked[1]), int(asked[2] or len(data) - 1)
            headers["Content-Range"] = f"bytes {start}-{min(end, len(data) - 1)}/{len(data)}"
            data, status = data[start : end + 1], 206
        self.reply(data, status, **{**headers, "Content-Length": str(len(data))})


def main() -> None:
    """Serve until interrupted, and say how to reach it: `python tests/schemas/loopback_hub.py`."""
    with LoopbackHub() as hub:
        print(f"export HF_ENDPOINT={hub.url} HF_TOKEN={TOKEN} HF_HUB_DISABLE_XET=1", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
