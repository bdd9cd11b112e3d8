"""Ruby and PHP: where a function is found, what can be required, and what a solution may not spoil."""

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
        "def f(x) = x + 1",
        "def f(x)\n  x + 1\nend\nreturn\nraise 'unreached'",
        "def self.f(x) = x + 1",
        "define_singleton_method(:f) { |x| x + 1 }",
        "module Helpers\n  def f(x) = x + 1\nend\ninclude Helpers",
        "# frozen_string_literal: true\ndef f(x) = x + (''.frozen? ? 1 : 0)\n__END__\nnot ruby (",
        "\ufeffdef f(x) = x + 1",
        "def f(x) = x + 1\nraise 'not a script' if __FILE__ == $0",
        "private def f(x) = x + 1",
        # Names that the harness might have called by mistake.
        "def raise(*) = 0\ndef put(*) = 0\ndef array(*) = 0\ndef frame(*) = 0\ndef f(x) = x + 1",
    ],
)
def test_a_ruby_method_is_the_one_that_a_call_would_find(box: Sandbox, source: str) -> None:
    assert values(box, "ruby", source, 1) == [2]


def test_the_standard_library_and_bundled_gems_can_be_required(box: Sandbox) -> None:
    source = """
    require 'json'
    require 'set'
    require 'bigdecimal'
    require 'prime'
    require 'matrix'
    require 'time'
    def f(x)
      [JSON.generate([x]), Set[x, x].size, BigDecimal('0.1').to_s('F'), Prime.first(3), Matrix[[x]].det]
    end"""
    assert values(box, "ruby", source, 4) == [["[4]", 1, "0.1", [2, 3, 5], 4]]


def test_leaving_in_a_ruby_call_is_an_error_as_in_python(box: Sandbox) -> None:
    outputs = values(box, "ruby", "def f(x) = exit(x)", 0, 1)
    assert outputs == [ErrorRecord("SystemExit", "exit")] * 2


def test_calls_survive_a_solution_that_redefines_ruby(box: Sandbox) -> None:
    source = """
    class Integer; def ==(_) = true; def to_s(*) = "7"; def bit_length() = 0; def hash() = 1; end
    class Float; def nan?() = true; end
    class String
      def ==(_) = true
      def bytesize() = 0
      def <<(_) = self
      def encoding() = nil
      def b() = self
      def getbyte(_) = 65
      def byteslice(*) = ""
    end
    class Symbol; def to_s() = "lie"; end
    class Array
      def length() = 0
      def at(_) = "lie"
      def [](*) = "lie"
      def pack(*) = ""
      def push(*) = self
    end
    class Hash; def []=(*); end; def to_a() = []; def keys() = []; end
    class Object; def class() = String; def is_a?(_) = true; end
    class Exception; def to_s() = "lie"; def message() = "lie"; end
    class Module; def name() = "lie"; end
    class IO; def syswrite(_) = 0; def write(*) = 0; def flush() = raise("no"); end
    module Kernel; def exit(*) = nil; def exit!(*) = nil; def raise(*) = nil; def method(*) = nil; end
    module Process; def self.exit!(*) = nil; def self.pid() = 0; end
    class E < StandardError; end
    at_exit { STDOUT.puts "too late" }
    def f(x) = x.nil? ? Kernel.raise(E, "mine") : x"""
    sent = ["ab", [1, [2]], {1: {"a": 2}}, b"\xff", 1.5, 1 << 80, None, True]
    outputs = values(box, "ruby", source, *sent)
    assert outputs == [*sent[:6], ErrorRecord("E", "mine"), True]


def test_the_classes_that_calls_rest_on_cannot_be_changed(box: Sandbox) -> None:
    source = """
    REFUSED = [UnboundMethod, Method].count do |kind|
      kind.class_eval("def bind_call(*) = 5; def call(*) = 5")
      false
    rescue FrozenError
      true
    end
    def f(x) = REFUSED"""
    assert values(box, "ruby", source, 1) == [2]


def test_a_fork_that_comes_back_answers_nothing(box: Sandbox) -> None:
    source = "def f(x)\n  child = fork\n  return 'forged' unless child\n  Process.wait(child)\n  x\nend"
    assert values(box, "ruby", source, 1, 2) == [1, 2]
    source = "function f($x) { $c = pcntl_fork(); if (!$c) return 'forged'; pcntl_wait($s); return $x; }"
    assert values(box, "php", source, 1, 2) == [1, 2]


