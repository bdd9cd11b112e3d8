"""Run untrusted programs in namespaces of their own and say what happened."""

from sandbox.codec import DecodeError, EncodeError, decode, encode
from sandbox.compare import equal
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
from sandbox.sandbox import Sandbox

__all__ = [
    "KINDS",
    "STATUSES",
    "Call",
    "DecodeError",
    "EncodeError",
    "ErrorRecord",
    "Job",
    "Kind",
    "Layer",
    "Limits",
    "RecordedCall",
    "Result",
    "Sandbox",
    "SandboxError",
    "SandboxUnavailable",
    "Status",
    "Trust",
    "decode",
    "encode",
    "equal",
]
