"""The commands that look at git histories: what is known of repositories, and their edits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from assay.flags import DEFAULT_RUN, Flags
from assay.session import Session


@dataclasses.dataclass(frozen=True)
class Histories:
    """What the command line names: repositories, files with metadata, and whether forges are asked."""

    repos: Sequence[str] = ()
    metadata: Sequence[Path] = ()
    forge: bool = False
    forge_url: str | None = None

    def settings(self) -> list[str]:
        """The settings that these flags stand for."""
        settings = ["repositories.forge=true"] if self.forge or self.forge_url else []
        return [*settings, *([f"repositories.forge_url={self.forge_url}"] if self.forge_url else [])]


def mine(flags: Flags, given: Histories, stages: Sequence[str]) -> None:
    """Run stages that read histories, and say what is not known of the repositories."""
    flags = dataclasses.replace(flags, settings=[*given.settings(), *(flags.settings or [])])
    sources: dict[str, Sequence[Path | str]] = {"repos": given.repos, "metadata": given.metadata}
    with Session(flags, flags.run_dir or DEFAULT_RUN, create=True, sources=sources) as session:
        ask_forges(session)
        session.stages(stages)
        tell_unknown(session)


def ask_forges(session: Session) -> None:
    """Ask the forges of the run's repositories, when the recipe wants that; tell what was not answered."""
    from miner import facts

    recipe = session.recipe
    if not recipe.repositories.forge or session.flags.dry_run:
        return
    store = session.run.root / facts.STORE
    sources = recipe.sources
    for line in facts.ask_forges(recipe.repositories, sources.repos, sources.metadata, store, recipe.fetch):
        session.tell(line)


def tell_unknown(session: Session) -> None:
    """Say which rows of metadata were bad, which names are ambiguous, and of how many repositories stars or
    issues are not known."""
    from miner import facts

    if session.flags.dry_run:
        return
    sources = session.recipe.sources
    for line in facts.bad_rows(facts.read_files(sources.repos, sources.metadata, session.recipe.fetch)):
        session.tell(line)
    rows = list(session.run.rows("repositories", columns=["repo", "roots", "stars", "issues"]))
    for line in facts.same_names(rows):
        session.tell(f"repositories: {line}")
    if unknown := facts.unknown(rows):
        session.tell(f"repositories: {unknown}; --metadata FILE or --forge tells them")
