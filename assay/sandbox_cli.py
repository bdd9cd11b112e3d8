"""`assay sandbox`: run one program apart from everything else, and say whether this machine can do that.

In: a file and options. Out: what the program wrote, on the same streams, and one line on standard error
about how it ended. Exit status of `run`: a script's own; 0 where calls or a suite ended well; 2 for bad
usage or a machine that cannot isolate; 130 interrupted; 1 for all else, named in that line. Of `doctor`: 0
where isolation holds, 1 where it does not. Of `serve`: 0 when told to end. `sandbox` is imported by the
functions that need it.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer

if TYPE_CHECKING:
    from sandbox import Job, Limits, Result

app = typer.Typer(
    help="Run untrusted programs on their own, and see whether this machine can isolate them.",
    no_args_is_help=True,
)

MOST_BYTES = 16 << 20
"""Bytes of a file, or of standard input, beyond which it is refused."""

Urls = Annotated[
    list[str] | None,
    typer.Option(
        "--url",
        help="Backend remote: address of a server, with the token in $SANDBOX_TOKEN; may be repeated.",
    ),
]
Image = Annotated[
    str | None, typer.Option(help="Backend container: an image with Python that is here already.")
]
Engine = Annotated[
    str | None, typer.Option(help="Backend container: docker, podman or a command with their options.")
]
Runtime = Annotated[str | None, typer.Option(help="Backend container: OCI runtime, such as runsc (gVisor).")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


@app.command(
    "doctor", help="Say which layers of isolation hold here, and which backends and languages can be used."
)
def doctor(
    programs: Annotated[
        bool, typer.Option("--programs", help="Also build and run a small program in every language.")
    ] = False,
    url: Urls = None,
    image: Image = None,
    engine: Engine = None,
    runtime: Runtime = None,
    as_json: JsonFlag = False,
) -> None:
    """Try every layer from inside."""
    from assay.sandbox_doctor import examine, show

    with _interruptible():
        facts = examine(programs, _of_backends(url, image, engine, runtime))
    if as_json:
        print(json.dumps(facts, sort_keys=True))
    else:
        show(facts)
    raise typer.Exit(0 if facts["isolated"] else 1)


@app.command(
    "run",
    help="Run one program in the sandbox: as a script, by calls of a function, or under a test suite.\n\n"
    "Exit status: a script's own; 0 when calls or a suite ended well, 2 for bad usage, 1 for all else.",
)
def run(
    file: Annotated[Path, typer.Argument(help="The program: a file of UTF-8 text.", show_default=False)],
    args: Annotated[
        list[str] | None,
        typer.Argument(help="Command line of a script; put -- before it.", show_default=False),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option(help="Its language, such as python, c++ or js (default: by the file's name)."),
    ] = None,
    stdin: Annotated[
        Path | None,
        typer.Option(help="File that a script reads as standard input; - for this command's own."),
    ] = None,
    entry: Annotated[
        str | None, typer.Option(help="Function to call: loads the file instead of running it as a script.")
    ] = None,
    call: Annotated[
        list[str] | None,
        typer.Option(
            help='Arguments of one call of --entry as JSON: [1, 2], or {"args": [1], "kwargs": {"n": 2}}; '
            "may be repeated."
        ),
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Test suite (Python) for --entry; it runs in a sandbox of its own.")
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option("--file", help="Further file that the program may read, NAME=PATH; may be repeated."),
    ] = None,
    packages: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of packages that Python programs may import, read-only; may be repeated."),
    ] = None,
    backend: Annotated[
        str, typer.Option(help="What isolates it; `assay sandbox doctor` lists them. plain isolates nothing.")
    ] = "auto",
    url: Urls = None,
    image: Image = None,
    engine: Engine = None,
    runtime: Runtime = None,
    wall_s: Annotated[float | None, typer.Option(help="Seconds of wall time (default: 5).")] = None,
    cpu_s: Annotated[float | None, typer.Option(help="Seconds of processor time (default: 5).")] = None,
    memory_mb: Annotated[int | None, typer.Option(help="MiB of memory (default: 512).")] = None,
    processes: Annotated[
        int | None, typer.Option(help="Processes and threads at once (default: 16).")
    ] = None,
    file_mb: Annotated[int | None, typer.Option(help="MiB of the largest file (default: 16).")] = None,
    tmpfs_mb: Annotated[int | None, typer.Option(help="MiB of all files together (default: 64).")] = None,
    output_kb: Annotated[
        int | None, typer.Option(help="KiB of standard output, and of standard error (default: 256).")
    ] = None,
    result_kb: Annotated[
        int | None, typer.Option(help="KiB of values that calls give back (default: 16384).")
    ] = None,
    open_files: Annotated[
        int | None, typer.Option(help="Descriptors that a process may hold (default: 64).")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run one program."""
    from sandbox import EncodeError, Limits, Sandbox, SandboxError
    from schemas.errors import AssayError

    given = {
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "memory_mb": memory_mb,
        "processes": processes,
        "file_mb": file_mb,
        "tmpfs_mb": tmpfs_mb,
        "output_kb": output_kb,
        "result_kb": result_kb,
        "open_files": open_files,
    }
    with _interruptible():
        try:
            limits = Limits(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
            job = _job(file, args or [], lang, stdin, entry, call or [], test, extra or [], limits)
            own = _of_backends(url, image, engine, runtime)
            with Sandbox(_meant(backend, own), packages=packages or (), **own) as box:
                result = box.run(job)
        except (ValueError, EncodeError, SandboxError) as error:
            raise AssayError(re.sub(r"Limits\.(\w+)", _flag, str(error))) from None
        if as_json:
            print(json.dumps(_facts(job, result)))
        else:
            _tell(result)
        raise typer.Exit(_exit_status(job, result))


@app.command(
    "serve",
    help='Run jobs for other machines over HTTP: all kinds for `Sandbox("remote")`, scripts in the way of '
    "SandboxFusion.\n\nIt ends on Ctrl-C or SIGTERM, when the jobs under way are done.",
)
def serve(
    host: Annotated[str, typer.Option(help="Address of this machine to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Jobs at once (default: one a processor).", show_default=False)
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token that clients must send (default: the one in $SANDBOX_TOKEN)."),
    ] = None,
    max_queue: Annotated[
        int | None, typer.Option(min=0, help="Requests that may wait (default: four a worker).")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Listen to other machines without a token.")
    ] = False,
    preload: Annotated[
        list[str] | None,
        typer.Option(help="Module that Python programs find loaded already; may be repeated."),
    ] = None,
    packages: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of packages that Python programs may import, read-only; may be repeated."),
    ] = None,
    backend: Annotated[str, typer.Option(help="What isolates the jobs.")] = "auto",
) -> None:
    """Serve until told to end."""
    from sandbox import Sandbox, SandboxError, service
    from schemas.errors import AssayError

    token = os.environ.get(service.TOKEN_VARIABLE) if token_file is None else _text(token_file).strip()
    if token_file is not None and not token:
        raise AssayError(f"{token_file}: holds no token")
    try:
        with Sandbox(
            backend,  # type: ignore[arg-type]
            workers=workers or len(os.sched_getaffinity(0)),
            preload=preload or (),
            packages=packages or (),
        ) as box:
            service.Service(box, host, port, token, queue=max_queue, public=public).serve()
    except SandboxError as error:
        raise AssayError(str(error)) from None
    except OSError as error:
        raise AssayError(f"cannot listen at {host}, port {port}: {error.strerror or error}") from None


