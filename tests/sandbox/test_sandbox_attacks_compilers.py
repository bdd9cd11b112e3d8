# ruff: noqa: E501 - a hostile program stands on one line where it can
"""Hostile sources: what they make of compilers, of what those leave, and of the builds that other jobs get."""

import dataclasses
from pathlib import Path

import hostile_languages
import pytest
from hostile_languages import CALLS, PATIENT, RIGHT, Ring, honest, need

from sandbox import Job, Result, Sandbox
from sandbox import sandbox as front_door
from sandbox.judge import judge_calls
from sandbox.names import script_file, solution_file

ring = pytest.fixture(scope="module")(hostile_languages.ring)
unharmed = pytest.fixture(autouse=True)(hostile_languages.unharmed)

SECRET = "KEY-OF-THE-HOST"
LANGUAGES = ("c", "cpp", "go", "rust", "java", "csharp", "javascript", "typescript", "ruby", "php")
ONE = {
    "c": '#include <stdio.h>\nint main(void) { puts("1"); }',
    "cpp": '#include <cstdio>\nint main() { puts("1"); }',
    "go": 'package main\nimport "fmt"\nfunc main() { fmt.Println(1) }',
    "rust": 'fn main() { println!("1") }',
    "java": "class Main { public static void main(String[] a) { System.out.println(1); } }",
    "csharp": "class P { static void Main() { System.Console.WriteLine(1); } }",
    "javascript": "console.log(1)",
    "typescript": "console.log(1)",
    "ruby": "puts 1",
    "php": '<?php echo "1\\n";',
}


