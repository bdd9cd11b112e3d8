"""Programs that write on the result channel themselves, knowing all that this process knows.

The channel carries values and admissions of failure, never a verdict: the worst that a forger can reach
is to give an answer, which is then judged like any other.
"""

import base64
import textwrap

import hostile
import pytest
from hostile import FAST, SOON, Arena
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox import encode
from sandbox.inside.harness import ANSWER, DONE, FAILURE, GO, OUTPUT, QUERY, READY, RECORD

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)

# Finds the channel's number and the job's secret in the frames and objects of this very process.
FORGER = """
import base64, gc, os, struct, sys
WRITE, EXIT, FORK, DUP = os.write, os._exit, os.fork, os.dup2
def numbers():
    found = []
    for n in range(3, 64):
        try:
            WRITE(n, b"")
            found.append(n)
        except OSError:
            pass
    return found
def secrets():
    found = []
    def look(one):
        for name in ("nonce", "_nonce"):
            value = one.get(name) if type(one) is dict else getattr(one, name, None)
            if type(value) is bytes and len(value) == 8 and value not in found:
                found.append(value)
    frame = sys._getframe()
    while frame:
        for one in list(frame.f_locals.values()):
            try: look(one)
            except Exception: pass
        frame = frame.f_back
    for one in gc.get_objects():
        if type(one) is dict: look(one)
    return found
NUMBERS, SECRETS = numbers(), secrets()
def pack(kind, payload, size=None):
    return [s + kind + struct.pack("<I", len(payload) if size is None else size) + payload for s in SECRETS]
def send(kind, payload=b"", size=None):
    for n in NUMBERS:
        for data in pack(kind, payload, size):
            try: WRITE(n, data)
            except OSError: pass
def raw(data):
    for n in NUMBERS:
        try: WRITE(n, data)
        except OSError: pass
"""


def forged(attack: str, loading: bool = False) -> str:
    attack = textwrap.indent(textwrap.dedent(attack), "    ")
    function = f"def attack():\n{attack}\ndef scale(values, factor):\n    attack()\n    return None\n"
    return f"{FORGER}{function}{'attack()' if loading else ''}\n"


def b(data: bytes) -> str:
    """The bytes as an expression of the attack's text."""
    return f"base64.b64decode({base64.b64encode(data).decode()!r})"


ZERO, WRONG = encode(0), b"v" + encode([7, 7])
EXCUSE = [
    encode([category, "x", "x", cause])
    for category in ("suite", "suite-load", "argument", "candidate")
    for cause in ("", "memory")
]


