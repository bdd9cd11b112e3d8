"""Go: which programs there are, and what its own values and errors come to."""

from collections.abc import Iterator

import pytest
from managed import PATIENT, error_type, need, run, script

from sandbox import Call, ErrorRecord, Job, Sandbox


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.mark.parametrize(
    "head", ["package main\n", "package answer\n", "", "// package x\n/* package y */ package z;"], ids=repr
)
def test_go_takes_any_package_clause_or_none(box: Sandbox, head: str) -> None:
    need("go")
    files = {"solution.go": head + 'import "strings"\nfunc f(s string) string { return strings.ToUpper(s) }'}
    assert box.run(
        Job("calls", files, entry="f", calls=[Call(("a",))], lang="go", limits=PATIENT)
    ).outputs == ["A"]


def test_go_never_runs_the_main_of_a_solution_that_is_called(box: Sandbox) -> None:
    result = run(
        box,
        "go",
        'import "os"\nfunc main() { os.Exit(3) }\nfunc add(a, b int) int { return a + b }',
        (1, 2),
        entry="add",
    )
    assert result.outputs == [3]


def test_go_names_of_ours_are_free_for_the_solution(box: Sandbox) -> None:
    source = (
        "func Run() int { return 1 }\ntype calls struct{}\nvar solution, Missing = 2, 3\nfunc f() int "
        "{ return Run() + solution }"
    )
    assert run(box, "go", source, ()).outputs == [3]


def test_go_several_results_are_a_tuple_and_none_is_none(box: Sandbox) -> None:
    assert run(box, "go", 'func f() (int, string) { return 1, "a" }', ()).outputs == [(1, "a")]
    assert run(box, "go", "func f() {}", ()).outputs == [None]


def test_go_an_error_that_is_returned_is_the_calls_error_and_nil_is_dropped(box: Sandbox) -> None:
    source = (
        'import "errors"\nfunc f(n int) (int, error) { if n < 0 { return 0, errors.New("below") }; '
        "return n, nil }"
    )
    result = run(box, "go", source, (4,), (-1,))
    assert result.outputs[0] == 4
    assert (result.outputs[1].type, result.outputs[1].message) == ("errors.errorString", "below")


def test_go_a_panic_with_any_value_is_the_calls_error(box: Sandbox) -> None:
    source = """
        import "runtime"
        type own struct{}
        func (own) Error() string { panic("again") }
        func f(n int) int {
            switch n {
            case 0: panic("text")
            case 1: panic(own{})
            case 2: panic(nil)
            case 3: runtime.Goexit()
            }
            return n
        }
    """
    result = run(box, "go", source, (0,), (1,), (2,), (3,), (4,))
    assert (result.outputs[0].type, result.outputs[0].message) == ("panic", "text")
    assert (result.outputs[1].type, result.outputs[1].message) == ("main.own", "<unprintable>")
    assert isinstance(result.outputs[2], ErrorRecord)
    assert isinstance(result.outputs[3], ErrorRecord)
    assert result.outputs[4] == 4


def test_go_a_panic_in_another_goroutine_ends_the_program(box: Sandbox) -> None:
    source = (
        'import "time"\nfunc f(n int) int { if n == 1 { go panic("x"); time.Sleep(time.Minute) }; return n }'
    )
    result = run(box, "go", source, (0,), (1,))
    assert result.status == "exit"
    assert result.outputs == [0]


def test_go_a_deadlock_is_no_timeout(box: Sandbox) -> None:
    result = run(box, "go", "func f() int { <-make(chan int); return 1 }", ())
    assert result.status == "exit"
    assert "deadlock" in result.stderr


def test_go_bytes_that_are_no_text_come_back_as_bytes(box: Sandbox) -> None:
    result = run(box, "go", "func f(s string) string { return s[1:] }", ("é",), (b"a\xff",), (b"ab",))
    assert result.outputs == [b"\xa9", b"\xff", "b"]


def test_go_nil_is_an_empty_container_or_none(box: Sandbox) -> None:
    result = run(
        box,
        "go",
        "func f() ([]int, map[string]int, *int, error, interface{}) { return nil, nil, nil, nil, nil }",
        (),
    )
    assert result.outputs == [([], {}, None, None, None)]


