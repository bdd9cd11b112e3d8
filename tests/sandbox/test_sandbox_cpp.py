"""C++: which function is meant, what goes into its parameters, what its exceptions are, whose names win."""

from collections.abc import Iterator
from typing import Any

import pytest
from dynamic import calls, script, values

from sandbox import Call, ErrorRecord, Sandbox
from sandbox.languages.declarations import CannotCall, Function, cpp_function

ALL = "#include <bits/stdc++.h>\nusing namespace std;\n"
STRING = "#include <string>\n"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


# -- which function


@pytest.mark.parametrize(
    "source",
    [
        "class Solution { public: int f(int a) { return a + 1; } };",
        "struct Solution { static int f(int a) { return a + 1; } };",
        "class Solution { int k = 1; public: int f(int a) const noexcept { return a + k; } };",
        "class Solution { int k; public: Solution() : k(1) {} int f(int a) & { a += k; k = 9; return a; } };",
        "class Solution { public: int f(int); };\nint Solution::f(int a) { return a + 1; }",
        "namespace leet { class Solution { public: int f(int a) { return a + 1; } }; }",
        "namespace a::b { inline namespace c { namespace { int f(int a) { return a + 1; } } } }",
        'extern "C" { int f(int a) { return a + 1; } }',
        "auto f = [](int a) { return a + 1; };",
        "struct { int operator()(int a) const { return a + 1; } } f;",
        "#include <functional>\nstd::function<int(int)> f = [](int a) { return a + 1; };",
        "constexpr auto f(int a) -> int { return a + 1; }",
        "[[nodiscard]] static inline int f(const int &a) noexcept { return a + 1; }",
        "int g(int a) { return a; }\nint f(int a);\nint h() { return f(1); }\n"
        "int f(int a) { return g(a) + 1; }",
        "template <typename T> T f(T a) { return a + 1; }",
        "auto f(auto a) { return a + 1; }",
        "int f(int a) { return a + 1; }\nint f(int a, int b) { return a; }\n"
        "double f(double a, int b, int c) { return a; }",
        "int f(int a) { return a + 1; }\nconst char *f(const char *a) { return a; }",
        "int f(int a, int b = 1, const char *c = \"\") { return a + b; }",
        "class Solution { int f(int a, int depth); public: int f(int a) { return f(a, 1); } };\n"
        "int Solution::f(int a, int depth) { return a + depth; }",
        '#define main solve\nint f(int a) { return a + 1; }\nint main() { return 0; }',
    ],
)  # fmt: skip
def test_the_function_is_found_where_and_how_it_is_declared(box: Sandbox, source: str) -> None:
    assert values(box, "cpp", source, 1, 1) == [2, 2]


def test_each_call_has_a_new_solution_object(box: Sandbox) -> None:
    source = "class Solution { int seen = 0; public: int f(int a) { return seen += a; } };"
    assert values(box, "cpp", source, 2, 2) == [2, 2]


def test_defaults_may_be_left_out_and_what_was_changed_is_still_told(box: Sandbox) -> None:
    source = f"{ALL}void f(vector<int> &a, int lo = 7, int hi = 8) {{ a.push_back(lo + hi); }}"
    assert values(box, "cpp", source, Call(([],)), Call(([], 1)), Call(([], 1, 2)), Call(())) == [
        [15],
        [9],
        [3],
        ErrorRecord("ArgumentError", "3 arguments were due, 0 given"),
    ]


def test_a_template_gets_the_types_that_the_values_of_all_calls_have_in_common(box: Sandbox) -> None:
    source = (
        f"{ALL}template <class T> T f(vector<T> a) {{ T s = T(); for (auto &x : a) s = s + x; return s; }}"
    )
    assert values(box, "cpp", source, [1, 2], [1 << 40]) == [3, 1 << 40]
    assert values(box, "cpp", source, [1, 2.5], []) == [3.5, 0.0]
    assert values(box, "cpp", source, ["a", "b"]) == ["ab"]


