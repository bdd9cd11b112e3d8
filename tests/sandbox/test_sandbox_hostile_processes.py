"""Programs that attack with processes and threads: bombs, orphans, zombies, those that will not end."""

import textwrap

import hostile
import pytest
from hostile import FAST, Arena, body

from sandbox import Call, Limits

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)

BOMB = Limits(wall_s=0.5, processes=8)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            """
            import signal
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGCHLD):
                signal.signal(number, signal.SIG_IGN)
            while True:
                try:
                    if os.fork() == 0: os.setsid()
                except OSError: time.sleep(0.01)
            """,
            id="deaf, each in a session of its own",
        ),
        pytest.param(
            """
            while True:
                try:
                    if os.fork() == 0:
                        if os.fork(): os._exit(0)
                except OSError: time.sleep(0.01)
            """,
            id="each an orphan",
        ),
        pytest.param(
            """
            import ctypes
            number = 57 if os.uname().machine == "x86_64" else 220
            while True:
                if ctypes.CDLL(None).syscall(number, 17, 0, 0, 0, 0) < 0: time.sleep(0.01)
            """,
            id="behind the interpreter's back",
        ),
        pytest.param(
            """
            import threading
            def more():
                while True:
                    try: threading.Thread(target=more).start()
                    except RuntimeError: time.sleep(0.01)
            more()
            """,
            id="threads",
        ),
        pytest.param(
            """
            while True:
                try:
                    if os.fork() == 0: os._exit(0)
                except OSError: time.sleep(0.01)
            """,
            id="zombies",
        ),
    ],
)
def test_a_bomb_is_named_for_its_processes(arena: Arena, source: str) -> None:
    assert arena.verdicts(body(source, "import os, sys, time"), BOMB) == ("proc_limit", "proc_limit")


@pytest.mark.parametrize(
    "source",
    [
        "while True: os.fork()",
        "import threading, time\n"
        "while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "import subprocess\n"
        "while True: subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])",
    ],
)
def test_an_error_of_too_many_processes_is_named_for_them(arena: Arena, source: str) -> None:
    # In a call, while it loads, and in a script.
    limits = Limits(wall_s=20, processes=6)
    assert arena.verdicts(body(source), limits) == ("proc_limit", "proc_limit")
    at_once = f"import os, sys\n{source}\n{hostile.HONEST}"
    assert arena.calls(at_once, limits).status == "proc_limit"
    assert arena.script(at_once, limits).status == "proc_limit"


def test_an_operation_that_would_block_is_no_lack_of_processes(arena: Arena) -> None:
    source = body("pipe = os.pipe()\nos.set_blocking(pipe[0], False)\nos.read(pipe[0], 1)")
    result = arena.calls(source)
    assert (result.status, result.outputs[0].type) == ("ok", "BlockingIOError")
    assert arena.split(source).status == "exception"
    assert arena.script(f"{source}\nscale(1, 2)").status == "exception"


def test_an_invented_error_is_no_lack_of_processes(arena: Arena) -> None:
    source = body("raise BlockingIOError(11, 'Resource temporarily unavailable')")
    assert arena.verdicts(source) == ("wrong", "exception")
    source = body('raise RuntimeError("can\'t start new thread")')
    assert arena.verdicts(source) == ("wrong", "exception")


def test_orphans_are_reaped_so_that_a_program_may_have_many_one_after_another(arena: Arena) -> None:
    source = body(
        """
        for _ in range(60):
            child = os.fork()
            if child == 0:
                if os.fork() == 0:
                    os._exit(0)
                os._exit(0)
            os.waitpid(child, 0)
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source) == ("pass", "pass")


def test_a_child_that_holds_every_pipe_does_not_delay_the_verdict(arena: Arena) -> None:
    source = """
        import os, time
        def linger():
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(60)
                time.sleep(60)
        def scale(values, factor):
            linger()
            return [value * factor for value in values]
        """
    limits = Limits(wall_s=20, processes=16)
    assert arena.verdicts(source, limits) == ("pass", "pass")
    assert arena.script(f"{textwrap.dedent(source)}\nlinger()\nprint('done')", limits).stdout == "done\n"


def test_threads_that_never_end_do_not_delay_the_answers_of_a_function(arena: Arena) -> None:
    source = body(
        """
        import threading, time
        threading.Thread(target=time.sleep, args=(60,)).start()
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source) == ("pass", "pass")


