"""Defects that users reported of other graders, each turned into a test of this sandbox.

Only those about running a program are here. Those about judging what came back (how texts are compared,
empty suites, lists of languages) are tested where that is decided.
"""

import mmap
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import hostile
import pytest
from hostile import SOON, Arena, body

from sandbox import Call, Job, Limits, Sandbox, SandboxError

ROOT = Path(__file__).parents[2]
# Hangs without taking the processors from the tests' neighbours.
HANG = "import time; time.sleep(60)"
EQUAL_TO_ALL = """
class Yes:
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 0
    __sub__ = __rsub__ = __add__ = __radd__ = __abs__ = __round__ = lambda self, *other: self
    __float__ = lambda self: 0.0
    __len__ = lambda self: 3
    __iter__ = lambda self: iter([self, self, self])
"""

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)


@pytest.fixture(scope="module")
def pair() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as box:
        yield box


def honest(limits: Limits = hostile.PATIENT) -> Job:
    return Job("calls", {"solution.py": hostile.HONEST}, entry="scale", calls=hostile.CALLS, limits=limits)


def script(source: str, limits: Limits = hostile.PATIENT, **options: str) -> Job:
    return Job("script", {"main.py": textwrap.dedent(source)}, limits=limits, **options)  # type: ignore[arg-type]


def alive(marker: str) -> list[str]:
    """The processes of this machine that carry `marker` in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_an_object_equal_to_everything_solves_nothing(arena: Arena) -> None:
    """openai/human-eval#67: a candidate that returned such an object passed every problem."""
    source = f"{EQUAL_TO_ALL}\ndef scale(values, factor): return Yes()\n"
    assert arena.verdicts(source) == ("unserializable", "unserializable")


def test_nor_does_it_where_the_suite_compares_by_an_oracle_of_its_own(arena: Arena) -> None:
    """evalplus/evalplus#306: the same, with oracles that take tolerances, sets or any of several answers."""
    test = """
        import math
        def check(candidate):
            got = candidate([1.0], 2)
            assert all(abs(a - b) <= 1e-6 for a, b in zip(got, [2.0], strict=True))
            assert math.isclose(candidate([1.0], 2)[0], 2.0)
            assert set(candidate([1, 2], 1)) == {1, 2} or candidate([1], 1) in ([1], (1,))
        """
    for made in ("Yes()", "[Yes()]", "(Yes(),)", "{Yes(): Yes()}"):
        source = f"{EQUAL_TO_ALL}\ndef scale(values, factor): return {made}\n"
        assert arena.split(source, test).status == "unserializable"


def test_verdicts_on_a_busy_machine_are_those_of_an_idle_one(pair: Sandbox) -> None:
    """evalplus/evalplus#5: a wall clock of 50 ms, set-up included, failed right programs on slow hosts."""
    burn = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"
    burners = [subprocess.Popen([sys.executable, "-S", "-c", burn]) for _ in range(4)]
    try:
        limits = Limits(wall_s=1.0, cpu_s=1.0)
        verdicts = [hostile.verdict(result) for result in pair.map([honest(limits)] * 12)]
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert verdicts == ["pass"] * 12


@pytest.mark.parametrize("size", [219_264, 400_000, 1_000_000, 5_000_000])
def test_a_long_output_arrives_whole_or_says_that_it_did_not(arena: Arena, size: int) -> None:
    """bytedance/SandboxFusion#62: 400 KB of output came back cut and called a success, 1 MB as a timeout."""
    source = "import sys\nfor n in range(int(sys.argv[1]) // 8): sys.stdout.write(f'{n:07d}\\n')"
    whole = arena.script(source, Limits(wall_s=20, output_kb=8192), argv=(str(size),))
    assert (whole.status, whole.truncated, len(whole.stdout)) == ("ok", False, size)
    assert whole.stdout.endswith(f"{size // 8 - 1:07d}\n")
    cut = arena.script(source, Limits(wall_s=20, output_kb=64), argv=(str(size),))
    assert (cut.status, cut.truncated, len(cut.stdout)) == ("output_limit", True, 65536)


