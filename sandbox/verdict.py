"""From what the processes of a job did to the one status that names it.

In: the frames that hostile code may have written, and the facts that PID 1 and its server report.
Out: a `Result`. Facts outrank frames: a frame can make a result worse or hold a value, and "ok" still
needs every value present. Wrong: nothing is raised; a frame that makes no sense stops its tree with
"unserializable".
"""

from __future__ import annotations

import os
import signal
from typing import Any

from sandbox import codec
from sandbox.builds import Build
from sandbox.inside import harness
from sandbox.job import ErrorRecord, Job, RecordedCall, Result, Status, Trust
from sandbox.process import Launch, Tree, Worker, attend

_MAX_DETAIL = 500
_MAX_TEXT = 4000
# The share of its processor time after which a program's end by a signal of the limit is the limit's doing.
# The kernel counts clock ticks for the limit, which on a busy machine run ahead of the time that it tells.
_NEARLY: dict[int, float] = {signal.SIGXCPU: 0.5, signal.SIGKILL: 0.9}
# Values, weighed by the codec, that the outputs and records of one job may hold in all.
_MAX_NODES = 4 * codec.MAX_NODES
_BY_CAUSE: dict[str, Status] = {"memory": "memory_limit", "processes": "proc_limit"}
_BY_CATEGORY: dict[str, Status] = {
    "compile": "compile_error",
    "load": "exception",
    "exit": "exit",
    "missing": "exception",
    "harness": "exception",
}
# Only a suite may say these: a candidate must not get its tests called broken.
_BY_SUITE: dict[str, Status] = {
    "suite": "failed",
    "candidate": "exception",
    "suite-load": "invalid_suite",
    "argument": "invalid_suite",
}
# The exit statuses of a build above this are those of a compiler that a signal killed, as negative bytes.
_KILLED = 256 - signal.NSIG
Verdict = tuple[Status, str]


class Frames:
    """What one program said. Each method checks what it is given, since the program may be hostile."""

    def __init__(self, job: Job, suite: bool) -> None:
        self.job = job
        self.suite = suite
        self.nodes_left = _MAX_NODES
        self.ready = False
        self.done = False
        self.outputs: list[Any] = []
        self.causes: list[str] = []
        self.unencodable = ""
        self.failure: tuple[str, str, str, str] | None = None
        self.recorded: list[RecordedCall] = []
        self.skipped = 0

    def take(self, kind: bytes, payload: bytes) -> None:
        if kind == harness.READY:
            self.ready = True
        elif kind == harness.OUTPUT and len(self.outputs) < len(self.job.calls) and not self.done:
            value, cause = self.outcome(payload)
            self.outputs.append(value)
            self.causes.append(cause)
        elif kind == harness.RECORD and self.job.record:
            self.record(payload)
        elif kind == harness.DONE and not self.done:
            self.done = True
            self.skipped += _checked(codec.decode(payload), int)
        elif kind == harness.FAILURE and self.failure is None:
            category, name, message, cause = _strings(payload, 4)
            if category not in _BY_CATEGORY and not (self.suite and category in _BY_SUITE):
                raise codec.DecodeError(f"a failure of unknown category {category!r}")
            self.failure = (category, name, message, cause)
        else:
            raise codec.DecodeError(f"a frame {kind!r} that was not due")

    def outcome(self, payload: bytes) -> tuple[Any, str]:
        kind, body = payload[:1], payload[1:]
        if kind == harness.VALUE:
            return self.value(body), ""
        name, message, cause = _strings(body, 3)
        if kind == harness.ERROR:
            return ErrorRecord(name, message), cause
        if kind == harness.UNENCODABLE:
            self.unencodable = self.unencodable or f"{name}: {message}"
            return ErrorRecord(name, message, raised=False), ""
        raise codec.DecodeError(f"an outcome of unknown kind {kind!r}")

    def value(self, body: bytes) -> Any:
        value, nodes = codec.decode_counted(body, max_nodes=min(self.nodes_left, codec.MAX_NODES))
        self.nodes_left -= nodes
        return value

    def record(self, payload: bytes) -> None:
        name, before, outcome, mutated, depth = _parts(codec.decode(payload), list, 5)
        args, kwargs = _parts(self.value(_checked(before, bytes)), tuple, 2)
        value, _ = self.outcome(_checked(outcome, bytes))
        error = value if isinstance(value, ErrorRecord) else None
        call = RecordedCall(
            function=_checked(name, str),
            args=_checked(args, tuple),
            kwargs={_checked(key, str): item for key, item in _checked(kwargs, dict).items()},
            value=None if error else value,
            error=error,
            mutated=_checked(mutated, bool),
            depth=_checked(depth, int),
        )
        if name not in self.job.record or len(self.recorded) >= self.job.record_max * len(self.job.record):
            raise codec.DecodeError("a record that was not asked for")
        self.recorded.append(call)


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise codec.DecodeError(f"{kind.__name__} was due, not {type(value).__name__}")
    return value


