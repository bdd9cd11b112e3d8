"""What each kind of job promises: values, verdicts, recorded calls, and the status that names them."""

import math
import textwrap
from pathlib import Path

import pytest

from sandbox import Call, ErrorRecord, Job, Limits, RecordedCall, Result, Sandbox


@pytest.fixture(scope="module")
def box() -> Sandbox:
    return Sandbox()


def calls(
    box: Sandbox, source: str, *args: tuple[object, ...], entry: str = "f", **options: object
) -> Result:
    source = textwrap.dedent(source)
    job = Job("calls", {"solution.py": source}, entry=entry, calls=[Call(a) for a in args], **options)
    return box.run(job)


def script(box: Sandbox, source: str, **options: object) -> Result:
    return box.run(Job("script", {"main.py": textwrap.dedent(source)}, **options))


def split(box: Sandbox, solution: str, test: str, **options: object) -> Result:
    files = {"solution.py": textwrap.dedent(solution), "test.py": textwrap.dedent(test)}
    return box.run(Job("split", files, entry="f", **options))


def suite(box: Sandbox, solution: str, test: str, **options: object) -> Result:
    files = {"solution.py": textwrap.dedent(solution), "test.py": textwrap.dedent(test)}
    return box.run(Job("unittest", files, entry="f", **options))


# -- calls


def test_each_call_returns_its_value_or_its_error(box: Sandbox) -> None:
    result = calls(box, "def f(x):\n    return 10 // x", (3,), (0,), (-1,))
    assert result.status == "ok"
    assert result.outputs[0] == 3
    assert result.outputs[1].type == "ZeroDivisionError"
    assert result.outputs[2] == -10
    assert result.trust == "external"
    assert result.isolation == "namespaces"


def test_values_keep_their_exact_types_on_the_way_back(box: Sandbox) -> None:
    result = calls(
        box, "def f(x):\n    return x", (True,), (1.0,), ((1, [2]),), ({1: {2}},), ("\ud800",), (1 << 9000,)
    )
    assert [type(value) for value in result.outputs] == [bool, float, tuple, dict, str, int]
    assert result.outputs[4] == "\ud800"
    assert result.outputs[5] == 1 << 9000


def test_nan_and_infinity_come_back(box: Sandbox) -> None:
    result = calls(box, "def f(x):\n    return x", (math.nan,), (-math.inf,), (-0.0,))
    assert math.isnan(result.outputs[0])
    assert result.outputs[1] == -math.inf
    assert math.copysign(1, result.outputs[2]) == -1


def test_a_call_cannot_spoil_the_next_ones_arguments(box: Sandbox) -> None:
    shared = [1, 2]
    result = calls(box, "def f(x):\n    x.append(3)\n    return x", (shared,), (shared,))
    assert result.outputs == [[1, 2, 3], [1, 2, 3]]
    assert shared == [1, 2]


def test_keyword_arguments_arrive(box: Sandbox) -> None:
    job = Job(
        "calls", {"solution.py": "def f(a, *, b): return a - b"}, entry="f", calls=[Call((5,), {"b": 3})]
    )
    assert box.run(job).outputs == [2]


def test_an_empty_list_of_calls_gives_no_outputs(box: Sandbox) -> None:
    result = calls(box, "def f(): pass")
    assert (result.status, result.outputs) == ("ok", [])


def test_a_value_without_encoding_is_unserializable_and_costs_no_other_call(box: Sandbox) -> None:
    result = calls(box, "def f(x):\n    return object() if x else 7", (0,), (1,), (0,))
    assert result.status == "unserializable"
    assert result.outputs[0] == result.outputs[2] == 7
    assert result.outputs[1] == ErrorRecord("object", result.outputs[1].message, raised=False)


def test_text_that_is_no_python_is_a_compile_error(box: Sandbox) -> None:
    assert calls(box, "def f(:", (1,)).status == "compile_error"
    assert calls(box, "x = '\ud800'", (1,)).status == "compile_error"
    assert calls(box, "x = 1\0", (1,)).status == "compile_error"


