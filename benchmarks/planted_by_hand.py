"""Bugs written by a person into the example programs, each with an input that shows it.

Each is one that such code has in practice and that a suite passes over easily: right for almost all inputs,
wrong for a kind of input that the docstring of the program allows. `find` gives them as `Bug`s.
Wrong: KeyError for a function that the program lacks; ValueError where the text to replace does not stand in
the function exactly once.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planted import Bug


@dataclass(frozen=True)
class Written:
    """One replacement in one function of one problem, and positional arguments on which it shows."""

    problem: str
    function: str
    old: str
    new: str
    args: tuple[Any, ...]


_ROW = {"kale": (5, "leek"), "leek": (5, "kale")}
WRITTEN = (
    Written("assay/0", "merge_spans", "start <= merged", "start < merged", ([(0, 60), (60, 90)],)),
    Written("assay/0", "merge_spans", "max(merged[-1][1], end)", "end", ([(0, 90), (10, 30)],)),
    Written("assay/0", "merge_spans", "sorted(spans)", "spans", ([(60, 90), (0, 70)],)),
    Written("assay/0", "format_span", "end % 60:02d", "end % 60:2d", (540, 605)),
    Written("assay/0", "format_span", "{start // 60:02d}", "{start // 60 % 12:02d}", (780, 800)),
    Written("assay/0", "format_span", "{end // 60:02d}", "{end // 60 % 24:02d}", (780, 1440)),
    Written("assay/0", "free_slots", ">= minutes", "> minutes", ("09:00-10:00", ["09:30-10:00"], 30)),
    Written(
        "assay/0",
        "free_slots",
        "min(max(start, first), last)",
        "max(start, first)",
        ("09:00-10:00", ["11:00-12:00"], 30),
    ),
    Written("assay/1", "parse_amount", "int(whole) * 100", "int(whole) * 10", ("1.00",)),
    Written("assay/1", "format_cents", ":02d", "", (105,)),
    Written(
        "assay/1",
        "apply_command",
        "balances[name] < cents",
        "balances[name] <= cents",
        ({"a": 5}, "fee", ["a"], 5),
    ),
    Written(
        "assay/1",
        "apply_command",
        "if name == names[1]:\n        return None\n    return",
        "return",
        ({"a": 5}, "move", ["a", "a"], 5),
    ),
    Written(
        "assay/1",
        "apply_command",
        "None if name in balances else {**balances, name: cents}",
        "{**balances, name: cents}",
        ({"a": 5}, "open", ["a"], 7),
    ),
    Written(
        "assay/1", "apply_command", "balances[name] != 0", "balances[name] < 0", ({"a": 5}, "close", ["a"], 0)
    ),
    Written("assay/1", "parse_command", "line.split()", "line.split(' ')", ("fee ann  9.00",)),
    Written("assay/1", "replay_ledger", "start=1", "start=0", (["fee a 1.00"],)),
    Written("assay/1", "replay_ledger", "if not line.strip()", "if not line", (["  "],)),
    Written("assay/2", "read_count", "int(tokens[position])", "int(tokens[position][0])", (["k", "12"], 1)),
    Written("assay/2", "join_runs", "joined[-1][1] + count", "joined[-1][1] + 1", ([("k", 1), ("k", 2)],)),
    Written("assay/2", "expand", "unit = join_runs(unit)\n", "pass\n", (["(", "k", "k", ")", "2"], 0)),
    Written("assay/2", "expand", "times * count", "count", (["(", "k", "2", ")", "3"], 0)),
    Written("assay/3", "tokenize", "joined = False\n        if char", "if char", ("1+2",)),
    Written("assay/3", "tokenize", "tokens[-1].isalpha() == char.isalpha()", "True", ("2a",)),
    Written(
        "assay/3",
        "climb",
        "PRIORITY[operator] + 1",
        "PRIORITY[operator]",
        (["9", "-", "3", "-", "2"], 0, {}, 1),
    ),
    Written("assay/3", "climb", ">= floor", "> floor - 2", (["2", "*", "3", "+", "1"], 0, {}, 2)),
    Written(
        "assay/3",
        "read_operand",
        "read_operand(tokens, position + 1, values)\n        return -value",
        "climb(tokens, position + 1, values, 1)\n        return -value",
        (["-", "2", "+", "3"], 0, {}),
    ),
    Written(
        "assay/3",
        "order_cells",
        "placed.add(name)\n",
        "placed.update(needs)\n",
        ({"a": {"b"}, "b": set(), "c": {"a"}},),
    ),
    Written("assay/4", "build_graph", "min(price, prices.get(there, price))", "price", (["a-b:2", "a-b:5"],)),
    Written("assay/4", "build_graph", "((one, other), (other, one))", "((one, other),)", (["a-b:2"],)),
    Written(
        "assay/4",
        "cheapest_trip",
        "legs + 1",
        "legs",
        (["a-b:0", "b-c:0", "a-z:0", "z-c:0", "a-c:0"], "a", "c"),
    ),
    Written("assay/5", "best_crop", "sorted(row)", "row", ({"leek": (5, ""), "kale": (5, "")}, None)),
    Written("assay/5", "best_crop", "if crop != banned", "", (_ROW, "kale")),
    Written("assay/5", "extend_plan", "after is None", "not after", ({"kale": 3}, {})),
    Written(
        "assay/5", "extend_plan", "best_crop(after, crop)", "best_crop(after, None)", ({"kale": 3}, _ROW)
    ),
    Written(
        "assay/5",
        "read_plan",
        "total = rows[0][crop][0]",
        "total = max(row[0] for row in rows[-1].values())",
        ([{"kale": (9, "leek")}, {"leek": (4, "")}],),
    ),
    Written("assay/6", "turn", "reversed(patch)", "patch", (["ab", "cd"],)),
    Written("assay/6", "mirror", "row[::-1] for row in patch", "row for row in patch[::-1]", (["ab", "cd"],)),
    Written("assay/6", "orient", "turns >= 4", "turns > 4", (["ab", "cd"], "a")),
    Written("assay/7", "format_money", "divmod(abs(cents), 100)", "divmod(cents, 100)", (-150,)),
    Written("assay/7", "format_money", "{whole:,}", "{whole}", (123456,)),
    Written("assay/7", "item_lines", "price.rjust(PRICE_WIDTH)", "' ' + price", ("TOTAL", 5, 20)),
    Written("assay/8", "days_in_month", "and (year % 100 != 0 or year % 400 == 0)", "", (1900, 2)),
    Written("assay/8", "days_in_month", " or year % 400 == 0", "", (2000, 2)),
    Written("assay/8", "weekday", "- year // 100 + year // 400", "", ((1999, 5, 1),)),
    Written("assay/8", "weekday", "month < 3", "month < 2", ((2024, 2, 28),)),
    Written("assay/8", "step_day", "1 if direction == 1 else 12", "1", ((2024, 1, 1), -1)),
    Written("assay/8", "step_day", "year += direction\n", "pass\n", ((2024, 12, 31), 1)),
    Written(
        "assay/8", "shift_workdays", "weekday(current) < 5", "weekday(current) < 6", ("2024-03-01", 1, [])
    ),
    Written("assay/8", "shift_workdays", "1 if days > 0 else -1", "1", ("2024-03-01", -1, [])),
    Written(
        "assay/9",
        "ready_jobs",
        "finished.issuperset(before)",
        "finished.intersection(before) or not before",
        ({"a": (1, ["x", "y"])}, {"x"}),
    ),
    Written(
        "assay/9",
        "weigh_jobs",
        "max(map(weigh, waiting[job]), default=0)",
        "sum(map(weigh, waiting[job]))",
        ({"a": (1, []), "b": (1, ["a"]), "c": (1, ["a"])},),
    ),
    Written("assay/10", "apply_filter", "len(text) <= width", "len(text) < width", ("abc", "cut:3")),
    Written(
        "assay/10",
        "apply_filter",
        "text or argument",
        "argument if not text.strip() else text",
        (" ", "or:x"),
    ),
    Written("assay/10", "fill_field", "part.strip()", "part", ("name | upper", {"name": "a"})),
    Written("assay/10", "read_width", "< 1", "<= 1", ("1",)),
    Written("assay/11", "add_lot", "lots[-1][1] == price", "lots[-1][1] >= price", ([(1, 5)], 2, 3)),
    Written("assay/11", "add_lot", "if lots and lots[-1][1] == price:", "if False:", ([(1, 5)], 2, 5)),
    Written("assay/11", "take_oldest", "held > count", "held >= count", ([(2, 3), (1, 1)], 2)),
    Written("assay/11", "take_oldest", "count -= held", "count -= 1", ([(2, 3), (9, 1)], 3)),
    Written(
        "assay/11",
        "stock_report",
        "profits.setdefault(product, 0)",
        "profits[product] = 0",
        (["buy nut 2 @ 3", "sell nut 1 @ 5", "buy nut 1 @ 1"],),
    ),
    Written("assay/12", "to_letters", "number - 1, 26", "number, 26", (26,)),
    Written("assay/12", "to_roman", "500, 400", "500, 300", (400,)),
    Written("assay/12", "write_count", '"aA"', '"a"', (2, "A")),
    Written(
        "assay/12",
        "number_outline",
        "depth % len(styles)",
        "min(depth, len(styles) - 1)",
        ("a\n  b\n    c", "1a"),
    ),
    Written("assay/13", "checksum", "(total * 3 + byte) % 256", "(total * 3 + byte) % 255", (b"\xff\xff",)),
    Written("assay/13", "read_size", "byte % 128", "byte % 256", (b"\x81\x01", 0)),
    Written("assay/13", "read_size", "shift += 7", "shift += 8", (b"\x81\x01", 0)),
    Written("assay/13", "read_fields", "-(size // 2) - 1", "-(size // 2)", (b"\x01an\x05",)),
)


def find(program: Mapping[str, Any]) -> list[tuple[Bug, tuple[Any, ...]]]:
    """The bugs of one program, each with arguments on which it shows.

    Raises:
        KeyError: the program has no such function.
        ValueError: the text does not stand there exactly once.
    """
    spans = {one["name"]: (one["start_byte"], one["end_byte"]) for one in program["functions"]}
    data = program["code"].encode()
    made = []
    for one in _of(program["problem"]):
        start, end = spans[one.function]
        text = data[start:end].decode()
        if text.count(one.old) != 1:
            raise ValueError(
                f"{one.problem} {one.function}: {one.old!r} stands there {text.count(one.old)} times"
            )
        changed = text.replace(one.old, one.new)
        ast.parse(changed)
        code = data[:start].decode() + changed + data[end:].decode()
        made.append((Bug(one.function, "by hand", f"{one.old!r} -> {one.new!r}", code), one.args))
    return made


def _of(problem: str) -> Sequence[Written]:
    return [one for one in WRITTEN if one.problem == problem]
