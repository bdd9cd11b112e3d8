"""assay/12: Number the lines of an outline (roman numerals, recursion, generator)."""

# --- prompt ---
from collections.abc import Iterator


def number_outline(text: str, styles: str) -> str:
    """Put a number in front of every line of an outline.

    Each line is indented by two spaces per level; blank lines are dropped. The first line is at
    level 0, and a line may be at most one level deeper than the one before it. The lines of a
    level are counted from 1, and the count starts again below each line of a higher level.

    `styles` has one character per level: "1" counts 1, 2, 3; "a" counts a to z, aa, ab; "i"
    counts in small roman numerals; "A" and "I" count like those in capitals. Levels below the
    last style start over with the first. The number of a line is the counts of the lines above
    it and its own, joined by dots. In the result every line keeps its indentation, followed by
    its number, a space and its text, and the lines are joined by newlines.

    Raise ValueError if `styles` is empty or holds another character, or if the indentation of a
    line is odd, too deep or not made of spaces.

    >>> print(number_outline("Soil\\n  Clay\\n  Sand\\nSeed", "1a"))
    1 Soil
      1.a Clay
      1.b Sand
    2 Seed
    """
    # --- solution ---
    if not styles or set(styles) - set("1aAiI"):
        raise ValueError(f"unknown styles {styles!r}")
    counts: list[int] = []
    result = []
    for level, title in read_lines(text):
        if level > len(counts):
            raise ValueError(f"too deep: {title!r}")
        counts = [*counts, 0][: level + 1]
        counts[level] += 1
        labels = [write_count(count, styles[depth % len(styles)]) for depth, count in enumerate(counts)]
        result.append("  " * level + ".".join(labels) + " " + title)
    return "\n".join(result)


def read_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the level and the text of every line that is not blank."""
    for line in text.splitlines():
        title = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        if not title:
            continue
        if indent.strip(" ") or len(indent) % 2:
            raise ValueError(f"not an indentation by pairs of spaces: {line!r}")
        yield len(indent) // 2, title


def to_letters(number: int) -> str:
    """Return a for 1, z for 26, aa for 27 and so on."""
    if number == 0:
        return ""
    rest, letter = divmod(number - 1, 26)
    return to_letters(rest) + chr(ord("a") + letter)


def to_roman(number: int) -> str:
    """Return a positive number in small roman numerals."""
    values = (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1)
    signs = ("m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i")
    written = ""
    for value, sign in zip(values, signs, strict=True):
        times, number = divmod(number, value)
        written += sign * times
    return written


def write_count(count: int, style: str) -> str:
    """Write a count in one of the styles 1, a, A, i and I."""
    if style == "1":
        return str(count)
    written = to_letters(count) if style in "aA" else to_roman(count)
    return written.upper() if style in "AI" else written


# --- test ---
def check(candidate):
    def rejects(*args):
        try:
            candidate(*args)
        except ValueError:
            return True
        return False

    def numbers(count, style):
        return [line.split()[0] for line in candidate("x\n" * count, style).split("\n")]

    assert candidate("", "1") == ""
    assert candidate("Soil\n  Clay\n  Sand\nSeed", "1a") == "1 Soil\n  1.a Clay\n  1.b Sand\n2 Seed"
    assert candidate("One", "I") == "I One"
    assert candidate("a\n\n   \nb\n", "A") == "A a\nB b"
    assert candidate("a\n  b\nc\n  d\n  e", "1i") == "1 a\n  1.i b\n2 c\n  2.i d\n  2.ii e"
    assert candidate("a\n  b\n    c\n      d\n  e\nf", "1A") == (
        "1 a\n  1.A b\n    1.A.1 c\n      1.A.1.A d\n  1.B e\n2 f"
    )
    assert candidate("a\n  b\n    c\nd\n  e\n    f", "1") == (
        "1 a\n  1.1 b\n    1.1.1 c\n2 d\n  2.1 e\n    2.1.1 f"
    )
    assert candidate("two words  \n  more  words", "1") == "1 two words\n  1.1 more  words"
    assert rejects("a", "")
    assert rejects("a", "1b")
    assert rejects("  a", "1")
    assert rejects("a\n b", "1")
    assert rejects("a\n\tb", "1")
    assert rejects("a\n\t b", "1")
    assert rejects("a\n    b", "1")
    assert rejects("a\n  b\nc\n    d", "1")
    assert numbers(28, "a")[24:] == ["y", "z", "aa", "ab"]
    assert numbers(704, "A")[700:] == ["ZY", "ZZ", "AAA", "AAB"]
    assert numbers(10, "i") == ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x"]
    roman = numbers(2000, "I")
    assert [roman[number - 1] for number in (14, 40, 49, 90, 99)] == ["XIV", "XL", "XLIX", "XC", "XCIX"]
    assert [roman[number - 1] for number in (444, 900, 1666, 1999)] == ["CDXLIV", "CM", "MDCLXVI", "MCMXCIX"]
    assert numbers(1000, "1")[999] == "1000"