def test_running_out_of_memory_has_a_name_and_takes_nothing_else_down(arena: Arena) -> None:
    """bytedance/SandboxFusion#43: there was no status for it, and the machine went down with the program."""
    source = body("hoard = []\nwhile True: hoard.append(bytearray(1 << 22))")
    limits = Limits(wall_s=20, memory_mb=256)
    by_value, by_suite = arena.calls(source, limits), arena.split(source, limits=limits)
    assert (by_value.status, by_suite.status) == ("memory_limit", "memory_limit")
    assert by_value.max_rss < 400 << 10


def test_a_toolchain_that_is_not_there_is_no_verdict_on_the_program() -> None:
    """bytedance/SandboxFusion#65: "go: command not found" came back as a failed program."""
    source = f"""
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        from sandbox import Job, Sandbox, SandboxError
        from sandbox.names import FILES, script_file
        with Sandbox(cache=None) as box:
            for lang in sorted(set(FILES) - {{"python"}}):
                try:
                    result = box.run(Job("script", {{script_file(lang): "x"}}, lang=lang))
                    said = result.detail if result.status == "infra_error" else result.status
                except SandboxError as error:
                    said = str(error)
                if "apt-get install" not in said or "\\n" in said: print(lang, said)
        """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": "/nonexistent"},
        cwd="/",
    )
    assert (told.stdout, told.stderr) == ("", "")


def test_one_program_that_hangs_costs_only_its_own_result(pair: Sandbox) -> None:
    """huggingface/open-r1#532: one hang made every reward of the batch zero."""
    hang = script(HANG, Limits(wall_s=0.3))
    jobs = [hang if number in (0, 5) else honest() for number in range(10)]
    results = list(pair.map(jobs))
    assert [hostile.verdict(result) for result in results] == [
        "timeout" if number in (0, 5) else "pass" for number in range(10)
    ]


def test_a_program_that_raised_did_not_succeed(arena: Arena) -> None:
    """volcengine/verl#7853: a wrapper caught the exception and left with 0; empty output was then right."""
    result = arena.script("raise ValueError('x')")
    assert (result.status, result.exit_code, result.stdout) == ("exception", 1, "")
    assert "ValueError: x" in result.stderr
    assert arena.script("try:\n    1 / 0\nfinally:\n    print('done')").status == "exception"
    assert (
        arena.script("import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()").status == "ok"
    )


def test_a_crash_ends_neither_the_caller_nor_the_run(arena: Arena) -> None:
    """volcengine/verl#3290 and #3569: a fork hung, and a segmentation fault froze the training."""
    for attack in ("import ctypes; ctypes.string_at(0)", "os.abort()", "os.kill(os.getpid(), 11)"):
        assert arena.verdicts(body(attack)) == ("signal", "signal")
    fork = body(
        "import threading\nlock = threading.Lock()\nlock.acquire()\nif os.fork() == 0: lock.acquire()\n"
    )
    assert arena.verdicts(f"{fork}    os.wait()\n", SOON) == ("timeout", "timeout")


def test_a_program_that_waits_for_a_worker_does_not_lose_its_time(pair: Sandbox) -> None:
    """volcengine/verl#3478: under load the requests timed out while they were still queued."""
    nap = script("import time; time.sleep(0.1); print(1)", Limits(wall_s=1.0))
    results = list(pair.map([nap] * 24))
    assert [(result.status, result.stdout) for result in results] == [("ok", "1\n")] * 24


def test_a_program_that_was_killed_is_no_zombie_of_the_caller(arena: Arena) -> None:
    """rllm-org/rllm#918: processes that were killed stayed as zombies of the trainer."""
    for attack in (HANG, "os.fork(); os.kill(0, 9)", "os.fork(); os._exit(0)"):
        assert arena.calls(body(attack), SOON).status in ("timeout", "signal", "exit")
    mine = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    states = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in mine]
    assert "Z" not in states