def test_a_template_can_sort_in_place(box: Sandbox) -> None:
    source = "template <class T> void f(T &a) { sort(a.begin(), a.end()); }"
    assert values(box, "cpp", ALL + source, [3, 1, 2]) == [[1, 2, 3]]


def test_two_overloads_that_both_fit_are_told_apart_by_type(box: Sandbox) -> None:
    source = "int f(double a) { return 1; }\nint f(const char *a) { return 2; }\nint f(bool a) { return 3; }"
    assert values(box, "cpp", source, True) == [3]
    assert values(box, "cpp", source, 2.5) == [1]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("struct Foo { int a; };\nint f(int a, Foo b) { return a; }", "f takes a Foo, which no value fits"),
        ("#include <functional>\nint f(std::function<int(int)> g) { return g(1); }", "which no value fits"),
        ("template <class T> int f(int a, T *b, int c, int d, int e) { return a; }", "template"),
        ("int g(int a) { return a; }", "nothing declares f"),
        ("class Other { public: int f(int a) { return a; } };", "nothing declares f"),
    ],
)
def test_what_cannot_be_called_is_missing_with_the_reason(box: Sandbox, source: str, told: str) -> None:
    result = calls(box, "cpp", source, 1)
    assert result.status == "exception"
    assert told in result.detail


# -- what goes in and what comes out


# (type, what is given, what comes back)
FITS: list[tuple[str, Any, Any]] = [
    ("vector<bool>", [True, False], [True, False]),
    ("vector<vector<char>>", [["a", "~"], []], [["a", "~"], []]),
    ("array<int, 2>", (1, 2), [1, 2]),
    ("list<string>", ["a"], ["a"]),
    ("forward_list<int>", [1, 2, 3], [1, 2, 3]),
    ("multiset<int>", [3, 1, 3], [1, 3, 3]),
    ("multimap<int, int>", {1: 2}, [(1, 2)]),
    ("set<set<int>>", {frozenset({1}), frozenset()}, {frozenset({1}), frozenset()}),
    ("map<vector<int>, int>", {(1, 2): 3}, {(1, 2): 3}),
    ("vector<unsigned char>", b"\x00\xff", [0, 255]),
    ("string", b"\xff\x00", b"\xff\x00"),
    ("string", "\ud800\0é", "\ud800\0é"),
    ("string_view", "abc", "abc"),
    ("const char *", None, None),
    ("char *", "é", "é"),
    ("u16string", "a😀", "a😀"),
    ("variant<double, int>", 3, 3),
    ("variant<double, string>", 3, 3.0),
    ("vector<any>", [1, 1 << 40, 2.5, "s", True, None], [1, 1 << 40, 2.5, "s", True, None]),
    ("shared_ptr<vector<int>>", [1], [1]),
    ("shared_ptr<int>", None, None),
    ("optional<optional<int>>", 3, 3),
    ("pair<int, optional<string>>", [1, None], (1, None)),
    ("nullptr_t", None, None),
    ("span<int>", [1, 2], [1, 2]),
    ("long double", 3, 3.0),
    ("complex<float>", 2, 2 + 0j),
    ("wchar_t", "€", "€"),
]  # fmt: skip


