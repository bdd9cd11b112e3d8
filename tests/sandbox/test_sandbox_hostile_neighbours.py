"""What one job can learn of another or do to it, one after the other and at the same time: nothing.

A warm interpreter is forked for each job, so anything that it draws, keeps or learns would be shared.
"""

import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import hostile
import pytest
from hostile import FAST, SCAN, Arena, body

from sandbox import Call, Job, Limits, Result, Sandbox

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)

# Each twice as long as what could turn up by chance, and never next to each other in this file.
FIRST, SECOND = "Wd3xN8rTe5", "hJ6yC1uQa0"
NEEDLE = FIRST + SECOND


def scanned(arena: Arena) -> list[Any]:
    source = f"{SCAN}\ndef probe(): return scan({FIRST.encode()!r}, {SECOND.encode()!r})\n"
    return arena.probed(source, Limits(wall_s=20, memory_mb=1024))


def test_nothing_of_an_earlier_job_is_in_the_memory_of_a_later_one(arena: Arena) -> None:
    """Its source, file names, calls, values, input, arguments, output and errors are looked for."""
    source = f"kept = {NEEDLE!r} * 1000\ndef scale(x, y=''):\n    print(kept)\n    return kept + x + y\n"
    calls = [Call((NEEDLE,), {"y": NEEDLE}), Call(([NEEDLE],))]
    result = arena.calls(source, calls=calls, record=["scale"])
    assert result.outputs[0].startswith(NEEDLE)
    assert result.outputs[1].type == "TypeError"
    script = f"import sys\nprint(sys.stdin.read(), {NEEDLE!r})\nraise ValueError({NEEDLE!r})"
    result = arena.script(script, stdin=NEEDLE * 5000, argv=(NEEDLE,))
    assert result.status == "exception"
    files = {"main.py": "", f"{NEEDLE}/{NEEDLE}": NEEDLE}
    assert arena.box.run(Job("script", files)).status == "ok"
    test = f"def check(candidate):\n    assert candidate({NEEDLE!r}) == {NEEDLE!r}"
    assert arena.split(f"def scale(x):\n    '{NEEDLE}'\n    return x\n", test).status == "ok"
    assert scanned(arena) == [0, 0, 0]


def test_nothing_of_a_job_that_was_stopped_is_in_the_memory_of_a_later_one(arena: Arena) -> None:
    for end in (
        "import time; time.sleep(60)",
        "import os; os.abort()",
        "x = bytearray(1 << 34)",
        "raise SystemExit(1)",
    ):
        source = f"kept = ['{NEEDLE}' + str(n) for n in range(1000)]\nprint(kept, flush=True)\n{end}\n"
        assert arena.calls(source + hostile.HONEST, FAST).status != "ok"
    assert scanned(arena) == [0, 0, 0]


def test_a_job_at_the_same_time_is_out_of_sight(arena: Arena) -> None:
    busy = f"import time\nkept = '{NEEDLE}'\nprint(kept, flush=True)\ntime.sleep(0.5)\n"
    look = f"{SCAN}\nprint(scan({FIRST.encode()!r}, {SECOND.encode()!r}))\n"
    job = Job("script", {"main.py": busy}, stdin=NEEDLE, limits=Limits(wall_s=20))
    with Sandbox(workers=2) as box:
        thread = threading.Thread(target=box.run, args=(job,))
        thread.start()
        seen = [
            box.run(Job("script", {"main.py": look}, limits=Limits(wall_s=20, memory_mb=1024))).stdout
            for _ in range(4)
        ]
        thread.join()
    assert seen == ["0\n"] * 4


DRAWS = """
def draws():
    import os, random, secrets, tempfile, uuid, hashlib, ctypes, threading
    folder = tempfile.mkdtemp()
    number, name = tempfile.mkstemp()
    os.close(number)
    space = ctypes.create_string_buffer(16)
    ctypes.CDLL(None).getrandom(space, 16, 0)
    made = [
        random.random(), random.getrandbits(64), random.Random().random(), random.SystemRandom().random(),
        random.sample(range(10**9), 2), random.uniform(0, 1), random.gauss(0, 1), os.urandom(8).hex(),
        secrets.token_hex(8), folder, name, tempfile.mktemp(), space.raw.hex(),
        str(uuid.uuid4()), str(uuid.uuid1()),
    ]
    try:
        import ssl
        made.append(ssl.RAND_bytes(8).hex())
    except ImportError:
        pass
    return made
"""


