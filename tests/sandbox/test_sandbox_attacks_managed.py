# ruff: noqa: E501 - a hostile program stands on one line where it can
"""Hostile programs in Java and C#: none passes, gets out, outlives its job or harms the next one."""

import socket
from pathlib import Path

import hostile_languages
import pytest
from hostile_languages import CLOSED, HIDDEN, PATIENT, WAITING, WORKING, Ring, ends_as_told, framed

from sandbox import ErrorRecord, Limits

ring = pytest.fixture(scope="module")(hostile_languages.ring)
unharmed = pytest.fixture(autouse=True)(hostile_languages.unharmed)

MANAGED = ("java", "csharp")
SMALL = Limits(wall_s=30.0, cpu_s=20.0, memory_mb=64)
CROWD = Limits(wall_s=2.0, cpu_s=20.0, processes=8)
WORLD = {
    "java": """
        static String attack() {
            var told = new StringBuilder();
            for (String path : new String[] {%s}) {
                File file = new File(path);
                if (file.list() != null) told.append(path).append(" ");
                try (var in = new FileInputStream(file)) { in.read(); told.append(path).append(" "); } catch (IOException no) { }
            }
            for (String path : new String[] {%s})
                try (var out = new FileOutputStream(path, true)) { out.write(1); told.append(path).append(" "); } catch (IOException no) { }
            try { new Socket("127.0.0.1", @).close(); told.append("tcp "); } catch (IOException no) { }
            try { new ServerSocket(0).close(); told.append("listen "); } catch (IOException no) { }
            try {
                byte[] data = {1};
                new DatagramSocket().send(new java.net.DatagramPacket(data, 1, InetAddress.getByName("127.0.0.1"), @));
                told.append("udp ");
            } catch (IOException no) { }
            try { InetAddress.getByName("example.com"); told.append("dns "); } catch (IOException no) { }
            try { new URL("http://127.0.0.1:@/").openStream().close(); told.append("http "); } catch (IOException no) { }
            try {
                var at = UnixDomainSocketAddress.of("@PATH@");
                java.nio.channels.SocketChannel.open(at).close();
                told.append("unix ");
            } catch (IOException no) { }
            return told.toString();
        }
        """,
    "csharp": """
        static string attack() {
            var told = "";
            foreach (var path in new[] {%s}) {
                try { Directory.GetFileSystemEntries(path); told += path + " "; } catch (Exception) { }
                try { using (var file = File.OpenRead(path)) file.ReadByte(); told += path + " "; } catch (Exception) { }
            }
            foreach (var path in new[] {%s})
                try { File.AppendAllText(path, "x"); told += path + " "; } catch (Exception) { }
            try { new TcpClient("127.0.0.1", @).GetStream(); told += "tcp "; } catch (Exception) { }
            try { new TcpListener(IPAddress.Loopback, 0).Start(); told += "listen "; } catch (Exception) { }
            try { new UdpClient("127.0.0.1", @).Send(new byte[1], 1); told += "udp "; } catch (Exception) { }
            try { Dns.GetHostEntry("example.com"); told += "dns "; } catch (Exception) { }
            try { WebRequest.Create("http://127.0.0.1:@/").GetResponse(); told += "http "; } catch (Exception) { }
            return told;
        }
        """,
}


@pytest.mark.parametrize("lang", MANAGED)
def test_nothing_of_the_host_is_read_written_or_reached(ring: Ring, lang: str, tmp_path: Path) -> None:
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("127.0.0.1", 0))
        unix.bind(str(tmp_path / "socket"))
        for one in (tcp, unix):
            one.listen()
            one.setblocking(False)
        lists = [", ".join(f'"{path}"' for path in paths) for paths in (HIDDEN, CLOSED)]
        source = WORLD[lang] % tuple(lists)
        source = source.replace("@PATH@", str(tmp_path / "socket")).replace("@", str(tcp.getsockname()[1]))
        assert ring.told(lang, source) == ["", "", "", ""]
        for one in (tcp, unix):
            with pytest.raises(BlockingIOError):
                one.accept()


