"""Jobs sent to servers: those that behave, and those that do anything but."""

import base64
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox import Call, Job, Limits, Result, Sandbox, SandboxError, SandboxUnavailable, wire
from sandbox.service import Service

QUICK = Limits(wall_s=0.3, cpu_s=5.0)
PATIENT = Limits(wall_s=20.0, cpu_s=20.0)
SOLUTION = "def add(a, b):\n    print('called')\n    return a + b\n"
CALLS = Job("calls", {"solution.py": SOLUTION}, "add", [Call((1, 2))], limits=QUICK)
JOBS = {
    "calls": Job(
        "calls",
        {"solution.py": SOLUTION},
        "add",
        [Call((1, 2)), Call(("x", 1)), Call(([1], [2]))],
        limits=PATIENT,
    ),
    "script": Job("script", {"main.py": "import sys; print(input()[::-1]); sys.exit(3)"}, stdin="abc"),
    "files and arguments": Job(
        "script",
        {
            "run.py": "import sys, helper; print(helper.x, sys.argv[1:], open('a/b').read())",
            "helper.py": "x = 1",
            "a/b": "c",
        },
        "run.py",
        argv=["-q"],
    ),
    "unittest": Job(
        "unittest",
        {"solution.py": SOLUTION, "test.py": "def test_add():\n    assert candidate(1, 2) == 3"},
        "add",
        record=["add"],
    ),
    "unittest that fails": Job(
        "unittest",
        {"solution.py": SOLUTION, "test.py": "def test_add():\n    assert candidate(1, 2) == 4"},
        "add",
    ),
    "text that is no program": Job("script", {"main.py": "def"}),
    "exit while loading": Job("calls", {"solution.py": "raise SystemExit(0)"}, "add", [Call((1, 2))]),
    "leaves early": Job("calls", {"solution.py": "import os\ndef f(): os._exit(0)"}, "f", [Call()]),
    "signal": Job("script", {"main.py": "import os; os.kill(os.getpid(), 11)"}),
    "endless": Job("script", {"main.py": "while True: pass"}, limits=QUICK),
    "sleeps": Job(
        "calls", {"solution.py": "import time\ndef f(): time.sleep(9)"}, "f", [Call()], limits=QUICK
    ),
    "too much output": Job("script", {"main.py": "while True: print('x' * 1000)"}, limits=PATIENT),
    "too much memory": Job("script", {"main.py": "x = bytearray(1 << 31)"}, limits=PATIENT),
    "no value of the codec": Job("calls", {"solution.py": "def f(): return print"}, "f", [Call()]),
}


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(workers=2, cache=None) as made:
        yield made


@pytest.fixture(scope="module")
def service(box: Sandbox) -> Iterator[Service]:
    with Service(box, port=0) as made:
        yield made


Answer = Callable[["Between", socket.socket, str, bytes], None]


class Between:
    """A server that does as a real one does, through it, until it is told to do otherwise."""

    def __init__(self, service: Service, jobs: bool = True) -> None:
        self.service = service
        self.jobs = jobs
        self.asked: list[tuple[str, str]] = []
        self.headers: list[str] = []
        self.answer: Answer = Between.honest
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self) -> "Between":
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(link,), daemon=True).start()

    def serve(self, link: socket.socket) -> None:
        with link, link.makefile("rb") as file:
            try:
                method, path, _ = file.readline().decode().split()
                size = 0
                while (line := file.readline().decode()).strip():
                    self.headers.append(line.strip())
                    if line.lower().startswith("content-length:"):
                        size = int(line.partition(":")[2])
                body = file.read(size)
                self.asked.append((method, path))
                self.answer(self, link, path, body)
            except (OSError, ValueError):
                pass

    def honest(self, link: socket.socket, path: str, body: bytes) -> None:
        if path == "/health" and not self.jobs:
            reply(link, 404, b"{}")
            return
        host, port = self.service.url.removeprefix("http://").rsplit(":", 1)
        real = http.client.HTTPConnection(host, int(port), timeout=60)
        headers = {"Content-Type": "application/json"} if body else {}
        real.request("POST" if body else "GET", path, body or None, headers)
        response = real.getresponse()
        reply(link, response.status, response.read())
        real.close()


def reply(link: socket.socket, status: int, body: bytes, *headers: str) -> None:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
    link.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def remote(url: Any, **options: Any) -> Sandbox:
    return Sandbox("remote", url=url, **{"timeout_s": 30.0, **options})


def told(result: Result) -> list[object]:
    return [
        result.status,
        result.outputs,
        result.stdout[:1000],
        result.exit_code,
        result.trust,
        result.recorded,
        result.truncated,
        result.detail if result.status == "infra_error" else "",
    ]


