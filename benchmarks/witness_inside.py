"""Runs inside a sandbox: which bugs change what their function returns, and on which input.

In: `task.json` in the working folder (program, entry point, suite, bugs, seed, bounds). Out: one line of
JSON a bug, in order, as soon as it is known. Inputs are looked for in three rounds: what a function is given
while the suite runs; what it is given while the entry point runs on inputs made up like the suite's, where
the whole program returns normally; and what is made up like these for the function itself. A witness is the
first input on which the reference returns, twice the same, and the bug returns something else, raises, or
does not end.
Wrong: whatever stops the process; lines that are missing tell where.
"""

import contextlib
import copy
import io
import json
import math
import random
import re
import signal
import sys
import time
from pathlib import Path

CALL_S = 0.25
DIGITS = re.compile(r"\d+")


class Late(BaseException):
    """A call took too long."""


def ring(*_):
    raise Late


def timed(function, args, kwargs, seconds=CALL_S):
    """("value", v), ("error", type) or ("late", None)."""
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            found = ("value", function(*args, **kwargs))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except Late:
        return ("late", None)
    except (Exception, SystemExit) as error:
        return ("error", type(error).__name__)
    return found


def same(one, two, level=0):
    """Equal, types and all."""
    if type(one) is not type(two) or level > 50:
        return False
    if isinstance(one, float):
        return one == two or (math.isnan(one) and math.isnan(two))
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(same(a, b, level + 1) for a, b in zip(one, two, strict=True))
    if isinstance(one, dict):
        return len(one) == len(two) and all(key in two and same(one[key], two[key], level + 1) for key in one)
    if isinstance(one, (set, frozenset)):
        return one == two and sorted(map(repr, one)) == sorted(map(repr, two))
    if isinstance(one, (int, str, bytes, type(None), complex, range)):
        return one == two
    # Of other objects nothing is known; they never make a witness.
    return True


