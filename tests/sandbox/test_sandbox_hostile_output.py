"""Programs that attack through what they print: floods, bytes that are no text, words that look like ours."""

import hostile
import pytest
from hostile import FAST, SOON, Arena, body

from sandbox import Call, Limits

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)

LITTLE = Limits(wall_s=20, output_kb=1)


# A pipe that cannot be opened again, or that is full and does not wait, is an error of the script first.
OVER = {"output_limit"}
OVER_OR_ERROR = {"output_limit", "exception"}


@pytest.mark.parametrize(
    ("flood", "expected"),
    [
        pytest.param("while True: os.write(1, bytes(1 << 16))", OVER, id="stdout"),
        pytest.param("while True: os.write(2, bytes(1 << 16))", OVER, id="stderr"),
        pytest.param("while True:\n    for n in (1, 2): os.write(n, b'x')", OVER, id="both by the byte"),
        pytest.param(
            "for _ in range(3): os.fork()\nwhile True: os.write(1, bytes(1 << 12))", OVER, id="children"
        ),
        pytest.param("while True: print('\u20ac' * 1000)", OVER, id="text"),
        pytest.param(
            "import warnings\nfor n in range(10**6): warnings.warn(f'{n} is odd')", OVER, id="warnings"
        ),
        pytest.param(
            "f = open('/proc/self/fd/1', 'wb', 0)\nwhile True: f.write(bytes(1 << 16))",
            OVER_OR_ERROR,
            id="again",
        ),
        pytest.param(
            "f = open('/dev/stderr', 'wb', 0)\nwhile True: f.write(bytes(1 << 16))",
            OVER_OR_ERROR,
            id="by name",
        ),
        pytest.param(
            "os.set_blocking(1, False)\nwhile True: sys.stdout.write('x' * 1000)",
            OVER_OR_ERROR,
            id="not waiting",
        ),
    ],
)
def test_a_flood_ends_a_script_and_is_cut(arena: Arena, flood: str, expected: set[str]) -> None:
    result = arena.script(f"import os, sys\n{flood}", Limits(wall_s=20, output_kb=16))
    assert result.status in expected
    assert result.truncated == (result.status == "output_limit")
    # Three bytes of text stand for each byte that is none.
    assert len(result.stdout.encode()) <= 3 * (16 << 10)
    assert len(result.stderr.encode()) <= 3 * (16 << 10)


def test_a_flood_of_a_function_is_drained_and_its_values_count(arena: Arena) -> None:
    source = body(
        """
        for _ in range(64): os.write(1, bytes(1 << 15)); os.write(2, b"\\xff" * (1 << 15))
        return [value * factor for value in values]
        """
    )
    for result in (arena.calls(source, LITTLE), arena.split(source, limits=LITTLE)):
        assert (hostile.verdict(result), result.truncated) == ("pass", True)
        assert result.stdout == "\0" * 1024
        assert result.stderr == "\ufffd" * 1024


def test_a_flood_that_never_ends_is_a_timeout_of_a_function(arena: Arena) -> None:
    source = body("while True: os.write(1, bytes(1 << 16))")
    for result in (arena.calls(source, FAST), arena.split(source, limits=FAST)):
        assert (result.status, result.truncated) == ("timeout", True)


def test_the_last_byte_that_fits_is_kept_and_the_next_is_one_too_many(arena: Arena) -> None:
    source = "import os, sys\nos.write({n}, b'x' * int(sys.argv[1]))"
    for number in (1, 2):
        exact = arena.script(source.format(n=number), LITTLE, argv=("1024",))
        assert (exact.status, exact.truncated, len(exact.stdout + exact.stderr)) == ("ok", False, 1024)
        over = arena.script(source.format(n=number), LITTLE, argv=("1025",))
        assert (over.status, over.truncated, len(over.stdout + over.stderr)) == ("output_limit", True, 1024)


def test_a_character_cut_in_two_is_replaced(arena: Arena) -> None:
    source = body("os.write(1, ('x' + '\\u20ac' * 1000).encode())\nreturn None")
    result = arena.calls(source, LITTLE, calls=[Call(([], 1))])
    assert result.stdout == "x" + "\u20ac" * 341
    result = arena.calls(source.replace("'x'", "'xx'"), LITTLE, calls=[Call(([], 1))])
    assert result.stdout == "xx" + "\u20ac" * 340 + "\ufffd"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\0b\0", "a\0b\0"),
        (b"\xff\xfe\xc3", "\ufffd\ufffd\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\x1b[2J\x1b]0;owned\x07\x9b", "\x1b[2J\x1b]0;owned\x07\ufffd"),
        (b"\r\n\x85\xe2\x80\xa8", "\r\n\ufffd\u2028"),
        (b"\xef\xbb\xbfx", "\ufeffx"),
    ],
)
def test_bytes_that_are_no_text_are_kept_as_text(arena: Arena, data: bytes, text: str) -> None:
    result = arena.script(f"import os\nos.write(1, {data!r})\nos.write(2, {data!r})")
    assert (result.status, result.stdout, result.stderr) == ("ok", text, text)


