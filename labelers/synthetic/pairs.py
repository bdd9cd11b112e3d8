"""Pairs of programs that solve one problem, of which one passes its suite and the other does not.

In: a program with its problem, its labelled candidates and programs with planted bugs. Out: `SyntheticPair`s,
or why there is none. Every label is by execution: what is new here is run first, and a program that was
dressed up or stripped of comments counts only if its outcome is still the same.
Wrong: nothing of a program's doing raises; what does not come out as meant is counted by a reason.
`SandboxUnavailable` where the machine cannot isolate.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from decompose.grammars import SourceError
from decompose.source import read
from labelers.commits import criteria as known_criteria
from labelers.commits.config import BuildConfig
from labelers.commits.criteria import Criterion
from labelers.commits.system_prompts import system_prompt
from labelers.programs import runs
from labelers.programs.candidates import MUTATION, REFERENCE, VARIANT
from labelers.programs.decompose import module_functions
from labelers.programs.outcomes import Suite, Verdict
from labelers.programs.suites import PROMPT, prompt_of
from labelers.prompts import version
from labelers.synthetic import bugs, hacks
from labelers.synthetic.bugs import Planted
from labelers.synthetic.config import SynthesizeConfig
from schemas.answers import evidence_of_answers
from schemas.ids import content_id, rng
from schemas.records import SyntheticPair
from schemas.stage import Drop, Keep, Outcome

CODE = "FC"
"""The criterion that execution decides."""
STEPS, BUGS, HACKS = "steps", "bugs", "hacks"

_MOST_DETAIL = 500
# Faults of an answer that is no attempt at the program: anybody tells it from one at a glance.
_NO_PROGRAM = ("empty", "prose", "other_language", "unfilled", "tests_only")
# Where an object lies in memory is another place in each run.
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_TRIES = 4


@dataclasses.dataclass(frozen=True)
class Version:
    """A program with what is known of its outcome.

    Attributes:
        code: the whole program.
        made_by: what made it.
        hand: whose text it is: a model's, or REFERENCE, of which mutants and planted bugs are near copies.
        told: what is known of it, for a person.
        trust: of the outcome.
    """

    code: str
    made_by: str
    hand: str
    told: str
    trust: str


@dataclasses.dataclass(frozen=True)
class _Dressed:
    """A pair in which the failing version was dressed up, before it was run."""

    rejected: str
    chosen: Version
    base: Version
    operator: str
    plainer: bool


class Synthesizer:
    """Makes pairs of one program after the other."""

    def __init__(
        self, config: SynthesizeConfig, criteria: Sequence[Criterion], build: BuildConfig, seed: int
    ) -> None:
        """Prepare.

        Args:
            criteria: those of the run; functional correctness is added where it is none of them.
            build: shares of system prompts.
        """
        self.config, self.build, self.seed = config, build, seed
        own = next((one for one in criteria if one.code == CODE), None)
        self.own = own or next(one for one in known_criteria.load() if one.code == CODE)
        self.criteria = tuple(criteria) if own else (self.own, *criteria)
        self.counts: Counter[str] = Counter()

    def pairs(
        self,
        program: Mapping[str, Any],
        problem: Mapping[str, Any] | None,
        rows: Sequence[Mapping[str, Any]],
        planted: Sequence[Planted] = (),
    ) -> Outcome:
        """The pairs of a program, or why there is none.

        Args:
            rows: its rows of `steps`.
            planted: the program with bugs, not yet run.
        """
        if problem is None:
            return Drop(program["id"], "problem_missing", program["problem"])
        if not rows:
            return Drop(program["id"], "no_candidates")
        passing, failing = self._labelled(rows, program["language"])
        if not passing:
            return Drop(program["id"], "no_passing")
        maker = _Maker(self, program, problem, rows[0]["split"])
        for number in self._drawn(len(failing), self.config.steps, program["id"]):
            bad = failing[number]
            chosen = _counterpart(
                bad, passing, rng(self.seed, "counterpart", content_id(program["id"], bad.code))
            )
            maker.add(STEPS, chosen, bad, bad.made_by, bad.told)
        wrong = maker.verified(planted)
        for bad in wrong:
            original = Version(program["code"], REFERENCE, REFERENCE, "", bad.trust)
            maker.add(BUGS, original, bad, bad.made_by, bad.told)
        maker.dress([*failing, *wrong], passing)
        return Keep(tuple(maker.made)) if maker.made else Drop(program["id"], "no_pair")

    def _labelled(
        self, rows: Sequence[Mapping[str, Any]], language: str
    ) -> tuple[list[Version], list[Version]]:
        """Distinct candidates that pass, and those that fail, whose outcome may be taken."""
        found: dict[int, dict[str, Version]] = {0: {}, 1: {}}
        for row in rows:
            code = row["completion"] if row["program"] is None else row["program"]
            if row["outcome"] is None or not code.strip():
                continue
            if row["trust"] == "inproc" and not self.config.inproc:
                self.counts["forgeable"] += 1
                continue
            generator = row["generator"]
            # A mutant that passes may be wrong where the suite does not look, and what is rewritten in a
            # variant no failing program has: its new names would say which side is right.
            if row["outcome"] == 1 and generator["model"] in (MUTATION, VARIANT):
                continue
            if row["outcome"] == 0 and (row["outcome_reason"] in _NO_PROGRAM or not _reads(code, language)):
                self.counts["no_program"] += 1
                continue
            told = [
                row["outcome_reason"],
                row["outcome_detail"],
                generator["detail"],
                f"candidate {row['id']}",
            ]
            model = generator["model"]
            hand = REFERENCE if model == MUTATION else model
            version_ = Version(code, model, hand, "; ".join(one for one in told if one), row["trust"])
            found[row["outcome"]].setdefault(_plain(code), version_)
        return list(found[1].values()), list(found[0].values())

    def _drawn(self, there: int, wanted: int, program_id: str) -> list[int]:
        if there <= wanted:
            return list(range(there))
        return sorted(rng(self.seed, "synthetic steps", program_id).sample(range(there), wanted))


class _Maker:
    """The pairs of one program."""

    def __init__(
        self, of: Synthesizer, program: Mapping[str, Any], problem: Mapping[str, Any], split: str
    ) -> None:
        self.of, self.program, self.problem, self.split = of, program, problem, split
        self.language = program["language"]
        self.prompt = prompt_of(problem, program)
        self.made: list[SyntheticPair] = []
        self.seen: set[tuple[str, str]] = set()
        self.suite: Suite | None = None

    def judge(self, codes: Sequence[str]) -> list[Verdict]:
        """What the suite says of programs."""
        if not codes:
            return []
        config = self.of.config
        if self.suite is None:
            bounds = runs.limits(config.cpu_s, config.wall_s, config.memory_mb)
            exports = module_functions(self.program["functions"])
            self.suite = Suite(self.problem, exports, bounds, self.program["suite_kind"])
            self.suite.settle(self.program["code"], config.workers)
        return self.suite.judge(codes, config.workers)

    def verified(self, planted: Sequence[Planted]) -> list[Version]:
        """Programs with bugs that do fail the suite."""
        found: dict[str, Version] = {}
        for one, verdict in zip(planted, self.judge([one.code for one in planted]), strict=True):
            if verdict.passed is not False:
                self.of.counts["bug_no_verdict" if verdict.passed is None else "bug_passes"] += 1
            elif verdict.trust == "inproc" and not self.of.config.inproc:
                self.of.counts["forgeable"] += 1
            else:
                told = f"{verdict.reason}: {verdict.detail}; sample {one.sample}"
                made_by = f"{version(bugs.PROMPT)} {one.model}"
                made = Version(one.code, made_by, REFERENCE, told, verdict.trust)
                if found.setdefault(_plain(one.code), made) is not made:
                    self.of.counts["repeated"] += 1
        return list(found.values())

    def dress(self, failing: Sequence[Version], passing: Sequence[Version]) -> None:
        """Add pairs whose failing version was dressed up, each outcome seen again."""
        wanted = self._dressed(failing, passing)
        verdicts = self.judge([code for one in wanted for code in (one.rejected, one.chosen.code)])
        for one, bad, good in zip(wanted, verdicts[::2], verdicts[1::2], strict=True):
            if bad.passed is not False or good.passed is not True:
                self.of.counts["hack_changed_outcome"] += 1
                continue
            if "inproc" in (bad.trust, good.trust) and not self.of.config.inproc:
                self.of.counts["forgeable"] += 1
                continue
            made_by = f"{hacks.VERSION} {one.operator}" + (", plainer" if one.plainer else "")
            told = f"{bad.reason}; {one.base.made_by}: {one.base.told}"
            rejected = Version(one.rejected, made_by, one.base.hand, told, bad.trust)
            self.add(HACKS, one.chosen, rejected, made_by, told)

    def _dressed(self, failing: Sequence[Version], passing: Sequence[Version]) -> list[_Dressed]:
        draw = rng(self.of.seed, "synthetic hacks", self.program["id"])
        # All operators take turns, from a drawn one on.
        names = list(hacks.OPERATORS)
        draw.shuffle(names)
        found: list[_Dressed] = []
        for number in range(self.of.config.hacks if failing else 0):
            for turn in range(_TRIES):
                name = names[(number + turn) % len(names)]
                base = draw.choice(failing)
                rejected = hacks.hack(name, base.code, self.language, draw)
                if rejected is not None:
                    break
            else:
                self.of.counts["hack_no_place"] += 1
                continue
            chosen = _counterpart(base, passing, draw)
            plain = None
            if draw.random() < self.of.config.plainer_share:
                plain = hacks.plainer(chosen.code, self.language)
            if plain is not None:
                chosen = dataclasses.replace(chosen, code=plain)
            found.append(_Dressed(rejected, chosen, base, name, plain is not None))
        return found

    def add(self, kind: str, chosen: Version, rejected: Version, made_by: str, told: str) -> None:
        """Add a pair, unless both sides say the same or it is there already."""
        key = (_plain(chosen.code), _plain(rejected.code))
        if key[0] == key[1] or key in self.seen:
            self.of.counts["repeated"] += 1
            return
        self.seen.add(key)
        self.of.counts[f"pairs_{kind}"] += 1
        idx = content_id("synthetic", kind, self.program["id"], chosen.code, rejected.code)
        of = self.of
        system_kind, system = system_prompt(of.build, of.criteria, of.own, of.seed, idx)
        prompt = version(PROMPT)
        self.made.append(
            SyntheticPair(
                system=system,
                input=self.prompt,
                chosen=chosen.code,
                rejected=rejected.code,
                language=self.language,
                aspect=of.own.name,
                source=of.config.source,
                idx=idx,
                repo=None,
                commit=None,
                path=None,
                license=self.problem["license"],
                evidence=evidence_of_answers(
                    labeler=f"suite of {self.problem['source']} ({min_trust(chosen.trust, rejected.trust)})",
                    method="execution",
                    confidence=1.0,
                    instruction_by=prompt,
                    system_kind=system_kind,
                    made_by=f"{kind}: {made_by}",
                    detail=_ADDRESS.sub("0x", f"{self.program['problem']}: {told}")[:_MOST_DETAIL],
                ),
                split=self.split,
            )
        )


def min_trust(*found: str) -> str:
    """The weakest of several outcomes' trusts."""
    order = ("none", "inproc", "split", "external")
    return min(found, key=lambda one: order.index(one) if one in order else 0)


def _counterpart(bad: Version, passing: Sequence[Version], draw: random.Random) -> Version:
    """What passes beside what fails: of the same hand, else of a model's, else the reference.

    What tells them apart is then the outcome, not the hand.
    """
    same = [one for one in passing if one.hand == bad.hand]
    by_model = [one for one in passing if one.hand != REFERENCE]
    return draw.choice(same or by_model or passing)


def _reads(code: str, language: str) -> bool:
    try:
        return bool(read(code, language).steps)
    except SourceError:
        return False


def _plain(code: str) -> str:
    """A program without space at the ends of lines and blank lines: what tells two apart."""
    return "\n".join(line.rstrip() for line in code.split("\n") if line.strip())
