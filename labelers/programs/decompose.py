"""Problems become programs: a reference made of functions that passes the problem's own suite.

In: `Problem` rows. Out: for each a `Keep` with its `Program`, or a `Drop` with the reason that the
published solution met; the suite is run for real. Ways to a program, in this order:
* as written: the solution, or else one of the problem's other references, has enough functions;
* a model rewrites it (where one is given): kept only if the original suite passes, the interface is
  unchanged and there are enough module-level functions;
* helpers are cut out of it by syntax alone (Python), checked by the same suite.
What was tried and why it was refused stands in the drop's detail and in the counts.
Wrong: nothing of the problem's doing raises; `SandboxUnavailable` where the machine cannot isolate.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from decompose.extract import extract
from decompose.functions import functions
from decompose.graft import without_unused_imports
from decompose.grammars import SourceError
from decompose.skeleton import skeleton
from labelers.programs import runs
from labelers.programs.config import DecomposeConfig
from labelers.programs.outcomes import Suite, Verdict
from labelers.programs.rewrite import Rewrite, rewrite
from labelers.programs.suites import suites
from schemas.errors import AssayError
from schemas.ids import content_id
from schemas.records import FunctionSpan, Program
from schemas.stage import Drop, Keep, Outcome

if TYPE_CHECKING:
    from labelers.llm import Client

AS_WRITTEN = "as-written"
EXTRACTED = "extracted-1"
_BOM = "\ufeff"
# Problems whose requests to a model are on their way together.
_BATCH = 64


def module_functions(spans: Iterable[FunctionSpan | Mapping[str, Any]]) -> list[str]:
    """Names of the functions that belong to no class: those that can be called from outside."""
    found = [
        (one.name, one.kind) if isinstance(one, FunctionSpan) else (one["name"], one["kind"]) for one in spans
    ]
    return [name for name, kind in found if kind == "function"]


@dataclasses.dataclass(frozen=True)
class _Refused:
    """Why a text does not become a program."""

    reason: str
    detail: str


class Decomposer:
    """Turns problems into programs; `counts` says how many came about in which way, and what was refused."""

    def __init__(self, config: DecomposeConfig, client: Client | None = None, seed: int = 0) -> None:
        self.config, self.client, self.seed = config, client, seed
        self.counts: Counter[str] = Counter()
        self.bounds = runs.limits(config.cpu_s, config.wall_s, config.memory_mb)

    def all(self, problems: Iterable[Mapping[str, Any]]) -> Iterator[Outcome]:
        """Decompose problems, one outcome each, in order."""
        rows = iter(problems)
        while batch := list(itertools.islice(rows, _BATCH)):
            found = [self._as_written(problem) for problem in batch]
            short = [
                problem
                for problem, one in zip(batch, found, strict=True)
                if isinstance(one, _Refused) and one.reason == "too_few_functions"
            ]
            rewritten = self._rewritten(short)
            for problem, one in zip(batch, found, strict=True):
                yield self._outcome(problem, one, rewritten.get(problem["id"], []))

    def _outcome(
        self, problem: Mapping[str, Any], found: Program | _Refused, rewritten: Sequence[Rewrite]
    ) -> Outcome:
        if isinstance(found, _Refused) and found.reason == "too_few_functions":
            refused = [found.detail]
            for made in (*self._of_model(problem, rewritten), *self._extracted(problem)):
                if isinstance(made, Program):
                    found = made
                    break
                refused.append(f"{made.reason}: {made.detail}" if made.detail else made.reason)
            else:
                found = _Refused("too_few_functions", "; ".join(refused))
        if isinstance(found, _Refused):
            return Drop(problem["id"], found.reason, f"{problem['name'][:100]}: {found.detail}"[:500])
        self.counts[f"decomposed_{'by_model' if found.prompt_version else found.decomposed_by}"] += 1
        return Keep((found,))

    def _as_written(self, problem: Mapping[str, Any]) -> Program | _Refused:
        """The first published solution that is made of functions and passes, else why the first is none."""
        first: _Refused | None = None
        passing_but_short: _Refused | None = None
        for code in (problem["solution"], *problem["references"])[: self.config.max_references]:
            made = self._checked(problem, code, AS_WRITTEN)
            if isinstance(made, Program):
                return made
            first = first or made
            if made.reason == "too_few_functions":
                passing_but_short = passing_but_short or made
        refused = passing_but_short or first
        assert refused is not None  # noqa: S101 (a problem has a solution)
        return refused

    def _rewritten(self, problems: Sequence[Mapping[str, Any]]) -> dict[str, list[Rewrite]]:
        """What the model made of problems whose solutions have too few functions."""
        if self.client is None or not self.config.rewrites:
            return {}
        python = [problem for problem in problems if problem["language"] == "Python"]
        answers = rewrite(python, self.client, self.config.rewrites, self.seed, self.config.min_functions)
        return dict(zip((problem["id"] for problem in python), answers, strict=True))

    def _of_model(
        self, problem: Mapping[str, Any], rewritten: Sequence[Rewrite]
    ) -> Iterator[Program | _Refused]:
        for one in rewritten:
            if one.reason is not None or one.program is None:
                made: Program | _Refused = _Refused(one.reason or "no_program", one.detail)
            else:
                made = self._checked(problem, one.program, one.model, one.prompt_version)
            if isinstance(made, _Refused):
                self.counts[f"rewrite_{made.reason}"] += 1
                made = _Refused(f"rewrite {made.reason}", made.detail)
            yield made

    def _extracted(self, problem: Mapping[str, Any]) -> Iterator[Program | _Refused]:
        if not self.config.extract or problem["language"] != "Python":
            return
        try:
            text = extract(problem["solution"].removeprefix(_BOM), problem["entry_point"])
        except SourceError as error:
            yield _Refused("extract syntax_error", str(error))
            return
        if text is None:
            self.counts["extract_nothing"] += 1
            yield _Refused("extract", "no part of it can be cut out safely")
            return
        made = self._checked(problem, text, EXTRACTED)
        if isinstance(made, _Refused):
            self.counts[f"extract_{made.reason}"] += 1
            made = _Refused(f"extract {made.reason}", made.detail)
        yield made

    def _checked(
        self, problem: Mapping[str, Any], code: str, by: str, prompt_version: str | None = None
    ) -> Program | _Refused:
        """The program that a text is, if it has its functions and passes the suite."""
        code = code.removeprefix(_BOM)
        language = problem["language"]
        if not has_suite(problem):
            kinds = sorted({test["kind"] for test in problem["tests"]})
            return _Refused("no_suite", f"tests: {', '.join(kinds) or 'none'}")
        try:
            spans = functions(code, language)
            blank = skeleton(code, language=language)
        except SourceError as error:
            return _Refused("syntax_error", str(error))
        except AssayError as error:
            return _Refused("unsupported_language", str(error))
        outside = module_functions(spans)
        entry = problem["entry_point"]
        if entry is not None and not _defined(entry, spans):
            return _Refused("entry_point_missing", f"no function {entry!r}")
        if len(spans) > self.config.max_functions:
            return _Refused("too_many_functions", f"{len(spans)}, more than {self.config.max_functions}")
        # Methods are the functions of a language that knows no others; those of class Solution are called.
        counted = [span for span in spans if language != "Python" or _counts(span)]
        few = _Refused("too_few_functions", f"{len(counted)}, fewer than {self.config.min_functions}")
        short = len(counted) < self.config.min_functions
        if short and not (self.config.extract or self.client):
            return few
        suite = Suite(problem, outside, self.bounds)
        verdict = suite.arrange(code, self.config.workers)
        if not verdict.passed:
            return _not_passed(verdict)
        (idle,) = suite.judge([without_unused_imports(blank, language)], self.config.workers)
        if idle.passed:
            return _Refused("suite_passes_anything", "it passes on a program that does nothing too")
        # Only what passes as it is may be tried in another form.
        if short:
            return few
        return Program(
            id=content_id(problem["id"], code),
            problem_id=problem["id"],
            problem=problem["name"],
            language=language,
            entry_point=entry,
            code=code,
            functions=spans,
            skeleton=blank,
            decomposed_by=by,
            prompt_version=prompt_version,
            suite_kind=suite.kind,
        )


def _counts(span: FunctionSpan) -> bool:
    return span.kind in ("function", "method") and "." not in runs.entry_of(span.name)


def _not_passed(verdict: Verdict) -> _Refused:
    reason = "infra_error" if verdict.reason == "infra_error" else "reference_fails_suite"
    return _Refused(reason, verdict.detail or verdict.reason)


def _defined(entry: str, spans: Sequence[FunctionSpan]) -> bool:
    """Whether a program has the function that its suite calls: a function, or the method of a class."""
    return any(span.name == entry or span.name.rpartition(".")[2] == entry for span in spans)


def has_suite(problem: Mapping[str, Any]) -> bool:
    """Whether a problem has a test that its programs can be run on."""
    kinds = {test["kind"] for test in problem["tests"]}
    if "stdin" in kinds or ("call" in kinds and problem["entry_point"]):
        return True
    return problem["language"] == "Python" and bool(problem["entry_point"]) and bool(suites(problem))


def decompose(problem: Mapping[str, Any], config: DecomposeConfig, client: Client | None = None) -> Outcome:
    """Decompose one problem."""
    (outcome,) = Decomposer(config, client).all([problem])
    return outcome
