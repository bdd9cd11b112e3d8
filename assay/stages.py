"""The stages that make tables: what each reads, writes and depends on.

`STAGES` lists them in the order in which data flows. `units` plans one with its task keys;
`pipeline` gives the datatrove steps, which any datatrove executor runs as they are:

    LocalPipelineExecutor(pipeline=pipeline(stage, run, recipe, units), tasks=len(units)).run()

Rooms are imported when a stage is planned or run, so that the command line starts fast.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.recipe import Recipe
from schemas.errors import AssayError
from schemas.ids import digest_files, digest_json, task_key
from schemas.rundir import RunDir, outputs_of
from schemas.stage import VERDICTS, Output, Unit

if TYPE_CHECKING:
    from labelers.llm import ModelConfig, Request
    from schemas.steps import UnitStep


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage.

    Attributes:
        name: its command and the name in sidecars.
        considers: what a row of its accounting is, in the plural.
        outputs: folders that it writes; the first one's sidecars carry the accounting.
        code: packages whose source goes into its task keys.
        libraries: distributions whose version does, since they decide bytes.
        settings: the parts of the recipe that go into its keys: tables, or values of some.
        plan: cut it into units.
        step: make its datatrove step.
        asks: the model that it may ask and how often a row at most; None where it asks none.
        facts: what to tell beside the accounting once it is done, with a line for a person under
            `line`, null for none.
        requests: for units, the models that it asks and the very requests, as far as they are known before.
        wants: what a recipe must have for this stage, when it has not: the stage is then left out of a
            command that runs several.
    """

    name: str
    considers: str
    outputs: tuple[Output, ...]
    code: tuple[str, ...]
    libraries: tuple[str, ...]
    settings: Callable[[Recipe], list[Any]]
    plan: Callable[[RunDir, Recipe, int | None], list[Unit]]
    step: Callable[[Recipe, Path], UnitStep]
    asks: Callable[[Recipe], tuple[ModelConfig, int]] | None = None
    facts: Callable[[RunDir, Recipe], dict[str, Any]] | None = None
    requests: Callable[[Recipe, Path, Sequence[Unit]], list[tuple[ModelConfig, Iterator[Request]]]] | None = (
        None
    )
    wants: Callable[[Recipe], str | None] | None = None


def _given(recipe: Recipe, what: str) -> list[str]:
    """The paths (or URLs) of a source; an error when the recipe names none."""
    paths: tuple[str, ...] = getattr(recipe.sources, what)
    if not paths:
        raise AssayError(f"no {what} given: name them on the command line or in the recipe's [sources]")
    return list(paths)


def _mine() -> Any:
    import miner.steps

    return miner.steps


def _decontaminated(run: RunDir, recipe: Recipe) -> dict[str, Any]:
    from miner.decontaminate import facts_of

    return facts_of(recipe.decontaminate, run)


def _leakage(run: RunDir, _: Recipe) -> dict[str, Any]:
    from miner.leakage import splits_facts

    return splits_facts(run)


def _pairs_leakage(run: RunDir, recipe: Recipe) -> dict[str, Any]:
    from miner.leakage import pairs_facts

    return pairs_facts(recipe.split, recipe.decontaminate, recipe.dedup, run)


def _commits() -> Any:
    import labelers.commits.steps

    return labelers.commits.steps


def _programs() -> Any:
    import labelers.programs.steps

    return labelers.programs.steps


def _synthetic() -> Any:
    import labelers.synthetic.steps

    return labelers.synthetic.steps


# Functions of a program, where a dry run has to guess what will be asked of each.
_FUNCTIONS = 4


def _completions(run: RunDir, recipe: Recipe) -> dict[str, Any]:
    """What of the given files of completions was of no use."""
    from labelers.programs.completions import check

    if not recipe.sample.completions:
        return {"line": None}
    rows = run.rows("problems", columns=("id", "name"))
    return check(recipe.sample.completions, {row[name] for row in rows for name in ("id", "name")})


