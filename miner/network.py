"""Running git against servers: with the user's own credentials, never asking, never waiting for ever.

Unlike `miner.gitcmd`, which reads objects and nothing else, this needs what the user configured: proxies,
certificates, credential helpers, SSH keys. The repository's side is untrusted: no transport but those of
`SCHEMES` may be used, whatever a URL or a redirect says; nothing that arrives is checked out or run.

A run that is silent for `stall_s` seconds, or lasts longer than `timeout_s`, is stopped with its children;
no file that it writes may grow past `max_bytes`.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from schemas.errors import AssayError

SCHEMES = ("https", "http", "ssh", "file")

_OWN_SETTINGS = re.compile(r"GIT_(?:SSH|SSH_COMMAND|SSH_VARIANT|SSL_\w+|PROXY_\w+|HTTP_PROXY_AUTHMETHOD)")
_TOLD = re.compile(r"(?:fatal|error|remote|ssh|warning): |: Permission denied|Could not|Connection |Host key")
_FULL = re.compile(r"No space left|Disk quota exceeded|File too large")
_CREDENTIALS = re.compile(r"(://)[^/@\s'\"]*@")
_TAIL = 8_000


class NetworkError(AssayError):
    """git could not do it; the message is what it said, in one line."""


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or _OWN_SETTINGS.fullmatch(name)
    }
    kept.pop("SSH_ASKPASS", None)
    return {
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=30",
        **kept,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GCM_INTERACTIVE": "never",
        "GIT_ALLOW_PROTOCOL": ":".join(SCHEMES),
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
    }


def _reason(said: str) -> str:
    """What git said that tells most: the last line that speaks of a fault, without credentials."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", said) if line.strip()]
    faults = [line for line in lines if _TOLD.search(line)]
    # A full disk is told first, then what came of it.
    faults = [line for line in lines if _FULL.search(line)][:1] or faults
    told = next((line for line in reversed(faults) if not line.startswith("warning")), None)
    text = told or (lines[-1] if lines else "it said nothing")
    # "Could not read from remote repository" and its kin only follow what went wrong.
    first = next(
        (line for line in faults if not re.search(r"Could not read from remote|early EOF", line)), None
    )
    text = first if told is not None and first is not None and "Could not read" in text else text
    return _CREDENTIALS.sub(r"\1", "".join(c for c in text if c.isprintable()))[:300]


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill git and what it started; ssh and helpers are in its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_git(
    arguments: Sequence[str],
    *,
    stall_s: float,
    timeout_s: float,
    max_bytes: int,
    stdin: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> str:
    """Run git and return its standard output, at most a few thousand characters of it.

    Args:
        arguments: what follows `git`.
        stdin: a file to read from; nothing when None.
        progress: told the last line of git's progress, now and then.

    Raises:
        NetworkError: git ended with an error, was silent for too long, or lasted too long.
        AssayError: git is not installed.
    """
    with (stdin or Path(os.devnull)).open("rb") as given:
        try:
            process = subprocess.Popen(
                ["git", "-c", "gc.auto=0", "-c", "maintenance.auto=false", *arguments],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(),
                start_new_session=True,
            )
        except FileNotFoundError:
            raise AssayError("git: not found on PATH; install git 2.30 or newer") from None
    try:
        with contextlib.suppress(AttributeError, ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (max_bytes, max_bytes))
        told = _watch(process, stall_s, timeout_s, progress)
    finally:
        if process.poll() is None:
            _stop(process)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    if process.returncode:
        raise NetworkError(_reason(told["stderr"]))
    return told["stdout"]


def _watch(
    process: subprocess.Popen[bytes],
    stall_s: float,
    timeout_s: float,
    progress: Callable[[str], None] | None,
) -> dict[str, str]:
    """Read both streams until the process ends; only the last part of each is kept."""
    tails = {"stdout": b"", "stderr": b""}
    began = heard = shown = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for name in tails:
            selector.register(getattr(process, name), selectors.EVENT_READ, name)
        while selector.get_map():
            now = time.monotonic()
            left = min(heard + stall_s, began + timeout_s) - now
            if left <= 0:
                silent = now - heard >= stall_s
                raise NetworkError(
                    f"no answer for {stall_s:g} s" if silent else f"not finished after {timeout_s:g} s"
                )
            for key, _ in selector.select(left):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                heard = time.monotonic()
                tails[key.data] = (tails[key.data] + data)[-_TAIL:]
                if progress is not None and key.data == "stderr" and heard - shown > 1:
                    shown = heard
                    lines = re.split(rb"[\r\n]+", tails["stderr"].strip())
                    text = lines[-1].decode("utf-8", "replace")
                    progress("".join(c for c in text if c.isprintable())[:120])
    # Both streams are closed, so git is about to end, unless it wants to hold us up.
    try:
        process.wait(max(1.0, min(stall_s, began + timeout_s - time.monotonic())))
    except subprocess.TimeoutExpired:
        raise NetworkError(f"not finished after {time.monotonic() - began:.0f} s") from None
    return {name: tail.decode("utf-8", "replace") for name, tail in tails.items()}
