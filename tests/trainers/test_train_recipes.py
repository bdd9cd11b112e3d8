"""Recipe files: what is in them is what the papers tell, what they say they need is what is computed."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shlex
from pathlib import Path

import pytest

from assay.recipe import Recipe
from schemas.errors import AssayError
from trainers.__main__ import settings_of
from trainers.hardware import SHAPES, USABLE
from trainers.recipes import (
    FACTS,
    forecasts,
    load,
    needs,
    path,
    planned,
    recipes,
    table_of_all,
    with_needs,
)

DOCS = Path(__file__).resolve().parents[2] / "docs" / "recipes.md"
THEMIS = [name for name in FACTS if name.startswith("themis")]


def test_every_file_is_a_recipe_and_every_recipe_a_file() -> None:
    assert sorted(recipes()) == sorted(file.stem for file in path("swe-rm-small").parent.glob("*.toml"))


@pytest.mark.parametrize("name", FACTS)
def test_a_recipe_is_read_by_both_commands_and_says_the_same_to_each(name: str) -> None:
    assert load(name) == settings_of(path(name)) == Recipe.load(path(name)).train


@pytest.mark.parametrize("name", FACTS)
def test_what_a_recipe_says_it_needs_is_what_is_computed(name: str) -> None:
    text = path(name).read_text()
    assert needs(name) in text
    assert with_needs(text, name) == text, "run python -m trainers.recipes --write"


@pytest.mark.parametrize("name", FACTS)
def test_a_recipe_fits_the_devices_that_its_hours_are_for(name: str) -> None:
    plan = planned(name)
    assert plan.memory.total <= USABLE * plan.device.memory
    fewest = forecasts(name)[FACTS[name].device]
    assert fewest is not None
    assert fewest.devices <= plan.devices


@pytest.mark.parametrize("name", FACTS)
def test_a_recipe_names_the_model_that_its_needs_are_computed_for(name: str) -> None:
    model = load(name).model
    if model.startswith("models/"):
        model = load(model.removeprefix("models/")).model
    assert model == SHAPES[FACTS[name].shape].model


@pytest.mark.parametrize("name", FACTS)
def test_the_command_of_a_recipe_runs_it_on_as_many_processes_and_writes_under_its_name(name: str) -> None:
    head = path(name).read_text().partition("[train]")[0]
    lines = head.partition("# Run it")[2].splitlines()[1:]
    words = shlex.split(" ".join(line.removeprefix("#").removesuffix("\\") for line in lines))
    at = words.index("-m", 1)
    assert words[at + 1 : at + 3] == ["trainers", f"trainers/recipes/{name}.toml"]
    assert words[words.index("--out") + 1] == f"models/{name}"
    given = dict(itertools.pairwise(words))
    processes = int(given.get("--nnodes", "1")) * int(given.get("--nproc-per-node", "1"))
    assert processes == FACTS[name].devices
    assert (words[0] == "torchrun") == (processes > 1)


@pytest.mark.parametrize("size", ["0.6b", "1.7b", "4b", "8b", "14b", "32b"])
def test_themis_has_the_settings_of_its_papers_table(size: str) -> None:
    general, code = (load(f"themis-{stage}-{size}") for stage in ("pt", "pm"))
    for config in (general, code):
        assert config.objective == "bt"
        assert (config.betas, config.eps, config.weight_decay) == ((0.9, 0.95), 1e-8, 0.1)
        assert (config.schedule, config.warmup_ratio, config.precision) == ("cosine", 0.05, "bf16")
        assert config.magnitude == "centered"
    told = ("epochs", "magnitude_weight", "lm_weight", "lr", "clip", "max_length", "batch_size")
    assert [getattr(general, name) for name in told] == [2, 0.01, 0.4, 2e-5, 2.0, 2560, 1024]
    assert [getattr(code, name) for name in told] == [1, 0.001, 0.25, 1e-5, 1.5, 4096, 512]
    assert general.lr * general.min_lr_ratio == pytest.approx(1e-5)
    assert code.lr * code.min_lr_ratio == pytest.approx(5e-7)
    assert code.model == f"models/themis-pt-{size}"


def test_themis_is_planned_for_the_gpus_of_its_paper() -> None:
    assert [FACTS[name].devices for name in THEMIS] == [8, 8, 16, 32, 32, 64, 8, 8, 16, 32, 64, 128]


def test_the_step_recipes_keep_conflicts_and_have_points_of_reference_of_their_own() -> None:
    for name in ("step-ktoder-1.5b", "step-ktoder-3b", "step-ktoder-6.7b"):
        config = load(name)
        assert (config.objective, config.conflicts, config.step_reference) == ("step-kto", "keep", "per_step")
        assert config.together > 1


def test_the_verifier_recipes_answer_with_one_token_and_take_two_resolved_to_each_unresolved() -> None:
    for name in ("swe-rm-30b-a3b", "swe-rm-30b-a3b-lora", "swe-rm-small"):
        config = load(name)
        assert (config.objective, config.yes_token, config.no_token, config.positives) == (
            "yesno",
            "YES",
            "NO",
            2.0,
        )
    assert load("swe-rm-30b-a3b-lora").lora_rank > 0
    assert FACTS["swe-rm-30b-a3b-lora"].devices == 8
    assert FACTS["swe-rm-small"].devices == 1


def test_a_name_that_is_not_there_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(
        AssayError, match=r"themis-pm-4: no such training recipe; did you mean themis-pm-4b\?"
    ):
        path("themis-pm-4")
    with pytest.raises(AssayError, match="there are themis-pt-0"):
        load("../config")


def test_a_text_without_the_lines_on_needs_is_refused() -> None:
    with pytest.raises(AssayError, match="has no lines that begin with '# What it needs'"):
        with_needs("[train]\n", "swe-rm-small")


def test_the_documents_table_is_the_computed_one() -> None:
    text = DOCS.read_text()
    found = text.partition("<!-- python -m trainers.recipes -->\n")[2].partition("<!-- end -->")[0]
    assert found == table_of_all()


def test_the_documents_example_gives_the_output_that_it_shows() -> None:
    code, shown = re.search(r"```python\n(.*?)```\n\n(.*?)\n\n", DOCS.read_text(), re.DOTALL).groups()  # type: ignore[union-attr]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue().strip() == shown
