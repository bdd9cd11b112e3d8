"""assay/2: Tidy a knitting row (tokenizer, recursion, run-length coding)."""

# --- prompt ---
from collections.abc import Iterator


def tidy_row(pattern: str) -> str:
    """Write a knitting row without brackets, in its shortest form.

    A row is a sequence of stitches and groups. A stitch is one lower-case letter from a to z; a
    group is a row in round brackets, which holds at least one stitch. Either may be followed by
    a positive decimal count that repeats it. Whitespace between these parts means nothing,
    except that it ends a count.

    In the result neighbouring equal stitches are joined, a stitch that occurs n > 1 times in a
    run is written as the letter and n, and there is no whitespace. Raise ValueError if the
    pattern is malformed. The empty pattern is the empty row.

    >>> tidy_row("k k2 (p k)2")
    'k3pkpk'
    """
    # --- solution ---
    tokens = list(tokenize(pattern))
    runs, position = expand(tokens, 0)
    if position != len(tokens):
        raise ValueError("a bracket closes nothing")
    return "".join(stitch if count == 1 else f"{stitch}{count}" for stitch, count in join_runs(runs))


def tokenize(pattern: str) -> Iterator[str]:
    """Yield the letters, the brackets and the counts of a pattern."""
    number = ""
    for char in pattern:
        if char in "0123456789":
            number += char
            continue
        if number:
            yield number
            number = ""
        if char in "()" or "a" <= char <= "z":
            yield char
        elif not char.isspace():
            raise ValueError(f"unknown character {char!r}")
    if number:
        yield number


def read_count(tokens: list[str], position: int) -> tuple[int, int]:
    """Return the count at a position, 1 if there is none, and the position after it."""
    if position == len(tokens) or not tokens[position].isdigit():
        return 1, position
    count = int(tokens[position])
    if count == 0:
        raise ValueError("a count must be positive")
    return count, position + 1


def expand(tokens: list[str], position: int) -> tuple[list[tuple[str, int]], int]:
    """Return the runs from a position up to a closing bracket or the end, and where they stop."""
    runs: list[tuple[str, int]] = []
    while position < len(tokens) and tokens[position] != ")":
        if tokens[position].isdigit():
            raise ValueError("a count follows nothing")
        if tokens[position] == "(":
            unit, position = expand(tokens, position + 1)
            if position == len(tokens):
                raise ValueError("a bracket is not closed")
            if not unit:
                raise ValueError("a group is empty")
            unit = join_runs(unit)
        else:
            unit = [(tokens[position], 1)]
        count, position = read_count(tokens, position + 1)
        if len(unit) == 1:
            [(stitch, times)] = unit
            runs.append((stitch, times * count))
        else:
            runs.extend(unit * count)
    return runs, position


def join_runs(runs: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Join neighbouring runs of the same stitch."""
    joined: list[tuple[str, int]] = []
    for stitch, count in runs:
        if joined and joined[-1][0] == stitch:
            joined[-1] = (stitch, joined[-1][1] + count)
        else:
            joined.append((stitch, count))
    return joined


# --- test ---
def check(candidate):
    def rejects(pattern):
        try:
            candidate(pattern)
        except ValueError:
            return True
        return False

    assert candidate("") == ""
    assert candidate(" \n") == ""
    assert candidate("k") == "k"
    assert candidate("az") == "az"
    assert candidate("kkp") == "k2p"
    assert candidate("k5ppp") == "k5p3"
    assert candidate("k k2 (p k)2") == "k3pkpk"
    assert candidate("(k2p)3") == "k2pk2pk2p"
    assert candidate("(pkp)2") == "pkp2kp"
    assert candidate("((k)2(p)3)2k10") == "k2p3k2p3k10"
    assert candidate("(k)(k)k1") == "k3"
    assert candidate("k12\tp3") == "k12p3"
    assert candidate("(a(b(c)2)2)2") == "abc2bc2abc2bc2"
    assert candidate("((((k5)2)2)2)10 k") == "k401"
    assert candidate("(kp)200") == "kp" * 200
    assert candidate("k10000000 (pp(p)2)10000000") == "k10000000p40000000"
    assert rejects("3k")
    assert rejects("k2 3")
    assert rejects("k0")
    assert rejects("(k")
    assert rejects("k)")
    assert rejects("(k))p")
    assert rejects("()2")
    assert rejects("K")
    assert rejects("k-2")
