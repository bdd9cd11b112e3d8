"""The commands that turn programming problems into step-labelled candidates, and import trajectories."""

import dataclasses
from typing import Annotated

import typer

from assay.flags import (
    DEFAULT_RUN,
    BaseUrl,
    Budget,
    Flags,
    Model,
    Policy,
    PolicyUrl,
    command_of,
    source_command,
    with_models,
)

PROBLEM_FILES = (
    "Problem files (.jsonl, .jsonl.gz, .json, .parquet), or datasets on the Hub: hub:OWNER/NAME, "
    "hub:OWNER/NAME:CONFIG:SPLIT or hub:OWNER/NAME/FILE, also with @REVISION."
)


@command_of("problems", "Import programming problems, as published.")
def problems(
    flags: Flags,
    paths: Annotated[list[str] | None, typer.Argument(help=PROBLEM_FILES, show_default=False)] = None,
) -> None:
    """Read problem sets."""
    from assay.session import Session

    given = {"problems": paths or []}
    with Session(flags, flags.run_dir or DEFAULT_RUN, create=True, sources=given) as session:
        session.stages(("problems",))


@command_of("preferences", "Import published preference sets.")
def preferences(
    flags: Flags,
    paths: Annotated[
        list[str] | None,
        typer.Argument(help=PROBLEM_FILES.replace("Problem", "Preference"), show_default=False),
    ] = None,
) -> None:
    """Read preference sets."""
    from assay.session import Session

    given = {"preferences": paths or []}
    with Session(flags, flags.run_dir or DEFAULT_RUN, create=True, sources=given) as session:
        session.stages(("preferences",))


def _programs_command(name: str, summary: str, stages: tuple[str, ...]) -> None:
    """A command that may ask the teacher model."""

    def command(flags: Flags, model: Model = None, base_url: BaseUrl = None, budget: Budget = None) -> None:
        from assay.session import Session

        asked = with_models(flags, budget, model=model, model_url=base_url)
        with Session(asked, flags.run_dir or DEFAULT_RUN, create=False) as session:
            session.stages(stages)

    command_of(name, summary)(command)


_programs_command("decompose", "Cut reference solutions into functions.", ("decompose",))
_programs_command("tests", "Make unit tests of each function of a reference.", ("tests",))


@command_of("sample", "Make candidate solutions: by mutation, and by a model where one is named.")
def sample(flags: Flags, policy: Policy = None, policy_url: PolicyUrl = None, budget: Budget = None) -> None:
    """Sample candidates."""
    from assay.session import Session

    asked = with_models(flags, budget, policy=policy, policy_url=policy_url)
    with Session(asked, flags.run_dir or DEFAULT_RUN, create=False) as session:
        session.stages(("sample",))


@command_of("verify", "Label candidates by execution: outcome, and a step for each function.")
def verify(
    flags: Flags,
    model: Model = None,
    base_url: BaseUrl = None,
    policy: Policy = None,
    policy_url: PolicyUrl = None,
    budget: Budget = None,
) -> None:
    """Tests, candidates, labels."""
    from assay.session import Session

    asked = with_models(flags, budget, model=model, model_url=base_url, policy=policy, policy_url=policy_url)
    with Session(asked, flags.run_dir or DEFAULT_RUN, create=False) as session:
        session.stages(("tests", "sample", "verify"))


@command_of("steps", "From problem files to step-labelled candidates: every stage between in one command.")
def steps(
    flags: Flags,
    paths: Annotated[list[str] | None, typer.Argument(help=PROBLEM_FILES, show_default=False)] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    policy: Policy = None,
    policy_url: PolicyUrl = None,
    budget: Budget = None,
) -> None:
    """Import, decompose, test, sample, verify."""
    from assay.session import Session

    asked = with_models(flags, budget, model=model, model_url=base_url, policy=policy, policy_url=policy_url)
    sources = {"problems": paths or []}
    with Session(asked, flags.run_dir or DEFAULT_RUN, create=True, sources=sources) as session:
        session.stages(("problems",))
        # What follows is all that these problems give.
        session.flags = dataclasses.replace(session.flags, limit=None)
        if not session.failed:
            session.stages(("decompose", "tests", "sample", "verify"))


_programs_command(
    "synthesize",
    "Make preference pairs of labelled programs: planted faults, and failures dressed up to mislead.",
    ("synthesize",),
)

source_command(
    "trajectories",
    "trajectories",
    "Trajectory files: chat JSONL or .traj.",
    "Import agent trajectories.",
)