def test_a_byte_order_mark_is_no_part_of_a_program(box: Sandbox) -> None:
    assert script(box, "\ufeffprint(1)").stdout == "1\n"
    assert split(box, f"\ufeff{ADD}", f"\ufeff{CHECK}").status == "ok"


def test_a_missing_function_and_a_failing_import_are_exceptions(box: Sandbox) -> None:
    missing = calls(box, "g = 1", (1,))
    assert (missing.status, missing.detail) == ("exception", "solution.py has no function 'f'")
    assert calls(box, "import nowhere", (1,)).detail.startswith("ModuleNotFoundError")


def test_other_files_can_be_imported(box: Sandbox) -> None:
    files = {
        "solution.py": "from lib.tool import double as f",
        "lib/__init__.py": "",
        "lib/tool.py": "def double(x): return 2 * x",
    }
    assert box.run(Job("calls", files, entry="f", calls=[Call((4,))])).outputs == [8]


def test_the_hash_seed_is_fixed_unless_asked_otherwise(box: Sandbox) -> None:
    source = "def f():\n    return hash('seed')"
    default = [calls(box, source, ()).outputs[0] for _ in range(2)]
    other = calls(box, source, (), hash_seed=7).outputs[0]
    random = {calls(box, source, (), hash_seed=None).outputs[0] for _ in range(3)}
    assert default[0] == default[1] != other
    assert len(random) > 1


def test_packages_are_importable_only_when_given(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "extra.py").write_text("answer = 42")
    tmp_path.chmod(0o755)
    source = "def f():\n    import extra\n    return extra.answer"
    assert calls(box, source, ()).outputs[0].type == "ModuleNotFoundError"
    assert calls(Sandbox(packages=[tmp_path]), source, ()).outputs == [42]


# -- scripts


def test_a_script_reads_stdin_and_writes_both_streams(box: Sandbox) -> None:
    result = script(box, "import sys\nprint(input()[::-1])\nprint('e', file=sys.stderr)", stdin="abc\nrest")
    assert (result.status, result.stdout, result.stderr, result.exit_code) == ("ok", "cba\n", "e\n", 0)


def test_a_script_is_main_and_sees_its_arguments(box: Sandbox) -> None:
    result = script(box, "import sys\nprint(__name__, sys.argv[1:], __file__)", argv=("a b", "c"))
    assert result.stdout == "__main__ ['a b', 'c'] /tmp/work/main.py\n"


def test_large_stdin_is_delivered_whole(box: Sandbox) -> None:
    result = script(box, "import sys\nprint(len(sys.stdin.read()))", stdin="x" * 3_000_000)
    assert result.stdout == "3000000\n"


@pytest.mark.parametrize(
    ("source", "status", "code"),
    [
        ("exit(3)", "exit", 3),
        ("import os; os._exit(4)", "exit", 4),
        ("raise SystemExit", "ok", 0),
        ("raise SystemExit('why')", "exit", 1),
        ("1 / 0", "exception", 1),
        ("x = ", "compile_error", 1),
        ("import os; os.kill(os.getpid(), 9)", "signal", None),
        ("import os; os.abort()", "signal", None),
    ],
)
def test_the_end_of_a_script_is_named(box: Sandbox, source: str, status: str, code: int | None) -> None:
    result = script(box, source)
    assert (result.status, result.exit_code) == (status, code)


def test_a_traceback_shows_the_program_and_not_the_harness(box: Sandbox) -> None:
    result = script(box, "def g():\n    1 / 0\ng()")
    assert "main.py" in result.stderr
    assert "harness" not in result.stderr


def test_exit_handlers_and_threads_of_a_script_finish(box: Sandbox) -> None:
    result = script(
        box,
        """
        import atexit, threading, time
        atexit.register(print, "handler")
        threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
        print("main")
        """,
    )
    assert result.stdout == "main\nthread\nhandler\n"


