# ruff: noqa: E501 - a hostile program stands on one line where it can
"""Hostile programs in C, C++, Go and Rust: none passes, gets out, outlives its job or harms the next one."""

import os
import socket
from collections.abc import Iterator

import hostile_languages
import pytest
from hostile_languages import CLOSED, HIDDEN, PATIENT, WAITING, WORKING, Ring, ends_as_told, need

from sandbox import Limits, languages

ring = pytest.fixture(scope="module")(hostile_languages.ring)
unharmed = pytest.fixture(autouse=True)(hostile_languages.unharmed)

NATIVE = ("c", "cpp", "go", "rust")


# Nothing of these is for a program to see: the host's, other users', PID 1's and the supervisor's.
# Nor are these to be written to.
def strings(items: list[str]) -> str:
    """The inner part of a list of strings, as all four languages write it."""
    return ", ".join(f'"{item}"' for item in items)


# Opens each path, to read and to write; what could be opened is what it tells.
OPENERS = {
    "c": """
        static char told[65536];
        static const char *paths[] = {%s};
        const char *attack(void) {
            told[0] = 0;
            for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
                int file = open(paths[i], %d | O_CREAT * (%d != 0) | O_NONBLOCK, 0666);
                if (file >= 0) { strcat(told, paths[i]); strcat(told, " "); close(file); }
            }
            return told;
        }
        """,
    "cpp": """
        static std::string attack() {
            std::string told;
            for (std::string path : {%s}) {
                int file = open(path.c_str(), %d | O_CREAT * (%d != 0) | O_NONBLOCK, 0666);
                if (file >= 0) { told += path + " "; close(file); }
            }
            return told;
        }
        """,
    "go": """
        import (
            "os"
            "syscall"
        )
        func attack() string {
            told := ""
            for _, path := range []string{%s} {
                flags := %d
                if %d != 0 { flags |= os.O_CREATE }
                file, err := os.OpenFile(path, flags | syscall.O_NONBLOCK, 0666)
                if err == nil { told += path + " "; file.Close() }
            }
            return told
        }
        """,
    "rust": """
        fn attack() -> String {
            let mut told = String::new();
            for path in [%s] {
                let mut options = std::fs::OpenOptions::new();
                if %d == 0 { options.read(true); } else { options.append(true).create(%d != 0); }
                if options.open(path).is_ok() { told += path; told += " "; }
            }
            told
        }
        """,
}


@pytest.mark.parametrize("lang", NATIVE)
def test_nothing_of_the_host_can_be_opened(ring: Ring, lang: str) -> None:
    assert ring.told(lang, OPENERS[lang] % (strings(HIDDEN), 0, 0)) == ["", "", "", ""]


