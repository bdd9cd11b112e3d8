"""Which arguments are made for a function."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelers.programs import runs
from labelers.programs.declared import literals_of, parameters_of
from labelers.programs.inputs import Inputs, Literals
from labelers.programs.shapes import Shape, of_values, python_parameters
from sandbox import Call


def made(
    known: list[tuple[Any, ...]],
    count: int = 120,
    signature: str = "def f(*a)",
    literals: Literals | None = None,
) -> list[tuple[str, Call]]:
    inputs = Inputs(python_parameters(signature), literals or Literals(), random.Random(3), 4096)
    inputs.learn([Call(args) for args in known])
    inputs.look()
    return inputs.batch(count)


def firsts(known: list[Any], **other: Any) -> list[Any]:
    return [call.args[0] for _, call in made([(one,) for one in known], **other)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        | st.frozensets(st.integers(), max_size=3)
        | st.sets(st.text(max_size=2), max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(VALUES, min_size=2, max_size=2).map(tuple), max_size=5), st.integers(0, 3))
def test_made_calls_are_new_small_and_the_same_each_time(known: list[tuple[Any, ...]], seed: int) -> None:
    def batch() -> list[tuple[str, str]]:
        inputs = Inputs((), Literals((1, 2.5), ("a",)), random.Random(seed), 2000)
        inputs.learn([Call(args) for args in known])
        inputs.look()
        return [(source, runs.call_text(call)) for source, call in inputs.batch(15)]

    first = batch()
    assert first == batch()
    texts = [text for _, text in first]
    assert len(set(texts)) == len(texts)
    assert not set(texts) & {runs.call_text(Call(args)) for args in known}
    assert all(len(text) <= 2000 for text in texts)


def test_numbers_stay_above_what_was_seen() -> None:
    found = firsts([1, 5, 9, 30])
    assert min(found) == 2
    assert max(found) > 30
    assert min(firsts([0, 5, 9, 30])) >= 0
    assert min(firsts([-4, 5, 9, 30])) < -4


def test_few_numbers_prove_nothing() -> None:
    assert min(firsts([7])) < 0


def test_texts_are_made_of_the_characters_seen() -> None:
    assert set("".join(firsts(["(())", "()", "((", ")"]))) == set("()")
    assert set("".join(firsts(["hello", "world"]))) > set("helowrd")


def test_order_and_difference_of_items_are_kept() -> None:
    for value in firsts([[1, 2, 5], [2, 3], [4, 8, 9, 11]]):
        assert value == sorted(set(value))
    assert any(len(set(value)) < len(value) for value in firsts([[1, 1, 5], [2, 3], [4, 8, 9, 8]]))


def test_sequences_of_equal_lengths_stay_so() -> None:
    known = [([1, 2], [3, 4]), ([1], [2]), ([1, 2, 3], [4, 4, 9])]
    for _, call in made(known):
        assert len(call.args[0]) == len(call.args[1])


def test_a_number_that_is_a_length_stays_one() -> None:
    for _, call in made([([1, 2], 2), ([5], 1), ([], 0)]):
        assert call.args[1] == len(call.args[0])


def test_edges_are_tried() -> None:
    found = firsts([[3, 1], [2, 2, 5], []])
    assert any(len(value) == 1 for value in found)
    assert any(len(value) > 3 for value in found)
    assert any(-1 in value for value in firsts([[3, -1], [2, 2, 5], []]))
    assert any(not value.isascii() for _, call in made([], 200, "def f(s: str)") for value in call.args)
    assert "" in [call.args[0] for _, call in made([], 200, "def f(s: str)")]
    nested = [call.args[0] for _, call in made([], 200, "def f(x: list[list[int]])")]
    assert any(one and isinstance(one[0], list) and one[0] for one in nested)


def test_literals_of_the_code_and_their_neighbours_are_tried() -> None:
    found = firsts([3, 8, 90], literals=Literals((4321,), ()))
    assert {4320, 4321, 4322} <= set(found)
    assert "needle" in firsts(["ab cd", "needle in hay", ""], literals=Literals((), ("needle",)))


def test_what_was_never_seen_is_drawn_from_its_type_and_nothing_else() -> None:
    assert made([], 20, "def f(a, b)") == []
    found = made([], 60, "def f(a: int, b: 'list[str]', *, c: bool = False)")
    assert {source for source, _ in found} == {"generated"}
    assert all(type(call.args[0]) is int and type(call.args[1]) is list for _, call in found)
    assert {"c"} == {name for _, call in found for name in call.kwargs}


def test_a_hostile_annotation_has_no_shape() -> None:
    deep = "list[" * 500 + "int" + "]" * 500
    for annotation in (deep, "'('", "__import__('os')", "lambda: 1", "Callable[[int], int]", "x[1][2]"):
        assert [one.shape for one in python_parameters(f"def f(a: {annotation})")] in ([None], [])


@given(st.lists(VALUES, max_size=6))
@settings(max_examples=60, deadline=None)
def test_every_shape_can_be_drawn_from(values: list[Any]) -> None:
    shape = of_values(values)
    if shape is not None:
        inputs = Inputs((), Literals(), random.Random(0), 4096)
        for _ in range(5):
            runs.to_text(inputs.value(shape))


def shown(shape: Shape | None) -> str:
    if shape is None:
        return "?"
    return shape.kind + (f"({' '.join(map(shown, shape.parts))})" if shape.parts else "")


@pytest.mark.parametrize(
    ("language", "name", "signature", "shapes"),
    [
        (
            "Java",
            "Solution.f",
            "static int f(final int[][] g, List<Integer> xs, char c)",
            "list(list(int)) list(int) str",
        ),
        ("Java", "Solution.f", "int f(Map<String, List<Long>> m, Object o)", "dict(str list(int)) ?"),
        (
            "C#",
            "Solution.F",
            "public int F(int? a, string s, Dictionary<string, int> d)",
            "union(int none) str dict(str int)",
        ),
        ("C#", "Solution.F", "int F(ref int a, out int b)", "? ?"),
        (
            "C++",
            "f",
            "int f(const std::vector<std::pair<int, int>>& ps, const string& s)",
            "list(pair(int int)) str",
        ),
        ("C++", "f", "template<typename T> int f(unsigned long long n, T x, int* p)", "int ? ?"),
        (
            "C",
            "f",
            "int f(const int *a, size_t n, const char *s, double x, int b[], int m)",
            "list(int) str float list(int)",
        ),
        ("C", "f", "int f(void)", ""),
        (
            "Go",
            "f",
            "func f(a, b int, xs []string, m map[string][]float64) int",
            "int int list(str) dict(str list(float))",
        ),
        ("Go", "f", "func f(g [3][3]byte, p *T)", "list(list(int)) ?"),
        (
            "Rust",
            "f",
            "fn f(mut xs: Vec<i32>, s: &str, o: Option<u8>, r: &[i64], t: (i32, String)) -> i64",
            "list(int) str union(int none) list(int) pair(int str)",
        ),
        (
            "TypeScript",
            "f",
            "function f(a: number, b: string[][], c?: Record<string, boolean>): number",
            "int list(list(str)) dict(str bool)",
        ),
        (
            "TypeScript",
            "f",
            "const f = (a: number | null, e: [number, string][]): void =>",
            "union(int none) list(pair(int str))",
        ),
        ("JavaScript", "f", "function f(a, b = 2)", "? ?"),
        ("PHP", "f", "function f(int $a, ?string $c = null, array $x = [1, 2])", "int union(str none) ?"),
        ("Ruby", "f", "def f(a, b = 1, *c, k:)", "? ? ?"),
    ],
)
def test_declared_types_are_read(language: str, name: str, signature: str, shapes: str) -> None:
    found = parameters_of(signature, language, name)
    assert found is not None
    assert " ".join(shown(one.shape) for one in found) == shapes


@given(
    st.text(alphabet="f(<>[]){},*&?|:;= int.aVecmap\n", max_size=60),
    st.sampled_from(["Go", "C++", "Rust", "C"]),
)
def test_a_hostile_signature_raises_nothing(text: str, language: str) -> None:
    for one in parameters_of(f"f({text}", language, "f") or ():
        assert one.shape is None or isinstance(one.shape, Shape)


def test_literals_of_other_languages_are_read_from_the_text() -> None:
    code = 'func f(n int) bool { return n > 1234 || "yes" == s }'
    span = {"name": "f", "start_byte": 0, "end_byte": len(code)}
    found = literals_of({"language": "Go", "code": code}, span)
    assert (found.numbers, found.texts) == ((1234,), ("yes",))