def test_a_script_waits_for_its_threads_and_so_never_ends(arena: Arena) -> None:
    source = (
        "print(1, flush=True)\nimport threading as t, time\nt.Thread(target=time.sleep, args=(60,)).start()"
    )
    result = arena.script(source, hostile.SOON)
    assert (result.status, result.stdout) == ("timeout", "1\n")


def test_a_main_thread_that_leaves_alone_ends_no_program(arena: Arena) -> None:
    """The exit system call ends one thread; what is left sleeps on behind a dead leader."""
    source = body(
        """
        import ctypes, threading, time
        threading.Thread(target=time.sleep, args=(60,)).start()
        ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
        """
    )
    assert arena.verdicts(source, FAST) == ("timeout", "timeout")


def test_the_bare_exit_call_is_an_exit(arena: Arena) -> None:
    for number in ((60, 93), (231, 94)):
        call = f'ctypes.CDLL(None).syscall({number[0]} if os.uname().machine == "x86_64" else {number[1]}, 0)'
        assert arena.verdicts(body(f"import ctypes\n{call}")) == ("exit", "exit")


@pytest.mark.parametrize("code", ["pass", "print('PASSED')", "import os; os._exit(0)"])
def test_a_program_that_becomes_another_one_has_left(arena: Arena, code: str) -> None:
    source = body(f"os.execv(sys.executable, [sys.executable, '-I', '-S', '-c', {code!r}])")
    assert arena.verdicts(source) == ("exit", "exit")


def test_a_program_that_becomes_another_one_takes_no_descriptor_along(arena: Arena) -> None:
    code = (
        "import os\nfor n in range(3, 64):\n try: print(n, os.readlink(f'/proc/self/fd/{n}'), flush=True)\n"
        " except OSError: pass\n try: os.write(n, b'x' * 99)\n except OSError: pass"
    )
    source = body(f"os.execv(sys.executable, [sys.executable, '-I', '-S', '-c', {code!r}])")
    for result in (arena.calls(source), arena.split(source)):
        assert (result.status, result.stdout) == ("exit", "")


def test_a_replaced_program_still_has_its_limits(arena: Arena) -> None:
    source = body(
        "os.execv(sys.executable, [sys.executable, '-I', '-S', '-c', 'import time; time.sleep(60)'])"
    )
    assert arena.verdicts(source, FAST) == ("timeout", "timeout")


def test_nobody_else_can_be_signalled_by_any_call(arena: Arena) -> None:
    source = """
        import ctypes, os, signal
        libc = ctypes.CDLL(None, use_errno=True)
        X86 = os.uname().machine == "x86_64"
        def probe():
            pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
            others = [pid for pid in range(0, 400) if pid not in (0, 1, os.getpid(), os.getppid())]
            reached = []
            for pid in others:
                try:
                    os.kill(pid, 0)
                    reached.append(pid)
                except OSError:
                    pass
            for pid in (1, os.getppid()):
                for number in (9, 19, 15, 11, 34, 64):
                    for act in (
                        lambda: os.kill(pid, number),
                        lambda: libc.syscall(200 if X86 else 130, pid, number),
                        lambda: libc.syscall(234 if X86 else 131, pid, pid, number),
                        lambda: libc.syscall(129 if X86 else 138, pid, number, bytes(128)),
                        lambda: signal.pidfd_send_signal(os.pidfd_open(pid), number),
                    ):
                        try:
                            act()
                        except OSError:
                            pass
            return [pids == [os.getpid()], reached]
        """
    # PID 1 outlives what it is sent, or there would be no verdict.
    assert arena.probed(source) == [[True, []]] * 3


