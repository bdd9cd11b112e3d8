"""Go, Java and C#: what a job of either kind comes to, how values travel, and what no program can fake."""

from collections.abc import Iterator

import pytest
from managed import PATIENT, each_language, error_type, need, program, run, script

from sandbox import Call, ErrorRecord, Job, Limits, Sandbox, codec
from sandbox.names import solution_file


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


DIVIDE = {
    "go": "func f(a, b int) int { return a / b }",
    "java": "static int f(int a, int b) { return a / b; }",
    "csharp": "static int f(int a, int b) { return a / b; }",
}
DIVISION_BY_ZERO = {
    "go": ("runtime.errorString", "runtime error: integer divide by zero"),
    "java": ("java.lang.ArithmeticException", "/ by zero"),
    "csharp": ("System.DivideByZeroException", "Attempted to divide by zero."),
}


@each_language
def test_each_call_returns_its_value_or_its_error(box: Sandbox, lang: str) -> None:
    result = run(box, lang, DIVIDE[lang], (7, 2), (1, 0), (-9, 3))
    assert result.status == "ok"
    assert (result.outputs[0], result.outputs[2]) == (3, -3)
    assert (error_type(result.outputs[1]), result.outputs[1].message) == DIVISION_BY_ZERO[lang]
    assert result.trust == "external"


@each_language
@pytest.mark.parametrize(
    "args",
    [(1,), (1, 2, 3), (1, "2"), (1, 2.0), (1, True), (1, None), (1, [2]), (1, 1 << 64), (1 << 70, 1)],
    ids=["few", "many", "str", "float", "bool", "none", "list", "large", "huge"],
)
def test_arguments_that_do_not_fit_are_an_error_of_that_call_alone(
    box: Sandbox, lang: str, args: tuple[object, ...]
) -> None:
    result = run(box, lang, DIVIDE[lang], (6, 3), args, (8, 2))
    assert result.status == "ok"
    assert error_type(result.outputs[1]) == "ArgumentError"
    assert (result.outputs[0], result.outputs[2]) == (2, 4)


@each_language
def test_keyword_arguments_are_an_argument_error(box: Sandbox, lang: str) -> None:
    need(lang)
    files = {solution_file(lang): program(lang, DIVIDE[lang])}
    job = Job(
        "calls", files, entry="f", calls=[Call((6,), {"b": 3}), Call((6, 3))], lang=lang, limits=PATIENT
    )
    result = box.run(job)
    assert error_type(result.outputs[0]) == "ArgumentError"
    assert result.outputs[1] == 2


@each_language
def test_a_function_that_is_not_there_is_an_exception(box: Sandbox, lang: str) -> None:
    result = run(box, lang, DIVIDE[lang], (1, 2), entry="g")
    assert result.status == "exception"
    assert "'g'" in result.detail
    assert result.outputs == []


@each_language
def test_a_program_that_does_not_compile_says_where(box: Sandbox, lang: str) -> None:
    result = run(box, lang, DIVIDE[lang].replace("a / b", "a / nothing"), (1, 2))
    assert result.status == "compile_error"
    assert "nothing" in result.detail + result.stderr + result.stdout


@each_language
def test_a_program_that_leaves_in_a_call_is_never_ok(box: Sandbox, lang: str) -> None:
    source = {
        "go": 'import "os"\nfunc f(a int) int { if a == 2 { os.Exit(0) }; return a }',
        "java": "static int f(int a) { if (a == 2) System.exit(0); return a; }",
        "csharp": "static int f(int a) { if (a == 2) Environment.Exit(0); return a; }",
    }[lang]
    result = run(box, lang, source, (1,), (2,), (3,))
    assert result.status == "exit"
    assert result.outputs == [1]


@each_language
def test_a_program_that_leaves_while_it_loads_is_never_ok(box: Sandbox, lang: str) -> None:
    source = {
        "go": 'import "os"\nfunc init() { os.Exit(0) }\nfunc f(a int) int { return a }',
        "java": "static { System.exit(0); } static int f(int a) { return a; }",
        "csharp": "static Solution() { Environment.Exit(0); } static int f(int a) { return a; }",
    }[lang]
    result = run(box, lang, source, (1,))
    assert result.status == "exit"
    assert result.outputs == []


@each_language
def test_an_error_while_loading_is_told_and_nothing_is_called(box: Sandbox, lang: str) -> None:
    source = {
        "go": 'func init() { panic("no good") }\nfunc f(a int) int { return a }',
        "java": 'static { if (true) throw new IllegalStateException("no good"); } static int f(int a) { '
        "return a; }",
        "csharp": 'static Solution() { throw new Exception("no good"); } static int f(int a) { return a; }',
    }[lang]
    result = run(box, lang, source, (1,))
    # A panic in init ends a Go program before anything of it can be caught.
    assert result.status == ("exit" if lang == "go" else "exception")
    assert "no good" in result.detail + result.stderr
    assert result.outputs == []


