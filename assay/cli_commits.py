"""The commands that turn git histories into preference pairs."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from assay.flags import (
    DEFAULT_RUN,
    BaseUrl,
    Budget,
    Flags,
    Model,
    command_of,
    inline,
    table_command,
    with_models,
)


def _history_command(name: str, summary: str, stages: tuple[str, ...]) -> None:
    """A command that looks at git histories; those given as URLs are fetched first."""

    def command(
        flags: Flags,
        repos: Annotated[
            list[str] | None,
            typer.Argument(
                help="Git repositories: folder of a work tree or bare repository, or URL (https, ssh, file).",
                show_default=False,
            ),
        ] = None,
        listed: Annotated[
            list[Path] | None,
            typer.Option(
                "--list", help="File that names repositories, a path or URL a line; may be repeated."
            ),
        ] = None,
        metadata: Annotated[
            list[Path] | None,
            typer.Option(
                help="JSONL, CSV or Parquet with stars and issues of repositories; may be repeated."
            ),
        ] = None,
        forge: Annotated[
            bool, typer.Option("--forge", help="Ask the forges of the repositories for stars and issues.")
        ] = False,
        forge_url: Annotated[
            str | None, typer.Option(help="API of an own forge to ask, such as https://host/api/v4.")
        ] = None,
    ) -> None:
        from assay.mining import Histories, mine
        from miner.sources import read_list

        given = [*(repos or []), *(one for file in listed or [] for one in read_list(file))]
        mine(flags, Histories(given, metadata or [], forge, forge_url), stages)

    command_of(name, summary)(command)


_history_command(
    "repositories", "Say what is known of repositories: size, people, licence, stars.", ("repositories",)
)
_history_command("mine", "Mine edits from git histories.", ("repositories", "mine"))
table_command("select", "Decide which edits are worth a label; the rest keep their reason.", ("select",))
table_command("dedup", "Of edits that are nearly the same, keep the earliest.", ("dedup",))


Benchmarks = Annotated[
    list[Path] | None,
    typer.Option(
        "--benchmark",
        help="Benchmark to keep edits away from: .parquet, .jsonl, .jsonl.gz, or a folder; may be repeated.",
        show_default=False,
    ),
]
TrainUntil = Annotated[
    str | None, typer.Option(help="Train on what was committed before this date, such as 2021-06-30.")
]
TestFrom = Annotated[
    str | None, typer.Option(help="Test on what was committed from this date on (default: --train-until).")
]
TestUntil = Annotated[str | None, typer.Option(help="Test on what was committed before this date.")]


def _with_benchmarks(flags: Flags, stages: tuple[str, ...], benchmark: list[Path] | None) -> None:
    from assay.session import Session

    given = {} if benchmark is None else {"benchmarks": [str(path) for path in benchmark]}
    changed = dataclasses.replace(flags, settings=[*inline("decontaminate", given), *(flags.settings or [])])
    with Session(changed, flags.run_dir or DEFAULT_RUN, create=False) as session:
        session.stages(stages)


def _with_dates(flags: Flags, stages: tuple[str, ...], **dates: str | None) -> None:
    from assay.session import Session

    given = {name: date for name, date in dates.items() if date is not None}
    changed = dataclasses.replace(flags, settings=[*inline("split", given), *(flags.settings or [])])
    with Session(changed, flags.run_dir or DEFAULT_RUN, create=False) as session:
        session.stages(stages)


@command_of("decontaminate", "Drop edits that hold the text of a benchmark.")
def decontaminate(flags: Flags, benchmark: Benchmarks = None) -> None:
    """Compare edits with benchmarks."""
    _with_benchmarks(flags, ("decontaminate",), benchmark)


@command_of("label", "Give each selected edit a criterion, with its evidence.")
def label(flags: Flags, benchmark: Benchmarks = None) -> None:
    """Select, compare, label."""
    _with_benchmarks(flags, ("select", "dedup", "decontaminate", "label"), benchmark)


@command_of("split", "Tell edits apart into train and test, and measure what test has in common with train.")
def split(
    flags: Flags, train_until: TrainUntil = None, test_from: TestFrom = None, test_until: TestUntil = None
) -> None:
    """Split edits."""
    dates = {"train_until": train_until, "test_from": test_from, "test_until": test_until}
    _with_dates(flags, ("split",), **dates)


table_command("cut", "Cut the changed functions of each edit out of its file.", ("cut",))


table_command(
    "evidence",
    "Measure both versions of each change without a model: complexity, lint, findings, run time.",
    ("evidence",),
)


@command_of("vote", "Let models judge each change under its criterion and all others, in both orders.")
def vote(flags: Flags, model: Model = None, base_url: BaseUrl = None, budget: Budget = None) -> None:
    """Judge."""
    from assay.session import Session

    asked = with_models(flags, budget, model=model, model_url=base_url)
    with Session(asked, flags.run_dir or DEFAULT_RUN, create=False) as session:
        session.stages(("vote",))


@command_of("instruct", "Let a model write the instructions that either version of a change could answer.")
def instruct(flags: Flags, model: Model = None, base_url: BaseUrl = None, budget: Budget = None) -> None:
    """Write instructions."""
    from assay.session import Session

    asked = with_models(flags, budget, model=model, model_url=base_url)
    with Session(asked, flags.run_dir or DEFAULT_RUN, create=False) as session:
        session.stages(("instruct",))


@command_of("build", "Build preference pairs from labelled edits; with a model it judges and writes first.")
def build(
    flags: Flags,
    train_until: TrainUntil = None,
    test_from: TestFrom = None,
    test_until: TestUntil = None,
    model: Model = None,
    base_url: BaseUrl = None,
    budget: Budget = None,
) -> None:
    """Split, cut, measure, judge, write, build."""
    dates = {"train_until": train_until, "test_from": test_from, "test_until": test_until}
    asked = with_models(flags, budget, model=model, model_url=base_url)
    _with_dates(asked, ("split", "cut", "evidence", "vote", "instruct", "build"), **dates)
