"""The programming language of a file: by its name, and by its content where names do not tell.

Spellings are those of `miner.config.LANGUAGES`. A name that no listed language uses gives None.
"""

from __future__ import annotations

import re

from miner.wordlist import words

_EXTENSIONS = {
    "Python": "py pyi pyw py3",
    "JavaScript": "js jsx mjs cjs es es6 jsm",
    "TypeScript": "ts tsx mts cts",
    "Java": "java",
    "Go": "go",
    "C": "c idc",
    "C++": "cpp cc cxx c++ cp hpp hh hxx h++ ipp tpp txx tcc ixx cppm",
    "C#": "cs csx",
    "Ruby": "rb rake rbw ru gemspec rbi",
    "Rust": "rs",
    "PHP": "php php3 php4 php5 php7 phps phtml",
}
_BY_EXTENSION = {
    extension: language for language, extensions in _EXTENSIONS.items() for extension in extensions.split()
}
_BY_NAME = {"Rakefile": "Ruby"}

HEADER = "C or C++"
"""What `language_of_path` says about a `.h` file; its content decides."""

_CPP_LINE = re.compile(
    r"[ \t]*(?:namespace\b(?:[ \t]+[\w:]+)?[ \t]*(?:\{|$)|using[ \t]+\w|template[ \t]*<"
    r"|(?:public|private|protected)[ \t]*:|(?:enum[ \t]+)?class[ \t]+\w[\w \t]*(?:[;:{]|$)"
    r"|(?:inline[ \t]+)?constexpr\b|virtual[ \t]|explicit[ \t]|friend[ \t]"
    r"|#[ \t]*include[ \t]*<(?:[a-z_]+|boost/[\w./]+|[\w/]+\.hpp)>)"
)
_CPP_ANYWHERE = re.compile(r"\w::~?\w|\bstatic_cast[ \t]*<|\bnullptr\b|\boperator[ \t]*[=<>+*/!\[(&|-]")
_CPP_WORDS = words(
    """
    namespace using template public private protected class constexpr virtual explicit friend include
    :: static_cast nullptr operator
    """
)
"""What a line that one of the two patterns matches holds at least one of."""
_OBJECTIVE_C_WORDS = ("@interface", "@protocol", "@implementation", "@class", "@end", "#import")
_OBJECTIVE_C = re.compile(rf"^[ \t]*(?:{'|'.join(_OBJECTIVE_C_WORDS)})\b", re.MULTILINE)
_CPP_GUARD = re.compile(r"[ \t]*#[ \t]*if(?:def[ \t]+|[ \t]+defined[ \t]*\(?[ \t]*)__cplusplus\b")
_IF = re.compile(r"[ \t]*#[ \t]*if")
_ELSE = re.compile(r"[ \t]*#[ \t]*(?:else|elif)\b")
_ENDIF = re.compile(r"[ \t]*#[ \t]*endif\b")
_COMMENT_START = re.compile(r"/[*/]")
_HEADER_START, _HEADER_CHARS = 4_000, 40_000


def language_of_path(path: str) -> str | None:
    """The language that a file's name tells; `HEADER` for `.h`, None for a name that tells none."""
    name = path.rpartition("/")[2]
    if name in _BY_NAME:
        return _BY_NAME[name]
    stem, dot, extension = name.rpartition(".")
    if not dot or not stem:
        return None
    # The only extensions whose case tells languages apart: Unix compilers read .C and .H as C++.
    if extension in ("C", "H"):
        return "C++"
    if extension.lower() == "h":
        return HEADER
    return _BY_EXTENSION.get(extension.lower())


def _without_comments(code: str) -> str:
    """Code with comments replaced by a blank; linear in its length, whatever it holds."""
    parts, at = [], 0
    while match := _COMMENT_START.search(code, at):
        parts.append(code[at : match.start()])
        end = code.find("*/" if match[0] == "/*" else "\n", match.end())
        if end < 0:
            return " ".join(parts)
        at = end + 2 if match[0] == "/*" else end
    parts.append(code[at:])
    return " ".join(parts)


def _without_cpp_guards(code: str) -> str:
    """Code without what only a C++ compiler sees."""
    lines, depth = [], 0
    for line in code.split("\n"):
        if "#" not in line:
            if not depth:
                lines.append(line)
        elif depth:
            if _IF.match(line):
                depth += 1
            elif _ENDIF.match(line) or (depth == 1 and _ELSE.match(line)):
                depth -= 1
        elif _CPP_GUARD.match(line):
            depth = 1
        else:
            lines.append(line)
    return "\n".join(lines)


def language_of_header(content: str) -> str | None:
    """C, C++ or (Objective-C and the like) None for a `.h` file, by its first 40,000 characters.

    Comments and what stands between `#ifdef __cplusplus` and its end are not looked at, since a C
    header may address C++ compilers there.
    """
    start = content[:_HEADER_CHARS]
    objective_c = "@" in start or "#import" in start
    if objective_c and _OBJECTIVE_C.search(_without_comments(start)):
        return None
    # Most C++ headers show it soon, and the start is read in a fraction of the time.
    return "C++" if _is_cpp(content, _HEADER_START) or _is_cpp(content, _HEADER_CHARS) else "C"


def _is_cpp(content: str, chars: int) -> bool:
    """Whether a line that only C++ has stands among the whole lines of the first characters."""
    code = content if len(content) <= chars else content[: content.rfind("\n", 0, chars) + 1]
    code = _without_comments(code)
    if "__cplusplus" in code:
        code = _without_cpp_guards(code)
    # Few lines hold one of these words, and finding the next one is many times faster than matching.
    for word in _CPP_WORDS:
        at = code.find(word)
        while at >= 0:
            start, end = code.rfind("\n", 0, at) + 1, code.find("\n", at)
            line = code[start : len(code) if end < 0 else end]
            if _CPP_LINE.match(line) or _CPP_ANYWHERE.search(line):
                return True
            at = -1 if end < 0 else code.find(word, end)
    return False


def language_of(path: str, content: str) -> str | None:
    """The language of a file by its name and content, or None when it is no source of a known one."""
    language = language_of_path(path)
    if language == HEADER:
        return language_of_header(content)
    # Qt translations and videos share TypeScript's extension.
    if language == "TypeScript" and content[:200].lstrip("\ufeff \t\r\n").startswith(
        ("<?xml", "<!DOCTYPE TS")
    ):
        return None
    return language
