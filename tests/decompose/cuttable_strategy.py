"""Random Python programs that end, and what they do: for properties of cutting functions out.

Everything that makes a cut wrong is there: values bound on some paths only, closures that see a variable
change, handlers that read what a half-done block left, early returns, jumps, generators that run late.
"""

from __future__ import annotations

import random

VARIABLES = ("a", "b", "c", "d", "e")
HEAD = """from contextlib import suppress
log = []


def note(value):
    log.append(value)
    return value


"""


def expression(draw: random.Random, level: int = 0) -> str:
    """An expression over the variables; some raise."""
    if level > 1 or draw.random() < 0.4:
        return draw.choice((*VARIABLES, "xs[0]", "len(xs)", "1", "2"))
    left, right, name = expression(draw, level + 1), expression(draw, level + 1), draw.choice(VARIABLES)
    return draw.choice(
        (
            f"{left} + {right}",
            f"({left} - {right})",
            f"{left} // {right}",
            f"note({left})",
            f"({left} if {right} > 1 else {name})",
            f"({left} > {right} and {name})",
            f"sum([{name} * {left} for {name} in xs if {name} > {right}])",
            f"sum({left} + i for i in xs)",
            f"len([j for j in xs if j != {left}])",
            f"(lambda {name}: {name} + {left})({right})",
            f"max({left}, {right})",
            f"sorted(xs, key=lambda i: i * {left})[0]",
        )
    )


def block(draw: random.Random, level: int, loop: bool) -> list[str]:
    """Lines of a few statements, one level in."""
    lines: list[str] = []
    for _ in range(draw.randint(1, 3)):
        lines += statement(draw, level + 1, loop)
    return ["    " + line for line in lines]


def statement(draw: random.Random, level: int, loop: bool) -> list[str]:
    """Lines of one statement."""
    name, other = draw.choice(VARIABLES), draw.choice(VARIABLES)
    made = expression(draw)
    if level < 3 and draw.random() < 0.4:
        return compound(draw, level, loop, name, made)
    plain = [
        [f"{name} = {made}"],
        [f"{name} = {made}"],
        [f"{name} += {made}"],
        [f"{name}, {other} = {made}, {name}"],
        [f"xs.append({made})"],
        [f"note({made})"],
        [f"{name} = [{made}, 1]", f"{name} = {name}[0]"],
    ]
    rare = [
        [f"return {made}"],
        ["return True"],
        [f"lazy = ({name} + i for i in xs[:2])"],
        ["note(sum(lazy))"],
        [f"call = lambda: {name} + {other}"],
        ["note(call())"],
        ["def inner(k, q=1):", f"    return k * q + {name}"],
        [f"note(inner({made}))"],
        ["def shift():", f"    nonlocal {name}", f"    {name} += 1", "shift()"],
        [f"if ({name} := {made}) > 1:", f"    note({name})"],
        [f"del {name}"],
        *([["break"], ["continue"]] if loop else []),
    ]
    return draw.choice(plain if draw.random() < 0.6 else rare)


def compound(draw: random.Random, level: int, loop: bool, name: str, made: str) -> list[str]:
    """Lines of one statement that holds others."""
    form = draw.randrange(9)
    body = block(draw, level, loop or form in (2, 3, 4))
    if form == 0:
        return [f"if {made} > 1:", *body]
    if form == 1:
        return [f"if {made} > 1:", *body, "else:", *block(draw, level, loop)]
    if form == 2:
        return [f"for {name} in xs[:3]:", *body]
    if form == 3:
        return [f"for {name} in range(2):", *body, "else:", *block(draw, level, loop)]
    if form == 4:
        count = f"n{level}"
        return [f"{count} = 2", f"while {count}:", f"    {count} -= 1", *body]
    if form == 5:
        return ["try:", *body, "except ZeroDivisionError:", *block(draw, level, loop)]
    if form == 6:
        handler = ["    note(type(problem).__name__)", *block(draw, level, loop)]
        return ["try:", *body, "except Exception as problem:", *handler]
    if form == 7:
        return ["with suppress(ZeroDivisionError, TypeError):", *body]
    cases = ["    case 1:", *("    " + line for line in body)]
    cases += [f"    case {name} if {made}:", *("    " + line for line in block(draw, level, loop))]
    return ["match a:", *cases]


def cuttable(seed: int) -> str:
    """A program whose function `f(a, b, xs)` does all the work; not all compile."""
    draw = random.Random(seed)
    lines = ["c = d = e = 1"] if draw.random() < 0.7 else []
    for _ in range(draw.randint(2, 6)):
        lines += statement(draw, 0, False)
    hints = draw.choice(("a, b, xs", "a: int, b: int, xs: list[int]"))
    return HEAD + f"def f({hints}):\n" + "".join(f"    {line}\n" for line in lines)


def behaviour(code: str) -> list[object]:
    """What `f` gives or raises for a few inputs, what it notes, and what it does to its list."""
    found: list[object] = []
    for a, b, xs in ((0, 1, [3, 1, 2]), (2, 0, []), (1, 5, [0, 4]), (3, 3, [1, 1, 7, 2])):
        space: dict[str, object] = {}
        exec(compile(code, "program", "exec"), space)  # what is run was made above
        given = list(xs)
        try:
            value = space["f"](a, b, given)  # type: ignore[operator]
            told = value if isinstance(value, int | bool | type(None)) else type(value).__name__
        except Exception as error:
            told = type(error).__name__
        found.append((told, type(told), space["log"], given))
    return found
