"""JavaScript and TypeScript: where a function is found, what is awaited, what a solution cannot spoil."""

from collections.abc import Iterator

import pytest
from dynamic import calls, script, values

from sandbox import Call, ErrorRecord, Sandbox


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.mark.parametrize(
    "source",
    [
        "function f(x) { return x + 1 }",
        "const f = (x) => x + 1",
        "let f; f = function (x) { return x + 1 }",
        "f = (x) => x + 1",
        "exports.f = (x) => x + 1",
        "module.exports = { f: (x) => x + 1 }",
        "module.exports = (x) => x + 1",
        "'use strict'\nmodule.exports.f = function (x) { return x + 1 }",
        "export function f(x) { return x + 1 }",
        "export const f = (x) => x + 1",
        "export default function (x) { return x + 1 }",
        "export default { f: (x) => x + 1 }",
        "import fs from 'fs'\nfunction f(x) { return x + 1 }",
        "const g = (x) => x + 1\nexport { g as f }",
        "const one = await Promise.resolve(1)\nexport function f(x) { return x + one }",
        "#!/usr/bin/env node\nfunction f(x) { return x + 1 }",
        "\ufefffunction f(x) { return x + 1 }",
        "function f(x) { return x + 1 } // no end of line",
        "class Map {}; class Symbol {}; const globalThis = 1; function f(x) { return x + 1 }",
        "function f(x) { return x + 1 }\nif (require.main === module) throw new Error('not a script')",
    ],
)
def test_a_function_is_found_where_solutions_put_it(box: Sandbox, source: str) -> None:
    assert values(box, "javascript", source, 1) == [2]


def test_an_export_comes_before_a_declaration_of_that_name(box: Sandbox) -> None:
    source = "function f(x) { return 'inner' }\nmodule.exports = { f: (x) => 'outer' }"
    assert values(box, "javascript", source, 1) == ["outer"]


def test_a_function_may_be_named_by_a_reserved_word(box: Sandbox) -> None:
    assert values(box, "javascript", "exports.delete = (x) => x", 1, entry="delete") == [1]


@pytest.mark.parametrize(
    ("source", "library"),
    [
        ("const { g } = require('./lib'); function f(x) { return g(x) }", "exports.g = (x) => x * 3"),
        (
            "import { g } from './lib.js'; export function f(x) { return g(x) }",
            "export const g = (x) => x * 3",
        ),
        (
            "import lib from './lib.js'; export const f = (x) => lib.g(x)",
            "module.exports = { g: (x) => x * 3 }",
        ),
        ("const f = async (x) => (await import('./lib.js')).g(x)", "export const g = (x) => x * 3"),
    ],
)
def test_other_files_are_reached_by_require_and_import(box: Sandbox, source: str, library: str) -> None:
    assert values(box, "javascript", source, 2, lib_js=library) == [6]


def test_package_json_decides_what_a_file_is(box: Sandbox) -> None:
    source = "function f(x) { return typeof require + x }"
    assert values(box, "javascript", source, 1) == ["function1"]
    package = {"package_json": '{"type": "module"}'}
    assert values(box, "javascript", source, 1, **package) == ["undefined1"]


def test_a_promise_is_awaited_and_its_rejection_is_the_error(box: Sandbox) -> None:
    source = """
    const wait = (ms) => new Promise((done) => setTimeout(done, ms))
    async function f(x) {
      await wait(2)
      if (x < 0) throw new RangeError('below')
      return x * 2
    }"""
    assert values(box, "javascript", source, 1, -1, 3) == [2, ErrorRecord("RangeError", "below"), 6]


def test_a_promise_that_never_settles_is_an_error_and_the_next_call_goes_on(box: Sandbox) -> None:
    source = "function f(x) { return x < 0 ? new Promise(() => {}) : x }"
    outputs = values(box, "javascript", source, -1, 1, -1, -1, 2)
    assert [getattr(one, "type", one) for one in outputs] == [
        *("PromiseNeverSettled", 1, "PromiseNeverSettled", "PromiseNeverSettled", 2)
    ]


def test_an_error_that_nobody_catches_ends_the_program_as_an_exception(box: Sandbox) -> None:
    source = (
        "function f(x) { setTimeout(() => { throw new TypeError('late') }, 1); return new Promise(() => {}) }"
    )
    result = calls(box, "javascript", source, 1)
    assert (result.status, result.detail) == ("exception", "TypeError: late")


def test_a_program_that_handles_uncaught_errors_itself_goes_on(box: Sandbox) -> None:
    source = """
    process.on('uncaughtException', () => {})
    function f(x) {
      setTimeout(() => { throw new Error('late') }, 1)
      return new Promise((done) => setTimeout(() => done(x), 50))
    }"""
    assert values(box, "javascript", source, 7) == [7]


