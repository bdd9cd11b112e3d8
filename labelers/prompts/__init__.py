"""Prompt templates: Jinja files whose first line gives their version, rendered as plain text.

A template sees only what its caller cleaned: names and paths come from untrusted repositories.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import jinja2

_VERSION = re.compile(r"\{#-?\s*version (\w+)")


@functools.cache
def _environment() -> jinja2.Environment:
    # Prompts are plain text for a model, so escaping for HTML would only damage them.
    return jinja2.Environment(
        loader=jinja2.PackageLoader("labelers", "prompts"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701
        keep_trailing_newline=False,
    )


def render(name: str, **values: Any) -> str:
    """Render the template `<name>.j2`; an undefined variable is an error."""
    return _environment().get_template(f"{name}.j2").render(**values).strip()


@functools.cache
def version(name: str) -> str:
    """`<name>-<version>` of a template, for the evidence of what it wrote."""
    loader = _environment().loader
    assert loader is not None  # noqa: S101 (set above)
    source, _, _ = loader.get_source(_environment(), f"{name}.j2")
    match = _VERSION.match(source)
    if match is None:
        raise ValueError(f"{name}.j2 does not begin with its version")
    return f"{name}-{match.group(1)}"


def one_line(text: str, most: int = 200) -> str:
    """Untrusted text made fit for one quoted place in a prompt: one line, no backticks, bounded."""
    return " ".join("".join(c if c.isprintable() and c != "`" else " " for c in text).split())[:most]