def test_go_pointers_are_looked_through(box: Sandbox) -> None:
    result = run(
        box,
        "go",
        "func f(p *[]int) **int { if p == nil { return nil }; q := &(*p)[0]; return &q }",
        ([5],),
        (None,),
    )
    assert result.outputs == [5, None]


def test_go_structs_and_functions_have_no_encoding(box: Sandbox) -> None:
    result = run(
        box,
        "go",
        "type p struct{ X int }\nfunc f(n int) interface{} { if n == 0 { return p{1} }; return f }",
        (0,),
        (1,),
    )
    assert result.status == "unserializable"
    assert [value.raised for value in result.outputs] == [False, False]


def test_go_a_variadic_function_takes_the_rest(box: Sandbox) -> None:
    result = run(
        box,
        "go",
        "func f(a string, b ...int) int { return len(a) + len(b) }",
        ("x",),
        ("x", 1, 2),
        ("x", 1, "y"),
        (),
    )
    assert result.outputs[:2] == [1, 3]
    assert [error_type(value) for value in result.outputs[2:]] == ["ArgumentError"] * 2


def test_go_an_array_has_its_length(box: Sandbox) -> None:
    result = run(
        box,
        "go",
        "func f(a [2]int, b [2]byte) ([2]int, [2]byte) { return a, b }",
        ([1, 2], b"xy"),
        ([1], b"xy"),
    )
    assert result.outputs[0] == ([1, 2], b"xy")
    assert error_type(result.outputs[1]) == "ArgumentError"


def test_go_a_set_may_be_a_map_to_bool_and_an_int_no_key_twice(box: Sandbox) -> None:
    assert run(box, "go", "func f(a map[int]bool) map[int]bool { return a }", ({3, 4},)).outputs == [
        {3: True, 4: True}
    ]


def test_go_a_variable_that_holds_a_function_can_be_called_and_a_generic_one_cannot(box: Sandbox) -> None:
    assert run(box, "go", "var f = func(a int) int { return -a }", (2,)).outputs == [-2]
    result = run(box, "go", "func f[T any](a T) T { return a }", (2,))
    assert result.status == "exception"
    assert "instantiation" in result.detail


def test_go_packages_in_folders_are_found_by_the_modules_name(box: Sandbox) -> None:
    need("go")
    files = {
        "go.mod": "module example.com/m\n\ngo 1.19\n",
        "solution.go": 'package main\nimport "example.com/m/a"\nfunc f(n int) int { return a.Plus(n) }',
        "a/a.go": 'package a\nimport "example.com/m/a/b"\nfunc Plus(n int) int { return n + b.One }',
        "a/b/b.go": "package b\nconst One = 1",
        "a/a_test.go": "package a\nthis is no Go",
    }
    assert box.run(Job("calls", files, entry="f", calls=[Call((1,))], lang="go", limits=PATIENT)).outputs == [
        2
    ]


@pytest.mark.parametrize(
    "path", ["internal/abi", "github.com/x/y", "C", "cmd/internal/obj", "sandbox/calls/x"]
)
def test_go_imports_nothing_that_the_go_command_would_not(box: Sandbox, path: str) -> None:
    result = run(box, "go", f'import _ "{path}"\nfunc f(n int) int {{ return n }}', (1,))
    assert result.status == "compile_error"
    assert path in result.detail


def test_go_a_cycle_of_packages_does_not_compile(box: Sandbox) -> None:
    files = {"a/a.go": 'package a\nimport _ "solution/b"', "b/b.go": 'package b\nimport _ "solution/a"'}
    result = script(box, "go", 'package main\nimport _ "solution/a"\nfunc main() {}', files)
    assert result.status == "compile_error"


def test_go_programs_on_the_network_library_run(box: Sandbox) -> None:
    result = script(
        box, "go", 'package main\nimport ("fmt"; "net/url")\nfunc main() { fmt.Print(url.PathEscape("a b")) }'
    )
    assert result.stdout == "a%20b"