@each_language
def test_what_a_program_prints_is_its_own_affair(box: Sandbox, lang: str) -> None:
    source = {
        "go": 'import "os"\nfunc f(a int) int { os.Stdout.WriteString("R\\x00"); os.Stdout.Close(); return '
        "a }",
        "java": 'static int f(int a) { System.out.print("R"); System.setOut(null); return a; }',
        "csharp": 'static int f(int a) { Console.Write("R"); Console.SetOut(null ?? '
        "System.IO.TextWriter.Null); return a; }",
    }[lang]
    result = run(box, lang, source, (1,))
    assert result.status == "ok"
    assert result.outputs == [1]
    assert result.stdout.startswith("R")


@each_language
def test_a_call_cannot_spoil_the_next_ones_arguments(box: Sandbox, lang: str) -> None:
    source = {
        "go": "func f(a []int) []int { a[0]++; return a }",
        "java": "int[] f(int[] a) { a[0]++; return a; }",
        "csharp": "int[] f(int[] a) { a[0]++; return a; }",
    }[lang]
    assert run(box, lang, source, ([1, 2],), ([1, 2],)).outputs == [[2, 2], [2, 2]]


@each_language
def test_an_instance_is_new_for_each_call_but_statics_live_on(box: Sandbox, lang: str) -> None:
    if lang == "go":
        source = "var calls int\nfunc f() []int { calls++; return []int{1, calls} }"
    else:
        source = (
            "int own = 0; static int all = 0; public int[] f() { own++; all++; return new int[] {own, all}; }"
        )
    assert run(box, lang, source, (), ()).outputs == [[1, 1], [1, 2]]


@each_language
def test_a_list_that_holds_itself_has_no_encoding(box: Sandbox, lang: str) -> None:
    source = {
        "go": "func f() interface{} { a := make([]interface{}, 1); a[0] = a; return a }",
        "java": "static Object f() { List<Object> a = new ArrayList<>(); a.add(a); return a; }",
        "csharp": "static object f() { var a = new List<object>(); a.Add(a); return a; }",
    }[lang]
    result = run(box, lang, source, ())
    assert result.status == "unserializable"
    assert "nested deeper than 100" in result.outputs[0].message


@each_language
def test_a_hundred_levels_are_encoded_and_one_more_is_not(box: Sandbox, lang: str) -> None:
    source = {
        "go": "func f(n int) interface{} { var a interface{} = []interface{}{}; "
        "for ; n > 1; n-- { a = []interface{}{a} }; return a }",
        "java": "static Object f(int n) { List<Object> a = new ArrayList<>(); "
        "for (; n > 1; n--) { List<Object> b = new ArrayList<>(); b.add(a); a = b; } return a; }",
        "csharp": "static object f(int n) { var a = new List<object>(); "
        "for (; n > 1; n--) a = new List<object> { a }; return a; }",
    }[lang]
    result = run(box, lang, source, (100,), (101,))
    assert codec.encode(result.outputs[0]) == b"l\x01" * 99 + b"l\x00"
    assert isinstance(result.outputs[1], ErrorRecord)


@each_language
def test_a_million_values_is_the_most(box: Sandbox, lang: str) -> None:
    source = {
        "go": "func f(n int) []int8 { return make([]int8, n) }",
        "java": "static short[] f(int n) { return new short[n]; }",
        "csharp": "static short[] f(int n) { return new short[n]; }",
    }[lang]
    result = run(box, lang, source, (999_999,), (1_000_000,))
    assert len(result.outputs[0]) == 999_999
    assert "more than 1000000 values" in result.outputs[1].message


@each_language
def test_a_value_larger_than_the_job_allows_is_refused_by_itself(box: Sandbox, lang: str) -> None:
    source = {
        "go": 'import "strings"\nfunc f(n int) string { return strings.Repeat("x", n) }',
        "java": 'static String f(int n) { return "x".repeat(n); }',
        "csharp": "static string f(int n) { return new string('x', n); }",
    }[lang]
    result = run(box, lang, source, (3,), (5000,), limits=Limits(wall_s=60, cpu_s=30, result_kb=4))
    assert result.outputs[0] == "xxx"
    assert "larger than 4096 bytes" in result.outputs[1].message
    assert result.status == "unserializable"


