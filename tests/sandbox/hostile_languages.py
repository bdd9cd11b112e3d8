"""What tests of hostile programs in other languages than Python share: a task, two ways to try, a look after.

In: the text of a function `attack` of a language, which returns or prints what it achieved. Out: what came
of it when a job of kind "calls" calls it and when a script runs it (`Ring.both`, `Ring.told`).
No attack may be judged right, and after each `Ring.look` has an honest program of the language find, in the
same Sandbox, right values and a world as the first one found it.
"""

from __future__ import annotations

import functools
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Call, Job, Limits, Result, Sandbox, languages
from sandbox.judge import Equals, judge_calls
from sandbox.languages.base import ToolchainMissing
from sandbox.names import script_file, solution_file

# For programs that end; that wait without end; that work without end.
PATIENT = Limits(wall_s=30.0, cpu_s=20.0)
WAITING = Limits(wall_s=0.6, cpu_s=20.0)
WORKING = Limits(wall_s=30.0, cpu_s=0.5)
CALLS = (Call((2, 3)), Call((-1, 4)), Call((7, 8)))
RIGHT = tuple(Equals(value) for value in (6, -4, 56))

# What no program may see, and what none may change.
HIDDEN = [
    *(
        "/etc/passwd",
        "/etc/shadow",
        "/etc/hostname",
        "/etc/ssh",
        "/root/.ssh",
        "/root/.bashrc",
        "/home",
        "/var",
    ),
    *("/run", "/boot", "/sys/kernel", "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/tty", "/dev/pts"),
    *(
        f"/proc/1/{name}"
        for name in ("environ", "maps", "mem", "fd", "root/etc/passwd", "cwd/etc", "task", "exe")
    ),
    *(f"/proc/{os.getpid()}/{name}" for name in ("environ", "root", "fd", "maps", "cmdline")),
    *(
        "/proc/kcore",
        "/proc/kmsg",
        "/proc/keys",
        "/proc/sysrq-trigger",
        "/proc/net/tcp",
        "/proc/self/root/etc/passwd",
    ),
    *(str(Path(__file__)), str(Path(__file__).parents[2] / "pyproject.toml"), "/tmp/calls.bin"),
]
CLOSED = [
    *(
        "/new",
        "/usr/new",
        "/usr/lib/new",
        "/lib/new",
        "/bin/new",
        "/etc/new",
        "/etc/ld.so.preload",
        "/dev/new",
    ),
    *(
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/ns_last_pid",
        "/proc/self/oom_score_adj",
        "/proc/1/mem",
    ),
    *(
        "/proc/self/uid_map",
        "/proc/self/setgroups",
        "/proc/self/attr/current",
        "/sys/new",
        "/etc/ld.so.cache",
    ),
    *(
        "/dev/random",
        "/usr/bin/gcc",
        "/usr/bin/mono",
        "/usr/bin/node",
        "/usr/bin/python3",
        "/usr/include/stdio.h",
        "/root/new",
        "/home/new",
    ),
]

