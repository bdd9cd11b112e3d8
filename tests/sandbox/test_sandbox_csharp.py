"""C#: which method is called, what its own values and errors come to, and what no class can fake."""

from collections.abc import Iterator
from decimal import Decimal

import pytest
from managed import error_type, exact, run, script

from sandbox import Sandbox


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


def test_csharp_the_method_is_chosen_by_what_its_parameters_take(box: Sandbox) -> None:
    source = """
        static string f(object a) { return "object"; }
        static string f(double a) { return "double"; }
        static string f(long a) { return "long"; }
        static string f(int a) { return "int"; }
        static string f(List<int> a) { return "ints"; }
        static string f(string a, int b = 5) { return "string" + b; }
        static string f(ref int a) { return "ref"; }
        static string f<T>(T a, T b) { return "generic"; }
    """
    given = [(1,), (1 << 40,), (1.5,), ([1],), (["x"],), ("x",), ("x", 6)]
    named = ["int", "long", "double", "ints", "object", "string5", "string6"]
    assert run(box, "csharp", source, *given).outputs == named


def test_csharp_tuples_nullables_decimals_and_rectangles(box: Sandbox) -> None:
    source = """
        public object[] f((int, string) a, int? b, decimal c, int[,] d, char e, KeyValuePair<string, int> g) {
            return new object[] { a, b, c + 1, d, e, g, Tuple.Create(d.Length) };
        }
    """
    result = run(
        box,
        "csharp",
        source,
        ((1, "x"), None, Decimal("1.50"), [[1, 2], [3, 4]], "c", ("k", 1)),
        ([1, "x"], 2, 3, [], "c", ("k", 1)),
        ((1, "x"), 2, 3, [[1], [2, 3]], "c", ("k", 1)),
        ((1, "x"), 2, Decimal("1e-40"), [], "c", ("k", 1)),
    )
    assert result.outputs[0] == [(1, "x"), None, Decimal("2.50"), [[1, 2], [3, 4]], "c", ("k", 1), (4,)]
    assert result.outputs[1] == [(1, "x"), 2, Decimal(4), [], "c", ("k", 1), (0,)]
    assert [error_type(value) for value in result.outputs[2:]] == ["ArgumentError"] * 2


def test_csharp_what_is_yielded_is_a_list_and_its_error_the_calls(box: Sandbox) -> None:
    source = (
        "static IEnumerable<int> f(int n) { for (int i = n; ; i--) { if (i < -2) yield break; yield "
        "return 6 / i; } }"
    )
    result = run(box, "csharp", source, (2,), (-1,))
    assert error_type(result.outputs[0]) == "System.DivideByZeroException"
    assert result.outputs[1] == [-6, -3]


def test_csharp_an_enumeration_without_end_is_refused(box: Sandbox) -> None:
    source = "static IEnumerable<int> f() { while (true) yield return 1; }"
    result = run(box, "csharp", source, ())
    assert result.status == "unserializable"


@pytest.mark.parametrize(
    "value",
    [
        "new Own { 1 }",
        "new { X = 1 }",
        "new Func<int>(() => 1)",
        "new Own { 1 }.AsReadOnly()",
        "DayOfWeek.Friday",
    ],
    ids=["list", "anonymous", "delegate", "view", "enum"],
)
def test_csharp_a_class_of_ones_own_is_never_encoded(box: Sandbox, value: str) -> None:
    source = f"class Own : List<int> {{ public new int Count => 7; }} static object f() {{ return {value}; }}"
    result = run(box, "csharp", source, ())
    assert result.status == "unserializable"
    assert result.outputs[0].raised is False


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("new Stack<int>(new[] { 1, 2 })", [1, 2]),
        ("new Queue<int>(new[] { 1, 2 })", [1, 2]),
        ("new LinkedList<int>(new[] { 1, 2 })", [1, 2]),
        ("new SortedSet<int> { 2, 1 }", {1, 2}),
        ("new SortedList<int, string> { [2] = null }", {2: None}),
        ("new Dictionary<int, int> { [1] = 2 }.Keys", [1]),
        ('new System.Collections.ArrayList { 1, "a" }', [1, "a"]),
        ("new HashSet<(int, int)> { (1, 2) }", {(1, 2)}),
        ("new Complex(1, -2)", 1 - 2j),
        ("ulong.MaxValue", (1 << 64) - 1),
        ("long.MinValue", -(1 << 63)),
        ("0.1f", 0.10000000149011612),
        ("1.10m", Decimal("1.10")),
        ("new int[2, 0]", [[], []]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_csharp_what_the_library_makes_is_encoded(box: Sandbox, value: str, expected: object) -> None:
    result = run(box, "csharp", f"static object f() {{ return {value}; }}", ())
    assert exact(result.outputs[0]) == exact(expected)


def test_csharp_a_thread_that_aborts_itself_ends_its_call_alone(box: Sandbox) -> None:
    source = "static int f(int n) { if (n == 0) System.Threading.Thread.CurrentThread.Abort(); return n; }"
    result = run(box, "csharp", source, (0,), (1,))
    assert error_type(result.outputs[0]) == "System.Threading.ThreadAbortException"
    assert result.outputs[1] == 1


def test_csharp_a_script_prints_its_own_text_and_nothing_of_the_runtimes(box: Sandbox) -> None:
    text = (
        "class P { static void Main() { var t = new System.Threading.Thread(() => "
        "System.Console.Write(1)); t.Start(); t.Join(); } }"
    )
    result = script(box, "csharp", text)
    assert (result.stdout, result.stderr) == ("1", "")
