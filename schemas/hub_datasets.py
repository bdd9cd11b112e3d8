"""Publishing a run as a dataset on the Hugging Face Hub.

In: a run directory whose published tables have finished rows, and `owner/name` of the dataset.
Out: a commit there that holds the shards byte for byte, the card and the recipe, and nothing of an
earlier run; see `schemas.hub`. Sidecars stay at home: what they tell is on the card, and the Hub keeps a
digest of each file itself.

All of the run goes up or an `AssayError` of one line tells why not: a shard that is not what its sidecar
says, a stage that was stopped, or what `schemas.hub` cannot do.
"""

from __future__ import annotations

from collections.abc import Mapping

from schemas import shards
from schemas.card import dataset_card, public_recipe, published
from schemas.errors import RunDirError, ShardError
from schemas.hub import (
    CARD,
    Contents,
    Kind,
    PublishedFile,
    PublishResult,
    check_names,
    send,
    staged,
    token_of,
)
from schemas.records import SPLIT_TABLES
from schemas.rundir import SPLITS, RunDir

RECIPE = "recipe.toml"
_STAGING = ".push"

DATASET = Kind(
    "dataset",
    "run",
    tuple(f"{table}/{split}/part-*.parquet" for table in SPLIT_TABLES for split in SPLITS),
    (RECIPE,),
    several=True,
)


def _check_finished(run: RunDir) -> None:
    """Refuse a run whose published tables are made under two configs, or only in part."""
    tables = published(run)
    stages = {part.sidecar.stage for splits in tables.values() for parts in splits.values() for part in parts}
    for stage in sorted(stages):
        try:
            plan = run.read_plan(stage)
            keys = {unit["name"]: unit["key"] for unit in plan["units"]} if plan else {}
            failed = set(plan["failed"]) if plan else set()
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            raise RunDirError(
                f"{run.root}: the plan of stage {stage} is damaged; run `assay {stage}` again"
            ) from None
        if not keys:
            continue
        made = {
            (part.name, part.sidecar.key)
            for table in tables
            for part in run.parts(table)
            if part.sidecar.stage == stage
        }
        left = [name for name, key in keys.items() if name not in failed and (name, key) not in made]
        old = made - set(keys.items())
        if left or old:
            raise RunDirError(
                f"{run.root}: stage {stage} was stopped before it was done ({len(left)} of {len(keys)} "
                f"units left, {len(old)} of old settings); run `assay {stage}` to the end, then push"
            )


def contents(run: RunDir, repo_id: str, reasons: Mapping[str, Mapping[str, str]] | None = None) -> Contents:
    """What a run publishes, each shard compared with its sidecar. Reads every shard once; changes nothing.

    Raises:
        AssayError: nothing to publish, a stage was stopped, a shard is damaged, or the recipe is
            missing or not TOML.
    """
    recipe_path = run.root / RECIPE
    try:
        recipe = recipe_path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunDirError(f"{recipe_path}: cannot be read ({error}); run a stage to write it again") from None
    card = dataset_card(run, repo_id, recipe, reasons)
    _check_finished(run)
    files, rows = [], dict[str, dict[str, int]]()
    for table, splits in published(run).items():
        for split, parts in splits.items():
            rows.setdefault(table, {})[split] = sum(part.sidecar.rows for part in parts)
            for part in parts:
                if not shards.is_whole(part.path, part.sidecar):
                    raise ShardError(
                        f"{part.path}: not the bytes that its sidecar says; "
                        f"run `assay {part.sidecar.stage}` to make it again"
                    )
                place = part.path.relative_to(run.root).as_posix()
                files.append(PublishedFile(place, part.path, part.sidecar.bytes, part.sidecar.sha256))
    texts = {CARD: card, RECIPE: public_recipe(recipe, str(recipe_path))}
    return Contents(DATASET, tuple(files), texts, _title(rows), rows=rows)


def _title(rows: Mapping[str, Mapping[str, int]]) -> str:
    counts = []
    for table, splits in rows.items():
        each = ", ".join(f"{many:,} {split}" for split, many in splits.items())
        counts.append(f"{sum(splits.values()):,} {table} ({each})")
    return "Publish " + ", ".join(counts)


def publish(
    run: RunDir,
    repo_id: str,
    *,
    private: bool,
    tag: str | None,
    token: str | None = None,
    endpoint: str | None = None,
    reasons: Mapping[str, Mapping[str, str]] | None = None,
) -> PublishResult:
    """Make a dataset on the Hub hold what a run published, verify it, and tag it.

    The caller holds the run directory's lock.

    Args:
        run: the run directory.
        repo_id: `owner/name`; the dataset is made when there is none.
        private: make it private. An existing public one is refused, an existing private one stays so.
        tag: name to give the commit; a tag of that name at another commit is an error.
        token: access token; the saved or HF_TOKEN's one when None.
        endpoint: address of the Hub; huggingface_hub's own (HF_ENDPOINT) when None.
        reasons: see `dataset_card`.

    Raises:
        AssayError: see the head of this module, and of `schemas.hub`.
    """
    check_names(repo_id, DATASET, tag)
    secret = token_of(token)
    found = contents(run, repo_id, reasons)
    folder = run.root / _STAGING
    with staged(folder, found) as files:
        return send(found, folder, files, repo_id, private=private, tag=tag, token=secret, endpoint=endpoint)
