"""The HTTP service: what it answers, and that no client harms it."""

import base64
import dataclasses
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox import Call, ErrorRecord, Job, Limits, RecordedCall, Result, Sandbox, SandboxError, codec, wire
from sandbox.service import MOST, Service, main

ROOT = Path(__file__).parents[2]
SOLUTION = "def add(a, b):\n    return a + b\n"
CALLS = Job("calls", {"solution.py": SOLUTION}, "add", [Call((1, 2)), Call((1, "x"))])
SPLIT = Job("split", {"solution.py": SOLUTION, "test.py": "def check(c):\n    assert c(1, 2) == 3"}, "add")


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(workers=2, cache=None) as made:
        yield made


@pytest.fixture(scope="module")
def service(box: Sandbox) -> Iterator[Service]:
    with Service(box, port=0) as made:
        yield made


def ask(
    service: Service, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], Any]:
    host, port = service.url.removeprefix("http://").rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            named.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, named)
        response = connection.getresponse()
        data = response.read()
        kind = response.headers.get_content_type()
        told = json.loads(data) if kind == "application/json" else data.decode()
        return response.status, dict(response.headers), told
    finally:
        connection.close()


def run_code(service: Service, **fields: Any) -> Any:
    request = {"code": "print(1)", "language": "python", **fields}
    status, _, answer = ask(service, "POST", "/run_code", json.dumps(request).encode())
    assert status == 200, answer
    return answer


def run_job(service: Service, job: Job) -> Result:
    body = json.dumps({"job": base64.b64encode(wire.encode_job(job)).decode()}).encode()
    status, _, answer = ask(service, "POST", "/jobs", body)
    assert status == 200, answer
    return wire.decode_result(base64.b64decode(answer["result"]))


@pytest.mark.parametrize(
    ("fields", "status", "run"),
    [
        pytest.param({"code": "print(input())", "stdin": "hi"}, "Success", ("Finished", 0, "hi\n"), id="ok"),
        pytest.param({"code": "import sys; sys.exit(3)"}, "Failed", ("Finished", 3, ""), id="exit"),
        pytest.param({"code": "1 / 0"}, "Failed", ("Finished", 1, ""), id="exception"),
        pytest.param({"code": "def"}, "Failed", ("Finished", 1, ""), id="text that is no program"),
        pytest.param(
            {"code": "import os; os.kill(os.getpid(), 11)"}, "Failed", ("Finished", -11, ""), id="signal"
        ),
        pytest.param(
            {"code": "while True: pass", "run_timeout": 0.5},
            "Failed",
            ("TimeLimitExceeded", None, ""),
            id="endless",
        ),
        pytest.param(
            {"code": "print(len(bytearray(1 << 30)))", "memory_limit_MB": 64},
            "Failed",
            ("Finished", 1, ""),
            id="memory",
        ),
        pytest.param(
            {
                "code": "import helper; print(open('data/x').read(), helper.y)",
                "files": {
                    "data/x": base64.b64encode(b"text").decode(),
                    "helper.py": base64.b64encode(b"y = 5").decode(),
                    "left-out": None,
                },
            },
            "Success",
            ("Finished", 0, "text 5\n"),
            id="files",
        ),
    ],
)
def test_run_code_answers_as_sandboxfusion_does(
    service: Service, fields: dict[str, Any], status: str, run: tuple[str, int | None, str]
) -> None:
    answer = run_code(service, **fields)
    ran = answer["run_result"]
    assert (answer["status"], answer["compile_result"], answer["files"]) == (status, None, {})
    assert (ran["status"], ran["return_code"], ran["stdout"]) == run


def test_a_program_that_does_not_compile_was_not_run(service: Service) -> None:
    answer = run_code(service, language="cpp", code="int main() { return x; }")
    if answer["status"] == "SandboxError":
        pytest.skip("needs g++: apt-get install g++")
    assert (answer["status"], answer["run_result"]) == ("Failed", None)
    assert answer["compile_result"]["return_code"] == 1
    assert "x" in answer["compile_result"]["stderr"]
    assert (
        run_code(service, language="cpp", code="int main() { return 4; }")["run_result"]["return_code"] == 4
    )


