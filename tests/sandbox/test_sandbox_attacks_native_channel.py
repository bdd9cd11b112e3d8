# ruff: noqa: E501 - a hostile program stands on one line where it can
"""Hostile programs in C that forge what the harness says, or take the place of what it needs of the library.

All that the harness knows can be had by a program in its own process, here by code that runs before it: the
job's secret, its calls, the channel. With these it can say values of its own or speak against itself.
"""

import hostile_languages
import pytest
from hostile_languages import WORKING, Ring, framed

from sandbox import encode

ring = pytest.fixture(scope="module")(hostile_languages.ring)
unharmed = pytest.fixture(autouse=True)(hostile_languages.unharmed)

THIEF = """
static char nonce[8], calls[4096];
static int calls_size;
static void steal(void) {
    int file = open("/tmp/calls.bin", O_RDONLY);
    calls_size = read(file, calls, sizeof calls);
    memcpy(nonce, calls, 8);
    close(file);
}
/* Before the harness reads its calls, which is as early as code of a program can run. */
__attribute__((section(".preinit_array"), used)) static void (*first)(void) = steal;
static void raw(const void *data, size_t size) {
    for (int i = 3; i < 64; i++) if (fcntl(i, F_GETFL) >= 0) write(i, data, size);
}
static void frame(char kind, const char *data, unsigned size) {
    char all[4096];
    memcpy(all, nonce, 8);
    all[8] = kind;
    memcpy(all + 9, &size, 4);
    memcpy(all + 13, data, size < 4000 ? size : 0);
    raw(all, 13 + (size < 4000 ? size : 0));
}
"""
ZERO, SEVEN = encode(0), b"v" + encode(7)


def sent(kind: str, payload: bytes = b"", size: int | None = None) -> str:
    data = "".join(f"\\x{byte:02x}" for byte in payload)
    return f"frame('{kind}', \"{data}\", {len(payload) if size is None else size});"


FORGERIES = {
    "done at once": sent("D", ZERO) + "_exit(0);",
    "done twice": sent("D", ZERO) * 2 + "_exit(0);",
    "answers": sent("R") + sent("O", SEVEN) * 3 + sent("D", ZERO) + "_exit(0);",
    "one answer too few": sent("O", SEVEN) * 2 + sent("D", ZERO) + "_exit(0);",
    "answers without end": "for (;;) {" + sent("O", SEVEN) + "}",
    "answers after the end": sent("D", ZERO) + sent("O", SEVEN) * 3 + "_exit(0);",
    "answers and then none": sent("O", SEVEN) * 3 + "return 0;",
    "ready without end": "for (;;) {" + sent("R") + "}",
    "a frame that claims gigabytes": sent("O", b"", 1 << 31) + "_exit(0);",
    "a frame that is cut off": sent("O", b"", 3000)[:-1] + "; _exit(0);",
    "half a head": "raw(nonce, 5); _exit(0);",
    "zeros": "raw(calls + 2000, 64); _exit(0);",
    "the calls": "raw(calls, calls_size); _exit(0);",
    "an answer of no kind": sent("O", b"z") + "_exit(0);",
    "an answer without an encoding": sent("O", b"v\xff") + "_exit(0);",
    "a list that claims much": sent("O", b"vl\xff\xff\xff\xff\x7f") + "_exit(0);",
    "deep lists": sent("O", b"v" + b"l\x01" * 2000) + "_exit(0);",
    "a record": sent("P", encode([1] * 5)) + "_exit(0);",
    "a file of a build": sent("B", encode(["program", 0o755, b""])) + "_exit(0);",
    "an answer to a suite": sent("A", encode([SEVEN, None, {}])) + "_exit(0);",
    "a broken suite": sent("X", encode(["suite-load", "x", "x", ""])) + "_exit(0);",
    "a failure of the harness": sent("X", encode(["harness", "x", "x", ""])) + "_exit(0);",
    "a full memory": sent("X", encode(["load", "x", "x", "memory"])) + "_exit(0);",
    "a failure without end": "for (;;) {" + sent("X", encode(["load", "x", "x", ""])) + "}",
    "noise without end": "for (;;) raw(calls, sizeof calls);",
}


@pytest.mark.parametrize("when", ["in a call", "at load"])
@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_frame_makes_no_pass_and_no_excuse(ring: Ring, name: str, when: str) -> None:
    head, _ = framed("c", "")
    head = head.split("const char *f")[0]
    attack = f"{head}{THIEF}static long forge(void) {{ {FORGERIES[name]} return 0; }}\n"
    if when == "in a call":
        attack += "long f(long a, long b) { return forge(); }"
    else:
        attack += "__attribute__((constructor)) static void early(void) { forge(); }\nlong f(long a, long b) { return 0; }"
    result = ring.calls("c", attack, WORKING)
    # Values of its own, or a word against itself: more it cannot say.
    allowed = {"ok", "exit", "unserializable", "output_limit", "cpu_limit", "exception", "memory_limit"}
    assert result.status in allowed, result
    assert all(type(value) is int for value in result.outputs)


