"""One invocation of the command line on one run directory.

A `Session` opens and locks the directory, resolves the recipe, keeps one `Runner` over the stages
it is asked for, and at the end prints the results as JSON when asked and sets the exit status.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import typer

from assay import models
from assay.costs import expected, in_words
from assay.flags import Flags
from assay.progress import Observer, observer
from assay.recipe import Recipe
from assay.runner import Runner, StageResult
from assay.stages import STAGES, Stage, code_digest, units
from assay.status import amount
from schemas import shards
from schemas.errors import AssayError, RunDirError
from schemas.ids import task_key
from schemas.records import SPLIT_TABLES
from schemas.rundir import RunDir
from schemas.stage import all_outputs

SOURCES_OF = {
    "repositories": ("repos", "metadata"),
    "mine": ("repos",),
    "problems": ("problems",),
    "preferences": ("preferences",),
    "trajectories": ("trajectories",),
}
"""Stage -> the entries of the recipe's `[sources]` that it reads."""

FILES_OF = {
    "decontaminate": (("decontaminate", "benchmarks"),),
    "label": (("label", "criteria_file"),),
    **dict.fromkeys(("evidence", "vote", "instruct", "build", "synthesize"), (("label", "criteria_file"),)),
}
"""Stage -> the settings that name files and that its planning reads."""


def _base(flags: Flags, saved: Path, start: Recipe | None) -> Recipe:
    """The recipe that a command starts from: a file's, else the run's own, else `start`."""
    if flags.recipe is not None:
        return Recipe.load(flags.recipe)
    return Recipe.load(saved) if saved.exists() else start or Recipe()


def _resolved(recipe: Recipe, flags: Flags, sources: Mapping[str, Sequence[Path | str]]) -> Recipe:
    """A recipe with the command line's sources and flags."""
    given = dataclasses.asdict(recipe.sources)
    for name, paths in sources.items():
        # A run may gather several sources, one command after the other.
        old = () if flags.clean and paths else given[name]
        given[name] = tuple(dict.fromkeys((*old, *(str(path) for path in paths))))
    recipe = dataclasses.replace(recipe, sources=type(recipe.sources)(**given))
    if flags.seed is not None:
        recipe = dataclasses.replace(
            recipe, seed=flags.seed, train=dataclasses.replace(recipe.train, seed=flags.seed)
        )
    return recipe.override(flags.settings or [])


