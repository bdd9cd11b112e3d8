"""The HTTP API of SandboxFusion (POST /run_code) as records: both ends of it.

In: a client's request, or a `Result`; a job, or a server's answer. Out: the other one. Wrong: ValueError, in
one line, for a request that makes no sense and for an answer that is none; both may come from anybody.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import math
import signal
from collections.abc import Mapping
from typing import Any

from sandbox import languages
from sandbox.job import Job, Limits, Result
from sandbox.names import FILES, canonical, script_file

# Our names of languages -> those of the API.
NAMES = {
    "python": "python",
    "javascript": "nodejs",
    "typescript": "typescript",
    "go": "go",
    "cpp": "cpp",
    "java": "java",
    "ruby": "ruby",
    "csharp": "csharp",
    "rust": "rust",
    "php": "php",
}
# Languages that the API compiles in a command of its own.
_COMPILED = ("c", "cpp", "go", "java", "rust")
DEFAULT_S = 10.0
# A server keeps no more of each of standard output and error, and does not say so.
MOST_KEPT = 1 << 20
_MOST_DETAIL = 500


def job_of(request: Mapping[str, Any], most: Limits) -> Job:
    """Return the job that a client asks for, within the limits `most`."""
    code, name = request.get("code"), request.get("language")
    if type(code) is not str or type(name) is not str:
        raise ValueError("code and language are needed, both text")
    try:
        lang = canonical(name)
    except KeyError:
        raise ValueError(f"language {name[:40]!r} is none of {', '.join(FILES)}") from None
    if request.get("fetch_files") or request.get("args"):
        raise ValueError("neither fetch_files nor args can be given here")
    stdin = request.get("stdin")
    if stdin is not None and type(stdin) is not str:
        raise ValueError("stdin must be text or null")
    _seconds(request, "compile_timeout")
    wall_s = _seconds(request, "run_timeout")
    memory_mb = request.get("memory_limit_MB", -1)
    if type(memory_mb) is not int:
        raise ValueError("memory_limit_MB must be a whole number")
    if wall_s > most.wall_s or memory_mb > most.memory_mb:
        raise ValueError(f"run_timeout is {most.wall_s:g} and memory_limit_MB {most.memory_mb} at most here")
    files = _files(request.get("files") or {})
    if script_file(lang) in files:
        raise ValueError(f"files may not hold {script_file(lang)}: that is what the code is called")
    if memory_mb <= 0:
        memory_mb = most.memory_mb
    limits = dataclasses.replace(most, wall_s=wall_s, memory_mb=memory_mb)
    return Job("script", {**files, script_file(lang): code}, stdin=stdin or "", lang=lang, limits=limits)


def answer_of(lang: str, result: Result) -> dict[str, Any]:
    """Return what a client is told. Beside the API's own fields, `result_status` is our status."""
    compiled, ran = None, None
    if result.status == "infra_error":
        ran = {**_command("Error", result, None), "stderr": result.detail}
    elif result.status == "compile_error" and result.exit_code is None:
        compiled = _command("Finished", result, 1)
        compiled["stderr"] = compiled["stderr"] or result.detail
    else:
        if lang in _COMPILED:
            compiled = _command("Finished", Result("ok"), 0)
        late = result.status in ("timeout", "cpu_limit")
        ran = _command("TimeLimitExceeded" if late else "Finished", result, None if late else _code(result))
    status = {"ok": "Success", "infra_error": "SandboxError"}.get(result.status, "Failed")
    return {
        "status": status,
        "message": result.detail if status == "SandboxError" else "",
        "compile_result": compiled,
        "run_result": ran,
        "executor_pod_name": None,
        "files": {},
        "result_status": result.status,
        "detail": result.detail,
    }


def _command(status: str, result: Result, code: int | None) -> dict[str, Any]:
    return {
        "status": status,
        "execution_time": result.wall_s,
        "return_code": code,
        "stdout": result.stdout,
        "stderr": result.stderr,
    }


def _code(result: Result) -> int:
    if result.status == "ok" or result.exit_code is not None:
        return result.exit_code or 0
    name = result.detail.rpartition(" ")[2]
    return -(signal.Signals[name] if name in signal.Signals.__members__ else signal.SIGKILL)


def _seconds(request: Mapping[str, Any], name: str) -> float:
    value = request.get(name, DEFAULT_S)
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be a positive number of seconds")
    return float(min(value, 1e6))


def _files(given: Any) -> dict[str, str]:
    if type(given) is not dict:
        raise ValueError("files must be an object")
    files = {}
    for name, content in given.items():
        if content is None:
            continue
        try:
            files[name] = base64.b64decode(content, validate=True).decode("utf-8")
        except (TypeError, ValueError, binascii.Error):
            raise ValueError(f"files: {name[:80]!r} is not text in base64") from None
    return files


