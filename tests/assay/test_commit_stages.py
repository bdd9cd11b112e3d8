"""The stages from `label` to `build` in a row: limits, changed settings, budgets, missing tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars
import pytest
from cli_runs import assay, make_repo

from assay.flags import Flags, with_models
from assay.recipe import Recipe
from assay.stages import STAGES
from labelers.llm import ModelConfig
from schemas.errors import AssayError
from schemas.stage import VERDICTS, all_outputs, maker_of

QUICK = ("--set", "evidence.lint=false", "--set", "evidence.run=false")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 60 commits that is labelled."""
    folder = tmp_path_factory.mktemp("commit-stages")
    run = folder / "run"
    assert assay("mine", make_repo(folder / "project.git", 60), "--run-dir", run).code == 0
    assert assay("label", "--run-dir", run).code == 0
    return run


@pytest.fixture(scope="module")
def built(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of it that is built."""
    run = Path(shutil.copytree(labelled, tmp_path_factory.mktemp("built") / "run"))
    done = assay("build", "--run-dir", run, "--model", "rules", "--limit", 20, *QUICK)
    assert done.code == 0, done.err
    return run


@pytest.fixture
def run(labelled: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(labelled, tmp_path / "run"))


def test_a_limit_is_the_same_edits_to_every_stage(run: Path) -> None:
    done = assay("build", "--run-dir", run, "--model", "rules", "--limit", 15, "--json", *QUICK)
    assert done.code == 0, done.err
    drops = {reason for stage in json.loads(done.out)["stages"] for reason in stage["drops"]}
    assert not drops & {"no_split", "too_long"}
    cut = set(polars.read_parquet(run / "excerpts/*.parquet")["edit_id"])
    for table in ("evidence", "votes"):
        seen = set(polars.read_parquet(run / f"{table}/*.parquet")["edit_id"])
        assert seen
        assert seen <= cut


@pytest.mark.parametrize(
    "setting", ["label.criteria_file=error-handling", "label.classifier=terms", "label.min_score=0.9"]
)
def test_labels_given_under_other_settings_are_not_gone_on_with(setting: str, run: Path) -> None:
    changed = ("--run-dir", run, "--set", setting)
    assert assay("cut", "--run-dir", run).code == 0
    for command in (("vote", "--model", "rules"), ("evidence", *QUICK), ("build", *QUICK)):
        refused = assay(*command, *changed)
        assert (refused.code, refused.err.count("Traceback")) == (2, 0), refused.err
        assert "run `assay label` first" in refused.err
    assert assay("label", *changed).code == 0
    assert assay("vote", "--model", "rules", "--run-dir", run).code == 0


def test_a_budget_holds_for_every_model_of_the_recipe() -> None:
    recipe = Recipe(judges=(ModelConfig(model="a", budget_usd=20.0), ModelConfig(model="b")))
    settings = with_models(Flags(), 0.5, model="c").settings
    asked = recipe.override(settings or [])
    assert [one.budget_usd for one in (*asked.voting, asked.model, asked.policy)] == [0.5] * 4


def test_a_setting_of_all_judges_changes_nothing_else_of_them() -> None:
    recipe = Recipe(judges=(ModelConfig(model="a", price_in=1.0, price_out=2.0), ModelConfig(model="b")))
    asked = recipe.override(["judges.retries=1"])
    assert asked.judges == (
        ModelConfig(model="a", price_in=1.0, price_out=2.0, retries=1),
        ModelConfig(model="b", retries=1),
    )


@pytest.mark.parametrize("setting", ["judges.retrys=1", "judges={retrys = 1}"])
def test_an_unknown_setting_of_judges_is_refused(setting: str) -> None:
    with pytest.raises(AssayError, match="did you mean 'retries'"):
        Recipe(judges=(ModelConfig(model="a"),)).override([setting])


def test_a_setting_of_judges_that_are_not_there_is_refused() -> None:
    with pytest.raises(AssayError, match="there are no judges"):
        Recipe().override(["judges.model=a"])


@pytest.mark.parametrize("broken", ["replay", "cache"])
def test_a_file_of_calls_that_is_none_ends_the_command_with_one_line(broken: str, run: Path) -> None:
    assert assay("cut", "--run-dir", run).code == 0
    bad = run / "calls.sqlite"
    bad.write_bytes(b"no database at all" * 100)
    replay = ("--set", "model.model=x", "--set", f"model.replay={bad}")
    refused = assay("vote", "--run-dir", run, *(replay if broken == "replay" else ("--model", "rules")))
    assert refused.code == 2
    assert refused.err.startswith("assay: ")
    assert refused.err.count("\n") == 1, refused.err


@pytest.mark.parametrize(
    ("setting", "again"),
    [
        ("build.source=X", {"build"}),
        ("build.system_none=0.5", {"build"}),
        ("build.trade_offs=mark", {"instruct", "build"}),
        ("build.evidence=keep", {"instruct", "build"}),
        ("instruct.kind=mixed", {"instruct", "build"}),
        ("build.level=function", {"evidence", "vote", "instruct", "build"}),
        ("build.max_tokens=50", {"evidence", "vote", "instruct", "build"}),
        ("vote.min_score=0.3", {"evidence", "vote", "instruct", "build"}),
        ("vote.samples=1", {"vote"}),
    ],
)
def test_a_changed_setting_makes_again_what_hangs_on_it_alone(
    setting: str, again: set[str], built: Path
) -> None:
    told = assay("build", "--run-dir", built, "--set", setting, "--dry-run", "--json", "--limit", 20)
    stages = json.loads(told.out)["stages"]
    assert {one["stage"] for one in stages if one["done"] < one["planned"]} == again


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_mistyped_recording_does_not_stay_in_the_recipe(more: tuple[str, ...], run: Path) -> None:
    assert assay("cut", "--run-dir", run).code == 0
    before = (run / "recipe.toml").read_bytes()
    mistyped = ("--set", "model.model=x", "--set", "model.replay=nowhere.sqlite")
    refused = assay("vote", "--run-dir", run, *mistyped, *more)
    assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
    assert "nowhere.sqlite" in refused.err
    assert (run / "recipe.toml").read_bytes() == before


def test_a_model_named_anew_leaves_what_belonged_to_the_last_one() -> None:
    served = {"model": "x", "base_url": "http://localhost:1/v1", "batch": True}
    replayed = {"model": "x", "replay": "calls.sqlite"}
    ruled = with_models(Flags(), None, model="rules").settings or []
    asked = with_models(Flags(), None, model="y", model_url="http://localhost:2/v1").settings or []
    for before in (served, replayed):
        recipe = Recipe(model=ModelConfig(**before))
        assert recipe.override(ruled).model == ModelConfig(model="rules")
        assert recipe.override(asked).model.kind == "openai"
    kept = Recipe(model=ModelConfig(**served)).override(with_models(Flags(), None, model="y").settings or [])
    assert (kept.model.model, kept.model.base_url) == ("y", served["base_url"])


def test_a_language_that_nobody_speaks_is_refused() -> None:
    with pytest.raises(AssayError, match="ISO 639-1"):
        Recipe().override(["instruct.spoken=english"])
    assert Recipe().override(["instruct.spoken=uk"]).instruct.spoken == "uk"


def test_judges_can_be_added_at_the_end_of_a_runs_recipe(run: Path) -> None:
    saved = run / "recipe.toml"
    saved.write_text(f'{saved.read_text()}\n[[judges]]\nmodel = "a"\n\n[[judges]]\nmodel = "b"\n')
    assert [one.model for one in Recipe.load(saved).voting] == ["a", "b"]
    assert assay("cut", "--run-dir", run, "--set", "judges.retries=1").code == 0
    assert [(one.model, one.retries) for one in Recipe.load(saved).judges] == [("a", 1), ("b", 1)]


def test_a_missing_table_is_told_with_the_command_that_makes_it(run: Path) -> None:
    refused = assay("vote", "--model", "rules", "--run-dir", run)
    assert refused.code == 2
    assert "run `assay cut` first" in refused.err


def test_every_table_of_a_stage_is_known_to_be_made_by_it() -> None:
    made = [(stage.name, output.table) for stage in STAGES.values() for output in all_outputs(stage.outputs)]
    for stage, table in made:
        assert maker_of(f"verdicts/{stage}" if table == VERDICTS.table else table) == stage