def twice_the_same(lists: list[list[Any]]) -> list[Any]:
    return [one for position in zip(*lists, strict=True) for one in position if position.count(one) > 1]


@pytest.mark.parametrize(
    "preload",
    [(), ("random", "tempfile", "uuid", "secrets", "ssl", "hashlib")],
    ids=["plain", "loaded ahead"],
)
def test_no_two_jobs_draw_the_same_at_random(preload: tuple[str, ...]) -> None:
    source = DRAWS + "scale = draws\n"
    job = Job(
        "calls", {"solution.py": source}, entry="scale", calls=[Call(), Call()], limits=Limits(wall_s=20)
    )
    script = Job("script", {"main.py": DRAWS + "print(draws())"}, limits=Limits(wall_s=20))
    with Sandbox(workers=2, preload=preload) as box:
        results = list(box.map([job] * 6))
        scripts = [hostile.told_by(result) for result in box.map([script] * 4)]
    assert {result.status for result in results} == {"ok"}
    drawn = [output for result in results for output in result.outputs] + scripts
    assert all(isinstance(one, list) for one in drawn)
    assert twice_the_same(drawn) == []


def test_the_halves_of_a_split_job_do_not_draw_the_same(arena: Arena) -> None:
    test = textwrap.dedent(DRAWS) + textwrap.dedent(
        """
        mine = draws()
        def check(candidate):
            theirs = candidate()
            assert not [a for a, b in zip(mine, theirs) if a == b], (mine, theirs)
        """
    )
    result = arena.split(DRAWS + "scale = draws\n", test)
    assert (result.status, result.detail) == ("ok", "")


def test_a_job_that_seeds_leaves_no_seed(arena: Arena) -> None:
    for seed in ("random.seed(7)", "random.setstate(random.Random(7).getstate())"):
        assert arena.calls(body(f"import random\n{seed}\nreturn []")).status == "ok"
    source = "import random\ndef scale(): return random.random()\n"
    drawn = [arena.calls(source, calls=[Call()]).outputs[0] for _ in range(3)]
    assert len(set(drawn)) == 3
    assert 0.32383276483316237 not in drawn


MARKS = """
import abc, builtins, codecs, collections.abc, copyreg, decimal, functools, gc, itertools, locale, logging, os
import random, re, signal, socket, string, sys, threading, types, typing, warnings
LEAK = "leak of an earlier job"
KINDS = abc.ABC, decimal.Decimal, logging.Logger, threading.Thread, string.Formatter, types.ModuleType
def probe():
    places = {name: module for name, module in sys.modules.items() if type(module) is types.ModuleType}
    # This program's own modules, which any job of it has.
    own = ("__main__", "solution")
    found = [name for name, module in places.items() if name not in own and hasattr(module, "leak_of_a_job")]
    for kind in KINDS:
        if hasattr(kind, "leak_of_a_job"): found.append(kind.__name__)
    if "leak_of_a_job" in os.environ: found.append("environ")
    if issubclass(dict, collections.abc.Sequence): found.append("abc")
    if list in copyreg.dispatch_table: found.append("copyreg")
    if decimal.getcontext().prec != 28: found.append("decimal")
    if logging.getLogger().handlers or logging.getLogger().level != 30: found.append("logging")
    if "leak_of_a_job" in logging.Logger.manager.loggerDict: found.append("logger")
    if socket.getdefaulttimeout() is not None: found.append("socket")
    if threading.stack_size(): found.append("stack size")
    if any("leak" in str(one) for one in warnings.filters): found.append("warnings")
    try:
        codecs.lookup("leak-of-a-job")
        found.append("codecs")
    except LookupError: pass
    if codecs.lookup_error("strict") is not codecs.strict_errors: found.append("errors")
    if re.compile("x").match("x") is None: found.append("re")
    if os.path.exists("/tmp/leak"): found.append("file")
    if sorted([3, 1, 2]) != [1, 2, 3] or len("abc") != 3 or str(5) != "5": found.append("builtins")
    if [x for x in range(300)] != list(itertools.islice(itertools.count(), 300)): found.append("numbers")
    if sys.intern("leak" + "ing") != "leaking": found.append("interned")
    if gc.callbacks or not gc.isenabled(): found.append("gc")
    return found
"""

