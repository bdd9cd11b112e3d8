"""`assay sandbox`: programs run apart from everything else, and what a machine can isolate."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from cli_runs import Ran, assay, command

from sandbox import Limits, doctor
from sandbox.names import LANGUAGES
from sandbox.sandbox import Backend

BACKENDS = set(Backend.__args__) - {"auto"}


def run(tmp_path: Path, source: str, *options: object, name: str = "program.py", stdin: str = "") -> Ran:
    """Run a program by the command line."""
    (tmp_path / name).write_text(source)
    done = subprocess.run(
        command("sandbox", "run", tmp_path / name, *options),
        input=stdin,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def values(ran: Ran) -> list[Any]:
    return [json.loads(line) for line in ran.out.splitlines()]


def last(ran: Ran) -> str:
    """The line about how it ended."""
    return ran.err.splitlines()[-1]


def test_output_and_exit_status_are_the_programs_own(tmp_path: Path) -> None:
    source = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    ran = run(tmp_path, source)
    assert (ran.code, ran.out) == (7, "out\n")
    head, line = ran.err.splitlines()
    assert head == "err"
    assert re.fullmatch(
        r"sandbox: exit: exit status 7; [\d.]+ s wall, [\d.]+ s processor, \d+ MiB; "
        r"backend zygote, isolation namespaces",
        line,
    )


def test_the_line_about_the_end_is_one_of_its_own(tmp_path: Path) -> None:
    ran = run(tmp_path, "import sys; sys.stderr.write('no newline')")
    assert ran.err.startswith("no newline\nsandbox: ok; ")


def test_script_gets_its_command_line_and_input(tmp_path: Path) -> None:
    source = "import sys; print(sys.argv[1:], input())"
    (tmp_path / "in.txt").write_text("from a file\n")
    assert run(tmp_path, source, "--stdin", "in.txt", "--", "-a", "b c").out == "['-a', 'b c'] from a file\n"
    assert run(tmp_path, source, "--stdin", "-", stdin="from here\n").out == "[] from here\n"


def test_script_without_input_has_an_empty_one(tmp_path: Path) -> None:
    assert run(tmp_path, "print(repr(open(0).read()))", stdin="not for it").out == "''\n"


def test_a_traceback_names_the_file_as_it_is_called(tmp_path: Path) -> None:
    ran = run(tmp_path, "x = 1\nx.nothing\n", name="my_tool.py")
    assert ran.code == 1
    assert '/my_tool.py", line 2' in ran.err
    assert last(ran).startswith("sandbox: exception: AttributeError")


@pytest.mark.parametrize(
    ("source", "options", "status"),
    [
        ("while True: pass", ["--wall-s", "0.3"], "timeout"),
        ("while True: pass", ["--cpu-s", "1"], "cpu_limit"),
        ("x = 'x' * (200 << 20)", ["--memory-mb", "64"], "memory_limit"),
        ("print('x' * 10000)", ["--output-kb", "1"], "output_limit"),
        ("import os; os.kill(os.getpid(), 11)", [], "signal"),
        ("print(", [], "compile_error"),
    ],
    ids=["wall", "cpu", "memory", "output", "signal", "syntax"],
)
def test_an_end_by_force_is_named(source: str, options: list[str], status: str, tmp_path: Path) -> None:
    ran = run(tmp_path, source, *options)
    assert (ran.code, last(ran).split(":")[1].strip()) == (1, status)


@pytest.mark.parametrize(
    ("name", "options", "source", "tool", "package"),
    [
        ("a.js", [], "console.log(process.argv.slice(2))", "node", "nodejs"),
        ("a.txt", ["--lang", "JS"], "console.log(process.argv.slice(2))", "node", "nodejs"),
        ("a.rb", [], "p ARGV", "ruby", "ruby"),
    ],
    ids=["suffix", "alias", "another suffix"],
)
def test_language_by_suffix_or_by_name(
    name: str, options: list[str], source: str, tool: str, package: str, tmp_path: Path
) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"needs {package}")
    ran = run(tmp_path, source, *options, "--", "one", name=name)
    assert ran.code == 0, ran.err
    assert "one" in ran.out


def test_each_call_is_told_on_a_line(tmp_path: Path) -> None:
    source = "def f(a, b=2):\n    return {'sum': a + b, 'is': [True, None, 1.5]}\n"
    ran = run(
        tmp_path,
        source,
        *("--entry", "f", "--call", "[1]", "--call", '{"args": [1], "kwargs": {"b": 3}}', "--call", '["x"]'),
    )
    first, second, third = values(ran)
    assert first == {"value": {"sum": 3, "is": [True, None, 1.5]}}
    assert second["value"]["sum"] == 4
    assert third["error"] == "TypeError"
    assert ran.code == 0


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("(1, 2)", {"repr": "(1, 2)"}),
        ("{1}", {"repr": "{1}"}),
        ("b'x'", {"repr": "b'x'"}),
        ("[float('inf')]", {"repr": "[inf]"}),
        ("{1: 2}", {"repr": "{1: 2}"}),
        ("'\\ud800'", {"value": "\ud800"}),
        ("2 ** 70", {"value": 2**70}),
    ],
    ids=["tuple", "set", "bytes", "infinity", "dict", "surrogate", "large"],
)
def test_what_json_cannot_say_is_told_as_python_would(
    expression: str, told: dict[str, object], tmp_path: Path
) -> None:
    ran = run(tmp_path, f"def f(): return {expression}", "--entry", "f", "--call", "[]")
    assert values(ran) == [told]


def test_a_number_that_would_take_forever_to_write_is_not_written(tmp_path: Path) -> None:
    ran = run(tmp_path, "def f(): return [1 << (1 << 24)]", "--entry", "f", "--call", "[]")
    assert values(ran) == [{"cut": "[an int of 16777217 bits]"}]
    assert ran.code == 0


def test_a_value_without_an_encoding_is_named(tmp_path: Path) -> None:
    ran = run(tmp_path, "def f(): return f", "--entry", "f", "--call", "[]")
    assert values(ran)[0]["no_encoding"] == "function"
    assert ran.code == 1
    assert "unserializable" in last(ran)


def test_leaving_early_with_status_0_is_no_success(tmp_path: Path) -> None:
    ran = run(tmp_path, "import os\ndef f(): os._exit(0)", "--entry", "f", "--call", "[]")
    assert (ran.code, ran.out) == (1, "")


@pytest.mark.parametrize(("body", "code", "status"), [("a + b", 0, "ok"), ("a - b", 1, "failed")])
def test_suite_runs_apart_from_the_program(body: str, code: int, status: str, tmp_path: Path) -> None:
    (tmp_path / "suite.py").write_text(
        "def check(candidate):\n    assert candidate(1, 2) == 3, 'one and two'\n"
    )
    ran = run(tmp_path, f"def f(a, b): return {body}", "--entry", "f", "--test", "suite.py")
    assert ran.code == code
    assert last(ran).startswith(f"sandbox: {status}")
    assert "1 calls" in last(ran)


def test_further_files_are_there(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("alpha")
    ran = run(tmp_path, "print(open('data/w.txt').read())", "--file", f"data/w.txt={tmp_path}/words.txt")
    assert ran.out == "alpha\n"


def test_packages_can_be_imported(tmp_path: Path) -> None:
    # Not below the folder of this test, which only its owner may read.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        Path(folder, "mine.py").write_text("X = 5\n")
        assert run(tmp_path, "import mine; print(mine.X)", "--packages", folder).out == "5\n"


def test_json_holds_all_there_is_to_know(tmp_path: Path) -> None:
    ran = run(tmp_path, "print('x'); raise SystemExit(3)", "--json")
    facts = json.loads(ran.out)
    assert ran.code == 3
    assert ran.err == ""
    assert {
        key: facts[key] for key in ("status", "exit_code", "stdout", "stderr", "kind", "lang", "outputs")
    } == {
        "status": "exit",
        "exit_code": 3,
        "stdout": "x\n",
        "stderr": "",
        "kind": "script",
        "lang": "python",
        "outputs": [],
    }
    assert (facts["backend"], facts["isolation"], facts["trust"]) == ("zygote", "namespaces", "external")


def test_the_program_sees_nothing_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    ran = run(
        tmp_path, f"import os; print(dict(os.environ)); print(open({str(tmp_path / 'secret')!r}).read())"
    )
    assert ran.code == 1
    assert ran.out == "{}\n"
    assert "FileNotFoundError" in ran.err


def test_no_isolation_is_asked_for_by_name_and_told(tmp_path: Path) -> None:
    assert last(run(tmp_path, "", "--backend", "plain")).endswith("backend plain, isolation none")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--lang", "cobol"], "cobol"),
        (["--call", "[1]"], "--entry"),
        (["--entry", "f"], "--call"),
        (["--entry", "f", "--call", "{"], "not JSON"),
        (["--entry", "f", "--call", "1"], "list of arguments"),
        (["--entry", "f", "--call", '{"arg": [1]}'], "list of arguments"),
        (["--entry", "f", "--call", "[" * 100_000], "not JSON"),
        (["--entry", "f", "--call", "[" * 300 + "]" * 300], "nested"),
        (["--entry", "f()", "--call", "[]"], "f()"),
        (["--entry", "f", "--call", "[]", "--", "x"], "command line"),
        (["--entry", "f", "--call", "[]", "--stdin", "-"], "--stdin"),
        (["--test", "program.py"], "--entry"),
        (["--entry", "f", "--call", "[]", "--test", "program.py"], "exclude"),
        (["--wall-s", "0"], "--wall-s"),
        (["--memory-mb", "1"], "--memory-mb"),
        (["--backend", "magic"], "magic"),
        (["--file", "x"], "NAME=PATH"),
        (["--file", "../x=program.py"], "relative path"),
        (["--file", "program.py=program.py"], "already"),
        (["--stdin", "nowhere"], "nowhere"),
        (["--packages", "nowhere"], "nowhere"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_bad_usage_is_one_line(options: list[str], says: str, tmp_path: Path) -> None:
    refused(run(tmp_path, "def f(): pass", *options), says)


def refused(ran: Ran, says: str) -> None:
    assert (ran.code, ran.out) == (2, ""), ran.err
    assert ran.err.startswith("assay: ")
    assert ran.err.count("\n") == 1, ran.err
    assert says in ran.err


def test_programs_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"# \xe9\n")
    (tmp_path / "folder.py").mkdir()
    for name, says in (
        ("latin.py", "not UTF-8 at byte 2"),
        ("folder.py", "directory"),
        ("nowhere.py", "No such file"),
        ("/dev/zero", "give --lang"),
    ):
        refused(assay("sandbox", "run", name, cwd=tmp_path), says)
    refused(assay("sandbox", "run", "/dev/zero", "--lang", "c", cwd=tmp_path), "larger than 16 MiB")


def test_a_terminal_takes_no_commands_from_a_program(tmp_path: Path) -> None:
    source = "import sys; print('\\x1b]0;owned\\x07\\x9b2Jtext\\ttab'); sys.exit('\\x1b[31mred')"
    (tmp_path / "p.py").write_text(source)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command("sandbox", "run", tmp_path / "p.py"), stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux tells that nobody holds the other end any more
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait() == 1
    assert b"\x1b" not in shown
    assert b"\x07" not in shown
    assert b"\\x1b]0;owned\\x07\\x9b2Jtext" in shown


def test_a_pipe_gets_the_bytes_as_they_are(tmp_path: Path) -> None:
    assert run(tmp_path, "print('\\x1b[31m')").out == "\x1b[31m\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupt_ends_the_program(number: int, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("import time; time.sleep(600)")
    process = subprocess.Popen(
        command("sandbox", "run", tmp_path / "p.py", "--wall-s", 600),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(below(process.pid)) < 4:  # the keeper, the server, PID 1 and the program
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    started = below(process.pid)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (
        130,
        "",
        "assay: interrupted; whatever ran in the sandbox was ended\n",
    )
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []


def below(pid: int) -> list[int]:
    """The process ids of everything that a process has started."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [one for child in map(int, text.split()) for one in (child, *below(child))]


