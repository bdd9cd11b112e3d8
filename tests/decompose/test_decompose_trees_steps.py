"""What is a step in each language, what it is called, what is said of it and what it calls."""

from __future__ import annotations

import textwrap

import pytest

from decompose.functions import counterparts, functions, source_of
from decompose.grammars import SourceError
from decompose.source import read

# Language, program, and for each step its name, kind and calls.
STEPS = {
    "js functions, arrows and generators": (
        "JavaScript",
        """
        export function a(x) { return b(x); }
        const b = async (x) => x, c = function* () { yield a(1); };
        let local = 3;
        export default () => [1].map(b);
        """,
        [("a", "function", "b"), ("b", "function", ""), ("c", "function", "a"), ("default", "function", "b")],
    ),
    "js classes": (
        "JavaScript",
        """
        class A extends B {
          constructor() { super(); this.#p(); }
          #p() { A.make(); super.q(); }
          static make() { return new A(); }
          get size() { return 1; }
          set size(v) { }
          on = () => { this.off(); };
        }
        class B { constructor() {} q() {} off() {} }
        """,
        [
            ("A.constructor", "constructor", "B.constructor A.#p"),
            ("A.#p", "method", "A.make B.q"),
            ("A.make", "method", "A.constructor"),
            ("A.size(get)", "property", ""),
            ("A.size(set)", "property", ""),
            ("A.on", "method", "B.off"),
            ("B.constructor", "constructor", ""),
            ("B.q", "method", ""),
            ("B.off", "method", ""),
        ],
    ),
    "js objects, prototypes and exports": (
        "JavaScript",
        """
        const tools = { add(a) { return this.less(a); }, less: (a) => a - 1 };
        function Stack() { this.xs = []; }
        Stack.prototype.push = function (x) { tools.add(x); this.pop(); };
        Stack.prototype.pop = function () { return new Stack(); };
        module.exports = { run: () => 1 };
        exports.go = function () {};
        """,
        [
            ("tools.add", "method", "tools.less"),
            ("tools.less", "method", ""),
            ("Stack", "function", ""),
            ("Stack.prototype.push", "method", "tools.add Stack.prototype.pop"),
            ("Stack.prototype.pop", "method", ""),
            ("module.exports.run", "method", ""),
            ("exports.go", "method", ""),
        ],
    ),
    "js: the last of two, none below a condition or inside another": (
        "JavaScript",
        """
        function f() { return 1; }
        function f() { function inner() {} return inner(); }
        if (x) { function g() {} }
        on('end', function h() { f(); });
        """,
        [("f", "function", "")],
    ),
    "ts": (
        "TypeScript",
        """
        namespace N { export function f(a: string): void { g(); } function g() { } }
        function over(a: string): void;
        function over(a: number): void;
        function over(a: any) { N.f(a); }
        export abstract class A<T> {
          constructor(private x: T) { }
          abstract later(): void;
          @log() protected get y(): T { return this.x; }
        }
        interface I { m(): void }
        declare function d(): void;
        """,
        [
            ("N.f", "function", "N.g"),
            ("N.g", "function", ""),
            ("over", "function", "N.f"),
            ("A.constructor", "constructor", ""),
            ("A.y", "property", ""),
        ],
    ),
    "java": (
        "Java",
        """
        public class Main {
            Main() { this(1); }
            Main(int x) { super(); helper(x); }
            static int helper(int helper) { return helper(helper, 1); }
            static int helper(int a, int... b) { new Inner().go(); return 1; }
            static class Inner { void go() { xs.forEach(Main::helper); } }
            interface Shape { double area(); default void show() { area(); } }
            enum Op { ADD { int run() { return one(); } }; int one() { return 1; } }
            record P(int a) { P { check(); } void check() {} }
            static { helper(1); }
        }
        """,
        [
            ("Main.Main()", "constructor", "Main.Main(int)"),
            ("Main.Main(int)", "constructor", "Main.helper(int)"),
            ("Main.helper(int)", "method", "Main.helper(int,int...)"),
            ("Main.helper(int,int...)", "method", ""),
            ("Main.Inner.go", "method", "Main.helper(int) Main.helper(int,int...)"),
            ("Main.Shape.show", "method", ""),
            ("Main.Op.ADD.run", "method", "Main.Op.one"),
            ("Main.Op.one", "method", ""),
            ("Main.P.P", "constructor", "Main.P.check"),
            ("Main.P.check", "method", ""),
        ],
    ),
    "go": (
        "Go",
        """
        package main
        type S[T any] struct{ n T }
        func (s *S[T]) Push(x T) { s.Pop() }
        func (s S[T]) Pop() { helper(helper) }
        func helper(f func(int) int) int { helper := 1; return f(helper) }
        func outside(x int) int
        var lambda = func() {}
        """,
        [("S.Push", "method", "S.Pop"), ("S.Pop", "method", "helper"), ("helper", "function", "")],
    ),
    "c": (
        "C",
        """
        #ifndef H
        #define H
        int later(int);
        static int *first(int *a) { qsort(a, 1, 4, compare); return later; }
        int compare(const void *a, const void *b) { int first = 1; return later(first); }
        int later(int x) { return x; }
        #ifdef DEBUG
        int traced(void) { return 1; }
        #endif
        #endif
        """,
        [("first", "function", "compare"), ("compare", "function", "later"), ("later", "function", "")],
    ),
    "c++": (
        "C++",
        """
        namespace geo {
        struct Base { Base(int z) {} virtual ~Base() {} virtual void draw() = 0; void log() {} };
        class Sq : public Base {
        public:
            Sq(int n) : Base(n) { grow(); }
            Sq() = default;
            void grow();
            bool operator<(const Sq& o) const { return this->area() < o.area(); }
            operator bool() const { log(); return true; }
            int area() const { return 1; }
        };
        void Sq::grow() { Sq other(1); add(1); }
        }
        template <typename T> T add(T a) { return add(a, a); }
        int add(int a, int b = 2) { return geo::Sq(1).area(); }
        extern "C" { int plain() { return 1; } }
        """,
        [
            ("geo::Base::Base", "constructor", ""),
            ("geo::Base::~Base", "method", ""),
            ("geo::Base::log", "method", ""),
            ("geo::Sq::Sq", "constructor", "geo::Base::Base geo::Sq::grow"),
            ("geo::Sq::operator<", "method", "geo::Sq::area"),
            ("geo::Sq::operator bool", "method", "geo::Base::log"),
            ("geo::Sq::area", "method", ""),
            ("geo::Sq::grow", "method", "geo::Sq::Sq add(T)"),
            ("add(T)", "function", "add(int,int)"),
            ("add(int,int)", "function", "geo::Sq::Sq"),
            ("plain", "function", ""),
        ],
    ),
    "c#": (
        "C#",
        """
        namespace Geo {
            class Base { protected Base(int z) { } protected int Side() => 1; }
            class Sq : Base {
                public Sq(int n) : base(n) { }
                public int Area { get { return Side(); } set { } }
                public int Auto { get; set; } = 3;
                public int Twice => 2;
                public int this[int i] { get { return i; } }
                public static Sq operator +(Sq a, Sq b) { return new Sq(1); }
                public static implicit operator int(Sq s) => s.Add(1);
                int Add(int a) => this.Add(ref a, 1);
                int Add(ref int a, params int[] b) { int Local() { return 1; } return xs.Select(Add); }
                abstract void Later();
            }
        }
        """,
        [
            ("Geo.Base.Base", "constructor", ""),
            ("Geo.Base.Side", "method", ""),
            ("Geo.Sq.Sq", "constructor", "Geo.Base.Base"),
            ("Geo.Sq.Area", "property", "Geo.Base.Side"),
            ("Geo.Sq.Twice", "property", ""),
            ("Geo.Sq.this", "property", ""),
            ("Geo.Sq.operator+", "method", "Geo.Sq.Sq"),
            ("Geo.Sq.operator int", "method", ""),
            ("Geo.Sq.Add(int)", "method", "Geo.Sq.Add(ref int,int[]...)"),
            ("Geo.Sq.Add(ref int,int[]...)", "method", "Geo.Sq.Add(int) Geo.Sq.Add(ref int,int[]...)"),
        ],
    ),
    "c# top-level functions": (
        "C#",
        "int x = Twice(1);\nstatic int Twice(int a) { return a * 2; }\n",
        [("Twice", "function", "")],
    ),
    "ruby": (
        "Ruby",
        """
        module Geo
          class Base
            def draw; end
          end
          class Sq < Base
            def initialize(n) = @n = n
            def draw
              super
              area
              self.n = 1
            end
            def n=(v); @n = v; end
            private def area; Sq.unit; end
            def self.unit = Sq.new(1)
            class << self
              def other; unit; end
            end
          end
          P = Struct.new(:x) do
            def twice; x * 2; end
          end
          def draw(x)
            area = 1
            [1].map(&method(:draw)) { area }
          end
        end
        def main; Geo::Sq.unit; end
        if x
          def never; end
        end
        """,
        [
            ("Geo.Base.draw", "method", ""),
            ("Geo.Sq.initialize", "constructor", ""),
            ("Geo.Sq.draw", "method", "Geo.Base.draw Geo.Sq.area"),
            ("Geo.Sq.n=", "method", ""),
            ("Geo.Sq.area", "method", "Geo.Sq.self.unit"),
            ("Geo.Sq.self.unit", "method", "Geo.Sq.initialize"),
            ("Geo.Sq.self.other", "method", "Geo.Sq.self.unit"),
            ("Geo.P.twice", "method", ""),
            ("Geo.draw", "method", "Geo.draw"),
            ("main", "function", "Geo.Sq.self.unit"),
        ],
    ),
    "rust": (
        "Rust",
        """
        struct S;
        impl S {
            pub fn new() -> Self { Self::zero(); S }
            fn zero() { free(1); }
        }
        impl fmt::Display for S { fn fmt(&self) { self.grow(); println!("{}", free(2)); } }
        impl fmt::Debug for S { fn fmt(&self) { S::new(); } }
        impl S { fn grow(&self) { [1].iter().map(free).map(|free| free(3)); } }
        trait T { fn later(&self); fn now(&self) { self.later() } }
        mod inner { pub fn deep() { super::free(1) } fn near() { deep() } }
        #[cfg(test)]
        mod tests { #[test] fn never() {} }
        async unsafe fn free(x: i32) { inner::deep() }
        """,
        [
            ("S::new", "method", "S::zero"),
            ("S::zero", "method", "free"),
            ("S::fmt(fmt::Display)", "method", "S::grow free"),
            ("S::fmt(fmt::Debug)", "method", "S::new"),
            ("S::grow", "method", ""),
            ("T::now", "method", ""),
            ("inner::deep", "function", "free"),
            ("inner::near", "function", "inner::deep"),
            ("free", "function", "inner::deep"),
        ],
    ),
    "php": (
        "PHP",
        """
        <?php
        namespace Geo;
        abstract class Base {
            public function __construct() { }
            abstract function area();
            function log() { }
        }
        class Sq extends Base {
            public function __construct(private int $n) { parent::__construct(); $this->area(); }
            public function area() { $this->log(); return helper($this->n); }
            public static function make() { return new Sq(1) ?? self::make() ?? static::other(); }
            static function other() { return array_map('helper', []); }
        }
        function helper($x) { return Sq::make(); }
        $lambda = function () { };
        if (!function_exists('never')) { function never() { } }
        """,
        [
            ("Base.__construct", "constructor", ""),
            ("Base.log", "method", ""),
            ("Sq.__construct", "constructor", "Base.__construct Sq.area"),
            ("Sq.area", "method", "Base.log helper"),
            ("Sq.make", "method", "Sq.__construct Sq.make Sq.other"),
            ("Sq.other", "method", "helper"),
            ("helper", "function", "Sq.make"),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STEPS)
def test_steps_are_named_and_call_each_other(case: str) -> None:
    language, text, expected = STEPS[case]
    code = textwrap.dedent(text).lstrip("\n")
    found = [(span.name, span.kind, " ".join(span.calls)) for span in functions(code, language)]
    assert found == expected


@pytest.mark.parametrize(
    ("language", "code", "signature", "docstring"),
    [
        ("JavaScript", "/**\n * Adds.\n *\n * @param x what\n */\nexport const f = async (x) => x;\n",
         "export const f = async (x) =>", "Adds.\n\n@param x what"),
        ("JavaScript", "// One.\n// Two.\nfunction f() {}\n", "function f()", "One.\nTwo."),
        ("JavaScript", "/* licence */\n// One.\nfunction f() {}\n", "function f()", "One."),
        ("JavaScript", "// apart\n\nfunction f() {}\n", "function f()", None),
        ("JavaScript", "let x = 1; // of x\nfunction f() {}\n", "function f()", None),
        ("JavaScript", "#!/usr/bin/env node\nfunction f() {}\n", "function f()", None),
        ("TypeScript", "/** Doc. */\nexport default function f<T>(x: T): x is T { return true; }\n",
         "export default function f<T>(x: T): x is T", "Doc."),
        ("Java", "class A {\n  /** Doc. */\n  @A @X(1)\n  public int f(int a) throws E { return 1; }\n}\n",
         "public int f(int a) throws E", "Doc."),
        ("Go", "package m\n\n// f adds.\n//go:noinline\nfunc f(a, b int) (c int) { return }\n",
         "func f(a, b int) (c int)", "f adds."),
        ("C", "/* Doc. */\nstatic int\nf(int a)\n{\n}\n", "static int\nf(int a)", "Doc."),
        ("C++", "/// Doc.\ntemplate <typename T>\n[[nodiscard]] T f(T a) noexcept { return a; }\n",
         "template <typename T>\n[[nodiscard]] T f(T a) noexcept", "Doc."),
        ("C#", "class A {\n  /// <summary>Doc.</summary>\n  [Pure]\n  public int F(int a) => a;\n}\n",
         "public int F(int a)", "<summary>Doc.</summary>"),
        ("Ruby", "# frozen_string_literal: true\n# Doc.\n# More.\ndef f(a, b: 1) # note\n  a\nend\n",
         "def f(a, b: 1)", "Doc.\nMore."),
        ("Ruby", "class A\n  # Doc.\n  def f = 1\nend\n", "def f", "Doc."),
        ("Rust", "/// Doc.\n#[inline]\n#[must_use]\npub fn f<T>(a: T) -> T where T: Copy { a }\n",
         "pub fn f<T>(a: T) -> T where T: Copy", "Doc."),
        ("PHP", "<?php\n/**\n * Doc.\n */\n#[Pure]\nfunction &f(int ...$a): int { return 1; }\n",
         "function &f(int ...$a): int", "Doc."),
    ],
)  # fmt: skip
def test_signature_is_as_written_and_the_comment_above_is_the_docstring(
    language: str, code: str, signature: str, docstring: str | None
) -> None:
    (span,) = functions(code, language)
    assert (span.signature, span.docstring) == (signature, docstring)
    start = code.encode()[: span.start_byte].decode()
    assert docstring is None or docstring.partition("\n")[0] not in start


def test_attributes_and_the_comment_above_lie_in_the_span() -> None:
    code = "mod m {\n    // apart\n\n    /// Doc.\n    #[inline]\n    fn f() {}\n}\n"
    (span,) = functions(code, "Rust")
    assert source_of(code, span) == "/// Doc.\n    #[inline]\n    fn f() {}"


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("JavaScript", "function f( {"), ("TypeScript", "function f(a: {"), ("Java", "class A { int f( { }"),
        ("Go", "package m\nfunc f( {"), ("C", "int f(void) { return"), ("C++", "int f() { return ("),
        ("C#", "class A { int F( { }"),
        ("Ruby", "def f("), ("Rust", "fn f( {"), ("PHP", "<?php function f( {"),
    ],
)  # fmt: skip
def test_a_syntax_error_is_told_with_its_line(language: str, code: str) -> None:
    with pytest.raises(SourceError, match=r"^line \d+: "):
        functions("\n" + code if language != "PHP" else code, language)


def test_a_function_is_found_again_when_only_one_program_has_overloads() -> None:
    one = "class A { int f(int a) { return a; } int g() { return 1; } }"
    two = 'class A { int f(String s) { return 0; } int f(int a) { return f(""); } }'
    assert {name: span.name for name, span in counterparts(one, two, "Java").items()} == {"A.f": "A.f(int)"}
    assert {name: span.name for name, span in counterparts(two, one, "Java").items()} == {"A.f(int)": "A.f"}


def test_depth_of_a_function_counts_its_own_nodes() -> None:
    (span,) = functions("class A { int f() { return 1; } }", "Java")
    # method_declaration, block, return_statement, number
    assert span.depth == 4


def test_overloads_with_the_same_parameters_are_counted() -> None:
    code = "struct A { int at(int i) { return 1; } int at(int i) const { return 1; } };\n"
    code += "template <> int f<int>() { return 1; }\n"
    assert [one.span.name for one in read(code, "C++").steps] == ["A::at(int)", "A::at(int) const", "f<int>"]
    code = "package m\nfunc init() {}\nfunc init() {}\n"
    assert [span.name for span in functions(code, "Go")] == ["init", "init#2"]