class Place:
    """Makes values like those that were seen in one place."""

    def __init__(self, seen, level=0):
        self.kinds = {}
        for one in seen:
            self.kinds.setdefault(type(one), []).append(one)
        self.all = list(seen)
        self.parts = {}
        self.level = level

    def make(self, draw):
        one = draw.choice(self.all)
        some = self.kinds[type(one)]
        if isinstance(one, bool):
            return draw.random() < 0.5
        if isinstance(one, (int, float)):
            return self.number(one, some, draw)
        if isinstance(one, str):
            return self.text(one, some, draw)
        if isinstance(one, (list, tuple)):
            return type(one)(self.items(one, some, draw)) if type(one) in (list, tuple) else one
        if isinstance(one, (set, frozenset)) and type(one) in (set, frozenset):
            return type(one)(self.items(sorted(one, key=repr), [sorted(v, key=repr) for v in some], draw))
        if type(one) is dict:
            return self.mapping(one, some, draw)
        return one

    def part(self, name, seen):
        if name not in self.parts:
            self.parts[name] = Place(seen, self.level + 1)
        return self.parts[name]

    def number(self, one, some, draw):
        finite = [value for value in some if abs(value) < 1e15] or [0]
        low, high = min(finite), max(finite)
        width = max(4, high - low)
        low = low if low >= 0 else low - width / 2
        high = min(high + width, 1000 + 2 * high) if high > 0 else (high if high < 0 else 4)
        if isinstance(one, int):
            if draw.random() < 0.3:
                made = one + draw.choice((-2, -1, 1, 2))
            elif draw.random() < 0.3:
                made = round(low + (high - low) * draw.random() ** 3)
            else:
                made = draw.randint(math.ceil(low), max(math.ceil(low), math.floor(high)))
            return max(made, math.ceil(low))
        digits = max(len(repr(value).partition(".")[2]) for value in finite)
        if draw.random() < 0.2 and math.isfinite(one):
            return max(float(round(one)), float(low))
        return round(draw.uniform(low, high), min(digits, 3))

    def letters(self, some):
        found = {letter for text in some for letter in text}
        for group in ("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"):
            if len(found & set(group)) > (3 if group[0] != "0" else 2):
                found |= set(group)
        return sorted(found) or ["a"]

    def text(self, one, some, draw):
        letters = self.letters(some) if draw.random() < 0.5 else sorted(set(one)) or ["a"]
        other = draw.choice(some)
        how = draw.random()
        if DIGITS.search(one) and how < 0.3:
            # Another number of as many digits: dates, versions, amounts.
            def number(found):
                width = len(found[0])
                if draw.random() < 0.5:
                    return found[0]
                return str(draw.randrange(10 ** min(width, 9))).zfill(width)

            return DIGITS.sub(number, one)
        if " " in one and how < 0.5:
            words = [word for text in (one, other) for word in text.split(" ")]
            return " ".join(draw.choice(words) for _ in range(draw.randint(1, 2 * len(one.split(" ")))))
        if how < 0.7:
            made = list(one)
            for _ in range(draw.randint(1, 3)):
                at = draw.randint(0, len(made))
                step = draw.randrange(5)
                if step == 0:
                    made[at : at + 1] = []
                elif step == 1:
                    made.insert(at, draw.choice(letters))
                elif step == 2:
                    made[at : at + 1] = [draw.choice(letters)]
                elif step == 3:
                    made[at:at] = made[at : at + 1]
                else:
                    made = made[at:] + made[:at]
            return "".join(made)
        if how < 0.8:
            cut, end = draw.randint(0, len(one)), draw.randint(0, len(other))
            return one[:cut] + other[end:]
        if how < 0.85:
            return one + one[::-1] if draw.random() < 0.5 else one + other
        sizes = [len(text) for text in some]
        size = draw.randint(min(sizes), max(sizes) + 3)
        few = draw.choices(letters, k=3) if draw.random() < 0.4 else letters
        return "".join(draw.choices(few, k=min(size, 200)))

    def items(self, one, some, draw):
        sizes = {len(value) for value in some}
        if isinstance(one, tuple) and len(sizes) == 1 and len(one) <= 6:
            return [self.part(at, [value[at] for value in some]).make(draw) for at in range(len(one))]
        inner = [item for value in some for item in value]
        if not inner or self.level > 4:
            return list(one)
        part = self.part("items", inner[:2000])
        if draw.random() < 0.5:
            made = list(one)
            for _ in range(draw.randint(1, 2)):
                at = draw.randint(0, len(made))
                step = draw.randrange(6)
                if step == 0:
                    made[at : at + 1] = []
                elif step == 1:
                    made.insert(at, part.make(draw))
                elif step == 2:
                    made[at : at + 1] = [part.make(draw)]
                elif step == 3 and made:
                    made.insert(at, draw.choice(made))
                elif step == 4:
                    made = made[at:] + made[:at]
                else:
                    made.reverse()
        else:
            size = draw.randint(min(sizes), min(max(sizes) + 3, 60))
            made = [part.make(draw) for _ in range(size)]
            if draw.random() < 0.3 and made:
                made = draw.choices(made, k=len(made))
        return self.kept(made, some, sizes)

    def kept(self, made, some, sizes):
        """What was true of all that was seen stays true."""
        if len(made) < min(sizes):
            made = [*made, *list(some[0])][: max(min(sizes), 1)]
        long = [value for value in some if len(value) > 2]
        with contextlib.suppress(TypeError):
            if len(long) > 2 and all(list(value) == sorted(value) for value in long):
                made = sorted(made)
            if len(long) > 2 and all(len(set(value)) == len(value) for value in long):
                made = list(dict.fromkeys(made))
        rows = [
            value for value in some if value and all(isinstance(row, (list, tuple, str)) for row in value)
        ]
        nested = bool(rows and made) and len(rows) == len([value for value in some if value])
        if nested and all(len({len(row) for row in value}) == 1 for value in rows):
            width = min(len(row) for row in made)
            made = [row[:width] for row in made]
            if all(len(value) == len(value[0]) for value in rows):
                side = min(width, len(made))
                made = [row[:side] for row in made[:side]]
        return made

    def mapping(self, one, some, draw):
        keys = [key for value in some for key in value]
        values = [inner for value in some for inner in value.values()]
        if not keys:
            return {}
        made = dict(one) if draw.random() < 0.6 else {}
        for _ in range(draw.randint(0, 3)):
            key = draw.choice(keys) if draw.random() < 0.6 else self.part("keys", keys).make(draw)
            with contextlib.suppress(TypeError):
                made[key] = self.part("values", values).make(draw)
        if made and draw.random() < 0.4:
            del made[draw.choice(sorted(made, key=repr))]
        return made


class Calls:
    """Makes argument lists like those that were seen."""

    def __init__(self, seen):
        width = min(len(args) for args in seen)
        self.seen = [args for args in seen if len(args) == width]
        self.places = [Place([args[at] for args in self.seen]) for at in range(width)]
        # Of one call nothing can be told.
        pairs = [(a, b) for a in range(width) for b in range(width) if a != b] if len(self.seen) > 2 else []
        self.bonds = [
            (a, b, how) for a, b in pairs for how in HOW if all(HOW[how](x[a], x[b]) for x in self.seen)
        ]

    def make(self, draw):
        args = list(copy.deepcopy(draw.choice(self.seen)))
        if draw.random() < 0.25:
            args = [place.make(draw) for place in self.places]
        elif args:
            for at in draw.sample(range(len(args)), draw.choice((1, 1, 2)) if len(args) > 1 else 1):
                args[at] = self.places[at].make(draw)
        if all(HOW[how](args[a], args[b]) for a, b, how in self.bonds):
            return tuple(args)
        return None


def sized(value):
    return isinstance(value, (str, list, tuple))


def whole(value):
    return type(value) is int


HOW = {
    "as long": lambda a, b: sized(a) and sized(b) and len(a) == len(b),
    "its length": lambda a, b: whole(a) and sized(b) and a == len(b),
    "an index": lambda a, b: whole(a) and sized(b) and 0 <= a < max(1, len(b)),
    "not more": lambda a, b: isinstance(a, (int, float)) and isinstance(b, (int, float)) and a <= b,
    "a member": lambda a, b: isinstance(b, (list, tuple)) and not sized(a) and a in b,
    "same type": lambda a, b: type(a) is type(b),
}