@each_language
def test_keys_that_python_takes_for_one_are_refused_not_merged(box: Sandbox, lang: str) -> None:
    source = {
        "go": "func f() interface{} { return map[interface{}]int{1: 1, 1.0: 2} }",
        "java": "static Object f() { return Map.of(1, 1, 1.0, 2); }",
        "csharp": "static object f() { return new Dictionary<object, int> { [1] = 1, [1.0] = 2 }; }",
    }[lang]
    result = run(box, lang, source, ())
    assert result.status == "unserializable"
    assert "numbers of several types" in result.outputs[0].message


@each_language
def test_integers_of_two_widths_that_are_one_key_are_refused(box: Sandbox, lang: str) -> None:
    source = {
        "go": "func f() interface{} { return map[interface{}]int{int8(1): 1, int64(1): 2} }",
        "java": "static Object f() { return Map.of(1, 1, 1L, 2); }",
        "csharp": "static object f() { return new Dictionary<object, int> { [1] = 1, [1L] = 2 }; }",
    }[lang]
    result = run(box, lang, source, ())
    assert result.status == "unserializable"
    assert "one key in Python" in result.outputs[0].message


@each_language
def test_lists_become_tuples_where_they_are_keys(box: Sandbox, lang: str) -> None:
    source = {
        "go": "func f(a int) map[[2]int]int { return map[[2]int]int{{a, 2}: 3} }",
        "java": "static Map<List<Integer>, Integer> f(int a) { return Map.of(List.of(a, 2), 3); }",
        "csharp": "static Dictionary<(int, int), int> f(int a) "
        "{ return new Dictionary<(int, int), int> { [(a, 2)] = 3 }; }",
    }[lang]
    assert run(box, lang, source, (1,)).outputs == [{(1, 2): 3}]


@each_language
def test_running_out_of_memory_is_the_limit_whatever_the_runtime_calls_it(box: Sandbox, lang: str) -> None:
    source = {
        "go": "func f(n int) int { s := 0; var all [][]byte; for i := 0; i < n; i++ "
        "{ a := make([]byte, 1<<20); for j := range a { a[j] = 1 }; all = append(all, a); s += len(a) }; "
        "return s }",
        "java": "static long f(int n) { List<byte[]> all = new ArrayList<>(); long s = 0; for (int i = 0; "
        "i < n; i++) "
        "{ byte[] a = new byte[1 << 20]; Arrays.fill(a, (byte) 1); all.add(a); s += a.length; } return s; }",
        "csharp": "static long f(int n) { var all = new List<byte[]>(); long s = 0; for (int i = 0; i < n; "
        "i++) "
        "{ var a = new byte[1 << 20]; for (int j = 0; j < a.Length; j += 99) a[j] = 1; all.Add(a); s += "
        "a.Length; } "
        "return s; }",
    }[lang]
    limits = Limits(memory_mb=128, wall_s=60, cpu_s=30)
    assert run(box, lang, source, (40,), limits=limits).outputs == [40 << 20]
    assert run(box, lang, source, (4000,), limits=limits).status == "memory_limit"


@each_language
def test_a_stack_that_overflows_ends_no_more_than_the_language_says(box: Sandbox, lang: str) -> None:
    source = {
        "go": "func g(n int) int { return g(n+1) + 1 }\nfunc f(n int) int { if n == 0 { return g(0) }; "
        "return n }",
        "java": "static int g(int n) { return g(n + 1) + 1; } static int f(int n) { return n == 0 ? g(0) : "
        "n; }",
        "csharp": "static int g(int n) { return g(n + 1) + 1; } static int f(int n) { return n == 0 ? g(0) "
        ": n; }",
    }[lang]
    result = run(box, lang, source, (1,), (0,), (2,))
    if lang == "go":
        assert result.status in ("exit", "memory_limit")
        assert result.outputs == [1]
    else:
        assert "StackOverflow" in error_type(result.outputs[1])
        assert [result.outputs[0], result.outputs[2]] == [1, 2]


@each_language
def test_a_call_without_end_runs_into_a_limit(box: Sandbox, lang: str) -> None:
    source = {
        "go": "func f(n int) int { for n > 0 { n++; if n == 9 { n = 1 } }; return n }",
        "java": "static int f(int n) { while (n > 0) { n++; if (n == 9) n = 1; } return n; }",
        "csharp": "static int f(int n) { while (n > 0) { n++; if (n == 9) n = 1; } return n; }",
    }[lang]
    result = run(box, lang, source, (0,), (1,), limits=Limits(wall_s=30, cpu_s=2))
    assert result.status in ("timeout", "cpu_limit")
    assert result.outputs == [0]


