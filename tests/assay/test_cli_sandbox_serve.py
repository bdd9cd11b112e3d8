"""`assay sandbox serve`: it says where it is, runs jobs for those who may, and ends when told to."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_runs import assay, command

from sandbox import Call, Job, wire


@contextlib.contextmanager
def serving(*options: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running command, and the address that it tells."""
    process = subprocess.Popen(
        command("sandbox", "serve", "--port", 0, "--workers", 1, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "SANDBOX_TOKEN"},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+:\d+", line)
        assert found, line + process.stderr.read()
        yield process, found[0]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ask(address: str, path: str, body: object = None, token: str = "") -> tuple[int, bytes]:
    request = urllib.request.Request(address + path, None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_it_says_where_it_is_and_ends_when_told_to(number: int) -> None:
    with serving() as (process, address):
        assert ask(address, "/health")[0] == 200
        started = below(process.pid)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "")
        assert "Traceback" not in err
        assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []


def below(pid: int) -> list[int]:
    """The process ids of everything that a process has started."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (thread / "children").read_text().split()):
            found += [child, *below(child)]
    return found


def test_jobs_are_run_for_those_who_have_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    job = Job("calls", {"solution.py": "def f(x): return x + 1"}, entry="f", calls=[Call((1,))])
    body = {"job": base64.b64encode(wire.encode_job(job)).decode()}
    with serving("--token-file", tmp_path / "token") as (_, address):
        assert ask(address, "/jobs", body)[0] == 401
        assert ask(address, "/jobs", body, token="guess")[0] == 401
        code, answer = ask(address, "/jobs", body, token="s3cret")
    assert code == 200, answer
    result = wire.decode_result(base64.b64decode(json.loads(answer)["result"]))
    assert (result.status, result.outputs, result.isolation) == ("ok", [2], "namespaces")


def test_a_program_can_be_run_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret")
    (tmp_path / "p.py").write_text("print(40 + 2)")
    with serving("--token-file", tmp_path / "token") as (_, address):
        run = command("sandbox", "run", tmp_path / "p.py", "--url", address)
        told = subprocess.run(
            run, capture_output=True, text=True, env={**os.environ, "SANDBOX_TOKEN": "s3cret"}, timeout=60
        )
        without = subprocess.run(run, capture_output=True, text=True, timeout=60)
        seen = assay("sandbox", "doctor", "--url", address, "--json")
    assert (told.returncode, told.stdout) == (0, "42\n"), told.stderr
    assert told.stderr.endswith("backend remote, isolation remote\n")
    assert (without.returncode, without.stdout) == (2, "")
    assert "token" in without.stderr
    (remote,) = (one for one in json.loads(seen.out)["backends"] if one["backend"] == "remote")
    assert not remote["usable"]
    assert "token" in remote["detail"]


def refused(*options: object, says: str) -> None:
    ran = assay("sandbox", "serve", *options)
    assert (ran.code, ran.out) == (2, ""), ran.err
    assert ran.err.startswith("assay: ")
    assert ran.err.count("\n") == 1, ran.err
    assert says in ran.err


def test_other_machines_are_not_let_in_without_a_token() -> None:
    refused("--host", "0.0.0.0", "--port", 0, says="token")


def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        refused("--port", port, says=f"cannot listen at 127.0.0.1, port {port}: Address already in use")


@pytest.mark.parametrize(
    ("contents", "says"), [(None, "No such file"), ("\n", "holds no token")], ids=["missing", "empty"]
)
def test_a_token_file_without_a_token(contents: str | None, says: str, tmp_path: Path) -> None:
    if contents is not None:
        (tmp_path / "token").write_text(contents)
    refused("--token-file", tmp_path / "token", says=says)


def test_a_module_that_cannot_be_loaded_ahead() -> None:
    refused("--port", 0, "--preload", "no_such_module", says="no_such_module")
