"""Programs that attack with signals, timers, handlers and crashes of every kind."""

import signal

import hostile
import pytest
from hostile import FAST, Arena, body

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)

DEADLY = "HUP QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 ALRM TERM STKFLT XCPU VTALRM PROF IO PWR SYS"


@pytest.mark.parametrize("name", DEADLY.split())
def test_a_signal_that_a_program_sends_itself_is_named(arena: Arena, name: str) -> None:
    # SIGXCPU too: no processor time ran out.
    number = getattr(signal, f"SIG{name}", None)
    if number is None:
        pytest.skip(f"this interpreter does not know SIG{name}")
    reset = "" if name == "KILL" else f"import signal\nsignal.signal({int(number)}, 0)\n"
    source = body(f"{reset}os.kill(os.getpid(), {int(number)})")
    for result in (arena.calls(source), arena.split(source)):
        assert (result.status, result.detail) == ("signal", f"killed by SIG{name}")
        assert result.exit_code is None


@pytest.mark.parametrize("number", [34, 40, 64])
def test_a_signal_without_a_name_is_numbered(arena: Arena, number: int) -> None:
    source = body(f"os.kill(os.getpid(), {number})")
    for result in (arena.calls(source), arena.split(source)):
        assert result.status == "signal"
        assert result.detail in (f"killed by signal {number}", f"killed by {_name(number)}")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


@pytest.mark.parametrize("name", ["INT", "PIPE", "CHLD", "CONT", "URG", "WINCH", "XFSZ"])
def test_a_signal_that_does_not_kill_changes_no_answer(arena: Arena, name: str) -> None:
    source = body(
        f"try: os.kill(os.getpid(), {int(getattr(signal, f'SIG{name}'))})\nexcept KeyboardInterrupt: pass\n"
        "return [value * factor for value in values]"
    )
    assert arena.verdicts(source) == ("pass", "pass")


@pytest.mark.parametrize(
    ("source", "names"),
    [
        pytest.param("import ctypes\nctypes.string_at(0)", ["SEGV"], id="null read"),
        pytest.param(
            "import ctypes\nctypes.memset(id(int), 0, 64)\nreturn int('1')", ["SEGV"], id="type erased"
        ),
        pytest.param(
            "import ctypes\nctypes.memset(id(None), 255, 8)\nctypes.string_at(1)", ["SEGV"], id="none"
        ),
        pytest.param("os.abort()", ["ABRT"], id="abort"),
        pytest.param("import ctypes\nctypes.CDLL(None).abort()", ["ABRT"], id="abort of the C library"),
        pytest.param("import faulthandler\nfaulthandler._fatal_error_c_thread()", ["ABRT"], id="fatal error"),
        pytest.param("import faulthandler\nfaulthandler._sigabrt()", ["ABRT"], id="abort of faulthandler"),
        pytest.param("import faulthandler\nfaulthandler._sigfpe()", ["FPE"], id="division"),
        pytest.param("import faulthandler\nfaulthandler._stack_overflow()", ["SEGV"], id="stack"),
        pytest.param(
            "import faulthandler\nfaulthandler.enable()\nfaulthandler._sigsegv()", ["SEGV"], id="told of it"
        ),
        pytest.param(
            "import mmap\nwith open('/tmp/f', 'wb') as f: f.write(bytes(8192))\nf = open('/tmp/f', 'r+b')\n"
            "m = mmap.mmap(f.fileno(), 8192)\nf.truncate(0)\nreturn m[5000]",
            ["BUS"],
            id="mapping cut off",
        ),
        pytest.param(
            "exec(compile('x', 'x', 'exec').replace(co_code=bytes([255] * 64)))", [], id="byte code"
        ),
        pytest.param(
            "code = compile('x', 'x', 'eval')\nreturn eval(code.replace(co_code=bytes([101, 200] * 9)))",
            [],
            id="code object",
        ),
    ],
)
def test_a_crash_is_a_signal(arena: Arena, source: str, names: list[str]) -> None:
    by_value, by_suite = arena.calls(body(source)), arena.split(body(source))
    if names:
        for result in (by_value, by_suite):
            assert result.status == "signal"
            assert result.detail in [f"killed by SIG{name}" for name in names]
    else:
        # Whether rubbish crashes an interpreter is its own affair; it must only not come out right.
        assert hostile.verdict(by_value) in ("signal", "wrong", "unserializable")
        assert by_suite.status in ("signal", "exception", "failed", "unserializable")


