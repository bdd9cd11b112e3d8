"""Programs in C, C++ and Rust as the sandbox builds them: of one file and several, and from hostile texts."""

from collections.abc import Iterator

import pytest
from dynamic import need, script, values

from sandbox import Call, Job, Sandbox, languages
from sandbox.names import solution_file

LANGS = ("c", "cpp", "rust")
each = pytest.mark.parametrize("lang", LANGS)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


# -- scripts

SUM = {
    "c": '#include <stdio.h>\nint main(int c, char **v) { int a, b; scanf("%d %d", &a, &b);'
    ' printf("%s %d\\n", v[1], a + b); return c; }',
    "cpp": "#include <iostream>\nint main(int c, char **v) { int a, b; std::cin >> a >> b;"
    ' std::cout << v[1] << " " << a + b << std::endl; return c; }',
    "rust": "fn main() { let mut s = String::new(); std::io::stdin().read_line(&mut s).unwrap();"
    " let n: i32 = s.split_whitespace().map(|x| x.parse::<i32>().unwrap()).sum();"
    ' println!("{} {}", std::env::args().nth(1).unwrap(), n); std::process::exit(2) }',
}


@each
def test_a_script_has_its_input_arguments_and_exit_status(box: Sandbox, lang: str) -> None:
    result = script(box, lang, SUM[lang], "3 4\n", ("é x",))
    assert (result.status, result.exit_code, result.stdout) == ("exit", 2, "é x 7\n")


HELPED = {
    "c": (
        '#include "h.h"\n#include <stdio.h>\nint main(void) { printf("%d", helped()); return 0; }',
        {"h_h": "int helped(void);", "h_c": '#include "h.h"\nint helped(void) { return 7; }'},
    ),
    "cpp": (
        '#include "h.hpp"\n#include "part.cpp"\n#include <iostream>\n'
        "int main() { std::cout << helped() + part(); }",
        {
            "h_hpp": "int helped();",
            "h_cc": '#include "h.hpp"\nint helped() { return 3; }',
            "part_cpp": "int part() { return 4; }",
        },
    ),
    "rust": ('mod h;\nfn main() { print!("{}", h::helped()); }', {"h_rs": "pub fn helped() -> i32 { 7 }"}),
}


@each
def test_a_script_is_made_of_all_its_files(box: Sandbox, lang: str) -> None:
    source, files = HELPED[lang]
    result = script(box, lang, source, **files)
    assert (result.status, result.stdout) == ("ok", "7"), result.stderr


READ = {
    "c": '#include <stdio.h>\nint main(void) { int c; FILE *f = fopen("in.txt", "r");'
    " while ((c = getc(f)) != EOF) putchar(c); return 0; }",
    "cpp": "#include <fstream>\n#include <iostream>\n"
    'int main() { std::cout << std::ifstream("in.txt").rdbuf(); }',
    "rust": 'const HEAD: &str = include_str!("in.txt");\n'
    'fn main() { print!("{}{}", &HEAD[..2], &std::fs::read_to_string("in.txt").unwrap()[2..]); }',
}


@each
def test_a_script_can_read_the_other_files_of_its_job(box: Sandbox, lang: str) -> None:
    assert script(box, lang, READ[lang], in_txt="line\n").stdout == "line\n"


@each
def test_a_text_that_does_not_compile_is_a_compile_error_with_the_compilers_words(
    box: Sandbox, lang: str
) -> None:
    result = script(box, lang, "int main( { } fn")
    assert result.status == "compile_error"
    assert "main." in result.stderr


PARTS = {
    "c": (
        "int helped(int);\nint f(int x) { return helped(x); }",
        {"h_c": "int helped(int x) { return x + 1; } %s"},
    ),
    "cpp": (
        "int helped(int);\nint f(int x) { return helped(x); }",
        {"h_cc": "int helped(int x) { return x + 1; } %s"},
    ),
    "rust": (
        "mod h;\nfn f(x: i32) -> i32 { h::helped(x) }",
        {"h_rs": "pub fn helped(x: i32) -> i32 { x + 1 } %s"},
    ),
}


