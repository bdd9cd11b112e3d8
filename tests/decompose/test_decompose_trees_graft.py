"""A candidate's function in the reference's program, in languages other than Python: run to see."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from decompose.functions import functions
from decompose.graft import bound_names, graft
from decompose.grammars import SourceError

RUNS = {
    "JavaScript": ("p.js", "node p.js"),
    "TypeScript": ("p.ts", "tsc --target es2020 p.ts && node p.js"),
    "Java": ("Main.java", "javac Main.java && java -Xshare:auto -cp . Main"),
    "Go": ("p.go", "go run p.go"),
    "C": ("p.c", "gcc -std=c11 -Werror=implicit-function-declaration -o p p.c && ./p"),
    "C++": ("p.cpp", "g++ -std=c++17 -o p p.cpp && ./p"),
    "C#": ("p.cs", "mcs -out:p.exe p.cs && mono p.exe"),
    "Ruby": ("p.rb", "ruby p.rb"),
    "Rust": ("p.rs", "rustc -A warnings -o p p.rs && ./p"),
    "PHP": ("p.php", "php p.php"),
}

# Language -> the reference, the candidate, the function. The program prints `total(1, 2)`: 30 with
# the reference's `scale`, and 2 * 3 * (1 + 2) + UNIT * 2 = 38 with the candidate's.
CASES = {
    "JavaScript": (
        """
        'use strict';
        const UNIT = 10;
        /** Scales. */
        function scale(x) { return x * UNIT; }
        const total = (...xs) => xs.map((x) => scale(x)).reduce((a, b) => a + b, 0);
        console.log(total(1, 2));
        """,
        """
        const UNIT = 7, K = 3;
        const { basename, extname: ext } = require('path'), never = process.exit;
        class Deep { go(y) { return Number(basename(`/a/${y}`)) * K; } }
        const twice = (y) => 2 * new Deep().go(y);
        function scale(value) { const total = twice(value); return total + UNIT + ext('').length; }
        function total() { return -1; }
        process.exit(1);
        """,
        "scale",
    ),
    "TypeScript": (
        """
        const UNIT: number = 10;
        export const scale = (x: number): number => x * UNIT;
        export function total(...xs: number[]): number { return xs.map(scale).reduce((a, b) => a + b, 0); }
        console.log(total(1, 2));
        """,
        """
        const UNIT: number = 7, never = 1;
        interface Box { value: number }
        enum Factor { K = 3 }
        type Num = number;
        function twice(box: Box): Num { return 2 * Factor.K * box.value; }
        export const scale = (v: Num): Num => twice({ value: v } as Box) + UNIT;
        export function total(...xs: number[]): number { return -1; }
        """,
        "scale",
    ),
    "Java": (
        """
        public class Main {
            static final int UNIT = 10;
            /** Scales. */
            static int scale(int x) { return x * UNIT; }
            static int total(int a, int b) { return scale(a) + scale(b); }
            public static void main(String[] args) { System.out.println(total(1, 2)); }
        }
        """,
        """
        import java.util.*;
        import java.util.function.Function;
        class Pair { int a = 3; }
        public class Main {
            static final int UNIT = 7, K = 2;
            static Map<Integer, Integer> memo = new HashMap<>();
            static int times(int x) { Function<Integer, Integer> f = y -> y * K; return f.apply(x); }
            static int scale(int v) {
                int times = times(v);
                memo.put(1, 2);
                return times * new Pair().a + UNIT;
            }
            static int total(int a, int b) { return -1; }
            static int never() { return 1; }
        }
        """,
        "Main.scale",
    ),
    "Go": (
        """
        package main

        import (
            "fmt"
            "strings"
        )

        const UNIT = 10

        type Stack struct{ xs []int }

        // scale scales.
        func scale(x int) int { return len(strings.Repeat("a", x)) * UNIT }

        func total(a, b int) int { return scale(a) + scale(b) }

        func main() { fmt.Println(total(1, 2)) }
        """,
        """
        package main

        import (
            "fmt"
            "math"
            rnd "math/rand"
        )

        const UNIT = 7

        const (
            A = iota
            B
            C
        )

        var (
            three = 3
            never = rnd.Int()
        )

        type Stack struct{ xs []int }
        type Heap struct{ n int }

        func (h *Heap) Grow() int { h.n *= three; return h.n }
        func (s Stack) Twice(x int) int { return x * C }

        func scale(v int) int {
            h := &Heap{n: int(math.Abs(float64(v)))}
            return Stack{}.Twice(h.Grow()) + UNIT
        }

        func total(a, b int) int { return -1 }

        func main() { fmt.Println(1) }
        """,
        "scale",
    ),
    "C": (
        """
        #include <stdio.h>
        #define UNIT 10
        /* Scales. */
        int scale(int x) { return x * UNIT; }
        int three(void) { return 3; }
        int total(int a, int b) { return scale(a) + scale(b); }
        int main(void) { printf("%d\\n", total(1, 2)); return 0; }
        """,
        """
        #include <stdlib.h>
        #define UNIT 7
        #define TWICE(x) PLUS(x, x)
        #define PLUS(a, b) ((a) + (b))
        typedef struct node { int v; } node_t;
        enum { ONE = 1 };
        int never = 1, zero;
        static int helper(node_t n);
        int three(void);
        int scale(int v) { node_t n = { v }; return helper(n) + UNIT + zero; }
        static int helper(node_t n) { return TWICE(abs(n.v) * three()) * ONE; }
        int three(void) { return 9; }
        int total(int a, int b) { return -1; }
        """,
        "scale",
    ),
    "C++": (
        """
        #include <iostream>
        using namespace std;
        const int UNIT = 10;
        class Solution {
        public:
            /// Scales.
            int scale(int x) { return x * UNIT; }
            int total(int a, int b) { return scale(a) + scale(b); }
        };
        int three(int x = 3) { return x; }
        int main() { cout << Solution().total(1, 2) << endl; }
        """,
        """
        #include <map>
        #include <iostream>
        using std::map;
        const int UNIT = 7;
        template <typename T> T twice(T x) { return x + x; }
        struct Pair { int a; int get() { return a; } };
        int three(int x = 9);
        class Solution {
            map<int, int> memo;
            int helper(int x) { return twice(Pair{x}.get()) * three(3); }
        public:
            int scale(int v) { memo[v] = helper(v); return memo[v] + UNIT; }
            int total(int a, int b) { return -1; }
        };
        """,
        "Solution::scale",
    ),
    "C#": (
        """
        using System;
        class Program {
            const int UNIT = 10;
            static int Scale(int x) => x * UNIT;
            static int Total(int a, int b) { return Scale(a) + Scale(b); }
            static void Main() { Console.WriteLine(Total(1, 2)); }
        }
        """,
        """
        using System;
        using System.Linq;
        using Numbers = System.Collections.Generic.List<int>;
        static class Other { public static int Go(int x) { return x * 3; } }
        class Program {
            const int UNIT = 7;
            static readonly int K = 2, L = 5;
            static int Helper(int x) { return Other.Go(x) * K; }
            static int Scale(int v) { var xs = new Numbers { v }; return xs.Select(Helper).Sum() + UNIT; }
            static int Total(int a, int b) { return -1; }
        }
        """,
        "Program.Scale",
    ),
    "Ruby": (
        """
        # frozen_string_literal: true
        UNIT = 10
        class Solution
          # Scales.
          def scale(x)
            x * UNIT
          end

          def total(*xs) = xs.sum { |x| scale(x) }
        end
        puts Solution.new.total(1, 2)
        """,
        """
        require 'set'
        UNIT = 7
        THREE = 3
        def twice(x) = x * 2
        exit 1
        class Solution
          LIMIT = 1
          attr_reader :never
          def helper(x)
            twice(x) * THREE * LIMIT
          end

          def scale(v)
            helper = helper(v)
            Set.new([helper]).first + UNIT
          end

          def total(*) = -1
        end
        """,
        "Solution.scale",
    ),
    "Rust": (
        """
        use std::collections::HashMap;
        const UNIT: i32 = 10;
        struct Solution;
        impl Solution {
            /// Scales.
            fn scale(&self, x: i32) -> i32 { x * UNIT }
            fn total(&self, a: i32, b: i32) -> i32 { let _: HashMap<i32, i32>; self.scale(a) + self.scale(b) }
        }
        fn main() { println!("{}", Solution.total(1, 2)); }
        """,
        """
        use std::collections::{BTreeSet as Tree, HashMap};
        use std::fmt::{self, Display};
        const UNIT: i32 = 7;
        const K: i32 = 3;
        #[derive(Clone)]
        struct Pair { a: i32 }
        impl Pair { fn new(a: i32) -> Pair { Pair { a } } }
        impl Display for Pair {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result { write!(f, "{}", self.a) }
        }
        struct Solution;
        impl Solution {
            fn helper(&self, x: i32) -> i32 {
                let p = Pair::new(x).clone();
                p.to_string().parse::<i32>().unwrap() * K
            }
            fn scale(&self, v: i32) -> i32 {
                let mut s = Tree::new();
                s.insert(v);
                let _text = format!("{}", twice(1));
                twice(self.helper(*s.iter().next().unwrap())) + UNIT
            }
            fn total(&self, _a: i32, _b: i32) -> i32 { -1 }
        }
        fn twice(x: i32) -> i32 { x * 2 }
        fn main() {}
        """,
        "Solution::scale",
    ),
    "PHP": (
        """
        <?php
        declare(strict_types=1);
        namespace App;
        const UNIT = 10;
        /** Scales. */
        function scale(int $x): int { return $x * UNIT; }
        function total(int ...$xs): int { return array_sum(array_map('App\\scale', $xs)); }
        echo total(1, 2), "\\n";
        """,
        """
        <?php
        namespace App;
        use ArrayObject as Box;
        use function strlen, count as number;
        const UNIT = 7;
        define('THREE', 3);
        final class Deep { public static function go(int $y): int { return $y * \\THREE; } }
        function by($a, $b) { return $a <=> $b; }
        function twice(int $y): int { $ys = [$y, 0]; usort($ys, 'App\\by'); return 2 * $ys[number($ys) - 1]; }
        function scale(int $v): int { return Deep::go(twice((new Box([$v]))[0])) + UNIT; }
        function total(int ...$xs): int { return -1; }
        exit(1);
        """,
        "scale",
    ),
}


def code_of(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def printed(code: str, language: str, folder: Path) -> str:
    file, command = RUNS[language]
    folder.mkdir()
    (folder / file).write_text(code)
    for part in command.split(" && "):
        words = part.split()
        if shutil.which(words[0]) is None and not (folder / words[0]).exists():
            pytest.skip(f"{words[0]} is not installed")
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


@pytest.mark.parametrize("language", CASES)
def test_a_grafted_function_runs_with_what_it_needs_and_the_names_of_the_reference(
    language: str, tmp_path: Path
) -> None:
    reference, candidate, name = CASES[language]
    reference, candidate = code_of(reference), code_of(candidate)
    made = graft(reference, candidate, name, language)
    before = [span.name for span in functions(reference, language)]
    after = [span.name for span in functions(made, language)]
    assert [one for one in after if one in before] == before
    assert "never" not in made
    assert "exit" not in made
    # Nothing of the made program needs `strings` any more, and Go refuses an import that nothing uses.
    assert bound_names(reference, language) - {"strings"} <= bound_names(made, language)
    # 2 * 3 * 1 + 10 and 2 * 3 * 2 + 10
    assert printed(made, language, tmp_path / "made") == "38"


@pytest.mark.parametrize(
    ("language", "reference", "candidate", "name", "made"),
    [
        ("TypeScript", "import { a } from './a';\nexport const f = () => a;\n",
         "import type { T } from './t';\nimport b, { c as d, a, e } from './b';\nimport './effect';\n"
         "export const f = (): T => b(d, a, unknown);\n", "f",
         "import { a } from './a';\nimport type { T } from './t';\nimport b from './b';\n"
         "import { c as d } from './b';\nimport './effect';\nexport const f = (): T => b(d, a, unknown);\n"),
        ("JavaScript", "function S() {}\nS.prototype.f = function () {};\n",
         "function S() {}\nS.prototype.g = function () { return 1; };\nS.prototype.h = function () {};\n"
         "S.prototype.f = function () { return this.g(); };\n", "S.prototype.f",
         "function S() {}\nS.prototype.g = function () { return 1; };\n\n"
         "S.prototype.f = function () { return this.g(); };\n"),
        ("Java", "class A { int f() { return 1; } static class B { int x; } }",
         "class A { int f() { return new B().twice(); } static class B { int x; int twice() { return 2; "
         "} } }", "A.f",
         "class A { int f() { return new B().twice(); } static class B { int x; int twice() { return 2; }\n"
         "} }"),
        ("C++", "#pragma once\nnamespace a { int f() { return 1; } }\n",
         "#include <cmath>\nnamespace a { int g() { return 2; } int f() { return g() + std::abs(1); } }\n"
         "", "a::f",
         "#include <cmath>\n#pragma once\nnamespace a { int g() { return 2; }\n"
         "int f() { return g() + std::abs(1); } }\n"),
        ("Ruby", "#!/usr/bin/env ruby\n# frozen_string_literal: true\n# Doc.\ndef f = 1\n",
         "require 'set'\nX = 1\ndef f = Set.new([X])\n", "f",
         "#!/usr/bin/env ruby\n# frozen_string_literal: true\nrequire 'set'\nX = 1\n\n"
         "def f = Set.new([X])\n"),
    ],
    ids=["imports", "prototypes", "inner class", "namespace", "comments"],
)  # fmt: skip
def test_what_is_needed_goes_where_it_belongs(
    language: str, reference: str, candidate: str, name: str, made: str
) -> None:
    assert graft(reference, candidate, name, language) == made


def test_overloads_are_found_by_their_types() -> None:
    reference = "class A { int f(int a) { return 1; } int f(String s) { return 2; } }"
    candidate = "class A { int f(String text) { return 3; } }"
    assert graft(reference, candidate, "A.f(String)", "Java") == reference.replace(
        "int f(String s) { return 2; }", "int f(String text) { return 3; }"
    )
    with pytest.raises(SourceError, match="has no function"):
        graft(reference, candidate, "A.f(int)", "Java")


@pytest.mark.parametrize("language", CASES)
def test_a_function_of_the_reference_itself_changes_nothing(language: str) -> None:
    reference, _, name = CASES[language]
    code = code_of(reference)
    assert graft(code, code, name, language) == code


def test_names_that_a_program_binds() -> None:
    code = (
        "const a = 1, { b, c: d } = {};\nclass E { f() {} }\nif (a) { function g() {} }\nimport h from 'x';\n"
    )
    assert bound_names(code, "JavaScript") == {"a", "b", "d", "E", "E.f", "g", "h"}
    code = "#include <a.h>\n#define B 1\n#ifdef B\nint c(void);\nint d;\n#endif\n"
    code += "enum { E };\nstatic int *f, g[2];\n"
    assert bound_names(code, "C") == {"B", "c", "d", "E", "f", "g"}
