"""Languages, vendored and generated files, by names and content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner import origins
from miner.config import LANGUAGES
from miner.languages import language_of, languages_of_path


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a.py", "Python"),
        ("a.pyi", "Python"),
        ("A.PY", "Python"),
        ("a.js", "JavaScript"),
        ("a.jsx", "JavaScript"),
        ("a.mjs", "JavaScript"),
        ("a.cjs", "JavaScript"),
        ("a.ts", "TypeScript"),
        ("a.tsx", "TypeScript"),
        ("a.d.ts", "TypeScript"),
        ("a.mts", "TypeScript"),
        ("A.java", "Java"),
        ("a.go", "Go"),
        ("a.c", "C"),
        ("a.C", "C++"),
        ("a.cc", "C++"),
        ("a.cxx", "C++"),
        ("a.hpp", "C++"),
        ("a.hh", "C++"),
        ("a.hxx", "C++"),
        ("a.H", "C++"),
        ("A.cs", "C#"),
        ("a.rb", "Ruby"),
        ("a.rake", "Ruby"),
        ("x/Rakefile", "Ruby"),
        ("a.rs", "Rust"),
        ("a.kt", "Kotlin"),
        ("build.gradle.kts", "Kotlin"),
        ("a.scala", "Scala"),
        ("build.sbt", "Scala"),
        ("a.swift", "Swift"),
        ("Podfile", "Ruby"),
        ("x/Alamofire.podspec", "Ruby"),
        ("x.py/readme", None),
        ("a.py.txt", None),
        ("Dockerfile", None),
        ("a.", None),
        ("", None),
        (".ts", None),
    ],
)
def test_language_by_name(path: str, language: str | None) -> None:
    assert language_of(path, "") == language


@given(st.text(max_size=30), st.text(max_size=200))
def test_language_is_a_known_one_or_none(path: str, content: str) -> None:
    assert language_of(path, content) in (*LANGUAGES, None)
    assert language_of("x.h", content) in ("C", "C++", None)
    assert language_of(path, content) in (*languages_of_path(path), None)


@pytest.mark.parametrize(
    ("content", "language"),
    [
        ("#include <stdio.h>\nint f(void);\n", "C"),
        ('#ifdef __cplusplus\nextern "C" {\n#endif\nint f(void);\n#ifdef __cplusplus\n}\n#endif\n', "C"),
        ("#ifdef __cplusplus\nclass X;\n#else\ntypedef struct X X;\n#endif\n", "C"),
        (
            "#if defined(__cplusplus)\n# if X\nclass a;\n# endif\nusing namespace std;\n#endif\nint x;\n",
            "C",
        ),
        ("#ifdef __cplusplus\n#else\nclass X;\n#endif\n", "C++"),
        ("/* class X { */\nint f(void);\n", "C"),
        ("// namespace a {\nint f(void);\n", "C"),
        ("int class_of(int x);\nstruct template_data { int new; };\n", "C"),
        ("class Parser {\n};\n", "C++"),
        ("class EXPORT Parser : public Base {\n};\n", "C++"),
        ("namespace a {\nint f();\n}\n", "C++"),
        ("template <typename T>\nT f(T x);\n", "C++"),
        ("#include <vector>\nint f();\n", "C++"),
        ("std::string f();\n", "C++"),
        ("struct A {\n public:\n  int x;\n};\n", "C++"),
        ("@interface Foo\n@end\n", None),
        ("#import <Foundation/Foundation.h>\n", None),
        ("", "C"),
        ("/*\n@class Parser\n#import x\n*/\nint f(void);\n", "C"),
        ("int x;\n" * 3000 + "class Parser {\n};\n", "C++"),
        ("int x;\n" * 570 + "class Parser;  // " + "x" * 30 + "\nint y;\n", "C++"),
    ],
)
def test_language_of_headers_by_content(content: str, language: str | None) -> None:
    assert language_of("x.h", content) == language


def test_qt_translation_is_no_typescript() -> None:
    assert language_of("app_de.ts", '<?xml version="1.0"?>\n<!DOCTYPE TS>\n<TS></TS>\n') is None


@pytest.mark.parametrize("content", ["/*" * 100_000, "class a " * 50_000, "#if x\n" * 50_000, "::" * 100_000])
def test_headers_made_to_be_slow_are_read_in_one_go(content: str) -> None:
    language_of("x.h", content)


@pytest.mark.parametrize(
    "path",
    [
        "vendor/x.go",
        "a/node_modules/b/c.js",
        "Third_Party/x.c",
        "deps/lua/x.c",
        "static/js/jquery-1.2.3.js",
        "a/versioneer.py",
        "Pods/Alamofire/Source/Request.swift",
        "Carthage/Checkouts/x/a.swift",
        ".build/checkouts/x/a.swift",
        "ios/DerivedData/a.swift",
        "a/target/debug/build/x/out/bindings.rs",
        "target/scala-2.13/src_managed/A.scala",
        "public/wp-includes/post.php",
        ".venv/lib/a.py",
    ],
)
def test_vendored_paths(path: str) -> None:
    assert origins.vendored(path)


@pytest.mark.parametrize(
    "path",
    [
        "src/vendor.py",
        "vendoring/x.py",
        "underscore.js",
        "a/jqueryish.js",
        "x.py",
        "lib/Target/X86/X86.cpp",
        "src/target/mod.rs",
        "target/release.rs",
        "src/wp-includes/post.php",
        "wp-includes.php",
        "build/x.swift",
    ],
)
def test_own_paths_are_not_vendored(path: str) -> None:
    assert origins.vendored(path) is None


@pytest.mark.parametrize(
    "path", ["a_pb2.py", "x.pb.go", "dist/a.js", "Form.Designer.cs", "ui_main.h", "zz_generated.deepcopy.go"]
)
def test_generated_paths(path: str) -> None:
    assert origins.generated_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "x.pb.swift",
        "x.grpc.swift",
        "app/R.java",
        "gen/BuildConfig.java",
        "R.generated.swift",
        "schema_generated.h",
        "a_pb.d.ts",
        "Foo+CoreDataProperties.swift",
    ],
)
def test_generated_paths_of_mobile_and_protocols(path: str) -> None:
    assert origins.generated_path(path)


@pytest.mark.parametrize("path", ["BR.java", "r.java", "MyBuildConfig.java", "pb.swift", "generated.kt"])
def test_names_like_generated_ones_are_written(path: str) -> None:
    assert origins.generated_path(path) is None


@pytest.mark.parametrize(
    "path",
    [
        "yarn.lock",
        "a/Cargo.lock",
        "package-lock.json",
        "go.sum",
        "X.xcworkspace/Package.resolved",
        "gradle.lockfile",
    ],
)
def test_lock_files(path: str) -> None:
    assert origins.lock_file(path)


@pytest.mark.parametrize(
    "path", ["lock.py", "src/lock", "package.json", "my.lock", "yarn.lock/a.js", "go.summary"]
)
def test_files_about_locks_are_no_lock_files(path: str) -> None:
    assert origins.lock_file(path) is None


@pytest.mark.parametrize("path", ["a.py", "distance/a.js", "build/x.py", "gui_main.h", "pb.go"])
def test_written_paths_are_not_generated(path: str) -> None:
    assert origins.generated_path(path) is None


@pytest.mark.parametrize(
    "content",
    [
        "// Code generated by protoc-gen-go. DO NOT EDIT.\npackage x\n",
        "# @generated by a tool\n",
        "/* This file is automatically generated */\n",
        "// <auto-generated>\n",
        "# This file was autogenerated from x.\n",
        "/* A Bison parser, made by GNU Bison 3.0. */\n",
        "/* automatically generated by rust-bindgen 0.59.2 */\n",
        "// swiftlint:disable all\n// Generated using SwiftGen\n",
        "// Generated by the gRPC Kotlin compiler\n",
    ],
)
def test_generated_marks(content: str) -> None:
    assert origins.generated_content(content)


@pytest.mark.parametrize(
    "content",
    [
        "# Generates the report.\n",
        "def generated(x):\n    return x\n",
        "x = 1\n" * 1000 + "# do not edit\n",
        "# all values are present in this autogenerated file\nproject = 'x'\n",
    ],
)
def test_writing_about_generation_is_no_mark(content: str) -> None:
    assert origins.generated_content(content) is None


def test_minified_by_name_and_by_lines() -> None:
    assert origins.minified_path("a.min.js")
    assert origins.minified_content("var a=1;" * 1000, "JavaScript")
    assert origins.minified_content("a" * 6000 + "\nb\n", "Python")
    assert origins.minified_content("x\n" * 2000 + "a" * 5999, "C")


def test_long_table_in_a_long_file_is_not_minified() -> None:
    assert origins.minified_content("int x = 1;\n" * 2000 + "a" * 6000, "C") is None
    assert origins.minified_content("let x = 1;\n" * 50, "JavaScript") is None
