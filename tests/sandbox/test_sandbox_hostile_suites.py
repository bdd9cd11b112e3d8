"""Candidates that go for the tests: read them, change them, end them early, answer for them.

The suite runs in a sandbox of its own and holds its expected values there; whatever a candidate does to
its own files, modules and processes, it does to itself.
"""

import textwrap

import hostile
import pytest
from hostile import SCAN, SOON, SUITE, Arena, body

from sandbox import Limits

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)

# Random and never next to each other in this file.
FIRST, SECOND = b"Zq7vK2mXw9", b"pL4tR8sYb3"


def test_the_scanner_finds_what_is_there(arena: Arena) -> None:
    source = f"{SCAN}\ndef probe():\n    kept = bytes([90]) + {FIRST[1:]!r} + {SECOND!r}\n"
    source += f"    return scan({FIRST!r}, {SECOND!r}) > 0 and len(kept)\n"
    assert arena.probed(source) == [20, 20, 20]


def test_no_text_of_the_suite_is_anywhere_in_the_candidates_memory(arena: Arena) -> None:
    source = f"{SCAN}\ndef scale(values, factor):\n    return [scan({FIRST!r}, {SECOND!r})]\n"
    needle = (FIRST + SECOND).decode()
    test = f"""
        EXPECTED = {needle!r}
        def check(candidate):
            "{needle}"
            assert candidate([], 1) == [0]
            assert candidate([], 2) == [0]
            assert len(EXPECTED) == 20
        """
    result = arena.split(source, test)
    assert (result.status, result.detail) == ("ok", "")


def test_no_later_question_is_known_before_it_is_asked(arena: Arena) -> None:
    source = f"{SCAN}\ndef scale(values, factor):\n    return [scan({FIRST!r}, {SECOND!r}) > 0]\n"
    test = f"""
        def check(candidate):
            assert candidate([], 1) == [False]
            # From here on the question itself holds it.
            assert candidate([{FIRST.decode()!r} + {SECOND.decode()!r}], 1) == [True]
        """
    assert arena.split(source, test).status == "ok"


def test_a_candidate_finds_no_trace_of_the_suite_in_files_processes_or_modules(arena: Arena) -> None:
    source = body(
        f"""
        import gc, glob, inspect
        seen = [sys.argv, sys.orig_argv, dict(os.environ), sorted(sys.modules), os.listdir("/tmp/work")]
        told = "cmdline environ comm maps mountinfo cgroup".split()
        paths = glob.glob("/proc/*/*") + glob.glob("/tmp/**", recursive=True) + glob.glob("/dev/shm/*")
        for path in paths:
            if path.rsplit("/", 1)[1] in told or path.startswith(("/tmp/", "/dev/")):
                try:
                    with open(path, "rb") as file: seen.append(file.read(1 << 20))
                except OSError: pass
        found = ["name"] if "test" + chr(46) + "py" in repr(seen) else []
        for frame in inspect.stack(0): seen += [frame.filename, repr(frame.frame.f_locals)]
        for one in gc.get_objects():
            if type(one) in (list, tuple, dict): seen.append(repr(one)[:10000])
        text, first, second = repr(seen), {FIRST.decode()!r}, {SECOND.decode()!r}
        places = [at for at in range(len(text)) if text.startswith(first, at)]
        return found + [at for at in places if text.startswith(second, at + len(first))]
        """
    )
    needle = (FIRST + SECOND).decode()
    test = f"needle = {needle!r}\ndef check(candidate):\n    assert candidate([], 1) == [] and needle"
    result = arena.split(source, test, Limits(wall_s=20, memory_mb=1024))
    assert (result.status, result.detail) == ("ok", "")


