"""assay/4: Cheapest ferry trip with a voucher (graph search)."""

# --- prompt ---
import heapq
from collections.abc import Iterator


def cheapest_trip(routes: list[str], start: str, goal: str) -> tuple[int, list[str]] | None:
    """Find the cheapest trip between two ports when one leg may go at half price.

    A route is written "PORT-PORT:PRICE", with a whole price of at least 0 in ASCII digits, and
    is served in both directions. If a pair of ports is listed more than once, its lowest price
    counts. A traveller holds one voucher: it halves the price of one leg, rounded down, and
    need not be used.

    Return the total price and the ports of the trip from `start` to `goal`. Among equally cheap
    trips take the one with fewest legs, then the one whose list of ports sorts first. Return
    None if no trip exists. Raise ValueError if a route is malformed or joins a port to itself,
    or if `start` or `goal` is on no route.

    >>> cheapest_trip(["Aro-Bly:8", "Bly-Cam:3", "Aro-Cam:16"], "Aro", "Cam")
    (7, ['Aro', 'Bly', 'Cam'])
    """
    # --- solution ---
    graph = build_graph(routes)
    if start not in graph or goal not in graph:
        raise ValueError("a port is on no route")
    queue: list[tuple[int, int, list[str], bool]] = [(0, 0, [start], False)]
    done: set[tuple[str, bool]] = set()
    while queue:
        price, legs, path, used = heapq.heappop(queue)
        if path[-1] == goal:
            return price, path
        if (path[-1], used) in done:
            continue
        done.add((path[-1], used))
        for port, extra, spent in next_legs(graph, path[-1], used):
            heapq.heappush(queue, (price + extra, legs + 1, [*path, port], spent))
    return None


def parse_route(text: str) -> tuple[str, str, int]:
    """Return the two ports and the price of a route."""
    ports, _, price = text.partition(":")
    one, _, other = ports.partition("-")
    if not one or not other or "-" in other or not (price.isascii() and price.isdecimal()):
        raise ValueError(f"not a route: {text!r}")
    if one == other:
        raise ValueError(f"a route from a port to itself: {text!r}")
    return one, other, int(price)


def build_graph(routes: list[str]) -> dict[str, dict[str, int]]:
    """Map every port to its neighbours and the lowest price to each."""
    graph: dict[str, dict[str, int]] = {}
    for one, other, price in map(parse_route, routes):
        for here, there in ((one, other), (other, one)):
            prices = graph.setdefault(here, {})
            prices[there] = min(price, prices.get(there, price))
    return graph


def next_legs(graph: dict[str, dict[str, int]], port: str, used: bool) -> Iterator[tuple[str, int, bool]]:
    """Yield the next port, the price of the leg and whether the voucher is then spent."""
    for there, price in graph[port].items():
        yield there, price, used
        if not used:
            yield there, price // 2, True


# --- test ---
def check(candidate):
    def rejects(*args):
        try:
            candidate(*args)
        except ValueError:
            return True
        return False

    assert candidate(["Aro-Bly:8", "Bly-Cam:3", "Aro-Cam:16"], "Aro", "Cam") == (7, ["Aro", "Bly", "Cam"])
    assert candidate(["Aro-Bly:8", "Bly-Cam:3", "Aro-Cam:13"], "Aro", "Cam") == (6, ["Aro", "Cam"])
    assert candidate(["Aro-Bly:8", "Bly-Cam:3", "Aro-Cam:15"], "Aro", "Cam") == (7, ["Aro", "Cam"])
    assert candidate(["a-b:5"], "a", "b") == (2, ["a", "b"])
    assert candidate(["a-b:5"], "b", "a") == (2, ["b", "a"])
    assert candidate(["a-b:5"], "a", "a") == (0, ["a"])
    assert candidate(["a-b:5", "c-d:1"], "a", "d") is None
    assert candidate(["a-b:0", "b-c:0"], "c", "a") == (0, ["c", "b", "a"])
    assert candidate(["a-b:9", "b-a:4", "a-b:6"], "a", "b") == (2, ["a", "b"])
    assert candidate(["a-d:4", "d-z:4", "a-c:4", "c-z:4", "a-b:4", "b-z:5"], "a", "z") == (6, ["a", "b", "z"])
    assert candidate(["a-c:4", "c-z:4", "a-b:4", "b-z:4", "a-m:2", "m-c:2"], "a", "z") == (6, ["a", "b", "z"])
    assert candidate(["a-b:10", "b-c:10", "c-d:40"], "a", "d") == (40, ["a", "b", "c", "d"])
    assert rejects([], "a", "b")
    assert rejects(["a-b:5"], "a", "c")
    assert rejects(["a-b:5"], "c", "a")
    assert rejects(["a-a:5", "a-b:5"], "a", "b")
    assert rejects(["a-b"], "a", "b")
    assert rejects(["a-b:-5"], "a", "b")
    assert rejects(["a-b:"], "a", "b")
    assert rejects(["a-b:\u0665"], "a", "b")
    assert rejects(["-b:5", "a-b:5"], "a", "b")
    assert rejects(["a-:5", "a-b:5"], "a", "b")
    assert rejects(["a-b-c:5", "a-b:5"], "a", "b")
    line = [f"p{index:02d}-p{index + 1:02d}:{index + 1}" for index in range(60)]
    cost, path = candidate([*line, "p00-p60:9000"], "p00", "p60")
    assert cost == 60 * 61 // 2 - 30
    assert path == [f"p{index:02d}" for index in range(61)]