# Each language's frame around `attack`: a solution whose `f` should multiply, and a script.
_FRAMES = {
    "c": (
        "%s\nconst char *f(long a, long b) { return attack(); }",
        "#include <stdio.h>\n%s\nint main(void) { fputs(attack(), stdout); return 0; }",
    ),
    "cpp": (
        "%s\nstd::string f(long a, long b) { return attack(); }",
        "%s\nint main() { std::cout << attack(); }",
    ),
    "go": (
        "package main\n%s\nfunc f(a, b int) string { _ = os_.Args; return attack() }",
        "package main\n%s\nfunc main() { print_(attack()) }\n"
        "func print_(text string) { os_.Stdout.WriteString(text) }",
    ),
    "rust": (
        "%s\nfn f(a: i64, b: i64) -> String { attack() }",
        '%s\nfn main() { print!("{}", attack()); }',
    ),
    "java": (
        "class Solution {\n%s\nstatic String f(long a, long b) throws Throwable { return attack(); }\n}",
        "class Main {\n%s\n"
        "public static void main(String[] a) throws Throwable { System.out.print(attack()); }\n}",
    ),
    "csharp": (
        "class Solution {\n%s\nstatic string f(long a, long b) { return attack(); }\n}",
        "class Program {\n%s\nstatic void Main() { System.Console.Write(attack()); }\n}",
    ),
    "javascript": (
        "%s\nfunction f(a, b) { return attack() }",
        "%s\nprocess.stdout.write(String(attack()))",
    ),
    "typescript": (
        "%s\nfunction f(a: number, b: number): unknown { return attack() }",
        "%s\nprocess.stdout.write(String(attack()))",
    ),
    "ruby": ("%s\ndef f(a, b) = attack", "%s\nprint attack"),
    "php": ("<?php %s\nfunction f($a, $b) { return attack(); }", "<?php %s\necho attack();"),
}
# What stands before `attack`, at the top of the file.
_HEADS = {
    "c": "#define _GNU_SOURCE\n"
    + "".join(
        f"#include <{name}.h>\n"
        for name in (
            *(
                "ctype",
                "dirent",
                "errno",
                "fcntl",
                "pthread",
                "signal",
                "stdint",
                "stdio",
                "stdlib",
                "string",
            ),
            *("sys/mman", "sys/prctl", "sys/resource", "sys/socket", "sys/syscall", "sys/un", "sys/wait"),
            *("arpa/inet", "netdb", "unistd"),
        )
    ),
    "cpp": "#include <bits/stdc++.h>\n#include <fcntl.h>\n#include <signal.h>\n#include <unistd.h>\n",
    "java": "import java.io.*; import java.net.*; import java.nio.file.*; import java.util.*;\n"
    "import java.lang.reflect.*;\n",
    "csharp": "using System; using System.Collections.Generic; using System.Diagnostics; using System.IO;\n"
    "using System.Linq; using System.Net; using System.Net.Sockets; using System.Reflection;\n"
    "using System.Runtime.InteropServices; using System.Text; using System.Threading;\n",
}
# An honest solution, which also prints what it sees of the world: files, and processes by their numbers.
_HONEST = {
    "c": """
        #include <ctype.h>
        #include <dirent.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        static void list(const char *path) {
            struct dirent **found;
            int count = scandir(path, &found, NULL, alphasort);
            for (int i = 0; i < count; i++)
                if (strcmp(path, "/proc") || isdigit(found[i]->d_name[0]))
                    printf("%s/%s\\n", path, found[i]->d_name);
        }
        long f(long a, long b) { list("/tmp"); list("/tmp/work"); list("/proc"); return a * b; }
        """,
    "go": """
        import (
            "fmt"
            "os"
        )
        func f(a, b int) int {
            for _, path := range []string{"/tmp", "/tmp/work", "/proc"} {
                found, _ := os.ReadDir(path)
                for _, one := range found {
                    if path != "/proc" || one.Name()[0] >= '0' && one.Name()[0] <= '9' {
                        fmt.Println(path, one.Name())
                    }
                }
            }
            return a * b
        }
        """,
    "rust": """
        fn f(a: i64, b: i64) -> i64 {
            for path in ["/tmp", "/tmp/work", "/proc"] {
                let mut names: Vec<String> = std::fs::read_dir(path).unwrap()
                    .map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
                names.sort();
                for name in names {
                    if path != "/proc" || name.as_bytes()[0].is_ascii_digit() { println!("{path} {name}"); }
                }
            }
            a * b
        }
        """,
    "java": """
        class Solution {
            static long f(long a, long b) {
                for (String path : new String[] {"/tmp", "/tmp/work", "/proc"}) {
                    String[] names = new java.io.File(path).list();
                    java.util.Arrays.sort(names);
                    for (String name : names)
                        if (!path.equals("/proc") || Character.isDigit(name.charAt(0)))
                            System.out.println(path + " " + name);
                }
                return a * b;
            }
        }
        """,
    "csharp": """
        using System; using System.IO;
        class Solution {
            static long f(long a, long b) {
                foreach (var path in new[] {"/tmp", "/tmp/work", "/proc"}) {
                    var names = Directory.GetFileSystemEntries(path);
                    Array.Sort(names, StringComparer.Ordinal);
                    foreach (var name in names)
                        if (path != "/proc" || char.IsDigit(Path.GetFileName(name)[0]))
                            Console.WriteLine(name);
                }
                return a * b;
            }
        }
        """,
    "javascript": """
        const fs = require("fs");
        function f(a, b) {
            for (const path of ["/tmp", "/tmp/work", "/proc"])
                for (const name of fs.readdirSync(path))
                    if (path !== "/proc" || /^[0-9]/.test(name)) console.log(path, name);
            return a * b;
        }
        """,
    "ruby": """
        def f(a, b)
          %w[/tmp /tmp/work /proc].each do |path|
            names = Dir.children(path).sort
            names.each { |name| puts "#{path} #{name}" if path != "/proc" || name =~ /^[0-9]/ }
          end
          a * b
        end
        """,
    "php": """<?php
        function f($a, $b) {
            foreach (["/tmp", "/tmp/work", "/proc"] as $path)
                foreach (scandir($path) as $name)
                    if ($path !== "/proc" || is_numeric($name)) echo "$path $name\\n";
            return $a * $b;
        }
        """,
}
_HONEST["cpp"] = _HONEST["c"].replace("long f(", 'extern "C" long f(')
_HONEST["typescript"] = _HONEST["javascript"].replace("(a, b)", "(a: number, b: number): number")