def _asked(model: ModelConfig, wanted: int) -> list[dict[str, Any]]:
    """What of a model goes into the keys of a stage; nothing where it is not asked."""
    return [model.key_settings()] if wanted and model.enabled else []


def _view_settings(recipe: Recipe) -> Any:
    """What the stages after `cut` have in common."""
    return _commits().Settings(
        label=recipe.label,
        evidence=recipe.evidence,
        vote=recipe.vote,
        instruct=recipe.instruct,
        build=recipe.build,
        judges=recipe.voting,
        writer=recipe.model if recipe.model.enabled else None,
        seed=recipe.seed,
    )


# Settings of `build` that say what is put forward, and by which the measures and votes on it are weighed.
_OF_VIEWS = ("level", "max_tokens", "min_confidence", "min_single_intent")
_OF_DECISIONS = ("evidence", "trade_offs")


def _views(recipe: Recipe) -> list[Any]:
    """The settings by which views are found and put forward, and no others: measuring anew takes long."""
    build = {name: getattr(recipe.build, name) for name in _OF_VIEWS}
    return [recipe.label, build, {"min_score": recipe.vote.min_score if recipe.voting else None}]


def _voting(recipe: Recipe) -> list[dict[str, Any]]:
    """What of the judges goes into keys."""
    return [one.key_settings() for one in recipe.voting]


def _needs_judge(recipe: Recipe) -> str | None:
    return None if recipe.voting else "a model: name it by --model, or several in [[judges]] of the recipe"


def _needs_writer(recipe: Recipe) -> str | None:
    return None if recipe.model.enabled else "a model: name it by --model or in [model] of the recipe"


def _writing(recipe: Recipe) -> list[dict[str, Any]]:
    """What of the model that writes goes into keys."""
    return _asked(recipe.model, 1)


_MINER = ("miner", "decompose", "schemas")
_COMMITS = ("labelers.commits", "labelers.prompts", "schemas")
_EVIDENCE = (*_COMMITS, "labelers.programs", "sandbox", "decompose")
_ASKED = (*_COMMITS, "labelers.llm", "decompose")
_PROGRAMS = ("labelers.programs", "labelers.llm", "labelers.prompts", "sandbox", "decompose", "schemas")
_GIT = ("pyarrow", "pygit2")
_TREES = ("pyarrow", "tree-sitter", "tree-sitter-python")
_GRAMMARS = (
    *_TREES,
    *("tree-sitter-c", "tree-sitter-c-sharp", "tree-sitter-cpp", "tree-sitter-go", "tree-sitter-java"),
    *("tree-sitter-javascript", "tree-sitter-kotlin", "tree-sitter-php", "tree-sitter-ruby"),
    *("tree-sitter-rust", "tree-sitter-scala", "tree-sitter-swift", "tree-sitter-typescript"),
)

STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(
            name="repositories",
            considers="repositories",
            outputs=outputs_of("repositories"),
            code=_MINER,
            libraries=_GIT,
            settings=lambda recipe: [recipe.repositories],
            plan=lambda run, recipe, limit: _mine().plan_repositories(
                recipe.repositories,
                _given(recipe, "repos"),
                recipe.sources.metadata,
                run.root / _mine().STORE,
                limit,
                recipe.fetch,
            ),
            step=lambda recipe, root: _mine().DescribeRepositories(recipe.repositories, root, recipe.seed),
        ),
        Stage(
            name="mine",
            considers="commits",
            outputs=outputs_of("edits"),
            code=_MINER,
            libraries=_GIT,
            settings=lambda recipe: [recipe.mine],
            plan=lambda _, recipe, limit: _mine().plan_mine(
                recipe.mine, _given(recipe, "repos"), limit, recipe.fetch
            ),
            step=lambda recipe, root: _mine().MineEdits(recipe.mine, root, recipe.seed),
        ),
        Stage(
            name="select",
            considers="edits",
            outputs=(VERDICTS,),
            code=_MINER,
            libraries=(*_GRAMMARS, "py3langid"),
            settings=lambda recipe: [recipe.select],
            plan=lambda run, _, limit: _mine().plan_select(run, limit),
            step=lambda recipe, root: _mine().SelectEdits(recipe.select, root, recipe.seed),
        ),
        Stage(
            name="dedup",
            considers="edits",
            outputs=(VERDICTS,),
            code=_MINER,
            libraries=("pyarrow", "numpy", "rensa"),
            settings=lambda recipe: [recipe.dedup],
            plan=lambda run, _, limit: _mine().plan_dedup(run, limit),
            step=lambda recipe, root: _mine().DedupEdits(recipe.dedup, root, recipe.seed),
        ),
        Stage(
            name="decontaminate",
            considers="edits",
            outputs=(VERDICTS,),
            code=_MINER,
            libraries=("pyarrow", "numpy"),
            settings=lambda recipe: [recipe.decontaminate],
            plan=lambda run, recipe, limit: _mine().plan_decontaminate(recipe.decontaminate, run, limit),
            step=lambda recipe, root: _mine().DecontaminateEdits(recipe.decontaminate, root, recipe.seed),
            facts=_decontaminated,
        ),
        Stage(
            name="label",
            considers="edits",
            outputs=outputs_of("labels"),
            code=_COMMITS,
            libraries=("pyarrow",),
            settings=lambda recipe: [recipe.label],
            plan=lambda run, recipe, limit: _commits().plan_label(run, recipe.label, limit),
            step=lambda recipe, root: _commits().LabelEdits(recipe.label, root),
        ),
        Stage(
            name="split",
            considers="edits",
            outputs=outputs_of("splits"),
            code=_MINER,
            libraries=("pyarrow", "numpy", "rensa"),
            settings=lambda recipe: [recipe.split, recipe.decontaminate, recipe.dedup],
            plan=lambda run, _, limit: _mine().plan_split(run, limit),
            step=lambda recipe, root: _mine().SplitEdits(
                recipe.split, recipe.decontaminate, recipe.dedup, root, recipe.seed
            ),
            facts=_leakage,
        ),
        Stage(
            name="cut",
            considers="edits",
            outputs=outputs_of("excerpts"),
            code=_MINER,
            libraries=_GRAMMARS,
            settings=lambda recipe: [recipe.cut],
            plan=lambda run, _, limit: _mine().plan_cut(run, limit),
            step=lambda recipe, root: _mine().CutEdits(recipe.cut, root, recipe.seed),
        ),
        Stage(
            name="evidence",
            considers="labels",
            outputs=outputs_of("evidence"),
            code=_EVIDENCE,
            libraries=(*_GRAMMARS, "bandit", "lizard", "ruff", "ty"),
            settings=lambda recipe: [*_views(recipe), recipe.evidence],
            plan=lambda run, recipe, limit: _commits().plan_evidence(run, _view_settings(recipe), limit),
            step=lambda recipe, root: _commits().MeasureEvidence(_view_settings(recipe), root),
        ),
        Stage(
            name="vote",
            considers="labels",
            outputs=outputs_of("votes"),
            code=_ASKED,
            libraries=("pyarrow", "pygit2", "jinja2"),
            settings=lambda recipe: [*_views(recipe), recipe.vote, *_voting(recipe)],
            plan=lambda run, recipe, limit: _commits().plan_vote(run, _view_settings(recipe), limit),
            step=lambda recipe, root: _commits().VoteOnViews(_view_settings(recipe), root),
            requests=lambda recipe, root, units: (
                _commits().VoteOnViews(_view_settings(recipe), root).requests(units)
            ),
            wants=_needs_judge,
        ),
        Stage(
            name="instruct",
            considers="labels",
            outputs=outputs_of("instructions"),
            code=_ASKED,
            libraries=("pyarrow", "jinja2", "py3langid", *_GRAMMARS),
            settings=lambda recipe: [
                *_views(recipe),
                {name: getattr(recipe.build, name) for name in _OF_DECISIONS},
                recipe.instruct,
                *_voting(recipe),
                *_writing(recipe),
            ],
            plan=lambda run, recipe, limit: _commits().plan_instruct(run, _view_settings(recipe), limit),
            step=lambda recipe, root: _commits().WriteInstructions(_view_settings(recipe), root),
            requests=lambda recipe, root, units: (
                _commits().WriteInstructions(_view_settings(recipe), root).requests(units)
            ),
            wants=_needs_writer,
        ),
        Stage(
            name="build",
            considers="labels",
            outputs=outputs_of("pairs"),
            code=(*_COMMITS, "decompose"),
            libraries=("pyarrow", "jinja2", *_GRAMMARS),
            settings=lambda recipe: [
                *_views(recipe),
                recipe.build,
                recipe.instruct,
                *_voting(recipe),
                *_writing(recipe),
            ],
            plan=lambda run, recipe, limit: _commits().plan_build(run, _view_settings(recipe), limit),
            step=lambda recipe, root: _commits().BuildPairs(_view_settings(recipe), root),
            facts=_pairs_leakage,
        ),
        Stage(
            name="problems",
            considers="problems",
            outputs=outputs_of("problems"),
            code=_MINER,
            libraries=("pyarrow",),
            settings=lambda recipe: [recipe.importing],
            plan=lambda _, recipe, limit: _mine().plan_problems(
                recipe.importing, _given(recipe, "problems"), limit
            ),
            step=lambda recipe, root: _mine().ImportProblems(recipe.importing, root, recipe.seed),
        ),
        Stage(
            name="decompose",
            considers="problems",
            outputs=outputs_of("programs"),
            code=_PROGRAMS,
            libraries=_GRAMMARS,
            settings=lambda recipe: [recipe.decompose, *_asked(recipe.model, recipe.decompose.rewrites)],
            plan=lambda run, _, limit: _programs().plan_decompose(run, limit),
            step=lambda recipe, root: _programs().DecomposeProblems(
                recipe.decompose, root, recipe.seed, recipe.model
            ),
            asks=lambda recipe: (recipe.model, recipe.decompose.rewrites),
        ),
        Stage(
            name="tests",
            considers="programs",
            outputs=(*outputs_of("tests"), *outputs_of("suites")),
            code=_PROGRAMS,
            libraries=_GRAMMARS,
            settings=lambda recipe: [recipe.tests, *_asked(recipe.model, recipe.tests.assertions)],
            plan=lambda run, _, limit: _programs().plan_tests(run, limit),
            step=lambda recipe, root: _programs().HarvestTests(recipe.tests, root, recipe.seed, recipe.model),
            asks=lambda recipe: (recipe.model, _FUNCTIONS * recipe.tests.assertions),
        ),
        Stage(
            name="sample",
            considers="programs",
            outputs=outputs_of("candidates"),
            code=_PROGRAMS,
            libraries=_GRAMMARS,
            settings=lambda recipe: [
                recipe.sample,
                *_asked(recipe.policy, recipe.sample.completions_each),
            ],
            plan=lambda run, recipe, limit: _programs().plan_sample(run, limit, recipe.sample),
            step=lambda recipe, root: _programs().SampleCandidates(
                recipe.sample, root, recipe.seed, recipe.policy
            ),
            asks=lambda recipe: (recipe.policy, recipe.sample.completions_each),
            facts=_completions,
        ),
        Stage(
            name="verify",
            considers="candidates",
            outputs=outputs_of("steps"),
            code=_PROGRAMS,
            libraries=_GRAMMARS,
            settings=lambda recipe: [recipe.verify, *_asked(recipe.model, recipe.verify.judge)],
            plan=lambda run, recipe, limit: _programs().plan_verify(run, limit, recipe.verify, recipe.model),
            step=lambda recipe, root: _programs().VerifyCandidates(
                recipe.verify, root, recipe.seed, recipe.model
            ),
            asks=lambda recipe: (recipe.model, _FUNCTIONS * recipe.verify.judge),
        ),
        Stage(
            name="synthesize",
            considers="programs",
            outputs=outputs_of("synthetic"),
            code=("labelers", "sandbox", "decompose", "schemas"),
            libraries=_GRAMMARS,
            settings=lambda recipe: [
                recipe.synthesize,
                recipe.label,
                recipe.build,
                *_asked(recipe.model, recipe.synthesize.bugs),
            ],
            plan=lambda run, recipe, limit: _synthetic().plan_synthesize(run, limit, recipe.label),
            step=lambda recipe, root: _synthetic().SynthesizePairs(
                recipe.synthesize, root, recipe.seed, recipe.label, recipe.build, recipe.model
            ),
            requests=lambda recipe, root, units: (
                _synthetic()
                .SynthesizePairs(
                    recipe.synthesize, root, recipe.seed, recipe.label, recipe.build, recipe.model
                )
                .requests(units)
            ),
        ),
        Stage(
            name="preferences",
            considers="preferences",
            outputs=outputs_of("preferences"),
            code=_MINER,
            libraries=("pyarrow",),
            settings=lambda recipe: [recipe.preferences],
            plan=lambda _, recipe, limit: _mine().plan_preferences(
                recipe.preferences, _given(recipe, "preferences"), limit
            ),
            step=lambda recipe, root: _mine().ImportPreferences(recipe.preferences, root, recipe.seed),
        ),
        Stage(
            name="trajectories",
            considers="trajectories",
            outputs=outputs_of("trajectories"),
            code=_MINER,
            libraries=("pyarrow",),
            settings=lambda recipe: [recipe.importing],
            plan=lambda _, recipe, limit: _mine().plan_trajectories(
                recipe.importing, [Path(path) for path in _given(recipe, "trajectories")], limit
            ),
            step=lambda recipe, root: _mine().ImportTrajectories(recipe.importing, root, recipe.seed),
        ),
    )
}


