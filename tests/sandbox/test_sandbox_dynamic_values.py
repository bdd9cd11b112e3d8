"""Values of JavaScript, Ruby and PHP: what has a counterpart crosses over and back; nothing can lie."""

import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from dynamic import IDENTITY, LANGS, calls, refused, values
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sandbox import Sandbox, equal


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


def whole(text: str) -> bool:
    """No character is spelled as two surrogates, which UTF-16 cannot tell from the character."""
    return text == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def not_text(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return True
    return False


def stays_float(number: float) -> bool:
    """JavaScript has one type for numbers; an integral one within 2**53 is an int."""
    negative_zero = number == 0 and math.copysign(1, number) < 0
    return negative_zero or not number.is_integer() or abs(number) > 2**53 - 1


surrogates = st.text(st.characters(exclude_categories=()), max_size=40).filter(whole)
names = st.sampled_from(["__proto__", "constructor", "toString", "0", "7", "-1", "length", "é", "\ud800"])
wide = st.integers() | st.builds(
    lambda bits, sign: sign << bits, st.integers(0, 300), st.sampled_from([1, -1])
)


def built(leaves: Any, hashables: Any, keys: Any) -> Any:
    return st.recursive(
        leaves | st.sets(hashables, max_size=4),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(keys, inner, max_size=4)
            | st.dictionaries(hashables, inner, max_size=4)
        ),
        max_leaves=12,
    )


def nested(leaves: Any) -> Any:
    """Values that Python can hash, tuples and frozensets of them too.

    NaN is left out, which may be in a set twice in Python alone, and -0.0, which JavaScript makes 0 there.
    """
    return st.recursive(
        leaves.filter(lambda leaf: leaf == leaf and str(leaf) != "-0.0"),
        lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
        max_leaves=5,
    )


def php_dict(found: dict[Any, Any]) -> bool:
    """Neither a list to PHP, nor with a text for a key that is an integer there."""
    integral = any(isinstance(key, str) and re.fullmatch(r"0|-?[1-9][0-9]*", key) for key in found)
    return not integral and list(found) != list(range(len(found)))


plain = st.none() | st.booleans() | surrogates | names
javascript_leaves = plain | wide | st.floats().filter(stays_float)
# In Ruby bytes that are ASCII equal the str, so they cannot both be keys.
ruby_leaves = plain | wide | st.floats()
int64 = st.integers(-(2**63), 2**63 - 1)
php_leaves = plain | int64 | st.floats() | st.binary().filter(not_text)
VALUES = {
    "javascript": built(
        javascript_leaves | st.binary(), nested(javascript_leaves | st.binary()), surrogates | names
    ),
    "ruby": built(
        ruby_leaves | st.binary() | st.complex_numbers() | st.fractions(),
        nested(ruby_leaves | st.binary().filter(not_text)),
        surrogates | names,
    ),
    "php": st.recursive(
        php_leaves,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(int64 | surrogates | st.binary().filter(not_text), inner, max_size=4).filter(
                php_dict
            )
        ),
        max_leaves=12,
    ),
}


@pytest.mark.parametrize("lang", ["javascript", "ruby", "php"])
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # Each example is a process; the values that differ are shown as they are.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(data=st.data())
def test_values_with_a_counterpart_cross_over_and_back_unchanged(box: Sandbox, lang: str, data: Any) -> None:
    sent = data.draw(st.lists(VALUES[lang], min_size=20, max_size=60))
    for value, back in zip(sent, values(box, lang, IDENTITY[lang], *sent), strict=True):
        assert equal(value, back), (value, back)


@pytest.mark.parametrize("lang", LANGS)
def test_integers_at_every_edge_keep_their_value(box: Sandbox, lang: str) -> None:
    edges = {sign * (1 << bits) + step for bits in range(64) for sign in (1, -1) for step in (-1, 0, 1)}
    edges = {edge for edge in edges if -(2**63) <= edge < 2**63}
    if lang != "php":
        edges |= {
            sign * (1 << bits) + step
            for bits in (64, 127, 128, 1000)
            for sign in (1, -1)
            for step in (-1, 0, 1)
        }
    sent = sorted(edges)
    assert values(box, lang, IDENTITY[lang], sent)[0] == sent