def test_output_that_is_not_text_is_replaced(box: Sandbox) -> None:
    result = script(box, r"import os; os.write(1, b'a\xff\xfeb'); os.write(2, b'\x80')")
    assert result.stdout == "a\ufffd\ufffdb"
    assert result.stderr == "\ufffd"


# -- split


ADD = "def f(a, b):\n    return a + b"
CHECK = "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate('a', 'b') == 'ab'"


def test_a_right_candidate_passes_and_its_calls_are_counted(box: Sandbox) -> None:
    result = split(box, ADD, CHECK)
    assert (result.status, result.candidate_calls, result.trust) == ("ok", 2, "split")


def test_a_wrong_candidate_fails(box: Sandbox) -> None:
    result = split(box, "def f(a, b):\n    return 3", CHECK)
    assert (result.status, result.candidate_calls) == ("failed", 2)


@pytest.mark.parametrize(
    "test",
    [
        "",
        "def check(candidate):\n    pass",
        "def check(candidate):\n    assert False",
        "assert False",
        "import nowhere",
        "def check(:",
    ],
)
def test_a_suite_that_never_calls_says_nothing(box: Sandbox, test: str) -> None:
    assert split(box, ADD, test).status == "invalid_suite"


def test_a_suite_that_passes_what_cannot_travel_is_invalid(box: Sandbox) -> None:
    result = split(
        box, "def f(g):\n    return g(1)", "def check(candidate):\n    assert candidate(lambda x: x) == 1"
    )
    assert result.status == "invalid_suite"


def test_builtin_exceptions_are_raised_again_as_themselves(box: Sandbox) -> None:
    solution = """
        class Special(KeyError): pass
        def f(kind):
            if kind == "value": raise ValueError("no", 3)
            if kind == "special": raise Special("k")
            if kind == "unicode": b"\\xff".decode()
            raise type("Own", (Exception,), {})("mine")
        """
    test = """
        def raised(candidate, kind):
            try: candidate(kind)
            except Exception as error: return error
        def check(candidate):
            assert raised(candidate, "value").args == ("no", 3)
            assert type(raised(candidate, "special")) is KeyError
            assert type(raised(candidate, "unicode")) is UnicodeDecodeError
            own = raised(candidate, "own")
            assert type(own).__name__ == "CandidateError" and str(own) == "Own: mine"
        """
    result = split(box, solution, test)
    assert (result.status, result.detail) == ("ok", "")


@pytest.mark.parametrize(
    "body", ["raise StopIteration", "raise StopIteration(2)", "raise type('S', (StopIteration,), {})"]
)
def test_a_candidate_cannot_end_the_suites_own_loops(box: Sandbox, body: str) -> None:
    test = "assert all(got == want for got, want in zip(map(candidate, [1, 2]), [2, 4]))"
    result = split(box, f"def f(x):\n    {body}", test)
    assert (result.status, result.candidate_calls) == ("exception", 1)


def test_an_exception_that_cannot_be_made_again_is_no_other_builtin_one(box: Sandbox) -> None:
    test = """
        def check(candidate):
            try:
                candidate(1)
            except TypeError:
                pass
        """
    result = split(box, "def f(x):\n    raise ExceptionGroup('x', [ValueError()])", test)
    assert (result.status, result.candidate_calls) == ("exception", 1)


def test_values_nested_nearly_too_deeply_do_not_disturb_an_answer(box: Sandbox) -> None:
    solution = """
        def f(x, depth):
            y = 1
            for _ in range(depth): y = [y]
            x.append(y)
            raise ValueError(y)
        """
    test = """
        def check(candidate):
            for depth in range(90, 110):
                try:
                    candidate([], depth)
                except ValueError:
                    pass
        """
    files = {"solution.py": textwrap.dedent(solution), "test.py": textwrap.dedent(test)}
    result = box.run(Job("split", files, entry="f", in_place=True))
    assert (result.status, result.detail, result.candidate_calls) == ("ok", "", 20)


