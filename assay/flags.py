"""What the commands of the command line share: the application, the flags that every stage has, models.

Nothing heavy is imported here: commands import what they need.
"""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="assay",
    help="Turn git histories, programming problems and agent trajectories into datasets for code reward "
    "models, and train the models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DEFAULT_RUN = Path("runs/default")


@dataclasses.dataclass(frozen=True)
class Flags:
    """The flags that every stage has."""

    run_dir: Annotated[Path | None, typer.Option(help=f"Folder of the run (default: {DEFAULT_RUN}).")] = None
    workers: Annotated[int, typer.Option(min=1, help="Worker processes; they never change a result.")] = 2
    limit: Annotated[int | None, typer.Option(min=0, help="Consider at most this many rows.")] = None
    clean: Annotated[
        bool, typer.Option("--clean/--resume", help="Make everything again, or keep what is done.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = (
        False
    )
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False
    seed: Annotated[int | None, typer.Option(help="Root of every random draw (default: the recipe's).")] = (
        None
    )
    recipe: Annotated[
        Path | None, typer.Option(help="TOML file of settings (default: the run directory's own).")
    ] = None
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change one setting, table.key=value; may be repeated.")
    ] = None


def with_flags(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: typer sees its own parameters and all of `Flags` beside them."""
    hints = typing.get_type_hints(function, include_extras=True)
    own = [
        p.replace(annotation=hints[p.name])
        for p in inspect.signature(function).parameters.values()
        if p.name != "flags"
    ]
    flag_hints = typing.get_type_hints(Flags, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=flag_hints[field.name],
        )
        for field in dataclasses.fields(Flags)
    ]

    @functools.wraps(function)
    def command(**values: Any) -> None:
        flags = Flags(**{field.name: values.pop(field.name) for field in dataclasses.fields(Flags)})
        function(flags=flags, **values)

    del command.__wrapped__
    positional = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    command.__signature__ = inspect.Signature([*positional, *shared])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*positional, *shared)}
    return command


def command_of(name: str, summary: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        return app.command(name, help=summary)(with_flags(function))

    return register


def table_command(name: str, summary: str, stages: tuple[str, ...]) -> None:
    """A command that works on tables of the run directory alone."""

    def command(flags: Flags) -> None:
        from assay.session import Session

        with Session(flags, flags.run_dir or DEFAULT_RUN, create=False) as session:
            session.stages(stages)

    command_of(name, summary)(command)


def source_command(name: str, source: str, what: str, summary: str) -> None:
    """A command that brings something in from outside."""

    def command(
        flags: Flags,
        paths: Annotated[list[Path] | None, typer.Argument(help=what, show_default=False)] = None,
    ) -> None:
        from assay.session import Session

        with Session(
            flags, flags.run_dir or DEFAULT_RUN, create=True, sources={source: paths or []}
        ) as session:
            session.stages((name,))

    command_of(name, summary)(command)


def inline(table: str, values: dict[str, Any]) -> list[str]:
    """Settings of one table as a single `--set`: of several dates, none is looked at without the others."""
    from schemas.config import toml_value

    text = ", ".join(f"{name} = {toml_value(value)}" for name, value in values.items())
    return [f"{table}={{{text}}}"] if values else []


Model = Annotated[
    str | None,
    typer.Option(help="Model that judges, rewrites and writes: any name that litellm knows, or `rules`."),
]
BaseUrl = Annotated[
    str | None, typer.Option(help="OpenAI-compatible server of --model, such as http://localhost:8000/v1.")
]
Policy = Annotated[
    str | None, typer.Option(help="Model whose completions of the skeletons are labelled, named likewise.")
]
PolicyUrl = Annotated[str | None, typer.Option(help="OpenAI-compatible server of --policy.")]
Budget = Annotated[
    float | None, typer.Option(help="Most that the run's model calls may cost, in US dollars.")
]


def with_models(flags: Flags, budget: float | None, **named: str | None) -> Flags:
    """Flags with models as settings: of `model`, `model_url`, `policy`, `policy_url` those that are given.

    What the run's recipe says of the model before goes where it cannot be meant with the new one: a server
    and a recording with `rules`, a recording with a server.
    """
    from labelers.llm.config import RULES

    settings: list[str] = []
    for table in ("model", "policy"):
        given: dict[str, Any] = {"model": named.get(table), "base_url": named.get(f"{table}_url")}
        given["budget_usd"] = budget
        if given["model"] == RULES and given["base_url"] is None:
            given |= {"backend": "", "base_url": "", "replay": "", "batch": False}
        elif given["base_url"]:
            given["replay"] = ""
        settings += inline(table, {name: value for name, value in given.items() if value is not None})
    if budget is not None:
        settings += inline("judges", {"budget_usd": budget})
    return dataclasses.replace(flags, settings=[*settings, *(flags.settings or [])])
