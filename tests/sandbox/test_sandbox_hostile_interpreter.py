"""Candidates that tamper with the interpreter they share with the harness: names, modules, hooks, types.

Whatever they change, the harness carries values only. A candidate that breaks it gets no verdict but its
own failure; one that then still gives right values has given right values.
"""

import hostile
import pytest
from hostile import FAST, SOON, Arena, body

from sandbox import Call, Limits

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)

BROKEN = {"exception", "exit", "unserializable", "memory_limit", "signal", "timeout"}
LIES = {
    "kinds": "type isinstance issubclass callable object property super id hash",
    "values": "int bool float str bytes bytearray memoryview list tuple dict set frozenset range",
    "walks": "len iter next zip map filter enumerate sorted reversed min max sum any all",
    "names": "getattr setattr hasattr delattr vars dir globals locals",
    "code": "__import__ compile exec eval print open repr ascii format __build_class__",
    "errors": "BaseException Exception SystemExit MemoryError RecursionError OSError BlockingIOError",
}


@pytest.mark.parametrize("names", LIES)
def test_a_builtin_that_lies_makes_no_wrong_value_right(arena: Arena, names: str) -> None:
    for name in LIES[names].split():
        source = body(f"import builtins\nbuiltins.{name} = lambda *a, **k: True\nreturn None")
        by_value, by_suite = arena.verdicts(source, SOON)
        assert (name, by_value in {"wrong", *BROKEN}, by_suite in {"failed", *BROKEN}) == (name, True, True)


def test_builtins_that_are_gone_make_no_wrong_value_right(arena: Arena) -> None:
    for attack in (
        "import builtins\nbuiltins.__dict__.clear()",
        "import builtins\nfor name in dir(builtins):\n    setattr(builtins, name, None)",
        "import builtins\nfor name in dir(builtins):\n    setattr(builtins, name, lambda *a, **k: [2, 4, 6])",
    ):
        by_value, by_suite = arena.verdicts(body(f"{attack}\nreturn None"), SOON)
        assert by_value in {"wrong", *BROKEN}
        assert by_suite in {"failed", *BROKEN}


@pytest.mark.parametrize(
    "attack",
    [
        "os.write = lambda n, data: len(data)",
        "os.write = lambda n, data: 1 / 0",
        "os._exit = lambda code: None",
        "os.getpid = lambda: 0",
        "os.read = lambda n, size: b''",
        "os.fork = os.kill = os.waitpid = None",
        "import struct\nstruct.Struct = struct.pack = struct.unpack = lambda *a: b''",
        "import json, pickle, copyreg, marshal\njson.dumps = pickle.dumps = marshal.dumps = lambda *a: b''",
        "import copyreg\ncopyreg.dispatch_table[list] = lambda one: (list, ([2, 4, 6],))",
        "import codecs\ncodecs.register(len)\ncodecs.register_error('strict', lambda e: ('', e.end))",
        "import atexit\natexit.register(os._exit, 0)\natexit._run_exitfuncs = lambda: None",
        "import threading\nthreading._shutdown = lambda: os._exit(0)",
        "import gc\ngc.disable(); gc.set_threshold(1); gc.freeze()",
        "import warnings\nwarnings.simplefilter('error')\nwarnings.showwarning = None",
        "import locale\nlocale.setlocale(locale.LC_ALL, 'C')",
        "import decimal\ndecimal.getcontext().prec = 1\ndecimal.DefaultContext.prec = 1",
        "import random\nrandom.seed(0)\nrandom.random = lambda: 0",
        "import linecache, traceback\ntraceback.print_exception = linecache.getline = None",
        "import asyncio\nasyncio.set_event_loop_policy(None)",
        "import socket\nsocket.setdefaulttimeout(0.001)",
        "import logging\nlogging.raiseExceptions = False\nlogging.disable(50)\nlogging.shutdown()",
        "import collections.abc\ncollections.abc.Sequence.register(dict)",
        "import functools\nfunctools.lru_cache(lambda: 0)()\nfunctools.wraps = None",
        "sys.path.clear(); sys.meta_path.clear(); sys.path_hooks.clear(); sys.path_importer_cache.clear()",
        "sys.argv[:] = ['pytest', 'test.py']\nsys.flags = None",
        "sys.modules.clear()",
        "for name in list(sys.modules): sys.modules[name] = None",
        "sys.excepthook = sys.unraisablehook = sys.displayhook = lambda *a: os._exit(0)",
        "sys.setswitchinterval(1e-6); sys.set_int_max_str_digits(640); sys.setrecursionlimit(10**6)",
        "sys.setprofile(lambda *a: None)\nsys.settrace(lambda *a: None)",
        "sys.addaudithook(lambda *a: None)",
        "sys.meta_path.insert(0, type('F', (), {'find_spec': lambda *a: os._exit(0)}))",
        "import importlib\nimportlib.invalidate_caches(); importlib.reload(os)",
        "import ctypes\nctypes.pythonapi.PyErr_SetInterrupt",
        "os.environ['PYTHONPATH'] = '/tmp/work'\nos.environ['LD_PRELOAD'] = '/tmp/x.so'\nos.putenv('A', 'b')",
        "os.umask(0o777); os.chdir('/'); os.nice(5)",
        "import resource\nresource.setrlimit(resource.RLIMIT_STACK, (1 << 16, 1 << 16))",
    ],
)
def test_a_library_in_disorder_stops_no_right_answer(arena: Arena, attack: str) -> None:
    attack = "\n".join(f"    {line}" for line in attack.split("\n"))
    source = body(f"if values == [1, 2, 3]:\n{attack}\nreturn [value * factor for value in values]")
    assert arena.verdicts(source) == ("pass", "pass")


