"""The programming language of a file: by its name, and by its content where names do not tell.

Spellings are those of `miner.config.LANGUAGES`. A name that no listed language uses gives None. Most
files are told by their name alone (`languages_of_path`), so that few contents have to be read.
"""

from __future__ import annotations

import re

from miner.wordlist import words

_EXTENSIONS = {
    "Python": "py pyi pyw py3 pyt wsgi gyp gypi",
    "JavaScript": "js jsx mjs cjs es es6 jsm ssjs sjs jake",
    "TypeScript": "ts tsx mts cts",
    "Java": "java",
    "Go": "go",
    "C": "c idc",
    "C++": "cpp cc cxx c++ cp hpp hh hxx h++ ipp tpp txx tcc ixx cppm inl ino",
    "C#": "cs csx",
    "Ruby": "rb rake rbw ru gemspec rbi podspec jbuilder rabl thor ruby builder",
    "Rust": "rs",
    "PHP": "php php3 php4 php5 php7 php8 phps phtml ctp",
    "Kotlin": "kt kts ktm",
    "Scala": "scala sbt",
    "Swift": "swift",
}
_BY_EXTENSION = {
    extension: language for language, extensions in _EXTENSIONS.items() for extension in extensions.split()
}
_NAMES = {
    "Ruby": """
        Rakefile Gemfile Guardfile Capfile Vagrantfile Podfile Fastfile Appfile Berksfile Brewfile Thorfile
        Dangerfile Puppetfile Steepfile
    """,
    "Python": "SConstruct SConscript wscript",
    "JavaScript": "Jakefile",
}
_BY_NAME = {name: language for language, names in _NAMES.items() for name in names.split()}

HEADER = "C or C++"
"""What `language_of_path` says about a `.h` file; its content decides."""
SCRIPT = "script"
"""What it says about a file that may be a program by its first line, such as `bin/deploy`."""
INCLUDED = "PHP or another language"
"""What it says about a file that is PHP when it opens like PHP, such as `common.inc`."""
SC = "Scala or SuperCollider"
"""What it says about a `.sc` file."""