def _of_backends(
    url: list[str] | None, image: str | None, engine: str | None, runtime: str | None
) -> dict[str, Any]:
    """Arguments of `Sandbox` for the backends that need some."""
    from sandbox.service import TOKEN_VARIABLE

    given = {"url": url, "image": image, "engine": engine, "runtime": runtime}
    token = {"token": os.environ.get(TOKEN_VARIABLE)} if url else {}
    return {**{name: value for name, value in given.items() if value}, **token}


def _meant(backend: str, own: Mapping[str, Any]) -> Any:
    """The backend that is asked for: an address or an image names it as well."""
    if backend != "auto" or not own:
        return backend
    return "remote" if "url" in own else "container"


def _flag(name: re.Match[str]) -> str:
    return f"--{name[1].replace('_', '-')}"


def _job(
    file: Path,
    args: Sequence[str],
    lang: str | None,
    stdin: Path | None,
    entry: str | None,
    calls: Sequence[str],
    test: Path | None,
    extra: Sequence[str],
    limits: Limits,
) -> Job:
    """The job that the options describe. Raises AssayError or ValueError."""
    from sandbox import Job
    from sandbox.names import script_file, solution_file
    from schemas.errors import AssayError

    language = _language(file, lang)
    kind = "split" if test is not None else "calls" if entry is not None else "script"
    for wrong, told in (
        (calls and entry is None, "--call needs --entry, the function to call"),
        (calls and test is not None, "--call and --test exclude each other: a suite makes the calls"),
        (test is not None and entry is None, "--test needs --entry, the function under test"),
        (kind == "calls" and not calls, "--entry needs --call, or --test"),
        (
            kind != "script" and args,
            "only a script has a command line: leave out --entry, or what follows --",
        ),
        (kind != "script" and stdin is not None, "only a script reads --stdin: leave out --entry"),
    ):
        if wrong:
            raise AssayError(told)
    name = _own_name(file, language) or script_file(language) if kind == "script" else solution_file(language)
    files = {name: _text(file)}
    if test is not None:
        files["test.py"] = _text(test)
    for text in extra:
        other, equals, path = text.partition("=")
        if not equals:
            raise AssayError(f"--file {text!r}: give NAME=PATH")
        if other in files:
            raise AssayError(f"--file {text!r}: there is a file {other!r} already")
        files[other] = _text(Path(path))
    return Job(
        kind=kind,  # type: ignore[arg-type]
        files=files,
        entry=name if kind == "script" else entry or "",
        calls=[_call(text) for text in calls],
        stdin="" if stdin is None else _text(stdin),
        argv=list(args),
        lang=language,
        limits=limits,
    )