def test_an_illegal_instruction_is_a_signal(arena: Arena) -> None:
    source = body(
        """
        import ctypes, mmap
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes.fromhex("0f0b" if os.uname().machine == "x86_64" else "00000000"))
        ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
        """
    )
    for result in (arena.calls(source), arena.split(source)):
        assert (result.status, result.detail) == ("signal", "killed by SIGILL")


def test_a_crash_while_loading_and_in_a_script_is_a_signal_too(arena: Arena) -> None:
    source = "import ctypes\nctypes.string_at(0)\n"
    assert arena.verdicts(source + hostile.HONEST) == ("signal", "signal")
    assert arena.script(source).status == "signal"


@pytest.mark.parametrize("which", ["ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF"])
def test_a_timer_that_fires_unhandled_is_a_signal(arena: Arena, which: str) -> None:
    source = body(f"import signal\nsignal.setitimer(signal.{which}, 0.001, 0.001)\nwhile True: pass")
    assert arena.verdicts(source) == ("signal", "signal")


def test_timers_handlers_and_masks_end_with_their_job(arena: Arena) -> None:
    source = body(
        """
        import signal
        def handler(*_): pass
        for number in signal.valid_signals() - {9, 19}:
            signal.signal(number, handler if number % 2 else signal.SIG_IGN)
        for which in range(3): signal.setitimer(which, 0.5, 0.5)
        signal.alarm(1)
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        os.kill(os.getpid(), 12)
        signal.siginterrupt(10, True)
        return [value * factor for value in values]
        """
    )
    # The candidate's half of a split job must still end when it is told to.
    assert arena.verdicts(source) == ("pass", "pass")
    assert arena.script(source + "\nscale([1], 1)").status == "ok"


def test_a_program_that_blocks_every_signal_still_runs_out_of_time(arena: Arena) -> None:
    source = body(
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "time.sleep(60)"
    )
    assert arena.verdicts(source, FAST) == ("timeout", "timeout")


def test_handlers_that_raise_inside_the_harness_give_neither_a_pass_nor_our_failure(arena: Arena) -> None:
    source = body(
        """
        import signal
        def raiser(*_): raise SystemExit(0)
        signal.signal(signal.SIGALRM, raiser)
        signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
        try:
            return [None] * 20000
        except BaseException:
            return None
        """
    )
    by_value, by_suite = arena.verdicts(source)
    # An interpreter that is thrown out of its last line takes its handlers down before its timers.
    assert by_value in ("wrong", "exit", "exception", "unserializable", "signal")
    assert by_suite in ("failed", "exit", "exception", "unserializable", "signal")


def test_exceptions_thrown_from_a_thread_give_neither_a_pass_nor_our_failure(arena: Arena) -> None:
    source = """
        import ctypes, threading
        main = threading.get_ident()
        def thrower():
            while True:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(SystemExit))
        def scale(values, factor):
            threading.Thread(target=thrower, daemon=True).start()
            return None
        """
    by_value, by_suite = arena.verdicts(source, hostile.Limits(wall_s=2))
    assert by_value in ("wrong", "exit", "exception", "unserializable", "timeout")
    assert by_suite in ("failed", "exit", "exception", "unserializable", "timeout")


def test_wake_up_bytes_on_the_channel_are_no_frames(arena: Arena) -> None:
    source = body(
        """
        import signal
        number = next(n for n in range(3, 64) if os.path.exists(f"/proc/self/fd/{n}"))
        os.set_blocking(number, False)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.set_wakeup_fd(number, warn_on_full_buffer=False)
        signal.raise_signal(signal.SIGUSR1)
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source) == ("unserializable", "unserializable")


def test_a_dump_on_the_channel_is_no_frame(arena: Arena) -> None:
    source = body(
        """
        import faulthandler
        number = next(n for n in range(3, 64) if os.path.exists(f"/proc/self/fd/{n}"))
        faulthandler.dump_traceback(number)
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source) == ("unserializable", "unserializable")


def test_a_watchdog_of_the_programs_own_is_an_exit(arena: Arena) -> None:
    source = body(
        "import faulthandler\nfaulthandler.dump_traceback_later(0.05, exit=True)\nimport time\ntime.sleep(60)"
    )
    assert arena.verdicts(source) == ("exit", "exit")


def test_a_stop_is_a_timeout_even_when_a_child_could_wake_the_program(arena: Arena) -> None:
    source = body(
        "import signal, time\nif os.fork() == 0:\n    while True:\n"
        "        os.kill(os.getppid(), signal.SIGTSTP)\n        time.sleep(0.01)\n"
        "while True: os.kill(os.getpid(), signal.SIGSTOP)"
    )
    assert arena.verdicts(source, FAST) == ("timeout", "timeout")
