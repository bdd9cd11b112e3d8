"""Candidates whose values or errors lie: equal to all, of a class they are not, or known only when asked."""

import hostile
import pytest
from hostile import Arena, body

from sandbox import Call, ErrorRecord, Limits, equal

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)

# A class body that agrees with everything it is asked.
AGREEABLE = """
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 0
    __bool__ = lambda self: True
    __contains__ = lambda self, other: True
"""


def agreeable(base: str, made: str) -> str:
    return f"class Yes({base}):{AGREEABLE}\ndef scale(values, factor): return {made}\n"


@pytest.mark.parametrize(
    ("base", "made"),
    [
        ("object", "Yes()"),
        ("int", "Yes(7)"),
        ("float", "Yes(7)"),
        ("complex", "Yes(7)"),
        ("str", "Yes('x')"),
        ("bytes", "Yes(b'x')"),
        ("bytearray", "Yes(b'x')"),
        ("list", "Yes([7])"),
        ("tuple", "Yes((7,))"),
        ("dict", "Yes({7: 7})"),
        ("set", "Yes({7})"),
        ("frozenset", "Yes({7})"),
        ("Exception", "Yes(7)"),
        ("type", "Yes('x', (), {})"),
        ("list", "[Yes([7])] * 3"),
        ("int", "[Yes(2), Yes(4), Yes(6)]"),
        ("int", "{1: [(Yes(1),)]}"),
        ("str", "{Yes('x'): 1}"),
        ("tuple", "[Yes(v * factor for v in values)]"),
        ("int", "[range(3), 1.5, 'x', Yes(1)]"),
    ],
)
def test_a_value_of_ones_own_class_does_not_travel(arena: Arena, base: str, made: str) -> None:
    assert arena.verdicts(agreeable(base, made)) == ("unserializable", "unserializable")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("import fractions\nclass Yes(fractions.Fraction):{a}\n:Yes(7)", id="Fraction"),
        pytest.param("import decimal\nclass Yes(decimal.Decimal):{a}\n:Yes(7)", id="Decimal"),
        pytest.param("import datetime\nclass Yes(datetime.date):{a}\n:Yes(2000, 1, 1)", id="date"),
        pytest.param("import datetime\nclass Yes(datetime.datetime):{a}\n:Yes(2000, 1, 1)", id="datetime"),
        pytest.param("import datetime\nclass Yes(datetime.timedelta):{a}\n:Yes(1)", id="timedelta"),
        pytest.param("import collections\nclass Yes(collections.deque):{a}\n:Yes([1])", id="deque"),
        pytest.param("import collections\nclass Yes(collections.Counter):{a}\n:Yes([1])", id="Counter"),
        pytest.param(
            "import collections\nclass Yes(collections.OrderedDict):{a}\n:Yes([(1, 1)])", id="OrderedDict"
        ),
        pytest.param("import collections\nclass Yes(collections.UserList):{a}\n:Yes([1])", id="UserList"),
        pytest.param(
            "import collections\nclass Yes(collections.namedtuple('N', 'a')):{a}\n:Yes(1)", id="namedtuple"
        ),
        pytest.param("import enum\nclass E(enum.IntEnum):\n    X = 2\n:E.X", id="IntEnum"),
        pytest.param("import enum\nclass E(str, enum.Enum):\n    X = 'x'\n:E.X", id="text and Enum"),
        pytest.param("from unittest import mock\n:mock.ANY", id="ANY"),
        pytest.param("from unittest import mock\n:mock.MagicMock(__eq__=lambda s, o: True)", id="MagicMock"),
        pytest.param("import types\n:types.SimpleNamespace(x=1)", id="namespace"),
        pytest.param("import array\n:array.array('q', [2, 4, 6])", id="array"),
        pytest.param("import ctypes\n:ctypes.c_int(2)", id="ctypes"),
        pytest.param("import weakref\nclass C: pass\nc = C()\n:weakref.proxy(c)", id="proxy"),
        pytest.param("import collections\n:collections.deque([1], maxlen=3)", id="bounded deque"),
        pytest.param(
            "import datetime as d\nclass Z(d.tzinfo):\n    utcoffset = lambda s, t: d.timedelta(0)\n"
            ":d.datetime(2000, 1, 1, tzinfo=Z())",
            id="own time zone",
        ),
        pytest.param(":(v * factor for v in values)", id="generator"),
        pytest.param("async def later(): return [2, 4, 6]\n:later()", id="coroutine"),
        pytest.param(":map(lambda v: v * factor, values)", id="map"),
        pytest.param(":{v: v for v in values}.keys()", id="keys"),
        pytest.param(":memoryview(b'x')", id="memoryview"),
        pytest.param(":iter(values)", id="iterator"),
        pytest.param(":slice(1, 2)", id="slice"),
        pytest.param(":...", id="ellipsis"),
        pytest.param(":NotImplemented", id="NotImplemented"),
        pytest.param(":len", id="function"),
        pytest.param(":int", id="type"),
        pytest.param(":lambda: 0", id="lambda"),
        pytest.param("import sys\n:sys", id="module"),
        pytest.param(":ValueError('x')", id="error as a value"),
        pytest.param(":open('/dev/null')", id="file"),
        pytest.param("import sys\n:sys._getframe()", id="frame"),
    ],
)
def test_a_value_without_an_encoding_does_not_travel(arena: Arena, source: str) -> None:
    above, _, value = source.rpartition("\n:" if "\n:" in source else ":")
    if source.startswith(":"):
        above, value = "", source[1:]
    written = f"{above.replace('{a}', AGREEABLE)}\ndef scale(values, factor):\n    return {value}\n"
    by_value, by_suite = arena.calls(written), arena.split(written)
    assert (by_value.status, by_suite.status) == ("unserializable", "unserializable")
    assert all(isinstance(output, ErrorRecord) and not output.raised for output in by_value.outputs)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("class L:\n    __class__ = list\n", id="class attribute"),
        pytest.param("class L:\n    __class__ = property(lambda self: list)\n", id="property"),
        pytest.param(
            "class M(type):\n    __instancecheck__ = __subclasscheck__ = lambda c, o: True\n"
            "    __eq__ = lambda c, o: True\n    __hash__ = lambda c: hash(list)\n    __name__ = 'list'\n"
            "class L(list, metaclass=M): pass\n",
            id="metaclass",
        ),
        pytest.param(
            "class L(list): pass\nL.__name__ = L.__qualname__ = 'list'\nL.__module__ = 'builtins'\n",
            id="name",
        ),
        pytest.param("L = type('list', (list,), {'__module__': 'builtins'})\n", id="made type"),
        pytest.param(
            "class L(list):\n    __reduce__ = lambda self: (list, ([2, 4, 6],))\n    __reduce_ex__ = None\n",
            id="reduce",
        ),
        pytest.param(
            "class L(list):\n    def __iter__(self): return iter([2, 4, 6])\n    __len__ = lambda self: 3\n"
            "    __getitem__ = lambda self, i: [2, 4, 6][i]\n",
            id="other contents",
        ),
    ],
)
def test_a_class_that_claims_to_be_list_does_not_travel(arena: Arena, source: str) -> None:
    assert arena.verdicts(f"{source}def scale(values, factor): return L()\n") == ("unserializable",) * 2


