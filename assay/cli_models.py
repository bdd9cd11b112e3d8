"""The commands that train models, measure them and score with them; exit status and output as in `assay.cli`.

Nothing heavy is imported here: commands import what they need.
"""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import typer

from assay.flags import DEFAULT_RUN, Flags, app, command_of, inline

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
    # What is trained on may come from elsewhere, and then there need be no run yet, or none at all: settings
    # that another command left at the default place are not meant.
    passing = bool(data) and out is not None and flags.run_dir is None
    with Session(flags, run_dir, create=bool(data), passing=passing) as session:
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
        "--model",
        help="Folder or Hub id of a model, or `rm`, `policy`, `verifier` for the run's (default: its `rm`).",
        show_default=False,
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
    "Measure a model: the run's on its test rows (`rm`), any on files of pairs (`pairs`) or on pairs that "
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
            "or `chosen` and `rejected`; for a verifier trajectories, with `messages` and `patch`.",
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
