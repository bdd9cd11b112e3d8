"""Files and datasets as they are given become units: what importers of published sets plan alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from miner.importers.hub import HubSource, is_hub, parse_hub
from miner.importers.units import refuse_twice, unique_slugs
from schemas.errors import AssayError
from schemas.stage import Unit

Source = Path | HubSource


def plan_sources(
    given: Sequence[str | Path],
    limit: int | None,
    plan: Callable[[Source, str, int | None], list[Unit]],
    what: str,
) -> list[Unit]:
    """Plan the import of files and datasets, in the order given; `limit` bounds all rows together.

    Args:
        plan: units of one source, from its slug and the rows that are left.
        what: what the rows are, for a person.

    Raises:
        AssayError: nothing given, a file twice, no known form of a dataset's name, or as `plan` says.
    """
    if not given:
        raise AssayError(f"import: no file; give a .jsonl, .jsonl.gz, .json or .parquet file of {what}")
    sources = [parse_hub(str(one)) if is_hub(one) else Path(one) for one in given]
    refuse_twice([one for one in sources if isinstance(one, Path)])
    units: list[Unit] = []
    for source, slug in zip(sources, unique_slugs([one.name for one in sources]), strict=True):
        left = None if limit is None else limit - sum(unit.rows for unit in units)
        if left is not None and left <= 0:
            break
        units += plan(source, slug, left)
    return units
