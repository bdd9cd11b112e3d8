"""assay/7: A till receipt of fixed width (text formatting, generator)."""

# --- prompt ---
from collections.abc import Iterator


def print_receipt(items: list[tuple[str, int, int]], width: int) -> list[str]:
    """Lay out a receipt as lines of at most `width` characters.

    Each item has a name, a quantity and a unit price in cents, which is negative for a
    discount. The last 10 characters of a line are the price column and the others the text
    column. The text of an item is its name, preceded by the quantity and " x " if that is not
    1. Its words are wrapped at spaces to fit the text column; a word longer than the column
    starts on a line of its own and is cut into pieces that fill it, and the words after it may
    follow the last piece. The first line of an item
    ends with the price of the whole quantity, right-aligned; the others hold text only,
    without trailing spaces.

    Below the items come a line of `width` dashes and a line with TOTAL and the sum. Prices have
    two decimals and a comma between thousands. Raise ValueError if `width` is below 16, a
    quantity is below 1, a name has no words, or a price or the sum does not fit its column.

    >>> print_receipt([("Oat milk", 3, 150), ("Organic rye bread", 1, 420)], 21)
    ['3 x Oat          4.50', 'milk', 'Organic rye      4.20', 'bread', \
'---------------------', 'TOTAL            8.70']
    """
    # --- solution ---
    if width < 16:
        raise ValueError("a receipt is at least 16 characters wide")
    lines: list[str] = []
    total = 0
    for name, quantity, price in items:
        if quantity < 1 or not name.split():
            raise ValueError("an item needs a name and a quantity of at least 1")
        text = name if quantity == 1 else f"{quantity} x {name}"
        lines.extend(item_lines(text, quantity * price, width))
        total += quantity * price
    return [*lines, "-" * width, *item_lines("TOTAL", total, width)]


PRICE_WIDTH = 10


def format_money(cents: int) -> str:
    """Write cents with two decimals and a comma between thousands."""
    sign = "-" if cents < 0 else ""
    whole, part = divmod(abs(cents), 100)
    return f"{sign}{whole:,}.{part:02d}"


def wrap_words(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text wrapped at its spaces, cutting words that are too long."""
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) <= width:
            line += " " + word
            continue
        if line:
            yield line
        while len(word) > width:
            yield word[:width]
            word = word[width:]
        line = word
    yield line


def item_lines(text: str, cents: int, width: int) -> list[str]:
    """Return the lines of one item, the price on the first."""
    price = format_money(cents)
    if len(price) > PRICE_WIDTH:
        raise ValueError(f"no room for the price {price}")
    first, *rest = wrap_words(text, width - PRICE_WIDTH)
    return [first.ljust(width - PRICE_WIDTH) + price.rjust(PRICE_WIDTH), *rest]


# --- test ---
def check(candidate):
    def rejects(*args):
        try:
            candidate(*args)
        except ValueError:
            return True
        return False

    def body(items, width):
        lines = candidate(items, width)
        assert lines[-2] == "-" * width
        return lines[:-2]

    assert candidate([("Oat milk", 3, 150), ("Organic rye bread", 1, 420)], 21) == [
        "3 x Oat          4.50",
        "milk",
        "Organic rye      4.20",
        "bread",
        "-" * 21,
        "TOTAL            8.70",
    ]
    assert candidate([], 16) == ["-" * 16, "TOTAL       0.00"]
    assert body([("Tea", 1, 5)], 20) == ["Tea             0.05"]
    assert body([("Tea", 2, 100)], 20) == ["2 x Tea         2.00"]
    assert body([("Sofa", 1, 123456)], 20) == ["Sofa        1,234.56"]
    assert body([("Sofa", 1, 99999999)], 20) == ["Sofa      999,999.99"]
    assert body([("Coupon", 1, -250)], 20) == ["Coupon         -2.50"]
    assert body([("Coupon", 1, -1)], 20) == ["Coupon         -0.01"]
    assert body([("Coupon", 1, -5)], 20) == ["Coupon         -0.05"]
    assert candidate([("Jam", 1, 300), ("Off", 2, -200)], 18)[-1] == "TOTAL        -1.00"
    assert body([("ab cd ef", 1, 0)], 16) == ["ab cd       0.00", "ef"]
    assert body([("abc de fgh", 1, 0)], 16) == ["abc de      0.00", "fgh"]
    assert body([("abc def", 1, 0)], 16) == ["abc         0.00", "def"]
    assert body([("abcdef", 1, 0)], 16) == ["abcdef      0.00"]
    assert body([("abcdefg hi", 1, 0)], 16) == ["abcdef      0.00", "g hi"]
    assert body([("a bcdefghijklmnop", 1, 0)], 16) == ["a           0.00", "bcdefg", "hijklm", "nop"]
    assert body([("  two   words ", 1, 0)], 24) == ["two words           0.00"]
    assert rejects([], 15)
    assert rejects([("Tea", 0, 5)], 20)
    assert rejects([("Tea", -1, 5)], 20)
    assert rejects([(" ", 1, 5)], 20)
    assert rejects([("Sofa", 2, 50000000)], 20)
    assert rejects([("Sofa", 1, -10000000)] * 10, 20)
    assert rejects([("Refund", 1, -99999999)], 20)
    many = candidate([(f"Item number {index}", index, 99) for index in range(1, 201)], 40)
    assert len(many) == 202
    assert many[199] == "200 x Item number 200             198.00"
    assert many[-1] == "TOTAL" + "19,899.00".rjust(35)
