"""What JavaScript, TypeScript, Ruby and PHP have in common as languages of the sandbox."""

import datetime
import decimal
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from dynamic import IDENTITY, LANGS, calls, need, refused, script, values

from sandbox import Call, ErrorRecord, Job, Limits, Sandbox, languages
from sandbox.languages.base import ToolchainMissing
from sandbox.names import script_file


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


# -- what all four have in common


@pytest.mark.parametrize("lang", LANGS)
def test_a_function_answers_call_by_call(box: Sandbox, lang: str) -> None:
    source = {
        "javascript": "function f(a, b) {\n"
        "  if (b === 0) throw new RangeError('none')\n  return Math.floor(a / b)\n}",
        "typescript": "function f(a: number, b: number): number {\n"
        "  if (b === 0) throw new RangeError('none')\n  return Math.floor(a / b)\n}",
        "ruby": "def f(a, b)\n  raise RangeError, 'none' if b == 0\n  a / b\nend",
        "php": "function f(int $a, int $b) {\n"
        "  if ($b === 0) throw new RangeException('none');\n  return intdiv($a, $b);\n}",
    }[lang]
    outputs = values(box, lang, source, Call((7, 2)), Call((7, 0)), Call((9, 3)))
    assert outputs[::2] == [3, 3]
    assert outputs[1] == ErrorRecord("RangeException" if lang == "php" else "RangeError", "none")


@pytest.mark.parametrize("lang", LANGS)
def test_arguments_changed_in_one_call_are_fresh_in_the_next(box: Sandbox, lang: str) -> None:
    source = {
        "javascript": "function f(x) { x.push(1); return x }",
        "typescript": "function f(x: number[]) { x.push(1); return x }",
        "ruby": "def f(x) = x.push(1)",
        "php": "function f(array &$x) { $x[] = 1; return $x; }",
    }[lang]
    assert values(box, lang, source, [0], [0], [0]) == [[0, 1]] * 3


@pytest.mark.parametrize("lang", LANGS)
def test_what_the_program_prints_stays_apart_from_its_values(box: Sandbox, lang: str) -> None:
    source = {
        "javascript": "console.log('loading'); function f(x) { console.log('called'); return x }",
        "typescript": "console.log('loading'); function f(x: any) { console.log('called'); return x }",
        "ruby": "puts 'loading'\ndef f(x)\n  puts 'called'\n  x\nend",
        "php": 'echo "loading\\n"; function f($x) { echo "called\\n"; return $x; }',
    }[lang]
    result = calls(box, lang, source, 5)
    assert (result.status, result.outputs, result.stdout) == ("ok", [5], "loading\ncalled\n")


@pytest.mark.parametrize("lang", LANGS)
def test_a_text_that_does_not_parse_is_a_compile_error(box: Sandbox, lang: str) -> None:
    source = {
        "javascript": "function f(x) { return x + }",
        "typescript": "function f(x: number) { return x + }",
        "ruby": "def f(x)\n  x +\n",
        "php": "<?php\nfunction f($x) { return $x + ; }",
    }[lang]
    assert calls(box, lang, source, 1).status == "compile_error"


@pytest.mark.parametrize("lang", ["javascript", "typescript"])
@pytest.mark.parametrize(
    "source", ["if (true)", "const g = x =>", "function f(x) { return x }\n/*", "export default"]
)
def test_an_unfinished_text_is_not_finished_by_ours(box: Sandbox, lang: str, source: str) -> None:
    assert calls(box, lang, source, 1).status == "compile_error"


@pytest.mark.parametrize("lang", LANGS)
def test_an_error_while_loading_is_told_with_its_type(box: Sandbox, lang: str) -> None:
    source = {
        "javascript": "throw new TypeError('early')",
        "typescript": "throw new TypeError('early')",
        "ruby": "raise TypeError, 'early'",
        "php": "throw new TypeError('early');",
    }[lang]
    result = calls(box, lang, source, 1)
    assert (result.status, result.detail) == ("exception", "TypeError: early")


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("entry", ["missing", "builtin"])
def test_only_a_function_of_the_solution_will_do(box: Sandbox, lang: str, entry: str) -> None:
    builtin = {"javascript": "parseInt", "typescript": "parseInt", "ruby": "puts", "php": "strlen"}[lang]
    result = calls(box, lang, IDENTITY[lang], "1", entry=builtin if entry == "builtin" else "g")
    assert result.status == "exception"
    assert "no function" in result.detail or "no method" in result.detail


