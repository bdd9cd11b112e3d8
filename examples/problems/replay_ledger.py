"""assay/1: A small bank replays its ledger (simulation, money as cents)."""

# --- prompt ---


def replay_ledger(lines: list[str]) -> tuple[dict[str, str], list[int]]:
    """Replay a ledger and report the balances and the lines that were refused.

    Each line holds one of these commands, its words separated by spaces:

        open NAME AMOUNT      a new account with a first deposit
        move FROM TO AMOUNT   a transfer between two different accounts
        fee NAME AMOUNT       money that leaves the bank
        close NAME            remove an account whose balance is zero

    AMOUNT is written in ASCII digits with two decimals, such as "12.50". Blank lines are
    skipped. A command is refused, and changes nothing, if it opens an account that is open,
    names one that is not, transfers from an account to itself, overdraws an account or closes
    one that holds money.

    Return the balances of the open accounts, written like AMOUNT, and the 1-based numbers of
    the refused lines. Raise ValueError for an unknown command, a wrong number of words or a
    malformed amount.

    >>> replay_ledger(["open ann 10.00", "open bob 0.50", "move ann bob 2.25", "fee bob 9.00"])
    ({'ann': '7.75', 'bob': '2.75'}, [4])
    """
    # --- solution ---
    balances: dict[str, int] = {}
    refused = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        verb, names, cents = parse_command(line)
        updated = apply_command(balances, verb, names, cents)
        if updated is None:
            refused.append(number)
        else:
            balances = updated
    return {name: format_cents(cents) for name, cents in balances.items()}, refused


def parse_amount(text: str) -> int:
    """Return the cents of an amount such as "12.50"."""
    whole, _, cents = text.partition(".")
    digits = whole + cents
    if not whole or len(cents) != 2 or not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"not an amount: {text!r}")
    return int(whole) * 100 + int(cents)


def parse_command(line: str) -> tuple[str, list[str], int]:
    """Split a line into its verb, the account names and the amount in cents (0 for close)."""
    verb, *words = line.split()
    sizes = {"open": 2, "move": 3, "fee": 2, "close": 1}
    if len(words) != sizes.get(verb):
        raise ValueError(f"not a command: {line!r}")
    if verb == "close":
        return verb, words, 0
    return verb, words[:-1], parse_amount(words[-1])


def apply_command(balances: dict[str, int], verb: str, names: list[str], cents: int) -> dict[str, int] | None:
    """Return the balances after a command, or None if the command is refused."""
    name = names[0]
    if verb == "open":
        return None if name in balances else {**balances, name: cents}
    if any(other not in balances for other in names):
        return None
    if verb == "close":
        if balances[name] != 0:
            return None
        return {other: held for other, held in balances.items() if other != name}
    if balances[name] < cents:
        return None
    if verb == "fee":
        return {**balances, name: balances[name] - cents}
    if name == names[1]:
        return None
    return {**balances, name: balances[name] - cents, names[1]: balances[names[1]] + cents}


def format_cents(cents: int) -> str:
    """Write cents as an amount with two decimals."""
    return f"{cents // 100}.{cents % 100:02d}"


# --- test ---
def check(candidate):
    def rejects(*lines):
        try:
            candidate(list(lines))
        except ValueError:
            return True
        return False

    assert candidate([]) == ({}, [])
    assert candidate(["open ann 10.00", "open bob 0.50", "move ann bob 2.25", "fee bob 9.00"]) == (
        {"ann": "7.75", "bob": "2.75"},
        [4],
    )
    assert candidate(["open ann 0.00", "", "   ", "open ann 5.00"]) == ({"ann": "0.00"}, [4])
    assert candidate(["open ann 3.07", "fee ann 3.00"]) == ({"ann": "0.07"}, [])
    assert candidate(["open ann 1234.99", "fee ann 0.90"]) == ({"ann": "1234.09"}, [])
    assert candidate(["open ann 3.00", "fee ann 3.00"]) == ({"ann": "0.00"}, [])
    assert candidate(["open ann 3.00", "fee ann 3.01"]) == ({"ann": "3.00"}, [2])
    assert candidate(["open ann 3.00", "move ann ann 1.00"]) == ({"ann": "3.00"}, [2])
    assert candidate(["open ann 3.00", "move ann bob 1.00"]) == ({"ann": "3.00"}, [2])
    assert candidate(["open bob 3.00", "move ann bob 1.00"]) == ({"bob": "3.00"}, [2])
    assert candidate(["fee ann 0.00", "close ann"]) == ({}, [1, 2])
    assert candidate(["open ann 0.00", "close ann"]) == ({}, [])
    assert candidate(["open ann 0.01", "close ann"]) == ({"ann": "0.01"}, [2])
    assert candidate(["open a 1.00", "open b 2.00", "move a b 1.00", "close a", "open a 4.00"]) == (
        {"b": "3.00", "a": "4.00"},
        [],
    )
    assert rejects("open ann")
    assert rejects("open ann 5")
    assert rejects("open ann 5.0")
    assert rejects("open ann .50")
    assert rejects("open ann \u0665.00")
    assert rejects("open ann -5.00")
    assert rejects("fee ann x.00")
    assert rejects("move ann 1.00")
    assert rejects("close ann 0.00")
    assert rejects("steal ann 1.00")
    accounts = [f"open a{index} 1.00" for index in range(50)]
    moves = [f"move a{index} a{index + 1} {index + 1}.00" for index in range(49)]
    balances, refused = candidate(accounts + moves + ["move a49 a0 50.01"])
    assert refused == [100]
    assert balances == {f"a{index}": "0.00" for index in range(49)} | {"a49": "50.00"}