@pytest.mark.parametrize("job", [CALLS, SPLIT], ids=["calls", "split"])
def test_jobs_come_to_what_they_come_to_here(service: Service, box: Sandbox, job: Job) -> None:
    result, expected = run_job(service, job), box.run(job)
    for name in ("status", "outputs", "trust", "candidate_calls", "isolation", "exit_code"):
        assert getattr(result, name) == getattr(expected, name)


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "said"),
    [
        pytest.param("GET", "/", None, {}, 404, "no GET / here", id="no such page"),
        pytest.param("GET", "/run_code", None, {}, 404, "no GET /run_code here", id="wrong method"),
        pytest.param("PUT", "/run_code", b"{}", {}, 501, "Unsupported method", id="unknown method"),
        pytest.param("POST", "/jobs", b"{", {}, 400, "no JSON", id="no JSON"),
        pytest.param("POST", "/jobs", b"\xff\xfe", {}, 400, "no JSON", id="no text"),
        pytest.param("POST", "/jobs", b"[" * 100000, {}, 400, "no JSON", id="nested"),
        pytest.param("POST", "/jobs", b"[" + b"0," * 1000000 + b"0]", {}, 413, "too many", id="many values"),
        pytest.param("POST", "/jobs", b"[]", {}, 400, "must be a JSON object", id="no object"),
        pytest.param("POST", "/jobs", b'{"job": 1}', {}, 400, "the body must be", id="no blob"),
        pytest.param("POST", "/jobs", b'{"job": "?"}', {}, 400, "the job: ", id="no base64"),
        pytest.param("POST", "/jobs", b'{"job": "AAAA"}', {}, 400, "the job: ", id="no job"),
        pytest.param(
            "POST", "/jobs", b"{}", {"Content_Type": "text/plain"}, 415, "application/json", id="type"
        ),
        pytest.param("POST", "/jobs", b"{}", {"Origin": "http://x"}, 403, "browsers", id="browser"),
        pytest.param("POST", "/jobs", b"x" * (2 << 20), {}, 413, "a body of", id="large"),
        pytest.param("POST", "/run_code", b'{"code": "1"}', {}, 400, "language", id="no language"),
        pytest.param(
            "POST", "/run_code", b'{"code": "1", "language": "lua"}', {}, 400, "'lua' is none of", id="lua"
        ),
        pytest.param(
            "POST",
            "/run_code",
            b'{"code": "1", "language": "python", "run_timeout": NaN}',
            {},
            400,
            "run_timeout must be",
            id="no number",
        ),
        pytest.param(
            "POST",
            "/run_code",
            b'{"code": "1", "language": "python", "run_timeout": 1e9}',
            {},
            400,
            "at most here",
            id="too long",
        ),
        pytest.param(
            "POST",
            "/run_code",
            b'{"code": "1", "language": "python", "files": {"../x": ""}}',
            {},
            400,
            "not a relative path",
            id="path",
        ),
        pytest.param(
            "POST",
            "/run_code",
            b'{"code": "1", "language": "python", "files": {"x": "/w=="}}',
            {},
            400,
            "not text in base64",
            id="binary file",
        ),
        pytest.param(
            "POST",
            "/run_code",
            b'{"code": "1", "language": "python", "fetch_files": ["x"]}',
            {},
            400,
            "fetch_files",
            id="files to fetch",
        ),
    ],
)
def test_what_makes_no_sense_gets_one_clear_line(
    box: Sandbox, method: str, path: str, body: bytes, headers: dict[str, str], status: int, said: str
) -> None:
    with Service(box, port=0, max_body_mb=3 if status == 413 and body[:1] == b"[" else 1) as service:
        code, _, answer = ask(service, method, path, body, **headers)
        assert (code, list(answer)) == (status, ["error"])
        assert said in answer["error"]
        assert "\n" not in answer["error"]
        assert ask(service, "GET", "/health")[0] == 200


def test_a_job_that_asks_for_more_than_is_given_is_refused(service: Service) -> None:
    job = Job("script", {"main.py": ""}, limits=Limits(memory_mb=MOST.memory_mb + 1))
    body = json.dumps({"job": base64.b64encode(wire.encode_job(job)).decode()}).encode()
    status, _, answer = ask(service, "POST", "/jobs", body)
    assert status == 400
    assert answer["error"] == "limits.memory_mb 4097 is more than 4096, the most here"


