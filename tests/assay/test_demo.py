"""`assay demo` from history to report on a repository of our own, and on one without a usable commit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import datasets
import polars as pl
import pyarrow.parquet as pq
import pytest
from cli_runs import assay, git

from schemas.declare import schema_of
from schemas.records import TABLES

TABLES_MADE = ("edits", "verdicts", "labels", "pairs", "problems", "programs", "tests", "candidates", "steps")
QUICK = ("--set", "train.max_steps=3", "--set", "train.max_length=96", "--set", "mine.commits_per_unit=60")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, repo: Path, problems: Path) -> Path:
    run_dir = tmp_path_factory.mktemp("demo") / "run"
    ran = assay("demo", "--repo", repo, "--problems", problems, "--run-dir", run_dir, *QUICK)
    assert ran.code == 0, ran.err
    assert str(run_dir / "report" / "index.html") in ran.err
    return run_dir


def shards_of(run_dir: Path, table: str) -> list[str]:
    return sorted(str(path) for path in (run_dir / table).rglob("part-*.parquet"))


@pytest.mark.parametrize("table", TABLES_MADE)
def test_every_table_has_rows_and_one_schema_for_all_readers(demo: Path, table: str, tmp_path: Path) -> None:
    files = shards_of(demo, table)
    wanted = schema_of(TABLES[table])
    assert all(pq.read_schema(file).equals(wanted) for file in files)
    rows = sum(pq.read_metadata(file).num_rows for file in files)
    assert rows > 0
    assert pl.concat([pl.read_parquet(file) for file in files]).shape == (rows, len(wanted))
    loaded = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path))
    assert loaded.num_rows == rows
    assert loaded.column_names == wanted.names


def test_nothing_disappears_on_the_way(demo: Path) -> None:
    for path in demo.rglob("part-*.json"):
        counted = json.loads(path.read_text())["accounting"]
        if counted is not None:
            assert counted["rows_in"] == counted["kept"] + sum(counted["drops"].values())
    ids = {
        table: pl.concat([pl.read_parquet(file) for file in shards_of(demo, table)])
        for table in ("edits", "verdicts")
    }
    mined = ids["verdicts"].filter(pl.col("stage") == "mine").height
    assert ids["edits"].height + mined == 200


def test_steps_carry_both_labels_and_spans_that_cut_the_function(demo: Path) -> None:
    rows = [row for file in shards_of(demo, "steps") for row in pq.read_table(file).to_pylist()]
    assert {row["outcome"] for row in rows} == {0, 1}
    assert {step["label"] for row in rows for step in row["steps"]} >= {0, 1}
    for row in rows:
        for step in row["steps"]:
            if step["label"] is not None:
                text = row["completion"].encode()[step["start_byte"] : step["end_byte"]].decode()
                assert text.startswith(f"def {step['name']}(")


def test_model_loads_without_custom_code_and_results_are_told(demo: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(demo / "models" / "rm")
    assert type(model).__name__ == "Qwen3ForSequenceClassification"
    assert model.config.num_labels == 1
    assert AutoTokenizer.from_pretrained(demo / "models" / "rm").chat_template
    results = json.loads((demo / "models" / "rm" / "eval" / "results.json").read_text())
    assert results["pairs"] == sum(pq.read_metadata(f).num_rows for f in shards_of(demo, "pairs/test"))
    assert set(results) >= {"overall", "by_aspect", "by_language"}


def test_report_and_status_tell_the_same_counts(demo: Path) -> None:
    ran = assay("status", "--run-dir", demo, "--json")
    facts = json.loads(ran.out)
    assert facts["models"] == {"rm": {"trained": True, "unfinished": False, "evaluated": True}}
    assert facts["report"] is True
    mined = next(stage for stage in facts["stages"] if stage["stage"] == "mine")
    assert mined["done"] == mined["units"] == 4
    page = (demo / "report" / "index.html").read_text()
    assert f"{mined['rows_in']:,}" in page
    assert "message_too_short" in page


def test_second_demo_makes_nothing_again(demo: Path, repo: Path, problems: Path) -> None:
    ran = assay("demo", "--repo", repo, "--problems", problems, "--run-dir", demo, "--json")
    assert ran.code == 0, ran.err
    for stage in json.loads(ran.out)["stages"]:
        if "units" in stage:
            assert stage["skipped"] == stage["units"], stage
        elif stage["stage"] in ("train", "eval"):
            assert stage["done"] == "already"


def test_model_whose_weights_are_gone_is_trained_again(demo: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(demo, run_dir)
    weights = run_dir / "models" / "rm" / "model.safetensors"
    before = weights.read_bytes()
    weights.unlink()
    ran = assay("train", "--run-dir", run_dir)
    assert ran.code == 0, ran.err
    assert weights.read_bytes() == before


def test_model_folder_that_is_no_model_is_left_alone(demo: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(demo, run_dir)
    (run_dir / "models" / "rm" / "run.json").unlink()
    ran = assay("train", "--run-dir", run_dir)
    assert ran.code == 2
    assert "exists and is not a trained model" in ran.err
    assert (run_dir / "models" / "rm" / "model.safetensors").exists()


def test_verified_bytes_do_not_depend_on_workers(
    demo: Path, tmp_path: Path, problems: Path, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    flags = ("--run-dir", tmp_path / "run", "--workers", "4", "--set", "importing.rows_per_part=4")
    for stage in (("problems", problems), ("decompose",), ("verify",)):
        assert assay(*stage, *flags).code == 0
    other = contents(tmp_path / "run")
    same = {name: data for name, data in contents(demo).items() if name in other}
    assert same == other
    assert any(name.startswith("steps/") for name in other)


def test_repository_without_a_usable_commit_gives_empty_valid_shards(tmp_path: Path, problems: Path) -> None:
    git("init", "--quiet", tmp_path / "plain")
    (tmp_path / "plain" / "notes.txt").write_text("x\n")
    git("-C", tmp_path / "plain", "add", ".")
    git(
        "-C",
        tmp_path / "plain",
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@x",
        "commit",
        "-qm",
        "Add some notes here",
    )
    ran = assay("demo", "--repo", tmp_path / "plain", "--problems", problems, "--run-dir", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert "no usable commit" in ran.err
    for table in ("edits", "labels", "pairs"):
        files = shards_of(tmp_path / "run", table)
        assert files
        assert all(pq.read_table(file).equals(schema_of(TABLES[table]).empty_table()) for file in files)
    assert (tmp_path / "run" / "report" / "index.html").exists()
    assert not (tmp_path / "run" / "models").exists()