@each
def test_a_solution_may_have_further_files_even_with_a_main(box: Sandbox, lang: str) -> None:
    source, files = PARTS[lang]
    main = "fn main() {}" if lang == "rust" else "int main(void) { return 0; }"
    assert values(box, lang, source, 1, **{name: text % main for name, text in files.items()}) == [2]


@pytest.mark.parametrize("lang", ["c", "cpp"])
def test_a_file_that_includes_the_solution_is_a_test_of_its_own_and_left_out(box: Sandbox, lang: str) -> None:
    test = {f"test_{lang}": f'#include "solution.{lang}"\nint main(void) {{ return f(1); }}'}
    assert values(box, lang, "int f(int x) { return x; }", 1, **test) == [1]


@pytest.mark.parametrize("lang", ["c", "cpp"])
def test_headers_of_a_job_may_have_the_names_of_ours(box: Sandbox, lang: str) -> None:
    source = '#include "calls.h"\n#include "types.hpp"\nint f(T x) { return x; }'
    assert values(box, lang, source, 1, calls_h="typedef int T;", types_hpp="", values_hpp="#error") == [1]


# -- texts that attack the compiler

BOMBS = {
    "c": {
        "include itself": "#include __FILE__\n#include __FILE__\nint main(void) { return 0; }",
        "endless device": '#include "/dev/zero"\nint main(void) { return 0; }',
        "a file of the host": '#include "/etc/passwd"\nint main(void) { return 0; }',
        "bytes of the host": '__asm__(".incbin \\"/etc/shadow\\"");\nint main(void) { return 0; }',
        "huge object": "char a[1ull << 34] = {1}; int main(void) { return a[0] - 1; }",
        "an option": '#pragma GCC optimize("-o /usr/x")\n#include <nothing.h>\nint main(void) { return 0; }',
    },
    "cpp": {
        "templates": "template <int N> struct A { static const int v = A<N - 1>::v + A<N - 2>::v; };\n"
        "int main() { return A<1 << 20>::v; }",
        "constants": "constexpr int g() { for (int n = 0;; n ^= 1) {} }\n"
        "static_assert(g() > 0);\nint main() {}",
    },
    "rust": {
        "a file of the host": 'const A: &str = include_str!("/etc/passwd"); fn main() { print!("{}", A); }',
        "macros": "macro_rules! m { ($($t:tt)*) => { m!($($t)* x) } }\nfn main() { m!(x) }",
        "types": "trait A { type T; }\nstruct B<T>(T);\n"
        "impl<T> A for B<T> where B<B<T>>: A { type T = <B<B<T>> as A>::T; }\n"
        "fn g<T: A>(_: T) {} fn main() { g(B(1)) }",
    },
}


@pytest.mark.parametrize(("lang", "bomb"), [(lang, name) for lang in BOMBS for name in BOMBS[lang]])
def test_a_text_that_attacks_the_compiler_is_a_compile_error_and_shows_no_file(
    box: Sandbox, lang: str, bomb: str
) -> None:
    result = script(box, lang, BOMBS[lang][bomb])
    assert result.status == "compile_error"
    assert "root:" not in result.stdout + result.stderr


@pytest.mark.parametrize("lang", ["c", "cpp"])
def test_a_file_whose_name_is_an_option_is_not_handed_to_the_compiler(box: Sandbox, lang: str) -> None:
    need(lang)
    suffix = f".{lang}"
    files = {
        f"main{suffix}": "int main() { return 0; }",
        f"-fplugin=x{suffix}": "",
        f"@list{suffix}": "-o /usr/x",
    }
    assert box.run(Job("script", files, lang=lang)).status == "ok"


@each
def test_a_planner_reads_a_hostile_source_to_its_end_in_one_pass(lang: str) -> None:
    need(lang)
    language = languages.get(lang)
    toolchain = language.find()
    for part in (
        "(",
        "{",
        "f(",
        "int f(int a",
        "fn f<",
        "namespace f{f ",
        "impl Solution{",
        'R"(',
        "/*",
        "'",
        "#if\n",
    ):
        job = Job("calls", {solution_file(lang): part * (50_000 // len(part))}, "f", [Call((1,))], lang=lang)
        assert language.plan(job, toolchain).build is not None