def raw(service: Service, data: bytes, wait_s: float = 20.0) -> bytes:
    host, port = service.url.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=wait_s) as link:
        try:
            link.sendall(data)
            link.shutdown(socket.SHUT_WR)
            parts = []
            while part := link.recv(1 << 16):
                parts.append(part)
        except ConnectionError:
            pass
        return b"".join(parts)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST /jobs HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{}", b"411"),
        (
            b"POST /jobs HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Length: 2\r\n\r\n{}",
            b"411",
        ),
        (b"POST /jobs HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: -1\r\n\r\n{}", b"400"),
        (
            b"POST /jobs HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
            b"Content-Length: 3\r\n\r\n{}",
            b"400",
        ),
        (b"POST /jobs HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{}", b"400"),
        (b"GET " + b"/x" * 40000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"431"),
        (b"GET / HTTP/9.9\r\n\r\n", b"505"),
    ],
    ids=["no length", "chunked", "negative", "two lengths", "cut", "long line", "many headers", "version"],
)
def test_a_request_that_is_no_http_is_answered_and_ended(
    service: Service, data: bytes, status: bytes
) -> None:
    said = raw(service, data)
    assert said.split(b" ")[1] == status
    assert b'{"error": ' in said


@given(st.binary(max_size=300))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_harm_the_service(service: Service, data: bytes) -> None:
    raw(service, data)
    assert ask(service, "GET", "/health")[2]["ok"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
NAMES = st.sampled_from(["code", "language", "stdin", "files", "run_timeout", "memory_limit_MB", "x"])


@given(sent=st.dictionaries(NAMES, JSON))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_request_gets_anything_but_an_answer(service: Service, sent: dict[str, Any]) -> None:
    whole = {"code": "print(1)", "language": "python", **sent}
    status, _, answer = ask(service, "POST", "/run_code", json.dumps(whole).encode())
    assert status in (200, 400)
    assert "error" in answer or answer["status"] in ("Success", "Failed")


@given(st.binary(max_size=200))
def test_bytes_that_are_no_job_and_no_result_are_refused(data: bytes) -> None:
    for decode in (wire.decode_job, wire.decode_result):
        with pytest.raises(ValueError):
            decode(data)


FIELDS = sorted({field.name for record in (Job, Result) for field in dataclasses.fields(record)})


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_records_of_wrong_types_are_refused(fields: dict[str, Any]) -> None:
    try:
        data = codec.encode({"kind": "script", "files": {"main.py": ""}, "status": "ok", **fields})
    except codec.EncodeError:
        return
    for decode in (wire.decode_job, wire.decode_result):
        with pytest.raises(ValueError):
            decode(data)


def test_jobs_and_results_come_back_equal() -> None:
    job = Job(
        "calls",
        {"solution.py": SOLUTION},
        "add",
        [Call(({1: (2,)}, [None]), {"x": {3.5}})],
        stdin="\ud800",
        record=("add",),
        hash_seed=None,
        limits=Limits(wall_s=1.5),
    )
    assert wire.encode_job(wire.decode_job(wire.encode_job(job))) == wire.encode_job(job)
    result = Result(
        "ok",
        outputs=[1, ErrorRecord("own.X", "no", raised=False), ("v", None)],
        recorded=[
            RecordedCall("add", (1,), {"b": 2}, error=ErrorRecord("E", "m")),
            RecordedCall("f", (), {}, 3),
        ],
        wall_s=1,
        exit_code=0,
    )
    assert wire.decode_result(wire.encode_result(result)) == result


def test_a_token_is_asked_for(box: Sandbox) -> None:
    with Service(box, port=0, token="s3cret") as service:
        for sent in ({}, {"Authorization": "Bearer s3cre"}, {"Authorization": "s3cret"}):
            status, headers, _ = ask(service, "POST", "/jobs", b"{}", **sent)
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
            assert ask(service, "GET", "/metrics", **sent)[0] == 401
        assert ask(service, "GET", "/health")[0] == 200
        assert ask(service, "POST", "/jobs", b"{}", Authorization="Bearer s3cret")[0] == 400


def test_other_machines_are_let_in_with_a_token_only(box: Sandbox) -> None:
    with pytest.raises(SandboxError, match="give a token"):
        Service(box, host="0.0.0.0", port=0)
    with pytest.raises(SandboxError, match="token is empty"):
        Service(box, port=0, token=" ")
    Service(box, host="0.0.0.0", port=0, token="x").stop()
    Service(box, host="0.0.0.0", port=0, public=True).stop()


def sleeper(seconds: float) -> bytes:
    code = f"import time; time.sleep({seconds})"
    return json.dumps({"code": code, "language": "python", "run_timeout": 60}).encode()


def until(what: Any) -> None:
    for _ in range(600):
        if what():
            return
        time.sleep(0.05)
    pytest.fail("it did not come to that")


def test_a_full_queue_asks_to_come_back_later(box: Sandbox) -> None:
    with Service(box, port=0, queue=1) as service:
        told: list[int] = []

        def send() -> None:
            told.append(ask(service, "POST", "/run_code", sleeper(2))[0])

        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: service.admitted == 3)
        status, headers, answer = ask(service, "POST", "/run_code", sleeper(0))
        assert (status, headers["Retry-After"]) == (429, "1")
        assert "queue is full" in answer["error"]
        assert "sandbox_jobs_waiting 1\n" in ask(service, "GET", "/metrics")[2]
        for thread in threads:
            thread.join()
        assert told == [200] * 3
        assert ask(service, "POST", "/run_code", sleeper(0))[0] == 200
        assert service.refused == 1