def test_a_value_fits_a_type_and_comes_back_as_the_type_is_in_python(box: Sandbox) -> None:
    # All in one tuple, since it is the compiler that takes its time.
    whole = f"tuple<{', '.join(kind for kind, _, _ in FITS)}>"
    (outputs,) = values(
        box, "cpp", f"{ALL}{whole} f({whole} x) {{ return x; }}", tuple(one for _, one, _ in FITS)
    )
    for (kind, _, back), output in zip(FITS, outputs, strict=True):
        assert (kind, type(output), output) == (kind, type(back), back)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("bool", [0, 1, None, "x"]),
        ("int", [True, 1.0, "1", None, [1]]),
        ("double", [True, "1", None, 1 << 200, 1j]),
        ("char", ["", "ab", "é", 97]),
        ("string", [1, None, ["a"], {"a"}]),
        ("const char *", ["a\0b", 1]),
        ("vector<int>", [{1}, "ab", b"ab", {1: 2}, 1, [1, "a"], [[1]], None]),
        ("set<int>", [[1], (1,), {"a"}, {1: 2}]),
        ("map<string, int>", [{1: 1}, {"a": "b"}, [("a", 1)]]),
        ("pair<int, int>", [(1,), (1, 2, 3), (1, "a"), 1]),
        ("array<int, 2>", [[1], [1, 2, 3]]),
        ("optional<int>", ["a"]),
        ("variant<int, string>", [1.5, [1], None]),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_an_argument_error(box: Sandbox, kind: str, given: list[Any]) -> None:
    outputs = values(box, "cpp", f"{ALL}int f({kind} x) {{ return 1; }}", *given)
    assert [one.type for one in outputs] == ["ArgumentError"] * len(given)


def test_parameters_may_be_references_of_all_kinds(box: Sandbox) -> None:
    parameters = "const string &a, string &&b, vector<string> &c, const vector<string> &d, string_view e"
    body = "c.push_back(move(b)); return a + c[1] + d[0] + string(e) + *g + h;"
    source = f"{ALL}string f({parameters}, unique_ptr<string> g, const string h) {{ {body} }}"
    assert values(box, "cpp", source, Call(("a", "b", ["c"], ["d"], "e", "g", "h"))) == ["abdegh"]


def test_pointers_take_lists_whose_lengths_may_be_left_to_us(box: Sandbox) -> None:
    parameters = "const int *a, int n, long k, double b[], unsigned m"
    source = f"long f({parameters}) {{ return n * 100 + k * 10 + m + a[0] + b[0]; }}"
    given = [Call(([1, 2], 3, [0.5])), Call(([1, 2], 2, 3, [0.5], 1)), Call(([1, 2], 2, 3, [0.5]))]
    outputs = values(box, "cpp", source, *given)
    assert outputs[:2] == [232, 232]
    assert outputs[2].type == "ArgumentError"


def test_what_a_void_function_changed_is_its_value(box: Sandbox) -> None:
    assert values(box, "cpp", "void f(int &a, int &b) { int t = a; a = b; b = t; }", Call((1, 2))) == [(2, 1)]
    assert values(box, "cpp", "void f(int *a, int n) { while (n--) a[n] = n; }", [5, 5]) == [[0, 1]]
    assert values(box, "cpp", "void f(char *s) { s[0] = 'x'; }", "abc", "zz") == [
        "xbc",
        "xz",
    ]
    assert values(box, "cpp", f"{ALL}void f(const vector<int> &a, const char *b) {{}}", Call(([1], "b"))) == [
        None
    ]


@pytest.mark.parametrize("kind", ["Foo", "vector<Foo>", "int *", "function<int()>", "any"])
def test_a_result_that_has_no_counterpart_is_refused(box: Sandbox, kind: str) -> None:
    made = {"int *": "new int(1)", "any": "any(Foo{})", "vector<Foo>": "vector<Foo>(1)"}.get(
        kind, f"{kind}()"
    )
    result = calls(box, "cpp", f"{ALL}struct Foo {{ int a; }};\n{kind} f(int x) {{ return {made}; }}", 1)
    assert result.status == "unserializable"
    assert result.outputs[0].raised is False


# -- exceptions


