"""Programs of every language but Python: one small whole one each, and random ones from pieces."""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st


@dataclasses.dataclass(frozen=True)
class Pieces:
    """What a program of a language may be made of; `NAME` stands for a name, `BODY` for members.

    Attributes:
        head, foot: around the definitions.
        functions: definitions outside of classes.
        classes: what holds members.
        members: definitions inside of classes.
        between: what may stand between definitions.
        docs: comments above definitions.
    """

    head: str
    foot: str
    functions: tuple[str, ...]
    classes: tuple[str, ...]
    members: tuple[str, ...]
    between: tuple[str, ...]
    docs: tuple[str, ...] = (
        "",
        "// One line.\n",
        "/** Doc. */\n",
        "/* Several\n * lines. ä€ */\n",
        "// a\n// b\n",
    )


_SCRIPT_FUNCTIONS = (
    "function NAME(x) { return x + 1; }",
    "async function NAME(x, {a, b: c} = {}, ...rest) {\n  // inside\n  if (x) {\n    return 1;\n  }\n"
    "  return `a\n b`;\n}",
    "function* NAME(x) {\n\tyield x;\n}",
    "const NAME = (x) => x * 2;",
    "const NAME = async x => {\n  return await x;\n};",
    "export const NAME = function (x) { return x; };",
    "export function NAME() {}",
    "const NAME = (x) => ({ a: x });",
)
_SCRIPT_MEMBERS = (
    "NAME(x) { return this.x; }",
    "static NAME() {\n  return 1;\n}",
    "async *NAME(x) { yield 1; }",
    "get NAME() { return 1 }",
    "NAME = (x) => {\n  return x;\n};",
)

