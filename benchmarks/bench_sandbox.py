"""Verdicts a second on isolated Python function jobs, against what people use instead.

    python benchmarks/bench_sandbox.py [--rounds N] [--jobs N] [--sandbox-fusion URL]

One job is a function of two arguments and two calls of it. All ways have as many jobs at once as there are
processors, and one more; they take turns, and each way's best round counts. Peers start with an empty
environment and an interpreter of a clean virtual environment, without which they are several times slower.

* assay: `Sandbox().map`, fully isolated, values compared outside.
* python: a new `python` process a job that runs the function and two assertions. No isolation.
* bwrap: the same inside `bwrap --unshare-all`, where it is installed.
* SandboxFusion: POST /run_code of a server that was started beside, where its URL is given. Its own runner
  without isolation is the fastest that it has. Start it from a shell, with HOME an empty folder: without
  SHLVL bash reads ~/.bashrc at each of its jobs.

Then: the time of one job alone (p50), jobs a second by number of workers, and for every language that has a
toolchain here jobs a second when the build is cached and when each program is a new one.
"""

from __future__ import annotations

import argparse
import functools
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import cores

from sandbox import Call, Job, Limits, Sandbox
from sandbox.names import script_file

SOURCE = "def combine(a, b):\n    return a * b + {}\n"
CHECK = "assert combine(2, 3) == 6 + {0}\nassert combine(-1, 4) == -4 + {0}\n"
CALLS = (Call((2, 3)), Call((-1, 4)))

# language -> (file, a whole program, of which the mark makes a new one)
PROGRAMS = {
    "javascript": "console.log(6 * 7); // {}\n",
    "typescript": "const answer: number = 6 * 7;\nconsole.log(answer); // {}\n",
    "ruby": "puts 6 * 7 # {}\n",
    "php": "<?php echo 6 * 7, PHP_EOL; // {}\n",
    "go": 'package main\nimport "fmt"\nfunc main() {{ fmt.Println(6 * 7) }} // {}\n',
    "c": '#include <stdio.h>\nint main(void) {{ printf("%d\\n", 6 * 7); return 0; }} // {}\n',
    "cpp": "#include <iostream>\nint main() {{ std::cout << 6 * 7 << std::endl; }} // {}\n",
    "java": (
        "public class Main {{ public static void main(String[] a) {{ System.out.println(6 * 7); }} }} // {}\n"
    ),
    "csharp": "class P {{ static void Main() {{ System.Console.WriteLine(6 * 7); }} }} // {}\n",
    "rust": 'fn main() {{ println!("{{}}", 6 * 7); }} // {}\n',
    "python": "print(6 * 7) # {}\n",
}


def job(number: int) -> Job:
    return Job("calls", {"solution.py": SOURCE.format(number)}, entry="combine", calls=CALLS)


def assay(box: Sandbox, count: int) -> None:
    for number, result in enumerate(box.map(job(number) for number in range(count))):
        if result.status != "ok" or result.outputs != [6 + number, -4 + number]:
            raise SystemExit(f"a job went wrong: {result}")


def processes(command: list[str], folder: Path, pool: ThreadPoolExecutor, count: int) -> None:
    def one(number: int) -> None:
        path = folder / f"job{number}.py"
        path.write_text(SOURCE.format(number) + CHECK.format(number))
        subprocess.run([*command, str(path)], env={}, check=True, stdin=subprocess.DEVNULL)

    list(pool.map(one, range(count)))


def fusion(url: str, pool: ThreadPoolExecutor, count: int) -> None:
    place = urllib.parse.urlsplit(url)

    def one(number: int) -> None:
        body = {"code": SOURCE.format(number) + CHECK.format(number), "language": "python"}
        link = http.client.HTTPConnection(place.hostname or "127.0.0.1", place.port or 80, timeout=60)
        try:
            link.request("POST", "/run_code", json.dumps(body), {"Content-Type": "application/json"})
            answer = json.loads(link.getresponse().read())
        finally:
            link.close()
        if answer["status"] != "Success":
            raise SystemExit(f"SandboxFusion: {answer}")

    list(pool.map(one, range(count)))


def clean_python(folder: Path) -> str:
    """An interpreter whose environment has nothing installed that its start would look at."""
    venv.create(folder / "clean", with_pip=False)
    return str(folder / "clean" / "bin" / "python")