def test_the_callers_size_is_no_part_of_the_programs_limit() -> None:
    """LiveBench/LiveBench#536: the address space was bounded absolutely, with the grader's own size in it."""
    with (
        mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ),
        Sandbox() as box,
    ):
        small = Limits(wall_s=20, memory_mb=64)
        assert hostile.verdict(box.run(honest(small))) == "pass"
        use = body("return [len(bytearray(40 << 20))] if len(values) == 0 else []")
        job = Job("calls", {"solution.py": use}, entry="scale", calls=[Call(([], 1))], limits=small)
        assert box.run(job).outputs == [[40 << 20]]


def test_bytes_that_cannot_be_read_are_no_score(arena: Arena) -> None:
    """allenai/olmo-eval#354: a result that could not be decoded counted as 1.0."""
    for junk in ("b'junk'", "b''.join([bytes([0])] * 100)", "b'\\xff' * 13", "b'{\"score\": 1.0}'"):
        source = body(
            f"for n in range(3, 64):\n    try: os.write(n, {junk})\n    except OSError: pass\nreturn []"
        )
        assert arena.verdicts(source) == ("unserializable", "unserializable")


def test_no_process_lingers_after_any_end(arena: Arena) -> None:
    """bigcode-project/bigcodebench#42: programs that started others left them running."""
    marker = f"lingering-{os.getpid()}-{time.monotonic_ns()}"
    start = f"""
        import subprocess
        subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)", {marker!r}],
                         start_new_session=True)
        """
    for end in ("return []", "os._exit(0)", "os.abort()", "raise ValueError", HANG):
        source = body(f"{textwrap.dedent(start)}{end}")
        for run in (arena.calls, arena.split, arena.script):
            run(source if run != arena.script else f"{source}\nscale([], 1)", limits=SOON)
            assert alive(marker) == []


def test_what_a_program_says_of_its_reward_is_not_its_reward(arena: Arena) -> None:
    """huggingface/OpenEnv#1200: the agent wrote the reward file itself; nan and inf were taken too."""
    for claim in ("1.0", "nan", "inf", "-inf", "1e999"):
        source = body(
            f"""
            for folder in ("/tmp", "/tmp/work", "/dev/shm", "/logs", "/", "/output"):
                for name in ("reward.txt", "reward.json", "result.json", "score", "test_output.txt"):
                    try:
                        with open(f"{{folder}}/{{name}}", "w") as file: file.write({claim!r})
                    except OSError: pass
            print("reward:", {claim!r})
            return float({claim!r})
            """
        )
        assert arena.verdicts(source) == ("wrong", "failed")


def test_both_streams_at_once_and_unread_input_are_no_deadlock(arena: Arena) -> None:
    """multikernel/sandlock#149: a program that wrote 32 KiB before its input was read hung for good."""
    source = """
        import os
        for _ in range(64):
            os.write(1, b"o" * 16384)
            os.write(2, b"e" * 16384)
        data = b""
        while part := os.read(0, 1 << 16): data += part
        os.write(1, b"%d" % len(data))
        """
    result = arena.script(source, Limits(wall_s=20, output_kb=2048), stdin="i" * 3_000_000)
    assert (result.status, len(result.stderr)) == ("ok", 1 << 20)
    assert result.stdout == "o" * (1 << 20) + "3000000"


def test_a_failure_of_the_sandbox_is_not_the_programs() -> None:
    """NVIDIA-NeMo/Gym#2015: a sandbox that could not run the program gave it the score 0."""
    source = f"""
        import os, resource, sys
        sys.path.insert(0, {str(ROOT)!r})
        from sandbox import Call, Job, Sandbox
        job = Job("calls", {{"solution.py": "def f(): return 1"}}, entry="f", calls=[Call()])
        with Sandbox() as box:
            assert box.run(job).outputs == [1]
            lowest = os.dup(0)
            os.close(lowest)
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            seen = set()
            for spare in range(1, 16):
                resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + spare, hard))
                result = box.run(job)
                seen.add((result.status, bool(result.detail), tuple(result.outputs)))
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            print(sorted(seen))
        """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=120
    )
    assert told.stderr == ""
    assert told.stdout in (
        "[('infra_error', True, ())]\n",
        "[('infra_error', True, ()), ('ok', False, (1,))]\n",
        "[('ok', False, (1,))]\n",
    )


