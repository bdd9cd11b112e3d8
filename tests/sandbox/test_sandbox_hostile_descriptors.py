"""Programs that attack through descriptors: those they inherit, exhaust, close, change or pass on."""

import hostile
import pytest
from hostile import Arena, body

from sandbox import Limits

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)

# The program's own channels, whatever their numbers: open now, and none of the standard three.
OWN = """
import fcntl, os, stat
def own():
    found = []
    for number in range(3, 256):
        try:
            os.fstat(number)
            found.append(number)
        except OSError:
            pass
    return found
"""


def test_hardly_any_descriptor_is_inherited_and_none_leads_to_a_folder_or_device(arena: Arena) -> None:
    source = f"""{OWN}
def probe():
    bad = []
    for number in (0, 1, 2, *own()):
        mode = os.fstat(number).st_mode
        if stat.S_ISDIR(mode) or stat.S_ISBLK(mode) or stat.S_ISLNK(mode):
            bad.append(number)
        if stat.S_ISCHR(mode) and os.fstat(number).st_rdev != os.makedev(1, 3):
            bad.append(number)
        if number > 2 and fcntl.fcntl(number, fcntl.F_GETFD) != fcntl.FD_CLOEXEC:
            bad.append(["inheritable", number])
    return [len(own()) <= 2, bad]
"""
    assert arena.probed(source) == [[True, []]] * 3


def test_nothing_of_others_can_be_read_from_an_inherited_descriptor(arena: Arena) -> None:
    """By value and as a script there is nothing at all to read; a half of a split job may be asked things."""
    source = f"""{OWN}
def probe():
    read = []
    for number in (1, 2, *own()):
        try:
            os.set_blocking(number, False)
            data = os.read(number, 100)
            if data: read.append(number)
        except OSError:
            pass
    return read
"""
    assert arena.probed(source) == [[], [], []]


def test_input_cannot_be_changed_for_anyone(arena: Arena) -> None:
    source = """
        import fcntl, os
        done = []
        for act in (
            lambda: os.write(0, b"x"),
            lambda: os.ftruncate(0, 0),
            lambda: os.pwrite(0, b"x", 0),
            lambda: os.close(os.open("/proc/self/fd/0", os.O_RDWR)),
            lambda: os.close(os.open("/dev/stdin", os.O_WRONLY | os.O_TRUNC)),
            lambda: os.posix_fallocate(0, 0, 1 << 20),
            lambda: os.fchmod(0, 0o777),
            lambda: fcntl.fcntl(0, 1033, 1),
        ):
            try:
                act()
                done.append("changed")
            except OSError:
                pass
        print(input(), len(done) < 8)
        """
    before = arena.script("print(input())", stdin="first\n")
    assert arena.script(source, stdin="second\n").stdout == "second True\n"
    after = arena.script("print(input())", stdin="first\n")
    assert before.stdout == after.stdout == "first\n"


def test_input_that_nobody_reads_does_not_reach_the_next_job(arena: Arena) -> None:
    assert arena.script("pass", stdin="needle\n" * 200_000).status == "ok"
    source = "import sys\nprint(repr(sys.stdin.read()))"
    assert arena.script(source).stdout == "''\n"
    told = arena.probed("import os\ndef probe(): return os.read(0, 100)")
    assert told == [b"", b"", b""]


def test_descriptors_run_out_and_the_answer_still_comes(arena: Arena) -> None:
    source = """
        import os, socket
        kept = []
        def scale(values, factor):
            for make in (os.pipe, lambda: os.open("/dev/null", 0), lambda: os.eventfd(0), socket.socketpair,
                         lambda: os.pidfd_open(os.getpid()), lambda: os.dup(1)):
                try:
                    while True: kept.append(make())
                except OSError: pass
            try:
                while True: kept.append(os.dup(0))
            except OSError: pass
            return [value * factor for value in values]
        """
    assert arena.verdicts(source) == ("pass", "pass")
    assert arena.verdicts(source, Limits(wall_s=20, open_files=16)) == ("pass", "pass")


def test_a_candidate_without_standard_streams_still_answers(arena: Arena) -> None:
    for attack in (
        "for n in (0, 1, 2): os.close(n)",
        "for stream in (sys.stdin, sys.stdout, sys.stderr): stream.close()",
        "sys.stdin = sys.stdout = sys.stderr = None",
        "del sys.stdin, sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__",
        "os.dup2(os.open('/dev/full', os.O_WRONLY), 1)\nprint('x' * 100000)",
        "os.dup2(0, 1)\nos.dup2(0, 2)",
    ):
        guarded = (
            f"if values == [1, 2, 3]:\n    try:\n        {attack.replace(chr(10), chr(10) + '        ')}\n"
        )
        source = body(f"{guarded}    except OSError: pass\nreturn [value * factor for value in values]")
        assert (attack, *arena.verdicts(source)) == (attack, "pass", "pass")