SPOIL = """
import ctypes
def spoil():
    for module in list(sys.modules.values()):
        try: module.leak_of_a_job = LEAK
        except Exception: pass
    for kind in KINDS:
        try: kind.leak_of_a_job = LEAK
        except TypeError: pass
    os.environ["leak_of_a_job"] = LEAK
    os.putenv("leak_of_a_job", LEAK)
    collections.abc.Sequence.register(dict)
    copyreg.pickle(list, lambda one: (list, ()))
    decimal.getcontext().prec = decimal.DefaultContext.prec = 3
    logging.basicConfig(level=1)
    logging.getLogger("leak_of_a_job")
    socket.setdefaulttimeout(1)
    threading.stack_size(1 << 20)
    warnings.filterwarnings("ignore", message="leak")
    codecs.register(lambda name: codecs.lookup("utf-8") if "leak" in name else None)
    codecs.register_error("strict", lambda error: None)
    re.compile = re._compile = lambda *a: None
    gc.callbacks.append(lambda *a: None); gc.disable()
    open("/tmp/leak", "w").close()
    for number in range(5, 257):
        ctypes.c_uint32.from_address(id(number) + number.__sizeof__() - 4).value = 4
    builtins.len = builtins.sorted = builtins.str = lambda *a, **k: LEAK
    sys.path.insert(0, "/tmp"); sys.dont_write_bytecode = False
"""


def test_no_change_of_the_interpreter_reaches_the_next_job(arena: Arena) -> None:
    assert arena.probed(MARKS) == [[], [], []]
    end = "import os\nos._exit(0)\n"
    for run in (
        lambda: arena.calls(f"{MARKS}{SPOIL}spoil()\n{end}"),
        lambda: arena.script(f"{MARKS}{SPOIL}spoil()\n{end}"),
        lambda: arena.split(f"{MARKS}{SPOIL}spoil()\n{end}"),
        lambda: arena.split(hostile.HONEST, f"{MARKS}{SPOIL}spoil()\n{end}"),
    ):
        assert run().status in ("exit", "ok", "invalid_suite")
        assert arena.probed(MARKS) == [[], [], []]


def test_the_same_holds_for_modules_that_were_loaded_ahead() -> None:
    preload = ("decimal", "logging", "socket", "re", "codecs", "collections.abc", "random", "string")
    with Sandbox(preload=preload) as box:
        arena = Arena(box)
        assert arena.probed(MARKS) == [[], [], []]
        assert arena.calls(f"{MARKS}{SPOIL}spoil()\nimport os\nos._exit(0)\n").status == "exit"
        assert arena.probed(MARKS) == [[], [], []]
        arena.look()


def test_an_id_that_may_be_set_once_is_not_a_message_to_the_next_job(arena: Arena) -> None:
    """A user namespace lets its projects be mapped once, by anyone in it: jobs that share one could count."""
    source = """
        import os
        def probe():
            before = open("/proc/self/projid_map").read()
            try:
                with open("/proc/self/projid_map", "w") as file: file.write("0 0 1")
            except OSError:
                pass
            return before
        """
    told = arena.probed(source)
    assert told == [told[0]] * 3


def test_limits_of_one_job_are_not_those_of_the_next(arena: Arena) -> None:
    source = """
        import resource
        def scale():
            names = ("CPU", "FSIZE", "NOFILE", "NPROC")
            return [resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in names]
        """
    small = Limits(wall_s=20, cpu_s=1, memory_mb=64, processes=2, file_mb=1, tmpfs_mb=2, open_files=16)
    large = Limits(
        wall_s=20, cpu_s=50, memory_mb=2048, processes=64, file_mb=64, tmpfs_mb=128, open_files=512
    )
    seen: list[Any] = []
    for limits in (small, large, small, large):
        seen.append(arena.calls(source, limits, calls=[Call()]).outputs[0])
        big = arena.calls(body("return [len(bytearray(200 << 20))]"), limits, calls=[Call(([], 1))])
        assert big.status == ("ok" if limits is large else "memory_limit")
        files = "n = 0\ntry:\n    while n < 4: open(f'/tmp/{n}', 'wb').write(bytes(1 << 20)); n += 1\n"
        full = arena.calls(body(f"{files}except OSError: pass\nreturn [n]"), limits, calls=[Call(([], 1))])
        assert (full.outputs[0] == [4]) == (limits is large)
    assert seen[0] == seen[2]
    assert seen[1] == seen[3]
    assert [soft for soft, _ in seen[0]][:3] == [1, 1 << 20, 16]
    assert [soft for soft, _ in seen[1]][:3] == [50, 64 << 20, 512]