def test_a_module_put_in_a_codecs_way_yields_a_value_and_no_more(arena: Arena) -> None:
    """Where the codec asks the interpreter for a class, a program may have put its own in that place."""
    for module, name, base in (
        ("decimal", "Decimal", "object"),
        ("fractions", "Fraction", "object"),
        ("collections", "deque", "list"),
        ("collections", "Counter", "dict"),
        ("datetime", "date", "object"),
        ("datetime", "timedelta", "object"),
    ):
        source = f"""
import sys, types
class Yes({base}):{AGREEABLE}
    maxlen = None
    numerator = denominator = days = seconds = microseconds = 1
    __str__ = isoformat = lambda self: "2000-01-01"
    __len__ = lambda self: 1
    __iter__ = lambda self: iter([7])
    items = lambda self: [(7, 7)]
fake = types.ModuleType({module!r})
fake.{name} = Yes
sys.modules[{module!r}] = fake
def scale(values, factor): return Yes()
"""
        by_value, by_suite = arena.verdicts(source)
        assert by_value in ("wrong", "unserializable", "exception")
        assert by_suite in ("failed", "unserializable", "exception")


def test_a_value_that_changes_between_looks_is_the_one_that_was_sent(arena: Arena) -> None:
    source = """
        import threading
        shared = [[0] * 50 for _ in range(50)]
        def change():
            while True:
                for row in shared:
                    row.append(1); row.pop(0); row.clear(); row.extend([2] * 50)
        threading.Thread(target=change, daemon=True).start()
        def scale(values, factor): return shared
        """
    by_value, by_suite = arena.verdicts(source)
    assert by_value in ("wrong", "unserializable", "exception")
    assert by_suite in ("failed", "unserializable", "exception")