# The harness asks the system by number and copies bytes itself: of the library it needs memory and `syscall`.
INTERPOSED = {
    "write says done": ("ssize_t write(int file, const void *data, size_t size) { return size; }", "ok"),
    "write says no": ("ssize_t write(int file, const void *data, size_t size) { return -1; }", "ok"),
    "write writes twice": (
        "ssize_t write(int file, const void *data, size_t size) {syscall(SYS_write, file, data, size); return syscall(SYS_write, file, data, size); }",
        "ok",
    ),
    "write writes one byte less": (
        "ssize_t write(int file, const void *data, size_t size) { syscall(SYS_write, file, data, size - 1); return size; }",
        "ok",
    ),
    "open opens something else": (
        'int open(const char *path, int flags, ...) { return syscall(SYS_openat, -100, "/dev/zero", 0); }',
        "ok",
    ),
    "read makes up the calls": (
        "ssize_t read(int file, void *data, size_t size) { memset(data, 1, size); return size; }",
        "ok",
    ),
    "malloc has nothing": ("void *malloc(size_t size) { return 0; }", "exit"),
    "malloc gives one place": (
        "static char place[1 << 20]; void *malloc(size_t size) { return place; }",
        "unserializable exit ok signal",
    ),
    "realloc has nothing": ("void *realloc(void *old, size_t size) { return 0; }", "ok"),
    "getpid is somebody else's": ("pid_t getpid(void) { static int next; return next++; }", "ok"),
    "getpid is everybody's": ("pid_t getpid(void) { return 7; }\nstatic int forked = 0;", "ok"),
    "_exit goes on": ("void _exit(int status) { for (;;) syscall(SYS_exit_group, 0); }", "ok"),
    "fcntl gives a file": (
        'int fcntl(int file, int command, ...) { return syscall(SYS_openat, -100, "/dev/null", 1); }',
        "ok",
    ),
    "syscall says done": ("long syscall(long number, ...) { return 1; }", "cpu_limit"),
    "memory and text functions": (
        "void *memcpy(void *to, const void *from, size_t size) { return to; } size_t strlen(const char *text) { return 1; } void *memset(void *to, int byte, size_t size) { return to; } int memcmp(const void *a, const void *b, size_t size) { return 0; }",
        "ok",
    ),
    "close and unlink do nothing": (
        "int close(int file) { return 0; } int unlink(const char *path) { return 0; }",
        "ok",
    ),
    "the harness's own": ("void sandbox_call(void *in, void *out) {}", "compile_error"),
    "a main of its own": ("#undef main\nint main(void) { return 0; }", "compile_error"),
    "the driver's macro": ("#undef SANDBOX_C_DRIVER\n#define SANDBOX_C_DRIVER(...)", "compile_error"),
    "keywords": ("#define static extern\n#define const\n#define int long", "ok compile_error"),
    "a start of its own": ("void _start(void) { for (;;) syscall(SYS_exit_group, 0); }", "compile_error"),
    "an early end": (
        "__attribute__((constructor(0))) static void end(void) { syscall(SYS_exit_group, 0); }",
        "exit",
    ),
    "no calls": (
        '__attribute__((constructor(0))) static void end(void) { unlink("/tmp/calls.bin"); }',
        "exit",
    ),
    "fewer calls": (
        '__attribute__((constructor(0))) static void end(void) { int file = open("/tmp/calls.bin", O_RDWR);pwrite(file, "\\0\\0\\0", 4, 8); }',
        "exit",
    ),
    "other calls": (
        '__attribute__((constructor(0))) static void end(void) { int file = open("/tmp/calls.bin", O_RDWR);pwrite(file, "\\x7f\\x7f\\x7f\\x7f", 4, 12); }',
        "signal",
    ),
    "an exit handler": (
        "static void end(void) { _exit(0); } __attribute__((constructor)) static void set(void) { atexit(end); }",
        "ok",
    ),
    "a destructor": ("__attribute__((destructor)) static void end(void) { for (;;) pause(); }", "ok"),
}


@pytest.mark.parametrize("name", INTERPOSED)
def test_a_solution_that_takes_the_place_of_the_library_gains_nothing(ring: Ring, name: str) -> None:
    text, expected = INTERPOSED[name]
    head, _ = framed("c", "")
    fork = "if (!forked++) fork();" if "forked" in text else ""
    source = f"{head.split('const char *f')[0]}{text}\nlong f(long a, long b) {{ {fork} return 7; }}"
    result = ring.calls("c", source, WORKING)
    assert result.status in expected.split(), result