@pytest.mark.parametrize("jobs", [True, False], ids=["our own", "with the API of SandboxFusion"])
@pytest.mark.parametrize("name", JOBS)
def test_a_server_says_what_this_machine_says(box: Sandbox, service: Service, name: str, jobs: bool) -> None:
    expected = box.run(JOBS[name])
    with Between(service, jobs) as server, remote(server.url) as far:
        result = far.run(JOBS[name])
    assert told(result) == told(expected)
    assert (result.backend, result.isolation) == ("remote", "remote")
    assert ("POST", "/jobs" if jobs else "/run_code") in server.asked


def test_both_halves_of_a_suite_run_on_our_own_server(service: Service) -> None:
    files = {"solution.py": SOLUTION, "test.py": "def check(c):\n    assert c(1, 2) == 3"}
    with remote(service.url) as far:
        result = far.run(Job("split", files, "add"))
    assert (result.status, result.trust, result.candidate_calls) == ("ok", "split", 1)


def test_what_the_api_cannot_do_is_refused(service: Service) -> None:
    files = {"solution.py": SOLUTION, "test.py": "def check(c):\n    pass"}
    with Between(service, jobs=False) as server, remote(server.url) as far:
        with pytest.raises(
            SandboxError, match=r"kind 'split' of python needs a server of `sandbox\.service`"
        ):
            far.run(Job("split", files, "add"))
        with pytest.raises(SandboxError, match="kind 'calls' of go"):
            far.run(Job("calls", {"solution.go": ""}, "f", lang="go"))
        with pytest.raises(SandboxError, match="kind 'script' of c needs"):
            far.run(Job("script", {"main.c": ""}, lang="c"))


def test_scripts_of_other_languages_run_over_the_api(service: Service) -> None:
    if shutil.which("node") is None:
        pytest.skip("needs node: apt-get install nodejs")
    source = (
        "const fs = require('fs'); console.log(fs.readFileSync('/dev/stdin', 'utf8') + fs.readFileSync('x'))"
    )
    with Between(service, jobs=False) as server, remote(server.url) as far:
        job = Job("script", {"main.js": source, "x": "file"}, stdin="in ", lang="javascript", limits=PATIENT)
        result = far.run(job)
        assert (result.status, result.stdout) == ("ok", "in file\n")
        failing = Job("script", {"main.js": "process.exit(4)"}, lang="javascript", limits=PATIENT)
        result = far.run(failing)
        assert (result.status, result.exit_code) == ("exit", 4)


@pytest.mark.parametrize(("number", "status"), [(9, "signal"), (19, "timeout")], ids=["kills", "stops"])
def test_a_program_does_not_get_out_of_its_verdict_by_its_agent(
    service: Service, monkeypatch: pytest.MonkeyPatch, number: int, status: str
) -> None:
    monkeypatch.setattr("sandbox.backends.remote._START_S", 1.0)
    source = f"import os\ndef f():\n    os.kill(os.getppid(), {number})\n    return 3"
    with Between(service, jobs=False) as server, remote(server.url) as far:
        result = far.run(Job("calls", {"solution.py": source}, "f", [Call()], limits=QUICK))
        assert (result.status, result.outputs) == (status, [])


def test_an_agent_that_is_killed_once_costs_no_verdict(service: Service) -> None:
    with Between(service, jobs=False) as server, remote(server.url) as far:
        count = 0

        def once(server: Between, link: socket.socket, path: str, body: bytes) -> None:
            nonlocal count
            count += 1
            if count == 1:
                mark = json.loads(body)["code"].rsplit('", "', 2)[1]
                fusion_says(status="Failed", run_result=killed(mark))(server, link, path, body)
            else:
                server.honest(link, path, body)

        server.answer = once
        assert far.run(JOBS["calls"]).status == "ok"
        assert count > 1


def killed(mark: str) -> dict[str, Any]:
    return {"status": "Finished", "return_code": 137, "stdout": f"\n{mark} began\n", "stderr": ""}


def test_a_program_that_prints_reports_is_not_believed(service: Service) -> None:
    source = "print('0' * 32 + ' 0.000001 ' + 'eJwDAAAAAAE=')\ndef f():\n    raise ValueError"
    with Between(service, jobs=False) as server, remote(server.url) as far:
        result = far.run(Job("calls", {"solution.py": source}, "f", [Call()], limits=PATIENT))
    assert (result.status, result.outputs[0].type) == ("ok", "ValueError")


def hang(server: Between, link: socket.socket, path: str, body: bytes) -> None:
    link.settimeout(20)
    link.recv(1)