def _language(file: Path, lang: str | None) -> str:
    from sandbox import names
    from schemas.errors import AssayError

    known = ", ".join(names.LANGUAGES)
    try:
        return names.by_suffix(file.suffix.lower()) if lang is None else names.canonical(lang)
    except KeyError:
        if lang is not None:
            raise AssayError(f"--lang {lang!r}: not a language here; use one of {known}") from None
        raise AssayError(f"{file}: no language is known by this name; give --lang, one of {known}") from None


def _own_name(file: Path, language: str) -> str:
    """The file's name where it will do for the program as well, so that messages name it; else ""."""
    from sandbox.names import FILES

    fits = file.suffix == FILES[language][0] and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", file.name)
    return file.name if fits else ""


def _text(path: Path) -> str:
    """The contents of a file, or of standard input for "-". Raises AssayError; reads no more than it may."""
    from schemas.errors import AssayError

    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise AssayError(f"{path}: {error.strerror or error}") from None
    if len(data) > MOST_BYTES:
        raise AssayError(f"{path}: larger than {MOST_BYTES >> 20} MiB")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise AssayError(f"{path}: not UTF-8 at byte {error.start}; only text can be given") from None


def _call(text: str) -> Any:
    """A `Call` from JSON: a list of arguments, or an object with args and kwargs."""
    from sandbox import Call
    from schemas.errors import AssayError

    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AssayError(f"--call {_cut(text)}: not JSON: {error}") from None
    if isinstance(given, list):
        return Call(given)
    if isinstance(given, dict) and given.keys() <= {"args", "kwargs"}:
        args, kwargs = given.get("args", []), given.get("kwargs", {})
        if isinstance(args, list) and isinstance(kwargs, dict):
            return Call(args, kwargs)
    raise AssayError(
        f'--call {_cut(text)}: give a list of arguments, or {{"args": [...], "kwargs": {{...}}}}'
    )


def _cut(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


@contextmanager
def _interruptible() -> Iterator[None]:
    """End in order, without a word about finished parts, when a signal comes: there are none."""

    def stop(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        yield
    except KeyboardInterrupt:
        print("assay: interrupted; whatever ran in the sandbox was ended", file=sys.stderr, flush=True)
        raise typer.Exit(130) from None


def _exit_status(job: Job, result: Result) -> int:
    if job.kind == "script" and result.status in ("ok", "exit", "exception"):
        # An exception that nobody caught has a status too: 1 for Python, other numbers elsewhere.
        return 1 if result.exit_code is None else result.exit_code
    return 0 if result.status == "ok" else 1


def _tell(result: Result) -> None:
    """Copy what the program wrote, print a line for each call, and how it ended."""
    for text, stream in ((result.stdout, sys.stdout), (result.stderr, sys.stderr)):
        stream.write(_shown(text, stream))
        stream.flush()
    for value in result.outputs:
        print(json.dumps(_told(value)))
    sys.stdout.flush()
    if not (result.stderr or "\n").endswith("\n"):
        print(file=sys.stderr)
    print(_shown(_summary(result), sys.stderr), file=sys.stderr, flush=True)


def _summary(result: Result) -> str:
    """One line on how it ended."""
    parts = [
        f"{result.status}: {result.detail}" if result.detail else result.status,
        f"{result.wall_s:.3f} s wall, {result.cpu_s:.3f} s processor, {result.max_rss / 1024:.0f} MiB",
        f"backend {result.backend}, isolation {result.isolation}",
    ]
    if result.truncated:
        parts.insert(1, "output was cut")
    if result.candidate_calls:
        parts.insert(1, f"{result.candidate_calls} calls")
    return "sandbox: " + "; ".join(parts)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def _shown(text: str, stream: TextIO) -> str:
    """`text` as a stream may have it: a terminal must not take commands from a program."""
    if not stream.isatty():
        return text
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _facts(job: Job, result: Result) -> dict[str, Any]:
    return {
        "kind": job.kind,
        "lang": job.lang,
        "status": result.status,
        "detail": result.detail,
        "exit_code": result.exit_code,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "truncated": result.truncated,
        "outputs": [_told(value) for value in result.outputs],
        "candidate_calls": result.candidate_calls,
        "wall_s": round(result.wall_s, 6),
        "cpu_s": round(result.cpu_s, 6),
        "max_rss_kb": result.max_rss,
        "backend": result.backend,
        "isolation": result.isolation,
        "trust": result.trust,
    }


def _told(value: Any) -> Mapping[str, Any]:
    """What one call came to: "value" where JSON says exactly the same, else Python's "repr", or the error."""
    from sandbox import ErrorRecord
    from sandbox.show import show

    if isinstance(value, ErrorRecord):
        return {"error" if value.raised else "no_encoding": value.type, "message": value.message}
    try:
        if _is_json(value):
            json.dumps(value)
            return {"value": value}
        return {"repr": repr(value)}
    except ValueError:  # a number of many thousand digits, which would take forever to write
        return {"cut": show(value)}


def _is_json(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_is_json, value.values()))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)
