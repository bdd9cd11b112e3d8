"""Problems as a policy is asked to solve them.

In: files or data sets, as `assay problems` reads them, or the tables of a run. Out: `Asked`: a problem, the
program that its tests were checked on, and the prompt. Wrong: a row that is no problem is left out, with its
reason; a file that cannot be read is an `AssayError`.

A prompt holds the statement, and below it either what is to be written in one sentence (`statement`), or the
skeleton of the reference with its functions to be filled in (`skeleton`), word for word as `assay sample`
asks and the table `steps` is trained on. A model without a chat template goes on from the statement itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schemas.records import TABLES
from schemas.rundir import RunDir
from schemas.shards import iter_rows

if TYPE_CHECKING:
    from miner.config import ImportConfig

LeftOut = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Asked:
    """A problem that is put to a policy.

    Attributes:
        problem: the `Problem` row.
        code: a program that solves it.
        skeleton: that program with blank bodies, where the prompt shows it; else empty.
        functions: names of its functions, outside of classes and in them.
        exports: those that can be called from outside.
        kind: how its suite runs (`suite_kind`); None where that is to be found out.
    """

    problem: Mapping[str, Any]
    code: str
    skeleton: str
    functions: tuple[str, ...]
    exports: tuple[str, ...]
    kind: str | None

    @property
    def name(self) -> str:
        """The problem's name in its source."""
        return str(self.problem["name"])

    @property
    def entry(self) -> str:
        """The function that the tests call; empty for a program that reads its input."""
        return str(self.problem["entry_point"] or "")

    @property
    def wanted(self) -> frozenset[str]:
        """Functions that an answer should define."""
        if self.skeleton:
            return frozenset(self.functions)
        return frozenset({self.entry, f"Solution.{self.entry}"}) if self.entry else frozenset()

    def prompt(self, chat: bool) -> str:
        """What is asked: of a model that talks in messages, or of one that goes on from a text."""
        from labelers.programs.suites import prompt_of

        if self.skeleton:
            program = {"skeleton": self.skeleton, "language": self.problem["language"]}
            return prompt_of(self.problem, program)
        statement, language = str(self.problem["prompt"]), self.problem["language"]
        if not chat:
            return statement
        what = f"Write the function `{self.entry}` in {language}."
        if not self.entry:
            what = f"Write a program in {language} that reads standard input and writes to standard output."
        return f"{statement.rstrip()}\n\n{what} Answer with all of the code in one fenced block.\n"


def asked_of_files(
    config: ImportConfig, files: Sequence[str], limit: int | None, skeletons: bool, seed: int
) -> tuple[list[Asked], list[LeftOut]]:
    """Problems of files and data sets; of several with one id the first counts.

    Raises:
        AssayError: see `miner.importers.problems.plan_problems`.
    """
    from miner.importers.problems import import_problems, plan_problems
    from schemas.stage import Keep

    problems: list[dict[str, Any]] = []
    left_out: list[LeftOut] = []
    for unit in plan_problems(config, files, limit):
        for outcome in import_problems(config, unit, seed):
            if isinstance(outcome, Keep):
                problems += [dataclasses.asdict(one) for one in outcome.records]
            else:
                left_out.append(_left_out(outcome.id, outcome.reason, outcome.detail or ""))
    return _asked(problems, {}, skeletons, left_out)


def asked_of_run(run: RunDir, limit: int | None, skeletons: bool) -> tuple[list[Asked], list[LeftOut]]:
    """Problems of a run, in the form of their programs where it has such.

    Raises:
        AssayError: it has no problems.
    """
    from schemas.errors import AssayError

    if not run.parts("problems"):
        raise AssayError(f"{run.root}: no problems yet; run `assay problems` first, or name --problems FILE")
    programs = {row["problem_id"]: row for row in _rows(run, "programs")}
    return _asked(itertools.islice(_rows(run, "problems"), limit), programs, skeletons, [])


def _rows(run: RunDir, table: str) -> Iterator[dict[str, Any]]:
    for part in run.parts(table):
        yield from iter_rows(part.path, TABLES[table])


def _asked(
    problems: Iterable[dict[str, Any]],
    programs: Mapping[str, Mapping[str, Any]],
    skeletons: bool,
    left_out: list[LeftOut],
) -> tuple[list[Asked], list[LeftOut]]:
    from labelers.programs.decompose import has_suite, module_functions

    found: dict[str, Asked] = {}
    for problem in problems:
        if problem["id"] in found:
            left_out.append(_left_out(problem["name"], "duplicate", "stands twice"))
            continue
        if not has_suite(problem):
            left_out.append(_left_out(problem["name"], "no_suite", "has no tests that can be run"))
            continue
        program = programs.get(problem["id"])
        code = program["code"] if program is not None else problem["solution"].removeprefix("\ufeff")
        spans, blank = _taken_apart(code, problem["language"])
        found[problem["id"]] = Asked(
            problem=problem,
            code=code,
            skeleton=(program["skeleton"] if program is not None else blank) if skeletons else "",
            functions=tuple(span.name for span in spans),
            exports=tuple(module_functions(spans)),
            kind=None if program is None else program["suite_kind"],
        )
    return list(found.values()), left_out


def _taken_apart(code: str, language: str) -> tuple[list[Any], str]:
    """(functions, skeleton) of a program; nothing of one that has none or cannot be read."""
    from decompose.functions import functions
    from decompose.grammars import SourceError
    from decompose.skeleton import skeleton
    from schemas.errors import AssayError

    with contextlib.suppress(SourceError, AssayError):
        spans = functions(code, language)
        if spans:
            return spans, skeleton(code, language=language)
    return [], ""


def _left_out(problem: str, reason: str, detail: str) -> LeftOut:
    return {"problem": problem, "reason": reason, "detail": detail[:500]}
