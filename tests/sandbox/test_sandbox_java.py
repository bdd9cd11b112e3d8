"""Java: which method is called, what its own values and errors come to, and what no class can fake."""

from collections.abc import Iterator
from decimal import Decimal

import pytest
from managed import PATIENT, error_type, exact, need, run, script

from sandbox import Call, Job, Sandbox


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


def test_java_the_method_is_chosen_by_what_its_parameters_take(box: Sandbox) -> None:
    source = """
        static String f(Object a) { return "object"; }
        static String f(double a) { return "double"; }
        static String f(long a) { return "long"; }
        static String f(int a) { return "int"; }
        static String f(int[] a) { return "ints"; }
        static String f(double[] a) { return "doubles"; }
        static String f(String a) { return "string"; }
        static String f(int a, int b) { return "two"; }
    """
    given = [(1,), (1 << 40,), (1.5,), ([1],), ([1.5],), ("x",), (1, 2), (True,), (1 << 80,)]
    named = ["int", "long", "double", "ints", "doubles", "string", "two", "object", "double"]
    assert run(box, "java", source, *given).outputs == named


def test_java_generic_parameters_make_elements_of_their_type(box: Sandbox) -> None:
    source = """
        static long f(List<Long> a, Map<Character, Set<Integer>> b) {
            long sum = 0;
            for (Long one : a) sum += one;
            for (Map.Entry<Character, Set<Integer>> one : b.entrySet())
                for (Integer two : one.getValue()) sum += two + one.getKey();
            return sum;
        }
    """
    result = run(box, "java", source, ([1, 2], {"a": {3}}), ([1.5], {}), ([1], {"ab": set()}))
    assert result.outputs[0] == 3 + 3 + 97
    assert [error_type(value) for value in result.outputs[1:]] == ["ArgumentError"] * 2


def test_java_characters_decimals_and_options(box: Sandbox) -> None:
    source = """
        static Object f(char[][] a, BigDecimal b, Optional<Integer> c, OptionalInt d) {
            return Arrays.asList(a, b.add(BigDecimal.ONE), c, d, Map.entry(a[0][0], 1));
        }
    """
    result = run(box, "java", source, ([["x", "y"], "z"], Decimal("1.50"), None, 4))
    assert result.outputs == [[[["x", "y"], ["z"]], Decimal("2.50"), None, 4, ("x", 1)]]


def test_java_variable_parameters_take_the_rest_or_a_list(box: Sandbox) -> None:
    source = "static int f(String a, int... b) { return b.length; }"
    assert run(box, "java", source, ("x",), ("x", 1, 2), ("x", [1, 2, 3])).outputs == [0, 2, 3]


def test_java_a_method_of_a_base_class_or_a_private_one_is_found(box: Sandbox) -> None:
    need("java")
    text = (
        "class Base { private int f(int a) { return a + 1; } } public class Solution extends Base { "
        "private Solution() { } }"
    )
    for head in ("", "package deep.down;\n"):
        job = Job(
            "calls",
            {"Solution.java": head + text},
            entry="f",
            calls=[Call((1,))],
            lang="java",
            limits=PATIENT,
        )
        assert box.run(job).outputs == [2]


def test_java_a_void_method_returns_none(box: Sandbox) -> None:
    assert run(box, "java", "void f(int[] a) { a[0] = 9; }", ([1],)).outputs == [None]


@pytest.mark.parametrize(
    "value",
    [
        "new ArrayList<Integer>() { public int size() { return 1; } public Integer get(int i) { return 7; } "
        "public Iterator<Integer> iterator() { return List.of(7).iterator(); } }",
        "new AbstractList<Integer>() { public int size() { return 1; } public Integer get(int i) { return "
        "7; } }",
        "new HashMap<Integer, Integer>() { public Set<Map.Entry<Integer, Integer>> entrySet() { return "
        "Set.of(); } }",
        "Collections.unmodifiableList(new ArrayList<Integer>() { public Integer get(int i) { return 7; } })",
        "new Object() { public boolean equals(Object o) { return true; } }",
        "new Number() { public int intValue() { return 7; } public long longValue() { return 7; } "
        "public float floatValue() { return 7; } public double doubleValue() { return 7; } }",
    ],
    ids=["list", "abstract", "map", "view", "object", "number"],
)
def test_java_a_class_of_ones_own_is_never_encoded(box: Sandbox, value: str) -> None:
    result = run(box, "java", f"static Object f() {{ return {value}; }}", ())
    assert result.status == "unserializable"
    assert result.outputs[0].raised is False


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("List.of(1, 2)", [1, 2]),
        ("new ArrayList<>(List.of(1, 2, 3)).subList(1, 3)", [2, 3]),
        ("Collections.unmodifiableList(new LinkedList<>(List.of(1)))", [1]),
        ("Collections.synchronizedMap(new TreeMap<>(Map.of(2, 1)))", {2: 1}),
        ("new ArrayDeque<>(List.of(3, 1))", [3, 1]),
        ("new HashMap<>(Map.of(1, 2)).values()", [2]),
        ("new TreeMap<>(Map.of(1, 2)).keySet()", {1}),
        ("Set.of(Set.of(1))", {frozenset({1})}),
        ("new int[0][0]", []),
        ("new float[] {0.1f}", [0.10000000149011612]),
        ("List.of(1, 2).stream().map(x -> -x).toList()", [-1, -2]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_java_what_the_jdk_makes_is_encoded(box: Sandbox, value: str, expected: object) -> None:
    result = run(box, "java", f"static Object f() {{ return {value}; }}", ())
    assert exact(result.outputs[0]) == exact(expected)


def test_java_zeros_of_both_signs_are_one_key(box: Sandbox) -> None:
    result = run(box, "java", "static Object f() { return Set.of(0.0, -0.0); }", ())
    assert result.status == "unserializable"


def test_java_an_error_that_lies_about_its_message_is_still_an_error(box: Sandbox) -> None:
    source = """
        static class Own extends RuntimeException { public String getMessage() { throw new Own(); } }
        static int f() { throw new Own(); }
    """
    result = run(box, "java", source, ())
    assert (result.outputs[0].type, result.outputs[0].message) == ("Solution$Own", "<unprintable>")


def test_java_exit_hooks_do_not_run_after_the_last_value(box: Sandbox) -> None:
    source = """
        static int f() {
            Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(3)));
            new Thread(() -> { while (true) { } }).start();
            return 1;
        }
    """
    result = run(box, "java", source, ())
    assert (result.status, result.outputs, result.exit_code) == ("ok", [1], 0)


@pytest.mark.parametrize(
    "text",
    [
        "public class Other { public static void main(String[] a) { System.out.print(1); } }",
        "class Helper { } class Runs { public static void main(String... a) { System.out.print(1); } }",
        "package a.b; public class Main { public static void main(String[] a) { System.out.print(1); } }",
        "class Other { static void main() { } } /* public class No { */ class Main { "
        'static String s = "public class No {"; static char c = \'"\'; '
        "public static void main(String[] a) { System.out.print(1); } }",
    ],
    ids=["public", "first", "package", "text"],
)
def test_java_a_script_runs_whatever_its_class_is_called(box: Sandbox, text: str) -> None:
    result = script(box, "java", text)
    assert (result.status, result.stdout) == ("ok", "1")
