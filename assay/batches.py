"""`assay batch`: what a stage collected for batches is sent, looked after, and answered.

In: a run directory whose stage ended with requests that wait. Out: a line a file on standard error, a summary
on standard output, or one JSON object with --json. Exit status: 0 done; 2 a server, a budget or a file at
fault. Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.flags import DEFAULT_RUN

if TYPE_CHECKING:
    from labelers.llm.batch_answers import Read
    from labelers.llm.batch_run import Place

app = typer.Typer(
    help="Send the requests that a stage with batch=true collected, and get their answers.\n\n"
    "When all are answered, run the stage again: it goes on from the answers.",
    no_args_is_help=True,
)

RunDirOption = Annotated[Path, typer.Option("--run-dir", help="Folder of the run.")]
BaseUrl = Annotated[str, typer.Option(help="Server to talk to, if not the one that the run named.")]
KeyEnv = Annotated[
    str, typer.Option("--api-key-env", help="Environment variable with its key, if not the run's.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


@app.command(
    "send",
    help="Send the files that wait, as far as the budget allows.\n\nIf it is killed, run it again: it looks "
    "for what it had begun, and sends nothing twice.",
)
def send(
    run_dir: RunDirOption = DEFAULT_RUN,
    budget: Annotated[
        float | None,
        typer.Option(min=0, help="Most that all answers of the run may cost, in US dollars; 0 for no bound."),
    ] = None,
    resend: Annotated[
        bool,
        typer.Option(
            "--resend",
            help="Send again what was cut off at a server that does not list its batches. "
            "It may be paid twice.",
        ),
    ] = False,
    base_url: BaseUrl = "",
    api_key_env: KeyEnv = "",
    as_json: JsonFlag = False,
) -> None:
    """Send what waits."""
    from labelers.llm import batch_run

    sent = batch_run.send(run_dir, _tell, _place(base_url, api_key_env), budget, resend)
    told = f"sent: {sent:,} request{'' if sent == 1 else 's'}" if sent else "nothing waits to be sent"
    _out(as_json, {"sent": sent}, told)


@app.command("status", help="Say what becomes of the batch files of a run. Asks no server.")
def status(run_dir: RunDirOption = DEFAULT_RUN, as_json: JsonFlag = False) -> None:
    """List all files."""
    from labelers.llm import batch_run

    rows = batch_run.rows(run_dir)
    lines = [
        f"{row.file}: {row.state}, {row.waiting:,} of {row.requests:,} requests wait"
        + (f", ${row.held_usd:.4f} set aside" if row.held_usd else "")
        + (f", {row.batch}" if row.batch else "")
        + (f": {row.told}" if row.told else "")
        for row in rows
    ]
    facts = [{**dataclasses.asdict(row), "file": str(row.file)} for row in rows]
    _out(as_json, {"files": facts}, "\n".join(lines) or "no batch files")


@app.command(
    "fetch",
    help="Get the answers of batches that have ended. Requests that expired, or that the server could not "
    "answer, wait for the next batch.",
)
def fetch(
    run_dir: RunDirOption = DEFAULT_RUN,
    wait: Annotated[bool, typer.Option("--wait", help="Look again until all batches have ended.")] = False,
    give_up: Annotated[
        bool,
        typer.Option(
            "--give-up", help="Let requests of batches that the server no longer knows wait for the next one."
        ),
    ] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 60.0,
    base_url: BaseUrl = "",
    api_key_env: KeyEnv = "",
    as_json: JsonFlag = False,
) -> None:
    """Fetch answers."""
    from labelers.llm import batch_run

    place = _place(base_url, api_key_env)
    read, left = batch_run.fetch(run_dir, _tell, place, every if wait else None, give_up)
    told = f"read: {read.line()}" + (f"; {left} still under way" if left else "")
    _out(as_json, {**_facts(read), "under_way": left}, told)


@app.command(
    "read",
    help="Read output files that were made elsewhere of a run's batch files, such as by `vllm run_batch`.",
)
def read(
    files: Annotated[list[Path], typer.Argument(help="Output or error files, JSONL.", show_default=False)],
    run_dir: RunDirOption = DEFAULT_RUN,
    as_json: JsonFlag = False,
) -> None:
    """Read answers."""
    from labelers.llm import batch_run

    found = batch_run.read(run_dir, files)
    _out(as_json, _facts(found), f"read: {found.line()}")


def _place(base_url: str, api_key_env: str) -> Place:
    from labelers.llm.batch_run import Place
    from labelers.llm.config import ModelConfig
    from schemas.errors import AssayError

    try:
        ModelConfig(base_url=base_url, api_key_env=api_key_env)
    except ValueError as error:
        raise AssayError(str(error)) from None
    return Place(base_url, api_key_env)


def _facts(read: Read) -> dict[str, Any]:
    return {"lines": dict(read.counts), "again": dict(read.reasons), "cost_usd": read.cost_usd}


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _out(as_json: bool, facts: dict[str, Any], told: str) -> None:
    print(json.dumps(facts, sort_keys=True) if as_json else told)
