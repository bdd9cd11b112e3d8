"""`assay push`: publish a run's rows, or a trained model, on the Hugging Face Hub, or show what would be.

Results go to standard output, the rest to standard error. `--dry-run` talks to no network: it lists
the files on standard error and prints the card on standard output.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from schemas import hub, hub_datasets, hub_models
from schemas.errors import AssayError
from schemas.rundir import RunDir


def _size(number: int) -> str:
    size = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _what(found: hub.Contents | hub.PublishResult) -> str:
    """The rows, or the model, in a few words."""
    if found.model:
        return f"{found.model['objective']} model of {found.model['parameters']:,} parameters"
    return ", ".join(
        f"{table} " + " + ".join(f"{count:,} {split}" for split, count in splits.items())
        for table, splits in found.rows.items()
    )


def _facts(found: hub.Contents | hub.PublishResult) -> dict[str, object]:
    return {"model": found.model} if found.model else {"rows": found.rows}


def _dry_run(
    found: hub.Contents, repo_id: str, private: bool, tag: str | None, as_json: bool, left_out: Sequence[str]
) -> None:
    if as_json:
        facts = {
            "dry_run": True,
            "repo_id": repo_id,
            "private": private,
            "tag": tag,
            **_facts(found),
            "bytes": found.bytes,
            "files": [{"path": path, "bytes": size} for path, size in found.sizes.items()],
            "card": found.card,
            **({"left_out": left_out} if found.model else {}),
        }
        print(json.dumps(facts, sort_keys=True))
        return
    for path, size in found.sizes.items():
        print(f"{size:>13,}  {path}", file=sys.stderr)
    for path in left_out:
        print(f"{'stays here':>13}  {path}", file=sys.stderr)
    print(
        f"{repo_id}: would publish {len(found.sizes)} files, {_size(found.bytes)}: {_what(found)}; "
        "nothing was sent",
        file=sys.stderr,
    )
    print(found.card, end="")


def _tell(result: hub.PublishResult, as_json: bool) -> None:
    if as_json:
        facts = {name: value for name, value in dataclasses.asdict(result).items() if name != "model"}
        if result.model:
            del facts["rows"]
        print(json.dumps({**facts, **_facts(result), "changed": result.changed}, sort_keys=True))
        return
    where = f"{result.url} at {result.commit[:12]}" + (f", tagged {result.tag}" if result.tag else "")
    if not result.changed:
        print(f"nothing changed: {where} already holds {_what(result)}")
        return
    print(
        f"pushed {len(result.uploaded)} files, {len(result.deleted)} deleted, {result.unchanged} unchanged "
        f"({_size(result.bytes)} in all, read back and compared): {_what(result)}"
    )
    print(where + (" (private)" if result.private else ""))


def _quieten(as_json: bool) -> None:
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if as_json or not sys.stderr.isatty():
        disable_progress_bars()


def push_run(
    run_dir: Path, repo_id: str, *, private: bool, tag: str | None, dry_run: bool, as_json: bool
) -> None:
    """Publish a run and print what was done.

    Raises:
        AssayError: see `schemas.hub_datasets`.
    """
    from assay.session import reasons

    hub.check_names(repo_id, hub_datasets.DATASET, tag)
    run = RunDir.open(run_dir)
    if dry_run:
        found = hub_datasets.contents(run, repo_id, reasons())
        _dry_run(found, repo_id, private, tag, as_json, ())
        return
    _quieten(as_json)
    with run.lock():
        result = hub_datasets.publish(run, repo_id, private=private, tag=tag, reasons=reasons())
    _tell(result, as_json)


def push_model(
    model: str, run_dir: Path, repo_id: str, *, private: bool, tag: str | None, dry_run: bool, as_json: bool
) -> None:
    """Publish a model and print what was done.

    Args:
        model: name of one of the run's models, which wins, or a model's folder.
        run_dir: the run's, which need not be there for a folder.
        repo_id: `owner/name`.
        private: see `schemas.hub_models.publish`.
        tag: likewise.
        dry_run: only show what would be published.
        as_json: print one JSON object.

    Raises:
        AssayError: see `schemas.hub_models`.
    """
    from assay.models import NAMES

    hub.check_names(repo_id, hub_models.MODEL, tag)
    run = RunDir.open(run_dir) if model in NAMES else None
    folder = run.root / "models" / model if run else Path(model)
    if not folder.is_dir():
        fix = "run `assay train` first" if run else f"give a folder, or one of {', '.join(NAMES)}"
        raise AssayError(f"{folder}: no such model folder; {fix}")
    if dry_run:
        found = hub_models.contents(folder.resolve())
        _dry_run(found, repo_id, private, tag, as_json, hub_models.left_out(folder))
        return
    _quieten(as_json)
    with run.lock() if run else contextlib.nullcontext():
        result = hub_models.publish(folder, repo_id, private=private, tag=tag)
    _tell(result, as_json)