def test_an_exception_of_the_candidate_that_leaves_the_suite_is_named_so(box: Sandbox) -> None:
    result = split(box, "def f(a, b):\n    raise KeyError(a)", CHECK)
    assert result.status == "exception"
    assert "KeyError" in result.detail


def test_system_exit_of_the_candidate_does_not_end_the_suite(box: Sandbox) -> None:
    result = split(box, "def f(a, b):\n    raise SystemExit(0)", CHECK)
    assert result.status == "exception"


def test_changes_in_place_reach_the_suite_when_asked_for(box: Sandbox) -> None:
    solution = "def f(items, table):\n    items.sort()\n    table['n'] = len(items)"
    test = """
        def check(candidate):
            a, b = [3, 1], {}
            assert candidate(a, b) is None
            assert (a, b) == ([1, 3], {"n": 2})
        """
    assert split(box, solution, test, in_place=True).status == "ok"
    assert split(box, solution, test).status == "failed"


def test_a_candidate_cannot_bend_what_the_suite_compares_with(box: Sandbox) -> None:
    solution = "def f(items):\n    items.clear()\n    return []"
    test = "def check(candidate):\n    items = [3, 1]\n    assert candidate(items) == sorted(items)"
    assert split(box, solution, test).status == "failed"


def test_the_suite_may_be_assertions_functions_or_test_cases(box: Sandbox) -> None:
    plain = "assert f(1, 2) == 3"
    functions = "from solution import f\ndef test_add():\n    assert f(1, 2) == 3"
    cases = """
        import unittest
        class T(unittest.TestCase):
            def test_add(self):
                self.assertEqual(f(1, 2), 3)
        """
    for test in (plain, functions, cases):
        assert split(box, ADD, test).status == "ok"
        assert split(box, "def f(a, b):\n    return 4", test).status == "failed"


def test_exported_functions_can_be_called_and_others_cannot(box: Sandbox) -> None:
    solution = "def f(x):\n    return helper(x)\ndef helper(x):\n    return x + 1"
    test = "def check(candidate):\n    assert candidate(1) == helper(1) == 2"
    assert split(box, solution, test, exports=("helper",)).status == "ok"
    assert split(box, solution, test).status == "failed"


def test_the_candidate_never_has_the_tests(box: Sandbox) -> None:
    solution = """
        import os, sys
        def f(a, b):
            seen = [os.listdir("."), sorted(sys.modules)]
            try:
                seen.append(open("test.py").read())
            except OSError:
                pass
            print("SECRET" in repr(seen), "test.py" in repr(seen))
            return a + b
        """
    result = split(box, solution, CHECK + "\nSECRET = 1")
    assert (result.status, result.stdout) == ("ok", "False False\nFalse False\n")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("os._exit(0)", "exit"),
        ("os.kill(os.getpid(), 11)", "signal"),
        ("while True: pass", "timeout"),
        ("return bytearray(1 << 31)", "memory_limit"),
        ("return object()", "unserializable"),
    ],
)
def test_the_candidates_end_is_named(box: Sandbox, body: str, status: str) -> None:
    limits = Limits(wall_s=1 if status == "timeout" else 20)
    result = split(box, f"import os\ndef f(a, b):\n    {body}", CHECK, limits=limits)
    assert result.status == status


def test_a_candidate_that_does_not_load_is_not_the_suites_failure(box: Sandbox) -> None:
    assert split(box, "def f(", CHECK).status == "compile_error"
    assert split(box, "raise ValueError", CHECK).status == "exception"
    assert split(box, "import sys; sys.exit(0)", CHECK).status == "exit"


# -- suites of references and recording