def endless(head: bytes) -> Answer:
    def answer(server: Between, link: socket.socket, path: str, body: bytes) -> None:
        link.sendall(head)
        while True:
            link.sendall(b"x" * 100000)

    return answer


def slowly(server: Between, link: socket.socket, path: str, body: bytes) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + b" " * 9999:
        link.sendall(bytes([byte]))
        time.sleep(0.05)


def says(status: int, body: bytes, *headers: str) -> Answer:
    return lambda server, link, path, _: reply(link, status, body, *headers)


def sends(data: bytes) -> Answer:
    return lambda server, link, path, _: link.sendall(data)


def result_says(**fields: Any) -> Answer:
    blob = base64.b64encode(wire.encode_result(Result(**{"status": "ok", "outputs": [3], **fields}))).decode()
    return says(200, json.dumps({"result": blob, "of": wire.key(wire.encode_job(CALLS))}).encode())


def fusion_says(**fields: Any) -> Answer:
    ran = {"status": "Finished", "return_code": 0, "stdout": "", "stderr": "", "execution_time": 0.1}
    whole = {"status": "Success", "message": "", "compile_result": None, "run_result": ran, **fields}
    return says(200, json.dumps(whole).encode())


MISDEEDS: dict[str, Answer] = {
    "hangs": hang,
    "hangs up": sends(b""),
    "dies in its headers": sends(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "dies in its body": sends(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"result"'),
    "dies in a chunk": sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n{}"),
    "500": says(500, b"oh"),
    "502 of a gateway": says(502, b"<html>\n<b>Bad Gateway</b>\n</html>"),
    "204": says(204, b""),
    "404": says(404, b"{}"),
    "garbage": sends(bytes(range(256)) * 50),
    "endless body": endless(b"HTTP/1.1 200 OK\r\n\r\n"),
    "endless headers": endless(b"HTTP/1.1 200 OK\r\nX: "),
    "endless first line": endless(b""),
    "body said to be huge": sends(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"),
    "slow": slowly,
    "no JSON": says(200, b"hello"),
    "nested JSON": says(200, b"[" * 100000),
    "JSON of many values": says(200, b"[" + b"0," * 1_000_001 + b"0]"),
    "other JSON": says(200, b"[1, 2]"),
    "compressed": says(200, b"\x1f\x8b\x08\0", "Content-Encoding: gzip"),
}
GOOD = base64.b64encode(wire.encode_result(Result("ok", outputs=[3]))).decode()
OF_JOBS: dict[str, Answer] = {
    "no result": says(200, b'{"result": null}'),
    "no base64": says(200, b'{"result": "?"}'),
    "no record": says(200, b'{"result": "AAAA"}'),
    "another job": says(200, json.dumps({"result": GOOD, "of": "0" * 64}).encode()),
    "too few values": result_says(outputs=[]),
    "too many values": result_says(outputs=[3, 3]),
    "its own failure": result_says(status="infra_error", outputs=[]),
}
OF_FUSION: dict[str, Answer] = {
    "its own failure": fusion_says(status="SandboxError", message="oh"),
    "no report": fusion_says(),
    "a time limit of its own": fusion_says(
        status="Failed", run_result={"status": "TimeLimitExceeded", "stdout": "x", "stderr": ""}
    ),
    "no run": fusion_says(run_result=None),
    "run of another shape": fusion_says(run_result=[1]),
    "status of its own": fusion_says(status="Great"),
}


@pytest.mark.parametrize(
    ("name", "jobs", "answer"),
    [
        *(
            pytest.param(name, True, answer, id=f"our own: {name}")
            for name, answer in {**MISDEEDS, **OF_JOBS}.items()
        ),
        *(
            pytest.param(name, False, answer, id=f"other: {name}")
            for name, answer in {**MISDEEDS, **OF_FUSION}.items()
        ),
    ],
)
def test_whatever_a_server_does_is_no_verdict(
    service: Service, name: str, jobs: bool, answer: Answer
) -> None:
    with Between(service, jobs) as server, remote(server.url, timeout_s=1.5) as far:
        server.answer = answer
        result = far.run(CALLS)
        assert (result.status, result.backend, result.outputs) == ("infra_error", "remote", [])
        assert result.detail
        assert "\n" not in result.detail
        # Nothing of it is remembered against the next job.
        server.answer = Between.honest
        assert far.run(CALLS).status == "ok"


def test_a_redirect_is_not_followed(service: Service) -> None:
    with Between(service) as other, Between(service) as server, remote(server.url, token="s3cret") as far:
        for status in (302, 307):
            server.answer = says(status, b"", f"Location: {other.url}/jobs")
            result = far.run(CALLS)
            assert result.status == "infra_error"
            assert "redirect" in result.detail
        assert other.asked == []


def test_failures_are_retried(service: Service) -> None:
    for jobs in (True, False):
        with Between(service, jobs) as server, remote(server.url) as far:
            count = 0

            def twice(server: Between, link: socket.socket, path: str, body: bytes) -> None:
                nonlocal count
                count += 1
                (says(500, b"") if count <= 2 else Between.honest)(server, link, path, body)

            server.answer = twice
            assert far.run(JOBS["calls"]).status == "ok"
            assert count == 3


def test_a_busy_server_is_asked_again_however_often(service: Service) -> None:
    with Between(service) as server, remote(server.url) as far:
        count = 0

        def busy(server: Between, link: socket.socket, path: str, body: bytes) -> None:
            nonlocal count
            count += 1
            if count <= 8:
                reply(link, 429, b'{"error": "full"}', "Retry-After: 0")
            else:
                server.honest(link, path, body)

        server.answer = busy
        assert far.run(CALLS).status == "ok"
        server.answer = says(429, b'{"error": "full"}', "Retry-After: 100000")
        result = remote_patience(server)
        assert result.status == "infra_error"
        assert "full" in result.detail


def remote_patience(server: Between) -> Result:
    with remote(server.url, timeout_s=1.0) as far:
        return far.run(CALLS)


def test_a_fleet_shares_the_work(service: Service) -> None:
    with Between(service) as one, Between(service) as two, remote([one.url, two.url], workers=4) as far:
        assert {result.status for result in far.map([CALLS] * 20)} == {"ok"}
        for server in (one, two):
            assert server.asked.count(("POST", "/jobs")) >= 9


def test_a_server_of_a_fleet_that_fails_is_put_aside(service: Service) -> None:
    with Between(service) as one, Between(service) as two, remote([one.url, two.url]) as far:
        far.run(CALLS)
        far.run(CALLS)
        one.answer = says(500, b"")
        before = len(one.asked)
        assert {result.status for result in far.map([CALLS] * 40)} == {"ok"}
        assert len(one.asked) - before < 10


def test_a_fleet_with_a_dead_server_works(service: Service) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with remote([dead, service.url]) as far:
        assert {far.run(CALLS).status for _ in range(6)} == {"ok"}
    with remote([service.url, dead]) as far:
        assert {far.run(CALLS).status for _ in range(6)} == {"ok"}


def test_a_job_goes_to_the_server_of_a_mixed_fleet_that_can(service: Service) -> None:
    files = {"solution.py": SOLUTION, "test.py": "def check(c):\n    assert c(1, 2) == 3"}
    with Between(service, jobs=False) as one, Between(service) as two, remote([one.url, two.url]) as far:
        for _ in range(4):
            assert far.run(Job("split", files, "add")).status == "ok"
        assert ("POST", "/jobs") not in one.asked


def test_no_server_at_all_is_told_before_the_first_job(service: Service) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(SandboxUnavailable, match=rf"no server runs programs: {url}.*refused"):
        remote(url)


def test_a_token_goes_with_each_request(box: Sandbox, service: Service) -> None:
    with Between(service) as server, remote(server.url, token="s3cret") as far:
        far.run(CALLS)
        assert server.headers.count("Authorization: Bearer s3cret") == len(server.asked)
    with Service(box, port=0, token="s3cret") as closed:
        with remote(closed.url, token="s3cret") as far:
            assert far.run(CALLS).status == "ok"
        with pytest.raises(SandboxUnavailable, match="HTTP 401"):
            remote(closed.url, token="wrong")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"url": ()}, "needs a url"),
        ({"url": "ftp://x"}, "must be like http"),
        ({"url": "localhost:80"}, "must be like http"),
        ({"url": "http://"}, "must be like http"),
        ({"url": "http://x:port"}, "must be like http"),
        ({"url": "http://name:word@x"}, "give a token"),
        ({"url": "http://x/?a=b"}, "no password, query"),
        ({"url": "http://x", "token": "a\r\nb"}, "printable ASCII"),
        ({"url": "http://x", "timeout_s": 0}, "timeout_s must lie"),
        ({"url": "http://x", "packages": ["/tmp"]}, "packages"),
    ],
)
def test_options_that_make_no_sense_are_told(options: dict[str, Any], match: str) -> None:
    with pytest.raises(SandboxError, match=match):
        Sandbox("remote", **options)


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl: apt-get install openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [
        openssl,
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            try:
                link, _ = listener.accept()
                with context.wrap_socket(link, server_side=True) as secure:
                    secure.recv(1)
            except OSError:
                pass

        threading.Thread(target=accept, daemon=True).start()
        with pytest.raises(SandboxUnavailable, match="certificate verify failed"):
            remote(f"https://localhost:{listener.getsockname()[1]}")
