"""Jobs and results as bytes, for machines that work together.

In: a `Job` or a `Result`. Out: bytes of the codec, and from them an equal one. Wrong: EncodeError for a value
that the codec refuses; ValueError, which names the field, for bytes that are none of ours: they may come from
anybody, so each field's type is checked and a value is only ever one of the codec's.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, get_args

from sandbox import codec
from sandbox.job import STATUSES, Call, ErrorRecord, Job, Limits, RecordedCall, Result, Trust

# Values, weighed by the codec, that one message may hold.
_MAX_NODES = 4 * codec.MAX_NODES
_VALUE, _ERROR = b"v", b"e"


def encode_job(job: Job) -> bytes:
    fields: dict[str, Any] = {
        name: _plain(getattr(job, name)) for name in _JOB if name not in ("calls", "limits")
    }
    fields["calls"] = [codec.encode((list(call.args), dict(call.kwargs))) for call in job.calls]
    fields["limits"] = dataclasses.asdict(job.limits)
    return codec.encode(fields)


def decode_job(data: bytes) -> Job:
    fields = _fields("Job", codec.decode(data), _JOB)
    if "kind" not in fields or "files" not in fields:
        raise ValueError("Job: it has no kind or no files")
    reader = _Reader()
    fields["calls"] = [reader.call(blob) for blob in fields.get("calls", ())]
    fields["limits"] = Limits(**_fields("Limits", fields.get("limits", {}), _LIMITS))
    return Job(**fields)


def key(data: bytes) -> str:
    """By this an answer says which job it is of: a proxy, or two that share a socket, may mix them up."""
    return hashlib.sha256(data).hexdigest()


def encode_result(result: Result) -> bytes:
    fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(Result)}
    fields |= {"wall_s": float(max(0, result.wall_s)), "cpu_s": float(max(0, result.cpu_s))}
    fields["outputs"] = [_outcome(value) for value in result.outputs]
    fields["recorded"] = [
        [
            call.function,
            codec.encode((call.args, call.kwargs)),
            _outcome(call.value if call.error is None else call.error),
            call.mutated,
            call.depth,
        ]
        for call in result.recorded
    ]
    return codec.encode(fields)


def decode_result(data: bytes) -> Result:
    fields = _fields("Result", codec.decode(data), _RESULT)
    if fields.get("status") not in STATUSES:
        raise ValueError(f"Result.status: {str(fields.get('status'))[:40]!r} is none")
    if fields.get("trust", "external") not in get_args(Trust):
        raise ValueError(f"Result.trust: {fields['trust'][:40]!r} is none")
    reader = _Reader()
    fields["outputs"] = [reader.outcome(blob) for blob in fields.get("outputs", ())]
    fields["recorded"] = [reader.recorded(parts) for parts in fields.get("recorded", ())]
    return Result(**fields)


def _plain(value: Any) -> Any:
    """Mappings and sequences of other classes as dict and list, so that the codec takes them."""
    if isinstance(value, Mapping):
        return dict(value)
    return value if value is None or isinstance(value, str | int | float) else list(value)


def _outcome(value: Any) -> bytes:
    if isinstance(value, ErrorRecord):
        return _ERROR + codec.encode([value.type, value.message, value.raised])
    return _VALUE + codec.encode(value)


class _Reader:
    """Decodes the values of one message, which together may hold so much and no more."""

    def __init__(self) -> None:
        self.left = _MAX_NODES

    def value(self, blob: bytes) -> Any:
        value, nodes = codec.decode_counted(blob, max_nodes=min(self.left, codec.MAX_NODES))
        self.left -= nodes
        return value

    def call(self, blob: bytes) -> Call:
        value = self.value(blob)
        if not (type(value) is tuple and [*map(type, value)] == [list, dict] and _is_names(value[1])):
            raise ValueError("Job.calls: not the arguments of a call")
        return Call(tuple(value[0]), value[1])

    def outcome(self, blob: bytes) -> Any:
        kind, value = blob[:1], self.value(blob[1:])
        if kind == _VALUE:
            return value
        if kind == _ERROR and type(value) is list and [*map(type, value)] == [str, str, bool]:
            return ErrorRecord(*value)
        raise ValueError("Result.outputs: an outcome of unknown kind")

    def recorded(self, parts: list[Any]) -> RecordedCall:
        if [*map(type, parts)] != [str, bytes, bytes, bool, int]:
            raise ValueError("Result.recorded: not a recorded call")
        function, before, after, mutated, depth = parts
        call = self.value(before)
        if not (type(call) is tuple and [*map(type, call)] == [tuple, dict] and _is_names(call[1])):
            raise ValueError("Result.recorded: not the arguments of a call")
        value = self.outcome(after)
        error = value if isinstance(value, ErrorRecord) else None
        return RecordedCall(function, call[0], call[1], None if error else value, error, mutated, depth)


def _is_names(kwargs: dict[Any, Any]) -> bool:
    return all(type(name) is str for name in kwargs)


def _fields(what: str, value: Any, checks: Mapping[str, Callable[[Any], bool]]) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError(f"{what}: not a record")
    for name, item in value.items():
        if name not in checks:
            raise ValueError(f"{what}: no field {str(name)[:40]!r} is known here: are both of one version?")
        if not checks[name](item):
            raise ValueError(f"{what}.{name}: a value of the wrong type")
    return value


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


def _list_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: type(value) is list and all(type(item) is kind for item in value)


def _is_texts(value: Any) -> bool:
    return type(value) is dict and all(type(item) is str for pair in value.items() for item in pair)


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _seconds(value: Any) -> bool:
    return type(value) is float and 0 <= value < 1e9


_JOB: dict[str, Callable[[Any], bool]] = {
    "kind": _is(str),
    "files": _is_texts,
    "entry": _is(str),
    "calls": _list_of(bytes),
    "stdin": _is(str),
    "lang": _is(str),
    "limits": _is(dict),
    "record": _list_of(str),
    "record_max": _count,
    "record_bytes": _count,
    "exports": _list_of(str),
    "in_place": _is(bool),
    "argv": _list_of(str),
    "hash_seed": lambda value: value is None or _count(value),
}
_LIMITS = {field.name: _is(int, float) for field in dataclasses.fields(Limits)}
_RESULT: dict[str, Callable[[Any], bool]] = {
    "status": _is(str),
    "outputs": _list_of(bytes),
    "stdout": _is(str),
    "stderr": _is(str),
    "truncated": _is(bool),
    "wall_s": _seconds,
    "cpu_s": _seconds,
    "max_rss": _count,
    "backend": _is(str),
    "isolation": _is(str),
    "trust": _is(str),
    "detail": _is(str),
    "exit_code": lambda value: value is None or _count(value),
    "candidate_calls": _count,
    "recorded": _list_of(list),
    "record_skipped": _count,
}