def test_javascript_takes_tuples_ranges_and_dicts_for_what_they_are_there(box: Sandbox) -> None:
    source = """
    function f(x) {
      return [Array.isArray(x), x instanceof Map, x instanceof Set, x instanceof Uint8Array, typeof x]
    }"""
    kinds = values(
        box, "javascript", source, (1, 2), range(3), {1: 2}, {"a": 1}, frozenset({1}), b"x", 2**53, 2**53 - 1
    )
    assert [kind.index(True) if True in kind else kind[4] for kind in kinds] == [
        *(0, 0, 1, "object", 2, 3, "bigint", "number")
    ]


def test_keys_that_are_one_in_python_are_refused(box: Sandbox) -> None:
    source = """
    const all = [new Map([[1, 0], [true, 0]]), new Set([null, undefined]), new Set([1, 1n])]
    function f(x) { return all[x] }"""
    assert all(map(refused, calls(box, "javascript", source, 0, 1, 2).outputs))
    source = "require 'set'\ndef f(x) = [{ 1 => 0, 1.0 => 0 }, { a: 0, 'a' => 0 }, Set[0, false]][x]"
    assert all(map(refused, calls(box, "ruby", source, 0, 1, 2).outputs))
    assert values(box, "php", IDENTITY["php"], {1: 0, "1": 0})[0].type == "ArgumentError"


def test_no_code_of_a_javascript_value_runs_to_encode_it(box: Sandbox) -> None:
    source = """
    const die = () => process.exit(0)
    class Five extends Number { valueOf() { die() } toJSON() { die() } [Symbol.toPrimitive]() { die() } }
    class List extends Array {}
    const traps = new Proxy({}, { get: () => die })
    const accessor = [1]
    Object.defineProperty(accessor, 0, { get: die })
    const inherited = Object.assign(Object.create({ get a() { die() } }), { b: 1 })
    const all = [
      new Five(5), [[new Five(5)]], new List(1), new Proxy([1], traps), new Proxy(() => 1, traps), accessor,
      { get a() { die() } }, inherited, { toJSON: die }, Object.setPrototypeOf([5], null), Symbol('a'), /a/,
      new Date(0), new Int32Array(2), (function () { return arguments })(1), (function* () { yield 1 })(),
      { then: die }, { [Symbol('a')]: 1 }, new Map([[{}, 1]]), new Set([new Map()]), globalThis,
    ]
    function f(index) { return index < 0 ? all.length : all[index] }"""
    count = values(box, "javascript", source, -1)[0]
    result = calls(box, "javascript", source, *range(count))
    assert result.exit_code == 0
    assert [index for index, output in enumerate(result.outputs) if not refused(output)] == []
    assert len(result.outputs) == count


def test_no_code_of_a_ruby_value_runs_to_encode_it(box: Sandbox) -> None:
    source = """
    class Text < String; def to_s = exit!(0); def to_str = exit!(0); def ==(_) = true; end
    class List < Array; def to_a = exit!(0); def each = exit!(0); end
    class Bare < BasicObject; def method_missing(*) = ::Kernel.exit!(0); end
    class Five; def to_i = exit!(0); def to_int = exit!(0); def class = Integer; def coerce(_) = exit!(0); end
    ALL = [Text.new("a"), List.new([1]), Bare.new, Five.new, [[Five.new]], { 1 => Five.new },
           { Five.new => 1 }, Struct.new(:a).new(1), 1..2, -> { 1 }, Object.new, Time.at(0),
           { { 1 => 2 } => 3 }, [1].each, Comparable, Class]
    def f(index) = index < 0 ? ALL.length : ALL[index]"""
    count = values(box, "ruby", source, -1)[0]
    result = calls(box, "ruby", source, *range(count))
    assert result.exit_code == 0
    assert [index for index, output in enumerate(result.outputs) if not refused(output)] == []
    assert len(result.outputs) == count


