"""assay/3: A sheet of formulas that refer to each other (expressions, topological order)."""

# --- prompt ---


def evaluate_sheet(cells: dict[str, str]) -> dict[str, int]:
    """Work out the value of every cell of a sheet.

    `cells` maps the name of a cell (letters only) to its formula. A formula is made of whole
    numbers, names of cells, the operators + - * with their usual precedence, a minus sign in
    front of an operand, and round brackets. Spaces between these parts mean nothing.

    Return the values under the same names, in the order of `cells`. Raise ValueError if the
    name of a cell is not made of letters, or if a formula is malformed, names a cell that is
    not on the sheet, or depends on its own value.

    >>> evaluate_sheet({"total": "price * count - 5", "price": "20", "count": "2 + 1"})
    {'total': 55, 'price': 20, 'count': 3}
    """
    # --- solution ---
    if not all(name.isalpha() for name in cells):
        raise ValueError("the name of a cell is made of letters")
    tokens = {name: tokenize(formula) for name, formula in cells.items()}
    needs = {name: {token for token in found if token.isalpha()} for name, found in tokens.items()}
    values: dict[str, int] = {}
    for name in order_cells(needs):
        values[name], position = climb(tokens[name], 0, values, 1)
        if position != len(tokens[name]):
            raise ValueError(f"cannot read the formula of {name}")
    return {name: values[name] for name in cells}


PRIORITY = {"+": 1, "-": 1, "*": 2}


def tokenize(formula: str) -> list[str]:
    """Split a formula into numbers, names, operators and brackets."""
    tokens: list[str] = []
    joined = False
    for char in formula:
        if char.isalpha() or char.isdecimal():
            if joined and tokens[-1].isalpha() == char.isalpha():
                tokens[-1] += char
            else:
                tokens.append(char)
            joined = True
            continue
        joined = False
        if char in "+-*()":
            tokens.append(char)
        elif char != " ":
            raise ValueError(f"unknown character {char!r}")
    return tokens


def order_cells(needs: dict[str, set[str]]) -> list[str]:
    """Order the cells so that each comes after the cells that it needs."""
    order: list[str] = []
    placed: set[str] = set()
    waiting = list(needs)
    while waiting:
        stuck = []
        for name in waiting:
            if needs[name] <= placed:
                order.append(name)
                placed.add(name)
            else:
                stuck.append(name)
        if len(stuck) == len(waiting):
            raise ValueError(f"cells without a value: {', '.join(stuck)}")
        waiting = stuck
    return order


def climb(tokens: list[str], position: int, values: dict[str, int], floor: int) -> tuple[int, int]:
    """Evaluate from a position while the operators have at least the priority `floor`."""
    left, position = read_operand(tokens, position, values)
    while position < len(tokens) and PRIORITY.get(tokens[position], 0) >= floor:
        operator = tokens[position]
        right, position = climb(tokens, position + 1, values, PRIORITY[operator] + 1)
        if operator == "+":
            left += right
        elif operator == "-":
            left -= right
        else:
            left *= right
    return left, position


def read_operand(tokens: list[str], position: int, values: dict[str, int]) -> tuple[int, int]:
    """Evaluate the number, name, negation or bracket at a position."""
    part = tokens[position] if position < len(tokens) else ""
    if part == "-":
        value, position = read_operand(tokens, position + 1, values)
        return -value, position
    if part == "(":
        value, position = climb(tokens, position + 1, values, 1)
        if position == len(tokens) or tokens[position] != ")":
            raise ValueError("a bracket is not closed")
        return value, position + 1
    if part.isdecimal():
        return int(part), position + 1
    if part not in values:
        raise ValueError(f"an operand is missing before {part!r}")
    return values[part], position + 1


# --- test ---
def check(candidate):
    def value(formula):
        return candidate({"x": formula})["x"]

    def rejects(cells):
        try:
            candidate(cells)
        except ValueError:
            return True
        return False

    assert candidate({}) == {}
    sheet = {"total": "price * count - 5", "price": "20", "count": "2 + 1"}
    assert candidate(sheet) == {"total": 55, "price": 20, "count": 3}
    assert list(candidate(sheet)) == ["total", "price", "count"]
    assert value("42") == 42
    assert value("10 - 3 - 2") == 5
    assert value("2 + 3 * 4 - 1") == 13
    assert value("10 - 2 * 3") == 4
    assert value("2 * 3 + 4 * 5") == 26
    assert value("(2 + 3) * (4 - 1)") == 15
    assert value("-3 * -(2 - 7)") == -15
    assert value("--7--1") == 8
    assert value(" ( ( 6 ) ) ") == 6
    assert candidate({"a": "b * b", "b": "c - 1", "c": "5"}) == {"a": 16, "b": 4, "c": 5}
    assert candidate({"x": "20 * abc", "abc": "31"}) == {"x": 620, "abc": 31}
    assert candidate({"Rate": "7", "rate": "Rate + 1"}) == {"Rate": 7, "rate": 8}
    assert rejects({"a": ""})
    assert rejects({"a1": "5"})
    assert rejects({"": "5"})
    assert rejects({"a": "1 +"})
    assert rejects({"a": "* 2"})
    assert rejects({"a": "1 2"})
    assert rejects({"a": "(1"})
    assert rejects({"a": "(1 + (2)"})
    assert rejects({"a": "1)"})
    assert rejects({"a": "4 / 2"})
    assert rejects({"a": "missing"})
    assert rejects({"a": "a"})
    assert rejects({"a": "b", "b": "c + 1", "c": "a"})
    names = [chr(97 + index // 26) + chr(97 + index % 26) for index in range(120)]
    chain = {names[index]: f"{names[index - 1]} + 2" for index in range(119, 0, -1)}
    assert candidate({**chain, names[0]: "1"})[names[119]] == 239
    assert value("+".join(["2*3"] * 300)) == 1800