def _parts(value: Any, kind: type, count: int) -> Any:
    if len(_checked(value, kind)) != count:
        raise codec.DecodeError(f"{count} parts were due, not {len(value)}")
    return value


def _strings(payload: bytes, count: int) -> Any:
    """Decode `count` strings and make each of them bounded, valid text."""
    return [
        _checked(part, str).encode("utf-8", "backslashreplace")[:_MAX_TEXT].decode("utf-8", "ignore")
        for part in _parts(codec.decode(payload), list, count)
    ]


def run_alone(job: Job, launch: Launch, worker: Worker) -> Result:
    """Run a job that is one tree: kinds "calls", "script" and "unittest"."""
    said = Frames(job, suite=job.kind == "unittest")

    def on_frame(_: Tree, kind: bytes, payload: bytes) -> None:
        said.take(kind, payload)

    tree = Tree(launch, worker)
    try:
        attend([tree], on_frame, lambda: None)
    finally:
        tree.close()
    judge = _judge_script if job.kind == "script" else _judge_calls
    status, detail = _fact(tree) or judge(tree, said)
    refused = tree.crowded or (said.failure is not None and said.failure[3] == "processes")
    if refused and status in ("timeout", "cpu_limit", "exception", "exit"):
        status, detail = "proc_limit", f"{job.limits.processes} processes were alive; {detail}"
    return _result(tree, said, status, detail, trust="inproc" if job.kind == "unittest" else "external")


def _result(tree: Tree, said: Frames, status: Status, detail: str, trust: Trust) -> Result:
    ended = tree.wait_status
    return Result(
        status=status,
        outputs=said.outputs,
        stdout=tree.out.text(),
        stderr=tree.err.text(),
        truncated=tree.out.truncated or tree.err.truncated,
        wall_s=tree.wall_s,
        cpu_s=tree.cpu_s,
        max_rss=tree.max_rss,
        trust=trust,
        detail=_line(detail),
        exit_code=os.WEXITSTATUS(ended) if ended is not None and os.WIFEXITED(ended) else None,
        recorded=said.recorded,
        record_skipped=said.skipped,
    )


def _line(text: str) -> str:
    """One bounded line that can be printed, whatever a program has put in it."""
    words = " ".join(text.split())
    shown = [mark if mark.isprintable() else ascii(mark)[1:-1] for mark in words[:_MAX_DETAIL]]
    return "".join(shown)[:_MAX_DETAIL]


def _fact(tree: Tree) -> Verdict | None:
    """What is known without asking the program; None where it ended by itself."""
    if tree.stopped is not None:
        return tree.stopped
    if tree.setup_error:
        return "infra_error", tree.setup_error
    if tree.wait_status is None:
        text = tree.err.text().strip().rsplit("\n", 1)[-1]
        return "infra_error", f"PID 1 ended without a report. {text}".strip()
    if tree.started is None:
        return "infra_error", "its process ended before the program began"
    if not os.WIFSIGNALED(tree.wait_status):
        return None
    number = os.WTERMSIG(tree.wait_status)
    limits = tree.launch.limits
    if number in _NEARLY and tree.cpu_s >= _NEARLY[number] * limits.cpu_s:
        return "cpu_limit", f"processor time limit of {limits.cpu_s:g} s"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return "signal", f"killed by {name}"


