"""The command line: one command a stage, the same flags everywhere.

Exit status: 0 done, 1 some units failed (the others are kept), 2 bad input or a machine at fault,
130 interrupted. Results go to standard output, everything else to standard error. Nothing heavy is
imported here: commands import what they need.
"""

import dataclasses
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
from assay.flags import DEFAULT_RUN, Flags, app, command_of, inline


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
from assay import cli_commits, cli_programs  # noqa: E402, F401

AnnotatedEdits = Annotated[
    list[Path] | None,
    typer.Option(
        "--annotated",
        help="For `criteria`: JSONL of edits with their criteria, by commit and path; may be repeated.",
        show_default=False,
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="Folder to write (default: in the run directory)."),
]
DataOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--data",
        help="Parquet shards, or folders of them, to train on instead of the run's table; may be repeated.",
        show_default=False,
    ),
]
DevOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--dev",
        help="Shards, or folders of them, to evaluate on while training; may be repeated.",
        show_default=False,
    ),
]


@command_of(
    "train",
    "Train the model that `train.objective` names on the run's rows, or on shards from anywhere; or the "
    "criterion classifier on the run's edits.",
)
def train(
    flags: Flags,
    what: Annotated[
        Literal["rm", "criteria"],
        typer.Argument(help="The model of `train.objective`, or the criterion classifier."),
    ] = "rm",
    data: DataOption = None,
    dev: DevOption = None,
    preset: Annotated[
        str | None,
        typer.Option(help="Settings of a published model, see `assay presets`; --set changes them."),
    ] = None,
    processes: Annotated[
        int, typer.Option(min=1, help="Processes that train together, one a GPU where there are some.")
    ] = 1,
    resume_changed: Annotated[
        bool,
        typer.Option(
            "--resume-changed", help="Go on from a checkpoint although settings or data differ from its."
        ),
    ] = False,
    backend: Annotated[
        Literal["linear", "encoder"] | None,
        typer.Option(help="For `criteria`: weights of features, or a fine-tuned encoder."),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="For `criteria --backend encoder`: folder or Hub id of the encoder.")
    ] = None,
    annotated: AnnotatedEdits = None,
    out: OutOption = None,
) -> None:
    """Train a model."""
    run_dir = flags.run_dir or DEFAULT_RUN
    if what == "criteria":
        from assay import criteria
        from schemas.errors import AssayError

        if data or dev or preset or resume_changed or processes > 1:
            raise AssayError(
                "--data, --dev, --preset, --processes and --resume-changed do not go with `criteria`"
            )
        chosen = {"backend": backend, "model": encoder}
        named = {name: value for name, value in chosen.items() if value is not None}
        asked = dataclasses.replace(flags, settings=[*inline("criteria", named), *(flags.settings or [])])
        criteria.train(asked, run_dir, annotated or [], out)
        return
    _only_criteria(backend=backend, encoder=encoder, annotated=annotated)
    from assay.models import Asked
    from assay.session import Session

    if preset is not None:
        from assay.presets import settings

        given = inline("train", settings(preset))
        flags = dataclasses.replace(flags, settings=[*given, *(flags.settings or [])])
    beside = Asked(tuple(data or ()), tuple(dev or ()), out, processes, resume_changed)
    # What is trained on may come from elsewhere, and then there need be no run yet.
    with Session(flags, run_dir, create=bool(data)) as session:
        session.train(beside)


def _only_criteria(**given: object) -> None:
    """Refuse flags that mean nothing to a reward model, since whoever gave them meant something."""
    from schemas.errors import AssayError

    for name, value in given.items():
        if value is not None:
            raise AssayError(f"--{name} goes with `criteria`: assay train criteria, or assay eval criteria")


@app.command("presets", help="List training settings of published models, and the hardware they need.")
def list_presets(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output.")
    ] = False,
) -> None:
    """Print the presets."""
    from assay.presets import show

    show(as_json)


ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", help="Folder or Hub id of a reward model (default: the run's).", show_default=False
    ),
]
CriteriaOption = Annotated[
    str | None,
    typer.Option(
        "--criteria",
        help="Codes such as FC,RE for the system prompt of every row, or `none` (default: the row's "
        "`system`, else the prompt of its `aspect`).",
        show_default=False,
    ),
]
BatchOption = Annotated[int, typer.Option(min=1, help="Conversations in one forward pass.")]
LengthOption = Annotated[int, typer.Option(min=0, help="Tokens of a conversation; 0 for the model's own.")]


