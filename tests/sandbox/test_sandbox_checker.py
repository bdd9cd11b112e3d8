"""Checker programs: they accept, they reject, and whatever else they do is no verdict."""

from __future__ import annotations

import textwrap

import pytest

from sandbox import Limits, Result, Sandbox, languages
from sandbox.checker import Checker, check_with
from sandbox.job import Job
from sandbox.judge import Judgement
from sandbox.languages.base import ToolchainMissing
from sandbox.names import script_file

LIMITS = Limits(wall_s=5, cpu_s=2)
BIG = Limits(wall_s=30, cpu_s=10)


@pytest.fixture(scope="module")
def box() -> Sandbox:
    return Sandbox()


def program(source: str, **fields: object) -> Checker:
    return Checker({"main.py": textwrap.dedent(source)}, limits=LIMITS, **fields)


def function(source: str, **fields: object) -> Checker:
    return Checker({"solution.py": textwrap.dedent(source)}, style="function", limits=LIMITS, **fields)


def check(box: Sandbox, checker: Checker, output: str, answer: str = "2 3\n") -> Judgement:
    return check_with(box, checker, "6\n", output, answer)


# Accepts any two factors of the input, as testlib would: 0, 1 and 2.
FACTORS = """
    import sys
    given, output, answer = (open(path).read() for path in sys.argv[1:])
    words = output.split()
    if len(words) != 2:
        print("two numbers are needed", file=sys.stderr)
        sys.exit(2)
    if int(words[0]) * int(words[1]) != int(given):
        print("the product is wrong", file=sys.stderr)
        sys.exit(1)
    print("fine", file=sys.stderr)
"""
FACTORS_FUNCTION = """
    def check(given, output, answer):
        words = output.split()
        return len(words) == 2 and int(words[0]) * int(words[1]) == int(given)
"""


@pytest.mark.parametrize("output", ["2 3\n", "3 2", "1 6", "-6 -1"])
def test_every_right_answer_is_accepted_not_only_the_references(box: Sandbox, output: str) -> None:
    for checker in (program(FACTORS), function(FACTORS_FUNCTION)):
        judged = check(box, checker, output)
        assert judged.passed is True
        assert judged.checked == 1


@pytest.mark.parametrize(("output", "why"), [("2 2", "the product is wrong"), ("", "two numbers are needed")])
def test_a_wrong_answer_is_rejected_with_the_checkers_words(box: Sandbox, output: str, why: str) -> None:
    judged = check(box, program(FACTORS), output)
    assert judged.passed is False
    assert judged.checked == 1
    assert why in judged.reason
    assert judged.failures[0].got == output
    assert check(box, function(FACTORS_FUNCTION), output).passed is False


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("raise ValueError('bug')", "exception: ValueError: bug"),
        ("import sys; sys.exit(3)", "exit"),
        ("import os; os._exit(7)", "exit"),
        ("import os; os.kill(os.getpid(), 11)", "signal"),
        ("while True: pass", "_limit"),
        ("x = bytearray(10**9)", "memory_limit"),
        ("this is no program", "compile_error"),
        ("print('x' * 10**6)", "output_limit"),
        ("import sys; open(sys.argv[4])", "exception: IndexError"),
    ],
)
def test_a_checker_that_fails_gives_no_verdict(box: Sandbox, source: str, why: str) -> None:
    judged = check(box, program(source), "2 3")
    assert judged.passed is None
    assert judged.checked == 0
    assert why in judged.reason


@pytest.mark.parametrize("returned", ["None", "1", "0", "'yes'", "[]", "float('nan')", "1.0", "print", "T()"])
def test_only_exactly_true_accepts_and_only_exactly_false_rejects(box: Sandbox, returned: str) -> None:
    source = f"""
        class T:
            def __bool__(self): return True
        def check(given, output, answer): return {returned}
    """
    judged = check(box, function(source), "2 3")
    assert judged.passed is None
    assert judged.checked == 0


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def check(given, output, answer): raise KeyError('bug')", "it raised KeyError"),
        ("def check(given, output, answer): int(output)", "it raised ValueError"),
        ("def check(given, output): return True", "it raised TypeError"),
        ("def other(given, output, answer): return True", "exception"),
        ("def check(given, output, answer):\n    while True: pass", "_limit"),
        ("import sys\nsys.exit(0)", "exit"),
        ("import os\ndef check(given, output, answer): os._exit(0)", "exit"),
    ],
)
def test_a_checking_function_that_fails_gives_no_verdict(box: Sandbox, source: str, why: str) -> None:
    judged = check(box, function(source), "two three")
    assert judged.passed is None
    assert why in judged.reason


@pytest.mark.parametrize(
    "output",
    [
        "'); import sys; sys.exit(0) #",
        "True",
        "\0\x1b[2J\ud800\ufffd",
        "../../answer.txt",
        "x\n" * 50_000,
        "import os; os._exit(0)",
    ],
)
def test_what_a_candidate_printed_is_data_to_the_checker(box: Sandbox, output: str) -> None:
    same = """
        import sys
        texts = [open(name, newline="", errors="surrogatepass").read() for name in sys.argv[2:]]
        sys.exit(texts[0] != texts[1])
    """
    equal = "def check(given, output, answer): return output == answer"
    for checker in (function(equal), program(same)):
        assert check(box, checker, output).passed is False
        assert check(box, checker, output, answer=output).passed is True


