"""What tests of JavaScript, TypeScript, Ruby and PHP share: jobs, and whether they can be run here.

In: a language and a text. Out: a `Result`, or its values. Wrong: the test is skipped where the toolchain is
missing, and fails where values were due and the job did not end well.
"""

import functools
from typing import Any

import pytest

from sandbox import Call, ErrorRecord, Job, Limits, Result, Sandbox, languages
from sandbox.languages.base import ToolchainMissing
from sandbox.names import script_file, solution_file

LANGS = ("javascript", "typescript", "ruby", "php")
IDENTITY = {
    "javascript": "function f(x) { return x }",
    "typescript": "function f<T>(x: T): T { return x }",
    "ruby": "def f(x) = x",
    "php": "function f($x) { return $x; }",
}
# Slow machines and many neighbours: no test here is about time.
PATIENT = Limits(wall_s=60.0, cpu_s=60.0)


@functools.cache
def problem(lang: str) -> str:
    try:
        languages.get(lang).find()
    except ToolchainMissing as error:
        return str(error)
    return ""


def need(lang: str) -> None:
    if problem(lang):
        pytest.skip(problem(lang))


def calls(
    box: Sandbox,
    lang: str,
    source: str,
    *args: Any,
    entry: str = "f",
    limits: Limits = PATIENT,
    **files: str,
) -> Result:
    """Call `entry` once for each of `args`: a Call, or the one argument. `lib_js` stands for lib.js."""
    need(lang)
    named = {name.replace("_", "."): text for name, text in files.items()}
    wanted = [one if isinstance(one, Call) else Call((one,)) for one in args]
    job = Job("calls", {solution_file(lang): source, **named}, entry, wanted, lang=lang, limits=limits)
    return box.run(job)


def values(*args: Any, **options: Any) -> list[Any]:
    result = calls(*args, **options)
    assert result.status == "ok", (result.detail, result.stderr)
    return result.outputs


def script(
    box: Sandbox, lang: str, source: str, stdin: str = "", argv: tuple[str, ...] = (), **files: str
) -> Result:
    need(lang)
    named = {name.replace("_", "."): text for name, text in files.items()}
    job = Job(
        "script", {script_file(lang): source, **named}, lang=lang, stdin=stdin, argv=argv, limits=PATIENT
    )
    return box.run(job)


def refused(output: Any) -> bool:
    """A value that came back but has no encoding."""
    return isinstance(output, ErrorRecord) and not output.raised