def test_a_method_of_one_ruby_object_changes_nothing_of_what_it_is(box: Sandbox) -> None:
    source = """
    def f(kind)
      list = [1, 2]
      text = +"real"
      table = { "a" => 1 }
      [list, text, table].each do |value|
        def value.length = 99
        def value.at(_) = "lie"
        def value.to_a = ["lie"]
        def value.encoding = nil
        def value.class = NilClass
        def value.to_s = "lie"
      end
      [list, text, table][kind]
    end"""
    assert values(box, "ruby", source, 0, 1, 2) == [[1, 2], "real", {"a": 1}]


def test_no_code_of_a_php_value_runs_to_encode_it(box: Sandbox) -> None:
    source = """
    class Trap implements ArrayAccess, Countable, IteratorAggregate, JsonSerializable {
      public $a = 5;
      function __get($n) { exit(0); }
      function __toString(): string { exit(0); }
      function __serialize(): array { exit(0); }
      function offsetExists($o): bool { exit(0); }
      function offsetGet($o): mixed { exit(0); }
      function offsetSet($o, $v): void { exit(0); }
      function offsetUnset($o): void { exit(0); }
      function getIterator(): Iterator { exit(0); }
      function jsonSerialize(): mixed { exit(0); }
      function count(): int { exit(0); }
    }
    class Plain extends stdClass {}
    enum Suit { case Hearts; }
    function all() {
      return [new Trap, [[new Trap]], new Plain, fn() => 1, STDIN, new ArrayObject([1]), Suit::Hearts,
              (function () { yield 1; })(), new class {}, new DateTime('@0')];
    }
    function f($index) { return $index < 0 ? count(all()) : all()[$index]; }"""
    count = values(box, "php", source, -1)[0]
    result = calls(box, "php", source, *range(count))
    assert result.exit_code == 0
    assert [index for index, output in enumerate(result.outputs) if not refused(output)] == []
    assert len(result.outputs) == count


def test_what_php_makes_of_keys_and_texts_is_what_comes_back(box: Sandbox) -> None:
    sent = ({"1": 2}, {}, b"text", b"\xff", {1, 2}, (1, (2,)), {0: "a", 1: "b"}, {1: "a", 0: "b"})
    back = [{1: 2}, [], "text", b"\xff", [1, 2], [1, [2]], ["a", "b"], {1: "a", 0: "b"}]
    assert values(box, "php", IDENTITY["php"], *sent) == back
    source = "function f($x) { $o = new stdClass; if ($x) { $o->{'5'} = [$x]; } return $o; }"
    assert values(box, "php", source, 0, 1) == [{}, {"5": [1]}]


def test_ruby_strings_go_by_their_encoding(box: Sandbox) -> None:
    source = r"""
    def f(index)
      ["h\u00e9".encode("UTF-16LE"), "h\u00e9".encode("ISO-8859-1"), "\xff", "\xff".b, "a".b, 65.chr, :sym,
       "\xED\xA0\x80"][index]
    end"""
    expected = ["hé", "hé", b"\xff", b"\xff", b"a", "A", "sym", "\ud800"]
    assert values(box, "ruby", source, *range(8)) == expected


@pytest.mark.parametrize("lang", LANGS)
def test_only_a_class_of_the_language_bears_its_name(box: Sandbox, lang: str) -> None:
    source = {
        "ruby": "Object.send(:remove_const, :TypeError)\nclass TypeError < StandardError; end\n"
        "def f(x) = raise(TypeError, 'mine')",
        "php": "class ArgumentError extends Exception {}\n"
        "function f($x) { throw new ArgumentError('mine'); }",
    }.get(lang, "class E extends Error { name = 'TypeError' }\nfunction f(x) { throw new E('mine') }")
    assert values(box, lang, source, 1)[0].type in ("own.TypeError", "own.ArgumentError")