def test_the_forger_finds_what_it_needs(arena: Arena) -> None:
    """The attacks below would prove nothing if they found no channel to write on."""
    result = arena.script(f"{FORGER}\nprint(len(NUMBERS), len(SECRETS))")
    assert result.stdout == "1 1\n"


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(f"send({DONE!r}, {b(ZERO)})\nEXIT(0)", id="done at once"),
        pytest.param(f"send({READY!r})\nsend({DONE!r}, {b(ZERO)})\nEXIT(0)", id="ready again"),
        pytest.param(
            f"for _ in range(3): send({OUTPUT!r}, {b(WRONG)})\nsend({DONE!r}, {b(ZERO)})\nEXIT(0)",
            id="answers",
        ),
        pytest.param(
            f"send({DONE!r}, {b(ZERO)})\nfor _ in range(3): send({OUTPUT!r}, {b(WRONG)})\nEXIT(0)",
            id="answers after the end",
        ),
        pytest.param(f"for _ in range(50): send({OUTPUT!r}, {b(WRONG)})\nEXIT(0)", id="too many answers"),
        pytest.param(f"send({DONE!r}, {b(encode(10**9))})", id="a count of skipped records"),
        pytest.param(f"send({DONE!r}, {b(encode('0'))})", id="done with a text"),
        pytest.param(f"send({DONE!r}, b'')", id="done with nothing"),
        pytest.param(f"send({OUTPUT!r}, {b(WRONG)}, 1 << 31)\nEXIT(0)", id="a frame that claims gigabytes"),
        pytest.param(f"send({OUTPUT!r}, {b(WRONG)}, 0)\nEXIT(0)", id="a frame that claims nothing"),
        pytest.param(f"send({OUTPUT!r}, b'v' + b'l' + b'\\xff' * 9)\nEXIT(0)", id="a list that claims much"),
        pytest.param(f"send({OUTPUT!r}, b'')\nEXIT(0)", id="an answer without a kind"),
        pytest.param(f"send({OUTPUT!r}, b'z')\nEXIT(0)", id="an answer of no kind"),
        pytest.param(
            f"send({OUTPUT!r}, b'e' + {b(encode([1, 2, 3]))})\nEXIT(0)", id="an error without a name"
        ),
        pytest.param(f"send({RECORD!r}, {b(encode([1] * 5))})\nEXIT(0)", id="a record"),
        pytest.param(f"send({GO!r})\nEXIT(0)", id="the supervisor's own word"),
        pytest.param(f"send({QUERY!r}, {b(encode(['scale', [], {}]))})\nEXIT(0)", id="a question"),
        pytest.param(f"send({ANSWER!r}, {b(encode([WRONG, None, {}]))})\nEXIT(0)", id="an answer to a suite"),
        pytest.param(
            f"for _ in range(9): send({ANSWER!r}, {b(encode([WRONG, None, {}]))})", id="answers ahead"
        ),
        pytest.param(
            f"send({ANSWER!r}, {b(encode([WRONG, None, {0: [0], -1: [0]}]))})\nEXIT(0)",
            id="changes of nothing",
        ),
        pytest.param(
            f"send({ANSWER!r}, {b(encode([WRONG, ['SystemExit', True, [0]], {}]))})\nEXIT(0)",
            id="an error's shape",
        ),
        pytest.param("raw(SECRETS[0])\nEXIT(0)", id="half a head"),
        pytest.param("raw(bytes(64))\nEXIT(0)", id="zeros"),
        pytest.param("raw(bytes([255]) * 64)\nEXIT(0)", id="ones"),
        pytest.param("raw(SECRETS[0][::-1] + b'D' + bytes(8))\nEXIT(0)", id="another secret"),
        pytest.param("for _ in range(99): raw(os.urandom(4096))", id="much noise"),
        pytest.param(f"for _ in range(999): send({READY!r})\nEXIT(0)", id="ready again and again"),
        pytest.param(
            f"for _ in range(9): send({FAILURE!r}, {b(encode(['load', 'x', 'x', '']))})", id="failures"
        ),
        *[
            pytest.param(f"send({FAILURE!r}, {b(excuse)})\nEXIT(0)", id=f"an excuse {number}")
            for number, excuse in enumerate(EXCUSE)
        ],
    ],
)
def test_a_forged_frame_is_neither_a_pass_nor_an_excuse(arena: Arena, attack: str) -> None:
    by_value, by_suite = arena.verdicts(forged(attack))
    # What it says of itself in a valid frame counts like an answer of its own.
    assert by_value in ("wrong", "unserializable", "exit", "output_limit", "exception")
    assert by_suite in ("failed", "unserializable", "exit", "output_limit", "exception")
    # While it loads nothing was asked yet, so there is nothing to be right or wrong about either.
    loading = arena.calls(forged(attack, loading=True))
    assert hostile.verdict(loading) in (
        "unserializable",
        "exit",
        "output_limit",
        "exception",
        "timeout",
        "wrong",
    )


@pytest.mark.parametrize(
    ("category", "cause"),
    [("compile", ""), ("load", "memory"), ("exit", "\x1b[2J"), ("missing", "processes"), ("harness", "wall")],
)
def test_a_forged_admission_is_never_worth_a_pass(arena: Arena, category: str, cause: str) -> None:
    admission = encode([category, "E" * 9999, "m" * 99999, cause])
    good = f"send({FAILURE!r}, {b(admission)})"
    source = forged(good).replace("    return None\n", "    return [value * factor for value in values]\n")
    by_value, by_suite = arena.calls(source), arena.split(source)
    for result in (by_value, by_suite):
        assert result.status not in ("infra_error", "invalid_suite", "failed")
        assert len(result.detail) <= 600
    assert by_value.status != "ok"


def test_a_half_frame_is_waited_for_until_the_time_is_up(arena: Arena) -> None:
    source = forged(
        f"raw(SECRETS[0] + {OUTPUT!r} + struct.pack('<I', 100) + b'v')\nimport time\ntime.sleep(60)"
    )
    assert arena.verdicts(source, FAST) == ("timeout", "timeout")