def test_stopping_finishes_what_is_under_way(box: Sandbox) -> None:
    service = Service(box, port=0)
    told: list[Any] = []
    thread = threading.Thread(target=lambda: told.append(ask(service, "POST", "/run_code", sleeper(1))))
    thread.start()
    until(lambda: service.running)
    service.stop()
    thread.join()
    assert (told[0][0], told[0][2]["status"]) == (200, "Success")
    with pytest.raises(OSError):
        ask(service, "GET", "/health")


def test_a_client_that_says_nothing_holds_up_nobody(box: Sandbox) -> None:
    with Service(box, port=0) as service:
        host, port = service.url.removeprefix("http://").rsplit(":", 1)
        idle = [socket.create_connection((host, int(port))) for _ in range(20)]
        half = socket.create_connection((host, int(port)))
        half.sendall(b"POST /jobs HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
        assert run_code(service)["status"] == "Success"
        for link in (*idle, half):
            link.close()
        until(lambda: service.admitted == 0)


def test_a_client_that_leaves_costs_only_its_own_job(box: Sandbox) -> None:
    with Service(box, port=0) as service:
        host, port = service.url.removeprefix("http://").rsplit(":", 1)
        body = sleeper(0.5)
        for _ in range(4):
            with socket.create_connection((host, int(port))) as link:
                head = "POST /run_code HTTP/1.1\r\nContent-Type: application/json\r\n"
                link.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert run_code(service)["status"] == "Success"
        until(lambda: service.admitted == 0)


def test_what_was_done_is_counted(box: Sandbox) -> None:
    with Service(box, port=0) as service:
        run_code(service)
        run_code(service, code="1 / 0")
        told = ask(service, "GET", "/metrics")[2]
    assert 'sandbox_jobs_total{status="ok"} 1\n' in told
    assert 'sandbox_jobs_total{status="exception"} 1\n' in told
    assert "sandbox_jobs_running 0\n" in told


def test_a_signal_stops_the_command_after_its_jobs() -> None:
    command = [sys.executable, "-m", "sandbox.service", "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        url = line.split()[3].rstrip(",")
        service: Any = type("", (), {"url": url})()
        told: list[Any] = []
        thread = threading.Thread(target=lambda: told.append(ask(service, "POST", "/run_code", sleeper(1))))
        thread.start()
        until(lambda: "sandbox_jobs_running 1\n" in ask(service, "GET", "/metrics")[2])
        process.send_signal(signal.SIGTERM)
        thread.join()
        assert told[0][2]["status"] == "Success"
        assert process.wait(30) == 0


def test_an_address_that_is_taken_is_told(capsys: pytest.CaptureFixture[str], service: Service) -> None:
    port = service.url.rsplit(":", 1)[1]
    before = signal.getsignal(signal.SIGTERM), len(os.listdir("/proc/self/fd"))
    assert main(["--port", port, "--workers", "1"]) == 2
    assert "in use" in capsys.readouterr().err
    assert (signal.getsignal(signal.SIGTERM), len(os.listdir("/proc/self/fd"))) == before
