"""The dataset card: its front matter, its counts, and what a hostile row or recipe cannot do to it."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from push_runs import RECIPE, candidate, new_run, pair, plan, put, trajectory

from schemas.card import code, dataset_card, public_recipe
from schemas.errors import AssayError, ShardError
from schemas.records import TABLES, VoteCount
from schemas.rundir import RunDir

NAME = "me/some-pairs"


def front(card: str) -> dict[str, Any]:
    match = re.match(r"---\n(.*?)^---\n", card, re.S | re.M)
    assert match
    found: dict[str, Any] = yaml.safe_load(match[1])
    return found


def body(card: str) -> str:
    return card.split("\n---\n", 1)[1]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return new_run(tmp_path / "run")


def test_front_matter_names_a_config_a_table_and_only_splits_with_rows(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(1), pair(2, split="test")])
    put(run, "steps", "b", [candidate()])
    found = front(dataset_card(run, NAME, RECIPE))
    assert [config["config_name"] for config in found["configs"]] == ["pairs", "steps"]
    assert found["configs"][0]["data_files"] == [
        {"split": "train", "path": "pairs/train/*.parquet"},
        {"split": "test", "path": "pairs/test/*.parquet"},
    ]
    assert found["configs"][1]["data_files"] == [{"split": "train", "path": "steps/train/*.parquet"}]
    assert [config.get("default") for config in found["configs"]] == [True, None]
    assert found["language"] == ["code", "en"]
    assert "text-ranking" in found["task_categories"]


@pytest.mark.parametrize(
    ("spdx", "hub"),
    [("Apache-2.0", "apache-2.0"), ("GPL-3.0-only", "gpl-3.0"), ("LGPL-2.1-or-later", "lgpl-2.1")],
)
def test_one_licence_becomes_the_hubs_own_id(run: RunDir, spdx: str, hub: str) -> None:
    put(run, "pairs", "a", [pair(1, license=spdx)])
    found = front(dataset_card(run, NAME, RECIPE))
    assert found["license"] == hub
    assert "license_name" not in found


@pytest.mark.parametrize(
    ("licenses", "name", "details"),
    [
        (["MIT", "MIT", "Zlib"], "mixed", "MIT (2 rows); Zlib (1 row)"),
        ([None], "unknown", "not known (1 row)"),
        (["MIT", None], "mixed", "MIT (1 row); not known (1 row)"),
        (["My-Own-1.0"], "not-listed", "My-Own-1.0 (1 row)"),
    ],
)
def test_other_licences_are_listed(run: RunDir, licenses: list[str | None], name: str, details: str) -> None:
    put(run, "pairs", "a", [pair(number, license=one) for number, one in enumerate(licenses)])
    found = front(dataset_card(run, NAME, RECIPE))
    assert (found["license"], found["license_name"], found["license_details"]) == ("other", name, details)


def test_trajectories_without_a_licence_column_make_the_licence_unknown(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(1, license="MIT")])
    put(run, "trajectories", "b", [trajectory()])
    assert front(dataset_card(run, NAME, RECIPE))["license"] == "other"


def test_size_category_counts_rows_of_all_tables(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(number) for number in range(999)])
    assert front(dataset_card(run, NAME, RECIPE))["size_categories"] == ["n<1K"]
    put(run, "steps", "b", [candidate()])
    assert front(dataset_card(run, NAME, RECIPE))["size_categories"] == ["1K<n<10K"]


def test_counts_of_criterion_by_language(run: RunDir) -> None:
    rows = [pair(1), pair(2), pair(3, language="Go"), pair(4, aspect="Memory Efficiency", split="test")]
    put(run, "pairs", "a", rows)
    card = dataset_card(run, NAME, RECIPE)
    assert "| `Functional Correctness` | 2 | 1 | 3 |" in card
    assert "| `Memory Efficiency` | 1 | 0 | 1 |" in card


def test_languages_beyond_the_columns_are_summed_not_lost(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(number, language=f"L{number:02d}") for number in range(20)])
    line = next(line for line in dataset_card(run, NAME, RECIPE).splitlines() if "`Functional" in line)
    cells = [int(cell) for cell in line.strip("| ").split(" | ")[1:]]
    assert cells[-1] == sum(cells[:-1]) == 20


def test_funnel_sums_units_and_tells_what_a_reason_means(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(1)], drops={"no_criterion": 3})
    put(run, "pairs", "b", [pair(2)], drops={"no_criterion": 1, "odd": 1})
    card = dataset_card(run, NAME, RECIPE, {"build": {"no_criterion": "no criterion is supported"}})
    assert "| `build` | 7 | 2 | 5 |" in card
    assert "| `build` | `no_criterion` | no criterion is supported | 4 |" in card


def test_steps_are_counted_by_outcome_and_label(run: RunDir) -> None:
    put(run, "steps", "a", [candidate(1), candidate(2, outcome=1), candidate(3, outcome=None)])
    card = dataset_card(run, NAME, RECIPE)
    assert "| passed | 1 | 0 |" in card
    assert "| failed | 1 | 3 |" in card
    assert "| no verdict | 1 | 3 |" in card


def labelled(number: int, *labels: tuple[int | None, int | None, int | None], **changed: Any) -> Any:
    """A candidate with functions of these labels: beside the reference's, beside its own, a judge's."""
    row = candidate(number)
    steps = [
        dataclasses.replace(
            row.steps[0],
            label=reference,
            reference_label=reference,
            own_label=own,
            judge_label=judge,
            mutation_score=0.5 if reference is not None else None,
        )
        for reference, own, judge in labels
    ]
    return dataclasses.replace(row, steps=steps, **changed)


def test_each_label_of_functions_is_told_apart(run: RunDir) -> None:
    rows = [
        labelled(1, (1, 0, 1), (0, 0, None), trust="inproc"),
        labelled(2, (1, 1, 0), (None, None, None), conflict="o1_z0"),
    ]
    put(run, "steps", "a", rows)
    card = dataset_card(run, NAME, RECIPE)
    assert "| `label` | the one that counts | 2 | 1 | 1 |" in card
    assert "beside the reference's other functions | 2 | 1 | 1 |" in card
    assert "beside the candidate's own other functions | 1 | 2 | 1 |" in card
    assert "| `judge_label` | a model's word, without execution | 1 | 1 | 2 |" in card
    assert "`reference_label` and `own_label` agree on 66.7% of the 3 functions" in card
    assert "`judge_label` and `reference_label` agree on 50.0% of the 2 functions" in card
    assert "| `o1_z0` | 1 |" in card
    assert "| `inproc` | 1 |" in card
    assert "kill 50.0% of the faults" in card


def test_a_judge_that_nobody_asked_is_not_on_the_card(run: RunDir) -> None:
    put(run, "steps", "a", [labelled(1, (1, None, None))])
    evidence = dataset_card(run, NAME, RECIPE).split("### Columns")[0]
    assert "judge" not in evidence.split("### Evidence")[1].replace("what a judge says", "")
    assert "agree on" not in evidence


def test_labelers_and_their_confidence_are_named(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(1), pair(2, evidence={"confidence": 0.25})])
    assert "| `terms-1` | `rule` | 0.50 | 2 |" in dataset_card(run, NAME, RECIPE)


def test_judges_are_named_and_rules_are_not_called_a_model(run: RunDir) -> None:
    def votes(*judges: str) -> list[VoteCount]:
        return [
            VoteCount(judge=judge, criterion="FC", order=order, new=2, old=0, tie=0, error=0)
            for judge in judges
            for order in ("old_first", "new_first")
        ]

    said = [votes("rules"), votes("rules", "a|b"), []]
    put(run, "pairs", "a", [pair(number, evidence={"votes": one}) for number, one in enumerate(said)])
    text = dataset_card(run, NAME, RECIPE)
    assert "| judge, of both orders | pairs, of 3 |" in text
    assert "| `rules` | 2 |" in text
    assert re.search(r"^\| `a.*b` \| 1 \|$", text, re.M)
    assert "`rules` is no model" in text


def test_no_judge_is_told_of_where_none_was_asked(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(1)])
    assert "judge, of both orders" not in dataset_card(run, NAME, RECIPE)


def test_several_tables_give_each_tag_once_and_one_sentence(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(1)])
    for table in ("synthetic", "preferences"):
        put(run, table, "b", [TABLES[table](**{name: getattr(pair(2), name) for name in pair(2).__slots__})])
    card = dataset_card(run, NAME, RECIPE)
    tags = front(card)["tags"]
    assert len(tags) == len(set(tags))
    assert (
        "from the histories of git repositories, programs with planted faults, and published preference sets."
        in card
    )


def test_failed_units_are_told(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(1)])
    plan(run, "build", {"a": "key", "b": "key"}, failed=["b"])
    assert "Stage `build` failed on 1 of its units" in dataset_card(run, NAME, RECIPE)


def test_same_run_same_card(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(number, language=f"L{number % 40}") for number in range(200)])
    assert dataset_card(run, NAME, RECIPE) == dataset_card(RunDir.open(run.root), NAME, RECIPE)


def test_a_run_without_published_rows_has_no_card(run: RunDir) -> None:
    put(run, "pairs", "a", [])
    with pytest.raises(AssayError, match="nothing to publish"):
        dataset_card(run, NAME, RECIPE)


def test_a_damaged_shard_is_named(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(1)])
    run.parts("pairs", "train")[0].path.write_bytes(b"PAR1 but not really")
    with pytest.raises(ShardError, match=r"part-a\.parquet: cannot be read"):
        dataset_card(run, NAME, RECIPE)


HOSTILE = "`</code>| <img src=x onerror=alert(1)> |\n---\nlicense: mit\n# [click](https://evil) ``` \u202e"


def test_hostile_names_neither_end_a_table_row_nor_start_markup(run: RunDir) -> None:
    changed = dict.fromkeys(("language", "aspect", "license", "repo"), HOSTILE)
    put(run, "pairs", "a", [pair(1, **changed, evidence={"labeler": HOSTILE, "method": HOSTILE})])
    put(
        run,
        "steps",
        "b",
        [candidate(1, **dict.fromkeys(("language", "isolation", "limits", "trust"), HOSTILE))],
    )
    put(run, "trajectories", "c", [trajectory(1, policy=HOSTILE)], drops={HOSTILE: 1})
    card = dataset_card(run, NAME, RECIPE, {"trajectories": {HOSTILE: "x | y\nz"}})
    assert front(card)["license"] == "other"
    assert "\u202e" not in card
    fenced = False
    for line in body(card).splitlines():
        if line.startswith("```"):
            fenced = not fenced
            continue
        if fenced:
            continue
        outside = re.sub(r"`[^`]*`", "", line)
        assert "`" not in outside, line
        assert not re.search(r"<|https?:|\]\(|onerror", outside), line
    tables = re.findall(r"(?:^\|.*\n)+", body(card), re.M)
    assert len(tables) > 8
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


@given(st.text())
def test_a_code_span_holds_any_text_on_one_line(text: str) -> None:
    span = code(text)
    inside = span[1:-1] if span != "(empty)" else ""
    assert "\n" not in span
    assert "|" not in span
    assert "`" not in inside
    span.encode()


def test_paths_of_the_machine_are_not_on_the_card(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(1)])
    card = dataset_card(run, NAME, RECIPE)
    assert 'repos = ["flask"]' in card
    assert "somebody" not in card
    assert str(run.root.parent) not in card


@pytest.mark.parametrize(
    ("given_", "left"),
    [
        ("/home/me/client/app", "app"),
        ("/home/me/client/app/.git", "app"),
        ("../client/app/", "app"),
        ("C:\\Users\\me\\app", "app"),
        ("https://me:secret@host/x/app.git", "app.git"),
        (".", "."),
        ("/", "."),
    ],
)
def test_a_source_is_cut_to_its_last_part(given_: str, left: str) -> None:
    text = f"[sources]\nrepos = ['{given_}']\n"
    assert tomllib.loads(public_recipe(text)) == {"sources": {"repos": [left]}}


def test_other_settings_lose_paths_and_passwords_and_nothing_else() -> None:
    text = (
        'seed = 1\n[label]\ncriteria_file = "/home/me/mine.toml"\nshare = 0.5\nbig = inf\n'
        'names = ["org/model", "~/weights", "a\\u202eb"]\nurl = "https://me:pw@host/v1"\n'
    )
    assert tomllib.loads(public_recipe(text)) == {
        "seed": 1,
        "label": {
            "criteria_file": "mine.toml",
            "share": 0.5,
            "big": float("inf"),
            "names": ["org/model", "weights", "a\u202eb"],
            "url": "https://host/v1",
        },
    }


def test_a_recipe_with_fences_stays_inside_its_own(run: RunDir) -> None:
    put(run, "pairs", "a", [pair(1)])
    card = dataset_card(run, NAME, 'note = "````"\n')
    assert '`````toml\nnote = "````"\n`````\n' in card


def test_a_recipe_that_is_not_toml_is_named() -> None:
    with pytest.raises(AssayError, match=r"x/recipe\.toml: not valid TOML"):
        public_recipe("seed = ", "x/recipe.toml")
