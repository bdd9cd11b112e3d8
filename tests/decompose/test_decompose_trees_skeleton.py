"""Skeletons and splices of programs in other languages than Python; skeletons compile."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from decompose.functions import functions, source_of
from decompose.graft import bound_names
from decompose.grammars import SourceError
from decompose.skeleton import skeleton, splice
from decompose.source import LANGUAGES, filler
from decompose.tree_graft import blank_unused_imports
from schemas.errors import AssayError


@pytest.mark.parametrize(
    ("language", "code", "blank"),
    [
        ("JavaScript",
         "const f = x => ({ a: x });\n", 'const f = x => { throw new Error("not implemented"); };\n'),
        ("JavaScript",
         "class A extends B {\n  constructor(x) {\n    super(x); // up\n    this.x = x;\n  }\n}\n",
         "class A extends B {\n  constructor(x) {\n    super(x);\n"
         '    throw new Error("not implemented");\n  }\n}\n'),
        ("JavaScript", "function f() {}\r\nfunction g() {\r\n\treturn 1;\r\n}\r\n",
         'function f() { throw new Error("not implemented"); }\r\n'
         'function g() {\r\n\tthrow new Error("not implemented");\r\n}\r\n'),
        ("JavaScript", "on('x', () => { go(); });\nif (y) { function f() { return 1; } }\n",
         "on('x', () => { go(); });\n"
         'if (y) { function f() { throw new Error("not implemented"); } }\n'),
        ("Java",
         "class A extends B {\n    A(int x) {\n        // up\n        super(x);\n        y = x;\n    }\n}\n",
         "class A extends B {\n    A(int x) {\n        // up\n        super(x);\n"
         "        throw new UnsupportedOperationException();\n    }\n}\n"),
        ("Go", "package m\n\nfunc f() int {\n\t// how\n\treturn 1\n}\n",
         'package m\n\nfunc f() int {\n\tpanic("not implemented")\n}\n'),
        ("C", "int f(int a)\n{\n#ifdef X\n    a = 2;\n#endif\n    return a;\n}\n",
         "int f(int a)\n{\n    __builtin_abort();\n}\n"),
        ("C++", "A::A() : x(1) { y = 2; }\nint g() try { return 1; } catch (...) { return 2; }\n",
         'A::A() : x(1) { throw "not implemented"; }\nint g() { throw "not implemented"; }\n'),
        ("C#",
         "class A {\n    int F() => 1;\n    int P { get => x; set { x = 1; } }\n"
         "    int Q { get; set; } = 2;\n}\n",
         "class A {\n    int F() => throw new System.NotImplementedException();\n"
         "    int P { get => throw new System.NotImplementedException(); "
         "set { throw new System.NotImplementedException(); } }\n    int Q { get; set; } = 2;\n}\n"),
        ("Ruby",
         "def f(x) # note\n  # how\n  x\nrescue E\n  1\nend\ndef g = 1\ndef h; end\ndef i() true end\n",
         "def f(x) # note\n  raise NotImplementedError\nend\ndef g = raise(NotImplementedError)\n"
         "def h; raise NotImplementedError; end\ndef i(); raise NotImplementedError; end\n"),
        ("Rust", "impl A {\n    const fn f(&self) -> i32 {\n        1 // one\n    }\n}\n",
         "impl A {\n    const fn f(&self) -> i32 {\n        todo!()\n    }\n}\n"),
        ("PHP", "<?php\nfunction f() {\n    return 1; ?> text <?php\n}\n",
         '<?php\nfunction f() {\n    throw new \\Exception("not implemented");\n}\n'),
    ],
    ids=range(12),
)  # fmt: skip
def test_skeleton_of(language: str, code: str, blank: str) -> None:
    assert skeleton(code, language=language) == blank


def test_kept_functions_keep_their_bodies() -> None:
    code = "package m\nfunc f() int { return 1 }\nfunc g() int { return 2 }\n"
    assert skeleton(code, keep=["g"], language="Go") == code.replace("return 1", 'panic("not implemented")')


def test_every_language_has_a_filler() -> None:
    assert [filler(language) for language in ("Python", "Rust")] == ["pass", "todo!()"]
    assert all(filler(language) for language in LANGUAGES)
    with pytest.raises(AssayError, match="COBOL"):
        filler("COBOL")


@pytest.mark.parametrize(
    ("language", "code", "name", "new"),
    [
        ("JavaScript", "function f() {}\nfunction g() {}\n", "f", new)
        for new in ("", "let x = 1", "function h() {}", "function f() {} let y = 1;",
                    "let y; function f() {}",
                    "function f() {", "function f() {} /*", "function f() {} // x\nfunction g() {}", "f = 1",
                    "class f {}", "if (x) { function f() {} }", "function f() {}\0", "function f() {} }")
    ] + [
        ("Java", "class A { int f() { return 1; } }", "A.f", "int f() { return 1; } }"),
        ("Java", "class A { int f() { return 1; } }", "A.f", "int f() { return 1; } // x"),
        ("Java", "class A { int f() { return 1; } }", "A.f", "int f(); "),
        ("C", "int f(void) { return 1; }\n", "f", "int f(void);"),
        ("Ruby", "def f; end\n", "f", "def f; end; puts 1"),
        ("PHP", "<?php function f() {}", "f", "function f() {} ?> text"),
        ("Rust", "fn f() {}", "f", "#[cfg(x)] fn f() {}"),
    ],
)  # fmt: skip
def test_text_that_is_not_that_one_function_is_refused(language: str, code: str, name: str, new: str) -> None:
    with pytest.raises(SourceError):
        splice(code, name, new, language)


@pytest.mark.parametrize(
    ("language", "code", "name", "new", "made"),
    [
        ("JavaScript", "const f = x => 1, g = 2;\n", "f", "f = x => 3", "const f = x => 3, g = 2;\n"),
        ("Java", "class A { int x; int f() { return 1; } }", "A.f", "/** Doc. */\nint f() { return 2; }",
         "class A { int x; \n/** Doc. */\nint f() { return 2; } }"),
        ("Java",
         "class A {\n  /* c */\n  /** Doc. */\n  int f() { return 1; }\n}\n"
         "", "A.f", "  int f() { return 2; }\n",
         "class A {\n  /* c */\n  int f() { return 2; }\n}\n"),
        ("C++",
         "template <class T> T f(T a) { return a; }\n", "f", "template <class U> U f(U b) { return b; }",
         "template <class U> U f(U b) { return b; }\n"),
        ("Python", "def f(): pass\n", "f", "def f(): return 1", "def f(): return 1\n"),
    ],
    ids=range(5),
)  # fmt: skip
def test_a_function_is_replaced_and_nothing_else(
    language: str, code: str, name: str, new: str, made: str
) -> None:
    assert splice(code, name, new, language) == made


SAMPLES = Path(__file__).parent / "tree_samples"
COMPILERS = {
    "sample.js": ("JavaScript", "node --check {file}"),
    "sample.ts": ("TypeScript", "tsc --noEmit --target es2020 {file}"),
    "Sample.java": ("Java", "javac -d . {file}"),
    "sample.go": ("Go", "gofmt -e -l {file}"),
    "sample.c": ("C", "gcc -std=c11 -fsyntax-only {file}"),
    "sample.cpp": ("C++", "g++ -std=c++17 -fsyntax-only {file}"),
    "sample.cs": ("C#", "mcs -out:out.exe {file}"),
    "sample.rb": ("Ruby", "ruby -c {file}"),
    "sample.rs": ("Rust", "rustc --emit=metadata -A warnings -o out.rmeta {file}"),
    "sample.php": ("PHP", "php -l {file}"),
}


@pytest.mark.parametrize("file", COMPILERS)
def test_skeleton_of_a_whole_program_compiles(file: str, tmp_path: Path) -> None:
    language, command = COMPILERS[file]
    code = (SAMPLES / file).read_text()
    blank = skeleton(code, language=language)
    assert len(functions(blank, language)) >= 5
    word = re.match(r"\w+", filler(language))
    assert word is not None
    assert all(word[0] in source_of(blank, f) for f in functions(blank, language))
    assert bound_names(blank, language) == bound_names(code, language)
    words = command.format(file=file).split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    (tmp_path / file).write_text(blank)
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_imports_of_go_that_a_skeleton_needs_no_more_are_blank() -> None:
    code = 'package m\n\nimport (\n\t"fmt"\n\tstr "strings"\n\t"math/rand/v2"\n\t_ "os"\n)\n\n'
    code += 'func f(r *rand.Rand) { fmt.Println(str.ToUpper("")) }\n'
    assert blank_unused_imports(code) == code
    made = blank_unused_imports(skeleton(code, language="Go"))
    assert made.partition("func")[0] == (
        'package m\n\nimport (\n\t_ "fmt"\n\t_ "strings"\n\t"math/rand/v2"\n\t_ "os"\n)\n\n'
    )
