"""`assay pull`: bring a published dataset back into a run directory, verified file by file.

Results go to standard output, the rest to standard error: what the dataset does not tell, and what of its
recipe a person ought to look at before going on.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from schemas import hub_pull
from schemas.card_text import UNSEEN
from schemas.errors import AssayError
from schemas.rundir import RunDir


def _visible(text: str) -> str:
    """A stranger's text in one line, with what a terminal would obey written out."""
    return UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", " ".join(text.split()))


def _notes(run: RunDir) -> list[str]:
    """What a stranger's recipe would make later commands do, or cannot."""
    from assay.recipe import Recipe

    path = run.root / "recipe.toml"
    notes = []
    try:
        Recipe.load(path)
    except AssayError as error:
        notes.append(_visible(f"{error}; commands on this run want another --recipe"))
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return notes
    judges = tables.get("judges")
    named = [tables.get("model"), tables.get("policy"), *(judges if isinstance(judges, list) else [])]
    servers = {str(one["base_url"]) for one in named if isinstance(one, dict) and one.get("base_url")}
    if servers:
        shown = ", ".join(one[:100] for one in sorted(servers))
        notes.append(
            _visible(f"its recipe names model servers, which stages that ask a model would talk to: {shown}")
        )
    return notes


def pull_run(repo_id: str, run_dir: Path, revision: str | None, as_json: bool) -> None:
    """Pull a dataset and print what was done.

    Raises:
        AssayError: see `schemas.hub_pull`.
    """
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if as_json or not sys.stderr.isatty():
        disable_progress_bars()
    # Asked before a run directory is made, so that a name that is wrong leaves nothing behind.
    found = hub_pull.listing(repo_id, revision)
    run = RunDir.open(run_dir, create=True)
    with run.lock():
        result = hub_pull.bring(run, found)
    notes = _notes(run)
    for note in notes:
        print(f"pull: {note}", file=sys.stderr)
    if as_json:
        facts = {**dataclasses.asdict(result), "unknown": hub_pull.UNKNOWN, "notes": notes}
        print(json.dumps(facts, sort_keys=True))
        return
    what = ", ".join(
        f"{table} " + " + ".join(f"{many:,} {split}" for split, many in splits.items())
        for table, splits in result.rows.items()
    )
    where = f"{result.url} at {result.commit[:12]}"
    if not result.downloaded:
        print(f"nothing to pull: {run.root} already holds {what} of {where}")
        return
    print(
        f"pulled {len(result.downloaded)} files, {result.unchanged} in place already ({result.bytes:,} bytes "
        f"in all, every digest as the Hub says): {what}"
    )
    print(f"{where} -> {run.root}")
    if result.others:
        print(f"pull: {result.others} files there are not assay's and were left", file=sys.stderr)
    print(f"pull: a dataset does not tell {'; '.join(hub_pull.UNKNOWN)}", file=sys.stderr)
