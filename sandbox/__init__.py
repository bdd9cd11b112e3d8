"""Run untrusted programs in namespaces of their own and say what happened.

Where what is:
* `job`: what goes in and what comes out; `sandbox`: the front door; `names`: languages and their files.
* `launches`, `process`, `verdict`: one job, from what is started to its status; `pool`, `server`, `cgroups`:
  warm workers and their memory; `builds`: what compilers made.
* `inside/`: what runs on the far side, before and beside the program; `farside`: how it gets there.
* `languages/`: how each is built, run and called; the programs that answer calls are in `languages/harness/`.
* `backends/`: bubblewrap, containers, servers; `service`, `handler`: such a server; `wire`, `fusion` and
  `timed`: what both ends of HTTP share.
* `codec`, `frames`: values and messages on a stream that hostile code may write to.
* `compare`, `judge`, `suites`, `checker`, `outputs`, `show`: right or wrong, decided outside.
* `doctor`: which layers hold on this machine.
"""

from sandbox.checker import Checker, check_with
from sandbox.codec import DecodeError, EncodeError, decode, encode
from sandbox.compare import Rules, equal
from sandbox.job import (
    KINDS,
    STATUSES,
    Call,
    ErrorRecord,
    Job,
    Kind,
    Layer,
    Limits,
    RecordedCall,
    Result,
    SandboxError,
    SandboxUnavailable,
    Status,
    Trust,
)
from sandbox.judge import (
    AnyOf,
    Equals,
    Failure,
    Judgement,
    Raises,
    calibrate,
    combine,
    judge_calls,
    judge_output,
    judge_script,
    sound_checks,
)
from sandbox.sandbox import Sandbox
from sandbox.suites import in_one_process, judge_suite, kind_for

__all__ = [
    "KINDS",
    "STATUSES",
    "AnyOf",
    "Call",
    "Checker",
    "DecodeError",
    "EncodeError",
    "Equals",
    "ErrorRecord",
    "Failure",
    "Job",
    "Judgement",
    "Kind",
    "Layer",
    "Limits",
    "Raises",
    "RecordedCall",
    "Result",
    "Rules",
    "Sandbox",
    "SandboxError",
    "SandboxUnavailable",
    "Status",
    "Trust",
    "calibrate",
    "check_with",
    "combine",
    "decode",
    "encode",
    "equal",
    "in_one_process",
    "judge_calls",
    "judge_output",
    "judge_script",
    "judge_suite",
    "kind_for",
    "sound_checks",
]
