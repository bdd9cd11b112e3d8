"""Problems become programs: the reference as written, if it is made of functions and passes its suite.

In: a `Problem` row. Out: `Keep` with its `Program`, or `Drop` with the first reason found, cheapest
check first; the suite is run for real, in a sandbox apart from the program. Wrong: nothing of the
problem's doing raises; `SandboxUnavailable` where the machine cannot isolate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from decompose.functions import functions
from decompose.grammars import SourceError
from decompose.skeleton import skeleton
from labelers.programs import runs
from labelers.programs.config import DecomposeConfig
from labelers.programs.suites import suites
from schemas.ids import content_id
from schemas.records import FunctionSpan, Program
from schemas.stage import Drop, Keep, Outcome

_LANGUAGES = ("Python",)
_AS_WRITTEN = "as-written"
_BOM = "\ufeff"


def module_functions(spans: Iterable[FunctionSpan | Mapping[str, Any]]) -> list[str]:
    """Names of the functions that belong to no class: those that can be called from outside."""
    names = [span.name if isinstance(span, FunctionSpan) else span["name"] for span in spans]
    return [name for name in names if "." not in name]


def decompose(problem: Mapping[str, Any], config: DecomposeConfig) -> Outcome:
    """Decompose one problem's reference as it is written."""
    shaped = _shape(problem, config)
    if isinstance(shaped, Drop):
        return shaped
    bounds = runs.limits(config.cpu_s, config.wall_s, config.memory_mb)
    names = module_functions(shaped.functions)
    jobs = runs.split_jobs(shaped.code, suites(problem), shaped.entry_point or "", names, bounds)
    for number, result in enumerate(runs.run_all(jobs, config.workers)):
        if result.status != "ok":
            reason = "infra_error" if result.status == "infra_error" else "reference_fails_suite"
            where = f"file {number + 1} of {len(jobs)}: " if len(jobs) > 1 else ""
            return Drop(problem["id"], reason, f"{where}{result.status}: {result.detail}"[:500])
    return Keep((shaped,))


def _shape(problem: Mapping[str, Any], config: DecomposeConfig) -> Program | Drop:
    """The program that a reference is, if nothing but running it can still speak against it."""
    name = problem["id"]
    if problem["language"] not in _LANGUAGES:
        return Drop(name, "unsupported_language", problem["language"])
    if not suites(problem):
        kinds = sorted({test["kind"] for test in problem["tests"]})
        return Drop(name, "no_suite", f"tests: {', '.join(kinds) or 'none'}")
    code = problem["solution"].removeprefix(_BOM)
    try:
        spans = functions(code, problem["language"])
        blank = skeleton(code, language=problem["language"])
    except SourceError as error:
        return Drop(name, "syntax_error", str(error)[:500])
    callable_ = module_functions(spans)
    if problem["entry_point"] not in callable_:
        return Drop(name, "entry_point_missing", f"no function {problem['entry_point']!r}"[:500])
    if len(callable_) < config.min_functions:
        return Drop(name, "too_few_functions", f"{len(callable_)}, fewer than {config.min_functions}")
    if len(spans) > config.max_functions:
        return Drop(name, "too_many_functions", f"{len(spans)}, more than {config.max_functions}")
    return Program(
        id=content_id(problem["id"], code),
        problem_id=problem["id"],
        problem=problem["name"],
        language=problem["language"],
        entry_point=problem["entry_point"],
        code=code,
        functions=spans,
        skeleton=blank,
        decomposed_by=_AS_WRITTEN,
        prompt_version=None,
        suite_kind="split",
    )


def decompose_all(problems: Iterable[Mapping[str, Any]], config: DecomposeConfig) -> Iterator[Outcome]:
    """Decompose problems, one outcome each, in order."""
    for problem in problems:
        yield decompose(problem, config)
