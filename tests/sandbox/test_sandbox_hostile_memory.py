"""Programs that take memory, in one piece or by a detour: each is bounded, and named where that ends it."""

import hostile
import pytest
from hostile import Arena, body

from sandbox import Call, Limits

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)

SMALL = Limits(wall_s=20, memory_mb=128)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("return 'x' * (1 << 30)", id="text"),
        pytest.param("return b'x' * (1 << 30)", id="bytes"),
        pytest.param("return [0] * (1 << 27)", id="list"),
        pytest.param("return list(range(1 << 27))", id="list of a range"),
        pytest.param("return 1 << (1 << 33)", id="integer"),
        pytest.param("return '%01000000000d' % 1", id="formatted number"),
        pytest.param("return '{:>1000000000}'.format(1)", id="padded text"),
        pytest.param("return 'x'.ljust(1 << 30)", id="justified text"),
        pytest.param("return 'ab'.replace('', 'x' * (1 << 26))", id="replaced text"),
        pytest.param("return ','.join(['x' * (1 << 20)] * (1 << 10))", id="joined text"),
        pytest.param("return set(range(1 << 26))", id="set"),
        pytest.param("return sorted(range(1 << 27))", id="sorted range"),
        pytest.param("import itertools\nreturn list(itertools.repeat(0, 1 << 27))", id="iterator"),
        pytest.param("import array\nreturn array.array('q', [0]) * (1 << 27)", id="array"),
        pytest.param("import re\nreturn re.sub('', 'x' * (1 << 20), 'y' * 2000)", id="substitution"),
        pytest.param("x = ['x']\nfor _ in range(40): x += x\nreturn x", id="doubling"),
        pytest.param("x = 'x'\nwhile True: x += x", id="doubling text"),
    ],
)
def test_one_large_object_is_a_memory_limit(arena: Arena, source: str) -> None:
    assert arena.verdicts(body(source), SMALL) == ("memory_limit", "memory_limit")


def test_memory_taken_while_loading_is_named_in_every_kind(arena: Arena) -> None:
    source = f"hoard = ['x' * (1 << 26) + str(n) for n in range(99)]\n{hostile.HONEST}"
    assert arena.verdicts(source, SMALL) == ("memory_limit", "memory_limit")
    assert arena.script(source, SMALL).status == "memory_limit"


