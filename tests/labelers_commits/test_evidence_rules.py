"""Rules that find insecure and slow code: what they find, and what they do not take for it."""

from __future__ import annotations

import re
import time

import pytest
from evidence_views import CRITERIA
from hypothesis import given, settings
from hypothesis import strategies as st

from decompose.grammars import LANGUAGES
from labelers.commits.evidence.bearings import BROKEN, RULES, SAME_PROGRAM, Change, bearings
from labelers.commits.evidence.rules import RULES as PATTERNS
from labelers.commits.evidence.rules import find
from labelers.commits.evidence.syntax import outline
from schemas.records import Measure

FOUND = [
    ("C", "gets", "void f(void) { gets(line); }"),
    ("C", "unbounded_copy", "void f(void) { strcpy(to, from); }"),
    ("C++", "unbounded_format", 'void f() { sprintf(to, "%s", from); }'),
    ("C", "shell_command", "void f(void) { system(command); }"),
    ("C", "format_from_variable", "void f(void) { printf(text); }"),
    ("C", "temporary_name", "void f(void) { mktemp(name); }"),
    ("C", "tls_unverified", "void f(void) { curl_easy_setopt(h, CURLOPT_SSL_VERIFYPEER, 0L); }"),
    ("C", "random_secret", "void f(void) { token = rand(); }"),
    ("JavaScript", "eval", "eval(code);"),
    ("JavaScript", "markup_from_value", "node.innerHTML = text;"),
    ("JavaScript", "shell_command", "child_process.exec('ls ' + name);"),
    ("TypeScript", "shell_command", "execSync(`ls ${name}`);"),
    ("JavaScript", "tls_unverified", "request({ rejectUnauthorized: false });"),
    ("JavaScript", "weak_hash", "crypto.createHash('md5');"),
    ("JavaScript", "random_secret", "const sessionToken = 'a' + Math.random();"),
    ("JavaScript", "sql_from_value", 'query("SELECT a FROM b WHERE c = " + name);'),
    ("JavaScript", "password_in_code", "const password = 'hunter2hunter2';"),
    ("Java", "weak_hash", 'class A { void f() { MessageDigest.getInstance("MD5"); } }'),
    ("Java", "weak_cipher", 'class A { void f() { Cipher.getInstance("DES/CBC"); } }'),
    ("Java", "tls_unverified", "class A { void checkServerTrusted(X[] a, String b) { } }"),
    ("Java", "unsafe_deserialization", "class A { void f() { new ObjectInputStream(in); } }"),
    (
        "C#",
        "tls_unverified",
        "class A { void F() { h.ServerCertificateValidationCallback = (a, b) => true; } }",
    ),
    ("C#", "unsafe_deserialization", "class A { void F() { new BinaryFormatter(); } }"),
    ("Go", "tls_unverified", "package a\nvar c = tls.Config{InsecureSkipVerify: true}\n"),
    ("Go", "weak_hash", "package a\nvar c = md5.New()\n"),
    ("Go", "sql_from_value", 'package a\nvar c = fmt.Sprintf("SELECT a FROM b WHERE c = %s", d)\n'),
    ("Ruby", "unsafe_deserialization", "Marshal.load(text)"),
    ("Ruby", "shell_command", 'system("ls #{name}")'),
    ("Ruby", "sql_from_value", 'User.where("name = #{name}")'),
    ("Ruby", "eval", "eval(code)"),
    ("PHP", "unsafe_deserialization", "<?php unserialize($text);"),
    ("PHP", "markup_from_request", "<?php echo $_GET['a'];"),
    ("PHP", "code_from_request", "<?php include $_GET['a'];"),
    ("PHP", "shell_command", "<?php shell_exec('ls ' . $a);"),
    ("Rust", "tls_unverified", "fn f() { b.danger_accept_invalid_certs(true); }"),
    ("Swift", "weak_hash", "let a = CC_MD5(b, c, d)"),
    ("Python", "text_grown_in_loop", "for a in b:\n    c += 'd'\n"),
    ("Python", "insert_in_front", "while a:\n    b.insert(0, c)\n"),
    ("Python", "pattern_compiled_in_loop", "for a in b:\n    re.compile(a)\n"),
    ("Python", "list_made_to_look_in", "for a in b:\n    if a in list(c):\n        d()\n"),
    ("Java", "pattern_compiled_in_loop", "class A { void f() { while (a) { Pattern.compile(b); } } }"),
    ("Go", "pattern_compiled_in_loop", "package a\nfunc f() { for { regexp.MustCompile(b) } }\n"),
    ("C", "length_in_condition", "void f(void) { for (i = 0; i < strlen(s); i++) g(i); }"),
]

