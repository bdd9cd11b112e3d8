"""What was read of two versions, as measures and notes.

In: what tools said of each version, and the changed lines. Out: `Measure`s with both values and the tool, and
notes: why something could not be measured, and which findings came or went. A measure that no tool could take
of either version is left out. Nothing goes wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labelers.commits.evidence import rules
from labelers.commits.evidence.bearings import BROKEN, DIFFERS, DOCUMENTED, EQUAL, MENDED, SAME_PROGRAM
from labelers.commits.evidence.tools import LINT_GROUPS, Answer, group_of, version
from schemas.records import Measure

if TYPE_CHECKING:
    from labelers.commits.evidence.trial import Trial

Spans = Sequence[tuple[int, int]]
"""First line and one past the last of each changed region, from 1."""

TRUSTED = frozenset({"Python", "JavaScript", "Java", "Go", "PHP"})
"""Languages whose grammars accept nearly all real code, so that a version with errors is broken."""
_TEST = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|testing)/|(?:^|/)test_[^/]*$|[._-](?:test|spec)s?\.\w+$"
    r"|(?:Test|Tests|TestCase|Spec)\.\w+$"
)
_SEVERE = ("MEDIUM", "HIGH")
_UNDEFINED = ("F821", "F822")


def changed_spans(hunks: Sequence[Mapping[str, int]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The changed lines of the old version, and of the new one after these regions alone."""
    old: list[tuple[int, int]] = []
    new: list[tuple[int, int]] = []
    moved = 0
    for hunk in sorted(hunks, key=lambda one: (one["old_start"], one["new_start"])):
        # An insertion is told by the line before it.
        start = hunk["old_start"] + (hunk["old_lines"] == 0)
        old.append((start, start + hunk["old_lines"]))
        new.append((start + moved, start + moved + hunk["new_lines"]))
        moved += hunk["new_lines"] - hunk["old_lines"]
    return old, new


