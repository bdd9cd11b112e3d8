"""The command line: one command a stage, the same flags everywhere.

Exit status: 0 done, 1 some units failed (the others are kept), 2 bad input or a machine at fault,
130 interrupted. Results go to standard output, everything else to standard error. Nothing heavy is
imported here: commands import what they need.
"""

import dataclasses
import functools
import inspect
import io
import os
import signal
import sys
import time
import typing
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import typer

from assay import sandbox_cli

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


def _with_flags(function: Callable[..., None]) -> Callable[..., None]:
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


def _command(name: str, summary: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        return app.command(name, help=summary)(_with_flags(function))

    return register


def _table_command(name: str, summary: str, stages: tuple[str, ...]) -> None:
    """A command that works on tables of the run directory alone."""

    def command(flags: Flags) -> None:
        from assay.session import Session

        with Session(flags, flags.run_dir or DEFAULT_RUN, create=False) as session:
            session.stages(stages)

    _command(name, summary)(command)


def _source_command(name: str, source: str, what: str, summary: str) -> None:
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

    _command(name, summary)(command)


@_command("demo", "Do everything on one repository and the example problems: history to trained model.")
def demo(
    flags: Flags,
    repo: Annotated[Path, typer.Option(help="Git repository to mine.")] = Path(),
    problems: Annotated[
        Path | None, typer.Option(help="Problem file (default: the examples that come with assay).")
    ] = None,
) -> None:
    """Run every stage, then train, evaluate and report."""
    from assay.demo import run_demo

    run_demo(flags, repo, problems)


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

    _command(name, summary)(command)


_history_command(
    "repositories", "Say what is known of repositories: size, people, licence, stars.", ("repositories",)
)
_history_command("mine", "Mine edits from git histories.", ("repositories", "mine"))
_table_command("select", "Decide which edits are worth a label; the rest keep their reason.", ("select",))
_table_command("dedup", "Of edits that are nearly the same, keep the earliest.", ("dedup",))


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
    changed = dataclasses.replace(flags, settings=[*_inline("decontaminate", given), *(flags.settings or [])])
    with Session(changed, flags.run_dir or DEFAULT_RUN, create=False) as session:
        session.stages(stages)


def _with_dates(flags: Flags, stages: tuple[str, ...], **dates: str | None) -> None:
    from assay.session import Session

    given = {name: date for name, date in dates.items() if date is not None}
    changed = dataclasses.replace(flags, settings=[*_inline("split", given), *(flags.settings or [])])
    with Session(changed, flags.run_dir or DEFAULT_RUN, create=False) as session:
        session.stages(stages)


def _inline(table: str, values: dict[str, Any]) -> list[str]:
    """Settings of one table as a single `--set`: of several dates, none is looked at without the others."""
    from schemas.config import toml_value

    text = ", ".join(f"{name} = {toml_value(value)}" for name, value in values.items())
    return [f"{table}={{{text}}}"] if values else []


@_command("decontaminate", "Drop edits that hold the text of a benchmark.")
def decontaminate(flags: Flags, benchmark: Benchmarks = None) -> None:
    """Compare edits with benchmarks."""
    _with_benchmarks(flags, ("decontaminate",), benchmark)


@_command("label", "Give each selected edit a criterion, with its evidence.")
def label(flags: Flags, benchmark: Benchmarks = None) -> None:
    """Select, compare, label."""
    _with_benchmarks(flags, ("select", "dedup", "decontaminate", "label"), benchmark)


@_command("split", "Tell edits apart into train and test, and measure what test has in common with train.")
def split(
    flags: Flags, train_until: TrainUntil = None, test_from: TestFrom = None, test_until: TestUntil = None
) -> None:
    """Split edits."""
    dates = {"train_until": train_until, "test_from": test_from, "test_until": test_until}
    _with_dates(flags, ("split",), **dates)


_table_command("cut", "Cut the changed functions of each edit out of its file.", ("cut",))


@_command("build", "Build preference pairs from labelled edits.")
def build(
    flags: Flags, train_until: TrainUntil = None, test_from: TestFrom = None, test_until: TestUntil = None
) -> None:
    """Split, cut, build."""
    dates = {"train_until": train_until, "test_from": test_from, "test_until": test_until}
    _with_dates(flags, ("split", "cut", "build"), **dates)


PROBLEM_FILES = (
    "Problem files (.jsonl, .jsonl.gz, .json, .parquet), or datasets on the Hub: hub:OWNER/NAME, "
    "hub:OWNER/NAME:CONFIG:SPLIT or hub:OWNER/NAME/FILE, also with @REVISION."
)


@_command("problems", "Import programming problems, as published.")
def problems(
    flags: Flags,
    paths: Annotated[list[str] | None, typer.Argument(help=PROBLEM_FILES, show_default=False)] = None,
) -> None:
    """Read problem sets."""
    from assay.session import Session

    given = {"problems": paths or []}
    with Session(flags, flags.run_dir or DEFAULT_RUN, create=True, sources=given) as session:
        session.stages(("problems",))


Model = Annotated[
    str | None,
    typer.Option(help="Model that rewrites, writes tests and judges: any name that litellm knows."),
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


def _with_models(flags: Flags, budget: float | None, **named: str | None) -> Flags:
    """Flags with models as settings: of `model`, `model_url`, `policy`, `policy_url` those that are given."""
    settings: list[str] = []
    for table in ("model", "policy"):
        given: dict[str, Any] = {"model": named.get(table), "base_url": named.get(f"{table}_url")}
        given["budget_usd"] = budget
        settings += _inline(table, {name: value for name, value in given.items() if value is not None})
    return dataclasses.replace(flags, settings=[*settings, *(flags.settings or [])])


def _programs_command(name: str, summary: str, stages: tuple[str, ...]) -> None:
    """A command that may ask the teacher model."""

    def command(flags: Flags, model: Model = None, base_url: BaseUrl = None, budget: Budget = None) -> None:
        from assay.session import Session

        asked = _with_models(flags, budget, model=model, model_url=base_url)
        with Session(asked, flags.run_dir or DEFAULT_RUN, create=False) as session:
            session.stages(stages)

    _command(name, summary)(command)


_programs_command("decompose", "Cut reference solutions into functions.", ("decompose",))
_programs_command("tests", "Make unit tests of each function of a reference.", ("tests",))


@_command("sample", "Make candidate solutions: by mutation, and by a model where one is named.")
def sample(flags: Flags, policy: Policy = None, policy_url: PolicyUrl = None, budget: Budget = None) -> None:
    """Sample candidates."""
    from assay.session import Session

    asked = _with_models(flags, budget, policy=policy, policy_url=policy_url)
    with Session(asked, flags.run_dir or DEFAULT_RUN, create=False) as session:
        session.stages(("sample",))


@_command("verify", "Label candidates by execution: outcome, and a step for each function.")
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

    asked = _with_models(flags, budget, model=model, model_url=base_url, policy=policy, policy_url=policy_url)
    with Session(asked, flags.run_dir or DEFAULT_RUN, create=False) as session:
        session.stages(("tests", "sample", "verify"))


@_command("steps", "From problem files to step-labelled candidates: every stage between in one command.")
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

    asked = _with_models(flags, budget, model=model, model_url=base_url, policy=policy, policy_url=policy_url)
    sources = {"problems": paths or []}
    with Session(asked, flags.run_dir or DEFAULT_RUN, create=True, sources=sources) as session:
        session.stages(("problems",))
        # What follows is all that these problems give.
        session.flags = dataclasses.replace(session.flags, limit=None)
        if not session.failed:
            session.stages(("decompose", "tests", "sample", "verify"))


_source_command(
    "trajectories",
    "trajectories",
    "Trajectory files: chat JSONL or .traj.",
    "Import agent trajectories.",
)


@_command("train", "Train the reward model on the run's training pairs.")
def train(flags: Flags) -> None:
    """Train a model."""
    from assay.session import Session

    with Session(flags, flags.run_dir or DEFAULT_RUN, create=False) as session:
        session.train()


@_command("eval", "Score the test pairs with the run's model: accuracy by criterion and language.")
def evaluate(flags: Flags) -> None:
    """Evaluate the model."""
    from assay.session import Session

    with Session(flags, flags.run_dir or DEFAULT_RUN, create=False) as session:
        session.evaluate()


RunDirOnly = Annotated[Path, typer.Option(help="Folder of the run.")]
JsonOnly = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


@app.command("report", help="Write one self-contained page about the run: funnel, tables, plots, samples.")
def report(run_dir: RunDirOnly = DEFAULT_RUN, as_json: JsonOnly = False) -> None:
    """Write the report."""
    from assay.session import write_report

    write_report(run_dir, as_json)


@app.command("status", help="Say how far each stage of the run is, and what it dropped.")
def status(run_dir: RunDirOnly = DEFAULT_RUN, as_json: JsonOnly = False) -> None:
    """Print the state of a run."""
    from assay.status import show

    show(run_dir, as_json)


@app.command("push", help="Publish the run's pairs, steps and trajectories on the Hub, with a card.")
def push(
    repo_id: Annotated[str, typer.Argument(help="Dataset on the Hub: owner/name.", show_default=False)],
    run_dir: RunDirOnly = DEFAULT_RUN,
    private: Annotated[bool, typer.Option("--private", help="Make a new dataset private.")] = False,
    tag: Annotated[str | None, typer.Option(help="Tag the published commit, such as v1.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be published.")] = False,
    as_json: JsonOnly = False,
) -> None:
    """Publish the run."""
    from assay.push import push_run

    push_run(run_dir, repo_id, private=private, tag=tag, dry_run=dry_run, as_json=as_json)


@app.command("export", help="Write the run's labelled programs as a data set that KTO or DPO trainers read.")
def export(
    to: Annotated[Literal["kto", "dpo"], typer.Option(help="Which trainers read it.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write; an older export there is replaced.")],
    level: Annotated[
        Literal["program", "function"], typer.Option(help="Whole completions, or single functions.")
    ] = "program",
    labels: Annotated[
        Literal["reference", "own", "judge", "counted", "outcome"] | None,
        typer.Option(
            help="Label of a function: beside the functions of the reference (default) or of the candidate, "
            "a judge's, the one that the recipe counts, or the outcome of the whole candidate."
        ),
    ] = None,
    conversational: Annotated[
        bool, typer.Option("--conversational", help="Prompts and answers as lists of messages.")
    ] = False,
    file_format: Annotated[
        Literal["parquet", "jsonl"], typer.Option("--format", help="Format of the files.")
    ] = "parquet",
    plain: Annotated[
        bool, typer.Option("--plain", help="Only the columns that trainers read, without the evidence.")
    ] = False,
    inproc: Annotated[
        bool, typer.Option("--inproc", help="Take outcomes too that a program could have forged.")
    ] = False,
    max_pairs: Annotated[int, typer.Option(min=1, help="Most pairs of one program, or of one function.")] = 8,
    seed: Annotated[
        int | None, typer.Option(help="Root of the draw of pairs (default: the recipe's).")
    ] = None,
    run_dir: RunDirOnly = DEFAULT_RUN,
    as_json: JsonOnly = False,
) -> None:
    """Export the run."""
    from assay.export import Shape, export_run
    from labelers.programs.exports import Export

    asked = Export(to, level, labels or ("outcome" if level == "program" else "reference"), inproc, max_pairs)
    export_run(run_dir, out, asked, Shape(file_format, conversational, plain), seed=seed, as_json=as_json)


app.add_typer(sandbox_cli.app, name="sandbox")


def _version(wanted: bool) -> None:
    if wanted:
        from assay import __version__

        print(f"assay {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that come before a command."""


def _restore_standard_streams() -> None:
    """Open what the caller closed: a shard opened as number 1 or 2 would be written over by a message."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the terminal's encoding lacks is no reason to fail.
            stream.reconfigure(errors="backslashreplace")


class _Stop:
    """What Ctrl-C and a scheduler's SIGTERM do: both end a run in order; finished parts stay, workers go."""

    def __init__(self) -> None:
        self.since: float | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self)

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if self.since is None:
            self.since = time.monotonic()
            raise KeyboardInterrupt
        # The same key pressed reaches us twice below a wrapper that passes signals on. Shutting down takes
        # a moment; whoever asks again later than that wants out.
        if time.monotonic() - self.since > 1:
            os._exit(130)


def _complain(what: object) -> None:
    print("assay:", " ".join(str(what).split("\n")), file=sys.stderr, flush=True)


def _run() -> int:
    """Run the command of this process and give its exit status; errors are told in one line."""
    from schemas.errors import AssayError, environment_fault

    try:
        for argument in sys.argv[1:]:
            try:
                argument.encode()
            except UnicodeEncodeError:
                raise AssayError(f"{argument!r}: not UTF-8; rename it, or name it by a link") from None
        try:
            app()
        except SystemExit as end:
            sys.stdout.flush()
            return end.code if isinstance(end.code, int) else int(end.code is not None)
    except AssayError as error:
        _complain(error)
        return 2
    except BrokenPipeError:
        # Nobody reads on, as in `assay status | head -1`. What is left goes nowhere, not to an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(environment_fault(error) or f"{where}{error.strerror or error}")
        return 2
    except Exception as error:
        import tempfile
        import traceback

        with tempfile.NamedTemporaryFile("w", prefix="assay-", suffix=".txt", delete=False) as file:
            traceback.print_exc(file=file)
        _complain(f"internal error, {type(error).__name__}: {error}; traceback in {file.name}")
        return 1
    return 0


def main() -> None:
    """Entry point of the `assay` script."""
    _restore_standard_streams()
    stop = _Stop()
    try:
        status = _run()
    except KeyboardInterrupt:
        status = 130
    if stop.since is not None:  # typer turns an interrupt into a silent end
        status = 130
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _complain("stopped; finished parts are kept, the same command goes on from there")
    try:
        sys.stdout.flush()
    except OSError:
        # It was told already. What is left goes nowhere, or Python would try again and change the status.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = status or 2
    sys.exit(status)
