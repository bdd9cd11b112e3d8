"""Programs that never end, or pretend that no time passes: each is stopped, and called what it is."""

import hostile
import pytest
from hostile import FAST, SOON, Arena, body

from sandbox import Call, ErrorRecord, Limits

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("return sum(range(10**13))", id="sum"),
        pytest.param("sys.set_int_max_str_digits(0)\nreturn str(7 ** (6 * 10**6))", id="digits"),
        pytest.param("return pow(3, 10**10)", id="power"),
        pytest.param("return 10 ** 10 ** 9", id="tower"),
        pytest.param("import itertools\nreturn max(itertools.repeat(1))", id="iterator"),
        pytest.param("import itertools\nreturn -1 in itertools.count()", id="search"),
        pytest.param("import re\nreturn re.fullmatch('(a|aa)+b', 'a' * 80)", id="backtracking"),
        pytest.param("import math\nreturn math.factorial(10**7)", id="factorial"),
        pytest.param(
            "import hashlib\nreturn hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)", id="hashing"
        ),
    ],
)
def test_one_long_operation_in_c_is_a_timeout(arena: Arena, source: str) -> None:
    result = arena.calls(body(source), FAST)
    assert (result.status, result.outputs) == ("timeout", [])


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("import time\nwhile True: time.sleep(3600)", id="sleep"),
        pytest.param("import select\nselect.poll().poll()", id="poll"),
        pytest.param("import threading\nthreading.Event().wait()", id="event"),
        pytest.param(
            "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()", id="deadlock"
        ),
        pytest.param("import signal\nsignal.pause()", id="pause"),
        pytest.param("r, w = os.pipe()\nos.read(r, 1)", id="own pipe"),
        pytest.param("if os.fork() == 0:\n    while True: pass\nos.wait()", id="child"),
        pytest.param("import asyncio\nasyncio.run(asyncio.sleep(3600))", id="event loop"),
    ],
)
def test_a_program_that_waits_for_nothing_is_a_timeout(arena: Arena, source: str) -> None:
    assert arena.script(f"{body(source)}\nscale(1, 2)", FAST).status == "timeout"


def test_a_half_of_a_split_job_that_waits_for_nothing_is_a_timeout(arena: Arena) -> None:
    assert arena.split(body("import time\ntime.sleep(3600)"), limits=FAST).status == "timeout"
    test = "def check(candidate):\n    candidate([], 1)\n    import time; time.sleep(60)"
    result = arena.split(hostile.HONEST, test, SOON)
    assert (result.status, result.candidate_calls) == ("timeout", 1)


def test_a_loop_while_loading_is_a_timeout_in_every_kind(arena: Arena) -> None:
    source = f"import time\ntime.sleep(60)\n{hostile.HONEST}"
    assert arena.verdicts(source, FAST) == ("timeout", "timeout")
    assert arena.script(source, FAST).status == "timeout"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            "class E(Exception):\n    __str__ = lambda self: __import__('time').sleep(60)\nraise E",
            id="message",
        ),
        pytest.param(
            "class M(type):\n    __instancecheck__ = lambda self, one: __import__('time').sleep(60)\n"
            "class E(Exception, metaclass=M): pass\nraise E",
            id="class that may be asked or not",
        ),
        pytest.param(
            "class L(list):\n    __iter__ = lambda self: __import__('time').sleep(60)\n"
            "    __len__ = __reduce__ = __iter__\n    __class__ = property(__iter__)\nreturn L([1])",
            id="value that may be asked or not",
        ),
        pytest.param(
            "class D:\n    __del__ = lambda self: __import__('time').sleep(60)\nD()", id="finalizer"
        ),
        pytest.param(
            "import gc\ngc.callbacks.append(lambda *_: __import__('time').sleep(60))\ngc.collect()", id="gc"
        ),
        pytest.param(
            "sys.settrace(lambda *_: __import__('time').sleep(60))\nreturn scale(values, factor)", id="trace"
        ),
    ],
)
def test_code_that_loops_where_the_harness_looks_is_stopped_or_never_asked(arena: Arena, source: str) -> None:
    by_value, by_suite = arena.verdicts(body(source), FAST)
    assert by_value in ("timeout", "unserializable", "wrong")
    assert by_suite in ("timeout", "unserializable", "exception")


def test_the_calls_before_an_endless_one_are_kept(arena: Arena) -> None:
    source = "def scale(n):\n    while n == 2: pass\n    if n == 1: raise KeyError(n)\n    return n"
    result = arena.calls(source, SOON, calls=[Call((n,)) for n in range(5)])
    assert (result.status, result.outputs) == ("timeout", [0, ErrorRecord("KeyError", "1")])


