"""C: which functions can be called, with what arrays and strings, and what they return."""

from collections.abc import Iterator

import pytest
from dynamic import calls, values

from sandbox import Call, ErrorRecord, Sandbox
from sandbox.languages.declarations import CannotCall, c_parameters

HEAD = "#include <stdbool.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


def test_a_list_is_an_array_whose_length_may_be_left_to_us(box: Sandbox) -> None:
    total = "int f(const int *a, int n) { int s = 0; while (n--) s += a[n]; return s; }"
    given = [Call(([1, 2, 3],)), Call(([1, 2, 3], 2)), Call(([],)), Call((None, 0)), Call(((4, 5),))]
    assert values(box, "c", total, *given) == [6, 3, 0, 0, 9]


def test_lengths_are_left_to_us_all_together_or_not_at_all(box: Sandbox) -> None:
    two = "int f(int *a, int n, int k, int *b, size_t m) { return n * 100 + k * 10 + m; }"
    given = [Call(([1], 5, [2, 3])), Call(([1], 1, 5, [2, 3], 2)), Call(([1], 1, 5, [2, 3]))]
    assert values(box, "c", f"{HEAD}{two}", *given) == [
        152,
        152,
        ErrorRecord("ArgumentError", "5 arguments were due, 4 given"),
    ]


def test_an_item_that_does_not_fit_is_an_argument_error(box: Sandbox) -> None:
    source = "int f(unsigned char *a, int n) { return a[0]; }"
    outputs = values(box, "c", source, [255], [256], [-1], ["a"], [1.5], "ab", b"ab", {1}, [[1]])
    assert outputs[0] == 255
    assert [one.type for one in outputs[1:]] == ["ArgumentError"] * 8


@pytest.mark.parametrize(
    "head",
    [
        "int f(int a[], int n)",
        "int f(int a[const], int n)",
        "int f(int a[static 1], int n)",
        "int f(register int *restrict a, const int n)",
        "static inline int f(int *a /* the , first */, // (\n  int n)",
        "__attribute__((noinline)) int f(int *a __attribute__((unused)), int n)",
        "INT f(INT *a, COUNT n)",
        "unsigned long long\nf\n(\nint *a, long long int n)",
        "int (f)(int *a, int n); int f(int *a, int n)",
        "int *g(int), f(int *, int); int f(int *a, int n)",
    ],
)
def test_a_function_is_found_however_it_is_declared(box: Sandbox, head: str) -> None:
    before = '#define INT int\ntypedef short COUNT;\n/* int f(void) { */ const char *s = "int f(char c) {";'
    assert values(box, "c", f"{before}\n{head} {{ return a[n - 1]; }}", [1, 7]) == [7]


def test_a_prototype_will_do_where_the_function_is_in_another_file(box: Sandbox) -> None:
    source = '#include "h.h"'
    header, other = (
        "int f(const char *, int n);",
        '#include "h.h"\nint f(const char *s, int n) { return s[n]; }',
    )
    assert values(box, "c", source, Call(("abc", 1)), h_h=header, h_c=other) == [98]


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [
        ("struct S s", "struct S s"),
        ("void *p", "void *p"),
        ("int m[][3], int n", "int m[][3]"),
        ("int (*g)(int), int x", "int (*g)(int)"),
        ("int n, ...", "..."),
        ("int ***p", "int ***p"),
        ("FILE *file", "FILE *file"),
    ],
)
def test_a_parameter_that_no_value_fits_is_told(box: Sandbox, parameters: str, shown: str) -> None:
    result = calls(box, "c", f"{HEAD}struct S {{ int x; }};\nint f({parameters}) {{ return 0; }}", 1)
    assert result.status == "exception"
    assert f"`{shown}`" in result.detail


@pytest.mark.parametrize(
    "source", ["int f(a) int a; { return a; }", "#define F int f(int a) { return a; }\nF", "int f;"]
)
def test_a_function_in_no_form_that_is_read_is_missing_and_the_form_is_told(
    box: Sandbox, source: str
) -> None:
    result = calls(box, "c", source, 1)
    assert result.status == "exception"
    assert "type f(parameters) {" in result.detail


def test_strings_come_and_go_with_their_bytes(box: Sandbox) -> None:
    repeat = (
        "char *f(const char *s, int n) { if (!s) return NULL; char *r = calloc(n + 1, strlen(s));"
        " while (n--) strcat(r, s); return r; }"
    )
    given = [Call(("ab", 2)), Call(("é€😀", 1)), Call((b"\xff", 2)), Call((None, 2)), Call(("", 0))]
    assert values(box, "c", HEAD + repeat, *given) == ["abab", "é€😀", b"\xff\xff", None, ""]


def test_a_string_with_a_nul_would_be_cut_and_is_refused(box: Sandbox) -> None:
    (output,) = values(box, "c", "int f(char *s) { return s[0]; }", "a\0b")
    assert output == ErrorRecord("ArgumentError", "argument 1: char * was due, not a str with a NUL in it")


