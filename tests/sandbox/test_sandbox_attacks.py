"""Hostile programs: none passes, none hangs or harms the supervisor, each gets the status that names it."""

import os
import textwrap
import time
from pathlib import Path

import pytest

from sandbox import Call, Job, Limits, Result, Sandbox, equal

# For programs that never end; those that do get time enough for a busy machine.
FAST = Limits(wall_s=0.5, cpu_s=5.0)
PATIENT = Limits(wall_s=20.0, cpu_s=20.0)
CHECK = """
def check(candidate):
    assert candidate(2, 3) == 6
    assert candidate(-1, 4) == -4
"""
CALLS = (Call((2, 3)), Call((-1, 4)))
EXPECTED = (6, -4)


@pytest.fixture(scope="module")
def box() -> Sandbox:
    return Sandbox()


def body(source: str) -> str:
    """A candidate for "multiply" whose function has this body."""
    return "import os, sys\ndef multiply(a, b):\n" + textwrap.indent(textwrap.dedent(source), "    ")


def both(box: Sandbox, source: str, limits: Limits = PATIENT) -> tuple[Result, Result]:
    """The same candidate by values and by a split suite; neither may pass."""
    by_values = box.run(Job("calls", {"solution.py": source}, entry="multiply", calls=CALLS, limits=limits))
    by_suite = box.run(
        Job("split", {"solution.py": source, "test.py": CHECK}, entry="multiply", limits=limits)
    )
    return by_values, by_suite


def passes(result: Result) -> bool:
    return (
        result.status == "ok"
        and len(result.outputs) == len(EXPECTED)
        and all(map(equal, result.outputs, EXPECTED))
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(body("return a + b"), {"ok", "failed"}, id="wrong answer"),
        pytest.param("import sys\nsys.exit(0)", {"exit"}, id="exit at import"),
        pytest.param("import os\nos._exit(0)", {"exit"}, id="os._exit at import"),
        pytest.param(body("sys.exit(0)"), {"ok", "exception"}, id="exit in function"),
        pytest.param(body("os._exit(0)"), {"exit"}, id="os._exit in function"),
        pytest.param(
            "class Yes:\n    __eq__ = lambda *_: True\n    __hash__ = None\ndef multiply(a, b): return Yes()",
            {"unserializable"},
            id="object equal to all",
        ),
        pytest.param(
            "class N(int):\n    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n"
            "    __hash__ = int.__hash__\ndef multiply(a, b): return N(0)",
            {"unserializable"},
            id="int subclass equal to all",
        ),
        pytest.param(
            "import atexit, os\natexit.register(os._exit, 0)\ndef multiply(a, b): pass",
            {"ok", "failed"},
            id="exit handler",
        ),
        pytest.param(
            "import os\nprint('PASSED\\n1 passed\\nOK', flush=True)\nos._exit(0)",
            {"exit"},
            id="success markers",
        ),
        pytest.param(body("while True: pass"), {"timeout"}, id="endless loop"),
        pytest.param(
            body("import re\nreturn re.match('(x+x+)+y', 'x' * 60)"), {"timeout"}, id="endless loop in C"
        ),
        pytest.param(
            body(
                """
                import signal, time
                for number in set(range(1, 65)) - {9, 19, 32, 33}:
                    signal.signal(number, signal.SIG_IGN)
                while True:
                    try:
                        while True: time.sleep(1)
                    except BaseException: pass
                """
            ),
            {"timeout"},
            id="ignored signals",
        ),
        pytest.param(body("os.kill(os.getpid(), 19)"), {"timeout"}, id="stops itself"),
        pytest.param(body("return multiply(a, b)"), {"ok", "exception"}, id="recursion"),
        pytest.param(
            body("sys.setrecursionlimit(1 << 30)\nreturn multiply(a, b)"),
            {"timeout", "signal", "memory_limit"},
            id="deep recursion",
        ),
        pytest.param(
            body("sys.setrecursionlimit(1 << 30)\nx = []\nfor _ in range(10**6): x = [x]\nreturn repr(x)"),
            {"timeout", "signal", "memory_limit"},
            id="recursion in C",
        ),
        pytest.param(body("return len(bytearray(4 << 30))"), {"memory_limit"}, id="memory at once"),
        pytest.param(
            body("x = []\nwhile True: x.append(bytearray(1 << 20))"), {"memory_limit"}, id="memory bit by bit"
        ),
        pytest.param(body("return b'x' * (20 << 20)"), {"unserializable"}, id="enormous value"),
        pytest.param(body("x = []\nx.append(x)\nreturn x"), {"unserializable"}, id="cyclic value"),
        pytest.param(
            body("os.kill(os.getppid(), 9)\nos.kill(1, 15)\nos.kill(1, 2)"),
            {"ok", "failed", "exception"},
            id="kills its parent",
        ),
        pytest.param(body("os.kill(-1, 9)"), {"ok", "failed", "exception"}, id="kills all it can see"),
        pytest.param(body("os.killpg(0, 9)"), {"signal"}, id="kills its group"),
        pytest.param(body("__import__('faulthandler')._sigsegv()"), {"signal"}, id="segmentation fault"),
    ],
)
def test_no_attack_passes(box: Sandbox, source: str, expected: set[str]) -> None:
    by_values, by_suite = both(box, source, FAST if "timeout" in expected else PATIENT)
    assert not passes(by_values)
    assert by_suite.status != "ok"
    assert by_values.status in expected
    assert by_suite.status in expected