def test_a_script_without_standard_streams_is_judged_by_its_exit_status(arena: Arena) -> None:
    assert arena.script("import os\nos.close(1)\nos.close(2)\nos.close(0)").status == "ok"
    assert arena.script("import os\nos.closerange(0, 256)").status == "ok"
    assert arena.script("import os\nos.closerange(0, 256)\n1 / 0").status in ("exception", "exit")
    assert arena.script("import os\nos.closerange(0, 256)\nos._exit(3)").status == "exit"


@pytest.mark.parametrize(
    "attack",
    [
        "os.closerange(3, 256)",
        "[os.dup2(0, n) for n in own()]",
        "[os.dup2(os.open('/dev/null', os.O_RDWR), n) for n in own()]",
        "[os.dup2(os.pipe()[1], n) for n in own()]",
        "[os.dup2(os.open('/tmp/work/log', os.O_RDWR | os.O_CREAT), n) for n in own()]",
    ],
)
def test_a_channel_that_leads_nowhere_is_no_pass(arena: Arena, attack: str) -> None:
    source = OWN + body(f"{attack}\nreturn [value * factor for value in values]")
    limits = Limits(wall_s=1.0)
    by_value, by_suite = arena.verdicts(source, limits)
    assert by_value in ("unserializable", "exit", "timeout")
    assert by_suite in ("unserializable", "exit", "timeout")


def test_flags_set_on_what_is_shared_reach_nobody_else(arena: Arena) -> None:
    source = OWN + body(
        """
        for number in (0, 1, 2, *own()):
            for flags in (os.O_NONBLOCK | os.O_APPEND | os.O_ASYNC | os.O_DIRECT, os.O_NONBLOCK):
                try:
                    fcntl.fcntl(number, fcntl.F_SETFL, flags)
                except OSError:
                    pass
            for command, value in ((fcntl.F_SETOWN, os.getpid()), (10, 34), (fcntl.F_SETPIPE_SZ, 4096),
                                   (fcntl.F_SETLEASE, fcntl.F_RDLCK), (fcntl.F_NOTIFY, 0x3F)):
                try:
                    fcntl.fcntl(number, command, value)
                except OSError:
                    pass
        try:
            os.lseek(0, 1 << 40, 0)
        except OSError:
            pass
        return [value * factor for value in values]
        """
    )
    # These answers fit a channel that does not wait; a candidate that cannot wait for questions is disturbed.
    by_value, by_suite = arena.verdicts(source)
    assert by_value == "pass"
    assert by_suite in ("pass", "exception", "unserializable")


def test_a_channel_that_is_full_and_does_not_wait_loses_the_program_and_nothing_else(arena: Arena) -> None:
    source = OWN + body(
        "for number in own(): os.set_blocking(number, False)\nreturn ['x' * (1 << 20)] * 12 + values"
    )
    by_value, by_suite = arena.verdicts(source)
    assert by_value in ("wrong", "unserializable", "output_limit")
    assert by_suite in ("failed", "unserializable", "output_limit")


def test_locks_and_signals_on_a_channel_delay_nobody(arena: Arena) -> None:
    source = OWN + body(
        """
        for number in (0, 1, 2, *own()):
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pass
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source) == ("pass", "pass")


def test_the_channel_cannot_be_opened_again_for_reading(arena: Arena) -> None:
    """Where the kernel lets a program do so, it reads its own words back; those never arrive then."""
    source = OWN + body(
        """
        for number in own():
            try:
                again = os.open(f"/proc/self/fd/{number}", os.O_RDONLY | os.O_NONBLOCK)
                os.read(again, 1 << 16)
            except OSError:
                pass
        return None
        """
    )
    by_value, by_suite = arena.verdicts(source)
    assert by_value in ("wrong", "unserializable", "exit")
    assert by_suite in ("failed", "unserializable", "exit")


def test_a_copy_of_the_channel_in_a_living_child_changes_nothing(arena: Arena) -> None:
    source = OWN + body(
        """
        import time
        if os.fork() == 0:
            os.setsid()
            kept = [os.dup(number) for number in own()]
            time.sleep(60)
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source) == ("pass", "pass")


def test_everything_that_waits_on_the_channel_still_lets_it_be_written(arena: Arena) -> None:
    source = OWN + body(
        """
        import select
        poll = select.epoll()
        for number in own():
            try:
                poll.register(number, select.EPOLLOUT | select.EPOLLET)
            except OSError:
                pass
        poll.poll(0)
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source) == ("pass", "pass")
