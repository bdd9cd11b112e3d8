"""C, C++ and Rust alike: what a call comes to, values of every type, and programs that die."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
from dynamic import calls, values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox import Call, ErrorRecord, Limits, Sandbox

LANGS = ("c", "cpp", "rust")
ADD = {
    "c": "int f(int a, int b) { return a + b; }",
    "cpp": "int f(int a, int b) { return a + b; }",
    "rust": "fn f(a: i32, b: i32) -> i32 { a + b }",
}
each = pytest.mark.parametrize("lang", LANGS)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


# -- calls


@each
def test_each_call_has_its_own_value_or_argument_error(box: Sandbox, lang: str) -> None:
    given = [
        (1, 2),
        (-(1 << 31), (1 << 31) - 1),
        (1,),
        (1, 2, 3),
        ("1", 2),
        (1, 2.0),
        (True, 2),
        (1 << 31, 0),
    ]
    outputs = values(
        box, lang, ADD[lang], *(Call(args) for args in given), Call((1, 2), {"c": 3}), Call((5, 6))
    )
    assert outputs[0] == 3
    assert outputs[1] == -1
    assert [one.type for one in outputs[2:9]] == ["ArgumentError"] * 7
    assert outputs[9] == 11


@each
def test_an_argument_error_names_the_argument_and_what_was_due(box: Sandbox, lang: str) -> None:
    (output,) = values(box, lang, ADD[lang], Call((1, "x")))
    due = "i32" if lang == "rust" else "int"
    assert output == ErrorRecord("ArgumentError", f"argument 2: {due} was due, not str")


MAIN = {
    "c": "#include <stdlib.h>\nstatic int f(int a) { return a * 2; }\nint main(void) { exit(f(1)); }",
    "cpp": "#include <cstdlib>\nstatic int f(int a) { return a * 2; }\nint main() { exit(f(1)); }",
    "rust": "fn f(a: i32) -> i32 { a * 2 }\nfn main() { std::process::exit(f(1)) }",
}


@each
def test_a_private_function_is_called_and_the_solutions_own_main_never_runs(box: Sandbox, lang: str) -> None:
    assert values(box, lang, MAIN[lang], 4) == [8]


PRINTS = {
    "c": '#include <stdio.h>\nint f(int a) { printf("said %d", a); return a; }',
    "cpp": "#include <iostream>\nint f(int a) { std::ios::sync_with_stdio(false);"
    ' std::cout << "said " << a; return a; }',
    "rust": 'fn f(a: i32) -> i32 { print!("said {}", a); a }',
}


@each
def test_what_a_solution_prints_is_kept_apart_from_its_values(box: Sandbox, lang: str) -> None:
    result = calls(box, lang, PRINTS[lang], 4)
    assert (result.status, result.outputs, result.stdout) == ("ok", [4], "said 4")


@each
def test_no_calls_are_no_error(box: Sandbox, lang: str) -> None:
    assert values(box, lang, ADD[lang]) == []


@each
def test_a_function_that_is_not_there_is_missing(box: Sandbox, lang: str) -> None:
    result = calls(box, lang, ADD[lang], 1, entry="absent")
    assert result.status == "exception"
    assert "absent" in result.detail


@each
def test_a_solution_that_does_not_compile_is_a_compile_error_even_where_the_function_lacks(
    box: Sandbox, lang: str
) -> None:
    assert calls(box, lang, f"{ADD[lang]}\nint broken(", 1, entry="absent").status == "compile_error"


CHANGES = {
    "c": (
        "void f(int *a, int n) { for (int i = 0; i < n; i++) a[i] *= 2; }",
        "void f(int *a, int *b) { *a = *b; }",
    ),
    "cpp": (
        "#include <vector>\nvoid f(std::vector<int> &a) { for (int &x : a) x *= 2; }",
        "#include <vector>\nvoid f(std::vector<int> &a, std::vector<int> &b) { a = b; }",
    ),
    "rust": (
        "fn f(a: &mut Vec<i32>) { for x in a { *x *= 2 } }",
        "fn f(a: &mut [i32], b: &mut [i32]) { a.copy_from_slice(b) }",
    ),
}
NOTHING = {"c": "void f(int a) { (void)a; }", "cpp": "void f(const int &a) {}", "rust": "fn f(_: &i32) {}"}


@each
def test_a_function_that_returns_nothing_returns_what_it_changed(box: Sandbox, lang: str) -> None:
    one, two = CHANGES[lang]
    assert values(box, lang, one, [1, 2], []) == [[2, 4], []]
    assert values(box, lang, two, Call(([1], [2]))) == [([2], [2])]
    assert values(box, lang, NOTHING[lang], 1) == [None]


# -- values of every type, through a function that returns them

INTEGERS = {
    "c": tuple(f"{u}int{bits}_t" for bits in (8, 16, 32, 64) for u in ("", "u")),
    "rust": ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "i128", "u128"),
}
INTEGERS["cpp"] = INTEGERS["c"] = (*INTEGERS["c"], "__int128", "unsigned __int128")
# Their bounds: bits, and whether there are negative ones.
SIZES = [(bits, signed) for bits in (8, 16, 32, 64, 128) for signed in (True, False)]


def _bounds(bits: int, signed: bool) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def _identities(lang: str, types: tuple[str, ...]) -> str:
    """One function a type, f0, f1 and so on, and `f` that is never called."""
    heads = {
        "c": "#include <stdint.h>\n",
        "cpp": "#include <bits/stdc++.h>\nusing namespace std;\n",
        "rust": "",
    }
    heads["rust"] = "use std::collections::*;\n"
    lines = [
        f"fn f{n}(x: {one}) -> {one} {{ x }}" if lang == "rust" else f"{one} f{n}({one} x) {{ return x; }}"
        for n, one in enumerate(types)
    ]
    return heads[lang] + "\n".join(lines)


@each
@pytest.mark.parametrize("which", range(0, 10, 3))
def test_an_integer_type_takes_exactly_its_range(box: Sandbox, lang: str, which: int) -> None:
    low, high = _bounds(*SIZES[which])
    source = _identities(lang, INTEGERS[lang])
    inside = [low, low + 1, -1 if low else 1, 0, 127, high - 1, high]
    outputs = calls(
        box, lang, source, *inside, low - 1, high + 1, 1 << 200, -(1 << 200), entry=f"f{which}"
    ).outputs
    assert outputs[:7] == inside
    assert [one.type for one in outputs[7:]] == ["ArgumentError"] * 4


ALL_IN_ONE = {
    # A function has no more than 8 parameters in Rust, so values travel in tuples.
    "cpp": "#include <bits/stdc++.h>\nusing namespace std;\n"
    "using T = tuple<long long, double, string, bool, vector<long long>, vector<vector<double>>,"
    " map<string, vector<bool>>, unordered_map<int, string>, set<long long>, unordered_set<string>,"
    " optional<string>, pair<int, string>, set<vector<int>>, map<pair<int, int>, vector<string>>,"
    " deque<double>, variant<long long, string, vector<string>>, complex<double>, wstring, u16string,"
    " char32_t>;\n"
    "T f(T x) { return x; }",
    "rust": "use std::collections::*;\n"
    "type A = (i64, f64, String, bool, Vec<i64>, Vec<Vec<f64>>);\n"
    "type B = (BTreeMap<String, Vec<bool>>, HashMap<i32, String>, BTreeSet<i64>, HashSet<String>,"
    " Option<String>);\n"
    "type C = ((i32, String), HashSet<Vec<i32>>, HashMap<(i32, i32), Vec<String>>, VecDeque<f64>, char);\n"
    "fn f(x: (A, B, C)) -> (A, B, C) { x }",
}
text = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
wide = st.integers(-(1 << 63), (1 << 63) - 1)
narrow = st.integers(-(1 << 31), (1 << 31) - 1)
doubles = st.floats(allow_nan=False)
FIRST = (
    wide,
    doubles,
    text,
    st.booleans(),
    st.lists(wide, max_size=4),
    st.lists(st.lists(doubles, max_size=3)),
)
SECOND = (
    st.dictionaries(text, st.lists(st.booleans(), max_size=3), max_size=3),
    st.dictionaries(narrow, text, max_size=4),
    st.sets(wide, max_size=5),
    st.sets(text, max_size=5),
    st.none() | text,
)
THIRD = (
    st.tuples(narrow, text),
    st.sets(st.lists(narrow, max_size=3).map(tuple), max_size=4),
    st.dictionaries(st.tuples(narrow, narrow), st.lists(text, max_size=2), max_size=3),
    st.lists(doubles, max_size=3),
)
ANY = {
    "cpp": st.tuples(
        *(*FIRST, *SECOND, *THIRD),
        wide | text | st.lists(text, max_size=2),
        st.complex_numbers(allow_nan=False),
        text,
        text,
        st.characters(),
    ),
    "rust": st.tuples(
        st.tuples(*FIRST), st.tuples(*SECOND), st.tuples(*THIRD, st.characters(exclude_categories=("Cs",)))
    ),
}


def _same(a: Any, b: Any) -> bool:
    """Equal, of the same types all the way down, and with the same sign of zero."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(value, b[key]) for key, value in a.items())
    return bool(a == b)