def test_a_char_is_one_ascii_character_and_comes_back_as_a_byte_beyond(box: Sandbox) -> None:
    outputs = values(
        box, "c", "char f(char c) { return c == '~' ? (char)0xe9 : c; }", "a", "\0", "~", "é", "", "ab", 97
    )
    assert outputs[:3] == ["a", "\0", b"\xe9"]
    assert [one.type for one in outputs[3:]] == ["ArgumentError"] * 4


def test_an_array_is_returned_with_the_length_that_the_last_parameter_tells(box: Sandbox) -> None:
    both = "int *f(int *a, int n, int k, int *returnSize) { *returnSize = 2; a[0] = k; a[1] = n; return a; }"
    assert values(box, "c", both, Call(([0, 0], 7)), Call(([0, 0], 2, 7))) == [[7, 2], [7, 2]]
    words = (
        "char **f(int n, size_t *size) { char **r = calloc(n + 1, sizeof *r); *size = n;"
        ' for (int i = 0; i < n; i++) r[i] = i ? "z" : NULL; return r; }'
    )
    assert values(box, "c", HEAD + words, 3, 0) == [[None, "z", "z"], []]


def test_no_array_is_no_array_without_a_length(box: Sandbox) -> None:
    empty = "int *f(int n, int *size) { *size = n; return 0; }"
    outputs = calls(box, "c", empty, 0, 2, -1).outputs
    assert outputs[:2] == [[], None]
    assert "no length" in outputs[2].message


@pytest.mark.parametrize(
    "source",
    [
        "int *f(int *a, int n) { return a; }",
        "int **f(int *size) { *size = 1; static int r, *p = &r; return &p; }",
        "struct S { int x; } f(void) { struct S s = {1}; return s; }",
        "void *f(void) { return (void *)1; }",
    ],
)
def test_a_result_whose_extent_is_not_known_is_refused(box: Sandbox, source: str) -> None:
    given = Call(([1], 1)) if "*a" in source else Call(())
    result = calls(box, "c", source, given)
    assert result.status == "unserializable"
    assert result.outputs[0].raised is False


def test_rows_and_words_are_lists_of_lists_and_of_strings(box: Sandbox) -> None:
    grid = (
        "int f(int **g, int n, int *c)"
        " { int s = 0; while (n--) for (int j = 0; j < c[n]; j++) s += g[n][j]; return s; }"
    )
    assert values(box, "c", grid, Call(([[1, 2], [], [3]], [2, 0, 1]))) == [6]
    words = "int f(const char *const *w, int n) { int s = 0; while (n--) s += strlen(w[n]); return s; }"
    assert values(box, "c", HEAD + words, ["ab", "", "c"]) == [3]


def test_what_a_void_function_changed_is_its_value(box: Sandbox) -> None:
    assert values(box, "c", HEAD + "void f(char *s) { s[0] = 'X'; }", "abc") == ["Xbc"]
    assert values(box, "c", "void f(int **g, int n) { g[0][0] = n; }", [[1, 2], [3]]) == [[[2, 2], [3]]]
    assert values(box, "c", "void f(const int *a, int n, int *out) { *out = a[0]; }", Call(([5], [0]))) == [
        [5]
    ]
    assert values(box, "c", "void f(const int *a, int n) {}", [5]) == [None]


def test_macros_of_the_solution_leave_our_lines_alone(box: Sandbox) -> None:
    macros = ("int long", "static extern", "return return", "f g", "if while", "extern static")
    source = "".join(f"#define {one}\n" for one in macros) + "int f(int x) { return x; }"
    assert values(box, "c", source, 1 << 40) == [1 << 40]


def test_names_of_the_c_library_are_the_solutions_own_where_it_includes_nothing(box: Sandbox) -> None:
    numbers = "int read, write, open, close, index, time, calls, channel, getpid, fcntl, unlink, memcpy;"
    functions = "int strlen(int x) { return 3; } void memset(int x) { *(char *)0 = 0; }"
    source = f"{numbers}\n{functions}\nint f(char *s) {{ return read + strlen(1); }}"
    assert values(box, "c", source, "abc") == [3]


# -- the grammar alone


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("int f(void) {", []),
        ("int f() {", []),
        ("int f(int a) {", ["int x"]),
        ("int f(const char *s) {", ["const char * x"]),
        ("int f(int a[]) {", ["int (* x)"]),
        ("int f(char *a[4]) {", ["char * (* x)"]),
        ("int f(unsigned) ;", ["unsigned x"]),
        ("int f(struct S *a, MACRO(x, y) b) {", ["struct S * x", "MACRO(x, y) x"]),
        ("int g(int x) { return f(x); } int f(long a) {", ["long x"]),
        ("int f(int); int f(long a) {", ["long x"]),
    ],
)
def test_a_parameter_is_declared_with_the_type_it_has_inside(text: str, declared: list[str]) -> None:
    found = [one.declare("x") for one in c_parameters(text, "f")]
    assert [one.replace("* ", "*") for one in found] == [one.replace("* ", "*") for one in declared]


@pytest.mark.parametrize(
    "text",
    ["", "int f", "f(1);", "int g() { return f(1); }", 'char *s = "int f(int a) {";', "int ff(int a) {"],
)
def test_nothing_that_only_looks_like_the_function_is_taken_for_it(text: str) -> None:
    with pytest.raises(CannotCall):
        c_parameters(text, "f")