def test_walking_the_frames_finds_no_expected_value(box: Sandbox) -> None:
    source = """
        import gc, os, sys
        def multiply(a, b):
            seen, frame = [], sys._getframe()
            while frame:
                seen += [frame.f_locals, frame.f_globals]
                frame = frame.f_back
            text = repr(seen) + repr(gc.get_objects())
            print("-".join(["needle", "7193"]) in text)
            return a * b
        """
    test = CHECK + "\nneedle = 'needle-7193'\n"
    files = {"solution.py": textwrap.dedent(source), "test.py": test}
    result = box.run(Job("split", files, entry="multiply", limits=Limits(memory_mb=1024)))
    assert (result.status, result.stdout) == ("ok", "False\nFalse\n")


FORGE = """
import gc, os, sys
def channel():
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            if type(value).__name__ == "Channel":
                return value
        frame = frame.f_back
def multiply(a, b):
    found = channel()
    {attack}
    os._exit(0)
"""


@pytest.mark.parametrize(
    "attack",
    [
        "found.send(b'D', b'i\\x01\\x00')",
        "[found.send(b'D', b'i\\x01\\x00') for _ in range(9)]",
        "[found.send(b'O', b'vi\\x01\\x07') for _ in range(9)]; found.send(b'D', b'i\\x01\\x00')",
        "found.send(b'O', b'v' + b'\\xff' * 50)",
        "found.send(b'X', b'rubbish')",
        "found.send(b'X', b'l\\x04s\\x0asuite-loads\\x01xs\\x01xs\\x00')",
        "found.send(b'X', b'l\\x04s\\x05suites\\x01xs\\x01xs\\x00')",
        "found.send(b'A', b'l\\x03b\\x04vi\\x01\\x07Nm\\x00')",
        "found.send(b'P', b'N')",
        "found.send(b'Z', b'')",
        "os.write(3, b'\\0' * 100000)",
        "os.write(3, found.nonce + b'D' + b'\\xff' * 4)",
        "os.write(3, b'garbage' * 10)",
        "os.close(3)",
        "os.dup2(1, 5)",
    ],
)
def test_a_forged_result_channel_yields_neither_a_pass_nor_an_excuse(box: Sandbox, attack: str) -> None:
    for result in both(box, FORGE.format(attack=attack)):
        assert not passes(result)
        assert result.status not in ("infra_error", "invalid_suite")
        assert result.status != "ok" or result.outputs == [7, 7]
        # A forged answer is but a wrong value.
        assert result.status != "failed" or "b'A'" in attack


def test_a_forged_record_is_no_call_that_could_not_be_made(box: Sandbox) -> None:
    source = """
        import sys
        def multiply(a, b):
            frame = sys._getframe()
            while type(frame.f_locals.get("channel")).__name__ != "Channel":
                frame = frame.f_back
            before = b"t\\x02t\\x00m\\x01i\\x01\\x01N"
            record = b"l\\x05s\\x08multiplyb" + bytes([len(before)]) + before + b"b\\x02vNFi\\x01\\x00"
            frame.f_locals["channel"].send(b"P", record)
            return a * b
        """
    files = {"solution.py": textwrap.dedent(source), "test.py": "assert candidate(2, 3) == 6"}
    result = box.run(Job("unittest", files, entry="multiply", record=["multiply"], limits=PATIENT))
    assert (result.status, result.detail, result.recorded) == ("unserializable", "str was due, not int", [])