class Session:
    """Use as a context manager; `results` gathers what the stages did."""

    def __init__(
        self,
        flags: Flags,
        root: Path,
        create: bool,
        sources: Mapping[str, Sequence[Path | str]] | None = None,
        start: Recipe | None = None,
        *,
        passing: bool = False,
    ) -> None:
        """
        Args:
            flags: what the command line said.
            root: the run directory.
            create: whether to make it where there is none.
            sources: of the recipe, to be added.
            start: the recipe of a run that has none.
            passing: whether the command needs no run: one is made aside, and removed at the end.
        """
        self.flags = flags
        self.view: Observer = observer(flags.as_json)
        self.results: list[dict[str, Any]] = []
        self.failed = False
        self.root = root
        self.runner = Runner(flags.workers)
        self._create, self._sources, self._start = create, sources or {}, start
        self._stack = ExitStack()
        self._ahead: tuple[str, ...] = ()
        self._dry, self._passing = flags.dry_run, passing

    def __enter__(self) -> Session:
        with ExitStack() as opened:
            self._open(opened)
            self._stack = opened.pop_all()
        return self

    def _open(self, opened: ExitStack) -> None:
        root = self.root
        if self._passing or (self._dry and self._create and not (root / "run.json").exists()):
            # A dry run leaves no trace, so a run that is not there yet is planned in a throw-away one.
            import tempfile

            root = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="assay-run-"))) / "run"
        self.run = RunDir.open(root, create=self._create)
        if not self._dry:
            # Taken before the recipe is read: of two commands at once neither may lose what the other set.
            opened.enter_context(self.run.lock())
        base = _base(self.flags, self.run.root / "recipe.toml", self._start)
        self._base = base
        self._sources_saved = base.sources
        self.recipe = _resolved(base, self.flags, self._sources)
        if not self._dry:
            opened.callback(self._sweep)
            opened.enter_context(self.runner)

    def _sweep(self) -> None:
        """Remove what workers that were stopped had half written: a full disk needs the room now."""
        for left in self.run.root.rglob(".*.tmp"):
            left.unlink(missing_ok=True)

    def _save(self, stage: str) -> None:
        """Keep the recipe that a stage was planned with; a file that cannot be read must not stay in it.

        So what names files is kept as it was until the stages ahead that read it are planned.
        """
        kept = {source: getattr(self.recipe.sources, source) for source in SOURCES_OF.get(stage, ())}
        self._sources_saved = dataclasses.replace(self._sources_saved, **kept)
        kept_recipe = dataclasses.replace(self.recipe, sources=self._sources_saved)
        for table, field in {one for ahead in self._ahead for one in FILES_OF.get(ahead, ())}:
            before = getattr(getattr(self._base, table), field)
            settings = dataclasses.replace(getattr(kept_recipe, table), **{field: before})
            kept_recipe = dataclasses.replace(kept_recipe, **{table: settings})
        text = kept_recipe.to_toml()
        saved = self.run.root / "recipe.toml"
        if not saved.exists() or saved.read_text("utf-8") != text:
            shards.write_text(saved, text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        if kind is None:
            if self.flags.as_json:
                run_dir = None if self._passing else str(self.root)
                print(json.dumps({"run_dir": run_dir, "stages": self.results}, sort_keys=True))
            if self.failed:
                raise typer.Exit(1)

    def tell(self, text: str) -> None:
        """A line for a person, on standard error; nothing under `--json`."""
        if not self.flags.as_json:
            print(text, file=sys.stderr, flush=True)

    def stages(self, names: Iterable[str]) -> list[StageResult]:
        """Run stages one after the other; stop after one that failed in part, since the next would read it.

        Under `--dry-run` a stage is planned and its plan told. A stage that wants a model is left out where
        there is none, but for a command that is about it alone.

        Raises:
            AssayError: the one stage wants what the recipe does not have.
        """
        done = []
        names = tuple(names)
        missing = {name: why for name in names if (why := self._lacks(name)) is not None}
        if len(names) == len(missing):
            raise AssayError(f"{names[0]} needs {missing[names[0]]}")
        names = tuple(name for name in names if name not in missing)
        if not self._dry and any("repos" in SOURCES_OF.get(name, ()) for name in names):
            self._fetch()
        for position, name in enumerate(names):
            self._ahead = names[position + 1 :]
            result = self._stage(name)
            if result is None:
                continue
            done.append(result)
            self.results.append(dataclasses.asdict(result))
            if (counted := result.counted()) is not None:
                self.tell(counted)
            self._tell_calls(STAGES[name])
            if (tell := STAGES[name].facts) is not None and not result.failed:
                facts = tell(self.run, self.recipe)
                if (said := facts.pop("line")) is not None:
                    self.tell(said)
                if facts:
                    self.results[-1]["facts"] = facts
            if result.failed:
                self.failed = True
                self.tell(f"assay: {name} failed in part; mend that and run the same command again")
                break
        return done

    def _lacks(self, name: str) -> str | None:
        """What a stage wants and the recipe has not; None where it can run."""
        wants = STAGES[name].wants
        return None if wants is None else wants(self.recipe)

    def _tell_calls(self, stage: Stage) -> None:
        """What models have been asked for this run so far, after a stage that may ask one."""
        path = self.run.root / "calls.sqlite"
        model, each = (None, 0) if stage.asks is None else stage.asks(self.recipe)
        asked = stage.requests is not None or (model is not None and model.enabled and each)
        if not asked or not path.exists():
            return
        from labelers.llm.store import totals

        told = totals(path)
        self.results[-1]["model_calls"] = told
        failed = f", {told['failed']:,} without an answer" if told["failed"] else ""
        self.tell(
            f"{stage.name}: {told['calls']:,} answers of models in this run so far{failed}; "
            f"{told['tokens_in']:,} tokens in, {told['tokens_out']:,} out, "
            f"${told['cost_usd'] + told['lost_usd']:,.4f}"
        )

    def _fetch(self) -> None:
        """Bring repositories given as URLs into the cache; one that cannot be fetched holds up no other.

        Raises:
            AssayError: a URL is bad, or the only source cannot be fetched.
        """
        from miner import remote
        from miner.network import NetworkError
        from miner.sources import check_url, is_url

        given = self.recipe.sources.repos
        urls = [check_url(one) for one in given if is_url(one)]
        if urls and not self.recipe.fetch.update:
            self.tell(
                "no server is asked for what is new (fetch.update=false); what was fetched before is mined"
            )
        try:
            for url in urls:
                try:
                    remote.update(url, self.recipe.fetch, self.recipe.mine, self.view.note)
                except NetworkError as error:
                    if len(given) == 1:
                        raise
                    self.failed = True
                    self.view.trouble(f"{error}; what was fetched before, if anything, is mined")
        finally:
            if urls:
                self.view.closed()

    def _stage(self, name: str) -> StageResult | None:
        stage = STAGES[name]
        if self._dry:
            self._plan(name)
            return None
        planned = units(stage, self.run, self.recipe, self.flags.limit)
        self._check_recordings(stage)
        self._save(name)
        if self.flags.clean:
            self.run.retire(name, stage.outputs, ())
        return self.runner.run(stage, self.run, self.recipe, planned, self.view)

    def _check_recordings(self, stage: Stage) -> None:
        """A recording that cannot be read must not get into the run's recipe: all later commands would fail.

        Raises:
            ModelFault: one of a model that the stage asks cannot be read.
        """
        asked = [*self.recipe.voting, self.recipe.model] if stage.requests is not None else []
        if stage.asks is not None:
            asked.append(stage.asks(self.recipe)[0])
        for path in dict.fromkeys(model.replay for model in asked if model.replay):
            from labelers.llm.backends.replay import Recording

            Recording(Path(path)).close()

    def _plan(self, name: str) -> None:
        stage = STAGES[name]
        self._check_recordings(stage)
        try:
            planned = units(stage, self.run, self.recipe, self.flags.limit)
        except RunDirError as error:
            why = str(error).replace(str(self.run.root), str(self.root))
            self.results.append({"stage": name, "planned": None, "why": why})
            self.tell(f"{name}: cannot be planned yet ({why})")
            return
        done = [] if self.flags.clean else [u for u in planned if self.run.is_done(name, stage.outputs, u)]
        rows = sum(unit.rows for unit in planned) - sum(unit.rows for unit in done)
        facts = {
            "stage": name,
            "planned": len(planned),
            "done": len(done),
            "rows": rows,
            "considers": stage.considers,
            "writes": sorted({output.table for output in all_outputs(stage.outputs)}),
        }
        asked = expected(stage, self.run, self.recipe, [unit for unit in planned if unit not in done])
        self.results.append(facts | asked)
        s = "" if len(planned) == 1 else "s"
        units_told = f"{len(planned)} unit{s}, {len(done)} done"
        self.tell(f"{name}: {units_told}; {amount(rows, stage.considers)} to consider; {in_words(asked)}")

    def train(self, asked: models.Asked = models.Asked()) -> None:  # noqa: B008
        """Train the run's model."""
        self._model_stage("train", asked)

    def evaluate(self) -> None:
        """Evaluate the run's model."""
        self._model_stage("eval")

    def _model_stage(self, name: str, asked: models.Asked = models.Asked()) -> None:  # noqa: B008
        if self._dry:
            facts, told = models.planned(self.run, self.recipe, name, asked)
            self.results.append({"stage": name, **facts})
            self.tell(f"{name}: {told}")
            return
        self._save(name)
        clean = self.flags.clean
        try:
            if name == "train":
                asked = dataclasses.replace(asked, anew=clean)
                result = models.train(self.run, self.recipe, self.view, asked)
            else:
                result = models.evaluate(self.run, self.recipe, self.view, anew=clean)
        finally:
            self.view.closed()
        self.results.append(dataclasses.asdict(result))
        self.tell(result.summary())


def write_report(run_dir: Path, as_json: bool) -> None:
    """The `report` command."""
    run = RunDir.open(run_dir)
    with run.lock():
        page = make_report(run)
    if as_json:
        print(json.dumps({"run_dir": str(run.root), "report": str(page)}))
    else:
        print(page)


def make_report(run: RunDir) -> Path:
    """Write the report of a run directory and return its page; nothing is done when nothing changed."""
    page, marker = run.root / "report" / "index.html", run.root / "report" / "run.json"
    if not any(run.parts(table) for table in ("edits", "problems", *SPLIT_TABLES)):
        raise AssayError(f"{run.root}: nothing to report yet; run a stage first")
    facts = [path for path in run.root.rglob("*.json*") if "report" not in path.relative_to(run.root).parts]
    told = {str(path.relative_to(run.root)): shards.file_sha256(path) for path in facts}
    recipe = run.root / "recipe.toml"
    # Another executor leaves none.
    told["recipe.toml"] = shards.file_sha256(recipe) if recipe.exists() else ""
    key = task_key(
        "report", {"run": run.root.name}, code_digest(("assay.report", "schemas"), ("pyarrow",)), told
    )
    if page.exists() and models.recorded(marker).get("key") == key:
        return page
    from assay.report import write_report as write

    write(run, reasons())
    shards.write_text(marker, json.dumps({"key": key}) + "\n")
    return page


def reasons() -> dict[str, dict[str, str]]:
    """Stage -> reason code -> sentence, from the rooms that drop rows."""
    from labelers.commits.reasons import REASONS as COMMITS
    from labelers.programs.reasons import REASONS as PROGRAMS
    from labelers.synthetic.reasons import REASONS as SYNTHETIC
    from miner.reasons import REASONS as MINER

    programs = dict.fromkeys(("decompose", "tests", "sample", "verify"), PROGRAMS)
    return {**MINER, **COMMITS, **programs, "synthesize": SYNTHETIC}
