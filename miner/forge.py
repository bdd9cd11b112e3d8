"""Stars, issues and forks of repositories, asked from their forge.

Only forges that are named here, or by the user, are asked: a repository's own configuration, which
nobody vouches for, cannot send a question or a token anywhere else. Answers are kept in a JSONL file,
one row a repository, so that another run asks nobody and gives the same bytes. A token is read from the
environment, goes to its own forge only, over TLS or to this machine, and is neither told nor kept.

Python's own HTTP client is used: it knows proxies and certificates of the machine, needs no further
package, and reads an answer as slowly and as far as is wanted.

What can go wrong ends in a line that is handed back, never in an error: a forge that cannot be reached,
refuses for long, or answers what is no answer leaves things unknown, and is asked again next time.
"""

from __future__ import annotations

import dataclasses
import email.utils
import http.client
import ipaddress
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from email.message import Message
from pathlib import Path
from typing import IO, Any

from miner.metadata import Known, place_of
from schemas import shards
from schemas.errors import AssayError

MAX_ANSWER = 4 << 20
"""Bytes of an answer; a longer one is none."""

MAX_STORE = 256 << 20
"""Bytes of a file of answers that are read."""

_TRIES = 3
_PAUSE = 1.0
"""Seconds before the second try; the third waits twice as long."""

_MAX_COUNT = 1 << 40
_PATH = re.compile(r"[\w.-]{1,100}(?:/[\w.-]{1,100}){1,8}")
_SAVE_EVERY = 50


@dataclasses.dataclass(frozen=True)
class Forge:
    """A forge: its kind (`github`, `gitlab` or `gitea`), API, host of its repositories and its token."""

    kind: str
    api: str
    host: str
    tokens: tuple[str, ...]


FORGES = (
    Forge("github", "https://api.github.com", "github.com", ("GITHUB_TOKEN", "GH_TOKEN")),
    Forge("gitlab", "https://gitlab.com/api/v4", "gitlab.com", ("GITLAB_TOKEN",)),
    Forge("gitea", "https://codeberg.org/api/v1", "codeberg.org", ("CODEBERG_TOKEN",)),
)
_KINDS = {"/api/v3": "github", "/api/v4": "gitlab", "/api/v1": "gitea"}


def own_forge(url: str) -> Forge:
    """The forge whose API a user names, such as `https://git.example.org/api/v4`; its token is `FORGE_TOKEN`.

    Raises:
        AssayError: not the URL of an API that is known, or a token would go over the network in the clear.
    """
    try:
        parts = urllib.parse.urlsplit(url.strip())
        host = (parts.hostname or "").lower()
        _ = parts.port
    except ValueError as error:
        raise AssayError(f"{url!r}: not a URL ({error})") from None
    kind = _KINDS.get(parts.path.rstrip("/")[-7:])
    if parts.scheme not in ("http", "https") or not host or kind is None or parts.username or parts.query:
        raise AssayError(
            f"{url!r}: not the API of a forge; give its URL up to /api/v3 (GitHub Enterprise), "
            "/api/v4 (GitLab) or /api/v1 (Gitea, Forgejo)"
        )
    if parts.scheme == "http" and not _is_here(host) and os.environ.get("FORGE_TOKEN"):
        raise AssayError(f"{url!r}: FORGE_TOKEN would go over the network in the clear; give an https URL")
    return Forge(kind, url.strip().rstrip("/"), host, ("FORGE_TOKEN",))


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def project_of(url: str | None, forges: Sequence[Forge]) -> tuple[Forge, str] | None:
    """The forge of a remote's URL and the project's path on it; None when it is none of these forges'."""
    host, path = place_of(url) if url else ("", "")
    if not _PATH.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
        return None
    return next(((forge, path) for forge in forges if forge.host == host), None)


class _NoAnswer(Exception):
    """There is no answer for now; the message says why. `stop`: neither to the next question."""

    def __init__(self, why: str, stop: bool = False) -> None:
        super().__init__(why)
        self.stop = stop