def test_descendants_end_with_a_program_that_ran_out_of_time(arena: Arena) -> None:
    """langfuse/langfuse#15955: after a timeout only the program itself was killed."""
    marker = f"descendant-{os.getpid()}-{time.monotonic_ns()}"
    source = body(
        f"""
        import time
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    sleep = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
                    os.execv(sys.executable, [sys.executable, "-S", "-c", sleep, {marker!r}])
                time.sleep(60)
        time.sleep(60)
        """
    )
    assert arena.calls(source, SOON).status == "timeout"
    assert alive(marker) == []
    assert arena.split(source, limits=SOON).status == "timeout"
    assert alive(marker) == []


def test_tests_that_the_agent_has_edited_are_not_those_that_run(arena: Arena) -> None:
    """PrimeIntellect-ai/verifiers#1212: the agent could write to the folder of its tests."""
    edit = """
        import os
        for folder, _, names in os.walk("/tmp"):
            for name in {"test.py", "tests.py", "conftest.py", *names}:
                with open(os.path.join(folder, name), "w") as file:
                    file.write("def check(candidate): pass\\n")
        """
    wrong = "def scale(values, factor): return None\n"
    assert arena.split(textwrap.dedent(edit) + wrong).status == "failed"
    assert arena.split(textwrap.dedent(edit) + hostile.HONEST).status == "ok"


def test_a_timeout_is_not_the_error_that_a_test_expects(arena: Arena) -> None:
    """bojieli/ai-agent-book#1067: a test that wanted the call to fail took a timeout for that."""
    test = """
        def check(candidate):
            try:
                candidate([], 0)
            except Exception:
                return
            raise AssertionError("no error")
        """
    assert arena.split(body(HANG), test, SOON).status == "timeout"
    result = arena.calls(body(HANG), SOON, calls=[Call(([], 0))])
    assert (result.status, result.outputs) == ("timeout", [])


def test_leaving_with_0_and_lying_about_equality_pass_no_kata(arena: Arena) -> None:
    """codewars/codewars.com#2179 and #3083: exit(0) and an __eq__ of one's own passed all tests."""
    assert arena.verdicts("import sys\nsys.exit(0)\n") == ("exit", "exit")
    assert arena.verdicts(body("sys.exit(0)")) == ("wrong", "exception")
    assert arena.verdicts(body("os._exit(0)")) == ("exit", "exit")
    assert arena.verdicts("raise SystemExit\n") == ("exit", "exit")
    source = (
        f"{EQUAL_TO_ALL}\nclass L(list):\n    __eq__ = Yes.__eq__\ndef scale(values, factor): return L()\n"
    )
    assert arena.verdicts(source) == ("unserializable", "unserializable")


def test_threads_of_the_caller_that_hold_locks_do_not_hang_its_programs() -> None:
    """OpenHands/benchmarks#459: a fork of a process with threads kept their locks and never came free."""
    stop = threading.Event()
    noise: list[bytes] = []

    def hold() -> None:
        while not stop.is_set():
            # The interpreter's locks for imports, for memory and for output are taken again and again.
            noise[:] = [bytes(1000) for _ in range(100)]
            __import__("logging").getLogger("reports").debug("x")

    threads = [threading.Thread(target=hold) for _ in range(4)]
    results: list[str] = []
    with Sandbox(workers=2) as box:
        for thread in threads:
            thread.start()
        try:
            callers = [
                threading.Thread(target=lambda: results.append(hostile.verdict(box.run(honest()))))
                for _ in range(12)
            ]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join(60)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert results == ["pass"] * 12


def test_a_sandbox_that_is_asked_for_the_impossible_says_so_and_gives_no_verdict() -> None:
    """bytedance/SandboxFusion#65 again: what is wrong with the request is no property of the program."""
    with pytest.raises(SandboxError, match="backend"):
        Sandbox("docker")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Job\.lang"):
        Job("script", {"main.py": ""}, lang=["python"])  # type: ignore[arg-type]