def test_output_bit_by_bit_wins_no_time(arena: Arena) -> None:
    source = "import time\nwhile True:\n    print('still here', flush=True)\n    time.sleep(0.01)"
    result = arena.script(source, SOON)
    assert result.status == "timeout"
    assert result.stdout.startswith("still here\n")


def test_answers_bit_by_bit_win_no_time(arena: Arena) -> None:
    """Each call is quick, and there are always more of them: the suite's loop ends with the job."""
    source = "import time\ndef scale(n):\n    time.sleep(0.01)\n    return n"
    test = "def check(candidate):\n    while candidate(1) == 1: pass"
    result = arena.split(source, test, SOON)
    assert (result.status, result.candidate_calls > 1) == ("timeout", True)


def test_a_clock_that_the_program_bends_is_not_ours(arena: Arena) -> None:
    source = body(
        """
        import time
        for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
            setattr(time, name, lambda: 0.0)
        time.sleep = lambda seconds: None
        os.times = lambda: (0.0,) * 5
        import select
        while time.monotonic() < 1: select.poll().poll(10)
        """
    )
    assert arena.verdicts(source, FAST) == ("timeout", "timeout")


def test_a_clock_of_the_machine_cannot_be_set(arena: Arena) -> None:
    source = """
        import os, time
        def probe():
            done = []
            for clock in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME, time.CLOCK_TAI):
                try:
                    time.clock_settime(clock, 1.0)
                    done.append(clock)
                except OSError:
                    pass
            for path in ("/dev/rtc", "/dev/rtc0", "/proc/self/timens_offsets", "/dev/ptp0"):
                try:
                    with open(path, "w") as file:
                        file.write("monotonic 100 0\\n")
                    done.append(path)
                except OSError:
                    pass
            return done
        """
    assert arena.probed(source) == [[], [], []]


def test_processor_time_of_children_does_not_escape_the_wall_clock(arena: Arena) -> None:
    source = body(
        "for _ in range(3):\n    if os.fork() == 0:\n        while True: pass\n"
        "import time\nwhile True: time.sleep(1)"
    )
    assert arena.calls(source, FAST).status == "timeout"


def test_processor_time_runs_out_for_half_a_split_job(arena: Arena) -> None:
    assert arena.split(body("while True: pass"), limits=Limits(wall_s=20, cpu_s=0.5)).status == "cpu_limit"


def test_a_loop_in_an_exit_handler_is_a_scripts_own_time(arena: Arena) -> None:
    source = "import atexit\n@atexit.register\ndef forever():\n    __import__('time').sleep(60)\n"
    assert arena.script(f"{source}", FAST).status == "timeout"
    # A function's answers are in by then.
    assert arena.verdicts(source + hostile.HONEST) == ("pass", "pass")


def test_a_stream_whose_flush_never_ends_is_stopped(arena: Arena) -> None:
    source = body(
        """
        class Stream:
            def write(self, text): return len(text)
            def flush(self): __import__('time').sleep(60)
        sys.stdout = sys.stderr = Stream()
        return [value * factor for value in values]
        """
    )
    by_value, by_suite = arena.verdicts(source, SOON)
    assert by_value in ("pass", "timeout")
    # The suite has its answers; what the candidate does afterwards takes none of them back.
    assert by_suite == "pass"


def test_a_thread_that_never_lets_go_of_the_interpreter_is_a_timeout(arena: Arena) -> None:
    source = body(
        """
        import threading
        sys.setswitchinterval(1000)
        threading.Thread(target=lambda: sum(range(10**13)), daemon=True).start()
        return [value * factor for value in values]
        """
    )
    by_value, by_suite = arena.verdicts(source, FAST)
    assert by_value in ("pass", "timeout")
    assert by_suite in ("pass", "timeout")


def test_a_comparison_that_never_ends_is_never_made(arena: Arena) -> None:
    source = body(
        """
        class Slow(int):
            def __eq__(self, other):
                while True: pass
            __ne__ = __lt__ = __hash__ = __index__ = __eq__
        return [Slow(value * factor) for value in values]
        """
    )
    # Empty lists hold nothing that could not travel.
    assert arena.verdicts(source, FAST) == ("unserializable", "unserializable")


def test_a_sort_by_a_hostile_key_is_a_timeout(arena: Arena) -> None:
    source = body(
        """
        class Key:
            def __init__(self, value): pass
            def __lt__(self, other):
                items.append(0)
                return bool(len(items) & 1)
        items = []
        while True: sorted(range(1000), key=Key)
        """
    )
    assert arena.verdicts(source, FAST) == ("timeout", "timeout")