def test_spraying_every_descriptor_harms_only_the_sprayer(box: Sandbox) -> None:
    source = body(
        """
        for number in range(3, 256):
            try:
                os.write(number, b"\\x00passed\\xff" * 99)
            except OSError:
                pass
        return 0
        """
    )
    for result in both(box, source):
        assert result.status == "unserializable"


def test_answering_before_being_asked_is_refused(box: Sandbox) -> None:
    source = """
        import sys
        frame = sys._getframe()
        while frame:
            for value in list(frame.f_locals.values()):
                if type(value).__name__ == "Channel":
                    value.send(b"A", b"l\\x03b\\x04vi\\x01\\x06Nm\\x00")
            frame = frame.f_back
        def multiply(a, b): return 0
        """
    files = {"solution.py": textwrap.dedent(source), "test.py": CHECK}
    assert box.run(Job("split", files, entry="multiply")).status == "unserializable"


def test_a_fork_that_returns_does_not_answer_twice(box: Sandbox) -> None:
    by_values, by_suite = both(box, body("os.fork()\nreturn a * b"))
    assert passes(by_values)
    assert by_suite.status == "ok"


def test_a_flood_of_output_is_bounded_and_a_right_value_still_counts(box: Sandbox) -> None:
    source = body("for _ in range(64): os.write(1, b'x' * (1 << 20))\nreturn a * b")
    result = box.run(
        Job("calls", {"solution.py": source}, entry="multiply", calls=CALLS, limits=Limits(wall_s=20))
    )
    assert passes(result)
    assert result.truncated
    assert len(result.stdout) == 256 << 10


def test_a_script_that_floods_is_stopped_at_once(box: Sandbox) -> None:
    result = box.run(Job("script", {"main.py": "while True: print('x' * 1000)"}, limits=Limits(wall_s=60)))
    assert result.status == "output_limit"
    assert len(result.stdout) == 256 << 10


def test_a_flood_of_results_is_an_output_limit(box: Sandbox) -> None:
    job = Job(
        "calls",
        {"solution.py": "def f():\n    return 'x' * 500_000"},
        entry="f",
        calls=[Call()] * 5,
        limits=Limits(result_kb=1024),
    )
    result = box.run(job)
    assert result.status == "output_limit"
    assert len(result.outputs) <= 2


def test_a_fork_bomb_stays_within_its_processes(box: Sandbox) -> None:
    source = """
        import os, time
        def multiply(a, b):
            made = 0
            try:
                while made < 200:
                    if os.fork() == 0:
                        time.sleep(60)
                    made += 1
            except OSError:
                return made
        """
    job = Job("calls", {"solution.py": textwrap.dedent(source)}, entry="multiply", calls=CALLS[:1])
    result = box.run(job)
    assert result.outputs == [15]


@pytest.mark.parametrize(
    "source",
    [
        "import os\nwhile True: os.fork()",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,)).start()",
    ],
)
def test_endless_forking_is_named_and_ended(box: Sandbox, source: str) -> None:
    assert box.run(Job("script", {"main.py": source}, limits=Limits(wall_s=2))).status == "proc_limit"


def test_the_memory_of_a_whole_tree_is_bounded(box: Sandbox) -> None:
    source = """
        import os, time
        for _ in range(6):
            if os.fork() == 0:
                break
        hoard = bytearray(60 << 20)
        for at in range(0, len(hoard), 4096): hoard[at] = 1
        time.sleep(20)
        """
    # The hoarders sleep longer than that, so a tree that is not bounded ends in a timeout.
    limits = Limits(wall_s=15, memory_mb=100)
    result = box.run(Job("script", {"main.py": textwrap.dedent(source)}, limits=limits))
    assert result.status == "memory_limit"