def test_an_argument_returned_is_a_value_of_its_own(arena: Arena) -> None:
    source = "def scale(values, factor):\n    values[:] = [v * factor for v in values]\n    return values\n"
    assert arena.verdicts(source) == ("pass", "pass")
    keeper = """
        kept = []
        def scale(values, factor):
            for old in kept: old.clear()
            kept.append(values)
            values[:] = [v * factor for v in values]
            return values
        """
    # What was sent is sent: a later change of the same list reaches no earlier answer.
    assert arena.verdicts(keeper) == ("pass", "pass")


def test_arguments_bent_to_fit_help_nobody(arena: Arena) -> None:
    test = """
        def check(candidate):
            values = [1, 2, 3]
            assert candidate(values, 2) == [v * 2 for v in values]
            table = {"a": [1]}
            candidate([table], 1)
            assert table == {"a": [1]}
        """
    source = "def scale(values, factor):\n    values.clear()\n    return []\n"
    assert arena.split(source, test).status == "failed"


def test_not_a_number_equals_only_itself(arena: Arena) -> None:
    source = "def scale(values, factor): return float('nan')\n"
    assert arena.verdicts(source) == ("wrong", "failed")
    result = arena.calls(source, calls=[Call(([], 1))])
    assert not equal(result.outputs[0], 1.0, rel_tol=0.5, abs_tol=1e300, numeric=True)
    assert not equal(float("inf"), 1.0, rel_tol=0.5)
    test = "def check(candidate):\n    assert not (candidate([], 1) < 0 or candidate([], 1) > 0)"
    # A suite may be written so that it says yes to this; that is a weak suite, not a lying value.
    assert arena.split(source, test).status == "ok"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("True", 1),
        ("1.0", 1),
        ("(1, 2)", [1, 2]),
        ("bytearray(b'x')", b"x"),
        ("{1}", frozenset({1})),
        ("{1: True}", {1: 1}),
        ("[1, [2, (3,)]]", [1, [2, [3]]]),
        ("range(3)", [0, 1, 2]),
        ("'1'", 1),
        ("None", False),
        ("'\\ufb01'", "fi"),
        ("'e\\u0301'", "\u00e9"),
        ("'x\\0'", "x"),
        ("1 + 0j", 1),
    ],
)
def test_a_value_that_is_almost_the_expected_one_is_another(
    arena: Arena, made: str, expected: object
) -> None:
    result = arena.calls(f"def scale(): return {made}", calls=[Call()])
    assert result.status == "ok"
    assert not equal(result.outputs[0], expected)


@pytest.mark.parametrize(
    "error",
    [
        "SystemExit(0)",
        "SystemExit('ok')",
        "KeyboardInterrupt",
        "GeneratorExit",
        "StopIteration([2, 4, 6])",
        "StopAsyncIteration",
        "AssertionError",
        "AssertionError('expected')",
        "BaseException",
        "BaseExceptionGroup('x', [SystemExit(0)])",
        "ExceptionGroup('x', [ExceptionGroup('y', [ValueError()])])",
        "Warning('x')",
        "UnicodeDecodeError('utf-8', b'x' * 100000, 0, 1, 'x')",
        "SyntaxError('x', ('f', 1, 1, 'x', 1, 1))",
        "OSError(2, 'x', 'f')",
        "ImportError('x', name='solution', path='test.py')",
        "type('SkipTest', (Exception,), {})('x')",
        "type('ArgumentError', (Exception,), {})('x')",
        "type('CandidateError', (Exception,), {})('x')",
        "type('SuiteError', (BaseException,), {})('x')",
        "type('AssertionError', (AssertionError,), {'__eq__': lambda s, o: True})('x')",
        "type('E', (Exception,), {'args': property(lambda s: 1 / 0)})('x')",
        "type('E', (Exception,), {'__class__': AssertionError})('x')",
        "type('E', (Exception,), {'__cause__': property(lambda s: s), '__str__': None})('x')",
        "type('E', (Exception,), {'__del__': lambda s: __import__('os')._exit(0)})('x')",
        "type('E', (ValueError, KeyError), {'__module__': 'builtins'})('x')",
        "type('x' * 100000, (Exception,), {})('x')",
        "type('\\x1b[2J', (Exception,), {})('x')",
    ],
)
def test_an_exception_of_the_candidate_is_its_own_and_ends_no_suite_well(arena: Arena, error: str) -> None:
    source = body(f"raise {error}")
    by_value = arena.calls(source)
    by_suite = arena.split(source)
    # A finalizer may leave before the next call is answered.
    assert hostile.verdict(by_value) in ("wrong", "exit")
    assert all(isinstance(output, ErrorRecord) for output in by_value.outputs)
    assert all(len(output.type) <= 110 and len(output.message) <= 1000 for output in by_value.outputs)
    assert by_suite.status in ("exception", "exit")