def test_an_answer_swallowed_by_a_half_frame_is_lost(arena: Arena) -> None:
    """The head claims as many bytes as what honestly follows."""
    source = forged(f"raw(SECRETS[0] + {OUTPUT!r} + struct.pack('<I', 20))")
    by_value, by_suite = arena.verdicts(source)
    assert by_value in ("unserializable", "exit")
    assert by_suite == "unserializable"


def test_a_child_and_a_thread_forge_no_better(arena: Arena) -> None:
    answers = f"for _ in range(3): send({OUTPUT!r}, {b(WRONG)})\nsend({DONE!r}, {b(ZERO)})"
    fork = f"if FORK() == 0:\n{textwrap.indent(answers, '    ')}\n    EXIT(0)\nos.wait()"
    thread = (
        f"import threading\ndef forge():\n{textwrap.indent(answers, '    ')}\n"
        "t = threading.Thread(target=forge)\nt.start()\nt.join()"
    )
    for attack in (fork, thread):
        by_value, by_suite = arena.verdicts(forged(attack))
        assert by_value in ("wrong", "unserializable")
        assert by_suite == "unserializable"


def test_two_writers_at_once_make_no_pass(arena: Arena) -> None:
    attack = (
        "if FORK() == 0:\n    while True: raw(SECRETS[0] + b'O' + struct.pack('<I', 3) + b'vi')\n"
        "import time\ntime.sleep(0.02)"
    )
    by_value, by_suite = arena.verdicts(forged(attack), SOON)
    assert by_value in ("unserializable", "output_limit", "wrong")
    assert by_suite == "unserializable"


def test_a_forged_answer_does_not_change_the_questions_that_follow(arena: Arena) -> None:
    """One right answer to one question is an answer, however it was written; the next is still asked."""
    source = f"""{FORGER}
def scale(values, factor):
    send({ANSWER!r}, {b(encode([b"v" + encode([2, 4, 6]), None, {}]))})
    EXIT(0)
"""
    assert arena.split(source).status in ("exit", "unserializable")
    result = arena.split(source, "def check(candidate):\n    assert candidate([1, 2, 3], 2) == [2, 4, 6]")
    assert result.candidate_calls == 1


def test_a_record_that_was_not_made_is_refused(arena: Arena) -> None:
    before = encode(((), {}))
    for name in ("other", "scale\0", "__import__"):
        record = encode([name, before, b"v" + encode(1), False, 0])
        source = forged(f"send({RECORD!r}, {b(record)})")
        result = arena.calls(source, record=["scale"])
        assert (result.status, result.recorded) == ("unserializable", [])


def test_more_records_than_asked_for_are_refused(arena: Arena) -> None:
    record = encode(["scale", encode(((), {})), b"v" + encode(1), False, 0])
    source = forged(f"for _ in range(50): send({RECORD!r}, {b(record)})")
    result = arena.calls(source, record=["scale"], record_max=3)
    assert result.status == "unserializable"
    assert len(result.recorded) <= 3


KINDS = st.sampled_from([READY, OUTPUT, RECORD, DONE, FAILURE, GO, QUERY, ANSWER, b"?", b"\0"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers(), inner, max_size=2),
    max_leaves=6,
)
PAYLOADS = (
    st.binary(max_size=30)
    | VALUES.map(encode)
    | VALUES.map(lambda value: b"v" + encode(value))
    | st.lists(st.text(max_size=8), min_size=3, max_size=5).map(encode)
    | st.tuples(VALUES.map(lambda value: b"v" + encode(value)), VALUES, VALUES).map(lambda p: encode(list(p)))
)


@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(frames=st.lists(st.tuples(KINDS, PAYLOADS), min_size=1, max_size=5), loading=st.booleans())
def test_no_sequence_of_frames_is_a_pass(
    arena: Arena, frames: list[tuple[bytes, bytes]], loading: bool
) -> None:
    attack = "\n".join(f"send({kind!r}, {b(payload)})" for kind, payload in frames)
    by_value, by_suite = arena.verdicts(forged(f"{attack}\nEXIT(0)", loading))
    assert by_value not in ("pass", "infra_error", "invalid_suite", "timeout")
    assert by_suite not in ("pass", "infra_error", "invalid_suite", "timeout")