def bubblewrap(python: str, folder: Path) -> list[str]:
    real = Path(python).resolve().parent.parent
    paths = ["/usr", str(real), str(folder)]
    links = [
        part
        for name in ("bin", "lib", "lib64")
        if Path("/", name).is_symlink()
        for part in ("--symlink", str(Path("/", name).readlink()), f"/{name}")
    ]
    binds = [part for path in paths for part in ("--ro-bind", path, path)]
    made = ["--proc", "/proc", "--dev", "/dev", "--unshare-all", "--die-with-parent"]
    return [shutil.which("bwrap") or "bwrap", *binds, *links, *made, python]


def rates(ways: dict[str, Callable[[int], None]], rounds: int, count: int) -> dict[str, float]:
    """Jobs a second of each way's best round, the ways taking turns."""
    found = dict.fromkeys(ways, 0.0)
    for way in ways.values():
        way(8)
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            way(count)
            found[name] = max(found[name], count / (time.perf_counter() - began))
    return found


def alone(box: Sandbox, count: int) -> float:
    """Median seconds of one job when nothing else is asked for."""
    taken = []
    for number in range(count):
        began = time.perf_counter()
        box.run(job(number))
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def programs(lang: str, marks: Iterator[int], count: int) -> Iterator[Job]:
    for _, mark in zip(range(count), marks, strict=False):
        source = PROGRAMS[lang].format(mark)
        yield Job("script", {script_file(lang): source}, lang=lang, limits=Limits(wall_s=60))


def language(box: Sandbox, lang: str, rounds: int) -> str:
    """One line: jobs a second with the build cached, and with every program a new one."""
    first = next(programs(lang, iter([0]), 1))
    result = box.run(first)
    if result.status != "ok" or result.stdout != "42\n":
        return f"{lang:12} {result.status}: {result.detail}"
    cached = fresh = 0.0
    mark = int(time.time() * 1000)
    for _ in range(rounds):
        began = time.perf_counter()
        list(box.map(programs(lang, iter([0] * 24), 24)))
        cached = max(cached, 24 / (time.perf_counter() - began))
        began = time.perf_counter()
        list(box.map(programs(lang, iter(range(mark, mark + 6)), 6)))
        mark += 6
        fresh = max(fresh, 6 / (time.perf_counter() - began))
    return f"{lang:12} {cached:7.1f} cached {fresh:7.1f} new programs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--sandbox-fusion", metavar="URL")
    parser.add_argument("--no-languages", action="store_true")
    options = parser.parse_args()
    at_once = len(os.sched_getaffinity(0)) + 1
    print(f"{cores()}, Python {sys.version.split()[0]}, {at_once} jobs at once")
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as name,
        ThreadPoolExecutor(at_once) as pool,
        Sandbox(workers=at_once) as box,
    ):
        folder = Path(name)
        python = clean_python(folder)
        ways: dict[str, Callable[[int], None]] = {
            "assay": lambda count: assay(box, count),
            "python": lambda count: processes([python], folder, pool, count),
        }
        if shutil.which("bwrap"):
            ways["bwrap"] = lambda count: processes(bubblewrap(python, folder), folder, pool, count)
        if options.sandbox_fusion:
            ways["SandboxFusion"] = lambda count: fusion(options.sandbox_fusion, pool, count)
        found = rates(ways, options.rounds, options.jobs)
        for way, rate in found.items():
            ratio = "" if way == "assay" else f"   assay is {found['assay'] / rate:.2f}x"
            print(f"{way:14} {rate:7.1f} jobs/s{ratio}")
        print(f"one job alone  {1000 * alone(box, 200):.2f} ms (p50)")
        for workers in (1, 2, 4):
            with Sandbox(workers=workers) as scaled:
                one = rates({"assay": functools.partial(assay, scaled)}, options.rounds, options.jobs)
            print(f"{workers} workers      {one['assay']:7.1f} jobs/s")
    if options.no_languages:
        return
    with tempfile.TemporaryDirectory() as cache, Sandbox(workers=2, cache=cache) as box:
        for lang in PROGRAMS:
            print(language(box, lang, max(1, options.rounds // 2)), flush=True)


if __name__ == "__main__":
    main()