PIECES = {
    "JavaScript": Pieces(
        "'use strict';\n",
        "console.log(1);\n",
        (*_SCRIPT_FUNCTIONS, "exports.NAME = function (a) { return a; };"),
        (
            "class NAME {\n  #p = 1;\nBODY\n}",
            "class NAME extends Array {\n  constructor() { super(1); this.p = 2; }\nBODY\n}",
        ),
        _SCRIPT_MEMBERS,
        ("const k = 1;", "", "// apart\n", "if (k) { console.log(2); }"),
    ),
    "TypeScript": Pieces(
        "import { a } from './a';\n",
        "",
        (
            *_SCRIPT_FUNCTIONS,
            "export function NAME<T extends string>(x: T, y?: number): T {\n  return x as T;\n}",
        ),
        (
            "export abstract class NAME<T> {\n  constructor(private p: number) { this.p = 2; }\n"
            "  abstract q(): void;\nBODY\n}",
            "namespace NAME {\n  export const z = 1;\n  export class K {\nBODY\n  }\n}",
        ),
        (*_SCRIPT_MEMBERS, "@dec(1)\n  private NAME<T>(x: T): x is T { return true; }"),
        ("interface I { m(): void }", "", "type T = { a: string };", "declare function d(x: number): void;"),
    ),
    "Java": Pieces(
        "import java.util.*;\n",
        "",
        (),
        (
            "public class NAME<T> {\n    static final int K = 1;\nBODY\n}",
            "interface NAME {\n    int later();\n    default int now() { return 1; }\n}",
            "enum NAME {\n    A { int m() { return 1; } }, B;\nBODY\n}",
            "class NAME extends Base {\n    NAME(int a) {\n        super(a);\n        this.b = a;\n    }\n"
            "BODY\n}",
        ),
        (
            "public static int NAME(int x) { return x + 1; }",
            "@Override\n    public <U> List<U> NAME(final Map<String, U> m, int... xs) throws Exception {\n"
            "        // inside\n        return new ArrayList<>();\n    }",
            "void NAME() {}",
            "int NAME(int[] a)\n    {\n\treturn a.length;\n    }",
            "static class NAMEInner { int m() { return 1; } }",
        ),
        ("", "static { System.out.println(1); }", "int field = 3, other[] = {1};", "// apart\n"),
    ),
    "Go": Pieces(
        'package main\n\nimport "fmt"\n\ntype S struct{ n int }\n',
        "func main() { fmt.Println(1) }\n",
        (
            "func NAME(x int) int { return x + 1 }",
            "func NAME[T any](x, y T, zs ...string) (a int, err error) {\n\t// inside\n\tif a > 1 {\n"
            "\t\treturn 1, nil\n\t}\n\treturn\n}",
            "func (s *S) NAME() {}",
            "func (s S) NAME(f func(int) int) string {\n\treturn `a\n b`\n}",
        ),
        (),
        (),
        ("", "var k = 1", "type NAMEType interface{ M() }", "// apart\n"),
    ),
    "C": Pieces(
        "#ifndef H\n#define H\n#include <stdio.h>\n",
        "#endif\n",
        (
            "int NAME(int x) { return x + 1; }",
            "static char *NAME(char **a, int (*cb)(int))\n{\n    /* inside */\n    switch (1) {\n"
            "    default:\n        return 0;\n    }\n}",
            "void NAME(void) {}",
            "struct pair NAME(struct pair p) {\n#ifdef X\n    p.a = 1;\n#endif\n    return p;\n}",
        ),
        (),
        (),
        (
            "",
            "int later(int);",
            "struct pair { int a; };",
            "#define SQ(x) ((x) * (x))",
            "static int table[] = {1, 2};",
        ),
    ),
    "C++": Pieces(
        "#include <vector>\nusing namespace std;\n",
        "",
        (
            "int NAME(int x) { return x + 1; }",
            "template <typename T>\nT NAME(const T& x, int y = 3) {\n    // inside\n"
            "    return [&](T z) { return z; }(x);\n}",
            "[[nodiscard]] constexpr auto NAME() -> int { return 1; }",
            'extern "C" void NAME(void) {}',
        ),
        (
            "class NAME : public Base {\npublic:\n    NAME(int a) : Base(a), p(1) { p = 2; }\n"
            "    ~NAME() = default;\n    virtual int q() = 0;\nBODY\nprivate:\n    int p;\n};",
            "namespace NAME {\nstruct K {\nBODY\n};\n}",
        ),
        (
            "int NAME(int x) const { return x; }",
            "bool operator<(const NAME& o) const { return true; }",
            "virtual void NAME() override {\n    p = 1;\n}",
            "static int NAME(vector<int>& v) noexcept { return 1; }",
        ),
        ("", "int later(int);", "using X = vector<int>;", "#define SQ(x) ((x) * (x))"),
    ),
    "C#": Pieces(
        "using System;\n",
        "",
        (),
        (
            "public class NAME<T> : Base where T : new() {\n    public NAME(int a) : base(a) { P = 1; }\n"
            "    public int P { get; set; } = 2;\nBODY\n}",
            "namespace NAME {\n    struct K {\nBODY\n    }\n}",
            "interface NAME { int Later(); }",
        ),
        (
            "public static int NAME(int x) => x + 1;",
            "[Obsolete]\n    protected async Task<int> NAME<U>(ref int a, params U[] b) {\n"
            "        // inside\n        return 1;\n    }",
            "int NAME { get { return 1; } set => x = value; }",
            "int NAME => 3;",
            "void NAME() { int Local(int q) { return q; } }",
        ),
        ("", "int field = 3;", "// apart\n", "event Action E;"),
        ("", "// One line.\n", "/// <summary>Doc.</summary>\n", "/* Several\n * lines. ä€ */\n"),
    ),
    "Ruby": Pieces(
        "# frozen_string_literal: true\n\nrequire 'set'\n",
        "puts 1\n",
        (
            "def NAME(x)\n  x + 1\nend",
            "def NAME(a, b = 1, *c, k:, **o, &blk) # note\n  # inside\n  yield a if b\n"
            "rescue StandardError => e\n  1\nensure\n  2\nend",
            "def NAME; end",
            "def NAME(x) = x + 1",
            "def NAME() true end",
        ),
        ("class NAME < Base\n  K = 1\nBODY\nend", "module NAME\n  class << self\nBODY\n  end\nend"),
        (
            "def NAME(x)\n    @x = x\n  end",
            "private def NAME; 1; end",
            "def self.NAME\n  end",
            "def NAME=(v); @v = v end",
            "def NAME?(x)\n    <<~X + x\n      text\n    X\n  end",
        ),
        ("", "K2 = 1", "attr_reader :z", "# apart\n"),
        ("", "# One line.\n", "# a ä€\n# b\n"),
    ),
    "Rust": Pieces(
        "use std::fmt;\n",
        "fn main() {}\n",
        (
            "fn NAME(x: i32) -> i32 { x + 1 }",
            "#[inline]\npub fn NAME<T: Clone>(x: &T, (a, b): (i32, i32)) -> Option<T>\nwhere\n"
            "    T: Copy,\n{\n    // inside\n    Some(x.clone())\n}",
            "pub(crate) async unsafe fn NAME() {}",
            "const fn NAME() -> u8 { 1 }",
        ),
        (
            "impl fmt::Display for NAME {\nBODY\n}",
            "impl<T> NAME<T> {\n    const K: i32 = 1;\nBODY\n}",
            "trait NAME {\n    fn later(&self);\nBODY\n}",
            "mod NAME {\nBODY\n}",
        ),
        (
            "fn NAME(&self) -> i32 { 1 }",
            "#[must_use]\n    pub fn NAME(self: Box<Self>) {\n        self.x();\n    }",
        ),
        ("", "struct P { a: i32 }", "macro_rules! m { () => { 1 }; }"),
        ("", "// One line.\n", "/// Doc.\n/// More ä€.\n", "/** Doc. */\n"),
    ),
    "PHP": Pieces(
        "<?php\ndeclare(strict_types=1);\n",
        "echo 1;\n",
        (
            "function NAME(int $x): int { return $x + 1; }",
            "#[Pure]\nfunction &NAME(?array &$a = null, string ...$rest)\n{\n    // inside\n    yield 1;\n}",
            "function NAME() {}",
        ),
        (
            "final class NAME extends Base\n{\n    const K = 1;\n"
            "    public function __construct(private int $z) { $this->z = 2; }\nBODY\n}",
            "trait NAME {\nBODY\n}",
            "interface NAME { public function later(); }",
        ),
        (
            "public static function NAME(): static { return new static(); }",
            "abstract function NAMELater();",
            "private function NAME($x)\n    {\n        return <<<X\n a\n X;\n    }",
        ),
        ("", "const K2 = 1;", "// apart\n"),
    ),
}
"""Language -> pieces of its programs."""