PIECES = (
    *(
        "a",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "'",
        '"',
        "`",
        "//",
        "/*",
        "*/",
        "#",
        "\n",
        "\\",
        "for",
        "if",
        "x",
        "+=",
    ),
    *("1", ";", "<?php", "é", "end", "do", "=begin"),
)


def names(text: str, language: str) -> set[str]:
    found = find(outline(text, language), language)
    return {name for kind in ("security", "performance") for name in found.get(kind, {})}


@pytest.mark.parametrize(("language", "rule", "text"), FOUND, ids=[f"{a}-{b}" for a, b, _ in FOUND])
def test_a_rule_finds_what_it_is_for(language: str, rule: str, text: str) -> None:
    assert rule in names(text, language)


@pytest.mark.parametrize(("language", "rule", "text"), FOUND, ids=[f"{a}-{b}" for a, b, _ in FOUND])
def test_no_rule_finds_anything_in_a_comment(language: str, rule: str, text: str) -> None:
    mark = "#" if language in ("Python", "Ruby") else "//"
    head = "<?php\n" if language == "PHP" else ""
    inside = "\n".join(f"{mark} {line.removeprefix('<?php')}" for line in text.split("\n"))
    assert names(head + inside + "\n", language) == set()


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("C", 'void f(void) { say("gets(line)"); }'),
        ("C", "void f(void) { fgets(line, 3, in); x->system(a); }"),
        ("C", 'void f(void) { strcpy(to, "plain"); printf("%s", text); system("ls"); }'),
        ("JavaScript", "say('eval(code)'); regex.exec('a' + b); x.eval(code);"),
        ("JavaScript", "node.innerHTML = ''; if (a.innerHTML == b) c();"),
        ("JavaScript", "const password = ''; const password2 = process.env.PASSWORD;"),
        ("JavaScript", "say('SELECT one of ' + these);"),
        ("Java", 'class A { String s = "new ObjectInputStream(x)"; void f() { getInstance("SHA-256"); } }'),
        ("Go", 'package a\nvar c = tls.Config{InsecureSkipVerify: false}\nvar d = "md5.New()"\n'),
        ("Ruby", "YAML.load_file(a); instance_eval do\n  b\nend"),
        ("PHP", "<?php unserialize($text, ['allowed_classes' => false]);"),
        ("Python", "b.insert(0, c)\nre.compile(a)\n"),
        ("Python", "for a in b:\n    c += 1\n"),
    ],
)
def test_what_only_looks_alike_is_not_found(language: str, text: str) -> None:
    assert names(text, language) == set()