def test_files_that_a_test_runner_would_load_are_loaded_by_nobody(arena: Arena) -> None:
    plant = """
        import os
        wrong = "import os\\nos._exit(0)\\n"
        names = "test.py test_suite.py conftest.py sitecustomize.py usercustomize.py unittest.py pytest.py"
        names += " codec.py sandbox.py struct.py types.py builtins.py encodings.py x.pth pytest.ini tox.ini"
        for folder in ("/tmp/work", "/tmp", "/dev/shm"):
            for name in names.split():
                with open(f"{folder}/{name}", "w") as file: file.write(wrong)
            os.makedirs(f"{folder}/sandbox", exist_ok=True) if folder != "/tmp/work" else None
            os.makedirs(f"{folder}/__pycache__", exist_ok=True)
        """
    test = f"import unittest, struct, sys\n{SUITE}"
    source = textwrap.dedent(plant)
    assert arena.split(source + hostile.HONEST, test).status == "ok"
    assert arena.split(source + "def scale(values, factor): return None\n", test).status == "failed"
    assert hostile.verdict(arena.calls(source + hostile.HONEST)) == "pass"


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(
            "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n"
            "unittest.TestResult.addFailure = unittest.TestResult.addError = lambda *a: None",
            id="unittest",
        ),
        pytest.param(
            "import sys, types\nfor name in ('unittest', 'pytest', 'solution', 'test_suite', 'math'):\n"
            "    sys.modules[name] = types.ModuleType(name)",
            id="modules",
        ),
        pytest.param("import math\nmath.isclose = lambda *a, **k: True", id="math"),
        pytest.param("import builtins\nbuiltins.abs = builtins.sorted = lambda *a: 0", id="builtins"),
        pytest.param(
            "import builtins\nbuiltins.AssertionError = type('A', (BaseException,), {})", id="error"
        ),
        pytest.param("import sys\nsys.flags = sys.flags.__class__\n__debug__", id="flags"),
    ],
)
def test_what_a_candidate_patches_is_not_what_the_suite_uses(arena: Arena, attack: str) -> None:
    test = """
        import math, unittest
        class T(unittest.TestCase):
            def test_values(self):
                self.assertEqual(candidate([1, 2, 3], 2), [2, 4, 6])
                self.assertTrue(math.isclose(candidate([1.0], 2)[0], 2.0))
                self.assertEqual(sorted(candidate([3, -1], 1)), [-1, 3])
        """
    assert arena.split(f"{attack}\n{hostile.HONEST}", test).status == "ok"
    assert arena.split(f"{attack}\ndef scale(values, factor): return [7]\n", test).status == "failed"


def test_a_skip_of_the_candidates_skips_no_test(arena: Arena) -> None:
    test = """
        import unittest
        class T(unittest.TestCase):
            def test_values(self):
                self.assertEqual(candidate([1], 2), [2])
        """
    for source in (
        "import unittest\ndef scale(values, factor): raise unittest.SkipTest('not today')\n",
        "class SkipTest(Exception): pass\ndef scale(values, factor): raise SkipTest\n",
        "import unittest.case\ndef scale(values, factor): raise unittest.case._ShouldStop\n",
        "def scale(values, factor): raise KeyboardInterrupt\n",
        "def scale(values, factor): raise SystemExit(0)\n",
    ):
        assert arena.split(source, test).status in ("failed", "exception")


def test_a_suite_that_expects_an_error_is_not_satisfied_by_any_end(arena: Arena) -> None:
    """Leaving, dying and hanging are no ValueError."""
    test = """
        def check(candidate):
            try:
                candidate([], 0)
            except Exception:
                return
            raise AssertionError("no error")
        """
    for attack, status in (
        ("os._exit(0)", "exit"),
        ("os.kill(os.getpid(), 9)", "signal"),
        ("os.closerange(3, 64)", "unserializable"),
        ("import time; time.sleep(60)", "timeout"),
        ("return 1", "failed"),
        ("return object()", "unserializable"),
        ("return bytearray(1 << 34)", "memory_limit"),
        ("raise ValueError", "ok"),
    ):
        limits = SOON if status == "timeout" else Limits(wall_s=20)
        result = arena.split(body(attack), test, limits)
        # An error for want of memory is an error too, for a suite that takes any.
        assert (attack, result.status) in {(attack, status), ("return bytearray(1 << 34)", "ok")}


@pytest.mark.parametrize("when", [0, 1, 2])
def test_leaving_before_the_last_question_is_never_a_pass(arena: Arena, when: int) -> None:
    source = f"""
        import os
        asked = []
        def scale(values, factor):
            if len(asked) == {when}: os._exit(0)
            asked.append(values)
            return [value * factor for value in values]
        """
    result = arena.split(source)
    assert (result.status, result.candidate_calls) == ("exit", when + 1)


def test_leaving_after_the_last_answer_takes_nothing_back(arena: Arena) -> None:
    source = """
        import os, threading, time
        asked = []
        def leave():
            time.sleep(0.05)
            os.kill(os.getpid(), 9)
        def scale(values, factor):
            asked.append(values)
            if len(asked) == 3: threading.Thread(target=leave).start()
            return [value * factor for value in values]
        """
    assert arena.split(source).status == "ok"


def test_an_answer_that_comes_with_the_end_is_an_end(arena: Arena) -> None:
    source = """
        import os, threading
        def scale(values, factor):
            if os.fork() == 0:
                return [value * factor for value in values]
            os._exit(0)
        """
    assert arena.split(source).status == "exit"