def test_the_three_texts_reach_the_checker_under_their_names(box: Sandbox) -> None:
    source = """
        import os, sys
        assert sys.argv[1:] == ["input.txt", "output.txt", "answer.txt"]
        assert [open(name).read() for name in sys.argv[1:]] == ["given", "output", "answer"]
        assert open("table.txt").read() == "kept"
    """
    checker = Checker({"main.py": textwrap.dedent(source), "table.txt": "kept"}, limits=LIMITS)
    assert check_with(box, checker, "given", "output", "answer").passed is True


def test_entry_names_the_program_or_the_function(box: Sandbox) -> None:
    checker = Checker({"check.py": "import sys; sys.exit(1)"}, entry="check.py", limits=LIMITS)
    assert check(box, checker, "").passed is False
    assert check(box, function("def judge(a, b, c): return True", entry="judge"), "").passed is True


def test_statuses_that_reject_can_be_chosen(box: Sandbox) -> None:
    checker = program("import sys; sys.exit(int(open('output.txt').read()))", rejects=(43,))
    assert [check(box, checker, str(code)).passed for code in (0, 43, 1, 2)] == [True, False, None, None]


def test_a_text_that_is_too_large_is_not_given_to_the_checker(box: Sandbox) -> None:
    checker = Checker({"main.py": ""}, limits=Limits(file_mb=1))
    for text in ("x" * ((1 << 20) + 1), "\u20ac" * (1 << 19)):
        judged = check(box, checker, text)
        assert judged.passed is None
        assert "output.txt is larger than the checker's 1 MiB" in judged.reason
    assert check(box, checker, "x" * (1 << 20)).passed is True


class Broken:
    """A machine on which nothing can be run: what a `Sandbox` answers there."""

    def run(self, job: Job) -> Result:
        return Result("infra_error", detail="no launcher")


@pytest.mark.parametrize("checker", [program(FACTORS), function(FACTORS_FUNCTION)], ids=["exits", "returns"])
def test_a_failure_of_the_machine_is_no_verdict(checker: Checker) -> None:
    judged = check_with(Broken(), checker, "6", "2 3", "2 3")
    assert judged.passed is None
    assert "no launcher" in judged.reason


def test_a_checker_that_cannot_be_one_is_refused_when_it_is_made() -> None:
    with pytest.raises(ValueError, match=r"lacks 'main\.py'"):
        Checker({"check.py": ""})
    with pytest.raises(ValueError, match=r"lacks 'solution\.py'"):
        Checker({"main.py": ""}, style="function")
    with pytest.raises(ValueError, match=r"may not hold 'answer\.txt'"):
        Checker({"main.py": "", "answer.txt": "42"})
    with pytest.raises(ValueError, match="not one of cpp"):
        Checker({"solution.cpp": ""}, lang="cpp", style="function")
    with pytest.raises(ValueError, match="no style"):
        Checker({"main.py": ""}, style="script")
    with pytest.raises(ValueError, match="exit status 0"):
        Checker({"main.py": ""}, rejects=(0, 1))
    with pytest.raises(ValueError, match=r"Job\.lang"):
        Checker({"main.pas": ""}, lang="pascal")


# Each exits with the number in the file that its second argument names, and fails uncaught where none is.
IN_OTHER_LANGUAGES = {
    "c": """
        #include <stdio.h>
        #include <stdlib.h>
        int main(int argc, char **argv) {
            int code;
            FILE *file = fopen(argv[2], "r");
            if (fscanf(file, "%d", &code) != 1) abort();
            return code;
        }
    """,
    "cpp": """
        #include <fstream>
        #include <stdexcept>
        int main(int argc, char **argv) {
            std::ifstream file(argv[2]);
            int code;
            if (!(file >> code)) throw std::runtime_error("panic: no number");
            return code;
        }
    """,
    "csharp": """
        using System.IO;
        class Checker {
            static int Main(string[] args) { return int.Parse(File.ReadAllText(args[1])); }
        }
    """,
    "go": """
        package main
        import ("fmt"; "os")
        func main() {
            text, _ := os.ReadFile(os.Args[2])
            var code int
            if _, err := fmt.Sscan(string(text), &code); err != nil { panic(err) }
            os.Exit(code)
        }
    """,
    "java": """
        import java.nio.file.*;
        public class Main {
            public static void main(String[] args) throws Exception {
                System.exit(Integer.parseInt(Files.readString(Path.of(args[1])).trim()));
            }
        }
    """,
    "javascript": """
        const code = BigInt(require("fs").readFileSync(process.argv[3], "utf8").trim() || "none");
        process.exit(Number(code));
    """,
    "php": """<?php
        $text = file_get_contents($argv[2]);
        if ($text === "") throw new Exception("no number");
        exit((int) $text);
    """,
    "ruby": """
        exit Integer(File.read(ARGV[1]))
    """,
}


@pytest.mark.parametrize("lang", sorted(IN_OTHER_LANGUAGES))
def test_a_checker_in_any_language_is_told_from_one_that_crashed(box: Sandbox, lang: str) -> None:
    try:
        languages.get(lang).find()
    except ToolchainMissing as error:
        pytest.skip(str(error))
    source = textwrap.dedent(IN_OTHER_LANGUAGES[lang])
    checker = Checker({script_file(lang): source}, lang=lang, limits=BIG)
    judged = [check(box, checker, output) for output in ("0", "1", "2", "3", "")]
    assert [one.passed for one in judged] == [True, False, False, None, None], judged