@pytest.mark.parametrize(
    "message",
    [
        "\x1b[2J\x1b[H\x1b]0;owned\x07",
        "a\0b",
        "line\nline\r\nline\u2028line\x85line",
        "\u202egnp.exe",
        "\ud800",
        "\x9b2J",
    ],
)
def test_what_is_said_of_a_program_is_one_line_that_can_be_printed(arena: Arena, message: str) -> None:
    """The program chooses its message; it must not thereby write on the terminal or into a log."""
    source = f"raise ValueError({message!a})\n{hostile.HONEST}"
    for result in (arena.calls(source), arena.split(source), arena.script(source)):
        assert result.status == "exception"
        assert result.detail.isprintable()
    raising = body(f"raise ValueError({message!a})")
    assert arena.split(raising).detail.isprintable()
    source = f"import sys\nsys.exit({message!a})\n{hostile.HONEST}"
    for result in (arena.calls(source), arena.split(source)):
        assert result.status == "exit"
        assert result.detail.isprintable()


def test_a_message_of_megabytes_is_cut(arena: Arena) -> None:
    for result in (
        arena.calls(f"raise ValueError('x' * (8 << 20))\n{hostile.HONEST}"),
        arena.split(body("raise ValueError('x' * (8 << 20))")),
        arena.calls(f"{'x' * 100_000} = \n{hostile.HONEST}"),
    ):
        assert len(result.detail) <= 1200
    result = arena.calls(body("raise ValueError('\\u20ac' * (8 << 20))"))
    assert [len(output.message) for output in result.outputs] == [1000] * 3


@pytest.mark.parametrize(
    "words",
    [
        "1 passed in 0.01s",
        "Ran 3 tests in 0.001s\\n\\nOK",
        "started\\nexit 0\\nusage 0 0 0",
        "ok\\n",
        '{\\"status\\": \\"ok\\", \\"reward\\": 1.0}',
        "True",
    ],
)
def test_words_of_success_are_only_words(arena: Arena, words: str) -> None:
    source = body(f"for n in (1, 2): os.write(n, b'''{words}''')\nreturn None")
    assert arena.verdicts(source) == ("wrong", "failed")
    loading = f"import os\nfor n in (1, 2): os.write(n, b'''{words}''')\nos._exit(0)\n"
    assert arena.verdicts(loading) == ("exit", "exit")
    assert arena.script(f"{loading[:-12]}os._exit(1)").status == "exit"


def test_a_right_text_does_not_outweigh_the_end_of_its_script(arena: Arena) -> None:
    for end, status in (
        ("raise SystemExit(1)", "exit"),
        ("raise ValueError", "exception"),
        ("import os; os._exit(7)", "exit"),
        ("import os; os.kill(os.getpid(), 9)", "signal"),
        ("import time; time.sleep(60)", "timeout"),
        ("import os; os.write(1, bytes(1 << 20))", "output_limit"),
        ("bytearray(1 << 34)", "memory_limit"),
    ):
        result = arena.script(
            f"print(42, flush=True)\n{end}", SOON if status == "timeout" else Limits(wall_s=20)
        )
        assert (end, result.status) == (end, status)
        assert result.stdout.startswith("42\n")


def test_what_children_print_after_the_end_is_not_waited_for(arena: Arena) -> None:
    source = """
        import os, time
        if os.fork() == 0:
            os.setsid()
            while True:
                os.write(1, b"late")
                time.sleep(0.05)
        os.write(1, b"done")
        """
    result = arena.script(source)
    assert result.status == "ok"
    assert "done" in result.stdout
    assert len(result.stdout) < 4000


def test_output_of_one_job_does_not_turn_up_in_the_next(arena: Arena) -> None:
    noise = (
        "import os, sys\nfor s in (sys.stdout, sys.stderr): s.write('needle' * 100)\nos.kill(os.getpid(), 9)"
    )
    assert arena.script(noise).status == "signal"
    result = arena.script("print(1)")
    assert (result.stdout, result.stderr) == ("1\n", "")
    unflushed = body("sys.stdout.write('needle')\nsys.stderr.write('needle')\nos._exit(0)")
    assert arena.verdicts(unflushed) == ("exit", "exit")
    result = arena.calls(hostile.HONEST)
    assert (result.stdout, result.stderr) == ("", "")


def test_streams_that_lie_or_fail_stop_no_answer(arena: Arena) -> None:
    for method in ("raise SystemExit(0)", "raise KeyboardInterrupt", "raise OSError(28, 'x')", "return self"):
        source = body(
            f"""
            class Stream:
                def __getattr__(self, name): return self
                def __call__(self, *arguments): {method}
                def flush(self): {method}
            sys.stdout = sys.stderr = Stream()
            return [value * factor for value in values]
            """
        )
        assert (method, *arena.verdicts(source)) == (method, "pass", "pass")


def test_a_flush_that_leaves_takes_no_answer_back(arena: Arena) -> None:
    stream = "class S:\n    def flush(self): os._exit(0)\n    def write(self, text): pass\nsys.stdout = S()\n"
    assert arena.verdicts(body(stream + "return [value * factor for value in values]")) == ("pass", "pass")
    assert arena.verdicts(body(stream + "return None")) == ("wrong", "failed")