@pytest.mark.parametrize(
    "attack",
    [
        "sys.settrace(lambda *a: os._exit(0))\nscale.__name__\n(lambda: 0)()",
        "sys.setprofile(lambda *a: os._exit(0))",
        "sys.addaudithook(lambda *a: os._exit(0))\nopen('/dev/null')",
        "import gc\ngc.callbacks.append(lambda *a: os._exit(0))\ngc.collect()",
        "import threading as t\nt.setprofile(lambda *a: os._exit(0))\nt.Thread(target=print).start()\n"
        "while True: pass",
        "import weakref\nclass C: pass\nweakref.finalize(C(), os._exit, 0)",
        "sys.unraisablehook = lambda *a: os._exit(0)\nclass D:\n    def __del__(self): 1 / 0\nD()",
    ],
)
def test_a_hook_that_leaves_is_an_exit(arena: Arena, attack: str) -> None:
    assert arena.verdicts(body(f"{attack}\nreturn None"), SOON) == ("exit", "exit")


def test_an_audit_hook_sees_the_harness_and_finds_nothing_to_change(arena: Arena) -> None:
    source = """
        import sys
        seen = []
        sys.addaudithook(lambda name, arguments: seen.append((name, arguments)))
        def scale(values, factor):
            for name, arguments in seen:
                for one in arguments:
                    if isinstance(one, (list, dict, bytearray)): one.clear()
            return None
        """
    assert arena.verdicts(source) == ("wrong", "failed")


def test_a_tracer_may_change_what_the_harness_sends_but_not_what_is_right(arena: Arena) -> None:
    source = """
        import sys
        def tracer(frame, event, argument):
            for name, value in list(frame.f_locals.items()):
                if type(value) is bytearray: value[:] = b"i\\x01\\x07"
                elif type(value) is list and value == [None]: value[:] = [7]
            return tracer
        def scale(values, factor):
            frame = sys._getframe()
            while frame:
                frame.f_trace, frame = tracer, frame.f_back
            sys.settrace(tracer)
            return None
        """
    by_value, by_suite = arena.verdicts(source, SOON)
    assert by_value in {"wrong", *BROKEN}
    assert by_suite in {"failed", *BROKEN}


CODEC_HUNT = """
import gc, os, sys, types
def functions():
    names = ("encode", "put", "send", "pack", "outcome_of", "of", "name_of", "fail", "main", "finish")
    frame, found = sys._getframe(), []
    spaces = [one for one in gc.get_objects() if type(one) is dict and "__name__" in one]
    while frame:
        spaces.append(frame.f_globals)
        frame = frame.f_back
    for space in spaces:
        if str(space.get("__name__", "")).startswith("sandbox"):
            for value in list(space.values()):
                if type(value) is types.FunctionType: found.append(value)
                elif type(value) is type:
                    found += [v for v in vars(value).values() if type(v) is types.FunctionType]
                elif type(value) is types.ModuleType:
                    found += [v for v in vars(value).values() if type(v) is types.FunctionType]
    return [one for one in found if one.__name__ in names]
def constant(text):
    return compile(text, "x", "eval").co_consts
"""


