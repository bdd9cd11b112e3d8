# ruff: noqa: E501 - a hostile program stands on one line where it can
"""Hostile programs in JavaScript, TypeScript, Ruby and PHP: none passes, gets out, outlives its job or harms the next."""

import os
import socket
from pathlib import Path

import hostile_languages
import pytest
from hostile_languages import CLOSED, HIDDEN, PATIENT, WAITING, WORKING, Ring, ends_as_told

from sandbox import ErrorRecord, Limits

ring = pytest.fixture(scope="module")(hostile_languages.ring)
unharmed = pytest.fixture(autouse=True)(hostile_languages.unharmed)

SCRIPTING = ("javascript", "typescript", "ruby", "php")
SMALL = Limits(wall_s=30.0, cpu_s=20.0, memory_mb=64)
CROWD = Limits(wall_s=1.5, cpu_s=20.0, processes=8)
WORLD = {
    "javascript": """
        function attack() {
            const fs = require("fs"), net = require("net"), { spawnSync } = require("child_process");
            let told = "";
            for (const path of [@HIDDEN@]) {
                try { fs.readdirSync(path); told += path + " " } catch { }
                try { fs.readFileSync(path); told += path + " " } catch { }
                try { fs.realpathSync.native(path) === path && fs.openSync(path); told += "" } catch { }
            }
            for (const path of [@CLOSED@]) {
                try { fs.appendFileSync(path, "x"); told += path + " " } catch { }
            }
            const child = `const net = require("net");
                for (const to of [{ port: @PORT@, host: "127.0.0.1" }, { path: "@PATH@" }, { path: "\\\\0@NAME@" }])
                    net.connect(to).on("connect", () => console.log("connected", to)).on("error", () => 0);
                require("dgram").createSocket("udp4").on("error", () => 0).send("x", @PORT@, "127.0.0.1", (no) => no || console.log("udp"));
                require("dns").lookup("example.com", (no) => no || console.log("dns"));
                fetch("http://127.0.0.1:@PORT@/").then(() => console.log("http"), () => 0);
                try { require("inspector").open(0) } catch { }
                net.createServer().on("error", () => 0).listen(0, () => { console.log("listen"); process.exit() })`;
            return told + spawnSync(process.execPath, ["-e", child], { encoding: "utf8" }).stdout;
        }
        """,
    "ruby": """
        require "socket"
        def attack
          told = ""
          [@HIDDEN@].each do |path|
            told << path << " " if (Dir.children(path) rescue false)
            told << path << " " if (File.binread(path, 1) rescue false)
          end
          [@CLOSED@].each { |path| told << path << " " if (File.write(path, "x", mode: "a") rescue false) }
          told << "tcp " if (TCPSocket.new("127.0.0.1", @PORT@) rescue false)
          told << "udp " if (UDPSocket.new.send("x", 0, "127.0.0.1", @PORT@) rescue false)
          told << "unix " if (UNIXSocket.new("@PATH@") rescue false)
          told << "abstract " if (UNIXSocket.new("\\0@NAME@") rescue false)
          told << "dns " if (Addrinfo.getaddrinfo("example.com", 80) rescue false)
          told << "raw " if (Socket.new(:INET, :RAW, 1) rescue false)
          told << "listen " if (TCPServer.new("127.0.0.1", 0) rescue false)
          told << "fiddle " if (require "fiddle"; Fiddle::Function.new(Fiddle.dlopen(nil)["unshare"], [4], 4).call(0x10000000) >= 0) rescue false
          told << `cat /etc/shadow 2>/dev/null; id -u | grep -x 0`
        end
        """,
    "php": """
        function attack() {
            $told = "";
            foreach ([@HIDDEN@] as $path) {
                if (@scandir($path)) $told .= "$path ";
                if (@file_get_contents($path, false, null, 0, 1) !== false) $told .= "$path ";
            }
            foreach ([@CLOSED@] as $path) if (@file_put_contents($path, "x", FILE_APPEND)) $told .= "$path ";
            foreach (["tcp://127.0.0.1:@PORT@", "udp://127.0.0.1:@PORT@", "unix://@PATH@", "udg://@PATH@", "tcp://example.com:80"] as $to)
                if (@fwrite(@stream_socket_client($to, $e, $m, 1) ?: fopen("/dev/zero", "r"), "x")) $told .= "$to ";
            foreach (["http://127.0.0.1:@PORT@/", "ftp://127.0.0.1:@PORT@/x", "php://filter/read=string.rot13/resource=/etc/shadow"] as $to)
                if (@file_get_contents($to) !== false) $told .= "$to ";
            if (gethostbyname("example.com") !== "example.com") $told .= "dns ";
            if (@stream_socket_server("tcp://127.0.0.1:0")) $told .= "listen ";
            return $told . shell_exec("cat /etc/shadow 2>/dev/null; id -u | grep -x 0");
        }
        """,
}
WORLD["typescript"] = WORLD["javascript"]


