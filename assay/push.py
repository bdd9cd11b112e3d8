"""`assay push`: publish a run as a dataset on the Hugging Face Hub, or show what would be published.

Results go to standard output, the rest to standard error. `--dry-run` talks to no network: it lists
the files on standard error and prints the card on standard output.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from schemas import hub
from schemas.rundir import RunDir


def _size(number: int) -> str:
    size = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _rows(rows: dict[str, dict[str, int]]) -> str:
    return ", ".join(
        f"{table} " + " + ".join(f"{count:,} {split}" for split, count in splits.items())
        for table, splits in rows.items()
    )


def _dry_run(run: RunDir, repo_id: str, private: bool, tag: str | None, as_json: bool) -> None:
    from assay.session import reasons

    found = hub.contents(run, repo_id, reasons())
    files = [(hub.CARD, len(found.card.encode())), (hub.RECIPE, len(found.recipe.encode()))]
    files += [(file.path, file.size) for file in found.shards]
    if as_json:
        facts = {
            "dry_run": True,
            "repo_id": repo_id,
            "private": private,
            "tag": tag,
            "rows": found.rows,
            "bytes": found.bytes,
            "files": [{"path": path, "bytes": size} for path, size in files],
            "card": found.card,
        }
        print(json.dumps(facts, sort_keys=True))
        return
    for path, size in files:
        print(f"{size:>13,}  {path}", file=sys.stderr)
    print(
        f"{repo_id}: would publish {len(files)} files, {_size(found.bytes)}: {_rows(found.rows)}; "
        "nothing was sent",
        file=sys.stderr,
    )
    print(found.card, end="")


def push_run(
    run_dir: Path, repo_id: str, *, private: bool, tag: str | None, dry_run: bool, as_json: bool
) -> None:
    """Publish a run and print what was done.

    Raises:
        AssayError: see `schemas.hub.publish`.
    """
    hub.check_names(repo_id, tag)
    run = RunDir.open(run_dir)
    if dry_run:
        _dry_run(run, repo_id, private, tag, as_json)
        return
    from huggingface_hub.utils.tqdm import disable_progress_bars

    from assay.session import reasons

    if as_json or not sys.stderr.isatty():
        disable_progress_bars()
    with run.lock():
        result = hub.publish(run, repo_id, private=private, tag=tag, reasons=reasons())
    if as_json:
        print(json.dumps({**dataclasses.asdict(result), "changed": result.changed}, sort_keys=True))
        return
    where = f"{result.url} at {result.commit[:12]}" + (f", tagged {result.tag}" if result.tag else "")
    if not result.changed:
        print(f"nothing changed: {where} already holds {_rows(result.rows)}")
        return
    print(
        f"pushed {len(result.uploaded)} files, {len(result.deleted)} deleted, {result.unchanged} unchanged "
        f"({_size(result.bytes)} in all, read back and compared): {_rows(result.rows)}"
    )
    print(where + (" (private)" if result.private else ""))