def test_an_exception_has_the_name_of_its_type_and_its_own_words(box: Sandbox) -> None:
    source = f"""{ALL}namespace my {{ struct Bad : runtime_error {{ using runtime_error::runtime_error; }}; }}
    struct ArgumentError {{}};
    int f(int n) {{
        switch (n) {{
            case 0: throw my::Bad("no");
            case 1: throw 42;
            case 2: throw "text";
            case 3: throw string("words");
            case 4: throw ArgumentError();
            case 5: return vector<int>().at(0);
            case 6: throw runtime_error("\\xff" + string(2000, 'x'));
        }}
        return n;
    }}"""
    outputs = values(box, "cpp", source, *range(8))
    assert outputs[:5] == [
        ErrorRecord("my::Bad", "no"),
        ErrorRecord("int", "42"),
        ErrorRecord("char const*", "text"),
        ErrorRecord("std::string", "words"),
        ErrorRecord("own.ArgumentError", ""),
    ]
    assert outputs[5].type == "std::out_of_range"
    assert outputs[6] == ErrorRecord("std::runtime_error", "?" + "x" * 999)
    assert outputs[7] == 7


def test_an_exception_that_leaves_a_noexcept_function_kills_the_program(box: Sandbox) -> None:
    assert calls(box, "cpp", "int f(int n) noexcept { throw n; }", 1).status == "signal"


def test_a_call_that_runs_out_of_memory_did_so_by_its_limit(box: Sandbox) -> None:
    source = "#include <new>\nint f(int n) { throw std::bad_alloc(); }"
    assert calls(box, "cpp", source, 1).status == "memory_limit"


# -- whose names win


def test_macros_of_the_solution_leave_our_lines_alone(box: Sandbox) -> None:
    macros = (
        "int long long",
        "endl '\\n'",
        "pb push_back",
        "f first",
        "all(x) x.begin(), x.end()",
        "struct class",
    )
    words = ("return return", "auto auto", "template template", "main solve", "size length", "static static")
    source = "".join(f"#define {one}\n" for one in (*macros, *words))
    assert values(
        box, "cpp", f"{ALL}{source}\nint g(vector<int> a) {{ return a[0]; }}", [1 << 40], entry="g"
    ) == [1 << 40]


def test_names_of_headers_that_it_did_not_include_are_the_solutions_own(box: Sandbox) -> None:
    head = "#include <iostream>\nusing namespace std;\nstruct vector {};\n"
    variables = (
        "count, size, data, left, any, span, gcd, visit, map, set, abi, list, optional, variant, read, y1"
    )
    source = f"{head}int {variables};\nint f(int n) {{ return n + count + read + any + map; }}"
    assert values(box, "cpp", source, 4) == [4]


def test_a_script_that_begins_with_the_whole_library_may_define_macros_for_it(box: Sandbox) -> None:
    source = f"#define _GLIBCXX_ASSERTIONS\n{ALL}int main() {{ vector<int> a; return a[0]; }}"
    assert script(box, "cpp", source).status == "signal"


def test_the_whole_library_may_be_included_again(box: Sandbox) -> None:
    head = f"// a comment\n#include <vector>\n{ALL}{ALL}"
    source = f"{head}int f(vector<int> a) {{ return a.size(); }}"
    assert values(box, "cpp", source, [1, 2]) == [2]


# -- the search alone


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("int f(int a) {", Function("::f")),
        ("namespace a { namespace b { int f(); } }", Function("::a::b::f")),
        ("class Solution : public Base { public: int f(); };", Function("f", "::Solution")),
        ("class Solution { int f(); }; int f() { return 1; }", Function("::f")),
        ("template <class T> T f(T a);", Function("::f", by_values=True)),
        ("int f(int); int f(int a) { return 1; }", Function("::f", by_values=True)),
        ("int g() { return f(1); } int x = g(); double f() {", Function("::f")),
        ("enum class f2 { a }; struct A { int f(); }; int f(A a) {", Function("::f")),
        ('const char *s = R"x(int f() {)x"; /* int f() { */ // int f() {\nint f() {', Function("::f")),
    ],
)
def test_the_search_finds_the_declaration(text: str, found: Function) -> None:
    assert cpp_function(text, "f") == found


@pytest.mark.parametrize(
    "text", ["", "using std::f;", "int g() { f(); }", "struct A { int f(); };", "f", '"int f() {"']
)
def test_the_search_takes_no_mention_for_a_declaration(text: str) -> None:
    with pytest.raises(CannotCall):
        cpp_function(text, "f")