def test_hash_seeds_are_a_jobs_own(arena: Arena) -> None:
    source = "def scale(): return hash('x'), hash(b'x')\n"
    drawn: list[Result] = [
        arena.calls(source, calls=[Call()], hash_seed=seed) for seed in (0, 7, 0, None, 7, None, 0)
    ]
    zero, seven, again, random, seven_again, other, last = [result.outputs[0] for result in drawn]
    assert zero == again == last
    assert seven == seven_again
    assert len({zero, seven, random, other}) == 4


def test_options_of_one_job_do_not_turn_up_in_the_next(arena: Arena) -> None:
    spy = "import sys\nprint(sys.argv[1:], repr(sys.stdin.read()))"
    assert arena.script(spy, argv=("a", "b"), stdin="in").stdout == "['a', 'b'] 'in'\n"
    assert arena.script(spy).stdout == "[] ''\n"
    two = {"main.py": "import other\nprint(other.x)", "other.py": "x = 1"}
    assert arena.box.run(Job("script", two)).stdout == "1\n"
    assert arena.script("import other").detail.startswith("ModuleNotFoundError")
    recorded = arena.calls(hostile.HONEST, record=["scale"])
    assert len(recorded.recorded) == 3
    assert arena.calls(hostile.HONEST).recorded == []


@pytest.fixture(scope="module")
def pair() -> Iterator[Sandbox]:
    with Sandbox(workers=3) as box:
        yield box


def test_answers_of_jobs_at_the_same_time_are_not_mixed_up(pair: Sandbox) -> None:
    def job(number: int) -> Job:
        kinds = (
            hostile.HONEST,
            "import os\nos._exit(0)\n",
            "def scale(v, f): return v[0]\n",
            "raise ValueError\n",
        )
        return Job(
            "calls",
            {"solution.py": f"print({number}, flush=True)\n{kinds[number % 4]}"},
            entry="scale",
            calls=[Call(([number], 3))],
            limits=Limits(wall_s=20),
        )

    results = list(pair.map(job(number) for number in range(40)))
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(40)]
    assert [result.status for result in results] == ["ok", "exit", "ok", "exception"] * 10
    for number in range(0, 40, 4):
        assert results[number].outputs == [[number * 3]]
        assert results[number + 2].outputs == [number + 2]


def test_a_bomb_next_door_takes_nothing_from_an_honest_job(pair: Sandbox) -> None:
    bombs = [
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        "import os\nwhile True: os.write(1, bytes(1 << 16))",
        "import os\nfor n in range(10**6): os.open('/dev/null', 0)",
        "n = 0\nwhile True:\n    open(f'/tmp/{n}', 'w').close()\n    n += 1",
        "import os\nwhile True:\n    try: os.kill(-1, 9)\n    except OSError: pass",
    ]
    small = Limits(wall_s=0.3, memory_mb=128, processes=8)
    jobs = []
    for bomb in bombs:
        jobs.append(Job("script", {"main.py": bomb}, limits=small))
        jobs += [
            Job("calls", {"solution.py": hostile.HONEST}, entry="scale", calls=hostile.CALLS),
            Job("split", {"solution.py": hostile.HONEST, "test.py": hostile.SUITE}, entry="scale"),
        ]
    results = list(pair.map(jobs))
    honest = [hostile.verdict(result) for number, result in enumerate(results) if number % 3]
    assert honest == ["pass"] * (2 * len(bombs))
    assert [result.status for result in results[::3]] == [
        "proc_limit",
        "memory_limit",
        "output_limit",
        "exception",
        "exception",
        "timeout",
    ]


def test_a_job_does_not_wait_for_a_hanging_one_next_door(pair: Sandbox) -> None:
    hang = Job("script", {"main.py": "import time; time.sleep(60)"}, limits=Limits(wall_s=1.5))
    order: list[str] = []
    thread = threading.Thread(target=lambda: order.append(pair.run(hang).status))
    thread.start()
    for _ in range(3):
        job = Job("calls", {"solution.py": hostile.HONEST}, entry="scale", calls=hostile.CALLS)
        order.append(hostile.verdict(pair.run(job)))
    thread.join()
    assert sorted(order) == ["pass", "pass", "pass", "timeout"]
