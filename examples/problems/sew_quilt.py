"""assay/6: A quilt of turned and mirrored patches (matrix, decorator)."""

# --- prompt ---
import functools
from collections.abc import Callable


def sew_quilt(patch: list[str], layout: list[str]) -> list[str]:
    """Sew a quilt from copies of one square patch.

    `patch` is a square of characters, one string per row. Each character of `layout` places one
    copy of it: "0", "1", "2" and "3" turn the patch clockwise by that many quarter turns, and
    "a", "b", "c" and "d" first mirror it left to right and then turn it by 0, 1, 2 and 3
    quarter turns. Every row of `layout` has the same length.

    Return the rows of the quilt. Raise ValueError if the patch is empty or not square, if the
    layout is ragged, or if it holds another character. An empty layout gives an empty quilt.

    >>> sew_quilt(["x.", "xo"], ["0a", "2c"])
    ['x..x', 'xoox', 'oxxo', '.xx.']
    """
    # --- solution ---
    pieces = {code: orient(patch, code) for code in dict.fromkeys("0" + "".join(layout))}
    quilt: list[str] = []
    for codes in layout:
        if len(codes) != len(layout[0]):
            raise ValueError("the rows of the layout differ in length")
        blocks = [pieces[code] for code in codes]
        quilt.extend("".join(parts) for parts in zip(*blocks, strict=True))
    return quilt


def square_only(transform: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Make a function refuse a patch that is empty or not square."""

    @functools.wraps(transform)
    def guarded(patch: list[str], *args: str) -> list[str]:
        if not patch or any(len(row) != len(patch) for row in patch):
            raise ValueError("a patch must be square")
        return transform(patch, *args)

    return guarded


def turn(patch: list[str]) -> list[str]:
    """Turn a patch clockwise by a quarter."""
    return ["".join(column) for column in zip(*reversed(patch), strict=True)]


def mirror(patch: list[str]) -> list[str]:
    """Swap the left and the right side of a patch."""
    return [row[::-1] for row in patch]


@square_only
def orient(patch: list[str], code: str) -> list[str]:
    """Mirror and turn a patch as a letter or a digit of the layout says."""
    turns = "0123abcd".find(code)
    if turns < 0:
        raise ValueError(f"unknown code {code!r}")
    if turns >= 4:
        patch = mirror(patch)
    for _ in range(turns % 4):
        patch = turn(patch)
    return patch


# --- test ---
def check(candidate):
    def rejects(*args):
        try:
            candidate(*args)
        except ValueError:
            return True
        return False

    patch = ["abc", "def", "ghi"]
    assert candidate(["x.", "xo"], ["0a", "2c"]) == ["x..x", "xoox", "oxxo", ".xx."]
    assert candidate(patch, ["0"]) == patch
    assert candidate(patch, ["1"]) == ["gda", "heb", "ifc"]
    assert candidate(patch, ["2"]) == ["ihg", "fed", "cba"]
    assert candidate(patch, ["3"]) == ["cfi", "beh", "adg"]
    assert candidate(patch, ["a"]) == ["cba", "fed", "ihg"]
    assert candidate(patch, ["b"]) == ["ifc", "heb", "gda"]
    assert candidate(patch, ["c"]) == ["ghi", "def", "abc"]
    assert candidate(patch, ["d"]) == ["adg", "beh", "cfi"]
    assert candidate(patch, ["01"]) == ["abcgda", "defheb", "ghiifc"]
    assert candidate(patch, ["0", "1"]) == ["abc", "def", "ghi", "gda", "heb", "ifc"]
    assert candidate(["#"], ["0123", "abcd"]) == ["####", "####"]
    assert candidate(patch, []) == []
    assert patch == ["abc", "def", "ghi"]
    assert rejects(["ab", "c"], ["0"])
    assert rejects(["ab", "cd", "ef"], ["1"])
    assert rejects([], ["0"])
    assert rejects([], [])
    assert rejects(["ab"], [])
    assert rejects(patch, ["4"])
    assert rejects(patch, ["A"])
    assert rejects(patch, ["00", "0"])
    assert rejects(patch, ["0", "00"])
    big = candidate(patch, ["0123"] * 40)
    assert len(big) == 120
    assert set(big[::3]) == {"abcgdaihgcfi"}