@pytest.mark.parametrize("rule", PATTERNS, ids=[f"{one.name}-{one.languages[:4]}" for one in PATTERNS])
def test_patterns_do_not_backtrack_on_their_own_beginnings(rule: object) -> None:
    pattern = re.compile(rule.pattern)  # type: ignore[attr-defined]
    pieces = [
        "token = ",
        "SELECT a ",
        '"SELECT a FROM ',
        "password = '",
        "for (",
        "exec(",
        "a ",
        "`",
        '"',
        "$_GET",
    ]
    began = time.process_time()
    for piece in pieces:
        sum(1 for _ in pattern.finditer(piece * (60_000 // len(piece))))
    # A bound for what would take minutes, not a measure of speed.
    assert time.process_time() - began < 60


def test_rules_are_for_known_languages() -> None:
    assert {language for one in PATTERNS for language in one.languages.split()} <= set(LANGUAGES)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(LANGUAGES), st.lists(st.sampled_from(PIECES)))
def test_any_text_has_an_outline(language: str, parts: list[str]) -> None:
    text = " ".join(parts)
    found = outline(text, language)
    assert len(found.code) == len(found.inside) == len(text.encode())
    assert found == outline(text, language)
    find(found, language)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a = 1", "f(b)", "c = 'd'", "e = [1,\n  2]"]), min_size=1), st.data())
def test_comments_and_blank_lines_never_change_a_program(lines: list[str], data: st.DataObject) -> None:
    more = []
    for line in lines:
        more += data.draw(st.lists(st.sampled_from(["", "# x", "   # y"]), max_size=2))
        more.append(line)
    one, other = outline("\n".join(lines), "Python"), outline("\n".join(more) + "\n", "Python")
    assert one.program == other.program
    assert one.tokens == other.tokens


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a = 1", "f(b)", "c = 'd'"]), min_size=1), st.data())
def test_another_statement_is_another_program(lines: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines)))
    more = [*lines[:at], "g()", *lines[at:]]
    assert outline("\n".join(lines), "Python").program != outline("\n".join(more), "Python").program


def said(measures: dict[str, tuple[float | None, float | None]], *notes: str) -> dict[str, str]:
    made = [Measure(name=name, old=old, new=new, tool="t") for name, (old, new) in measures.items()]
    found, _ = bearings(["FC", "RE", "ME", "SH", "RM", "X"], made, notes)
    return {one.criterion: one.verdict for one in found if one.verdict != "silent"}


def test_nothing_measured_is_silence() -> None:
    assert said({}) == {}


def test_what_could_not_be_measured_holds_no_rule() -> None:
    assert said({"undefined_names": (0, None), "performance": (None, 0), "security": (None, None)}) == {}


@pytest.mark.parametrize("how", ["agrees", "disagrees"])
def test_every_rule_of_the_table_can_hold_alone(how: str) -> None:
    for rule in RULES:
        if rule.verdict != how:
            continue
        moves = {"grew": (1000.0, 2000.0), "fell": (2000.0, 1000.0), "kept": (5.0, 5.0)}
        measures = {one.measure.replace("*", "F"): moves[one.how] for one in rule.changes}
        made = [Measure(name=name, old=old, new=new, tool="t") for name, (old, new) in measures.items()]
        found, _ = bearings([rule.criterion], made, rule.notes)
        assert found[0].verdict == how, rule
        assert set(rule.by) <= set(found[0].by)


def test_measures_on_both_sides_of_a_criterion_are_silence() -> None:
    assert said({"performance": (1, 0)}) == {"RE": "agrees"}
    assert said({"performance": (1, 0)}, "run_time:slower") == {}


def test_the_same_program_outweighs_what_speaks_for_a_criterion() -> None:
    assert said({"companion_tests": (0, 1)}, SAME_PROGRAM)["FC"] == "disagrees"


def test_one_finding_for_another_is_no_veto() -> None:
    assert said({"security_sure": (0, 1), "security_gone": (0, 0)}) == {"SH": "disagrees"}
    assert said({"security_sure": (1, 2), "security_gone": (0, 1)}) == {}


def test_a_large_fix_of_clean_code_says_nothing_of_readability() -> None:
    assert (
        said({"complexity": (10, 14), "size_lines": (50, 70), "complexity_max": (3, 5), "lint_F": (0, 0)})
        == {}
    )


def test_a_version_that_is_no_program_is_vetoed() -> None:
    assert bearings([], [], [BROKEN])[1] == BROKEN
    assert bearings([], [], [SAME_PROGRAM])[1] is None


def test_a_share_is_of_the_old_value() -> None:
    rule = Change("a", "grew", 5, 0.5)
    assert (rule.least, rule.share) == (5, 0.5)
    assert said({"complexity": (400, 410), "size_lines": (5, 30), "complexity_max": (3, 9)}) == {}


def test_criteria_in_force_are_those_that_are_told() -> None:
    assert len(bearings([one.code for one in CRITERIA], [], [])[0]) == len(CRITERIA)
