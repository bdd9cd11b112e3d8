"""Commands about whole runs: comparing two, and bringing a published one back.

Nothing heavy is imported here: commands import what they need.
"""

from pathlib import Path
from typing import Annotated

import typer

from assay.flags import app

_RunArgument = Annotated[Path, typer.Argument(help="Folder of a run.", show_default=False)]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


@app.command("diff", help="Compare two runs: rows lost, gained, changed and relabelled, and why.")
def diff(
    run_a: _RunArgument,
    run_b: _RunArgument,
    table: Annotated[str | None, typer.Option(help="Compare this table only.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows of each kind that are told one by one.")] = 3,
    as_json: _Json = False,
) -> None:
    """Compare two runs."""
    from assay.diff import show

    show(run_a, run_b, table, limit, as_json)


@app.command("pull", help="Bring a dataset that was pushed back into a run directory, and verify it.")
def pull(
    repo_id: Annotated[str, typer.Argument(help="Dataset on the Hub: owner/name.", show_default=False)],
    run_dir: Annotated[Path, typer.Option(help="Folder of the run, new or with these rows.")],
    revision: Annotated[
        str | None, typer.Option(help="Tag, branch or commit (default: the newest).", show_default=False)
    ] = None,
    as_json: _Json = False,
) -> None:
    """Pull a dataset."""
    from assay.pull import pull_run

    pull_run(repo_id, run_dir, revision, as_json)
