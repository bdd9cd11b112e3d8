"""What repositories are given as: paths, URLs, and files that list them.

A URL stands for a place in the cache of fetched repositories (`miner.remote` fills it). It is checked
before git sees it: no transport but https, http, ssh and file, no option in place of a host, no password.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from miner.config import FetchConfig
from miner.network import SCHEMES
from miner.repository import name_from_url, slug_of
from schemas.errors import AssayError

_SHORT_SSH = re.compile(r"[\w.-]+@(?:[\w.-]+|\[[0-9a-fA-F:]+\]):(?!//)\S+")
_URL = re.compile(
    r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*)://(?:(?P<user>[^/@]*)@)?(?P<host>[^/]*)(?P<path>/.*)?"
)
_MAX_LIST = 64 << 20


def is_url(given: str) -> bool:
    """Whether a source is a URL, good or bad, rather than a path."""
    return bool(
        re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:(?:/{2}|:)", given)
        or (_SHORT_SSH.fullmatch(given) and not Path(given).exists())
    )


def check_url(url: str) -> str:
    """A URL that git may be given, as it stands.

    Raises:
        AssayError: it uses another transport, holds a password or token, or is no URL of a repository.
    """
    shown = "".join(c if c.isprintable() else "?" for c in url)[:200]
    advice = "give https://host/owner/name, ssh://user@host/path, user@host:path or file:///path"
    if any(c.isspace() or not c.isprintable() for c in url) or url.startswith("-"):
        raise AssayError(f"{shown}: not the URL of a repository; {advice}")
    if _SHORT_SSH.fullmatch(url):
        host = url.partition("@")[2]
        if host.startswith("-") or url.startswith("-"):
            raise AssayError(f"{shown}: not the URL of a repository; {advice}")
        return url
    match = _URL.fullmatch(url)
    if match is None or match["scheme"].lower() not in SCHEMES:
        raise AssayError(f"{shown}: assay does not fetch by this transport; {advice}")
    scheme, user, host, path = match["scheme"].lower(), match["user"], match["host"], match["path"]
    if user is not None and (":" in user or scheme != "ssh"):
        raise AssayError(
            f"{scheme}://{host}{path or ''}: a password or token in a URL would be kept in the recipe; "
            "leave it out, and let a git credential helper or an SSH key give it"
        )
    bad_host = not host if scheme != "file" else host not in ("", "localhost")
    if bad_host or host.startswith("-") or (user or "").startswith("-") or path in (None, "/"):
        raise AssayError(f"{shown}: not the URL of a repository; {advice}")
    if scheme != "file" and re.search(r"[?#]", path):
        raise AssayError(f"{shown}: a repository's URL has no query or fragment; {advice}")
    return url


def cache_folder(config: FetchConfig) -> Path:
    """Where fetched repositories lie: the setting, else ASSAY_CACHE, else the user's cache folder."""
    if config.cache:
        return Path(config.cache).expanduser()
    if given := os.environ.get("ASSAY_CACHE"):
        return Path(given) / "repositories"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "assay" / "repositories"


def cached_path(url: str, config: FetchConfig) -> Path:
    """Where a URL's repository lies, or will lie, in the cache."""
    plain = check_url(url).rstrip("/").removesuffix(".git")
    return cache_folder(config) / f"{slug_of(name_from_url(url) or 'repository', plain)}.git"


def local_path(given: str, config: FetchConfig) -> Path:
    """The folder that a source is read from: itself, or a URL's place in the cache.

    Raises:
        AssayError: a URL that is bad or was not fetched yet.
    """
    if not is_url(given):
        return Path(given)
    path = cached_path(given, config)
    if not path.is_dir():
        raise AssayError(
            f"{given}: nothing of it is fetched yet; run mine without --dry-run and with fetch.update=true, "
            "while its server answers"
        )
    return path


def read_list(file: Path) -> list[str]:
    """Sources named by a file, one a line: paths (relative to the file's folder) and URLs.

    Blank lines and lines that start with `#` are passed over.

    Raises:
        AssayError: the file cannot be read, is no text or names nothing.
    """
    try:
        with file.open("rb") as handle:
            data = handle.read(_MAX_LIST + 1)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise AssayError(f"{file}: the list cannot be read ({error})") from None
    if len(data) > _MAX_LIST:
        raise AssayError(f"{file}: larger than {_MAX_LIST:,} bytes, so not a list of repositories")
    lines = [line for raw in text.splitlines() if (line := raw.strip()) and not line.startswith("#")]
    if not lines:
        raise AssayError(f"{file}: names no repository; give a path or a URL a line")
    return [line if is_url(line) else str(file.parent / Path(line).expanduser()) for line in lines]