@pytest.mark.parametrize(
    "change",
    [
        "one.__code__ = (lambda *a, **k: b'').__code__",
        "one.__code__ = (lambda *a, **k: b'vl' + bytes([1]) + b'i' + bytes([1, 7])).__code__",
        "one.__code__ = (lambda *a, **k: None).__code__",
        "one.__defaults__ = (0, 0)\n        one.__kwdefaults__ = {'max_bytes': 0, 'max_depth': 0}",
        "one.__code__ = one.__code__.replace(co_consts=tuple(None for _ in one.__code__.co_consts))",
        "one.__globals__.clear()",
    ],
)
def test_a_harness_with_other_code_in_it_makes_no_wrong_value_right(arena: Arena, change: str) -> None:
    source = f"""{CODEC_HUNT}
def scale(values, factor):
    for one in functions():
        try:
            {change.replace(chr(10) + "        ", chr(10) + "            ")}
        except Exception: pass
    return None
"""
    by_value, by_suite = arena.verdicts(source, SOON)
    assert by_value in {"wrong", *BROKEN}
    assert by_suite in {"failed", *BROKEN}


@pytest.mark.parametrize("value", ["1", "5", "256", "0"])
def test_a_number_rewritten_in_memory_is_rewritten_for_this_program_only(arena: Arena, value: str) -> None:
    source = body(
        f"""
        import ctypes
        # The digits of a small integer, which the whole interpreter shares.
        at = id({value}) + ({value}).__sizeof__() - 4
        ctypes.c_uint32.from_address(at).value = 77
        return None
        """
    )
    by_value, by_suite = arena.verdicts(source, SOON)
    assert by_value in {"wrong", *BROKEN}
    assert by_suite in {"failed", *BROKEN}


def test_a_type_rewritten_in_memory_is_rewritten_for_this_program_only(arena: Arena) -> None:
    source = body(
        """
        import ctypes, gc
        for kind in (int, str, list, dict, bytes, type(None), object, type(print)):
            space = gc.get_referents(kind.__dict__)[0]
            for name in ("__eq__", "__len__", "__add__", "__iter__", "__str__", "bit_length", "encode"):
                space[name] = lambda *a: True
            ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
        return None
        """
    )
    by_value, by_suite = arena.verdicts(source, SOON)
    assert by_value in {"wrong", *BROKEN}
    assert by_suite in {"failed", *BROKEN}


def test_the_constants_of_the_interpreter_swapped_are_swapped_for_this_program_only(arena: Arena) -> None:
    source = body(
        """
        import ctypes
        for a, b in ((True, False), (None, Ellipsis)):
            size = min(a.__sizeof__(), b.__sizeof__())
            ctypes.memmove(id(a) + 8, ctypes.string_at(id(b) + 8, size - 8), size - 8)
        return None
        """
    )
    by_value, by_suite = arena.verdicts(source, SOON)
    assert by_value in {"wrong", *BROKEN}
    assert by_suite in {"failed", *BROKEN}


@pytest.mark.parametrize("limit", [1, 60, 100, 1 << 30])
def test_a_recursion_limit_of_its_own_is_the_candidates_trouble(arena: Arena, limit: int) -> None:
    source = body(
        f"""
        depth, frame = 0, sys._getframe()
        while frame:
            depth, frame = depth + 1, frame.f_back
        for extra in range({limit}, {limit} + 60):
            try:
                sys.setrecursionlimit(extra)
                break
            except RecursionError:
                pass
        return None
        """
    )
    by_value, by_suite = arena.verdicts(source)
    assert by_value in {"wrong", *BROKEN}
    assert by_suite in {"failed", *BROKEN}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("import sys\nsys.modules['solution'] = None\n", id="no module"),
        pytest.param(
            "import sys, types\nsys.modules['solution'] = types.ModuleType('solution')\n", id="another"
        ),
        pytest.param("import sys\nsys.modules['__main__'] = sys.modules['solution'] = sys\n", id="main"),
        pytest.param("__name__ = '__main__'\n__file__ = '/test.py'\n__builtins__ = {}\n", id="own names"),
        pytest.param(
            "import sys\nclass test_suite: pass\nsys.modules['test_suite'] = test_suite\n", id="the suite"
        ),
        pytest.param("import sys\nsys.modules['unittest'] = sys.modules['pytest'] = sys\n", id="unittest"),
        pytest.param("def __getattr__(name): return lambda *a: True\n", id="any name"),
        pytest.param(
            "import builtins\nbuiltins.candidate = builtins.check = lambda *a: True\n", id="builtins"
        ),
        pytest.param("def check(candidate): return True\ndef test_ok(): pass\n", id="a suite of its own"),
        pytest.param("candidate = scale = lambda *a: [2, 4, 6]\n", id="an earlier function of the name"),
    ],
)
def test_games_with_modules_do_not_reach_the_suite(arena: Arena, source: str) -> None:
    assert arena.verdicts(source + hostile.HONEST) == ("pass", "pass")
    assert arena.verdicts(f"{source}def scale(values, factor): return None\n") == ("wrong", "failed")