def test_help_tells_the_limits_that_hold(tmp_path: Path) -> None:
    ran = subprocess.run(
        command("sandbox", "run", "--help"),
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    for field in dataclasses.fields(Limits):
        line = next(line for line in ran.stdout.splitlines() if f"--{field.name.replace('_', '-')}" in line)
        assert f"(default: {field.default:g})" in line


def test_the_front_door_opens_without_the_sandbox() -> None:
    code = "import sys, assay.cli; print([name for name in sys.modules if name.startswith('sandbox')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    ran = assay("sandbox", "doctor", "--json")
    assert (ran.code, ran.err) == (0, "")
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_doctor_tells_every_layer_backend_and_language(facts: dict[str, Any]) -> None:
    assert facts["isolated"]
    assert facts["problems"] == []
    assert [layer["name"] for layer in facts["layers"]] == [fence.name for fence in doctor.FENCES]
    assert all(layer["tried"] and layer["stops"] and layer["detail"] for layer in facts["layers"])
    assert {one["backend"] for one in facts["backends"]} == BACKENDS
    assert [one["lang"] for one in facts["languages"]] == list(LANGUAGES)


@pytest.mark.parametrize("backend", ["zygote", "nsrun", "plain"])
def test_backends_that_need_nothing_more_can_be_used(backend: str, facts: dict[str, Any]) -> None:
    assert {one["backend"]: one["usable"] for one in facts["backends"]}[backend]


def test_doctor_runs_a_program_of_every_language_that_is_there() -> None:
    ran = assay("sandbox", "doctor", "--programs", "--json")
    assert (ran.code, ran.err) == (0, "")
    for one in json.loads(ran.out)["languages"]:
        assert ("ran_s" in one) == (one["problem"] == ""), one
        assert not one["version"] or not one["problem"], one


def test_doctor_prints_tables_without_colour_where_nobody_looks() -> None:
    ran = assay("sandbox", "doctor")
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    for word in ("seccomp filter", "zygote", "Python", "isolation holds"):
        assert word in ran.out


def test_a_machine_that_cannot_isolate_is_told_what_to_do(tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs util-linux")
    script = 'echo 0 >/proc/sys/user/max_user_namespaces || exit 9; exec "$@"'
    inside = ["unshare", "-Ur", "sh", "-c", script, "sh"]
    done = subprocess.run([*inside, *command("sandbox", "doctor", "--json")], capture_output=True, text=True)
    if done.returncode == 9 or "unshare:" in done.stderr:
        pytest.skip("this machine allows no user namespace to forbid others in")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert not told["isolated"]
    assert "sysctl user.max_user_namespaces=" in told["problems"][0]
    assert {one["backend"] for one in told["backends"] if one["usable"]} <= {"plain", "remote"}
    (tmp_path / "p.py").write_text("print(1)")
    ran = subprocess.run(
        [*inside, *command("sandbox", "run", tmp_path / "p.py")], capture_output=True, text=True
    )
    refused(Ran(ran.returncode, ran.stdout, ran.stderr), "no isolated run is possible here")
