"""The languages by name, and what their files are called.

In: a language as people write it. Out: its one name here, or the name of a file. Wrong: KeyError.
"""

from __future__ import annotations

# name -> (suffix, default file of a script, file of the module under test)
FILES: dict[str, tuple[str, str, str]] = {
    "python": (".py", "main.py", "solution.py"),
    "javascript": (".js", "main.js", "solution.js"),
    "typescript": (".ts", "main.ts", "solution.ts"),
    "go": (".go", "main.go", "solution.go"),
    "c": (".c", "main.c", "solution.c"),
    "cpp": (".cpp", "main.cpp", "solution.cpp"),
    "java": (".java", "Main.java", "Solution.java"),
    "ruby": (".rb", "main.rb", "solution.rb"),
    "csharp": (".cs", "Main.cs", "Solution.cs"),
    "rust": (".rs", "main.rs", "solution.rs"),
    "php": (".php", "main.php", "solution.php"),
}
LANGUAGES: tuple[str, ...] = tuple(FILES)

_ALIASES = {
    "py": "python",
    "python3": "python",
    "js": "javascript",
    "node": "javascript",
    "nodejs": "javascript",
    "ts": "typescript",
    "golang": "go",
    "c++": "cpp",
    "cxx": "cpp",
    "rb": "ruby",
    "c#": "csharp",
    "cs": "csharp",
    "rs": "rust",
}


def canonical(name: str) -> str:
    """Return the language's name here for a name or alias in any case. Raises KeyError."""
    lowered = name.lower()
    lowered = _ALIASES.get(lowered, lowered)
    if lowered not in FILES:
        raise KeyError(name)
    return lowered


def by_suffix(suffix: str) -> str:
    """Return the language whose files end in `suffix` (".go"). Raises KeyError."""
    for name, (known, _, _) in FILES.items():
        if known == suffix:
            return name
    raise KeyError(suffix)


def script_file(lang: str) -> str:
    return FILES[lang][1]


def solution_file(lang: str) -> str:
    return FILES[lang][2]