@st.composite
def tree_programs(draw: st.DrawFn, language: str) -> str:
    """A program of a few functions and classes, with either line ending."""
    told = PIECES[language]
    numbers = iter(range(100))

    def some(templates: tuple[str, ...], most: int, indent: str, names: tuple[str, ...]) -> list[str]:
        if not templates:
            return []
        made = []
        for template in draw(st.lists(st.sampled_from(templates), max_size=most)):
            doc = draw(st.sampled_from(told.docs))
            name = f"{draw(st.sampled_from(names))}{next(numbers)}"
            body = ""
            if "BODY" in template:
                body = "\n".join(some(told.members, 3, "    ", ("f", "gg")))
            text = template.replace("BODY", body).replace("NAME", name)
            made.append("".join(indent + line for line in doc.splitlines(keepends=True)) + indent + text)
            made += [""] * draw(st.integers(0, 1))
        return made

    parts: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        parts += some(told.functions, 2, "", ("f", "Gg"))
        if language not in ("Java", "C#", "Go", "C"):
            parts.append(draw(st.sampled_from(told.between)))
        elif language in ("Go", "C"):
            parts.append(draw(st.sampled_from(told.between)).replace("NAME", f"T{next(numbers)}"))
        parts += some(told.classes, 2, "", ("Ab",))
    text = told.head + "\n".join(parts) + "\n" + told.foot
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text
