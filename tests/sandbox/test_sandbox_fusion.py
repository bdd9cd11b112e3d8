"""What servers with the API of SandboxFusion say, and what it means here."""

import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import Call, Job, Limits, Sandbox, fusion

PATIENT = Limits(wall_s=20.0, cpu_s=20.0)


class Bare(BaseHTTPRequestHandler):
    """A server that runs programs as they are, without a sandbox of its own, as SandboxFusion may."""

    # "gives" files, "refuses" to, or "forgets" them
    files = "gives"

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if request["fetch_files"] and self.files == "refuses":
            self.send_error(400)
            return
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "program.py")
            program.write_text(request["code"])
            done = subprocess.run([sys.executable, str(program)], cwd=folder, capture_output=True)
            found = {
                name: base64.b64encode(Path(folder, name).read_bytes()).decode()
                for name in request["fetch_files"]
                if Path(folder, name).is_file() and self.files == "gives"
            }
        status = "Failed" if done.returncode else "Success"
        run = ran(return_code=done.returncode, stdout=done.stdout.decode(), stderr=done.stderr.decode())
        body = json.dumps({"status": status, "message": "", "run_result": run, "files": found}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def bare() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Bare) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("files", ["gives", "refuses"])
@pytest.mark.parametrize("size", [10, 100_000, 2_000_000])
def test_reports_of_any_size_come_back(
    bare: str, monkeypatch: pytest.MonkeyPatch, files: str, size: int
) -> None:
    monkeypatch.setattr(Bare, "files", files)
    source = "import random\ndef f(size):\n    print('noise')\n    return random.Random(1).randbytes(size)"
    with Sandbox("remote", url=bare) as far:
        result = far.run(Job("calls", {"solution.py": source}, "f", [Call((size,))], limits=PATIENT))
    assert (result.status, result.stdout, len(result.outputs[0])) == ("ok", "noise\n", size)


def test_a_report_that_was_forgotten_is_no_verdict(bare: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bare, "files", "forgets")
    source = "import os\ndef f():\n    return os.urandom(1 << 20)"
    with Sandbox("remote", url=bare) as far:
        result = far.run(Job("calls", {"solution.py": source}, "f", [Call()], limits=PATIENT))
    assert (result.status, result.outputs) == ("infra_error", [])


@pytest.mark.parametrize("sleep", [0, 60])
def test_an_agent_leaves_no_process_on_its_server(bare: str, sleep: int) -> None:
    mark = f"left-by-an-agent-{os.getpid()}-{sleep}"
    source = f"""
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("{mark}", "w").close()
        os.execv({sys.executable!r}, [{mark!r}, "-c", "import time; time.sleep(600)"])
while not os.path.exists("{mark}"):
    time.sleep(0.01)
time.sleep({sleep})
"""
    with Sandbox("remote", url=bare) as far:
        result = far.run(Job("script", {"main.py": source}, limits=Limits(wall_s=2.0)))
    assert result.status == ("timeout" if sleep else "ok")
    for _ in range(100):
        if not any(mark in command for command in commands()):
            return
        time.sleep(0.1)
    pytest.fail("it is still there")


def commands() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_text(errors="replace")
        except OSError:
            continue


@pytest.mark.parametrize(
    ("source", "limits", "status"),
    [
        ("import time\na = [bytearray(90 << 20)]\ntime.sleep(9)", {"memory_mb": 32}, "memory_limit"),
        (
            "import os, time\nfor _ in range(8): os.fork() or (bytearray(60 << 20), time.sleep(9))[0]\n"
            "held = bytearray(60 << 20)\ntime.sleep(9)",
            {"memory_mb": 128},
            "memory_limit",
        ),
        ("import os, time\nfor _ in range(5): os.fork()\ntime.sleep(9)", {"processes": 4}, "proc_limit"),
        (
            "import threading, time\n"
            "for _ in range(14): threading.Thread(target=time.sleep, args=(1,)).start()",
            {"processes": 16},
            "ok",
        ),
        ("import os\nos.fork()\nwhile True: pass", {"cpu_s": 1.0}, "cpu_limit"),
        ("open('x', 'wb').write(bytes(2 << 20))", {"file_mb": 1}, "exception"),
    ],
    ids=["memory", "memory of many", "processes", "threads", "processor", "file"],
)
def test_an_agent_holds_a_program_to_its_limits(
    bare: str, source: str, limits: dict[str, Any], status: str
) -> None:
    with Sandbox("remote", url=bare) as far:
        result = far.run(Job("script", {"main.py": source}, limits=Limits(wall_s=15.0, **limits)))
    assert result.status == status