def request_of(job: Job, code: str, compile_s: float) -> dict[str, Any]:
    """Return the request that runs a script. Raises ValueError for a language that the API has not."""
    if job.lang not in NAMES:
        raise ValueError(f"the API has no language {job.lang}: it has {', '.join(NAMES)}")
    own = job.entry or script_file(job.lang)
    others = {name: text for name, text in job.files.items() if name != own}
    # A runtime that reserves address space ahead cannot live with the server's way to limit memory.
    bounded = job.lang != "python" and languages.get(job.lang).address_space
    return {
        "code": code,
        "language": NAMES[job.lang],
        "stdin": job.stdin,
        "compile_timeout": compile_s,
        "run_timeout": job.limits.wall_s,
        "memory_limit_MB": job.limits.memory_mb + languages.get(job.lang).overhead_mb if bounded else -1,
        "files": {
            name: base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
            for name, text in others.items()
        },
        "fetch_files": [],
    }


def result_of(job: Job, answer: Any) -> Result:
    """Return what a server's answer says of a script. Raises ValueError for an answer that makes no sense."""
    status, compiled, ran = parts_of(answer)
    if status == "SandboxError":
        return Result("infra_error", detail=f"the server failed: {_line(answer.get('message'))}")
    for what, command in (("compiler", compiled), ("program", ran)):
        if command is not None and command["status"] == "Error":
            return Result("infra_error", detail=f"the {what} was not run: {_line(command['stderr'])}")
        if command is not None and command["return_code"] == 127 and "command not found" in command["stderr"]:
            return Result("infra_error", detail=f"the server lacks a tool: {_line(command['stderr'])}")
    if compiled is not None and (compiled["status"] != "Finished" or compiled["return_code"] != 0):
        said = compiled["stderr"] or compiled["stdout"]
        detail = "the compiler: timeout" if compiled["status"] != "Finished" else _line(said)
        return Result("compile_error", stdout=compiled["stdout"], stderr=compiled["stderr"], detail=detail)
    if ran is None:
        raise ValueError("an answer without a run")
    return _of_run(job, ran, succeeded=status == "Success")


def _of_run(job: Job, ran: dict[str, Any], succeeded: bool) -> Result:
    most = min(job.limits.output_kb << 10, MOST_KEPT - 1)
    kept, cut = {}, False
    for name in ("stdout", "stderr"):
        data = ran[name].encode("utf-8", "surrogatepass")
        cut |= len(data) > most
        kept[name] = data[:most].decode("utf-8", "replace")
    result = Result("ok", **kept, truncated=cut, wall_s=ran["execution_time"])
    code = ran["return_code"]
    if ran["status"] == "TimeLimitExceeded":
        result.status, result.detail = "timeout", f"wall clock limit of {job.limits.wall_s:g} s"
    elif cut:
        result.status, result.detail = "output_limit", f"more than {most >> 10} KiB of output"
    elif code is None:
        raise ValueError("a run that finished without a status")
    elif code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        result.status, result.detail = "signal", f"killed by {name}"
    elif code:
        result.status, result.exit_code, result.detail = "exit", code, f"exit status {code}"
    else:
        result.exit_code = 0
    if succeeded != (result.status == "ok") and not cut:
        raise ValueError("an answer that contradicts itself")
    return result


def parts_of(answer: Any) -> tuple[str, dict[str, Any] | None, dict[str, Any] | None]:
    """Return (status, compile_result, run_result) of an answer, each checked."""
    if type(answer) is not dict or answer.get("status") not in ("Success", "Failed", "SandboxError"):
        raise ValueError("an answer that is not the API's")
    return answer["status"], _checked(answer.get("compile_result")), _checked(answer.get("run_result"))


def _checked(command: Any) -> dict[str, Any] | None:
    if command is None:
        return None
    if type(command) is not dict or command.get("status") not in ("Finished", "Error", "TimeLimitExceeded"):
        raise ValueError("a command of unknown status")
    seconds, code = command.get("execution_time"), command.get("return_code")
    if seconds is None:
        seconds = 0.0
    if type(seconds) not in (int, float) or not 0 <= seconds < 1e9:
        raise ValueError("a command that took no time that can be")
    if code is not None and (type(code) is not int or not -256 < code < 256):
        raise ValueError("a command whose return code is none")
    made = {"status": command["status"], "execution_time": float(seconds), "return_code": code}
    for name in ("stdout", "stderr"):
        text = command.get(name)
        if text is not None and type(text) is not str:
            raise ValueError(f"a command whose {name} is no text")
        made[name] = text or ""
    return made


def _line(text: Any) -> str:
    return " ".join(str(text or "").split())[:_MOST_DETAIL]