@pytest.mark.parametrize("lang", sorted(ALL_IN_ONE))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_values_of_every_type_come_back_unchanged(box: Sandbox, lang: str, data: st.DataObject) -> None:
    batch = data.draw(st.lists(ANY[lang], min_size=1, max_size=12))
    outputs = values(box, lang, ALL_IN_ONE[lang], *batch)
    for given_, back in zip(batch, outputs, strict=True):
        assert _same(given_, back)


C_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=9)
C_TYPES: dict[str, st.SearchStrategy[Any]] = {
    "long long": wide,
    "double": doubles,
    "_Bool": st.booleans(),
    "char": st.characters(max_codepoint=127),
    "const char *": st.none() | C_TEXT,
    "float": st.floats(width=32, allow_nan=False),
    "long double": doubles,
    "double _Complex": st.complex_numbers(allow_nan=False),
}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_values_of_every_scalar_type_of_c_come_back_unchanged(box: Sandbox, data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(C_TYPES) - 1))
    batch = data.draw(st.lists(list(C_TYPES.values())[which], min_size=1, max_size=20))
    outputs = calls(box, "c", _identities("c", tuple(C_TYPES)), *batch, entry=f"f{which}").outputs
    assert len(outputs) == len(batch)
    assert all(map(_same, batch, outputs))