@pytest.mark.parametrize("lang", SCRIPTING)
def test_nothing_of_the_host_is_read_written_or_reached(ring: Ring, lang: str, tmp_path: Path) -> None:
    with (
        socket.socket() as tcp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        tcp.bind(("127.0.0.1", 0))
        unix.bind(str(tmp_path / "socket"))
        abstract.bind(f"\0hostile-{os.getpid()}")
        for one in (tcp, unix, abstract):
            one.listen()
            one.setblocking(False)
        source = WORLD[lang]
        for key, value in (
            ("HIDDEN", ", ".join(f'"{path}"' for path in HIDDEN)),
            ("CLOSED", ", ".join(f'"{path}"' for path in CLOSED)),
            ("PORT", str(tcp.getsockname()[1])),
            ("PATH", str(tmp_path / "socket")),
            ("NAME", f"hostile-{os.getpid()}"),
        ):
            source = source.replace(f"@{key}@", value)
        told = ring.told(lang, source)
        assert [text or "" for text in told] == ["", "", "", ""]
        for one in (tcp, unix, abstract):
            with pytest.raises(BlockingIOError):
                one.accept()


def js(body: str, before: str = "") -> tuple[str, str]:
    return "javascript", f'{before}\nfunction attack() {{ {body}\nreturn "after" }}'


def ts(body: str, before: str = "") -> tuple[str, str]:
    return "typescript", f'{before}\nfunction attack(): string {{ {body}\nreturn "after" }}'


def ruby(body: str, before: str = "") -> tuple[str, str]:
    return "ruby", f'{before}\ndef attack\n{body}\n"after"\nend'


def php(body: str, before: str = "") -> tuple[str, str]:
    return "php", f'{before}\nfunction attack() {{ {body}\nreturn "after"; }}'


SPAWN = 'require("child_process").spawn("/bin/sleep", ["1000"], { detached: true, stdio: "ignore" })'
ENDS = {
    "JS exit": (js("process.exit(0)"), PATIENT, "exit", "ok"),
    "JS exit of its own": (js("process.reallyExit(0)"), PATIENT, "exit", "ok"),
    "JS exit as if the channel was lost": (js("process.exit(71)"), PATIENT, "unserializable", "exit"),
    "JS abort": (js("process.abort()"), PATIENT, "signal", "signal"),
    "JS kill of itself": (js('process.kill(process.pid, "SIGKILL"); for (;;);'), PATIENT, "signal", "signal"),
    "JS kill of all": (
        js(
            'for (const to of [1, -1, process.ppid]) for (const one of ["SIGKILL", "SIGSTOP"]) try { process.kill(to, one) } catch { }'
        ),
        PATIENT,
        "ok",
        "ok",
    ),
    "JS stop": (js('process.kill(process.pid, "SIGSTOP"); for (;;);'), WAITING, "timeout", "timeout"),
    "JS wait": (
        js("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)"),
        WAITING,
        "timeout",
        "timeout",
    ),
    "JS promise and a timer": (
        js("return new Promise(() => setInterval(() => 0, 50))"),
        WAITING,
        "timeout",
        "timeout",
    ),
    "JS work": (js("for (;;);"), WORKING, "cpu_limit", "cpu_limit"),
    "JS work of microtasks": (
        js("const again = () => Promise.resolve().then(again); return again()"),
        WORKING,
        "cpu_limit",
        "cpu_limit",
    ),
    "JS work that catches": (js("for (;;) try { attack.x.y } catch { }"), WORKING, "cpu_limit", "cpu_limit"),
    "JS backtracking": (js('/(x+x+)+y/.test("x".repeat(60))'), WORKING, "cpu_limit", "cpu_limit"),
    "JS a number without end": (js("let x = 3n; for (;;) x *= x"), WORKING, "cpu_limit ok", "cpu_limit exit"),
    "JS memory": (
        js("const all = []; for (;;) all.push(new Array(1000).fill(1.5))"),
        SMALL,
        "memory_limit",
        "memory_limit",
    ),
    "JS memory of buffers": (
        js("const all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1))"),
        SMALL,
        "memory_limit",
        "memory_limit",
    ),
    "JS stack": (js("return attack() + 1"), PATIENT, "ok", "exit"),
    "JS stack of a text": (js('JSON.parse("[".repeat(1e6))'), PATIENT, "ok", "output_limit exit"),
    "JS processes": (
        js(f"for (let i = 0; i < 50; i++) {SPAWN}; for (;;);"),
        WORKING,
        "proc_limit",
        "proc_limit",
    ),
    "JS threads": (
        js(
            'const { Worker } = require("worker_threads"); for (let i = 0; i < 20; i++) new Worker("for (;;);", { eval: true }); for (;;);'
        ),
        Limits(wall_s=30, cpu_s=1.5, processes=4),
        "proc_limit cpu_limit memory_limit signal exit",
        "proc_limit cpu_limit memory_limit signal exit",
    ),
    # Node.js spins while the pipe is full, so that which limit comes first depends on who else is at work.
    "JS output": (
        js('for (;;) console.log("more".repeat(5000))'),
        WORKING,
        "cpu_limit",
        "output_limit cpu_limit",
    ),
    "JS errors": (
        js('for (;;) console.error("more".repeat(5000))'),
        WORKING,
        "cpu_limit",
        "output_limit cpu_limit",
    ),
    "JS a throw later": (
        js('setTimeout(() => { throw new Error("no") }); return new Promise(() => 0)'),
        PATIENT,
        "exception",
        "exit",
    ),
    "JS listeners that go on": (
        js(
            'process.on("uncaughtException", () => attack()); process.on("exit", () => { for (;;); }); setImmediate(() => { throw 1 });'
            " return new Promise(() => 0)"
        ),
        WORKING,
        "cpu_limit ok",
        "cpu_limit",
    ),
    "TS exit": (ts("process.exit(0)"), PATIENT, "exit", "ok"),
    "TS work": (ts("for (;;);"), WORKING, "cpu_limit", "cpu_limit"),
    "Ruby exit": (ruby("exit 0"), PATIENT, "ok", "ok"),
    "Ruby exit!": (ruby("exit! 0"), PATIENT, "exit", "ok"),
    "Ruby abort": (ruby("abort"), PATIENT, "ok", "exit"),
    "Ruby kill of its thread": (ruby("Thread.current.kill"), PATIENT, "ok", "ok"),
    "Ruby another program": (ruby('exec "/bin/true"'), PATIENT, "exit", "ok"),
    "Ruby kill of itself": (ruby("Process.kill :KILL, 0; sleep"), PATIENT, "signal", "signal"),
    "Ruby kill of all": (
        ruby("[1, -1, Process.ppid].each { |one| Process.kill :KILL, one rescue 0 }"),
        PATIENT,
        "ok",
        "ok",
    ),
    "Ruby stop": (ruby("Process.kill :STOP, 0; sleep"), WAITING, "timeout", "timeout"),
    "Ruby sleep": (ruby("begin; sleep; rescue Exception; retry; end"), WAITING, "timeout", "timeout"),
    # Ruby notices the first one, and of those after it not every one.
    "Ruby deadlock": (ruby("Queue.new.pop"), WAITING, "ok timeout", "exit"),
    "Ruby work": (ruby("loop { }"), WORKING, "cpu_limit", "cpu_limit"),
    "Ruby work that ignores signals": (
        ruby('Signal.list.each_key { |one| trap(one, "IGNORE") rescue 0 }; loop { }'),
        WORKING,
        "cpu_limit",
        "cpu_limit",
    ),
    "Ruby backtracking": (ruby('("x" * 60 + " y") =~ /^(x+x+)+y/'), WORKING, "cpu_limit", "cpu_limit"),
    "Ruby memory": (ruby('all = []; loop { all << "x" * (1 << 16) }'), SMALL, "memory_limit", "memory_limit"),
    "Ruby stack": (ruby("attack + 1"), PATIENT, "ok", "exit"),
    "Ruby processes": (ruby("loop { fork { sleep } }"), CROWD, "proc_limit", "proc_limit exit"),
    "Ruby threads": (ruby("loop { Thread.new { sleep } }"), CROWD, "proc_limit", "proc_limit exit"),
    "Ruby output": (ruby('loop { puts "more" }'), WORKING, "cpu_limit", "output_limit"),
    "Ruby at exit": (ruby("at_exit { exit! 0 }; exit 3"), PATIENT, "ok", "ok"),
    "Ruby two returns of one call": (ruby("fork; Process.waitall"), PATIENT, "ok", "ok"),
    "Ruby a jump into an earlier call": (
        ruby(
            "$left ||= 3; callcc { |here| $here ||= here }; $here.call if ($left -= 1) > 0",
            "require 'continuation'",
        ),
        PATIENT,
        "ok exit",
        "ok",
    ),
    "Ruby the channel": (
        ruby("(3..63).each { |n| IO.for_fd(n, 'wb', autoclose: false).syswrite('x' * 99) rescue 0 }"),
        PATIENT,
        "unserializable",
        "ok exit",
    ),
    "Ruby all descriptors": (
        ruby("(0..63).each { |n| IO.for_fd(n).close rescue 0 }"),
        PATIENT,
        "unserializable exit signal",
        "ok exit signal",
    ),
    "PHP exit": (php("exit(0);"), PATIENT, "exit", "ok"),
    "PHP exit in a handler": (
        php("register_shutdown_function(fn() => exit(0)); exit(3);"),
        PATIENT,
        "exit",
        "ok",
    ),
    "PHP kill of itself": (php("exec('kill -9 ' . getmypid());"), PATIENT, "signal", "signal"),
    "PHP kill of all": (php("exec('kill -9 1; kill -9 $PPID -1');"), PATIENT, "signal", "signal"),
    "PHP stop": (php("exec('kill -19 ' . getmypid());"), WAITING, "timeout", "timeout"),
    "PHP sleep": (
        php("ignore_user_abort(true); set_time_limit(0); for (;;) sleep(1000);"),
        WAITING,
        "timeout",
        "timeout",
    ),
    "PHP its own time limit": (
        php("set_time_limit(1); for (;;);"),
        Limits(wall_s=30, cpu_s=5),
        "exception",
        "exit",
    ),
    "PHP work": (php("for (;;);"), WORKING, "cpu_limit", "cpu_limit"),
    "PHP memory": (
        php("for ($all = [];;) $all[] = str_repeat('x', 1 << 16);"),
        SMALL,
        "memory_limit",
        "memory_limit",
    ),
    "PHP stack": (php("return attack() . 1;"), SMALL, "memory_limit signal", "memory_limit signal"),
    "PHP collisions": (
        php("for ($all = [], $i = 0; $i < 40000; $i++) $all[$i << 16] = 1;"),
        WORKING,
        "cpu_limit",
        "cpu_limit",
    ),
    "PHP processes": (
        php("for (;;) if (@pcntl_fork() === 0) sleep(1000);"),
        WORKING,
        "proc_limit",
        "proc_limit",
    ),
    "PHP output": (php("for (;;) echo 'more';"), WORKING, "cpu_limit", "output_limit"),
    "PHP errors": (php("for (;;) fwrite(STDERR, 'more');"), WORKING, "cpu_limit", "output_limit"),
    "PHP a fatal error": (php("trigger_error('no', E_USER_ERROR);"), PATIENT, "exception", "exit"),
    "PHP handlers that throw": (
        php("set_error_handler(function () { throw new Exception; }); echo $none;"),
        PATIENT,
        "ok",
        "exit",
    ),
    "PHP two returns of one call": (php("pcntl_fork();"), PATIENT, "ok", "ok"),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_is_told_as_what_it_was(ring: Ring, name: str) -> None:
    ends_as_told(ring, ENDS[name])


# A value that claims to be what it is not. It comes back as what it is, or does not come back.
LIES = {
    "valueOf": (
        "javascript",
        "class Yes { valueOf() { return 6 } toString() { return '6' } toJSON() { return 6 } }; return new Yes()",
    ),
    "toPrimitive": (
        "javascript",
        "return { [Symbol.toPrimitive]: () => 6, toJSON: () => 6, valueOf: () => 6 }",
    ),
    "a Proxy": (
        "javascript",
        "return new Proxy([], { get: (_, name) => name === 'length' ? 1 : 6, getPrototypeOf: () => Array.prototype })",
    ),
    "a Proxy of a number": ("javascript", "return new Proxy(new Number(6), { get: () => 6 })"),
    "a boxed number": ("javascript", "return new Number(6)"),
    "a number of another realm": ("javascript", "return require('vm').runInNewContext('new Number(6)')"),
    "a list of another realm": ("javascript", "return require('vm').runInNewContext('[6]')"),
    "a list with a getter": (
        "javascript",
        "let n = 0; return Object.defineProperty([1], 0, { get: () => n++ ? 6 : 7 })",
    ),
    "a list with another length": ("javascript", "const x = [6]; x.length = 4294967295; return x"),
    "a subclass of Array": (
        "javascript",
        "class L extends Array { get length() { return 1 } }; return new L(6)",
    ),
    "a Map that answers": (
        "javascript",
        "const m = new Map(); m.get = () => 6; m.size; Object.defineProperty(m, 'size', { value: 1 }); return m",
    ),
    "an object with a then": ("javascript", "return { then: (done) => done(6) }"),
    "a promise with its own then": (
        "javascript",
        "const p = Promise.resolve(7); p.then = (done) => done(6); return p",
    ),
    "a promise of another species": (
        "javascript",
        "const p = Promise.resolve(7); p.constructor = { [Symbol.species]: class { constructor(run) { run(() => 0, () => 0) } } }; return p",
    ),
    "NaN": ("javascript", "return NaN"),
    "minus nothing": ("javascript", "return -0"),
    "an object of no class": (
        "javascript",
        "return Object.setPrototypeOf({ length: 1, 0: 6 }, Array.prototype)",
    ),
    "a type assertion": ("typescript", "return ({ valueOf: () => 6 } as unknown as number)"),
    "an enum": ("typescript", "enum E { a = 7 }; return E as unknown as number"),
    "a subclass of Integer's kin": (
        "ruby",
        "Class.new(Numeric) { def ==(o) = true; def coerce(o) = [o, o]; def to_int = 6 }.new",
    ),
    "a subclass of Array that lies": (
        "ruby",
        "Class.new(Array) { def length = 1; def [](i) = 6; def each = yield(6) }.new",
    ),
    "an object that is equal to all": (
        "ruby",
        "Class.new { def ==(o) = true; def eql?(o) = true; def hash = 6; def equal?(o) = true }.new",
    ),
    "a BasicObject": (
        "ruby",
        "Class.new(BasicObject) { def method_missing(*) = 6; def class = ::Integer }.new",
    ),
    "a class that lies of itself": (
        "ruby",
        "Class.new { def class = Integer; def is_a?(k) = true; def to_i = 6; def self.name = 'Integer' }.new",
    ),
    "a singleton method": ("ruby", "x = [7]; def x.at(i) = 6; x"),
    "a Comparable": ("ruby", "Struct.new(:v) { include Comparable; def <=>(o) = 0 }.new(6)"),
    "a Hash with a default": ("ruby", "Hash.new { 6 }"),
    "a text that is no text": ("ruby", '"\\xff6".dup.force_encoding("UTF-8")'),
    "ArrayAccess": (
        "php",
        "return new class implements ArrayAccess, Countable, Stringable, JsonSerializable {"
        "function offsetExists($x): bool { return true; } function offsetGet($x): mixed { return 6; }"
        "function offsetSet($x, $y): void { } function offsetUnset($x): void { } function count(): int { return 1; }"
        "function __toString(): string { return '6'; } function jsonSerialize(): mixed { return 6; } };",
    ),
    "a subclass of stdClass": (
        "php",
        "return new class extends stdClass { public $x = 6; function __get($n) { return 6; } };",
    ),
    "a generator": ("php", "return (function () { yield 6; })();"),
    "a reference to itself": ("php", "$x = [6]; $x[] = &$x; return $x;"),
    "a resource": ("php", "return fopen('/dev/null', 'r');"),
    "infinity": ("php", "return INF;"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_value_that_lies_is_not_the_right_one(ring: Ring, name: str) -> None:
    lang, text = LIES[name]
    head = {
        "javascript": "function f(a, b) {",
        "typescript": "function f(a: number, b: number) {",
        "ruby": "def f(a, b)\n",
        "php": "<?php function f($a, $b) {",
    }
    result = ring.calls(lang, f"{head[lang]} {text}{chr(10) + 'end' if lang == 'ruby' else '}'}")
    assert result.status in ("ok", "unserializable"), result
    assert not any(value in (6, [6], True) for value in result.outputs if not isinstance(value, ErrorRecord))


# What a program may put in place of all that the harness could call, and what it returns itself is 7.
PATCHES = {
    "JS prototypes": (
        "javascript",
        """
        const kinds = [
            Object, Array, Function, Promise, Map, Set, String, Number, Uint8Array, Buffer, JSON, Math, BigInt, Symbol,
            Proxy, RegExp, Error, TypeError, Float64Array, Object.getPrototypeOf(Uint8Array), TextDecoder, Reflect,
        ]
        const found = []
        for (const kind of kinds)
            for (const holder of [kind, kind.prototype ?? {}])
                for (const key of Reflect.ownKeys(holder)) found.push([holder, key])
        const six = () => 6
        for (let i = 0; i < found.length; i++)
            try { if (typeof found[i][0][found[i][1]] === "function") found[i][0][found[i][1]] = six } catch { }
        """,
    ),
    "JS setters on all objects": (
        "javascript",
        """
        const { defineProperty } = Object, names = ["value", "get", "set", "then", "type", "code", "0", "1", "2", "status"]
        for (let i = 0; i < names.length; i++)
            defineProperty(Object.prototype, names[i], {
                __proto__: null, get() { return 6 }, set() { throw 6 }, configurable: true
            })
        """,
    ),
    "JS modules": (
        "javascript",
        "const M = require('module'); M._load = M._resolveFilename = () => ({ f: () => 6 }); for (const name of ['fs', 'vm', 'util', 'path', 'events', 'buffer'])"
        " { const m = process.getBuiltinModule?.(name) ?? process.binding(name); for (const key of Object.keys(m)) try { m[key] = () => 6 } catch { } }",
    ),
    "JS process": (
        "javascript",
        "for (const key of Object.getOwnPropertyNames(process)) try { if (typeof process[key] === 'function' && key !== 'binding') process[key] = () => 6 } catch { };"
        "process.exitCode = 0; process.argv = []",
    ),
    "JS globals": (
        "javascript",
        "for (const key of Object.getOwnPropertyNames(globalThis)) try { globalThis[key] = () => 6 } catch { }",
    ),
    "JS the debugger": (
        "javascript",
        "const { Session } = require('inspector'); const s = new Session(); s.connect(); s.post('Debugger.enable'); s.post('Runtime.enable');"
        "s.post('Runtime.evaluate', { expression: 'nonce = [0]; count = 0' })",
    ),
    "TS prototypes": (
        "typescript",
        "Array.prototype.push = () => 6; Object.freeze(Object.prototype); (JSON as any).stringify = () => '6'",
    ),
    "Ruby integers": (
        "ruby",
        "class Integer; %i[== + - * / < > <= >= & | <=> ===].each { |one| define_method(one) { |other| one.size == 1 ? 7 : true } rescue 0 }; end",
    ),
    "Ruby classes": (
        "ruby",
        "[String, Hash, Symbol, NilClass, Exception, IO, File, Process.singleton_class, Set, Array].each { |kind|"
        " (kind.instance_methods(false) - %i[object_id __send__ initialize]).each { |one| kind.define_method(one) { |*| 6 } rescue 0 } }",
    ),
    "Ruby kernel": (
        "ruby",
        "module Kernel; %i[raise exit exit! class puts print require freeze send method catch throw proc lambda].each { |one|"
        " define_method(one) { |*| 6 } }; end",
    ),
    "Ruby hidden objects": (
        "ruby",
        "ObjectSpace.each_object { |one| one.instance_variables.each { |n| one.instance_variable_set(n, 0) rescue 0 } rescue 0 }",
    ),
    "Ruby traces": (
        "ruby",
        "TracePoint.new(:call, :c_call) { |t| raise 'no' if rand < 0.2 && $x }.enable; $x = 1",
    ),
    "Ruby constants": ("ruby", "Object.constants.each { |one| Object.send(:remove_const, one) rescue 0 }"),
    "PHP the harness's private parts": (
        "php",
        "\\Closure::bind(function () { foreach (['calls' => 'x', 'nonce' => '12345678', 'entry' => 'g', 'over' => true] as $n => $v) self::$$n = $v; },"
        " null, \\SandboxHarness\\Harness::class)();",
    ),
    "PHP a stream of its own": (
        "php",
        "stream_wrapper_unregister('php'); class W { function stream_open() { return true; } function stream_write($x) { return strlen($x); } }"
        " stream_wrapper_register('php', 'W');",
    ),
    "PHP buffers": (
        "php",
        "ob_start(fn() => ''); register_tick_function(fn() => exit(0)); ini_set('output_handler', 'f'); error_reporting(0);",
    ),
}


@pytest.mark.parametrize("name", PATCHES)
def test_a_solution_that_replaces_what_the_harness_may_need_gains_nothing(ring: Ring, name: str) -> None:
    lang, text = PATCHES[name]
    solution = {
        "javascript": f"module.exports = {{ f: () => 7 }};\n{text}",
        "typescript": f"export function f(a: number, b: number) {{ return 7 }}\n{text}",
        "ruby": f"def f(a, b) = 7\n{text}",
        "php": f"<?php function f($a, $b) {{ return 7; }} {text}",
    }[lang]
    result = ring.calls(lang, solution)
    # An answer of its own, or an end: a program that breaks its own runtime may die of it in many ways.
    assert result.status in ("ok", "exit", "exception", "unserializable", "signal", "compile_error"), result
    assert all(value == 7 or isinstance(value, ErrorRecord) for value in result.outputs), result


LEAVERS = {
    "JS detached": js(f"{SPAWN}.unref()"),
    "JS detached that holds the pipes": js(
        'require("child_process").spawn("/bin/sh", ["-c", "trap \'\' TERM; sleep 1000"], { detached: true, stdio: "inherit" }).unref()'
    ),
    "JS files": js(
        'const fs = require("fs"); for (let i = 0; i < 300; i++) fs.writeFileSync(`/tmp/left${i}`, ""); try { fs.symlinkSync("/", "/tmp/root") } catch { }'
    ),
    "TS detached": ts(f"{SPAWN}.unref()"),
    "Ruby daemon": ruby("fork { Process.setsid; fork { trap(:TERM, 'IGNORE'); sleep } }"),
    "Ruby spawn": ruby("spawn('sleep 1000 & sleep 1000', pgroup: true)"),
    "PHP daemon": php("if (pcntl_fork() === 0) { for (;;) sleep(1000); }"),
    "PHP spawn": php("exec('setsid sleep 1000 >/dev/null 2>&1 &');"),
}


@pytest.mark.parametrize("name", LEAVERS)
def test_nothing_outlives_its_job(ring: Ring, name: str) -> None:
    assert ring.told(*LEAVERS[name]) == ["after"] * 4


@pytest.mark.parametrize("lang", SCRIPTING)
def test_bytes_that_are_no_text_do_no_harm(ring: Ring, lang: str) -> None:
    source = {
        "javascript": 'function attack() { require("fs").writeSync(1, Buffer.from([255, 254, 10])); return "after" }',
        "typescript": 'function attack() { require("fs").writeSync(1, Buffer.from([255, 254, 10])); return "after" }',
        "ruby": 'def attack\n$stdout.write("\\xff\\xfe\\n"); $stdout.flush; "after"\nend',
        "php": 'function attack() { echo "\\xff\\xfe\\n"; return "after"; }',
    }[lang]
    called, ran = ring.both(lang, source)
    assert (called.status, called.stdout) == ("ok", "\ufffd\ufffd\n" * 3)
    assert (ran.status, ran.stdout) == ("ok", "\ufffd\ufffd\nafter")
