"""The command line: one command a stage, the same flags everywhere.

Exit status: 0 done, 1 some units failed (the others are kept), 2 bad input or a machine at fault,
130 interrupted. Results go to standard output, everything else to standard error. Nothing heavy is
imported here: commands import what they need.
"""

import io
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import typer

from assay import batches, sandbox_cli
from assay.flags import DEFAULT_RUN, Flags, app, command_of


@command_of("demo", "Do everything on one repository and the example problems: history to trained model.")
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


# Commands are listed in the order in which they are made.
from assay import cli_commits, cli_programs  # noqa: E402, F401, I001
from assay import cli_models  # noqa: E402, F401
from assay import cli_runs  # noqa: E402, F401

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


@app.command(
    "push",
    help="Publish the run's pairs of all kinds, steps and trajectories on the Hub, or a trained model, each "
    "with a card.",
)
def push(
    repo_id: Annotated[
        str, typer.Argument(help="Dataset, or model, on the Hub: owner/name.", show_default=False)
    ],
    run_dir: RunDirOnly = DEFAULT_RUN,
    model: Annotated[
        str | None,
        typer.Option(
            help="Publish a model: `rm`, `policy` or `verifier` for the run's, or its folder.",
            show_default=False,
        ),
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    tag: Annotated[str | None, typer.Option(help="Tag the published commit, such as v1.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be published.")] = False,
    as_json: JsonOnly = False,
) -> None:
    """Publish the run, or a model."""
    from assay.push import push_model, push_run

    if model is not None:
        push_model(model, run_dir, repo_id, private=private, tag=tag, dry_run=dry_run, as_json=as_json)
        return
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


app.add_typer(batches.app, name="batch")
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