def test_processor_time_is_bounded(box: Sandbox) -> None:
    limits = Limits(wall_s=30, cpu_s=1)
    assert box.run(Job("script", {"main.py": "while True: pass"}, limits=limits)).status == "cpu_limit"


def test_a_deaf_program_is_stopped_by_the_hard_processor_limit(box: Sandbox) -> None:
    source = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    result = box.run(Job("script", {"main.py": source}, limits=Limits(wall_s=30, cpu_s=1)))
    assert result.status == "cpu_limit"


def marked(marker: str) -> list[str]:
    """The processes of this machine that carry `marker` in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
    return found


def test_a_daemon_does_not_outlive_its_job(box: Sandbox) -> None:
    marker = f"daemon-{os.getpid()}-{time.monotonic_ns()}"
    source = f"""
        import os, sys
        def multiply(a, b):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    sleep = "import time; time.sleep(60)"
                    os.execv(sys.executable, [sys.executable, "-S", "-c", sleep, "{marker}"])
                os._exit(0)
            import time
            time.sleep(0.3)
            return a * b
        """
    result = box.run(
        Job("calls", {"solution.py": textwrap.dedent(source)}, entry="multiply", calls=CALLS[:1])
    )
    assert result.outputs == [6]
    assert marked(marker) == []


def test_files_and_tmpfs_are_bounded(box: Sandbox) -> None:
    source = """
        import os
        def written(path):
            total = 0
            try:
                with open(path, "wb", buffering=0) as file:
                    while total < 200 << 20:
                        total += file.write(bytes(1 << 20))
            except OSError as error:
                return total >> 20, error.errno
        print(written("/tmp/a"), [written(f"/tmp/{n}")[1] for n in range(9)][-1])
        """
    limits = Limits(wall_s=20, file_mb=8, tmpfs_mb=24)
    result = box.run(Job("script", {"main.py": textwrap.dedent(source)}, limits=limits))
    assert result.stdout == "(8, 27) 28\n"


def test_a_candidate_cannot_make_pid_1_look_like_our_failure(box: Sandbox) -> None:
    source = body(
        """
        import resource, signal
        for act in (
            lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)),
            lambda: os.kill(1, 9),
            lambda: os.kill(1, signal.SIGSTOP),
            lambda: os.kill(1, signal.SIGSEGV),
            lambda: open("/proc/1/mem", "r+b"),
            lambda: open("/proc/1/fd/4", "wb"),
            lambda: open("/proc/1/oom_score_adj", "w").write("1000"),
        ):
            try:
                act()
            except (OSError, ValueError):
                pass
        return 0
        """
    )
    by_values, by_suite = both(box, source)
    assert (by_values.status, by_values.outputs) == ("ok", [0, 0])
    assert by_suite.status == "failed"


def test_errors_that_lie_about_themselves_are_described_safely(box: Sandbox) -> None:
    source = """
        class Liar(Exception):
            def __str__(self): raise SystemExit(0)
        class Meta(type):
            def __getattribute__(cls, name): raise SystemExit(0)
        class Strange(Exception, metaclass=Meta): pass
        class Text(str):
            def __getitem__(self, key): raise SystemExit
            def encode(self, *_): raise SystemExit
        class Sly(Exception):
            def __str__(self): return Text("sly\\ud800")
        def multiply(a, b):
            raise [Liar, Strange, Sly][a]()
        """
    calls = [Call((n, 0)) for n in range(3)]
    job = Job("calls", {"solution.py": textwrap.dedent(source)}, entry="multiply", calls=calls)
    result = box.run(job)
    assert [output.type for output in result.outputs] == ["Liar", "Strange", "Sly"]
    assert result.outputs[2].message == "sly\\ud800"
    result.outputs[2].message.encode()


def test_an_own_class_does_not_pass_for_a_builtin_exception_of_its_name(box: Sandbox) -> None:
    source = """
        import builtins
        class Sly(Exception): pass
        Sly.__name__ = Sly.__qualname__ = "ValueError"
        Sly.__module__ = "builtins"
        builtins.ValueError = Sly
        def multiply(a, b): raise Sly
        """
    job = Job("calls", {"solution.py": textwrap.dedent(source)}, entry="multiply", calls=CALLS[:1])
    assert [output.type for output in box.run(job).outputs] == ["own.ValueError"]