@functools.cache
def code_digest(packages: tuple[str, ...], libraries: tuple[str, ...]) -> str:
    """A digest of packages' source and data files and of libraries' versions."""
    files: list[Path] = []
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(package)
        for root in spec.submodule_search_locations:
            files += [
                path for path in Path(root).rglob("*") if path.is_file() and "__pycache__" not in path.parts
            ]
    versions = {name: importlib.metadata.version(name) for name in libraries}
    return digest_json({"source": digest_files(files), "libraries": versions})


def units(stage: Stage, run: RunDir, recipe: Recipe, limit: int | None) -> list[Unit]:
    """Plan a stage: its units with their keys.

    Raises:
        AssayError: what it reads is missing or cannot be used.
    """
    config = [one if isinstance(one, dict) else dataclasses.asdict(one) for one in stage.settings(recipe)]
    code = code_digest(stage.code, stage.libraries)
    planned = stage.plan(run, recipe, limit)
    return [
        dataclasses.replace(
            unit,
            key=task_key(
                stage.name,
                {"config": config, "seed": recipe.seed, "unit": unit.name, "rows": unit.rows},
                code,
                unit.inputs,
            ),
        )
        for unit in planned
    ]


def pipeline(stage: Stage, run: RunDir, recipe: Recipe, planned: list[Unit]) -> list[Any]:
    """The stage as datatrove steps, for any datatrove executor."""
    from schemas.steps import ShardWriter, UnitReader

    return [
        UnitReader(run.root, stage.name, stage.outputs, planned),
        stage.step(recipe, run.root),
        ShardWriter(run.root, stage.name, stage.outputs),
    ]