def test_what_ruby_holds_back_of_its_output_is_not_lost(box: Sandbox) -> None:
    result = calls(box, "ruby", "def f(x)\n  Thread.new { loop { } }\n  print 'kept'\n  x\nend", 1)
    assert (result.status, result.stdout) == ("ok", "kept")


def test_a_ruby_script_reads_its_data(box: Sandbox) -> None:
    result = script(box, "ruby", "print gets, DATA.read, __FILE__ == $0\n__END__\ndata\n", stdin="line\n")
    assert (result.status, result.stdout) == ("ok", "line\ndata\ntrue")


# -- PHP


@pytest.mark.parametrize(
    "source",
    [
        "function f($x) { return $x + 1; }",
        "<?php function f($x) { return $x + 1; }",
        "#!/usr/bin/env php\n<?php\nfunction F($x) { return $x + 1; }",
        "\ufeff<?php\ndeclare(strict_types=1);\nfunction f(int $x): int { return $x + 1; }",
        "<?php\nnamespace App\\Deep;\nfunction f($x) { return $x + 1; }",
        "<?php\nif (true) { function f($x) { return $x + 1; } }\n?>\n",
        "$one = 1;\nfunction f($x) { global $one; return $x + $one; }",
        "function f($x) { return strpos('a<?php', '<?php') + $x; }",
        "<?php\nnamespace SandboxHarness;\n"
        "function strlen($x) { return 0; }\nfunction pack(...$x) { return ''; }\n"
        "function f($x) { return $x + 1; }",
    ],
)
def test_a_php_function_is_found_with_and_without_a_tag_or_namespace(box: Sandbox, source: str) -> None:
    assert values(box, "php", source, 1) == [2]


def test_lines_of_a_php_file_without_a_tag_keep_their_numbers(box: Sandbox) -> None:
    result = calls(box, "php", "$x = 1;\nfunction f($x) { return 1 +; }", 1)
    assert result.status == "compile_error"
    assert "(line 2)" in result.detail


def test_a_function_declared_twice_is_a_compile_error_in_php(box: Sandbox) -> None:
    result = calls(box, "php", "function f($x) { return 1; }\nfunction f($x) { return 2; }", 1)
    assert result.status == "compile_error"
    assert "Cannot redeclare" in result.detail


def test_buffers_and_shutdown_functions_do_not_touch_php_values(box: Sandbox) -> None:
    source = """
    register_shutdown_function(function () { echo 'shut'; });
    set_error_handler(function () { throw new Exception('handled'); });
    ob_start(fn($text) => strtoupper($text));
    function f($x) { echo 'out'; return $x['a']; }"""
    result = calls(box, "php", source, {"a": 1}, {"b": 1})
    assert (result.status, result.stdout) == ("ok", "OUTOUTSHUT")
    assert result.outputs == [1, ErrorRecord("Exception", "handled")]


def test_warnings_of_php_go_to_standard_error_and_the_call_goes_on(box: Sandbox) -> None:
    result = calls(box, "php", "function f($x) { return $undefined; }", 1)
    assert (result.status, result.outputs, result.stdout) == ("ok", [None], "")
    assert "Undefined variable" in result.stderr


def test_a_limit_of_its_own_is_told_as_memory_too(box: Sandbox) -> None:
    source = "ini_set('memory_limit', '8M'); function f() { $k = []; while (true) $k[] = [1, rand()]; }"
    assert calls(box, "php", source, Call()).status == "memory_limit"


def test_php_functions_of_everyday_extensions_are_there(box: Sandbox) -> None:
    source = """
    function f($x) {
      return [ctype_digit('5'), preg_match('/[0-9]/', '5'), json_encode([$x]), hash('crc32', '')];
    }"""
    assert values(box, "php", source, 1) == [[True, 1, "[1]", "00000000"]]


def test_a_ruby_name_may_end_in_a_question_or_exclamation_mark(box: Sandbox) -> None:
    source = "def big?(x)\n  x > 2\nend\ndef grow!(x)\n  x + 1\nend\n"
    for entry, value in (("big?", True), ("grow!", 5)):
        result = calls(box, "ruby", source, 4, entry=entry)
        assert (result.status, result.outputs) == ("ok", [value])
