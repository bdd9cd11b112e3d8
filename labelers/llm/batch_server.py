"""The files and batches of an OpenAI-compatible server: upload, create, look, download.

In: a batch file. Out: what the server says of it, and its answers as files. Wrong: `Refused` for what the
server turns down (nothing was begun), `Unclear` where it is not known whether something was begun; both are
lines for people. Answers are bounded in bytes and in time; redirects are not followed, since they would take
the key elsewhere; what a server names is looked at before it goes into an address.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

from labelers.llm.backends.openai import error_of, headers_of, one_line, place_of
from labelers.llm.batch import URL
from labelers.llm.config import ModelConfig
from schemas.errors import EnvironmentFault

WINDOW = "24h"
"""Time in which a batch is answered; providers know no other."""
MAX_JSON = 8 << 20
MAX_DOWNLOAD = 16 << 30
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_PAGE, _PAGES = 100, 50
_ATTEMPTS = 4
_PAUSE_S = 1.0
_JSON_S, _QUIET_S = 60.0, 300.0


class Refused(EnvironmentFault):
    """The server turned a request down: nothing was begun."""


class Absent(Refused):
    """The server has no such page, file or batch."""


class Unclear(EnvironmentFault):
    """The connection was lost or the server failed: whether something was begun is not known."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """What a server says of a batch.

    Attributes:
        id: its name there.
        status: `validating`, `in_progress`, `finalizing`, `completed`, `failed`, `expired`, `cancelled`, ...
        input: name of the file that it was made of.
        outputs: names of the files of answers and errors, so far as there are any.
        told: errors of the batch as a whole, on one line.
        counts: requests completed, failed and in all, as the server counts them.
    """

    id: str
    status: str
    input: str
    outputs: tuple[str, ...]
    told: str
    counts: tuple[int, int, int]

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in ("completed", "failed", "expired", "cancelled")


class BatchServer:
    """One server. Use as an async context manager.

    Args:
        base_url: its address; empty for OpenAI's.
        api_key_env: environment variable that holds the key.

    Raises:
        ModelFault: the variable holds no key.
    """

    def __init__(self, base_url: str, api_key_env: str, model: str) -> None:
        config = ModelConfig(backend="openai", model=model, base_url=base_url, api_key_env=api_key_env)
        self.shown, self._root, self._proxy = place_of(base_url)
        self._headers = headers_of(config)

    async def __aenter__(self) -> BatchServer:
        self._session = aiohttp.ClientSession(
            headers=self._headers, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def upload(self, path: Path, name: str) -> str:
        """Give the server a batch file; its name there."""
        with path.open("rb") as file:
            form = aiohttp.FormData()
            form.add_field("purpose", "batch")
            form.add_field("file", file, filename=name, content_type="application/jsonl")
            return _named(await self._json("POST", "/files", self._slow(), data=form))

    async def create(self, uploaded: str, mark: str) -> Batch:
        """Begin a batch of an uploaded file."""
        asked = {
            "input_file_id": uploaded,
            "endpoint": URL,
            "completion_window": WINDOW,
            "metadata": {"assay": mark},
        }
        return _batch(await self._json("POST", "/batches", self._quick(), json=asked))

    async def batch(self, name: str) -> Batch:
        """What has become of a batch."""
        return _batch(await self._again("GET", f"/batches/{_checked(name)}"))

    async def find_file(self, name: str) -> str | None:
        """The uploaded file of this name; None where there is none."""
        async for row in self._rows("/files", "purpose=batch"):
            if row.get("filename") == name:
                return _named(row)
        return None

    async def find_batch(self, uploaded: str) -> Batch | None:
        """The batch that was made of an uploaded file; None where there is none."""
        async for row in self._rows("/batches"):
            if row.get("input_file_id") == uploaded:
                return _batch(row)
        return None

    async def _rows(self, place: str, query: str = "") -> Any:
        """Rows of a list of the server, page by page."""
        after = ""
        for _ in range(_PAGES):
            parts = [query, f"limit={_PAGE}", f"after={after}" if after else ""]
            found = await self._again("GET", f"{place}?{'&'.join(part for part in parts if part)}")
            rows = found.get("data")
            if not isinstance(rows, list):
                raise Unclear(f"{self.shown}: its list of {place.strip('/')} cannot be read")
            for row in _objects(rows):
                yield row
            last = rows[-1].get("id") if rows and isinstance(rows[-1], dict) else None
            if not found.get("has_more") or not isinstance(last, str) or last == after:
                return
            after = _checked(last)
        raise Unclear(f"{self.shown}: its list of {place.strip('/')} has no end")

    async def download(self, name: str, path: Path) -> None:
        """Save a file of the server; it is there whole or not at all."""
        part = path.with_suffix(".part")
        for attempt in range(_ATTEMPTS):
            try:
                await self._save(name, part)
                break
            except Unclear:
                if attempt + 1 == _ATTEMPTS:
                    raise
                await asyncio.sleep(_PAUSE_S * 2**attempt)
        part.rename(path)

    async def _save(self, name: str, part: Path) -> None:
        address = f"{self._root}/files/{_checked(name)}/content"
        size = 0
        try:
            async with self._session.get(
                address, proxy=self._proxy, allow_redirects=False, timeout=self._slow()
            ) as response:
                if response.status != 200:
                    raise self._fault(response.status, await response.content.read(MAX_JSON))
                with part.open("wb") as file:
                    async for chunk in response.content.iter_any():
                        size += len(chunk)
                        if size > MAX_DOWNLOAD:
                            raise Refused(
                                f"{self.shown}: file {name} is longer than {MAX_DOWNLOAD >> 30} GiB"
                            )
                        file.write(chunk)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._lost(error) from None

    async def _again(self, method: str, place: str) -> dict[str, Any]:
        """The answer to a request that may be made as often as one likes."""
        for attempt in range(_ATTEMPTS):
            try:
                return await self._json(method, place, self._quick())
            except Unclear:
                if attempt + 1 == _ATTEMPTS:
                    raise
                await asyncio.sleep(_PAUSE_S * 2**attempt)
        raise AssertionError("the last attempt returns")

    async def _json(
        self, method: str, place: str, timeout: aiohttp.ClientTimeout, **sent: Any
    ) -> dict[str, Any]:
        try:
            async with self._session.request(
                method,
                self._root + place,
                proxy=self._proxy,
                allow_redirects=False,
                timeout=timeout,
                **sent,
            ) as response:
                data = bytearray()
                async for chunk in response.content.iter_any():
                    data += chunk
                    if len(data) > MAX_JSON:
                        raise Unclear(f"{self.shown}: an answer is longer than {MAX_JSON >> 20} MiB")
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._lost(error) from None
        if status != 200:
            raise self._fault(status, bytes(data))
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Unclear(f"{self.shown}: an answer cannot be read")
        return found

    def _lost(self, error: BaseException) -> EnvironmentFault:
        if isinstance(error, aiohttp.ClientConnectorError):
            return Refused(
                f"no server at {self.shown} ({error.os_error.strerror or error}); check --base-url"
            )
        return Unclear(f"{self.shown}: the connection was lost ({type(error).__name__})")

    def _fault(self, status: int, data: bytes) -> EnvironmentFault:
        try:
            _, message = error_of(json.loads(data))
        except (ValueError, RecursionError):
            message = ""
        told = f"{self.shown}: HTTP {status}" + (f": {message}" if message else "")
        if status in (404, 405, 501):
            return Absent(f"{told}; does this server take batch files?")
        return Unclear(told) if status in (408, 409, 425, 429) or status >= 500 else Refused(told)

    def _quick(self) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(total=_JSON_S)

    def _slow(self) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(total=None, sock_connect=_JSON_S, sock_read=_QUIET_S)


def _checked(name: str) -> str:
    """A name that may stand in an address."""
    if not _NAME.fullmatch(name) or name.strip(".") == "":
        raise Unclear(f"the server names something {name[:40]!r}, which cannot be asked for")
    return name


def _named(row: dict[str, Any]) -> str:
    name = row.get("id")
    if not isinstance(name, str):
        raise Unclear("the server's answer names no file or batch")
    return _checked(name)


def _objects(rows: list[Any]) -> Iterator[dict[str, Any]]:
    return (row for row in rows if isinstance(row, dict))


def _batch(row: dict[str, Any]) -> Batch:
    outputs = (row.get("output_file_id"), row.get("error_file_id"))
    counts = row.get("request_counts")
    counted = counts if isinstance(counts, dict) else {}
    done, failed, all_ = (
        value if type(value := counted.get(name)) is int else 0 for name in ("completed", "failed", "total")
    )
    errors = row.get("errors")
    data = errors.get("data") if isinstance(errors, dict) else None
    listed = data if isinstance(data, list) else []
    # The first few: a batch may have one for each of its lines.
    told = "; ".join(message for one in _objects(listed[:3]) if (message := error_of(one)[1]))
    return Batch(
        _named(row),
        one_line(str(row.get("status") or ""))[:40],
        str(row.get("input_file_id") or "")[:200],
        tuple(_checked(one) for one in outputs if isinstance(one, str) and one),
        told,
        (done, failed, all_),
    )