class _Refused(Exception):
    """The forge has nothing to tell: no such project, not a public one, or without what was asked for."""


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a renamed repository on its forge and nowhere else, so that a token stays there."""

    max_redirections = 3
    max_repeats = 2

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> urllib.request.Request | None:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise _Refused(f"it sends to another host, {new.hostname or 'none'}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _MAX_COUNT else None


def _name(value: Any, field: str) -> str | None:
    """The path of another project, out of its own description."""
    name = value.get(field) if isinstance(value, Mapping) else None
    return name if isinstance(name, str) and _PATH.fullmatch(name) else None


class Client:
    """Asks one forge. `timeout` and `wait` are in seconds: for one answer, and for being let in again."""

    def __init__(
        self,
        forge: Forge,
        timeout: float,
        wait: float,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.forge, self.timeout, self.wait = forge, timeout, wait
        self.sleep, self.now = sleep, now
        self._open = urllib.request.build_opener(_SameHost).open
        token = next((os.environ[name] for name in forge.tokens if os.environ.get(name)), "").strip()
        # A line feed in a token would end the header and start another.
        self._token = token if token.isascii() and token.isprintable() else ""

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "assay"}
        if self._token:
            if self.forge.kind == "gitlab":
                headers["PRIVATE-TOKEN"] = self._token
            else:
                scheme = "Bearer" if self.forge.kind == "github" else "token"
                headers["Authorization"] = f"{scheme} {self._token}"
        return headers

    def get(self, path: str) -> tuple[Any, Mapping[str, str]]:
        """The JSON object at a path of the API, and the answer's headers.

        Raises:
            _NoAnswer, _Refused: there is none.
        """
        url = self.forge.api + path
        pause, last = _PAUSE, ""
        for attempt in range(_TRIES):
            if attempt:
                self.sleep(pause)
            pause = _PAUSE * 2 ** (attempt + 1)
            request = urllib.request.Request(url, headers=self._headers())  # noqa: S310 (http and https only)
            try:
                with self._open(request, timeout=self.timeout) as answer:
                    return self._json(answer), answer.headers
            except urllib.error.HTTPError as error:
                with error:
                    last = f"status {error.code}"
                    waits = self._asked_to_wait(error)
                if waits is not None:
                    if waits > self.wait:
                        raise _NoAnswer(f"it lets nobody in for another {waits:.0f} s", stop=True) from None
                    pause = waits
                elif error.code == 401:
                    raise _NoAnswer("it does not accept the token", stop=True) from None
                elif error.code < 500:
                    raise _Refused(last) from None
            except (OSError, http.client.HTTPException) as error:
                # What urllib raises names neither the token nor the headers.
                last = str(getattr(error, "reason", error)) or type(error).__name__
            except ValueError as error:
                raise _NoAnswer(f"its answer is no JSON object ({error})") from None
        raise _NoAnswer(f"{last}, {_TRIES} times", stop=True)

    def _json(self, answer: Any) -> Any:
        """A bounded answer; it may neither grow nor trickle without end."""
        until = time.monotonic() + self.timeout
        blocks, left = [], MAX_ANSWER
        while block := answer.read1(min(left + 1, 1 << 16)):
            left -= len(block)
            blocks.append(block)
            if left < 0:
                raise ValueError(f"more than {MAX_ANSWER} bytes")
            if time.monotonic() > until:
                raise TimeoutError("it takes too long")
        if answer.length:
            raise http.client.IncompleteRead(b"", answer.length)
        try:
            found = json.loads(b"".join(blocks))
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(found, dict | list):
            raise ValueError("something else")
        return found

    def _asked_to_wait(self, error: urllib.error.HTTPError) -> float | None:
        """Seconds that a forge asks to wait, or None when that is not why it refused."""
        headers = error.headers
        if error.code not in (403, 429, 503):
            return None
        after = (headers.get("Retry-After") or "").strip()
        if re.fullmatch(r"\d{1,9}", after):
            return float(after)
        if after:
            try:
                return max(0.0, email.utils.parsedate_to_datetime(after).timestamp() - self.now())
            except (ValueError, TypeError, OverflowError):
                return 60.0
        left = headers.get("x-ratelimit-remaining") or headers.get("ratelimit-remaining") or ""
        reset = headers.get("x-ratelimit-reset") or headers.get("ratelimit-reset") or ""
        if re.fullmatch(r"\d{1,12}", reset) and (left.strip() == "0" or error.code == 429):
            return max(1.0, float(reset) - self.now())
        return 60.0 if error.code == 429 else None

    def known(self, path: str) -> tuple[Known, _NoAnswer | None]:
        """What the forge knows of a project, and why not all of it, when it may tell more another time."""
        try:
            if self.forge.kind == "gitlab":
                found, _ = self.get(f"/projects/{urllib.parse.quote(path, safe='')}")
                stars, fork = (
                    found.get("star_count"),
                    _name(found.get("forked_from_project"), "path_with_namespace"),
                )
            else:
                found, _ = self.get(f"/repos/{path}")
                stars = found.get("stargazers_count" if self.forge.kind == "github" else "stars_count")
                fork = _name(found.get("parent"), "full_name")
                path = _name(found, "full_name") or path
        except _Refused:
            return Known(), None
        except AttributeError:
            return Known(), _NoAnswer("its answer is no JSON object")
        except _NoAnswer as error:
            return Known(), error
        known = Known(_whole(stars), None, fork)
        try:
            return dataclasses.replace(known, issues=self._issues(path)), None
        except _Refused:
            return known, None
        except _NoAnswer as error:
            return known, error

    def _issues(self, path: str) -> int | None:
        """Issues of a project, open and closed, without requests."""
        if self.forge.kind == "github":
            # `open_issues_count` leaves out closed ones and counts pull requests; only the search knows all.
            query = urllib.parse.urlencode({"q": f"repo:{path} is:issue", "per_page": 1})
            found, _ = self.get(f"/search/issues?{query}")
            if not isinstance(found, dict) or found.get("incomplete_results") is not False:
                raise _NoAnswer("its search was not complete")
            return _whole(found.get("total_count"))
        if self.forge.kind == "gitlab":
            found, _ = self.get(f"/projects/{urllib.parse.quote(path, safe='')}/issues_statistics")
            for name in ("statistics", "counts", "all"):
                found = found.get(name) if isinstance(found, dict) else None
            return _whole(found)
        _, headers = self.get(f"/repos/{path}/issues?type=issues&state=all&limit=1")
        total = headers.get("X-Total-Count") or ""
        return int(total) if re.fullmatch(r"\d{1,12}", total) else None


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a forge said about a project, or that it says nothing.

    Attributes:
        repo: the repository's name here.
        host: the forge's host.
        path: the project's path there.
        stars, issues, fork_of: as for `Known`.
        asked_at: when, in seconds since 1970 UTC.
        complete: it need not be asked again.
    """

    repo: str
    host: str
    path: str
    stars: int | None
    issues: int | None
    fork_of: str | None
    asked_at: int
    complete: bool

    @property
    def known(self) -> Known:
        """What it says."""
        return Known(self.stars, self.issues, self.fork_of)