_INTERPRETERS = {
    "Python": "python pypy uv pipx",
    "JavaScript": "node nodejs js gjs qjs rhino zx",
    "TypeScript": "deno ts-node bun tsx",
    "Ruby": "ruby jruby macruby rbx rake",
    "PHP": "php",
    "Scala": "scala scala-cli amm",
    "Kotlin": "kotlin kotlinc kscript",
    "Swift": "swift",
    "Rust": "rust-script cargo",
    "Java": "java jbang",
    "Go": "gorun",
    "C#": "dotnet csi dotnet-script",
    "C": "tcc",
}
_BY_INTERPRETER = {
    interpreter: language for language, names in _INTERPRETERS.items() for interpreter in names.split()
}
_CANDIDATES = {
    HEADER: ("C", "C++"),
    SCRIPT: tuple(_INTERPRETERS),
    INCLUDED: ("PHP",),
    SC: ("Scala",),
}
_BY_CONTENT = {
    **dict.fromkeys(("cgi", "fcgi", "command", "pl", "t"), SCRIPT),
    **dict.fromkeys(("inc", "module", "install", "theme", "profile"), INCLUDED),
    "h": HEADER,
    "sc": SC,
}
_SCRIPT_NAME = re.compile(r"[a-z0-9][a-z0-9_+-]{0,63}")
_NO_SCRIPTS = words(
    """
    makefile gnumakefile dockerfile containerfile jenkinsfile procfile readme license licence unlicense
    copying notice changelog changes history news authors contributors maintainers owners codeowners todo
    version install configure config gradlew mvnw kconfig kbuild build workspace doc docs index
    """
)
"""Names without extension that are documents, build files or wrappers that a tool wrote."""
_SHEBANG_CHARS, _SHEBANG_LINES = 1000, 5
_EXEC = re.compile(r"[ \t]*(?:':'[ \t]*)?exec[ \t]+(.+)")
_SHELLS = words("sh bash dash zsh ksh ash")
_VERSION = re.compile(r"-?[0-9][0-9.]*\Z")
_SCALA_LINE = re.compile(
    r"^[ \t]*(?:import [a-z]\w*\.|package \w|(?:(?:implicit|lazy|private|override|final) )*(?:val|def) \w"
    r"|@main\b|(?:case |sealed )?(?:object|trait) \w|case class \w|//> using )",
    re.MULTILINE,
)
_OTHERS = {
    # Qt translations, Tiled maps: markup that shares an extension with TypeScript.
    "TypeScript": re.compile(r"\s*(?:<\?xml|<!DOCTYPE|<TS\b|<tileset\b)"),
    "C#": re.compile(r"[^\n]*\n?![\w \t]{1,80}methodsFor:"),
    "JavaScript": re.compile(r"#!.{0,80}\bescript\b"),
    "C++": re.compile(r"\s*<\?hh\b"),
    "PHP": re.compile(r"\s*<\?hh\b"),
}
"""How files of other languages begin that share an extension."""
_RENDER_SCRIPT = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+(?:rs|version)\b", re.MULTILINE)

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
    """The language that a file's name tells, or one of the marks above when its content decides.

    None for a name that tells none, and for documents and build files without an extension.
    """
    name = path.rpartition("/")[2]
    if name in _BY_NAME:
        return _BY_NAME[name]
    stem, dot, extension = name.rpartition(".")
    if not dot:
        return SCRIPT if _SCRIPT_NAME.fullmatch(name) and name not in _NO_SCRIPTS else None
    # Blade templates are a language of their own.
    if not stem or name.lower().endswith(".blade.php"):
        return None
    # The only extensions whose case tells languages apart: Unix compilers read .C and .H as C++.
    if extension in ("C", "H"):
        return "C++"
    extension = extension.lower()
    return _BY_CONTENT.get(extension) or _BY_EXTENSION.get(extension)


def languages_of_path(path: str) -> tuple[str, ...]:
    """The languages that a file may be of as far as its name tells; empty when it is no source file."""
    language = language_of_path(path)
    return () if language is None else _CANDIDATES.get(language, (language,))


def language_of_shebang(content: str) -> str | None:
    """The language of a script by the interpreter that its first line names, or None.

    A shell script that hands itself over (`exec python3 "$0" "$@"`) is of the language it is handed to.
    """
    if not content.startswith("#!"):
        return None
    first, *others = content[:_SHEBANG_CHARS].split("\n")[:_SHEBANG_LINES]
    interpreter = _interpreter(first[2:])
    if interpreter in _SHELLS:
        handed = (match for line in others if (match := _EXEC.match(line)) and "$0" in line)
        interpreter = next((_interpreter(match[1]) for match in handed), None)
    return _BY_INTERPRETER.get(interpreter or "")


def _interpreter(command: str) -> str | None:
    """The program that a command line runs, without folder and version."""
    for part in command.split():
        name = part.strip("\"'").rpartition("/")[2]
        if name in ("env", "xcrun", "exec") or name.startswith("-") or "=" in name:
            continue
        return _VERSION.sub("", name.removesuffix(".exe")) or None
    return None


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
    if language is None:
        return None
    if language == HEADER:
        return language_of_header(content)
    if language == SCRIPT:
        return language_of_shebang(content)
    start = content[:_HEADER_START].lstrip("\ufeff")
    if language == INCLUDED:
        return "PHP" if re.match(r"\s*<\?(?:php\b|=|\s)", start, re.IGNORECASE) else None
    if language == SC:
        return "Scala" if _SCALA_LINE.search(start) else None
    if (other := _OTHERS.get(language)) and other.match(start):
        return None
    if language == "Rust" and _RENDER_SCRIPT.search(start):
        return None
    # Markup alone, as templates are, is no program.
    if language == "PHP" and "<?" not in content:
        return None
    return language