@command_of(
    "eval",
    "Measure a model: the run's on its test pairs (`rm`), any on files of pairs (`pairs`) or on pairs that "
    "mislead (`robustness`); scores with outcomes (`best-of-k`, `calibration`); how often one of k answers "
    "of a policy passes (`pass-at-k`); or the criterion classifier.",
)
def evaluate(
    flags: Flags,
    what: Annotated[
        Literal["rm", "pairs", "best-of-k", "calibration", "robustness", "pass-at-k", "criteria"],
        typer.Argument(help="What is measured."),
    ] = "rm",
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="For `pairs` and `robustness`: Parquet or JSON of pairs; for `best-of-k` and `calibration`: "
            "of scores with outcomes; for `pass-at-k`: of samples with outcomes (default: the run's).",
            show_default=False,
        ),
    ] = None,
    model: ModelOption = None,
    criteria: CriteriaOption = None,
    layout: Annotated[
        Literal["auto", "pairs", "rewardbench", "rewardbench2", "rm-bench"],
        typer.Option(help="For `pairs`: how the files are laid out."),
    ] = "auto",
    batch_size: BatchOption = 16,
    max_length: LengthOption = 0,
    ks: Annotated[
        str,
        typer.Option(
            "--k", help="For `best-of-k`, `pass-at-k`: numbers such as 1,4,16 (default: powers of two)."
        ),
    ] = "",
    scores: Annotated[
        Literal["logit", "probability"], typer.Option(help="For `calibration`: what a score is.")
    ] = "logit",
    bins: Annotated[int, typer.Option(min=1, max=1000, help="For `calibration`: bins of its errors.")] = 10,
    dev: Annotated[
        list[Path] | None,
        typer.Option(
            help="For `calibration`: scores to fit a temperature on; may be repeated.", show_default=False
        ),
    ] = None,
    before: Annotated[
        list[Path] | None,
        typer.Option(
            help="For `calibration`: earlier scores of the same rows; may be repeated.", show_default=False
        ),
    ] = None,
    problems: Annotated[
        list[str] | None,
        typer.Option(
            help="For `pass-at-k --model`: problems to solve, as `assay problems` reads them (default: the "
            "run's); may be repeated.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="For `pass-at-k`: count only samples of this policy; may be repeated.", show_default=False
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=1, help="For `pass-at-k --model`: answers to each problem.")
    ] = 10,
    temperature: Annotated[float, typer.Option(help="For `pass-at-k --model`: of sampling.")] = 0.8,
    top_p: Annotated[float, typer.Option(help="For `pass-at-k --model`: of sampling.")] = 0.95,
    max_new_tokens: Annotated[
        int, typer.Option(min=1, help="For `pass-at-k --model`: most tokens of an answer.")
    ] = 1024,
    prompt: Annotated[
        Literal["auto", "statement", "skeleton"],
        typer.Option(
            help="For `pass-at-k --model`: ask by the statement, or by the reference's skeleton "
            "(default: skeleton for the run's problems, statement for files)."
        ),
    ] = "auto",
    annotated: AnnotatedEdits = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write (default: in the run directory).")
    ] = None,
) -> None:
    """Evaluate a model."""
    run_dir = flags.run_dir or DEFAULT_RUN
    if what == "criteria":
        from assay import criteria as classifier

        classifier.evaluate(flags, run_dir, annotated or [], out)
        return
    if what != "rm":
        from assay import scoring

        _only_criteria(annotated=annotated)
        given = scoring.Given(
            files=tuple(files or ()),
            model=model,
            out=out,
            criteria=criteria,
            batch_size=batch_size,
            max_length=max_length,
            layout=layout,
            scores=scores,
            ks=ks,
            bins=bins,
            dev=tuple(dev or ()),
            before=tuple(before or ()),
        )
        if what == "pass-at-k":
            from assay import passing

            wanted = passing.Wanted(
                problems=tuple(problems or ()),
                policies=tuple(policy or ()),
                samples=samples,
                temperature=temperature,
                top_p=top_p,
                max_new_tokens=max_new_tokens,
                prompt=prompt,
            )
            passing.evaluate(flags, run_dir, given, wanted)
            return
        scoring.evaluate(what, flags, run_dir, given)
        return
    _only_criteria(annotated=annotated, out=out)
    for name, value in (("files", files), ("--model", model), ("--criteria", criteria)):
        if value is not None:
            from schemas.errors import AssayError

            raise AssayError(f"{name} go with `pairs`: assay eval pairs FILE... --model FOLDER")
    from assay.session import Session

    with Session(flags, run_dir, create=False) as session:
        session.evaluate()


@command_of("score", "Score prompts with responses: Parquet or JSON in, Parquet out, in parts that resume.")
def score(
    flags: Flags,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Parquet or JSON with `prompt` (or `input`, `messages`) and `response` (or `completion`), "
            "or `chosen` and `rejected`.",
            show_default=False,
        ),
    ] = None,
    model: ModelOption = None,
    criteria: CriteriaOption = None,
    batch_size: BatchOption = 16,
    max_length: LengthOption = 0,
    part_rows: Annotated[int, typer.Option(min=1, help="Rows of a part.")] = 1000,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write (default: in the run directory).")
    ] = None,
) -> None:
    """Score files."""
    from assay import scoring

    given = scoring.Given(
        files=tuple(files or ()),
        model=model,
        out=out,
        criteria=criteria,
        batch_size=batch_size,
        max_length=max_length,
        part_rows=part_rows,
    )
    scoring.score(flags, flags.run_dir or DEFAULT_RUN, given)


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