@each_language
def test_bytes_on_every_descriptor_make_nothing_ok(box: Sandbox, lang: str) -> None:
    source = {
        "go": 'import "syscall"\nfunc f(n int) int { for i := 3; i < 64; i++ '
        '{ syscall.Write(i, []byte("0123456789abcdefghij")) }; return n }',
        "java": "static int f(int n) throws Exception { for (int i = 3; i < 64; i++) "
        'try (var o = new java.io.FileOutputStream("/proc/self/fd/" + i)) { o.write(new byte[20]); } '
        "catch (java.io.IOException e) { } return n; }",
        "csharp": '[System.Runtime.InteropServices.DllImport("libc")] static extern IntPtr write(int f, '
        "byte[] d, IntPtr n);"
        "static int f(int n) { for (int i = 3; i < 64; i++) write(i, new byte[20], (IntPtr) 20); return n; }",
    }[lang]
    result = run(box, lang, source, (1,))
    assert result.status != "ok" or result.outputs == [1]


@each_language
def test_the_channel_is_not_the_descriptor_it_came_as(box: Sandbox, lang: str) -> None:
    source = {
        "go": 'import "syscall"\nfunc f(n int) bool { _, err := syscall.Write(3, make([]byte, 20)); return '
        "err != nil }",
        "java": 'static boolean f(int n) { try { new java.io.FileOutputStream("/proc/self/fd/3").write(1); '
        "return false; } catch (java.io.IOException e) { return true; } }",
        "csharp": '[System.Runtime.InteropServices.DllImport("libc")] static extern IntPtr write(int f, '
        "byte[] d, IntPtr n);"
        "static bool f(int n) { return (long) write(3, new byte[20], (IntPtr) 20) < 0; }",
    }[lang]
    result = run(box, lang, source, (1,))
    assert result.status == "ok"
    assert result.outputs == [True]


@each_language
def test_the_calls_are_out_of_sight_when_the_program_loads(box: Sandbox, lang: str) -> None:
    source = {
        "go": 'import "os"\nvar _, err = os.Stat("/tmp/calls.bin")\nfunc f() bool { return err != nil }',
        "java": 'static boolean gone = !new java.io.File("/tmp/calls.bin").exists(); static boolean f() { '
        "return gone; }",
        "csharp": 'static bool gone = !System.IO.File.Exists("/tmp/calls.bin"); static bool f() { return '
        "gone; }",
    }[lang]
    assert run(box, lang, source, ()).outputs == [True]


SCRIPT = {
    "go": """
        package main
        import ("bufio"; "fmt"; "os")
        func main() {
            data, _ := os.ReadFile("data.txt")
            fmt.Println(twice(21), string(data), os.Args[1:])
            for lines := bufio.NewScanner(os.Stdin); lines.Scan(); { fmt.Println(lines.Text()) }
            fmt.Fprint(os.Stderr, "bad")
            os.Exit(7)
        }
    """,
    "java": """
        import java.nio.file.*;
        import java.util.*;
        public class Main {
            public static void main(String[] args) throws Exception {
                String data = Files.readString(Path.of("data.txt"));
                System.out.println(Twice.twice(21) + " " + data + " " + List.of(args));
                Scanner lines = new Scanner(System.in);
                while (lines.hasNextLine()) System.out.println(lines.nextLine());
                System.err.print("bad");
                System.exit(7);
            }
        }
    """,
    "csharp": """
        using System;
        class Program {
            static void Main(string[] args) {
                var list = "[" + string.Join(", ", args) + "]";
                var data = System.IO.File.ReadAllText("data.txt");
                Console.WriteLine(Other.Twice(21) + " " + data + " " + list);
                string line;
                while ((line = Console.ReadLine()) != null) Console.WriteLine(line);
                Console.Error.Write("bad");
                Environment.Exit(7);
            }
        }
    """,
}
OTHER_FILE = {
    "go": {"twice.go": "package main\nfunc twice(n int) int { return 2 * n }"},
    "java": {"Twice.java": "class Twice { static int twice(int n) { return 2 * n; } }"},
    "csharp": {"lib/Other.cs": "static class Other { public static int Twice(int n) => 2 * n; }"},
}


@each_language
def test_a_script_has_its_files_its_input_its_arguments_and_its_exit_status(box: Sandbox, lang: str) -> None:
    files = {**OTHER_FILE[lang], "data.txt": "täglich"}
    result = script(box, lang, SCRIPT[lang], files, stdin="é\n\nlast", argv=("a", "-b"))
    separator = " " if lang == "go" else ", "
    assert result.stdout == f"42 täglich [a{separator}-b]\né\n\nlast\n"
    assert result.stderr == "bad"
    assert (result.status, result.exit_code) == ("exit", 7)