@each
def test_special_floats_come_back(box: Sandbox, lang: str) -> None:
    source = _identities(lang, ("f64" if lang == "rust" else "double",))
    back = calls(box, lang, source, math.nan, math.inf, -math.inf, -0.0, 5e-324, 3, entry="f0").outputs
    assert math.isnan(back[0])
    assert back[1:] == [math.inf, -math.inf, 0.0, 5e-324, 3.0]
    assert math.copysign(1, back[3]) == -1
    assert type(back[5]) is float


MANY = {
    "c": "#include <stdlib.h>\n"
    "int *f(int n, int *returnSize) { *returnSize = n; return calloc(n, sizeof(int)); }",
    "cpp": "#include <vector>\nstd::vector<int> f(int n) { return std::vector<int>(n); }",
    "rust": "fn f(n: usize) -> Vec<i32> { vec![0; n] }",
}


@each
def test_a_result_of_too_many_values_is_refused_and_the_calls_go_on(box: Sandbox, lang: str) -> None:
    limits = Limits(wall_s=60, cpu_s=60)
    result = calls(box, lang, MANY[lang], 900_000, 1_000_001, 3, limits=limits)
    assert [len(result.outputs[0]), result.outputs[2]] == [900_000, [0, 0, 0]]
    assert result.outputs[1].raised is False
    assert result.status == "unserializable"


# -- programs that die

