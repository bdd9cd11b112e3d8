"""Random well-formed Python programs for properties of `decompose`."""

from __future__ import annotations

from hypothesis import strategies as st

BODIES = (
    ("return x",),
    ("return x + 1  # why",),
    ("y = x", "return y"),
    ("# first a comment", "y = [x,", "  1]", "return y"),
    ("if x:", "    return 1", "else:", "    return 2"),
    ("while x:", "    x -= 1", "    break", "# a last comment"),
    ('return """a', "  b", '""" + str(x)'),
    ("def inner(z):", "    return z", "return inner(x)"),
    ("try:", "\treturn 1", "except ValueError as e:", "\traise"),
    ("y = \\", "   x", "return not y"),
    ("return x;",),
    ("...",),
    ("yield x",),
)
DOCS = (None, '"""Doc."""', "'one line'  # note", '"""Several', '    lines"""', 'r"\\d raw"', '"a" "b"')
DECORATORS = ((), ("@property",), ("@wrap(", "    1,", ")", "@staticmethod"))
SIGNATURES = ("(x)", "(x, *args, key=1, **kw)", "(x: int = 3) -> 'int'", "(\n  x,  # inside\n)", "(ä)")
ONE_LINERS = (
    "pass",
    "return 1",
    "return 1;",
    '"doc"',
    '"doc"; return 1',
    "return [\n 1]",
    "x = 1; return x  # c",
)


@st.composite
def definition(draw: st.DrawFn, name: str, indent: str) -> list[str]:
    """Lines of one definition."""
    step = draw(st.sampled_from((" ", "  ", "    ", "\t")))
    head = draw(st.sampled_from(("def", "def", "async def")))
    signature = draw(st.sampled_from(SIGNATURES))
    lines = [indent + line for line in draw(st.sampled_from(DECORATORS))]
    title = f"{indent}{head} {name}{signature}:"
    if draw(st.integers(0, 3)) == 0:
        return [*lines, f"{title} {draw(st.sampled_from(ONE_LINERS))}"]
    title += draw(st.sampled_from(("", "  # comment")))
    doc = draw(st.sampled_from(DOCS))
    # The two middle ones are halves of one docstring.
    docs = [] if doc is None else [doc]
    if doc in ('"""Several', '    lines"""'):
        docs = ['"""Several', '    lines"""']
    body = [*docs, *draw(st.sampled_from(BODIES))]
    return [*lines, title, *(indent + step + line for line in body)]


@st.composite
def block(draw: st.DrawFn, names: list[str], indent: str, level: int) -> list[str]:
    """Lines of a module or a class body."""
    lines: list[str] = []
    for name in names:
        lines += [indent + line for line in draw(st.sampled_from(((), ("# apart",), ("k = 1",))))]
        if level < 2 and draw(st.integers(0, 4)) == 0:
            inner = indent + draw(st.sampled_from(("  ", "\t")))
            lines.append(f"{indent}class {name.upper()}:")
            lines += draw(block(["m", "n"], inner, level + 1))
        else:
            lines += draw(definition(name, indent))
        lines += [""] * draw(st.integers(0, 2))
    return lines


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A program of a few functions and classes, with either line ending, with or without a last one."""
    names = draw(st.lists(st.sampled_from(["f", "g", "h", "ä", "f"]), min_size=1, max_size=4))
    text = "\n".join(draw(block(names, "", 0)))
    text = draw(st.sampled_from(("", '"""Module."""\n', "import os\n"))) + text
    text += draw(st.sampled_from(("", "\n", "\n# the end\n")))
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text
