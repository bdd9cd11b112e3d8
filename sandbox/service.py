"""An HTTP service over a `Sandbox`, so that a fleet of machines can run the jobs of one.

    python -m sandbox.service --port 8080 --workers 8

POST /run_code   the API of SandboxFusion: a script in, {status, message, compile_result, run_result} out
POST /jobs       {"job": base64 of `wire.encode_job`} in, {"of": SHA-256 of the job's bytes, "result": base64
                 of `wire.encode_result`} out
GET  /health     {"service": "sandbox", "jobs": 1, "ok": true, "workers": n}; needs no token
GET  /v1/ping    "pong", as SandboxFusion; needs no token
GET  /metrics    what has been done so far, as Prometheus reads it

In: whatever a client sends. Out: JSON, and for what cannot be done {"error": one line} with the status that
names it: 400 a request that makes no sense or asks for more than `most`, 401 no or a wrong token, 403 a
browser's request, 404, 405, 411 and 413 (body), 415 (not JSON), 429 (all workers and the queue are busy, with
Retry-After), 503 (too many connections, or stopping). Wrong: OSError where the address cannot be had.
Jobs run in the sandbox with its isolation; the service itself has no other, so by default it listens to this
machine alone, and to others only with a token.
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from types import TracebackType

from sandbox.handler import Server
from sandbox.job import Job, Limits, Result, SandboxError
from sandbox.sandbox import Sandbox

# The most that one request may ask for.
MOST = Limits(
    wall_s=120.0,
    cpu_s=120.0,
    memory_mb=4096,
    processes=128,
    file_mb=256,
    tmpfs_mb=1024,
    output_kb=1024,
    result_kb=65536,
    open_files=1024,
)
# The environment variable that `main` takes the token from: a command line can be read by others.
TOKEN_VARIABLE = "SANDBOX_TOKEN"  # noqa: S105 - a name


class Service:
    """A service that runs in threads of its own; a context manager that stops it.

    host          an address of this machine, or a name of it
    port          0 takes a free one; `url` tells which
    token         what a client must send as "Authorization: Bearer <token>"; None lets anybody in
    max_body_mb   MiB of the largest request
    queue         requests that may wait for a worker of the sandbox; by default four for each
    most          the largest limits that a request may ask for
    public        listen to other machines without a token
    """

    def __init__(
        self,
        sandbox: Sandbox,
        host: str = "127.0.0.1",
        port: int = 8080,
        token: str | None = None,
        *,
        max_body_mb: int = 32,
        queue: int | None = None,
        most: Limits = MOST,
        public: bool = False,
    ) -> None:
        if token is not None and not token.strip():
            raise SandboxError("the token is empty: leave it out, or give one that cannot be guessed")
        if token is None and not public and not _is_loopback(host):
            raise SandboxError(
                f"{host} is seen by other machines: give a token, or say public, and anybody may run programs"
            )
        self.sandbox = sandbox
        self.token = token
        self.most = most
        self.max_body = max_body_mb << 20
        self.workers = sandbox.workers
        self.queue = 4 * sandbox.workers if queue is None else queue
        if max_body_mb < 1 or self.queue < 0:
            raise SandboxError("max_body_mb must be at least 1 and queue at least 0")
        self._slots = threading.Semaphore(self.workers)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self.admitted = 0
        self.running = 0
        self.stopping = False
        self.refused = 0
        self.seconds = 0.0
        self.statuses: Counter[str] = Counter()
        self._server = Server((host, port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes) else str(host)
        return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self, grace_s: float = 600.0) -> None:
        """Take no further request, wait up to `grace_s` seconds for those that are under way, and close."""
        with self._lock:
            self.stopping = True
        self._server.shutdown()
        until = time.monotonic() + grace_s
        with self._idle:
            while self.admitted and time.monotonic() < until:
                self._idle.wait(max(0.0, until - time.monotonic()))
        self._server.close_all()
        self._server.server_close()
        self._thread.join()

    def serve(self) -> None:
        """Serve until SIGINT or SIGTERM; then finish the jobs that are under way. For the main thread."""
        reader, writer = os.pipe()
        before = {
            one: signal.signal(one, lambda *_: os.write(writer, b"x") and None)
            for one in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            print(f"sandbox service at {self.url}, {self.workers} workers", file=sys.stderr, flush=True)
            os.read(reader, 1)
            print("finishing what is under way", file=sys.stderr, flush=True)
            self.stop()
        finally:
            for one, action in before.items():
                signal.signal(one, action)
            os.close(reader)
            os.close(writer)

    @contextlib.contextmanager
    def admit(self) -> Iterator[bool]:
        """Take a place in the queue for a request, if there is one."""
        with self._lock:
            room = self.admitted < self.workers + self.queue and not self.stopping
            self.admitted += room
            self.refused += not room
        try:
            yield room
        finally:
            if room:
                with self._idle:
                    self.admitted -= 1
                    self._idle.notify_all()

    def run(self, job: Job) -> Result:
        """Run a job when a worker is free."""
        with self._slots:
            with self._lock:
                self.running += 1
            begun = time.monotonic()
            status = "refused"
            try:
                result = self.sandbox.run(job)
                status = result.status
            finally:
                with self._lock:
                    self.running -= 1
                    self.seconds += time.monotonic() - begun
                    self.statuses[status] += 1
        return result

    def metrics(self) -> str:
        with self._lock:
            waiting = self.admitted - self.running
            lines = [
                "# TYPE sandbox_jobs_total counter",
                *(f'sandbox_jobs_total{{status="{name}"}} {n}' for name, n in sorted(self.statuses.items())),
                "# TYPE sandbox_job_seconds_total counter",
                f"sandbox_job_seconds_total {self.seconds:.6f}",
                "# TYPE sandbox_requests_refused_total counter",
                f"sandbox_requests_refused_total {self.refused}",
                "# TYPE sandbox_jobs_running gauge",
                f"sandbox_jobs_running {self.running}",
                "# TYPE sandbox_jobs_waiting gauge",
                f"sandbox_jobs_waiting {max(0, waiting)}",
                "# TYPE sandbox_workers gauge",
                f"sandbox_workers {self.workers}",
            ]
        return "\n".join(lines) + "\n"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox.service", description=__doc__.split("\n\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--queue", type=int, help="requests that may wait; by default four for each worker")
    parser.add_argument("--max-body-mb", type=int, default=32)
    parser.add_argument("--public", action="store_true", help="listen to other machines without a token")
    options = parser.parse_args(argv)
    try:
        with Sandbox(workers=options.workers) as sandbox:
            service = Service(
                sandbox,
                options.host,
                options.port,
                os.environ.get(TOKEN_VARIABLE),
                max_body_mb=options.max_body_mb,
                queue=options.queue,
                public=options.public,
            )
            service.serve()
    except (SandboxError, OSError, OverflowError) as error:
        print(f"sandbox service: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
