"""Arguments for a function: known ones changed a little, and new ones drawn from their shapes.

In: calls that are known to be valid, the function's parameters, and the literals of its code. Out: calls
that were not known before, each with where it comes from. Numbers near the literals, equal arguments,
empty and single items, repetitions and order are tried more often than chance would, since faults show there.
Drawn values stay within what was seen of the parameter (see `shapes`), as far as that can be told.
Wrong: nothing is raised; where nothing can be drawn there are no calls. All draws are the generator's.
"""

from __future__ import annotations

import dataclasses
import math
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from labelers.programs import runs
from labelers.programs.shapes import Parameter, Shape, kind_of, of_values, union
from sandbox import Call, EncodeError, encode

MUTATED, GENERATED = "mutated", "generated"
_MAX_LEVELS = 6
_LARGE = 1000
_UNICODE = "éßЖ中\u0301\U0001f600"
_ANY_TEXT = "abcxyzABC019 _-.,;()[]!?'\""
_NUMBER = re.compile(r"[0-9]{1,9}")
# Tries for each call that is asked for; most are repetitions where a function takes few values.
_TRIES = 8


@dataclasses.dataclass(frozen=True)
class Literals:
    """Numbers and texts that stand in the code of a function."""

    numbers: tuple[float, ...] = ()
    texts: tuple[str, ...] = ()