def test_a_program_that_survives_its_memory_error_is_judged_by_its_values(arena: Arena) -> None:
    source = body(
        """
        hoard = []
        try:
            while True: hoard.append('x' * (1 << 22))
        except MemoryError:
            hoard.clear()
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source, SMALL) == ("pass", "pass")


def test_a_hoard_that_is_kept_stops_no_later_answer(arena: Arena) -> None:
    """No memory is left for the harness either; it must then say so, not hang or call it a pass."""
    source = """
        hoard = []
        def scale(values, factor):
            size = 1 << 24
            while size:
                try:
                    hoard.append(bytearray(size))
                except MemoryError:
                    size >>= 1
            return None
        """
    by_value, by_suite = arena.verdicts(source, SMALL)
    assert by_value in ("memory_limit", "wrong", "exit", "signal")
    assert by_suite in ("memory_limit", "failed", "exit", "signal")


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param("import zlib\nbomb = zlib.compress(bytes(1 << 24))\nloads = zlib.decompress", id="zlib"),
        pytest.param("import bz2\nbomb = bz2.compress(bytes(1 << 22)) * 8\nloads = bz2.decompress", id="bz2"),
        pytest.param(
            "import lzma\nbomb = lzma.compress(bytes(1 << 22)) * 8\nloads = lzma.decompress", id="xz"
        ),
        pytest.param(
            "import base64, zlib\nbomb = base64.b85encode(zlib.compress(bytes(1 << 24)))\n"
            "loads = lambda b: zlib.decompress(base64.b85decode(b))",
            id="wrapped",
        ),
    ],
)
def test_a_decompression_bomb_is_a_memory_limit(arena: Arena, bomb: str) -> None:
    source = f"{bomb}\ndef scale(values, factor): return loads(bomb)\n"
    assert arena.verdicts(source, Limits(wall_s=20, memory_mb=16)) == ("memory_limit", "memory_limit")


def test_processes_cannot_share_out_a_hoard(arena: Arena) -> None:
    source = body(
        """
        import time
        for _ in range(5):
            if os.fork() == 0: break
        hoard = bytearray(40 << 20)
        hoard[::4096] = bytes(len(hoard) // 4096)
        time.sleep(20)
        """
    )
    limits = Limits(wall_s=10, memory_mb=64)
    assert arena.verdicts(source, limits) == ("memory_limit", "memory_limit")


def test_shared_pages_of_many_processes_are_counted_once(arena: Arena) -> None:
    source = body(
        """
        import time
        hoard = bytearray(40 << 20)
        hoard[::4096] = bytes(len(hoard) // 4096)
        children = []
        for _ in range(6 if len(values) == 3 else 0):
            child = os.fork()
            if child == 0:
                time.sleep(0.2)
                os._exit(0)
            children.append(child)
        for child in children: os.waitpid(child, 0)
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source, Limits(wall_s=20, memory_mb=80)) == ("pass", "pass")


def test_shared_mappings_that_outlive_their_maker_are_counted(arena: Arena) -> None:
    source = body(
        """
        import mmap, time
        for _ in range(4):
            shared = mmap.mmap(-1, 40 << 20)
            shared[::4096] = bytes(len(shared) // 4096)
            if os.fork() == 0:
                time.sleep(20)
            shared.close()
        time.sleep(20)
        """
    )
    limits = Limits(wall_s=2, memory_mb=64)
    assert arena.verdicts(source, limits) == ("memory_limit", "memory_limit")


def test_address_space_without_memory_is_bounded_too(arena: Arena) -> None:
    source = """
        import mmap
        def probe():
            got = []
            for size in (1 << 30, 1 << 40, 1 << 46):
                for flags in (mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000,
                              mmap.MAP_SHARED | mmap.MAP_ANONYMOUS):
                    for protection in (0, mmap.PROT_READ):
                        try:
                            mmap.mmap(-1, size, flags=flags, prot=protection).close()
                            got.append(size)
                        except (OSError, OverflowError, ValueError):
                            pass
            return got
        """
    assert arena.probed(source, SMALL) == [[], [], []]


def test_a_refused_mapping_is_an_error_of_the_call(arena: Arena) -> None:
    result = arena.calls(body("import mmap\nmmap.mmap(-1, 1 << 30)"), SMALL)
    assert result.outputs[0].type == "OSError"
    assert hostile.verdict(result) in ("wrong", "memory_limit")


def test_a_thread_whose_stack_does_not_fit_is_no_lack_of_processes(arena: Arena) -> None:
    source = body("import threading\nthreading.stack_size(1 << 30)\nthreading.Thread(target=print).start()")
    result = arena.calls(source, SMALL)
    assert (hostile.verdict(result), result.outputs[0].type) in [
        ("wrong", "RuntimeError"),
        ("memory_limit", "RuntimeError"),
    ]


def test_what_pipes_and_sockets_hold_is_bounded_with_the_rest(arena: Arena) -> None:
    """This is memory of the kernel's, in no process's resident set."""
    source = """
        import fcntl, os, socket
        ENOUGH = 256 << 20
        held, kept = 0, []
        def fill(number, block):
            global held
            os.set_blocking(number, False)
            while held < ENOUGH:
                held += os.write(number, block)
        def pipe():
            reader, writer = os.pipe()
            kept.append(reader)
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
            return [writer]
        def pair():
            for one in socket.socketpair():
                for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                    one.setsockopt(socket.SOL_SOCKET, option, 1 << 30)
                kept.append(one.detach())
            return kept[-2:]
        def probe():
            for make in (pair, pipe):
                try:
                    while held < ENOUGH:
                        for number in make():
                            try: fill(number, bytes(65536))
                            except BlockingIOError: pass
                            if make is pipe: os.close(number)
                except OSError: pass
                if make is pair:
                    for number in kept[:8]: os.close(number)
                    del kept[:8]
            return held < ENOUGH
        """
    told = [one if isinstance(one, bool) else one[0] for one in arena.probed(source, SMALL)]
    assert set(told) <= {True, "memory_limit"}


def test_descriptors_in_flight_do_not_widen_the_bound(arena: Arena) -> None:
    """A descriptor that was sent and not received counts nowhere in the process, but against its user."""
    source = """
        import array, os, socket
        def probe():
            sent, kept = 0, []
            left, right = socket.socketpair()
            kept += [left, right]
            left.setblocking(False)
            try:
                while sent < 10_000:
                    pipe = os.pipe()
                    try:
                        told = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", pipe))
                        left.sendmsg([b"x"], [told])
                        sent += 2
                    finally:
                        for one in pipe: os.close(one)
            except OSError: pass
            return sent < 1000
        """
    assert arena.probed(source) == [True] * 3


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import json\nreturn json.loads('[' * 200000)", "RecursionError"),
        ("import json\nx = []\nfor _ in range(200000): x = [x]\nreturn json.dumps(x)", "RecursionError"),
        ("import pickle\nx = []\nfor _ in range(200000): x = [x]\nreturn pickle.dumps(x)", "RecursionError"),
        ("import copy\nx = []\nfor _ in range(200000): x = [x]\nreturn copy.deepcopy(x)", "RecursionError"),
        ("x = []\nfor _ in range(200000): x = [x]\nreturn repr(x)", "RecursionError"),
        ("x = []\nfor _ in range(200000): x = [x]\ny = [x]\nreturn x == y", "RecursionError"),
        ("import re\nreturn re.compile('(' * 20000 + ')' * 20000)", "RecursionError"),
        ("class A:\n    __getattr__ = lambda s, n: getattr(s, n + 'x')\nreturn A().y", "RecursionError"),
        ("class A:\n    __eq__ = lambda s, o: s == o\nreturn A() == 1", "RecursionError"),
        ("def g(): yield from g()\nreturn list(g())", "RecursionError"),
        ("return sorted([1, 2], key=lambda v: scale(values, factor))", "RecursionError"),
    ],
)
def test_endless_depth_is_an_error_of_the_call(arena: Arena, source: str, error: str) -> None:
    result = arena.calls(body(source))
    assert (result.status, [output.type for output in result.outputs]) == ("ok", [error] * 3)
    assert arena.split(body(source)).status == "exception"


