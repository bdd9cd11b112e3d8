"""Languages, vendored and generated files, and licences, by names and content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner import origins
from miner.config import LANGUAGES
from miner.languages import language_of
from miner.licenses import license_of_files, license_of_text

MIT = """MIT License

Copyright (c) 2020 Ada

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights.

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND.
"""
BSD2 = """Copyright 2020 Ada. All rights reserved.

Redistribution and use in source and binary forms, with or without
modification, are permitted provided that the following conditions are met:
1. Redistributions of source code must retain the above copyright notice.
2. Redistributions in binary form must reproduce the above copyright notice.
"""
BSD3 = BSD2 + "3. Neither the name of Ada may be used to endorse or promote products derived from this.\n"
BSD4 = BSD3 + "4. All advertising materials mentioning features must display an acknowledgement.\n"
APACHE = "Apache License\nVersion 2.0, January 2004\n\n3. Grant of Patent License. Subject to the terms.\n"
GPL3 = "GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007\n\n4. Conveying Verbatim Copies.\n"
LGPL3 = "GNU LESSER GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007\n\n4. Combined Works.\n"


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
        ("a.php", "PHP"),
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
    ],
)
def test_vendored_paths(path: str) -> None:
    assert origins.vendored(path)


@pytest.mark.parametrize(
    "path", ["src/vendor.py", "vendoring/x.py", "underscore.js", "a/jqueryish.js", "x.py"]
)
def test_own_paths_are_not_vendored(path: str) -> None:
    assert origins.vendored(path) is None


@pytest.mark.parametrize(
    "path", ["a_pb2.py", "x.pb.go", "dist/a.js", "Form.Designer.cs", "ui_main.h", "zz_generated.deepcopy.go"]
)
def test_generated_paths(path: str) -> None:
    assert origins.generated_path(path)


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


@pytest.mark.parametrize(
    ("text", "spdx"),
    [
        (MIT, "MIT"),
        (MIT.replace("MIT License\n\n", ""), "MIT"),
        (BSD2, "BSD-2-Clause"),
        (BSD3, "BSD-3-Clause"),
        (BSD4, "BSD-4-Clause"),
        (APACHE, "Apache-2.0"),
        (GPL3, "GPL-3.0"),
        (LGPL3, "LGPL-3.0"),
        ("All rights reserved.", None),
        ("", None),
        ("We move to a new licence. " * 40 + MIT, None),
        (MIT + "Further terms apply. " * 400, None),
        ("We move away from the following. " * 30 + GPL3, None),
    ],
)
def test_license_by_text(text: str, spdx: str | None) -> None:
    assert license_of_text(text) == spdx
    assert license_of_text(text.replace("\n", "\r\n").upper()) == spdx


@pytest.mark.parametrize(
    ("files", "spdx"),
    [
        ([("LICENSE", MIT)], "MIT"),
        ([("LICENSE-MIT", MIT), ("LICENSE-APACHE", APACHE)], "Apache-2.0 OR MIT"),
        ([("LICENSE", MIT), ("COPYING", APACHE)], None),
        ([("LICENSE", MIT), ("COPYING", MIT)], "MIT"),
        ([("COPYING", GPL3), ("COPYING.LESSER", LGPL3)], "LGPL-3.0"),
        ([("LICENSE", MIT), ("LICENSE-EXTRA", "My own terms")], None),
        ([], None),
    ],
)
def test_license_of_several_files(files: list[tuple[str, str]], spdx: str | None) -> None:
    assert license_of_files(files) == spdx