def test_pid_1_is_served_last_and_still_reports(arena: Arena) -> None:
    source = body(
        """
        def try_to(act, *arguments):
            try: act(*arguments)
            except (OSError, ValueError): pass
        for pid in (1, os.getppid(), 0):
            try_to(os.setpriority, os.PRIO_PROCESS, pid, 19)
            try_to(os.sched_setaffinity, pid, {0})
            try_to(os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0))
            try_to(os.sched_setscheduler, pid, os.SCHED_BATCH, os.sched_param(0))
        try_to(os.setpriority, os.PRIO_USER, os.getuid(), 19)
        try_to(os.setpriority, os.PRIO_PGRP, 0, 19)
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source) == ("pass", "pass")


def test_a_group_that_is_killed_by_a_child_is_a_signal(arena: Arena) -> None:
    source = body(
        "import time\nif os.fork() == 0:\n    time.sleep(0.05)\n    os.kill(0, 9)\nwhile True: time.sleep(1)"
    )
    for result in (arena.calls(source), arena.split(source)):
        assert (result.status, result.detail) == ("signal", "killed by SIGKILL")


def test_a_parent_that_is_stopped_by_its_child_is_a_timeout(arena: Arena) -> None:
    source = body(
        "import time\nif os.fork() == 0:\n    while True:\n        os.kill(os.getppid(), 19)\n"
        "        time.sleep(0.01)\ntime.sleep(60)"
    )
    assert arena.verdicts(source, FAST) == ("timeout", "timeout")


def test_a_traced_child_cannot_be_had(arena: Arena) -> None:
    source = """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        def probe():
            if (child := os.fork()) == 0:
                import time
                time.sleep(60)
            done = []
            for request in (0, 16, 0x4206):
                for pid in (0, 1, child, os.getppid()):
                    ctypes.set_errno(0)
                    done.append([libc.ptrace(request, pid, 0, 0), ctypes.get_errno()])
            os.kill(child, 9)
            os.waitpid(child, 0)
            return [one for one in done if one != [-1, 1]]
        """
    assert arena.probed(source) == [[], [], []]


def test_no_memory_but_its_own_can_be_read_or_written(arena: Arena) -> None:
    source = """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        X86 = os.uname().machine == "x86_64"
        def probe():
            done = []
            for pid in {1, os.getppid()}:
                names = "mem maps smaps numa_maps pagemap environ auxv stack syscall wchan fd/0 fd/1 fd/2 "
                names += "fd/3 fd/4 fd/5 fd/6 fd/7 fd/8 root cwd exe ns/mnt ns/pid ns/user task/1/mem"
                for name in names.split():
                    try:
                        with open(f"/proc/{pid}/{name}", "rb") as file:
                            if file.read(1):
                                done.append(name)
                    except OSError:
                        pass
                for name in ("fd", "map_files", "ns", "task"):
                    try:
                        for link in os.listdir(f"/proc/{pid}/{name}"):
                            done.append(os.readlink(f"/proc/{pid}/{name}/{link}"))
                    except OSError:
                        pass
                for name in ("mem", "clear_refs", "oom_score_adj", "coredump_filter", "comm", "uid_map"):
                    try:
                        os.close(os.open(f"/proc/{pid}/{name}", os.O_WRONLY))
                        done.append(name)
                    except OSError:
                        pass
                handle = os.pidfd_open(pid)
                for number in range(10):
                    if libc.syscall(438, handle, number, 0) >= 0:
                        done.append(["pidfd_getfd", number])
                os.close(handle)
                space = ctypes.create_string_buffer(64)
                vector = (ctypes.c_size_t * 2)(ctypes.addressof(space), 8)
                for number in (310, 311) if X86 else (270, 271):
                    if libc.syscall(number, pid, vector, 1, vector, 1, 0) >= 0:
                        done.append(number)
            return done
        """
    assert arena.probed(source) == [[], [], []]


def test_a_call_after_a_bomb_in_the_same_program_still_answers(arena: Arena) -> None:
    """What a call started lives on in its program; the limit then bounds the next call, not the machine."""
    source = body(
        """
        import time
        made = 0
        try:
            while True:
                if os.fork() == 0: time.sleep(60)
                made += 1
        except OSError:
            return made
        """
    )
    result = arena.calls(source, Limits(wall_s=20, processes=5), calls=[Call(([], 1))] * 3)
    assert (result.status, result.outputs) == ("ok", [4, 0, 0])
