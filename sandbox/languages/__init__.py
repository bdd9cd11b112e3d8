"""The languages other than Python that the sandbox can build and run, each in a module of its own.

In: a language's name. Out: its `Language`. Wrong: `SandboxError` for a name that is not known, or for
Python, which the sandbox runs by itself.
"""

from __future__ import annotations

import importlib

from sandbox.job import SandboxError
from sandbox.languages.base import Language

# name -> module that holds its `Language` under the name in capitals
_MODULES = {
    "javascript": "javascript",
    "typescript": "javascript",
    "ruby": "ruby",
    "php": "php",
    "go": "go",
    "java": "java",
    "csharp": "csharp",
    "c": "clike",
    "cpp": "clike",
    "rust": "rust",
}


def get(name: str) -> Language:
    """Return the language called `name`; its module is imported when it is first asked for."""
    if name not in _MODULES:
        raise SandboxError(f"no language {name!r} here: use python, {', '.join(_MODULES)}")
    module = importlib.import_module(f"sandbox.languages.{_MODULES[name]}")
    language: Language = getattr(module, name.upper())
    return language