def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let compilers work for a second, not a minute."""
    limits = dataclasses.replace(front_door.BUILD_LIMITS, cpu_s=1.0, wall_s=60.0, memory_mb=768)
    monkeypatch.setattr(front_door, "BUILD_LIMITS", limits)


# A source that reads the file @ while it is compiled.
READERS = {
    "c": '#include "@"\nint main(void) { }',
    "c with its own words": '#include "@"\n__asm__(".incbin \\"@\\"");\nint main(void) { }',
    "c by the assembler": '__asm__(".incbin \\"@\\""); int main(void) { }',
    "c if it is there": '#if __has_include("@")\n#error it is there\n#endif\n#include "none"\nint main(void) { }',
    "cpp": 'const char *text = R"x(\n#include "@"\n)x";\n#include "@"\nint main() { }',
    "rust": 'fn main() { print!("{}", include_str!("@")) }',
    "rust bytes": 'fn main() { print!("{:?}", include_bytes!("@")) }',
    "rust module": '#[path = "@"] mod x; fn main() { }',
    "go": 'package main\nimport _ "embed"\n//go:embed @\nvar text string\nfunc main() { print(text) }',
    "go package": 'package main\nimport "@"\nfunc main() { }',
    "csharp": '[assembly: System.Reflection.AssemblyKeyFile("@")] class P { static void Main() { } }',
    "typescript": 'import text from "@"; console.log(text)',
    "typescript reference": '/// <reference path="@" />\nimport "@"',
}


@pytest.mark.parametrize("name", READERS)
def test_a_compiler_sees_nothing_of_the_host(ring: Ring, name: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    for path in (str(secret), "/etc/shadow", "/proc/1/environ"):
        result = ring.script(name.split()[0], READERS[name].replace("@", path))
        assert result.status == "compile_error", result
        assert SECRET not in result.stdout + result.stderr
        assert "it is there" not in result.stderr


def repeated(text: str, inner: str, end: str, count: int) -> str:
    return text * count + inner + end * count


# Sources that take a compiler more time, memory or room than it may have.
BOMBS = {
    "c": "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(A(A(A(x))))))\nint main(void) { B(B(;)) }",
    "c without an end": '#include "/dev/random"\nint main(void) { }',
    "c without an end, of memory": '#include "/dev/zero"\nint main(void) { }',
    "c in the assembler": '__asm__(".rept 100000000\\n.quad 1\\n.endr"); int main(void) { }',
    "c of itself": '#include "main.c"\n#include "main.c"\nint main(void) { }',
    "c of a gibibyte": "char large[1 << 30] = {1}; int main(void) { }",
    "cpp": "template <int N, int M> struct X { typename X<N - 1, 2 * M>::t a; typedef typename X<N - 1, 2 * M + 1>::t t; };"
    "template <int M> struct X<0, M> { typedef int t; }; X<22, 0>::t v; int main() { }",
    "cpp in depth": "template <int N> struct X : X<N + 1> { }; X<0> x; int main() { }",
    "cpp constant": "constexpr long f(long n) { return n < 2 ? n : f(n - 1) + f(n - 2); } constexpr long x = f(60); int main() { }",
    "rust": "macro_rules! m { ($($t:tt)*) => { m!{$($t)* $($t)*} } } m!{a b} fn main() { }",
    "rust constant": 'const X: u64 = { let mut i = 0u64; loop { i += 1; if i == u64::MAX { break i } } }; fn main() { print!("{X}") }',
    "rust file without an end": 'static X: &[u8] = include_bytes!("/dev/zero"); fn main() { print!("{}", X.len()) }',
    "java": 'class Main { static final String A0 = "aaaaaaaa";'
    + " ".join(f"static final String A{n} = A{n - 1} + A{n - 1};" for n in range(1, 40))
    + " public static void main(String[] a) { System.out.println(A39.length()); } }",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_source_that_is_too_much_for_its_compiler_does_not_compile(
    ring: Ring, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded(monkeypatch)
    assert ring.script(name.split()[0], BOMBS[name]).status == "compile_error"


# (source, MiB that /tmp may hold): programs that no job can carry.
LARGE = {
    "more than can be kept": ("c", "char large[100 << 20] = {1}; int main(void) { return 0; }", 512),
    "almost more than can be kept": (
        "c",
        "char large[(64 << 20) - 16200] = {1}; int main(void) { return 0; }",
        512,
    ),
    "more than /tmp holds": ("c", "char large[30 << 20] = {1}; int main(void) { return 0; }", 16),
    "of Go": ("go", "package main\nvar large = [100 << 20]byte{1}\nfunc main() { println(large[0]) }", 512),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_program_that_is_too_large_is_its_own_fault(ring: Ring, name: str) -> None:
    lang, source, tmpfs_mb = LARGE[name]
    result = ring.script(lang, source, dataclasses.replace(PATIENT, tmpfs_mb=tmpfs_mb))
    assert result.status == "compile_error"
    assert "MiB" in result.detail or "larger than" in result.detail


def test_a_program_that_wants_more_memory_than_there_is_does_not_begin(ring: Ring) -> None:
    result = ring.script("c", "char none[1l << 33]; int main(void) { none[5] = 1; return 0; }")
    # The kernel refuses the address space when the program is half made, and kills what is there.
    assert result.status == "signal"


DEEP = {
    "c": ("int main(void) { return ", "(", "1", ")", "; }"),
    "cpp": ("int main() { return ", "(", "1", ")", "; }"),
    "go": ("package main\nfunc main() { _ = ", "(", "1", ")", " }"),
    "rust": ("fn main() { let _ = ", "(", "1", ")", "; }"),
    "java": ("class Main { static int x = ", "(", "1", ")", "; public static void main(String[] a) { } }"),
    "csharp": ("class P { static int x = ", "(", "1", ")", "; static void Main() { } }"),
    "javascript": ("var x = ", "[", "", "]", ""),
    "typescript": ("var x = ", "[", "", "]", ""),
    "ruby": ("x = ", "[", "", "]", ""),
    "php": ("<?php $x = ", "[", "", "]", ";"),
}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_text_nested_without_measure_ends_its_compiler_or_nothing(ring: Ring, lang: str) -> None:
    before, opening, inner, closing, after = DEEP[lang]
    result = ring.script(lang, before + repeated(opening, inner, closing, 30000) + after)
    # Some parsers have no recursion; an interpreter that gives up leaves with a status of its own.
    assert result.status in ("ok", "compile_error", "exit", "signal"), result


# Texts that would swallow what stands below them, or step out of where they are put.
TAILS = {
    "c comment": ("c", "long f(long a, long b) { return 7; } /*"),
    "c condition": ("c", "long f(long a, long b) { return 7; }\n#if 0"),
    "c brace": ("c", "long f(long a, long b) { return 7;"),
    "c text": ("c", 'long f(long a, long b) { return 7; }\nconst char *x = "'),
    "cpp raw text": ("cpp", 'long f(long a, long b) { return 7; }\nconst char *x = R"('),
    "cpp namespace": ("cpp", "long f(long a, long b) { return 7; }\nnamespace {"),
    "cpp module": ("cpp", "export module f; import <vector>; long f(long a, long b) { return 7; }"),
    "rust comment": ("rust", "fn f(a: i64, b: i64) -> i64 { 7 } /*"),
    "rust module": ("rust", "fn f(a: i64, b: i64) -> i64 { 7 } mod x {"),
    "rust macro": ("rust", "fn f(a: i64, b: i64) -> i64 { 7 } macro_rules! all { ($($t:tt)*) => {} } all! {"),
    "rust nothing else": ("rust", "fn f(a: i64, b: i64) -> i64 { 7 }\n#[cfg(none)]\nmod gone {"),
    "go comment": ("go", "package main\nfunc f(a, b int) int { return 7 } /*"),
    "go cgo": (
        "go",
        'package main\n// int x(void) { system("id"); }\nimport "C"\nfunc f(a, b int) int { return 7 }',
    ),
    "go flags of cgo": ("go", 'package main\n//go:cgo_ldflag "-Wl,-x"\nfunc f(a, b int) int { return 7 }'),
    "go symbol of the library": (
        "go",
        'package main\nimport _ "unsafe"\n//go:linkname leave os.Exit\nfunc leave(code int) { for {} }\nfunc f(a, b int) int { return 7 }',
    ),
    "java class": ("java", "class Solution { static long f(long a, long b) { return 7; }"),
    "java class of the library": (
        "java",
        "package java.lang; class Solution { static long f(long a, long b) { return 7; }",
    ),
    "csharp class": ("csharp", "class Solution { static long f(long a, long b) { return 7; }\n#if X"),
    "typescript brace": ("typescript", "function f(a: number, b: number) { return 7 } {"),
}


@pytest.mark.parametrize("name", TAILS)
def test_a_text_that_would_swallow_what_follows_does_not_compile(ring: Ring, name: str) -> None:
    lang, text = TAILS[name]
    assert ring.calls(lang, text).status == "compile_error"


NAMES = (
    "-o x",
    "@x",
    "$(id>&2)",
    "`id`",
    "a'b",
    'a"b',
    "a\nb",
    "x;id",
    "*",
    "a b",
    "-J-version",
    "\u00e9",
    "%s%n",
    "..x",
)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_file_named_like_an_option_or_a_command_is_a_file(ring: Ring, lang: str) -> None:
    suffix = script_file(lang)[script_file(lang).index(".") :]
    empty = "package main\n" if lang == "go" else ""
    files = {f"{name}{suffix}": empty for name in NAMES} | dict.fromkeys(NAMES, "text")
    need(lang)
    result = ring.box.run(Job("script", {script_file(lang): ONE[lang], **files}, lang=lang, limits=PATIENT))
    assert (result.status, result.stdout) == ("ok", "1\n"), result
    assert "uid=" not in result.stderr


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/../../x",
        "/etc/x",
        "x\0",
        "",
        "a//b",
        "./x",
        "\ud800",
        "x" * 256,
        "x/" * 1500 + "y",
        "main.c/x",
    ],
    ids=range(11),
)
def test_a_file_that_cannot_be_is_refused_before_anything_runs(name: str) -> None:
    with pytest.raises(ValueError, match=r"Job\.files"):
        Job("script", {"main.c": "", name: ""}, lang="c")


def test_more_files_than_can_be_sent_are_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="more than 33554432"):
        Job("script", {"main.js": "", "data": "x" * (33 << 20)}, lang="javascript")


@pytest.mark.parametrize(
    ("lang", "files"),
    [
        (
            "java",
            {
                "classes/Main.class": "x",
                "classes/java/lang/String.class": "x",
                "META-INF/MANIFEST.MF": "Main-Class: X",
            },
        ),
        ("csharp", {"program.exe": "x", "program.exe.config": "<configuration/>", "mscorlib.dll": "x"}),
        ("c", {"program": "x"}),
        ("go", {"program": "x", ".sandbox/main.a": "x", ".sandbox/importcfg": "packagefile os=/tmp/x"}),
        (
            "typescript",
            {
                "package.json": '{"type": "module", "browser": {"./main.ts": "/etc/passwd"}}',
                "main.js": "process.exit(1)",
            },
        ),
    ],
    ids=["java", "csharp", "c", "go", "typescript"],
)
def test_no_file_of_a_job_stands_in_for_what_its_compiler_made(
    ring: Ring, lang: str, files: dict[str, str]
) -> None:
    need(lang)
    result = ring.box.run(Job("script", {script_file(lang): ONE[lang], **files}, lang=lang, limits=PATIENT))
    assert (result.status, result.stdout) == ("ok", "1\n"), result


# Honest sources beside files that might change how they are compiled, now or for the next.
BESIDE = {
    "c": {
        "stdio.h": "#error no",
        "sandbox/calls_c.h": "#error no",
        ".sandbox/driver.c": "#error no",
        "specs": "%rename cc1 x",
    },
    "cpp": {
        "vector": "#error no",
        "bits/stdc++.h": "#error no",
        "sandbox/calls.hpp": "#error no",
        "cc1plus": "x",
    },
    "go": {
        "go.mod": "module sandbox/calls\nreplace fmt => ./fmt\n",
        "fmt/fmt.go": "package fmt\n",
        "go.work": "x",
        "vendor/os/os.go": "package os\n",
    },
    "rust": {
        "build.rs": "fn main() { panic!() }",
        "Cargo.toml": "x",
        "std/lib.rs": "compile_error!();",
        ".cargo/config": "x",
    },
    "java": {
        "META-INF/services/javax.annotation.processing.Processor": "Evil",
        "Evil.java": "class Evil { static { System.exit(1); } }",
        "java/util/Arrays.java": "package java_util; class Arrays { }",
    },
    "csharp": {"mcs.rsp": "-out:/tmp/x", "System.dll": "x", "AssemblyInfo.cs": "class Info { }"},
    "typescript": {
        "tsconfig.json": '{"extends": "/etc/passwd", "compilerOptions": {"paths": {"fs": ["./fs.ts"]}, "jsxFactory": "x"}}',
        "package.json": '{"type": "module", "imports": {"#x": "/etc/passwd"}, "esbuild": {"plugins": ["./x"]}}',
        "fs.ts": "throw 1",
        "node_modules/fs/index.js": "throw 1",
    },
}


@pytest.mark.parametrize("lang", BESIDE)
def test_files_beside_a_program_change_no_other_job_s_build(lang: str, tmp_path: Path) -> None:
    need(lang)
    wrong = honest(lang).replace("a * b", "a + b")

    def run(box: Sandbox, source: str, files: dict[str, str]) -> Result:
        named = {solution_file(lang): source, **files}
        return box.run(Job("calls", named, "f", CALLS, lang=lang, limits=PATIENT))

    with Sandbox(cache=tmp_path) as box:
        run(box, honest(lang), BESIDE[lang])
        run(box, wrong, BESIDE[lang])
        assert judge_calls(run(box, wrong, {}), RIGHT).passed is False
        judged = judge_calls(run(box, honest(lang), {}), RIGHT)
        assert judged.passed, judged.reason
    # The same from the disk, whatever lies there.
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept
    for path in kept[1:]:
        path.write_bytes(kept[0].read_bytes())
    with Sandbox(cache=tmp_path) as box:
        assert judge_calls(run(box, wrong, {}), RIGHT).passed is False
        judged = judge_calls(run(box, honest(lang), {}), RIGHT)
        assert judged.passed, judged.reason