def _answer(row: Any) -> Answer | None:
    """An answer out of a row of the file, or None when it is none."""
    if not isinstance(row, dict) or set(row) != {field.name for field in dataclasses.fields(Answer)}:
        return None
    counts = all(row[name] is None or _whole(row[name]) is not None for name in ("stars", "issues"))
    texts = all(type(row[name]) is str for name in ("repo", "host", "path"))
    fork = row["fork_of"] is None or (type(row["fork_of"]) is str and _PATH.fullmatch(row["fork_of"]))
    rest = _whole(row["asked_at"]) is not None and type(row["complete"]) is bool
    return Answer(**row) if counts and texts and fork and rest else None


def read_answers(store: Path) -> dict[tuple[str, str], Answer]:
    """(host, path in lower case) -> answer, from a file that `ask` wrote; empty when there is none.

    Raises:
        AssayError: the file is no such file.
    """
    try:
        with store.open("rb") as handle:
            data = handle.read(MAX_STORE + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise AssayError(f"{store}: cannot be read ({error.strerror})") from None
    answers = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            answer = _answer(json.loads(line))
        except (ValueError, RecursionError):
            answer = None
        if answer is None or len(data) > MAX_STORE:
            raise AssayError(f"{store}: line {number} is no answer of a forge; remove the file to ask again")
        answers[answer.host, answer.path.casefold()] = answer
    return answers


def _write(store: Path, answers: Mapping[tuple[str, str], Answer]) -> None:
    rows = (json.dumps(dataclasses.asdict(answers[key]), sort_keys=True) for key in sorted(answers))
    shards.write_text(store, "".join(f"{row}\n" for row in rows))


def ask(
    store: Path,
    wanted: Iterable[tuple[str, str | None]],
    forges: Sequence[Forge],
    timeout: float,
    wait: float,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.time,
) -> list[str]:
    """Ask for repositories (name, URL) that there is no whole answer for in the file `store`.

    Args:
        timeout: seconds for one answer.
        wait: most seconds to wait when a forge asks to.

    Returns:
        lines for a person: what was not answered, and why.
    """
    answers = read_answers(store)
    clients: dict[Forge, Client] = {}
    stopped: dict[Forge, str] = {}
    left: dict[str, int] = {}
    lines, fresh = [], 0
    try:
        for repo, url in wanted:
            if (project := project_of(url, forges)) is None:
                continue
            forge, path = project
            old = answers.get((forge.host, path))
            if old is not None and old.complete:
                continue
            if forge in stopped:
                left[forge.host] = left.get(forge.host, 0) + 1
                continue
            client = clients.setdefault(forge, Client(forge, timeout, wait, sleep, now))
            known, why = client.known(path)
            if why is not None and why.stop:
                stopped[forge] = str(why)
                left[forge.host] = left.get(forge.host, 0) + 1
                if known == Known():
                    continue
            elif why is not None:
                lines.append(f"{forge.host}: not all about {repo}: {why}; it is asked again next time")
            answers[forge.host, path] = Answer(
                repo, forge.host, path, known.stars, known.issues, known.fork_of, int(now()), why is None
            )
            fresh += 1
            if fresh % _SAVE_EVERY == 0:
                _write(store, answers)
    finally:
        if fresh % _SAVE_EVERY:
            _write(store, answers)
    for forge, reason in stopped.items():
        count = left[forge.host]
        lines.append(
            f"{forge.host}: {count} repositor{'y' if count == 1 else 'ies'} not answered about: {reason}; "
            "run the same command again later"
        )
    return lines