def _failure(said: Frames) -> Verdict | None:
    if said.failure is None:
        return None
    category, name, message, cause = said.failure
    status = _BY_CAUSE.get(cause) or _BY_CATEGORY.get(category) or _BY_SUITE[category]
    if category == "exit":
        return status, f"left with {message or 0} while solution.py was loading"
    if category == "missing":
        return status, message
    if category == "compile":
        return status, f"{name}: {message}"
    prefix = {"harness": "disturbed: ", "load": "", "suite": "", "candidate": "the candidate raised "}
    return status, f"{prefix.get(category, 'the suite: ')}{name}: {message}"


def _judge_calls(tree: Tree, said: Frames) -> Verdict:
    failed = _failure(said)
    if failed is not None:
        return failed
    if said.done and len(said.outputs) == len(said.job.calls):
        for cause in said.causes:
            if cause:
                return _BY_CAUSE.get(cause, "exception"), "a call ran into the limit"
        if said.unencodable and said.job.kind == "calls":
            return "unserializable", said.unencodable
        return "ok", ""
    return _early_exit(tree)


def _early_exit(tree: Tree) -> Verdict:
    code = os.WEXITSTATUS(tree.wait_status or 0)
    if code == harness.EXIT_CHANNEL_LOST:
        return "unserializable", "the program closed the result channel"
    return "exit", f"left with {code} before it was done"


def _judge_script(tree: Tree, said: Frames) -> Verdict:
    code = os.WEXITSTATUS(tree.wait_status or 0)
    if code == 0:
        return "ok", ""
    return _failure(said) or ("exit", f"exit status {code}")


def run_build(launch: Launch, worker: Worker) -> Build:
    """Run a compiler; what it left comes from PID 1, after the compiler's end."""
    files: dict[str, bytes] = {}
    refused = ""

    def on_frame(_: Tree, kind: bytes, payload: bytes) -> None:
        nonlocal refused
        if kind == harness.BUILT:
            path, mode, contents = _parts(codec.decode(payload), list, 3)
            _checked(mode, int)
            files[_checked(path, str)] = _checked(contents, bytes)
        elif kind == harness.FAILURE:
            refused = _checked(codec.decode(payload), str)
        elif kind != harness.DONE:
            raise codec.DecodeError(f"a frame {kind!r} that was not due")

    tree = Tree(launch, worker)
    try:
        attend([tree], on_frame, lambda: None)
    finally:
        tree.close()
    status, detail = _judge_build(tree, bool(files), refused)
    kept = files if status == "ok" else {}
    lasting = _fact(tree) is None
    return Build(status, kept, _line(detail), tree.out.text(), tree.err.text(), lasting)


def _judge_build(tree: Tree, left_files: bool, refused: str) -> Verdict:
    fact = _fact(tree)
    if fact is not None:
        status: Status = "infra_error" if fact[0] == "infra_error" else "compile_error"
        return status, f"the compiler: {fact[0]}: {fact[1]}"
    code = os.WEXITSTATUS(tree.wait_status or 0)
    if code > _KILLED:
        return "compile_error", f"the compiler: killed by {signal.strsignal(256 - code)}"
    if code:
        lines = (tree.err.text().strip() or tree.out.text().strip()).split("\n")
        first = next((line for line in lines if "error" in line.lower()), lines[0])
        return "compile_error", first or f"the compiler: exit status {code}"
    if refused:
        return "compile_error", f"what the compiler made cannot be kept: {refused}"
    if not left_files:
        return "compile_error", "the compiler left nothing to run"
    return "ok", ""


def run_split(job: Job, test: tuple[Launch, Worker], candidate: tuple[Launch, Worker]) -> Result:
    """Run the two halves of a split job and carry calls from one to the other."""
    relay = _Relay(job)
    trees: list[Tree] = []
    try:
        relay.test = Tree(*test)
        trees.append(relay.test)
        # Each half's clock runs when it is that half's turn.
        relay.test.pause()
        relay.candidate = Tree(*candidate)
        trees.append(relay.candidate)
        attend(trees, relay.on_frame, relay.on_turn)
    finally:
        for tree in trees:
            tree.close()
    status, detail = relay.verdict()
    result = _result(relay.candidate, relay.of_candidate, status, detail, trust="split")
    result.candidate_calls = relay.calls
    result.wall_s = max(tree.wall_s for tree in trees)
    result.cpu_s = sum(tree.cpu_s for tree in trees)
    return result