def java(body: str, before: str = "") -> tuple[str, str]:
    return (
        "java",
        f'{before}\nstatic String attack() throws Throwable {{ if (true) {{ {body} }}\nreturn "after"; }}',
    )


def cs(body: str, before: str = "") -> tuple[str, str]:
    return "csharp", f'{before}\nstatic string attack() {{ {body}\nreturn "after"; }}'


LIBC = '[DllImport("libc")] static extern int %s;'
ENDS = {
    "Java exit": (java("System.exit(0);"), PATIENT, "exit", "ok"),
    "Java halt": (java("Runtime.getRuntime().halt(0);"), PATIENT, "exit", "ok"),
    "Java halt with the harness's own": (
        java("Runtime.getRuntime().halt(71);"),
        PATIENT,
        "unserializable",
        "exit",
    ),
    "Java exit that never ends": (
        java(
            "Runtime.getRuntime().addShutdownHook(new Thread(() -> { while (true) try { Thread.sleep(99); } catch"
            " (InterruptedException e) { } })); System.exit(0);"
        ),
        WAITING,
        "timeout",
        "timeout",
    ),
    "Java wild pointer": (
        java(
            'Field one = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe"); one.setAccessible(true);'
            "((sun.misc.Unsafe) one.get(null)).putLong(1L, 1L);"
        ),
        # The JVM takes the signal itself, writes of it, and aborts.
        PATIENT,
        "signal",
        "signal",
    ),
    "Java kill of itself": (
        java('new ProcessBuilder("/bin/sh", "-c", "kill -9 $PPID; kill -9 1 -1").start().waitFor();'),
        PATIENT,
        "signal",
        "signal",
    ),
    "Java work": (java("while (true) { }"), WORKING, "cpu_limit", "cpu_limit"),
    "Java work of threads": (
        java(
            "for (int i = 0; i < 3; i++) new Thread(() -> { while (true) { } }).start(); Thread.sleep(1 << 20);"
        ),
        WORKING,
        "cpu_limit",
        "cpu_limit",
    ),
    "Java sleep": (java("Thread.sleep(1L << 40);"), WAITING, "timeout", "timeout"),
    "Java deadlock": (
        java("Object one = new Object(); synchronized (one) { one.wait(); }"),
        WAITING,
        "timeout",
        "timeout",
    ),
    "Java memory": (
        java("List<byte[]> all = new ArrayList<>(); while (true) all.add(new byte[1 << 16]);"),
        SMALL,
        "memory_limit",
        "memory_limit exit",
    ),
    "Java memory beside the heap": (
        java(
            "List<java.nio.ByteBuffer> all = new ArrayList<>(); while (true) all.add(java.nio.ByteBuffer.allocateDirect(1 << 20));"
        ),
        # The JVM bounds such memory by the heap's size.
        SMALL,
        "memory_limit",
        "memory_limit exit",
    ),
    "Java collection in vain": (
        java(
            "Map<Long, Object> all = new HashMap<>(); try { for (long i = 0;; i++) all.put(i, new long[9]); }"
            " catch (OutOfMemoryError no) { for (long i = 0;; i++) all.put(i % 1000, new long[9]); }"
        ),
        Limits(wall_s=30, cpu_s=0.9, memory_mb=32),
        "cpu_limit memory_limit",
        "cpu_limit memory_limit",
    ),
    "Java stack": (
        java("deep(0);", "static int deep(int n) { return deep(n + 1) + 1; }"),
        SMALL,
        "ok",
        "exit",
    ),
    "Java threads": (
        java(
            "while (true) new Thread(() -> { try { Thread.sleep(1 << 30); } catch (InterruptedException e) { } }).start();"
        ),
        CROWD,
        "proc_limit",
        "proc_limit exit",
    ),
    "Java processes": (
        java('while (true) new ProcessBuilder("/bin/sleep", "1000").start();'),
        CROWD,
        "proc_limit",
        "proc_limit exit",
    ),
    "Java backtracking": (
        java('"x".repeat(40).matches("(x+x+)+(\\\\1)?y");'),
        WORKING,
        "cpu_limit",
        "cpu_limit",
    ),
    "Java output": (java('while (true) System.out.println("more");'), WORKING, "cpu_limit", "output_limit"),
    "Java errors": (java('while (true) System.err.println("more");'), WORKING, "cpu_limit", "output_limit"),
    "Java class that never loads": (
        java(
            "Never.now();",
            "static class Never { static int x; static { while (x == 0) { } } static void now() { } }",
        ),
        WORKING,
        "cpu_limit",
        "cpu_limit",
    ),
    "Java the channel": (
        java('new FileOutputStream("/proc/self/fd/3").write(new byte[100]);'),
        PATIENT,
        "unserializable ok",
        "ok exit",
    ),
    "Java its own streams": (
        java(
            "System.setOut(null); System.setErr(new PrintStream(new OutputStream() { public void write(int b) { throw new Error(); } }));"
        ),
        PATIENT,
        "ok",
        "ok",
    ),
    "C# exit": (cs("Environment.Exit(0);"), PATIENT, "exit", "ok"),
    "C# fail fast": (cs('Environment.FailFast("no");'), PATIENT, "signal exit", "signal exit"),
    "C# exit of the library": (cs("_exit(0);", LIBC % "_exit(int status)"), PATIENT, "exit", "ok"),
    "C# abort": (cs("abort();", LIBC % "abort()"), PATIENT, "signal exit", "signal exit"),
    "C# wild pointer": (cs("Marshal.WriteInt32(new IntPtr(1), 1);"), PATIENT, "signal ok", "signal exit"),
    "C# kill of its group": (
        cs("kill(0, 9);", LIBC % "kill(int pid, int signal)"),
        PATIENT,
        "signal",
        "signal",
    ),
    "C# stop": (cs("raise(19);", LIBC % "raise(int signal)"), WAITING, "timeout", "timeout"),
    "C# work": (cs("while (true) { }"), WORKING, "cpu_limit", "cpu_limit"),
    "C# sleep": (cs("Thread.Sleep(Timeout.Infinite);"), WAITING, "timeout", "timeout"),
    "C# memory": (
        cs("var all = new List<byte[]>(); while (true) all.Add(new byte[1 << 16]);"),
        SMALL,
        "memory_limit",
        "memory_limit exit signal",
    ),
    "C# memory beside the heap": (
        cs(
            "while (true) { var at = Marshal.AllocHGlobal(1 << 20); for (int i = 0; i < 256; i++) Marshal.WriteByte(at, i << 12, 1); }"
        ),
        SMALL,
        "memory_limit",
        "memory_limit",
    ),
    "C# stack": (
        cs("deep(0);", "static int deep(int n) { return deep(n + 1) + 1; }"),
        PATIENT,
        "ok signal",
        "exit signal",
    ),
    "C# threads": (
        cs("while (true) new Thread(() => Thread.Sleep(1 << 30)).Start();"),
        CROWD,
        "proc_limit",
        "proc_limit exit signal",
    ),
    "C# processes": (
        cs('while (true) Process.Start("/bin/sleep", "1000");'),
        CROWD,
        "proc_limit",
        "proc_limit exit",
    ),
    "C# finalizer": (
        cs(
            "new Never(); GC.Collect(); GC.WaitForPendingFinalizers();",
            "class Never { ~Never() { while (true) { } } }",
        ),
        WORKING,
        "cpu_limit ok",
        "cpu_limit ok",
    ),
    "C# end of its domain": (cs("AppDomain.Unload(AppDomain.CurrentDomain);"), PATIENT, "ok exit", "ok exit"),
    "C# exception of another thread": (
        cs("new Thread(() => { throw new Exception(); }).Start(); Thread.Sleep(5000);"),
        PATIENT,
        "exit signal",
        "exit signal",
    ),
    "C# output": (cs('while (true) Console.WriteLine("more");'), WORKING, "cpu_limit", "output_limit"),
    "C# the channel": (
        cs(
            "for (int i = 3; i < 64; i++) write(i, new byte[100], 100);",
            LIBC % "write(int file, byte[] data, long size)",
        ),
        PATIENT,
        "unserializable",
        "ok signal exit",
    ),
    "C# all descriptors": (
        cs("for (int i = 0; i < 64; i++) close(i);", LIBC % "close(int file)"),
        PATIENT,
        "unserializable exit signal timeout",
        "ok exit signal timeout",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_is_told_as_what_it_was(ring: Ring, name: str) -> None:
    ends_as_told(ring, ENDS[name])


LIES = {
    "Java equals": (
        "java",
        'return new Object() { public boolean equals(Object o) { return true; } public int hashCode() { return 6; } public String toString() { return "6"; } };',
    ),
    "Java number": (
        "java",
        "return new Number() { public int intValue() { return 6; } public long longValue() { return 6; } public float floatValue() { return 6; } public double doubleValue() { return 6; } };",
    ),
    "Java list": (
        "java",
        "return new java.util.AbstractList<Object>() { int n; public int size() { return 1; } public Object get(int i) { return n++ == 0 ? 7 : 6; } };",
    ),
    "Java list with another size": (
        "java",
        "return new java.util.ArrayList<Object>() { { add(7); } public int size() { return 9; } };",
    ),
    "Java part of such a list": (
        "java",
        "return new java.util.AbstractList<Object>() { public int size() { return 2; } public Object get(int i) { return new Object[0]; } }.subList(0, 1);",
    ),
    "Java view of such a map": (
        "java",
        "return java.util.Collections.unmodifiableMap(new java.util.TreeMap<>((p, q) -> 0) { { put(1, 7); } public Object get(Object k) { return 6; } });",
    ),
    "Java set in another order": (
        "java",
        "var s = new java.util.TreeSet<Integer>((p, q) -> 1); s.add(7); s.add(7); return s;",
    ),
    "Java keys that change": (
        "java",
        "var k = new java.util.ArrayList<>(java.util.List.of(1)); var m = new java.util.HashMap<Object, Object>(java.util.Map.of(java.util.List.of(1), 7)); m.put(k, 7); k.add(2); return m;",
    ),
    "Java list that holds itself": ("java", "var l = new java.util.ArrayList<Object>(); l.add(l); return l;"),
    "Java NaN": ("java", "return 0.0 / 0.0;"),
    "Java enum": ("java", 'enum E { A { public String toString() { return "6"; } } } return E.A;'),
    "Java text of halves": ("java", 'return "\\ud83d" + "6";'),
    "C# equals": (
        "csharp",
        "return new Yes();",
        'class Yes { public override bool Equals(object o) { return true; } public override int GetHashCode() { return 6; } public static implicit operator int(Yes y) { return 6; } public override string ToString() { return "6"; } }',
    ),
    "C# list": (
        "csharp",
        "return new L { 7 };",
        "class L : List<int> { public new int Count { get { return 1; } } public new int this[int i] { get { return 6; } } }",
    ),
    "C# dictionary": (
        "csharp",
        "return new Dictionary<int, int>(new Same()) { { 1, 7 } };",
        "class Same : IEqualityComparer<int> { public bool Equals(int a, int b) { return true; } public int GetHashCode(int a) { return 0; } }",
    ),
    "C# enumeration": (
        "csharp",
        "return Lies();",
        "static IEnumerable<int> Lies() { yield return 7; throw new Exception(); }",
    ),
    "C# delegate": ("csharp", "return new Func<int>(() => 6);", ""),
    "C# convertible": (
        "csharp",
        "return new C();",
        "struct C : IComparable { public int CompareTo(object o) { return 0; } public static bool operator ==(C a, object b) { return true; } public static bool operator !=(C a, object b) { return false; } public override bool Equals(object o) { return true; } public override int GetHashCode() { return 0; } }",
    ),
    "C# enum": ("csharp", "return E.A;", "enum E { A = 7 }"),
    "C# pointer": ("csharp", "return new IntPtr(6);", ""),
}


@pytest.mark.parametrize("name", LIES)
def test_a_value_that_lies_is_not_the_right_one(ring: Ring, name: str) -> None:
    lang, body, *more = LIES[name]
    head = "" if lang == "java" else "using System; using System.Collections.Generic;\n"
    kind = "Object" if lang == "java" else "object"
    result = ring.calls(
        lang, f"{head}class Solution {{ {''.join(more)} static {kind} f(long a, long b) {{ {body} }} }}"
    )
    assert result.status in ("ok", "unserializable"), result
    assert not any(value in (6, [6], True) for value in result.outputs if not isinstance(value, ErrorRecord))


# What a program may do to the harness in its own process by reflection. Its own answer is 7.
REACHES = {
    "Java the harness's own classes": (
        "java",
        """
        for (String name : new String[] {"Calls", "Encoder", "Values", "Node"}) {
            Class<?> kind = Class.forName("sandbox.calls." + name, false, ClassLoader.getSystemClassLoader());
            for (Field field : kind.getDeclaredFields()) {
                field.setAccessible(true);
                if (Modifier.isStatic(field.getModifiers()) && !field.getType().isPrimitive())
                    try { field.set(null, null); } catch (IllegalAccessException no) { }
            }
        }
        """,
    ),
    "Java a harness of its own": (
        "java",
        """
        Class<?> kind = Class.forName("sandbox.calls.Calls", true, ClassLoader.getSystemClassLoader());
        Method main = kind.getMethod("main", String[].class);
        main.setAccessible(true);
        main.invoke(null, (Object) new String[] {"f", "/tmp/work/classes", "1000000"});
        """,
    ),
    "Java numbers that are others": (
        "java",
        """
        Class<?> cache = Class.forName("java.lang.Integer$IntegerCache");
        Field field = cache.getDeclaredField("cache");
        field.setAccessible(true);
        Integer[] all = (Integer[]) field.get(null);
        for (int i = 0; i < all.length; i++) all[i] = 6;
        """,
    ),
    "Java open lists": (
        "java",
        """
        for (Class<?> kind : new Class<?>[] {ArrayList.class, HashMap.class, FileOutputStream.class, FileDescriptor.class})
            for (Field field : kind.getDeclaredFields())
                if (Modifier.isStatic(field.getModifiers()) && !field.getType().isPrimitive()) {
                    field.setAccessible(true);
                    try { field.set(null, null); } catch (IllegalAccessException no) { }
                }
        """,
    ),
    "Java the descriptor": (
        "java",
        """
        var made = FileDescriptor.class.getDeclaredConstructor(int.class);
        made.setAccessible(true);
        new FileOutputStream(made.newInstance(3)).close();
        """,
    ),
    "Java streams and a manager": (
        "java",
        """
        System.setProperty("java.security.manager", "allow");
        System.setOut(null);
        System.setErr(null);
        System.setIn(null);
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> Runtime.getRuntime().halt(0));
        System.setSecurityManager(new SecurityManager() { public void checkPermission(java.security.Permission p) { throw new SecurityException(); } });
        """,
    ),
    "Java its own thread": (
        "java",
        "Thread main = Thread.currentThread(); new Thread(() -> { while (true) main.interrupt(); }).start();",
    ),
    "C# the harness's own fields": (
        "csharp",
        """
        foreach (var type in Assembly.GetEntryAssembly().GetTypes())
            foreach (var field in type.GetFields(BindingFlags.Static | BindingFlags.NonPublic | BindingFlags.Public))
                try { field.SetValue(null, null); } catch (Exception) { }
        """,
    ),
    "C# a harness of its own": (
        "csharp",
        'Assembly.GetEntryAssembly().EntryPoint.Invoke(null, new object[] { new[] { "f", "/tmp/work/Solution.dll", "1000000" } });',
    ),
    "C# console": (
        "csharp",
        "Console.SetOut(null); Console.OpenStandardOutput().Close(); AppDomain.CurrentDomain.ProcessExit += (a, b) => Environment.Exit(0);",
    ),
    "C# events": (
        "csharp",
        "AppDomain.CurrentDomain.FirstChanceException += (a, b) => Environment.Exit(0); AppDomain.CurrentDomain.AssemblyResolve += (a, b) => null;",
    ),
}


@pytest.mark.parametrize("when", ["in a call", "at load"])
@pytest.mark.parametrize("name", REACHES)
def test_a_solution_that_reaches_for_the_harness_gains_nothing(ring: Ring, name: str, when: str) -> None:
    lang, body = REACHES[name]
    if lang == "java":
        reach = f"static void reach() {{ try {{ {body} }} catch (Throwable no) {{ }} }}"
        early = "static { reach(); }"
    else:
        reach = f"static void reach() {{ try {{ {body} }} catch (Exception) {{ }} }}"
        early = "static Solution() { reach(); }"
    head = framed(lang, "")[0].split("class Solution")[0]
    first, last = ("reach();", "") if when == "in a call" else ("", early)
    source = (
        f"{head}class Solution {{ {reach} {last} static long f(long a, long b) {{ {first} return 7; }} }}"
    )
    result = ring.calls(lang, source)
    assert result.status in ("ok", "exit", "exception", "unserializable", "signal"), result
    assert all(value in (6, 7) or isinstance(value, ErrorRecord) for value in result.outputs), result


LEAVERS = {
    "Java process": java(
        'new ProcessBuilder("/bin/sh", "-c", "sleep 1000 & sleep 1000").inheritIO().start();'
    ),
    "Java files": java(
        'for (int i = 0; i < 300; i++) new FileOutputStream("/tmp/left" + i).close(); Files.createTempDirectory("x");'
    ),
    "C# process": cs(
        'Process.Start(new ProcessStartInfo("/bin/sh", "-c \'setsid sleep 1000 & sleep 1000\'") { UseShellExecute = false });'
    ),
    "C# daemon": cs(
        "if (fork() == 0) { setsid(); pause(); }",
        " ".join(LIBC % name for name in ("fork()", "setsid()", "pause()")),
    ),
    "C# shared memory": cs(
        'System.IO.MemoryMappedFiles.MemoryMappedFile.CreateFromFile("/dev/shm/left", FileMode.Create, null, 4096);'
    ),
}


@pytest.mark.parametrize("name", LEAVERS)
def test_nothing_outlives_its_job(ring: Ring, name: str) -> None:
    lang, attack = LEAVERS[name]
    called, ran = ring.both(lang, attack)
    assert (called.status, ran.status) == ("ok", "ok"), (called, ran)


@pytest.mark.parametrize("lang", MANAGED)
def test_bytes_that_are_no_text_do_no_harm(ring: Ring, lang: str) -> None:
    written = {
        "java": "System.out.write(new byte[] {-1, -2, 10}); System.out.flush();",
        "csharp": "using (var o = Console.OpenStandardOutput()) o.Write(new byte[] {255, 254, 10}, 0, 3);",
    }[lang]
    called, ran = ring.both(*(java(written) if lang == "java" else cs(written)))
    assert (called.status, called.stdout) == ("ok", "\ufffd\ufffd\n" * 3)
    assert (ran.status, ran.stdout) == ("ok", "\ufffd\ufffd\nafter")
