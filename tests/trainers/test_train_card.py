"""The model card: of every objective, true to its run, and without secrets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from train_helpers import TINY
from trajectory_helpers import attempt, message, planted, trajectory_shard

from trainers import card
from trainers.card_text import FORMULAS, KINDS, MEASURES, SETTINGS
from trainers.config import OBJECTIVES, TrainConfig
from trainers.loop import TrainResult, train
from trainers.verify import TrajectoryVerifier


def made_run(objective: str, **other: Any) -> dict[str, Any]:
    """What `run.json` holds, with a value for every measure."""
    config = TrainConfig(objective=objective, model="/home/someone/secret/qwen").resolved().as_dict()
    measures = dict.fromkeys(MEASURES[objective], 0.25)
    return {
        "objective": objective,
        "unit": "rows",
        "config": config,
        "counts": {
            "train": {"rows": 10, "kept": 7, "dropped": {"too_long": 2, "surplus": 1}, "windowed": 3},
            "dev": {"rows": 4, "kept": 4, "dropped": {}},
            "languages": {"Python": 7},
            "sources": {"/home/someone/secret/set.jsonl": 7},
            "parameters": 1234,
            "steps": 5,
        },
        "metrics": {"dev": {**measures, "ci95": {"auc": [0.125, 0.375]}}},
        **other,
    }


def code_of(text: str) -> str:
    """The code on a card."""
    found = re.search(r"^(`{3,})python\n(.*?)\n\1$", text, re.S | re.M)
    assert found is not None
    return found[2]


def test_every_objective_has_all_that_a_card_says() -> None:
    assert set(KINDS) == set(FORMULAS) == set(SETTINGS) == set(MEASURES) == set(OBJECTIVES)
    known = TrainConfig().as_dict()
    assert not [name for names in SETTINGS.values() for name in names if name not in known]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_card_tells_use_formula_data_drops_measures_and_settings(objective: str) -> None:
    text = card.model_card(made_run(objective))
    for part in (
        *("## Intended use", FORMULAS[objective], "4 rows", "Of 10 rows, 7 were used and 3 dropped"),
        *("2 too long, 1 surplus", "Of 3 only a part was read", "| Python | 7 |", "| seed | 0 |", "not run"),
    ):
        assert part in text
    for name in MEASURES[objective]:
        assert f"| `{name}` | 0.2500 |" in text
    if "auc" in MEASURES[objective]:
        assert "| `auc` | 0.2500 | 0.1250 to 0.3750 |" in text
    for name in SETTINGS[objective]:
        assert f"| {name} |" in text
    assert "secret" not in text
    assert "set.jsonl" in text
    compile(code_of(text), "card", "exec")


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_card_shows_no_setting_that_means_nothing_to_its_objective(objective: str) -> None:
    settings = card.model_card(made_run(objective)).partition("## Settings")[2]
    others = {name for names in SETTINGS.values() for name in names} - set(SETTINGS[objective])
    assert not [name for name in others if f"| {name} |" in settings]


def test_a_run_without_held_out_rows_says_so() -> None:
    run = made_run("yesno")
    run["counts"]["dev"]["kept"] = 0
    run["metrics"]["dev"] = None
    assert "None were held out." in card.model_card(run)


def test_a_measure_that_is_not_defined_is_left_out() -> None:
    run = made_run("yesno")
    run["metrics"]["dev"]["auc_instance"] = None
    assert "`auc_instance`" not in card.model_card(run)


def test_a_card_names_a_local_model_by_its_last_part_only() -> None:
    run = made_run("bt")
    text = card.model_card(run)
    assert "`qwen`" in text
    assert "base_model" not in text
    run["config"]["model"] = "Qwen/Qwen3-0.6B"
    assert "base_model: Qwen/Qwen3-0.6B" in card.model_card(run)


def test_a_hostile_name_cannot_break_the_cards_tables_or_its_head() -> None:
    run = made_run("bt")
    run["counts"]["languages"] = {"C|\n# Pwned": 3}
    run["config"]["model"] = "Qwen/x\n---\n# Pwned"
    text = card.model_card(run)
    assert "| C\\| # Pwned | 3 |" in text
    assert yaml.safe_load(text.split("\n---\n")[0].removeprefix("---\n"))["library_name"] == "transformers"


def test_a_trained_models_card_is_that_of_its_run(trained: tuple[TrainResult, Path]) -> None:
    result, _ = trained
    text = (result.out_dir / "README.md").read_text()
    assert text == card.model_card(json.loads((result.out_dir / "run.json").read_text()))
    assert f"Trained from a two-layer Qwen3 made from scratch ({result.run['counts']['parameters']:,}" in text


def test_the_code_on_a_verifiers_card_gives_its_probability(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trajectory_shard(tmp_path / "a.parquet", planted(16))
    config = TrainConfig.from_mapping({**TINY, "objective": "yesno", "max_length": 512, "temperature": 1.5})
    result = train(config, [path], tmp_path / "verifier")
    text = (result.out_dir / "README.md").read_text()
    monkeypatch.chdir(result.out_dir)
    exec(code_of(text), {})
    shown = float(capsys.readouterr().out)
    asked = attempt(
        [
            message("user", "add(1, 2) gives -1. Fix it."),
            message("assistant", "The sign is wrong. I change it."),
        ],
        patch="--- a/add.py\n+++ b/add.py\n@@ -1 +1 @@\n-    return a - b\n+    return a + b\n",
    )
    assert TrajectoryVerifier(result.out_dir).probabilities([asked]) == pytest.approx([shown], abs=1e-6)