class Witnesses:
    """Inputs of one program's functions, and the search among them."""

    def __init__(self, task):
        self.task = task
        self.names = sorted({bug["function"] for bug in task["bugs"]} | {task["entry"]})
        self.space = self.loaded(task["program"])
        self.plain = self.loaded(task["program"])
        self.inputs = {name: {} for name in self.names}
        self.pending = None
        self.level = "suite"
        self.draw = random.Random(task["seed"])
        self.known = {}
        for name in self.names:
            self.watch(name)

    def loaded(self, text):
        space = {"__name__": "solution"}
        exec(compile(text, "solution", "exec"), space)
        return space

    def watch(self, name):
        function = self.space[name]

        def watched(*args, **kwargs):
            found = self.inputs[name]
            if len(found) < self.task["most_inputs"] and not kwargs and self.pending is not None:
                try:
                    key = repr(args)
                    if key not in found and len(key) < 4000:
                        self.pending.append((name, key, copy.deepcopy(args)))
                except Exception:
                    pass
            return function(*args, **kwargs)

        self.space[name] = watched

    def run(self, made):
        """Run something of the program and keep what its functions were given if it returns."""
        self.pending = []
        try:
            found = made()
        finally:
            pending, self.pending = self.pending, None
        if found[0] == "value":
            for name, key, args in pending:
                if len(self.inputs[name]) < self.task["most_inputs"]:
                    self.inputs[name].setdefault(key, (self.level, args))

    def judged(self, text):
        exec(compile(text, "suite", "exec"), self.space)
        if "check" in self.space:
            self.space["check"](self.space[self.task["entry"]])

    def look(self):
        entry = self.space[self.task["entry"]]
        for text in self.task["suite"]:
            self.run(lambda text=text: timed(self.judged, (text,), {}, 10.0))
        self.level = "entry"
        seen = [args for _, args in self.inputs[self.task["entry"]].values()]
        if not seen:
            return
        calls = Calls(seen)
        small = self.exhausted(seen)
        end = time.process_time() + self.task["look_s"]
        for number in range(self.task["made"]):
            if time.process_time() > end:
                break
            made = small[number] if number < len(small) else calls.make(self.draw)
            if made is not None:
                self.run(lambda made=made: timed(entry, made, {}))

    def exhausted(self, seen):
        """All small numbers, where the entry point takes a single number."""
        if all(len(args) == 1 and type(args[0]) is int for args in seen):
            low = min(args[0] for args in seen)
            low = low if low >= 0 else -300
            return [(number,) for number in range(low, low + 1500)]
        return []

    def reference(self, name, key, args):
        """What the reference returns, None where it does not, or not the same twice."""
        if (name, key) not in self.known:
            found = [timed(self.plain[name], copy.deepcopy(args), {}) for _ in range(2)]
            good = all(one[0] == "value" for one in found) and same(found[0][1], found[1][1])
            self.known[name, key] = copy.deepcopy(found[0]) if good else None
        return self.known[name, key]

    def direct(self, name):
        """Made-up inputs of a function itself, like those that it is given."""
        if ("direct", name) not in self.known:
            draw = random.Random(f"{self.task['seed']}/{name}")
            seen = [args for _, args in self.inputs[name].values()]
            found = {}
            if seen:
                calls = Calls(draw.sample(seen, min(300, len(seen))))
                for _ in range(self.task["direct"]):
                    args = calls.make(draw)
                    if args is not None:
                        found.setdefault(repr(args), ("direct", args))
            self.known["direct", name] = found
        return self.known["direct", name]

    def witness(self, bug):
        name = bug["function"]
        end = time.process_time() + self.task["bug_s"]
        try:
            wrong = self.loaded(bug["code"])[name]
        except Exception as error:
            return {"level": None, "how": type(error).__name__, "tried": 0}
        tried = 0
        for inputs in (self.inputs[name], self.direct(name)):
            for key, (level, args) in inputs.items():
                if time.process_time() > end:
                    return {"level": None, "how": "gave up", "tried": tried}
                wanted = self.reference(name, key, args)
                if wanted is None:
                    continue
                tried += 1
                got = timed(wrong, copy.deepcopy(args), {})
                if got[0] != "value" or not same(got[1], wanted[1]):
                    return {
                        "level": level,
                        "how": {"value": "value", "error": "error", "late": "no end"}[got[0]],
                        "call": repr(args)[:600],
                        "wanted": repr(wanted[1])[:300],
                        "got": repr(got[1])[:300],
                        "tried": tried,
                    }
        return {"level": None, "how": "equal", "tried": tried}


def main():
    task = json.loads(Path("task.json").read_text())
    signal.signal(signal.SIGVTALRM, ring)
    sys.setrecursionlimit(2000)
    out = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        found = Witnesses(task)
        found.look()
        for bug in task["bugs"]:
            told = {"bug": bug["id"], **found.witness(bug)}
            print(json.dumps(told), file=out, flush=True)


main()
