"""Rust: which function is meant, what it may borrow, what its errors and panics are."""

from collections.abc import Iterator
from typing import Any

import pytest
from dynamic import calls, script, values

from sandbox import Call, ErrorRecord, Limits, Sandbox

USE = "use std::collections::*;\n"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.mark.parametrize(
    "source",
    [
        "fn f(a: i32) -> i32 { a + 1 }",
        "pub(crate) const fn f(a: i32) -> i32 { a + 1 }",
        "impl Solution { pub fn f(a: i32) -> i32 { Self::g(a) } fn g(a: i32) -> i32 { a + 1 } }",
        "struct Solution;\nimpl Solution { fn f(&self, a: i32) -> i32 { a + 1 } }\nfn main() {}",
        "struct Solution { k: i32 }\nimpl Solution { fn new() -> Self { Self { k: 1 } }\n"
        "fn f(&mut self, a: i32) -> i32 { self.k += a; self.k } }",
        "#[derive(Default)] pub struct Solution {}\nimpl Solution { fn f(self, a: i32) -> i32 { a + 1 } }",
        "fn f<T: std::ops::Add<Output = T> + From<u8>>(a: T) -> T { a + T::from(1) }",
        "use std::ops::Add;\n"
        "fn f<'a, T>(a: &'a T) -> T where T: Copy + Add<Output = T> + From<u8> { *a + 1.into() }",
        "#!/usr/bin/env rust\n//! What it does.\n#![forbid(unsafe_code)]\n#![deny(warnings)]\n"
        "fn main() { let unused = 1; }\nfn f(a: i32) -> i32 { crate::g(a) }\nfn g(a: i32) -> i32 { a + 1 }",
        "\ufefffn f(a: i32) -> i32 { a + 1 }",
        "mod inner { pub fn f(_: i32) -> i32 { 7 } }\ntrait T { fn f(_: i32) -> i32; }\n"
        "/* fn f( /* nested */ fn f( */ const S: &str = r#\"fn f(\"#; const C: char = '\"';\n"
        "fn f<'a>(a: i32) -> i32 { let _ = ('{', '\\'', b'{', S, C); a + 1 }",
        "macro_rules! vec { () => { 0 } }\nstruct Ok; type Result = u8;\nfn f(a: i32) -> i32 { a + 1 }",
        "use std::alloc::System;\n#[global_allocator] static A: System = System;\n"
        "fn f(a: i32) -> i32 { a + 1 }",
        "fn f(a: i32) -> i32 { a + 1 }\n#[cfg(test)] mod tests { #[test] fn t() { super::f(); } }",
        "fn f(a: i32) -> i32 { a + 1 } // the end",
        "#[inline(never)]\nfn f(#[allow(unused)] mut a: i32,) -> i32 { a += 1; a }",
    ],
)  # fmt: skip
def test_the_function_is_found_where_and_how_it_is_declared(box: Sandbox, source: str) -> None:
    assert values(box, "rust", source, 1, 1) == [2, 2]


def test_a_name_that_is_a_word_of_the_language_is_found(box: Sandbox) -> None:
    assert values(box, "rust", "fn r#match(a: i32) -> i32 { a }", 1, entry="match") == [1]


def test_what_it_borrows_is_made_of_the_same_values(box: Sandbox) -> None:
    parameters = "s: &str, v: &[i32], w: &Vec<String>, x: &String, m: &HashMap<String, i32>, y: Option<&str>"
    body = 'format!("{s}{v:?}{w:?}{x}{}{y:?}{z:?}{t:?}", m["a"])'
    source = f"{USE}fn f({parameters}, z: &[&str], t: &(i32, &str)) -> String {{ {body} }}"
    given = Call(("é", [1, 2], ["w"], "x", {"a": 5}, None, ["z"], (3, "t")))
    assert values(box, "rust", source, given) == ['é[1, 2]["w"]x5None["z"](3, "t")']


def test_what_it_returns_may_be_borrowed(box: Sandbox) -> None:
    body = "a.iter().map(|x| &x[..]).chain([b]).collect()"
    source = f"fn f<'a>(a: &'a [String], b: &'a str) -> Vec<&'a str> {{ {body} }}"
    assert values(box, "rust", source, Call((["a"], "b"))) == [["a", "b"]]


