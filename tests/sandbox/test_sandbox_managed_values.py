"""Go, Java and C#: what is given to a function of a type comes back as it was."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from managed import each_language, error_type, exact, run

from sandbox import Sandbox, codec


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


INT64 = st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from(
    [0, -1, -128, 127, 128, -129, 255, 256, -(1 << 63)]
)
BIG = st.integers() | st.integers(-(1 << 300), 1 << 300) | INT64
LONE = st.builds(
    lambda text, one: f"{text}a{one}b", st.text(max_size=3), st.sampled_from("\ud800\udbff\udc00\udfff")
)
TEXT = st.text() | LONE | st.sampled_from(["\0", "\x7f\x80߿ࠀ￿𐀀􏿿"])
FLOATS = st.floats()
TYPED = st.tuples(
    INT64,
    FLOATS,
    TEXT,
    st.binary(max_size=300),
    st.booleans(),
    BIG,
    st.lists(st.lists(INT64, max_size=5), max_size=5),
    st.dictionaries(TEXT, st.lists(FLOATS, max_size=3), max_size=5),
    st.dictionaries(INT64, TEXT, max_size=5),
    st.sets(INT64, max_size=5),
)
IDENTITY = {
    "go": (
        'import "math/big"\n'
        "func f(a int64, b float64, c string, d []byte, e bool, g *big.Int, h [][]int64, i "
        "map[string][]float64, "
        "j map[int64]string, k map[int64]struct{}) (int64, float64, string, []byte, bool, *big.Int, "
        "[][]int64, "
        "map[string][]float64, map[int64]string, map[int64]struct{}) { return a, b, c, d, e, g, h, i, j, k }"
    ),
    "java": (
        "static List<Object> f(long a, double b, String c, byte[] d, boolean e, BigInteger g, long[][] h, "
        "Map<String, List<Double>> i, TreeMap<Long, String> j, Set<Long> k) "
        "{ return Arrays.asList(a, b, c, d, e, g, h, i, j, k); }"
    ),
    "csharp": (
        "static object[] f(long a, double b, string c, byte[] d, bool e, BigInteger g, long[][] h, "
        "Dictionary<string, List<double>> i, SortedDictionary<long, string> j, HashSet<long> k) "
        "{ return new object[] {a, b, c, d, e, g, h, i, j, k}; }"
    ),
}
SCALARS = st.none() | st.booleans() | BIG | FLOATS | TEXT | st.binary(max_size=20)
NATURAL = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4) | st.sets(INT64, max_size=4)
    ),
    max_leaves=20,
)
ANYTHING = {
    "go": "func f(a interface{}) interface{} { return a }",
    "java": "static <T> T f(T a) { return a; }",
    "csharp": "static object f(object a) { return a; }",
}


several = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@each_language
@several
@given(calls=st.lists(TYPED, min_size=10, max_size=40))
def test_values_of_each_mapped_type_come_back_unchanged(box: Sandbox, lang: str, calls: list[Any]) -> None:
    result = run(box, lang, IDENTITY[lang], *calls)
    assert result.status == "ok"
    for sent, back in zip(calls, result.outputs, strict=True):
        assert exact(tuple(back)) == exact(sent)


@each_language
@several
@given(calls=st.lists(NATURAL, min_size=10, max_size=40))
def test_values_of_an_open_type_come_back_unchanged(box: Sandbox, lang: str, calls: list[Any]) -> None:
    result = run(box, lang, ANYTHING[lang], *((value,) for value in calls))
    assert result.status == "ok"
    for sent, back in zip(calls, result.outputs, strict=True):
        assert exact(back) == exact(sent)


@each_language
def test_an_int_becomes_a_float_where_one_is_wanted_and_overflow_is_refused(box: Sandbox, lang: str) -> None:
    source = {
        "go": "func f(a float64, b float32) []float64 { return []float64{a, float64(b)} }",
        "java": "static double[] f(double a, float b) { return new double[] {a, b}; }",
        "csharp": "static double[] f(double a, float b) { return new double[] {a, b}; }",
    }[lang]
    result = run(box, lang, source, (3, 1), (1 << 60, 0.1), (1 << 1024, 1), (1.0, 1e39))
    assert codec.encode(result.outputs[0]) == codec.encode([3.0, 1.0])
    assert result.outputs[1] == [float(1 << 60), 0.10000000149011612]
    assert [error_type(value) for value in result.outputs[2:]] == ["ArgumentError"] * 2