@pytest.mark.parametrize("lang", NATIVE)
def test_nothing_but_tmp_can_be_written_to(ring: Ring, lang: str) -> None:
    need(lang)
    # What our own harness was compiled to is there to be read by each job of the language.
    ours = [
        f"{path}/{name}" for path in languages.get(lang).find().binds for name in ("new", "sandbox/calls.o")
    ]
    assert ring.told(lang, OPENERS[lang] % (strings([*CLOSED, *ours]), os.O_WRONLY, 1)) == ["", "", "", ""]


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Services of the host: what they are reached by. None of them may hear anything."""
    path = str(tmp_path_factory.mktemp("service") / "socket")
    name = f"hostile-{os.getpid()}"
    made = [
        socket.socket(),
        socket.socket(type=socket.SOCK_DGRAM),
        *(socket.socket(socket.AF_UNIX) for _ in "12"),
    ]
    for one, address in zip(made, [("127.0.0.1", 0), ("127.0.0.1", 0), f"\0{name}", path], strict=True):
        one.bind(address)
        one.setblocking(False)
    for one in (made[0], *made[2:]):
        one.listen()
    tcp, udp = (str(one.getsockname()[1]) for one in made[:2])
    yield {"TCP": tcp, "UDP": udp, "NAME": name, "PATH": path}
    for one in made:
        with one, pytest.raises(BlockingIOError):
            one.recv(1) if one is made[1] else one.accept()


def addressed(attack: str, listeners: dict[str, str]) -> str:
    for key, value in listeners.items():
        attack = attack.replace(f"@{key}@", value)
    return attack


CALLERS = {
    "c": """
        static char told[4096];
        static void tell(const char *what, int done) {
            if (done >= 0) { strcat(told, what); strcat(told, " "); }
        }
        static int reach(int family, int kind, int protocol, void *address, socklen_t size) {
            int made = socket(family, kind, protocol);
            if (made < 0) return -1;
            int done = kind == SOCK_STREAM ? connect(made, address, size) : sendto(made, "x", 1, 0, address, size);
            close(made);
            return done;
        }
        const char *attack(void) {
            struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(@TCP@)};
            struct sockaddr_un name = {.sun_family = AF_UNIX}, path = {.sun_family = AF_UNIX, .sun_path = "@PATH@"};
            struct addrinfo *found;
            struct { unsigned short family, pad; unsigned pid, groups; } link = {16, 0, 0, 0};
            told[0] = 0;
            to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            tell("tcp", reach(AF_INET, SOCK_STREAM, 0, &to, sizeof to));
            to.sin_port = htons(@UDP@);
            tell("udp", reach(AF_INET, SOCK_DGRAM, 0, &to, sizeof to));
            tell("raw", reach(AF_INET, SOCK_RAW, 1, &to, sizeof to));
            tell("packet", socket(AF_PACKET, SOCK_RAW, 0x300));
            tell("tcp6", socket(AF_INET6, SOCK_STREAM, 0));
            tell("netlink", reach(16, SOCK_RAW, 0, &link, sizeof link));
            tell("vsock", socket(40, SOCK_STREAM, 0));
            tell("alg", socket(38, SOCK_SEQPACKET, 0));
            tell("bluetooth", socket(31, SOCK_RAW, 1));
            memcpy(name.sun_path + 1, "@NAME@", strlen("@NAME@"));
            tell("abstract", reach(AF_UNIX, SOCK_STREAM, 0, &name, 3 + strlen("@NAME@")));
            tell("path", reach(AF_UNIX, SOCK_STREAM, 0, &path, sizeof path));
            tell("dns", getaddrinfo("example.com", "80", NULL, &found) == 0 ? 0 : -1);
            return told;
        }
        """,
    "go": """
        import "net"
        func attack() string {
            told := ""
            for network, address := range map[string]string{
                "tcp": "127.0.0.1:@TCP@", "udp": "127.0.0.1:@UDP@", "ip4:icmp": "127.0.0.1", "unix": "@PATH@",
                "unixpacket": "@@NAME@", "tcp6": "[::1]:@TCP@", "unixgram": "@PATH@",
            } {
                made, err := net.Dial(network, address)
                if err != nil { continue }
                if _, err = made.Write([]byte("x")); err == nil { told += network + " " }
            }
            if made, err := net.Dial("unix", "@@NAME@"); err == nil { told += "abstract "; made.Close() }
            if _, err := net.LookupHost("example.com"); err == nil { told += "dns " }
            if _, err := net.Listen("tcp", "127.0.0.1:0"); err == nil { told += "listen " }
            if found, err := net.Interfaces(); err == nil && len(found) > 0 { told += "interfaces" }
            return told
        }
        """,
    "rust": """
        use std::net::*;
        use std::os::unix::net::UnixStream;
        fn attack() -> String {
            let mut told = String::new();
            if TcpStream::connect("127.0.0.1:@TCP@").is_ok() { told += "tcp "; }
            if let Ok(made) = UdpSocket::bind("127.0.0.1:0") {
                if made.send_to(b"x", "127.0.0.1:@UDP@").is_ok() { told += "udp "; }
            }
            if TcpListener::bind("127.0.0.1:0").is_ok() { told += "listen "; }
            if UnixStream::connect("@PATH@").is_ok() { told += "path "; }
            if "example.com:80".to_socket_addrs().is_ok() { told += "dns "; }
            told
        }
        """,
}
CALLERS["cpp"] = """
    #include <netdb.h>
    #include <arpa/inet.h>
    #include <sys/socket.h>
    static std::string attack() {
        std::string told;
        for (int family = 0; family < 46; family++)
            for (int kind = 1; kind < 7; kind++)
                if (socket(family, kind, 0) >= 0 && family != AF_UNIX) told += std::to_string(family) + " ";
        if (gethostbyname("example.com")) told += "dns";
        return told;
    }
    """


@pytest.mark.parametrize("lang", NATIVE)
def test_nobody_can_be_reached(ring: Ring, lang: str, listeners: dict[str, str]) -> None:
    assert ring.told(lang, addressed(CALLERS[lang], listeners)) == ["", "", "", ""]


# Calls that no program needs, by their name in <sys/syscall.h>: what each is asked, and with what.
REFUSED_CALLS = {
    "ptrace": "0,0,0,0",
    "unshare": "0x10000000",
    "setns": "0,0",
    "bpf": "0,0,0",
    "keyctl": "0,-3,1",
    "add_key": "0,0,0,0,0",
    "io_uring_setup": "1,buffer",
    "userfaultfd": "1",
    "clone3": "buffer,64",
    "perf_event_open": "buffer,0,-1,-1,0",
    "process_vm_readv": "1,buffer,1,buffer,1,0",
    "personality": "0x40000",
    "name_to_handle_at": "-100,here,buffer,buffer+64,0",
    "open_by_handle_at": "3,buffer,0",
    "chroot": "here",
    "mount": "here,here,0,4096,0",
    "umount2": "temporary,2",
    "pivot_root": "here,here",
    "fsopen": "here,0",
    "open_tree": "-100,here,1",
    "memfd_create": "here,0",
    "clone": "0x10000011,0,0,0,0",
    "kexec_load": "0,0,0,0",
    "init_module": "buffer,0,here",
    "iopl": "3",
    "ioperm": "0,1,1",
    "modify_ldt": "1,buffer,16",
    "vhangup": "",
    "reboot": "0xfee1dead,672274793,0,0",
    "swapon": "here,0",
    "sethostname": "here,1",
    "settimeofday": "buffer,0",
    "clock_settime": "0,buffer",
    "acct": "0",
    "quotactl": "0,0,0,0",
    "syslog": "3,buffer,64",
    "setuid": "0",
    "fanotify_init": "0,0",
    "kcmp": "1,2,0,0,0",
    "shmget": "0,4096,0x1ff",
    "semget": "0,1,0x1ff",
    "setgid": "0",
    "msgget": "0,0x1ff",
    "mq_open": "here+1,0x42,0x1ff,0",
    "setresuid": "0,0,0",
    "setgroups": "0,buffer",
    "capset": "header,data",
    "mknodat": "-100,device,0x61b6,0x103",
    "setpriority": "0,1,19",
    "vmsplice": "1,0,0,0",
    "sched_setscheduler": "0,1,one",
    "sched_setaffinity": "1,8,buffer",
    "prlimit64": "1,7,0,buffer",
    "ioprio_set": "1,1,0",
    "pidfd_getfd": "0,0,0",
    "setrlimit": "9,most",
    "memfd_secret": "0",
    "tkill": "-1,9",
    "process_madvise": "0,0,0,0,0",
    "mbind": "buffer,64,0,0,0,0",
    "process_mrelease": "0,0",
    "cachestat": "0,0,0,0",
}


def test_calls_that_no_program_needs_are_refused(ring: Ring) -> None:
    asked = [
        f'#ifdef SYS_{name}\ntell("{name}", syscall({", ".join(filter(None, [f"SYS_{name}", given]))}));\n#endif'
        for name, given in REFUSED_CALLS.items()
    ]
    attack = """
        static char told[65536];
        static char buffer[4096] __attribute__((aligned(64))), *here = "/tmp/work", *temporary = "/tmp";
        static char *device = "/tmp/work/device";
        static unsigned header[2] = {0x20080522, 0}, data[6] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
        static int one[1] = {1};
        static struct rlimit most[1] = {{1ul << 40, 1ul << 40}};
        static pid_t self;
        static void tell(const char *name, long done) {
            if (getpid() != self) _exit(0);
            if (done >= 0) { strcat(told, name); strcat(told, "; "); }
        }
        const char *attack(void) {
            self = getpid();
            told[0] = 0;
            @
            return told;
        }
        """
    assert ring.told("c", attack.replace("@", "\n".join(asked))) == ["", "", "", ""]


def c(body: str, before: str = "") -> tuple[str, str]:
    return "c", f'{before}\nconst char *attack(void) {{ {body}\nreturn "after"; }}'


def go(body: str, *imports: str) -> tuple[str, str]:
    lines = "".join(f'import "{name}"\n' for name in imports)
    return "go", f'{lines}func attack() string {{ {body}\nreturn "after" }}'


def cpp(body: str, before: str = "") -> tuple[str, str]:
    return "cpp", f'{before}\nstatic std::string attack() {{ {body}\nreturn "after"; }}'


def rust(body: str, before: str = "") -> tuple[str, str]:
    return (
        "rust",
        f'{before}\n#[allow(unreachable_code)] fn attack() -> String {{ {body}\n"after".to_string() }}',
    )


FILL = "static void fill(size_t size) { volatile char *room = malloc(size); while (size) room[--size] = 1; }"
SMALL = Limits(wall_s=30.0, cpu_s=20.0, memory_mb=64)
CROWD = Limits(wall_s=30.0, cpu_s=0.6, processes=8)
# Some end by what the language makes of a refusal, some by the supervisor's look, which comes every 50 ms.
ENDS = {
    "exit": (c("exit(0);"), PATIENT, "exit", "ok"),
    "_exit": (c("_exit(0);"), PATIENT, "exit", "ok"),
    "quick_exit": (c("quick_exit(0);"), PATIENT, "exit", "ok"),
    "exit of the thread": (c("pthread_exit(NULL);"), PATIENT, "exit", "ok"),
    "exit by system call": (c("syscall(SYS_exit_group, 0);"), PATIENT, "exit", "ok"),
    "exit as if the channel was lost": (c("_exit(71);"), PATIENT, "unserializable", "exit"),
    "abort": (c("abort();"), PATIENT, "signal", "signal"),
    "a trap": (c("__builtin_trap();"), PATIENT, "signal", "signal"),
    "a null pointer": (c("*(volatile int *)0 = 1;"), PATIENT, "signal", "signal"),
    "kill of itself": (c("kill(getpid(), SIGKILL);"), PATIENT, "signal", "signal"),
    "kill of its group": (c("kill(0, SIGKILL);"), PATIENT, "signal", "signal"),
    "kill of its session's others": (
        c("kill(-1, SIGKILL); kill(1, SIGKILL); kill(getppid(), 19);"),
        PATIENT,
        "ok",
        "ok",
    ),
    "processor limit by its own signal": (c("raise(SIGXCPU);"), PATIENT, "signal", "signal"),
    "alarm": (c("alarm(1); pause();"), PATIENT, "signal", "signal"),
    "another program": (c('execl("/bin/true", "true", NULL);'), PATIENT, "exit", "ok"),
    "itself again": (
        c(
            'if (!getenv("AGAIN")) { setenv("AGAIN", "1", 1); setenv("LD_PRELOAD", "/tmp/work/program", 1);'
            'char *argv[] = {"program", NULL}; execv("/proc/self/exe", argv); }'
        ),
        PATIENT,
        "exit",
        "ok",
    ),
    "stop": (c("raise(SIGSTOP);"), WAITING, "timeout", "timeout"),
    "sleep": (c("for (;;) sleep(1000);"), WAITING, "timeout", "timeout"),
    "sleep with all signals blocked": (
        c("sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, NULL); for (;;) pause();"),
        WAITING,
        "timeout",
        "timeout",
    ),
    "a lock taken twice": (
        c("pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; for (;;) pthread_mutex_lock(&lock);"),
        WAITING,
        "timeout",
        "timeout",
    ),
    "a pipe to itself": (
        c("int ends[2]; char byte; pipe(ends); read(ends[0], &byte, 1);"),
        WAITING,
        "timeout",
        "timeout",
    ),
    "work": (c("for (volatile int i = 0;; i++);"), WORKING, "cpu_limit", "cpu_limit"),
    "work that ignores signals": (
        c("for (int i = 1; i < 65; i++) signal(i, SIG_IGN); for (volatile int i = 0;; i++);"),
        WORKING,
        "cpu_limit",
        "cpu_limit",
    ),
    "work of children": (
        c("for (int i = 0; i < 4; i++) if (fork() == 0) for (volatile int i = 0;; i++); for (;;) pause();"),
        WORKING,
        "cpu_limit",
        "cpu_limit",
    ),
    "work of threads": (
        c(
            "pthread_t one; for (int i = 0; i < 4; i++) pthread_create(&one, NULL, spin, NULL); for (;;) pause();",
            "static void *spin(void *x) { for (volatile int i = 0;; i++); return x; }",
        ),
        WORKING,
        "cpu_limit",
        "cpu_limit",
    ),
    "work in the kernel": (
        c('for (;;) close(open("/dev/zero", O_RDONLY));'),
        WORKING,
        "cpu_limit",
        "cpu_limit",
    ),
    "forks without end": (c("for (;;) fork();"), CROWD, "proc_limit", "proc_limit"),
    "forks that end at once": (
        c("for (;;) if (fork() == 0) _exit(0); else wait(NULL);"),
        WORKING,
        "cpu_limit",
        "cpu_limit",
    ),
    "memory bit by bit": (
        c("for (;;) fill(1 << 16);", FILL),
        SMALL,
        "signal memory_limit",
        "signal memory_limit",
    ),
    "memory of children": (
        c(
            "for (int i = 0; i < 6; i++) if (fork() == 0) { fill(40 << 20); for (;;) pause(); } for (;;) pause();",
            FILL,
        ),
        SMALL,
        "memory_limit",
        "memory_limit",
    ),
    "a stack without end": (
        c(
            "return deep(1);",
            "static const char *deep(int n) { char room[4096]; room[n % 4096] = n;"
            'const char *below = deep(n + 1); return room[n % 4095] ? below : ""; }',
        ),
        PATIENT,
        "signal",
        "signal",
    ),
    "a file larger than it may be": (
        c(
            'int file = open("/tmp/large", O_CREAT | O_WRONLY, 0666); while (write(file, big, sizeof big) > 0);',
            "static char big[1 << 20];",
        ),
        PATIENT,
        "signal",
        "signal",
    ),
    "output without end": (c('for (;;) puts("more");'), WORKING, "cpu_limit", "output_limit"),
    "errors without end": (c('for (;;) fputs("more", stderr);'), WORKING, "cpu_limit", "output_limit"),
    "all descriptors closed": (c("closefrom(0);"), PATIENT, "unserializable", "ok"),
    "all descriptors replaced": (
        c('int null = open("/dev/null", O_RDWR); for (int i = 0; i < 64; i++) if (i != null) dup2(null, i);'),
        PATIENT,
        "exit",
        "ok",
    ),
    "a 32-bit call": (c('__asm__ volatile("int $0x80" : : "a"(20));'), PATIENT, "signal", "signal"),
    "an x32 call": (c("syscall(0x40000000 | SYS_getpid);"), PATIENT, "signal", "signal"),
    "an address space without end": (
        c("while (mmap(NULL, 16 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);"),
        SMALL,
        "ok memory_limit",
        "ok",
    ),
    "two returns of one call": (c('if (fork() == 0) return "child"; wait(NULL);'), PATIENT, "ok", "ok"),
    "C++ exit in a destructor": (
        cpp("static Leaver leaver; exit(3);", "struct Leaver { ~Leaver() { _exit(0); } };"),
        PATIENT,
        "exit",
        "ok",
    ),
    "C++ terminate": (cpp("std::terminate();"), PATIENT, "signal", "signal"),
    "C++ memory": (
        cpp("std::vector<std::vector<int>> all; for (;;) all.emplace_back(1 << 16, 1);"),
        SMALL,
        "memory_limit",
        "signal memory_limit",
    ),
    "C++ collisions": (
        cpp(
            "std::unordered_set<long long> all; for (long long i = 0;; i++) all.insert(i * 107897LL * 126271LL);"
        ),
        Limits(wall_s=30, cpu_s=0.5, memory_mb=2048),
        "cpu_limit",
        "cpu_limit",
    ),
    "C++ throw from noexcept": (
        cpp("leave();", "static void leave() noexcept { throw 1; }"),
        PATIENT,
        "signal",
        "signal",
    ),
    "C++ exception of nobody": (cpp('throw std::runtime_error("no");'), PATIENT, "ok", "signal"),
    "Go exit": (go("os.Exit(0)", "os"), PATIENT, "exit", "ok"),
    "Go end of its routine": (go("runtime.Goexit()", "runtime"), PATIENT, "ok", "exit"),
    "Go kill of its group": (go("syscall.Kill(0, syscall.SIGKILL)", "syscall"), PATIENT, "signal", "signal"),
    "Go exit by system call": (
        go("syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)", "syscall"),
        PATIENT,
        "exit",
        "ok",
    ),
    "Go wild pointer": (
        go("*(*int)(unsafe.Pointer(uintptr(1 << 20))) = 1", "unsafe"),
        PATIENT,
        "exit",
        "exit",
    ),
    "Go work": (go("for {}"), WORKING, "cpu_limit", "cpu_limit"),
    "Go sleep": (go("time.Sleep(time.Hour)", "time"), WAITING, "timeout", "timeout"),
    "Go stack": (
        go("var deep func(int) int; deep = func(n int) int { return deep(n + 1) + 1 }; deep(0)"),
        SMALL,
        "exit memory_limit",
        "exit memory_limit",
    ),
    "Go memory": (
        go(
            "all := [][]byte{}; for { one := make([]byte, 1 << 16); one[0] = 1; for i := range one { one[i] = 1 }; all = append(all, one) }"
        ),
        SMALL,
        "memory_limit",
        "memory_limit",
    ),
    "Go routines without end": (
        go("for { go func() { select {} }() }"),
        SMALL,
        "memory_limit",
        "memory_limit",
    ),
    "Go threads without end": (
        go(
            "for i := 0; i < 64; i++ { go func() { runtime.LockOSThread(); syscall.Pause() }() }; select {}",
            "runtime",
            "syscall",
        ),
        WAITING,
        "proc_limit exit",
        "proc_limit exit",
    ),
    "Rust exit": (rust("std::process::exit(0);"), PATIENT, "exit", "ok"),
    "Rust abort": (rust("std::process::abort();"), PATIENT, "signal", "signal"),
    "Rust panic": (rust('panic!("no");'), PATIENT, "ok", "exit"),
    "Rust panic within a panic": (
        rust(
            'let _one = Twice; panic!("no");',
            'struct Twice; impl Drop for Twice { fn drop(&mut self) { panic!("again") } }',
        ),
        PATIENT,
        "signal",
        "signal",
    ),
    "Rust wild pointer": (rust("unsafe { *(1 as *mut u8) = 1 };"), PATIENT, "signal", "signal"),
    "Rust stack": (
        rust(
            "return deep(1).to_string();",
            "fn deep(n: u64) -> u64 { let a = std::hint::black_box([n; 64]); deep(n + 1) + a[3] }",
        ),
        PATIENT,
        "signal",
        "signal",
    ),
    "Rust memory": (
        rust("let mut all = vec![]; loop { all.push(std::hint::black_box(vec![1u8; 1 << 16])); }"),
        SMALL,
        "memory_limit",
        "memory_limit signal",
    ),
    "Rust work": (rust("loop { std::hint::black_box(1); }"), WORKING, "cpu_limit", "cpu_limit"),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_is_told_as_what_it_was(ring: Ring, name: str) -> None:
    ends_as_told(ring, ENDS[name])


# Each leaves something behind, or tries to; its own program then ends as if nothing was.
LEAVERS = {
    "daemon": c(
        "if (fork() == 0) { setsid(); if (fork() == 0) { closefrom(0); for (;;) pause(); } _exit(0); }"
    ),
    "daemon that holds the pipes": c(
        "if (fork() == 0) { setsid(); signal(SIGTERM, SIG_IGN); for (;;) pause(); }"
    ),
    "daemon that writes": c(
        'if (fork() == 0) for (setsid();;) { puts("still here"); fflush(stdout); usleep(1000); }'
    ),
    "stopped child": c("if (fork() == 0) { raise(SIGSTOP); _exit(0); }"),
    "child of vfork": c('if (vfork() == 0) { execl("/bin/sleep", "sleep", "1000", NULL); _exit(1); }'),
    "reaper of its own": c(
        "prctl(PR_SET_CHILD_SUBREAPER, 1); if (fork() == 0) { if (fork() == 0) for (;;) pause(); _exit(0); }"
    ),
    "files": c(
        'char name[64]; for (int i = 0; i < 500; i++) { sprintf(name, "/tmp/left%d", i); close(creat(name, 0)); }'
    ),
    "full disk": c(
        'char name[64]; for (int i = 0; i < 6; i++) { sprintf(name, "/tmp/left%d", i); int file = creat(name, 0666);'
        "for (int j = 0; j < 15; j++) write(file, big, sizeof big); }",
        "static char big[1 << 20];",
    ),
    "unreadable folder": c('mkdir("/tmp/work/a", 0); chmod("/tmp/work", 0); chmod("/tmp", 0);'),
    "deep folders": c('for (int i = 0; i < 2000; i++) { mkdir("a", 0777); chdir("a"); }'),
    "sockets and pipes": c(
        'mkfifo("/tmp/work/fifo", 0666); symlink("/", "/tmp/work/root"); symlink("loop", "/tmp/work/loop");'
    ),
    "Go daemon": go(
        'os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})',
        "os",
        "syscall",
    ),
    "Rust daemon": rust(
        'let _ = std::process::Command::new("/bin/sh").args(["-c", "sleep 1000 & sleep 1000"]).spawn();'
    ),
}


@pytest.mark.parametrize("name", LEAVERS)
def test_nothing_outlives_its_job(ring: Ring, name: str) -> None:
    assert ring.told(*LEAVERS[name])[:3] == ["after"] * 3


def test_what_a_program_finds_is_what_each_program_may_have(ring: Ring) -> None:
    lang, attack = c(
        """
        extern char **environ;
        struct rlimit core;
        static char told[4096];
        int files = 0, threads = 0, children = 0;
        told[0] = 0;
        for (char **one = environ; *one; one++) { strcat(told, *one); strcat(told, " "); }
        getrlimit(RLIMIT_CORE, &core);
        while (dup(0) >= 0) files++;
        for (int child; (child = fork()) >= 0; children++) if (child == 0) for (;;) pause();
        sprintf(told + strlen(told), "%ld %d %d", (long)core.rlim_cur, files <= 64, children < 16);
        return told;
        """
    )
    told = ring.told(lang, attack)
    assert told[0] == told[3] == "HOME=/tmp PATH=/usr/bin:/bin LANG=C.UTF-8 1 1 1"