def test_what_it_changed_is_its_value_where_it_returns_nothing(box: Sandbox) -> None:
    assert values(
        box, "rust", "fn f(v: &mut Vec<i32>, k: usize) { v.rotate_left(k) }", Call(([1, 2, 3], 1))
    ) == [[2, 3, 1]]
    assert values(
        box, "rust", "fn f(a: &mut i32, b: &mut String) { *a += 1; b.push('!') }", Call((1, "b"))
    ) == [(2, "b!")]
    assert values(box, "rust", "fn f(v: &mut Vec<i32>) -> usize { v.push(1); v.len() }", [5]) == [2]


def test_an_err_is_an_error_and_an_ok_its_value(box: Sandbox) -> None:
    source = """use std::error::Error;
    #[derive(Debug)] struct ArgumentError(i32);
    fn f(n: i32) -> Result<i32, Box<dyn Error>> { if n > 0 { Ok(n) } else { Ok("x".parse::<i32>()?) } }
    fn g(n: i32) -> Result<(), String> { Err(format!("words {}", n)) }
    fn h(n: i32) -> Result<(), ArgumentError> { Err(ArgumentError(n)) }
    fn k(n: i32) -> Result<Option<i32>, &'static str> { if n > 0 { Ok(None) } else { Err("text") } }
    """
    assert values(box, "rust", source, 1, 0) == [
        1,
        ErrorRecord("Box<dyn Error>", "invalid digit found in string"),
    ]
    assert values(box, "rust", source, 1, entry="g") == [ErrorRecord("String", "words 1")]
    assert values(box, "rust", source, 1, entry="h") == [ErrorRecord("own.ArgumentError", "ArgumentError(1)")]
    assert values(box, "rust", source, 1, 0, entry="k") == [None, ErrorRecord("&str", "text")]


def test_an_err_within_a_value_has_no_encoding(box: Sandbox) -> None:
    source = (
        "fn f(n: i32) -> Vec<Result<i32, String>> { vec![if n > 0 { Ok(n) } else { Err(String::new()) }] }"
    )
    outputs = calls(box, "rust", source, 1, 0).outputs
    assert outputs[0] == [1]
    assert outputs[1].raised is False


def test_a_panic_is_an_error_of_its_call_alone(box: Sandbox) -> None:
    source = 'fn f(v: Vec<i32>) -> i32 { if v.len() == 2 { panic!("told {}", v[0]) } v[0] + 1 }'
    result = calls(box, "rust", source, [], [7, 8], [(1 << 31) - 1], [1])
    assert result.outputs == [
        ErrorRecord("panic", "index out of bounds: the len is 0 but the index is 0"),
        ErrorRecord("panic", "told 7"),
        ErrorRecord("panic", "attempt to add with overflow"),
        2,
    ]
    assert "told 7" in result.stderr


def test_a_panic_hook_and_an_unwind_of_its_own_do_no_harm(box: Sandbox) -> None:
    source = """use std::panic;
    fn f(n: i32) -> i32 {
        panic::set_hook(Box::new(|_| {}));
        panic::catch_unwind(|| panic!("a")).unwrap_or(n)
    }"""
    result = calls(box, "rust", source, 3)
    assert (result.outputs, result.stderr) == ([3], "")


# (type, what is given, what comes back)
FITS: list[tuple[str, Any, Any]] = [
    ("Vec<u8>", b"\x00\xff", [0, 255]),
    ("Vec<u8>", [1, 2], [1, 2]),
    ("[[char; 2]; 1]", [["é", "b"]], [["é", "b"]]),
    ("LinkedList<i32>", (1, 2), [1, 2]),
    ("BTreeSet<BTreeSet<i32>>", {frozenset({1}), frozenset()}, {frozenset({1}), frozenset()}),
    ("HashMap<Vec<i32>, ()>", {(1, 2): None}, {(1, 2): None}),
    ("Box<Option<std::rc::Rc<String>>>", "s", "s"),
    ("std::sync::Arc<(i32,)>", [1], (1,)),
    ("std::borrow::Cow<'static, str>", "é\0", "é\0"),
    ("f32", 1, 1.0),
    ("u128", (1 << 128) - 1, (1 << 128) - 1),
]


