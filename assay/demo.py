"""`assay demo`: every stage on one repository and the example problems, then model and report."""

from __future__ import annotations

import dataclasses
import sysconfig
import time
from pathlib import Path

from assay.flags import Flags
from assay.recipe import Recipe
from assay.session import Session, make_report
from schemas.errors import AssayError

STAGES = (
    "repositories",
    "mine",
    "select",
    "dedup",
    "decontaminate",
    "label",
    "split",
    "cut",
    "evidence",
    "vote",
    "instruct",
    "build",
    "problems",
    "decompose",
    "tests",
    "sample",
    "verify",
    "synthesize",
)
"""In the order in which data flows."""


def demo_recipe(own_problems: bool) -> Recipe:
    """The defaults, but for what one small repository and a few problems need: splits by file, since
    one repository cannot stand in two splits, and parts small enough to keep two cores busy.

    `own_problems`: the problems are the examples of assay, whose licence is known.
    """
    recipe = Recipe()
    return dataclasses.replace(
        recipe,
        split=dataclasses.replace(recipe.split, by="file", test_share=0.25),
        importing=dataclasses.replace(
            recipe.importing, rows_per_part=4, license="Apache-2.0" if own_problems else ""
        ),
    )


def example_problems() -> Path:
    """The problem file that comes with assay: in its checkout, or where a wheel puts its data.

    Raises:
        AssayError: assay was installed without it.
    """
    places = (Path(__file__).parent.parent / "examples", Path(sysconfig.get_path("data")) / "share" / "assay")
    for place in places:
        if (path := place / "problems.jsonl").exists():
            return path
    raise AssayError("the example problems are not installed; give a problem file with --problems")


def run_demo(flags: Flags, repo: Path, problems: Path | None) -> None:
    """Run the demo; prints where everything is."""
    began = time.monotonic()
    start = demo_recipe(own_problems=problems is None)
    problems = problems or example_problems()
    # A folder's name need not be UTF-8, a run's must.
    name = repo.resolve().name.removesuffix(".git").encode("utf-8", "replace").decode()
    root = flags.run_dir or Path("runs") / f"demo-{name or 'repo'}"
    sources = {"repos": [repo], "problems": [problems]}
    with Session(flags, root, create=True, sources=sources, start=start) as session:
        session.stages(STAGES)
        if session.failed:
            return
        if not flags.dry_run and not any(part.sidecar.rows for part in session.run.parts("pairs")):
            session.tell(
                f"demo: no usable commit in {repo}: {_why(session)}. "
                "The shards are valid and empty, and there is no model to train."
            )
        else:
            session.train()
            session.evaluate()
        if flags.dry_run:
            return
        page = make_report(session.run)
        session.results.append({"stage": "report", "page": str(page)})
        session.tell(_where(session, page, time.monotonic() - began))


def _why(session: Session) -> str:
    """The most common reasons for which commits and edits were dropped."""
    drops: dict[str, int] = {}
    for result in session.results:
        if result["stage"] in ("mine", "select", "label", "split", "build"):
            for reason, count in result["drops"].items():
                drops[reason] = drops.get(reason, 0) + count
    worst = sorted(drops.items(), key=lambda item: (-item[1], item[0]))[:4]
    return ", ".join(f"{count:,} {reason}" for reason, count in worst) or "nothing was considered"


def _where(session: Session, page: Path, seconds: float) -> str:
    """The closing lines: what was made and where it lies."""
    run = session.run
    lines = [f"\nDone in {seconds:.1f} s. Everything is in {run.root}:"]
    for table in (
        "edits",
        "verdicts",
        "labels",
        "splits",
        "excerpts",
        "evidence",
        "votes",
        "instructions",
        "pairs",
        "problems",
        "programs",
        "tests",
        "candidates",
        "steps",
        "synthetic",
    ):
        rows = sum(part.sidecar.rows for part in run.parts(table))
        lines.append(f"  {table + '/':13}{rows:>9,} rows")
    model = run.root / "models"
    if model.exists():
        lines.append("  models/rm/    the reward model, and its evaluation in eval/")
    lines.append(f"Open the report: {page}")
    return "\n".join(lines)
