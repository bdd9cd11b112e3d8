"""The formats in which problem sets are published, and how a file's format is told by its fields.

A file has one format. `FORMATS` are tried in their order.
"""

from __future__ import annotations

import dataclasses

from miner.importers import contest_sets, function_sets, layouts, plain
from miner.importers.fields import Row
from miner.importers.layouts import Layout
from miner.importers.making import Reading
from schemas.ids import content_id
from schemas.records import Problem


@dataclasses.dataclass(frozen=True)
class Format(Layout[Problem, Reading]):
    """One format of problem sets.

    Attributes:
        by_prompt: names may be shared by different problems, so the statement tells them apart.
    """

    by_prompt: bool = False

    def key(self, problem: Problem) -> str:
        """What a problem is known by in its file."""
        return content_id(problem.name, problem.prompt) if self.by_prompt else problem.name


def _from_evalplus(row: Row) -> bool:
    """Whether EvalPlus made the tests of a row: it has inputs, or a comparison of floats."""
    test = row.get("test")
    return "base_input" in row or (isinstance(test, str) and "def is_floats(" in test)


FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format(
            "codecontests",
            ("name", "description", "solutions", "public_tests"),
            contest_sets.codecontests,
            by_prompt=True,
        ),
        Format(
            "livecodebench",
            ("question_content", "question_id", "public_test_cases|private_test_cases"),
            contest_sets.livecodebench,
        ),
        Format("verifiable", ("verification_info",), contest_sets.verifiable, by_prompt=True),
        Format(
            "taco",
            ("question", "solutions", "input_output", "skill_types|raw_tags|time_limit"),
            contest_sets.taco,
            by_prompt=True,
        ),
        Format("apps", ("question", "solutions", "input_output"), contest_sets.apps),
        Format("kodcode", ("question", "solution", "test|test_code"), function_sets.kodcode),
        Format(
            "bigcodebench",
            ("task_id", "complete_prompt", "canonical_solution", "test", "entry_point"),
            function_sets.bigcodebench,
        ),
        Format(
            "mbpp+",
            ("task_id", "prompt", "code|canonical_solution", "test|base_input"),
            function_sets.mbpp_plus,
            more=lambda row: (
                "test_list" in row
                if "code" in row
                else "assertion" in row or str(row["task_id"])[:5].lower() == "mbpp/"
            ),
        ),
        Format(
            "humaneval+",
            ("task_id", "prompt", "entry_point", "canonical_solution", "test|base_input"),
            function_sets.humaneval_plus,
            more=_from_evalplus,
        ),
        Format(
            "humaneval",
            ("task_id", "prompt", "entry_point", "canonical_solution", "test"),
            function_sets.humaneval,
        ),
        Format("mbpp", ("task_id", "text|prompt", "code", "test_list"), function_sets.mbpp),
        Format("plain", ("prompt", "solution", "tests"), plain.plain),
    )
}
"""Format by name, in the order in which they are tried."""


def choose(row: Row) -> Format:
    """The format of a row.

    Raises:
        BadRow: it has the fields of none; names the known formats and what was seen.
    """
    return layouts.choose(row, FORMATS)
