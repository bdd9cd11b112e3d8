"""Files whose language stands in them: scripts, and extensions that languages share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner.config import LANGUAGES
from miner.languages import SCRIPT, language_of, language_of_path, language_of_shebang, languages_of_path


@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("#!/usr/bin/env python3", "Python"),
        ("#!/usr/bin/python3.11 -u", "Python"),
        ("#! /usr/bin/env -S python3 -I", "Python"),
        ("#!/usr/bin/env -S LANG=C uv run --script", "Python"),
        ("#!/opt/pypy/bin/pypy3", "Python"),
        ("#!/usr/bin/env ruby", "Ruby"),
        ("#!/usr/bin/ruby2.7", "Ruby"),
        ("#!/usr/bin/env node", "JavaScript"),
        ("#!/usr/bin/nodejs --harmony", "JavaScript"),
        ("#!/usr/bin/env -S deno run --allow-net", "TypeScript"),
        ("#!/usr/bin/env ts-node", "TypeScript"),
        ("#!/usr/bin/php -q", "PHP"),
        ("#!/usr/bin/env kotlin", "Kotlin"),
        ("#!/usr/bin/xcrun swift", "Swift"),
        ("#!/usr/bin/env scala", "Scala"),
        ("#!/usr/bin/env -S cargo +nightly -Zscript", "Rust"),
        ("#!/usr/bin/java --source 17", "Java"),
        ('#!/bin/sh\n# comment\nexec python3 "$0" "$@"', "Python"),
        ('#!/bin/sh\nexec scala "$0" "$@"\n!#', "Scala"),
        ("#!/bin/sh\nexec python3 other.py", None),
        ("#!/bin/sh", None),
        ("#!/usr/bin/perl -w", None),
        ("#!/usr/bin/env pythonista", None),
        ("#!", None),
        ("#!/usr/bin/env", None),
        ("# !/usr/bin/env python3", None),
        (" #!/usr/bin/env python3", None),
        ("", None),
    ],
)
def test_first_line_of_a_script(line: str, language: str | None) -> None:
    assert language_of_shebang(line) == language
    assert language_of_shebang(line + "\nx = 1\n") == language
    assert language_of("bin/deploy", line + "\r\nx = 1\r\n") == language


@pytest.mark.parametrize(
    "path", ["bin/deploy", "benchsuite", "scripts/check-commits", "cgi/a.cgi", "t/a.t", "a.pl"]
)
def test_names_that_may_be_scripts_are_asked(path: str) -> None:
    assert language_of_path(path) == SCRIPT
    assert set(languages_of_path(path)) <= set(LANGUAGES)


@pytest.mark.parametrize(
    "path",
    [
        "README",
        "LICENSE",
        "docs/AUTHORS",
        "Makefile",
        "src/makefile",
        "Dockerfile",
        "Jenkinsfile",
        ".gitignore",
        "readme",
        "configure",
        "gradlew",
        "a.txt",
        "a.md",
        "a.m",
        "a.v",
        "a.cls",
        "bin/",
        "resources/views/a.blade.php",
    ],
)
def test_documents_and_build_files_are_told_by_their_path(path: str) -> None:
    assert languages_of_path(path) == ()
    assert language_of(path, "#!/usr/bin/env python3\n") is None


def test_an_extension_is_believed_more_than_a_first_line() -> None:
    assert language_of("a.rb", "#!/usr/bin/env python3\n") == "Ruby"


@pytest.mark.parametrize(
    ("path", "content", "language"),
    [
        ("a.php", "<?php\nf();\n", "PHP"),
        ("a.php", "<html><?= $x ?></html>\n", "PHP"),
        ("a.phtml", "<html></html>\n", None),
        ("a.php", "<?hh\nfunction f() {}\n", None),
        ("a.inc", "<?php\nf();\n", "PHP"),
        ("a.module", "\ufeff\n<?php\nf();\n", "PHP"),
        ("a.inc", "#include <stdio.h>\n", None),
        ("a.inc", ".globl main\n", None),
        ("a.inc", '<?xml version="1.0"?>\n', None),
        ("a.sc", "import scala.util.Try\n\nval x = 1\n", "Scala"),
        ("a.sc", "object A {\n  def f = 1\n}\n", "Scala"),
        ("a.sc", "+ Object {\n  f { |x| ^x }\n}\n", None),
        ("a.sc", "SynthDef(\\\\a, { arg freq; Out.ar(0, SinOsc.ar(freq)) }).add;\n", None),
        ("a.rs", "fn main() {}\n", "Rust"),
        ("a.rs", "#pragma version(1)\n#pragma rs java_package_name(a)\n", None),
        ("a.cs", "class A {}\n", "C#"),
        ("a.cs", "!Object methodsFor: 'a'!\n", None),
        ("map.tsx", '\ufeff<?xml version="1.0"?>\n<tileset>\n', None),
        ("map.tsx", '<tileset name="a">\n', None),
        ("a.tsx", "const x = <b/>;\n", "TypeScript"),
        ("a.es", "#!/usr/bin/env escript\nmain(_) -> ok.\n", None),
        ("a.hh", "<?hh\n", None),
    ],
)
def test_shared_extensions_by_content(path: str, content: str, language: str | None) -> None:
    assert language_of(path, content) == language


@given(
    st.from_regex(r"[a-z/]{0,5}\.?(h|sc|inc|rs|cs|php|tsx?|pl)?", fullmatch=True),
    st.text(max_size=100) | st.text(alphabet='#!/ \nenvpythonrubysh$0@"<?=', max_size=80),
)
def test_any_content_gives_a_language_that_the_path_allows(path: str, content: str) -> None:
    assert language_of(path, content) in (*languages_of_path(path), None)


@pytest.mark.parametrize("piece", ["#!", "exec ", "val ", "!a ", "override ", "\n", "env "])
@pytest.mark.parametrize("path", ["bin/x", "a.sc", "a.inc", "a.cs", "a.rs", "a.tsx"])
def test_contents_made_to_be_slow_are_read_in_one_go(path: str, piece: str) -> None:
    language_of(path, "#!" + piece * 200_000)