DEATHS: dict[str, tuple[str, dict[str, str]]] = {
    "recursion": (
        "signal",
        {
            "c": "int f(int x) { volatile char a[500]; a[x % 500] = 1; return f(x + 1) + a[3]; }",
            "rust": "fn f(x: i32) -> i32 { let a = [x; 99]; let b = &a; f(x + 1) + b[(x % 99) as usize] }",
        },
    ),
    "abort": (
        "signal",
        {
            "c": "void abort(void);\nint f(int x) { abort(); }",
            "rust": "fn f(_: i32) { std::process::abort() }",
        },
    ),
    "exit": (
        "exit",
        {"c": "void exit(int);\nint f(int x) { exit(0); }", "rust": "fn f(_: i32) { std::process::exit(0) }"},
    ),
    "null": (
        "signal",
        {
            "c": "int f(int x) { return *(volatile int *)0; }",
            "rust": "fn f(_: i32) -> i32 { unsafe { std::ptr::read_volatile(std::ptr::null()) } }",
        },
    ),
    "loop": (
        "timeout",
        {
            "c": "int f(int x) { for (volatile int i = 0;; i++) {} }",
            "rust": "fn f(_: i32) { loop { std::thread::yield_now() } }",
        },
    ),
}


@each
@pytest.mark.parametrize("death", sorted(DEATHS))
def test_a_program_that_dies_in_a_call_is_told_by_how(box: Sandbox, lang: str, death: str) -> None:
    status, sources = DEATHS[death]
    source = sources.get(lang, "")
    if lang == "cpp":
        source = (
            sources["c"]
            .replace("void abort", 'extern "C" void abort')
            .replace("void exit", 'extern "C" void exit')
        )
    limits = Limits(wall_s=0.5 if death == "loop" else 30, cpu_s=30)
    assert calls(box, lang, source, 1, limits=limits).status == status


def test_an_exit_before_any_call_is_no_pass_without_values(box: Sandbox) -> None:
    early = "#include <cstdlib>\nstruct Early { Early() { exit(0); } } early;\nint f(int x) { return x; }"
    result = calls(box, "cpp", early, 1)
    assert (result.status, result.outputs) == ("exit", [])


MEMORY = {
    "cpp": "#include <vector>\nint f(int x) { std::vector<std::vector<char>> a;"
    " for (;;) a.emplace_back(1 << 20, 'x'); }",
    "rust": "fn f(_: i32) { let mut a = vec![]; loop { a.push(vec![1u8; 1 << 20]) } }",
}


@pytest.mark.parametrize("lang", sorted(MEMORY))
def test_a_program_that_is_refused_memory_ran_into_its_limit(box: Sandbox, lang: str) -> None:
    limits = Limits(wall_s=60, cpu_s=60, memory_mb=64)
    assert calls(box, lang, MEMORY[lang], 1, limits=limits).status == "memory_limit"


THREADS = {
    "cpp": "#include <list>\n#include <thread>\n#include <unistd.h>\nint f(int n) {"
    " std::list<std::thread> a; while (n--) a.emplace_back([] { pause(); }), a.back().detach(); return 1; }",
    "rust": "fn f(n: i32) { for _ in 0..n { std::thread::spawn(|| loop { std::thread::park() }); } }",
}


@pytest.mark.parametrize("lang", sorted(THREADS))
def test_a_program_that_is_refused_a_thread_ran_into_its_limit(box: Sandbox, lang: str) -> None:
    limits = Limits(wall_s=60, cpu_s=60, processes=4)
    assert calls(box, lang, THREADS[lang], 1, limits=limits).status == "ok"
    assert calls(box, lang, THREADS[lang], 20, limits=limits).status == "proc_limit"


@pytest.mark.parametrize("lang", ["c", "cpp", "rust"])
def test_recursion_as_deep_as_contests_have_it_fits_the_stack(box: Sandbox, lang: str) -> None:
    recursion = "int f(int n) { volatile int here = n; return n == 0 ? 0 : 1 + f(n - 1) + here - n; }"
    source = {
        "c": recursion,
        "cpp": recursion,
        "rust": "fn f(n: i64) -> i64 {\n    let here = std::hint::black_box([n; 4]);\n"
        "    if n == 0 { 0 } else { 1 + f(n - 1) + here[3] - n }\n}",
    }[lang]
    assert values(box, lang, source, 1_000_000) == [1_000_000]