class _Relay:
    """Between the halves: all that the candidate sends is decoded here before it is passed on."""

    test: Tree
    candidate: Tree

    def __init__(self, job: Job) -> None:
        self.job = job
        self.of_test = Frames(job, suite=True)
        self.of_candidate = Frames(job, suite=False)
        self.calls = 0
        self.asked = False
        self.last_cause = ""
        self.first: Tree | None = None

    def on_frame(self, tree: Tree, kind: bytes, payload: bytes) -> None:
        if self.first is not None or tree.stopped_at:
            return
        if tree is self.test:
            if kind == harness.QUERY and self.of_candidate.ready and not self.asked:
                self.asked = True
                self.calls += 1
                self.test.pause()
                self.candidate.resume()
                self.candidate.send(kind, payload)
            else:
                self.of_test.take(kind, payload)
        elif kind == harness.ANSWER and self.asked:
            self.check(payload)
            self.asked = False
            self.candidate.pause()
            self.test.resume()
            self.test.send(kind, payload)
        elif kind in (harness.READY, harness.FAILURE):
            first = not self.of_candidate.ready
            self.of_candidate.take(kind, payload)
            if kind == harness.READY and first:
                self.candidate.pause()
                self.test.resume()
                self.test.send(harness.GO)
        else:
            raise codec.DecodeError(f"a frame {kind!r} that was not due")

    def check(self, payload: bytes) -> None:
        """Refuse an answer that is not one, so that nothing malformed reaches the tests."""
        outcome, shape, changes = _parts(codec.decode(payload), list, 3)
        # The value is not kept here, so each answer has the bound to itself.
        self.of_candidate.nodes_left = _MAX_NODES
        _, self.last_cause = self.of_candidate.outcome(_checked(outcome, bytes))
        if self.of_candidate.unencodable:
            raise codec.DecodeError(self.of_candidate.unencodable)
        if shape is not None:
            base, exact, args = _parts(shape, list, 3)
            _checked(base, str), _checked(exact, bool), _checked(args, list)
        if _checked(changes, dict) and not self.job.in_place:
            raise codec.DecodeError("changed arguments that were not asked for")
        for index in changes:
            if _checked(index, int) < 0:
                raise codec.DecodeError("a changed argument without a position")

    def on_turn(self) -> None:
        """Decide once whose end counts, then end the other half."""
        if self.first is None:
            if self.of_test.done or self.of_test.failure or self.test.over:
                self.first = self.test
                if self.asked:
                    self.candidate.end()
                else:
                    self.candidate.release()
            elif self.candidate.over:
                self.first = self.candidate
                self.test.end()
        elif self.first is self.test and self.test.over and not self.test.finished:
            self.candidate.end()

    def verdict(self) -> Verdict:
        for tree in (self.test, self.candidate):
            if tree.setup_error:
                return "infra_error", tree.setup_error
        if self.first is self.candidate:
            fact = _fact(self.candidate)
            return self.crowded(fact) or fact or _failure(self.of_candidate) or _early_exit(self.candidate)
        if self.of_test.done:
            if not self.calls:
                return "invalid_suite", "the suite ended without calling the candidate"
            return "ok", ""
        failed = _failure(self.of_test)
        if failed is None:
            return self.suite_died()
        status, detail = failed
        if not self.calls:
            return "invalid_suite", f"it failed before it called the candidate: {detail}"
        if self.last_cause and status in ("failed", "exception"):
            return _BY_CAUSE.get(self.last_cause, status), detail
        return status, detail

    def suite_died(self) -> Verdict:
        """The suite's process ended without a word: its own limits, or its own doing."""
        fact = _fact(self.test)
        if fact is None:
            return "invalid_suite", "the suite left before it was done"
        status, detail = fact
        if self.asked or status == "infra_error":
            return self.crowded(fact) or fact
        return status, f"in the suite: {detail}"

    def crowded(self, fact: Verdict | None) -> Verdict | None:
        """A timeout of either half where the candidate had as many processes as it may; None for all else."""
        if fact is None or fact[0] != "timeout" or not self.candidate.crowded:
            return None
        return "proc_limit", f"{self.job.limits.processes} processes were alive; {fact[1]}"