class Told:
    """Collects measures and notes of two versions."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.measures: list[Measure] = []
        self.notes: dict[str, None] = {}

    def add(self, name: str, sides: Iterable[float | None], tool: str) -> None:
        """Take a measure of the old and the new version; one that neither has is left out."""
        old, new = (None if one is None else round(float(one), 4) for one in sides)
        if old is not None or new is not None:
            self.measures.append(Measure(name=name, old=old, new=new, tool=tool))

    def note(self, code: str) -> None:
        """Take a note."""
        self.notes[code] = None

    def answers(self, tool: str, old: Answer, new: Answer) -> tuple[Any, Any]:
        """What a tool said, None where it said nothing; why not is noted."""
        for one in (old, new):
            if isinstance(one, str):
                self.note(f"{tool}:{one}")
        return (None if isinstance(old, str) else old), (None if isinstance(new, str) else new)

    def syntax(self, old: Answer, new: Answer) -> None:
        """Size, nesting, comments, copies, parse errors, and findings of rules."""
        tool = version("tree-sitter")
        one, other = self.answers("tree-sitter", old, new)
        names = (
            ("parse_errors", "errors"),
            ("size_lines", "code_lines"),
            ("size_tokens", "tokens"),
            ("nesting", "nesting"),
            ("duplicate_lines", "duplicates"),
        )
        for name, key in names:
            self.add(name, (None if side is None else side[key] for side in (one, other)), tool)
        self.add("comment_share", (_share(one), _share(other)), tool)
        if one is None or other is None:
            return
        if one["program"] == other["program"]:
            self.note(SAME_PROGRAM)
        if one["comment_lines"] != other["comment_lines"] or one["program"] == other["program"]:
            self.note(DOCUMENTED)
        if other["errors"] and not one["errors"]:
            self.note(BROKEN if self.language in TRUSTED else "parse_errors:new")
        kinds = [("performance", "performance")]
        if self.language == "C":
            kinds += [("allocation", "allocations"), ("release", "releases")]
        for kind, name in kinds:
            counts = [Counter(side["found"].get(kind, {})) for side in (one, other)]
            self.add(name, (side.total() for side in counts), rules.VERSION)
            if kind == "performance":
                self._moves(*counts)
        if self.language != "Python":
            found = [Counter(side["found"].get("security", {})) for side in (one, other)]
            sure = [Counter(side["found"].get("sure", {})) for side in (one, other)]
            self._security(found, sure, rules.VERSION)

    def _security(self, found: Sequence[Counter[str]], sure: Sequence[Counter[str]], tool: str) -> None:
        self.add("security", (side.total() for side in found), tool)
        self.add("security_sure", (side.total() for side in sure), tool)
        self.add("security_new", (0, (found[1] - found[0]).total()), tool)
        self.add("security_gone", (0, (found[0] - found[1]).total()), tool)
        self._moves(*found)

    def _moves(self, old: Counter[str], new: Counter[str]) -> None:
        for name in sorted(new - old):
            self.note(f"new:{name}")
        for name in sorted(old - new):
            self.note(f"gone:{name}")

    def complexity(self, old: Answer, new: Answer, spans: tuple[Spans, Spans]) -> None:
        """Cyclomatic complexity of all functions together, and of the changed ones."""
        tool = version("lizard")
        found = self.answers("lizard", old, new)
        sides = [None if side is None else side["functions"] for side in found]
        changed = [
            None if side is None else [one for one in side if _touches(one, own)]
            for side, own in zip(sides, spans, strict=True)
        ]
        self.add("complexity", (_total(side, 2) for side in sides), tool)
        self.add("functions", (None if side is None else len(side) for side in sides), tool)
        for name, at in (("complexity_max", 2), ("longest_function", 3), ("parameters_max", 4)):
            self.add(name, (_most(side, at) for side in changed), tool)

    def lint(self, old: Answer, new: Answer) -> None:
        """Findings of ruff by group."""
        tool = version("ruff")
        found = self.answers("ruff", old, new)
        sides = [None if one is None else Counter[str]() for one in found]
        for side, codes in zip(sides, found, strict=True):
            for code, count in (codes or {}).items():
                if side is not None:
                    side[group_of(code)] += count
        for group in LINT_GROUPS:
            self.add(f"lint_{group}", (None if side is None else side[group] for side in sides), tool)
        undefined = [None if one is None else sum(one.get(code, 0) for code in _UNDEFINED) for one in found]
        self.add("undefined_names", undefined, tool)
        if any(one and one.get("F403") for one in found):
            self.note("imports_all")

    def types(self, old: Answer, new: Answer) -> None:
        """Errors of ty."""
        found = self.answers("ty", old, new)
        sums = (None if one is None else sum(one.values()) for one in found)
        self.add("type_errors", sums, version("ty"))

    def bandit(self, old: Answer, new: Answer) -> None:
        """Findings of bandit; what it says of imports, of assertions and of little weight is left out."""
        found = self.answers("bandit", old, new)
        if None in found:
            return
        kept = [
            [one for one in side["findings"] if one[1] in _SEVERE and not one[0].startswith("B4")]
            for side in found
        ]
        counts = [Counter(one[0] for one in side) for side in kept]
        sure = [Counter(one[0] for one in side if one[1] == one[2] == "HIGH") for side in kept]
        self._security(counts, sure, version("bandit"))

    def companions(self, paths: Sequence[str]) -> None:
        """Tests that came with the change."""
        self.add("companion_tests", (0, sum(_TEST.search(path) is not None for path in paths)), "git")

    def trial(self, found: Trial) -> None:
        """What running a function alone showed."""
        tool = "sandbox"
        self.add("run_calls", (found.calls, found.calls), tool)
        self.add("run_calls_that_differ", (0, found.differ), tool)
        self.add("run_lines", found.lines, tool)
        if found.peak_kib is not None:
            self.add("run_peak_kib", found.peak_kib, tool)
        self.note(DIFFERS if found.differ else EQUAL)
        if found.mended:
            self.note(MENDED)
        for name, verdict in (("run_time", found.time), ("memory", found.memory)):
            if verdict is not None:
                self.note(f"{name}:{verdict}")


def _share(side: Mapping[str, Any] | None) -> float | None:
    """Share of the lines that are comments."""
    if side is None:
        return None
    lines = side["comment_lines"] + side["code_lines"]
    return side["comment_lines"] / lines if lines else 0.0


def _touches(function: Sequence[int], spans: Spans) -> bool:
    """Whether a changed region, or the place of one, lies in a function."""
    return any(function[0] <= max(end - 1, start) and start <= function[1] for start, end in spans)


def _total(functions: Sequence[Sequence[int]] | None, at: int) -> float | None:
    return None if functions is None else sum(one[at] for one in functions)


def _most(functions: Sequence[Sequence[int]] | None, at: int) -> float | None:
    return None if functions is None else max((one[at] for one in functions), default=0)