def test_both_halves_are_strangers(arena: Arena) -> None:
    """What a candidate leaves in files, names and processes is not there for the suite, nor the other way."""
    source = body(
        """
        import socket, time
        for path in ("/tmp/mark", "/dev/shm/mark", "/tmp/work/mark"):
            open(path, "w").close()
        if not values:
            kept = socket.socket(socket.AF_UNIX)
            kept.bind(b"\\0mark")
            kept.listen()
            globals()["kept"] = kept
            if os.fork() == 0:
                os.setsid()
                time.sleep(60)
        for path in ("/tmp/suite", "/dev/shm/suite", "/tmp/work/suite", "/tmp/work/test.py"):
            if os.path.exists(path): return [path]
        try:
            socket.socket(socket.AF_UNIX).connect(b"\\0suite")
            return ["met"]
        except OSError:
            pass
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if pid > 4]
        """
    )
    test = """
        import os, socket
        for path in ("/tmp/suite", "/dev/shm/suite", "/tmp/work/suite"):
            open(path, "w").close()
        mine = socket.socket(socket.AF_UNIX)
        mine.bind(b"\\0suite")
        mine.listen()
        def check(candidate):
            assert candidate([], 1) == []
            for path in ("/tmp/mark", "/dev/shm/mark", "/tmp/work/mark", "/tmp/work/solution.py"):
                assert not os.path.exists(path)
            try:
                socket.socket(socket.AF_UNIX).connect(b"\\0mark")
                raise AssertionError("met")
            except OSError:
                pass
            assert [int(name) for name in os.listdir("/proc") if name.isdigit()] == [os.getpid()]
            assert candidate([1], 1) == []
        """
    result = arena.split(source, test)
    assert (result.status, result.detail) == ("ok", "")


def test_a_suite_that_misbehaves_is_bounded_like_a_candidate(arena: Arena) -> None:
    for test, statuses in (
        ("import time; time.sleep(60)", {"timeout"}),
        ("import os; os._exit(0)", {"invalid_suite"}),
        ("import os; os.kill(os.getpid(), 9)", {"invalid_suite", "signal"}),
        ("x = bytearray(1 << 34)", {"invalid_suite", "memory_limit"}),
        ("def check(candidate):\n    candidate([], 1)\n    import os; os._exit(0)", {"invalid_suite"}),
        ("def check(candidate):\n    candidate([], 1)\n    raise SystemExit(0)", {"failed", "invalid_suite"}),
        (
            "def check(candidate):\n    candidate([], 1)\n    import sys; sys.exit('x')",
            {"failed", "invalid_suite"},
        ),
        (
            "def check(candidate):\n    import time\n    while True: candidate([], time.sleep(0.01))",
            {"timeout"},
        ),
        (
            "def check(candidate):\n    for _ in range(50): candidate('x' * 999, 1)\n    assert 0",
            {"failed"},
        ),
    ):
        result = arena.split(hostile.HONEST, test, SOON if "timeout" in statuses else Limits(wall_s=20))
        assert (test, result.status in statuses) == (test, True)


def test_questions_of_many_threads_get_their_own_answers_or_an_error(arena: Arena) -> None:
    """A suite may ask from several threads; whoever gets no answer must not get another's."""
    test = """
        import threading
        def check(candidate):
            lock, wrong = threading.Lock(), []
            def ask(number):
                with lock:
                    if candidate([number], 10) != [number * 10]: wrong.append(number)
            threads = [threading.Thread(target=ask, args=(number,)) for number in range(10)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert wrong == []
        """
    assert arena.split(hostile.HONEST, test, Limits(wall_s=20, processes=32)).status == "ok"


def test_exports_cannot_be_widened_or_swapped_by_the_candidate(arena: Arena) -> None:
    source = """
        def helper(x): return x + 1
        def secret(): return "s3cret"
        def scale(values, factor):
            globals()["helper"] = secret
            return [value * factor for value in values]
        """
    test = """
        def check(candidate):
            assert helper(1) == 2
            assert candidate([1], 2) == [2]
            assert helper(1) == 2
        """
    result = arena.split(source, test, exports=("helper",))
    assert result.status in ("exception", "failed")
    missing = arena.split(
        "def scale(v, f): return v\n", "def check(c):\n    assert helper(1) == 2", exports=("helper",)
    )
    assert missing.status == "exception"


def test_changes_in_place_reach_only_what_was_sent(arena: Arena) -> None:
    source = """
        def scale(values, factor):
            values.append("extra")
            values = None
            return [2, 4, 6]
        """
    test = """
        kept = {"inner": [1, 2, 3]}
        def check(candidate):
            mine = [1, 2, 3]
            assert candidate(mine, 2) == [2, 4, 6]
            assert mine == [1, 2, 3, "extra"]
            assert candidate(kept["inner"], 2) == [2, 4, 6]
            assert kept == {"inner": [1, 2, 3, "extra"]}
            assert candidate((1, 2).__class__([[1]])[0], 2)
            fixed = (1, [2])
            candidate(list(fixed), 2)
            assert fixed == (1, [2])
        """
    result = arena.split(source, test, in_place=True)
    assert (result.status, result.detail) == ("ok", "")