def ran(**fields: Any) -> dict[str, Any]:
    return {
        "status": "Finished",
        "return_code": 0,
        "stdout": "",
        "stderr": "",
        "execution_time": 0.5,
        **fields,
    }


GO = Job("script", {"main.go": ""}, lang="go", limits=Limits(output_kb=1))


@pytest.mark.parametrize(
    ("answer", "status", "detail"),
    [
        ({"status": "Success", "run_result": ran(stdout="x")}, "ok", ""),
        ({"status": "Failed", "run_result": ran(return_code=7)}, "exit", "exit status 7"),
        ({"status": "Failed", "run_result": ran(return_code=-11)}, "signal", "killed by SIGSEGV"),
        (
            {"status": "Failed", "run_result": ran(status="TimeLimitExceeded", return_code=None)},
            "timeout",
            "wall clock limit of 5 s",
        ),
        (
            {"status": "Success", "run_result": ran(stdout="x" * 1025)},
            "output_limit",
            "more than 1 KiB of output",
        ),
        ({"status": "Failed", "compile_result": ran(return_code=2, stderr="bad\n")}, "compile_error", "bad"),
        (
            {"status": "Failed", "compile_result": ran(status="TimeLimitExceeded", return_code=None)},
            "compile_error",
            "the compiler: timeout",
        ),
        ({"status": "SandboxError", "message": "no\nroom"}, "infra_error", "the server failed: no room"),
        (
            {
                "status": "Failed",
                "compile_result": ran(return_code=127, stderr="bash: go: command not found\n"),
            },
            "infra_error",
            "the server lacks a tool: bash: go: command not found",
        ),
        ({"status": "Failed", "run_result": ran(status="Error")}, "infra_error", "the program was not run:"),
    ],
)
def test_statuses_of_the_api_become_ours(answer: dict[str, Any], status: str, detail: str) -> None:
    result = fusion.result_of(GO, answer)
    assert (result.status, result.detail.strip()) == (status, detail)


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "Success"},
        {"status": "Success", "run_result": ran(return_code=1)},
        {"status": "Failed", "run_result": ran()},
        {"status": "Success", "run_result": ran(return_code=None)},
        {"status": "Success", "run_result": ran(execution_time=-1)},
        {"status": "Success", "run_result": ran(stdout=3)},
        {"status": "Success", "run_result": ran(return_code=10**30)},
        {"run_result": ran()},
        [],
        None,
    ],
)
def test_an_answer_that_makes_no_sense_is_none(answer: Any) -> None:
    with pytest.raises(ValueError, match=r"an answer|a command|a run"):
        fusion.result_of(GO, answer)


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
COMMAND = st.dictionaries(
    st.sampled_from(["status", "return_code", "stdout", "stderr", "execution_time"]), VALUES
)


@given(
    st.dictionaries(
        st.sampled_from(["status", "message", "compile_result", "run_result"]),
        VALUES | COMMAND | COMMAND.map(lambda fields: ran(**fields)) | st.sampled_from(["Success", "Failed"]),
    )
)
def test_no_answer_becomes_anything_but_a_result_or_an_error(answer: Any) -> None:
    try:
        result = fusion.result_of(GO, answer)
    except ValueError:
        return
    assert result.status != "ok" or answer["run_result"]["return_code"] == 0