def test_a_reference_under_its_own_suite_is_recorded(box: Sandbox) -> None:
    solution = """
        def double(x):
            return 2 * x
        def f(items):
            return [double(item) for item in items]
        """
    test = "def check(candidate):\n    assert candidate([1, 2]) == [2, 4]\n    assert candidate([2]) == [4]"
    result = suite(box, solution, test, record=("f", "double"))
    assert (result.status, result.trust) == ("ok", "inproc")
    assert result.recorded == [
        RecordedCall("double", (1,), {}, 2, depth=1),
        RecordedCall("double", (2,), {}, 4, depth=1),
        RecordedCall("f", ([1, 2],), {}, [2, 4]),
        RecordedCall("f", ([2],), {}, [4]),
    ]


def test_arguments_are_recorded_as_they_were_and_mutation_is_told(box: Sandbox) -> None:
    result = calls(box, "def f(x):\n    x.append(len(x))\n    return x", ([],), ([5],), record=("f",))
    assert [(call.args, call.value, call.mutated) for call in result.recorded] == [
        (([],), [0], True),
        (([5],), [5, 1], True),
    ]


def test_errors_are_recorded_and_still_raised(box: Sandbox) -> None:
    source = """
        def g(x):
            raise ValueError('bad')
        def f(x):
            try:
                g(x)
            except ValueError:
                return 'caught'
        """
    result = calls(box, source, (1,), record=("g",))
    assert result.outputs == ["caught"]
    assert result.recorded[0].error == ErrorRecord("ValueError", "bad")


def test_what_cannot_be_recorded_is_counted_and_does_no_harm(box: Sandbox) -> None:
    source = "def g(x):\n    return x\ndef f(n):\n    g(object())\n    g('x' * 1000)\n    return g(n)"
    result = calls(box, source, (3,), record=("g",), record_bytes=200)
    assert result.outputs == [3]
    assert [call.args for call in result.recorded] == [(3,)]
    assert result.record_skipped == 2


def test_records_are_bounded_and_outer_calls_keep_their_place(box: Sandbox) -> None:
    source = "def f(n):\n    return n and f(n - 1)"
    result = calls(box, source, (100,), record=("f",), record_max=5)
    assert len(result.recorded) == 5
    assert result.recorded[-1].args == (100,)
    assert result.recorded[-1].depth == 0


def test_recorded_calls_survive_a_timeout(box: Sandbox) -> None:
    source = "def g(n):\n    return n\ndef f(n):\n    g(n)\n    while True: pass"
    result = calls(box, source, (1,), record=("g",), limits=Limits(wall_s=1))
    assert result.status == "timeout"
    assert [call.args for call in result.recorded] == [(1,)]


def test_a_failing_reference_is_failed(box: Sandbox) -> None:
    result = suite(
        box, "def f(x):\n    return x", "def check(candidate):\n    assert candidate(1) == 2, 'off by one'"
    )
    assert (result.status, result.detail) == ("failed", "AssertionError: off by one")


# -- refusals


def test_an_unknown_language_is_an_error_and_no_verdict(box: Sandbox) -> None:
    with pytest.raises(ValueError, match="'cobol'"):
        box.run(Job("script", {"main.py": ""}, lang="cobol"))


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../b", "", "a//b", "a\0b"])
def test_files_stay_below_the_working_folder(name: str) -> None:
    with pytest.raises(ValueError, match="relative path"):
        Job("script", {"main.py": "", name: ""})


@pytest.mark.parametrize("field", ["wall_s", "cpu_s"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "1"])
def test_senseless_seconds_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        Limits(**{field: value})


@pytest.mark.parametrize(
    "field", ["memory_mb", "processes", "file_mb", "tmpfs_mb", "output_kb", "open_files"]
)
@pytest.mark.parametrize("value", [0, -1, 1.5, True, 1 << 40])
def test_senseless_counts_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        Limits(**{field: value})


def test_a_job_that_lacks_its_files_is_refused() -> None:
    with pytest.raises(ValueError, match=r"test\.py"):
        Job("split", {"solution.py": ""}, entry="f")
    with pytest.raises(ValueError, match="module-level function"):
        Job("calls", {"solution.py": ""}, entry="A.f")