def test_an_entry_that_is_no_ordinary_function_is_called_all_the_same(arena: Arena) -> None:
    multiply = "[value * factor for value in values]"
    for source in (
        f"import functools\n@functools.lru_cache\ndef inner(values, factor): return {multiply}\n"
        f"scale = lambda values, factor: {multiply}\n",
        f"class S:\n    def __call__(self, values, factor): return {multiply}\nscale = S()\n",
        f"class S:\n    @staticmethod\n    def of(values, factor): return {multiply}\nscale = S.of\n",
        f"import functools\nscale = functools.partial(lambda n, values, factor: {multiply}, 0)\n",
    ):
        assert arena.verdicts(source) == ("pass", "pass")
    for source, by_value, by_suite in (
        ("scale = 7\n", "exception", "exception"),
        ("scale = None\n", "exception", "exception"),
        ("class scale:\n    def __init__(self, *a): pass\n", "unserializable", "unserializable"),
        (f"async def scale(values, factor): return {multiply}\n", "unserializable", "unserializable"),
        (
            "def scale(values, factor):\n    yield from [v * factor for v in values]\n",
            *["unserializable"] * 2,
        ),
        ("def scale(*, values, factor): return []\n", "wrong", "exception"),
    ):
        assert (source, *arena.verdicts(source)) == (source, by_value, by_suite)


def test_an_entry_that_replaces_itself_is_still_asked_each_time(arena: Arena) -> None:
    source = body(
        "global scale\nscale = lambda *a: []\nsys.modules['solution'].scale = scale\n"
        "return [value * factor for value in values]"
    )
    by_value = arena.calls(source)
    assert hostile.verdict(by_value) == "pass"
    # A half of a split job looks its function up by name for each question.
    assert arena.split(source).status in ("ok", "failed")


def test_a_program_that_is_its_own_interpreter_is_one_program(arena: Arena) -> None:
    source = body(
        "import subprocess\nreturn subprocess.run([sys.executable, '-I', '-S', '-c', 'print(1)'], "
        "capture_output=True, text=True).stdout",
    )
    result = arena.calls(source, calls=[Call(([], 1))])
    assert result.outputs == ["1\n"]


def test_sub_interpreters_and_other_threads_run_under_the_same_limits(arena: Arena) -> None:
    source = body(
        """
        import threading
        try:
            import _xxsubinterpreters as sub
            other = sub.create()
            threading.Thread(target=sub.run_string, args=(other, "while True: pass"), daemon=True).start()
        except ImportError:
            pass
        while True: pass
        """
    )
    assert arena.verdicts(source, FAST) == ("timeout", "timeout")


def test_a_very_long_program_is_read_or_refused(arena: Arena) -> None:
    for source, statuses in (
        ("x = 1\n" * 200_000, {"pass"}),
        (f"x = {'[' * 150}{']' * 150}\n", {"pass"}),
        (f"x = {'(' * 300}{')' * 300}\n", {"compile_error"}),
        (f"x = {'-' * 100_000}1\n", {"compile_error", "memory_limit", "signal", "exception"}),
        (f"{'#' * 2_000_000}\n", {"pass"}),
        ("if 1:\n" * 1 + "".join(f"{' ' * n}if 1:\n" for n in range(1, 120)), {"compile_error"}),
        ("x = 1\r" * 100, {"pass"}),
        ("\f\n\t\n", {"pass"}),
    ):
        result = arena.calls(source + hostile.HONEST, Limits(wall_s=20))
        assert hostile.verdict(result) in statuses