def test_calls_survive_a_solution_that_replaces_all_it_can_reach(box: Sandbox) -> None:
    source = """
    const die = () => { throw new Error('replaced') }
    const fs = require('fs')
    for (const name of Object.keys(fs)) try { fs[name] = die } catch {}
    for (const name of Object.keys(process)) try { process[name] = die } catch {}
    for (const name of ['parse', 'stringify']) JSON[name] = die
    for (const kind of [Array, String, Number, BigInt, Map, Set, Promise, Function, RegExp, Date, Symbol,
                        Uint8Array, Object.getPrototypeOf(Uint8Array), TextDecoder, Buffer]) {
      for (const holder of [kind, kind.prototype]) {
        for (const name of Object.getOwnPropertyNames(holder)) {
          if (name !== 'constructor') try { holder[name] = die } catch {}
        }
      }
    }
    for (const name of Reflect.ownKeys(Reflect)) Reflect[name] = die
    Math.clz32 = die
    const define = Object.defineProperty
    for (const key of ['0', '1', 'a', 'enumerable', 'code', 'value']) {
      define(Object.prototype, key, { __proto__: null, configurable: true, get: die, set: die })
    }
    Object.setPrototypeOf(Array.prototype, null)
    for (const name of Object.getOwnPropertyNames(Object)) try { Object[name] = die } catch {}
    function f(x) { return x }
    """
    sent = [1, "é" * 40, [1, [2]], {"a": 1, "b": {"0": 2}}, {1, "x"}, {1: 2}, b"ab", 1 << 70, 1.5, None, True]
    assert values(box, "javascript", source, *sent) == sent


def test_a_solution_that_plays_the_event_loop_gains_no_answer(box: Sandbox) -> None:
    source = """
    process.emit('beforeExit')
    function f(x) { process.emit('beforeExit'); return x }"""
    assert values(box, "javascript", source, 1, 2) == [1, 2]


def test_a_stack_trace_shows_names_and_no_functions(box: Sandbox) -> None:
    source = """
    Error.prepareStackTrace = (_, sites) => sites.map((site) => [site.getFunction(), site.getThis()])
    function f(x) {
      return new Error().stack.slice(1).every(([made, self]) => made === undefined && self === undefined)
    }"""
    assert values(box, "javascript", source, 1) == [True]


def test_a_script_may_be_a_module(box: Sandbox) -> None:
    source = "import { readFileSync } from 'fs'\nconsole.log(await Promise.resolve(readFileSync(0, 'utf8')))"
    result = script(box, "javascript", source, stdin="in")
    assert (result.status, result.stdout, result.stderr) == ("ok", "in\n", "")


# -- TypeScript


@pytest.mark.parametrize(
    "source",
    [
        "function f(x: number): number { return x + 1 }",
        "export const f = (x: number): number => x + 1",
        "const f = <T extends number>(x: T): number => x + 1",
        "enum Step { One = 1 }\nexport default function f(x: number) { return x + Step.One }",
        "const one: number = await Promise.resolve(1)\nfunction f(x: number): number { return x + one }",
        "import { createRequire } from 'module'\nconst require = createRequire(import.meta.url)\n"
        "const { inspect } = require('util')\nfunction f(x: number) { return x + inspect(1).length }",
        "declare const require: any\nconst util = require('util')\n"
        "function f(x: number) { return x + util.inspect(1).length }",
        "class Counter { constructor(private n: number) {} next() { return ++this.n } }\n"
        "function f(x: number) { return new Counter(x).next() }",
        "interface Point { x: number }\nfunction f(x: number) { const p: Point = { x }; return p.x + 1 }",
        "function f(x: number): string { return x + 1 }",
    ],
)
def test_types_are_taken_off_and_not_checked(box: Sandbox, source: str) -> None:
    assert values(box, "typescript", source, 1) == [2]


@pytest.mark.parametrize("suffix", ["", ".ts", ".js"])
def test_local_files_are_bundled_however_they_are_named(box: Sandbox, suffix: str) -> None:
    source = f"import {{ g }} from './lib{suffix}'\nfunction helper(x: number) {{ return g(x) }}\n"
    library = "function f(x: number) { return x * 3 }\nexport const g = (x: number): number => f(x)"
    assert values(box, "typescript", source, 2, entry="helper", lib_ts=library) == [6]


def test_a_name_that_two_files_declare_means_the_solution_s(box: Sandbox) -> None:
    source = "import { g } from './lib'\nfunction f(x: number) { return ['mine', g()] }"
    library = "function f() { return 'theirs' }\nexport const g = () => f()"
    assert values(box, "typescript", source, 1, lib_ts=library) == [["mine", "theirs"]]


def test_a_typescript_script_knows_that_it_is_the_main_program(box: Sandbox) -> None:
    source = """
    declare const require: any, module: any
    function main(): void { console.log('ran', require('fs').readFileSync('data.txt', 'utf8')) }
    if (require.main === module) main()"""
    result = script(box, "typescript", source, data_txt="data")
    assert (result.status, result.stdout) == ("ok", "ran data\n"), result.stderr


def test_a_compile_error_says_where(box: Sandbox) -> None:
    result = calls(box, "typescript", "const ok = 1\nconst x: number = ;\n", Call())
    assert result.status == "compile_error"
    assert "solution.ts:2:18" in result.stderr