def test_a_candidates_error_of_a_builtin_name_satisfies_no_suite_that_expects_that(arena: Arena) -> None:
    test = """
        def check(candidate):
            try:
                candidate([], 1)
            except ZeroDivisionError:
                return
            raise AssertionError("no division by zero")
        """
    source = "class ZeroDivisionError(Exception): pass\n" + body("raise ZeroDivisionError")
    assert arena.split(source, test).status == "exception"
    source = (
        "class M(type):\n    __instancecheck__ = lambda c, o: True\nclass E(Exception, metaclass=M): pass\n"
    )
    assert arena.split(source + body("raise E"), test).status == "exception"
    assert arena.split(body("1 / 0"), test).status == "ok"


def test_an_error_that_cannot_be_told_is_told_without_its_text(arena: Arena) -> None:
    source = body(
        """
        class E(Exception):
            def __str__(self): raise E
            __repr__ = __str__
        raise E
        """
    )
    result = arena.calls(source)
    assert result.outputs == [ErrorRecord("E", "<unprintable>")] * 3
    assert arena.split(source).status == "exception"
    assert arena.script(f"{source}\nscale(1, 1)").status == "exception"


def test_a_deep_chain_of_causes_is_told_by_its_last(arena: Arena) -> None:
    source = body(
        """
        error = ValueError(0)
        for number in range(1, 3000):
            outer = ValueError(number)
            outer.__cause__ = outer.__context__ = error
            error = outer
        error.__context__ = error
        raise error
        """
    )
    assert [output.message for output in arena.calls(source).outputs] == ["2999"] * 3
    assert arena.split(source).status == "exception"
    assert arena.script(f"{source}\nscale(1, 1)").status in ("exception", "output_limit")


@pytest.mark.parametrize(
    "made",
    [
        "range(10**15)",
        "'x' * 10**5",
        "[0] * 900_000",
        "10 ** 40000",
        "[[[[[]]]]]",
        "{i: i for i in range(10**4)}",
    ],
)
def test_a_value_that_burdens_the_suite_is_the_candidates_doing(arena: Arena, made: str) -> None:
    """The suite does what is reasonable with a small answer; it gets another."""
    test = """
        def check(candidate):
            value = candidate([1, 2, 3], 2)
            assert sorted(value) == [2, 4, 6] if hasattr(value, "__iter__") else str(value) == "2"
        """
    source = f"def scale(values, factor): return {made}\n"
    assert arena.split(source, test, Limits(wall_s=1.0, memory_mb=128)).status in (
        "failed",
        "memory_limit",
        "timeout",
    )


def test_a_value_too_large_for_the_job_is_an_output_limit(arena: Arena) -> None:
    limits = Limits(wall_s=20, result_kb=64)
    source = "def scale(values, factor): return 'x' * 60_000\n"
    result = arena.calls(source, limits)
    assert (result.status, len(result.outputs)) == ("output_limit", 2)
    assert arena.split(source.replace("60_000", "100_000"), limits=limits).status in (
        "output_limit",
        "unserializable",
    )
    assert arena.calls(source.replace("60_000", "100_000"), limits).status == "unserializable"