class Inputs:
    """Makes calls of one function."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        literals: Literals,
        draw: random.Random,
        max_bytes: int,
    ) -> None:
        self.parameters, self.literals, self.draw = list(parameters), literals, draw
        self.max_bytes = max_bytes
        self.known: list[Call] = []
        self.seen: set[str] = set()
        self.shapes: dict[int | str, Shape | None] = {}
        self.twins: list[tuple[int, ...]] = []
        self.lengths: list[tuple[int, int]] = []

    def learn(self, calls: Sequence[Call]) -> None:
        """Take valid calls to start from."""
        self.known += calls
        self.seen.update(runs.call_text(call) for call in calls)

    def look(self) -> None:
        """Find the shapes of the parameters in the calls that are known, else in what is declared."""
        values: dict[int | str, list[Any]] = {}
        for call in self.known:
            for place, value in _placed(call):
                values.setdefault(place, []).append(value)
        for index, parameter in enumerate(self.parameters):
            at: int | str = parameter.name if parameter.keyword else index
            self.shapes[at] = _declared_where_empty(parameter.shape, of_values(values.pop(at, [])))
        self.shapes |= {other: of_values(some) for other, some in values.items()}
        self.twins = _twins([call.args for call in self.known])
        self.lengths = _lengths([call.args for call in self.known])

    def batch(self, count: int) -> list[tuple[str, Call]]:
        """Up to `count` calls that were never given before, with their source."""
        made: list[tuple[str, Call]] = []
        for _ in range(_TRIES * count):
            if len(made) >= count:
                break
            source = MUTATED if self.known and self.draw.random() < 0.6 else GENERATED
            call = self._mutated() if source == MUTATED else self._generated()
            if call is None:
                continue
            try:
                text = runs.call_text(call)
            except EncodeError:
                continue
            if text not in self.seen and len(text) <= self.max_bytes:
                self.seen.add(text)
                made.append((source, call))
        return made

    def _mutated(self) -> Call | None:
        call = self.draw.choice(self.known)
        places = [place for place, _ in _placed(call)]
        if not places:
            return None
        values = dict(_placed(call))
        positions = [place for place in places if isinstance(place, int)]
        if len(positions) > 1 and self.draw.random() < 0.15:
            first, second = self.draw.sample(positions, 2)
            if kind_of(values[first]) == kind_of(values[second]):
                values[first] = values[second]
        else:
            for place in self.draw.sample(places, 2 if len(places) > 1 and self.draw.random() < 0.3 else 1):
                values[place] = self.vary(values[place], self.shapes.get(place))
        return self._call(values)

    def _generated(self) -> Call | None:
        values: dict[int | str, Any] = {}
        if self.known:
            places = [place for place, _ in _placed(self.draw.choice(self.known))]
        else:
            optional = self.draw.random() < 0.3
            places = [
                one.name if one.keyword else index
                for index, one in enumerate(self.parameters)
                if one.required or (optional and one.shape is not None)
            ]
        for place in places:
            shape = self.shapes.get(place)
            if shape is not None:
                values[place] = self.value(shape)
            elif self.known:
                known = [dict(_placed(call)) for call in self.known]
                values[place] = self.draw.choice([one[place] for one in known if place in one])
            else:
                return None
        return self._call(values)

    def _call(self, values: dict[int | str, Any]) -> Call:
        positions = sorted(place for place in values if isinstance(place, int))
        args = [values[place] for place in positions]
        for group in self.twins:
            # Sequences that always came in equal lengths stay so.
            if group[-1] < len(args) and all(isinstance(args[at], str | list | tuple) for at in group):
                shortest = min(len(args[at]) for at in group)
                for at in group:
                    args[at] = args[at][:shortest]
        for sequence, number in self.lengths:
            if number < len(args) and isinstance(args[sequence], str | list | tuple):
                args[number] = len(args[sequence])
        return Call(tuple(args), {place: values[place] for place in values if isinstance(place, str)})

    def value(self, shape: Shape, level: int = 0) -> Any:
        """A new value of a shape."""
        return getattr(self, f"_new_{shape.kind}")(shape, level)

    def _new_none(self, shape: Shape, level: int) -> None:
        return None

    def _new_bool(self, shape: Shape, level: int) -> bool:
        return self.draw.random() < 0.5

    def _new_union(self, shape: Shape, level: int) -> Any:
        return self.value(self.draw.choice(shape.parts), level)

    def _new_int(self, shape: Shape, level: int) -> int:
        low, high = shape.low, shape.high
        choice = self.draw.random()
        numbers = [int(one) for one in self.literals.numbers if math.isfinite(one)]
        if choice < 0.3 and numbers:
            made = self.draw.choice(numbers) + self.draw.choice((-1, 0, 0, 1))
            made = -made if low is None and self.draw.random() < 0.2 else made
        elif choice < 0.5:
            edges = [0, 1, 2, -1, -2, 3, 10]
            edges += [low, low + 1] if low is not None else []
            edges += [high, high + 1, high - 1] if high is not None else []
            made = self.draw.choice(edges)
        elif choice < 0.95:
            top = max(10, high if high is not None else 0)
            made = self.draw.randint(-top if low is None else min(low, top), min(top, 10**9))
        else:
            made = self.draw.randint(0, _LARGE if high is None else 10 * max(10, min(high, 10**9)))
        return self._within(made, shape)

    def _within(self, number: int, shape: Shape) -> int:
        if shape.low is not None and number < shape.low:
            number = shape.low + (shape.low - number) % 7
        if shape.bounded and shape.high is not None and number > shape.high:
            number = shape.high - (number - shape.high) % 7
        return number

    def _new_float(self, shape: Shape, level: int) -> float:
        whole = self._new_int(shape, level)
        if self.draw.random() < 0.3:
            return float(whole)
        made = round(whole + self.draw.choice((0.5, 0.25, 0.1, -0.5, self.draw.random())), 3)
        return made if shape.low is None or made >= shape.low else float(shape.low)

    def _size(self, shape: Shape, level: int) -> int:
        low = shape.low or 0
        if shape.bounded and shape.high is not None:
            return self.draw.randint(low, shape.high)
        most = max(4, min(shape.high or 0, 30)) if level < 3 else 2
        small = self.draw.random() < 0.4
        return max(low, self.draw.choice((0, 1, 1, 2, 3)) if small else self.draw.randint(low, most))

    def _alphabet(self, shape: Shape) -> str:
        if shape.letters:
            classes = set(shape.letters)
            extra = {one for text in self.literals.texts for one in text if _alike(one, shape.letters)}
            return "".join(sorted(classes | extra))
        return _ANY_TEXT + (_UNICODE if self.draw.random() < 0.2 else "")

    def _new_str(self, shape: Shape, level: int) -> str:
        letters = self._alphabet(shape)
        fitting = [
            text
            for text in self.literals.texts
            if text and (not shape.letters or set(text) <= set(letters)) and self._fits(len(text), shape)
        ]
        if fitting and self.draw.random() < 0.2:
            return self.draw.choice(fitting)
        size = self._size(shape, level)
        some = letters if self.draw.random() < 0.6 else "".join(self.draw.choices(letters, k=2))
        made = "".join(self.draw.choices(some, k=size))
        if self.draw.random() < 0.15 and not shape.bounded:
            made += made[::-1]
        return made

    def _new_number(self, known: int) -> int:
        """A number for a place in a text: near one of the code, or near the one that stood there."""
        numbers = [int(one) for one in self.literals.numbers if math.isfinite(one)]
        near = self.draw.choice(numbers) if numbers and self.draw.random() < 0.7 else known
        return max(0, near + self.draw.choice((-1, 0, 0, 1)))

    def _fits(self, size: int, shape: Shape) -> bool:
        return size >= (shape.low or 0) and not (shape.bounded and size > (shape.high or 0))

    def _new_bytes(self, shape: Shape, level: int) -> bytes:
        return bytes(self.draw.choices(range(256), k=self._size(shape, level)))

    def _items(self, shape: Shape, level: int) -> list[Any]:
        if not shape.parts or level > _MAX_LEVELS:
            return []
        items: list[Any] = []
        for _ in range(self._size(shape, level)):
            again = items and not shape.distinct and self.draw.random() < 0.25
            items.append(self.draw.choice(items) if again else self.value(shape.parts[0], level + 1))
        return self._arranged(items, shape)

    def _arranged(self, items: list[Any], shape: Shape) -> list[Any]:
        if shape.distinct:
            items = list({encode(one): one for one in items}.values())
        if shape.ordered or self.draw.random() < 0.15:
            try:
                items = sorted(items, reverse=not shape.ordered and self.draw.random() < 0.5)
            except TypeError:
                return items
        return items

    def _new_list(self, shape: Shape, level: int) -> list[Any]:
        return self._items(shape, level)

    def _new_tuple(self, shape: Shape, level: int) -> tuple[Any, ...]:
        return tuple(self._items(shape, level))

    def _new_pair(self, shape: Shape, level: int) -> tuple[Any, ...]:
        return tuple(self.value(part, level + 1) for part in shape.parts)

    def _hashed(self, shape: Shape, level: int, made: Callable[[list[Any]], Any]) -> Any:
        try:
            return made(self._items(shape, level))
        except TypeError:
            return made([])

    def _new_set(self, shape: Shape, level: int) -> Any:
        return self._hashed(shape, level, set)

    def _new_frozenset(self, shape: Shape, level: int) -> Any:
        return self._hashed(shape, level, frozenset)

    def _new_dict(self, shape: Shape, level: int) -> dict[Any, Any]:
        if len(shape.parts) != 2 or level > _MAX_LEVELS:
            return {}
        try:
            return {
                self.value(shape.parts[0], level + 1): self.value(shape.parts[1], level + 1)
                for _ in range(self._size(shape, level))
            }
        except TypeError:
            return {}

    def vary(self, value: Any, shape: Shape | None, level: int = 0) -> Any:
        """A value like a known one; a new one of its shape where nothing is near."""
        kind = kind_of(value)
        if shape is not None and shape.kind == "union":
            alike = [
                part for part in shape.parts if part.kind == kind or (part.kind, kind) == ("pair", "tuple")
            ]
            if not alike or self.draw.random() < 0.1:
                return self.value(shape, level)
            shape = alike[0]
        if shape is None:
            shape = of_values([value])
        if shape is None or level > _MAX_LEVELS:
            return value
        if kind == "int":
            steps = (value + 1, value - 1, value + 2, 2 * value, value // 2, value + 10)
            made = self.draw.choice((*steps, -value) if shape.low is None else steps)
            return self._within(made, shape) if self.draw.random() < 0.7 else self.value(shape, level)
        if kind == "float" and math.isfinite(value):
            made = self.draw.choice((value + 0.5, value - 0.5, value * 2, float(round(value)), value + 0.01))
            return made if shape.low is None or made >= shape.low else value
        if kind == "str":
            return self._vary_text(value, shape)
        if kind in ("list", "tuple"):
            return self._vary_items(value, shape, level)
        if kind == "dict" and value:
            return self._vary_dict(value, shape, level)
        return self.value(shape, level)

    def _vary_text(self, text: str, shape: Shape) -> str:
        letters = self._alphabet(shape)
        at = self.draw.randint(0, len(text))
        letter = self.draw.choice(letters)
        words = text.split(" ")
        some = self.draw.randrange(len(words))
        made = [
            text[:at] + text[at + 1 :],
            text[:at] + letter + text[at:],
            text[:at] + letter + text[at + 1 :],
            text[:at] + text[at : at + 1] * 2 + text[at + 1 :],
            text[at:] + text[:at],
            text[::-1],
            text[:at],
            text[at:],
            text + text,
            text.swapcase() if set(text.swapcase()) <= set(letters) else text[: at + 1],
        ]
        if len(words) > 1:
            made += [" ".join(words[:some] + words[some + 1 :]), " ".join([*words, words[some]])]
        if numbers := list(_NUMBER.finditer(text)):
            # Of a date or a version, one number.
            changed = text
            for one in reversed(numbers):
                if self.draw.random() < 1 / len(numbers):
                    new = str(self._new_number(int(one[0]))).zfill(len(one[0]))
                    changed = changed[: one.start()] + new + changed[one.end() :]
            made += [changed] * 12
        changed = self.draw.choice(made)
        return changed if self._fits(len(changed), shape) else text

    def _vary_items(self, value: Any, shape: Shape, level: int) -> Any:
        items = list(value)
        if shape.kind == "pair":
            if items:
                at = self.draw.randrange(len(items))
                part = shape.parts[at] if at < len(shape.parts) else None
                items[at] = self.vary(items[at], part, level + 1)
            return tuple(items)
        item = shape.parts[0] if shape.parts else None
        at = self.draw.randint(0, len(items))
        choice = self.draw.randrange(8)
        if choice == 0 and items:
            del items[at - 1]
        elif choice == 1 and items:
            items.insert(at, self.draw.choice(items))
        elif choice == 2 and item is not None:
            items.insert(at, self.value(item, level + 1))
        elif choice == 3 and items:
            items = items[at:] + items[:at]
        elif choice == 4:
            items.reverse()
        elif choice == 5 and len(items) > 1:
            first, second = self.draw.sample(range(len(items)), 2)
            items[first] = items[second]
        elif choice == 6:
            items = items[:at]
        elif items:
            items[at - 1] = self.vary(items[at - 1], item, level + 1)
        items = self._arranged(items, shape) if shape.ordered or shape.distinct else items
        if not self._fits(len(items), shape):
            return value
        return tuple(items) if isinstance(value, tuple) else items

    def _vary_dict(self, value: dict[Any, Any], shape: Shape, level: int) -> dict[Any, Any]:
        made = dict(value)
        key = self.draw.choice(list(made))
        choice = self.draw.randrange(3)
        if choice == 0 and len(made) > (shape.low or 0):
            del made[key]
        elif choice == 1 and len(shape.parts) == 2:
            made.update(self._new_dict(dataclasses.replace(shape, low=1), level))
        else:
            made[key] = self.vary(made[key], shape.parts[1] if len(shape.parts) == 2 else None, level + 1)
        return made


def _placed(call: Call) -> list[tuple[int | str, Any]]:
    """The arguments of a call with their places: positions, then names."""
    return [*enumerate(call.args), *sorted(call.kwargs.items())]


def _declared_where_empty(declared: Shape | None, seen: Shape | None) -> Shape | None:
    """What was seen tells more than a type, but of an empty list no more than that it is one."""
    if seen is None:
        return declared
    if declared is not None and seen.kind == declared.kind and not seen.parts:
        return dataclasses.replace(seen, parts=declared.parts) if declared.parts else seen
    if declared is not None and seen.kind == "none":
        return union((seen, declared))
    return seen


def _twins(calls: Sequence[Sequence[Any]]) -> list[tuple[int, ...]]:
    """Positions whose sequences had one length in each of several calls."""
    if len(calls) < 3:
        return []
    width = min(len(args) for args in calls)
    groups: dict[tuple[int, ...], list[int]] = {}
    for at in range(width):
        if all(isinstance(args[at], str | list | tuple) for args in calls):
            groups.setdefault(tuple(len(args[at]) for args in calls), []).append(at)
    # One length in all calls is no bond between two of them.
    return [tuple(group) for sizes, group in groups.items() if len(group) > 1 and len(set(sizes)) > 1]


def _lengths(calls: Sequence[Sequence[Any]]) -> list[tuple[int, int]]:
    """Pairs of positions: a sequence, and a number that was its length in each of several calls."""
    if len(calls) < 2:
        return []
    width = min(len(args) for args in calls)
    sequences = [at for at in range(width) if all(isinstance(args[at], str | list | tuple) for args in calls)]
    return [
        (at, number)
        for at in sequences[:1]
        for number in range(width)
        if all(type(args[number]) is int and args[number] == len(args[at]) for args in calls)
    ]


def _alike(one: str, letters: str) -> bool:
    """Whether letters of the same class are among those seen."""
    return any(
        (one.islower() and two.islower())
        or (one.isupper() and two.isupper())
        or (one.isdigit() and two.isdigit())
        for two in letters
    )