@pytest.mark.parametrize("lang", LANGS)
def test_a_program_that_leaves_in_a_call_has_not_answered(box: Sandbox, lang: str) -> None:
    source = {
        "javascript": "function f(x) { if (x) process.exit(0); return x }",
        "typescript": "function f(x: number) { if (x) process.exit(0); return x }",
        "ruby": "def f(x)\n  exit!(0) if x > 0\n  x\nend",
        "php": "function f($x) { if ($x) exit(0); return $x; }",
    }[lang]
    result = calls(box, lang, source, 0, 1, 0)
    assert (result.status, result.outputs, result.exit_code) == ("exit", [0], 0)


@pytest.mark.parametrize("lang", LANGS)
def test_a_program_that_leaves_while_loading_has_not_answered(box: Sandbox, lang: str) -> None:
    source = {"ruby": "exit 3", "php": "exit(3);"}.get(lang, "process.exit(3)")
    result = calls(box, lang, source, 1)
    assert result.status == "exit"
    assert "3" in result.detail


@pytest.mark.parametrize("lang", LANGS)
def test_a_value_without_an_encoding_spoils_its_own_call_only(box: Sandbox, lang: str) -> None:
    source = {
        "javascript": "function f(x) { return x ? x : [() => 1] }",
        "typescript": "function f(x: number) { return x ? x : [() => 1] }",
        "ruby": "def f(x) = x > 0 ? x : [-> { 1 }]",
        "php": "function f($x) { return $x ? $x : [fn() => 1]; }",
    }[lang]
    result = calls(box, lang, source, 1, 0, 2)
    assert result.status == "unserializable"
    assert result.outputs[::2] == [1, 2]
    assert refused(result.outputs[1])


@pytest.mark.parametrize("lang", LANGS)
def test_cycles_and_values_past_the_bounds_are_refused(box: Sandbox, lang: str) -> None:
    source = {
        "ruby": "def f(x)\n  a = []; a << a\n"
        "  [a, [0] * 1_000_001, 150.times.inject(0) { |v, _| [v] }, 'x' * 70_000_000, [0] * 1000][x]\nend",
        "php": "function f($x) { $a = [1]; $a[] = &$a; $d = 0; for ($i = 0; $i < 150; $i++) $d = [$d];\n"
        "return match ($x) { 0 => $a, 1 => array_fill(0, 1000001, 0), 2 => $d,\n"
        "3 => str_repeat('x', 70000000), 4 => array_fill(0, 1000, 0) }; }",
    }.get(
        lang,
        "function f(x) { const a = []; a.push(a); let d = 0; for (let i = 0; i < 150; i++) d = [d]\n"
        "return [() => a, () => Array(1000001).fill(0), () => d, () => 'x'.repeat(70000000),\n"
        "() => Array(1000).fill(0)][x]() }",
    )
    outputs = calls(box, lang, source, 0, 1, 2, 3, 4).outputs
    assert [refused(output) for output in outputs] == [True] * 4 + [False]
    assert outputs[4] == [0] * 1000


@pytest.mark.parametrize("lang", LANGS)
def test_an_argument_without_a_counterpart_is_an_error_of_its_call(box: Sandbox, lang: str) -> None:
    given_values = (decimal.Decimal("1.5"), [datetime.date(2020, 1, 1)], 7)
    outputs = values(box, lang, IDENTITY[lang], *given_values)
    assert [getattr(output, "type", output) for output in outputs] == ["ArgumentError", "ArgumentError", 7]


def test_keyword_arguments_go_where_the_language_has_them(box: Sandbox) -> None:
    call = Call((1,), {"b": 5})
    assert values(box, "ruby", "def f(a, b: 2) = [a, b]", call, 1) == [[1, 5], [1, 2]]
    assert values(box, "php", "function f($a, $b = 2) { return [$a, $b]; }", call, 1) == [[1, 5], [1, 2]]
    assert values(box, "php", "function f($a) { return $a; }", call)[0].type == "Error"
    assert (
        values(box, "javascript", "function f(a, b = 2) { return [a, b] }", call)[0].type == "ArgumentError"
    )


@pytest.mark.parametrize("lang", LANGS)
def test_a_script_has_input_arguments_and_other_files(box: Sandbox, lang: str) -> None:
    library = {
        "javascript": ("lib_js", "exports.twice = (x) => 2 * x"),
        "typescript": ("lib_ts", "export function twice(x: number): number { return 2 * x }"),
        "ruby": ("lib_rb", "def twice(x) = 2 * x"),
        "php": ("lib_php", "<?php function twice($x) { return 2 * $x; }"),
    }[lang]
    use = "const n = Number(fs.readFileSync(0, 'utf8')); console.log(twice(n), ...process.argv.slice(2))"
    source = {
        "javascript": f"const fs = require('fs'); const {{ twice }} = require('./lib'); {use}",
        "typescript": f"import * as fs from 'fs'; import {{ twice }} from './lib'; {use}",
        "ruby": "require_relative 'lib'\nputs [twice($stdin.read.to_i), *ARGV].join(' ')",
        "php": "require './lib.php';\n"
        "echo implode(' ', [twice((int) fgets(STDIN)), ...array_slice($argv, 1)]), \"\\n\";",
    }[lang]
    result = script(box, lang, source, stdin="21\n", argv=("a b", "-x"), **dict([library]))
    assert (result.status, result.stdout) == ("ok", "42 a b -x\n"), result.stderr