def test_a_value_fits_a_type_and_comes_back_as_the_type_is_in_python(box: Sandbox) -> None:
    # All in one tuple of tuples, since it is the compiler that takes its time.
    groups = [FITS[:4], FITS[4:8], FITS[8:]]
    whole = f"({', '.join('(' + ', '.join(kind for kind, _, _ in group) + ',)' for group in groups)})"
    given = tuple(tuple(one for _, one, _ in group) for group in groups)
    (outputs,) = values(box, "rust", f"{USE}fn f(x: {whole}) -> {whole} {{ x }}", given)
    for (kind, _, back), output in zip(FITS, (one for group in outputs for one in group), strict=True):
        assert (kind, type(output), output) == (kind, type(back), back)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("bool", [0, 1, None, "x"]),
        ("i32", [True, 1.0, "1", None, [1]]),
        ("f64", [True, "1", None, 1 << 200, 1j]),
        ("char", ["", "ab", 97, "\ud800"]),
        ("String", [1, None, ["a"], b"a", "\ud800"]),
        ("Vec<i32>", [{1}, "ab", b"ab", {1: 2}, [1, "a"], None]),
        ("HashSet<i32>", [[1], {"a"}, {1: 2}]),
        ("HashMap<String, i32>", [{1: 1}, {"a": "b"}, [("a", 1)]]),
        ("(i32, i32)", [(1,), (1, 2, 3), (1, "a"), 1]),
        ("[i32; 2]", [[1], [1, 2, 3]]),
        ("Option<i32>", ["a"]),
        ("()", [0, (), []]),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_an_argument_error(box: Sandbox, kind: str, given: list[Any]) -> None:
    outputs = values(box, "rust", f"{USE}fn f(x: {kind}) -> i32 {{ let _ = x; 1 }}", *given)
    assert [one.type for one in outputs] == ["ArgumentError"] * len(given)


def test_a_map_without_an_order_comes_back_in_one_order(box: Sandbox) -> None:
    source = f"{USE}fn f(n: i32) -> HashMap<i32, i32> {{ (0..n).map(|x| (x, x)).collect() }}"
    first, *others = values(box, "rust", source, *[50] * 5)
    assert all(list(one) == list(first) for one in others)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("struct Foo;\nfn f(x: Foo) -> i32 { 1 }", "a type that no value fits"),
        ("struct Foo;\nfn f(x: i32) -> Foo { Foo }", "a type that no value fits"),
        ("fn f(x: i32) -> impl Iterator<Item = i32> { 0..x }", "a type that no value fits"),
        ("fn f(x: impl Into<i64>) -> i64 { x.into() }", "`x : impl Into < i64 >`"),
        ("fn f<const N: usize>(x: [i32; N]) -> usize { N }", "generic over a constant"),
        ("unsafe fn f(x: i32) -> i32 { x }", "unsafe"),
        ("async fn f(x: i32) -> i32 { x }", "async"),
        ("mod inner { pub fn f(x: i32) -> i32 { x } }", "nothing declares fn f"),
        ("struct Other;\nimpl Other { fn f(x: i32) -> i32 { x } }", "nothing declares fn f"),
        ("macro_rules! m { () => { fn f(x: i32) -> i32 { x } } }\nm!();", "nothing declares fn f"),
    ],
)
def test_what_cannot_be_called_is_missing_with_the_reason(box: Sandbox, source: str, told: str) -> None:
    result = calls(box, "rust", source, 1)
    assert result.status == "exception", result.stderr
    assert told in result.detail


def test_refused_memory_that_is_dealt_with_is_no_limit(box: Sandbox) -> None:
    source = """fn f(n: usize) -> bool {
        let mut v: Vec<u8> = Vec::new();
        let refused = v.try_reserve(n).is_err();
        if n == 1 { std::process::abort() }
        refused
    }"""
    limits = Limits(wall_s=60, cpu_s=60, memory_mb=64)
    assert values(box, "rust", source, 1 << 40, 2, limits=limits) == [True, False]
    assert calls(box, "rust", source, 1 << 40, 1, limits=limits).status == "signal"


def test_a_script_panics_with_status_101(box: Sandbox) -> None:
    result = script(box, "rust", 'fn main() { panic!("so it is") }')
    assert (result.status, result.exit_code) == ("exit", 101)
    assert "so it is" in result.stderr


def test_integers_of_a_script_wrap_as_in_an_optimised_build(box: Sandbox) -> None:
    source = 'fn main() { let x = std::env::args().count() as i32; println!("{}", i32::MAX - 1 + x + 1) }'
    assert script(box, "rust", source).stdout == f"{-(1 << 31)}\n"