@functools.cache
def _problem(lang: str) -> str:
    try:
        languages.get(lang).find()
    except ToolchainMissing as error:
        return str(error)
    return ""


def need(lang: str) -> None:
    """Skip the test where the language's toolchain is missing; the reason names the Debian packages."""
    if _problem(lang):
        pytest.skip(_problem(lang))


def framed(lang: str, attack: str) -> tuple[str, str]:
    """The attack as a solution and as a script."""
    attack = textwrap.dedent(attack)
    head = _HEADS.get(lang, "")
    if lang == "go":
        attack = f'import os_ "os"\n{attack}'
    solution, script = _FRAMES[lang]
    return head + solution.replace("%s", attack), head + script.replace("%s", attack)


class Ring:
    """One Sandbox of one worker in which hostile programs of all languages follow each other."""

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self._first: dict[str, str] = {}
        self._seen: set[str] = set()

    def calls(self, lang: str, solution: str, limits: Limits = PATIENT, **more: str) -> Result:
        """Run a solution, whose `f` should multiply; fails where it is judged right.

        A further file is given by its name, `lib_h` for lib.h.
        """
        return self.files(lang, {solution_file(lang): solution, **_named(more)}, limits)

    def files(self, lang: str, files: dict[str, str], limits: Limits = PATIENT) -> Result:
        """The same for a solution that comes with all its files."""
        self._prepare(lang)
        result = self.box.run(Job("calls", files, "f", CALLS, lang=lang, limits=limits))
        assert judge_calls(result, RIGHT).passed is False, (result.status, result.outputs, result.detail)
        return result

    def script(self, lang: str, program: str, limits: Limits = PATIENT, **more: str) -> Result:
        self._prepare(lang)
        files = {script_file(lang): program, **_named(more)}
        result = self.box.run(Job("script", files, lang=lang, limits=limits))
        assert result.status != "infra_error", result.detail
        return result

    def both(self, lang: str, attack: str, limits: Limits = PATIENT) -> tuple[Result, Result]:
        """Run an attack in a call and as a script."""
        solution, program = framed(lang, attack)
        return self.calls(lang, solution, limits), self.script(lang, program, limits)

    def told(self, lang: str, attack: str, limits: Limits = PATIENT) -> list[str]:
        """What an attack returns, from each of the three calls, and what it prints as a script."""
        called, ran = self.both(lang, attack, limits)
        assert (called.status, ran.status) == ("ok", "ok"), (called, ran)
        return [*called.outputs, ran.stdout]

    def look(self) -> None:
        """Fail unless an honest program of each language that was used since the last look does well."""
        while self._seen:
            self._honest(self._seen.pop())

    def _prepare(self, lang: str) -> None:
        need(lang)
        if lang not in self._first:
            self._honest(lang)
        self._seen.add(lang)

    def _honest(self, lang: str) -> None:
        files = {solution_file(lang): honest(lang)}
        result = self.box.run(Job("calls", files, "f", CALLS, lang=lang, limits=PATIENT))
        judged = judge_calls(result, RIGHT)
        assert judged.passed, (judged.reason, result.detail, result.stderr)
        assert re.search(r"/tmp.work", result.stdout)
        assert self._first.setdefault(lang, result.stdout) == result.stdout


def honest(lang: str) -> str:
    return textwrap.dedent(_HONEST[lang])


def _named(files: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): text for name, text in files.items()}


def statuses(results: tuple[Result, Result]) -> tuple[str, str]:
    return results[0].status, results[1].status


def ring() -> Iterator[Ring]:
    """A module's fixture: `ring = pytest.fixture(scope="module")(hostile_languages.ring)`."""
    # Nothing of an earlier run of these tests: the compilers are attacked as well.
    with Sandbox(workers=1, cache=None) as box:
        yield Ring(box)


def unharmed(ring: Ring) -> Iterator[None]:
    """A module's fixture, used by each test: whatever a test ran, honest programs come out right after it."""
    yield
    ring.look()


def ends_as_told(ring: Ring, end: tuple[tuple[str, str], Limits, str, str]) -> None:
    """Fail unless an attack (language, text) ends as named: when it is called, and when it is a script."""
    (lang, attack), limits, called, ran = end
    results = ring.both(lang, attack, limits)
    assert results[0].status in called.split(), results[0]
    assert results[1].status in ran.split(), results[1]
