"""Short ways to run a Go, Java or C# program and to compare what comes back."""

import textwrap
from typing import Any

import pytest

from sandbox import Call, ErrorRecord, Job, Limits, Result, Sandbox, codec, languages
from sandbox.languages.base import ToolchainMissing
from sandbox.names import script_file, solution_file

each_language = pytest.mark.parametrize("lang", ["go", "java", "csharp"])

# Far more than any of these programs needs, since a busy machine may take long to start a runtime.
PATIENT = Limits(wall_s=60, cpu_s=30)


def need(lang: str) -> None:
    try:
        languages.get(lang).find()
    except ToolchainMissing as error:
        pytest.skip(str(error))


USINGS = "using System; using System.Collections.Generic; using System.Linq; using System.Numerics;\n"


def program(lang: str, source: str) -> str:
    """A program of its parts: in Java and C# the members of class Solution."""
    source = textwrap.dedent(source)
    if lang == "java":
        return f"import java.math.*; import java.util.*;\nclass Solution {{ {source} }}"
    if lang == "csharp":
        return USINGS + f"class Solution {{ {source} }}"
    return source if "package " in source else f"package main\n{source}"


def run(
    box: Sandbox, lang: str, source: str, *args: tuple[object, ...], entry: str = "f", **options: Any
) -> Result:
    need(lang)
    files = {solution_file(lang): program(lang, source)}
    options.setdefault("limits", PATIENT)
    return box.run(Job("calls", files, entry=entry, calls=[Call(a) for a in args], lang=lang, **options))


def script(
    box: Sandbox, lang: str, source: str, files: dict[str, str] | None = None, **options: Any
) -> Result:
    need(lang)
    files = {script_file(lang): textwrap.dedent(source), **(files or {})}
    options.setdefault("limits", PATIENT)
    return box.run(Job("script", files, lang=lang, **options))


def error_type(value: object) -> str:
    assert isinstance(value, ErrorRecord)
    return value.type


def exact(value: object) -> bytes:
    """Equal for values of the same types and contents, whatever the order of their dicts."""
    if type(value) is dict:
        pairs = sorted((codec.encode(key), exact(item)) for key, item in value.items())
        return b"m" + codec.encode(pairs)
    if type(value) in (list, tuple):
        return codec.encode([type(value).__name__, [exact(item) for item in value]])
    return codec.encode(value)
