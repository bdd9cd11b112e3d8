"""Programs in JavaScript, TypeScript, Ruby and PHP that tell which calls of their functions were made.

In: a program, its functions and its entry point. Out: the program with each function wrapped, and the name
of a function that calls the entry point and returns a list of [name, arguments as they were], or None where
no function can be wrapped. Arguments that cannot be copied are left out, and so are calls with keywords or
blocks and those after the first thousand. Wrong: nothing is raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from labelers.programs.runs import entry_of

LANGUAGES = frozenset({"JavaScript", "TypeScript", "Ruby", "PHP"})
MAIN = "watched_main"
_PLAIN = re.compile(r"[A-Za-z_]\w*")

_SCRIPT_HEAD = "\n;const watched_calls = [];\n"
_SCRIPT_EACH = """;{ const watched = NAME; NAME = function (...given) {
  let kept = null;
  try { kept = structuredClone(given); } catch (error) { kept = null; }
  const made = watched.apply(this, given);
  if (kept !== null && watched_calls.length < 1000) watched_calls.push(["NAME", kept]);
  return made;
}; }
"""
_SCRIPT_TAIL = """
function watched_main(...given) {
  watched_calls.length = 0;
  try { ENTRY(...given); } catch (error) { return watched_calls.slice(); }
  return watched_calls.slice();
}
"""

_RUBY_HEAD = "\n$watched_calls = []\n"
_RUBY_EACH = """class Object
  watched = instance_method(:NAME)
  define_method(:NAME) do |*given, **named, &block|
    kept = (Marshal.load(Marshal.dump(given)) rescue nil)
    made = watched.bind(self).call(*given, **named, &block)
    plain = kept && named.empty? && block.nil? && $watched_calls.size < 1000
    $watched_calls << ["NAME", kept] if plain
    made
  end
end
"""
_RUBY_TAIL = """
def watched_main(*given)
  $watched_calls = []
  begin
    ENTRY(*given)
  rescue StandardError
    return $watched_calls
  end
  $watched_calls
end
"""

_PHP_EACH = """
function NAME(...$given) {
    $kept = unserialize(serialize($given));
    $made = watched_NAME(...$given);
    if (count($GLOBALS['watched_calls'] ?? []) < 1000) { $GLOBALS['watched_calls'][] = ['NAME', $kept]; }
    return $made;
}
"""
_PHP_TAIL = """
function watched_main(...$given) {
    $GLOBALS['watched_calls'] = [];
    try { ENTRY(...$given); } catch (\\Throwable $error) { return $GLOBALS['watched_calls']; }
    return $GLOBALS['watched_calls'];
}
"""


def watched(code: str, functions: Sequence[Mapping[str, Any]], entry: str, language: str) -> str | None:
    """The program that tells of its calls."""
    if language not in LANGUAGES or "watched" in code or not _PLAIN.fullmatch(entry):
        return None
    plain = [one for one in functions if _PLAIN.fullmatch(one["name"]) and one["kind"] == "function"]
    if language == "PHP":
        return _php(code, plain, entry)
    if language == "Ruby":
        head, each, tail = _RUBY_HEAD, _RUBY_EACH, _RUBY_TAIL
    else:
        head, each, tail = _SCRIPT_HEAD, _SCRIPT_EACH, _SCRIPT_TAIL
        # Only what is declared as a function can be bound anew.
        plain = [one for one in plain if re.match(r"(?:export\s+)?(?:async\s+)?function\b", one["signature"])]
    if not plain:
        return None
    wraps = "".join(each.replace("NAME", one["name"]) for one in plain)
    return code + head + wraps + tail.replace("ENTRY", entry_of(entry))


def _php(code: str, functions: Sequence[Mapping[str, Any]], entry: str) -> str | None:
    """PHP binds no function anew, so that each gets another name and its wrapper the old one."""
    data = code.encode()
    wraps = ""
    for one in sorted(functions, key=lambda span: -int(span["start_byte"])):
        text = data[one["start_byte"] : one["end_byte"]]
        name = re.escape(one["name"].encode())
        new, count = re.subn(
            rb"\bfunction(\s+)" + name + rb"\b", b"function\\1watched_" + one["name"].encode(), text, count=1
        )
        # One that takes references cannot be called through a copy of its arguments.
        if count and "&" not in one["signature"]:
            data = data[: one["start_byte"]] + new + data[one["end_byte"] :]
            wraps += _PHP_EACH.replace("NAME", one["name"])
    if not wraps:
        return None
    closed = b"?>" in data[data.rfind(b"<?php") :]
    return data.decode() + ("\n<?php\n" if closed else "\n") + wraps + _PHP_TAIL.replace("ENTRY", entry)