@pytest.mark.parametrize(
    "source",
    [
        "import ast\nreturn ast.literal_eval('(' * 100000 + ')' * 100000)",
        "return eval('-' * 100000 + '1')",
        "return eval('lambda: ' * 5000 + '1')",
        "exec('if 1:\\n' * 1)",
        "return compile('x' + '.x' * 100000, 'x', 'eval')",
    ],
)
def test_a_source_nested_too_deeply_is_an_error_or_a_crash_and_no_more(arena: Arena, source: str) -> None:
    by_value, by_suite = arena.verdicts(body(source))
    assert by_value in ("wrong", "memory_limit", "signal", "unserializable")
    assert by_suite in ("exception", "memory_limit", "signal", "unserializable")


def test_a_deep_chain_is_taken_apart_without_harm(arena: Arena) -> None:
    source = """
        class Node:
            def __init__(self, inner): self.inner = inner
            def __del__(self): pass
        def scale(values, factor):
            node = None
            for _ in range(100_000): node = Node(node)
            x = ()
            for _ in range(100_000): x = (x,)
            g = iter(())
            for _ in range(1000): g = (v for v in g)
            del node, x, g
            return [value * factor for value in values]
        """
    assert arena.verdicts(source) == ("pass", "pass")


def test_a_chain_deeper_than_the_stack_is_a_signal_or_survives(arena: Arena) -> None:
    source = body("it = iter(())\nfor _ in range(500_000): it = filter(None, it)\ndel it\nreturn None")
    by_value, by_suite = arena.verdicts(source)
    assert by_value in ("signal", "wrong")
    assert by_suite in ("signal", "failed")


def test_a_stack_that_grows_behind_the_interpreters_back_is_a_signal(arena: Arena) -> None:
    source = body(
        """
        import ctypes
        callback = ctypes.CFUNCTYPE(ctypes.c_int)
        sys.setrecursionlimit(1 << 30)
        def deeper(): return callback(deeper)()
        return [deeper()]
        """
    )
    for result in (arena.calls(source), arena.split(source)):
        assert result.status in ("signal", "memory_limit")
        assert result.outputs == []


def test_a_large_integer_travels_whole_and_a_text_of_it_is_refused(arena: Arena) -> None:
    result = arena.calls("def scale(n):\n    return 10 ** n", calls=[Call((100_000,))])
    assert result.outputs == [10**100_000]
    result = arena.calls("def scale(n):\n    return str(10 ** n)", calls=[Call((100_000,))])
    assert [output.type for output in result.outputs] == ["ValueError"]


def test_entities_that_multiply_are_an_error_of_the_call(arena: Arena) -> None:
    source = body(
        """
        from xml.etree import ElementTree
        names = "abcdefgh"
        lines = ["<!ENTITY a 'lol'>"]
        lines += [f"<!ENTITY {n} '{f'&{m};' * 20}'>" for m, n in zip(names, names[1:])]
        return ElementTree.fromstring(f"<!DOCTYPE x [{''.join(lines)}]><x>&h;</x>").text
        """
    )
    by_value, by_suite = arena.verdicts(source, SMALL)
    assert by_value in ("wrong", "memory_limit")
    assert by_suite in ("exception", "memory_limit")
