"""assay/11: Stock valued first in, first out (inventory simulation)."""

# --- prompt ---


def stock_report(events: list[str]) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    """Report the profit and the remaining lots of every product in a store.

    An event is one of

        buy PRODUCT COUNT @ PRICE
        sell PRODUCT COUNT @ PRICE
        scrap PRODUCT COUNT

    with its words separated by spaces, a whole count of at least 1 and a whole unit price of at
    least 0, both in ASCII digits. What is sold or scrapped leaves the store in the order in
    which it was bought. The profit is what was earned by selling less what the sold and
    scrapped pieces had cost.

    Map each product, in the order of its first purchase, to its profit and its remaining lots,
    oldest first, as (count, price); lots next to each other that have the same price are one
    lot. Raise ValueError for a malformed event or if more is taken than there is.

    >>> stock_report(["buy nut 10 @ 3", "buy nut 5 @ 4", "sell nut 12 @ 6"])
    {'nut': (34, [(3, 4)])}
    """
    # --- solution ---
    profits: dict[str, int] = {}
    lots: dict[str, list[tuple[int, int]]] = {}
    for event in events:
        verb, product, count, price = parse_event(event)
        if verb == "buy":
            profits.setdefault(product, 0)
            lots[product] = add_lot(lots.get(product, []), count, price)
        else:
            cost, lots[product] = take_oldest(lots.get(product, []), count)
            profits[product] += count * price - cost
    return {product: (profit, lots[product]) for product, profit in profits.items()}


def parse_event(event: str) -> tuple[str, str, int, int]:
    """Return the verb, the product, the count and the unit price (0 for scrap) of an event."""
    words = event.split()
    if len(words) == 3 and words[0] == "scrap":
        words += ["@", "0"]
    elif len(words) != 5 or words[0] not in ("buy", "sell") or words[3] != "@":
        raise ValueError(f"not an event: {event!r}")
    verb, product, count, _, price = words
    digits = count + price
    if not (digits.isascii() and count.isdecimal() and price.isdecimal()) or int(count) == 0:
        raise ValueError(f"not a count or a price: {event!r}")
    return verb, product, int(count), int(price)


def add_lot(lots: list[tuple[int, int]], count: int, price: int) -> list[tuple[int, int]]:
    """Return the lots with a new one at the end, joined to the last if the price is the same."""
    if lots and lots[-1][1] == price:
        return [*lots[:-1], (lots[-1][0] + count, price)]
    return [*lots, (count, price)]


def take_oldest(lots: list[tuple[int, int]], count: int) -> tuple[int, list[tuple[int, int]]]:
    """Take pieces from the oldest lots; return what they had cost and the lots that remain."""
    cost = 0
    for index, (held, price) in enumerate(lots):
        if held > count:
            return cost + count * price, [(held - count, price), *lots[index + 1 :]]
        cost += held * price
        count -= held
    if count > 0:
        raise ValueError("more is taken than there is")
    return cost, []


# --- test ---
def check(candidate):
    def rejects(*events):
        try:
            candidate(list(events))
        except ValueError:
            return True
        return False

    assert candidate([]) == {}
    assert candidate(["buy nut 10 @ 3", "buy nut 5 @ 4", "sell nut 12 @ 6"]) == {"nut": (34, [(3, 4)])}
    assert candidate(["buy nut 10 @ 3"]) == {"nut": (0, [(10, 3)])}
    assert candidate(["buy nut 2 @ 3", "buy nut 1 @ 3"]) == {"nut": (0, [(3, 3)])}
    assert candidate(["buy nut 2 @ 3", "buy nut 1 @ 4", "buy nut 6 @ 3"]) == {
        "nut": (0, [(2, 3), (1, 4), (6, 3)])
    }
    assert candidate(["buy nut 2 @ 3", "buy nut 1 @ 4", "buy nut 6 @ 4"]) == {"nut": (0, [(2, 3), (7, 4)])}
    assert candidate(["buy nut 4 @ 3", "sell nut 4 @ 3"]) == {"nut": (0, [])}
    assert candidate(["buy nut 4 @ 3", "sell nut 4 @ 2", "buy nut 1 @ 7"]) == {"nut": (-4, [(1, 7)])}
    assert candidate(["buy nut 4 @ 5", "scrap nut 1"]) == {"nut": (-5, [(3, 5)])}
    assert candidate(["buy nut 1 @ 1", "buy nut 1 @ 2", "buy nut 1 @ 3", "sell nut 2 @ 9"]) == {
        "nut": (15, [(1, 3)])
    }
    assert candidate(["buy z 2 @ 0", "buy a 3 @ 1", "sell z 1 @ 8", "scrap a 2"]) == {
        "z": (8, [(1, 0)]),
        "a": (-2, [(1, 1)]),
    }
    assert list(candidate(["buy z 2 @ 0", "buy a 3 @ 1", "buy z 1 @ 1"])) == ["z", "a"]
    assert rejects("sell nut 1 @ 3")
    assert rejects("scrap nut 1")
    assert rejects("buy nut 3 @ 1", "sell nut 4 @ 1")
    assert rejects("buy nut 0 @ 1")
    assert rejects("buy nut -1 @ 1")
    assert rejects("buy nut 1 @ 1.5")
    assert rejects("buy nut \u0661 @ 1")
    assert rejects("buy nut 1 at 5")
    assert rejects("buy nut 1")
    assert rejects("lend nut 1 @ 5")
    assert rejects("buy nut 9 @ 1", "scrap nut 1 @ 0")
    assert rejects("buy nut 9 @ 1", "scrap nut x")
    events = [f"buy bolt {count} @ {count}" for count in range(1, 101)] + ["sell bolt 1 @ 100"] * 1000
    profit, lots = candidate(events)["bolt"]
    assert lots == [(35, 45)] + [(count, count) for count in range(46, 101)]
    assert profit == 100000 - sum(count * count for count in range(1, 45)) - 10 * 45