@pytest.mark.parametrize("lang", LANGS)
def test_a_script_that_fails_shows_where_on_standard_error(box: Sandbox, lang: str) -> None:
    source = {"ruby": "\nraise 'boom'", "php": "\nthrow new Exception('boom');"}.get(
        lang, "\nthrow new Error('boom')"
    )
    result = script(box, lang, source)
    assert result.status in ("exit", "exception")
    assert result.exit_code not in (0, None)
    assert "boom" in result.stderr
    if lang != "typescript":
        assert re.search(rf"{re.escape(script_file(lang))}(:| on line )2\b", result.stderr)


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("kind", ["calls", "script"])
def test_taking_too_much_memory_is_told_as_that(box: Sandbox, lang: str, kind: str) -> None:
    loop = {
        "ruby": "k = []; loop { k << [1, 2, 3] }",
        "php": "$k = []; while (true) $k[] = [1, rand()];",
    }.get(lang, "const k = []; for (;;) k.push({ a: [1, 2, 3] })")
    need(lang)
    limits = Limits(wall_s=120.0, cpu_s=120.0, memory_mb=64)
    if kind == "script":
        result = box.run(Job("script", {script_file(lang): loop}, lang=lang, limits=limits))
    else:
        inside = {"ruby": f"def f\n{loop}\nend", "php": f"function f() {{ {loop} }}"}
        result = calls(box, lang, inside.get(lang, f"function f() {{ {loop} }}"), Call(), limits=limits)
    assert result.status == "memory_limit"


@pytest.mark.parametrize("lang", LANGS)
def test_the_least_memory_is_enough_to_answer(box: Sandbox, lang: str) -> None:
    limits = Limits(wall_s=60.0, cpu_s=60.0, memory_mb=16, processes=1)
    assert values(box, lang, IDENTITY[lang], "x", limits=limits) == ["x"]


@pytest.mark.parametrize("lang", LANGS)
def test_endless_recursion_is_an_error_or_a_limit(box: Sandbox, lang: str) -> None:
    source = {"ruby": "def f(x) = f(x) + 1", "php": "function f($x) { return f($x) + 1; }"}.get(
        lang, "function f(x) { return f(x) + 1 }"
    )
    result = calls(box, lang, source, 1)
    if lang == "php":
        # Its stack is on the heap.
        assert result.status == "memory_limit"
    else:
        assert result.outputs[0].type == ("SystemStackError" if lang == "ruby" else "RangeError")


@pytest.mark.parametrize("lang", LANGS)
def test_bytes_forged_on_the_result_channel_never_pass(box: Sandbox, lang: str) -> None:
    source = {
        "javascript": "const fs = require('fs'); function f(x) { fs.writeSync(3, 'forged'); return x }",
        "typescript": "import fs from 'fs'; function f(x: number) { fs.writeSync(3, 'forged'); return x }",
        "ruby": "def f(x)\n  IO.for_fd(3, autoclose: false).syswrite('forged')\n  x\nend",
        "php": "function f($x) { fwrite(fopen('php://fd/3', 'w'), 'forged'); return $x; }",
    }[lang]
    assert calls(box, lang, source, 1).status == "unserializable"


@pytest.mark.parametrize("lang", LANGS)
def test_a_closed_result_channel_never_passes(box: Sandbox, lang: str) -> None:
    source = {
        "javascript": "const fs = require('fs'); function f(x) { fs.closeSync(3); return x }",
        "typescript": "import fs from 'fs'; function f(x: number) { fs.closeSync(3); return x }",
        "ruby": "def f(x)\n  IO.for_fd(3).close\n  x\nend",
        "php": "function f($x) { foreach (get_resources('stream') as $r) fclose($r); return $x; }",
    }[lang]
    assert calls(box, lang, source, 1).status == "unserializable"


@pytest.mark.parametrize(
    ("lang", "package"),
    [("javascript", "nodejs"), ("typescript", "esbuild"), ("ruby", "ruby"), ("php", "php-cli")],
)
def test_a_missing_toolchain_names_its_package(
    lang: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainMissing, match=f"apt-get install .*{package}"):
        languages.get(lang).find()
